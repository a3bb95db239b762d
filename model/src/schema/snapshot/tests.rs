//! Snapshots: after each change they make the same schema.

use super::*;
use crate::options::KeyspaceOptions;
use crate::schema::{
    ColumnKind, FunctionLanguage, Table, TableBuilder, TableId, UserAggregate, UserFunction,
};
use crate::types::{CqlType, UserType};

fn table(keyspace: &str, name: &str, id: u128) -> Table {
    TableBuilder::new(keyspace, name, TableId(Uuid::from_u128(id)))
        .partition_key("p", CqlType::Int)
        .and_then(|t| t.regular("v", CqlType::Text))
        .and_then(TableBuilder::build)
        .expect("a sound table")
}

fn create(table: Table) -> SchemaChange {
    SchemaChange::CreateTable(Box::new(table))
}

fn keyspace(name: &str) -> SchemaChange {
    let (name, options) = (name.to_owned(), KeyspaceOptions::default());
    SchemaChange::CreateKeyspace { name, options }
}

fn apply(schema: Schema, change: SchemaChange) -> Schema {
    let number = schema.number + 1;
    let version = Uuid::from_u128(number.into());
    schema.apply(&SchemaEntry { number, version, change }).expect("the change fits")
}

fn base() -> Schema {
    let mut base = [keyspace("system"), create(table("system", "local", 900)), keyspace("auth")]
        .into_iter()
        .fold(Schema::empty(), apply);
    (base.number, base.version) = (0, Uuid::nil());
    base
}

fn function(name: &str, body: &str) -> UserFunction {
    let definition = std::sync::Arc::new(UserType::new("ks", "u", Vec::new()));
    UserFunction {
        keyspace: "ks".to_owned(),
        name: name.to_owned(),
        arguments: vec![("a".to_owned(), CqlType::Udt { definition, frozen: false })],
        result: CqlType::Int,
        called_on_null: false,
        language: FunctionLanguage::Lua,
        body: body.to_owned(),
    }
}

fn aggregate() -> UserAggregate {
    UserAggregate {
        keyspace: "ks".to_owned(),
        name: "a".to_owned(),
        arguments: Vec::new(),
        state_function: "f".to_owned(),
        state: function("f", "").arguments[0].1.clone(),
        final_function: None,
        reduce_function: None,
        initial: None,
        result: CqlType::Int,
    }
}

/// Each change of a history with everything in it, and after each the schema is what its snapshot makes.
#[test]
fn after_each_change_the_snapshot_makes_the_same_schema() {
    let mut altered = table("ks", "t", 1);
    altered.drop_column("v", 5).expect("a regular column");
    altered.add_column("v", CqlType::Int, ColumnKind::Regular).expect("the name is free");
    let mut local = table("system", "local", 900);
    local.options.comment = "altered".to_owned();
    let user_type = |fields: usize| {
        let fields = (0..fields).map(|n| (format!("f{n}"), CqlType::Int)).collect();
        UserType::new("ks", "u", fields)
    };
    let unused = UserType::new("ks", "unused", vec![("a".to_owned(), CqlType::Blob)]);
    let named = |name: &str| ("ks".to_owned(), name.to_owned());
    let (options, dropped) = (KeyspaceOptions::default(), vec![TableId(Uuid::from_u128(70))]);
    let no_writes = KeyspaceOptions { durable_writes: false, ..options };
    let drop_table = |(keyspace, name)| SchemaChange::DropTable { keyspace, name };
    let drop_type = |(keyspace, name)| SchemaChange::DropType { keyspace, name };
    let history = [
        keyspace("ks"),
        SchemaChange::CreateType(user_type(1)),
        SchemaChange::CreateType(unused),
        create(table("ks", "t", 1)),
        SchemaChange::AlterTable(Box::new(altered)),
        create(table("ks", "gone", 2)),
        drop_table(named("gone")),
        create(table("ks", "gone", 3)),
        drop_table(named("gone")),
        create(table("ks", "back", 3)),
        drop_type(named("unused")),
        SchemaChange::AlterType { definition: user_type(3), tables: Vec::new() },
        SchemaChange::PutFunction(Box::new(function("f", "1"))),
        SchemaChange::PutFunction(Box::new(function("g", "2"))),
        SchemaChange::PutFunction(Box::new(function("f", "3"))),
        SchemaChange::PutAggregate(Box::new(aggregate())),
        SchemaChange::AlterType { definition: user_type(4), tables: Vec::new() },
        SchemaChange::DropAggregate { keyspace: "ks".to_owned(), key: aggregate().key() },
        SchemaChange::DropFunction { keyspace: "ks".to_owned(), key: function("g", "").key() },
        SchemaChange::AlterKeyspace { name: "system".to_owned(), options: no_writes },
        SchemaChange::AlterTable(Box::new(local)),
        SchemaChange::DroppedTables { ids: dropped, has_forgotten: true },
        SchemaChange::DropKeyspace { name: "auth".to_owned() },
        SchemaChange::DropKeyspace { name: "ks".to_owned() },
        keyspace("ks"),
    ];
    let (base, changes) = (base(), history.len());
    let mut schema = base.clone();
    for change in history {
        schema = apply(schema, change);
        let entries: Vec<_> = schema.snapshot(&base).expect("a true schema").collect();
        assert!(entries.len() as u64 <= schema.number);
        let numbers: Vec<u64> = entries.iter().map(|entry| entry.number).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
        let again = entries.iter().try_fold(base.clone(), |schema, entry| schema.apply(entry));
        let again = again.expect("what it says fits");
        assert_eq!((again.number, again.version), (schema.number, schema.version));
        assert!(again.keyspaces().eq(schema.keyspaces()), "{again:?} is not {schema:?}");
        assert_eq!(again.dropped, schema.dropped);
        let ids = |schema: &Schema| schema.tables().map(|table| table.id).collect::<Vec<_>>();
        assert!(ids(&again).iter().all(|id| again.table_by_id(*id).is_some()));
    }
    assert_eq!(schema.number, changes as u64);
    assert_eq!(schema.snapshot(&base).expect("a true schema").count(), 5, "what is left of it");
}

/// Before: the log of a schema that is the built-in one again was empty, and the next start counted from nothing.
#[test]
fn a_schema_that_came_back_to_nothing_keeps_its_number_and_version() {
    let base = base();
    let mut schema = base.clone();
    for change in [keyspace("ks"), SchemaChange::DropKeyspace { name: "ks".to_owned() }] {
        schema = apply(schema, change);
    }
    let entries: Vec<_> = schema.snapshot(&base).expect("a true schema").collect();
    assert_eq!(entries.len(), 1);
    let again = base.apply(&entries[0]).expect("what it says fits");
    assert_eq!((again.number, again.version), (schema.number, schema.version));
    assert_eq!(base.snapshot(&base).expect("a true schema").count(), 0);
}

#[test]
fn more_objects_than_changes_are_refused() {
    let mut schema = apply(base(), keyspace("ks"));
    schema.number = 0;
    assert!(schema.snapshot(&base()).is_err());
}

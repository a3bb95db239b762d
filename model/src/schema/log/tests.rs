//! The log's entries: there and back, as specified, and refused by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::limits::{CUSTOM_TYPE_LEVELS, TYPE_DEPTH_MAX};
use crate::options::{Class, Compaction, Given, KeyspaceOptions, Replication, TableOptions};
use crate::read::Operator;
use crate::schema::{
    Analysis, ColumnKind, FunctionLanguage, Index, IndexId, IndexKind, IndexTarget, SchemaChange,
    Table, TableBuilder, TableId, UserAggregate, UserFunction, ViewDefinition, ViewIdentity,
    ViewKey, ViewRestriction, ViewTest,
};
use crate::types::{CqlType, UserType, parse_class};

/// A small table, as ALTER TABLE leaves it.
fn table() -> Table {
    let mut table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(7)))
        .partition_key("p", CqlType::Int)
        .and_then(|t| t.clustering("c", CqlType::Timeuuid, true))
        .and_then(|t| t.regular("v", CqlType::Text))
        .and_then(TableBuilder::build)
        .unwrap();
    table.drop_column("v", 1_700_000_000_000_000).unwrap();
    let list = CqlType::List { element: Arc::new(CqlType::Text), frozen: false };
    table.add_column("l", list, ColumnKind::Regular).unwrap();
    let mut options = crate::options::TableOptions::default();
    options.set("comment", &Given::Text("it's".to_owned()), &mut Vec::new()).unwrap();
    let bytes = BTreeMap::from([("e".to_owned(), "0x00ff".to_owned())]);
    options.set("extensions", &Given::Map(bytes), &mut Vec::new()).unwrap();
    options.compaction = Compaction::of_class(Class::Leveled);
    table.options = options;
    table
}

fn user_type() -> UserType {
    let fields = vec![("a".to_owned(), CqlType::Duration)];
    let mut inner = UserType::new("ks", "inner", fields);
    inner.ended = false;
    let boxed = |ty: CqlType| Arc::new(ty);
    let set = CqlType::Set { element: boxed(CqlType::Inet), frozen: true };
    let fields = vec![
        ("udt", CqlType::Udt { definition: Arc::new(inner), frozen: true }),
        ("map", CqlType::Map { key: boxed(CqlType::Varint), value: boxed(set), frozen: true }),
        ("tuple", CqlType::Tuple([CqlType::Float, CqlType::Blob].into())),
        ("vector", CqlType::Vector { element: boxed(CqlType::Double), dimensions: 3 }),
        ("composite", class("CompositeType(Int32Type,ReversedType(ListType(UTF8Type)))")),
        ("dynamic", class("DynamicCompositeType(b=>LexicalUUIDType,a=>ReversedType(Int32Type))")),
    ];
    let fields = fields.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect();
    UserType::new("ks", "u", fields)
}

fn class(text: &str) -> CqlType {
    parse_class(text).expect("a class").ty
}

fn function() -> UserFunction {
    let list = CqlType::List { element: Arc::new(CqlType::Text), frozen: false };
    UserFunction {
        keyspace: "ks".to_owned(),
        name: "f".to_owned(),
        arguments: vec![("s".to_owned(), CqlType::Blob), ("a".to_owned(), list)],
        result: CqlType::Blob,
        called_on_null: true,
        language: FunctionLanguage::Lua,
        body: "return '\u{e9}\n' .. s".to_owned(),
    }
}

fn aggregate() -> UserAggregate {
    let CqlType::List { element, .. } = function().arguments[1].1.clone() else { unreachable!() };
    UserAggregate {
        keyspace: "ks".to_owned(),
        name: "a".to_owned(),
        arguments: vec![CqlType::List { element, frozen: false }],
        state_function: "f".to_owned(),
        state: CqlType::Blob,
        final_function: Some("g".to_owned()),
        reduce_function: None,
        initial: Some(vec![0, 0xFF]),
        result: CqlType::Text,
    }
}

/// A table that hides its only value.
fn compact_table() -> Table {
    TableBuilder::new("ks", "d", TableId(Uuid::from_u128(8)))
        .partition_key("p", CqlType::Int)
        .and_then(|t| t.clustering("c", CqlType::Int, false))
        .and_then(TableBuilder::compact)
        .and_then(TableBuilder::build)
        .unwrap()
}

/// A table with an index of each kind, one of them after one that was dropped.
fn indexed_table() -> Table {
    let mut table = table();
    let kinds = [
        (IndexKind::Plain, IndexTarget::Values, None),
        (IndexKind::StorageAttached, IndexTarget::Full, Some("sai")),
        (IndexKind::Sasi, IndexTarget::Keys, Some("org.apache.cassandra.index.sasi.SASIIndex")),
        (IndexKind::Plain, IndexTarget::Entries, None),
        (IndexKind::Plain, IndexTarget::Value, None),
    ];
    for (at, (kind, target, class)) in kinds.into_iter().enumerate() {
        let index = Index {
            id: IndexId(0),
            name: format!("i{at}"),
            column: table.column("l").unwrap().id,
            target,
            kind,
            class: class.map(str::to_owned),
            options: BTreeMap::from([("ascii".to_owned(), "true".to_owned())]),
            analysis: Analysis { case_sensitive: false, normalize: at > 2, ascii: true },
        };
        table.add_index(index).unwrap();
    }
    assert!(table.drop_index("i0"));
    table
}

/// A view of the table, with a restriction of each kind.
fn view_of(table: &Table) -> Table {
    let id = |name| table.column(name).unwrap().id;
    let test = |operator, values: &[&[u8]]| {
        let values = values.iter().map(|value| (*value).into()).collect();
        Some(ViewTest { operator, values })
    };
    let restrictions = vec![
        ViewRestriction { column: id("p"), test: None },
        ViewRestriction { column: id("p"), test: test(Operator::In, &[&[0, 0, 0, 1], &[]]) },
        ViewRestriction { column: id("c"), test: test(Operator::LessOrEqual, &[&[7; 16]]) },
    ];
    let definition = ViewDefinition { base: table.id, include_all: true, restrictions };
    let key = ViewKey { partition: vec![id("c")], clustering: vec![(id("p"), true)] };
    let (id_of_view, options) = (TableId(Uuid::from_u128(70)), TableOptions::default());
    let identity = ViewIdentity { id: id_of_view, name: "view".to_owned(), options };
    Table::view_of(table, identity, &key, &[id("l")], definition).unwrap()
}

/// A change of every kind.
fn changes() -> Vec<SchemaChange> {
    let (name, keyspace) = ("t".to_owned(), "ks".to_owned());
    let factors = BTreeMap::from([("dc".to_owned(), 3)]);
    let simple = KeyspaceOptions { durable_writes: false, ..KeyspaceOptions::default() };
    let networked = KeyspaceOptions {
        replication: Replication::NetworkTopology(factors),
        ..KeyspaceOptions::default()
    };
    vec![
        SchemaChange::CreateKeyspace { name: keyspace.clone(), options: simple },
        SchemaChange::AlterKeyspace { name: keyspace.clone(), options: networked },
        SchemaChange::CreateTable(Box::new(table())),
        SchemaChange::AlterTable(Box::new(table())),
        SchemaChange::CreateTable(Box::new(compact_table())),
        SchemaChange::AlterTable(Box::new(indexed_table())),
        SchemaChange::CreateTable(Box::new(view_of(&table()))),
        SchemaChange::AlterTables(vec![table(), view_of(&table())]),
        SchemaChange::DropTable { keyspace: keyspace.clone(), name: name.clone() },
        SchemaChange::CreateType(user_type()),
        SchemaChange::AlterType { definition: user_type(), tables: vec![table()] },
        SchemaChange::DropType { keyspace: keyspace.clone(), name },
        SchemaChange::DropKeyspace { name: keyspace },
        SchemaChange::DroppedTables { ids: vec![table().id], has_forgotten: true },
        SchemaChange::PutFunction(Box::new(function())),
        SchemaChange::DropFunction { keyspace: "ks".to_owned(), key: function().key() },
        SchemaChange::PutAggregate(Box::new(aggregate())),
        SchemaChange::DropAggregate { keyspace: "ks".to_owned(), key: aggregate().key() },
    ]
}

fn entry(change: SchemaChange) -> SchemaEntry {
    SchemaEntry { number: 3, version: Uuid::from_u128(9), change }
}

fn text(change: SchemaChange) -> String {
    String::from_utf8(encode(&entry(change))).unwrap()
}

fn damage(bytes: &str) -> String {
    match decode(bytes.as_bytes(), &mut Vec::new()) {
        Err(Unreadable::Damaged(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_change_comes_back() {
    for change in changes() {
        let mut warnings = Vec::new();
        let back = decode(&encode(&entry(change.clone())), &mut warnings);
        assert_eq!(back, Ok(entry(change)));
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
fn the_bytes_are_as_specified() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/FORMAT.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (before, example) = document.rsplit_once("```json\n").unwrap();
    let given = text(SchemaChange::AlterTable(Box::new(table())));
    if std::env::var_os("MESSINA_BLESS").is_some() {
        let lines = given.replace(",\"", ",\n\"");
        std::fs::write(path, format!("{before}```json\n{lines}\n```\n")).unwrap();
        return;
    }
    let specified: String = example.trim_end_matches("```\n").lines().collect();
    assert_eq!(given, specified);
}

#[test]
fn what_is_not_understood_is_named() {
    let whole = text(SchemaChange::CreateTable(Box::new(table())));
    for (from, to, what) in [
        ("\"name\":\"t\"", "\"nome\":\"t\"", "unknown field `nome`"),
        ("\"next_column\":4", "\"next_column\":3", "column l has no id of its own"),
        ("\"Timeuuid\"", "\"Timeuuuid\"", "unknown variant `Timeuuuid`"),
        ("\"PartitionKey\"", "\"Clustering\"", "table ks.t:"),
        ("\"id\":3", "\"id\":0", "two columns have one id"),
        ("\"comment\":", "\"commment\":", "table ks.t has an option 'commment'"),
        ("\"CreateTable\"", "\"CreateView\"", "unknown variant `CreateView`"),
        ("\"number\":3,", "", "missing field `number`"),
    ] {
        assert!(whole.contains(from), "{from}");
        let found = damage(&whole.replacen(from, to, 1));
        assert!(found.contains(what), "{found}");
    }
    for cut in 0..whole.len() {
        assert!(decode(&whole.as_bytes()[..cut], &mut Vec::new()).is_err(), "{cut}");
    }
}

#[test]
fn a_newer_format_is_refused_by_number() {
    let newer = r#"{"format":9,"anything":["at all"]}"#;
    assert_eq!(decode(newer.as_bytes(), &mut Vec::new()), Err(Unreadable::Newer(9)));
}

/// What the shape of a struct decided before: an option or a field that an old log lacks.
#[test]
fn an_option_that_is_missing_has_its_default() {
    let whole = text(SchemaChange::CreateTable(Box::new(table())));
    let without = whole.replacen("\"gc_grace_seconds\":864000,", "", 1);
    assert_ne!(without, whole);
    let back = decode(without.as_bytes(), &mut Vec::new());
    assert_eq!(back, Ok(entry(SchemaChange::CreateTable(Box::new(table())))));
}

#[test]
fn an_option_that_is_refused_today_is_said() {
    let whole = text(SchemaChange::CreateTable(Box::new(table())));
    let class = "org.apache.cassandra.db.compaction.LeveledCompactionStrategy";
    let pair = format!("\"class\":\"{class}\"");
    let decoded = |more: &str| {
        let mut warnings = Vec::new();
        let changed = whole.replacen(&pair, &format!("{pair},{more}"), 1);
        let entry = decode(changed.as_bytes(), &mut warnings).unwrap();
        let SchemaChange::CreateTable(table) = entry.change else { panic!("a table") };
        (table.options.compaction.clone(), warnings)
    };
    let (compaction, warnings) = decoded("\"no_longer\":\"x\",\"fanout_size\":\"4\"");
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(compaction.pairs().get("no_longer").map(String::as_str), Some("x"));
    let crate::options::Strategy::Leveled(leveled) = compaction.strategy() else { panic!() };
    assert_eq!(leveled.fanout, 4);
    let (compaction, warnings) = decoded("\"fanout_size\":\"-4\"");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("table ks.t: option 'compaction'"), "{warnings:?}");
    let default = Compaction::of_class(Class::Leveled);
    assert_eq!(compaction.strategy(), default.strategy());
}

/// Bytes that ef9011a wrote (`server/testdata/kept`).
#[test]
fn an_entry_of_the_first_format_is_read() {
    let entry = r#"{"number":4,"version":"2fa122f0-6a61-42ae-97e7-73d0e678c369","change":{"CreateTable":{"id":"084ec0ac-caac-4ef2-a0dc-4cf8ed89c0a2","keyspace":"gone","name":"t","options":{"additional_write_policy":"99p","allow_auto_snapshot":true,"bloom_filter_fp_chance":0.01,"caching":{"keys":"ALL","rows_per_partition":"NONE"},"cdc":false,"comment":"","compaction":{"class":"org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy","max_threshold":"32","min_threshold":"4"},"compression":{"chunk_length_in_kb":"4","class":"org.apache.cassandra.io.compress.LZ4Compressor"},"crc_check_chance":1.0,"default_time_to_live":0,"extensions":{"a":[1,255]},"gc_grace_seconds":864000,"incremental_backups":true,"max_index_interval":2048,"memtable":"default","memtable_flush_period_in_ms":0,"min_index_interval":128,"read_repair":"BLOCKING","speculative_retry":"99p"},"dropped":[],"columns":[{"id":0,"name":"k","ty":"Int","kind":"PartitionKey","position":0,"descending":false},{"id":1,"name":"v","ty":"Text","kind":"Regular","position":0,"descending":false}],"partition_key_count":1,"clustering_count":0,"next_column":2}}}"#;
    let mut warnings = Vec::new();
    let read = decode(entry.as_bytes(), &mut warnings).unwrap();
    let SchemaChange::CreateTable(table) = read.change else { panic!("a table") };
    assert_eq!((table.partition_key().len(), table.columns().len()), (1, 2));
    assert_eq!(table.options.extensions["a"], [1, 255]);
    let mut options = table.options.clone();
    options.extensions.clear();
    assert_eq!(options, crate::options::TableOptions::default());
    assert!(warnings.is_empty());
}

/// What CREATE accepts must be readable when the server starts: JSON is read 128 levels deep.
#[test]
fn the_deepest_type_that_is_allowed_is_read_back() {
    let user = |ty: CqlType| {
        let definition = Arc::new(UserType::new("ks", "u", vec![("a".to_owned(), ty)]));
        CqlType::Udt { definition, frozen: true }
    };
    let list = |ty: CqlType| CqlType::List { element: Arc::new(ty), frozen: true };
    let tuple = |ty: CqlType| CqlType::Tuple([ty].into());
    let wraps: [&dyn Fn(CqlType) -> CqlType; 4] = [&user, &list, &tuple, &|ty| user(list(ty))];
    for wrap in wraps {
        let mut ty = CqlType::Int;
        let mut levels = 0;
        while wrap(ty.clone()).check_limits().is_ok() {
            ty = wrap(ty);
            levels += 1;
        }
        assert!(levels >= 11, "{levels} levels of {ty}");
        let mut deep = table();
        deep.add_column("deep", ty, ColumnKind::Regular).unwrap();
        deep.drop_column("deep", 5).unwrap();
        let fields = vec![("a".to_owned(), CqlType::Int)];
        let (definition, tables) = (UserType::new("ks", "v", fields), vec![deep]);
        let written = entry(SchemaChange::AlterType { definition, tables });
        assert_eq!(decode(&encode(&written), &mut Vec::new()), Ok(written));
    }
}

/// As deep as types may be, a composite in a composite comes back from JSON.
#[test]
fn the_deepest_composite_comes_back() {
    let nested = |levels: usize| {
        class(&("CompositeType(".repeat(levels) + "Int32Type" + &")".repeat(levels)))
    };
    let levels = (TYPE_DEPTH_MAX / CUSTOM_TYPE_LEVELS) as usize;
    assert!(nested(levels).check_limits().is_err());
    let deepest = nested(levels - 1);
    assert_eq!(deepest.check_limits(), Ok(()));
    let fields = vec![("f".to_owned(), deepest)];
    let change = entry(SchemaChange::CreateType(UserType::new("ks", "u", fields)));
    assert_eq!(decode(&encode(&change), &mut Vec::new()), Ok(change));
}

//! The schema before anybody changed it: the keyspaces of `system.cql`, made by our own parser.
//!
//! Table ids are made of the names, so they are the same on every node and after every start.

use cql::ddl::{DdlContext, plan};
use cql::expr::function::NoUserFunctions;
use cql::guardrails::Guardrails;
use cql::lang::ast::{SchemaStatement, Statement};
use model::options::{KeyspaceOptions, Replication};
use model::schema::{Schema, SchemaChange, SchemaEntry, TableId};
use uuid::Uuid;

use super::{DEFINITIONS, is_computed};

/// The built-in keyspaces and tables, at version 0.
pub(crate) fn base_schema() -> Schema {
    let mut schema = Schema::empty();
    for name in model::schema::system::names() {
        let replication =
            if is_computed(name) { Replication::Local } else { Replication::Simple(1) };
        let options = KeyspaceOptions { replication, ..KeyspaceOptions::default() };
        let change = SchemaChange::CreateKeyspace { name: name.to_owned(), options };
        schema = apply(&schema, change);
    }
    for statement in DEFINITIONS.split(";\n").filter(|text| text.contains("CREATE TABLE")) {
        schema = apply(&schema, planned(statement, &schema));
    }
    schema
}

fn apply(schema: &Schema, change: SchemaChange) -> Schema {
    let entry = SchemaEntry { number: 0, version: Uuid::nil(), change };
    schema.apply(&entry).expect("the built-in schema is sound")
}

fn planned(statement: &str, schema: &Schema) -> SchemaChange {
    let parsed = cql::lang::parse(statement).expect("the built-in tables are CQL");
    let Statement::Schema(statement @ SchemaStatement::CreateTable(create)) = &parsed.statement
    else {
        unreachable!("system.cql has nothing but tables")
    };
    let name = format!("{}.{}", create.name.keyspace.as_deref().unwrap_or(""), create.name.name);
    let context = DdlContext {
        schema,
        keyspace: None,
        is_system: |_| false,
        data_center: "",
        table_id: TableId(Uuid::new_v3(&Uuid::NAMESPACE_OID, name.as_bytes())),
        timestamp_us: 0,
        functions: &NoUserFunctions,
        functions_enabled: false,
        drop_compact_storage: false,
        sasi_indexes: false,
        guardrails: &Guardrails::default(),
    };
    plan(statement, &context).expect("the built-in tables are sound").step.expect("a new table").0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_table_is_there_with_the_same_id_each_time() {
        let (one, two) = (base_schema(), base_schema());
        assert!(one.tables().count() > 60);
        assert_eq!(one.table("system", "local"), two.table("system", "local"));
        let local = one.table("system", "local").expect("it is built in");
        assert_eq!(local.columns().len(), 20);
        assert!(one.table("system_schema", "columns").is_some());
    }
}

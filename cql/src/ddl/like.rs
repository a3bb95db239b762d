//! CREATE TABLE .. LIKE: a new table of the columns and options of another one, without its rows.
//!
//! 1. The source, the keyspace and the name are looked up, in the order and the words of Cassandra (CEP-43,
//!    `CopyTableStatement`).
//! 2. In another keyspace the user types of the columns must be there, made of the same fields: those are taken.
//! 3. Options after WITH are set on those of the source.
//!
//! Invariants: dropped columns stay behind, and column ids are the new table's own. Not here: what every new table
//! must be (`table.rs`).

use std::collections::BTreeMap;

use model::schema::{ColumnKind, Keyspace, SchemaChange, Table, TableBuilder};
use model::types::{CqlType, UserType};

use super::{Ddl, DdlContext, Object, options, table};
use crate::error::{Error, Result};
use crate::lang::ast::CreateTableLike;

pub(super) fn create(context: &DdlContext<'_>, create: &CreateTableLike) -> Result<Ddl> {
    let keyspace_name = context.keyspace_of(&create.name)?;
    let name = &create.name.name;
    let source = source(context, create)?;
    let missing = || Error::invalid(format!("Target Keyspace '{keyspace_name}' doesn't exist"));
    let keyspace = context.schema.keyspace(keyspace_name).ok_or_else(missing)?;
    if table::is_there(keyspace, name, create.if_not_exists)? {
        return Ok(Ddl::nothing());
    }
    table::check_table_name(keyspace_name, name)?;
    check_types(source, keyspace)?;
    if let Some(what) = create.parts.first() {
        return Err(Error::invalid(format!(
            "CREATE TABLE LIKE WITH {what} is not supported: only its columns and options can be copied"
        )));
    }
    if create.properties.iter().any(|(name, _)| name == "id") {
        return Err(Error::Config("Cannot alter table id.".to_owned()));
    }
    let mut warnings = Vec::new();
    let options = options::apply(&source.options, &create.properties, &mut warnings)?;
    let mut table = TableBuilder::new(keyspace_name, name, context.table_id).options(options);
    for column in source.columns() {
        let ty = column.ty.with_user_types(&|known| keyspace.types.get(&known.name).cloned());
        let name = &column.name;
        table = match column.kind {
            ColumnKind::PartitionKey => table.partition_key(name, ty)?,
            ColumnKind::Clustering => table.clustering(name, ty, column.descending)?,
            ColumnKind::Static => table.stat(name, ty)?,
            ColumnKind::Regular => table.regular(name, ty)?,
        };
    }
    if source.is_compact() {
        table = table.compact_like(source)?;
    }
    let table = table.build()?;
    table::check_counter_options(&table)?;
    let change = SchemaChange::CreateTable(Box::new(table));
    Ok(Ddl::step(change, "CREATED", keyspace_name, Object::Table(name.clone()), warnings))
}

/// The table that is copied.
fn source<'g>(context: &DdlContext<'g>, create: &CreateTableLike) -> Result<&'g Table> {
    let table = &create.source.name;
    let keyspace = context.named_keyspace(&create.source)?;
    let Some(found) = context.schema.keyspace(keyspace) else {
        return Err(Error::invalid(format!("Source Keyspace '{keyspace}' doesn't exist")));
    };
    let Some(found) = found.tables.get(table) else {
        return Err(Error::invalid(format!("Source Table '{keyspace}.{table}' doesn't exist")));
    };
    if found.view().is_some() {
        return Err(Error::invalid(format!(
            "Cannot use CREATE TABLE LIKE on a materialized view '{keyspace}.{table}'."
        )));
    }
    if (context.is_system)(keyspace) {
        return Err(Error::invalid(format!(
            "Cannot use CREATE TABLE LIKE on a table of the node itself '{keyspace}.{table}'."
        )));
    }
    Ok(found)
}

/// Refuses a keyspace that lacks a user type of the source's columns, or has another one of that name.
fn check_types(source: &Table, keyspace: &Keyspace) -> Result<()> {
    let mut used = BTreeMap::new();
    source.columns().iter().for_each(|column| user_types(&column.ty, &mut used));
    let mut missing = Vec::new();
    for (name, known) in used {
        match keyspace.types.get(name) {
            None => missing.push(name),
            Some(other) if has_same_fields(known, other) => {}
            Some(_) => {
                return Err(Error::invalid(format!(
                    "Target keyspace '{}' has same UDT name '{name}' as source keyspace '{}' but with different structure.",
                    keyspace.name, source.keyspace
                )));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "UDTs {} do not exist in target keyspace '{}'.",
        missing.join(", "),
        keyspace.name
    )))
}

/// Adds the user types that a type is made of, by their names.
fn user_types<'t>(ty: &'t CqlType, used: &mut BTreeMap<&'t str, &'t UserType>) {
    if let CqlType::Udt { definition, .. } = ty
        && used.insert(&definition.name, definition).is_some()
    {
        return;
    }
    ty.parts().into_iter().for_each(|part| user_types(part, used));
}

/// Whether two user types of one name are made of the same fields; those that their fields are made of are asked for
/// themselves.
fn has_same_fields(one: &UserType, other: &UserType) -> bool {
    let fields = |ty: &UserType| -> Vec<(String, String)> {
        ty.fields.iter().map(|(name, ty)| (name.clone(), ty.to_string())).collect()
    };
    fields(one) == fields(other)
}

#[cfg(test)]
mod tests {
    use crate::testing::Database;

    fn database() -> Database {
        let mut db = Database::new();
        db.ok("CREATE TYPE inner (a int)");
        db.ok("CREATE TYPE outer (i frozen<inner>, b text)");
        db.ok("CREATE TABLE t (k int, c frozen<outer>, s int static, v int, m map<text, frozen<inner>>,
                   PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)
               AND comment = 'of t' AND gc_grace_seconds = 77");
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        db.ok(&format!("CREATE KEYSPACE other WITH replication = {replication}"));
        db
    }

    #[test]
    fn a_table_like_another_has_its_columns_and_options_and_no_rows() {
        let mut db = database();
        db.ok("INSERT INTO t (k, c, s, v) VALUES (1, {i: {a: 2}, b: 'b'}, 3, 4)");
        db.ok("ALTER TABLE t DROP v");
        db.ok("CREATE TABLE n LIKE t WITH comment = 'of n' AND default_time_to_live = 5");
        let (t, n) = (&db.schema.table("ks", "t").unwrap(), db.schema.table("ks", "n").unwrap());
        assert_eq!((&*n.options.comment, n.options.default_time_to_live), ("of n", 5));
        assert_eq!((n.options.gc_grace_seconds, &*t.options.comment), (77, "of t"));
        assert_eq!((n.dropped.len(), t.dropped.len()), (0, 1));
        assert!(n.clustering()[0].descending && n.has_statics());
        assert_eq!(db.ok("SELECT * FROM n"), "");
        db.ok("INSERT INTO n (k, c, s) VALUES (1, {i: {a: 2}, b: 'b'}, 5)");
        assert_eq!(db.ok("SELECT s FROM n"), "5");
        assert_eq!(db.ok("SELECT s FROM t"), "3");
    }

    /// Before: it hid `column1`, which was free by then.
    #[test]
    fn a_copy_of_a_compact_table_hides_columns_of_the_same_names_after_a_rename() {
        let mut db = database();
        db.ok("CREATE TABLE s (column1 int PRIMARY KEY, v int) WITH COMPACT STORAGE");
        db.ok("ALTER TABLE s RENAME column1 TO k");
        db.ok("CREATE TABLE n LIKE s");
        let hidden = |name: &str| -> Vec<String> {
            let table = db.schema.table("ks", name).expect("it was made");
            table.hidden().iter().map(|column| column.name.clone()).collect()
        };
        assert_eq!(hidden("s"), ["column2", "value"]);
        assert_eq!(hidden("n"), hidden("s"));
    }

    #[test]
    fn in_another_keyspace_the_user_types_are_those_of_there() {
        let mut db = database();
        let create = "CREATE TABLE other.n LIKE ks.t";
        assert_eq!(db.err(create), "UDTs inner, outer do not exist in target keyspace 'other'.");
        db.ok("CREATE TYPE other.inner (a int)");
        assert_eq!(db.err(create), "UDTs outer do not exist in target keyspace 'other'.");
        db.ok("CREATE TYPE other.outer (i frozen<inner>, b int)");
        assert_eq!(
            db.err(create),
            "Target keyspace 'other' has same UDT name 'outer' as source keyspace 'ks' but with different structure."
        );
        db.ok("DROP TYPE other.outer");
        db.ok("CREATE TYPE other.outer (i frozen<inner>, b text)");
        db.ok(create);
        let n = db.schema.table("other", "n").unwrap().clone();
        let keyspace = db.schema.keyspace("other").unwrap();
        let of_there = |name: &str| {
            let ty = keyspace.types[name].clone();
            crate::ddl::like::CqlType::Udt { definition: ty, frozen: true }
        };
        assert_eq!(n.column("c").unwrap().ty, of_there("outer"));
        assert_eq!(n.column("m").unwrap().ty.parts()[1], &of_there("inner"));
        // It is the type of there that goes on with it.
        assert!(db.err("DROP TYPE other.outer").contains("n"), "a table holds it");
        db.ok("ALTER TYPE other.inner ADD z int");
    }

    #[test]
    fn what_cannot_be_copied_is_refused() {
        let mut db = database();
        for (text, error) in [
            ("CREATE TABLE n LIKE no.t", "Source Keyspace 'no' doesn't exist"),
            ("CREATE TABLE n LIKE x", "Source Table 'ks.x' doesn't exist"),
            ("CREATE TABLE no.n LIKE t", "Target Keyspace 'no' doesn't exist"),
            ("CREATE TABLE t LIKE t", "Cannot add already existing table \"t\" to keyspace \"ks\""),
            ("CREATE TABLE n LIKE t WITH id = '5'", "Cannot alter table id."),
            ("CREATE TABLE n LIKE t WITH nope = 1", "Unknown property 'nope'"),
            (
                "CREATE TABLE n LIKE t WITH indexes",
                "CREATE TABLE LIKE WITH INDEXES is not supported",
            ),
            (
                "CREATE TABLE n LIKE t WITH comment = 'a' AND SECURITY LABELS",
                "CREATE TABLE LIKE WITH SECURITY LABELS is not supported",
            ),
            (
                "CREATE TABLE n LIKE t WITH COMMENTS",
                "CREATE TABLE LIKE WITH COMMENTS is not supported",
            ),
            ("CREATE TABLE n LIKE t WITH COMPACT STORAGE", "line 1:"),
            ("CREATE TABLE n LIKE t (k int)", "line 1:"),
        ] {
            let found = db.err(text);
            assert!(found.starts_with(error), "{text}: {found}");
        }
        db.ok("CREATE TABLE IF NOT EXISTS t LIKE t");
        db.ok("CREATE TABLE IF NOT EXISTS n LIKE t");
    }
}

//! Whether the rows of a snapshot can be read by the definition that their table has now.
//!
//! Rows name columns by ids, and say nothing of types. A table that was altered since has the columns of the snapshot
//! still, or has dropped them, and knows their ids. One that came back from another snapshot, and was altered then, may
//! have given an id to another column: its rows would be read as something else.
//!
//! Not here: tables that are not there (they are made as they were).

use model::CqlType;
use model::schema::{Column, ColumnId, ColumnKind, Table};

/// Why rows that were written by the definition `then` cannot be read by `now`; `None` if they can.
pub(super) fn difference(then: &Table, now: &Table) -> Option<String> {
    if then.is_compact() && !now.is_compact() {
        // DROP COMPACT STORAGE showed what was hidden, and left the files as they are.
        let mut shown = then.clone();
        shown.drop_compact_storage();
        return difference(&shown, now);
    }
    let key = |table: &Table| (table.partition_key().len(), table.clustering().len());
    if key(then) != key(now) {
        return Some("it has another primary key now".to_owned());
    }
    all(then).find_map(|column| column_difference(column, now))
}

/// The columns of a table, those that were dropped last.
fn all(table: &Table) -> impl Iterator<Item = &Column> {
    table.columns().iter().chain(table.dropped.iter().map(|dropped| &dropped.column))
}

fn column_difference(then: &Column, now: &Table) -> Option<String> {
    let Some(there) = all(now).find(|column| column.id == then.id) else {
        return Some(format!("the column {} is unknown to it now", then.name));
    };
    let is_key = then.kind < ColumnKind::Static;
    // Only columns of the key can be renamed.
    let is_same = there.kind == then.kind
        && there.descending == then.descending
        && there.position == then.position
        && (is_key || there.name == then.name);
    let was = describe(then);
    match is_same && reads(&then.ty, &there.ty) {
        true => None,
        false => Some(format!("{was} of the snapshot is {} now", describe(there))),
    }
}

fn describe(column: &Column) -> String {
    let Column { name, ty, id: ColumnId(id), .. } = column;
    format!("{name} {ty} (column {id})")
}

/// Whether values of the type `then` are values of `now`: the same type, or one to whose user types fields were added.
fn reads(then: &CqlType, now: &CqlType) -> bool {
    match (then, now) {
        (
            CqlType::Udt { definition: a, frozen: frozen_a },
            CqlType::Udt { definition: b, frozen: frozen_b },
        ) => {
            let fields = || a.fields.iter().zip(&b.fields);
            (frozen_a, &a.name, a.ended) == (frozen_b, &b.name, b.ended)
                && a.fields.len() <= b.fields.len()
                && fields().all(|((_, then), (_, now))| reads(then, now))
        }
        _ => {
            let (a, b) = (then.parts(), now.parts());
            let alone = |ty: &CqlType| (std::mem::discriminant(ty), ty.is_multi_cell());
            match a.is_empty() {
                true => then == now,
                false => {
                    alone(then) == alone(now)
                        && dimensions(then) == dimensions(now)
                        && a.len() == b.len()
                        && a.iter().zip(&b).all(|(then, now)| reads(then, now))
                }
            }
        }
    }
}

fn dimensions(ty: &CqlType) -> Option<u32> {
    match ty {
        CqlType::Vector { dimensions, .. } => Some(*dimensions),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use model::TableId;
    use model::schema::TableBuilder;
    use uuid::Uuid;

    use super::*;

    fn table(values: &[(&str, CqlType)]) -> Table {
        let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(7)));
        let keyed = table.partition_key("k", CqlType::Int).unwrap();
        let add = |table: TableBuilder, (name, ty): &(&str, CqlType)| {
            table.regular(name, ty.clone()).unwrap()
        };
        values.iter().fold(keyed, add).build().unwrap()
    }

    #[test]
    fn rows_are_read_by_a_definition_that_knows_their_columns() {
        let then = table(&[("a", CqlType::Int)]);
        let altered = table(&[("a", CqlType::Int), ("b", CqlType::Text)]);
        assert_eq!(difference(&then, &altered), None, "a column was added");
        assert!(difference(&altered, &then).unwrap().contains("column b is unknown"));
        let mut dropped = altered.clone();
        dropped.drop_column("b", 5).unwrap();
        assert_eq!(difference(&altered, &dropped), None, "a column was dropped");
        assert_eq!(difference(&dropped, &dropped), None);
        let other = table(&[("a", CqlType::Int), ("x", CqlType::Int)]);
        let said = difference(&altered, &other).unwrap();
        assert_eq!(said, "b text (column 2) of the snapshot is x int (column 2) now");
        assert!(difference(&table(&[("a", CqlType::Text)]), &then).is_some(), "another type");
    }

    #[test]
    fn a_user_type_may_have_more_fields_now() {
        let udt = |fields: &[CqlType]| {
            let named = fields.iter().map(|ty| ("f".to_owned(), ty.clone())).collect();
            let definition = std::sync::Arc::new(model::types::UserType::new("ks", "u", named));
            CqlType::Udt { definition, frozen: true }
        };
        let (one, two) = (udt(&[CqlType::Int]), udt(&[CqlType::Int, CqlType::Text]));
        assert!(reads(&one, &two) && !reads(&two, &one));
        let list = |element: &CqlType| CqlType::List {
            element: std::sync::Arc::new(element.clone()),
            frozen: false,
        };
        assert!(reads(&list(&one), &list(&two)) && !reads(&list(&one), &one));
        assert!(!reads(&list(&one), &list(&one).frozen()));
    }

    /// Before: refused, for "it has another primary key now".
    #[test]
    fn a_table_that_is_compact_no_more_takes_its_rows_back() {
        let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)));
        let compact = table
            .partition_key("k", CqlType::Int)
            .and_then(|table| table.stat("v", CqlType::Text))
            .and_then(TableBuilder::compact)
            .and_then(TableBuilder::build)
            .expect("a sound table");
        let mut now = compact.clone();
        now.drop_compact_storage();
        assert_eq!(difference(&compact, &now), None);
        assert!(
            difference(&now, &compact).is_some(),
            "its rows may have the columns that are hidden now"
        );
    }
}

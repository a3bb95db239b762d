//! Columns that are added, dropped, renamed and found, of tables that have many.

use super::*;
use crate::steps::steps_of;

fn names(table: &Table) -> Vec<&str> {
    table.columns().iter().map(|column| column.name.as_str()).collect()
}

#[test]
fn columns_stand_in_order_whenever_they_are_added() {
    let mut table = TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .regular("b", CqlType::Int)
        .and_then(|t| t.clustering("z", CqlType::Int, false))
        .and_then(|t| t.partition_key("y", CqlType::Int))
        .and_then(|t| t.stat("s", CqlType::Int))
        .and_then(|t| t.partition_key("x", CqlType::Int))
        .and_then(TableBuilder::build)
        .expect("a table");
    for (name, kind) in
        [("c", ColumnKind::Regular), ("a", ColumnKind::Regular), ("r", ColumnKind::Static)]
    {
        table.add_column(name, CqlType::Int, kind).expect("the name is free");
    }
    assert_eq!(names(&table), ["y", "x", "z", "r", "s", "a", "b", "c"]);
    assert_eq!((table.partition_key().len(), table.clustering().len()), (2, 1));
}

/// Before: all columns were sorted, and their names cloned, for each that was added. And each name was compared
/// with those of all columns: a statement of 131,000 names took 10 s.
#[test]
fn a_table_of_many_columns_is_made_and_its_columns_are_found_in_few_steps() {
    let table = TableBuilder::new("ks", "t", TableId(Uuid::nil()));
    let table = table.partition_key("k", CqlType::Int).expect("a key");
    let name = |index: usize| format!("c{}", (index * 7919) % 16_000);
    let (steps, mut table) = steps_of(|| {
        let add = |table: TableBuilder, at| table.regular(&name(at), CqlType::Int);
        let table = (0..8_000).try_fold(table, add);
        let mut table = table.and_then(TableBuilder::build).expect("a table");
        for at in 8_000..16_000 {
            table.add_column(&name(at), CqlType::Int, ColumnKind::Regular).expect("a name");
        }
        table
    });
    assert!((16_000..16_000 * 60).contains(&steps), "{steps} comparisons");
    assert!(table.columns().is_sorted_by_key(|column| (column.kind, column.name.clone())));
    let (steps, ()) = steps_of(|| {
        for at in 0..16_000 {
            assert_eq!(table.column(&name(at)).expect("it is there").name, name(at));
        }
    });
    assert!((16_000..16_000 * 16).contains(&steps), "{steps} comparisons");
    table.rename_column("k", "d").expect("a free name");
    table.drop_column("c7", 1).expect("it is there");
    for name in ["k", "c7", "c16000"] {
        assert!(table.column(name).is_none(), "{name}");
    }
    for name in ["d", "c6", "c8", "c15999"] {
        assert_eq!(table.column(name).expect("it is there").name, name);
    }
}

/// Before: the names of all columns were put into order for each column that was dropped or renamed: 16,000 of them
/// held a core for 20 s.
#[test]
fn many_columns_are_dropped_or_renamed_in_few_steps() {
    let name = |index: usize| format!("c{}", (index * 7919) % 8_000);
    let table = TableBuilder::new("ks", "t", TableId(Uuid::nil()));
    let key = (8_000..12_000)
        .try_fold(table, |table, at| table.partition_key(&format!("k{at}"), CqlType::Int));
    let add = |table: TableBuilder, at| match at % 3 {
        0 => table.stat(&name(at), CqlType::Int),
        _ => table.regular(&name(at), CqlType::Int),
    };
    let table = key.and_then(|key| key.clustering("z", CqlType::Int, false));
    let table = table.and_then(|key| (0..8_000).try_fold(key, add));
    let mut table = table.and_then(TableBuilder::build).expect("a table");
    let mut one_by_one = table.clone();
    let few = ["c11", "c7", "c2000"];
    few.iter().for_each(|name| one_by_one.drop_column(name, 5).expect("it is there"));
    let all: Vec<String> = (0..7_990).map(name).collect();
    let (steps, ()) = steps_of(|| {
        table.drop_columns(&BTreeSet::from(few), 5).expect("they are there");
        assert_eq!(table.columns, one_by_one.columns);
        assert_eq!(table.by_name, one_by_one.by_name);
        let rest = all.iter().map(|name| &**name).filter(|name| !few.contains(name));
        table.drop_columns(&rest.collect(), 7).expect("they are there");
        for at in 8_000..12_000 {
            table.rename_column(&format!("k{at}"), &format!("a{}", 12_000 - at)).expect("free");
        }
    });
    assert!((16_000..16_000 * 60).contains(&steps), "{steps} comparisons");
    assert_eq!(names(&table).len(), 4_000 + 1 + 10);
    for (at, column) in table.columns().iter().enumerate() {
        assert_eq!(table.column_index(&column.name), Some(at), "{}", column.name);
    }
    assert!(table.partition_key()[0].name == "a4000" && table.column("k8000").is_none());
    let dropped: Vec<&str> = table.dropped.iter().map(|dropped| &*dropped.column.name).collect();
    assert_eq!((&dropped[..5], dropped.len()), (&["c11", "c2000", "c7", "c0", "c1"][..], 7_990));
    assert!(table.drop_columns(&BTreeSet::from(["nope"]), 9).is_err(), "it is not there");
    assert!(table.drop_column("z", 9).is_err(), "it is of the key");
    // A drop of what came back is not earlier than the one before.
    let kind = table.dropped[2].column.kind;
    table.add_column("c7", CqlType::Int, kind).expect("it comes back");
    table.drop_column("c7", 3).expect("it is there");
    let last = table.dropped.last().expect("some were dropped");
    assert_eq!((&*last.column.name, last.dropped_at), ("c7", 5));
}

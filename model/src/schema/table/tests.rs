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
        let more: Vec<String> = (8_000..16_000).map(name).collect();
        let more = more.iter().map(|name| (&**name, CqlType::Int, ColumnKind::Regular));
        table.add_columns(more).expect("the names are free");
        table
    });
    assert!((16_000..16_000 * 90).contains(&steps), "{steps} comparisons");
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

/// Before: each column that was added was sought among all that had been dropped, and its id among those of all
/// columns: 16,000 that came back held a core for seconds.
#[test]
fn many_columns_are_added_and_come_back_in_few_steps() {
    const COLUMNS: usize = 8_000;
    let name = |index: usize| format!("c{}", (index * 7919) % COLUMNS);
    let kind = |at| match at % 3 {
        0 => ColumnKind::Static,
        _ => ColumnKind::Regular,
    };
    let mut table = TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .partition_key("k", CqlType::Int)
        .and_then(|table| table.clustering("z", CqlType::Int, false))
        .and_then(TableBuilder::build)
        .expect("a table");
    let names: Vec<String> = (0..COLUMNS).map(name).collect();
    let all = || names.iter().zip(0..).map(|(name, at)| (&**name, CqlType::Int, kind(at)));
    let mut one_by_one = table.clone();
    for (name, ty, kind) in all().take(50) {
        one_by_one.add_column(name, ty, kind).expect("the name is free");
    }
    let mut together = table.clone();
    together.add_columns(all().take(50)).expect("the names are free");
    assert_eq!(together, one_by_one);
    let (steps, ()) = steps_of(|| table.add_columns(all()).expect("the names are free"));
    assert!((COLUMNS..COLUMNS * 100).contains(&steps), "{steps} comparisons");
    let before = table.clone();
    table.drop_columns(&names.iter().map(|name| &**name).collect(), 5).expect("they are there");
    let (steps, ()) = steps_of(|| table.add_columns(all()).expect("they come back"));
    assert!((COLUMNS..COLUMNS * 100).contains(&steps), "{steps} comparisons");
    assert_eq!((&table.columns, &table.by_name), (&before.columns, &before.by_name));
    assert_eq!((table.next_column, table.dropped.len()), (before.next_column, COLUMNS));
}

/// What does not come back as what it was is new, and what is refused leaves the columns before it.
#[test]
fn columns_that_are_added_together_are_what_they_would_be_one_by_one() {
    let mut table = TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .partition_key("k", CqlType::Int)
        .and_then(|table| table.regular("a", CqlType::Int))
        .and_then(|table| table.regular("b", CqlType::Int))
        .and_then(TableBuilder::build)
        .expect("a table");
    table.drop_columns(&BTreeSet::from(["a", "b"]), 5).expect("they are there");
    let regular = |name, ty| (name, ty, ColumnKind::Regular);
    let added = [regular("b", CqlType::Text), regular("a", CqlType::Int)];
    table.add_columns(added).expect("the names are free");
    let ids: Vec<u16> = table.columns().iter().map(|column| column.id.0).collect();
    assert_eq!((names(&table), ids), (vec!["k", "a", "b"], vec![0, 1, 3]));
    let twice = [regular("c", CqlType::Int), regular("c", CqlType::Int)];
    let refused = table.add_columns(twice).expect_err("one name").to_string();
    assert_eq!(refused, "Column with name 'c' already exists");
    let refused = table.add_columns([regular("a", CqlType::Int)]).expect_err("it is back");
    assert_eq!(refused.to_string(), "Column with name 'a' already exists");
    assert_eq!(names(&table), ["k", "a", "b", "c"]);
    assert_eq!(table.column_index("c"), Some(3));
}

/// Before: a column was sought among all by its id, for each cell of a row that a read had found and of a row that a
/// view takes: of 16,000 columns that took a core a tenth of a second and more.
#[test]
fn columns_are_found_by_their_ids_in_a_step_each_whatever_became_of_others() {
    const COLUMNS: usize = 2_000;
    let found = |table: &Table| {
        let of_id = |id| (ColumnId(id), table.column_by_id(ColumnId(id)));
        let (steps, found) = steps_of(|| (0..=table.next_column).map(of_id).collect::<Vec<_>>());
        assert_eq!(steps, found.len());
        let there = found.into_iter().filter_map(|(id, column)| {
            assert!(column.is_none_or(|column| column.id == id));
            column
        });
        assert_eq!(there.count(), table.columns.len() + table.hidden().len());
    };
    let mut table = TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .partition_key("k", CqlType::Int)
        .and_then(|table| table.clustering("z", CqlType::Int, false))
        .and_then(TableBuilder::build)
        .expect("a table");
    let names: Vec<String> = (0..COLUMNS).rev().map(|at| format!("c{at}")).collect();
    let all = || names.iter().map(|name| (&**name, CqlType::Int, ColumnKind::Regular));
    table.add_columns(all()).expect("the names are free");
    found(&table);
    table.rename_column("z", "a").expect("it is of the key");
    found(&table);
    table.drop_columns(&BTreeSet::from(["c7", "c1999", "c0"]), 5).expect("they are there");
    found(&table);
    table.add_column("c0", CqlType::Text, ColumnKind::Regular).expect("another one");
    table.add_column("c7", CqlType::Int, ColumnKind::Regular).expect("it comes back");
    found(&table);
}

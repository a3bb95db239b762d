//! Each kind of condition against rows that are there, are not, and have no value.

use std::sync::Arc;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::row::{RowBuilder, RowHead};
use crate::schema::{TableBuilder, TableId};
use crate::steps::steps_of;
use crate::types::UserType;
use crate::{MutationBuilder, MutationRef, Token};

fn list(frozen: bool) -> CqlType {
    CqlType::List { element: CqlType::Int.into(), frozen }
}

fn map(frozen: bool) -> CqlType {
    CqlType::Map { key: CqlType::Text.into(), value: CqlType::Int.into(), frozen }
}

fn udt(frozen: bool) -> CqlType {
    let fields = vec![("a".into(), CqlType::Int), ("b".into(), CqlType::Text)];
    CqlType::Udt { definition: Arc::new(UserType::new("ks", "pair", fields)), frozen }
}

fn table() -> Table {
    TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .partition_key("k", CqlType::Int)
        .and_then(|t| t.regular("v", CqlType::Int))
        .and_then(|t| t.regular("l", list(false)))
        .and_then(|t| t.regular("m", map(false)))
        .and_then(|t| t.regular("u", udt(false)))
        .and_then(|t| t.regular("fl", list(true)))
        .and_then(|t| t.regular("fm", map(true)))
        .and_then(|t| t.regular("fu", udt(true)))
        .and_then(TableBuilder::build)
        .expect("a sound table")
}

fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

/// Values with their lengths before them.
fn items(items: &[&[u8]]) -> Vec<u8> {
    items.iter().flat_map(|item| [&int(item.len() as i32)[..], item].concat()).collect()
}

fn collection(count: i32, of: &[&[u8]]) -> Vec<u8> {
    [int(count), items(of)].concat()
}

/// `v = 3, l = [7, 8], m = {'a': 1}, u = {a: 5}`, and the same in the frozen columns.
fn row(table: &Table) -> Vec<u8> {
    let mut cells: Vec<(ColumnId, Option<Vec<u8>>, Vec<u8>)> = Vec::new();
    let id = |name: &str| table.column(name).expect("it is there").id;
    let mut key = Vec::new();
    ordered::encode(&CqlType::Text, b"a", &mut key).expect("a text");
    cells.push((id("v"), None, int(3)));
    cells.push((id("l"), Some(vec![1]), int(7)));
    cells.push((id("l"), Some(vec![2]), int(8)));
    cells.push((id("m"), Some(key), int(1)));
    cells.push((id("u"), Some(vec![0, 0]), int(5)));
    cells.push((id("fl"), None, collection(2, &[&int(7), &int(8)])));
    cells.push((id("fm"), None, collection(1, &[b"a", &int(1)])));
    cells.push((id("fu"), None, items(&[&int(5)])));
    cells.sort();
    let mut out = Vec::new();
    let mut row = RowBuilder::begin(&mut out, &RowHead::bare(1));
    for (column, path, value) in &cells {
        row.cell(&Cell { path: path.as_deref(), ..Cell::live(*column, 1, value) });
    }
    out
}

/// Whether the condition holds for the row, for a row without cells, and if there is none.
fn judged(
    column: &str,
    part: Part<'_>,
    comparison: Comparison,
    values: &[Option<&[u8]>],
) -> [Result<bool>; 3] {
    let table = table();
    let id = table.column(column).expect("it is there").id;
    let mut builder = ConditionsBuilder::default();
    builder.column(Some(b"c"), (id, part, comparison), values.iter().copied());
    let mut bytes = Vec::new();
    builder.put(Wanted::TESTED, 5, 6, &mut bytes);
    let conditions = Conditions::parse(&bytes).expect("what was built");
    assert_eq!((conditions.timestamp, conditions.now_s), (5, 6));
    let condition = conditions.iter().next().expect("there is one");
    assert!(condition.clustering == Some(b"c"));
    let (full, mut empty) = (row(&table), Vec::new());
    RowBuilder::begin(&mut empty, &RowHead::bare(1));
    [Some(&full), Some(&empty), None]
        .map(|row| condition.holds(&table, row.map(|row| RowRef::trusted(row))))
}

const EQUAL: Comparison = Comparison::Is(Operator::Equal);
const IN: Comparison = Comparison::Is(Operator::In);
const LESS: Comparison = Comparison::Is(Operator::Less);

#[test]
fn null_equals_only_what_is_not_there() {
    let three = int(3);
    for (comparison, values, expected) in [
        (EQUAL, vec![Some(&three[..])], [true, false, false]),
        (EQUAL, vec![None], [false, true, true]),
        (Comparison::NotEqual, vec![Some(&three[..])], [false, true, true]),
        (Comparison::NotEqual, vec![None], [true, false, false]),
        (IN, vec![None, Some(&three[..])], [true, true, true]),
        (IN, vec![Some(&three[..])], [true, false, false]),
        (IN, vec![], [false, false, false]),
    ] {
        let found = judged("v", Part::Whole, comparison, &values);
        assert_eq!(found, expected.map(Ok), "{comparison:?} {values:?}");
    }
    let refused = "Invalid comparison with null for operator \"<\"";
    let found = judged("v", Part::Whole, LESS, &[None]);
    assert!(found.iter().all(|found| *found == Err(Error::invalid(refused))), "{found:?}");
}

#[test]
fn numbers_are_ordered_as_numbers() {
    let (minus, four) = (int(-1), int(4));
    assert_eq!(judged("v", Part::Whole, LESS, &[Some(&four)])[0], Ok(true));
    assert_eq!(judged("v", Part::Whole, LESS, &[Some(&minus)])[0], Ok(false));
    let at_least = Comparison::Is(Operator::GreaterOrEqual);
    assert_eq!(judged("v", Part::Whole, at_least, &[Some(&minus)])[0], Ok(true));
}

#[test]
fn parts_of_columns_are_compared_frozen_or_not() {
    let (one, five, eight) = (int(1), int(5), int(8));
    for (column, part, value) in
        [("l", Part::Index(1), &eight), ("m", Part::Key(b"a"), &one), ("u", Part::Field(0), &five)]
    {
        for column in [column.to_owned(), format!("f{column}")] {
            let found = judged(&column, part, EQUAL, &[Some(value)]);
            assert_eq!(found, [Ok(true), Ok(false), Ok(false)], "{column}");
            let found = judged(&column, part, EQUAL, &[Some(&int(77))]);
            assert_eq!(found, [Ok(false), Ok(false), Ok(false)], "{column}");
        }
    }
    for (column, part) in [
        ("l", Part::Index(2)),
        ("fl", Part::Index(2)),
        ("m", Part::Key(b"b")),
        ("fm", Part::Key(b"b")),
        ("u", Part::Field(1)),
        ("fu", Part::Field(1)),
    ] {
        assert_eq!(judged(column, part, EQUAL, &[None]), [Ok(true), Ok(true), Ok(true)]);
    }
    assert!(judged("v", Part::Index(0), EQUAL, &[None])[0].is_err(), "no part of an int");
}

#[test]
fn whole_collections_are_compared_and_searched() {
    let same = collection(2, &[&int(7), &int(8)]);
    let longer = collection(3, &[&int(7), &int(8), &int(0)]);
    let (seven, nine) = (int(7), int(9));
    let contains = Comparison::Is(Operator::Contains);
    for column in ["l", "fl"] {
        assert_eq!(judged(column, Part::Whole, EQUAL, &[Some(&same)])[0], Ok(true));
        assert_eq!(judged(column, Part::Whole, LESS, &[Some(&longer)])[0], Ok(true));
        assert_eq!(judged(column, Part::Whole, LESS, &[Some(&same)])[0], Ok(false));
        let found = judged(column, Part::Whole, contains, &[Some(&seven)]);
        assert_eq!(found, [Ok(true), Ok(false), Ok(false)]);
        assert_eq!(judged(column, Part::Whole, contains, &[Some(&nine)])[0], Ok(false));
    }
    let has_key = Comparison::Is(Operator::ContainsKey);
    for column in ["m", "fm"] {
        assert_eq!(judged(column, Part::Whole, has_key, &[Some(b"a")])[0], Ok(true));
        assert_eq!(judged(column, Part::Whole, has_key, &[Some(b"b")])[0], Ok(false));
    }
}

#[test]
fn existence_is_of_the_row_with_or_without_cells() {
    let table = table();
    let full = row(&table);
    let holds = |test, row| Condition { clustering: None, test }.holds(&table, row);
    let there = Some(RowRef::trusted(&full));
    assert_eq!((holds(Test::Exists, there), holds(Test::Exists, None)), (Ok(true), Ok(false)));
    assert_eq!(
        (holds(Test::NotExists, there), holds(Test::NotExists, None)),
        (Ok(false), Ok(true))
    );
}

/// A mutation with all that conditions have.
fn sample() -> Vec<u8> {
    let mut conditions = ConditionsBuilder::default();
    conditions.existence(Some(b"row"), true);
    conditions.existence(None, false);
    let values = [Some(&b"x"[..]), None];
    for part in [Part::Whole, Part::Key(b"k"), Part::Index(7), Part::Field(3)] {
        conditions.column(None, (ColumnId(2), part, IN), values.into_iter());
    }
    let mut record = Vec::new();
    let mutation = MutationBuilder::begin(&mut record, TableId(Uuid::nil()), Token(1), b"key");
    let wanted = Wanted { statics: true, regulars: false };
    mutation.finish_with_conditions(&conditions, wanted, (77, 78));
    record
}

#[test]
fn conditions_read_back_from_a_mutation_and_no_log_takes_them() {
    let record = sample();
    let mutation =
        MutationRef::of_trusted_record(&record).next().expect("one").expect("built here");
    assert!(mutation.reads_first() && !mutation.changes_lists());
    let conditions = mutation.conditions().expect("it has some");
    assert_eq!(conditions.wanted, Wanted { statics: true, regulars: false });
    let all: Vec<Condition<'_>> = conditions.iter().collect();
    assert_eq!(all.len(), 6);
    assert_eq!(all[0], Condition { clustering: Some(b"row"), test: Test::Exists });
    assert_eq!(all[1], Condition { clustering: None, test: Test::NotExists });
    let Test::Column(test) = all[5].test else { panic!("{:?}", all[5]) };
    assert_eq!((test.part, test.comparison), (Part::Field(3), IN));
    assert!(test.values.iter().eq([Some(&b"x"[..]), None]));
    assert!(MutationRef::of_record(&record).next().expect("one").is_err(), "as bytes of a log");
}

proptest! {
    #[test]
    fn mutilated_conditions_are_an_error_or_read_but_never_panic(
        at: prop::sample::Index, bit in 0..8u8, cut: prop::sample::Index
    ) {
        let mut record = sample();
        let i = at.index(record.len());
        record[i] ^= 1 << bit;
        record.truncate(cut.index(record.len() + 1));
        for mutation in MutationRef::of_trusted_record(&record).flatten() {
            let _ = mutation.conditions().map(|conditions| conditions.iter().count());
        }
    }
}

/// The bytes that are encoded while a condition on `column` is judged, and whether it holds.
fn encoded_while_judged(
    table: &Table,
    stored: &[(Option<&[u8]>, Vec<u8>)],
    (part, comparison): (Part<'_>, Comparison),
    values: &[Option<&[u8]>],
) -> (usize, Result<bool>) {
    let column = table.column("x").expect("it is there").id;
    let mut builder = ConditionsBuilder::default();
    builder.column(Some(b"c"), (column, part, comparison), values.iter().copied());
    let mut bytes = Vec::new();
    builder.put(Wanted::TESTED, 5, 6, &mut bytes);
    let conditions = Conditions::parse(&bytes).expect("what was built");
    let mut out = Vec::new();
    let mut row = RowBuilder::begin(&mut out, &RowHead::bare(1));
    for (path, value) in stored {
        row.cell(&Cell { path: *path, ..Cell::live(column, 1, value) });
    }
    let condition = conditions.iter().next().expect("there is one");
    let (steps, held) = steps_of(|| condition.holds(table, Some(RowRef::trusted(&out))));
    // Those of the search for its column are no bytes.
    let (sought, _) = steps_of(|| table.column_by_id(column).is_some());
    (steps - sought, held)
}

fn table_of(ty: CqlType) -> Table {
    TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .partition_key("k", CqlType::Int)
        .and_then(|t| t.regular("x", ty))
        .and_then(TableBuilder::build)
        .expect("a sound table")
}

#[test]
fn one_condition_encodes_its_fixed_side_once_and_not_for_each_value() {
    // Not of integers, whose bytes say whether they are equal.
    let list = |frozen| CqlType::List { element: CqlType::Varint.into(), frozen };
    let elements: Vec<Vec<u8>> = (0..1000).map(int).collect();
    let elements: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
    let (long, short) = (collection(1000, &elements), collection(1, &[&int(1)]));
    let many = vec![Some(&short[..]); 1000];
    let values = many.len() * short.len();
    let test = (Part::Whole, IN);
    let (bytes, held) =
        encoded_while_judged(&table_of(list(true)), &[(None, long.clone())], test, &many);
    assert_eq!((bytes, held), (long.len() + values, Ok(false)), "the stored list once");

    let set = |frozen| CqlType::Set { element: list(true).into(), frozen };
    let contains = (Part::Whole, Comparison::Is(Operator::Contains));
    let paths: Vec<[u8; 4]> = (0..1000u32).map(u32::to_be_bytes).collect();
    let cells: Vec<_> = paths.iter().map(|path| (Some(&path[..]), Vec::new())).collect();
    let found = encoded_while_judged(&table_of(set(false)), &cells, contains, &[Some(&long)]);
    assert_eq!(found, (long.len(), Ok(false)), "the wanted element once");

    let stored = collection(1000, &vec![&short[..]; 1000]);
    let found =
        encoded_while_judged(&table_of(set(true)), &[(None, stored)], contains, &[Some(&long)]);
    assert_eq!(found, (long.len() + values, Ok(false)), "of a frozen set, too");

    let ty = CqlType::Map { key: list(true).into(), value: CqlType::Int.into(), frozen: true };
    let one = int(1);
    let pairs = collection(1000, &[&short[..], &one[..]].repeat(1000));
    let found = encoded_while_judged(
        &table_of(ty),
        &[(None, pairs)],
        (Part::Key(&long), EQUAL),
        &[Some(&one)],
    );
    assert_eq!(found, (long.len() + values, Ok(false)), "the key once");
}

#[test]
fn one_condition_compares_so_many_bytes_and_no_more() {
    let blob = vec![7; CONDITION_COMPARED_BYTES_MAX];
    let half = collection(1, &[&blob[..CONDITION_COMPARED_BYTES_MAX / 2 - 8]]);
    let ty = CqlType::List { element: CqlType::Blob.into(), frozen: true };
    let test = (Part::Whole, EQUAL);
    let stored = [(None, half.clone())];
    let (_, held) = encoded_while_judged(&table_of(ty.clone()), &stored, test, &[Some(&half)]);
    assert_eq!(held, Ok(true));
    let longer = [&half[..], &[0]].concat();
    let (bytes, held) = encoded_while_judged(&table_of(ty), &stored, test, &[Some(&longer)]);
    let refused = held.expect_err("it is one byte more").to_string();
    assert!(refused.contains("1048576 bytes") && bytes == 0, "{refused} {bytes}");
    let stored = [(None, blob.clone())];
    let (_, held) = encoded_while_judged(&table_of(CqlType::Blob), &stored, test, &[Some(&blob)]);
    assert_eq!(held, Ok(true), "bytes are compared as they lie");
    let ty = CqlType::Map { key: CqlType::Blob.into(), value: CqlType::Blob.into(), frozen: false };
    let stored = [(Some(&b"other"[..]), blob.clone()), (Some(b"wanted"), blob.clone())];
    let test = (Part::Key(b"none"), EQUAL);
    let (_, held) = encoded_while_judged(&table_of(ty), &stored, test, &[Some(&blob)]);
    assert_eq!(held, Ok(false), "of a map's entries one is compared");
}

#[test]
fn bits_of_a_condition_that_mean_nothing_are_refused() {
    let mut builder = ConditionsBuilder::default();
    builder.existence(Some(b"c"), true);
    let mut bytes = Vec::new();
    builder.put(Wanted::TESTED, 5, 6, &mut bytes);
    let op = bytes.len() - builder.bytes();
    for bit in [32, 64, 128] {
        let mut other = bytes.clone();
        other[op] |= bit;
        assert_eq!(Conditions::parse(&other), Err(Error::Malformed("condition")), "{bit}");
    }
    Conditions::parse(&bytes).expect("without them it is one");
}

/// Before: the decimals of the key in `m[?]` counted as nothing, and those of values as their bytes: 64 of 16 KiB took
/// a core 0.25 s in one step.
#[test]
fn what_a_condition_brings_into_order_has_a_limit() {
    let decimals = CqlType::List { element: CqlType::Decimal.into(), frozen: true };
    let map =
        |frozen| CqlType::Map { key: decimals.clone().into(), value: CqlType::Int.into(), frozen };
    let table = TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .partition_key("k", CqlType::Int)
        .and_then(|t| t.regular("m", map(false)))
        .and_then(|t| t.regular("fm", map(true)))
        .and_then(|t| t.regular("v", decimals.clone()))
        .and_then(TableBuilder::build)
        .expect("a sound table");
    let decimal = vec![7; 16_000];
    let of = |count: usize| collection(count as i32, &vec![&decimal[..]; count]);
    let (few, many, one) = (of(10), of(20), int(1));
    let mut empty = Vec::new();
    RowBuilder::begin(&mut empty, &RowHead::bare(1));
    let refused = |column: &str, part: Part<'_>, value: &[u8]| {
        let id = table.column(column).expect("it is there").id;
        let mut builder = ConditionsBuilder::default();
        builder.column(Some(b"c"), (id, part, EQUAL), [Some(value)].into_iter());
        let mut bytes = Vec::new();
        builder.put(Wanted::TESTED, 5, 6, &mut bytes);
        let conditions = Conditions::parse(&bytes).expect("what was built");
        let condition = conditions.iter().next().expect("there is one");
        condition.holds(&table, Some(RowRef::trusted(&empty))).err().map(|error| error.to_string())
    };
    for column in ["m", "fm"] {
        assert_eq!(refused(column, Part::Key(&few), &one), None, "{column}");
        let why = refused(column, Part::Key(&many), &one).expect(column);
        assert!(why.starts_with("A condition takes more than"), "{column}: {why}");
    }
    assert_eq!(refused("v", Part::Whole, &few), None);
    let why = refused("v", Part::Whole, &many).expect("40 Mi units");
    assert!(why.starts_with("A condition takes more than"), "{why}");
}

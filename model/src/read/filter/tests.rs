//! What filters take of the values that they compare with, and that they compare as the operators do.

use std::sync::Arc;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::row::{RowBuilder, RowHead};
use crate::schema::{TableBuilder, TableId};
use crate::steps::steps_of;
use crate::token::Token;

/// A table with one regular column `v`.
fn table(ty: CqlType) -> Table {
    TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .partition_key("k", CqlType::Int)
        .and_then(|t| t.regular("v", ty))
        .and_then(TableBuilder::build)
        .expect("a sound table")
}

/// A filter as a read binds it.
fn bound(table: &Table, operator: Operator, mut values: Vec<Box<[u8]>>) -> Filter {
    let column = table.column("v").expect("it is there");
    if operator == Operator::In {
        column.ty.sort(&mut values);
    }
    Filter::new(FilterTarget::Value(column.id), operator, values, Analysis::NONE)
        .into_form(&column.ty)
}

/// Whether a row of these cells, by path and value, is wanted.
fn is_wanted(filter: &Filter, table: &Table, cells: &[(Option<&[u8]>, &[u8])]) -> bool {
    let column = table.column("v").expect("it is there").id;
    let mut row = Vec::new();
    let mut builder = RowBuilder::begin(&mut row, &RowHead::bare(1));
    for (path, value) in cells {
        builder.cell(&Cell { path: *path, ..Cell::live(column, 1, value) });
    }
    let partition = PartitionRef { token: Token(0), key: &[0; 4], static_row: None };
    filter.matches(table, &partition, None, Some(RowRef::trusted(&row))).expect("sound bytes")
}

fn list(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut out = (elements.len() as i32).to_be_bytes().to_vec();
    for element in elements {
        out.extend((element.len() as i32).to_be_bytes());
        out.extend(element);
    }
    out
}

fn list_type(element: CqlType) -> CqlType {
    CqlType::List { element: Arc::new(element), frozen: true }
}

fn map_type(key: CqlType, value: CqlType, frozen: bool) -> CqlType {
    CqlType::Map { key: Arc::new(key), value: Arc::new(value), frozen }
}

const ROWS: usize = 100;
/// Bytes of a value of a row, and some.
const ROW_BYTES: usize = 64;

/// Before: what a filter compares with was brought into order for each row: a list of 15 MB took 15 ms a row, of 512
/// rows in one step, and nothing counted it. So were the digits of decimals, and the elements and keys of CONTAINS.
#[test]
fn what_a_filter_compares_with_is_brought_into_order_once() {
    let doubles = list_type(CqlType::Double);
    let one = 1.5f64.to_be_bytes().to_vec();
    let (short, long) = (list(std::slice::from_ref(&one)), list(&vec![one.clone(); 1_000]));
    let longer = list(&vec![one; 1_001]);
    let decimal = [vec![0; 4], vec![7; 4_000]].concat();
    let small_decimal = vec![0, 0, 0, 0, 7];
    let of_short = list(std::slice::from_ref(&short));
    let entry = list(&[short.clone(), short.clone()]);
    let text = vec![b'x'; 9_000];
    let set = |element| CqlType::Set { element: Arc::new(element), frozen: false };
    let entries = map_type(doubles.clone(), doubles.clone(), true);
    let cells = map_type(CqlType::Text, doubles.clone(), false);
    let (x, y) = (encoded(&CqlType::Text, b"x").unwrap(), encoded(&CqlType::Text, &text).unwrap());
    let whole = |value| (None, value);
    use Operator::{Contains, ContainsKey, Entry, Equal, Greater, In, Less};
    for (ty, operator, values, cell, is_it) in [
        (doubles.clone(), Equal, vec![&long], whole(&short), false),
        (doubles.clone(), Less, vec![&long], whole(&short), true),
        (doubles.clone(), In, vec![&long, &longer], whole(&short), false),
        (CqlType::Decimal, Greater, vec![&decimal], whole(&small_decimal), false),
        (list_type(doubles.clone()), Contains, vec![&long], whole(&of_short), false),
        (entries.clone(), ContainsKey, vec![&long], whole(&entry), false),
        (entries.clone(), Entry, vec![&short, &long], whole(&entry), false),
        (entries, Contains, vec![&long], whole(&entry), false),
        (set(CqlType::Text), Contains, vec![&text], (Some(&x), &vec![]), false),
        (cells.clone(), ContainsKey, vec![&text], (Some(&x), &short), false),
        (cells.clone(), Entry, vec![&text, &long], (Some(&y), &short), false),
        (cells, Contains, vec![&long], (Some(&x), &short), false),
    ] {
        let table = table(ty.clone());
        let bytes = values.iter().map(|value| value.len()).sum::<usize>();
        let values = values.into_iter().map(|value| value[..].into()).collect();
        let (path, value): (Option<&Vec<u8>>, &Vec<u8>) = cell;
        let cell = (path.map(|path| &path[..]), &value[..]);
        let (steps, ()) = steps_of(|| {
            let filter = bound(&table, operator, values);
            for _ in 0..ROWS {
                assert_eq!(is_wanted(&filter, &table, &[cell]), is_it, "{ty} {operator:?}");
                assert!(!is_wanted(&filter, &table, &[]), "a row without the column");
            }
        });
        // An IN puts its values into order first.
        let most = 2 * bytes + ROWS * ROW_BYTES;
        assert!(steps <= most, "{ty} {operator:?}: {steps} bytes, of {bytes} that are bound");
    }
}

/// Before: both sides were brought into order also where values are equal only if their bytes are.
#[test]
fn values_that_equal_by_their_bytes_are_not_brought_into_order() {
    let ints = list_type(CqlType::Int);
    let (short, long) = (list(&[vec![0, 0, 0, 1]]), list(&vec![vec![0, 0, 0, 1]; 1_000]));
    let uuids = [[1; 16], [2; 16]].map(|uuid: [u8; 16]| uuid.to_vec());
    let table_of = |ty: &CqlType| table(ty.clone());
    for (ty, operator, values, other) in [
        (ints.clone(), Operator::Equal, vec![&long], &short),
        (ints.clone(), Operator::In, vec![&long, &list(&[])], &short),
        (list_type(ints), Operator::Contains, vec![&long], &list(std::slice::from_ref(&short))),
        (CqlType::Uuid, Operator::In, vec![&uuids[0]], &uuids[1]),
    ] {
        let table = table_of(&ty);
        let is_contained = operator == Operator::Contains;
        let same = if is_contained { list(&[values[0].clone()]) } else { values[0].clone() };
        let values = values.into_iter().map(|value| value[..].into()).collect();
        let (steps, ()) = steps_of(|| {
            let filter = bound(&table, operator, values);
            assert!(is_wanted(&filter, &table, &[(None, &same)]), "{ty} {operator:?}");
            assert!(!is_wanted(&filter, &table, &[(None, other)]), "{ty} {operator:?}");
        });
        // Those of the search for the column are fewer than any value has bytes.
        assert!(steps < 12, "{ty} {operator:?}: {steps}");
    }
}

/// What an operator says, by the ordered forms of all that is compared.
fn expected(operator: Operator, ty: &CqlType, value: &[u8], others: &[Box<[u8]>]) -> bool {
    let order =
        |ty: &CqlType, value: &[u8], other: &[u8]| match (encoded(ty, value), encoded(ty, other)) {
            (Some(value), Some(other)) => value.cmp(&other),
            _ => value.cmp(other),
        };
    let first = || order(ty, value, &others[0]);
    let elements: Vec<&[u8]> = match (collection_elements(value), ty) {
        (Ok(elements), CqlType::Map { .. }) => elements.doubled().flatten().collect(),
        (Ok(elements), _) => elements.flatten().collect(),
        (Err(_), _) => Vec::new(),
    };
    match (operator, ty) {
        (Operator::Equal, _) => first().is_eq(),
        (Operator::Less, _) => first().is_lt(),
        (Operator::LessOrEqual, _) => first().is_le(),
        (Operator::Greater, _) => first().is_gt(),
        (Operator::GreaterOrEqual, _) => first().is_ge(),
        (Operator::In, _) => others.iter().any(|other| order(ty, value, other).is_eq()),
        (_, CqlType::List { element, .. }) => {
            elements.iter().any(|item| order(element, item, &others[0]).is_eq())
        }
        (_, CqlType::Map { key, value, .. }) => elements.chunks_exact(2).any(|pair| {
            let is = |ty, at: usize, other: usize| order(ty, pair[at], &others[other]).is_eq();
            match operator {
                Operator::ContainsKey => is(key, 0, 0),
                Operator::Entry => is(key, 0, 0) && is(value, 1, 1),
                _ => is(value, 1, 0),
            }
        }),
        _ => false,
    }
}

fn any_scalar() -> impl Strategy<Value = CqlType> {
    prop::sample::select(vec![
        CqlType::Int,
        CqlType::Tinyint,
        CqlType::Boolean,
        CqlType::Varint,
        CqlType::Decimal,
        CqlType::Float,
        CqlType::Text,
        CqlType::Duration,
        CqlType::Timestamp,
        CqlType::Tuple([CqlType::Varint, CqlType::Text].into()),
    ])
}

proptest! {
    /// Any bytes, also those that are no value of the type.
    #[test]
    fn a_filter_compares_as_its_operator_does(
        scalar in any_scalar(),
        shape in 0..3u8,
        operator in prop::sample::select(vec![
            Operator::Equal, Operator::Less, Operator::LessOrEqual, Operator::Greater, Operator::GreaterOrEqual,
            Operator::In, Operator::Contains, Operator::ContainsKey, Operator::Entry,
        ]),
        items in prop::collection::vec(prop::collection::vec(0..3u8, 0..9), 6),
        same in 0..6usize,
    ) {
        let one = |at: usize| match shape {
            0 => items[at].clone(),
            _ => list(&items[at..at + 2]),
        };
        let ty = match shape {
            0 => scalar.clone(),
            1 => list_type(scalar.clone()),
            // A list of two is as many bytes as a map of one, but for the count.
            _ => map_type(scalar.clone(), scalar.clone(), true),
        };
        let of_map = |mut bytes: Vec<u8>| {
            if shape == 2 && bytes.len() > 3 {
                bytes[3] = 1;
            }
            bytes
        };
        let is_of_elements = matches!(operator, Operator::Contains | Operator::ContainsKey | Operator::Entry);
        let values: Vec<Box<[u8]>> = match is_of_elements {
            true => items[same.min(4)..][..2].iter().map(|item| item[..].into()).collect(),
            false => vec![of_map(one(same.min(4)))[..].into(), of_map(one(2)).into()],
        };
        let value = of_map(one(0));
        let table = table(ty.clone());
        let expected = expected(operator, &ty, &value, &values);
        prop_assert_eq!(operator.accepts(&ty, &value, &values), expected, "{} {:?} {:?}", ty, operator, values);
        let filter = bound(&table, operator, values);
        prop_assert_eq!(is_wanted(&filter, &table, &[(None, &value)]), expected, "{} {:?}", ty, filter);
    }
}

//! What a filter accepts, the index finds: drawn rows and relations over every target, and terms that are too long.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::read::{Filter, FilterTarget, PartitionRef};
use crate::row::{RowBuilder, RowHead};
use crate::schema::{Analysis, ColumnId, IndexId, IndexKind, TableBuilder, TableId};
use crate::token::Token;

fn table() -> Table {
    let (int, text) = (Arc::new(CqlType::Int), Arc::new(CqlType::Text));
    let list = |frozen| CqlType::List { element: int.clone(), frozen };
    let map = CqlType::Map { key: text.clone(), value: int.clone(), frozen: false };
    let set = CqlType::Set { element: text.clone(), frozen: false };
    TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .partition_key("a", CqlType::Text)
        .and_then(|t| t.partition_key("b", CqlType::Int))
        .and_then(|t| t.clustering("c", CqlType::Text, true))
        .and_then(|t| t.stat("st", CqlType::Text))
        .and_then(|t| t.regular("frozen", list(true)))
        .and_then(|t| t.regular("list", list(false)))
        .and_then(|t| t.regular("map", map))
        .and_then(|t| t.regular("set", set))
        .and_then(|t| t.regular("v", CqlType::Text))
        .and_then(TableBuilder::build)
        .expect("a sound table")
}

fn index(column: &str, target: IndexTarget, analysis: Analysis) -> Index {
    Index {
        id: IndexId(0),
        name: "i".to_owned(),
        column: table().column(column).expect("it is there").id,
        target,
        kind: IndexKind::StorageAttached,
        class: None,
        options: BTreeMap::new(),
        analysis,
    }
}

fn list_of(value: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 1, 0, 0, 0, 4][..], value].concat()
}

/// The row and static row whose texts are `text` and whose numbers are `number`.
fn rows(table: &Table, text: &[u8], number: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let id = |name| table.column(name).expect("it is there").id;
    let path = |ty, value| {
        let mut path = Vec::new();
        ordered::encode(ty, value, &mut path).expect("a value");
        path
    };
    let text_path = path(&CqlType::Text, text);
    let plain = |column: ColumnId, value| Cell::live(column, 1, value);
    let whole = list_of(number);
    let mut cells = vec![
        plain(id("frozen"), &whole),
        Cell { path: Some(&[7]), ..plain(id("list"), number) },
        Cell { path: Some(&text_path), ..plain(id("map"), number) },
        Cell { path: Some(&text_path), ..plain(id("set"), &[]) },
        plain(id("v"), text),
    ];
    cells.sort_by_key(|cell| cell.column);
    let built = |cells: &[Cell<'_>]| {
        let mut bytes = Vec::new();
        let mut row = RowBuilder::begin(&mut bytes, &RowHead::bare(1));
        cells.iter().for_each(|cell| row.cell(cell));
        bytes
    };
    (built(&cells), built(&[plain(id("st"), text)]))
}

fn terms(index: &Index, table: &Table, text: &[u8], number: &[u8]) -> Vec<Vec<u8>> {
    let (row, statics) = rows(table, text, number);
    let (row, statics) = (RowRef::trusted(&row), RowRef::trusted(&statics));
    let mut key = Vec::new();
    key::put_partition_key([text, number].into_iter(), &mut key).expect("a key");
    let mut clustering = Vec::new();
    key::put_clustering(table, [text].into_iter(), &mut clustering).expect("a key");
    let mut terms = Vec::new();
    let mut give = |term: &[u8]| {
        terms.push(term.to_vec());
        ControlFlow::Continue(())
    };
    index.terms(table, &key, None, Some(statics), &mut give).expect("sound");
    index.terms(table, &key, Some(&clustering), Some(row), &mut give).expect("sound");
    terms
}

fn matches(filter: &Filter, table: &Table, text: &[u8], number: &[u8]) -> bool {
    let (row, statics) = rows(table, text, number);
    let mut key = Vec::new();
    key::put_partition_key([text, number].into_iter(), &mut key).expect("a key");
    let mut clustering = Vec::new();
    key::put_clustering(table, [text].into_iter(), &mut clustering).expect("a key");
    let static_row = Some(RowRef::trusted(&statics));
    let partition = PartitionRef { token: Token(0), key: &key, static_row };
    filter
        .matches(table, &partition, Some(&clustering), Some(RowRef::trusted(&row)))
        .expect("sound bytes")
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let short =
        prop::sample::select(vec!["", "a", "A", "\u{e4}", "\u{c4}", "a\u{308}", "ab", "\0"]);
    let long = prop::sample::select(vec![0, 1, 2, TERM_BYTES_MAX - 3, TERM_BYTES_MAX, 5000]);
    (short, long).prop_map(|(end, count)| [vec![b'x'; count], end.into()].concat())
}

fn any_analysis() -> impl Strategy<Value = Analysis> {
    any::<(bool, bool, bool)>().prop_map(|(case_sensitive, normalize, ascii)| Analysis {
        case_sensitive,
        normalize,
        ascii,
    })
}

/// Every column with the targets that it may have.
const TARGETS: [(&str, IndexTarget); 11] = [
    ("a", IndexTarget::Value),
    ("b", IndexTarget::Value),
    ("c", IndexTarget::Value),
    ("st", IndexTarget::Value),
    ("v", IndexTarget::Value),
    ("frozen", IndexTarget::Full),
    ("list", IndexTarget::Values),
    ("set", IndexTarget::Values),
    ("map", IndexTarget::Keys),
    ("map", IndexTarget::Values),
    ("map", IndexTarget::Entries),
];

proptest! {
    #[test]
    fn what_a_relation_accepts_has_a_term_in_its_lookup(
        (column, target) in prop::sample::select(TARGETS.to_vec()),
        (analysis, operator) in (any_analysis(), 0..14usize),
        (text, number) in (any_text(), -2..3i32),
        (other, other_number) in (any_text(), -2..3i32),
    ) {
        let (table, index) = (table(), index(column, target, analysis));
        let (number, other_number) = (number.to_be_bytes(), other_number.to_be_bytes());
        let operator = [
            Operator::Equal, Operator::Less, Operator::LessOrEqual, Operator::Greater,
            Operator::GreaterOrEqual, Operator::In, Operator::Contains, Operator::ContainsKey,
            Operator::Entry, Operator::Equal, Operator::Like(Like::Prefix),
            Operator::Like(Like::Suffix), Operator::Like(Like::Contains), Operator::Like(Like::Matches),
        ][operator];
        let column = table.column(column).expect("it is there");
        let value: Box<[u8]> = match (&column.ty, operator) {
            (CqlType::Text | CqlType::Set { .. }, _) => other.clone().into(),
            (CqlType::Map { .. }, Operator::ContainsKey | Operator::Entry) => other.clone().into(),
            (CqlType::List { frozen: true, .. }, _) => list_of(&other_number).into(),
            _ => other_number.into(),
        };
        if matches!(operator, Operator::Like(_)) && column.ty != CqlType::Text {
            return Ok(());
        }
        let mut values = vec![value];
        match operator {
            Operator::In => values.push(values[0].clone()),
            Operator::Entry => values.push(other_number.into()),
            _ => {}
        }
        let Some(lookup) = index.lookup(&table, operator, &values).expect("sound") else {
            return Ok(());
        };
        let target = match column.kind {
            ColumnKind::PartitionKey => FilterTarget::PartitionKey(column.position),
            ColumnKind::Clustering => FilterTarget::Clustering(column.position),
            _ => FilterTarget::Value(column.id),
        };
        let analysis = if operator == Operator::Equal || operator == Operator::In
            || matches!(operator, Operator::Like(_))
            || target == FilterTarget::Value(column.id) { analysis } else { Analysis::NONE };
        let filter = Filter::new(target, operator, values, analysis).into_form(&column.ty);
        let terms = terms(&index, &table, &text, &number);
        prop_assert!(terms.iter().all(|term| term.len() <= TERM_BYTES_MAX));
        prop_assert!(!terms.is_empty());
        if matches(&filter, &table, &text, &number) {
            let found = terms.iter().any(|term| lookup.terms.iter().any(|slice| slice.contains(term)));
            prop_assert!(found, "{lookup:?} {terms:?}");
        }
    }
}

#[test]
fn a_lookup_leaves_out_what_does_not_match() {
    let (table, index) = (table(), index("b", IndexTarget::Value, Analysis::NONE));
    let (two, three) = (2i32.to_be_bytes(), 3i32.to_be_bytes());
    let has = |operator, values: &[[u8; 4]], number: i32| {
        let lookup = index.lookup(&table, operator, values).expect("sound").expect("it helps");
        let terms = terms(&index, &table, b"x", &number.to_be_bytes());
        lookup.terms.iter().any(|slice| slice.contains(&terms[0]))
    };
    let found = |operator, values: &[[u8; 4]]| {
        (0..5).filter(|n| has(operator, values, *n)).collect::<Vec<i32>>()
    };
    assert_eq!(found(Operator::Equal, &[two]), [2]);
    assert_eq!(found(Operator::In, &[three, two, two]), [2, 3]);
    assert_eq!(found(Operator::Less, &[two]), [0, 1]);
    assert_eq!(found(Operator::LessOrEqual, &[two]), [0, 1, 2]);
    assert_eq!(found(Operator::Greater, &[two]), [3, 4]);
    assert_eq!(found(Operator::GreaterOrEqual, &[two]), [2, 3, 4]);
}

#[test]
fn an_index_of_keys_tells_nothing_of_values() {
    let (table, index) = (table(), index("map", IndexTarget::Keys, Analysis::NONE));
    let lookup =
        |operator, values: &[&[u8]]| index.lookup(&table, operator, values).expect("sound");
    assert!(lookup(Operator::ContainsKey, &[b"k"]).is_some());
    assert!(lookup(Operator::Contains, &[&[0, 0, 0, 1]]).is_none());
    assert!(lookup(Operator::Entry, &[b"k", &[0, 0, 0, 1]]).is_none());
}

/// Before: all elements of a collection were made to terms, and then one of them compared.
#[test]
fn no_more_terms_are_made_than_are_wanted() {
    let (table, index) = (table(), index("map", IndexTarget::Keys, Analysis::NONE));
    let id = table.column("map").expect("it is there").id;
    let mut bytes = Vec::new();
    let mut row = RowBuilder::begin(&mut bytes, &RowHead::bare(1));
    for key in [b"a", b"b", b"c"] {
        let path = key.as_slice();
        row.cell(&Cell { path: Some(path), ..Cell::live(id, 1, &[0, 0, 0, 1]) });
    }
    let row = Some(RowRef::trusted(&bytes));
    let mut given = 0;
    let mut give = |_: &[u8]| {
        given += 1;
        if given == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    index.terms(&table, &[], Some(&[]), row, &mut give).expect("sound");
    assert_eq!(given, 2);
}

#[test]
fn dead_cells_have_no_terms() {
    let (table, index) = (table(), index("v", IndexTarget::Value, Analysis::NONE));
    let id = table.column("v").expect("it is there").id;
    let mut bytes = Vec::new();
    RowBuilder::begin(&mut bytes, &RowHead::bare(1)).cell(&Cell::dead(id, 1, 1));
    let row = Some(RowRef::trusted(&bytes));
    let mut give = |_: &[u8]| panic!("a dead cell has none");
    index.terms(&table, &[], Some(&[]), row, &mut give).expect("sound");
}

/// Before: such a number was an error, which ended the use of the index, and a SELECT that compared with one failed.
#[test]
fn a_number_of_too_many_digits_is_found_by_every_lookup() {
    let table = TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .partition_key("k", CqlType::Int)
        .and_then(|t| t.clustering("c", CqlType::Int, false))
        .and_then(|t| t.regular("n", CqlType::Varint))
        .and_then(TableBuilder::build)
        .expect("a sound table");
    let column = table.column("n").expect("it is there").id;
    let index = Index { column, ..index("v", IndexTarget::Value, Analysis::NONE) };
    let long = vec![1; 20_000];
    let term_of = |value: &[u8]| {
        let mut bytes = Vec::new();
        RowBuilder::begin(&mut bytes, &RowHead::bare(1)).cell(&Cell::live(column, 1, value));
        let (row, mut terms) = (Some(RowRef::trusted(&bytes)), Vec::new());
        let mut give = |term: &[u8]| {
            terms.push(term.to_vec());
            ControlFlow::Continue(())
        };
        index.terms(&table, &[], Some(&[]), row, &mut give).expect("a number");
        terms.pop().expect("a term")
    };
    let lookup = |operator, value: &[u8]| {
        index.lookup(&table, operator, &[value]).expect("a number").map(|lookup| lookup.terms)
    };
    let contains = |terms: &[Slice], term: &[u8]| terms.iter().any(|slice| slice.contains(term));
    for operator in [Operator::Equal, Operator::In, Operator::Less, Operator::Greater] {
        let terms = lookup(operator, &[5]).expect("the index tells");
        assert!(contains(&terms, &term_of(&long)), "{operator:?}");
        assert!(!contains(&terms, &term_of(&[if operator == Operator::Less { 6 } else { 4 }])));
        assert_eq!(lookup(operator, &long), None, "{operator:?} of a long number");
    }
    assert!(term_of(&long) < term_of(&[0x80]), "below every number");
}

proptest! {
    #[test]
    fn what_two_lookups_give_both_have(
        a in prop::collection::vec(any::<(u8, u8)>(), 0..4),
        b in prop::collection::vec(any::<(u8, u8)>(), 0..4),
    ) {
        let lookup = |ranges: &[(u8, u8)]| {
            let slice = |(a, b): &(u8, u8)| Slice { start: vec![*a], end: vec![*b] };
            let terms = ranges.iter().filter(|(a, b)| a < b).map(slice).collect();
            IndexLookup { index: IndexId(0), terms: joined(terms) }
        };
        let [a, b] = [lookup(&a), lookup(&b)];
        let both = a.and(&b);
        let has = |lookup: &IndexLookup, n: u8| lookup.terms.iter().any(|slice| slice.contains(&[n]));
        for n in 0..=u8::MAX {
            prop_assert_eq!(has(&both, n), has(&a, n) && has(&b, n));
        }
        prop_assert!(both.terms.iter().all(|slice| slice.start < slice.end));
        prop_assert!(both.terms.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
}

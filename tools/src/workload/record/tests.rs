//! Records: what is bound, what is told, and which answers are judged wrong.

use super::*;
use crate::workload::Now;

const SHAPE_FIELDS: usize = 3;
/// Keys that are loaded.
const KEYS: u64 = 5;

fn shape() -> RecordShape {
    RecordShape { keyspace: "ycsb".into(), fields: SHAPE_FIELDS, field_bytes: 40 }
}

/// The cells of a whole row as a server would answer them; `with_name` puts the key first.
fn row(key: u64, sequence: u64, with_name: Option<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut binder = Binder::new(&mut out);
    if let Some(name) = with_name {
        binder.value(KeyName::of(name).as_bytes());
    }
    for field in 0..SHAPE_FIELDS as u8 {
        let origin = Origin { key, field, mask: 7, sequence };
        binder.value_of(40, |out| origin.append_value(40, out));
    }
    out
}

/// Judges the scan of `limit` rows from `keys[0]` on that was answered with `keys`.
fn scan(from: u64, limit: u64, keys: &[(u64, u64)], floor: u64) -> Vec<&'static str> {
    let cells: Vec<u8> = keys.iter().flat_map(|&(name, key)| row(key, 50, Some(name))).collect();
    let op = shape().op(Verb::Scan, from, limit);
    let at = Now { elapsed_ns: 0, wall_us: 0 };
    let sent = Sent { sequence: 0, floor: &[floor; FIELDS_MAX], at };
    let rows = Rows::new(&cells, keys.len() as u32, 4);
    let mut findings = Findings::default();
    shape().judge_scan((&op, Some(&Ring::of(KEYS))), sent, rows, &mut findings).unwrap();
    findings.violations.iter().map(Violation::name).collect()
}

#[test]
fn statements_and_bound_values_agree() {
    let shape = shape();
    let statements = shape.statements();
    let verbs = [Verb::Read, Verb::Insert, Verb::Update, Verb::WriteBack, Verb::Scan];
    let all = shape.op(Verb::Update, 5, shape.every_field());
    for op in verbs.map(|verb| shape.op(verb, 5, 2)).into_iter().chain([all]) {
        let mut out = Vec::new();
        let mut binder = Binder::new(&mut out);
        shape.bind(&op, 1, &mut binder);
        let statement = &statements[shape.statement(&op)];
        assert_eq!(usize::from(binder.count()), statement.matches('?').count(), "{statement}");
    }
    let update = shape.op(Verb::Update, 5, 2);
    assert!(statements[shape.statement(&update)].contains("SET field2 ="));
    assert_eq!((shape.mask(&update), shape.mask(&shape.op(Verb::Insert, 5, 0))), (0b100, 0b111));
    assert_eq!(shape.mask(&all), 0b111);
    assert!(statements[shape.statement(&all)].contains("SET field0 = ?, field1 = ?, field2 = ? W"));
}

#[test]
fn a_row_that_was_read_is_judged_whole() {
    let cells = row(5, 50, None);
    let judge = |key, floor| {
        let mut rows = Rows::new(&cells, 1, 3);
        shape().judge_row(key, &[floor; FIELDS_MAX], &mut rows).unwrap().map_err(|v| v.name())
    };
    assert_eq!(judge(5, 50), Ok(()));
    assert_eq!(judge(5, 51), Err("lost write"));
    assert_eq!(judge(6, 0), Err("foreign value"));
    assert!(shape().judge_row(5, &[0; FIELDS_MAX], &mut Rows::new(&cells[..50], 1, 3)).is_err());
}

#[test]
fn scans_are_in_token_order_from_the_key_asked_for() {
    let mut keys: Vec<u64> = (0..KEYS).collect();
    keys.sort_by_key(|&key| Token::of_key(KeyName::of(key).as_bytes()));
    let same = |keys: &[u64]| keys.iter().map(|&key| (key, key)).collect::<Vec<_>>();
    assert_eq!(scan(keys[0], 5, &same(&keys), 50), [""; 0]);
    assert_eq!(scan(keys[1], 5, &same(&keys[1..]), 50), [""; 0]);
    assert_eq!(scan(keys[0], 5, &[], 0), ["missing row", "incomplete slice"]);
    assert_eq!(scan(keys[0], 5, &same(&keys[1..]), 0), ["misplaced row", "incomplete slice"]);
    assert_eq!(scan(keys[0], 4, &same(&keys), 0), ["misplaced row"], "more than asked");
    let swapped = [keys[0], keys[2], keys[1]];
    assert!(scan(keys[0], 5, &same(&swapped), 0).contains(&"misplaced row"));
    let wrong_content = [(keys[0], keys[0]), (keys[1], keys[3])];
    assert!(scan(keys[0], 5, &wrong_content, 0).contains(&"foreign value"));
    assert_eq!(scan(keys[0], 5, &same(&keys), 51), ["lost write"]);
}

/// Before: a scan that ended early, or left rows out in the middle, passed.
#[test]
fn a_scan_that_leaves_rows_out_is_incomplete() {
    let mut keys: Vec<u64> = (0..KEYS).collect();
    keys.sort_by_key(|&key| token_of(key));
    let rows = |places: &[usize]| places.iter().map(|&at| (keys[at], keys[at])).collect::<Vec<_>>();
    assert_eq!(scan(keys[0], 3, &rows(&[0, 1, 2]), 0), [""; 0]);
    for wrong in [&[0, 2, 3][..], &[0, 1], &[0]] {
        assert_eq!(scan(keys[0], 3, &rows(wrong), 0), ["incomplete slice"], "{wrong:?}");
    }
    assert_eq!(scan(keys[3], 3, &rows(&[3, 4]), 0), [""; 0], "the end of the ring");
}

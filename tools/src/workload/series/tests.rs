//! The time series: what is bound, and which answers are judged wrong.

use rand::SeedableRng;

use super::*;
use crate::limits::FIELDS_MAX;
use crate::workload::Now;

const LOADED: u32 = 10;

fn shape(ttl_s: u32) -> SeriesShape {
    SeriesShape { keyspace: "ycsb".into(), value_bytes: 40, step_ms: 10_000, ttl_s }
}

/// Two series of ten points, of which thread 1 of 2 owns the second.
fn workload(ttl_s: u32) -> Series {
    Series::new(Setup {
        shape: shape(ttl_s),
        rows_max: 5,
        verify: true,
        rng: SmallRng::seed_from_u64(1),
        series: 2,
        points: LOADED,
        thread: (1, 2),
    })
    .unwrap()
}

/// What the answer `positions` to `op` is judged as, at `seconds` into the run.
fn judge(series: &mut Series, op: &Op, positions: &[u32], seconds: u64) -> Vec<&'static str> {
    let mut cells = Vec::new();
    let mut binder = Binder::new(&mut cells);
    for &position in positions {
        let key = point_key(op.key, position);
        binder.value(&series.shape.at_ms(position).to_be_bytes());
        let origin = Origin { key, field: 0, mask: 1, sequence: 1_000_000 };
        binder.value_of(40, |out| origin.append_value(40, out));
    }
    let at = Now { elapsed_ns: seconds * 1_000_000_000, wall_us: (1 + seconds) * 1_000_000 };
    let sent = Sent { sequence: 0, floor: &[0; FIELDS_MAX], at };
    let mut findings = Findings::default();
    let rows = Rows::new(&cells, positions.len() as u32, 2);
    if op.verb == Verb::Append {
        series.written(op, sent, rows, &mut findings).unwrap();
    } else {
        series.read(op, sent, rows, &mut findings).unwrap();
    }
    findings.violations.iter().map(Violation::name).collect()
}

fn latest(series: &Series, rows: u32) -> Op {
    let last = series.states[0].end - 1;
    series.shape.op(Verb::Latest, 1, last, u64::from(rows) << 32 | u64::from(last))
}

fn window(series: &Series, first: u32, last: u32) -> Op {
    series.shape.op(Verb::Window, 1, first, u64::from(last) << 32 | u64::from(first))
}

fn append(series: &mut Series) -> Op {
    series.op(Verb::Append, 0).unwrap()
}

#[test]
fn whole_answers_pass_and_gaps_do_not() {
    let mut series = workload(0);
    let op = latest(&series, 3);
    assert_eq!(judge(&mut series, &op, &[9, 8, 7], 0), [""; 0]);
    assert_eq!(judge(&mut series, &op, &[11, 10, 9], 0), [""; 0], "appended meanwhile");
    assert_eq!(judge(&mut series, &op, &[9, 7, 6], 0), ["incomplete slice"]);
    assert_eq!(judge(&mut series, &op, &[9, 8], 0), ["incomplete slice"]);
    assert_eq!(judge(&mut series, &op, &[8, 9, 7], 0), ["misplaced row", "incomplete slice"]);
    assert_eq!(judge(&mut series, &op, &[9, 8, 7, 6], 0), ["misplaced row"], "over the limit");
    let op = window(&series, 2, 4);
    assert_eq!(judge(&mut series, &op, &[4, 3, 2], 0), [""; 0]);
    assert_eq!(judge(&mut series, &op, &[4, 2], 0), ["incomplete slice"]);
    assert_eq!(judge(&mut series, &op, &[5, 4, 3, 2], 0), ["misplaced row"]);
}

/// Before: the tool aborted where a point lay before the beginning of time.
#[test]
fn a_point_of_any_time_is_judged() {
    let shape = shape(0);
    for at in [i64::MIN, i64::MAX, BASE_MS - 1] {
        assert_eq!(shape.position(Some(&at.to_be_bytes())), None, "{at}");
    }
    assert_eq!(shape.position(Some(&BASE_MS.to_be_bytes())), Some(0));
}

#[test]
fn an_append_counts_once_it_is_acknowledged_and_a_failed_one_never() {
    let mut series = workload(0);
    let op = append(&mut series);
    assert_eq!((op.key, op.detail), (1, u64::from(LOADED)));
    assert_eq!(series.op(Verb::Append, 0), None, "one in flight");
    judge(&mut series, &op, &[], 0);
    let newest = latest(&series, 2);
    assert_eq!(judge(&mut series, &newest, &[9, 8], 0), ["incomplete slice"]);

    let failing = append(&mut series);
    series.failed(&failing);
    let next = append(&mut series);
    assert_eq!(next.detail, u64::from(LOADED) + 2);
    judge(&mut series, &next, &[], 0);
    let newest = latest(&series, 2);
    assert_eq!(judge(&mut series, &newest, &[12, 10], 0), [""; 0], "the hole is not missed");
}

#[test]
fn what_has_expired_must_be_gone_and_is_not_missed() {
    let mut series = workload(60);
    let op = latest(&series, 3);
    assert_eq!(judge(&mut series, &op, &[], 0), [""; 0], "loaded at an unknown time");
    assert_eq!(judge(&mut series, &op, &[9, 8, 7], 30), [""; 0]);
    assert_eq!(judge(&mut series, &op, &[9], 66), ["expired row"]);
    let op = append(&mut series);
    judge(&mut series, &op, &[], 70);
    let newest = latest(&series, 3);
    assert_eq!(judge(&mut series, &newest, &[], 71), ["incomplete slice"]);
    let mut later = series.states[0].clone();
    assert_eq!(later.unexpired_from(200_000_000_000, 60), later.end);
}

#[test]
fn statements_bind_as_many_values_as_they_have_marks() {
    let shape = shape(60);
    let statements = shape.statements();
    for verb in [Verb::Append, Verb::Latest, Verb::Window, Verb::Point] {
        let op = shape.op(verb, 7, 3, 5 << 32 | 3);
        let mut out = Vec::new();
        let mut binder = Binder::new(&mut out);
        shape.bind(&op, 1, &mut binder);
        let statement = &statements[shape.statement(&op)];
        assert_eq!(usize::from(binder.count()), statement.matches('?').count(), "{statement}");
    }
    assert_eq!(point_of_key(point_key(123_456, 654_321)), (123_456, 654_321));
}

/// The token is that of the composite key as Cassandra serialises it.
#[test]
fn the_partition_key_is_a_composite() {
    let op = shape(0).op(Verb::Append, 7, 0, 0);
    let day = (DATE_ZERO + 19_723).to_be_bytes();
    let key = [&[0, 15][..], b"series-00000007", &[0, 0, 4], &day, &[0]].concat();
    assert_eq!(op.token, Token::of_key(&key));
}

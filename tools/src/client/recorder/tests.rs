//! What becomes of an operation: repeated, failed for good, or left in doubt.

use std::sync::Arc;

use cql::frame::Reader;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;
use crate::ledger::{Frontier, Tallies};
use crate::limits::FIELDS_MAX;
use crate::popularity::Popularity;
use crate::workload::record::RecordShape;
use crate::workload::scenario::{Known, ScenarioName, UNKNOWN};
use crate::workload::ycsb::Fill;
use crate::workload::{Rule, Source};

fn recorder() -> (Recorder, PendingOp) {
    let shape = RecordShape { keyspace: "k".into(), fields: 1, field_bytes: 40 };
    let op = shape.op(Verb::Insert, 3, 0);
    let source = Source::Stretch { keys: (0..10).step_by(1), verb: Verb::Insert };
    let workload = Workload { rule: Box::new(Fill { shape }), source };
    let pending = PendingOp { op, sequence: 9, intended_ns: 100, began_ns: 100, attempts: 0 };
    (Recorder::new(workload, None, Clock::start()), pending)
}

fn error(recorder: &mut Recorder, pending: &PendingOp, code: u32) -> NextStep {
    let details = Reader::new(&[]);
    let reply = Reply::Error { code, text: "why", details };
    recorder.settle(pending, 100, &[0; FIELDS_MAX], reply, 1000).unwrap()
}

#[test]
fn what_may_pass_is_tried_again_with_growing_pauses_and_then_given_up() {
    let (mut recorder, mut pending) = recorder();
    let mut pauses = Vec::new();
    while let NextStep::Again { pending: again, not_before_ns } =
        error(&mut recorder, &pending, 0x1001)
    {
        assert_eq!(again.sequence, 9, "the same write");
        pauses.push(not_before_ns - 1000);
        pending = again;
    }
    assert_eq!(pauses.len() as u32, ATTEMPTS_MAX - 1);
    assert!(pauses.is_sorted() && pauses[0] == BACKOFF_NS_MIN);
    assert_eq!(*pauses.last().unwrap(), BACKOFF_NS_MAX);
    assert_eq!(recorder.interval.retries["overloaded"].count, u64::from(ATTEMPTS_MAX - 1));
    assert_eq!(recorder.interval.errors["overloaded"].count, 1);
}

#[test]
fn what_lasts_fails_at_once_under_its_name() {
    let (mut recorder, pending) = recorder();
    assert_eq!(error(&mut recorder, &pending, 0x2200), NextStep::Over);
    assert_eq!(recorder.interval.errors["invalid"].examples, ["insert of key 3: why (0x2200)"]);
    assert!(matches!(
        error(&mut recorder, &pending, ErrorCode::Unprepared.code()),
        NextStep::Prepare(_)
    ));
    assert_eq!(recorder.settle_lost(&pending, "gone", Reconnects::No), NextStep::Over);
    assert_eq!(recorder.interval.errors["connection lost"].count, 1);
}

/// A transfer that may have been done is not sent again; an increment is, and counts twice as begun.
#[test]
fn what_is_not_idempotent_is_left_in_doubt_or_counted_anew() {
    let known = Known {
        keyspace: "k".into(),
        value_bytes: 40,
        judges: true,
        keys: 4,
        thread: (0, 1),
        tallies: Arc::new(Tallies::new(4, |_| UNKNOWN)),
        promises: Arc::default(),
    };
    let timeout = ErrorCode::WriteTimeout.code();
    for (name, verb) in
        [(ScenarioName::Bank, Verb::Transfer), (ScenarioName::Counters, Verb::Increment)]
    {
        let rng = SmallRng::seed_from_u64(1);
        let mut rule = name.rule(known.clone(), rng.clone());
        let verb_first = if verb == Verb::Transfer { Verb::Read } else { verb };
        let mut op = rule.op(verb_first, 3).unwrap();
        if verb == Verb::Transfer {
            op = transfer_after(rule.as_mut(), op);
        }
        let source = Source::Draw {
            keys: Arc::new(Frontier::new(4)),
            mix: name.usual_mix(),
            popularity: Popularity::Uniform,
            rng,
        };
        let workload = Workload { rule, source };
        let mut recorder = Recorder::new(workload, None, Clock::start());
        let (_, pending) = self::recorder();
        let pending = PendingOp { op, ..pending };
        recorder.begin(&pending);
        let step = error(&mut recorder, &pending, ErrorCode::Overloaded.code());
        assert!(matches!(step, NextStep::Again { .. }), "nothing was done: {step:?}");
        assert!(recorder.interval.proved.is_empty());
        recorder.begin(&pending);
        let step = error(&mut recorder, &pending, timeout);
        assert_eq!(matches!(step, NextStep::Over), verb == Verb::Transfer, "{step:?}");
        assert_eq!(recorder.interval.proved[OUTCOME_UNKNOWN], 1);
        assert!(recorder.interval.errors.is_empty(), "a doubt is no error");
    }
    assert_eq!(known.tallies.begun(3) - known.tallies.answered(3), 2, "both are in doubt");
}

/// The transfer that follows a read of eight accounts.
fn transfer_after(rule: &mut dyn Rule, read: Op) -> Op {
    let mut cells = Vec::new();
    for account in 0..8i64 {
        for number in [account, 1000] {
            cells.extend_from_slice(&8i32.to_be_bytes());
            cells.extend_from_slice(&number.to_be_bytes());
        }
    }
    let at = Clock::start().now();
    let sent = Sent { sequence: 0, floor: &[0; FIELDS_MAX], at };
    let read = Op { verb: Verb::ReadToTransfer, ..read };
    let rows = Rows::new(&cells, 8, 2);
    rule.read(&read, sent, rows, &mut Findings::default()).unwrap().unwrap()
}

#[test]
fn a_success_is_timed_from_when_it_was_meant() {
    let (mut recorder, pending) = recorder();
    let after = recorder.settle(&pending, 600, &[0; FIELDS_MAX], Reply::Void, 5_100).unwrap();
    assert_eq!(after, NextStep::Over);
    let latency = recorder.interval.latencies(Kind::Insert).unwrap().max();
    assert!((4_900..5_100).contains(&latency), "{latency}");
}

//! The queues by themselves: who has a turn when, and what they count, without a log or a table behind them.
//!
//! The test plays the engine: it takes turns (`poll_turn`), and ends them as the engine would (`leave`,
//! `leave_deferred`, `leave_logged`), in any order, while what is in the log becomes readable (`applied`) and what
//! waits too long is given up (`take_late`).
//!
//! Invariants that are asserted: turns of one partition come in the order of the writes, one at a time; a queue that
//! has nothing to do any more is gone, with all bytes that it counted.
//!
//! Not here: what a turn reads and writes (`read_before_write.rs`, `engine/tests/conditions.rs`), crashes
//! (`shard/tests/sim/in_order.rs`).

use model::row::{Cell, RowBuilder, RowHead};
use model::{ColumnId, Deletion, MutationBuilder, Token};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn record(keys: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for key in keys {
        MutationBuilder::begin(&mut out, TableId(Uuid::nil()), Token(1), &[*key]).finish();
    }
    out
}

/// A record of the partition `k`.
fn of_k(fill: impl FnOnce(&mut MutationBuilder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut mutation = MutationBuilder::begin(&mut out, TableId(Uuid::nil()), Token(1), b"k");
    fill(&mut mutation);
    mutation.finish();
    out
}

/// Takes a write of the partition `k` from its queue to the log.
fn go(queues: &PartitionQueues, kind: Kind, record: &[u8], end: u32) {
    queues.push(record, 1, kind).expect("there is space");
    let Poll::Ready(first) = queues.poll_turn(&mut Context::from_waker(Waker::noop())) else {
        panic!("nothing is before it")
    };
    if kind == Kind::ReadsFirst {
        queues.overlay(TableId(Uuid::nil()), b"k");
        queues.has_read();
    }
    queues.leave_logged(first.number, record, Position::new(1, end));
}

/// Before: the count of the queues' bytes went below zero, which ended the node.
#[test]
fn an_overlay_that_a_deletion_makes_smaller_is_counted() {
    let queues = PartitionQueues::new(1 << 20);
    let row = |c: u8| {
        of_k(|m| {
            m.row(&[c], |out| {
                let cell = Cell::live(ColumnId(1), 1, b"v");
                RowBuilder::begin(out, &RowHead::bare(1)).cell(&cell);
            });
        })
    };
    for c in 1..4 {
        go(&queues, Kind::ReadsFirst, &row(c), u32::from(c));
    }
    let before = queues.inner.borrow().queues.values().next().map(|q| q.overlay.memtable_bytes());
    let deletion = Deletion { timestamp: 9, local_s: 1 };
    go(&queues, Kind::Plain, &of_k(|m| m.delete_partition(deletion)), 4);
    let after = queues.inner.borrow().queues.values().next().map(|q| q.overlay.memtable_bytes());
    assert!(after < before, "{after:?} {before:?}");
    queues.applied(Position::new(1, 4));
    assert!(queues.is_empty() && queues.bytes() == 0, "{}", queues.bytes());
}

/// Before: plain writes of a partition with one conditional write kept its queue for ever, and went through it.
#[test]
fn a_plain_write_behind_nobody_does_not_wait_and_unsettles() {
    let queues = PartitionQueues::new(1 << 20);
    let record = of_k(|_| {});
    queues.push(&record, 1, Kind::ReadsFirst).expect("there is space");
    assert!(queues.must_wait(&record), "one is before it");
    let turn = queues.poll_turn(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(first) = turn else { panic!("nothing is before it") };
    queues.settle(first.number);
    queues.has_read();
    queues.leave_logged(first.number, &record, Position::new(1, 1));
    assert!(!queues.is_empty() && !queues.must_wait(&record), "it is in the log");
    queues.push(&record, 2, Kind::ReadsFirst).expect("there is space");
    let turn = queues.poll_turn(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(second) = turn else { panic!("nothing is before it") };
    assert!(!queues.is_settled(second.number), "a plain write may be on its way past the overlay");
    queues.has_read();
    queues.leave(second.number);
    queues.applied(Position::new(1, 1));
    assert!(queues.is_empty());
}

/// Before: plain writes always came first, and as long as more came none that reads began.
#[test]
fn neither_kind_keeps_the_other_away() {
    let queues = PartitionQueues::new(1 << 20);
    for (key, kind) in [Kind::Plain, Kind::ReadsFirst].into_iter().cycle().take(12).enumerate() {
        queues.push(&record(&[key as u8]), key as u64, kind).expect("there is space");
    }
    let mut cx = Context::from_waker(Waker::noop());
    let turns = std::iter::from_fn(|| match queues.poll_turn(&mut cx) {
        Poll::Ready(write) => Some(write.kind == Kind::Plain),
        Poll::Pending => None,
    });
    let turns: Vec<bool> = turns.collect();
    assert_eq!(turns, [true, false].repeat(6));
}

proptest! {
    /// Whatever the order in which turns end, writes of one partition have theirs in the order in which they came,
    /// no two at once, and nothing is left, whatever was written of them and became readable meanwhile.
    #[test]
    fn turns_come_in_order_and_one_at_a_time(
        writes in prop::collection::vec((prop::collection::vec(0..4u8, 1..4), any::<bool>()), 1..80),
        ends in prop::collection::vec(any::<prop::sample::Index>(), 80)
    ) {
        let queues = PartitionQueues::new(1 << 20);
        let mut cx = Context::from_waker(Waker::noop());
        let (mut begun, mut open) = (vec![None; 4], Vec::new());
        let (mut log, mut applied) = (0, 0);
        for (ticket, (keys, reads)) in writes.iter().enumerate() {
            let kind = if *reads { Kind::ReadsFirst } else { Kind::Plain };
            queues.push(&record(keys), ticket as u64, kind).expect("there is space");
        }
        for end in ends {
            while let Poll::Ready(write) = queues.poll_turn(&mut cx) {
                for key in &writes[write.ticket as usize].0 {
                    let others = |(ticket, _): &(u64, u64)| writes[*ticket as usize].0.contains(key);
                    prop_assert!(!open.iter().any(others), "one at a time");
                    prop_assert!(begun[usize::from(*key)].is_none_or(|last| last <= write.ticket));
                    begun[usize::from(*key)] = Some(write.ticket);
                }
                if write.kind == Kind::ReadsFirst {
                    queues.has_read();
                }
                open.push((write.ticket, write.number));
            }
            if end.index(7) == 0 {
                // What waits is given up up to here; it counts as if it had never come.
                let late = queues.take_late(end.index(writes.len()) as u64);
                let has_turn = |late: &u64| open.iter().any(|(ticket, _)| ticket == late);
                prop_assert!(!late.iter().any(has_turn), "{:?}", late);
            }
            if !open.is_empty() {
                let (ticket, number) = open.swap_remove(end.index(open.len()));
                let record = record(&writes[ticket as usize].0);
                log += 1;
                match end.index(5) {
                    0 => queues.leave(number),
                    1 => queues.leave_deferred(number),
                    _ => queues.leave_logged(number, &record, Position::new(1, log)),
                }
            }
            if end.index(3) == 0 {
                applied = log - end.index(1 + (log - applied) as usize) as u32;
                queues.applied(Position::new(1, applied));
            }
        }
        queues.applied(Position::new(1, log));
        prop_assert_eq!((queues.len(), queues.bytes(), queues.is_empty()), (0, 0, true));
    }
}

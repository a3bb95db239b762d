//! Reads of fragments: range deletions over all of them, and work that is counted.

use super::*;

/// What a read gives, how it ends, and how often it pauses.
async fn pauses_of(engine: &Engine, command: &ReadCommand) -> (Seen, ReadEnd, u32) {
    let (mut seen, pauses) = (Seen::default(), Slot::new(0));
    let pause = || {
        pauses.set(pauses.get() + 1);
        std::future::ready(())
    };
    let end = engine.read(command, &mut seen, pause).await.unwrap();
    (seen, end, pauses.get())
}

/// What a newer range deletion covers is sought over, over older deletions that stay and from fragment to fragment.
#[test]
fn a_newer_range_deletion_hides_the_rows_of_all_fragments() {
    on_sim(3, async |_, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        for round in 0..4 {
            shard.round(round).await;
        }
        run_jobs(&shard.engine, NOW_S).await;
        assert!(shard.engine.table_size(TABLE).unwrap().sstables > 10);
        for (first, last) in [(60, 250), (20, 300), (5, 390)] {
            let Slice { start, end } = slice(first, last);
            shard.oracle.retain(|at, _| *at < start || *at >= end);
            let deleted = |m: &mut MutationBuilder<'_>, timestamp| {
                let deletion = Deletion { timestamp, local_s: 100 };
                m.delete_range(&RangeTombstone { start: &start, end: &end, deletion });
            };
            shard.write(deleted).await;
            check(&shard.engine, &shard.oracle, &format!("deleted from {first}")).await;
        }
    });
}

/// Before: a read walked over any number of bounds in cached blocks in one step, in the pass itself: 0.2 s for a
/// million.
#[test]
fn range_deletions_under_a_newer_one_are_passed_over_in_steps() {
    const RANGES: u32 = 4000;
    for is_covered in [true, false] {
        on_sim(3, async move |_, disk, exec| {
            let mut shard = Shard::create(&disk, &exec).await;
            let column = table().regulars().next().unwrap().id;
            let delete = |m: &mut MutationBuilder<'_>, (first, last), timestamp| {
                let Slice { start, end } = slice(first, last);
                let deletion = Deletion { timestamp, local_s: NOW_S };
                m.delete_range(&RangeTombstone { start: &start, end: &end, deletion });
            };
            for first in (0..RANGES).step_by(500) {
                let some = first..first + 500;
                shard.write(|m, _| some.for_each(|i| delete(m, (2 * i, 2 * i), 10))).await;
            }
            // What is newer than the deletion over all: the file cannot be passed over.
            let newest = if is_covered { 10 } else { 1000 };
            let row = |out: &mut Vec<u8>| put_row(out, column, newest, 7);
            shard.write(|m, _| m.row(&place(2 * RANGES + 1), row)).await;
            flush(&shard.engine).await;
            let all = command(of_key(KEY), slice(0, 3 * RANGES), false);
            let mut seen = Seen::default();
            shard.engine.read(&all, &mut seen, yield_now).await.unwrap();
            assert_eq!(seen.0.len(), 1, "and its blocks are in the cache");
            shard.write(|m, _| delete(m, (0, 3 * RANGES), 20)).await;
            let at_once = shard.engine.read_cached(&all, &mut Seen::default());
            let (seen, end, pauses) = pauses_of(&shard.engine, &all).await;
            assert_eq!(seen.0.len(), usize::from(!is_covered));
            assert!(end.tombstones < 4, "what is not seen does not count: {}", end.tombstones);
            match is_covered {
                true => assert!(at_once.is_ok() && pauses < 2, "it is sought over"),
                false => {
                    assert_eq!(at_once, Err(Error::WouldBlock));
                    let (bounds, quantum) = (2 * RANGES, engine::limits::READ_QUANTUM_ROWS);
                    assert!(pauses > bounds / quantum / 2, "{pauses} pauses");
                }
            }
        });
    }
}

/// Before: a partition that was not there counted as nothing, and a read of 10,000 of them was one step.
#[test]
fn partitions_that_are_not_there_are_work() {
    on_sim(1, async |_, disk, exec| {
        let shard = Shard::create(&disk, &exec).await;
        let count = 4 * engine::limits::READ_AT_ONCE_ROWS_MAX;
        let key = |number: u32| Box::from(number.to_be_bytes());
        let keys = (0..count).map(|number| (Token(i64::from(number)), key(number)));
        let absent = command(Partitions::Keys(keys.collect()), slice(0, 3 * ROWS), false);
        let at_once = shard.engine.read_cached(&absent, &mut Seen::default());
        assert_eq!(at_once, Err(Error::WouldBlock));
        let (_, _, pauses) = pauses_of(&shard.engine, &absent).await;
        // After the last it pauses no more.
        assert!(pauses >= count / engine::limits::READ_QUANTUM_ROWS - 1, "{pauses} pauses");
    });
}

/// Before: a row of an IN that was not there counted as nothing, and a read of 10,000 of them was one step.
#[test]
fn rows_that_are_not_there_are_work() {
    on_sim(1, async |_, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        let column = table().regulars().next().unwrap().id;
        let count = 4 * engine::limits::READ_AT_ONCE_ROWS_MAX;
        let put = |out: &mut Vec<u8>| put_row(out, column, 1, 7);
        let (first, last) = (place(0), place(count));
        shard.write(|m, _| [&first, &last].iter().for_each(|at| m.row(at, put))).await;
        let slices: Vec<Slice> = (0..count).map(|row| slice(row + 1, row + 1)).collect();
        for is_flushed in [false, true] {
            if is_flushed {
                flush(&shard.engine).await;
            }
            for reversed in [false, true] {
                for partitions in [of_key(KEY), Partitions::Range(TokenRange::ALL)] {
                    let one = command(partitions, slices[0].clone(), reversed);
                    let many = ReadCommand { slices: slices.clone(), ..one };
                    check_pauses(&shard.engine, &many, (count - 1, 1)).await;
                }
            }
        }
    });
}

/// A read that finds so many rows after so many empty slices pauses about as often as if each slice were a row, and
/// does not come to its end inside a pass.
async fn check_pauses(engine: &Engine, command: &ReadCommand, (empty, rows): (u32, usize)) {
    let (seen, _, pauses) = pauses_of(engine, command).await;
    assert_eq!(seen.0.len(), rows);
    let least = empty / engine::limits::READ_QUANTUM_ROWS / 2;
    assert!(pauses >= least, "{pauses} pauses");
    let at_once = engine.read_cached(command, &mut Seen::default());
    assert_eq!(at_once, Err(Error::WouldBlock));
}

/// A shard with two files of every other row of a partition each, and a merge of them that waits at a gate: it has made
/// a fragment of their first rows.
async fn half_merged(disk: &Disk, exec: &SimExec) -> (Rc<Engine>, Rc<Gate>) {
    let mut shard = Shard::create(disk, exec).await;
    let gate = Rc::new(Gate::default());
    shard.engine.pace_merges(gate.clone());
    let column = table().regulars().next().unwrap().id;
    for first in [0, 2] {
        let mut rows = (first..ROWS).step_by(4);
        shard
            .write(|m, at| {
                rows.by_ref().for_each(|row| m.row(&place(row), |out| put_row(out, column, at, 7)));
            })
            .await;
        flush(&shard.engine).await;
    }
    let (merging, engine) = (shard.engine.clone(), shard.engine.clone());
    exec.spawn(async move { merge_whole(&merging, NOW_S).await });
    while engine.stats().compaction_fragments == 0 {
        yield_now().await;
    }
    gate.is_shut.set(true);
    while gate.waits.get() == 0 {
        yield_now().await;
    }
    assert_eq!(engine.table_size(TABLE).unwrap().runs, 3, "a fragment, and what is left of two");
    (engine, gate)
}

/// Before: a file from a place inside a partition on, which a merge has left, kept from the reader what it passed.
#[test]
fn rows_that_are_not_in_what_a_merge_has_left_are_work() {
    on_sim(1, async |_, disk, exec| {
        let (engine, gate) = half_merged(&disk, &exec).await;
        let slices: Vec<Slice> = (1..ROWS).step_by(2).map(|row| slice(row, row)).collect();
        let one = command(of_key(KEY), slices[0].clone(), false);
        let absent = ReadCommand { slices, ..one };
        assert_eq!(read_all(&engine, &absent).await, Rows::new());
        let (_, _, pauses) = pauses_of(&engine, &absent).await;
        assert!(pauses > 1, "{pauses} pauses");
        gate.is_shut.set(false);
    });
}

/// Ends a read at its first row.
#[derive(Default)]
struct First(Option<Vec<u8>>);

impl RowSink for First {
    fn row(&mut self, _: &PartitionRef<'_>, at: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        self.0 = at.map(<[u8]>::to_vec);
        Flow::Enough
    }
}

/// Before: what a merge had left of its inputs was sought in for rows that its output alone has, four reads of each. A
/// server that is stopped inside such a merge reads it so until the merge is made again.
#[test]
fn what_a_merge_has_left_is_not_read_for_rows_before_it() {
    on_sim(1, async |sim, disk, exec| {
        let (engine, gate) = half_merged(&disk, &exec).await;
        // The last row is in what is left.
        for (row, slice, reversed, reads_max) in [
            (0, slice(0, 2), false, 1),
            (2, slice(0, 2), true, 1),
            (0, slice(0, ROWS), false, 1),
            (ROWS - 2, slice(0, ROWS), true, 4),
        ] {
            let (command, mut first) = (command(of_key(KEY), slice, reversed), First::default());
            let before = sim.ops();
            engine.read(&command, &mut first, yield_now).await.unwrap();
            let reads = sim.ops() - before;
            assert_eq!(first.0, Some(place(row)));
            assert!(reads <= reads_max, "{reads} reads for row {row}, reversed: {reversed}");
        }
        // EXPLAIN leaves them out, as the read does: of the first rows the fragment alone is left.
        let first_rows = command(of_key(KEY), slice(0, 2), false);
        let sources = engine.read_sources(&first_rows, yield_now).await.unwrap();
        assert_eq!((sources.sstables, sources.outside_bounds), (1, 2));
        gate.is_shut.set(false);
    });
}

//! How large a partition of several fragments is, and how often that is told.

use super::*;

/// The fragment names the row, and so does the file that it was merged from and that is still needed: a row of more
/// than half the limit was refused every further element until the merge was over.
#[test]
fn a_large_row_counts_once_while_its_partition_is_merged_in_part() {
    on_sim(4, async |_, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        shard.engine.set_row_limits(RowLimits { bytes_max: 2 << 20, ..RowLimits::default() });
        for element in 0..40 {
            shard.put_element(0, element, 30 << 10).await.unwrap();
        }
        shard.round(1).await;
        shard.round(2).await;
        shard.put_element(0, 40, 10).await.unwrap();
        let gate = Rc::new(Gate::default());
        shard.engine.pace_merges(gate.clone());
        let (merging, over) = (shard.engine.clone(), Rc::new(Slot::new(false)));
        let ended = over.clone();
        exec.spawn(async move {
            merge_whole(&merging, NOW_S).await;
            ended.set(true);
        });
        while shard.engine.stats().compaction_fragments == 0 {
            assert!(!over.get(), "there is something to merge");
            yield_now().await;
        }
        gate.is_shut.set(true);
        while gate.waits.get() == 0 {
            assert!(!over.get(), "it goes on inside the partition");
            yield_now().await;
        }
        let size = shard.engine.table_size(TABLE).unwrap();
        assert!(size.runs > 1 && !over.get(), "a merge inside the partition: {size:?}");
        shard.put_element(0, 41, 10).await.unwrap();
        // It still counts: once.
        let refused = shard.put_element(0, 42, 900 << 10).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        gate.is_shut.set(false);
        while !over.get() {
            yield_now().await;
        }
        shard.put_element(0, 43, 10).await.unwrap();
        let refused = shard.put_element(0, 42, 900 << 10).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    });
}

/// A partition that lies in several fragments of a run counts as one: none of them is large by itself.
#[test]
fn a_partition_is_as_large_as_its_fragments_together() {
    async fn large(engine: &Engine, partition_bytes: u64) -> LargeData {
        let from = LargeThresholds { partition_bytes, ..LargeThresholds::TOLD };
        engine.large_data(from, async || yield_now().await).await
    }
    on_sim(5, async |_, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        for round in 0..4 {
            shard.round(round).await;
        }
        let apart = large(&shard.engine, 10_000).await.partitions;
        assert_eq!(apart.len(), 4, "each file is a run: {apart:?}");
        assert!(apart.is_sorted_by(|a, b| a.bytes >= b.bytes), "{apart:?}");
        merge_whole(&shard.engine, NOW_S).await;
        let size = shard.engine.table_size(TABLE).unwrap();
        assert!(size.runs == 1 && size.sstables > 5, "{size:?}");
        let found = large(&shard.engine, 10_000).await;
        let [one] = &found.partitions[..] else { panic!("one run: {found:?}") };
        let values = (shard.oracle.len() * VALUE_BYTES) as u64;
        assert!(one.key == KEY && (values..2 * values).contains(&one.bytes), "{one:?}");
        assert_eq!(large(&shard.engine, one.bytes).await.partitions.len(), 1);
        assert_eq!(large(&shard.engine, one.bytes + 1).await, LargeData::default());
        assert_eq!(shard.engine.take_large_written(), None, "what operators are told of is larger");
    });
}

/// It was listed, and no line said so.
#[test]
fn a_partition_that_its_fragments_make_large_together_is_told_once() {
    on_sim(6, async |_, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        for round in 0..4 {
            shard.round(round).await;
        }
        assert_eq!(shard.engine.take_large_written(), None);
        let large_from = (shard.oracle.len() * VALUE_BYTES) as u64 / 2;
        shard.engine.set_large_partition_bytes(large_from);
        merge_whole(&shard.engine, NOW_S).await;
        let size = shard.engine.table_size(TABLE).unwrap();
        assert!(size.runs == 1 && size.sstables > 5, "{size:?}");
        let told = shard.engine.take_large_written().unwrap();
        assert!((large_from..large_from * 3 / 2).contains(&told.bytes), "{told:?} of {large_from}");
        assert_eq!((told.is_row, &told.key[..], told.files), (false, KEY, 1));
        // A merge writes a run anew.
        merge_whole(&shard.engine, NOW_S).await;
        assert_eq!(shard.engine.take_large_written().map(|told| told.files), Some(1));
        shard.engine.set_large_partition_bytes(4 * large_from);
        merge_whole(&shard.engine, NOW_S).await;
        assert_eq!(shard.engine.take_large_written(), None);
    });
}

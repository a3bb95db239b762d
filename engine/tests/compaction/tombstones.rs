//! When a merge lets a tombstone go, and when it keeps one.

use super::*;

#[test]
fn what_is_deleted_leaves_no_file_once_its_grace_is_over() {
    on_sim(1, async |_, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        for round in 0..3 {
            shard.round(round).await;
        }
        for key in 0..KEYS {
            shard.write(key, None).await;
        }
        flush(&shard.engine).await;
        run_jobs(&shard.engine, 105).await;
        assert_eq!(shard.files(), 1, "tombstones in their grace stay");
        run_jobs(&shard.engine, LATER_S).await;
        assert_eq!(shard.files(), 0);
        shard.check().await;
    });
}

/// Before: they waited for a place among the merges, behind every table that had runs to merge.
#[test]
fn files_in_which_nothing_is_alive_are_removed_by_a_job_that_is_no_merge() {
    on_sim(1, async |_, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        for key in 0..KEYS {
            shard.write(key, None).await;
        }
        flush(&shard.engine).await;
        assert_eq!(shard.engine.next_job_of(JobKind::Remove, 105), None, "in their grace");
        let job = shard.engine.next_job_of(JobKind::Remove, LATER_S);
        assert_eq!(job, Some(Job::Drop(TABLE)));
        shard.engine.run(Job::Drop(TABLE), LATER_S, yield_now).await.unwrap();
        assert_eq!(shard.files(), 0);
        assert_eq!(shard.engine.next_job(LATER_S), None);
        shard.check().await;
    });
}

/// Before: a partition longer than its strategy's fragments, with a tombstone that a merge keeps there, was merged into
/// itself again and again for it. Seed 205846883233002 of the simulator.
#[test]
fn a_file_is_not_merged_again_for_tombstones_that_stay() {
    for fragment_bytes in [100, 200, 300, 10_000] {
        on_sim(1, async move |_, disk, exec| {
            let compaction = Compaction::of_class(Class::Leveled);
            let options =
                TableOptions { gc_grace_seconds: 10, compaction, ..TableOptions::default() };
            let schema = schema_of([key_value(options)]);
            let mut shard = Shard::create_with(&disk, &exec, &schema).await;
            shard.engine.set_fragment_bytes_min(fragment_bytes);
            shard.write(1, None).await;
            shard.write(1, Some(1)).await;
            flush(&shard.engine).await;
            let mut jobs = 0;
            while let Some(job) = shard.engine.next_job(LATER_S) {
                shard.engine.run(job, LATER_S, async || yield_now().await).await.unwrap();
                jobs += 1;
                assert!(jobs < 20, "work without an end, with fragments of {fragment_bytes}");
            }
            shard.check().await;
        });
    }
}

/// Tombstones are of second 100, their grace ends with second 110.
#[test]
fn tombstones_go_when_tombstone_gc_says() {
    for (mode, now_s, files) in [
        (TombstoneGc::Timeout, 110, 1),
        (TombstoneGc::Timeout, 111, 0),
        (TombstoneGc::Disabled, LATER_S, 1),
        (TombstoneGc::Immediate, 99, 1),
        (TombstoneGc::Immediate, 100, 0),
    ] {
        on_sim(1, async move |_, disk, exec| {
            let mut shard = Shard::create_with(&disk, &exec, &schema_with(mode)).await;
            shard.write(1, Some(1)).await;
            shard.write(1, None).await;
            flush(&shard.engine).await;
            merge_whole(&shard.engine, now_s).await;
            run_jobs(&shard.engine, now_s).await;
            assert_eq!(shard.files(), files, "{mode:?} at {now_s}");
            shard.check().await;
        });
    }
}

/// A tombstone covers what has its timestamp, too: with it gone, the value that memory holds would be seen.
#[test]
fn a_tombstone_stays_for_a_value_of_the_same_timestamp_in_memory() {
    for (timestamp, stays) in [(6, true), (7, true), (8, false)] {
        on_sim(1, async move |_, disk, exec| {
            let schema = schema_with(TombstoneGc::Immediate);
            let shard = Shard::create_with(&disk, &exec, &schema).await;
            shard::write(&shard.engine, &record(1, None, 7)).await.unwrap();
            flush(&shard.engine).await;
            shard::write(&shard.engine, &record(1, Some(1), timestamp)).await.unwrap();
            merge_whole(&shard.engine, LATER_S).await;
            run_jobs(&shard.engine, LATER_S).await;
            assert_eq!(shard.files(), u64::from(stays), "a value of {timestamp}");
            assert_eq!(all(&shard.engine).await.len(), usize::from(!stays));
        });
    }
}

#[test]
fn with_no_space_for_a_merge_tombstones_are_purged() {
    on_sim(1, async |sim, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        for key in 0..KEYS {
            shard.write(key, (key == 0).then_some(1)).await;
        }
        flush(&shard.engine).await;
        for round in 1..4 {
            shard.write(round, Some(round)).await;
            flush(&shard.engine).await;
        }
        let partitions = || shard.engine.table_size(TABLE).unwrap().partitions;
        assert_eq!((shard.files(), partitions()), (4, u64::from(KEYS) + 3));
        let quota = |bytes| Faults { quota_bytes: Some(bytes), ..Faults::default() };
        sim.set_faults(quota(1 << 30));
        let used_bytes = (1 << 30) - disk.free_space().await.unwrap().free_bytes;
        // Enough for one file, and not for a merge of the four.
        sim.set_faults(quota(used_bytes + 12_000));
        let job = shard.engine.next_job(LATER_S).unwrap();
        shard.engine.run(job, LATER_S, async || yield_now().await).await.unwrap();
        assert_eq!((shard.files(), partitions()), (4, 4), "tombstones alone are purged");
        sim.set_faults(Faults::default());
        run_jobs(&shard.engine, LATER_S).await;
        assert_eq!((shard.files(), partitions()), (1, 4));
        shard.check().await;
    });
}

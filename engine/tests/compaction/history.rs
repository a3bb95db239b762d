//! What a running merge tells of itself, and what is remembered of one that has ended.

use super::*;

/// What a merge of the table showed of itself at each of its pauses, in bytes of all that it merges.
async fn seen_of_a_merge(engine: &Engine, now_s: u32) -> (Vec<(u64, u64)>, engine::Result<()>) {
    let seen = RefCell::new(Vec::new());
    let job = engine.next_job(now_s).unwrap();
    let pause = async || {
        let running = engine.running_merges();
        assert_eq!(running.len(), 1, "{running:?}");
        let status = &running[0];
        assert_eq!((status.merge.table, &*status.merge.keyspace_name), (TABLE, "ks"));
        assert_eq!((&*status.merge.table_name, status.merge.begun_s), ("t", now_s));
        assert_eq!(status.sstables, 4);
        assert!(status.total_file_bytes > 0);
        seen.borrow_mut().push((status.merged_bytes, status.total_bytes));
        yield_now().await;
    };
    let result = engine.run(job, now_s, pause).await;
    engine.date_merges(now_s + 5);
    (seen.into_inner(), result)
}

#[test]
fn a_running_merge_tells_how_far_it_is_and_is_remembered_when_it_has_ended() {
    on_sim(1, async |_, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        shard.engine.set_fragment_bytes_min(1);
        for round in 0..4 {
            shard.round(round).await;
        }
        let bytes = shard.engine.table_size(TABLE).unwrap().bytes;
        let (seen, result) = seen_of_a_merge(&shard.engine, 1).await;
        result.unwrap();
        let steps: Vec<u64> = seen.iter().map(|(merged, _)| *merged).collect();
        assert!(steps.is_sorted(), "{steps:?}");
        let risen: BTreeSet<u64> = steps.iter().copied().collect();
        assert!(risen.len() > 5, "{steps:?}");
        let (last, total) = *seen.last().unwrap();
        assert!(last <= total && last > total / 2, "{seen:?}");
        assert_eq!(shard.engine.running_merges(), []);
        let ended = shard.engine.ended_merges();
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].merge.number, ended[0].ended_s), (1, Some(6)));
        assert_eq!(ended[0].file_bytes_in, bytes);
        assert_eq!(ended[0].file_bytes_out, shard.engine.table_size(TABLE).unwrap().bytes);
    });
}

#[test]
fn a_merge_that_has_failed_is_listed_no_more_and_did_nothing() {
    on_sim(1, async |sim, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        for round in 0..4 {
            shard.round(round).await;
        }
        // Behind the counting of the names of its four files.
        sim.set_faults(Faults {
            fail_op: Some(7),
            fail_errno: Some(libc::EIO),
            ..Faults::default()
        });
        let (_, result) = seen_of_a_merge(&shard.engine, 1).await;
        sim.set_faults(Faults::default());
        assert!(result.is_err());
        assert_eq!(shard.engine.running_merges(), []);
        assert_eq!(shard.engine.ended_merges(), []);
        // It is tried again.
        run_jobs(&shard.engine, 1000).await;
        shard.engine.date_merges(1001);
        let ended = shard.engine.ended_merges();
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].merge.number, ended[0].merge.begun_s), (2, 1000));
        shard.check().await;
    });
}

#[test]
fn files_that_were_removed_without_a_merge_are_remembered_too() {
    on_sim(1, async |_, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        shard.write(1, None).await;
        flush(&shard.engine).await;
        let bytes = shard.engine.table_size(TABLE).unwrap().bytes;
        run_jobs(&shard.engine, LATER_S).await;
        assert_eq!(shard.files(), 0);
        let ended = shard.engine.ended_merges();
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].file_bytes_in, ended[0].file_bytes_out), (bytes, 0));
        assert_eq!(ended[0].ended_s, None, "only the owner knows when");
    });
}

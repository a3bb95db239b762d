//! What merges free, what they may take, and when they end; and filters that are not in memory.

use super::*;

/// Before: what a merge unlinks counted as free though a snapshot had it, too: the merge was begun with space for a few
/// fragments, and went on until a write met the full disk.
#[test]
fn what_a_snapshot_holds_is_not_freed_by_a_merge() {
    on_sim(async |sim, disk, exec| {
        let seeded = |seed: u64| config(seed << 40, TokenRange::ALL, 0);
        Engine::create(&disk, &seeded(10)).await.unwrap();
        let engine = open(&disk, &exec, seeded(20), &SpaceLedger::default()).await;
        engine.set_fragment_bytes_min(100 << 10);
        for run in 0..4 {
            for part in 0..4 {
                for key in (0..1600).filter(|key| key % 16 == 4 * run + part) {
                    write(&engine, &record(&[key], Some(&noise(key, 400)), 1)).await.unwrap();
                }
                flush(&engine).await;
            }
            merge_once(&engine, LATER_S).await.unwrap();
        }
        let fragments = engine.stats().compaction_fragments;
        assert!(fragments > 20, "runs of fragments: {fragments}");
        let link = async |tag: &str| {
            let dir = RelPath::new(&format!("snapshots/{tag}")).unwrap();
            disk.mkdir(&dir).await.unwrap();
            engine.link_files(TABLE, &dir).await.unwrap();
        };
        disk.mkdir(&RelPath::new("snapshots").unwrap()).await.unwrap();
        link("s").await;
        // Less than two of the four runs.
        let bytes = engine.table_size(TABLE).unwrap().bytes;
        leave_free(&sim, &disk, bytes * 2 / 5).await;
        let full = Error::DiskFull { file: "the output of a compaction".into() };
        assert_eq!(merge_once(&engine, LATER_S).await, Err(full));
        assert_eq!(engine.stats().compaction_fragments, fragments, "nothing was begun");
        leave_free(&sim, &disk, bytes * 11 / 10).await;
        assert_eq!(merge_once(&engine, LATER_S + 60).await, Ok(()));
        assert!(engine.stats().compaction_fragments > fragments);
        sim.set_faults(Faults::default());
    });
}

/// Runs the merge that is proposed at this second.
async fn merge_once(engine: &Engine, now_s: u32) -> Result<(), Error> {
    let job = engine.next_job_of(JobKind::Compact, now_s).unwrap();
    engine.run(job, now_s, yield_now).await.map(drop)
}

/// Before: it read on to its end, as long as its output was too short to be adopted, and kept all that it read.
#[test]
fn a_merge_of_a_table_that_was_emptied_ends_at_its_next_step() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        for part in 0..4 {
            for key in (0..200).filter(|key| key % 4 == part) {
                write(&engine, &record(&[key], Some(&noise(key, 400)), 1)).await.unwrap();
            }
            flush(&engine).await;
        }
        let used_bytes = sim.used_bytes();
        let (job, pauses) =
            (engine.next_job_of(JobKind::Compact, LATER_S).unwrap(), RefCell::new(0));
        let pause = async || {
            let count = pauses.replace_with(|count| *count + 1) + 1;
            if count == 10 {
                engine.truncate(TABLE).await.unwrap();
            }
        };
        engine.run(job, LATER_S, pause).await.unwrap();
        assert!(*pauses.borrow() < 15, "{pauses:?} pauses");
        shard::run_jobs(&engine, LATER_S).await;
        assert!(sim.used_bytes() + (600 << 10) < used_bytes, "its inputs are gone");
        sim.set_faults(Faults::default());
    });
}

/// Before: tombstones stayed for ever where a large old file had no filter in memory: it said "perhaps" to all of
/// them.
#[test]
fn tombstones_go_although_the_filter_of_an_older_file_is_not_in_memory() {
    const KEYS: u32 = 72_000;
    on_sim(async |_, disk, exec| {
        let config = |seed| config(seed, TokenRange::ALL, 0);
        Engine::create(&disk, &config(1)).await.unwrap();
        let ledger = SpaceLedger::default();
        let engine = open(&disk, &exec, config(2), &ledger).await;
        for first in (0..KEYS).step_by(1000) {
            let keys: Vec<u32> = (first..first + 1000).collect();
            write(&engine, &record(&keys, Some(b"v"), 1)).await.unwrap();
        }
        flush(&engine).await;
        drop(engine);
        let small = Config { memory_bytes: engine::limits::MEMORY_BYTES_MIN, ..config(3) };
        let engine = open(&disk, &exec, small, &ledger).await;
        for timestamp in 2..6 {
            // Of the first ten keys the old file has rows, of the others it has none.
            let keys: Vec<u32> = (0..10).chain(KEYS..KEYS + 200).collect();
            write(&engine, &record(&keys, None, timestamp)).await.unwrap();
            flush(&engine).await;
        }
        let sizes = || {
            let size = engine.table_size(TABLE).unwrap();
            (size.sstables, size.partitions)
        };
        assert_eq!(sizes(), (5, u64::from(KEYS) + 4 * 210));
        assert_eq!(merge(&engine).await, []);
        assert_eq!(sizes(), (2, u64::from(KEYS) + 10), "what hides something stays, and no more");
        let reads = engine.stats().compaction_filter_reads;
        assert!((1..100).contains(&reads), "a piece is read about once: {reads}");
    });
}

//! When index files come and go: with their sstables, by a job, in a flush that fails.

use super::*;

#[test]
fn files_that_came_before_their_index_are_indexed_by_a_job() {
    on_sim(7, async |sim, disk, exec| {
        let plain = table(false);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([plain.clone()])).await;
        write_some(&engine, &plain).await;
        assert!(engine.next_job_of(JobKind::Index, 1).is_none());
        let indexed = table(true);
        engine.set_schema(&schema_of([indexed.clone()]));
        assert_eq!((progress(&engine).files, progress(&engine).memtables), (0, 1));
        assert!(check_some(&engine, &indexed).await > 100, "all is scanned");
        shard::run_jobs(&engine, 1).await;
        assert!(progress(&engine).is_built() && progress(&engine).files > 0);
        assert!(check_some(&engine, &indexed).await > 100);
        let of_index = || {
            let files = sim.files_of(&layout::table_dir(TABLE.0));
            files.into_iter().filter(|file| file.name().ends_with(".idx")).count()
        };
        assert!(of_index() > 0);
        let mut dropped = indexed.clone();
        assert!(dropped.drop_index("t_v"));
        engine.set_schema(&schema_of([dropped]));
        shard::run_jobs(&engine, 1).await;
        assert_eq!(of_index(), 0, "the files of a dropped index go");
    });
}

#[test]
fn index_files_go_with_their_sstables() {
    on_sim(29, async |sim, disk, exec| {
        let table = table(true);
        let schema = schema_of([table.clone()]);
        let engine = flushed((&disk, &exec), &table, &schema).await;
        assert_eq!(index_files(&sim).len(), 3);
        shard::merge_whole(&engine, 1).await;
        assert_eq!(index_files(&sim).len(), 1);
        engine.truncate(TABLE).await.unwrap();
        assert!(index_files(&sim).is_empty());
        write_some(&engine, &table).await;
        engine.set_schema(&schema_of([]));
        shard::run_jobs(&engine, 1).await;
        assert!(sim.files_of(&layout::table_dir(TABLE.0)).is_empty());
    });
}

/// Enough rows that the sort of their terms is written out.
async fn write_many(engine: &Engine, table: &Table) {
    for from in (0..18_000).step_by(250) {
        let rows: Vec<(i32, i32)> = (from..from + 250).map(|c| (c, c * 7)).collect();
        shard::write(engine, &record(table, b"k", &rows, 1)).await.unwrap();
    }
}

/// Before: what was sorted so far stayed, and made a full disk fuller with every try.
#[test]
fn a_flush_that_fails_leaves_nothing_of_its_indexes() {
    let failed = Rc::new(Slot::new(0));
    for nth in (0..64).step_by(5) {
        let failed = failed.clone();
        on_sim(47, async move |sim, disk, exec| {
            let table = table(true);
            let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
            write_many(&engine, &table).await;
            let fail_errno = Some(libc::ENOSPC);
            sim.set_faults(Faults { fail_op: Some(nth), fail_errno, ..Faults::default() });
            let is_failed = engine.flush_all(1, yield_now).await.is_err();
            sim.set_faults(Faults::default());
            failed.set(failed.get() + u32::from(is_failed));
            let files = sim.files_of(&layout::table_dir(TABLE.0));
            let runs = files.iter().filter(|file| file.name().contains(".run")).count();
            // The operation may have been that which removes one.
            assert!(runs <= 1, "operation {nth} leaves {runs} runs");
            // A manifest that may name the sstable keeps both.
            let kept = |end| files.iter().filter(|file| file.name().ends_with(end)).count();
            assert!(kept(".idx") <= kept(".sst"), "operation {nth}");
            // With an edit of the manifest that failed all ends.
            if is_failed && engine.flush_all(1, yield_now).await.is_err() {
                return;
            }
            shard::run_jobs(&engine, 1000).await;
            assert_eq!(progress(&engine).files, 1);
            assert_eq!(compare(&engine, &select(&table, Operator::Equal, 700), 3).await, 1);
        });
    }
    assert!(failed.get() > 4, "{} flushes failed", failed.get());
}

/// Before: a flush that had begun before left the file of the dropped index for as long as its sstable lived.
#[test]
fn an_index_dropped_during_a_flush_leaves_no_file() {
    for nth in [1, 4, 16] {
        on_sim(53, async move |sim, disk, exec| {
            let indexed = table(true);
            let engine = open_large(&disk, &exec, &schema_of([indexed.clone()])).await;
            write_many(&engine, &indexed).await;
            let (pauses, during) = (Slot::new(0), engine.clone());
            let pause = async || {
                pauses.set(pauses.get() + 1);
                if pauses.get() == nth {
                    let mut dropped = indexed.clone();
                    assert!(dropped.drop_index("t_v"));
                    during.set_schema(&schema_of([dropped]));
                    shard::run_jobs(&during, 1).await;
                }
                yield_now().await;
            };
            engine.flush_all(1, pause).await.unwrap();
            assert!(pauses.get() >= nth, "dropped meanwhile");
            shard::run_jobs(&engine, 1).await;
            assert_eq!(index_files(&sim), [], "pause {nth}");
        });
    }
}

/// Before: the index files of what was deleted before the error stayed until the next start.
#[test]
fn files_that_are_deleted_before_an_error_take_their_indexes_with_them() {
    for nth in 0..40 {
        on_sim(79, async move |sim, disk, exec| {
            let table = table(true);
            let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
            for time in 1..6 {
                shard::write(&engine, &record(&table, b"k", &[(1, 1)], time)).await.unwrap();
                shard::flush(&engine).await;
            }
            assert_eq!(index_files(&sim).len(), 5);
            sim.set_faults(Faults { fail_op: Some(nth), ..Faults::default() });
            let emptied = engine.truncate(TABLE).await;
            sim.set_faults(Faults::default());
            if emptied.is_ok() {
                assert_eq!(index_files(&sim), []);
            }
            let files = sim.files_of(&layout::table_dir(TABLE.0));
            let is_alone = |path: &&RelPath| {
                let sstable = path.name().rsplit_once('-').unwrap().0;
                !files.iter().any(|file| file.name() == format!("{sstable}.sst"))
            };
            let alone = index_files(&sim).iter().filter(is_alone).count();
            // The operation may have been that which removes one.
            assert!(alone <= 1, "{alone} after operation {nth}: {emptied:?}");
        });
    }
}

//! Index files that are damaged, lost or wrong: no answer changes, and they are made anew.

use super::*;

/// Before: a block that was damaged was attached again by the job, and lost again by the next lookup.
#[test]
fn a_damaged_index_file_changes_no_answer_and_is_made_anew() {
    on_damaged_files(0..12);
}

#[cfg(feature = "planted")]
#[test]
fn a_damaged_file_that_is_used_again_is_caught() {
    use engine::planted::{Bug, plant};
    plant(Some(Bug::IndexReattached));
    let caught = std::panic::catch_unwind(|| on_damaged_files(2..3)).is_err();
    plant(None);
    assert!(caught, "a damaged file is used again");
}

fn on_damaged_files(cases: std::ops::Range<u64>) {
    for at in cases {
        on_sim(11 + at, async move |sim, disk, exec| {
            let table = table(true);
            let schema = schema_of([table.clone()]);
            let engine = flushed((&disk, &exec), &table, &schema).await;
            drop(engine);
            let sound: Vec<_> =
                index_files(&sim).into_iter().map(|path| (sim.bytes(&path), path)).collect();
            for path in index_files(&sim) {
                let mut bytes = sim.bytes(&path).unwrap();
                match at {
                    0 => sim.lose(&path),
                    1 => sim.plant(&path, bytes[..bytes.len() / 2].to_vec()),
                    _ => {
                        // What means something is at the beginning and at the end.
                        let from = if at % 2 == 0 {
                            at as usize * 20
                        } else {
                            bytes.len() - 1 - at as usize * 8
                        };
                        bytes[from] ^= 4;
                        sim.plant(&path, bytes);
                    }
                }
            }
            let engine = open(&disk, &exec, 3, &schema).await;
            let all = select(&table, Operator::GreaterOrEqual, 0);
            // A lookup that has lost one file goes on as a scan, and does not see the next.
            for _ in &sound {
                assert!(compare(&engine, &all, 20).await > 100);
                while let Some(job) = engine.next_job_of(JobKind::Index, 1) {
                    assert_eq!(job, Job::Index(TABLE));
                    engine.run(job, 1, yield_now).await.unwrap();
                }
            }
            assert!(progress(&engine).is_built());
            for (bytes, path) in sound {
                assert!(sim.bytes(&path) == bytes, "{path:?} of case {at} is as it was");
            }
            assert!(compare(&engine, &all, 20).await > 100);
        });
    }
}

/// Before: a file that says what cannot be, under right checksums, was read whole, used again and lost again, for ever.
#[test]
fn a_file_that_is_lost_again_after_it_was_read_whole_is_made_anew() {
    on_sim(31, async |sim, disk, exec| {
        let table = table(true);
        let schema = schema_of([table.clone()]);
        let engine = flushed((&disk, &exec), &table, &schema).await;
        drop(engine);
        let paths = index_files(&sim).into_iter();
        let sound: Vec<_> = paths.map(|path| (sim.bytes(&path).unwrap(), path)).collect();
        let engine = open(&disk, &exec, 3, &schema).await;
        let all = select(&table, Operator::GreaterOrEqual, 0);
        for is_made_anew in [false, true] {
            for (bytes, path) in &sound {
                let mut damaged = bytes.clone();
                damaged[40] ^= 4;
                sim.plant(path, damaged);
            }
            assert!(compare(&engine, &all, 20).await > 100);
            assert!(!engine.take_lost_indexes().is_empty());
            // As after a read that the disk got wrong: every checksum is right.
            sound.iter().for_each(|(bytes, path)| sim.plant(path, bytes.clone()));
            let built = engine.stats().indexes_built;
            shard::run_jobs(&engine, 1).await;
            assert!(progress(&engine).is_built());
            assert_eq!(engine.stats().indexes_built > built, is_made_anew);
        }
    });
}

/// Before: nothing found, and nothing could make anew, a file with right checksums that a defect had written.
#[cfg(feature = "planted")]
#[test]
fn a_wrong_index_under_right_checksums_is_made_anew_when_told() {
    use engine::planted::{Bug, plant};
    on_sim(97, async |_, disk, exec| {
        let table = table(true);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        plant(Some(Bug::IndexMisplacesEntry));
        write_some(&engine, &table).await;
        plant(None);
        engine.set_lookup_policy(LookupPolicy::Always);
        let command = select(&table, Operator::Equal, 5);
        let (found, _) = pages(&engine, command.clone(), 100).await;
        let files = engine.rebuild_indexes(TABLE, None).await.unwrap();
        assert!(files == 2 && !progress(&engine).is_built());
        assert!(check_some(&engine, &table).await > 100, "it is not used any more");
        // Before: a start used the wrong files again.
        drop(engine);
        let engine = open(&disk, &exec, 3, &schema_of([table.clone()])).await;
        assert_eq!(progress(&engine).files, 0, "a start finds none");
        assert!(check_some(&engine, &table).await > 100);
        shard::run_jobs(&engine, 1000).await;
        assert!(progress(&engine).is_built());
        assert!(compare(&engine, &command, 2).await > found.0.len(), "some were missing");
        assert!(check_some(&engine, &table).await > 100);
    });
}

/// A named partition is read to its end when its index fails, before the first row of it or between two.
#[test]
fn a_named_partition_whose_index_is_damaged_is_read_on() {
    on_sim(67, async |sim, disk, exec| {
        let (engine, table) = long_postings(&disk, &exec).await;
        let schema = schema_of([table.clone()]);
        shard::flush(&engine).await;
        drop(engine);
        let path = index_files(&sim).remove(0);
        let sound = sim.bytes(&path).unwrap();
        let mut lost = 0;
        for at in (24..400).step_by(32) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            sim.plant(&path, bytes);
            let engine = open(&disk, &exec, at as u64, &schema).await;
            for page_rows in [300, 99] {
                let command = select_in(&table, b"k", 5);
                assert_eq!(compare(&engine, &command, page_rows).await, 3000);
            }
            lost += u32::from(!progress(&engine).is_built());
        }
        assert!(lost > 2, "{lost} lookups have met a damage");
    });
}

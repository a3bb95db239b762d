//! The reserve in a simulated disk: made, released part by part, and made again.

use std::cell::Cell;

use futures_lite::future::zip;
use uuid::Uuid;

use super::*;
use crate::io::{Crash, Faults, SimDisk, SimExec};
use crate::journal::{Journal, Kind};

const BYTES: u64 = 1 << 20;
const KIND: Kind = Kind { magic: b"MESSTEST", version: 1, bytes_min: 32 << 10 };

fn run(quota_bytes: u64, test: impl AsyncFnOnce(SimDisk, Disk) + 'static) {
    run_seed((1, 0), quota_bytes, test);
}

/// With a seed, by which operations are suspended so many times at most.
fn run_seed(
    (seed, suspensions_max): (u64, u32),
    quota_bytes: u64,
    test: impl AsyncFnOnce(SimDisk, Disk) + 'static,
) {
    let quota_bytes = Some(quota_bytes);
    let sim = SimDisk::new(seed, Faults { quota_bytes, suspensions_max, ..Faults::default() });
    let disk = Disk::Sim(sim.clone());
    SimExec::new(seed).run(async move { test(sim, disk).await }).done();
}

/// The names of the parts that are there.
async fn parts(disk: &Disk) -> Result<Vec<&'static str>> {
    let there = super::parts(disk).await?;
    Ok(there.into_iter().map(|(name, _)| name).collect())
}

#[test]
fn the_reserve_is_kept_given_away_and_kept_again() {
    run(3 * BYTES, async |sim, disk| {
        keep(&disk, BYTES).await.unwrap();
        keep(&disk, BYTES).await.unwrap();
        assert_eq!((sim.used_bytes(), missing(&disk, BYTES).await), (BYTES, Ok(0)));
        let tries = Cell::new(0);
        let full = with_its_space(&disk, async || {
            let left = BYTES.saturating_sub(tries.get() * part_bytes(BYTES));
            assert_eq!(sim.used_bytes(), left);
            assert_eq!(missing(&disk, BYTES).await, Ok(BYTES - left));
            tries.set(tries.get() + 1);
            Err::<(), Error>(Error::DiskFull { file: "work".into() })
        });
        assert!(matches!(full.await, Err(Error::DiskFull { .. })));
        assert_eq!(tries.get(), PARTS.len() as u64 + 2, "once more when nothing is left");
        keep(&disk, BYTES).await.unwrap();
        assert_eq!(sim.used_bytes(), BYTES);
    });
}

#[test]
fn a_disk_without_much_space_keeps_nothing_aside() {
    run(2 * BYTES - 1, async |sim, disk| {
        keep(&disk, BYTES).await.unwrap();
        assert_eq!((sim.used_bytes(), parts(&disk).await), (0, Ok(Vec::new())));
    });
}

/// Before: all of the reserve went to the first start on a full disk. When somebody had filled the disk with what
/// that start left of it, the next one failed.
#[test]
fn what_a_start_leaves_of_a_full_disk_may_be_taken_by_others_before_the_next_one() {
    run(3 * BYTES, async |sim, disk| {
        keep(&disk, BYTES).await.unwrap();
        for start in 0..PARTS.len() {
            let filler = RelPath::root().join(&format!("filler-{start}"));
            let filler = disk.create(&filler).await.unwrap();
            filler.allocate(3 * BYTES - sim.used_bytes()).await.unwrap();
            filler.close().await.unwrap();
            assert_eq!(sim.used_bytes(), 3 * BYTES);
            let path = RelPath::root().join("manifest");
            let made = Journal::make(&disk, &path, KIND, Uuid::nil(), 0, &[vec![1; 100]]).await;
            made.unwrap().close().await.unwrap();
            assert_eq!(parts(&disk).await.unwrap().len(), PARTS.len() - start - 1);
        }
    });
}

/// Before: only the core that removed the reserve tried again, and the start of the other failed.
#[test]
fn cores_that_find_the_disk_full_at_once_share_the_space_of_the_reserve() {
    (0..30).for_each(|seed| run_seed((seed, 3), 3 * BYTES, both_have_space));
}

async fn both_have_space(sim: SimDisk, disk: Disk) {
    keep(&disk, BYTES).await.unwrap();
    let filler = disk.create(&RelPath::root().join("filler")).await.unwrap();
    filler.allocate(2 * BYTES).await.unwrap();
    assert_eq!(sim.used_bytes(), 3 * BYTES);
    let make = async |name: &str| {
        let path = RelPath::root().join(name);
        let entries = [vec![1; 100]];
        Journal::make(&disk, &path, KIND, Uuid::nil(), 0, &entries).await
    };
    let (first, second) = zip(make("first"), make("second")).await;
    assert_eq!((first.err(), second.err()), (None, None));
    filler.close().await.unwrap();
}

#[test]
fn a_reserve_that_a_crash_cut_short_is_made_again() {
    run(3 * BYTES, async |sim, disk| {
        sim.plant(&path(PARTS[2]), Vec::new());
        sim.plant(&unfinished(PARTS[1]), vec![0; 100]);
        keep(&disk, BYTES).await.unwrap();
        assert_eq!((sim.used_bytes(), parts(&disk).await), (BYTES, Ok(PARTS.to_vec())));
    });
}

/// An earlier version kept all of it in one file: it becomes four when there is space for one of them beside it.
#[test]
fn a_reserve_in_one_file_becomes_one_in_parts() {
    run(3 * BYTES, async |sim, disk| {
        sim.plant(&unfinished(PARTS[1]), Vec::new());
        let old = disk.create(&path(PARTS[0])).await.unwrap();
        old.allocate(BYTES).await.unwrap();
        old.close().await.unwrap();
        let filler = disk.create(&RelPath::root().join("filler")).await.unwrap();
        filler.allocate(2 * BYTES).await.unwrap();
        assert_eq!(keep(&disk, BYTES).await, Ok(0));
        assert_eq!((sim.used_bytes(), parts(&disk).await), (3 * BYTES, Ok(PARTS[..1].to_vec())));
        filler.set_len(2 * BYTES - part_bytes(BYTES)).await.unwrap();
        filler.close().await.unwrap();
        assert_eq!(keep(&disk, BYTES).await, Ok(0));
        let used_bytes = 3 * BYTES - part_bytes(BYTES);
        assert_eq!((sim.used_bytes(), parts(&disk).await), (used_bytes, Ok(PARTS.to_vec())));
    });
}

/// Before: parts were of 16 MiB however many shards there were, and on the last one the start of a node failed whose
/// manifests together were longer.
#[test]
fn one_part_is_enough_for_the_manifests_of_all_shards_at_once() {
    for shards in [1, 63, 64, 300] {
        let journals = shards as u64 + 1;
        assert!(part_bytes(bytes_for(shards)) >= journals * MANIFEST_BYTES_MIN);
    }
    const SHARDS: u64 = 3;
    let kind = Kind { bytes_min: MANIFEST_BYTES_MIN, ..KIND };
    let bytes = PARTS.len() as u64 * (SHARDS + 1) * MANIFEST_BYTES_MIN;
    (0..30).for_each(|seed| {
        run_seed((seed, 3), 3 * bytes, async move |sim, disk| {
            keep(&disk, bytes).await.unwrap();
            for part in &PARTS[1..] {
                remove(&disk, &path(part)).await.unwrap();
            }
            let filler = disk.create(&RelPath::root().join("filler")).await.unwrap();
            filler.allocate(3 * bytes - sim.used_bytes()).await.unwrap();
            filler.close().await.unwrap();
            let make = async |name: &str| {
                let path = RelPath::root().join(name);
                Journal::make(&disk, &path, kind, Uuid::nil(), 0, &[vec![1; 100]]).await.err()
            };
            let some = zip(make("manifest-0"), make("manifest-1"));
            let made = zip(some, zip(make("manifest-2"), make("schema"))).await;
            assert_eq!(made, ((None, None), (None, None)));
        });
    });
}

/// Before: it was removed first, and where there was no space for another the next start had none, either.
#[test]
fn a_part_of_another_size_stays_until_it_can_have_its_own() {
    run(3 * BYTES, async |sim, disk| {
        keep(&disk, BYTES).await.unwrap();
        assert_eq!(keep(&disk, 3 * BYTES).await, Ok(2 * BYTES));
        assert_eq!((sim.used_bytes(), parts(&disk).await), (BYTES, Ok(PARTS.to_vec())));
        keep(&disk, 2 * BYTES).await.unwrap();
        assert_eq!((sim.used_bytes(), missing(&disk, 2 * BYTES).await), (2 * BYTES, Ok(0)));
        keep(&disk, BYTES).await.unwrap();
        assert_eq!((sim.used_bytes(), missing(&disk, BYTES).await), (BYTES, Ok(0)));
    });
}

/// Before: parts were counted by their names, so the space that they were to get was given to others.
#[test]
fn what_parts_of_another_size_lack_is_missing() {
    run(3 * BYTES, async |sim, disk| {
        keep(&disk, BYTES).await.unwrap();
        assert_eq!(missing(&disk, 3 * BYTES).await, Ok(2 * BYTES));
        sim.plant(&path(PARTS[2]), Vec::new());
        assert_eq!(missing(&disk, BYTES).await, Ok(part_bytes(BYTES)));
    });
}

/// A crash at any step leaves parts whose space is the reserve's, of the old size or the new one.
#[test]
fn a_crash_while_parts_get_another_size_leaves_the_reserve() {
    for (before_bytes, now_bytes) in [(BYTES, 2 * BYTES), (2 * BYTES, BYTES)] {
        let mut crashes = 0;
        for at in 0..60 {
            let disk = SimDisk::new(at, Faults::default());
            let exec = SimExec::powered_by(&disk, at);
            let inner = Disk::Sim(disk.clone());
            exec.run(async move { keep(&inner, before_bytes).await.unwrap() }).done();
            disk.set_faults(Faults { crash_at_op: Some(at), ..Faults::default() });
            let inner = Disk::Sim(disk.clone());
            let _ = exec.run(async move { keep(&inner, now_bytes).await });
            crashes += u64::from(disk.is_crashed());
            let disk = disk.crash(at, Crash::Random);
            let inner = Disk::Sim(disk.clone());
            let left = SimExec::powered_by(&disk, at)
                .run(async move { (missing(&inner, BYTES).await, keep(&inner, now_bytes).await) });
            assert_eq!((left.done(), disk.used_bytes()), ((Ok(0), Ok(0)), now_bytes), "at {at}");
        }
        assert!(crashes > 10, "{crashes}");
    }
}

/// Any core may release a part while the first one makes those that are missing.
#[test]
fn parts_are_released_while_others_are_made() {
    (0..100).for_each(|seed| {
        run_seed((seed, 3), 3 * BYTES, async |sim, disk| {
            let old = disk.create(&path(PARTS[0])).await.unwrap();
            old.allocate(BYTES).await.unwrap();
            old.close().await.unwrap();
            let tries = Cell::new(0);
            let release = with_its_space(&disk, async || {
                tries.set(tries.get() + 1);
                match tries.get() {
                    1 | 2 => Err(Error::DiskFull { file: "work".into() }),
                    _ => Ok(()),
                }
            });
            let (kept, released) = zip(keep(&disk, BYTES), release).await;
            assert_eq!((kept.err(), released), (None, Ok(())));
            assert_eq!(keep(&disk, BYTES).await, Ok(0));
            assert_eq!((sim.used_bytes(), parts(&disk).await), (BYTES, Ok(PARTS.to_vec())));
        });
    });
}

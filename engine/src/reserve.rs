//! Space kept aside in the data directory, for the steps that a full disk must not stop.
//!
//! ```text
//! DATA/reserve, reserve-2, reserve-3, reserve-4   the parts: allocated files of no meaning
//!
//! there is space ─► keep ─► all parts are there ─► a journal or the layout finds the disk full ─► release one ─► again
//!        ▲                                                                                                      │
//!        └──────────────────── truncations, drops and compactions free some ◄──────────────────────────────────┘
//! ```
//!
//! A start writes each manifest, the schema's journal and the layout anew, so without this a process that was
//! killed on a full disk could not start, and no data could be deleted. All of these replace a file of their own
//! size, so what they take from the reserve comes back. Somebody else may fill the disk with it all the same: hence
//! only one part goes at a time, and the next start on the full disk finds the others.
//!
//! Any core may release a part, by its name: it is there or it is gone. A power cut leaves it or not, and either is
//! well.
//!
//! Not here: space for data. What a flush or a compaction writes has to find its own.

use crate::error::{Error, Result};
use crate::io::{Disk, RelPath};
use crate::limits::RESERVE_TAKEN_OF_FREE;

/// The parts, in the order in which they are made: the last one that is there is released first.
const PARTS: [&str; 4] = ["reserve", "reserve-2", "reserve-3", "reserve-4"];

fn path(name: &str) -> RelPath {
    RelPath::root().join(name)
}

/// Bytes of a part of a reserve of so many.
fn part_bytes(bytes: u64) -> u64 {
    bytes / PARTS.len() as u64
}

/// Sees to it that the reserve of `bytes`, if any, is there, when several times the space that it lacks is free. One
/// core does this.
pub async fn keep(disk: &Disk, bytes: u64) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let mut lacking = Vec::new();
    for name in PARTS {
        if !is_whole(disk, name, part_bytes(bytes)).await? {
            lacking.push(name);
        }
    }
    let lacking_bytes = part_bytes(bytes) * lacking.len() as u64;
    if lacking.is_empty()
        || disk.free_space().await?.free_bytes < lacking_bytes.saturating_mul(RESERVE_TAKEN_OF_FREE)
    {
        return Ok(());
    }
    for name in lacking {
        match make(disk, name, part_bytes(bytes)).await {
            // Others were faster, or the disk is full of names.
            Err(Error::DiskFull { .. }) => break,
            made => made?,
        }
    }
    disk.sync_dir(&RelPath::root()).await
}

/// Makes a part that is not there.
async fn make(disk: &Disk, name: &str, bytes: u64) -> Result<()> {
    let file = disk.create(&path(name)).await?;
    let allocated = match file.allocate(bytes).await {
        Ok(()) => file.sync().await,
        full => full,
    };
    file.close().await?;
    if allocated.is_err() {
        remove(disk, name).await?;
    }
    allocated
}

/// Whether a part is there. One whose making a crash cut short is removed.
async fn is_whole(disk: &Disk, name: &str, bytes: u64) -> Result<bool> {
    if !disk.exists(&path(name)).await? {
        return Ok(false);
    }
    let file = match disk.open(&path(name)).await {
        // Another core has released it meanwhile.
        Err(Error::NotFound { .. }) => return Ok(false),
        file => file?,
    };
    let is_whole = file.len() >= bytes;
    file.close().await?;
    if !is_whole {
        remove(disk, name).await?;
    }
    Ok(is_whole)
}

/// The parts that are there, in the order in which they are made.
async fn parts(disk: &Disk) -> Result<Vec<&'static str>> {
    let there = disk.list(&RelPath::root()).await?;
    let is_there = |name: &&str| there.iter().any(|entry| entry.name == **name);
    Ok(PARTS.into_iter().filter(is_there).collect())
}

/// What the reserve of `bytes` lacks: free space that is to be its again.
pub(crate) async fn missing(disk: &Disk, bytes: u64) -> Result<u64> {
    if bytes == 0 {
        return Ok(0);
    }
    let lacking = PARTS.len() - parts(disk).await?.len();
    Ok(part_bytes(bytes) * lacking as u64)
}

/// Does what may find the disk full, and then again in the space of one part of the reserve after the other. Once more,
/// too, if none is there: another core may have released the last one a moment ago.
pub(crate) async fn with_its_space<T>(disk: &Disk, work: impl AsyncFn() -> Result<T>) -> Result<T> {
    loop {
        match work().await {
            Err(Error::DiskFull { .. }) if release(disk).await? => {}
            Err(Error::DiskFull { .. }) => return work().await,
            done => return done,
        }
    }
}

/// Gives a part of the reserve to the task that needs space now; `false` if none is there.
async fn release(disk: &Disk) -> Result<bool> {
    match parts(disk).await?.last() {
        Some(last) => remove(disk, last).await.map(|()| true),
        None => Ok(false),
    }
}

/// Removes a part, if it is there.
async fn remove(disk: &Disk, name: &str) -> Result<()> {
    match disk.unlink(&path(name)).await {
        Err(Error::NotFound { .. }) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::zip;
    use uuid::Uuid;

    use super::*;
    use crate::io::{Faults, SimDisk, SimExec};
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

    #[test]
    fn the_reserve_is_kept_given_away_and_kept_again() {
        run(3 * BYTES, async |sim, disk| {
            keep(&disk, BYTES).await.unwrap();
            keep(&disk, BYTES).await.unwrap();
            assert_eq!((sim.used_bytes(), missing(&disk, BYTES).await), (BYTES, Ok(0)));
            for left in (0..4).rev().map(|parts| parts * BYTES / 4) {
                assert_eq!(release(&disk).await, Ok(true));
                assert_eq!(
                    (sim.used_bytes(), missing(&disk, BYTES).await),
                    (left, Ok(BYTES - left))
                );
            }
            assert_eq!(release(&disk).await, Ok(false));
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
            keep(&disk, BYTES).await.unwrap();
            assert_eq!(sim.used_bytes(), BYTES);
        });
    }
}

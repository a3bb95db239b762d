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
//! size, so what they take comes back; but somebody else may take it first. So who finds the disk full releases one
//! part and tries again before it releases the next: as a rule parts are left for the next start.
//!
//! Any core may release a part, by its name: it is there or it is gone. A power cut leaves it or not, and either is
//! well. A part gets its name when its space is allocated.
//!
//! Not here: space for data. What a flush or a compaction writes has to find its own.

use crate::error::{Error, Result};
use crate::io::{Disk, RelPath};
use crate::limits::RESERVE_TAKEN_OF_FREE;

/// The names of the parts, in the order in which they are made: the last one that is there is released first.
pub const PARTS: [&str; 4] = ["reserve", "reserve-2", "reserve-3", "reserve-4"];

fn path(name: &str) -> RelPath {
    RelPath::root().join(name)
}

/// What a part is called until its space is allocated.
fn unfinished(name: &str) -> RelPath {
    RelPath::root().join(&format!("{name}.new"))
}

/// Bytes of each part of a reserve of so many.
pub const fn part_bytes(bytes: u64) -> u64 {
    bytes / PARTS.len() as u64
}

/// Sees to it that the reserve of `bytes`, if any, is there, when several times the space that it lacks is free. One
/// core does this.
pub async fn keep(disk: &Disk, bytes: u64) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let (mut lacking, mut removed_bytes) = (Vec::new(), 0);
    for name in PARTS {
        match odd_bytes(disk, name, part_bytes(bytes)).await? {
            None => continue,
            Some(odd_bytes) => removed_bytes += odd_bytes,
        }
        lacking.push(name);
        remove(disk, &unfinished(name)).await?;
    }
    let lacking_bytes = part_bytes(bytes) * lacking.len() as u64;
    // What was removed was the reserve's already.
    let others_bytes = lacking_bytes.saturating_sub(removed_bytes);
    let wanted_bytes = lacking_bytes - others_bytes + others_bytes * RESERVE_TAKEN_OF_FREE;
    if lacking.is_empty() || disk.free_space().await?.free_bytes < wanted_bytes {
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
    let file = disk.create(&unfinished(name)).await?;
    let allocated = match file.allocate(bytes).await {
        Ok(()) => file.sync().await,
        full => full,
    };
    file.close().await?;
    match allocated {
        Ok(()) => disk.rename(&unfinished(name), &path(name)).await,
        Err(error) => {
            remove(disk, &unfinished(name)).await?;
            Err(error)
        }
    }
}

/// `None` if the part is there. Otherwise how many bytes a file of its name had, which is removed then: an earlier
/// version kept all of the reserve in one file, and a crash may have cut its making short.
async fn odd_bytes(disk: &Disk, name: &str, bytes: u64) -> Result<Option<u64>> {
    let file = match disk.open(&path(name)).await {
        Err(Error::NotFound { .. }) => return Ok(Some(0)),
        file => file?,
    };
    let file_bytes = file.len();
    file.close().await?;
    if file_bytes == bytes {
        return Ok(None);
    }
    remove(disk, &path(name)).await?;
    Ok(Some(file_bytes))
}

/// The parts that are there, in the order in which they are made.
async fn parts(disk: &Disk) -> Result<Vec<&'static str>> {
    let mut there = Vec::new();
    for name in PARTS {
        if disk.exists(&path(name)).await? {
            there.push(name);
        }
    }
    Ok(there)
}

/// What the reserve of `bytes` lacks: free space that is to be its again.
pub(crate) async fn missing(disk: &Disk, bytes: u64) -> Result<u64> {
    if bytes == 0 {
        return Ok(0);
    }
    let lacking = PARTS.len() - parts(disk).await?.len();
    Ok(part_bytes(bytes) * lacking as u64)
}

/// Does what may find the disk full, and then again in the space of one part of the reserve after the other. A part
/// that another core has released meanwhile may be enough for both.
pub(crate) async fn with_its_space<T>(disk: &Disk, work: impl AsyncFn() -> Result<T>) -> Result<T> {
    let mut there = parts(disk).await?;
    loop {
        match work().await {
            Err(Error::DiskFull { .. }) => {}
            done => return done,
        }
        let mut left = parts(disk).await?;
        if left.len() >= there.len() {
            // None may be there because another core has released the last one a moment ago.
            let Some(last) = left.pop() else { return work().await };
            remove(disk, &path(last)).await?;
        }
        there = left;
    }
}

/// Removes a file, if it is there.
async fn remove(disk: &Disk, path: &RelPath) -> Result<()> {
    match disk.unlink(path).await {
        Err(Error::NotFound { .. }) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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

    /// An earlier version kept all of it in one file: it becomes four, also where the disk has no other space.
    #[test]
    fn a_reserve_in_one_file_becomes_one_in_parts() {
        run(3 * BYTES, async |sim, disk| {
            let old = disk.create(&path(PARTS[0])).await.unwrap();
            old.allocate(BYTES).await.unwrap();
            old.close().await.unwrap();
            let filler = disk.create(&RelPath::root().join("filler")).await.unwrap();
            filler.allocate(2 * BYTES).await.unwrap();
            filler.close().await.unwrap();
            keep(&disk, BYTES).await.unwrap();
            assert_eq!((sim.used_bytes(), parts(&disk).await), (3 * BYTES, Ok(PARTS.to_vec())));
        });
    }
}

//! Space kept aside in the data directory, for the steps that a full disk must not stop.
//!
//! ```text
//! DATA/reserve   an allocated file of no meaning
//!
//! there is space ─► keep ─► the file is there ─► a journal or the layout finds the disk full ─► release ─► once more
//!        ▲                                                                                          │
//!        └──────────────── truncations, drops and compactions free some ◄──────────────────────────┘
//! ```
//!
//! A start writes each manifest, the schema's journal and the layout anew, so without this a process that was
//! killed on a full disk could not start, and no data could be deleted. All of these replace a file of their own
//! size, so what they take from the reserve comes back.
//!
//! Any core may release it, by its name: it is there or it is gone. A power cut leaves it or not, and either is well.
//!
//! Not here: space for data. What a flush or a compaction writes has to find its own.

use crate::error::{Error, Result};
use crate::io::{Disk, RelPath};
use crate::limits::RESERVE_TAKEN_OF_FREE;

const NAME: &str = "reserve";

fn path() -> RelPath {
    RelPath::root().join(NAME)
}

/// Sees to it that the reserve of `bytes`, if any, is there, when several times that space is free. One core does
/// this.
pub async fn keep(disk: &Disk, bytes: u64) -> Result<()> {
    if bytes == 0 || is_whole(disk, bytes).await? {
        return Ok(());
    }
    if disk.free_space().await?.free_bytes < bytes.saturating_mul(RESERVE_TAKEN_OF_FREE) {
        return Ok(());
    }
    let file = match disk.create(&path()).await {
        // The disk can be full of names, too.
        Err(Error::DiskFull { .. }) => return Ok(()),
        file => file?,
    };
    let allocated = match file.allocate(bytes).await {
        Ok(()) => file.sync().await,
        full => full,
    };
    file.close().await?;
    match allocated {
        Ok(()) => disk.sync_dir(&RelPath::root()).await,
        Err(error) => {
            release(disk).await?;
            if matches!(error, Error::DiskFull { .. }) { Ok(()) } else { Err(error) }
        }
    }
}

/// Whether the reserve is there. One whose making a crash cut short is removed.
async fn is_whole(disk: &Disk, bytes: u64) -> Result<bool> {
    if !disk.exists(&path()).await? {
        return Ok(false);
    }
    let file = disk.open(&path()).await?;
    let is_whole = file.len() >= bytes;
    file.close().await?;
    if !is_whole {
        release(disk).await?;
    }
    Ok(is_whole)
}

/// What the reserve of `bytes` lacks: free space that is to be its again.
pub(crate) async fn missing(disk: &Disk, bytes: u64) -> Result<u64> {
    Ok(if bytes == 0 || disk.exists(&path()).await? { 0 } else { bytes })
}

/// Does what may find the disk full, and then once more in the space of the reserve. Also if the reserve is not there:
/// another core may have released it a moment ago.
pub(crate) async fn with_its_space<T>(disk: &Disk, work: impl AsyncFn() -> Result<T>) -> Result<T> {
    match work().await {
        Err(Error::DiskFull { .. }) => {
            release(disk).await?;
            work().await
        }
        done => done,
    }
}

/// Gives the reserve to the task that needs space now; `false` if it is not there.
async fn release(disk: &Disk) -> Result<bool> {
    match disk.unlink(&path()).await {
        Ok(()) => Ok(true),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
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
            assert_eq!(release(&disk).await, Ok(true));
            assert_eq!(release(&disk).await, Ok(false));
            assert_eq!((sim.used_bytes(), missing(&disk, BYTES).await), (0, Ok(BYTES)));
            keep(&disk, BYTES).await.unwrap();
            assert_eq!(sim.used_bytes(), BYTES);
        });
    }

    #[test]
    fn a_disk_without_much_space_keeps_nothing_aside() {
        run(2 * BYTES - 1, async |sim, disk| {
            keep(&disk, BYTES).await.unwrap();
            assert_eq!((sim.used_bytes(), sim.bytes(&path())), (0, None));
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
            sim.plant(&path(), Vec::new());
            keep(&disk, BYTES).await.unwrap();
            assert_eq!(sim.used_bytes(), BYTES);
        });
    }
}

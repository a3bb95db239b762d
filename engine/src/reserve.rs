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
//! part and tries again before it releases the next: as a rule parts are left for the next start. One part is enough
//! for new manifests of all shards, unless some have more than a thousand sstables to name.
//!
//! Any core may release a part, by its name: it is there or it is gone. A power cut undoes that or not, and either is
//! well. A part gets its name when its space is allocated. So does the successor of a part of another size, which a
//! node with another number of shards had made; the old part serves until then.
//!
//! Not here: space for data. What a flush or a compaction writes has to find its own.

use crate::error::{Error, Result};
use crate::io::{Disk, RelPath};
use crate::limits::{MANIFEST_BYTES_MIN, RESERVE_BYTES_MIN, RESERVE_FREE_FACTOR};

/// The names of the parts, in the order in which they are made: the last one that is there is released first.
pub const PARTS: [&str; 4] = ["reserve", "reserve-2", "reserve-3", "reserve-4"];

fn path(name: &str) -> RelPath {
    RelPath::root().join(name)
}

/// What a part is called until its space is allocated. A crash may leave one.
fn unfinished(name: &str) -> RelPath {
    RelPath::root().join(&format!("{name}.new"))
}

/// Bytes of each part of a reserve of so many.
pub const fn part_bytes(bytes: u64) -> u64 {
    bytes / PARTS.len() as u64
}

/// Bytes of the reserve of a node with so many shards: at a start all of them may write their manifests anew at the
/// same time, and one part is enough for those and the schema, each at its shortest (`MANIFEST_BYTES_MIN`).
pub fn bytes_for(shards: usize) -> u64 {
    RESERVE_BYTES_MIN.max(PARTS.len() as u64 * (shards as u64 + 1) * MANIFEST_BYTES_MIN)
}

/// Sees to it that the reserve of `bytes`, if any, is there, when enough is free ([`wanted_bytes`]); gives the bytes
/// that it still lacks. One core does this.
pub async fn keep(disk: &Disk, bytes: u64) -> Result<u64> {
    if bytes == 0 {
        return Ok(0);
    }
    for name in PARTS {
        remove(disk, &unfinished(name)).await?;
    }
    let part_bytes = part_bytes(bytes);
    let there = parts(disk).await?;
    let missing_bytes = missing_of(bytes, &there);
    let is_odd = |name: &&'static str| !there.contains(&(*name, part_bytes));
    let odd: Vec<_> = PARTS.into_iter().filter(is_odd).collect();
    let wanted_bytes = wanted_bytes(bytes, missing_bytes);
    if odd.is_empty() || disk.free_space().await?.free_bytes < wanted_bytes {
        return Ok(missing_bytes);
    }
    for name in odd {
        match make(disk, name, part_bytes).await {
            // Others were faster, or the disk is full of names.
            Err(Error::DiskFull { .. }) => break,
            made => made?,
        }
    }
    missing(disk, bytes).await
}

/// Bytes that must be free before a reserve of `bytes` is completed that lacks so many: several times what it lacks,
/// and a whole part, as one of another size stays until its successor is there.
pub fn wanted_bytes(bytes: u64, missing_bytes: u64) -> u64 {
    part_bytes(bytes).max(missing_bytes * RESERVE_FREE_FACTOR)
}

/// Makes a part, in place of one of another size: an earlier version kept all of the reserve in one file, and a node
/// may have other shards than before.
async fn make(disk: &Disk, name: &str, bytes: u64) -> Result<()> {
    let file = disk.create(&unfinished(name)).await?;
    let allocated = match file.allocate(bytes).await {
        Ok(()) => file.sync().await,
        failed => failed,
    };
    let allocated = allocated.and(file.close().await);
    if let Err(error) = allocated {
        remove(disk, &unfinished(name)).await?;
        return Err(error);
    }
    disk.rename(&unfinished(name), &path(name)).await?;
    disk.sync_dir(&RelPath::root()).await
}

/// The parts that are there with their lengths in bytes, in the order in which they are made.
async fn parts(disk: &Disk) -> Result<Vec<(&'static str, u64)>> {
    let mut there = Vec::new();
    for name in PARTS {
        if let Some(file) = disk.stat(&path(name)).await? {
            there.push((name, file.bytes));
        }
    }
    Ok(there)
}

/// Bytes that the reserve of `bytes` still needs: that much of what is free is not for data.
pub(crate) async fn missing(disk: &Disk, bytes: u64) -> Result<u64> {
    Ok(missing_of(bytes, &parts(disk).await?))
}

/// Bytes that a reserve of `bytes` with these parts still needs.
fn missing_of(bytes: u64, parts: &[(&str, u64)]) -> u64 {
    parts.iter().fold(bytes, |missing_bytes, (_, there)| missing_bytes.saturating_sub(*there))
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
            let Some((last, _)) = left.pop() else { return work().await };
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
mod tests;

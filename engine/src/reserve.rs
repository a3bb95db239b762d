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
//! for the manifests of all shards at once.
//!
//! Any core may release a part, by its name: it is there or it is gone. A power cut leaves it or not, and either is
//! well. A part gets its name when its space is allocated, and one of another size (of a node with other shards) gets
//! its own in its place.
//!
//! Not here: space for data. What a flush or a compaction writes has to find its own.

use crate::error::{Error, Result};
use crate::io::{Disk, RelPath};
use crate::limits::{MANIFEST_BYTES_MIN, RESERVE_BYTES_MIN, RESERVE_TAKEN_OF_FREE};

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
/// same time, and for those and the schema one part is enough, while none is longer than it is at least.
pub fn bytes_for(shards: usize) -> u64 {
    RESERVE_BYTES_MIN.max(PARTS.len() as u64 * (shards as u64 + 1) * MANIFEST_BYTES_MIN)
}

/// Sees to it that the reserve of `bytes`, if any, is there, when several times the space that it lacks is free. One
/// core does this.
pub async fn keep(disk: &Disk, bytes: u64) -> Result<()> {
    for name in PARTS {
        remove(disk, &unfinished(name)).await?;
    }
    let missing_bytes = missing(disk, bytes).await?;
    if bytes == 0 || disk.free_space().await?.free_bytes < missing_bytes * RESERVE_TAKEN_OF_FREE {
        return Ok(());
    }
    for name in PARTS {
        match make(disk, name, part_bytes(bytes)).await {
            // Others were faster, or the disk is full of names.
            Err(Error::DiskFull { .. }) => break,
            made => made?,
        }
    }
    Ok(())
}

/// Makes a part, unless it is there. One of another size becomes longer or shorter in its place: a crash leaves it.
async fn make(disk: &Disk, name: &str, bytes: u64) -> Result<()> {
    let bytes_there = match file_bytes(disk, name).await? {
        None => return make_new(disk, name, bytes).await,
        Some(bytes_there) if bytes_there == bytes => return Ok(()),
        Some(bytes_there) => bytes_there,
    };
    let file = disk.open_log(&path(name)).await?;
    let sized = match bytes_there < bytes {
        true => file.allocate(bytes).await,
        false => file.set_len(bytes).await,
    };
    let sized = match sized {
        Ok(()) => file.sync().await,
        failed => failed,
    };
    file.close().await?;
    sized
}

/// Makes a part that is not there.
async fn make_new(disk: &Disk, name: &str, bytes: u64) -> Result<()> {
    let file = disk.create(&unfinished(name)).await?;
    let allocated = match file.allocate(bytes).await {
        Ok(()) => file.sync().await,
        failed => failed,
    };
    file.close().await?;
    match allocated {
        Ok(()) => {
            disk.rename(&unfinished(name), &path(name)).await?;
            disk.sync_dir(&RelPath::root()).await
        }
        Err(error) => {
            remove(disk, &unfinished(name)).await?;
            Err(error)
        }
    }
}

/// How many bytes the file of a part has, if it is there: an earlier version kept all of the reserve in one file, a
/// node may have other shards than before, and a crash may have cut a part short.
async fn file_bytes(disk: &Disk, name: &str) -> Result<Option<u64>> {
    Ok(disk.stat(&path(name)).await?.map(|file| file.bytes))
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
pub async fn missing(disk: &Disk, bytes: u64) -> Result<u64> {
    let mut missing_bytes = bytes;
    for name in PARTS {
        let bytes_there = file_bytes(disk, name).await?;
        missing_bytes = missing_bytes.saturating_sub(bytes_there.unwrap_or(0));
    }
    Ok(missing_bytes)
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
mod tests;

//! Segment files: how they are made, found, opened again, made durable and deleted.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::Config;
use super::segment::Segment;
use crate::error::Result;
use crate::io::{Disk, File, IoClass, RelPath};
use crate::limits::{LOG_ZERO_BYTES, WRITE_ALIGN_BYTES};
use crate::planted::{Bug, planted};

pub(super) fn file_name(n: u32) -> String {
    format!("{n:06}.log")
}

/// Never the same twice: `old` is what the file had before.
pub(super) fn uuid_of(config: &Config, number: u32, old: Uuid) -> Uuid {
    assert!(number > 0, "numbers of segments begin at 1");
    let mut bytes = old.as_bytes().to_vec();
    bytes.extend_from_slice(&number.to_le_bytes());
    Uuid::from_u128(xxh3_128_with_seed(&bytes, config.seed))
}

/// Makes a file of zeros that is all on the disk, and opens it for durable writes.
///
/// The zeros are written and not only reserved: a write to reserved space changes the filesystem's own data too.
/// `class` says whether writers wait for it.
pub(super) async fn make_file(
    disk: &Disk,
    path: &RelPath,
    bytes: u32,
    class: IoClass,
) -> Result<File> {
    let file = disk.create(path).await?.of_class(class);
    let filled = fill(&file, bytes).await;
    file.close().await?;
    match filled {
        Ok(()) => disk.open_log(path).await,
        Err(error) => {
            disk.unlink(path).await?;
            Err(error)
        }
    }
}

async fn fill(file: &File, bytes: u32) -> Result<()> {
    file.allocate(u64::from(bytes)).await?;
    let mut offset = 0;
    while offset < bytes {
        let len = (bytes - offset).min(LOG_ZERO_BYTES as u32);
        let mut zeros = file.buf(len as usize);
        zeros.put_zeros(len as usize);
        file.write_at(zeros, u64::from(offset)).await?;
        offset += len;
    }
    assert_eq!(file.len(), u64::from(bytes), "all of the file is written");
    file.sync().await
}

pub(super) async fn sync_names(disk: &Disk, dir: &RelPath) -> Result<()> {
    if planted(Bug::NoDirectorySync) {
        return Ok(());
    }
    disk.sync_dir(dir).await
}

/// The same segment, opened for durable writes.
pub(super) async fn reopened(disk: &Disk, segment: Segment) -> Result<Segment> {
    let path = segment.file.path().clone();
    segment.file.close().await?;
    Ok(Segment { header: segment.header, file: disk.open_log(&path).await? })
}

/// Deletes the file of a segment that nothing needs.
async fn delete(disk: &Disk, segment: Segment) -> Result<()> {
    disk.unlink(segment.file.path()).await?;
    segment.file.close().await
}

/// Takes out and deletes the segments that have another size than `segment_bytes`, that of new ones, and whose numbers
/// are not among the `needed`: what was flushed before those, and one that was prepared after them.
pub(super) async fn delete_odd_sized(
    disk: &Disk,
    segments: &mut BTreeMap<u32, Segment>,
    needed: RangeInclusive<u32>,
    segment_bytes: u32,
) -> Result<()> {
    let odd_sized = segments.extract_if(.., |number, segment| {
        !segment.has_size(segment_bytes) && !needed.contains(number)
    });
    for (_, segment) in odd_sized.collect::<Vec<_>>() {
        delete(disk, segment).await?;
    }
    Ok(())
}

/// Writes a block again, as it is, so that it is durable.
pub(super) async fn rewrite(disk: &Disk, file: &File, offset: u32, block: &[u8]) -> Result<()> {
    assert!(offset.is_multiple_of(WRITE_ALIGN_BYTES as u32), "blocks begin at whole units");
    let durably = disk.open_log(file.path()).await?;
    let mut buf = durably.buf(block.len());
    buf.put(block);
    buf.pad_to(WRITE_ALIGN_BYTES);
    durably.write_at(buf, u64::from(offset)).await?;
    durably.close().await
}

/// The segment files of a log, by name.
pub(super) async fn segment_files(disk: &Disk, dir: &RelPath) -> Result<Vec<RelPath>> {
    let entries = disk.list(dir).await?;
    let named = entries.into_iter().filter(|entry| !entry.is_dir && entry.name.ends_with(".log"));
    Ok(named.map(|entry| dir.join(&entry.name)).collect())
}

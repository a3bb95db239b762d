//! The check of a whole file, front to back.
//!
//! ```text
//! read_back  after it was written       each frame: checksum, length, kind
//! verify     `messina-sst verify FILE`  the same, and blocks and index nodes are decompressed
//! ```
//!
//! Both go through the data in the directory's order, the index nodes, and all other sections; the digests of what they
//! saw are the footer's.
//!
//! Not here: the bytes of a frame (`frame.rs`), and damage that reads meet (`engine/src/damage.rs`).

use model::TokenRange;

use super::file::{Sstable, SstableIdentity};
use super::footer::digest;
use super::frame::{HEAD_BYTES, Kind, checksum_of, length_of};
use super::window::Window;
use crate::cache::BlockCache;
use crate::error::Result;
use crate::io::{Disk, IoClass, RelPath};
use crate::pause::Pause;

/// How closely a file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// Every byte is the one that was written.
    Checksums,
    /// Blocks and index nodes are decompressed, too.
    Contents,
}

/// Reads the file and checks all of it. `pause` is awaited before each read: what a read brings is checked at once.
pub async fn verify(
    disk: &Disk,
    dir: &RelPath,
    known: SstableIdentity,
    pause: &dyn Pause,
) -> Result<()> {
    check((disk, dir), known, (Depth::Contents, Window::of_check(IoClass::Check)), pause).await
}

/// Reads back a file that was just written, by requests of its writer's `class`: memory and log space wait for a flush,
/// which is over after this. Checksums are checked; a block that was compressed wrongly is found by [`verify`] or a read.
pub(super) async fn read_back(
    disk: &Disk,
    dir: &RelPath,
    known: SstableIdentity,
    class: IoClass,
    pause: &dyn Pause,
) -> Result<()> {
    check((disk, dir), known, (Depth::Checksums, Window::of_read_back(class)), pause).await
}

fn look(table: &Sstable, depth: Depth, frame: &[u8], kind: Kind, offset: u64) -> Result<()> {
    match depth {
        Depth::Checksums => table.check_frame(frame, kind, offset),
        Depth::Contents => table.open_frame(frame, kind, offset).map(drop),
    }
}

async fn check(
    (disk, dir): (&Disk, &RelPath),
    known: SstableIdentity,
    (depth, mut window): (Depth, Window),
    pause: &dyn Pause,
) -> Result<()> {
    let cache = BlockCache::new(0);
    let table = Sstable::open(disk, dir, known, &cache, TokenRange::ALL).await?;
    let footer = table.footer();
    let mut data_digest = 0;
    for number in 0..table.directory.blocks() {
        let (offset, bytes) = table.directory.frame(number);
        if window.frame(offset, bytes).is_none() {
            pause.take().await;
            window.read(&table.file().await?, offset, bytes, footer.data_bytes).await?;
        }
        let frame = window.frame(offset, bytes).expect("it was just read");
        look(&table, depth, frame, Kind::Data, offset)?;
        data_digest = digest(data_digest, checksum_of(frame));
    }
    if data_digest != footer.data_digest {
        return Err(table.corrupt(0, "digest of the data"));
    }
    let mut sections_digest = 0;
    let (mut offset, end) = (footer.index_offset, footer.index_offset + footer.index_bytes);
    while offset < end {
        let frame = next_frame(&table, &mut window, offset, end, pause).await?;
        look(&table, depth, frame, Kind::RowIndex, offset)?;
        sections_digest = digest(sections_digest, checksum_of(frame));
        offset += frame.len() as u64;
    }
    let head = table.file().await?.read_exact_at(footer.directory.offset, HEAD_BYTES).await?;
    sections_digest = digest(sections_digest, checksum_of(&head));
    if let Some(pieces) = table.filter_pieces() {
        let (mut offset, end) = (pieces.begin(), pieces.end());
        while offset < end {
            let frame = next_frame(&table, &mut window, offset, end, pause).await?;
            table.check_piece(frame, offset).await?;
            sections_digest = digest(sections_digest, checksum_of(frame));
            offset += frame.len() as u64;
        }
    }
    table.check_filter().await?;
    for section in [footer.filter, footer.wide, footer.statistics] {
        let head = table.file().await?.read_exact_at(section.offset, HEAD_BYTES).await?;
        sections_digest = digest(sections_digest, checksum_of(&head));
    }
    if sections_digest != footer.sections_digest {
        return Err(table.corrupt(footer.index_offset, "digest of the sections"));
    }
    table.close().await
}

/// The frame at `offset` of a region that ends at `end`.
async fn next_frame<'w>(
    table: &Sstable,
    window: &'w mut Window,
    offset: u64,
    end: u64,
    pause: &dyn Pause,
) -> Result<&'w [u8]> {
    if window.frame(offset, HEAD_BYTES).is_none() {
        pause.take().await;
        window.read(&table.file().await?, offset, HEAD_BYTES, end).await?;
    }
    let bytes = window.frame(offset, HEAD_BYTES).and_then(length_of);
    let bytes = bytes.ok_or_else(|| table.corrupt(offset, "a region of frames"))?;
    if bytes as u64 > end - offset {
        return Err(table.corrupt(offset, "a frame outside its region"));
    }
    if window.frame(offset, bytes).is_none() {
        window.read(&table.file().await?, offset, bytes, end).await?;
    }
    Ok(window.frame(offset, bytes).expect("it was just read"))
}

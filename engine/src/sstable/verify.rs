//! Reads all of a file and checks every byte that means something: after it was written, and by a scrub.

use model::TokenRange;

use super::file::{Sstable, SstableIdentity};
use super::footer::digest;
use super::frame::{HEAD_BYTES, Kind, checksum_of, length_of};
use super::window::Window;
use crate::cache::BlockCache;
use crate::error::Result;
use crate::io::{Disk, IoClass, RelPath};
use crate::pause::Pause;

/// Reads the file and checks it: every block in its place, in order, decompressed, and the digests of the footer. `pause`
/// is awaited before each read: what a read brings is checked at once. Its long reads are requests of `class`.
pub async fn verify(
    disk: &Disk,
    dir: &RelPath,
    known: SstableIdentity,
    class: IoClass,
    pause: &dyn Pause,
) -> Result<()> {
    let opens = |table: &Sstable, frame: &[u8], kind, offset| {
        table.open_frame(frame, kind, offset).map(drop)
    };
    check(disk, dir, known, class, &opens, pause).await
}

/// Reads back a file that was just written, and checks that every byte is the one that was written: what the blocks hold
/// is not looked at. As [`verify`] otherwise. A flush is over when its file was read back, and memory and log space
/// wait for it: `class` is the writer's.
pub(super) async fn read_back(
    disk: &Disk,
    dir: &RelPath,
    known: SstableIdentity,
    class: IoClass,
    pause: &dyn Pause,
) -> Result<()> {
    check(disk, dir, known, class, &Sstable::check_frame, pause).await
}

/// Whether a block is what it should be.
type Look = dyn Fn(&Sstable, &[u8], Kind, u64) -> Result<()>;

async fn check(
    disk: &Disk,
    dir: &RelPath,
    known: SstableIdentity,
    class: IoClass,
    look: &Look,
    pause: &dyn Pause,
) -> Result<()> {
    let cache = BlockCache::new(0);
    let table = Sstable::open(disk, dir, known, &cache, TokenRange::ALL).await?;
    let footer = table.footer();
    let mut window = Window::of_check(class);
    let mut data_digest = 0;
    for number in 0..table.directory.blocks() {
        let (offset, bytes) = table.directory.frame(number);
        if window.frame(offset, bytes).is_none() {
            pause.take().await;
            window.read(&table.file().await?, offset, bytes, footer.data_bytes).await?;
        }
        let frame = window.frame(offset, bytes).expect("it was just read");
        look(&table, frame, Kind::Data, offset)?;
        data_digest = digest(data_digest, checksum_of(frame));
    }
    if data_digest != footer.data_digest {
        return Err(table.corrupt(0, "digest of the data"));
    }
    let mut sections_digest = 0;
    let (mut offset, end) = (footer.index_offset, footer.index_offset + footer.index_bytes);
    while offset < end {
        let frame = next_frame(&table, &mut window, offset, end, pause).await?;
        look(&table, frame, Kind::RowIndex, offset)?;
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

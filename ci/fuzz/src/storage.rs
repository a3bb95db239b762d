//! Files that rot: a log, a manifest and an sstable, damaged as the input says.
//!
//! The input is a list of damages of 5 bytes: which file, where in it (3 bytes), and what: 0 cuts the file there, 1
//! zeroes a sector, 2 puts another sector's bytes there, anything else is xored with the byte.
//!
//! 1. The whole files are written once a process, by the engine, on a simulated disk without faults.
//! 2. Each input damages a copy of them, on a disk of its own, and reads it as a start or a read would.
//!
//! What is read from a damaged file is an error or what was written: of the log, its beginning; of the manifest, a
//! state it has had; of the sstable, everything. From a whole file everything is read, and so is what was written to a
//! log before the first place that is damaged.
//!
//! Not here: files that a power cut tears while the engine writes them (`shard/tests/sim`), the other targets
//! (`targets.rs`).

use std::sync::OnceLock;

use engine::cache::BlockCache;
use engine::commitlog::{Config, Log, Position, Replay};
use engine::cursor::{Cursor, Fragment, Head, Scope, Slice, Span};
use engine::io::{Disk, Faults, RelPath, SimDisk};
use engine::manifest::{Edit, Manifest, State, ViewEntry};
use engine::sstable::{
    Codec, Reading, Sstable, SstableId, SstableIdentity, Writer, WriterConfig, WrittenSstable,
};
use engine::{Error, Result};
use futures_lite::future::block_on;
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::{ColumnId, Deletion, TableId, Token, TokenRange};
use uuid::Uuid;

/// What devices write whole.
const SECTOR_BYTES: usize = 512;
/// Damages of one input.
const DAMAGES_MAX: usize = 16;
const TABLE: TableId = TableId(Uuid::from_u128(7));
const SSTABLE: SstableId = SstableId(Uuid::from_u128(9));

/// Files as they were written, and what they say.
struct Golden<T> {
    files: Vec<(String, Vec<u8>)>,
    said: T,
}

impl<T> Golden<T> {
    fn of(disk: &SimDisk, names: impl IntoIterator<Item = String>, said: T) -> Golden<T> {
        let bytes = |name: String| disk.bytes(&path(&name)).map(|bytes| (name, bytes));
        Golden { files: names.into_iter().filter_map(bytes).collect(), said }
    }

    /// A disk with these files, damaged, and the first place of a damage: the number of its file and the sector.
    fn damaged(&self, input: &[u8]) -> (Disk, Option<(usize, usize)>) {
        let mut files = self.files.clone();
        for damage in input.chunks_exact(5).take(DAMAGES_MAX) {
            let index = usize::from(damage[0]) % files.len();
            let bytes = &mut files[index].1;
            if bytes.is_empty() {
                continue;
            }
            let place = u32::from_be_bytes([0, damage[1], damage[2], damage[3]]) as usize;
            break_at(bytes, place % bytes.len(), damage[4]);
        }
        let first = files.iter().zip(&self.files).enumerate().find_map(|(number, (now, was))| {
            let (now, was) = (&now.1, &was.1);
            let same = now.iter().zip(was).take_while(|(now, was)| now == was).count();
            (now != was).then_some((number, same - same % SECTOR_BYTES))
        });
        let disk = SimDisk::new(1, Faults::default());
        files.into_iter().for_each(|(name, bytes)| disk.plant(&path(&name), bytes));
        (Disk::Sim(disk), first)
    }
}

fn break_at(bytes: &mut Vec<u8>, at: usize, how: u8) {
    let sector = at - at % SECTOR_BYTES;
    let end = (sector + SECTOR_BYTES).min(bytes.len());
    match how {
        0 => bytes.truncate(at),
        1 => bytes[sector..end].fill(0),
        2 => {
            let from = (at * 31) % (bytes.len() - (end - sector) + 1);
            bytes.copy_within(from..from + (end - sector), sector);
        }
        mask => bytes[at] ^= mask,
    }
}

fn fresh() -> (SimDisk, Disk) {
    let disk = SimDisk::new(1, Faults::default());
    (disk.clone(), Disk::Sim(disk))
}

/// Replays a damaged log.
pub(crate) fn log(input: &[u8]) {
    static GOLDEN: OnceLock<Golden<Vec<Written>>> = OnceLock::new();
    let golden = GOLDEN.get_or_init(|| {
        let (sim, disk) = fresh();
        let said = block_on(write_log(&disk)).expect("the disk has no faults");
        Golden::of(&sim, (1..9).map(|n| format!("{n:06}.log")), said)
    });
    let (disk, first) = golden.damaged(input);
    if let Ok(records) = block_on(replay(&disk)) {
        let is_whole = |written: &&Written| {
            let place = |(file, sector)| Position::new(file as u32 + 1, sector as u32);
            first.is_none_or(|first| written.block_end <= place(first))
        };
        let sure = golden.said.iter().take_while(is_whole).count();
        assert!(records.len() >= sure, "{} of {sure} records", records.len());
        let all = golden.said.iter().map(|written| &written.record);
        assert!(records.len() <= golden.said.len() && records.iter().eq(all.take(records.len())));
    }
}

/// A record, and where in the log the block ends that it was written with.
struct Written {
    record: Vec<u8>,
    block_end: Position,
}

fn path(name: &str) -> RelPath {
    RelPath::root().join(name)
}

async fn write_log(disk: &Disk) -> Result<Vec<Written>> {
    let config = Config { segment_bytes: 32 << 10, ..Config::new(1) };
    let log = Log::create(disk, &RelPath::root(), config).await?;
    let (mut written, mut pending) = (Vec::new(), Vec::new());
    let mut write = |pending: &mut Vec<Vec<u8>>, block_end| {
        written.extend(pending.drain(..).map(|record| Written { record, block_end }));
    };
    for number in 0..40u32 {
        let record = number.to_be_bytes().repeat(1 + number as usize * 17 % 700);
        log.append(0, u64::from(number), &record)?;
        pending.push(record);
        if number % 3 == 0 {
            log.write_pending().await?;
            write(&mut pending, log.positions().durable);
        }
        if log.needs_segment() {
            log.prepare().await?;
        }
    }
    log.write_pending().await?;
    write(&mut pending, log.positions().durable);
    Ok(written)
}

async fn replay(disk: &Disk) -> Result<Vec<Vec<u8>>> {
    let mut replay = Replay::open(disk, &RelPath::root(), Position::default()).await?;
    let mut records = Vec::new();
    while let Some(record) = replay.next().await? {
        records.push(record.payload.to_vec());
    }
    replay.finish().await?;
    Ok(records)
}

/// Reads a damaged manifest.
pub(crate) fn manifest(input: &[u8]) {
    static GOLDEN: OnceLock<Golden<Vec<Stated>>> = OnceLock::new();
    let golden = GOLDEN.get_or_init(|| {
        let (sim, disk) = fresh();
        let said = block_on(write_manifest(&sim, &disk)).expect("the disk has no faults");
        Golden::of(&sim, ["manifest".into()], said)
    });
    let (disk, first) = golden.damaged(input);
    if let Ok(state) = block_on(Manifest::read(&disk, &RelPath::root())) {
        // Those whose bytes are the beginning of the last file, before the damage.
        let last = &golden.files[0].1;
        let is_whole = |stated: &Stated| {
            let end = stated.file.len();
            last.starts_with(&stated.file) && first.is_none_or(|(_, sector)| end <= sector)
        };
        let sure = golden.said.iter().rposition(is_whole).unwrap_or(0);
        let found = golden.said.iter().rposition(|stated| stated.state == state);
        assert!(found.is_some_and(|found| found >= sure), "{found:?} of {sure}: {state:?}");
    }
}

/// A state of a manifest, and its file then, without the zeros at its end.
struct Stated {
    state: State,
    file: Vec<u8>,
}

async fn write_manifest(sim: &SimDisk, disk: &Disk) -> Result<Vec<Stated>> {
    let manifest = Manifest::create(disk, &RelPath::root(), 3, State::default()).await?;
    let now = |manifest: &Manifest| {
        let mut file = sim.bytes(&path("manifest")).expect("it was made");
        let zeros = file.iter().rev().take_while(|byte| **byte == 0).count();
        file.truncate(file.len() - zeros);
        Stated { state: manifest.state().clone(), file }
    };
    let mut states = vec![now(&manifest)];
    for number in 1..30u128 {
        let view = ViewEntry {
            sstable: Uuid::from_u128(number),
            table: TABLE.0,
            run: Uuid::from_u128(number),
            tokens: TokenRange::ALL,
            begin: None,
            file_bytes: 4096 * number as u64,
            footer_checksum: number as u64,
            level: 0,
            shared: false,
        };
        let flushed = Position::new(1, 4096 * number as u32);
        let replayed_from = (number % 5 == 0).then_some((TABLE.0, flushed));
        let gone: Vec<_> = manifest.state().views.keys().copied().take(3).collect();
        manifest
            .commit(&Edit {
                remove: if number % 4 == 0 { gone } else { Vec::new() },
                add: vec![view],
                flushed: Some(flushed),
                replayed_from: replayed_from.into_iter().collect(),
            })
            .await?;
        states.push(now(&manifest));
    }
    Ok(states)
}

/// What a cursor gives, in words.
type Listing = Vec<String>;

/// Reads a damaged sstable.
pub(crate) fn sstable(input: &[u8]) {
    static GOLDEN: OnceLock<Golden<(SstableIdentity, Listing)>> = OnceLock::new();
    let golden = GOLDEN.get_or_init(|| {
        let (sim, disk) = fresh();
        let finished = block_on(write_sstable(&disk)).expect("the disk has no faults");
        let known = SstableIdentity { id: finished.id, table: TABLE, proof: finished.proof };
        let listing = block_on(list(&disk, known)).expect("nothing is damaged yet");
        Golden::of(&sim, [engine::sstable::file_name(SSTABLE)], (known, listing))
    });
    let (known, listing) = &golden.said;
    match block_on(list(&golden.damaged(input).0, *known)) {
        Ok(found) => assert!(found == *listing, "other rows"),
        Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
    }
}

async fn write_sstable(disk: &Disk) -> Result<WrittenSstable> {
    let config = WriterConfig {
        table: TABLE,
        codec: Codec::Lz4,
        merged_soon: false,
        block_bytes: 300,
        filter_fp_chance: 0.01,
        filter_piece_bytes: 8,
        written_forms: false,
        indexed: None,
    };
    let mut writer = Writer::new(disk, &RelPath::root(), SSTABLE, config);
    let deletion = Deletion { timestamp: 5, local_s: 3 };
    for token in 0..20i64 {
        let deletion = if token % 4 == 0 { deletion } else { Deletion::NONE };
        let key = [token as u8; 5];
        writer.partition(&Head {
            token: Token(token << 57),
            key: &key,
            deletion,
            static_row: None,
        });
        let rows = if token == 7 { 200 } else { 1 + token % 4 };
        for row in 0..rows as u8 {
            let mut bytes = Vec::new();
            let mut builder = RowBuilder::begin(&mut bytes, &RowHead::bare(9));
            builder.cell(&Cell::live(ColumnId(1), 9, &[row, 1, 2, 3, 4, 5, 6, 7, 8]));
            let row_ref = RowRef::trusted(&bytes);
            writer.fragment(&Fragment::Row { clustering: &[64, row], row: row_ref });
        }
        writer.drain(&async || ()).await?;
    }
    Ok(writer.finish(&async || {}).await?.expect("there are rows"))
}

async fn list(disk: &Disk, known: SstableIdentity) -> Result<Listing> {
    let cache = BlockCache::new(1 << 20);
    let sstable = Sstable::open(disk, &RelPath::root(), known, &cache, TokenRange::ALL).await?;
    let slices = [Slice::all()];
    let span = Span { scope: Scope::Range(TokenRange::ALL), slices: &slices, reversed: false };
    let mut listing = Listing::new();
    let mut cursor = sstable.cursor(span, Reading::Scan);
    while cursor.next_partition().await? {
        listing.push(format!("{:?}", cursor.head()));
        while cursor.next().await? {
            listing.push(format!("{:?}", cursor.fragment()));
        }
    }
    let slices = [Slice::row(vec![64, 150])];
    let (token, key) = (Token(7 << 57), [7; 5]);
    let span = Span { scope: Scope::Key(token, &key), slices: &slices, reversed: true };
    let mut cursor = sstable.cursor(span, Reading::Point);
    listing.push(format!("maybe {}", sstable.may_contain(token)));
    while cursor.next_partition().await? {
        while cursor.next().await? {
            listing.push(format!("{:?}", cursor.fragment()));
        }
    }
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The targets can fail: they read what was written, and damage is not passed over.
    #[test]
    fn what_is_whole_is_read_whole_and_a_flipped_bit_is_seen() {
        let (sim, disk) = fresh();
        let written = block_on(write_log(&disk)).unwrap();
        let written: Vec<Vec<u8>> = written.into_iter().map(|written| written.record).collect();
        assert!(written.len() == 40 && block_on(replay(&disk)).unwrap() == written);
        let states = block_on(write_manifest(&sim, &disk)).unwrap();
        let last = states.last().map(|stated| stated.state.clone());
        assert_eq!(block_on(Manifest::read(&disk, &RelPath::root())).ok(), last);
        let finished = block_on(write_sstable(&disk)).unwrap();
        let known = SstableIdentity { id: finished.id, table: TABLE, proof: finished.proof };
        assert!(block_on(list(&disk, known)).unwrap().len() > 200);
        for name in ["000001.log", "manifest", &engine::sstable::file_name(SSTABLE)] {
            let mut bytes = sim.bytes(&path(name)).unwrap();
            bytes[4110] ^= 4;
            sim.plant(&path(name), bytes);
        }
        assert!(!block_on(replay(&disk)).is_ok_and(|records| records == written));
        assert!(block_on(Manifest::read(&disk, &RelPath::root())).ok() != last);
        assert!(block_on(list(&disk, known)).is_err());
    }

    /// Before: a log or a manifest that was lost whole was as good as one that was read whole.
    #[test]
    fn what_was_written_before_the_damage_is_sure() {
        let (sim, disk) = fresh();
        let written = block_on(write_log(&disk)).unwrap();
        let golden = Golden::of(&sim, (1..9).map(|n| format!("{n:06}.log")), written);
        assert!(golden.files.len() > 2);
        assert_eq!(golden.damaged(&[]).1, None);
        assert_eq!(golden.damaged(&[1, 0, 0x21, 9, 0xff]).1, Some((1, 0x2000)));
        let before = |place: Position| golden.said.iter().filter(|w| w.block_end <= place).count();
        let second = before(Position::new(2, 0x2000));
        assert!(second > 5 && second < 40 && before(Position::new(1, 0)) == 0, "{second}");
        let states = block_on(write_manifest(&sim, &disk)).unwrap();
        let last = sim.bytes(&path("manifest")).unwrap();
        let whole = states.iter().filter(|stated| last.starts_with(&stated.file)).count();
        // The file is written anew now and then.
        assert!(whole > 1, "{whole} states of {}", states.len());
    }
}

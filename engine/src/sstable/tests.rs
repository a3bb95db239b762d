//! Whole files: what is written is what every cursor gives, whatever the bytes and the disk do.
//!
//! Here is what these tests share: a world of partitions (`World`, `Part`), a file written from it, and what any span
//! of it must show (`expected`), computed from the map alone, in both directions. The tests:
//!
//! ```text
//! model_test.rs   any world, any span, any way of reading; and how many reads a walk costs
//! seek.rs         a seek shows what a walk would show from there on
//! damage.rs       flipped bits, swapped blocks, short files, failed reads and writes
//! golden.rs       the bytes are those of `FORMAT.md`
//! ```
//!
//! Not here: merges of files (`cursor/merge/tests.rs`, `cursor/run/tests.rs`), index files (`index/tests.rs`).

mod damage;
mod golden;
mod model_test;
mod seek;

use std::collections::BTreeMap;
use std::rc::Rc;

use ::model::row::{Cell, RowBuilder, RowHead, RowRef};
use ::model::{ColumnId, Deletion, TableId, Token, TokenRange};

use super::*;
use crate::cache::BlockCache;
use crate::cursor::{Cursor, Fragment, Head, Scope, Slice, Span};
use crate::error::{Error, Result};
use crate::io::{Disk, Faults, RelPath, SimDisk, SimExec};

pub(super) const ID: SstableId = SstableId(Uuid::from_u128(0x5ab1e));
pub(super) const TABLE: TableId = TableId(Uuid::from_u128(0x7ab1e));

/// One partition, as a test thinks of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub(super) deletion: Option<Deletion>,
    pub(super) static_row: Option<Vec<u8>>,
    pub(super) rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Disjoint, ascending: start, end, what is in force between.
    pub(super) ranges: Vec<(Vec<u8>, Vec<u8>, Deletion)>,
}

impl Part {
    /// In force above a place.
    fn above(&self, at: &[u8]) -> Deletion {
        let covers = |r: &&(Vec<u8>, Vec<u8>, _)| r.0.as_slice() <= at && at < r.1.as_slice();
        self.ranges.iter().find(covers).map_or(Deletion::NONE, |range| range.2)
    }

    /// In force below a place.
    fn below(&self, at: &[u8]) -> Deletion {
        let covers = |r: &&(Vec<u8>, Vec<u8>, _)| r.0.as_slice() < at && at <= r.1.as_slice();
        self.ranges.iter().find(covers).map_or(Deletion::NONE, |range| range.2)
    }

    /// Everywhere something begins or ends.
    fn borders(&self) -> Vec<&[u8]> {
        let mut all: Vec<&[u8]> =
            self.ranges.iter().flat_map(|range| [range.0.as_slice(), &range.1]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

pub(super) type World = BTreeMap<(Token, Vec<u8>), Part>;

/// What a cursor gives: a partition's token, key, deletion and static row, then rows and changes.
pub(super) type Listing = Vec<(Token, Vec<u8>, Deletion, Option<Vec<u8>>, Vec<Shown>)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Row(Vec<u8>, Vec<u8>),
    Change(Vec<u8>, Deletion),
}

/// What the span must give of the world.
pub(super) fn expected(world: &World, span: &Span<'_>) -> Listing {
    let inside = |token: Token, key: &[u8]| match span.scope {
        Scope::Key(t, k) => (t, k) == (token, key),
        Scope::Range(range) => range.contains(token),
    };
    let parts = world.iter().filter(|((token, key), _)| inside(*token, key));
    let listed = parts.map(|((token, key), part)| {
        let shown = if span.reversed {
            span.slices.iter().rev().flat_map(|slice| down(part, slice)).collect()
        } else {
            span.slices.iter().flat_map(|slice| up(part, slice)).collect()
        };
        let deletion = part.deletion.unwrap_or(Deletion::NONE);
        (*token, key.clone(), deletion, part.static_row.clone(), shown)
    });
    listed.collect()
}

fn up(part: &Part, slice: &Slice) -> Vec<Shown> {
    let mut in_force = part.above(&slice.start);
    let mut shown = Vec::new();
    if !in_force.is_none() {
        shown.push(Shown::Change(slice.start.clone(), in_force));
    }
    let borders = part.borders().into_iter().filter(|at| slice.start.as_slice() < *at);
    let mut borders = borders.filter(|at| *at < slice.end.as_slice()).peekable();
    let mut rows = part.rows.iter().filter(|(at, _)| slice.contains(at)).peekable();
    loop {
        let border_first = match (borders.peek(), rows.peek()) {
            (Some(border), Some((row, _))) => *border <= row.as_slice(),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => break,
        };
        if !border_first {
            shown.extend(rows.next().map(|(at, row)| Shown::Row(at.clone(), row.clone())));
        } else if let Some(at) = borders.next()
            && part.above(at) != in_force
        {
            in_force = part.above(at);
            shown.push(Shown::Change(at.to_vec(), in_force));
        }
    }
    if !in_force.is_none() {
        shown.push(Shown::Change(slice.end.clone(), Deletion::NONE));
    }
    shown
}

fn down(part: &Part, slice: &Slice) -> Vec<Shown> {
    let mut in_force = part.below(&slice.end);
    let mut shown = Vec::new();
    if !in_force.is_none() {
        shown.push(Shown::Change(slice.end.clone(), in_force));
    }
    let borders = part.borders().into_iter().filter(|at| slice.start.as_slice() < *at);
    let mut borders = borders.rev().filter(|at| *at < slice.end.as_slice()).peekable();
    let mut rows = part.rows.iter().rev().filter(|(at, _)| slice.contains(at)).peekable();
    loop {
        let border_first = match (borders.peek(), rows.peek()) {
            (Some(border), Some((row, _))) => *border > row.as_slice(),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => break,
        };
        if !border_first {
            shown.extend(rows.next().map(|(at, row)| Shown::Row(at.clone(), row.clone())));
        } else if let Some(at) = borders.next()
            && part.below(at) != in_force
        {
            in_force = part.below(at);
            shown.push(Shown::Change(at.to_vec(), in_force));
        }
    }
    if !in_force.is_none() {
        shown.push(Shown::Change(slice.start.clone(), Deletion::NONE));
    }
    shown
}

/// What the cursor gives.
pub(super) async fn listed(cursor: &mut impl Cursor) -> Result<Listing> {
    let mut all = Vec::new();
    while cursor.next_partition().await? {
        let head = cursor.head();
        let static_row = head.static_row.map(|row| row.bytes().to_vec());
        let (token, key, deletion) = (head.token, head.key.to_vec(), head.deletion);
        let (mut shown, mut in_force) = (Vec::new(), Deletion::NONE);
        while cursor.next().await? {
            if let Fragment::Change { deletion, .. } = cursor.fragment()
                && std::mem::replace(&mut in_force, deletion) == deletion
            {
                // It has passed slices that have nothing.
                continue;
            }
            shown.push(match cursor.fragment() {
                Fragment::Row { clustering, row } => {
                    Shown::Row(clustering.to_vec(), row.bytes().to_vec())
                }
                Fragment::Change { position, deletion } => {
                    Shown::Change(position.to_vec(), deletion)
                }
            });
        }
        all.push((token, key, deletion, static_row, shown));
    }
    Ok(all)
}

pub(super) fn config(block_bytes: usize, codec: Codec) -> WriterConfig {
    WriterConfig {
        table: TABLE,
        codec,
        merged_soon: false,
        block_bytes,
        filter_fp_chance: 0.01,
        filter_piece_bytes: 4,
        written_forms: false,
        indexed: None,
    }
}

/// Puts the world into a writer.
pub(super) async fn put(writer: &mut Writer, world: &World) -> Result<()> {
    for ((token, key), part) in world {
        writer.partition(&Head {
            token: *token,
            key,
            deletion: part.deletion.unwrap_or(Deletion::NONE),
            static_row: part.static_row.as_deref().map(RowRef::trusted),
        });
        for piece in up(part, &Slice::all()) {
            writer.fragment(&match &piece {
                Shown::Row(clustering, row) => {
                    Fragment::Row { clustering, row: RowRef::trusted(row) }
                }
                Shown::Change(position, deletion) => {
                    Fragment::Change { position, deletion: *deletion }
                }
            });
        }
        writer.drain(&async || ()).await?;
    }
    Ok(())
}

/// A row with one cell of these bytes.
pub(super) fn row(timestamp: i64, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut row = RowBuilder::begin(&mut out, &RowHead::bare(timestamp));
    row.cell(&Cell::live(ColumnId(1), timestamp, value));
    out
}

pub(super) fn sim() -> (SimDisk, Disk) {
    let sim = SimDisk::new(1, Faults::default());
    (sim.clone(), Disk::Sim(sim))
}

/// Writes the world on a fresh disk and opens the file.
pub(super) async fn written(
    disk: &Disk,
    world: &World,
    config: WriterConfig,
) -> Result<SstableIdentity> {
    let mut writer = Writer::new(disk, &RelPath::root(), ID, config);
    put(&mut writer, world).await?;
    let finished = writer.finish(&async || {}).await?.expect("the world is not empty");
    Ok(SstableIdentity { id: ID, table: TABLE, proof: finished.proof })
}

pub(super) async fn open(disk: &Disk, known: SstableIdentity) -> Result<Rc<Sstable>> {
    open_with(disk, known, &BlockCache::new(1 << 20)).await
}

pub(super) async fn open_with(
    disk: &Disk,
    known: SstableIdentity,
    cache: &Rc<BlockCache>,
) -> Result<Rc<Sstable>> {
    Sstable::open(disk, &RelPath::root(), known, cache, TokenRange::ALL).await
}

/// A cache in which there is no space for a filter.
pub(super) fn cache_without_space_for_indexes() -> Rc<BlockCache> {
    let cache = BlockCache::new(4 << 20);
    cache.index_grew(1 << 40);
    cache
}

/// Runs a test to its end.
pub(super) fn run<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
    SimExec::new(1).run(main).done()
}

/// Before: a read of a key learned of the length of a block when it had it.
#[test]
fn long_blocks_are_known_before_they_are_read() {
    run(async {
        let (_, disk) = sim();
        let mut random = crate::io::Rng::new(1);
        let mut noise = |bytes: usize| -> Vec<u8> {
            (0..bytes / 8).flat_map(|_| random.roll().to_le_bytes()).collect()
        };
        // Few blocks, many blocks, and a row that is named and can be compressed.
        for (shorts, long) in [
            (3, Some(noise(400 << 10))),
            (600, Some(noise(400 << 10))),
            (600, Some(vec![0; 3 << 20])),
            (3, None),
            (600, None),
        ] {
            let mut rows: BTreeMap<_, _> = (0..shorts)
                .map(|i: u16| (i.to_be_bytes().to_vec(), row(1, &noise(1000))))
                .collect();
            rows.extend(long.as_ref().map(|value| (vec![0, 1, 7], row(1, value))));
            let short = Part { rows: [(vec![1], row(1, b"v"))].into(), ..Part::default() };
            let part = Part { rows, ..Part::default() };
            let world = [((Token(1), vec![1]), part), ((Token(2), vec![2]), short)].into();
            let known = written(&disk, &world, config(4 << 10, Codec::Lz4)).await.unwrap();
            let file = open(&disk, known).await.unwrap();
            let of = async |token: i64, clustering: Option<&[u8]>| {
                let key = [token as u8];
                file.long_block_bytes((Token(token), &key), clustering, &async || {}).await
            };
            let bytes = long.map_or(0, |value| value.len() as u64);
            assert!(file.may_have_long_blocks() || bytes == 0);
            let found = of(1, None).await;
            assert!((bytes..=bytes + bytes / 8).contains(&found), "{found} for {bytes}");
            assert!(of(1, Some(&[0, 1, 7])).await == found && of(2, None).await == 0);
            let is_named = bytes >= crate::limits::LARGE_ROW_BYTES as u64;
            assert_eq!(of(1, Some(&[0, 1])).await, if is_named { 0 } else { found });
            disk.unlink(&RelPath::new(&file_name(ID)).unwrap()).await.unwrap();
        }
    });
}

/// Before: it read and opened blocks of any length, 16 at a time.
#[test]
fn a_sample_opens_no_long_block_whether_it_is_long_before_or_after_compression() {
    run(async {
        let (_, disk) = sim();
        let mut random = crate::io::Rng::new(1);
        let value: Vec<u8> = (0..1 << 18).flat_map(|_| random.roll().to_le_bytes()).collect();
        for (value, is_short) in
            [(value, false), (vec![0; 2 << 20], false), (vec![0; 1 << 19], true)]
        {
            let rows = [(vec![1], row(1, &value))].into();
            let world = [((Token(1), vec![1]), Part { rows, ..Part::default() })].into();
            let known = written(&disk, &world, config(4 << 10, Codec::Lz4)).await.unwrap();
            let file = open(&disk, known).await.unwrap();
            let slices = [Slice::all()];
            let span = Span { scope: Scope::Key(Token(1), &[1]), slices: &slices, reversed: false };
            let sampled = listed(&mut file.cursor(span, Reading::Sample)).await;
            match is_short {
                true => assert_eq!(sampled.unwrap(), expected(&world, &span)),
                false => assert_eq!(sampled, Err(Error::WouldBlock)),
            }
            disk.unlink(&RelPath::new(&file_name(ID)).unwrap()).await.unwrap();
        }
    });
}

//! Compaction never changes what a reader sees, whichever files it merges and whatever it purges.
//!
//! 1. Files are drawn as maps of partitions (`Source`) and written. What a reader sees of all of them is a list of live
//!    rows (`Sight`).
//! 2. Some of the files are merged, the others stay. The others say what is older elsewhere, as a shard does from its
//!    statistics and filters.
//! 3. Whenever a fragment is adopted, what is there then (fragments, what is left of the inputs, the others) is read
//!    again: forward, reversed, in slices. Each time it must be the same list.
//!
//! Not here: merges that are stopped inside partitions and merged again (`rewriting/stopped.rs`), cuts of views
//! (`rewriting/cuts.rs`), which files a strategy names (`deciding.rs`), crashes (`engine/tests/crash.rs`).

mod cuts;
mod stopped;

use std::cell::{Cell as Slot, RefCell};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use model::cell::Life;
use model::row::{Cell, RowBuilder, RowHead, RowRef, visible};
use model::schema::ColumnDrops;
use model::{ColumnId, Deletion, TableId, Token, TokenRange};
use proptest::prelude::*;
use uuid::Uuid;

use super::super::rewrite::{MergeOwner, Output, Rest, rewrite};
use crate::cache::BlockCache;
use crate::cursor::{
    Cursor, FilePart, Fragment, Head, Merge, RunCursor, Scope, Slice, Span, lanes_of,
};
use crate::error::Result;
use crate::io::{Disk, Faults, RelPath, SimDisk, SimExec};
use crate::sstable::{
    Codec, Reading, Sstable, SstableId, SstableIdentity, Writer, WriterConfig, WrittenSstable,
    file_name,
};

const TABLE: TableId = TableId(Uuid::from_u128(7));
const NOW_S: u32 = 50;

/// One partition of one file: tombstone, static row, rows, disjoint range tombstones.
#[derive(Clone, Debug, Default)]
struct Part {
    deletion: Option<Deletion>,
    stat: Option<Vec<u8>>,
    rows: BTreeMap<u8, Vec<u8>>,
    ranges: Vec<(u8, u8, Deletion)>,
}

type Source = BTreeMap<i64, Part>;

fn deletion() -> impl Strategy<Value = Deletion> {
    (1..40i64, 0..60u32).prop_map(|(timestamp, local_s)| Deletion { timestamp, local_s })
}

fn life() -> impl Strategy<Value = Life> {
    let expiring = (1..9u32, 10..90u32);
    let expiring = expiring.prop_map(|(ttl_s, at_s)| model::cell::Expiry { ttl_s, at_s });
    prop_oneof![
        2 => Just(Life::Live),
        1 => expiring.prop_map(Life::Expiring),
        1 => (0..60u32).prop_map(|local_s| Life::Dead { local_s }),
    ]
}

/// A row of up to three cells; its marker and tombstone as they come.
fn row() -> impl Strategy<Value = Vec<u8>> {
    let cells = prop::collection::btree_map(0..3u16, (1..40i64, life()), 0..3);
    let marker = prop::option::of((
        1..40i64,
        life().prop_filter("alive", |l| !matches!(l, Life::Dead { .. })),
    ));
    (cells, marker, prop::option::weighted(0.2, deletion())).prop_map(
        |(cells, marker, deletion)| {
            let deletion = deletion.unwrap_or(Deletion::NONE);
            let marker = marker.filter(|(t, _)| !deletion.covers(*t));
            let timestamp = marker.map_or(1, |(t, _)| t);
            let head = RowHead { timestamp, marker: marker.map(|m| m.1), deletion };
            let mut out = Vec::new();
            let mut row = RowBuilder::begin(&mut out, &head);
            for (column, (timestamp, life)) in cells {
                let value: &[u8] = if matches!(life, Life::Dead { .. }) { b"" } else { b"v" };
                if !deletion.covers(timestamp) {
                    row.cell(&Cell { life, ..Cell::live(ColumnId(column), timestamp, value) });
                }
            }
            out
        },
    )
}

fn part() -> impl Strategy<Value = Part> {
    let borders = prop::collection::btree_set(64..72u8, 0..5);
    let ranges = (borders, prop::collection::vec(prop::option::of(deletion()), 5));
    let ranges = ranges.prop_map(|(borders, of)| {
        let borders: Vec<u8> = borders.into_iter().collect();
        let pairs = borders.windows(2).zip(of);
        pairs.filter_map(|(w, d)| d.map(|d| (w[0], w[1], d))).collect()
    });
    let rows = prop::collection::btree_map(64..72u8, row(), 0..6);
    let stat = prop::option::weighted(0.3, row());
    (prop::option::weighted(0.2, deletion()), stat, rows, ranges)
        .prop_map(|(deletion, stat, rows, ranges)| Part { deletion, stat, rows, ranges })
}

fn sources() -> impl Strategy<Value = Vec<Source>> {
    prop::collection::vec(prop::collection::btree_map(-3..4i64, part(), 1..5), 1..5)
}

/// The clock that no two files share: ties are decided by values, which compaction may drop.
fn set_apart(source: &mut Source, index: i64) {
    let apart = |t: i64| t * 10 + index;
    let row = |bytes: &mut Vec<u8>| {
        let old = RowRef::trusted(bytes);
        let mut head = old.head();
        head.timestamp = apart(head.timestamp);
        if !head.deletion.is_none() {
            head.deletion.timestamp = apart(head.deletion.timestamp);
        }
        let mut out = Vec::new();
        let mut new = RowBuilder::begin(&mut out, &head);
        old.cells().for_each(|cell| new.cell(&Cell { timestamp: apart(cell.timestamp), ..cell }));
        *bytes = out;
    };
    for part in source.values_mut() {
        part.deletion.iter_mut().for_each(|d| d.timestamp = apart(d.timestamp));
        part.ranges.iter_mut().for_each(|(_, _, d)| d.timestamp = apart(d.timestamp));
        part.stat.iter_mut().chain(part.rows.values_mut()).for_each(row);
    }
}

fn config() -> WriterConfig {
    let codec = Codec::Lz4;
    WriterConfig {
        table: TABLE,
        codec,
        merged_soon: false,
        block_bytes: 100,
        filter_fp_chance: 0.01,
        filter_piece_bytes: 4,
        written_forms: false,
        indexed: None,
    }
}

fn id(number: u128) -> SstableId {
    SstableId(Uuid::from_u128(number))
}

fn put(writer: &mut Writer, source: &Source) {
    for (token, part) in source {
        put_part(writer, (Token(*token), b"key"), part);
    }
}

fn put_part(writer: &mut Writer, (token, key): (Token, &[u8]), part: &Part) {
    let deletion = part.deletion.unwrap_or(Deletion::NONE);
    let static_row = part.stat.as_deref().map(RowRef::trusted);
    writer.partition(&Head { token, key, deletion, static_row });
    let mut pieces: BTreeMap<(u8, bool), Fragment<'_>> = BTreeMap::new();
    let at = |place: &u8| -> &'static [u8] { &PLACES[usize::from(*place)..][..1] };
    for (start, end, deletion) in &part.ranges {
        let deletion = *deletion;
        pieces.insert((*start, false), Fragment::Change { position: at(start), deletion });
        let none = Fragment::Change { position: at(end), deletion: Deletion::NONE };
        pieces.entry((*end, false)).or_insert(none);
    }
    for (place, row) in &part.rows {
        let row = RowRef::trusted(row);
        pieces.insert((*place, true), Fragment::Row { clustering: at(place), row });
    }
    pieces.values().for_each(|piece| writer.fragment(piece));
}

/// Every byte at its own index: clustering keys to borrow.
static PLACES: [u8; 256] = {
    let mut places = [0; 256];
    let mut i = 0;
    while i < 256 {
        places[i] = i as u8;
        i += 1;
    }
    places
};

async fn open(disk: &Disk, known: SstableIdentity) -> Rc<Sstable> {
    let cache = BlockCache::new(1 << 20);
    Sstable::open(disk, &RelPath::root(), known, &cache, TokenRange::ALL).await.unwrap()
}

async fn file(disk: &Disk, number: u128, source: &Source) -> Option<Rc<Sstable>> {
    let mut writer = Writer::new(disk, &RelPath::root(), id(number), config());
    put(&mut writer, source);
    let finished = writer.finish(&async || {}).await.unwrap()?;
    Some(open(disk, SstableIdentity { id: finished.id, table: TABLE, proof: finished.proof }).await)
}

/// Partition, then its static row and its rows, as a reader sees them at a second.
type Sight = Vec<(i64, Option<String>, Vec<(Vec<u8>, String)>)>;

async fn sight(files: &[FilePart], now_s: u32) -> Sight {
    sight_of(files, now_s, &[Slice::all()], false).await
}

/// What slices of each partition hold, in ascending order whichever way it is read.
async fn sight_of(files: &[FilePart], now_s: u32, slices: &[Slice], reversed: bool) -> Sight {
    let span = Span { scope: Scope::Range(TokenRange::ALL), slices, reversed };
    let lanes: Vec<Rc<[FilePart]>> =
        lanes_of(files.iter().cloned()).into_iter().map(Rc::from).collect();
    let cursors = lanes.iter().flat_map(|lane| RunCursor::of_lane(lane, span, Reading::Scan));
    let mut merged = Merge::new(cursors.collect::<Vec<_>>(), reversed);
    let says = |row: RowRef<'_>, covering: Deletion| says(row, covering, now_s);
    let mut all = Vec::new();
    while merged.next_partition().await.unwrap() {
        let head = merged.head();
        let (token, partition) = (head.token.0, head.deletion);
        let stat = head.static_row.and_then(|row| says(row, partition));
        let (mut rows, mut in_force) = (Vec::new(), Deletion::NONE);
        while merged.next().await.unwrap() {
            match merged.fragment() {
                Fragment::Change { deletion, .. } => in_force = deletion,
                Fragment::Row { clustering, row } => {
                    let seen = says(row, partition.max(in_force));
                    rows.extend(seen.map(|seen| (clustering.to_vec(), seen)));
                }
            }
        }
        if reversed {
            rows.reverse();
        }
        if stat.is_some() || !rows.is_empty() {
            all.push((token, stat, rows));
        }
    }
    all
}

/// What a reader sees of a row; `None` if nothing.
fn says(row: RowRef<'_>, covering: Deletion, now_s: u32) -> Option<String> {
    let mut scratch = Vec::new();
    let seen = visible(row, covering, now_s, &ColumnDrops::default(), &mut scratch)?;
    let head = seen.head();
    let marker = head.marker.map(|life| (head.timestamp, life));
    Some(format!("{marker:?} {:?}", seen.cells().collect::<Vec<_>>()))
}

fn whole(sstable: &Rc<Sstable>) -> FilePart {
    let run = sstable.id().0;
    FilePart { sstable: sstable.clone(), tokens: sstable.statistics().tokens, run, begin: None }
}

fn output(fragment_bytes: u64, gc_before_s: u32) -> Output {
    let (dir, config, drops) = (RelPath::root(), config(), Rc::default());
    Output {
        dir,
        config,
        fragment_bytes,
        kept_bytes_max: usize::MAX,
        now_s: NOW_S,
        gc_before_s,
        drops,
        row_bytes_max: u64::MAX,
    }
}

/// The names that a merge gives its files, one after the other.
struct Names(Slot<u128>);

impl Names {
    /// Those behind the name of this number.
    fn behind(number: u128) -> Names {
        Names(Slot::new(number))
    }

    fn next(&self) -> SstableId {
        self.0.set(self.0.get() + 1);
        id(self.0.get())
    }
}

/// The oldest timestamp that these files may have of a token, in microseconds; the greatest there is if none has it.
fn oldest_of<'f>(files: impl Iterator<Item = (&'f Sstable, TokenRange)>, token: Token) -> i64 {
    let may = files.filter(|(file, tokens)| tokens.contains(token) && file.may_contain(token));
    may.map(|(file, _)| file.statistics().oldest_timestamp).min().unwrap_or(i64::MAX)
}

/// Runs merges, and sees after each fragment what a reader sees then.
struct Runner<'t> {
    disk: &'t Disk,
    inputs: &'t [FilePart],
    others: &'t [FilePart],
    names: Names,
    adopted: RefCell<Vec<FilePart>>,
    /// A reader sees this at [`NOW_S`], all the time.
    seen: Sight,
    /// After so many fragments the merge is stopped.
    fragments_max: usize,
}

impl<'t> Runner<'t> {
    async fn new(disk: &'t Disk, inputs: &'t [FilePart], others: &'t [FilePart]) -> Runner<'t> {
        let all: Vec<FilePart> = inputs.iter().chain(others).cloned().collect();
        let (names, adopted) = (Names::behind(1000), RefCell::default());
        let seen = sight(&all, NOW_S).await;
        Runner { disk, inputs, others, names, adopted, seen, fragments_max: usize::MAX }
    }

    /// All there is when the inputs begin at `rest`.
    fn there(&self, rest: Option<&Rest>) -> Vec<FilePart> {
        let left = self.inputs.iter().filter_map(|input| {
            let rest = rest?;
            let behind = TokenRange { first: rest.token, last: TokenRange::ALL.last };
            let tokens = input.tokens.intersection(&behind)?;
            let last = input.sstable.statistics().tokens.last;
            let has_more = last > rest.token
                || rest.inside.is_none()
                || rest.files.contains(&input.sstable.id().0);
            let begin = rest.inside.clone().filter(|_| tokens.first == rest.token);
            has_more.then(|| FilePart { tokens, begin, ..input.clone() })
        });
        let adopted = self.adopted.borrow();
        left.chain(adopted.iter().chain(self.others).cloned()).collect()
    }
}

impl MergeOwner for Runner<'_> {
    fn oldest_elsewhere(&self, token: Token, _: &[u8]) -> i64 {
        oldest_of(self.others.iter().map(|other| (&*other.sstable, other.tokens)), token)
    }

    fn name(&self) -> SstableId {
        self.names.next()
    }

    async fn pause(&self) {}

    async fn adopt(
        &self,
        fragment: Option<WrittenSstable>,
        rest: Option<Rest>,
    ) -> Result<ControlFlow<()>> {
        if let Some(fragment) = fragment {
            let known = SstableIdentity { id: fragment.id, table: TABLE, proof: fragment.proof };
            let opened = whole(&open(self.disk, known).await);
            self.adopted.borrow_mut().push(FilePart { run: id(1000).0, ..opened });
        }
        let there = self.there(rest.as_ref());
        assert_eq!(sight(&there, NOW_S).await, self.seen, "with the rest from {rest:?}");
        let reversed = sight_of(&there, NOW_S, &[Slice::all()], true).await;
        assert_eq!(reversed, self.seen, "reversed, with the rest from {rest:?}");
        let slices = [(65, 66), (68, 71)].map(|(a, b)| Slice { start: vec![a], end: vec![b] });
        let mut expected = self.seen.clone();
        for (_, _, rows) in &mut expected {
            rows.retain(|(at, _)| slices.iter().any(|slice| slice.contains(at)));
        }
        expected.retain(|(_, stat, rows)| stat.is_some() || !rows.is_empty());
        for reversed in [false, true] {
            let sliced = sight_of(&there, NOW_S, &slices, reversed).await;
            assert_eq!(sliced, expected, "slices, {reversed}, with the rest from {rest:?}");
        }
        Ok(match self.adopted.borrow().len() < self.fragments_max {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    }
}

/// Rewrites the inputs while the others stay, and gives what there is afterwards.
async fn rewritten(
    disk: &Disk,
    inputs: &[FilePart],
    others: &[FilePart],
    output: &Output,
) -> Vec<FilePart> {
    let runner = Runner::new(disk, inputs, others).await;
    rewrite(disk, inputs.to_vec(), output, &runner).await.unwrap();
    runner.there(None)
}

fn on_sim<T: 'static>(main: impl AsyncFnOnce(SimDisk, Disk) -> T + 'static) -> T {
    let sim = SimDisk::new(1, Faults::default());
    let disk = Disk::Sim(sim.clone());
    SimExec::new(1).run(async move { main(sim, disk).await }).done()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_reader_sees_the_same_before_and_after(
        mut sources in sources(), merged in prop::collection::vec(any::<bool>(), 5),
        fragment_bytes in prop_oneof![Just(1u64), 1..2000u64], gc_before_s in 0..60u32, border in -4..5i64
    ) {
        sources.iter_mut().zip(0..).for_each(|(source, index)| set_apart(source, index));
        on_sim(async move |_, disk: Disk| {
            let (mut inputs, mut others) = (Vec::new(), Vec::new());
            for (number, source) in sources.iter().enumerate() {
                let Some(sstable) = file(&disk, number as u128, source).await else { continue };
                // Of a file that straddles two owners only one part is this shard's.
                let mut tokens = sstable.statistics().tokens;
                if number == 0 {
                    let owned = TokenRange { first: Token(border), last: Token(100) };
                    let Some(part) = tokens.intersection(&owned) else { continue };
                    tokens = part;
                }
                let side = if merged[number] { &mut inputs } else { &mut others };
                side.push(FilePart { tokens, ..whole(&sstable) });
            }
            let all: Vec<FilePart> = inputs.iter().chain(&others).cloned().collect();
            let after = rewritten(&disk, &inputs, &others, &output(fragment_bytes, gc_before_s)).await;
            for now_s in [NOW_S, NOW_S + 20, NOW_S + 100] {
                assert_eq!(sight(&after, now_s).await, sight(&all, now_s).await);
            }
            if others.is_empty() && gc_before_s > 59 {
                let tombstones: u64 = after.iter().map(|i| i.sstable.statistics().tombstones).sum();
                assert_eq!(tombstones, 0, "nothing is left for them to shadow");
            }
        });
    }
}

fn live(timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let cell = Cell::live(ColumnId(1), timestamp, b"v");
    RowBuilder::begin(&mut out, &RowHead::bare(timestamp)).cell(&cell);
    out
}

fn partition_of(rows: &[(u8, Vec<u8>)]) -> Part {
    Part { rows: rows.iter().cloned().collect(), ..Part::default() }
}

/// A file of one deleted partition, and a file of what it deletes.
async fn dead_and_old(disk: &Disk) -> (FilePart, FilePart) {
    let deletion = Some(Deletion { timestamp: 100, local_s: 40 });
    let dead: Source = [(0, Part { deletion, ..Part::default() })].into();
    let old: Source = [(0, partition_of(&[(65, live(50))]))].into();
    let open = async |number, source| whole(&file(disk, number, source).await.unwrap());
    (open(1, &dead).await, open(2, &old).await)
}

#[test]
fn a_tombstone_goes_only_when_its_grace_is_over() {
    for (gc_before_s, left) in [(40, 1), (41, 0)] {
        on_sim(async move |_, disk| {
            let (dead, _) = dead_and_old(&disk).await;
            let after = rewritten(&disk, &[dead], &[], &output(1 << 20, gc_before_s)).await;
            assert_eq!(after.len(), left, "graces that end before {gc_before_s}");
        });
    }
}

#[test]
fn a_tombstone_goes_only_when_nothing_older_is_elsewhere() {
    on_sim(async |_, disk| {
        let (dead, old) = dead_and_old(&disk).await;
        let after = rewritten(&disk, &[dead], &[old], &output(1 << 20, 50)).await;
        assert_eq!(after.len(), 2, "the old row would come back");
        assert_eq!(sight(&after, NOW_S).await, []);
    });
    on_sim(async |_, disk| {
        let (dead, old) = dead_and_old(&disk).await;
        let after = rewritten(&disk, &[dead, old], &[], &output(1 << 20, 50)).await;
        assert_eq!(after.len(), 0, "nothing is left to delete");
    });
}

#[test]
fn fragments_end_between_tokens_and_cover_all_in_order() {
    // By the length of the file, and by what the writer keeps in memory. Before, that had no bound.
    let by_memory = Output { kept_bytes_max: 500, ..output(u64::MAX, 0) };
    for output in [output(2000, 0), by_memory] {
        on_sim(async move |_, disk| {
            let part = |token: i64| (token, partition_of(&[(65, live(token + 500))]));
            let one = file(&disk, 1, &(0..200).map(part).collect()).await.unwrap();
            let two = file(&disk, 2, &(100..300).map(part).collect()).await.unwrap();
            let inputs = [whole(&one), whole(&two)];
            let after = rewritten(&disk, &inputs, &[], &output).await;
            assert!((4..20).contains(&after.len()), "{}", after.len());
            let ranges = after.iter().map(|input| input.sstable.statistics().tokens);
            assert!(ranges.collect::<Vec<_>>().windows(2).all(|w| w[0].last < w[1].first));
            assert_eq!(sight(&after, NOW_S).await.len(), 300);
        });
    }
}

#[test]
fn partitions_of_one_token_are_in_one_fragment() {
    on_sim(async |_, disk| {
        let mut writer = Writer::new(&disk, &RelPath::root(), id(1), config());
        for (token, key) in (0..30u8).flat_map(|token| (0..10u8).map(move |key| (token, key))) {
            let (token, deletion) =
                (Token(token.into()), Deletion { timestamp: 1, local_s: NOW_S });
            writer.partition(&Head { token, key: &[key], deletion, static_row: None });
        }
        let written = writer.finish(&async || {}).await.unwrap().unwrap();
        let known = SstableIdentity { id: written.id, table: TABLE, proof: written.proof };
        let inputs = [whole(&open(&disk, known).await)];
        let after = rewritten(&disk, &inputs, &[], &output(1, 0)).await;
        let counts = after.iter().map(|input| input.sstable.statistics().partitions);
        assert_eq!(counts.collect::<Vec<_>>(), [10; 30]);
    });
}

#[test]
fn a_merge_that_is_stopped_has_done_what_was_adopted() {
    on_sim(async |_, disk| {
        let part = |token: i64| (token, partition_of(&[(65, live(token + 500))]));
        let inputs = [whole(&file(&disk, 1, &(0..200).map(part).collect()).await.unwrap())];
        let mut runner = Runner::new(&disk, &inputs, &[]).await;
        runner.fragments_max = 2;
        rewrite(&disk, inputs.to_vec(), &output(2000, 0), &runner).await.unwrap();
        assert_eq!(runner.adopted.borrow().len(), 2);
        let files = disk.list(&RelPath::root()).await.unwrap();
        assert_eq!(files.len(), 3, "what was begun behind them is gone");
    });
}

#[test]
fn whichever_operation_fails_no_output_is_left_but_what_was_adopted() {
    let (mut failed, adopted) = (0, Rc::new(Slot::new(0)));
    for nth in 0.. {
        let adopted = adopted.clone();
        let done = on_sim(async move |sim: SimDisk, disk: Disk| {
            let part = |token: i64| (token, partition_of(&[(65, live(token + 500))]));
            let inputs = [whole(&file(&disk, 1, &(0..200).map(part).collect()).await.unwrap())];
            let before = disk.list(&RelPath::root()).await.unwrap();
            let runner = Adopter::new();
            sim.set_faults(Faults { fail_op: Some(nth), ..Faults::default() });
            let done = rewrite(&disk, inputs.to_vec(), &output(2000, 0), &runner).await;
            sim.set_faults(Faults::default());
            let names = runner.adopted.take();
            let mut found = disk.list(&RelPath::root()).await.unwrap();
            found.retain(|file| !names.contains(&file.name));
            assert_eq!(found, before);
            adopted.set(adopted.get() + usize::from(done.is_err() && !names.is_empty()));
            done.is_ok()
        });
        if done {
            break;
        }
        failed += 1;
    }
    assert!(
        failed > 10 && adopted.get() > 10,
        "{failed} operations, {adopted:?} behind a fragment"
    );
}

#[test]
fn merging_partitions_without_rows_lets_others_have_their_turn() {
    on_sim(async |_, disk| {
        let deletion = Some(Deletion { timestamp: 100, local_s: 40 });
        let dead: Source =
            (0..5000).map(|token| (token, Part { deletion, ..Part::default() })).collect();
        let inputs = vec![whole(&file(&disk, 1, &dead).await.unwrap())];
        let runner = Adopter::new();
        rewrite(&disk, inputs, &output(1 << 20, 0), &runner).await.unwrap();
        assert!(runner.pauses.get() >= 5, "{:?} pauses", runner.pauses);
    });
}

/// Takes every fragment as it is.
struct Adopter {
    names: Names,
    pauses: Slot<u32>,
    adopted: RefCell<Vec<String>>,
}

impl Adopter {
    fn new() -> Adopter {
        Adopter { names: Names::behind(1000), pauses: Slot::new(0), adopted: RefCell::default() }
    }
}

impl MergeOwner for Adopter {
    fn oldest_elsewhere(&self, _: Token, _: &[u8]) -> i64 {
        0
    }

    fn name(&self) -> SstableId {
        self.names.next()
    }

    async fn pause(&self) {
        self.pauses.set(self.pauses.get() + 1);
    }

    async fn adopt(
        &self,
        fragment: Option<WrittenSstable>,
        _: Option<Rest>,
    ) -> Result<ControlFlow<()>> {
        self.adopted.borrow_mut().extend(fragment.map(|fragment| file_name(fragment.id)));
        Ok(ControlFlow::Continue(()))
    }
}

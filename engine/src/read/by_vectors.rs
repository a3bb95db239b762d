//! The nearest rows by files of vectors: candidates by about how near they are, each read as a row and measured.
//!
//! ```text
//! memtables, files without vectors ─► all their rows, measured ───────────┐
//! files with vectors ─► nearest centroids ─► their lists, estimated ──────┼─► the nearest candidates
//!                                                                         ▼
//!               NearestRows ◄─ conditions ◄─ the row as it is now ◄─ partition by partition
//! ```
//!
//! 1. A candidate is what some source says of a row, whether it is still so or not. The row is read as any is, so what
//!    was overwritten or deleted is never found. Nor is it in the way: as long as a candidate that was left out could
//!    be nearer than the last row that was found, more candidates are taken.
//! 2. When candidates do not suffice, all lists are looked at. All rows are read as soon as that costs less than more
//!    candidates: a few rounds cost no more than a part of it. What has no file is gone through once.
//! 3. Memory is bounded: by the number of candidates and the bytes of their keys.
//! 4. Where an index file fails, all rows are read, and the file is made anew.

use std::collections::{BTreeSet, BinaryHeap};
use std::rc::Rc;

use model::cell::Life;
use model::read::{FilterTarget, Nearest, NearestRows, Partitions, Slice};
use model::row::{RowRef, tombstones};
use model::schema::{Index, IndexId};
use model::{ColumnId, Deletion, TokenRange};
use xxhash_rust::xxh3::Xxh3;

use super::page::Page;
use super::{LookupPolicy, Read, Scratch, WaitPolicy};
use crate::compaction::share;
use crate::cursor::{Cursor, Fragment, Scope, Span};
use crate::error::{Error, Result};
use crate::index::{IndexFile, Lists, Place, Reach, TermWalk, VectorTerm};
use crate::limits::{
    LOOKUP_SLICES_AT_ONCE, LOOKUP_WORTH, NEAREST_CANDIDATES_MAX, VECTOR_LISTS_MAX,
};
use crate::memtable::MemtableCursor;
use crate::planted::{Bug, planted};
use crate::sstable::{Named, Reading};
use crate::table::{SharedMemtable, View};

/// A search goes through at least 1/8 of the lists of a file, which is enough for 0.95 of the nearest ten of 100,000
/// vectors in clusters (`docs/vector-search.md`), and 1/3 where fewer may be missed. Where the nearest are in more
/// lists, the file says so.
const LISTS_DIVISOR: usize = 8;
const LISTS_DIVISOR_FOR_RECALL: usize = 3;
/// It looks at no fewer of them.
const LISTS_MIN: usize = 16;
/// The lists have this many times the rows that are asked for.
const LISTED_OF_ROW: u64 = 16;
/// Candidates for each row that is asked for, and beside these; the next round takes more.
const CANDIDATES_OF_ROW: usize = 4;
const CANDIDATES_MORE: usize = 64;
const ROUND_FACTOR: usize = 4;
/// The candidates of a further round cost at most 1/4 of what reading all rows costs.
const SCAN_DIVISOR: u64 = 4;

/// What may hold rows.
struct Sources {
    memtables: Vec<SharedMemtable>,
    /// Those without a file, and those with one.
    unfiled: Vec<View>,
    filed: Vec<Filed>,
    /// What the candidates of them may take at a time, in bytes.
    bytes_max: usize,
}

impl Sources {
    /// About how many rows a scan goes over.
    fn rows(&self) -> u64 {
        let in_memory = self.memtables.iter().map(|memtable| memtable.borrow().row_count());
        let files = self.filed.iter().map(|filed| filed.rows);
        let others = self.unfiled.iter().map(|view| view.sstable.statistics().rows);
        in_memory.chain(files).chain(others).fold(0, u64::saturating_add)
    }
}

/// A view with a file of vectors.
struct Filed {
    view: View,
    file: Rc<IndexFile>,
    /// What the view has of the sstable is between these places, but for what shares a block with it.
    places: (Place, Place),
    /// The view has not all of the sstable: other shards have places of the file, too.
    is_part: bool,
    /// About how many rows the view has.
    rows: u64,
}

impl Filed {
    fn has(&self, place: Place) -> bool {
        self.places.0 <= place && place <= self.places.1
    }
}

/// Where a candidate is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    /// In the file of this number.
    Place(usize, Place),
    Row(Rc<Named>),
}

#[derive(Clone, Debug)]
struct Candidate {
    nearness: f32,
    at: At,
}

impl Ord for Candidate {
    /// The farthest is the largest.
    fn cmp(&self, other: &Candidate) -> std::cmp::Ordering {
        other.nearness.total_cmp(&self.nearness).then_with(|| self.at.cmp(&other.at))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

/// The nearest candidates of those that were offered.
struct Kept {
    heap: BinaryHeap<Candidate>,
    most: usize,
    bytes_max: usize,
    bytes: usize,
    /// How near the nearest is that was left out.
    left_out: Option<f32>,
    /// Lists were left out.
    has_more_lists: bool,
}

impl Kept {
    fn new(most: usize, bytes_max: usize) -> Kept {
        let (heap, left_out) = Default::default();
        Kept { heap, most, bytes_max, bytes: 0, left_out, has_more_lists: false }
    }

    /// Whether one as near as this would be taken.
    fn would_take(&self, nearness: f32) -> bool {
        let is_full = self.heap.len() >= self.most || self.bytes >= self.bytes_max;
        let last = self.heap.peek().filter(|_| is_full).map(|last| last.nearness);
        last.is_none_or(|last| nearness.total_cmp(&last).is_gt())
    }

    /// Whether one as near as this is taken; that one was not, is noted.
    fn takes(&mut self, nearness: f32) -> bool {
        let is_taken = self.would_take(nearness);
        if !is_taken {
            self.leave(nearness);
        }
        is_taken
    }

    /// Takes what others have kept, as far as it is near enough.
    fn put_all(&mut self, others: &Kept) {
        for Candidate { nearness, at } in &others.heap {
            if self.takes(*nearness) {
                self.put(*nearness, at.clone());
            }
        }
        if let Some(nearness) = others.left_out {
            self.leave(nearness);
        }
    }

    fn leave(&mut self, nearness: f32) {
        let nearest = self.left_out.map_or(nearness, |other| other.max(nearness));
        self.left_out = Some(nearest);
    }

    fn put(&mut self, nearness: f32, at: At) {
        self.bytes += bytes_of(&at);
        self.heap.push(Candidate { nearness, at });
        while self.heap.len() > self.most || (self.bytes > self.bytes_max && self.heap.len() > 1) {
            let last = self.heap.pop().expect("there are several");
            self.bytes -= bytes_of(&last.at);
            self.leave(last.nearness);
        }
    }
}

/// What a candidate takes.
fn bytes_of(at: &At) -> usize {
    let of_key = match at {
        At::Place(..) => 0,
        At::Row(named) => {
            let clustering = named.clustering.as_ref().map_or(0, Vec::len);
            size_of::<Named>() + named.key.len() + clustering
        }
    };
    size_of::<Candidate>() + of_key
}

/// What was read already, by a hash of 128 bits.
type Seen = BTreeSet<u128>;

fn hash_of(named: &Named) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&(named.key.len() as u64).to_le_bytes());
    hash.update(&named.key);
    hash.update(named.clustering.as_deref().unwrap_or_default());
    hash.digest128()
}

/// Why the files do not serve.
enum Lost {
    /// A file cannot be read: it is not used any more.
    File(usize, Error),
    /// A file says what cannot be, whatever its checksums say: it is made anew.
    Wrong(usize, Error),
    Read(Error),
}

impl From<Error> for Lost {
    fn from(error: Error) -> Lost {
        Lost::Read(error)
    }
}

impl Read<'_> {
    /// The range of tokens in which files of vectors serve, if they do: where nothing but nearness is asked for.
    fn range_of_vectors(&self, nearest: &Nearest) -> Option<(TokenRange, ColumnId)> {
        let command = self.command;
        let Partitions::Range(range) = command.partitions else { return None };
        let FilterTarget::Value(column) = nearest.target else { return None };
        let is_all = command.filters.is_empty()
            && command.resume.is_none()
            && command.slices == [Slice::all()];
        let serves = is_all
            && self.overlays.is_empty()
            && self.lookup_policy != LookupPolicy::Never
            && self.definition.file_indexes().any(|index| index.id == nearest.index);
        // Of a file only a part of which is asked for, too many candidates are elsewhere.
        let is_inside = |view: &View| {
            view.overlap(&range).is_none_or(|part| Some(part) == view.overlap(&TokenRange::ALL))
        };
        let views = self.table.views();
        let has_file = |view: &View| view.sstable.index(nearest.index).is_some();
        (serves && views.iter().all(is_inside) && views.iter().any(has_file))
            .then_some((range, column))
    }

    /// Offers the nearest rows by files of vectors to the sink; false if all rows have to be read, by a new sink.
    pub(super) async fn nearest_by_files(
        &self,
        (nearest, bytes_max): (&Nearest, usize),
        page: &mut Page<'_, NearestRows<'_>>,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        let Some((range, column)) = self.range_of_vectors(nearest) else { return Ok(false) };
        let Some(index) = self.definition.index_by_id(nearest.index) else { return Ok(false) };
        if self.wait_policy == WaitPolicy::None {
            return Err(Error::WouldBlock);
        }
        let sources = self.sources(nearest.index, &range, bytes_max).await?;
        page.begin_candidates();
        match self.rounds((nearest, index), (range, column), &sources, page, scratch).await {
            Ok(is_done) => Ok(is_done),
            Err(Lost::Read(error)) => Err(error),
            Err(Lost::File(at, error)) => {
                sources.filed[at].view.sstable.lose_index(nearest.index, &error);
                Ok(false)
            }
            Err(Lost::Wrong(at, error)) => {
                sources.filed[at].view.sstable.distrust_index(nearest.index, &error);
                Ok(false)
            }
        }
    }

    async fn sources(
        &self,
        index: IndexId,
        range: &TokenRange,
        bytes_max: usize,
    ) -> Result<Sources> {
        let memtables = self.table.layers().iter().map(|layer| layer.memtable.clone()).collect();
        let mut sources = Sources { memtables, unfiled: Vec::new(), filed: Vec::new(), bytes_max };
        for view in self.table.views().iter() {
            let Some(file) = view.sstable.index(index) else {
                sources.unfiled.push(view.clone());
                continue;
            };
            let like = view.sstable.statistics();
            let Some(part) = view.overlap(range) else { continue };
            let reading = self.reading(Reading::Point);
            let mut from = view.sstable.place_of((part.first, &[]), &[], reading).await?;
            from.block += u32::from(planted(Bug::SearchBeginsLate));
            let places = (from, view.sstable.place_behind(part.last));
            let (is_part, rows) = (part != like.tokens, share(view, like.rows));
            sources.filed.push(Filed { view: view.clone(), file, places, is_part, rows });
        }
        Ok(sources)
    }

    /// Takes candidates, more in each round, until no nearer row can be left out; false if all rows are to be read.
    async fn rounds(
        &self,
        (nearest, index): (&Nearest, &Index),
        of: (TokenRange, ColumnId),
        sources: &Sources,
        page: &mut Page<'_, NearestRows<'_>>,
        scratch: &mut Scratch,
    ) -> std::result::Result<bool, Lost> {
        let rounds = rounds_of(nearest.rows, sources.rows());
        let mut lists = Lists::new(nearest.similarity, &nearest.vector);
        // The candidates of a round are beside these.
        let bytes_max = sources.bytes_max / 2;
        let most = rounds.iter().copied().max().unwrap_or_default();
        let mut unfiled = Kept::new(most, bytes_max);
        self.gather_unfiled(of, sources, (&mut lists, &mut unfiled), page).await?;
        let mut wants_all_lists = false;
        let mut seen = Seen::new();
        let mut rounds = rounds.into_iter().peekable();
        while let Some(most) = rounds.peek().copied() {
            let mut kept = Kept::new(most, bytes_max);
            kept.put_all(&unfiled);
            for (at, filed) in sources.filed.iter().enumerate() {
                let wanted = |lists, reach| match wants_all_lists {
                    true => lists,
                    false => lists_wanted(index, nearest.rows, (lists, filed.rows.max(1)), reach),
                };
                self.gather_file((at, filed), wanted, (&mut lists, &mut kept), page).await?;
            }
            let (left_out, has_more_lists) = (kept.left_out, kept.has_more_lists);
            self.read_candidates(of.0, sources, (kept, &mut seen), page, scratch).await?;
            if page.is_done() {
                return Ok(true);
            }
            let farthest = page.sink().farthest();
            let is_settled = match (farthest, left_out) {
                (Some(farthest), Some(left_out)) => farthest >= left_out,
                (_, left_out) => left_out.is_none(),
            };
            let is_full = farthest.is_some() || !has_more_lists;
            if (is_settled || planted(Bug::SearchEndsEarly)) && is_full {
                return Ok(true);
            }
            // Where so many candidates are not there any more, what is left is few in each list.
            wants_all_lists = true;
            if !is_settled {
                rounds.next();
            }
        }
        Ok(false)
    }

    /// Offers all rows of what has no file of vectors.
    async fn gather_unfiled(
        &self,
        (range, column): (TokenRange, ColumnId),
        sources: &Sources,
        (lists, kept): (&mut Lists, &mut Kept),
        page: &mut Page<'_, NearestRows<'_>>,
    ) -> Result<()> {
        if planted(Bug::SearchSkipsUnfiled) {
            return Ok(());
        }
        let slices = [Slice::all()];
        let span = |range| Span { scope: Scope::Range(range), slices: &slices, reversed: false };
        for memtable in &sources.memtables {
            let cursor = MemtableCursor::new(memtable.clone(), span(range));
            gather(cursor, column, (lists, kept), page).await?;
        }
        for view in &sources.unfiled {
            let Some(part) = view.overlap(&range) else { continue };
            let cursor = view.sstable.cursor(span(part), self.reading(Reading::Scan));
            gather(cursor, column, (lists, kept), page).await?;
        }
        Ok(())
    }

    /// Offers what the nearest lists of a file have.
    async fn gather_file(
        &self,
        (at, filed): (usize, &Filed),
        wanted: impl Fn(usize, Reach) -> usize,
        (lists, kept): (&mut Lists, &mut Kept),
        page: &mut Page<'_, NearestRows<'_>>,
    ) -> std::result::Result<(), Lost> {
        let file = &filed.file;
        let of_file = |error| Lost::File(at, error);
        let stray =
            || Lost::Wrong(at, Error::corrupt(file.path().as_str(), 0, "no term of a vector"));
        let mut walk = TermWalk::new(file, self.reading(Reading::Point));
        let (mut near, mut reach): (Vec<(f32, u16)>, Reach) = Default::default();
        let [begin, end] = Lists::centroids();
        let mut is_there = walk.seek(&begin).await.map_err(of_file)?;
        while is_there && walk.is_below(&end).map_err(of_file)? {
            let term = walk.term().map_err(of_file)?;
            match lists.measure(term) {
                Some(VectorTerm::Centroid(list, nearness)) => near.push((nearness, list)),
                Some(VectorTerm::Reach(of_file)) => reach = of_file,
                _ => return Err(stray()),
            }
            if near.len() as u64 > VECTOR_LISTS_MAX {
                return Err(stray());
            }
            page.work(term.len());
            page.pause_if_due().await?;
            is_there = walk.next().await.map_err(of_file)?;
        }
        near.sort_by(|(a, list_a), (b, list_b)| b.total_cmp(a).then(list_a.cmp(list_b)));
        let wanted = wanted(near.len(), reach);
        kept.has_more_lists |= near.len() > wanted;
        let near = near.iter().take(wanted).map(|(_, list)| *list);
        for list in near.chain(Lists::OF_ALL) {
            let [begin, end] = Lists::list(list);
            let mut is_there = walk.seek(&begin).await.map_err(of_file)?;
            while is_there && walk.is_below(&end).map_err(of_file)? {
                let term = walk.term().map_err(of_file)?;
                let Some(VectorTerm::Vector(nearness)) = lists.measure(term) else {
                    return Err(stray());
                };
                page.work(term.len());
                page.pause_if_due().await?;
                if !kept.would_take(nearness) && !filed.is_part {
                    kept.leave(nearness);
                } else if kept.left_out.is_none_or(|left_out| nearness > left_out)
                    || kept.would_take(nearness)
                {
                    let mut postings = walk.postings().await.map_err(of_file)?;
                    postings.seek(filed.places.0).map_err(of_file)?;
                    while let Some(place) = postings.next().await.map_err(of_file)? {
                        page.work(0);
                        page.pause_if_due().await?;
                        if place > filed.places.1 {
                            break;
                        }
                        if filed.has(place) && kept.takes(nearness) {
                            kept.put(nearness, At::Place(at, place));
                        }
                    }
                }
                is_there = walk.next().await.map_err(of_file)?;
            }
        }
        Ok(())
    }

    /// Reads the rows of candidates that were not read yet.
    async fn read_candidates(
        &self,
        range: TokenRange,
        sources: &Sources,
        (kept, seen): (Kept, &mut Seen),
        page: &mut Page<'_, NearestRows<'_>>,
        scratch: &mut Scratch,
    ) -> std::result::Result<(), Lost> {
        let mut places: Vec<At> = kept.heap.into_iter().map(|candidate| candidate.at).collect();
        // In the order of storage: a block has several of them.
        places.sort_unstable();
        let mut rows: Vec<Rc<Named>> = Vec::new();
        let mut bytes = 0;
        for at in places {
            let named = match at {
                At::Row(named) => named,
                At::Place(number, place) => {
                    let Filed { view, file, .. } = &sources.filed[number];
                    let named = view.sstable.named(place, self.reading(Reading::Point)).await?;
                    let named = named.filter(|named| named.clustering.is_some());
                    let stray = || Error::corrupt(file.path().as_str(), 0, "no such place");
                    let named = named.ok_or_else(|| Lost::Wrong(number, stray()))?;
                    if !view.entry.tokens.contains(named.token) {
                        continue;
                    }
                    Rc::new(named)
                }
            };
            page.work(named.key.len());
            page.pause_if_due().await?;
            if range.contains(named.token) && seen.insert(hash_of(&named)) {
                bytes += bytes_of(&At::Row(named.clone()));
                rows.push(named);
            }
            if bytes > sources.bytes_max {
                self.read_rows_of(std::mem::take(&mut rows), page, scratch).await?;
                bytes = 0;
            }
        }
        Ok(self.read_rows_of(rows, page, scratch).await?)
    }

    /// Reads these rows, partition by partition.
    async fn read_rows_of(
        &self,
        mut rows: Vec<Rc<Named>>,
        page: &mut Page<'_, NearestRows<'_>>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        rows.sort_unstable();
        for of_partition in rows.chunk_by(|a, b| (a.token, &a.key) == (b.token, &b.key)) {
            page.begin(0);
            for some in of_partition.chunks(LOOKUP_SLICES_AT_ONCE) {
                let (token, key) = (some[0].token, some[0].key.as_slice());
                let clustering = some.iter().filter_map(|named| named.clustering.clone());
                let slices: Vec<Slice> = clustering.map(Slice::row).collect();
                self.partition(token, key, &slices, page, scratch).await?;
                page.pause_if_due().await?;
                if page.is_done() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// How many candidates each round of a search takes, of a table with so many rows: as long as they cost little beside
/// reading all.
fn rounds_of(wanted: usize, rows: u64) -> Vec<usize> {
    let first = wanted * CANDIDATES_OF_ROW + CANDIDATES_MORE;
    let next = |most: &usize| Some(most * ROUND_FACTOR);
    let is_worth = |most: &usize| {
        let is_first = *most == first;
        is_first || (*most as u64).saturating_mul(LOOKUP_WORTH * SCAN_DIVISOR) <= rows
    };
    let rounds = std::iter::successors(Some(first), next).take_while(is_worth);
    rounds.take_while(|most| *most <= NEAREST_CANDIDATES_MAX).collect()
}

/// How many lists of a file with so many rows a search looks at.
fn lists_wanted(
    index: &Index,
    rows: usize,
    (lists, rows_of_file): (usize, u64),
    reach: Reach,
) -> usize {
    let (part, reach) = match index.prefers_recall() {
        true => (LISTS_DIVISOR_FOR_RECALL, reach.all),
        false => (LISTS_DIVISOR, reach.nearly),
    };
    let by_rows = (rows as u64 * LISTED_OF_ROW).saturating_mul(lists as u64) / rows_of_file;
    (lists / part).max(LISTS_MIN).max(by_rows as usize).max(reach.into())
}

/// Offers the rows of a source, as they stand there.
async fn gather(
    mut cursor: impl Cursor,
    column: ColumnId,
    (lists, kept): (&mut Lists, &mut Kept),
    page: &mut Page<'_, NearestRows<'_>>,
) -> Result<()> {
    while cursor.next_partition().await? {
        page.work(cursor.head().key.len());
        let (deletion, mut in_force) = (cursor.head().deletion, Deletion::NONE);
        while cursor.next().await? {
            let dead = match cursor.fragment() {
                Fragment::Change { deletion: after, .. } => {
                    let before = std::mem::replace(&mut in_force, after);
                    page.work_of_change((before, after));
                    let is_new = before != after && !after.is_none();
                    u64::from(is_new && !page.purge.drops(after))
                }
                Fragment::Row { clustering, row } => {
                    page.work(clustering.len() + row.bytes().len());
                    if let Some(nearness) = nearness_of(row, column, lists)
                        && kept.takes(nearness)
                    {
                        let head = cursor.head();
                        let (token, key) = (head.token, head.key.to_vec());
                        let clustering = Some(clustering.to_vec());
                        kept.put(nearness, At::Row(Rc::new(Named { token, key, clustering })));
                    }
                    tombstones(row, deletion, &page.purge)
                }
            };
            page.pass_tombstones(dead)?;
            page.pause_if_due().await?;
        }
        page.pause_if_due().await?;
    }
    Ok(())
}

fn nearness_of(row: RowRef<'_>, column: ColumnId, lists: &mut Lists) -> Option<f32> {
    let cell = row.cells().find(|cell| cell.column == column)?;
    match cell.life {
        Life::Dead { .. } => None,
        _ => lists.nearness(cell.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: rounds went on to 26,624 candidates, whatever it would have cost to read all rows.
    #[test]
    fn further_rounds_cost_little_beside_reading_all() {
        assert_eq!(rounds_of(10, 0), [104]);
        assert_eq!(rounds_of(10, 100_000), [104, 416, 1664]);
        assert_eq!(rounds_of(10, u64::MAX), [104, 416, 1664, 6656, 26_624]);
        assert_eq!(rounds_of(1000, 60_000), [4064]);
    }
}

//! Which lookup is made, if any: what its candidates cost beside what a scan goes over to fill the same page.
//!
//! ```text
//! terms ─► how many candidates (counted in the directories of the index files, in memtables)
//! page  ─► how many of them it takes: as many as rows, if their conditions are all that is asked
//! scan  ─► so many rows until they are found, if they are anywhere
//! ```
//!
//! 1. A candidate counts as [`LOOKUP_WORTH`] rows of a scan, a file that is asked as [`LOOKUP_ROWS_OF_A_FILE`].
//!    Postings of several terms are in no order: each page goes over all of them, which counts, too.
//!    Where no row is a candidate, or fewer than a page takes, a scan goes over all.
//! 2. Of sources that lack the index as many rows are gone through as a scan of them would: how many of these are
//!    candidates is taken from the others. So a lookup is worth less the more of the table is not indexed.
//! 3. Inside of a named partition only the rows of its blocks are scanned. As large a part of the candidates is taken
//!    to be in it as of the rows: where that is wrong, a row costs [`LOOKUP_WORTH`] times as much.
//! 4. Files of one run are cut by tokens, which are hashes, so that one has about as many of some terms for each of its
//!    rows as another: of a run one is counted, the first that is not small, whose blocks the lookup wants first, too.
//!    And a page that takes few of many candidates comes to its end in the first files of each run.
//! 5. Nothing here decides what is found, only how.

use std::rc::Rc;

use model::Token;
use model::read::{Filter, IndexLookup, RowSink, Slice};
use model::schema::IndexId;

use super::candidates::Ahead;
use super::page::Page;
use super::{LookupPolicy, Read};
use crate::error::{Error, Result};
use crate::index::{IndexFile, TermWalk, is_one_term};
use crate::limits::{
    INDEX_BLOCK_BYTES, LOOKUP_PLACES_AT_ONCE, LOOKUP_POSTINGS_OF_A_ROW, LOOKUP_RANGES_COUNTED,
    LOOKUP_REVERSED_ROWS_MAX, LOOKUP_ROWS_AT_ONCE, LOOKUP_ROWS_OF_A_FILE, LOOKUP_WORTH,
};
use crate::sstable::Reading;
use crate::table::{Layer, View};

/// Work that counting in one file is, in bytes: two blocks of terms.
const COUNT_WORK_BYTES: usize = 2 * INDEX_BLOCK_BYTES;

/// About how many candidates a lookup has.
#[derive(Clone, Copy, Debug)]
struct Counted {
    in_memory: u64,
    in_files: u64,
    /// Files that are asked, if all candidates are wanted, and of how many runs they are.
    files: u64,
    runs: u64,
    /// Rows of the sources without the index, which are gone through.
    unindexed: u64,
}

impl Counted {
    /// How many files a page comes to that takes so many of the candidates.
    fn files_for(&self, given: u64, candidates: u64) -> u64 {
        match candidates {
            0 => self.files,
            _ => self.files.min(self.runs.saturating_add(scaled(self.files, given, candidates))),
        }
    }

    /// Those of all sources, which have so many `rows` in all; `None` if too little is indexed to tell.
    fn rows(&self, rows: u64) -> Option<u64> {
        let known = u128::from(self.in_memory.saturating_add(self.in_files));
        let indexed = rows.saturating_sub(self.unindexed);
        match self.unindexed {
            0 => Some(known as u64),
            // That a smaller part has none says little of a larger one, and no lookup saves going over that.
            _ if indexed == 0 || (known == 0 && self.unindexed > indexed) => None,
            _ => u64::try_from((known * u128::from(rows)).div_ceil(indexed.into())).ok(),
        }
    }
}

/// What is asked of a lookup.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// At most this many rows.
    wanted: u64,
    /// Rows of the sources that are asked.
    rows: u64,
    /// Rows that a scan of all that is asked goes over.
    inside: u64,
    /// Rows are wanted in reversed order: with more candidates than are taken at once the partition is read whole.
    reversed: bool,
}

/// What a lookup costs beside a scan, in rows of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    lookup: u128,
    scan: u128,
    ahead: Ahead,
}

/// A lookup that is worth it.
pub(super) struct Worthy<'r> {
    pub(super) lookup: &'r IndexLookup,
    /// What is worth reading ahead for it, if that is known.
    pub(super) ahead: Option<Ahead>,
    /// Of a lookup of one term: at that term, in the files that were counted.
    pub(super) walks: Vec<TermWalk>,
}

impl Asked {
    /// What the candidates of a page cost, and the part of a scan that gives as many; `None` if a lookup is out of
    /// question.
    fn cost(&self, lookup: &IndexLookup, counted: &Counted) -> Option<Cost> {
        let (rows, inside) = (u128::from(self.rows.max(1)), u128::from(self.inside));
        let share = |count: u64| (u128::from(count) * inside).div_ceil(rows) as u64;
        let candidates = share(counted.rows(self.rows)?);
        if self.reversed && candidates > LOOKUP_REVERSED_ROWS_MAX as u64 {
            return None;
        }
        let given = self.wanted.min(candidates);
        let part = |rows: u128| match candidates {
            0 => rows,
            _ => u128::from(given) * rows / u128::from(candidates),
        };
        let (scan, unindexed) = (part(inside), part(share(counted.unindexed).into()));
        let files = counted.files_for(given, candidates);
        let in_files = scaled(counted.in_files, files, counted.files);
        let postings =
            |count: u64, all: u64, at_once: usize| match lookup.terms.iter().all(is_one_term) {
                true => passed(share(all), at_once, lookup.terms.len(), given),
                false => passed(count, at_once, usize::MAX, given),
            };
        let postings = postings(counted.in_memory, counted.in_memory, LOOKUP_ROWS_AT_ONCE)
            + postings(in_files, counted.in_files, LOOKUP_PLACES_AT_ONCE);
        let read = u128::from(given) * u128::from(LOOKUP_WORTH);
        // Of candidates that are wanted from the last on, all are named before the first of them is read.
        let named = if self.reversed { u128::from(candidates) } else { 0 };
        // Each range of terms is sought in each file, once for each time that candidates are taken in hand.
        let seeks = u128::from(files) * lookup.terms.len().max(1) as u128;
        let lookup = read + named + seeks * LOOKUP_ROWS_OF_A_FILE + unindexed;
        let lookup = lookup + postings / LOOKUP_POSTINGS_OF_A_ROW;
        Some(Cost { lookup, scan, ahead: Ahead { wanted: self.wanted, candidates } })
    }
}

/// How many of `count` postings are gone through until `given` of them are found, if so many are kept at a time. Those
/// of one term are in order; of several, each pass goes over all.
fn passed(count: u64, at_once: usize, terms: usize, given: u64) -> u128 {
    let at_once = at_once as u64;
    let of_pass = count.min(at_once.saturating_mul(terms as u64));
    let passes = given.min(count).div_ceil(at_once);
    u128::from(of_pass) * u128::from(passes)
}

/// What all ranges of a lookup have, of which the first were counted.
fn of_all(count: u64, ranges: usize) -> u64 {
    let counted = ranges.clamp(1, LOOKUP_RANGES_COUNTED) as u64;
    count.saturating_mul(ranges as u64) / counted
}

/// What `part` has, if `all` have so many.
fn scaled(count: u64, part: u64, all: u64) -> u64 {
    let of_part = u128::from(count) * u128::from(part) / u128::from(all.max(1));
    u64::try_from(of_part).unwrap_or(u64::MAX)
}

/// The sum of what files say, which may be anything.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Which file of a run, of which each has so many rows, is counted: the first with half of what they have on average.
fn sample_of(rows: &[u64]) -> usize {
    let half = sum(rows.iter().copied()) / rows.len().max(1) as u64 / 2;
    rows.iter().position(|rows| *rows >= half).unwrap_or(0)
}

impl<'r> Read<'r> {
    /// The lookup to make of a range, if one is worth it: the one that costs least.
    pub(super) async fn worthy_lookup<S: RowSink + ?Sized>(
        &self,
        page: &mut Page<'_, S>,
    ) -> Result<Option<Worthy<'r>>> {
        if self.usable_lookups().next().is_none() {
            return Ok(None);
        }
        let rows = self.rows(|_| true);
        self.best_lookup((rows, rows), |_| true, page).await
    }

    /// The lookup to make inside of a named partition, if one is worth it: the partition is wide then.
    pub(super) async fn worthy_lookup_inside<S: RowSink + ?Sized>(
        &self,
        (token, key): (Token, &[u8]),
        page: &mut Page<'_, S>,
    ) -> Result<Option<Worthy<'r>>> {
        // Before blocks of the partition are counted, for which a file may be read.
        if self.usable_lookups().next().is_none() {
            return Ok(None);
        }
        let inside = self.rows_of_blocks(token, key).await?;
        if inside == 0 && self.lookup_policy == LookupPolicy::WhereWorth {
            return Ok(None);
        }
        let is_asked = |view: &View| view.may_contain(token);
        self.best_lookup((inside, self.rows(is_asked)), is_asked, page).await
    }

    /// The lookups of which a source has the index.
    pub(super) fn usable_lookups(&self) -> impl Iterator<Item = &'r IndexLookup> {
        let lookups = match self.lookup_policy {
            LookupPolicy::Never => &[][..],
            _ => self.command.lookups.as_slice(),
        };
        lookups.iter().filter(|lookup| self.has_some(lookup.index))
    }

    /// The best lookup, if it is worth it where a scan goes over `inside` of the `rows` of the sources that are asked.
    async fn best_lookup<S: RowSink + ?Sized>(
        &self,
        (inside, rows): (u64, u64),
        is_asked: impl Fn(&View) -> bool,
        page: &mut Page<'_, S>,
    ) -> Result<Option<Worthy<'r>>> {
        let is_always = self.lookup_policy != LookupPolicy::WhereWorth;
        let mut best: Option<(u128, Worthy<'r>)> = None;
        for lookup in self.usable_lookups() {
            let counted = self.count(lookup, &is_asked, page).await?;
            let Some((counted, walks)) = counted else { continue };
            let (wanted, reversed) = (self.wanted(lookup), self.command.reversed);
            let cost = Asked { wanted, rows, inside, reversed }.cost(lookup, &counted);
            let (cost, ahead) = match cost.filter(|cost| is_always || cost.lookup <= cost.scan) {
                Some(cost) => (cost.lookup, Some(cost.ahead)),
                None if is_always => (u128::MAX, None),
                None => continue,
            };
            if best.as_ref().is_none_or(|(other, _)| cost < *other) {
                best = Some((cost, Worthy { lookup, ahead, walks }));
            }
        }
        Ok(best.map(|(_, worthy)| worthy))
    }

    /// How many candidates a page takes, as far as that is known: all, if there are other conditions.
    pub(super) fn wanted(&self, lookup: &IndexLookup) -> u64 {
        let command = self.command;
        let column = self.definition.index_by_id(lookup.index).map(|index| index.column);
        let is_other = |filter: &Filter| filter.column(self.definition).map(|c| c.id) != column;
        match command.slices != [Slice::all()] || command.filters.iter().any(is_other) {
            true => u64::MAX,
            false => command.limits.rows.min(command.limits.page_rows),
        }
    }

    /// About how many rows are candidates, and the walks of [`Worthy`]; `None` if an index file fails.
    async fn count<S: RowSink + ?Sized>(
        &self,
        lookup: &IndexLookup,
        is_asked: &impl Fn(&View) -> bool,
        page: &mut Page<'_, S>,
    ) -> Result<Option<(Counted, Vec<TermWalk>)>> {
        let (in_memory, mut walks) = (self.count_in_memory(lookup), Vec::new());
        let mut counted = Counted { in_memory, in_files: 0, files: 0, runs: 0, unindexed: 0 };
        counted.unindexed = self.rows_unindexed(lookup.index, is_asked);
        let mut files = self.indexed(lookup.index);
        files.retain(|(view, _)| is_asked(view));
        files.sort_by_key(|(view, _)| (view.entry.run, view.entry.tokens.first));
        for run in files.chunk_by(|(view, _), (next, _)| view.entry.run == next.entry.run) {
            let rows: Vec<u64> =
                run.iter().map(|(view, _)| view.sstable.statistics().rows).collect();
            let at = sample_of(&rows);
            let (view, file) = &run[at];
            let counted_file = self.count_in_file(lookup, (view, file), page).await?;
            let Some((in_file, walk)) = counted_file else { return Ok(None) };
            if matches!(lookup.terms.as_slice(), [range] if is_one_term(range)) {
                walks.push(walk);
            }
            let in_run = scaled(in_file, sum(rows.iter().copied()), rows[at]);
            counted.in_files = counted.in_files.saturating_add(in_run);
            (counted.runs, counted.files) = (counted.runs + 1, counted.files + run.len() as u64);
        }
        Ok(Some((counted, walks)))
    }

    /// About how many places of a file are candidates, and where the walk is then; `None` if the index file fails.
    async fn count_in_file<S: RowSink + ?Sized>(
        &self,
        lookup: &IndexLookup,
        (view, file): (&View, &Rc<IndexFile>),
        page: &mut Page<'_, S>,
    ) -> Result<Option<(u64, TermWalk)>> {
        let mut walk = TermWalk::new(file, self.reading(Reading::Point));
        let mut in_file: u64 = 0;
        for range in lookup.terms.iter().take(LOOKUP_RANGES_COUNTED) {
            match walk.count(range).await {
                Ok(more) => in_file = in_file.saturating_add(more),
                Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                Err(error) => {
                    view.sstable.lose_index(lookup.index, &error);
                    return Ok(None);
                }
            }
            page.work(COUNT_WORK_BYTES);
            page.pause_if_due().await?;
        }
        Ok(Some((of_all(in_file, lookup.terms.len()), walk)))
    }

    fn count_in_memory(&self, lookup: &IndexLookup) -> u64 {
        let layers = self.table.layers();
        let of_layer =
            |layer: &Layer| layer.memtable.borrow().count_terms(lookup.index, &lookup.terms);
        sum(layers.iter().map(of_layer))
    }

    /// The rows of the sources that lack an index.
    fn rows_unindexed(&self, index: IndexId, is_asked: &impl Fn(&View) -> bool) -> u64 {
        let layers = self.table.layers();
        let rows = layers.iter().map(|layer| {
            let memtable = layer.memtable.borrow();
            if memtable.is_indexed(index) { 0 } else { memtable.row_count() }
        });
        let in_memory = sum(rows);
        let views = self.table.views();
        let lacks = |view: &&View| view.sstable.index(index).is_none() && is_asked(view);
        let rows = views.iter().filter(lacks).map(|view| view.sstable.statistics().rows);
        in_memory.saturating_add(sum(rows))
    }

    /// The rows of the table in memory and in these files, as they count them.
    fn rows(&self, is_asked: impl Fn(&View) -> bool) -> u64 {
        let layers = self.table.layers();
        let in_memory = sum(layers.iter().map(|layer| layer.memtable.borrow().row_count()));
        let of_file = |view: &View| view.sstable.statistics().rows;
        let views = self.table.views();
        in_memory.saturating_add(sum(views.iter().filter(|view| is_asked(view)).map(of_file)))
    }

    /// About how many rows are in the blocks of the slices of a partition, where it has several blocks in a file.
    async fn rows_of_blocks(&self, token: Token, key: &[u8]) -> Result<u64> {
        let (views, reading) = (self.table.views(), self.reading(Reading::Point));
        let mut rows: u64 = 0;
        for view in views.iter().filter(|view| view.may_contain(token)) {
            let (of, slices) = ((token, key), &self.command.slices);
            rows = rows.saturating_add(view.sstable.rows_of_blocks(of, slices, reading).await?);
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: a small part with an index and without a candidate stood for all of the table, and the lookup was made.
    #[test]
    fn that_a_small_part_has_no_candidate_says_nothing_of_the_rest() {
        let rows = |in_files, unindexed| {
            let counted = Counted { in_memory: 0, in_files, files: 1, runs: 1, unindexed };
            counted.rows(1000)
        };
        assert_eq!(rows(0, 900), None);
        assert_eq!((rows(0, 0), rows(0, 100)), (Some(0), Some(0)));
        assert_eq!((rows(10, 900), rows(90, 100)), (Some(100), Some(100)));
    }

    /// Before: all files of all runs counted, though ten of many candidates are in the first of each run.
    #[test]
    fn few_of_many_candidates_are_in_few_files() {
        let lookup = IndexLookup { index: IndexId(0), terms: vec![Slice::row(vec![7])] };
        let counted = Counted { in_memory: 0, in_files: 2000, files: 30, runs: 4, unindexed: 0 };
        let cost = |wanted| {
            let asked = Asked { wanted, rows: 5_000_000, inside: 5_000_000, reversed: false };
            asked.cost(&lookup, &counted).expect("it is possible").lookup
        };
        let of_files = |files: u128| files * LOOKUP_ROWS_OF_A_FILE;
        let postings = |files: u128| 2000 * files / 30 / LOOKUP_POSTINGS_OF_A_ROW;
        assert_eq!(cost(10), of_files(4) + 10 * u128::from(LOOKUP_WORTH) + postings(4));
        assert_eq!(cost(2000), of_files(30) + 2000 * u128::from(LOOKUP_WORTH) + postings(30));
    }

    #[test]
    fn a_run_is_taken_to_be_like_its_file_that_was_counted() {
        assert_eq!(sample_of(&[10, 1000, 3000]), 1, "the first is too small to tell");
        assert_eq!(sample_of(&[1000, 10]), 0);
        assert_eq!(scaled(10, 4010, 1000), 40);
        assert_eq!(scaled(7, 1000, 1000), 7, "all was counted");
        assert_eq!(scaled(7, 0, 0), 0);
        // Before: the sum of what two files said ended the process.
        assert_eq!(sample_of(&[u64::MAX, u64::MAX]), 0);
    }
}

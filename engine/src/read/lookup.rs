//! Rows by an index: candidates instead of a scan, each read as any row is and judged by the whole filter.
//!
//! ```text
//! lookups ─► the one with the fewest candidates, if that is worth it ─► candidates (`candidates.rs`)
//!        ─► partition by partition: slices of single rows ─► the ordinary read ─► page
//! ```
//!
//! 1. It gives what a scan gives, in the same order: token, key, clustering in the direction of the command.
//! 2. A lookup is made only where each source of the table has the index; else the range is scanned.
//! 3. When an index file fails on the way, the rest is scanned, from where the lookup has come.
//! 4. Of a partition that is read in descending order, or is a candidate as a whole, all candidates are taken at once
//!    or all of it is read.
//! 5. It is worth it where the candidates of a page cost less than what a scan goes over to fill the page.

use std::rc::Rc;

use model::read::{Filter, IndexLookup, Resume, RowSink, Slice};
use model::schema::{ColumnKind, IndexId};
use model::{Token, TokenRange};

use super::candidates::Candidates;
use super::page::Page;
use super::{Read, Scratch};
use crate::error::{Error, Result};
use crate::index::{IndexFile, TermWalk};
use crate::limits::{
    INDEX_BLOCK_BYTES, LOOKUP_PLACES_AT_ONCE, LOOKUP_POSTINGS_OF_A_ROW, LOOKUP_ROWS_AT_ONCE,
    LOOKUP_SLICES_AT_ONCE, LOOKUP_WORTH,
};
use crate::planted::{Bug, planted};
use crate::sstable::{Named, Reading};
use crate::table::{Layer, View};

/// Work that counting in one file is, in bytes: two blocks of terms.
const COUNT_WORK_BYTES: usize = 2 * INDEX_BLOCK_BYTES;

/// When a lookup is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupPolicy {
    /// Where it seems cheaper than a scan.
    WhereWorth,
    /// Wherever there is an index: a test has little data.
    Always,
    /// The same, and a source keeps so many candidates at a time: a lookup of few takes several passes.
    InPasses(usize),
    /// Never: everything is scanned.
    Never,
}

/// About how many candidates a lookup has.
#[derive(Clone, Copy, Debug)]
struct Counted {
    in_memory: u64,
    in_files: u64,
}

impl Counted {
    fn rows(&self) -> u64 {
        self.in_memory.saturating_add(self.in_files)
    }

    /// Whether a page of so many of the candidates costs less than the part of a scan that gives as many; the table
    /// has so many rows.
    fn is_worth(&self, lookup: &IndexLookup, wanted: u64, rows: u64) -> bool {
        let given = wanted.min(self.rows());
        let scanned = u128::from(given) * u128::from(rows) / u128::from(self.rows().max(1));
        let postings = passed(self.in_memory, LOOKUP_ROWS_AT_ONCE, lookup, given)
            + passed(self.in_files, LOOKUP_PLACES_AT_ONCE, lookup, given);
        let cost =
            u128::from(given) * u128::from(LOOKUP_WORTH) + postings / LOOKUP_POSTINGS_OF_A_ROW;
        cost <= scanned
    }
}

/// How many of `count` postings are gone through until `given` of them are found, if so many are kept at a time. Those
/// of one term are in order; of several, each pass goes over all.
fn passed(count: u64, at_once: usize, lookup: &IndexLookup, given: u64) -> u128 {
    let at_once = at_once as u64;
    let is_one = |slice: &Slice| slice.end.split_last() == Some((&0, slice.start.as_slice()));
    let of_pass = match lookup.terms.iter().all(is_one) {
        true => count.min(at_once.saturating_mul(lookup.terms.len() as u64)),
        false => count,
    };
    let passes = given.min(count).div_ceil(at_once);
    u128::from(of_pass) * u128::from(passes)
}

impl<'r> Read<'r> {
    /// The lookup to make of a range, if one is worth it: the one with the fewest candidates.
    pub(super) async fn worthy_lookup<S: RowSink, P: AsyncFn()>(
        &self,
        page: &mut Page<'_, S, P>,
    ) -> Result<Option<&'r IndexLookup>> {
        let command = self.command;
        if command.lookups.is_empty() || self.lookup_policy == LookupPolicy::Never {
            return Ok(None);
        }
        let mut best: Option<(Counted, &'r IndexLookup)> = None;
        for lookup in &command.lookups {
            if !self.has_everywhere(lookup.index) {
                continue;
            }
            let Some(counted) = self.count(lookup, page).await? else { continue };
            if best.as_ref().is_none_or(|(other, _)| counted.rows() < other.rows()) {
                best = Some((counted, lookup));
            }
        }
        let is_always = self.lookup_policy != LookupPolicy::WhereWorth;
        let is_worth = |counted: &Counted, lookup: &IndexLookup| {
            is_always || counted.is_worth(lookup, self.wanted(lookup), self.rows())
        };
        let best = best.filter(|(counted, lookup)| is_worth(counted, lookup));
        Ok(best.map(|(_, lookup)| lookup))
    }

    /// How many candidates a page takes, as far as that is known: all, if there are other conditions.
    fn wanted(&self, lookup: &IndexLookup) -> u64 {
        let command = self.command;
        let column = self.definition.index_by_id(lookup.index).map(|index| index.column);
        let is_other = |filter: &Filter| filter.column(self.definition).map(|c| c.id) != column;
        match command.slices != [Slice::all()] || command.filters.iter().any(is_other) {
            true => u64::MAX,
            false => command.limits.rows.min(command.limits.page_rows),
        }
    }

    /// Whether each source of the table has an index.
    fn has_everywhere(&self, index: IndexId) -> bool {
        let Some(index) = self.definition.index_by_id(index) else { return false };
        let memory = self.table.layers();
        memory.iter().all(|layer| layer.memtable.borrow().is_indexed(index.id))
            && (planted(Bug::LookupSkipsUnindexed)
                || self.table.views().iter().all(|view| view.sstable.index(index.id).is_some()))
    }

    /// About how many rows are candidates; `None` if an index file fails.
    async fn count<S: RowSink, P: AsyncFn()>(
        &self,
        lookup: &IndexLookup,
        page: &mut Page<'_, S, P>,
    ) -> Result<Option<Counted>> {
        let in_memory = self.count_in_memory(lookup);
        let mut in_files: u64 = 0;
        for (view, file) in self.indexed(lookup.index) {
            let mut walk = TermWalk::new(&file, self.reading(Reading::Point));
            match walk.count(&lookup.terms).await {
                Ok(more) => in_files = in_files.saturating_add(more),
                Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                Err(error) => {
                    view.sstable.lose_index(lookup.index, &error);
                    return Ok(None);
                }
            }
            page.work(COUNT_WORK_BYTES);
            page.pause_if_due().await?;
        }
        Ok(Some(Counted { in_memory, in_files }))
    }

    fn count_in_memory(&self, lookup: &IndexLookup) -> u64 {
        let layers = self.table.layers();
        let of_layer =
            |layer: &Layer| layer.memtable.borrow().count_terms(lookup.index, &lookup.terms);
        layers.iter().map(of_layer).sum()
    }

    /// The rows of the table, as its sources count them.
    fn rows(&self) -> u64 {
        let layers = self.table.layers();
        let in_memory: u64 = layers.iter().map(|layer| layer.memtable.borrow().row_count()).sum();
        let of_file = |view: &View| view.sstable.statistics().rows;
        in_memory + self.table.views().iter().map(of_file).sum::<u64>()
    }

    /// The views with the files of an index.
    fn indexed(&self, index: IndexId) -> Vec<(View, Rc<IndexFile>)> {
        let views = self.table.views();
        let file = |view: &View| Some((view.clone(), view.sstable.index(index)?));
        views.iter().filter_map(file).collect()
    }

    /// Gives the rows of a range by a lookup.
    pub(super) async fn range_by_index<S: RowSink, P: AsyncFn()>(
        &self,
        lookup: &IndexLookup,
        range: TokenRange,
        page: &mut Page<'_, S, P>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let resume = self.command.resume.as_ref();
        if resume.is_some_and(|resume| !range.contains(resume.token)) {
            return Err(Error::invalid("a page of another query"));
        }
        let first = match resume {
            None => Named { token: range.first, key: Vec::new(), clustering: None },
            Some(resume) => {
                Named { token: resume.token, key: resume.key.clone(), clustering: None }
            }
        };
        // A source may have lost or gained its index since it was asked, while others were counted.
        if !self.has_everywhere(lookup.index) {
            return self.range_from(range, resume, page, scratch).await;
        }
        let memtables: Vec<_> =
            self.table.layers().iter().map(|layer| layer.memtable.clone()).collect();
        page.is_of_candidates = true;
        let views = self.indexed(lookup.index).into_iter();
        let views = views.filter(|(view, _)| view.overlap(&range).is_some());
        let span = (self.first_wanted(lookup, first), range.last);
        let reading = self.reading(Reading::Point);
        let at_once = match self.lookup_policy {
            LookupPolicy::InPasses(count) => (count, count),
            _ => (LOOKUP_ROWS_AT_ONCE, LOOKUP_PLACES_AT_ONCE),
        };
        let how = (reading, at_once);
        let mut candidates = Candidates::new(lookup, memtables.into_iter(), views, span, how);
        let mut last = resume.cloned();
        while let Some(first) = candidates.next(page).await? {
            self.candidates_of_partition(&first, &mut candidates, &mut last, page, scratch).await?;
            if candidates.is_lost() || page.is_done() {
                break;
            }
            page.pause_if_due().await?;
        }
        match candidates.is_lost() && !page.is_done() {
            true => self.range_from(range, last.as_ref(), page, scratch).await,
            false => Ok(()),
        }
    }

    /// Where candidates of the partition that a page ended in are wanted from.
    fn first_wanted(&self, lookup: &IndexLookup, first: Named) -> Named {
        let resume = self.command.resume.as_ref();
        let last = resume.and_then(|resume| resume.clustering.as_ref());
        match last.filter(|_| !self.command.reversed) {
            Some(last) if self.leads_to_rows(lookup) => {
                Named { clustering: Some(last.clone()), ..first }
            }
            _ => first,
        }
    }

    /// Whether a lookup leads to rows, not to partitions.
    fn leads_to_rows(&self, lookup: &IndexLookup) -> bool {
        let index = self.definition.index_by_id(lookup.index);
        let kind = index.map(|index| index.column(self.definition).kind);
        matches!(kind, Some(ColumnKind::Clustering | ColumnKind::Regular))
    }

    /// Gives the rows of one partition, of which `first` is the first candidate.
    async fn candidates_of_partition<S: RowSink, P: AsyncFn()>(
        &self,
        first: &Named,
        candidates: &mut Candidates<'_>,
        last: &mut Option<Resume>,
        page: &mut Page<'_, S, P>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (token, key) = (first.token, first.key.as_slice());
        let resume = self.command.resume.as_ref();
        let resume = resume.filter(|resume| resume.token == token && resume.key == key);
        let slices = match resume {
            None => Some(self.command.slices.clone()),
            Some(resume) => self.slices_after(resume),
        };
        let behind = behind_partition(token, key);
        let Some(slices) = slices else {
            candidates.seek(&behind);
            return Ok(());
        };
        page.begin(resume.map_or(0, |resume| resume.rows_of_partition));
        let mut first = Some(first.clone());
        while let Some(candidate) = first {
            let batch = candidates.batch(&candidate, LOOKUP_SLICES_AT_ONCE, page).await?;
            if batch.is_whole || (self.command.reversed && batch.has_more) {
                self.partition(token, key, &slices, page, scratch).await?;
                break;
            }
            let is_wanted = |row: &Vec<u8>| slices.iter().any(|slice| slice.contains(row));
            let rows = batch.rows.iter().filter(|row| is_wanted(row));
            let rows: Vec<Slice> = rows.map(|row| Slice::row(row.clone())).collect();
            if !rows.is_empty() {
                self.partition(token, key, &rows, page, scratch).await?;
            }
            let rows_of_partition = page.rows_of_partition();
            *last = Some(Resume {
                token,
                key: key.to_vec(),
                clustering: batch.rows.last().cloned(),
                partition_done: false,
                rows_of_partition,
            });
            let is_enough = page.is_done() || page.has_enough_of_partition();
            if candidates.is_lost() && !is_enough {
                return Ok(());
            }
            if is_enough || !batch.has_more {
                break;
            }
            page.pause_if_due().await?;
            let next = candidates.next(page).await?;
            first = next.filter(|next| next.token == token && next.key == key);
            if candidates.is_lost() {
                return Ok(());
            }
        }
        candidates.seek(&behind);
        *last = Some(done(token, key));
        Ok(())
    }
}

/// The first place behind a partition.
fn behind_partition(token: Token, key: &[u8]) -> Named {
    let mut key = key.to_vec();
    key.push(0);
    Named { token, key, clustering: None }
}

/// A partition of which nothing more is wanted.
fn done(token: Token, key: &[u8]) -> Resume {
    let (key, clustering) = (key.to_vec(), None);
    Resume { token, key, clustering, partition_done: true, rows_of_partition: 0 }
}

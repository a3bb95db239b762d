//! Rows by an index: candidates instead of a scan, each read as any row is and judged by the whole filter.
//!
//! ```text
//! lookups ─► the one with the fewest candidates, if that is worth it (`lookup_cost.rs`) ─► candidates
//!        (`candidates.rs`) ─► partition by partition: slices of single rows ─► the ordinary read ─► page
//! ```
//!
//! 1. It gives what a scan gives, in the same order: token, key, clustering in the direction of the command.
//! 2. A source that lacks the index is gone through for candidates, from where the page begins and no further than it
//!    needs: one file that cannot be indexed, or is not yet, costs no more than its own rows.
//! 3. When an index file fails on the way, the rest is scanned, from where the lookup has come.
//! 4. Of a partition that is read in descending order all candidates are taken in hand and read from the last on; of
//!    one that has too many of them, or is a candidate as a whole, all is read.
//! 5. A partition that is named and wide is a range of one.

use std::borrow::Cow;
use std::rc::Rc;

use model::read::{IndexLookup, Resume, RowSink, Slice};
use model::schema::{ColumnKind, Index, IndexId};
use model::{Token, TokenRange};

use super::candidates::{AtOnce, Candidates, Unindexed};
use super::lookup_cost::Worthy;
use super::page::Page;
use super::row::RowWanted;
use super::{Read, Scratch, WaitPolicy};
use crate::error::{Error, Result};
use crate::index::IndexFile;
use crate::limits::{
    LOOKUP_PLACES_AT_ONCE, LOOKUP_REVERSED_ROWS_MAX, LOOKUP_ROWS_AT_ONCE, LOOKUP_SLICES_AT_ONCE,
};
use crate::planted::{Bug, planted};
use crate::semaphore::Permit;
use crate::sstable::{Named, Reading};
use crate::table::{Layer, View};

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

impl<'r> Read<'r> {
    /// Whether some source of the table has an index.
    pub(super) fn has_some(&self, index: IndexId) -> bool {
        let Some(index) = self.definition.index_by_id(index) else { return false };
        let (memory, views) = (self.table.layers(), self.table.views());
        memory.iter().any(|layer| layer.memtable.borrow().is_indexed(index.id))
            || views.iter().any(|view| view.sstable.index(index.id).is_some())
    }

    /// The sources that lack an index, as far as they are asked.
    fn unindexed(
        &self,
        (index, tokens): (&'r Index, TokenRange),
        is_asked: impl Fn(&View) -> bool,
    ) -> Vec<Unindexed<'r>> {
        let (of, slices) = ((self.definition, index), self.command.slices.as_slice());
        let layers = self.table.layers();
        let lacks = |layer: &&Layer| !layer.memtable.borrow().is_indexed(index.id);
        let memtables = layers.iter().filter(lacks).map(|layer| layer.memtable.clone());
        let memtables =
            memtables.map(|memtable| Unindexed::of_memtable(memtable, tokens, slices, of));
        let reading = self.reading(Reading::Scan);
        let views = self.table.views();
        let lacks = |view: &&View| view.sstable.index(index.id).is_none() && is_asked(view);
        let views = views.iter().filter(lacks).filter(|_| !planted(Bug::LookupSkipsUnindexed));
        let views = views.filter_map(|view| Unindexed::of_view(view, tokens, slices, of, reading));
        memtables.chain(views).collect()
    }

    /// The views with the files of an index.
    pub(super) fn indexed(&self, index: IndexId) -> Vec<(View, Rc<IndexFile>)> {
        let views = self.table.views();
        let file = |view: &View| Some((view.clone(), view.sstable.index(index)?));
        views.iter().filter_map(file).collect()
    }

    /// Gives the rows of a range by a lookup, whose turn it is.
    pub(super) async fn range_by_index<S: RowSink + ?Sized>(
        &self,
        (worthy, turn): (Worthy<'r>, Option<Permit<'r>>),
        range: TokenRange,
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let resume = self.command.resume.as_ref();
        if resume.is_some_and(|resume| !range.contains(resume.token)) {
            return Err(Error::invalid("a page of another query"));
        }
        let first = match resume {
            None => Named { token: range.first, key: Vec::new(), clustering: None },
            Some(resume) => self.first_wanted(worthy.lookup, resume),
        };
        let is_asked = |view: &View| view.overlap(&range).is_some();
        let found = self.candidates(worthy, (first, range.last), is_asked);
        let Some(mut candidates) = found else {
            drop(turn);
            return self.range_from(range, resume, page, scratch).await;
        };
        page.begin_candidates();
        let mut last = resume.cloned();
        while candidates.next(page).await?.is_some() {
            let found = (candidates.take(), &mut candidates, &mut last);
            self.candidates_of_partition(found, page, scratch).await?;
            if candidates.is_lost() || page.is_done() {
                break;
            }
            page.pause_if_due().await?;
        }
        page.end_candidates();
        if !candidates.is_lost() || page.is_done() {
            return Ok(());
        }
        // The rest is a scan, which has a turn of its own.
        drop((candidates, turn));
        self.range_from(range, last.as_ref(), page, scratch).await
    }

    /// Gives the rows of one partition by a lookup, those of pages before apart.
    pub(super) async fn partition_by_index<S: RowSink + ?Sized>(
        &self,
        worthy: Worthy<'r>,
        (token, key): (Token, &[u8]),
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let resume = self.command.resume.as_ref();
        let resume = resume.filter(|resume| resume.token == token && resume.key == key);
        let first = match resume {
            None => Named { token, key: key.to_vec(), clustering: None },
            Some(resume) => self.first_wanted(worthy.lookup, resume),
        };
        let mut last = resume.cloned();
        let is_asked = |view: &View| view.may_contain(token);
        let is_known = match self.candidates(worthy, (first, token), is_asked) {
            None => false,
            Some(mut candidates) => {
                page.begin_candidates();
                let first = candidates.next(page).await?;
                if first.is_some_and(|first| first.is_of(token, key)) {
                    let found = (candidates.take(), &mut candidates, &mut last);
                    self.candidates_of_partition(found, page, scratch).await?;
                }
                page.end_candidates();
                !candidates.is_lost()
            }
        };
        match last {
            _ if is_known || page.is_done() => Ok(()),
            Some(last) => self.rest(token, key, &last, page, scratch).await,
            None => {
                page.begin(0);
                self.partition(token, key, &self.command.slices, page, scratch).await
            }
        }
    }

    /// The candidates of a lookup; `None` if the table has lost the index since it was asked.
    fn candidates(
        &self,
        Worthy { lookup, ahead, walks }: Worthy<'r>,
        (first, last): (Named, Token),
        is_asked: impl Fn(&View) -> bool,
    ) -> Option<Candidates<'r>> {
        let index = self.definition.index_by_id(lookup.index)?;
        let layers = self.table.layers();
        let has_it = |layer: &&Layer| layer.memtable.borrow().is_indexed(index.id);
        let memtables = layers.iter().filter(has_it).map(|layer| layer.memtable.clone());
        let views = self.indexed(lookup.index).into_iter().filter(|(view, _)| is_asked(view));
        let tokens = TokenRange { first: first.token, last };
        let scans = self.unindexed((index, tokens), &is_asked).into_iter();
        // In reversed order all of a partition are taken in hand.
        let wanted = if self.command.reversed { u64::MAX } else { self.wanted(lookup) };
        let at_once = match self.lookup_policy {
            LookupPolicy::InPasses(count) => [AtOnce::always(count); 2],
            _ => [LOOKUP_ROWS_AT_ONCE, LOOKUP_PLACES_AT_ONCE]
                .map(|most| AtOnce::for_wanted(wanted, most)),
        };
        // What a page before has read, and what is read from the last on, is not what comes first in the files.
        let is_first = self.command.resume.is_none() && !self.command.reversed;
        let waits = self.wait_policy == WaitPolicy::Endless;
        let ahead = ahead.filter(|_| is_first && waits);
        let how = (self.reading(Reading::Point), at_once, ahead, walks);
        Some(Candidates::new(lookup, (memtables, views, scans), (first, last), how))
    }

    /// Where candidates are wanted from, when a page has ended there.
    fn first_wanted(&self, lookup: &IndexLookup, resume: &Resume) -> Named {
        let is_inside = !self.command.reversed && self.leads_to_rows(lookup);
        let clustering = resume.clustering.clone().filter(|_| is_inside);
        Named { token: resume.token, key: resume.key.clone(), clustering }
    }

    /// Whether a lookup leads to rows, not to partitions.
    fn leads_to_rows(&self, lookup: &IndexLookup) -> bool {
        let index = self.definition.index_by_id(lookup.index);
        let kind = index.map(|index| index.column(self.definition).kind);
        matches!(kind, Some(ColumnKind::Clustering | ColumnKind::Regular))
    }

    /// Gives the rows of one partition, of which `first` is the first candidate.
    async fn candidates_of_partition<S: RowSink + ?Sized>(
        &self,
        (first, candidates, last): (Named, &mut Candidates<'_>, &mut Option<Resume>),
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Named { token, key, clustering } = first;
        let resume = self.command.resume.as_ref();
        let resume = resume.filter(|resume| resume.token == token && resume.key == key);
        let slices = match resume {
            None => Some(Cow::Borrowed(self.command.slices.as_slice())),
            Some(resume) => self.slices_after(resume).map(Cow::Owned),
        };
        let Some(slices) = slices else {
            candidates.pass_partition(token, &key).await?;
            return Ok(());
        };
        let most = match self.command.reversed {
            false => LOOKUP_SLICES_AT_ONCE,
            true => LOOKUP_REVERSED_ROWS_MAX,
        };
        page.begin(resume.map_or(0, |resume| resume.rows_of_partition));
        let mut first = clustering;
        loop {
            let batch = candidates.batch((token, &key), first, most, page).await?;
            if batch.is_whole || (self.command.reversed && batch.has_more) {
                // It is read in one piece: each tombstone is met once, and counts.
                page.end_candidates();
                let given = self.partition(token, &key, &slices, page, scratch).await;
                page.begin_candidates();
                given?;
                break;
            }
            let come_to = if batch.has_more { batch.rows.last().cloned() } else { None };
            let is_wanted = |row: &Vec<u8>| slices.iter().any(|slice| slice.contains(row));
            let rows = batch.rows.into_iter().filter(is_wanted).map(Slice::row).collect();
            self.rows_of_candidates((token, &key), rows, page, scratch).await?;
            if page.is_done() || page.has_enough_of_partition() || !batch.has_more {
                break;
            }
            let mut goes_on = false;
            if !candidates.is_lost() {
                page.pause_if_due().await?;
                let next = candidates.next(page).await?;
                goes_on = next.is_some_and(|next| next.is_of(token, &key));
            }
            if candidates.is_lost() {
                let rows_of_partition = page.rows_of_partition();
                let (clustering, partition_done) = (come_to, false);
                *last = Some(Resume { token, key, clustering, partition_done, rows_of_partition });
                return Ok(());
            }
            if !goes_on {
                break;
            }
            first = candidates.take().clustering;
        }
        candidates.pass_partition(token, &key).await?;
        let (clustering, partition_done, rows_of_partition) = (None, true, 0);
        *last = Some(Resume { token, key, clustering, partition_done, rows_of_partition });
        Ok(())
    }

    /// Gives these rows of a partition, if they are still what is asked for.
    async fn rows_of_candidates<S: RowSink + ?Sized>(
        &self,
        (token, key): (Token, &[u8]),
        mut rows: Vec<Slice>,
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        // Reversed, they are all of the partition, and are read from the last on.
        while !rows.is_empty() && !page.is_done() && !page.has_enough_of_partition() {
            let left = rows.len().saturating_sub(LOOKUP_SLICES_AT_ONCE);
            match &rows[left..] {
                slices @ [slice] => {
                    let wanted = RowWanted { token, key, clustering: &slice.start, slices };
                    self.row(wanted, page, scratch).await?;
                }
                slices => self.partition(token, key, slices, page, scratch).await?,
            }
            rows.truncate(left);
            page.pause_if_due().await?;
        }
        Ok(())
    }
}

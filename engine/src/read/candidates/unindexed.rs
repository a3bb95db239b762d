//! What a source that lacks an index has of a lookup: its rows, gone through in order, each judged by its terms.
//!
//! ```text
//! memtable or sstable ─► partitions, rows ─► terms of the index ─► those in the lookup are candidates
//! ```
//!
//! 1. A row is a candidate here exactly if it would be one by the index of this source: what other sources have of it
//!    says nothing, and who takes it reads it whole.
//! 2. A row whose terms cannot be told is a candidate: the read that follows says what is wrong with it, or finds it
//!    deleted. So is one of which so many were no term of the lookup that it is not worth while to go on.
//! 3. It goes as far as it is asked to: a page that is full leaves the rest.

use std::ops::ControlFlow;

use model::read::{IndexLookup, RowSink, Slice};
use model::row::RowRef;
use model::schema::{Index, Table};
use model::{Deletion, Token, TokenRange};

use super::Page;
use crate::cursor::{Cursor, Fragment, MergeInput, Scope, Source, Span};
use crate::error::Result;
use crate::limits::LOOKUP_TERMS_OF_ROW_MAX;
use crate::memtable::MemtableCursor;
use crate::sstable::{Named, Reading};
use crate::table::{SharedMemtable, View};

/// Goes through the rows of a source without the index.
pub(in crate::read) struct Unindexed<'r> {
    cursor: Source<'r>,
    slices: &'r [Slice],
    table: &'r Table,
    index: &'r Index,
    begin: Token,
    /// Stands in a partition, whose head was judged.
    is_inside: bool,
    /// The range deletion that was shown last to be in force.
    in_force: Deletion,
}

impl<'r> Unindexed<'r> {
    /// Of a memtable, in these tokens.
    pub(in crate::read) fn of_memtable(
        memtable: SharedMemtable,
        tokens: TokenRange,
        slices: &'r [Slice],
        of: (&'r Table, &'r Index),
    ) -> Unindexed<'r> {
        let cursor = MemtableCursor::new(memtable, span(tokens, slices));
        Unindexed::new(Source::Memtable(cursor), tokens, slices, of)
    }

    /// Of what a view has of its sstable in these tokens; `None` if it has none of them.
    pub(in crate::read) fn of_view(
        view: &View,
        tokens: TokenRange,
        slices: &'r [Slice],
        of: (&'r Table, &'r Index),
        reading: Reading,
    ) -> Option<Unindexed<'r>> {
        let tokens = view.overlap(&tokens)?;
        let cursor = view.sstable.cursor(span(tokens, slices), reading);
        Some(Unindexed::new(Source::Sstable(cursor), tokens, slices, of))
    }

    fn new(
        cursor: Source<'r>,
        tokens: TokenRange,
        slices: &'r [Slice],
        (table, index): (&'r Table, &'r Index),
    ) -> Unindexed<'r> {
        let (begin, in_force) = (tokens.first, Deletion::NONE);
        Unindexed { cursor, slices, table, index, begin, is_inside: false, in_force }
    }

    /// Nothing of it is before this token.
    pub(super) fn begin(&self) -> Token {
        self.begin
    }

    /// The next candidate that is not before a place; `None` if there is none, or the page is done.
    pub(super) async fn next<S: RowSink + ?Sized>(
        &mut self,
        lookup: &IndexLookup,
        from: &Named,
        page: &mut Page<'_, S>,
    ) -> Result<Option<Named>> {
        while !page.is_done() {
            page.pause_if_due().await?;
            if !self.is_inside || self.is_before(from) {
                self.is_inside = self.cursor.next_partition().await?;
                self.in_force = Deletion::NONE;
                if !self.is_inside {
                    return Ok(None);
                }
                let head = self.cursor.head();
                page.work(head.key.len() + head.static_row.map_or(0, |row| row.bytes().len()));
                let named = Named { token: head.token, key: head.key.to_vec(), clustering: None };
                if named >= *from && self.has_term(lookup, head.key, None, head.static_row) {
                    return Ok(Some(named));
                }
                continue;
            }
            if !self.cursor.next().await? {
                self.is_inside = false;
                continue;
            }
            self.seek(from, page).await?;
            if !self.is_inside {
                continue;
            }
            let (clustering, row) = match self.cursor.fragment() {
                Fragment::Row { clustering, row } => (clustering, row),
                Fragment::Change { deletion, .. } => {
                    self.pass_change(deletion, page);
                    continue;
                }
            };
            page.work(clustering.len() + row.bytes().len());
            let head = self.cursor.head();
            if self.has_term(lookup, head.key, Some(clustering), Some(row)) {
                let (token, key) = (head.token, head.key.to_vec());
                let named = Named { token, key, clustering: Some(clustering.to_vec()) };
                if named >= *from {
                    return Ok(Some(named));
                }
            }
        }
        Ok(None)
    }

    /// Whether the partition in hand is before the one of a place.
    fn is_before(&self, from: &Named) -> bool {
        let head = self.cursor.head();
        (head.token, head.key) < (from.token, from.key.as_slice())
    }

    /// Goes on from the fragment in hand to a place in the same partition, by its row index if it has one.
    async fn seek<S: RowSink + ?Sized>(
        &mut self,
        from: &Named,
        page: &mut Page<'_, S>,
    ) -> Result<()> {
        let head = self.cursor.head();
        let Some(place) = from.clustering.as_deref() else { return Ok(()) };
        if (head.token, head.key) != (from.token, from.key.as_slice()) {
            return Ok(());
        }
        loop {
            page.pause_if_due().await?;
            let fragment = self.cursor.fragment();
            let at = fragment.position();
            if at >= place || page.is_done() {
                return Ok(());
            }
            // A change may stand at the border of two slices: which of them it is of, it does not say.
            self.is_inside = if let Fragment::Change { deletion, .. } = fragment {
                self.pass_change(deletion, page);
                self.cursor.next().await?
            } else {
                page.work(0);
                let before = self.slices.partition_point(|slice| slice.end.as_slice() <= at);
                match self.slices.get(before) {
                    Some(slice) => self.cursor.seek(place.min(&slice.end)).await?,
                    None => self.cursor.next().await?,
                }
            };
            if !self.is_inside {
                return Ok(());
            }
        }
    }

    /// Counts a change of the range deletion in force.
    fn pass_change<S: RowSink + ?Sized>(&mut self, deletion: Deletion, page: &mut Page<'_, S>) {
        page.work_of_change((self.in_force, deletion));
        self.in_force = deletion;
    }

    /// Whether a row, or what the head of a partition says, has a term of the lookup.
    fn has_term(
        &self,
        lookup: &IndexLookup,
        key: &[u8],
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> bool {
        let (mut has_one, mut looked) = (false, 0);
        let mut judge = |term: &[u8]| {
            looked += 1;
            let at = lookup.terms.partition_point(|slice| slice.end.as_slice() <= term);
            has_one = lookup.terms.get(at).is_some_and(|slice| slice.contains(term))
                || looked > LOOKUP_TERMS_OF_ROW_MAX;
            if has_one { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let told = self.index.terms(self.table, key, clustering, row, &mut judge);
        told.is_err() || has_one
    }
}

/// All rows of the slices in these tokens.
fn span(tokens: TokenRange, slices: &[Slice]) -> Span<'_> {
    Span { scope: Scope::Range(tokens), slices, reversed: false }
}

//! What the index of a lookup leads to, from all sources of a table, in the order of token, key and clustering.
//!
//! ```text
//! memtable ─► entries ───────────────┐
//! file ─► places ────────────────────┼─► the smallest of all, each once
//! source without the index ─► rows ──┘
//! ```
//!
//! 1. Of one term the places come in order. Of several a source keeps the first of them at a time: a pass goes over the
//!    terms again for those behind. So memory is bounded, whatever the terms are. A pass keeps about as many as are
//!    wanted, and each one after it [`MORE_EACH_PASS`] times as many, for what was wanted was not there.
//! 2. A candidate is what some source says of a row, whether it is still so or not: who takes it reads the row.
//! 3. An index file that cannot be read ends the lookup: [`Candidates::is_lost`] says so, and the rest is scanned.
//! 4. Of a source that lacks the index the rows are gone through, and those are candidates that have one of the terms
//!    (`candidates/unindexed.rs`).

mod ahead;
mod gather;
mod unindexed;

use std::collections::VecDeque;
use std::rc::Rc;

use model::read::{IndexLookup, RowSink};
use model::{Token, TokenRange};

use super::page::Page;
use crate::error::{Error, Result};
use crate::index::{IndexFile, Place, Smallest, TermWalk};
use crate::limits::{LOOKUP_RANGES_COUNTED, LOOKUP_REVERSED_BYTES_MAX};
use crate::planted::{Bug, planted};
use crate::sstable::{Named, Reading};
use crate::table::{SharedMemtable, View};
pub(super) use ahead::Ahead;
use ahead::AheadTo;
use gather::{gather_file, gather_memory};
pub(super) use unindexed::Unindexed;

/// Work that a posting counts as, in bytes: a hundredth of a read's quantum.
const POSTING_WORK_BYTES: usize = 256;

/// Candidates that a pass takes in hand beside twice what is wanted.
const TAKEN_MIN: usize = 16;
/// A pass takes this many times as many as the one before it.
const MORE_EACH_PASS: usize = 8;

/// The candidates of a lookup.
pub(super) struct Candidates<'r> {
    lookup: &'r IndexLookup,
    sources: Vec<Source<'r>>,
    /// The source whose head is the next candidate, once that is known.
    next: Option<usize>,
    /// No candidate behind it is wanted.
    last: Token,
    is_lost: bool,
    /// What is read before it is the turn of its file, if anything is.
    ahead: Option<AheadTo>,
}

/// Candidates of one source.
struct Source<'r> {
    kind: Kind<'r>,
    /// The next one.
    head: Option<Named>,
    /// Nothing of the source is before this token.
    begin: Token,
    /// Nothing of the source is before this place that was not given.
    from: Named,
    /// All of the source that is behind `from` is in hand.
    is_done: bool,
    /// How many are taken in hand.
    at_once: AtOnce,
}

/// How many candidates one pass over the terms of a source takes in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AtOnce {
    next: usize,
    most: usize,
}

impl AtOnce {
    /// This many in each pass.
    pub(super) fn always(most: usize) -> AtOnce {
        AtOnce { next: most, most }
    }

    /// Where so many rows are wanted, of which some may not be so any more.
    pub(super) fn for_wanted(wanted: u64, most: usize) -> AtOnce {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        AtOnce { next: wanted.saturating_mul(2).saturating_add(TAKEN_MIN).min(most), most }
    }

    /// How many the pass takes that begins.
    fn take(&mut self) -> usize {
        let taken = self.next;
        self.next = taken.saturating_mul(MORE_EACH_PASS).min(self.most);
        taken
    }
}

enum Kind<'r> {
    Memory {
        memtable: SharedMemtable,
        ready: VecDeque<Named>,
        /// Behind what was in hand.
        next: Option<Named>,
    },
    File {
        view: View,
        file: Rc<IndexFile>,
        reading: Reading,
        /// At the one term that is looked up, if it was counted.
        walk: Option<TermWalk>,
        ready: VecDeque<Place>,
        /// Places are given from here on, and to there.
        place: Place,
        behind: Place,
        is_placed: bool,
        /// Whether its filters were asked for the terms.
        is_asked: bool,
        /// Whether what it is asked for first was read ahead.
        is_ahead: bool,
    },
    /// It lacks the index: its rows are gone through; `None` once they were.
    Scan(Option<Box<Unindexed<'r>>>),
}

/// Candidates of one partition.
pub(super) struct Batch {
    /// Its rows, in order.
    pub(super) rows: Vec<Vec<u8>>,
    /// All of the partition is a candidate.
    pub(super) is_whole: bool,
    /// There may be more rows of it.
    pub(super) has_more: bool,
}

impl<'r> Candidates<'r> {
    /// Of these sources that have the index, and those that lack it, from this place on and up to this token.
    pub(super) fn new(
        lookup: &'r IndexLookup,
        (memtables, files, scans): (
            impl Iterator<Item = SharedMemtable>,
            impl Iterator<Item = (View, Rc<IndexFile>)>,
            impl Iterator<Item = Unindexed<'r>>,
        ),
        (from, last): (Named, Token),
        (reading, [rows_at_once, places_at_once], ahead, mut walks): (
            Reading,
            [AtOnce; 2],
            Option<Ahead>,
            Vec<TermWalk>,
        ),
    ) -> Candidates<'r> {
        let memory = memtables
            .filter(|_| !planted(Bug::LookupSkipsMemory))
            .map(|memtable| Kind::Memory { memtable, ready: VecDeque::new(), next: None });
        let files = files.map(|(view, file)| {
            let behind = view.sstable.place_behind(last.min(view.entry.tokens.last));
            let place = Place::default();
            let ready = VecDeque::new();
            let walk = walks.iter().position(|walk| walk.is_of(&file) && walk.has_begun());
            let walk = walk.map(|at| walks.swap_remove(at));
            let (is_placed, is_asked, is_ahead) = (false, walk.is_some(), false);
            Kind::File {
                view,
                file,
                reading,
                walk,
                ready,
                place,
                behind,
                is_placed,
                is_asked,
                is_ahead,
            }
        });
        let scans = scans.map(|scan| Kind::Scan(Some(Box::new(scan))));
        let source = |kind| {
            let (begin, at_once) = match &kind {
                Kind::Memory { .. } => (TokenRange::ALL.first, rows_at_once),
                Kind::File { view, .. } => (view.entry.tokens.first, places_at_once),
                Kind::Scan(scan) => (scan.as_ref().expect("it begins").begin(), AtOnce::always(0)),
            };
            // What the file has before is another view's: it would come late.
            let first = Named { token: begin, key: Vec::new(), clustering: None };
            let from = from.clone().max(first);
            Source { kind, head: None, begin, from, is_done: false, at_once }
        };
        let ahead = ahead.map(|ahead| AheadTo::new(ahead, from.token, last));
        let mut sources: Vec<Source<'r>> = memory.chain(files).chain(scans).map(source).collect();
        sources.sort_by_key(|source| source.begin);
        Candidates { lookup, sources, next: None, last, is_lost: false, ahead }
    }

    /// Whether an index file could not be read: what was not given is not known.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The next candidate; `None` if there is none, the page is done, or an index file could not be read
    /// ([`is_lost`](Self::is_lost)): the rest is to be scanned then.
    pub(super) async fn next<S: RowSink + ?Sized>(
        &mut self,
        page: &mut Page<'_, S>,
    ) -> Result<Option<&Named>> {
        if self.next.is_some() && !page.is_done() {
            return Ok(self.least());
        }
        self.next = None;
        for at in 0..self.sources.len() {
            // A file of later tokens is not asked before it is its turn.
            if self.least().is_some_and(|least| least.token < self.sources[at].begin) {
                break;
            }
            self.read_ahead(at, page).await?;
            let source = &mut self.sources[at];
            if let Err(error) = source.fill_head(self.lookup, self.last, page).await {
                if let Lost::Read(error) = error {
                    return Err(error);
                }
                source.note_lost(&error);
                (self.is_lost, self.next) = (true, None);
                return Ok(None);
            }
            if page.is_done() {
                self.next = None;
                return Ok(None);
            }
            let head = self.sources[at].head.as_ref();
            let is_less = |head: &Named| self.least().is_none_or(|least| head < least);
            if head.is_some_and(is_less) {
                self.next = Some(at);
            }
        }
        Ok(self.least())
    }

    /// The least of the heads that were looked at.
    fn least(&self) -> Option<&Named> {
        self.sources[self.next?].head.as_ref()
    }

    /// Takes the candidate that [`next`](Self::next) gave, and goes behind it.
    pub(super) fn take(&mut self) -> Named {
        let next = self.next.take().expect("a candidate was given");
        let taken = self.sources[next].head.take().expect("it is the head of a source");
        for source in &mut self.sources {
            if source.head.as_ref() == Some(&taken) {
                source.head = None;
            }
        }
        taken
    }

    /// Goes to the first candidate that is not before a place.
    fn seek(&mut self, place: &Named) {
        self.next = None;
        for source in &mut self.sources {
            if source.head.as_ref().is_some_and(|head| head < place) {
                source.head = None;
            }
            if source.from < *place {
                source.from.clone_from(place);
                source.leave_ready();
            }
        }
    }

    /// Goes behind a partition: of one that has many blocks in a file, no posting is looked at any more.
    pub(super) async fn pass_partition(&mut self, token: Token, key: &[u8]) -> Result<()> {
        let is_behind = |source: &Source<'_>| match &source.head {
            Some(head) => !head.is_of(token, key),
            None => source.begin > token || (source.is_done && source.is_empty()),
        };
        if self.sources.iter().all(is_behind) {
            return Ok(());
        }
        for source in self.sources.iter_mut().filter(|source| !is_behind(source)) {
            let Kind::File { view, reading, ready, place, .. } = &mut source.kind else { continue };
            // A wide partition is found by reading its first block: only where that skips a posting.
            let first_left = *ready.front().unwrap_or(place);
            let end = view.sstable.end_of_wide((token, key), first_left, *reading).await?;
            if let Some(last) = end {
                let left = ready.partition_point(|other| *other < last);
                ready.drain(..left);
                *place = last.max(*place);
            }
        }
        let key = [key, &[0]].concat();
        self.seek(&Named { token, key, clustering: None });
        Ok(())
    }

    /// The rows of a partition, up to a number. `first` is the clustering of the candidate that was taken of it.
    pub(super) async fn batch<S: RowSink + ?Sized>(
        &mut self,
        (token, key): (Token, &[u8]),
        first: Option<Vec<u8>>,
        most: usize,
        page: &mut Page<'_, S>,
    ) -> Result<Batch> {
        let mut bytes = first.as_ref().map_or(0, Vec::len);
        let is_whole = first.is_none();
        let mut batch = Batch { rows: Vec::from_iter(first), is_whole, has_more: false };
        while !batch.is_whole
            && let Some(next) = self.next(page).await?
            && next.is_of(token, key)
        {
            if batch.rows.len() == most || bytes > LOOKUP_REVERSED_BYTES_MAX {
                batch.has_more = true;
                if planted(Bug::LookupSkipsCandidate) {
                    self.take();
                }
                break;
            }
            match self.take().clustering {
                None => batch.is_whole = true,
                Some(clustering) => {
                    bytes += clustering.len();
                    batch.rows.push(clustering);
                }
            }
        }
        batch.has_more |= self.is_lost || page.is_done();
        Ok(batch)
    }
}

/// Why there are no candidates.
enum Lost {
    /// The index file says what cannot be, under checksums that are right.
    Wrong(Error),
    /// The index file cannot be read.
    Index(Error),
    /// The read cannot go on.
    Read(Error),
}

/// What goes wrong in an index file ends its use, not the read.
fn of_index(error: Error) -> Lost {
    match error {
        Error::WouldBlock => Lost::Read(error),
        error => Lost::Index(error),
    }
}

impl Source<'_> {
    /// The index file is not used any more: a job makes it anew.
    fn note_lost(&self, lost: &Lost) {
        let Kind::File { view, file, .. } = &self.kind else { return };
        match lost {
            Lost::Wrong(error) => view.sstable.distrust_index(file.index(), error),
            Lost::Index(error) | Lost::Read(error) => {
                view.sstable.lose_index(file.index(), error);
            }
        }
    }

    fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Memory { ready, .. } => ready.is_empty(),
            Kind::File { ready, .. } => ready.is_empty(),
            Kind::Scan(_) => true,
        }
    }

    /// What is in hand and before the place from which on candidates are given, is left.
    fn leave_ready(&mut self) {
        match &mut self.kind {
            Kind::Memory { ready, .. } => {
                let left = ready.partition_point(|named| *named < self.from);
                ready.drain(..left);
            }
            // Where that is in the file is found out when it is asked for more.
            Kind::File { is_placed, .. } => *is_placed = false,
            Kind::Scan(_) => {}
        }
    }

    /// Finds out where in the file candidates are given from.
    async fn place(&mut self) -> Result<()> {
        let Source {
            kind: Kind::File { view, reading, ready, place, is_placed, .. }, from, ..
        } = self
        else {
            return Ok(());
        };
        if !*is_placed {
            let clustering = from.clustering.as_deref().unwrap_or_default();
            let of = (from.token, from.key.as_slice());
            let at = view.sstable.place_of(of, clustering, *reading).await?;
            let left = ready.partition_point(|other| *other < at);
            ready.drain(..left);
            (*place, *is_placed) = (at.max(*place), true);
        }
        Ok(())
    }

    /// A file that has none of the terms is done before anything of it is read.
    async fn leave_file_without<S: RowSink + ?Sized>(
        &mut self,
        lookup: &IndexLookup,
        page: &mut Page<'_, S>,
    ) -> std::result::Result<(), Lost> {
        let Kind::File { file, reading, is_asked, .. } = &mut self.kind else { return Ok(()) };
        if std::mem::replace(is_asked, true) || lookup.terms.len() > LOOKUP_RANGES_COUNTED {
            return Ok(());
        }
        let walk = TermWalk::new(file, *reading);
        for range in &lookup.terms {
            page.work(POSTING_WORK_BYTES);
            page.pause_if_due().await.map_err(Lost::Read)?;
            if page.is_done() || walk.may_have(range).await.map_err(of_index)? {
                return Ok(());
            }
        }
        self.is_done = true;
        Ok(())
    }

    /// Finds the next candidate, if it is not known.
    async fn fill_head<S: RowSink + ?Sized>(
        &mut self,
        lookup: &IndexLookup,
        last: Token,
        page: &mut Page<'_, S>,
    ) -> std::result::Result<(), Lost> {
        if let Kind::Scan(scan) = &mut self.kind {
            if self.head.is_none()
                && let Some(rows) = scan
            {
                self.head = rows.next(lookup, &self.from, page).await.map_err(Lost::Read)?;
                self.is_done = self.head.is_none() && !page.is_done();
                if self.is_done {
                    // Its window and its block are not wanted any more.
                    *scan = None;
                }
            }
            return Ok(());
        }
        self.leave_file_without(lookup, page).await?;
        while self.head.is_none() && !page.is_done() {
            if self.is_empty() {
                if self.is_done {
                    return Ok(());
                }
                self.place().await.map_err(Lost::Read)?;
                self.fill(lookup, page).await?;
                continue;
            }
            let Source { kind, head, from, is_done, .. } = self;
            let next = match kind {
                Kind::Memory { ready, .. } => ready.pop_front(),
                Kind::File { view, file, reading, ready, .. } => {
                    let place = *ready.front().expect("it was looked at");
                    let named = view.sstable.named(place, *reading).await.map_err(Lost::Read)?;
                    ready.pop_front();
                    let stray = || Error::corrupt(file.path().as_str(), 0, "no such place");
                    Some(named.ok_or_else(|| Lost::Wrong(stray()))?)
                }
                Kind::Scan(_) => None,
            };
            page.work(POSTING_WORK_BYTES);
            *head = next.filter(|named| *named >= *from);
            if head.as_ref().is_some_and(|named| named.token > last) {
                (*head, *is_done) = (None, true);
                match kind {
                    Kind::Memory { ready, .. } => ready.clear(),
                    Kind::File { ready, .. } => ready.clear(),
                    Kind::Scan(_) => {}
                }
            } else if head.is_none() {
                // Others in hand may be before it as well.
                self.place().await.map_err(Lost::Read)?;
            }
            page.pause_if_due().await.map_err(Lost::Read)?;
        }
        Ok(())
    }

    /// Takes the next candidates in hand.
    async fn fill<S: RowSink + ?Sized>(
        &mut self,
        lookup: &IndexLookup,
        page: &mut Page<'_, S>,
    ) -> std::result::Result<(), Lost> {
        let Source { kind, from, is_done, at_once, .. } = self;
        match kind {
            Kind::Memory { memtable, ready, next } => {
                let from = next.as_ref().filter(|next| *next > from).unwrap_or(from).clone();
                let mut smallest = Smallest::new(at_once.take());
                for range in &lookup.terms {
                    page.work(POSTING_WORK_BYTES);
                    page.pause_if_due().await.map_err(Lost::Read)?;
                    gather_memory(memtable, (lookup.index, range), &from, &mut smallest, page)
                        .await
                        .map_err(Lost::Read)?;
                }
                let (found, is_all) = smallest.sorted();
                *next = found.last().map(behind).or(next.take());
                (*ready, *is_done) = (found.into(), is_all);
            }
            Kind::File { file, reading, walk, ready, place, behind, .. } => {
                let mut smallest = Smallest::new(at_once.take());
                let mut walk = walk.take().unwrap_or_else(|| TermWalk::new(file, *reading));
                for range in &lookup.terms {
                    page.work(POSTING_WORK_BYTES);
                    page.pause_if_due().await.map_err(Lost::Read)?;
                    let span = (*place, *behind);
                    // Of one term the file has it, or may: its filters were asked.
                    let is_asked = lookup.terms.len() == 1;
                    gather_file((&mut walk, is_asked), range, span, &mut smallest, page).await?;
                }
                let (found, is_all) = smallest.sorted();
                if let Some(last) = found.last() {
                    *place = last.next();
                    if planted(Bug::SecondPassTooLate) {
                        *place = place.next();
                    }
                }
                (*ready, *is_done) = (found.into(), is_all);
            }
            Kind::Scan(_) => {}
        }
        Ok(())
    }
}

/// The smallest place behind this one.
fn behind(named: &Named) -> Named {
    let mut clustering = named.clustering.clone().unwrap_or_default();
    if named.clustering.is_some() {
        clustering.push(0);
    }
    Named { clustering: Some(clustering), ..named.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: for ten rows of a range 8,192 places of each file were kept and sorted.
    #[test]
    fn a_pass_takes_about_what_is_wanted_and_the_next_ones_more() {
        let mut at_once = AtOnce::for_wanted(10, 8192);
        assert_eq!([0; 5].map(|_| at_once.take()), [36, 288, 2304, 8192, 8192]);
        assert_eq!(AtOnce::for_wanted(u64::MAX, 8192).take(), 8192);
        let mut always = AtOnce::always(7);
        assert_eq!([0; 2].map(|_| always.take()), [7, 7]);
    }
}

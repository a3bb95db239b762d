//! A cursor over a memtable that may change whenever it is not being moved.
//!
//! It copies what it shows and keeps its place as a key. While the memtable's version stands still,
//! which it does as long as no task waits, the next row is the next entry; otherwise it is looked for.
//!
//! 1. A tombstone that came after the cursor passed its start is shown as a change where the cursor
//!    stands. Rows that it took out of the memtable so never uncover older ones in an sstable.
//! 2. The same for a partition tombstone that came after the head was shown.
//! 3. Where a partition's tombstone covers all of the memtable, nothing of the partition is shown but its head.
//! 4. Rows that the memtable's own tombstones cover are passed over a leaf at a time, as far as nothing newer is among
//!    them; what is left of them is shown, and one after so many leaves.
//! 5. After some slices in which nothing is, or borders under a tombstone that came, a change is shown that changes
//!    nothing (`cursor.rs`, invariant 6).

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use model::bytes::compare;
use model::row::RowRef;
use model::{Deletion, Token};

use super::leaves::Place;
use super::partition::Partition;
use super::ranges::Hold;
use super::{Memtable, unite};
use crate::cursor::{Cursor, EmptySlices, Fragment, Head, MergeInput, Scope, Slice, Span};
use crate::error::Result;
use crate::limits::COVERED_BOUNDS_AT_ONCE_MAX;
use crate::planted::{Bug, planted};

/// Goes through a memtable.
#[derive(Debug)]
pub struct MemtableCursor<'c> {
    memtable: Rc<RefCell<Memtable>>,
    span: Span<'c>,
    /// Of the memtable, when `directory_place` and `row_place` were right.
    version: u64,
    started: bool,
    directory_place: Place,
    index: u32,
    token: Token,
    key: Vec<u8>,
    deletion: Deletion,
    static_row: Option<Vec<u8>>,
    inside: Inside,
}

/// Where the cursor is in its partition.
#[derive(Debug)]
struct Inside {
    /// How many slices are done.
    slices_done: usize,
    /// Forward: rows from here on are to come, this one too unless `at_done`. Reversed: rows below.
    at: Vec<u8>,
    at_done: bool,
    /// The deletion that was last shown to hold.
    in_force: Deletion,
    empty_slices: EmptySlices,
    /// The place of the row shown last, as long as the memtable has the version that it had then. If there is one, `at`
    /// is the clustering key of that row, and forward `at_done` is true.
    row_place: Option<Place>,
    row: Vec<u8>,
    spare: Vec<u8>,
    shows_row: bool,
}

impl<'c> MemtableCursor<'c> {
    /// A cursor before the first partition of the span.
    pub fn new(memtable: Rc<RefCell<Memtable>>, span: Span<'c>) -> Self {
        MemtableCursor {
            memtable,
            span,
            version: 0,
            started: false,
            directory_place: Place::START,
            index: 0,
            token: Token::MIN,
            key: Vec::new(),
            deletion: Deletion::NONE,
            static_row: None,
            inside: Inside {
                slices_done: 0,
                at: Vec::new(),
                at_done: false,
                in_force: Deletion::NONE,
                empty_slices: EmptySlices::default(),
                row_place: None,
                row: Vec::new(),
                spare: Vec::new(),
                shows_row: false,
            },
        }
    }

    /// The place of the next partition, if the span has one.
    fn seek_partition(&self, memtable: &Memtable) -> Option<Place> {
        let directory = &memtable.directory;
        let (place, last) = match self.span.scope {
            Scope::Key(token, key) => {
                let (place, found) = memtable.find(token, key);
                return (found && !self.started).then_some(place);
            }
            Scope::Range(range) if !self.started => {
                (directory.normalize(memtable.find(range.first, &[]).0), range.last)
            }
            Scope::Range(range)
                if memtable.version == self.version || planted(Bug::CursorKeepsPlace) =>
            {
                (directory.after(self.directory_place), range.last)
            }
            Scope::Range(range) => {
                (directory.after(memtable.find(self.token, &self.key).0), range.last)
            }
        };
        directory.get(place).filter(|locator| locator.position <= last.biased()).map(|_| place)
    }

    fn enter_partition(&mut self) -> bool {
        let memtable = self.memtable.borrow();
        let Some(place) = self.seek_partition(&memtable) else {
            self.started = true;
            return false;
        };
        let locator = memtable.directory.get(place).expect("a place that was found");
        let partition = memtable.partition(locator.index);
        assert_eq!(partition.token.biased(), locator.position, "a partition lies at its token");
        let (token, key) = (partition.token, partition.key.get(&memtable.arena));
        let ascends = !self.started || (self.token, self.key.as_slice()) < (token, key);
        assert!(ascends, "partitions ascend");
        // From the second partition of a range on: a read of one partition would ask for what it never reads.
        if self.started && matches!(self.span.scope, Scope::Range(_)) {
            memtable.prefetch_after(place);
        }
        self.started = true;
        self.version = memtable.version;
        self.directory_place = place;
        self.index = locator.index;
        self.token = token;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.deletion = partition.deletion();
        let static_row = partition.rare.as_ref().and_then(|rare| rare.static_row.as_ref());
        let base = static_row.map(|slot| RowRef::trusted(slot.get(&memtable.arena)));
        self.static_row = base.map(|base| {
            let mut whole = Vec::new();
            unite(&mut whole, partition.beside(None).chain([base]), &mut Vec::new());
            whole
        });
        let newest = memtable.newest().filter(|_| !self.deletion.is_none());
        let is_covered = newest.is_some_and(|newest| self.deletion.covers(newest));
        self.inside.slices_done = if is_covered { self.span.slices.len() } else { 0 };
        self.inside.enter_slice(&self.span);
        true
    }

    fn step(&mut self) -> bool {
        let memtable = self.memtable.borrow();
        if memtable.version != self.version && !planted(Bug::CursorKeepsPlace) {
            // Another version: only the key of the row shown last can be trusted.
            self.inside.row_place = None;
            self.version = memtable.version;
            self.directory_place = memtable.find(self.token, &self.key).0;
        }
        let source = Source { memtable: &memtable, partition: memtable.partition(self.index) };
        assert_eq!(source.partition.token, self.token, "a partition keeps its index");
        let later = source.partition.deletion();
        let later = if later == self.deletion { Deletion::NONE } else { later };
        let first = self.inside.slices_done;
        while self.inside.slices_done < self.span.slices.len() {
            let slice = slice_at(&self.span, self.inside.slices_done);
            let stepped = match self.span.reversed {
                false => self.inside.forward(&source, slice, later),
                true => self.inside.backward(&source, slice, later),
            };
            if stepped.is_break() {
                return true;
            }
            // Of the first something may have been shown.
            let is_empty = self.inside.slices_done > first;
            self.inside.slices_done += 1;
            self.inside.enter_slice(&self.span);
            if is_empty && self.inside.empty_slices.count() {
                self.inside.shows_row = false;
                return true;
            }
        }
        false
    }
}

/// The slice that comes after `done` others.
fn slice_at<'c>(span: &Span<'c>, done: usize) -> &'c Slice {
    match span.reversed {
        false => &span.slices[done],
        true => &span.slices[span.slices.len() - 1 - done],
    }
}

struct Source<'a> {
    memtable: &'a Memtable,
    partition: &'a Partition,
}

impl Source<'_> {
    fn clustering(&self, place: Place) -> Option<&[u8]> {
        Some(self.partition.rows.get(place)?.clustering(&self.memtable.arena))
    }

    fn find(&self, clustering: &[u8]) -> (Place, bool) {
        self.partition.rows.find(&self.memtable.arena, clustering)
    }

    fn hold_from(&self, at: &[u8]) -> Hold<'_> {
        self.partition.rare.as_ref().map_or(Hold::NOTHING, |rare| rare.ranges.from(at))
    }

    fn hold_below(&self, at: &[u8]) -> Hold<'_> {
        self.partition.rare.as_ref().map_or(Hold::NOTHING, |rare| rare.ranges.below(at))
    }
}

impl Inside {
    fn enter_slice(&mut self, span: &Span<'_>) {
        self.at.clear();
        self.at_done = false;
        self.row_place = None;
        self.in_force = Deletion::NONE;
        if self.slices_done < span.slices.len() {
            let slice = slice_at(span, self.slices_done);
            self.at.extend_from_slice(if span.reversed { &slice.end } else { &slice.start });
        }
    }

    /// Breaks when it shows something, or has passed many borders at which nothing changes; continues when the slice is
    /// done.
    fn forward(&mut self, source: &Source<'_>, slice: &Slice, later: Deletion) -> ControlFlow<()> {
        self.next_row(source, slice)?;
        for _ in 0..COVERED_BOUNDS_AT_ONCE_MAX {
            if compare(&self.at, &slice.end).is_ge() {
                return self.close();
            }
            let hold = source.hold_from(&self.at);
            self.change(hold.deletion.max(later))?;
            let place = match self.row_place {
                Some(place) if self.at_done => source.partition.rows.after(place),
                _ => match source.find(&self.at) {
                    (place, true) if self.at_done => source.partition.rows.after(place),
                    (place, _) => place,
                },
            };
            let covering = hold.deletion.max(source.partition.deletion());
            let place = match covering.is_none() {
                true => place,
                false => source.partition.rows.first_newer(place, covering.timestamp),
            };
            let clustering = source.clustering(place);
            let clustering =
                clustering.filter(|clustering| compare(clustering, &slice.end).is_lt());
            match (clustering, hold.until) {
                (Some(clustering), until) if until.is_none_or(|until| clustering < until) => {
                    self.at_done = true;
                    if self.is_scan() {
                        source.partition.rows.prefetch_after(&source.memtable.arena, place);
                    }
                    return self.show(source, place, clustering);
                }
                (_, Some(border)) if border < &*slice.end => self.go_to(border),
                _ => self.go_to(&slice.end),
            }
        }
        self.show_change()
    }

    /// Shows the next row and breaks, if the place of the last one is known and the partition has nothing rare: then no
    /// deletion holds or is in force, and no row has parts. Otherwise, and behind the last row of the slice, it changes
    /// nothing and continues: `forward` decides. A scan goes through here, row by row.
    #[inline]
    fn next_row(&mut self, source: &Source<'_>, slice: &Slice) -> ControlFlow<()> {
        let Partition { rows, rare: None, .. } = source.partition else {
            return ControlFlow::Continue(());
        };
        let next = self.row_place.and_then(|place| rows.next(place));
        let Some((place, entry)) = next else { return ControlFlow::Continue(()) };
        let arena = &source.memtable.arena;
        let (clustering, row) = entry.key_and_row(arena);
        if compare(clustering, &slice.end).is_ge() {
            return ControlFlow::Continue(());
        }
        rows.prefetch_after(arena, place);
        self.row.clear();
        self.row.extend_from_slice(row.bytes());
        self.stand_at(place, clustering)
    }

    /// As `forward`, from the end of the slice to its start.
    fn backward(&mut self, source: &Source<'_>, slice: &Slice, later: Deletion) -> ControlFlow<()> {
        for _ in 0..COVERED_BOUNDS_AT_ONCE_MAX {
            if compare(&self.at, &slice.start).is_le() {
                return self.close();
            }
            let hold = source.hold_below(&self.at);
            self.change(hold.deletion.max(later))?;
            let place = match self.row_place {
                Some(place) => source.partition.rows.before(place),
                None => source.partition.rows.before(source.find(&self.at).0),
            };
            let covering = hold.deletion.max(source.partition.deletion());
            let place = match covering.is_none() {
                true => place,
                false => place
                    .and_then(|place| source.partition.rows.last_newer(place, covering.timestamp)),
            };
            let row = place.and_then(|place| Some((place, source.clustering(place)?)));
            let row = row.filter(|(_, clustering)| *clustering >= &*slice.start);
            match (row, hold.until) {
                (Some((place, clustering)), until)
                    if until.is_none_or(|until| clustering >= until) =>
                {
                    if self.is_scan() {
                        source.partition.rows.prefetch_before(&source.memtable.arena, place);
                    }
                    return self.show(source, place, clustering);
                }
                (_, Some(border)) if border > &*slice.start => self.go_to(border),
                _ => self.go_to(&slice.start),
            }
        }
        self.show_change()
    }

    /// Shows a change where the cursor stands, if it is one.
    fn change(&mut self, deletion: Deletion) -> ControlFlow<()> {
        if deletion == self.in_force {
            return ControlFlow::Continue(());
        }
        self.in_force = deletion;
        self.show_change()
    }

    /// Shows what is in force where the cursor stands.
    fn show_change(&mut self) -> ControlFlow<()> {
        self.shows_row = false;
        ControlFlow::Break(())
    }

    /// Closes at the end of a slice what is open there.
    fn close(&mut self) -> ControlFlow<()> {
        self.change(Deletion::NONE)
    }

    fn go_to(&mut self, border: &[u8]) {
        self.at.clear();
        self.at.extend_from_slice(border);
        self.at_done = false;
        self.row_place = None;
    }

    /// Whether the row before this one was shown, too. Only then are later rows prefetched: a read of one row would
    /// ask for what it never reads.
    #[inline]
    fn is_scan(&self) -> bool {
        self.row_place.is_some()
    }

    fn show(&mut self, source: &Source<'_>, place: Place, clustering: &[u8]) -> ControlFlow<()> {
        let place = source.partition.rows.normalize(place);
        let entry = source.partition.rows.get(place).expect("a row that was found");
        self.row.clear();
        let base = entry.row(&source.memtable.arena);
        unite(
            &mut self.row,
            source.partition.beside(Some(clustering)).chain([base]),
            &mut self.spare,
        );
        self.stand_at(place, clustering)
    }

    /// The cursor stands at this row now, whose bytes are in `row`.
    #[inline]
    fn stand_at(&mut self, place: Place, clustering: &[u8]) -> ControlFlow<()> {
        self.at.clear();
        self.at.extend_from_slice(clustering);
        self.row_place = Some(place);
        self.shows_row = true;
        ControlFlow::Break(())
    }
}

impl Cursor for MemtableCursor<'_> {
    async fn next_partition(&mut self) -> Result<bool> {
        Ok(self.enter_partition())
    }

    fn head(&self) -> Head<'_> {
        Head {
            token: self.token,
            key: &self.key,
            deletion: self.deletion,
            static_row: self.static_row.as_deref().map(RowRef::trusted),
        }
    }

    async fn next(&mut self) -> Result<bool> {
        Ok(self.step())
    }

    fn fragment(&self) -> Fragment<'_> {
        let inside = &self.inside;
        match inside.shows_row {
            true => Fragment::Row { clustering: &inside.at, row: RowRef::trusted(&inside.row) },
            false => Fragment::Change { position: &inside.at, deletion: inside.in_force },
        }
    }
}

impl MergeInput for MemtableCursor<'_> {
    fn newest(&self) -> i64 {
        self.memtable.borrow().newest().unwrap_or(i64::MIN)
    }

    async fn seek(&mut self, place: &[u8]) -> Result<bool> {
        self.inside.go_to(place);
        Ok(self.step())
    }
}

//! One row of one partition: gathered newest first, and no further back than it can matter.
//!
//! ```text
//! memtables ─► newest sstable that may hold it ─► next … until what is found is newer than all that is left
//! ```
//!
//! Most reads end at the first step or after one sstable. A row that is whole (every column has a value newer than
//! anything in the files that are left) cannot change any more, so those files are not touched. One of which only a
//! part is found lies in more files: then two are read side by side, then four, and so on.

use std::{iter, slice};

use model::cell::Life;
use model::read::{PartitionRef, RowSink, Slice};
use model::row::{RowRef, tombstones, visible};
use model::{Deletion, Token};

use super::{Read, Scratch, WaitPolicy};
use crate::cursor::{Cursor, Fragment, Head, Scope, Span, side_by_side};
use crate::error::Result;
use crate::limits::MOVES_AT_ONCE_MAX;
use crate::manifest::ViewBegin;
use crate::memtable::unite;
use crate::planted::{Bug, planted};
use crate::read::page::Page;
use crate::sstable::{Reading, SstableCursor};
use crate::table::{Layer, SharedMemtable, View};

/// The row that is wanted.
#[derive(Clone, Copy)]
pub(super) struct RowWanted<'w> {
    pub(super) token: Token,
    pub(super) key: &'w [u8],
    pub(super) clustering: &'w [u8],
    /// The one slice that has this row and no other.
    pub(super) slices: &'w [Slice],
}

impl RowWanted<'_> {
    /// Whether the row is not before this place of its token.
    fn is_from(&self, begin: &ViewBegin) -> bool {
        (&*begin.key, &*begin.position) <= (self.key, self.clustering)
    }
}

/// What was found of a row and its partition, as stored.
struct Found<'a> {
    deletion: Deletion,
    covering: Deletion,
    stat: Option<RowRef<'a>>,
    row: Option<RowRef<'a>>,
}

impl Read<'_> {
    /// Gives one row.
    pub(super) async fn row<S: RowSink + ?Sized>(
        &self,
        wanted: RowWanted<'_>,
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        page.work(wanted.key.len());
        let views = self.table.views();
        if !views.is_empty() {
            return self.gather(wanted, &views, page, scratch).await;
        }
        match (&*self.table.layers(), self.overlays.as_slice()) {
            ([layer], []) => {
                // Straight from the memtable: nothing is copied.
                let memtable = layer.memtable.borrow();
                let Some(view) = memtable.get(wanted.token, wanted.key) else { return Ok(()) };
                if view.has_parts() {
                    drop(memtable);
                    return self.merge_layers(wanted, page, scratch);
                }
                let found = Found {
                    deletion: view.deletion(),
                    covering: view.covering(wanted.clustering),
                    stat: view.static_row(),
                    row: view.row(wanted.clustering),
                };
                self.give(wanted, &found, page, [&mut scratch.stat, &mut scratch.row])
            }
            _ => self.merge_layers(wanted, page, scratch),
        }
    }

    /// Gives one row of a table without sstables, from the pieces that its memtables hold.
    fn merge_layers<S: RowSink + ?Sized>(
        &self,
        wanted: RowWanted<'_>,
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let mut gathered = Gathered::begin(scratch);
        gathered.memtables(wanted, &self.table.layers(), &self.overlays);
        page.work_of_bytes(gathered.united_bytes);
        let Gathered { deletion, covering, all_stat, all_row, stat, row, .. } = gathered;
        let found = Found { deletion, covering, stat: some(all_stat), row: some(all_row) };
        self.give(wanted, &found, page, [stat, row])
    }

    /// Gives one row of a table that has sstables.
    async fn gather<S: RowSink + ?Sized>(
        &self,
        wanted: RowWanted<'_>,
        views: &[View],
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let mut gathered = Gathered::begin(scratch);
        gathered.memtables(wanted, &self.table.layers(), &self.overlays);
        let mut settled = self.settled_until(&gathered);
        let (mut newest, mut at_once) = (i64::MAX, 1);
        let scope = Scope::Key(wanted.token, wanted.key);
        let span = Span { scope, slices: wanted.slices, reversed: false };
        let open = |view: &View| view.sstable.cursor(span, self.reading(Reading::Point));
        let mut views = views.iter();
        while let Some(view) = next_view(&mut views, wanted, settled) {
            assert!(view.newest() <= newest, "views come with the newest first");
            newest = view.newest();
            page.work(wanted.key.len());
            let mut cursor = open(view);
            if at_once == 1 {
                let found = cursor.next_partition().await?;
                gathered.sstable(wanted, (&mut cursor, found), view).await?;
            } else {
                let next = iter::from_fn(|| next_view(&mut views, wanted, settled));
                let side: Vec<&View> = iter::once(view).chain(next).take(at_once).collect();
                let others = side[1..].iter().map(|view| open(view));
                let mut cursors: Vec<_> =
                    iter::once(cursor).chain(others).map(|cursor| (cursor, false)).collect();
                let find = async |(cursor, found): &mut (SstableCursor<'_>, bool)| {
                    *found = cursor.next_partition().await?;
                    Ok(())
                };
                side_by_side(cursors.iter_mut().map(find)).await?;
                for ((cursor, found), view) in cursors.iter_mut().zip(side) {
                    gathered.sstable(wanted, (cursor, *found), view).await?;
                }
            }
            settled = self.settled_until(&gathered);
            if !gathered.all_row.is_empty() && self.wait_policy == WaitPolicy::Endless {
                at_once = (at_once * 2).min(MOVES_AT_ONCE_MAX);
            }
        }
        page.work_of_bytes(gathered.united_bytes);
        let Gathered { deletion, covering, all_stat, all_row, stat, row, .. } = gathered;
        let found = Found { deletion, covering, stat: some(all_stat), row: some(all_row) };
        self.give(wanted, &found, page, [stat, row])
    }

    /// Gives the row of a partition, or the partition's static row alone.
    fn give<S: RowSink + ?Sized>(
        &self,
        wanted: RowWanted<'_>,
        found: &Found<'_>,
        page: &mut Page<'_, S>,
        [stat, row]: [&mut Vec<u8>; 2],
    ) -> Result<()> {
        let bytes = |row: Option<RowRef<'_>>| row.map_or(0, |row| row.bytes().len());
        page.work_of_bytes(bytes(found.stat) + bytes(found.row));
        page.passes(found.stat, found.deletion);
        page.passes(found.row, found.covering);
        let now_s = self.command.now_s;
        let drops = self.drops;
        let static_row =
            found.stat.and_then(|row| visible(row, found.deletion, now_s, drops, stat));
        let partition = PartitionRef { token: wanted.token, key: wanted.key, static_row };
        let (stored, covering) = (found.row, found.covering);
        let of = |row: Option<RowRef<'_>>, covering| {
            row.map_or(0, |row| tombstones(row, covering, &page.purge))
        };
        page.pass_tombstones(of(found.stat, found.deletion) + of(stored, covering))?;
        if let Some(row) = stored.and_then(|stored| visible(stored, covering, now_s, drops, row)) {
            page.offer(&partition, Some(wanted.clustering), Some(row))?;
        }
        page.static_alone(&partition)
    }
}

/// A row being put together from several sources.
struct Gathered<'s> {
    deletion: Deletion,
    covering: Deletion,
    all_stat: &'s mut Vec<u8>,
    all_row: &'s mut Vec<u8>,
    spare: &'s mut Vec<u8>,
    /// For what will be visible.
    stat: &'s mut Vec<u8>,
    row: &'s mut Vec<u8>,
    /// Bytes of the rows that were made for it, those on the way included.
    united_bytes: usize,
}

impl<'s> Gathered<'s> {
    fn begin(scratch: &'s mut Scratch) -> Self {
        let Scratch { key, stat, row, merged, spare } = scratch;
        key.clear();
        merged.clear();
        Gathered {
            deletion: Deletion::NONE,
            covering: Deletion::NONE,
            all_stat: key,
            all_row: merged,
            spare,
            stat,
            row,
            united_bytes: 0,
        }
    }

    fn memtables(&mut self, wanted: RowWanted<'_>, layers: &[Layer], overlays: &[SharedMemtable]) {
        for memtable in layers.iter().map(|layer| &layer.memtable).chain(overlays) {
            let memtable = memtable.borrow();
            let Some(view) = memtable.get(wanted.token, wanted.key) else { continue };
            self.deletion = self.deletion.max(view.deletion());
            self.covering = self.covering.max(view.covering(wanted.clustering));
            let Gathered { all_stat, all_row, spare, united_bytes, .. } = self;
            *united_bytes += unite_counted(all_stat, view.parts(None), spare);
            *united_bytes += unite_counted(all_row, view.parts(Some(wanted.clustering)), spare);
        }
    }

    /// What a cursor has that stands at the partition, if it was found.
    async fn sstable(
        &mut self,
        wanted: RowWanted<'_>,
        (cursor, found): (&mut impl Cursor, bool),
        view: &View,
    ) -> Result<()> {
        if !found {
            return Ok(());
        }
        let mut head = cursor.head();
        if view.begin_at(wanted.token).is_some_and(|begin| *begin.key == *wanted.key) {
            // It went with the first rows of the partition.
            head = Head { deletion: Deletion::NONE, static_row: None, ..head };
        }
        self.deletion = self.deletion.max(head.deletion);
        self.covering = self.covering.max(head.deletion);
        self.united_bytes += unite_counted(self.all_stat, head.static_row, self.spare);
        while cursor.next().await? {
            match cursor.fragment() {
                Fragment::Row { row, .. } => {
                    self.united_bytes += unite_counted(self.all_row, [row], self.spare);
                }
                Fragment::Change { position, deletion } if position <= wanted.clustering => {
                    self.covering = self.covering.max(deletion);
                }
                Fragment::Change { .. } => {}
            }
        }
        Ok(())
    }
}

/// Unites rows into `all`; the bytes of what was made, on the way as well.
#[inline]
fn unite_counted<'r>(
    all: &mut Vec<u8>,
    rows: impl IntoIterator<Item = RowRef<'r>>,
    spare: &mut Vec<u8>,
) -> usize {
    let mut made_bytes = 0;
    for row in rows {
        unite(all, [row], spare);
        made_bytes += all.len();
    }
    made_bytes
}

impl Read<'_> {
    /// Files whose newest timestamp, in microseconds, is at most this cannot change what the read gives; `None` if every
    /// file may. It can go back: what is found later may kill what settled the row.
    fn settled_until(&self, found: &Gathered<'_>) -> Option<i64> {
        let table = self.definition;
        let statics = table.statics().count();
        let (stat, row) = (some(found.all_stat), some(found.all_row));
        if planted(Bug::SettleEarly) && row.is_some() {
            return Some(i64::MAX);
        }
        let values = table.regulars().count() + table.hidden().len();
        // A compact table of statics has no rows; the value that another hides is what makes a row.
        let of_row = match table.is_static_compact() {
            true => Some(i64::MAX),
            false => self.whole_until(row, found.covering, values),
        };
        let of_stat = match statics {
            0 => Some(i64::MAX),
            _ => self.whole_until(stat, found.deletion, statics),
        };
        // `None` is less than any.
        of_row.min(of_stat).max(covered_until(found.deletion))
    }

    /// The same for a row of `count` columns: one less than the timestamp of its oldest cell if it has all of them, or
    /// the timestamp of the deletion that covers it, whichever is newer.
    ///
    /// One cell must be alive: if none is, an older row marker decides whether there is a row at all. Of a table
    /// with materialized views one must be alive for ever: else the marker decides how long, of their rows, too.
    fn whole_until(
        &self,
        row: Option<RowRef<'_>>,
        covering: Deletion,
        count: usize,
    ) -> Option<i64> {
        let Some(row) = row else { return covered_until(covering) };
        let covered = covered_until(covering.max(row.head().deletion));
        let (mut found, mut alive, mut oldest) = (0, false, i64::MAX);
        for cell in row.cells().filter(|cell| cell.path.is_none() || cell.whole) {
            if self.definition.column_by_id(cell.column).is_some() {
                found += 1;
                oldest = oldest.min(cell.timestamp);
                let is_gone = covering.covers(cell.timestamp)
                    || cell.life.is_dead(self.command.now_s)
                    || self.drops.hides(cell.column, cell.timestamp);
                let stays = !self.table.has_materialized() || cell.life == Life::Live;
                alive |= !is_gone && stays;
            }
        }
        let is_whole = found == count && alive;
        let whole = if is_whole { oldest.checked_sub(1) } else { None };
        covered.max(whole)
    }
}

/// Takes the next view that may hold the row; `None` if there is none, or all that are left are settled. Then their
/// filters are not asked, and the views stay: later they may be needed.
fn next_view<'v>(
    views: &mut slice::Iter<'v, View>,
    wanted: RowWanted<'_>,
    settled: Option<i64>,
) -> Option<&'v View> {
    let holds = |view: &View| {
        view.may_contain(wanted.token)
            && view.sstable.may_hold(wanted.slices)
            && view.begin_at(wanted.token).is_none_or(|begin| wanted.is_from(begin))
    };
    while let Some(view) = views.as_slice().first() {
        if settled.is_some_and(|until| view.newest() <= until) {
            return None;
        }
        views.next();
        if holds(view) {
            return Some(view);
        }
    }
    None
}

/// The newest timestamp that a deletion covers, in microseconds; `None` if it deletes nothing.
fn covered_until(deletion: Deletion) -> Option<i64> {
    (!deletion.is_none()).then_some(deletion.timestamp)
}

fn some(bytes: &[u8]) -> Option<RowRef<'_>> {
    (!bytes.is_empty()).then(|| RowRef::trusted(bytes))
}

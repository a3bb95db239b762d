//! Two rows become one, and one row loses what no reader can see: the heart of memtable, read and
//! compaction, each a single walk over sorted cells.
//!
//! [`merge`] keeps every tombstone. [`visible`] is the reader's view: tombstones and the dead are
//! gone, and so are cells that went with their column. [`compact`] is compaction's: expired cells
//! lose their value, tombstones old enough and cells of dropped columns are purged.

use std::cmp::Ordering;
use std::iter::Peekable;

use super::{Cell, Cells, RowBuilder, RowHead, RowRef, Written};
use crate::cell::{Deletion, Expiry, Life, reconcile, reconcile_markers};
use crate::schema::{ColumnDrops, ColumnId};

/// Appends the union of `a` and `b` to `out`: for each cell the winner, nothing that is covered.
pub fn merge(a: RowRef<'_>, b: RowRef<'_>, out: &mut Vec<u8>) {
    let (ha, hb) = (a.head(), b.head());
    let deletion = ha.deletion.max(hb.deletion);
    let mut row = RowBuilder::begin(out, &merge_heads(&ha, &hb, deletion));
    if let Some(written) = Written::first(a.written(), b.written()) {
        row.written(written);
    }
    let cells = MergedCells { a: a.cells().peekable(), b: b.cells().peekable() };
    let mut covering = Covering::of(deletion);
    for cell in cells {
        if !covering.covers(&cell) {
            row.cell(&cell);
        }
    }
}

fn merge_heads(a: &RowHead, b: &RowHead, deletion: Deletion) -> RowHead {
    let kept = |h: &RowHead| h.marker.filter(|_| !deletion.covers(h.timestamp));
    let (timestamp, marker) = match (kept(a), kept(b)) {
        (Some(x), Some(y)) => {
            if reconcile_markers((a.timestamp, x), (b.timestamp, y)).is_ge() {
                (a.timestamp, Some(x))
            } else {
                (b.timestamp, Some(y))
            }
        }
        (Some(x), None) => (a.timestamp, Some(x)),
        (None, Some(y)) => (b.timestamp, Some(y)),
        (None, None) => (a.timestamp.max(b.timestamp), None),
    };
    RowHead { timestamp, marker, deletion }
}

/// What the row's deletion and the collection tombstone just passed cover.
struct Covering {
    row: Deletion,
    collection: Option<(ColumnId, i64)>,
}

impl Covering {
    fn of(row: Deletion) -> Self {
        Covering { row, collection: None }
    }

    #[inline]
    fn covers(&mut self, cell: &Cell<'_>) -> bool {
        if self.row.covers(cell.timestamp) {
            return true;
        }
        if cell.whole {
            self.collection = Some((cell.column, cell.timestamp));
            return false;
        }
        self.collection.is_some_and(|(column, at)| column == cell.column && cell.timestamp <= at)
    }
}

struct MergedCells<'a> {
    a: Peekable<Cells<'a>>,
    b: Peekable<Cells<'a>>,
}

impl<'a> Iterator for MergedCells<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        let order = match (self.a.peek(), self.b.peek()) {
            (Some(a), Some(b)) => a.compare_place(b),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        match order {
            Ordering::Less => self.a.next(),
            Ordering::Greater => self.b.next(),
            Ordering::Equal => {
                let (a, b) = (self.a.next()?, self.b.next()?);
                let a_wins =
                    reconcile((a.timestamp, a.life, a.value), (b.timestamp, b.life, b.value))
                        .then_with(|| a.written.cmp(&b.written));
                Some(if a_wins.is_ge() { a } else { b })
            }
        }
    }
}

/// What a reader sees of `row` under `covering` at `now_s`; `None` if that is nothing.
///
/// A row without anything mortal or dropped is handed back as it is; otherwise the rest is built in `scratch`.
#[inline]
pub fn visible<'a>(
    row: RowRef<'a>,
    covering: Deletion,
    now_s: u32,
    drops: &ColumnDrops,
    scratch: &'a mut Vec<u8>,
) -> Option<RowRef<'a>> {
    let hidden = |cell: &Cell<'_>| drops.hides(cell.column, cell.timestamp);
    if is_untouched(row, covering, drops, hidden) {
        return unless_empty(row);
    }
    let head = row.head();
    let deletion = covering.max(head.deletion);
    let marker =
        head.marker.filter(|life| !deletion.covers(head.timestamp) && !life.is_dead(now_s));
    scratch.clear();
    let head = RowHead { timestamp: head.timestamp, marker, deletion: Deletion::NONE };
    let mut out = RowBuilder::begin(scratch, &head);
    if let Some(written) = row.written() {
        out.written(written);
    }
    let mut covering = Covering::of(deletion);
    for cell in row.cells() {
        if !covering.covers(&cell) && !cell.life.is_dead(now_s) && !hidden(&cell) {
            out.cell(&cell);
        }
    }
    if marker.is_none() && out.has_no_cells() {
        return None;
    }
    Some(RowRef::trusted(scratch))
}

/// Whether all of `row` stays as it is: nothing covers it, nothing of it expires or is a tombstone, and no cell is one of
/// those that `is_gone` tells, which there are only if there are `drops`.
#[inline]
fn is_untouched(
    row: RowRef<'_>,
    covering: Deletion,
    drops: &ColumnDrops,
    is_gone: impl Fn(&Cell<'_>) -> bool,
) -> bool {
    let has_gone = || !drops.is_empty() && row.cells().any(|cell| is_gone(&cell));
    covering.is_none() && !row.is_mortal() && !has_gone()
}

#[inline]
fn unless_empty(row: RowRef<'_>) -> Option<RowRef<'_>> {
    (row.has_marker() || row.cells().next().is_some()).then_some(row)
}

/// How many tombstones a reader of `row` under `covering` passes: its dead cells, or the one of the whole row if it has
/// none and nothing of it is alive. What `covering` covers is no tombstone of the row, and neither is what `purge` would
/// drop: it is there only because compaction has not come to it yet. (`withoutPurgeableTombstones` and
/// `countTombstone` in `ReadCommand` of Cassandra.)
#[inline]
pub fn tombstones(row: RowRef<'_>, covering: Deletion, purge: &Purge<'_>) -> u64 {
    if !row.is_mortal() {
        return 0;
    }
    let head = row.head();
    let deletion = covering.max(head.deletion);
    let mut covers = Covering::of(deletion);
    let (mut dead, mut alive) = (0, 0);
    let is_there = |cell: &Cell<'_>| !purge.outlived(cell.timestamp, &cell.life);
    for cell in row.cells().filter(|cell| !covers.covers(cell)).filter(is_there) {
        *if cell.life.is_dead(purge.now_s) { &mut dead } else { &mut alive } += 1;
    }
    let marker = head.marker.filter(|_| !deletion.covers(head.timestamp));
    if marker.is_some_and(|life| !life.is_dead(purge.now_s)) {
        alive += 1;
    }
    let is_left = !head.deletion.is_none() && !purge.drops(head.deletion);
    let whole = is_left && !covering.covers(head.deletion.timestamp);
    if dead == 0 && alive == 0 { u64::from(whole) } else { dead }
}

/// Which tombstones compaction may drop for good.
#[derive(Clone, Copy, Debug)]
pub struct Purge<'t> {
    /// The second at which expiry is judged.
    pub now_s: u32,
    /// Tombstones made before this second are past `gc_grace_seconds`.
    pub gc_before_s: u32,
    /// What is older than this covers nothing outside this compaction. Microseconds; `i64::MIN` purges nothing.
    pub oldest_elsewhere: i64,
    /// Columns whose cells went with them; `None` keeps all cells.
    pub drops: Option<&'t ColumnDrops>,
}

impl Purge<'_> {
    /// Purges nothing, expires nothing.
    pub const NOTHING: Purge<'static> =
        Purge { now_s: 0, gc_before_s: 0, oldest_elsewhere: i64::MIN, drops: None };

    /// Whether a tombstone is no longer needed.
    pub fn drops(&self, deletion: Deletion) -> bool {
        deletion.local_s < self.gc_before_s && deletion.timestamp < self.oldest_elsewhere
    }

    /// Whether a cell or marker is dead and has nothing left to shadow. Until then an expired marker
    /// stays: without it an older one elsewhere would bring the row back.
    fn outlived(&self, timestamp: i64, life: &Life) -> bool {
        let local_s = match *life {
            Life::Live => return false,
            Life::Expiring(expiry) if expiry.at_s > self.now_s => return false,
            Life::Expiring(expiry) => died_s(expiry),
            Life::Dead { local_s } => local_s,
        };
        self.drops(Deletion { timestamp, local_s })
    }
}

/// When the tombstone was made that an expired cell is.
fn died_s(expiry: Expiry) -> u32 {
    expiry.at_s.saturating_sub(expiry.ttl_s)
}

/// What compaction keeps of `row` under `covering`; `None` if that is nothing.
///
/// A row that nothing covers, and that has nothing mortal and nothing of a dropped column, is handed back as it is; of
/// any other the rest is built in `scratch`.
pub fn compact<'a>(
    row: RowRef<'a>,
    covering: Deletion,
    purge: &Purge<'_>,
    scratch: &'a mut Vec<u8>,
) -> Option<RowRef<'a>> {
    let none = ColumnDrops::default();
    let drops = purge.drops.unwrap_or(&none);
    let is_dropped = |cell: &Cell<'_>| drops.ends(cell.column, cell.timestamp);
    if is_untouched(row, covering, drops, is_dropped) {
        return unless_empty(row);
    }
    let mut head = row.head();
    let deletion = covering.max(head.deletion);
    head.marker = head
        .marker
        .filter(|life| !deletion.covers(head.timestamp) && !purge.outlived(head.timestamp, life));
    // A deletion that covers the row from outside is kept there, not here.
    if covering.max(head.deletion) == covering || purge.drops(head.deletion) {
        head.deletion = Deletion::NONE;
    }
    scratch.clear();
    let mut builder = RowBuilder::begin(scratch, &head);
    if let Some(written) = row.written() {
        builder.written(written);
    }
    let mut covering = Covering::of(deletion);
    for mut cell in row.cells() {
        if covering.covers(&cell) {
            continue;
        }
        if purge.outlived(cell.timestamp, &cell.life) || is_dropped(&cell) {
            continue;
        }
        if let Life::Expiring(expiry) = cell.life
            && cell.life.is_dead(purge.now_s)
        {
            cell.life = Life::Expiring(Expiry { ttl_s: 0, ..expiry });
            cell.value = &[];
        }
        builder.cell(&cell);
    }
    let something = !builder.has_no_cells() || head.marker.is_some() || !head.deletion.is_none();
    something.then_some(RowRef::trusted(scratch))
}

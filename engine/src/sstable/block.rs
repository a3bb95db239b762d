//! A data block: partitions and rows in order, each found by binary search.
//!
//! ```text
//! block        := slots of entries (`slots.rs`); heads are marked, a block with bounds is noted
//! entry        := partition | continuation | row | bound
//! partition    := 01+flags token:i64 key [deletion] [static row]     flags 08 deleted, 10 static row
//! continuation := 02+flags token:i64 key [deletion] [open]           flags 08 deleted, 10 has a static
//!                                                                    row, 20 a deletion is open
//! row          := 03 clustering row…                                 the row ends with the entry
//! bound        := 04+flags at [below] [above]                        flags 08 below, 10 above
//! deletion, open, below, above := timestamp:i64 local_s:u32
//! key, clustering, at, static row := length:varint bytes
//! ```
//!
//! The first entry of a block is a head, so every block explains itself: a block that goes on with a
//! partition begins by saying which, what deletes it whole, and which range deletion is in force.

use std::cmp::Ordering;

use model::Token;
use model::bytes::{Cursor, compare, put_bytes};
use model::cell::Deletion;
use model::row::RowRef;

use super::slots::{Slots, SlotsBuilder};

const PARTITION: u8 = 1;
const CONTINUATION: u8 = 2;
const ROW: u8 = 3;
const BOUND: u8 = 4;
const KIND: u8 = 7;
const DELETED: u8 = 8;
const STATIC: u8 = 16;
const OPEN: u8 = 32;
const BELOW: u8 = 8;
const ABOVE: u8 = 16;

/// The entry that names a partition: its beginning, or a reminder at the start of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) token: Token,
    pub(super) key: &'a [u8],
    pub(super) deletion: Deletion,
    pub(super) rest: HeadRest<'a>,
}

/// In which a beginning and a reminder differ.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeadRest<'a> {
    /// The partition begins here.
    Begins { static_row: Option<RowRef<'a>> },
    /// It began in an earlier block.
    Continues { has_static: bool, open: Deletion },
}

impl Head<'_> {
    /// Where the sought partition stands, seen from this one.
    pub(super) fn order_of(&self, token: Token, key: &[u8]) -> Ordering {
        (token, key).cmp(&(self.token, self.key))
    }
}

/// A row and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) clustering: &'a [u8],
    pub(super) row: RowRef<'a>,
}

/// A place between rows where the range deletion in force changes: a reader of either direction
/// finds what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound<'a> {
    /// Above every clustering key less than these bytes, below the others.
    pub(super) at: &'a [u8],
    pub(super) below: Deletion,
    pub(super) above: Deletion,
}

/// Entries of a partition in a block between which no bound stands: one range deletion is in force just below each,
/// from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    first: usize,
    last: usize,
    pub(super) deletion: Deletion,
}

/// One entry that is not a head.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inner<'a> {
    Row(Row<'a>),
    Bound(Bound<'a>),
}

impl<'a> Inner<'a> {
    /// Its place among the entries of the partition; a bound stands below a row of the same bytes.
    pub(super) fn place(&self) -> (&'a [u8], bool) {
        match self {
            Inner::Row(row) => (row.clustering, true),
            Inner::Bound(bound) => (bound.at, false),
        }
    }
}

/// Builds blocks, one after the other.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    slots: SlotsBuilder,
}

impl BlockBuilder {
    pub(super) fn head(&mut self, head: &Head<'_>) {
        let reminds = matches!(head.rest, HeadRest::Continues { .. });
        assert!(!reminds || self.slots.is_empty(), "a partition goes on at the start of a block");
        let mut flags = if head.deletion.is_none() { 0 } else { DELETED };
        flags |= match head.rest {
            HeadRest::Begins { static_row: None } => PARTITION,
            HeadRest::Begins { static_row: Some(_) } => PARTITION | STATIC,
            HeadRest::Continues { has_static, open } => {
                let has_static = if has_static { STATIC } else { 0 };
                CONTINUATION | has_static | if open.is_none() { 0 } else { OPEN }
            }
        };
        self.slots.marked_item(|out| {
            out.push(flags);
            out.extend_from_slice(&head.token.0.to_le_bytes());
            put_bytes(out, head.key);
            put_deletion(out, head.deletion);
            match head.rest {
                HeadRest::Begins { static_row: Some(row) } => put_bytes(out, row.bytes()),
                HeadRest::Begins { static_row: None } => {}
                HeadRest::Continues { open, .. } => put_deletion(out, open),
            }
        });
    }

    pub(super) fn row(&mut self, row: &Row<'_>) {
        assert!(!self.slots.is_empty(), "a block begins with a head");
        self.slots.item(|out| {
            out.push(ROW);
            put_bytes(out, row.clustering);
            out.extend_from_slice(row.row.bytes());
        });
    }

    pub(super) fn bound(&mut self, bound: &Bound<'_>) {
        assert!(!self.slots.is_empty(), "a block begins with a head");
        assert_ne!(bound.below, bound.above, "a bound changes the deletion in force");
        let below = if bound.below.is_none() { 0 } else { BELOW };
        let above = if bound.above.is_none() { 0 } else { ABOVE };
        self.slots.note();
        self.slots.item(|out| {
            out.push(BOUND | below | above);
            put_bytes(out, bound.at);
            put_deletion(out, bound.below);
            put_deletion(out, bound.above);
        });
    }

    /// How many entries.
    pub(super) fn count(&self) -> usize {
        self.slots.count()
    }

    /// How long the block would be.
    pub(super) fn bytes(&self) -> usize {
        self.slots.bytes()
    }

    /// Appends a block of the first `count` entries to `out`; the others begin the next.
    pub(super) fn finish(&mut self, count: usize, out: &mut Vec<u8>) {
        self.slots.finish(count, out);
    }
}

fn put_deletion(out: &mut Vec<u8>, deletion: Deletion) {
    if !deletion.is_none() {
        out.extend_from_slice(&deletion.timestamp.to_le_bytes());
        out.extend_from_slice(&deletion.local_s.to_le_bytes());
    }
}

/// A data block to read.
#[derive(Debug)]
pub(super) struct Block<'a> {
    slots: &'a Slots,
}

type Read<T> = Result<T, &'static str>;

impl<'a> Block<'a> {
    pub(super) fn new(slots: &'a Slots) -> Block<'a> {
        Block { slots }
    }

    pub(super) fn count(&self) -> usize {
        self.slots.count()
    }

    /// Whether the entry is a head.
    pub(super) fn is_head(&self, index: usize) -> bool {
        self.slots.is_marked(index)
    }

    /// The head at `index`.
    pub(super) fn head(&self, index: usize) -> Read<Head<'a>> {
        read_head(self.slots.item(index)).map_err(|_| "a head that is none")
    }

    /// The row or bound at `index`.
    #[inline]
    pub(super) fn inner(&self, index: usize) -> Read<Inner<'a>> {
        read_inner(self.slots.item(index)).map_err(|_| "an entry that is none")
    }

    /// The index after the last entry of the partition whose head is at `head`.
    pub(super) fn end_of(&self, head: usize) -> usize {
        (head + 1..self.count()).find(|&index| self.is_head(index)).unwrap_or(self.count())
    }

    /// The head of a partition: `Ok(index)`, or where it would stand.
    pub(super) fn find(&self, token: Token, key: &[u8]) -> Read<Result<usize, usize>> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let mut middle = low + (high - low) / 2;
            while middle > low && !self.is_head(middle) {
                middle -= 1;
            }
            if !self.is_head(middle) {
                return Err("a block that does not begin with a head");
            }
            match self.head(middle)?.order_of(token, key) {
                Ordering::Less => high = middle,
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Greater => low = self.end_of(middle),
            }
        }
        Ok(Err(low))
    }

    /// The first entry at or above the place `at`, of the partition of `head`, which ends at `end`; `end` if there is none.
    pub(super) fn at_or_above(&self, head: usize, end: usize, at: &[u8]) -> Read<usize> {
        let (mut low, mut high) = (head + 1, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if compare(self.inner(middle)?.place().0, at).is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The range deletion in force just below the entry `index` of the partition of `head`, and below which others. No
    /// entry is looked at of which that is known: a walk from slice to slice looks at each entry once.
    pub(super) fn open_below(
        &self,
        head: usize,
        index: usize,
        known: Option<Stretch>,
    ) -> Read<Stretch> {
        let before = known.filter(|known| known.first <= index);
        if let Some(known) = before.filter(|known| index <= known.last) {
            return Ok(known);
        }
        if self.slots.is_noted() {
            for at in (before.map_or(head + 1, |known| known.last)..index).rev() {
                if self.slots.item(at).first().is_some_and(|kind| kind & KIND == BOUND)
                    && let Inner::Bound(bound) = self.inner(at)?
                {
                    return Ok(Stretch { first: at + 1, last: index, deletion: bound.above });
                }
            }
        }
        let (first, deletion) = match before {
            Some(known) => (known.first, known.deletion),
            None => (head + 1, self.open_at(head)?),
        };
        Ok(Stretch { first, last: index, deletion })
    }

    /// The range deletion in force where the partition of `head` begins in this block.
    fn open_at(&self, head: usize) -> Read<Deletion> {
        // What begins here needs no look at the rest of its head.
        if self.slots.item(head).first().is_some_and(|kind| kind & KIND == PARTITION) {
            return Ok(Deletion::NONE);
        }
        match self.head(head)?.rest {
            HeadRest::Begins { .. } => Ok(Deletion::NONE),
            HeadRest::Continues { open, .. } => Ok(open),
        }
    }
}

fn read_head(bytes: &[u8]) -> model::Result<Head<'_>> {
    let mut cursor = Cursor::new(bytes);
    let flags = cursor.u8()?;
    let token = Token(cursor.i64()?);
    let key = cursor.bytes()?;
    let deletion = read_deletion(&mut cursor, flags, DELETED)?;
    let rest = match flags & KIND {
        PARTITION if flags & !(KIND | DELETED | STATIC) == 0 => {
            let has_static = flags & STATIC != 0;
            let static_row = if has_static { Some(RowRef::trusted(cursor.bytes()?)) } else { None };
            HeadRest::Begins { static_row }
        }
        CONTINUATION if flags & !(KIND | DELETED | STATIC | OPEN) == 0 => {
            let open = read_deletion(&mut cursor, flags, OPEN)?;
            HeadRest::Continues { has_static: flags & STATIC != 0, open }
        }
        _ => return Err(model::Error::Malformed("head")),
    };
    if cursor.is_empty() {
        Ok(Head { token, key, deletion, rest })
    } else {
        Err(model::Error::Malformed("head"))
    }
}

#[inline]
fn read_inner(bytes: &[u8]) -> model::Result<Inner<'_>> {
    let mut cursor = Cursor::new(bytes);
    let flags = cursor.u8()?;
    let place = cursor.bytes()?;
    if flags == ROW {
        return Ok(Inner::Row(Row { clustering: place, row: RowRef::trusted(cursor.rest()) }));
    }
    if flags & !(BELOW | ABOVE) != BOUND {
        return Err(model::Error::Malformed("entry"));
    }
    let below = read_deletion(&mut cursor, flags, BELOW)?;
    let above = read_deletion(&mut cursor, flags, ABOVE)?;
    if !cursor.is_empty() {
        return Err(model::Error::Malformed("bound"));
    }
    Ok(Inner::Bound(Bound { at: place, below, above }))
}

/// The deletion that is there if `flag` is among `flags`.
fn read_deletion(cursor: &mut Cursor<'_>, flags: u8, flag: u8) -> model::Result<Deletion> {
    if flags & flag == 0 {
        return Ok(Deletion::NONE);
    }
    Ok(Deletion { timestamp: cursor.i64()?, local_s: cursor.u32()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DELETION: Deletion = Deletion { timestamp: 5, local_s: 6 };
    const OTHER: Deletion = Deletion { timestamp: 9, local_s: 9 };

    /// Partition `token` with rows of one byte, a bound below each that is divisible by three.
    fn put_partition(builder: &mut BlockBuilder, token: i64, rows: &[u8]) {
        let rest = HeadRest::Begins { static_row: None };
        builder.head(&Head { token: Token(token), key: b"key", deletion: DELETION, rest });
        put_rows(builder, rows);
    }

    fn put_rows(builder: &mut BlockBuilder, rows: &[u8]) {
        for row in rows {
            let at = std::slice::from_ref(row);
            if row % 3 == 0 {
                builder.bound(&Bound { at, below: Deletion::NONE, above: OTHER });
            }
            builder.row(&Row { clustering: at, row: RowRef::trusted(b"row") });
        }
    }

    fn block(builder: &mut BlockBuilder) -> Slots {
        let mut bytes = Vec::new();
        builder.finish(builder.count(), &mut bytes);
        Slots::open(bytes).expect("what was just built")
    }

    #[test]
    fn partitions_and_rows_are_found_by_binary_search() {
        let mut builder = BlockBuilder::default();
        for token in 0..20 {
            put_partition(&mut builder, token * 2, &[2, 3, 4, 5][..token as usize % 5]);
        }
        let slots = block(&mut builder);
        let block = Block::new(&slots);
        for token in 0..20 {
            let head = block.find(Token(token * 2), b"key").unwrap().unwrap();
            assert_eq!(block.head(head).unwrap().token, Token(token * 2));
            assert_eq!(block.head(head).unwrap().deletion, DELETION);
            assert!(block.find(Token(token * 2 + 1), b"key").unwrap().is_err());
            assert!(block.find(Token(token * 2), b"kex").unwrap().is_err());
            let end = block.end_of(head);
            let above_two = block.at_or_above(head, end, &[2, 0]).unwrap();
            match token % 5 {
                0 | 1 => assert_eq!(above_two, end),
                _ => assert_eq!(block.inner(above_two).unwrap().place(), (&[3][..], false)),
            }
            let above_three = block.at_or_above(head, end, &[3, 0]).unwrap();
            let open = if token % 5 >= 2 { OTHER } else { Deletion::NONE };
            assert_eq!(block.open_below(head, above_three, None).unwrap().deletion, open);
        }
    }

    #[test]
    fn a_continuation_says_which_deletion_is_open() {
        let mut builder = BlockBuilder::default();
        let rest = HeadRest::Continues { has_static: true, open: OTHER };
        builder.head(&Head { token: Token(1), key: b"k", deletion: Deletion::NONE, rest });
        put_rows(&mut builder, &[4, 6]);
        let slots = block(&mut builder);
        let block = Block::new(&slots);
        assert_eq!(block.find(Token(1), b"k").unwrap(), Ok(0));
        assert_eq!(block.open_below(0, 1, None).unwrap().deletion, OTHER);
        assert!(matches!(
            block.head(0).unwrap().rest,
            HeadRest::Continues { has_static: true, .. }
        ));
    }

    /// Before: each slice went through all entries back to the last bound, and through all marks to the partition's
    /// end: 512 slices in a block of 256 KiB were 20 ms in one step.
    #[test]
    fn a_walk_from_slice_to_slice_looks_at_each_entry_once() {
        const ROWS: u16 = 3000;
        let mut builder = BlockBuilder::default();
        let rest = HeadRest::Continues { has_static: false, open: DELETION };
        builder.head(&Head { token: Token(1), key: b"k", deletion: Deletion::NONE, rest });
        for at in 0..ROWS {
            let at = &at.to_be_bytes();
            if at == &2000u16.to_be_bytes() {
                builder.bound(&Bound { at, below: DELETION, above: OTHER });
            }
            builder.row(&Row { clustering: at, row: RowRef::trusted(b"row") });
        }
        let slots = block(&mut builder);
        let (block, end) = (Block::new(&slots), slots.count());
        let looks_before = slots.looks();
        let (mut known, mut slices) = (None, 0);
        let places = (0..ROWS).step_by(6).chain((0..ROWS).rev().step_by(6));
        for at in places {
            let index = block.at_or_above(0, end, &at.to_be_bytes()).unwrap();
            let stretch = block.open_below(0, index, known).unwrap();
            assert_eq!(stretch.deletion, if at <= 2000 { DELETION } else { OTHER }, "{at}");
            (known, slices) = (Some(stretch), slices + 1);
        }
        let looks = slots.looks() - looks_before;
        // Each of 12 items of a binary search, and each entry on each way, by both of its ends.
        assert!(looks <= 26 * slices + 4 * end, "{looks} for {slices} slices");
    }

    proptest! {
        #[test]
        fn arbitrary_entries_never_panic(
            entries in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..30)), 1..9),
            token: i64, key: Vec<u8>
        ) {
            let mut builder = SlotsBuilder::default();
            for (mark, entry) in &entries {
                let write = |out: &mut Vec<u8>| out.extend_from_slice(entry);
                if *mark { builder.marked_item(write) } else { builder.item(write) }
            }
            builder.note();
            let mut bytes = Vec::new();
            builder.finish(entries.len(), &mut bytes);
            let slots = Slots::open(bytes).expect("what was just built");
            let block = Block::new(&slots);
            let _ = block.find(Token(token), &key);
            let above = block.at_or_above(0, block.end_of(0), &key);
            let _ = above.map(|index| block.open_below(0, index, None));
        }
    }
}

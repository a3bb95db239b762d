//! One partition's change as bytes: what a request becomes, the log keeps and the memtable takes.
//!
//! ```text
//! mutation := table:16 token:i64 key flags:u8 [timestamp:i64 local_s:u32] [static row]
//!             ranges:varint (start end timestamp:i64 local_s:u32)*
//!             rows:varint (clustering row)* [changes:varint (list change | counter change | slice)*] [conditions]
//! key, start, end, clustering, row, conditions := length:varint bytes
//! flags: 1 the partition is deleted, 2 a static row follows, 4 list changes follow (`list_change.rs`),
//!        8 conditions follow (`condition/form.rs`), 16 counter changes follow (`counter_change.rs`), and then no others,
//!        32 slices follow that are written to views again (`view_slice.rs`), and then no changes
//! record := (length:varint mutation)+               the mutations of one batch for one shard
//! ```
//!
//! A mutation carries its timestamps, so applying it twice is applying it once. Rows need not be
//! in order; range tombstones cover `start <= clustering < end` as bytes (`key.rs`). Changes and conditions are for the
//! owner of the partition, on the way to the log: a log never holds them. The conditions of a record are those of its
//! first mutation, and hold for all of it.

mod counter_change;
mod list_change;
mod view_slice;

pub use counter_change::CounterChange;
pub use list_change::{ListChange, ListOp};
use uuid::Uuid;

use crate::bytes::{Cursor, put_bytes};
use crate::cell::Deletion;
use crate::condition::{Conditions, ConditionsBuilder, Wanted};
use crate::read::Slice;
use crate::row::RowRef;
use crate::schema::TableId;
use crate::token::Token;
use crate::{Error, Result};

const PARTITION_DELETED: u8 = 1;
const HAS_STATIC: u8 = 2;
const HAS_LIST_CHANGES: u8 = 4;
const HAS_CONDITIONS: u8 = 8;
const HAS_COUNTER_CHANGES: u8 = 16;
const HAS_VIEW_SLICES: u8 = 32;
/// Changes of one kind: a table of counters has no lists.
const HAS_CHANGES: u8 = HAS_LIST_CHANGES | HAS_COUNTER_CHANGES | HAS_VIEW_SLICES;
/// What the owner of the partition has to read for.
const READS_FIRST: u8 = HAS_CHANGES | HAS_CONDITIONS;

/// A deleted stretch of a partition: `start <= clustering < end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeTombstone<'a> {
    /// First deleted clustering, as a bound.
    pub start: &'a [u8],
    /// First that is not deleted any more, as a bound.
    pub end: &'a [u8],
    /// What it deletes.
    pub deletion: Deletion,
}

/// What stands behind the rows: a count and so many changes.
#[derive(Clone, Copy, Debug)]
enum Changes<'a> {
    None,
    Lists(Cursor<'a>),
    Counters(Cursor<'a>),
    ViewSlices(Cursor<'a>),
}

/// A view of one mutation.
#[derive(Clone, Copy, Debug)]
pub struct MutationRef<'a> {
    /// Id of the table that is changed.
    pub table: TableId,
    /// The token of the key.
    pub token: Token,
    /// The serialised partition key.
    pub key: &'a [u8],
    /// The partition tombstone, or [`Deletion::NONE`].
    pub deletion: Deletion,
    /// The static row.
    pub static_row: Option<RowRef<'a>>,
    /// How many range tombstones.
    pub range_count: u64,
    /// How many rows.
    pub row_count: u64,
    ranges: Cursor<'a>,
    rows: Cursor<'a>,
    /// The changes, each walked when it was parsed.
    changes: Changes<'a>,
    /// The bytes of the conditions, walked when they were parsed.
    conditions: Option<&'a [u8]>,
}

impl<'a> MutationRef<'a> {
    /// The mutations of a record, each checked through and through.
    pub fn of_record(record: &'a [u8]) -> impl Iterator<Item = Result<MutationRef<'a>>> + Clone {
        each_of(record, MutationRef::checked)
    }

    /// The mutations of a record that was built here, or that is under a checksum: their rows are trusted.
    #[inline]
    pub fn of_trusted_record(
        record: &'a [u8],
    ) -> impl Iterator<Item = Result<MutationRef<'a>>> + Clone {
        each_of(record, MutationRef::parse)
    }

    /// Table, token and key of each mutation of a record that was built here, without reading more of it.
    #[inline]
    pub fn partitions_of_trusted_record(
        record: &'a [u8],
    ) -> impl Iterator<Item = Result<(TableId, Token, &'a [u8])>> + Clone {
        each_of(record, |mutation| {
            let mut cursor = Cursor::new(mutation);
            Ok((TableId(cursor.uuid()?), Token(cursor.i64()?), cursor.bytes()?))
        })
    }

    /// Reads one mutation and walks all of it.
    pub fn checked(bytes: &'a [u8]) -> Result<Self> {
        let mutation = MutationRef::parse(bytes)?;
        if mutation.reads_first() {
            return Err(Error::Malformed("mutation: what has to be read for"));
        }
        if let Some(row) = mutation.static_row {
            RowRef::checked(row.bytes())?;
        }
        let mut rows = mutation.rows;
        for _ in 0..mutation.row_count {
            rows.bytes()?;
            RowRef::checked(rows.bytes()?)?;
        }
        if rows.is_empty() { Ok(mutation) } else { Err(Error::Malformed("mutation: bytes left")) }
    }

    /// Reads one mutation whose rows are trusted: built here, or under a checksum.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let table = TableId(cursor.uuid()?);
        let token = Token(cursor.i64()?);
        let key = cursor.bytes()?;
        let flags = cursor.u8()?;
        if flags & !(PARTITION_DELETED | HAS_STATIC | READS_FIRST) != 0 {
            return Err(Error::Malformed("mutation flags"));
        }
        let deletion = if flags & PARTITION_DELETED == 0 {
            Deletion::NONE
        } else {
            Deletion { timestamp: cursor.i64()?, local_s: cursor.u32()? }
        };
        let static_row =
            if flags & HAS_STATIC == 0 { None } else { Some(RowRef::trusted(cursor.bytes()?)) };
        let range_count = cursor.varint()?;
        let ranges = cursor;
        for _ in 0..range_count {
            get_range(&mut cursor)?;
        }
        let row_count = cursor.varint()?;
        let rows = cursor;
        let (changes, conditions) = match flags & READS_FIRST {
            0 => (Changes::None, None),
            flags => walk_tail(cursor, row_count, flags)?,
        };
        let m = MutationRef {
            table,
            token,
            key,
            deletion,
            static_row,
            range_count,
            row_count,
            ranges,
            rows,
            changes,
            conditions,
        };
        Ok(m)
    }

    /// Whether something has to be read before it is written: elements that it changes, or what its conditions ask.
    #[inline]
    pub fn reads_first(&self) -> bool {
        !matches!(self.changes, Changes::None) || self.conditions.is_some()
    }

    /// Whether it says anything of rows, or asks that they are looked at: not of the static row alone.
    pub fn changes_rows(&self) -> bool {
        self.row_count > 0 || self.range_count > 0 || !self.deletion.is_none() || self.reads_first()
    }

    /// Whether it changes elements that have to be read first.
    pub fn changes_lists(&self) -> bool {
        matches!(self.changes, Changes::Lists(_))
    }

    /// Whether it changes counters, which have to be read first.
    pub fn changes_counters(&self) -> bool {
        matches!(self.changes, Changes::Counters(_))
    }

    /// What must be so for the record to be written.
    pub fn conditions(&self) -> Option<Conditions<'a>> {
        self.conditions.map(|bytes| Conditions::parse(bytes).expect("walked when parsed"))
    }

    /// The token of a mutation's bytes: all that routing needs, and nothing else is looked at.
    #[inline]
    pub fn token_of(bytes: &[u8]) -> Result<Token> {
        let mut cursor = Cursor::new(bytes);
        cursor.take(size_of::<Uuid>())?;
        Ok(Token(cursor.i64()?))
    }

    /// The range tombstones.
    pub fn ranges(&self) -> impl Iterator<Item = RangeTombstone<'a>> + use<'a> {
        let mut cursor = self.ranges;
        (0..self.range_count).map(move |_| get_range(&mut cursor).expect("walked when parsed"))
    }

    /// The list changes.
    pub fn list_changes(&self) -> impl Iterator<Item = ListChange<'a>> + use<'a> {
        let changes = match self.changes {
            Changes::Lists(changes) => Some(changes),
            _ => None,
        };
        changes_of(changes, list_change::get_change)
    }

    /// The counter changes.
    pub fn counter_changes(&self) -> impl Iterator<Item = CounterChange<'a>> + use<'a> {
        let changes = match self.changes {
            Changes::Counters(changes) => Some(changes),
            _ => None,
        };
        changes_of(changes, counter_change::get_change)
    }

    /// The slices whose rows are to be written to views again.
    pub fn view_slices(&self) -> impl Iterator<Item = Slice> + use<'a> {
        let slices = match self.changes {
            Changes::ViewSlices(slices) => Some(slices),
            _ => None,
        };
        changes_of(slices, view_slice::get_slice)
    }

    /// The rows, each with its clustering key.
    pub fn rows(&self) -> impl Iterator<Item = (&'a [u8], RowRef<'a>)> + use<'a> {
        let mut cursor = self.rows;
        (0..self.row_count).map(move |_| {
            let clustering = cursor.bytes().expect("a well-formed mutation");
            (clustering, RowRef::trusted(cursor.bytes().expect("a well-formed mutation")))
        })
    }
}

/// The changes at a place where they were walked.
fn changes_of<'a, C>(
    changes: Option<Cursor<'a>>,
    get: impl Fn(&mut Cursor<'a>) -> Result<C>,
) -> impl Iterator<Item = C> {
    let mut cursor = changes.unwrap_or(Cursor::new(&[]));
    let count = changes.map_or(0, |_| cursor.varint().expect("walked when parsed"));
    (0..count).map(move |_| get(&mut cursor).expect("walked when parsed"))
}

/// What stands behind the rows: changes and conditions.
type Tail<'a> = (Changes<'a>, Option<&'a [u8]>);

/// Walks what stands behind so many rows: all of it is well-formed.
#[cold]
fn walk_tail(mut cursor: Cursor<'_>, row_count: u64, flags: u8) -> Result<Tail<'_>> {
    for _ in 0..row_count {
        cursor.bytes()?;
        cursor.bytes()?;
    }
    let mut tail = (Changes::None, None);
    match flags & HAS_CHANGES {
        0 => {}
        HAS_LIST_CHANGES => {
            tail.0 = Changes::Lists(cursor);
            for _ in 0..cursor.varint()? {
                list_change::get_change(&mut cursor)?;
            }
        }
        HAS_COUNTER_CHANGES => {
            tail.0 = Changes::Counters(cursor);
            for _ in 0..cursor.varint()? {
                counter_change::get_change(&mut cursor)?;
            }
        }
        HAS_VIEW_SLICES => {
            tail.0 = Changes::ViewSlices(cursor);
            for _ in 0..cursor.varint()? {
                view_slice::get_slice(&mut cursor)?;
            }
        }
        _ => return Err(Error::Malformed("mutation: changes of two kinds")),
    }
    if flags & HAS_CONDITIONS != 0 {
        let bytes = cursor.bytes()?;
        Conditions::parse(bytes)?;
        tail.1 = Some(bytes);
    }
    if cursor.is_empty() { Ok(tail) } else { Err(Error::Malformed("mutation: bytes left")) }
}

/// What `read` makes of each mutation of a record. An error is the last that is given.
#[inline]
fn each_of<'a, T>(
    record: &'a [u8],
    read: impl Fn(&'a [u8]) -> Result<T> + Clone,
) -> impl Iterator<Item = Result<T>> + Clone {
    let mut cursor = Cursor::new(record);
    std::iter::from_fn(move || {
        if cursor.is_empty() {
            return None;
        }
        let mutation = cursor.bytes().and_then(&read);
        if mutation.is_err() {
            cursor = Cursor::new(&[]);
        }
        Some(mutation)
    })
}

fn get_range<'a>(cursor: &mut Cursor<'a>) -> Result<RangeTombstone<'a>> {
    Ok(RangeTombstone {
        start: cursor.bytes()?,
        end: cursor.bytes()?,
        deletion: Deletion { timestamp: cursor.i64()?, local_s: cursor.u32()? },
    })
}

/// Appends one mutation to a record.
///
/// The pieces come in the order of the bytes: the type of each step says what may follow. Rows and
/// static rows are written by a closure straight into the record, so nothing is built twice.
#[derive(Debug)]
pub struct MutationBuilder<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    flags_at: usize,
    ranges: u32,
    rows: u32,
    rows_at: Option<usize>,
    ranges_at: Option<usize>,
    changes: u32,
    changes_at: Option<usize>,
}

/// Width of a length or count that is only known later: a varint padded to this many bytes.
const PADDED: usize = 4;

/// Reserves a padded varint.
fn reserve(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0x80, 0x80, 0x80, 0x00]);
    at
}

/// Fills a padded varint: 28 bits, more than a mutation can hold.
fn patch(out: &mut [u8], at: usize, value: usize) {
    assert!(value < 1 << (7 * PADDED), "a mutation is bounded");
    for (i, byte) in out[at..at + PADDED].iter_mut().enumerate() {
        let more = if i + 1 < PADDED { 0x80 } else { 0 };
        *byte = (value >> (7 * i)) as u8 & 0x7F | more;
    }
}

impl<'o> MutationBuilder<'o> {
    /// Starts a mutation at the end of `record`.
    pub fn begin(record: &'o mut Vec<u8>, table: TableId, token: Token, key: &[u8]) -> Self {
        let start = reserve(record);
        record.extend_from_slice(table.0.as_bytes());
        record.extend_from_slice(&token.0.to_le_bytes());
        put_bytes(record, key);
        let flags_at = record.len();
        record.push(0);
        MutationBuilder {
            out: record,
            start,
            flags_at,
            ranges: 0,
            rows: 0,
            rows_at: None,
            ranges_at: None,
            changes: 0,
            changes_at: None,
        }
    }

    /// Deletes the partition. First of all.
    pub fn delete_partition(&mut self, deletion: Deletion) {
        assert_eq!(self.out.len(), self.flags_at + 1, "the partition tombstone comes first");
        self.out[self.flags_at] |= PARTITION_DELETED;
        self.out.extend_from_slice(&deletion.timestamp.to_le_bytes());
        self.out.extend_from_slice(&deletion.local_s.to_le_bytes());
    }

    /// Writes the static row. Before ranges and rows, once.
    pub fn static_row<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let flags = self.out[self.flags_at];
        assert!(flags & HAS_STATIC == 0 && self.ranges_at.is_none(), "static row, then the rest");
        self.out[self.flags_at] = flags | HAS_STATIC;
        sized(self.out, write)
    }

    /// Deletes a range. Before rows.
    pub fn delete_range(&mut self, range: &RangeTombstone<'_>) {
        assert!(self.rows_at.is_none(), "ranges before rows");
        self.open_ranges();
        self.ranges += 1;
        put_bytes(self.out, range.start);
        put_bytes(self.out, range.end);
        self.out.extend_from_slice(&range.deletion.timestamp.to_le_bytes());
        self.out.extend_from_slice(&range.deletion.local_s.to_le_bytes());
    }

    /// Writes a row.
    pub fn row<R>(&mut self, clustering: &[u8], write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        assert!(self.changes_at.is_none(), "rows before changes");
        self.open_rows();
        self.rows += 1;
        put_bytes(self.out, clustering);
        sized(self.out, write)
    }

    /// Ends the mutation with what must be so for the record to be written; gives its length in the record. Only the
    /// first mutation of a record may.
    pub fn finish_with_conditions(
        mut self,
        conditions: &ConditionsBuilder,
        wanted: Wanted,
        (timestamp, now_s): (i64, u32),
    ) -> usize {
        self.open_rows();
        self.out[self.flags_at] |= HAS_CONDITIONS;
        sized(self.out, |out| conditions.put(wanted, timestamp, now_s, out));
        self.finish()
    }

    /// Ends the mutation; gives its length in the record.
    pub fn finish(mut self) -> usize {
        self.open_rows();
        if let Some(at) = self.ranges_at {
            patch(self.out, at, self.ranges as usize);
        }
        if let Some(at) = self.rows_at {
            patch(self.out, at, self.rows as usize);
        }
        if let Some(at) = self.changes_at {
            patch(self.out, at, self.changes as usize);
        }
        let bytes = self.out.len() - self.start - PADDED;
        patch(self.out, self.start, bytes);
        bytes
    }

    /// Counts one more change of this kind; gives where it is written.
    fn open_changes(&mut self, kind: u8) -> &mut Vec<u8> {
        self.open_rows();
        if self.changes_at.is_none() {
            self.out[self.flags_at] |= kind;
            self.changes_at = Some(reserve(self.out));
        }
        assert_eq!(self.out[self.flags_at] & HAS_CHANGES, kind, "changes are of one kind");
        self.changes += 1;
        self.out
    }

    fn open_ranges(&mut self) {
        if self.ranges_at.is_none() {
            self.ranges_at = Some(reserve(self.out));
        }
    }

    fn open_rows(&mut self) {
        self.open_ranges();
        if self.rows_at.is_none() {
            self.rows_at = Some(reserve(self.out));
        }
    }
}

fn sized<R>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let at = reserve(out);
    let from = out.len();
    let result = write(out);
    let bytes = out.len() - from;
    patch(out, at, bytes);
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::row::{Cell, RowBuilder, RowHead};
    use crate::schema::ColumnId;

    fn sample() -> Vec<u8> {
        let mut record = Vec::new();
        let mut m =
            MutationBuilder::begin(&mut record, TableId(Uuid::from_u128(7)), Token(9), b"k");
        m.delete_partition(Deletion { timestamp: 3, local_s: 4 });
        m.static_row(|out| {
            RowBuilder::begin(out, &RowHead::bare(5)).cell(&Cell::live(ColumnId(1), 5, b"s"));
        });
        let deletion = Deletion { timestamp: 6, local_s: 7 };
        m.delete_range(&RangeTombstone { start: b"a", end: b"b", deletion });
        m.row(b"c", |out| {
            RowBuilder::begin(out, &RowHead::bare(8)).cell(&Cell::live(ColumnId(2), 8, b"v"));
        });
        m.finish();
        let m = MutationBuilder::begin(&mut record, TableId(Uuid::from_u128(8)), Token(10), b"l");
        m.finish();
        record
    }

    #[test]
    fn a_record_of_two_mutations_reads_back() {
        let record = sample();
        let all: Result<Vec<_>> = MutationRef::of_record(&record).collect();
        let all = all.expect("what was just built");
        assert_eq!(all.len(), 2);
        let first = &all[0];
        assert_eq!((first.token, first.key), (Token(9), &b"k"[..]));
        assert_eq!(first.deletion, Deletion { timestamp: 3, local_s: 4 });
        let static_row = first.static_row.expect("it has one");
        assert_eq!(static_row.cells().next().map(|cell| cell.value), Some(&b"s"[..]));
        assert_eq!(first.ranges().next().map(|range| range.end), Some(&b"b"[..]));
        let (clustering, row) = first.rows().next().expect("it has one");
        assert_eq!((clustering, row.head().timestamp), (&b"c"[..], 8));
        assert_eq!((all[1].row_count, all[1].range_count), (0, 0));
    }

    proptest! {
        #[test]
        fn a_mutilated_record_is_an_error_or_reads_but_never_panics(
            at: prop::sample::Index, bit in 0..8u8, cut: prop::sample::Index
        ) {
            let mut record = sample();
            let i = at.index(record.len());
            record[i] ^= 1 << bit;
            record.truncate(cut.index(record.len() + 1));
            for mutation in MutationRef::of_record(&record).flatten() {
                let _ = mutation.rows().count() + mutation.ranges().count();
            }
        }
    }
}

//! Changes of lists by index or by value, and of numbers and texts that grow: what they write depends on what is there.
//!
//! ```text
//! change := op:u8 [clustering] column:u16 timestamp:i64 now_s:u32 [ttl_s:u32 at_s:u32] [index:i32] [path] [value]
//! op     1 set   2 delete by index   3 discard by value   4 keep: only that there is such an index
//!        5 add at a path   6 clear: a change after it sees an empty list
//!        7 grow: the value is added to a number, or appended to a text, that is no list
//!        16 of the static row (no clustering)   32 expires   64 has a value; else a set writes a tombstone
//! ```
//!
//! A change stands behind the rows of a mutation until the owner of the partition has read the column and put cells in
//! its place (`engine/src/read_before_write.rs`). Invariant: no log, memtable or file holds one.

use super::{HAS_LIST_CHANGES, MutationBuilder};
use crate::bytes::{Cursor, put_bytes};
use crate::cell::Expiry;
use crate::schema::ColumnId;
use crate::{Error, Result};

const SET: u8 = 1;
const DELETE: u8 = 2;
const DISCARD: u8 = 3;
const KEEP: u8 = 4;
const ADD: u8 = 5;
const CLEAR: u8 = 6;
const GROW: u8 = 7;
const KIND: u8 = 15;
const OF_STATIC: u8 = 16;
const EXPIRES: u8 = 32;
const HAS_VALUE: u8 = 64;

/// A change of one list by index or by value, or of one number or text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListChange<'a> {
    /// The row of what is changed; `None` is the static row.
    pub clustering: Option<&'a [u8]>,
    /// Id of its column.
    pub column: ColumnId,
    /// When it is written, in microseconds.
    pub timestamp: i64,
    /// Seconds since 1970: what expires until then is dead, and tombstones are made then.
    pub now_s: u32,
    /// Which elements, and what becomes of them.
    pub op: ListOp<'a>,
}

/// What becomes of the elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOp<'a> {
    /// `l[i] = v`: the element at the index is written anew; `None` deletes it.
    Set {
        /// Index among the elements that live, from 0; a client may send any.
        index: i32,
        /// The element in CQL wire form.
        value: Option<&'a [u8]>,
        /// Until when the element lives.
        expiry: Option<Expiry>,
    },
    /// `DELETE l[i]`: the element at the index goes.
    Delete {
        /// Index of the element; a client may send any.
        index: i32,
    },
    /// `l[i] = v` whose value is unset: nothing is written, and the index must be of an element.
    Keep {
        /// Index of the element; a client may send any.
        index: i32,
    },
    /// `l = l - [v]`: all elements of this value go.
    Discard {
        /// The value in CQL wire form.
        value: &'a [u8],
    },
    /// `l = l + [v]`, only in a statement that also changes the list by index or value: those changes see the element.
    Add {
        /// Where it stands among the others.
        path: &'a [u8],
        /// The element in CQL wire form.
        value: &'a [u8],
        /// Until when the element lives.
        expiry: Option<Expiry>,
    },
    /// `DELETE l`, only in a statement that also changes the list by index or value: those changes see it empty.
    Clear,
    /// `c = c + v` of a number or text, under a condition.
    Grow {
        /// What is added, in CQL wire form.
        value: &'a [u8],
        /// Until when the sum lives.
        expiry: Option<Expiry>,
    },
}

impl MutationBuilder<'_> {
    /// Changes a list. After all rows.
    pub fn list_change(&mut self, change: &ListChange<'_>) {
        let out = self.open_changes(HAS_LIST_CHANGES);
        let (mut flags, index, value, expiry) = match change.op {
            ListOp::Set { index, value, expiry } => (SET, Some(index), value, expiry),
            ListOp::Delete { index } => (DELETE, Some(index), None, None),
            ListOp::Keep { index } => (KEEP, Some(index), None, None),
            ListOp::Discard { value } => (DISCARD, None, Some(value), None),
            ListOp::Add { value, expiry, .. } => (ADD, None, Some(value), expiry),
            ListOp::Clear => (CLEAR, None, None, None),
            ListOp::Grow { value, expiry } => (GROW, None, Some(value), expiry),
        };
        for (flag, is_set) in [
            (OF_STATIC, change.clustering.is_none()),
            (EXPIRES, expiry.is_some()),
            (HAS_VALUE, value.is_some()),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        out.push(flags);
        if let Some(clustering) = change.clustering {
            put_bytes(out, clustering);
        }
        out.extend_from_slice(&change.column.0.to_le_bytes());
        out.extend_from_slice(&change.timestamp.to_le_bytes());
        out.extend_from_slice(&change.now_s.to_le_bytes());
        if let Some(expiry) = expiry {
            out.extend_from_slice(&expiry.ttl_s.to_le_bytes());
            out.extend_from_slice(&expiry.at_s.to_le_bytes());
        }
        if let Some(index) = index {
            out.extend_from_slice(&index.to_le_bytes());
        }
        if let ListOp::Add { path, .. } = change.op {
            put_bytes(out, path);
        }
        if let Some(value) = value {
            put_bytes(out, value);
        }
    }
}

/// Reads one change.
pub(super) fn get_change<'a>(cursor: &mut Cursor<'a>) -> Result<ListChange<'a>> {
    let flags = cursor.u8()?;
    let clustering = if flags & OF_STATIC == 0 { Some(cursor.bytes()?) } else { None };
    let column = ColumnId(cursor.u16()?);
    let (timestamp, now_s) = (cursor.i64()?, cursor.u32()?);
    let expiry = match flags & EXPIRES {
        0 => None,
        _ => Some(Expiry { ttl_s: cursor.u32()?, at_s: cursor.u32()? }),
    };
    let mut index = || Ok::<i32, Error>(cursor.u32()? as i32);
    let op = match flags & KIND {
        SET => {
            let index = index()?;
            let value = if flags & HAS_VALUE == 0 { None } else { Some(cursor.bytes()?) };
            ListOp::Set { index, value, expiry }
        }
        DELETE => ListOp::Delete { index: index()? },
        KEEP => ListOp::Keep { index: index()? },
        DISCARD => ListOp::Discard { value: cursor.bytes()? },
        ADD => ListOp::Add { path: cursor.bytes()?, value: cursor.bytes()?, expiry },
        CLEAR => ListOp::Clear,
        GROW => ListOp::Grow { value: cursor.bytes()?, expiry },
        _ => return Err(Error::Malformed("list change")),
    };
    Ok(ListChange { clustering, column, timestamp, now_s, op })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::mutation::MutationRef;
    use crate::schema::TableId;
    use crate::token::Token;

    #[test]
    fn changes_read_back_behind_the_rows_and_no_log_takes_them() {
        let expiry = Some(Expiry { ttl_s: 4, at_s: 9 });
        let change = |clustering, op| ListChange {
            clustering,
            column: ColumnId(3),
            timestamp: 5,
            now_s: 6,
            op,
        };
        let all = [
            change(None, ListOp::Set { index: -1, value: Some(b"v"), expiry }),
            change(Some(b"c"), ListOp::Set { index: 7, value: None, expiry: None }),
            change(Some(b""), ListOp::Delete { index: i32::MAX }),
            change(Some(b"d"), ListOp::Discard { value: b"" }),
            change(Some(b"d"), ListOp::Keep { index: 2 }),
            change(None, ListOp::Add { path: b"p", value: b"", expiry }),
            change(Some(b"e"), ListOp::Clear),
            change(None, ListOp::Grow { value: b"v", expiry }),
        ];
        let mut record = Vec::new();
        let mut m = MutationBuilder::begin(&mut record, TableId(Uuid::nil()), Token(1), b"k");
        m.row(b"c", |out| out.extend_from_slice(&[0; 9]));
        all.iter().for_each(|change| m.list_change(change));
        m.finish();
        let mutation =
            MutationRef::of_trusted_record(&record).next().expect("one").expect("built here");
        assert_eq!((mutation.row_count, mutation.rows().count()), (1, 1));
        assert!(mutation.reads_first());
        assert!(mutation.list_changes().eq(all));
        assert!(MutationRef::of_record(&record).next().expect("one").is_err(), "as bytes of a log");
        for cut in 1..record.len() {
            let _ = MutationRef::of_trusted_record(&record[..cut]).next();
        }
    }
}

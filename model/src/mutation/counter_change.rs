//! Changes of counters: what they write depends on what the counter is.
//!
//! ```text
//! change := is_static:u8 [clustering] column:u16 timestamp:i64 now_s:u32 by:i64
//! ```
//!
//! A change stands behind the rows of a mutation until the owner of the partition has read the counter and put a cell
//! with the sum in its place (`engine/src/read_before_write.rs`). Invariant: no log, memtable or file holds one, so that
//! a replay adds nothing.

use super::{HAS_COUNTER_CHANGES, MutationBuilder};
use crate::Result;
use crate::bytes::{Cursor, put_bytes};
use crate::schema::ColumnId;

/// What is added to one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterChange<'a> {
    /// The row of the counter; `None` is the static row.
    pub clustering: Option<&'a [u8]>,
    /// Id of the counter's column.
    pub column: ColumnId,
    /// When it is written, in microseconds.
    pub timestamp: i64,
    /// Seconds since 1970, for the read of what is there.
    pub now_s: u32,
    /// What is added. A sum that is too large or too small wraps.
    pub by: i64,
}

impl MutationBuilder<'_> {
    /// Changes a counter. After all rows, and without changes of lists.
    pub fn counter_change(&mut self, change: &CounterChange<'_>) {
        let out = self.open_changes(HAS_COUNTER_CHANGES);
        out.push(u8::from(change.clustering.is_none()));
        if let Some(clustering) = change.clustering {
            put_bytes(out, clustering);
        }
        out.extend_from_slice(&change.column.0.to_le_bytes());
        out.extend_from_slice(&change.timestamp.to_le_bytes());
        out.extend_from_slice(&change.now_s.to_le_bytes());
        out.extend_from_slice(&change.by.to_le_bytes());
    }
}

/// Reads one change.
pub(super) fn get_change<'a>(cursor: &mut Cursor<'a>) -> Result<CounterChange<'a>> {
    let is_static = cursor.u8()? != 0;
    Ok(CounterChange {
        clustering: if is_static { None } else { Some(cursor.bytes()?) },
        column: ColumnId(cursor.u16()?),
        timestamp: cursor.i64()?,
        now_s: cursor.u32()?,
        by: cursor.i64()?,
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::mutation::{ListChange, ListOp, MutationRef};
    use crate::schema::TableId;
    use crate::token::Token;

    const COLUMN: ColumnId = ColumnId(3);

    fn built(fill: impl FnOnce(&mut MutationBuilder<'_>)) -> Vec<u8> {
        let mut record = Vec::new();
        let mut m = MutationBuilder::begin(&mut record, TableId(Uuid::nil()), Token(1), b"k");
        fill(&mut m);
        m.finish();
        record
    }

    #[test]
    fn changes_read_back_behind_the_rows_and_no_log_takes_them() {
        let change = |clustering, by| CounterChange {
            clustering,
            column: COLUMN,
            timestamp: 5,
            now_s: 6,
            by,
        };
        let all = [change(None, i64::MIN), change(Some(b"c"), 7), change(Some(b""), i64::MAX)];
        let record = built(|m| {
            m.row(b"c", |out| out.extend_from_slice(&[0; 9]));
            all.iter().for_each(|change| m.counter_change(change));
        });
        let parse = |bytes| MutationRef::of_trusted_record(bytes).next().expect("one");
        let mutation = parse(&record).expect("built here");
        assert_eq!((mutation.row_count, mutation.rows().count()), (1, 1));
        assert!(mutation.reads_first() && mutation.changes_counters());
        assert!(!mutation.changes_lists() && mutation.list_changes().next().is_none());
        assert!(mutation.counter_changes().eq(all));
        assert!(MutationRef::of_record(&record).next().expect("one").is_err(), "as bytes of a log");
        for cut in 1..record.len() {
            let _ = MutationRef::of_trusted_record(&record[..cut]).next();
        }
    }

    #[test]
    fn a_mutation_has_changes_of_one_kind() {
        let op = ListOp::Clear;
        let list = ListChange { clustering: None, column: COLUMN, timestamp: 5, now_s: 6, op };
        let mut record = built(|m| m.list_change(&list));
        let flags = record.iter().rposition(|byte| *byte == super::super::HAS_LIST_CHANGES);
        record[flags.expect("it has changes")] |= HAS_COUNTER_CHANGES;
        assert!(MutationRef::of_trusted_record(&record).next().expect("one").is_err());
    }
}

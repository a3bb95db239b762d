//! Slices of a base whose rows are to be written to its views again, as they are then.
//!
//! ```text
//! change := start end                       bounds, as those of a range tombstone
//! ```
//!
//! What builds a view writes such mutations: they say nothing of the base, and the owner of the partition makes the
//! rows of the views of what it reads in their turn (`engine/src/views.rs`). Invariant: no log, memtable or file holds
//! one.

use super::{HAS_VIEW_SLICES, MutationBuilder};
use crate::Result;
use crate::bytes::{Cursor, put_bytes};
use crate::read::Slice;

impl MutationBuilder<'_> {
    /// Writes the rows of a slice to the views again. After all rows, and without other changes.
    pub fn view_slice(&mut self, slice: &Slice) {
        let out = self.open_changes(HAS_VIEW_SLICES);
        put_bytes(out, &slice.start);
        put_bytes(out, &slice.end);
    }
}

/// Reads one slice.
pub(super) fn get_slice(cursor: &mut Cursor<'_>) -> Result<Slice> {
    let (start, end) = (cursor.bytes()?.to_vec(), cursor.bytes()?.to_vec());
    Ok(Slice { start, end })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::mutation::MutationRef;
    use crate::schema::TableId;
    use crate::token::Token;

    #[test]
    fn slices_read_back_and_no_log_takes_them() {
        let mut record = Vec::new();
        let mut m = MutationBuilder::begin(&mut record, TableId(Uuid::nil()), Token(1), b"k");
        let all = [Slice::row(vec![1, 2]), Slice::all()];
        all.iter().for_each(|slice| m.view_slice(slice));
        m.finish();
        let parse = |bytes| MutationRef::of_trusted_record(bytes).next().expect("one");
        let mutation = parse(&record).expect("built here");
        assert!(mutation.reads_first() && !mutation.changes_lists());
        assert!(mutation.view_slices().eq(all));
        assert!(MutationRef::of_record(&record).next().expect("one").is_err(), "as bytes of a log");
        for cut in 1..record.len() {
            let _ = MutationRef::of_trusted_record(&record[..cut]).next();
        }
    }
}

//! A row as it would be if it had been written later.

use super::{Cell, RowBuilder, RowHead, RowRef, Written};
use crate::cell::Deletion;

/// Appends the row with each of its timestamps so many microseconds later.
pub fn shifted(row: RowRef<'_>, by_us: i64, out: &mut Vec<u8>) {
    if by_us == 0 {
        out.extend_from_slice(row.bytes());
        return;
    }
    let head = row.head();
    let deletion = match head.deletion {
        none if none.is_none() => none,
        Deletion { timestamp, local_s } => {
            Deletion { timestamp: timestamp.saturating_add(by_us), local_s }
        }
    };
    let mut new = RowBuilder::begin(
        out,
        &RowHead { timestamp: head.timestamp.saturating_add(by_us), deletion, ..head },
    );
    if let Some(written) = row.written() {
        new.written(Written { at: written.at.saturating_add(by_us), ..written });
    }
    for cell in row.cells() {
        new.cell(&Cell { timestamp: cell.timestamp.saturating_add(by_us), ..cell });
    }
}

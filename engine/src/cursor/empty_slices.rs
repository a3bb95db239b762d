//! How many slices a cursor has passed that had nothing: after some its reader is told (`cursor.rs`, invariant 6).

use crate::limits::EMPTY_SLICES_AT_ONCE_MAX;

/// Slices that had nothing, since the reader was last told of such.
#[derive(Debug, Default)]
pub(crate) struct EmptySlices(u32);

impl EmptySlices {
    /// Counts an empty slice; whether the reader is to be told now.
    pub(crate) fn count(&mut self) -> bool {
        self.0 += 1;
        let is_to_be_told = self.0 == EMPTY_SLICES_AT_ONCE_MAX;
        if is_to_be_told {
            self.0 = 0;
        }
        is_to_be_told
    }
}

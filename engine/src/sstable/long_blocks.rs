//! How long the blocks are that a read of a key may meet: known from what is in memory, so that the read can wait
//! before it holds any.
//!
//! ```text
//! rows from 1 MiB on   named in the statistics, with their bytes before compression
//! others               the directory: of few blocks the longest frame, of many that of the whole file
//! ```

use model::Token;

use super::Sstable;
use super::large::LargeRow;
use crate::limits::{LARGE_ROW_BYTES, LONG_BLOCK_BYTES, WIDE_BLOCKS_MIN};
use crate::pause::Pause;

/// Blocks whose lengths are looked at for one read.
const LOOKED_AT: usize = 64;
/// Blocks that are looked at between two pauses: some ten microseconds.
const LOOKED_AT_ONCE: usize = 1024;

impl Sstable {
    /// Whether a block of it may be long: the file has a partition that is.
    pub(crate) fn may_have_long_blocks(&self) -> bool {
        self.statistics().longest_partition_bytes() >= LONG_BLOCK_BYTES as u64
    }

    /// The bytes of the longest block that a read of a key may meet, or of the longest row if that is named; 0 if it is
    /// not long. A file is gone through once for this, with pauses.
    pub(crate) async fn long_block_bytes(
        &self,
        (token, key): (Token, &[u8]),
        clustering: Option<&[u8]>,
        pause: &dyn Pause,
    ) -> u64 {
        let statistics = self.statistics();
        if statistics.partition_bytes_max(key) < LONG_BLOCK_BYTES as u64 {
            return 0;
        }
        let is_read = |row: &&LargeRow| {
            let own = row.clustering.as_deref();
            row.key == key && (clustering.is_none() || own.is_none() || own == clustering)
        };
        let named = statistics.large_rows.iter().filter(is_read).map(LargeRow::bytes).max();
        let (first, last) = match self.wide.find(token, key) {
            Some(wide) => (wide.first_block as usize, wide.last_block as usize),
            None => {
                let (first, last) = self.directory.candidates(token);
                let end = last + WIDE_BLOCKS_MIN as usize;
                (first, self.directory.run_end(last).min(end))
            }
        };
        let unnamed = match last - first < LOOKED_AT {
            true => self.longest_of(first, last),
            // A longer one is of a row that is named.
            false => self.longest_block(pause).await.min(LARGE_ROW_BYTES),
        };
        let bytes = named.unwrap_or(0).max(unnamed as u64);
        if bytes < LONG_BLOCK_BYTES as u64 { 0 } else { bytes }
    }

    fn longest_of(&self, first: usize, last: usize) -> usize {
        (first..=last).map(|block| self.directory.frame(block).1).max().unwrap_or(0)
    }

    /// The length of the longest frame of the file.
    async fn longest_block(&self, pause: &dyn Pause) -> usize {
        if let Some(known) = self.longest_block.get() {
            return known;
        }
        let (blocks, mut longest) = (self.directory.blocks(), 0);
        for first in (0..blocks).step_by(LOOKED_AT_ONCE) {
            let last = (first + LOOKED_AT_ONCE).min(blocks) - 1;
            longest = longest.max(self.longest_of(first, last));
            pause.take().await;
        }
        self.longest_block.set(Some(longest));
        longest
    }
}

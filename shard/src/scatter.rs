//! Splitting a read over the shards that own its data, and making one page of their answers.
//!
//! ```text
//! keys   k1 k2 k3 k4 ─► owner 0: k1 k4   owner 1: k2 k3   all asked at once for a piece: `scatter/keys.rs`
//!                       pieces merged in the order of the keys, cut at the limits, until nothing is left
//! range  [first, last] ─► one part per owner, in token order, asked piece after piece:
//!                       each with what the pieces before left of the limits: `scatter/range.rs`
//! ```
//!
//! However much a read gives, no more than a few pieces of [`PIECE_BYTES`](crate::limits::PIECE_BYTES) are on their way
//! between cores.
//!
//! Pure: nothing here sends or waits (`router.rs` and `range_read.rs` do).

mod keys;
mod range;

pub use keys::{KeysWalk, walk_bytes};
use model::read::{Flow, PartitionRef, Partitions, ReadCommand, Resume, RowSink};
use model::{RowRef, TokenRange};
pub use range::RangeWalk;

use crate::owner::{ShardId, Sharder};

/// The shards that a read has to ask.
#[derive(Debug, PartialEq, Eq)]
pub enum Owners {
    /// One shard has everything.
    One(ShardId),
    /// These keys are spread.
    Keys,
    /// The range crosses a border between shards.
    Range,
}

/// The shards that own what a command reads.
pub fn owners(command: &ReadCommand, sharder: Sharder) -> Owners {
    match &command.partitions {
        Partitions::Keys(keys) => {
            let mut shards = keys.iter().map(|(token, _)| sharder.shard_of(*token));
            let first = shards.next().unwrap_or(ShardId::new(0));
            if shards.all(|shard| shard == first) { Owners::One(first) } else { Owners::Keys }
        }
        Partitions::Range(range) => {
            let first = match &command.resume {
                Some(resume) => sharder.shard_of(resume.token.max(range.first)),
                None => sharder.shard_of(range.first),
            };
            let last = sharder.shard_of(range.last);
            if first == last || range.is_empty() { Owners::One(first) } else { Owners::Range }
        }
    }
}

/// The parts of a range, in token order, beginning where the page before ended.
pub fn split_range(
    range: TokenRange,
    resume: Option<&Resume>,
    sharder: Sharder,
) -> Vec<(ShardId, TokenRange)> {
    let first = resume.map_or(range.first, |resume| resume.token.max(range.first));
    sharder
        .all()
        .filter_map(|shard| {
            let owned = sharder.range_of(shard);
            // The part where the page before ended keeps its beginning: the engine resumes in it.
            let reached = owned.last >= first;
            reached.then(|| owned.intersection(&range))?.map(|part| (shard, part))
        })
        .collect()
}

/// A sink, with what it said last and the bytes it was given.
struct Watched<'s> {
    sink: &'s mut dyn RowSink,
    flow: Flow,
    bytes: u64,
}

impl<'s> Watched<'s> {
    fn new(sink: &'s mut dyn RowSink) -> Watched<'s> {
        Watched { sink, flow: Flow::More, bytes: 0 }
    }
}

impl RowSink for Watched<'_> {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        let bytes = |bytes: Option<usize>| bytes.unwrap_or_default();
        let of_row = bytes(clustering.map(<[u8]>::len)) + bytes(row.map(|row| row.bytes().len()));
        self.bytes += (partition.key.len() + of_row) as u64;
        self.flow = self.sink.row(partition, clustering, row);
        self.flow
    }

    #[inline]
    fn row_work(&self) -> usize {
        self.sink.row_work()
    }

    #[inline]
    fn is_costly(&self) -> bool {
        self.sink.is_costly()
    }
}

#[cfg(test)]
mod tests;

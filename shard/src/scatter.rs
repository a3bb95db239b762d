//! Splitting a read over the shards that own its data, and making one page of their answers.
//!
//! ```text
//! keys   k1 k2 k3 k4 ─► owner 0: k1 k4   owner 1: k2 k3   all asked at once for a piece: `scatter/keys.rs`
//!                       pieces merged in the order of the keys, cut at the limits, until nothing is left
//! range  [first, last] ─► one part per owner, in token order, asked piece after piece:
//!                       each with what the pieces before left of the limits
//! ```
//!
//! However much a read gives, no more than a few pieces of [`PIECE_BYTES`] are on their way between cores.
//!
//! Pure: nothing here sends or waits (`router.rs` does).

mod keys;

use std::collections::VecDeque;

pub use keys::KeysWalk;
use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, ReadEnd, Resume, RowSink};
use model::{RowRef, TokenRange};

use crate::limits::{PIECE_BYTES, PIECE_ROWS};
use crate::owner::{ShardId, Sharder};
use crate::page::Page;

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

/// Walks a range over its owners, piece after piece.
///
/// The next piece is known once a page has [arrived](Self::arrived), before its rows are [given](Self::give): its owner
/// can read it meanwhile.
pub struct RangeWalk<'s, S> {
    /// With what is left of the limits, and where the next piece begins.
    left: ReadCommand,
    /// The owners that are not read to their end.
    parts: VecDeque<(ShardId, TokenRange)>,
    sink: Watched<'s, S>,
    /// Where the page began that arrived last.
    before: Option<Resume>,
    rows: u64,
    tombstones: u64,
    /// Where the next page of the whole read begins, if it ends here.
    more: Option<Resume>,
}

impl<'s, S: RowSink> RangeWalk<'s, S> {
    /// Before the first piece, with the parts of [`split_range`].
    pub fn new(
        command: ReadCommand,
        parts: Vec<(ShardId, TokenRange)>,
        sink: &'s mut S,
    ) -> RangeWalk<'s, S> {
        let (before, rows, tombstones, more) = Default::default();
        RangeWalk {
            left: command,
            parts: parts.into(),
            sink: Watched::new(sink),
            before,
            rows,
            tombstones,
            more,
        }
    }

    /// The next piece and its owner; `None` if nothing more is wanted.
    pub fn next_piece(&self) -> Option<(ShardId, ReadCommand)> {
        let Limits { rows, page_rows, page_bytes, .. } = self.left.limits;
        let (owner, part) =
            self.parts.front().filter(|_| rows.min(page_rows).min(page_bytes) > 0)?;
        let mut piece = ReadCommand { partitions: Partitions::Range(*part), ..self.left.clone() };
        piece.limits.page_bytes = page_bytes.min(PIECE_BYTES);
        piece.limits.page_rows = page_rows.min(PIECE_ROWS);
        Some((*owner, piece))
    }

    /// Notes how far the page of the last piece has come.
    pub fn arrived(&mut self, page: &Page) {
        let limits = &mut self.left.limits;
        assert!(
            page.rows <= limits.rows.min(limits.page_rows),
            "a shard gives what it was asked for"
        );
        limits.rows = limits.rows.saturating_sub(page.rows);
        limits.page_rows = limits.page_rows.saturating_sub(page.rows);
        limits.page_bytes = limits.page_bytes.saturating_sub(page.bytes());
        limits.tombstones = limits.tombstones.saturating_sub(page.tombstones);
        self.tombstones += page.tombstones;
        if page.rows > 0 {
            self.more = page.after_last_partition();
        }
        if page.more.is_some() {
            self.more = page.more.clone();
        } else {
            self.parts.pop_front();
        }
        if self.parts.is_empty() || limits.rows == 0 {
            self.more = None;
        }
        self.before = std::mem::replace(&mut self.left.resume, page.more.clone());
    }

    /// Gives the rows of the page that arrived last to the sink, which may have enough before their end.
    pub fn give(&mut self, page: &Page) -> Flow {
        let end = page.replay(self.before.as_ref(), &mut self.sink);
        self.rows += end.rows;
        if end.rows < page.rows {
            self.more = end.more;
        }
        self.sink.flow
    }

    /// How the whole read ended.
    pub fn end(self) -> ReadEnd {
        ReadEnd { rows: self.rows, tombstones: self.tombstones, more: self.more }
    }
}

/// A sink, with what it said last and the bytes it was given.
struct Watched<'s, S> {
    sink: &'s mut S,
    flow: Flow,
    bytes: u64,
}

impl<'s, S> Watched<'s, S> {
    fn new(sink: &'s mut S) -> Watched<'s, S> {
        Watched { sink, flow: Flow::More, bytes: 0 }
    }
}

impl<S: RowSink> RowSink for Watched<'_, S> {
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
}

#[cfg(test)]
mod tests;

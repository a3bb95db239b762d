//! Splitting a read over the shards that own its data, and making one page of their answers.
//!
//! ```text
//! keys   k1 k2 k3 k4 ─► owner 0: k1 k4   owner 1: k2 k3   all asked at once for a piece
//!                       pieces merged in the order of the keys, cut at the limits, until nothing is left
//! range  [first, last] ─► one part per owner, in token order, asked piece after piece:
//!                       each with what the pieces before left of the limits
//! ```
//!
//! However much a read gives, no more than a few pieces of [`PIECE_BYTES`] are on their way between cores.
//!
//! Pure: nothing here sends or waits (`router.rs` does).

use std::collections::VecDeque;
use std::iter::Peekable;

use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, ReadEnd, Resume, RowSink};
use model::{RowRef, Token, TokenRange};

use crate::limits::{PIECE_BYTES, PIECE_BYTES_MIN, PIECE_ROWS};
use crate::owner::{ShardId, Sharder};
use crate::page::{Entries, Page, Place};

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

type Key = (Token, Box<[u8]>);

/// The keys of a command that the page before has not finished with.
fn keys_left(command: &ReadCommand) -> &[Key] {
    let Partitions::Keys(keys) = &command.partitions else { return &[] };
    let done = command
        .resume
        .as_ref()
        .and_then(|resume| keys.iter().position(|(_, key)| **key == *resume.key));
    &keys[done.unwrap_or(0)..]
}

/// A command over several keys, as one command per owner.
pub fn split_keys(command: &ReadCommand, sharder: Sharder) -> Vec<(ShardId, ReadCommand)> {
    let mut parts: Vec<(ShardId, Vec<Key>)> = Vec::new();
    for (token, key) in keys_left(command) {
        let owner = sharder.shard_of(*token);
        match parts.iter_mut().find(|(shard, _)| *shard == owner) {
            Some((_, keys)) => keys.push((*token, key.clone())),
            None => parts.push((owner, vec![(*token, key.clone())])),
        }
    }
    let resumed = command.resume.as_ref().map(|resume| sharder.shard_of(resume.token));
    let part = |(owner, keys)| {
        let resume = command.resume.clone().filter(|_| resumed == Some(owner));
        (owner, ReadCommand { partitions: Partitions::Keys(keys), resume, ..command.clone() })
    };
    parts.into_iter().map(part).collect()
}

/// Replays the pages of [`split_keys`] in the order of the keys, up to the command's limits.
pub fn merge_keys(
    command: &ReadCommand,
    sharder: Sharder,
    pages: &[(ShardId, Page)],
    sink: &mut impl RowSink,
) -> ReadEnd {
    let mut sources: Vec<(ShardId, Peekable<Entries<'_>>, Option<&Resume>)> = pages
        .iter()
        .map(|(shard, page)| (*shard, page.entries().peekable(), page.more.as_ref()))
        .collect();
    let limits = &command.limits;
    let tombstones = pages.iter().map(|(_, page)| page.tombstones).sum();
    let mut place = Place::new(command.resume.as_ref());
    let end = |rows, more| ReadEnd { rows, tombstones, more };
    let mut page_bytes = 0;
    for (token, key) in keys_left(command) {
        let owner = sharder.shard_of(*token);
        let (_, entries, more) =
            sources.iter_mut().find(|(shard, ..)| *shard == owner).expect("each owner was asked");
        while let Some(entry) = entries.next_if(|entry| entry.partition.key == &**key) {
            if place.rows == limits.rows {
                return end(place.rows, None);
            }
            if place.rows == limits.page_rows || page_bytes >= limits.page_bytes {
                return end(place.rows, place.resume());
            }
            place.pass(&entry);
            page_bytes += entry.bytes;
            if sink.row(&entry.partition, entry.clustering, entry.row) == Flow::Enough {
                return end(place.rows, place.resume());
            }
        }
        // The owner stopped inside this key, or right after it: no reader can go on from here.
        let stopped = more.filter(|more| *more.key == **key && entries.peek().is_none());
        if let Some(more) = stopped {
            let done = place.rows == limits.rows;
            return end(place.rows, (!done).then(|| more.clone()));
        }
    }
    end(place.rows, None)
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

/// Walks keys of several owners, piece after piece.
pub struct KeysWalk<'s, S> {
    left: ReadCommand,
    sink: Watched<'s, S>,
    rows: u64,
    tombstones: u64,
}

impl<'s, S: RowSink> KeysWalk<'s, S> {
    /// Before the first piece.
    pub fn new(command: ReadCommand, sink: &'s mut S) -> KeysWalk<'s, S> {
        KeysWalk { left: command, sink: Watched::new(sink), rows: 0, tombstones: 0 }
    }

    /// The next piece of each owner, of which the pages are to be [taken](Self::take).
    pub fn pieces(&self, sharder: Sharder) -> Vec<(ShardId, ReadCommand)> {
        let mut parts = split_keys(&self.left, sharder);
        let bytes = (PIECE_BYTES / parts.len().max(1) as u64).max(PIECE_BYTES_MIN);
        for (_, part) in &mut parts {
            part.limits.page_bytes = part.limits.page_bytes.min(bytes);
            part.limits.page_rows = part.limits.page_rows.min(PIECE_ROWS);
        }
        parts
    }

    /// Gives the rows of these pages to the sink. How the whole read ended, if it has.
    pub fn take(&mut self, sharder: Sharder, pages: &[(ShardId, Page)]) -> Option<ReadEnd> {
        let end = merge_keys(&self.left, sharder, pages, &mut self.sink);
        self.rows += end.rows;
        self.tombstones += end.tombstones;
        let limits = &mut self.left.limits;
        limits.rows = limits.rows.saturating_sub(end.rows);
        limits.tombstones = limits.tombstones.saturating_sub(end.tombstones);
        limits.page_rows = limits.page_rows.saturating_sub(end.rows);
        limits.page_bytes = limits.page_bytes.saturating_sub(std::mem::take(&mut self.sink.bytes));
        let is_full = limits.rows == 0 || limits.page_rows == 0 || limits.page_bytes == 0;
        if end.more.is_none() || is_full || self.sink.flow == Flow::Enough {
            let ReadEnd { more, .. } = end;
            return Some(ReadEnd { rows: self.rows, tombstones: self.tombstones, more });
        }
        self.left.resume = end.more;
        None
    }
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

//! Splitting a read over the shards that own its data, and making one page of their answers.
//!
//! ```text
//! keys   k1 k2 k3 k4 ─► owner 0: k1 k4   owner 1: k2 k3   all asked at once
//!                       pages merged in the order of the keys, cut at the limits
//! range  [first, last] ─► one part per owner, in token order, asked one after the other:
//!                       each with what the parts before left of the limits
//! ```
//!
//! Pure: nothing here sends or waits (`router.rs` does).

use std::iter::Peekable;

use model::read::{Flow, Partitions, ReadCommand, ReadEnd, Resume, RowSink};
use model::{Token, TokenRange};

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

/// Collects the parts of a range into one page.
pub struct RangeWalk {
    left: ReadCommand,
    page: Page,
}

/// Whether a range needs another part.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask the next owner.
    Next,
    /// The page is whole.
    Done,
}

impl RangeWalk {
    /// Before the first part.
    pub fn new(command: ReadCommand) -> RangeWalk {
        RangeWalk { left: command, page: Page::new() }
    }

    /// The command for the owner of `part`, with what is left of the limits.
    pub fn command(&self, part: TokenRange) -> ReadCommand {
        ReadCommand { partitions: Partitions::Range(part), ..self.left.clone() }
    }

    /// Takes the answer to that.
    pub fn take(&mut self, page: Page) {
        let limits = &mut self.left.limits;
        assert!(
            page.rows <= limits.rows.min(limits.page_rows),
            "a shard gives what it was asked for"
        );
        limits.rows = limits.rows.saturating_sub(page.rows);
        limits.page_rows = limits.page_rows.saturating_sub(page.rows);
        limits.page_bytes = limits.page_bytes.saturating_sub(page.bytes());
        self.left.resume = None;
        self.page.join(page);
    }

    /// Before asking another owner: whether there is space for its rows.
    pub fn step(&mut self) -> Step {
        let limits = &self.left.limits;
        if self.page.more.is_some() || limits.rows == 0 {
            return Step::Done;
        }
        if limits.page_rows == 0 || limits.page_bytes == 0 {
            self.page.more = self.page.after_last_partition();
            return Step::Done;
        }
        Step::Next
    }

    /// All rows that were taken, as one page.
    pub fn into_page(self) -> Page {
        self.page
    }
}

#[cfg(test)]
mod tests;

//! A read of keys that several shards own: what each has is fetched in pieces, and given in the order of the keys.
//!
//! ```text
//! owner 0   k1 k1 k1 k4 │ k4 ..        a piece that is used up is followed by the owner's next
//! owner 1   k2 k3 k3 k3 k3 │ ..        one that is not is kept: no row is read twice
//! given     k1 k1 k1 k2 k3 k3 k3 k3 ── owner 1 is asked for more of k3 ──► k3 .. k4
//! ```
//!
//! The pieces of all owners have [`PIECE_BYTES`] together (and no less than [`PIECE_BYTES_MIN`] each). The walk
//! copies the keys once, and once more on their way to their owners: an IN beside a long value makes much of little,
//! so what the walk takes ([`walk_bytes`]) is known before it begins.
//!
//! Invariant: between two calls of [`KeysWalk::take`] every owner that has something left has an unused row here, or is
//! asked for its next piece. Pure: nothing here sends or waits (`router.rs` does).

use engine::Quantum;
use model::Token;
use model::read::{Flow, Partitions, ReadCommand, ReadEnd, Resume, RowSink};

use super::Watched;
use crate::limits::{PIECE_BYTES, PIECE_BYTES_MIN, PIECE_ROWS};
use crate::owner::{ShardId, Sharder};
use crate::page::{Page, Place};

type Key = (Token, Box<[u8]>);

/// Walks keys of several owners, piece after piece.
pub struct KeysWalk<'s> {
    /// With what is left of the limits, and where the last row was. It has no keys.
    left: ReadCommand,
    /// Of each key that is left when the walk begins: the place of its owner in `owners`, and its place there.
    keys: Vec<(usize, usize)>,
    /// The key that rows are given of.
    at: usize,
    owners: Vec<Owner>,
    sink: Watched<'s>,
    rows: u64,
    tombstones: u64,
    /// Blocks that the shards read.
    blocks: u64,
    /// Blocks that the shards found in their caches.
    cached_blocks: u64,
    piece_bytes: u64,
}

/// One owner's part of the keys.
struct Owner {
    shard: ShardId,
    keys: Vec<Key>,
    /// The piece that it has given last.
    page: Page,
    /// How many rows of the piece were used.
    used: u64,
    /// Where its next piece begins; `None` at its beginning.
    resume: Option<Resume>,
    /// Whether there is a next piece.
    has_more: bool,
}

impl Owner {
    /// Whether its next piece is needed before anything else of it can be given.
    fn is_due(&self) -> bool {
        self.has_more && self.used == self.page.rows
    }
}

impl<'s> KeysWalk<'s> {
    /// Before the first piece.
    pub fn new(command: &ReadCommand, sharder: Sharder, sink: &'s mut dyn RowSink) -> KeysWalk<'s> {
        let resumed = command.resume.as_ref().map(|resume| sharder.shard_of(resume.token));
        let (mut keys, mut owners): (Vec<(usize, usize)>, Vec<Owner>) = Default::default();
        for (token, key) in keys_left(command) {
            let shard = sharder.shard_of(*token);
            let known = owners.iter().position(|owner| owner.shard == shard);
            let owner = known.unwrap_or_else(|| {
                let resume = command.resume.clone().filter(|_| resumed == Some(shard));
                let (keys, page) = Default::default();
                owners.push(Owner { shard, keys, page, used: 0, resume, has_more: true });
                owners.len() - 1
            });
            keys.push((owner, owners[owner].keys.len()));
            owners[owner].keys.push((*token, key.clone()));
        }
        let left = ReadCommand {
            partitions: Partitions::Keys(Vec::new()),
            slices: command.slices.clone(),
            filters: command.filters.clone(),
            lookups: command.lookups.clone(),
            nearest: command.nearest.clone(),
            resume: command.resume.clone(),
            ..*command
        };
        let sink = Watched::new(sink);
        let (rows, tombstones, blocks, cached_blocks) = Default::default();
        KeysWalk {
            left,
            keys,
            at: 0,
            owners,
            sink,
            rows,
            tombstones,
            blocks,
            cached_blocks,
            piece_bytes: PIECE_BYTES,
        }
    }

    /// With shorter pieces.
    pub fn with_piece_bytes(self, piece_bytes: u64) -> KeysWalk<'s> {
        KeysWalk { piece_bytes, ..self }
    }

    /// The next piece of each owner that is to be asked; the pages are to be [taken](Self::take) in this order.
    pub fn pieces(&self) -> Vec<(ShardId, ReadCommand)> {
        let bytes = (self.piece_bytes / self.owners.len().max(1) as u64).max(PIECE_BYTES_MIN);
        let due = self.owners.iter().filter(|owner| owner.is_due());
        let piece = |owner: &Owner| {
            let (keys, resume) = (owner.keys.clone(), owner.resume.clone());
            let partitions = Partitions::Keys(keys);
            let mut piece = ReadCommand { partitions, resume, ..self.left.clone() };
            piece.limits.page_bytes = piece.limits.page_bytes.min(bytes);
            piece.limits.page_rows = piece.limits.page_rows.min(PIECE_ROWS);
            (owner.shard, piece)
        };
        due.map(piece).collect()
    }

    /// Gives the rows of these pages, and of those that were kept, to the sink. How the whole read ended, if it has.
    /// `pause` as in [`Page::replay_in_turns`].
    pub async fn take(
        &mut self,
        pages: impl IntoIterator<Item = Page>,
        pause: &impl AsyncFn(),
    ) -> Option<ReadEnd> {
        let due = self.owners.iter_mut().filter(|owner| owner.is_due());
        for (owner, page) in due.zip(pages) {
            self.tombstones += page.tombstones;
            self.blocks += page.blocks;
            self.cached_blocks += page.cached_blocks;
            let tombstones = &mut self.left.limits.tombstones;
            *tombstones = tombstones.saturating_sub(page.tombstones);
            owner.has_more = page.more.is_some();
            owner.resume = page.more.clone();
            (owner.page, owner.used) = (page, 0);
        }
        let before = self.rows;
        let end = self.give(pause).await;
        let limits = &mut self.left.limits;
        limits.rows = limits.rows.saturating_sub(self.rows - before);
        limits.page_rows = limits.page_rows.saturating_sub(self.rows - before);
        limits.page_bytes = limits.page_bytes.saturating_sub(std::mem::take(&mut self.sink.bytes));
        let more = match end {
            Given::All => None,
            Given::Until(more) => more,
            // The owner stopped where it says, and so does the read if that fills it.
            Given::Due(owner) => {
                if limits.rows.min(limits.page_rows).min(limits.page_bytes) > 0 {
                    return None;
                }
                self.owners[owner].resume.clone().filter(|_| limits.rows > 0)
            }
        };
        let KeysWalk { rows, tombstones, blocks, cached_blocks, .. } = *self;
        Some(ReadEnd { rows, tombstones, blocks, cached_blocks, more })
    }

    /// Gives rows until the read ends, or an owner is to be asked.
    async fn give(&mut self, pause: &impl AsyncFn()) -> Given {
        let mut quantum = Quantum::of(&self.sink);
        let limits = self.left.limits;
        let before = self.left.resume.take();
        let mut place = Place::new(before.as_ref());
        let mut page_bytes = 0;
        let mut entries: Vec<_> = (self.owners.iter())
            .map(|owner| owner.page.entries().skip(owner.used as usize).peekable())
            .collect();
        let given = loop {
            let Some((owner, place_of_key)) = self.keys.get(self.at) else { break Given::All };
            let (_, key) = &self.owners[*owner].keys[*place_of_key];
            let of_key = entries[*owner].next_if(|entry| entry.partition.key == &**key);
            let Some(entry) = of_key else {
                if entries[*owner].peek().is_none() && self.owners[*owner].has_more {
                    break Given::Due(*owner);
                }
                self.at += 1;
                continue;
            };
            if place.rows == limits.rows {
                break Given::Until(None);
            }
            if place.rows == limits.page_rows || page_bytes >= limits.page_bytes {
                break Given::Until(place.resume());
            }
            place.pass(&entry);
            page_bytes += entry.bytes;
            if self.sink.row(&entry.partition, entry.clustering, entry.row) == Flow::Enough {
                break Given::Until(place.resume());
            }
            if quantum.is_used_up(entry.bytes as usize, &self.sink) {
                pause().await;
            }
        };
        self.rows += place.rows;
        self.left.resume = place.resume().or_else(|| before.clone());
        let unused: Vec<u64> = entries.into_iter().map(|left| left.count() as u64).collect();
        for (owner, unused) in self.owners.iter_mut().zip(unused) {
            owner.used = owner.page.rows - unused;
        }
        given
    }
}

/// What a walk over these keys takes at most, in bytes: the pieces of all owners, its keys twice, and the slices with
/// it and with what each owner is asked.
pub fn walk_bytes(command: &ReadCommand, sharder: Sharder, piece_bytes: u64) -> u64 {
    let mut is_owner = vec![false; sharder.shards()];
    keys_left(command)
        .iter()
        .for_each(|(token, _)| is_owner[sharder.shard_of(*token).index()] = true);
    let owners = is_owner.iter().filter(|is_owner| **is_owner).count() as u64;
    let named = 2 * command.key_bytes() as u64 + (owners + 1) * command.slice_bytes() as u64;
    named + piece_bytes.max(PIECE_BYTES_MIN * owners)
}

/// How far rows were given.
enum Given {
    /// To the end of the keys.
    All,
    /// As many as are wanted: where the next page begins.
    Until(Option<Resume>),
    /// Until this owner has to be asked for more.
    Due(usize),
}

/// The keys of a command that the page before has not finished with.
fn keys_left(command: &ReadCommand) -> &[Key] {
    let Partitions::Keys(keys) = &command.partitions else { return &[] };
    let done = command
        .resume
        .as_ref()
        .and_then(|resume| keys.iter().position(|(_, key)| **key == *resume.key));
    &keys[done.unwrap_or(0)..]
}

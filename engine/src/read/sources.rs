//! What a read would be made of: memtables, and the files that tokens, bounds and filters leave. No block is read.
//!
//! It asks what the read itself asks before it opens a file (`read.rs`): of keys the tokens of each view, its bounds of
//! clusterings and its filter; of a range the tokens alone, since the filter says nothing of a range.
//!
//! 1. Nothing waits for the disk. A filter whose piece is not in memory counts as one that may hold the key.
//! 2. Keys of other shards are left out: each shard answers for its own tokens.
//! 3. A file is counted once, whatever number of keys it may hold. Indexes are not considered.
//!
//! Not here: the read (`read.rs`), who asks (EXPLAIN, `server/src/execute/explain.rs`), what an index would cost
//! (`read/lookup_cost.rs`).

use model::read::{Partitions, ReadCommand};
use model::{Token, TokenRange};

use crate::engine::Engine;
use crate::error::Result;
use crate::pause::Pause;
use crate::table::{View, file_bytes};

/// After so many answers of filters the caller may pause.
const ASKED_AT_ONCE: usize = 256;

/// What one shard would read for a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadSources {
    /// Memtables of the table, all of which are looked into.
    pub memtables: u64,
    /// Bytes that these take in memory.
    pub memtable_bytes: u64,
    /// Sstables that may hold what is read.
    pub sstables: u64,
    /// Bytes of these files on disk; a file that shards share counts whole.
    pub sstable_bytes: u64,
    /// Sstables left out since their tokens or clusterings are others.
    pub outside_bounds: u64,
    /// Sstables left out since their filters hold none of the keys.
    pub outside_filter: u64,
}

/// What is known of a file before it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    OutsideBounds,
    OutsideFilter,
    MayHold,
}

impl Engine {
    /// What a read of this command would be made of now. `pause` is called after every few answers of filters.
    pub async fn read_sources(
        &self,
        command: &ReadCommand,
        pause: impl AsyncFn(),
    ) -> Result<ReadSources> {
        let table = self.table(command.table)?;
        let views = table.views();
        let mut sources = ReadSources {
            memtables: table.layers().len() as u64,
            memtable_bytes: table.memtable_bytes() as u64,
            ..ReadSources::default()
        };
        let keys = self.own_keys(command);
        let mut read = Vec::new();
        for view in views.iter() {
            let known = match &command.partitions {
                Partitions::Range(range) => of_range(view, range),
                Partitions::Keys(_) => of_keys(view, &keys, command, &pause).await,
            };
            match known {
                Known::OutsideBounds => sources.outside_bounds += 1,
                Known::OutsideFilter => sources.outside_filter += 1,
                Known::MayHold => read.push(view),
            }
        }
        sources.sstables = read.len() as u64;
        sources.sstable_bytes = file_bytes(read.into_iter());
        Ok(sources)
    }

    /// The keys that are this shard's, with their tokens.
    fn own_keys<'c>(&self, command: &'c ReadCommand) -> Vec<(Token, &'c [u8])> {
        let Partitions::Keys(keys) = &command.partitions else { return Vec::new() };
        let keys = keys.iter().map(|(token, key)| (*token, &**key));
        keys.filter(|(token, _)| self.tables.range_of(*token).is_some()).collect()
    }
}

fn of_range(view: &View, range: &TokenRange) -> Known {
    match view.overlap(range) {
        Some(_) => Known::MayHold,
        None => Known::OutsideBounds,
    }
}

async fn of_keys(
    view: &View,
    keys: &[(Token, &[u8])],
    command: &ReadCommand,
    pause: &dyn Pause,
) -> Known {
    // Slices are many and the same for all keys.
    if !view.sstable.may_hold(&command.slices) {
        return Known::OutsideBounds;
    }
    let mut known = Known::OutsideBounds;
    for (at, &(token, key)) in keys.iter().enumerate() {
        if at % ASKED_AT_ONCE == 0 {
            pause.take().await;
        }
        if !view.entry.tokens.contains(token) || view.begins_behind(token, key, &command.slices) {
            continue;
        }
        if view.sstable.may_contain(token) {
            return Known::MayHold;
        }
        known = Known::OutsideFilter;
    }
    known
}

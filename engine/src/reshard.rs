//! Another number of shards: the same data dealt to other owners, before any of them is opened.
//!
//! ```text
//! generation G, shards 0..n                     generation G+1, shards 0..m
//!   manifests ── views ───────────────────────►   views cut at the new borders ─► manifests
//!   logs ─► memtables ─► sstables ── views ───►   empty logs
//!                                          then one replacement of `layout` makes it so
//! ```
//!
//! 1. No sstable is rewritten: a view is a file and a range of tokens. A file whose tokens now belong to several
//!    shards has a view in each; compaction parts them in its own time.
//! 2. Until `layout` is replaced the old generation is the data, untouched. A crash at any step leaves directories
//!    that no layout names and files that no manifest names; the next start removes both and begins again.
//! 3. Memory is bounded: the logs' rows are written out whenever they have filled it.
//!
//! [`sweep`] is the other half of naming: it deletes what nothing names, and counts who has the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use model::{Schema, TableId, TokenRange};
use uuid::Uuid;

use crate::cache::BlockCache;
use crate::commitlog::{Config as LogConfig, Log, Position, Replay};
use crate::error::Result;
use crate::file_names::FileNames;
use crate::file_owners::FileOwners;
use crate::flush::FlushTarget;
use crate::index::sstable_of;
use crate::io::{Disk, RelPath};
use crate::layout::{self, Layout};
use crate::manifest::{Manifest, State, ViewEntry};
use crate::table::Table;

/// A change of the number of shards.
#[derive(Debug)]
pub struct Reshard<'r> {
    /// The data directory, locked, with no engine open.
    pub disk: &'r Disk,
    /// The current layout: the shards to take the data from.
    pub from: &'r Layout,
    /// What the tokens are cut into: the range of each new shard.
    pub owned: &'r [TokenRange],
    /// The schema: data of other tables is left behind.
    pub schema: &'r Schema,
    /// How the new logs are kept.
    pub log: &'r LogConfig,
    /// Memory for rows on their way from the logs to files.
    pub memory_bytes: usize,
    /// The time, in seconds since 1970.
    pub now_s: u32,
}

impl Reshard<'_> {
    /// Does it, and gives the layout that is current now.
    pub async fn run(&self) -> Result<Layout> {
        assert!(!self.owned.is_empty(), "a node has a shard");
        let tokens =
            TokenRange { first: self.owned[0].first, last: self.owned[self.owned.len() - 1].last };
        assert_eq!(tokens, TokenRange::ALL, "the owners have the whole ring");
        let follow = |pair: &[TokenRange]| pair[0].last.0.checked_add(1) == Some(pair[1].first.0);
        assert!(self.owned.windows(2).all(follow), "each token has one owner");
        self.from.remove_other_generations(self.disk).await?;
        let to = Layout {
            generation: self.from.generation + 1,
            shards: u32::try_from(self.owned.len()).expect("shards are few"),
            ..self.from.clone()
        };
        to.make_directories(self.disk).await?;
        let mut logs = Logs::new(self);
        for shard in 0..self.from.shards {
            logs.take(&layout::shard_dir(self.from.generation, shard)).await?;
        }
        logs.write_out().await?;
        for (shard, state) in deal(&logs.views, self.owned).into_iter().enumerate() {
            let dir = layout::shard_dir(to.generation, shard as u32);
            let seed = self.log.seed.wrapping_add(shard as u64);
            let log = LogConfig { seed, ..self.log.clone() };
            Log::create(self.disk, &layout::log_dir(&dir), log).await?;
            Manifest::create(self.disk, &dir, seed, state).await?;
        }
        to.store(self.disk).await?;
        to.remove_other_generations(self.disk).await?;
        Ok(to)
    }
}

/// What the old shards hold, and the rows of their logs on the way to files.
struct Logs<'r> {
    reshard: &'r Reshard<'r>,
    cache: Rc<BlockCache>,
    tables: BTreeMap<TableId, Table>,
    bytes: usize,
    names: FileNames,
    views: Vec<ViewEntry>,
}

impl<'r> Logs<'r> {
    fn new(reshard: &'r Reshard<'r>) -> Self {
        let tables =
            reshard.schema.tables().map(|definition| (definition.id, Table::new(definition)));
        Logs {
            reshard,
            // Files are opened only to see that they can be.
            cache: BlockCache::new(0),
            tables: tables.collect(),
            bytes: 0,
            names: FileNames::new(reshard.log.seed),
            views: Vec::new(),
        }
    }

    /// Takes over the views and the log of an old shard.
    async fn take(&mut self, shard_dir: &RelPath) -> Result<()> {
        let disk = self.reshard.disk;
        let state = Manifest::read(disk, shard_dir).await?;
        let known = |entry: &&ViewEntry| self.tables.contains_key(&TableId(entry.table));
        self.views.extend(state.views.values().filter(known).cloned());
        let log_dir = layout::log_dir(shard_dir);
        let mut replay = Replay::open(disk, &log_dir, state.flushed).await?;
        while let Some(record) = replay.next().await? {
            for mutation in record.mutations(log_dir.as_str()) {
                let mutation = mutation?;
                let Some(table) = self.tables.get(&mutation.table) else { continue };
                if state.is_replayed(mutation.table.0, record.end) {
                    // Positions of several logs mean nothing together, and nothing asks for them here.
                    let grown = table.apply(&mutation, Position::ZERO, Position::ZERO);
                    assert!(grown.before <= self.bytes, "memory was counted when it grew");
                    self.bytes = self.bytes - grown.before + grown.after;
                }
            }
            if self.bytes > self.reshard.memory_bytes {
                self.write_out().await?;
            }
        }
        replay.finish().await.map(drop)
    }

    /// Writes all rows to files.
    async fn write_out(&mut self) -> Result<()> {
        for table in self.tables.values() {
            let Some(layer) = table.oldest_sealed() else { continue };
            let id = self.names.next();
            let definition = table.definition();
            let (disk, cache) = (self.reshard.disk, &self.cache);
            let (definition, now_s) = (&definition, self.reshard.now_s);
            let (space, sample) = (None, None);
            let target = FlushTarget { disk, cache, definition, id, now_s, space, sample };
            let view = target.write_layer(&layer, &async || {}).await?;
            self.views.extend(view.map(|view| view.entry.clone()));
            table.flushed(&layer, None);
            assert!(table.layers().is_empty(), "a table has one layer here");
        }
        self.bytes = 0;
        Ok(())
    }
}

/// Cuts the views at the borders of their new owners.
fn deal(views: &[ViewEntry], owned: &[TokenRange]) -> Vec<State> {
    let mut owners: BTreeMap<Uuid, BTreeSet<usize>> = BTreeMap::new();
    let mut dealt: Vec<Vec<ViewEntry>> = vec![Vec::new(); owned.len()];
    for view in views {
        for (owner, range) in owned.iter().enumerate() {
            if let Some(tokens) = view.tokens.intersection(range) {
                owners.entry(view.sstable).or_default().insert(owner);
                let begin = view.begin.clone().filter(|_| tokens.first == view.tokens.first);
                dealt[owner].push(ViewEntry { tokens, begin, ..view.clone() });
            }
        }
    }
    let has_owner = |view: &ViewEntry| owners.contains_key(&view.sstable);
    assert!(views.iter().all(has_owner), "a file is dealt to an owner");
    let state = |mut views: Vec<ViewEntry>| {
        views.sort_by_key(ViewEntry::id);
        let mut state = State::default();
        for mut view in joined(views) {
            view.shared = owners[&view.sstable].len() > 1;
            state.views.insert(view.id(), view);
        }
        state
    };
    dealt.into_iter().map(state).collect()
}

/// Parts of one file that touch become one again.
fn joined(views: Vec<ViewEntry>) -> Vec<ViewEntry> {
    let mut all: Vec<ViewEntry> = Vec::with_capacity(views.len());
    for view in views {
        match all.last_mut() {
            Some(last)
                if last.sstable == view.sstable
                    && view.begin.is_none()
                    && last.tokens.last.0.checked_add(1) == Some(view.tokens.first.0) =>
            {
                last.tokens.last = view.tokens.last;
                last.level = last.level.max(view.level);
            }
            _ => all.push(view),
        }
    }
    all
}

/// What a sweep did and met.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// How many files it deleted.
    pub deleted: u64,
    /// What it met that no table has, for the operator: it is left alone.
    pub strange: Vec<String>,
    /// How many shards have each file.
    pub owners: FileOwners,
}

/// Deletes the sstables that no shard's manifest names, which a crash or an error left; then the directories of tables
/// in which nothing is left. With no engine open.
pub async fn sweep(disk: &Disk, layout: &Layout) -> Result<Swept> {
    let mut named = BTreeSet::new();
    let mut swept = Swept::default();
    for shard in 0..layout.shards {
        let state = Manifest::read(disk, &layout::shard_dir(layout.generation, shard)).await?;
        let path =
            |view: &ViewEntry| layout::sstable_path(view.table, view.sstable).as_str().to_owned();
        named.extend(state.views.values().map(path));
        let files: BTreeSet<Uuid> = state.views.values().map(|view| view.sstable).collect();
        files.iter().for_each(|file| assert!(swept.owners.add(*file), "no shard is open"));
    }
    for table in disk.list(&layout::tables_dir()).await? {
        match layout::tables_dir().child(&table.name) {
            Some(dir) if table.is_dir => sweep_table(disk, &dir, &named, &mut swept).await?,
            _ => swept.strange.push(format!("\"tables/{}\" is no table", table.name)),
        }
    }
    Ok(swept)
}

async fn sweep_table(
    disk: &Disk,
    dir: &RelPath,
    named: &BTreeSet<String>,
    swept: &mut Swept,
) -> Result<()> {
    let mut is_empty = true;
    for file in disk.list(dir).await? {
        let Some(path) = dir.child(&file.name).filter(|_| !file.is_dir) else {
            swept.strange.push(format!("\"{dir}/{}\" is no file of a table", file.name));
            is_empty = false;
            continue;
        };
        let of_named = |(sstable, _): (Uuid, _)| {
            let path = dir.join(&format!("{}.sst", sstable.as_hyphenated()));
            named.contains(path.as_str())
        };
        if named.contains(path.as_str()) || sstable_of(&file.name).is_some_and(of_named) {
            is_empty = false;
            continue;
        }
        disk.unlink(&path).await?;
        swept.deleted += 1;
    }
    if is_empty { disk.rmdir(dir).await } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use model::Token;
    use proptest::prelude::*;

    use super::*;

    fn cut(shards: usize) -> Vec<TokenRange> {
        let step = 100 / shards as i64;
        let first = |shard: usize| if shard == 0 { i64::MIN } else { shard as i64 * step };
        let last = |shard: usize| {
            if shard + 1 == shards { i64::MAX } else { (shard as i64 + 1) * step - 1 }
        };
        (0..shards).map(|s| TokenRange { first: Token(first(s)), last: Token(last(s)) }).collect()
    }

    fn view(file: u128, first: i64, last: i64) -> ViewEntry {
        ViewEntry {
            sstable: Uuid::from_u128(file),
            table: Uuid::nil(),
            run: Uuid::from_u128(file),
            tokens: TokenRange { first: Token(first), last: Token(last) },
            begin: None,
            file_bytes: 1,
            footer_checksum: 1,
            level: 0,
            shared: false,
        }
    }

    proptest! {
        /// Dealt any number of times, each token of a file is in exactly one shard, the one that owns it, and a
        /// file is shared if and only if several shards have it.
        #[test]
        fn nothing_is_lost_or_doubled(
            files in prop::collection::vec((0..100i64, 0..100i64), 1..5),
            counts in prop::collection::vec(1..9usize, 1..4),
        ) {
            let files: Vec<(i64, i64)> = files.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
            let mut views: Vec<ViewEntry> =
                files.iter().zip(1..).map(|((a, b), file)| view(file, *a, *b)).collect();
            for shards in counts {
                let owned = cut(shards);
                let states = deal(&views, &owned);
                prop_assert_eq!(states.len(), shards);
                for ((first, last), file) in files.iter().zip(1..) {
                    let has = |state: &State, token: i64| {
                        let views = state.views.values();
                        views.filter(|v| v.sstable == Uuid::from_u128(file) && v.tokens.contains(Token(token))).count()
                    };
                    for token in 0..100 {
                        let inside = (*first..=*last).contains(&token);
                        for (state, range) in states.iter().zip(&owned) {
                            let wanted = usize::from(inside && range.contains(Token(token)));
                            prop_assert_eq!(has(state, token), wanted);
                        }
                    }
                    let of_file: Vec<&ViewEntry> = states.iter().flat_map(|s| s.views.values())
                        .filter(|v| v.sstable == Uuid::from_u128(file)).collect();
                    prop_assert!(of_file.iter().all(|view| view.shared == (of_file.len() > 1)));
                }
                views = states.iter().flat_map(|state| state.views.values().cloned()).collect();
            }
        }
    }
}

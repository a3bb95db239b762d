//! How a shard comes back: manifest, sstables, log, in this order, and nothing is skipped in silence.
//!
//! ```text
//! manifest ─► open every view ─► replay the log behind what was flushed ─► resume the log ─► ready
//!                                   └─ memory is short: flush ─► manifest
//! ```
//!
//! 1. An sstable that the manifest names and that is missing or damaged is kept as damaged (`damage.rs`): reads of its
//!    tokens fail with its name, everything else is served. What is damaged of a manifest or a log stops the start.
//! 2. A record is replayed for a table only if the manifest does not say that this table has it in its views.
//! 3. Replaying twice is replaying once, so a crash at any step is followed by the same steps again.
//! 4. A start writes no data to the disk, which may be full: what a shard has in its log takes no more than half of its
//!    memory, and a start flushes from three quarters on. One that was given less memory than before may flush.
//! 5. What was replayed stays in the log until it is flushed like everything else. The replay writes the log's last
//!    block again before it hands out that block's records: it may have been readable and not durable.

use std::collections::BTreeMap;
use std::rc::Rc;

use model::{Schema, TableId};
use uuid::Uuid;

use crate::budget::Budget;
use crate::cache::BlockCache;
use crate::commitlog::{Log, Position, Record, Replay};
use crate::damage::{DamageKind, DamagedView, is_damage};
use crate::engine::{Config, Engine, Parts};
use crate::error::Result;
use crate::file_names::FileNames;
use crate::flush::FlushTarget;
use crate::garbage::{Garbage, GoneTable};
use crate::io::Disk;
use crate::layout;
use crate::manifest::{Edit, Manifest, State, ViewEntry};
use crate::sstable::Sstable;
use crate::stats::Counters;
use crate::table::{Table, View};
use crate::tables::{TableMap, Tables, tables_of};

/// A shard on its way back.
struct Recovery<'r> {
    disk: &'r Disk,
    config: &'r Config,
    cache: Rc<BlockCache>,
    manifest: Manifest,
    tables: TableMap,
    budget: Budget,
    counters: Counters,
    names: FileNames,
}

impl Engine {
    /// Makes the log and the manifest of a shard that has never been. The directories are there.
    pub async fn create(disk: &Disk, config: &Config) -> Result<()> {
        let log_dir = layout::log_dir(&config.shard_dir);
        Log::create(disk, &log_dir, config.log.clone()).await?;
        Manifest::create(disk, &config.shard_dir, config.log.seed, State::default()).await?;
        Ok(())
    }

    /// Opens a shard: everything that was answered is readable when this returns.
    pub async fn open(disk: &Disk, config: Config, schema: &Schema) -> Result<Engine> {
        let budget = Budget::new(config.memory_bytes)?;
        let manifest = Manifest::open(disk, &config.shard_dir, config.log.seed).await?;
        let tables = tables_of(schema, &TableMap::default());
        budget.count_schema(&tables, schema.types_bytes(), 1);
        let mut recovery = Recovery {
            disk,
            config: &config,
            cache: BlockCache::new(budget.blocks_max() as u64),
            manifest,
            tables,
            budget,
            counters: Counters::default(),
            names: FileNames::new(config.log.seed),
        };
        let garbage = recovery.open_views().await?;
        let log = recovery.replay().await?;
        let Recovery { cache, manifest, tables, budget, counters, names, .. } = recovery;
        Ok(Engine::assemble(Parts {
            disk: disk.clone(),
            log,
            manifest,
            cache,
            tables: Tables::new(tables, config.owned),
            garbage: Garbage::of(garbage),
            names,
            budget,
            counters,
            types_bytes: schema.types_bytes(),
        }))
    }
}

impl Recovery<'_> {
    /// Opens every view that can be opened; gives those of tables that are gone.
    async fn open_views(&mut self) -> Result<Vec<GoneTable>> {
        let entries: Vec<ViewEntry> = self.manifest.state().views.values().cloned().collect();
        let mut open: BTreeMap<Uuid, Rc<Sstable>> = BTreeMap::new();
        let mut views: BTreeMap<TableId, Vec<View>> = BTreeMap::new();
        let mut damaged: BTreeMap<TableId, Vec<DamagedView>> = BTreeMap::new();
        let mut gone: BTreeMap<Uuid, Vec<ViewEntry>> = BTreeMap::new();
        for entry in entries {
            let id = TableId(entry.table);
            if !self.tables.contains_key(&id) {
                gone.entry(entry.table).or_default().push(entry);
                continue;
            }
            let file = entry.sstable;
            let view = match open.get(&file) {
                Some(sstable) => View { entry, sstable: sstable.clone() },
                None => match View::open(self.disk, entry.clone(), &self.cache).await {
                    Ok(view) => {
                        let definition = self.tables[&id].definition();
                        view.attach_indexes(self.disk, &self.cache, &definition).await;
                        view
                    }
                    Err(error) if is_damage(&error) => {
                        let kind = DamageKind::Unopened;
                        let view = DamagedView { entry, kind, error, since_s: None };
                        damaged.entry(id).or_default().push(view);
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            open.insert(file, view.sstable.clone());
            views.entry(id).or_default().push(view);
        }
        for (id, views) in views {
            self.tables[&id].replace_views(&[], views);
        }
        for (id, views) in damaged {
            self.tables[&id].damage.set_unopened(views);
        }
        Ok(gone.into_iter().map(|(table, views)| GoneTable { table, views }).collect())
    }

    /// Takes in what the log holds and no view does.
    async fn replay(&mut self) -> Result<Log> {
        let log_dir = layout::log_dir(&self.config.shard_dir);
        let flushed = self.manifest.state().flushed;
        let mut replay = Replay::open(self.disk, &log_dir, flushed).await?;
        let mut start = flushed;
        while let Some(record) = replay.next().await? {
            assert!(start < record.end, "records end one after the other");
            self.take(&record, start, log_dir.as_str())?;
            start = record.end;
            self.counters.count(|s| s.records_replayed += 1);
            if self.budget.memtables() > self.budget.replayed_max() {
                self.flush_to_fit().await?;
            }
        }
        let tail = replay.finish().await?;
        assert!(start <= tail.durable, "what was replayed is the log's");
        Log::resume(self.disk, &log_dir, self.config.log.clone(), tail).await
    }

    fn take(&self, record: &Record<'_>, start: Position, log: &str) -> Result<()> {
        for mutation in record.mutations(log) {
            let mutation = mutation?;
            let Some(table) = self.tables.get(&mutation.table) else { continue };
            if self.manifest.state().is_replayed(mutation.table.0, record.end) {
                self.budget.memtables_grew(table.apply(&mutation, start, record.end));
            }
        }
        Ok(())
    }

    /// Flushes the largest memtables until half of the space is free.
    async fn flush_to_fit(&mut self) -> Result<()> {
        while self.budget.wants_flush(0) {
            let largest = self.tables.iter().max_by_key(|(id, t)| (t.memtable_bytes(), **id));
            let table = largest.map(|(_, table)| Rc::clone(table)).expect("somebody has it");
            self.flush(&table).await?;
        }
        Ok(())
    }

    async fn flush(&mut self, table: &Table) -> Result<()> {
        let layer = table.oldest_sealed().expect("a table that holds memory has a layer");
        let definition = table.definition();
        let id = self.names.next();
        let target = FlushTarget {
            disk: self.disk,
            cache: &self.cache,
            definition: &definition,
            id,
            now_s: self.config.now_s,
            space: None,
            sample: None,
        };
        let view = target.write_layer(&layer, &async || {}).await?;
        let edit = Edit {
            add: view.iter().map(|view| view.entry.clone()).collect(),
            replayed_from: vec![(definition.id.0, layer.until)],
            ..Edit::default()
        };
        self.manifest.commit(&edit).await?;
        self.budget.memtables_shrank(table.flushed(&layer, view));
        Ok(())
    }
}

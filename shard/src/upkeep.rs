//! What an operator asks of all cores: flush, compact, and how they are.
//!
//! ```text
//! upkeep(Flush(tables)) ─► every shard: seal, write its memtables ──┐
//! upkeep(Compact(tables)) ─► every shard: merge its sstables ───────┼─► its status afterwards
//! upkeep(Link, Forget, Adopt, ..) ─► every shard: its part of a snapshot (`snapshots.rs`)
//! upkeep(Status) ─► every shard ────────────────────────────────────┘
//! ```
//!
//! Invariant: when a flush returns, what was acknowledged before it was asked is in sstables; a
//! flush or compaction that is under way already is waited for, never taken for this one.
//!
//! Not here: who may ask (the server's admin socket).

use std::sync::Arc;

use engine::manifest::ViewEntry;
use engine::{HotPartitions, Result, Stats, TableSize};
use model::TableId;
use model::schema::IndexId;
use uuid::Uuid;

use crate::groups::Group;
use crate::message::{Reply, Request};
use crate::owner::ShardId;
use crate::peers::Line;
use crate::protocol::Protocol;
use crate::router::join;
use crate::shard::Shard;

/// A task that an operator asks of all shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// Write what these tables hold in memory to sstables.
    Flush(Arc<[TableId]>),
    /// Merge all sstables of each of these tables into one.
    Compact(Arc<[TableId]>),
    /// Make the index files of this table anew: of one of its indexes, or of all.
    RebuildIndexes(TableId, Option<IndexId>),
    /// Write what these tables hold in memory to sstables, and link these into the snapshot of this tag.
    Link {
        /// The snapshot's tag; its directories are there.
        tag: Arc<str>,
        /// The tables in it.
        tables: Arc<[TableId]>,
        /// What comes after it.
        linking: Linking,
    },
    /// Empty a table of what was linked when its cut was made.
    TruncateToCut(TableId),
    /// Forget a table's cut.
    EndCut(TableId),
    /// Hold the writes of a base, whose views are to be emptied, until they are released.
    HoldWrites(TableId),
    /// Take the writes of a base again.
    ReleaseWrites(TableId),
    /// Leave out rows of these views that are noted and not sent: the views are emptied.
    LeaveOut(Arc<[TableId]>),
    /// Have the views of these tables emptied and built again. Only the first shard is asked.
    BuildViewsAgain(Arc<[TableId]>),
    /// Wait until what was noted before the start is sent.
    AwaitNotes,
    /// Write the rows of a view's base to the view.
    BuildView(TableId),
    /// Refuse writes to these tables, which are to be dropped; the status of these afterwards.
    Close(Arc<[TableId]>),
    /// Take writes to these tables again.
    Open(Arc<[TableId]>),
    /// Forget what the logs hold of these tables, which are gone: they are to come back.
    Forget(Arc<[TableId]>),
    /// Give up what a damaged file holds.
    ForgetFile(Uuid),
    /// Take these views of a snapshot's files back.
    Adopt {
        /// The snapshot's tag.
        tag: Arc<str>,
        /// The table that gets them.
        table: TableId,
        /// Views of files, as the snapshot has them.
        views: Arc<[ViewEntry]>,
    },
    /// Count which partitions are read and written, of this table or all.
    StartSample(Option<TableId>),
    /// End that, and tell what was counted.
    EndSample,
    /// Nothing but the status.
    Status,
    /// Nothing but the status of these tables.
    StatusOf(Arc<[TableId]>),
}

impl Upkeep {
    /// The line by which a peer is asked. What writes wait for must not wait for them, nor for what takes minutes.
    fn line(&self) -> Line {
        match self {
            Upkeep::Link { .. }
            | Upkeep::TruncateToCut(_)
            | Upkeep::EndCut(_)
            | Upkeep::HoldWrites(_)
            | Upkeep::ReleaseWrites(_)
            | Upkeep::LeaveOut(_)
            | Upkeep::Close(_)
            | Upkeep::Open(_)
            | Upkeep::Forget(_)
            | Upkeep::Adopt { .. }
            | Upkeep::StatusOf(_) => Line::Orders,
            Upkeep::Flush(_)
            | Upkeep::Compact(_)
            | Upkeep::RebuildIndexes(..)
            | Upkeep::BuildViewsAgain(_)
            | Upkeep::AwaitNotes
            | Upkeep::BuildView(_)
            | Upkeep::ForgetFile(_)
            | Upkeep::StartSample(_)
            | Upkeep::EndSample
            | Upkeep::Status => Line::General,
        }
    }
}

/// What comes after files are linked into a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linking {
    /// The table goes on as it is.
    Keep,
    /// The table is truncated to where it was when it was linked.
    Cut,
}

/// One shard, as it is now.
#[derive(Clone, Debug)]
pub struct ShardStatus {
    /// The shard that answers.
    pub shard: ShardId,
    /// What its engine has counted since it was opened.
    pub stats: Stats,
    /// Segments of its commit log that hold something no sstable has.
    pub log_segments: u32,
    /// What each table holds that was asked for.
    pub tables: Vec<(TableId, TableSize)>,
    /// How many views of a damaged file it has just given up.
    pub forgotten: u64,
    /// The views whose files it has just linked into a snapshot.
    pub linked: Vec<ViewEntry>,
    /// What the sample that has just ended has counted.
    pub hot: HotPartitions,
}

impl<P: Protocol> Shard<P> {
    /// Asks every core; their statuses afterwards, in their order.
    pub async fn upkeep(&self, upkeep: &Upkeep) -> Result<Vec<ShardStatus>> {
        let ask = async |shard: ShardId| match shard == self.me() {
            true => self.upkeep_here(upkeep).await,
            false => {
                match self.call_by(upkeep.line(), shard, Request::Upkeep(upkeep.clone())).await {
                    Reply::Upkeep(result) => result.map(|status| *status).map_err(|error| *error),
                    _ => unreachable!("upkeep is answered with a status"),
                }
            }
        };
        join(self.sharder.all().map(ask)).await.into_iter().collect()
    }

    pub(crate) async fn upkeep_here(&self, upkeep: &Upkeep) -> Result<ShardStatus> {
        match upkeep {
            Upkeep::Flush(tables) => self.background.flush_tables(tables).await?,
            Upkeep::Compact(tables) => self.background.compact_tables(tables).await?,
            Upkeep::RebuildIndexes(table, index) => {
                self.engine.rebuild_indexes(*table, *index).await?;
            }
            Upkeep::Link { tag, tables, linking } => {
                let linked = self.link_here(tag, tables, *linking).await?;
                return Ok(ShardStatus { linked, ..self.status_of(&[]) });
            }
            Upkeep::Forget(tables) => self.forget_here(tables).await?,
            Upkeep::ForgetFile(file) => {
                let forgotten = self.background.forget_file(*file).await?;
                return Ok(ShardStatus { forgotten, ..self.status_of(&[]) });
            }
            Upkeep::Adopt { tag, table, views } => self.adopt_here(tag, *table, views).await?,
            Upkeep::TruncateToCut(table) => self.background.truncate_to_cut(*table).await?,
            Upkeep::EndCut(table) => self.background.end_cut(*table),
            Upkeep::HoldWrites(base) => self.hold_writes(*base).await?,
            Upkeep::ReleaseWrites(base) => self.engine.release_writes(*base),
            Upkeep::LeaveOut(views) => self.leave_out(views).await,
            Upkeep::BuildViewsAgain(bases) => self.build_views_again(bases).await?,
            Upkeep::AwaitNotes => self.until_notes_are_sent().await,
            Upkeep::BuildView(view) => self.build_here(*view).await?,
            Upkeep::Close(tables) => {
                self.engine.close_tables(tables).await?;
                return Ok(self.status_of(tables));
            }
            Upkeep::Open(tables) => self.engine.open_tables(tables),
            Upkeep::StartSample(table) => self.engine.start_sample(*table)?,
            Upkeep::EndSample => {
                let hot = self.engine.end_sample();
                return Ok(ShardStatus { hot, ..self.status_of(&[]) });
            }
            Upkeep::StatusOf(tables) => return Ok(self.status_of(tables)),
            Upkeep::Status => return Ok(self.status_of_all().await),
        }
        Ok(self.status_of(&[]))
    }

    /// The status with the sizes of all tables: they may be many, so it takes turns.
    async fn status_of_all(&self) -> ShardStatus {
        let (schema, mut status) = (self.schema(), self.status_of(&[]));
        let yielder = self.runtime().yielder(Group::Background);
        for table in schema.tables() {
            status.tables.extend(self.size_of(table.id));
            yielder.yield_if_due().await;
        }
        status
    }

    fn size_of(&self, table: TableId) -> Option<(TableId, TableSize)> {
        Some((table, self.engine.table_size(table).ok()?))
    }

    /// The status, with the sizes of some tables.
    fn status_of(&self, tables: &[TableId]) -> ShardStatus {
        ShardStatus {
            shard: self.me(),
            stats: self.engine.stats(),
            log_segments: self.engine.log_segments(),
            tables: tables.iter().filter_map(|table| self.size_of(*table)).collect(),
            forgotten: 0,
            linked: Vec::new(),
            hot: HotPartitions::default(),
        }
    }
}

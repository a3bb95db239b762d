//! TRUNCATE and DROP behind a snapshot: what was acknowledged is in the table, in the snapshot, or both.
//!
//! ```text
//! TRUNCATE  every shard: flush, link, cut ─► manifest ─► (views) ─► every shard: what the snapshot has goes
//! DROP      the schema is as the author saw it ─► every shard: refuses writes ─► snapshot ─► the schema changes
//! ```
//!
//! 1. The first core does all of it, behind a snapshot in the turn of snapshots: nothing is restored or removed
//!    meanwhile.
//! 2. A DROP that is not for the schema of now takes no snapshot; one that fails removes its own, and writes go on.
//! 3. With a full disk there is no snapshot: it would keep the space that the statement is to free.
//!
//! Not here: snapshots that an operator takes (`snapshots.rs`), the cut (`engine/src/cut.rs`), the table's views
//! (`emptying.rs`).

use std::sync::Arc;

use engine::{Error, Result};
use model::TableId;

use super::SnapshotOrder;
use crate::message::{AlterError, Alteration, Reply, Request};
use crate::protocol::Protocol;
use crate::schema::SCHEMA_SHARD;
use crate::shard::Shard;
use crate::upkeep::{Linking, ShardStatus, Upkeep};

/// What takes rows away, and the snapshot that comes before it.
#[derive(Clone, Debug)]
pub struct Removal {
    /// What takes rows away.
    pub step: RemovalStep,
    /// The snapshot, if one is wanted. Of its tables those are in it that hold something; if its tag is taken it gets a
    /// number behind it.
    pub order: Option<SnapshotOrder>,
}

/// What takes rows away.
#[derive(Clone, Debug)]
pub enum RemovalStep {
    /// TRUNCATE of a table.
    Truncate(TableId),
    /// DROP of a table or keyspace.
    Drop(Alteration),
}

/// What became of the snapshot of a [`Removal`] that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It was taken.
    Snapshot,
    /// The tables held nothing, or none was wanted.
    Nothing,
    /// None was taken: the disk is full.
    DiskFull,
}

impl<P: Protocol> Shard<P> {
    /// Takes rows away, behind a snapshot if one is ordered: when this returns, both are durable.
    pub async fn remove(&self, removal: Removal) -> Result<Kept, AlterError> {
        if self.me() == SCHEMA_SHARD {
            return self.remove_here(removal).await;
        }
        match self.call(SCHEMA_SHARD, Request::Remove(Box::new(removal))).await {
            Reply::Removed(result) => result.map_err(|error| *error),
            _ => unreachable!("a removal is answered with what became of its snapshot"),
        }
    }

    pub(crate) async fn remove_here(&self, removal: Removal) -> Result<Kept, AlterError> {
        let Removal { step, order } = removal;
        let _turn = match &order {
            Some(_) => Some(self.snapshot_turn().await),
            None => None,
        };
        match (step, order) {
            (RemovalStep::Truncate(table), order) => {
                self.empty_with_views(table, order).await.map_err(AlterError::Store)
            }
            (RemovalStep::Drop(alteration), Some(order)) => {
                self.drop_behind(alteration, order).await
            }
            (RemovalStep::Drop(alteration), None) => {
                self.alter_here(alteration).await.map(|_| Kept::Nothing)
            }
        }
    }

    /// Empties a table, behind a snapshot if one is ordered; `first` is done when there is one.
    pub(crate) async fn truncate_behind(
        &self,
        table: TableId,
        order: Option<SnapshotOrder>,
        first: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<Kept> {
        let Some(order) = order else {
            first().await?;
            return self.truncate(table).await.map(|()| Kept::Nothing);
        };
        let status = Upkeep::StatusOf(order.tables.clone());
        let held = held(&self.upkeep(&status).await?);
        if held.is_empty() {
            // It is empty: what is written from here on is written after the truncation.
            return first().await.map(|()| Kept::Nothing);
        }
        let order = SnapshotOrder { tables: held, ..order };
        let kept = match self.take_before(&order, Linking::Cut).await {
            Ok(kept) => first().await.map(|()| kept),
            Err(error) => Err(error),
        };
        match kept {
            Ok(Some(_)) => {
                self.upkeep(&Upkeep::TruncateToCut(table)).await?;
                Ok(Kept::Snapshot)
            }
            Ok(None) => {
                self.upkeep(&Upkeep::EndCut(table)).await?;
                self.truncate(table).await?;
                Ok(Kept::DiskFull)
            }
            Err(error) => {
                self.upkeep(&Upkeep::EndCut(table)).await?;
                Err(error)
            }
        }
    }

    async fn drop_behind(
        &self,
        alteration: Alteration,
        order: SnapshotOrder,
    ) -> Result<Kept, AlterError> {
        let tables = order.tables.clone();
        let (mut kept, mut taken) = (Kept::Nothing, None);
        let take = async || {
            let closed = self.upkeep(&Upkeep::Close(order.tables.clone())).await?;
            let held = held(&closed);
            if !held.is_empty() {
                let order = SnapshotOrder { tables: held, ..order };
                taken = self.take_before(&order, Linking::Keep).await?;
                kept = if taken.is_some() { Kept::Snapshot } else { Kept::DiskFull };
            }
            Ok(())
        };
        let altered = self.alter_after(alteration, take).await;
        match altered {
            Ok(_) => Ok(kept),
            Err(error) => {
                self.upkeep(&Upkeep::Open(tables)).await.map_err(AlterError::Store)?;
                if let Some(tag) = taken {
                    self.remove_snapshot(&tag).await.map_err(AlterError::Store)?;
                }
                Err(error)
            }
        }
    }

    /// Takes a snapshot under a tag that is free; `None` if the disk is full.
    async fn take_before(&self, order: &SnapshotOrder, linking: Linking) -> Result<Option<String>> {
        if self.engine().is_disk_full() {
            return Ok(None);
        }
        let tag = self.free_tag(&order.tag).await?;
        let order = SnapshotOrder { tag: tag.clone(), ..order.clone() };
        match self.take_in_turn(&order, linking).await {
            Ok(()) => Ok(Some(tag)),
            Err(Error::DiskFull { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The tables of which some shard holds something.
fn held(statuses: &[ShardStatus]) -> Arc<[TableId]> {
    let sizes = statuses.iter().flat_map(|status| &status.tables);
    let mut held: Vec<TableId> =
        sizes.filter(|(_, size)| size.partitions + size.sstables > 0).map(|(id, _)| *id).collect();
    held.sort();
    held.dedup();
    held.into()
}

//! How a base is emptied with its views, and a view that a TRUNCATE has left.
//!
//! ```text
//! the schema stays ─► writes of the base held, rows of its views sent ─► (snapshot)
//!     ─► views noted: not built, to be emptied ─► views emptied ─► base emptied ─► writes go on ─► notes taken back
//! ```
//!
//! 1. The first core does it, one at a time, and no view comes or goes meanwhile: all that is in a view of what goes,
//!    goes.
//! 2. A start that finds notes empties the views and builds them; so does the builder after a TRUNCATE that has failed
//!    behind them. What may fail for long, the snapshot, comes before.
//! 3. On a full disk nothing can be noted, and TRUNCATE frees it all the same: rows of views that have no space are
//!    left out, and a crash just then may leave others in the views.
//!
//! Not here: who may empty what (`cql`), the snapshot and its cut (`snapshots/removal.rs`), building
//! (`view_builds.rs`).

use std::cell::Cell;
use std::sync::Arc;

use engine::{Error, Result};
use model::TableId;
use model::schema::Table;

use crate::limits::VIEW_SENDS_LOOK;
use crate::message::{Reply, Request};
use crate::protocol::Protocol;
use crate::router::join;
use crate::schema::SCHEMA_SHARD;
use crate::shard::Shard;
use crate::snapshots::{Kept, SnapshotOrder};
use crate::upkeep::Upkeep;
use crate::view_tables::ViewTables;

impl<P: Protocol> Shard<P> {
    /// Empties a table with its views, behind a snapshot if one is ordered: the first core does.
    pub(crate) async fn empty_with_views(
        &self,
        base: TableId,
        order: Option<SnapshotOrder>,
    ) -> Result<Kept> {
        if !self.views_of(base).is_empty() {
            // They belong to what goes.
            self.upkeep(&Upkeep::AwaitNotes).await?;
        }
        self.while_schema_stays(async || {
            let (views, tables) = (self.views_of(base), ViewTables::of(&self.schema()));
            match tables.filter(|_| !views.is_empty()) {
                Some(tables) => self.empty_all(base, order, &views, &tables).await,
                None => self.truncate_behind(base, order, async || Ok(())).await,
            }
        })
        .await
    }

    /// Has the views of these tables emptied and built again: their bases have other rows than the views' writes say.
    pub(crate) async fn build_views_again(&self, bases: &[TableId]) -> Result<()> {
        self.while_schema_stays(async || {
            let Some(tables) = ViewTables::of(&self.schema()) else { return Ok(()) };
            for view in bases.iter().flat_map(|base| self.views_of(*base)) {
                self.write_parts(&self.noted_to_empty(&view, &tables)?).await?;
            }
            self.view_bell.notify();
            Ok(())
        })
        .await
    }

    /// Asks the first core for that.
    pub(crate) async fn have_views_built_again(&self, bases: &[TableId]) -> Result<()> {
        if self.me() == SCHEMA_SHARD {
            return self.build_views_again(bases).await;
        }
        let again = Request::Upkeep(Upkeep::BuildViewsAgain(bases.into()));
        match self.call(SCHEMA_SHARD, again).await {
            Reply::Upkeep(result) => result.map(drop).map_err(|error| *error),
            _ => unreachable!("upkeep is answered with a status"),
        }
    }

    /// The record that says that a view is not built and has to be emptied first.
    fn noted_to_empty(&self, view: &Table, tables: &ViewTables) -> Result<Vec<u8>> {
        let mut record = tables.unbuilt(&view.keyspace, &view.name, self.view_time()?)?;
        record.extend(tables.to_empty(view, self.view_time()?)?);
        Ok(record)
    }

    fn views_of(&self, base: TableId) -> Vec<Arc<Table>> {
        let schema = self.schema();
        let base = schema.table_by_id(base);
        base.into_iter().flat_map(|base| schema.views_of(base)).cloned().collect()
    }

    async fn empty_all(
        &self,
        base: TableId,
        order: Option<SnapshotOrder>,
        views: &[Arc<Table>],
        tables: &ViewTables,
    ) -> Result<Kept> {
        let mut built = tables.built_rows();
        self.read(&tables.read_built(self.view_time()?.now_s), &mut built, None).await?;
        let begun = Cell::new(false);
        let empty_views = async || {
            begun.set(true);
            self.empty_views(views, tables).await
        };
        let emptied = match self.upkeep(&Upkeep::HoldWrites(base)).await {
            Ok(_) => self.truncate_behind(base, order, empty_views).await,
            Err(error) => Err(error),
        };
        let released = self.upkeep(&Upkeep::ReleaseWrites(base)).await;
        if !begun.get() {
            return emptied;
        }
        let was_built = |view: &Table| built.rows.iter().any(|(_, _, id)| *id == Some(view.id));
        let taken_back = async {
            for view in views {
                let at = self.view_time()?;
                let mut record = tables.unbegun(&view.keyspace, &view.name, at)?;
                if was_built(view) {
                    record.extend(tables.built(view, at)?);
                }
                self.write_parts(&record).await?;
            }
            Ok(())
        };
        let is_whole = match (&emptied, &released) {
            (Ok(_), Ok(_)) => taken_back.await,
            (Err(error), _) | (_, Err(error)) => Err(error.clone()),
        };
        if let Err(error) = is_whole {
            tracing::warn!(%error, "materialized views are emptied and built again");
            self.views_left.borrow_mut().extend(views.iter().map(|view| view.id));
            self.view_bell.notify();
        }
        emptied
    }

    /// Empties the views of a base whose writes are held.
    async fn empty_views(&self, views: &[Arc<Table>], tables: &ViewTables) -> Result<()> {
        for view in views {
            match self.write_parts(&self.noted_to_empty(view, tables)?).await {
                Err(Error::DiskFull { .. }) => break,
                noted => noted?,
            }
        }
        let ids: Arc<[TableId]> = views.iter().map(|view| view.id).collect();
        self.upkeep(&Upkeep::LeaveOut(ids.clone())).await?;
        let truncated = join(ids.iter().map(|id| self.truncate(*id))).await;
        truncated.into_iter().collect()
    }

    /// Empties a view that a TRUNCATE has left, if it is still to be emptied: then it is as one that was not begun.
    pub(crate) async fn empty_left(&self, view: &Table, tables: &ViewTables) -> Result<()> {
        let Some(base) = view.view().map(|view| view.base) else { return Ok(()) };
        self.upkeep(&Upkeep::AwaitNotes).await?;
        self.while_schema_stays(async || {
            if !self.is_to_empty(view, tables).await? {
                return Ok(());
            }
            let emptied = async {
                self.upkeep(&Upkeep::HoldWrites(base)).await?;
                // On a full disk this fails, and what is on its way is not waited for.
                self.write_parts(&self.noted_to_empty(view, tables)?).await?;
                self.truncate(view.id).await
            };
            let emptied = emptied.await;
            self.upkeep(&Upkeep::ReleaseWrites(base)).await?;
            emptied?;
            let record = tables.unbegun(&view.keyspace, &view.name, self.view_time()?)?;
            self.write_parts(&record).await?;
            self.views_left.borrow_mut().remove(&view.id);
            Ok(())
        })
        .await
    }

    /// Whether a view is in the schema and has to be emptied before it is built.
    pub(crate) async fn is_to_empty(&self, view: &Table, tables: &ViewTables) -> Result<bool> {
        let is_there = self.schema().table_by_id(view.id).is_some();
        if !is_there || self.views_left.borrow().contains(&view.id) {
            return Ok(is_there);
        }
        let mut begun = tables.progress_rows();
        let command = tables.read_progress(&view.keyspace, self.view_time()?.now_s);
        self.read(&command, &mut begun, None).await?;
        Ok(begun.to_empty.contains(&view.id))
    }

    /// Holds all writes of a base until they are released; returns when the rows of views of those before are where
    /// they belong, or the disk is full.
    pub(crate) async fn hold_writes(&self, base: TableId) -> Result<()> {
        self.engine.hold_writes(base).await?;
        self.until_views_are_sent().await;
        Ok(())
    }

    /// Rows of these views are left out of what was noted until now and is not sent: they are emptied.
    pub(crate) async fn leave_out(&self, emptied: &[TableId]) {
        if let Some(views) = self.views.get() {
            views.leave_out(emptied);
        }
        self.until_views_are_sent().await;
    }

    /// Waits until what was noted until now is sent; not on a full disk.
    async fn until_views_are_sent(&self) {
        let Some(views) = self.views.get() else { return };
        let until = views.next();
        while !views.is_past(until) && !self.engine.is_disk_full() {
            self.runtime.sleep(VIEW_SENDS_LOOK).await;
        }
    }
}

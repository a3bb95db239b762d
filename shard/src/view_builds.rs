//! How the rows that a base has already come into a new view.
//!
//! ```text
//! first core: a view that is not in system.built_views ─► (is it to be emptied?) ─► every core: its part
//!     ─► (is it to be emptied by now?) ─► built
//! every core: a page of the base ─► its rows, as slices, through the queues of their partitions ─► how far: noted
//! ```
//!
//! 1. Writes go on meanwhile, and keep the view from the moment it is in the schema: what is in the log before that is
//!    read, what comes into it later has rows of the view. A slice is written to the view in
//!    the turn of its partition, as the rows are then: it never brings back what a write has changed.
//! 2. What is noted of how far a core is may be late, never early: after a crash a few slices are written twice.
//!
//! Not here: what a slice becomes (`engine/src/views.rs`), the rows of the two tables (`view_tables.rs`), TRUNCATE
//! (`emptying.rs`).

use std::rc::Rc;

use engine::planted::{Bug, planted};
use engine::{CheckedPart, Error, Result};
use futures_lite::future::or;
use model::mutation::MutationBuilder;
use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, RowSink, Slice};
use model::row::RowRef;
use model::schema::Table;
use model::{TableId, Token, TokenRange};
use uuid::Uuid;

use crate::groups::Group;
use crate::limits::{
    BATCH_RETRY, VIEW_BUILD_NOTED_PAGES, VIEW_BUILD_PAGE_BYTES, VIEW_BUILD_PAGE_ROWS,
    VIEW_BUILD_RETRY, VIEW_BUILD_SLICES,
};
use crate::outbox::Hands;
use crate::protocol::Protocol;
use crate::read_pauses::ReadPauses;
use crate::router::{join, split};
use crate::shard::Shard;
use crate::upkeep::Upkeep;
use crate::view_tables::{At, Progress, ViewTables};

impl<P: Protocol> Shard<P> {
    /// Builds the views that are not built, now and whenever the schema changes: the first core does.
    pub async fn build_views(self: Rc<Self>, host: Uuid) {
        loop {
            match self.build_what_is_not(host).await {
                Ok(()) => self.view_bell.notified().await,
                Err(error) => {
                    tracing::warn!(%error, "a materialized view is not built, and will be tried again");
                    let later = self.runtime.sleep(VIEW_BUILD_RETRY);
                    or(later, self.view_bell.notified()).await;
                }
            }
        }
    }

    async fn build_what_is_not(&self, host: Uuid) -> Result<()> {
        let schema = self.schema();
        let Some(tables) = ViewTables::of(&schema) else { return Ok(()) };
        let mut built = tables.built_rows();
        self.read(&tables.read_built(self.view_time()?.now_s), &mut built, None).await?;
        for (keyspace, name, id) in &built.rows {
            let is_there = schema.table(keyspace, name).is_some_and(|view| Some(view.id) == *id);
            if !is_there {
                let at = self.view_time()?;
                let mut record = tables.unbuilt(keyspace, name, at)?;
                record.extend(tables.status((keyspace, name), host, None, at)?);
                self.write_parts(&record).await?;
            }
        }
        let is_built = |view: &Table| built.rows.iter().any(|(_, _, id)| *id == Some(view.id));
        let views: Vec<_> = schema.tables().filter(|table| table.view().is_some()).collect();
        let is_left = |view: &Table| self.views_left.borrow().contains(&view.id);
        let mut result = Ok(());
        for view in views.into_iter().filter(|view| !is_built(view) || is_left(view)) {
            // One that cannot be built keeps none of the others from it.
            result = result.and(self.build(view, &tables, host).await);
        }
        result
    }

    async fn build(&self, view: &Table, tables: &ViewTables, host: Uuid) -> Result<()> {
        if self.is_to_empty(view, tables).await? {
            self.empty_left(view, tables).await?;
        }
        let name = (&*view.keyspace, &*view.name);
        let record = tables.status(name, host, Some("STARTED"), self.view_time()?)?;
        self.write_parts(&record).await?;
        tracing::info!(keyspace = %view.keyspace, view = %view.name, "building a materialized view");
        self.upkeep(&Upkeep::BuildView(view.id)).await?;
        self.while_schema_stays(async || {
            if self.schema().table_by_id(view.id).is_none() {
                // Nothing is said of a view that was dropped while it was built.
                let mut record = tables.unbuilt(&view.keyspace, &view.name, self.view_time()?)?;
                record.extend(tables.status(name, host, None, self.view_time()?)?);
                return self.write_parts(&record).await;
            }
            if self.is_to_empty(view, tables).await? {
                return Err(Error::Overloaded(
                    "a TRUNCATE that has failed while the view was built",
                ));
            }
            let at = self.view_time()?;
            let mut record = tables.built(view, at)?;
            record.extend(tables.unbegun(&view.keyspace, &view.name, at)?);
            record.extend(tables.status(name, host, Some("SUCCESS"), at)?);
            self.write_parts(&record).await
        })
        .await?;
        tracing::info!(keyspace = %view.keyspace, view = %view.name, "a materialized view is built");
        Ok(())
    }

    /// Writes the rows of this core's part of a view's base to the view.
    pub(crate) async fn build_here(&self, id: TableId) -> Result<()> {
        let schema = self.schema();
        let (Some(view), Some(tables)) = (schema.table_by_id(id), ViewTables::of(&schema)) else {
            return Ok(());
        };
        let Some(definition) = view.view() else { return Ok(()) };
        // What came into the log before the view was in the schema made no rows of it: it is read.
        self.engine.until_logged_is_readable().await?;
        let range = self.sharder.range_of(self.me());
        let mut begun = tables.progress_rows();
        let command = tables.read_progress(&view.keyspace, self.view_time()?.now_s);
        self.read(&command, &mut begun, None).await?;
        let mine = begun.rows.iter().find(|(of, tokens, _)| (*of, *tokens) == (id, range));
        let mut progress = mine.map(|(_, _, progress)| *progress);
        let first =
            progress.map_or(range.first, |progress| Token(progress.last.0.saturating_add(1)));
        let mut left = self.base_rows(definition.base, TokenRange { first, ..range })?;
        for pages in 1u32.. {
            let is_gone = self.schema().table_by_id(id).is_none();
            if is_gone || progress.is_some_and(|progress| progress.last >= range.last) {
                break;
            }
            let mut rows = Slices::default();
            let pauses = ReadPauses::new(&self.runtime, Group::Background);
            let end = self.engine.read(&left, &mut rows, || pauses.yield_if_due()).await?;
            for slices in rows.0.chunks(VIEW_BUILD_SLICES) {
                let written = slices.iter().map(|slice| self.write_slice(definition.base, slice));
                join(written).await.into_iter().collect::<Result<()>>()?;
            }
            let last = match &end.more {
                Some(more) => Token(more.token.0.saturating_sub(1)),
                None => range.last,
            };
            let before = progress.map_or(0, |progress| progress.keys);
            progress = Some(Progress { last, keys: before + rows.0.len() as i64 });
            left.resume = end.more;
            let is_due = pages % VIEW_BUILD_NOTED_PAGES == 0;
            // A truncation has taken back how far it is.
            if is_due && !self.engine.is_being_truncated(definition.base) {
                let progress = progress.expect("it was just set");
                let record = tables.begun(view, range, progress, self.view_time()?)?;
                self.write_parts(&record).await?;
            }
        }
        Ok(())
    }

    /// A read of the rows of a base, page by page.
    fn base_rows(&self, base: TableId, range: TokenRange) -> Result<ReadCommand> {
        let page_rows =
            self.views.get().map_or(VIEW_BUILD_PAGE_ROWS, |views| views.build_page_rows());
        let limits = Limits { page_rows, ..Limits::none(VIEW_BUILD_PAGE_BYTES) };
        Ok(ReadCommand {
            table: base,
            partitions: Partitions::Range(range),
            slices: vec![Slice::all()],
            reversed: false,
            static_alone: false,
            distinct: false,
            filters: Vec::new(),
            lookups: Vec::new(),
            nearest: None,
            limits,
            resume: None,
            now_s: self.view_time()?.now_s,
        })
    }

    /// Has a slice of a partition written to the views, whenever there is space.
    async fn write_slice(&self, base: TableId, of: &PartitionSlice) -> Result<()> {
        let mut record = Vec::new();
        let mut mutation = MutationBuilder::begin(&mut record, base, of.token, &of.key);
        mutation.view_slice(&of.slice);
        mutation.finish();
        loop {
            match self.write_durably(&record).await {
                Err(Error::Overloaded(_) | Error::DiskFull { .. }) => {
                    self.runtime.sleep(BATCH_RETRY).await;
                }
                // The base or the views are gone.
                Err(Error::Invalid(_)) if self.schema().table_by_id(base).is_none() => {
                    return Ok(());
                }
                written => return written,
            }
        }
    }

    /// Writes a record to its owners, durably: what builds and TRUNCATEs of views note of themselves. Writes may wait
    /// for their end.
    pub(crate) async fn write_parts(&self, record: &[u8]) -> Result<()> {
        if record.is_empty() {
            return Ok(());
        }
        let (parts, hands) = (split(record, self.sharder)?, self.hands_of_order());
        let send = async |(owner, part)| hands.send((owner, CheckedPart::plain(part))).await;
        join(parts.into_iter().map(send)).await.into_iter().collect()
    }

    pub(crate) fn view_time(&self) -> Result<At> {
        let views = self.views.get().ok_or_else(|| Error::invalid("a shard without a clock"))?;
        Ok(views.at())
    }
}

/// The rows of a partition that a page has, from the first to the last.
struct PartitionSlice {
    token: Token,
    key: Vec<u8>,
    slice: Slice,
}

/// Takes the rows of a page.
#[derive(Default)]
struct Slices(Vec<PartitionSlice>);

impl RowSink for Slices {
    fn row(&mut self, p: &PartitionRef<'_>, at: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        let Some(at) = at else { return Flow::More };
        let end = match planted(Bug::BuildSkipsRow) {
            true => at.to_vec(),
            false => Slice::row(at.to_vec()).end,
        };
        match self.0.last_mut() {
            Some(last) if last.key == p.key => last.slice.end = end,
            _ => {
                let (token, key) = (p.token, p.key.to_vec());
                let slice = Slice { start: at.to_vec(), end };
                self.0.push(PartitionSlice { token, key, slice });
            }
        }
        Flow::More
    }
}

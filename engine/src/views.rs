//! The rows of materialized views, kept as those of their base: made in the turn of the write that changes the base.
//!
//! ```text
//! write of a base ─► queue of its partition ─► its turn: rows as they are ──────────┐
//!                                             └► rows as they will be (overlay) ─────┴─► row by row: old and new
//!      ─► rows of its views ─┬─ of this shard ─► the same record as the base's
//!                            └─ of others ─────► a note in the same record; sent, then forgotten (`shard/src/views.rs`)
//! ```
//!
//! 1. A row of a view is a function of one row of the base. What is written to a view is the difference of what the
//!    function gives before and after a write, and nothing where that is the same.
//! 2. Rows of views are written with timestamps of their own, each later than those before it on its base's owner
//!    ([`Views::stamp`]). So the last that was made wins, in whatever order they arrive, whatever timestamps clients
//!    give, and also if one arrives twice. `docs/decisions/2026-11-23-views.md` has the reasons.
//! 3. What is in a view and is no more gets a row tombstone; a row that comes again is later than that.
//! 4. What expires in the base expires in the view in the same second: a row lives as long as what it is made of.
//!
//! Not here: the row of one row (`views/row.rs`), who may write what (`cql`), building (`shard/src/view_builds.rs`).

mod made;
mod row;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use made::Made;
use model::limits::KEY_BYTES_MAX;
use model::mutation::MutationRef;
use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, RowSink, Slice};
use model::row::RowRef;
use model::schema::ColumnKind;
use model::{Deletion, TableId, Token};
use row::view_row;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::{NEW_CELL_OVERHEAD_BYTES, VIEW_ROWS_BYTES_MAX};
use crate::memtable::Memtable;
use crate::pause::Pause;
use crate::planted::{Bug, planted};
use crate::read_before_write::Held;
use crate::table::{Definition, SharedMemtable, Table};

/// When rows of views are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewStamp {
    /// What they are written with, in microseconds: later than any before.
    pub timestamp_us: i64,
    /// The second at which expiry is judged.
    pub now_s: u32,
}

/// What an engine needs of its owner to keep views.
pub trait Views: fmt::Debug {
    /// A timestamp later than any that it gave before, also before a restart, and the second now.
    fn stamp(&self) -> ViewStamp;

    /// The write under this ticket has read these partitions of tables with views, each with the token of its key. It
    /// is told after the writes before it that it has seen.
    fn has_read(&self, ticket: u64, partitions: &[(TableId, Token)]) {
        let _ = (ticket, partitions);
    }

    /// Takes what belongs to other shards; gives the record of a note of it, which becomes durable with the write
    /// under this ticket. When the ticket is done with success the owner sends it, then tells the writer.
    fn note(&self, ticket: u64, elsewhere: Vec<u8>, stamp: ViewStamp) -> Result<Vec<u8>>;
}

/// The views of a base.
pub(crate) type ViewsOfBase = Rc<[Rc<Definition>]>;

/// What a write of bases and their views becomes.
#[derive(Debug, Default)]
pub(crate) struct WithViews {
    /// What belongs to this shard: the write itself, and rows of views.
    pub(crate) record: Vec<u8>,
    /// Rows of views that belong to other shards.
    pub(crate) elsewhere: Vec<u8>,
    /// When they were made; `None` if there are no views.
    stamp: Option<ViewStamp>,
}

impl WithViews {
    /// A write of tables without views.
    pub(crate) fn of(record: Vec<u8>) -> WithViews {
        WithViews { record, elsewhere: Vec::new(), stamp: None }
    }
}

#[cold]
pub(crate) fn no_views() -> Error {
    Error::invalid("nothing keeps the materialized views of this table")
}

impl Engine {
    /// Keeps views with this from now on; once.
    pub fn keep_views(&self, views: Rc<dyn Views>) {
        assert!(self.views.set(views).is_ok(), "an engine has one owner");
    }

    /// Whether a table of the record has views.
    pub(crate) fn have_views(&self, record: &[u8]) -> bool {
        let mut partitions = MutationRef::partitions_of_trusted_record(record).flatten();
        partitions.any(|(table, ..)| self.has_views(table))
    }

    /// Whether a table has views; one that is gone has none.
    pub(crate) fn has_views(&self, id: TableId) -> bool {
        self.tables.by_id().get(&id).is_some_and(|table| table.has_materialized())
    }

    /// A write of this ticket has had its turn, and has read what it touches of tables with views.
    pub(crate) fn has_read_bases(&self, record: &[u8], ticket: u64) {
        let Some(views) = self.views.get() else { return };
        let partitions = MutationRef::partitions_of_trusted_record(record).flatten();
        let mut read: Vec<(TableId, Token)> = partitions
            .filter(|(table, ..)| self.has_views(*table))
            .map(|(table, token, _)| (table, token))
            .collect();
        read.sort_unstable();
        read.dedup();
        if !read.is_empty() {
            views.has_read(ticket, &read);
        }
    }

    /// Refuses a record whose rows of views would be too many, or too long, as the rows are now.
    pub(crate) async fn check_views(
        &self,
        came: &[u8],
        plain: Vec<u8>,
        pause: &dyn Pause,
    ) -> Result<()> {
        let stamp = self.views.get().ok_or_else(no_views)?.stamp();
        let made = self.with_views(came, plain, stamp, pause).await?;
        self.log.check_bytes(made.record.len() + made.elsewhere.len())
    }

    /// The record that is written here: with a note of what is sent to others, if anything is.
    pub(crate) fn noted(&self, made: WithViews, ticket: u64) -> Result<Vec<u8>> {
        let WithViews { mut record, elsewhere, stamp } = made;
        if let (Some(stamp), false) = (stamp, elsewhere.is_empty()) {
            self.log.check_bytes(record.len() + elsewhere.len())?;
            let views = self.views.get().ok_or_else(no_views)?;
            record.extend(views.note(ticket, elsewhere, stamp)?);
        }
        Ok(record)
    }

    /// The rows of views beside a write in its plain form; `slices` of the record as it came are written again.
    pub(crate) async fn with_views(
        &self,
        came: &[u8],
        plain: Vec<u8>,
        stamp: ViewStamp,
        pause: &dyn Pause,
    ) -> Result<WithViews> {
        let stamp = match planted(Bug::ViewKeepsTime) {
            true => ViewStamp { timestamp_us: newest(&plain), ..stamp },
            false => stamp,
        };
        let mut made = Made::new(stamp, self.read_lists.holder());
        for (base, mutations) in self.by_base(&plain) {
            let Some(change) = Change::of(&mutations) else { continue };
            self.make_rows(base.0, &change, &mut made, pause).await?;
        }
        for mutation in MutationRef::of_trusted_record(came).flatten() {
            let slices: Vec<Slice> = mutation.view_slices().collect();
            if !slices.is_empty() {
                self.make_again(&mutation, slices, &mut made, pause).await?;
            }
        }
        let mut out = WithViews { record: plain, elsewhere: Vec::new(), stamp: Some(stamp) };
        made.put(|token| self.tables.range_of(token).is_some(), &mut out);
        Ok(out)
    }

    /// The mutations of a record that are of tables with views, by their partitions.
    fn by_base<'m>(&self, record: &'m [u8]) -> BTreeMap<(TableId, &'m [u8]), Vec<MutationRef<'m>>> {
        let mut bases: BTreeMap<_, Vec<MutationRef<'_>>> = BTreeMap::new();
        for mutation in MutationRef::of_trusted_record(record) {
            let mutation = mutation.expect("a record is checked when it is taken");
            if self.views_of(mutation.table).is_some() {
                bases.entry((mutation.table, mutation.key)).or_default().push(mutation);
            }
        }
        bases
    }

    fn views_of(&self, base: TableId) -> Option<ViewsOfBase> {
        let views = self.tables.by_id().get(&base)?.materialized();
        (!views.is_empty()).then_some(views)
    }

    /// The rows of views that a change of one partition of their base makes other.
    async fn make_rows(
        &self,
        base: TableId,
        change: &Change<'_>,
        made: &mut Made<'_>,
        pause: &dyn Pause,
    ) -> Result<()> {
        let Some(views) = self.views_of(base) else { return Ok(()) };
        let definition = self.table(base)?.definition();
        let command = change.command(made.stamp().now_s);
        let mut after = Rows::of(made.held());
        self.read_in_turn_with(&command, &mut after, Some(&change.overlay), pause).await?;
        let after = after.whole()?;
        let mut before = Before { views: &views, base: &definition, after, made, refused: None };
        self.read_in_turn_with(&command, &mut before, None, pause).await?;
        let Before { after, refused, .. } = before;
        refused.map_or(Ok(()), Err)?;
        // What was not there before.
        for (clustering, new) in &after {
            for view in views.iter() {
                let of_base = (&**definition, change.key);
                let new = view_row(view, of_base, clustering, Some(RowRef::trusted(new)))?;
                made.changed(view, None, new)?;
            }
            pause.take().await;
        }
        Ok(())
    }

    /// The rows of views as the rows of these slices are now, in the place of whatever is there.
    async fn make_again(
        &self,
        mutation: &MutationRef<'_>,
        slices: Vec<Slice>,
        made: &mut Made<'_>,
        pause: &dyn Pause,
    ) -> Result<()> {
        let Some(views) = self.views_of(mutation.table) else { return Ok(()) };
        let definition = self.table(mutation.table)?.definition();
        let command = command(mutation, slices, made.stamp().now_s);
        let mut rows = Rows::of(made.held());
        self.read_in_turn_with(&command, &mut rows, None, pause).await?;
        for (clustering, row) in &rows.whole()? {
            for view in views.iter() {
                let of_base = (&**definition, mutation.key);
                let row = view_row(view, of_base, clustering, Some(RowRef::trusted(row)));
                made.again(view, row.map_or_else(left_out, Ok)?)?;
            }
            pause.take().await;
        }
        Ok(())
    }
}

/// A row of a base whose key is too long for a view is not in it.
fn left_out<T>(error: Error) -> Result<Option<T>> {
    match error {
        Error::Invalid(_) => Ok(None),
        error => Err(error),
    }
}

/// Refuses values that are too long for the key of a view of the table.
pub(crate) fn check_view_keys(table: &Table, mutation: &MutationRef<'_>) -> Result<()> {
    let views = table.materialized();
    let keys = |view: &Rc<Definition>, id| {
        let column = view.column_by_id(id);
        column.is_some_and(|column| column.kind <= ColumnKind::Clustering)
    };
    for (_, row) in mutation.rows() {
        let long = row.cells().find(|cell| cell.value.len() > KEY_BYTES_MAX);
        let Some(cell) = long else { continue };
        if let Some(view) = views.iter().find(|view| keys(view, cell.column)) {
            return Err(Error::invalid(format!(
                "Key size of {} bytes is longer than maximum of {KEY_BYTES_MAX}: the column is in the key of the materialized view {}.{}",
                cell.value.len(),
                view.keyspace,
                view.name
            )));
        }
    }
    Ok(())
}

/// What a record changes of one partition.
struct Change<'m> {
    mutation: MutationRef<'m>,
    key: &'m [u8],
    /// Where rows may change: sorted, disjoint.
    slices: Vec<Slice>,
    /// The change alone.
    overlay: SharedMemtable,
}

impl<'m> Change<'m> {
    /// The change of these mutations of one partition; `None` if it changes no rows.
    fn of(mutations: &[MutationRef<'m>]) -> Option<Change<'m>> {
        let mutation = *mutations.first()?;
        let (mut slices, mut overlay) = (Vec::new(), Memtable::default());
        for mutation in mutations {
            overlay.insert(mutation);
            if !mutation.deletion.is_none() {
                slices.push(Slice::all());
            }
            slices.extend(mutation.ranges().map(|range| {
                let (start, end) = (range.start.to_vec(), range.end.to_vec());
                Slice { start, end }
            }));
            slices.extend(mutation.rows().map(|(row, _)| Slice::row(row.to_vec())));
        }
        let slices = disjoint(slices);
        let overlay = Rc::new(RefCell::new(overlay));
        (!slices.is_empty()).then_some(Change { mutation, key: mutation.key, slices, overlay })
    }

    fn command(&self, now_s: u32) -> ReadCommand {
        command(&self.mutation, self.slices.clone(), now_s)
    }
}

/// A read of slices of a partition.
fn command(mutation: &MutationRef<'_>, slices: Vec<Slice>, now_s: u32) -> ReadCommand {
    ReadCommand {
        table: mutation.table,
        partitions: Partitions::Keys(vec![(mutation.token, mutation.key.into())]),
        slices,
        reversed: false,
        static_alone: false,
        distinct: false,
        filters: Vec::new(),
        lookups: Vec::new(),
        nearest: None,
        limits: Limits::none(u64::MAX),
        resume: None,
        now_s,
    }
}

/// The same slices in order, those that touch as one.
fn disjoint(mut slices: Vec<Slice>) -> Vec<Slice> {
    slices.retain(|slice| slice.start < slice.end);
    slices.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    let mut apart: Vec<Slice> = Vec::with_capacity(slices.len());
    for slice in slices {
        match apart.last_mut() {
            Some(last) if slice.start <= last.end => last.end = slice.end.max(last.end.clone()),
            _ => apart.push(slice),
        }
    }
    apart
}

/// Encoded rows by their clusterings.
type EncodedRows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Takes rows that are read.
struct Rows<'m, 'h> {
    rows: EncodedRows,
    bytes: usize,
    /// What the turn holds, these rows with the rest.
    held: &'m mut Held<'h>,
    refused: Option<Error>,
}

impl<'m, 'h> Rows<'m, 'h> {
    fn of(held: &'m mut Held<'h>) -> Rows<'m, 'h> {
        Rows { rows: BTreeMap::new(), bytes: 0, held, refused: None }
    }

    /// All of them; `Invalid` if they were too many, `Overloaded` if there is no memory for them.
    fn whole(self) -> Result<EncodedRows> {
        self.refused.map_or(Ok(self.rows), Err)
    }

    fn take(&mut self, clustering: &[u8], row: &[u8]) -> Result<()> {
        let bytes = clustering.len() + row.len();
        self.bytes += bytes;
        if self.bytes > VIEW_ROWS_BYTES_MAX {
            return Err(too_many());
        }
        self.held.add(bytes + NEW_CELL_OVERHEAD_BYTES)?;
        self.rows.insert(clustering.to_vec(), row.to_vec());
        Ok(())
    }
}

#[cold]
fn too_many() -> Error {
    Error::invalid(format!(
        "A write changes rows of a table with materialized views whose rows and keys are more than {VIEW_ROWS_BYTES_MAX} bytes together: use several statements"
    ))
}

impl RowSink for Rows<'_, '_> {
    fn row(&mut self, _: &PartitionRef<'_>, at: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        if let (Some(clustering), Some(row)) = (at, row)
            && let Err(refused) = self.take(clustering, row.bytes())
        {
            self.refused.get_or_insert(refused);
            return Flow::Enough;
        }
        Flow::More
    }
}

/// Takes the rows as they were, and makes of each and of what it becomes what changes in the views.
struct Before<'b, 'h> {
    views: &'b ViewsOfBase,
    base: &'b Definition,
    /// What becomes of them; what is taken from here was there before.
    after: EncodedRows,
    made: &'b mut Made<'h>,
    refused: Option<Error>,
}

impl Before<'_, '_> {
    fn take(&mut self, key: &[u8], clustering: &[u8], old: RowRef<'_>) -> Result<()> {
        let new = self.after.remove(clustering);
        let new = new.as_deref().map(RowRef::trusted);
        if new == Some(old) {
            return Ok(());
        }
        for view in self.views.iter() {
            let row = |row| view_row(view, (&**self.base, key), clustering, row);
            let (old, new) = match (row(Some(old)), row(new)) {
                // It was too long when the view was made, and the write need not have brought that.
                (Err(long), new) => (left_out(long)?, new.or_else(left_out)?),
                (Ok(old), new) => (old, new?),
            };
            let old = if planted(Bug::OldViewRowStays) { None } else { old };
            self.made.changed(view, old, new)?;
        }
        Ok(())
    }
}

impl RowSink for Before<'_, '_> {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        if let (Some(clustering), Some(row)) = (clustering, row)
            && let Err(refused) = self.take(partition.key, clustering, row)
        {
            self.refused.get_or_insert(refused);
            return Flow::Enough;
        }
        Flow::More
    }
}

/// The newest timestamp of the rows of a record.
fn newest(record: &[u8]) -> i64 {
    let mutations = MutationRef::of_trusted_record(record).flatten();
    let rows = mutations.flat_map(|mutation| mutation.rows().collect::<Vec<_>>());
    rows.filter_map(|(_, row)| row.timestamps()).map(|(newest, _)| newest).max().unwrap_or(0)
}

/// A tombstone of this moment.
fn deletion(stamp: ViewStamp) -> Deletion {
    Deletion { timestamp: stamp.timestamp_us, local_s: stamp.now_s }
}

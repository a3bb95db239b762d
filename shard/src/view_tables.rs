//! How far views are built: rows of `system.built_views` and `system.view_builds_in_progress`.
//!
//! ```text
//! built_views(keyspace, view) ► id                      the view of this id shows all of its base
//! view_builds_in_progress(keyspace, view, start, end)   of the base's tokens from start to end those up to `last_token`
//!                             ► id, keys_built, last_token; start '' : it has to be emptied before it is built
//! system_distributed.view_build_status(keyspace, view, host) ► STARTED, SUCCESS
//! ```
//!
//! A row of another id is of an earlier view of that name: it says nothing. Not here: who builds (`view_builds.rs`).

use std::sync::Arc;

use engine::{Error, Result};
use model::key::{after, put_clustering, put_partition_key};
use model::mutation::{MutationBuilder, RangeTombstone};
use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, RowSink, Slice};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::Table;
use model::{ColumnId, Deletion, Schema, TableId, Token, TokenRange};
use uuid::Uuid;

/// The tables that say how far views are.
#[derive(Clone, Debug)]
pub(crate) struct ViewTables {
    built: Arc<Table>,
    progress: Arc<Table>,
    status: Option<Arc<Table>>,
}

/// How far one core is with a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The last token whose partitions are in the view.
    pub(crate) last: Token,
    /// How many partitions that were.
    pub(crate) keys: i64,
}

/// When something is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) timestamp_us: i64,
    pub(crate) now_s: u32,
}

impl At {
    fn deletion(self) -> Deletion {
        Deletion { timestamp: self.timestamp_us, local_s: self.now_s }
    }
}

impl ViewTables {
    /// The tables as a schema has them.
    pub(crate) fn of(schema: &Schema) -> Option<ViewTables> {
        let table = |name| schema.table("system", name).cloned();
        Some(ViewTables {
            built: table("built_views")?,
            progress: table("view_builds_in_progress")?,
            status: schema.table("system_distributed", "view_build_status").cloned(),
        })
    }

    /// The record that says that a view is built.
    pub(crate) fn built(&self, view: &Table, at: At) -> Result<Vec<u8>> {
        let replicated: &[u8] = &[1];
        let cells = [("id", view.id.0.as_bytes().as_slice()), ("status_replicated", replicated)];
        put(&self.built, &view.keyspace, &[&view.name], Some(&cells), at)
    }

    /// The record that says to drivers and tools how far a view is: `STARTED` or `SUCCESS`, or nothing.
    pub(crate) fn status(
        &self,
        (keyspace, name): (&str, &str),
        host: Uuid,
        status: Option<&str>,
        at: At,
    ) -> Result<Vec<u8>> {
        let Some(table) = &self.status else { return Ok(Vec::new()) };
        let (mut key, mut row) = (Vec::new(), Vec::new());
        put_partition_key([keyspace.as_bytes(), name.as_bytes()].into_iter(), &mut key)
            .and_then(|()| put_clustering(table, [&host.as_bytes()[..]].into_iter(), &mut row))
            .map_err(|error| Error::invalid(error.to_string()))?;
        let cells = status.map(|status| [("status", status.as_bytes())]);
        put_in(table, &key, &row, cells.as_ref().map(|cells| &cells[..]), at)
    }

    /// The record that says that a view has to be emptied before it is built.
    pub(crate) fn to_empty(&self, view: &Table, at: At) -> Result<Vec<u8>> {
        let cells = [("id", view.id.0.as_bytes().as_slice())];
        put(&self.progress, &view.keyspace, &[&view.name, "", ""], Some(&cells), at)
    }

    /// The records that say that a view of this name is not built, and was not begun.
    pub(crate) fn unbuilt(&self, keyspace: &str, name: &str, at: At) -> Result<Vec<u8>> {
        let mut record = put(&self.built, keyspace, &[name], None, at)?;
        record.extend(self.unbegun(keyspace, name, at)?);
        Ok(record)
    }

    /// The record that takes back all that is said of how far a view is.
    pub(crate) fn unbegun(&self, keyspace: &str, name: &str, at: At) -> Result<Vec<u8>> {
        let (mut out, key) = (Vec::new(), keyspace.as_bytes());
        let start = clustering(&self.progress, &[name])?;
        let mut end = start.clone();
        after(&mut end);
        let mut m = MutationBuilder::begin(&mut out, self.progress.id, Token::of_key(key), key);
        m.delete_range(&RangeTombstone { start: &start, end: &end, deletion: at.deletion() });
        m.finish();
        Ok(out)
    }

    /// The record that says how far the core of these tokens is.
    pub(crate) fn begun(
        &self,
        view: &Table,
        range: TokenRange,
        progress: Progress,
        at: At,
    ) -> Result<Vec<u8>> {
        let (start, end) = (range.first.0.to_string(), range.last.0.to_string());
        let (keys, last) = (progress.keys.to_be_bytes(), progress.last.0.to_string());
        let cells = [
            ("id", view.id.0.as_bytes().as_slice()),
            ("keys_built", &keys),
            ("last_token", last.as_bytes()),
        ];
        put(&self.progress, &view.keyspace, &[&view.name, &start, &end], Some(&cells), at)
    }

    /// A read of all views that are built.
    pub(crate) fn read_built(&self, now_s: u32) -> ReadCommand {
        let all = Partitions::Range(TokenRange::ALL);
        command(self.built.id, all, now_s)
    }

    /// A read of how far the views of a keyspace are.
    pub(crate) fn read_progress(&self, keyspace: &str, now_s: u32) -> ReadCommand {
        let key = keyspace.as_bytes();
        let keys = Partitions::Keys(vec![(Token::of_key(key), key.into())]);
        command(self.progress.id, keys, now_s)
    }

    /// Takes the rows of the one read.
    pub(crate) fn built_rows(&self) -> BuiltRows<'_> {
        BuiltRows { table: &self.built, rows: Vec::new() }
    }

    /// Takes the rows of the other.
    pub(crate) fn progress_rows(&self) -> ProgressRows<'_> {
        ProgressRows { table: &self.progress, rows: Vec::new(), to_empty: Vec::new() }
    }
}

fn command(table: TableId, partitions: Partitions, now_s: u32) -> ReadCommand {
    ReadCommand {
        table,
        partitions,
        slices: vec![Slice::all()],
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

fn clustering(table: &Table, values: &[&str]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    put_clustering(table, values.iter().map(|value| value.as_bytes()), &mut out)
        .map_err(|error| Error::invalid(error.to_string()))?;
    Ok(out)
}

/// A row with these cells, or none: then it is deleted.
fn put(
    table: &Table,
    keyspace: &str,
    row: &[&str],
    cells: Option<&[(&str, &[u8])]>,
    at: At,
) -> Result<Vec<u8>> {
    put_in(table, keyspace.as_bytes(), &clustering(table, row)?, cells, at)
}

fn put_in(
    table: &Table,
    key: &[u8],
    row: &[u8],
    cells: Option<&[(&str, &[u8])]>,
    at: At,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut named: Vec<(ColumnId, &[u8])> = Vec::new();
    for (name, value) in cells.into_iter().flatten() {
        let column =
            table.column(name).ok_or_else(|| Error::invalid(format!("no column {name}")))?;
        named.push((column.id, value));
    }
    named.sort_unstable();
    let mut m = MutationBuilder::begin(&mut out, table.id, Token::of_key(key), key);
    m.row(row, |out| {
        let bare = RowHead::bare(at.timestamp_us);
        let head = match cells {
            Some(_) => bare,
            None => RowHead { deletion: at.deletion(), ..bare },
        };
        let mut row = RowBuilder::begin(out, &head);
        named.iter().for_each(|(id, value)| row.cell(&Cell::live(*id, at.timestamp_us, value)));
    });
    m.finish();
    Ok(out)
}

/// The text values of a row's clustering columns.
fn texts(table: &Table, clustering: &[u8]) -> Option<Vec<String>> {
    let values = (0..table.clustering().len()).map(|index| {
        let mut value = Vec::new();
        model::key::clustering_value(table, clustering, index, &mut value).ok()?;
        String::from_utf8(value).ok()
    });
    values.collect()
}

fn value<'r>(table: &Table, row: RowRef<'r>, name: &str) -> Option<&'r [u8]> {
    let column = table.column(name)?.id;
    row.cells().find(|cell| cell.column == column).map(|cell| cell.value)
}

fn id_of(table: &Table, row: RowRef<'_>) -> Option<TableId> {
    Uuid::from_slice(value(table, row, "id")?).ok().map(TableId)
}

/// The views that are built: keyspace, name and id.
pub(crate) struct BuiltRows<'t> {
    table: &'t Table,
    pub(crate) rows: Vec<(String, String, Option<TableId>)>,
}

impl RowSink for BuiltRows<'_> {
    fn row(&mut self, p: &PartitionRef<'_>, at: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        if let (Some(at), Some(row)) = (at, row)
            && let Some([name]) = texts(self.table, at).as_deref()
        {
            let keyspace = String::from_utf8_lossy(p.key).into_owned();
            self.rows.push((keyspace, name.clone(), id_of(self.table, row)));
        }
        Flow::More
    }
}

/// How far views are: id, tokens and progress.
pub(crate) struct ProgressRows<'t> {
    table: &'t Table,
    pub(crate) rows: Vec<(TableId, TokenRange, Progress)>,
    /// Views that have to be emptied first.
    pub(crate) to_empty: Vec<TableId>,
}

impl ProgressRows<'_> {
    fn take(&mut self, at: &[u8], row: RowRef<'_>) -> Option<()> {
        let texts = texts(self.table, at)?;
        let [_, start, end] = texts.as_slice() else { return None };
        if start.is_empty() {
            self.to_empty.push(id_of(self.table, row)?);
            return None;
        }
        let token = |text: &str| text.parse().ok().map(Token);
        let last = std::str::from_utf8(value(self.table, row, "last_token")?).ok()?;
        let keys = value(self.table, row, "keys_built")?.try_into().ok().map(i64::from_be_bytes)?;
        let range = TokenRange { first: token(start)?, last: token(end)? };
        let id = id_of(self.table, row)?;
        self.rows.push((id, range, Progress { last: token(last)?, keys }));
        Some(())
    }
}

impl RowSink for ProgressRows<'_> {
    fn row(&mut self, _: &PartitionRef<'_>, at: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        if let (Some(at), Some(row)) = (at, row) {
            self.take(at, row);
        }
        Flow::More
    }
}

//! The views of the simulated tables: how they are drawn, and what each must show of its base.
//!
//! ```text
//! t1  k | v w                v, w, or k alone may be in a view's key
//! t2  k | c1 c2 | .. v w m   the same, in any order; rows where a column is there, or has a value from some on
//! ```
//!
//! Not here: how the product makes rows of views (`engine/src/views.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::io::Rng;
use model::key::{clustering_value, partition_key_value};
use model::options::{KeyspaceOptions, TableOptions};
use model::read::{Flow, Operator, PartitionRef, RowSink};
use model::row::RowRef;
use model::schema::{
    Column, ColumnKind, SchemaEntry, Table, TableBuilder, ViewDefinition, ViewIdentity, ViewKey,
    ViewRestriction, ViewTest,
};
use model::{ColumnId, CqlType, Schema, SchemaChange, TableId};
use uuid::Uuid;

use crate::oracle::{Cells, Seen, Value, short};
use crate::schema;

/// The tables of batches and of how views are built.
pub(crate) fn built_in() -> Arc<Schema> {
    let text = || CqlType::Text;
    let table = |name: &str, number| {
        TableBuilder::new("system", name, TableId(Uuid::from_u128(number)))
            .partition_key("keyspace_name", text())
            .and_then(|table| table.clustering("view_name", text(), false))
            .expect("free names")
    };
    let built = table("built_views", 2)
        .regular("id", CqlType::Uuid)
        .and_then(|table| table.regular("status_replicated", CqlType::Boolean))
        .and_then(TableBuilder::build);
    let progress = table("view_builds_in_progress", 3)
        .clustering("start_token", text(), false)
        .and_then(|table| table.clustering("end_token", text(), false))
        .and_then(|table| table.regular("id", CqlType::Uuid))
        .and_then(|table| table.regular("keys_built", CqlType::Bigint))
        .and_then(|table| table.regular("last_token", text()))
        .and_then(TableBuilder::build);
    let status =
        TableBuilder::new("system_distributed", "view_build_status", TableId(Uuid::from_u128(4)))
            .partition_key("keyspace_name", text())
            .and_then(|table| table.partition_key("view_name", text()))
            .and_then(|table| table.clustering("host_id", CqlType::Uuid, false))
            .and_then(|table| table.regular("status", text()))
            .and_then(TableBuilder::build);
    let options = KeyspaceOptions::default();
    let distributed = SchemaChange::CreateKeyspace { name: "system_distributed".into(), options };
    let made = [built, progress, status];
    let made = made.map(|table| SchemaChange::CreateTable(Box::new(table.expect("a sound table"))));
    let apply = |schema: Schema, change| {
        let entry = SchemaEntry { number: 0, version: Uuid::nil(), change };
        schema.apply(&entry).expect("the built-in schema is sound")
    };
    let changes = [distributed].into_iter().chain(made);
    Arc::new(changes.fold((*schema::base()).clone(), apply))
}

/// The views of a simulated table.
pub(crate) fn views_of(schema: &Schema, number: usize) -> Vec<Arc<Table>> {
    let base = schema::table(schema, number).expect("all tables are there");
    schema.views_of(base).cloned().collect()
}

/// A new view of a table.
pub(crate) fn draw(schema: &Schema, number: usize, rng: &mut Rng, gc_grace_s: i32) -> Table {
    let base = schema::table(schema, number).expect("all tables are there");
    let names: Vec<String> =
        views_of(schema, number).iter().map(|view| view.name.clone()).collect();
    let name = (0..).map(|nth| format!("t{number}_v{nth}")).find(|name| !names.contains(name));
    let of_base = base.partition_key().iter().chain(base.clustering());
    let mut key: Vec<ColumnId> = of_base.map(|column| column.id).collect();
    let plain: Vec<&Column> = base.regulars().filter(|column| is_plain(column)).collect();
    let valued = (!plain.is_empty() && !rng.one_in(4)).then(|| plain[rng.index(plain.len())].id);
    key.extend(valued);
    for place in (1..key.len()).rev() {
        key.swap(place, rng.index(place + 1));
    }
    let partition = if key.len() > 1 && rng.one_in(4) { 2 } else { 1 };
    let clustering = key.split_off(partition);
    let clustering = clustering.into_iter().map(|id| (id, rng.one_in(3))).collect();
    let key = ViewKey { partition: key, clustering };
    let include_all = rng.one_in(3);
    let shown = |column: &&Column| Some(column.id) != valued;
    let selected: Vec<ColumnId> = base.regulars().filter(shown).map(|column| column.id).collect();
    let selected: Vec<ColumnId> =
        selected.into_iter().filter(|_| include_all || rng.one_in(2)).collect();
    let mut restrictions = Vec::new();
    if let Some(column) = valued {
        let least = ViewTest {
            operator: Operator::GreaterOrEqual,
            values: vec![Box::from([rng.below(200) as u8])],
        };
        restrictions.push(ViewRestriction { column, test: rng.one_in(3).then_some(least) });
    }
    let asked: Vec<&Column> = base.regulars().filter(|column| Some(column.id) != valued).collect();
    if !asked.is_empty() && rng.one_in(4) {
        let column = asked[rng.index(asked.len())].id;
        restrictions.push(ViewRestriction { column, test: None });
    }
    let options = TableOptions { gc_grace_seconds: gc_grace_s, ..TableOptions::default() };
    let id = TableId(Uuid::from_u64_pair(rng.roll(), rng.roll()));
    let identity = ViewIdentity { id, name: name.expect("there are names enough"), options };
    let definition = ViewDefinition { base: base.id, include_all, restrictions };
    Table::view_of(base, identity, &key, &selected, definition).expect("a sound view")
}

fn is_plain(column: &Column) -> bool {
    column.ty == CqlType::Blob
}

/// The drop of a view.
pub(crate) fn drop_of(view: &Table) -> SchemaChange {
    SchemaChange::DropTable { keyspace: view.keyspace.clone(), name: view.name.clone() }
}

/// A row of a view: the columns of its key, and the cells.
pub(crate) type Shown = (BTreeMap<u16, Vec<u8>>, Cells);

/// What a view must show of these partitions of its base.
pub(crate) fn wanted(
    view: &Table,
    base: &Table,
    partitions: &BTreeMap<Vec<u8>, Seen>,
) -> Vec<Shown> {
    let mut rows = Vec::new();
    for (key, seen) in partitions {
        for (clustering, cells) in &seen.rows {
            rows.extend(row(view, base, (key, clustering), cells));
        }
    }
    rows.sort();
    rows
}

/// The row of a view for one of its base, if it has one.
fn row(view: &Table, base: &Table, (key, at): (&[u8], &[u8]), cells: &Cells) -> Option<Shown> {
    let definition = view.view().expect("it is a view");
    let value = |id: ColumnId| {
        let column = base.column_by_id(id).expect("a column of the base");
        match column.kind {
            ColumnKind::PartitionKey => Some(key.to_vec()),
            ColumnKind::Clustering => {
                let mut value = Vec::new();
                clustering_value(base, at, column.position.into(), &mut value).expect("sound");
                Some(value)
            }
            _ => cells.iter().find(|(of, ..)| *of == id.0).map(|(.., value)| long(*value)),
        }
    };
    for restriction in &definition.restrictions {
        let value = value(restriction.column)?;
        let least = restriction.test.as_ref().map(|test| &*test.values[0]);
        if least.is_some_and(|least| *value < *least) {
            return None;
        }
    }
    let mut key = BTreeMap::new();
    for column in view.partition_key().iter().chain(view.clustering()) {
        key.insert(column.id.0, value(column.id)?);
    }
    let is_shown = |id: u16| {
        let column = view.column_by_id(ColumnId(id));
        column.is_some_and(|column| column.kind == ColumnKind::Regular)
    };
    let cells = cells.iter().filter(|(id, ..)| is_shown(*id)).cloned().collect();
    Some((key, cells))
}

/// The bytes of a value.
fn long((byte, count): Value) -> Vec<u8> {
    vec![u8::try_from(byte).expect("a value of equal bytes"); count]
}

/// Takes the rows of a view.
pub(crate) struct ViewRows {
    view: Arc<Table>,
    pub(crate) rows: Vec<Shown>,
}

impl ViewRows {
    pub(crate) fn of(view: &Arc<Table>) -> ViewRows {
        ViewRows { view: view.clone(), rows: Vec::new() }
    }
}

impl RowSink for ViewRows {
    fn row(&mut self, p: &PartitionRef<'_>, at: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let (Some(at), Some(row)) = (at, row) else { return Flow::More };
        let (view, mut key) = (&self.view, BTreeMap::new());
        for (place, column) in view.partition_key().iter().enumerate() {
            let value = partition_key_value(p.key, view.partition_key().len(), place);
            key.insert(column.id.0, value.expect("a sound key").to_vec());
        }
        for (place, column) in view.clustering().iter().enumerate() {
            let mut value = Vec::new();
            clustering_value(view, at, place, &mut value).expect("a sound key");
            key.insert(column.id.0, value);
        }
        let cells = row
            .cells()
            .map(|cell| (cell.column.0, cell.path.map(<[u8]>::to_vec), short(cell.value)));
        self.rows.push((key, cells.collect()));
        Flow::More
    }
}

/// Takes the ids that rows have in a cell.
#[derive(Default)]
pub(crate) struct Ids(pub(crate) Vec<TableId>);

impl RowSink for Ids {
    fn row(&mut self, _: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let cells = row.into_iter().flat_map(|row| row.cells());
        self.0.extend(cells.filter_map(|cell| Uuid::from_slice(cell.value).ok()).map(TableId));
        Flow::More
    }
}

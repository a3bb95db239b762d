//! A whole database in a `BTreeMap`, so that tests can say statements and see rows.
//!
//! It does with mutations and read commands what storage promises, in the simplest way there is:
//! every read sorts, merges and filters everything.
//!
//! Statements go the whole way from text to a record, and from a read command to rows, which are compared as JSON. An
//! aggregate over a range is made a second time in parts, and must be the same. Conditional writes and changes of lists
//! are bound and not applied: they need the owner (`engine/src/read_before_write.rs`). Not here: frames, and what
//! storage does.

mod ids;

use std::cell::Cell;
use std::collections::BTreeMap;

use model::cell::Deletion;
use model::read::{Flow, NearestRows, PartitionRef, Partitions, Resume};
use model::row::{self, RowHead};
use model::schema::{ColumnDrops, Schema, SchemaEntry};
use model::{
    MutationRef, ReadCommand, ReadEnd, RowBuilder, RowRef, RowSink, TableId, Token, TokenRange,
};
use uuid::Uuid;

pub(crate) use self::ids::CountingIds;
use self::ids::Sums;
use crate::bind::{Bindings, BoundOn, Marker, StatementTime};
use crate::ddl;
use crate::error::Result;
use crate::expr::function::json_text;
use crate::frame::Version;
use crate::frame::request::{ValueList, Values};
use crate::guardrails::Guardrails;
use crate::plan::{
    BatchSize, BatchThresholds, BoundRead, ConditionalWrite, Extent, Page, Parts, Scratch,
    SelectPlan,
};
use crate::prepare::{Prepared, Statement, prepare};
use crate::rows::ResultPart;

#[derive(Default)]
struct Partition {
    deletion: Option<Deletion>,
    ranges: Vec<(Vec<u8>, Vec<u8>, Deletion)>,
    static_row: Option<Vec<u8>>,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Partition {
    fn covering(&self, clustering: Option<&[u8]>) -> Deletion {
        let mut deletion = self.deletion.unwrap_or(Deletion::NONE);
        for (start, end, range) in &self.ranges {
            if clustering.is_some_and(|at| &start[..] <= at && at < &end[..]) {
                deletion = deletion.max(*range);
            }
        }
        deletion
    }
}

/// A database in memory: tables of rows, and the clock.
pub(crate) struct Database {
    pub(crate) schema: Schema,
    pub(crate) keyspace: Option<String>,
    pub(crate) now_s: u32,
    pub(crate) warnings: Vec<String>,
    pub(crate) guardrails: Guardrails,
    /// Which thread binds the next writes.
    pub(crate) bound_on: BoundOn,
    /// Rows of a page of the next reads.
    pub(crate) page_rows: Option<u32>,
    /// How many pages the last read had.
    pub(crate) pages: Cell<u32>,
    /// What the expressions of the last row that was read took (`RowSink::row_work`).
    pub(crate) row_work: Cell<usize>,
    /// What the answer and the open group of the last page took (`ResultEncoder::held_bytes`).
    pub(crate) held_bytes: Cell<usize>,
    timestamp_us: i64,
    ids: CountingIds,
    partitions: BTreeMap<(TableId, Token, Vec<u8>), Partition>,
}

impl Database {
    /// A database with a keyspace `ks` in use.
    pub(crate) fn new() -> Database {
        let mut db = Database {
            schema: Schema::empty(),
            keyspace: Some("ks".into()),
            now_s: 1000,
            warnings: Vec::new(),
            guardrails: Guardrails::default(),
            bound_on: BoundOn::Core,
            page_rows: None,
            pages: Cell::new(0),
            row_work: Cell::new(0),
            held_bytes: Cell::new(0),
            timestamp_us: 1_000_000,
            ids: CountingIds::default(),
            partitions: BTreeMap::new(),
        };
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        db.ok(&format!("CREATE KEYSPACE ks WITH replication = {replication}"));
        db
    }

    /// A database with one table `t` of these columns.
    pub(crate) fn with(columns: &str) -> Database {
        let mut db = Database::new();
        db.ok(&format!("CREATE TABLE t ({columns})"));
        db
    }

    /// Runs a statement that works; its rows as JSON, each on a line.
    pub(crate) fn ok(&mut self, text: &str) -> String {
        self.run(text, &ValueList::new()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Runs a statement that does not work; its error.
    pub(crate) fn err(&mut self, text: &str) -> String {
        match self.run(text, &ValueList::new()) {
            Ok(rows) => panic!("{text}: {rows}"),
            Err(error) => error.to_string(),
        }
    }

    /// Runs a statement with bound values.
    pub(crate) fn run(&mut self, text: &str, values: &ValueList) -> Result<String> {
        let prepared = prepare(text, &self.schema, self.keyspace.as_deref())?;
        self.execute(&prepared, &values.as_values(Version::V4))
    }

    pub(crate) fn execute(&mut self, prepared: &Prepared, values: &Values<'_>) -> Result<String> {
        self.timestamp_us += 1;
        self.warnings = prepared.warnings.clone();
        match &prepared.statement {
            Statement::Select(plan) => self.select(plan, &prepared.markers, values),
            Statement::Explain(plan) => {
                let ids = CountingIds::default();
                let bindings = Bindings::new(values, &prepared.markers, self.time(&ids))?;
                let bound =
                    plan.bind_read(&bindings, Page { rows: self.page_rows, state: None })?;
                let steps = plan.explain(&bound).into_iter();
                let lines = steps.map(|step| [step.step, step.what, step.value].join(", "));
                Ok(lines.collect::<Vec<_>>().join("\n"))
            }
            Statement::Write(plan) => {
                let mut record = Vec::new();
                let ids = self.ids.clone();
                let mut bindings = Bindings::new(values, &prepared.markers, self.time(&ids))?;
                bindings.set_bound_on(self.bound_on);
                plan.timeout(&bindings)?;
                plan.bind_write(&bindings, &mut Scratch::default(), &mut record)?;
                self.ids = ids;
                self.apply(&record);
                Ok(String::new())
            }
            Statement::Batch(plan) => {
                let mut record = Vec::new();
                let ids = self.ids.clone();
                let mut bindings = Bindings::new(values, &prepared.markers, self.time(&ids))?;
                let mut size = BatchSize::new(plan.kind, BatchThresholds::default());
                let scratch = &mut Scratch::default();
                plan.bind_write(&mut bindings, scratch, &mut record, &mut size)?;
                self.warnings.extend(size.warnings());
                self.ids = ids;
                self.apply(&record);
                Ok(String::new())
            }
            Statement::Schema(statement) => {
                let planned = ddl::plan(statement, &self.context())?;
                self.warnings = planned.warnings;
                if let Some((change, _)) = planned.step {
                    let number = self.schema.number + 1;
                    let version = Uuid::from_u128(number.into());
                    let entry = SchemaEntry { number, version, change };
                    self.schema = self.schema.apply(&entry)?;
                }
                Ok(String::new())
            }
            Statement::Use(name) => {
                self.keyspace = Some(name.clone());
                Ok(String::new())
            }
            Statement::Truncate(table) => {
                self.partitions.retain(|(id, ..), _| *id != table.id);
                Ok(String::new())
            }
            Statement::Describe(_) => Ok(String::new()),
        }
    }

    fn time<'a>(&self, ids: &'a CountingIds) -> StatementTime<'a> {
        let timestamp_us = self.timestamp_us;
        StatementTime {
            timestamp_us,
            server_timestamp_us: None,
            now_ms: i64::from(self.now_s) * 1000,
            now_s: self.now_s,
            ids,
            functions: &Sums,
        }
    }

    fn context(&self) -> ddl::DdlContext<'_> {
        ddl::DdlContext {
            schema: &self.schema,
            keyspace: self.keyspace.as_deref(),
            is_system: |name| name.starts_with("system"),
            data_center: "datacenter1",
            table_id: TableId(Uuid::from_u128(0x7AB1E << 64 | u128::from(self.schema.number))),
            timestamp_us: self.timestamp_us,
            functions: &Sums,
            functions_enabled: true,
            drop_compact_storage: true,
            sasi_indexes: true,
            guardrails: &self.guardrails,
        }
    }

    pub(crate) fn apply(&mut self, record: &[u8]) {
        for mutation in MutationRef::of_record(record) {
            let mutation = mutation.expect("a plan makes well-formed mutations");
            let key = (mutation.table, mutation.token, mutation.key.to_vec());
            let partition = self.partitions.entry(key).or_default();
            if !mutation.deletion.is_none() {
                let old = partition.deletion.unwrap_or(Deletion::NONE);
                partition.deletion = Some(old.max(mutation.deletion));
            }
            if let Some(row) = mutation.static_row {
                merge_into(partition.static_row.get_or_insert_default(), row);
            }
            for range in mutation.ranges() {
                let (start, end) = (range.start.to_vec(), range.end.to_vec());
                partition.ranges.push((start, end, range.deletion));
            }
            for (clustering, row) in mutation.rows() {
                merge_into(partition.rows.entry(clustering.to_vec()).or_default(), row);
            }
        }
    }

    /// Binds a write and gives up its record, however it ends.
    pub(crate) fn bind(&self, text: &str, values: &ValueList, record: &mut Vec<u8>) -> Result<()> {
        self.bind_counted(text, values, record).0
    }

    /// The same, and the units of work that binding has taken.
    pub(crate) fn bind_counted(
        &self,
        text: &str,
        values: &ValueList,
        record: &mut Vec<u8>,
    ) -> (Result<()>, u64) {
        let prepared = prepare(text, &self.schema, self.keyspace.as_deref()).expect(text);
        let ids = CountingIds::default();
        let values = values.as_values(Version::V4);
        let mut bindings =
            Bindings::new(&values, &prepared.markers, self.time(&ids)).expect("values that fit");
        let scratch = &mut Scratch::default();
        let bound = match &prepared.statement {
            Statement::Write(plan) => plan.bind_write(&bindings, scratch, record),
            Statement::Batch(plan) => {
                let mut size = BatchSize::new(plan.kind, BatchThresholds::default());
                plan.bind_write(&mut bindings, scratch, record, &mut size)
            }
            _ => panic!("{text} writes nothing"),
        };
        (bound, bindings.work_done())
    }

    /// The read that a SELECT is.
    pub(crate) fn bound_read(&self, text: &str) -> BoundRead {
        let prepared = prepare(text, &self.schema, self.keyspace.as_deref()).expect(text);
        let Statement::Select(plan) = &prepared.statement else { panic!("{text} reads nothing") };
        let ids = CountingIds::default();
        let bindings = Bindings::none(self.time(&ids));
        plan.bind_read(&bindings, Page::default()).expect(text)
    }

    /// Binds a write or a batch with conditions.
    pub(crate) fn bind_conditional(
        &self,
        text: &str,
        values: &ValueList,
        record: &mut Vec<u8>,
    ) -> Result<()> {
        let prepared = prepare(text, &self.schema, self.keyspace.as_deref())?;
        let ids = CountingIds::default();
        let values = values.as_values(Version::V4);
        let bindings = Bindings::new(&values, &prepared.markers, self.time(&ids))?;
        let scratch = &mut Scratch::default();
        let (extent, plans) = match &prepared.statement {
            Statement::Write(plan) => (Extent::Statement, std::slice::from_ref(&**plan)),
            Statement::Batch(plan) => (Extent::Batch, &*plan.writes),
            _ => panic!("{text} writes nothing"),
        };
        ConditionalWrite::bind(extent, plans, &bindings, scratch, record)
    }

    /// The one page that begins at a paging state.
    pub(crate) fn page_from(&self, text: &str, state: &[u8]) -> Result<String> {
        let prepared = prepare(text, &self.schema, self.keyspace.as_deref())?;
        let Statement::Select(plan) = &prepared.statement else { panic!("{text} reads nothing") };
        let ids = CountingIds::default();
        let bindings = Bindings::none(self.time(&ids));
        let page = Page { rows: self.page_rows, state: Some(state) };
        let bound = plan.bind_read(&bindings, page)?;
        let (mut out, mut shown) = (Vec::new(), String::new());
        let mut encoder = plan.encoder(&bindings, &bound, &mut out)?;
        let command = bound.command.clone().expect("it reads something");
        self.read(&command, &mut encoder);
        let rows = encoder.finish()?;
        show(plan, rows, &out, &mut shown);
        Ok(shown)
    }

    fn select(&self, plan: &SelectPlan, markers: &[Marker], values: &Values<'_>) -> Result<String> {
        let ids = CountingIds::default();
        let bindings = Bindings::new(values, markers, self.time(&ids))?;
        let mut shown = String::new();
        let mut state: Option<Vec<u8>> = None;
        self.pages.set(0);
        loop {
            self.pages.set(self.pages.get() + 1);
            let page = Page { rows: self.page_rows, state: state.as_deref() };
            let bound = plan.bind_read(&bindings, page)?;
            let mut out = Vec::new();
            let mut encoder = plan.encoder(&bindings, &bound, &mut out)?;
            let mut end = ReadEnd::default();
            if let Some(mut command) = bound.command.clone() {
                loop {
                    end = self.read(&command, &mut encoder);
                    if !bound.reads_all || end.more.is_none() || encoder.is_full() {
                        break;
                    }
                    command.resume = end.more.take();
                }
            }
            self.row_work.set(encoder.row_work());
            self.held_bytes.set(encoder.held_bytes());
            let groups_end = encoder.groups_end();
            let rows = encoder.finish()?;
            show(plan, rows, &out, &mut shown);
            let command = bound.command.as_ref().filter(|_| !bound.reads_all);
            state = match command {
                Some(command) => plan.paging_state(command, &end)?,
                None => bound.groups_paging_state(rows, groups_end),
            };
            if state.is_none() {
                let is_range =
                    |command: &&ReadCommand| matches!(command.partitions, Partitions::Range(_));
                let command = bound.command.as_ref().filter(is_range);
                let parts = plan.parts(&bound);
                if let (Some(command), Some(parts)) = (command, parts) {
                    let made = self.select_in_parts(plan, &bindings, (&bound, command), parts)?;
                    assert_eq!(made, shown, "the result is the same if it is made of parts");
                }
                return Ok(shown);
            }
        }
    }

    /// The result of an aggregate, made of the parts of three owners.
    fn select_in_parts(
        &self,
        plan: &SelectPlan,
        bindings: &Bindings<'_>,
        (bound, command): (&BoundRead, &ReadCommand),
        parts: Parts,
    ) -> Result<String> {
        let borders = [i64::MIN, -3 << 60, 1 << 61, i64::MAX].map(Token);
        let owned = borders.windows(2).map(|pair| TokenRange {
            first: pair[0],
            last: if pair[1].0 == i64::MAX { pair[1] } else { Token(pair[1].0 - 1) },
        });
        let Partitions::Range(range) = command.partitions else { return Ok(String::new()) };
        let mut out = Vec::new();
        let mut whole = plan.encoder(bindings, bound, &mut out)?;
        for part in owned.filter_map(|owned| owned.intersection(&range)) {
            let mut bound = bound.clone();
            let mut rows = Vec::new();
            bound.encoder_limit = whole.groups_left();
            let seed = (parts == Parts::OneByOne).then(|| whole.take_open()).flatten();
            let mut encoder = plan.encoder(bindings, &bound, &mut rows)?;
            encoder.take_part(seed.map(ResultPart::from).unwrap_or_default())?;
            let mut command =
                ReadCommand { partitions: Partitions::Range(part), ..command.clone() };
            loop {
                let end = self.read(&command, &mut encoder);
                if end.more.is_none() || encoder.is_full() {
                    break;
                }
                command.resume = end.more;
            }
            whole.take_part(encoder.into_part()?)?;
            if whole.is_full() {
                break;
            }
        }
        let rows = whole.finish()?;
        let mut shown = String::new();
        show(plan, rows, &out, &mut shown);
        Ok(shown)
    }

    fn read(&self, command: &ReadCommand, sink: &mut impl RowSink) -> ReadEnd {
        let Some(nearest) = &command.nearest else { return self.read_rows(command, sink) };
        let table = self.schema.table_by_id(command.table).expect("it was looked up");
        let mut rows = NearestRows::new(nearest, table);
        let end = self.read_rows(command, &mut rows);
        ReadEnd { rows: rows.give(sink).expect("few rows"), ..end }
    }

    fn read_rows(&self, command: &ReadCommand, sink: &mut impl RowSink) -> ReadEnd {
        let table = self.schema.table_by_id(command.table).expect("it was looked up").clone();
        let all = self.partitions.iter().filter(|((id, ..), _)| *id == command.table);
        let mut found: Vec<(Token, &[u8], &Partition)> =
            all.map(|((_, token, key), partition)| (*token, &key[..], partition)).collect();
        match &command.partitions {
            Partitions::Range(range) => found.retain(|(token, ..)| range.contains(*token)),
            Partitions::Keys(keys) => {
                let at = |key: &[u8]| keys.iter().position(|(_, wanted)| wanted[..] == *key);
                found.retain(|(_, key, _)| at(key).is_some());
                found.sort_by_key(|(_, key, _)| at(key));
            }
        }
        if let Some(resume) = &command.resume {
            let at = found.iter().position(|(_, key, _)| *key == resume.key).unwrap_or(0);
            found.drain(..at);
        }
        let mut reading = Reading { command, sink, end: ReadEnd::default() };
        for (token, key, partition) in found {
            if !reading.partition(&table, token, key, partition) {
                break;
            }
        }
        reading.end
    }
}

fn merge_into(old: &mut Vec<u8>, new: RowRef<'_>) {
    if old.is_empty() {
        RowBuilder::begin(old, &RowHead::bare(i64::MIN));
    }
    let mut merged = Vec::new();
    row::merge(RowRef::trusted(old), new, &mut merged);
    *old = merged;
}

/// One read under way.
struct Reading<'a, S> {
    command: &'a ReadCommand,
    sink: &'a mut S,
    end: ReadEnd,
}

impl<S: RowSink> Reading<'_, S> {
    /// Gives the rows of a partition; false if the page is full.
    fn partition(
        &mut self,
        table: &model::Table,
        token: Token,
        key: &[u8],
        partition: &Partition,
    ) -> bool {
        let command = self.command;
        let now_s = command.now_s;
        let drops = ColumnDrops::of(table);
        let mut scratch = Vec::new();
        let static_row = partition.static_row.as_ref().and_then(|bytes| {
            let covering = partition.covering(None);
            row::visible(RowRef::trusted(bytes), covering, now_s, &drops, &mut scratch)
        });
        let view = PartitionRef { token, key, static_row };
        let resume = command.resume.as_ref().filter(|resume| resume.key == key);
        let rows_before = resume.map_or(0, |resume| resume.rows_of_partition);
        let mut given = rows_before;
        if resume.is_some() && (command.distinct || given >= command.limits.rows_per_partition) {
            return true;
        }
        if resume.is_some_and(|resume| resume.partition_done) {
            return true;
        }
        let mut rows: Vec<(&Vec<u8>, &Vec<u8>)> = partition.rows.iter().collect();
        if command.reversed {
            rows.reverse();
        }
        let mut any = false;
        for (clustering, bytes) in rows {
            let mut scratch = Vec::new();
            let covering = partition.covering(Some(clustering));
            let bytes = RowRef::trusted(bytes);
            let Some(row) = row::visible(bytes, covering, now_s, &drops, &mut scratch) else {
                continue;
            };
            if !command.slices.iter().any(|slice| slice.contains(clustering)) {
                continue;
            }
            any = true;
            if let Some(last) = resume.and_then(|resume| resume.clustering.as_ref()) {
                let before = if command.reversed { clustering >= last } else { clustering <= last };
                if before {
                    continue;
                }
            }
            let accepted = command.filters.iter().all(|filter| {
                filter.matches(table, &view, Some(clustering), Some(row)).expect("sound bytes")
            });
            if !accepted {
                continue;
            }
            given = given.saturating_add(1);
            let full = given >= command.limits.rows_per_partition || command.distinct;
            if !self.give(&view, Some((clustering, row)), given, full) {
                return false;
            }
            if full {
                return true;
            }
        }
        let alone = !any && command.static_alone && static_row.is_some() && rows_before == 0;
        let accepted = alone
            && command
                .filters
                .iter()
                .all(|filter| filter.matches(table, &view, None, None).expect("sound bytes"));
        !accepted || self.give(&view, None, 1, true)
    }

    /// Gives one row; false if it was the page's last.
    fn give(
        &mut self,
        partition: &PartitionRef<'_>,
        row: Option<(&Vec<u8>, RowRef<'_>)>,
        rows_of_partition: u64,
        partition_done: bool,
    ) -> bool {
        let clustering = row.map(|(clustering, _)| &clustering[..]);
        let flow = self.sink.row(partition, clustering, row.map(|(_, row)| row));
        self.end.rows += 1;
        let limits = &self.command.limits;
        if self.end.rows >= limits.rows {
            return false;
        }
        if self.end.rows >= limits.page_rows || flow == Flow::Enough {
            self.end.more = Some(Resume {
                token: partition.token,
                key: partition.key.to_vec(),
                clustering: clustering.map(<[u8]>::to_vec),
                partition_done,
                rows_of_partition,
            });
            return false;
        }
        true
    }
}

/// The rows as JSON values with commas between, each row on a line.
fn show(plan: &SelectPlan, rows: u32, mut bytes: &[u8], shown: &mut String) {
    for _ in 0..rows {
        if !shown.is_empty() {
            shown.push('\n');
        }
        for (index, column) in plan.columns.iter().enumerate() {
            let (length, rest) = bytes.split_first_chunk::<4>().expect("a [bytes]");
            let length = i32::from_be_bytes(*length);
            let (value, rest) = rest.split_at(length.max(0) as usize);
            bytes = rest;
            let value = (length >= 0).then_some(value);
            if let Some(value) = value {
                column.ty.validate(value).expect("a value of the column's type");
            }
            shown.push_str(if index == 0 { "" } else { ", " });
            shown.push_str(&json_text(&column.ty, value).expect("a value of the column's type"));
        }
    }
    assert!(bytes.is_empty(), "bytes left behind the rows");
}

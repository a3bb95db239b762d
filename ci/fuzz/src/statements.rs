//! Statements from text to rows: prepared, bound, executed on one shard in memory, paged.
//!
//! ```text
//! input   statement FF statement FF ...      each: text FE value FE value ...
//! ```
//!
//! The schema begins with one table that has every kind of column; statements may change it. What is written is
//! durable before the next statement. A page of two rows is asked for until none is left, or the bound is reached.
//!
//! Opening an engine takes longer than most inputs do, so inputs share one for a while. Each has tables with ids of
//! its own, so that what one does is the same whatever came before it.
//!
//! Values are bytes: null and unset are not bound.
//!
//! Not here: the server's own parts, as sessions and the cache of prepared statements.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::slice;
use std::task::{Context, Waker};

use cql::bind::{Bindings, Ids, StatementTime};
use cql::ddl::{self, DdlContext};
use cql::expr::function::NoUserFunctions;
use cql::frame::request::ValueList;
use cql::frame::{Value, Version};
use cql::guardrails::Guardrails;
use cql::plan::{BatchSize, BatchThresholds, ConditionalWrite, Extent, Page, Scratch, SelectPlan};
use cql::prepare::{Prepared, Statement, prepare};
use engine::io::{Disk, Faults, SimDisk};
use engine::layout::{self, Layout, Secret};
use engine::{Config, Engine, Error, commitlog};
use futures_lite::future::block_on;
use model::mutation::MutationRef;
use model::read::ReadEnd;
use model::schema::SchemaEntry;
use model::{Schema, TableId, TokenRange};
use uuid::Uuid;

/// Statements of one input.
const STATEMENTS_MAX: usize = 16;
/// Pages of one read: more rows than sixteen statements can write.
const PAGES_MAX: usize = 4096;
const PAGE_ROWS: u32 = 2;
/// Polls of the log until a write is durable; the simulated disk never makes anyone wait.
const POLLS_MAX: usize = 1000;
const MEMORY_BYTES: usize = 8 << 20;
/// Inputs of one engine, and bytes that they may write: far below what it takes before it must flush.
const INPUTS_MAX: u64 = 256;
const INPUT_BYTES_MAX: usize = 1 << 20;
const SCHEMA: [&str; 3] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE ks.pair (x int, y text)",
    "CREATE TABLE ks.t (p int, c text, d int, s int static, v text, n varint, l list<int>, \
     m map<text, int>, u set<int>, f frozen<tuple<int, text>>, o pair, \
     PRIMARY KEY (p, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)",
];

/// Runs what the input says.
pub(crate) fn run(input: &[u8]) {
    execute(input);
}

/// Ids of no moment.
struct SameIds;

impl Ids for SameIds {
    fn timeuuid(&self) -> [u8; 16] {
        *Uuid::from_u128(0x0000_0001_0000_1000_8000_0000_0000_0000).as_bytes()
    }

    fn uuid(&self) -> [u8; 16] {
        *Uuid::from_u128(0x4444 << 64 | 0x8000 << 48).as_bytes()
    }
}

thread_local! {
    /// The schema that each input begins with, but for the id of its table.
    static BEFORE_TABLE: Schema =
        SCHEMA[..2].iter().fold(Schema::empty(), |schema, text| changed_by(text, &schema, 0));
    /// The engine that the inputs of this thread share.
    static SHARD: RefCell<Option<Shard>> = const { RefCell::new(None) };
    /// How many inputs there were.
    static INPUTS: RefCell<u64> = const { RefCell::new(0) };
}

fn changed_by(text: &str, schema: &Schema, input: u64) -> Schema {
    let prepared = prepare(text, schema, Some("ks")).expect("it is well-formed");
    change(&prepared, schema, input).expect("nothing conflicts")
}

/// Runs what the input says; returns how many rows its reads gave.
pub(crate) fn execute(input: &[u8]) -> u64 {
    let number_of_input = INPUTS.with_borrow_mut(|count| {
        *count += 1;
        *count
    });
    let mut schema = BEFORE_TABLE.with(|schema| changed_by(SCHEMA[2], schema, number_of_input));
    let parts: Vec<&[u8]> = input.split(|byte| *byte == 0xFF).take(STATEMENTS_MAX).collect();
    let is_worth = |part: &&[u8]| compile(part, &schema).is_some();
    if !parts.iter().any(is_worth) {
        return 0;
    }
    // A panic takes it along.
    let before = SHARD.take().filter(Shard::may_go_on);
    let mut shard = before.unwrap_or_else(|| Shard::open(&schema));
    shard.inputs += 1;
    shard.engine.set_schema(&schema);
    let mut rows = 0;
    for (number, part) in (1..).zip(parts) {
        let Some((prepared, values)) = compile(part, &schema) else { continue };
        let time = StatementTime {
            timestamp_us: number,
            server_timestamp_us: None,
            now_ms: 1_000_000,
            now_s: 1000,
            ids: &SameIds,
            functions: &NoUserFunctions,
        };
        if let Some(changed) = change(&prepared, &schema, number_of_input) {
            schema = changed;
            shard.engine.set_schema(&schema);
        }
        let values = values.as_values(Version::V5);
        let Ok(mut bindings) = Bindings::new(&values, &prepared.markers, time) else { continue };
        let mut record = Vec::new();
        let bound = match &prepared.statement {
            Statement::Select(plan) => {
                rows += shard.read(plan, &bindings);
                continue;
            }
            Statement::Write(plan) if plan.condition.is_some() => {
                let (extent, plans) = (Extent::Statement, slice::from_ref(&**plan));
                let scratch = &mut Scratch::default();
                ConditionalWrite::bind(extent, plans, &bindings, scratch, &mut record).is_ok()
            }
            Statement::Batch(plan) if plan.not_applied.is_some() => {
                let (extent, plans) = (Extent::Batch, &plan.writes);
                let scratch = &mut Scratch::default();
                ConditionalWrite::bind(extent, plans, &bindings, scratch, &mut record).is_ok()
            }
            Statement::Write(plan) => {
                plan.bind_write(&bindings, &mut Scratch::default(), &mut record).is_ok()
            }
            Statement::Batch(plan) => {
                let mut size = BatchSize::new(plan.kind, BatchThresholds::default());
                let scratch = &mut Scratch::default();
                plan.bind_write(&mut bindings, scratch, &mut record, &mut size).is_ok()
            }
            _ => false,
        };
        if bound && !record.is_empty() {
            shard.write(&record);
        }
    }
    SHARD.set(Some(shard));
    rows
}

fn compile(part: &[u8], schema: &Schema) -> Option<(Prepared, ValueList)> {
    let mut parts = part.split(|byte| *byte == 0xFE);
    let text = std::str::from_utf8(parts.next()?).ok()?;
    let prepared = prepare(text, schema, Some("ks")).ok()?;
    let mut values = ValueList::new();
    parts.for_each(|value| values.push(Value::Bytes(value)));
    Some((prepared, values))
}

/// The schema behind a statement about it; none if it is about something else, or refused.
fn change(prepared: &Prepared, schema: &Schema, input: u64) -> Option<Schema> {
    let Statement::Schema(statement) = &prepared.statement else { return None };
    let number = schema.number + 1;
    let context = DdlContext {
        schema,
        keyspace: Some("ks"),
        is_system: |name| name.starts_with("system"),
        data_center: "datacenter1",
        table_id: TableId(Uuid::from_u128(u128::from(input) << 64 | u128::from(number))),
        timestamp_us: number as i64,
        functions: &NoUserFunctions,
        functions_enabled: true,
        drop_compact_storage: true,
        sasi_indexes: true,
        guardrails: &Guardrails::default(),
    };
    let (change, _) = ddl::plan(statement, &context).ok()?.step?;
    let entry = SchemaEntry { number, version: Uuid::from_u128(number.into()), change };
    Some(schema.apply(&entry).expect("a planned change can be applied"))
}

async fn open(schema: &Schema) -> engine::Result<Engine> {
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let layout = Layout::first(1, Uuid::nil(), Secret::NONE);
    layout.make_directories(&disk).await?;
    let log = commitlog::Config { segment_bytes: 64 << 10, ..commitlog::Config::new(1) };
    let shard_dir = layout::shard_dir(1, 0);
    let config = Config {
        shard_dir,
        owned: vec![TokenRange::ALL],
        log,
        memory_bytes: MEMORY_BYTES,
        now_s: 0,
    };
    Engine::create(&disk, &config).await?;
    Engine::open(&disk, config, schema).await
}

/// An engine whose log is driven by hand.
struct Shard {
    engine: Rc<Engine>,
    log: Pin<Box<dyn Future<Output = Error>>>,
    /// Runs the writes that read first, one after the other.
    turns: Pin<Box<dyn Future<Output = ()>>>,
    ticket: u64,
    /// What it has seen so far.
    inputs: u64,
    bytes: usize,
}

impl Shard {
    fn open(schema: &Schema) -> Shard {
        let engine = Rc::new(block_on(open(schema)).expect("the simulated disk has no faults"));
        let driven = engine.clone();
        let log = Box::pin(async move { driven.drive_log().await });
        let driven = engine.clone();
        let turns = Box::pin(async move {
            loop {
                driven.run_turn(driven.next_turn().await, async || ()).await;
            }
        });
        let mut shard = Shard { engine, log, turns, ticket: 0, inputs: 0, bytes: 0 };
        shard.poll();
        shard
    }

    /// Whether it may take another input.
    fn may_go_on(&self) -> bool {
        self.inputs < INPUTS_MAX && self.bytes < INPUT_BYTES_MAX
    }

    fn poll(&mut self) {
        let polled = self.log.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the log does not fail");
        let polled = self.turns.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "there may always be another turn");
    }

    /// Writes a record and waits until it is durable.
    fn write(&mut self, record: &[u8]) {
        let well_formed = "a plan makes well-formed mutations";
        let mut mutations = MutationRef::of_trusted_record(record);
        // Changes of lists are for the owner, who makes cells of them.
        let reads_first = mutations.any(|mutation| mutation.expect(well_formed).reads_first());
        if !reads_first {
            assert!(MutationRef::of_record(record).all(|one| one.is_ok()), "{well_formed}");
        }
        self.ticket += 1;
        self.bytes += record.len();
        if self.engine.write(record, self.ticket).is_err() {
            return;
        }
        let mut completed = Vec::new();
        for _ in 0..POLLS_MAX {
            self.poll();
            self.engine.take_completed(&mut completed);
            if let Some((ticket, result)) = completed.pop() {
                let is_refused = reads_first
                    && matches!(result, Err(Error::Invalid(_) | Error::NotApplied { .. }));
                let is_sound = ticket == self.ticket && (result.is_ok() || is_refused);
                assert!(is_sound, "{ticket}: {result:?}");
                return;
            }
        }
        panic!("a write was never answered");
    }

    /// Reads page after page; returns the number of rows.
    fn read(&self, plan: &SelectPlan, bindings: &Bindings<'_>) -> u64 {
        let (mut rows, mut state): (u64, Option<Vec<u8>>) = (0, None);
        for _ in 0..PAGES_MAX {
            let page = Page { rows: Some(PAGE_ROWS), state: state.as_deref() };
            let Ok(bound) = plan.bind_read(bindings, page) else { return rows };
            let mut out = Vec::new();
            let encoder = plan.encoder(bindings, &bound, &mut out);
            let Ok(mut encoder) = encoder else { return rows };
            let mut end = ReadEnd::default();
            if let Some(mut command) = bound.command.clone() {
                loop {
                    match self.engine.read_cached(&command, &mut encoder) {
                        Ok(found) => end = found,
                        Err(_) => return rows,
                    }
                    if !bound.reads_all || end.more.is_none() || encoder.is_full() {
                        break;
                    }
                    command.resume = end.more.take();
                }
            }
            let Ok(found) = encoder.finish() else { return rows };
            rows += u64::from(found);
            let command = bound.command.as_ref().filter(|_| !bound.reads_all);
            let Some(command) = command else { return rows };
            match plan.paging_state(command, &end) {
                Ok(Some(next)) => state = Some(next),
                Ok(None) | Err(_) => return rows,
            }
        }
        panic!("a read of a few rows has more than {PAGES_MAX} pages");
    }
}

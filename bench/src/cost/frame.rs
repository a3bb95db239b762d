//! A prepared statement from frame to frame, as a core of the server executes it, less the sockets:
//!
//! ```text
//! bytes ─► frame ─► EXECUTE ─► statement by id ─► bind ─► engine ─► rows or VOID ─► frame ─► bytes
//! ```

use super::shard::{Driver, Shape};
use cql::bind::{Bindings, Ids, Moment};
use cql::frame::compress::Compression;
use cql::frame::header::{Direction, Flags};
use cql::frame::intake::{Arrival, Intake};
use cql::frame::outlet::Outlet;
use cql::frame::request::{Execute, Parameters, Request, ValueList};
use cql::frame::response::{Columns, Description, Envelope};
use cql::frame::{Consistency, Value, Version};
use cql::limits::FRAME_BODY_BYTES_MAX;
use cql::plan::{Page, Scratch};
use cql::prepare::{Prepared, Statement, prepare};
use engine::Engine;
use hashbrown::HashMap;

/// What drivers speak most.
const VERSION: Version = Version::V4;
const READ: [u8; 16] = [1; 16];
const WRITE: [u8; 16] = [2; 16];

/// Neither statement asks for an id.
struct NoIds;

impl Ids for NoIds {
    fn timeuuid(&self) -> [u8; 16] {
        unreachable!("the statements call no functions")
    }

    fn uuid(&self) -> [u8; 16] {
        unreachable!("the statements call no functions")
    }
}

/// One connection of one core, and the two statements it has prepared.
pub struct Desk<'e> {
    engine: &'e Engine,
    statements: HashMap<[u8; 16], (Prepared, Columns), foldhash::fast::RandomState>,
    intake: Intake,
    outlet: Outlet,
    scratch: Scratch,
    record: Vec<u8>,
    /// The streams that wait for the log, by ticket.
    waiting: Vec<i16>,
}

impl<'e> Desk<'e> {
    /// A desk for records of this shape.
    pub fn new(engine: &'e Engine, shape: &Shape) -> Desk<'e> {
        let columns: Vec<String> = (1..=shape.columns).map(|c| format!("c{c}")).collect();
        let columns = columns.join(", ");
        let marks = ", ?".repeat(usize::from(shape.columns));
        let read = format!("SELECT {columns} FROM ks.cf WHERE key = ?");
        let write = format!("INSERT INTO ks.cf (key, {columns}) VALUES (?{marks})");
        let compiled = |text: &str| {
            let prepared = prepare(text, &shape.schema(), None).expect("the table has these");
            let columns = match &prepared.statement {
                Statement::Select(plan) => plan.result_columns(VERSION),
                _ => Columns::none(),
            };
            (prepared, columns)
        };
        let mut intake = Intake::new(Direction::Request, FRAME_BODY_BYTES_MAX);
        intake.establish(VERSION, Compression::None);
        let mut outlet = Outlet::new();
        outlet.establish(VERSION, Compression::None);
        Desk {
            engine,
            statements: [(READ, compiled(&read)), (WRITE, compiled(&write))].into_iter().collect(),
            intake,
            outlet,
            scratch: Scratch::default(),
            record: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Takes the frames of `input` in turn, answers the reads, and gives the writes to the engine.
    pub fn take(&mut self, mut input: &[u8], now: i64) {
        loop {
            let step = self.intake.next(input).expect("the frames are well-formed");
            input = &input[step.used..];
            let (header, body) = match step.arrival {
                Arrival::Frame(header, body) => (header, body),
                Arrival::Starved => return,
                other => panic!("the frames are well-formed: {other:?}"),
            };
            let request = Request::decode(&header, body).expect("the requests are well-formed");
            let Request::Execute(execute) = request else { panic!("only EXECUTE is sent") };
            let (prepared, columns) = &self.statements[execute.id];
            let parameters = &execute.parameters;
            let now_s = u32::try_from(now).expect("a count of operations");
            let moment = Moment { timestamp_us: now, now_ms: now, now_s, ids: &NoIds };
            let bindings = Bindings::new(&parameters.values, &prepared.markers, moment);
            let bindings = bindings.expect("as many values as markers");
            match &prepared.statement {
                Statement::Select(plan) => self.outlet.frame(|out| {
                    let page = Page { rows: parameters.page_rows, state: None };
                    let bound = plan.bind_read(&bindings, page).expect("a whole key");
                    let envelope = Envelope::new(VERSION, header.stream);
                    let open = envelope.open_rows(columns, Description::Skipped, out);
                    let encoder = plan.encoder(&bindings, bound.encoder_limit, out);
                    let mut encoder = encoder.expect("no function is called");
                    let command = bound.command.as_ref().expect("a key was given");
                    self.engine.read_cached(command, &mut encoder).expect("it is in memory");
                    let rows = encoder.finish().expect("no function is called");
                    assert!(rows == 1, "the record is there");
                    open.close(rows, None, out);
                }),
                Statement::Write(plan) => {
                    self.record.clear();
                    let bound = plan.bind_write(&bindings, &mut self.scratch, &mut self.record);
                    bound.expect("the values fit");
                    self.engine.write(&self.record, self.waiting.len() as u64).expect("room");
                    self.waiting.push(header.stream);
                }
                _ => unreachable!("one reads, one writes"),
            }
        }
    }

    /// Makes the writes durable and answers them.
    pub fn commit(&mut self, driver: &mut Driver<'_>) {
        driver.commit(self.engine, self.waiting.len());
        for stream in self.waiting.drain(..) {
            self.outlet.frame(|out| Envelope::new(VERSION, stream).put_void(out));
        }
    }

    /// Takes what would be sent; says how many bytes.
    pub fn send(&mut self) -> usize {
        self.outlet.seal();
        let bytes = self.outlet.unsent().len();
        self.outlet.sent(bytes);
        bytes
    }
}

/// The frame of a client that reads record `number`.
pub fn read_frame(shape: &Shape, number: u64, out: &mut Vec<u8>) {
    execute(&READ, &[&shape.key(number)], out);
}

/// The frame of a client that writes all columns of record `number`.
pub fn write_frame(shape: &Shape, number: u64, out: &mut Vec<u8>) {
    let (key, value) = (shape.key(number), shape.value(number));
    let mut values = vec![key.as_slice()];
    values.resize(1 + usize::from(shape.columns), value.as_slice());
    execute(&WRITE, &values, out);
}

fn execute(id: &[u8], values: &[&[u8]], out: &mut Vec<u8>) {
    let mut list = ValueList::new();
    values.iter().for_each(|value| list.push(Value::Bytes(value)));
    let parameters = Parameters {
        values: list.as_values(VERSION),
        skip_metadata: true,
        page_rows: Some(5000),
        ..Parameters::plain(Consistency::LocalOne, VERSION)
    };
    let execute = Execute { id, result_metadata_id: None, parameters };
    Request::Execute(execute).put(VERSION, 1, Flags(0), out);
}

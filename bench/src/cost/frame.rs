//! A prepared statement from frame to frame, executed by a core of the server itself, less the sockets:
//!
//! ```text
//! bytes ─► frame ─► EXECUTE ─► the server's executor, shard and engine ─► frame ─► bytes
//! ```
//!
//! 1. `Desk::new` opens a server on an empty simulated disk, makes three tables and prepares the statements.
//! 2. `.._frame` appends the frame of a statement to the caller's buffer: what a client would send.
//! 3. `take` gives frames to the server, `settle` runs its cores until all are answered, `send` takes the answers.
//!
//! Invariants
//! 1. All cores run in the calling thread, driven by hand (`server::manual`), so what is counted is theirs alone.
//! 2. Frames are of protocol version 4 without compression, and answers leave out the description of the columns.
//!
//! Not here: what is counted (`path.rs`), an engine alone (`shard.rs`).

use cql::frame::client::{Answer, Reply};
use cql::frame::header::{Direction, Flags, HEADER_BYTES, Header};
use cql::frame::request::{Execute, Parameters, Prepare, Query, Request, ValueList};
use cql::frame::{Consistency, Value, Version};
use engine::io::{Disk, Faults, SimDisk};
use server::manual::{ClientId, ManualConfig, ManualServer};

use super::shard::{MEMORY_BYTES, Shape};

/// What drivers speak most.
const VERSION: Version = Version::V4;

/// The cores of a server, one client of it, and the statements it has prepared.
pub struct Desk {
    server: ManualServer,
    client: ClientId,
    read: Vec<u8>,
    write: Vec<u8>,
    change: Vec<u8>,
    increment: Vec<u8>,
    write_row: Vec<u8>,
    count: Vec<u8>,
    filter: Vec<u8>,
}

/// Rows of a partition of the table that is counted.
const ROWS_OF_PARTITION: u64 = 250;

impl Desk {
    /// A server of `shards` cores, with an empty table for records of this shape. The client is connected to core 0.
    pub fn new(shape: &Shape, shards: usize) -> Desk {
        let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
        let config = ManualConfig {
            shards,
            shard_memory_bytes: MEMORY_BYTES,
            log_segment_bytes: engine::commitlog::Config::new(1).segment_bytes,
        };
        let mut server = ManualServer::open(&disk, &config).expect("the disk has no faults");
        let client = server.connect(0, VERSION);
        let (read, write, change, increment) = Default::default();
        let (write_row, count, filter) = Default::default();
        let mut desk =
            Desk { server, client, read, write, change, increment, write_row, count, filter };
        let each = |column: &dyn Fn(u16) -> String, between: &str| {
            (1..=shape.columns).map(column).collect::<Vec<_>>().join(between)
        };
        let columns = each(&|c| format!("c{c}"), ", ");
        let definitions = each(&|c| format!("c{c} blob"), ", ");
        let marks = each(&|_| "?".to_owned(), ", ");
        desk.query(
            "CREATE KEYSPACE ks WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        desk.query(&format!("CREATE TABLE ks.cf (key blob PRIMARY KEY, {definitions})"));
        desk.query("CREATE TABLE ks.counters (key blob PRIMARY KEY, n counter)");
        desk.query("CREATE TABLE ks.rows (p int, n int, v int, w bigint, PRIMARY KEY (p, n))");
        desk.read = desk.prepare(&format!("SELECT {columns} FROM ks.cf WHERE key = ?"));
        desk.write =
            desk.prepare(&format!("INSERT INTO ks.cf (key, {columns}) VALUES (?, {marks})"));
        desk.change = desk.prepare("UPDATE ks.cf SET c1 = ? WHERE key = ? IF c1 = ?");
        desk.increment = desk.prepare("UPDATE ks.counters SET n = n + 1 WHERE key = ?");
        desk.write_row = desk.prepare("INSERT INTO ks.rows (p, n, v, w) VALUES (?, ?, ?, ?)");
        desk.count = desk.prepare("SELECT count(*) FROM ks.rows");
        desk.filter = desk.prepare("SELECT sum(w) FROM ks.rows WHERE v >= ? ALLOW FILTERING");
        desk
    }

    fn query(&mut self, text: &str) {
        let parameters = Parameters::plain(Consistency::One, VERSION);
        let answer = self.ask(&Request::Query(Query { text, parameters }));
        match reply(&answer) {
            Reply::SchemaChange(..) => {}
            other => panic!("{text}: {other:?}"),
        }
    }

    fn prepare(&mut self, text: &str) -> Vec<u8> {
        let answer = self.ask(&Request::Prepare(Prepare { text, keyspace: None }));
        match reply(&answer) {
            Reply::Prepared(prepared) => prepared.id.to_vec(),
            other => panic!("{text}: {other:?}"),
        }
    }

    fn ask(&mut self, request: &Request<'_>) -> Vec<u8> {
        let mut frame = Vec::new();
        request.put(VERSION, 0, Flags(0), &mut frame);
        self.answer(&frame)
    }

    fn answer(&mut self, frame: &[u8]) -> Vec<u8> {
        self.take(frame);
        self.settle();
        self.server.sent(self.client, <[u8]>::to_vec)
    }

    /// The bigint that is the whole answer to a frame.
    pub fn number(&mut self, frame: &[u8]) -> u64 {
        let answer = self.answer(frame);
        let Reply::Rows(rows) = reply(&answer) else { panic!("{:?}", reply(&answer)) };
        let cell = rows.cells().next().expect("a cell").expect("a well-formed cell");
        u64::from_be_bytes(cell.expect("a number").try_into().expect("a bigint"))
    }

    /// Takes the frames of `input` in turn: reads are answered, writes given to the log.
    #[inline]
    pub fn take(&mut self, input: &[u8]) {
        self.server.take(self.client, input);
    }

    /// Turns until everything taken is answered.
    #[inline]
    pub fn settle(&mut self) {
        self.server.run_until_answered(self.client);
    }

    /// Takes what would be sent; says how many bytes.
    #[inline]
    pub fn send(&mut self) -> usize {
        self.server.sent(self.client, <[u8]>::len)
    }

    /// The frame of a client that reads record `number`.
    pub fn read_frame(&self, shape: &Shape, number: u64, out: &mut Vec<u8>) {
        execute(&self.read, &[&shape.key(number)], out);
    }

    /// The frame of a client that writes all columns of record `number`.
    pub fn write_frame(&self, shape: &Shape, number: u64, out: &mut Vec<u8>) {
        let (key, value) = (shape.key(number), shape.value(number));
        let mut values = vec![key.as_slice()];
        values.resize(1 + usize::from(shape.columns), value.as_slice());
        execute(&self.write, &values, out);
    }

    /// The frame of a client that writes one column of record `number` if it has the value that every write gives it.
    pub fn change_frame(&self, shape: &Shape, number: u64, out: &mut Vec<u8>) {
        let (key, value) = (shape.key(number), shape.value(number));
        execute(&self.change, &[&value, &key, &value], out);
    }

    /// The frame of a client that writes the small row with this number, in a partition of many.
    pub fn write_row_frame(&self, number: u64, out: &mut Vec<u8>) {
        let (p, n) = (number / ROWS_OF_PARTITION, number % ROWS_OF_PARTITION);
        let int = |value: u64| (value as i32).to_be_bytes();
        let values: [&[u8]; 4] = [&int(p), &int(n), &int(number % 2), &number.to_be_bytes()];
        execute(&self.write_row, &values, out);
    }

    /// The frame of a client that counts all small rows.
    pub fn count_frame(&self, out: &mut Vec<u8>) {
        execute(&self.count, &[], out);
    }

    /// The frame of a client that adds up a column of every second of the small rows.
    pub fn filter_frame(&self, out: &mut Vec<u8>) {
        execute(&self.filter, &[&1i32.to_be_bytes()], out);
    }

    /// The frame of a client that adds one to the counter of key `number`.
    pub fn increment_frame(&self, shape: &Shape, number: u64, out: &mut Vec<u8>) {
        execute(&self.increment, &[&shape.key(number)], out);
    }
}

fn reply(frame: &[u8]) -> Reply<'_> {
    let header = Header::decode(frame, Direction::Response).ok().flatten().expect("a whole frame");
    Answer::decode(&header, &frame[HEADER_BYTES..]).expect("a well-formed answer").reply
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

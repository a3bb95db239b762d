//! Requests to answers on whole cores, without sockets and on the simulated disk.

use std::time::Duration;

use cql::frame::client::{Answer, Reply, Rows};
use cql::frame::header::{Direction, Flags, HEADER_BYTES, Header};
use cql::frame::request::{
    Batch, BatchKind, BatchStatement, BatchText, Execute, Parameters, Prepare, Query, Request,
    Startup, ValueList,
};
use cql::frame::{Consistency, Reader, Value, Version, writer};
use engine::io::{Crash, Disk, Faults, RelPath, SimDisk};
use shard::Group;
use shard::stalls::Work;

use super::snapshots as auto_snapshots;
use crate::limits::SCHEMA_CHANGES_WAITING_MAX;
use crate::manual::{ClientId, ManualConfig, ManualServer};

mod batches;
mod clocks;
mod conditional;
mod counters;
mod effort;
mod explain;
mod forwarded;
mod guardrails;
mod indexes;
mod long_reads;
mod long_texts;
mod long_values;
mod mail;
mod much_work;
mod paging;
mod parts;
mod request_ids;
mod restored;
mod schema;
mod snapshots;
mod statements;
mod traces;
mod views;
mod virtual_tables;
mod waiting_statements;

const VERSION: Version = Version::V4;

/// A server, and one client of its first core.
struct Bench {
    server: ManualServer,
    client: ClientId,
    stream: i16,
}

/// An answer, as a line for each row.
fn shown(answer: &Answer<'_>) -> String {
    match &answer.reply {
        Reply::Void => "void".to_owned(),
        Reply::Rows(rows) => shown_rows(rows),
        Reply::SetKeyspace(name) => format!("keyspace {name}"),
        Reply::SchemaChange(change, kind, keyspace, name) => {
            format!("{change} {kind} {keyspace} {}", name.unwrap_or_default())
        }
        Reply::Error { text, .. } => format!("error: {text}"),
        other => format!("{other:?}"),
    }
}

fn shown_rows(rows: &Rows<'_>) -> String {
    let columns = rows.metadata.column_count;
    let values: Vec<String> = rows.cells().map(|cell| shown_value(cell.unwrap())).collect();
    let lines: Vec<String> = values.chunks(columns).map(|row| row.join(" ")).collect();
    let more = rows.metadata.paging_state.map(|_| "more".to_owned());
    lines.into_iter().chain(more).collect::<Vec<_>>().join(", ")
}

fn shown_value(value: Option<&[u8]>) -> String {
    match value {
        None => "null".to_owned(),
        Some([0]) => "false".to_owned(),
        Some([1]) => "true".to_owned(),
        Some(bytes) => match <[u8; 4]>::try_from(bytes) {
            Ok(int) => i32::from_be_bytes(int).to_string(),
            Err(_) => match <[u8; 8]>::try_from(bytes) {
                Ok(bigint) => i64::from_be_bytes(bigint).to_string(),
                Err(_) => String::from_utf8_lossy(bytes).into_owned(),
            },
        },
    }
}

fn small(shards: usize) -> ManualConfig {
    ManualConfig {
        shards,
        shard_memory_bytes: engine::limits::MEMORY_BYTES_MIN,
        log_segment_bytes: 1 << 20,
    }
}

impl Bench {
    fn new(shards: usize) -> Bench {
        Bench::with(small(shards))
    }

    fn with(config: ManualConfig) -> Bench {
        Bench::make(&Disk::Sim(SimDisk::new(1, Faults::default())), &config)
    }

    /// A server on a disk that has a data directory, or nothing.
    fn open(disk: &Disk, config: &ManualConfig) -> Bench {
        let mut server = ManualServer::open(disk, config).unwrap();
        let client = server.connect(0, VERSION);
        Bench { server, client, stream: 0 }
    }

    /// A new server with the table `ks.t`.
    fn make(disk: &Disk, config: &ManualConfig) -> Bench {
        let mut bench = Bench::open(disk, config);
        let keyspace = "CREATE KEYSPACE ks WITH replication = \
                        {'class': 'SimpleStrategy', 'replication_factor': 1}";
        assert_eq!(bench.query(keyspace), "CREATED KEYSPACE ks ");
        let table = "CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))";
        assert_eq!(bench.query(table), "CREATED TABLE ks t");
        bench
    }

    /// Sends a request and gives the bytes of its answer, header included.
    fn ask(&mut self, request: &Request<'_>) -> Vec<u8> {
        self.begin(request);
        self.server.run_until_answered(self.client);
        self.server.sent(self.client, <[u8]>::to_vec)
    }

    fn begin(&mut self, request: &Request<'_>) {
        self.stream += 1;
        let mut frame = Vec::new();
        request.put(VERSION, self.stream, Flags(0), &mut frame);
        self.server.take(self.client, &frame);
    }

    /// The answers to all that was begun, by their streams.
    fn answers(&mut self) -> std::collections::BTreeMap<i16, String> {
        self.server.run_until_answered(self.client);
        let bytes = self.server.sent(self.client, <[u8]>::to_vec);
        let (mut rest, mut answered) = (bytes.as_slice(), std::collections::BTreeMap::new());
        while !rest.is_empty() {
            let header = Header::decode(rest, Direction::Response).unwrap().unwrap();
            let (frame, next) = rest.split_at(HEADER_BYTES + header.body_bytes as usize);
            let answer = Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap();
            answered.insert(header.stream, shown(&answer));
            rest = next;
        }
        answered
    }

    fn show(&mut self, request: &Request<'_>) -> String {
        let frame = self.ask(request);
        let header = Header::decode(&frame, Direction::Response).unwrap().unwrap();
        assert_eq!(header.stream, self.stream, "the answer to this request");
        assert_eq!(header.body_bytes as usize, frame.len() - HEADER_BYTES, "one frame");
        shown(&Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap())
    }

    fn query(&mut self, text: &str) -> String {
        let parameters = Parameters::plain(Consistency::One, VERSION);
        self.show(&Request::Query(Query { text, parameters }))
    }

    /// A page of one row: what it shows, and the state of the next.
    fn page(&mut self, text: &str, paging_state: Option<&[u8]>) -> (String, Vec<u8>) {
        self.page_of(text, 1, paging_state)
    }

    /// A page of so many rows: what it shows, and the state of the next.
    fn page_of(&mut self, text: &str, rows: u32, paging_state: Option<&[u8]>) -> (String, Vec<u8>) {
        let plain = Parameters::plain(Consistency::One, VERSION);
        let parameters = Parameters { page_rows: Some(rows), paging_state, ..plain };
        let frame = self.ask(&Request::Query(Query { text, parameters }));
        let header = Header::decode(&frame, Direction::Response).unwrap().unwrap();
        let answer = Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap();
        let state = match &answer.reply {
            Reply::Rows(rows) => rows.metadata.paging_state.unwrap_or_default().to_vec(),
            _ => Vec::new(),
        };
        (shown(&answer), state)
    }

    fn prepare(&mut self, text: &str) -> Vec<u8> {
        let frame = self.ask(&Request::Prepare(Prepare { text, keyspace: None }));
        let header = Header::decode(&frame, Direction::Response).unwrap().unwrap();
        match Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap().reply {
            Reply::Prepared(prepared) => prepared.id.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn execute(&mut self, id: &[u8], values: &[i32]) -> String {
        let mut list = ValueList::new();
        values.iter().for_each(|value| list.push(Value::Bytes(&value.to_be_bytes())));
        let parameters = Parameters {
            values: list.as_values(VERSION),
            page_rows: Some(2),
            ..Parameters::plain(Consistency::One, VERSION)
        };
        self.show(&Request::Execute(Execute { id, result_metadata_id: None, parameters }))
    }
}

/// The buffers of frames go round: reads make none after the first, wherever the rows are.
#[test]
fn no_buffer_of_a_frame_is_lost() {
    let mut bench = Bench::new(2);
    let write = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
    let read = bench.prepare("SELECT v FROM ks.t WHERE k = ?");
    for stored in ["memory", "disk"] {
        let mut made = Vec::new();
        for k in 0..20 {
            assert_eq!(bench.execute(&write, &[k, 1, k]), "void");
            if stored == "disk" {
                // Its block is not in the cache.
                bench.server.flush();
            }
            assert_eq!(bench.execute(&read, &[k]), k.to_string());
            made.push(bench.server.frames_made());
        }
        assert_eq!(made[10], made[19], "{stored}: {made:?}");
    }
}

/// A client of one core reads and writes what any core owns: by text, by id, in memory, on disk.
#[test]
fn every_partition_is_reached_from_one_core() {
    for shards in [1, 2, 3] {
        let mut bench = Bench::new(shards);
        let write = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
        let read = bench.prepare("SELECT v FROM ks.t WHERE k = ? AND c = ?");
        for k in 0..40 {
            assert_eq!(bench.execute(&write, &[k, 1, k * 10]), "void");
        }
        for stored in ["memory", "disk", "the block cache"] {
            for k in 0..40 {
                let expected = (k * 10).to_string();
                assert_eq!(bench.execute(&read, &[k, 1]), expected, "{shards} shards, {stored}");
                let text = format!("SELECT v FROM ks.t WHERE k = {k} AND c = 1");
                assert_eq!(bench.query(&text), expected, "{shards} shards, {stored}");
            }
            assert_eq!(bench.execute(&read, &[99, 1]), "", "no such row");
            if stored == "memory" {
                bench.server.flush();
            }
        }
    }
}

/// What is wrong is told in the same words, whichever core finds it.
#[test]
fn errors_are_the_same_from_every_core() {
    let mut alone = Bench::new(1);
    let mut many = Bench::new(3);
    for text in [
        "SELECT nothing FROM ks.t WHERE k = 1",
        "SELECT v FROM ks.t WHERE k = 'x'",
        "SELECT v FROM ks.t WHERE v = 1",
        "SELECT v FROM ks.missing WHERE k = 1",
        "USE missing",
        "TRUNCATE system.local",
        "INSERT INTO system.local (key) VALUES ('x')",
        "SELECT blob_as_int(int_as_blob(v)) FROM ks.t WHERE k = 1 LIMIT 0",
    ] {
        let expected = alone.query(text);
        assert!(expected.starts_with("error: "), "{text}: {expected}");
        assert_eq!(many.query(text), expected);
    }
    let unknown = [7; 16];
    assert!(many.execute(&unknown, &[1]).starts_with("error: Prepared query with ID 0707"));
}

/// A statement that was prepared against a table that has changed is not run with its old plan, on
/// whichever core it lands.
#[test]
fn a_changed_table_makes_its_statements_unknown() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        let read = bench.prepare("SELECT * FROM ks.t WHERE k = ? AND c = ?");
        (0..9).for_each(|k| assert_eq!(bench.execute(&read, &[k, 1]), ""));
        assert_eq!(bench.query("ALTER TABLE ks.t ADD w int"), "UPDATED TABLE ks t");
        for k in 0..9 {
            let answer = bench.execute(&read, &[k, 1]);
            assert!(answer.starts_with("error: Prepared query with ID"), "{answer}");
        }
        let again = bench.prepare("SELECT * FROM ks.t WHERE k = ? AND c = ?");
        assert_eq!(again, read, "the id is that of the text");
        (0..9).for_each(|k| assert_eq!(bench.execute(&again, &[k, 1]), ""));
    }
}

/// TRUNCATE knows its table by id: prepared before the table was made anew, it would find none, say
/// that it was done, and leave every row.
#[test]
fn a_prepared_truncate_of_a_table_that_was_made_anew_is_unknown() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        bench.query("CREATE TABLE ks.made (k int PRIMARY KEY)");
        let truncate = bench.prepare("TRUNCATE ks.made");
        assert_eq!(bench.execute(&truncate, &[]), "void");
        bench.query("DROP TABLE ks.made");
        bench.query("CREATE TABLE ks.made (k int PRIMARY KEY)");
        assert_eq!(bench.query("INSERT INTO ks.made (k) VALUES (1)"), "void");
        let answer = bench.execute(&truncate, &[]);
        assert!(answer.starts_with("error: Prepared query with ID"), "{answer}");
        let again = bench.prepare("TRUNCATE ks.made");
        assert_eq!(bench.execute(&again, &[]), "void");
        assert_eq!(bench.query("SELECT * FROM ks.made"), "");
    }
}

/// Requests that wait are answered one by one, each once, and none holds another up.
#[test]
fn many_requests_wait_at_once() {
    let mut bench = Bench::new(2);
    let write = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, 0, ?)");
    let read = bench.prepare("SELECT v FROM ks.t WHERE k = ?");
    (0..50).for_each(|k| assert_eq!(bench.execute(&write, &[k, k]), "void"));
    bench.server.flush();
    let first = bench.stream + 1;
    for k in 0..50_i32 {
        let mut list = ValueList::new();
        list.push(Value::Bytes(&k.to_be_bytes()));
        let values = list.as_values(VERSION);
        let parameters = Parameters { values, ..Parameters::plain(Consistency::One, VERSION) };
        bench.begin(&Request::Execute(Execute { id: &read, result_metadata_id: None, parameters }));
    }
    let answered = bench.answers();
    let expected = (first..).zip(0..50).map(|(stream, k)| (stream, k.to_string())).collect();
    assert_eq!(answered, expected);
}

/// Before: each was planned at once and again after each of the others, and given up after 64 times: of a hundred
/// tables that were made at once some were refused, for "the schema was changed by somebody else".
#[test]
fn many_changes_of_the_schema_at_once_are_all_made() {
    let mut bench = Bench::new(2);
    // The other core than the one that orders the changes.
    bench.client = bench.server.connect(1, VERSION);
    let parameters = Parameters::plain(Consistency::One, VERSION);
    for number in 0..100 {
        let text = format!("CREATE TABLE ks.t{number} (k int PRIMARY KEY)");
        bench.begin(&Request::Query(Query { text: &text, parameters }));
    }
    for answer in bench.answers().values() {
        assert!(answer.starts_with("CREATED TABLE ks t"), "{answer}");
    }
}

/// A batch over partitions of several cores is written whole, and read back from any of them.
/// Before: each held a copy of its statement, without a bound.
#[test]
fn changes_of_the_schema_that_wait_are_bounded_and_the_others_are_made() {
    let mut bench = Bench::new(1);
    const MANY: usize = SCHEMA_CHANGES_WAITING_MAX + 3;
    for table in 0..MANY {
        bench.begin_as(bench.client, &format!("CREATE TABLE ks.t{table} (k int PRIMARY KEY)"));
    }
    bench.server.run_until_answered(bench.client);
    let answers = bench.answers_to(bench.client);
    let refused: Vec<&String> =
        answers.iter().map(|(_, said)| said).filter(|said| !said.starts_with("CREATED")).collect();
    assert_eq!((answers.len(), refused.len()), (MANY, 3), "{refused:?}");
    assert!(
        refused.iter().all(|said| said.contains("wait on this core: try again")),
        "{refused:?}"
    );
    assert!(bench.query("CREATE TABLE ks.after (k int PRIMARY KEY)").starts_with("CREATED"));
}

#[test]
fn a_batch_reaches_all_owners() {
    let mut bench = Bench::new(3);
    let inserts: Vec<String> =
        (0..12).map(|k| format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 0, {k});")).collect();
    let text = format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", inserts.concat());
    assert_eq!(bench.query(&text), "void");
    for k in 0..12 {
        assert_eq!(bench.query(&format!("SELECT v FROM ks.t WHERE k = {k}")), k.to_string());
    }
    let (parameters, mut items) = (Parameters::plain(Consistency::One, VERSION), Vec::new());
    let batch = Batch::new(BatchKind::Logged, &[], parameters, VERSION, &mut items);
    assert_eq!(bench.show(&Request::Batch(batch)), "void", "a batch of nothing is done at once");
}

/// Before: it was passed over in silence.
#[test]
fn a_time_out_inside_a_batch_that_is_a_message_is_warned_of() {
    let mut bench = Bench::new(1);
    for (using, warned) in [("USING TIMEOUT 5s", 1), ("", 0)] {
        let text = format!("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1) {using}");
        let (parameters, mut items) = (Parameters::plain(Consistency::One, VERSION), Vec::new());
        let one = BatchStatement { text: BatchText::Query(&text), values: parameters.values };
        let batch = Batch::new(BatchKind::Unlogged, &[one, one], parameters, VERSION, &mut items);
        let frame = bench.ask(&Request::Batch(batch));
        let header = Header::decode(&frame, Direction::Response).unwrap().unwrap();
        let answer = Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap();
        let said: Vec<&str> = answer.warnings.iter().flat_map(|warnings| warnings.iter()).collect();
        assert_eq!(said.len(), warned, "{said:?}");
        assert!(said.iter().all(|said| said.contains("a batch has one time-out")), "{said:?}");
    }
}

/// Before: each statement was compiled and kept, JSON and all, until the last one was: 16 MiB of text took 21 GB.
#[test]
fn the_json_of_a_batch_that_is_a_message_is_bounded_before_all_of_it_is_compiled() {
    let mut bench = Bench::new(1);
    let fields: Vec<String> = (0..1000).map(|field| format!("f{field} int")).collect();
    bench.query(&format!("CREATE TYPE ks.u ({})", fields.join(", ")));
    bench.query("CREATE TABLE ks.j (p int PRIMARY KEY, l frozen<list<frozen<u>>>)");
    let list = format!("[{}{{}}]", "{},".repeat(3000));
    let text = |p: i32| format!("INSERT INTO ks.j JSON '{{\"p\": {p}, \"l\": {list}}}'");
    let texts: Vec<String> = (0..6).map(text).collect();
    let (parameters, mut items) = (Parameters::plain(Consistency::One, VERSION), Vec::new());
    let statements: Vec<BatchStatement<'_>> = texts
        .iter()
        .map(|text| BatchStatement { text: BatchText::Query(text), values: parameters.values })
        .collect();
    let batch = Batch::new(BatchKind::Unlogged, &statements, parameters, VERSION, &mut items);
    let shown = bench.show(&Request::Batch(batch));
    assert!(shown.contains("the different statements of one batch take more than"), "{shown}");
}

/// The tags of all snapshots.
fn tags(bench: &mut Bench) -> Vec<String> {
    let listed = bench.server.on_first_core(async |shard| shard.list_snapshots().await.unwrap());
    listed.expect("the power is on").read.into_iter().map(|snapshot| snapshot.tag).collect()
}

/// Gives back everything that a snapshot has; how many files, or why not.
fn restore(bench: &mut Bench, tag: &str) -> Result<u64, String> {
    let tag = tag.to_owned();
    let restored =
        bench.server.on_first_core(async move |shard| shard.restore_snapshot(&tag, |_| true).await);
    restored.expect("the power is on").map_err(|error| error.to_string())
}

const ROWS: &str = "SELECT k, v FROM ks.t";

fn with_rows(disk: &Disk, config: &ManualConfig) -> Bench {
    let mut bench = Bench::make(disk, config);
    for k in 0..4 {
        bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, {k}0)"));
        if k == 1 {
            bench.server.flush();
        }
    }
    bench
}

fn rows_of(bench: &mut Bench) -> Vec<String> {
    let mut rows: Vec<String> = bench.query(ROWS).split(", ").map(str::to_owned).collect();
    rows.sort();
    rows
}

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
mod conditional;
mod counters;
mod explain;
mod forwarded;
mod guardrails;
mod indexes;
mod long_reads;
mod long_texts;
mod long_values;
mod mail;
mod parts;
mod request_ids;
mod schema;
mod snapshots;
mod statements;
mod traces;
mod views;

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

/// Groups of all cores come one a page, as those of one page do, and a state that was changed is refused.
#[test]
fn groups_come_in_pages_from_all_cores() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        bench.query("CREATE TABLE ks.s (k int, c int, s int static, v int, PRIMARY KEY (k, c))");
        for k in 0..9 {
            bench.query(&format!("INSERT INTO ks.s (k, s) VALUES ({k}, {k})"));
            for c in 0..k % 4 {
                bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {c}, {k})"));
                bench.query(&format!("INSERT INTO ks.s (k, c, v) VALUES ({k}, {c}, {k})"));
            }
        }
        for text in [
            "SELECT k, count(*), sum(v) FROM ks.t GROUP BY k",
            "SELECT k, c, max(v) FROM ks.t GROUP BY k, c PER PARTITION LIMIT 2 LIMIT 7",
            "SELECT c, max(v) FROM ks.t WHERE k = 3 GROUP BY c",
            // Of partitions whose static row does not stand alone, and of others.
            "SELECT k, c, s, count(v) FROM ks.s GROUP BY k, c",
            "SELECT k, s, count(v) FROM ks.s WHERE k IN (2, 3, 4) GROUP BY k",
            "SELECT k, c, max(v) FROM ks.t WHERE k IN (2, 3, 7) GROUP BY k, c",
        ] {
            let whole = bench.query(text);
            let (mut state, mut pages) = (Vec::new(), Vec::new());
            loop {
                let before = (!state.is_empty()).then_some(&state[..]);
                let (page, next) = bench.page(text, before);
                pages.push(page.trim_end_matches(", more").to_owned());
                state = next;
                if state.is_empty() {
                    break;
                }
            }
            assert_eq!(pages.join(", "), whole, "{text} on {shards} shards");
            assert!(pages.len() > 1, "{text}");
            let (_, mut forged) = bench.page(text, None);
            forged[9] ^= 1;
            let refused = "error: Invalid value for the paging state";
            assert_eq!(bench.page(text, Some(&forged)).0, refused);
        }
    }
}

/// A node takes only the paging states that it gave, for their table; those of before a restart too.
#[test]
fn a_paging_state_is_the_nodes_own() {
    let refused = ("error: Invalid value for the paging state".to_owned(), Vec::new());
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let mut bench = Bench::make(&disk, &small(2));
    bench.query("CREATE TABLE ks.u (k int, c int, v int, PRIMARY KEY (k, c))");
    for (table, k, c) in
        [("t", 1, 1), ("t", 1, 2), ("t", 2, 1), ("t", 2, 2), ("u", 1, 1), ("u", 1, 2)]
    {
        let insert = format!("INSERT INTO ks.{table} (k, c) VALUES ({k}, {c})");
        assert_eq!(bench.query(&insert), "void");
    }
    // Of this core and of the other one.
    for k in [1, 2] {
        let text = format!("SELECT c FROM ks.t WHERE k = {k}");
        let (first, state) = bench.page(&text, None);
        assert_eq!(first, "1, more");
        assert_eq!(bench.page(&text, Some(&state)).0, "2");
        for byte in 0..state.len() {
            let mut forged = state.clone();
            forged[byte] ^= 1;
            assert_eq!(bench.page(&text, Some(&forged)), refused, "{byte}");
        }
        let other = format!("SELECT c FROM ks.u WHERE k = {k}");
        assert_eq!(bench.page(&other, Some(&state)), refused);
    }
    let text = "SELECT c FROM ks.t WHERE k = 1";
    let (_, state) = bench.page(text, None);
    drop(bench);
    assert_eq!(Bench::open(&disk, &small(2)).page(text, Some(&state)).0, "2");
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

/// Pages of a partition on another core continue where they ended.
#[test]
fn pages_and_their_ends_come_from_the_owner() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        let write = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
        let read = bench.prepare("SELECT c FROM ks.t WHERE k = ?");
        for k in 0..6 {
            (0..3).for_each(|c| assert_eq!(bench.execute(&write, &[k, c, 0]), "void"));
        }
        for k in 0..6 {
            assert_eq!(bench.execute(&read, &[k]), "0, 1, more", "{shards} shards");
        }
        let all = "SELECT count(*) FROM ks.t";
        assert_eq!(bench.query(all), "18");
        assert_eq!(
            bench.query("SELECT v FROM ks.t WHERE k IN (0, 1, 2, 3) AND c = 2"),
            "0, 0, 0, 0"
        );
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

/// Virtual tables are computed on the core that is asked, with what the others know.
#[test]
fn virtual_tables_gather_what_all_cores_know() {
    let mut bench = Bench::new(3);
    for shard in 1..3 {
        bench.server.connect(shard, VERSION);
    }
    assert_eq!(bench.query("SELECT count(*) FROM system.clients"), "3");
    let of_table = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks'";
    assert_eq!(bench.query(of_table), "t");
    assert_eq!(bench.query("SELECT key FROM system.local"), "local");
}

/// What a shard asks of its disk is counted by class: a commit is one of them, and finds one request of a job before it
/// at most.
#[test]
fn requests_to_the_disk_are_a_table() {
    let mut bench = Bench::new(2);
    let counts = |class: &str| {
        format!(
            "SELECT requests, jobs_before_max FROM system_views.disk_requests WHERE shard = 0 AND class = '{class}'"
        )
    };
    let commits = |bench: &mut Bench| {
        let row = bench.query(&counts("commit"));
        let (requests, jobs) = row.split_once(' ').expect("two columns");
        assert!(["0", "1"].contains(&jobs), "{jobs} requests of jobs before a commit");
        requests.parse::<u64>().expect("a number")
    };
    let before = commits(&mut bench);
    for k in 0..8 {
        bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 1)"));
    }
    assert!(commits(&mut bench) > before, "one of eight keys is of the first shard");
    assert_eq!(bench.query(&counts("compaction")), "0 0");
}

/// What took long on any core is seen from each, by name.
#[test]
fn long_steps_of_all_cores_are_a_table() {
    let mut bench = Bench::new(2);
    let ms = Duration::from_millis;
    let pass = Work { name: "reads", ..Work::from(Group::Requests) };
    let flush = Work { name: "flush", ..Work::from(Group::Flush) };
    bench.server.stalled(0, pass, ms(3));
    bench.server.stalled(1, flush, ms(12));
    bench.server.stalled(1, flush, ms(7));
    let columns = "shard, work, over_2_ms, over_5_ms, over_10_ms, longest_us, computed_over_100_ms";
    let core = |shard| format!("SELECT {columns} FROM system_views.stalls WHERE shard = {shard}");
    assert_eq!(bench.query(&core(0)), "0 reads 1 0 0 3000 0");
    assert_eq!(bench.query(&core(1)), "1 flush 2 2 1 12000 0");
}

/// `RESULT_BYTES_MAX`: 64 MiB are the most that one answer has; more comes in pages.
#[test]
fn an_answer_in_one_piece_is_bounded() {
    const VALUE_BYTES: usize = 1 << 20;
    let mut bench = Bench::with(ManualConfig {
        shards: 1,
        shard_memory_bytes: 512 << 20,
        log_segment_bytes: 8 << 20,
    });
    assert_eq!(cql::limits::RESULT_BYTES_MAX, 64 << 20);
    let table = "CREATE TABLE ks.large (k int, c int, v blob, PRIMARY KEY (k, c))";
    assert_eq!(bench.query(table), "CREATED TABLE ks large");
    let id = bench.prepare("INSERT INTO ks.large (k, c, v) VALUES (1, ?, ?)");
    let value = vec![b'v'; VALUE_BYTES];
    for c in 0i32..65 {
        let mut list = ValueList::new();
        list.push(Value::Bytes(&c.to_be_bytes()));
        list.push(Value::Bytes(&value));
        let parameters = Parameters {
            values: list.as_values(VERSION),
            ..Parameters::plain(Consistency::One, VERSION)
        };
        let insert = Execute { id: &id, result_metadata_id: None, parameters };
        assert_eq!(bench.show(&Request::Execute(insert)), "void");
    }
    let refused = "error: the result has more than 67108864 bytes: set a page size or a LIMIT";
    assert_eq!(bench.query("SELECT v FROM ks.large WHERE k = 1"), refused);
    assert_eq!(bench.query("SELECT v FROM ks.large"), refused);
    let under = bench.query("SELECT v FROM ks.large WHERE k = 1 LIMIT 60");
    assert_eq!(under.len(), 60 * VALUE_BYTES + 59 * ", ".len());
    let parameters =
        Parameters { page_rows: Some(5000), ..Parameters::plain(Consistency::One, VERSION) };
    let query = Query { text: "SELECT v FROM ks.large WHERE k = 1", parameters };
    let page = bench.show(&Request::Query(query));
    assert!(page.ends_with(", more") && page.len() < 3 * VALUE_BYTES, "{} bytes", page.len());
}

/// A node whose clock is `ahead_us` ahead writes, is killed, and starts again with the true clock: what `after` shows.
fn killed_with_a_clock_ahead(ahead_us: [i64; 2], before: &str, after: &[&str]) -> Vec<String> {
    let config = small(2);
    let sim = SimDisk::new(1, Faults::default());
    let mut bench = Bench::make(&Disk::Sim(sim.clone()), &config);
    let wall_us = shard::clock::Clock::new().wall_us();
    for ahead_us in ahead_us {
        // What lies in the second part is given and not noted.
        bench.server.note_timestamps().unwrap();
        bench.server.set_clocks(wall_us + ahead_us);
    }
    assert_eq!(bench.query(before), "void");
    let disk = Disk::Sim(sim.kill());
    drop(bench);
    let mut bench = Bench::open(&disk, &config);
    after.iter().map(|query| bench.query(query)).collect()
}

/// Before: timestamps were noted at a start and at an orderly stop only: after a crash a clock that had stepped back
/// was believed, and what was written then lost to what was there.
#[test]
fn a_clock_that_steps_back_in_a_crash_hides_no_later_write() {
    const HOUR_US: i64 = 3_600_000_000;
    for since_noted_us in [1, 1_000_000, 9_000_000] {
        let after = ["UPDATE ks.t SET v = 2 WHERE k = 1 AND c = 1", "SELECT v FROM ks.t"];
        let before = "UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 1";
        let ahead_us = [HOUR_US, HOUR_US + since_noted_us];
        assert_eq!(killed_with_a_clock_ahead(ahead_us, before, &after), ["void", "2"]);
    }
}

/// Before: the wall clock said when a column was dropped: on a node that gives timestamps ahead of it, what was
/// written before was there again when the column came back.
#[test]
fn a_column_that_comes_back_is_empty_on_a_node_ahead_of_its_clock() {
    const HOUR_US: i64 = 3_600_000_000;
    let before = "UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 1";
    let after = [
        "INSERT INTO ks.t (k, c, v) VALUES (2, 1, 2)",
        "ALTER TABLE ks.t DROP v",
        "ALTER TABLE ks.t ADD v int",
        "INSERT INTO ks.t (k, c, v) VALUES (3, 1, 3)",
        "SELECT k, v FROM ks.t WHERE k IN (2, 3)",
    ];
    let shown = killed_with_a_clock_ahead([HOUR_US, HOUR_US + 1], before, &after);
    assert_eq!(shown.last().unwrap(), "2 null, 3 3");
}

#[test]
fn a_timestamp_of_a_client_from_the_far_future_does_not_move_the_clock_of_a_start() {
    let before = "UPDATE ks.t USING TIMESTAMP 9000000000000000000 SET v = 1 WHERE k = 1 AND c = 1";
    let after = [
        "UPDATE ks.t SET v = 2 WHERE k = 2 AND c = 1",
        "SELECT writetime(v) FROM ks.t WHERE k = 2",
    ];
    let shown = killed_with_a_clock_ahead([0, 0], before, &after);
    let given_us: i64 = shown[1].parse().unwrap();
    let ahead_us = given_us - shard::clock::Clock::new().wall_us();
    assert!(ahead_us <= shard::limits::TIMESTAMP_SLACK_US, "{ahead_us}");
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

#[test]
fn what_a_truncate_or_a_drop_took_comes_back_from_its_snapshot() {
    let (sim, config) = (SimDisk::new(1, Faults::default()), small(2));
    let disk = Disk::Sim(sim.clone());
    let mut bench = with_rows(&disk, &config);
    let all = rows_of(&mut bench);
    assert_eq!(all.len(), 4);
    assert_eq!(bench.query("TRUNCATE ks.t"), "void");
    assert_eq!(bench.query(ROWS), "");
    let truncated = tags(&mut bench);
    assert_eq!(truncated.len(), 1, "{truncated:?}");
    assert!(truncated[0].starts_with("truncated-") && truncated[0].ends_with("-t"));
    bench.query("INSERT INTO ks.t (k, c, v) VALUES (9, 1, 90)");
    assert!(restore(&mut bench, &truncated[0]).unwrap() >= 2);
    let mut wanted = all.clone();
    wanted.push("9 90".to_owned());
    assert_eq!(rows_of(&mut bench).len(), 5);
    assert_eq!(
        restore(&mut bench, &truncated[0]).map(|_| rows_of(&mut bench).len()),
        Ok(5),
        "again"
    );
    bench.query("INSERT INTO ks.t (k, c, v) VALUES (10, 1, 100)");
    assert!(bench.query("DROP KEYSPACE ks").starts_with("DROPPED"));
    let dropped = tags(&mut bench);
    assert_eq!(dropped.len(), 2);
    let dropped = dropped.iter().find(|tag| tag.ends_with("-ks")).unwrap().clone();
    assert!(restore(&mut bench, &dropped).unwrap() > 0);
    assert_eq!(rows_of(&mut bench).len(), 6);
    // What the log still holds of the table is not replayed; what comes after is.
    bench.query("DELETE FROM ks.t WHERE k = 10");
    drop(bench);
    let mut bench = Bench::open(&Disk::Sim(sim.kill()), &small(3));
    assert_eq!(rows_of(&mut bench).len(), 5);
    bench.query("DROP TABLE ks.t");
    bench.query("CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))");
    let refused = restore(&mut bench, &dropped).unwrap_err();
    assert!(refused.contains("ks.t is another table now"), "{refused}");
    assert!(restore(&mut bench, "a/b").unwrap_err().contains("cannot be the tag"));
    assert!(restore(&mut bench, "none").unwrap_err().contains("no snapshot none"));
    let cleared = bench.server.on_first_core(async |shard| shard.clear_snapshots(None).await);
    assert_eq!(cleared.unwrap().unwrap().len(), 3);
    assert_eq!(tags(&mut bench), [""; 0]);
}

/// An old record of the log of a table that was dropped and came back.
#[test]
fn the_log_of_a_dropped_table_is_not_replayed_into_one_that_came_back() {
    let (sim, config) = (SimDisk::new(1, Faults::default()), small(1));
    let mut bench = with_rows(&Disk::Sim(sim.clone()), &config);
    let taken = bench.server.on_first_core(async |shard| {
        let tables = [shard.schema().table("ks", "t").unwrap().id];
        auto_snapshots::take(&shard, "a".to_owned(), &tables, 0, None).await
    });
    assert_eq!(taken, Some(Ok(())));
    // In the log, and not in the snapshot.
    bench.query("INSERT INTO ks.t (k, c, v) VALUES (9, 1, 90)");
    bench.query("ALTER TABLE ks.t WITH allow_auto_snapshot = false");
    bench.query("DROP TABLE ks.t");
    assert_eq!(tags(&mut bench), ["a"]);
    assert!(restore(&mut bench, "a").unwrap() > 0);
    assert_eq!(rows_of(&mut bench).len(), 4);
    drop(bench);
    let mut bench = Bench::open(&Disk::Sim(sim.kill()), &config);
    assert_eq!(rows_of(&mut bench).len(), 4, "the row was dropped after the snapshot");
}

/// Wherever the power is cut in a TRUNCATE, the rows are there, or a snapshot that has them all.
#[test]
fn a_power_cut_in_a_truncate_leaves_the_rows_or_their_snapshot() {
    let config = small(2);
    let (mut there, mut given_back) = (0, 0);
    for at in (0..).step_by(5) {
        let sim = SimDisk::new(at, Faults::default());
        let mut bench = with_rows(&Disk::Sim(sim.clone()), &config);
        sim.set_faults(Faults { crash_at_op: Some(at), ..Faults::default() });
        let parameters = Parameters::plain(Consistency::One, VERSION);
        bench.begin(&Request::Query(Query { text: "TRUNCATE ks.t", parameters }));
        bench
            .server
            .on_first_core(async |shard| shard.runtime().sleep(Duration::from_millis(200)).await);
        let was_cut = sim.is_crashed();
        drop(bench);
        let mode = [Crash::Nothing, Crash::Everything, Crash::Random][at as usize % 3];
        let mut bench = Bench::open(&Disk::Sim(sim.crash(at, mode)), &config);
        match rows_of(&mut bench).len() {
            4 => there += 1,
            left => {
                let tag = tags(&mut bench).pop().unwrap_or_else(|| panic!("{at}: no snapshot"));
                restore(&mut bench, &tag).unwrap();
                assert_eq!(rows_of(&mut bench).len(), 4, "{at}: {left} rows were left");
                given_back += 1;
            }
        }
        if !was_cut {
            break;
        }
    }
    assert!(there > 3 && given_back > 1, "{there} whole, {given_back} given back");
}

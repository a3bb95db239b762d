//! What the protocol promises beside rows: levels are kept or refused, warnings say what is not
//! done, statements have one name, traces tell what was asked.
#![expect(clippy::unwrap_used, reason = "a failed check is what a test is for")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cql::frame::client::{Answer, Reply};
use cql::frame::frame_reader::{Arrival, FrameReader};
use cql::frame::header::{Direction, Flags, Version};
use cql::frame::request::{
    Batch, BatchKind, BatchStatement, BatchText, Execute, Parameters, Prepare, Query, Request,
    Startup, ValueList, Values,
};
use cql::frame::{Consistency, Reader, Value, writer};

/// A server of its own, with its data, that ends with the test.
struct Server {
    child: Child,
    port: u16,
    _data: tempfile::TempDir,
}

impl Server {
    fn start(shards: &str) -> Server {
        let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_messina"));
        command.args(["--shards", shards, "--memory", "256M", "--shard-aware-port", "0"]);
        command.args(["--port", &port.to_string()]).arg("--data-dir").arg(data.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line == "ready")), "{:?}", child.wait());
        Server { child, port, _data: data }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone if it failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer, as far as these tests look at it.
#[derive(Debug, Default)]
struct Said {
    /// `code text` of an error, else empty.
    error: String,
    /// The bytes after an error's text.
    details: Vec<u8>,
    warnings: Vec<String>,
    trace: Option<[u8; 16]>,
    /// The id of what was prepared.
    id: Vec<u8>,
    /// The cells of rows.
    cells: Vec<Option<Vec<u8>>>,
    /// The paging state, if there is a next page.
    more: Option<Vec<u8>>,
}

struct Client {
    socket: TcpStream,
    reader: FrameReader,
    input: Vec<u8>,
    level: Consistency,
    flags: Flags,
}

impl Client {
    fn of(server: &Server) -> Client {
        let socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let reader = FrameReader::new(Direction::Response, 16 << 20);
        let (input, level, flags) = (Vec::new(), Consistency::One, Flags(0));
        let mut client = Client { socket, reader, input, level, flags };
        let mut options = Vec::new();
        writer::string_map(&mut options, [("CQL_VERSION", "3.0.0")].into_iter());
        client.ask(&Request::Startup(Startup::decode(Reader::new(&options)).unwrap()));
        client
    }

    fn ask(&mut self, request: &Request<'_>) -> Said {
        let mut frame = Vec::new();
        request.put(Version::V4, 1, self.flags, &mut frame);
        self.socket.write_all(&frame).unwrap();
        loop {
            let step = self.reader.next(&self.input).unwrap();
            let used = step.used;
            if let Arrival::Frame(header, body) = step.arrival {
                let said = said(&Answer::decode(&header, body).unwrap());
                self.input.drain(..used);
                return said;
            }
            self.input.drain(..used);
            let mut buffer = [0; 16384];
            let count = self.socket.read(&mut buffer).unwrap();
            assert!(count > 0, "the server closed the connection");
            self.input.extend_from_slice(&buffer[..count]);
        }
    }

    fn parameters(&self) -> Parameters<'static> {
        Parameters::plain(self.level, Version::V4)
    }

    fn query(&mut self, text: &str) -> Said {
        let parameters = self.parameters();
        self.ask(&Request::Query(Query { text, parameters }))
    }

    /// A statement that must succeed.
    fn ok(&mut self, text: &str) -> Said {
        let said = self.query(text);
        assert_eq!(said.error, "", "{text}");
        said
    }

    fn prepare(&mut self, text: &str) -> Said {
        self.ask(&Request::Prepare(Prepare { text, keyspace: None }))
    }

    fn batch(&mut self, kind: BatchKind, texts: &[String]) -> Said {
        let of = |text| BatchStatement { text: BatchText::Query(text), values: NO_VALUES };
        let statements: Vec<BatchStatement<'_>> = texts.iter().map(|text| of(text)).collect();
        let mut items = Vec::new();
        let parameters = self.parameters();
        let batch = Batch::new(kind, &statements, parameters, Version::V4, &mut items);
        self.ask(&Request::Batch(batch))
    }

    /// The `parameters` of a trace, and how many events it has.
    fn trace(&mut self, id: [u8; 16]) -> (String, usize) {
        let id = uuid::Uuid::from_bytes(id);
        let of = |table| format!("FROM system_traces.{table} WHERE session_id = {id}");
        for _ in 0..100 {
            let session = self.ok(&format!("SELECT toJson(parameters) {}", of("sessions")));
            if let [Some(parameters)] = &session.cells[..] {
                let text = String::from_utf8(parameters.clone()).unwrap();
                let events = self.ok(&format!("SELECT activity {}", of("events")));
                return (text, events.cells.len());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no trace");
    }
}

const NO_VALUES: Values<'static> = Values::none(Version::V4);

fn said(answer: &Answer<'_>) -> Said {
    let mut said = Said { trace: answer.trace_id, ..Said::default() };
    said.warnings =
        answer.warnings.iter().flat_map(|list| list.iter()).map(str::to_owned).collect();
    match &answer.reply {
        Reply::Error { code, text, details } => {
            said.error = format!("{code:#06x} {text}");
            said.details = details.rest().to_vec();
        }
        Reply::Prepared(prepared) => said.id = prepared.id.to_vec(),
        Reply::Rows(rows) => {
            said.more = rows.metadata.paging_state.map(<[u8]>::to_vec);
            said.cells = rows.cells().map(|cell| cell.unwrap().map(<[u8]>::to_vec)).collect();
        }
        _ => {}
    }
    said
}

/// A keyspace of each replication factor, with `t (k int PRIMARY KEY, v int)`.
fn keyspaces(client: &mut Client) {
    for (name, replication) in [
        ("s1", "{'class': 'SimpleStrategy', 'replication_factor': 1}"),
        ("s3", "{'class': 'SimpleStrategy', 'replication_factor': 3}"),
        ("n1", "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"),
        ("n3", "{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}"),
    ] {
        client.ok(&format!("CREATE KEYSPACE {name} WITH replication = {replication}"));
        client.ok(&format!("CREATE TABLE {name}.t (k int PRIMARY KEY, v int)"));
    }
}

/// What each level answers: `ok`, or the code and, of 0x1000, `required/alive`.
fn levels(client: &mut Client, mut ask: impl FnMut(&mut Client) -> Said) -> Vec<String> {
    let mut refused = Vec::new();
    for level in Consistency::ALL {
        client.level = level;
        let said = ask(client);
        client.level = Consistency::One;
        match said.error.split_once(' ') {
            None => {}
            Some(("0x1000", text)) => {
                let mut details = Reader::new(&said.details);
                let named = details.consistency().unwrap().name();
                assert_eq!(text, format!("Cannot achieve consistency level {named}"));
                let (required, alive) = (details.int().unwrap(), details.int().unwrap());
                refused.push(format!("{} {named} {required}/{alive}", level.name()));
            }
            Some((code, _)) => refused.push(format!("{} {code}", level.name())),
        }
    }
    refused
}

/// Each answer as Apache Cassandra 5.0.9 gives it on one node.
#[test]
fn a_consistency_level_that_one_node_cannot_keep_is_refused() {
    let server = Server::start("1");
    let mut client = Client::of(&server);
    keyspaces(&mut client);
    let of_one = ["ANY 0x2200", "TWO TWO 2/1", "THREE THREE 3/1"];
    let written = ["TWO TWO 2/1", "THREE THREE 3/1", "SERIAL 0x2200", "LOCAL_SERIAL 0x2200"];
    let quorums = [
        "QUORUM QUORUM 2/1",
        "ALL ALL 3/1",
        "LOCAL_QUORUM LOCAL_QUORUM 2/1",
        "EACH_QUORUM EACH_QUORUM 2/1",
    ];
    for (keyspace, is_three) in [("s1", false), ("n1", false), ("s3", true), ("n3", true)] {
        let more = |base: &[&str], then: &[&str]| -> Vec<String> {
            let more: &[&str] = if is_three { &quorums } else { &[] };
            let then = if is_three { then } else { &[] };
            [base, more, then].concat().into_iter().map(str::to_owned).collect()
        };
        let read =
            levels(&mut client, |c| c.query(&format!("SELECT * FROM {keyspace}.t WHERE k = 1")));
        let serial = ["SERIAL QUORUM 2/1", "LOCAL_SERIAL LOCAL_QUORUM 2/1"];
        assert_eq!(read, more(&of_one, &serial), "{keyspace}");
        let range = levels(&mut client, |c| c.query(&format!("SELECT * FROM {keyspace}.t")));
        let serial = ["SERIAL SERIAL 2/1", "LOCAL_SERIAL LOCAL_SERIAL 2/1"];
        assert_eq!(range, more(&of_one, &serial), "{keyspace}");
        let insert = format!("INSERT INTO {keyspace}.t (k, v) VALUES (1, 1)");
        let mut write = levels(&mut client, |c| c.query(&insert));
        write.sort_unstable();
        let mut expected = more(&written, &[]);
        expected.sort_unstable();
        assert_eq!(write, expected, "{keyspace}");
        for kind in [BatchKind::Logged, BatchKind::Unlogged] {
            let batch = levels(&mut client, |c| c.batch(kind, std::slice::from_ref(&insert)));
            assert_eq!(batch, more(&of_one[1..], &serial), "{keyspace}");
        }
        let nothing = format!("UPDATE {keyspace}.t SET v = 1 WHERE k IN ()");
        let write = levels(&mut client, |c| c.query(&nothing));
        assert_eq!(
            write,
            ["SERIAL 0x2200", "LOCAL_SERIAL 0x2200"],
            "what writes nothing needs no replica"
        );
    }
    let local = levels(&mut client, |c| c.query("SELECT * FROM system.local"));
    assert_eq!(local, of_one);
    let computed = levels(&mut client, |c| c.query("SELECT * FROM system_views.settings"));
    assert_eq!(computed, of_one[..1], "no other core is asked");
    // The factor that counts is that of now.
    let id = client.prepare("INSERT INTO s1.t (k, v) VALUES (1, 1)").id;
    client.ok(
        "ALTER KEYSPACE s1 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    );
    let execute = |client: &mut Client| {
        let parameters = client.parameters();
        client.ask(&Request::Execute(Execute { id: &id, result_metadata_id: None, parameters }))
    };
    client.prepare("INSERT INTO s1.t (k, v) VALUES (1, 1)");
    client.level = Consistency::Quorum;
    assert_eq!(execute(&mut client).error, "0x1000 Cannot achieve consistency level QUORUM");
}

#[test]
fn a_serial_level_is_serial() {
    let server = Server::start("1");
    let mut client = Client::of(&server);
    keyspaces(&mut client);
    let mut parameters = client.parameters();
    let mut ask = |level| {
        parameters.serial_consistency = Some(level);
        let text = "INSERT INTO s1.t (k, v) VALUES (1, 1)";
        client.ask(&Request::Query(Query { text, parameters })).error
    };
    assert_eq!(ask(Consistency::Serial), "");
    assert_eq!(ask(Consistency::LocalSerial), "");
    assert!(ask(Consistency::Quorum).starts_with("0x2200 Invalid consistency for conditional"));
}

#[test]
fn a_statement_that_names_its_keyspace_has_one_id() {
    let server = Server::start("2");
    let mut client = Client::of(&server);
    keyspaces(&mut client);
    let texts = [
        "SELECT * FROM s1.t WHERE k = ?",
        "BEGIN BATCH INSERT INTO s1.t (k) VALUES (?); APPLY BATCH",
        "TRUNCATE s1.t",
    ];
    let before = texts.map(|text| client.prepare(text).id);
    // The MD5 of the text alone, as Cassandra has it.
    let md5 = |text: &str| cql::digest(text.as_bytes()).to_vec();
    assert_eq!(before.clone().map(Vec::from), texts.map(md5));
    client.ok("USE s1");
    assert_eq!(texts.map(|text| client.prepare(text).id), before);
    assert_eq!(client.prepare("SELECT * FROM t").id, md5("s1\0SELECT * FROM t"));
    let mut fresh = Client::of(&server);
    fresh.ok("USE n1");
    assert_eq!(texts.map(|text| fresh.prepare(text).id), before);
    assert_eq!(fresh.prepare("SELECT * FROM t").id, md5("n1\0SELECT * FROM t"));
}

#[test]
fn batches_say_what_they_do_not_promise_and_leave_nothing_behind() {
    let server = Server::start("2");
    let mut client = Client::of(&server);
    keyspaces(&mut client);
    let insert = |k: i32| format!("INSERT INTO s1.t (k, v) VALUES ({k}, 1)");
    let all: Vec<String> = (0..8).map(insert).collect();
    let logged = client.batch(BatchKind::Logged, &all);
    assert_eq!((logged.error.as_str(), logged.warnings.len()), ("", 0));
    assert_eq!(client.ok("SELECT k FROM s1.t").cells.len(), 8);
    let text = format!("BEGIN BATCH {} APPLY BATCH", all.join(";"));
    assert_eq!(client.ok(&text).warnings.len(), 0);
    assert_eq!(client.ok("SELECT id FROM system.batches").cells.len(), 0);
    let (unlogged, one) = (client.batch(BatchKind::Unlogged, &all), [insert(1), insert(1)]);
    assert_eq!((unlogged.error.as_str(), unlogged.warnings.len()), ("", 0));
    assert_eq!(client.batch(BatchKind::Logged, &one).warnings.len(), 0);
    let counter = client.batch(BatchKind::Counter, &one);
    assert_eq!(counter.error, "0x2200 Cannot include non-counter statement in a counter batch");
    assert_eq!(client.batch(BatchKind::Counter, &[]).error, "");
    let many: Vec<String> = (0..11).map(insert).collect();
    let many = client.batch(BatchKind::Unlogged, &many).warnings;
    assert!(
        many[0].starts_with("Unlogged batch covering 11 partitions detected against table [s1.t]")
    );
}

#[test]
fn a_trace_tells_what_was_asked() {
    let server = Server::start("1");
    let mut client = Client::of(&server);
    keyspaces(&mut client);
    let select = "SELECT * FROM s1.t WHERE k = ?";
    let id = client.prepare(select).id;
    let mut values = ValueList::new();
    values.push(Value::Bytes(&[0, 0, 0, 7]));
    let mut parameters = client.parameters();
    parameters.values = values.as_values(Version::V4);
    parameters.page_rows = Some(77);
    parameters.consistency = Consistency::LocalOne;
    client.flags = Flags::default().with(Flags::TRACING);
    let execute = Execute { id: &id, result_metadata_id: None, parameters };
    let read = client.ask(&Request::Execute(execute)).trace.unwrap();
    let text = client.query("INSERT INTO s1.t (k, v) VALUES (1, 1)").trace.unwrap();
    let batch = client.batch(BatchKind::Logged, &["INSERT INTO s1.t (k) VALUES (1)".to_owned()]);
    client.flags = Flags(0);
    let (parameters, events) = client.trace(read);
    let expected = format!(
        "{{\"bound_var_0_k\": \"7\", \"consistency_level\": \"LOCAL_ONE\", \"page_size\": \"77\", \
         \"query\": \"{select}\", \"serial_consistency_level\": \"SERIAL\"}}"
    );
    // What is read, of what on this shard, what was given, and blocks.
    assert_eq!((parameters, events), (expected, 4));
    let (parameters, events) = client.trace(text);
    assert!(parameters.contains("INSERT INTO s1.t") && events == 3, "{parameters} {events}");
    let (parameters, events) = client.trace(batch.trace.unwrap());
    let levels = "{\"consistency_level\": \"ONE\", \"serial_consistency_level\": \"SERIAL\"}";
    assert_eq!((parameters.as_str(), events), (levels, 2));
}

/// Before: the whole process ended.
#[test]
fn a_forged_paging_state_ends_nothing() {
    let server = Server::start("2");
    let mut client = Client::of(&server);
    keyspaces(&mut client);
    client.ok("CREATE TABLE s1.r (k int, c int, PRIMARY KEY (k, c))");
    (0..9).for_each(|c| drop(client.ok(&format!("INSERT INTO s1.r (k, c) VALUES (1, {c})"))));
    let key = 1i32.to_be_bytes();
    let sound = model::Resume {
        token: model::Token::of_key(&key),
        key: key.to_vec(),
        clustering: Some(vec![0x40, 0x80, 0, 0, 0]),
        partition_done: false,
        rows_of_partition: 1,
    };
    let mut page = |text: &str, resume: model::Resume| {
        let state = cql::plan::PagingState { resume, rows_left: u64::MAX };
        // Every field is sound or hostile, and the tag of the seal is a guess.
        let bytes = [state.encode(), vec![0x5A; 16]].concat();
        let mut parameters = client.parameters();
        (parameters.paging_state, parameters.page_rows) = (Some(&bytes[..]), Some(5));
        client.ask(&Request::Query(Query { text, parameters }))
    };
    let texts = [
        "SELECT c FROM s1.r WHERE k = 1",
        "SELECT c FROM s1.r",
        "SELECT c FROM s1.r WHERE k IN (1, 2)",
    ];
    for text in texts {
        for resume in [
            sound.clone(),
            model::Resume { rows_of_partition: u64::MAX, ..sound.clone() },
            model::Resume { token: model::Token(7), ..sound.clone() },
        ] {
            let refused = page(text, resume).error;
            assert_eq!(refused, "0x000a Invalid value for the paging state", "{text}");
        }
    }
    assert_eq!(client.ok("SELECT c FROM s1.r").cells.len(), 9, "it lives");
}

/// Before: a page was measured as it is stored: a SELECT that names a cell often ran into the largest result.
#[test]
fn a_page_that_names_a_cell_often_ends_early_and_loses_no_row() {
    let server = Server::start("2");
    let mut client = Client::of(&server);
    keyspaces(&mut client);
    client.ok("CREATE TABLE s1.w (k int, c int, s int STATIC, v text, PRIMARY KEY (k, c))");
    let value = "x".repeat(10_000);
    let mut all = Vec::new();
    for (k, c) in (0..12).flat_map(|k| (0..9).map(move |c| (k, c))) {
        let columns = "(k, c, v) VALUES";
        client.ok(&format!("INSERT INTO s1.w {columns} ({k}, {c}, '{value}')"));
        all.push((k, c));
    }
    let often = vec!["v"; 70].join(", ");
    for filter in ["", "WHERE k IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)"] {
        let text = format!("SELECT k, c, {often} FROM s1.w {filter}");
        let (mut found, mut pages, mut state) = (Vec::new(), 0, None::<Vec<u8>>);
        loop {
            let mut parameters = client.parameters();
            (parameters.page_rows, parameters.paging_state) = (Some(5_000), state.as_deref());
            let said = client.ask(&Request::Query(Query { text: &text, parameters }));
            assert_eq!(said.error, "", "{filter}");
            let number = |cell: &Option<Vec<u8>>| {
                i32::from_be_bytes(cell.as_deref().unwrap().try_into().unwrap())
            };
            let rows = said.cells.chunks_exact(72).map(|row| (number(&row[0]), number(&row[1])));
            found.extend(rows);
            pages += 1;
            state = said.more;
            if state.is_none() {
                break;
            }
        }
        found.sort_unstable();
        assert_eq!(found, all, "{filter}");
        assert!(pages > 10, "{filter}: {pages} pages");
    }
}

/// Before: 3 GB were resident, then the process was gone.
#[test]
fn a_write_of_many_keys_is_refused_before_it_is_made() {
    let server = Server::start("1");
    let mut client = Client::of(&server);
    keyspaces(&mut client);
    client.ok("CREATE TABLE s1.large (k int PRIMARY KEY, v blob)");
    let id = client.prepare("UPDATE s1.large SET v = ? WHERE k IN ?").id;
    let mut keys = 2000i32.to_be_bytes().to_vec();
    for key in 0..2000i32 {
        keys.extend([4i32.to_be_bytes(), key.to_be_bytes()].concat());
    }
    let (value, mut values) = (vec![7; 1 << 20], ValueList::new());
    values.push(Value::Bytes(&value));
    values.push(Value::Bytes(&keys));
    let mut parameters = client.parameters();
    parameters.values = values.as_values(Version::V4);
    let execute = Execute { id: &id, result_metadata_id: None, parameters };
    for _ in 0..5 {
        let refused = client.ask(&Request::Execute(execute)).error;
        assert!(refused.starts_with("0x2200 Mutation of 1"), "{refused}");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
    let most: u64 = most.trim_end_matches(" kB").parse().unwrap();
    assert!(most < 512 << 10, "{most} KiB were resident");
    client.ok("UPDATE s1.large SET v = 0x01 WHERE k IN (1, 2, 3)");
}

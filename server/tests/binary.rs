//! The binary as a user meets it: it starts, serves, refuses what is wrong, and stops.
#![expect(clippy::unwrap_used, reason = "a failed check is what a test is for")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use cql::frame::client::{Answer, Reply};
use cql::frame::header::{Direction, Flags, Header, Version};
use cql::frame::intake::{Arrival, Intake};
use cql::frame::request::{Parameters, Query, Request, Startup};
use cql::frame::{Consistency, Reader, writer};

struct Server {
    child: Child,
    address: SocketAddr,
}

fn command(data_dir: &Path, port: u16) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_messina"));
    command.args(["--shards", "1", "--memory", "256M", "--shard-aware-port", "0"]);
    command.args(["--port", &port.to_string()]).arg("--data-dir").arg(data_dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn data_dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

impl Server {
    /// Starts on this directory and waits for `ready`.
    fn start(data_dir: &Path) -> Server {
        let port = free_port();
        let mut child = command(data_dir, port).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line == "ready"));
        assert!(ready, "{:?}", child.wait());
        Server { child, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// Asks to stop and tells the status.
    fn stop(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone after `stop`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of v4 that says what it is answered.
struct Client {
    socket: TcpStream,
    intake: Intake,
    input: Vec<u8>,
}

impl Client {
    fn connect(server: &Server) -> Client {
        let socket = TcpStream::connect(server.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let intake = Intake::new(Direction::Response, 16 << 20);
        Client { socket, intake, input: Vec::new() }
    }

    fn ready(server: &Server) -> Client {
        let mut client = Client::connect(server);
        let mut options = Vec::new();
        writer::string_map(&mut options, [("CQL_VERSION", "3.0.0")].into_iter());
        let startup = Startup::decode(Reader::new(&options)).unwrap();
        assert_eq!(client.ask(&Request::Startup(startup)), "READY");
        client
    }

    fn ask(&mut self, request: &Request<'_>) -> String {
        let mut frame = Vec::new();
        request.put(Version::V4, 1, Flags(0), &mut frame);
        self.send(&frame)
    }

    fn query(&mut self, text: &str) -> String {
        let parameters = Parameters::plain(Consistency::One, Version::V4);
        self.ask(&Request::Query(Query { text, parameters }))
    }

    /// Sends bytes and reads one answer; `closed` if there is none.
    fn send(&mut self, bytes: &[u8]) -> String {
        self.socket.write_all(bytes).unwrap();
        loop {
            let step = self.intake.next(&self.input).unwrap();
            let used = step.used;
            if let Arrival::Frame(header, body) = step.arrival {
                let answer = say(&header, body);
                self.input.drain(..used);
                return answer;
            }
            self.input.drain(..used);
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer).unwrap() {
                0 => return "closed".to_owned(),
                count => self.input.extend_from_slice(&buffer[..count]),
            }
        }
    }
}

fn say(header: &Header, body: &[u8]) -> String {
    match Answer::decode(header, body).unwrap().reply {
        Reply::Error { code, text, .. } => format!("{code:#06x} {text}"),
        Reply::Rows(rows) => format!("{} rows", rows.row_count),
        _ => header.opcode.name().to_owned(),
    }
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn it_tells_its_version_and_its_flags() {
    let run = |flag| {
        let output = Command::new(env!("CARGO_BIN_EXE_messina")).arg(flag).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run("--version"), concat!("messina ", env!("CARGO_PKG_VERSION"), "\n"));
    let help = run("--help");
    for flag in ["--data-dir", "--shards", "--memory", "--listen", "--commitlog-sync", "--config"] {
        assert!(help.contains(flag), "{flag}");
    }
}

#[test]
fn data_outlives_a_stop_and_has_one_owner() {
    let folder = data_dir();
    let server = Server::start(folder.path());
    let second = command(folder.path(), free_port()).output().unwrap();
    assert!(refusal(&second).contains("in use by another messina"), "{second:?}");
    let taken = command(&folder.path().join("other"), server.address.port()).output().unwrap();
    assert!(refusal(&taken).contains("in use by another program"), "{taken:?}");

    let mut client = Client::ready(&server);
    let keyspace = "CREATE KEYSPACE ks WITH replication = \
                    {'class': 'SimpleStrategy', 'replication_factor': 1}";
    assert_eq!(client.query(keyspace), "RESULT");
    assert_eq!(client.query("CREATE TABLE ks.t (k int PRIMARY KEY, v text)"), "RESULT");
    for k in 0..10 {
        let insert = format!("INSERT INTO ks.t (k, v) VALUES ({k}, 'value')");
        assert_eq!(client.query(&insert), "RESULT");
    }
    assert_eq!(server.stop(), Some(0));
    assert_eq!(client.send(&[]), "closed");

    let server = Server::start(folder.path());
    let mut client = Client::ready(&server);
    assert_eq!(client.query("SELECT * FROM ks.t"), "10 rows");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn data_that_cannot_be_trusted_are_not_served() {
    let folder = data_dir();
    assert_eq!(Server::start(folder.path()).stop(), Some(0));
    // The version is after a checksum and the magic.
    let layout = folder.path().join("layout");
    let mut bytes = std::fs::read(&layout).unwrap();
    bytes[16] += 1;
    std::fs::write(&layout, &bytes).unwrap();
    let newer = command(folder.path(), free_port()).output().unwrap();
    assert!(refusal(&newer).contains("it was written by a newer version"), "{newer:?}");
    bytes[16] -= 1;
    bytes[40] ^= 1;
    std::fs::write(&layout, &bytes).unwrap();
    let rotten = command(folder.path(), free_port()).output().unwrap();
    assert!(refusal(&rotten).contains("it does not verify"), "{rotten:?}");
    bytes[40] ^= 1;
    std::fs::write(&layout, &bytes).unwrap();
    std::fs::remove_file(folder.path().join("schema")).unwrap();
    let missing = command(folder.path(), free_port()).output().unwrap();
    assert!(refusal(&missing).contains("schema"), "{missing:?}");
}

#[test]
fn bad_input_gets_its_error_and_the_server_lives() {
    let folder = data_dir();
    let server = Server::start(folder.path());
    let mut early = Client::connect(&server);
    let unexpected = early.query("SELECT * FROM system.local");
    assert_eq!(unexpected, "0x000a Unexpected message QUERY, expecting STARTUP or OPTIONS");
    let mut future = Client::connect(&server);
    let refused = future.send(&[0x42, 0, 0, 0, 5, 0, 0, 0, 0]);
    let words = "0x000a Invalid or unsupported protocol version (66); \
                 supported versions are (3/v3, 4/v4, 5/v5)";
    assert_eq!(refused, words);
    assert_eq!(future.send(&[]), "closed");

    let mut client = Client::ready(&server);
    let cut = client.send(&[4, 0, 0, 1, 7, 0, 0, 0, 4, 0, 0, 0, 9]);
    assert!(cut.starts_with("0x000a Not enough bytes"), "{cut}");
    let text = client.send(&[4, 0, 0, 1, 7, 0, 0, 0, 6, 0, 0, 0, 2, 0xFF, 0xFF]);
    assert!(text.starts_with("0x000a Cannot decode string as UTF8"), "{text}");
    let mut large = vec![4, 0, 0, 1, 7, 1, 0, 0, 1];
    large.resize(9 + (1 << 24) + 1, 0);
    let refused = client.send(&large);
    assert!(refused.starts_with("0x2200 Request is too big: length 16777217"), "{refused}");
    let syntax = client.query("SELEKT * FROM system.local");
    assert!(syntax.starts_with("0x2000 line 1:0"), "{syntax}");
    let keyspace = "CREATE KEYSPACE ks WITH replication = \
                    {'class': 'SimpleStrategy', 'replication_factor': 1}";
    assert_eq!(client.query(keyspace), "RESULT");
    let unheeded = client.query(
        "CREATE TABLE ks.t (k int PRIMARY KEY) WITH compaction = \
         {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'X9'}",
    );
    assert!(unheeded.starts_with("0x2300 "), "{unheeded}");
    assert_eq!(client.query("SELECT * FROM system.local"), "1 rows");
    assert_eq!(server.stop(), Some(0));
}

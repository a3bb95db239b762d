//! What the tests of the binary share: a server as a process, and a client that tells its answers.
#![expect(clippy::unwrap_used, reason = "a failed check is what a test is for")]
#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses its part")]

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cql::frame::client::{Answer, Reply};
use cql::frame::frame_reader::{Arrival, FrameReader};
use cql::frame::header::{Direction, Flags, Header, Version};
use cql::frame::request::{Parameters, Query, Request, Startup, ValueList};
use cql::frame::{Consistency, Reader, Value, writer};

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// The server with one shard on this directory, and nothing that the machine decides.
pub(crate) fn command(data_dir: &Path, port: u16) -> Command {
    let mut command = plain_command(data_dir, port);
    command.args(["--shards", "1"]);
    command
}

fn plain_command(data_dir: &Path, port: u16) -> Command {
    let mut command = Command::new(binary());
    command.args(["--memory", "256M", "--shard-aware-port", "0"]);
    command.args(["--port", &port.to_string()]).arg("--data-dir").arg(data_dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The binary under test. A test that records what another build answers names it in
/// `MESSINA_BINARY`.
fn binary() -> OsString {
    std::env::var_os("MESSINA_BINARY").unwrap_or(env!("CARGO_BIN_EXE_messina").into())
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An empty directory on a disk.
pub(crate) fn data_dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

impl Server {
    /// Starts on this directory and waits for `ready`.
    pub(crate) fn start(data_dir: &Path) -> Server {
        Server::start_with_shards(data_dir, 1)
    }

    /// Starts with so many shards.
    pub(crate) fn start_with_shards(data_dir: &Path, shards: usize) -> Server {
        let port = free_port();
        let mut command = plain_command(data_dir, port);
        command.args(["--shards", &shards.to_string()]);
        command.stderr(Stdio::inherit());
        Server::spawn(command, port)
    }

    /// Starts with so many shards, and what a file of settings says.
    pub(crate) fn start_configured(data_dir: &Path, shards: usize, config: &Path) -> Server {
        let port = free_port();
        let mut command = plain_command(data_dir, port);
        command.args(["--shards", &shards.to_string()]).arg("--config").arg(config);
        command.stderr(Stdio::inherit());
        Server::spawn(command, port)
    }

    /// Starts with one shard; what it says to the operator goes to this file.
    pub(crate) fn start_telling(data_dir: &Path, told: std::fs::File) -> Server {
        let port = free_port();
        let mut command = command(data_dir, port);
        command.stderr(told);
        Server::spawn(command, port)
    }

    fn spawn(mut command: Command, port: u16) -> Server {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line == "ready"));
        assert!(ready, "{:?}", child.wait());
        Server { child, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// The most that the process has had in memory, in bytes.
    pub(crate) fn resident_bytes_max(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Asks to stop and tells the status.
    pub(crate) fn stop(mut self) -> Option<i32> {
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
pub(crate) struct Client {
    socket: TcpStream,
    reader: FrameReader,
    input: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(server: &Server) -> Client {
        let socket = TcpStream::connect(server.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let reader = FrameReader::new(Direction::Response, 256 << 20);
        Client { socket, reader, input: Vec::new() }
    }

    pub(crate) fn ready(server: &Server) -> Client {
        let mut client = Client::connect(server);
        let mut options = Vec::new();
        writer::string_map(&mut options, [("CQL_VERSION", "3.0.0")].into_iter());
        let startup = Startup::decode(Reader::new(&options)).unwrap();
        assert_eq!(client.ask(&Request::Startup(startup)), "READY");
        client
    }

    pub(crate) fn ask(&mut self, request: &Request<'_>) -> String {
        let mut frame = Vec::new();
        request.put(Version::V4, 1, Flags(0), &mut frame);
        self.send(&frame)
    }

    pub(crate) fn query(&mut self, text: &str) -> String {
        let parameters = Parameters::plain(Consistency::One, Version::V4);
        self.ask(&Request::Query(Query { text, parameters }))
    }

    /// Runs a statement with values.
    pub(crate) fn bound(&mut self, text: &str, values: &[&[u8]]) -> String {
        let mut list = ValueList::new();
        values.iter().for_each(|value| list.push(Value::Bytes(value)));
        let plain = Parameters::plain(Consistency::One, Version::V4);
        let parameters = Parameters { values: list.as_values(Version::V4), ..plain };
        self.ask(&Request::Query(Query { text, parameters }))
    }

    /// Sends bytes and says in a line what is answered; `closed` if nothing is.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> String {
        self.exchange(bytes, say).unwrap_or_else(|| "closed".to_owned())
    }

    /// Asks, and makes something of the answer; `None` if there is none.
    pub(crate) fn answer<T>(
        &mut self,
        text: &str,
        read: impl FnOnce(&Header, &[u8]) -> T,
    ) -> Option<T> {
        let parameters = Parameters::plain(Consistency::One, Version::V4);
        let mut frame = Vec::new();
        Request::Query(Query { text, parameters }).put(Version::V4, 1, Flags(0), &mut frame);
        self.exchange(&frame, read)
    }

    fn exchange<T>(&mut self, bytes: &[u8], read: impl FnOnce(&Header, &[u8]) -> T) -> Option<T> {
        self.socket.write_all(bytes).unwrap();
        loop {
            let step = self.reader.next(&self.input).unwrap();
            let used = step.used;
            if let Arrival::Frame(header, body) = step.arrival {
                let answer = read(&header, body);
                self.input.drain(..used);
                return Some(answer);
            }
            self.input.drain(..used);
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer).unwrap() {
                0 => return None,
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

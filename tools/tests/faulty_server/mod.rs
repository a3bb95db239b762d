//! A small CQL server that breaks one promise, or none, so that the load tool can be caught
//! missing it.
//!
//! It speaks protocol v4 through the server's half of our codec, keeps `usertable` in a map, and
//! can have shards: then a connection that comes from source port p is on shard p % shards, and a
//! request for a key of another shard is counted as misrouted.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cql::frame::compress::Compression;
use cql::frame::frame_reader::{Arrival, FrameReader};
use cql::frame::header::Direction;
use cql::frame::request::{Execute, Request};
use cql::frame::response::{Envelope, Failure};
use cql::frame::{ErrorCode, Opcode, Version, writer};
use model::Token;

/// The promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server keeps all its promises.
    None,
    /// Every 50th write is acknowledged and forgotten.
    Forgets,
    /// Every 50th read gets the row of another key.
    Confuses,
    /// Every 50th write of several fields keeps only the first half of them.
    Tears,
    /// Every 20th request is answered OVERLOADED.
    Overloads,
    /// Every 2000th request closes its connection, unanswered.
    HangsUp,
    /// After 1000 requests all are answered OVERLOADED, and 200 later the server is gone.
    Dies,
    /// After 500 requests all statements are forgotten, once.
    Unprepares,
    /// Every 50th request is refused for good.
    Refuses,
    /// Every 50th scan leaves out a row.
    Skips,
    /// Each connection takes 200 ms to be opened.
    OpensSlowly,
    /// The 500th request waits for two seconds, and all behind it on its connection.
    Stalls,
}

type Row = Vec<Option<(i64, Vec<u8>)>>;

/// What all connections share.
pub(crate) struct FaultyServer {
    fault: Fault,
    shards: u16,
    port: u16,
    /// Statements that were executed.
    pub(crate) requests: AtomicU64,
    writes: AtomicU64,
    /// Requests on the wrong shard.
    pub(crate) misrouted: AtomicU64,
    /// Connections that were made.
    pub(crate) connections: AtomicU64,
    forgotten: AtomicU64,
    streams: Mutex<Vec<TcpStream>>,
    statements: Mutex<Vec<String>>,
    rows: Mutex<BTreeMap<(Token, Vec<u8>), Row>>,
}

impl FaultyServer {
    /// Starts a server that lives as long as the test.
    pub(crate) fn start(fault: Fault, shards: u16) -> (Arc<FaultyServer>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::new(FaultyServer {
            fault,
            shards,
            port: address.port(),
            requests: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            misrouted: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            streams: Mutex::default(),
            statements: Mutex::default(),
            rows: Mutex::default(),
        });
        let accepting = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let server = accepting.clone();
                server.connections.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || server.serve(stream.unwrap()));
            }
        });
        (server, address)
    }

    fn serve(&self, mut stream: TcpStream) {
        // A copy keeps a connection open that hangs up by being dropped.
        if self.fault == Fault::Dies {
            self.streams.lock().unwrap().push(stream.try_clone().unwrap());
        }
        let shard = stream.peer_addr().unwrap().port() % self.shards;
        let mut reader = FrameReader::new(Direction::Request, 1 << 24);
        let (mut input, mut out) = (Vec::new(), Vec::new());
        let mut chunk = vec![0; 1 << 16];
        loop {
            match stream.read(&mut chunk) {
                Ok(0) | Err(_) => return,
                Ok(count) => input.extend_from_slice(&chunk[..count]),
            }
            let mut used = 0;
            loop {
                let step = reader.next(&input[used..]).unwrap();
                used += step.used;
                let Arrival::Frame(header, body) = step.arrival else { break };
                let request = Request::decode(&header, body).unwrap();
                let envelope = Envelope::new(Version::V4, header.stream);
                if !self.answer(&request, shard, &envelope, &mut out) {
                    return;
                }
            }
            input.drain(..used);
            if stream.write_all(&std::mem::take(&mut out)).is_err() {
                return;
            }
            reader.establish(Version::V4, Compression::None);
        }
    }

    /// Answers one request; false hangs up.
    fn answer(
        &self,
        request: &Request<'_>,
        shard: u16,
        to: &Envelope<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        match request {
            Request::Options => {
                let texts = [self.shards, shard, self.port].map(|number| number.to_string());
                to.put_supported(
                    &[
                        ("SCYLLA_SHARDING_ALGORITHM", &["biased-token-round-robin"]),
                        ("SCYLLA_SHARDING_IGNORE_MSB", &["0"]),
                        ("SCYLLA_NR_SHARDS", &[&texts[0]]),
                        ("SCYLLA_SHARD", &[&texts[1]]),
                        ("SCYLLA_SHARD_AWARE_PORT", &[&texts[2]]),
                    ],
                    out,
                );
            }
            Request::Startup(_) => {
                if self.fault == Fault::OpensSlowly {
                    thread::sleep(Duration::from_millis(200));
                }
                to.put_ready(out);
            }
            Request::Query(query) if query.text.starts_with("SELECT release_version") => {
                put_rows(to, out, &[vec![Some(b"faulty_server".to_vec())]]);
            }
            Request::Query(_) => to.put_void(out),
            Request::Prepare(prepare) => {
                let mut statements = self.statements.lock().unwrap();
                let known = statements.iter().position(|text| text == prepare.text);
                let number = known.unwrap_or_else(|| {
                    statements.push(prepare.text.to_owned());
                    statements.len() - 1
                });
                to.put(Opcode::Result, out, |out| {
                    writer::int(out, 4);
                    writer::short_bytes(out, &(number as u16).to_be_bytes());
                    (0..3).for_each(|_| writer::int(out, 0));
                    writer::int(out, 4);
                    writer::int(out, 0);
                });
            }
            Request::Execute(execute) => return self.execute(execute, shard, to, out),
            other => panic!("{other:?}"),
        }
        true
    }

    fn execute(
        &self,
        execute: &Execute<'_>,
        shard: u16,
        to: &Envelope<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let turn = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let fails = |code, text: &str, out: &mut Vec<u8>| {
            to.put_error(Failure::Plain(code), text, out);
            true
        };
        match self.fault {
            Fault::Overloads if turn.is_multiple_of(20) => {
                return fails(ErrorCode::Overloaded, "later, please", out);
            }
            Fault::Refuses if turn.is_multiple_of(50) => {
                return fails(ErrorCode::Invalid, "never", out);
            }
            Fault::Dies if turn == 1200 => {
                for stream in self.streams.lock().unwrap().iter() {
                    // It may be closed already.
                    let _ = stream.shutdown(Shutdown::Both);
                }
                return false;
            }
            Fault::Dies if turn > 1000 => {
                return fails(ErrorCode::Overloaded, "later, please", out);
            }
            Fault::Stalls if turn == 500 => thread::sleep(Duration::from_secs(2)),
            Fault::HangsUp if turn.is_multiple_of(2000) => return false,
            Fault::Unprepares
                if turn > 500 && self.forgotten.fetch_add(1, Ordering::Relaxed) == 0 =>
            {
                to.put_error(Failure::Unprepared { id: execute.id }, "what was that?", out);
                return true;
            }
            _ => {}
        }
        let number = u16::from_be_bytes(execute.id.try_into().unwrap());
        let text = self.statements.lock().unwrap()[usize::from(number)].clone();
        let values: Vec<&[u8]> =
            execute.parameters.values.iter().map(|value| value.bytes().unwrap()).collect();
        let timestamp = execute.parameters.timestamp_us;
        let key = if text.starts_with("UPDATE") { values[values.len() - 1] } else { values[0] };
        let token = Token::of_key(key);
        let owner = (u128::from(token.biased()) * u128::from(self.shards)) >> 64;
        if owner != u128::from(shard) {
            self.misrouted.fetch_add(1, Ordering::Relaxed);
        }
        let mut rows = self.rows.lock().unwrap();
        if text.starts_with("SELECT y_id") {
            let limit = i32::from_be_bytes(values[1].try_into().unwrap()) as usize;
            let mut found: Vec<_> = rows
                .range((token, Vec::new())..)
                .take(limit)
                .map(|((_, name), row)| {
                    [Some(name.clone())].into_iter().chain(cells(row)).collect::<Vec<_>>()
                })
                .collect();
            if self.fault == Fault::Skips && turn.is_multiple_of(50) && found.len() > 1 {
                found.remove(found.len() / 2);
            }
            put_rows(to, out, &found);
        } else if text.starts_with("SELECT") {
            let mut row = rows.get(&(token, key.to_vec()));
            if self.fault == Fault::Confuses && turn.is_multiple_of(50) {
                row = rows.values().next();
            }
            let found: Vec<_> = row.iter().map(|row| cells(row).collect()).collect();
            put_rows(to, out, &found);
        } else {
            self.write(&text, &values, timestamp.unwrap(), rows.entry((token, key.to_vec())));
            to.put_void(out);
        }
        true
    }

    fn write(
        &self,
        text: &str,
        values: &[&[u8]],
        timestamp: i64,
        entry: std::collections::btree_map::Entry<'_, (Token, Vec<u8>), Row>,
    ) {
        let turn = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let broken = turn.is_multiple_of(50);
        if self.fault == Fault::Forgets && broken {
            return;
        }
        let row = entry.or_insert_with(|| vec![None; 10]);
        let mut set = |field: usize, value: &[u8]| {
            if row[field].as_ref().is_none_or(|(newest, _)| *newest <= timestamp) {
                row[field] = Some((timestamp, value.to_vec()));
            }
        };
        if text.starts_with("UPDATE") {
            // A torn update is one of several fields that keeps the first half of them.
            let fields = text.split("field").skip(1).map(|rest| rest.split_once(' ').unwrap().0);
            let fields: Vec<usize> = fields.map(|field| field.parse().unwrap()).collect();
            let is_torn = self.fault == Fault::Tears && broken;
            let kept = if is_torn { fields.len().div_ceil(2) } else { fields.len() };
            fields.iter().zip(values).take(kept).for_each(|(&field, value)| set(field, value));
            return;
        }
        let kept = if self.fault == Fault::Tears && broken { 5 } else { 10 };
        values[1..].iter().take(kept).enumerate().for_each(|(field, value)| set(field, value));
    }
}

fn cells(row: &Row) -> impl Iterator<Item = Option<Vec<u8>>> {
    row.iter().map(|cell| cell.as_ref().map(|(_, value)| value.clone()))
}

fn put_rows(to: &Envelope<'_>, out: &mut Vec<u8>, rows: &[Vec<Option<Vec<u8>>>]) {
    to.put(Opcode::Result, out, |out| {
        let columns = rows.first().map_or(0, Vec::len);
        for number in [2, 4, columns as i32, rows.len() as i32] {
            writer::int(out, number);
        }
        for cell in rows.iter().flatten() {
            writer::bytes(out, cell.as_deref());
        }
    });
}

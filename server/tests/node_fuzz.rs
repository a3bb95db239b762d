//! A whole node, of all cores and on the simulated disk, under requests that are drawn: nothing that a client sends may
//! panic, stay without an answer, or be answered by what cannot be read.
//!
//! ```text
//! seed ─► statements and values ─► QUERY, PREPARE, EXECUTE, BATCH with flags, paging states, times
//!      ─► some of them with bits flipped, lengths that lie, bytes lost or doubled ─► node ─► answers, all decoded
//! ```
//!
//! `MESSINA_FUZZ_REQUESTS` says how many (`night`: a hundred million), `MESSINA_FUZZ_SEED` where to begin; a failure prints the
//! seed of its node, which repeats it.
#![expect(clippy::unwrap_used, reason = "a failed check is what a test is for")]

#[path = "node_fuzz/statements.rs"]
mod statements;

use cql::frame::client::{Answer, Reply};
use cql::frame::compress::Compression;
use cql::frame::frame_reader::{Arrival, FrameReader};
use cql::frame::frame_writer::FrameWriter;
use cql::frame::header::{Direction, Flags, HEADER_BYTES, Version};
use cql::frame::request::{
    Batch, BatchKind, BatchStatement, BatchText, Execute, Parameters, Prepare, Query, Request,
    ValueList, Values,
};
use cql::frame::{Consistency, Value};
use engine::io::{Disk, Faults, SimDisk};
use messina_server::manual::{ClientId, ManualConfig, ManualServer};
use statements::Drawn;

/// Requests unless `MESSINA_FUZZ_REQUESTS` says otherwise: some seconds of a build that is not optimized.
const REQUESTS: u64 = 10_000;
/// Requests of one node, after which the next one begins empty.
const REQUESTS_OF_NODE: u64 = 10_000;

/// Numbers that are the same for a seed (SplitMix64).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// A number at an edge of some type.
    pub(crate) fn edge(&mut self) -> i64 {
        let edges = [
            0,
            1,
            -1,
            127,
            128,
            32_768,
            i64::from(i32::MAX),
            i64::from(i32::MIN),
            i64::MAX,
            i64::MIN,
            1 << 31,
        ];
        self.of(&edges).wrapping_add(self.below(3) as i64 - 1)
    }
}

/// A node with its clients, and what they remember.
struct Fuzz {
    server: ManualServer,
    clients: Vec<(ClientId, Version)>,
    prepared: Vec<(Vec<u8>, Vec<&'static str>)>,
    states: Vec<Vec<u8>>,
    numbers: Numbers,
    /// How many were answered by something else than an error.
    good: u64,
}

impl Fuzz {
    fn new(seed: u64) -> Fuzz {
        let mut numbers = Numbers(seed);
        let shards = 1 + numbers.below(3) as usize;
        let disk = Disk::Sim(SimDisk::new(seed, Faults::default()));
        let config =
            ManualConfig { shards, shard_memory_bytes: 8 << 20, log_segment_bytes: 1 << 20 };
        let mut server = ManualServer::open(&disk, &config).unwrap();
        let versions = [Version::V3, Version::V4, Version::V5];
        let clients = versions.map(|version| {
            (server.connect(numbers.below(shards as u64) as usize, version), version)
        });
        let (prepared, states) = Default::default();
        let mut fuzz = Fuzz { server, clients: clients.into(), prepared, states, numbers, good: 0 };
        let keyspace = "CREATE KEYSPACE ks WITH replication = \
                        {'class': 'SimpleStrategy', 'replication_factor': 1}";
        let made =
            [keyspace.to_owned(), "CREATE TYPE ks.u (a int, b frozen<set<text>>)".to_owned()];
        for text in
            made.into_iter().chain(statements::TABLES.iter().map(statements::Table::definition))
        {
            fuzz.send(
                1,
                &Request::Query(Query {
                    text: &text,
                    parameters: Parameters::plain(Consistency::One, Version::V4),
                }),
                Flags(0),
                &[],
            );
        }
        let made = 2 + statements::TABLES.len() as u64;
        assert_eq!(fuzz.good, made, "the keyspace, the type and the tables are made");
        fuzz
    }

    /// Sends one request, changed as `numbers` have it if they do, and reads the answer.
    fn send(
        &mut self,
        client: usize,
        request: &Request<'_>,
        flags: Flags,
        markers: &[&'static str],
    ) {
        let (client, version) = self.clients[client];
        let mut frame = Vec::new();
        request.put(version, 1, flags, &mut frame);
        self.deliver((client, version), &frame, markers);
    }

    fn deliver(
        &mut self,
        (client, version): (ClientId, Version),
        frame: &[u8],
        markers: &[&'static str],
    ) {
        let (mut writer, mut reader) =
            (FrameWriter::new(), FrameReader::new(Direction::Response, 256 << 20));
        writer.establish(version, Compression::None);
        reader.establish(version, Compression::None);
        writer.frame(|out| out.extend_from_slice(frame));
        writer.seal();
        self.server.take(client, writer.unsent());
        self.server.run_until_answered(client);
        let sent = self.server.sent(client, <[u8]>::to_vec);
        let mut rest = &sent[..];
        loop {
            let step = reader.next(rest).expect("what is sent is frames");
            rest = &rest[step.used..];
            let Arrival::Frame(header, body) = step.arrival else { break };
            let answer = Answer::decode(&header, body).expect("an answer can be read");
            match answer.reply {
                Reply::Error { .. } => {}
                Reply::Prepared(prepared) => {
                    self.prepared.push((prepared.id.to_vec(), markers.to_vec()));
                    self.good += 1;
                }
                Reply::Rows(rows) => {
                    assert!(rows.cells().all(|cell| cell.is_ok()), "cells can be read");
                    self.states.extend(rows.metadata.paging_state.map(<[u8]>::to_vec));
                    self.good += 1;
                }
                _ => self.good += 1,
            }
        }
        self.prepared.truncate(64);
        if self.states.len() > 64 {
            self.states.drain(..32);
        }
    }

    /// Draws one request, sends it and reads its answer.
    fn step(&mut self) {
        let client = self.numbers.below(3) as usize;
        let (id, version) = self.clients[client];
        let Drawn { text, markers } = statements::draw(&mut self.numbers);
        let kept = match self.prepared.is_empty() || self.numbers.one_in(10) {
            true => (vec![7; self.numbers.below(20) as usize], markers.clone()),
            false => self.numbers.of(&self.prepared).clone(),
        };
        let kind = self.numbers.below(10);
        let values = self.values(if kind == 2 || kind == 3 { &kept.1 } else { &markers });
        let state = self.state();
        let parameters = self.parameters(values.as_values(version), state.as_deref());
        let text = self.garbled(text);
        let flags = Flags(if self.numbers.one_in(50) { Flags::TRACING.0 } else { 0 });
        let items = [
            BatchStatement { text: BatchText::Query(&text), values: values.as_values(version) },
            BatchStatement {
                text: BatchText::Prepared(&kept.0),
                values: values.as_values(version),
            },
        ];
        let mut buffer = Vec::new();
        let request = match kind {
            0..=1 => Request::Prepare(Prepare { text: &text, keyspace: None }),
            2..=3 => Request::Execute(Execute {
                id: &kept.0,
                result_metadata_id: Some(&[1; 16]),
                parameters,
            }),
            4 => {
                let kinds = [BatchKind::Logged, BatchKind::Unlogged, BatchKind::Counter];
                let kind = *self.numbers.of(&kinds);
                let parameters = Parameters { values: Values::none(version), ..parameters };
                Request::Batch(Batch::new(kind, &items, parameters, version, &mut buffer))
            }
            _ => Request::Query(Query { text: &text, parameters }),
        };
        let mut frame = Vec::new();
        request.put(version, 1, flags, &mut frame);
        if self.numbers.one_in(5) {
            self.mutate(&mut frame);
        }
        self.deliver((id, version), &frame, &markers);
    }

    fn values(&mut self, markers: &[&'static str]) -> ValueList {
        let mut list = ValueList::new();
        let extra = usize::from(self.numbers.one_in(30));
        for ty in markers.iter().chain(["int"; 1][..extra].iter()) {
            let bytes = statements::bytes(ty, &mut self.numbers);
            list.push(match self.numbers.below(20) {
                0 => Value::Null,
                1 => Value::Unset,
                _ => Value::Bytes(&bytes),
            });
        }
        list
    }

    fn state(&mut self) -> Option<Vec<u8>> {
        if self.states.is_empty() || !self.numbers.one_in(4) {
            return None;
        }
        let mut state = self.numbers.of(&self.states).clone();
        if self.numbers.one_in(3) {
            let at = self.numbers.below(state.len() as u64) as usize;
            state[at] ^= 1 << self.numbers.below(8);
        }
        Some(state)
    }

    fn parameters<'a>(&mut self, values: Values<'a>, state: Option<&'a [u8]>) -> Parameters<'a> {
        let numbers = &mut self.numbers;
        let levels = [
            Consistency::One,
            Consistency::Quorum,
            Consistency::All,
            Consistency::Any,
            Consistency::Serial,
        ];
        let mut of = |edge: i64| if numbers.one_in(6) { Some(edge) } else { None };
        let (timestamp, now) = (of(5), of(7));
        let page_rows = match numbers.below(4) {
            0 => None,
            1 => Some(u32::try_from(numbers.edge() & 0x7FFF_FFFF).unwrap_or(0)),
            _ => Some(numbers.below(5) as u32),
        };
        Parameters {
            consistency: if numbers.one_in(10) { *numbers.of(&levels) } else { Consistency::One },
            values,
            skip_metadata: numbers.one_in(4),
            page_rows,
            paging_state: state,
            serial_consistency: match numbers.below(80) {
                0 => Some(*numbers.of(&levels)),
                1..8 => Some(Consistency::LocalSerial),
                _ => None,
            },
            timestamp_us: timestamp.map(|_| numbers.edge()),
            keyspace: None,
            now_s: now.map(|_| numbers.edge() as i32),
            request_id: match numbers.below(160) {
                0..3 => Some(*numbers.of(&[&[1; 16], &[2; 16]])),
                3 => Some(&[]),
                _ => None,
            },
        }
    }

    /// The statement, or one that has lost, doubled or changed some of it.
    fn garbled(&mut self, text: String) -> String {
        if !self.numbers.one_in(12) {
            return text;
        }
        let mut words: Vec<&str> = text.split(' ').collect();
        for _ in 0..1 + self.numbers.below(3) {
            let (at, other) = (
                self.numbers.below(words.len() as u64) as usize,
                self.numbers.below(words.len() as u64) as usize,
            );
            match self.numbers.below(4) {
                0 => words[at] = words[other],
                1 => words.insert(at, words[other]),
                2 if words.len() > 1 => drop(words.remove(at)),
                _ => words.swap(at, other),
            }
        }
        words.join(" ")
    }

    /// Changes the body of a frame; its header stays true.
    fn mutate(&mut self, frame: &mut Vec<u8>) {
        for _ in 0..1 + self.numbers.below(4) {
            let body = frame.len() - HEADER_BYTES;
            if body < 8 {
                break;
            }
            let at = HEADER_BYTES + self.numbers.below(body as u64 - 4) as usize;
            match self.numbers.below(5) {
                0 => frame[at] ^= 1 << self.numbers.below(8),
                1 => frame[at..at + 4].copy_from_slice(&(self.numbers.edge() as i32).to_be_bytes()),
                2 => frame[at..at + 2].copy_from_slice(&(self.numbers.edge() as i16).to_be_bytes()),
                3 => drop(frame.drain(at..at + 1 + self.numbers.below(3) as usize)),
                _ => {
                    let twice = frame[at..].to_vec();
                    frame.extend_from_slice(&twice[..twice.len().min(1 << 10)]);
                }
            }
        }
        let length = u32::try_from(frame.len() - HEADER_BYTES).unwrap();
        frame[5..HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
    }
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

#[test]
fn no_request_ends_a_node() {
    let (requests, first) = (
        asked("MESSINA_FUZZ_REQUESTS").unwrap_or(REQUESTS),
        asked("MESSINA_FUZZ_SEED").unwrap_or(1),
    );
    let (mut sent, mut good) = (0, 0);
    for seed in first.. {
        if sent >= requests {
            break;
        }
        let outcome = std::panic::catch_unwind(|| {
            let mut fuzz = Fuzz::new(seed);
            for _ in 0..REQUESTS_OF_NODE {
                fuzz.step();
            }
            fuzz.good
        });
        let Ok(of_node) = outcome else {
            panic!("MESSINA_FUZZ_SEED={seed} MESSINA_FUZZ_REQUESTS=1 repeats it")
        };
        (sent, good) = (sent + REQUESTS_OF_NODE, good + of_node);
    }
    println!("{sent} requests, {good} of them answered by something else than an error, 0 deaths");
    assert!(good * 4 > sent, "only {good} of {sent} requests meant something");
}

//! The pass without a database: what the network, the log and the executor cost a request.
//!
//! `cargo bench -p messina-bench --bench pass`. One shard on the first processor, a closed-loop client on the last. A
//! request is 100 bytes; its answer, 100 bytes, comes when a record that holds its key is durable in the shard's log.
//! Prints requests a second, latency and the shard's CPU time a request. The data directory is made in, and removed
//! from, the current one.
//!
//! 1. An idle second: the CPU of a shard without clients.
//! 2. 1, 10 and 100 connections with one request in flight each, then 100 with 16, three seconds each. Of 16 requests
//!    the latency is that of the last answer.
//!
//! Invariant: a pass here has the order of the server's: read sockets, give writes to the log, answer what is durable,
//! wait.
//!
//! Not here: statements, reads and memtables that are flushed (`bench/src/cost`), a hop between cores (`mailbox.rs`).
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be set up ends")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::options::KeyspaceOptions;
use model::row::RowHead;
use model::schema::{Table, TableBuilder, TableId};
use model::{CqlType, Deletion, MutationBuilder, RowBuilder, Schema, SchemaChange, Token};
use shard::idle::WAKE_KEY;
use shard::node::{Core, NodeConfig, Opened, start};
use shard::os::cpus;
use shard::os::epoll::{Interest, Poller};
use shard::{Protocol, Ticket};

const REQUEST_BYTES: usize = 100;
const LISTENER_KEY: u64 = WAKE_KEY - 1;
const RUN: Duration = Duration::from_secs(3);

/// There is one shard, which asks nothing.
enum Alone {}

impl Protocol for Alone {
    type Ask = ();
    type Answer = ();
}

struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

fn table() -> Table {
    let builder = TableBuilder::new("ks", "t", TableId(Default::default()));
    builder.partition_key("k", CqlType::Blob).unwrap().build().unwrap()
}

fn record(request: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let key = &request[..8];
    let mut mutation = MutationBuilder::begin(out, table_id(), Token::of_key(key), key);
    mutation.row(&[], |out| {
        let marker = Some(model::cell::Life::Live);
        let head = RowHead { timestamp: 1, marker, deletion: Deletion::NONE };
        let _ = RowBuilder::begin(out, &head);
        out.len()
    });
    mutation.finish();
}

fn table_id() -> TableId {
    TableId(Default::default())
}

/// One core's clients, its log, and its sleep.
async fn serve(opened: Opened<Alone>, listener: TcpListener) {
    make_table(&opened);
    let mut poller = Poller::new().unwrap();
    listener.set_nonblocking(true).unwrap();
    poller.add(listener.as_fd(), LISTENER_KEY, Interest::Read).unwrap();
    let idle = opened.idle(&poller).unwrap();
    let shard = opened.shard.clone();
    let mut connections: Vec<Connection> = Vec::new();
    let (mut done, mut ready, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut scratch = vec![0; 64 << 10];
    loop {
        let now = Instant::now();
        if !poller.has_ready() {
            poller.poll().unwrap();
        }
        ready.extend(poller.ready().filter(|event| event.key != WAKE_KEY));
        let mut busy = !ready.is_empty();
        for event in ready.drain(..) {
            if event.key == LISTENER_KEY {
                while let Ok((socket, _)) = listener.accept() {
                    socket.set_nonblocking(true).unwrap();
                    socket.set_nodelay(true).unwrap();
                    let key = connections.len() as u64;
                    poller.add(socket.as_fd(), key, Interest::Read).unwrap();
                    connections.push(Connection { socket, input: vec![], output: vec![] });
                }
                continue;
            }
            let connection = &mut connections[event.key as usize];
            while let Ok(count @ 1..) = connection.socket.read(&mut scratch) {
                connection.input.extend_from_slice(&scratch[..count]);
                if count < scratch.len() {
                    break;
                }
            }
            let whole = connection.input.len() / REQUEST_BYTES * REQUEST_BYTES;
            for request in connection.input[..whole].chunks(REQUEST_BYTES) {
                record(request, &mut bytes);
                shard.write(&bytes, Ticket::Caller(event.key as u32)).unwrap();
            }
            connection.input.drain(..whole);
        }
        shard.take_completed(&mut done);
        busy |= !done.is_empty();
        let mut answered: Vec<usize> = Vec::new();
        for (ticket, result) in done.drain(..) {
            result.unwrap();
            let output = &mut connections[ticket as usize].output;
            if output.is_empty() {
                answered.push(ticket as usize);
            }
            output.extend_from_slice(&[0; REQUEST_BYTES]);
        }
        for index in answered {
            let Connection { socket, output, .. } = &mut connections[index];
            // A client that has gone takes its answers with it.
            let _ = socket.write_all(output);
            output.clear();
        }
        if opened.stopping.is_asked() {
            opened.stopping.done();
            std::future::pending::<()>().await;
        }
        if busy {
            idle.between_passes(shard.in_flight(), now).await;
        } else {
            idle.wait(shard.in_flight(), &mut poller, || false).await;
        }
    }
}

fn make_table(opened: &Opened<Alone>) {
    let shard = opened.shard.clone();
    shard.runtime().clone().spawn(shard::Group::Background, async move {
        let name = "ks".to_owned();
        let keyspace = SchemaChange::CreateKeyspace { name, options: KeyspaceOptions::default() };
        shard.alter(keyspace, 0).await.unwrap();
        shard.alter(SchemaChange::CreateTable(Box::new(table())), 1).await.unwrap();
    });
}

struct Round {
    requests: u64,
    latencies: Vec<u32>,
}

/// Keeps `depth` requests in flight on each of `connections`.
fn drive(address: SocketAddr, connections: usize, depth: usize) -> Round {
    let mut poller = Poller::new().unwrap();
    let mut sockets = Vec::new();
    for index in 0..connections {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        poller.add(socket.as_fd(), index as u64, Interest::Read).unwrap();
        sockets.push((socket, 0usize, Instant::now()));
    }
    let mut request = vec![0; REQUEST_BYTES * depth];
    let mut number = 0u64;
    let mut fill = |request: &mut [u8]| {
        for request in request.chunks_mut(REQUEST_BYTES) {
            number += 1;
            request[..8].copy_from_slice(&(number % 100_000).to_le_bytes());
        }
    };
    for (socket, ..) in &mut sockets {
        fill(&mut request);
        socket.write_all(&request).unwrap();
    }
    let start = Instant::now();
    let mut round = Round { requests: 0, latencies: Vec::new() };
    let mut scratch = vec![0; 64 << 10];
    while start.elapsed() < RUN {
        poller.wait(Some(Duration::from_millis(100))).unwrap();
        let ready: Vec<_> = poller.ready().collect();
        for event in ready {
            let (socket, got, sent) = &mut sockets[event.key as usize];
            while let Ok(count @ 1..) = socket.read(&mut scratch) {
                *got += count;
            }
            if *got >= request.len() {
                assert_eq!(*got, request.len());
                *got = 0;
                round.requests += depth as u64;
                round.latencies.push(sent.elapsed().as_micros() as u32);
                fill(&mut request);
                socket.write_all(&request).unwrap();
                *sent = Instant::now();
            }
        }
    }
    round
}

/// CPU time of the threads of this process whose name begins with `name`, in microseconds.
fn cpu_us(name: &str) -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let mine =
        threads.map(|thread| thread.unwrap().path()).filter(|thread: &std::path::PathBuf| {
            std::fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.starts_with(name))
        });
    let spent = |thread: std::path::PathBuf| -> u64 {
        let stat = std::fs::read_to_string(thread.join("schedstat")).unwrap();
        stat.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    mine.map(spent).sum::<u64>() / 1000
}

fn main() {
    let dir = Path::new("pass-bench-data");
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir(dir).unwrap();
    let allowed = cpus::allowed().unwrap();
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    let config = NodeConfig {
        shards: 1,
        cpus: vec![allowed[0]],
        data_dir: std::fs::canonicalize(dir).unwrap(),
        shard_memory_bytes: 4 << 30,
        log: engine::commitlog::Config {
            log_bytes_max: 16 << 30,
            ..engine::commitlog::Config::new(0)
        },
        reserve_bytes: 0,
        compaction_throughput_bytes: 0,
        idle_spin: shard::limits::IDLE_SPIN_DEFAULT,
        base: Arc::new(Schema::empty()),
        sum: |_, _, _| Ok(None),
        wall_us: 0,
    };
    let node = start(config, move |core: Core<Alone>| {
        let listener = listener.try_clone().unwrap();
        async move {
            let opened = core.open().await.unwrap();
            opened.tell_ready();
            serve(opened, listener).await;
        }
    })
    .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let before = cpu_us("shard-0");
    std::thread::sleep(Duration::from_secs(1));
    println!("idle: {} us of CPU a second", cpu_us("shard-0") - before);
    cpus::bind(*allowed.last().unwrap()).unwrap();
    for (connections, depth) in [(1, 1), (10, 1), (100, 1), (100, 16)] {
        let before = cpu_us("shard-0");
        let mut round = drive(address, connections, depth);
        let cpu = cpu_us("shard-0") - before;
        round.latencies.sort_unstable();
        let at = |per_mille: usize| round.latencies[round.latencies.len() * per_mille / 1000];
        println!(
            "{connections:>3} x {depth:>2}: {:>8.0} req/s  p50 {:>5} us  p99 {:>5} us  {:.2} us of CPU each",
            round.requests as f64 / RUN.as_secs_f64(),
            at(500),
            at(990),
            cpu as f64 / round.requests as f64,
        );
    }
    node.stop().unwrap();
    let _ = std::fs::remove_dir_all(dir);
    cpus::exit(0);
}

//! A server without sockets, driven by hand: the executors of all cores, on a disk of the caller's
//! choice, in one thread.
//!
//! ```text
//! take(client, bytes) ─► frames ─► Executor::request ─┬─ answered: the client's writer
//!                                                     └─ later
//! run_once ─► tasks that were woken ─► per core: Executor::poll_within ─► late answers to their writers
//! sent(client) ◄─ what would be sent
//! ```
//!
//! Everything from the decoded frame to the encoded answer is the product's own code: `cost`
//! measures it and tests drive it. Not here: sockets, the load limits and the order of messages,
//! which are `connection.rs`.

use std::borrow::Cow;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cql::frame::Version;
use cql::frame::compress::Compression;
use cql::frame::frame_reader::{Arrival, FrameReader};
use cql::frame::frame_writer::FrameWriter;
use cql::frame::header::Direction;
use cql::frame::request::Request;
use cql::limits::FRAME_BODY_BYTES_MAX;
use cql::plan::BatchThresholds;
use engine::io::Disk;
use shard::clock::Clock;
use shard::manual::ManualNode;
use shard::node::NodeConfig;

use crate::answers::Answers;
use crate::execute::{Executor, NodeState, Peering, Settings, sum};
use crate::guardrails::Guardrails;
use crate::seal::Seal;
use crate::service::{Outcome, Service};
use crate::session::{ConnectionId, Session, Stage};
use crate::system::{self, Node};
use crate::timeouts::{Timeouts, TombstoneThresholds};

/// Bytes of a core's prepared statements.
const PREPARED_BYTES_MAX: usize = 1 << 20;
/// Tombstones that end a read: few, so that a test comes to them.
const TOMBSTONES_MAX: u64 = 5000;
/// What requests, mail and the answers of writes may take: a slow machine changes no test of them. Tasks and reads that
/// were woken have slices by the machine's clock.
const LONG: Duration = Duration::from_secs(3600);
/// Turns in which nothing is answered after which a client's request is taken for lost.
const TURNS_MAX: usize = 100_000;

/// The number of cores, memory and log of a manual server.
#[derive(Clone, Debug)]
pub struct ManualConfig {
    /// The number of cores.
    pub shards: usize,
    /// Memory for the data of each, in bytes.
    pub shard_memory_bytes: usize,
    /// Bytes of a segment of the commit log.
    pub log_segment_bytes: u32,
}

/// All cores of a server, and their clients.
pub struct ManualServer {
    node: ManualNode<Peering>,
    cores: Vec<ManualCore>,
    clients: Vec<ManualClient>,
    #[cfg(test)]
    guardrails: Arc<Guardrails>,
}

struct ManualCore {
    executor: Rc<Executor>,
    clock: Rc<Clock>,
}

/// A client, to name it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId(usize);

struct ManualClient {
    session: Rc<Session>,
    shard: usize,
    reader: FrameReader,
    writer: FrameWriter,
    /// Requests without an answer.
    waiting: usize,
}

impl ManualClient {
    /// Takes a late answer or an event, as a connection does.
    fn deliver(&mut self, frame: Cow<'_, [u8]>) {
        self.waiting -= usize::from(!is_event(&frame));
        self.writer.whole_frame(frame);
    }
}

impl ManualServer {
    /// Opens or makes the data directory that is all of `disk`.
    pub fn open(disk: &Disk, config: &ManualConfig) -> engine::Result<ManualServer> {
        let mut log = engine::commitlog::Config::new(0);
        log.segment_bytes = config.log_segment_bytes;
        let node = ManualNode::open(
            disk,
            &NodeConfig {
                shards: config.shards,
                cpus: Vec::new(),
                data_dir: PathBuf::from("/"),
                shard_memory_bytes: config.shard_memory_bytes,
                log,
                reserve_bytes: 0,
                compaction_throughput_bytes: 0,
                idle_spin: Duration::ZERO,
                base: Arc::new(system::base_schema()),
                sum,
                wall_us: Clock::new().wall_us(),
            },
        )?;
        let guardrails = Arc::new(Guardrails::default());
        let answers = Answers::of_cores(config.shards, config.shard_memory_bytes as u64);
        let core = |(shard, clock): (&Rc<shard::Shard<Peering>>, Rc<Clock>)| {
            let about = about(node.booted().layout.host_id, &clock);
            let seal = Seal::new(&node.booted().layout.secret);
            let state = NodeState::new(about, seal, settings(&guardrails), clock.clone());
            ManualCore { executor: Executor::new(shard.clone(), state, answers.clone()), clock }
        };
        let cores = node.shards().iter().zip(node.clocks()).map(core).collect();
        let mut server = ManualServer {
            node,
            cores,
            clients: Vec::new(),
            #[cfg(test)]
            guardrails,
        };
        // The first poll of a log prepares its segments.
        server.node.manual().run_ready();
        server.send_batches_again();
        let first = server.node.shards()[0].clone();
        first.runtime().clone().spawn(
            shard::Group::Background,
            first.build_views(server.node.booted().layout.host_id),
        );
        Ok(server)
    }

    /// What a start does before clients are let in. Ends early when the power is cut.
    fn send_batches_again(&mut self) {
        let left = Rc::new(Cell::new(self.cores.len()));
        for (shard, core) in self.node.shards().iter().zip(&self.cores) {
            let (shard, now_s, left) = (shard.clone(), core.clock.wall_s(), left.clone());
            shard.runtime().clone().spawn(shard::Group::Background, async move {
                shard.send_batches_again(now_s).await;
                left.set(left.get() - 1);
            });
        }
        for _ in 0..TURNS_MAX {
            if left.get() == 0 || !self.run_once() {
                break;
            }
        }
    }

    /// Moves the clocks of all cores ahead, as if the wall clock were so far ahead, in microseconds since 1970.
    pub fn set_clocks(&self, wall_us: i64) {
        self.cores.iter().for_each(|core| core.clock.at_least(wall_us));
    }

    /// Sets the wall clocks of all cores, in microseconds since 1970.
    #[cfg(test)]
    pub(crate) fn set_wall_us(&self, wall_us: i64) {
        self.cores.iter().for_each(|core| core.clock.set_wall_us(wall_us));
    }

    /// Notes the timestamps that were given, as a node does every second.
    pub fn note_timestamps(&self) -> engine::Result<()> {
        self.node.note_timestamps()
    }

    /// A client of a core that has done its handshake in `version`, without compression.
    pub fn connect(&mut self, shard: usize, version: Version) -> ClientId {
        let slot = u16::try_from(self.clients.len()).expect("a test has few clients");
        let id = ConnectionId { slot: slot.into(), generation: 0 };
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, slot));
        let session = Rc::new(Session::new(id, peer));
        session.version.set(version);
        session.stage.set(Stage::Ready);
        self.cores[shard].executor.opened(&session);
        let mut reader = FrameReader::new(Direction::Request, FRAME_BODY_BYTES_MAX);
        reader.establish(version, Compression::None);
        let mut writer = FrameWriter::new();
        writer.establish(version, Compression::None);
        self.clients.push(ManualClient { session, shard, reader, writer, waiting: 0 });
        ClientId(self.clients.len() - 1)
    }

    /// The client's connection is gone.
    pub fn disconnect(&mut self, client: ClientId) {
        let ManualClient { session, shard, .. } = &self.clients[client.0];
        self.cores[*shard].executor.closed(session);
    }

    /// The client sends nothing more, and still takes its answers.
    #[cfg(test)]
    pub(crate) fn fall_silent(&mut self, client: ClientId) {
        let ManualClient { session, shard, .. } = &self.clients[client.0];
        self.cores[*shard].executor.fell_silent(session);
    }

    /// The executor of a core.
    #[cfg(test)]
    pub(crate) fn executor(&self, shard: usize) -> Rc<Executor> {
        self.cores[shard].executor.clone()
    }

    /// The reads that wait on all cores, for clients and for other cores, and the bytes of answers being made.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize, u64) {
        self.cores
            .iter()
            .map(|core| core.executor.held())
            .fold((0, 0, 0), |sum, held| (sum.0 + held.0, sum.1 + held.1, sum.2 + held.2))
    }

    /// Requests that other cores are to answer.
    #[cfg(test)]
    pub(crate) fn forwarded(&self) -> usize {
        self.cores.iter().map(|core| core.executor.forwarded()).sum()
    }

    /// Rows that all engines have given.
    #[cfg(test)]
    pub(crate) fn rows_read(&self) -> u64 {
        self.node.shards().iter().map(|shard| shard.engine().stats().rows_read).sum()
    }

    /// Takes whole frames from a client and begins their requests. One that is malformed is left out: its connection
    /// refuses it.
    #[inline]
    pub fn take(&mut self, client: ClientId, mut input: &[u8]) {
        let ManualClient { session, shard, reader, writer, waiting } = &mut self.clients[client.0];
        let executor = &self.cores[*shard].executor;
        loop {
            let step = reader.next(input).expect("the frames are well-formed");
            input = &input[step.used..];
            let (header, body) = match step.arrival {
                Arrival::Frame(header, body) => (header, body),
                Arrival::Starved => return,
                other => panic!("the frames are well-formed: {other:?}"),
            };
            let Ok(request) = Request::decode(&header, body) else { continue };
            let outcome = writer.frame(|out| executor.request(session, &header, &request, out));
            *waiting += usize::from(outcome == Outcome::Later);
        }
    }

    /// Tells a core that a step took long.
    #[cfg(test)]
    pub(crate) fn stalled(&self, shard: usize, work: shard::stalls::Work, took: Duration) {
        self.cores[shard].executor.stalls().note(work, took);
    }

    /// Turns and moves the time until `work` on the first core is over: what it gives, or `None` when the power is cut.
    #[cfg(test)]
    pub(crate) fn on_first_core<T: 'static>(
        &mut self,
        work: impl AsyncFnOnce(Rc<shard::Shard<Peering>>) -> T + 'static,
    ) -> Option<T> {
        let shard = self.node.shards()[0].clone();
        let done = Rc::new(std::cell::RefCell::new(None));
        let result = done.clone();
        shard.runtime().clone().spawn(shard::Group::Background, async move {
            let given = work(shard).await;
            result.replace(Some(given));
        });
        for _ in 0..1000 {
            while self.run_once() {}
            if done.borrow().is_some() {
                break;
            }
            self.advance(Duration::from_millis(1));
        }
        done.take()
    }

    /// What the operator has set, which all cores read.
    #[cfg(test)]
    pub(crate) fn guardrails(&self) -> &Guardrails {
        &self.guardrails
    }

    /// How many parts of aggregates the cores have asked each other for.
    #[cfg(test)]
    pub(crate) fn parts_asked(&self) -> u32 {
        self.cores.iter().map(|core| core.executor.parts_asked()).sum()
    }

    /// The number of buffers for frames that all cores have made.
    #[cfg(test)]
    pub(crate) fn frames_made(&self) -> usize {
        self.cores.iter().map(|core| core.executor.frames_made()).sum()
    }

    /// One turn of every core. Whether anything was done.
    #[inline]
    pub fn run_once(&mut self) -> bool {
        let mut busy = self.node.manual().run_ready();
        let ManualServer { cores, clients, .. } = self;
        for core in cores.iter() {
            busy |= core.executor.poll_within(LONG, LONG);
            let deliver = |to: ConnectionId, frame: Cow<'_, [u8]>| {
                busy = true;
                clients[to.slot as usize].deliver(frame);
            };
            core.executor.replies().deliver(deliver, || false);
        }
        busy
    }

    /// Runs the tasks that were woken.
    #[cfg(test)]
    pub(crate) fn run_tasks(&self) -> bool {
        self.node.manual().run_ready()
    }

    /// One poll of a core whose time is over. Whether anything was done.
    #[cfg(test)]
    pub(crate) fn poll_out_of_time(&self, shard: usize) -> bool {
        self.cores[shard].executor.poll_within(Duration::ZERO, Duration::ZERO)
    }

    /// A core whose time is over looks what is late so much later. Whether there is more.
    #[cfg(test)]
    pub(crate) fn end_late_out_of_time(&self, shard: usize, later: Duration) -> bool {
        let ManualCore { executor, clock } = &self.cores[shard];
        executor.end_late_within(clock.monotonic() + later, crate::time_slice::TimeSlice::over())
    }

    /// Delivers what a core has answered, up to where a pass without time stops: how many answers.
    #[cfg(test)]
    pub(crate) fn deliver_out_of_time(&mut self, shard: usize) -> usize {
        let ManualServer { cores, clients, .. } = self;
        let mut delivered = 0;
        let deliver = |to: ConnectionId, frame: Cow<'_, [u8]>| {
            delivered += 1;
            clients[to.slot as usize].deliver(frame);
        };
        cores[shard].executor.replies().deliver(deliver, || true);
        delivered
    }

    /// Turns until every request of the client is answered.
    pub fn run_until_answered(&mut self, client: ClientId) {
        let mut turns = 0;
        while self.clients[client.0].waiting > 0 {
            if !self.run_once() {
                turns += 1;
                assert!(turns < TURNS_MAX, "a request is never answered");
                self.advance(Duration::from_millis(1));
            }
        }
    }

    /// Moves the time, for what sleeps and for the clocks of the cores, and looks what has passed its deadline.
    pub fn advance(&mut self, time: Duration) {
        self.node.manual().advance(time);
        for core in &self.cores {
            core.clock.tick();
            let now = core.clock.monotonic();
            if core.executor.first_deadline().is_some_and(|first| first <= now) {
                core.executor.end_late(now);
            }
        }
    }

    /// Takes what would be sent to the client; hands it to `read`.
    #[inline]
    pub fn sent<R>(&mut self, client: ClientId, read: impl FnOnce(&[u8]) -> R) -> R {
        let writer = &mut self.clients[client.0].writer;
        writer.seal();
        let bytes = writer.unsent().len();
        if bytes == writer.waiting_bytes() {
            let result = read(writer.unsent());
            writer.sent(bytes);
            return result;
        }
        let mut chunks = Vec::new();
        while !writer.unsent().is_empty() {
            chunks.extend_from_slice(writer.unsent());
            writer.sent(writer.unsent().len());
            writer.seal();
        }
        read(&chunks)
    }

    /// Writes the memtables of every core to sstables.
    pub fn flush(&mut self) {
        for shard in self.node.shards() {
            let shard = shard.clone();
            let done = Rc::new(std::cell::Cell::new(false));
            let flushed = done.clone();
            shard.runtime().clone().spawn(shard::Group::Flush, async move {
                shard.flush_here().await.expect("the disk has no faults");
                flushed.set(true);
            });
            while !done.get() {
                self.node.manual().run_ready();
            }
        }
    }
}

/// A frame with a negative stream answers nothing.
fn is_event(frame: &[u8]) -> bool {
    frame[2] & 0x80 != 0
}

fn settings(guardrails: &Arc<Guardrails>) -> Settings {
    let batch = BatchThresholds::default();
    Settings {
        shard_aware_port: None,
        prepared_bytes_max: PREPARED_BYTES_MAX,
        batch,
        tombstones: TombstoneThresholds { failure: TOMBSTONES_MAX, ..Default::default() },
        timeouts: Timeouts { read: LONG, range: LONG, write: LONG, cas_contention: LONG },
        auto_snapshot: true,
        auto_snapshot_ttl: None,
        functions_enabled: true,
        drop_compact_storage: true,
        sasi_indexes: true,
        guardrails: guardrails.clone(),
        all: Vec::new(),
    }
}

fn about(host_id: uuid::Uuid, clock: &Clock) -> Node {
    Node {
        host_id,
        cluster_name: "manual".to_owned(),
        data_center: "datacenter1".to_owned(),
        rack: "rack1".to_owned(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 9042,
        started_s: clock.wall_s() as i32,
    }
}

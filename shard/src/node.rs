//! Starting and stopping all cores of the process.
//!
//! ```text
//! main thread     core 0                       core 1 ..
//! start ────────► boot: lock, layout, schema
//!       ◄──────── booted
//!       ───────────────────────────────────────► open its engine
//!       ◄──────── ready ◄──────────────────────── ready           start returns
//! stop  ────────► (every pass sees `stopping`, finishes, flushes)
//!       ◄──────── stopped ◄────────────────────── stopped
//! ```
//!
//! The first error anywhere ends the start. Executors are never torn down: after the last `stopped`
//! the process ends with [`exit`](crate::os::cpus::exit).

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use engine::io::Disk;
use engine::{Engine, Error};
use model::Schema;

use crate::boot::{Booted, Home, boot, measure_space, open_engine, random_seed};
use crate::clock::{Clock, Clocks};
use crate::device;
use crate::groups::Group;
use crate::idle::Idle;
use crate::limits::{JOB_WAIT, sstables_open_max};
use crate::mailbox::{Bell, Port, mesh, ring_slots};
use crate::notify::Notify;
use crate::os::cpus;
use crate::os::epoll::Poller;
use crate::owner::{ShardId, Sharder};
use crate::peers::Mail;
use crate::protocol::Protocol;
use crate::runtime::{CoreConfig, Runtime, launch};
use crate::shard::{Parts, Shard};
use crate::timestamps::{self, keep_noting};

/// The shards, memory, log and directory of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The number of shards.
    pub shards: usize,
    /// Processors to bind them to, in order; a shard without one goes where the system puts it.
    pub cpus: Vec<usize>,
    /// The data directory, absolute; it exists.
    pub data_dir: PathBuf,
    /// Memory for the data of one shard.
    pub shard_memory_bytes: usize,
    /// How the commit logs are kept. The seed is replaced by one for each log.
    pub log: engine::commitlog::Config,
    /// Bytes of the disk kept aside for when it is full; 0 for none.
    pub reserve_bytes: u64,
    /// What compactions may go through in a second, all shards together, in bytes; 0 for no limit.
    pub compaction_throughput_bytes: u64,
    /// How long a core looks for work before it sleeps.
    pub idle_spin: Duration,
    /// The tables that are built in.
    pub base: Arc<Schema>,
    /// How conditional writes add to values.
    pub sum: engine::Sum,
    /// The wall clock at the start, microseconds since 1970.
    pub wall_us: i64,
}

/// Why a node did not start.
#[derive(Debug)]
pub enum StartError {
    /// A thread or an executor could not start.
    Runtime(std::io::Error),
    /// The data directory could not be opened.
    Data(Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Runtime(error) => error.fmt(f),
            StartError::Data(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

enum Report {
    Booted(Booted),
    Ready,
    Failed(StartError),
    Stopped,
}

/// What all cores share: nothing that is touched on a hot path but one flag.
struct Shared {
    config: NodeConfig,
    stopping: AtomicBool,
    /// The cores that have answered their clients, so that they give no timestamp any more.
    over: AtomicUsize,
    /// The timestamps that the cores gave.
    clocks: Arc<Clocks>,
    /// The cores that have opened their shards.
    opened: AtomicUsize,
    /// The newest timestamp in the data of these, in microseconds.
    newest_us: AtomicI64,
    report: mpsc::Sender<Report>,
}

/// One core that is about to open its shard.
pub struct Core<P: Protocol> {
    runtime: Runtime,
    port: Port<Mail<P>>,
    booted: Option<Booted>,
    shared: Arc<Shared>,
}

/// What a core's main gets when its shard is open.
pub struct Opened<P: Protocol> {
    /// The shard of this core.
    pub shard: Rc<Shard<P>>,
    /// The data directory.
    pub booted: Booted,
    /// The clock of this core: it gives timestamps above what was given before the start.
    pub clock: Rc<Clock>,
    /// Asked once a pass.
    pub stopping: Stopping<P>,
    bells: Arc<[Bell]>,
}

impl<P: Protocol> Opened<P> {
    /// Tells [`start`] that this core has all it needs beside its shard. Call it once: while a core neither does nor
    /// fails, the start waits.
    pub fn tell_ready(&self) {
        // Without a receiver the start has failed on another core.
        let _ = self.stopping.shared.report.send(Report::Ready);
    }

    /// This core's sleep, which the sockets in `poller`, mail and the shard's tasks end.
    pub fn idle(&self, poller: &Poller) -> std::io::Result<Idle> {
        let shard = &self.shard;
        let spin = self.stopping.shared.config.idle_spin;
        Idle::new(shard.runtime(), (self.bells.clone(), shard.me()), poller, shard.wake(), spin)
    }
}

/// Whether the node is to stop, and how this core does.
pub struct Stopping<P: Protocol> {
    shared: Arc<Shared>,
    shard: Rc<Shard<P>>,
    /// On the first core.
    home: Option<Rc<Home>>,
}

impl<P: Protocol> Clone for Stopping<P> {
    fn clone(&self) -> Self {
        let Stopping { shared, shard, home } = self;
        Stopping { shared: shared.clone(), shard: shard.clone(), home: home.clone() }
    }
}

impl<P: Protocol> Stopping<P> {
    /// Whether it is. The core's bell rings when it becomes so.
    pub fn is_asked(&self) -> bool {
        self.shared.stopping.load(Ordering::Relaxed)
    }

    /// This core has answered its clients and gives no timestamp any more: flushes, and tells the node. The core must
    /// go on serving its mail until the process ends. Call it once.
    pub fn done(&self) {
        let Stopping { shared, shard, home } = self.clone();
        shared.over.fetch_add(1, Ordering::Release);
        self.shard.runtime().spawn(Group::Flush, async move {
            if let Err(error) = shard.flush_here().await {
                tracing::warn!(shard = %shard.me(), %error, "not flushed: the next start replays");
            }
            if let Some(home) = home {
                while shared.over.load(Ordering::Acquire) < shared.config.shards {
                    shard.runtime().sleep(JOB_WAIT).await;
                }
                let left = loop {
                    match home.leave(shared.clocks.given_us()).await {
                        Some(left) => break left,
                        None => shard.runtime().sleep(JOB_WAIT).await,
                    }
                };
                if let Err(error) = left {
                    tracing::warn!(%error, "the layout does not say which timestamps were given");
                }
            }
            // The receiver lives as long as the process waits for us.
            let _ = shared.report.send(Report::Stopped);
        });
    }
}

impl<P: Protocol> Core<P> {
    /// The executor it runs on.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The id of this core's shard.
    pub fn me(&self) -> ShardId {
        self.port.outbox.me()
    }

    /// Opens the shard: on the first core after the data directory as a whole. `None` when that
    /// failed, which [`start`] has been told.
    pub async fn open(self) -> Option<Opened<P>> {
        let report = self.shared.report.clone();
        match self.try_open().await {
            Ok(opened) => Some(opened),
            Err(error) => {
                // Without a receiver the start has failed on another core.
                let _ = report.send(Report::Failed(StartError::Data(error)));
                None
            }
        }
    }

    async fn try_open(self) -> engine::Result<Opened<P>> {
        let Core { runtime, port, booted, shared } = self;
        let (config, me) = (&shared.config, port.outbox.me());
        let disk = Disk::at(&config.data_dir).await?;
        if let (Disk::Dma(disk), Ok(descriptors)) = (&disk, cpus::descriptors()) {
            disk.set_files_max(sstables_open_max(descriptors, config.shards));
        }
        let (booted, home, schema_log) = match booted {
            Some(booted) => (booted, None, None),
            None => {
                let (mut booted, home, schema_log) = boot(&disk, config, &random_seed).await?;
                booted.device = device::limits(&disk).await;
                let _ = shared.report.send(Report::Booted(booted.clone()));
                (booted, Some(Rc::new(home)), Some(schema_log))
            }
        };
        disk.limit_in_flight(device::share(booted.device, config.shards));
        let schema = booted.schema.clone();
        tracing::info!(shard = %me, "replaying the log");
        let engine = open_engine(&disk, config, &booted, me, random_seed()).await?;
        let clock = Rc::new(Clock::of(shared.clocks.clone(), me.index()));
        clock.at_least(floor_us(&runtime, &shared, &booted, &engine).await);
        measure_space(&engine, config, me).await;
        let bells = port.outbox.bells().clone();
        let shard = Shard::new(Parts {
            runtime,
            engine,
            sharder: Sharder::new(config.shards),
            schema,
            schema_log,
            port,
            mail_slots: ring_slots(config.shards),
            reserve_bytes: config.reserve_bytes,
            throughput: booted.throughput.clone(),
            wake: Arc::new(Notify::new()),
        });
        shard.keep_views(clock.clone());
        if let Some(home) = &home {
            let background = shard.background.clone();
            let keep = async move { background.keep_reserve().await };
            shard.runtime().spawn(Group::Background, keep);
            let noting = keep_noting(shard.runtime().clone(), shared.clocks.clone(), home.clone());
            shard.runtime().spawn(Group::Background, noting);
        }
        let stopping = Stopping { shared, shard: shard.clone(), home };
        Ok(Opened { shard, booted, clock, stopping, bells })
    }
}

/// Waits until all cores know the newest timestamp in their data; what every core gives lies above the result.
async fn floor_us(runtime: &Runtime, shared: &Shared, booted: &Booted, engine: &Engine) -> i64 {
    shared.newest_us.fetch_max(engine.newest_timestamp_us(), Ordering::Relaxed);
    shared.opened.fetch_add(1, Ordering::Release);
    // If a shard cannot be opened the start fails, and the process ends.
    while shared.opened.load(Ordering::Acquire) < shared.config.shards {
        runtime.sleep(JOB_WAIT).await;
    }
    timestamps::floor_us(booted.noted_us, shared.newest_us.load(Ordering::Relaxed))
}

/// A running node.
pub struct Node {
    booted: Booted,
    bells: Arc<[Bell]>,
    shared: Arc<Shared>,
    reports: mpsc::Receiver<Report>,
}

/// Starts every core with `main`, and returns when all have opened their shards and said that they are ready.
pub fn start<P, M, F>(config: NodeConfig, main: M) -> Result<Node, StartError>
where
    P: Protocol,
    M: Fn(Core<P>) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    let ports = mesh::<Mail<P>>(config.shards).map_err(StartError::Runtime)?;
    let bells = ports[0].outbox.bells().clone();
    let (report, reports) = mpsc::channel();
    let clocks = Clocks::new(config.shards);
    let shared = Arc::new(Shared {
        config,
        stopping: AtomicBool::new(false),
        over: AtomicUsize::new(0),
        clocks,
        opened: AtomicUsize::new(0),
        newest_us: AtomicI64::new(i64::MIN),
        report,
    });
    let mut booted = None;
    for port in ports {
        let index = port.outbox.me().index();
        let core =
            CoreConfig::new(format!("shard-{index}"), shared.config.cpus.get(index).copied());
        let (main, shared, told) = (main.clone(), shared.clone(), booted.clone());
        let reporter = shared.report.clone();
        let thread =
            launch(core, move |runtime| main(Core { runtime, port, booted: told, shared }));
        let thread = thread.map_err(StartError::Runtime)?;
        // An executor that cannot start says so by ending its thread, and so does a core that panics.
        std::thread::spawn(move || {
            let ended = thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a panic")));
            if let Err(error) = ended {
                let _ = reporter.send(Report::Failed(StartError::Runtime(error)));
            }
        });
        if booted.is_none() {
            booted = Some(wait_for_boot(&reports)?);
        }
    }
    let booted = booted.expect("there is a first core");
    let node = Node { booted, bells, shared, reports };
    node.wait_for_all(|report| matches!(report, Report::Ready))?;
    Ok(node)
}

fn wait_for_boot(reports: &mpsc::Receiver<Report>) -> Result<Booted, StartError> {
    match reports.recv().expect("we hold a sender ourselves") {
        Report::Booted(booted) => Ok(booted),
        Report::Failed(error) => Err(error),
        Report::Ready | Report::Stopped => unreachable!("the first core boots first"),
    }
}

impl Node {
    /// What was found in, or made of, the data directory.
    pub fn booted(&self) -> &Booted {
        &self.booted
    }

    /// Asks every core to stop, and returns when all have finished and flushed.
    pub fn stop(&self) -> Result<(), StartError> {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.bells.iter().for_each(Bell::ring);
        self.wait_for_all(|report| matches!(report, Report::Stopped))
    }

    fn wait_for_all(&self, is_it: impl Fn(&Report) -> bool) -> Result<(), StartError> {
        let mut left = self.shared.config.shards;
        while left > 0 {
            match self.reports.recv().expect("we hold a sender ourselves") {
                Report::Failed(error) => return Err(error),
                report => left -= usize::from(is_it(&report)),
            }
        }
        Ok(())
    }
}

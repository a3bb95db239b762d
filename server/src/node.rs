//! The process as a whole: cores are started, serve, and stop.
//!
//! ```text
//! configuration ─► checks ─► bind ports ─► start cores (each opens its shard) ─► let connections in
//!      ─► banner, `ready` ─► (a signal) ─► cores finish and flush ─► exit
//! ```
//!
//! Ports are bound before any data is touched, so that a taken port is told at once, and opened
//! only when every shard is ready: no client is let in to wait.

use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use engine::{RowLimits, commitlog};
use shard::Group;
use shard::clock::Clock;
use shard::node::{Core, NodeConfig, StartError, start};
use shard::notify::Notify;
use shard::os::cpus;
use shard::os::epoll::{Interest, Poller};

use crate::admin;
use crate::answers::Answers;
use crate::banner::{self, Banner};
use crate::checks;
use crate::config::{Config, SyncMode};
use crate::execute::snapshots::keep_expiring;
use crate::execute::{Executor, NodeState, Peering, Settings, sum};
use crate::guardrails::{Guardrails, is_setting};
use crate::limits::{ENGINE_MEMORY_PERCENT, PREPARED_MEMORY_DIVISOR, ROW_MEMORY_DIVISOR};
use crate::listen::{Listeners, ShardListeners, steering_works};
use crate::pass::{ADMIN_KEY, Pass, PassConfig};
use crate::seal::Seal;
use crate::signals::Signals;
use crate::system::{self, Node};
use crate::transport::Transport;

/// Starts the server and serves until it is told to stop.
pub(crate) fn run(config: &Config) -> Result<(), String> {
    let mut signals = Signals::register().map_err(|error| format!("signals: {error}"))?;
    let works = steering_works(config.listen, config.shards);
    let aware_port = config.shard_aware_port.filter(|_| works);
    let listeners = Listeners::bind(config, aware_port)?;
    let shard_listeners = listeners.for_shards().map_err(|error| format!("listeners: {error}"))?;
    let plan = Arc::new(Plan {
        config: config.clone(),
        guardrails: Arc::new(Guardrails::new(&config.guardrails)),
        transport: Arc::default(),
        answers: Answers::of_cores(config.shards, config.shard_memory_bytes()),
        aware_port,
        shard_listeners: takeable(shard_listeners),
    });
    let node_config = node_config(config)?;
    let node = start(node_config, move |core| serve(core, plan.clone())).map_err(explain)?;
    listeners.open().map_err(|error| format!("listeners: {error}"))?;
    banner::show(&Banner { config, aware_port });
    signals.wait().map_err(|error| format!("signals: {error}"))?;
    banner::tell_stopping();
    tracing::info!("stopping: what is in flight is answered, then memory is flushed");
    node.stop().map_err(explain)?;
    admin::remove(&config.data_dir);
    Ok(())
}

fn explain(error: StartError) -> String {
    match error {
        StartError::Runtime(error) => checks::explain_runtime(&error),
        StartError::Data(error) => format!("cannot open the data: {error}"),
    }
}

/// The configuration that all cores share, and the listeners that each takes at its start.
struct Plan {
    config: Config,
    guardrails: Arc<Guardrails>,
    transport: Arc<Transport>,
    /// The memory of the answers of each core.
    answers: Arc<[Arc<Answers>]>,
    /// The shard-aware port, if it is open.
    aware_port: Option<u16>,
    /// Each core takes its own, once, at its start.
    shard_listeners: Mutex<Vec<Option<ShardListeners>>>,
}

fn takeable(shard_listeners: Vec<ShardListeners>) -> Mutex<Vec<Option<ShardListeners>>> {
    Mutex::new(shard_listeners.into_iter().map(Some).collect())
}

fn node_config(config: &Config) -> Result<NodeConfig, String> {
    std::fs::create_dir_all(&config.data_dir)
        .and_then(|()| config.data_dir.canonicalize())
        .map(|data_dir| NodeConfig {
            shards: config.shards,
            // More shards than processors take turns: better spread by the kernel than bound.
            cpus: cpus::usable().ok().filter(|c| c.len() >= config.shards).unwrap_or_default(),
            data_dir,
            shard_memory_bytes: (config.shard_memory_bytes() * ENGINE_MEMORY_PERCENT / 100)
                as usize,
            log: log_config(config),
            reserve_bytes: engine::reserve::bytes_for(config.shards),
            compaction_throughput_bytes: config.compaction_throughput_bytes,
            idle_spin: shard::limits::IDLE_SPIN_DEFAULT,
            base: Arc::new(system::base_schema()),
            sum,
            wall_us: Clock::new().wall_us(),
        })
        .map_err(|error| format!("{}: {error}", config.data_dir.display()))
}

fn log_config(config: &Config) -> commitlog::Config {
    let sync = match config.commitlog_sync {
        SyncMode::Batch => commitlog::SyncMode::Batch,
        SyncMode::Periodic => commitlog::SyncMode::Periodic,
    };
    let segment_bytes = config.commitlog_segment_bytes as u32;
    commitlog::Config { segment_bytes, sync, ..commitlog::Config::new(0) }
}

/// One core, from its start to its end.
async fn serve(core: Core<Peering>, plan: Arc<Plan>) {
    #[cfg(feature = "planted")]
    crate::planted::plant();
    let me = core.me();
    let own = plan.shard_listeners.lock().expect("no code panics with it")[me.index()].take();
    let listeners = own.expect("each core starts once");
    let runtime = core.runtime().clone();
    let Some(opened) = core.open().await else { return };
    let clock = opened.clock.clone();
    let poller = Poller::new().expect("an epoll set can be made where a server has started");
    let admin_arrivals = Rc::new(Notify::new());
    if me.index() == 0 {
        let served = admin::serve(
            &plan.config.data_dir,
            &opened.shard,
            (plan.guardrails.clone(), plan.transport.clone()),
            admin_arrivals.clone(),
        )
        .and_then(|listener| poller.add(listener.as_fd(), ADMIN_KEY, Interest::Read));
        if let Err(error) = served {
            tracing::warn!("no admin socket, so messina-admin finds no server: {error}");
        }
        let expiring = keep_expiring(opened.shard.clone(), clock.clone());
        runtime.spawn(Group::Background, expiring);
    }
    let node = node_of(&plan.config, opened.booted.layout.host_id, &clock);
    let seal = Seal::new(&opened.booted.layout.secret);
    let state = NodeState::new(node, seal, settings(&plan), clock.clone());
    let memory_bytes = plan.config.shard_memory_bytes();
    opened.shard.engine().set_row_limits(row_limits(memory_bytes));
    let executor = Executor::new(opened.shard.clone(), state, plan.answers.clone());
    let idle = opened.idle(&poller).expect("an eventfd can be read");
    let (stopping, done) = (opened.stopping.clone(), opened.stopping.clone());
    let config = PassConfig {
        listeners,
        stop_asked: Box::new(move || stopping.is_asked()),
        on_over: Box::new(move || done.done()),
        transport: plan.transport.clone(),
        admin_arrivals,
        connections_max: plan.config.connections_max.div_ceil(plan.config.shards),
        memory_bytes: plan.config.shard_memory_bytes(),
        answers: plan.answers[me.index()].clone(),
        stalls: runtime.stalls().clone(),
    };
    let pass = Pass::new(executor, clock, poller, config);
    let mut pass = pass.expect("listeners can be added to a fresh epoll set");
    runtime.spawn(Group::Background, async move {
        // Before clients are let in, so that none sees a part of a batch; the passes of all cores run meanwhile.
        opened.shard.send_batches_again(opened.clock.wall_s()).await;
        opened.tell_ready();
        if me.index() == 0 {
            opened.shard.clone().build_views(opened.booted.layout.host_id).await;
        }
    });
    pass.run(&runtime, &idle).await
}

/// The limits of one row on a shard with so much memory.
fn row_limits(memory_bytes: u64) -> RowLimits {
    let default = RowLimits::default();
    RowLimits { bytes_max: default.bytes_max.min(memory_bytes / ROW_MEMORY_DIVISOR), ..default }
}

fn settings(plan: &Plan) -> Settings {
    let config = &plan.config;
    let all = config.to_string();
    let pair = |line: &str| line.split_once(": ").map(|(n, v)| (n.to_owned(), v.to_owned()));
    Settings {
        shard_aware_port: plan.aware_port,
        prepared_bytes_max: (config.shard_memory_bytes() / PREPARED_MEMORY_DIVISOR) as usize,
        batch: config.batch,
        timeouts: config.timeouts,
        auto_snapshot: config.auto_snapshot,
        auto_snapshot_ttl: config.auto_snapshot_ttl,
        functions_enabled: config.functions_enabled,
        drop_compact_storage: config.drop_compact_storage,
        sasi_indexes: config.sasi_indexes,
        guardrails: plan.guardrails.clone(),
        tombstones: config.tombstones,
        // Those of guardrails may change, and are shown as they are.
        all: all.lines().filter_map(pair).filter(|(name, _)| !is_setting(name)).collect(),
    }
}

fn node_of(config: &Config, host_id: uuid::Uuid, clock: &Clock) -> Node {
    Node {
        host_id,
        cluster_name: config.cluster_name.clone(),
        data_center: config.data_center.clone(),
        rack: config.rack.clone(),
        address: config.broadcast_address,
        port: config.port,
        started_s: clock.wall_s() as i32,
    }
}

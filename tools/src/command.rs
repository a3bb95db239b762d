//! What each sub-command does: flags to plans, plans to a run, the run to a report.
//!
//! 1. A sub-command (`command/load.rs`, `command/work.rs`, `command/prove.rs`) checks its flags and makes a `Job`.
//! 2. `Server::find` asks the server for its version and its shards.
//! 3. `Job::run` deals connections and operations to the threads, makes a workload for each of them, and runs them.
//! 4. The report goes to the terminal, and as JSON or as a page where that is wanted. `report` makes a page of several
//!    such files.
//!
//! Invariants
//! 1. `Ok(true)` means that all was done and nothing was wrong. What ended a run early is returned as an error only if
//!    lost connections are all else that went wrong: `Error::Lost` never hides a broken promise.
//! 2. The connections of a thread reach the shards in turn, so that each thread can reach as many shards as it has
//!    connections.
//! 3. The first SIGINT or SIGTERM ends a run with its report, the second ends the process.
//!
//! Not here: the flags (`flags.rs`), the threads (`client/run.rs`), exit statuses (`tools/src/bin/load.rs`).

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cql::frame::client::Reply;

use crate::client::handshake::Target;
use crate::client::pace::Pace;
use crate::client::recorder::CONNECTION_LOST;
use crate::client::run::{Span, run};
use crate::client::topology::Topology;
use crate::client::worker::Plan;
use crate::console::{Console, Goal, say};
use crate::error::{Error, Result};
use crate::flags::{ClientFlags, CompressionName, Flags, OutputFlags, ReportFlags, Verb};
use crate::journal::Journal;
use crate::limits::STREAMS_MAX;
use crate::measure::cpu::Usage;
use crate::report::data::{RunReport, Setting};
use crate::report::page::page;
use crate::report::summary::summary;
use crate::report::units::grouped;
use crate::workload::Workload;

mod customers;
mod load;
mod prove;
mod scenario;
mod work;

/// The port of CQL, where none is named.
const PORT: u16 = 9042;

/// Does what the flags say; true if all went well.
pub fn execute(flags: Flags) -> Result<bool> {
    match flags.verb {
        Verb::Load(flags) => load::load(&flags),
        Verb::Run(flags) => work::work(&flags),
        Verb::Verify(flags) => prove::prove(&flags),
        Verb::Report(flags) => report(&flags),
    }
}

fn report(flags: &ReportFlags) -> Result<bool> {
    let runs: Vec<RunReport> =
        flags.runs.iter().map(|path| RunReport::read(path)).collect::<Result<_>>()?;
    write_page(&flags.html, &runs)?;
    Ok(true)
}

fn write_page(path: &std::path::Path, runs: &[RunReport]) -> Result<()> {
    std::fs::write(path, page(runs)).map_err(Error::io(format!("writing {}", path.display())))
}

/// The server as it was found.
struct Server {
    target: Target,
    topology: Topology,
    words: String,
}

impl Server {
    /// Looks the server up and greets it once.
    fn find(flags: &ClientFlags) -> Result<Server> {
        let address = resolve(&flags.host)?;
        let target = Target {
            address,
            version: flags.version(),
            compression: flags.compression()?,
            credentials: flags.user.clone().zip(flags.password.clone()),
            timeout: flags.timeout,
            shard_aware: !flags.no_shard_aware,
            consistency: flags.consistency,
        };
        let mut opened = target.open()?;
        let found = opened.topology;
        let version = target.query(
            &mut opened.link,
            "SELECT release_version FROM system.local",
            |answer| match answer {
                Reply::Rows(rows) => {
                    let cell = rows.cells().next().and_then(|cell| cell.ok().flatten());
                    Ok(String::from_utf8_lossy(cell.unwrap_or(b"?")).into_owned())
                }
                _ => Ok("?".to_owned()),
            },
        )?;
        let shards =
            if found.shards > 1 { format!(", {} shards", found.shards) } else { String::new() };
        let words = format!("{address}, release {version}{shards}");
        let topology = if target.shard_aware { found } else { Topology::NONE };
        Ok(Server { target, topology, words })
    }

    /// Runs statements that change the schema.
    fn change_schema(&self, statements: &[String]) -> Result<()> {
        let mut patient = self.target.clone();
        patient.timeout = patient.timeout.max(Duration::from_secs(60));
        let mut link = patient.open()?.link;
        statements.iter().try_for_each(|text| patient.query(&mut link, text, |_| Ok(())))
    }
}

fn resolve(host: &str) -> Result<SocketAddr> {
    let wrong = |why: String| Error::Invalid(format!("--host {host}: {why}"));
    let found = host.to_socket_addrs().or_else(|_| (host, PORT).to_socket_addrs());
    let mut addresses = found.map_err(|error| wrong(error.to_string()))?;
    addresses.next().ok_or_else(|| wrong("no address".into()))
}

/// A run, ready but for its threads' workloads.
struct Job<'a> {
    client: &'a ClientFlags,
    output: &'a OutputFlags,
    server: Server,
    title: String,
    workload: String,
    rate: Option<f64>,
    operations: Option<u64>,
    warmup: Duration,
    duration: Option<Duration>,
    verified: bool,
    goal: Goal,
    journal: Option<Journal>,
}

impl Job<'_> {
    /// Runs one workload per thread, made by `workload` from the thread's number; reports.
    fn run(self, mut workload: impl FnMut(usize) -> Result<Workload>) -> Result<bool> {
        check_pid(self.client.server_pid)?;
        let stop = Arc::new(AtomicBool::new(false));
        stop_on_signals(&stop)?;
        let threads = usize::from(self.client.threads);
        let shares = deal_connections(self.client, &self.server.topology)?;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut console = Console::new(&self.title, self.goal, self.output.quiet);
        let warmup_s = self.warmup.as_secs() as u32;
        let deadline_ns = self
            .duration
            .map(|duration| (Duration::from_secs(warmup_s.into()) + duration).as_nanos() as u64);
        let is_open_loop = self.rate.is_some();
        let server_pid = self.client.server_pid;
        let span = Span { warmup_s, deadline_ns, is_open_loop, server_pid };
        let plan = |reports: std::sync::mpsc::Sender<_>| {
            let mut plans = Vec::with_capacity(threads);
            for (thread, shards) in shares.into_iter().enumerate() {
                plans.push(Plan {
                    target: self.server.target.clone(),
                    topology: self.server.topology,
                    shards,
                    in_flight: usize::from(self.client.in_flight),
                    workload: workload(thread)?,
                    journal: self.journal.as_ref().map(Journal::try_clone).transpose()?,
                    pace: match self.rate {
                        None => Pace::Closed,
                        Some(rate) => Pace::open(rate, thread, threads)?,
                    },
                    operations_max: self.operations.map(|all| share(all, thread, threads)),
                    deadline_ns,
                    timeout_ns: self.client.timeout.as_nanos() as u64,
                    patience_ns: self.client.reconnect.map(|time| time.as_nanos() as u64),
                    core: core_of(self.client, thread),
                    thread: (thread, threads),
                    stop: stop.clone(),
                    reports: reports.clone(),
                });
            }
            Ok(plans)
        };
        let outcome = run(span, plan, |point, total| console.second(point, total));
        console.done();
        let outcome = outcome?;
        let setting = Setting {
            title: self.title,
            workload: self.workload,
            load: load_in_words(self.client, self.rate),
            server: self.server.words,
            rate_offered: self.rate,
            warmup_s,
            verified: self.verified,
            started_s: started.as_secs(),
        };
        let report = RunReport::new(setting, &outcome);
        say(&summary(&report))?;
        if let Some(path) = &self.output.json {
            report.write(path)?;
        }
        if let Some(path) = &self.output.html {
            write_page(path, std::slice::from_ref(&report))?;
        }
        let clean = report.is_clean() && !tell_if_cut_short(self.goal, outcome.drawn, &stop)?;
        // A server that went away explains lost operations and nothing else.
        let only_lost = report.violations.is_empty()
            && report.errors.iter().all(|error| error.name == CONNECTION_LOST);
        match outcome.cause {
            Some(cause) if only_lost => Err(cause),
            _ => Ok(clean),
        }
    }
}

/// Tells whether a run has begun fewer operations than it was to do, on the console and here.
fn tell_if_cut_short(goal: Goal, drawn: u64, stop: &AtomicBool) -> Result<bool> {
    let Goal::Operations(all) = goal else { return Ok(false) };
    if drawn >= all {
        return Ok(false);
    }
    let by =
        if stop.load(Ordering::Relaxed) { " by a signal: run it again to do the rest" } else { "" };
    say(&format!("ended early{by}: {} of {} operations\n", grouped(drawn), grouped(all)))?;
    Ok(true)
}

/// Refuses a process of the server that is not there: its CPU would be told as unknown.
fn check_pid(pid: Option<u32>) -> Result<()> {
    match pid {
        Some(pid) if Usage::of(pid).is_none() => {
            Err(Error::Invalid(format!("--server-pid {pid}: there is no such process")))
        }
        _ => Ok(()),
    }
}

/// The first SIGINT or SIGTERM ends the run early, with its report; the second ends the process.
fn stop_on_signals(stop: &Arc<AtomicBool>) -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(Error::io("listening for signals"))?;
    }
    Ok(())
}

/// The shards of each thread's connections: connections go round the threads and the shards.
fn deal_connections(client: &ClientFlags, topology: &Topology) -> Result<Vec<Vec<u32>>> {
    let threads = usize::from(client.threads);
    let connections = usize::from(client.connections);
    if connections < threads {
        return Err(Error::Invalid("--connections must be at least --threads".into()));
    }
    if !client.cores.is_empty() && client.cores.len() < threads {
        return Err(Error::Invalid("--cores must name a core for each thread".into()));
    }
    assert!(usize::from(client.in_flight) < STREAMS_MAX, "the flag has this limit");
    let mut shares = vec![Vec::new(); threads];
    for connection in 0..connections {
        let turn = (connection / threads) as u32;
        shares[connection % threads].push(turn % topology.shards);
    }
    Ok(shares)
}

fn core_of(client: &ClientFlags, thread: usize) -> Option<usize> {
    client.cores.get(thread).copied()
}

/// Thread `thread`'s part of `all`.
fn share(all: u64, thread: usize, threads: usize) -> u64 {
    let (all, thread, threads) = (u128::from(all), thread as u128, threads as u128);
    (all * (thread + 1) / threads - all * thread / threads) as u64
}

fn load_in_words(client: &ClientFlags, rate: Option<f64>) -> String {
    let pace = match rate {
        None => "closed loop".to_owned(),
        Some(rate) => format!("open loop at {rate} a second"),
    };
    let squeezed = match client.compression {
        CompressionName::None => "",
        CompressionName::Lz4 => " with lz4",
        CompressionName::Snappy => " with snappy",
    };
    let aware = if client.no_shard_aware { ", not shard-aware" } else { "" };
    format!(
        "{pace}, {} connections × {} in flight, {} client thread{}, protocol v{}{squeezed}{aware}, {}",
        client.connections,
        client.in_flight,
        client.threads,
        if client.threads == 1 { "" } else { "s" },
        client.protocol,
        client.consistency.name(),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn client(extra: &[&str]) -> ClientFlags {
        let all = ["messina-load", "run"].iter().chain(extra);
        match Flags::parse_from(all).verb {
            Verb::Run(flags) => flags.client,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_thread_reaches_every_shard() {
        let topology = Topology { shards: 3, ..Topology::NONE };
        let flags = client(&["--threads", "2", "--connections", "7"]);
        let shares = deal_connections(&flags, &topology).unwrap();
        assert_eq!(shares, [vec![0, 1, 2, 0], vec![0, 1, 2]]);
        let flags = client(&["--threads", "2", "--connections", "1"]);
        assert!(deal_connections(&flags, &topology).is_err());
    }

    #[test]
    fn shares_add_up() {
        for (all, threads) in [(10, 3), (1, 4), (1000, 1), (u64::MAX, 7)] {
            assert_eq!((0..threads).map(|t| share(all, t, threads)).sum::<u64>(), all);
        }
    }

    #[test]
    fn a_host_may_lack_its_port() {
        assert_eq!(resolve("127.0.0.1").unwrap(), "127.0.0.1:9042".parse().unwrap());
        assert_eq!(resolve("127.0.0.1:19042").unwrap().port(), 19042);
        assert!(resolve("127.0.0.1:x").is_err());
    }
}

//! A whole run: the threads, their seconds put together, and the CPU it took.
//!
//! ```text
//! thread 0 ─ Interval of second 0, 1, 2, .. ─┐
//! thread 1 ─ Interval of second 0, 1, 2, .. ─┴─► Gathering: a second of all threads is closed ─► Point, total
//! ```
//!
//! 1. Open the connections of all threads. Only then the clock of the run begins: otherwise what is due at a rate would
//!    wait for connections.
//! 2. Start the threads, and take their seconds until all have ended.
//! 3. Take the CPU used at the end of the warm-up, and at the deadline or when the last thread has ended.
//! 4. Wait until the clock has reached the last sequence number: a write with an older timestamp would lose in the next
//!    run.
//!
//! Invariants
//! 1. Seconds of the warm-up are shown and not counted, but for errors, repetitions, violations and what was proved:
//!    answers are judged then, too.
//! 2. In a closed loop the seconds after the deadline are not counted. In an open loop they are: what ends in them was
//!    due before.
//!
//! Not here: what a thread does (`client/worker.rs`), what a second holds (`measure/interval.rs`), the report
//! (`report/data.rs`).

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pace::Clock;
use super::worker::{Plan, Report, Worker};
use crate::error::{Error, Result};
use crate::measure::cpu::Usage;
use crate::measure::interval::{Interval, Kind, failure_count};

const SECOND_NS: u64 = 1_000_000_000;
/// How often the clock is looked at between two reports.
const TICK: Duration = Duration::from_millis(10);

/// What happened in one second of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The second since the run began.
    pub second: u32,
    /// Operations by kind, in the order of `Kind::ALL`.
    pub operations: [u64; Kind::ALL.len()],
    /// Operations in all.
    pub total: u64,
    /// Latencies in µs.
    pub p50_us: f64,
    /// The 99th percentile latency.
    pub p99_us: f64,
    /// The highest latency.
    pub max_us: f64,
    /// Operations that failed for good.
    pub errors: u64,
    /// Attempts that were repeated.
    pub retries: u64,
    /// Number of promises that the server broke.
    pub violations: u64,
}

/// When to measure.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Whole seconds at the start that are shown but not counted.
    pub warmup_s: u32,
    /// The end, if it is known.
    pub deadline_ns: Option<u64>,
    /// Whether operations come at a rate: then each that was due before the end counts, whenever it is answered.
    pub is_open_loop: bool,
    /// The server's process, if it is on this machine.
    pub server_pid: Option<u32>,
}

/// A run, measured.
#[derive(Debug)]
pub struct Outcome {
    /// All that was counted; errors and violations include the warm-up.
    pub total: Interval,
    /// Second by second, warm-up included.
    pub points: Vec<Point>,
    /// How long was counted.
    pub seconds: f64,
    /// Operations that were drawn and not dropped before they were sent.
    pub drawn: u64,
    /// Operations that were due and never sent.
    pub behind: u64,
    /// What this process used while it was counted.
    pub client: Usage,
    /// What the server used.
    pub server: Option<Usage>,
    /// Why the run ended before its time.
    pub cause: Option<Error>,
}

/// Runs all `plans`, made by `plan` from where a thread reports to; calls `watch` every second. An error, before
/// anything is sent, if a connection cannot be opened.
pub fn run(
    span: Span,
    plan: impl FnOnce(Sender<Report>) -> Result<Vec<Plan>>,
    mut watch: impl FnMut(&Point, &Interval),
) -> Result<Outcome> {
    let (reports, inbox) = channel();
    let workers = side_by_side(plan(reports)?, Worker::new, || ())?;
    let clock = Clock::start();
    let mut gathering = Gathering::new(workers.len(), span, clock);
    let gather = || gathering.gather(&inbox, &mut watch);
    side_by_side(workers, |worker| worker.run(clock), gather)?;
    Ok(gathering.finish(&mut watch))
}

/// Does `each` for all of `inputs`, on a thread for each of them, and `beside` on this one. Returns what came of `each`, in
/// the order of the inputs, or the first error.
fn side_by_side<I: Send, O: Send>(
    inputs: Vec<I>,
    each: impl Fn(I) -> Result<O> + Sync,
    beside: impl FnOnce(),
) -> Result<Vec<O>> {
    thread::scope(|scope| {
        let each = &each;
        let spawn = |input| scope.spawn(move || each(input));
        let handles: Vec<_> = inputs.into_iter().map(spawn).collect();
        beside();
        // All are joined before the first error is returned: a scope panics if one that panicked was left to it.
        let ended: Vec<_> = handles.into_iter().map(|handle| handle.join()).collect();
        let panicked = |_| Error::Invalid("a client thread panicked".into());
        ended.into_iter().map(|end| end.map_err(panicked)?).collect()
    })
}

/// The seconds of all threads, put together.
struct Gathering {
    span: Span,
    clock: Clock,
    threads: usize,
    open: BTreeMap<u32, (usize, Interval)>,
    total: Interval,
    points: Vec<Point>,
    drawn: u64,
    behind: u64,
    cause: Option<Error>,
    started: Option<Moment>,
    stopped: Option<Moment>,
    last_sequence: u64,
}

/// The CPU used up to a moment.
#[derive(Clone, Copy)]
struct Moment {
    at_ns: u64,
    client: Usage,
    server: Option<Usage>,
}

impl Gathering {
    fn new(threads: usize, span: Span, clock: Clock) -> Gathering {
        Gathering {
            span,
            clock,
            threads,
            open: BTreeMap::new(),
            total: Interval::new(0),
            points: Vec::new(),
            drawn: 0,
            behind: 0,
            cause: None,
            started: None,
            stopped: None,
            last_sequence: 0,
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            at_ns: self.clock.now().elapsed_ns,
            client: Usage::of_self(),
            server: self.span.server_pid.and_then(Usage::of),
        }
    }

    /// Until every thread has hung up.
    fn gather(&mut self, inbox: &Receiver<Report>, watch: &mut impl FnMut(&Point, &Interval)) {
        let warm_ns = u64::from(self.span.warmup_s) * SECOND_NS;
        let mut finished = 0;
        loop {
            let now_ns = self.clock.now().elapsed_ns;
            if self.started.is_none() && now_ns >= warm_ns {
                self.started = Some(self.moment());
            }
            if self.stopped.is_none() && self.span.deadline_ns.is_some_and(|end| now_ns >= end) {
                self.stopped = Some(self.moment());
            }
            match inbox.recv_timeout(TICK) {
                Ok(Report::Second(interval)) => self.add(&interval, watch),
                Ok(Report::Finished { drawn, behind, last_sequence, cause }) => {
                    self.drawn += drawn;
                    self.behind += behind;
                    self.last_sequence = self.last_sequence.max(last_sequence);
                    self.cause = self.cause.take().or(cause);
                    finished += 1;
                    if finished == self.threads && self.stopped.is_none() {
                        self.stopped = Some(self.moment());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn add(&mut self, interval: &Interval, watch: &mut impl FnMut(&Point, &Interval)) {
        let (threads, together) =
            self.open.entry(interval.second).or_insert_with(|| (0, Interval::new(interval.second)));
        together.merge(interval);
        *threads += 1;
        while let Some(first) = self.open.first_entry() {
            if first.get().0 < self.threads {
                return;
            }
            let (_, interval) = first.remove();
            self.close(&interval, watch);
        }
    }

    /// A second is complete.
    fn close(&mut self, interval: &Interval, watch: &mut impl FnMut(&Point, &Interval)) {
        let end_s = self.span.deadline_ns.map_or(u32::MAX, |ns| ns.div_ceil(SECOND_NS) as u32);
        let is_in_time = interval.second < end_s || self.span.is_open_loop;
        if interval.second >= self.span.warmup_s && is_in_time {
            self.total.merge(interval);
        } else {
            self.total.merge_failures(interval);
        }
        let latencies = interval.all_latencies();
        let micros = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1000.0;
        let point = Point {
            second: interval.second,
            operations: Kind::ALL.map(|kind| interval.count(kind)),
            total: interval.operations(),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            max_us: micros(1.0),
            errors: failure_count(&interval.errors),
            retries: failure_count(&interval.retries),
            violations: failure_count(&interval.violations),
        };
        if interval.second < end_s {
            watch(&point, &self.total);
            self.points.push(point);
        }
    }

    fn finish(mut self, watch: &mut impl FnMut(&Point, &Interval)) -> Outcome {
        // Threads end at different moments: the last seconds lack some of them.
        for (_, (_, interval)) in std::mem::take(&mut self.open) {
            self.close(&interval, watch);
        }
        let stopped = self.stopped.unwrap_or_else(|| self.moment());
        let started = self.started.unwrap_or(stopped);
        let server = stopped.server.zip(started.server);
        self.wait_for_clock();
        Outcome {
            total: self.total,
            points: self.points,
            seconds: (stopped.at_ns.saturating_sub(started.at_ns)) as f64 / 1e9,
            drawn: self.drawn,
            behind: self.behind,
            client: stopped.client.since(&started.client),
            server: server.map(|(stopped, started)| stopped.since(&started)),
            cause: self.cause,
        }
    }

    /// Writes whose numbers ran ahead of the clock must not win over those of a later run.
    fn wait_for_clock(&self) {
        let ahead_us = self.last_sequence.saturating_sub(self.clock.now().wall_us);
        thread::sleep(Duration::from_micros(ahead_us));
    }
}

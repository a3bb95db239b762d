//! Who may issue to the device next, and how much of what no client waits for is with it at a time.
//!
//! ```text
//! commit ──────────────────────────► with the device
//! read ────────────────────────────► with the device          at once, as long as the ring has a place
//! flush, compaction, check ─► queue ─► fair by shares ─► with the device    one, while commits or reads come
//! read ahead ───────────────► queue ─────────────────► with the device      within a limit of its own
//! ```
//!
//! 1. A request asks for its turn and either has it at once or is given it by [`Schedule::next`] when another ends.
//! 2. Jobs (flush, compaction, check) have one request with the device while commits or reads come: these find at most
//!    one request of bounded size before them. After [`QUIET_REQUESTS`] requests of jobs without a commit or a read, as
//!    many as the device takes within its goal for latency ([`InFlightLimits`]).
//! 3. Among queues that wait, the one goes next that has had the least for its shares (start-time fair queueing, Goyal,
//!    Vin and Cheng 1996; Seastar's `fair_queue` does the same). One that was idle begins level with the others.
//!
//! Invariants: no clock and no randomness, so the simulator runs the same; what was begun is ended exactly once; while
//! a queue is not empty, something that will end is with the device: each end asks for the next.
//!
//! Not here: what a request does (`ring.rs`, `sim.rs`), how many requests the device takes (who sets
//! [`InFlightLimits`] has measured it).

use std::collections::VecDeque;

use super::class::IoClass;
use crate::limits::{JOB_REQUESTS_BESIDE_OTHERS, QUIET_REQUESTS, RING_OPERATIONS_MAX};

/// What a request costs beside its bytes, in bytes: a device that does 100,000 requests a second and 1.6 GB/s.
const REQUEST_COST_BYTES: u64 = 16 << 10;

/// The virtual time of a byte at one share.
const BYTE_TIME: u64 = 1 << 10;

/// How many requests of one shard are with the device at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightLimits {
    /// Of jobs, while there are no commits and no reads.
    pub jobs: usize,
    /// Of reading ahead.
    pub ahead: usize,
}

impl Default for InFlightLimits {
    /// For a device that was not measured.
    fn default() -> Self {
        InFlightLimits { jobs: 2, ahead: 4 }
    }
}

/// What the requests of a class were, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Requests that began.
    pub requests: u64,
    /// How many bytes these have.
    pub bytes: u64,
    /// Of those requests, the ones that waited for their turn.
    pub waited: u64,
    /// Requests of jobs that were with the device when one of this class began, in all.
    pub jobs_before: u64,
    /// The same, the most that one found.
    pub jobs_before_max: u64,
}

/// A request that waits for its turn.
#[derive(Debug)]
struct Waiting<K> {
    key: K,
    bytes: u64,
}

/// The requests of one class.
#[derive(Debug)]
struct Queue<K> {
    waiting: VecDeque<Waiting<K>>,
    shares: u64,
    /// What it has had, for its shares.
    had: u64,
    /// How many are with the device.
    begun: usize,
    counts: ClassCounts,
}

/// The turns of one shard's requests. `K` is what its owner knows a request by.
#[derive(Debug)]
pub(super) struct Schedule<K> {
    queues: [Queue<K>; IoClass::ALL.len()],
    limits: InFlightLimits,
    /// Requests with the device.
    begun: usize,
    /// What the last one to go had had before it: where a queue begins that was idle.
    level: u64,
    /// Requests of jobs that ended since the last commit or read began.
    quiet: u32,
}

impl<K: Copy + PartialEq> Schedule<K> {
    pub(super) fn new() -> Schedule<K> {
        let queue = |class: IoClass| {
            let shares = class.shares() as u64;
            Queue {
                waiting: VecDeque::new(),
                shares,
                had: 0,
                begun: 0,
                counts: ClassCounts::default(),
            }
        };
        let queues = IoClass::ALL.map(queue);
        let limits = InFlightLimits::default();
        Schedule { queues, limits, begun: 0, level: 0, quiet: 0 }
    }

    /// From now on these limits.
    pub(super) fn limit(&mut self, limits: InFlightLimits) {
        assert!(limits.jobs > 0 && limits.ahead > 0, "what waits for its turn must have one");
        self.limits = limits;
    }

    /// From now on this weight.
    pub(super) fn weigh(&mut self, class: IoClass, shares: usize) {
        self.queues[class as usize].shares = shares.max(1) as u64;
    }

    /// Asks for the turn of a request of so many bytes: `true` if it begins now, or else [`next`](Self::next) will name
    /// its key.
    #[must_use]
    pub(super) fn ask(&mut self, class: IoClass, bytes: u64, key: K) -> bool {
        let queue = &mut self.queues[class as usize];
        if queue.waiting.is_empty() {
            queue.had = queue.had.max(self.level);
            if self.may_start(class) {
                self.begin(class, bytes);
                return true;
            }
        }
        self.queues[class as usize].waiting.push_back(Waiting { key, bytes });
        self.queues[class as usize].counts.waited += 1;
        false
    }

    /// A request that began has ended. Call [`next`](Self::next) until it gives nothing.
    pub(super) fn ended(&mut self, class: IoClass) {
        let queue = &mut self.queues[class as usize];
        assert!(queue.begun > 0, "what ends has begun");
        queue.begun -= 1;
        self.begun -= 1;
        if class.is_job() {
            self.quiet = self.quiet.saturating_add(1);
        }
    }

    /// The request that begins now, if one may.
    pub(super) fn next(&mut self) -> Option<K> {
        let may = |class: &IoClass| {
            !self.queues[*class as usize].waiting.is_empty() && self.may_start(*class)
        };
        let first = IoClass::ALL.into_iter().filter(may);
        // Commits, then reads, then the one that has had the least.
        let class = first.min_by_key(|class| (class.rank(), self.queues[*class as usize].had))?;
        let waiting = self.queues[class as usize].waiting.pop_front();
        let Waiting { key, bytes } = waiting.expect("it has one that waits");
        self.begin(class, bytes);
        Some(key)
    }

    /// Forgets a request that waits; whether it was waiting.
    pub(super) fn forget(&mut self, class: IoClass, key: K) -> bool {
        let waiting = &mut self.queues[class as usize].waiting;
        let at = waiting.iter().position(|other| other.key == key);
        at.and_then(|at| waiting.remove(at)).is_some()
    }

    /// The requests of each class so far.
    pub(super) fn counts(&self) -> [ClassCounts; IoClass::ALL.len()] {
        IoClass::ALL.map(|class| self.queues[class as usize].counts)
    }

    /// How many requests of this class are with the device.
    pub(super) fn begun_of(&self, class: IoClass) -> usize {
        self.queues[class as usize].begun
    }

    /// How many requests of this class wait for their turn.
    #[cfg(test)]
    pub(super) fn waiting_of(&self, class: IoClass) -> usize {
        self.queues[class as usize].waiting.len()
    }

    fn may_start(&self, class: IoClass) -> bool {
        let in_ring = self.begun < RING_OPERATIONS_MAX;
        in_ring
            && match class {
                IoClass::Commit | IoClass::Read => true,
                IoClass::Ahead => self.begun_of(class) < self.limits.ahead,
                IoClass::Flush | IoClass::Compaction | IoClass::Check => {
                    self.jobs_begun() < self.jobs_max()
                }
            }
    }

    fn jobs_begun(&self) -> usize {
        IoClass::ALL.into_iter().filter(|class| class.is_job()).map(|c| self.begun_of(c)).sum()
    }

    fn jobs_max(&self) -> usize {
        let others = self.begun_of(IoClass::Commit) + self.begun_of(IoClass::Read);
        match others == 0 && self.quiet >= QUIET_REQUESTS {
            true => self.limits.jobs,
            false => JOB_REQUESTS_BESIDE_OTHERS.min(self.limits.jobs),
        }
    }

    fn begin(&mut self, class: IoClass, bytes: u64) {
        let jobs_before = self.jobs_begun() as u64;
        self.begun += 1;
        let queue = &mut self.queues[class as usize];
        queue.begun += 1;
        queue.counts.requests += 1;
        queue.counts.bytes += bytes;
        queue.counts.jobs_before += jobs_before;
        queue.counts.jobs_before_max = queue.counts.jobs_before_max.max(jobs_before);
        match class {
            IoClass::Commit | IoClass::Read => self.quiet = 0,
            _ => {
                self.level = self.level.max(queue.had);
                queue.had += (bytes + REQUEST_COST_BYTES) * BYTE_TIME / queue.shares;
            }
        }
    }
}

#[cfg(test)]
mod tests;

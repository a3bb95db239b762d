//! A rate limit for compaction (`compaction_throughput`): one token bucket for all shards of a node, in bytes a second.
//!
//! ```text
//! a merge has read and written bytes ─► requested + bytes: its position ─► granted, but for a burst of 0.1 s? go on
//! time passes ────────────────────────► granted + the limit, at most what was requested     else wait and check again
//! ```
//!
//! 1. A merge takes its bytes first and waits after that: the bucket may be overdrawn by one step of each merge. Bytes
//!    are granted in the order of the requests, whichever shard made them: no merge overtakes another for ever.
//! 2. A merge checks again after 100 ms at the latest, so another limit holds for what waits, too, and what need not
//!    wait any more does not.
//! 3. Time in which nothing is requested is lost: what was not used cannot be used later.
//!
//! Not here: who requests (`engine/src/compaction/adoption.rs`), how compactions share core and device (`groups.rs`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::{Pace, Wait};

use crate::runtime::Runtime;

/// A merge waits at most this long before it checks whether it may go on.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The shortest wait: a timer is good for no less.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// At most 1/10 of the bytes of a second are gone through at once.
const BURST_DIVISOR: u64 = 10;
const US_PER_S: u128 = 1_000_000;

/// The limit that the shards of a node share. A clone is the same one.
#[derive(Clone, Debug)]
pub struct CompactionThroughput(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Bytes a second; 0 for no limit.
    limit_bytes: AtomicU64,
    bucket: Mutex<Bucket>,
    start: Instant,
}

/// What merges have requested, and what time has granted.
#[derive(Debug, Default)]
struct Bucket {
    /// All bytes that were gone through while there was a limit.
    requested_bytes: u64,
    /// How many of them are granted.
    granted_bytes: u64,
    /// Up to when time has granted bytes, in microseconds since the start.
    refilled_us: u64,
}

impl Bucket {
    /// Grants what the time up to `now_us` allows.
    fn refill(&mut self, now_us: u64, limit_bytes: u64) {
        let passed_us = now_us.saturating_sub(self.refilled_us);
        let granted = u128::from(passed_us) * u128::from(limit_bytes) / US_PER_S;
        // A part of a byte is not lost: its time counts at the next refill.
        if granted > 0 {
            let granted = u64::try_from(granted).unwrap_or(u64::MAX);
            self.granted_bytes =
                self.granted_bytes.saturating_add(granted).min(self.requested_bytes);
            self.refilled_us = now_us;
        }
    }
}

impl CompactionThroughput {
    /// Bytes a second; 0 for no limit.
    pub fn new(limit_bytes: u64) -> CompactionThroughput {
        let (limit_bytes, bucket) = (AtomicU64::new(limit_bytes), Mutex::default());
        CompactionThroughput(Arc::new(Shared { limit_bytes, bucket, start: Instant::now() }))
    }

    /// Bytes a second; 0 for no limit.
    pub fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes.load(Ordering::Relaxed)
    }

    /// Another limit, from now on, also for what waits.
    pub fn set_limit_bytes(&self, bytes: u64) {
        self.0.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes were gone through by this time, in microseconds since the start: their position in the order of requests.
    fn charge(&self, bytes: u64, now_us: u64) -> u64 {
        let mut bucket = self.0.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.refill(now_us, self.limit_bytes());
        bucket.requested_bytes = bucket.requested_bytes.saturating_add(bytes);
        bucket.requested_bytes
    }

    /// How long what has this position still waits, at a time in microseconds since the start; `None` if it may go on.
    fn wait(&self, position: u64, now_us: u64) -> Option<Duration> {
        let limit_bytes = self.limit_bytes();
        let mut bucket = self.0.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if limit_bytes == 0 {
            bucket.granted_bytes = bucket.requested_bytes;
            bucket.refilled_us = now_us;
            return None;
        }
        bucket.refill(now_us, limit_bytes);
        let over_bytes = position.saturating_sub(bucket.granted_bytes);
        let over_bytes = over_bytes.saturating_sub(limit_bytes / BURST_DIVISOR);
        if over_bytes == 0 {
            return None;
        }
        let us = u128::from(over_bytes) * US_PER_S / u128::from(limit_bytes);
        let wait = Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX));
        Some(wait.clamp(WAIT_MIN, RECHECK_INTERVAL))
    }
}

/// The limit as one shard keeps to it.
#[derive(Clone)]
pub(crate) struct Paced {
    throughput: CompactionThroughput,
    runtime: Runtime,
}

impl Paced {
    /// Merges of the shard with this runtime keep to the limit.
    pub(crate) fn new(throughput: CompactionThroughput, runtime: Runtime) -> Paced {
        Paced { throughput, runtime }
    }

    fn now_us(&self) -> u64 {
        let passed = self.runtime.since(self.throughput.0.start);
        u64::try_from(passed.as_micros()).unwrap_or(u64::MAX)
    }
}

impl std::fmt::Debug for Paced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.throughput.fmt(f)
    }
}

impl Pace for Paced {
    fn charge<'p>(&'p self, bytes: u64, is_needless: &'p dyn Fn() -> bool) -> Option<Wait<'p>> {
        let throughput = &self.throughput;
        if throughput.limit_bytes() == 0 {
            return None;
        }
        let now_us = self.now_us();
        let position = throughput.charge(bytes, now_us);
        let mut wait = throughput.wait(position, now_us)?;
        Some(Box::pin(async move {
            while !is_needless() {
                self.runtime.sleep(wait).await;
                let Some(next) = throughput.wait(position, self.now_us()) else { break };
                wait = next;
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::groups::Group;
    use crate::manual::Manual;

    const MIB: u64 = 1 << 20;
    const STEP_BYTES: u64 = 64 << 10;

    /// A node whose time is moved by hand.
    struct World {
        manual: Rc<Manual>,
        throughput: CompactionThroughput,
    }

    impl World {
        fn new(limit_bytes: u64) -> World {
            World { manual: Manual::new(0), throughput: CompactionThroughput::new(limit_bytes) }
        }

        /// A merge of a shard, in steps; how many bytes it has gone through, and whether its table was dropped.
        fn merge(&self, steps: u64) -> Rc<(Cell<u64>, Cell<bool>)> {
            let runtime = Runtime::manual(self.manual.clone());
            let pace = Paced::new(self.throughput.clone(), runtime.clone());
            let seen = Rc::new((Cell::new(0), Cell::new(false)));
            let told = seen.clone();
            runtime.spawn(Group::Compaction, async move {
                for _ in 0..steps {
                    told.0.set(told.0.get() + STEP_BYTES);
                    if let Some(wait) = pace.charge(STEP_BYTES, &|| told.1.get()) {
                        wait.await;
                    }
                }
            });
            seen
        }

        fn pass(&self, ms: u64) {
            for _ in 0..ms {
                while self.manual.run_ready() {}
                self.manual.advance(Duration::from_millis(1));
            }
            while self.manual.run_ready() {}
        }
    }

    #[test]
    fn shards_go_through_the_bytes_of_the_limit_and_each_has_its_part() {
        let world = World::new(4 * MIB);
        // Idle time is not saved up.
        world.pass(1000);
        let merges = [(); 4].map(|()| world.merge(u64::MAX));
        world.pass(10_000);
        let bytes = merges.each_ref().map(|merge| merge.0.get());
        let (sum, most) = (bytes.iter().sum::<u64>(), 40 * MIB + 4 * MIB / BURST_DIVISOR);
        // Each of them has gone through the step with which it waits.
        assert!((40 * MIB..=most + 4 * STEP_BYTES).contains(&sum), "{bytes:?}");
        let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
        assert!(most - least <= 2 * 4 * MIB / BURST_DIVISOR, "{bytes:?}");
    }

    #[test]
    fn another_limit_holds_for_what_waits() {
        let world = World::new(1);
        let merge = world.merge(4 * MIB / STEP_BYTES);
        world.pass(1000);
        assert_eq!(merge.0.get(), STEP_BYTES, "it would wait for most of a day");
        world.throughput.set_limit_bytes(MIB);
        world.pass(2000);
        assert!((MIB..3 * MIB).contains(&merge.0.get()), "{} bytes", merge.0.get());
        world.throughput.set_limit_bytes(0);
        world.pass(RECHECK_INTERVAL.as_millis() as u64);
        assert_eq!(merge.0.get(), 4 * MIB, "no limit");
    }

    #[test]
    fn no_limit_leaves_no_debt_and_keeps_nothing_waiting() {
        let world = World::new(0);
        let merge = world.merge(1000);
        world.pass(0);
        assert_eq!(merge.0.get(), 1000 * STEP_BYTES);
        world.throughput.set_limit_bytes(MIB);
        let merge = world.merge(1);
        world.pass(0);
        assert_eq!(merge.0.get(), STEP_BYTES);
        let pace = Paced::new(world.throughput.clone(), Runtime::manual(world.manual.clone()));
        assert!(pace.charge(1, &|| false).is_none(), "within a tenth of a second");
    }

    #[test]
    fn a_merge_of_a_table_that_was_dropped_does_not_wait() {
        let world = World::new(1);
        let merge = world.merge(10);
        world.pass(1000);
        assert_eq!(merge.0.get(), STEP_BYTES);
        merge.1.set(true);
        world.pass(RECHECK_INTERVAL.as_millis() as u64);
        assert_eq!(merge.0.get(), 10 * STEP_BYTES);
    }
}

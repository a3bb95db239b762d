//! Every bound of this crate, with the relations between them.

use std::time::Duration;

/// Shards of one process.
pub const SHARDS_MAX: usize = 1024;

/// Mail slots a core can receive into, over all its peers: bounds the mesh's memory as cores grow.
pub const MAILBOX_SLOTS_PER_CORE: usize = 16 * 1024;
/// Slots of one ring at least: a burst of one pass.
pub const MAILBOX_SLOTS_MIN: usize = 64;
/// Slots of one ring at most.
pub const MAILBOX_SLOTS_MAX: usize = 4096;

/// How long a core looks for work before it sleeps. Longer spins turn into the latency of whoever
/// shares the core.
pub const IDLE_SPIN_DEFAULT: Duration = Duration::from_micros(100);

/// How often a long task is asked to let others run. A switch costs about 20 µs in a virtual
/// machine; much shorter than this and the switching itself is the load.
pub const PREEMPT_TIMER_DEFAULT: Duration = Duration::from_millis(1);

/// How often at most a busy core turns to its rings while I/O is in flight. It costs about 6 µs, a
/// commit 80 µs.
pub const REAP_INTERVAL: Duration = Duration::from_micros(40);

/// Entries of a core's rings.
pub const RING_DEPTH: usize = 512;
/// What the rings of one executor must be able to lock in memory.
pub const MEMLOCK_BYTES_MIN: u64 = 512 * 1024;

/// Descriptors one poll reports.
pub const POLL_EVENTS_MAX: usize = 1024;

const _: () = assert!(SHARDS_MAX <= u16::MAX as usize, "a shard's number is sixteen bits");
const _: () = assert!(MAILBOX_SLOTS_MIN.is_power_of_two());
const _: () = assert!(MAILBOX_SLOTS_MAX.is_power_of_two());
const _: () = assert!(MAILBOX_SLOTS_MIN <= MAILBOX_SLOTS_MAX);

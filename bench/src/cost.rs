//! The cost of one operation inside one shard, counted: instructions and allocations.
//!
//! ```text
//! cost ──► for each path:  itself, counting allocations        (a counting allocator)
//!                          itself under callgrind, counting instructions of `measured_region` alone
//! ```
//!
//! Counts do not depend on the machine's load, and instructions repeat to a tenth of a percent. The
//! shard stands on the simulated disk: what a log write costs the simulator is left out of the
//! instructions, and what it costs the kernel is in the comparison through the socket instead.

pub mod allocations;
pub mod callgrind;
pub mod frame;
pub mod path;
pub mod shard;

use std::hint::black_box;

/// Everything that is counted runs in here; callgrind finds it by its name.
#[inline(never)]
pub fn measured_region<R>(run: impl FnOnce() -> R) -> R {
    black_box(run())
}

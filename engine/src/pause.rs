//! How reads and jobs pause: what they await after each quantum of work, so that other tasks may have the core.
//!
//! Each caller gives a closure of its own type. Inside the engine it is passed on as a `&dyn Pause`: otherwise reads,
//! flushes and merges would be compiled for each of these types. The server had 22 copies of the read path, one for
//! each pair of a sink and a pause.
//!
//! The price is one allocation a pause. A read pauses after 32 rows or 32 KiB (`READ_QUANTUM_ROWS`,
//! `READ_QUANTUM_BYTES`) and after a row that costs its sink much, a job after 16 KiB (`JOB_STEP_BYTES`), a write that
//! reads first after each mutation and condition.

use std::future::Future;
use std::pin::Pin;

/// The pause of a read or a job, as its caller wants it: every `AsyncFn()` is one.
pub trait Pause {
    /// Ends when the work may go on, which is at once while the caller's slice lasts.
    fn take(&self) -> Pin<Box<dyn Future<Output = ()> + '_>>;
}

impl<F: AsyncFn()> Pause for F {
    fn take(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move { self().await })
    }
}

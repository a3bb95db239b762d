//! How a read pauses: what it awaits after each quantum of work, so that other tasks may have the core.
//!
//! Each caller gives a closure of its own type to a public function. Below that a read passes it on as a `&dyn Pause`;
//! otherwise the whole read path would be compiled for each pair of a sink and a pause (22 copies in the server).
//! The price is one allocation a pause: after 32 rows or 32 KiB (`READ_QUANTUM_ROWS`, `READ_QUANTUM_BYTES`), after a row
//! that costs its sink much, and after 1,024 blocks that are looked at.

use std::future::Future;
use std::pin::Pin;

/// The pause of one read, as its caller wants it: every `AsyncFn()` is one.
pub(crate) trait Pause {
    /// Ends when the read may go on, which is at once while the caller's slice lasts.
    fn take(&self) -> Pin<Box<dyn Future<Output = ()> + '_>>;
}

impl<F: AsyncFn()> Pause for F {
    fn take(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move { self().await })
    }
}

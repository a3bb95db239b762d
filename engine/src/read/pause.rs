//! What a read awaits now and then, so that others may have the core.
//!
//! Callers pause each in their own way. Behind [`Pause`] it is one type, and so a read is compiled once and not for each
//! of its callers: a program took twice as long to build. The allocation is one for each quantum of rows.

use std::future::Future;
use std::pin::Pin;

/// How a caller pauses.
pub(crate) trait Pause {
    /// Awaits what the caller has given as its pause.
    fn pause(&self) -> Pin<Box<dyn Future<Output = ()> + '_>>;
}

impl<F: AsyncFn()> Pause for F {
    fn pause(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move { self().await })
    }
}

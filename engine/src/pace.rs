//! How fast merges may go: each step's bytes are charged to the shard's rate limit, which makes the merge wait.
//!
//! The engine has no clock, so its owner paces. Not here: how the device is shared (`io/schedule.rs`).

use std::fmt::Debug;
use std::pin::Pin;
use std::rc::Rc;

use crate::engine::Engine;

/// Ends when a merge may go on.
pub type Wait<'p> = Pin<Box<dyn Future<Output = ()> + 'p>>;

/// Keeps merges to a number of bytes a second.
pub trait Pace: Debug {
    /// A merge has gone through this many bytes: how it waits until it may go on, or `None` if it may at once. It holds
    /// no lock while it waits, and waits no longer when `is_needless` says so.
    fn charge<'p>(&'p self, bytes: u64, is_needless: &'p dyn Fn() -> bool) -> Option<Wait<'p>>;
}

impl Engine {
    /// Merges go as fast as `pace` lets them; to be said once.
    pub fn pace_merges(&self, pace: Rc<dyn Pace>) {
        self.pace.set(pace).expect("one pace for a shard");
    }
}

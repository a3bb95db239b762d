//! The native transport of the node: whether clients are let in.
//!
//! `messina-admin disablebinary` stops it. Each core looks once a pass: while it is stopped who comes is turned away, and
//! the connections that are there end, each once what it has asked is answered. The admin socket stays open.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether clients are let in; all cores have one together.
#[derive(Debug)]
pub(crate) struct Transport(AtomicBool);

/// What the native transport does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportState {
    /// Clients are let in.
    Running,
    /// Clients are turned away.
    Stopped,
}

impl Default for Transport {
    /// One that runs.
    fn default() -> Transport {
        Transport(AtomicBool::new(true))
    }
}

impl Transport {
    /// Whether clients are let in now.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Starts or stops it, on all cores from their next pass on.
    pub(crate) fn set(&self, state: TransportState) {
        self.0.store(state == TransportState::Running, Ordering::Release);
    }
}

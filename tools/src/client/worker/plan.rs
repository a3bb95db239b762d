//! What one client thread is told at its start, and what it reports back.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

use crate::client::handshake::Target;
use crate::client::pace::Pace;
use crate::client::topology::Topology;
use crate::error::Error;
use crate::journal::Journal;
use crate::measure::interval::Interval;
use crate::workload::Workload;

/// The task of one client thread.
#[derive(Debug)]
pub struct Plan {
    /// The server to connect to.
    pub target: Target,
    /// The shards of the server, as it told them.
    pub topology: Topology,
    /// For each connection the shard it should be on, from 0.
    pub shards: Vec<u32>,
    /// Requests that one connection carries at a time.
    pub in_flight: usize,
    /// The operations, and the judge of their answers.
    pub workload: Workload,
    /// Where acknowledged writes are noted, if anywhere.
    pub journal: Option<Journal>,
    /// When operations are sent.
    pub pace: Pace,
    /// Operations to draw at most; `None` for as many as there are.
    pub operations_max: Option<u64>,
    /// When drawing stops, in ns since the start of the run; `None` for no end.
    pub deadline_ns: Option<u64>,
    /// How long one operation may take, in ns.
    pub timeout_ns: u64,
    /// How long to try again when the server is gone, in ns; `None` ends the run at once.
    pub patience_ns: Option<u64>,
    /// The processor core to run on; `None` leaves that to the system.
    pub core: Option<usize>,
    /// The number of this thread, from 0, and how many threads there are.
    pub thread: (usize, usize),
    /// Set when the run is to end early.
    pub stop: Arc<AtomicBool>,
    /// Where reports are sent.
    pub reports: Sender<Report>,
}

/// A message from a client thread to the run.
#[derive(Debug)]
pub enum Report {
    /// A second is over: what happened in it.
    Second(Box<Interval>),
    /// The thread has ended.
    Finished {
        /// Operations that were drawn and not dropped before they were sent.
        drawn: u64,
        /// Operations that were due and never sent.
        behind: u64,
        /// The sequence number of its last write.
        last_sequence: u64,
        /// Why it ended before its time, if it did.
        cause: Option<Error>,
    },
}

//! How long requests may take, and how many tombstones a read may pass: the settings of Cassandra that name it.

use std::time::Duration;

use model::read::Partitions;

use crate::limits::{
    CAS_CONTENTION_TIMEOUT, RANGE_REQUEST_TIMEOUT, READ_REQUEST_TIMEOUT,
    TOMBSTONE_FAILURE_THRESHOLD, TOMBSTONE_WARN_THRESHOLD, WRITE_REQUEST_TIMEOUT,
};

/// The time that each kind of request may take, unless its statement says another by `USING TIMEOUT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// A read of partitions that are named: `read_request_timeout`.
    pub(crate) read: Duration,
    /// A read of a range of partitions: `range_request_timeout`.
    pub(crate) range: Duration,
    /// A write: `write_request_timeout`.
    pub(crate) write: Duration,
    /// A conditional write: `cas_contention_timeout`.
    pub(crate) cas_contention: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            read: READ_REQUEST_TIMEOUT,
            range: RANGE_REQUEST_TIMEOUT,
            write: WRITE_REQUEST_TIMEOUT,
            cas_contention: CAS_CONTENTION_TIMEOUT,
        }
    }
}

impl Timeouts {
    /// The time that a read of these partitions may take.
    pub(crate) fn of_read(&self, partitions: &Partitions) -> Duration {
        match partitions {
            Partitions::Keys(_) => self.read,
            Partitions::Range(_) => self.range,
        }
    }
}

/// From when on a page of a read is warned of, and ends, for the tombstones that it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TombstoneThresholds {
    /// More than so many are told to the client: `tombstone_warn_threshold`.
    pub(crate) warn: u64,
    /// More than so many end the read: `tombstone_failure_threshold`.
    pub(crate) failure: u64,
}

impl Default for TombstoneThresholds {
    fn default() -> TombstoneThresholds {
        TombstoneThresholds { warn: TOMBSTONE_WARN_THRESHOLD, failure: TOMBSTONE_FAILURE_THRESHOLD }
    }
}

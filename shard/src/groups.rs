//! The scheduling groups of a core: what competes for its time, and with what weight.
//!
//! Each group is a task queue of the executor. A queue that was idle starts level with the others,
//! and among the runnable ones time is dealt in proportion to shares. Groups that compute for long
//! also stop by themselves (`yielder.rs`), since a task is only ever taken off the core by its own yield.
//! Compaction weighs more the further it is behind, so that it catches up before writers have to be slowed for long.

use engine::limits::BACKLOG_RUNS_MAX;

/// The scheduling group of a task: what it works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The pass, and reads that wait for the disk.
    Requests,
    /// Group commit: everyone who writes waits for it.
    Log,
    /// Memtables to sstables: memory and log space wait for it.
    Flush,
    /// Merging sstables in the background.
    Compaction,
    /// Scans of whole ranges and copies of data.
    Streaming,
    /// The rest: statistics, schema, housekeeping.
    Background,
}

impl Group {
    /// All groups, in the order of their discriminants.
    pub const ALL: [Group; 6] = [
        Group::Requests,
        Group::Log,
        Group::Flush,
        Group::Compaction,
        Group::Streaming,
        Group::Background,
    ];

    /// The group's name, in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Requests => "requests",
            Group::Log => "log",
            Group::Flush => "flush",
            Group::Compaction => "compaction",
            Group::Streaming => "streaming",
            Group::Background => "background",
        }
    }

    /// The weight it starts with.
    pub const fn shares(self) -> usize {
        match self {
            Group::Requests | Group::Log => 1000,
            Group::Flush => 400,
            Group::Streaming => 200,
            Group::Compaction | Group::Background => 100,
        }
    }
}

/// The weight of compaction when so many runs of a table wait to be merged: that of requests when they are
/// [`BACKLOG_RUNS_MAX`].
pub(crate) fn compaction_shares(backlog_runs: usize) -> usize {
    let (least, most) = (Group::Compaction.shares(), Group::Requests.shares());
    least + (most - least) * backlog_runs.min(BACKLOG_RUNS_MAX) / BACKLOG_RUNS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_weighs_more_the_further_it_is_behind() {
        let shares: Vec<usize> = (0..=BACKLOG_RUNS_MAX + 1).map(compaction_shares).collect();
        assert_eq!((shares[0], shares[BACKLOG_RUNS_MAX]), (100, 1000));
        assert!(shares.windows(2).all(|pair| pair[0] <= pair[1]), "{shares:?}");
        assert_eq!(shares[BACKLOG_RUNS_MAX + 1], 1000);
    }
}

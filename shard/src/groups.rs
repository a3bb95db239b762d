//! The scheduling groups of a core: what competes for its time, and with what weight.
//!
//! Each group is a task queue of the executor. A queue that was idle starts level with the others,
//! and among the runnable ones time is dealt in proportion to shares. Groups that compute for long
//! also stop by themselves (`yielder.rs`), since a task is only ever taken off the core by its own yield.
//! Compaction weighs more the further it is behind, so that it catches up before writers have to be slowed for long,
//! and more beside writes than beside reads: writes make the work that it does.

use engine::limits::BACKLOG_RUNS_SLOW;

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
            Group::Streaming | Group::Background => 200,
            Group::Compaction => 100,
        }
    }
}

/// The weight of compaction when so many runs of a table wait to be merged, and `write_part` of what was served were
/// writes (0 to 1).
///
/// It is that of requests from [`BACKLOG_RUNS_SLOW`] on, where writers begin to be slowed. Until there it rises evenly
/// beside writes alone: compaction has to keep up with them. Beside reads alone there is no hurry, and it rises with
/// the third power.
pub(crate) fn compaction_shares(backlog_runs: usize, write_part: f64) -> usize {
    let (least, most) = (Group::Compaction.shares() as f64, Group::Requests.shares() as f64);
    let behind = (backlog_runs as f64 / BACKLOG_RUNS_SLOW as f64).min(1.0);
    let part = write_part * behind + (1.0 - write_part) * behind.powi(3);
    (least + (most - least) * part) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_weighs_more_the_further_it_is_behind() {
        for write_part in [0.0, 0.1, 0.5, 1.0] {
            let of = |runs| compaction_shares(runs, write_part);
            let shares: Vec<usize> = (0..=BACKLOG_RUNS_SLOW + 1).map(of).collect();
            assert_eq!((shares[0], shares[BACKLOG_RUNS_SLOW]), (100, 1000));
            assert!(shares.windows(2).all(|pair| pair[0] <= pair[1]), "{shares:?}");
            assert_eq!(shares[BACKLOG_RUNS_SLOW + 1], 1000);
        }
    }

    #[test]
    fn compaction_weighs_more_beside_writes_than_beside_reads() {
        let of = |write_part| compaction_shares(BACKLOG_RUNS_SLOW / 2, write_part);
        assert_eq!((of(0.0), of(0.5), of(1.0)), (212, 381, 550));
        for runs in 0..BACKLOG_RUNS_SLOW {
            assert!(compaction_shares(runs, 0.0) <= compaction_shares(runs, 1.0), "{runs} runs");
        }
    }
}

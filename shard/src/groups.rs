//! The scheduling groups of a core: what competes for its time, and with what weight.
//!
//! Each group is a task queue of the executor. A queue that was idle starts level with the others,
//! and among the runnable ones time is dealt in proportion to shares. Groups that compute for long
//! also stop by themselves (`yielder.rs`), since a task is only ever taken off the core by its own yield.

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

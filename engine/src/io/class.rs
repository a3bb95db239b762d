//! What a request to the device works for: what the disk scheduler tells apart.
//!
//! A file is opened for one class, and [`File::of_class`](super::File::of_class) gives the same file for another: the
//! blocks of one sstable are read by clients and by compaction.

/// The class of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoClass {
    /// The commit log, manifests, the schema: everyone who writes waits for it.
    Commit,
    /// Somebody waits for this block.
    #[default]
    Read,
    /// Memtables to sstables, which are read back, and segments of the log that are made ahead: memory and log space
    /// wait for it.
    Flush,
    /// The merging of sstables.
    Compaction,
    /// What a walk through many blocks will come to.
    Ahead,
    /// Files are opened, and checked when an operator asks.
    Check,
}

impl IoClass {
    /// All classes, in the order of their discriminants.
    pub const ALL: [IoClass; 6] = [
        IoClass::Commit,
        IoClass::Read,
        IoClass::Flush,
        IoClass::Compaction,
        IoClass::Ahead,
        IoClass::Check,
    ];

    /// The name of the class, in tables for operators.
    pub const fn name(self) -> &'static str {
        match self {
            IoClass::Commit => "commit",
            IoClass::Read => "read",
            IoClass::Flush => "flush",
            IoClass::Compaction => "compaction",
            IoClass::Ahead => "read ahead",
            IoClass::Check => "check",
        }
    }

    /// The weight it starts with, among those that wait for a turn.
    pub(super) const fn shares(self) -> usize {
        match self {
            IoClass::Commit | IoClass::Read => 1000,
            IoClass::Flush => 400,
            IoClass::Ahead => 200,
            IoClass::Compaction | IoClass::Check => 100,
        }
    }

    /// A job of the background: no client waits for this request.
    pub(super) const fn is_job(self) -> bool {
        matches!(self, IoClass::Flush | IoClass::Compaction | IoClass::Check)
    }

    /// What goes first if the ring is full: the lowest.
    pub(super) const fn rank(self) -> u8 {
        match self {
            IoClass::Commit => 0,
            IoClass::Read => 1,
            IoClass::Flush | IoClass::Compaction | IoClass::Ahead | IoClass::Check => 2,
        }
    }
}

//! Bugs on purpose, to prove that the golden suite and the differential test would catch them. Without the feature `planted`
//! none exists.
//!
//! A server plants one for the thread of each core; the places named below then misbehave. Storage
//! has bugs of its own (`engine::planted`).

/// A bug that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Paging: the `LIMIT` of a statement counts from the start again on each page.
    LimitRestarts,
    /// Prepare: every bind marker of a statement stands for the value of its first.
    FirstMarkerForAll,
    /// Filter: of several conditions the last is not asked.
    FilterForgetsLast,
    /// Filter: `<` is also true of the bound itself.
    FilterTakesBound,
    /// Statics: a partition that has nothing but static columns is not shown.
    StaticsNeverAlone,
    /// Statics: a partition without rows is shown by its static columns, though rows were chosen.
    StaticsAlwaysAlone,
    /// Order: rows of several partitions stay partition by partition.
    OrderOfPartitions,
    /// Groups: rows of two partitions with the same clustering are one group.
    GroupSpansPartitions,
}

impl Bug {
    /// Every bug of this crate.
    pub const ALL: [Bug; 8] = [
        Bug::LimitRestarts,
        Bug::FirstMarkerForAll,
        Bug::FilterForgetsLast,
        Bug::FilterTakesBound,
        Bug::StaticsNeverAlone,
        Bug::StaticsAlwaysAlone,
        Bug::OrderOfPartitions,
        Bug::GroupSpansPartitions,
    ];
}

/// Whether this bug is planted on this thread.
#[cfg(feature = "planted")]
pub(crate) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether this bug is planted: never.
#[cfg(not(feature = "planted"))]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

/// Plants a bug on this thread, or removes it.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

#[cfg(feature = "planted")]
thread_local!(static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) });

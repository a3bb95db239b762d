//! Bugs on purpose, to prove that the tests would catch them. Without the feature `planted` none exists.
//!
//! 1. A test, or a server that is built for tests (`server/src/planted.rs`), plants one for its thread (`plant`). The
//!    places that ask `planted` for this bug then misbehave.
//! 2. The tests of the tests run one kind of test again and again until one run fails: stories of the engine
//!    (`engine/tests/planted.rs`), whole lives in the simulator (`shard/tests/sim/planted.rs`), lookups and searches
//!    (`engine/tests/indexes.rs`, `engine/tests/vector_files.rs`). Where none fails, a test is missing.
//! 3. Each list below (`OF_FILES`, `OF_READS` …) has the bugs that one of them has to catch.
//!
//! Invariants: without the feature `planted` is a constant `false`, so the product has no branch of it. A bug is
//! planted on one thread and on no other.
//!
//! Not here: faults of the world, such as power cuts and failing devices (`io/sim_world.rs`); bugs of the language
//! (`cql/src/planted.rs`).

/// A bug that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The log calls a write durable before the device has confirmed it.
    AckBeforeSync,
    /// New names are not made durable.
    NoDirectorySync,
    /// A segment is free as soon as it is durable, before it is flushed.
    FreeLogEarly,
    /// Blocks of the log and edits of the manifest are not verified.
    SkipChecksum,
    /// Replay ends at the end of a segment.
    ReplayStopsEarly,
    /// An edit of the manifest is not synced.
    ManifestNoSync,
    /// A block is not asked which use of its segment it belongs to.
    AcceptRecycled,
    /// The last block is taken as it is, torn or not.
    AcceptTornTail,
    /// A bad block is always taken for the tail, whatever follows it.
    NoTailRule,
    /// A failed sync is tried once more.
    RetrySync,
    /// What can be read after a kill is taken for durable.
    TrustReadable,
    /// A file that finds no descriptor is an error: no open waits for one.
    NoDescriptorFails,
    /// A record is readable before it is durable.
    ApplyEarly,
    /// The inputs of a compaction go before the manifest says so.
    DeleteInputsEarly,
    /// A file that several shards have goes when the first of them has no use for it.
    DeleteAtFirstOwner,
    /// What is left of a compaction's input begins one token too late.
    TrimTooFar,
    /// What is left of a partition that was cut begins one row too late.
    CutTooFar,
    /// A tombstone is purged although something outside the merge is older than it.
    PurgeEarly,
    /// A file of tombstones is dropped although something that they hide is older.
    DropNeeded,
    /// A truncated table's records are replayed.
    ReplayTruncated,
    /// Of several versions of a row a merge shows the first it meets.
    MergeTakesOneRow,
    /// Where a range deletion changes in one source, a merge forgets those of the others.
    MergeForgetsDeletions,
    /// A walk through a file that begins inside a range deletion does not say so.
    EnterUndeleted,
    /// The next page begins with the last row of the one before.
    PageRepeatsRow,
    /// A read of one row does not go back to older files.
    SettleEarly,
    /// Blocks of all files are cached under one number.
    CacheMixesFiles,
    /// What went with its column is seen when the column is there again.
    ShowDropped,
    /// A change of the schema is followed before it is durable.
    SchemaNoSync,
    /// A truncation forgets what was written while it waited for the log and the manifest.
    TruncateTakesLater,
    /// The row index of a wide partition gives the block behind the right one.
    IndexSkipsBlock,
    /// A read error in a file is taken for the end of the file.
    ReadErrorEndsFile,
    /// A page after the first does not look into the memtables that wait to be flushed.
    PageSkipsSealed,
    /// A cursor that waited goes on at its old place in a memtable, where other rows are now.
    CursorKeepsPlace,
    /// A scan passes over every second part of a run.
    RunSkipsPiece,
    /// Behind a deleted stretch one row too many is passed over.
    SeekSkipsRow,
    /// A file is left out if its first and last place are outside of the slice, though a range deletion of it may reach
    /// over the slice.
    SkipReachingFile,
    /// A read passes over a file that could not be opened.
    PassDamaged,
    /// What empties or drops a table leaves the manifest the files that could not be opened.
    TruncateKeepsDamaged,
    /// Rows of a memtable that are newer than a deletion are passed over with those that it covers.
    SkipNewerLeaf,
    /// A write that reads first does not wait until those before it are readable.
    ReadBeforeApplied,
    /// A write that reads first does not see those before it that are on their way.
    OverlayIgnored,
    /// What was on its way is still read by those behind it when it is in the memtables, or gone from there.
    OverlayKept,
    /// A write that wrote nothing is answered before what it has read is durable.
    AnswerUndurable,
    /// A plain write does not wait for one of its partition that reads first.
    PlainWritesPass,
    /// A write that reads first is answered as done, and nothing is written.
    AppliedNotWritten,
    /// A conditional write keeps its timestamp, though it has read something newer.
    ConditionalKeepsTime,
    /// What is written to a counter is what was to be added, and not the sum.
    CounterForgets,
    /// A counter keeps the timestamp of its change, though something newer was read.
    CounterKeepsTime,
    /// A row that is in a view under another key than before stays under the old one, too.
    OldViewRowStays,
    /// A cell that is gone from the base stays in its views.
    DeadCellStaysInView,
    /// A row of a view lives as long as it did, whatever its row of the base does now.
    ViewRowKeepsLife,
    /// Rows of a view keep the timestamps of the base.
    ViewKeepsTime,
    /// A write is answered before its rows of views are where they belong.
    ViewsComeLater,
    /// Of each partition that a page of a build has, the row at which it stopped does not come into the view.
    BuildSkipsRow,
    /// A batch is forgotten when the first of its parts is durable.
    ForgetEarly,
    /// The parts of a batch are sent before it is noted.
    SendUnnoted,
    /// A start sends nothing of the batches that it finds.
    BatchesNotSent,
    /// An index file names the entry before the right one.
    IndexMisplacesEntry,
    /// A search in a long list of postings begins one block too late.
    IndexSkipsPostings,
    /// A lookup passes over the memtables.
    LookupSkipsMemory,
    /// A lookup passes over a file that has no index yet.
    LookupSkipsUnindexed,
    /// A memtable that knows many terms takes no more.
    MemoryForgetsTerms,
    /// A damaged index file that still opens is used again.
    IndexReattached,
    /// The second pass over the terms of a lookup begins one place too late.
    SecondPassTooLate,
    /// A lookup ends one block before the last of its range.
    LookupEndsEarly,
    /// What a lookup has left over begins behind one candidate too many.
    LookupSkipsCandidate,
    /// A search of vectors takes rows that were overwritten for enough, and looks no further.
    SearchEndsEarly,
    /// A search of vectors by files passes over what has no file.
    SearchSkipsUnfiled,
    /// A search of vectors begins one block too late in what a shard has of a file.
    SearchBeginsLate,
}

impl Bug {
    /// Those of the log, the manifest and the layout.
    pub const OF_FILES: [Bug; 11] = [
        Bug::AckBeforeSync,
        Bug::NoDirectorySync,
        Bug::FreeLogEarly,
        Bug::SkipChecksum,
        Bug::ReplayStopsEarly,
        Bug::ManifestNoSync,
        Bug::AcceptRecycled,
        Bug::AcceptTornTail,
        Bug::NoTailRule,
        Bug::RetrySync,
        Bug::TrustReadable,
    ];

    /// Those of the engine that stands on them, and of the shards' batches.
    pub const OF_ENGINE: [Bug; 24] = [
        Bug::ApplyEarly,
        Bug::DeleteInputsEarly,
        Bug::DeleteAtFirstOwner,
        Bug::TrimTooFar,
        Bug::CutTooFar,
        Bug::PurgeEarly,
        Bug::DropNeeded,
        Bug::ReplayTruncated,
        Bug::SchemaNoSync,
        Bug::TruncateTakesLater,
        Bug::NoDescriptorFails,
        Bug::TruncateKeepsDamaged,
        Bug::ReadBeforeApplied,
        Bug::OverlayIgnored,
        Bug::OverlayKept,
        Bug::AnswerUndurable,
        Bug::PlainWritesPass,
        Bug::AppliedNotWritten,
        Bug::ConditionalKeepsTime,
        Bug::CounterForgets,
        Bug::CounterKeepsTime,
        Bug::ForgetEarly,
        Bug::SendUnnoted,
        Bug::BatchesNotSent,
    ];

    /// Those of reads: merge, cursors, pages, cache.
    pub const OF_READS: [Bug; 16] = [
        Bug::MergeTakesOneRow,
        Bug::MergeForgetsDeletions,
        Bug::EnterUndeleted,
        Bug::PageRepeatsRow,
        Bug::SettleEarly,
        Bug::CacheMixesFiles,
        Bug::ShowDropped,
        Bug::IndexSkipsBlock,
        Bug::ReadErrorEndsFile,
        Bug::PageSkipsSealed,
        Bug::CursorKeepsPlace,
        Bug::RunSkipsPiece,
        Bug::SeekSkipsRow,
        Bug::SkipReachingFile,
        Bug::SkipNewerLeaf,
        Bug::PassDamaged,
    ];

    /// Those of materialized views.
    pub const OF_VIEWS: [Bug; 6] = [
        Bug::OldViewRowStays,
        Bug::DeadCellStaysInView,
        Bug::ViewRowKeepsLife,
        Bug::ViewKeepsTime,
        Bug::ViewsComeLater,
        Bug::BuildSkipsRow,
    ];

    /// Those of indexes that little data shows.
    pub const OF_INDEXES: [Bug; 5] = [
        Bug::SecondPassTooLate,
        Bug::IndexMisplacesEntry,
        Bug::LookupSkipsMemory,
        Bug::LookupSkipsUnindexed,
        Bug::MemoryForgetsTerms,
    ];

    /// Those of indexes that long lists of postings show.
    pub const OF_LONG_POSTINGS: [Bug; 3] =
        [Bug::IndexSkipsPostings, Bug::LookupSkipsCandidate, Bug::LookupEndsEarly];

    /// Those of searches of vectors that little data shows.
    pub const OF_FEW_VECTORS: [Bug; 2] = [Bug::SearchSkipsUnfiled, Bug::SearchBeginsLate];

    /// Those of searches of vectors by files.
    pub const OF_VECTORS: [Bug; 2] = [Bug::SearchEndsEarly, Bug::SearchSkipsUnfiled];
}

/// Whether this bug is planted on this thread.
#[cfg(feature = "planted")]
pub fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether this bug is planted: never.
#[cfg(not(feature = "planted"))]
pub const fn planted(_: Bug) -> bool {
    false
}

/// Plants a bug on this thread, or removes it.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

#[cfg(feature = "planted")]
thread_local!(static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) });

//! What survives a node: the truth about it, and what has happened to it.
//!
//! Invariants: what is `sure` was answered and must be there; what is `unsure` was taken by a log, and may be there after
//! a power cut, in order; what is `lost` was not there once, and never comes back.
//!
//! Not here: how a node is driven (`life.rs`).

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use engine::Error;
use engine::commitlog::SyncMode;
use engine::io::{Faults, RelPath, Rng, SimDisk};
use engine::{layout, reserve};
use model::Schema;

use crate::batches::Batches;
use crate::conditional::RowWrite;
use crate::counters::CounterWrite;
use crate::in_order::History;
use crate::lists::ListWrite;
use crate::node::RESERVE_BYTES;
use crate::oracle::{Facts, Part, Record};
use crate::schema::{Effect, TABLES};
use crate::workload::{Times, Workload};

/// What has happened, so that a test can see that something did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Lives after which the power went.
    pub(crate) lives: u64,
    /// Lives after which only the process went: what it had written can be read, and is not durable.
    pub(crate) kills: u64,
    /// Lives that an injected fault ended.
    pub(crate) failed: u64,
    /// Starts that got as far as answering.
    pub(crate) opened: u64,
    /// Of those, starts with another number of shards than before.
    pub(crate) dealt: u64,
    /// Number of records that were answered.
    pub(crate) answered: u64,
    /// Records that were under way when the power went, and were there afterwards.
    pub(crate) survived: u64,
    /// The same, and were not.
    pub(crate) lost: u64,
    /// Lives on a disk that was full to the last byte.
    pub(crate) full: u64,
    /// Of these, lives in which writes went on when tables were emptied.
    pub(crate) resumed: u64,
    /// Writes that were refused.
    pub(crate) refused: u64,
    /// Writes that waited for space, or behind those that did.
    pub(crate) deferred: u64,
    /// Memtables that were written out.
    pub(crate) flushes: u64,
    /// Tables that were emptied.
    pub(crate) truncated: u64,
    /// Changes of the schema.
    pub(crate) altered: u64,
    /// Changes that were under way when the power went, and were made.
    pub(crate) altered_late: u64,
    /// Compactions, and files removed because nothing in them was alive.
    pub(crate) compactions: u64,
    /// Fragments that a compaction put in the place of a part of its inputs, before its last.
    pub(crate) adopted: u64,
    /// Compactions beside another one.
    pub(crate) beside: u64,
    /// Files of several shards that went with the last of them.
    pub(crate) parted: u64,
    /// Scans of a table of a shard that were compared with the oracle.
    pub(crate) compared: u64,
    /// Lookups that were compared with a scan, and used an index.
    pub(crate) lookups: u64,
    /// Searches for the nearest vectors that went by files.
    pub(crate) searches: u64,
    /// Reads of a partition while it was written to.
    pub(crate) raced: u64,
    /// Truncations of a table while it was written to.
    pub(crate) raced_truncates: u64,
    /// Files that were damaged between two lives.
    pub(crate) damaged: u64,
    /// Reads that failed with the name of such a file.
    pub(crate) named: u64,
    /// Damaged files that were repaired again.
    pub(crate) repaired: u64,
    /// Writes that read first and were done.
    pub(crate) resolved: u64,
    /// Conditional writes that were answered.
    pub(crate) judged: u64,
    /// Additions to counters that were done.
    pub(crate) added: u64,
    /// Truncations of the table of writes that read first, with such writes under way.
    pub(crate) emptied: u64,
    /// Batches that a start sent again.
    pub(crate) sent_again: u64,
    /// Batches that were under way at the end of a life, and were there afterwards.
    pub(crate) whole: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.lives += other.lives;
        self.kills += other.kills;
        self.failed += other.failed;
        self.opened += other.opened;
        self.dealt += other.dealt;
        self.answered += other.answered;
        self.survived += other.survived;
        self.lost += other.lost;
        self.full += other.full;
        self.resumed += other.resumed;
        self.refused += other.refused;
        self.deferred += other.deferred;
        self.flushes += other.flushes;
        self.truncated += other.truncated;
        self.altered += other.altered;
        self.altered_late += other.altered_late;
        self.compactions += other.compactions;
        self.adopted += other.adopted;
        self.beside += other.beside;
        self.parted += other.parted;
        self.compared += other.compared;
        self.lookups += other.lookups;
        self.searches += other.searches;
        self.raced += other.raced;
        self.raced_truncates += other.raced_truncates;
        self.damaged += other.damaged;
        self.named += other.named;
        self.repaired += other.repaired;
        self.resolved += other.resolved;
        self.judged += other.judged;
        self.added += other.added;
        self.emptied += other.emptied;
        self.sent_again += other.sent_again;
        self.whole += other.whole;
    }
}

/// A table that is being emptied.
#[derive(Clone, Debug)]
pub(crate) struct Truncation {
    pub(crate) table: usize,
    /// How many facts of each partition were said before it began: at its end none of them is left.
    pub(crate) before: BTreeMap<Part, usize>,
    /// What was written since, with its shard. Each of these has a note in the table itself.
    pub(crate) raced: Vec<(usize, Record)>,
}

/// See the module.
pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) sync: SyncMode,
    /// Whether the process is also killed between power cuts.
    pub(crate) kills: bool,
    pub(crate) gc_grace_s: i32,
    pub(crate) workload: Workload,
    /// The schema that must be there.
    pub(crate) schema: Arc<Schema>,
    /// A change whose entry was being written: the schema after it, and what else it does.
    pub(crate) altering: Option<(Arc<Schema>, Effect)>,
    /// What must be there.
    pub(crate) sure: Facts,
    pub(crate) notes: BTreeSet<u64>,
    /// The list that is changed by index.
    pub(crate) lists: History<ListWrite>,
    /// The row that conditional writes change.
    pub(crate) conditional: History<RowWrite>,
    /// The row of counters.
    pub(crate) counters: History<CounterWrite>,
    /// The batches over several shards.
    pub(crate) batches: Batches,
    /// Taken by a shard's log in this order, and not sure: answered only if the log is periodic.
    pub(crate) unsure: Vec<VecDeque<Record>>,
    /// What is not there and must never come back.
    pub(crate) lost: BTreeSet<u64>,
    /// Being emptied when the power went.
    pub(crate) truncating: Option<Truncation>,
    /// A file that is damaged, and its bytes before that.
    pub(crate) damaged: Option<(RelPath, Vec<u8>)>,
    /// Every error is a failed test.
    pub(crate) faultless: bool,
    pub(crate) shards: usize,
    /// What the data is dealt to: not known after a life that ended in its start, which may have dealt it anew.
    pub(crate) dealt_to: Option<usize>,
    pub(crate) tally: Tally,
}

pub(crate) type Shared = Rc<RefCell<World>>;

/// Why a life ended before its time.
#[derive(Debug)]
pub(crate) enum End {
    /// An error that a fault explains.
    Failed(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> End {
        End::Failed(error)
    }
}

pub(crate) type Lived<T = ()> = Result<T, End>;

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let sync = if rng.one_in(4) { SyncMode::Periodic } else { SyncMode::Batch };
        let times = if rng.one_in(2) { Times::Rising } else { Times::Mixed };
        let gc_grace_s = if times == Times::Rising { 5 } else { i32::MAX };
        let value_bytes_max = [8, 60, 600][rng.index(3)];
        World {
            sync,
            kills: rng.one_in(2),
            gc_grace_s,
            workload: Workload::new(times, value_bytes_max),
            schema: crate::schema::base(),
            altering: None,
            sure: Facts::default(),
            notes: BTreeSet::new(),
            lists: History::default(),
            conditional: History::default(),
            counters: History::default(),
            batches: Batches::default(),
            unsure: Vec::new(),
            lost: BTreeSet::new(),
            truncating: None,
            damaged: None,
            faultless: true,
            shards: 0,
            dealt_to: None,
            tally: Tally::default(),
            rng,
        }
    }

    /// What a reader sees now.
    pub(crate) fn visible(&self) -> Cow<'_, Facts> {
        match self.sync {
            SyncMode::Periodic => self.said(),
            _ => Cow::Borrowed(&self.sure),
        }
    }

    /// All that was said and not lost, in the order of the logs: what a reader sees, and what it may see soon.
    pub(crate) fn said(&self) -> Cow<'_, Facts> {
        let mut all = Cow::Borrowed(&self.sure);
        self.unsure.iter().flatten().for_each(|record| all.to_mut().add(record));
        all
    }

    /// A write that waited for space was refused: none of it is there, nor will be.
    pub(crate) fn refused_late(&mut self, shard: usize, number: u64, error: Error) -> Lived {
        let is_gone = error.to_string().starts_with("there is no table");
        if !matches!(error, Error::Overloaded(_) | Error::DiskFull { .. }) && !is_gone {
            return Err(End::Failed(error));
        }
        let place = self.unsure[shard].iter().position(|record| record.number == number);
        self.unsure[shard].remove(place.expect("it was not answered before"));
        if let Some(truncation) = &mut self.truncating {
            truncation.raced.retain(|(_, record)| record.number != number);
        }
        self.lost.insert(number);
        self.tally.refused += 1;
        Ok(())
    }

    /// Damages an sstable between two lives now and then, or repairs the one that is damaged. Not one of the notes.
    pub(crate) fn damage(&mut self, disk: &SimDisk) {
        // A directory without files is gone at the next start.
        let may_repair = |(path, _): &mut (RelPath, _)| disk.has(&path.parent());
        if self.rng.one_in(3)
            && let Some((path, bytes)) = self.damaged.take_if(may_repair)
        {
            disk.plant(&path, bytes);
            self.tally.repaired += 1;
        }
        if self.damaged.is_some() || !self.rng.one_in(5) {
            return;
        }
        let tables = (1..TABLES).filter_map(|number| crate::schema::table(&self.schema, number));
        // One that was being written may have nothing in it yet.
        let has_bytes = |path: &RelPath| disk.file_bytes(path).is_some_and(|bytes| bytes > 0);
        let of_table = tables.flat_map(|table| disk.files_of(&layout::table_dir(table.id.0)));
        let files: Vec<RelPath> = of_table.filter(has_bytes).collect();
        if files.is_empty() {
            return;
        }
        let path = files[self.rng.index(files.len())].clone();
        let bytes = disk.bytes(&path).expect("a file has bytes");
        let mut harmed = bytes.clone();
        match self.rng.below(4) {
            0 => disk.lose(&path),
            1 => disk.plant(&path, bytes[..self.rng.index(bytes.len())].to_vec()),
            _ => {
                harmed[self.rng.index(bytes.len())] ^= 1 << self.rng.below(8);
                disk.plant(&path, harmed);
            }
        }
        self.tally.damaged += 1;
        self.damaged = Some((path, bytes));
    }

    /// Whether an error names the file that was damaged: the other files are read all the same.
    pub(crate) fn is_named(&mut self, error: &Error) -> bool {
        let (Error::Damaged { file, .. } | Error::Corrupt { file, .. }) = error else {
            return false;
        };
        let is_named = self.damaged.as_ref().is_some_and(|(path, _)| path.as_str() == &**file);
        self.tally.named += u64::from(is_named);
        is_named
    }

    /// Whether the next life finds its disk full, its faults, and its number of shards.
    pub(crate) fn next_life(&mut self, disk: &SimDisk) -> (bool, Faults, usize) {
        let dealt_to = self.dealt_to.take();
        match dealt_to.filter(|_| self.finds_full(disk)) {
            Some(shards) => (true, self.full(disk), shards),
            None => (false, self.faults(), 1 + self.rng.index(3)),
        }
    }

    /// Whether the next life finds its disk full, which a node outlives that keeps something aside and is not dealt
    /// anew.
    fn finds_full(&mut self, disk: &SimDisk) -> bool {
        // One part is enough: others have gone to lives before, and somebody has filled the disk since.
        let is_there = |part| {
            let bytes = disk.file_bytes(&RelPath::root().join(part));
            bytes == Some(reserve::part_bytes(RESERVE_BYTES))
        };
        let is_kept = reserve::PARTS.into_iter().any(is_there);
        self.altering.is_none() && self.rng.one_in(8) && is_kept
    }

    /// No fault but that others have filled the disk, and in half of these lives the power goes meanwhile.
    fn full(&mut self, disk: &SimDisk) -> Faults {
        self.faultless = true;
        Faults {
            suspensions_max: self.rng.below(4) as u32,
            quota_bytes: Some(disk.used_bytes()),
            crash_at_op: self.rng.one_in(2).then(|| self.rng.below(300)),
            ..Faults::default()
        }
    }

    /// The faults of the next life.
    fn faults(&mut self) -> Faults {
        let mut faults = Faults { suspensions_max: self.rng.below(4) as u32, ..Faults::default() };
        self.faultless = true;
        let at = self.rng.below(600);
        match self.rng.below(23) {
            0..10 => faults.crash_at_op = Some(at),
            10..13 => faults.fail_op = Some(at),
            13 => faults.write_error_one_in = 60,
            14 => faults.sync_error_one_in = 20,
            15 => faults.short_write_one_in = 60,
            16 => faults.flip_one_in = 60,
            17 => faults.quota_bytes = Some(600_000 + self.rng.below(400_000)),
            18 => faults.read_error_one_in = 100,
            // A block of the log that lands elsewhere is missing at the end of the log, where a write that was cut
            // short looks the same; sstables are read back before anything depends on them.
            19 => (faults.misdirect_one_in, faults.misdirect_under) = (3, "tables/"),
            // Clients have taken all descriptors: an open waits, and nothing fails.
            20 => (faults.no_descriptor_one_in, faults.crash_at_op) = (2, Some(at)),
            _ => {}
        }
        let harmless = Faults {
            suspensions_max: 0,
            crash_at_op: None,
            no_descriptor_one_in: 0,
            ..faults.clone()
        };
        self.faultless = format!("{harmless:?}") == format!("{:?}", Faults::default());
        faults
    }

    /// The schema is now another, with what that takes along.
    pub(crate) fn follow(&mut self, schema: Arc<Schema>, effect: &Effect) {
        match *effect {
            Effect::Nothing => {}
            Effect::Cleared { table } => {
                self.sure.clear_table(table);
                self.sure.drops.retain(|(of, _), _| *of != table);
                self.unsure.iter_mut().flatten().for_each(|record| record.drop_table(table));
                self.truncating.take_if(|truncation| truncation.table == table);
            }
            Effect::Dropped { table, column, at } => self.sure.drop_column((table, column), at),
            Effect::Added { table, column } => self.sure.add_column((table, column)),
        }
        self.workload.follow(&schema);
        self.schema = schema;
        self.tally.altered += 1;
    }

    /// What a truncation that begins now must leave nothing of.
    pub(crate) fn truncation(&self, table: usize) -> Truncation {
        assert!((1..TABLES).contains(&table), "notes are kept");
        Truncation { table, before: self.said().counts(table), raced: Vec::new() }
    }
}

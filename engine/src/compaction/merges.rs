//! The merges of a shard: how far those are that go on, and what the last ones have done.
//!
//! ```text
//! begin ─► running [ merge | merge ] ─► end ─► ended [ oldest | .. | newest ] ─► the owner says when that was
//! ```
//!
//! 1. A merge is listed as running from when its inputs are taken until it is dropped, however it ends.
//! 2. It is among the ended ones if it has changed anything, and all its inputs are used up or its table became
//!    another one meanwhile. One that failed is tried again: what is listed is that one.
//! 3. The oldest of more than [`COMPACTION_HISTORY_MAX`] are forgotten, and all of them with the process.
//!
//! How far a merge is has two lower bounds, of which the larger counts: what the inputs have before the token that is
//! merged now, where tokens are taken as uniform; and what was merged, of all that the inputs have. The first knows
//! nothing of a long partition, the second little of rows that are in many inputs. Neither ever falls.
//!
//! Not here: the clock (the owner has it), what a merge is called in CQL (the server).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use model::{TableId, Token, TokenRange, schema};

use super::piece::width;
use crate::engine::Engine;
use crate::limits::{COMPACTION_HISTORY_MAX, JOB_ENTRY_COST_BYTES};
use crate::table::View;

/// Which merge it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeName {
    /// The merge's number among those of its shard since the engine was opened, from 1 on.
    pub number: u64,
    /// The second since 1970 in which the merge began.
    pub begun_s: u32,
    /// The table whose files are merged.
    pub table: TableId,
    /// The table's keyspace, as it was called then.
    pub keyspace_name: String,
    /// The table's name, as it was called then.
    pub table_name: String,
}

/// How far a merge is that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeStatus {
    /// Which merge it is.
    pub merge: MergeName,
    /// How many files went in.
    pub sstables: u64,
    /// About how many bytes are merged, before compression: never fewer than before, never more than `total_bytes`.
    pub merged_bytes: u64,
    /// About how many bytes the inputs have, before compression.
    pub total_bytes: u64,
    /// About how many bytes of their files the inputs take.
    pub total_file_bytes: u64,
}

/// What a merge has done that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedMerge {
    /// Which merge it was.
    pub merge: MergeName,
    /// About how many bytes of files were merged.
    pub file_bytes_in: u64,
    /// Bytes of the files that came out.
    pub file_bytes_out: u64,
    /// How many partitions were in one source, in two, and so on. A source is a file, or the files of a run: two where
    /// fragments of a run share the partition.
    pub partitions_by_sources: BTreeMap<u32, u64>,
    /// The second since 1970 in which the merge ended, once the owner has said so.
    pub ended_s: Option<u32>,
}

/// The merges of a shard.
#[derive(Debug, Default)]
pub(crate) struct Merges {
    /// How many have begun.
    count: Cell<u64>,
    running: RefCell<Vec<Rc<Progress>>>,
    /// The last ones, oldest first.
    ended: RefCell<VecDeque<EndedMerge>>,
}

/// A merge that goes on.
#[derive(Debug)]
pub(super) struct Progress {
    merge: MergeName,
    inputs: Vec<InputPart>,
    sstables: u64,
    /// Bytes of the inputs before compression.
    total_bytes: u64,
    /// The inputs as a rewrite counts what it has merged, in bytes.
    total_work_bytes: u64,
    total_file_bytes: u64,
    /// What is before this token is merged.
    at: Cell<Token>,
    work_bytes: Cell<u64>,
    adoptions: Cell<u64>,
    file_bytes_out: Cell<u64>,
    /// How many partitions were in so many sources.
    partitions_by_sources: RefCell<BTreeMap<u32, u64>>,
}

/// The part of a file that is merged.
#[derive(Debug)]
struct InputPart {
    tokens: TokenRange,
    /// Bytes before compression.
    bytes: u64,
}

impl Engine {
    /// The merges that go on now.
    pub fn running_merges(&self) -> Vec<MergeStatus> {
        self.merges.running.borrow().iter().map(|progress| progress.status()).collect()
    }

    /// The last merges that have ended, oldest first, since the engine was opened.
    pub fn ended_merges(&self) -> Vec<EndedMerge> {
        self.merges.ended.borrow().iter().cloned().collect()
    }

    /// What has ended since the last call has ended now. Call it when a job or a merge of all has returned.
    pub fn date_merges(&self, now_s: u32) {
        let mut ended = self.merges.ended.borrow_mut();
        let undated = ended.iter_mut().rev().take_while(|merge| merge.ended_s.is_none());
        undated.for_each(|merge| merge.ended_s = Some(now_s));
    }
}

impl Merges {
    fn name(&self, table: &schema::Table, begun_s: u32) -> MergeName {
        let number = self.count.get() + 1;
        self.count.set(number);
        MergeName {
            number,
            begun_s,
            table: table.id,
            keyspace_name: table.keyspace.clone(),
            table_name: table.name.clone(),
        }
    }

    /// A merge of these views begins in this second.
    pub(super) fn begin(
        &self,
        table: &schema::Table,
        inputs: &[View],
        begun_s: u32,
    ) -> Rc<Progress> {
        let files: BTreeSet<_> = inputs.iter().map(|view| view.entry.sstable).collect();
        let part = |view: &View| {
            let bytes = share(view, view.sstable.statistics().raw_bytes);
            Some(InputPart { tokens: view.overlap(&TokenRange::ALL)?, bytes })
        };
        let work = |view: &View| {
            let like = view.sstable.statistics();
            let entries = like.rows.saturating_add(like.partitions);
            let cost = entries.saturating_mul(JOB_ENTRY_COST_BYTES as u64);
            share(view, like.raw_bytes.saturating_add(cost))
        };
        let parts: Vec<InputPart> = inputs.iter().filter_map(part).collect();
        let progress = Rc::new(Progress {
            merge: self.name(table, begun_s),
            sstables: files.len() as u64,
            total_bytes: sum(parts.iter().map(|part| part.bytes)),
            total_work_bytes: sum(inputs.iter().map(work)),
            total_file_bytes: file_bytes_of(inputs),
            inputs: parts,
            at: Cell::new(TokenRange::ALL.first),
            work_bytes: Cell::new(0),
            adoptions: Cell::new(0),
            file_bytes_out: Cell::new(0),
            partitions_by_sources: RefCell::default(),
        });
        self.running.borrow_mut().push(progress.clone());
        progress
    }

    /// A merge goes on no more. `left` is what of its inputs was not merged; `None` if it has failed.
    pub(super) fn end(&self, progress: &Rc<Progress>, left: Option<&[View]>) {
        self.running.borrow_mut().retain(|running| !Rc::ptr_eq(running, progress));
        if let Some(left) = left.filter(|_| progress.adoptions.get() > 0) {
            self.put(EndedMerge {
                merge: progress.merge.clone(),
                file_bytes_in: progress.total_file_bytes.saturating_sub(file_bytes_of(left)),
                file_bytes_out: progress.file_bytes_out.get(),
                partitions_by_sources: progress.partitions_by_sources.take(),
                ended_s: None,
            });
        }
    }

    /// Views in which nothing was alive were removed.
    pub(super) fn removed(&self, table: &schema::Table, gone: &[View], now_s: u32) {
        self.put(EndedMerge {
            merge: self.name(table, now_s),
            file_bytes_in: file_bytes_of(gone),
            file_bytes_out: 0,
            partitions_by_sources: BTreeMap::new(),
            ended_s: None,
        });
    }

    fn put(&self, merge: EndedMerge) {
        let mut ended = self.ended.borrow_mut();
        if ended.len() == COMPACTION_HISTORY_MAX {
            ended.pop_front();
        }
        ended.push_back(merge);
    }
}

impl Progress {
    /// A partition of this token is merged next, which so many sources have.
    pub(super) fn reach(&self, token: Token, sources: usize) {
        self.at.set(token);
        *self.partitions_by_sources.borrow_mut().entry(sources as u32).or_default() += 1;
    }

    /// Notes that this many bytes more were merged, as a rewrite counts them.
    pub(super) fn step(&self, work_bytes: usize) {
        self.work_bytes.set(self.work_bytes.get().saturating_add(work_bytes as u64));
    }

    /// A fragment has taken the place of what it was made of; of 0 bytes if nothing was left.
    pub(super) fn adopted(&self, file_bytes: u64) {
        self.adoptions.set(self.adoptions.get() + 1);
        self.file_bytes_out.set(self.file_bytes_out.get().saturating_add(file_bytes));
    }

    fn merged_bytes(&self) -> u64 {
        let at = self.at.get();
        let before = |part: &InputPart| match part.tokens {
            TokenRange { first, .. } if at <= first => 0,
            TokenRange { last, .. } if at > last => part.bytes,
            TokenRange { first, .. } => {
                part_of(part.bytes, &TokenRange { first, last: Token(at.0 - 1) }, &part.tokens)
            }
        };
        let by_tokens = sum(self.inputs.iter().map(before));
        let work_bytes = u128::from(self.work_bytes.get().min(self.total_work_bytes));
        let by_work =
            work_bytes * u128::from(self.total_bytes) / u128::from(self.total_work_bytes.max(1));
        by_tokens.max(by_work as u64).min(self.total_bytes)
    }

    fn status(&self) -> MergeStatus {
        MergeStatus {
            merge: self.merge.clone(),
            sstables: self.sstables,
            merged_bytes: self.merged_bytes(),
            total_bytes: self.total_bytes,
            total_file_bytes: self.total_file_bytes,
        }
    }
}

/// The bytes of the files that are these views', about.
fn file_bytes_of(views: &[View]) -> u64 {
    sum(views.iter().map(|view| share(view, view.entry.file_bytes)))
}

/// What is the view's of something of which its file has so many bytes.
pub(crate) fn share(view: &View, bytes: u64) -> u64 {
    let all = view.sstable.statistics().tokens;
    view.overlap(&TokenRange::ALL).map_or(0, |part| part_of(bytes, &part, &all))
}

fn part_of(bytes: u64, part: &TokenRange, all: &TokenRange) -> u64 {
    (u128::from(bytes) * width(part) / width(all)) as u64
}

fn sum(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn merge(number: u64) -> EndedMerge {
        let (keyspace_name, table_name) = ("ks".to_owned(), "t".to_owned());
        let table = TableId(Uuid::from_u128(7));
        let merge = MergeName { number, begun_s: 1, table, keyspace_name, table_name };
        let partitions_by_sources = BTreeMap::new();
        EndedMerge {
            merge,
            file_bytes_in: 2,
            file_bytes_out: 1,
            partitions_by_sources,
            ended_s: None,
        }
    }

    #[test]
    fn the_oldest_merges_are_forgotten() {
        let merges = Merges::default();
        let most = COMPACTION_HISTORY_MAX as u64;
        (1..=most + 3).for_each(|number| merges.put(merge(number)));
        let ended: Vec<u64> = merges.ended.borrow().iter().map(|m| m.merge.number).collect();
        assert_eq!(ended, (4..=most + 3).collect::<Vec<_>>());
    }

    fn progress(parts: &[(i64, i64, u64)]) -> Progress {
        let part = |&(first, last, bytes): &(i64, i64, u64)| InputPart {
            tokens: TokenRange { first: Token(first), last: Token(last) },
            bytes,
        };
        let total_bytes = parts.iter().map(|part| part.2).sum();
        Progress {
            merge: merge(1).merge,
            inputs: parts.iter().map(part).collect(),
            sstables: parts.len() as u64,
            total_bytes,
            total_work_bytes: 2 * total_bytes,
            total_file_bytes: total_bytes,
            at: Cell::new(TokenRange::ALL.first),
            work_bytes: Cell::new(0),
            adoptions: Cell::new(0),
            file_bytes_out: Cell::new(0),
            partitions_by_sources: RefCell::default(),
        }
    }

    #[test]
    fn progress_rises_by_tokens_and_inside_a_long_partition() {
        let progress = progress(&[(0, 99, 1000), (50, 149, 500), (i64::MIN, i64::MIN, 10)]);
        let at = |token: i64| {
            progress.reach(Token(token), 1);
            progress.merged_bytes()
        };
        let shown = [at(i64::MIN), at(0), at(10), at(60), at(100), at(149)];
        assert_eq!(shown, [0, 10, 110, 10 + 600 + 50, 10 + 1000 + 250, 10 + 1000 + 495]);
        progress.step(3018);
        assert_eq!(progress.merged_bytes(), 1509, "the last partition is long");
        progress.step(usize::MAX);
        assert_eq!(progress.merged_bytes(), 1510, "never more than there is");
    }
}

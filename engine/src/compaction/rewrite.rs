//! The one mechanism of compaction: a merge of views, written as outputs.
//!
//! ```text
//! view ─┐
//! view ─┼─► Merge ─► what is covered goes, what expired dies, old tombstones are purged ─► Writer ─► adopt
//! view ─┘                                     (an output ends between two tokens, or after a row)
//! ```
//!
//! 1. Partitions are merged in order into a fragment, until it is long enough (its bytes on the disk, or those that its
//!    writer keeps in memory to the end) and the token changes, or, inside a partition, a row was written.
//! 2. The fragment is finished (written, synced, read back) and the owner takes it over: it says that all data before
//!    a place is in the fragments so far, and that what is merged begins at this place.
//! 3. The same again, until nothing is left to merge or the owner wants no more.
//!
//! Invariants
//! 1. Only tokens of the views are read; a file that straddles owners gives each its own part.
//! 2. A tombstone is purged only if nothing outside the merge, memtables included,
//!    can hold something it covers: the owner says so for each partition, at the time it is merged.
//! 3. What two fragments have of one partition is apart: a range deletion that reaches over the cut ends there in
//!    the one and begins there in the other, the head is in the first only. A partition is cut only if its tombstone
//!    is written, for that covers the rest of the partition, which is still in the inputs. So the tombstone of a
//!    partition that may be longer than a fragment is kept, even if it could be purged: a fragment must not grow with
//!    its partition.
//! 4. A file that is used up is closed: once it is unlinked this merge keeps none of its space, however long it goes
//!    on. A snapshot or a read may (`footprint.rs`).
//! 5. After an error no output is left but what the owner has taken over, unless its deletion fails too: the next
//!    start deletes what no manifest names.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use model::row::{Purge, RowRef, compact};
use model::schema::ColumnDrops;
use model::{Deletion, Token, key};
use uuid::Uuid;

use crate::cursor::{Cursor, FilePart, Fragment, Head, Merge, RunCursor, Slice, lanes_of};
use crate::error::{Error, Result};
use crate::io::{Disk, IoClass, RelPath};
use crate::limits::{JOB_ENTRY_COST_BYTES, JOB_STEP_BYTES};
use crate::manifest::ViewBegin;
use crate::planted::{Bug, planted};
use crate::sstable::{Reading, SstableId, Writer, WriterConfig, WrittenSstable, file_name};

/// Where what is still to be merged begins.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Its first token.
    pub(crate) token: Token,
    /// The place inside a partition of the token, if what is before it is in outputs.
    pub(crate) inside: Option<Arc<ViewBegin>>,
    /// The files that may have something there or behind it.
    pub(crate) files: BTreeSet<Uuid>,
}

/// How the outputs are made.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Where they go.
    pub(crate) dir: RelPath,
    /// How they are written.
    pub(crate) config: WriterConfig,
    /// An output ends at the first place where it may, once the file has this many bytes.
    pub(crate) fragment_bytes: u64,
    /// An output ends there, too, once its writer keeps this many bytes in memory until the end.
    pub(crate) kept_bytes_max: usize,
    /// The second at which expiry is judged.
    pub(crate) now_s: u32,
    /// Tombstones made before this second are past `gc_grace_seconds`.
    pub(crate) gc_before_s: u32,
    /// Columns whose cells went with them.
    pub(crate) drops: Rc<ColumnDrops>,
    /// A longer row is [`Error::RowTooLarge`].
    pub(crate) row_bytes_max: u64,
}

/// What a merge asks of the job that runs it.
pub(crate) trait MergeOwner {
    /// A tombstone of the inputs that is older than this, in microseconds, covers nothing of this partition outside the
    /// inputs; `i64::MIN` if that is not known, or the inputs have nothing that could be purged.
    fn oldest_elsewhere(&self, token: Token, key: &[u8]) -> i64;

    /// The name of one more output.
    fn name(&self) -> SstableId;

    /// Lets others run. Awaited about every [`JOB_STEP_BYTES`], and while a fragment is ended.
    async fn pause(&self);

    /// The same, after `merged_bytes` more were merged; the output that is being written has `fragment_bytes` by now.
    /// `Break` ends the merge here, and the output goes.
    async fn stepped(&self, _merged_bytes: usize, _fragment_bytes: u64) -> ControlFlow<()> {
        self.pause().await;
        ControlFlow::Continue(())
    }

    /// A partition of this token is merged next, of which `sources` inputs have something. Prepares what
    /// [`oldest_elsewhere`](Self::oldest_elsewhere) is asked next.
    async fn begin_partition(&self, _token: Token, _sources: usize) {}

    /// Takes over the next output file; `None` if everything since the last one was purged. All input before `rest` is
    /// in outputs now, and `rest` itself is not; `None` when the inputs are used up. `Break` ends the merge here. From
    /// this call on the file is the owner's, also if the call fails.
    async fn adopt(
        &self,
        fragment: Option<WrittenSstable>,
        rest: Option<Rest>,
    ) -> Result<ControlFlow<()>>;
}

/// Merges the inputs, and gives the owner one finished fragment after another, in the order of their tokens.
pub(crate) async fn rewrite(
    disk: &Disk,
    inputs: Vec<FilePart>,
    output: &Output,
    owner: &impl MergeOwner,
) -> Result<()> {
    let mut outputs =
        OutputFiles { disk, output, owner, writer: None, last: None, count: 0, is_inside: false };
    let merged = merge(inputs, &mut outputs).await;
    let ended = match merged {
        Ok(ControlFlow::Continue(())) => outputs.end_file(None).await.map(drop),
        Ok(ControlFlow::Break(())) => Ok(()),
        Err(error) => Err(error),
    };
    if ended.is_err() {
        outputs.abandon().await;
    }
    ended
}

impl Output {
    /// Whether a file is long enough, or its writer keeps enough.
    fn is_reached_by(&self, writer: &Writer) -> bool {
        writer.bytes() >= self.fragment_bytes || writer.kept_bytes() >= self.kept_bytes_max
    }
}

impl Rest {
    /// Whether what ends with this token is before it.
    pub(crate) fn is_behind(&self, last: Token) -> bool {
        last < self.token || self.inside.is_some() && last == self.token
    }
}

/// The output files of one rewrite, in the order of their tokens: each is a fragment of a run.
struct OutputFiles<'a, C> {
    disk: &'a Disk,
    output: &'a Output,
    owner: &'a C,
    writer: Option<(SstableId, Writer)>,
    /// The last token of what was adopted.
    last: Option<Token>,
    /// How many were adopted.
    count: u64,
    /// The last one ended inside a partition.
    is_inside: bool,
}

impl<C: MergeOwner> OutputFiles<'_, C> {
    /// Whether the file that is written is long enough.
    fn is_full(&self) -> bool {
        self.writer.as_ref().is_some_and(|(_, writer)| self.output.is_reached_by(writer))
    }

    /// The writer for the next partition.
    fn writer(&mut self) -> &mut Writer {
        let begin = || {
            let id = self.owner.name();
            let (dir, config) = (&self.output.dir, self.output.config.clone());
            let writer = Writer::new(self.disk, dir, id, config).of_class(IoClass::Compaction);
            let mut writer = writer.made_at(self.output.now_s);
            if self.is_inside {
                writer.goes_on(self.count);
            }
            (id, writer)
        };
        &mut self.writer.get_or_insert_with(begin).1
    }

    /// Ends the file that is written, if there is one, and gives it to the owner; what is still merged begins at `rest`.
    async fn end_file(&mut self, rest: Option<Rest>) -> Result<ControlFlow<()>> {
        let finished = match self.writer.take() {
            None => None,
            Some((id, writer)) => match writer.finish(&async || self.owner.pause().await).await {
                Ok(finished) => finished,
                Err(error) => {
                    self.unlink(id).await;
                    return Err(error);
                }
            },
        };
        if let Some(finished) = &finished {
            let tokens = finished.statistics.tokens;
            let is_inside = self.is_inside;
            let follows = |last| last < tokens.first || is_inside && last == tokens.first;
            assert!(self.last.is_none_or(follows), "fragments share the token of a cut partition");
            assert!(
                rest.as_ref().is_none_or(|rest| rest.is_behind(tokens.last)),
                "what is merged is before the rest"
            );
            self.last = Some(tokens.last);
            self.count += 1;
        }
        self.is_inside = rest.as_ref().is_some_and(|rest| rest.inside.is_some());
        self.owner.adopt(finished, rest).await
    }

    /// Removes what was not taken over. What cannot be removed is named by no manifest, and so goes at the next
    /// start.
    async fn abandon(&mut self) {
        if let Some((id, writer)) = self.writer.take()
            && writer.abandon().await.is_err()
        {
            self.unlink(id).await;
        }
    }

    async fn unlink(&self, id: SstableId) {
        let path = self.output.dir.join(&file_name(id));
        // The error that led here is the one to report.
        let _ = self.disk.unlink(&path).await;
    }
}

/// All that the inputs hold, in order. A lane closes a file when it has come to its end.
fn cursor_over(inputs: Vec<FilePart>, slices: &[Slice]) -> Merge<RunCursor<'_>> {
    let lanes = lanes_of(inputs);
    let reading = Reading::of_merge(lanes.len());
    let lane = |parts| RunCursor::owning(parts, slices, reading);
    Merge::new(lanes.into_iter().filter_map(lane), false)
}

/// Merges until the inputs are used up, or the owner wants no more.
async fn merge<C: MergeOwner>(
    inputs: Vec<FilePart>,
    outputs: &mut OutputFiles<'_, C>,
) -> Result<ControlFlow<()>> {
    let slices = [Slice::all()];
    let mut merged = cursor_over(inputs, &slices);
    let (output, owner) = (outputs.output, outputs.owner);
    let drops = output.drops.clone();
    let (mut compactor, mut bytes, mut last) = (PartitionCompactor::default(), 0, None);
    // An output is no shorter than a step, but in tests.
    let step_bytes =
        JOB_STEP_BYTES.min(usize::try_from(output.fragment_bytes).unwrap_or(usize::MAX));
    while merged.next_partition().await? {
        let token = merged.head().token;
        let is_new_token = last.replace(token).is_some_and(|last| last < token);
        if is_new_token && outputs.is_full() {
            let rest = Rest { token, inside: None, files: files_of(&merged) };
            if outputs.end_file(Some(rest)).await?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        owner.begin_partition(token, merged.sources().count()).await;
        let head = merged.head();
        let purge = Purge {
            now_s: output.now_s,
            gc_before_s: output.gc_before_s,
            oldest_elsewhere: owner.oldest_elsewhere(head.token, head.key),
            drops: Some(&drops),
        };
        check_row(head.static_row, head.key, output)?;
        let may_be_long = || {
            let bytes = merged.sources().map(RunCursor::partition_bytes_max);
            bytes.fold(0, u64::saturating_add) > output.fragment_bytes
        };
        let is_past = !head.deletion.is_none() && purge.drops(head.deletion);
        compactor.keeps_tombstone = !is_past || may_be_long();
        let mut writer = outputs.writer();
        bytes += compactor.begin(&head, purge, writer);
        let mut is_full = false;
        loop {
            if bytes >= step_bytes {
                writer.drain(&async || owner.pause().await).await?;
                let merged_bytes = std::mem::take(&mut bytes);
                if owner.stepped(merged_bytes, writer.bytes()).await.is_break() {
                    outputs.abandon().await;
                    return Ok(ControlFlow::Break(()));
                }
                is_full = output.is_reached_by(writer);
            }
            if !merged.next().await? {
                break;
            }
            if is_full && compactor.may_cut_before(&merged.fragment()) {
                is_full = false;
                compactor.cut_before(&merged.fragment(), writer);
                let rest = rest_of(&merged);
                if outputs.end_file(Some(rest)).await?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                writer = outputs.writer();
                compactor.continue_in(&merged.head(), &merged.fragment(), writer);
            }
            let fragment = merged.fragment();
            if let Fragment::Row { row, .. } = fragment {
                check_row(Some(row), merged.head().key, output)?;
            }
            bytes += compactor.write(&fragment, writer);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The files that may have something where the merge stands, or behind it.
fn files_of(merged: &Merge<RunCursor<'_>>) -> BTreeSet<Uuid> {
    merged.cursors().flat_map(RunCursor::files).map(|id| id.0).collect()
}

/// What begins with the fragment that the merge stands on.
fn rest_of(merged: &Merge<RunCursor<'_>>) -> Rest {
    let Head { token, key, .. } = merged.head();
    let mut position = merged.fragment().position().to_vec();
    if planted(Bug::CutTooFar) {
        key::after(&mut position);
    }
    let inside = ViewBegin { key: key.into(), position: position.into() };
    Rest { token, inside: Some(Arc::new(inside)), files: files_of(merged) }
}

/// Refuses a row that is too long for a file: it was merged of more writes than are taken today.
fn check_row(row: Option<RowRef<'_>>, key: &[u8], output: &Output) -> Result<()> {
    let bytes = row.map_or(0, |row| row.bytes().len()) as u64;
    if bytes > output.row_bytes_max {
        let table = output.config.table.to_string().into();
        return Err(Error::RowTooLarge { table, key: key.into(), bytes });
    }
    Ok(())
}

/// Writes of one partition what is not covered, expired or purged.
struct PartitionCompactor<'t> {
    purge: Purge<'t>,
    partition: Deletion,
    in_force: Deletion,
    /// What the file says is in force.
    written: Deletion,
    /// Whether the partition's tombstone, if it has one, is in the file.
    keeps_tombstone: bool,
    /// The last fragment was a row.
    is_after_row: bool,
    /// The place of the last change.
    changed_at: Vec<u8>,
    row: Vec<u8>,
}

impl Default for PartitionCompactor<'_> {
    fn default() -> Self {
        let none = Deletion::NONE;
        PartitionCompactor {
            purge: Purge::NOTHING,
            partition: none,
            in_force: none,
            written: none,
            keeps_tombstone: true,
            is_after_row: false,
            changed_at: Vec::new(),
            row: Vec::new(),
        }
    }
}

impl<'t> PartitionCompactor<'t> {
    /// Begins a partition: writes what is left of its head; gives what that cost, in bytes.
    fn begin(&mut self, head: &Head<'_>, purge: Purge<'t>, writer: &mut Writer) -> usize {
        self.purge = purge;
        self.partition = head.deletion;
        self.in_force = Deletion::NONE;
        self.written = Deletion::NONE;
        self.is_after_row = false;
        self.changed_at.clear();
        let kept = &mut self.row;
        writer.partition(&Head {
            deletion: if self.keeps_tombstone { head.deletion } else { Deletion::NONE },
            static_row: head.static_row.and_then(|row| compact(row, head.deletion, &purge, kept)),
            ..*head
        });
        let static_bytes = head.static_row.map_or(0, |row| row.bytes().len());
        JOB_ENTRY_COST_BYTES + head.key.len() + static_bytes
    }

    /// Whether a file may end before this fragment. A change and what is at its place stay together.
    fn may_cut_before(&self, fragment: &Fragment<'_>) -> bool {
        let is_after_change =
            !self.changed_at.is_empty() && fragment.position() > &*self.changed_at;
        self.keeps_tombstone && (self.is_after_row || is_after_change)
    }

    /// Ends what the file has of the partition before the fragment.
    fn cut_before(&self, fragment: &Fragment<'_>, writer: &mut Writer) {
        let (position, deletion) = (fragment.position(), Deletion::NONE);
        writer.fragment(&Fragment::Change { position, deletion });
    }

    /// Continues the partition in another file, which begins with the fragment.
    fn continue_in(&self, head: &Head<'_>, fragment: &Fragment<'_>, writer: &mut Writer) {
        writer.partition(&Head { deletion: Deletion::NONE, static_row: None, ..*head });
        if !fragment.is_change() {
            let (position, deletion) = (fragment.position(), self.written);
            writer.fragment(&Fragment::Change { position, deletion });
        }
    }

    /// Writes what is left of the fragment; gives what that cost, in bytes.
    fn write(&mut self, fragment: &Fragment<'_>, writer: &mut Writer) -> usize {
        match *fragment {
            Fragment::Change { position, deletion } => {
                self.in_force = deletion;
                let needless = self.partition.covers(deletion.timestamp);
                let gone = needless || self.purge.drops(deletion);
                let deletion = if gone { Deletion::NONE } else { deletion };
                (self.written, self.is_after_row) = (deletion, false);
                self.changed_at.clear();
                self.changed_at.extend_from_slice(position);
                writer.fragment(&Fragment::Change { position, deletion });
                JOB_ENTRY_COST_BYTES + position.len()
            }
            Fragment::Row { clustering, row } => {
                self.is_after_row = true;
                let covering = self.partition.max(self.in_force);
                if let Some(row) = compact(row, covering, &self.purge, &mut self.row) {
                    writer.fragment(&Fragment::Row { clustering, row });
                }
                JOB_ENTRY_COST_BYTES + clustering.len() + row.bytes().len()
            }
        }
    }
}

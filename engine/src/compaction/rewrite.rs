//! The one mechanism of compaction: a merge of views, written as fragments.
//!
//! ```text
//! view ─┐
//! view ─┼─► Merge ─► what is covered goes, what expired dies, old tombstones are purged ─► Writer ─► adopt
//! view ─┘                                     (a fragment ends between two tokens)
//! ```
//!
//! 1. Partitions are merged in order into a fragment, until it is long enough and the token changes, or, inside a
//!    partition, a row was written.
//! 2. The fragment is finished (written, synced, read back) and the caller takes it over: it says that all data before
//!    a place is in the fragments so far, and that what is merged begins at this place.
//! 3. The same again, until nothing is left to merge or the caller wants no more.
//!
//! Invariants
//! 1. Only tokens of the views are read; a file that straddles owners gives each its own part.
//! 2. A tombstone is purged only if nothing outside the merge, memtables and live log segments included,
//!    can hold something it covers: the caller says so for each partition, at the time it is merged.
//! 3. What two fragments have of one partition is apart: a range deletion that reaches over the cut ends there in
//!    the one and begins there in the other, the head is in the first only. So no partition is cut whose tombstone was
//!    purged: rows that it covers are still in the inputs. And so the tombstone of a partition that may be longer than
//!    a fragment stays, for a fragment must not grow with its partition.
//! 4. A file that is used up is closed: once it is unlinked its space is free, however long the merge goes on.
//! 5. After an error no output is left but what the caller has taken over, unless its deletion fails too: the next
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
    /// The place inside a partition of the token, if what is before it is in fragments.
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
    /// A fragment is ended at the first place where it may be after so many bytes.
    pub(crate) fragment_bytes: u64,
    /// The second at which expiry is judged.
    pub(crate) now_s: u32,
    /// Tombstones made before this second are past `gc_grace_seconds`.
    pub(crate) gc_before_s: u32,
    /// Columns whose cells went with them.
    pub(crate) drops: Rc<ColumnDrops>,
    /// A longer row is [`Error::RowTooLarge`].
    pub(crate) row_bytes_max: u64,
}

/// What a merge asks of the one who runs it.
pub(crate) trait Caller {
    /// Nothing of this partition outside the inputs is older than this, in microseconds; `i64::MIN` if that is not
    /// known.
    fn oldest_elsewhere(&self, token: Token, key: &[u8]) -> i64;

    /// The name of one more output.
    fn name(&self) -> SstableId;

    /// Returns when others had their turn. Awaited about every [`JOB_STEP_BYTES`], and while a fragment is ended.
    async fn pause(&self);

    /// The same, after so many bytes were merged; the fragment in hand has so many by now.
    async fn stepped(&self, _merged_bytes: usize, _fragment_bytes: u64) {
        self.pause().await;
    }

    /// A partition of this token is merged next, of which so many sources have something. Has at hand what
    /// [`oldest_elsewhere`](Self::oldest_elsewhere) is asked next.
    async fn begin_partition(&self, _token: Token, _sources: usize) {}

    /// Takes over a finished fragment, if anything was left to be in one: it follows those before it, and the inputs
    /// are merged up to `rest`, without it; `None` when they are used up. Whether to go on. What becomes of
    /// the file, also after an error, is the caller's affair.
    async fn adopt(
        &self,
        fragment: Option<WrittenSstable>,
        rest: Option<Rest>,
    ) -> Result<ControlFlow<()>>;
}

/// Merges the inputs, and gives the caller one finished fragment after another, in the order of their tokens.
pub(crate) async fn rewrite(
    disk: &Disk,
    inputs: Vec<FilePart>,
    output: &Output,
    caller: &impl Caller,
) -> Result<()> {
    let mut fragments =
        Fragments { disk, output, caller, writer: None, last: None, count: 0, is_inside: false };
    let merged = merge(inputs, &mut fragments).await;
    let ended = match merged {
        Ok(ControlFlow::Continue(())) => fragments.end(None).await.map(drop),
        Ok(ControlFlow::Break(())) => Ok(()),
        Err(error) => Err(error),
    };
    if ended.is_err() {
        fragments.abandon().await;
    }
    ended
}

impl Rest {
    /// Whether what ends with this token is before it.
    pub(crate) fn is_behind(&self, last: Token) -> bool {
        last < self.token || self.inside.is_some() && last == self.token
    }
}

/// The files of one rewrite: fragments of a run, not of a partition (`cursor::Fragment`).
struct Fragments<'a, C> {
    disk: &'a Disk,
    output: &'a Output,
    caller: &'a C,
    writer: Option<(SstableId, Writer)>,
    /// The last token of what was adopted.
    last: Option<Token>,
    /// How many were adopted.
    count: u64,
    /// The last one ended inside a partition.
    is_inside: bool,
}

impl<C: Caller> Fragments<'_, C> {
    /// Whether the fragment is long enough.
    fn is_full(&self) -> bool {
        let bytes = self.writer.as_ref().map_or(0, |(_, writer)| writer.bytes());
        bytes >= self.output.fragment_bytes
    }

    /// The writer for the next partition.
    fn writer(&mut self) -> &mut Writer {
        let begin = || {
            let id = self.caller.name();
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

    /// Ends the fragment, if there is one, and gives it to the caller; what is merged begins at `rest` now.
    async fn end(&mut self, rest: Option<Rest>) -> Result<ControlFlow<()>> {
        let finished = match self.writer.take() {
            None => None,
            Some((id, writer)) => match writer.finish(&async || self.caller.pause().await).await {
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
        self.caller.adopt(finished, rest).await
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

/// Merges until the inputs are used up, or the caller wants no more.
async fn merge<C: Caller>(
    inputs: Vec<FilePart>,
    fragments: &mut Fragments<'_, C>,
) -> Result<ControlFlow<()>> {
    let slices = [Slice::all()];
    // A lane closes a file when it has come to its end.
    let lanes = lanes_of(inputs).into_iter();
    let lane = |parts| RunCursor::owning(parts, &slices, Reading::Compaction);
    let mut merged = Merge::new(lanes.filter_map(lane), false);
    let (output, caller) = (fragments.output, fragments.caller);
    let drops = output.drops.clone();
    let (mut left, mut bytes, mut last) = (Left::default(), 0, None);
    // A fragment is no shorter than a step, but in tests.
    let step_bytes =
        JOB_STEP_BYTES.min(usize::try_from(output.fragment_bytes).unwrap_or(usize::MAX));
    while merged.next_partition().await? {
        let token = merged.head().token;
        let is_new_token = last.replace(token).is_some_and(|last| last < token);
        if is_new_token && fragments.is_full() {
            let rest = Rest { token, inside: None, files: files_of(&merged) };
            if fragments.end(Some(rest)).await?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        caller.begin_partition(token, merged.sources().count()).await;
        let head = merged.head();
        let purge = Purge {
            now_s: output.now_s,
            gc_before_s: output.gc_before_s,
            oldest_elsewhere: caller.oldest_elsewhere(head.token, head.key),
            drops: Some(&drops),
        };
        check_row(head.static_row, head.key, output)?;
        let may_be_long = || {
            let bytes = merged.sources().map(RunCursor::partition_bytes_max);
            bytes.fold(0, u64::saturating_add) > output.fragment_bytes
        };
        let is_past = !head.deletion.is_none() && purge.drops(head.deletion);
        left.keeps_head = !is_past || may_be_long();
        let mut writer = fragments.writer();
        bytes += left.head(&head, purge, writer);
        let mut is_full = false;
        loop {
            if bytes >= step_bytes {
                writer.drain(&async || caller.pause().await).await?;
                caller.stepped(std::mem::take(&mut bytes), writer.bytes()).await;
                is_full = writer.bytes() >= output.fragment_bytes;
            }
            if !merged.next().await? {
                break;
            }
            if is_full && left.may_cut(&merged.fragment()) {
                is_full = false;
                left.cut_before(&merged.fragment(), writer);
                let rest = rest_of(&merged);
                if fragments.end(Some(rest)).await?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                writer = fragments.writer();
                left.go_on(&merged.head(), &merged.fragment(), writer);
            }
            let fragment = merged.fragment();
            if let Fragment::Row { row, .. } = fragment {
                check_row(Some(row), merged.head().key, output)?;
            }
            bytes += left.fragment(&fragment, writer);
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

/// What is left of a partition.
struct Left<'t> {
    purge: Purge<'t>,
    partition: Deletion,
    in_force: Deletion,
    /// What the file says is in force.
    written: Deletion,
    /// Whether the partition's tombstone, if it has one, is in the file.
    keeps_head: bool,
    /// The last fragment was a row.
    is_behind_row: bool,
    /// The place of the last change.
    changed_at: Vec<u8>,
    row: Vec<u8>,
}

impl Default for Left<'_> {
    fn default() -> Self {
        let none = Deletion::NONE;
        Left {
            purge: Purge::NOTHING,
            partition: none,
            in_force: none,
            written: none,
            keeps_head: true,
            is_behind_row: false,
            changed_at: Vec::new(),
            row: Vec::new(),
        }
    }
}

impl<'t> Left<'t> {
    /// Writes what is left of the head; gives what that cost, in bytes.
    fn head(&mut self, head: &Head<'_>, purge: Purge<'t>, writer: &mut Writer) -> usize {
        self.purge = purge;
        self.partition = head.deletion;
        self.in_force = Deletion::NONE;
        self.written = Deletion::NONE;
        self.is_behind_row = false;
        self.changed_at.clear();
        self.row.clear();
        let keeps = |row| compact(row, head.deletion, &purge, &mut self.row);
        let has_static = head.static_row.is_some_and(keeps);
        writer.partition(&Head {
            deletion: if self.keeps_head { head.deletion } else { Deletion::NONE },
            static_row: has_static.then_some(RowRef::trusted(&self.row)),
            ..*head
        });
        let static_bytes = head.static_row.map_or(0, |row| row.bytes().len());
        JOB_ENTRY_COST_BYTES + head.key.len() + static_bytes
    }

    /// Whether a file may end before this fragment. A change and what is at its place stay together.
    fn may_cut(&self, fragment: &Fragment<'_>) -> bool {
        let is_behind_change =
            !self.changed_at.is_empty() && fragment.position() > &*self.changed_at;
        self.keeps_head && (self.is_behind_row || is_behind_change)
    }

    /// Ends what the file has of the partition before the fragment.
    fn cut_before(&self, fragment: &Fragment<'_>, writer: &mut Writer) {
        let (position, deletion) = (fragment.position(), Deletion::NONE);
        writer.fragment(&Fragment::Change { position, deletion });
    }

    /// Goes on with the partition in another file, which begins with the fragment.
    fn go_on(&self, head: &Head<'_>, fragment: &Fragment<'_>, writer: &mut Writer) {
        writer.partition(&Head { deletion: Deletion::NONE, static_row: None, ..*head });
        if !fragment.is_change() {
            let (position, deletion) = (fragment.position(), self.written);
            writer.fragment(&Fragment::Change { position, deletion });
        }
    }

    /// Writes what is left of the fragment; gives what that cost, in bytes.
    fn fragment(&mut self, fragment: &Fragment<'_>, writer: &mut Writer) -> usize {
        match *fragment {
            Fragment::Change { position, deletion } => {
                self.in_force = deletion;
                let needless = self.partition.covers(deletion.timestamp);
                let gone = needless || self.purge.drops(deletion);
                let deletion = if gone { Deletion::NONE } else { deletion };
                (self.written, self.is_behind_row) = (deletion, false);
                self.changed_at.clear();
                self.changed_at.extend_from_slice(position);
                writer.fragment(&Fragment::Change { position, deletion });
                JOB_ENTRY_COST_BYTES + position.len()
            }
            Fragment::Row { clustering, row } => {
                self.is_behind_row = true;
                self.row.clear();
                let covering = self.partition.max(self.in_force);
                if compact(row, covering, &self.purge, &mut self.row) {
                    let row = RowRef::trusted(&self.row);
                    writer.fragment(&Fragment::Row { clustering, row });
                }
                JOB_ENTRY_COST_BYTES + clustering.len() + row.bytes().len()
            }
        }
    }
}

//! The one mechanism of compaction: a merge of views, written as fragments.
//!
//! ```text
//! view ─┐
//! view ─┼─► Merge ─► what is covered goes, what expired dies, old tombstones are purged ─► Writer
//! view ─┘                                                            (a fragment ends at a partition)
//! ```
//!
//! Invariants
//! 1. Only tokens of the views are read; a file that straddles owners gives each its own part.
//! 2. A tombstone is purged only if nothing outside the merge, memtables and live log segments included,
//!    can hold something it covers: the caller says so for each partition, at the time it is merged.
//! 3. After an error no output is left, unless its deletion fails too: the next start deletes what no manifest names.

use std::rc::Rc;

use model::row::{Purge, RowRef, compact};
use model::schema::ColumnDrops;
use model::{Deletion, Token, TokenRange};

use crate::cursor::{Cursor, Fragment, Head, Merge, Scope, Slice, Span};
use crate::error::{Error, Result};
use crate::io::{Disk, RelPath};
use crate::limits::COMPACTION_STEP_BYTES;
use crate::sstable::{
    Reading, Sstable, SstableCursor, SstableId, Writer, WriterConfig, WrittenSstable, file_name,
};

/// A view to be merged.
#[derive(Clone, Debug)]
pub struct Input {
    /// The file that is read.
    pub sstable: Rc<Sstable>,
    /// The part of it.
    pub tokens: TokenRange,
}

/// How the outputs are made.
#[derive(Clone, Debug)]
pub struct Output {
    /// Where they go.
    pub dir: RelPath,
    /// How they are written.
    pub config: WriterConfig,
    /// A fragment is ended at the first partition after so many bytes.
    pub fragment_bytes: u64,
    /// The second at which expiry is judged.
    pub now_s: u32,
    /// Tombstones made before this second are past `gc_grace_seconds`.
    pub gc_before_s: u32,
    /// Columns whose cells went with them.
    pub drops: Rc<ColumnDrops>,
    /// A longer row is [`Error::RowTooLarge`].
    pub row_bytes_max: u64,
}

/// Merges the inputs; gives the finished fragments in token order, none if nothing is left.
///
/// - `oldest_elsewhere(token, key)`: nothing of this partition outside the inputs is older than this;
///   `i64::MIN` if that is not known.
/// - `new_id` names the outputs.
/// - `pause` is awaited about every [`COMPACTION_STEP_BYTES`], so that others get their turn.
pub async fn rewrite(
    disk: &Disk,
    inputs: &[Input],
    output: &Output,
    oldest_elsewhere: impl Fn(Token, &[u8]) -> i64,
    mut new_id: impl FnMut() -> SstableId,
    pause: impl AsyncFnMut(),
) -> Result<Vec<WrittenSstable>> {
    let mut fragments = Fragments { disk, output, writer: None, finished: Vec::new() };
    let merged = merge(inputs, &mut fragments, oldest_elsewhere, &mut new_id, pause).await;
    let ended = match merged {
        Ok(()) => fragments.end().await,
        error => error,
    };
    match ended {
        Ok(()) => Ok(fragments.finished),
        Err(error) => {
            fragments.abandon().await;
            Err(error)
        }
    }
}

/// The files of one rewrite: fragments of a run, not of a partition (`cursor::Fragment`).
struct Fragments<'a> {
    disk: &'a Disk,
    output: &'a Output,
    writer: Option<(SstableId, Writer)>,
    finished: Vec<WrittenSstable>,
}

impl Fragments<'_> {
    /// The writer for the next partition.
    async fn writer(&mut self, new_id: &mut impl FnMut() -> SstableId) -> Result<&mut Writer> {
        let bytes = self.writer.as_ref().map_or(0, |(_, writer)| writer.bytes());
        if bytes >= self.output.fragment_bytes {
            self.end().await?;
        }
        let begin = || {
            let id = new_id();
            (id, Writer::new(self.disk, &self.output.dir, id, self.output.config.clone()))
        };
        Ok(&mut self.writer.get_or_insert_with(begin).1)
    }

    async fn end(&mut self) -> Result<()> {
        let Some((id, writer)) = self.writer.take() else { return Ok(()) };
        match writer.finish().await {
            Ok(Some(finished)) => {
                let tokens = |written: &WrittenSstable| written.statistics.tokens;
                let first = tokens(&finished).first;
                let follows = self.finished.last().is_none_or(|last| tokens(last).last <= first);
                assert!(follows, "the fragments of a run follow one another");
                self.finished.push(finished);
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                self.unlink(id).await;
                Err(error)
            }
        }
    }

    /// Removes every output. What cannot be removed is named by no manifest, and so goes at the next start.
    async fn abandon(&mut self) {
        if let Some((id, writer)) = self.writer.take()
            && writer.abandon().await.is_err()
        {
            self.unlink(id).await;
        }
        for finished in std::mem::take(&mut self.finished) {
            self.unlink(finished.id).await;
        }
    }

    async fn unlink(&self, id: SstableId) {
        let path = self.output.dir.join(&file_name(id));
        // The error that led here is the one to report.
        let _ = self.disk.unlink(&path).await;
    }
}

async fn merge(
    inputs: &[Input],
    fragments: &mut Fragments<'_>,
    oldest_elsewhere: impl Fn(Token, &[u8]) -> i64,
    new_id: &mut impl FnMut() -> SstableId,
    mut pause: impl AsyncFnMut(),
) -> Result<()> {
    let slices = [Slice::all()];
    let cursors: Vec<SstableCursor<'_>> = inputs
        .iter()
        .map(|input| {
            let scope = Scope::Range(input.tokens);
            let span = Span { scope, slices: &slices, reversed: false };
            input.sstable.cursor(span, Reading::Compaction)
        })
        .collect();
    let mut merged = Merge::new(cursors, false);
    let output = fragments.output;
    let drops = output.drops.clone();
    let (mut left, mut bytes) = (Left::default(), 0);
    while merged.next_partition().await? {
        let head = merged.head();
        let purge = Purge {
            now_s: fragments.output.now_s,
            gc_before_s: fragments.output.gc_before_s,
            oldest_elsewhere: oldest_elsewhere(head.token, head.key),
            drops: Some(&drops),
        };
        check_row(head.static_row, head.key, output)?;
        let writer = fragments.writer(new_id).await?;
        bytes += head.key.len();
        left.head(&head, purge, writer);
        while merged.next().await? {
            let fragment = merged.fragment();
            if let Fragment::Row { row, .. } = fragment {
                check_row(Some(row), merged.head().key, output)?;
            }
            bytes += left.fragment(&fragment, writer);
            if bytes >= COMPACTION_STEP_BYTES {
                bytes = 0;
                writer.drain().await?;
                pause().await;
            }
        }
    }
    Ok(())
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
    row: Vec<u8>,
}

impl Default for Left<'_> {
    fn default() -> Self {
        let none = Deletion::NONE;
        Left { purge: Purge::NOTHING, partition: none, in_force: none, row: Vec::new() }
    }
}

impl<'t> Left<'t> {
    fn head(&mut self, head: &Head<'_>, purge: Purge<'t>, writer: &mut Writer) {
        self.purge = purge;
        self.partition = head.deletion;
        self.in_force = Deletion::NONE;
        self.row.clear();
        let keeps = |row| compact(row, head.deletion, &purge, &mut self.row);
        let has_static = head.static_row.is_some_and(keeps);
        writer.partition(&Head {
            deletion: if purge.drops(head.deletion) { Deletion::NONE } else { head.deletion },
            static_row: has_static.then_some(RowRef::trusted(&self.row)),
            ..*head
        });
    }

    /// Writes what is left of the fragment; gives the bytes that were looked at.
    fn fragment(&mut self, fragment: &Fragment<'_>, writer: &mut Writer) -> usize {
        match *fragment {
            Fragment::Change { position, deletion } => {
                self.in_force = deletion;
                let needless = self.partition.covers(deletion.timestamp);
                let gone = needless || self.purge.drops(deletion);
                let deletion = if gone { Deletion::NONE } else { deletion };
                writer.fragment(&Fragment::Change { position, deletion });
                position.len()
            }
            Fragment::Row { clustering, row } => {
                self.row.clear();
                let covering = self.partition.max(self.in_force);
                if compact(row, covering, &self.purge, &mut self.row) {
                    let row = RowRef::trusted(&self.row);
                    writer.fragment(&Fragment::Row { clustering, row });
                }
                clustering.len() + row.bytes().len()
            }
        }
    }
}

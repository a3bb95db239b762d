//! A read of a range that several shards own: in token order, each owner piece after piece, with the first pieces of
//! later owners when one alone will not fill the page.
//!
//! ```text
//! owner 0  piece │ piece │ end    its rows fill the page: no other owner is asked
//! owner 1                piece │ ..    they do not: asked beside the next, as many owners as the page will need
//! owner 2                piece │ ..
//! ```
//!
//! Invariant: what was asked for early is used only if it [fits](RangeWalk::fits) what is left of the limits when its
//! turn comes; so the rows, the pages and the limits are those of one piece after the other.
//!
//! Pure: nothing here sends or waits (`range_read.rs` does).

use std::collections::VecDeque;

use model::TokenRange;
use model::read::{Flow, Limits, Partitions, ReadCommand, ReadEnd, Resume, RowSink};

use super::Watched;
use crate::limits::{OWNERS_AHEAD_MAX, PIECE_BYTES, PIECE_BYTES_MIN, PIECE_ROWS};
use crate::owner::ShardId;
use crate::page::Page;

/// Walks a range over its owners, piece after piece.
///
/// The next piece is known once a page has [arrived](Self::arrived), before its rows are [given](Self::give): its owner
/// can read it meanwhile.
pub struct RangeWalk<'s> {
    command: &'s ReadCommand,
    /// What is left of its limits.
    limits: Limits,
    /// Where the next piece begins.
    resume: Option<Resume>,
    /// The owners that are not read to their end.
    parts: VecDeque<(ShardId, TokenRange)>,
    sink: Watched<'s>,
    /// Where the page began that arrived last.
    before: Option<Resume>,
    rows: u64,
    tombstones: u64,
    /// Blocks that the shards read.
    blocks: u64,
    /// Blocks that the shards found in their caches.
    cached_blocks: u64,
    /// Where the next page of the whole read begins, if it ends here.
    more: Option<Resume>,
    density: Density,
    piece_bytes: u64,
}

/// How many rows an owner has, estimated from what has come.
#[derive(Clone, Copy, Default)]
struct Density {
    /// Rows that have come.
    rows: u64,
    /// Bytes of pages that have come.
    bytes: u64,
    /// Owners that were read to their end.
    owners: u64,
    /// Whether the owner in turn takes long to find rows: then all are asked that may be.
    is_rare: bool,
}

impl Density {
    /// How many owners, as dense as those read so far, fill what is left of a page. 0 until one was read to its end:
    /// before that nothing tells that one alone will not fill it, so none is asked ahead.
    fn owners_for(&self, rows_left: u64, bytes_left: u64) -> u64 {
        if self.is_rare {
            return u64::MAX;
        }
        let needed = |left: u64, come: u64| left.saturating_mul(self.owners).div_ceil(come.max(1));
        needed(rows_left, self.rows).min(needed(bytes_left, self.bytes))
    }
}

impl<'s> RangeWalk<'s> {
    /// Before the first piece, with the parts of [`split_range`](super::split_range).
    pub fn new(
        command: &'s ReadCommand,
        parts: Vec<(ShardId, TokenRange)>,
        sink: &'s mut dyn RowSink,
    ) -> RangeWalk<'s> {
        let (before, rows, tombstones, blocks, cached_blocks, more, density) = Default::default();
        RangeWalk {
            command,
            limits: command.limits,
            resume: command.resume.clone(),
            parts: parts.into(),
            sink: Watched::new(sink),
            before,
            rows,
            tombstones,
            blocks,
            cached_blocks,
            more,
            density,
            piece_bytes: PIECE_BYTES,
        }
    }

    /// With shorter pieces.
    pub fn with_piece_bytes(self, piece_bytes: u64) -> RangeWalk<'s> {
        assert!(piece_bytes >= PIECE_BYTES_MIN, "owners that are asked ahead share one");
        RangeWalk { piece_bytes, ..self }
    }

    /// Bytes of a piece, beside one row that is longer.
    pub fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// The next piece and its owner; `None` if nothing more is wanted.
    pub fn next_piece(&self) -> Option<(ShardId, ReadCommand)> {
        let part = self.parts.front().filter(|_| self.rows_left().min(self.bytes_left()) > 0)?;
        let piece =
            ReadCommand { resume: self.resume.clone(), ..self.piece(part, self.piece_bytes) };
        Some((part.0, piece))
    }

    /// How many owners are not read to their end.
    pub(crate) fn owners_left(&self) -> usize {
        self.parts.len()
    }

    /// The first pieces of the owners that will be wanted after the one that is asked, but for those that were
    /// `asked` already.
    pub fn pieces_ahead(&self, asked: usize) -> Vec<(ShardId, ReadCommand)> {
        let shares = usize::try_from(self.piece_bytes / PIECE_BYTES_MIN).unwrap_or(usize::MAX);
        let most = OWNERS_AHEAD_MAX.min((shares - 1).max(1));
        let others = self.parts.len().saturating_sub(1).min(most);
        let owners = self.density.owners_for(self.rows_left(), self.bytes_left());
        let wanted = usize::try_from(owners.saturating_sub(1)).unwrap_or(others).min(others);
        let bytes = (self.piece_bytes / (wanted + 1) as u64).max(PIECE_BYTES_MIN);
        // Twice its share: an owner that is asked early stops where the page will hardly need more of it.
        let rows = (2 * self.rows_left().min(PIECE_ROWS)).div_ceil(wanted as u64 + 1).max(1);
        let piece = |part: &(ShardId, TokenRange)| {
            let mut piece = self.piece(part, bytes);
            piece.limits.page_rows = piece.limits.page_rows.min(rows);
            (part.0, piece)
        };
        self.parts.iter().skip(1).take(wanted).skip(asked).map(piece).collect()
    }

    /// A piece from the beginning of a part.
    fn piece(&self, (_, part): &(ShardId, TokenRange), bytes: u64) -> ReadCommand {
        let (partitions, limits, resume) = (Partitions::Range(*part), self.limits, None);
        let mut piece = ReadCommand { partitions, limits, resume, ..self.command.clone() };
        piece.limits.page_bytes = piece.limits.page_bytes.min(bytes);
        piece.limits.page_rows = piece.limits.page_rows.min(PIECE_ROWS);
        piece
    }

    fn rows_left(&self) -> u64 {
        self.limits.rows.min(self.limits.page_rows)
    }

    fn bytes_left(&self) -> u64 {
        self.limits.page_bytes
    }

    /// Notes that the owner in turn takes long: its rows are rare, and so may be those of the others.
    pub fn note_slow(&mut self) {
        self.density.is_rare = true;
    }

    /// Whether the page of a piece that was asked for early is within what is left of the limits by now.
    pub fn fits(&self, page: &Page) -> bool {
        page.rows <= self.rows_left()
            && page.bytes() <= self.bytes_left()
            && page.tombstones <= self.limits.tombstones
    }

    /// Notes how far the page of the last piece has come.
    pub fn arrived(&mut self, page: &Page) {
        let limits = &mut self.limits;
        assert!(
            page.rows <= limits.rows.min(limits.page_rows),
            "a shard gives what it was asked for"
        );
        limits.rows = limits.rows.saturating_sub(page.rows);
        limits.page_rows = limits.page_rows.saturating_sub(page.rows);
        limits.page_bytes = limits.page_bytes.saturating_sub(page.bytes());
        limits.tombstones = limits.tombstones.saturating_sub(page.tombstones);
        self.tombstones += page.tombstones;
        self.blocks += page.blocks;
        self.cached_blocks += page.cached_blocks;
        self.density.rows += page.rows;
        self.density.bytes += page.bytes();
        self.density.owners += u64::from(page.more.is_none());
        if page.rows > 0 {
            self.more = page.after_last_partition();
        }
        if page.more.is_some() {
            self.more = page.more.clone();
        } else {
            self.parts.pop_front();
        }
        if self.parts.is_empty() || limits.rows == 0 {
            self.more = None;
        }
        self.before = std::mem::replace(&mut self.resume, page.more.clone());
    }

    /// Gives the rows of the page that arrived last to the sink, which may have enough before their end. `pause` as in
    /// [`Page::replay_in_turns`].
    pub async fn give(&mut self, page: &Page, pause: &impl AsyncFn()) -> Flow {
        let end = page.replay_in_turns(self.before.as_ref(), &mut self.sink, pause).await;
        self.rows += end.rows;
        if end.rows < page.rows {
            self.more = end.more;
        }
        self.sink.flow
    }

    /// How the whole read ended.
    pub fn end(self) -> ReadEnd {
        let RangeWalk { rows, tombstones, blocks, cached_blocks, more, .. } = self;
        ReadEnd { rows, tombstones, blocks, cached_blocks, more }
    }
}

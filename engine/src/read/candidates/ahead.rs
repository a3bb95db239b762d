//! Blocks that files are asked for first, read side by side before the files are gone through one after the other.
//!
//! ```text
//! file ─► filter ─► block of terms ─► blocks of the first rows ┐
//! file ─► filter ─► ..                                         ├ at once ─► the cache
//! file ─► ..                                                   ┘
//! ```
//!
//! A lookup that finds little waits for the disk for a block of terms of each file, and for a block of each row.
//!
//! 1. No more files are read ahead than the page is expected to come to, as the number of candidates tells
//!    (`lookup_cost.rs`), and [`LOOKUP_FILES_AHEAD`] of them at a time.
//! 2. One block of each file is in hand at a time, and none that is long in the file: a read of a range is counted with
//!    what that takes ([`LOOKUP_AHEAD_BYTES`](crate::limits::LOOKUP_AHEAD_BYTES)). Opened, a compressed one is longer.
//! 3. Nothing is kept but by the cache, and nothing is decided here: an error is met again when it is the file's turn.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use model::Token;
use model::read::{RowSink, Slice};

use super::{Candidates, Kind, POSTING_WORK_BYTES};
use crate::error::Result;
use crate::index::{IndexFile, TermWalk};
use crate::limits::{LOOKUP_BLOCK_AHEAD_BYTES_MAX, LOOKUP_FILES_AHEAD};
use crate::read::page::Page;
use crate::sstable::Reading;
use crate::table::View;

/// Ranges of terms of which blocks are read ahead.
const RANGES_AHEAD: usize = 4;
/// Rows of the first term of a range whose blocks are read ahead.
const ROWS_AHEAD: usize = 2;

/// What is read ahead for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) struct Ahead {
    /// This many candidates are wanted,
    pub(in crate::read) wanted: u64,
    /// and there are about so many.
    pub(in crate::read) candidates: u64,
}

impl Ahead {
    /// Whether the page wants most of the candidates, so that the first rows of each file are wanted.
    fn is_few(self) -> bool {
        self.candidates <= self.wanted.saturating_mul(2)
    }

    /// The token up to which the page comes if it goes on from `first`: twice as far, for tokens are not even.
    fn end(self, first: Token, last: Token) -> Token {
        let width = u128::from(last.biased().saturating_sub(first.biased()));
        let part = width.saturating_mul(u128::from(self.wanted.min(self.candidates)) * 2)
            / u128::from(self.candidates.max(1));
        if self.candidates == 0 || part >= width {
            return last;
        }
        // Below `last`, as the width is, which may be more than half of all tokens.
        Token(first.0.wrapping_add(part as i64))
    }
}

/// Where reading ahead goes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct AheadTo {
    last: Token,
    is_few: bool,
}

impl AheadTo {
    pub(super) fn new(ahead: Ahead, first: Token, last: Token) -> AheadTo {
        AheadTo { last: ahead.end(first, last), is_few: ahead.is_few() }
    }
}

impl Candidates<'_> {
    /// Reads what the file at `at` among the sources and some behind it are asked for first, unless it was.
    pub(super) async fn read_ahead<S: RowSink + ?Sized>(
        &mut self,
        at: usize,
        page: &mut Page<'_, S>,
    ) -> Result<()> {
        let Some(AheadTo { last, is_few }) = self.ahead else { return Ok(()) };
        let is_due = |kind: &Kind<'_>| matches!(kind, Kind::File { is_ahead: false, .. });
        let source = &self.sources[at];
        if source.begin > last || !is_due(&source.kind) {
            return Ok(());
        }
        let terms = &self.lookup.terms;
        let mut files = Vec::with_capacity(LOOKUP_FILES_AHEAD);
        // They are in the order of where they begin.
        for source in self.sources[at..].iter_mut().take_while(|source| source.begin <= last) {
            if let Kind::File { view, file, reading, is_ahead: is_ahead @ false, .. } =
                &mut source.kind
                && files.len() < LOOKUP_FILES_AHEAD
            {
                *is_ahead = true;
                files.push((&*view, &*file, *reading));
            }
        }
        let count = files.len();
        if count == 1 {
            // Nothing is beside it.
            return Ok(());
        }
        let read =
            |(view, file, reading)| Box::pin(read_first(terms, (view, file), reading, is_few));
        side_by_side(files.into_iter().map(read).collect()).await;
        page.work(count * POSTING_WORK_BYTES);
        page.pause_if_due().await
    }
}

/// Reads the blocks of the first of these terms that the file has, and of the first rows that each leads to.
async fn read_first(
    terms: &[Slice],
    (view, file): (&View, &Rc<IndexFile>),
    reading: Reading,
    is_few: bool,
) -> Result<()> {
    let mut walk = TermWalk::new(file, reading);
    for range in terms.iter().take(RANGES_AHEAD) {
        let is_there = walk.may_have(range).await? && walk.seek(&range.start).await?;
        if is_there && is_few && walk.is_below(&range.end)? {
            let mut postings = walk.postings().await?;
            for _ in 0..ROWS_AHEAD {
                let Some(place) = postings.next().await? else { break };
                if view.sstable.block_bytes(place) <= LOOKUP_BLOCK_AHEAD_BYTES_MAX {
                    view.sstable.named(place, reading).await?;
                }
            }
        }
    }
    Ok(())
}

/// Waits until all have ended, well or not.
async fn side_by_side<F: Future>(mut futures: Vec<Pin<Box<F>>>) {
    poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

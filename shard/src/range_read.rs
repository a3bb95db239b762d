//! How a range of several owners is read: which pieces are asked for when, and where they wait for their turn.
//!
//! ```text
//! turn    owner 0 ─piece─► sink ─piece─► sink, its end │ owner 1 ─piece─► sink ..     the next is read meanwhile
//! ahead                       owner 1 ─first piece─► waits     owner 2 ─first piece─► waits ..
//! ```
//!
//! 1. Rows come in the order of their tokens, whichever owner is first to answer.
//! 2. Owners are asked ahead of their turn when those before them will not fill the page: as their density tells
//!    (`scatter/range.rs`), or when the one whose turn it is takes long, as it does where a condition keeps few rows.
//! 3. A piece that came ahead and does not fit what is left of the page is asked for again, within what is left.
//! 4. Before it asks for anything a read waits, in order, for space for its pieces in a part of the core's memory: one
//!    by an index behind none of the others.
//! 5. What is still under way when the read ends, is ended at its owner.
//!
//! Not here: what one owner does for its piece (`engine/src/read`).

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Instant;

use engine::{Error, Result};
use model::read::{Flow, Partitions, ReadCommand, ReadEnd, RowSink};

use crate::limits::{
    PIECES_OF_READ, RANGE_HEDGE_DELAY, RANGE_HEDGE_DELAY_FILTERED, RANGE_HEDGE_DELAY_LOOKUP,
};
use crate::owner::ShardId;
use crate::page::Page;
use crate::protocol::Protocol;
use crate::read_pauses::ReadPauses;
use crate::scatter::{RangeWalk, split_range};
use crate::shard::{Shard, group_of};

impl<P: Protocol> Shard<P> {
    /// Reads a range of several owners, in pieces and in token order.
    pub(crate) async fn read_range(
        &self,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        deadline: Option<Instant>,
    ) -> Result<ReadEnd> {
        let Partitions::Range(range) = command.partitions else {
            unreachable!("a range crosses a border");
        };
        let parts = split_range(range, command.resume.as_ref(), self.sharder());
        let walk = RangeWalk::new(command, parts, sink).with_piece_bytes(self.piece_bytes);
        let pieces = match command.lookups.is_empty() {
            true => &self.scan_pieces,
            false => &self.lookup_pieces,
        };
        let _place = pieces.take(PIECES_OF_READ * walk.piece_bytes()).await;
        let hedge_delay = match (command.filters.is_empty(), command.lookups.is_empty()) {
            (true, true) => RANGE_HEDGE_DELAY,
            (false, true) => RANGE_HEDGE_DELAY_FILTERED,
            (_, false) => RANGE_HEDGE_DELAY_LOOKUP,
        };
        let ask = |owner, piece| self.page_of(owner, piece, deadline);
        let pauses = ReadPauses::new(self.runtime(), group_of(command));
        walk_range(walk, ask, self.runtime().sleep(hedge_delay), || pauses.yield_if_due()).await
    }
}

/// Walks a range to the end of its page. `ask` reads a piece; `hedge_delay` ends when the read has taken long;
/// `pause` is awaited while rows are given.
pub(crate) async fn walk_range<F: Future<Output = Result<Page>>>(
    mut walk: RangeWalk<'_>,
    ask: impl Fn(ShardId, ReadCommand) -> F,
    hedge_delay: impl Future<Output = ()>,
    pause: impl AsyncFn(),
) -> Result<ReadEnd> {
    let hedge_delay = pin!(hedge_delay);
    let (ahead, hedge_delay, piece_bytes) =
        (VecDeque::new(), Some(hedge_delay), walk.piece_bytes());
    let mut asked = Asked { ask, ahead, hedge_delay, piece_bytes };
    let Some(mut turn) = asked.next(&walk) else { return Ok(walk.end()) };
    loop {
        asked.fill(&walk);
        let Some(page) = asked.wait(&mut turn, walk.owners_left()).await else {
            walk.note_slow();
            continue;
        };
        if turn.is_ahead && !page.as_ref().is_ok_and(|page| walk.fits(page)) {
            turn = asked.again(&walk);
            continue;
        }
        let page = page?;
        walk.arrived(&page);
        let mut next = asked.next(&walk);
        // Its owner reads it while these rows are given.
        if let Some(next) = &mut next {
            asked.begin(next).await;
        }
        let flow = walk.give(&page, &pause).await;
        match next.filter(|_| flow == Flow::More) {
            Some(next) => turn = next,
            None => return Ok(walk.end()),
        }
    }
}

/// A piece that was asked for.
struct Piece<F> {
    owner: ShardId,
    read: Pin<Box<F>>,
    page: Option<Result<Page>>,
    /// Whether it was asked for before its turn.
    is_ahead: bool,
    /// A longer page is not held before its turn.
    bytes_max: u64,
}

impl<F: Future<Output = Result<Page>>> Piece<F> {
    fn poll(&mut self, context: &mut Context<'_>) {
        if self.page.is_none()
            && let Poll::Ready(page) = self.read.as_mut().poll(context)
        {
            // One row may be much longer than a piece: it is not held until its turn comes.
            let is_too_long = |page: &Page| self.is_ahead && page.bytes() > self.bytes_max;
            let is_too_long = page.as_ref().is_ok_and(is_too_long);
            self.page =
                Some(if is_too_long { Err(Error::Overloaded("a piece ahead")) } else { page });
        }
    }
}

/// The pieces that were asked for before their turn.
struct Asked<'p, A, F, T> {
    ask: A,
    /// In the order of the owners, from the one after that whose turn it is.
    ahead: VecDeque<Piece<F>>,
    /// `None` once it has ended.
    hedge_delay: Option<Pin<&'p mut T>>,
    piece_bytes: u64,
}

impl<A, F, T> Asked<'_, A, F, T>
where
    A: Fn(ShardId, ReadCommand) -> F,
    F: Future<Output = Result<Page>>,
    T: Future<Output = ()>,
{
    fn piece(&self, (owner, command): (ShardId, ReadCommand), is_ahead: bool) -> Piece<F> {
        let read = Box::pin((self.ask)(owner, command));
        Piece { owner, read, page: None, is_ahead, bytes_max: self.piece_bytes }
    }

    /// The piece whose turn it is: the one that was asked for ahead, else a new one; `None` at the end of the walk.
    fn next(&mut self, walk: &RangeWalk<'_>) -> Option<Piece<F>> {
        let piece = walk.next_piece()?;
        let is_asked = self.ahead.front().is_some_and(|ahead| ahead.owner == piece.0);
        if is_asked { self.ahead.pop_front() } else { Some(self.piece(piece, false)) }
    }

    /// The piece whose turn it is, within what is left of the limits.
    fn again(&self, walk: &RangeWalk<'_>) -> Piece<F> {
        self.piece(walk.next_piece().expect("it is its turn"), false)
    }

    /// Asks the owners that are wanted soon.
    fn fill(&mut self, walk: &RangeWalk<'_>) {
        for piece in walk.pieces_ahead(self.ahead.len()) {
            let piece = self.piece(piece, true);
            self.ahead.push_back(piece);
        }
    }

    /// Sends what `piece` asks for.
    async fn begin(&self, piece: &mut Piece<F>) {
        poll_fn(|context| {
            piece.poll(context);
            Poll::Ready(())
        })
        .await;
    }

    /// Waits for the page whose turn it is, while the others go on; `None`, once, if it takes long while another shard
    /// could be asked, too.
    async fn wait(&mut self, turn: &mut Piece<F>, owners_left: usize) -> Option<Result<Page>> {
        poll_fn(|context| {
            turn.poll(context);
            if turn.page.is_some() {
                return Poll::Ready(turn.page.take());
            }
            self.ahead.iter_mut().for_each(|piece| piece.poll(context));
            let hedge_delay = self.hedge_delay.as_mut().filter(|_| owners_left > 1);
            if hedge_delay.is_some_and(|hedge_delay| hedge_delay.as_mut().poll(context).is_ready())
            {
                self.hedge_delay = None;
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }
}

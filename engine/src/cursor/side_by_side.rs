//! Several moves at once, without a task for each: their reads are under way together.
//!
//! The executor is asked for nothing: whatever wakes the one task that is here, every move that is not done is polled.
//! So at most [`MOVES_AT_ONCE_MAX`] are under way.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use crate::error::Result;
use crate::limits::MOVES_AT_ONCE_MAX;

/// Makes these moves, each to its end. The first error in their order is the answer.
pub(crate) async fn side_by_side<F: Future<Output = Result<()>>>(
    moves: impl Iterator<Item = F>,
) -> Result<()> {
    let mut moves = moves;
    let mut under_way: Vec<Pin<Box<F>>> = Vec::new();
    loop {
        under_way.clear();
        under_way.extend(moves.by_ref().take(MOVES_AT_ONCE_MAX).map(Box::pin));
        if under_way.is_empty() {
            return Ok(());
        }
        all_of(&mut under_way).await?;
    }
}

async fn all_of<F: Future<Output = Result<()>>>(moves: &mut [Pin<Box<F>>]) -> Result<()> {
    let mut ends: Vec<Option<Result<()>>> = vec![None; moves.len()];
    poll_fn(|context| {
        let mut waiting = false;
        for (one, end) in moves.iter_mut().zip(&mut ends).filter(|(_, end)| end.is_none()) {
            match one.as_mut().poll(context) {
                Poll::Ready(result) => *end = Some(result),
                Poll::Pending => waiting = true,
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    ends.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_lite::future::{block_on, yield_now};

    use super::*;
    use crate::error::Error;

    #[test]
    fn moves_are_under_way_together_and_the_first_error_is_the_answer() {
        let (under_way, most) = (Cell::new(0), Cell::new(0));
        let one = |number: usize| {
            let (under_way, most) = (&under_way, &most);
            async move {
                under_way.set(under_way.get() + 1);
                most.set(most.get().max(under_way.get()));
                for _ in 0..number % 3 + 1 {
                    yield_now().await;
                }
                under_way.set(under_way.get() - 1);
                if number % 7 == 5 { Err(Error::invalid(number.to_string())) } else { Ok(()) }
            }
        };
        assert_eq!(block_on(side_by_side((0..5).map(one))), Ok(()));
        assert_eq!((under_way.get(), most.replace(0)), (0, 5));
        assert_eq!(block_on(side_by_side((0..20).map(one))), Err(Error::invalid("5")));
        assert_eq!(under_way.get(), 0, "the others came to their end");
        assert_eq!(block_on(side_by_side((0..100).filter(|n| n % 7 != 5).map(one))), Ok(()));
        assert_eq!(most.get(), MOVES_AT_ONCE_MAX);
    }
}

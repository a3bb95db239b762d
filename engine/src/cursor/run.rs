//! A run as one source: disjoint parts of files, each opened when the merge comes to its tokens.
//!
//! ```text
//! lanes_of:  views by their first token, each behind one that it does not touch
//!   lane 0  [ a ][ b ]  [ c     ]           a page that begins in c and ends in it opens c
//!   lane 1   [ d              ]  [ e ]      and d
//! ```
//!
//! 1. The parts of a lane share no token, so each key is in one of them. Two keys of one token may lie in two
//!    neighbours of a run: then those are in two lanes.
//! 2. There are as many lanes as parts cover one token at most, wherever the parts come from.

use std::collections::VecDeque;
use std::rc::Rc;

use model::TokenRange;

use super::lane::{Lane, Step};
use super::{Cursor, Fragment, Head, Scope, Slice, Span};
use crate::error::Result;
use crate::planted::{Bug, planted};
use crate::sstable::{Reading, Sstable, SstableCursor};

/// A part of a file.
#[derive(Clone, Debug)]
pub struct FilePart {
    /// The file that is read.
    pub sstable: Rc<Sstable>,
    /// The tokens that are read of it; not empty.
    pub tokens: TokenRange,
}

/// The parts in as few lanes as can be, each in the order of its tokens.
pub fn lanes_of(parts: impl IntoIterator<Item = FilePart>) -> Vec<Vec<FilePart>> {
    let mut parts: Vec<FilePart> = parts.into_iter().collect();
    parts.sort_by_key(|part| (part.tokens.first, part.tokens.last, part.sstable.id()));
    let mut lanes: Vec<Vec<FilePart>> = Vec::new();
    for part in parts {
        let is_behind = |lane: &&mut Vec<FilePart>| {
            lane.last().is_some_and(|last| last.tokens.last < part.tokens.first)
        };
        match lanes.iter_mut().find(is_behind) {
            Some(lane) => lane.push(part),
            None => lanes.push(vec![part]),
        }
    }
    lanes
}

/// Goes through the parts of one lane.
#[derive(Debug)]
pub struct RunCursor<'c> {
    parts: Parts,
    span: Span<'c>,
    reading: Reading,
    open: Option<SstableCursor<'c>>,
}

/// The parts that are not opened yet.
#[derive(Debug)]
enum Parts {
    /// Of a lane that others read, too: from this one on.
    Shared(Rc<[FilePart]>, usize),
    /// Of this cursor alone: each file is let go as soon as it is passed.
    Own(VecDeque<FilePart>),
}

impl Parts {
    fn first(&self) -> Option<&FilePart> {
        match self {
            Parts::Shared(all, next) => all.get(*next),
            Parts::Own(left) => left.front(),
        }
    }

    fn pass(&mut self) {
        match self {
            Parts::Shared(_, next) => *next += 1,
            Parts::Own(left) => drop(left.pop_front()),
        }
    }
}

impl<'c> RunCursor<'c> {
    /// A cursor over what a span of tokens has in the parts of a lane; `None` if they have none of these tokens.
    pub fn new(parts: &Rc<[FilePart]>, span: Span<'c>, reading: Reading) -> Option<RunCursor<'c>> {
        let Scope::Range(range) = span.scope else { unreachable!("a key is looked for in files") };
        let next = parts.partition_point(|part| part.tokens.last < range.first);
        RunCursor::over(Parts::Shared(parts.clone(), next), span, reading)
    }

    /// The same over all parts of a lane, each of which is let go when the cursor leaves it.
    pub fn owning(
        parts: impl IntoIterator<Item = FilePart>,
        slices: &'c [Slice],
        reading: Reading,
    ) -> Option<RunCursor<'c>> {
        let span = Span { scope: Scope::Range(TokenRange::ALL), slices, reversed: false };
        RunCursor::over(Parts::Own(parts.into_iter().collect()), span, reading)
    }

    fn over(parts: Parts, span: Span<'c>, reading: Reading) -> Option<RunCursor<'c>> {
        let mut cursor = RunCursor { parts, span, reading, open: None };
        cursor.pass_parts();
        cursor.unopened().is_some().then_some(cursor)
    }

    /// Passes the parts that have nothing in the slices.
    fn pass_parts(&mut self) {
        let slices = self.span.slices;
        while self.parts.first().is_some_and(|part| !part.sstable.may_hold(slices)) {
            self.parts.pass();
        }
    }

    fn range(&self) -> TokenRange {
        let Scope::Range(range) = self.span.scope else { unreachable!("checked when it was made") };
        range
    }

    fn in_hand(&self) -> &SstableCursor<'c> {
        self.open.as_ref().expect("a part is open after `next_partition` gave true")
    }
}

impl Cursor for RunCursor<'_> {
    async fn next_partition(&mut self) -> Result<bool> {
        if self.open.is_none() {
            let (Some(tokens), Some(part)) = (self.unopened(), self.parts.first()) else {
                return Ok(false);
            };
            let span = Span { scope: Scope::Range(tokens), ..self.span };
            self.open = Some(part.sstable.cursor(span, self.reading));
            self.parts.pass();
            if planted(Bug::RunSkipsPiece) {
                self.parts.pass();
            }
        }
        let open = self.open.as_mut().expect("it was just opened");
        let found = open.next_partition().await?;
        if !found {
            self.open = None;
            self.pass_parts();
        }
        Ok(found)
    }

    #[inline]
    fn head(&self) -> Head<'_> {
        self.in_hand().head()
    }

    #[inline]
    async fn next(&mut self) -> Result<bool> {
        let open = self.open.as_mut();
        open.expect("a part is open after `next_partition` gave true").next().await
    }

    #[inline]
    fn fragment(&self) -> Fragment<'_> {
        self.in_hand().fragment()
    }
}

impl Lane for RunCursor<'_> {
    fn may_wait(&self, step: Step) -> bool {
        self.open.as_ref().is_none_or(|open| open.may_wait(step))
    }

    fn unopened(&self) -> Option<TokenRange> {
        if self.open.is_some() {
            return None;
        }
        self.parts.first()?.tokens.intersection(&self.range())
    }

    fn newest(&self) -> i64 {
        self.open.as_ref().map_or(i64::MAX, Lane::newest)
    }

    async fn seek(&mut self, place: &[u8]) -> Result<bool> {
        let open = self.open.as_mut();
        open.expect("a part is open after `next_partition` gave true").seek(place).await
    }
}

#[cfg(test)]
mod tests;

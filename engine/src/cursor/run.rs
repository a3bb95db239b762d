//! A run as one source: parts of files one behind the other, each opened when the merge comes to it.
//!
//! ```text
//! lanes_of:  views by their first token, each behind one that it does not touch
//!   lane 0  [ a ][ b ]  [ c     ]           a page that begins in c and ends in it opens c
//!   lane 1   [ d              ]  [ e ]      and d
//!
//! one partition in five fragments of a run: each begins where the one before it, in the other lane, ends
//!   lane 0  [ 1 ]     [ 3 ]     [ 5 ]
//!   lane 1       [ 2 ]     [ 4 ]
//! ```
//!
//! 1. The parts of a lane share no token, except fragments of one partition (2.), so each key is in one part. Two
//!    keys of one token may lie in two neighbours of a run: then those are in two lanes.
//! 2. Fragments of one run that share a partition follow each other in two lanes, so that the end of a range
//!    deletion in one and its beginning in the next are in two lanes, which the merge sees at once. The lane goes from
//!    one to the next inside the partition, and never back to a partition that it has left.
//! 3. There are as many lanes as parts cover one token at most, wherever the parts come from; of fragments that share a
//!    partition two count.
//! 4. A lane of its own parts lets a file go at its last row: its space is free when it has lost its name.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use model::row::RowRef;
use model::{Deletion, Token, TokenRange};
use uuid::Uuid;

use super::merge_input::{MergeInput, Step};
use super::part::PartCursor;
use super::{Cursor, FilePart, Fragment, Head, Scope, Slice, Span};
use crate::error::Result;
use crate::planted::{Bug, planted};
use crate::sstable::{Reading, SstableId};

/// The parts in as few lanes as can be, each in the order of its tokens.
pub fn lanes_of(parts: impl IntoIterator<Item = FilePart>) -> Vec<Vec<FilePart>> {
    let mut parts: Vec<FilePart> = parts.into_iter().collect();
    parts.sort_by_key(|part| {
        (part.tokens.first, part.tokens.last, part.goes_on(), part.sstable.id())
    });
    let mut lanes: Vec<Vec<FilePart>> = Vec::new();
    // The lane of the last part of each run.
    let mut latest: BTreeMap<Uuid, usize> = BTreeMap::new();
    for part in parts {
        let neighbour = latest.get(&part.run).copied();
        let follows = |(index, lane): &(usize, &mut Vec<FilePart>)| {
            lane.last().is_some_and(|last| {
                let is_behind = last.tokens.last < part.tokens.first;
                let goes_on = last.run == part.run && part.goes_on_at(last.tokens.last);
                is_behind || (goes_on && neighbour != Some(*index))
            })
        };
        let lane = lanes.iter_mut().enumerate().find(follows).map(|(index, _)| index);
        let lane = lane.unwrap_or(lanes.len());
        latest.insert(part.run, lane);
        match lanes.get_mut(lane) {
            Some(lane) => lane.push(part),
            None => lanes.push(vec![part]),
        }
    }
    lanes
}

/// Goes through the parts of one lane.
#[derive(Debug)]
pub struct RunCursor<'c> {
    parts: UnopenedParts,
    span: Span<'c>,
    reading: Reading,
    open: Option<PartCursor<'c>>,
    /// The next part, at its first partition: that was another one than the one in hand.
    ahead: Option<Box<PartCursor<'c>>>,
    /// The head of the partition in hand, if the file that it stands in was left.
    head: Option<Box<KeptHead>>,
    /// The partition that was left, if the next part may have more of it.
    left: Option<Box<(Token, Box<[u8]>)>>,
}

/// The head of a partition.
#[derive(Debug)]
struct KeptHead {
    token: Token,
    key: Box<[u8]>,
    deletion: Deletion,
    static_row: Option<Box<[u8]>>,
}

/// The parts that are not opened yet.
#[derive(Debug)]
enum UnopenedParts {
    /// Of a lane that others read, too: from this one on.
    Shared(Rc<[FilePart]>, usize),
    /// Of this cursor alone: each file is let go as soon as it is passed.
    Own(VecDeque<FilePart>),
}

impl UnopenedParts {
    fn first(&self) -> Option<&FilePart> {
        self.rest().next()
    }

    fn rest(&self) -> impl Iterator<Item = &FilePart> {
        let (shared, own) = match self {
            UnopenedParts::Shared(all, next) => (all.get(*next..).unwrap_or_default(), None),
            UnopenedParts::Own(left) => (&[][..], Some(left)),
        };
        shared.iter().chain(own.into_iter().flatten())
    }

    fn pass(&mut self) {
        match self {
            UnopenedParts::Shared(_, next) => *next += 1,
            UnopenedParts::Own(left) => drop(left.pop_front()),
        }
    }
}

impl<'c> RunCursor<'c> {
    /// Cursors over what a span of tokens has in the parts of a lane: one, or reversed, where a part that goes on with
    /// a partition must be read before the one that began it, one for each of these.
    pub fn of_lane(
        lane: &Rc<[FilePart]>,
        span: Span<'c>,
        reading: Reading,
    ) -> impl Iterator<Item = RunCursor<'c>> {
        let goes_on = |part: &FilePart| part.goes_on() > 0;
        let lanes = match span.reversed && lane.iter().any(goes_on) {
            false => vec![lane.clone()],
            true => lane.chunk_by(|_, next| !goes_on(next)).map(Rc::from).collect(),
        };
        lanes.into_iter().filter_map(move |lane| RunCursor::new(&lane, span, reading))
    }

    /// A cursor over what a span of tokens has in the parts of a lane; `None` if they have none of these tokens.
    pub fn new(parts: &Rc<[FilePart]>, span: Span<'c>, reading: Reading) -> Option<RunCursor<'c>> {
        let Scope::Range(range) = span.scope else { unreachable!("a key is looked for in files") };
        let next = parts.partition_point(|part| part.tokens.last < range.first);
        RunCursor::over(UnopenedParts::Shared(parts.clone(), next), span, reading)
    }

    /// The same over all parts of a lane, each of which is let go when the cursor leaves it.
    pub fn owning(
        parts: impl IntoIterator<Item = FilePart>,
        slices: &'c [Slice],
        reading: Reading,
    ) -> Option<RunCursor<'c>> {
        let span = Span { scope: Scope::Range(TokenRange::ALL), slices, reversed: false };
        RunCursor::over(UnopenedParts::Own(parts.into_iter().collect()), span, reading)
    }

    fn over(parts: UnopenedParts, span: Span<'c>, reading: Reading) -> Option<RunCursor<'c>> {
        let (open, ahead, head, left) = (None, None, None, None);
        let mut cursor = RunCursor { parts, span, reading, open, ahead, head, left };
        cursor.pass_parts();
        cursor.unopened().is_some().then_some(cursor)
    }

    /// The files of which it may show more.
    pub(crate) fn files(&self) -> impl Iterator<Item = SstableId> {
        let open =
            self.open.iter().chain(self.ahead.as_deref()).map(|open| open.inner().sstable().id());
        open.chain(self.parts.rest().map(|part| part.sstable.id()))
    }

    /// The most bytes that the lane has of the partition in hand, before compression, as its files know.
    pub(crate) fn partition_bytes_max(&self) -> u64 {
        let Head { token, key, .. } = self.head();
        let open = self.open.iter().chain(self.ahead.as_deref());
        let open = open.map(|open| open.inner().sstable());
        let rest = self.parts.rest().take_while(|part| part.goes_on_at(token));
        let files = open.chain(rest.map(|part| &*part.sstable));
        files.map(|file| file.statistics().partition_bytes_max(key)).fold(0, u64::saturating_add)
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

    /// Opens the next part; `None` if it has nothing in the range.
    fn open_part(&mut self) -> Option<PartCursor<'c>> {
        let part = self.parts.first()?;
        let tokens = part.tokens.intersection(&self.range())?;
        let open = part.cursor(tokens, self.span, self.reading);
        self.parts.pass();
        if planted(Bug::RunSkipsPiece) {
            self.parts.pass();
        }
        Some(open)
    }

    /// Leaves the partition in hand; keeps its key if the lane may come to it again.
    fn leave(&mut self) {
        if self.open.is_some() || self.head.is_some() {
            let head = self.head();
            self.left = self.may_go_on().then(|| Box::new((head.token, head.key.into())));
            self.head = None;
        }
    }

    /// Whether the next part may go on with the partition in hand.
    fn may_go_on(&self) -> bool {
        let goes_on = |part: &FilePart| part.goes_on_at(self.head().token);
        self.ahead.is_some() || self.parts.first().is_some_and(goes_on)
    }

    /// Whether what is open stands in the partition that was left.
    fn is_left(&self) -> bool {
        let (Some((token, key)), Some(open)) = (self.left.as_deref(), &self.open) else {
            return false;
        };
        let head = open.head();
        (head.token, head.key) == (*token, key)
    }

    /// At the end of what a part has of a partition: goes on with it in the next part, if that does.
    #[cold]
    async fn go_on(&mut self) -> Result<bool> {
        loop {
            let token = self.head().token;
            if self.ahead.is_none() {
                self.pass_parts();
                let goes_on = self.parts.first().is_some_and(|part| part.goes_on_at(token));
                let next = if goes_on { self.open_part() } else { None };
                let Some(mut next) = next else {
                    self.let_go();
                    return Ok(false);
                };
                if !next.next_partition().await? {
                    continue;
                }
                self.ahead = Some(Box::new(next));
            }
            let (here, there) = (self.head(), self.ahead.as_deref().map(Cursor::head));
            if there.is_none_or(|there| (there.token, there.key) != (here.token, here.key)) {
                return Ok(false);
            }
            self.keep_head();
            self.open = self.ahead.take().map(|ahead| *ahead);
            if let Some(open) = &mut self.open
                && open.next().await?
            {
                return Ok(true);
            }
        }
    }

    /// Lets the file go if it has nothing more and is read by this cursor alone.
    fn let_go(&mut self) {
        let is_own = matches!(self.parts, UnopenedParts::Own(_));
        if is_own && self.open.as_ref().is_some_and(|open| open.inner().is_used_up()) {
            self.keep_head();
            self.open = None;
        }
    }

    fn keep_head(&mut self) {
        if self.head.is_none() {
            let Head { token, key, deletion, static_row } = self.head();
            let (key, static_row) = (key.into(), static_row.map(|row| row.bytes().into()));
            self.head = Some(Box::new(KeptHead { token, key, deletion, static_row }));
        }
    }
}

impl Cursor for RunCursor<'_> {
    async fn next_partition(&mut self) -> Result<bool> {
        self.leave();
        loop {
            if self.open.is_none() {
                let is_placed = self.ahead.is_some();
                self.open = match self.ahead.take() {
                    Some(ahead) => Some(*ahead),
                    None => self.open_part(),
                };
                if is_placed && !self.is_left() {
                    return Ok(true);
                }
            }
            let Some(open) = self.open.as_mut() else { return Ok(false) };
            if !open.next_partition().await? {
                self.open = None;
                self.pass_parts();
                if self.ahead.is_none() {
                    return Ok(false);
                }
            } else if !self.is_left() {
                return Ok(true);
            }
        }
    }

    #[inline]
    fn head(&self) -> Head<'_> {
        match &self.head {
            None => self.open.as_ref().expect("a part is open in a partition").head(),
            Some(head) => Head {
                token: head.token,
                key: &head.key,
                deletion: head.deletion,
                static_row: head.static_row.as_deref().map(RowRef::trusted),
            },
        }
    }

    #[inline]
    async fn next(&mut self) -> Result<bool> {
        let Some(open) = self.open.as_mut() else { return Ok(false) };
        if open.next().await? { Ok(true) } else { self.go_on().await }
    }

    #[inline]
    fn fragment(&self) -> Fragment<'_> {
        self.open.as_ref().expect("a part is open where there is a fragment").fragment()
    }
}

impl MergeInput for RunCursor<'_> {
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
        let Some(open) = &self.open else { return i64::MAX };
        if self.ahead.is_some() {
            return i64::MAX;
        }
        // The partition may go on in the next parts.
        let token = open.head().token;
        let rest = self.parts.rest().take_while(|part| part.goes_on_at(token));
        let rest = rest.map(|part| part.sstable.statistics().newest_timestamp);
        rest.fold(open.newest(), i64::max)
    }

    async fn seek(&mut self, place: &[u8]) -> Result<bool> {
        let (may_go_on, reversed) = (self.may_go_on(), self.span.reversed);
        let Some(open) = self.open.as_mut() else { return Ok(false) };
        let is_there = match may_go_on.then(|| place_before_end(open, place, reversed)) {
            None => open.seek(place).await?,
            Some(Some(place)) => open.seek(&place).await?,
            Some(None) => open.next().await?,
        };
        if is_there { Ok(true) } else { self.go_on().await }
    }
}

/// How far a part may be sought whose partition the next part goes on with: to its own last place, for behind that the
/// next part says what is in force. `None` where that place is not known (a file of several partitions), or was reached.
fn place_before_end(open: &PartCursor<'_>, place: &[u8], reversed: bool) -> Option<Box<[u8]>> {
    let sstable = open.inner().sstable();
    let [_, end] = sstable.clusterings();
    let is_before_end = open.fragment().position() < end;
    (sstable.only_key().is_some() && is_before_end && !reversed).then(|| place.min(end).into())
}

#[cfg(test)]
mod tests;

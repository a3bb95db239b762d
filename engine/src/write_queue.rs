//! Records between the log and the memtables, and the tickets that are done.
//!
//! ```text
//! push ─► waiting ─(the log has it)─► apply ─► completions ─► take
//! ```
//!
//! 1. Records leave in the order in which they came, which is the order of the log.
//! 2. Every record that ends at or before `applied` is in the memtables, or was.
//! 3. Each ticket that was pushed comes back once: with success when it is applied, with an error when the log fails.
//!    Tickets of records that the log never took come back from here, too, refused.
//! 4. An answer that says what is in records which are not applied waits until they are, and fails with them.
//!
//! The bytes of a record wait in a queue of our own until the log has them: what the log writes is cut into its
//! blocks, and a copy of a kilobyte costs less than to put it together again.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::mem;
use std::task::{Poll, Waker};

use crate::commitlog::Position;
use crate::error::{Error, Result};
use crate::limits::QUEUE_IDLE_BYTES_MAX;
use crate::newest_records::NewestRecords;

/// The writes of a shard that are under way.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    waiting: RefCell<Waiting>,
    /// Tickets that are done, and how.
    completions: RefCell<Vec<(u64, Result<()>)>>,
    answers: RefCell<Answers>,
    applied: Cell<Position>,
    newest: NewestRecords,
    /// Why the log is not written any more.
    failure: RefCell<Option<Error>>,
    /// Tasks that wait for the log to get somewhere.
    waiters: RefCell<Vec<Waker>>,
}

/// A record that the log has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// What its writer calls it.
    pub(crate) ticket: u64,
    /// Where it begins in the log.
    pub(crate) start: Position,
    /// Where it ends in the log.
    pub(crate) end: Position,
}

/// Answers that say what is in records which are not in the memtables yet.
#[derive(Debug, Default)]
struct Answers {
    /// By where these records end in the log, and in the order in which they came: a ticket and its answer.
    waiting: BTreeMap<(Position, u64), (u64, Result<()>)>,
    next: u64,
    /// What these take, and those that are done and not taken.
    bytes: usize,
}

/// What an answer takes in memory beside itself.
fn bytes_of(answer: &Result<()>) -> usize {
    match answer {
        Err(Error::NotApplied { found }) => found.len(),
        _ => 0,
    }
}

/// Records that are not in the memtables yet, each with its length in bytes.
///
/// The oldest are in `front`, those that came after it began to fill in `back`: when all of `front` is taken the two
/// change places, so that no record is ever moved. Until then the bytes that were taken stay in memory, uncounted.
#[derive(Debug, Default)]
struct Waiting {
    front: Vec<u8>,
    /// Bytes at the start of `front` that were taken; less than its length, or 0 if it is empty.
    taken: usize,
    /// Empty if `front` is.
    back: Vec<u8>,
    entries: VecDeque<(Entry, usize)>,
}

impl Waiting {
    fn push(&mut self, record: &[u8], entry: Entry) {
        let last = self.entries.back().map_or(Position::ZERO, |(last, _)| last.end);
        assert!(last <= entry.start && entry.start < entry.end, "records come as in the log");
        let bytes = if self.front.is_empty() { &mut self.front } else { &mut self.back };
        bytes.extend_from_slice(record);
        self.entries.push_back((entry, record.len()));
    }

    /// Forgets the oldest record.
    fn pop(&mut self) -> Entry {
        let (entry, len) = self.entries.pop_front().expect("only what was seen is popped");
        self.taken += len;
        assert!(self.taken <= self.front.len(), "no more is taken than was pushed");
        if self.taken == self.front.len() {
            self.taken = 0;
            self.front.clear();
            mem::swap(&mut self.front, &mut self.back);
        }
        if self.entries.is_empty() {
            assert!(self.front.is_empty(), "the last record ends where its bytes do");
            self.front.shrink_to(QUEUE_IDLE_BYTES_MAX / 2);
            self.back.shrink_to(QUEUE_IDLE_BYTES_MAX / 2);
        }
        entry
    }

    /// Bytes of the records.
    fn bytes(&self) -> usize {
        self.front.len() - self.taken + self.back.len()
    }
}

impl WriteQueue {
    /// Nothing is under way, and everything before `applied` is in the memtables.
    pub(crate) fn new(applied: Position) -> WriteQueue {
        WriteQueue {
            waiting: RefCell::default(),
            completions: RefCell::default(),
            answers: RefCell::default(),
            applied: Cell::new(applied),
            newest: NewestRecords::new(applied),
            failure: RefCell::default(),
            waiters: RefCell::default(),
        }
    }

    /// Bytes of the records that wait to be durable.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.borrow().bytes()
    }

    /// How many records are not answered yet.
    pub(crate) fn len(&self) -> usize {
        self.waiting.borrow().entries.len() + self.answers.borrow().waiting.len()
    }

    /// Waits until the answers that were not taken take no more than so many bytes; not if the log has failed.
    pub(crate) async fn until_answers_fit(&self, bytes_max: usize) {
        // A failure of the log is all that is answered then.
        let _ = self.until(|| self.answers.borrow().bytes <= bytes_max).await;
    }

    /// Where the oldest waiting record begins in the log.
    pub(crate) fn start(&self) -> Option<Position> {
        self.waiting.borrow().entries.front().map(|(entry, _)| entry.start)
    }

    /// Up to where every record is in the memtables, or was.
    pub(crate) fn applied(&self) -> Position {
        self.applied.get()
    }

    /// Takes a record that the log has taken.
    #[inline]
    pub(crate) fn push(&self, record: &[u8], entry: Entry) {
        self.waiting.borrow_mut().push(record, entry);
        self.newest.note(record, entry.end);
    }

    /// Up to where the log must be readable for all that was taken of the partitions of a record to be.
    pub(crate) fn end_of_partitions(&self, record: &[u8]) -> Position {
        self.newest.end_of(record)
    }

    /// The oldest record, to be applied, if it ends at or before `until`.
    #[inline]
    pub(crate) fn first(&self, until: Position) -> Option<(Entry, Ref<'_, [u8]>)> {
        let waiting = self.waiting.borrow();
        let (entry, len) = *waiting.entries.front().filter(|(entry, _)| entry.end <= until)?;
        Some((entry, Ref::map(waiting, |waiting| &waiting.front[waiting.taken..][..len])))
    }

    /// The oldest record is in the memtables: answers it, and who has read it.
    #[inline]
    pub(crate) fn complete_first(&self) {
        let entry = self.waiting.borrow_mut().pop();
        assert!(entry.end > self.applied.get(), "records are applied once");
        self.applied.set(entry.end);
        self.completions.borrow_mut().push((entry.ticket, Ok(())));
        self.complete_answers();
    }

    /// Everything up to here is in the memtables: the answers that say what is in it can be given.
    #[inline]
    fn complete_answers(&self) {
        let mut answers = self.answers.borrow_mut();
        while let Some(first) = answers.waiting.first_entry() {
            if first.key().0 > self.applied() {
                return;
            }
            let (ticket, answer) = first.remove();
            self.completions.borrow_mut().push((ticket, answer));
        }
    }

    /// The answer of a write that has written nothing, and has read what ends here in the log.
    pub(crate) fn complete_at(&self, until: Position, ticket: u64, answer: Result<()>) {
        if let Err(failure) = self.check() {
            return self.complete_refused(ticket, failure);
        }
        {
            let answers = &mut *self.answers.borrow_mut();
            answers.bytes += bytes_of(&answer);
            answers.waiting.insert((until, answers.next), (ticket, answer));
            answers.next += 1;
        }
        self.complete_answers();
    }

    /// Why the log has failed, if it has.
    pub(crate) fn check(&self) -> Result<()> {
        self.failure.borrow().clone().map_or(Ok(()), Err)
    }

    /// A record came to nothing: there is nothing for the log to take.
    pub(crate) fn complete_empty(&self, ticket: u64) {
        self.completions.borrow_mut().push((ticket, Ok(())));
    }

    /// A record that the log has not taken is refused.
    #[cold]
    pub(crate) fn complete_refused(&self, ticket: u64, error: Error) {
        self.completions.borrow_mut().push((ticket, Err(error)));
    }

    /// The log has failed: answers everything that waits.
    pub(crate) fn fail(&self, error: &Error) {
        let mut waiting = self.waiting.borrow_mut();
        let mut completions = self.completions.borrow_mut();
        while !waiting.entries.is_empty() {
            let entry = waiting.pop();
            completions.push((entry.ticket, Err(Error::poisoned(error))));
        }
        assert_eq!(waiting.bytes(), 0, "bytes are of a record that waits");
        let answers = &mut *self.answers.borrow_mut();
        for (ticket, answer) in mem::take(&mut answers.waiting).into_values() {
            answers.bytes -= bytes_of(&answer);
            completions.push((ticket, Err(Error::poisoned(error))));
        }
        *self.failure.borrow_mut() = Some(Error::poisoned(error));
        self.wake_waiters();
    }

    /// The log has got further: those who wait for it look again.
    pub(crate) fn wake_waiters(&self) {
        self.waiters.borrow_mut().drain(..).for_each(Waker::wake);
    }

    /// Waits until `is_there`, looked at whenever the log gets further; an error if the log fails before.
    pub(crate) async fn until(&self, is_there: impl Fn() -> bool) -> Result<()> {
        poll_fn(|cx| {
            if is_there() {
                return Poll::Ready(Ok(()));
            }
            if let Some(error) = &*self.failure.borrow() {
                return Poll::Ready(Err(error.clone()));
            }
            self.waiters.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Moves the finished tickets to `out`, in the order in which they finished.
    pub(crate) fn take_completed(&self, out: &mut Vec<(u64, Result<()>)>) {
        let taken = out.len();
        out.append(&mut self.completions.borrow_mut());
        let answers = &mut *self.answers.borrow_mut();
        if answers.bytes > 0 {
            answers.bytes -= out[taken..].iter().map(|(_, answer)| bytes_of(answer)).sum::<usize>();
            self.wake_waiters();
        }
    }

    /// Whether tickets have finished that were not taken.
    #[inline]
    pub(crate) fn has_completed(&self) -> bool {
        !self.completions.borrow().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> Entry {
        let place = |number: u64| Position::new(1, u32::try_from(number).unwrap() * 100);
        Entry { ticket: number, start: place(number), end: place(number + 1) }
    }

    /// Records come out in the order in which they went in, with their bytes, however many come while others are taken.
    #[test]
    fn records_leave_as_they_came_and_are_never_moved_behind_others() {
        let queue = WriteQueue::new(Position::ZERO);
        let record = |number: u64| vec![number as u8; 1 + number as usize * 7 % 50];
        let (mut pushed, mut popped, mut random) = (0, 0, 1_u64);
        while popped < 5000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            for _ in 0..(random >> 60) {
                queue.waiting.borrow_mut().push(&record(pushed), entry(pushed));
                pushed += 1;
            }
            for _ in 0..(random >> 56) % 20 {
                let Some((first, bytes)) = queue.first(entry(pushed).end) else { break };
                assert_eq!((first.ticket, &*bytes), (popped, &*record(popped)));
                drop(bytes);
                queue.waiting.borrow_mut().pop();
                popped += 1;
            }
            let left: usize = (popped..pushed).map(|number| record(number).len()).sum();
            assert_eq!((queue.bytes(), queue.len()), (left, (pushed - popped) as usize));
        }
    }

    /// What an empty queue keeps has a bound.
    #[test]
    fn an_empty_queue_keeps_little() {
        let mut waiting = Waiting::default();
        let record = vec![1; QUEUE_IDLE_BYTES_MAX];
        for number in 0..6 {
            waiting.push(&record, entry(number));
        }
        for _ in 0..6 {
            waiting.pop();
        }
        assert!(waiting.front.capacity() + waiting.back.capacity() <= QUEUE_IDLE_BYTES_MAX);
    }
}

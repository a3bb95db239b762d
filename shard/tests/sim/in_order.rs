//! Writes of one partition, some of which read first: they take effect in the order in which they were sent.
//!
//! ```text
//! nothing under way: the state after the last      after a crash: after some of the first, all that was answered in it
//! table emptied: the state after those that came behind it, of those that were under way the last
//! ```
//!
//! A write that read too early, that another one slipped past, or that was answered and dropped, leaves another state,
//! or was given another answer. So this is stronger than linearizable: the order is known.
//!
//! Not here: what is written (`lists.rs`, `conditional.rs`, `counters.rs`).

use std::fmt::Debug;

use engine::Error;
use engine::commitlog::SyncMode;
use engine::io::Rng;
use futures_lite::future::{yield_now, zip};
use model::Token;
use model::read::{Partitions, RowSink};
use model::schema::Table;

use crate::conditional::RowWrite;
use crate::counters::CounterWrite;
use crate::life::Life;
use crate::lists::ListWrite;
use crate::node::{Node, command};
use crate::schema::ORDERED;
use crate::world::{End, Lived, Shared, World};

/// A kind of writes of one partition of their table.
pub(crate) trait Writes: Copy + Debug + 'static {
    /// What a reader finds of the partition.
    type State: Clone + Debug + Default + PartialEq;
    /// Takes what a read of the partition finds.
    type Taken: RowSink + Default;
    /// What a writer is told.
    type Answer: Clone + Debug + PartialEq;

    /// The key of the partition: shorter than that of a note.
    const KEY: &'static [u8];
    /// Tickets of these writes are this and more, below as much again.
    const TICKETS: u64;

    /// Draws a write with this number.
    fn draw(rng: &mut Rng, number: u64) -> Self;
    /// Applies it to the partition; gives the answer that it must get.
    fn run(&self, number: u64, state: &mut Self::State) -> Self::Answer;
    /// Whether it reads first.
    fn reads(&self) -> bool;
    /// The record of it.
    fn record(&self, number: u64, table: &Table) -> Vec<u8>;
    /// What the writer was told, if the write was done or answered.
    fn answer(&self, result: Result<(), Error>) -> Result<Self::Answer, Error>;
    /// Where the world keeps what it knows of them.
    fn history(world: &mut World) -> &mut History<Self>;
    /// What of the partition its reader has taken.
    fn found(taken: Self::Taken) -> Self::State;
}

/// A write that was sent.
#[derive(Clone, Debug)]
struct Sent<W: Writes> {
    number: u64,
    write: W,
    answer: Option<W::Answer>,
}

/// What is known of a partition.
#[derive(Debug)]
pub(crate) struct History<W: Writes> {
    next: u64,
    /// The partition when the node was opened.
    before: W::State,
    /// What was sent since, in order, without what was refused.
    sent: Vec<Sent<W>>,
    emptying: Option<Emptying>,
    /// A write could not be done, and no more answers were taken: others may have been refused, too.
    has_failed: bool,
}

/// The table is being emptied, or was: somewhere between two of the writes that were sent.
#[derive(Clone, Copy, Debug)]
struct Emptying {
    /// All before these were answered when it began.
    since: usize,
    /// These were sent when it was over; `None` while it is under way.
    until: Option<usize>,
}

impl<W: Writes> Default for History<W> {
    fn default() -> Self {
        let (before, sent) = (W::State::default(), Vec::new());
        History { next: 0, before, sent, emptying: None, has_failed: false }
    }
}

impl<W: Writes> History<W> {
    /// Nothing is under way, and the partition is as it was found.
    fn begin_with(&mut self, found: W::State) {
        (self.before, self.emptying, self.has_failed) = (found, None, false);
        self.sent.clear();
    }

    /// A write was answered. Says whether it read first and was done or answered.
    pub(crate) fn answered(&mut self, ticket: u64, result: Result<(), Error>) -> Lived<bool> {
        let place = self.sent.iter().position(|sent| W::TICKETS + sent.number == ticket);
        let place = place.expect("it was sent in this life");
        let write = self.sent[place].write;
        match write.answer(result) {
            Ok(answer) => self.sent[place].answer = Some(answer),
            Err(Error::Overloaded(_) | Error::DiskFull { .. }) => {
                self.sent.remove(place);
                return Ok(false);
            }
            Err(error) => {
                self.has_failed = true;
                return Err(End::Failed(error));
            }
        }
        Ok(write.reads())
    }

    /// The partition after these that were sent, and that were emptied before one of them; `None` if one was told
    /// something else.
    fn after(&self, sent: &[&Sent<W>], emptied_at: Option<usize>) -> Option<W::State> {
        let mut state = self.before.clone();
        for (at, sent) in sent.iter().enumerate() {
            if emptied_at == Some(at) {
                state = W::State::default();
            }
            let answer = sent.write.run(sent.number, &mut state);
            if sent.answer.as_ref().is_some_and(|told| *told != answer) {
                return None;
            }
        }
        Some(if emptied_at == Some(sent.len()) { W::State::default() } else { state })
    }

    /// Before which of so many the table may have been emptied.
    fn cuts(&self, sent: usize) -> impl Iterator<Item = Option<usize>> + use<W> {
        let last = move |emptying: Emptying| emptying.until.map_or(sent, |until| until.min(sent));
        let cuts = move |emptying: Emptying| (emptying.since..=last(emptying)).map(Some);
        self.emptying.into_iter().flat_map(cuts)
    }

    /// Whether the table was not emptied, or may not have been yet.
    fn may_be_whole(&self) -> bool {
        self.emptying.is_none_or(|emptying| emptying.until.is_none())
    }

    /// Whether the partition may be so after a crash: after some of the first, among them the first `sure`. Where a
    /// write has failed, some that read first and were not answered may have met what cannot be read: nothing was done.
    fn may_be(&self, found: &W::State, sure: usize) -> bool {
        let is_doubtful =
            |sent: &&Sent<W>| self.has_failed && sent.write.reads() && sent.answer.is_none();
        let doubtful: Vec<u64> =
            self.sent.iter().filter(is_doubtful).map(|sent| sent.number).take(12).collect();
        (0..1_u32 << doubtful.len()).any(|refused| {
            let is_refused = |sent: &&Sent<W>| {
                let at = doubtful.iter().position(|number| *number == sent.number);
                at.is_some_and(|at| refused >> at & 1 == 1)
            };
            (sure..=self.sent.len()).any(|count| {
                let first: Vec<_> =
                    self.sent[..count].iter().filter(|sent| !is_refused(sent)).collect();
                let whole = self.may_be_whole().then_some(None);
                let mut cuts = self.cuts(first.len()).chain(whole);
                cuts.any(|cut| self.after(&first, cut).as_ref() == Some(found))
            })
        })
    }
}

/// Sends a few writes of a partition.
pub(crate) fn send_some<W: Writes>(life: &mut Life) -> Lived {
    for _ in 0..1 + life.rng.below(10) {
        let mut guard = life.world.borrow_mut();
        let w = &mut *guard;
        let number = W::history(w).next + 1;
        let write = W::draw(&mut life.rng, number);
        let table = crate::schema::table(&w.schema, ORDERED).expect("all tables are there");
        let (record, shard) =
            (write.record(number, table), life.node.shard_of(Token::of_key(W::KEY)));
        let history = W::history(w);
        history.next = number;
        history.sent.push(Sent { number, write, answer: None });
        drop(guard);
        if let Err(error) = life.node.engines[shard].write(&record, W::TICKETS + number) {
            let mut w = life.world.borrow_mut();
            W::history(&mut w).answered(W::TICKETS + number, Err(error))?;
        }
    }
    life.take_answers()
}

async fn read<W: Writes>(node: &Node, world: &Shared) -> Lived<W::State> {
    let (id, now_s) = (world.borrow().workload.id(ORDERED), world.borrow().workload.now_s);
    let token = Token::of_key(W::KEY);
    let partitions = Partitions::Keys(vec![(token, W::KEY.into())]);
    let engine = &node.engines[node.shard_of(token)];
    let mut taken = W::Taken::default();
    engine.read(&command(id, partitions, now_s), &mut taken, async || ()).await?;
    Ok(W::found(taken))
}

/// The node was opened: the partition is as it was after some of the writes that were under way.
pub(crate) async fn find<W: Writes>(node: &Node, world: &Shared) -> Lived {
    let found = read::<W>(node, world).await?;
    let mut w = world.borrow_mut();
    let sync = w.sync;
    let history = W::history(&mut w);
    // An answer that was read says that all that was sent before it was done. One that is no write has left nothing.
    let sure = match sync {
        SyncMode::Periodic => 0,
        SyncMode::Batch => {
            let answered = history.sent.iter().rposition(|sent| sent.answer.is_some());
            answered.map_or(0, |last| last + 1)
        }
    };
    assert!(
        history.may_be(&found, sure),
        "found {found:?} of {:?} and {sure} of {:?}",
        history.before,
        history.sent
    );
    history.begin_with(found);
    Ok(())
}

/// Empties the table, in most worlds while it is written to: nothing of what was answered before is left.
pub(crate) async fn empty(life: &mut Life) -> Lived {
    // What is answered while it is emptied is to be durable.
    let races = life.world.borrow().sync == SyncMode::Batch;
    match races {
        true => life.take_answers()?,
        false => life.answered().await?,
    }
    let id = {
        let mut w = life.world.borrow_mut();
        begin_emptying::<ListWrite>(&mut w);
        begin_emptying::<RowWrite>(&mut w);
        begin_emptying::<CounterWrite>(&mut w);
        w.workload.id(ORDERED)
    };
    let (engines, world) = (life.node.engines.clone(), life.world.clone());
    let truncate = async {
        for engine in &engines {
            engine.truncate(id).await?;
        }
        let mut w = world.borrow_mut();
        end_emptying::<ListWrite>(&mut w);
        end_emptying::<RowWrite>(&mut w);
        end_emptying::<CounterWrite>(&mut w);
        Ok::<(), Error>(())
    };
    let write = async {
        for _ in 0..if races { life.rng.below(5) } else { 0 } {
            match life.rng.below(3) {
                0 => send_some::<ListWrite>(life)?,
                1 => send_some::<RowWrite>(life)?,
                _ => send_some::<CounterWrite>(life)?,
            }
            for _ in 0..life.rng.below(6) {
                yield_now().await;
            }
        }
        Lived::Ok(())
    };
    let (truncated, written) = zip(truncate, write).await;
    truncated?;
    written?;
    life.answered().await?;
    find_emptied::<ListWrite>(&life.node, &life.world).await?;
    find_emptied::<RowWrite>(&life.node, &life.world).await?;
    find_emptied::<CounterWrite>(&life.node, &life.world).await
}

fn begin_emptying<W: Writes>(world: &mut World) {
    let history = W::history(world);
    // What waits for its turn may have it before, or behind.
    let under_way = history.sent.iter().position(|sent| sent.answer.is_none());
    let since = under_way.unwrap_or(history.sent.len());
    history.emptying = Some(Emptying { since, until: None });
    world.tally.emptied += u64::from(under_way.is_some());
}

fn end_emptying<W: Writes>(world: &mut World) {
    let history = W::history(world);
    let sent = history.sent.len();
    let emptying = history.emptying.as_mut().expect("it has begun");
    emptying.until = Some(sent);
}

async fn find_emptied<W: Writes>(node: &Node, world: &Shared) -> Lived {
    let found = read::<W>(node, world).await?;
    let mut w = world.borrow_mut();
    let history = W::history(&mut w);
    let sent: Vec<_> = history.sent.iter().collect();
    let may_be =
        history.cuts(sent.len()).any(|cut| history.after(&sent, cut) == Some(found.clone()));
    assert!(
        may_be,
        "found {found:?} of {:?}, emptied at {:?} of {sent:?}",
        history.before, history.emptying
    );
    history.begin_with(found);
    Ok(())
}

/// Nothing is under way: the partition is as all writes have left it.
pub(crate) async fn verify<W: Writes>(node: &Node, world: &Shared) -> Lived {
    let found = read::<W>(node, world).await?;
    let mut w = world.borrow_mut();
    let history = W::history(&mut w);
    let sent: Vec<_> = history.sent.iter().collect();
    let wanted = history.after(&sent, None);
    assert_eq!(Some(found), wanted, "{:?} and {sent:?}", history.before);
    Ok(())
}

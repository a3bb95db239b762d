//! Writes of one partition, some of which read first: they take effect in the order in which they were sent.
//!
//! ```text
//! nothing under way: the state after the last      after a crash: after some of the first, all that was answered in it
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
use model::Token;
use model::read::{Partitions, RowSink};
use model::schema::Table;

use crate::life::Life;
use crate::node::{Node, command};
use crate::world::{End, Lived, Shared, World};

/// A kind of writes of one partition of the notes' table.
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
    /// A write could not be done, and no more answers were taken: others may have been refused, too.
    has_failed: bool,
}

impl<W: Writes> Default for History<W> {
    fn default() -> Self {
        History { next: 0, before: W::State::default(), sent: Vec::new(), has_failed: false }
    }
}

impl<W: Writes> History<W> {
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

    /// The partition after these that were sent. What was answered has been answered rightly.
    fn after<'s>(&self, sent: impl IntoIterator<Item = &'s Sent<W>>) -> W::State {
        let mut state = self.before.clone();
        for sent in sent {
            let was = state.clone();
            let answer = sent.write.run(sent.number, &mut state);
            let told = sent.answer.clone().unwrap_or_else(|| answer.clone());
            assert_eq!(told, answer, "{sent:?} found {was:?}");
        }
        state
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
            let firsts = (sure..=self.sent.len()).map(|count| &self.sent[..count]);
            let mut states =
                firsts.map(|first| self.after(first.iter().filter(|sent| !is_refused(sent))));
            states.any(|state| state == *found)
        })
    }
}

/// Sends a few writes of a partition.
pub(crate) fn send_some<W: Writes>(life: &mut Life) -> Lived {
    for _ in 0..1 + life.rng.below(6) {
        let mut guard = life.world.borrow_mut();
        let w = &mut *guard;
        let number = W::history(w).next + 1;
        let write = W::draw(&mut life.rng, number);
        let table = crate::schema::table(&w.schema, 0).expect("all tables are there");
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
    let (id, now_s) = (world.borrow().workload.id(0), world.borrow().workload.now_s);
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
    (history.before, history.has_failed) = (found, false);
    history.sent.clear();
    Ok(())
}

/// Nothing is under way: the partition is as all writes have left it.
pub(crate) async fn verify<W: Writes>(node: &Node, world: &Shared) -> Lived {
    let found = read::<W>(node, world).await?;
    let mut w = world.borrow_mut();
    let history = W::history(&mut w);
    assert_eq!(found, history.after(&history.sent), "{:?} and {:?}", history.before, history.sent);
    Ok(())
}

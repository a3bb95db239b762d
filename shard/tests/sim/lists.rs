//! A list that plain writes add to and that writes which read first change by index: one partition of the notes' table.
//!
//! ```text
//! add in front, add behind, delete [0], set [i] ─► the state after each, in the order in which they were sent
//! nothing under way: the last state      after a crash: the state after some of the first, all that was answered in it
//! ```
//!
//! The order in which writes of one partition take effect is the order in which they came: a change that read too
//! early, or that another write slipped past, leaves another list.

use std::collections::VecDeque;

use engine::Error;
use engine::commitlog::SyncMode;
use engine::io::Rng;
use model::mutation::{ListChange, ListOp, MutationBuilder};
use model::read::Partitions;
use model::row::{Cell, RowBuilder, RowHead};
use model::{ColumnId, TableId, Token};

use crate::life::Life;
use crate::node::{Node, Taken, command};
use crate::oracle::{Value, short};
use crate::world::{End, Lived, Shared};

/// The key of the partition: shorter than that of a note.
const KEY: &[u8] = b"list";

/// Tickets of these writes are this and more.
pub(crate) const TICKETS: u64 = 1 << 40;

/// One write to the list.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// Adds an element in front of all or behind.
    Add { in_front: bool },
    /// Deletes the first element.
    Pop,
    /// Sets the element of an index.
    Set { index: usize },
}

/// A write that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    op: Op,
    answer: Option<Answer>,
}

/// How a write was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    /// There is no such element.
    OutOfBounds,
}

/// What a reader sees: path and value of each element.
type List = VecDeque<(Vec<u8>, Value)>;

/// What is known of the list.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    next: u64,
    /// The list when the node was opened.
    before: List,
    /// What was sent since, in order, without what was refused.
    sent: Vec<Sent>,
    /// A write could not be done, and no more answers were taken: others may have been refused, too.
    has_failed: bool,
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; 1 + number as usize % 5]
}

fn path(number: u64, in_front: bool) -> Vec<u8> {
    let place = if in_front { u64::MAX / 2 - number } else { u64::MAX / 2 + number };
    place.to_be_bytes().to_vec()
}

impl Sent {
    /// Applies the write to a list; gives the answer that it must get.
    fn run(&self, list: &mut List) -> Answer {
        let new = short(&value(self.number));
        match self.op {
            Op::Add { in_front: true } => list.push_front((path(self.number, true), new)),
            Op::Add { in_front: false } => list.push_back((path(self.number, false), new)),
            Op::Pop => match list.pop_front() {
                Some(_) => {}
                None => return Answer::OutOfBounds,
            },
            Op::Set { index } => match list.get_mut(index) {
                Some(element) => element.1 = new,
                None => return Answer::OutOfBounds,
            },
        }
        Answer::Done
    }

    fn reads(&self) -> bool {
        !matches!(self.op, Op::Add { .. })
    }

    fn record(&self, table: TableId, column: ColumnId) -> Vec<u8> {
        let (timestamp, value) = (self.number as i64, value(self.number));
        let mut out = Vec::new();
        let mut m = MutationBuilder::begin(&mut out, table, Token::of_key(KEY), KEY);
        let change = |op| ListChange { clustering: Some(&[]), column, timestamp, now_s: 1, op };
        match self.op {
            Op::Add { in_front } => m.row(&[], |out| {
                let path = path(self.number, in_front);
                let cell = Cell::live(column, timestamp, &value);
                let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
                row.cell(&Cell { path: Some(&path), ..cell });
            }),
            Op::Pop => m.list_change(&change(ListOp::Delete { index: 0 })),
            Op::Set { index } => {
                let (index, value) = (index as i32, Some(&value[..]));
                m.list_change(&change(ListOp::Set { index, value, expiry: None }));
            }
        }
        m.finish();
        out
    }
}

impl Lists {
    /// Draws the next write; it is not sent yet.
    fn draw(&mut self, rng: &mut Rng) -> Sent {
        self.next += 1;
        let op = match rng.below(8) {
            0..4 => Op::Add { in_front: rng.one_in(2) },
            4..7 => Op::Pop,
            _ => Op::Set { index: rng.index(4) },
        };
        Sent { number: self.next, op, answer: None }
    }

    /// A write of the list was answered. Says whether it read first and was done.
    pub(crate) fn answered(&mut self, ticket: u64, result: Result<(), Error>) -> Lived<bool> {
        let place = self.sent.iter().position(|sent| TICKETS + sent.number == ticket);
        let place = place.expect("it was sent in this life");
        let reads = self.sent[place].reads();
        let answer = match result {
            Ok(()) => Answer::Done,
            Err(Error::Invalid(text)) if text.contains("list") && reads => Answer::OutOfBounds,
            Err(Error::Overloaded(_) | Error::DiskFull { .. }) => {
                self.sent.remove(place);
                return Ok(false);
            }
            Err(error) => {
                self.has_failed = true;
                return Err(End::Failed(error));
            }
        };
        self.sent[place].answer = Some(answer);
        Ok(reads && answer == Answer::Done)
    }

    /// The list after these that were sent. What was answered has been answered rightly.
    fn after<'s>(&self, sent: impl IntoIterator<Item = &'s Sent>) -> List {
        let mut list = self.before.clone();
        for sent in sent {
            let answer = sent.run(&mut list);
            let told = sent.answer.unwrap_or(answer);
            assert_eq!(told, answer, "{sent:?} found {list:?}");
        }
        list
    }

    /// Whether the list may be this one after a crash: after some of the first, among them the first `sure`. Where a
    /// write has failed, some that read first and were not answered may have met what cannot be read: nothing was done.
    fn may_be(&self, found: &List, sure: usize) -> bool {
        let is_doubtful = |sent: &&Sent| self.has_failed && sent.reads() && sent.answer.is_none();
        let doubtful: Vec<u64> =
            self.sent.iter().filter(is_doubtful).map(|sent| sent.number).take(12).collect();
        (0..1_u32 << doubtful.len()).any(|refused| {
            let is_refused = |sent: &&Sent| {
                let at = doubtful.iter().position(|number| *number == sent.number);
                at.is_some_and(|at| refused >> at & 1 == 1)
            };
            let firsts = (sure..=self.sent.len()).map(|count| &self.sent[..count]);
            let mut lists =
                firsts.map(|first| self.after(first.iter().filter(|sent| !is_refused(sent))));
            lists.any(|list| list == *found)
        })
    }
}

/// Sends a few writes of the list.
pub(crate) fn write_list(life: &mut Life) -> Lived {
    for _ in 0..1 + life.rng.below(6) {
        let mut w = life.world.borrow_mut();
        let sent = w.lists.draw(&mut life.rng);
        let table = crate::schema::table(&w.schema, 0).expect("all tables are there");
        let column = table.column("l").expect("it has the list").id;
        let (record, shard) =
            (sent.record(table.id, column), life.node.shard_of(Token::of_key(KEY)));
        w.lists.sent.push(sent);
        drop(w);
        if let Err(error) = life.node.engines[shard].write(&record, TICKETS + sent.number) {
            life.world.borrow_mut().lists.answered(TICKETS + sent.number, Err(error))?;
        }
    }
    life.take_answers()
}

async fn read(node: &Node, world: &Shared) -> Lived<List> {
    let (id, now_s) = (world.borrow().workload.id(0), world.borrow().workload.now_s);
    let token = Token::of_key(KEY);
    let partitions = Partitions::Keys(vec![(token, KEY.into())]);
    let engine = &node.engines[node.shard_of(token)];
    let mut taken = Taken::default();
    engine.read(&command(id, partitions, now_s), &mut taken, async || ()).await?;
    let rows = taken.0.into_values().flat_map(|seen| seen.rows);
    let cells = rows.flat_map(|(_, cells)| cells);
    Ok(cells.map(|(_, path, value)| (path.expect("an element"), value)).collect())
}

/// The node was opened: the list is as it was after some of the writes that were under way.
pub(crate) async fn find_list(node: &Node, world: &Shared) -> Lived {
    let found = read(node, world).await?;
    let mut w = world.borrow_mut();
    let sure = match w.sync {
        SyncMode::Periodic => 0,
        SyncMode::Batch => {
            let answered = w.lists.sent.iter().rposition(|sent| sent.answer == Some(Answer::Done));
            answered.map_or(0, |last| last + 1)
        }
    };
    let lists = &mut w.lists;
    assert!(
        lists.may_be(&found, sure),
        "found {found:?} of {:?} and {sure} of {:?}",
        lists.before,
        lists.sent
    );
    (lists.before, lists.has_failed) = (found, false);
    lists.sent.clear();
    Ok(())
}

/// Nothing is under way: the list is as all writes have left it.
pub(crate) async fn verify_list(node: &Node, world: &Shared) -> Lived {
    let found = read(node, world).await?;
    let lists = &world.borrow().lists;
    assert_eq!(found, lists.after(&lists.sent), "{:?} and {:?}", lists.before, lists.sent);
    Ok(())
}

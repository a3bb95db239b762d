//! Logged batches over several shards: rows of the notes' table, each in a partition of its own.
//!
//! ```text
//! a batch of 2 to 5 rows ─► the product's outbox, its hands the engines of the node, slow now and then
//! after a crash   sent and not answered: all of its rows or none      answered: all      refused: none
//! ```
//!
//! At each start what is noted is sent again, also to other shards than those it was noted for. Then no half of a batch
//! may be found, what is found stays, and what is not never comes back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use engine::io::{Rng, SimExec};
use engine::{CheckedPart, Engine, Error, Job};
use futures_lite::future::yield_now;
use messina_shard::Sharder;
use messina_shard::outbox::{self, BatchesTable, Hands, Note, Part, Places, PlainPart};
use model::mutation::MutationBuilder;
use model::read::Partitions;
use model::row::{Cell as RowCell, RowBuilder, RowHead};
use model::{ColumnId, TableId, Token, TokenRange};
use uuid::Uuid;

use crate::life::{Life, do_jobs};
use crate::node::{Node, Taken, command};
use crate::world::{Lived, Shared};

/// Tickets of what an outbox writes are this and more.
pub(crate) const TICKETS: u64 = 1 << 50;

/// Bytes of the keys of these rows: no note and no other partition has as many.
const KEY_BYTES: usize = 6;

/// How often a batch is tried before a start, or its writer, goes on without it: the disk is full.
const WAITS_MAX: usize = 30;

/// What a writer knows of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It was sent, and nothing is known yet.
    Sent,
    Written,
    /// Refused, or not there after a crash.
    Nothing,
}

/// What is known of all batches.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    /// Rows and fate of each batch, by its number.
    all: BTreeMap<u32, (u8, Fate)>,
    /// Tickets that were given.
    tickets: u64,
    /// What the engines have answered, by ticket.
    answers: BTreeMap<u64, Result<(), Error>>,
    /// Batches whose writers wait, with how often each was tried in vain.
    under_way: Vec<Rc<Cell<usize>>>,
    /// There are batches that this life could not end, for want of space or of a log.
    unfinished: bool,
}

impl Batches {
    /// A write of an outbox was answered.
    pub(crate) fn answered(&mut self, ticket: u64, result: Result<(), Error>) {
        self.answers.insert(ticket, result);
    }

    /// Whether the writer of a batch waits.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.iter().any(|waits| waits.get() < WAITS_MAX)
    }
}

fn key(number: u32, row: u8) -> Vec<u8> {
    let [a, b, c, d] = number.to_be_bytes();
    vec![b'b', a, b, c, d, row]
}

fn record(table: TableId, column: ColumnId, number: u32, rows: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for row in 0..rows {
        let (key, timestamp) = (key(number, row), i64::from(number));
        let mut m = MutationBuilder::begin(&mut out, table, Token::of_key(&key), &key);
        m.row(&[], |out| {
            let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
            row.cell(&RowCell::live(column, timestamp, &[number as u8]));
        });
        m.finish();
    }
    out
}

/// The engines of a node as an outbox uses them.
struct Engines {
    engines: Vec<Rc<Engine>>,
    /// The shard whose outbox it is.
    me: usize,
    world: Shared,
    rng: RefCell<Rng>,
    waits: Rc<Cell<usize>>,
}

impl Engines {
    /// The engines of a node, for the outbox of a shard.
    fn of(node: &Node, me: usize, world: &Shared, rng: &mut Rng) -> Engines {
        let (rng, waits) = (RefCell::new(Rng::new(rng.roll())), Rc::default());
        Engines { engines: node.engines.clone(), me, world: world.clone(), rng, waits }
    }

    fn is_given_up(&self) -> bool {
        self.waits.get() >= WAITS_MAX
    }

    /// A mailbox takes its time.
    async fn travel(&self) {
        let turns = self.rng.borrow_mut().below(8);
        for _ in 0..turns {
            yield_now().await;
        }
    }

    async fn written(
        &self,
        shard: usize,
        write: impl FnOnce(&Engine, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.travel().await;
        let ticket = {
            let batches = &mut self.world.borrow_mut().batches;
            batches.tickets += 1;
            TICKETS + batches.tickets
        };
        write(&self.engines[shard], ticket)?;
        loop {
            let answer = self.world.borrow_mut().batches.answers.remove(&ticket);
            match answer {
                Some(answer) => break answer?,
                None => yield_now().await,
            }
        }
        self.engines[shard].until_answered_is_durable().await
    }
}

impl Hands for Engines {
    async fn check(&self, (owner, part): Part) -> Result<CheckedPart, Error> {
        self.travel().await;
        self.engines[owner.index()].check_part(part, yield_now).await
    }

    async fn send(&self, (owner, part): PlainPart) -> Result<(), Error> {
        self.written(owner.index(), |engine, ticket| engine.write_part(&part, ticket)).await
    }

    async fn insist(&self, (owner, part): PlainPart) -> Result<(), Error> {
        self.written(owner.index(), |engine, ticket| engine.insist(&part, ticket)).await
    }

    async fn write_here(&self, record: &[u8]) -> Result<(), Error> {
        self.written(self.me, |engine, ticket| engine.write(record, ticket)).await
    }

    async fn wait(&self) {
        self.waits.set(self.waits.get() + 1);
        if self.is_given_up() {
            self.world.borrow_mut().batches.unfinished = true;
        }
        let now_s = self.world.borrow().workload.now_s;
        for engine in &self.engines {
            while let Some(job) = engine.next_job(now_s) {
                if engine.run(job, now_s, yield_now).await.is_err() {
                    break;
                }
            }
        }
        self.travel().await;
        yield_now().await;
    }
}

fn table_of(node: &Node) -> BatchesTable {
    BatchesTable::of(&node.schema).expect("it is built in")
}

/// Writes a batch beside everything else.
pub(crate) fn write_batch(life: &mut Life, exec: &SimExec) {
    let sharder = Sharder::new(life.node.engines.len());
    let (world, table) = (life.world.clone(), table_of(&life.node));
    let (note, number, record) = {
        let w = &mut *world.borrow_mut();
        let number = w.batches.all.len() as u32 + 1;
        let rows = 2 + life.rng.below(4) as u8;
        w.batches.all.insert(number, (rows, Fate::Sent));
        let notes = crate::schema::table(&w.schema, 0).expect("all tables are there");
        let column = notes.column("v").expect("it has a value").id;
        let id = Uuid::from_u64_pair(life.rng.roll(), life.rng.roll());
        let note = Note { id, timestamp_us: number.into(), mutations: Vec::new() };
        (note, number, record(notes.id, column, number, rows))
    };
    let me = sharder.shard_of(note.token()).index();
    let hands = Engines::of(&life.node, me, &world, &mut life.rng);
    world.borrow_mut().batches.under_way.push(hands.waits.clone());
    exec.spawn(async move {
        let parts = outbox::split(&record, sharder).expect("it is a record");
        let place =
            Places::of("batches", "memory of batches").take(record.len()).expect("it is alone");
        let written = outbox::write(&hands, parts, (note, place), &table, || ()).await;
        let w = &mut *world.borrow_mut();
        let batches = &mut w.batches;
        batches.under_way.retain(|waits| !Rc::ptr_eq(waits, &hands.waits));
        let (_, fate) = batches.all.get_mut(&number).expect("it was sent");
        match written {
            Ok(()) => *fate = Fate::Written,
            Err(Error::Overloaded(_) | Error::DiskFull { .. }) => *fate = Fate::Nothing,
            // A log has failed: only the next life can say.
            Err(error) => {
                assert!(!w.faultless, "nothing had failed, and yet: {error}");
                batches.unfinished = true;
            }
        }
    });
}

/// Writes the notes of a shard out, so that some are read from files.
pub(crate) fn flush_notes(life: &mut Life, exec: &SimExec) {
    let engine = life.node.engines[life.rng.index(life.node.engines.len())].clone();
    let now_s = life.world.borrow().workload.now_s;
    let id = life.node.schema.table("system", "batches").expect("it is built in").id;
    exec.spawn(async move {
        // A failure shows in what comes after.
        let _ = engine.run(Job::Flush(id), now_s, yield_now).await;
    });
}

/// The notes of all shards.
async fn notes(node: &Node, world: &Shared) -> Lived<Vec<(usize, Note)>> {
    let (table, now_s, mut all) = (table_of(node), world.borrow().workload.now_s, Vec::new());
    for (shard, engine) in node.engines.iter().enumerate() {
        let mut resume = None;
        loop {
            let page = table.read(engine, resume, now_s, yield_now).await?;
            assert_eq!(page.unreadable, [""; 0], "what was noted is read");
            all.extend(page.notes.into_iter().map(|note| (shard, note)));
            resume = page.more;
            if resume.is_none() {
                break;
            }
        }
    }
    Ok(all)
}

/// A start: sends again what is noted.
pub(crate) async fn send_again(
    node: &Node,
    exec: &SimExec,
    world: &Shared,
    rng: &mut Rng,
) -> Lived {
    let (found, table) = (notes(node, world).await?, table_of(node));
    {
        let w = &mut *world.borrow_mut();
        let batches = &mut w.batches;
        batches.answers.clear();
        (batches.under_way, batches.unfinished) = (Vec::new(), false);
        w.tally.sent_again += found.len() as u64;
    }
    for (shard, note) in found {
        let hands = Rc::new(Engines::of(node, shard, world, rng));
        let (sharder, sent) = (Sharder::new(node.engines.len()), Rc::new(RefCell::new(None)));
        let (sender, result) = (hands.clone(), sent.clone());
        exec.spawn(async move {
            let done = outbox::send_again(&*sender, sharder, &note, &table).await;
            result.replace(Some(done));
        });
        for round in 1u32.. {
            if sent.borrow().is_some() || hands.is_given_up() {
                break;
            }
            // What waits for space gets it by a flush, or has waited long enough.
            if round.is_multiple_of(100) && node.engines.iter().any(|e| e.writes_deferred() > 0) {
                do_jobs(node, exec, world.borrow().workload.now_s);
            }
            for engine in node.engines.iter().filter(|_| round.is_multiple_of(2000)) {
                engine.give_up_deferred(engine.stats().writes_deferred);
            }
            for engine in &node.engines {
                let mut done = Vec::new();
                engine.take_completed(&mut done);
                let batches = &mut world.borrow_mut().batches;
                done.into_iter().for_each(|(ticket, result)| batches.answered(ticket, result));
            }
            yield_now().await;
        }
        sent.take().unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// The rows of each batch that are there.
async fn rows_of(node: &Node, world: &Shared) -> Lived<BTreeMap<u32, u8>> {
    let (id, now_s) = (world.borrow().workload.id(0), world.borrow().workload.now_s);
    let mut rows = BTreeMap::new();
    for engine in &node.engines {
        let mut taken = Taken::default();
        let all = Partitions::Range(TokenRange::ALL);
        engine.read(&command(id, all, now_s), &mut taken, yield_now).await?;
        for key in taken.0.keys().filter(|key| key.len() == KEY_BYTES) {
            let number: [u8; 4] = key[1..5].try_into().expect("four bytes");
            *rows.entry(u32::from_be_bytes(number)).or_default() += 1;
        }
    }
    Ok(rows)
}

/// Nothing is under way: each batch is whole or not there, as its writer knows. Of those that were under way when the
/// last life ended it is known from now on.
pub(crate) async fn verify_batches(node: &Node, world: &Shared) -> Lived {
    let found = rows_of(node, world).await?;
    let is_finished = !world.borrow().batches.unfinished;
    if is_finished {
        let left = notes(node, world).await?;
        let left: Vec<Uuid> = left.into_iter().map(|(_, note)| note.id).collect();
        assert!(left.is_empty(), "nothing is under way, and noted is {left:?}");
    }
    let w = &mut *world.borrow_mut();
    for (number, (rows, fate)) in &mut w.batches.all {
        let there = found.get(number).copied().unwrap_or(0);
        match fate {
            Fate::Sent if !is_finished => continue,
            Fate::Sent => {
                assert!(there == 0 || there == *rows, "batch {number}: {there} of {rows} rows");
                *fate = if there == 0 { Fate::Nothing } else { Fate::Written };
                w.tally.whole += u64::from(there > 0);
            }
            Fate::Written => assert_eq!(there, *rows, "batch {number} was answered"),
            Fate::Nothing => assert_eq!(there, 0, "batch {number} was never there"),
        }
    }
    Ok(())
}

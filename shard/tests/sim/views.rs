//! Materialized views of whole nodes: each shows what its definition says of its base, while writes are under way,
//! after power cuts and kills, and while views are made, built and dropped and their bases are emptied.
//!
//! ```text
//! life: open ─► what was noted is sent ─► which writes are there? ─► bases as the model ─► views built ─► views as it
//!    ─► writes, batches, views made and dropped, columns added, tables emptied, flushes, merges, time ─► .. ─► the end
//! ```
//!
//! 1. At rest each view has exactly the rows that the model makes of its base, in every second.
//! 2. Meanwhile that holds for each partition of a base that is not being written to; a view that is being built may
//!    lack rows, or cells of them, and what it has is right.
//! 3. A write leaves a note in its record, so that after a crash it is known what is there, of a batch all or nothing.
//!
//! The shards are the product's, with their mailboxes, outboxes and builds (`views/node.rs`). Not here: devices that
//! fail, disks that are full (`life.rs`), statements (`server`).

mod checks;
mod definitions;
mod node;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::Error;
use engine::commitlog::SyncMode;
use engine::io::{Crash, Faults, Rng, SimDisk};
use messina_shard::snapshots::{Removal, RemovalStep};
use messina_shard::upkeep::Upkeep;
use messina_shard::{Sharder, Ticket};
use model::{Schema, SchemaChange, TableId, Token, TokenRange};
use node::{Driven, Lived, STEPS_MAX, WAIT};
use uuid::Uuid;

use crate::node::Taken;
use crate::oracle::{Facts, Part, Record, Seen};
use crate::schema::{self, Effect, TABLES};
use crate::workload::{KEYS, Times, Workload, token};

/// A base has no more views at a time.
const VIEWS_MAX: usize = 2;

/// Tombstones of views are kept: a row of a view that comes late would be seen again behind one that was purged.
const VIEW_GC_GRACE_S: i32 = i32::MAX;

/// Fewer writes than this come at a time while a table with views is emptied.
const WRITES_WHILE_EMPTIED: u64 = 6;

/// The wall clock of a new world, in microseconds since 1970.
const BEGAN_US: i64 = 1_700_000_000_000_000;

/// How long it takes to start a node again: its clock is ahead of all the timestamps that it gave while the time of the
/// world stood still.
const START_US: i64 = 1_000_000;

/// What has happened, so that a test can see that something did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewTally {
    /// Lives after which the power went.
    pub(crate) lives: u64,
    /// Lives after which only the process went.
    pub(crate) kills: u64,
    /// Lives that were cut off before their end.
    pub(crate) cut: u64,
    pub(crate) answered: u64,
    pub(crate) refused: u64,
    /// Writes that were under way at the end of a life and were there afterwards, and the others.
    pub(crate) survived: u64,
    pub(crate) lost: u64,
    /// Of the first, batches over several shards.
    pub(crate) whole: u64,
    /// Views that were compared at rest, and while writes were under way.
    pub(crate) compared: u64,
    pub(crate) raced: u64,
    /// Rows of views that were compared.
    pub(crate) rows: u64,
    pub(crate) made: u64,
    pub(crate) dropped: u64,
    /// Views that a start found unbuilt.
    pub(crate) unbuilt: u64,
    pub(crate) altered: u64,
    pub(crate) emptied: u64,
    /// Of these, truncations of a table while it was written to.
    pub(crate) raced_truncations: u64,
    /// Conditional writes that were answered, done or not.
    pub(crate) judged: u64,
    /// Truncations that a crash has cut off.
    pub(crate) half_emptied: u64,
}

impl ViewTally {
    pub(crate) fn add(&mut self, other: &ViewTally) {
        self.lives += other.lives;
        self.kills += other.kills;
        self.cut += other.cut;
        self.answered += other.answered;
        self.refused += other.refused;
        self.survived += other.survived;
        self.lost += other.lost;
        self.whole += other.whole;
        self.compared += other.compared;
        self.raced += other.raced;
        self.rows += other.rows;
        self.made += other.made;
        self.dropped += other.dropped;
        self.unbuilt += other.unbuilt;
        self.altered += other.altered;
        self.emptied += other.emptied;
        self.raced_truncations += other.raced_truncations;
        self.judged += other.judged;
        self.half_emptied += other.half_emptied;
    }
}

/// A write that is under way.
#[derive(Debug)]
struct Sent {
    /// Of a batch several.
    records: Vec<Record>,
    /// Of a conditional write: whether it is done.
    applies: Option<bool>,
}

/// A table that is being emptied.
#[derive(Debug)]
struct Emptying {
    table: usize,
    /// The records that were sent meanwhile: each has a note in the table itself.
    raced: BTreeSet<u64>,
}

/// What survives a node.
struct World {
    rng: Rng,
    sync: SyncMode,
    gc_grace_s: i32,
    workload: Workload,
    schema: Arc<Schema>,
    /// The number that the schema has if the change that was under way was made, and what else that does.
    altering: Option<(u64, Effect)>,
    /// What must be there.
    sure: Facts,
    notes: BTreeSet<u64>,
    /// Answered in this life: with a periodic log the power may take them.
    answered: Vec<Record>,
    /// Under way, by their tickets.
    sent: BTreeMap<u32, Sent>,
    next_ticket: u32,
    /// What is not there and must never come back.
    lost: BTreeSet<u64>,
    emptying: Option<Emptying>,
    wall_us: i64,
    tally: ViewTally,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let sync = if rng.one_in(4) { SyncMode::Periodic } else { SyncMode::Batch };
        let times = if rng.one_in(2) { Times::Rising } else { Times::Mixed };
        let gc_grace_s = if times == Times::Rising { 5 } else { i32::MAX };
        let value_bytes_max = [8, 60][rng.index(2)];
        World {
            sync,
            gc_grace_s,
            workload: Workload::new(times, value_bytes_max),
            schema: definitions::built_in(),
            altering: None,
            sure: Facts::default(),
            notes: BTreeSet::new(),
            answered: Vec::new(),
            sent: BTreeMap::new(),
            next_ticket: 0,
            lost: BTreeSet::new(),
            emptying: None,
            wall_us: BEGAN_US,
            tally: ViewTally::default(),
            rng,
        }
    }

    /// What a reader sees when nothing is under way.
    fn visible(&self) -> Facts {
        let mut facts = self.sure.clone();
        self.answered.iter().for_each(|record| facts.add(record));
        facts
    }

    /// The schema is now another, with what that takes along.
    fn follow(&mut self, schema: Arc<Schema>, effect: Effect) {
        if let Effect::Added { table, column } = effect {
            self.sure.add_column((table, column));
        }
        self.workload.follow(&schema);
        self.schema = schema;
    }

    /// A table is empty, but for these of the records that were sent meanwhile.
    fn emptied(&mut self, kept: &BTreeSet<u64>) {
        let Emptying { table, raced } = self.emptying.take().expect("it was begun");
        self.sure.clear_table(table);
        for record in &mut self.answered {
            if !raced.contains(&record.number) || !kept.contains(&record.number) {
                record.facts.retain(|((of, _), _)| *of != table);
            }
        }
        self.tally.emptied += 1;
        self.tally.raced_truncations += u64::from(!raced.is_empty());
    }

    /// The id of a simulated table.
    fn id(&self, table: usize) -> TableId {
        self.workload.id(table)
    }
}

/// Lives on one disk until the power was cut `cuts` times; gives what happened, and a hash of it.
pub(crate) fn live(seed: u64, cuts: u64, tells: bool) -> (ViewTally, u64) {
    let mut world = World::new(seed);
    let mut disk = SimDisk::new(seed, Faults::default());
    let (mut trace, mut lived) = (0_u64, 0_u64..);
    while world.tally.lives < cuts {
        let life = lived.next().expect("there are numbers enough");
        let shards = 1 + world.rng.index(3);
        let crash_at_op = world.rng.one_in(2).then(|| world.rng.below(900));
        let suspensions_max = world.rng.below(4) as u32;
        if tells {
            let w = &world;
            let log = (w.sync, w.workload.times, w.gc_grace_s);
            eprintln!("life {life}: {shards} shards, {crash_at_op:?}, {suspensions_max}, {log:?}");
        }
        let (sync, wall_us, seed) = (world.sync, world.wall_us, world.rng.roll());
        let node = Driven::open(&disk, (shards, sync, wall_us), seed);
        let node = node.unwrap_or_else(|error| panic!("nothing fails, and yet: {error}"));
        disk.set_faults(Faults { suspensions_max, crash_at_op, ..Faults::default() });
        let rng = Rng::new(world.rng.roll());
        let mut life = Life { node, world: &mut world, rng, built: BTreeSet::new() };
        let lived = life.run();
        let wall_us = life.node.wall_us();
        drop(life);
        world.wall_us = wall_us + START_US;
        world.tally.cut += u64::from(lived.is_err());
        if tells {
            eprintln!("   {lived:?} {:?}", world.tally);
        }
        trace = trace.rotate_left(7) ^ disk.trace();
        if world.rng.one_in(4) {
            world.tally.kills += 1;
            disk = disk.kill();
        } else {
            world.tally.lives += 1;
            let mode = [Crash::Nothing, Crash::Everything, Crash::Random][world.rng.index(3)];
            disk = disk.crash(world.rng.roll(), mode);
        }
    }
    (world.tally, trace)
}

/// A node at work.
struct Life<'w> {
    node: Driven,
    world: &'w mut World,
    rng: Rng,
    /// Views that were found built in this life.
    built: BTreeSet<TableId>,
}

impl Life<'_> {
    fn run(&mut self) -> Lived {
        self.find_schema();
        self.node.start()?;
        self.complete_schema()?;
        self.find_records()?;
        self.verify()?;
        if let Some(table) = self.world.emptying.as_ref().map(|emptying| emptying.table) {
            self.world.tally.half_emptied += 1;
            self.empty(table)?;
            self.verify()?;
        }
        for _ in 0..20 + self.rng.below(100) {
            self.step()?;
            for _ in 0..self.rng.below(40) {
                self.node.step()?;
                self.take_answers();
            }
        }
        self.verify()
    }

    fn step(&mut self) -> Lived {
        match self.rng.below(43) {
            0..20 => self.write(),
            20..23 => self.write_batch(),
            41 => self.write_if()?,
            23..25 => self.answered()?,
            25..31 => self.check_meanwhile()?,
            31 => self.verify()?,
            32..34 => self.upkeep(),
            34..36 => {
                self.answered()?;
                for _ in 0..1 + self.rng.below(10) {
                    self.node.wait(Duration::from_secs(1))?;
                }
            }
            36..38 => self.make_view()?,
            38 => self.drop_view()?,
            39 => self.add_column()?,
            40 if self.rng.one_in(2) => {
                self.answered()?;
                let table = 1 + self.rng.index(TABLES - 1);
                self.empty(table)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The schema is what it was, or what the change made of it that was under way.
    fn find_schema(&mut self) {
        let (w, found) = (&mut *self.world, self.node.shard(0).schema());
        match w.altering.take() {
            Some((number, effect)) if number == found.number => w.follow(found, effect),
            _ => {
                assert_eq!(found.number, w.schema.number, "which schema");
                assert!(found.keyspaces().eq(w.schema.keyspaces()), "found {found:?}");
                w.workload.follow(&found);
            }
        }
    }

    /// Makes what the schema has not.
    fn complete_schema(&mut self) -> Lived {
        let gc_grace_s = self.world.gc_grace_s;
        let missing =
            |life: &mut Self| schema::missing(&life.world.schema, &mut life.rng, gc_grace_s);
        while let Some(change) = missing(self) {
            self.alter(change, Effect::Nothing)?;
        }
        Ok(())
    }

    /// Makes a change of the schema.
    fn alter(&mut self, change: SchemaChange, effect: Effect) -> Lived {
        let based_on = self.world.schema.number;
        self.world.altering = Some((based_on + 1, effect));
        let shard = self.rng.index(self.node.shards());
        let altered = self.node.run("a change of the schema", shard, async move |shard| {
            shard.alter(change, based_on).await
        })?;
        self.world.altering = None;
        self.world.follow(altered.expect("the change fits"), effect);
        Ok(())
    }

    /// Which of the records that were under way are there; all of those that were answered, unless the log is
    /// periodic.
    fn find_records(&mut self) -> Lived {
        let there = self.node.read(self.world.id(0), Taken::default())?.0;
        let there: BTreeSet<u64> = notes(&there).collect();
        let w = &mut *self.world;
        let is_periodic = w.sync == SyncMode::Periodic;
        let answered = std::mem::take(&mut w.answered).into_iter().map(|record| vec![record]);
        let answered: Vec<_> = answered.map(|records| (true, records)).collect();
        let sent = std::mem::take(&mut w.sent).into_values().map(|sent| {
            assert!(sent.applies != Some(false) || !there.contains(&sent.records[0].number));
            (false, sent.records)
        });
        for (was_answered, records) in answered.into_iter().chain(sent) {
            let is_there = there.contains(&records[0].number);
            assert!(is_there || !was_answered || is_periodic, "answered and gone: {records:?}");
            w.tally.survived += u64::from(is_there && !was_answered);
            w.tally.whole += u64::from(is_there && records.len() > 1);
            w.tally.lost += u64::from(!is_there);
            for record in records {
                assert_eq!(
                    there.contains(&record.number),
                    is_there,
                    "a half of a batch: {record:?}"
                );
                match is_there {
                    true => {
                        w.sure.add(&record);
                        w.notes.insert(record.number)
                    }
                    false => w.lost.insert(record.number),
                };
            }
        }
        let missing: Vec<&u64> = w.notes.difference(&there).collect();
        assert!(missing.is_empty(), "records {missing:?} were there and are gone");
        let risen: Vec<&u64> = w.lost.intersection(&there).collect();
        assert!(risen.is_empty(), "records {risen:?} were gone and are back");
        Ok(())
    }

    /// A record for partitions of one shard, and the shard.
    fn draw(&mut self) -> (Record, Vec<u8>) {
        let sharder = Sharder::new(self.node.shards());
        let ranges = sharder.all().map(|shard| sharder.range_of(shard));
        let has_keys = |range: &TokenRange| (0..KEYS).any(|key| range.contains(token(key)));
        let usable: Vec<TokenRange> = ranges.filter(has_keys).collect();
        let range = usable[self.rng.index(usable.len())];
        let workload = &mut self.world.workload;
        workload.now_s = self.node.now_s();
        let emptying = &mut self.world.emptying;
        let noted_in = emptying.as_ref().map(|emptying| emptying.table);
        let owns = |token: Token| range.contains(token);
        let (record, bytes) = workload.record(&mut self.rng, noted_in, owns);
        if let Some(emptying) = emptying {
            emptying.raced.insert(record.number);
        }
        (record, bytes)
    }

    fn ticket(&mut self) -> u32 {
        self.world.next_ticket += 1;
        self.world.next_ticket
    }

    /// Sends a write to any core.
    fn write(&mut self) {
        let (record, bytes) = self.draw();
        self.send(Sent { records: vec![record], applies: None }, &bytes);
    }

    fn send(&mut self, sent: Sent, bytes: &[u8]) -> u32 {
        let (ticket, shard) = (self.ticket(), self.rng.index(self.node.shards()));
        self.world.sent.insert(ticket, sent);
        if let Err(error) = self.node.shard(shard).write(bytes, Ticket::Caller(ticket)) {
            self.take_answer(ticket, Err(error));
        }
        self.take_answers();
        ticket
    }

    /// Sends a conditional write of a partition that no other is about, and waits for it: none overtakes it.
    fn write_if(&mut self) -> Lived {
        let table = 1 + self.rng.index(TABLES - 1);
        let quiet = self.quiet(table);
        if quiet.is_empty() {
            return Ok(());
        }
        let part = (table, quiet[self.rng.index(quiet.len())]);
        let (now_s, exists) = (self.node.now_s(), self.rng.one_in(2));
        let before = self.world.visible().seen(part, now_s);
        self.world.workload.now_s = now_s;
        let (record, bytes, at) = self.world.workload.conditional(&mut self.rng, part, exists);
        let is_there = before.rows.iter().any(|(place, _)| *place == at);
        let sent = Sent { records: vec![record], applies: Some(is_there == exists) };
        let ticket = self.send(sent, &bytes);
        self.until_answered(|sent| !sent.contains_key(&ticket))
    }

    /// Sends a logged batch of two records, perhaps of two shards.
    fn write_batch(&mut self) {
        let ((a, mut bytes), (b, more)) = (self.draw(), self.draw());
        let (ticket, timestamp_us) = (self.ticket(), self.node.wall_us());
        bytes.extend(more);
        self.world.sent.insert(ticket, Sent { records: vec![a, b], applies: None });
        let ids = Cell::new(self.rng.roll());
        let id = || {
            ids.set(ids.get().wrapping_add(1));
            Uuid::from_u64_pair(ids.get(), u64::from(ticket))
        };
        let shard = self.node.shard(self.rng.index(self.node.shards())).clone();
        if let Err(error) = shard.write_batch(&bytes, ticket, id, timestamp_us) {
            self.take_answer(ticket, Err(error));
        }
        self.take_answers();
    }

    fn take_answers(&mut self) {
        for (ticket, result) in self.node.answers() {
            self.take_answer(ticket, result);
        }
    }

    fn take_answer(&mut self, ticket: u32, result: Result<(), Error>) {
        let w = &mut *self.world;
        let Sent { records, applies } = w.sent.remove(&ticket).expect("a write is answered once");
        w.tally.judged += u64::from(applies.is_some());
        match result {
            Ok(()) if applies != Some(false) => {
                w.tally.answered += 1;
                w.answered.extend(records);
            }
            Err(Error::Overloaded(_) | Error::DiskFull { .. }) => {
                w.tally.refused += 1;
                w.lost.extend(records.iter().map(|record| record.number));
            }
            Err(Error::NotApplied { .. }) if applies == Some(false) => {
                w.lost.extend(records.iter().map(|record| record.number));
            }
            other => panic!("answered {other:?}, and done is {applies:?}"),
        }
    }

    /// Waits until everything is answered.
    fn answered(&mut self) -> Lived {
        self.until_answered(BTreeMap::is_empty)
    }

    /// Waits until what is under way is so.
    fn until_answered(&mut self, is_so: impl Fn(&BTreeMap<u32, Sent>) -> bool) -> Lived {
        self.take_answers();
        for _ in 0..STEPS_MAX {
            if is_so(&self.world.sent) {
                return Ok(());
            }
            if !self.node.step()? {
                self.node.advance(WAIT);
            }
            self.take_answers();
        }
        panic!("never answered: {:?}", self.world.sent);
    }

    /// Partitions of a table that no write under way is about.
    fn quiet(&self, table: usize) -> Vec<u8> {
        let sent: BTreeSet<Part> = self
            .world
            .sent
            .values()
            .flat_map(|sent| &sent.records)
            .flat_map(|record| record.facts.iter().map(|(part, _)| *part))
            .collect();
        (0..KEYS).filter(|key| !sent.contains(&(table, *key))).collect()
    }

    /// Writes tables out or merges their files, beside everything else.
    fn upkeep(&mut self) {
        let w = &self.world;
        let table = self.rng.index(TABLES);
        let mut ids = vec![w.id(table)];
        if table > 0 {
            ids.extend(definitions::views_of(&w.schema, table).iter().map(|view| view.id));
        }
        let task = if self.rng.one_in(2) {
            Upkeep::Flush(ids.into())
        } else {
            Upkeep::Compact(ids.into())
        };
        let shard = self.rng.index(self.node.shards());
        // A table may be dropped meanwhile.
        self.node.begin(shard, async move |shard| drop(shard.upkeep(&task).await));
    }

    /// Makes a view of a table that has not too many; it is built beside everything else.
    fn make_view(&mut self) -> Lived {
        let table = 1 + self.rng.index(TABLES - 1);
        if definitions::views_of(&self.world.schema, table).len() >= VIEWS_MAX {
            return Ok(());
        }
        let view = definitions::draw(&self.world.schema, table, &mut self.rng, VIEW_GC_GRACE_S);
        self.world.tally.made += 1;
        self.alter(SchemaChange::CreateTable(Box::new(view)), Effect::Nothing)
    }

    fn drop_view(&mut self) -> Lived {
        let table = 1 + self.rng.index(TABLES - 1);
        let views = definitions::views_of(&self.world.schema, table);
        if views.is_empty() {
            return Ok(());
        }
        // A write that waits with rows of a view that is dropped is refused.
        self.answered()?;
        let view = &views[self.rng.index(views.len())];
        self.world.tally.dropped += 1;
        self.alter(definitions::drop_of(view), Effect::Nothing)
    }

    /// Adds a column to a table, and to those of its views that show all.
    fn add_column(&mut self) -> Lived {
        let number = 1 + self.rng.index(TABLES - 1);
        let views = definitions::views_of(&self.world.schema, number);
        let mut table =
            schema::table(&self.world.schema, number).expect("all tables are there").clone();
        let effect = schema::add_column(number, &mut table, &mut self.rng);
        let follow = views.iter().map(|view| view.following(&table).expect("a sound view"));
        let follow: Vec<_> = follow.collect();
        self.world.tally.altered += 1;
        let tables = [table].into_iter().chain(follow).collect();
        self.alter(SchemaChange::AlterTables(tables), effect)
    }

    /// Empties a table and its views, perhaps while it is written to: all that was there before goes.
    fn empty(&mut self, table: usize) -> Lived {
        let writes =
            if self.world.emptying.is_none() { self.rng.below(WRITES_WHILE_EMPTIED) } else { 0 };
        self.world.emptying = Some(Emptying { table, raced: BTreeSet::new() });
        let (id, shard) = (self.world.id(table), self.rng.index(self.node.shards()));
        let removal = Removal { step: RemovalStep::Truncate(id), order: None };
        let emptied = self.node.begin(shard, async move |shard| shard.remove(removal).await);
        for _ in 0..writes {
            for _ in 0..self.rng.below(60) {
                self.node.step()?;
                self.take_answers();
            }
            self.write();
        }
        self.node.until("a truncation", |_| emptied.borrow().is_some())?;
        emptied.take().expect("it was just there").expect("nothing fails");
        self.answered()?;
        let there = self.node.read(id, Taken::default())?.0;
        let kept = notes(&there).collect();
        self.world.emptied(&kept);
        Ok(())
    }
}

/// The numbers of the records that have a note in what was read.
fn notes(there: &BTreeMap<Vec<u8>, Seen>) -> impl Iterator<Item = u64> {
    there.keys().filter_map(|key| Some(u64::from_be_bytes(key[..].try_into().ok()?)))
}

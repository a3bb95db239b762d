//! One life of a node after another: open, work, lose power, and be asked what is still there.
//!
//! 1. A life boots, compares the schema, decides which records that were under way survived (`find_records`) and
//!    compares everything with the oracle; then come random steps, and everything is compared again.
//! 2. Every record has its number as a row of table 0, so after a power cut it is known which are there: of each log
//!    the first ones that it took.
//! 3. An error fails the test only if no fault was injected (`World::faultless`).
//!
//! Not here: which faults (`world.rs`), the comparisons (`checks.rs`).

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use engine::commitlog::SyncMode;
use engine::io::{Crash, Disk, Faults, Outcome, Rng, SimDisk, SimExec};
use engine::{Error, Job};
use futures_lite::future::{yield_now, zip};
use model::read::Partitions;
use model::schema::SchemaEntry;
use model::{Schema, SchemaChange, Token, TokenRange};
use uuid::Uuid;

use crate::batches::{self, flush_notes, verify_batches, write_batch};
use crate::checks::verify_all;
use crate::conditional::RowWrite;
use crate::counters::CounterWrite;
use crate::in_order::{Writes, empty, find, send_some, verify};
use crate::lists::ListWrite;
use crate::node::{self, Node, RESERVE_BYTES, Taken, command};
use crate::schema::{self, Effect, ORDERED, TABLES};
use crate::workload::{KEYS, NOTE_BYTES, token};
use crate::world::{End, Lived, Shared, Tally, World};

/// How often an operator asks for one major compaction.
const ASKED_MAX: usize = 50;
/// How many sstables a shard keeps open where descriptors are few.
const FILES_MAX: usize = 3;

/// Lives on one disk until the power was cut `cuts` times; gives what happened, and a hash of it.
pub(crate) fn live(seed: u64, cuts: u64, tells: bool) -> (Tally, u64) {
    let world = Rc::new(RefCell::new(World::new(seed)));
    let mut disk = SimDisk::new(seed, Faults::default());
    let (mut trace, mut lived) = (0u64, 0u64..);
    while world.borrow().tally.lives < cuts {
        let life = lived.next().expect("there are numbers enough");
        let (is_full, faults, shards) = world.borrow_mut().next_life(&disk);
        disk.set_faults(faults.clone());
        // In every second world files are closed and opened again all the time.
        disk.set_files_max(if seed.is_multiple_of(2) { usize::MAX } else { FILES_MAX });
        if tells {
            eprintln!("life {life}: {shards} shards, {faults:?}");
        }
        let exec = SimExec::powered_by(&disk, seed ^ life.wrapping_mul(0x9E37_79B9));
        let (inner, shared, node_disk) = (exec.clone(), world.clone(), Disk::Sim(disk.clone()));
        let outcome =
            exec.run(async move { one_life(&node_disk, &inner, &shared, (shards, is_full)).await });
        exec.end();
        assert_eq!(Rc::strong_count(&world), 1, "a life is over with all that it held");
        let mut world = world.borrow_mut();
        if tells {
            eprintln!("   {outcome:?} {:?}", world.tally);
        }
        match outcome {
            Outcome::Done(Ok(())) => {}
            Outcome::Stalled => assert!(disk.is_crashed(), "everybody waits with the power on"),
            Outcome::Done(Err(End::Failed(error))) => {
                assert!(!world.faultless, "nothing had failed, and yet: {error}");
                world.tally.failed += 1;
            }
        }
        trace = trace.rotate_left(7) ^ disk.trace();
        if world.kills && world.rng.one_in(4) {
            world.tally.kills += 1;
            disk = disk.kill();
            world.damage(&disk);
            continue;
        }
        world.tally.lives += 1;
        let mode = [Crash::Nothing, Crash::Everything, Crash::Random][world.rng.index(3)];
        disk = disk.crash(world.rng.roll(), mode);
        world.damage(&disk);
    }
    let tally = world.borrow().tally;
    (tally, trace)
}

/// Steps of a life. Two of three lives are short: as many power cuts then fall into a start, or the start after it, as
/// into work, and a run has twice as many in the same time.
fn steps(rng: &mut Rng) -> u64 {
    if rng.one_in(3) { 20 + rng.below(120) } else { rng.below(10) }
}

async fn one_life(
    disk: &Disk,
    exec: &SimExec,
    world: &Shared,
    (shards, is_full): (usize, bool),
) -> Lived {
    let (mut rng, sync) = {
        let mut w = world.borrow_mut();
        (Rng::new(w.rng.roll()), w.sync)
    };
    let mut node = node::open(disk, exec, shards, sync, &mut rng).await?;
    world.borrow_mut().dealt_to = Some(shards);
    find_schema(&node.schema, world);
    complete_schema(&mut node, world, &mut rng).await?;
    find_records(&node, world).await?;
    batches::send_again(&node, exec, world, &mut rng).await?;
    verify_batches(&node, world).await?;
    find::<ListWrite>(&node, world).await?;
    find::<RowWrite>(&node, world).await?;
    find::<CounterWrite>(&node, world).await?;
    verify_all(&node, world, &mut rng).await?;
    {
        let mut w = world.borrow_mut();
        w.tally.opened += 1;
        w.tally.dealt += u64::from(std::mem::replace(&mut w.shards, shards) != shards);
    }
    let mut life = Life { node, exec: exec.clone(), world: world.clone(), rng };
    if is_full {
        return life.on_a_full_disk().await;
    }
    for _ in 0..steps(&mut life.rng) {
        life.step().await?;
    }
    life.answered().await?;
    verify_batches(&life.node, world).await?;
    verify::<ListWrite>(&life.node, world).await?;
    verify::<RowWrite>(&life.node, world).await?;
    verify::<CounterWrite>(&life.node, world).await?;
    verify_all(&life.node, world, &mut life.rng).await?;
    for stats in life.node.engines.iter().map(|engine| engine.stats()) {
        let tally = &mut world.borrow_mut().tally;
        tally.flushes += stats.flushes;
        tally.compactions += stats.compactions;
        tally.beside += stats.compactions_beside;
        tally.parted += stats.shared_files_deleted;
        tally.adopted += stats.compaction_fragments.saturating_sub(stats.compactions);
    }
    Ok(())
}

/// The schema is what it was, or what the change made of it that was under way.
fn find_schema(found: &Arc<Schema>, world: &Shared) {
    let mut w = world.borrow_mut();
    if let Some((next, effect)) = w.altering.take_if(|(next, _)| next.number == found.number) {
        w.follow(next, &effect);
        w.tally.altered_late += 1;
    }
    w.altering = None;
    let wanted = &w.schema;
    assert_eq!((found.number, found.version), (wanted.number, wanted.version), "which schema");
    assert!(found.keyspaces().eq(wanted.keyspaces()), "found {found:?}, wanted {wanted:?}");
    assert_eq!(found.dropped_tables(), wanted.dropped_tables(), "which tables were dropped");
}

/// Makes what the schema has not: at the first start everything, later a table whose successor was not made.
async fn complete_schema(node: &mut Node, world: &Shared, rng: &mut Rng) -> Lived {
    let gc_grace_s = world.borrow().gc_grace_s;
    while let Some(mut change) = schema::missing(&node.schema, rng, gc_grace_s) {
        schema::add_vectors(&mut change, rng);
        alter(node, world, rng, change, Effect::Nothing).await?;
    }
    let schema = node.schema.clone();
    world.borrow_mut().workload.follow(&schema);
    Ok(())
}

/// Makes a change of the schema, and knows of it when it is durable.
async fn alter(
    node: &mut Node,
    world: &Shared,
    rng: &mut Rng,
    change: SchemaChange,
    effect: Effect,
) -> Lived {
    let version = Uuid::from_u64_pair(rng.roll(), rng.roll());
    let entry = SchemaEntry { number: node.schema.number + 1, version, change };
    let next = Arc::new(node.schema.apply(&entry).expect("the change fits"));
    world.borrow_mut().altering = Some((next.clone(), effect));
    node.alter(entry.change, version).await?;
    let mut w = world.borrow_mut();
    w.altering = None;
    w.follow(next, &effect);
    Ok(())
}

/// Which of the records that were under way are there: those that came first, and never more than were taken. Only what
/// waited for space when its table was dropped is refused when its turn comes, and need not have been answered so.
async fn find_records(node: &Node, world: &Shared) -> Lived {
    let (id, now_s) = (world.borrow().workload.id(0), world.borrow().workload.now_s);
    let mut there = BTreeSet::new();
    for engine in &node.engines {
        let mut taken = Taken::default();
        let all = Partitions::Range(TokenRange::ALL);
        engine.read(&command(id, all, now_s), &mut taken, yield_now).await?;
        let number = |key: &Vec<u8>| u64::from_be_bytes(key.as_slice().try_into().expect("a note"));
        let notes = taken.0.keys().filter(|key| key.len() == NOTE_BYTES);
        there.extend(notes.map(number));
    }
    let mut w = world.borrow_mut();
    for records in std::mem::take(&mut w.unsure) {
        let mut cut = false;
        for record in records {
            let is_there = there.contains(&record.number);
            assert!(!(cut && is_there), "a hole before record {}", record.number);
            cut |= !is_there && !record.may_be_refused;
            if is_there {
                w.sure.add(&record);
                w.notes.insert(record.number);
                w.tally.survived += 1;
            } else {
                w.lost.insert(record.number);
                w.tally.lost += 1;
            }
        }
    }
    let missing: Vec<&u64> = w.notes.difference(&there).collect();
    assert!(missing.is_empty(), "records {missing:?} were answered and are gone");
    let risen: Vec<&u64> = w.lost.intersection(&there).collect();
    assert!(risen.is_empty(), "records {risen:?} were gone and are back");
    w.unsure = node.engines.iter().map(|_| VecDeque::new()).collect();
    Ok(())
}

/// Empties a table while nothing else is under way.
pub(crate) async fn truncate(node: &Node, world: &Shared, table: usize) -> Lived {
    begin_truncate(world, table);
    let id = world.borrow().workload.id(table);
    for engine in &node.engines {
        engine.truncate(id).await?;
    }
    let mut w = world.borrow_mut();
    w.truncating = None;
    w.tally.truncated += 1;
    // It waits until all that was applied is durable: nothing is unsure any more.
    for record in std::mem::take(&mut w.unsure).into_iter().flatten() {
        w.sure.add(&record);
        w.notes.insert(record.number);
    }
    w.unsure = node.engines.iter().map(|_| VecDeque::new()).collect();
    w.sure.clear_table(table);
    Ok(())
}

/// A truncation that a power cut ended is begun again as it was: of what came while the first ran, the last may have
/// stayed until the second is through.
fn begin_truncate(world: &Shared, table: usize) {
    let mut w = world.borrow_mut();
    let begun = w.truncating.take().unwrap_or_else(|| w.truncation(table));
    assert_eq!(begun.table, table, "one truncation at a time");
    w.truncating = Some(begun);
}

/// A node at work.
pub(crate) struct Life {
    pub(crate) node: Node,
    exec: SimExec,
    pub(crate) world: Shared,
    pub(crate) rng: Rng,
}

impl Life {
    /// The disk is full to the last byte: writes are refused by name, what was written is read, tables are emptied and
    /// dropped, and with the space that this makes writes go on.
    async fn on_a_full_disk(&mut self) -> Lived {
        self.measure_space().await?;
        let refused = self.world.borrow().tally.refused;
        for _ in 0..5 {
            self.write()?;
        }
        // What the last life has left half done may have been deleted at the start: then there is space.
        let is_full = self.world.borrow().tally.refused == refused + 5;
        self.answered().await?;
        verify_all(&self.node, &self.world, &mut self.rng).await?;
        for table in 1..TABLES {
            truncate(&self.node, &self.world, table).await?;
        }
        self.recreate().await?;
        self.work();
        self.measure_space().await?;
        let refused = self.world.borrow().tally.refused;
        for _ in 0..5 {
            self.write()?;
        }
        self.answered().await?;
        {
            let tally = &mut self.world.borrow_mut().tally;
            tally.full += u64::from(is_full);
            tally.resumed += u64::from(is_full && tally.refused == refused);
        }
        verify_all(&self.node, &self.world, &mut self.rng).await
    }

    async fn measure_space(&self) -> Lived {
        for engine in &self.node.engines {
            engine.measure_space(RESERVE_BYTES).await?;
        }
        Ok(())
    }

    async fn step(&mut self) -> Lived {
        match self.rng.below(46) {
            0..20 => self.write()?,
            20 => send_some::<ListWrite>(self)?,
            21 => send_some::<RowWrite>(self)?,
            42 => send_some::<CounterWrite>(self)?,
            43..45 => {
                let exec = self.exec.clone();
                write_batch(self, &exec);
                if self.rng.one_in(6) {
                    flush_notes(self, &exec);
                }
            }
            45 if self.rng.one_in(2) => empty(self).await?,
            22..24 => self.answered().await?,
            24..27 => self.check_partition()?,
            27..29 => self.check_slices().await?,
            29 => {
                self.answered().await?;
                verify::<ListWrite>(&self.node, &self.world).await?;
                verify::<RowWrite>(&self.node, &self.world).await?;
                verify::<CounterWrite>(&self.node, &self.world).await?;
                verify_all(&self.node, &self.world, &mut self.rng).await?;
            }
            30..33 => self.flush(),
            33..36 => self.work(),
            36 => self.world.borrow_mut().workload.now_s += 1 + self.rng.below(10) as u32,
            37 if self.rng.one_in(3) => {
                let table = 1 + self.rng.index(TABLES - 1);
                self.answered().await?;
                let sync = self.world.borrow().sync;
                match sync {
                    SyncMode::Batch => self.race_truncate(table).await?,
                    SyncMode::Periodic => truncate(&self.node, &self.world, table).await?,
                }
            }
            38 if self.rng.one_in(2) => self.alter().await?,
            38 if self.rng.one_in(2) => self.recreate().await?,
            39 => self.node.engines.iter().for_each(|engine| engine.claim_log()),
            40 => self.race_read().await?,
            _ => yield_now().await,
        }
        Ok(())
    }

    /// Writes a few records, now and then letting others run.
    pub(crate) async fn write_some(&mut self) -> Lived {
        for _ in 0..1 + self.rng.below(6) {
            self.write()?;
            for _ in 0..self.rng.below(4) {
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Empties a table while it is written to: all that was said before goes, and of what came meanwhile what the
    /// log has first.
    async fn race_truncate(&mut self, table: usize) -> Lived {
        begin_truncate(&self.world, table);
        let id = self.world.borrow().workload.id(table);
        let engines = self.node.engines.clone();
        let truncate = async {
            for engine in &engines {
                engine.truncate(id).await?;
            }
            Ok::<(), Error>(())
        };
        let (truncated, written) = zip(truncate, self.write_some()).await;
        truncated?;
        written?;
        self.answered().await?;
        self.find_truncated().await
    }

    fn write(&mut self) -> Lived {
        let mut w = self.world.borrow_mut();
        let ranges = &self.node.owned;
        let has_keys = |range: &&TokenRange| (0..KEYS).any(|key| range.contains(token(key)));
        let usable: Vec<&TokenRange> = ranges.iter().filter(has_keys).collect();
        let range = *usable[self.rng.index(usable.len())];
        let owns = |token: Token| range.contains(token);
        let noted_in = w.truncating.as_ref().map(|truncation| truncation.table);
        let (record, bytes) = w.workload.record(&mut self.rng, noted_in, owns);
        let shard = self.node.shard_of(range.first);
        let number = record.number;
        w.unsure[shard].push_back(record.clone());
        drop(w);
        let result = self.node.engines[shard].write(&bytes, number);
        if let Err(error) = result {
            let mut w = self.world.borrow_mut();
            w.unsure[shard].pop_back();
            w.lost.insert(number);
            w.tally.refused += 1;
            return match error {
                Error::Overloaded(_) | Error::DiskFull { .. } => {
                    drop(w);
                    self.work();
                    Ok(())
                }
                error => Err(End::Failed(error)),
            };
        }
        if let Some(truncation) = &mut self.world.borrow_mut().truncating {
            truncation.raced.push((shard, record));
        }
        if self.node.engines[shard].writes_deferred() > 0 {
            self.world.borrow_mut().tally.deferred += 1;
            match self.rng.below(20) {
                0 => self.give_up(),
                1..6 => self.work(),
                _ => {}
            }
        }
        self.take_answers()
    }

    /// Notes what was answered.
    pub(crate) fn take_answers(&self) -> Lived {
        let mut w = self.world.borrow_mut();
        for (shard, engine) in self.node.engines.iter().enumerate() {
            let mut done = Vec::new();
            engine.take_completed(&mut done);
            for (ticket, result) in done {
                if ticket >= batches::TICKETS {
                    w.batches.answered(ticket, result);
                    continue;
                }
                if ticket >= CounterWrite::TICKETS {
                    w.tally.added += u64::from(w.counters.answered(ticket, result)?);
                    continue;
                }
                if ticket >= RowWrite::TICKETS {
                    w.tally.judged += u64::from(w.conditional.answered(ticket, result)?);
                    continue;
                }
                if ticket >= ListWrite::TICKETS {
                    w.tally.resolved += u64::from(w.lists.answered(ticket, result)?);
                    continue;
                }
                if let Err(error) = result {
                    w.refused_late(shard, ticket, error)?;
                    continue;
                }
                w.tally.answered += 1;
                if w.sync == SyncMode::Periodic {
                    assert!(w.unsure[shard].iter().any(|record| record.number == ticket));
                    continue;
                }
                let record = w.unsure[shard].pop_front().expect("it was taken");
                assert_eq!(record.number, ticket, "records are answered in their order");
                w.sure.add(&record);
                w.notes.insert(record.number);
            }
        }
        Ok(())
    }

    /// Waits until everything is answered. What waits for space gets it by a flush, or has waited long enough.
    pub(crate) async fn answered(&self) -> Lived {
        for round in 1u32.. {
            self.take_answers()?;
            let is_quiet = self.node.engines.iter().all(|engine| engine.writes_in_flight() == 0);
            if is_quiet && !self.world.borrow().batches.is_under_way() {
                break;
            }
            let deferred = self.node.engines.iter().any(|engine| engine.writes_deferred() > 0);
            if deferred && round.is_multiple_of(100) {
                self.do_jobs();
            }
            if deferred && round.is_multiple_of(2000) {
                self.give_up();
                self.take_answers()?;
            }
            yield_now().await;
        }
        Ok(())
    }

    /// Refuses what has waited for space until now.
    fn give_up(&self) {
        for engine in &self.node.engines {
            engine.give_up_deferred(engine.stats().writes_deferred);
        }
    }

    /// Flushes a table of a shard beside everything else.
    fn flush(&mut self) {
        let engine = self.node.engines[self.rng.index(self.node.engines.len())].clone();
        let id = self.world.borrow().workload.id(self.rng.index(ORDERED + 1));
        let now_s = self.world.borrow().workload.now_s;
        self.exec.spawn(async move {
            // A failure shows in what comes after.
            let _ = engine.run(Job::Flush(id), now_s, async || yield_now().await).await;
        });
    }

    /// Does what the engines would like to be done, and now and then what an operator asks for.
    fn work(&mut self) {
        let now_s = self.world.borrow().workload.now_s;
        if self.rng.one_in(4) {
            let engine = self.node.engines[self.rng.index(self.node.engines.len())].clone();
            let id = self.world.borrow().workload.id(self.rng.index(ORDERED + 1));
            self.exec.spawn(async move {
                let request = engine.request_major(id);
                let pause = async || yield_now().await;
                // A failure shows in what comes after, and another time does what is left.
                for _ in 0..ASKED_MAX {
                    if !matches!(engine.compact_major(&request, now_s, pause).await, Ok(false)) {
                        break;
                    }
                    yield_now().await;
                }
            });
        }
        self.do_jobs();
    }

    fn do_jobs(&self) {
        do_jobs(&self.node, &self.exec, self.world.borrow().workload.now_s);
    }

    /// Changes a table or the user type; a column that goes takes what was written until a while ago.
    async fn alter(&mut self) -> Lived {
        let at = self.world.borrow().workload.latest() - self.rng.below(200) as i64;
        let (change, effect) = schema::alteration(&self.node.schema, &mut self.rng, at);
        alter(&mut self.node, &self.world, &mut self.rng, change, effect).await
    }

    /// Drops a table and makes another of its name.
    async fn recreate(&mut self) -> Lived {
        let (change, effect) = schema::drop_table(1 + self.rng.index(TABLES - 1));
        alter(&mut self.node, &self.world, &mut self.rng, change, effect).await?;
        complete_schema(&mut self.node, &self.world, &mut self.rng).await
    }
}

/// Does what the engines would like to be done.
pub(crate) fn do_jobs(node: &Node, exec: &SimExec, now_s: u32) {
    for engine in node.engines.clone() {
        exec.spawn(async move {
            while let Some(job) = engine.next_job(now_s) {
                if engine.run(job, now_s, async || yield_now().await).await.is_err() {
                    break;
                }
            }
        });
    }
}

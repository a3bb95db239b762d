//! One life of a node after another: open, work, lose power, and be asked what is still there.

use crate::node::{self, KEYS, MAP, Node, PLAIN, STATIC, TABLES, Taken, command, schema};
use crate::oracle::{CompactionContext, Record, Seen};
use crate::workload::{Times, Workload, clustering, token};
use engine::commitlog::SyncMode;
use engine::io::{Crash, Disk, Faults, Outcome, Rng, SimDisk, SimExec};
use engine::{Engine, Error, Job};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::read::{Partitions, ReadCommand, Slice};
use model::{Schema, TableId, Token, TokenRange};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use uuid::Uuid;

/// What has happened, so that a test can see that something did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Lives after which the power went.
    pub(crate) lives: u64,
    /// Lives after which only the process went: what it had written can be read, and is not durable.
    pub(crate) kills: u64,
    /// Lives that an injected fault ended.
    pub(crate) failed: u64,
    /// Starts that got as far as answering.
    pub(crate) opened: u64,
    /// Of those, starts with another number of shards than before.
    pub(crate) dealt: u64,
    /// Number of records that were answered.
    pub(crate) answered: u64,
    /// Records that were under way when the power went, and were there afterwards.
    pub(crate) survived: u64,
    /// The same, and were not.
    pub(crate) lost: u64,
    pub(crate) refused: u64,
    pub(crate) flushes: u64,
    pub(crate) truncated: u64,
    /// Columns dropped and added again.
    pub(crate) altered: u64,
    /// Compactions, and files removed because nothing in them was alive.
    pub(crate) compactions: u64,
    pub(crate) compared: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.lives += other.lives;
        self.kills += other.kills;
        self.failed += other.failed;
        self.opened += other.opened;
        self.dealt += other.dealt;
        self.answered += other.answered;
        self.survived += other.survived;
        self.lost += other.lost;
        self.refused += other.refused;
        self.flushes += other.flushes;
        self.truncated += other.truncated;
        self.altered += other.altered;
        self.compactions += other.compactions;
        self.compared += other.compared;
    }
}

/// What survives the node: the truth about it.
pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) sync: SyncMode,
    gc_grace_s: i32,
    workload: Workload,
    ids_made: u128,
    /// What must be there.
    sure: CompactionContext,
    notes: BTreeSet<u64>,
    /// Taken by a shard's log in this order, and not sure: answered only if the log is periodic.
    unsure: Vec<VecDeque<Record>>,
    /// What is not there and must never come back.
    lost: BTreeSet<u64>,
    /// Being emptied when the power went.
    truncating: Option<usize>,
    /// Every error is a failed test.
    faultless: bool,
    shards: usize,
    tally: Tally,
}

type Shared = Rc<RefCell<World>>;

/// Why a life ended before its time.
#[derive(Debug)]
pub(crate) enum End {
    /// An error that a fault explains.
    Failed(Error),
}

impl From<Error> for End {
    fn from(e: Error) -> End {
        End::Failed(e)
    }
}

type Lived<T = ()> = Result<T, End>;

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let sync = if rng.one_in(4) { SyncMode::Periodic } else { SyncMode::Batch };
        let times = if rng.one_in(2) { Times::Rising } else { Times::Mixed };
        let gc_grace_s = if times == Times::Rising { 5 } else { i32::MAX };
        let ids: Vec<TableId> = (1..=TABLES as u128).map(|n| TableId(Uuid::from_u128(n))).collect();
        let value_bytes_max = [8, 60, 600][rng.index(3)];
        World {
            sync,
            gc_grace_s,
            workload: Workload::new(&ids, times, value_bytes_max),
            ids_made: TABLES as u128,
            sure: CompactionContext::default(),
            notes: BTreeSet::new(),
            unsure: Vec::new(),
            lost: BTreeSet::new(),
            truncating: None,
            faultless: true,
            shards: 0,
            tally: Tally::default(),
            rng,
        }
    }

    fn schema(&self) -> Schema {
        let ids = self.workload.ids.clone().try_into().expect("as many as there are");
        schema(&ids, self.gc_grace_s, &self.sure.drops)
    }

    /// What a reader sees now.
    fn visible(&self) -> CompactionContext {
        let mut all = self.sure.clone();
        if self.sync == SyncMode::Periodic {
            self.unsure.iter().flatten().for_each(|record| all.add(record));
        }
        all
    }

    fn faults(&mut self) -> Faults {
        let mut faults = Faults { suspensions_max: self.rng.below(4) as u32, ..Faults::default() };
        self.faultless = true;
        let at = self.rng.below(500);
        match self.rng.below(20) {
            0..10 => faults.crash_at_op = Some(at),
            10..13 => faults.fail_op = Some(at),
            13 => faults.write_error_one_in = 60,
            14 => faults.sync_error_one_in = 20,
            15 => faults.short_write_one_in = 60,
            16 => faults.flip_one_in = 60,
            17 => faults.quota_bytes = Some(300_000 + self.rng.below(400_000)),
            _ => {}
        }
        let harmless = Faults { suspensions_max: 0, crash_at_op: None, ..faults.clone() };
        self.faultless = format!("{harmless:?}") == format!("{:?}", Faults::default());
        faults
    }
}

/// Lives on one disk until the power was cut `cuts` times; gives what happened, and a hash of it.
pub(crate) fn live(seed: u64, cuts: u64, tells: bool) -> (Tally, u64) {
    let world = Rc::new(RefCell::new(World::new(seed)));
    let mut disk = SimDisk::new(seed, Faults::default());
    let kills = std::env::var_os("MESSINA_SIM_KILLS").is_some();
    let (mut trace, mut lived) = (0u64, 0u64..);
    while world.borrow().tally.lives < cuts {
        let life = lived.next().expect("there are numbers enough");
        let faults = world.borrow_mut().faults();
        disk.set_faults(faults.clone());
        let shards = 1 + world.borrow_mut().rng.index(3);
        if tells {
            eprintln!("life {life}: {shards} shards, {faults:?}");
        }
        let exec = SimExec::new(seed ^ life.wrapping_mul(0x9E37_79B9));
        let (inner, shared, node_disk) = (exec.clone(), world.clone(), Disk::Sim(disk.clone()));
        let outcome = exec.run(async move { one_life(&node_disk, &inner, &shared, shards).await });
        let mut world = world.borrow_mut();
        if tells {
            eprintln!("   {outcome:?} {:?}", world.tally);
        }
        match outcome {
            Outcome::Done(Ok(())) => {}
            Outcome::Stalled => assert!(disk.is_crashed(), "everybody waits with the power on"),
            Outcome::Done(Err(End::Failed(e))) => {
                assert!(!world.faultless, "nothing had failed, and yet: {e}");
                world.tally.failed += 1;
            }
        }
        trace = trace.rotate_left(7) ^ disk.trace();
        if kills && world.rng.one_in(4) {
            world.tally.kills += 1;
            disk = disk.kill();
            continue;
        }
        world.tally.lives += 1;
        let mode = [Crash::Nothing, Crash::Everything, Crash::Random][world.rng.index(3)];
        disk = disk.crash(world.rng.roll(), mode);
    }
    let tally = world.borrow().tally;
    (tally, trace)
}

async fn one_life(disk: &Disk, exec: &SimExec, world: &Shared, shards: usize) -> Lived {
    let (mut rng, sync, schema) = {
        let mut w = world.borrow_mut();
        (Rng::new(w.rng.roll()), w.sync, w.schema())
    };
    let node = node::open(disk, exec, shards, sync, &schema, &mut rng).await?;
    find_out(&node, world).await?;
    verify_all(&node, world, &mut rng).await?;
    {
        let mut w = world.borrow_mut();
        w.tally.opened += 1;
        w.tally.dealt += u64::from(std::mem::replace(&mut w.shards, shards) != shards);
    }
    let mut life = Life { node, exec: exec.clone(), world: world.clone(), rng };
    for _ in 0..20 + life.rng.below(120) {
        life.step().await?;
    }
    life.answered().await?;
    verify_all(&life.node, world, &mut life.rng).await?;
    for stats in life.node.engines.iter().map(|engine| engine.stats()) {
        let tally = &mut world.borrow_mut().tally;
        tally.flushes += stats.flushes;
        tally.compactions += stats.compactions;
    }
    Ok(())
}

/// Which of the records that were under way are there: those that came first, and never more than were taken.
async fn find_out(node: &Node, world: &Shared) -> Lived {
    let (id, now_s) = (world.borrow().workload.ids[0], world.borrow().workload.now_s);
    let mut there = BTreeSet::new();
    for engine in &node.engines {
        let mut taken = Taken::default();
        let all = Partitions::Range(TokenRange::ALL);
        engine.read(&command(id, all, now_s), &mut taken).await?;
        let number = |key: &Vec<u8>| u64::from_be_bytes(key.as_slice().try_into().expect("a note"));
        there.extend(taken.0.keys().map(number));
    }
    let mut w = world.borrow_mut();
    for records in std::mem::take(&mut w.unsure) {
        let mut cut = false;
        for record in records {
            let is_there = there.contains(&record.number);
            assert!(!(cut && is_there), "a hole before record {}", record.number);
            cut |= !is_there;
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

/// Far more pages than the rows of a world have.
const PAGES_MAX: u64 = 10_000;

/// What a scan of a table gives, shard by shard, in pages.
async fn scan(engine: &Engine, mut command: ReadCommand, rng: &mut Rng) -> Lived<Taken> {
    let mut taken = Taken::default();
    for _ in 0..PAGES_MAX {
        command.limits.page_rows = 1 + rng.below(20);
        let end = engine.read(&command, &mut taken).await?;
        let Some(resume) = end.more else { return Ok(taken) };
        command.resume = Some(resume);
    }
    panic!("a scan of {PAGES_MAX} pages without an end");
}

async fn verify_all(node: &Node, world: &Shared, rng: &mut Rng) -> Lived {
    for table in 1..TABLES {
        let (id, now_s) = (world.borrow().workload.ids[table], world.borrow().workload.now_s);
        let truncating = world.borrow().truncating == Some(table);
        for (engine, range) in node.engines.iter().zip(&node.owned) {
            let partitions = Partitions::Range(TokenRange::ALL);
            let mut command = command(id, partitions, now_s);
            command.reversed = rng.one_in(2);
            let reversed = command.reversed;
            let taken = scan(engine, command, rng).await?;
            let facts = world.borrow().visible();
            compare(&facts, table, range, now_s, reversed, &taken, truncating);
            world.borrow_mut().tally.compared += 1;
        }
        if truncating {
            truncate(node, world, table).await?;
        }
    }
    Ok(())
}

fn compare(
    facts: &CompactionContext,
    table: usize,
    range: &TokenRange,
    now_s: u32,
    reversed: bool,
    taken: &Taken,
    truncating: bool,
) {
    let mut wanted: BTreeMap<Vec<u8>, Seen> = BTreeMap::new();
    for key in (0..KEYS).filter(|key| range.contains(token(*key))) {
        let mut seen = facts.seen((table, key), now_s);
        if reversed {
            seen.rows.reverse();
        }
        if seen != Seen::default() {
            wanted.insert(vec![key], seen);
        }
    }
    for key in taken.0.keys().chain(wanted.keys()) {
        let (taken, wanted) = (taken.0.get(key), wanted.get(key));
        // Shard by shard, and with other shards now each had some of the keys.
        if truncating && taken.is_none() {
            continue;
        }
        assert_eq!(taken, wanted, "table {table} key {key:?} at {now_s}: taken, wanted");
    }
}

async fn truncate(node: &Node, world: &Shared, table: usize) -> Lived {
    let id = world.borrow().workload.ids[table];
    world.borrow_mut().truncating = Some(table);
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

/// A node at work.
struct Life {
    node: Node,
    exec: SimExec,
    world: Shared,
    rng: Rng,
}

impl Life {
    async fn step(&mut self) -> Lived {
        match self.rng.below(40) {
            0..22 => self.write()?,
            22..24 => self.answered().await?,
            24..27 => self.check_partition()?,
            27..29 => self.check_slices().await?,
            29 => {
                self.answered().await?;
                verify_all(&self.node, &self.world, &mut self.rng).await?;
            }
            30..33 => self.flush(),
            33..36 => self.work(),
            36 => self.world.borrow_mut().workload.now_s += 1 + self.rng.below(10) as u32,
            37 if self.rng.one_in(3) => {
                self.answered().await?;
                truncate(&self.node, &self.world, 1 + self.rng.index(TABLES - 1)).await?;
            }
            38 if self.rng.one_in(2) => self.alter(),
            38 if self.rng.one_in(2) => self.recreate(),
            39 => self.node.engines.iter().for_each(|engine| engine.claim_log()),
            _ => yield_now().await,
        }
        Ok(())
    }

    fn write(&mut self) -> Lived {
        let mut w = self.world.borrow_mut();
        let ranges = &self.node.owned;
        let has_keys = |range: &&TokenRange| (0..KEYS).any(|key| range.contains(token(key)));
        let usable: Vec<&TokenRange> = ranges.iter().filter(has_keys).collect();
        let range = *usable[self.rng.index(usable.len())];
        let owns = |token: Token| range.contains(token);
        let (record, bytes) = w.workload.record(&mut self.rng, owns);
        let shard = self.node.shard_of(range.first);
        let number = record.number;
        w.unsure[shard].push_back(record);
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
        self.take_answers()
    }

    /// Notes what was answered.
    fn take_answers(&self) -> Lived {
        let mut w = self.world.borrow_mut();
        for (shard, engine) in self.node.engines.iter().enumerate() {
            let mut done = Vec::new();
            engine.take_completed(&mut done);
            for (ticket, result) in done {
                result?;
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

    /// Waits until everything is answered.
    async fn answered(&self) -> Lived {
        poll_fn(|cx| {
            self.node.engines.iter().for_each(|engine| engine.on_completed(cx.waker()));
            if let Err(error) = self.take_answers() {
                return Poll::Ready(Err(error));
            }
            match self.node.engines.iter().all(|engine| engine.writes_in_flight() == 0) {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// A partition from memory, while writes are under way: what was answered, and nothing else.
    fn check_partition(&mut self) -> Lived {
        self.take_answers()?;
        let w = self.world.borrow();
        let (key, table) = (self.rng.below(KEYS.into()) as u8, 1 + self.rng.index(TABLES - 1));
        let engine = &self.node.engines[self.node.shard_of(token(key))];
        let keys = Partitions::Keys(vec![(token(key), Box::from([key]))]);
        let mut taken = Taken::default();
        let now_s = w.workload.now_s;
        match engine.read_cached(&command(w.workload.ids[table], keys, now_s), &mut taken) {
            Err(Error::WouldBlock) => return Ok(()),
            result => result?,
        };
        let seen = taken.0.remove(&vec![key]).unwrap_or_default();
        assert_eq!(seen, w.visible().seen((table, key), now_s), "table {table} key {key}");
        Ok(())
    }

    /// Slices of a few partitions, or one row, with all that can be asked of them.
    async fn check_slices(&mut self) -> Lived {
        self.answered().await?;
        let (id, now_s, facts, table) = {
            let w = self.world.borrow();
            let table = 1 + self.rng.index(TABLES - 1);
            (w.workload.ids[table], w.workload.now_s, w.visible(), table)
        };
        let key = self.rng.below(KEYS.into()) as u8;
        let mut command =
            command(id, Partitions::Keys(vec![(token(key), Box::from([key]))]), now_s);
        command.reversed = self.rng.one_in(2);
        if table >= 2 {
            command.slices = self.slices(table);
        }
        let reversed = command.reversed;
        let inside = command.slices.clone();
        let engine = self.node.engines[self.node.shard_of(token(key))].clone();
        let mut taken = scan(&engine, command, &mut self.rng).await?;
        let mut wanted = facts.seen((table, key), now_s);
        wanted.rows.retain(|(at, _)| inside.iter().any(|slice| slice.contains(at)));
        if reversed {
            wanted.rows.reverse();
        }
        let seen = taken.0.remove(&vec![key]).unwrap_or_default();
        assert_eq!(seen, wanted, "table {table} key {key} slices {inside:?}");
        Ok(())
    }

    fn slices(&mut self, table: usize) -> Vec<Slice> {
        let value = |rng: &mut Rng| rng.below(6) as u8;
        let rng = &mut self.rng;
        if rng.one_in(2) {
            return vec![Slice::row(clustering(table, &[value(rng), value(rng)]))];
        }
        let mut borders: Vec<Vec<u8>> = (0..4)
            .map(|_| {
                let values = [value(rng), value(rng)];
                let mut bound = clustering(table, &values[..rng.index(3)]);
                if rng.one_in(2) {
                    model::key::after(&mut bound);
                }
                bound
            })
            .collect();
        borders.sort();
        borders.dedup();
        let slice = |pair: &[Vec<u8>]| Slice { start: pair[0].clone(), end: pair[1].clone() };
        match borders.chunks_exact(2).map(slice).collect::<Vec<_>>() {
            slices if slices.is_empty() => vec![Slice::all()],
            slices => slices,
        }
    }

    /// Flushes a table of a shard beside everything else.
    fn flush(&mut self) {
        let engine = self.node.engines[self.rng.index(self.node.engines.len())].clone();
        let id = self.world.borrow().workload.ids[self.rng.index(TABLES)];
        let now_s = self.world.borrow().workload.now_s;
        self.exec.spawn(async move {
            // A failure shows in what comes after.
            let _ = engine.run(Job::Flush(id), now_s, async || yield_now().await).await;
        });
    }

    /// Does what the engines would like to be done.
    fn work(&mut self) {
        let now_s = self.world.borrow().workload.now_s;
        for engine in self.node.engines.clone() {
            self.exec.spawn(async move {
                while let Some(job) = engine.next_job(now_s) {
                    if engine.run(job, now_s, async || yield_now().await).await.is_err() {
                        break;
                    }
                }
            });
        }
    }

    /// Drops a column with what was written until a while ago, and adds it again.
    fn alter(&mut self) {
        let mut w = self.world.borrow_mut();
        let table = 1 + self.rng.index(TABLES - 1);
        let columns: &[u16] = if table == 1 { &PLAIN } else { &[STATIC, PLAIN[0], PLAIN[1], MAP] };
        let column = columns[self.rng.index(columns.len())];
        let at = w.workload.latest() - self.rng.below(200) as i64;
        let drop = w.sure.drops.entry((table, column)).or_insert(at);
        *drop = at.max(*drop);
        w.tally.altered += 1;
        let schema = w.schema();
        std::mem::drop(w);
        self.node.engines.iter().for_each(|engine| engine.set_schema(&schema));
    }

    /// Drops a table and makes another of its name.
    fn recreate(&mut self) {
        let mut w = self.world.borrow_mut();
        let table = 1 + self.rng.index(TABLES - 1);
        w.ids_made += 1;
        w.workload.ids[table] = TableId(Uuid::from_u128(w.ids_made));
        w.sure.clear_table(table);
        w.sure.drops.retain(|(of, _), _| *of != table);
        for record in w.unsure.iter_mut().flatten() {
            record.facts.retain(|((of, _), _)| *of != table);
        }
        let schema = w.schema();
        drop(w);
        self.node.engines.iter().for_each(|engine| engine.set_schema(&schema));
    }
}

//! A node of whole shards on one thread: the seed decides which of its tasks goes on next, and which core looks at its
//! mail.
//!
//! ```text
//! step ─► is the power there? ─┬─ a task that was woken goes on
//!                              └─ a pass of a core: mail, finished writes      nothing of both: the time moves
//! ```
//!
//! Not here: sockets and statements (`server`).

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use engine::commitlog::{self, SyncMode};
use engine::io::{Disk, Rng, SimDisk};
use engine::{Error, Result};
use messina_shard::clock::Clock;
use messina_shard::manual::ManualNode;
use messina_shard::node::NodeConfig;
use messina_shard::{Group, Protocol, Shard};
use model::read::{Partitions, RowSink};
use model::{TableId, TokenRange};

use crate::node::command;

/// The layer above asks nothing.
pub(crate) enum Quiet {}

impl Protocol for Quiet {
    type Ask = ();
    type Answer = ();
}

/// More steps for one thing are work without an end.
pub(super) const STEPS_MAX: u64 = 1_000_000;
/// How often the time is moved for one thing.
const WAITS_MAX: u64 = 100_000;
/// How far it is moved when all wait.
pub(super) const WAIT: Duration = Duration::from_millis(20);

/// The power is gone.
#[derive(Debug)]
pub(crate) struct Cut;

/// What lasts until the power is gone.
pub(crate) type Lived<T = ()> = std::result::Result<T, Cut>;

/// See the module.
pub(crate) struct Driven {
    node: ManualNode<Quiet>,
    clocks: Vec<Rc<Clock>>,
    disk: SimDisk,
    rng: Rng,
    /// Answers that were not taken.
    answers: Vec<(u32, Result<()>)>,
}

fn config(shards: usize, sync: SyncMode, wall_us: i64) -> NodeConfig {
    NodeConfig {
        shards,
        cpus: Vec::new(),
        data_dir: PathBuf::new(),
        shard_memory_bytes: engine::limits::MEMORY_BYTES_MIN,
        log: commitlog::Config {
            // A deletion of a partition with all its rows in the views is one record.
            segment_bytes: 64 << 10,
            log_bytes_max: 320 << 10,
            sync,
            ..commitlog::Config::new(0)
        },
        reserve_bytes: 0,
        compaction_throughput_bytes: 0,
        idle_spin: Duration::ZERO,
        base: super::definitions::built_in(),
        sum: |_, _, _| Ok(None),
        wall_us,
    }
}

impl Driven {
    /// Opens the node and lets it do what a start does before clients are let in.
    pub(crate) fn open(
        disk: &SimDisk,
        (shards, sync, wall_us): (usize, SyncMode, i64),
        seed: u64,
    ) -> Result<Driven> {
        let seeds = RefCell::new(Rng::new(seed));
        let config = config(shards, sync, wall_us);
        let roll = || seeds.borrow_mut().roll();
        let node = ManualNode::open_with(&Disk::Sim(disk.clone()), &config, &roll)?;
        let clocks: Vec<Rc<Clock>> = node.clocks().collect();
        let rng = Rng::new(roll());
        let mut driven = Driven { node, clocks, disk: disk.clone(), rng, answers: Vec::new() };
        driven.advance(Duration::ZERO);
        driven.node.keep_noting();
        let page_rows = 1 + driven.rng.below(20);
        let shards = driven.node.shards().iter();
        shards.for_each(|shard| shard.set_view_build_page_rows(page_rows));
        Ok(driven)
    }

    /// What was noted before is sent, and views are built from now on.
    pub(crate) fn start(&mut self) -> Lived {
        let now_s = self.now_s();
        let sends: Vec<_> = (0..self.shards())
            .map(|shard| self.begin(shard, async move |s| s.send_batches_again(now_s).await))
            .collect();
        for sent in sends {
            self.until("what was noted is sent", |_| sent.borrow().is_some())?;
        }
        let host = self.node.booted().layout.host_id;
        let first = self.node.shards()[0].clone();
        first.runtime().clone().spawn(Group::Background, first.build_views(host));
        Ok(())
    }

    pub(crate) fn shards(&self) -> usize {
        self.node.shards().len()
    }

    pub(crate) fn shard(&self, shard: usize) -> &Rc<Shard<Quiet>> {
        &self.node.shards()[shard]
    }

    pub(crate) fn now_s(&self) -> u32 {
        self.node.manual().wall().as_secs() as u32
    }

    pub(crate) fn wall_us(&self) -> i64 {
        self.node.manual().wall().as_micros() as i64
    }

    /// Moves the time.
    pub(crate) fn advance(&mut self, time: Duration) {
        self.node.manual().advance(time);
        let wall_us = self.wall_us();
        self.clocks.iter().for_each(|clock| clock.set_wall_us(wall_us));
    }

    /// Takes what was answered.
    pub(crate) fn answers(&mut self) -> Vec<(u32, Result<()>)> {
        std::mem::take(&mut self.answers)
    }

    /// Begins a task of a shard; its result.
    pub(crate) fn begin<T: 'static>(
        &self,
        shard: usize,
        work: impl AsyncFnOnce(Rc<Shard<Quiet>>) -> T + 'static,
    ) -> Rc<RefCell<Option<T>>> {
        let (shard, done) = (self.shard(shard).clone(), Rc::new(RefCell::new(None)));
        let result = done.clone();
        shard.runtime().clone().spawn(Group::Background, async move {
            let given = work(shard).await;
            result.replace(Some(given));
        });
        done
    }

    /// Runs a task of a shard to its end.
    pub(crate) fn run<T: 'static>(
        &mut self,
        what: &str,
        shard: usize,
        work: impl AsyncFnOnce(Rc<Shard<Quiet>>) -> T + 'static,
    ) -> Lived<T> {
        let result = self.begin(shard, work);
        self.until(what, |_| result.borrow().is_some())?;
        Ok(result.take().expect("it was just there"))
    }

    /// Everything that a table has, through any shard.
    pub(crate) fn read<S: RowSink + 'static>(&mut self, table: TableId, mut sink: S) -> Lived<S> {
        let command = command(table, Partitions::Range(TokenRange::ALL), self.now_s());
        let shard = self.rng.index(self.shards());
        let read = self.run("a read", shard, async move |shard| {
            shard.read(&command, &mut sink, None).await.map(|_| sink)
        })?;
        Ok(read.unwrap_or_else(|error: Error| panic!("nothing fails, and yet: {error}")))
    }

    /// Goes on until `is_so`; the time is moved when all wait.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Driven) -> bool) -> Lived {
        let mut waits = 0;
        for _ in 0..STEPS_MAX {
            if is_so(self) {
                return Ok(());
            }
            if !self.step()? {
                waits += 1;
                assert!(waits < WAITS_MAX, "everybody waits for ever: {what}");
                self.advance(WAIT);
            }
        }
        panic!("work without an end: {what}");
    }

    /// Goes on until all wait, and moves the time.
    pub(crate) fn wait(&mut self, time: Duration) -> Lived {
        for _ in 0..STEPS_MAX {
            if !self.step()? {
                self.advance(time);
                return Ok(());
            }
        }
        panic!("work without an end");
    }

    /// Lets something happen, if anything can.
    pub(crate) fn step(&mut self) -> Lived<bool> {
        if self.disk.is_crashed() {
            return Err(Cut);
        }
        let rng = &mut self.rng;
        if rng.one_in(3) {
            let shard = rng.index(self.node.shards().len());
            self.pass(shard);
            return Ok(true);
        }
        let busy = self.node.manual().run_one(|woken| rng.index(woken));
        let busy = busy || (0..self.shards()).fold(false, |busy, shard| self.pass(shard) | busy);
        if self.disk.is_crashed() { Err(Cut) } else { Ok(busy) }
    }

    /// What a core does between its tasks; whether there was anything.
    fn pass(&mut self, shard: usize) -> bool {
        let shard = self.node.shards()[shard].clone();
        let has_mail = shard.drain_mail(|_| panic!("the layer above asks nothing"), || false);
        let before = self.answers.len();
        shard.take_completed(&mut self.answers);
        shard.publish();
        has_mail || self.answers.len() > before
    }
}

//! The rig of the crash tests: a shard's log, manifest and layout on a simulated disk, life after life.
//!
//! A life: 1. the disk is as the last power cut left it; 2. the shard is opened, or built if it was never
//! finished; 3. what it recovers is compared with the model; 4. records are appended, flushed and
//! acknowledged by tasks that interleave, until the faults of this life end it. One seed decides everything.
//!
//! The model: what was acknowledged or ever recovered must be there (`known`), in order and unchanged; of what was in
//! flight (`maybe`) any prefix may be. No record may be there that was not appended.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::RefCell;
use std::rc::Rc;

use messina_engine::commitlog::{Config, Log, Position, Replay};
use messina_engine::error::{Error, Result};
use messina_engine::io::{Crash, Disk, Faults, Outcome, RelPath, Rng, SimDisk, SimExec};
use messina_engine::layout::{self, Found, Layout, Secret};
use messina_engine::manifest::{Edit, Manifest, State, ViewEntry};
use model::token::TokenRange;
use uuid::Uuid;

/// How many records a life appends at most.
pub(crate) const RECORDS_MAX: u64 = 40;

/// What must be on the disk, and what may be.
#[derive(Debug, Default, Clone)]
pub(crate) struct Model {
    known: Vec<(u64, Position)>,
    maybe: Vec<(u64, Position)>,
    next: u64,
    flushed: Position,
    flushed_maybe: Option<Position>,
    ready: bool,
}

/// A shard through several lives.
pub(crate) struct Story {
    seed: u64,
    rng: Rng,
    /// The disk as the next life finds it.
    pub(crate) disk: SimDisk,
    model: Rc<RefCell<Model>>,
}

/// How a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The machine loses power.
    PowerCut(Crash),
    /// The process is killed: nothing is lost yet.
    Kill,
}

impl End {
    /// All ways in which a life may end.
    pub(crate) const ALL: [End; 4] = [
        End::PowerCut(Crash::Nothing),
        End::PowerCut(Crash::Everything),
        End::PowerCut(Crash::Random),
        End::Kill,
    ];
}

/// A rule of durability that did not hold.
pub(crate) type Verdict = std::result::Result<(), String>;

impl Story {
    /// A shard that was never started, on an empty disk.
    pub(crate) fn new(seed: u64) -> Story {
        let rng = Rng::new(seed);
        let disk = SimDisk::new(seed, Faults::default());
        Story { seed, rng, disk, model: Rc::default() }
    }

    /// One life with these faults, and its end.
    pub(crate) fn life(&mut self, faults: Faults, end: End) -> Verdict {
        let seed = self.rng.roll();
        self.disk.set_faults(faults);
        let outcome = self.run(seed, RECORDS_MAX);
        let verdict = self.said(outcome);
        self.disk = match end {
            End::Kill => self.disk.kill(),
            End::PowerCut(crash) => self.disk.crash(seed, crash),
        };
        verdict
    }

    /// A life without faults, after which everything is durable and proven so.
    pub(crate) fn quiet_life(&mut self, records: u64) -> Verdict {
        let seed = self.rng.roll();
        self.disk.set_faults(Faults::default());
        let outcome = self.run(seed, records);
        self.disk = self.disk.crash(seed, Crash::Nothing);
        match outcome {
            Outcome::Done(Ok(Ok(()))) => Ok(()),
            other => Err(format!("seed {}: a life without faults ends with {other:?}", self.seed)),
        }
    }

    /// A short life that may end at any operation and then with its power: what was only read is not durable.
    pub(crate) fn start_and_lose_power(&mut self) -> Verdict {
        let crash_at_op = Some(self.rng.below(60));
        self.life(Faults { crash_at_op, ..Faults::default() }, End::PowerCut(Crash::Nothing))
    }

    /// Starts from a copy of the disk with one file damaged. Everything known is there, or the start is refused:
    /// then the engine's error is the answer.
    pub(crate) fn start_damaged(
        &self,
        path: &RelPath,
        damage: impl FnOnce(&mut Vec<u8>),
    ) -> std::result::Result<Option<Error>, String> {
        let copy = self.disk.crash(0, Crash::Nothing);
        let mut bytes = copy.bytes(path).unwrap();
        damage(&mut bytes);
        copy.plant(path, bytes);
        let model = Rc::new(RefCell::new(self.model.borrow().clone()));
        match run(&copy, &model, 0, 0) {
            Outcome::Done(Ok(Ok(()))) => Ok(None),
            Outcome::Done(Ok(Err(violation))) => Err(violation),
            Outcome::Done(Err(refusal)) => Ok(Some(refusal)),
            Outcome::Stalled => Err("the start hangs".into()),
        }
    }

    fn run(&self, seed: u64, records: u64) -> Outcome<Result<Verdict>> {
        run(&self.disk, &self.model, seed, records)
    }

    fn said(&self, outcome: Outcome<Result<Verdict>>) -> Verdict {
        match outcome {
            Outcome::Done(Ok(verdict)) => {
                verdict.map_err(|error| format!("seed {}: {error}", self.seed))
            }
            // A fault was reported; the process would have left.
            Outcome::Done(Err(Error::Corrupt { .. } | Error::NotFound { .. })) => {
                Err(format!("seed {}: a power cut looks like damage: {outcome:?}", self.seed))
            }
            Outcome::Done(Err(_)) => Ok(()),
            Outcome::Stalled if self.disk.is_crashed() => Ok(()),
            Outcome::Stalled => Err(format!("seed {}: deadlock", self.seed)),
        }
    }
}

fn run(
    disk: &SimDisk,
    model: &Rc<RefCell<Model>>,
    seed: u64,
    records: u64,
) -> Outcome<Result<Verdict>> {
    let exec = SimExec::powered_by(disk, seed);
    let (disk, model, spawner) = (Disk::Sim(disk.clone()), model.clone(), exec.clone());
    exec.run(async move { life(disk, model, spawner, seed, records).await })
}

struct Shard {
    log: Rc<Log>,
    manifest: Manifest,
}

async fn life(
    disk: Disk,
    model: Rc<RefCell<Model>>,
    exec: SimExec,
    seed: u64,
    records: u64,
) -> Result<Verdict> {
    let found = Layout::find(&disk).await?;
    let shard = match found {
        Found::Ready(layout) => {
            let dir = layout::shard_dir(layout.generation, 0);
            match recover(&disk, &dir, &model, seed).await? {
                Ok(shard) => shard,
                Err(violation) => return Ok(Err(violation)),
            }
        }
        found => {
            if model.borrow().ready {
                return Ok(Err(format!("the layout is gone: {found:?}")));
            }
            build(&disk, found, seed).await?
        }
    };
    model.borrow_mut().ready = true;
    spawn_drivers(&exec, &shard.log);
    let mut rng = Rng::new(seed);
    for _ in 0..records {
        step(&shard, &model, &mut rng).await?;
    }
    if records > 0 {
        while shard.log.pending_bytes() > 0 {
            pause(&shard).await?;
        }
        acknowledge(&shard, &model);
        shard.log.claim().await?;
    }
    Ok(Ok(()))
}

fn config(seed: u64) -> Config {
    Config {
        segment_bytes: 32 << 10,
        log_bytes_max: 256 << 10,
        pending_bytes_max: 64 << 10,
        ..Config::new(seed)
    }
}

async fn build(disk: &Disk, found: Found, seed: u64) -> Result<Shard> {
    let fresh = Layout::first(1, Uuid::from_u128(1), Secret::NONE);
    match found {
        Found::Unfinished(layout) => layout.clear_unfinished(disk).await?,
        _ => fresh.store(disk).await?,
    }
    fresh.make_directories(disk).await?;
    let dir = layout::shard_dir(1, 0);
    let log = Rc::new(Log::create(disk, &layout::log_dir(&dir), config(seed)).await?);
    let manifest = Manifest::create(disk, &dir, seed, State::default()).await?;
    Layout { ready: true, ..fresh }.store(disk).await?;
    Ok(Shard { log, manifest })
}

/// Opens the shard and compares what it holds with the model.
async fn recover(
    disk: &Disk,
    dir: &RelPath,
    model: &Rc<RefCell<Model>>,
    seed: u64,
) -> Result<std::result::Result<Shard, String>> {
    let manifest = Manifest::open(disk, dir, seed).await?;
    let from = manifest.state().flushed;
    let log_dir = layout::log_dir(dir);
    let mut replay = Replay::open(disk, &log_dir, from).await?;
    let mut found = Vec::new();
    while let Some(record) = replay.next().await? {
        if record.range != 3 || record.payload != content(record.sequence) {
            return Ok(Err(format!("record {} is not as it was appended", record.sequence)));
        }
        found.push((record.sequence, record.end));
    }
    let accepted = model.borrow_mut().accept(from, found);
    if let Err(violation) = accepted {
        return Ok(Err(violation));
    }
    let tail = replay.finish().await?;
    let log = Rc::new(Log::resume(disk, &log_dir, config(seed), tail).await?);
    Ok(Ok(Shard { log, manifest }))
}

impl Model {
    /// Compares what was recovered; from here on all of it must stay.
    fn accept(&mut self, from: Position, found: Vec<(u64, Position)>) -> Verdict {
        if from != self.flushed && Some(from) != self.flushed_maybe {
            return Err(format!("flushed up to {from}, not {}", self.flushed));
        }
        let after = |records: &[(u64, Position)]| {
            records.iter().copied().filter(|(_, end)| *end > from).collect::<Vec<_>>()
        };
        let (known, maybe) = (after(&self.known), after(&self.maybe));
        let Some(rest) = found.strip_prefix(&known[..]) else {
            return Err(format!("acknowledged {known:?}, found {found:?}"));
        };
        if !maybe.starts_with(rest) {
            return Err(format!("in flight were {maybe:?}, found {rest:?}"));
        }
        (self.known, self.maybe) = (found, Vec::new());
        (self.flushed, self.flushed_maybe) = (from, None);
        Ok(())
    }
}

/// What a record of this sequence holds.
fn content(sequence: u64) -> Vec<u8> {
    let mut rng = Rng::new(sequence);
    let len = match rng.below(10) {
        0 => rng.below(16_000),
        1..=3 => rng.below(5_000),
        _ => rng.below(300),
    };
    let period: Vec<u8> = (0..256).map(|i| (i * 31 + sequence) as u8 | 1).collect();
    let mut content = period.repeat((len / 256 + 1) as usize);
    content.truncate(len as usize);
    content
}

fn spawn_drivers(exec: &SimExec, log: &Rc<Log>) {
    let writer = log.clone();
    exec.spawn(async move {
        loop {
            writer.until_pending().await;
            if writer.write_pending().await.is_err() {
                return;
            }
        }
    });
    let preparer = log.clone();
    exec.spawn(async move {
        loop {
            preparer.until_segment_needed().await;
            match preparer.prepare().await {
                Ok(()) => {}
                Err(Error::Overloaded(_) | Error::DiskFull { .. }) => {
                    futures_lite::future::yield_now().await;
                }
                Err(_) => return,
            }
        }
    });
}

/// Lets the others go on; fails when the log has.
async fn pause(shard: &Shard) -> Result<()> {
    futures_lite::future::yield_now().await;
    match shard.log.append(3, u64::MAX, &[0; 1 << 20]) {
        Err(error @ Error::Poisoned(_)) => Err(error),
        other => {
            assert!(matches!(other, Err(Error::Invalid(_))));
            Ok(())
        }
    }
}

/// Takes note of what the log says may be acknowledged: from here on it must survive.
fn acknowledge(shard: &Shard, model: &Rc<RefCell<Model>>) {
    let acknowledgeable = shard.log.acknowledgeable();
    let model = &mut *model.borrow_mut();
    let count = model.maybe.iter().take_while(|(_, end)| *end <= acknowledgeable).count();
    model.known.extend(model.maybe.drain(..count));
}

/// Appends a record, or flushes what is there.
async fn step(shard: &Shard, model: &Rc<RefCell<Model>>, rng: &mut Rng) -> Result<()> {
    let sequence = model.borrow().next;
    for attempt in 0.. {
        match shard.log.append(3, sequence, &content(sequence)) {
            Ok(end) => {
                model.borrow_mut().maybe.push((sequence, end));
                model.borrow_mut().next += 1;
                break;
            }
            // A full disk stays full in this life.
            Err(error @ Error::Overloaded(_)) if attempt == 1000 => return Err(error),
            Err(Error::Overloaded(_)) => {
                pause(shard).await?;
                acknowledge(shard, model);
                flush(shard, model, rng).await?;
            }
            Err(error) => return Err(error),
        }
    }
    for _ in 0..rng.below(4) {
        pause(shard).await?;
    }
    acknowledge(shard, model);
    if rng.one_in(8) {
        flush(shard, model, rng).await?;
    }
    Ok(())
}

/// Says in the manifest that some of what is known is in an sstable, and frees the log of it.
async fn flush(shard: &Shard, model: &Rc<RefCell<Model>>, rng: &mut Rng) -> Result<()> {
    let at = {
        let mut model = model.borrow_mut();
        let flushed = model.flushed;
        model.known.retain(|(_, end)| *end > flushed);
        if model.known.is_empty() {
            return Ok(());
        }
        let at = model.known[rng.index(model.known.len())].1;
        model.flushed_maybe = Some(at);
        at
    };
    let edit = Edit { flushed: Some(at), add: vec![view(rng)], ..Edit::default() };
    shard.manifest.commit(&edit).await?;
    let mut model = model.borrow_mut();
    (model.flushed, model.flushed_maybe) = (at, None);
    shard.log.mark_flushed(at);
    Ok(())
}

fn view(rng: &mut Rng) -> ViewEntry {
    let sstable = Uuid::from_u64_pair(rng.roll(), rng.roll());
    ViewEntry {
        sstable,
        table: Uuid::from_u128(1),
        run: sstable,
        tokens: TokenRange::ALL,
        begin: None,
        file_bytes: 4096,
        footer_checksum: 1,
        level: 0,
        shared: false,
    }
}

/// A file of the shard in its first generation.
pub(crate) fn shard_file(name: &str) -> RelPath {
    RelPath::new(&format!("gen-1/shard-0/{name}")).unwrap()
}

/// A story of a few lives that end at any operation, some with other faults before.
pub(crate) fn random_story(seed: u64) -> Verdict {
    let mut story = Story::new(seed);
    let mut rng = Rng::new(!seed);
    for _ in 0..1 + rng.below(6) {
        let end = End::ALL[rng.index(4)];
        let mut faults = Faults { suspensions_max: rng.below(4) as u32, ..Faults::default() };
        match rng.below(8) {
            0 => faults.write_error_one_in = 30,
            1 => faults.sync_error_one_in = 4,
            2 => faults.short_write_one_in = 30,
            3 => faults.fail_op = Some(rng.below(100)),
            4 => faults.quota_bytes = Some(rng.below(800 << 10)),
            _ => faults.crash_at_op = Some(rng.below(150)),
        }
        story.life(faults, end)?;
    }
    story.start_and_lose_power()?;
    story.quiet_life(10)?;
    story.quiet_life(0)
}

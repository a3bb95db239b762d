//! A table without bytes: flushes come, a strategy is asked, and what it proposes is done by arithmetic.
//!
//! ```text
//! flush ─► files ─► candidates ─► strategy ─► jobs (two at a time, at a given speed) ─► files
//! ```
//!
//! 1. A file knows how many bytes of the ring it holds, and which part of the keys that are overwritten: a merge
//!    adds the first and unites the second, as if keys were drawn at random.
//! 2. A merge goes through the ring token by token. When a fragment is whole it is adopted: the views of the inputs
//!    begin behind it, and files without a view are deleted, as `adoption.rs` does it.
//! 3. The clock is the flushed byte: for each, the jobs may write `speed` bytes. What they do not use is lost.
//! 4. Disk is the files, whole while they have a view, and what a job has written of a fragment.
//!
//! Not here: what a row is, time-outs, failures (`rewriting.rs` and the simulator of whole nodes).

use std::collections::BTreeMap;

use model::options::Compaction;
use model::{Token, TokenRange};
use uuid::Uuid;

use super::super::*;
use crate::limits::{FRAGMENT_BYTES_MIN, FRAGMENTS_PER_TABLE};

/// Jobs side by side.
const JOBS: usize = 2;
/// A strategy that proposes so often without a flush never rests.
const STEPS_MAX: usize = 100_000;

/// What is written to the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Writes {
    /// Keys that are drawn from this many bytes of them.
    Overwrites { live_bytes: f64 },
    /// New keys each time.
    Inserts,
    /// New keys each time; all of a flush dies after so many flushes.
    Expiring { flushes: u32 },
}

/// What one run of the world has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// The most files that hold one token, at any time; and the most files.
    pub(super) depth_max: usize,
    pub(super) files_max: usize,
    /// Bytes written for each byte flushed, flushes included.
    pub(super) writes: f64,
    /// Disk for each live byte: the mean over the samples, and the most.
    pub(super) space_mean: f64,
    pub(super) space_max: f64,
    /// Merges that were begun.
    pub(super) jobs: u64,
}

/// Part of the ring from `from` (of the view) to `last`; both in [0, 1].
#[derive(Clone, Debug)]
struct File {
    run: u128,
    level: u8,
    first: f64,
    from: f64,
    last: f64,
    /// Bytes of new keys for the whole ring.
    fresh: f64,
    /// The part of all overwritten keys.
    known: f64,
    oldest: i64,
    newest: i64,
    dies_s: u32,
    job: Option<u64>,
}

struct Job {
    number: u64,
    task: MergeTask,
    run: u128,
    /// Of the table when it began.
    table_bytes: u64,
    at: f64,
    /// Bytes it has written since the last fragment was adopted.
    written: f64,
}

/// The table and what was counted.
pub(super) struct Flow {
    pub(super) compaction: Compaction,
    writes: Writes,
    flush_bytes: f64,
    /// Bytes that jobs may write for each byte that is flushed.
    speed: f64,
    files: BTreeMap<u64, File>,
    jobs: Vec<Job>,
    number: u64,
    now_s: u32,
    flushed: f64,
    written: f64,
    samples: f64,
    sum: f64,
    seen: Seen,
}

fn token(place: f64) -> u64 {
    (place * 2f64.powi(64)) as u64
}

impl Flow {
    pub(super) fn new(
        compaction: Compaction,
        writes: Writes,
        flush_bytes: u64,
        speed: f64,
    ) -> Flow {
        Flow {
            compaction,
            writes,
            flush_bytes: flush_bytes as f64,
            speed,
            files: BTreeMap::new(),
            jobs: Vec::new(),
            number: 0,
            now_s: 1,
            flushed: 0.0,
            written: 0.0,
            samples: 0.0,
            sum: 0.0,
            seen: Seen::default(),
        }
    }

    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Bytes of the keys that are overwritten.
    fn universe(&self) -> f64 {
        match self.writes {
            Writes::Overwrites { live_bytes } => live_bytes,
            Writes::Inserts | Writes::Expiring { .. } => 0.0,
        }
    }

    fn density(&self, file: &File) -> f64 {
        file.fresh + file.known * self.universe()
    }

    fn disk(&self) -> f64 {
        let files: f64 =
            self.files.values().map(|file| self.density(file) * (file.last - file.first)).sum();
        files + self.jobs.iter().map(|job| job.written).sum::<f64>()
    }

    fn live(&self) -> f64 {
        match self.writes {
            Writes::Overwrites { live_bytes } => live_bytes,
            Writes::Inserts => self.flushed,
            Writes::Expiring { flushes } => self.flush_bytes * f64::from(flushes),
        }
    }

    /// Forgets what was counted, not what is there.
    pub(super) fn count_from_here(&mut self) {
        (self.written, self.samples, self.sum, self.seen) = (0.0, 0.0, 0.0, Seen::default());
    }

    /// Flushes this many times, with jobs beside; gives what was seen since the count began.
    pub(super) fn run(&mut self, flushes: u32) -> Seen {
        let before = self.flushed;
        for _ in 0..flushes {
            self.flush();
            let mut budget = self.flush_bytes * self.speed;
            while budget >= 1.0 && self.fill() {
                let index = self.number as usize % self.jobs.len();
                budget -= self.advance(index, budget);
            }
        }
        let mut seen = self.seen;
        seen.writes = self.written / (self.flushed - before);
        seen.space_mean = self.sum / self.samples;
        seen
    }

    /// Until the strategy proposes nothing more; how many jobs that took.
    pub(super) fn rest(&mut self) -> u64 {
        let before = self.seen.jobs;
        for _ in 0..STEPS_MAX {
            if !self.fill() {
                return self.seen.jobs - before;
            }
            self.advance(0, f64::INFINITY);
        }
        panic!("it never rests: {:?}", self.compaction.pairs());
    }

    /// Does what an operator asks for.
    pub(super) fn major(&mut self) {
        assert!(self.jobs.is_empty(), "nothing is under way");
        let (numbers, pieces) = self.candidates();
        for task in Strategy::of(&self.compaction).major(&pieces) {
            let Task::Merge(task) = task else { panic!("{task:?}") };
            self.begin(&numbers, task);
        }
        while !self.jobs.is_empty() {
            self.advance(0, f64::INFINITY);
        }
    }

    /// The most files that hold one token: what a read of a partition may have to look into.
    pub(super) fn depth(&self) -> usize {
        let ends = |file: &File| [(file.from, 1), (file.last, -1)];
        let mut ends: Vec<(f64, i64)> = self.files.values().flat_map(ends).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let depths = ends.iter().scan(0, |depth, (_, step)| {
            *depth += step;
            Some(*depth)
        });
        depths.max().map_or(0, |depth| depth as usize)
    }

    /// Bytes on disk for each live one.
    pub(super) fn space(&self) -> f64 {
        self.disk() / self.live()
    }

    fn flush(&mut self) {
        let number = self.next();
        self.now_s += 1;
        let universe = self.universe();
        let known = if universe > 0.0 { 1.0 - (-self.flush_bytes / universe).exp() } else { 0.0 };
        let dies_s = match self.writes {
            Writes::Expiring { flushes } => self.now_s + flushes,
            _ => u32::MAX,
        };
        let file = File {
            run: number.into(),
            level: 0,
            first: 0.0,
            from: 0.0,
            last: 1.0,
            fresh: if universe > 0.0 { 0.0 } else { self.flush_bytes },
            known,
            oldest: i64::from(self.now_s) * 1_000_000,
            newest: i64::from(self.now_s) * 1_000_000,
            dies_s,
            job: None,
        };
        let bytes = self.density(&file);
        self.files.insert(number, file);
        self.flushed += bytes;
        self.written += bytes;
        self.sample();
    }

    fn sample(&mut self) {
        let space = self.space();
        self.samples += 1.0;
        self.sum += space;
        self.seen.space_max = self.seen.space_max.max(space);
        self.seen.depth_max = self.seen.depth_max.max(self.depth());
        self.seen.files_max = self.seen.files_max.max(self.files.len());
    }

    /// The views, as a strategy sees them, and their numbers.
    fn candidates(&self) -> (Vec<u64>, Vec<Piece>) {
        let candidate = |file: &File| Piece {
            run: Uuid::from_u128(file.run),
            level: file.level,
            tokens: TokenRange {
                first: Token((token(file.from) ^ (1 << 63)) as i64),
                last: Token(((token(file.last) - u64::from(file.last < 1.0)) ^ (1 << 63)) as i64),
            },
            bytes: (self.density(file) * (file.last - file.from)) as u64,
            oldest_timestamp: file.oldest,
            newest_timestamp: file.newest,
            last_death_s: file.dies_s,
            dead_part: 0.0,
            joined_dead_part: 0.0,
            made_s: 0,
            shared: false,
            busy: file.job.is_some(),
            merging: file.job.is_some(),
        };
        self.files.iter().map(|(number, file)| (*number, candidate(file))).unzip()
    }

    /// Begins what is proposed while there is a slot; whether a job is under way.
    fn fill(&mut self) -> bool {
        let context = CompactionContext {
            gc_before_s: self.now_s,
            now_s: self.now_s,
            oldest_unflushed: i64::MAX,
            overwritten_ratio: Some(if self.universe() > 0.0 { 1.0 } else { 0.0 }),
        };
        for _ in 0..STEPS_MAX {
            if self.jobs.len() == JOBS {
                return true;
            }
            let (numbers, pieces) = self.candidates();
            match Strategy::of(&self.compaction).propose(&pieces, &context) {
                None => return !self.jobs.is_empty(),
                Some(Task::Drop { pieces }) => {
                    for index in pieces {
                        self.files.remove(&numbers[index]).expect("a candidate");
                    }
                }
                Some(Task::Merge(task)) => self.begin(&numbers, task),
            }
        }
        panic!("it never rests: {:?}", self.compaction.pairs());
    }

    fn begin(&mut self, numbers: &[u64], task: MergeTask) {
        let number = self.next();
        for &index in &task.pieces {
            let file = self.files.get_mut(&numbers[index]).expect("a candidate");
            assert!(file.job.replace(number).is_none(), "a busy piece is left alone");
        }
        self.seen.jobs += 1;
        let (run, table_bytes) = (number.into(), self.disk() as u64);
        self.jobs.push(Job { number, task, run, table_bytes, at: 0.0, written: 0.0 });
    }

    /// Writes what `budget` allows of a job's next fragment, and adopts it when it is whole; the bytes.
    fn advance(&mut self, index: usize, budget: f64) -> f64 {
        let job = &self.jobs[index];
        let (number, at) = (job.number, job.at);
        let inputs: Vec<&File> =
            self.files.values().filter(|f| f.job == Some(number) && f.run != job.run).collect();
        // As `footprint.rs` has it.
        let small = (job.table_bytes / FRAGMENTS_PER_TABLE).max(FRAGMENT_BYTES_MIN);
        let fragment_bytes = small.min(job.task.fragment_bytes) as f64;
        let Some(piece) = next_fragment(&inputs, at, fragment_bytes, self.universe()) else {
            self.end(index);
            return 0.0;
        };
        let whole = piece.bytes(self.universe());
        let bytes = whole.min(job.written + budget) - job.written;
        let job = &mut self.jobs[index];
        job.written += bytes;
        self.written += bytes;
        if job.written < whole - 1.0 {
            return bytes;
        }
        self.sample();
        self.adopt(index, piece);
        bytes
    }

    fn adopt(&mut self, index: usize, piece: NextFragment) {
        let (first, last) = (piece.first, piece.last);
        let (number, run, level) =
            (self.jobs[index].number, self.jobs[index].run, self.jobs[index].task.level);
        let of_job = |f: &&File| f.job == Some(number) && f.run != run;
        let inputs: Vec<&File> = self.files.values().filter(of_job).collect();
        let fragment = File {
            run,
            level,
            first,
            from: first,
            last,
            fresh: piece.fresh / (last - first),
            known: piece.known / (last - first),
            oldest: inputs.iter().map(|f| f.oldest).min().expect("inputs"),
            newest: inputs.iter().map(|f| f.newest).max().expect("inputs"),
            dies_s: inputs.iter().map(|f| f.dies_s).max().expect("inputs"),
            job: Some(number),
        };
        self.jobs[index].at = last;
        self.jobs[index].written = 0.0;
        self.files.retain(|_, file| {
            if file.job == Some(number) && file.run != run {
                file.from = file.from.max(last);
                return file.last > file.from;
            }
            true
        });
        let key = self.next();
        self.files.insert(key, fragment);
        if !self.files.values().any(|f| f.job == Some(number) && f.run != run) {
            self.end(index);
        }
    }

    fn end(&mut self, index: usize) {
        let job = self.jobs.swap_remove(index);
        for file in self.files.values_mut().filter(|file| file.job == Some(job.number)) {
            file.job = None;
        }
        self.sample();
    }
}

/// What a merge writes between two places of the ring.
#[derive(Clone, Copy, Default)]
struct NextFragment {
    first: f64,
    last: f64,
    /// Bytes of new keys, and the overwritten keys as a part of all.
    fresh: f64,
    known: f64,
}

impl NextFragment {
    fn bytes(&self, universe: f64) -> f64 {
        self.fresh + self.known * universe
    }
}

/// The next fragment after `at`; `None` if nothing is left.
fn next_fragment(
    inputs: &[&File],
    at: f64,
    fragment_bytes: f64,
    universe: f64,
) -> Option<NextFragment> {
    let mut places: Vec<f64> = inputs.iter().flat_map(|f| [f.from.max(at), f.last]).collect();
    places.retain(|place| *place >= at);
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut whole: Option<NextFragment> = None;
    for pair in places.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let here: Vec<_> = inputs.iter().filter(|f| f.from <= from && f.last >= to).collect();
        if here.is_empty() {
            continue;
        }
        let fresh: f64 = here.iter().map(|file| file.fresh).sum();
        let known = 1.0 - here.iter().map(|file| 1.0 - file.known).product::<f64>();
        let piece =
            whole.get_or_insert(NextFragment { first: from, last: from, fresh: 0.0, known: 0.0 });
        let free = fragment_bytes - piece.bytes(universe);
        let fits = free / (fresh + known * universe);
        // What is left of the inputs' end is too little for a file.
        let width = if fits < (to - from) - 1e-9 { fits } else { to - from };
        piece.last = from + width;
        piece.fresh += fresh * width;
        piece.known += known * width;
        if width < to - from {
            return whole;
        }
    }
    whole
}

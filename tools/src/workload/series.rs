//! Time series: points appended in time order, read newest first and by stretches.
//!
//! ```text
//! PRIMARY KEY ((series, day), at)  CLUSTERING ORDER BY (at DESC)  USING TTL
//!
//! position  0   1   2   …   loaded …    end          point i of a series lies at BASE + i * step
//!           └── written ────────────┘    └ next append (one in flight per series)
//! ```
//!
//! Each series belongs to one client thread, which appends to its series in turn, so that it knows
//! exactly which positions are acknowledged: those in `whole_from..end`. A read of the newest points
//! or of a stretch must show every such position inside it, newest first, and nothing expired.

use std::ops::Range;

use model::Token;
use rand::RngExt;
use rand::rngs::SmallRng;

use super::mix::Mix;
use super::{Findings, Op, Rule, Sent, Verb};
use crate::error::{Error, Result};
use crate::limits::{
    SERIES_MAX, SERIES_POINTS_MAX, TTL_S_MAX, UNDEAD_GRACE_S, VALUE_BYTES_MAX, VALUE_BYTES_MIN,
};
use crate::proof::{RowProof, Violation};
use crate::value::Origin;
use crate::wire::{Binder, Rows};

/// The name of the table.
pub const TABLE: &str = "series";
/// 2024-01-01T00:00:00Z, where every series begins.
const BASE_MS: i64 = 1_704_067_200_000;
const DAY_MS: i64 = 86_400_000;
/// What the journal notes of a point: its only field.
const FIELD: u16 = 1;
/// A CQL date counts days from this number, which is 1970-01-01.
const DATE_ZERO: u32 = 1 << 31;

/// The shape of the series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesShape {
    /// The keyspace of the table.
    pub keyspace: String,
    /// Bytes of a point's value.
    pub value_bytes: usize,
    /// Time between two points.
    pub step_ms: i64,
    /// Seconds a point lives; 0 is for ever.
    pub ttl_s: u32,
}

/// The mix unless another is asked for: mostly ingestion, read by dashboards.
pub fn usual_mix() -> Mix {
    Mix::new(&[(Verb::Append, 70.0), (Verb::Latest, 20.0), (Verb::Window, 10.0)])
}

/// The key number that a point's value carries.
pub fn point_key(series: u64, position: u32) -> u64 {
    series << 24 | u64::from(position)
}

/// The series and the position of a point's key number.
pub fn point_of_key(key: u64) -> (u64, u32) {
    (key >> 24, (key & 0xff_ffff) as u32)
}

impl SeriesShape {
    /// Refuses shapes that cannot be verified or do not fit.
    pub fn validate(&self, series: u64, points: u32) -> Result<()> {
        if series > SERIES_MAX || u64::from(points) > SERIES_POINTS_MAX {
            return Err(Error::Invalid(format!(
                "at most {SERIES_MAX} --series of {SERIES_POINTS_MAX} --points"
            )));
        }
        if !(VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&self.value_bytes) {
            return Err(Error::Invalid(format!(
                "--field-bytes must be between {VALUE_BYTES_MIN} and {VALUE_BYTES_MAX}"
            )));
        }
        if self.ttl_s > TTL_S_MAX {
            return Err(Error::Invalid(format!("--ttl: at most {TTL_S_MAX}s")));
        }
        if !(1..=DAY_MS).contains(&self.step_ms) || DAY_MS % self.step_ms != 0 {
            return Err(Error::Invalid("--step must divide a day".into()));
        }
        Ok(())
    }

    /// The statement that makes the table; `options` is appended if it is not empty.
    pub fn create_table(&self, options: &str) -> String {
        let and = if options.is_empty() { String::new() } else { format!(" AND {options}") };
        format!(
            "CREATE TABLE IF NOT EXISTS {}.{TABLE} (series text, day date, at timestamp, \
             value text, PRIMARY KEY ((series, day), at)) \
             WITH CLUSTERING ORDER BY (at DESC){and}",
            self.keyspace
        )
    }

    pub(super) fn statements(&self) -> Vec<String> {
        let table = format!("{}.{TABLE}", self.keyspace);
        let partition = "WHERE series = ? AND day = ?";
        vec![
            format!("INSERT INTO {table} (series, day, at, value) VALUES (?, ?, ?, ?) USING TTL ?"),
            format!("SELECT at, value FROM {table} {partition} LIMIT ?"),
            format!("SELECT at, value FROM {table} {partition} AND at >= ? AND at <= ?"),
            format!("SELECT value FROM {table} {partition} AND at = ?"),
        ]
    }

    pub(super) fn statement(&self, op: &Op) -> usize {
        match op.verb {
            Verb::Append => 0,
            Verb::Latest => 1,
            Verb::Window => 2,
            _ => 3,
        }
    }

    fn at_ms(&self, position: u32) -> i64 {
        BASE_MS + i64::from(position) * self.step_ms
    }

    fn day(&self, position: u32) -> u32 {
        DATE_ZERO.wrapping_add((self.at_ms(position) / DAY_MS) as u32)
    }

    /// The first position on the day of `position`.
    fn day_start(&self, position: u32) -> u32 {
        let per_day = (DAY_MS / self.step_ms) as u32;
        position - position % per_day
    }

    /// The operation `verb` on `series`, near `position`, which decides the partition.
    pub(super) fn op(&self, verb: Verb, series: u64, position: u32, detail: u64) -> Op {
        let mut key = [0u8; 32];
        let name = SeriesName::of(series);
        let mut length = 0;
        for part in [&name.0[..], &self.day(position).to_be_bytes()] {
            let count = part.len() as u16;
            key[length..length + 2].copy_from_slice(&count.to_be_bytes());
            key[length + 2..length + 2 + part.len()].copy_from_slice(part);
            length += part.len() + 3; // and the zero that closes a component
        }
        Op { verb, key: series, detail, token: Token::of_key(&key[..length]) }
    }

    pub(super) fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        let (low, high) = (op.detail as u32, (op.detail >> 32) as u32);
        binder.value(&SeriesName::of(op.key).0);
        binder.value(&self.day(low).to_be_bytes());
        match op.verb {
            Verb::Append => {
                let key = point_key(op.key, low);
                let origin = Origin { key, field: 0, mask: 1, sequence };
                binder.value(&self.at_ms(low).to_be_bytes());
                binder.value_of(self.value_bytes, |out| origin.append_value(self.value_bytes, out));
                binder.value(&self.ttl_s.to_be_bytes());
            }
            Verb::Latest => binder.value(&high.to_be_bytes()),
            Verb::Window => {
                binder.value(&self.at_ms(low).to_be_bytes());
                binder.value(&self.at_ms(high).to_be_bytes());
            }
            _ => binder.value(&self.at_ms(low).to_be_bytes()),
        }
    }

    /// The position of a row's time, if a point may lie there.
    fn position(&self, at: Option<&[u8]>) -> Option<u32> {
        let at_ms = i64::from_be_bytes(at?.try_into().ok()?).checked_sub(BASE_MS)?;
        let on_the_grid = at_ms >= 0 && at_ms % self.step_ms == 0;
        u32::try_from(at_ms / self.step_ms).ok().filter(|_| on_the_grid)
    }

    /// Judges one point's value.
    pub(super) fn judge_value(
        &self,
        key: u64,
        value: Option<&[u8]>,
        sent: Sent<'_>,
    ) -> Result<(), Violation> {
        let mut proof = RowProof::new(key);
        proof.field(0, value)?;
        proof.conclude(sent.floor)?;
        let written_us = value.and_then(|value| Origin::of_value(value).ok()).map(|o| o.sequence);
        let lives_us = u64::from(self.ttl_s + UNDEAD_GRACE_S) * 1_000_000;
        match written_us {
            None => Err(Violation::Null { key, field: 0, floor: 0 }),
            Some(us) if self.ttl_s > 0 && us.saturating_add(lives_us) < sent.at.wall_us => {
                Err(Violation::Undead { key })
            }
            Some(_) => Ok(()),
        }
    }
}

/// `series-00001234`: fixed width, so that partition keys are too.
struct SeriesName([u8; 15]);

impl SeriesName {
    fn of(series: u64) -> SeriesName {
        let mut name = *b"series-00000000";
        let mut rest = series;
        for digit in name[7..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        SeriesName(name)
    }
}

/// The load phase: the first points of a stretch of series, which advance together, as they do in life.
#[derive(Debug)]
pub struct Fill {
    /// The shape of the points that are written.
    pub shape: SeriesShape,
    /// The series to fill.
    pub series: Range<u64>,
}

impl Rule for Fill {
    fn statements(&self) -> Vec<String> {
        self.shape.statements()
    }

    fn statement(&self, op: &Op) -> usize {
        self.shape.statement(op)
    }

    /// `turn` counts the points of all series: first the first of each.
    fn op(&mut self, verb: Verb, turn: u64) -> Option<Op> {
        let count = self.series.end - self.series.start;
        let (series, position) = (self.series.start + turn % count, turn / count);
        Some(self.shape.op(verb, series, position as u32, position))
    }

    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        self.shape.bind(op, sequence, binder);
    }

    fn written(
        &mut self,
        _op: &Op,
        _sent: Sent<'_>,
        _rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        findings.mark = FIELD;
        Ok(None)
    }

    fn read(
        &mut self,
        _op: &Op,
        _sent: Sent<'_>,
        _rows: Rows<'_>,
        _findings: &mut Findings,
    ) -> Result<Option<Op>> {
        Ok(None)
    }

    fn journal_key(&self, op: &Op) -> u64 {
        point_key(op.key, op.detail as u32)
    }
}

/// The run phase.
#[derive(Debug)]
pub struct Series {
    shape: SeriesShape,
    rows_max: u32,
    verify: bool,
    rng: SmallRng,
    first: u64,
    stride: u64,
    states: Vec<State>,
    turn: usize,
}

/// What this thread knows of one of its series.
#[derive(Clone, Debug)]
struct State {
    /// Everything from here to `end` is acknowledged.
    whole_from: u32,
    /// The next position to append.
    end: u32,
    appending: bool,
    /// Positions by when they were appended: all from `marks[i].1` on, after `marks[i].0`.
    marks: [(u64, u32); 2],
}

/// How a run over series is set up.
#[derive(Debug)]
pub struct Setup {
    /// The shape of the points that are written.
    pub shape: SeriesShape,
    /// The most rows of a read.
    pub rows_max: u32,
    /// Whether to judge what is read.
    pub verify: bool,
    /// The random generator of this thread.
    pub rng: SmallRng,
    /// Number of series of the whole run.
    pub series: u64,
    /// Points of each that the load phase wrote.
    pub points: u32,
    /// This thread and the number of threads: it owns every `threads`-th series.
    pub thread: (u64, u64),
}

impl Series {
    /// The run phase of one thread.
    pub fn new(setup: Setup) -> Result<Series> {
        let (thread, threads) = setup.thread;
        let owned = (setup.series.saturating_sub(thread)).div_ceil(threads);
        if owned == 0 {
            return Err(Error::Invalid("--series must be at least --threads".into()));
        }
        // Points loaded long ago may be near their end; then only those of this run are counted on.
        let trusted =
            if setup.shape.ttl_s == 0 || setup.shape.ttl_s >= 3600 { 0 } else { setup.points };
        let state = State {
            whole_from: 0,
            end: setup.points,
            appending: false,
            marks: [(0, trusted), (0, trusted)],
        };
        Ok(Series {
            shape: setup.shape,
            rows_max: setup.rows_max,
            verify: setup.verify,
            rng: setup.rng,
            first: thread,
            stride: threads,
            states: vec![state; owned as usize],
            turn: 0,
        })
    }

    /// The number of series that this thread appends to and reads.
    pub fn owned(&self) -> u64 {
        self.states.len() as u64
    }

    /// A read of the newest points of the series in `slot`, or of a stretch of them.
    fn read_of(&mut self, verb: Verb, slot: usize, end: u32) -> Op {
        let series = self.first + slot as u64 * self.stride;
        let rows = self.rng.random_range(1..=self.rows_max);
        if verb == Verb::Latest {
            let last = end - 1;
            let detail = u64::from(rows) << 32 | u64::from(last);
            return self.shape.op(verb, series, last, detail);
        }
        let first = self.rng.random_range(0..end);
        let day_end = self.shape.day_start(first) + (DAY_MS / self.shape.step_ms) as u32 - 1;
        let last = (first + rows - 1).min(day_end).min(end - 1);
        let detail = u64::from(last) << 32 | u64::from(first);
        self.shape.op(Verb::Window, series, first, detail)
    }

    /// The next series in turn that has no append in flight.
    fn next_append(&mut self) -> Option<Op> {
        for _ in 0..self.states.len() {
            let slot = self.turn;
            self.turn = (self.turn + 1) % self.states.len();
            let state = &mut self.states[slot];
            if !state.appending && u64::from(state.end) < SERIES_POINTS_MAX {
                state.appending = true;
                let series = self.first + slot as u64 * self.stride;
                let position = state.end;
                return Some(self.shape.op(Verb::Append, series, position, position.into()));
            }
        }
        None
    }

    fn slot(&self, op: &Op) -> usize {
        ((op.key - self.first) / self.stride) as usize
    }

    /// Judges the rows of a latest or window read.
    fn judge(
        &mut self,
        op: &Op,
        slot: usize,
        sent: Sent<'_>,
        mut rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<()> {
        let (low, high) = (op.detail as u32, (op.detail >> 32) as u32);
        // Newest first: positions `last` down to `first` were acknowledged before this was sent.
        let (first, last) = match op.verb {
            Verb::Latest => (self.shape.day_start(low).max((low + 1).saturating_sub(high)), low),
            _ => (low, high),
        };
        let ttl_s = self.shape.ttl_s;
        let state = &mut self.states[slot];
        let sure = state.whole_from.max(state.unexpired_from(sent.at.elapsed_ns, ttl_s)).max(first);
        let expected = (last + 1).saturating_sub(sure);
        let (mut missing, mut newer, mut before) = (expected, 0, u32::MAX);
        for _ in 0..rows.rows {
            let position = self.shape.position(rows.cell()?);
            let value = rows.cell()?;
            let lowest = if op.verb == Verb::Window { first } else { 0 };
            let highest = if op.verb == Verb::Window { last } else { u32::MAX };
            let in_place = |p: &u32| *p < before && (lowest..=highest).contains(p);
            let Some(position) = position.filter(in_place) else {
                findings.violations.push(Violation::Misplaced { key: point_key(op.key, low) });
                continue;
            };
            before = position;
            let key = point_key(op.key, position);
            findings.violations.extend(self.shape.judge_value(key, value, sent).err());
            missing -= u32::from((sure..=last).contains(&position));
            newer += u32::from(position > last);
        }
        // Appends that landed meanwhile take places of the limit from older points.
        let full = op.verb == Verb::Latest && rows.rows >= high;
        if missing > if full { newer } else { 0 } {
            let (key, rows) = (point_key(op.key, first), expected - missing);
            findings.violations.push(Violation::Incomplete { key, expected, rows });
        }
        if op.verb == Verb::Latest && rows.rows > high {
            findings.violations.push(Violation::Misplaced { key: point_key(op.key, low) });
        }
        Ok(())
    }
}

impl Rule for Series {
    fn statements(&self) -> Vec<String> {
        self.shape.statements()
    }

    fn statement(&self, op: &Op) -> usize {
        self.shape.statement(op)
    }

    /// An append goes to the series whose turn it is; what is not there yet cannot be read.
    fn op(&mut self, verb: Verb, slot: u64) -> Option<Op> {
        let slot = slot as usize;
        match self.states[slot].end {
            0 => self.next_append(),
            _ if verb == Verb::Append => self.next_append(),
            end => Some(self.read_of(verb, slot, end)),
        }
    }

    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        self.shape.bind(op, sequence, binder);
    }

    fn written(
        &mut self,
        op: &Op,
        _sent: Sent<'_>,
        _rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        let slot = self.slot(op);
        let state = &mut self.states[slot];
        state.appending = false;
        state.end += 1;
        findings.mark = FIELD;
        Ok(None)
    }

    fn read(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        findings.not_found += u64::from(rows.rows == 0);
        if self.verify {
            self.judge(op, self.slot(op), sent, rows, findings)?;
        }
        Ok(None)
    }

    fn failed(&mut self, op: &Op) {
        if op.verb == Verb::Append {
            let slot = self.slot(op);
            let state = &mut self.states[slot];
            // The position stays a hole: it may be there or not.
            state.appending = false;
            state.end += 1;
            state.whole_from = state.end;
        }
    }

    fn journal_key(&self, op: &Op) -> u64 {
        point_key(op.key, op.detail as u32)
    }
}

impl State {
    /// The first position that was surely appended less than ¾ of the time to live ago.
    fn unexpired_from(&mut self, now_ns: u64, ttl_s: u32) -> u32 {
        if ttl_s == 0 {
            return 0;
        }
        let quarter_ns = u64::from(ttl_s) * 250_000_000;
        if now_ns.saturating_sub(self.marks[1].0) > quarter_ns {
            self.marks = [self.marks[1], (now_ns, self.end)];
        }
        let oldest_ns = now_ns.saturating_sub(3 * quarter_ns);
        let fresh = self.marks.iter().find(|mark| mark.0 >= oldest_ns);
        fresh.map_or(self.end, |mark| mark.1)
    }
}

#[cfg(test)]
mod tests;

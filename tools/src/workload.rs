//! Which operation is next, what it says, and whether its answer may be.
//!
//! A workload belongs to one client thread. It decides and judges; the client sends and receives:
//!
//! ```text
//! Source ──► verb, key ──► Rule: Op ──► floor, bind ──► (the wire) ──► complete ──► findings, perhaps a following Op
//! ```
//!
//! `record` is YCSB's table and its statements, `ring` the order of its keys, `ycsb` the mixes A to F over it and its load phase,
//! `series` the time series, `customers` rows that follow from their keys and are found by indexes, `check` the reading back of a journal or of a whole data set of these two.
//! `scenario` is what has data of its own: `bank`, `conditional`, `counters`, `named`, `batches`, `indexed`, `views`.
//!
//! What is not idempotent is told of each time it is sent: `begin`, and then either `written` or `settled`.

pub mod bank;
pub mod batches;
pub mod check;
pub mod conditional;
pub mod counters;
pub mod customers;
pub mod indexed;
pub mod mix;
pub mod named;
pub mod record;
pub mod ring;
pub mod rule;
pub mod scenario;
pub mod series;
pub mod source;
pub mod views;
pub mod ycsb;

use model::Token;
pub use rule::Rule;
pub use source::Source;

use crate::error::Result;
use crate::measure::interval::Kind;
use crate::proof::{Floor, Violation};
use crate::wire::Rows;

/// What an operation does on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads all fields of one record.
    Read,
    /// Writes the field `detail`, or all fields if it is their number.
    Update,
    /// Writes all fields.
    Insert,
    /// Reads `detail` records in token order.
    Scan,
    /// The first half of a read-modify-write: a read, which a write as of `Update` follows.
    ReadToModify,
    /// The second half.
    WriteBack,
    /// Writes the point at position `detail` of a series.
    Append,
    /// Reads the newest points of a series.
    Latest,
    /// Reads a stretch of a series.
    Window,
    /// Reads one point of a series.
    Point,
    /// Opens the accounts of a bank, or inserts a row, if they are not there.
    Open,
    /// The first half of a transfer: reads the balances of a bank, which `Transfer` follows.
    ReadToTransfer,
    /// The second half: moves money if the two balances are still what was read.
    Transfer,
    /// Reads one transfer of a bank.
    Receipt,
    /// Reads all that a bank has, transfers included.
    Whole,
    /// Inserts a row with a new key if it is not there.
    Claim,
    /// Updates a row if a column has its value.
    Change,
    /// The same, however many changes of the row are under way.
    Contend,
    /// Adds one to a counter.
    Increment,
    /// Adds one to a counter under a name: sent again, it is counted once.
    Count,
    /// Sends an increment again that was begun as number `detail`, under its name.
    Settle,
    /// Writes rows of several partitions in one logged batch.
    Batch,
    /// Writes a row with an indexed column.
    Tag,
    /// Finds rows by the value of an indexed column.
    Find,
    /// The same in a check: a scan follows.
    FindAll,
    /// Finds the one row that has a text.
    ByMail,
    /// Finds the first rows with one of few texts, which `detail` names.
    ByCity,
    /// Finds the first rows with a number of a range, which `detail` names.
    ByAmount,
    /// Finds the first rows by two indexed columns.
    ByBoth,
    /// Removes a row that a view shows.
    Remove,
    /// Reads what a view shows of one row, in whichever partition.
    Look,
}

impl Verb {
    /// The kind its latency is recorded under.
    pub fn kind(self) -> Kind {
        match self {
            Verb::Read | Verb::ReadToModify | Verb::Point => Kind::Read,
            Verb::ReadToTransfer | Verb::Receipt | Verb::Whole | Verb::Look => Kind::Read,
            Verb::Update | Verb::WriteBack | Verb::Tag | Verb::Remove => Kind::Update,
            Verb::Change | Verb::Contend => Kind::Update,
            Verb::Insert | Verb::Open | Verb::Claim => Kind::Insert,
            Verb::Scan => Kind::Scan,
            Verb::Append => Kind::Append,
            Verb::Latest => Kind::Latest,
            Verb::Window => Kind::Window,
            Verb::Transfer => Kind::Transfer,
            Verb::Increment | Verb::Count | Verb::Settle => Kind::Increment,
            Verb::Batch => Kind::Batch,
            Verb::Find | Verb::FindAll => Kind::Find,
            Verb::ByMail | Verb::ByCity | Verb::ByBoth => Kind::Find,
            Verb::ByAmount => Kind::Scan,
        }
    }

    /// Whether it changes data, and so carries a timestamp.
    pub fn is_write(self) -> bool {
        let of_tables =
            matches!(self, Verb::Update | Verb::Insert | Verb::WriteBack | Verb::Append);
        let of_scenarios =
            matches!(self, Verb::Open | Verb::Transfer | Verb::Increment | Verb::Batch);
        let of_rows =
            matches!(self, Verb::Claim | Verb::Change | Verb::Contend | Verb::Tag | Verb::Remove);
        let of_names = matches!(self, Verb::Count | Verb::Settle);
        of_tables || of_scenarios || of_rows || of_names
    }

    /// What is done when it is not known whether an attempt arrived.
    pub fn in_doubt(self) -> InDoubt {
        match self {
            // Refused the second time, it would seem that it was never applied.
            Verb::Transfer | Verb::Claim | Verb::Change | Verb::Contend => InDoubt::GiveUp,
            Verb::Increment => InDoubt::RepeatAnew,
            _ => InDoubt::Repeat,
        }
    }
}

/// What is done about an operation of which it is not known whether it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InDoubt {
    /// The same is sent again: done twice, it is done once.
    Repeat,
    /// It is sent again and counted again: it may be done once or twice.
    RepeatAnew,
    /// It is left as it is, unknown.
    GiveUp,
}

/// How an attempt ended that was not answered as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The server says that it did nothing.
    NotDone,
    /// It may be done, be done later, or never.
    Unknown,
}

/// One operation, as plain data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Op {
    /// What it does.
    pub verb: Verb,
    /// The key number, or the number of the series.
    pub key: u64,
    /// What else the verb needs.
    pub detail: u64,
    /// Where the partition lives.
    pub token: Token,
}

/// What a workload has for the client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// The operation to send next.
    Op(Op),
    /// Nothing until something in flight completes.
    Later,
    /// Nothing ever again.
    Done,
}

/// The time, read once per pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds since the run began.
    pub elapsed_ns: u64,
    /// Microseconds since 1970, for timestamps.
    pub wall_us: u64,
}

/// What a completed operation showed.
#[derive(Debug, Default)]
pub struct Findings {
    /// The promises that the server broke.
    pub violations: Vec<Violation>,
    /// Rows that came.
    pub rows: u64,
    /// Reads that found nothing.
    pub not_found: u64,
    /// What was held against its rule, by name.
    pub proved: Vec<&'static str>,
    /// What the journal notes of a write: its fields, or what a scenario makes of it; 0 for nothing.
    pub mark: u16,
}

/// The workload of one client thread.
#[derive(Debug)]
pub struct Workload {
    /// Statements and judge.
    pub rule: Box<dyn Rule>,
    /// Verbs and keys.
    pub source: Source,
}

impl Workload {
    /// The next operation.
    #[inline]
    pub fn next_op(&mut self) -> Next {
        match self.source.next() {
            None => Next::Done,
            Some((verb, key)) => self.rule.op(verb, key).map_or(Next::Later, Next::Op),
        }
    }

    /// `op` was answered with `rows`: judges the answer, and says what follows at once.
    #[inline]
    pub fn complete(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        findings.rows += u64::from(rows.rows);
        if op.verb.is_write() {
            return self.rule.written(op, sent, rows, findings);
        }
        self.rule.read(op, sent, rows, findings)
    }
}

/// What is remembered of a request while it is on its way.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The number of the write.
    pub sequence: u64,
    /// What a read must at least show.
    pub floor: &'a Floor,
    /// When it was sent.
    pub at: Now,
}

//! Scenarios: workloads whose data obey a rule, against which every read is held.
//!
//! ```text
//! bank         conditional batches   no money appears or vanishes; applied transfers are there, refused ones are not
//! conditional  conditional writes    a row shows the newest of those applied to it, or a newer one
//! counters     increments            each acknowledged one is counted once; those in doubt may be
//! named        increments with names each is counted once, also if it is sent again
//! batches      logged batches        all rows of a batch carry its number, or none
//! indexed      queries by an index   exactly the rows whose column has the value
//! views        a view of a table     exactly the rows that the table has, each where its newest write puts it
//!
//! load    Walk over all keys       ─┐
//! run     Draw by mix and popularity ├─► Rule: op, bind, written, read ─► violations, and what was proved
//! verify  Walk over promised keys  ─┘
//! ```
//!
//! A scenario is one table and a `Rule`, which knows its statements and judges its answers in all three phases.
//! To add one: a file with its rule, and its lines in `ScenarioName`; the compiler leads to the rest.
//!
//! Invariants
//! 1. What a read may show is known from what was begun before its answer came and answered before it was sent, so that
//!    nothing is judged that a write under way could explain.
//! 2. The clients of one process are all that write: what others do would be taken for the server's mistake.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::SmallRng;

use super::mix::Mix;
use super::{Rule, Verb};
use super::{bank, batches, conditional, counters, indexed, named, views};
use crate::error::{Error, Result};
use crate::journal::Record;
use crate::ledger::{Range, Tallies};
use crate::limits::{INDEXED_ROWS_MAX, SCENARIO_KEYS_MAX, VALUE_BYTES_MAX, VALUE_BYTES_MIN};

/// Which scenario it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioName {
    /// Transfers between the accounts of a bank.
    Bank,
    /// Rows that are inserted and updated on a condition.
    Conditional,
    /// Counters that only grow.
    Counters,
    /// Counters whose increments have names.
    Named,
    /// Batches over several partitions.
    Batches,
    /// Rows that are found by an index.
    Indexed,
    /// Rows that a materialized view shows.
    Views,
}

impl ScenarioName {
    /// All of them.
    pub const ALL: [ScenarioName; 7] = [
        ScenarioName::Bank,
        ScenarioName::Conditional,
        ScenarioName::Counters,
        ScenarioName::Named,
        ScenarioName::Batches,
        ScenarioName::Indexed,
        ScenarioName::Views,
    ];

    /// The scenario of this table.
    pub fn of_table(table: &str) -> Option<ScenarioName> {
        ScenarioName::ALL.into_iter().find(|name| name.table() == table)
    }

    /// The name of its table, and on the command line.
    pub fn table(self) -> &'static str {
        match self {
            ScenarioName::Bank => "bank",
            ScenarioName::Conditional => "conditional",
            ScenarioName::Counters => "counters",
            ScenarioName::Named => "named",
            ScenarioName::Batches => "batches",
            ScenarioName::Indexed => "indexed",
            ScenarioName::Views => "views",
        }
    }

    /// The most keys, which `--records` asks for.
    pub fn keys_max(self) -> u64 {
        match self {
            ScenarioName::Indexed | ScenarioName::Views => INDEXED_ROWS_MAX,
            _ => SCENARIO_KEYS_MAX,
        }
    }

    /// What a key stands for, in words.
    pub fn keys_in_words(self) -> &'static str {
        match self {
            ScenarioName::Bank => "banks of 8 accounts",
            ScenarioName::Conditional => "rows",
            ScenarioName::Counters => "counters",
            ScenarioName::Named => "counters with names",
            ScenarioName::Batches => "groups of 10 partitions",
            ScenarioName::Indexed => "rows with an index",
            ScenarioName::Views => "rows with a view",
        }
    }

    /// The statements that make the table; `options` goes behind WITH if it is not empty.
    pub fn create(self, keyspace: &str, options: &str) -> Vec<String> {
        let columns = match self {
            ScenarioName::Bank => bank::COLUMNS,
            ScenarioName::Conditional => conditional::COLUMNS,
            ScenarioName::Counters => counters::COLUMNS,
            ScenarioName::Named => named::COLUMNS,
            ScenarioName::Batches => batches::COLUMNS,
            ScenarioName::Indexed => indexed::COLUMNS,
            ScenarioName::Views => views::COLUMNS,
        };
        let table = format!("{keyspace}.{}", self.table());
        let with = if options.is_empty() { String::new() } else { format!(" WITH {options}") };
        let mut statements = vec![format!("CREATE TABLE IF NOT EXISTS {table} ({columns}){with}")];
        match self {
            ScenarioName::Indexed => {
                let column = indexed::INDEXED;
                let index = format!("indexed_{column} ON {table} ({column})");
                statements.push(format!("CREATE INDEX IF NOT EXISTS {index}"));
            }
            ScenarioName::Views => {
                let view = format!("{table}_{} AS SELECT * FROM {table}", views::VIEW);
                let shown = views::SHOWN;
                statements.push(format!("CREATE MATERIALIZED VIEW IF NOT EXISTS {view} {shown}"));
            }
            _ => {}
        }
        statements
    }

    /// The shares of the operations of a run, unless others are asked for.
    pub fn usual_mix(self) -> Mix {
        Mix::new(match self {
            ScenarioName::Bank => {
                &[(Verb::ReadToTransfer, 70.0), (Verb::Read, 15.0), (Verb::Receipt, 15.0)]
            }
            ScenarioName::Conditional => {
                &[(Verb::Change, 50.0), (Verb::Claim, 20.0), (Verb::Read, 30.0)]
            }
            ScenarioName::Counters => &[(Verb::Increment, 70.0), (Verb::Read, 30.0)],
            ScenarioName::Named => &[(Verb::Count, 70.0), (Verb::Read, 30.0)],
            ScenarioName::Batches => &[(Verb::Batch, 60.0), (Verb::Read, 40.0)],
            ScenarioName::Indexed => &[(Verb::Tag, 50.0), (Verb::Find, 40.0), (Verb::Read, 10.0)],
            // Of each write what the view shows is read.
            ScenarioName::Views => {
                &[(Verb::Tag, 30.0), (Verb::Update, 30.0), (Verb::Remove, 20.0), (Verb::Find, 20.0)]
            }
        })
    }

    /// Whether a mix may have `verb`.
    pub fn knows(self, verb: Verb) -> bool {
        let contends = self == ScenarioName::Conditional && verb == Verb::Contend;
        contends || self.usual_mix().verbs().any(|known| known == verb)
    }

    /// What the load phase does once for every key.
    pub fn filling(self) -> Verb {
        match self {
            ScenarioName::Bank | ScenarioName::Conditional => Verb::Open,
            ScenarioName::Counters => Verb::Increment,
            ScenarioName::Named => Verb::Count,
            ScenarioName::Batches => Verb::Batch,
            ScenarioName::Indexed | ScenarioName::Views => Verb::Tag,
        }
    }

    /// What the check does once for every key.
    pub fn checking(self) -> Verb {
        match self {
            ScenarioName::Bank | ScenarioName::Views => Verb::Whole,
            ScenarioName::Indexed => Verb::FindAll,
            ScenarioName::Named => Verb::Settle,
            _ => Verb::Read,
        }
    }

    /// The keys that a check walks over: those of the data, but of an index its values.
    pub fn checked(self, keys: Vec<u64>) -> Vec<u64> {
        if self == ScenarioName::Indexed { (0..indexed::TAGS).collect() } else { keys }
    }

    /// What a counter may be before a run that goes on with a journal; of the others nothing is counted.
    pub fn base(self, records: &[Record]) -> Range {
        match self {
            ScenarioName::Counters => counters::promised(records),
            ScenarioName::Named => named::promised(records),
            _ => UNKNOWN,
        }
    }

    /// The rule, as one client thread knows it.
    pub fn rule(self, known: Known, rng: SmallRng) -> Box<dyn Rule> {
        match self {
            ScenarioName::Bank => Box::new(bank::Bank::new(known, rng)),
            ScenarioName::Conditional => Box::new(conditional::Conditional::new(known, rng)),
            ScenarioName::Counters => Box::new(counters::Counters::new(known)),
            ScenarioName::Named => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Box::new(named::Named::new(known, since.as_micros() as u64))
            }
            ScenarioName::Batches => Box::new(batches::Batches::new(known)),
            ScenarioName::Indexed => Box::new(indexed::Indexed::new(known)),
            ScenarioName::Views => Box::new(views::Views::new(known)),
        }
    }
}

/// Of a counter of which nothing is known.
pub const UNKNOWN: Range = Range { low: i64::MIN, high: i64::MAX };

/// What all threads of a phase know.
#[derive(Clone, Debug)]
pub struct Known {
    /// The keyspace of the table.
    pub keyspace: String,
    /// Bytes of a value, where the scenario has values.
    pub value_bytes: usize,
    /// Whether to judge what is read.
    pub judges: bool,
    /// Keys of the load phase, from 0 on.
    pub keys: u64,
    /// The number of this thread, from 0, and how many threads there are.
    pub thread: (u64, u64),
    /// What was begun and what was answered in this run.
    pub tallies: Arc<Tallies>,
    /// What a journal says, by key; empty if there is none.
    pub promises: Arc<BTreeMap<u64, Vec<Record>>>,
}

impl Known {
    /// Refuses values that cannot name their write.
    pub fn validate(&self) -> Result<()> {
        if (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&self.value_bytes) {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "--field-bytes must be between {VALUE_BYTES_MIN} and {VALUE_BYTES_MAX}"
        )))
    }
}

/// The number in an eight-byte cell.
pub(super) fn number(cell: Option<&[u8]>) -> Option<i64> {
    Some(i64::from_be_bytes(cell?.try_into().ok()?))
}

#[cfg(test)]
pub(super) mod tests;

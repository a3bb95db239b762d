//! The next step of a table's life, drawn: schema changes, storage, and who writes or reads.
//!
//! Keys, values and timestamps come out of few, so that writes meet: the same cell at the same timestamp, a deletion
//! beside an insertion, an older write after a newer one.
//!
//! Not here: reads (`generate/reads.rs`), writes (`generate/writes.rs`).

mod reads;
mod writes;

use writes::Batch;

use crate::draw::Draw;
use crate::schema::Schema;
use crate::statement::{Operation, Sending, Step};
use crate::table::Table;
use crate::value::{Type, Value};

/// Steps of a table at least, without the first and the last.
pub(crate) const STEPS_MIN: usize = 150;
/// How many more they may be.
const STEPS_MORE: usize = 700;
/// Values that a key column has.
const KEY_VALUES: usize = 4;
/// How far from the clock a timestamp may lie, in microseconds.
const TIMESTAMPS_APART: usize = 6;
/// How statements are sent, each way as often as it stands here.
const SENDINGS: [Sending; 6] = [
    Sending::Plain,
    Sending::Plain,
    Sending::Plain,
    Sending::Bound,
    Sending::Bound,
    Sending::Prepared,
];
/// Of so many prepared statements one is executed without the description of its columns.
const SKIPPING_EACH: usize = 3;

/// What a server can do beside CQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// A table can be flushed and compacted.
    pub(crate) has_admin: bool,
    /// It is an Apache Cassandra, whose defects are known.
    pub(crate) is_cassandra: bool,
}

/// The choices of one world.
pub(crate) struct Generator {
    draw: Draw,
    abilities: Abilities,
    /// Of each column of the primary key its values.
    keys: Vec<Vec<Value>>,
    /// How the next step is sent.
    sending: Sending,
    of_batch: Batch,
    /// How many steps are left.
    left: usize,
    /// The middle of the timestamps.
    clock_us: i64,
    /// The timestamp of the last drop of a column.
    dropped_us: i64,
    /// How many writes have had a time to live: each has one of its own.
    expiring: i32,
    /// Of a thousand steps how many are writes.
    writes_share: u64,
    /// Of a thousand steps how many are flushes.
    flushes_share: u64,
}

impl Generator {
    /// The choices of a seed, and the schema that it begins with.
    pub(crate) fn new(seed: u64, abilities: Abilities) -> (Generator, Schema) {
        let mut draw = Draw::new(seed);
        let schema = Schema::draw(&mut draw);
        let key = |draw: &mut Draw, at: usize| -> Vec<Value> {
            let of = &schema.columns[at].of;
            (0..KEY_VALUES)
                .map(|_| if at < schema.partition { of.draw_key(draw) } else { of.draw(draw) })
                .collect()
        };
        let keys = (0..schema.key_columns()).map(|at| key(&mut draw, at)).collect();
        let left = STEPS_MIN + draw.below(STEPS_MORE);
        let writes_share = *draw.pick(&[300, 500, 500, 700]);
        // Flushes wait for the disk: most worlds live in memory alone, some in files above all.
        let flushes_share = if abilities.has_admin { *draw.pick(&[0, 0, 0, 0, 1, 20]) } else { 0 };
        let generator = Generator {
            draw,
            abilities,
            keys,
            sending: Sending::Plain,
            of_batch: Batch::None,
            left,
            clock_us: 100,
            dropped_us: 0,
            expiring: 0,
            writes_share,
            flushes_share,
        };
        (generator, schema)
    }

    /// The next step; `None` behind the last one.
    pub(crate) fn step(&mut self, table: &Table) -> Option<Step> {
        self.left = self.left.checked_sub(1)?;
        let choice = self.draw.below(SENDINGS.len() * SKIPPING_EACH);
        self.sending = match (SENDINGS[choice % SENDINGS.len()], choice / SENDINGS.len()) {
            (Sending::Prepared, 0) => Sending::SkippingMetadata,
            (sending, _) => sending,
        };
        let operation = self.operation(table);
        Some(Step { operation, sending: self.sending })
    }

    fn operation(&mut self, table: &Table) -> Operation {
        let schema = &table.schema;
        let choice = self.draw.bits() % 1000;
        let change = if choice < 8 { self.alter(schema) } else { None };
        if let Some(change) = change {
            return change;
        }
        if choice == 9 && self.draw.percent(30) {
            return Operation::Truncate;
        }
        if self.abilities.has_admin && self.draw.bits() % 1000 < self.flushes_share {
            return if self.draw.percent(20) { Operation::Compact } else { Operation::Flush };
        }
        if self.draw.bits() % 1000 < self.writes_share {
            self.writes(schema)
        } else {
            self.select(table)
        }
    }

    fn alter(&mut self, schema: &Schema) -> Option<Operation> {
        let others: Vec<usize> = (schema.key_columns()..schema.columns.len()).collect();
        if others.is_empty() {
            return None;
        }
        let column = *self.draw.pick(&others);
        Some(match schema.columns[column].is_there {
            // A dropped column is kept with the type's parts, so that it cannot be added with the type again.
            true if schema.columns[column].of == Type::Pair => return None,
            true => {
                // Never before an earlier drop: whether that brought cells back would hang on where they lie.
                self.dropped_us = self.dropped_us.max(self.timestamp());
                if self.abilities.is_cassandra {
                    // It writes no cell of a column that is dropped into an sstable, however new: all are made older.
                    self.dropped_us = self.clock_us + TIMESTAMPS_APART as i64;
                    self.clock_us += 2 * TIMESTAMPS_APART as i64;
                }
                Operation::Drop(column, self.dropped_us)
            }
            false => Operation::Add(column),
        })
    }

    fn timestamp(&mut self) -> i64 {
        if self.draw.percent(20) {
            self.clock_us += 1 + self.draw.below(3) as i64;
        }
        self.clock_us + self.draw.below(TIMESTAMPS_APART) as i64 - TIMESTAMPS_APART as i64 / 2
    }

    /// A value of a key column: mostly one that it has, now and then any.
    fn key(&mut self, schema: &Schema, column: usize) -> Value {
        if self.draw.percent(4) {
            let of = &schema.columns[column].of;
            return of.draw_key(&mut self.draw);
        }
        self.draw.pick(&self.keys[column]).clone()
    }

    fn some_keys(&mut self, schema: &Schema, column: usize, count: usize) -> Vec<Value> {
        (0..count).map(|_| self.key(schema, column)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_prepared_statements_skips_the_metadata_always_the_same_ones() {
        let abilities = Abilities { has_admin: false, is_cassandra: false };
        let sendings = |seed| {
            let (mut generator, schema) = Generator::new(seed, abilities);
            let table = Table::new(schema);
            let next = || generator.step(&table).map(|step| step.sending);
            std::iter::from_fn(next).collect::<Vec<Sending>>()
        };
        let all: Vec<Sending> = (0..20).flat_map(sendings).collect();
        let count = |of: Sending| all.iter().filter(|sending| **sending == of).count();
        let (prepared, skipping) = (count(Sending::Prepared), count(Sending::SkippingMetadata));
        assert!(prepared < 3 * skipping && skipping < prepared, "{prepared} {skipping}");
        assert_eq!(sendings(7), sendings(7));
    }
}

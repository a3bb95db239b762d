//! Writes: whole rows, cells, parts of collections, deletions of every extent, batches.
//!
//! 1. One write, or a batch: of one partition or of several, logged or not, with one timestamp or with many.
//! 2. Of each write: the partition, INSERT, UPDATE or DELETE, the rows, then a change for some of the columns.
//!
//! Invariants
//! 1. A write that depends on what a list holds (an index, a value to remove) is about one row of one partition, and in
//!    no batch of several partitions (`may_read`): of such a batch a part could be refused and the rest written.
//! 2. No two writes of a world expire at the same time, and none expires while the run lasts.
//! 3. A marker is left unset only where values are bound.
//!
//! Not here: keys and timestamps (`generate.rs`), what a write does (`table.rs`), its text (`text.rs`).

use super::Generator;
use crate::schema::{Role, Schema};
use crate::statement::{Change, Form, Mutation, Operation, Sending, Target};
use crate::text::parts;
use crate::value::{FIELDS, Type, Value};

/// Statements of a batch at most.
const BATCH_MAX: usize = 4;
/// What lies between the times to live of two writes: more than the seconds that a run takes.
const TTL_APART_S: i32 = 40_000;
/// At most this many writes of a world have a time to live: it ends after twenty years.
const TTLS_MAX: i32 = 12_000;

/// The batch that a write is part of.
pub(super) enum Batch {
    None,
    /// All its writes have this partition key.
    OnePartition(Vec<Vec<Value>>),
    Partitions,
}

impl Generator {
    pub(super) fn writes(&mut self, schema: &Schema) -> Operation {
        self.of_batch = Batch::None;
        if !self.draw.percent(12) {
            let mutation = self.mutation(schema);
            return Operation::Write(vec![mutation]);
        }
        self.of_batch = match self.draw.percent(60) {
            true => Batch::OnePartition(self.partition(schema)),
            false => Batch::Partitions,
        };
        let count = 2 + self.draw.below(BATCH_MAX - 1);
        let mut batch: Vec<Mutation> = (0..count).map(|_| self.mutation(schema)).collect();
        if self.draw.percent(50) {
            let timestamp = batch[0].timestamp;
            batch.iter_mut().for_each(|mutation| mutation.timestamp = timestamp);
        }
        if self.draw.percent(50) { Operation::Write(batch) } else { Operation::Logged(batch) }
    }

    fn partition(&mut self, schema: &Schema) -> Vec<Vec<Value>> {
        (0..schema.partition).map(|at| vec![self.key(schema, at)]).collect()
    }

    fn mutation(&mut self, schema: &Schema) -> Mutation {
        let keys = match &self.of_batch {
            Batch::OnePartition(keys) => keys.clone(),
            Batch::None | Batch::Partitions => self.partition(schema),
        };
        let mut mutation = Mutation {
            form: Form::Insert,
            timestamp: self.timestamp(),
            ttl_s: None,
            keys,
            rows: Target::Partition,
            changes: Vec::new(),
        };
        match self.draw.below(100) {
            0..35 => self.insert(schema, &mut mutation),
            35..65 => self.update(schema, &mut mutation),
            _ => self.delete(schema, &mut mutation),
        }
        if mutation.form != Form::Delete && self.draw.percent(8) && self.expiring < TTLS_MAX {
            self.expiring += 1;
            // Not in the order of the writes.
            let number = (self.expiring * 7919) % TTLS_MAX;
            mutation.ttl_s = Some(100_000 + number * TTL_APART_S);
        }
        mutation
    }

    fn insert(&mut self, schema: &Schema, mutation: &mut Mutation) {
        let is_static = !schema.with_role(Role::Static).is_empty() && self.draw.percent(15);
        let columns = match is_static {
            true => schema.with_role(Role::Static),
            false => {
                mutation.rows = self.one_row(schema);
                schema.cells()
            }
        };
        for column in columns {
            if self.draw.percent(60) {
                let change = self.set(schema, column);
                mutation.changes.push((column, change));
            }
        }
        if is_static && mutation.changes.is_empty() {
            mutation.rows = self.one_row(schema);
        }
    }

    fn update(&mut self, schema: &Schema, mutation: &mut Mutation) {
        let statics = schema.with_role(Role::Static);
        let is_static = !statics.is_empty() && self.draw.percent(20);
        let columns = if is_static { statics } else { schema.with_role(Role::Regular) };
        if columns.is_empty() {
            return self.insert(schema, mutation);
        }
        mutation.form = Form::Update;
        if !is_static {
            mutation.rows = self.rows(schema);
        }
        self.several_keys(schema, mutation);
        let may_read = self.may_read(mutation);
        let first = *self.draw.pick(&columns);
        for column in columns {
            if column == first || self.draw.percent(25) {
                let change = self.change(schema, column, may_read);
                mutation.changes.push((column, change));
            }
        }
    }

    fn delete(&mut self, schema: &Schema, mutation: &mut Mutation) {
        mutation.form = Form::Delete;
        self.several_keys(schema, mutation);
        match self.draw.below(10) {
            // A partition; rarely, or tables stay empty.
            0 if self.draw.percent(40) => {}
            0..3 if schema.clustering > 0 => mutation.rows = self.slice(schema),
            3..6 => mutation.rows = self.rows(schema),
            _ => {
                let statics = schema.with_role(Role::Static);
                let is_static = !statics.is_empty() && self.draw.percent(25);
                let columns = if is_static { statics } else { schema.with_role(Role::Regular) };
                if !is_static {
                    mutation.rows = self.rows(schema);
                }
                let may_read = self.may_read(mutation);
                for column in columns {
                    if self.draw.percent(40) {
                        let change = self.discard(schema, column, may_read);
                        mutation.changes.push((column, change));
                    }
                }
                if is_static && mutation.changes.is_empty() {
                    mutation.rows = self.rows(schema);
                }
            }
        }
    }

    /// Whether a write may depend on what a list holds: of several partitions a part could be refused, and the others
    /// written, which no server promises not to do.
    fn may_read(&self, mutation: &Mutation) -> bool {
        has_one_row(mutation) && !matches!(self.of_batch, Batch::Partitions)
    }

    /// Now and then an IN on the last column of the partition key.
    fn several_keys(&mut self, schema: &Schema, mutation: &mut Mutation) {
        let is_of_one = matches!(self.of_batch, Batch::OnePartition(_));
        if !is_of_one && self.draw.percent(8) {
            let last = schema.partition - 1;
            let count = 2 + self.draw.below(2);
            mutation.keys[last] = self.some_keys(schema, last, count);
        }
    }

    fn one_row(&mut self, schema: &Schema) -> Target {
        Target::Rows(schema.clusterings().map(|at| vec![self.key(schema, at)]).collect())
    }

    fn rows(&mut self, schema: &Schema) -> Target {
        let Target::Rows(mut rows) = self.one_row(schema) else { unreachable!("rows are named") };
        if schema.clustering > 0 && self.draw.percent(10) {
            let last = schema.key_columns() - 1;
            rows[schema.clustering - 1] = self.some_keys(schema, last, 2);
        }
        Target::Rows(rows)
    }

    fn slice(&mut self, schema: &Schema) -> Target {
        let columns: Vec<usize> = schema.clusterings().collect();
        let depth = self.draw.below(schema.clustering);
        let prefix = columns[..depth].iter().map(|&at| self.key(schema, at)).collect();
        let mut bound = |share| {
            let is_there = self.draw.percent(share);
            is_there.then(|| (self.key(schema, columns[depth]), self.draw.percent(50)))
        };
        // Without any bound it were the partition.
        let (lower, upper) = (bound(if depth == 0 { 100 } else { 70 }), bound(70));
        Target::Slice { prefix, lower, upper }
    }

    /// A value, null, or nothing.
    fn set(&mut self, schema: &Schema, column: usize) -> Change {
        if self.sending != Sending::Plain && self.draw.percent(10) {
            return Change::Unset;
        }
        let of = &schema.columns[column].of;
        Change::Set((!self.draw.percent(15)).then(|| of.draw(&mut self.draw)))
    }

    fn change(&mut self, schema: &Schema, column: usize, may_read: bool) -> Change {
        let of = schema.columns[column].of.clone();
        if !schema.columns[column].is_multi_cell() || self.draw.percent(30) {
            return self.set(schema, column);
        }
        let value = of.draw(&mut self.draw);
        match (&of, value) {
            (Type::List(_), value) if !may_read => match self.draw.percent(60) {
                true => Change::Add(value),
                false => Change::Prepend(value),
            },
            (Type::List(item), value) => match self.draw.below(5) {
                0 => Change::Add(value),
                1 => Change::Prepend(value),
                2 => Change::Remove(value),
                _ => {
                    let item = item.draw(&mut self.draw);
                    let item = (!self.draw.percent(20)).then_some(item);
                    Change::Put(Value::Int(self.draw.below(3) as i32), item)
                }
            },
            (Type::Set(_), value) if self.draw.percent(60) => Change::Add(value),
            (Type::Set(_), value) => Change::Remove(value),
            (Type::Map(key, item), value) => match self.draw.below(4) {
                0 => Change::Add(value),
                1 => Change::Remove(Value::Set((0..2).map(|_| key.draw(&mut self.draw)).collect())),
                _ => {
                    let item = item.draw(&mut self.draw);
                    let item = (!self.draw.percent(20)).then_some(item);
                    Change::Put(key.draw(&mut self.draw), item)
                }
            },
            _ => {
                let field = self.draw.below(FIELDS.len());
                let value = FIELDS[field].1.draw(&mut self.draw);
                Change::Field(field, (!self.draw.percent(25)).then_some(value))
            }
        }
    }

    fn discard(&mut self, schema: &Schema, column: usize, may_read: bool) -> Change {
        let of = schema.columns[column].of.clone();
        if !schema.columns[column].is_multi_cell() || self.draw.percent(40) {
            return Change::Delete;
        }
        match &of {
            Type::List(_) if may_read => Change::Discard(Value::Int(self.draw.below(3) as i32)),
            Type::List(_) => Change::Delete,
            Type::Set(_) | Type::Map(..) => Change::Discard(parts(&of).0.draw(&mut self.draw)),
            _ => Change::DiscardField(self.draw.below(FIELDS.len())),
        }
    }
}

/// Whether a write is about one row of one partition.
fn has_one_row(mutation: &Mutation) -> bool {
    let is_one = |values: &[Vec<Value>]| values.iter().all(|values| values.len() == 1);
    is_one(&mutation.keys)
        && match &mutation.rows {
            Target::Partition => true,
            Target::Rows(rows) => is_one(rows),
            Target::Slice { .. } => false,
        }
}

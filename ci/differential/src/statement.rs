//! Statements as data: what the generator draws, the model does and the server is sent.
//!
//! ```text
//! Step ── Sending     literals, values beside the text, PREPARE and EXECUTE
//!      └─ Operation   Write, Logged ─► Mutation ─► Target (which rows), Change (of a column)
//!                     Select        ─► Relation (which rows), Item (what is shown)
//! ```
//!
//! Invariants
//! 1. A column is a number: its place in `Schema::columns`, which a drop does not change.
//! 2. Several values of a key column stand for IN.
//! 3. A bound is a value and whether the bound itself belongs to the slice. Lower and upper are by the order of values,
//!    also where the clustering descends.
//!
//! Not here: their text (`text.rs`), their meaning (`table.rs` for writes, `query.rs` for reads).

use crate::value::Value;

/// One thing that is done to a table, or asked of it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) sending: Sending,
}

/// How a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// With its values as literals.
    Plain,
    /// With values beside the text, for bind markers.
    Bound,
    /// With values, by PREPARE and EXECUTE.
    Prepared,
    /// By PREPARE and an EXECUTE with the flag `skip_metadata`: the answer leaves out what PREPARE told of its columns.
    SkippingMetadata,
}

/// What is done.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Create,
    /// One write, or an unlogged batch of several.
    Write(Vec<Mutation>),
    /// A batch that is logged.
    Logged(Vec<Mutation>),
    Select(Select),
    Add(usize),
    /// The column, and the timestamp up to which its cells are gone.
    Drop(usize, i64),
    Truncate,
    /// What is in memory goes to an sstable.
    Flush,
    /// The sstables become one.
    Compact,
    /// The table goes: the last step.
    Leave,
}

/// The word that a write begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Insert,
    Update,
    Delete,
}

/// One INSERT, UPDATE or DELETE.
#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    pub(crate) form: Form,
    pub(crate) timestamp: i64,
    pub(crate) ttl_s: Option<i32>,
    /// Of each column of the partition key the values: more than one stand in an IN.
    pub(crate) keys: Vec<Vec<Value>>,
    pub(crate) rows: Target,
    pub(crate) changes: Vec<(usize, Change)>,
}

/// The rows that a write is about.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// No row: the partition, or its static columns.
    Partition,
    /// Of each clustering column the values.
    Rows(Vec<Vec<Value>>),
    /// Deletes what begins so and lies between the bounds.
    Slice { prefix: Vec<Value>, lower: Option<(Value, bool)>, upper: Option<(Value, bool)> },
}

/// What happens to one column.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Set(Option<Value>),
    /// A bind marker that is left unset: nothing happens.
    Unset,
    Delete,
    /// `c = c + value`.
    Add(Value),
    /// `c = value + c`.
    Prepend(Value),
    /// `c = c - value`.
    Remove(Value),
    /// `c[key] = value` of a map, or of a list by its index.
    Put(Value, Option<Value>),
    /// `DELETE c[key]`: of a map, a set, or of a list by its index.
    Discard(Value),
    /// `c.field = value`.
    Field(usize, Option<Value>),
    /// `DELETE c.field` of a user type.
    DiscardField(usize),
}

/// What a read shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Column(usize),
    Count,
    /// `count(c)`: the values that are not null.
    CountOf(usize),
    Min(usize),
    Max(usize),
    Sum(usize),
    /// `avg(c)` of an int, which is an int.
    Average(usize),
    /// `c[key]` of a map or of a set.
    Element(usize, Value),
    /// `c.field` of a user type.
    Field(usize, usize),
    /// `writetime(c)` in microseconds.
    WriteTime(usize),
}

impl Item {
    /// The column that it is about.
    pub(crate) fn column(&self) -> Option<usize> {
        match self {
            Item::Count => None,
            Item::Column(column)
            | Item::CountOf(column)
            | Item::Min(column)
            | Item::Max(column)
            | Item::Sum(column)
            | Item::Average(column)
            | Item::Element(column, _)
            | Item::Field(column, _)
            | Item::WriteTime(column) => Some(*column),
        }
    }

    /// Whether it adds rows up.
    pub(crate) fn is_aggregate(&self) -> bool {
        let is_of_row = matches!(
            self,
            Item::Column(_) | Item::WriteTime(_) | Item::Element(..) | Item::Field(..)
        );
        !is_of_row
    }
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Whether it holds of two things that are ordered so.
    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }

    /// The operator in a statement.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

/// A condition of a WHERE.
#[derive(Clone, Debug)]
pub(crate) enum Relation {
    Compare(usize, Comparison, Value),
    In(usize, Vec<Value>),
    /// `(c, d) > (1, 2)`.
    CompareMany(Vec<usize>, Comparison, Vec<Value>),
    /// `(c, d) IN ((1, 2), (3, 4))`.
    InMany(Vec<usize>, Vec<Vec<Value>>),
    Contains(usize, Value),
    ContainsKey(usize, Value),
    /// `m[key] = value`.
    Entry(usize, Value, Value),
    /// `token(p) > number`.
    Token(Comparison, i64),
}

impl Relation {
    /// The columns that it restricts.
    pub(crate) fn columns(&self) -> &[usize] {
        use std::slice::from_ref;
        match self {
            Relation::Compare(column, ..)
            | Relation::In(column, _)
            | Relation::Contains(column, _)
            | Relation::ContainsKey(column, _)
            | Relation::Entry(column, ..) => from_ref(column),
            Relation::CompareMany(columns, ..) | Relation::InMany(columns, _) => columns,
            Relation::Token(..) => &[],
        }
    }
}

/// A read of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Select {
    pub(crate) is_distinct: bool,
    /// What is shown; all columns if there is none.
    pub(crate) items: Vec<Item>,
    pub(crate) relations: Vec<Relation>,
    /// This many columns of the primary key make a group.
    pub(crate) group_by: usize,
    /// The clustering columns in ORDER BY: how many, and whether against the order of the table.
    pub(crate) order: Option<(usize, bool)>,
    pub(crate) per_partition: Option<i32>,
    pub(crate) limit: Option<i32>,
    pub(crate) is_filtering: bool,
    pub(crate) page_rows: Option<u32>,
}

impl Select {
    /// Whether all rows become one.
    pub(crate) fn is_one_aggregate(&self) -> bool {
        self.group_by == 0 && self.items.iter().any(Item::is_aggregate)
    }
}

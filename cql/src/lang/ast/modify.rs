//! `INSERT`, `UPDATE`, `DELETE` and `BATCH`.
//!
//! What parses is not yet a write that makes sense: the same column may be set twice, the numbers of columns and values
//! may differ, a part of a USING may stand there several times. All of it is kept, so that `prepare` can judge it in
//! Cassandra's order and words.
//!
//! Not here: relations, operators and operands, which a SELECT has as well (`select.rs`), the grammar
//! (`parser/modify.rs`), plans (`plan/write.rs`).

use super::{Access, Expr, Operand, Operator, QualifiedName, Relation};

/// `USING TIMESTAMP .. AND TTL .. AND TIMEOUT ..`; of a part that is given several times the last counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Using {
    /// `TIMESTAMP n`: time of the write in µs.
    pub timestamp: Vec<Expr>,
    /// `TTL n`: time to live in seconds.
    pub ttl: Vec<Expr>,
    /// A duration, ScyllaDB's.
    pub timeout: Vec<Expr>,
}

/// A statement that writes.
#[derive(Debug, Clone, PartialEq)]
pub enum Modification {
    /// An INSERT statement.
    Insert(Insert),
    /// An UPDATE statement.
    Update(Update),
    /// A DELETE statement.
    Delete(Delete),
}

/// `INSERT INTO t ..`.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// The table that is written.
    pub table: QualifiedName,
    /// The values, by column or as JSON.
    pub values: InsertValues,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// `USING ..`: timestamp, time to live, time-out.
    pub using: Using,
}

/// The values of an `INSERT`, by column or as JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum InsertValues {
    /// `(a, b) VALUES (1, 2)`. The counts may differ: that is no error of syntax.
    Columns(Vec<String>, Vec<Expr>),
    /// `JSON '..'`: all values in one text.
    Json {
        /// The text: a literal or a marker.
        json: Expr,
        /// `DEFAULT UNSET`: columns that the text lacks stay as they are.
        default_unset: bool,
    },
}

/// `UPDATE t SET .. WHERE ..`.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The table that is written.
    pub table: QualifiedName,
    /// `USING ..`: timestamp, time to live, time-out.
    pub using: Using,
    /// `SET ..`: what becomes of each column.
    pub assignments: Vec<Assignment>,
    /// `WHERE ..`: which rows are written.
    pub relations: Vec<Relation>,
    /// `IF ..`: when the write takes place.
    pub condition: If,
}

/// One assignment of a `SET`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Name of the column.
    pub column: String,
    /// The assignment to the column.
    pub assign: Assign,
}

/// What an assignment does to its column.
#[derive(Debug, Clone, PartialEq)]
pub enum Assign {
    /// `c = v`.
    Set(Expr),
    /// `c = c + v`, `c += v`.
    Add(Expr),
    /// `c = c - v`, `c -= v`.
    Subtract(Expr),
    /// `c = v + c`.
    Prepend(Expr),
    /// `c[k] = v`.
    SetElement(Expr, Expr),
    /// `c.field = v`.
    SetField(String, Expr),
}

/// `DELETE .. FROM t WHERE ..`.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// What is deleted of each row; nothing stands for all.
    pub deletions: Vec<Deletion>,
    /// The table that is written.
    pub table: QualifiedName,
    /// `USING ..`: timestamp, time to live, time-out.
    pub using: Using,
    /// `WHERE ..`: which rows are written.
    pub relations: Vec<Relation>,
    /// `IF ..`: when the write takes place.
    pub condition: If,
}

/// One thing a `DELETE` names.
#[derive(Debug, Clone, PartialEq)]
pub struct Deletion {
    /// Name of the column.
    pub column: String,
    /// A part of it: an element or a field.
    pub part: Option<Access>,
}

/// The `IF` of an `UPDATE` or `DELETE`.
#[derive(Debug, Clone, PartialEq)]
pub enum If {
    /// The write takes place without condition.
    Always,
    /// `IF EXISTS`: the row must exist.
    Exists,
    /// `IF a = 1 AND ..`.
    Conditions(Vec<Condition>),
}

/// One condition of an `IF`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Name of the column.
    pub column: String,
    /// A part of it.
    pub part: Option<Access>,
    /// The operator between column and value.
    pub operator: Operator,
    /// The right side.
    pub operand: Operand,
}

/// The kind of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they say themselves")]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}

/// `BEGIN BATCH .. APPLY BATCH`.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Logged, unlogged or counter.
    pub kind: BatchKind,
    /// `USING ..` of the whole batch.
    pub using: Using,
    /// The statements in order.
    pub statements: Vec<Modification>,
}

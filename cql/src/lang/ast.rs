//! The tree of a statement: what was written, before anything is looked up.
//!
//! Names are folded (unquoted ones to lower case) and literals are unquoted, but nothing is
//! checked against a schema: that is the business of `prepare`. Bind markers are numbered in the
//! order they are written; `Parsed::binds` has their names.

mod expr;
mod modify;
mod schema;
mod select;
mod show;

pub use expr::{Access, BinaryOp, Expr, Literal, LiteralKind, TypeName};
pub use modify::{
    Assign, Assignment, Batch, BatchKind, Condition, Delete, Deletion, If, Insert, InsertValues,
    Modification, Update, Using,
};
pub use schema::{
    AlterTable, AlterType, ColumnDefinition, CreateAggregate, CreateFunction, CreateIndex,
    CreateTable, CreateTableLike, CreateView, Describe, DescribeTarget, DropFunction, Existing,
    FunctionKind, IndexFunction, Properties, PropertyValue, SchemaStatement, TableChange,
    TypeChange,
};
pub use select::{
    Operand, Operator, Order, OrderBy, Relation, Select, SelectItem, SelectKind, Target,
};

/// A name that may say its keyspace: `ks.t` or `t`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QualifiedName {
    /// The keyspace, if written.
    pub keyspace: Option<String>,
    /// The name in it.
    pub name: String,
}

/// A statement and its bind markers.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The statement as it was parsed.
    pub statement: Statement,
    /// The name of each bind marker, in the order written; `?` has none.
    pub binds: Vec<Option<String>>,
    /// The number of tokens in the text.
    pub tokens: usize,
    /// What it has in common with the statements that differ from it by values alone.
    pub fingerprint: String,
}

/// A statement of CQL, as it was parsed.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `USE ks`: the keyspace of unqualified names.
    Use(String),
    /// `SELECT ..`: reads rows.
    Select(Box<Select>),
    /// `EXPLAIN SELECT ..`: how the rows would be read.
    Explain(Box<Select>),
    /// `INSERT`, `UPDATE` or `DELETE`.
    Modification(Box<Modification>),
    /// `BEGIN BATCH .. APPLY BATCH`.
    Batch(Batch),
    /// `TRUNCATE [TABLE] t`.
    Truncate {
        /// The table that is named.
        table: QualifiedName,
        /// ScyllaDB's `USING TIMEOUT`.
        using: Using,
    },
    /// `CREATE`, `ALTER` or `DROP`: a change of the schema.
    Schema(SchemaStatement),
    /// `DESCRIBE ..`: the schema as statements.
    Describe(Describe),
    /// A statement that CQL has and this server has not, such as `GRANT` or `CREATE TRIGGER`: the words that name it.
    Unsupported(&'static str),
}

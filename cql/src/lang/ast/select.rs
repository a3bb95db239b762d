//! `SELECT` and the relations of a `WHERE`.
//!
//! Relations are kept in the order in which they were written, and one may restrict what another restricts already:
//! they are merged or refused when the statement is prepared.
//!
//! Not here: the grammar (`parser/select.rs`, `parser/relation.rs`), which relations a column takes
//! (`restrict/gather.rs`), what may be selected (`expr/compile.rs`), the plan (`plan/select.rs`).

use super::{Expr, QualifiedName, Using};

/// How the rows of a `SELECT` are to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectKind {
    /// Row by row.
    Plain,
    /// `DISTINCT`: once for each partition.
    Distinct,
    /// `JSON`: each row as one text.
    Json,
    /// `SELECT JSON DISTINCT`: both at once.
    JsonDistinct,
}

/// A SELECT statement, as it was parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Select {
    /// Plain, `DISTINCT`, `JSON`.
    pub kind: SelectKind,
    /// What is selected; nothing stands for `*`.
    pub items: Vec<SelectItem>,
    /// The table that is read.
    pub table: QualifiedName,
    /// `WHERE ..`: which rows are read.
    pub relations: Vec<Relation>,
    /// `GROUP BY ..`: the columns that make a group.
    pub group_by: Vec<Expr>,
    /// `ORDER BY ..`: the order of the rows.
    pub order_by: Vec<OrderBy>,
    /// `PER PARTITION LIMIT`.
    pub per_partition_limit: Option<Expr>,
    /// `LIMIT n`: at most so many rows.
    pub limit: Option<Expr>,
    /// Whether `ALLOW FILTERING` was written: rows may be read to be left out.
    pub allow_filtering: bool,
    /// Whether `BYPASS CACHE` was written.
    pub bypass_cache: bool,
    /// `USING TIMEOUT d`: how long the read may take.
    pub using: Using,
}

/// One selected expression.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectItem {
    /// The expression that is selected.
    pub expr: Expr,
    /// The name after `AS`.
    pub alias: Option<String>,
}

/// The direction of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they say themselves")]
pub enum Order {
    Ascending,
    Descending,
}

/// One term of an `ORDER BY`.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderBy {
    /// Name of the column.
    pub column: String,
    /// `ANN OF` this vector, instead of the column's own order.
    pub ann_of: Option<Expr>,
    /// Ascending or descending.
    pub order: Order,
}

/// A relation's operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "they say themselves")]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
    Contains,
    ContainsKey,
    NotContains,
    NotContainsKey,
    Like,
    IsNull,
    IsNotNull,
    Between,
}

impl Operator {
    /// As Cassandra's errors write it.
    pub fn symbol(self) -> &'static str {
        match self {
            Operator::Equal => "=",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterEqual => ">=",
            Operator::In => "IN",
            Operator::NotIn => "NOT IN",
            Operator::Contains => "CONTAINS",
            Operator::ContainsKey => "CONTAINS KEY",
            Operator::NotContains => "NOT CONTAINS",
            Operator::NotContainsKey => "NOT CONTAINS KEY",
            Operator::Like => "LIKE",
            Operator::IsNull => "IS NULL",
            Operator::IsNotNull => "IS NOT",
            Operator::Between => "BETWEEN",
        }
    }

    /// `<`, `<=`, `>`, `>=`.
    pub fn is_slice(self) -> bool {
        matches!(
            self,
            Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual
        )
    }
}

/// The left side of a relation: what it restricts.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// The column itself: `c`.
    Column(String),
    /// An element of a map or list: `m[key]`.
    Element(String, Expr),
    /// Several columns at once: `(a, b)`.
    Columns(Vec<String>),
    /// The token of the partition key: `token(a, b)`.
    Token(Vec<String>),
}

/// The right side of a relation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// One value after the operator.
    One(Expr),
    /// `(a, b, c)` of an `IN`.
    Many(Vec<Expr>),
    /// `IN ?`: the marker of this number binds the whole list.
    ManyBind(u16),
    /// `BETWEEN a AND b`.
    Between(Expr, Expr),
}

/// One relation of a `WHERE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    /// The left side.
    pub target: Target,
    /// The operator between the sides.
    pub operator: Operator,
    /// The right side.
    pub operand: Operand,
}

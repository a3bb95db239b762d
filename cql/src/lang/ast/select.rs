//! `SELECT` and the relations of a `WHERE`.

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
    /// `JSON DISTINCT`.
    JsonDistinct,
}

/// `SELECT ..`.
#[derive(Debug, Clone, PartialEq)]
pub struct Select {
    /// Plain, `DISTINCT`, `JSON`.
    pub kind: SelectKind,
    /// What is selected; nothing stands for `*`.
    pub items: Vec<SelectItem>,
    /// The table.
    pub table: QualifiedName,
    /// `WHERE`.
    pub relations: Vec<Relation>,
    /// `GROUP BY`.
    pub group_by: Vec<Expr>,
    /// `ORDER BY`.
    pub order_by: Vec<OrderBy>,
    /// `PER PARTITION LIMIT`.
    pub per_partition_limit: Option<Expr>,
    /// `LIMIT`.
    pub limit: Option<Expr>,
    /// `ALLOW FILTERING`.
    pub allow_filtering: bool,
    /// `BYPASS CACHE`.
    pub bypass_cache: bool,
    /// `USING TIMEOUT`.
    pub using: Using,
}

/// One selected expression.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectItem {
    /// What is selected.
    pub expr: Expr,
    /// `AS` name.
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
    /// The column.
    pub column: String,
    /// `ANN OF` this vector, instead of the column's own order.
    pub ann_of: Option<Expr>,
    /// The direction.
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

/// What a relation restricts.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// `c`.
    Column(String),
    /// `m[key]`.
    Element(String, Expr),
    /// `(a, b)`.
    Columns(Vec<String>),
    /// `token(a, b)`.
    Token(Vec<String>),
}

/// The right side of a relation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// One value.
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
    /// The operator.
    pub operator: Operator,
    /// The right side.
    pub operand: Operand,
}

//! Expressions: the terms of a write, the selectors of a read, and the types named in them.
//!
//! The parser makes a tree of what was written and knows no types: `[1, 2]` is a list here, and may become a list or a
//! vector; `{}` is a set, and may become a map; `(a)` is a tuple of one, and may become the value in it. Operators of
//! one rank are left-associative.
//!
//! Invariant: a tree is at most `EXPRESSION_DEPTH_MAX` high (`parser/expr.rs`), so walking and dropping it needs no
//! more stack than that.
//!
//! Not here: the tree as text (`show.rs`), its terms with types (`cql/src/expr.rs`), what a literal may be
//! (`cql/src/literal.rs`), types with their definitions (`cql/src/types.rs`).

use super::QualifiedName;

/// The lexical form of a literal; its type is found later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is a token of the same name")]
pub enum LiteralKind {
    String,
    Integer,
    Float,
    Boolean,
    Duration,
    Uuid,
    Hex,
}

/// A constant, as written but without quotes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Literal {
    /// The lexical form.
    pub kind: LiteralKind,
    /// Text of the literal as it was written.
    pub text: String,
}

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they say themselves")]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl BinaryOp {
    /// The operator as CQL writes it.
    pub fn symbol(self) -> char {
        match self {
            BinaryOp::Add => '+',
            BinaryOp::Subtract => '-',
            BinaryOp::Multiply => '*',
            BinaryOp::Divide => '/',
            BinaryOp::Modulo => '%',
        }
    }
}

/// What stands behind a value and takes a part of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Access {
    /// `.field` of a user-defined type.
    Field(String),
    /// `[key]` of a map or set, `[index]` of a list.
    Element(Expr),
    /// `[from..to]` of a set or map, open where nothing is written.
    Slice(Option<Expr>, Option<Expr>),
}

/// An expression, as it was written.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A constant of the text.
    Literal(Literal),
    /// The word `null`.
    Null,
    /// The bind marker of this number.
    Bind(u16),
    /// A column. Only where the grammar allows one.
    Column(String),
    /// A part of a value.
    Part(Box<Expr>, Box<Access>),
    /// `[a, b]`: a list or a vector.
    List(Vec<Expr>),
    /// `{a, b}`; `{}` may also be a map.
    Set(Vec<Expr>),
    /// A map literal: `{k: v}`.
    Map(Vec<(Expr, Expr)>),
    /// A literal of a user type: `{field: v}`.
    Udt(Vec<(String, Expr)>),
    /// A tuple literal: `(a, b)`.
    Tuple(Vec<Expr>),
    /// A call by name: `f(a, b)`.
    Call(QualifiedName, Vec<Expr>),
    /// The count of rows: `count(*)`.
    CountRows,
    /// An expression with its type before it: `(type) a`.
    TypeHint(TypeName, Box<Expr>),
    /// `CAST(a AS type)`.
    Cast(Box<Expr>, TypeName),
    /// A negated expression: `-a`.
    Negate(Box<Expr>),
    /// `a + b`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// The value of the column of this number in the text of an `INSERT JSON`. The parser makes none.
    OfJson(usize),
}

/// A type as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeName {
    /// A scalar: `int`.
    Native(&'static str),
    /// The type `list<t>`.
    List(Box<TypeName>),
    /// The type `set<t>`.
    Set(Box<TypeName>),
    /// The type `map<k, v>`.
    Map(Box<TypeName>, Box<TypeName>),
    /// The type `tuple<a, b>`.
    Tuple(Vec<TypeName>),
    /// The type `vector<t, n>` of n elements.
    Vector(Box<TypeName>, i32),
    /// The type `frozen<t>`: stored as one cell.
    Frozen(Box<TypeName>),
    /// A user-defined type.
    User(QualifiedName),
    /// The name of a Java class, in quotes.
    Custom(String),
}

//! Expressions and types as text again, as Cassandra's errors and column headings write them.
//!
//! The text is for people, in the form of Cassandra's `toString`: every marker is `?`, texts are in quotes but quotes
//! in them are not doubled, a cast is in lower case. So it need not parse, and two expressions may have one text.
//!
//! Not here: values as constants (`literal/show.rs`), statements of the schema as text, which do parse
//! (`cql/src/describe.rs`), names in quotes (`keyword.rs`).

use std::fmt;

use super::{Access, BinaryOp, Expr, Literal, LiteralKind, QualifiedName, TypeName};
use crate::lang::keyword::quoted;

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.keyspace {
            Some(keyspace) => write!(f, "{keyspace}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            LiteralKind::String => write!(f, "'{}'", self.text),
            _ => f.write_str(&self.text),
        }
    }
}

/// Items with commas between them.
struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{item}")?;
        }
        Ok(())
    }
}

/// `key: value`, with commas between.
fn pairs<K: fmt::Display, V: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    entries: &[(K, V)],
) -> fmt::Result {
    f.write_str("{")?;
    for (index, (key, value)) in entries.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{key}: {value}")?;
    }
    f.write_str("}")
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Literal(literal) => literal.fmt(f),
            Expr::Null => f.write_str("NULL"),
            Expr::Bind(_) => f.write_str("?"),
            Expr::Column(name) => f.write_str(&quoted(name)),
            Expr::Part(value, access) => write!(f, "{value}{access}"),
            Expr::List(items) => write!(f, "[{}]", List(items)),
            Expr::Set(items) => write!(f, "{{{}}}", List(items)),
            Expr::Map(entries) => pairs(f, entries),
            Expr::Udt(fields) => pairs(f, fields),
            Expr::Tuple(items) => write!(f, "({})", List(items)),
            Expr::Call(name, arguments) => write!(f, "{name}({})", List(arguments)),
            Expr::CountRows => f.write_str("count(*)"),
            Expr::OfJson(_) => f.write_str("[json]"),
            Expr::TypeHint(ty, value) => write!(f, "({ty}){value}"),
            Expr::Cast(value, ty) => write!(f, "cast({value} as {ty})"),
            Expr::Negate(value) => write!(f, "-{value}"),
            Expr::Binary(op, left, right) => write!(f, "{left} {} {right}", op.symbol()),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Field(name) => write!(f, ".{}", quoted(name)),
            Access::Element(key) => write!(f, "[{key}]"),
            Access::Slice(from, to) => {
                f.write_str("[")?;
                from.iter().try_for_each(|from| from.fmt(f))?;
                f.write_str("..")?;
                to.iter().try_for_each(|to| to.fmt(f))?;
                f.write_str("]")
            }
        }
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypeName::Native(name) => f.write_str(name),
            TypeName::List(element) => write!(f, "list<{element}>"),
            TypeName::Set(element) => write!(f, "set<{element}>"),
            TypeName::Map(key, value) => write!(f, "map<{key}, {value}>"),
            TypeName::Tuple(parts) => write!(f, "tuple<{}>", List(parts)),
            TypeName::Vector(element, dimensions) => write!(f, "vector<{element}, {dimensions}>"),
            TypeName::Frozen(inner) => write!(f, "frozen<{inner}>"),
            TypeName::User(name) => name.fmt(f),
            TypeName::Custom(class) => write!(f, "'{class}'"),
        }
    }
}

impl fmt::Display for BinaryOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.symbol())
    }
}

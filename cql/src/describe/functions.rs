//! Functions and aggregates of users: their names with types, and the statements that would make them again.
//!
//! As Cassandra writes them (`UDFunction.toCqlString`), but that a body with `$$` in it is quoted so that it can be read.
//!
//! `callables` lists the functions or aggregates of a keyspace in Cassandra's order; `create_function` and
//! `create_aggregate` write one of them. Types are written without the `frozen` around them, which says nothing about a
//! value of a function.
//!
//! Invariant: the statement that is written makes the same function again. A body is between `$$`, or in quotes where
//! it has `$$` in it or ends with `$`.
//!
//! Not here: which elements a DESCRIBE has (`describe.rs`), tables and types (`text.rs`), the grammar
//! (`parser/function.rs`).

use model::CqlType;
use model::schema::{Keyspace, UserAggregate, UserFunction};

use super::Element;
use crate::lang::ast::FunctionKind;
use crate::lang::keyword::quoted;
use crate::literal::value_literal;

/// A function or an aggregate.
pub(super) struct Callable<'s> {
    pub(super) name: &'s str,
    /// Its name with the types of its arguments.
    pub(super) shown: String,
    pub(super) element: Element<'s>,
}

/// The functions or the aggregates of a keyspace, in the order of their names with types, whatever the case.
pub(super) fn callables(keyspace: &Keyspace, kind: FunctionKind) -> Vec<Callable<'_>> {
    let mut all: Vec<Callable<'_>> = match kind {
        FunctionKind::Scalar => {
            let each = keyspace.functions.values();
            each.map(|one| callable(&one.name, one.types(), Element::Function(one))).collect()
        }
        FunctionKind::Aggregate => {
            let each = keyspace.aggregates.values();
            each.map(|one| callable(&one.name, &one.arguments, Element::Aggregate(one))).collect()
        }
    };
    all.sort_by_cached_key(|one| format!("{}{}", one.name, one.types()).to_lowercase());
    all
}

fn callable<'s>(
    name: &'s str,
    types: impl IntoIterator<Item = &'s CqlType>,
    element: Element<'s>,
) -> Callable<'s> {
    Callable { name, shown: signature(name, types), element }
}

impl Callable<'_> {
    /// The types of its arguments, in parentheses.
    fn types(&self) -> &str {
        &self.shown[quoted(self.name).len()..]
    }
}

/// The name of a function with the types of its arguments.
pub(super) fn signature<'t>(name: &str, of: impl IntoIterator<Item = &'t CqlType>) -> String {
    format!("{}({})", quoted(name), types(of))
}

/// The CREATE FUNCTION statement that makes `function`.
pub fn create_function(function: &UserFunction) -> String {
    let argument = |(name, ty): &(String, CqlType)| format!("{} {}", quoted(name), plain(ty));
    let arguments: Vec<String> = function.arguments.iter().map(argument).collect();
    let nulls = if function.called_on_null { "CALLED" } else { "RETURNS NULL" };
    let body = match function.body.contains("$$") || function.body.ends_with('$') {
        true => format!("'{}'", function.body.replace('\'', "''")),
        false => format!("$${}$$", function.body),
    };
    format!(
        "CREATE FUNCTION {}.{}({})\n    {nulls} ON NULL INPUT\n    RETURNS {}\n    LANGUAGE {}\n    AS {body};",
        quoted(&function.keyspace),
        quoted(&function.name),
        arguments.join(", "),
        plain(&function.result),
        function.language.name(),
    )
}

/// The CREATE AGGREGATE statement that makes `aggregate`.
pub fn create_aggregate(aggregate: &UserAggregate) -> String {
    let mut out = format!(
        "CREATE AGGREGATE {}.{}({})\n    SFUNC {}\n    STYPE {}",
        quoted(&aggregate.keyspace),
        quoted(&aggregate.name),
        types(&aggregate.arguments),
        quoted(&aggregate.state_function),
        plain(&aggregate.state),
    );
    for (word, function) in
        [("REDUCEFUNC", &aggregate.reduce_function), ("FINALFUNC", &aggregate.final_function)]
    {
        if let Some(function) = function {
            out.push_str(&format!("\n    {word} {}", quoted(function)));
        }
    }
    if let Some(initial) = &aggregate.initial {
        let initial = value_literal(&aggregate.state, Some(initial));
        out.push_str(&format!("\n    INITCOND {initial}"));
    }
    out.push(';');
    out
}

fn types<'t>(types: impl IntoIterator<Item = &'t CqlType>) -> String {
    types.into_iter().map(plain).collect::<Vec<_>>().join(", ")
}

/// A type as a function's is written: what is frozen anyway does not say so.
fn plain(ty: &CqlType) -> String {
    let shown = ty.unfrozen().to_string();
    match shown.strip_prefix("frozen<").and_then(|inner| inner.strip_suffix('>')) {
        Some(tuple) => tuple.to_owned(),
        None => shown,
    }
}

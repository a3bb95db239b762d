//! Functions and aggregates of users: their names with types, and the statements that would make them again.
//!
//! As Cassandra writes them (`UDFunction.toCqlString`), but that a body with `$$` in it is quoted so that it can be read.

use model::CqlType;
use model::schema::{Keyspace, UserAggregate, UserFunction};

use crate::lang::ast::FunctionKind;
use crate::lang::keyword::quoted;
use crate::literal::value_literal;

/// A function or an aggregate.
pub(super) struct Callable<'s> {
    /// `function` or `aggregate`.
    pub(super) kind: &'static str,
    pub(super) name: &'s str,
    /// Its name with the types of its arguments.
    pub(super) shown: String,
    statement: String,
}

impl Callable<'_> {
    /// The row that describes it.
    pub(super) fn element(self, keyspace: &Keyspace) -> [String; 4] {
        [quoted(&keyspace.name), self.kind.to_owned(), self.shown, self.statement]
    }
}

/// The functions or the aggregates of a keyspace, in the order of their names with types, whatever the case.
pub(super) fn callables(keyspace: &Keyspace, kind: FunctionKind) -> Vec<Callable<'_>> {
    let mut all: Vec<(String, Callable<'_>)> = Vec::new();
    let mut add = |kind, name, types, statement| {
        let shown = format!("{}({types})", quoted(name));
        let order = format!("{name}({types})").to_lowercase();
        all.push((order, Callable { kind, name, shown, statement }));
    };
    match kind {
        FunctionKind::Scalar => keyspace.functions.values().for_each(|one| {
            add("function", &one.name, types(one.types()), create_function(one));
        }),
        FunctionKind::Aggregate => keyspace.aggregates.values().for_each(|one| {
            add("aggregate", &one.name, types(&one.arguments), create_aggregate(one));
        }),
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.into_iter().map(|(_, one)| one).collect()
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

//! The headings of result columns without an alias, as Cassandra writes them: clients find columns
//! by them.

use crate::expr::{Compiler, Term};
use crate::lang::ast::{Expr, TypeName};

/// The heading of a selected expression that became `term`. User types and functions are shown with the table's
/// keyspace.
pub(super) fn heading(expr: &Expr, term: &Term, compiler: &Compiler<'_>) -> String {
    let heading = Heading { compiler, keyspace: &compiler.table.keyspace };
    match expr {
        // A cast to the type it has anyway is no cast.
        Expr::Cast(inner, _) if !term.is_cast() => heading.written(inner),
        _ => heading.written(expr),
    }
}

struct Heading<'c, 'a> {
    compiler: &'c Compiler<'a>,
    keyspace: &'c str,
}

impl Heading<'_, '_> {
    fn written(&self, expr: &Expr) -> String {
        let all = |items: &[Expr]| {
            let items: Vec<String> = items.iter().map(|item| self.written(item)).collect();
            items.join(", ")
        };
        match expr {
            Expr::Column(name) => name.clone(),
            Expr::CountRows => "count".into(),
            Expr::Call(name, arguments) => match (&name.name[..], &arguments[..]) {
                ("count", [Expr::Literal(_)]) | ("count_rows" | "countRows", []) => "count".into(),
                ("writetime" | "maxwritetime" | "ttl", _) if name.keyspace.is_none() => {
                    format!("{}({})", name.name, all(arguments))
                }
                (plain, _) => {
                    let keyspace = match &name.keyspace {
                        Some(keyspace) => keyspace,
                        None if self.compiler.calls_user(plain) => self.keyspace,
                        None => "system",
                    };
                    format!("{keyspace}.{plain}({})", all(arguments))
                }
            },
            Expr::Cast(inner, ty) => format!("cast({} as {ty})", self.written(inner)),
            Expr::Part(inner, access) => format!("{}{access}", self.written(inner)),
            Expr::Negate(inner) => format!("-{}", self.written(inner)),
            Expr::Binary(op, left, right) => {
                format!("{} {op} {}", self.written(left), self.written(right))
            }
            Expr::Tuple(items) => format!("({})", all(items)),
            Expr::List(items) => format!("[{}]", all(items)),
            Expr::Set(items) => format!("{{{}}}", all(items)),
            Expr::Map(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("{}: {}", self.written(key), self.written(value)))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            Expr::Udt(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}: {}", self.written(value)))
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }
            Expr::TypeHint(ty, inner) => {
                format!("({}){}", qualified(ty, self.keyspace), self.written(inner))
            }
            Expr::Literal(_) | Expr::Null | Expr::Bind(_) | Expr::OfJson(_) => expr.to_string(),
        }
    }
}

/// The type with the keyspace of each user type in it.
fn qualified(ty: &TypeName, keyspace: &str) -> TypeName {
    let inner = |ty: &TypeName| Box::new(qualified(ty, keyspace));
    match ty {
        TypeName::User(name) => {
            let mut name = name.clone();
            name.keyspace.get_or_insert_with(|| keyspace.to_owned());
            TypeName::User(name)
        }
        TypeName::List(element) => TypeName::List(inner(element)),
        TypeName::Set(element) => TypeName::Set(inner(element)),
        TypeName::Map(key, value) => TypeName::Map(inner(key), inner(value)),
        TypeName::Tuple(parts) => {
            TypeName::Tuple(parts.iter().map(|part| qualified(part, keyspace)).collect())
        }
        TypeName::Vector(element, dimensions) => TypeName::Vector(inner(element), *dimensions),
        TypeName::Frozen(part) => TypeName::Frozen(inner(part)),
        TypeName::Native(_) | TypeName::Custom(_) => ty.clone(),
    }
}

#[cfg(test)]
mod tests {
    use crate::prepare::{Statement, prepare};
    use crate::testing::Database;

    /// cql.md 16, and what else Cassandra 5.0.9 answers.
    #[test]
    fn headings_are_written_as_the_expression_was() {
        let mut db = Database::new();
        db.ok("CREATE TYPE u (a int, b text)");
        db.ok("CREATE TABLE t (k int PRIMARY KEY, i int, b bigint, s text, c u, m map<text, int>)");
        for (text, heading) in [
            ("(b - i)/k + i", "(b - i) / k + i"),
            ("i * (2+3)", "i * (2 + 3)"),
            ("((i) + 1) * 2", "((i) + 1) * 2"),
            ("COUNT(*)", "count"),
            ("count(1)", "count"),
            ("count(i)", "system.count(i)"),
            ("CAST(i AS int)", "i"),
            ("CAST(i AS text)", "cast(i as text)"),
            ("CAST((int)1 AS text)", "cast((int)1 as text)"),
            ("CAST(count(*) AS int)", "cast(count as int)"),
            ("writetime(m['a'])", "writetime(m['a'])"),
            ("max(TTL(i))", "system.max(ttl(i))"),
            ("toTimestamp(now())", "system.totimestamp(system.now())"),
            ("(u){a: i, b: s}", "(ks.u){a: i, b: s}"),
            ("(list<int>)[1,2]", "(list<int>)[1, 2]"),
            ("[i, k]", "[i, k]"),
            ("(c).a", "(c).a"),
            ("(int)? + 1", "(int)? + 1"),
        ] {
            let text = format!("SELECT {text} FROM t");
            let prepared = prepare(&text, &db.schema, Some("ks")).expect(&text);
            let Statement::Select(plan) = prepared.statement else { panic!("{text}") };
            assert_eq!(plan.columns[0].name, heading, "{text}");
        }
    }
}

//! Type inference, downwards: drafts become terms, and literals and markers take the type that is
//! expected of them.
//!
//! 1. What has a type already stays as it is; `(type) value` is checked against what is expected.
//! 2. Where nothing is expected, in a selection, a literal takes the type of its parts, or is refused.
//! 3. Parts of collections, tuples and user types are inferred for the type of their place.
//! 4. A term of constants only is evaluated once, here, and is a constant.
//!
//! Invariant: every term has the type that was expected, or the statement is refused in Cassandra's
//! words. Not here: what is known upwards (`compile.rs`), which function a call means (`resolve.rs`).

use model::CqlType;

use super::build::GivenFields;
use super::collection::normalized;
use super::compile::{Compiler, ExpectedType};
use super::draft::{Draft, Fit, Form, Pending, type_fit};
use super::function::NoUserFunctions;
use super::resolve::{fit, resolve};
use super::{Build, Evaluated, Kind, Term};
use crate::bind::{Bindings, Ids, StatementTime};
use crate::error::{Error, Result};
use crate::lang::ast::{Expr, Literal, LiteralKind};
use crate::limits::PLAN_TOKEN_BYTES;
use crate::literal;
use crate::planted::{Bug, planted};

/// Bytes of a constant that the tokens pay for which it is made of: there are two at least.
const FOLDED_BYTES_UNCOUNTED: usize = 2 * PLAN_TOKEN_BYTES;

/// Ids for folding constants, which never need any.
struct NoIds;

impl Ids for NoIds {
    fn timeuuid(&self) -> [u8; 16] {
        unreachable!("only pure terms are folded")
    }

    fn uuid(&self) -> [u8; 16] {
        unreachable!("only pure terms are folded")
    }
}

impl Compiler<'_> {
    /// The term of a draft as a value for `to`. In a selection nothing may be expected.
    pub(super) fn infer(&mut self, draft: Draft<'_>, to: Option<&ExpectedType>) -> Result<Term> {
        let expr = draft.expr;
        let form = match draft.form {
            Form::Typed(term) => return self.folded(term),
            Form::Hint(ty, inner) => return self.hint(expr, ty, *inner, to),
            form => form,
        };
        let draft = Draft { expr, form };
        let own;
        let to = match (to, &self.selection) {
            (Some(to), None) => to,
            (to, _) => {
                own = ExpectedType::new("[selection]", self.type_in_selection(&draft, to)?);
                to.filter(|to| to.ty == own.ty).unwrap_or(&own)
            }
        };
        let term = match draft.form {
            Form::Null if to.ty == CqlType::Counter => {
                return Err(Error::invalid("Invalid null value for counter increment/decrement"));
            }
            Form::Null => Term::null(to.ty.clone()),
            Form::Literal(constant) => self.constant(constant.literal, to)?,
            Form::Marker(marker) => {
                self.mark(marker, &to.name, to.ty.clone());
                let bound = if planted(Bug::FirstMarkerForAll) { 0 } else { marker };
                self.once(Term::bind(bound, &to.ty))
            }
            Form::OfJson(slot) => Term { kind: Kind::OfJson(slot), ty: to.ty.clone() },
            Form::Tuple(items) => self.tuple(items, to)?,
            Form::List(items) => self.list(items, to)?,
            Form::Set(items) => self.set(items, to)?,
            Form::Map(entries) => self.map(entries, to)?,
            Form::Udt(fields) => self.udt(fields, to)?,
            Form::Call(call) => self.call_for(call, to)?,
            Form::Typed(_) | Form::Hint(..) => unreachable!("returned above"),
        };
        self.folded(term)
    }

    /// The type of what has none without a context: that of its parts, or the one expected.
    fn type_in_selection(&self, draft: &Draft<'_>, to: Option<&ExpectedType>) -> Result<CqlType> {
        if let Some(own) = draft.exact_type() {
            return Ok(own);
        }
        let Some(to) = to else {
            return Err(Error::invalid(format!(
                "Cannot infer type for term {} in selection clause (try using a cast to force a type)",
                draft.expr
            )));
        };
        if fit(draft, &to.ty, self.table) == Fit::No {
            let text = format!("{} is not of the expected type: {}", draft.expr, to.ty);
            return Err(Error::invalid(text));
        }
        Ok(to.ty.clone())
    }

    /// Infers a value with its type before it: `(type) value`.
    fn hint(
        &mut self,
        expr: &Expr,
        ty: CqlType,
        inner: Draft<'_>,
        to: Option<&ExpectedType>,
    ) -> Result<Term> {
        let fits = fit(&inner, &ty, self.table) != Fit::No;
        if self.selection.is_some() {
            if !fits {
                let text = format!("Cannot assign value {expr} to {expr} of type {ty}");
                return Err(Error::invalid(text));
            }
            let term = self.infer(inner, Some(&ExpectedType::new("[selection]", ty.clone())))?;
            return Ok(Term { ty, ..term });
        }
        let to = to.expect("a term always has a receiver");
        if !fits {
            let text = format!("Cannot cast value {} to type {ty}", inner.expr);
            return Err(Error::invalid(text));
        }
        if type_fit(&ty, &to.ty) == Fit::No {
            return Err(Error::invalid(format!(
                "Cannot assign value {expr} to {} of type {}",
                to.name, to.ty
            )));
        }
        // Only a check: the receiver's type decides what the bytes are.
        self.infer(inner, Some(to))
    }

    /// The value of a literal.
    fn constant(&self, literal: &Literal, to: &ExpectedType) -> Result<Term> {
        let bytes = match &to.ty {
            ty @ CqlType::Tuple(_) if literal.kind == LiteralKind::Hex => {
                literal::checked_blob(&literal.text, ty)?
            }
            ty @ CqlType::Tuple(parts) => {
                let bytes = literal::tuple_of_text(&literal.text, parts.iter(), ty)?;
                ty.validate(&bytes)?;
                normalized(ty, &bytes, &self.collected.work)?.into_owned()
            }
            ty => literal::constant(literal, ty, &to.name)?,
        };
        Ok(Term::constant(bytes, to.ty.clone()))
    }

    /// The call that a receiver gets.
    fn call_for(&mut self, call: Pending<'_>, to: &ExpectedType) -> Result<Term> {
        let signature = resolve(&call.callee, &call.arguments, Some(&to.ty), self.table)?;
        if signature.aggregate().is_some() {
            return Err(Error::invalid(
                "Aggregation function are not supported in the where clause",
            ));
        }
        if type_fit(&signature.result, &to.ty) == Fit::No {
            return Err(Error::invalid(format!(
                "Type error: cannot assign result of function {} (type {}) to {} (type {})",
                signature.shown(),
                signature.result,
                to.name,
                to.ty
            )));
        }
        let arguments = self.arguments(&signature, call.arguments)?;
        Ok(self.applied(signature, arguments))
    }

    fn list(&mut self, items: Vec<Draft<'_>>, to: &ExpectedType) -> Result<Term> {
        let (element, what) = match &to.ty {
            CqlType::List { element, .. } => (element.clone(), "list"),
            CqlType::Vector { element, dimensions } => {
                if items.len() != *dimensions as usize {
                    return Err(Error::invalid(format!(
                        "Invalid vector literal for {} of type {}; expected {dimensions} elements, but given {}",
                        to.name,
                        to.ty,
                        items.len()
                    )));
                }
                (element.clone(), "vector")
            }
            other => {
                return Err(Error::invalid(format!(
                    "Unexpected receiver type '{other}'; only list and vector are expected"
                )));
            }
        };
        let name = self.part_name(|| format!("value({})", to.name));
        let inner = ExpectedType::new(name, (*element).clone());
        let parts = self.parts(items, &inner, &format!("{what} literal for {}: value", to.name))?;
        Ok(built(
            match &to.ty {
                CqlType::List { .. } => Build::List(parts),
                _ => Build::Vector((*element).clone(), parts),
            },
            to,
        ))
    }

    fn set(&mut self, items: Vec<Draft<'_>>, to: &ExpectedType) -> Result<Term> {
        if let (CqlType::Map { key, .. }, []) = (&to.ty, &items[..]) {
            return Ok(built(Build::Map((**key).clone(), Vec::new()), to));
        }
        let CqlType::Set { element, .. } = &to.ty else {
            return Err(wrong_literal("set", to));
        };
        let name = self.part_name(|| format!("value({})", to.name));
        let inner = ExpectedType::new(name, (**element).clone());
        let parts = self.parts(items, &inner, &format!("set literal for {}: value", to.name))?;
        Ok(built(Build::Set((**element).clone(), parts), to))
    }

    /// The elements of a list, set or vector; `what` begins the error of one that is not of its type.
    fn parts(&mut self, items: Vec<Draft<'_>>, to: &ExpectedType, what: &str) -> Result<Vec<Term>> {
        let is_vector = what.starts_with("vector");
        items
            .into_iter()
            .map(|item| {
                self.check_part(&item, &to.ty, || format!("{what} {}", item.expr))?;
                let term = self.infer(item, Some(to))?;
                if !is_vector {
                    self.check_marked(&term, what)?;
                }
                Ok(term)
            })
            .collect()
    }

    /// Refuses a marker in a list, set or map of a write or a condition, wherever it stands in it, as Cassandra does.
    fn check_marked(&self, part: &Term, what: &str) -> Result<()> {
        let has_marker =
            || part.any(&mut |kind| matches!(kind, Kind::Marker(_) | Kind::UnorderedMarker(_)));
        if self.selection.is_none() && has_marker() {
            let what = what.strip_suffix(" value").unwrap_or(what);
            let text = "bind variables are not supported inside collection literals";
            return Err(Error::invalid(format!("Invalid {what} {text}")));
        }
        Ok(())
    }

    fn map(&mut self, entries: Vec<Draft<'_>>, to: &ExpectedType) -> Result<Term> {
        let CqlType::Map { key, value, .. } = &to.ty else {
            return Err(wrong_literal("map", to));
        };
        let names = ["key", "value"].map(|part| self.part_name(|| format!("{part}({})", to.name)));
        let [key_name, value_name] = names;
        let sides = [
            ("key", ExpectedType::new(key_name, (**key).clone())),
            ("value", ExpectedType::new(value_name, (**value).clone())),
        ];
        let mut parts = Vec::with_capacity(entries.len());
        for (entry, (what, inner)) in entries.into_iter().zip(sides.iter().cycle()) {
            self.check_part(&entry, &inner.ty, || {
                format!("map literal for {}: {what} {}", to.name, entry.expr)
            })?;
            let part = self.infer(entry, Some(inner))?;
            self.check_marked(&part, &format!("map literal for {}:", to.name))?;
            parts.push(part);
        }
        Ok(built(Build::Map((**key).clone(), parts), to))
    }

    fn tuple(&mut self, mut items: Vec<Draft<'_>>, to: &ExpectedType) -> Result<Term> {
        let given = items.len();
        // Of a user type with very many fields only those that are given are looked at.
        let (types, count): (Vec<&CqlType>, usize) = match &to.ty {
            CqlType::Tuple(types) => (types.iter().take(given).collect(), types.len()),
            // A user type is a tuple whose fields have names, but parentheses around one value of it are parentheses.
            CqlType::Udt { definition, frozen: true }
                if items.len() != 1 || fit(&items[0], &to.ty, self.table) != Fit::Exact =>
            {
                let types = definition.fields.iter().take(given).map(|(_, ty)| ty);
                (types.collect(), definition.fields.len())
            }
            // Parentheses around one value are only parentheses.
            _ if items.len() == 1 => return self.infer(items.remove(0), Some(to)),
            _ => {
                return Err(Error::invalid(format!(
                    "Invalid tuple type literal for {} of type {}",
                    to.name, to.ty
                )));
            }
        };
        if given > count {
            return Err(Error::invalid(format!(
                "Invalid tuple literal for {}: too many elements. Type {} expects {count} but got {given}",
                to.name, to.ty
            )));
        }
        let mut parts = Vec::with_capacity(given);
        for (index, (item, ty)) in items.into_iter().zip(types).enumerate() {
            let name = self.part_name(|| format!("{}[{index}]", to.name));
            self.check_part(&item, ty, || {
                format!("tuple literal for {}: component {index}", to.name)
            })?;
            parts.push(self.infer(item, Some(&ExpectedType::new(name, ty.clone())))?);
        }
        Ok(built(Build::Tuple(parts), to))
    }

    fn udt(&mut self, fields: Vec<(&str, Draft<'_>)>, to: &ExpectedType) -> Result<Term> {
        let CqlType::Udt { definition, frozen } = &to.ty else {
            return Err(Error::invalid(format!(
                "Invalid user type literal for {} of type {}",
                to.name, to.ty
            )));
        };
        let mut given = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            let Some((index, _)) = definition.field(name) else {
                return Err(Error::invalid(format!(
                    "Unknown field '{name}' in value of user defined type {}",
                    definition.name
                )));
            };
            given.push((index, value));
        }
        // Of a field that is given twice the last value stays.
        given.reverse();
        given.sort_by_key(|(index, _)| *index);
        given.dedup_by_key(|(index, _)| *index);
        let (mut places, mut parts) = (Vec::new(), Vec::new());
        for (index, value) in given {
            let (name, ty) = &definition.fields[index];
            self.check_part(&value, ty, || {
                format!("user type literal for {}: field {name}", to.name)
            })?;
            let name = self.part_name(|| format!("{}.{name}", to.name));
            parts.push(self.infer(value, Some(&ExpectedType::new(name, ty.clone())))?);
            places.push(index);
        }
        let fields = GivenFields::new(definition.clone(), *frozen, (places, parts));
        Ok(built(Build::Udt(fields), to))
    }

    /// Refuses a part of a literal that is not of its type.
    fn check_part(&self, part: &Draft<'_>, ty: &CqlType, what: impl Fn() -> String) -> Result<()> {
        if fit(part, ty, self.table) == Fit::No {
            return Err(Error::invalid(format!("Invalid {} is not of type {ty}", what())));
        }
        Ok(())
    }

    /// A constant, if the term consists of nothing else. What fails does so when it is executed, but what takes too
    /// much work is refused.
    fn folded(&mut self, term: Term) -> Result<Term> {
        let pure = match &term.kind {
            // A cast stays one: the heading of a result column is another without it.
            Kind::Call(..) if term.is_cast() => false,
            Kind::Call(signature, arguments) => {
                signature.is_pure() && arguments.iter().all(Term::is_constant)
            }
            Kind::Build(build) => build.parts().iter().all(Term::is_constant),
            _ => false,
        };
        if !pure {
            return Ok(term);
        }
        let time = StatementTime {
            timestamp_us: 0,
            server_timestamp_us: None,
            now_ms: 0,
            now_s: 0,
            ids: &NoIds,
            functions: &NoUserFunctions,
        };
        let mut bindings = Bindings::none(time);
        // JSON that passes the budget stays the text that it is.
        bindings.json_budget = self.json().budget.clone();
        bindings.work = self.collected.work.clone();
        let value = term.eval(&bindings).map(Evaluated::into_bytes);
        // What was made of JSON is counted there.
        let of_json = bindings.json_budget.taken() - self.json().budget.taken();
        self.json().budget = bindings.json_budget;
        self.collected.work = bindings.work;
        match value {
            Ok(Some(bytes)) => {
                let made = bytes.len().saturating_sub(of_json);
                if made > FOLDED_BYTES_UNCOUNTED {
                    self.collected.folded_bytes += made;
                }
                Ok(Term::constant(bytes, term.ty))
            }
            Ok(None) => Ok(Term::null(term.ty)),
            Err(error) if self.collected.work.is_over() => Err(error),
            Err(_) => Ok(term),
        }
    }
}

fn built(build: Build, to: &ExpectedType) -> Term {
    Term { kind: Kind::Build(Box::new(build)), ty: to.ty.clone() }
}

#[cold]
fn wrong_literal(what: &str, to: &ExpectedType) -> Error {
    Error::invalid(format!("Invalid {what} literal for {} of type {}", to.name, to.ty))
}

//! Drafts: expressions on their way to terms. Upwards, whatever has a type of its own is compiled;
//! literals, markers and what is made of them wait for the type that is expected of them.
//!
//! Each part of an expression is drafted once and inferred once, so that the time of both is in
//! proportion to the text, however deep it is nested.
//!
//! 1. `compile.rs` makes a draft of each part of the tree, the innermost first.
//! 2. `resolve.rs` asks each argument of a call how well it fits the types that a function takes: `fit`. The three
//!    answers are Cassandra's `AssignmentTestable.TestResult`; which type can be taken for another (`type_fit`) is its
//!    `isValueCompatibleWith`.
//! 3. Where nothing is expected, `natural_type` says which type a draft takes of itself.
//! 4. `infer.rs` makes a term of the draft, for the type that is expected.
//!
//! Invariant: a call keeps the fits and the natural type that were computed for it, so that asking again costs nothing.
//! Without that, calls as arguments of calls would take time exponential in their depth. So does a literal, which is
//! asked by each of some ninety ways to add.
//!
//! Not here: which literal a type takes (`literal.rs`), which function a call means (`resolve.rs`).

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use model::CqlType;

use super::function::{Function, UserCallee};
use super::{Signature, Term};
use crate::lang::ast::{Expr, Literal, LiteralKind};
use crate::literal;
use crate::steps::step;

/// How well an expression can be a value of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// The value cannot be of that type.
    No,
    /// The value can be taken for one of that type.
    Weak,
    /// The value is of that very type.
    Exact,
}

/// An expression on its way to a term.
#[derive(Debug)]
pub(super) struct Draft<'e> {
    /// As written, for errors.
    pub(super) expr: &'e Expr,
    /// How far the expression is compiled.
    pub(super) form: Form<'e>,
}

/// How far an expression is compiled: a typed term, or what waits for a type.
#[derive(Debug)]
pub(super) enum Form<'e> {
    /// All: it has a type of its own.
    Typed(Term),
    /// The word `null`, of any type.
    Null,
    /// A constant whose type is not known yet.
    Literal(Constant<'e>),
    /// The marker of this number.
    Marker(u16),
    /// The value of this number of an `INSERT JSON`, of the type of its column.
    OfJson(usize),
    /// A value with its type before it: `(type) a`.
    Hint(CqlType, Box<Draft<'e>>),
    /// `(a, b)`, or `(a)`: parentheses.
    Tuple(Vec<Draft<'e>>),
    /// A list or vector: `[a, b]`.
    List(Vec<Draft<'e>>),
    /// A set: `{a, b}`.
    Set(Vec<Draft<'e>>),
    /// `{k: v}`: keys and values in turn.
    Map(Vec<Draft<'e>>),
    /// A value of a user type: `{field: v}`.
    Udt(Vec<(&'e str, Draft<'e>)>),
    /// A call among the terms of a write or a `WHERE`: its receiver has a say in what it means.
    Call(Pending<'e>),
}

/// A literal that waits for its type.
#[derive(Debug)]
pub(super) struct Constant<'e> {
    pub(super) literal: &'e Literal,
    /// The type that it has where nothing is expected, once it was asked for.
    natural: OnceCell<Option<CqlType>>,
}

/// A call that waits for the type of its receiver.
#[derive(Debug)]
pub(super) struct Pending<'e> {
    pub(super) callee: Callee,
    pub(super) arguments: Vec<Draft<'e>>,
    /// How well it fits the types it was tried for.
    fits: RefCell<Vec<(CqlType, Fit)>>,
    /// The type of its result where nothing is expected, once it was asked for.
    natural: OnceCell<Option<CqlType>>,
}

/// The function or operator of a call.
#[derive(Clone, Debug)]
pub(super) struct Callee {
    /// The built-in function of this name, and which of its names was written.
    pub(super) built_in: Option<(&'static Function, &'static str)>,
    /// What users made of this name, which is looked at first.
    pub(super) users: Arc<[UserCallee]>,
    /// How the call was written: by name or as an operator.
    pub(super) style: Style,
}

/// How a call is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// By its name alone: `f(a)`.
    Named,
    /// By its name with the keyspace: `system.f(a)`.
    Qualified,
    /// `CAST(a AS t)`.
    Cast,
    /// By the sign of the negative: `-a`.
    Negation,
    /// `a + b`, by this symbol.
    Operator(char),
}

impl<'e> Constant<'e> {
    pub(super) fn new(literal: &'e Literal) -> Self {
        Constant { literal, natural: OnceCell::new() }
    }

    /// The type that it has where nothing is expected; computed once.
    fn natural_type(&self) -> Option<&CqlType> {
        self.natural.get_or_init(|| literal::natural_type(self.literal)).as_ref()
    }

    /// How well it can be a value of a type.
    fn fit(&self, ty: &CqlType) -> Fit {
        match ty {
            _ if self.natural_type() == Some(ty) => Fit::Exact,
            // In Cassandra it is a tinyint of itself, so that `0x01 + 1` is an int.
            CqlType::Tinyint if self.literal.kind == LiteralKind::Hex => Fit::Exact,
            // A literal may be a tuple as text: '1:a'.
            CqlType::Tuple(_) => Fit::Weak,
            _ if literal::assignable(self.literal.kind, ty) => Fit::Weak,
            _ => Fit::No,
        }
    }
}

impl<'e> Pending<'e> {
    pub(super) fn new(callee: Callee, arguments: Vec<Draft<'e>>) -> Self {
        Pending { callee, arguments, fits: RefCell::default(), natural: OnceCell::new() }
    }

    /// The type of its result where nothing is expected; computed once.
    fn natural_type(&self, resolve: Resolve<'_>) -> Option<CqlType> {
        let found = || resolve(self, None).map(|signature| signature.result);
        self.natural.get_or_init(found).clone()
    }

    /// How well a value of it fits; computed once for each type.
    fn fit(&self, ty: &CqlType, resolve: Resolve<'_>) -> Fit {
        if let Some((_, fit)) = self.fits.borrow().iter().find(|(known, _)| known == ty) {
            return *fit;
        }
        // What cannot be resolved is taken: its own error says more.
        let fit = match resolve(self, Some(ty)) {
            Some(signature) => type_fit(&signature.result, ty),
            None => Fit::Weak,
        };
        self.fits.borrow_mut().push((ty.clone(), fit));
        fit
    }
}

/// Finds the function a pending call means for a receiver, if there is one.
pub(super) type Resolve<'r> = &'r dyn Fn(&Pending<'_>, Option<&CqlType>) -> Option<Signature>;

impl Draft<'_> {
    /// The type it has whatever is expected of it. Literals and markers have none.
    pub(super) fn exact_type(&self) -> Option<CqlType> {
        match &self.form {
            Form::Typed(term) => Some(term.ty.clone()),
            Form::Hint(ty, _) => Some(ty.clone()),
            Form::List(items) => Some(list_of(items.iter().find_map(Draft::exact_type)?)),
            Form::Set(items) => Some(set_of(items.iter().find_map(Draft::exact_type)?)),
            Form::Map(entries) => {
                let key = entries.iter().step_by(2).find_map(Draft::exact_type)?;
                let value = entries.iter().skip(1).step_by(2).find_map(Draft::exact_type)?;
                let (key, value) = (key.frozen().into(), value.frozen().into());
                Some(CqlType::Map { key, value, frozen: true })
            }
            // One value in parentheses may be a tuple of one, or a value in parentheses.
            Form::Tuple(items) if items.len() > 1 => {
                let types = items.iter().map(|item| Some(item.exact_type()?.frozen()));
                Some(CqlType::Tuple(types.collect::<Option<_>>()?))
            }
            Form::Tuple(_) | Form::Null | Form::Literal(_) | Form::Marker(_) | Form::OfJson(_) => {
                None
            }
            Form::Udt(_) | Form::Call(_) => None,
        }
    }

    /// The type it has where nothing is expected: its own, or that of its literals.
    pub(super) fn natural_type(&self, resolve: Resolve<'_>) -> Option<CqlType> {
        match &self.form {
            Form::Literal(constant) => constant.natural_type().cloned(),
            Form::Call(call) => call.natural_type(resolve),
            Form::List(items) => Some(list_of(common_type(items, resolve)?)),
            Form::Set(items) => Some(set_of(common_type(items, resolve)?)),
            Form::Tuple(items) if items.len() > 1 => {
                let types = items.iter().map(|item| Some(item.natural_type(resolve)?.frozen()));
                Some(CqlType::Tuple(types.collect::<Option<_>>()?))
            }
            _ => self.exact_type(),
        }
    }

    /// Whether it is a bind marker and nothing else.
    pub(super) fn is_marker(&self) -> bool {
        matches!(self.form, Form::Marker(_))
    }

    /// How well it can be a value of a type.
    pub(super) fn fit(&self, ty: &CqlType, resolve: Resolve<'_>) -> Fit {
        step(1);
        match (&self.form, ty) {
            (Form::Typed(term), _) => type_fit(&term.ty, ty),
            (Form::Hint(own, _), _) => type_fit(own, ty),
            (Form::Null, CqlType::Counter) => Fit::No,
            (Form::Null | Form::Marker(_) | Form::OfJson(_), _) => Fit::Weak,
            (Form::Literal(constant), _) => constant.fit(ty),
            (Form::Call(call), _) => call.fit(ty, resolve),
            (
                Form::List(items),
                CqlType::List { element, .. } | CqlType::Vector { element, .. },
            )
            | (Form::Set(items), CqlType::Set { element, .. }) => {
                worst(items.iter().map(|item| item.fit(element, resolve)))
            }
            (Form::Set(items), CqlType::Map { .. }) if items.is_empty() => Fit::Weak,
            (Form::Map(entries), CqlType::Map { key, value, .. }) => {
                let types = [key, value].into_iter().cycle();
                worst(entries.iter().zip(types).map(|(part, ty)| part.fit(ty, resolve)))
            }
            (Form::Tuple(items), CqlType::Tuple(parts)) if items.len() <= parts.len() => {
                let fits = items.iter().zip(parts.iter()).map(|(item, ty)| item.fit(ty, resolve));
                worst(fits).min(Fit::Weak)
            }
            // A user type is a tuple whose fields have names.
            (Form::Tuple(items), CqlType::Udt { definition, .. })
                if items.len() <= definition.fields.len() =>
            {
                let types = definition.fields.iter().map(|(_, ty)| ty);
                let fits = items.iter().zip(types).map(|(item, ty)| item.fit(ty, resolve));
                let of_fields = worst(fits).min(Fit::Weak);
                match &items[..] {
                    [only] => only.fit(ty, resolve).max(of_fields),
                    _ => of_fields,
                }
            }
            (Form::Tuple(items), _) => match &items[..] {
                [only] => only.fit(ty, resolve),
                _ => Fit::No,
            },
            (Form::Udt(fields), CqlType::Udt { definition, .. }) => {
                // A field that the type does not have is refused by its name, when the value is made.
                let known = fields
                    .iter()
                    .filter_map(|(name, value)| definition.field(name).map(|(_, ty)| (value, ty)));
                let fits = known.map(|(value, ty)| value.fit(ty, resolve));
                worst(fits).min(Fit::Weak)
            }
            (Form::List(_) | Form::Set(_) | Form::Map(_) | Form::Udt(_), _) => Fit::No,
        }
    }
}

/// How well a whole fits whose parts fit like this; an empty one fits weakly.
fn worst(fits: impl Iterator<Item = Fit>) -> Fit {
    fits.min().unwrap_or(Fit::Weak)
}

fn list_of(element: CqlType) -> CqlType {
    CqlType::List { element: element.frozen().into(), frozen: true }
}

fn set_of(element: CqlType) -> CqlType {
    CqlType::Set { element: element.frozen().into(), frozen: true }
}

/// The type of one item that all items fit.
fn common_type(items: &[Draft<'_>], resolve: Resolve<'_>) -> Option<CqlType> {
    // Each type is tried once: a list of thousands of one type is looked at twice, not once for each item.
    let mut tried: Vec<CqlType> = Vec::new();
    for item in items {
        let Some(ty) = item.natural_type(resolve) else { continue };
        if tried.contains(&ty) {
            continue;
        }
        if items.iter().all(|item| item.fit(&ty, resolve) != Fit::No) {
            return Some(ty);
        }
        tried.push(ty);
    }
    None
}

/// How well a value of one type can be taken for one of another.
pub(super) fn type_fit(from: &CqlType, to: &CqlType) -> Fit {
    use CqlType::*;
    if from == to || from.frozen() == to.frozen() {
        return Fit::Exact;
    }
    let weak = match (to, from) {
        (Blob, _) => true,
        (Text, Ascii) => true,
        (Varint, Int | Bigint | Timestamp) => true,
        (Bigint, Timestamp) | (Timestamp, Bigint) | (Time, Bigint) | (Date, Int) => true,
        (Uuid, Timeuuid) => true,
        (List { element: a, .. }, List { element: b, .. })
        | (Set { element: a, .. }, Set { element: b, .. }) => type_fit(b, a) != Fit::No,
        (Map { key: k, value: v, .. }, Map { key: l, value: w, .. }) => {
            type_fit(l, k) != Fit::No && type_fit(w, v) != Fit::No
        }
        _ => false,
    };
    if weak { Fit::Weak } else { Fit::No }
}

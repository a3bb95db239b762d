//! Expressions: one typed tree for the values of a write, of a `WHERE` and of a `SELECT`.
//!
//! ```text
//! ast::Expr ──draft──► Draft ──infer for an expected type──► Term { kind, ty } ──eval(env)──► bytes
//!             upwards: types that are known         downwards: literals and markers take theirs
//! ```
//!
//! A term gives the CQL wire bytes of a value of its type. What it reads (bound values, the columns
//! of a row, the aggregates of a group) it asks of an [`Env`]. Constants, plain markers and plain
//! columns are lent; only functions, and collections put together or stored by element, make bytes.
//!
//! Invariant: the compiler refuses what the environment lacks, in Cassandra's words: a column in the
//! value of an `INSERT`, an aggregate in a `WHERE`. So [`Term::eval`] never meets it.
//!
//! Not here: constants as text (`literal`), how a row is read (`rows`), the grammar (`lang`).

mod build;
mod collected;
mod collection;
mod compile;
mod draft;
mod env;
pub mod function;
mod infer;
mod name;
mod resolve;
mod row;
mod selection;
mod slice;
#[cfg(test)]
mod tests;
mod work;

use std::borrow::Cow;

pub use build::Build;
pub use collected::Collected;
pub(crate) use collection::{SortCost, is_ordered, path_of as element_path};
pub use collection::{normalized, put_list};
#[cfg(test)]
pub(crate) use collection::{sorted_map, sorted_set};
pub use compile::{Compiler, ExpectedType};
pub use env::{Env, Evaluated};
pub use function::Signature;
use model::CqlType;
use model::types::tuple_fields;
pub(crate) use name::undefined;
pub use row::{InStatic, Source, StampKind, Wanted};
pub(crate) use selection::check_result_bytes;
pub use selection::{Selected, Selection};
use slice::KeySlice;
pub use work::ExpressionWork;
pub(crate) use work::OrderWork;

use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::frame::{Value, writer};

/// An expression with its type: what is evaluated when a statement is executed.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// A constant, a marker, a column, or a function of other terms.
    pub kind: Kind,
    /// The type of its value.
    pub ty: CqlType,
}

/// The node of the expression tree that a term is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Known when the statement is prepared.
    Constant(Box<[u8]>),
    /// The value `null` of the term's type.
    Null,
    /// A bind marker by number, whose bytes are the value.
    Marker(u16),
    /// A marker of a type with sets or maps in it, which a client may have sent in any order.
    UnorderedMarker(u16),
    /// A value of an `INSERT JSON`: its slot in [`Env::of_json`].
    OfJson(usize),
    /// All that a `SELECT JSON` selects, as one text: what stands before each value, and the value.
    JsonObject(Box<[(String, Term)]>),
    /// A term of a `SELECT` that is evaluated once, before the rows: its slot in `Selection::once`.
    Once(usize),
    /// A column of the row, or a part of it.
    Row(Source),
    /// The slot of an aggregate of a group.
    Aggregate(usize),
    /// The slot of a value of the first row of a group.
    First(usize),
    /// A collection, tuple or vector that is put together.
    Build(Box<Build>),
    /// A call of a scalar function or an operator.
    Call(Box<Signature>, Box<[Term]>),
    /// The field of this index of a user-defined type.
    Field(Box<Term>, usize),
    /// `m[key]`, `s[key]`: a map or set, and the key.
    Element(Box<(Term, Term)>),
    /// A value that may be neither null nor unset, and what it is wanted for: `element selection on m`.
    Required(Box<(Term, String)>),
    /// A value that may be unset and not null, and what it is wanted for: `slice selection on m`.
    NotNull(Box<(Term, String)>),
    /// The entries of a map or set between two keys.
    Slice(Box<KeySlice>),
}

impl Term {
    /// The bytes of a constant.
    pub fn constant(bytes: impl Into<Box<[u8]>>, ty: CqlType) -> Term {
        Term { kind: Kind::Constant(bytes.into()), ty }
    }

    /// `null` of a type.
    pub fn null(ty: CqlType) -> Term {
        Term { kind: Kind::Null, ty }
    }

    /// The term of a marker of this type.
    pub fn bind(marker: u16, ty: &CqlType) -> Term {
        // A client may send the elements of sets and maps in any order; storage has them in one.
        let kind = match collection::is_ordered(ty) {
            true => Kind::UnorderedMarker(marker),
            false => Kind::Marker(marker),
        };
        Term { kind, ty: ty.clone() }
    }

    /// Whether it is the same whatever is bound and whenever it happens.
    pub fn is_constant(&self) -> bool {
        matches!(self.kind, Kind::Constant(_) | Kind::Null)
    }

    /// The bytes, if they are known when the statement is prepared.
    pub fn constant_bytes(&self) -> Option<&[u8]> {
        match &self.kind {
            Kind::Constant(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether it is a marker, or a value of an `INSERT JSON`, that was not set.
    pub fn is_unset(&self, bindings: &Bindings<'_>) -> bool {
        match self.kind {
            Kind::Marker(marker) | Kind::UnorderedMarker(marker) => {
                bindings.get(marker) == Value::Unset
            }
            Kind::OfJson(slot) => bindings.of_json(slot) == Evaluated::Unset,
            _ => false,
        }
    }

    /// The marker whose bytes this is, if it is one.
    pub fn marker(&self) -> Option<u16> {
        match self.kind {
            Kind::Marker(marker) | Kind::UnorderedMarker(marker) => Some(marker),
            _ => None,
        }
    }

    /// Whether it is a `CAST`.
    pub fn is_cast(&self) -> bool {
        match &self.kind {
            Kind::Call(signature, _) => {
                matches!(signature.function.takes, function::Takes::CastableTo(_))
            }
            _ => false,
        }
    }

    /// Whether `found` holds of this term or of one that it is made of.
    pub fn any(&self, found: &mut impl FnMut(&Kind) -> bool) -> bool {
        if found(&self.kind) {
            return true;
        }
        match &self.kind {
            Kind::Build(build) => build.parts().iter().any(|part| part.any(found)),
            Kind::Call(_, arguments) => arguments.iter().any(|argument| argument.any(found)),
            Kind::JsonObject(entries) => entries.iter().any(|(_, value)| value.any(found)),
            Kind::Field(inner, _) => inner.any(found),
            Kind::Element(both) => both.0.any(found) || both.1.any(found),
            Kind::Required(both) | Kind::NotNull(both) => both.0.any(found),
            Kind::Slice(slice) => {
                slice.value.any(found) || slice.ends().flatten().any(|end| end.any(found))
            }
            _ => false,
        }
    }

    /// A field of this term's value, which is of a tuple or a user type.
    pub(crate) fn field(self, index: usize, ty: CqlType) -> Term {
        Term { kind: Kind::Field(Box::new(self), index), ty }
    }

    /// The terms that this one is made of.
    pub fn parts_mut(&mut self) -> Vec<&mut Term> {
        match &mut self.kind {
            Kind::Build(build) => build.parts_mut(),
            Kind::Call(_, arguments) => arguments.iter_mut().collect(),
            Kind::JsonObject(entries) => entries.iter_mut().map(|(_, value)| value).collect(),
            Kind::Field(inner, _) => vec![inner],
            Kind::Element(both) => vec![&mut both.0, &mut both.1],
            Kind::Required(both) | Kind::NotNull(both) => vec![&mut both.0],
            Kind::Slice(slice) => {
                let KeySlice { value, first, last, .. } = &mut **slice;
                std::iter::once(value).chain(first.as_mut()).chain(last.as_mut()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The term's value in an environment, as wire bytes.
    // Each value that is written comes here. A call takes 13 instructions more.
    #[inline(always)]
    pub fn eval<'e>(&'e self, env: &'e impl Env) -> Result<Evaluated<'e>> {
        match &self.kind {
            Kind::Constant(bytes) => Ok(Evaluated::lent(bytes)),
            Kind::Marker(marker) => Ok(env.marker(*marker)),
            Kind::Row(source) => env.column(source),
            _ => self.eval_made(env),
        }
    }

    /// The value of what is rarer, or made of others.
    fn eval_made<'e>(&'e self, env: &'e impl Env) -> Result<Evaluated<'e>> {
        match &self.kind {
            Kind::Constant(_) | Kind::Marker(_) | Kind::Row(_) => self.eval(env),
            Kind::Null => Ok(Evaluated::Null),
            Kind::UnorderedMarker(marker) => match env.marker(*marker) {
                Evaluated::Bytes(Cow::Borrowed(bytes)) => {
                    env.work().take_sort(bytes.len())?;
                    Ok(Evaluated::Bytes(normalized(&self.ty, bytes, env.work())?))
                }
                Evaluated::Bytes(Cow::Owned(bytes)) => {
                    env.work().take_sort(bytes.len())?;
                    Ok(Evaluated::made(normalized(&self.ty, &bytes, env.work())?.into_owned()))
                }
                missing => Ok(missing),
            },
            Kind::OfJson(slot) => Ok(env.of_json(*slot)),
            Kind::JsonObject(entries) => function::json_object(entries, env).map(Evaluated::made),
            Kind::Once(slot) => Ok(Evaluated::lent_or_null(env.once(*slot))),
            Kind::Aggregate(slot) => Ok(Evaluated::lent_or_null(env.aggregate(*slot))),
            Kind::First(slot) => Ok(Evaluated::lent_or_null(env.first(*slot))),
            Kind::Build(build) => {
                let value = build.eval(env)?;
                env.work().take_bytes(value.len())?;
                Ok(Evaluated::made(value))
            }
            Kind::Call(signature, arguments) => signature.eval(arguments, env),
            Kind::Field(inner, index) => {
                let path = u16::try_from(*index).map(u16::to_be_bytes);
                if let (Kind::Row(source @ Source::Elements(..)), Ok(path)) = (&inner.kind, path) {
                    return env.element_at(source, &path);
                }
                let value = inner.eval(env)?;
                let Some(value) = value.bytes() else { return Ok(Evaluated::Null) };
                let field = tuple_fields(value).nth(*index).transpose()?.flatten();
                if let Some(field) = field {
                    env.work().take_copy(&self.ty, field)?;
                }
                Ok(Evaluated::made_or_null(field.map(<[u8]>::to_vec)))
            }
            Kind::Element(both) => element(&both.0, &both.1, env),
            Kind::Required(both) | Kind::NotNull(both) => {
                let missing = match both.0.eval(env)? {
                    Evaluated::Null => "null",
                    Evaluated::Unset if matches!(self.kind, Kind::Required(_)) => "unset",
                    value => return Ok(value),
                };
                Err(Error::invalid(format!("Invalid {missing} value for {}", both.1)))
            }
            Kind::Slice(slice) => slice.eval(env),
        }
    }

    /// This term, whose evaluation is an error if the value is null or unset; `what` says in the error what it is for.
    fn required(self, what: String) -> Term {
        let ty = self.ty.clone();
        Term { kind: Kind::Required(Box::new((self, what))), ty }
    }

    /// This term, whose evaluation is an error if the value is null; `what` says in the error what it is for.
    fn not_null(self, what: String) -> Term {
        let ty = self.ty.clone();
        Term { kind: Kind::NotNull(Box::new((self, what))), ty }
    }

    /// Appends the value in an environment as `[bytes]`; what is unset is null.
    #[inline]
    pub fn put(&self, env: &impl Env, out: &mut Vec<u8>) -> Result<()> {
        match self.eval(env)? {
            Evaluated::Bytes(value) => writer::bytes(out, Some(&value)),
            Evaluated::Null | Evaluated::Unset => writer::bytes(out, None),
        }
        Ok(())
    }
}

/// The value of `m[key]`, `s[key]`. Of a column that is stored by element only the element is read.
fn element<'e>(of: &'e Term, key: &'e Term, env: &'e impl Env) -> Result<Evaluated<'e>> {
    let key = key.eval(env)?;
    let Some(key) = key.bytes() else { return Ok(Evaluated::Null) };
    let key_type = collection::key_type(&of.ty);
    let value = match &of.kind {
        Kind::Row(source @ Source::Elements(..)) if key_type.keeps_its_form() => {
            let Some(path) = collection::path_of(key_type, key, env.work())? else {
                return Ok(Evaluated::Null);
            };
            env.elements_between(source, Some(&path), Some(&path))?
        }
        _ => of.eval(env)?,
    };
    let Some(value) = value.bytes() else { return Ok(Evaluated::Null) };
    env.work().take_copy(&of.ty, value)?;
    collection::element(&of.ty, value, key, env.work()).map(Evaluated::made_or_null)
}

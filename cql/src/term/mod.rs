//! Terms: values that are known in part when a statement is prepared, and whole when it is bound.
//!
//! A term gives the CQL wire bytes of a value of the type it was compiled for. Constants and plain
//! markers are lent; only collections with markers inside, and functions, make new bytes.

mod collection;
mod compile;

pub use collection::{normalized, put_list, sorted_map, sorted_set};
pub(crate) use compile::type_fit;
pub use compile::{Compiler, Receiver};

use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::frame::Value;
use crate::functions::Signature;
use model::CqlType;
use model::types::put_vector_element;
use std::borrow::Cow;

/// A value of a bound statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluated<'a> {
    /// `null`.
    Null,
    /// A marker that was not set.
    Unset,
    /// The bytes of a value.
    Bytes(Cow<'a, [u8]>),
}

impl Evaluated<'_> {
    /// The bytes; the error if there are none says what was to be restricted by them.
    pub fn required(&self, column: &str) -> Result<&[u8]> {
        match self {
            Evaluated::Bytes(bytes) => Ok(bytes),
            Evaluated::Null => {
                Err(Error::invalid(format!("Invalid null value in condition for column {column}")))
            }
            Evaluated::Unset => {
                Err(Error::invalid(format!("Invalid unset value for column {column}")))
            }
        }
    }

    /// The bytes, if there are any.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Evaluated::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// A value that may need binding.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// Known.
    Constant(Box<[u8]>),
    /// `null`.
    Null,
    /// A marker, whose bytes are the value.
    Bind(u16),
    /// A marker of a type with sets or maps in it, which a client may have sent in any order.
    BindUnordered(u16, Box<CqlType>),
    /// A collection, tuple or vector that must be put together.
    Build(Box<Build>),
    /// A call of a scalar function.
    Call(Box<Signature>, Box<[Term]>),
}

/// How a value of several parts is put together.
#[derive(Clone, Debug, PartialEq)]
pub enum Build {
    /// `[a, b]`.
    List(Vec<Term>),
    /// `{a, b}`, whose elements have this type.
    Set(CqlType, Vec<Term>),
    /// `{k: v}`, whose keys have this type.
    Map(CqlType, Vec<(Term, Term)>),
    /// `(a, b)`, or the fields of a user-defined type in order.
    Tuple(Vec<Term>),
    /// `[a, b]` as a vector, whose elements have this type.
    Vector(CqlType, Vec<Term>),
}

impl Term {
    /// The term of a marker of this type.
    pub fn bind(marker: u16, ty: &CqlType) -> Term {
        if collection::is_ordered(ty) {
            Term::BindUnordered(marker, Box::new(ty.clone()))
        } else {
            Term::Bind(marker)
        }
    }

    /// Its value with these bindings.
    #[inline]
    pub fn eval<'a>(&'a self, bindings: &'a Bindings<'_>) -> Result<Evaluated<'a>> {
        match self {
            Term::Constant(bytes) => Ok(Evaluated::Bytes(Cow::Borrowed(bytes))),
            Term::Null => Ok(Evaluated::Null),
            Term::Bind(marker) => Ok(match bindings.get(*marker) {
                Value::Bytes(bytes) => Evaluated::Bytes(Cow::Borrowed(bytes)),
                Value::Null => Evaluated::Null,
                Value::Unset => Evaluated::Unset,
            }),
            Term::BindUnordered(marker, ty) => match bindings.get(*marker) {
                Value::Bytes(bytes) => Ok(Evaluated::Bytes(normalized(ty, bytes)?)),
                Value::Null => Ok(Evaluated::Null),
                Value::Unset => Ok(Evaluated::Unset),
            },
            Term::Build(build) => build.eval(bindings).map(Evaluated::from_bytes),
            Term::Call(signature, arguments) => call(signature, arguments, bindings),
        }
    }

    /// Whether it is the same whatever is bound and whenever it happens.
    pub fn is_constant(&self) -> bool {
        matches!(self, Term::Constant(_) | Term::Null)
    }

    /// The marker whose bytes this is, if it is one.
    pub fn marker(&self) -> Option<u16> {
        match self {
            Term::Bind(marker) | Term::BindUnordered(marker, _) => Some(*marker),
            _ => None,
        }
    }
}

impl Evaluated<'_> {
    fn from_bytes(bytes: Vec<u8>) -> Self {
        Evaluated::Bytes(Cow::Owned(bytes))
    }
}

fn call<'a>(
    signature: &Signature,
    arguments: &'a [Term],
    bindings: &'a Bindings<'_>,
) -> Result<Evaluated<'a>> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        match argument.eval(bindings)? {
            Evaluated::Unset => {
                let text = format!(
                    "Invalid unset value for argument in call to function {}",
                    signature.name
                );
                return Err(Error::invalid(text));
            }
            value => values.push(value),
        }
    }
    let values: Vec<Option<&[u8]>> = values.iter().map(Evaluated::bytes).collect();
    Ok(match signature.call(&values, &bindings.moment)? {
        Some(bytes) => Evaluated::from_bytes(bytes),
        None => Evaluated::Null,
    })
}

impl Build {
    fn eval(&self, bindings: &Bindings<'_>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Build::List(items) => {
                let items = elements(items.iter(), bindings)?;
                put_list(items.iter().map(|item| &item[..]), &mut out);
            }
            Build::Set(ty, items) => {
                let items = elements(items.iter(), bindings)?;
                sorted_set(ty, items.iter().map(|item| &item[..]), &mut out)?;
            }
            Build::Map(ty, entries) => {
                let keys = elements(entries.iter().map(|(key, _)| key), bindings)?;
                let values = elements(entries.iter().map(|(_, value)| value), bindings)?;
                let entries = keys.iter().zip(&values).map(|(key, value)| (&key[..], &value[..]));
                sorted_map(ty, entries, &mut out)?;
            }
            Build::Tuple(items) => {
                for item in items {
                    put_field(&item.eval(bindings)?, &mut out)?;
                }
            }
            Build::Vector(element, items) => {
                for item in elements(items.iter(), bindings)? {
                    put_vector_element(element, &item, &mut out);
                }
            }
        }
        Ok(out)
    }
}

/// The values of the elements of a collection, which cannot be null.
fn elements<'a>(
    terms: impl Iterator<Item = &'a Term>,
    bindings: &'a Bindings<'_>,
) -> Result<Vec<Cow<'a, [u8]>>> {
    terms
        .map(|term| match term.eval(bindings)? {
            Evaluated::Bytes(bytes) => Ok(bytes),
            Evaluated::Null => Err(Error::invalid("null is not supported inside collections")),
            Evaluated::Unset => {
                Err(Error::invalid("unset value is not supported inside collections"))
            }
        })
        .collect()
}

/// Appends a field of a tuple, which can be null.
fn put_field(value: &Evaluated<'_>, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Evaluated::Bytes(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        Evaluated::Null => out.extend_from_slice(&(-1i32).to_be_bytes()),
        Evaluated::Unset => {
            return Err(Error::invalid("Invalid unset value for tuple field"));
        }
    }
    Ok(())
}

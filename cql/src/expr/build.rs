//! Collections, tuples and vectors that are put together from terms.
//!
//! ```text
//!                a part that is null    a part that is not set
//! collection     refused                refused
//! vector         refused                refused
//! tuple          null                   refused
//! user type      null                   refused; null if the type is not frozen
//! ```
//!
//! 1. The parts are evaluated in their order. Their bytes are counted, and a value that would be longer than a cell may
//!    be is refused before it is put together.
//! 2. The value is written in its wire form: a collection has the number of its elements before them, and each part has
//!    its length before it, -1 for null. In a vector only parts without a fixed length have one.
//! 3. Sets and maps are sorted, and of equal elements one stays (`collection.rs`).
//!
//! Not here: which type each part has (`infer.rs`), collections that are stored as a cell for each element
//! (`plan/cells.rs`).

use std::borrow::Cow;

use model::CqlType;
use model::limits::CELL_BYTES_MAX;
use model::types::put_vector_element;

use super::collection::{put_list, sorted_map, sorted_set};
use super::{Env, Evaluated, Term};
use crate::error::{Error, Result};
use crate::frame::writer;

/// How a value of several parts is put together.
#[derive(Clone, Debug, PartialEq)]
pub enum Build {
    /// A list of these elements: `[a, b]`.
    List(Vec<Term>),
    /// `{a, b}`, whose elements have this type.
    Set(CqlType, Vec<Term>),
    /// `{k: v}`, whose keys have this type: keys and values in turn.
    Map(CqlType, Vec<Term>),
    /// `(a, b)`, whose parts may be the fields of a user-defined type.
    Tuple(Vec<Term>),
    /// `{a: 1, b: 2}` of this user-defined type: its fields in order.
    Udt(CqlType, Vec<Term>),
    /// `[a, b]` as a vector, whose elements have this type.
    Vector(CqlType, Vec<Term>),
}

impl Build {
    /// The terms that the value is put together from.
    pub(super) fn parts(&self) -> &[Term] {
        match self {
            Build::List(parts)
            | Build::Set(_, parts)
            | Build::Map(_, parts)
            | Build::Tuple(parts)
            | Build::Udt(_, parts)
            | Build::Vector(_, parts) => parts,
        }
    }

    /// What it is put together from, to be changed.
    pub(super) fn parts_mut(&mut self) -> Vec<&mut Term> {
        match self {
            Build::List(parts)
            | Build::Set(_, parts)
            | Build::Map(_, parts)
            | Build::Tuple(parts)
            | Build::Udt(_, parts)
            | Build::Vector(_, parts) => parts.iter_mut().collect(),
        }
    }

    /// The bytes of the whole.
    pub(super) fn eval(&self, env: &impl Env) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        if let Build::Tuple(fields) | Build::Udt(_, fields) = self {
            for (index, field) in fields.iter().enumerate() {
                let value = field.eval(env)?;
                check_bytes(out.len() + value.bytes().map_or(0, <[u8]>::len))?;
                if value == Evaluated::Unset {
                    self.check_unset(index)?;
                }
                writer::bytes(&mut out, value.bytes());
            }
            return Ok(out);
        }
        let what = if let Build::Vector(..) = self { "vectors" } else { "collections" };
        let items = elements(self.parts(), what, env)?;
        let bytes = items.iter().map(|item| &item[..]);
        match self {
            Build::List(_) => put_list(bytes, &mut out),
            Build::Set(ty, _) => sorted_set(ty, bytes, &mut out)?,
            Build::Map(ty, _) => {
                let values = bytes.clone().skip(1).step_by(2);
                sorted_map(ty, bytes.step_by(2).zip(values), &mut out)?;
            }
            Build::Vector(ty, _) => {
                bytes.for_each(|item| put_vector_element(ty, item, &mut out));
            }
            Build::Tuple(_) | Build::Udt(..) => unreachable!("done above"),
        }
        Ok(out)
    }

    /// Refuses a part that was not set, but of a user type that is not frozen: there it is null.
    fn check_unset(&self, index: usize) -> Result<()> {
        match self {
            Build::Udt(CqlType::Udt { frozen: false, .. }, _) => Ok(()),
            Build::Udt(CqlType::Udt { definition, .. }, _) => Err(Error::invalid(format!(
                "Invalid unset value for field '{}' of user defined type {}",
                definition.fields[index].0, definition.name
            ))),
            _ => Err(Error::invalid(format!("Invalid unset value for tuple field number {index}"))),
        }
    }
}

/// The values of the elements of a collection or vector, which cannot be null.
fn elements<'e>(terms: &'e [Term], what: &str, env: &'e impl Env) -> Result<Vec<Cow<'e, [u8]>>> {
    let mut total = 0;
    terms
        .iter()
        .map(|term| match term.eval(env)? {
            Evaluated::Bytes(bytes) => {
                total += bytes.len();
                check_bytes(total)?;
                Ok(bytes)
            }
            Evaluated::Null => Err(Error::invalid(format!("null is not supported inside {what}"))),
            // What is not set in a vector is null.
            Evaluated::Unset if what == "vectors" => {
                Err(Error::invalid("null is not supported inside vectors"))
            }
            Evaluated::Unset => {
                Err(Error::invalid("unset value is not supported inside collections"))
            }
        })
        .collect()
}

/// Refuses a value of so many bytes, lengths of its parts apart, before it is put together.
fn check_bytes(bytes: usize) -> Result<()> {
    if bytes > CELL_BYTES_MAX {
        return Err(Error::invalid(format!("a value has more than {CELL_BYTES_MAX} bytes")));
    }
    Ok(())
}

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
//! 3. Of a user type only the fields that are given have terms: a type may have tens of thousands, and a statement many
//!    values of it.
//! 4. Sets and maps are sorted, and of equal elements one stays (`collection.rs`).
//!
//! Not here: which type each part has (`infer.rs`), collections that are stored as a cell for each element
//! (`plan/cells.rs`).

use std::borrow::Cow;
use std::sync::Arc;

use model::CqlType;
use model::limits::CELL_BYTES_MAX;
use model::types::{UserType, put_vector_element};

use super::collection::{SortCost, put_list, sorted_map, sorted_set};
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
    /// `{a: 1, b: 2}`: a value of a user type, of which a field that is not given is null.
    Udt(GivenFields),
    /// `[a, b]` as a vector, whose elements have this type.
    Vector(CqlType, Vec<Term>),
}

/// The fields of a user type that a value gives, which may be few of very many.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenFields {
    definition: Arc<UserType>,
    frozen: bool,
    /// The index of each field that is given, in order.
    places: Box<[usize]>,
    /// The value of each.
    parts: Vec<Term>,
}

impl GivenFields {
    /// A value of the type, frozen or not, that gives the fields of these indexes, which are in order.
    pub(super) fn new(
        definition: Arc<UserType>,
        frozen: bool,
        (places, parts): (Vec<usize>, Vec<Term>),
    ) -> GivenFields {
        GivenFields { definition, frozen, places: places.into(), parts }
    }

    /// All fields of the type in order, with the values of those that are given.
    fn all(&self) -> impl Iterator<Item = Option<&Term>> {
        let mut given = self.places.iter().zip(&self.parts).peekable();
        let field = move |index| given.next_if(|(place, _)| **place == index).map(|(_, part)| part);
        (0..self.definition.fields.len()).map(field)
    }
}

impl Build {
    /// The terms that the value is put together from.
    pub(super) fn parts(&self) -> &[Term] {
        match self {
            Build::List(parts)
            | Build::Set(_, parts)
            | Build::Map(_, parts)
            | Build::Tuple(parts)
            | Build::Udt(GivenFields { parts, .. })
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
            | Build::Udt(GivenFields { parts, .. })
            | Build::Vector(_, parts) => parts.iter_mut().collect(),
        }
    }

    /// The bytes of the whole.
    pub(super) fn eval(&self, env: &impl Env) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let what = match self {
            Build::Tuple(parts) => {
                self.put_fields(parts.iter().map(Some), env, &mut out)?;
                return Ok(out);
            }
            Build::Udt(fields) => {
                self.put_fields(fields.all(), env, &mut out)?;
                return Ok(out);
            }
            Build::Vector(..) => "vectors",
            Build::List(_) | Build::Set(..) | Build::Map(..) => "collections",
        };
        let items = elements(self.parts(), what, env)?;
        let bytes = items.iter().map(|item| &item[..]);
        let mut cost = SortCost::default();
        match self {
            Build::List(_) => put_list(bytes, &mut out),
            Build::Set(ty, _) => sorted_set(ty, bytes, &mut cost, &mut out)?,
            Build::Map(ty, _) => {
                let values = bytes.clone().skip(1).step_by(2);
                sorted_map(ty, bytes.step_by(2).zip(values), &mut cost, &mut out)?;
            }
            Build::Vector(ty, _) => {
                bytes.for_each(|item| put_vector_element(ty, item, &mut out));
            }
            Build::Tuple(_) | Build::Udt(..) => unreachable!("done above"),
        }
        // A value may have many sets, each of them a term.
        env.work().take_sorted(&cost)?;
        Ok(out)
    }

    /// Appends the fields of a tuple or of a user type; one that is not given is null.
    fn put_fields<'t>(
        &self,
        fields: impl Iterator<Item = Option<&'t Term>>,
        env: &impl Env,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        for (index, field) in fields.enumerate() {
            let value = field.map_or(Ok(Evaluated::Null), |field| field.eval(env))?;
            check_bytes(out.len() + value.bytes().map_or(0, <[u8]>::len))?;
            if value == Evaluated::Unset {
                self.check_unset(index)?;
            }
            writer::bytes(out, value.bytes());
        }
        Ok(())
    }

    /// Refuses a part that was not set, but of a user type that is not frozen: there it is null.
    fn check_unset(&self, index: usize) -> Result<()> {
        match self {
            Build::Udt(GivenFields { frozen: false, .. }) => Ok(()),
            Build::Udt(GivenFields { definition, .. }) => Err(Error::invalid(format!(
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

//! What terms read when they are evaluated.
//!
//! ```text
//! environment              asks for                                        where it is
//! Bindings                 markers, values of an INSERT JSON                here
//! RowView                  columns, terms that are evaluated once           `rows/source.rs`
//! Group                    aggregates, values of the group's first row      `rows/encoder.rs`
//! ```
//!
//! All have the time of the statement. An environment is asked only for what it has: the compiler puts each kind of
//! term where its environment is (`compile.rs`), so any other question is our bug and stops the process.
//!
//! [`Evaluated`] keeps null apart from unset: a write leaves the cell of an unset value as it is, and a key refuses
//! such a value. Bytes are lent from the request or the row where they lie there, and owned where a function made them.
//!
//! Not here: the terms (`expr.rs`), the binding of values (`bind.rs`).

use std::borrow::Cow;

use super::row::Source;
use super::work::ExpressionWork;
use crate::bind::{Bindings, StatementTime};
use crate::error::{Error, Result};
use crate::frame::Value;
use crate::json::{JsonBudget, JsonSlot};

/// The value of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluated<'a> {
    /// The value is null.
    Null,
    /// A marker that was not set.
    Unset,
    /// The bytes of a value.
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Evaluated<'a> {
    /// Bytes that lie elsewhere.
    #[inline]
    pub fn lent(bytes: &'a [u8]) -> Self {
        Evaluated::Bytes(Cow::Borrowed(bytes))
    }

    /// Bytes that lie elsewhere, or null.
    #[inline]
    pub fn lent_or_null(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Evaluated::Null, Evaluated::lent)
    }

    /// Bytes that were made.
    pub fn made(bytes: Vec<u8>) -> Self {
        Evaluated::Bytes(Cow::Owned(bytes))
    }

    /// Bytes that were made, or null.
    pub fn made_or_null(bytes: Option<Vec<u8>>) -> Self {
        bytes.map_or(Evaluated::Null, Evaluated::made)
    }

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

    /// The bytes as their owner's, if there are any.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Evaluated::Bytes(bytes) => Some(bytes.into_owned()),
            _ => None,
        }
    }
}

/// What terms read: the bindings of a statement, a row, or a group of rows.
///
/// An environment has some of these only. The compiler gives it no term that reads another.
pub trait Env {
    /// The timestamp and the clock that the statement sees.
    fn time(&self) -> &StatementTime<'_>;

    /// What its terms have taken.
    fn work(&self) -> &ExpressionWork;

    /// The value bound to a marker.
    fn marker(&self, _marker: u16) -> Evaluated<'_> {
        unreachable!("the markers of a SELECT are evaluated before its rows")
    }

    /// The value of this number of an `INSERT JSON`.
    fn of_json(&self, _slot: usize) -> Evaluated<'_> {
        unreachable!("only an INSERT JSON has such values")
    }

    /// What calls of `from_json` may make, which only terms of a statement are: rows have none.
    fn json_budget(&self) -> Option<&JsonBudget> {
        None
    }

    /// The value of a term that is evaluated once for all rows.
    fn once(&self, _slot: usize) -> Option<&[u8]> {
        unreachable!("only a SELECT has terms that are evaluated once")
    }

    /// The value that a column, or a part of it, has in the row.
    fn column<'e>(&'e self, _source: &'e Source) -> Result<Evaluated<'e>> {
        unreachable!("only rows have columns")
    }

    /// Those elements of a column stored by element whose paths lie between two, both inside, as a collection; with
    /// neither end all of them. Null if there are none.
    fn elements_between<'e>(
        &'e self,
        _source: &'e Source,
        _first: Option<&[u8]>,
        _last: Option<&[u8]>,
    ) -> Result<Evaluated<'e>> {
        unreachable!("only rows have columns")
    }

    /// The value of the element of a column stored by element at a path. Null if there is none.
    fn element_at<'e>(&'e self, _source: &'e Source, _path: &[u8]) -> Result<Evaluated<'e>> {
        unreachable!("only rows have columns")
    }

    /// The result of an aggregate.
    fn aggregate(&self, _slot: usize) -> Option<&[u8]> {
        unreachable!("only groups have aggregates")
    }

    /// A value of the group's first row.
    fn first(&self, _slot: usize) -> Option<&[u8]> {
        unreachable!("only groups have a first row")
    }
}

impl Env for Bindings<'_> {
    #[inline]
    fn time(&self) -> &StatementTime<'_> {
        &self.time
    }

    #[inline]
    fn work(&self) -> &ExpressionWork {
        &self.work
    }

    #[inline]
    fn marker(&self, marker: u16) -> Evaluated<'_> {
        match self.get(marker) {
            Value::Bytes(bytes) => Evaluated::lent(bytes),
            Value::Null => Evaluated::Null,
            Value::Unset => Evaluated::Unset,
        }
    }

    fn of_json(&self, slot: usize) -> Evaluated<'_> {
        match &self.json[slot] {
            JsonSlot::Bytes(bytes) => Evaluated::lent(bytes),
            JsonSlot::Null => Evaluated::Null,
            JsonSlot::Unset => Evaluated::Unset,
        }
    }

    fn json_budget(&self) -> Option<&JsonBudget> {
        Some(&self.json_budget)
    }
}

//! The columns of `INSERT INTO t JSON '..'`: one text for the values of a row.
//!
//! ```text
//! {"p": 1, "\"Mixed\"": [2]} ─► by column ─► p: bytes   Mixed: bytes   all others: null, or unset
//! ```
//!
//! A text that is written in the statement is read when the statement is prepared; one that is bound, at each binding.
//! As in Cassandra the last of two values of one name counts, what follows the object is not looked at, and what is
//! wrong is told of the first column of the table of which something is.

use std::borrow::Cow;
use std::fmt;

use model::Table;
use model::limits::MUTATION_BYTES_MAX;
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::halves::without_halves;
use super::names::Named;
use super::shown::cut;
use super::value::Reading;
use super::{JsonBudget, JsonError};
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, Term};

/// The value of a column, by JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonSlot {
    /// The text lacks it, and the statement says `DEFAULT UNSET`.
    Unset,
    /// Null, or lacking.
    Null,
    /// The value in wire form.
    Bytes(Vec<u8>),
}

/// The values of an `INSERT JSON`.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonInsert {
    /// Of a text that the statement holds: one for each column of the table.
    Known(Vec<JsonSlot>),
    /// Of a text that is bound.
    Bound {
        /// The marker of the text.
        text: Term,
        /// `DEFAULT UNSET`: columns that the text lacks stay as they are.
        default_unset: bool,
    },
}

impl JsonInsert {
    /// The values of this execution, for the columns of the statement's table in their order.
    pub fn slots(&self, bindings: &Bindings<'_>, table: &Table) -> Result<Cow<'_, [JsonSlot]>> {
        match self {
            JsonInsert::Known(slots) => Ok(Cow::Borrowed(slots)),
            JsonInsert::Bound { text, default_unset } => match text.eval(bindings)? {
                Evaluated::Bytes(text) => {
                    let text = std::str::from_utf8(&text);
                    let text = text.map_err(|error| not_utf8(error.valid_up_to()))?;
                    // All of them go into one mutation.
                    let budget = JsonBudget::of(MUTATION_BYTES_MAX);
                    let reading = Reading::new(&budget, &bindings.work);
                    read_row(text, table, *default_unset, &reading).map(Cow::Owned)
                }
                Evaluated::Null => Err(Error::invalid("Got null for INSERT JSON values")),
                Evaluated::Unset => Err(Error::invalid(
                    "Could not decode JSON string as a map: the value is not set",
                )),
            },
        }
    }
}

/// The error for a bound text that has another byte than UTF-8 allows behind so many good ones.
#[cold]
fn not_utf8(good_bytes: usize) -> Error {
    Error::invalid(format!(
        "the value bound to INSERT JSON is not valid UTF-8 from byte {good_bytes} on"
    ))
}

/// The values that a text gives the columns of a table, in their order.
pub(crate) fn read_row(
    text: &str,
    table: &Table,
    default_unset: bool,
    reading: &Reading<'_>,
) -> Result<Vec<JsonSlot>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = deserializer.deserialize_any(Row { table });
    let found = match found {
        Ok(found) => found,
        Err(error) => match without_halves(text) {
            Some(whole) => return read_row(&whole, table, default_unset, reading),
            None => return Err(not_a_map(&error, text)),
        },
    };
    let Some(found) = found else {
        return Err(Error::invalid("Got null for INSERT JSON values"));
    };
    let slots = found.values().zip(table.columns()).map(|(raw, column)| {
        let Some(raw) = raw else {
            return Ok(if default_unset { JsonSlot::Unset } else { JsonSlot::Null });
        };
        let value = reading.value(&column.ty, raw).map_err(|error| match error {
            JsonError::Invalid(error) => error,
            JsonError::Type(why) | JsonError::Syntax(why) => {
                let name = &column.name;
                Error::invalid(format!("Error decoding JSON value for {name}: {why}"))
            }
        })?;
        Ok(value.map_or(JsonSlot::Null, JsonSlot::Bytes))
    });
    let slots = slots.collect::<Result<Vec<JsonSlot>>>()?;
    match found.unknown() {
        None => Ok(slots),
        Some(name) => {
            let text = format!("JSON values map contains unrecognized column: {}", cut(&name));
            Err(Error::Invalid(text))
        }
    }
}

#[cold]
fn not_a_map(error: &serde_json::Error, text: &str) -> Error {
    let text = cut(text);
    Error::invalid(format!("Could not decode JSON string as a map: {error}. (String was: {text})"))
}

/// Reads an object; `None` for null.
struct Row<'c> {
    table: &'c Table,
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = Option<Named<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object with a value for each column")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut found = Named::of(self.table.columns().len());
        while let Some((name, value)) = entries.next_entry::<String, &'de RawValue>()? {
            found.put(&name, value.get(), |name| self.table.column_index(name));
        }
        Ok(Some(found))
    }
}

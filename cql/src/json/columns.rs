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
use std::collections::HashMap;
use std::fmt;

use model::CqlType;
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::JsonError;
use super::value::{column_name, from_json};
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, Term};
use crate::limits::JSON_SHOWN_BYTES_MAX;

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

/// The columns that a JSON text may name.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonColumns {
    /// Name and type of each column, in the order of the slots.
    pub columns: Vec<(String, CqlType)>,
    /// `DEFAULT UNSET`: columns that the text lacks stay as they are.
    pub default_unset: bool,
}

/// The values of an `INSERT JSON`.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonInsert {
    /// Of a text that the statement holds.
    Known(Vec<JsonSlot>),
    /// Of a text that is bound.
    Bound(Term, JsonColumns),
}

impl JsonInsert {
    /// The values of this execution.
    pub fn slots(&self, bindings: &Bindings<'_>) -> Result<Cow<'_, [JsonSlot]>> {
        match self {
            JsonInsert::Known(slots) => Ok(Cow::Borrowed(slots)),
            JsonInsert::Bound(term, columns) => match term.eval(bindings)? {
                Evaluated::Bytes(text) => {
                    let text = std::str::from_utf8(&text);
                    let text = text.map_err(|_| Error::invalid("JSON is text in UTF-8"))?;
                    columns.read(text).map(Cow::Owned)
                }
                Evaluated::Null => Err(Error::invalid("Got null for INSERT JSON values")),
                Evaluated::Unset => Err(Error::invalid(
                    "Could not decode JSON string as a map: the value is not set",
                )),
            },
        }
    }
}

impl JsonColumns {
    /// The values that a text gives the columns.
    pub fn read(&self, text: &str) -> Result<Vec<JsonSlot>> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let found = deserializer.deserialize_any(Row { columns: &self.columns });
        let found = found.map_err(|error| not_a_map(&error, text))?;
        let Some(Found { values, unknown }) = found else {
            return Err(Error::invalid("Got null for INSERT JSON values"));
        };
        let slots = values.into_iter().zip(&self.columns).map(|(raw, (name, ty))| {
            let Some(raw) = raw else {
                return Ok(if self.default_unset { JsonSlot::Unset } else { JsonSlot::Null });
            };
            let value = from_json(ty, raw).map_err(|error| match error {
                JsonError::Invalid(error) => error,
                JsonError::Type(why) | JsonError::Syntax(why) => {
                    Error::invalid(format!("Error decoding JSON value for {name}: {why}"))
                }
            })?;
            Ok(value.map_or(JsonSlot::Null, JsonSlot::Bytes))
        });
        let slots = slots.collect::<Result<Vec<JsonSlot>>>()?;
        match unknown {
            None => Ok(slots),
            Some(name) => {
                Err(Error::invalid(format!("JSON values map contains unrecognized column: {name}")))
            }
        }
    }
}

#[cold]
fn not_a_map(error: &serde_json::Error, text: &str) -> Error {
    let end = text.floor_char_boundary(JSON_SHOWN_BYTES_MAX);
    let (text, more) = (&text[..end], if end < text.len() { "..." } else { "" });
    Error::invalid(format!(
        "Could not decode JSON string as a map: {error}. (String was: {text}{more})"
    ))
}

/// What an object has for each column, as it stands in the text.
struct Found<'t> {
    values: Vec<Option<&'t str>>,
    /// The first name that no column has.
    unknown: Option<String>,
}

/// Reads an object; `None` for null.
struct Row<'c> {
    columns: &'c [(String, CqlType)],
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = Option<Found<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object with a value for each column")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let columns = self.columns.iter().enumerate();
        let places: HashMap<&str, usize> =
            columns.map(|(index, (name, _))| (name.as_str(), index)).collect();
        let mut found = Found { values: vec![None; places.len()], unknown: None };
        while let Some((name, value)) = entries.next_entry::<String, &'de RawValue>()? {
            let name = column_name(&name);
            match places.get(name.as_str()) {
                Some(index) => found.values[*index] = Some(value.get()),
                None => drop(found.unknown.get_or_insert(name)),
            }
        }
        Ok(Some(found))
    }
}

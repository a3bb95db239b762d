//! A JSON text to the wire bytes of a value of any type.
//!
//! ```text
//! [1, 2]        list, set, vector, tuple       a string of JSON may stand for any of these, as in the keys of maps
//! {"k": v}      map, user type                 the fields of a type in any order; those that are missing are null
//! ```
//!
//! Elements are written behind each other as they are read, each with its length before it. Sets and maps get their
//! order at the end, all at once.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;

use model::CqlType;
use model::limits::CELL_BYTES_MAX;
use model::types::{UserType, put_vector_element};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::JsonError;
use super::scalar::put_scalar;
use super::shown::shown;
use crate::error::{Error, Result};
use crate::expr::normalized;
use crate::limits::JSON_SHOWN_BYTES_MAX;

/// The value of a type that a JSON text is; `None` for null.
pub(crate) fn from_json(ty: &CqlType, text: &str) -> Result<Option<Vec<u8>>, JsonError> {
    let mut out = Vec::new();
    if !put(ty, text, false, &mut out)? {
        return Ok(None);
    }
    match normalized(ty, &out) {
        Ok(Cow::Owned(sorted)) => Ok(Some(sorted)),
        Ok(Cow::Borrowed(_)) => Ok(Some(out)),
        Err(error) => Err(JsonError::Invalid(error)),
    }
}

/// Appends the value of a JSON text; whether it is not null. What follows the value in the text is not looked at.
fn put(ty: &CqlType, text: &str, in_string: bool, out: &mut Vec<u8>) -> Result<bool, JsonError> {
    let failure = Cell::new(None);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let seed = Value { ty, out, in_string, failure: &failure };
    let read = seed.deserialize(&mut deserializer);
    read.map_err(|error| failure.take().unwrap_or_else(|| JsonError::Syntax(error.to_string())))
}

/// A value that is being read: its type, and where its bytes go.
struct Value<'v> {
    ty: &'v CqlType,
    out: &'v mut Vec<u8>,
    /// The text is that of a JSON string in another one.
    in_string: bool,
    /// What is wrong with the value, which errors of the reader have no place for.
    failure: &'v Cell<Option<JsonError>>,
}

impl<'v> Value<'v> {
    fn part<'p>(&'p mut self, ty: &'p CqlType) -> Value<'p> {
        Value { ty, out: self.out, in_string: false, failure: self.failure }
    }

    fn refuse<E: serde::de::Error>(&self, error: JsonError) -> E {
        self.failure.set(Some(error));
        E::custom("no value of its type")
    }

    fn wrong<E: serde::de::Error>(&self, got: &str) -> E {
        let expected = match self.ty {
            CqlType::List { .. } | CqlType::Vector { .. } => "a list",
            CqlType::Set { .. } => "a list (representing a set)",
            CqlType::Tuple(_) => "a list representation of a tuple",
            _ => "a map",
        };
        self.refuse(JsonError::Type(format!("Expected {expected}, but got a {got}")))
    }

    fn check_bytes<E: serde::de::Error>(&self) -> Result<(), E> {
        if self.out.len() <= CELL_BYTES_MAX {
            return Ok(());
        }
        let text = format!("a value has more than {CELL_BYTES_MAX} bytes");
        Err(self.refuse(JsonError::Invalid(Error::Invalid(text))))
    }

    /// Reads elements with their lengths before them; gives how many.
    fn items<'de, A: SeqAccess<'de>>(
        &mut self,
        mut items: A,
        element: &CqlType,
        what: &str,
    ) -> Result<i32, A::Error> {
        let mut count = 0;
        while let Some(is_there) = items.next_element_seed(Prefixed(self.part(element)))? {
            if !is_there {
                let text = format!("Invalid null element in {what}");
                return Err(self.refuse(JsonError::Type(text)));
            }
            self.check_bytes()?;
            count += 1;
        }
        Ok(count)
    }

    fn vector<'de, A: SeqAccess<'de>>(
        &mut self,
        mut items: A,
        element: &CqlType,
        dimensions: u32,
    ) -> Result<(), A::Error> {
        let (mut count, mut item) = (0u64, Vec::new());
        loop {
            item.clear();
            let part =
                Value { ty: element, out: &mut item, in_string: false, failure: self.failure };
            match items.next_element_seed(part)? {
                None => break,
                Some(false) => {
                    let text = "Invalid null element in list".into();
                    return Err(self.refuse(JsonError::Type(text)));
                }
                Some(true) => put_vector_element(element, &item, self.out),
            }
            self.check_bytes()?;
            count += 1;
        }
        if count == u64::from(dimensions) {
            return Ok(());
        }
        let text = format!("List had incorrect size: expected {dimensions} but given {count}");
        Err(self.refuse(JsonError::Type(text)))
    }

    fn tuple<'de, A: SeqAccess<'de>>(
        &mut self,
        mut items: A,
        parts: &[CqlType],
    ) -> Result<(), A::Error> {
        for part in parts {
            if items.next_element_seed(Prefixed(self.part(part)))?.is_none() {
                let text = format!("Tuple is missing items (expected {})", parts.len());
                return Err(self.refuse(JsonError::Type(text)));
            }
            self.check_bytes()?;
        }
        if items.next_element::<IgnoredAny>()?.is_some() {
            let text = format!("Tuple contains extra items (expected {})", parts.len());
            return Err(self.refuse(JsonError::Type(text)));
        }
        Ok(())
    }

    fn entries<'de, A: MapAccess<'de>>(
        &mut self,
        mut entries: A,
        key: &CqlType,
        value: &CqlType,
    ) -> Result<i32, A::Error> {
        let mut count = 0;
        while let Some(name) = entries.next_key::<Cow<'_, str>>()? {
            self.key(key, &name)?;
            if !entries.next_value_seed(Prefixed(self.part(value)))? {
                let text = "Invalid null value in map".into();
                return Err(self.refuse(JsonError::Type(text)));
            }
            self.check_bytes()?;
            count += 1;
        }
        Ok(count)
    }

    /// A key of a map is a string, whatever it is in CQL.
    fn key<E: serde::de::Error>(&mut self, ty: &CqlType, name: &str) -> Result<(), E> {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        let read = match is_scalar(ty) {
            true => put_scalar(ty, &serde_json::Value::from(name).to_string(), self.out),
            false => of_string(ty, name, self.out).map(drop),
        };
        read.map_err(|error| self.refuse(error))?;
        patch(self.out, start);
        Ok(())
    }

    fn fields<'de, A: MapAccess<'de>>(
        &mut self,
        mut entries: A,
        definition: &UserType,
    ) -> Result<(), A::Error> {
        let mut fields: Vec<Option<Vec<u8>>> = vec![None; definition.fields.len()];
        let names = definition.fields.iter().enumerate();
        let places: HashMap<&str, usize> =
            names.map(|(index, (name, _))| (name.as_str(), index)).collect();
        while let Some(name) = entries.next_key::<String>()? {
            let name = column_name(&name);
            let Some(&index) = places.get(name.as_str()) else {
                let text = format!(
                    "Unknown field '{name}' in value of user defined type {}",
                    definition.name
                );
                return Err(self.refuse(JsonError::Type(text)));
            };
            let mut out = Vec::new();
            let ty = &definition.fields[index].1;
            let part = Value { ty, out: &mut out, in_string: false, failure: self.failure };
            fields[index] = entries.next_value_seed(part)?.then_some(out);
        }
        for field in fields {
            let bytes = field.as_ref().map_or(-1, |field| field.len() as i32);
            self.out.extend_from_slice(&bytes.to_be_bytes());
            self.out.extend_from_slice(&field.unwrap_or_default());
            self.check_bytes()?;
        }
        Ok(())
    }
}

/// The name that a column or field has in JSON: in quotes with its case, else in lower case.
pub(super) fn column_name(name: &str) -> String {
    let quoted = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    quoted.map_or_else(|| name.to_lowercase(), str::to_owned)
}

fn is_scalar(ty: &CqlType) -> bool {
    !matches!(
        ty,
        CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Tuple(_)
            | CqlType::Udt { .. }
            | CqlType::Vector { .. }
    )
}

/// Appends the value of the JSON that a string holds.
fn of_string(ty: &CqlType, text: &str, out: &mut Vec<u8>) -> Result<bool, JsonError> {
    put(ty, text, true, out).map_err(|error| match error {
        JsonError::Syntax(why) => JsonError::Type(format!("Error decoding JSON string: {why}")),
        error => error,
    })
}

fn patch(out: &mut [u8], start: usize) {
    let bytes = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        if !is_scalar(self.ty) {
            return deserializer.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        if raw == "null" {
            return Ok(false);
        }
        put_scalar(self.ty, raw, self.out).map_err(|error| self.refuse(error))?;
        self.check_bytes().map(|()| true)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of type {}", self.ty)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<bool, E> {
        Err(self.wrong(&shown(if value { "true" } else { "false" })))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<bool, E> {
        Err(self.wrong(&shown(&value.to_string())))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<bool, E> {
        Err(self.wrong(&shown(&value.to_string())))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<bool, E> {
        Err(self.wrong(&shown(&format!("{value:?}"))))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<bool, E> {
        if self.in_string {
            return Err(self.wrong(&shown(&serde_json::Value::from(text).to_string())));
        }
        of_string(self.ty, text, self.out).map_err(|error| self.refuse(error))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, items: A) -> Result<bool, A::Error> {
        let (ty, start) = (self.ty, self.out.len());
        let count = match ty {
            CqlType::Vector { element, dimensions } => {
                return self.vector(items, element, *dimensions).map(|()| true);
            }
            CqlType::Tuple(parts) => return self.tuple(items, parts).map(|()| true),
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                self.out.extend_from_slice(&[0; 4]);
                let what = if matches!(ty, CqlType::Set { .. }) { "set" } else { "list" };
                self.items(items, element, what)?
            }
            _ => return Err(self.wrong(&shown_list(items)?)),
        };
        self.out[start..start + 4].copy_from_slice(&count.to_be_bytes());
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, entries: A) -> Result<bool, A::Error> {
        let (ty, start) = (self.ty, self.out.len());
        match ty {
            CqlType::Udt { definition, .. } => self.fields(entries, definition)?,
            CqlType::Map { key, value, .. } => {
                self.out.extend_from_slice(&[0; 4]);
                let count = self.entries(entries, key, value)?;
                self.out[start..start + 4].copy_from_slice(&count.to_be_bytes());
            }
            _ => return Err(self.wrong(&shown_map(entries)?)),
        }
        Ok(true)
    }
}

/// A value with its length before it; -1 is null.
struct Prefixed<'v>(Value<'v>);

impl<'de> DeserializeSeed<'de> for Prefixed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        let Value { ty, out, failure, .. } = self.0;
        let start = out.len();
        out.extend_from_slice(&(-1i32).to_be_bytes());
        let part = Value { ty, out: &mut *out, in_string: false, failure };
        let is_there = part.deserialize(deserializer)?;
        if is_there {
            patch(out, start);
        }
        Ok(is_there)
    }
}

/// A list as an error shows it.
fn shown_list<'de, A: SeqAccess<'de>>(mut items: A) -> Result<String, A::Error> {
    let mut raw = String::from("[");
    while let Some(item) = items.next_element::<&RawValue>()? {
        if raw.len() <= JSON_SHOWN_BYTES_MAX {
            raw.push_str(if raw.len() > 1 { ", " } else { "" });
            raw.push_str(item.get());
        }
    }
    raw.push(']');
    Ok(shown(&raw))
}

/// A map as an error shows it.
fn shown_map<'de, A: MapAccess<'de>>(mut entries: A) -> Result<String, A::Error> {
    let mut raw = String::from("{");
    while let Some((name, value)) = entries.next_entry::<String, &RawValue>()? {
        if raw.len() <= JSON_SHOWN_BYTES_MAX {
            raw.push_str(if raw.len() > 1 { ", " } else { "" });
            raw.push_str(&serde_json::Value::from(name).to_string());
            raw.push(':');
            raw.push_str(value.get());
        }
    }
    raw.push('}');
    Ok(shown(&raw))
}

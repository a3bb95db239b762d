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
use std::fmt;

use model::CqlType;
use model::limits::CELL_BYTES_MAX;
use model::types::{UserType, put_vector_element};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::halves::without_halves;
use super::names::Named;
use super::scalar::put_scalar;
use super::shown::{cut, shown};
use super::{JsonBudget, JsonError};
use crate::error::Error;
use crate::expr::{ExpressionWork, is_ordered, normalized};
use crate::limits::JSON_SHOWN_BYTES_MAX;
use crate::steps::step;

/// The value of a type that a JSON text is; `None` for null. Its bytes are counted in `budget`, and in `work` what long
/// numbers, sets and maps take beside them.
pub(crate) fn from_json(
    ty: &CqlType,
    text: &str,
    budget: &JsonBudget,
    work: &ExpressionWork,
) -> Result<Option<Vec<u8>>, JsonError> {
    Reading::new(budget, work).value(ty, text)
}

/// What all values of one row share while they are read. Their types stay where they are as long.
pub(crate) struct Reading<'r> {
    budget: &'r JsonBudget,
    work: &'r ExpressionWork,
    /// The most bytes that the value may have that is being read.
    bytes_max: Cell<usize>,
    /// The bytes that it has so far.
    bytes: Cell<usize>,
    /// What is wrong with it, which errors of the reader have no place for.
    failure: Cell<Option<JsonError>>,
}

impl<'r> Reading<'r> {
    pub(crate) fn new(budget: &'r JsonBudget, work: &'r ExpressionWork) -> Reading<'r> {
        let (bytes_max, bytes) = (Cell::new(0), Cell::new(0));
        Reading { budget, work, bytes_max, bytes, failure: Cell::new(None) }
    }

    /// The value of a type that a JSON text is; `None` for null.
    pub(super) fn value(&self, ty: &CqlType, text: &str) -> Result<Option<Vec<u8>>, JsonError> {
        match self.value_as_it_stands(ty, text) {
            Err(JsonError::Syntax(why)) => match without_halves(text) {
                Some(whole) => self.value_as_it_stands(ty, &whole),
                None => Err(JsonError::Syntax(why)),
            },
            read => read,
        }
    }

    fn value_as_it_stands(&self, ty: &CqlType, text: &str) -> Result<Option<Vec<u8>>, JsonError> {
        self.bytes.set(0);
        self.bytes_max.set(CELL_BYTES_MAX.min(self.budget.left()));
        let mut out = Vec::new();
        let seed = ValueSeed { ty, out: &mut out, before: 0, in_string: false, reading: self };
        let read = seed.read(text);
        self.budget.take(self.bytes.get().max(out.len()));
        if !read? {
            return Ok(None);
        }
        ty.validate(&out)?;
        if ty.is_scalar() {
            return Ok(Some(out));
        }
        if is_ordered(ty) {
            self.work.take_sort(out.len())?;
        }
        match normalized(ty, &out, self.work) {
            Ok(Cow::Owned(sorted)) => Ok(Some(sorted)),
            Ok(Cow::Borrowed(_)) => Ok(Some(out)),
            Err(error) => Err(JsonError::Invalid(error)),
        }
    }

    #[cold]
    fn too_much(&self) -> JsonError {
        JsonError::Invalid(match self.bytes_max.get() {
            CELL_BYTES_MAX => {
                Error::Invalid(format!("a value has more than {CELL_BYTES_MAX} bytes"))
            }
            _ => self.budget.error(),
        })
    }
}

/// A value that is being read: its type, and where its bytes go.
struct ValueSeed<'v> {
    ty: &'v CqlType,
    out: &'v mut Vec<u8>,
    /// The bytes that the value which it is a part of has elsewhere so far.
    before: usize,
    /// The text is that of a JSON string in another one.
    in_string: bool,
    reading: &'v Reading<'v>,
}

impl ValueSeed<'_> {
    fn part<'p>(&'p mut self, ty: &'p CqlType) -> ValueSeed<'p> {
        let ValueSeed { before, reading, .. } = *self;
        ValueSeed { ty, out: self.out, before, in_string: false, reading }
    }

    /// Appends the value of a JSON text; whether it is not null. What follows the value in the text is not looked at.
    fn read(self, text: &str) -> Result<bool, JsonError> {
        step(text.len());
        let failure = &self.reading.failure;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = self.deserialize(&mut deserializer);
        read.map_err(|error| failure.take().unwrap_or_else(|| JsonError::Syntax(error.to_string())))
    }

    /// Appends the value of the JSON text that a JSON string holds, such as a key of a map; whether it is not null.
    /// What is no JSON is an error of the type.
    fn read_string(self, text: &str) -> Result<bool, JsonError> {
        ValueSeed { in_string: true, ..self }.read(text).map_err(|error| match error {
            JsonError::Syntax(why) => JsonError::Type(format!("Error decoding JSON string: {why}")),
            error => error,
        })
    }

    fn refuse<E: serde::de::Error>(&self, error: JsonError) -> E {
        self.reading.failure.set(Some(error));
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
        let bytes = self.before + self.out.len();
        self.reading.bytes.set(bytes);
        if bytes <= self.reading.bytes_max.get() {
            return Ok(());
        }
        Err(self.refuse(self.reading.too_much()))
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
            let before = self.before + self.out.len();
            let part = ValueSeed { out: &mut item, before, ..self.part(element) };
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
        let read = match ty.is_scalar() {
            true => {
                let name = serde_json::Value::from(name).to_string();
                put_scalar(ty, &name, self.reading.work, self.out)
            }
            false => self.part(ty).read_string(name).map(drop),
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
        let mut given = Named::of(definition.fields.len());
        while let Some((name, raw)) = entries.next_entry::<Cow<'_, str>, &'de RawValue>()? {
            given.put(&name, raw.get(), |name| Some(definition.field(name)?.0));
        }
        for (raw, (_, ty)) in given.values().zip(&definition.fields) {
            let start = self.out.len();
            self.out.extend_from_slice(&(-1i32).to_be_bytes());
            if let Some(raw) = raw {
                let read = self.part(ty).read(raw);
                if read.map_err(|error| self.refuse(error))? {
                    patch(self.out, start);
                }
            }
            self.check_bytes()?;
        }
        let Some(name) = given.unknown() else { return Ok(()) };
        let (name, of) = (cut(&name), &definition.name);
        let text = format!("Unknown field '{name}' in value of user defined type {of}");
        Err(self.refuse(JsonError::Type(text)))
    }
}

fn patch(out: &mut [u8], start: usize) {
    let bytes = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        if !self.ty.is_scalar() {
            return deserializer.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        if raw == "null" {
            return Ok(false);
        }
        put_scalar(self.ty, raw, self.reading.work, self.out)
            .map_err(|error| self.refuse(error))?;
        self.check_bytes().map(|()| true)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
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
        let (ty, mut seed) = (self.ty, self);
        let read = seed.part(ty).read_string(text);
        read.map_err(|error| seed.refuse(error))
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
struct Prefixed<'v>(ValueSeed<'v>);

impl<'de> DeserializeSeed<'de> for Prefixed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        let Prefixed(mut seed) = self;
        let (ty, start) = (seed.ty, seed.out.len());
        seed.out.extend_from_slice(&(-1i32).to_be_bytes());
        let is_there = seed.part(ty).deserialize(deserializer)?;
        if is_there {
            patch(seed.out, start);
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

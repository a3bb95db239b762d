//! `to_json`: a value of any type as JSON text; rows of a `SELECT JSON`; `from_json` the other way.
//!
//! 1. `put` goes through a value by its type, and writes text as it goes: numbers and booleans bare, all other
//!    scalars as strings, NaN and infinities as null.
//! 2. A key of a JSON object is a string: of a map with other keys it is the JSON of the key, as a string.
//! 3. Of a `SELECT JSON` the names of columns are made into text when it is prepared (`json_prefix`), the values for
//!    each row (`json_object`).
//!
//! Invariant: no text is longer than a cell may be. The forms are those of Cassandra's `toJSONString` of each type.
//! Not here: JSON texts to values (`crate::json`), scalars as text (`literal`).

use model::CqlType;
use model::limits::CELL_BYTES_MAX;
use model::types::{collection_elements, tuple_fields, vector_elements};

use super::{Call, table};
use crate::error::{Error, Result};
use crate::expr::work::work_of_number;
use crate::expr::{Env, ExpressionWork, Term};
use crate::json::{self, JsonBudget, JsonError, cut};
use crate::limits::FROM_JSON_BYTES_MAX;
use crate::literal::{check_number_bytes, timestamp_text, to_text};

/// `to_json`, also of a null. The empty value of a type that has no empty texts is null here, as in Cassandra.
pub(super) fn to_json(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let ty = call.ty(0);
    let has_empty = matches!(ty, CqlType::Text | CqlType::Ascii | CqlType::Blob);
    let value = call.optional(0).filter(|value| has_empty || !value.is_empty());
    let mut out = Json::counted(call.work);
    put(ty, value, &mut out)?;
    // The result counts as a copy only.
    call.work.take_bytes(out.text.len())?;
    Ok(Some(out.text.into_bytes()))
}

/// `from_json`: the value of its receiver's type that a text is.
pub(super) fn from_json(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let text = std::str::from_utf8(call.value(0)).map_err(|_| model::Error::Malformed("text"))?;
    let own = JsonBudget::of(FROM_JSON_BYTES_MAX);
    let budget = call.json_budget.unwrap_or(&own);
    json::from_json(call.result(), text, budget, call.work).map_err(|error| {
        let why = match error {
            JsonError::Invalid(error) if call.work.is_refused() => return error,
            JsonError::Syntax(why) => {
                format!("Could not decode JSON string '{}': {why}", cut(text))
            }
            JsonError::Type(why) => why,
            JsonError::Invalid(error) => error.to_string(),
        };
        let name = call.signature.name;
        Error::Function {
            keyspace: "system".into(),
            function: name.into(),
            arguments: vec!["text".into()],
            text: format!("execution of 'system.{name}[text]' failed: {why}"),
        }
    })
}

/// What stands before a value in the text of a `SELECT JSON`: `"name": `.
pub(crate) fn json_prefix(name: &str) -> Result<String> {
    let mut out = Json::default();
    put_string(&json_name(name), &mut out)?;
    out.push_str(": ")?;
    Ok(out.text)
}

/// A row as JSON text: each value behind what stands before it.
pub(in crate::expr) fn json_object(entries: &[(String, Term)], env: &impl Env) -> Result<Vec<u8>> {
    let mut out = Json::counted(env.work());
    out.push('{')?;
    let mut first = true;
    for (prefix, term) in entries {
        comma(&mut first, &mut out)?;
        out.push_str(prefix)?;
        let value = term.eval(env)?;
        match value.bytes() {
            Some([]) if !matches!(term.ty, CqlType::Blob) => put_string("", &mut out)?,
            value => put(&term.ty, value, &mut out)?,
        }
    }
    out.push('}')?;
    Ok(out.text.into_bytes())
}

/// A value as JSON text.
pub fn json_text(ty: &CqlType, value: Option<&[u8]>) -> Result<String> {
    let mut out = Json::default();
    put(ty, value, &mut out)?;
    Ok(out.text)
}

/// JSON text as it grows, no longer than a cell may be: keys in keys are escaped at each level, which doubles them.
#[derive(Default)]
struct Json<'w> {
    text: String,
    /// What the expressions around it have taken, if that is counted.
    work: Option<&'w ExpressionWork>,
}

impl<'w> Json<'w> {
    fn counted(work: &'w ExpressionWork) -> Json<'w> {
        Json { text: String::new(), work: Some(work) }
    }

    fn push_str(&mut self, piece: &str) -> Result<()> {
        if piece.len() > CELL_BYTES_MAX - self.text.len() {
            let text = format!("the JSON text of a value has more than {CELL_BYTES_MAX} bytes");
            return Err(Error::Invalid(text));
        }
        self.text.push_str(piece);
        Ok(())
    }

    fn push(&mut self, c: char) -> Result<()> {
        self.push_str(c.encode_utf8(&mut [0; 4]))
    }
}

fn put(ty: &CqlType, value: Option<&[u8]>, out: &mut Json) -> Result<()> {
    let Some(value) = value else {
        return out.push_str("null");
    };
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let items = collection_elements(value)?;
            put_list(items.map(|item| Ok((&**element, Some(item?)))), out)
        }
        CqlType::Map { key, value: of, .. } => {
            let mut items = collection_elements(value)?.doubled();
            out.push('{')?;
            let mut first = true;
            while let Some(item) = items.next() {
                comma(&mut first, out)?;
                put_key(key, item?, out)?;
                out.push_str(": ")?;
                let item = items.next().ok_or(model::Error::Malformed("map"))??;
                put(of, Some(item), out)?;
            }
            out.push('}')
        }
        CqlType::Tuple(parts) => {
            let mut fields = tuple_fields(value);
            let items = parts.iter().map(|part| Ok((part, fields.next().transpose()?.flatten())));
            put_list(items, out)
        }
        CqlType::Udt { definition, .. } => {
            let mut fields = tuple_fields(value);
            out.push('{')?;
            let mut first = true;
            for (name, ty) in &definition.fields {
                comma(&mut first, out)?;
                put_string(&json_name(name), out)?;
                out.push_str(": ")?;
                put(ty, fields.next().transpose()?.flatten(), out)?;
            }
            out.push('}')
        }
        CqlType::Vector { element, dimensions } => {
            let items = vector_elements(element, *dimensions, value);
            put_list(items.map(|item| Ok((&**element, Some(item?)))), out)
        }
        ty if ty.is_composite() => {
            Err(Error::Invalid(format!("values of type {ty} have no form in JSON")))
        }
        _ => put_scalar(ty, value, out),
    }
}

fn comma(first: &mut bool, out: &mut Json) -> Result<()> {
    if std::mem::take(first) { Ok(()) } else { out.push_str(", ") }
}

fn put_list<'v>(
    items: impl Iterator<Item = Result<(&'v CqlType, Option<&'v [u8]>)>>,
    out: &mut Json,
) -> Result<()> {
    out.push('[')?;
    let mut first = true;
    for item in items {
        let (ty, value) = item?;
        comma(&mut first, out)?;
        put(ty, value, out)?;
    }
    out.push(']')
}

/// A key of a JSON object is a string, whatever it is in CQL.
fn put_key(ty: &CqlType, value: &[u8], out: &mut Json) -> Result<()> {
    let mut key = Json { text: String::new(), work: out.work };
    put(ty, Some(value), &mut key)?;
    let key = key.text;
    if key.starts_with('"') { out.push_str(&key) } else { put_string(&key, out) }
}

/// A name that is not lower case keeps its quotes inside the string.
fn json_name(name: &str) -> String {
    if name.to_lowercase() != name { format!("\"{name}\"") } else { name.to_owned() }
}

fn put_scalar(ty: &CqlType, value: &[u8], out: &mut Json) -> Result<()> {
    if value.is_empty() && !matches!(ty, CqlType::Text | CqlType::Ascii | CqlType::Blob) {
        return put_string("", out);
    }
    if check_number_bytes(ty, value).is_err() {
        // Its digits would take minutes: the bytes, as of a blob, so that it does not refuse the rows beside it.
        return put_string(&to_text(&CqlType::Blob, value)?, out);
    }
    if let Some(work) = out.work {
        work.take(work_of_number(ty, value))?;
    }
    let is_bare = table::is_number(ty) || *ty == CqlType::Boolean;
    let text = match ty {
        CqlType::Timestamp => {
            let millis = value.try_into().map(i64::from_be_bytes);
            timestamp_text(millis.map_err(|_| model::Error::Malformed("timestamp"))?, ' ')
        }
        _ => to_text(ty, value)?,
    };
    // JSON has no word for these two.
    if is_bare && (text.ends_with("NaN") || text.ends_with("Infinity")) {
        out.push_str("null")
    } else if is_bare {
        out.push_str(&text)
    } else {
        put_string(&text, out)
    }
}

fn put_string(text: &str, out: &mut Json) -> Result<()> {
    out.push('"')?;
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\"")?,
            '\\' => out.push_str("\\\\")?,
            '\n' => out.push_str("\\n")?,
            '\r' => out.push_str("\\r")?,
            '\t' => out.push_str("\\t")?,
            '\u{8}' => out.push_str("\\b")?,
            '\u{c}' => out.push_str("\\f")?,
            // As Jackson does: no other character is escaped, not even those that are control characters of Unicode.
            '\0'..'\u{20}' => out.push_str(&format!("\\u{:04X}", c as u32))?,
            c => out.push(c)?,
        }
    }
    out.push('"')
}

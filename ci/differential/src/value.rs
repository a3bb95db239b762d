//! Values as the model knows them: their types, order, bytes and literals.
//!
//! The order of each type is that of the enum: numbers by their sign and size, text and blobs by bytes, collections
//! element by element, and null before any value inside a tuple.
//!
//! Invariants
//! 1. Sets and maps are sorted as the server must sort them, so that their bytes are those of its answer.
//! 2. `Type::read` of a value's bytes is that value. It is for showing answers; answers are compared by their bytes.
//! 3. A type has few values, so that keys, elements and conditions meet. Among them are the empty text and blob.
//! 4. Each type here is fully described to the client: `Type::is_told` compares what a server says, part by part.
//!
//! Not here: the token of a key (`token.rs`), which version of a cell wins (`cell.rs`), the columns of an answer
//! (`columns.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use cql::frame::Reader;

use crate::draw::Draw;

/// The user type of each keyspace: `CREATE TYPE pair (x int, y text)`.
pub(crate) const PAIR: &str = "CREATE TYPE IF NOT EXISTS pair (x int, y text)";
/// The fields of `pair`.
pub(crate) const FIELDS: [(&str, Type); 2] = [("x", Type::Int), ("y", Type::Text)];

/// A value that is not null.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Boolean(bool),
    Int(i32),
    Bigint(i64),
    Text(String),
    Blob(Vec<u8>),
    List(Vec<Value>),
    Set(BTreeSet<Value>),
    Map(BTreeMap<Value, Value>),
    /// A tuple, or a value of the type `pair`.
    Tuple(Vec<Option<Value>>),
}

/// A type; inside of another one it is frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Boolean,
    Int,
    Bigint,
    Text,
    Blob,
    List(Box<Type>),
    Set(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Tuple(Vec<Type>),
    Pair,
}

/// The types without parts.
pub(crate) const SCALARS: [Type; 5] =
    [Type::Int, Type::Text, Type::Bigint, Type::Boolean, Type::Blob];

impl Type {
    /// Whether a column of this type that is not frozen has cells of its own for its parts.
    pub(crate) fn has_parts(&self) -> bool {
        matches!(self, Type::List(_) | Type::Set(_) | Type::Map(..) | Type::Pair)
    }

    /// Whether `told`, an `[option]` of the protocol, is this type; takes it from there.
    pub(crate) fn is_told(&self, told: &mut Reader<'_>) -> bool {
        self.reads(told).unwrap_or(false)
    }

    /// `None` where it is cut.
    fn reads(&self, told: &mut Reader<'_>) -> Option<bool> {
        let code = told.short().ok()?;
        Some(match (self, code) {
            (Type::Boolean, 0x4) | (Type::Int, 0x9) | (Type::Bigint, 0x2) => true,
            (Type::Text, 0xD) | (Type::Blob, 0x3) => true,
            (Type::List(of), 0x20) | (Type::Set(of), 0x22) => of.is_told(told),
            (Type::Map(key, of), 0x21) => key.is_told(told) && of.is_told(told),
            (Type::Tuple(parts), 0x31) => {
                let count = usize::from(told.short().ok()?);
                count == parts.len() && parts.iter().all(|part| part.is_told(told))
            }
            (Type::Pair, 0x30) => {
                told.string().ok()?;
                let is_pair = told.string().ok()? == "pair";
                let count = usize::from(told.short().ok()?);
                is_pair
                    && count == FIELDS.len()
                    && FIELDS.iter().all(|(name, of)| {
                        told.string().is_ok_and(|told| told == *name) && of.is_told(told)
                    })
            }
            _ => false,
        })
    }

    /// The name in a statement.
    pub(crate) fn name(&self, is_frozen: bool) -> String {
        let inner = |of: &Type| of.name(true);
        let name = match self {
            Type::Boolean => return "boolean".to_owned(),
            Type::Int => return "int".to_owned(),
            Type::Bigint => return "bigint".to_owned(),
            Type::Text => return "text".to_owned(),
            Type::Blob => return "blob".to_owned(),
            Type::Tuple(fields) => {
                let fields: Vec<String> = fields.iter().map(inner).collect();
                return format!("tuple<{}>", fields.join(", "));
            }
            Type::List(of) => format!("list<{}>", inner(of)),
            Type::Set(of) => format!("set<{}>", inner(of)),
            Type::Map(key, of) => format!("map<{}, {}>", inner(key), inner(of)),
            Type::Pair => "pair".to_owned(),
        };
        if is_frozen { format!("frozen<{name}>") } else { name }
    }

    /// The types of the fields of a tuple or of `pair`.
    fn fields(&self) -> Vec<Type> {
        match self {
            Type::Tuple(fields) => fields.clone(),
            Type::Pair => FIELDS.map(|(_, of)| of).to_vec(),
            _ => Vec::new(),
        }
    }

    /// A value out of few, so that equal ones are common.
    pub(crate) fn draw(&self, draw: &mut Draw) -> Value {
        match self {
            Type::Boolean => Value::Boolean(draw.percent(50)),
            Type::Int => Value::Int(*draw.pick(&[-1, 0, 1, 2, 300])),
            Type::Bigint => Value::Bigint(*draw.pick(&[i64::MIN, -7, 0, 1, 1 << 40])),
            Type::Text => Value::Text((*draw.pick(&["", "a", "ab", "b", "é"])).to_owned()),
            Type::Blob => {
                Value::Blob(draw.pick(&[&b""[..], b"\0", b"\x7f", b"\x80", b"\x80\0"]).to_vec())
            }
            Type::List(of) => Value::List((0..draw.below(4)).map(|_| of.draw(draw)).collect()),
            Type::Set(of) => Value::Set((0..draw.below(4)).map(|_| of.draw(draw)).collect()),
            Type::Map(key, of) => {
                Value::Map((0..draw.below(4)).map(|_| (key.draw(draw), of.draw(draw))).collect())
            }
            Type::Tuple(_) | Type::Pair => {
                let field = |of: &Type| (!draw.percent(20)).then(|| of.draw(draw));
                Value::Tuple(self.fields().iter().map(field).collect())
            }
        }
    }

    /// A value for a key: blobs and texts of a partition key are not empty.
    pub(crate) fn draw_key(&self, draw: &mut Draw) -> Value {
        loop {
            match self.draw(draw) {
                Value::Text(text) if text.is_empty() => {}
                Value::Blob(bytes) if bytes.is_empty() => {}
                value => return value,
            }
        }
    }

    /// The value of these bytes, to be shown; `None` if they are not of this type.
    pub(crate) fn read(&self, bytes: &[u8]) -> Option<Value> {
        let mut rest = bytes;
        Some(match self {
            Type::Boolean => Value::Boolean(bytes == [1]),
            Type::Int => Value::Int(i32::from_be_bytes(bytes.try_into().ok()?)),
            Type::Bigint => Value::Bigint(i64::from_be_bytes(bytes.try_into().ok()?)),
            Type::Text => Value::Text(String::from_utf8(bytes.to_vec()).ok()?),
            Type::Blob => Value::Blob(bytes.to_vec()),
            Type::List(of) => {
                let count = int(&mut rest)?;
                Value::List((0..count).map(|_| of.read(part(&mut rest)??)).collect::<Option<_>>()?)
            }
            Type::Set(of) => {
                let count = int(&mut rest)?;
                Value::Set((0..count).map(|_| of.read(part(&mut rest)??)).collect::<Option<_>>()?)
            }
            Type::Map(key, of) => {
                let count = int(&mut rest)?;
                let mut entry =
                    || Some((key.read(part(&mut rest)??)?, of.read(part(&mut rest)??)?));
                Value::Map((0..count).map(|_| entry()).collect::<Option<_>>()?)
            }
            Type::Tuple(_) | Type::Pair => {
                let mut values = Vec::new();
                for field in self.fields() {
                    values.push(match part(&mut rest)? {
                        Some(bytes) => Some(field.read(bytes)?),
                        None => None,
                    });
                }
                Value::Tuple(values)
            }
        })
    }

    /// Bytes of this type as a literal, or in hexadecimal if they are not of it.
    pub(crate) fn show(&self, bytes: Option<&[u8]>) -> String {
        let Some(bytes) = bytes else { return "null".to_owned() };
        match self.read(bytes) {
            Some(value) => value.literal(self),
            None => Value::Blob(bytes.to_vec()).literal(&Type::Blob),
        }
    }
}

fn int(rest: &mut &[u8]) -> Option<i32> {
    let (bytes, after) = rest.split_at_checked(4)?;
    *rest = after;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

/// The next part with its length; the inner `None` is null.
fn part<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let Ok(length) = usize::try_from(int(rest)?) else { return Some(None) };
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(Some(bytes))
}

impl Value {
    /// The bytes on the wire and in a cell.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let count = |count: usize, out: &mut Vec<u8>| out.extend((count as i32).to_be_bytes());
        match self {
            Value::Boolean(value) => out.push(u8::from(*value)),
            Value::Int(value) => out.extend(value.to_be_bytes()),
            Value::Bigint(value) => out.extend(value.to_be_bytes()),
            Value::Text(value) => out.extend(value.as_bytes()),
            Value::Blob(value) => out.extend(value),
            Value::List(values) => {
                count(values.len(), &mut out);
                values.iter().for_each(|value| put_part(Some(value), &mut out));
            }
            Value::Set(values) => {
                count(values.len(), &mut out);
                values.iter().for_each(|value| put_part(Some(value), &mut out));
            }
            Value::Map(entries) => {
                count(entries.len(), &mut out);
                for (key, value) in entries {
                    put_part(Some(key), &mut out);
                    put_part(Some(value), &mut out);
                }
            }
            Value::Tuple(fields) => {
                fields.iter().for_each(|field| put_part(field.as_ref(), &mut out));
            }
        }
        out
    }

    /// The value as a statement writes it.
    pub(crate) fn literal(&self, of: &Type) -> String {
        match (self, of) {
            (Value::Boolean(value), _) => value.to_string(),
            (Value::Int(value), _) => value.to_string(),
            (Value::Bigint(value), _) => value.to_string(),
            (Value::Text(value), _) => format!("'{}'", value.replace('\'', "''")),
            (Value::Blob(value), _) => value.iter().fold("0x".to_owned(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            }),
            (Value::List(values), Type::List(of)) => {
                format!("[{}]", literals(values.iter().map(|value| value.literal(of))))
            }
            (Value::Set(values), Type::Set(of)) => {
                format!("{{{}}}", literals(values.iter().map(|value| value.literal(of))))
            }
            (Value::Map(entries), Type::Map(key, of)) => {
                let entry =
                    |(k, v): (&Value, &Value)| format!("{}: {}", k.literal(key), v.literal(of));
                format!("{{{}}}", literals(entries.iter().map(entry)))
            }
            (Value::Tuple(fields), _) => {
                let show = |(value, of): (&Option<Value>, &Type)| {
                    value.as_ref().map_or("null".to_owned(), |value| value.literal(of))
                };
                let shown = fields.iter().zip(&of.fields()).map(show).collect::<Vec<_>>();
                match of {
                    Type::Pair => {
                        let named = FIELDS.iter().zip(shown);
                        format!(
                            "{{{}}}",
                            literals(named.map(|((name, _), text)| format!("{name}: {text}")))
                        )
                    }
                    _ => format!("({})", shown.join(", ")),
                }
            }
            (value, of) => unreachable!("{value:?} is no {of:?}"),
        }
    }
}

fn literals(of: impl Iterator<Item = String>) -> String {
    of.collect::<Vec<_>>().join(", ")
}

fn put_part(value: Option<&Value>, out: &mut Vec<u8>) {
    match value {
        None => out.extend((-1i32).to_be_bytes()),
        Some(value) => {
            let bytes = value.bytes();
            out.extend((bytes.len() as i32).to_be_bytes());
            out.extend(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: of the columns of an answer only their number was compared.
    #[test]
    fn a_type_is_told_as_the_protocol_writes_it() {
        let of_int = Type::List(Box::new(Type::Int));
        let told = |of: &Type, bytes: &[u8]| of.is_told(&mut Reader::new(bytes));
        assert!(told(&Type::Blob, &[0, 3]) && !told(&Type::Blob, &[0, 13]));
        assert!(told(&of_int, &[0, 0x20, 0, 9]) && !told(&of_int, &[0, 0x22, 0, 9]));
        assert!(!told(&of_int, &[0, 0x20, 0, 2]) && !told(&of_int, &[0, 0x20]));
        let pair = b"\0\x30\0\x01k\0\x04pair\0\x02\0\x01x\0\x09\0\x01y\0\x0d";
        assert!(told(&Type::Pair, pair) && !told(&Type::Pair, &pair[..pair.len() - 1]));
        let tuple = Type::Tuple(vec![Type::Int, Type::Text]);
        assert!(
            told(&tuple, &[0, 0x31, 0, 2, 0, 9, 0, 13]) && !told(&tuple, &[0, 0x31, 0, 1, 0, 9])
        );
    }

    #[test]
    fn bytes_are_read_back() {
        let mut draw = Draw::new(1);
        let map = Type::Map(Box::new(Type::Text), Box::new(Type::List(Box::new(Type::Int))));
        for of in [
            map,
            Type::Pair,
            Type::Tuple(vec![Type::Blob, Type::Bigint]),
            Type::Set(Box::new(Type::Text)),
        ] {
            for _ in 0..50 {
                let value = of.draw(&mut draw);
                assert_eq!(of.read(&value.bytes()), Some(value));
            }
        }
    }
}

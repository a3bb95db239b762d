//! Values of CQL as values of Lua, and back: ScyllaDB's mapping (`docs/dev/lua-type-mapping.md` there).
//!
//! ```text
//! ascii, text, varchar, blob                a text of any bytes      uuid, inet    a text
//! tinyint .. bigint, counter, date, time,   an integer               boolean       a boolean
//!   timestamp                                                        float, double a float
//! varint, decimal                           a `LongNumber`           duration      { months, days, .. }
//! list, tuple, vector                       { a, b }                 set           { [a] = true, [b] = true }
//! map                                       { [k] = v }              user type     { field = v }
//! ```
//!
//! 1. A date is days since 1970 and 2^31, a time nanoseconds since midnight, a timestamp milliseconds since 1970. Back,
//!    all three may be texts as in CQL, and a date and a timestamp tables as those of Lua's `os.date`.
//! 2. Numbers and texts of numbers are one thing on the way back; one that is too long for an integer of CQL wraps.
//! 3. The empty value of a type that is no text is nil.
//! 4. A result is written into one buffer, of which each byte counts, and each of its values is a look at the time: a
//!    table may hold the same long text, or the same table, a thousand times.
//!
//! Sets and maps are put into order with those of the other language (`lib.rs`).

use std::rc::Rc;

use cql::literal::{Civil, Decimal, Duration, EPOCH_DAYS_BIAS, days_of_civil, from_text, to_text};
use mlua::{IntoLua, Lua, Result, Table, Value};
use model::CqlType;
use model::types::{collection_elements, put_vector_element, tuple_fields, vector_elements};
use num_bigint::BigInt;

use super::number::{
    LongNumber, Number, check_length, float, number, of_integer, shown_number, whole,
};
use super::shown;
use crate::Failed;
use crate::budget::Budget;
use crate::limits::{NUMBER_TEXT_BYTES_MAX, RESULT_BYTES_MAX};

/// Longest part of a key that an error shows.
const KEY_CHARS_SHOWN: usize = 100;

/// A value in Lua.
pub(super) fn to_lua(
    lua: &Lua,
    budget: &Rc<Budget>,
    ty: &CqlType,
    value: Option<&[u8]>,
) -> Result<Value> {
    let Some(value) = value else { return Ok(Value::Nil) };
    let broken = |error: &dyn ToString| mlua::Error::runtime(error.to_string());
    if value.is_empty() && !ty.has_empty_value() {
        return Ok(Value::Nil);
    }
    Ok(match ty {
        CqlType::Text | CqlType::Ascii | CqlType::Blob => Value::String(lua.create_string(value)?),
        CqlType::Boolean => Value::Boolean(value != [0]),
        CqlType::Tinyint | CqlType::Smallint | CqlType::Int | CqlType::Bigint => {
            Value::Integer(integer(value))
        }
        CqlType::Counter | CqlType::Time | CqlType::Timestamp => Value::Integer(integer(value)),
        CqlType::Date => Value::Integer(integer(value) & 0xFFFF_FFFF),
        CqlType::Float => {
            let number =
                value.try_into().map(f32::from_be_bytes).map_err(|error| broken(&error))?;
            Value::Number(number.into())
        }
        CqlType::Double => {
            let number =
                value.try_into().map(f64::from_be_bytes).map_err(|error| broken(&error))?;
            Value::Number(number)
        }
        CqlType::Varint => long(lua, budget, of_integer(BigInt::from_signed_bytes_be(value)))?,
        CqlType::Decimal => {
            let decimal = Decimal::from_bytes(value).ok_or_else(|| broken(&"no decimal"))?;
            long(lua, budget, decimal)?
        }
        CqlType::Duration => {
            let duration = Duration::from_bytes(value).ok_or_else(|| broken(&"no duration"))?;
            let table = lua.create_table()?;
            table.raw_set("months", duration.months)?;
            table.raw_set("days", duration.days)?;
            table.raw_set("nanoseconds", duration.nanos)?;
            Value::Table(table)
        }
        ty if ty.is_composite() => Value::String(lua.create_string(value)?),
        CqlType::Inet | CqlType::Uuid | CqlType::Timeuuid | CqlType::Custom(_) => {
            let text = to_text(ty, value).map_err(|error| broken(&error))?;
            Value::String(lua.create_string(text)?)
        }
        _ => Value::Table(table_of(lua, budget, ty, value)?),
    })
}

/// A collection, a tuple, a vector or a user type.
fn table_of(lua: &Lua, budget: &Rc<Budget>, ty: &CqlType, value: &[u8]) -> Result<Table> {
    let table = lua.create_table()?;
    let broken = |error: model::Error| mlua::Error::runtime(error.to_string());
    match ty {
        CqlType::List { element, .. } => {
            for item in collection_elements(value).map_err(broken)? {
                table.raw_push(to_lua(lua, budget, element, Some(item.map_err(broken)?))?)?;
            }
        }
        CqlType::Vector { element, dimensions } => {
            for item in vector_elements(element, *dimensions, value) {
                table.raw_push(to_lua(lua, budget, element, Some(item.map_err(broken)?))?)?;
            }
        }
        CqlType::Set { element, .. } => {
            for item in collection_elements(value).map_err(broken)? {
                set(
                    &table,
                    to_lua(lua, budget, element, Some(item.map_err(broken)?))?,
                    Value::Boolean(true),
                )?;
            }
        }
        CqlType::Map { key, value: of, .. } => {
            let mut items = collection_elements(value).map_err(broken)?.doubled();
            while let (Some(k), Some(v)) = (items.next(), items.next()) {
                let v = to_lua(lua, budget, of, Some(v.map_err(broken)?))?;
                set(&table, to_lua(lua, budget, key, Some(k.map_err(broken)?))?, v)?;
            }
        }
        CqlType::Tuple(parts) => {
            for (index, (part, field)) in parts.iter().zip(tuple_fields(value)).enumerate() {
                table.raw_set(index + 1, to_lua(lua, budget, part, field.map_err(broken)?)?)?;
            }
        }
        CqlType::Udt { definition, .. } => {
            for ((name, part), field) in definition.fields.iter().zip(tuple_fields(value)) {
                table.raw_set(name.as_str(), to_lua(lua, budget, part, field.map_err(broken)?)?)?;
            }
        }
        _ => return Err(mlua::Error::runtime(format!("a {ty} has no parts"))),
    }
    Ok(table)
}

/// Sets an entry; Lua has no key that is nil or no number.
fn set(table: &Table, key: Value, value: Value) -> Result<()> {
    if matches!(key, Value::Nil) || matches!(key, Value::Number(number) if number.is_nan()) {
        return Err(mlua::Error::runtime("a key is null or no number, which no table of Lua has"));
    }
    table.raw_set(key, value)
}

fn long(lua: &Lua, budget: &Rc<Budget>, decimal: Decimal) -> Result<Value> {
    lua.create_userdata(LongNumber::given(decimal, budget)).map(Value::UserData)
}

fn integer(value: &[u8]) -> i64 {
    let negative = value.first().is_some_and(|first| *first >= 0x80);
    value.iter().fold(if negative { -1 } else { 0 }, |sum, byte| sum << 8 | i64::from(*byte))
}

/// A value of Lua as one of a type, in wire form; `None` is null.
pub(super) fn from_lua(
    lua: &Lua,
    budget: &Budget,
    ty: &CqlType,
    value: &Value,
) -> std::result::Result<Option<Vec<u8>>, Failed> {
    let mut writer = Writer { lua, budget, out: Vec::new() };
    Ok(writer.value(ty, value)?.then_some(writer.out))
}

/// A result on its way into wire form.
struct Writer<'w> {
    lua: &'w Lua,
    budget: &'w Budget,
    out: Vec<u8>,
}

impl Writer<'_> {
    /// Appends a value; of null nothing, and the answer is no.
    fn value(&mut self, ty: &CqlType, value: &Value) -> std::result::Result<bool, Failed> {
        self.budget.check_time()?;
        match ty {
            _ if matches!(value, Value::Nil) => return Ok(false),
            ty if ty.has_empty_value() => match value {
                Value::String(text) => self.bytes(&text.as_bytes())?,
                _ => self.bytes(&text(self.lua, value)?)?,
            },
            CqlType::List { .. }
            | CqlType::Vector { .. }
            | CqlType::Tuple(_)
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Udt { .. } => {
                let Value::Table(table) = value else {
                    return Err("value is not a table".to_owned());
                };
                self.parts(ty, table)?;
            }
            _ => self.bytes(&scalar(self.lua, ty, value)?)?,
        }
        Ok(true)
    }

    fn bytes(&mut self, bytes: &[u8]) -> std::result::Result<(), Failed> {
        if self.out.len() + bytes.len() > RESULT_BYTES_MAX {
            return Err(format!("the result has more than {RESULT_BYTES_MAX} bytes"));
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends a value behind its length, which is -1 of null.
    fn field(&mut self, ty: &CqlType, value: &Value) -> std::result::Result<bool, Failed> {
        let start = self.out.len();
        self.bytes(&(-1_i32).to_be_bytes())?;
        let is_there = self.value(ty, value)?;
        if is_there {
            let length = (self.out.len() - start - 4) as i32;
            self.out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        Ok(is_there)
    }

    /// Appends a value behind its length, where none may be null.
    fn item(&mut self, ty: &CqlType, value: &Value) -> std::result::Result<(), Failed> {
        match self.field(ty, value)? {
            true => Ok(()),
            false => Err(NULL_INSIDE.to_owned()),
        }
    }

    /// Appends an element of a vector.
    fn element(&mut self, ty: &CqlType, value: &Value) -> std::result::Result<(), Failed> {
        let start = self.out.len();
        if !self.value(ty, value)? {
            return Err(NULL_INSIDE.to_owned());
        }
        let element = self.out.split_off(start);
        put_vector_element(ty, &element, &mut self.out);
        Ok(())
    }

    /// Appends a value that is made of others.
    fn parts(&mut self, ty: &CqlType, table: &Table) -> std::result::Result<(), Failed> {
        match ty {
            CqlType::List { element, .. } => {
                let length = self.sequence_length(table)?;
                self.bytes(&(length as i32).to_be_bytes())?;
                (1..=length).try_for_each(|index| self.item(element, &at(table, index)?))
            }
            CqlType::Vector { element, dimensions } => {
                let length = self.sequence_length(table)?;
                if length != i64::from(*dimensions) {
                    return Err(format!("a sequence of {length} values is no {ty}"));
                }
                (1..=length).try_for_each(|index| self.element(element, &at(table, index)?))
            }
            CqlType::Tuple(types) => {
                let size = types.len() as i64;
                self.each_entry(table, |_, key, _| match key {
                    Value::Integer(index) if (1..=size).contains(index) => Ok(()),
                    other => {
                        let key = key_text(other);
                        Err(format!("key {key} is not valid for a sequence of size {size}"))
                    }
                })?;
                for (ty, index) in types.iter().zip(1..) {
                    self.field(ty, &at(table, index)?)?;
                }
                Ok(())
            }
            CqlType::Set { element, .. } => self.counted(table, |writer, key, value| {
                if matches!(value, Value::Boolean(false)) {
                    return Err("sets are represented with tables with true values".to_owned());
                }
                writer.item(element, key)
            }),
            CqlType::Map { key: of_key, value: of_value, .. } => {
                self.counted(table, |writer, key, value| {
                    writer.item(of_key, key)?;
                    writer.item(of_value, value)
                })
            }
            CqlType::Udt { definition, .. } => {
                self.each_entry(table, |_, key, _| {
                    let Value::String(key) = key else {
                        return Err("invalid UDT field".to_owned());
                    };
                    let is_it = |(name, _): &(String, CqlType)| name.as_bytes() == &*key.as_bytes();
                    match definition.fields.iter().any(is_it) {
                        true => Ok(()),
                        false => Err(format!("invalid UDT field '{}'", key.to_string_lossy())),
                    }
                })?;
                for (name, ty) in &definition.fields {
                    self.field(ty, &at(table, name.as_str())?)?;
                }
                Ok(())
            }
            _ => Err(format!("a {ty} has no parts")),
        }
    }

    /// Appends entries in the order of the table, and before them how many there are.
    fn counted(
        &mut self,
        table: &Table,
        mut put: impl FnMut(&mut Self, &Value, &Value) -> std::result::Result<(), Failed>,
    ) -> std::result::Result<(), Failed> {
        let (start, mut count) = (self.out.len(), 0_i32);
        self.bytes(&count.to_be_bytes())?;
        self.each_entry(table, |writer, key, value| {
            count += 1;
            put(writer, key, value)
        })?;
        self.out[start..start + 4].copy_from_slice(&count.to_be_bytes());
        Ok(())
    }

    fn each_entry(
        &mut self,
        table: &Table,
        mut take: impl FnMut(&mut Self, &Value, &Value) -> std::result::Result<(), Failed>,
    ) -> std::result::Result<(), Failed> {
        each_entry(table, |key, value| {
            self.budget.check_time()?;
            take(self, key, value)
        })
    }

    /// How many values a table has whose keys are 1, 2, 3 and so on.
    fn sequence_length(&mut self, table: &Table) -> std::result::Result<i64, Failed> {
        let (mut count, mut last) = (0, 0);
        self.each_entry(table, |_, key, _| match key {
            Value::Integer(index) if *index > 0 => {
                (count, last) = (count + 1, last.max(*index));
                Ok(())
            }
            _ => Err("table is not a sequence".to_owned()),
        })?;
        if count != last { Err("table is not a sequence".to_owned()) } else { Ok(count) }
    }
}

const NULL_INSIDE: &str = "null is not supported inside collections";

/// What a table holds, whatever its metatable says.
fn at(table: &Table, key: impl IntoLua) -> std::result::Result<Value, Failed> {
    table.raw_get(key).map_err(|error| shown(&error))
}

/// A key as errors show it.
fn key_text(key: &Value) -> String {
    match key {
        Value::Integer(key) => key.to_string(),
        Value::Number(key) => key.to_string(),
        Value::String(key) => key.to_string_lossy().chars().take(KEY_CHARS_SHOWN).collect(),
        other => format!("of type {}", other.type_name()),
    }
}

/// A value that is neither a text nor made of others.
fn scalar(lua: &Lua, ty: &CqlType, value: &Value) -> std::result::Result<Vec<u8>, Failed> {
    Ok(match ty {
        CqlType::Inet | CqlType::Uuid | CqlType::Timeuuid => parsed(ty, &text(lua, value)?)?,
        CqlType::Boolean => match value {
            Value::Boolean(yes) => vec![u8::from(*yes)],
            _ => vec![1],
        },
        CqlType::Tinyint => wrapped(value, 1)?,
        CqlType::Smallint => wrapped(value, 2)?,
        CqlType::Int => wrapped(value, 4)?,
        CqlType::Bigint | CqlType::Counter => wrapped(value, 8)?,
        CqlType::Varint => whole_number(value)?.to_signed_bytes_be(),
        CqlType::Decimal => match number(value).ok_or("value is not a number")? {
            Number::Exact(decimal) => decimal.to_bytes(),
            Number::Float(_) => return Err("value is not a decimal".to_owned()),
        },
        CqlType::Float => (as_float(value)? as f32).to_be_bytes().to_vec(),
        CqlType::Double => as_float(value)?.to_be_bytes().to_vec(),
        CqlType::Date | CqlType::Time | CqlType::Timestamp => moment(ty, value)?,
        CqlType::Duration => duration(value)?,
        _ => return Err(format!("a {ty} is not made of a value of Lua")),
    })
}

/// A text, or a number as one.
fn text(lua: &Lua, value: &Value) -> std::result::Result<Vec<u8>, Failed> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::UserData(_) => match number(value) {
            Some(Number::Exact(decimal)) => {
                Ok(shown_number(&decimal).map_err(|error| shown(&error))?.into_bytes())
            }
            _ => Err("unexpected value".to_owned()),
        },
        Value::Integer(_) | Value::Number(_) => {
            let text = lua.coerce_string(value.clone()).map_err(|error| shown(&error))?;
            Ok(text.ok_or("unexpected value")?.as_bytes().to_vec())
        }
        _ => Err("unexpected value".to_owned()),
    }
}

/// The value of a type that a text is in CQL.
fn parsed(ty: &CqlType, text: &[u8]) -> std::result::Result<Vec<u8>, Failed> {
    if text.len() > NUMBER_TEXT_BYTES_MAX {
        return Err(format!("a text of {} bytes is no {ty}", text.len()));
    }
    let text = std::str::from_utf8(text).map_err(|_| format!("the text of a {ty} is not UTF-8"))?;
    from_text(text, ty).map_err(|error| error.to_string())
}

fn whole_number(value: &Value) -> std::result::Result<BigInt, Failed> {
    match number(value).ok_or("value is not a number")? {
        Number::Exact(decimal) => {
            if decimal.scale != 0 {
                check_length(&decimal).map_err(|error| shown(&error))?;
            }
            whole(&decimal).ok_or_else(|| "value is not an integer".to_owned())
        }
        Number::Float(_) => Err("value is not an integer".to_owned()),
    }
}

/// The last bytes of a whole number: one that is too large wraps.
fn wrapped(value: &Value, bytes: usize) -> std::result::Result<Vec<u8>, Failed> {
    let number = whole_number(value)?;
    let all = number.to_signed_bytes_be();
    let sign = if number.sign() == num_bigint::Sign::Minus { 0xFF } else { 0 };
    let mut out = vec![sign; bytes.saturating_sub(all.len())];
    out.extend_from_slice(&all[all.len().saturating_sub(bytes)..]);
    Ok(out)
}

/// The float that a value is: of those that are no number always the same.
fn as_float(value: &Value) -> std::result::Result<f64, Failed> {
    match value {
        Value::Number(number) if number.is_nan() => Ok(f64::NAN),
        Value::Number(number) => Ok(*number),
        _ => match number(value).ok_or("value is not a number")? {
            Number::Exact(decimal) => float(&decimal).map_err(|error| shown(&error)),
            Number::Float(float) => Ok(float),
        },
    }
}

/// A date, a time or a timestamp.
fn moment(ty: &CqlType, value: &Value) -> std::result::Result<Vec<u8>, Failed> {
    if let Value::Table(table) = value
        && *ty != CqlType::Time
    {
        return of_calendar(ty, table);
    }
    match number(value) {
        Some(Number::Exact(decimal)) => {
            let number = whole(&decimal).ok_or_else(|| format!("{ty} value is no integer"))?;
            if *ty == CqlType::Date {
                let days = u32::try_from(&number);
                let days = days.map_err(|_| "date value must fit in 32 bits".to_owned())?;
                return Ok(days.to_be_bytes().to_vec());
            }
            let number = i64::try_from(&number);
            let number = number.map_err(|_| format!("{ty} value must fit in signed 64 bits"))?;
            Ok(number.to_be_bytes().to_vec())
        }
        _ => match value {
            Value::String(text) => parsed(ty, &text.as_bytes()),
            _ => Err(format!("{ty} must be a string, integer or date table")),
        },
    }
}

/// `{year = .., month = .., day = ..}`, of a timestamp `hour`, `min` and `sec`, too: noon, if they are not there.
fn of_calendar(ty: &CqlType, table: &Table) -> std::result::Result<Vec<u8>, Failed> {
    let mut fields: [Option<i64>; 6] = [None; 6];
    const NAMES: [&str; 6] = ["year", "month", "day", "hour", "min", "sec"];
    each_entry(table, |key, value| {
        let Value::String(key) = key else { return Err("invalid date table field".to_owned()) };
        let key = key.to_string_lossy();
        let index = NAMES.iter().position(|name| *name == key);
        let index = index.ok_or_else(|| format!("invalid date table field: '{key}'"))?;
        let number = i32::try_from(whole_number(value)?);
        fields[index] = Some(number.map_err(|_| format!("{key} is too large"))?.into());
        Ok(())
    })?;
    let [Some(year), Some(month), Some(day), hour, minute, second] = fields else {
        return Err("date table must have year, month and day".to_owned());
    };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year.abs() > 5_000_000 {
        return Err("date table has no such day".to_owned());
    }
    let days = days_of_civil(Civil { year, month, day });
    if *ty == CqlType::Date {
        if hour.or(minute).or(second).is_some() {
            return Err("date type has no hour, minute or second".to_owned());
        }
        let days =
            u32::try_from(days + EPOCH_DAYS_BIAS).map_err(|_| "date is too large".to_owned())?;
        return Ok(days.to_be_bytes().to_vec());
    }
    let seconds = hour.unwrap_or(12) * 3600 + minute.unwrap_or(0) * 60 + second.unwrap_or(0);
    Ok(((days * 86_400 + seconds) * 1000).to_be_bytes().to_vec())
}

fn duration(value: &Value) -> std::result::Result<Vec<u8>, Failed> {
    let table = match value {
        Value::Table(table) => table,
        Value::String(text) => return parsed(&CqlType::Duration, &text.as_bytes()),
        _ => {
            return Err(
                "a duration must be of the form { months = v1, days = v2, nanoseconds = v3 }"
                    .to_owned(),
            );
        }
    };
    let mut made = Duration { months: 0, days: 0, nanos: 0 };
    each_entry(table, |key, value| {
        let Value::String(key) = key else { return Err("invalid duration field".to_owned()) };
        let (key, number) = (key.to_string_lossy(), whole_number(value)?);
        let too_large = |bits| format!("{number} {key} doesn't fit in a {bits} bit integer");
        match key.as_str() {
            "months" => made.months = i32::try_from(&number).map_err(|_| too_large(32))?,
            "days" => made.days = i32::try_from(&number).map_err(|_| too_large(32))?,
            "nanoseconds" => made.nanos = i64::try_from(&number).map_err(|_| too_large(64))?,
            _ => return Err(format!("invalid duration field: '{key}'")),
        }
        Ok(())
    })?;
    Ok(made.to_bytes())
}

fn each_entry(
    table: &Table,
    mut take: impl FnMut(&Value, &Value) -> std::result::Result<(), Failed>,
) -> std::result::Result<(), Failed> {
    for entry in table.pairs::<Value, Value>() {
        let (key, value) = entry.map_err(|error| shown(&error))?;
        take(&key, &value)?;
    }
    Ok(())
}

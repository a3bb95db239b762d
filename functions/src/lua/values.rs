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

use cql::expr::put_list;
use cql::literal::{Civil, Decimal, Duration, EPOCH_DAYS_BIAS, days_of_civil, from_text, to_text};
use mlua::{Lua, Result, Table, Value};
use model::CqlType;
use model::types::{collection_elements, put_vector_element, tuple_fields, vector_elements};
use num_bigint::BigInt;

use super::number::{LongNumber, Number, float, number, of_integer, whole};
use super::shown;
use crate::Failed;

/// A value in Lua.
pub(super) fn to_lua(lua: &Lua, ty: &CqlType, value: Option<&[u8]>) -> Result<Value> {
    let Some(value) = value else { return Ok(Value::Nil) };
    let broken = |error: &dyn ToString| mlua::Error::runtime(error.to_string());
    let is_text = matches!(ty, CqlType::Text | CqlType::Ascii | CqlType::Blob);
    if value.is_empty() && !is_text {
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
        CqlType::Varint => long(lua, of_integer(BigInt::from_signed_bytes_be(value)))?,
        CqlType::Decimal => {
            let decimal = Decimal::from_bytes(value).ok_or_else(|| broken(&"no decimal"))?;
            long(lua, decimal)?
        }
        CqlType::Duration => {
            let duration = Duration::from_bytes(value).ok_or_else(|| broken(&"no duration"))?;
            let table = lua.create_table()?;
            table.raw_set("months", duration.months)?;
            table.raw_set("days", duration.days)?;
            table.raw_set("nanoseconds", duration.nanos)?;
            Value::Table(table)
        }
        CqlType::Inet | CqlType::Uuid | CqlType::Timeuuid => {
            let text = to_text(ty, value).map_err(|error| broken(&error))?;
            Value::String(lua.create_string(text)?)
        }
        _ => Value::Table(table_of(lua, ty, value)?),
    })
}

/// A collection, a tuple, a vector or a user type.
fn table_of(lua: &Lua, ty: &CqlType, value: &[u8]) -> Result<Table> {
    let table = lua.create_table()?;
    let broken = |error: model::Error| mlua::Error::runtime(error.to_string());
    match ty {
        CqlType::List { element, .. } => {
            for item in collection_elements(value).map_err(broken)? {
                table.raw_push(to_lua(lua, element, Some(item.map_err(broken)?))?)?;
            }
        }
        CqlType::Vector { element, dimensions } => {
            for item in vector_elements(element, *dimensions, value) {
                table.raw_push(to_lua(lua, element, Some(item.map_err(broken)?))?)?;
            }
        }
        CqlType::Set { element, .. } => {
            for item in collection_elements(value).map_err(broken)? {
                set(
                    &table,
                    to_lua(lua, element, Some(item.map_err(broken)?))?,
                    Value::Boolean(true),
                )?;
            }
        }
        CqlType::Map { key, value: of, .. } => {
            let mut items = collection_elements(value).map_err(broken)?.doubled();
            while let (Some(k), Some(v)) = (items.next(), items.next()) {
                let v = to_lua(lua, of, Some(v.map_err(broken)?))?;
                set(&table, to_lua(lua, key, Some(k.map_err(broken)?))?, v)?;
            }
        }
        CqlType::Tuple(parts) => {
            for (index, (part, field)) in parts.iter().zip(tuple_fields(value)).enumerate() {
                table.raw_set(index + 1, to_lua(lua, part, field.map_err(broken)?)?)?;
            }
        }
        CqlType::Udt { definition, .. } => {
            for ((name, part), field) in definition.fields.iter().zip(tuple_fields(value)) {
                table.raw_set(name.as_str(), to_lua(lua, part, field.map_err(broken)?)?)?;
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

fn long(lua: &Lua, decimal: Decimal) -> Result<Value> {
    lua.create_userdata(LongNumber(decimal)).map(Value::UserData)
}

fn integer(value: &[u8]) -> i64 {
    let negative = value.first().is_some_and(|first| *first >= 0x80);
    value.iter().fold(if negative { -1 } else { 0 }, |sum, byte| sum << 8 | i64::from(*byte))
}

/// A value of Lua as one of a type, in wire form; `None` is null.
pub(super) fn from_lua(
    lua: &Lua,
    ty: &CqlType,
    value: &Value,
) -> std::result::Result<Option<Vec<u8>>, Failed> {
    if matches!(value, Value::Nil) {
        return Ok(None);
    }
    Ok(Some(match ty {
        CqlType::Text | CqlType::Ascii | CqlType::Blob => text(lua, value)?,
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
        _ => parts(lua, ty, value)?,
    }))
}

/// A text, or a number as one.
fn text(lua: &Lua, value: &Value) -> std::result::Result<Vec<u8>, Failed> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::UserData(_) => match number(value) {
            Some(Number::Exact(decimal)) => Ok(decimal.to_string().into_bytes()),
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
    let text = std::str::from_utf8(text).map_err(|_| format!("the text of a {ty} is not UTF-8"))?;
    from_text(text, ty).map_err(|error| error.to_string())
}

fn whole_number(value: &Value) -> std::result::Result<BigInt, Failed> {
    match number(value).ok_or("value is not a number")? {
        Number::Exact(decimal) => {
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

fn as_float(value: &Value) -> std::result::Result<f64, Failed> {
    Ok(match number(value).ok_or("value is not a number")? {
        Number::Exact(decimal) => float(&decimal),
        Number::Float(float) => float,
    })
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

/// A value that is made of others.
fn parts(lua: &Lua, ty: &CqlType, value: &Value) -> std::result::Result<Vec<u8>, Failed> {
    let Value::Table(table) = value else { return Err("value is not a table".to_owned()) };
    let inner = |ty: &CqlType, value: &Value| {
        let made = from_lua(lua, ty, value)?;
        made.ok_or_else(|| "null is not supported inside collections".to_owned())
    };
    let mut out = Vec::new();
    match ty {
        CqlType::List { element, .. } => {
            let items = sequence(table)?;
            let items = items.iter().map(|item| inner(element, item));
            let items = items.collect::<std::result::Result<Vec<_>, _>>()?;
            put_list(items.iter().map(Vec::as_slice), &mut out);
        }
        CqlType::Vector { element, dimensions } => {
            let items = sequence(table)?;
            if items.len() != *dimensions as usize {
                let length = items.len();
                return Err(format!("a sequence of {length} values is no {ty}"));
            }
            for item in items {
                put_vector_element(element, &inner(element, &item)?, &mut out);
            }
        }
        CqlType::Tuple(types) => {
            for (ty, item) in types.iter().zip(places(table, types.len())?) {
                put_field(from_lua(lua, ty, &item)?, &mut out);
            }
        }
        CqlType::Set { element, .. } => {
            let mut items = Vec::new();
            each_entry(table, |key, value| {
                if matches!(value, Value::Boolean(false)) {
                    return Err("sets are represented with tables with true values".to_owned());
                }
                items.push(inner(element, key)?);
                Ok(())
            })?;
            items.sort_by(|a, b| element.compare(a, b));
            items.dedup_by(|a, b| element.compare(a, b).is_eq());
            put_list(items.iter().map(Vec::as_slice), &mut out);
        }
        CqlType::Map { key: of_key, value: of_value, .. } => {
            let mut entries = Vec::new();
            each_entry(table, |key, value| {
                entries.push((inner(of_key, key)?, inner(of_value, value)?));
                Ok(())
            })?;
            entries.sort_by(|a, b| of_key.compare(&a.0, &b.0));
            entries.dedup_by(|a, b| of_key.compare(&a.0, &b.0).is_eq());
            out.extend_from_slice(&(entries.len() as i32).to_be_bytes());
            for (key, value) in entries {
                put_field(Some(key), &mut out);
                put_field(Some(value), &mut out);
            }
        }
        CqlType::Udt { definition, .. } => {
            let mut fields: Vec<Option<Vec<u8>>> = vec![None; definition.fields.len()];
            each_entry(table, |key, value| {
                let Value::String(key) = key else { return Err("invalid UDT field".to_owned()) };
                let key = key.to_string_lossy();
                let index = definition.fields.iter().position(|(name, _)| *name == key);
                let index = index.ok_or_else(|| format!("invalid UDT field '{key}'"))?;
                fields[index] = from_lua(lua, &definition.fields[index].1, value)?;
                Ok(())
            })?;
            fields.into_iter().for_each(|field| put_field(field, &mut out));
        }
        _ => return Err(format!("a {ty} has no parts")),
    }
    Ok(out)
}

fn put_field(field: Option<Vec<u8>>, out: &mut Vec<u8>) {
    let length = field.as_ref().map_or(-1, |field| field.len() as i32);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(field.as_deref().unwrap_or_default());
}

/// The values of a table whose keys are 1, 2, 3 and so on.
fn sequence(table: &Table) -> std::result::Result<Vec<Value>, Failed> {
    let mut items: Vec<(BigInt, Value)> = Vec::new();
    each_entry(table, |key, value| {
        items.push((whole_number(key)?, value.clone()));
        Ok(())
    })?;
    items.sort_by(|a, b| a.0.cmp(&b.0));
    let in_order = items.iter().zip(1_u64..).all(|((key, _), index)| *key == index.into());
    if !in_order {
        return Err("table is not a sequence".to_owned());
    }
    Ok(items.into_iter().map(|(_, value)| value).collect())
}

/// The values of a table for so many places; what is not there is nil.
fn places(table: &Table, length: usize) -> std::result::Result<Vec<Value>, Failed> {
    let mut all = vec![Value::Nil; length];
    each_entry(table, |key, value| {
        let key = whole_number(key)?;
        let index = usize::try_from(&key).ok().and_then(|index| index.checked_sub(1));
        let place = index.and_then(|index| all.get_mut(index));
        *place
            .ok_or_else(|| format!("key {key} is not valid for a sequence of size {length}"))? =
            value.clone();
        Ok(())
    })?;
    Ok(all)
}

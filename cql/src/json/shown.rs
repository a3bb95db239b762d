//! JSON as errors show it: as the Java object that Cassandra makes of it.
//!
//! ```text
//! 1 Integer   1.5 Double   "a" String a   [1, "a"] ArrayList [1, a]   {"a": 1} LinkedHashMap {a=1}
//! ```

use std::borrow::Cow;

use model::CqlType;
use serde_json::Value;

use crate::limits::JSON_SHOWN_BYTES_MAX;
use crate::literal::to_text;

/// A text as an error shows it: of a long one the beginning.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    let end = text.floor_char_boundary(JSON_SHOWN_BYTES_MAX);
    if end == text.len() { text.into() } else { format!("{}...", &text[..end]).into() }
}

/// The class of a JSON value in Java, and the value as Java writes it; of a long one the beginning.
pub(super) fn shown(raw: &str) -> String {
    if raw.len() > JSON_SHOWN_BYTES_MAX {
        let class = match raw.as_bytes()[0] {
            b'[' => "ArrayList",
            b'{' => "LinkedHashMap",
            b'"' => "String",
            _ => "BigInteger",
        };
        return format!("{class}: {}", cut(raw));
    }
    match serde_json::from_str(raw) {
        Ok(value) => format!("{}: {}", class(&value, raw), text(&value, raw)),
        Err(_) => format!("String: {raw}"),
    }
}

/// The value as Java writes it.
pub(super) fn shown_text(raw: &str) -> String {
    match shown(raw).split_once(": ") {
        Some((_, text)) => text.to_owned(),
        None => raw.to_owned(),
    }
}

fn class(value: &Value, raw: &str) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "Boolean",
        Value::String(_) => "String",
        Value::Array(_) => "ArrayList",
        Value::Object(_) => "LinkedHashMap",
        Value::Number(_) if raw.contains(['.', 'e', 'E']) => "Double",
        Value::Number(number) => match number.as_i64() {
            Some(long) if i32::try_from(long).is_ok() => "Integer",
            Some(_) => "Long",
            None => "BigInteger",
        },
    }
}

fn text(value: &Value, raw: &str) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(|item| text(item, &item.to_string())).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entry = |(name, value): (&String, &Value)| {
                format!("{name}={}", text(value, &value.to_string()))
            };
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Number(number) if raw.contains(['.', 'e', 'E']) => {
            let double = number.as_f64().unwrap_or(f64::INFINITY).to_be_bytes();
            to_text(&CqlType::Double, &double).unwrap_or_else(|_| raw.to_owned())
        }
        _ => raw.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_java_shows_them() {
        for (raw, expected) in [
            ("1", "Integer: 1"),
            ("99999999999", "Long: 99999999999"),
            ("99999999999999999999", "BigInteger: 99999999999999999999"),
            ("1e3", "Double: 1000.0"),
            ("true", "Boolean: true"),
            ("\"a\\u00e9\"", "String: aé"),
            ("[1, 2.50, null]", "ArrayList: [1, 2.5, null]"),
            ("{\"a\": {\"b\": []}}", "LinkedHashMap: {a={b=[]}}"),
        ] {
            assert_eq!(shown(raw), expected);
        }
        let long = format!("[{}1]", "1,".repeat(1 << 20));
        assert!(shown(&long).len() < 2 * JSON_SHOWN_BYTES_MAX, "errors are bounded");
    }
}

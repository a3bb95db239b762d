//! What a statement gives for an option, and how a scalar is read from it, in Cassandra's words.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::refusal::{Refusal, Result};

/// The value of an option as a statement has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// A constant, as text.
    Text(String),
    /// A map of texts: `{'a': 'b'}`.
    Map(BTreeMap<String, String>),
}

impl Given {
    pub(super) fn text(&self, name: &str) -> Result<&str> {
        match self {
            Given::Text(text) => Ok(text),
            Given::Map(_) => Err(Refusal::Syntax(format!(
                "Invalid value for property '{name}'. It should be a string"
            ))),
        }
    }

    /// The map that it is; a refusal if it is none.
    pub fn map(&self, name: &str) -> Result<&BTreeMap<String, String>> {
        match self {
            Given::Map(map) => Ok(map),
            Given::Text(_) => Err(Refusal::Syntax(format!(
                "Invalid value for property '{name}'. It should be a map."
            ))),
        }
    }
}

/// Cassandra's boolean: three ways to say each.
pub fn boolean(name: &str, text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(Refusal::Syntax(format!(
            "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or 'yes'. Negative values can be '0', 'false' or 'no'."
        ))),
    }
}

pub(super) fn integer(name: &str, text: &str) -> Result<i32> {
    number(name, text, "integer")
}

/// A number; `NaN` is one, and is refused by the bounds that follow.
pub(super) fn double(name: &str, text: &str) -> Result<f64> {
    number(name, text, "double")
}

fn number<T: FromStr>(name: &str, text: &str, kind: &str) -> Result<T> {
    let invalid = |_| Refusal::Syntax(format!("Invalid {kind} value {text} for '{name}'"));
    text.parse().map_err(invalid)
}

pub(super) fn at_least(name: &str, text: &str, least: i32) -> Result<i32> {
    let value = integer(name, text)?;
    if value < least {
        return Err(Refusal::Config(format!(
            "{name} must be greater than or equal to {least} (got {value})"
        )));
    }
    Ok(value)
}

/// As Java prints a double: `2.0`, `1.0E-7`.
pub(super) fn java_double(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        let text = format!("{value:E}");
        return if text.contains('.') { text } else { text.replacen('E', ".0E", 1) };
    }
    format!("{value:?}")
}

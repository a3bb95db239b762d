//! Options of tables: what follows WITH is set on [`TableOptions`], which reads and refuses it.

use model::options::{Given, Refusal, TableOptions};

use crate::error::{Error, Result};
use crate::lang::ast::{Properties, PropertyValue};

/// The options after `properties` are set on `base`; what is to be said about them goes to `warnings`.
pub(super) fn apply(
    base: &TableOptions,
    properties: &Properties,
    warnings: &mut Vec<String>,
) -> Result<TableOptions> {
    let mut options = base.clone();
    for (name, value) in properties {
        options.set(name, &given(value), warnings)?;
    }
    options.check()?;
    Ok(options)
}

pub(super) fn given(value: &PropertyValue) -> Given {
    match value {
        PropertyValue::Text(text) => Given::Text(text.clone()),
        PropertyValue::Map(pairs) => Given::Map(pairs.iter().cloned().collect()),
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        match refusal {
            Refusal::Syntax(text) => Error::Syntax(text),
            Refusal::Config(text) => Error::Config(text),
            Refusal::Invalid(text) => Error::Invalid(text),
        }
    }
}

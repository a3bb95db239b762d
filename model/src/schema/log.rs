//! The bytes of the schema log's entries: made and read here, nowhere else (`FORMAT.md`).
//!
//! ```text
//! SchemaEntry ── form.rs: what stands in the log ── JSON
//! ```
//!
//! 1. The form is independent of the fields of the schema's types: those may change, the form may not.
//! 2. An entry of an earlier format is read for ever; one of a later format is refused by its number.
//! 3. Anything that is not understood is damage, and named: a schema is never guessed.
//!
//! Not here: the file (`engine/src/layout`), what a change does (`change.rs`).

mod form;
mod function_form;
mod index_form;
mod type_form;
mod view_form;

#[cfg(test)]
mod tests;

use std::fmt;

use form::EntryForm;
use serde::Deserialize;

use super::SchemaEntry;

/// The format that is written.
pub const FORMAT: u32 = 8;

/// Why an entry cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A later build wrote it, in this format.
    Newer(u32),
    /// It is not an entry; what is wrong.
    Damaged(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Newer(format) => {
                write!(f, "it has format {format}, and this build knows formats up to {FORMAT}")
            }
            Unreadable::Damaged(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Unreadable {}

/// What is looked at if the rest is not understood: that depends on it.
#[derive(Deserialize)]
struct Probe {
    #[serde(default = "first_format")]
    format: u32,
}

/// Entries of the first format do not name it.
fn first_format() -> u32 {
    1
}

/// The bytes of an entry.
pub fn encode(entry: &SchemaEntry) -> Vec<u8> {
    serde_json::to_vec(&EntryForm::of(entry)).expect("its keys are strings and its numbers finite")
}

/// The entry of these bytes. What an earlier build took and this one refuses (the value of an option) is replaced by
/// its default, and said in `warnings`.
pub fn decode(bytes: &[u8], warnings: &mut Vec<String>) -> Result<SchemaEntry, Unreadable> {
    let form = serde_json::from_slice::<EntryForm>(bytes);
    let format = match &form {
        Ok(form) => form.format,
        Err(_) => serde_json::from_slice(bytes).map_or(FORMAT, |Probe { format }| format),
    };
    if format > FORMAT {
        return Err(Unreadable::Newer(format));
    }
    let form = form.map_err(|error| Unreadable::Damaged(error.to_string()))?;
    form.entry(warnings).map_err(Unreadable::Damaged)
}

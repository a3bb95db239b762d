//! JSON texts to values: `INSERT .. JSON` and `from_json`. The other way is `expr/function/json.rs`.
//!
//! ```text
//! text of a row ──columns.rs──► the JSON of each column ──value.rs──► its wire bytes
//! text of a value ─────────────────────────────────────────┘  └──scalar.rs──► of one scalar
//! ```
//!
//! `serde_json` reads the text; it goes no deeper than 128 levels. A value is written into its bytes as it is read, no
//! tree of it is made, so what it takes is bounded by `CELL_BYTES_MAX`. Scalars are taken as they stand in the text: a
//! number has all of its digits, where Cassandra's parser makes a double of one with a point.
//!
//! Not here: where a column's value goes (`plan`), the order of sets and maps (`expr/collection.rs`).

mod columns;
mod scalar;
mod shown;
#[cfg(test)]
mod tests;
mod value;

pub use columns::{JsonColumns, JsonInsert, JsonSlot};
pub(crate) use value::from_json;

use crate::error::Error;

/// Why a JSON text is no value of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// The text is not JSON.
    Syntax(String),
    /// It is JSON, and not of the type.
    Type(String),
    /// A limit, or what a value of the type may never be.
    Invalid(Error),
}

impl From<model::Error> for JsonError {
    fn from(error: model::Error) -> JsonError {
        JsonError::Invalid(error.into())
    }
}

//! JSON texts to values: `INSERT .. JSON` and `from_json`. The other way is `expr/function/json.rs`.
//!
//! ```text
//! text of a row ──columns.rs──► the JSON of each column ──value.rs──► its wire bytes
//!                    └──names.rs──► whose value it is ──────┘  └──scalar.rs──► of one scalar
//! ```
//!
//! `serde_json` reads the text; it goes no deeper than 128 levels. A value is written into its bytes as it is read, no
//! tree of it is made. A few bytes of text may become very many, since `{}` has all fields of its user type, so what
//! all texts of a statement become is counted in one [`JsonBudget`]. Scalars are taken as they stand in the text: a
//! number has all of its digits, where Cassandra's parser makes a double of one with a point.
//!
//! Not here: where a column's value goes (`plan`), the order of sets and maps (`expr/collection.rs`).

mod columns;
mod halves;
mod names;
mod scalar;
mod shown;
#[cfg(test)]
mod tests;
mod value;

use std::cell::Cell;

pub(crate) use columns::read_row;
pub use columns::{JsonInsert, JsonSlot};
use model::Table;
use model::limits::MUTATION_BYTES_MAX;
pub(crate) use shown::cut;
pub(crate) use value::{Reading, from_json};

use crate::error::{Error, Result};
use crate::limits::{JSON_COLUMN_BYTES, STATEMENT_MEMORY_BYTES_MAX};

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

impl From<Error> for JsonError {
    fn from(error: Error) -> JsonError {
        JsonError::Invalid(error)
    }
}

/// The bytes that JSON texts may become: those of one statement share them.
#[derive(Clone, Debug)]
pub struct JsonBudget {
    bytes_max: usize,
    taken: Cell<usize>,
}

impl JsonBudget {
    /// A budget of so many bytes.
    pub(crate) fn of(bytes_max: usize) -> JsonBudget {
        JsonBudget { bytes_max, taken: Cell::new(0) }
    }

    /// The bytes that were made, of values that were refused in the end, too.
    pub(crate) fn taken(&self) -> usize {
        self.taken.get()
    }

    fn left(&self) -> usize {
        self.bytes_max.saturating_sub(self.taken.get())
    }

    fn take(&self, bytes: usize) {
        self.taken.set(self.taken.get().saturating_add(bytes));
    }

    #[cold]
    fn error(&self) -> Error {
        let bytes_max = self.bytes_max;
        Error::Invalid(format!(
            "the values that the JSON of one statement makes have more than {bytes_max} bytes"
        ))
    }
}

/// What the JSON texts take that a statement holds: a plan keeps their values. Those of a batch are counted together.
#[derive(Clone, Debug)]
pub(crate) struct KnownJson {
    /// The budget of the values, which a mutation takes.
    pub(crate) budget: JsonBudget,
    /// What the columns take that each `INSERT JSON` writes, with or without a value.
    columns_bytes: usize,
}

impl KnownJson {
    /// Of a statement that was not looked at yet.
    pub(crate) fn none() -> KnownJson {
        KnownJson { budget: JsonBudget::of(MUTATION_BYTES_MAX), columns_bytes: 0 }
    }

    /// Counts an `INSERT JSON`, which writes all columns of its table.
    pub(crate) fn add_insert(&mut self, table: &Table) -> Result<()> {
        let names = table.columns().iter().map(|column| column.name.len());
        self.columns_bytes += names.map(|name| JSON_COLUMN_BYTES + 2 * name).sum::<usize>();
        if self.columns_bytes <= STATEMENT_MEMORY_BYTES_MAX {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "the INSERT JSON statements of a batch take more than {STATEMENT_MEMORY_BYTES_MAX} bytes: each \
             writes all columns of its table"
        )))
    }

    /// The bytes that it all takes.
    pub(crate) fn bytes(&self) -> usize {
        self.budget.taken() + self.columns_bytes
    }
}

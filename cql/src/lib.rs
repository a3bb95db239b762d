//! The language and the native protocol, pure: bytes in, values out; no I/O.
//!
//! - [`frame`]: the native protocol v3, v4 and v5, both sides of it.
//! - [`lang`]: statement text to a tree.
//! - [`prepare`]: a tree to a plan: names are looked up, types inferred, what is not allowed is refused. It asks
//!   [`restrict`] (a WHERE: which partitions and rows, and what is filtered), [`expr`] (expressions to typed terms),
//!   [`literal`] (constants as text), [`json`] (JSON texts to values) and `types` (names of types).
//! - [`plan`], [`bind`]: a plan and its values to mutations and reads.
//! - [`rows`]: rows of storage to rows of the answer.
//! - [`ddl`], [`describe`]: statements about the schema, to changes and back to text.
//! - `digest`: the MD5 that names prepared statements. `spelling`: the known name that an unknown one misspells.
//! - [`error`]: what is refused, with the protocol's code.
//! - [`guardrails`]: what an operator has set for statements.
//! - [`limits`]: every bound of this crate.
//! - [`planted`]: bugs on purpose, for the tests of the tests.

pub mod bind;
pub mod ddl;
pub mod describe;
pub mod digest;
pub mod error;
pub mod expr;
pub mod frame;
pub mod guardrails;
pub mod json;
pub mod lang;
pub mod limits;
pub mod literal;
pub mod plan;
pub mod planted;
pub mod prepare;
pub mod restrict;
pub mod rows;
mod spelling;
// Each crate counts the steps of its own tests: a `cfg(test)` static is not shared. The source file is.
#[path = "../../model/src/steps.rs"]
mod steps;
#[cfg(test)]
mod testing;
mod types;

pub use digest::digest;
pub use error::{Error, Result};

//! The language and the native protocol, pure: bytes in, values out; no I/O.
//!
//! - [`frame`]: the native protocol v3, v4 and v5, both sides of it.
//! - [`lang`]: statement text to a tree.
//! - [`prepare`], [`restrict`], [`expr`], [`literal`]: the tree to a plan.
//! - [`plan`], [`bind`]: a plan and its values to mutations and reads.
//! - [`rows`]: rows of storage to rows of the answer.
//! - [`ddl`], [`describe`]: statements about the schema, to changes and back to text.
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
mod nearest;
pub mod plan;
pub mod planted;
pub mod prepare;
pub mod restrict;
pub mod rows;
// Each crate counts the steps of its own tests: a `cfg(test)` static is not shared. The source file is.
#[path = "../../model/src/steps.rs"]
mod steps;
#[cfg(test)]
mod testing;
mod types;

pub use digest::digest;
pub use error::{Error, Result};

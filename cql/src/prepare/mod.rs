//! Statements made ready.
pub mod types;

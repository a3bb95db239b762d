//! The language: statement text to a tree, or an error that helps.
//!
//! ```text
//! text ──lexer──► tokens ──parser──► ast::Parsed
//! ```
//!
//! Invariants
//! 1. Parsing is linear in the length of the text, and the text is at most `STATEMENT_BYTES_MAX`.
//! 2. A tree is at most `NESTING_MAX` levels deep, so nothing that walks or drops it can exhaust
//!    the stack.
//! 3. No text panics.
//!
//! Not here: names, types and restrictions, which need a schema (`prepare`).

pub mod ast;
mod fingerprint;
pub mod keyword;
mod lexer;
mod parser;
mod syntax_error;
mod token;

pub use parser::parse;
pub use syntax_error::SyntaxError;

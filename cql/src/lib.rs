//! The language and the native protocol, pure: bytes in, values out; no I/O.
//!
//! - [`frame`]: the native protocol v3, v4 and v5, both sides of it.
//! - [`lang`]: statement text to a tree.
//! - [`limits`]: every bound of this crate.

pub mod describe;
pub mod frame;
pub mod lang;
pub mod limits;

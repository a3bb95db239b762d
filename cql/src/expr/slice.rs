//! `m[a..b]`: the entries of a map or set whose keys lie between two values, both inside.
//!
//! ```text
//! {1, 3, 5}[2..]  ──►  {3, 5}          {1, 3, 5}[..0]  ──►  null, as every empty collection
//! ```

use super::{Env, Evaluated, Term, collection};
use crate::error::{Error, Result};

/// A slice of a collection by its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySlice {
    /// The map or set.
    pub value: Term,
    /// The least key inside; without one the slice begins with the first.
    pub first: Option<Term>,
    /// The greatest key inside; without one the slice ends with the last.
    pub last: Option<Term>,
    /// How the statement writes the collection, for errors.
    pub name: String,
}

impl KeySlice {
    /// The terms of its two ends.
    pub(super) fn ends(&self) -> impl Iterator<Item = Option<&Term>> {
        [self.first.as_ref(), self.last.as_ref()].into_iter()
    }

    /// The entries inside as a collection of the same type, null if there are none.
    pub(super) fn eval<'e>(&'e self, env: &'e impl Env) -> Result<Evaluated<'e>> {
        let value = self.value.eval(env)?;
        let first = self.first.as_ref().map(|term| term.eval(env)).transpose()?;
        let last = self.last.as_ref().map(|term| term.eval(env)).transpose()?;
        let (first, last) = (self.bound(first.as_ref())?, self.bound(last.as_ref())?);
        let Some(value) = value.bytes() else { return Ok(Evaluated::Null) };
        collection::slice(&self.value.ty, value, first, last).map(Evaluated::made_or_null)
    }

    /// The bytes of an end that was written.
    fn bound<'v>(&self, end: Option<&'v Evaluated<'_>>) -> Result<Option<&'v [u8]>> {
        let missing = match end {
            None => return Ok(None),
            Some(Evaluated::Bytes(bytes)) => return Ok(Some(bytes)),
            Some(Evaluated::Null) => "null",
            Some(Evaluated::Unset) => "unset",
        };
        let name = &self.name;
        Err(Error::invalid(format!("Invalid {missing} value for slice selection on {name}")))
    }
}

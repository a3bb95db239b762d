//! `m[a..b]`: the entries of a map or set whose keys lie between two values, both inside.
//!
//! ```text
//! {1, 3, 5}[2..]  ──►  {3, 5}          {1, 3, 5}[..0]  ──►  null, as every empty collection
//! ```

use super::{Env, Evaluated, Kind, Source, Term, collection};
use crate::error::Result;

/// A slice of a collection by its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySlice {
    /// The map or set.
    pub value: Term,
    /// The least key inside; without one, or if it is unset, the slice begins with the first.
    pub first: Option<Term>,
    /// The greatest key inside; without one, or if it is unset, the slice ends with the last.
    pub last: Option<Term>,
}

impl KeySlice {
    /// The terms of its two ends.
    pub(super) fn ends(&self) -> impl Iterator<Item = Option<&Term>> {
        [self.first.as_ref(), self.last.as_ref()].into_iter()
    }

    /// The entries inside as a collection of the same type, null if there are none.
    pub(super) fn eval<'e>(&'e self, env: &'e impl Env) -> Result<Evaluated<'e>> {
        let value = match &self.value.kind {
            Kind::Row(source @ Source::Elements(..))
                if collection::key_type(&self.value.ty).keeps_its_form() =>
            {
                let [first, last] = self.paths(env)?;
                return env.elements_between(source, first.as_deref(), last.as_deref());
            }
            _ => self.value.eval(env)?,
        };
        let first = self.first.as_ref().map(|term| term.eval(env)).transpose()?;
        let last = self.last.as_ref().map(|term| term.eval(env)).transpose()?;
        let (first, last) = (first.as_ref(), last.as_ref());
        let Some(value) = value.bytes() else { return Ok(Evaluated::Null) };
        let (first, last) = (first.and_then(Evaluated::bytes), last.and_then(Evaluated::bytes));
        env.work().take_copy(&self.value.ty, value)?;
        collection::slice(&self.value.ty, value, (first, last), env.work())
            .map(Evaluated::made_or_null)
    }

    /// Where its two ends stand among the paths of a collection that is stored by element.
    pub(crate) fn paths(&self, env: &impl Env) -> Result<[Option<Vec<u8>>; 2]> {
        let mut paths = [None, None];
        for (path, end) in paths.iter_mut().zip(self.ends()) {
            let Some(end) = end.map(|term| term.eval(env)).transpose()? else { continue };
            let Some(bytes) = end.bytes() else { continue };
            let ty = collection::key_type(&self.value.ty);
            *path = Some(collection::place_of(ty, bytes, env.work())?);
        }
        Ok(paths)
    }
}

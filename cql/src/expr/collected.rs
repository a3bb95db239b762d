//! What compiling a statement collects beside its terms: markers, what values take that are longer than their text, and
//! the functions that it calls.
//!
//! The statements of a batch share one: each goes on with what those before it have collected. Not here: how
//! expressions are compiled (`compile.rs`).

use std::collections::HashSet;

use super::function::{CalledName, CalledNames};
use super::work::ExpressionWork;
use crate::bind::Marker;
use crate::error::{Error, Result};
use crate::json::KnownJson;

/// What a batch goes on with from statement to statement.
pub struct Collected {
    /// The markers that have a type.
    pub(super) markers: Vec<Option<Marker>>,
    /// What its JSON texts take.
    pub(crate) json: KnownJson,
    /// Bytes of constants that are made of others and may be longer than those: a value of a user type has a null for
    /// each field that it does not give, and a function makes a text of it.
    pub(crate) folded_bytes: usize,
    /// What evaluating its constants has taken.
    pub(super) work: ExpressionWork,
    /// The names, without keyspaces, of the functions of users that it calls.
    pub(super) users: HashSet<String>,
    /// The names that it calls.
    pub(super) called: CalledNames,
    /// Whether it calls `from_json`.
    pub(crate) reads_json: bool,
}

impl Collected {
    /// Of a statement with so many markers that was not looked at yet.
    pub fn none(markers: usize) -> Collected {
        Collected {
            markers: vec![None; markers],
            json: KnownJson::none(),
            folded_bytes: 0,
            // Texts that have much are compiled beside the core.
            work: ExpressionWork::of_thread_beside(),
            users: HashSet::new(),
            called: CalledNames::default(),
            reads_json: false,
        }
    }

    /// The names that the statement calls, which are taken out of this.
    pub(crate) fn take_called(&mut self) -> Vec<CalledName> {
        std::mem::take(&mut self.called).into_names()
    }

    /// What evaluating its constants has taken, in units of `work.rs`.
    pub(crate) fn constants_work(&self) -> u64 {
        self.work.done()
    }

    /// The markers, all of which must have a type.
    pub fn into_markers(self) -> Result<Vec<Marker>> {
        let markers = self.markers.into_iter().enumerate();
        markers.map(|(index, marker)| marker.ok_or_else(|| untyped(index))).collect()
    }
}

/// The error for the marker at this index, which stands where nothing tells a type.
#[cold]
fn untyped(index: usize) -> Error {
    let number = index + 1;
    Error::invalid(format!(
        "the type of bind marker {number} cannot be inferred: write a type before it, as in (int) ?"
    ))
}

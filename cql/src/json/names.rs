//! The values that an object has under the names of columns or of fields.
//!
//! A name in lower case is meant as it stands; one in quotes loses these, any other becomes lower case. As in Cassandra
//! a name that had to be changed wins over one that had not, wherever both stand; of two of one kind the last counts.

use std::borrow::Cow;

/// The JSON of each place, as it stands in the text.
pub(super) struct Named<'t> {
    values: Vec<Given<'t>>,
    /// The first name that has no place: of those that stand as they are meant, and of the others.
    unknown: [Option<String>; 2],
}

/// What one place is given.
#[derive(Clone, Copy, Default)]
struct Given<'t> {
    raw: Option<&'t str>,
    is_renamed: bool,
}

impl<'t> Named<'t> {
    /// No values yet for so many places.
    pub(super) fn of(places: usize) -> Named<'t> {
        Named { values: vec![Given::default(); places], unknown: [None, None] }
    }

    /// Takes a value; `place` says where its name belongs.
    pub(super) fn put(
        &mut self,
        name: &str,
        raw: &'t str,
        place: impl FnOnce(&str) -> Option<usize>,
    ) {
        let known = meant(name);
        let is_renamed = known != name;
        let Some(index) = place(&known) else {
            self.unknown[usize::from(is_renamed)].get_or_insert_with(|| known.into_owned());
            return;
        };
        let given = &mut self.values[index];
        if is_renamed || !given.is_renamed {
            *given = Given { raw: Some(raw), is_renamed };
        }
    }

    /// The JSON of each place in order, where there is any.
    pub(super) fn values(&self) -> impl Iterator<Item = Option<&'t str>> {
        self.values.iter().map(|given| given.raw)
    }

    /// The name that an error tells of those that have no place.
    pub(super) fn unknown(self) -> Option<String> {
        self.unknown.into_iter().flatten().next()
    }
}

/// The name that a column or field has in JSON: in quotes with its case, else in lower case.
fn meant(name: &str) -> Cow<'_, str> {
    let quoted = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match quoted {
        Some(quoted) => quoted.into(),
        None => name.to_lowercase().into(),
    }
}

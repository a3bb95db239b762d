//! The columns of an answer: how they must be described, and how a server has described them.
//!
//! Not here: which columns a read shows (`query.rs`), and how the protocol writes a type (`value.rs`).

use cql::frame::Reader;
use cql::frame::client::Metadata;

use crate::value::Type;

/// A column of an answer as it must be described.
#[derive(Clone, Debug)]
pub(crate) struct ShownColumn {
    /// The name, of a plain column of the table: what an expression is called is left to the server.
    pub(crate) name: Option<String>,
    pub(crate) of: Type,
}

/// A column as the server has described it: its name, and its type as the protocol writes it.
pub(crate) type DescribedColumn = (String, Vec<u8>);

/// The columns that an answer describes: all of them, or none.
pub(crate) fn described(metadata: &Metadata<'_>) -> Vec<DescribedColumn> {
    metadata.columns().map(|(name, of)| (name.to_owned(), of.to_vec())).collect()
}

/// What is wrong with a description, of which each column is a name and a type; `None` if nothing is.
pub(crate) fn difference<'a>(
    mut described: impl Iterator<Item = (&'a str, &'a [u8])>,
    shown: &[ShownColumn],
) -> Option<String> {
    for (at, column) in shown.iter().enumerate() {
        let Some((name, of)) = described.next() else {
            return Some(format!("rows of {} columns, {at} of them described", shown.len()));
        };
        if column.name.as_deref().is_some_and(|shown| shown != name) {
            return Some(format!("a description of column {at} as {name}"));
        }
        if !column.of.is_told(&mut Reader::new(of)) {
            let of = column.of.name(false);
            return Some(format!(
                "a description of column {at}, {name}, of another type than {of}"
            ));
        }
    }
    described.next().map(|(name, _)| format!("a description of one column too many, {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: &[u8] = &[0, 9];
    const TEXT: &[u8] = &[0, 13];

    /// Before: columns without a description passed, and so did those with another name.
    #[test]
    fn each_column_is_described_by_its_name_and_type() {
        let plain = ShownColumn { name: Some("v0".to_owned()), of: Type::Int };
        let expression = ShownColumn { name: None, of: Type::Int };
        let shown = [plain, expression];
        let is_right = |told: &[(&str, &[u8])]| difference(told.iter().copied(), &shown).is_none();
        assert!(is_right(&[("v0", INT), ("count", INT)]));
        assert!(is_right(&[("v0", INT), ("anything", INT)]));
        assert!(!is_right(&[]));
        assert!(!is_right(&[("v0", INT)]));
        assert!(!is_right(&[("v0", INT), ("count", INT), ("v1", INT)]));
        assert!(!is_right(&[("v1", INT), ("count", INT)]));
        assert!(!is_right(&[("v0", TEXT), ("count", INT)]));
        assert!(!is_right(&[("v0", INT), ("count", TEXT)]));
    }
}

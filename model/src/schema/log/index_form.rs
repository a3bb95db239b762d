//! The form of indexes in the schema log: its fields, and the way there and back.
//!
//! Invariants: what was written reads back equal; a target or kind that this build does not know is an error.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::schema::{Analysis, ColumnId, Index, IndexId, IndexKind, IndexTarget};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IndexForm {
    id: u16,
    name: String,
    column: u16,
    target: TargetForm,
    kind: KindForm,
    class: Option<String>,
    options: BTreeMap<String, String>,
    analysis: AnalysisForm,
}

#[derive(Serialize, Deserialize)]
enum TargetForm {
    Value,
    Keys,
    Values,
    Entries,
    Full,
}

#[derive(Serialize, Deserialize)]
enum KindForm {
    Plain,
    StorageAttached,
    Sasi,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnalysisForm {
    case_sensitive: bool,
    normalize: bool,
    ascii: bool,
}

impl IndexForm {
    pub(super) fn of(index: &Index) -> IndexForm {
        let Analysis { case_sensitive, normalize, ascii } = index.analysis;
        IndexForm {
            id: index.id.0,
            name: index.name.clone(),
            column: index.column.0,
            target: match index.target {
                IndexTarget::Value => TargetForm::Value,
                IndexTarget::Keys => TargetForm::Keys,
                IndexTarget::Values => TargetForm::Values,
                IndexTarget::Entries => TargetForm::Entries,
                IndexTarget::Full => TargetForm::Full,
            },
            kind: match index.kind {
                IndexKind::Plain => KindForm::Plain,
                IndexKind::StorageAttached => KindForm::StorageAttached,
                IndexKind::Sasi => KindForm::Sasi,
            },
            class: index.class.clone(),
            options: index.options.clone(),
            analysis: AnalysisForm { case_sensitive, normalize, ascii },
        }
    }

    pub(super) fn index(self) -> Index {
        let AnalysisForm { case_sensitive, normalize, ascii } = self.analysis;
        Index {
            id: IndexId(self.id),
            name: self.name,
            column: ColumnId(self.column),
            target: match self.target {
                TargetForm::Value => IndexTarget::Value,
                TargetForm::Keys => IndexTarget::Keys,
                TargetForm::Values => IndexTarget::Values,
                TargetForm::Entries => IndexTarget::Entries,
                TargetForm::Full => IndexTarget::Full,
            },
            kind: match self.kind {
                KindForm::Plain => IndexKind::Plain,
                KindForm::StorageAttached => IndexKind::StorageAttached,
                KindForm::Sasi => IndexKind::Sasi,
            },
            class: self.class,
            options: self.options,
            analysis: Analysis { case_sensitive, normalize, ascii },
        }
    }
}

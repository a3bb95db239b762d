//! What USING and OPTIONS say of an index: its class, and what each class takes.
//!
//! The words are those of Cassandra's `IndexAttributes` and `StorageAttachedIndex.validateOptions`.
//!
//! 1. `Declared::of` reads the statement alone: OPTIONS is the only property, USING chooses the class. Without USING
//!    and CUSTOM the class is [`Class::Plain`], which takes no options.
//! 2. `check` looks at the columns and the options as the class does. A storage-attached index takes one column, once
//!    for each target; a type that SAI indexes; analysis options for texts outside of the key.
//! 3. The answer of `check` is the form in which the index compares texts.
//!
//! Invariant: the name of the class and the options are kept as they were written, for DESCRIBE and `system_schema`. An
//! unknown class is refused in `check`, after what Cassandra refuses before it.
//!
//! Not here: which part of a column is indexed (`target.rs`), the options of SASI (`sasi.rs`) and of vectors
//! (`vector.rs`), the steps of the statement (`ddl/index.rs`), what an index finds (`model/src/schema/index.rs`).

use std::collections::BTreeMap;

use model::schema::{Analysis, ColumnKind, IndexKind, Table};
use model::types::CqlType;

use super::target::IndexedColumn;
use super::{sasi, vector};
use crate::describe::index_target;
use crate::error::{Error, Result};
use crate::lang::ast::{CreateIndex, PropertyValue};

/// What Cassandra calls an index without a class.
const PLAIN: &str = "legacy_local_table";
/// The class of SAI, which has short names as well.
const SAI: &str = "org.apache.cassandra.index.sai.StorageAttachedIndex";

/// The class of SASI, which has no other name.
const SASI: &str = "org.apache.cassandra.index.sasi.SASIIndex";

/// The options of SAI that change how texts compare.
const ANALYSIS_OPTIONS: [&str; 3] = ["case_sensitive", "normalize", "ascii"];

/// A class of indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// No class: an index of Cassandra's first kind.
    Plain,
    /// A storage-attached index.
    StorageAttached,
    /// The class of SASI, which serves LIKE.
    Sasi,
    /// Another one, which is not here.
    Unknown,
}

impl Class {
    /// What the schema says of it.
    pub(super) fn kind(self) -> IndexKind {
        match self {
            Class::Plain => IndexKind::Plain,
            Class::Sasi => IndexKind::Sasi,
            Class::StorageAttached | Class::Unknown => IndexKind::StorageAttached,
        }
    }
}

/// The class and the options that a statement declares.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) class: Class,
    /// The class as it was written.
    pub(super) name: Option<String>,
    pub(super) options: BTreeMap<String, String>,
}

impl Declared {
    /// What the statement says, if its parts fit each other.
    pub(super) fn of(create: &CreateIndex) -> Result<Declared> {
        let mut options = BTreeMap::new();
        for (name, value) in &create.properties {
            match value {
                _ if name != "options" => {
                    return Err(Error::Syntax(format!("Unknown property '{name}'")));
                }
                PropertyValue::Map(pairs) => options.extend(pairs.iter().cloned()),
                PropertyValue::Text(_) => {
                    return Err(Error::Syntax(format!(
                        "Invalid value for property '{name}'. It should be a map."
                    )));
                }
            }
        }
        // As in Cassandra, CUSTOM without a class is the class of an index without one, which is no custom one.
        let written = create.class.as_deref().or(create.is_custom.then_some(PLAIN));
        let class = match written {
            None => Class::Plain,
            Some(PLAIN) if !create.is_custom => Class::Plain,
            Some(SAI) => Class::StorageAttached,
            Some(SASI) => Class::Sasi,
            Some(name)
                if name.eq_ignore_ascii_case("sai")
                    || name.eq_ignore_ascii_case("StorageAttachedIndex") =>
            {
                Class::StorageAttached
            }
            Some(_) => Class::Unknown,
        };
        if class == Class::Plain && !create.properties.is_empty() {
            return Err(Error::invalid("Cannot specify options for a non-CUSTOM index"));
        }
        for name in ["class_name", "target"] {
            if options.contains_key(name) {
                return Err(Error::invalid(format!("Cannot specify {name} as a CUSTOM option")));
            }
        }
        let name = written.filter(|_| class != Class::Plain).map(str::to_owned);
        Ok(Declared { class, name, options })
    }

    /// Looks at the columns and the options as the class does; how its texts compare.
    pub(super) fn check(&self, table: &Table, columns: &[IndexedColumn<'_>]) -> Result<Analysis> {
        match self.class {
            Class::Plain => Ok(Analysis::NONE),
            Class::StorageAttached => self.check_storage_attached(table, columns),
            Class::Sasi => sasi::check(&self.options, columns),
            Class::Unknown => {
                let name = self.name.as_deref().unwrap_or_default();
                Err(Error::Config(format!("Unable to find custom indexer class '{name}'")))
            }
        }
    }

    fn check_storage_attached(
        &self,
        table: &Table,
        columns: &[IndexedColumn<'_>],
    ) -> Result<Analysis> {
        self.refuse_unknown()?;
        let targets = || {
            let shown = |one: &IndexedColumn<'_>| index_target(one.column, one.target);
            columns.iter().map(shown).collect::<Vec<_>>().join(", ")
        };
        let only = match columns {
            [only] => only,
            [] => return Err(Error::invalid("Failed to retrieve target column for: ")),
            _ => {
                return Err(Error::invalid(format!(
                    "A storage-attached index cannot be created over multiple columns: {}",
                    targets()
                )));
            }
        };
        let column = only.column;
        let is_same = |index: &model::schema::Index| {
            index.kind == IndexKind::StorageAttached && index.target == only.target
        };
        if table.indexes_of(column.id).any(is_same) {
            return Err(Error::invalid(format!(
                "Cannot create more than one storage-attached index on the same column: {}",
                column.name
            )));
        }
        let given = |names: &[&str]| -> Vec<String> {
            let own = self.options.iter().filter(|(name, _)| names.contains(&name.as_str()));
            own.map(|(name, value)| format!("'{name}': '{value}'")).collect()
        };
        let analysed = given(&ANALYSIS_OPTIONS);
        if column.kind <= ColumnKind::Clustering && !analysed.is_empty() {
            return Err(Error::invalid(format!(
                "Analysis options are not supported on primary key columns, but found {{{}}}",
                analysed.join(", ")
            )));
        }
        let types = only.types();
        for ty in &types {
            check_type(ty)?;
        }
        let is_text = matches!(types[..], [CqlType::Text | CqlType::Ascii]);
        if !analysed.is_empty() && !is_text {
            let shown: Vec<String> = types.iter().map(|ty| ty.to_string()).collect();
            return Err(Error::invalid(format!(
                "CQL type {} cannot be analyzed.",
                shown.join(", ")
            )));
        }
        vector::check(types[0], &self.options)?;
        Ok(Analysis {
            case_sensitive: self.boolean("case_sensitive")?.unwrap_or(true),
            normalize: self.boolean("normalize")?.unwrap_or(false),
            ascii: self.boolean("ascii")?.unwrap_or(false),
        })
    }

    fn refuse_unknown(&self) -> Result<()> {
        let is_known = |name: &&String| {
            ANALYSIS_OPTIONS.contains(&name.as_str()) || vector::OPTIONS.contains(&name.as_str())
        };
        let unknown: Vec<&str> =
            self.options.keys().filter(|name| !is_known(name)).map(String::as_str).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(Error::Config(format!(
            "Properties specified [{}] are not understood by StorageAttachedIndex",
            unknown.join(", ")
        )))
    }

    /// The value of an option that is true or false.
    fn boolean(&self, name: &str) -> Result<Option<bool>> {
        match self.options.get(name) {
            None => Ok(None),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(text) => {
                Err(Error::invalid(format!("Illegal value for boolean option '{name}': {text}")))
            }
        }
    }
}

/// Refuses types that SAI does not index.
fn check_type(ty: &CqlType) -> Result<()> {
    match ty {
        CqlType::Blob | CqlType::Counter | CqlType::Duration | CqlType::Empty => {
            Err(Error::invalid(format!("Unsupported type: {ty}")))
        }
        CqlType::Custom(_) if !ty.is_composite() => {
            Err(Error::invalid(format!("Unsupported type: {ty}")))
        }
        _ => Ok(()),
    }
}

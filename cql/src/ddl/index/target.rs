//! The column of an index: which part of it is indexed, and whether that can be.
//!
//! The words are those of Cassandra's `IndexTarget` and `CreateIndexStatement.validateIndexTarget`.
//!
//! ```text
//! column                    without a function   keys()   values()   entries()   full()
//! list, set                 its elements         -        yes        -           -
//! map                       its values           yes      yes        yes         -
//! frozen collection         -                    -        -          -           yes
//! any other                 its value            -        -          -           -        not of a user type by field
//! ```
//!
//! 1. `find` looks up the column and turns the function into the target. 2. `check` refuses durations, columns of
//!    compact tables, the only column of a partition key, and what the table above does not have.
//!
//! Not here: what a class of indexes refuses besides (`class.rs`), the terms of each target
//! (`model/src/schema/index/terms.rs`).

use model::schema::{Column, ColumnKind, IndexTarget, Table};
use model::types::{CqlType, Name};

use crate::error::{Error, Result};
use crate::expr::undefined;
use crate::lang::ast::IndexFunction;
use crate::types::has_duration;

/// A column that is to be indexed.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexedColumn<'t> {
    pub(super) column: &'t Column,
    pub(super) target: IndexTarget,
}

impl<'t> IndexedColumn<'t> {
    /// The column of that name; without a function a collection is indexed by its values.
    pub(super) fn find(
        table: &'t Table,
        name: &str,
        function: Option<IndexFunction>,
    ) -> Result<IndexedColumn<'t>> {
        let column = table.column(name).ok_or_else(|| undefined(name, table))?;
        let target = match function {
            None if column.ty.is_collection() => IndexTarget::Values,
            None => IndexTarget::Value,
            Some(IndexFunction::Keys) => IndexTarget::Keys,
            Some(IndexFunction::Values) => IndexTarget::Values,
            Some(IndexFunction::Entries) => IndexTarget::Entries,
            Some(IndexFunction::Full) => IndexTarget::Full,
        };
        Ok(IndexedColumn { column, target })
    }

    /// The type of what is compared: of a map's entries both.
    pub(super) fn types(&self) -> Vec<&'t CqlType> {
        match (&self.column.ty, self.target) {
            (CqlType::List { element, .. } | CqlType::Set { element, .. }, IndexTarget::Values) => {
                vec![element]
            }
            (CqlType::Map { key, .. }, IndexTarget::Keys) => vec![key],
            (CqlType::Map { value, .. }, IndexTarget::Values) => vec![value],
            (CqlType::Map { key, value, .. }, IndexTarget::Entries) => vec![key, value],
            (ty, _) => vec![ty],
        }
    }

    /// Refuses what cannot be indexed.
    pub(super) fn check(&self, table: &Table) -> Result<()> {
        let Column { ty, kind, .. } = self.column;
        if has_duration(ty) {
            let what = match ty {
                CqlType::Udt { .. } => "UDTs containing durations",
                CqlType::Tuple(_) => "tuples containing durations",
                CqlType::Duration => "duration columns",
                _ => "collections containing durations",
            };
            return Err(Error::invalid(format!("Secondary indexes are not supported on {what}")));
        }
        if table.is_compact() && *kind <= ColumnKind::Clustering {
            return Err(Error::invalid(
                "Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables",
            ));
        }
        if table.compact_value().is_some_and(|value| value.id == self.column.id) {
            return Err(Error::invalid(
                "Secondary indexes are not supported on compact value column of COMPACT STORAGE tables",
            ));
        }
        let name = Name(&self.column.name);
        if *kind == ColumnKind::PartitionKey && table.partition_key().len() == 1 {
            return Err(Error::invalid(format!(
                "Cannot create secondary index on the only partition key column {name}"
            )));
        }
        self.check_target()
    }

    fn check_target(&self) -> Result<()> {
        let (ty, name) = (&self.column.ty, Name(&self.column.name));
        let is_frozen = ty.is_collection() && !ty.is_multi_cell();
        let function = self.target.function().unwrap_or_default();
        let text = match self.target {
            IndexTarget::Full if is_frozen => return Ok(()),
            IndexTarget::Full => {
                "full() indexes can only be created on frozen collections".to_owned()
            }
            _ if is_frozen => format!(
                "Cannot create {function}() index on frozen column {name}. Frozen collections are immutable and must be fully indexed by using the 'full({name})' modifier"
            ),
            IndexTarget::Value if ty.is_multi_cell() => {
                format!("Cannot create index on non-frozen UDT column {name}")
            }
            IndexTarget::Value => return Ok(()),
            _ if !ty.is_collection() => format!(
                "Cannot create {function}() index on {name}. Non-collection columns only support simple indexes"
            ),
            IndexTarget::Keys | IndexTarget::Entries if !matches!(ty, CqlType::Map { .. }) => {
                format!("Cannot create index on {function} of column {name} with non-map type")
            }
            _ => return Ok(()),
        };
        Err(Error::invalid(text))
    }
}

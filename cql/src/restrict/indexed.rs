//! Which restrictions of a SELECT indexes serve, and whether they serve all that ALLOW FILTERING would be needed for.
//!
//! ```text
//! restrictions ─► Served: which index serves which ─► is one used? ─► does a group serve all? else ALLOW FILTERING
//! ```
//!
//! 1. A plain index serves `=`, or one CONTAINS of its part of a collection; a storage-attached one also ranges of numbers,
//!    times and addresses, and several CONTAINS.
//! 2. A plain index is a group alone; the storage-attached ones of a table are one group, which answers all at once.
//! 3. The rules are those of Cassandra (`StatementRestrictions`, `Index.Group`), and decide what is allowed. What is looked up
//!    in an index is decided beside that: any relation that an index can tell something of (`Index::lookup`).
//!
//! Not here: what matches (`filter.rs` has all conditions).

use model::read::Operator;
use model::schema::{Analysis, Column, ColumnId, ColumnKind, Index, IndexKind, IndexTarget, Table};
use model::types::CqlType;

use super::PartitionChoice;
use super::restrictions::{Kind, Restrictions};
use crate::error::{Error, Result};

/// The restrictions of a statement on a table with indexes, as they were gathered.
pub(super) struct Served<'t> {
    table: &'t Table,
    restricted: Vec<Restricted>,
    /// The column of vectors that rows are ordered by.
    nearest: Option<ColumnId>,
}

/// One restriction: of one column, or of clustering columns that follow each other.
struct Restricted {
    columns: Vec<Column>,
    kind: Kind,
    /// Whether it is one of `Restrictions::multis`: a tuple of columns, or a column at which a tuple begins.
    is_multi: bool,
}

/// What the choice of partitions and rows has left to filters.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeftToFilters {
    /// Whether restrictions of clustering columns are filters.
    pub(super) clustering: bool,
    /// Whether `ALLOW FILTERING` was written.
    pub(super) filtering: bool,
}

/// Whether a SELECT uses an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexUse {
    /// It uses none.
    None,
    /// It uses one.
    Allowed,
    /// It uses one, but must say ALLOW FILTERING.
    WithFiltering,
}

impl<'t> Served<'t> {
    /// The restrictions before partitions and rows take theirs.
    pub(super) fn of(
        gathered: &Restrictions,
        table: &'t Table,
        nearest: Option<ColumnId>,
    ) -> Served<'t> {
        let mut restricted = Vec::new();
        if !table.indexes().is_empty() {
            restricted.extend(gathered.singles.iter().map(|single| Restricted {
                columns: vec![single.column.clone()],
                kind: single.kind.clone(),
                is_multi: false,
            }));
            restricted.extend(gathered.multis.iter().map(|multi| Restricted {
                columns: multi.columns.clone(),
                kind: multi.kind.clone(),
                is_multi: true,
            }));
        }
        Served { table, restricted, nearest }
    }

    /// Whether an index serves one of them, or the order.
    pub(super) fn has_index(&self) -> bool {
        self.nearest.is_some() || self.restricted.iter().any(|one| self.is_served(one))
    }

    fn is_served(&self, one: &Restricted) -> bool {
        is_served(self.table, &one.columns, &one.kind)
    }

    /// Refuses conditions on values that have an index of vectors, which is for their order alone.
    pub(super) fn check_vectors(&self) -> Result<()> {
        let has_vectors = |one: &&Restricted| {
            let column = &one.columns[0];
            column.kind >= ColumnKind::Static
                && self.table.vector_indexes().any(|(index, _)| index.column == column.id)
        };
        let Some(one) = self.restricted.iter().find(has_vectors) else { return Ok(()) };
        let name = &one.columns[0].name;
        Err(Error::invalid(match &one.kind {
            Kind::ValueSet(_) if self.nearest == Some(one.columns[0].id) => format!(
                "{name} cannot be restricted by more than one relation if it includes an Equal"
            ),
            _ => "Vector indexes only support ANN queries".to_owned(),
        }))
    }

    /// Refuses to order by nearness what conditions without an index would filter.
    fn check_nearest(&self, filtered: &[&Restricted]) -> Result<()> {
        if self.nearest.is_some() && !filtered.iter().all(|one| self.is_served_somehow(one)) {
            return Err(Error::invalid(
                "ANN ordering by vector requires all restricted column(s) to be indexed",
            ));
        }
        Ok(())
    }

    /// Whether each column has an index, whichever relations that serves.
    fn is_served_somehow(&self, one: &Restricted) -> bool {
        let has_index =
            |column: &Column| self.table.term_indexes().any(|index| index.column == column.id);
        one.columns.iter().all(has_index)
    }

    /// Whether the SELECT uses an index. An error if it may not, since a column of its key has an IN. The steps are
    /// those of Cassandra's `StatementRestrictions`: comments name its methods.
    pub(super) fn check_use(
        &self,
        partitions: &PartitionChoice,
        left: LeftToFilters,
    ) -> Result<IndexUse> {
        if !self.has_index() {
            return Ok(IndexUse::None);
        }
        let of_kind = |kind: ColumnKind| {
            self.restricted.iter().filter(move |one| one.columns[0].kind == kind)
        };
        // `processPartitionKeyRestrictions`: without whole keys an index is used, unless a range of tokens is all that
        // restricts the key. Restrictions of single columns of the key are then left to the index, or to a filter.
        let is_keyed = matches!(partitions, PartitionChoice::Keys { .. });
        let key_restrictions = of_kind(ColumnKind::PartitionKey).count();
        let is_token_range =
            matches!(partitions, PartitionChoice::Tokens(_)) && key_restrictions == 0;
        let mut uses_index = self.nearest.is_some() || (!is_keyed && !is_token_range);
        let filters_key = !is_keyed && key_restrictions > 0;
        // `processClusteringColumnsRestrictions`: an index is used where restrictions of clustering columns make no
        // slice, and over several partitions where one of these columns has an index.
        let has_clustering_index =
            of_kind(ColumnKind::Clustering).any(|restricted| self.is_served(restricted));
        uses_index |= left.clustering || !is_keyed && has_clustering_index;
        // Where an index is used, it has to settle restrictions of clustering columns, too. Not those of an `ANN OF` in
        // named partitions: slices are read as slices, whatever orders their rows.
        let reads_slices = self.nearest.is_some() && is_keyed;
        let filters_clustering = (uses_index && !reads_slices) || left.clustering;
        // Conditions on values need an index, or a filter.
        let of_values = |one: &Restricted| one.columns[0].kind >= ColumnKind::Static;
        uses_index |= self.restricted.iter().any(of_values);
        if !uses_index {
            return Ok(IndexUse::None);
        }
        // `validateSecondaryIndexSelections`.
        if let PartitionChoice::Keys { columns, .. } = partitions
            && columns.iter().any(|values| !values.is_one())
        {
            return Err(Error::invalid(
                "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported",
            ));
        }
        let filtered: Vec<&Restricted> = self
            .restricted
            .iter()
            .filter(|one| match one.columns[0].kind {
                ColumnKind::PartitionKey => filters_key,
                ColumnKind::Clustering => filters_clustering,
                ColumnKind::Static | ColumnKind::Regular => true,
            })
            .collect();
        self.check_nearest(&filtered)?;
        if !left.filtering && !self.groups().iter().any(|group| serves_all(group, &filtered)) {
            return Ok(IndexUse::WithFiltering);
        }
        // A slice of several columns that an index serves would be a filter, which Cassandra does not have. One that no
        // index serves is read as a slice of rows.
        let is_slice = |one: &&Restricted| {
            one.is_multi && matches!(one.kind, Kind::Slice { .. }) && self.is_served(one)
        };
        if filters_clustering && filtered.iter().any(is_slice) {
            let text = "Multi-column slice restrictions cannot be used for filtering.";
            return Err(Error::invalid(text));
        }
        Ok(IndexUse::Allowed)
    }

    /// The indexes that answer together.
    fn groups(&self) -> Vec<Vec<&'t Index>> {
        let is_attached = |index: &&Index| index.kind == IndexKind::StorageAttached;
        let (attached, alone): (Vec<_>, Vec<_>) = self.table.term_indexes().partition(is_attached);
        if self.nearest.is_some() {
            // The index of the vectors is one of them.
            return vec![attached];
        }
        let alone = alone.into_iter().map(|index| vec![index]);
        alone.chain([attached]).filter(|group| !group.is_empty()).collect()
    }
}

impl Restricted {
    /// Whether the group leaves nothing of it to a filter.
    fn is_settled_by(&self, group: &[&Index]) -> bool {
        let is_settled = |column: &Column| {
            group.iter().any(|index| {
                let several = matches!(&self.kind, Kind::Contains(all) if all.len() > 1);
                serves(index, column, &self.kind)
                    && (!several || index.kind == IndexKind::StorageAttached)
            })
        };
        self.columns.iter().all(is_settled)
    }
}

/// Whether an index of the table serves a restriction of one of these columns.
pub(super) fn is_served(table: &Table, columns: &[Column], kind: &Kind) -> bool {
    table.term_indexes().any(|index| columns.iter().any(|column| serves(index, column, kind)))
}

/// Whether the index serves a restriction of the column.
fn serves(index: &Index, column: &Column, kind: &Kind) -> bool {
    if index.column != column.id {
        return false;
    }
    match (kind, index.target) {
        (Kind::ValueSet(values), IndexTarget::Value | IndexTarget::Full) => values.is_one(),
        (Kind::Slice { .. }, IndexTarget::Value) => match index.kind {
            IndexKind::Plain => false,
            IndexKind::StorageAttached => has_ranges(&column.ty),
            IndexKind::Sasi => !is_text(&column.ty) && !is_inside(index),
        },
        (Kind::Like(_), IndexTarget::Value) => index.kind == IndexKind::Sasi && is_text(&column.ty),
        (Kind::Contains(all), target) => {
            all.iter().any(|(operator, _)| looks_at(*operator) == target)
        }
        _ => false,
    }
}

fn serves_all(group: &[&Index], filtered: &[&Restricted]) -> bool {
    filtered.iter().all(|one| one.is_settled_by(group))
}

/// The part of a collection that an operator looks at.
fn looks_at(operator: Operator) -> IndexTarget {
    match operator {
        Operator::ContainsKey => IndexTarget::Keys,
        Operator::Entry => IndexTarget::Entries,
        _ => IndexTarget::Values,
    }
}

/// Whether a storage-attached index serves ranges of the type.
fn has_ranges(ty: &CqlType) -> bool {
    let equal_only =
        matches!(ty, CqlType::Text | CqlType::Ascii | CqlType::Boolean | CqlType::Uuid);
    ty.is_scalar() && !equal_only
}

fn is_text(ty: &CqlType) -> bool {
    matches!(ty, CqlType::Text | CqlType::Ascii)
}

/// Whether the index has the mode CONTAINS, of SASI.
fn is_inside(index: &Index) -> bool {
    let mode = index.options.get("mode").filter(|_| index.kind == IndexKind::Sasi);
    mode.is_some_and(|mode| mode.eq_ignore_ascii_case("contains"))
}

/// Whether an index of the column serves LIKE.
pub(super) fn has_like(table: &Table, column: &Column) -> bool {
    is_text(&column.ty) && table.indexes_of(column.id).any(|index| index.kind == IndexKind::Sasi)
}

/// Whether an index of the column finds what is inside of its texts, or at their end.
pub(super) fn finds_inside(table: &Table, column: &Column) -> bool {
    table.indexes_of(column.id).any(is_inside)
}

/// The form in which values of the column compare under this operator: that of the index that serves it.
pub(super) fn analysis(table: &Table, column: &Column, operator: Operator) -> Analysis {
    let target = |index: &Index| match operator {
        Operator::Equal | Operator::Like(_) => {
            matches!(index.target, IndexTarget::Value | IndexTarget::Full)
        }
        Operator::Contains | Operator::ContainsKey | Operator::Entry => {
            index.target == looks_at(operator)
        }
        _ => false,
    };
    let of_column = table.indexes_of(column.id).filter(|index| target(index));
    of_column.map(|index| index.analysis).find(|analysis| !analysis.is_none()).unwrap_or_default()
}

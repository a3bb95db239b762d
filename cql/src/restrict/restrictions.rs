//! The restrictions of a statement: one for each column or tuple of columns, merged where they meet.
//!
//! `merge_single` and `merge_multi` join a restriction with what its columns have already (`a > 1 AND a < 3` is one
//! slice), or refuse it in Cassandra's words: the relations are judged one after the other, and of two that do not
//! go together the one that was written first says what is wrong.
//!
//! 1. Does it go together with each that has a column in common? The kind of the older one decides.
//! 2. Without ALLOW FILTERING: is no clustering column restricted behind one that is compared?
//!
//! Invariant: a column has one restriction, and is in one tuple at most; only slices of different lengths,
//! such as `(a, b) > (1, 2) AND a < 3`, may begin at the same column, each with another end. Not here: how a relation
//! becomes a restriction (`gather.rs`), which columns must be restricted before others (`rows.rs`).

use model::schema::{Column, ColumnKind, Table};

use super::{ValueSet, Values, indexed};
use crate::error::{Error, Result};
use crate::expr::Term;
use crate::steps::step;

/// One end of a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The values of the columns at this end.
    pub values: Values,
    /// Whether the place itself is inside.
    pub inclusive: bool,
}

/// The condition that a restriction puts on its columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// `=` or `IN`.
    ValueSet(ValueSet),
    /// `>`, `<` and both.
    Slice {
        /// `>` or `>=`.
        lower: Option<Bound>,
        /// `<` or `<=`.
        upper: Option<Bound>,
    },
    /// `LIKE`: a pattern.
    Like(Term),
    /// `CONTAINS`, `CONTAINS KEY`, `m[k] =`: operators with their values.
    Contains(Vec<(model::read::Operator, Vec<Term>)>),
}

/// A restriction of one column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ColumnRestriction {
    /// The column that is restricted.
    pub(super) column: Column,
    /// The condition on the column.
    pub(super) kind: Kind,
}

/// A restriction of clustering columns that follow each other: a tuple of them, or one column at which a tuple of
/// another restriction begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TupleRestriction {
    /// The columns in order.
    pub(super) columns: Vec<Column>,
    /// The condition on the columns.
    pub(super) kind: Kind,
}

/// The position of the first of clustering columns that follow each other, and that behind the last.
fn positions(columns: &[Column]) -> (usize, usize) {
    let first = usize::from(columns[0].position);
    (first, first + columns.len())
}

/// Which clustering columns may be restricted behind one that is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BehindSlice {
    /// None: of writes.
    #[default]
    None,
    /// Those that an index serves.
    Indexed,
    /// All of them, with ALLOW FILTERING.
    All,
}

/// All restrictions of a statement.
#[derive(Default)]
pub(super) struct Restrictions {
    /// Which clustering columns may be restricted behind one that is compared.
    pub(super) behind_slice: BehindSlice,
    /// Those of one column each.
    pub(super) singles: Vec<ColumnRestriction>,
    /// Those of clustering columns that follow each other: tuples, and single columns at which a tuple begins.
    pub(super) multis: Vec<TupleRestriction>,
    /// That of the token.
    pub(super) token: Option<Kind>,
}

impl Restrictions {
    /// Adds the restriction of the token of the columns `names`.
    pub(super) fn merge_token(&mut self, names: &str, new: Kind) -> Result<()> {
        self.token = Some(match self.token.take() {
            Some(old) => merged(names, old, new)?,
            None => new,
        });
        Ok(())
    }

    /// Adds the restriction of one column of the table.
    pub(super) fn merge_single(&mut self, new: ColumnRestriction, table: &Table) -> Result<()> {
        step(self.singles.len() + self.multis.len());
        if new.column.kind == ColumnKind::Clustering {
            self.check_clustering(std::slice::from_ref(&new.column), &new.kind, table)?;
            let is_same = |column: &Column| column.id == new.column.id;
            if self.multis.iter().any(|multi| multi.columns.iter().any(is_same)) {
                self.multis.push(TupleRestriction { columns: vec![new.column], kind: new.kind });
                return Ok(());
            }
        }
        let is_old = |old: &ColumnRestriction| old.column.id == new.column.id;
        let Some(index) = self.singles.iter().position(is_old) else {
            self.singles.push(new);
            return Ok(());
        };
        let old = self.singles.remove(index);
        let kind = merged(&new.column.name, old.kind, new.kind)?;
        self.singles.insert(index, ColumnRestriction { column: old.column, kind });
        Ok(())
    }

    /// Adds the restriction of a tuple of columns of the table.
    pub(super) fn merge_multi(&mut self, new: TupleRestriction, table: &Table) -> Result<()> {
        self.check_clustering(&new.columns, &new.kind, table)?;
        let place = positions(&new.columns);
        let Some(index) = self.multis.iter().position(|old| positions(&old.columns) == place)
        else {
            // Slices over tuples of different lengths are parts that are cut one after the other.
            self.multis.push(new);
            return Ok(());
        };
        let old = self.multis.remove(index);
        let kind = merged(&in_common(&old.columns, &new.columns), old.kind, new.kind)?;
        self.multis.insert(index, TupleRestriction { columns: old.columns, kind });
        Ok(())
    }

    /// The restrictions of clustering columns.
    fn clustering(&self) -> impl Iterator<Item = (&[Column], &Kind)> {
        let is_clustering =
            |single: &&ColumnRestriction| single.column.kind == ColumnKind::Clustering;
        let singles = self.singles.iter().filter(is_clustering);
        let singles = singles.map(|single| (std::slice::from_ref(&single.column), &single.kind));
        singles.chain(self.multis.iter().map(|multi| (&multi.columns[..], &multi.kind)))
    }

    /// Refuses a restriction of clustering columns that cannot stand beside those before it.
    fn check_clustering(&self, columns: &[Column], new: &Kind, table: &Table) -> Result<()> {
        self.check_together(columns, new)?;
        match self.behind_slice {
            BehindSlice::All => Ok(()),
            BehindSlice::Indexed if indexed::is_served(table, columns, new) => Ok(()),
            BehindSlice::Indexed | BehindSlice::None => self.check_order(columns, new),
        }
    }

    /// Refuses a restriction of clustering columns that does not go together with those of the same columns.
    fn check_together(&self, columns: &[Column], new: &Kind) -> Result<()> {
        let (first, behind) = positions(columns);
        for (old_columns, old) in self.clustering() {
            let (old_first, old_behind) = positions(old_columns);
            if old_first >= behind || first >= old_behind {
                continue;
            }
            let are_slices = matches!((old, new), (Kind::Slice { .. }, Kind::Slice { .. }));
            if are_slices && first != old_first {
                let later = if first > old_first { &columns[0] } else { &old_columns[0] };
                return Err(Error::invalid(format!(
                    "Column \"{}\" cannot be restricted by two inequalities not starting with the same column",
                    later.name
                )));
            }
            if let Some(conflict) = conflict(old, new) {
                // Slices that begin at one column are one restriction to Cassandra, as long as the longest.
                let begin_there =
                    self.clustering().filter(|(old, _)| positions(old).0 == old_first);
                let longest = begin_there.map(|(old, _)| old).max_by_key(|old| old.len());
                let names = in_common(longest.unwrap_or(old_columns), columns);
                return Err(conflict.error(&names));
            }
        }
        Ok(())
    }

    /// Refuses a restriction of a clustering column behind one that is compared: rows are sought by the columns
    /// before, and what is behind it would be filtered.
    fn check_order(&self, columns: &[Column], new: &Kind) -> Result<()> {
        let Some((last_columns, last)) = self.clustering().max_by_key(|(old, _)| positions(old).1)
        else {
            return Ok(());
        };
        let (first, last_first) = (positions(columns).0, positions(last_columns).0);
        if matches!(last, Kind::Slice { .. }) && first > last_first {
            return Err(Error::invalid(format!(
                "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
                columns[0].name, last_columns[0].name
            )));
        }
        if !matches!(new, Kind::Slice { .. }) || first >= last_first {
            return Ok(());
        }
        let restricted = self.clustering().flat_map(|(old, _)| old);
        let behind = restricted.filter(|column| usize::from(column.position) > first);
        match behind.min_by_key(|column| column.position) {
            Some(next) => Err(Error::invalid(format!(
                "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
                next.name, columns[0].name
            ))),
            None => Ok(()),
        }
    }
}

/// The names of the columns that are in both.
fn in_common(old: &[Column], new: &[Column]) -> String {
    let is_new = |column: &&Column| new.iter().any(|new| new.id == column.id);
    let names: Vec<&str> = old.iter().filter(is_new).map(|column| &*column.name).collect();
    names.join(" ,")
}

/// Why two restrictions of the same columns do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conflict {
    /// The older is a CONTAINS.
    Contains,
    /// The older is a LIKE.
    Like,
    /// The older is an equality.
    Equal,
    /// The older is an IN.
    In,
    /// The older is a slice, the other is none.
    Slice,
    /// Both are lower bounds.
    Start,
    /// Both are upper bounds.
    End,
}

/// Why these restrictions of the same columns do not go together, if they do not: the older one decides.
fn conflict(old: &Kind, new: &Kind) -> Option<Conflict> {
    match (old, new) {
        (Kind::Contains(_), Kind::Contains(_)) => None,
        (Kind::Contains(_), _) => Some(Conflict::Contains),
        (Kind::Like(_), _) => Some(Conflict::Like),
        (Kind::ValueSet(ValueSet::One(_)), _) => Some(Conflict::Equal),
        (Kind::ValueSet(_), _) => Some(Conflict::In),
        (Kind::Slice { lower: a, upper: b }, Kind::Slice { lower: c, upper: d }) => {
            if a.is_some() && c.is_some() {
                Some(Conflict::Start)
            } else {
                (b.is_some() && d.is_some()).then_some(Conflict::End)
            }
        }
        (Kind::Slice { .. }, _) => Some(Conflict::Slice),
    }
}

impl Conflict {
    #[cold]
    fn error(self, name: &str) -> Error {
        let more = format!("{name} cannot be restricted by more than one relation if it includes");
        Error::invalid(match self {
            Conflict::Contains => format!(
                "Collection column {name} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
            ),
            Conflict::Like => format!("{more} a LIKE"),
            Conflict::Equal => format!("{more} an Equal"),
            Conflict::In => format!("{more} a IN"),
            Conflict::Slice => format!(
                "Column \"{name}\" cannot be restricted by both an equality and an inequality relation"
            ),
            Conflict::Start => {
                format!("More than one restriction was found for the start bound on {name}")
            }
            Conflict::End => {
                format!("More than one restriction was found for the end bound on {name}")
            }
        })
    }
}

/// Two restrictions of the same columns as one.
fn merged(name: &str, old: Kind, new: Kind) -> Result<Kind> {
    if let Some(conflict) = conflict(&old, &new) {
        return Err(conflict.error(name));
    }
    match (old, new) {
        (Kind::Contains(mut all), Kind::Contains(more)) => {
            all.extend(more);
            Ok(Kind::Contains(all))
        }
        (Kind::Slice { lower: a, upper: b }, Kind::Slice { lower: c, upper: d }) => {
            Ok(Kind::Slice { lower: a.or(c), upper: b.or(d) })
        }
        _ => unreachable!("only two CONTAINS or two slices go together"),
    }
}

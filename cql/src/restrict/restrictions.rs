//! The restrictions of a statement: one for each column or tuple of columns, merged where they meet.
//!
//! `merge_single` and `merge_multi` join a restriction with what its columns have already (`a > 1 AND a < 3` is one
//! slice), or refuse it in Cassandra's words.
//!
//! Invariant: a column has one restriction, and is in one tuple at most; only slices of different lengths,
//! such as `(a, b) > (1, 2) AND a < 3`, may begin at the same column, each with another end. Not here: how a relation
//! becomes a restriction (`gather.rs`).

use model::schema::Column;

use super::{ValueSet, Values};
use crate::error::{Error, Result};
use crate::expr::Term;

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

impl TupleRestriction {
    /// The position of the first column, and that behind the last.
    fn positions(&self) -> (usize, usize) {
        let first = usize::from(self.columns[0].position);
        (first, first + self.columns.len())
    }
}

/// All restrictions of a statement.
#[derive(Default)]
pub(super) struct Restrictions {
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

    /// Adds the restriction of one column.
    pub(super) fn merge_single(&mut self, new: ColumnRestriction) -> Result<()> {
        let name = &new.column.name;
        let is = |column: &Column| column.id == new.column.id;
        let of_tuple = |multi: &&TupleRestriction| multi.columns.iter().any(is);
        if let Some(multi) = self.multis.iter().find(of_tuple) {
            if multi.columns[0].id != new.column.id {
                return Err(mixed(name));
            }
            other_ends(name, &multi.kind, &new.kind)?;
            self.multis.push(TupleRestriction { columns: vec![new.column], kind: new.kind });
            return Ok(());
        }
        let Some(index) = self.singles.iter().position(|old| is(&old.column)) else {
            self.singles.push(new);
            return Ok(());
        };
        let old = self.singles.remove(index);
        let kind = merged(name, old.kind, new.kind)?;
        self.singles.insert(index, ColumnRestriction { column: old.column, kind });
        Ok(())
    }

    /// Adds the restriction of a tuple of columns.
    pub(super) fn merge_multi(&mut self, new: TupleRestriction) -> Result<()> {
        let first = &new.columns[0];
        let of_single =
            |single: &&ColumnRestriction| new.columns.iter().any(|c| c.id == single.column.id);
        if let Some(single) = self.singles.iter().find(of_single) {
            if first.id != single.column.id {
                return Err(mixed(&single.column.name));
            }
            other_ends(&first.name, &single.kind, &new.kind)?;
            self.multis.push(new);
            return Ok(());
        }
        // Each has clustering columns that follow each other.
        let (begin, end) = new.positions();
        let meets = |old: &TupleRestriction| {
            let (first, behind) = old.positions();
            first < end && begin < behind
        };
        let Some(index) = self.multis.iter().position(meets) else {
            self.multis.push(new);
            return Ok(());
        };
        let old = self.multis.remove(index);
        if old.columns[0].id != first.id {
            return Err(Error::invalid(format!(
                "Column \"{}\" cannot be restricted by two inequalities not starting with the same column",
                first.name
            )));
        }
        if old.columns.len() != new.columns.len() {
            // Two slices over tuples of different lengths are two parts, cut one after the other.
            other_ends(&first.name, &old.kind, &new.kind)?;
            self.multis.insert(index, old);
            self.multis.push(new);
            return Ok(());
        }
        let kind = merged(&super::names(&new.columns), old.kind, new.kind)?;
        self.multis.insert(index, TupleRestriction { columns: old.columns, kind });
        Ok(())
    }
}

/// Two restrictions of the same columns as one.
fn merged(name: &str, old: Kind, new: Kind) -> Result<Kind> {
    let text = match (old, new) {
        (Kind::Contains(mut all), Kind::Contains(more)) => {
            all.extend(more);
            return Ok(Kind::Contains(all));
        }
        (Kind::Contains(_), _) | (_, Kind::Contains(_)) => format!(
            "Collection column {name} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
        ),
        (Kind::Like(_), _) | (_, Kind::Like(_)) => {
            format!("{name} cannot be restricted by more than one relation if it includes a LIKE")
        }
        (Kind::ValueSet(ValueSet::One(_)), _) => {
            format!("{name} cannot be restricted by more than one relation if it includes an Equal")
        }
        (Kind::ValueSet(_), _) => {
            format!("{name} cannot be restricted by more than one relation if it includes a IN")
        }
        (Kind::Slice { .. }, Kind::ValueSet(_)) => format!(
            "Column \"{name}\" cannot be restricted by both an equality and an inequality relation"
        ),
        (Kind::Slice { lower: a, upper: b }, Kind::Slice { lower: c, upper: d }) => {
            if a.is_some() && c.is_some() {
                format!("More than one restriction was found for the start bound on {name}")
            } else if b.is_some() && d.is_some() {
                format!("More than one restriction was found for the end bound on {name}")
            } else {
                return Ok(Kind::Slice { lower: a.or(c), upper: b.or(d) });
            }
        }
    };
    Err(Error::invalid(text))
}

/// Two restrictions of different shape may begin at one column if each is an end of a slice.
fn other_ends(name: &str, old: &Kind, new: &Kind) -> Result<()> {
    match (old, new) {
        (Kind::Slice { .. }, Kind::Slice { .. }) => {
            merged(name, old.clone(), new.clone()).map(drop)
        }
        (Kind::ValueSet(_), _) | (_, Kind::ValueSet(_)) => Err(Error::invalid(format!(
            "{name} cannot be restricted by more than one relation if it includes an Equal"
        ))),
        _ => Err(mixed(name)),
    }
}

#[cold]
fn mixed(name: &str) -> Error {
    Error::invalid(format!(
        "Column \"{name}\": Mixing single column relations and multi column relations on clustering columns is not allowed"
    ))
}

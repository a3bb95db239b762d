//! Conditions that neither keys nor slices can say, as templates of the storage's filters.

use super::gather::{Bound, ColumnRestriction, Kind, TupleRestriction};
use super::{ValueSet, Values};
use crate::bind::Bindings;
use crate::error::{Error, Result};
use model::read::{Filter, FilterTarget, Operator};
use model::schema::{Column, ColumnKind};

/// A filter whose values are bound later.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterTemplate {
    column: Column,
    operator: Operator,
    values: ValueSet,
}

impl FilterTemplate {
    /// The column it looks at.
    pub fn column(&self) -> &Column {
        &self.column
    }

    /// The filter with these bindings.
    pub fn eval(&self, bindings: &Bindings<'_>) -> Result<Filter> {
        let columns = vec![self.column.clone(); self.width()];
        let values = self.values.eval(&columns, bindings)?;
        let values = values.into_iter().flatten().map(|value| value.into_owned().into()).collect();
        let target = match self.column.kind {
            ColumnKind::PartitionKey => FilterTarget::PartitionKey(self.column.position),
            ColumnKind::Clustering => FilterTarget::Clustering(self.column.position),
            ColumnKind::Static | ColumnKind::Regular => FilterTarget::Value(self.column.id),
        };
        Ok(Filter { target, operator: self.operator, values })
    }

    /// How many values one condition has: a map entry has two.
    fn width(&self) -> usize {
        if self.operator == Operator::Entry { 2 } else { 1 }
    }
}

/// Adds the filters that a restriction of one column is.
pub(super) fn add(single: &ColumnRestriction, filters: &mut Vec<FilterTemplate>) -> Result<()> {
    let column = &single.column;
    let mut push = |operator, values| {
        filters.push(FilterTemplate { column: column.clone(), operator, values });
    };
    match &single.kind {
        Kind::ValueSet(choice) if choice.is_one() => push(Operator::Equal, choice.clone()),
        Kind::ValueSet(choice) => push(Operator::In, choice.clone()),
        Kind::Slice { lower, upper } => {
            let one = |bound: &Bound| ValueSet::One(bound.values.clone());
            if let Some(bound) = lower {
                let operator =
                    if bound.inclusive { Operator::GreaterOrEqual } else { Operator::Greater };
                push(operator, one(bound));
            }
            if let Some(bound) = upper {
                let operator = if bound.inclusive { Operator::LessOrEqual } else { Operator::Less };
                push(operator, one(bound));
            }
        }
        Kind::Contains(all) => {
            for (operator, terms) in all {
                push(*operator, ValueSet::One(Values::Each(terms.clone())));
            }
        }
    }
    Ok(())
}

/// Adds the filters that a restriction of several columns is.
pub(super) fn add_multi(multi: &TupleRestriction, filters: &mut Vec<FilterTemplate>) -> Result<()> {
    let Kind::ValueSet(ValueSet::One(Values::Each(terms))) = &multi.kind else {
        let what = if matches!(multi.kind, Kind::Slice { .. }) { "slice" } else { "IN" };
        return Err(Error::invalid(format!(
            "Multi-column {what} restrictions cannot be used for filtering."
        )));
    };
    for (column, term) in multi.columns.iter().zip(terms) {
        let values = ValueSet::One(Values::Each(vec![term.clone()]));
        let column = column.clone();
        filters.push(FilterTemplate { column, operator: Operator::Equal, values });
    }
    Ok(())
}

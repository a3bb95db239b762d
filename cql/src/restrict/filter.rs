//! Conditions that neither keys nor slices can say, as templates of the storage's filters.
//!
//! 1. `add` and `add_multi` make templates of a restriction when the statement is prepared: a slice is one for each of
//!    its bounds, a tuple one for each column.
//! 2. `FilterTemplate::eval_as_bound`, for an index lookup, evaluates the values when the statement is executed. The
//!    pattern of a LIKE is read then, since it may be bound. The values of an IN are put into order. For rows
//!    `eval_in_form` also brings the values into the form of the index and into their ordered forms, which is counted.
//! 3. `of_indexed` makes templates of all restrictions on columns with an index: the index may be asked with them, also
//!    where a slice of clustering keys says the same. If the partitions are named, only filters are asked for.
//!
//! Invariants: a value that is null or not set is refused, but a null in an IN, which equals nothing; a template has
//! the analysis of the index that its operator uses, so rows are judged as the index compares.
//!
//! Not here: which restrictions become filters, and whether that needs ALLOW FILTERING (`restrict.rs`, `rows.rs`,
//! `partition.rs`), which index serves which (`indexed.rs`), whether a row satisfies a filter
//! (`model/src/read/filter.rs`).

use model::ordered::TypeWork;
use model::read::{Filter, FilterTarget, Like, Operator};
use model::schema::{Analysis, Column, ColumnKind, Table};

use super::restrictions::{Bound, ColumnRestriction, Kind, Restrictions, TupleRestriction};
use super::{ValueSet, Values, check_product, indexed};
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, SortCost};
use crate::planted::{Bug, planted};

/// A filter whose values are bound later.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterTemplate {
    column: Column,
    operator: Operator,
    values: ValueSet,
    analysis: Analysis,
    /// Whether an index finds what is inside of texts: of LIKE alone.
    is_found_inside: bool,
}

impl FilterTemplate {
    /// The column it looks at.
    pub fn column(&self) -> &Column {
        &self.column
    }

    /// Whether it lets one value of the column pass.
    pub(super) fn is_equal(&self, column: &Column) -> bool {
        self.column.id == column.id && self.operator == Operator::Equal
    }

    /// The filter for rows, with the values in the form of the index and in order ([`Filter::into_form`]).
    pub fn eval_in_form(&self, bindings: &Bindings<'_>) -> Result<Filter> {
        let filter = self.eval_as_bound(bindings)?;
        for (ty, value) in filter.values_to_order(&self.column.ty) {
            bindings.work.take_ordered(ty, value)?;
        }
        Ok(filter.into_form(&self.column.ty))
    }

    /// The filter for an index lookup, with the values as they were bound: the index makes its terms of those.
    pub fn eval_as_bound(&self, bindings: &Bindings<'_>) -> Result<Filter> {
        // Each row is compared with all of them.
        let count = self.values.count(std::slice::from_ref(&self.column), bindings);
        check_product(std::iter::once(count), "filter")?;
        let values = match &self.values {
            ValueSet::One(Values::Each(terms)) => terms
                .iter()
                .enumerate()
                .map(|(index, term)| self.operand(index, term.eval(bindings)?))
                .collect::<Result<_>>()?,
            ValueSet::Many(all) => self.listed(all, bindings)?,
            values => {
                let values = values.eval(std::slice::from_ref(&self.column), bindings)?;
                values.into_iter().flatten().map(|value| value.into_owned().into()).collect()
            }
        };
        let target = match self.column.kind {
            ColumnKind::PartitionKey => FilterTarget::PartitionKey(self.column.position),
            ColumnKind::Clustering => FilterTarget::Clustering(self.column.position),
            ColumnKind::Static | ColumnKind::Regular => FilterTarget::Value(self.column.id),
        };
        let (operator, values) = match self.operator {
            Operator::Like(_) => self.pattern(values)?,
            Operator::In => (Operator::In, self.in_order(values)?),
            operator => (operator, values),
        };
        Ok(Filter::new(target, operator, values, self.analysis))
    }

    /// What a LIKE looks for, and where: `%` stands for any text, at the ends of the pattern alone.
    fn pattern(&self, values: Vec<Box<[u8]>>) -> Result<(Operator, Vec<Box<[u8]>>)> {
        let pattern = values.first().map(|value| &value[..]).unwrap_or_default();
        let behind = pattern.strip_prefix(b"%");
        let (like, value) = match (behind, pattern.strip_suffix(b"%")) {
            (Some(behind), Some(_)) => {
                (Like::Contains, behind.strip_suffix(b"%").unwrap_or_default())
            }
            (None, Some(before)) => (Like::Prefix, before),
            (Some(behind), None) => (Like::Suffix, behind),
            (None, None) => (Like::Matches, pattern),
        };
        if value.is_empty() {
            return Err(Error::invalid("LIKE value can't be empty."));
        }
        if matches!(like, Like::Suffix | Like::Contains) && !self.is_found_inside {
            return Err(Error::invalid(format!(
                "{} {} {} is only supported on properly indexed columns",
                self.column.name,
                like.symbol(),
                String::from_utf8_lossy(value)
            )));
        }
        Ok((Operator::Like(like), vec![value.into()]))
    }

    /// The bytes of an operand of a comparison: of a map's entry there are two, the key before the
    /// value.
    fn operand(&self, index: usize, value: Evaluated<'_>) -> Result<Box<[u8]>> {
        let missing = match &value {
            Evaluated::Bytes(bytes) => return Ok(bytes[..].into()),
            Evaluated::Null => "null",
            Evaluated::Unset => "unset",
        };
        let what = match (self.operator, index) {
            (Operator::Entry, 0) => "map key",
            (Operator::Entry, _) => "map value",
            _ => "value",
        };
        let column = &self.column.name;
        Err(Error::invalid(format!("Unsupported {missing} {what} for column {column}")))
    }

    /// The values of an IN in order: so a row's value is searched among them.
    fn in_order(&self, mut values: Vec<Box<[u8]>>) -> Result<Vec<Box<[u8]>>> {
        let (ty, mut cost) = (&self.column.ty, SortCost::default());
        let of_type = TypeWork::of(ty);
        values.iter().try_for_each(|value| cost.add((ty, of_type), value))?;
        self.column.ty.sort(&mut values);
        Ok(values)
    }

    /// The values of an `IN (a, b)`: nothing equals a null among them.
    fn listed(&self, all: &[Values], bindings: &Bindings<'_>) -> Result<Vec<Box<[u8]>>> {
        let mut values = Vec::with_capacity(all.len());
        for one in all {
            match one {
                Values::Each(terms) => match terms[0].eval(bindings)? {
                    Evaluated::Null => {}
                    value => values.push(self.operand(0, value)?),
                },
                // `(c) IN (?, ?)`: each marker is a tuple of one.
                Values::Whole(_) => {
                    let fields = one.eval(std::slice::from_ref(&self.column), bindings)?;
                    values.extend(fields.into_iter().map(|field| field.into_owned().into()));
                }
            }
        }
        Ok(values)
    }
}

/// Adds the filters that a restriction of one column is.
pub(super) fn add(
    single: &ColumnRestriction,
    table: &Table,
    filters: &mut Vec<FilterTemplate>,
) -> Result<()> {
    let column = &single.column;
    let is_found_inside = indexed::finds_inside(table, column);
    let mut push = |operator, values| {
        let analysis = indexed::analysis(table, column, operator);
        filters.push(FilterTemplate {
            column: column.clone(),
            operator,
            values,
            analysis,
            is_found_inside,
        });
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
                let is_within = bound.inclusive || planted(Bug::FilterTakesBound);
                let operator = if is_within { Operator::LessOrEqual } else { Operator::Less };
                push(operator, one(bound));
            }
        }
        Kind::Like(term) => {
            let values = ValueSet::One(Values::Each(vec![term.clone()]));
            push(Operator::Like(Like::Matches), values);
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
pub(super) fn add_multi(
    multi: &TupleRestriction,
    table: &Table,
    filters: &mut Vec<FilterTemplate>,
) -> Result<()> {
    let Kind::ValueSet(ValueSet::One(values)) = &multi.kind else {
        let what = if matches!(multi.kind, Kind::Slice { .. }) { "slice" } else { "IN" };
        return Err(Error::invalid(format!(
            "Multi-column {what} restrictions cannot be used for filtering."
        )));
    };
    for (index, column) in multi.columns.iter().enumerate() {
        let term = match values {
            Values::Each(terms) => terms[index].clone(),
            Values::Whole(tuple) => tuple.clone().field(index, column.ty.clone()),
        };
        let values = ValueSet::One(Values::Each(vec![term]));
        let (column, operator) = (column.clone(), Operator::Equal);
        let analysis = indexed::analysis(table, &column, operator);
        filters.push(FilterTemplate { column, operator, values, analysis, is_found_inside: false });
    }
    Ok(())
}

/// The conditions on columns that have indexes.
pub(super) fn of_indexed(gathered: &Restrictions, table: &Table) -> Result<Vec<FilterTemplate>> {
    let mut all = Vec::new();
    let has_index = |column: &Column| table.indexes_of(column.id).next().is_some();
    for single in gathered.singles.iter().filter(|single| has_index(&single.column)) {
        add(single, table, &mut all)?;
    }
    for multi in gathered.multis.iter().filter(|multi| multi.columns.iter().any(has_index)) {
        // Of other conditions on tuples an index of one column tells nothing.
        if matches!(&multi.kind, Kind::ValueSet(ValueSet::One(_))) {
            add_multi(multi, table, &mut all)?;
        }
    }
    Ok(all)
}

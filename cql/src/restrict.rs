//! The relations of a `WHERE`, sorted into what storage can do with them.
//!
//! ```text
//! relations ──gather──► one restriction per column ──┬─► partitions   keys, tokens, or all
//!                                                    ├─► rows         a prefix, then one slice
//!                                                    └─► filters      the rest: ALLOW FILTERING
//! ```
//!
//! Which combinations are refused, and in which words, is Cassandra's (`StatementRestrictions`).

mod filter;
mod gather;
mod indexed;
mod partition;
mod restrictions;
mod rows;

use std::borrow::Cow;

pub use filter::FilterTemplate;
pub(crate) use gather::contained;
use indexed::{IndexUse, LeftToFilters, Served};
use model::CqlType;
use model::schema::{Column, ColumnId, ColumnKind, Table};
use model::types::{collection_elements, tuple_fields};
pub use partition::{PartitionChoice, TokenBound, TokenBounds};
pub(crate) use partition::{check_product, for_each_key};
pub use restrictions::Bound;
use restrictions::{BehindSlice, Restrictions};
pub use rows::{RowChoice, RowKey, RowPart};

use crate::bind::Bindings;
use crate::error::{Error, Result};
pub(crate) use crate::expr::undefined;
use crate::expr::{Compiler, Evaluated, Term};
use crate::lang::ast::{Expr, Relation};

/// What is said without `ALLOW FILTERING`.
pub const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING";

/// The statement whose `WHERE` is analysed: what may be restricted, and how, depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// `SELECT`, which may filter or not.
    Select {
        /// Whether `ALLOW FILTERING` was written.
        filtering: bool,
        /// The column of vectors that its rows are ordered by, `ANN OF`.
        nearest: Option<ColumnId>,
    },
    /// `INSERT`: its key columns with their values are read as the relations of a `WHERE`.
    Insert,
    /// `UPDATE`: names rows by their keys.
    Update,
    /// `DELETE`: names partitions, stretches of rows, or rows.
    Delete,
}

impl StatementKind {
    fn name(self) -> &'static str {
        match self {
            StatementKind::Select { .. } => "SELECT",
            StatementKind::Insert => "INSERT",
            StatementKind::Update => "UPDATE",
            StatementKind::Delete => "DELETE",
        }
    }
}

/// The values that one or several columns must have together.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// One term for each column.
    Each(Vec<Term>),
    /// One marker for all of them: a tuple.
    Whole(Term),
}

impl Values {
    /// The bytes of each column.
    pub fn eval<'a>(
        &'a self,
        columns: &[Column],
        bindings: &'a Bindings<'_>,
    ) -> Result<Vec<Cow<'a, [u8]>>> {
        match self {
            Values::Each(terms) => terms
                .iter()
                .zip(columns)
                .map(|(term, column)| required(term.eval(bindings)?, &column.name))
                .collect(),
            Values::Whole(term) => {
                let value = required(term.eval(bindings)?, &names(columns))?;
                split_tuple(&value, columns)
            }
        }
    }
}

/// The bytes of a value that may not be missing.
fn required<'a>(value: Evaluated<'a>, column: &str) -> Result<Cow<'a, [u8]>> {
    match value {
        Evaluated::Bytes(bytes) => Ok(bytes),
        missing => Err(missing.required(column).expect_err("it has no bytes")),
    }
}

/// The bytes of the list that is bound to an `IN ?`; `what` is the end of the error if there is none.
fn listed(value: Evaluated<'_>, what: impl Fn() -> String) -> Result<Cow<'_, [u8]>> {
    let missing = match value {
        Evaluated::Bytes(bytes) => return Ok(bytes),
        Evaluated::Null => "null",
        Evaluated::Unset => "unset",
    };
    Err(Error::invalid(format!("Invalid {missing} {}", what())))
}

/// The list that is bound to `column IN ?`.
fn list_of_values<'a>(
    term: &'a Term,
    columns: &[Column],
    bindings: &'a Bindings<'_>,
) -> Result<Cow<'a, [u8]>> {
    listed(term.eval(bindings)?, || format!("value for column {}", names(columns)))
}

/// The list that is bound to `(a, b) IN ?`.
fn list_of_tuples<'a>(term: &'a Term, bindings: &'a Bindings<'_>) -> Result<Cow<'a, [u8]>> {
    listed(term.eval(bindings)?, || "value for IN restriction".to_owned())
}

/// The fields of a tuple, one for each column; a null is an error.
fn fields_of<'a>(value: &'a [u8], columns: &'a [Column]) -> impl Iterator<Item = Result<&'a [u8]>> {
    let mut fields = tuple_fields(value);
    columns.iter().map(move |column| {
        fields.next().transpose()?.flatten().ok_or_else(|| {
            Error::invalid(format!("Invalid null value in condition for column {}", column.name))
        })
    })
}

/// The same, copied.
fn split_tuple<'a>(value: &[u8], columns: &[Column]) -> Result<Vec<Cow<'a, [u8]>>> {
    fields_of(value, columns).map(|field| Ok(Cow::Owned(field?.to_vec()))).collect()
}

/// One of several values.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueSet {
    /// An equality: `= value`.
    One(Values),
    /// `IN (a, b)`.
    Many(Vec<Values>),
    /// `IN ?`: a list of values.
    Listed(Term),
    /// `(a, b) IN ?`: a list of tuples.
    ListedTuples(Term),
}

impl ValueSet {
    /// `IN (a, b)`: of one value it is the same as `=`, as in Cassandra.
    fn of(mut values: Vec<Values>) -> ValueSet {
        match values.len() {
            1 => ValueSet::One(values.remove(0)),
            _ => ValueSet::Many(values),
        }
    }

    /// Every value it can be, in the order given.
    pub fn eval<'a>(
        &'a self,
        columns: &[Column],
        bindings: &'a Bindings<'_>,
    ) -> Result<Vec<Vec<Cow<'a, [u8]>>>> {
        match self {
            ValueSet::One(values) => Ok(vec![values.eval(columns, bindings)?]),
            ValueSet::Many(all) => {
                all.iter().map(|values| values.eval(columns, bindings)).collect()
            }
            ValueSet::Listed(term) => {
                let list = list_of_values(term, columns, bindings)?;
                let items = collection_elements(&list)?;
                items.map(|item| Ok(vec![Cow::Owned(item?.to_vec())])).collect()
            }
            ValueSet::ListedTuples(term) => {
                let list = list_of_tuples(term, bindings)?;
                collection_elements(&list)?.map(|item| split_tuple(item?, columns)).collect()
            }
        }
    }

    /// How many values it can be, known before any is copied: a list that is bound may have millions.
    pub(crate) fn count(&self, columns: &[Column], bindings: &Bindings<'_>) -> Result<usize> {
        let list = match self {
            ValueSet::One(_) => return Ok(1),
            ValueSet::Many(all) => return Ok(all.len()),
            ValueSet::Listed(term) => list_of_values(term, columns, bindings)?,
            ValueSet::ListedTuples(term) => list_of_tuples(term, bindings)?,
        };
        Ok(collection_elements(&list)?.left() as usize)
    }

    /// Refuses what [`eval`](Self::eval) refuses, and copies no value of a list that is bound: it may have millions.
    fn check(&self, columns: &[Column], bindings: &Bindings<'_>) -> Result<()> {
        match self {
            ValueSet::One(values) => values.eval(columns, bindings).map(drop),
            ValueSet::Many(all) => {
                all.iter().try_for_each(|values| values.eval(columns, bindings).map(drop))
            }
            ValueSet::Listed(term) => {
                let list = list_of_values(term, columns, bindings)?;
                collection_elements(&list)?.try_for_each(|item| Ok(item.map(drop)?))
            }
            ValueSet::ListedTuples(term) => {
                let list = list_of_tuples(term, bindings)?;
                let mut items = collection_elements(&list)?;
                items.try_for_each(|item| {
                    fields_of(item?, columns).try_for_each(|field| field.map(drop))
                })
            }
        }
    }

    /// Whether it is a single value.
    pub fn is_one(&self) -> bool {
        matches!(self, ValueSet::One(_))
    }
}

/// Judges the values of columns of which one has an empty list: those before the first that has one, as Cassandra does.
fn check_before_empty<'c>(
    all: impl Iterator<Item = (&'c [Column], &'c ValueSet)>,
    bindings: &Bindings<'_>,
) -> Result<()> {
    for (columns, values) in all {
        if values.count(columns, bindings)? == 0 {
            break;
        }
        values.check(columns, bindings)?;
    }
    Ok(())
}

/// Names with commas between.
fn names(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    names.join(", ")
}

/// A `WHERE`, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Where {
    /// Which partitions are addressed.
    pub partitions: PartitionChoice,
    /// Which rows of these partitions are addressed.
    pub rows: RowChoice,
    /// What a row must fulfil beside, read and compared one by one.
    pub filters: Vec<FilterTemplate>,
    /// Conditions of the wanted rows of which indexes may know something.
    pub looked_up: Vec<FilterTemplate>,
    /// Whether it uses an index, as Cassandra has it: such a SELECT has no ORDER BY.
    pub uses_index: bool,
    /// Whether it must say ALLOW FILTERING and does not. Cassandra refuses that after all else of a SELECT, but
    /// conditions that only a filter or an index knows at once.
    pub needs_filtering: bool,
}

impl Where {
    /// Sorts the relations of a statement on the compiler's table.
    pub fn analyse(
        relations: &[Relation],
        statement_kind: StatementKind,
        compiler: &mut Compiler<'_>,
    ) -> Result<Where> {
        let table = compiler.table;
        let behind_slice = match statement_kind {
            StatementKind::Select { filtering: true, .. } => BehindSlice::All,
            StatementKind::Select { filtering: false, .. } => BehindSlice::Indexed,
            _ => BehindSlice::None,
        };
        let mut gathered = Restrictions { behind_slice, ..Restrictions::default() };
        for relation in relations {
            gathered.add(relation, compiler)?;
        }
        let StatementKind::Select { filtering, nearest } = statement_kind else {
            return Where::of_write(gathered, statement_kind, table);
        };
        let served = Served::of(&gathered, table, nearest);
        served.check_vectors()?;
        let filtering_here = filtering || served.has_index();
        let statement_kind = StatementKind::Select { filtering: filtering_here, nearest };
        let mut filters = Vec::new();
        let mut looked_up = filter::of_indexed(&gathered, table)?;
        let partitions = partition::choose(&mut gathered, statement_kind, table, &mut filters)?;
        let rows = rows::choose(&mut gathered, statement_kind, table, &mut filters)?;
        let of_rows = |one: &FilterTemplate| one.column().kind == ColumnKind::Clustering;
        let left = LeftToFilters { clustering: filters.iter().any(of_rows), filtering };
        for single in gathered.singles {
            filter::add(&single, table, &mut filters)?;
        }
        // Without a key all rows are read, and conditions on clustering columns drop those that do not match: that is
        // filtering, too.
        let keyed = matches!(partitions, PartitionChoice::Keys { .. });
        let drops_rows = !keyed && !rows.parts.is_empty();
        let (uses_index, needs_filtering) = match served.check_use(&partitions, left)? {
            IndexUse::None if !filtering && !filters.is_empty() => {
                return Err(Error::invalid(NEEDS_FILTERING));
            }
            IndexUse::None => (false, !filtering && drops_rows),
            IndexUse::Allowed => (true, false),
            IndexUse::WithFiltering => (true, true),
        };
        if keyed {
            // Keys and slices find their rows without an index.
            looked_up.retain(|one| filters.contains(one));
        }
        Ok(Where { partitions, rows, filters, looked_up, uses_index, needs_filtering })
    }

    /// The `WHERE` of a write: partitions and rows by their keys, and nothing that is filtered.
    fn of_write(
        mut gathered: Restrictions,
        statement_kind: StatementKind,
        table: &Table,
    ) -> Result<Where> {
        let partitions = partition::choose(&mut gathered, statement_kind, table, &mut Vec::new())?;
        let rows = rows::choose(&mut gathered, statement_kind, table, &mut Vec::new())?;
        refuse_values(&gathered)?;
        Ok(Where {
            partitions,
            rows,
            filters: Vec::new(),
            looked_up: Vec::new(),
            uses_index: false,
            needs_filtering: false,
        })
    }

    /// The `WHERE` that the key columns of an `INSERT` are, each with its value: `k = 1 AND c = 2`.
    pub fn of_insert(columns: &[(&Column, &Expr)], compiler: &mut Compiler<'_>) -> Result<Where> {
        let table = compiler.table;
        let mut gathered = Restrictions::default();
        for (column, value) in columns {
            gathered.add_equal(column, value, compiler)?;
        }
        Where::of_write(gathered, StatementKind::Insert, table)
    }
}

impl Where {
    /// Whether a column of the primary key has exactly one value, by which its rows are sought or filtered.
    pub fn has_one_value(&self, column: &Column) -> bool {
        let at = usize::from(column.position);
        let is_sought = match (&self.partitions, column.kind) {
            (PartitionChoice::Keys { columns, .. }, ColumnKind::PartitionKey) => {
                columns[at].is_one()
            }
            (_, ColumnKind::Clustering) => self.rows.is_equal_at(at),
            _ => false,
        };
        is_sought || self.filters.iter().any(|filter| filter.is_equal(column))
    }
}

/// A write names rows by their keys only.
fn refuse_values(gathered: &Restrictions) -> Result<()> {
    let values: Vec<&str> = gathered
        .singles
        .iter()
        .filter(|single| single.column.kind >= ColumnKind::Static)
        .map(|single| single.column.name.as_str())
        .collect();
    if values.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "Non PRIMARY KEY columns found in where clause: {} ",
        values.join(", ")
    )))
}

/// The list type of an `IN ?` over these columns.
fn list_of(columns: &[&Column], as_tuple: TupleForm) -> CqlType {
    let element = match (as_tuple, columns) {
        (TupleForm::Plain, [column]) => column.ty.clone(),
        _ => tuple_of(columns),
    };
    CqlType::List { element: element.into(), frozen: true }
}

/// The tuple type of these columns.
fn tuple_of(columns: &[&Column]) -> CqlType {
    CqlType::Tuple(columns.iter().map(|column| column.ty.frozen()).collect())
}

/// Whether one column stands in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TupleForm {
    Plain,
    Tuple,
}

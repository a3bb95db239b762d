//! Which rows of a partition a `WHERE` names: a prefix of clustering columns by value, then at most
//! one slice, as stretches of clustering keys.
//!
//! ```text
//! a = 1 AND b IN (2, 3) AND c > 4        prefixes 1·2 and 1·3, each with one stretch behind 4
//! (a, b) > (1, 2)                        a = 1 AND b > 2,  then  a > 1
//! ```
//!
//! A tuple over columns of both directions is several stretches of the order of storage; those
//! that touch become one.

use std::borrow::Cow;

use model::key::check_clustering_form;
use model::limits::{KEY_BYTES_MAX, KEY_MISSING_BYTES_MAX};
use model::ordered::{AFTER, encode_component, put_null};
use model::read::Slice;
use model::row::Written;
use model::schema::{Column, ColumnKind, Table};

use super::partition::{check_product, check_total};
use super::restrictions::{Bound, ColumnRestriction, Kind, Restrictions, TupleRestriction};
use super::{FilterTemplate, StatementKind, ValueSet, Values, check_before_empty, filter};
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, ExpressionWork};

/// A restriction of clustering columns, the first of them at `first`.
#[derive(Clone, Debug, PartialEq)]
pub enum RowPart {
    /// The column has one of these values.
    ValueSet {
        /// The first column.
        first: usize,
        /// The number of columns.
        count: usize,
        /// The values that the column may have.
        values: ValueSet,
    },
    /// The columns lie between two bounds.
    Slice {
        /// The first column.
        first: usize,
        /// How many columns its bounds have.
        count: usize,
        /// The lower bound; `None` from the first row on.
        lower: Option<Bound>,
        /// The upper bound; `None` to the last row.
        upper: Option<Bound>,
    },
}

/// What a slice of one column that ends at null is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NullBound {
    /// An error: a write would delete what its user does not expect.
    #[default]
    Refused,
    /// Where the partition begins in the order of storage, as Cassandra's reads have it.
    First,
}

/// What a key longer than any row's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TooLong {
    /// The key of no row: a read finds nothing there, a range has nothing to delete.
    NoRow,
    /// An error: it cannot be written.
    Refused,
}

/// Which rows: parts in the order of columns, slices last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowChoice {
    /// The restrictions of the clustering columns, in their order.
    pub parts: Vec<RowPart>,
    null_bound: NullBound,
    /// How many of the last columns a row that is written leaves out: of compact tables alone.
    left_out: usize,
}

/// Takes the restrictions of clustering columns out of `gathered`.
pub(super) fn choose(
    gathered: &mut Restrictions,
    statement_kind: StatementKind,
    table: &Table,
    filters: &mut Vec<FilterTemplate>,
) -> Result<RowChoice> {
    let is_clustering =
        |single: &mut ColumnRestriction| single.column.kind == ColumnKind::Clustering;
    let singles = gathered.singles.extract_if(.., is_clustering);
    let mut all: Vec<TupleRestriction> = singles
        .map(|single| TupleRestriction { columns: vec![single.column], kind: single.kind })
        .chain(std::mem::take(&mut gathered.multis))
        .collect();
    all.sort_by_key(|multi| multi.columns[0].position);
    let filtering = matches!(statement_kind, StatementKind::Select { filtering: true, .. });
    let refuses_slices = matches!(statement_kind, StatementKind::Insert | StatementKind::Update);
    let null_bound = match statement_kind {
        StatementKind::Select { .. } => NullBound::First,
        _ => NullBound::Refused,
    };
    let mut choice = RowChoice { null_bound, ..RowChoice::default() };
    let mut next = 0;
    let mut sliced: Option<TupleRestriction> = None;
    for multi in all {
        let first = usize::from(multi.columns[0].position);
        // A second slice may only begin at the column of the first, as in (a, b) > (1, 2) AND a < 3: both are ends of
        // one stretch. Of columns after a slice nothing can be sought.
        let same_start = sliced.as_ref().is_some_and(|s| s.columns[0].id == multi.columns[0].id);
        let usable = match (&sliced, &multi.kind) {
            (_, Kind::Contains(_) | Kind::Like(_)) => false,
            (Some(_), Kind::Slice { .. }) if same_start => true,
            (Some(_), _) => false,
            (None, _) => first == next,
        };
        if !usable {
            if !filtering {
                return Err(cannot_use(&multi, next, table));
            }
            add_filter(multi, table, filters)?;
            continue;
        }
        if matches!(multi.kind, Kind::Slice { .. }) {
            if refuses_slices {
                return Err(Error::invalid(format!(
                    "Slice restrictions are not supported on the clustering columns in {} statements",
                    statement_kind.name()
                )));
            }
            sliced = Some(multi.clone());
        }
        let count = multi.columns.len();
        next = first + count;
        choice.parts.push(match multi.kind {
            Kind::ValueSet(values) => RowPart::ValueSet { first, count, values },
            Kind::Slice { lower, upper } => RowPart::Slice { first, count, lower, upper },
            Kind::Contains(_) | Kind::Like(_) => unreachable!("never usable"),
        });
    }
    Ok(choice)
}

fn add_filter(
    multi: TupleRestriction,
    table: &Table,
    filters: &mut Vec<FilterTemplate>,
) -> Result<()> {
    match &multi.columns[..] {
        [column] => {
            let single = ColumnRestriction { column: column.clone(), kind: multi.kind };
            filter::add(&single, table, filters)
        }
        _ => filter::add_multi(&multi, table, filters),
    }
}

/// Why a restriction cannot be part of the prefix. What cannot stand beside others is refused before
/// (`restrictions.rs`).
#[cold]
fn cannot_use(multi: &TupleRestriction, next: usize, table: &Table) -> Error {
    let name = &multi.columns[0].name;
    match (&multi.kind, table.clustering().get(next)) {
        (Kind::ValueSet(_) | Kind::Slice { .. }, Some(missing)) => Error::invalid(format!(
            "PRIMARY KEY column \"{name}\" cannot be restricted as preceding column \"{}\" is not restricted",
            missing.name
        )),
        _ => Error::invalid(
            "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering",
        ),
    }
}

impl RowChoice {
    /// Whether nothing is restricted.
    pub fn is_all(&self) -> bool {
        self.parts.is_empty()
    }

    /// Says that a write to a compact table leaves out the columns behind those that it names.
    pub fn leave_out_rest(&mut self, table: &Table) {
        self.left_out = table.clustering().len() - self.by_value();
    }

    /// How many leading columns are restricted by value.
    pub fn by_value(&self) -> usize {
        self.parts
            .iter()
            .map_while(|part| match part {
                RowPart::ValueSet { count, .. } => Some(*count),
                RowPart::Slice { .. } => None,
            })
            .sum()
    }

    /// Whether a column has several values.
    pub fn has_in(&self) -> bool {
        self.parts.iter().any(|part| match part {
            RowPart::ValueSet { values, .. } => !values.is_one(),
            RowPart::Slice { .. } => false,
        })
    }

    /// Whether every column is restricted by value: only whole rows are named.
    pub fn is_rows(&self, table: &Table) -> bool {
        self.by_value() == table.clustering().len()
    }

    /// Whether the clustering column at this position has exactly one value.
    pub fn is_equal_at(&self, column: usize) -> bool {
        self.parts.iter().any(|part| match part {
            RowPart::ValueSet { first, count, values } => {
                values.is_one() && (*first..first + count).contains(&column)
            }
            RowPart::Slice { .. } => false,
        })
    }

    /// The one row that is named, if one single row is. A read may ask for any; for a write the key
    /// is still to be checked.
    pub fn one_row(
        &self,
        table: &Table,
        bindings: &Bindings<'_>,
        key: &mut RowKey,
    ) -> Result<bool> {
        key.clear();
        for part in &self.parts {
            let RowPart::ValueSet { first, values: ValueSet::One(Values::Each(terms)), .. } = part
            else {
                return Ok(false);
            };
            for (term, column) in terms.iter().zip(&table.clustering()[*first..]) {
                let value = term.eval(bindings)?;
                key.put(column, value.required(&column.name)?, &bindings.work)?;
            }
        }
        key.put_nulls(self.left_out);
        Ok(true)
    }

    /// The rows that are named, all of their columns by value: sorted, each once.
    pub fn rows(&self, table: &Table, bindings: &Bindings<'_>) -> Result<Vec<RowKey>> {
        self.prefixes(table, bindings, TooLong::Refused)
    }

    /// The clustering keys, or their prefixes, that the parts by value name: sorted, each once.
    fn prefixes(
        &self,
        table: &Table,
        bindings: &Bindings<'_>,
        too_long: TooLong,
    ) -> Result<Vec<RowKey>> {
        let by_value = || {
            self.parts.iter().filter_map(|part| match part {
                RowPart::ValueSet { first, count, values } => {
                    Some((&table.clustering()[*first..first + count], values))
                }
                _ => None,
            })
        };
        let counts = by_value().map(|(columns, values)| values.count(columns, bindings));
        if !check_product(counts, "clustering-key")? {
            check_before_empty(by_value(), bindings)?;
            return Ok(Vec::new());
        }
        let mut lists = Vec::new();
        for (columns, values) in by_value() {
            lists.push((columns, values.eval(columns, bindings)?));
        }
        let mut prefixes = vec![RowKey::default()];
        for (index, (columns, all)) in lists.iter().enumerate() {
            bindings.work.take_prefixes(prefixes.len() * all.len())?;
            let mut longer = Vec::with_capacity(prefixes.len() * all.len());
            let mut total = 0;
            for prefix in &prefixes {
                for values in all {
                    // Known before the copy: a long value is repeated for each of the others.
                    let bytes = values.iter().map(|value| value.len()).sum::<usize>();
                    let bytes = prefix.bytes.saturating_add(bytes);
                    // A form may be longer than the values, of tuples that lack fields; those of zeros have twice the
                    // bytes.
                    let form_bytes = prefix.clustering.len() / 2;
                    if bytes > KEY_BYTES_MAX {
                        match too_long {
                            TooLong::NoRow => continue,
                            TooLong::Refused => {
                                let rest = lists[index + 1..].iter().flat_map(|(_, all)| &all[0]);
                                let rest = rest.map(|value| value.len()).sum::<usize>();
                                return Err(too_long_key(bytes + rest));
                            }
                        }
                    }
                    total += bytes.max(form_bytes);
                    check_total(total)?;
                    let mut key = prefix.clone();
                    for (column, value) in columns.iter().zip(values) {
                        key.put(column, value, &bindings.work)?;
                    }
                    longer.push(key);
                }
            }
            prefixes = longer;
        }
        prefixes.iter_mut().for_each(|key| key.put_nulls(self.left_out));
        prefixes.sort_by(|a, b| a.clustering.cmp(&b.clustering));
        prefixes.dedup_by(|b, a| a.clustering == b.clustering);
        Ok(prefixes)
    }

    /// The stretches of clustering keys that are named: sorted, disjoint, none of them empty.
    pub fn slices(&self, table: &Table, bindings: &Bindings<'_>) -> Result<Vec<Slice>> {
        let prefixes = self.prefixes(table, bindings, TooLong::NoRow)?;
        if prefixes.is_empty() {
            return Ok(Vec::new());
        }
        let mut slices: Vec<Slice> = prefixes.iter().map(|key| whole(&key.clustering)).collect();
        for part in &self.parts {
            let RowPart::Slice { first, count, lower, upper } = part else { continue };
            let columns = &table.clustering()[*first..first + count];
            for (bound, side) in [(lower, Side::Above), (upper, Side::Below)] {
                let Some(bound) = bound else { continue };
                if self.is_null(bound, bindings)? {
                    // All of them lie behind it, or none before it.
                    if (side == Side::Above) == columns[0].descending {
                        return Ok(Vec::new());
                    }
                    continue;
                }
                let values = bound.values.eval(columns, bindings)?;
                // Alone it takes what its client sent; only copies of it are many.
                if prefixes.len() > 1 || columns.len() > 1 {
                    check_total(piece_bytes(&prefixes, &values))?;
                }
                bindings.work.take_pieces(prefixes.len() * columns.len())?;
                let half = Half { columns, values: &values, side, bound, work: &bindings.work };
                let mut pieces = Vec::new();
                for prefix in &prefixes {
                    half.put_pieces(&prefix.clustering, &mut pieces)?;
                }
                slices = intersection(&slices, &joined(pieces));
            }
        }
        Ok(slices)
    }

    /// Refuses stretches that cannot be named, of no partition. A bound that is null is no such: nothing is deleted.
    #[cold]
    pub fn check_slices(&self, table: &Table, bindings: &Bindings<'_>) -> Result<()> {
        RowChoice { null_bound: NullBound::First, ..self.clone() }.slices(table, bindings).map(drop)
    }

    /// Whether a bound of one column is a null that is not refused.
    fn is_null(&self, bound: &Bound, bindings: &Bindings<'_>) -> Result<bool> {
        match (&bound.values, self.null_bound) {
            (Values::Each(terms), NullBound::First) if terms.len() == 1 => {
                Ok(terms[0].eval(bindings)? == Evaluated::Null)
            }
            _ => Ok(false),
        }
    }
}

/// Which side of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

/// A row's place in its partition.
#[derive(Clone, Debug, Default)]
pub struct RowKey {
    /// The clustering key, or a prefix of one.
    pub clustering: Vec<u8>,
    /// The values as written, where the clustering key does not keep that (`Written`).
    pub written: Vec<u8>,
    /// Bytes of the values in wire form.
    bytes: usize,
    /// Bytes of the fields that they lack: they come back with all that their types have.
    missing_bytes: usize,
}

impl RowKey {
    fn clear(&mut self) {
        self.clustering.clear();
        self.written.clear();
        self.bytes = 0;
        self.missing_bytes = 0;
    }

    /// Appends the value of the next column.
    fn put(&mut self, column: &Column, value: &[u8], work: &ExpressionWork) -> Result<()> {
        let missing_bytes = work.take_key(&column.ty, value)?;
        self.bytes += value.len();
        self.missing_bytes = self.missing_bytes.saturating_add(missing_bytes);
        Written::put(column, value, &mut self.written);
        Ok(encode_component(&column.ty, column.descending, value, &mut self.clustering)?)
    }

    /// Leaves out the next columns.
    fn put_nulls(&mut self, count: usize) {
        (0..count).for_each(|_| put_null(&mut self.clustering));
    }

    /// Whether no column has a value of any length.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Refuses a key that is too long to be a row's.
    pub fn check_bytes(&self) -> Result<()> {
        if self.bytes > KEY_BYTES_MAX {
            return Err(too_long_key(self.bytes));
        }
        Ok(check_clustering_form(self.clustering.len())?)
    }

    /// Refuses a key that is to be written, and comes back much longer than it was sent.
    pub fn check_missing_bytes(&self) -> Result<()> {
        if self.missing_bytes <= KEY_MISSING_BYTES_MAX {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "The tuples and user types of a key lack fields of {} bytes, more than maximum of \
             {KEY_MISSING_BYTES_MAX}",
            self.missing_bytes
        )))
    }
}

#[cold]
fn too_long_key(bytes: usize) -> Error {
    Error::Invalid(format!("Key length of {bytes} is longer than maximum of {KEY_BYTES_MAX}"))
}

/// Everything with the prefix.
fn whole(prefix: &[u8]) -> Slice {
    let mut end = prefix.to_vec();
    end.push(AFTER);
    Slice { start: prefix.to_vec(), end }
}

/// Bytes of what stands before each column in the pieces of a bound: for each prefix that, and the values before.
fn piece_bytes(prefixes: &[RowKey], values: &[Cow<'_, [u8]>]) -> usize {
    let each_prefix = prefixes.iter().map(|prefix| prefix.bytes).sum::<usize>();
    let lengths = values.iter().map(|value| value.len());
    let grown = lengths.scan(0usize, |before, length| {
        *before = before.saturating_add(length);
        Some(*before)
    });
    let of_values = grown.fold(0, usize::saturating_add);
    each_prefix
        .saturating_mul(values.len())
        .saturating_add(of_values.saturating_mul(prefixes.len()))
}

/// All that is on one side of a bound.
struct Half<'b> {
    /// The columns of the bound.
    columns: &'b [Column],
    /// A value for each of them.
    values: &'b [Cow<'b, [u8]>],
    side: Side,
    bound: &'b Bound,
    work: &'b ExpressionWork,
}

impl Half<'_> {
    /// Appends the stretches behind `prefix` whose columns together are on this side.
    fn put_pieces(&self, prefix: &[u8], pieces: &mut Vec<Slice>) -> Result<()> {
        let mut at = prefix.to_vec();
        for (column, value) in self.columns.iter().zip(self.values) {
            self.work.take_key(&column.ty, value)?;
            let before = at.clone();
            encode_component(&column.ty, column.descending, value, &mut at)?;
            self.work.take_piece_bytes(at.len())?;
            // Storage runs downwards where the column descends.
            if (self.side == Side::Above) != column.descending {
                pieces.push(Slice { start: whole(&at).end, end: whole(&before).end });
            } else {
                pieces.push(Slice { start: before, end: at.clone() });
            }
        }
        if self.bound.inclusive {
            pieces.push(whole(&at));
        }
        Ok(())
    }
}

/// The stretches in order, without empty ones; those that touch become one.
fn joined(mut slices: Vec<Slice>) -> Vec<Slice> {
    slices.retain(|slice| slice.start < slice.end);
    slices.sort_by(|a, b| a.start.cmp(&b.start));
    slices.dedup_by(|next, kept| {
        let touches = next.start <= kept.end;
        if touches && next.end > kept.end {
            kept.end = std::mem::take(&mut next.end);
        }
        touches
    });
    slices
}

/// What both have; both are sorted and disjoint.
fn intersection(a: &[Slice], b: &[Slice]) -> Vec<Slice> {
    let (mut i, mut j) = (0, 0);
    let mut both = Vec::new();
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let start = x.start.as_slice().max(&y.start);
        let end = x.end.as_slice().min(&y.end);
        if start < end {
            both.push(Slice { start: start.to_vec(), end: end.to_vec() });
        }
        if x.end <= y.end {
            i += 1;
        } else {
            j += 1;
        }
    }
    both
}

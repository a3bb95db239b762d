//! Which partitions a `WHERE` names: whole keys, a stretch of tokens, or all.
//!
//! ```text
//! k = 1 AND l IN (2, 3)    the keys (1, 2) and (1, 3); those whose token is inside, if token(k, l) is restricted too
//! token(k, l) > 4          tokens from 5 on
//! l = 2                    all, and a filter: needs ALLOW FILTERING or an index
//! ```
//!
//! 1. When a statement is prepared, `choose` takes the restrictions of the partition key and of the token out of what
//!    was gathered.
//! 2. When it is bound, `for_each_key` gives the keys, each once and in the order of their values as Cassandra has
//!    it, and [`TokenBounds::eval`] the tokens.
//!
//! Invariants: a write names whole keys; how many keys a statement makes, and of how many bytes, is bounded.
//! Not here: which rows of the partitions (`rows.rs`).

use std::borrow::Cow;

use model::key::put_partition_key;
use model::ordered::TypeWork;
use model::schema::{ColumnKind, Table};
use model::{CqlType, Token, TokenRange, ordered};

use super::restrictions::{Bound, ColumnRestriction, Kind, Restrictions};
use super::{FilterTemplate, NEEDS_FILTERING, StatementKind, ValueSet, check_before_empty, filter};
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, SortCost};
use crate::limits::{IN_KEY_BYTES_MAX, IN_LIST_MAX, IN_PRODUCT_MAX};
use crate::steps::step;

/// One end of a stretch of tokens.
pub type TokenBound = Bound;

/// `token(k) > a AND token(k) <= b`.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBounds {
    /// The lower bound; `None` from the first token on.
    pub lower: Option<TokenBound>,
    /// The upper bound; `None` to the last token.
    pub upper: Option<TokenBound>,
}

/// Which partitions a statement addresses.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionChoice {
    /// Every partition of the table.
    All,
    /// Those with these keys.
    Keys {
        /// The values of each partition key column.
        columns: Vec<ValueSet>,
        /// Bounds of the token that the partitions must keep too.
        token: Option<TokenBounds>,
    },
    /// Those with these tokens.
    Tokens(TokenBounds),
}

/// Takes the restrictions of the partition key out of `gathered`.
pub(super) fn choose(
    gathered: &mut Restrictions,
    statement_kind: StatementKind,
    table: &Table,
    filters: &mut Vec<FilterTemplate>,
) -> Result<PartitionChoice> {
    let is_key = |single: &mut ColumnRestriction| single.column.kind == ColumnKind::PartitionKey;
    let singles: Vec<ColumnRestriction> = gathered.singles.extract_if(.., is_key).collect();
    let select = match statement_kind {
        StatementKind::Select { filtering, .. } => Some(filtering),
        _ => None,
    };
    let token = gathered.token.take().map(token_bounds);
    if token.is_some() && select.is_none() {
        return Err(Error::invalid(format!(
            "The token function cannot be used in WHERE clauses for {} statements",
            statement_kind.name()
        )));
    }
    let of_columns = by_position(&singles, table);
    if select.is_none() && of_columns.iter().any(Option::is_none) {
        return Err(missing(&of_columns, table));
    }
    let choices = of_columns.iter().map(|single| match &(*single)?.kind {
        Kind::ValueSet(choice) => Some(choice.clone()),
        _ => None,
    });
    if let Some(columns) = choices.collect() {
        return Ok(PartitionChoice::Keys { columns, token });
    }
    let Some(filtering) = select else {
        return Err(Error::invalid(format!(
            "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for {} statements",
            statement_kind.name()
        )));
    };
    if !singles.is_empty() && !filtering {
        return Err(Error::invalid(NEEDS_FILTERING));
    }
    for single in &singles {
        filter::add(single, table, filters)?;
    }
    Ok(token.map_or(PartitionChoice::All, PartitionChoice::Tokens))
}

/// The restriction of each column of the partition key, of which there may be thousands.
fn by_position<'s>(
    singles: &'s [ColumnRestriction],
    table: &Table,
) -> Vec<Option<&'s ColumnRestriction>> {
    let mut all = vec![None; table.partition_key().len()];
    for single in singles {
        step(1);
        all[usize::from(single.column.position)] = Some(single);
    }
    all
}

/// The error for columns of the partition key that have no restriction.
#[cold]
fn missing(of_columns: &[Option<&ColumnRestriction>], table: &Table) -> Error {
    let columns = table.partition_key().iter().zip(of_columns);
    let names: Vec<&str> = columns
        .filter(|(_, single)| single.is_none())
        .map(|(column, _)| column.name.as_str())
        .collect();
    Error::invalid(format!("Some partition key parts are missing: {}", names.join(", ")))
}

fn token_bounds(kind: Kind) -> TokenBounds {
    match kind {
        Kind::Slice { lower, upper } => TokenBounds { lower, upper },
        Kind::ValueSet(ValueSet::One(values)) => {
            let bound = Some(Bound { values, inclusive: true });
            TokenBounds { lower: bound.clone(), upper: bound }
        }
        _ => unreachable!("the token is only compared"),
    }
}

impl TokenBounds {
    /// The tokens inside; `None` if there are none.
    pub fn eval(&self, bindings: &Bindings<'_>) -> Result<Option<TokenRange>> {
        let lower = self.lower.as_ref().map(|bound| token(bound, bindings)).transpose()?;
        let upper = self.upper.as_ref().map(|bound| token(bound, bindings)).transpose()?;
        let first = match (lower, &self.lower) {
            (Some(at), Some(bound)) if !bound.inclusive => at.checked_add(1),
            (at, _) => Some(at.unwrap_or(i64::MIN)),
        };
        let last = match (upper, &self.upper) {
            // The smallest token as an end means no end: a ring has none.
            (Some(i64::MIN), _) | (None, _) => Some(i64::MAX),
            (Some(at), Some(bound)) if !bound.inclusive => at.checked_sub(1),
            (Some(at), _) => Some(at),
        };
        let (Some(first), Some(last)) = (first, last) else { return Ok(None) };
        let range = TokenRange { first: Token(first), last: Token(last) };
        Ok((!range.is_empty()).then_some(range))
    }
}

/// The token of a bound.
fn token(bound: &Bound, bindings: &Bindings<'_>) -> Result<i64> {
    let super::Values::Each(terms) = &bound.values else {
        unreachable!("a token is one value");
    };
    let value = terms[0].eval(bindings)?;
    let token = match &value {
        Evaluated::Null => return Err(Error::invalid("Invalid null token value")),
        value => value.required("partition key token")?.try_into().map(i64::from_be_bytes),
    };
    token.map_err(|_| Error::invalid("Invalid null token value"))
}

/// Calls `each` with the serialised key of every partition, each once, in the order of their
/// values as Cassandra has it: column by column, by type.
pub(crate) fn for_each_key(
    columns: &[ValueSet],
    table: &Table,
    bindings: &Bindings<'_>,
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let key = table.partition_key();
    if let ([ValueSet::One(values)], [column]) = (columns, key)
        && let super::Values::Each(terms) = values
    {
        let value = terms[0].eval(bindings)?;
        scratch.clear();
        put_partition_key(std::iter::once(value.required(&column.name)?), scratch)?;
        return each(scratch);
    }
    let each_column = || key.iter().map(std::slice::from_ref).zip(columns);
    let counts = each_column().map(|(column, choice)| choice.count(column, bindings));
    if !check_product(counts, "partition-key")? {
        return check_before_empty(each_column(), bindings);
    }
    let mut all = Vec::with_capacity(columns.len());
    for (column, choice) in each_column() {
        all.push(choice.eval(column, bindings)?);
    }
    for (values, column) in all.iter_mut().zip(key).filter(|(values, _)| values.len() > 1) {
        in_order(values, &column.ty)?;
    }
    let mut total = 0;
    for_each_product(&all, &mut |values: &[&[u8]]| {
        scratch.clear();
        put_partition_key(values.iter().copied(), scratch)?;
        total += scratch.len();
        check_total(total)?;
        each(scratch)
    })
}

/// Sorts the values of one column by its type, and keeps the first of those that are equal.
fn in_order(values: &mut Vec<Vec<Cow<'_, [u8]>>>, ty: &CqlType) -> Result<()> {
    let mut keyed = Vec::with_capacity(values.len());
    let (of_type, mut cost) = (TypeWork::of(ty), SortCost::default());
    for value in values.drain(..) {
        cost.add((ty, of_type), &value[0])?;
        let mut order = Vec::new();
        ordered::encode(ty, &value[0], &mut order)?;
        keyed.push((order, value));
    }
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    keyed.dedup_by(|later, first| later.0 == first.0);
    values.extend(keyed.into_iter().map(|(_, value)| value));
    Ok(())
}

/// Refuses more combinations than are served; false if there are none, since a list is empty. Those behind it are not
/// looked at.
pub(crate) fn check_product(
    lengths: impl Iterator<Item = Result<usize>>,
    what: &str,
) -> Result<bool> {
    let (mut product, mut lists) = (1usize, 0);
    for length in lengths {
        let length = length?;
        if length == 0 {
            // The lists before it may be of any length.
            return Ok(false);
        }
        product = product.saturating_mul(length);
        lists += usize::from(length > 1);
    }
    let max = if lists > 1 { IN_PRODUCT_MAX } else { IN_LIST_MAX };
    if product > max {
        return Err(Error::invalid(format!(
            "{what} cartesian product size {product} is greater than maximum {max}"
        )));
    }
    Ok(true)
}

/// Refuses keys that together have more bytes than one statement may name.
pub(super) fn check_total(bytes: usize) -> Result<()> {
    if bytes <= IN_KEY_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the keys that the IN lists of this statement make, or the bounds of its multi-column slices, have more than {IN_KEY_BYTES_MAX} bytes in total: name fewer or shorter values in one statement"
    )))
}

/// Calls `each` with every combination of one value of each list.
fn for_each_product(
    lists: &[Vec<Vec<Cow<'_, [u8]>>>],
    each: &mut impl FnMut(&[&[u8]]) -> Result<()>,
) -> Result<()> {
    let total = lists.iter().map(Vec::len).product::<usize>();
    for number in 0..total {
        let mut left = number;
        // The last list turns fastest.
        let mut values = vec![&[][..]; lists.len()];
        for (slot, list) in values.iter_mut().zip(lists).rev() {
            *slot = &list[left % list.len()][0];
            left /= list.len();
        }
        each(&values)?;
    }
    Ok(())
}

//! `SELECT` as a plan: which rows, in which order, how many, and what is made of them.
//!
//! 1. `bind_read` evaluates limits, keys, slices, filters and what indexes know of these to a `ReadCommand`, for the
//!    page that the client asks for.
//! 2. `encoder` gives the sink of that read, which makes the result's rows.
//! 3. `paging_state`, or [`BoundRead::groups_paging_state`] of groups, says where the next page begins, if there is
//!    one.
//!
//! Beside that, `token` tells the one partition that is read, and `parts` whether each core may make its part of a
//! result.
//!
//! Invariants
//! 1. The read counts plain rows, against LIMIT and the page size. Groups and sorted rows it cannot count: there it
//!    goes on (`reads_all`) until nothing is left, or until the encoder, which counts these, wants no more.
//! 2. Plain rows and groups of a GROUP BY have pages. An aggregate without one, and the nearest vectors, are one
//!    page; rows that are sorted afterwards are refused where a page size is set.
//!
//! Not here: what is refused (`prepare/select.rs`), when a page is full (`engine/src/read/page.rs`, `rows/encoder.rs`).

use std::sync::Arc;
use std::time::Duration;

use model::read::{Filter, IndexLookup, Limits, Partitions, Resume, Slice};
use model::schema::{IndexTarget, system};
use model::{CqlType, ReadCommand, ReadEnd, Table, Token, TokenRange};

use super::indexed;
use super::nearest::{NearestOrder, page_warning};
use super::page::{PagingState, check_resume};
use super::record::timeout;
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, Selection, Signature, Term};
use crate::frame::Version;
use crate::frame::response::{ColumnSpec, Columns};
use crate::limits::{PAGE_ANSWER_BYTES, PAGE_BYTES, RESULT_BYTES_MAX, UNPAGED_ROWS};
use crate::planted::{Bug, planted};
use crate::restrict::{PartitionChoice, RowKey, Where, for_each_key};
use crate::rows::{ResultEncoder, RowOrder, Shape};

/// One result column.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultColumn {
    /// Name of the result column.
    pub name: String,
    /// Type of the result column.
    pub ty: CqlType,
}

/// A compiled `SELECT`.
#[derive(Clone, Debug)]
pub struct SelectPlan {
    /// The table, as it was when the statement was prepared.
    pub table: Arc<Table>,
    /// Which partitions and rows are read.
    pub filter: Where,
    /// The terms that make the result's columns of a row or group.
    pub selection: Selection,
    /// The columns of the result.
    pub columns: Vec<ResultColumn>,
    /// Whether `ALLOW FILTERING` was written.
    pub allows_filtering: bool,
    /// Whether rows come against the order of storage.
    pub reversed: bool,
    /// Whether rows of several partitions must be sorted after they were read.
    pub sorted_after: Option<RowOrder>,
    /// `ORDER BY .. ANN OF`: rows come in the order of how near their vectors are.
    pub nearest: Option<NearestOrder>,
    /// Whether `DISTINCT` was written: one row a partition.
    pub distinct: bool,
    /// Whether a partition without rows shows its static ones.
    pub static_alone: bool,
    /// How many columns of the primary key `GROUP BY` names.
    pub group_by: Option<usize>,
    /// `LIMIT n`: at most so many rows.
    pub limit: Option<Term>,
    /// `PER PARTITION LIMIT`.
    pub per_partition_limit: Option<Term>,
    /// `USING TIMEOUT d`: how long it may take.
    pub timeout: Option<Term>,
    /// Whether values of the table may be stored in a form of before.
    pub has_old_form: bool,
}

/// How parts of a result are made where their rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// All at once; put together in the order of their tokens.
    SideBySide,
    /// Each goes on with the state of the one before, and none begins that is not wanted: sums of floats depend on
    /// the order of additions, a LIMIT is reached somewhere, and the groups of all cores at once may be too much.
    OneByOne,
}

/// The page that the client asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Page<'a> {
    /// Rows of a page; `None` for all at once.
    pub rows: Option<u32>,
    /// The paging state of the page before; `None` for the first page.
    pub state: Option<&'a [u8]>,
}

/// A bound `SELECT`.
#[derive(Clone, Debug)]
pub struct BoundRead {
    /// What to read; `None` if nothing can match.
    pub command: Option<ReadCommand>,
    /// Result rows the encoder may give, where the read cannot count them.
    pub encoder_limit: u64,
    /// Whether the read goes on by itself until nothing is left: the result has no pages.
    pub reads_all: bool,
    /// How long the statement says that it may take.
    pub timeout: Option<Duration>,
    /// Bytes of the answer after which its page ends; the largest number if it has no pages, or pages of groups.
    pub page_answer_bytes: usize,
    /// Of pages of groups: how many groups this page and those after it may have.
    pub groups_left: Option<u64>,
    /// What the client should know, of guardrails.
    pub warnings: Vec<String>,
}

impl BoundRead {
    /// Bytes of the keys, clustering bounds and terms of indexes that it names, which an IN may multiply, and of what
    /// its filters compare.
    pub fn named_bytes(&self) -> usize {
        self.command.as_ref().map_or(0, |command| {
            let of_filters = command.filter_bytes() + command.lookup_bytes();
            command.key_bytes() + command.slice_bytes() + of_filters
        })
    }
}

impl SelectPlan {
    /// How long the statement says that it may take.
    #[inline]
    pub fn timeout(&self, bindings: &Bindings<'_>) -> Result<Option<Duration>> {
        timeout(self.timeout.as_ref(), bindings)
    }

    /// The read with these bindings.
    pub fn bind_read(&self, bindings: &Bindings<'_>, page: Page<'_>) -> Result<BoundRead> {
        let limit = limit_of(self.limit.as_ref(), bindings)?;
        let nearest = self.nearest.as_ref().map(|order| order.bind(limit, bindings)).transpose()?;
        let per_partition = limit_of(self.per_partition_limit.as_ref(), bindings)?;
        let gathers = self.gathers();
        if self.sorted_after.is_some() && page.rows.is_some() {
            return Err(Error::invalid(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query",
            ));
        }
        let pages_groups =
            self.group_by.is_some() && self.sorted_after.is_none() && page.rows.is_some();
        // The nearest are one page, which the read cannot count.
        let (page, warnings) = match nearest {
            None => (page, Vec::new()),
            Some(_) => (Page::default(), page_warning(page.rows, limit).into_iter().collect()),
        };
        let state = page.state.filter(|_| !gathers || pages_groups);
        let (left, resume) = match state.map(PagingState::decode).transpose()? {
            Some(state) => (state.rows_left.min(limit), Some(state.resume)),
            None => (limit, None),
        };
        let mut limits = self.limits(left, page.rows, nearest.is_some());
        // Of groups the encoder counts how many a partition gives.
        if self.group_by.is_none() {
            limits.rows_per_partition = per_partition;
        }
        let page_rows = page.rows.map_or(u64::MAX, u64::from);
        let is_paged = !gathers && page.rows.is_some();
        let nothing = BoundRead {
            command: None,
            encoder_limit: if pages_groups { left.min(page_rows) } else { limit },
            groups_left: pages_groups.then_some(left),
            reads_all: gathers,
            timeout: self.timeout(bindings)?,
            warnings,
            page_answer_bytes: if is_paged { PAGE_ANSWER_BYTES } else { usize::MAX },
        };
        // What is wrong with them is told also where no row can match.
        let filters = self.filters(bindings)?;
        let Some(partitions) = self.partitions(bindings)? else { return Ok(nothing) };
        if let Some(resume) = &resume {
            check_resume(resume, &partitions, &self.table)?;
        }
        let slices = self.slices(bindings)?;
        if slices.is_empty() {
            return Ok(nothing);
        }
        let static_alone = match self.static_alone {
            true => !planted(Bug::StaticsNeverAlone),
            false => planted(Bug::StaticsAlwaysAlone),
        };
        let command = ReadCommand {
            table: self.table.id,
            partitions,
            slices,
            reversed: self.reversed,
            static_alone,
            distinct: self.distinct,
            filters,
            lookups: self.lookups(bindings)?,
            nearest,
            limits,
            resume,
            now_s: bindings.time.now_s,
        };
        Ok(BoundRead { command: Some(command), ..nothing })
    }

    /// The limits of the read: `left` rows are left of the LIMIT.
    fn limits(&self, left: u64, page_rows: Option<u32>, is_nearest: bool) -> Limits {
        let mut limits = Limits::none(PAGE_BYTES);
        if self.gathers() {
            limits.page_rows = UNPAGED_ROWS;
        } else if is_nearest {
            limits.page_bytes = u64::MAX;
        } else {
            limits.rows = left;
            match page_rows {
                Some(rows) => limits.page_rows = rows.into(),
                None => limits.page_bytes = RESULT_BYTES_MAX as u64,
            }
        }
        limits
    }

    /// Whether the result is made of all rows before it has one.
    fn gathers(&self) -> bool {
        self.selection.is_aggregate() || self.sorted_after.is_some()
    }

    /// Whether a result may have more than one page of so many rows.
    pub fn has_pages(&self, rows: u32, bindings: &Bindings<'_>) -> Result<bool> {
        if self.nearest.is_some() {
            return Ok(false);
        }
        let is_grouped = self.selection.is_aggregate() || self.group_by.is_some();
        Ok(is_grouped || limit_of(self.limit.as_ref(), bindings)? > u64::from(rows))
    }

    /// How the result over a range of partitions is made of parts; `None` if it is no aggregate, is computed, or has
    /// pages: a page of groups ends behind a row, and parts do not tell which.
    pub fn parts(&self, bound: &BoundRead) -> Option<Parts> {
        let is_computed = system::computes(&self.table);
        self.parts_of_all().filter(|_| bound.groups_left.is_none() && !is_computed)
    }

    /// How the result is made of parts if it is one page of stored rows.
    pub(crate) fn parts_of_all(&self) -> Option<Parts> {
        let selection = &self.selection;
        if !selection.is_aggregate() || self.sorted_after.is_some() {
            return None;
        }
        let merges = |(signature, _): &(Signature, Vec<Term>)| signature.merges();
        let is_free = self.group_by.is_none() && selection.aggregates.iter().all(merges);
        Some(if is_free { Parts::SideBySide } else { Parts::OneByOne })
    }

    /// The encoder of the result's rows at the end of `out`.
    pub fn encoder<'a>(
        &'a self,
        bindings: &Bindings<'a>,
        bound: &'a BoundRead,
        out: &'a mut Vec<u8>,
    ) -> Result<ResultEncoder<'a>> {
        let per_partition = self.per_partition_limit.as_ref();
        let command = bound.command.as_ref();
        let shape = Shape {
            table: &self.table,
            selection: &self.selection,
            group_by: self.group_by,
            groups_per_partition: limit_of(per_partition, bindings)?,
            pages_groups: bound.groups_left.is_some(),
            after: command.and_then(|command| command.resume.as_ref()),
            order: self.sorted_after,
            limit: bound.encoder_limit,
            page_answer_bytes: bound.page_answer_bytes,
            full_page_goes_on: command.is_some_and(|command| !command.lookups.is_empty()),
            has_old_form: self.has_old_form,
        };
        ResultEncoder::new(shape, bindings, out)
    }

    /// The token of the one partition that is read; `None` where there may be several, or none.
    /// `scratch` is for bytes of the key.
    #[inline]
    pub fn token(&self, bindings: &Bindings<'_>, scratch: &mut Vec<u8>) -> Option<Token> {
        let PartitionChoice::Keys { columns, token: None } = &self.filter.partitions else {
            return None;
        };
        let (mut token, mut count) = (None, 0);
        let each = for_each_key(columns, &self.table, bindings, scratch, |key| {
            count += 1;
            token = Some(Token::of_key(key));
            Ok(())
        });
        // What is wrong with the key, binding the whole read says.
        token.filter(|_| each.is_ok() && count == 1)
    }

    fn filters(&self, bindings: &Bindings<'_>) -> Result<Vec<Filter>> {
        let mut filters = &self.filter.filters[..];
        if planted(Bug::FilterForgetsLast) && filters.len() > 1 {
            filters = &filters[..filters.len() - 1];
        }
        filters.iter().map(|filter| filter.eval_in_form(bindings)).collect()
    }

    fn slices(&self, bindings: &Bindings<'_>) -> Result<Vec<Slice>> {
        let rows = &self.filter.rows;
        if rows.is_all() {
            return Ok(vec![Slice::all()]);
        }
        if rows.is_rows(&self.table) {
            let mut key = RowKey::default();
            if rows.one_row(&self.table, bindings, &mut key)? {
                return Ok(vec![Slice::row(key.clustering)]);
            }
        }
        rows.slices(&self.table, bindings)
    }

    /// What indexes know of the wanted rows: conditions on one value are one lookup.
    fn lookups(&self, bindings: &Bindings<'_>) -> Result<Vec<IndexLookup>> {
        let mut lookups: Vec<IndexLookup> = Vec::new();
        for template in &self.filter.looked_up {
            let filter = template.eval_as_bound(bindings)?;
            for index in self.table.indexes_of(template.column().id) {
                if self.filter.uses_index {
                    indexed::check_filter(index, &filter)?;
                }
                // An index of other texts than those that are compared would leave rows out.
                if !filter.analysis.is_none() && index.analysis != filter.analysis {
                    continue;
                }
                let lookup = index.lookup(&self.table, filter.operator, &filter.values)?;
                let Some(lookup) = lookup else { continue };
                let has_one_term = matches!(index.target, IndexTarget::Value | IndexTarget::Full);
                let other = lookups.iter_mut().find(|other| other.index == lookup.index);
                match other.filter(|_| has_one_term) {
                    Some(other) => *other = other.and(&lookup),
                    None => lookups.push(lookup),
                }
            }
        }
        Ok(lookups)
    }

    fn partitions(&self, bindings: &Bindings<'_>) -> Result<Option<Partitions>> {
        Ok(match &self.filter.partitions {
            PartitionChoice::All => Some(Partitions::Range(TokenRange::ALL)),
            PartitionChoice::Tokens(bounds) => bounds.eval(bindings)?.map(Partitions::Range),
            PartitionChoice::Keys { columns, token } => {
                let range = match token {
                    None => TokenRange::ALL,
                    Some(bounds) => match bounds.eval(bindings)? {
                        Some(range) => range,
                        None => return Ok(None),
                    },
                };
                let mut keys = Vec::with_capacity(1);
                let mut scratch = Vec::new();
                for_each_key(columns, &self.table, bindings, &mut scratch, |key| {
                    let token = Token::of_key(key);
                    if range.contains(token) {
                        keys.push((token, key.into()));
                    }
                    Ok(())
                })?;
                (!keys.is_empty()).then_some(Partitions::Keys(keys))
            }
        })
    }

    /// What a result looks like, as each frame of it says.
    pub fn result_columns(&self, version: Version) -> Columns {
        Columns::encode(version, &self.result_specs())
    }

    /// The columns of a result.
    pub fn result_specs(&self) -> Vec<ColumnSpec<'_>> {
        let (keyspace, table) = (self.table.keyspace.as_str(), self.table.name.as_str());
        let columns = self.columns.iter();
        columns
            .map(|column| ColumnSpec { keyspace, table, name: &column.name, ty: &column.ty })
            .collect()
    }

    /// The state the client needs for the next page, if there is one. What is larger than a result
    /// may be is an error if the client wants it in one.
    pub fn paging_state(&self, command: &ReadCommand, end: &ReadEnd) -> Result<Option<Vec<u8>>> {
        let rows_left = match planted(Bug::LimitRestarts) {
            true => command.limits.rows,
            false => command.limits.rows.saturating_sub(end.rows),
        };
        let Some(resume) = end.more.clone().filter(|_| rows_left > 0) else { return Ok(None) };
        if command.limits.page_rows == u64::MAX {
            return Err(Error::invalid(format!(
                "the result has more than {RESULT_BYTES_MAX} bytes: set a page size or a LIMIT"
            )));
        }
        Ok(Some(PagingState { resume, rows_left }.encode()))
    }
}

impl BoundRead {
    /// The state that the client needs for the next page of groups, if there is one: this page has given so many, and
    /// ended [there](ResultEncoder::groups_end).
    pub fn groups_paging_state(&self, groups: u32, end: Option<Resume>) -> Option<Vec<u8>> {
        let rows_left = self.groups_left?.saturating_sub(groups.into());
        let resume = end.filter(|_| rows_left > 0)?;
        Some(PagingState { resume, rows_left }.encode())
    }
}

/// The value of a `LIMIT` or `PER PARTITION LIMIT`, which Cassandra names alike; no limit is the largest.
fn limit_of(term: Option<&Term>, bindings: &Bindings<'_>) -> Result<u64> {
    let Some(term) = term else { return Ok(u64::MAX) };
    let value = term.eval(bindings)?;
    let bytes = match &value {
        Evaluated::Unset => return Ok(u64::MAX),
        Evaluated::Null => return Err(Error::invalid("Invalid null value of limit")),
        Evaluated::Bytes(bytes) => bytes,
    };
    let rows = bytes[..].try_into().map(i32::from_be_bytes);
    match rows.ok().and_then(|rows| u64::try_from(rows).ok()) {
        Some(rows) if rows > 0 => Ok(rows),
        _ => Err(Error::invalid("LIMIT must be strictly positive")),
    }
}

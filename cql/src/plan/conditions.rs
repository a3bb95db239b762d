//! The `IF` of a statement as a plan, and how the statements of one partition become one conditional record.
//!
//! ```text
//! statements ─► each: key, row, what of it must be so ─► conditions ─┐
//!                     its mutations ────────────────────────────────┴─► record: conditions, then what is written
//! ```
//!
//! 1. All statements are of one table and one partition, and each names one row, or the static row. What deletes a
//!    stretch of rows may stand beside those with conditions. The key and the row of a statement are evaluated once,
//!    for its conditions and for what it writes: calls such as `uuid()` and `now()` give another value each time.
//! 2. All is written at one time, the server's: a timestamp of the client would let the write lose to what its
//!    conditions have seen.
//!
//! The rules, their order and their words are Cassandra's (`ModificationStatement`, `BatchStatement`,
//! `CQL3CasRequest`). Not here: what holds (`model/src/condition.rs`), what is answered (`not_applied.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use model::condition::{Comparison, ConditionsBuilder, Part, Wanted};
use model::limits::CONDITIONS_MAX;
use model::read::Operator;
use model::schema::{Column, ColumnKind};
use model::types::{Elements, collection_elements};
use model::{CqlType, MutationBuilder, Token};

use super::not_applied::NotApplied;
use super::record::{Scratch, check_bytes};
use super::write::{Named, RowChange, WritePlan};
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, Term};
use crate::restrict::{check_product, for_each_key};

/// What is told of a batch with a condition that is for more than one table.
pub(super) const MANY_TABLES: &str = "Batch with conditions cannot span multiple tables";

/// The `IF` of a statement.
#[derive(Clone, Debug)]
pub struct WriteCondition {
    /// What must be so.
    pub test: ConditionTest,
    /// What is answered if it is not, where the statement stands alone.
    pub not_applied: Arc<NotApplied>,
}

/// What must be so for a statement to write.
#[derive(Clone, Debug)]
pub enum ConditionTest {
    /// `IF EXISTS`: the row is there.
    Exists,
    /// `IF NOT EXISTS`: the row is not there.
    NotExists,
    /// `IF c = v AND ..`: those of regular columns, then those of static ones.
    Columns(Vec<ColumnCondition>),
}

/// One comparison of an `IF`.
#[derive(Clone, Debug)]
pub struct ColumnCondition {
    /// The column that is looked at.
    pub column: Column,
    /// What of the column is compared.
    pub part: PartPlan,
    /// How it is compared.
    pub comparison: Comparison,
    /// What it is compared with.
    pub values: ConditionValues,
}

/// What of a column is compared.
#[derive(Clone, Debug)]
pub enum PartPlan {
    /// All of it.
    Whole,
    /// The value of a key: `m[key]`.
    Key(Term),
    /// The element of an index: `l[index]`.
    Index(Term),
    /// `u.field`, by its index.
    Field(u16),
}

/// What a column is compared with.
#[derive(Clone, Debug)]
pub enum ConditionValues {
    /// One value, or null.
    One(Term),
    /// The values of `IN (a, b)`.
    Many(Vec<Term>),
    /// The list of `IN ?`.
    Listed(Term),
}

/// What is asked of one row, which may not be mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Exists,
    NotExists,
    Columns,
}

/// Which statements are bound together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One statement that stands alone.
    Statement,
    /// The statements of a batch.
    Batch,
}

/// Statements of one partition of which at least one has a condition, while they are bound.
#[derive(Debug)]
pub struct ConditionalWrite {
    extent: Extent,
    partition: Option<(Arc<model::Table>, Vec<u8>)>,
    conditions: ConditionsBuilder,
    asked: BTreeMap<Option<Vec<u8>>, Asked>,
    writes: Vec<u8>,
    updates: Wanted,
}

impl ConditionalWrite {
    /// No statement yet.
    pub fn new(extent: Extent) -> ConditionalWrite {
        ConditionalWrite {
            extent,
            partition: None,
            conditions: ConditionsBuilder::default(),
            asked: BTreeMap::new(),
            writes: Vec::new(),
            updates: Wanted::TESTED,
        }
    }

    /// Appends the record of statements that are bound with the same values.
    pub fn bind(
        extent: Extent,
        plans: &[WritePlan],
        bindings: &Bindings<'_>,
        scratch: &mut Scratch,
        record: &mut Vec<u8>,
    ) -> Result<()> {
        let mut write = ConditionalWrite::new(extent);
        plans.iter().try_for_each(|plan| write.add(plan, bindings, scratch))?;
        write.put(bindings, record);
        Ok(())
    }

    /// Adds a statement, with a condition or without.
    pub fn add(
        &mut self,
        plan: &WritePlan,
        bindings: &Bindings<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        plan.with_json(bindings, |bindings| self.add_bound(plan, bindings, scratch))
    }

    fn add_bound(
        &mut self,
        plan: &WritePlan,
        bindings: &Bindings<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.set_partition(plan, bindings, scratch)?;
        if plan.rows.has_in() {
            return Err(Error::invalid(format!(
                "IN on the clustering key columns is not supported with conditional {}",
                plan.change.what_it_does()
            )));
        }
        self.updates.statics |= plan.writes_statics();
        self.updates.regulars |= plan.table.clustering().is_empty() || !plan.rows.is_all();
        let mut named = plan.named(&mut scratch.row, bindings);
        if let Some(condition) = &plan.condition {
            let row = plan.row_of_condition(bindings, &mut named)?;
            self.add_conditions(row, &condition.test, bindings)?;
        }
        // What a statement says of its time does not count beside a condition.
        let timed;
        let plan = match plan.timestamp {
            None => plan,
            Some(_) => {
                timed = WritePlan { timestamp: None, ..plan.clone() };
                &timed
            }
        };
        let (_, key) = self.partition.as_ref().expect("it was just evaluated");
        plan.bind_judged(key, bindings, named, &mut self.writes)?;
        check_bytes(self.conditions.bytes() + self.writes.len())
    }

    /// The partition of a statement: that of those before it.
    fn set_partition(
        &mut self,
        plan: &WritePlan,
        bindings: &Bindings<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if !plan.keys.iter().all(|key| key.is_one()) {
            return Err(Error::invalid(match self.extent {
                Extent::Statement => format!(
                    "IN on the partition key is not supported with conditional {}",
                    plan.change.what_it_does()
                ),
                Extent::Batch => "Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)".to_owned(),
            }));
        }
        let mut is_same = true;
        for_each_key(&plan.keys, &plan.table, bindings, &mut scratch.key, |key| {
            match &self.partition {
                None => self.partition = Some((plan.table.clone(), key.to_vec())),
                Some((table, first)) => {
                    if table.id != plan.table.id {
                        return Err(Error::invalid(MANY_TABLES));
                    }
                    is_same &= first == key;
                }
            }
            Ok(())
        })?;
        if is_same {
            return Ok(());
        }
        Err(Error::invalid("Batch with conditions cannot span multiple partitions"))
    }

    fn add_conditions(
        &mut self,
        row: Option<Vec<u8>>,
        test: &ConditionTest,
        bindings: &Bindings<'_>,
    ) -> Result<()> {
        match test {
            ConditionTest::Exists => self.add_existence(row, Asked::Exists),
            ConditionTest::NotExists => self.add_existence(row, Asked::NotExists),
            ConditionTest::Columns(conditions) => conditions.iter().try_for_each(|condition| {
                let is_static = condition.column.kind == ColumnKind::Static;
                let row = row.as_ref().filter(|_| !is_static);
                if *self.asked.entry(row.cloned()).or_insert(Asked::Columns) != Asked::Columns {
                    return Err(Error::invalid(
                        "Cannot mix IF conditions and IF NOT EXISTS for the same row",
                    ));
                }
                let row = row.map(Vec::as_slice);
                self.check_count()?;
                condition.bind(row, bindings, &mut self.conditions)
            }),
        }
    }

    fn add_existence(&mut self, row: Option<Vec<u8>>, asked: Asked) -> Result<()> {
        let is_there = asked == Asked::Exists;
        let before = self.asked.get(&row).copied();
        match before {
            // Once is enough.
            Some(before) if before == asked => Ok(()),
            Some(Asked::Columns) => {
                let not = if is_there { "" } else { "NOT " };
                Err(Error::invalid(format!(
                    "Cannot mix IF conditions and IF {not}EXISTS for the same row"
                )))
            }
            Some(_) => Err(Error::invalid(
                "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row",
            )),
            None => {
                self.check_count()?;
                self.conditions.existence(row.as_deref(), is_there);
                self.asked.insert(row, asked);
                Ok(())
            }
        }
    }

    /// Refuses one more condition than there may be.
    fn check_count(&self) -> Result<()> {
        check_condition_count(self.conditions.count() as usize + 1)
    }

    /// Appends the record.
    pub fn put(self, bindings: &Bindings<'_>, record: &mut Vec<u8>) {
        let (table, key) = self.partition.expect("there is a statement");
        let asks_existence = self.asked.values().any(|asked| *asked != Asked::Columns);
        let wanted = if asks_existence { self.updates } else { Wanted::TESTED };
        let mutation = MutationBuilder::begin(record, table.id, Token::of_key(&key), &key);
        let time = (bindings.time.timestamp_us, bindings.time.now_s);
        mutation.finish_with_conditions(&self.conditions, wanted, time);
        record.extend_from_slice(&self.writes);
    }
}

/// Refuses more conditions than a statement or batch may have.
pub(super) fn check_condition_count(count: usize) -> Result<()> {
    match count <= CONDITIONS_MAX {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "A statement or batch has more than {CONDITIONS_MAX} conditions: use several"
        ))),
    }
}

impl ColumnCondition {
    /// Appends the condition on a row; `None` is the static row.
    fn bind(
        &self,
        row: Option<&[u8]>,
        bindings: &Bindings<'_>,
        conditions: &mut ConditionsBuilder,
    ) -> Result<()> {
        let key;
        let part =
            match &self.part {
                PartPlan::Whole => Part::Whole,
                PartPlan::Field(index) => Part::Field(*index),
                PartPlan::Key(term) => {
                    key = term.eval(bindings)?;
                    Part::Key(element(&key, "map")?)
                }
                PartPlan::Index(term) => {
                    let index = term.eval(bindings)?;
                    let index = element(&index, "list")?.try_into().map(i32::from_be_bytes);
                    let index = index.map_err(|_| Error::invalid("Invalid list index"))?;
                    Part::Index(u32::try_from(index).map_err(|_| {
                        Error::invalid(format!("Invalid negative list index {index}"))
                    })?)
                }
            };
        let values: Vec<Option<Vec<u8>>> = match &self.values {
            ConditionValues::One(term) => vec![self.value(term, bindings)?],
            ConditionValues::Many(terms) => {
                // What is not set is not in the list.
                let set = terms.iter().filter(|term| !term.is_unset(bindings));
                self.check_count(set.clone().count())?;
                set.map(|term| self.value(term, bindings)).collect::<Result<_>>()?
            }
            ConditionValues::Listed(term) => match term.eval(bindings)? {
                Evaluated::Null => return Err(Error::invalid("Invalid null list in IN condition")),
                Evaluated::Unset => return Err(unset()),
                Evaluated::Bytes(list) => self
                    .listed(&list)?
                    .map(|item| self.compared(Some(item?.to_vec())))
                    .collect::<Result<_>>()?,
            },
        };
        let values = values.iter().map(|value| value.as_deref());
        conditions.column(row, (self.column.id, part, self.comparison), values);
        Ok(())
    }

    fn listed<'l>(&self, list: &'l [u8]) -> Result<Elements<'l>> {
        let items = collection_elements(list)?;
        self.check_count(items.left() as usize)?;
        Ok(items)
    }

    /// Refuses more values of one `IN` than are served.
    fn check_count(&self, values: usize) -> Result<()> {
        let what = format!("IN condition on {}:", self.column.name);
        check_product(std::iter::once(Ok(values)), &what).map(|_| ())
    }

    fn value(&self, term: &Term, bindings: &Bindings<'_>) -> Result<Option<Vec<u8>>> {
        match term.eval(bindings)? {
            Evaluated::Unset => Err(unset()),
            value => self.compared(value.into_bytes()),
        }
    }

    /// A collection that is stored by element and has none is null.
    fn compared(&self, value: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        let is_stored_by_element = matches!(self.part, PartPlan::Whole)
            && self.column.ty.is_collection()
            && self.column.ty.is_multi_cell();
        let is_empty = |value: &[u8]| value.iter().take(4).all(|byte| *byte == 0);
        if !is_stored_by_element || value.as_deref().is_none_or(|value| !is_empty(value)) {
            return Ok(value);
        }
        match self.comparison {
            Comparison::NotEqual | Comparison::Is(Operator::Equal | Operator::In) => Ok(None),
            Comparison::Is(Operator::Contains | Operator::ContainsKey | Operator::Entry) => {
                Ok(value)
            }
            Comparison::Is(operator) => Err(Error::invalid(format!(
                "Invalid comparison with an empty {} for operator \"{}\"",
                kind_of(&self.column.ty),
                operator.symbol()
            ))),
        }
    }
}

fn kind_of(ty: &CqlType) -> &'static str {
    match ty {
        CqlType::List { .. } => "list",
        CqlType::Set { .. } => "set",
        _ => "map",
    }
}

#[cold]
fn unset() -> Error {
    Error::invalid("Invalid 'unset' value in condition")
}

/// The key or index of an element.
fn element<'v>(value: &'v Evaluated<'_>, of: &str) -> Result<&'v [u8]> {
    match value {
        Evaluated::Bytes(bytes) => Ok(bytes),
        Evaluated::Null => {
            Err(Error::invalid(format!("Invalid null value for {of} element access")))
        }
        Evaluated::Unset => Err(unset()),
    }
}

impl RowChange {
    fn what_it_does(self) -> &'static str {
        match self {
            RowChange::Insert | RowChange::Cells | RowChange::StaticOnly => "updates",
            RowChange::DeleteRows | RowChange::DeleteRanges | RowChange::DeletePartition => {
                "deletions"
            }
        }
    }
}

impl WritePlan {
    fn writes_statics(&self) -> bool {
        !self.static_cells.is_empty() || !self.static_lists.is_empty()
    }

    /// The row that its conditions look at; `None` is the static row.
    fn row_of_condition(
        &self,
        bindings: &Bindings<'_>,
        named: &mut Named<'_>,
    ) -> Result<Option<Vec<u8>>> {
        if self.rows.is_all() && self.change == RowChange::StaticOnly {
            return Ok(None);
        }
        let Some(row) = named.rows(self, bindings)?.first() else { return Ok(Some(Vec::new())) };
        Ok(Some(row.clustering.clone()))
    }
}

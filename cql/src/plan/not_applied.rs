//! The answer to a conditional write: `[applied]`, and if a condition does not hold, the rows as they are.
//!
//! ```text
//! IF v = 1            [applied] v                     a row for each that conditions looked at and that is there
//! IF NOT EXISTS       [applied] and all columns
//! in a batch          [applied], the primary key, the columns of conditions in their order
//! ```
//!
//! Not here: which columns were read, and come back (`conditions.rs`).

use std::collections::HashSet;
use std::sync::Arc;

use model::read::{PartitionRef, RowSink};
use model::schema::Schema;
use model::{CqlType, MutationRef, Table};

use super::conditions::{ColumnCondition, ConditionTest, MANY_TABLES, check_condition_count};
use super::select::ResultColumn;
use super::write::WritePlan;
use crate::bind::{Bindings, StatementTime};
use crate::error::{Error, Result};
use crate::expr::{Compiler, Selection, Term};
use crate::frame::response::{ColumnSpec, Columns, Description, Envelope};
use crate::lang::ast::Expr;
use crate::rows::{ResultEncoder, Shape};

/// What is answered to a conditional statement or batch.
#[derive(Clone, Debug)]
pub struct NotApplied {
    table: Arc<Table>,
    /// The columns of a row, behind a false.
    selection: Selection,
    columns: Vec<ResultColumn>,
    has_old_form: bool,
}

/// The name of the column that says whether a write was applied.
const APPLIED: &str = "[applied]";

impl NotApplied {
    /// Of one statement.
    pub fn of_statement(
        test: &ConditionTest,
        table: &Arc<Table>,
        schema: &Schema,
    ) -> Result<NotApplied> {
        match test {
            ConditionTest::Columns(conditions) => {
                NotApplied::of_columns(names(conditions).collect(), table, schema)
            }
            ConditionTest::Exists | ConditionTest::NotExists => {
                NotApplied::of_columns(Vec::new(), table, schema)
            }
        }
    }

    /// Of statements, all of one table; `None` if none of them has a condition.
    pub fn of_batch<'p>(
        plans: impl Iterator<Item = &'p WritePlan> + Clone,
        schema: &Schema,
    ) -> Result<Option<NotApplied>> {
        let Some(table) = plans.clone().find(|plan| plan.condition.is_some()).map(|p| &p.table)
        else {
            return Ok(None);
        };
        if plans.clone().any(|plan| plan.table.id != table.id) {
            return Err(Error::invalid(MANY_TABLES));
        }
        let key = table.partition_key().iter().chain(table.clustering());
        let mut columns: Vec<&str> = key.map(|column| column.name.as_str()).collect();
        let mut count = 0;
        for condition in plans.filter_map(|plan| plan.condition.as_deref()) {
            match &condition.test {
                ConditionTest::Columns(conditions) => {
                    // A batch may name one statement many thousand times.
                    count += conditions.len();
                    check_condition_count(count)?;
                    columns.extend(names(conditions));
                }
                ConditionTest::Exists | ConditionTest::NotExists => {
                    return NotApplied::of_columns(Vec::new(), table, schema).map(Some);
                }
            }
        }
        NotApplied::of_columns(columns, table, schema).map(Some)
    }

    /// With these columns, each once; with none, all of the table.
    fn of_columns(columns: Vec<&str>, table: &Arc<Table>, schema: &Schema) -> Result<NotApplied> {
        let mut seen = HashSet::new();
        let mut named: Vec<&str> = columns.into_iter().filter(|name| seen.insert(*name)).collect();
        let exprs: Vec<Expr> = named.iter().map(|name| Expr::Column((*name).to_owned())).collect();
        let exprs: Vec<&Expr> = exprs.iter().collect();
        let mut selection = Compiler::new(schema, table, &[]).select(&exprs)?.selection;
        if named.is_empty() {
            named = table.columns().iter().map(|column| column.name.as_str()).collect();
        }
        let applied = ResultColumn { name: APPLIED.to_owned(), ty: CqlType::Boolean };
        let outputs = named.iter().zip(&selection.outputs);
        let rest = outputs
            .map(|(name, term)| ResultColumn { name: (*name).to_owned(), ty: term.ty.clone() });
        let columns = std::iter::once(applied).chain(rest).collect();
        selection.outputs.insert(0, Term::constant([0], CqlType::Boolean));
        let has_old_form = table.columns().iter().any(|column| column.ty.has_old_form());
        Ok(NotApplied { table: table.clone(), selection, columns, has_old_form })
    }

    /// Appends the answer to a write that was applied.
    pub fn put_applied(&self, envelope: &Envelope<'_>, out: &mut Vec<u8>) {
        self.put_one(1, envelope, out);
    }

    /// Appends the answer to a write whose conditions have found these rows, one mutation; gives their number. After an
    /// error nothing was appended.
    pub fn put_found(
        &self,
        found: &[u8],
        time: StatementTime<'_>,
        envelope: &Envelope<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u32> {
        let mutation = MutationRef::of_record(found).next().expect("it is one mutation")?;
        if mutation.row_count == 0 && mutation.static_row.is_none() {
            self.put_one(0, envelope, out);
            return Ok(1);
        }
        let start = out.len();
        let open =
            envelope.open_rows(&self.columns(envelope, &self.columns), Description::Full, out);
        let bindings = Bindings::none(time);
        let shape = Shape {
            table: &self.table,
            selection: &self.selection,
            group_by: None,
            groups_per_partition: u64::MAX,
            pages_groups: false,
            after: None,
            order: None,
            limit: u64::MAX,
            page_answer_bytes: usize::MAX,
            full_page_goes_on: false,
            has_old_form: self.has_old_form,
        };
        let MutationRef { token, key, static_row, .. } = mutation;
        let partition = PartitionRef { token, key, static_row };
        let rows = ResultEncoder::new(shape, &bindings, out).and_then(|mut encoder| {
            if mutation.row_count == 0 {
                let _ = encoder.row(&partition, None, None);
            }
            for (clustering, row) in mutation.rows() {
                let _ = encoder.row(&partition, Some(clustering), Some(row));
            }
            encoder.finish()
        });
        let rows = rows.inspect_err(|_| out.truncate(start))?;
        open.close(rows, None, out);
        Ok(rows)
    }

    /// One row with `[applied]` alone.
    fn put_one(&self, applied: u8, envelope: &Envelope<'_>, out: &mut Vec<u8>) {
        let columns = self.columns(envelope, &self.columns[..1]);
        let open = envelope.open_rows(&columns, Description::Full, out);
        out.extend_from_slice(&1i32.to_be_bytes());
        out.push(applied);
        open.close(1, None, out);
    }

    fn columns(&self, envelope: &Envelope<'_>, columns: &[ResultColumn]) -> Columns {
        let (keyspace, table) = (self.table.keyspace.as_str(), self.table.name.as_str());
        let specs: Vec<ColumnSpec<'_>> = columns
            .iter()
            .map(|column| ColumnSpec { keyspace, table, name: &column.name, ty: &column.ty })
            .collect();
        Columns::encode(envelope.version, &specs)
    }
}

fn names(conditions: &[ColumnCondition]) -> impl Iterator<Item = &str> {
    conditions.iter().map(|condition| condition.column.name.as_str())
}

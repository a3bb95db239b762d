//! The guardrails of a SELECT: its level, what its text asks for, and how much of it.

use super::{Guardrail, Guardrails};
use crate::bind::Bindings;
use crate::error::Result;
use crate::frame::consistency::Consistency;
use crate::plan::{BoundRead, SelectPlan};
use crate::restrict::{PartitionChoice, RowPart, ValueSet};

impl Guardrails {
    /// Looks at the text of a SELECT.
    pub fn check_select_text(&self, plan: &SelectPlan, warnings: &mut Vec<String>) -> Result<()> {
        if plan.allows_filtering {
            self.allow(Guardrail::AllowFiltering, warnings)?;
        }
        match plan.group_by {
            Some(_) => self.allow(Guardrail::GroupBy, warnings),
            None => Ok(()),
        }
    }

    /// Looks at a SELECT with its values and its page; `bound` gets the warnings.
    #[cold]
    pub fn check_select(
        &self,
        plan: &SelectPlan,
        bindings: &Bindings<'_>,
        (level, page_rows): (Consistency, Option<u32>),
        bound: &mut BoundRead,
    ) -> Result<()> {
        let warnings = &mut bound.warnings;
        self.check_select_text(plan, warnings)?;
        self.levels(Guardrail::ReadConsistencyLevels, &[level], warnings)?;
        let table = &plan.table;
        if let PartitionChoice::Keys { columns, .. } = &plan.filter.partitions {
            let mut lengths = Vec::with_capacity(columns.len());
            for (values, column) in columns.iter().zip(table.partition_key()) {
                lengths.push(values.count(std::slice::from_ref(column), bindings)?);
            }
            let has_in = columns.iter().any(|values| !values.is_one());
            self.check_product(has_in, &lengths, "partition key", warnings)?;
            if let Some(command) = bound.command.as_ref().filter(|_| has_in)
                && let model::read::Partitions::Keys(keys) = &command.partitions
            {
                let (count, name) = (keys.len() as i64, &table.name);
                self.check(Guardrail::PartitionKeysInSelect, count, name, warnings)?;
            }
        }
        let rows = &plan.filter.rows;
        if rows.is_rows(table) {
            let (mut lengths, mut has_in) = (Vec::new(), false);
            for part in &rows.parts {
                let RowPart::ValueSet { first, count, values } = part else { continue };
                let columns = &table.clustering()[*first..first + count];
                lengths.push(values.count(columns, bindings)?);
                has_in |= !ValueSet::is_one(values);
            }
            self.check_product(has_in, &lengths, "clustering key", warnings)?;
        }
        // A result that fits into one page has no pages, as Cassandra sees it.
        match page_rows {
            Some(rows) if plan.has_pages(rows, bindings)? => {
                self.check(Guardrail::PageSize, rows.into(), &table.name, warnings)
            }
            _ => Ok(()),
        }
    }

    /// Looks at the combinations of the first values, of the first two, and so on.
    fn check_product(
        &self,
        has_in: bool,
        lengths: &[usize],
        what: &str,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let mut product = 1i64;
        for length in lengths.iter().filter(|_| has_in) {
            product = product.saturating_mul(*length as i64);
            self.check(Guardrail::InSelectCartesianProduct, product, what, warnings)?;
        }
        Ok(())
    }
}

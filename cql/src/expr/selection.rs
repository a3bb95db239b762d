//! What a `SELECT` selects: a term for each result column, over rows or over groups of them.

use model::schema::Column;

use super::{Kind, Signature, Term, Wanted};
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::limits::RESULT_BYTES_MAX;

/// Everything a `SELECT` selects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// One for each result column.
    pub outputs: Vec<Term>,
    /// Terms over bound values, evaluated once before the rows.
    pub once: Vec<Term>,
    /// Which cells of each row are looked at.
    pub wanted: Wanted,
    /// The aggregates, each with what it takes of a row.
    pub aggregates: Vec<(Signature, Vec<Term>)>,
    /// What is kept of the first row of each group.
    pub firsts: Vec<Term>,
    /// Whether rows are brought together into groups.
    pub grouped: bool,
    /// The function that `GROUP BY` has in the place of its last column: rows of one group have one value of it, as in
    /// `GROUP BY .., floor(c, 1h)`. How many columns make a group is elsewhere: `SelectPlan::group_by`.
    pub group_by: Option<Term>,
    /// Whether functions or aggregates of users are called.
    pub calls_users: bool,
}

/// A compiled selection and the columns it reads.
pub struct Selected {
    /// The selection, over rows.
    pub selection: Selection,
    /// Every column that is named, each once.
    pub columns: Vec<Column>,
}

impl Selection {
    /// Whether rows are brought together.
    pub fn is_aggregate(&self) -> bool {
        self.grouped || self.has_functions()
    }

    /// Whether there are aggregate functions.
    pub fn has_functions(&self) -> bool {
        !self.aggregates.is_empty()
    }

    /// The values of the terms that are evaluated once.
    pub fn evaluate_once(&self, bindings: &Bindings<'_>) -> Result<Vec<Option<Vec<u8>>>> {
        let mut bytes = 0;
        bindings.work.begin();
        let each = self.once.iter().map(|term| {
            let value = term.eval(bindings)?.into_bytes();
            bytes += value.as_ref().map_or(0, Vec::len);
            check_result_bytes(bytes)?;
            Ok(value)
        });
        each.collect()
    }

    /// The selection of groups: what reads a row outside of aggregates reads the first of each.
    pub fn into_grouped(mut self) -> Selection {
        self.grouped = true;
        for output in &mut self.outputs {
            take_firsts(output, &mut self.firsts);
        }
        self
    }
}

/// Refuses so many bytes, of a result or of what is kept for one. Pages end earlier, by the limit of their read.
pub(crate) fn check_result_bytes(bytes: usize) -> Result<()> {
    if bytes > RESULT_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the result has more than {RESULT_BYTES_MAX} bytes: set a page size or a LIMIT"
        )));
    }
    Ok(())
}

/// Replaces the parts of a term that read a row.
fn take_firsts(term: &mut Term, firsts: &mut Vec<Term>) {
    if !term.any(&mut |kind| matches!(kind, Kind::Row(_))) {
        return;
    }
    if !term.any(&mut |kind| matches!(kind, Kind::Aggregate(_))) {
        let first = Term { kind: Kind::First(firsts.len()), ty: term.ty.clone() };
        firsts.push(std::mem::replace(term, first));
        return;
    }
    term.parts_mut().into_iter().for_each(|part| take_firsts(part, firsts));
}

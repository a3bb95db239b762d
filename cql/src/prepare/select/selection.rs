//! What is selected: a term and a heading for each column of the result.

use model::CqlType;
use model::schema::Column;

use super::heading::heading;
use crate::error::Result;
use crate::expr::function::json_prefix;
use crate::expr::{Compiler, Kind, Selection, Term};
use crate::lang::ast::{Expr, SelectItem};
use crate::plan::ResultColumn;

/// What a `SELECT` selects, compiled.
pub(super) struct Selected {
    pub(super) selection: Selection,
    pub(super) columns: Vec<ResultColumn>,
    /// Every column looked at.
    pub(super) columns_used: Vec<Column>,
}

impl Selected {
    /// What a `SELECT JSON` of this selection selects: one column, whose texts have the values of all columns.
    pub(super) fn into_json(mut self) -> Result<Selected> {
        let values = std::mem::take(&mut self.selection.outputs);
        let names = self.columns.iter().map(|column| json_prefix(&column.name));
        let entries = names.zip(values).map(|(name, value)| Ok((name?, value)));
        let kind = Kind::JsonObject(entries.collect::<Result<_>>()?);
        self.selection.outputs = vec![Term { kind, ty: CqlType::Text }];
        self.columns = vec![ResultColumn { name: "[json]".into(), ty: CqlType::Text }];
        Ok(self)
    }
}

/// Compiles the selected items; none stand for all columns.
pub(super) fn compile(items: &[SelectItem], compiler: &mut Compiler<'_>) -> Result<Selected> {
    let exprs: Vec<&Expr> = items.iter().map(|item| &item.expr).collect();
    let selected = compiler.select(&exprs)?;
    let table = compiler.table;
    let outputs = &selected.selection.outputs;
    let columns = if items.is_empty() {
        let all = table.columns().iter();
        all.map(|column| ResultColumn { name: column.name.clone(), ty: column.ty.clone() })
            .collect()
    } else {
        let named = items.iter().zip(outputs).map(|(item, term)| {
            let name = match &item.alias {
                Some(alias) => alias.clone(),
                None => heading(&item.expr, term, compiler),
            };
            ResultColumn { name, ty: term.ty.clone() }
        });
        named.collect()
    };
    Ok(Selected { selection: selected.selection, columns, columns_used: selected.columns })
}

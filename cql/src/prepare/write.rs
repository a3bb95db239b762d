//! `INSERT`, `UPDATE` and `DELETE` to plans.
//!
//! 1. What this table does not take is refused: counters (`counters.rs`). JSON writes all columns.
//! 2. Assignments become operations of cells ([`Cells`], `cells.rs`): those of one column's elements are done together,
//!    a whole value stands alone.
//! 3. The `WHERE`, or the key of an INSERT, becomes partitions and rows; what of the rows is missing or
//!    too much is refused, and [`RowChange`] says what happens to them.
//! 4. `USING`: of a part that stands there twice the last counts, but all of its markers have a type.
//! 5. What has an `IF` (`condition.rs`) names one row, or is about static columns.
//!
//! Of compact tables rows have no markers: what an INSERT writes of them is cells.
//!
//! Invariants: the cells of a plan ascend by column, as storage has them; every marker has a type when a
//! statement is compiled. Not here: batches (`batch.rs`), binding (`plan/write.rs`), which restrictions name rows
//! (`restrict`).

use std::collections::HashSet;
use std::sync::Arc;

use model::schema::{Column, ColumnKind};
use model::{CqlType, Table};

use super::cells::{Cells, without_counters, without_lists};
use super::condition::{compile_test, is_conditional, refuse_stretch, with_answer};
use super::counters;
use crate::error::{Error, Result};
use crate::expr::function::has_sum;
use crate::expr::{Compiler, ExpectedType, Term};
use crate::json::{JsonInsert, read_row};
use crate::lang::ast::{
    Access, Assign, Assignment, Delete, Deletion, Expr, Insert, InsertValues, Modification, Update,
    Using,
};
use crate::plan::{CellOp, ConditionTest, CounterOp, ListOpPlan, RowChange, WritePlan};
use crate::restrict::{PartitionChoice, StatementKind, Where, undefined};

/// How errors call a column that is a frozen collection.
const FROZEN: &str = "frozen collection column";
/// How errors call a column that is neither a counter nor a collection.
const NO_COUNTER: &str = "non counter column";

/// The plan of one statement.
pub(super) fn compile(
    modification: &Modification,
    table: &Arc<Table>,
    compiler: &mut Compiler<'_>,
) -> Result<WritePlan> {
    counters::check_form(modification, table)?;
    if is_conditional(modification) && !using_of(modification).timestamp.is_empty() {
        return Err(Error::invalid("Cannot provide custom timestamp for conditional updates"));
    }
    let test = compile_test(modification, compiler)?;
    let plan = match modification {
        Modification::Insert(insert) => compile_insert(insert, table, compiler)?,
        Modification::Update(update) => compile_update(update, test.as_ref(), table, compiler)?,
        Modification::Delete(delete) => compile_delete(delete, test.as_ref(), table, compiler)?,
    };
    counters::check_plan(&plan, test.is_some())?;
    let Some(test) = test else { return Ok(plan) };
    Ok(WritePlan { condition: Some(with_answer(test, table, compiler)?), ..plan })
}

pub(super) fn using_of(modification: &Modification) -> &Using {
    match modification {
        Modification::Insert(insert) => &insert.using,
        Modification::Update(update) => &update.using,
        Modification::Delete(delete) => &delete.using,
    }
}

/// The term of a `USING TIMESTAMP`.
pub(super) fn timestamp(using: &Using, compiler: &mut Compiler<'_>) -> Result<Option<Term>> {
    let to = ExpectedType::new("[timestamp]", CqlType::Bigint);
    last(&using.timestamp, &to, compiler)
}

fn ttl(using: &Using, compiler: &mut Compiler<'_>) -> Result<Option<Term>> {
    let to = ExpectedType::new("[ttl]", CqlType::Int);
    last(&using.ttl, &to, compiler)
}

/// The term of a part that counts: the last of its values. Markers among the others still need a type.
pub(super) fn last(
    values: &[Expr],
    to: &ExpectedType,
    compiler: &mut Compiler<'_>,
) -> Result<Option<Term>> {
    let Some((value, others)) = values.split_last() else { return Ok(None) };
    for marker in others.iter().filter(|value| matches!(value, Expr::Bind(_))) {
        compiler.term(marker, to)?;
    }
    compiler.term(value, to).map(Some)
}

/// The term of a `USING TIMEOUT`.
pub(super) fn timeout(using: &Using, compiler: &mut Compiler<'_>) -> Result<Option<Term>> {
    let to = ExpectedType::new("[timeout]", CqlType::Duration);
    last(&using.timeout, &to, compiler)
}

fn compile_insert(
    insert: &Insert,
    table: &Arc<Table>,
    compiler: &mut Compiler<'_>,
) -> Result<WritePlan> {
    let of_json;
    let (names, values, json) = match &insert.values {
        InsertValues::Columns(names, values) => (names, values, None),
        InsertValues::Json { json, default_unset } => {
            of_json = json_columns(table);
            (&of_json.0, &of_json.1, Some(json_insert(json, *default_unset, compiler)?.into()))
        }
    };
    if names.len() != values.len() {
        return Err(Error::invalid("Unmatched column names/values"));
    }
    let mut keys: Vec<(&Column, &Expr)> = Vec::new();
    let mut cells = Cells::default();
    let mut named = HashSet::new();
    for (name, value) in names.iter().zip(values) {
        let column = table.column(name).ok_or_else(|| undefined(name, table))?;
        if !named.insert(name) {
            return Err(Error::invalid("The column names contains duplicates"));
        }
        if column.kind <= ColumnKind::Clustering {
            keys.push((column, value));
        } else {
            let to = ExpectedType::new(column.name.clone(), column.ty.clone());
            cells.push(column, CellOp::Set(compiler.term(value, &to)?));
        }
    }
    let mut filter = Where::of_insert(&keys, compiler)?;
    let statics_only = cells.rows.is_empty() && !cells.statics.is_empty();
    let no_clustering = !keys.iter().any(|(column, _)| column.kind == ColumnKind::Clustering);
    let has_rows = !table.clustering().is_empty() || table.is_static_compact();
    let change = if statics_only && no_clustering && has_rows {
        RowChange::StaticOnly
    } else if table.is_compact() {
        require_rows(&mut filter, table)?;
        cells.set_compact_value(table)?;
        RowChange::Cells
    } else {
        require_rows(&mut filter, table)?;
        RowChange::Insert
    };
    let plan = finish(filter, cells, change, table);
    Ok(WritePlan {
        timeout: timeout(&insert.using, compiler)?,
        timestamp: timestamp(&insert.using, compiler)?,
        ttl: ttl(&insert.using, compiler)?,
        json,
        ..plan
    })
}

/// All columns of a table, each with its value in the text of an `INSERT JSON`.
fn json_columns(table: &Table) -> (Vec<String>, Vec<Expr>) {
    let names = table.columns().iter().map(|column| column.name.clone());
    names.enumerate().map(|(slot, name)| (name, Expr::OfJson(slot))).unzip()
}

/// The text of an `INSERT JSON`: one that is written in the statement is read now.
fn json_insert(
    json: &Expr,
    default_unset: bool,
    compiler: &mut Compiler<'_>,
) -> Result<JsonInsert> {
    let table = compiler.table;
    compiler.json().add_insert(table)?;
    match json {
        Expr::Literal(literal) => {
            let reading = compiler.json_reading();
            Ok(JsonInsert::Known(read_row(&literal.text, table, default_unset, &reading)?))
        }
        marker => {
            let text = compiler.term(marker, &ExpectedType::new("[json]", CqlType::Text))?;
            Ok(JsonInsert::Bound { text, default_unset })
        }
    }
}

/// Refuses to write rows that are not named whole. Those of a compact table may leave out all columns but the first.
fn require_rows(filter: &mut Where, table: &Table) -> Result<()> {
    let named = filter.rows.by_value();
    if table.is_dense() && named > 0 {
        filter.rows.leave_out_rest(table);
        return Ok(());
    }
    let hidden = table.hidden().iter().filter(|column| column.kind == ColumnKind::Clustering);
    let missing: Vec<&str> =
        table.clustering()[named..].iter().chain(hidden).map(|column| &*column.name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!("Some clustering keys are missing: {}", missing.join(", "))))
}

/// The plan without its `USING`.
fn finish(filter: Where, cells: Cells, change: RowChange, table: &Arc<Table>) -> WritePlan {
    let PartitionChoice::Keys { columns: keys, .. } = filter.partitions else {
        unreachable!("a write names its partitions");
    };
    let (statics, static_counters) = without_counters(cells.statics);
    let (rows, row_counters) = without_counters(cells.rows);
    let (static_cells, static_lists) = without_lists(statics);
    let (row_cells, row_lists) = without_lists(rows);
    WritePlan {
        table: table.clone(),
        keys,
        rows: filter.rows,
        change,
        static_cells,
        row_cells,
        static_lists,
        row_lists,
        condition: None,
        static_counters,
        row_counters,
        json: None,
        timestamp: None,
        ttl: None,
        timeout: None,
    }
}

fn compile_update(
    update: &Update,
    test: Option<&ConditionTest>,
    table: &Arc<Table>,
    compiler: &mut Compiler<'_>,
) -> Result<WritePlan> {
    let timeout = timeout(&update.using, compiler)?;
    let timestamp = timestamp(&update.using, compiler)?;
    let ttl = ttl(&update.using, compiler)?;
    let mut cells = Cells::default();
    for assignment in &update.assignments {
        let name = &assignment.column;
        let column = table.column(name).ok_or_else(|| undefined(name, table))?;
        if column.kind <= ColumnKind::Clustering {
            let text = format!("PRIMARY KEY part {name} found in SET part");
            return Err(Error::invalid(text));
        }
        cells.assign(column, cell_op(column, assignment, test, compiler)?)?;
    }
    let mut filter = Where::analyse(&update.relations, StatementKind::Update, compiler)?;
    let change = change_of_cells((&cells, test), &mut filter, "UPDATE", table)?;
    Ok(WritePlan { timestamp, ttl, timeout, ..finish(filter, cells, change, table) })
}

/// What a write of cells changes: rows, or the static row alone.
fn change_of_cells(
    (cells, test): (&Cells, Option<&ConditionTest>),
    filter: &mut Where,
    statement: &str,
    table: &Table,
) -> Result<RowChange> {
    if !cells.rows.is_empty() {
        require_rows(filter, table)?;
        return Ok(RowChange::Cells);
    }
    if test.is_some_and(ConditionTest::names_regular) {
        // Of a row that is looked at, the static row is written.
        require_rows(filter, table)?;
        return Ok(RowChange::StaticOnly);
    }
    if !filter.rows.is_all() {
        return Err(Error::invalid(format!(
            "Invalid restrictions on clustering columns since the {statement} statement modifies only static columns"
        )));
    }
    Ok(RowChange::StaticOnly)
}

fn compile_delete(
    delete: &Delete,
    test: Option<&ConditionTest>,
    table: &Arc<Table>,
    compiler: &mut Compiler<'_>,
) -> Result<WritePlan> {
    let mut cells = Cells::default();
    for deletion in &delete.deletions {
        let name = &deletion.column;
        let column = table.column(name).ok_or_else(|| undefined(name, table))?;
        if column.kind <= ColumnKind::Clustering {
            return Err(Error::invalid(format!(
                "Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)"
            )));
        }
        cells.assign(column, deletion_op(column, deletion, compiler)?)?;
    }
    let timeout = timeout(&delete.using, compiler)?;
    let timestamp = timestamp(&delete.using, compiler)?;
    let of_columns = !delete.deletions.is_empty();
    let mut filter = Where::analyse(&delete.relations, StatementKind::Delete, compiler)?;
    if let Some(test) = test.filter(|_| !filter.rows.is_rows(table)) {
        refuse_stretch(test, !cells.rows.is_empty() || cells.statics.is_empty())?;
    }
    let change = if of_columns {
        let ranged = !cells.rows.is_empty() && !filter.rows.is_rows(table);
        if ranged {
            return Err(Error::invalid("Range deletions are not supported for specific columns"));
        }
        change_of_cells((&cells, test), &mut filter, "DELETE", table)?
    } else if filter.rows.is_all() {
        RowChange::DeletePartition
    } else if filter.rows.is_rows(table) {
        RowChange::DeleteRows
    } else {
        RowChange::DeleteRanges
    };
    Ok(WritePlan { timestamp, timeout, ..finish(filter, cells, change, table) })
}

/// What an assignment does to its column.
fn cell_op(
    column: &Column,
    assignment: &Assignment,
    test: Option<&ConditionTest>,
    compiler: &mut Compiler<'_>,
) -> Result<CellOp> {
    let to = ExpectedType::new(column.name.clone(), column.ty.clone());
    let grows = column.ty.is_collection() && column.ty.is_multi_cell();
    let counts = column.ty == CqlType::Counter;
    match &assignment.assign {
        Assign::Set(value) if counts => {
            compiler.term(value, &to)?;
            Err(Error::invalid(format!(
                "Cannot set the value of counter column {} (counters can only be incremented/decremented, not set)",
                column.name
            )))
        }
        Assign::Set(value) => Ok(CellOp::Set(compiler.term(value, &to)?)),
        Assign::Add(value) if counts => {
            Ok(CellOp::Count(CounterOp::Add(compiler.term(value, &to)?)))
        }
        Assign::Subtract(value) if counts => {
            Ok(CellOp::Count(CounterOp::Subtract(compiler.term(value, &to)?)))
        }
        Assign::Add(value) if grows => {
            let must_be = "addition has to be a map";
            check_map_operand(column, value, must_be)?;
            let added = compiler.term(value, &to);
            added.map(CellOp::Add).map_err(|error| of_map(column, value, must_be, error))
        }
        // Cassandra adds to what its conditions have read.
        Assign::Add(value) if test.is_some() && has_sum(&column.ty) => {
            Ok(CellOp::List(ListOpPlan::Grow(compiler.term(value, &to)?)))
        }
        Assign::Add(value) => Err(cannot_add(column, value, test)),
        Assign::Subtract(value) if grows && matches!(column.ty, CqlType::List { .. }) => {
            Ok(CellOp::List(ListOpPlan::Discard(compiler.term(value, &to)?)))
        }
        Assign::Subtract(value) if grows => {
            let removed = removed_type(column);
            let must_be = "substraction has to be a set";
            check_map_operand(column, value, must_be)?;
            let to = ExpectedType::new(column.name.clone(), removed);
            let removed = compiler.term(value, &to);
            removed.map(CellOp::Remove).map_err(|error| of_map(column, value, must_be, error))
        }
        Assign::Subtract(value) => {
            let what = if column.ty.is_collection() { FROZEN } else { NO_COUNTER };
            Err(cannot_change(column, "-", value, what))
        }
        Assign::Prepend(value) => match &column.ty {
            CqlType::List { frozen: false, .. } => Ok(CellOp::Prepend(compiler.term(value, &to)?)),
            ty => {
                let what = if matches!(ty, CqlType::List { .. }) { "frozen" } else { "non" };
                let name = &column.name;
                // Cassandra writes `-` here, too.
                Err(Error::invalid(format!(
                    "Invalid operation ({name} = {value} - {name}) for {what} list column {name}"
                )))
            }
        },
        Assign::SetElement(key, value) => set_element(column, key, value, compiler),
        Assign::SetField(field, value) => {
            let (index, to) = field_of(column, field, |what| {
                let name = &column.name;
                format!("Invalid operation ({name}.{field} = {value}) for {what} column {name}")
            })?;
            Ok(CellOp::SetField(index, compiler.term(value, &to)?))
        }
    }
}

/// Refuses what is written to be added to a map and is no map, or to be taken from it and is no set
/// of keys, in Cassandra's words.
fn check_map_operand(column: &Column, value: &Expr, must_be: &str) -> Result<()> {
    let fits = match value {
        Expr::Set(items) => items.is_empty() || must_be.ends_with("set"),
        Expr::Map(_) => must_be.ends_with("map"),
        Expr::List(_) | Expr::Literal(_) => false,
        _ => true,
    };
    match column.ty {
        CqlType::Map { .. } if !fits => {
            Err(of_map(column, value, must_be, Error::Invalid(String::new())))
        }
        _ => Ok(()),
    }
}

/// What is said of a value that is not added to a map or removed from one, whatever is wrong with it.
fn of_map(column: &Column, value: &Expr, must_be: &str, error: Error) -> Error {
    match (&column.ty, error) {
        (CqlType::Map { .. }, Error::Invalid(_)) => {
            Error::Invalid(format!("Value for a map {must_be}, but was: '{value}'"))
        }
        (_, error) => error,
    }
}

/// What `c = c - v` takes: a set for sets, keys for maps.
fn removed_type(column: &Column) -> CqlType {
    match &column.ty {
        CqlType::Map { key, .. } => CqlType::Set { element: key.clone(), frozen: true },
        ty => ty.clone(),
    }
}

/// What the index of an element is: an int.
fn index_type(column: &Column) -> ExpectedType {
    ExpectedType::new(format!("idx({})", column.name), CqlType::Int)
}

fn set_element(
    column: &Column,
    key: &Expr,
    value: &Expr,
    compiler: &mut Compiler<'_>,
) -> Result<CellOp> {
    let name = &column.name;
    match &column.ty {
        CqlType::Map { key: keys, value: values, frozen: false } => {
            let keys = ExpectedType::new(format!("key({name})"), (**keys).clone());
            let values = ExpectedType::new(format!("value({name})"), (**values).clone());
            Ok(CellOp::Put(compiler.term(key, &keys)?, compiler.term(value, &values)?))
        }
        CqlType::List { element, frozen: false } => {
            let elements = ExpectedType::new(format!("value({name})"), (**element).clone());
            let index = compiler.term(key, &index_type(column))?;
            let value = compiler.term(value, &elements)?;
            Ok(CellOp::List(ListOpPlan::Set(index, value)))
        }
        CqlType::Set { frozen: false, .. } => Err(Error::invalid(format!(
            "Invalid operation ({name}[{key}] = {value}) for set column {name}"
        ))),
        ty if ty.is_collection() => Err(Error::invalid(format!(
            "Invalid operation ({name}[{key}] = {value}) for frozen collection column {name}"
        ))),
        _ => Err(Error::invalid(format!(
            "Invalid operation ({name}[{key}] = {value}) for non collection column {name}"
        ))),
    }
}

/// The index of a field of a user-defined type, and what it takes; `wrong` says what is wrong with a column of another
/// kind.
fn field_of(
    column: &Column,
    field: &str,
    wrong: impl Fn(&str) -> String,
) -> Result<(u16, ExpectedType)> {
    let name = &column.name;
    let CqlType::Udt { definition, frozen } = &column.ty else {
        return Err(Error::invalid(wrong("non-UDT")));
    };
    if *frozen {
        return Err(Error::invalid(wrong("frozen UDT")));
    }
    let Some((index, ty)) = definition.field(field) else {
        return Err(Error::invalid(format!(
            "UDT column {name} does not have a field named {field}"
        )));
    };
    Ok((index as u16, ExpectedType::new(format!("{name}.{field}"), ty.clone())))
}

/// The operation by which a `DELETE` removes a column, or an element of it.
fn deletion_op(
    column: &Column,
    deletion: &Deletion,
    compiler: &mut Compiler<'_>,
) -> Result<CellOp> {
    let name = &column.name;
    match &deletion.part {
        None => Ok(CellOp::Delete),
        Some(Access::Field(field)) => {
            let (index, field) = field_of(column, field, |what| match what {
                "frozen UDT" => {
                    format!("Frozen UDT column {name} does not support field deletions")
                }
                what => format!("Invalid field deletion operation for {what} column {name}"),
            })?;
            Ok(CellOp::SetField(index, Term::null(field.ty)))
        }
        Some(Access::Element(key)) => {
            let (what, element) = match &column.ty {
                CqlType::Map { key, frozen: false, .. } => ("key", key),
                CqlType::Set { element, frozen: false } => ("value", element),
                CqlType::List { frozen: false, .. } => {
                    let index = compiler.term(key, &index_type(column))?;
                    return Ok(CellOp::List(ListOpPlan::Delete(index)));
                }
                ty if ty.is_collection() => {
                    return Err(Error::invalid(format!(
                        "Invalid deletion operation for frozen collection column {name}"
                    )));
                }
                _ => {
                    return Err(Error::invalid(format!(
                        "Invalid deletion operation for non collection column {name}"
                    )));
                }
            };
            let to = ExpectedType::new(format!("{what}({name})"), (**element).clone());
            Ok(CellOp::RemoveKey(compiler.term(key, &to)?))
        }
        Some(Access::Slice(..)) => Err(Error::invalid("Slices cannot be deleted")),
    }
}

#[cold]
fn cannot_add(column: &Column, value: &Expr, test: Option<&ConditionTest>) -> Error {
    let what = match &column.ty {
        CqlType::Tuple(_) | CqlType::Udt { .. } => "tuple column",
        ty if ty.is_collection() => FROZEN,
        _ if test.is_some() => "non-numeric and non-text type",
        _ => NO_COUNTER,
    };
    cannot_change(column, "+", value, what)
}

#[cold]
fn cannot_change(column: &Column, op: &str, value: &Expr, what: &str) -> Error {
    let name = &column.name;
    Error::invalid(format!("Invalid operation ({name} = {name} {op} {value}) for {what} {name}"))
}

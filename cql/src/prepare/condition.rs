//! `IF ..` to a plan: each condition compiled against its column, or refused in Cassandra's words.
//!
//! 1. `compile_test`: IF NOT EXISTS, IF EXISTS, or a list of conditions. Those of static columns come last, as
//!    Cassandra names them in its answer.
//! 2. `compile_condition`: the column, the part of it (an element, a field), the operator, the values as terms of the
//!    type of that part.
//! 3. `with_answer` adds what is answered when the condition does not hold.
//!
//! Invariant: a condition is never on a key or a counter; durations are not compared by order.
//!
//! Not here: which rows a conditional statement may name (`write.rs`), batches (`batch.rs`), the conditions of several
//! statements in one record (`plan/conditions.rs`), whether a condition holds (`model/src/condition.rs`).

use std::sync::Arc;

use model::condition::Comparison;
use model::read;
use model::schema::{Column, ColumnKind};
use model::{CqlType, Table};

use crate::error::{Error, Result};
use crate::expr::{Compiler, ExpectedType, Term};
use crate::lang::ast::{Access, Condition, If, Modification, Operand, Operator};
use crate::plan::{
    ColumnCondition, ConditionTest, ConditionValues, NotApplied, PartPlan, WriteCondition,
};
use crate::restrict::{contained, undefined};
use crate::types::kind_with_durations;

/// Whether a statement has an `IF`.
pub(super) fn is_conditional(modification: &Modification) -> bool {
    match modification {
        Modification::Insert(insert) => insert.if_not_exists,
        Modification::Update(update) => update.condition != If::Always,
        Modification::Delete(delete) => delete.condition != If::Always,
    }
}

/// What must be so for a statement to write; `None` if nothing has.
pub(super) fn compile_test(
    modification: &Modification,
    compiler: &mut Compiler<'_>,
) -> Result<Option<ConditionTest>> {
    let condition = match modification {
        Modification::Insert(insert) if insert.if_not_exists => {
            return Ok(Some(ConditionTest::NotExists));
        }
        Modification::Insert(_) => return Ok(None),
        Modification::Update(update) => &update.condition,
        Modification::Delete(delete) => &delete.condition,
    };
    match condition {
        If::Always => Ok(None),
        If::Exists => Ok(Some(ConditionTest::Exists)),
        If::Conditions(conditions) => {
            let each = conditions.iter().map(|condition| compile_condition(condition, compiler));
            let mut each: Vec<ColumnCondition> = each.collect::<Result<_>>()?;
            // Stable: as Cassandra names them in its answer.
            each.sort_by_key(|condition| condition.column.kind == ColumnKind::Static);
            Ok(Some(ConditionTest::Columns(each)))
        }
    }
}

impl ConditionTest {
    /// Whether it looks at regular columns by their names.
    pub(super) fn names_regular(&self) -> bool {
        let is_regular = |condition: &ColumnCondition| condition.column.kind == ColumnKind::Regular;
        matches!(self, ConditionTest::Columns(all) if all.iter().any(is_regular))
    }
}

/// Refuses a conditional `DELETE` that does not name its row, unless it is about static columns alone.
pub(super) fn refuse_stretch(test: &ConditionTest, deletes_regular: bool) -> Result<()> {
    let in_order_to = match (deletes_regular, test.names_regular()) {
        (true, _) => "delete non static columns",
        (false, true) => "use IF condition on non static columns",
        (false, false) => return Ok(()),
    };
    Err(Error::invalid(format!(
        "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to {in_order_to}"
    )))
}

/// The condition with its answer.
pub(super) fn with_answer(
    test: ConditionTest,
    table: &Arc<Table>,
    compiler: &Compiler<'_>,
) -> Result<Box<WriteCondition>> {
    let not_applied = Arc::new(NotApplied::of_statement(&test, table, compiler.schema)?);
    Ok(Box::new(WriteCondition { test, not_applied }))
}

fn compile_condition(
    condition: &Condition,
    compiler: &mut Compiler<'_>,
) -> Result<ColumnCondition> {
    let (name, table) = (&condition.column, compiler.table);
    let column = table.column(name).ok_or_else(|| undefined(name, table))?.clone();
    if column.ty == CqlType::Counter {
        return Err(Error::invalid("Conditions on counters are not supported"));
    }
    let (part, to) = part_of(&column, condition.part.as_ref(), compiler)?;
    let (comparison, values) = match (condition.operator, &condition.operand) {
        (operator @ (Operator::Contains | Operator::ContainsKey), Operand::One(value)) => {
            let (operator, term) = contained(&column, operator, value, compiler)?;
            (Comparison::Is(operator), ConditionValues::One(term))
        }
        (_, Operand::Many(values)) => {
            let terms = values.iter().map(|value| compiler.term(value, &to));
            let terms = terms.collect::<Result<_>>()?;
            (Comparison::Is(read::Operator::In), ConditionValues::Many(terms))
        }
        (_, Operand::ManyBind(marker)) => {
            let ty = CqlType::List { element: to.ty.clone().into(), frozen: true };
            compiler.mark(*marker, &format!("in({})", to.name), ty.clone());
            let term = Term::bind(*marker, &ty);
            (Comparison::Is(read::Operator::In), ConditionValues::Listed(term))
        }
        (operator, Operand::One(value)) => {
            refuse_slice_of_durations(operator, &to.ty)?;
            (comparison(operator), ConditionValues::One(compiler.term(value, &to)?))
        }
        (_, Operand::Between(..)) => unreachable!("the grammar of conditions has no BETWEEN"),
    };
    if column.kind <= ColumnKind::Clustering {
        return Err(Error::invalid(format!(
            "PRIMARY KEY column '{name}' cannot have IF conditions"
        )));
    }
    Ok(ColumnCondition { column, part, comparison, values })
}

fn comparison(operator: Operator) -> Comparison {
    Comparison::Is(match operator {
        Operator::NotEqual => return Comparison::NotEqual,
        Operator::Equal => read::Operator::Equal,
        Operator::Less => read::Operator::Less,
        Operator::LessEqual => read::Operator::LessOrEqual,
        Operator::Greater => read::Operator::Greater,
        Operator::GreaterEqual => read::Operator::GreaterOrEqual,
        other => unreachable!("the grammar of conditions has no {}", other.symbol()),
    })
}

/// What of the column is compared, and what it is compared with.
fn part_of(
    column: &Column,
    access: Option<&Access>,
    compiler: &mut Compiler<'_>,
) -> Result<(PartPlan, ExpectedType)> {
    let name = &column.name;
    let expected =
        |what: &str, ty: &CqlType| ExpectedType::new(format!("{what}({name})"), ty.clone());
    match (access, &column.ty) {
        (None, ty) => Ok((PartPlan::Whole, ExpectedType::new(name.clone(), ty.clone()))),
        (Some(Access::Element(key)), CqlType::List { element, .. }) => {
            let index = compiler.term(key, &expected("idx", &CqlType::Int))?;
            Ok((PartPlan::Index(index), expected("value", element)))
        }
        (Some(Access::Element(key)), CqlType::Map { key: keys, value, .. }) => {
            let key = compiler.term(key, &expected("key", keys))?;
            Ok((PartPlan::Key(key), expected("value", value)))
        }
        (Some(Access::Element(_)), CqlType::Set { .. }) => {
            Err(Error::invalid(format!("Invalid element access syntax for set column {name}")))
        }
        (Some(Access::Element(_) | Access::Slice(..)), _) => Err(Error::invalid(format!(
            "Invalid element access syntax for non-collection column {name}"
        ))),
        (Some(Access::Field(field)), CqlType::Udt { definition, .. }) => {
            let (index, ty) = definition.field(field).ok_or_else(|| {
                Error::invalid(format!("Unknown field {field} for column {name}"))
            })?;
            let to = ExpectedType::new(format!("{name}.{field}"), ty.clone());
            Ok((PartPlan::Field(index as u16), to))
        }
        (Some(Access::Field(_)), _) => {
            Err(Error::invalid(format!("Invalid field access syntax for non-UDT column {name}")))
        }
    }
}

/// Durations have no order.
fn refuse_slice_of_durations(operator: Operator, ty: &CqlType) -> Result<()> {
    let Some(what) = kind_with_durations(ty).filter(|_| operator.is_slice()) else {
        return Ok(());
    };
    Err(Error::invalid(match ty {
        CqlType::Duration => {
            format!("Slice conditions ( {} ) are not supported on durations", operator.symbol())
        }
        _ => format!("Slice conditions are not supported on {what} containing durations"),
    }))
}

//! Relations to restrictions, compiled and merged where they meet.
//!
//! 1. `add` compiles a relation to a [`Kind`]: values, a slice, or operators on a collection.
//! 2. It is merged with what its columns have already (`restrictions.rs`).
//! 3. `partition.rs` and `rows.rs` take what is theirs out of it; the rest is a filter.
//!
//! Not here: which restrictions meet and which are refused together, which make a key or a slice, and what needs
//! ALLOW FILTERING.

use std::collections::HashSet;

use model::CqlType;
use model::schema::{Column, ColumnKind};

use super::restrictions::{Bound, ColumnRestriction, Kind, Restrictions, TupleRestriction};
use super::{TupleForm, ValueSet, Values, indexed, list_of, tuple_of};
use crate::error::{Error, Result};
use crate::expr::{Compiler, ExpectedType, Term, undefined};
use crate::lang::ast::{Expr, Operand, Operator, Relation, Target};
use crate::lang::keyword::quoted;
use crate::types::kind_with_durations;

impl Restrictions {
    /// Adds a relation.
    pub(super) fn add(&mut self, relation: &Relation, compiler: &mut Compiler<'_>) -> Result<()> {
        match &relation.target {
            Target::Column(name) => {
                let column = find(name, compiler)?;
                self.add_column(&column, relation, compiler)
            }
            Target::Element(name, key) => {
                let column = find(name, compiler)?;
                self.add_element(&column, key, relation, compiler)
            }
            Target::Columns(names) => self.add_tuple(names, relation, compiler),
            Target::Token(names) => self.add_token(names, relation, compiler),
        }
    }

    /// Adds `column = value` of a column that has no restriction: an INSERT gives each once, and may have many.
    pub(super) fn add_equal(
        &mut self,
        column: &Column,
        value: &Expr,
        compiler: &mut Compiler<'_>,
    ) -> Result<()> {
        let term = compiler.term(value, &receiver(column))?;
        let kind = Kind::ValueSet(ValueSet::One(Values::Each(vec![term])));
        self.singles.push(ColumnRestriction { column: column.clone(), kind });
        Ok(())
    }

    fn add_column(
        &mut self,
        column: &Column,
        relation: &Relation,
        compiler: &mut Compiler<'_>,
    ) -> Result<()> {
        let to = receiver(column);
        let kind = match (relation.operator, &relation.operand) {
            (Operator::Like, Operand::One(value)) if !column.ty.is_multi_cell() => {
                let term = compiler.term(value, &to)?;
                if !indexed::has_like(compiler.table, column) {
                    refuse_operator(column, relation)?;
                }
                Kind::Like(term)
            }
            _ => {
                refuse_operator(column, relation)?;
                Restrictions::column_kind(column, relation, &to, compiler)?
            }
        };
        self.merge_single(ColumnRestriction { column: column.clone(), kind }, compiler.table)
    }

    /// The condition of a relation of one column that is no LIKE.
    fn column_kind(
        column: &Column,
        relation: &Relation,
        to: &ExpectedType,
        compiler: &mut Compiler<'_>,
    ) -> Result<Kind> {
        Ok(match (relation.operator, &relation.operand) {
            (Operator::Contains | Operator::ContainsKey, Operand::One(value)) => {
                let (operator, term) = contained(column, relation.operator, value, compiler)?;
                Kind::Contains(vec![(operator, vec![term])])
            }
            (_, Operand::Many(values)) => {
                let terms = values
                    .iter()
                    .map(|value| Ok(Values::Each(vec![compiler.term(value, to)?])))
                    .collect::<Result<_>>()?;
                Kind::ValueSet(ValueSet::of(terms))
            }
            (_, Operand::ManyBind(marker)) => {
                let ty = list_of(&[column], TupleForm::Plain);
                compiler.mark(*marker, &format!("in({})", column.name), ty.clone());
                Kind::ValueSet(ValueSet::Listed(Term::bind(*marker, &ty)))
            }
            (operator, operand) => slice_or_equal(operator, operand, |value| {
                Ok(Values::Each(vec![compiler.term(value, to)?]))
            })?,
        })
    }

    /// `m[key] = value`.
    fn add_element(
        &mut self,
        column: &Column,
        key: &Expr,
        relation: &Relation,
        compiler: &mut Compiler<'_>,
    ) -> Result<()> {
        let CqlType::Map { key: key_ty, value: value_ty, .. } = &column.ty else {
            let name = &column.name;
            return Err(Error::invalid(match &column.ty {
                CqlType::List { .. } => format!(
                    "Indexes on list entries ({name}[index] = value) are not currently supported."
                ),
                _ => format!("Column {name} cannot be used as a map"),
            }));
        };
        if !column.ty.is_multi_cell() {
            return Err(Error::invalid(format!(
                "Map-entry equality predicates on frozen map column {} are not supported",
                column.name
            )));
        }
        let (Operator::Equal, Operand::One(value)) = (relation.operator, &relation.operand) else {
            return Err(Error::invalid("Only EQ relations are supported on map entries"));
        };
        let keys = ExpectedType::new(format!("key({})", column.name), (**key_ty).clone());
        let values = ExpectedType::new(format!("value({})", column.name), (**value_ty).clone());
        let terms = vec![compiler.term(key, &keys)?, compiler.term(value, &values)?];
        let kind = Kind::Contains(vec![(model::read::Operator::Entry, terms)]);
        self.merge_single(ColumnRestriction { column: column.clone(), kind }, compiler.table)
    }

    fn add_tuple(
        &mut self,
        names: &[String],
        relation: &Relation,
        compiler: &mut Compiler<'_>,
    ) -> Result<()> {
        let columns = names.iter().map(|name| find(name, compiler)).collect::<Result<Vec<_>>>()?;
        check_tuple(&columns, relation)?;
        let refs: Vec<&Column> = columns.iter().collect();
        let name = format!("({})", names.join(","));
        let kind = match &relation.operand {
            Operand::Many(values) => {
                let values = values
                    .iter()
                    .map(|value| tuple_values(value, &refs, &name, compiler))
                    .collect::<Result<_>>()?;
                Kind::ValueSet(ValueSet::of(values))
            }
            Operand::ManyBind(marker) => {
                let ty = list_of(&refs, TupleForm::Tuple);
                compiler.mark(*marker, &format!("in{name}"), ty.clone());
                Kind::ValueSet(ValueSet::ListedTuples(Term::bind(*marker, &ty)))
            }
            operand => slice_or_equal(relation.operator, operand, |value| {
                tuple_values(value, &refs, &name, compiler)
            })?,
        };
        self.merge_multi(TupleRestriction { columns, kind }, compiler.table)
    }

    fn add_token(
        &mut self,
        names: &[String],
        relation: &Relation,
        compiler: &mut Compiler<'_>,
    ) -> Result<()> {
        let key = compiler.table.partition_key();
        let columns = names.iter().map(|name| find(name, compiler)).collect::<Result<Vec<_>>>()?;
        let mut seen = HashSet::new();
        if !names.iter().all(|name| seen.insert(name)) {
            return Err(Error::invalid(
                "The token() function contains duplicate partition key components",
            ));
        }
        if columns.iter().any(|column| column.kind != ColumnKind::PartitionKey)
            || columns.len() != key.len()
        {
            return Err(Error::invalid(
                "The token() function must be applied to all partition key components or none of them",
            ));
        }
        if columns.iter().zip(key).any(|(column, key)| column.id != key.id) {
            let order: Vec<&str> = key.iter().map(|column| column.name.as_str()).collect();
            return Err(Error::invalid(format!(
                "The token function arguments must be in the partition key order: {}",
                order.join(", ")
            )));
        }
        if relation.operator == Operator::NotEqual {
            return Err(Error::invalid(format!(
                "Unsupported \"!=\" relation: token({}) != {}",
                names.join(", "),
                shown(&relation.operand)
            )));
        }
        let to = ExpectedType::new("partition key token", CqlType::Bigint);
        let new = slice_or_equal(relation.operator, &relation.operand, |value| {
            Ok(Values::Each(vec![compiler.term(value, &to)?]))
        })?;
        self.merge_token(&names.join(", "), new)
    }
}

fn find(name: &str, compiler: &Compiler<'_>) -> Result<Column> {
    compiler.table.column(name).cloned().ok_or_else(|| undefined(name, compiler.table))
}

fn receiver(column: &Column) -> ExpectedType {
    ExpectedType::new(column.name.clone(), column.ty.clone())
}

/// The right side of a relation, for an error.
fn shown(operand: &Operand) -> String {
    match operand {
        Operand::One(value) => value.to_string(),
        Operand::ManyBind(_) => "?".to_owned(),
        Operand::Many(_) | Operand::Between(..) => "(...)".to_owned(),
    }
}

/// Operators that no column, or not this one, can have.
fn refuse_operator(column: &Column, relation: &Relation) -> Result<()> {
    let name = quoted(&column.name);
    let shown = || shown(&relation.operand);
    let text = match relation.operator {
        Operator::NotEqual => {
            format!("Unsupported \"!=\" relation: {name} != {}", shown())
        }
        Operator::IsNotNull => format!("Unsupported restriction: {name} IS NOT NULL"),
        Operator::IsNull => format!("Unsupported restriction: {name} IS NULL"),
        Operator::Like => format!(
            "LIKE restriction is only supported on properly indexed columns. {name} LIKE {} is not valid.",
            shown()
        ),
        Operator::NotIn | Operator::NotContains | Operator::NotContainsKey => {
            format!("Unsupported \"{}\" relation on {name}", relation.operator.symbol())
        }
        Operator::Contains | Operator::ContainsKey => return Ok(()),
        _ if column.ty.is_multi_cell() && matches!(column.ty, CqlType::Udt { .. }) => format!(
            "Non-frozen UDT column '{}' ({}) cannot be restricted by any relation",
            column.name, column.ty
        ),
        operator if column.ty.is_multi_cell() => format!(
            "Collection column '{}' ({}) cannot be restricted by a '{}' relation",
            column.name,
            column.ty,
            operator.symbol()
        ),
        operator if operator.is_slice() => match kind_with_durations(&column.ty) {
            None => return Ok(()),
            Some(_) if column.ty == CqlType::Duration => {
                "Slice restrictions are not supported on duration columns".to_owned()
            }
            Some(what) => {
                format!("Slice restrictions are not supported on {what} containing durations")
            }
        },
        _ => return Ok(()),
    };
    Err(Error::invalid(text))
}

/// What `CONTAINS` or `CONTAINS KEY` looks for in a column.
pub(crate) fn contained(
    column: &Column,
    operator: Operator,
    value: &Expr,
    compiler: &mut Compiler<'_>,
) -> Result<(model::read::Operator, Term)> {
    let key = operator == Operator::ContainsKey;
    let element = match &column.ty {
        CqlType::Map { key: of, .. } if key => of,
        CqlType::Map { value: of, .. } => of,
        CqlType::List { element, .. } | CqlType::Set { element, .. } if !key => element,
        _ if key => {
            return Err(Error::invalid(format!(
                "Cannot use CONTAINS KEY on non-map column {}",
                column.name
            )));
        }
        _ => {
            return Err(Error::invalid(format!(
                "Cannot use CONTAINS on non-collection column {}",
                column.name
            )));
        }
    };
    let (what, operator) = if key {
        ("key", model::read::Operator::ContainsKey)
    } else {
        ("value", model::read::Operator::Contains)
    };
    let to = ExpectedType::new(format!("{what}({})", column.name), (**element).clone());
    Ok((operator, compiler.term(value, &to)?))
}

/// The columns of a tuple are clustering columns in order.
fn check_tuple(columns: &[Column], relation: &Relation) -> Result<()> {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let whole = || {
        let right = shown(&relation.operand);
        format!("({}) {} {right}", names.join(", "), relation.operator.symbol())
    };
    let mut seen = HashSet::new();
    for (index, column) in columns.iter().enumerate() {
        if column.kind != ColumnKind::Clustering {
            return Err(Error::invalid(format!(
                "Multi-column relations can only be applied to clustering columns but was applied to: {}",
                column.name
            )));
        }
        if !seen.insert(column.id) {
            return Err(Error::invalid(format!(
                "Column \"{}\" appeared twice in a relation: {}",
                column.name,
                whole()
            )));
        }
        if index > 0 && column.position != columns[index - 1].position + 1 {
            return Err(Error::invalid(format!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {}",
                whole()
            )));
        }
    }
    match relation.operator {
        Operator::NotEqual | Operator::NotIn => Err(Error::invalid(format!(
            "Unsupported \"{}\" relation: {}",
            relation.operator.symbol(),
            whole()
        ))),
        _ => Ok(()),
    }
}

/// The values of `(a, b)`, from a tuple or a marker.
fn tuple_values(
    value: &Expr,
    columns: &[&Column],
    name: &str,
    compiler: &mut Compiler<'_>,
) -> Result<Values> {
    match value {
        Expr::Tuple(items) => {
            if items.len() != columns.len() {
                return Err(Error::invalid(format!(
                    "Expected {} elements in value tuple, but got {}: {value}",
                    columns.len(),
                    items.len()
                )));
            }
            let terms = items
                .iter()
                .zip(columns)
                .map(|(item, column)| compiler.term(item, &receiver(column)));
            Ok(Values::Each(terms.collect::<Result<_>>()?))
        }
        _ => {
            let to = ExpectedType::new(name, tuple_of(columns));
            Ok(Values::Whole(compiler.term(value, &to)?))
        }
    }
}

/// `=`, `<`, `<=`, `>`, `>=`, `BETWEEN`.
fn slice_or_equal(
    operator: Operator,
    operand: &Operand,
    mut values: impl FnMut(&Expr) -> Result<Values>,
) -> Result<Kind> {
    let bound = |values, inclusive| Some(Bound { values, inclusive });
    Ok(match (operator, operand) {
        (Operator::Equal, Operand::One(value)) => Kind::ValueSet(ValueSet::One(values(value)?)),
        (Operator::Less, Operand::One(value)) => {
            Kind::Slice { lower: None, upper: bound(values(value)?, false) }
        }
        (Operator::LessEqual, Operand::One(value)) => {
            Kind::Slice { lower: None, upper: bound(values(value)?, true) }
        }
        (Operator::Greater, Operand::One(value)) => {
            Kind::Slice { lower: bound(values(value)?, false), upper: None }
        }
        (Operator::GreaterEqual, Operand::One(value)) => {
            Kind::Slice { lower: bound(values(value)?, true), upper: None }
        }
        (Operator::Between, Operand::Between(first, last)) => {
            Kind::Slice { lower: bound(values(first)?, true), upper: bound(values(last)?, true) }
        }
        (operator, _) => {
            let text = format!("Unsupported \"{}\" relation", operator.symbol());
            return Err(Error::invalid(text));
        }
    })
}

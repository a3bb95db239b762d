//! Relations to restrictions: one for each column or tuple of columns, merged where they meet.
//!
//! 1. `add` compiles a relation to a [`Kind`]: values, a slice, or operators on a collection.
//! 2. `merge_single` and `merge_multi` join it with what its columns have already (`a > 1 AND a < 3` is one
//!    slice), or refuse it in Cassandra's words.
//! 3. `partition.rs` and `rows.rs` take what is theirs out of it; the rest is a filter.
//!
//! Invariant: a column has one restriction, and is in one tuple at most; only slices of different lengths,
//! such as `(a, b) > (1, 2) AND a < 3`, may begin at the same column, each with another end. Not here: which
//! restrictions make a key or a slice, and what needs ALLOW FILTERING.

use std::collections::HashSet;

use model::CqlType;
use model::schema::{Column, ColumnKind};

use super::{TupleForm, ValueSet, Values, list_of, tuple_of};
use crate::error::{Error, Result};
use crate::expr::{Compiler, ExpectedType, Term, undefined};
use crate::lang::ast::{Expr, Operand, Operator, Relation, Target};
use crate::lang::keyword::quoted;

/// One end of a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The values of the columns at this end.
    pub values: Values,
    /// Whether the place itself is inside.
    pub inclusive: bool,
}

/// The condition that a restriction puts on its columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// `=` or `IN`.
    ValueSet(ValueSet),
    /// `>`, `<` and both.
    Slice {
        /// `>` or `>=`.
        lower: Option<Bound>,
        /// `<` or `<=`.
        upper: Option<Bound>,
    },
    /// `CONTAINS`, `CONTAINS KEY`, `m[k] =`: operators with their values.
    Contains(Vec<(model::read::Operator, Vec<Term>)>),
}

/// A restriction of one column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ColumnRestriction {
    /// The column that is restricted.
    pub(super) column: Column,
    /// The condition on the column.
    pub(super) kind: Kind,
}

/// A restriction of several clustering columns together, the first at `position`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TupleRestriction {
    /// The columns in order.
    pub(super) columns: Vec<Column>,
    /// The condition on the columns.
    pub(super) kind: Kind,
}

impl TupleRestriction {
    /// The position of the first column, and that behind the last.
    fn positions(&self) -> (usize, usize) {
        let first = usize::from(self.columns[0].position);
        (first, first + self.columns.len())
    }
}

/// All restrictions of a statement.
#[derive(Default)]
pub(super) struct Restrictions {
    /// Those of one column each.
    pub(super) singles: Vec<ColumnRestriction>,
    /// Those of several clustering columns.
    pub(super) multis: Vec<TupleRestriction>,
    /// That of the token.
    pub(super) token: Option<Kind>,
}

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

    /// Adds `column = value`.
    pub(super) fn add_equal(
        &mut self,
        column: &Column,
        value: &Expr,
        compiler: &mut Compiler<'_>,
    ) -> Result<()> {
        let term = compiler.term(value, &receiver(column))?;
        let kind = Kind::ValueSet(ValueSet::One(Values::Each(vec![term])));
        self.merge_single(ColumnRestriction { column: column.clone(), kind })
    }

    fn add_column(
        &mut self,
        column: &Column,
        relation: &Relation,
        compiler: &mut Compiler<'_>,
    ) -> Result<()> {
        refuse_operator(column, relation)?;
        let to = receiver(column);
        let kind = match (relation.operator, &relation.operand) {
            (Operator::Contains | Operator::ContainsKey, Operand::One(value)) => {
                contains(column, relation.operator, value, compiler)?
            }
            (_, Operand::Many(values)) => {
                let terms = values
                    .iter()
                    .map(|value| Ok(Values::Each(vec![compiler.term(value, &to)?])))
                    .collect::<Result<_>>()?;
                Kind::ValueSet(ValueSet::of(terms))
            }
            (_, Operand::ManyBind(marker)) => {
                let ty = list_of(&[column], TupleForm::Plain);
                compiler.mark(*marker, &format!("in({})", column.name), ty.clone());
                Kind::ValueSet(ValueSet::Listed(Term::bind(*marker, &ty)))
            }
            (operator, operand) => slice_or_equal(operator, operand, |value| {
                Ok(Values::Each(vec![compiler.term(value, &to)?]))
            })?,
        };
        self.merge_single(ColumnRestriction { column: column.clone(), kind })
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
            let text = format!("Column {} cannot be used as a map", column.name);
            return Err(Error::invalid(text));
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
        self.merge_single(ColumnRestriction { column: column.clone(), kind })
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
        self.merge_multi(TupleRestriction { columns, kind })
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
        self.token = Some(match self.token.take() {
            Some(old) => merged(&names.join(", "), old, new)?,
            None => new,
        });
        Ok(())
    }

    fn merge_single(&mut self, new: ColumnRestriction) -> Result<()> {
        let name = &new.column.name;
        let is = |column: &Column| column.id == new.column.id;
        let of_tuple = |multi: &&TupleRestriction| multi.columns.iter().any(is);
        if let Some(multi) = self.multis.iter().find(of_tuple) {
            if multi.columns[0].id != new.column.id {
                return Err(mixed(name));
            }
            other_ends(name, &multi.kind, &new.kind)?;
            self.multis.push(TupleRestriction { columns: vec![new.column], kind: new.kind });
            return Ok(());
        }
        let Some(index) = self.singles.iter().position(|old| is(&old.column)) else {
            self.singles.push(new);
            return Ok(());
        };
        let old = self.singles.remove(index);
        let kind = merged(name, old.kind, new.kind)?;
        self.singles.insert(index, ColumnRestriction { column: old.column, kind });
        Ok(())
    }

    fn merge_multi(&mut self, new: TupleRestriction) -> Result<()> {
        let first = &new.columns[0];
        let of_single =
            |single: &&ColumnRestriction| new.columns.iter().any(|c| c.id == single.column.id);
        if let Some(single) = self.singles.iter().find(of_single) {
            if first.id != single.column.id {
                return Err(mixed(&single.column.name));
            }
            other_ends(&first.name, &single.kind, &new.kind)?;
            self.multis.push(new);
            return Ok(());
        }
        // Each has clustering columns that follow each other.
        let (begin, end) = new.positions();
        let meets = |old: &TupleRestriction| {
            let (first, behind) = old.positions();
            first < end && begin < behind
        };
        let Some(index) = self.multis.iter().position(meets) else {
            self.multis.push(new);
            return Ok(());
        };
        let old = self.multis.remove(index);
        if old.columns[0].id != first.id {
            return Err(Error::invalid(format!(
                "Column \"{}\" cannot be restricted by two inequalities not starting with the same column",
                first.name
            )));
        }
        if old.columns.len() != new.columns.len() {
            // Two slices over tuples of different lengths are two parts, cut one after the other.
            other_ends(&first.name, &old.kind, &new.kind)?;
            self.multis.insert(index, old);
            self.multis.push(new);
            return Ok(());
        }
        let kind = merged(&super::names(&new.columns), old.kind, new.kind)?;
        self.multis.insert(index, TupleRestriction { columns: old.columns, kind });
        Ok(())
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
        operator if operator.is_slice() && column.ty == CqlType::Duration => {
            "Slice restrictions are not supported on duration columns".to_owned()
        }
        _ => return Ok(()),
    };
    Err(Error::invalid(text))
}

fn contains(
    column: &Column,
    operator: Operator,
    value: &Expr,
    compiler: &mut Compiler<'_>,
) -> Result<Kind> {
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
    Ok(Kind::Contains(vec![(operator, vec![compiler.term(value, &to)?])]))
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

/// Two restrictions of the same columns as one.
fn merged(name: &str, old: Kind, new: Kind) -> Result<Kind> {
    let text = match (old, new) {
        (Kind::Contains(mut all), Kind::Contains(more)) => {
            all.extend(more);
            return Ok(Kind::Contains(all));
        }
        (Kind::Contains(_), _) | (_, Kind::Contains(_)) => format!(
            "Collection column {name} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
        ),
        (Kind::ValueSet(ValueSet::One(_)), _) => {
            format!("{name} cannot be restricted by more than one relation if it includes an Equal")
        }
        (Kind::ValueSet(_), _) => {
            format!("{name} cannot be restricted by more than one relation if it includes a IN")
        }
        (Kind::Slice { .. }, Kind::ValueSet(_)) => format!(
            "Column \"{name}\" cannot be restricted by both an equality and an inequality relation"
        ),
        (Kind::Slice { lower: a, upper: b }, Kind::Slice { lower: c, upper: d }) => {
            if a.is_some() && c.is_some() {
                format!("More than one restriction was found for the start bound on {name}")
            } else if b.is_some() && d.is_some() {
                format!("More than one restriction was found for the end bound on {name}")
            } else {
                return Ok(Kind::Slice { lower: a.or(c), upper: b.or(d) });
            }
        }
    };
    Err(Error::invalid(text))
}

/// Two restrictions of different shape may begin at one column if each is an end of a slice.
fn other_ends(name: &str, old: &Kind, new: &Kind) -> Result<()> {
    match (old, new) {
        (Kind::Slice { .. }, Kind::Slice { .. }) => {
            merged(name, old.clone(), new.clone()).map(drop)
        }
        (Kind::ValueSet(_), _) | (_, Kind::ValueSet(_)) => Err(Error::invalid(format!(
            "{name} cannot be restricted by more than one relation if it includes an Equal"
        ))),
        _ => Err(mixed(name)),
    }
}

#[cold]
fn mixed(name: &str) -> Error {
    Error::invalid(format!(
        "Column \"{name}\": Mixing single column relations and multi column relations on clustering columns is not allowed"
    ))
}

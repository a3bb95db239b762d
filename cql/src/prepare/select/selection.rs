//! What is selected: expressions over columns, compiled to selectors, and the columns of the result.

use crate::error::{Error, Result};
use crate::functions::{
    Fit, Function, Scalar, Signature, resolve_cast, resolve_negation, resolve_operation,
};
use crate::lang::ast::{Access, BinaryOp, Expr, QualifiedName, SelectItem, TypeName};
use crate::literal;
use crate::plan::ResultColumn;
use crate::restrict::undefined;
use crate::rows::{InStatic, Path, Selection, Selector, StampKind};
use crate::term::{Compiler, Receiver, type_fit};
use model::CqlType;
use model::schema::{Column, ColumnKind};

/// What a `SELECT` selects, compiled.
pub(super) struct Selected {
    pub(super) selection: Selection,
    pub(super) columns: Vec<ResultColumn>,
    /// Every column looked at.
    pub(super) columns_used: Vec<Column>,
}

/// A selector and the type of its value.
type Typed = (Selector, CqlType);

/// Compiles one selection.
struct Builder<'c, 'a> {
    compiler: &'c mut Compiler<'a>,
    selection: Selection,
    used: Vec<Column>,
    /// Inside the arguments of an aggregate.
    in_aggregate: bool,
}

/// Compiles the selected items; none stand for all columns.
pub(super) fn compile(items: &[SelectItem], compiler: &mut Compiler<'_>) -> Result<Selected> {
    let table = compiler.table;
    let mut builder = Builder {
        compiler,
        selection: Selection::default(),
        used: Vec::new(),
        in_aggregate: false,
    };
    builder.collect_columns(items)?;
    let mut columns = Vec::new();
    if items.is_empty() {
        for column in table.columns() {
            let selector = builder.column(column);
            builder.selection.outputs.push(selector);
            columns.push(ResultColumn { name: column.name.clone(), ty: column.ty.clone() });
        }
    }
    for item in items {
        let expr = builder.without_cast(&item.expr);
        let (selector, ty) = builder.expr(expr, None)?;
        let name = item.alias.clone().unwrap_or_else(|| heading(expr));
        builder.selection.outputs.push(selector);
        columns.push(ResultColumn { name, ty });
    }
    Ok(Selected { selection: builder.selection, columns, columns_used: builder.used })
}

impl Selected {
    /// The selection of groups: what is no aggregate is taken from the first row of each.
    pub(super) fn grouped(&self) -> Selection {
        let mut selection = self.selection.clone();
        let mut firsts = Vec::new();
        for output in &mut selection.outputs {
            take_firsts(output, &mut firsts);
        }
        selection.firsts = firsts;
        selection
    }
}

/// Replaces the parts of a selector that read a row.
fn take_firsts(selector: &mut Selector, firsts: &mut Vec<Selector>) {
    if !has_aggregate(selector) {
        firsts.push(selector.clone());
        *selector = Selector::First(firsts.len() - 1);
        return;
    }
    match selector {
        Selector::Call(_, parts) | Selector::List(parts) | Selector::Tuple(parts) => {
            parts.iter_mut().for_each(|part| take_firsts(part, firsts));
        }
        Selector::Field(inner, _) | Selector::Element(inner, ..) => take_firsts(inner, firsts),
        _ => {}
    }
}

fn has_aggregate(selector: &Selector) -> bool {
    match selector {
        Selector::Aggregate(_) => true,
        Selector::Call(_, parts) | Selector::List(parts) | Selector::Tuple(parts) => {
            parts.iter().any(has_aggregate)
        }
        Selector::Field(inner, _) | Selector::Element(inner, ..) => has_aggregate(inner),
        _ => false,
    }
}

/// The heading of a column without an alias.
fn heading(expr: &Expr) -> String {
    match expr {
        Expr::Column(name) => name.clone(),
        Expr::Call(name, arguments) => {
            let inner: Vec<String> = arguments.iter().map(heading).collect();
            match name.name.as_str() {
                "count" if arguments.is_empty() || matches!(arguments[0], Expr::Literal(_)) => {
                    "count".into()
                }
                "writetime" | "maxwritetime" | "ttl" if name.keyspace.is_none() => {
                    format!("{}({})", name.name, inner.join(", "))
                }
                plain => format!("system.{plain}({})", inner.join(", ")),
            }
        }
        Expr::Cast(inner, ty) => format!("cast({} as {ty})", heading(inner)),
        Expr::Part(inner, access) => format!("{}{access}", heading(inner)),
        Expr::Tuple(items) if items.len() == 1 => heading(&items[0]),
        Expr::Negate(inner) => format!("-{}", heading(inner)),
        Expr::Binary(op, left, right) => format!("{} {op} {}", heading(left), heading(right)),
        other => other.to_string(),
    }
}

impl Builder<'_, '_> {
    /// Gives every column that is named a slot: slots ascend as cells do.
    fn collect_columns(&mut self, items: &[SelectItem]) -> Result<()> {
        let table = self.compiler.table;
        if items.is_empty() {
            self.used = table.columns().to_vec();
        }
        for item in items {
            self.collect(&item.expr)?;
        }
        let wanted = &mut self.selection.wanted;
        for column in &self.used {
            match column.kind {
                ColumnKind::Regular => wanted.regular.push(column.id),
                ColumnKind::Static => wanted.statics.push(column.id),
                ColumnKind::Clustering => {
                    wanted.clustering = wanted.clustering.max(usize::from(column.position) + 1);
                }
                ColumnKind::PartitionKey => {}
            }
        }
        wanted.regular.sort();
        wanted.statics.sort();
        Ok(())
    }

    fn collect(&mut self, expr: &Expr) -> Result<()> {
        match expr {
            Expr::Column(name) => {
                let table = self.compiler.table;
                let column = table.column(name).ok_or_else(|| undefined(name, table))?;
                if !self.used.iter().any(|used| used.id == column.id) {
                    self.used.push(column.clone());
                }
                Ok(())
            }
            Expr::Part(inner, _)
            | Expr::TypeHint(_, inner)
            | Expr::Cast(inner, _)
            | Expr::Negate(inner) => self.collect(inner),
            Expr::List(items) | Expr::Set(items) | Expr::Tuple(items) | Expr::Call(_, items) => {
                items.iter().try_for_each(|item| self.collect(item))
            }
            Expr::Map(entries) => entries.iter().try_for_each(|(key, value)| {
                self.collect(key)?;
                self.collect(value)
            }),
            Expr::Udt(fields) => fields.iter().try_for_each(|(_, value)| self.collect(value)),
            Expr::Binary(_, left, right) => {
                self.collect(left)?;
                self.collect(right)
            }
            Expr::Literal(_) | Expr::Null | Expr::Bind(_) => Ok(()),
        }
    }

    /// The expression, without a cast to the type it has anyway.
    fn without_cast<'e>(&self, expr: &'e Expr) -> &'e Expr {
        match expr {
            Expr::Cast(inner, name) => {
                let own = self.compiler.type_of(inner);
                let same = own.is_some() && own == self.compiler.type_named(name).ok();
                if same { inner } else { expr }
            }
            _ => expr,
        }
    }

    /// The selector of a column.
    fn column(&self, column: &Column) -> Selector {
        let wanted = &self.selection.wanted;
        let place = if column.kind == ColumnKind::Static { InStatic::Yes } else { InStatic::No };
        match column.kind {
            ColumnKind::PartitionKey => Selector::PartitionKey(column.position.into()),
            ColumnKind::Clustering => Selector::Clustering(column.position.into()),
            _ if column.ty.is_multi_cell() => {
                Selector::Elements(column.id, place, column.ty.clone())
            }
            ColumnKind::Static => {
                let slot = wanted.statics.binary_search(&column.id);
                Selector::Static(slot.expect("every column named has a slot"))
            }
            ColumnKind::Regular => {
                let slot = wanted.regular.binary_search(&column.id);
                Selector::Regular(slot.expect("every column named has a slot"))
            }
        }
    }

    /// The selector of an expression; `hint` is the type it is wanted in, if that is known.
    fn expr(&mut self, expr: &Expr, hint: Option<&CqlType>) -> Result<Typed> {
        match expr {
            Expr::Column(name) => {
                let table = self.compiler.table;
                let column = table.column(name).ok_or_else(|| undefined(name, table))?;
                Ok((self.column(column), column.ty.clone()))
            }
            Expr::Part(inner, access) => self.part(inner, access),
            Expr::Call(name, arguments) => self.call(name, arguments),
            Expr::Cast(inner, name) => {
                let target = self.compiler.type_named(name)?;
                let (inner, from) = self.expr(inner, None)?;
                let cast = resolve_cast(from, target.clone())?;
                Ok((Selector::Call(Box::new(cast), vec![inner]), target))
            }
            Expr::TypeHint(name, inner) => self.type_hint(name, inner),
            Expr::Negate(inner) => {
                let (inner, ty) = self.expr(inner, hint)?;
                let negation = resolve_negation(ty.clone())?;
                Ok((Selector::Call(Box::new(negation), vec![inner]), ty))
            }
            Expr::Binary(op, left, right) => self.operation(*op, left, right),
            Expr::Tuple(items) if items.len() == 1 => self.expr(&items[0], hint),
            Expr::Tuple(items) => {
                let typed = items.iter().map(|item| self.expr(item, None));
                let (items, types): (Vec<_>, Vec<_>) =
                    typed.collect::<Result<Vec<_>>>()?.into_iter().unzip();
                let types = types.iter().map(CqlType::frozen).collect();
                Ok((Selector::Tuple(items), CqlType::Tuple(types)))
            }
            Expr::List(items) if !items.is_empty() => {
                let typed = items.iter().map(|item| self.expr(item, None));
                let typed = typed.collect::<Result<Vec<_>>>()?;
                let element = typed[0].1.clone();
                if typed.iter().any(|(_, ty)| type_fit(ty, &element) == Fit::No) {
                    return Err(Error::invalid(format!("{expr} has elements of several types")));
                }
                let items = typed.into_iter().map(|(item, _)| item).collect();
                Ok((Selector::List(items), CqlType::List { element: element.into(), frozen: true }))
            }
            other => match hint {
                Some(ty) => self.constant(other, ty),
                None => Err(Error::invalid(format!(
                    "Cannot infer type for term {other} in selection clause (try using a cast to force a type)"
                ))),
            },
        }
    }

    /// A term that is the same for all rows.
    fn constant(&mut self, expr: &Expr, ty: &CqlType) -> Result<Typed> {
        let term = self.compiler.term(expr, &Receiver::new("[selection]", ty.clone()))?;
        self.selection.terms.push(term);
        Ok((Selector::Constant(self.selection.terms.len() - 1), ty.clone()))
    }

    /// `(type) value`: constants are made in the type, other values must have it.
    fn type_hint(&mut self, name: &TypeName, inner: &Expr) -> Result<Typed> {
        let ty = self.compiler.type_named(name)?;
        if self.compiler.fit(inner, &ty) == Fit::No {
            return Err(Error::invalid(format!("Cannot assign value {inner} to {name}")));
        }
        let has_own = self.compiler.type_of(inner).is_some();
        if has_own { Ok((self.expr(inner, None)?.0, ty)) } else { self.constant(inner, &ty) }
    }

    fn operation(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Result<Typed> {
        let natural = |expr: &Expr| match expr {
            Expr::Literal(literal) => literal::natural_type(literal),
            _ => None,
        };
        let own = [left, right].map(|side| self.compiler.type_of(side));
        let hint = |own: &Option<CqlType>, other: &Option<CqlType>, side: &Expr| {
            let fitting = other.clone().filter(|ty| self.compiler.fit(side, ty) != Fit::No);
            own.clone().or(fitting).or_else(|| natural(side))
        };
        let hints = [hint(&own[0], &own[1], left), hint(&own[1], &own[0], right)];
        let (left, left_ty) = self.expr(left, hints[0].as_ref())?;
        let (right, right_ty) = self.expr(right, hints[1].as_ref())?;
        let signature = resolve_operation(op, left_ty, right_ty)?;
        let ty = signature.result.clone();
        Ok((Selector::Call(Box::new(signature), vec![left, right]), ty))
    }

    fn call(&mut self, name: &QualifiedName, arguments: &[Expr]) -> Result<Typed> {
        if name.keyspace.is_none() {
            let kind = match name.name.as_str() {
                "writetime" => Some(StampKind::WriteTime),
                "maxwritetime" => Some(StampKind::MaxWriteTime),
                "ttl" => Some(StampKind::Ttl),
                _ => None,
            };
            if let Some(kind) = kind {
                return self.stamp(kind, &name.name, arguments);
            }
        }
        let signature = self.compiler.signature(name, arguments).map_err(|error| match error {
            Error::Invalid(text) if text.starts_with("Unknown function") => {
                Error::invalid(format!("Unknown function '{name}'"))
            }
            other => other,
        })?;
        let is_token = signature.function == Function::Scalar(Scalar::Token);
        if is_token && self.is_partition_key(arguments) {
            return Ok((Selector::Token, CqlType::Bigint));
        }
        match signature.function {
            Function::Scalar(_) => {
                let arguments = self.arguments(&signature, arguments)?;
                let ty = signature.result.clone();
                Ok((Selector::Call(Box::new(signature), arguments), ty))
            }
            Function::Aggregate(_) => {
                if std::mem::replace(&mut self.in_aggregate, true) {
                    return Err(Error::invalid(
                        "aggregate functions cannot be used as arguments of aggregate functions",
                    ));
                }
                let arguments = self.arguments(&signature, arguments)?;
                self.in_aggregate = false;
                let ty = signature.result.clone();
                self.selection.aggregates.push((signature, arguments));
                Ok((Selector::Aggregate(self.selection.aggregates.len() - 1), ty))
            }
        }
    }

    fn arguments(&mut self, signature: &Signature, arguments: &[Expr]) -> Result<Vec<Selector>> {
        let typed = arguments.iter().zip(&signature.arguments);
        typed.map(|(argument, ty)| Ok(self.expr(argument, Some(ty))?.0)).collect()
    }

    /// Whether these are the columns of the partition key in order: their token is known.
    fn is_partition_key(&self, arguments: &[Expr]) -> bool {
        let key = self.compiler.table.partition_key();
        arguments.iter().zip(key).all(
            |(argument, column)| matches!(argument, Expr::Column(name) if *name == column.name),
        )
    }

    /// `writetime(c)`, `maxwritetime(c)`, `ttl(c)`, also of an element or field of `c`.
    fn stamp(&mut self, kind: StampKind, name: &str, arguments: &[Expr]) -> Result<Typed> {
        let (column, part) = match arguments {
            [Expr::Column(column)] => (column, None),
            [Expr::Part(inner, access)] if matches!(**inner, Expr::Column(_)) => {
                let Expr::Column(column) = &**inner else { unreachable!("matched above") };
                (column, Some((&**inner, &**access)))
            }
            _ => {
                return Err(Error::invalid(format!("{name} is of one column, or of a part of it")));
            }
        };
        let table = self.compiler.table;
        let column = table.column(column).ok_or_else(|| undefined(column, table))?;
        if column.kind <= ColumnKind::Clustering {
            return Err(Error::invalid(format!(
                "Cannot use selection function {name} on PRIMARY KEY part {}",
                column.name
            )));
        }
        let place = if column.kind == ColumnKind::Static { InStatic::Yes } else { InStatic::No };
        let one = if kind == StampKind::Ttl { CqlType::Int } else { CqlType::Bigint };
        let part = part.map(|(inner, access)| self.part(inner, access)).transpose()?;
        if !column.ty.is_multi_cell() {
            return Ok((Selector::Stamp(kind, column.id, place), one));
        }
        let path = match part {
            Some((Selector::Field(_, index), _)) => Some(Path::Field(index as u16)),
            Some((Selector::Element(_, ty, key), _)) => Some(Path::Key(ty, key)),
            _ => None,
        };
        if let Some(path) = path {
            return Ok((Selector::StampAt(kind, column.id, place, path), one));
        }
        let ty = match kind {
            StampKind::MaxWriteTime => one,
            _ => CqlType::List { element: one.into(), frozen: true },
        };
        Ok((Selector::Stamps(kind, column.id, place), ty))
    }

    /// `value.field`, `value[key]`.
    fn part(&mut self, inner: &Expr, access: &Access) -> Result<Typed> {
        let (value, ty) = self.expr(inner, None)?;
        match access {
            Access::Field(name) => {
                let CqlType::Udt { definition, .. } = &ty else {
                    return Err(Error::invalid(format!(
                        "Invalid field selection: {inner} of type {ty} is not a user type"
                    )));
                };
                let index = definition.fields.iter().position(|(field, _)| field == name);
                let Some(index) = index else {
                    return Err(Error::invalid(format!(
                        "{} of type {ty} has no field {name}",
                        heading(inner)
                    )));
                };
                let field = definition.fields[index].1.clone();
                Ok((Selector::Field(Box::new(value), index), field))
            }
            Access::Element(key) => {
                let (key_ty, element) = match &ty {
                    CqlType::Map { key, value, .. } => ((**key).clone(), (**value).clone()),
                    CqlType::Set { element, .. } => ((**element).clone(), (**element).clone()),
                    CqlType::List { .. } => {
                        return Err(Error::invalid(format!(
                            "Element selection is only allowed on sets and maps, but {inner} is a list"
                        )));
                    }
                    _ => {
                        return Err(Error::invalid(format!(
                            "Invalid element selection: {inner} is of type {ty} is not a collection"
                        )));
                    }
                };
                let to = Receiver::new(format!("key({})", heading(inner)), key_ty);
                let term = self.compiler.term(key, &to)?;
                self.selection.terms.push(term);
                let key = self.selection.terms.len() - 1;
                Ok((Selector::Element(Box::new(value), ty, key), element))
            }
            Access::Slice(..) => {
                Err(Error::invalid("slices of collections cannot be selected yet"))
            }
        }
    }
}

//! Expressions to drafts: names are looked up, and what has a type of its own is compiled.
//!
//! One compiler for both kinds of place. Among the *terms* of a write or a `WHERE` nothing but
//! constants, markers and scalar functions may stand. In a *selection* columns and aggregates may
//! too, and markers are evaluated once before the rows.
//!
//! 1. `term` and `selection` draft an expression, upwards: columns and calls whose types are known become
//!    terms. 2. `infer.rs` makes a term of the draft, downwards. 3. Each marker takes the type and the name
//!    of its place; `into_collected` gives them when all expressions of the statement are compiled.
//!
//! Invariant: a statement with a marker that got no type is refused. Not here: which function a call means
//! (`resolve.rs`), the terms of a relation (`restrict`).

use std::collections::HashSet;
use std::sync::Arc;

use model::CqlType;
use model::schema::{Column, ColumnId, ColumnKind, Schema, Table};

use super::collected::Collected;
use super::draft::{Callee, Constant, Draft, Form, Pending, Style};
use super::function::{self, Aggregate, Body, CASTS, COUNT_ROWS, Function, Gives, NEGATION};
use super::name::undefined;
use super::resolve::resolve;
use super::row::{InStatic, Source, StampKind, Wanted};
use super::selection::{Selected, Selection};
use super::slice::KeySlice;
use super::{Kind, Signature, Term};
use crate::bind::Marker;
use crate::error::{Error, Result};
use crate::json::{KnownJson, Reading};
use crate::lang::ast::{Access, Expr, QualifiedName, TypeName};
use crate::limits::TUPLE_PARTS_MAX;
use crate::steps::step;
use crate::types::resolve_type;

/// The type and name of what a value is expected for.
#[derive(Clone, Debug)]
pub struct ExpectedType {
    /// Its name: a column's, or `value(m)`, `[ttl]`.
    pub name: String,
    /// Type of the value that is expected.
    pub ty: CqlType,
}

impl ExpectedType {
    /// An expected value of this type, with the name that errors call it.
    pub fn new(name: impl Into<String>, ty: CqlType) -> ExpectedType {
        ExpectedType { name: name.into(), ty }
    }
}

/// The columns that a selection names, each once.
#[derive(Default)]
struct Named {
    columns: Vec<Column>,
    known: HashSet<ColumnId>,
}

/// Compiles the expressions of one statement and collects its markers.
pub struct Compiler<'a> {
    /// The schema that user types are looked up in.
    pub schema: &'a Schema,
    /// The table of the statement.
    pub table: &'a Table,
    names: &'a [Option<String>],
    pub(super) collected: Collected,
    /// The selection being compiled; `None` among terms.
    pub(super) selection: Option<Selection>,
}

impl<'a> Compiler<'a> {
    /// A compiler for a statement on `table` whose markers have these names.
    pub fn new(schema: &'a Schema, table: &'a Table, names: &'a [Option<String>]) -> Self {
        step(names.len());
        Compiler::going_on(schema, table, names, Collected::none(names.len()))
    }

    /// A compiler for the next statement of a batch, with what those before it have collected.
    pub fn going_on(
        schema: &'a Schema,
        table: &'a Table,
        names: &'a [Option<String>],
        collected: Collected,
    ) -> Self {
        Compiler { schema, table, names, collected, selection: None }
    }

    /// What was collected, when all expressions of the statement are compiled.
    pub fn into_collected(self) -> Collected {
        self.collected
    }

    /// What the JSON texts of the statement take.
    pub(crate) fn json(&mut self) -> &mut KnownJson {
        &mut self.collected.json
    }

    /// Reads one of these texts.
    pub(crate) fn json_reading(&self) -> Reading<'_> {
        Reading::new(&self.collected.json.budget, &self.collected.work)
    }

    /// Whether an unqualified call of this name was one of a user's function.
    pub fn calls_user(&self, name: &str) -> bool {
        self.collected.users.contains(name)
    }

    /// Gives a marker its type. `named` is its name, unless it was written with one.
    pub fn mark(&mut self, marker: u16, named: &str, ty: CqlType) {
        step(1);
        let written = self.names[usize::from(marker)].clone();
        self.collected.markers[usize::from(marker)] = Some(Marker {
            keyspace: self.table.keyspace.clone(),
            table: self.table.name.clone(),
            name: written.unwrap_or_else(|| named.to_owned()),
            ty,
        });
    }

    /// The term of `expr` as a value for `to`, in a place where only terms may stand.
    pub fn term(&mut self, expr: &Expr, to: &ExpectedType) -> Result<Term> {
        let selection = self.selection.take();
        let term = self.draft(expr).and_then(|draft| self.infer(draft, Some(to)));
        self.selection = selection;
        term
    }

    /// What a `SELECT` of these expressions selects; of none, all columns.
    pub fn select(&mut self, exprs: &[&Expr]) -> Result<Selected> {
        let mut named = Named::default();
        exprs.iter().try_for_each(|expr| self.collect(expr, &mut named))?;
        let mut columns = named.columns;
        if exprs.is_empty() {
            columns = self.table.columns().to_vec();
        }
        let wanted = Wanted::of(&columns);
        self.selection = Some(Selection { wanted, ..Selection::default() });
        let outputs: Result<Vec<Term>> = if exprs.is_empty() {
            Ok(self.table.columns().iter().map(|column| self.column(column)).collect())
        } else {
            let each = exprs.iter().map(|expr| {
                let draft = self.draft(expr)?;
                self.infer(draft, None)
            });
            each.collect()
        };
        let selection = self.selection.take().expect("it was begun above");
        let calls_users = !self.collected.users.is_empty();
        let selection = Selection { outputs: outputs?, calls_users, ..selection };
        Ok(Selected { selection, columns })
    }

    /// What a `GROUP BY` of this function is, which may not be an aggregate, and the columns that it names. What of it
    /// is evaluated once, the selection takes.
    pub fn grouping(
        &mut self,
        expr: &Expr,
        selection: &mut Selection,
    ) -> Result<(Term, Vec<Column>)> {
        let mut named = Named::default();
        self.collect(expr, &mut named)?;
        let (wanted, once) = (Wanted::of(&named.columns), std::mem::take(&mut selection.once));
        self.selection = Some(Selection { wanted, once, ..Selection::default() });
        let term = self.draft(expr).and_then(|draft| self.infer(draft, None));
        let grouping = self.selection.take().expect("it was begun above");
        selection.once = grouping.once;
        if let Some((aggregate, _)) = grouping.aggregates.first() {
            return Err(Error::invalid(format!(
                "Aggregate functions are not supported within the GROUP BY clause, got: {}",
                aggregate.shown()
            )));
        }
        Ok((term?, named.columns))
    }

    /// Adds the columns that an expression names, each once.
    fn collect(&self, expr: &Expr, named: &mut Named) -> Result<()> {
        match expr {
            Expr::Column(name) => {
                let column = self.column_named(name)?;
                if named.known.insert(column.id) {
                    named.columns.push(column.clone());
                }
                Ok(())
            }
            Expr::Part(inner, _)
            | Expr::TypeHint(_, inner)
            | Expr::Cast(inner, _)
            | Expr::Negate(inner) => self.collect(inner, named),
            Expr::List(items) | Expr::Set(items) | Expr::Tuple(items) | Expr::Call(_, items) => {
                items.iter().try_for_each(|item| self.collect(item, named))
            }
            Expr::Map(entries) => entries.iter().try_for_each(|(key, value)| {
                self.collect(key, named)?;
                self.collect(value, named)
            }),
            Expr::Udt(fields) => {
                fields.iter().try_for_each(|(_, value)| self.collect(value, named))
            }
            Expr::Binary(_, left, right) => {
                self.collect(left, named)?;
                self.collect(right, named)
            }
            Expr::Literal(_) | Expr::Null | Expr::Bind(_) | Expr::CountRows | Expr::OfJson(_) => {
                Ok(())
            }
        }
    }

    fn column_named(&self, name: &str) -> Result<&'a Column> {
        self.table.column(name).ok_or_else(|| undefined(name, self.table))
    }

    /// The term of a column.
    fn column(&self, column: &Column) -> Term {
        let selection = self.selection.as_ref().expect("only a selection has columns");
        Term { kind: Kind::Row(selection.wanted.source(column)), ty: column.ty.clone() }
    }

    /// The type that a type name means in the keyspace of the table.
    fn type_named(&self, name: &TypeName) -> Result<CqlType> {
        resolve_type(name, &self.table.keyspace, self.schema)
    }

    /// The draft of an expression, whose depth the parser has bounded.
    fn draft<'e>(&mut self, expr: &'e Expr) -> Result<Draft<'e>> {
        Ok(Draft { expr, form: self.form(expr)? })
    }

    fn form<'e>(&mut self, expr: &'e Expr) -> Result<Form<'e>> {
        Ok(match expr {
            Expr::Null => Form::Null,
            Expr::Literal(literal) => Form::Literal(Constant::new(literal)),
            Expr::Bind(marker) => Form::Marker(*marker),
            Expr::Column(name) if self.selection.is_some() => {
                Form::Typed(self.column(self.column_named(name)?))
            }
            Expr::Part(inner, access) if self.selection.is_some() => {
                Form::Typed(self.part(inner, access)?)
            }
            Expr::Column(_) | Expr::Part(..) => {
                return Err(Error::invalid(format!(
                    "{expr} names a column; here only constants, bind markers and functions of them are allowed"
                )));
            }
            Expr::Tuple(items) if items.len() > TUPLE_PARTS_MAX => {
                return Err(Error::invalid(format!(
                    "a tuple has {} parts, more than {TUPLE_PARTS_MAX}",
                    items.len()
                )));
            }
            Expr::Tuple(items) => Form::Tuple(self.drafts(items)?),
            Expr::List(items) => Form::List(self.drafts(items)?),
            Expr::Set(items) => Form::Set(self.drafts(items)?),
            Expr::Map(entries) => {
                Form::Map(self.drafts(entries.iter().flat_map(|(key, value)| [key, value]))?)
            }
            Expr::Udt(fields) => {
                let drafts = fields.iter().map(|(name, value)| Ok((&name[..], self.draft(value)?)));
                Form::Udt(drafts.collect::<Result<_>>()?)
            }
            Expr::TypeHint(name, inner) => {
                Form::Hint(self.type_named(name)?, Box::new(self.draft(inner)?))
            }
            Expr::Cast(inner, name) => self.cast(inner, name)?,
            Expr::Negate(inner) => self.operator(&NEGATION, Style::Negation, &[inner])?,
            Expr::Binary(op, left, right) => {
                let style = Style::Operator(op.symbol());
                self.operator(function::of_operator(*op), style, &[left, right])?
            }
            Expr::OfJson(slot) => Form::OfJson(*slot),
            Expr::CountRows => self.operator(&COUNT_ROWS, Style::Named, &[])?,
            Expr::Call(name, arguments) => self.named(name, arguments)?,
        })
    }

    fn drafts<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) -> Result<Vec<Draft<'e>>> {
        // A loop, and no chain of adaptors: this is called once for each level of an expression.
        let mut drafts = Vec::new();
        for expr in exprs {
            drafts.push(self.draft(expr)?);
        }
        Ok(drafts)
    }

    /// A call of what is not called by a name.
    fn operator<'e>(
        &mut self,
        function: &'static Function,
        style: Style,
        arguments: &[&'e Expr],
    ) -> Result<Form<'e>> {
        let arguments = self.drafts(arguments.iter().copied())?;
        let built_in = Some((function, function.names[0]));
        self.call(Callee { built_in, users: Arc::default(), style }, arguments)
    }

    /// `CAST(inner AS name)`. In a selection a cast to the type it has is no cast.
    fn cast<'e>(&mut self, inner: &'e Expr, name: &TypeName) -> Result<Form<'e>> {
        let target = self.type_named(name)?;
        let mut argument = self.draft(inner)?;
        if self.selection.is_some() {
            let term = self.infer(argument, None)?;
            if term.ty == target {
                return Ok(Form::Typed(term));
            }
            argument = Draft { expr: inner, form: Form::Typed(term) };
        }
        let gives =
            |function: &&Function| matches!(&function.gives, Gives::This(ty) if *ty == target);
        let function = CASTS
            .iter()
            .find(gives)
            .ok_or_else(|| Error::invalid(format!("{inner} cannot be cast to {name}")))?;
        let built_in = Some((function, function.names[0]));
        self.call(Callee { built_in, users: Arc::default(), style: Style::Cast }, vec![argument])
    }

    /// Compiles a call by name: `f(a, b)`.
    fn named<'e>(&mut self, name: &QualifiedName, arguments: &'e [Expr]) -> Result<Form<'e>> {
        if let (Some(kind), None) = (StampKind::named(&name.name), &name.keyspace)
            && self.selection.is_some()
        {
            return self.stamp(kind, &name.name, arguments).map(Form::Typed);
        }
        let style = if name.keyspace.is_some() { Style::Qualified } else { Style::Named };
        let of_system = name.keyspace.as_deref().is_none_or(|keyspace| keyspace == "system");
        let built_in = if of_system { function::find(&name.name) } else { None };
        let keyspace = name.keyspace.as_deref().unwrap_or(&self.table.keyspace);
        let users = self.collected.called.call(keyspace, &name.name, self.schema);
        if built_in.is_none() && users.is_empty() {
            return Err(self.unknown(name));
        }
        self.collected.reads_json |= built_in.is_some_and(|(one, _)| one.reads_json());
        // `count(1)` counts rows.
        let counts =
            built_in.is_some_and(|(one, _)| matches!(one.body, Body::Aggregate(Aggregate::Count)));
        if self.selection.is_some() && counts && matches!(arguments, [Expr::Literal(_)]) {
            return self.operator(&COUNT_ROWS, style, &[]);
        }
        let arguments = self.drafts(arguments)?;
        self.call(Callee { built_in, users, style }, arguments)
    }

    #[cold]
    fn unknown(&self, name: &QualifiedName) -> Error {
        Error::invalid(match self.selection {
            Some(_) => format!("Unknown function '{name}'"),
            None => format!("Unknown function {name} called"),
        })
    }

    /// A call, which in a selection means one function whatever receives its result.
    fn call<'e>(&mut self, callee: Callee, arguments: Vec<Draft<'e>>) -> Result<Form<'e>> {
        if self.selection.is_none() {
            return Ok(Form::Call(Pending::new(callee, arguments)));
        }
        let signature = resolve(&callee, &arguments, None, self.table)?;
        let arguments = self.arguments(&signature, arguments)?;
        if signature.aggregate().is_none() {
            return Ok(Form::Typed(self.applied(signature, arguments)));
        }
        let is_aggregate = &mut |kind: &Kind| matches!(kind, Kind::Aggregate(_));
        if arguments.iter().any(|argument| argument.any(is_aggregate)) {
            return Err(Error::invalid(
                "aggregate functions cannot be used as arguments of aggregate functions",
            ));
        }
        let ty = signature.result.clone();
        let aggregates = &mut self.selection.as_mut().expect("checked above").aggregates;
        aggregates.push((signature, arguments));
        Ok(Form::Typed(Term { kind: Kind::Aggregate(aggregates.len() - 1), ty }))
    }

    /// The terms of the arguments of a call.
    pub(super) fn arguments(
        &mut self,
        signature: &Signature,
        arguments: Vec<Draft<'_>>,
    ) -> Result<Vec<Term>> {
        if let Some(user) = &signature.user
            && !self.collected.users.contains(user.name())
        {
            self.collected.users.insert(user.name().to_owned());
        }
        let mut terms = Vec::with_capacity(arguments.len());
        for (argument, ty) in arguments.into_iter().zip(&signature.arguments) {
            let index = terms.len();
            let name =
                self.part_name(|| format!("arg{index}({})", signature.shown().to_lowercase()));
            terms.push(self.infer(argument, Some(&ExpectedType::new(name, ty.clone())))?);
        }
        Ok(terms)
    }

    /// The term of a scalar function's call. The token of a row's own key is known.
    pub(super) fn applied(&self, signature: Signature, arguments: Vec<Term>) -> Term {
        let ty = signature.result.clone();
        let is_key = |(index, argument): (usize, &Term)| {
            argument.kind == Kind::Row(Source::PartitionKey(index))
        };
        let of_key = matches!(signature.function.takes, function::Takes::PartitionKey);
        if of_key && arguments.iter().enumerate().all(is_key) {
            return Term { kind: Kind::Row(Source::Token), ty };
        }
        Term { kind: Kind::Call(Box::new(signature), arguments.into()), ty }
    }

    /// `writetime(c)`, `maxwritetime(c)`, `ttl(c)`, also of an element or field of `c`.
    fn stamp(&mut self, kind: StampKind, name: &str, arguments: &[Expr]) -> Result<Term> {
        let (column, access) = match arguments {
            [Expr::Column(column)] => (column, None),
            [Expr::Part(inner, access)] => match &**inner {
                Expr::Column(column) => (column, Some(&**access)),
                _ => return Err(not_of_column(name)),
            },
            _ => return Err(not_of_column(name)),
        };
        let column = self.column_named(column)?;
        if column.kind <= ColumnKind::Clustering {
            return Err(Error::invalid(format!(
                "Cannot use selection function {name} on PRIMARY KEY part {}",
                column.name
            )));
        }
        let (id, place) = (column.id, InStatic::of(column));
        let one = if kind == StampKind::Ttl { CqlType::Int } else { CqlType::Bigint };
        let of_column = Expr::Column(column.name.clone());
        let source = match access {
            None if column.ty.is_multi_cell() => Source::Stamps(kind, id, place),
            None => Source::Stamp(kind, id, place),
            Some(Access::Element(key)) if column.ty.is_multi_cell() => {
                let value = self.column(column);
                let (key, _) = self.key(&value, key, &of_column)?;
                let key = self.once(key);
                Source::StampOfKey(kind, id, place, key.ty.clone(), Box::new(key))
            }
            Some(access) => {
                let part = self.part(&of_column, access)?;
                match part.kind {
                    _ if !column.ty.is_multi_cell() => {
                        Source::StampOfPart(kind, id, place, Box::new(part))
                    }
                    Kind::Field(_, index) => Source::StampOfField(kind, id, place, index as u16),
                    Kind::Slice(slice) => Source::StampsOfSlice(kind, id, place, slice),
                    _ => unreachable!("the part is a field or a slice"),
                }
            }
        };
        let ty = match &source {
            Source::Stamps(StampKind::WriteTime | StampKind::Ttl, ..)
            | Source::StampsOfSlice(StampKind::WriteTime | StampKind::Ttl, ..) => {
                CqlType::List { element: one.into(), frozen: true }
            }
            _ => one,
        };
        Ok(Term { kind: Kind::Row(source), ty })
    }

    /// Compiles `value.field` and `value[key]`.
    fn part(&mut self, inner: &Expr, access: &Access) -> Result<Term> {
        let draft = self.draft(inner)?;
        // One value in parentheses is no tuple if a part of it is taken.
        let within = match &draft.form {
            Form::Tuple(items) if items.len() == 1 => items[0].exact_type(),
            _ => None,
        };
        let value = self.infer(draft, within.map(|ty| ExpectedType::new("", ty)).as_ref())?;
        match access {
            Access::Field(name) => field(value, name, inner),
            Access::Element(key) => self.element(value, key, inner),
            Access::Slice(first, last) => self.slice(value, [first.as_ref(), last.as_ref()], inner),
        }
    }

    /// Compiles `value[from..to]`, of which either end may be left out.
    fn slice(&mut self, value: Term, ends: [Option<&Expr>; 2], inner: &Expr) -> Result<Term> {
        let (key, ty, name) = match &value.ty {
            CqlType::Map { key, .. } => (key, value.ty.frozen(), "key"),
            CqlType::Set { element, .. } => (element, value.ty.frozen(), "value"),
            CqlType::List { .. } => {
                return Err(Error::invalid(format!(
                    "Slice selection is only allowed on sets and maps, but {inner} is a list"
                )));
            }
            ty => {
                return Err(Error::invalid(format!(
                    "Invalid slice selection: {inner} of type {ty} is not a collection"
                )));
            }
        };
        let to = ExpectedType::new(format!("{name}({inner})"), (**key).clone());
        let mut terms = [None, None];
        for (term, end) in terms.iter_mut().zip(ends) {
            let Some(end) = end else { continue };
            let end = self.term(end, &to)?.not_null(format!("slice selection on {inner}"));
            *term = Some(self.once(end));
        }
        let [first, last] = terms;
        let slice = KeySlice { value, first, last };
        Ok(Term { kind: Kind::Slice(Box::new(slice)), ty })
    }

    fn element(&mut self, value: Term, key: &Expr, inner: &Expr) -> Result<Term> {
        let (key, ty) = self.key(&value, key, inner)?;
        let key = self.once(key.required(format!("element selection on {inner}")));
        Ok(Term { kind: Kind::Element(Box::new((value, key))), ty })
    }

    /// The key of `value[key]`, and the type of the element.
    fn key(&mut self, value: &Term, key: &Expr, inner: &Expr) -> Result<(Term, CqlType)> {
        let (key_ty, element) = match &value.ty {
            CqlType::Map { key, value, .. } => ((**key).clone(), (**value).clone()),
            CqlType::Set { element, .. } => ((**element).clone(), (**element).clone()),
            CqlType::List { .. } => {
                return Err(Error::invalid(format!(
                    "Element selection is only allowed on sets and maps, but {inner} is a list"
                )));
            }
            ty => {
                return Err(Error::invalid(format!(
                    "Invalid element selection: {inner} is of type {ty} is not a collection"
                )));
            }
        };
        let name = if matches!(value.ty, CqlType::Map { .. }) { "key" } else { "value" };
        let key = self.term(key, &ExpectedType::new(format!("{name}({inner})"), key_ty))?;
        Ok((key, element))
    }

    /// The term in a selection of what is the same for all rows.
    pub(super) fn once(&mut self, term: Term) -> Term {
        match &mut self.selection {
            Some(selection) if !term.is_constant() => {
                let ty = term.ty.clone();
                selection.once.push(term);
                Term { kind: Kind::Once(selection.once.len() - 1), ty }
            }
            _ => term,
        }
    }

    /// The name of a marker that is a part of something: Cassandra names none in a selection.
    pub(super) fn part_name(&self, name: impl FnOnce() -> String) -> String {
        match self.selection {
            Some(_) => "[selection]".into(),
            None => name(),
        }
    }
}

#[cold]
fn not_of_column(name: &str) -> Error {
    Error::invalid(format!("{name}() takes one column, or an element, slice or field of one"))
}

/// The field `name` of a value of a user type; an error if the type has none.
fn field(value: Term, name: &str, inner: &Expr) -> Result<Term> {
    let CqlType::Udt { definition, .. } = &value.ty else {
        return Err(Error::invalid(format!(
            "Invalid field selection: {inner} of type {} is not a user type",
            value.ty
        )));
    };
    let Some((index, ty)) = definition.field(name) else {
        return Err(Error::invalid(format!("{inner} of type {} has no field {name}", value.ty)));
    };
    let ty = ty.clone();
    Ok(Term { kind: Kind::Field(Box::new(value), index), ty })
}

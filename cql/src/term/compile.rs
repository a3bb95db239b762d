//! Expressions to terms: each for a receiver, whose type decides what may be written.
//!
//! Bind markers get their name and type from the receiver here. Constants are made once, and what
//! consists of constants only is a constant.

use super::{Build, Term};
use crate::bind::{Bindings, Ids, Marker, Moment};
use crate::error::{Error, Result};
use crate::functions::{
    Candidate, Fit, Function, Signature, resolve, resolve_cast, resolve_negation, resolve_operation,
};
use crate::lang::ast::{BinaryOp, Expr, QualifiedName, TypeName};
use crate::literal;
use crate::prepare::types::resolve_type;
use model::CqlType;
use model::schema::{Schema, Table};

/// What a value is for.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Its name: a column's, or `value(m)`, `[ttl]`.
    pub name: String,
    /// Its type.
    pub ty: CqlType,
}

impl Receiver {
    /// A receiver.
    pub fn new(name: impl Into<String>, ty: CqlType) -> Receiver {
        Receiver { name: name.into(), ty }
    }
}

/// Compiles the expressions of one statement and collects its markers.
pub struct Compiler<'a> {
    /// Where types are looked up.
    pub schema: &'a Schema,
    /// The table of the statement.
    pub table: &'a Table,
    names: &'a [Option<String>],
    markers: Vec<Option<Marker>>,
}

/// Ids for folding constants, which never need any.
struct NoIds;

impl Ids for NoIds {
    fn timeuuid(&self) -> [u8; 16] {
        unreachable!("only pure terms are folded")
    }

    fn uuid(&self) -> [u8; 16] {
        unreachable!("only pure terms are folded")
    }
}

impl<'a> Compiler<'a> {
    /// A compiler for a statement on `table` whose markers have these names.
    pub fn new(schema: &'a Schema, table: &'a Table, names: &'a [Option<String>]) -> Self {
        Compiler { schema, table, names, markers: vec![None; names.len()] }
    }

    /// The markers, all of which were met.
    pub fn into_markers(self) -> Result<Vec<Marker>> {
        self.markers
            .into_iter()
            .map(|marker| marker.ok_or_else(|| Error::invalid("a bind marker has no type")))
            .collect()
    }

    /// The markers met so far, so that the next statement of a batch goes on with them.
    pub fn take_markers(&mut self) -> Vec<Option<Marker>> {
        std::mem::take(&mut self.markers)
    }

    /// Goes on with the markers of an earlier statement.
    pub fn with_markers(mut self, markers: Vec<Option<Marker>>) -> Self {
        self.markers = markers;
        self
    }

    /// Gives a marker its type. `named` is its name, unless it was written with one.
    pub fn mark(&mut self, marker: u16, named: &str, ty: CqlType) {
        let written = self.names[usize::from(marker)].clone();
        self.markers[usize::from(marker)] = Some(Marker {
            keyspace: self.table.keyspace.clone(),
            table: self.table.name.clone(),
            name: written.unwrap_or_else(|| named.to_owned()),
            ty,
        });
    }

    /// The type an SQL-ish type name means in the keyspace of the table.
    pub fn type_named(&self, name: &TypeName) -> Result<CqlType> {
        resolve_type(name, &self.table.keyspace, self.schema)
    }

    /// The term of `expr` as a value for `to`.
    pub fn term(&mut self, expr: &Expr, to: &Receiver) -> Result<Term> {
        let term = match expr {
            Expr::Null => Term::Null,
            Expr::Literal(literal) => {
                Term::Constant(literal::constant(literal, &to.ty, &to.name)?.into())
            }
            Expr::Bind(marker) => {
                self.mark(*marker, &to.name, to.ty.clone());
                Term::bind(*marker, &to.ty)
            }
            Expr::Tuple(items) => self.tuple(items, to)?,
            Expr::List(items) => self.list(items, to)?,
            Expr::Set(items) => self.set(items, to)?,
            Expr::Map(entries) => self.map(entries, to)?,
            Expr::Udt(fields) => self.udt(fields, to)?,
            Expr::Call(name, arguments) => self.call(name, arguments, to)?,
            Expr::TypeHint(name, inner) => self.type_hint(name, inner, to)?,
            Expr::Cast(inner, name) => {
                let target = self.type_named(name)?;
                let from = self.type_of(inner).ok_or_else(|| cannot_infer(inner))?;
                let argument = self.term(inner, &Receiver::new("", from.clone()))?;
                self.apply(resolve_cast(from, target)?, vec![argument], to)?
            }
            Expr::Negate(inner) => {
                let ty = self.type_of(inner).unwrap_or_else(|| to.ty.clone());
                let argument = self.term(inner, &Receiver::new("", ty.clone()))?;
                self.apply(resolve_negation(ty)?, vec![argument], to)?
            }
            Expr::Binary(op, left, right) => self.operation(*op, [left, right], to)?,
            Expr::Column(name) => {
                return Err(Error::invalid(format!("a column ({name}) is no value here")));
            }
            Expr::Part(..) => return Err(Error::invalid("a part of a column is no value here")),
        };
        self.folded(term)
    }

    /// A constant, if the term consists of nothing else.
    fn folded(&self, term: Term) -> Result<Term> {
        let pure = match &term {
            Term::Call(signature, arguments) => {
                signature.is_pure() && arguments.iter().all(Term::is_constant)
            }
            Term::Build(build) => build.parts().all(Term::is_constant),
            _ => false,
        };
        if !pure {
            return Ok(term);
        }
        let moment = Moment { timestamp_us: 0, now_ms: 0, now_s: 0, ids: &NoIds };
        let bindings = Bindings::none(moment);
        Ok(match term.eval(&bindings)?.bytes() {
            Some(bytes) => Term::Constant(bytes.into()),
            None => Term::Null,
        })
    }

    fn list(&mut self, items: &[Expr], to: &Receiver) -> Result<Term> {
        let (element, what) = match &to.ty {
            CqlType::List { element, .. } => (element.clone(), "list"),
            CqlType::Vector { element, dimensions } => {
                if items.len() != *dimensions as usize {
                    return Err(Error::invalid(format!(
                        "Invalid vector literal for {} of type {}; expected {dimensions} elements, but given {}",
                        to.name,
                        to.ty,
                        items.len()
                    )));
                }
                (element.clone(), "vector")
            }
            other => {
                return Err(Error::invalid(format!(
                    "Unexpected receiver type '{other}'; only list and vector are expected"
                )));
            }
        };
        let inner = Receiver::new(format!("value({})", to.name), (*element).clone());
        let mut terms = Vec::with_capacity(items.len());
        for item in items {
            self.check_part(item, &inner, || {
                format!("{what} literal for {}: value {item}", to.name)
            })?;
            terms.push(self.term(item, &inner)?);
        }
        Ok(Term::Build(Box::new(if what == "vector" {
            Build::Vector((*element).clone(), terms)
        } else {
            Build::List(terms)
        })))
    }

    fn set(&mut self, items: &[Expr], to: &Receiver) -> Result<Term> {
        if let (CqlType::Map { key, .. }, []) = (&to.ty, items) {
            return Ok(Term::Build(Box::new(Build::Map((**key).clone(), Vec::new()))));
        }
        let CqlType::Set { element, .. } = &to.ty else {
            return Err(wrong_literal("set", to));
        };
        let inner = Receiver::new(format!("value({})", to.name), (**element).clone());
        let mut terms = Vec::with_capacity(items.len());
        for item in items {
            self.check_part(item, &inner, || format!("set literal for {}: value {item}", to.name))?;
            terms.push(self.term(item, &inner)?);
        }
        Ok(Term::Build(Box::new(Build::Set((**element).clone(), terms))))
    }

    fn map(&mut self, entries: &[(Expr, Expr)], to: &Receiver) -> Result<Term> {
        let CqlType::Map { key, value, .. } = &to.ty else {
            return Err(wrong_literal("map", to));
        };
        let keys = Receiver::new(format!("key({})", to.name), (**key).clone());
        let values = Receiver::new(format!("value({})", to.name), (**value).clone());
        let mut terms = Vec::with_capacity(entries.len());
        for (k, v) in entries {
            self.check_part(k, &keys, || format!("map literal for {}: key {k}", to.name))?;
            self.check_part(v, &values, || format!("map literal for {}: value {v}", to.name))?;
            terms.push((self.term(k, &keys)?, self.term(v, &values)?));
        }
        Ok(Term::Build(Box::new(Build::Map((**key).clone(), terms))))
    }

    fn tuple(&mut self, items: &[Expr], to: &Receiver) -> Result<Term> {
        let CqlType::Tuple(parts) = &to.ty else {
            // Parentheses around one value are only parentheses.
            if let [only] = items {
                return self.term(only, to);
            }
            return Err(Error::invalid(format!(
                "Invalid tuple type literal for {} of type {}",
                to.name, to.ty
            )));
        };
        if items.len() > parts.len() {
            return Err(Error::invalid(format!(
                "Invalid tuple literal for {}: too many elements. Type {} expects {} but got {}",
                to.name,
                to.ty,
                parts.len(),
                items.len()
            )));
        }
        let mut terms = Vec::with_capacity(items.len());
        for (index, (item, part)) in items.iter().zip(parts.iter()).enumerate() {
            let inner = Receiver::new(format!("{}[{index}]", to.name), part.clone());
            self.check_part(item, &inner, || {
                format!("tuple literal for {}: component {index}", to.name)
            })?;
            terms.push(self.term(item, &inner)?);
        }
        Ok(Term::Build(Box::new(Build::Tuple(terms))))
    }

    fn udt(&mut self, fields: &[(String, Expr)], to: &Receiver) -> Result<Term> {
        let CqlType::Udt { definition, .. } = &to.ty else {
            return Err(Error::invalid(format!(
                "Invalid user type literal for {} of type {}",
                to.name, to.ty
            )));
        };
        let definition = definition.clone();
        if let Some((unknown, _)) = fields
            .iter()
            .find(|(name, _)| !definition.fields.iter().any(|(known, _)| known == name))
        {
            return Err(Error::invalid(format!(
                "Unknown field '{unknown}' in value of user defined type {}",
                definition.name
            )));
        }
        let mut terms = Vec::with_capacity(definition.fields.len());
        for (name, ty) in &definition.fields {
            let inner = Receiver::new(format!("{}.{name}", to.name), ty.clone());
            let Some((_, value)) = fields.iter().rev().find(|(field, _)| field == name) else {
                terms.push(Term::Null);
                continue;
            };
            self.check_part(value, &inner, || {
                format!("user type literal for {}: field {name}", to.name)
            })?;
            terms.push(self.term(value, &inner)?);
        }
        Ok(Term::Build(Box::new(Build::Tuple(terms))))
    }

    /// Refuses a part of a literal that is not of its type.
    fn check_part(&self, part: &Expr, to: &Receiver, what: impl Fn() -> String) -> Result<()> {
        if self.fit(part, &to.ty) == Fit::No {
            return Err(Error::invalid(format!("Invalid {} is not of type {}", what(), to.ty)));
        }
        Ok(())
    }

    fn type_hint(&mut self, name: &TypeName, inner: &Expr, to: &Receiver) -> Result<Term> {
        let ty = self.type_named(name)?;
        if self.fit(inner, &ty) == Fit::No {
            return Err(Error::invalid(format!("Cannot cast value {inner} to type {name}")));
        }
        if type_fit(&ty, &to.ty) == Fit::No {
            return Err(Error::invalid(format!(
                "Cannot assign value ({name}){inner} to {} of type {}",
                to.name, to.ty
            )));
        }
        self.term(inner, &Receiver::new(to.name.clone(), ty))
    }

    fn call(&mut self, name: &QualifiedName, arguments: &[Expr], to: &Receiver) -> Result<Term> {
        let signature = self.signature(name, arguments)?;
        if let Function::Aggregate(_) = signature.function {
            return Err(Error::invalid(format!(
                "Aggregation functions are not allowed here: {}",
                name.name
            )));
        }
        let mut terms = Vec::with_capacity(arguments.len());
        for (index, (argument, ty)) in arguments.iter().zip(&signature.arguments).enumerate() {
            let name = format!("arg{index}(system.{})", signature.name);
            terms.push(self.term(argument, &Receiver::new(name, ty.clone()))?);
        }
        self.apply(signature, terms, to)
    }

    /// The function a call means.
    pub fn signature(&self, name: &QualifiedName, arguments: &[Expr]) -> Result<Signature> {
        resolve(name, &Call { compiler: self, arguments }, Some(self.table)).map_err(|error| {
            match error {
                Error::Invalid(text) if text.starts_with("Unknown function") => {
                    Error::invalid(format!("Unknown function {name} called"))
                }
                other => other,
            }
        })
    }

    fn operation(&mut self, op: BinaryOp, sides: [&Expr; 2], to: &Receiver) -> Result<Term> {
        let [left, right] = operand_types(sides.map(|side| self.type_of(side)), sides, &to.ty);
        let terms = vec![
            self.term(sides[0], &Receiver::new("left operand", left.clone()))?,
            self.term(sides[1], &Receiver::new("right operand", right.clone()))?,
        ];
        self.apply(resolve_operation(op, left, right)?, terms, to)
    }

    /// The call, if its result can be assigned.
    fn apply(&self, signature: Signature, arguments: Vec<Term>, to: &Receiver) -> Result<Term> {
        let is_operation = !signature.name.starts_with(|c: char| c.is_ascii_alphabetic());
        if type_fit(&signature.result, &to.ty) != Fit::No {
            return Ok(Term::Call(Box::new(signature), arguments.into()));
        }
        // The result of an operation on numbers may be narrower or wider than its column.
        if is_operation && let Ok(cast) = resolve_cast(signature.result.clone(), to.ty.clone()) {
            let inner = Term::Call(Box::new(signature), arguments.into());
            return Ok(Term::Call(Box::new(cast), [inner].into()));
        }
        Err(Error::invalid(format!(
            "Type error: cannot assign result of function system.{} (type {}) to {} (type {})",
            signature.name, signature.result, to.name, to.ty
        )))
    }

    /// The type an expression has of its own. Constants and markers have none.
    pub fn type_of(&self, expr: &Expr) -> Option<CqlType> {
        match expr {
            Expr::Column(name) => self.table.column(name).map(|column| column.ty.clone()),
            Expr::Call(name, arguments) => match name.name.as_str() {
                "writetime" | "maxwritetime" => Some(CqlType::Bigint),
                "ttl" => Some(CqlType::Int),
                _ => self.signature(name, arguments).ok().map(|signature| signature.result),
            },
            Expr::TypeHint(name, _) | Expr::Cast(_, name) => self.type_named(name).ok(),
            Expr::Negate(inner) => self.type_of(inner),
            Expr::Binary(op, left, right) => {
                let sides = [&**left, &**right];
                let types = sides.map(|side| self.type_of(side));
                let fallback = types.iter().flatten().next()?.clone();
                let [left, right] = operand_types(types, sides, &fallback);
                resolve_operation(*op, left, right).ok().map(|signature| signature.result)
            }
            _ => None,
        }
    }

    /// How well an expression can be a value of a type.
    pub fn fit(&self, expr: &Expr, ty: &CqlType) -> Fit {
        let all = |items: &mut dyn Iterator<Item = (&Expr, &CqlType)>| {
            items.map(|(item, ty)| self.fit(item, ty)).min().unwrap_or(Fit::Weak).min(Fit::Weak)
        };
        match (expr, ty) {
            (Expr::Null | Expr::Bind(_), _) => Fit::Weak,
            (Expr::Literal(literal), _) if !literal::assignable(literal.kind, ty) => Fit::No,
            (Expr::Literal(literal), _) => {
                let natural = literal::natural_type(literal);
                if natural.as_ref() == Some(ty) { Fit::Exact } else { Fit::Weak }
            }
            (
                Expr::List(items),
                CqlType::List { element, .. } | CqlType::Vector { element, .. },
            ) => all(&mut items.iter().map(|item| (item, &**element))),
            (Expr::Set(items), CqlType::Set { element, .. }) => {
                all(&mut items.iter().map(|item| (item, &**element)))
            }
            (Expr::Set(items), CqlType::Map { .. }) if items.is_empty() => Fit::Weak,
            (Expr::Map(entries), CqlType::Map { key, value, .. }) => {
                all(&mut entries.iter().flat_map(|(k, v)| [(k, &**key), (v, &**value)]))
            }
            (Expr::Tuple(items), CqlType::Tuple(parts)) if items.len() <= parts.len() => {
                all(&mut items.iter().zip(parts.iter()))
            }
            (Expr::Tuple(items), _) => match &items[..] {
                [only] => self.fit(only, ty),
                _ => Fit::No,
            },
            (Expr::Udt(_), CqlType::Udt { .. }) => Fit::Weak,
            (Expr::List(_) | Expr::Set(_) | Expr::Map(_) | Expr::Udt(_), _) => Fit::No,
            (Expr::Binary(..) | Expr::Negate(_), _) => {
                self.type_of(expr).map_or(Fit::Weak, |own| type_fit(&own, ty).max(Fit::Weak))
            }
            _ => self.type_of(expr).map_or(Fit::No, |own| type_fit(&own, ty)),
        }
    }
}

impl Build {
    /// What it is put together from.
    fn parts(&self) -> Box<dyn Iterator<Item = &Term> + '_> {
        match self {
            Build::List(items) | Build::Set(_, items) | Build::Tuple(items) => {
                Box::new(items.iter())
            }
            Build::Vector(_, items) => Box::new(items.iter()),
            Build::Map(_, entries) => {
                Box::new(entries.iter().flat_map(|(key, value)| [key, value]))
            }
        }
    }
}

/// A call that is being resolved.
struct Call<'c, 'a> {
    compiler: &'c Compiler<'a>,
    arguments: &'c [Expr],
}

impl Candidate for Call<'_, '_> {
    fn count(&self) -> usize {
        self.arguments.len()
    }

    fn ty(&self, index: usize) -> Option<CqlType> {
        self.compiler.type_of(self.arguments.get(index)?)
    }

    fn fit(&self, index: usize, ty: &CqlType) -> Fit {
        self.compiler.fit(&self.arguments[index], ty)
    }
}

/// The types of the sides of an operation: their own, that of the other side, or that of the result.
fn operand_types(own: [Option<CqlType>; 2], sides: [&Expr; 2], result: &CqlType) -> [CqlType; 2] {
    let natural = |side: &Expr| match side {
        Expr::Literal(literal) => literal::natural_type(literal),
        _ => None,
    };
    match own {
        [Some(left), Some(right)] => [left, right],
        [Some(left), None] => {
            [left.clone(), pick(sides[1], &left).or(natural(sides[1])).unwrap_or(left)]
        }
        [None, Some(right)] => {
            [pick(sides[0], &right).or(natural(sides[0])).unwrap_or(right.clone()), right]
        }
        [None, None] => {
            sides.map(|side| pick(side, result).or(natural(side)).unwrap_or(result.clone()))
        }
    }
}

/// The other side's type, if a constant can be of it.
fn pick(side: &Expr, other: &CqlType) -> Option<CqlType> {
    match side {
        Expr::Literal(literal) => literal::assignable(literal.kind, other).then(|| other.clone()),
        _ => Some(other.clone()),
    }
}

/// How well a value of one type can be taken for one of another.
pub(crate) fn type_fit(from: &CqlType, to: &CqlType) -> Fit {
    use CqlType::*;
    if from == to || from.frozen() == to.frozen() {
        return Fit::Exact;
    }
    let weak = match (to, from) {
        (Blob, _) => true,
        (Text, Ascii) => true,
        (Varint, Int | Bigint) => true,
        (Bigint, Timestamp) | (Timestamp, Bigint) | (Time, Bigint) | (Date, Int) => true,
        (Bigint, Counter) | (Counter, Bigint) => true,
        (Uuid, Timeuuid) => true,
        (List { element: a, .. }, List { element: b, .. })
        | (Set { element: a, .. }, Set { element: b, .. }) => type_fit(b, a) != Fit::No,
        (Map { key: k, value: v, .. }, Map { key: l, value: w, .. }) => {
            type_fit(l, k) != Fit::No && type_fit(w, v) != Fit::No
        }
        _ => false,
    };
    if weak { Fit::Weak } else { Fit::No }
}

#[cold]
fn wrong_literal(what: &str, to: &Receiver) -> Error {
    Error::invalid(format!("Invalid {what} literal for {} of type {}", to.name, to.ty))
}

#[cold]
fn cannot_infer(expr: &Expr) -> Error {
    Error::invalid(format!(
        "Cannot infer type for term {expr} in selection clause (try using a cast to force a type)"
    ))
}

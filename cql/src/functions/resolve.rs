//! Which function a call means: by its name, the number of its arguments, and their types.

use super::cast::is_castable;
use super::{Aggregate, Function, Scalar, Signature};
use crate::error::{Error, Result};
use crate::lang::ast::{BinaryOp, QualifiedName};
use model::CqlType;
use model::schema::Table;

/// How well an argument fits a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It does not.
    No,
    /// It can be taken for one.
    Weak,
    /// It is of that very type.
    Exact,
}

/// What is known of a call before its function is.
pub trait Candidate {
    /// How many arguments it has.
    fn count(&self) -> usize;
    /// The type of an argument, if it has one of its own.
    fn ty(&self, index: usize) -> Option<CqlType>;
    /// How well an argument fits a type.
    fn fit(&self, index: usize, ty: &CqlType) -> Fit;
}

/// The types a number can have, from the narrowest.
const NUMBERS: [CqlType; 9] = [
    CqlType::Tinyint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Counter,
    CqlType::Float,
    CqlType::Double,
    CqlType::Varint,
    CqlType::Decimal,
];

/// The function that `name` means for these arguments. `table` is the one that `token()` is of.
pub fn resolve(
    name: &QualifiedName,
    call: &impl Candidate,
    table: Option<&Table>,
) -> Result<Signature> {
    let known = match name.keyspace.as_deref() {
        None | Some("system") => signatures(&name.name, call, table),
        Some(_) => None,
    };
    let Some(known) = known else {
        return Err(Error::invalid(format!("Unknown function '{name}'")));
    };
    if let [only] = &known[..] {
        if only.arguments.len() != call.count() {
            return Err(Error::invalid(format!(
                "Invalid number of arguments in call to function system.{}: {} required but {} provided",
                name.name,
                only.arguments.len(),
                call.count()
            )));
        }
        for (index, ty) in only.arguments.iter().enumerate() {
            if call.fit(index, ty) == Fit::No {
                let given = call.ty(index).map_or("that value".to_owned(), |ty| ty.to_string());
                return Err(Error::invalid(format!(
                    "Type error: {given} cannot be passed as argument {index} of function system.{} of type {ty}",
                    name.name
                )));
            }
        }
    }
    best(&known, call, name).cloned()
}

/// Signatures as errors list them.
fn shown(known: &[&Signature]) -> String {
    let each = known.iter().map(|known| {
        let arguments: Vec<String> = known.arguments.iter().map(CqlType::to_string).collect();
        format!("system.{} : ({}) -> {}", known.name, arguments.join(", "), known.result)
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The signature that fits best, which must be one.
fn best<'s>(
    known: &'s [Signature],
    call: &impl Candidate,
    name: &QualifiedName,
) -> Result<&'s Signature> {
    let exact = |signature: &Signature| {
        if signature.arguments.len() != call.count() {
            return None;
        }
        let fits = signature.arguments.iter().enumerate().map(|(index, ty)| call.fit(index, ty));
        let exact = fits.clone().filter(|fit| *fit == Fit::Exact).count();
        fits.clone().all(|fit| fit != Fit::No).then_some(exact)
    };
    let fitting: Vec<(usize, &Signature)> =
        known.iter().filter_map(|known| Some((exact(known)?, known))).collect();
    let most = fitting.iter().map(|(exact, _)| *exact).max();
    let best: Vec<&Signature> = fitting
        .iter()
        .filter(|(exact, _)| Some(*exact) == most)
        .map(|(_, signature)| *signature)
        .collect();
    match best[..] {
        [only] => Ok(only),
        [] => Err(Error::invalid(format!(
            "Invalid call to function {}, none of its type signatures match (known type signatures: {})",
            name.name,
            shown(&known.iter().collect::<Vec<_>>())
        ))),
        _ => Err(Error::invalid(format!(
            "Ambiguous call to function {} (can be matched by following signatures: {}): use type casts to disambiguate",
            name.name,
            shown(&best)
        ))),
    }
}

/// All signatures of a name; `None` if there is no such function.
fn signatures(name: &str, call: &impl Candidate, table: Option<&Table>) -> Option<Vec<Signature>> {
    use CqlType::*;
    let one = |scalar, arguments: &[CqlType], result| {
        vec![signature(Function::Scalar(scalar), name, arguments, result)]
    };
    let from_each = |scalar, from: &[CqlType], result: CqlType| {
        from.iter()
            .map(|from| {
                signature(
                    Function::Scalar(scalar),
                    name,
                    std::slice::from_ref(from),
                    result.clone(),
                )
            })
            .collect()
    };
    // Both spellings of every name of several words.
    let plain = name.replace('_', "");
    Some(match plain.as_str() {
        "token" => {
            let key: Vec<CqlType> =
                table?.partition_key().iter().map(|column| column.ty.clone()).collect();
            one(Scalar::Token, &key, Bigint)
        }
        "now" | "currenttimeuuid" => one(Scalar::Now, &[], Timeuuid),
        "uuid" => one(Scalar::Uuid, &[], Uuid),
        "currenttimestamp" => one(Scalar::CurrentTimestamp, &[], Timestamp),
        "currentdate" => one(Scalar::CurrentDate, &[], Date),
        "currenttime" => one(Scalar::CurrentTime, &[], Time),
        "mintimeuuid" => one(Scalar::MinTimeuuid, &[Timestamp], Timeuuid),
        "maxtimeuuid" => one(Scalar::MaxTimeuuid, &[Timestamp], Timeuuid),
        "todate" => from_each(Scalar::ToDate, &[Timeuuid, Timestamp], Date),
        "totimestamp" => from_each(Scalar::ToTimestamp, &[Timeuuid, Date], Timestamp),
        "dateof" => one(Scalar::ToTimestamp, &[Timeuuid], Timestamp),
        "tounixtimestamp" => {
            from_each(Scalar::ToUnixTimestamp, &[Timeuuid, Timestamp, Date], Bigint)
        }
        "unixtimestampof" => one(Scalar::ToUnixTimestamp, &[Timeuuid], Bigint),
        "tojson" => one(Scalar::ToJson, &[call.ty(0).unwrap_or(Text)], Text),
        "count" if call.count() == 0 => vec![aggregate(Aggregate::CountRows, name, &[], Bigint)],
        // `count(1)` counts rows too.
        "count" => match call.ty(0) {
            Some(ty) => vec![aggregate(Aggregate::Count, name, &[ty], Bigint)],
            None => vec![aggregate(Aggregate::Count, name, &[Int], Bigint)],
        },
        "min" | "max" => {
            let which = if plain == "min" { Aggregate::Min } else { Aggregate::Max };
            let ty = call.ty(0).unwrap_or(Int).frozen();
            vec![aggregate(which, name, std::slice::from_ref(&ty), ty.clone())]
        }
        "sum" | "avg" => {
            let which = if plain == "sum" { Aggregate::Sum } else { Aggregate::Avg };
            NUMBERS
                .iter()
                .map(|ty| aggregate(which, name, std::slice::from_ref(ty), ty.clone()))
                .collect()
        }
        _ => {
            if let Some(ty) = plain.strip_suffix("asblob").and_then(CqlType::scalar) {
                return Some(one(Scalar::AsBlob, &[ty], Blob));
            }
            let ty = plain.strip_prefix("blobas").and_then(CqlType::scalar)?;
            one(Scalar::BlobAs, &[Blob], ty)
        }
    })
}

fn signature(function: Function, name: &str, arguments: &[CqlType], result: CqlType) -> Signature {
    Signature { function, name: name.to_owned(), arguments: arguments.to_vec(), result }
}

fn aggregate(which: Aggregate, name: &str, arguments: &[CqlType], result: CqlType) -> Signature {
    signature(Function::Aggregate(which), name, arguments, result)
}

/// The signature of `CAST(from AS to)`.
pub fn resolve_cast(from: CqlType, to: CqlType) -> Result<Signature> {
    if !is_castable(&from, &to) {
        return Err(Error::invalid(format!("{from} cannot be cast to {to}")));
    }
    let function = Function::Scalar(Scalar::Cast);
    Ok(Signature { function, name: format!("castas{to}"), arguments: vec![from], result: to })
}

/// The signature of `-value`.
pub fn resolve_negation(ty: CqlType) -> Result<Signature> {
    let is_number = number_of_both(&ty, &ty).is_some() || ty == CqlType::Duration;
    if !is_number {
        return Err(Error::invalid(format!("the '-' operation is not supported on {ty}")));
    }
    let function = Function::Scalar(Scalar::Negate);
    Ok(Signature { function, name: "-".into(), arguments: vec![ty.clone()], result: ty })
}

/// The signature of `left op right`.
pub fn resolve_operation(op: BinaryOp, left: CqlType, right: CqlType) -> Result<Signature> {
    let result = match (&left, &right) {
        (CqlType::Text | CqlType::Ascii, CqlType::Text | CqlType::Ascii) if op == BinaryOp::Add => {
            Some(if left == right { left.clone() } else { CqlType::Text })
        }
        (CqlType::Timestamp | CqlType::Date, CqlType::Duration)
            if matches!(op, BinaryOp::Add | BinaryOp::Subtract) =>
        {
            Some(left.clone())
        }
        _ => number_of_both(&left, &right),
    };
    let Some(result) = result else {
        return Err(Error::invalid(format!(
            "the '{op}' operation is not supported between {left} and {right}"
        )));
    };
    let function = Function::Scalar(Scalar::Arithmetic(op));
    Ok(Signature { function, name: op.symbol().to_string(), arguments: vec![left, right], result })
}

/// The narrowest type for a result of numbers of both types.
fn number_of_both(left: &CqlType, right: &CqlType) -> Option<CqlType> {
    let width = |ty: &CqlType| match ty {
        CqlType::Tinyint => Some((1, false)),
        CqlType::Smallint => Some((2, false)),
        CqlType::Int => Some((4, false)),
        CqlType::Bigint | CqlType::Counter => Some((8, false)),
        CqlType::Varint => Some((16, false)),
        CqlType::Float => Some((4, true)),
        CqlType::Double => Some((8, true)),
        CqlType::Decimal => Some((16, true)),
        _ => None,
    };
    let ((a, a_floats), (b, b_floats)) = (width(left)?, width(right)?);
    Some(match (a.max(b), a_floats || b_floats) {
        (1, false) => CqlType::Tinyint,
        (2, false) => CqlType::Smallint,
        (4, false) => CqlType::Int,
        (8, false) => CqlType::Bigint,
        (_, false) => CqlType::Varint,
        (..=4, true) => CqlType::Float,
        (8, true) => CqlType::Double,
        (_, true) => CqlType::Decimal,
    })
}

//! Which function a call means: by its name, the number of its arguments, and their types.
//!
//! As Cassandra's `FunctionResolver`: of several signatures the first that fits exactly is meant,
//! else the only one that fits at all. Where a receiver is known, what does not give it is left out.
//!
//! 1. `overloads` lists the signatures of the name: those of users first, then the built-in ones. For `Takes::Inferred`
//!    there is one, made of the types of the arguments.
//! 2. A name with one signature means that one: what does not fit is refused with an error that names the argument.
//! 3. Of several, signatures whose result does not fit the receiver are left out. The first that fits exactly is taken.
//!    Else exactly one must fit weakly.
//! 4. An operator of several weak fits takes the one whose operands have the type of the receiver, unless an operand is
//!    a marker. Everything else is ambiguous and is refused.
//!
//! Invariant: drafts are only asked how they fit (`draft.rs`); nothing is changed or compiled here, so a call may be
//! resolved several times, for several receivers.
//!
//! Not here: the look-up of names (`compile.rs`), the list of built-in functions (`function/table.rs`), the making of
//! terms from the arguments (`infer.rs`).

use std::borrow::Cow;

use model::CqlType::{self, *};
use model::schema::Table;

use super::draft::{Callee, Draft, Fit, Form, Pending, Style, type_fit};
use super::function::{Function, Gives, Parameter, Takes, TypeSource, UserCallee};
use super::{Signature, function};
use crate::error::{Error, Result};

/// The types that values can be cast from.
static CASTABLE: [[CqlType; 1]; 18] = [
    [Tinyint],
    [Smallint],
    [Int],
    [Bigint],
    [Counter],
    [Float],
    [Double],
    [Varint],
    [Decimal],
    [Ascii],
    [Boolean],
    [Inet],
    [Timeuuid],
    [Uuid],
    [Date],
    [Time],
    [Timestamp],
    [Text],
];

/// The pairs of a type of number with each.
macro_rules! pairs {
    ($left:ident) => {
        [
            [$left, Tinyint],
            [$left, Smallint],
            [$left, Int],
            [$left, Bigint],
            [$left, Counter],
            [$left, Float],
            [$left, Double],
            [$left, Varint],
            [$left, Decimal],
        ]
    };
}

/// All pairs of types of numbers.
static NUMBER_PAIRS: [[[CqlType; 2]; 9]; 9] = [
    pairs!(Tinyint),
    pairs!(Smallint),
    pairs!(Int),
    pairs!(Bigint),
    pairs!(Counter),
    pairs!(Float),
    pairs!(Double),
    pairs!(Varint),
    pairs!(Decimal),
];

/// One way to call a function.
struct Overload {
    function: &'static Function,
    name: &'static str,
    types: Types,
}

/// The types of one way to call a function.
enum Types {
    /// Of a built-in one.
    Of { arguments: Cow<'static, [CqlType]>, result: CqlType },
    /// Those of what a user made. They are not copied for each call: a name may have a thousand overloads.
    OfUser(UserCallee),
}

/// A built-in function, and which of its names was written.
type BuiltIn = (&'static Function, &'static str);

impl Overload {
    fn of((function, name): BuiltIn, arguments: impl Into<Cow<'static, [CqlType]>>) -> Overload {
        let arguments = arguments.into();
        let result = match &function.gives {
            Gives::This(ty) => ty.clone(),
            Gives::FirstAsTime if arguments[0] == Timeuuid => Timestamp,
            Gives::First | Gives::FirstAsTime => arguments[0].clone(),
            Gives::Element | Gives::KeySet | Gives::ValueList => {
                of_parts(&function.gives, &arguments[0])
            }
            Gives::Wider => wider(&arguments[0], &arguments[1]),
            Gives::Receiver => unreachable!("its receiver says it"),
        };
        Overload { function, name, types: Types::Of { arguments, result } }
    }

    fn of_user(user: &UserCallee) -> Overload {
        Overload { function: user.function(), name: "", types: Types::OfUser(user.clone()) }
    }

    fn signature(self) -> Signature {
        let Overload { function, name, types } = self;
        let (user, arguments, result) = match types {
            Types::Of { arguments, result } => (None, arguments.into_owned(), result),
            Types::OfUser(user) => {
                let arguments = (0..user.argument_count()).map(|at| user.argument(at).clone());
                let (arguments, result) = (arguments.collect(), user.result().clone());
                (Some(user), arguments, result)
            }
        };
        Signature { function, name, user, arguments, result }
    }

    /// Its name with its keyspace.
    fn shown(&self) -> String {
        match &self.types {
            Types::Of { .. } => format!("system.{}", self.name),
            Types::OfUser(user) => user.shown(),
        }
    }

    fn argument_count(&self) -> usize {
        match &self.types {
            Types::Of { arguments, .. } => arguments.len(),
            Types::OfUser(user) => user.argument_count(),
        }
    }

    /// The types of its arguments.
    fn arguments(&self) -> impl Iterator<Item = &CqlType> {
        (0..self.argument_count()).map(|at| match &self.types {
            Types::Of { arguments, .. } => &arguments[at],
            Types::OfUser(user) => user.argument(at),
        })
    }

    fn result(&self) -> &CqlType {
        match &self.types {
            Types::Of { result, .. } => result,
            Types::OfUser(user) => user.result(),
        }
    }

    /// How well arguments fit.
    fn fit(&self, arguments: &[Draft<'_>], table: &Table) -> Fit {
        if self.argument_count() != arguments.len() {
            return Fit::No;
        }
        let mut fit = Fit::Exact;
        for (argument, ty) in arguments.iter().zip(self.arguments()) {
            match argument.fit(ty, &|call, to| resolve_pending(call, to, table)) {
                Fit::No => return Fit::No,
                part => fit = fit.min(part),
            }
        }
        fit
    }
}

fn resolve_pending(
    call: &Pending<'_>,
    receiver: Option<&CqlType>,
    table: &Table,
) -> Option<Signature> {
    resolve(&call.callee, &call.arguments, receiver, table).ok()
}

/// How well a draft fits a type.
pub(super) fn fit(draft: &Draft<'_>, ty: &CqlType, table: &Table) -> Fit {
    draft.fit(ty, &|call, to| resolve_pending(call, to, table))
}

/// The function that a call means. `table` is the one that `token()` is of.
pub(super) fn resolve(
    callee: &Callee,
    arguments: &[Draft<'_>],
    receiver: Option<&CqlType>,
    table: &Table,
) -> Result<Signature> {
    let overloads = overloads(callee, arguments, receiver, table)?;
    if let [only] = &overloads[..] {
        check_only(only, arguments, table)?;
        return Ok(overloads.into_iter().next().expect("there is one").signature());
    }
    let mut weak = Vec::new();
    for overload in overloads {
        if receiver.is_some_and(|to| type_fit(overload.result(), to) == Fit::No) {
            continue;
        }
        match overload.fit(arguments, table) {
            Fit::Exact => return Ok(overload.signature()),
            Fit::Weak => weak.push(overload),
            Fit::No => {}
        }
    }
    if weak.is_empty() {
        return Err(no_match(callee, arguments, table));
    }
    if weak.len() > 1 {
        let has_marker = arguments.iter().any(|argument| argument.is_marker());
        let of_receiver = receiver.filter(|_| callee.is_operator() && !has_marker);
        let wanted = weak.iter().position(|overload| {
            overload.arguments().all(|argument| Some(argument) == of_receiver)
        });
        return match wanted {
            Some(index) => Ok(weak.swap_remove(index).signature()),
            None => Err(ambiguous(callee, arguments, weak)),
        };
    }
    Ok(weak.swap_remove(0).signature())
}

/// Every way to call a function.
fn overloads(
    callee: &Callee,
    arguments: &[Draft<'_>],
    receiver: Option<&CqlType>,
    table: &Table,
) -> Result<Vec<Overload>> {
    let mut overloads: Vec<Overload> = callee.users.iter().map(Overload::of_user).collect();
    let Some(built_in) = callee.built_in else { return Ok(overloads) };
    match overloads_of(built_in, arguments, receiver, table) {
        Ok(more) => overloads.extend(more),
        // What users made of this name may take these arguments.
        Err(_) if !overloads.is_empty() => {}
        Err(error) => return Err(error),
    }
    Ok(overloads)
}

/// Every way to call a built-in function.
fn overloads_of(
    built_in: BuiltIn,
    arguments: &[Draft<'_>],
    receiver: Option<&CqlType>,
    table: &Table,
) -> Result<Vec<Overload>> {
    let of = |arguments: &'static [CqlType]| Overload::of(built_in, arguments);
    Ok(match &built_in.0.takes {
        Takes::OneOf(lists) => lists.iter().map(|types| of(types)).collect(),
        Takes::NumbersOr(pairs) => {
            let numbers = NUMBER_PAIRS.iter().flatten().map(|pair| of(pair));
            numbers.chain(pairs.iter().map(|pair| of(pair))).collect()
        }
        Takes::CastableTo(ty) => {
            let types = CASTABLE.iter().filter(|from| function::is_castable(&from[0], ty));
            types.map(|from| of(from)).collect()
        }
        Takes::Inferred(parameters) => {
            vec![infer(built_in, parameters, arguments, receiver, table)?]
        }
        Takes::PartitionKey => {
            let key = table.partition_key().iter().map(|column| column.ty.clone());
            vec![Overload::of(built_in, key.collect::<Vec<_>>())]
        }
    })
}

/// The way to call a function whose types depend on its arguments.
fn infer(
    built_in: BuiltIn,
    parameters: &[Parameter],
    arguments: &[Draft<'_>],
    receiver: Option<&CqlType>,
    table: &Table,
) -> Result<Overload> {
    let (function, name) = built_in;
    let shown = || {
        let parameters: Vec<&str> = parameters.iter().map(|parameter| parameter.shown()).collect();
        format!("system.{name}({})", parameters.join(", "))
    };
    let optional = parameters.iter().filter(|one| one.is_optional()).count();
    if !(parameters.len() - optional..=parameters.len()).contains(&arguments.len()) {
        let text = format!("Invalid number of arguments for function {}", shown());
        return Err(Error::invalid(text));
    }
    let mut types: Vec<CqlType> = Vec::with_capacity(parameters.len());
    for (parameter, argument) in parameters.iter().zip(arguments) {
        let told = |argument| type_for(*parameter, argument, table);
        let source = parameter.type_source();
        let found = match &source {
            TypeSource::Own => told(argument),
            TypeSource::OwnOrOthers => told(argument).or_else(|| arguments.iter().find_map(told)),
            TypeSource::First => types.first().cloned(),
            TypeSource::Fixed(ty) => told(argument).or_else(|| Some(ty.clone())),
        };
        let ty = found.ok_or_else(|| {
            Error::invalid(format!(
                "Cannot infer type of argument {} in call to function {}: use type casts to disambiguate",
                argument.expr,
                shown()
            ))
        })?;
        if let Some(required) = parameter.refuses(&ty) {
            return Err(Error::invalid(format!(
                "Function system.{name} requires {required}, but found argument {} of type {ty}",
                argument.expr
            )));
        }
        types.push(match source {
            TypeSource::Fixed(ty) => ty,
            TypeSource::Own | TypeSource::OwnOrOthers | TypeSource::First => ty.frozen(),
        });
    }
    let is_vector = |ty: &CqlType| matches!(ty, CqlType::Vector { .. });
    if parameters.contains(&Parameter::FloatVector)
        && types.windows(2).any(|pair| pair.iter().all(is_vector) && pair[0] != pair[1])
    {
        return Err(Error::invalid("All arguments must have the same vector dimensions"));
    }
    Ok(match (&function.gives, receiver) {
        (Gives::Receiver, Some(result)) => {
            let (arguments, result) = (types.into(), result.clone());
            Overload { function, name, types: Types::Of { arguments, result } }
        }
        (Gives::Receiver, None) => {
            return Err(Error::invalid(format!(
                "{name}() cannot be used in the selection clause of a SELECT statement"
            )));
        }
        _ => Overload::of(built_in, types),
    })
}

/// The type an argument has for a parameter, if that can be told: a list of literals is a vector.
fn type_for(parameter: Parameter, argument: &Draft<'_>, table: &Table) -> Option<CqlType> {
    match (&argument.form, parameter) {
        (Form::List(items), Parameter::FloatVector) => {
            let dimensions = u32::try_from(items.len()).ok()?;
            let vector = CqlType::Vector { element: Float.into(), dimensions };
            (fit(argument, &vector, table) != Fit::No).then_some(vector)
        }
        _ => argument.natural_type(&|call, to| resolve_pending(call, to, table)),
    }
}

/// The type of a result that is made of the parts of a collection.
fn of_parts(gives: &Gives, collection: &CqlType) -> CqlType {
    match (gives, collection) {
        (Gives::Element, List { element, .. } | Set { element, .. }) => (**element).clone(),
        (Gives::KeySet, Map { key, .. }) => Set { element: key.clone(), frozen: true },
        (Gives::ValueList, Map { value, .. }) => List { element: value.clone(), frozen: true },
        _ => unreachable!("the parameter allows no other type"),
    }
}

/// Refuses arguments that the only way to call a function does not take.
fn check_only(only: &Overload, arguments: &[Draft<'_>], table: &Table) -> Result<()> {
    if only.argument_count() != arguments.len() {
        return Err(Error::invalid(format!(
            "Invalid number of arguments in call to function {}: {} required but {} provided",
            only.shown(),
            only.argument_count(),
            arguments.len()
        )));
    }
    for (index, (argument, ty)) in arguments.iter().zip(only.arguments()).enumerate() {
        if fit(argument, ty, table) == Fit::No {
            return Err(Error::invalid(format!(
                "Type error: {} cannot be passed as argument {index} of function {} of type {}",
                argument.expr,
                only.shown(),
                ty.unfrozen()
            )));
        }
    }
    Ok(())
}

/// Signatures as errors list them.
fn shown(overloads: Vec<Overload>) -> String {
    let each = overloads.into_iter().map(|overload| overload.signature().to_string());
    each.collect::<Vec<_>>().join(", ")
}

#[cold]
fn no_match(callee: &Callee, arguments: &[Draft<'_>], table: &Table) -> Error {
    if let Style::Operator(symbol) = callee.style {
        return Error::invalid(format!(
            "the '{symbol}' operation is not supported between {} and {}",
            arguments[0].expr, arguments[1].expr
        ));
    }
    match overloads(callee, arguments, None, table) {
        Ok(known) => Error::invalid(format!(
            "Invalid call to function {}, none of its type signatures match (known type signatures: {})",
            callee.shown(),
            shown(known)
        )),
        Err(error) => error,
    }
}

#[cold]
fn ambiguous(callee: &Callee, arguments: &[Draft<'_>], weak: Vec<Overload>) -> Error {
    Error::invalid(match callee.style {
        Style::Operator(symbol) => format!(
            "Ambiguous '{symbol}' operation with args {} and {}: use type hint to disambiguate, example '(int) ?'",
            arguments[0].expr, arguments[1].expr
        ),
        Style::Negation => "Ambiguous negation: use type casts to disambiguate".into(),
        _ => format!(
            "Ambiguous call to function {} (can be matched by following signatures: {}): use type casts to disambiguate",
            callee.shown(),
            shown(weak)
        ),
    })
}

impl Callee {
    fn is_operator(&self) -> bool {
        matches!(self.style, Style::Operator(_))
    }

    /// The name that was written, without a keyspace.
    fn name(&self) -> &str {
        match (self.built_in, self.users.first()) {
            (Some((_, name)), _) => name,
            (None, Some(user)) => user.name(),
            (None, None) => unreachable!("a call is of something"),
        }
    }

    /// The function's name as an error shows it.
    fn shown(&self) -> String {
        match self.style {
            Style::Named => self.name().to_owned(),
            _ => match &self.users[..] {
                [] => format!("system.{}", self.name()),
                [user, ..] => user.shown(),
            },
        }
    }
}

/// The type of the result of an operator: of two numbers the wider, of two texts text unless both
/// are ASCII, else the type of the left operand.
fn wider(left: &CqlType, right: &CqlType) -> CqlType {
    let width = |ty: &CqlType| match ty {
        Tinyint => Some((1, false)),
        Smallint => Some((2, false)),
        Int => Some((4, false)),
        Bigint | Counter => Some((8, false)),
        Varint => Some((16, false)),
        Float => Some((4, true)),
        Double => Some((8, true)),
        Decimal => Some((16, true)),
        _ => None,
    };
    let (Some((a, a_floats)), Some((b, b_floats))) = (width(left), width(right)) else {
        return if *right == Text { Text } else { left.clone() };
    };
    match (a.max(b), a_floats || b_floats) {
        (1, false) => Tinyint,
        (2, false) => Smallint,
        (4, false) => Int,
        (8, false) => Bigint,
        (_, false) => Varint,
        (..=4, true) => Float,
        (8, true) => Double,
        (_, true) => Decimal,
    }
}

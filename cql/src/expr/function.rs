//! The built-in functions. `table.rs` is the list: a row says everything of a function but its body.
//!
//! To add one: a row in `table.rs`, and its body in the file of its kind. Nothing else knows names;
//! only `writetime`, `maxwritetime` and `ttl`, which read a cell and not its value, are `StampKind`s.
//!
//! Unless a row says otherwise a function of a null is null. Whatever needs the clock or a new id
//! takes it from the [`StatementTime`] of the execution, and its row says that it is impure.
//!
//! Functions of users are rows of no table (`user.rs`). Not here: which function a call means (`expr/resolve.rs`).

mod aggregate;
mod arithmetic;
mod blob;
mod cast;
mod collection;
mod floor;
mod json;
mod mask;
mod math;
mod real;
mod table;
mod time;
mod user;
mod vector;

pub use aggregate::Accumulator;
use aggregate::merges;
pub(crate) use arithmetic::has_sum;
pub use arithmetic::sum;
pub(super) use cast::is_castable;
pub(super) use json::json_object;
pub(crate) use json::json_prefix;
pub use json::json_text;
use model::CqlType;
pub(super) use table::{CASTS, COUNT_ROWS, NEGATION};
pub use table::{find, of_operator};
pub(super) use user::CalledNames;
pub use user::{
    AggregateFunctions, CalledName, NoUserFunctions, UserCallee, UserFunctions, failure,
};

use super::work::{ExpressionWork, work_of_bytes, work_of_call};
use super::{Env, Evaluated, Term};
use crate::bind::StatementTime;
use crate::error::{Error, Result};
use crate::json::JsonBudget;

/// A row of the table.
#[derive(Debug)]
pub struct Function {
    /// The names it is called by, in lower case: as in Cassandra 5, and as before it.
    pub names: &'static [&'static str],
    /// The types of the arguments.
    pub takes: Takes,
    /// The type of the result.
    pub gives: Gives,
    /// What the result depends on: a call of a pure function with constants is a constant.
    pub purity: Purity,
    /// What becomes of null arguments.
    pub nulls: Nulls,
    /// Whether a larger first argument never gives a smaller result while the other arguments stay the same: rows in
    /// the order of a column are then in that of the result, so that GROUP BY can use it.
    pub is_monotonic: bool,
    /// What it does with the bytes of its arguments, by which its work is counted.
    pub effort: Effort,
    /// The function's code: of a row, or of a group.
    pub body: Body,
}

impl Function {
    /// The function as a monotonic one.
    const fn monotonic(mut self) -> Function {
        self.is_monotonic = true;
        self
    }

    /// The function as one that sums series.
    const fn of_series(mut self) -> Function {
        self.effort = Effort::Series;
        self
    }

    /// This function, which copies its arguments or walks over their elements.
    const fn of_copies(mut self) -> Function {
        self.effort = Effort::Copies;
        self
    }

    /// Whether it is `from_json`, which alone gives what its receiver takes.
    pub(in crate::expr) fn reads_json(&self) -> bool {
        matches!(self.gives, Gives::Receiver)
    }
}

/// The types of the arguments of a function.
#[derive(Debug)]
pub enum Takes {
    /// One of these lists of types.
    OneOf(&'static [&'static [CqlType]]),
    /// Two numbers of any types, and one of these pairs.
    NumbersOr(&'static [&'static [CqlType]]),
    /// A value of any type that can be cast to this one.
    CastableTo(CqlType),
    /// Types that depend on the arguments.
    Inferred(&'static [Parameter]),
    /// The columns of the table's partition key.
    PartitionKey,
}

/// An argument whose type is its own, and what that must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A parameter of any type.
    Any,
    /// A list, set or map.
    Collection,
    /// A list or set.
    SetOrList,
    /// A list or set of numbers.
    NumericSetOrList,
    /// A map of any types.
    Map,
    /// A vector of floats, as long as the others of the call.
    FloatVector,
    /// A text or ascii.
    AnyText,
    /// An int, also where that cannot be told.
    Int,
    /// A text of any kind, which is taken for a text.
    Text,
    /// A text that may be left out.
    OptionalText,
    /// Of the type of the first argument.
    LikeFirst,
}

impl Parameter {
    /// As Cassandra's errors name it in a list of parameters.
    pub(super) fn shown(self) -> &'static str {
        match self {
            Parameter::Any | Parameter::LikeFirst => "any",
            Parameter::Collection => "collection",
            Parameter::SetOrList | Parameter::NumericSetOrList => "numeric_set_or_list",
            Parameter::Map => "map",
            Parameter::FloatVector => "vector<float, n>",
            Parameter::AnyText => "[text|varchar|ascii]",
            Parameter::Int => "int",
            Parameter::Text => "text",
            Parameter::OptionalText => "[text]",
        }
    }

    /// Where the type of its argument comes from.
    pub(super) fn type_source(self) -> TypeSource {
        match self {
            Parameter::Any
            | Parameter::Collection
            | Parameter::SetOrList
            | Parameter::NumericSetOrList
            | Parameter::Map
            | Parameter::AnyText => TypeSource::Own,
            Parameter::FloatVector => TypeSource::OwnOrOthers,
            Parameter::LikeFirst => TypeSource::First,
            Parameter::Int => TypeSource::Fixed(CqlType::Int),
            Parameter::Text | Parameter::OptionalText => TypeSource::Fixed(CqlType::Text),
        }
    }

    /// Whether the argument may be left out.
    pub(super) fn is_optional(self) -> bool {
        self == Parameter::OptionalText
    }

    /// As Cassandra's errors say what is required; `None` if the type is right.
    pub(super) fn refuses(self, ty: &CqlType) -> Option<&'static str> {
        let of = match ty {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => Some(&**element),
            _ => None,
        };
        let is_text = matches!(ty, CqlType::Text | CqlType::Ascii);
        let (fits, required) = match self {
            Parameter::Any | Parameter::LikeFirst => (true, ""),
            Parameter::Collection => (ty.is_collection(), "a collection argument"),
            Parameter::SetOrList => (of.is_some(), "a set or list argument"),
            Parameter::NumericSetOrList => {
                (of.is_some_and(table::is_number), "a numeric set/list argument")
            }
            Parameter::Map => (matches!(ty, CqlType::Map { .. }), "a map argument"),
            Parameter::FloatVector => {
                let fits = matches!(
                    ty, CqlType::Vector { element, .. } if **element == CqlType::Float
                );
                (fits, "a float vector argument")
            }
            Parameter::AnyText => (is_text, "an argument of type [text|varchar|ascii]"),
            Parameter::Int => (*ty == CqlType::Int, "an argument of type int"),
            Parameter::Text | Parameter::OptionalText => (is_text, "an argument of type text"),
        };
        (!fits).then_some(required)
    }
}

/// Where the type of an argument comes from.
pub(super) enum TypeSource {
    /// The argument has one of its own, which must be told.
    Own,
    /// Its own, else that of another argument of the call.
    OwnOrOthers,
    /// That of the first argument, whatever its own is.
    First,
    /// Always this one; an argument that has another is refused.
    Fixed(CqlType),
}

/// The type of a result.
#[derive(Debug)]
pub enum Gives {
    /// Always this type.
    This(CqlType),
    /// That of the first argument.
    First,
    /// That of the elements of the first argument, a list or set.
    Element,
    /// A set of the keys of the first argument, a map.
    KeySet,
    /// A list of the values of the first argument, a map.
    ValueList,
    /// That of an operator's operands, the wider of two numbers.
    Wider,
    /// That of the first argument, and a timestamp of a timeuuid.
    FirstAsTime,
    /// That of what receives it, so it has none in a selection.
    Receiver,
}

/// What the result of a function depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purity {
    /// On the arguments alone: equal ones always give the same result.
    Pure,
    /// On the clock, too, or it is new each time, as that of `uuid()`.
    Impure,
}

/// What a call of a function does with the bytes of its arguments and of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// It computes with each of them.
    Bytes,
    /// It sums up a series of numbers as long as its argument.
    Series,
    /// It copies them, or walks over the elements of a collection.
    Copies,
}

/// What becomes of a null argument of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// It makes the result null; the body is not called.
    GiveNull,
    /// The body is called with it.
    Taken,
}

/// The code of a function: of one call, or an aggregate of many rows.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// From the arguments of one row; `None` is null.
    Scalar(fn(&Call<'_>) -> Result<Option<Vec<u8>>>),
    /// From the arguments of all rows of a group, by an [`Accumulator`].
    Aggregate(Aggregate),
}

/// A function of the values of many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each is the CQL function of the same name; `User` is one that a user made"
)]
pub enum Aggregate {
    CountRows,
    Count,
    Min,
    Max,
    Sum,
    Avg,
    User,
}

/// Two rows are the same function if they are the same row.
impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        std::ptr::eq(self, other)
    }
}

/// A function with the types it is called with.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The function that is called.
    pub function: &'static Function,
    /// The name it was called by, one of the function's; empty if a user made it.
    pub name: &'static str,
    /// What a user made, which is called then.
    pub user: Option<UserCallee>,
    /// The types of its arguments.
    pub arguments: Vec<CqlType>,
    /// The type of its result.
    pub result: CqlType,
}

/// One call of a scalar function.
pub struct Call<'c> {
    /// The function and its types.
    pub signature: &'c Signature,
    /// The timestamp and the clock that the statement sees.
    pub time: &'c StatementTime<'c>,
    /// What `from_json` may make.
    json_budget: Option<&'c JsonBudget>,
    /// What the expressions around it have taken.
    work: &'c ExpressionWork,
    values: &'c [Option<&'c [u8]>],
}

impl<'c> Call<'c> {
    /// The bytes of an argument of a function that takes no nulls.
    pub fn value(&self, index: usize) -> &'c [u8] {
        self.values[index].expect("a null argument gave null")
    }

    /// The bytes of an argument; `None` for a null.
    pub fn optional(&self, index: usize) -> Option<&'c [u8]> {
        self.values[index]
    }

    /// The type of an argument.
    pub fn ty(&self, index: usize) -> &'c CqlType {
        &self.signature.arguments[index]
    }

    /// The type of the result.
    pub fn result(&self) -> &'c CqlType {
        &self.signature.result
    }
}

impl Signature {
    /// Whether the same arguments always give the same result.
    pub fn is_pure(&self) -> bool {
        self.function.purity == Purity::Pure
    }

    /// The aggregate, if it is one.
    pub fn aggregate(&self) -> Option<Aggregate> {
        match self.function.body {
            Body::Aggregate(aggregate) => Some(aggregate),
            Body::Scalar(_) => None,
        }
    }

    /// Its name with its keyspace.
    pub fn shown(&self) -> String {
        self.user.as_ref().map_or_else(|| format!("system.{}", self.name), UserCallee::shown)
    }

    /// Whether it is an aggregate of which the states of two parts of the rows become that of all.
    pub fn merges(&self) -> bool {
        if let Some(UserCallee::Aggregate(functions)) = &self.user {
            return functions.merges();
        }
        let ty = self.arguments.first().unwrap_or(&CqlType::Bigint);
        self.aggregate().is_some_and(|aggregate| merges(aggregate, ty))
    }

    /// The value of a call with these arguments.
    pub(super) fn eval<'e>(
        &'e self,
        arguments: &'e [Term],
        env: &'e impl Env,
    ) -> Result<Evaluated<'e>> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match argument.eval(env)? {
                Evaluated::Unset => {
                    let name =
                        self.user.as_ref().map_or_else(|| self.name.to_owned(), UserCallee::shown);
                    return Err(Error::invalid(format!(
                        "Invalid unset value for argument in call to function {name}"
                    )));
                }
                value => values.push(value),
            }
        }
        let values: Vec<Option<&[u8]>> = values.iter().map(Evaluated::bytes).collect();
        let work = env.work();
        work.take(work_of_call(self.function, &self.arguments, &values))?;
        let result = self.call(&values, env)?;
        if let Some(result) = &result {
            work.take(work_of_bytes(self.function, &self.result, result))?;
        }
        Ok(Evaluated::made_or_null(result))
    }

    /// The result of a scalar function for these values.
    fn call(&self, values: &[Option<&[u8]>], env: &impl Env) -> Result<Option<Vec<u8>>> {
        let time = env.time();
        if let Some(UserCallee::Function(function)) = &self.user {
            return user::call(function, values, time);
        }
        let Body::Scalar(body) = self.function.body else {
            unreachable!("the compiler puts aggregates into the selection, not into terms")
        };
        let has_null = values.iter().any(Option::is_none);
        if has_null && self.function.nulls == Nulls::GiveNull {
            return Ok(None);
        }
        let (json_budget, work) = (env.json_budget(), env.work());
        body(&Call { signature: self, time, json_budget, work, values })
    }
}

impl std::fmt::Display for Signature {
    /// As Cassandra's errors list signatures.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let arguments: Vec<String> = self.arguments.iter().map(CqlType::to_string).collect();
        write!(f, "{} : ({}) -> {}", self.shown(), arguments.join(", "), self.result)
    }
}

#[cfg(test)]
mod tests;

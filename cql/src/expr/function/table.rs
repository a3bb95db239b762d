//! The list of built-in functions, aggregates and operators.
//!
//! A row gives: names · what it takes · what it gives · its body. `pure`, `impure` and `aggregate`
//! are the kinds of row.
//!
//! 1. Names are in lower case (but `countRows`), the one of Cassandra 5 first, then the one that it had before. `find`
//!    gives the first row that has a name.
//! 2. What a function takes is a list of signatures, or parameters whose types follow from the arguments (`Takes`).
//!    What it gives may depend on the types that it was called with (`Gives`).
//! 3. Operators have rows, too, whose names begin with `_`; a statement reaches them by `of_operator` alone.
//! 4. `monotonic` marks functions by which `GROUP BY` may group rows in the order of storage.
//!
//! Not here: the kinds of parameter (`function.rs`), the choice of a signature (`resolve.rs`), functions of users
//! (`user.rs`), bodies, each in the file of its kind.

use model::CqlType::{self, *};

use super::{
    Aggregate, Body, Effort, Function, Gives, Nulls, Parameter, Purity, Takes, arithmetic, blob,
    cast, collection, floor, json, mask, math, time, vector,
};
use crate::error::Result;
use crate::lang::ast::BinaryOp;

/// The parameters of a function that takes no arguments.
const NONE: &[&[CqlType]] = &[&[]];
const ANY_BYTES: &[&[CqlType]] = &[&[Blob]];
const OF_TIMESTAMP: &[&[CqlType]] = &[&[Timestamp]];
const OF_TIMEUUID: &[&[CqlType]] = &[&[Timeuuid]];
const OF_TIMEUUID_OR_DATE: &[&[CqlType]] = &[&[Timeuuid], &[Date]];
const OF_TIMEUUID_OR_TIMESTAMP: &[&[CqlType]] = &[&[Timeuuid], &[Timestamp]];
const OF_TIMES: &[&[CqlType]] = &[&[Timeuuid], &[Timestamp], &[Date]];
const TIMES_AND_TEXTS: &[&[CqlType]] = &[
    &[Timestamp, Duration],
    &[Date, Duration],
    &[Text, Text],
    &[Ascii, Ascii],
    &[Text, Ascii],
    &[Ascii, Text],
];
const TIMES_AND_STARTS: &[&[CqlType]] = &[
    &[Timeuuid, Duration],
    &[Date, Duration, Date],
    &[Date, Duration],
    &[Time, Duration],
    &[Timeuuid, Duration, Timestamp],
    &[Timestamp, Duration, Timestamp],
    &[Timestamp, Duration],
];
const TIMES: &[&[CqlType]] = &[&[Timestamp, Duration], &[Date, Duration]];

/// One number of any type.
const NUMBER: &[&[CqlType]] = &[
    &[Tinyint],
    &[Smallint],
    &[Int],
    &[Bigint],
    &[Counter],
    &[Float],
    &[Double],
    &[Varint],
    &[Decimal],
];

const COLLECTION: Takes = Takes::Inferred(&[Parameter::Collection]);
const SET_OR_LIST: Takes = Takes::Inferred(&[Parameter::SetOrList]);
const NUMBERS: Takes = Takes::Inferred(&[Parameter::NumericSetOrList]);
const MAP: Takes = Takes::Inferred(&[Parameter::Map]);
const MASKED: Takes =
    Takes::Inferred(&[Parameter::AnyText, Parameter::Int, Parameter::Int, Parameter::OptionalText]);
const REPLACED: Takes = Takes::Inferred(&[Parameter::Any, Parameter::LikeFirst]);
const HASHED: Takes = Takes::Inferred(&[Parameter::Any, Parameter::OptionalText]);
const ANY: Takes = Takes::Inferred(&[Parameter::Any]);
const ONE_TEXT: Takes = Takes::Inferred(&[Parameter::Text]);
const VECTORS: Takes = Takes::Inferred(&[Parameter::FloatVector, Parameter::FloatVector]);

/// Whether a type is a number's.
pub(super) fn is_number(ty: &CqlType) -> bool {
    NUMBER.iter().any(|number| number[0] == *ty)
}

/// The functions that statements call by name, but those of [`BLOBS`] and [`CASTS`].
static FUNCTIONS: &[Function] = &[
    // Ids and the clock.
    impure(&["now", "current_timeuuid", "currenttimeuuid"], Gives::This(Timeuuid), time::now),
    impure(&["uuid"], Gives::This(Uuid), time::uuid),
    impure(
        &["current_timestamp", "currenttimestamp"],
        Gives::This(Timestamp),
        time::current_timestamp,
    ),
    impure(&["current_date", "currentdate"], Gives::This(Date), time::current_date),
    impure(&["current_time", "currenttime"], Gives::This(Time), time::current_time),
    // Between timeuuids, timestamps and dates.
    pure(
        &["min_timeuuid", "mintimeuuid"],
        Takes::OneOf(OF_TIMESTAMP),
        Gives::This(Timeuuid),
        time::min_timeuuid,
    ),
    pure(
        &["max_timeuuid", "maxtimeuuid"],
        Takes::OneOf(OF_TIMESTAMP),
        Gives::This(Timeuuid),
        time::max_timeuuid,
    ),
    pure(
        &["to_date", "todate"],
        Takes::OneOf(OF_TIMEUUID_OR_TIMESTAMP),
        Gives::This(Date),
        time::to_date,
    )
    .monotonic(),
    pure(
        &["to_timestamp", "totimestamp"],
        Takes::OneOf(OF_TIMEUUID_OR_DATE),
        Gives::This(Timestamp),
        time::to_timestamp,
    )
    .monotonic(),
    pure(
        &["to_unix_timestamp", "tounixtimestamp"],
        Takes::OneOf(OF_TIMES),
        Gives::This(Bigint),
        time::to_unix_timestamp,
    )
    .monotonic(),
    pure(&["floor"], Takes::OneOf(TIMES_AND_STARTS), Gives::FirstAsTime, floor::floor).monotonic(),
    // Cassandra 5 has these two no more, ScyllaDB does.
    pure(&["dateof"], Takes::OneOf(OF_TIMEUUID), Gives::This(Timestamp), time::to_timestamp)
        .monotonic(),
    pure(
        &["unixtimestampof"],
        Takes::OneOf(OF_TIMEUUID),
        Gives::This(Bigint),
        time::to_unix_timestamp,
    )
    .monotonic(),
    // Keys, JSON.
    pure(&["token"], Takes::PartitionKey, Gives::This(Bigint), blob::token),
    of_nulls(&["to_json", "tojson"], ANY, Gives::This(Text), json::to_json).of_copies(),
    pure(&["from_json", "fromjson"], ONE_TEXT, Gives::Receiver, json::from_json),
    // Numbers.
    pure(&["abs"], Takes::OneOf(NUMBER), Gives::First, math::abs),
    pure(&["exp"], Takes::OneOf(NUMBER), Gives::First, math::exp).of_series(),
    pure(&["log"], Takes::OneOf(NUMBER), Gives::First, math::log).of_series(),
    pure(&["log10"], Takes::OneOf(NUMBER), Gives::First, math::log10).of_series(),
    pure(&["round"], Takes::OneOf(NUMBER), Gives::First, math::round),
    // Collections.
    pure(&["collection_count"], COLLECTION, Gives::This(Int), collection::count).of_copies(),
    pure(&["collection_min"], SET_OR_LIST, Gives::Element, collection::min).of_copies(),
    pure(&["collection_max"], SET_OR_LIST, Gives::Element, collection::max).of_copies(),
    pure(&["collection_sum"], NUMBERS, Gives::Element, collection::sum).of_copies(),
    pure(&["collection_avg"], NUMBERS, Gives::Element, collection::avg).of_copies(),
    pure(&["map_keys"], MAP, Gives::KeySet, collection::map_keys).of_copies(),
    pure(&["map_values"], MAP, Gives::ValueList, collection::map_values).of_copies(),
    // Values that stand in for others.
    of_nulls(&["mask_null"], ANY, Gives::First, mask::null),
    of_nulls(&["mask_default"], ANY, Gives::First, mask::default),
    of_nulls(&["mask_replace"], REPLACED, Gives::First, mask::replace),
    of_nulls(&["mask_inner"], MASKED, Gives::First, mask::inner),
    of_nulls(&["mask_outer"], MASKED, Gives::First, mask::outer),
    of_nulls(&["mask_hash"], HASHED, Gives::This(Blob), mask::hash),
    // Vectors.
    pure(&["similarity_cosine"], VECTORS, Gives::This(Float), vector::cosine),
    pure(&["similarity_euclidean"], VECTORS, Gives::This(Float), vector::euclidean),
    pure(&["similarity_dot_product"], VECTORS, Gives::This(Float), vector::dot_product),
    // Aggregates.
    aggregate(&["count"], Takes::OneOf(ANY_BYTES), Gives::This(Bigint), Aggregate::Count),
    aggregate(&["min"], ANY, Gives::First, Aggregate::Min),
    aggregate(&["max"], ANY, Gives::First, Aggregate::Max),
    aggregate(&["sum"], Takes::OneOf(NUMBER), Gives::First, Aggregate::Sum),
    aggregate(&["avg"], Takes::OneOf(NUMBER), Gives::First, Aggregate::Avg),
];

/// `count(*)`, which is also `count_rows()` and `"countRows"()`: of its old name only the letters count.
pub(in crate::expr) static COUNT_ROWS: Function = aggregate(
    &["count_rows", "countRows"],
    Takes::OneOf(NONE),
    Gives::This(Bigint),
    Aggregate::CountRows,
);

/// The function behind the sign of the negative: `-a`.
pub(in crate::expr) static NEGATION: Function =
    pure(&["_negate"], Takes::OneOf(NUMBER), Gives::First, arithmetic::negate);

static ADDITION: Function =
    operator(&["_add"], TIMES_AND_TEXTS, |call| arithmetic::calculate(BinaryOp::Add, call));
static SUBTRACTION: Function =
    operator(&["_substract"], TIMES, |call| arithmetic::calculate(BinaryOp::Subtract, call));
static MULTIPLICATION: Function =
    operator(&["_multiply"], &[], |call| arithmetic::calculate(BinaryOp::Multiply, call));
static DIVISION: Function =
    operator(&["_divide"], &[], |call| arithmetic::calculate(BinaryOp::Divide, call));
static MODULO: Function =
    operator(&["_modulo"], &[], |call| arithmetic::calculate(BinaryOp::Modulo, call));

/// The function of a type for each of two directions: `int_as_blob`, `blob_as_int`.
macro_rules! blobs {
    ($($name:literal $ty:ident),* $(,)?) => {
        /// `int_as_blob`, `blob_as_int` and their like.
        static BLOBS: &[Function] = &[$(
            pure(
                &[concat!($name, "_as_blob"), concat!($name, "asblob")],
                { const TAKES: &[&[CqlType]] = &[&[$ty]]; Takes::OneOf(TAKES) },
                Gives::This(Blob),
                blob::from_value,
            )
            .of_copies(),
            pure(
                &[concat!("blob_as_", $name), concat!("blobas", $name)],
                Takes::OneOf(ANY_BYTES),
                Gives::This($ty),
                blob::to_value,
            )
            .of_copies(),
        )*];
    };
}

blobs!(
    "ascii" Ascii,
    "bigint" Bigint,
    "boolean" Boolean,
    "counter" Counter,
    "date" Date,
    "decimal" Decimal,
    "double" Double,
    "duration" Duration,
    "float" Float,
    "inet" Inet,
    "int" Int,
    "smallint" Smallint,
    "text" Text,
    "time" Time,
    "timestamp" Timestamp,
    "timeuuid" Timeuuid,
    "tinyint" Tinyint,
    "uuid" Uuid,
    "varchar" Text,
    "varint" Varint,
);

/// The cast to each type there are casts to.
macro_rules! casts {
    ($($name:literal $ty:ident),* $(,)?) => {
        /// `CAST(a AS int)` and its like.
        pub(in crate::expr) static CASTS: &[Function] = &[$(
            pure(
                &[concat!("cast_as_", $name), concat!("castas", $name)],
                Takes::CastableTo($ty),
                Gives::This($ty),
                cast::cast,
            ),
        )*];
    };
}

casts!(
    "ascii" Ascii,
    "bigint" Bigint,
    "date" Date,
    "decimal" Decimal,
    "double" Double,
    "float" Float,
    "int" Int,
    "smallint" Smallint,
    "text" Text,
    "timestamp" Timestamp,
    "tinyint" Tinyint,
    "varint" Varint,
);

/// The body of a scalar function.
type Scalar = fn(&super::Call<'_>) -> Result<Option<Vec<u8>>>;

const fn pure(
    names: &'static [&'static str],
    takes: Takes,
    gives: Gives,
    body: Scalar,
) -> Function {
    let (purity, nulls, body) = (Purity::Pure, Nulls::GiveNull, Body::Scalar(body));
    let effort = Effort::Bytes;
    Function { names, takes, gives, purity, nulls, body, is_monotonic: false, effort }
}

/// A pure function that is asked of nulls too.
const fn of_nulls(
    names: &'static [&'static str],
    takes: Takes,
    gives: Gives,
    body: Scalar,
) -> Function {
    let (purity, nulls, body) = (Purity::Pure, Nulls::Taken, Body::Scalar(body));
    let effort = Effort::Bytes;
    Function { names, takes, gives, purity, nulls, body, is_monotonic: false, effort }
}

const fn impure(names: &'static [&'static str], gives: Gives, body: Scalar) -> Function {
    let (purity, nulls, body) = (Purity::Impure, Nulls::GiveNull, Body::Scalar(body));
    let takes = Takes::OneOf(NONE);
    let effort = Effort::Bytes;
    Function { names, takes, gives, purity, nulls, body, is_monotonic: false, effort }
}

const fn operator(
    names: &'static [&'static str],
    pairs: &'static [&'static [CqlType]],
    body: Scalar,
) -> Function {
    pure(names, Takes::NumbersOr(pairs), Gives::Wider, body)
}

const fn aggregate(
    names: &'static [&'static str],
    takes: Takes,
    gives: Gives,
    aggregate: Aggregate,
) -> Function {
    let (purity, nulls, body) = (Purity::Pure, Nulls::Taken, Body::Aggregate(aggregate));
    let effort = Effort::Bytes;
    Function { names, takes, gives, purity, nulls, body, is_monotonic: false, effort }
}

/// Every function that a statement can call by name.
fn all() -> impl Iterator<Item = &'static Function> {
    FUNCTIONS.iter().chain(BLOBS).chain(CASTS).chain(std::iter::once(&COUNT_ROWS))
}

/// The function called `name`, which is in lower case, and the name as the table has it.
pub fn find(name: &str) -> Option<(&'static Function, &'static str)> {
    all().find_map(|function| {
        let known = function.names.iter().find(|known| **known == name)?;
        Some((function, *known))
    })
}

/// The function of an operator.
pub fn of_operator(op: BinaryOp) -> &'static Function {
    match op {
        BinaryOp::Add => &ADDITION,
        BinaryOp::Subtract => &SUBTRACTION,
        BinaryOp::Multiply => &MULTIPLICATION,
        BinaryOp::Divide => &DIVISION,
        BinaryOp::Modulo => &MODULO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_functions_have_one_name() {
        let mut names: Vec<&str> = all().flat_map(|function| function.names).copied().collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None);
    }

    #[test]
    fn names_are_found_as_they_are_written() {
        assert!(find("to_date").is_some() && find("todate").is_some());
        for unknown in ["n_o_w", "u_u_i_d", "to_da_te", "_now", "now_", "blob_asint", "_add"] {
            assert!(find(unknown).is_none(), "{unknown}");
        }
    }
}

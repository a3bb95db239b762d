//! Functions and aggregates of users, as calls see them, and the seam to what runs them.
//!
//! ```text
//! call ─► UserCallee: a function, or an aggregate with its functions ─► UserFunctions::call ─► wire bytes
//! ```
//!
//! 1. A callee belongs to the schema it was found in: a statement that has one is compiled again when the schema's
//!    function is another.
//! 2. A function that does not take nulls is not called with one: its result is null, and as the state function of an
//!    aggregate it leaves the state as it is.
//! 3. Nothing is folded: a body may fail, and takes time.
//!
//! Not here: which one a call means (`resolve.rs`), the languages and their limits (`functions`).

use std::collections::HashMap;
use std::sync::Arc;

use model::CqlType;
use model::schema::{FunctionKey, Keyspace, Schema, UserAggregate, UserFunction};

use super::{Aggregate, Body, Effort, Function, Gives, Nulls, Purity, Takes};
use crate::bind::StatementTime;
use crate::error::{Error, Result};
use crate::steps::step;

/// Runs the functions that users wrote.
pub trait UserFunctions {
    /// Refuses a function whose body cannot be compiled.
    fn check(&self, function: &UserFunction) -> Result<()>;

    /// The result of a call in wire form, which is a value of the function's type; `None` is null, of an argument, too.
    fn call(
        &self,
        function: &Arc<UserFunction>,
        arguments: &[Option<&[u8]>],
    ) -> Result<Option<Vec<u8>>>;
}

/// Where no function of a user runs.
#[derive(Clone, Copy, Debug)]
pub struct NoUserFunctions;

impl UserFunctions for NoUserFunctions {
    fn check(&self, _: &UserFunction) -> Result<()> {
        Ok(())
    }

    fn call(&self, function: &Arc<UserFunction>, _: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>> {
        Err(failure(function, "nothing runs functions here"))
    }
}

/// The error of a function that failed on its arguments.
pub fn failure(function: &UserFunction, text: impl Into<String>) -> Error {
    Error::Function {
        keyspace: function.keyspace.clone(),
        function: function.name.clone(),
        arguments: function.types().map(ToString::to_string).collect(),
        text: text.into(),
    }
}

/// A row of no table: what a function of a user has in common with the built-in ones.
pub(in crate::expr) static USER_FUNCTION: Function = Function {
    names: &[""],
    takes: Takes::OneOf(&[]),
    gives: Gives::Receiver,
    purity: Purity::Impure,
    nulls: Nulls::Taken,
    is_monotonic: false,
    effort: Effort::Bytes,
    body: Body::Scalar(|_| unreachable!("its callee is called")),
};

/// A row of no table: what an aggregate of a user has in common with the built-in ones.
pub(in crate::expr) static USER_AGGREGATE: Function = Function {
    names: &[""],
    takes: Takes::OneOf(&[]),
    gives: Gives::Receiver,
    purity: Purity::Impure,
    nulls: Nulls::Taken,
    is_monotonic: false,
    effort: Effort::Bytes,
    body: Body::Aggregate(Aggregate::User),
};

/// A function or an aggregate of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserCallee {
    /// A function of the values of one row.
    Function(Arc<UserFunction>),
    /// An aggregate with its functions.
    Aggregate(Arc<AggregateFunctions>),
}

/// An aggregate, and the functions it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateFunctions {
    /// What was created.
    pub aggregate: Arc<UserAggregate>,
    state: Arc<UserFunction>,
    last: Option<Arc<UserFunction>>,
    reduce: Option<Arc<UserFunction>>,
}

impl AggregateFunctions {
    /// An aggregate of a keyspace with its functions; `None` if one of them is not there.
    pub fn of(aggregate: &Arc<UserAggregate>, keyspace: &Keyspace) -> Option<AggregateFunctions> {
        let found = |key: Option<FunctionKey>| match key {
            Some(key) => Some(Some(keyspace.functions.get(&key)?.clone())),
            None => Some(None),
        };
        Some(AggregateFunctions {
            state: keyspace.functions.get(&aggregate.state_key())?.clone(),
            last: found(aggregate.final_key())?,
            reduce: found(aggregate.reduce_key())?,
            aggregate: aggregate.clone(),
        })
    }

    /// Whether the states of two parts of the rows can be put together. With an `INITCOND` the parts would count it
    /// once each: then each goes on with the state of the one before.
    pub(super) fn merges(&self) -> bool {
        self.reduce.is_some() && self.aggregate.initial.is_none()
    }
}

impl UserCallee {
    /// All callees of a name in a keyspace.
    fn all(name: &str, keyspace: &Keyspace) -> Arc<[UserCallee]> {
        let from = FunctionKey { name: name.to_owned(), arguments: Vec::new() };
        let functions = keyspace.functions.range(&from..).take_while(|(key, _)| key.name == name);
        let functions = functions.map(|(_, function)| UserCallee::Function(function.clone()));
        let aggregates = keyspace.aggregates.range(&from..).take_while(|(key, _)| key.name == name);
        let aggregates = aggregates.filter_map(|(_, aggregate)| {
            let functions = AggregateFunctions::of(aggregate, keyspace)?;
            Some(UserCallee::Aggregate(Arc::new(functions)))
        });
        functions.chain(aggregates).inspect(|_| step(1)).collect()
    }

    /// What it has in common with built-in functions.
    pub(in crate::expr) fn function(&self) -> &'static Function {
        match self {
            UserCallee::Function(_) => &USER_FUNCTION,
            UserCallee::Aggregate(_) => &USER_AGGREGATE,
        }
    }

    /// Its name with its keyspace, as errors show it.
    pub(crate) fn shown(&self) -> String {
        match self {
            UserCallee::Function(function) => format!("{}.{}", function.keyspace, function.name),
            UserCallee::Aggregate(functions) => {
                format!("{}.{}", functions.aggregate.keyspace, functions.aggregate.name)
            }
        }
    }

    /// Its name without its keyspace.
    pub(in crate::expr) fn name(&self) -> &str {
        match self {
            UserCallee::Function(function) => &function.name,
            UserCallee::Aggregate(functions) => &functions.aggregate.name,
        }
    }

    /// How many arguments it takes.
    pub(in crate::expr) fn argument_count(&self) -> usize {
        match self {
            UserCallee::Function(function) => function.arguments.len(),
            UserCallee::Aggregate(functions) => functions.aggregate.arguments.len(),
        }
    }

    /// The type of the argument of this index.
    pub(in crate::expr) fn argument(&self, index: usize) -> &CqlType {
        step(1);
        match self {
            UserCallee::Function(function) => &function.arguments[index].1,
            UserCallee::Aggregate(functions) => &functions.aggregate.arguments[index],
        }
    }

    /// The type of its result.
    pub(in crate::expr) fn result(&self) -> &CqlType {
        match self {
            UserCallee::Function(function) => &function.result,
            UserCallee::Aggregate(functions) => &functions.aggregate.result,
        }
    }
}

/// A name that a statement calls: it means what it meant as long as users have made the same of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledName {
    keyspace: String,
    name: String,
    /// What users had made of it.
    candidates: Arc<[UserCallee]>,
}

/// The names that a statement calls, each once however often it does: what users made of a name is looked for once.
#[derive(Debug, Default)]
pub(in crate::expr) struct CalledNames {
    all: Vec<CalledName>,
    /// The places in `all` of a name, which may be one in several keyspaces.
    by_name: HashMap<String, Vec<usize>>,
}

impl CalledNames {
    /// What users have made of a name in a keyspace, which is called now.
    pub(in crate::expr) fn call(
        &mut self,
        keyspace: &str,
        name: &str,
        schema: &Schema,
    ) -> Arc<[UserCallee]> {
        let places = self.by_name.get(name).map_or(&[][..], |places| places);
        let known = places.iter().map(|at| &self.all[*at]);
        if let Some(known) = known.into_iter().find(|known| known.keyspace == keyspace) {
            return known.candidates.clone();
        }
        let called = CalledName::of(keyspace, name, schema);
        let candidates = called.candidates.clone();
        self.by_name.entry(name.to_owned()).or_default().push(self.all.len());
        self.all.push(called);
        candidates
    }

    /// All of them, in the order in which they were first called.
    pub(in crate::expr) fn into_names(self) -> Vec<CalledName> {
        self.all
    }
}

impl CalledName {
    /// A name in a keyspace, which need not be there.
    fn of(keyspace: &str, name: &str, schema: &Schema) -> CalledName {
        let found = schema.keyspace(keyspace);
        let candidates = found.map(|found| UserCallee::all(name, found)).unwrap_or_default();
        CalledName { keyspace: keyspace.to_owned(), name: name.to_owned(), candidates }
    }

    /// Whether users have made functions of this name.
    pub fn is_users(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Whether users have made the same of it in this schema.
    pub fn is_same_in(&self, schema: &Schema) -> bool {
        *self == CalledName::of(&self.keyspace, &self.name, schema)
    }
}

/// What calling a function comes to.
enum Called {
    Value(Option<Vec<u8>>),
    /// It does not take the null among its arguments.
    Not,
}

fn call_with_nulls(
    function: &Arc<UserFunction>,
    arguments: &[Option<&[u8]>],
    time: &StatementTime<'_>,
) -> Result<Called> {
    // The empty value of a number, a time and so on is null to a function, as in Cassandra.
    let types = function.types().zip(arguments);
    let seen = types.map(|(ty, value)| match value {
        Some([]) if !ty.has_empty_value() => None,
        value => *value,
    });
    let arguments: Vec<Option<&[u8]>> = seen.collect();
    let arguments = &arguments[..];
    if !function.called_on_null && arguments.iter().any(Option::is_none) {
        return Ok(Called::Not);
    }
    time.functions.call(function, arguments).map(Called::Value)
}

/// The result of a function of a user.
pub(super) fn call(
    function: &Arc<UserFunction>,
    arguments: &[Option<&[u8]>],
    time: &StatementTime<'_>,
) -> Result<Option<Vec<u8>>> {
    match call_with_nulls(function, arguments, time)? {
        Called::Value(value) => Ok(value),
        Called::Not => Ok(None),
    }
}

/// The state of an aggregate of a user over the rows so far.
#[derive(Clone, Debug)]
pub(super) struct UserState {
    functions: Arc<AggregateFunctions>,
    state: Option<Vec<u8>>,
    /// Whether there was no row yet.
    is_new: bool,
}

impl UserState {
    /// Before the first row.
    pub(super) fn new(functions: &Arc<AggregateFunctions>) -> UserState {
        let state = functions.aggregate.initial.clone();
        UserState { state, functions: functions.clone(), is_new: true }
    }

    fn step(
        &mut self,
        function: &Arc<UserFunction>,
        with: &[Option<&[u8]>],
        time: &StatementTime<'_>,
    ) -> Result<()> {
        let mut arguments = Vec::with_capacity(1 + with.len());
        arguments.push(self.state.as_deref());
        arguments.extend_from_slice(with);
        if let Called::Value(state) = call_with_nulls(function, &arguments, time)? {
            self.state = state;
        }
        Ok(())
    }

    /// Takes one row's values.
    pub(super) fn add(&mut self, row: &[Option<&[u8]>], time: &StatementTime<'_>) -> Result<()> {
        let function = self.functions.state.clone();
        self.is_new = false;
        self.step(&function, row, time)
    }

    /// Adds the state of rows that come behind.
    pub(super) fn merge(&mut self, later: &UserState, time: &StatementTime<'_>) -> Result<()> {
        let functions = self.functions.clone();
        let Some(reduce) = &functions.reduce else {
            return Err(Error::invalid("these two states are not of one aggregate"));
        };
        if later.is_new {
            return Ok(());
        }
        if self.is_new {
            self.clone_from(later);
            return Ok(());
        }
        if !reduce.called_on_null && (self.state.is_none() || later.state.is_none()) {
            // It is not called, and the rows of the part with a state are not lost by that.
            self.state = self.state.take().or_else(|| later.state.clone());
            return Ok(());
        }
        self.step(reduce, &[later.state.as_deref()], time)
    }

    /// The result over all rows so far.
    pub(super) fn result(&self, time: &StatementTime<'_>) -> Result<Option<Vec<u8>>> {
        match &self.functions.last {
            Some(last) => call(last, &[self.state.as_deref()], time),
            None => Ok(self.state.clone()),
        }
    }

    /// How many bytes of values it keeps.
    pub(super) fn bytes(&self) -> usize {
        self.state.as_ref().map_or(0, Vec::len)
    }
}

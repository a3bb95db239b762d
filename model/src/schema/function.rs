//! Functions and aggregates of users: what a statement said of them, with the types resolved.
//!
//! 1. A function is known by its keyspace, its name and the types of its arguments: names may be overloaded.
//! 2. An aggregate names its functions; which they are follows from the types of its state and its arguments.
//! 3. Types are as they were written: `frozen` says nothing about a value of a function.
//!
//! Not here: what runs a function, and what may be created or dropped (`cql`).

use std::sync::Arc;

use crate::types::{CqlType, UserType};

/// The language of a function's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionLanguage {
    /// Lua 5.4, as ScyllaDB takes it.
    Lua,
    /// WebAssembly in its text format, with ScyllaDB's conventions.
    Wasm,
}

impl FunctionLanguage {
    /// The language of this name, in lower case.
    pub fn named(name: &str) -> Option<FunctionLanguage> {
        match name {
            "lua" => Some(FunctionLanguage::Lua),
            "wasm" => Some(FunctionLanguage::Wasm),
            _ => None,
        }
    }

    /// Its name in statements.
    pub fn name(self) -> &'static str {
        match self {
            FunctionLanguage::Lua => "lua",
            FunctionLanguage::Wasm => "wasm",
        }
    }
}

/// What a function or an aggregate is found by in its keyspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionKey {
    /// Its name without its keyspace.
    pub name: String,
    /// The types of its arguments as CQL.
    pub arguments: Vec<String>,
}

impl FunctionKey {
    /// The key of a name and types.
    pub fn new<'t>(name: &str, types: impl IntoIterator<Item = &'t CqlType>) -> FunctionKey {
        let arguments = types.into_iter().map(|ty| ty.unfrozen().to_string()).collect();
        FunctionKey { name: name.to_owned(), arguments }
    }
}

/// A scalar function that a user wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFunction {
    /// Name of the keyspace.
    pub keyspace: String,
    /// Name of the function.
    pub name: String,
    /// Names and types of the arguments.
    pub arguments: Vec<(String, CqlType)>,
    /// Type of the result.
    pub result: CqlType,
    /// Whether it is called when an argument is null; otherwise its result is null then.
    pub called_on_null: bool,
    /// What the body is written in.
    pub language: FunctionLanguage,
    /// The text between the quotes.
    pub body: String,
}

impl UserFunction {
    /// What it is found by in its keyspace.
    pub fn key(&self) -> FunctionKey {
        FunctionKey::new(&self.name, self.types())
    }

    /// The types of its arguments.
    pub fn types(&self) -> impl Iterator<Item = &CqlType> {
        self.arguments.iter().map(|(_, ty)| ty)
    }

    /// Whether the user type is in one of its types.
    pub(super) fn mentions(&self, user_type: &str) -> bool {
        self.types().chain([&self.result]).any(|ty| ty.mentions(user_type))
    }

    /// The same over another definition of a user type.
    pub(super) fn with_user_type(&self, definition: &Arc<UserType>) -> UserFunction {
        let of = |(name, ty): &(String, CqlType)| (name.clone(), ty.with_user_type(definition));
        UserFunction {
            arguments: self.arguments.iter().map(of).collect(),
            result: self.result.with_user_type(definition),
            ..self.clone()
        }
    }
}

/// An aggregate that a user made of functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAggregate {
    /// Name of the keyspace, which is that of its functions, too.
    pub keyspace: String,
    /// Name of the aggregate.
    pub name: String,
    /// Types of the arguments.
    pub arguments: Vec<CqlType>,
    /// `SFUNC`: takes the state and a row's values, and gives the next state.
    pub state_function: String,
    /// `STYPE`: the type of the state.
    pub state: CqlType,
    /// `FINALFUNC`: takes the last state, and gives the result.
    pub final_function: Option<String>,
    /// `REDUCEFUNC`: takes the states of two parts of the rows, and gives that of both.
    pub reduce_function: Option<String>,
    /// `INITCOND`: the first state; `None` is null.
    pub initial: Option<Vec<u8>>,
    /// Type of the result: that of the final function, else of the state.
    pub result: CqlType,
}

impl UserAggregate {
    /// What it is found by in its keyspace.
    pub fn key(&self) -> FunctionKey {
        FunctionKey::new(&self.name, &self.arguments)
    }

    /// What its state function is found by.
    pub fn state_key(&self) -> FunctionKey {
        let types = std::iter::once(&self.state).chain(&self.arguments);
        FunctionKey::new(&self.state_function, types)
    }

    /// What its final function is found by, if it has one.
    pub fn final_key(&self) -> Option<FunctionKey> {
        let name = self.final_function.as_ref()?;
        Some(FunctionKey::new(name, [&self.state]))
    }

    /// What the function that puts two states together is found by, if it has one.
    pub fn reduce_key(&self) -> Option<FunctionKey> {
        let name = self.reduce_function.as_ref()?;
        Some(FunctionKey::new(name, [&self.state, &self.state]))
    }

    /// Whether it is made of this function.
    pub fn uses(&self, function: &FunctionKey) -> bool {
        self.state_key() == *function
            || self.final_key().as_ref() == Some(function)
            || self.reduce_key().as_ref() == Some(function)
    }

    /// Whether the user type is in one of its types.
    pub(super) fn mentions(&self, user_type: &str) -> bool {
        self.arguments.iter().chain([&self.state, &self.result]).any(|ty| ty.mentions(user_type))
    }

    /// The same over another definition of a user type.
    pub(super) fn with_user_type(&self, definition: &Arc<UserType>) -> UserAggregate {
        UserAggregate {
            arguments: self.arguments.iter().map(|ty| ty.with_user_type(definition)).collect(),
            state: self.state.with_user_type(definition),
            result: self.result.with_user_type(definition),
            ..self.clone()
        }
    }
}

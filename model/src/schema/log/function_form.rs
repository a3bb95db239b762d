//! The forms of functions and aggregates in the schema log: their fields, and the way there and back.
//!
//! Invariants: what was written reads back equal; a language that this build does not know is an error.
//!
//! Types are checked against the limits of types when they are read back, and the first state of an aggregate against
//! the type of the state. Bytes are hex digits, as JSON has no bytes.
//!
//! Not here: the types (`type_form.rs`), the entries around these forms (`form.rs`), what a function is
//! (`schema/function.rs`), the specification (`schema/FORMAT.md`).

use serde::{Deserialize, Serialize};

use super::type_form::TypeForm;
use crate::schema::{FunctionLanguage, UserAggregate, UserFunction};
use crate::types::{CqlType, hex, unhex};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FunctionForm {
    keyspace: String,
    name: String,
    arguments: Vec<(String, TypeForm)>,
    result: TypeForm,
    called_on_null: bool,
    language: String,
    body: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AggregateForm {
    keyspace: String,
    name: String,
    arguments: Vec<TypeForm>,
    state_function: String,
    state: TypeForm,
    final_function: Option<String>,
    reduce_function: Option<String>,
    initial: Option<String>,
    result: TypeForm,
}

impl FunctionForm {
    pub(super) fn of(function: &UserFunction) -> FunctionForm {
        let argument = |(name, ty): &(String, CqlType)| (name.clone(), TypeForm::of(ty));
        FunctionForm {
            keyspace: function.keyspace.clone(),
            name: function.name.clone(),
            arguments: function.arguments.iter().map(argument).collect(),
            result: TypeForm::of(&function.result),
            called_on_null: function.called_on_null,
            language: function.language.name().to_owned(),
            body: function.body.clone(),
        }
    }

    pub(super) fn function(self) -> Result<UserFunction, String> {
        let FunctionForm { keyspace, name, arguments, result, called_on_null, language, body } =
            self;
        let language = FunctionLanguage::named(&language).ok_or_else(|| {
            format!("function {keyspace}.{name} has an unknown language `{language}`")
        })?;
        let arguments = arguments.into_iter().map(|(name, form)| (name, form.ty())).collect();
        let result = result.ty();
        let function =
            UserFunction { keyspace, name, arguments, result, called_on_null, language, body };
        let types = function.types().chain([&function.result]);
        checked(types, || format!("function {}.{}", function.keyspace, function.name))?;
        Ok(function)
    }
}

impl AggregateForm {
    pub(super) fn of(aggregate: &UserAggregate) -> AggregateForm {
        AggregateForm {
            keyspace: aggregate.keyspace.clone(),
            name: aggregate.name.clone(),
            arguments: aggregate.arguments.iter().map(TypeForm::of).collect(),
            state_function: aggregate.state_function.clone(),
            state: TypeForm::of(&aggregate.state),
            final_function: aggregate.final_function.clone(),
            reduce_function: aggregate.reduce_function.clone(),
            initial: aggregate.initial.as_deref().map(hex),
            result: TypeForm::of(&aggregate.result),
        }
    }

    pub(super) fn aggregate(self) -> Result<UserAggregate, String> {
        let initial = match self.initial {
            None => None,
            Some(text) => Some(unhex(&text).ok_or_else(|| {
                format!(
                    "aggregate {}.{} has a first state that is no hex",
                    self.keyspace, self.name
                )
            })?),
        };
        let aggregate = UserAggregate {
            keyspace: self.keyspace,
            name: self.name,
            arguments: self.arguments.into_iter().map(TypeForm::ty).collect(),
            state_function: self.state_function,
            state: self.state.ty(),
            final_function: self.final_function,
            reduce_function: self.reduce_function,
            initial,
            result: self.result.ty(),
        };
        let types = aggregate.arguments.iter().chain([&aggregate.state, &aggregate.result]);
        checked(types, || format!("aggregate {}.{}", aggregate.keyspace, aggregate.name))?;
        if let Some(initial) = &aggregate.initial {
            aggregate.state.validate(initial).map_err(|error| {
                format!("aggregate {}.{}: {error}", aggregate.keyspace, aggregate.name)
            })?;
        }
        Ok(aggregate)
    }
}

/// Refuses types that nothing may have.
fn checked<'t>(
    mut types: impl Iterator<Item = &'t CqlType>,
    whose: impl Fn() -> String,
) -> Result<(), String> {
    types.try_for_each(CqlType::check_limits).map_err(|error| format!("{}: {error}", whose()))
}

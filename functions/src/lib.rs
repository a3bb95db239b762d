//! Runs the functions of users, each language in a sandbox of a library: on each core by itself.
//!
//! ```text
//! UserFunctions::call ─► the instance of the function, made at its first call ─► values in, a value out
//! ```
//!
//! 1. A function sees its arguments and nothing else: no files, no clock, no random numbers, nothing of earlier calls.
//! 2. A call ends within its limits (`limits.rs`), whatever the body does: in instructions, in memory, in time. A core
//!    does nothing else meanwhile, so they are small.
//! 3. What comes back is checked: it is a value of the function's type. Its sets and maps are put into order.
//! 4. So do all calls together that a core makes before it does something else: of one row, one statement.
//! 5. Those that were used last are kept, within a bound in bytes: also those whose call failed, so that a body that
//!    always fails is not compiled for each row. Nothing of a call is left for the next one.
//!
//! Not here: which function a call means, nulls of functions that take none (`cql`).

mod budget;
mod limits;
mod lua;
#[cfg(test)]
mod tests;
mod wasm;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cql::expr::function::{UserFunctions, failure};
use cql::expr::{ExpressionWork, normalized};
use model::CqlType;
use model::schema::{FunctionLanguage, UserFunction};

use crate::budget::computed;
use crate::limits::{CALLS_AT_ONCE_MS_MAX, ERROR_BYTES_MAX, INSTANCES_BYTES_MAX, INSTANCES_MAX};
use crate::lua::LuaInstance;
use crate::wasm::WasmInstance;

/// Why a function gives no value: a text for its user.
type Failed = String;

/// One function, ready to be called on this core.
enum Instance {
    Lua(LuaInstance),
    Wasm(WasmInstance),
}

impl Instance {
    fn new(function: &UserFunction) -> Result<Instance, Failed> {
        match function.language {
            FunctionLanguage::Lua => LuaInstance::new(function).map(Instance::Lua),
            FunctionLanguage::Wasm => WasmInstance::new(function).map(Instance::Wasm),
        }
    }

    fn call(
        &self,
        function: &UserFunction,
        arguments: &[Option<&[u8]>],
    ) -> Result<Option<Vec<u8>>, Failed> {
        match self {
            Instance::Lua(instance) => instance.call(function, arguments),
            Instance::Wasm(instance) => instance.call(function, arguments),
        }
    }

    /// Memory that it takes, in bytes.
    fn bytes(&self) -> usize {
        match self {
            Instance::Lua(instance) => instance.bytes(),
            Instance::Wasm(instance) => instance.bytes(),
        }
    }
}

/// The functions of one core.
pub struct Functions {
    /// When the core last did something else.
    pass: Box<dyn Fn() -> Instant>,
    /// The pass of the last call, and how long its calls took so far.
    spent: Cell<(Instant, Duration)>,
    /// Those used last stand last.
    instances: RefCell<Vec<(Arc<UserFunction>, Instance)>>,
}

impl Functions {
    /// Of a core whose passes begin when `pass` says.
    pub fn new(pass: impl Fn() -> Instant + 'static) -> Functions {
        let spent = Cell::new((pass(), Duration::ZERO));
        Functions { pass: Box::new(pass), spent, instances: RefCell::default() }
    }

    /// Runs a function, unless the calls since the core last did something else took too long.
    fn run_in_turn(
        &self,
        function: &Arc<UserFunction>,
        arguments: &[Option<&[u8]>],
    ) -> Result<Option<Vec<u8>>, Failed> {
        let (pass, (last, spent)) = ((self.pass)(), self.spent.get());
        let spent = if pass == last { spent } else { Duration::ZERO };
        if spent > Duration::from_millis(CALLS_AT_ONCE_MS_MAX) {
            return Err(format!(
                "functions took more than {CALLS_AT_ONCE_MS_MAX} ms of a core at once: call fewer in one row or statement"
            ));
        }
        let begun = computed();
        let value = self.run(function, arguments);
        self.spent.set((pass, spent + computed().saturating_sub(begun)));
        value
    }

    /// Takes the instance of a function out; it may not be called twice at once.
    fn take(&self, function: &Arc<UserFunction>) -> Result<Instance, Failed> {
        let mut instances = self.instances.borrow_mut();
        let known = instances.iter().rposition(|(known, _)| Arc::ptr_eq(known, function));
        match known {
            Some(index) => Ok(instances.remove(index).1),
            None => Instance::new(function),
        }
    }

    /// Keeps an instance, and what fits beside it.
    fn keep(&self, function: &Arc<UserFunction>, instance: Instance) {
        let mut instances = self.instances.borrow_mut();
        instances.push((function.clone(), instance));
        let (mut bytes, mut keep) = (0, 0);
        for (_, instance) in instances.iter().rev() {
            bytes += instance.bytes();
            if keep == INSTANCES_MAX || bytes > INSTANCES_BYTES_MAX {
                break;
            }
            keep += 1;
        }
        let gone = instances.len() - keep;
        instances.drain(..gone);
    }

    fn run(
        &self,
        function: &Arc<UserFunction>,
        arguments: &[Option<&[u8]>],
    ) -> Result<Option<Vec<u8>>, Failed> {
        let instance = self.take(function)?;
        let value = instance.call(function, arguments);
        self.keep(function, instance);
        value?.map(|value| checked(&function.result, value)).transpose()
    }
}

impl UserFunctions for Functions {
    fn check(&self, function: &UserFunction) -> cql::Result<()> {
        Instance::new(function).map(drop).map_err(|error| cql::Error::invalid(shortened(error)))
    }

    fn call(
        &self,
        function: &Arc<UserFunction>,
        arguments: &[Option<&[u8]>],
    ) -> cql::Result<Option<Vec<u8>>> {
        self.run_in_turn(function, arguments).map_err(|error| failure(function, shortened(error)))
    }
}

/// A result as a value of its type, if it is one.
fn checked(ty: &CqlType, value: Vec<u8>) -> Result<Vec<u8>, Failed> {
    let wrong = |error: &dyn Display| format!("the result is no {ty}: {error}");
    ty.validate(&value).map_err(|error| wrong(&error))?;
    let ordered =
        match normalized(ty, &value, &ExpressionWork::default()).map_err(|error| wrong(&error))? {
            Cow::Borrowed(_) => None,
            Cow::Owned(ordered) => Some(ordered),
        };
    Ok(ordered.unwrap_or(value))
}

/// A text that a function may have made, no longer than an answer should be.
fn shortened(mut text: String) -> String {
    let end = (0..=ERROR_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
    text
}

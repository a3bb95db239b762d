//! Functions in Lua 5.4, as ScyllaDB takes them: the body is a chunk whose arguments are locals of their names.
//!
//! ```text
//! body ─► local a, b = ...; body ─► a chunk, compiled once ─► each call: a new environment, values in, one value out
//! ```
//!
//! 1. A state belongs to one function. What a call left in it, globals or changed libraries, no later call sees, also
//!    of one that failed.
//! 2. Of the libraries there are `string`, `table`, `math` and `utf8`; nothing that loads code, reads files, takes time
//!    or random numbers, catches errors (`pcall`: also those of a spent budget), or runs what is not counted
//!    (`coroutine`, finalizers). `prelude.lua` says what is written anew, and why.
//! 3. Instructions are counted, memory is bounded by the allocator, and the loops of C that could be long are replaced.
//!    The budget is looked at before each call of a function, too, of those in C as well.
//! 4. Nothing of a body runs behind its error: no metatable has `__close` or `__gc` (`prelude.lua`). A handler would run
//!    inside of the hook that found the budget spent, where nothing is counted.
//!
//! Not here: values of CQL as those of Lua and back (`lua/values.rs`).

mod number;
mod pattern;
mod strings;
mod values;

use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{
    Error, Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState,
};
use model::schema::UserFunction;

use crate::Failed;
use crate::budget::Budget;
use crate::limits::{
    LUA_BODY_BYTES_MAX, LUA_CODE_BYTES_MAX, LUA_INSTRUCTIONS_PER_LOOK, LUA_MEMORY_BYTES_MAX,
};

const PRELUDE: &str = include_str!("lua/prelude.lua");
/// Values of a state that are held at once, at most: the arguments of a function, and a few for each level of a result.
const PLACES: usize = 512;

/// One function in a Lua state of its own.
pub(crate) struct LuaInstance {
    lua: Lua,
    chunk: Function,
    /// Gives a new environment.
    environment: Function,
    /// Calls the chunk, and gives how many values it gave and the first of them.
    run: Function,
    budget: Rc<Budget>,
}

impl LuaInstance {
    /// Compiles a body, which runs nothing of it.
    pub(crate) fn new(function: &UserFunction) -> Result<LuaInstance, Failed> {
        let length = function.body.len();
        if length > LUA_BODY_BYTES_MAX {
            return Err(format!(
                "could not compile: the body has {length} bytes, at most {LUA_BODY_BYTES_MAX} are allowed in Lua"
            ));
        }
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::UTF8;
        let lua = Lua::new_with(libraries, LuaOptions::new()).map_err(|error| shown(&error))?;
        let budget = Rc::new(Budget::new());
        let (environment, run) = prepared(&lua, &budget).map_err(|error| shown(&error))?;
        let limit = |more: usize| {
            lua.set_memory_limit(lua.used_memory() + more).map_err(|error| shown(&error))
        };
        limit(LUA_CODE_BYTES_MAX)?;
        let chunk = lua
            .load(text_of(function)?)
            .set_name(format!("={}.{}", function.keyspace, function.name))
            .set_mode(ChunkMode::Text)
            .into_function()
            .map_err(|error| format!("could not compile: {}", shown(&error)))?;
        // What compiling left.
        lua.gc_collect().map_err(|error| shown(&error))?;
        limit(LUA_MEMORY_BYTES_MAX)?;
        Ok(LuaInstance { lua, chunk, environment, run, budget })
    }

    /// Memory of the state, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// The result for these arguments.
    pub(crate) fn call(
        &self,
        function: &UserFunction,
        arguments: &[Option<&[u8]>],
    ) -> Result<Option<Vec<u8>>, Failed> {
        self.budget.refill();
        let environment = self.environment.call::<Table>(()).map_err(|error| shown(&error))?;
        self.chunk.set_environment(environment).map_err(|error| shown(&error))?;
        let values = function.types().zip(arguments);
        let values = values.map(|(ty, value)| values::to_lua(&self.lua, &self.budget, ty, *value));
        let values = values.collect::<mlua::Result<MultiValue>>().map_err(|error| shown(&error))?;
        self.budget.count(true);
        let results = self.run.call::<(usize, Value)>((&self.chunk, values));
        self.budget.count(false);
        let (count, result) = results.map_err(|error| execution_failed(&error))?;
        if count != 1 {
            return Err(format!("{count} values returned, expected 1"));
        }
        values::from_lua(&self.lua, &self.budget, &function.result, &result)
    }
}

fn execution_failed(error: &Error) -> Failed {
    format!("lua execution failed: {}", shown(error))
}

/// The chunk of a body: its arguments are locals.
fn text_of(function: &UserFunction) -> Result<String, Failed> {
    let names: Vec<&str> = function.arguments.iter().map(|(name, _)| name.as_str()).collect();
    if let Some(name) = names.iter().find(|name| !is_lua_name(name)) {
        return Err(format!("could not compile: an argument cannot be named {name} in Lua"));
    }
    // On the line of the body's first, so that errors name the lines of the body.
    Ok(match &names[..] {
        [] => function.body.clone(),
        names => format!("local {} = ...; {}", names.join(","), function.body),
    })
}

/// Whether a name is one in Lua: the compiler says which of them are words of its own.
fn is_lua_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(is_part)
}

/// Counts instructions, and gives what makes environments and what calls a chunk.
fn prepared(lua: &Lua, budget: &Rc<Budget>) -> mlua::Result<(Function, Function)> {
    // What this side holds of a state has a place in it each, and without memory for one more the library panics. So
    // there are more places than a call ever needs, before memory is bounded.
    let places: mlua::Result<Vec<Table>> = (0..PLACES).map(|_| lua.create_table()).collect();
    drop(places?);
    let native = strings::functions(lua, budget)?;
    number::register(lua, budget)?;
    let made = lua.load(PRELUDE).set_name("=prelude").set_mode(ChunkMode::Text).call(native)?;
    let counted = budget.clone();
    let triggers = HookTriggers::new().on_calls().every_nth_instruction(LUA_INSTRUCTIONS_PER_LOOK);
    lua.set_hook(triggers, move |_, _| {
        counted.check().map_err(Error::runtime)?;
        Ok(VmState::Continue)
    })?;
    Ok(made)
}

/// The first line of an error, which says where and what; the others are where it was called from.
fn shown(error: &Error) -> String {
    let mut error = error;
    while let Error::CallbackError { cause, .. } = error {
        error = cause;
    }
    let text = match error {
        Error::RuntimeError(text) | Error::MemoryError(text) => text.clone(),
        Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    text.split("\nstack traceback:").next().unwrap_or_default().trim_end().to_owned()
}

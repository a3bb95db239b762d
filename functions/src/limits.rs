//! Every bound of a function of a user, by name: of one call, and of what a core keeps.
//!
//! What a call may take is bounded because a core does nothing else meanwhile. The body's length and the number of
//! functions are bounded where they are created (`cql/src/limits.rs`).

/// Longest time of all calls that a core makes before it does something else, in ms: one row may have thousands. A read
/// pauses after each row with such a call.
pub(crate) const CALLS_AT_ONCE_MS_MAX: u64 = 50;
/// Longest body in Lua, in bytes: compiling takes time with the square of its names, labels and branches, and
/// cannot be interrupted.
pub(crate) const LUA_BODY_BYTES_MAX: usize = 16 << 10;
/// Memory that compiling a body may take, in bytes.
pub(crate) const LUA_CODE_BYTES_MAX: usize = 4 << 20;
/// Instructions of Lua between two looks at what a call has taken; there is one at each call of a function, too. One
/// instruction may copy a text, or collect garbage: of a full state in half a millisecond.
pub(crate) const LUA_INSTRUCTIONS_PER_LOOK: u32 = 20;
/// Most instructions of Lua of one call: about 5 ms. ScyllaDB has 10 ms (`user_defined_function_time_limit_ms`).
pub(crate) const LUA_INSTRUCTIONS_MAX: u64 = 500_000;
/// Longest time of one call in Lua, in ms. Instructions that copy long texts take more time than others.
pub(crate) const LUA_CALL_MS_MAX: u64 = 20;
/// Memory of the Lua state of one function, in bytes, beside its code. ScyllaDB's is the same
/// (`user_defined_function_allocation_limit_bytes`).
pub(crate) const LUA_MEMORY_BYTES_MAX: usize = 1 << 20;
/// Memory of all varints and decimals that a call has at once, in bytes: they do not lie in the Lua state.
pub(crate) const LUA_NUMBERS_BYTES_MAX: usize = 1 << 20;
/// Longest value that a call gives back, in wire form, in bytes.
pub(crate) const RESULT_BYTES_MAX: usize = 1 << 20;
/// Most steps of matching patterns in one call: a pattern may take time that is exponential in its length.
pub(crate) const PATTERN_STEPS_MAX: u64 = 500_000;
/// Deepest recursion of matching a pattern, as in Lua's own matcher.
pub(crate) const PATTERN_DEPTH_MAX: u32 = 200;
/// Longest text that is taken for a number, in bytes: reading one takes time with the square of its length.
pub(crate) const NUMBER_TEXT_BYTES_MAX: usize = 1 << 10;
/// Longest varint or decimal that is computed with, in bytes.
pub(crate) const LUA_NUMBER_BYTES_MAX: usize = 1 << 10;
/// Most fuel of one call in WebAssembly, of which most instructions take one: 2 ms, or 12 ms of what is slowest.
pub(crate) const WASM_FUEL_MAX: u64 = 5_000_000;
/// Fuel between two looks at how long a call has taken: not all that takes time takes fuel, the locals of a function,
/// for example, are zeroed for nothing.
pub(crate) const WASM_FUEL_PER_LOOK: u64 = 50_000;
/// Most fuel of a start function, which no look interrupts.
pub(crate) const WASM_START_FUEL_MAX: u64 = 200_000;
/// Longest time of one call in WebAssembly, in ms.
pub(crate) const WASM_CALL_MS_MAX: u64 = 20;
/// Most locals of a function in WebAssembly, beside its arguments: 8 bytes each are zeroed at each of its calls.
pub(crate) const WASM_LOCALS_MAX: u64 = 1_000;
/// Most imports, exports and segments of a module, all together: each call goes through them, for its own instance.
pub(crate) const WASM_NAMES_MAX: usize = 1_000;
/// Memory of a module while it is called, in bytes. ScyllaDB's is the same (`wasm_udf_memory_limit`).
pub(crate) const WASM_MEMORY_BYTES_MAX: usize = 2 << 20;
/// Most elements of a table of a module, and of all that its segments put into tables.
pub(crate) const WASM_TABLE_ELEMENTS_MAX: usize = 10_000;
/// Deepest stack of a call in WebAssembly, in bytes.
pub(crate) const WASM_STACK_BYTES_MAX: usize = 512 << 10;
/// Most instances of functions that a core keeps.
pub(crate) const INSTANCES_MAX: usize = 64;
/// Most memory of the instances that a core keeps, in bytes: those used last stay.
pub(crate) const INSTANCES_BYTES_MAX: usize = 16 << 20;
/// Longest text of a function's own error that is sent to a client, in bytes.
pub(crate) const ERROR_BYTES_MAX: usize = 1 << 10;

const _: () = assert!(LUA_CALL_MS_MAX * 2 < CALLS_AT_ONCE_MS_MAX, "one call always fits");
const _: () = assert!(WASM_CALL_MS_MAX * 2 < CALLS_AT_ONCE_MS_MAX, "one call always fits");
const _: () = assert!(
    LUA_MEMORY_BYTES_MAX + LUA_CODE_BYTES_MAX < INSTANCES_BYTES_MAX,
    "one in use always fits"
);

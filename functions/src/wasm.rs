//! Functions in WebAssembly, in its text format, with ScyllaDB's conventions (`docs/cql/wasm.rst` there).
//!
//! ```text
//! body ─► module, checked once ─► each call: a new instance, values in, one value out
//! ```
//!
//! 1. The function is the export of its own name. Where it takes no nulls, `tinyint` to `bigint`, `boolean`, `float`
//!    and `double` are i32, i64, f32 and f64; every other value, and every value of a function that takes nulls, lies in
//!    the module's memory in wire form, and is an i64: its length above 32 bits of its address; the length -1 is null.
//! 2. `_scylla_abi` is a global that says where in memory the version stands: in 1 the memory is grown for each value,
//!    in 2 the module's `_scylla_malloc` gives space.
//! 3. An instance lives for one call, so a call sees nothing of those before it. What it executes is counted (fuel,
//!    also for the translation of its functions), its memory and tables are bounded, and what it imports is not called.
//! 4. Fuel is given in portions, with a look at the time between them: not all that takes time takes fuel.
//! 5. A module has an engine of its own, since an engine forgets nothing: its code goes with the module.
//!
//! Why a library that interprets: `docs/decisions/2026-11-23-functions-in-wasm.md`. Not here: what is kept between
//! calls (`lib.rs`).

use model::CqlType;
use model::schema::UserFunction;
use wasmi::{
    CompilationMode, Config, EnforcedLimits, Engine, Error, ExternType, Func, Instance, Linker,
    Memory, Module, ResumableCall, Store, StoreLimits, StoreLimitsBuilder, TrapCode, Val,
};
use wasmparser::{ElementItems, Parser, Payload};

use crate::Failed;
use crate::budget::Timer;
use crate::limits::{
    RESULT_BYTES_MAX, WASM_CALL_MS_MAX, WASM_FUEL_MAX, WASM_FUEL_PER_LOOK, WASM_LOCALS_MAX,
    WASM_MEMORY_BYTES_MAX, WASM_NAMES_MAX, WASM_STACK_BYTES_MAX, WASM_START_FUEL_MAX,
    WASM_TABLE_ELEMENTS_MAX,
};

const PAGE_BYTES: usize = 64 << 10;
/// Memory of an engine without a module, and what it keeps of its work, in bytes.
const ENGINE_BYTES: usize = 64 << 10;

/// What compiles one module.
fn engine() -> Engine {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        .compilation_mode(CompilationMode::Eager)
        .enforced_limits(EnforcedLimits::strict())
        .ignore_custom_sections(true)
        .set_max_stack_height(WASM_STACK_BYTES_MAX)
        .set_max_cached_stacks(0)
        .wasm_multi_memory(false);
    Engine::new(&config)
}

/// One function in a module of its own.
pub(crate) struct WasmInstance {
    module: Module,
    /// About what the module takes, in bytes.
    bytes: usize,
}

/// A module that runs, for one call.
struct Running {
    store: Store<StoreLimits>,
    instance: Instance,
    timer: Timer,
    /// What it has not got yet.
    fuel_left: u64,
}

impl WasmInstance {
    /// Compiles a body, which runs nothing of it.
    pub(crate) fn new(function: &UserFunction) -> Result<WasmInstance, Failed> {
        let failed = |error: String| format!("wasm: Compilation failed: {error}");
        let binary = wat::parse_str(&function.body).map_err(|error| failed(error.to_string()))?;
        check_shape(&binary).map_err(failed)?;
        let module = Module::new(&engine(), &binary).map_err(|error| failed(error.to_string()))?;
        // The module, its code before and after it is translated, and the names of its exports.
        let made = WasmInstance { module, bytes: ENGINE_BYTES + 8 * function.body.len() };
        made.check(function).map_err(failed)?;
        Ok(made)
    }

    /// Memory that it takes between calls, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Refuses a module that has no such function.
    fn check(&self, function: &UserFunction) -> Result<(), Failed> {
        let name = &function.name;
        match self.module.get_export(name) {
            Some(ExternType::Func(_)) => Ok(()),
            Some(_) => Err(format!("Exported object {name} is not a function")),
            None => Err(format!("Function {name} was not found in given wasm source code")),
        }
    }

    /// The result for these arguments.
    pub(crate) fn call(
        &self,
        function: &UserFunction,
        arguments: &[Option<&[u8]>],
    ) -> Result<Option<Vec<u8>>, Failed> {
        let failed = |error: Failed| format!("wasm: {error}");
        let timer = Timer::start();
        let mut running = self.begin(timer).map_err(failed)?;
        running.call(function, arguments).map_err(failed)
    }

    /// A new instance.
    fn begin(&self, timer: Timer) -> Result<Running, Failed> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(WASM_MEMORY_BYTES_MAX)
            .table_elements(WASM_TABLE_ELEMENTS_MAX)
            .instances(1)
            .memories(1)
            .tables(4)
            .build();
        let engine = self.module.engine();
        let mut store = Store::new(engine, limits);
        store.limiter(|limits| limits);
        store.set_fuel(WASM_START_FUEL_MAX).map_err(shown)?;
        let mut linker = Linker::<StoreLimits>::new(engine);
        for import in self.module.imports() {
            let (module, name) = (import.module(), import.name());
            let ExternType::Func(ty) = import.ty() else {
                return Err(format!("{module}.{name} is imported, and only functions may be"));
            };
            let text =
                format!("{module}.{name} is called, and nothing outside of the module may be");
            let refused =
                Func::new(&mut store, ty.clone(), move |_, _, _| Err(Error::new(text.clone())));
            // The same name may be imported twice.
            linker.allow_shadowing(true);
            linker.define(module, name, refused).map_err(|error| error.to_string())?;
        }
        let instance = linker.instantiate_and_start(&mut store, &self.module);
        let instance = instance.map_err(|error| match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) => {
                format!("all fuel consumed: more than {WASM_START_FUEL_MAX} units at the start")
            }
            _ => error.to_string(),
        })?;
        let spent = WASM_START_FUEL_MAX - store.get_fuel().map_err(shown)?;
        store.set_fuel(0).map_err(shown)?;
        Ok(Running { store, instance, timer, fuel_left: WASM_FUEL_MAX - spent })
    }
}

/// Refuses a module that would take time or memory that nothing counts.
fn check_shape(binary: &[u8]) -> Result<(), Failed> {
    let text = |error: wasmparser::BinaryReaderError| error.to_string();
    let (mut names, mut elements) = (0, 0);
    for payload in Parser::new(0).parse_all(binary) {
        match payload.map_err(text)? {
            Payload::ImportSection(section) => names += section.count() as usize,
            Payload::ExportSection(section) => names += section.count() as usize,
            Payload::DataSection(section) => names += section.count() as usize,
            Payload::ElementSection(section) => {
                names += section.count() as usize;
                for segment in section {
                    elements += match segment.map_err(text)?.items {
                        ElementItems::Functions(items) => items.count() as usize,
                        ElementItems::Expressions(_, items) => items.count() as usize,
                    };
                }
            }
            Payload::CodeSectionEntry(body) => {
                let mut locals = 0;
                for group in body.get_locals_reader().map_err(text)? {
                    locals += u64::from(group.map_err(text)?.0);
                }
                if locals > WASM_LOCALS_MAX {
                    return Err(format!(
                        "a function has {locals} locals, at most {WASM_LOCALS_MAX} are allowed"
                    ));
                }
            }
            _ => {}
        }
    }
    if names > WASM_NAMES_MAX {
        return Err(format!(
            "the module has {names} imports, exports and segments, at most {WASM_NAMES_MAX} are allowed"
        ));
    }
    if elements > WASM_TABLE_ELEMENTS_MAX {
        return Err(format!(
            "the module puts {elements} elements into tables, at most {WASM_TABLE_ELEMENTS_MAX} are allowed"
        ));
    }
    Ok(())
}

fn shown(error: Error) -> Failed {
    error.to_string()
}

impl Running {
    fn call(
        &mut self,
        function: &UserFunction,
        arguments: &[Option<&[u8]>],
    ) -> Result<Option<Vec<u8>>, Failed> {
        let name = &function.name;
        let callee = self.export(name)?;
        let mut values = Vec::with_capacity(arguments.len());
        for (ty, value) in function.types().zip(arguments) {
            values.push(match value.filter(|_| !function.called_on_null) {
                Some(value) => match native(ty, value)? {
                    Some(native) => native,
                    None => self.put(Some(value))?,
                },
                None => self.put(*value)?,
            });
        }
        let ty = callee.ty(&self.store);
        if ty.params().len() != values.len() {
            let (takes, given) = (ty.params().len(), values.len());
            return Err(format!(
                "Incorrect number of wasm arguments: {takes} taken, {given} given"
            ));
        }
        if ty.results().len() != 1 {
            return Err(format!("{name} gives {} values, expected 1", ty.results().len()));
        }
        let mut results = [Val::I32(0)];
        self.invoke(callee, &values, &mut results)
            .map_err(|error| format!("Calling wasm function failed: {error}"))?;
        let [result] = results;
        if !function.called_on_null
            && let Some(bytes) = from_native(&function.result, &result)?
        {
            return Ok(Some(bytes));
        }
        let Val::I64(place) = result else {
            return Err(wrong_kind("i64", &result));
        };
        self.take(place)
    }

    /// Calls a function, a portion of fuel at a time.
    fn invoke(&mut self, callee: Func, values: &[Val], results: &mut [Val]) -> Result<(), Failed> {
        self.refuel(WASM_FUEL_PER_LOOK)?;
        let call = callee.call_resumable(&mut self.store, values, results);
        let mut call = call.map_err(shown)?;
        loop {
            call = match call {
                ResumableCall::Finished => return Ok(()),
                ResumableCall::HostTrap(trap) => return Err(shown(trap.into_host_error())),
                ResumableCall::OutOfFuel(spent) => {
                    self.refuel(spent.required_fuel())?;
                    spent.resume(&mut self.store, results).map_err(shown)?
                }
            };
        }
    }

    /// Gives the next portion of fuel, which is enough for what takes so much at once.
    fn refuel(&mut self, required: u64) -> Result<(), Failed> {
        if self.timer.has_passed(WASM_CALL_MS_MAX) {
            return Err(format!("more than {WASM_CALL_MS_MAX} ms in one call"));
        }
        let has = self.store.get_fuel().map_err(shown)?;
        let more = required.max(WASM_FUEL_PER_LOOK).saturating_sub(has).min(self.fuel_left);
        if has + more < required.max(1) {
            return Err(format!("all fuel consumed: more than {WASM_FUEL_MAX} units in one call"));
        }
        self.fuel_left -= more;
        self.store.set_fuel(has + more).map_err(shown)
    }

    fn export(&self, name: &str) -> Result<Func, Failed> {
        self.instance
            .get_func(&self.store, name)
            .ok_or_else(|| format!("Function {name} was not found in given wasm source code"))
    }

    fn memory(&self) -> Result<Memory, Failed> {
        let memory = self.instance.get_memory(&self.store, "memory");
        memory.ok_or_else(|| "the module exports no memory of the name memory".to_owned())
    }

    /// The version of the conventions that the module says.
    fn abi(&self) -> Result<u32, Failed> {
        let global = self.instance.get_global(&self.store, "_scylla_abi");
        let Some(Val::I32(at)) = global.map(|global| global.get(&self.store)) else {
            return Err("the module exports no i32 of the name _scylla_abi".to_owned());
        };
        let mut version = [0; 4];
        let read = self.memory()?.read(&self.store, at as u32 as usize, &mut version);
        read.map_err(|_| "_scylla_abi is no address of the memory".to_owned())?;
        match u32::from_le_bytes(version) {
            known @ (1 | 2) => Ok(known),
            other => Err(format!("ABI version {other} not recognized")),
        }
    }

    /// Puts a value into the module's memory.
    fn put(&mut self, value: Option<&[u8]>) -> Result<Val, Failed> {
        let Some(value) = value else { return Ok(Val::I64(-1 << 32)) };
        let (memory, length) = (self.memory()?, value.len());
        let at = if self.abi()? == 1 {
            let pages = length.max(1).div_ceil(PAGE_BYTES);
            let before = memory.grow(&mut self.store, pages as u64);
            let before = before.map_err(|error| format!("{length} bytes for a value: {error}"))?;
            before as usize * PAGE_BYTES
        } else {
            let length = i32::try_from(length).map_err(|_| "a value is too long".to_owned())?;
            let mut place = [Val::I32(0)];
            let malloc = self.export("_scylla_malloc")?;
            self.invoke(malloc, &[Val::I32(length)], &mut place)?;
            let [Val::I32(at)] = place else { return Err(wrong_kind("i32", &place[0])) };
            at as u32 as usize
        };
        let written = memory.write(&mut self.store, at, value);
        written.map_err(|_| "_scylla_malloc gave no space of the memory".to_owned())?;
        Ok(Val::I64((length as i64) << 32 | at as i64))
    }

    /// The value that lies in the module's memory.
    fn take(&mut self, place: i64) -> Result<Option<Vec<u8>>, Failed> {
        let (length, at) = ((place >> 32) as i32, place as u32 as usize);
        if length == -1 {
            return Ok(None);
        }
        let memory = self.memory()?;
        let data = memory.data(&self.store);
        let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
        let bytes = end.and_then(|end| data.get(at..end));
        let bytes = bytes.ok_or_else(|| format!("{length} bytes at {at} are not in the memory"))?;
        if bytes.len() > RESULT_BYTES_MAX {
            return Err(format!("the result has more than {RESULT_BYTES_MAX} bytes"));
        }
        // What `_scylla_free` would take back goes with the instance.
        Ok(Some(bytes.to_vec()))
    }
}

/// A value that is one of WebAssembly's own; `None` of a type that has none.
fn native(ty: &CqlType, value: &[u8]) -> Result<Option<Val>, Failed> {
    fn array<const N: usize>(ty: &CqlType, value: &[u8]) -> Result<[u8; N], Failed> {
        value.try_into().map_err(|_| format!("an empty {ty} has no form in WebAssembly"))
    }
    Ok(Some(match ty {
        CqlType::Boolean => Val::I32(i32::from(value != [0])),
        CqlType::Tinyint => Val::I32(i8::from_be_bytes(array(ty, value)?).into()),
        CqlType::Smallint => Val::I32(i16::from_be_bytes(array(ty, value)?).into()),
        CqlType::Int => Val::I32(i32::from_be_bytes(array(ty, value)?)),
        CqlType::Bigint | CqlType::Counter => Val::I64(i64::from_be_bytes(array(ty, value)?)),
        CqlType::Float => Val::F32(f32::from_be_bytes(array(ty, value)?).into()),
        CqlType::Double => Val::F64(f64::from_be_bytes(array(ty, value)?).into()),
        _ => return Ok(None),
    }))
}

/// The bytes of one of WebAssembly's own values; `None` for a type that has none.
fn from_native(ty: &CqlType, value: &Val) -> Result<Option<Vec<u8>>, Failed> {
    Ok(Some(match (ty, value) {
        (CqlType::Boolean, Val::I32(value)) => vec![u8::from(*value != 0)],
        (CqlType::Tinyint, Val::I32(value)) => vec![*value as u8],
        (CqlType::Smallint, Val::I32(value)) => (*value as i16).to_be_bytes().to_vec(),
        (CqlType::Int, Val::I32(value)) => value.to_be_bytes().to_vec(),
        (CqlType::Bigint | CqlType::Counter, Val::I64(value)) => value.to_be_bytes().to_vec(),
        // What is no number has many forms, and an instruction may give any of them.
        (CqlType::Float, Val::F32(value)) => {
            let value = f32::from(*value);
            let value = if value.is_nan() { f32::NAN } else { value };
            value.to_be_bytes().to_vec()
        }
        (CqlType::Double, Val::F64(value)) => {
            let value = f64::from(*value);
            let value = if value.is_nan() { f64::NAN } else { value };
            value.to_be_bytes().to_vec()
        }
        (CqlType::Boolean | CqlType::Tinyint | CqlType::Smallint | CqlType::Int, other) => {
            return Err(wrong_kind("i32", other));
        }
        (CqlType::Bigint | CqlType::Counter, other) => return Err(wrong_kind("i64", other)),
        (CqlType::Float, other) => return Err(wrong_kind("f32", other)),
        (CqlType::Double, other) => return Err(wrong_kind("f64", other)),
        _ => return Ok(None),
    }))
}

fn wrong_kind(expected: &str, found: &Val) -> Failed {
    let found = match found {
        Val::I32(_) => "i32",
        Val::I64(_) => "i64",
        Val::F32(_) => "f32",
        Val::F64(_) => "f64",
        _ => "a reference",
    };
    format!("Incorrect wasm value kind returned. Expected {expected}, got {found}")
}

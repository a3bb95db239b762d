//! What hostile bodies take: the time that the thread computes, and memory. Each test is named after a body that took
//! more, before it was bounded.
//!
//! 1. Time is the thread's own, so a busy machine does not fail a test; the bounds are those of builds without
//!    optimization, and far below what the bodies took.
//! 2. One test runs at a time: memory is counted of the whole process.
//!
//! Not here: what the errors say, and what functions do that mean well (`src/tests.rs`).

#![expect(clippy::unwrap_used, reason = "a failed check is what a test is for")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cql::expr::function::UserFunctions;
use messina_functions::Functions;
use model::CqlType;
use model::schema::{FunctionLanguage, UserFunction};
use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// One test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Longest time of a call, where nothing is optimized: 20 ms, and the last portion.
const CALL_TIME_MAX: Duration = Duration::from_millis(120);
/// Most memory of a call: of the state, the result, and what compiling takes.
const CALL_BYTES_MAX: usize = 12 << 20;

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn function(
    language: FunctionLanguage,
    arguments: &[CqlType],
    result: CqlType,
    body: &str,
) -> Arc<UserFunction> {
    let names = ["a", "b", "c"].map(str::to_owned);
    Arc::new(UserFunction {
        keyspace: "ks".to_owned(),
        name: "f".to_owned(),
        arguments: names.into_iter().zip(arguments.iter().cloned()).collect(),
        result,
        called_on_null: true,
        language,
        body: body.to_owned(),
    })
}

fn lua(result: CqlType, body: &str) -> Arc<UserFunction> {
    function(FunctionLanguage::Lua, &[], result, body)
}

fn wasm(body: &str) -> Arc<UserFunction> {
    function(FunctionLanguage::Wasm, &[], CqlType::Int, body)
}

fn list(element: CqlType) -> CqlType {
    CqlType::List { element: element.into(), frozen: true }
}

/// What something gives, the time that it computed, and the memory that it took at most.
fn measured<T>(run: impl FnOnce() -> T) -> (T, Duration, usize) {
    MEMORY.reset_peak_usage();
    let (before, begun) = (MEMORY.current_usage(), computed());
    let given = run();
    (given, computed() - begun, MEMORY.peak_usage().saturating_sub(before))
}

/// The error of a call, which takes no more than a call may; compiled before.
fn fails(function: &Arc<UserFunction>, shown: &str) -> String {
    let functions = Functions::new(Instant::now);
    // The first call compiles.
    let first = functions.call(function, &[]);
    let (second, time, bytes) = measured(|| functions.call(function, &[]));
    let body = &function.body[..function.body.len().min(200)];
    assert!(first.is_err(), "{body}");
    let error = second.unwrap_err().to_string();
    assert!(time < CALL_TIME_MAX, "{time:?}: {body}");
    assert!(bytes < CALL_BYTES_MAX, "{bytes} bytes: {body}");
    assert!(error.contains(shown), "{body}: {error}");
    error
}

/// Before: one text of 500 KB a thousand times made 500 MB of a state that has 1 MiB.
#[test]
fn the_same_value_a_thousand_times_is_bounded() {
    let _alone = alone();
    let text =
        "local s = string.rep('x', 300000) local t = {} for i = 1, 1000 do t[i] = s end return t";
    let nested = "local t = {1} for i = 1, 6 do local n = {} for j = 1, 50 do n[j] = t end t = n end return t";
    let of_six = (0..7).fold(CqlType::Int, |ty, _| list(ty));
    fails(&lua(list(CqlType::Text), text), "the result has more than 1048576 bytes");
    fails(&lua(of_six, nested), "");
}

/// Before: C went over a table for as long as its metatable said, and looked at no budget.
#[test]
fn c_goes_over_no_table_that_has_a_metatable() {
    let _alone = alone();
    // Each `getmetatable(t)` gives a text, whatever the index is.
    let endless = "local m = {__index = getmetatable, __metatable = '', __len = function() return math.maxinteger end} \
                   return #table.concat(setmetatable({}, m))";
    fails(&lua(CqlType::Int, endless), "lua execution failed");
    let chain = "local t = setmetatable({}, {}) for i = 1, 1990 do t = setmetatable({}, {__index = t}) end ";
    for body in [
        "while true do table.unpack(t, 1, 60000) end",
        "while true do local n = select('#', table.unpack(t, 1, 60000)) end",
        "while true do string.gsub(string.rep('a', 20000), 'a', t) end",
        "while true do string.gsub(string.rep('a', 20000), '.', function() return t[1] end) end",
        "while true do table.concat(t, '', 1, 1 << 62) end",
        "setmetatable(t, {__index = t, __len = function() return 1 << 62 end}) table.sort(t)",
        "table.move(t, 1, 1 << 62, 2, {})",
        "while true do local s = string.gsub(string.rep('x', 1000), '()', string.upper) end",
    ] {
        fails(&lua(CqlType::Int, &format!("{chain}{body}")), "lua execution failed");
    }
}

/// Before: what one instruction takes was looked at after a hundred of them.
#[test]
fn slow_instructions_are_looked_at() {
    let _alone = alone();
    for body in [
        "local s = string.rep('1', 400000) while true do local x = pcall or s + 1 end",
        "local f = string.rep('%.99f', 2000) local t = {} for i = 1, 2000 do t[i] = 1e-300 end \
         while true do string.format(f, table.unpack(t)) end",
        "local t = {} for i = 1, 1e9 do local ok = #t t[i] = {} end",
        "local t, n = {}, 0 while true do n = n + 1 t[n % 9000] = 'x' .. n end",
        "local s = string.rep('x', 400000) while true do local t = s:upper():lower():reverse() end",
        "local s = string.rep('x', 200000) while true do local n = utf8.len(s) + #{s:byte(1, 20000)} end",
        "local s = string.rep('ab', 100000) while true do local n = s:find('b', 1, true) + #s:match('.*') end",
        "local s = string.rep(' ', 400000) while true do local n = tonumber(s) end",
    ] {
        fails(&lua(CqlType::Int, body), "lua execution failed");
    }
}

/// Before: a handler of a to-be-closed variable ran inside of the hook that found the budget spent, for ever.
#[test]
fn no_handler_closes_anything() {
    let _alone = alone();
    let handler = "{__close = function() while true do end end}";
    for body in [
        format!("local a <close> = setmetatable({{}}, {handler}) while true do end"),
        "local m = {} local c = setmetatable({}, m) m.__close = function() while true do end end \
         local a <close> = c while true do end".to_owned(),
        "local m = {} local c = setmetatable({}, m) getmetatable(c).__close = function() while true do end end \
         for _ in next, {1}, nil, c do while true do end end".to_owned(),
        format!("local c = setmetatable({{}}, {{}}) setmetatable(c, {handler}) local a <close> = c"),
        "local c = setmetatable({}, {__gc = function() end})".to_owned(),
        "local c = setmetatable({}, {__mode = 'k'})".to_owned(),
    ] {
        let error = fails(&lua(CqlType::Int, &body), "lua execution failed: ks.f:1: ");
        let is_it = error.contains("got a non-closable value") || error.contains("is not supported");
        assert!(is_it, "{body}: {error}");
    }
}

/// Before: to find the end of a set took no steps, of however long a pattern.
#[test]
fn to_find_the_end_of_a_set_takes_steps() {
    let _alone = alone();
    for body in [
        "local p = '[' .. string.rep('x', 300000) .. ']' while true do string.find('', p .. '?') end",
        "local p = '[' .. string.rep('x', 100000) .. ']?' return string.find(string.rep('a', 100000), p .. 'b')",
        "local p = '[' .. string.rep('x', 100000) .. ']' return string.find(string.rep('a', 100000), p)",
        "return string.find(string.rep('a', 300000), '%f[' .. string.rep('x', 100000) .. ']b')",
        "return string.gsub(string.rep('a', 400000), string.rep('()', 32), '%1')",
    ] {
        fails(&lua(CqlType::Int, body), "lua execution failed");
    }
}

/// Before: each `%1` of a replacement was gone through for each match at no steps: two thousand million times.
#[test]
fn a_replacement_takes_steps_for_each_capture() {
    let _alone = alone();
    let body = "return (string.gsub(string.rep('a', 11000), '(b?)', string.rep('%1', 200000)))";
    fails(&lua(CqlType::Text, body), "lua execution failed");
}

/// Before: a body of 256 KiB took seconds to compile, and once more at each call that failed.
#[test]
fn to_compile_takes_little_time_and_is_done_once() {
    let _alone = alone();
    let functions = Functions::new(Instant::now);
    let most = 16 << 10;
    let filled = |before: &str, part: &dyn Fn(usize) -> String, behind: &str| {
        let mut body = before.to_owned();
        for number in 0.. {
            let next = part(number);
            if body.len() + next.len() + behind.len() > most {
                break;
            }
            body += &next;
        }
        body + behind
    };
    let locals: String = (0..190).map(|n| format!("local a{n} ")).collect();
    let deep = "local function f() local a,b,c,d,e,f,g,h,i,j,k,l,m ".repeat(90);
    for body in [
        filled("", &|n| format!("::l{n}::"), ""),
        filled("", &|n| format!("goto l{n} "), ""),
        filled("while true do ", &|_| "break ".to_owned(), "end"),
        filled("while true do ", &|_| "if a then break end ".to_owned(), "end"),
        filled("if a then ", &|_| "elseif a then ".to_owned(), "end"),
        filled(&locals, &|_| "x=y ".to_owned(), ""),
        filled(&deep, &|_| "x=y ".to_owned(), &"end ".repeat(90)),
        filled("return a", &|_| " and a".to_owned(), ""),
        filled("return {", &|_| "{},".to_owned(), "}"),
        filled("return ", &|_| "(".to_owned(), ""),
        filled("return a", &|_| "..a".to_owned(), ""),
        filled("", &|_| "f=function()end ".to_owned(), ""),
    ] {
        let function = lua(CqlType::Int, &body);
        let (_, time, bytes) = measured(|| functions.check(&function));
        assert!(time < CALL_TIME_MAX, "{time:?}: {}", &body[..100]);
        assert!(bytes < CALL_BYTES_MAX, "{bytes} bytes: {}", &body[..100]);
    }
    let longer = lua(CqlType::Int, &" ".repeat(most + 1));
    let error = functions.check(&longer).unwrap_err().to_string();
    assert!(error.contains("at most 16384 are allowed in Lua"), "{error}");
    let fails = lua(CqlType::Int, &filled("error('no') ", &|n| format!("x{n}=y "), ""));
    let (_, first, _) = measured(|| functions.call(&fails, &[]).unwrap_err());
    let (_, ten, _) = measured(|| {
        (0..10).for_each(|_| drop(functions.call(&fails, &[]).unwrap_err()));
    });
    assert!(ten < first * 5, "ten calls took {ten:?}, the first {first:?}");
}

/// Before: a varint of a megabyte took seconds as a text, and what was computed counted for nothing.
#[test]
fn long_numbers_take_neither_long_nor_much_memory() {
    let _alone = alone();
    let functions = Functions::new(Instant::now);
    let long = [&[1][..], &vec![7; 1 << 19]].concat();
    for (result, body) in [
        (CqlType::Text, "return a"),
        (CqlType::Double, "return a"),
        (CqlType::Text, "return tostring(a)"),
        (CqlType::Varint, "return a + 1"),
        (CqlType::Boolean, "return a < 1"),
    ] {
        let function = function(FunctionLanguage::Lua, &[CqlType::Varint], result, body);
        let (given, time, _) = measured(|| functions.call(&function, &[Some(&long)]));
        let error = given.unwrap_err().to_string();
        assert!(error.contains("a number of more than 1024 bytes is not computed with"), "{error}");
        assert!(time < CALL_TIME_MAX, "{time:?}: {body}");
    }
    let same = function(FunctionLanguage::Lua, &[CqlType::Varint], CqlType::Varint, "return a");
    assert!(functions.call(&same, &[Some(&long)]) == Ok(Some(long.clone())), "another number");
    let decimal = [&2000_i32.to_be_bytes()[..], &vec![7; 1 << 20]].concat();
    let whole = function(FunctionLanguage::Lua, &[CqlType::Decimal], CqlType::Varint, "return a");
    let (given, time, _) = measured(|| functions.call(&whole, &[Some(&decimal)]));
    assert!(given.is_err() && time < CALL_TIME_MAX, "{time:?}");
    let many = "local t = {} for i = 1, 1e9 do t[i] = a + i end";
    let many = function(FunctionLanguage::Lua, &[CqlType::Varint], CqlType::Int, many);
    let (given, time, bytes) = measured(|| functions.call(&many, &[Some(&[1; 1000])]));
    assert!(given.is_err() && time < CALL_TIME_MAX && bytes < CALL_BYTES_MAX, "{time:?} {bytes}");
}

/// Before: 30,000 locals were zeroed at each call of a function, for one unit of fuel.
#[test]
fn locals_of_a_module_are_bounded() {
    let _alone = alone();
    let module = |locals: usize| {
        format!(
            "(module (func $g (local {}))
              (func (export \"f\") (result i32) (loop {} (br 0)) (i32.const 1)))",
            "i64 ".repeat(locals),
            "(call $g) ".repeat(50)
        )
    };
    let functions = Functions::new(Instant::now);
    let error = functions.check(&wasm(&module(1001))).unwrap_err().to_string();
    assert!(error.contains("a function has 1001 locals, at most 1000 are allowed"), "{error}");
    fails(&wasm(&module(1000)), "wasm: Calling wasm function failed: ");
}

#[test]
fn hostile_modules_take_little_time_and_memory() {
    let _alone = alone();
    let of_start = |body: &str| {
        format!(
            "(module (memory 30) (func $s {body}) (start $s) (func (export \"f\") (result i32) (i32.const 1)))"
        )
    };
    for (body, error) in [
        (of_start("(loop (br 0))"), "all fuel consumed"),
        (of_start("(loop (memory.fill (i32.const 0) (i32.const 7) (i32.const 1900000)) (br 0))"), "all fuel consumed"),
        (
            "(module (memory 30) (func (export \"f\") (result i32) (loop (memory.copy (i32.const 0) (i32.const 9) \
             (i32.const 1900000)) (br 0)) (i32.const 1)))".to_owned(),
            "",
        ),
        (
            "(module (func $g (export \"f\") (result i32) (i32.add (i32.const 1) (call $g))))".to_owned(),
            "stack",
        ),
        (
            "(module (table $t 9000 funcref) (func (export \"f\") (result i32) (loop (table.fill $t (i32.const 0) \
             (ref.null func) (i32.const 9000)) (br 0)) (i32.const 1)))".to_owned(),
            "",
        ),
        (
            "(module (table $t 1 funcref) (func (export \"f\") (result i32) (loop (drop (table.grow $t (ref.null func) \
             (i32.const 100))) (br 0)) (i32.const 1)))".to_owned(),
            "",
        ),
        (
            "(module (memory 1) (func (export \"f\") (result i32) (loop (drop (memory.grow (i32.const 1))) (br 0)) \
             (i32.const 1)))".to_owned(),
            "",
        ),
    ] {
        let error = fails(&wasm(&body), error);
        assert!(error.contains("wasm: "), "{error}");
    }
    let functions = Functions::new(Instant::now);
    for (body, shown) in [
        (
            format!("(module {})", "(import \"a\" \"b\" (func))".repeat(1001)),
            "1001 imports, exports and segments",
        ),
        (
            format!(
                "(module (func $f (export \"f\") (result i32) (i32.const 1)) (table 1 funcref) (elem func {}))",
                "$f ".repeat(10_001)
            ),
            "10001 elements into tables",
        ),
        (format!("(module {}", "(func".repeat(50_000)), "Compilation failed"),
        (
            format!("(module (func (export \"f\") {}))", "(block ".repeat(50_000)),
            "Compilation failed",
        ),
        (format!("(module (func (export \"f\") {}))", "nop ".repeat(60_000)), ""),
    ] {
        let function = wasm(&body);
        let (given, time, bytes) = measured(|| functions.check(&function));
        if !shown.is_empty() {
            let error = given.unwrap_err().to_string();
            assert!(error.contains(shown), "{error}");
        }
        assert!(time < CALL_TIME_MAX * 8, "{time:?}: {}", &body[..60]);
        assert!(bytes < 4 * CALL_BYTES_MAX, "{bytes} bytes: {}", &body[..60]);
    }
}

/// Before: the engine of a core forgot nothing that it had ever compiled.
#[test]
fn what_is_compiled_goes_with_its_module() {
    let _alone = alone();
    let functions = Functions::new(Instant::now);
    let call = |number: usize| {
        let work = format!("(drop (i32.const {number})) ").repeat(2000);
        let body = format!("(module (func (export \"f\") (result i32) {work} (i32.const 1)))");
        let function = UserFunction { called_on_null: false, ..(*wasm(&body)).clone() };
        functions.call(&Arc::new(function), &[]).unwrap();
    };
    (0..300).for_each(call);
    let before = MEMORY.current_usage();
    (300..600).for_each(call);
    let after = MEMORY.current_usage();
    assert!(after < before + (1 << 20), "{before} bytes became {after}");
    // What is kept is about what the core counts.
    assert!(after < 20 << 20, "{after} bytes");
}

/// Before: each call that failed compiled its module once more.
#[test]
fn a_module_that_fails_is_compiled_once() {
    let _alone = alone();
    let functions = Functions::new(Instant::now);
    let work = "(drop (i32.add (i32.const 1) (i32.const 2))) ".repeat(5000);
    let body =
        format!("(module (func $w {work}) (func (export \"f\") (result i32) (unreachable)))");
    let function = wasm(&body);
    let (_, first, _) = measured(|| functions.call(&function, &[]).unwrap_err());
    let (_, ten, _) = measured(|| {
        (0..10).for_each(|_| drop(functions.call(&function, &[]).unwrap_err()));
    });
    assert!(ten < first, "ten calls took {ten:?}, the first {first:?}");
}

/// Before: each value that C or Rust was given took a place in the state, and without memory for it the core stopped.
#[test]
fn thousands_of_values_at_once_are_an_error() {
    let _alone = alone();
    let many = "local t = {} for i = 1, 3000 do t[i] = {} end local u = table.unpack ";
    for (body, error) in [
        ("return u(t)", "3000 values returned, expected 1"),
        ("return u(t, 1, 40000)", ""),
        ("string.find(u(t))", "lua execution failed"),
        ("string.gmatch('a', 'a')(u(t)) error('end')", "end"),
        ("string.format(u(t))", "lua execution failed"),
        ("setmetatable(u(t)) error('end')", ""),
        ("tostring(u(t)) error('end')", "end"),
        ("select(-1, u(t)) error('end')", "end"),
        (
            "string.gsub('aaa', 'a', function() return u(t) end)",
            "invalid replacement value (a table)",
        ),
        (
            "local s = string.rep('x', 1000) while true do t[#t + 1] = s .. #t end",
            "not enough memory",
        ),
        ("while true do t[#t + 1] = string.gmatch('a', 'a') end", ""),
        ("local function f(...) return f({}, ...) end f()", "lua execution failed"),
    ] {
        fails(&lua(CqlType::Int, &format!("{many}{body}")), error);
    }
    let types = vec![CqlType::Text; 64];
    let texts = UserFunction {
        arguments: (0..64).map(|n| format!("a{n}")).zip(types).collect(),
        ..(*lua(CqlType::Text, "return a63")).clone()
    };
    let texts = Arc::new(texts);
    let functions = Functions::new(Instant::now);
    for length in [1000, 15_000, 16_000, 16_300, 17_000, 30_000] {
        let text = vec![b'x'; length];
        let arguments = vec![Some(&text[..]); 64];
        match functions.call(&texts, &arguments) {
            Ok(value) => assert!(value.is_some_and(|value| value == text), "{length}"),
            Err(error) => assert!(error.to_string().contains("not enough memory"), "{error}"),
        }
    }
}

//! Functions of users: values in and out, and what hostile bodies come to.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cql::expr::function::UserFunctions;
use cql::literal::{from_text, value_literal};
use model::CqlType;
use model::schema::{FunctionLanguage, UserFunction};
use model::types::UserType;

use crate::Functions;

fn lua(arguments: &[(&str, CqlType)], result: CqlType, body: &str) -> Arc<UserFunction> {
    Arc::new(UserFunction {
        keyspace: "ks".to_owned(),
        name: "f".to_owned(),
        arguments: arguments.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect(),
        result,
        called_on_null: true,
        language: FunctionLanguage::Lua,
        body: body.to_owned(),
    })
}

fn list(element: CqlType) -> CqlType {
    CqlType::List { element: element.into(), frozen: true }
}

/// The functions of a core that always does something else between two calls.
fn functions() -> Functions {
    Functions::new(Instant::now)
}

/// The bytes of a small CQL literal of a scalar type.
fn bytes(ty: &CqlType, text: &str) -> Vec<u8> {
    from_text(text, ty).expect(text)
}

/// What a body without arguments gives, as CQL.
fn given(result: &CqlType, body: &str) -> String {
    let function = lua(&[], result.clone(), body);
    match functions().call(&function, &[]) {
        Ok(value) => value_literal(result, value.as_deref()),
        Err(error) => format!("! {error}"),
    }
}

/// What a body gives for one argument `a` of a type that is its result's, too.
fn through(ty: &CqlType, text: &str, body: &str) -> String {
    let function = lua(&[("a", ty.clone())], ty.clone(), body);
    let value = bytes(ty, text);
    match functions().call(&function, &[Some(&value)]) {
        Ok(value) => value_literal(ty, value.as_deref()),
        Err(error) => format!("! {error}"),
    }
}

#[test]
fn every_scalar_goes_there_and_back() {
    use CqlType::*;
    for (ty, text) in [
        (Ascii, "a"),
        (Text, "d\u{e9}j\u{e0}"),
        (Blob, "0x00ff"),
        (Boolean, "true"),
        (Boolean, "false"),
        (Tinyint, "-128"),
        (Smallint, "-32768"),
        (Int, "-2147483648"),
        (Bigint, "-9223372036854775808"),
        (Bigint, "9223372036854775807"),
        (Varint, "123456789012345678901234567890"),
        (Decimal, "-12345678901234567890.12345"),
        (Float, "1.5"),
        (Double, "-0.1"),
        (Date, "2026-11-23"),
        (Time, "12:34:56.789"),
        (Timestamp, "2026-11-23T12:34:56.789Z"),
        (Duration, "1mo2d3h"),
        (Inet, "::1"),
        (Inet, "127.0.0.1"),
        (Uuid, "00112233-4455-6677-8899-aabbccddeeff"),
        (Timeuuid, "00112233-4455-1677-8899-aabbccddeeff"),
    ] {
        let value = bytes(&ty, text);
        assert_eq!(through(&ty, text, "return a"), value_literal(&ty, Some(&value)), "{ty}");
    }
}

#[test]
fn parts_go_there_and_back() {
    let fields = vec![("x".to_owned(), CqlType::Int), ("y".to_owned(), list(CqlType::Text))];
    let definition = Arc::new(UserType::new("ks", "u", fields));
    let udt = CqlType::Udt { definition, frozen: true };
    let map = CqlType::Map { key: CqlType::Text.into(), value: CqlType::Int.into(), frozen: true };
    let set = CqlType::Set { element: CqlType::Int.into(), frozen: true };
    let vector = CqlType::Vector { element: CqlType::Float.into(), dimensions: 2 };
    let tuple = CqlType::Tuple([CqlType::Int, CqlType::Text].into());
    for (ty, body, shown) in [
        (&udt, "return {x = 1, y = {'a', 'b'}}", "{x: 1, y: ['a', 'b']}"),
        (&udt, "return {y = {}}", "{x: null, y: []}"),
        (&udt, "return {z = 1}", "! invalid UDT field 'z'"),
        (&map, "return {b = 2, a = 1}", "{'a': 1, 'b': 2}"),
        (&set, "return {[3] = true, [1] = true}", "{1, 3}"),
        (&set, "return {[3] = false}", "! sets are represented with tables with true values"),
        (&vector, "return {1, 2.5}", "[1.0, 2.5]"),
        (&vector, "return {1}", "! a sequence of 1 values is no vector<float, 2>"),
        (&tuple, "return {1}", "(1, null)"),
        (&tuple, "return {1, 'a', 2}", "! key 3 is not valid for a sequence of size 2"),
        (&list(CqlType::Int), "return {1, [3] = 2}", "! table is not a sequence"),
        (&list(CqlType::Int), "return 1", "! value is not a table"),
    ] {
        assert_eq!(given(ty, body), shown, "{body}");
        let function = lua(&[], ty.clone(), body);
        let functions = functions();
        let Ok(Some(value)) = functions.call(&function, &[]) else { continue };
        let same = lua(&[("a", ty.clone())], ty.clone(), "return a");
        assert_eq!(functions.call(&same, &[Some(&value)]), Ok(Some(value)), "{body}");
    }
}

#[test]
fn numbers_and_texts_are_taken_for_each_other() {
    for (ty, body, shown) in [
        (CqlType::Bigint, "return 42.0", "42"),
        (CqlType::Bigint, "return '42'", "42"),
        (CqlType::Bigint, "return '0x10'", "16"),
        (CqlType::Bigint, "return '4.20e1'", "42"),
        (CqlType::Bigint, "return 1.5", "! value is not an integer"),
        (CqlType::Bigint, "return {}", "! value is not a number"),
        (CqlType::Tinyint, "return 257", "1"),
        (CqlType::Int, "return -2147483649", "2147483647"),
        (CqlType::Text, "return 42", "'42'"),
        (CqlType::Text, "return '\\xff'", "! the result is no text"),
        (CqlType::Ascii, "return '\\xc3\\xa9'", "! the result is no ascii"),
        (CqlType::Text, "return true", "! unexpected value"),
        (CqlType::Int, "", "! 0 values returned, expected 1"),
        (CqlType::Int, "return 1, 2", "! 2 values returned, expected 1"),
        (CqlType::Int, "return nil", "null"),
        (CqlType::Date, "return {year = 2026, month = 11, day = 23}", "'2026-11-23'"),
        (CqlType::Date, "return '2026-11-23'", "'2026-11-23'"),
        (
            CqlType::Date,
            "return {year = 2026, month = 13, day = 1}",
            "! date table has no such day",
        ),
        (CqlType::Time, "return 'x'", "! "),
        (CqlType::Duration, "return {months = 1, days = 2, nanoseconds = 3}", "1mo2d3ns"),
        (CqlType::Duration, "return {months = 1 << 40}", "! 1099511627776 months doesn't fit"),
        (CqlType::Decimal, "return 1.5", "! value is not a decimal"),
        (CqlType::Varint, "return 1e300", "! value is not an integer"),
    ] {
        let found = given(&ty, body);
        assert!(found.starts_with(shown), "{body}: {found}, not {shown}");
    }
    let long = "123456789012345678901234567890";
    assert_eq!(through(&CqlType::Varint, long, "return a + 1"), "123456789012345678901234567891");
    assert_eq!(through(&CqlType::Varint, long, "return a - '1'"), "123456789012345678901234567889");
    assert_eq!(through(&CqlType::Decimal, "1.5", "return 1 - a"), "-0.5");
    assert_eq!(through(&CqlType::Double, "1.5", "return 1 - a"), "-0.5");
}

#[test]
fn a_call_sees_nothing_of_the_calls_before_it() {
    let functions = functions();
    for body in [
        "n = (n or 0) + 1 return n",
        "string.n = (string.n or 0) + 1 return string.n",
        "_G.n = (_G.n or 0) + 1 return _G.n",
        "local m = getmetatable('') return m == false and 1 or 2",
        "local s = ('x').upper and 1 return s",
    ] {
        let function = lua(&[], CqlType::Int, body);
        for _ in 0..3 {
            let one = Ok(Some(vec![0, 0, 0, 1]));
            assert_eq!(functions.call(&function, &[]), one, "{body}");
        }
    }
}

/// Each would run for ever, or take all memory, or reach out of the sandbox: an error of its own call.
#[test]
fn hostile_bodies_end_in_an_error_of_the_function() {
    let spent = "lua execution failed: ";
    for body in [
        "while true do end",
        "local function f() return f() end return f()",
        "local function f() return 1 + f() end return f()",
        "local m = {} local t = setmetatable({}, m) m.__index = t setmetatable(t, m) return t.x",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) return t[1]",
        "return #string.rep('x', 1 << 31)",
        "return #string.rep('x', 1e9, 'y')",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "while true do local s = string.rep('x', 100000) end",
        "return string.rep('', 1e18) .. table.move({}, 1, 1e15, 1, {})",
        "table.move({}, 1, 1 << 62, 2, setmetatable({}, {__newindex = rawequal}))",
        "table.insert(setmetatable({}, {__len = function() return 1 << 60 end}), 1, 1)",
        "table.remove(setmetatable({}, {__len = function() return 1 << 60 end}), 1)",
        "table.sort(setmetatable({}, {__len = function() return 1 << 60 end, __index = rawlen}))",
        "return table.concat(setmetatable({}, {__index = type}), '', 1, 1 << 60)",
        "return table.unpack({}, 1, 1e8)",
        "return select('#', table.unpack({}, 1, 1 << 62))",
        "return string.find(string.rep('a', 30), string.rep('a*', 30) .. 'b')",
        "return string.find(string.rep('a', 100000), '.-.-.-.-.-.-b')",
        "return string.gsub(string.rep('a', 100000), '(a*)(a*)(a*)b', '')",
        "return string.gsub(string.rep('a', 100000), 'a', string.rep('b', 1000))",
        "return string.match(string.rep('(', 1000), string.rep('(', 1000))",
        "return string.find('a', '[')",
        "return string.find('a', '%')",
        "return string.format('%1000000d', 1)",
        "setmetatable({}, {__gc = function() while true do end end})",
        "error({})",
        "error(nil)",
        "error(setmetatable({}, {__tostring = function() while true do end end}))",
        "error(string.rep('x', 100000))",
        "for i = 1, 1e9 do ('x'):rep(1000):upper():find('y', 1, true) end",
        "local s = string.rep('x', 400000) while true do local u = s:upper() end",
        "local s = string.rep('x', 400000) while true do local u = s < s .. 'y' end",
        "local t = {} for i = 1, 20000 do t[i] = -i end while true do table.sort(t) end",
        "for _ in string.gmatch(string.rep('a', 400000), 'a') do end while true do end",
        "return io.open('/etc/passwd')",
        "return os.exit(1)",
        "return load('return 1')",
        "return require('x')",
        "return dofile('/etc/passwd')",
        "return pcall(error)",
        "return debug.sethook()",
        "return coroutine.create(print)",
        "return collectgarbage('stop')",
        "return math.random()",
        "return string.dump(function() end)",
        "print('x')",
    ] {
        let found = given(&CqlType::Int, body);
        assert!(found.starts_with(&format!("! {spent}")), "{body}: {found}");
        assert!(found.len() < 2000, "{body}");
    }
}

/// A node that has met all of them serves the next call.
#[test]
fn a_function_that_failed_is_called_again() {
    let functions = functions();
    let body = "if a == 1 then while true do end end return a";
    let function = lua(&[("a", CqlType::Int)], CqlType::Int, body);
    for (value, works) in [(0, true), (1, false), (2, true)] {
        let value = i32::to_be_bytes(value);
        assert_eq!(functions.call(&function, &[Some(&value)]).is_ok(), works);
    }
}

#[test]
fn bodies_that_are_no_lua_are_refused_where_they_are_created() {
    let functions = functions();
    let refused = |body: &str, argument: &str| {
        let function = lua(&[(argument, CqlType::Int)], CqlType::Int, body);
        functions.check(&function).unwrap_err().to_string()
    };
    let error = refused("\nreturn (", "a");
    assert!(error.starts_with("could not compile: ks.f:2:"), "{error}");
    // Bytecode could do anything.
    assert!(refused("\u{1b}Lua", "a").starts_with("could not compile:"));
    assert!(refused("return 1", "a b").contains("cannot be named a b"));
    assert!(refused("return 1", "end").starts_with("could not compile:"));
}

#[test]
fn patterns_match_as_those_of_lua() {
    for (body, shown) in [
        ("return ('hello world'):find('o w')", "5 7"),
        ("return ('hello'):find('l+')", "3 4"),
        ("return ('hello'):find('xyz')", "nil"),
        ("return ('hello'):find('', 10)", "nil"),
        ("return ('hello'):find('', 6)", "6 5"),
        ("return ('hello'):find('l', -2)", "4 4"),
        ("return ('a.b'):find('.', 2, true)", "2 2"),
        ("return ('key = value'):match('^(%w+)%s*=%s*(%w+)$')", "key value"),
        ("return ('  x '):match('^%s*(.-)%s*$')", "x"),
        ("return ('f(a(b)c)d'):match('%b()')", "(a(b)c)"),
        ("return ('THE (quick) fox'):find('%((%a+)%)')", "5 11 quick"),
        ("return ('hello hello'):match('(%w+) %1')", "hello"),
        ("return ('abc'):match('()b()')", "2 3"),
        ("return ('THE (quick) fox'):gsub('%f[%a]%a+', 'w')", "w (w) w 3"),
        ("return ('hello world'):gsub('o', '0', 1)", "hell0 world 1"),
        ("return ('hello'):gsub('', '-')", "-h-e-l-l-o- 6"),
        ("return ('hello'):gsub('l*', 'x')", "xhxexox 4"),
        ("return ('abc'):gsub('%w', '%0%0')", "aabbcc 3"),
        ("return ('abc def'):gsub('(%w+) (%w+)', '%2 %1')", "def abc 1"),
        ("return ('$x $y'):gsub('%$(%w)', {x = 1})", "1 $y 2"),
        ("return ('abc'):gsub('b', function(c) return c:upper() end)", "aBc 1"),
        ("return ('a]b'):match('[]]')", "]"),
        ("return ('a-b'):match('[a%-]+')", "a-"),
        ("return ('x^y'):match('[%^x]+')", "x^"),
        ("return ('aXb'):match('[^a-z]')", "X"),
        (
            "local s = '' for k, v in ('a=1, b=2'):gmatch('(%w)=(%w)') do s = s .. k .. v end return s",
            "a1b2",
        ),
        ("local n = 0 for _ in ('abc'):gmatch('') do n = n + 1 end return n", "4"),
        ("return ('a^b'):gmatch('^b')()", "^b"),
        ("return ('abcabc'):gmatch('b()', 4)()", "6"),
        ("return ('abc'):gmatch('b', 9)()", "nil"),
        ("return ('a\\0b'):find('%z')", "2 2"),
        ("return ('abc'):gsub('^a', function() return false end)", "abc 1"),
        ("return ('abcd'):gsub('[bd]', {b = 7})", "a7cd 2"),
        ("return ('abc'):gsub('%w', '%%')", "%%% 3"),
        ("return string.gsub(121, 1, 'x')", "x2x 2"),
        ("return ('abc'):gsub('', function() return '-' end)", "-a-b-c- 4"),
    ] {
        let body = format!(
            "local out = {{}} for i, v in ipairs({{(function(...) local t = {{}} for i = 1, \
             select('#', ...) do t[i] = tostring((select(i, ...))) end return table.unpack(t) end)\
             ((function() {body} end)())}}) do out[i] = v end return table.concat(out, ' ')"
        );
        assert_eq!(given(&CqlType::Text, &body), format!("'{shown}'"), "{body}");
    }
}

#[test]
fn tables_are_changed_as_by_the_library_of_lua() {
    let shown = "local function s(t) return table.concat(t, ',') end ";
    for (body, expected) in [
        ("local t = {1, 2} table.insert(t, 3) table.insert(t, 1, 0) return s(t)", "0,1,2,3"),
        ("local t = {1, 2, 3} return table.remove(t, 1) .. table.remove(t) .. s(t)", "132"),
        ("return s(table.move({1, 2, 3}, 1, 3, 2))", "1,1,2,3"),
        ("return s(table.move({1, 2, 3}, 2, 3, 1))", "2,3,3"),
        ("local t = {3, 1, 2, 5, 4} table.sort(t) return s(t)", "1,2,3,4,5"),
        ("local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return s(t)", "3,2,1"),
        ("return table.concat({1, 2, 3}, '-', 2, 3)", "2-3"),
        ("return select(2, table.unpack({1, 2, 3})) .. ''", "2"),
        ("return s(table.pack(1, 2))", "1,2"),
        ("return ('ab'):rep(2, '-')", "ab-ab"),
        ("return math.floor(1.5) .. utf8.char(233)", "1\u{e9}"),
    ] {
        assert_eq!(given(&CqlType::Text, &format!("{shown}{body}")), format!("'{expected}'"));
    }
}

/// Instances are kept up to a number and a size, those used last.
#[test]
fn what_a_core_keeps_is_bounded() {
    let functions = functions();
    let made: Vec<_> = (0..100).map(|n| lua(&[], CqlType::Int, &format!("return {n}"))).collect();
    for function in &made {
        functions.call(function, &[]).unwrap();
    }
    let kept = functions.instances.borrow();
    assert_eq!(kept.len(), crate::limits::INSTANCES_MAX);
    assert!(Arc::ptr_eq(&kept.last().unwrap().0, made.last().unwrap()));
}

fn wasm(
    arguments: &[CqlType],
    result: CqlType,
    called_on_null: bool,
    body: &str,
) -> Arc<UserFunction> {
    let arguments = arguments.iter().enumerate();
    Arc::new(UserFunction {
        keyspace: "ks".to_owned(),
        name: "f".to_owned(),
        arguments: arguments.map(|(n, ty)| (format!("a{n}"), ty.clone())).collect(),
        result,
        called_on_null,
        language: FunctionLanguage::Wasm,
        body: body.to_owned(),
    })
}

/// Gives its only argument back, whatever it is: of the first version of the conventions, of the second, and natively.
fn same(version: u8, kind: &str) -> String {
    let malloc = match version {
        2 => {
            "(func (export \"_scylla_malloc\") (param i32) (result i32) (i32.const 4096))
              (func (export \"_scylla_free\") (param i32))"
        }
        _ => "",
    };
    format!(
        "(module (memory (export \"memory\") 1) (global (export \"_scylla_abi\") i32 (i32.const 1024))
         (data (i32.const 1024) \"\\0{version}\") {malloc}
         (func (export \"f\") (param {kind}) (result {kind}) (local.get 0)))"
    )
}

#[test]
fn every_value_goes_through_webassembly() {
    use CqlType::*;
    let functions = functions();
    for (ty, text, kind) in [
        (Tinyint, "-1", "i32"),
        (Smallint, "-300", "i32"),
        (Int, "2147483647", "i32"),
        (Bigint, "-9223372036854775808", "i64"),
        (Boolean, "true", "i32"),
        (Float, "-1.5", "f32"),
        (Double, "0.1", "f64"),
        (Text, "d\u{e9}j\u{e0}", "i64"),
        (Varint, "123456789012345678901234567890", "i64"),
        (Timestamp, "2026-11-23T12:34:56.789Z", "i64"),
        (Duration, "1mo2d3h", "i64"),
    ] {
        let value = bytes(&ty, text);
        for version in [1, 2] {
            let native = wasm(std::slice::from_ref(&ty), ty.clone(), false, &same(version, kind));
            let found = functions.call(&native, &[Some(&value)]);
            assert_eq!(found, Ok(Some(value.clone())), "{ty} {version}");
            let serialized =
                wasm(std::slice::from_ref(&ty), ty.clone(), true, &same(version, "i64"));
            let found = functions.call(&serialized, &[Some(&value)]);
            assert_eq!(found, Ok(Some(value.clone())), "{ty} {version} with nulls");
            assert_eq!(functions.call(&serialized, &[None]), Ok(None), "{ty} {version}");
        }
    }
    let parts = lua(&[], list(Text), "return {'a', 'b'}");
    let value = functions.call(&parts, &[]).unwrap();
    let through = wasm(&[list(Text)], list(Text), false, &same(2, "i64"));
    assert_eq!(functions.call(&through, &[value.as_deref()]), Ok(value));
}

/// The example of ScyllaDB's documents.
#[test]
fn a_recursive_function_runs_and_ends_when_its_fuel_is_spent() {
    let body = "(module (func $fib (export \"f\") (param $n i64) (result i64)
        (if (i64.lt_s (local.get $n) (i64.const 2)) (then (return (local.get $n))))
        (i64.add (call $fib (i64.sub (local.get $n) (i64.const 1)))
                 (call $fib (i64.sub (local.get $n) (i64.const 2))))))";
    let function = wasm(&[CqlType::Bigint], CqlType::Bigint, false, body);
    let functions = functions();
    let fib = |n: i64| functions.call(&function, &[Some(&n.to_be_bytes())]);
    assert_eq!(fib(14), Ok(Some(377_i64.to_be_bytes().to_vec())));
    let error = fib(997).unwrap_err().to_string();
    assert!(error.contains("wasm: Calling wasm function failed: ") && is_spent(&error), "{error}");
    assert_eq!(fib(5), Ok(Some(5_i64.to_be_bytes().to_vec())));
}

/// Before: a function that was called first in the middle of a call was translated there, for that call's fuel; when
/// it was short the whole call began again, in a module whose globals it had changed.
#[test]
fn a_large_function_that_is_called_late_is_called_once() {
    let large = "(drop(i32.const 7))".repeat(5_000);
    let body = format!(
        "(module (global $n (mut i32) (i32.const 0)) (func $large {large})
           (func (export \"f\") (param i32) (result i32)
             (global.set $n (i32.add (global.get $n) (i32.const 1)))
             (call $large) (global.get $n)))"
    );
    let function = wasm(&[CqlType::Int], CqlType::Int, false, &body);
    let functions = functions();
    for _ in 0..2 {
        let given = functions.call(&function, &[Some(&[0; 4])]);
        assert_eq!(given, Ok(Some(1_i32.to_be_bytes().to_vec())));
    }
}

/// Whether a call has used up its fuel, or, where nothing is optimized, its time.
fn is_spent(error: &str) -> bool {
    error.contains("all fuel consumed") || error.contains("ms in one call")
}

#[test]
fn hostile_modules_end_in_an_error_of_the_function() {
    let functions = functions();
    for (body, error) in [
        ("(func (export \"f\") (result i32) (loop (br 0)) (i32.const 1))", "all fuel consumed"),
        ("(func $g (export \"f\") (result i32) (i32.add (i32.const 1) (call $g)))", "stack"),
        ("(func $s (loop (br 0))) (start $s) (func (export \"f\") (result i32) (i32.const 1))", "all fuel consumed"),
        ("(memory 65536) (func (export \"f\") (result i32) (i32.const 1))", ""),
        ("(table 1000000 funcref) (func (export \"f\") (result i32) (i32.const 1))", ""),
        (
            "(memory 1) (func (export \"f\") (result i32) (loop (drop (memory.grow (i32.const 1))) (br 0)) (i32.const 1))",
            "all fuel consumed",
        ),
        (
            "(memory 30) (func (export \"f\") (result i32) (loop (memory.fill (i32.const 0) (i32.const 7) (i32.const 1900000)) (br 0)) (i32.const 1))",
            "all fuel consumed",
        ),
        (
            "(import \"wasi_snapshot_preview1\" \"fd_write\" (func $w (param i32 i32 i32 i32) (result i32)))
             (func (export \"f\") (result i32) (call $w (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0)))",
            "fd_write is called, and nothing outside",
        ),
        ("(import \"a\" \"b\" (memory 1)) (func (export \"f\") (result i32) (i32.const 1))", "only functions may be"),
        ("(func (export \"f\") (result i32) (unreachable))", "unreachable"),
        ("(func (export \"f\") (result i32) (i32.div_s (i32.const 1) (i32.const 0)))", "zero"),
        ("(func (export \"f\") (result f32) (f32.const 1))", "Expected i32, got f32"),
        ("(func (export \"f\") (param i32) (result i32) (i32.const 1))", "number of wasm arguments"),
        ("(func (export \"f\"))", "gives 0 values, expected 1"),
    ] {
        let function = wasm(&[], CqlType::Int, false, &format!("(module {body})"));
        let found = functions.call(&function, &[]).unwrap_err().to_string();
        let is_it = found.contains(error) || error == "all fuel consumed" && is_spent(&found);
        assert!(found.starts_with("wasm: ") && is_it, "{body}: {found}");
    }
}

#[test]
fn what_a_module_gives_back_is_checked() {
    let functions = functions();
    let memory =
        "(memory (export \"memory\") 1) (global (export \"_scylla_abi\") i32 (i32.const 0))
        (data (i32.const 0) \"\\01\")";
    for (body, error) in [
        (
            "(func (export \"f\") (result i64) (i64.const 0x7fffffff00000000))",
            "are not in the memory",
        ),
        (
            "(func (export \"f\") (result i64) (i64.const 0x00000001ffffffff))",
            "are not in the memory",
        ),
        (
            "(func (export \"f\") (result i64) (i64.const 0xfffffff000000000))",
            "are not in the memory",
        ),
        (
            "(data (i32.const 8) \"\\ff\") (func (export \"f\") (result i64) (i64.const 0x0000000100000008))",
            "the result is no text",
        ),
    ] {
        let function = wasm(&[], CqlType::Text, false, &format!("(module {memory} {body})"));
        let found = functions.call(&function, &[]).unwrap_err().to_string();
        assert!(found.contains(error), "{body}: {found}");
    }
    let malloc = same(2, "i64").replace("(i32.const 4096)", "(i32.const -1)");
    let text = CqlType::Text;
    let function = wasm(std::slice::from_ref(&text), text.clone(), false, &malloc);
    assert!(functions.call(&function, &[Some(b"x")]).is_err());
    let unknown = same(1, "i64").replace("\\01", "\\07");
    let function = wasm(std::slice::from_ref(&text), text.clone(), false, &unknown);
    assert!(
        functions.call(&function, &[Some(b"x")]).unwrap_err().to_string().contains("ABI version 7")
    );
}

#[test]
fn bodies_that_are_no_modules_are_refused_where_they_are_created() {
    let functions = functions();
    let large = format!("(func (export \"f\") {} (unreachable))", "(block ".repeat(2000));
    for (body, error) in [
        ("nonsense", "Compilation failed"),
        ("(module (func (export \"g\")))", "Function f was not found in given wasm source code"),
        ("(module (memory (export \"f\") 1))", "Exported object f is not a function"),
        ("(module (func (export \"f\") (result i32) (i64.const 1)))", "Compilation failed"),
        (&format!("(module {large})")[..], "Compilation failed"),
        (&"(".repeat(100_000)[..], "Compilation failed"),
        (&format!("(module {})", "(func)".repeat(5_000))[..], "Compilation failed"),
    ] {
        let function = wasm(&[], CqlType::Int, false, body);
        let found = functions.check(&function).unwrap_err().to_string();
        assert!(found.contains(error), "{}: {found}", &body[..body.len().min(80)]);
    }
}

/// Before: one row with a thousand calls of 20 ms held up its core for 20 s.
#[test]
fn all_calls_of_a_core_at_once_are_bounded_together() {
    let pass = Rc::new(Cell::new(Instant::now()));
    let of_core = pass.clone();
    let functions = Functions::new(move || of_core.get());
    let spends = lua(&[], CqlType::Int, "while true do end");
    let fast = lua(&[], CqlType::Int, "return 1");
    let mut calls = 0;
    while functions.call(&fast, &[]).is_ok() {
        assert!(functions.call(&spends, &[]).is_err());
        calls += 1;
        assert!(calls < 10_000, "each takes some time");
    }
    let error = functions.call(&fast, &[]).unwrap_err().to_string();
    assert!(error.starts_with("functions took more than 50 ms of a core at once"), "{error}");
    pass.set(pass.get() + Duration::from_nanos(1));
    assert!(functions.call(&fast, &[]).is_ok());
}

/// Before: a negative zero lost its sign, and what is no number had the sign that the processor gave it.
#[test]
fn floats_come_back_as_they_are() {
    for (ty, body, shown) in [
        (CqlType::Double, "return -0.0", "-0.0"),
        (CqlType::Float, "return -0.0", "-0.0"),
        (CqlType::Double, "return 0/0", "NaN"),
        (CqlType::Double, "return -(0/0)", "NaN"),
        (CqlType::Double, "return 1/0", "Infinity"),
        (CqlType::Double, "return 3", "3.0"),
    ] {
        assert_eq!(given(&ty, body), shown, "{body}");
    }
    let functions = functions();
    let nan = Ok(Some(f64::NAN.to_be_bytes().to_vec()));
    for body in ["return 0/0", "return -(0/0)"] {
        assert_eq!(functions.call(&lua(&[], CqlType::Double, body), &[]), nan);
    }
    let module = "(module (func (export \"f\") (result f64) (f64.neg (f64.const nan:0x1234))))";
    assert_eq!(functions.call(&wasm(&[], CqlType::Double, false, module), &[]), nan);
}

/// Before: addresses were shown, which are others in each run.
#[test]
fn no_text_shows_an_address() {
    for (body, shown) in [
        ("return tostring({})", "'table'"),
        ("return tostring(print or string.len)", "'function'"),
        ("return string.format('%s|%-10s|%d%%p', {}, {}, 1)", "'table|table     |1%p'"),
        ("return tostring(setmetatable({}, {__name = 'x'}))", "'table'"),
        ("return tostring(setmetatable({}, {__tostring = function() return 'own' end}))", "'own'"),
        ("return string.format('%p', {})", "! lua execution failed: "),
        ("return string.format('%-20p', 'x')", "! lua execution failed: "),
        ("local s = string.rep({}, 2)", "! lua execution failed: ks.f:1: bad argument #1 to 'rep'"),
        ("error({})", "! lua execution failed: table"),
        ("error('no')", "! lua execution failed: ks.f:1: no"),
        ("local function g() error('no', 2) end\ng()", "! lua execution failed: ks.f:2: no"),
        ("assert(false, {})", "! lua execution failed: table"),
        ("assert(nil)", "! lua execution failed: assertion failed!"),
        ("return assert('a', 'b')", "! 2 values returned"),
    ] {
        let found = given(&CqlType::Text, body);
        assert!(found.starts_with(shown), "{body}: {found}, not {shown}");
    }
}

#[test]
fn metatables_do_what_they_say() {
    for (body, shown) in [
        ("return setmetatable({}, {__index = {x = 1}}).x", "1"),
        ("local m = {} local t = setmetatable({}, m) return getmetatable(t) == m and 1 or 2", "1"),
        ("local t = setmetatable({}, {__metatable = 7}) return getmetatable(t)", "7"),
        ("setmetatable(setmetatable({}, {__metatable = 7}), nil)", "! lua execution failed: "),
        (
            "local t = setmetatable(setmetatable({}, {}), nil) return getmetatable(t) == nil and 1",
            "1",
        ),
        (
            "local C = {} C.__index = C function C.two() return 2 end \
          return setmetatable({}, C).two()",
            "2",
        ),
        ("return #setmetatable({}, {__len = function() return 5 end})", "5"),
        ("return (setmetatable({}, {__call = function(_, a) return a end}))(4)", "4"),
        ("return (setmetatable({}, {__add = function(a, b) return b end}) + 6)", "6"),
        (
            "local t = setmetatable({}, {__index = function(_, k) return k <= 3 and k or nil end}) \
          return #table.concat(t, '', 1, 3) + select('#', table.unpack(t, 1, 3))",
            "6",
        ),
        ("return #table.concat(setmetatable({1}, {__index = {1, 2}}), ',', 1, 2)", "3"),
        (
            "local t = setmetatable({}, {}) local s = table.concat(t, '', 1, 2)",
            "! lua execution failed: \
          ks.f:1: invalid value (at index 1) in table for 'concat'",
        ),
    ] {
        let found = given(&CqlType::Int, body);
        assert!(found.starts_with(shown), "{body}: {found}, not {shown}");
    }
}

/// Before: what a module gave was stored as it came, and two sets of the same elements were two values.
#[test]
fn sets_and_maps_of_a_module_are_put_into_order() {
    let set = CqlType::Set { element: CqlType::Int.into(), frozen: true };
    let map = CqlType::Map { key: CqlType::Int.into(), value: CqlType::Int.into(), frozen: true };
    let functions = functions();
    let int = |number: i32| [&[0, 0, 0, 4][..], &number.to_be_bytes()].concat();
    let counted = |count: i32, numbers: &[i32]| {
        let items: Vec<u8> = numbers.iter().flat_map(|number| int(*number)).collect();
        [&count.to_be_bytes()[..], &items].concat()
    };
    for (ty, count, sent, shown) in [
        (set.clone(), 4, &[3, -1, 3, 2][..], "{-1, 2, 3}"),
        (map, 3, &[2, 5, 1, 6, 2, 7], "{1: 6, 2: 7}"),
        (list(set), 1, &[], ""),
    ] {
        let value = counted(count, sent);
        let value = if shown.is_empty() {
            let inner = counted(2, &[2, 1]);
            [&1_i32.to_be_bytes()[..], &(inner.len() as i32).to_be_bytes(), &inner].concat()
        } else {
            value
        };
        let shown = if shown.is_empty() { "[{1, 2}]" } else { shown };
        let data: String = value.iter().map(|byte| format!("\\{byte:02x}")).collect();
        let body = format!(
            "(module (memory (export \"memory\") 1) (data (i32.const 8) \"{data}\")
              (func (export \"f\") (result i64) (i64.const {})))",
            (value.len() as i64) << 32 | 8
        );
        let found = functions.call(&wasm(&[], ty.clone(), false, &body), &[]).unwrap();
        assert_eq!(value_literal(&ty, found.as_deref()), shown);
    }
}

//! Functions as statements call them, against one table.

use model::CqlType;

use super::json_text;
use crate::testing::Database;

#[test]
fn conversions_of_time_agree() {
    let mut db = Database::with("k int PRIMARY KEY, ts timestamp, d date, u timeuuid");
    db.ok("INSERT INTO t (k, ts, d, u) VALUES (1, '2026-11-21 12:34:56.789', '2026-11-21', 50554d6e-29bb-11e5-b345-feff819cdc9f)");
    for (expr, value) in [
        ("to_date(ts)", "\"2026-11-21\""),
        ("toTimestamp(d)", "\"2026-11-21 00:00:00.000Z\""),
        ("to_unix_timestamp(d)", "1795219200000"),
        ("dateOf(u)", "\"2015-07-14 00:00:18.805Z\""),
        ("unixTimestampOf(u)", "1436832018805"),
        ("toTimestamp(min_timeuuid(ts))", "\"2026-11-21 12:34:56.789Z\""),
        ("toTimestamp(maxTimeuuid(ts))", "\"2026-11-21 12:34:56.789Z\""),
        ("current_date()", "\"1970-01-01\""),
        ("d + 1mo", "\"2026-12-21\""),
        ("ts - 1d", "\"2026-11-20 12:34:56.789Z\""),
    ] {
        assert_eq!(db.ok(&format!("SELECT {expr} FROM t")), value, "{expr}");
    }
}

/// Before: since texts of floats are read as Java reads them, only `NaN` and `Infinity` were written so.
#[test]
fn nan_and_infinity_are_written_in_any_case() {
    let mut db = Database::with("k int PRIMARY KEY, f float, d double");
    for (word, shown) in [
        ("infinity", "Infinity"),
        ("-INFINITY", "-Infinity"),
        ("iNFinity", "Infinity"),
        ("nan", "NaN"),
        ("-NAN", "NaN"),
        ("-nAn", "NaN"),
    ] {
        db.ok(&format!("INSERT INTO t (k, f, d) VALUES (1, {word}, {word})"));
        let text = format!("\"{shown}\"");
        for select in ["cast(f as text)", "cast(d as text)"] {
            assert_eq!(db.ok(&format!("SELECT {select} FROM t")), text, "{word}");
        }
        assert!(db.err(&format!("INSERT INTO t (k, f) VALUES (1, '{word}')")).contains("STRING"));
    }
    let refused = db.err("INSERT INTO t JSON '{\"k\": 1, \"f\": \"infinity\"}'");
    assert!(refused.contains("Unable to make float from 'infinity'"), "{refused}");
}

/// Cassandra's wraps around: the bound would be of another time, and select the wrong rows.
#[test]
fn a_bound_of_timeuuids_is_null_after_the_last_and_refused_where_ticks_end() {
    let mut db = Database::with("k int PRIMARY KEY, ts timestamp");
    let (first, last) = (-12_219_292_800_000, 103_072_857_660_683);
    for function in ["min_timeuuid", "max_timeuuid"] {
        let select = format!("SELECT to_unix_timestamp({function}(ts)) FROM t");
        for inside in [first, 0, last] {
            db.ok(&format!("INSERT INTO t (k, ts) VALUES (1, {inside})"));
            assert_eq!(db.ok(&select), inside.to_string(), "{function}");
        }
        // The second is the time of a write, in microseconds.
        for after in [last + 2, 1_764_000_000_000_000] {
            db.ok(&format!("INSERT INTO t (k, ts) VALUES (1, {after})"));
            assert_eq!(db.ok(&select), "null", "{function} of {after}");
        }
        for outside in [first - 1, -(1 << 58), 1 << 62, i64::MIN + 123, i64::MAX - 123] {
            db.ok(&format!("INSERT INTO t (k, ts) VALUES (1, {outside})"));
            let refused = db.err(&select);
            assert!(
                refused.contains(&format!("No timeuuid is of the timestamp {outside}")),
                "{refused}"
            );
        }
    }
}

#[test]
fn casts_and_arithmetic_are_javas() {
    let mut db = Database::with(
        "k int PRIMARY KEY, i int, b bigint, t tinyint, f float, d double, v varint, e decimal, s text",
    );
    db.ok("INSERT INTO t (k, i, b, t, f, d, v, e, s) VALUES (1, 7, 5000000000, 100, 1.5, 1e10, 123, 1.50, 'x')");
    for (expr, value) in [
        ("i + b", "5000000007"),
        ("i / 2", "3"),
        ("-i % 4", "-3"),
        ("i * 1000000000", "-1589934592"),
        ("t + t", "-56"),
        ("i + f", "8.5"),
        ("b + f", "5.0000000015E9"),
        ("v * v", "15129"),
        ("e + 1", "2.50"),
        ("e / 3", "0.5"),
        ("s + 'y'", "\"xy\""),
        ("CAST(i AS text)", "\"7\""),
        ("CAST(d AS text)", "\"1.0E10\""),
        ("CAST(d AS int)", "2147483647"),
        ("CAST(b AS int)", "705032704"),
        ("CAST(f AS varint)", "1"),
        ("CAST(e AS double)", "1.5"),
        ("intAsBlob(i)", "\"0x00000007\""),
        ("blob_as_int(int_as_blob(i))", "7"),
        ("toJson(s)", "\"\\\"x\\\"\""),
        ("(int)3 + i", "10"),
    ] {
        assert_eq!(db.ok(&format!("SELECT {expr} FROM t")), value, "{expr}");
    }
    // Each is rounded once; a digit behind all that there are is none.
    db.ok("INSERT INTO t (k, b, e) VALUES (9, 36028799166447617, 1.00000005960464477539062500001)");
    db.ok("INSERT INTO t (k, e) VALUES (10, 1e-20000)");
    db.ok("INSERT INTO t (k, e) VALUES (11, 3e20000)");
    for (expr, value) in [
        ("CAST(b AS float) FROM t WHERE k = 9", "3.6028801E16"),
        ("CAST(e AS float) FROM t WHERE k = 9", "1.0000001"),
        ("CAST(e AS int) FROM t WHERE k = 10", "0"),
        ("CAST(e AS varint) FROM t WHERE k = 10", "0"),
        ("CAST(e AS bigint) FROM t WHERE k = 11", "0"),
    ] {
        assert_eq!(db.ok(&format!("SELECT {expr}")), value, "{expr}");
    }
    (9..12).for_each(|k| drop(db.ok(&format!("DELETE FROM t WHERE k = {k}"))));
    assert_eq!(db.err("SELECT i / 0 FROM t"), "the operation 'int / int' failed: / by zero");
    let error = db.err("SELECT CAST(s AS int) FROM t");
    assert!(error.starts_with("Invalid call to function system.cast_as_int, none of"), "{error}");
    db.ok("INSERT INTO t (k, b, i) VALUES (2, 1 + 2, (int)4 * 5)");
    assert_eq!(db.ok("SELECT b, i FROM t WHERE k = 2"), "3, 20");
}

/// Before: quotients kept the zeros in front of the point, and remainders had the larger scale.
#[test]
fn quotients_and_remainders_of_decimals_have_the_scale_that_java_gives_them() {
    let mut db = Database::with("k int PRIMARY KEY, a decimal, b decimal, i int");
    let powers = ("1E+100", "1E+10", "1E+90", "0E+100");
    for (a, b, quotient, remainder) in [
        ("1000", "10", "1E+2", "0"),
        ("400", "2.00", "2E+2", "0"),
        ("403", "2.00", "201.5", "1.00"),
        ("-12000", "7.000", "-1714.28571428571428571428571428571429", "-2.000"),
        ("12010", "12.00", "1000.83333333333333333333333333333333", "10"),
        ("12010", "12.01", "1E+3", "0"),
        ("5", "10.00", "0.5", "5"),
        ("0", "3.00", "0", "0"),
        ("7.500", "2", "3.75", "1.500"),
        (powers.0, powers.1, powers.2, powers.3),
    ] {
        db.ok(&format!("INSERT INTO t (k, a, b) VALUES (1, {a}, {b})").replace("E+", "E"));
        let answer = db.ok("SELECT CAST(a / b AS text), CAST(a % b AS text) FROM t");
        assert_eq!(answer, format!("\"{quotient}\", \"{remainder}\""), "{a} {b}");
    }
    db.ok("INSERT INTO t (k, a, i) VALUES (1, 3, 4)");
    assert_eq!(db.ok("SELECT a % i FROM t"), "3");
}

/// Before: the result was null.
#[test]
fn a_decimal_beside_what_is_no_number_is_refused() {
    let mut db = Database::with("k int PRIMARY KEY, d decimal, f float, g double");
    db.ok("INSERT INTO t (k, d, f, g) VALUES (1, 1, NaN, -Infinity)");
    assert_eq!(
        db.err("SELECT d + f FROM t"),
        "the operation 'decimal + float' failed: A NaN cannot be converted into a decimal"
    );
    assert_eq!(
        db.err("SELECT g / d FROM t"),
        "the operation 'double / decimal' failed: An infinite number cannot be converted into a decimal"
    );
    db.ok("INSERT INTO t (k, f, g) VALUES (1, NaN, 1)");
    db.ok("DELETE d FROM t WHERE k = 1");
    assert_eq!(db.ok("SELECT d + g FROM t"), "null");
}

/// Before: such a constant was a blob and nothing else.
#[test]
fn a_tinyint_may_be_written_as_a_byte() {
    let mut db = Database::with("k int PRIMARY KEY, y tinyint, b blob");
    db.ok("INSERT INTO t (k, y, b) VALUES (1, 0xfe, 0xfe)");
    let shown = "-2, \"0xfe\", 2, 3, \"\\\"0xfe\\\"\"";
    assert_eq!(db.ok("SELECT y, b, abs(0xfe), 0x01 + 0x02, to_json(0xfe) FROM t"), shown);
    assert_eq!(db.ok("SELECT 0x01 + 1, y + 0x01, k + 0x01 FROM t"), "2, -1, 2");
    assert_eq!(db.ok("SELECT k FROM t WHERE y IN (3, 0xfe) ALLOW FILTERING"), "1");
    assert!(db.err("INSERT INTO t (k, y) VALUES (1, 0xfefe)").contains("tinyint"));
    assert!(db.err("INSERT INTO t (k) VALUES (0x01)").contains("Invalid HEX constant"));
}

/// Cassandra cuts off towards 1970: it says that noon of a day is of the next one.
#[test]
fn the_date_of_a_time_before_1970_is_its_day() {
    let mut db = Database::with("k int PRIMARY KEY, ts timestamp");
    for (time, date) in [
        ("1969-12-31 23:59:59+0000", "1969-12-31"),
        ("1969-12-31 00:00:01+0000", "1969-12-31"),
        ("1969-12-31 00:00:00.999+0000", "1969-12-31"),
        ("1969-12-31 00:00:00+0000", "1969-12-31"),
        ("1960-05-05 12:00:00+0000", "1960-05-05"),
        ("1960-05-05 00:00:00.999+0000", "1960-05-05"),
        ("1970-01-01 23:59:59.999+0000", "1970-01-01"),
    ] {
        db.ok(&format!("INSERT INTO t (k, ts) VALUES (1, '{time}')"));
        let shown = format!("\"{date}\", \"{date}\"");
        assert_eq!(db.ok("SELECT to_date(ts), CAST(ts AS date) FROM t"), shown, "{time}");
    }
}

/// Before: a uuid of version 1 was a uuid, tuples of literals had no type, and one value in parentheses had its own.
#[test]
fn literals_have_the_types_that_cassandra_gives_them() {
    let mut db = Database::with("k int PRIMARY KEY, u uuid, t timeuuid");
    db.ok("INSERT INTO t (k, u) VALUES (1, 50554d6e-29bb-11e5-b345-feff819cdc9f)");
    db.ok("INSERT INTO t (k, t) VALUES (1, mask_default(50554d6e-29bb-11e5-b345-feff819cdc9f))");
    assert_eq!(db.ok("SELECT t FROM t"), "\"13814000-1dd2-11b2-8080-808080808080\"");
    for (argument, json) in [
        ("(1, 'a')", "[1, \"a\"]"),
        ("(k, 1)", "[1, 1]"),
        ("((1, 2), 3)", "[[1, 2], 3]"),
        ("[(1, 2), (3, 4)]", "[[1, 2], [3, 4]]"),
        ("{(1, 2)}", "[[1, 2]]"),
        ("(1, [1, 2])", "[1, [1, 2]]"),
        ("(k + 1, abs(5))", "[2, 5]"),
        ("[5, (6)]", "[5, 6]"),
        ("k + (1)", "2"),
        ("mask_default((1, 2))", "[0, 0]"),
        (
            "mask_default(00000000-0000-4000-8000-000000000001)",
            "\"00000000-0000-0000-0000-000000000000\"",
        ),
    ] {
        let shown = serde_json::Value::from(json).to_string();
        assert_eq!(db.ok(&format!("SELECT to_json({argument}) FROM t")), shown, "{argument}");
    }
    for argument in ["(5)", "(k)", "(k + 1)", "[(5)]", "((1), 2)", "(NULL, 1)", "(1, {1: 2})"] {
        let refused = db.err(&format!("SELECT to_json({argument}) FROM t"));
        let expected = format!("Cannot infer type of argument {argument} in call");
        assert!(refused.starts_with(&expected), "{refused}");
    }
}

#[test]
fn functions_of_writes_are_evaluated_when_bound() {
    let mut db = Database::with("k timeuuid PRIMARY KEY, v text, ts timestamp");
    db.ok("INSERT INTO t (k, v, ts) VALUES (now(), blobAsText(0x6162), currentTimestamp())");
    db.ok("INSERT INTO t (k) VALUES (now())");
    assert_eq!(db.ok("SELECT k FROM t").lines().count(), 2);
    assert_eq!(
        db.ok("SELECT v, ts FROM t WHERE v = 'ab' ALLOW FILTERING"),
        "\"ab\", \"1970-01-01 00:16:40.000Z\""
    );
    for (text, error) in [
        (
            "INSERT INTO t (k, v) VALUES (now(), now())",
            "Type error: cannot assign result of function system.now (type timeuuid) to v (type text)",
        ),
        ("INSERT INTO t (k, v) VALUES (now(), foo())", "Unknown function foo called"),
        ("INSERT INTO t (k, v) VALUES (now(), (text)5)", "Cannot cast value 5 to type text"),
        (
            "INSERT INTO t (k, v) VALUES (now(), (int)5)",
            "Cannot assign value (int)5 to v of type text",
        ),
        (
            "INSERT INTO t (k, v) VALUES (now(), max(1))",
            "Aggregation function are not supported in the where clause",
        ),
    ] {
        assert_eq!(db.err(text), error);
    }
}

#[test]
fn a_call_means_one_function() {
    let mut db = Database::with("k int PRIMARY KEY, d date, ts timestamp, b bigint");
    let error = db.err("INSERT INTO t (k, d) VALUES (1, toDate(?))");
    assert!(error.starts_with("Ambiguous call to function todate"), "{error}");
    db.ok("INSERT INTO t (k, d, b) VALUES (1, toDate((timestamp)0), 5)");
    assert_eq!(
        db.ok("SELECT d, CAST(k AS int), toTimestamp(mintimeuuid(b)) FROM t"),
        "\"1970-01-01\", 1, \"1970-01-01 00:00:00.005Z\""
    );
}

/// Before: the literal took the type of the column, and the result wrapped.
#[test]
fn a_literal_has_its_own_type_in_an_operation() {
    let mut db = Database::with("k int PRIMARY KEY, tn tinyint, si smallint, i int, f float");
    db.ok("INSERT INTO t (k, tn, si, i, f) VALUES (1, 100, 30000, 7, 1.5)");
    for (expr, value) in [
        ("tn + 100", "200"),
        ("si + 10000", "40000"),
        ("100 + tn", "200"),
        ("tn + tn", "-56"),
        ("tn * (tinyint)2", "-56"),
        ("f + 1.1", "2.6"),
        ("i + 5000000000", "5000000007"),
        ("i + 99999999999999999999999", "100000000000000000000006"),
        ("1 + 1.5", "2.5"),
        ("-9 / 2", "-4"),
        ("9.0 / 2", "4.5"),
    ] {
        assert_eq!(db.ok(&format!("SELECT {expr} FROM t")), value, "{expr}");
    }
}

/// Before: a marker without a type was taken for what stood beside it.
#[test]
fn an_operation_with_an_untyped_marker_is_ambiguous() {
    let mut db = Database::with("k int PRIMARY KEY, i int, d date");
    for (text, error) in [
        (
            "SELECT ? + 1 FROM t",
            "Ambiguous '+' operation with args ? and 1: use type hint to disambiguate, example '(int) ?'",
        ),
        (
            "SELECT i - ? FROM t",
            "Ambiguous '-' operation with args i and ?: use type hint to disambiguate, example '(int) ?'",
        ),
        ("SELECT -(?) FROM t", "Ambiguous negation: use type casts to disambiguate"),
        (
            "UPDATE t SET i = 1 + ? WHERE k = 1",
            "Ambiguous '+' operation with args 1 and ?: use type hint to disambiguate, example '(int) ?'",
        ),
    ] {
        assert_eq!(db.err(text), error, "{text}");
    }
}

/// cql.md 15: "that value cannot be passed as argument 0".
#[test]
fn a_part_of_a_column_is_an_argument() {
    let mut db = Database::new();
    db.ok("CREATE TYPE u (a int, b text)");
    db.ok("CREATE TABLE t (k int PRIMARY KEY, c frozen<u>, n u, m map<text, int>, s set<int>)");
    db.ok("INSERT INTO t (k, c, n, m, s) VALUES (1, {a: 3, b: 'x'}, {a: 4}, {'q': 5}, {6})");
    for (expr, value) in [
        ("intAsBlob(c.a)", "\"0x00000003\""),
        ("intAsBlob(n.a)", "\"0x00000004\""),
        ("max(c.a)", "3"),
        ("min(c.b)", "\"x\""),
        ("count(c.a)", "1"),
        ("count(n.b)", "0"),
        ("sum(m['q'])", "5"),
        ("intAsBlob(s[6])", "\"0x00000006\""),
        ("(c.a + n.a) * m['q']", "35"),
        ("max(writetime(n.a)) - max(writetime(n.a))", "0"),
    ] {
        assert_eq!(db.ok(&format!("SELECT {expr} FROM t")), value, "{expr}");
    }
}

/// Before: a tuple written as a string was refused.
#[test]
fn a_tuple_is_written_as_a_string_too() {
    let mut db = Database::with("k int PRIMARY KEY, t tuple<int, text>");
    for (text, value) in [
        ("'0:0'", "[0, \"0\"]"),
        ("'7'", "[7, null]"),
        ("'@:x'", "[null, \"x\"]"),
        (r"'0:a\:b'", "[0, \"a:b\"]"),
        (r"'0:a\@b'", "[0, \"a@b\"]"),
        ("5", "[5, null]"),
    ] {
        db.ok(&format!("INSERT INTO t (k, t) VALUES (1, {text})"));
        assert_eq!(db.ok("SELECT t FROM t"), value, "{text}");
    }
    assert_eq!(db.ok("SELECT k FROM t WHERE t = '5' ALLOW FILTERING"), "1");
    for (text, error) in [
        (
            "'0:0:0'",
            "Invalid tuple literal: too many elements. Type frozen<tuple<int, text>> expects 2 but got 3",
        ),
        ("'a:0'", "Unable to make int from 'a'"),
    ] {
        assert_eq!(db.err(&format!("INSERT INTO t (k, t) VALUES (1, {text})")), error);
    }
}

#[test]
fn a_field_that_a_type_does_not_have_is_named_inside_of_collections_too() {
    let mut db = Database::new();
    db.ok("CREATE TYPE u (a int, b text)");
    db.ok("CREATE TABLE t (k int PRIMARY KEY, m map<int, frozen<u>>, l list<frozen<u>>, w tuple<int, u>)");
    for (column, literal) in [("m", "{1: {z: 1}}"), ("l", "[{a: 1, z: 1}]"), ("w", "(1, {z: 1})")] {
        let error = db.err(&format!("INSERT INTO t (k, {column}) VALUES (1, {literal})"));
        assert_eq!(error, "Unknown field 'z' in value of user defined type u", "{column}");
    }
    let error = db.err("INSERT INTO t (k, l) VALUES (1, [{a: 'x', z: 1}])");
    assert!(error.starts_with("Invalid list literal for l: value"), "{error}");
}

#[test]
fn names_are_not_guessed() {
    let mut db = Database::with("k int PRIMARY KEY, i int");
    assert_eq!(db.err("SELECT n_o_w() FROM t"), "Unknown function 'n_o_w'");
    assert_eq!(db.err("SELECT system.foo(k) FROM t"), "Unknown function 'system.foo'");
    assert_eq!(db.err("SELECT ks.now() FROM t"), "Unknown function 'ks.now'");
    assert_eq!(
        db.err("SELECT count() FROM t"),
        "Invalid number of arguments in call to function system.count: 1 required but 0 provided"
    );
    assert_eq!(
        db.err("SELECT max(?) FROM t"),
        "Cannot infer type of argument ? in call to function system.max(any): use type casts to disambiguate"
    );
}

#[test]
fn dates_move_by_whole_days_and_timestamps_by_milliseconds() {
    let mut db = Database::with("k int PRIMARY KEY, d date, ts timestamp");
    db.ok("INSERT INTO t (k, d, ts) VALUES (1, '2026-03-31', '2024-02-29')");
    for (expr, value) in [
        ("d - 1mo", "\"2026-02-28\""),
        ("d + 1y2mo3d", "\"2027-06-03\""),
        ("ts + 1y", "\"2025-02-28 00:00:00.000Z\""),
        ("ts - 1ms", "\"2024-02-28 23:59:59.999Z\""),
    ] {
        assert_eq!(db.ok(&format!("SELECT {expr} FROM t")), value, "{expr}");
    }
    assert_eq!(
        db.err("SELECT d + 24h FROM t"),
        "the operation 'date + duration' failed: The duration must have a day precision. Was: 24h"
    );
    assert_eq!(
        db.err("SELECT ts + 1ns FROM t"),
        "the operation 'timestamp + duration' failed: The duration must have a millisecond precision. Was: 1ns"
    );
}

/// Those of four and eight bytes are read as an int and a bigint are.
#[test]
fn varints_of_every_length_add_up_and_compare() {
    let mut db = Database::with("k int PRIMARY KEY, v varint");
    let mut numbers: Vec<i128> = Vec::new();
    for bytes in 1..=10 {
        let largest = (1_i128 << (8 * bytes - 1)) - 1;
        numbers.extend([largest, -largest - 1, largest / 3, -largest / 5]);
    }
    for count in 1..=numbers.len() {
        let (last, some) = (numbers[count - 1], &numbers[..count]);
        db.ok(&format!("INSERT INTO t (k, v) VALUES ({count}, {last})"));
        let sum: i128 = some.iter().sum();
        let (least, most) = (some.iter().min().expect("one"), some.iter().max().expect("one"));
        let expected = format!("{sum}, {}, {least}, {most}", sum / count as i128);
        assert_eq!(db.ok("SELECT sum(v), avg(v), min(v), max(v) FROM t"), expected);
    }
}

/// Recorded from Cassandra 5.0.9.
#[test]
fn functions_of_numbers_have_the_type_of_their_argument() {
    let mut db = Database::with(
        "k int PRIMARY KEY, tn tinyint, si smallint, i int, b bigint, f float, d double, v varint, e decimal",
    );
    db.ok("INSERT INTO t (k, tn, si, i, b, f, d, v, e) VALUES (1, 100, 30000, 7, 5000000000, 1.5, 1e10, 123, 1.50)");
    for (expr, value) in [
        ("abs((int)-5)", "5"),
        ("abs(-5.5)", "5.5"),
        ("abs((decimal)-1.50)", "1.50"),
        ("abs((tinyint)-128)", "-128"),
        ("abs((bigint)-9223372036854775808)", "-9223372036854775808"),
        ("exp(tn)", "-1"),
        ("exp(si)", "-1"),
        ("exp(i)", "1096"),
        ("exp(b)", "9223372036854775807"),
        ("exp(f)", "4.481689"),
        ("exp(1.5)", "4.4816890703380645"),
        ("exp(v)", "261951731874906267618898102537460000000000000000000000"),
        ("exp(e)", "4.4816890703380648226020554601193"),
        ("log(b)", "22"),
        ("log(0)", "-2147483648"),
        ("log((varint)1)", "0"),
        ("log10(v)", "2"),
        ("log10(d)", "10.0"),
        ("round(2.5)", "3.0"),
        ("round(-2.5)", "-2.0"),
        ("round((float)-2.5)", "-2.0"),
        ("round((decimal)-2.5)", "-3"),
        ("round((double)0.49999999999999994)", "0.0"),
        ("round((double)4503599627370497.5)", "4.503599627370498E15"),
        ("round((float)1e30)", "2.14748365E9"),
        ("round(e)", "2"),
    ] {
        assert_eq!(db.ok(&format!("SELECT {expr} FROM t")), value, "{expr}");
    }
    assert_eq!(db.err("SELECT log((decimal)0) FROM t"), "Natural log of number zero or less");
    assert_eq!(db.err("SELECT log10((varint)0) FROM t"), "Log10 of number zero or less");
    for (text, start) in [
        ("SELECT abs(?) FROM t", "Ambiguous call to function abs (can be matched by"),
        ("SELECT abs('x') FROM t", "Invalid call to function abs, none of its type signatures"),
    ] {
        let error = db.err(text);
        assert!(error.starts_with(start), "{error}");
    }
    db.ok("INSERT INTO t (k, i, d) VALUES (2, abs(-5), exp(0))");
    assert_eq!(db.ok("SELECT i, d FROM t WHERE k = 2"), "5, 1.0");
}

/// Recorded from Cassandra 5.0.9.
#[test]
fn functions_of_collections_and_vectors() {
    let mut db = Database::with(
        "k int PRIMARY KEY, l list<int>, s set<int>, m map<text, int>, v vector<float, 3>",
    );
    db.ok(
        "INSERT INTO t (k, l, s, m, v) VALUES (1, [1, 2, 3], {1, 2}, {'a': 1, 'b': 2}, [1, 2, 3])",
    );
    for (expr, value) in [
        ("collection_count(l), collection_count(s), collection_count(m)", "3, 2, 2"),
        ("collection_min(l), collection_max(s)", "1, 2"),
        ("collection_sum(l), collection_avg(s)", "6, 1"),
        ("collection_sum((list<tinyint>)[100, 100])", "-56"),
        ("collection_avg((list<decimal>)[1, 2.5, 3])", "2.2"),
        ("collection_avg((list<decimal>)[1, 2, 2])", "1"),
        ("collection_avg([1.5, 2.0])", "1.75"),
        ("collection_min((list<int>)[]), collection_sum((list<int>)[])", "null, 0"),
        ("map_keys(m), map_values(m)", "[\"a\", \"b\"], [1, 2]"),
        ("similarity_cosine([1, 2], [3, 4])", "0.99193496"),
        ("similarity_euclidean(v, [1, 2, 5])", "0.2"),
        ("similarity_dot_product(v, [1, 2, 5])", "10.5"),
        ("similarity_cosine(v, null)", "null"),
        ("similarity_cosine([1e-30, 0], [1, 0])", "1.0"),
    ] {
        assert_eq!(db.ok(&format!("SELECT {expr} FROM t")), value, "{expr}");
    }
    for (expr, error) in [
        (
            "collection_sum(m)",
            "Function system.collection_sum requires a numeric set/list argument, but found argument m of type map<text, int>",
        ),
        (
            "collection_count(k)",
            "Function system.collection_count requires a collection argument, but found argument k of type int",
        ),
        (
            "map_keys(?)",
            "Cannot infer type of argument ? in call to function system.map_keys(map): use type casts to disambiguate",
        ),
        ("similarity_cosine(v, [1, 2])", "All arguments must have the same vector dimensions"),
        (
            "similarity_cosine(v, [0, 0, 0])",
            "Function system.similarity_cosine doesn't support all-zero vectors.",
        ),
        (
            "similarity_cosine(k, k)",
            "Function system.similarity_cosine requires a float vector argument, but found argument k of type int",
        ),
    ] {
        assert_eq!(db.err(&format!("SELECT {expr} FROM t")), error, "{expr}");
    }
}

/// Before: the sum was divided once; Cassandra rounds after each value.
#[test]
fn the_average_of_decimals_moves_with_each_value() {
    let mut db = Database::with("k int, c int, e decimal, PRIMARY KEY (k, c)");
    for (c, e) in ["1", "2", "2"].iter().enumerate() {
        db.ok(&format!("INSERT INTO t (k, c, e) VALUES (1, {c}, {e})"));
    }
    for (c, e) in ["1.0", "2", "2.25"].iter().enumerate() {
        db.ok(&format!("INSERT INTO t (k, c, e) VALUES (2, {c}, {e})"));
    }
    assert_eq!(db.ok("SELECT avg(e), sum(e) FROM t WHERE k = 1"), "1, 5");
    assert_eq!(db.ok("SELECT avg(e), sum(e) FROM t WHERE k = 2"), "1.75, 5.25");
}

/// Recorded from Cassandra 5.0.9.
#[test]
fn an_operand_beside_a_decimal_goes_by_way_of_a_double() {
    let mut db = Database::with("k int PRIMARY KEY, i int, b bigint, v varint, f float, e decimal");
    db.ok("INSERT INTO t (k, i, b, v, f, e) VALUES (1, 7, 5000000000, 123, 0.1, 1.50)");
    for (expr, value) in [
        ("e * i", "10.500"),
        ("i * e", "10.500"),
        ("e * b", "7.500E+9"),
        ("e * v", "184.50"),
        ("e * f", "0.1500000022351741800"),
        ("e + 9223372036854775807", "9223372036854776001.50"),
        ("e / i", "0.21428571428571428571428571428571"),
        ("CAST(b AS decimal)", "5000000000"),
        ("CAST(f AS decimal)", "0.1"),
        ("CAST((double)100 AS decimal)", "100.0"),
        ("CAST((float)1e10 AS decimal)", "1.0E+10"),
        ("CAST((float)100 AS varint)", "100"),
    ] {
        assert_eq!(db.ok(&format!("SELECT {expr} FROM t")), value, "{expr}");
    }
}

#[test]
fn a_string_of_ascii_characters_is_ascii() {
    let mut db = Database::with("k int PRIMARY KEY, s text, a ascii");
    for (text, ty) in [
        ("a + 'z'", "ascii"),
        ("a + 'é'", "text"),
        ("s + 'z'", "text"),
        ("'p' + a", "ascii"),
        ("min('e')", "ascii"),
        ("min('é')", "text"),
    ] {
        let text = format!("SELECT {text} FROM t");
        let prepared = crate::prepare::prepare(&text, &db.schema, Some("ks")).expect(&text);
        let crate::prepare::Statement::Select(plan) = prepared.statement else { panic!("{text}") };
        assert_eq!(plan.columns[0].ty.to_string(), ty, "{text}");
    }
    db.ok("INSERT INTO t (k, s, a) VALUES (1, 'a' + 'b', 'c' + 'd')");
    assert_eq!(db.ok("SELECT s, a FROM t"), "\"ab\", \"cd\"");
}

/// Before: keys in keys, which are escaped at each level, doubled their text with each, until the memory was full.
#[test]
fn json_of_maps_that_are_keys_of_maps_is_refused_when_it_is_too_long() {
    let ty = |depth: usize| {
        let int =
            CqlType::Map { key: CqlType::Int.into(), value: CqlType::Int.into(), frozen: true };
        (1..depth).fold(int, |key, _| CqlType::Map {
            key: key.into(),
            value: CqlType::Int.into(),
            frozen: true,
        })
    };
    let value = |depth: usize| {
        (0..depth).fold(vec![0, 0, 0, 1], |key, _| {
            let mut map = vec![0, 0, 0, 1];
            map.extend_from_slice(&(key.len() as i32).to_be_bytes());
            map.extend_from_slice(&key);
            map.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 1]);
            map
        })
    };
    assert_eq!(json_text(&ty(2), Some(&value(2))).unwrap(), r#"{"{\"1\": 1}": 1}"#);
    let error = json_text(&ty(36), Some(&value(36))).unwrap_err().to_string();
    assert_eq!(error, "the JSON text of a value has more than 16711680 bytes");
}

/// Before: three vectors in each other asked for 16 TB when the statement was prepared.
#[test]
fn a_default_that_is_larger_than_a_cell_is_refused_when_it_is_prepared() {
    let mut db = Database::with("k int PRIMARY KEY");
    db.ok("INSERT INTO t (k) VALUES (1)");
    let of = |ty: &str| format!("SELECT mask_default(({ty}) null) FROM t");
    for ty in [
        "vector<vector<vector<float, 16000>, 16000>, 16000>",
        "tuple<vector<vector<float, 16000>, 250>, vector<vector<float, 16000>, 250>>",
    ] {
        let error = db.err(&of(ty));
        assert_eq!(error, "the default value of a type has more than 16711680 bytes", "{ty}");
    }
    assert_eq!(db.ok(&of("vector<vector<tinyint, 2>, 2>")), "[[0, 0], [0, 0]]");
}

/// Before: 100 operators made 1.6 GB of a number of 16 MB, at prepare too.
#[test]
fn products_and_functions_of_long_numbers_are_refused_before_they_are_made() {
    let mut db = Database::with("k int PRIMARY KEY, b blob, v varint, e decimal");
    let blob = |bytes: usize| format!("0x{}", "01".repeat(bytes));
    let put = |bytes: usize| {
        let (v, e) = (blob(bytes), blob(bytes));
        format!("INSERT INTO t (k, v, e) VALUES (1, blob_as_varint({v}), blob_as_decimal({e}))")
    };
    db.ok(&put(40_000));
    let product =
        "the operation 'varint * varint' failed: the result may have more than 65536 bytes";
    assert_eq!(db.err("SELECT v * v FROM t"), product);
    let decimals = db.err("SELECT e * e FROM t");
    assert!(decimals.ends_with("the result may have more than 65536 bytes"), "{decimals}");
    let literal = "9".repeat(100_000);
    assert_eq!(db.err(&format!("SELECT {literal} * {literal} FROM t")), product);
    db.ok(&put(100_000));
    for (ty, text) in [
        ("varint", "v + 1"),
        ("varint", "CAST(v AS text)"),
        ("varint", "CAST(v AS double)"),
        ("varint", "log(v)"),
        ("decimal", "e / 2"),
        ("decimal", "round(e)"),
        ("decimal", "sum(e)"),
    ] {
        let refused =
            format!("a {ty} of more than 65536 bytes is not computed with or shown as text");
        assert_eq!(db.err(&format!("SELECT {text} FROM t")), refused, "{text}");
    }
    // One such row would refuse the SELECT JSON of a whole table.
    let json = db.ok("SELECT to_json(v) FROM t");
    assert!(json.contains("\"0x") && json.len() > 200_000, "{}", &json[..20]);
    let bytes = format!("\"{}\"", blob(100_000));
    assert_eq!(db.ok("SELECT varint_as_blob(v) FROM t"), bytes);
}

//! Functions and aggregates of users: what may be made and dropped, which one a call means, and what a call comes to.
//!
//! The texts of errors are Cassandra 5.0.9's, whose functions are in Java. What a function gives is a sum, whatever its
//! body (`testing.rs`).

use crate::describe::{Described, describe};
use crate::lang::ast::Statement;
use crate::testing::Database;

const F: &str =
    "CREATE FUNCTION f (a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS ''";

fn database() -> Database {
    let mut db = Database::with("k int PRIMARY KEY, v int, w text");
    db.ok("CREATE TYPE u (x int)");
    db.ok(F);
    db.ok("CREATE FUNCTION f (s text) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE lua AS ''");
    db.ok("CREATE FUNCTION h (a int) RETURNS NULL ON NULL INPUT RETURNS bigint LANGUAGE lua AS ''");
    db.ok("CREATE FUNCTION \"G\" (u u) RETURNS NULL ON NULL INPUT RETURNS u LANGUAGE lua AS ''");
    db.ok("CREATE AGGREGATE a (int) SFUNC f STYPE int INITCOND 5");
    db.ok("CREATE AGGREGATE b (int) SFUNC f STYPE int FINALFUNC h");
    db.ok("CREATE AGGREGATE p (int) SFUNC f STYPE int REDUCEFUNC f INITCOND 0");
    for (k, v) in [("1", "10"), ("2", "20"), ("3", "null")] {
        db.ok(&format!("INSERT INTO t (k, v, w) VALUES ({k}, {v}, 'w')"));
    }
    db
}

/// Before: the function was made, and a node ended at each read of `system_schema.functions`.
#[test]
fn arguments_whose_types_have_names_longer_than_a_key_are_refused() {
    let mut db = database();
    let tuple = format!("tuple<{}>", vec!["int"; 14_000].join(", "));
    let rest = "CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS ''";
    let error = db.err(&format!("CREATE FUNCTION long (a {tuple}) {rest}"));
    assert!(error.starts_with("the types of the arguments have names of 7"), "{error}");
    let error = db.err(&format!("CREATE AGGREGATE long ({tuple}) SFUNC f STYPE int"));
    assert!(error.starts_with("the types of the arguments have names of 7"), "{error}");
    let short = format!("tuple<{}>", vec!["int"; 10_000].join(", "));
    db.ok(&format!("CREATE FUNCTION long (a {short}) {rest}"));
}

/// Before: the field had another name, and the initial value none that is known.
#[test]
fn a_type_keeps_the_names_that_an_initial_value_is_written_in() {
    let mut db = database();
    db.ok("CREATE FUNCTION s (u u, v int) CALLED ON NULL INPUT RETURNS u LANGUAGE lua AS ''");
    db.ok("CREATE AGGREGATE first (int) SFUNC s STYPE u");
    db.ok("ALTER TYPE u RENAME x TO z");
    db.ok("CREATE AGGREGATE second (int) SFUNC s STYPE u INITCOND {z: 1}");
    assert_eq!(
        db.err("ALTER TYPE u RENAME z TO x"),
        "Cannot alter user type ks.u as it is still used in INITCOND by aggregates ks.second"
    );
}

#[test]
fn what_cannot_be_made_or_dropped_is_refused_in_the_words_of_cassandra() {
    let mut db = database();
    let create = |rest: &str| format!("CREATE FUNCTION {rest}");
    let int = "CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS ''";
    for (text, error) in [
        (F.to_owned(), "Function 'f' already exists"),
        (
            "CREATE OR REPLACE FUNCTION f (a int, b int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS ''".into(),
            "Function 'f' must have RETURNS NULL ON NULL INPUT directive",
        ),
        (
            "CREATE OR REPLACE FUNCTION f (a int, b int) CALLED ON NULL INPUT RETURNS text LANGUAGE lua AS ''".into(),
            "Cannot replace function 'f', the new return type text is not compatible with the return type int of existing function",
        ),
        (
            "CREATE OR REPLACE FUNCTION IF NOT EXISTS f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS ''".into(),
            "Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives",
        ),
        (create(&format!("x (a int, a int) {int}")), "Duplicate argument names for given function x with argument names [a, a]"),
        (create(&format!("x (a frozen<list<int>>) {int}")), "Argument 'frozen<list<int>>' cannot be frozen; remove frozen<> modifier from 'frozen<list<int>>'"),
        (create("x (a int) CALLED ON NULL INPUT RETURNS frozen<list<int>> LANGUAGE lua AS ''"), "Return type 'frozen<list<int>>' cannot be frozen; remove frozen<> modifier from 'frozen<list<int>>'"),
        (create(&format!("x (a nosuch) {int}")), "Unknown type ks.nosuch"),
        (create(&format!("nosuch.x (a int) {int}")), "Keyspace 'nosuch' doesn't exist"),
        (create(&format!("system.x (a int) {int}")), "System keyspace 'system' is not user-modifiable"),
        (create(&format!("a (a int) {int}")), "Function 'a' cannot replace an aggregate"),
        (create("x (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS ''"), "Language 'java' is not supported"),
        (create("x (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE javascript AS ''"), "Language 'javascript' is not supported"),
        (create("x (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'wrong'"), "could not compile"),
        (create(&format!("{} (a int) {int}", "x".repeat(223))), "Function name must be 1 to 222 characters long (got 223)"),
        ("CREATE AGGREGATE c (int) SFUNC f STYPE int FINALFUNC nosuch".into(), "Final function ks.nosuch(int) doesn't exist"),
        ("CREATE AGGREGATE c (int) SFUNC f STYPE int REDUCEFUNC h".into(), "Reduce function ks.h(int, int) doesn't exist"),
        ("CREATE AGGREGATE nosuch.c (int) SFUNC f STYPE int".into(), "Keyspace nosuch doesn't exist"),
        ("CREATE AGGREGATE c (text) SFUNC f STYPE text".into(), "State function ks.f(text, text) doesn't exist"),
        ("CREATE AGGREGATE c () SFUNC h STYPE int INITCOND 1".into(), "State function ks.h(int) return type must be the same as the first argument type - check STYPE, argument and return types"),
        ("CREATE AGGREGATE c (frozen<list<int>>) SFUNC f STYPE int".into(), "Argument 'frozen<list<int>>' cannot be frozen; remove frozen<> modifier from 'frozen<list<int>>'"),
        ("CREATE AGGREGATE c (int) SFUNC f STYPE int INITCOND 'x'".into(), "Invalid STRING constant (x) for \"(dummy)\" of type int"),
        ("CREATE AGGREGATE c (int) SFUNC f STYPE int INITCOND f(1, 2)".into(), "INITCOND must be a constant"),
        ("CREATE AGGREGATE a (int) SFUNC f STYPE int".into(), "Aggregate 'a' already exists"),
        ("CREATE AGGREGATE h (int) SFUNC f STYPE int".into(), "Aggregate 'h' cannot replace a function"),
        ("DROP FUNCTION f".into(), "'DROP FUNCTION f' matches multiple function definitions; specify the argument types by issuing a statement like 'DROP FUNCTION f (type, type, ...)'. You can use cqlsh 'DESCRIBE FUNCTION f' command to find all overloads"),
        ("DROP FUNCTION f(int)".into(), "Function 'ks.f(int)' doesn't exist"),
        ("DROP FUNCTION f(nosuch)".into(), "Unknown type ks.nosuch"),
        ("DROP FUNCTION nosuch.f".into(), "Function 'nosuch.f' doesn't exist"),
        ("DROP FUNCTION a".into(), "Function 'ks.a' doesn't exist"),
        ("DROP FUNCTION f(int, int)".into(), "Function 'ks.f(int, int)' is still referenced by aggregates ks.a, ks.b, ks.p"),
        ("DROP FUNCTION h".into(), "Function 'ks.h' is still referenced by aggregates ks.b"),
        ("DROP AGGREGATE h".into(), "Aggregate 'ks.h' doesn't exist"),
        ("DROP AGGREGATE a(text)".into(), "Aggregate 'ks.a(text)' doesn't exist"),
        ("DROP TYPE u".into(), "Cannot drop user type 'ks.u' as it is still used by functions ks.G"),
    ] {
        let found = db.err(&text);
        assert!(found.starts_with(error), "{text}: {found}");
    }
    for text in [
        "CREATE FUNCTION IF NOT EXISTS f (a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS ''",
        "CREATE AGGREGATE IF NOT EXISTS a (int) SFUNC f STYPE int",
        "CREATE OR REPLACE AGGREGATE a (int) SFUNC f STYPE int INITCOND null",
        "DROP FUNCTION IF EXISTS f(int)",
        "DROP AGGREGATE IF EXISTS nosuch.a",
        "DROP AGGREGATE a(int)",
        "DROP AGGREGATE b",
        "DROP AGGREGATE p",
        "DROP FUNCTION f(int, int)",
        "DROP FUNCTION f",
        "DROP FUNCTION \"G\"",
        "DROP TYPE u",
    ] {
        db.ok(text);
    }
}

#[test]
fn a_call_means_what_its_arguments_fit() {
    let mut db = database();
    db.ok("CREATE FUNCTION abs (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS ''");
    db.ok("CREATE FUNCTION fails (a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS 'fails'");
    for (text, rows) in [
        ("SELECT f(v, k) FROM t WHERE k = 1", "11"),
        ("SELECT ks.f(v, 2), f(k, k) FROM t WHERE k = 1", "12, 2"),
        ("SELECT h(v) FROM t WHERE k = 3", "null"),
        ("SELECT f(v, 1) FROM t WHERE k = 3", "1"),
        ("SELECT fails(v) FROM t WHERE k = 3", "null"),
        ("SELECT abs(v), system.abs(-1) FROM t WHERE k = 1", "10, 1"),
        ("SELECT f(f(k, 1), f(1, 1)) FROM t WHERE k = f(0, 1)", "4"),
        ("SELECT a(v), b(v), p(v), sum(v) FROM t", "35, 30, 30, 30"),
        ("SELECT a(v), b(v) FROM t WHERE k = 9", "5, null"),
        ("SELECT f(a(v), 1), a(f(v, 1)) FROM t", "36, 38"),
        ("SELECT k, a(v) FROM t WHERE k = 2 GROUP BY k", "2, 25"),
    ] {
        assert_eq!(db.ok(text), rows, "{text}");
    }
    db.ok("INSERT INTO t (k, v) VALUES (f(2, 2), f(1, 1))");
    db.ok("UPDATE t SET v = f(3, 3) WHERE k = f(2, 2)");
    assert_eq!(db.ok("SELECT v FROM t WHERE k = 4"), "6");
    let known = "none of its type signatures match (known type signatures: ks.f : (int, int) -> int, ks.f : (text) -> text)";
    for (text, error) in [
        ("SELECT f(1) FROM t", format!("Invalid call to function f, {known}")),
        ("SELECT f(v, w) FROM t", format!("Invalid call to function f, {known}")),
        (
            "SELECT h(w) FROM t",
            "Type error: w cannot be passed as argument 0 of function ks.h of type int".into(),
        ),
        (
            "SELECT h() FROM t",
            "Invalid number of arguments in call to function ks.h: 1 required but 0 provided"
                .into(),
        ),
        (
            "SELECT * FROM t WHERE k = h(1)",
            "Type error: cannot assign result of function ks.h (type bigint) to k (type int)"
                .into(),
        ),
        (
            "SELECT * FROM t WHERE k = a(1)",
            "Aggregation function are not supported in the where clause".into(),
        ),
        (
            "SELECT a(sum(v)) FROM t",
            "aggregate functions cannot be used as arguments of aggregate functions".into(),
        ),
        ("SELECT system.f(v, v) FROM t", "Unknown function 'system.f'".into()),
        ("SELECT nosuch.f(v, v) FROM t", "Unknown function 'nosuch.f'".into()),
        ("SELECT fails(v) FROM t WHERE k = 1", "it fails".into()),
    ] {
        assert_eq!(db.err(text), error, "{text}");
    }
}

/// As `DescribeStatement` of Cassandra 5.0.9 answered, and each of them makes the same again.
#[test]
fn functions_are_described_as_statements_that_make_them_again() {
    let mut db = database();
    db.ok("CREATE FUNCTION \"token\" (\"A\" tuple<int, int>) CALLED ON NULL INPUT RETURNS tuple<int, text> LANGUAGE lua AS 'return $$'");
    let describe = |db: &Database, text: &str| {
        let Statement::Describe(one) = crate::lang::parse(text).expect(text).statement else {
            panic!("{text}")
        };
        match describe(&one, &db.schema, Some("ks"), |_| false) {
            Ok(Described::Names(names)) => names.iter().map(|name| name.row().join(" ")).collect(),
            Ok(Described::Elements(rows)) => {
                rows.iter().map(|element| element.row().join(" | ")).collect()
            }
            other => vec![format!("{other:?}")],
        }
    };
    assert_eq!(
        describe(&db, "DESCRIBE FUNCTIONS"),
        [
            "ks function f(int, int)",
            "ks function f(text)",
            "ks function \"G\"(u)",
            "ks function h(int)",
            "ks function \"token\"(tuple<int, int>)"
        ]
    );
    assert_eq!(
        describe(&db, "DESCRIBE FUNCTION \"token\""),
        [
            "ks | function | \"token\"(tuple<int, int>) | CREATE FUNCTION ks.\"token\"(\"A\" tuple<int, int>)\n    CALLED ON NULL INPUT\n    RETURNS tuple<int, text>\n    LANGUAGE lua\n    AS 'return $$';"
        ]
    );
    assert_eq!(
        describe(&db, "DESCRIBE AGGREGATE b"),
        [
            "ks | aggregate | b(int) | CREATE AGGREGATE ks.b(int)\n    SFUNC f\n    STYPE int\n    FINALFUNC h;"
        ]
    );
    assert_eq!(
        describe(&db, "DESCRIBE FUNCTION nosuch"),
        ["Err(\"User defined function 'nosuch' not found in 'ks'\")"]
    );
    let before = db.schema.keyspace("ks").expect("it is there").clone();
    let statements = describe(&db, "DESCRIBE KEYSPACE ks");
    db.ok("DROP KEYSPACE ks");
    for row in statements {
        let statement = row.rsplit(" | ").next().expect("a row").to_owned();
        db.ok(&statement);
    }
    let after = db.schema.keyspace("ks").expect("it is there");
    assert_eq!((&after.functions, &after.aggregates), (&before.functions, &before.aggregates));
}

/// Before: a prepared call of a built-in function went on calling it when a user had made one of its name.
#[test]
fn a_call_that_would_mean_another_function_is_told_from_one_that_would_not() {
    let mut db = database();
    let prepared = |db: &Database, text: &str| {
        crate::prepare::prepare(text, &db.schema, Some("ks")).expect(text).called
    };
    let abs = prepared(&db, "SELECT abs(v), abs(k) FROM t");
    let f = prepared(&db, "UPDATE t SET v = f(1, 2) WHERE k = 1");
    assert_eq!((abs.len(), f.len()), (1, 1));
    let same = |db: &Database| [&abs[0], &f[0]].map(|name| name.is_same_in(&db.schema));
    db.ok("CREATE FUNCTION g (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS ''");
    assert_eq!(same(&db), [true, true]);
    db.ok("CREATE FUNCTION abs (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS ''");
    assert_eq!(same(&db), [false, true]);
    db.ok("CREATE OR REPLACE FUNCTION f (s text) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE lua AS ' '");
    assert_eq!(same(&db), [false, false]);
    db.ok("DROP FUNCTION abs");
    assert_eq!(same(&db), [true, false]);
}

/// Before: each call looked for all overloads, copied their types, and compared their bodies with those of the call
/// before: 80 GB for 16 KiB of text.
#[test]
fn the_overloads_of_a_name_are_looked_for_once() {
    const OVERLOADS: usize = 100;
    const ARGUMENTS: usize = 10;
    const CALLS: usize = 200;
    let mut db = Database::with("k int PRIMARY KEY, v int");
    for number in 0..OVERLOADS {
        let ty = |at: usize| if number >> at & 1 == 0 { "int" } else { "text" };
        let arguments: Vec<String> = (0..ARGUMENTS).map(|at| format!("a{at} {}", ty(at))).collect();
        db.ok(&format!(
            "CREATE FUNCTION f ({}) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS ''",
            arguments.join(", ")
        ));
    }
    let call = format!("f({})", ["v"; ARGUMENTS].join(","));
    let text = format!("SELECT {}, ks.{call} FROM t", vec![call.as_str(); CALLS].join(", "));
    let (steps, prepared) =
        crate::steps::steps_of(|| crate::prepare::prepare(&text, &db.schema, Some("ks")));
    assert_eq!(prepared.expect("it is right").called.len(), 1);
    // Each call looks at the types of a few overloads, until one fits, and copies those of one.
    assert!(
        (OVERLOADS..OVERLOADS + CALLS * ARGUMENTS * 5).contains(&steps),
        "{steps} overloads and types"
    );
}

/// Before: a name that was there could have any number of overloads.
#[test]
fn overloads_count_among_all_functions() {
    let mut db = Database::with("k int PRIMARY KEY");
    // One overload for each number, of which each bit is the type of an argument.
    let create = |number: usize| {
        let bit = |at: u32| if number >> at & 1 == 0 { "int" } else { "text" };
        let arguments: Vec<String> = (0..11).map(|at| format!("a{at} {}", bit(at))).collect();
        format!(
            "CREATE OR REPLACE FUNCTION f ({}) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS ''",
            arguments.join(", ")
        )
    };
    for number in 0..crate::limits::FUNCTIONS_MAX {
        db.ok(&create(number));
    }
    let error = db.err(&create(crate::limits::FUNCTIONS_MAX));
    assert_eq!(error, "a node has at most 1024 functions and aggregates of users");
    db.ok(&create(0));
}

/// Before: each part of the rows began with the `INITCOND`, so it counted once for each core.
#[test]
fn the_first_state_counts_once_however_many_parts_there_are() {
    let mut db = database();
    db.ok("CREATE AGGREGATE q (int) SFUNC f STYPE int REDUCEFUNC f INITCOND 5");
    db.ok("CREATE AGGREGATE r (int) SFUNC f STYPE int REDUCEFUNC f");
    assert_eq!(db.ok("SELECT q(v), r(v) FROM t"), "35, 30");
    assert_eq!(db.ok("SELECT q(v), r(v) FROM t WHERE k = 9"), "5, null");
    // A part without rows has no state that a reduce function could be asked about.
    let strict = "(a int, b int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS ''";
    db.ok(&format!("CREATE FUNCTION strict {strict}"));
    db.ok("CREATE AGGREGATE s (int) SFUNC f STYPE int REDUCEFUNC strict");
    assert_eq!(db.ok("SELECT s(v) FROM t"), "30");
}

/// Before: a function that takes no nulls was called with the empty value of a number.
#[test]
fn the_empty_value_of_a_number_is_null_to_a_function() {
    let mut db = database();
    db.ok("CREATE FUNCTION fails (a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS 'fails'");
    db.ok("INSERT INTO t (k, v, w) VALUES (5, blob_as_int(0x), '')");
    assert_eq!(db.ok("SELECT fails(v), f(v, 1) FROM t WHERE k = 5"), "null, 1");
}

#[test]
fn a_function_that_only_groups_is_called_for_each_row() {
    let mut db = Database::with("k int, c timestamp, PRIMARY KEY (k, c)");
    db.ok("CREATE FUNCTION slow (a int) CALLED ON NULL INPUT RETURNS duration LANGUAGE lua AS ''");
    let calls_users = |by: &str| {
        let text = format!("SELECT count(*) FROM t WHERE k = 1 GROUP BY k, floor(c, {by})");
        let prepared = crate::prepare::prepare(&text, &db.schema, db.keyspace.as_deref());
        let crate::prepare::Statement::Select(plan) = prepared.expect("it compiles").statement
        else {
            panic!("a SELECT")
        };
        plan.selection.calls_users
    };
    assert!(calls_users("ks.slow(1)"));
    assert!(!calls_users("1h"));
}

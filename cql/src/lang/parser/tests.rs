//! Statements, the trees they must become, and the mistakes that must be told.

use proptest::prelude::*;

use super::super::ast::*;
use super::*;
use crate::limits::TOKENS_MAX;

fn statement(text: &str) -> Statement {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).statement
}

fn select(text: &str) -> Select {
    match statement(text) {
        Statement::Select(select) => *select,
        other => panic!("{text}: {other:?}"),
    }
}

fn modification(text: &str) -> Modification {
    match statement(text) {
        Statement::Modification(modification) => *modification,
        other => panic!("{text}: {other:?}"),
    }
}

fn column(name: &str) -> Expr {
    Expr::Column(name.into())
}

fn integer(text: &str) -> Expr {
    Expr::Literal(Literal { kind: LiteralKind::Integer, text: text.into() })
}

#[test]
fn drivers_first_statements_are_read() {
    for text in [
        "SELECT * FROM system.peers_v2",
        "SELECT * FROM system.local WHERE key='local'",
        "SELECT * from system_virtual_schema.keyspaces",
        "SELECT peer, data_center FROM system.peers USING TIMEOUT 2000ms",
        "SELECT keyspace_name, toJson(replication) AS replication FROM system_schema.keyspaces",
        "SELECT (int)1 FROM system.local",
        "SELECT * FROM system_schema.views WHERE keyspace_name = ? AND base_table_name = ? ALLOW FILTERING",
        "USE \"Ks\"",
        "BEGIN BATCH APPLY BATCH",
        "BEGIN UNLOGGED BATCH INSERT INTO t (a) VALUES (1); UPDATE t SET a = 2 WHERE k = 1; APPLY BATCH;",
        "DESCRIBE KEYSPACES;",
        "DESC FULL SCHEMA WITH INTERNALS",
        "select json, distinct from t",
        "select distinct distinct from t",
        "select count(*) as count from t where token(a, b) > token(1, ?) limit ?",
        "update t using ttl ? and timestamp 1 set a = a + {1}, b[3] = 4, c.d = 5, e = [1] + e, f -= 1 where k in ?",
        "delete a, b[1], c.d from t using timestamp 3 where k = 1 and (a, b) in ((1, 2), ?) if exists",
        "insert into t json ? default unset if not exists using ttl 3",
        "create table if not exists ks.t (a int, b text static, c frozen<map<text, list<int>>>, primary key ((a, b), c),) with comment = 'x' and clustering order by (c desc) and compaction = {'class': 'X', 'n': 3}",
        "alter table t drop (a, b) using timestamp 4",
        "create index on t (a) using 'x' with options = {'a': 'b'}",
        "grant select on t to r",
    ] {
        statement(text);
    }
}

#[test]
fn select_keeps_every_clause() {
    let found = select(
        "SELECT a, b.c AS d, ttl(e), CAST(f AS text), m['k'], 1 FROM \"K\".T WHERE a = 1 AND (b) > (2) \
         GROUP BY a ORDER BY b DESC, c PER PARTITION LIMIT 2 LIMIT :n ALLOW FILTERING BYPASS CACHE",
    );
    assert_eq!(found.table, QualifiedName { keyspace: Some("K".into()), name: "t".into() });
    assert_eq!(found.items.len(), 6);
    assert_eq!(found.items[0].expr, column("a"));
    let field = Expr::Part(Box::new(column("b")), Box::new(Access::Field("c".into())));
    assert_eq!(found.items[1], SelectItem { expr: field, alias: Some("d".into()) });
    assert_eq!(found.items[2].expr, Expr::Call(QualifiedName::local("ttl"), vec![column("e")]));
    assert_eq!(found.items[3].expr, Expr::Cast(Box::new(column("f")), TypeName::Native("text")));
    assert_eq!(found.relations[1].target, Target::Columns(vec!["b".into()]));
    assert_eq!(found.order_by[0].order, Order::Descending);
    assert_eq!(found.order_by[1].order, Order::Ascending);
    assert_eq!(found.per_partition_limit, Some(integer("2")));
    assert_eq!(found.limit, Some(Expr::Bind(0)));
    assert!(found.allow_filtering && found.bypass_cache);
}

#[test]
fn markers_are_numbered_as_written() {
    let parsed = parse("UPDATE t SET a = :x, b = ? WHERE k IN :y AND c = f(?, :x)").unwrap();
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(parsed.binds, [named("x"), None, named("y"), None, named("x")]);
}

#[test]
fn precedence_is_that_of_arithmetic() {
    let found = select("SELECT a + 2 * -b - 1, a -1 FROM t");
    let op = |op, l, r| Expr::Binary(op, Box::new(l), Box::new(r));
    let product = op(BinaryOp::Multiply, integer("2"), Expr::Negate(Box::new(column("b"))));
    let sum = op(BinaryOp::Add, column("a"), product);
    assert_eq!(found.items[0].expr, op(BinaryOp::Subtract, sum, integer("1")));
    assert_eq!(found.items[1].expr, op(BinaryOp::Add, column("a"), integer("-1")));
}

#[test]
fn braces_and_parentheses_are_told_apart() {
    let Modification::Insert(insert) = modification(
        "INSERT INTO t (a) VALUES ({}, {1, 2}, {1: 2}, {x: 1}, [1], (1, 2), (list<int>)[1], f(), ks.f(1), {:b: ?})",
    ) else {
        panic!()
    };
    let InsertValues::Columns(_, values) = insert.values else { panic!() };
    assert_eq!(values[0], Expr::Set(vec![]));
    assert!(matches!(&values[1], Expr::Set(items) if items.len() == 2));
    assert!(matches!(&values[2], Expr::Map(_)));
    assert!(matches!(&values[3], Expr::Udt(_)));
    assert!(matches!(&values[4], Expr::List(_)));
    assert!(matches!(&values[5], Expr::Tuple(items) if items.len() == 2));
    assert!(matches!(&values[6], Expr::TypeHint(TypeName::List(_), _)));
    assert!(matches!(&values[7], Expr::Call(_, arguments) if arguments.is_empty()));
    assert!(matches!(&values[8], Expr::Call(name, _) if name.keyspace.is_some()));
    assert!(matches!(&values[9], Expr::Map(_)));
}

#[test]
fn updates_of_a_column_by_itself_are_understood() {
    let Modification::Update(update) = modification(
        "UPDATE t SET a = a + 1, b = b -2, c = [1] + c, d = d - {1}, e = f() WHERE k = 1",
    ) else {
        panic!()
    };
    let assigns: Vec<&Assign> = update.assignments.iter().map(|a| &a.assign).collect();
    assert_eq!(assigns[0], &Assign::Add(integer("1")));
    assert_eq!(assigns[1], &Assign::Add(integer("-2")));
    assert!(matches!(assigns[2], Assign::Prepend(Expr::List(_))));
    assert!(matches!(assigns[3], Assign::Subtract(Expr::Set(_))));
    assert!(matches!(assigns[4], Assign::Set(Expr::Call(..))));
}

/// The opening words are those of Apache Cassandra 5.0.9 for the same text.
#[test]
fn errors_begin_as_cassandras() {
    for (text, opening) in [
        ("SELECT * FORM ks.t", "line 1:9 mismatched input 'FORM' expecting K_FROM"),
        ("SELEC * FROM t", "line 1:0 no viable alternative at input 'SELEC'"),
        ("SELECT * FROM", "line 0:-1 no viable alternative at input '<EOF>'"),
        ("SELECT FROM t", "line 1:7 no viable alternative at input 'FROM'"),
        ("SELECT * FROM t WHERE", "line 0:-1 no viable alternative at input '<EOF>'"),
        ("SELECT * FROM t WHERE a == 1", "line 1:25 no viable alternative at input '='"),
        ("SELECT * FROM t; SELECT", "line 1:17 mismatched input 'SELECT' expecting EOF"),
        ("SELECT * FROM t LIMIT x", "line 1:22 no viable alternative at input 'x'"),
        ("SELECT * FROM t ALLOW", "line 0:-1 mismatched input '<EOF>' expecting K_FILTERING"),
        ("CREATE TABLE t (a int, b foo bar)", "line 1:29 mismatched input 'bar' expecting ')'"),
        ("CREATE TABLE t", "line 0:-1 mismatched input '<EOF>' expecting '('"),
        (
            "CREATE TABLE x(a int primary key) with foo = {'a':?}",
            "Invalid property value: ? for property: 'a' (bind variables are not supported in DDL queries)",
        ),
        (
            "CREATE TABLE x(a int primary key) with comment = 'a' and comment = 'b'",
            "Multiple definitions for property 'comment'",
        ),
        ("DROP", "line 0:-1 no viable alternative at input '<EOF>'"),
        ("INSERT INTO t (a) VALUES (1", "line 0:-1 mismatched input '<EOF>' expecting ')'"),
        ("INSERT INTO t a VALUES (1)", "line 1:14 no viable alternative at input 'a'"),
        (
            "UPDATE t SET a = b + 1 WHERE k=1",
            "Only expressions of the form X = X +<value> are supported.",
        ),
        ("UPDATE t SET a = 1", "line 0:-1 mismatched input '<EOF>' expecting K_WHERE"),
        ("BEGIN BATCH SELECT", "line 1:12 mismatched input 'SELECT' expecting K_APPLY"),
        ("USE select", "line 1:4 no viable alternative at input 'select'"),
        ("CREATE KEYSPACE foo", "line 0:-1 mismatched input '<EOF>' expecting K_WITH"),
        ("CREATE TABLE ?.t (a int)", "Bind variables cannot be used for keyspace names"),
        ("SELECT * FROM ?", "Bind variables cannot be used for table names"),
        ("SELECT \"\" FROM t", "line 1:7 no viable alternative at input '\"\"'"),
        ("SELECT * FROM t LIMIT 1 LIMIT 2", "line 1:24 mismatched input 'LIMIT' expecting EOF"),
        (
            "DELETE FROM t USING TTL 3 WHERE a = 1",
            "line 1:20 mismatched input 'TTL' expecting K_TIMESTAMP",
        ),
        ("", "line 0:-1 no viable alternative at input '<EOF>'"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.starts_with(opening), "{text}: {error}");
    }
}

#[test]
fn errors_show_the_place_and_the_nearest_word() {
    let check = |text: &str, expected: &str| {
        assert_eq!(parse(text).unwrap_err().to_string(), expected);
    };
    check(
        "SELECT * FORM ks.t",
        "line 1:9 mismatched input 'FORM' expecting K_FROM\n  SELECT * FORM ks.t\n           ^^^^ Did you mean FROM?",
    );
    check(
        "SELECT *\nFROM t\nWHER a = 1",
        "line 3:0 mismatched input 'WHER' expecting EOF\n  WHER a = 1\n  ^^^^ Did you mean WHERE?",
    );
    check(
        "UPDAET t",
        "line 1:0 no viable alternative at input 'UPDAET'\n  UPDAET t\n  ^^^^^^ Did you mean UPDATE?",
    );
}

#[test]
fn a_statement_of_many_megabytes_is_parsed() {
    let long = "x".repeat(15 << 20);
    statement(&format!("INSERT INTO t (k, v) VALUES (1, '{long}')"));
    let many = "1, ".repeat(100_000);
    statement(&format!("INSERT INTO t (k, v) VALUES (1, [{many} 2])"));
}

#[test]
fn depth_and_size_are_limited() {
    for text in [
        format!("SELECT {}a{} FROM t", "(".repeat(100_000), ")".repeat(100_000)),
        format!("SELECT {}a FROM t", "- ".repeat(100_000)),
        format!("SELECT {}a FROM t", "(int)".repeat(100_000)),
        format!("SELECT a{} FROM t", " + 1".repeat(100_000)),
        format!("SELECT a{} FROM t", ".b".repeat(100_000)),
        format!("SELECT * FROM t WHERE {}a = 1", "(".repeat(100_000)),
        format!("SELECT * FROM t WHERE a = 1{}", " AND a = 1".repeat(10_000)),
        format!("CREATE TABLE t (a {}int)", "list<".repeat(100_000)),
        format!("SELECT * FROM t WHERE a IN ({}", "?,".repeat(70_000)),
        format!("SELECT a FROM t WHERE k = {}1{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("CREATE TABLE t (a {}int)", "frozen<".repeat(100_000)),
        format!("CREATE TABLE t (a {}int)", "frozen<tuple<".repeat(100_000)),
        format!("SELECT a FROM t WHERE k = (map<int, {}int) 1", "list<".repeat(100_000)),
        ",".repeat(TOKENS_MAX + 1),
        " ".repeat(STATEMENT_BYTES_MAX + 1),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.len() < 400, "{error}");
    }
    let text = format!("SELECT {}a{} FROM t", "f(".repeat(10), ")".repeat(10));
    statement(&text);
}

#[test]
fn properties_and_types_are_kept_as_written() {
    let Statement::Schema(SchemaStatement::CreateTable(table)) = statement(
        "CREATE TABLE t (a varchar PRIMARY KEY, b ks.\"U\", c vector<float, 3>, d 'Custom') \
         WITH caching = {'keys': 'ALL'} AND gc_grace_seconds = 10 AND COMPACT STORAGE",
    ) else {
        panic!()
    };
    assert_eq!(table.columns[0].type_name, TypeName::Native("text"));
    let user = QualifiedName { keyspace: Some("ks".into()), name: "U".into() };
    assert_eq!(table.columns[1].type_name, TypeName::User(user));
    let vector = TypeName::Vector(Box::new(TypeName::Native("float")), 3);
    assert_eq!(table.columns[2].type_name, vector);
    assert_eq!(table.columns[3].type_name, TypeName::Custom("Custom".into()));
    assert_eq!(table.primary_keys, [(vec!["a".to_owned()], vec![])]);
    assert!(table.compact_storage);
    let caching = PropertyValue::Map(vec![("keys".into(), "ALL".into())]);
    assert_eq!(table.properties[0], ("caching".into(), caching));
    assert_eq!(table.properties[1].1, PropertyValue::Text("10".into()));
}

/// Pieces of CQL, so that random statements reach deep into the grammar.
const PIECES: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "AND",
    "INSERT INTO",
    "VALUES",
    "UPDATE",
    "SET",
    "DELETE",
    "IF",
    "EXISTS",
    "CREATE TABLE",
    "ALTER TABLE",
    "ADD",
    "DROP",
    "WITH",
    "BEGIN BATCH",
    "APPLY BATCH",
    "DESCRIBE",
    "token",
    "IN",
    "a",
    "b",
    "\"C\"",
    "'x'",
    "1",
    "-2",
    "3.5",
    "?",
    ":n",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "=",
    ",",
    ".",
    ":",
    ";",
    "+",
    "-",
    "*",
    "null",
    "true",
    "int",
    "list",
    "frozen",
    "0xff",
    "1h",
    "count",
    "ttl",
    "json",
    "distinct",
    "CAST",
    "AS",
    "PRIMARY KEY",
    "LIMIT",
    "USING",
    "TTL",
    "TIMESTAMP",
    "..",
    "é",
    "'",
    "$$",
    "--",
    "/*",
    "\n",
];

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_mix_of_words_panics(picks in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let text: Vec<&str> = picks.iter().map(|pick| PIECES[*pick]).collect();
        if let Err(error) = parse(&text.join(" ")) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

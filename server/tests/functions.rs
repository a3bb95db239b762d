//! Functions and aggregates of users through a socket, on a server of three shards: in Lua, in WebAssembly, after a
//! restart, and where one of them does all that it can to stay.
#![expect(clippy::unwrap_used, reason = "a failed check is what a test is for")]

mod rig;

use std::fs;

use cql::frame::client::{Answer, Reply};
use cql::frame::header::Header;
use rig::{Client, Server, data_dir};

const CONFIG: &str = "user_defined_functions_enabled: true\n";

/// Rows of the table: each core owns some.
const ROWS: i32 = 60;

/// The ints of an answer, or its error.
fn ints(client: &mut Client, text: &str) -> Result<Vec<Option<i32>>, String> {
    let read = |header: &Header, body: &[u8]| match Answer::decode(header, body).unwrap().reply {
        Reply::Error { code, text, .. } => Err(format!("{code:#06x} {text}")),
        Reply::Rows(rows) => Ok(rows
            .cells()
            .map(|cell| cell.unwrap().map(|bytes| i32::from_be_bytes(bytes.try_into().unwrap())))
            .collect()),
        _ => Ok(Vec::new()),
    };
    client.answer(text, read).unwrap()
}

fn one(client: &mut Client, text: &str) -> i32 {
    match ints(client, text).as_deref() {
        Ok([Some(value)]) => *value,
        other => panic!("{text}: {other:?}"),
    }
}

fn ok(client: &mut Client, text: &str) {
    assert_eq!(ints(client, text), Ok(Vec::new()), "{text}");
}

fn create(client: &mut Client) {
    ok(
        client,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    ok(client, "CREATE TABLE ks.t (k int PRIMARY KEY, v int, w int)");
    for k in 0..ROWS {
        ok(client, &format!("INSERT INTO ks.t (k, v) VALUES ({k}, {k})"));
    }
    ok(client, "UPDATE ks.t SET w = 5 WHERE k = 1");
    let strict = "RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE";
    for text in [
        format!("CREATE FUNCTION ks.twice (a int) {strict} lua AS 'return 2 * a'"),
        format!("CREATE FUNCTION ks.plus (a int, b int) {strict} lua AS 'return a + b'"),
        format!(
            "CREATE FUNCTION ks.next (a int) {strict} wasm AS '(module (func (export \"next\") (param i32) (result i32) \
             (i32.add (local.get 0) (i32.const 1))))'"
        ),
        format!("CREATE FUNCTION ks.endless (a int) {strict} lua AS 'while true do end'"),
        format!(
            "CREATE FUNCTION ks.circle (a int) {strict} wasm AS '(module (func (export \"circle\") (param i32) \
             (result i32) (loop (br 0)) (i32.const 1)))'"
        ),
        "CREATE FUNCTION ks.either (a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS \
         'return (a or 0) + (b or 0)'"
            .to_owned(),
        "CREATE AGGREGATE ks.total (int) SFUNC plus STYPE int FINALFUNC twice INITCOND 5".to_owned(),
        "CREATE AGGREGATE ks.reduced (int) SFUNC plus STYPE int REDUCEFUNC plus INITCOND 5".to_owned(),
        "CREATE AGGREGATE ks.beside (int) SFUNC either STYPE int REDUCEFUNC plus".to_owned(),
        "CREATE FUNCTION ks.known (a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return b or a'"
            .to_owned(),
        "CREATE AGGREGATE ks.sum_known (int) SFUNC known STYPE int REDUCEFUNC plus".to_owned(),
    ] {
        ok(client, &text);
    }
}

fn check(client: &mut Client) {
    let sum: i32 = (0..ROWS).sum();
    assert_eq!(one(client, "SELECT ks.twice(v) FROM ks.t WHERE k = 21"), 42);
    assert_eq!(one(client, "SELECT ks.next(v) FROM ks.t WHERE k = 41"), 42);
    assert_eq!(one(client, "SELECT ks.next(ks.twice(v)) FROM ks.t WHERE k = 20"), 41);
    assert_eq!(one(client, "SELECT v FROM ks.t WHERE k = ks.next(6)"), 7);
    assert_eq!(one(client, "SELECT ks.total(v) FROM ks.t"), 2 * (sum + 5));
    // On three cores this was `sum + 15`.
    assert_eq!(one(client, "SELECT ks.reduced(v) FROM ks.t"), sum + 5);
    assert_eq!(one(client, "SELECT ks.beside(v) FROM ks.t"), sum);
    // A part of nulls alone, put together with another by a function that takes none, made null of both.
    assert_eq!(one(client, "SELECT ks.sum_known(w) FROM ks.t"), 5);
    assert_eq!(one(client, "SELECT ks.beside(v) FROM ks.t WHERE k IN (1, 2, 3)"), 6);
    let mut all = ints(client, "SELECT ks.next(v) FROM ks.t").unwrap();
    all.sort_unstable();
    assert_eq!(all, (1..=ROWS).map(Some).collect::<Vec<_>>());
    for name in ["endless", "circle"] {
        for rows in ["WHERE k = 1", "WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8)", ""] {
            let error = ints(client, &format!("SELECT ks.{name}(v) FROM ks.t {rows}")).unwrap_err();
            assert!(error.starts_with("0x1400 "), "{name}: {error}");
            assert!(error.contains("more than"), "{name}: {error}");
        }
    }
    let error = ints(client, "INSERT INTO ks.t (k, v) VALUES (1, ks.endless(1))").unwrap_err();
    assert!(error.starts_with("0x1400 "), "{error}");
}

#[test]
fn functions_in_both_languages_and_their_aggregates_run_on_three_shards() {
    let folder = data_dir();
    let (data, config) = (folder.path().join("data"), folder.path().join("messina.yaml"));
    fs::create_dir(&data).unwrap();
    fs::write(&config, CONFIG).unwrap();
    let server = Server::start_configured(&data, 3, &config);
    let mut client = Client::ready(&server);
    create(&mut client);
    check(&mut client);
    assert_eq!(server.stop(), Some(0));
    let server = Server::start_configured(&data, 2, &config);
    check(&mut Client::ready(&server));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn functions_are_refused_where_they_are_not_switched_on() {
    let folder = data_dir();
    let server = Server::start(folder.path());
    let mut client = Client::ready(&server);
    ok(
        &mut client,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    let text =
        "CREATE FUNCTION ks.f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return a'";
    let error = ints(&mut client, text).unwrap_err();
    assert!(error.starts_with("0x2200 User-defined functions are disabled"), "{error}");
    assert_eq!(server.stop(), Some(0));
}

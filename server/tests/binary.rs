//! The binary as a user meets it: it starts, serves, refuses what is wrong, and stops.

mod rig;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use cql::frame::request::{
    Batch, BatchKind, BatchStatement, BatchText, Execute, Parameters, Prepare, Request, ValueList,
    Values,
};
use cql::frame::{Consistency, Flags, Value, Version};
use rig::{Client, Server, command, data_dir, free_port};

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn it_tells_its_version_and_its_flags() {
    let run = |flag| {
        let output = Command::new(env!("CARGO_BIN_EXE_messina")).arg(flag).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run("--version"), concat!("messina ", env!("CARGO_PKG_VERSION"), "\n"));
    let help = run("--help");
    for flag in ["--data-dir", "--shards", "--memory", "--listen", "--commitlog-sync", "--config"] {
        assert!(help.contains(flag), "{flag}");
    }
}

#[test]
fn data_outlives_a_stop_and_has_one_owner() {
    let folder = data_dir();
    let server = Server::start(folder.path());
    let second = command(folder.path(), free_port()).output().unwrap();
    assert!(refusal(&second).contains("in use by another messina"), "{second:?}");
    let taken = command(&folder.path().join("other"), server.address.port()).output().unwrap();
    assert!(refusal(&taken).contains("in use by another program"), "{taken:?}");

    let mut client = Client::ready(&server);
    let keyspace = "CREATE KEYSPACE ks WITH replication = \
                    {'class': 'SimpleStrategy', 'replication_factor': 1}";
    assert_eq!(client.query(keyspace), "RESULT");
    assert_eq!(client.query("CREATE TABLE ks.t (k int PRIMARY KEY, v text)"), "RESULT");
    for k in 0..10 {
        let insert = format!("INSERT INTO ks.t (k, v) VALUES ({k}, 'value')");
        assert_eq!(client.query(&insert), "RESULT");
    }
    assert_eq!(server.stop(), Some(0));
    assert_eq!(client.send(&[]), "closed");

    let server = Server::start(folder.path());
    let mut client = Client::ready(&server);
    assert_eq!(client.query("SELECT * FROM ks.t"), "10 rows");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn data_that_cannot_be_trusted_are_not_served() {
    let folder = data_dir();
    assert_eq!(Server::start(folder.path()).stop(), Some(0));
    // The version is after a checksum and the magic.
    let layout = folder.path().join("layout");
    let mut bytes = std::fs::read(&layout).unwrap();
    bytes[16] += 1;
    std::fs::write(&layout, &bytes).unwrap();
    let newer = command(folder.path(), free_port()).output().unwrap();
    assert!(refusal(&newer).contains("it was written by a newer version"), "{newer:?}");
    bytes[16] -= 1;
    bytes[40] ^= 1;
    std::fs::write(&layout, &bytes).unwrap();
    let rotten = command(folder.path(), free_port()).output().unwrap();
    assert!(refusal(&rotten).contains("it does not verify"), "{rotten:?}");
    bytes[40] ^= 1;
    std::fs::write(&layout, &bytes).unwrap();
    std::fs::remove_file(folder.path().join("schema")).unwrap();
    let missing = command(folder.path(), free_port()).output().unwrap();
    assert!(refusal(&missing).contains("schema"), "{missing:?}");
}

#[test]
fn bad_input_gets_its_error_and_the_server_lives() {
    let folder = data_dir();
    let server = Server::start(folder.path());
    let mut early = Client::connect(&server);
    let unexpected = early.query("SELECT * FROM system.local");
    assert_eq!(unexpected, "0x000a Unexpected message QUERY, expecting STARTUP or OPTIONS");
    let mut future = Client::connect(&server);
    let refused = future.send(&[0x42, 0, 0, 0, 5, 0, 0, 0, 0]);
    let words = "0x000a Invalid or unsupported protocol version (66); \
                 supported versions are (3/v3, 4/v4, 5/v5)";
    assert_eq!(refused, words);
    assert_eq!(future.send(&[]), "closed");

    let mut client = Client::ready(&server);
    let cut = client.send(&[4, 0, 0, 1, 7, 0, 0, 0, 4, 0, 0, 0, 9]);
    assert!(cut.starts_with("0x000a Not enough bytes"), "{cut}");
    let text = client.send(&[4, 0, 0, 1, 7, 0, 0, 0, 6, 0, 0, 0, 2, 0xFF, 0xFF]);
    assert!(text.starts_with("0x000a Cannot decode string as UTF8"), "{text}");
    let mut large = vec![4, 0, 0, 1, 7, 1, 0, 0, 1];
    large.resize(9 + (1 << 24) + 1, 0);
    let refused = client.send(&large);
    assert!(refused.starts_with("0x2200 Request is too big: length 16777217"), "{refused}");
    let syntax = client.query("SELEKT * FROM system.local");
    assert!(syntax.starts_with("0x2000 line 1:0"), "{syntax}");
    let keyspace = "CREATE KEYSPACE ks WITH replication = \
                    {'class': 'SimpleStrategy', 'replication_factor': 1}";
    assert_eq!(client.query(keyspace), "RESULT");
    let unheeded = client.query(
        "CREATE TABLE ks.t (k int PRIMARY KEY) WITH compaction = \
         {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'X9'}",
    );
    assert!(unheeded.starts_with("0x2300 "), "{unheeded}");
    assert_eq!(client.query("SELECT * FROM system.local"), "1 rows");
    assert_eq!(server.stop(), Some(0));
}

const KEYSPACE: &str = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// A server of this test with a keyspace `ks`, and a client of it.
fn serve(folder: &Path) -> (Server, Client) {
    let server = Server::start(folder);
    let mut client = Client::ready(&server);
    assert_eq!(client.query(&format!("CREATE KEYSPACE ks {KEYSPACE}")), "RESULT");
    (server, client)
}

fn plain() -> Parameters<'static> {
    Parameters::plain(Consistency::One, Version::V4)
}

/// Before: a type was written out for each of 100,000 columns, gigabytes of it, and the process ended.
#[test]
fn a_short_statement_does_not_ask_for_a_description_without_end() {
    let folder = data_dir();
    let (server, mut client) = serve(folder.path());
    let fields: Vec<String> = (0..2000).map(|field| format!("field_{field} int")).collect();
    assert_eq!(client.query(&format!("CREATE TYPE ks.u ({})", fields.join(", "))), "RESULT");
    let table = "CREATE TABLE ks.t (k int PRIMARY KEY, v frozen<u>)";
    assert_eq!(client.query(table), "RESULT");
    assert_eq!(client.query("SELECT v, v, v FROM ks.t"), "0 rows");
    let columns = vec!["v"; 100_000].join(",");
    let refused = client.query(&format!("SELECT {columns} FROM ks.t"));
    assert!(refused.starts_with("0x2200 the types of its result take more than"), "{refused}");
    let markers = vec!["?"; 60_000].join(",");
    let text = format!("SELECT k FROM ks.t WHERE v IN ({markers}) ALLOW FILTERING");
    let refused = client.ask(&Request::Prepare(Prepare { text: &text, keyspace: None }));
    assert!(refused.starts_with("0x2200 the types of its bind markers take more"), "{refused}");
    assert_eq!(server.stop(), Some(0));
}

/// Before: the plans of all statements were made, whatever they took together.
#[test]
fn a_batch_does_not_compile_more_than_one_statement_may_take() {
    let folder = data_dir();
    let (data, config) = (folder.path().join("data"), folder.path().join("messina.yaml"));
    fs::create_dir(&data).unwrap();
    // A test may not depend on how fast its machine is.
    fs::write(&config, "write_request_timeout: 600s\n").unwrap();
    let server = Server::start_configured(&data, 1, &config);
    let mut client = Client::ready(&server);
    assert_eq!(client.query(&format!("CREATE KEYSPACE ks {KEYSPACE}")), "RESULT");
    client.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int)");
    let mut ask = |texts: &[String]| {
        let values = Values::none(Version::V4);
        let items: Vec<BatchStatement<'_>> = texts
            .iter()
            .map(|text| BatchStatement { text: BatchText::Query(text), values })
            .collect();
        let mut buffer = Vec::new();
        let kind = BatchKind::Unlogged;
        let batch = Batch::new(kind, &items, plain(), Version::V4, &mut buffer);
        client.ask(&Request::Batch(batch))
    };
    let one = "INSERT INTO ks.t (k, v) VALUES (1, 1)".to_owned();
    assert_eq!(ask(&vec![one; 5_000]), "RESULT", "one plan for all");
    let texts: Vec<String> =
        (0..60_000).map(|key| format!("DELETE FROM ks.t WHERE k = {key}")).collect();
    let refused = ask(&texts);
    assert!(refused.starts_with("0x2200 the different statements of one batch take"), "{refused}");
    assert_eq!(server.stop(), Some(0));
}

/// Before: each marker was looked for among all values, minutes of a core that serves others, too.
#[test]
fn tracing_finds_the_values_of_many_markers() {
    let folder = data_dir();
    let (server, mut client) = serve(folder.path());
    client.query("CREATE TABLE ks.t (k int PRIMARY KEY)");
    let markers = vec!["?"; 60_000].join(",");
    let text = format!("SELECT k FROM ks.t WHERE k IN ({markers})");
    let prepare = Request::Prepare(Prepare { text: &text, keyspace: None });
    assert_eq!(client.ask(&prepare), "RESULT");
    let mut list = ValueList::new();
    (0..60_000).for_each(|_| list.push_named("x", Value::Null));
    let parameters = Parameters { values: list.as_values(Version::V4), ..plain() };
    let id = cql::digest(text.as_bytes());
    let execute = Execute { id: &id, result_metadata_id: None, parameters };
    let mut frame = Vec::new();
    Request::Execute(execute).put(Version::V4, 1, Flags::TRACING, &mut frame);
    let refused = client.send(&frame);
    assert!(refused.starts_with("0x"), "{refused}");
    assert_eq!(client.query("SELECT * FROM system.local"), "1 rows");
    assert_eq!(server.stop(), Some(0));
}

/// Before: they changed the keyspace that the connection used when they were executed.
#[test]
fn schema_changes_mean_the_keyspace_that_they_were_prepared_in() {
    let folder = data_dir();
    let (server, mut client) = serve(folder.path());
    for keyspace in ["a", "b"] {
        client.query(&format!("CREATE KEYSPACE {keyspace} {KEYSPACE}"));
        client.query(&format!("CREATE TABLE {keyspace}.t (k int PRIMARY KEY)"));
    }
    client.query("USE a");
    assert_eq!(
        client.ask(&Request::Prepare(Prepare { text: "DROP TABLE t", keyspace: None })),
        "RESULT"
    );
    client.query("USE b");
    let id = cql::digest(b"a\0DROP TABLE t");
    let execute = Execute { id: &id, result_metadata_id: None, parameters: plain() };
    assert_eq!(client.ask(&Request::Execute(execute)), "RESULT");
    assert_eq!(client.query("SELECT * FROM b.t"), "0 rows");
    assert!(client.query("SELECT * FROM a.t").starts_with("0x2200"));
    assert_eq!(server.stop(), Some(0));
}

//! The schema as clients read it: DESCRIBE, computed tables, events, and the keyspace of unqualified names.

use cql::frame::request::{EventKinds, Register};

use super::super::batch::at_once;
use super::*;
use crate::limits::SCHEMA_CHANGE_TIMEOUT;
use crate::statements::{StatementCounts, StatementName};

/// More than are computed or described within a pass.
const TABLES: usize = 100;

/// A keyspace with many tables, of which some have an index and every twentieth a view.
fn with_tables() -> Bench {
    let memory = 64 << 20;
    let (shards, log_segment_bytes) = (2, 1 << 20);
    let mut bench =
        Bench::with(ManualConfig { shards, shard_memory_bytes: memory, log_segment_bytes });
    for n in 1..TABLES {
        let create = format!("CREATE TABLE ks.t{n} (k int PRIMARY KEY, a int, b text)");
        assert_eq!(bench.query(&create), format!("CREATED TABLE ks t{n}"));
        if n % 10 == 0 {
            bench.query(&format!("CREATE INDEX ON ks.t{n} (a)"));
        }
        if n % 20 == 0 {
            let select = format!("SELECT * FROM ks.t{n} WHERE a IS NOT NULL AND k IS NOT NULL");
            let create = format!("CREATE MATERIALIZED VIEW ks.v{n} AS {select} PRIMARY KEY (a, k)");
            assert_eq!(bench.query(&create), format!("CREATED TABLE ks v{n}"));
        }
    }
    bench
}

impl Bench {
    /// All pages of so many rows, joined; and how many there were.
    fn pages(&mut self, text: &str, rows: u32) -> (String, usize) {
        let (mut state, mut pages) = (Vec::new(), Vec::new());
        loop {
            let before = (!state.is_empty()).then_some(&state[..]);
            let (page, next) = self.page_of(text, rows, before);
            // The last page may be empty: the one before it was full.
            pages.extend(Some(page.trim_end_matches("more").trim_end_matches(", ").to_owned()));
            state = next;
            if state.is_empty() {
                let count = pages.len();
                pages.retain(|page| !page.is_empty());
                return (pages.join(", "), count);
            }
        }
    }
}

/// Before: the texts of all elements were made within the pass, again for each page.
#[test]
fn what_is_described_in_steps_is_what_pages_tell() {
    let mut bench = with_tables();
    let whole = bench.query("DESCRIBE KEYSPACE ks");
    let (pages, count) = bench.pages("DESCRIBE KEYSPACE ks", 1);
    // The keyspace, its tables, nine indexes and four views.
    assert_eq!(count, 1 + TABLES + 9 + 4);
    assert!(pages == whole, "the pages tell something else");
    for (kind, of) in [("table", TABLES), ("index", 9), ("materialized_view", 4)] {
        assert_eq!(whole.matches(&format!("ks {kind} ")).count(), of, "{kind}");
    }
    let table = whole.find("ks table t20 ").expect("it is told");
    let (index, view) = (whole.find("ks index t20_a_idx "), whole.find("ks materialized_view v20"));
    assert!(index.is_some_and(|at| at > table) && view > index, "each behind its table");
    let tables = bench.query("DESCRIBE TABLES");
    assert_eq!(tables.matches("ks table ").count(), TABLES);
    assert!(bench.pages("DESCRIBE TABLES", 70).0 == tables);
    // More than the pass makes at once, from the beginning and from a paging state.
    let (pages, count) = bench.pages("DESCRIBE KEYSPACE ks", 70);
    assert_eq!((pages == whole, count), (true, 2));
    assert_eq!(bench.server.held(), (0, 0, 0));
}

/// Before: all rows of a computed table were made within the pass, and again by a task if they were many.
#[test]
fn computed_tables_of_many_tables_are_whole_in_steps_and_in_pages() {
    let mut bench = with_tables();
    let of_ks = |what: &str, table: &str| {
        format!("SELECT {what} FROM system_schema.{table} WHERE keyspace_name = 'ks'")
    };
    // The table of three columns, the others, and the views.
    let columns = 3 * (TABLES + 4);
    for (table, rows) in [("tables", TABLES), ("columns", columns), ("indexes", 9), ("views", 4)] {
        assert_eq!(bench.query(&of_ks("count(*)", table)), rows.to_string(), "{table}");
        let name = if table == "views" { "view_name" } else { "table_name" };
        let whole = bench.query(&of_ks(name, table));
        assert_eq!(whole.split(", ").count(), rows, "{table}");
        let (pages, count) = bench.pages(&of_ks(name, table), 1);
        assert_eq!((pages == whole, count), (true, rows), "{table}");
        // Over all keyspaces a page says how many rows suffice.
        let all = format!("SELECT {name} FROM system_schema.{table}");
        let whole = bench.query(&all);
        for rows in [1, 7, 70, 101] {
            assert!(bench.pages(&all, rows).0 == whole, "{table} in pages of {rows}");
        }
    }
    // Those of the server's own tables that are stored, too.
    for (table, ranges) in [("size_estimates", 16), ("table_estimates", 16)] {
        let of_ks = format!("SELECT table_name FROM system.{table} WHERE keyspace_name = 'ks'");
        let whole = bench.query(&of_ks);
        assert_eq!(whole.split(", ").count(), ranges * (TABLES + 4), "{table}");
        assert!(bench.pages(&of_ks, 100).0 == whole, "{table}");
        let all = format!("SELECT table_name, range_start FROM system.{table}");
        let whole = bench.query(&all);
        assert!(bench.pages(&all, 700).0 == whole, "{table} of all keyspaces");
    }
    let usage = bench.query("SELECT table_name FROM system_views.disk_usage");
    assert!(usage.split(", ").count() >= TABLES + 4);
    assert!(bench.pages("SELECT table_name FROM system_views.disk_usage", 30).0 == usage);
    let filtered = "SELECT column_name FROM system_schema.columns WHERE table_name = 't50' \
                    ALLOW FILTERING";
    assert_eq!(bench.query(filtered), "a, b, k");
    assert_eq!(bench.server.held(), (0, 0, 0));
}

/// Before: the keyspace was that of when they ran, and `DROP TABLE t` dropped another one's.
#[test]
fn schema_statements_take_the_keyspace_of_when_they_were_prepared() {
    let mut bench = Bench::new(1);
    bench.query(
        "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    assert_eq!(bench.query("USE other"), "keyspace other");
    let create = bench.prepare("CREATE TABLE t (k int PRIMARY KEY)");
    let describe = bench.prepare("DESCRIBE TABLE t");
    let drop = bench.prepare("DROP TABLE t");
    assert_eq!(bench.query("USE ks"), "keyspace ks");
    assert_eq!(bench.execute(&create, &[]), "CREATED TABLE other t");
    assert!(bench.execute(&describe, &[]).contains("CREATE TABLE other.t ("));
    assert!(bench.query("DESCRIBE TABLE t").contains("CREATE TABLE ks.t ("));
    assert_eq!(bench.execute(&drop, &[]), "DROPPED TABLE other t");
    let gone = bench.execute(&describe, &[]);
    assert!(gone.contains("'t' not found in keyspace 'other'"), "{gone}");
    assert!(bench.query("DESCRIBE TABLE t").contains("CREATE TABLE ks.t ("), "it is there");
}

/// Before: a second REGISTER took the kinds of the first one back.
#[test]
fn a_client_that_registers_twice_hears_of_both() {
    let mut bench = Bench::new(1);
    let schema = EventKinds { schema: true, ..EventKinds::default() };
    let topology = EventKinds { topology: true, ..EventKinds::default() };
    for (number, registered) in [[schema, topology], [topology, schema]].into_iter().enumerate() {
        let client = bench.server.connect(0, VERSION);
        for kinds in registered {
            let mut frame = Vec::new();
            Request::Register(Register { kinds }).put(VERSION, 1, Flags(0), &mut frame);
            bench.server.take(client, &frame);
            bench.server.run_until_answered(client);
            bench.server.sent(client, |_| ());
        }
        bench.query(&format!("CREATE TABLE ks.u{number} (k int PRIMARY KEY)"));
        let event = bench.server.sent(client, <[u8]>::to_vec);
        assert!(event.windows(13).any(|bytes| bytes == b"SCHEMA_CHANGE"), "{event:?}");
    }
}

/// Before: TRUNCATE was bounded by nothing, and each that waited held a copy of its table and its CREATE texts.
#[test]
fn truncates_that_wait_are_counted_with_changes_of_the_schema() {
    let mut bench = Bench::new(1);
    for number in 0..SCHEMA_CHANGES_WAITING_MAX + 3 {
        let create = format!("CREATE TABLE ks.t{number} (k int PRIMARY KEY)");
        let text = if number % 2 == 0 { "TRUNCATE ks.t" } else { &*create };
        bench.begin_as(bench.client, text);
    }
    bench.server.run_until_answered(bench.client);
    let answers = bench.answers_to(bench.client);
    let refused: Vec<&String> =
        answers.iter().map(|(_, said)| said).filter(|said| said.starts_with("error")).collect();
    assert_eq!((answers.len(), refused.len()), (SCHEMA_CHANGES_WAITING_MAX + 3, 3), "{refused:?}");
    let told = refused.iter().all(|said| said.contains("wait on this core: try again"));
    assert!(told, "{refused:?}");
    assert_eq!(bench.query("TRUNCATE ks.t"), "void");
}

/// Before: what it empties was looked up, and the statements of its snapshot were made, before it began to wait.
#[test]
fn a_truncate_behind_a_drop_of_its_table_finds_none() {
    let mut bench = Bench::new(1);
    bench.begin_as(bench.client, "DROP TABLE ks.t");
    bench.begin_as(bench.client, "TRUNCATE ks.t");
    bench.server.run_until_answered(bench.client);
    let said: Vec<String> =
        bench.answers_to(bench.client).into_iter().map(|(_, said)| said).collect();
    assert_eq!(said, ["DROPPED TABLE ks t", "error: table t does not exist"]);
}

/// Before: a change looked every 2 ms whether the log of the schema is there, and TRUNCATEs took it from each other in
/// between.
#[test]
fn a_change_beside_a_stream_of_truncates_comes_in_its_turn() {
    const STREAM: usize = 100;
    let mut bench = Bench::new(2);
    let others = bench.server.connect(1, VERSION);
    (0..STREAM).for_each(|_| bench.begin_as(others, "TRUNCATE ks.t"));
    let mut emptied = 0;
    while emptied < 3 {
        if !bench.server.run_once() {
            bench.server.advance(Duration::from_micros(100));
        }
        emptied += bench.answers_to(others).len();
    }
    bench.begin_as(bench.client, "CREATE TABLE ks.u (k int PRIMARY KEY)");
    bench.server.run_until_answered(bench.client);
    emptied += bench.answers_to(others).len();
    assert!(emptied < 10, "{emptied} TRUNCATEs came before it");
}

/// Before: WRITE_FAILURE of the type SIMPLE.
#[test]
fn a_truncate_that_fails_is_told_so() {
    let sim = SimDisk::new(1, Faults::default());
    let mut bench = Bench::make(&Disk::Sim(sim.clone()), &small(1));
    bench.query("INSERT INTO ks.t (k, c) VALUES (1, 1)");
    bench.server.flush();
    sim.set_faults(Faults { fail_op: Some(1), ..Faults::default() });
    let said = bench.query("TRUNCATE ks.t");
    assert!(said.starts_with("error: Error during truncate: "), "{said}");
}

/// Clients are told of in steps, by every core, and each once.
#[test]
fn every_client_of_every_core_is_shown_however_many_there_are() {
    let mut bench = Bench::new(2);
    for client in 1..300 {
        bench.server.connect(client % 2, VERSION);
    }
    for table in ["system_views.clients", "system.clients"] {
        assert_eq!(bench.query(&format!("SELECT count(*) FROM {table}")), "300");
        let text = format!("SELECT port FROM {table} WHERE port >= 290 ALLOW FILTERING");
        let mut ports: Vec<String> = bench.query(&text).split(", ").map(str::to_owned).collect();
        ports.sort();
        let expected: Vec<String> = (290..300).map(|port| port.to_string()).collect();
        assert_eq!(ports, expected);
    }
}

/// Before: each had a list of the whole schema from when it began, however many were asked for, and clients that were
/// gone had theirs made, too.
#[test]
fn long_descriptions_take_turns_and_none_is_made_for_a_client_that_is_gone() {
    let mut bench = with_tables();
    let executor = bench.server.executor(0);
    let text = "DESCRIBE FULL SCHEMA";
    let whole = bench.query(text);
    let errors = || {
        let counted = executor.statements.all().into_iter();
        let of_text = |(name, _): &(StatementName, StatementCounts)| {
            name.fingerprint.to_uppercase().contains(text)
        };
        counted.filter(of_text).map(|(_, counts)| counts.errors).sum::<u64>()
    };
    let turn = at_once(executor.describe_turn.take(1));
    let gone = bench.server.connect(0, VERSION);
    for client in [bench.client, gone, bench.client] {
        bench.begin_as(client, text);
    }
    bench.server.disconnect(gone);
    while bench.server.run_once() {}
    assert!(bench.answers_to(bench.client).is_empty(), "they wait");
    bench.begin_as(bench.client, "DESCRIBE TABLE ks.t1");
    assert_eq!(bench.answers_to(bench.client).len(), 1, "a short one does not wait");
    assert_eq!(errors(), 0);
    drop(turn);
    let answers = bench.answers();
    assert_eq!(answers.len(), 2);
    assert!(answers.values().all(|said| *said == whole));
    while bench.server.run_once() {}
    assert_eq!(errors(), 1, "that of the client that is gone");
    let turn = at_once(executor.describe_turn.take(1));
    bench.begin_as(bench.client, text);
    bench.server.advance(SCHEMA_CHANGE_TIMEOUT);
    let said: Vec<String> = bench.answers().into_values().collect();
    assert_eq!(said, ["error: Not described within 60 s, with the long descriptions before it"]);
    drop(turn);
    assert_eq!(bench.query(text), whole);
}

//! What is compiled, and waits: counted until its request ends.

use super::super::batch::at_once;
use super::*;
use crate::limits::{
    COMPILED_AT_ONCE_BYTES, SHORT_PREPARES_MAX, VIRTUAL_READS_MAX,
    WAITING_STATEMENTS_MEMORY_DIVISOR,
};

const REFUSED: &str = "error: Request not taken: long texts, long values";

/// A SELECT of `ks.t` by a text that is compiled at once, and takes more than a third of what may wait.
fn wide(of: &str) -> String {
    let most = small(1).shard_memory_bytes / WAITING_STATEMENTS_MEMORY_DIVISOR;
    // A column and its comma are two tokens.
    let columns = vec!["v"; most * 2 / 5 / (2 * cql::limits::PLAN_TOKEN_BYTES)];
    let text = format!("SELECT {} FROM ks.t {of}", columns.join(", "));
    assert!(text.len() < COMPILED_AT_ONCE_BYTES);
    text
}

impl Bench {
    /// How many of the answers to what was begun are refusals for what waits, and how many others there are.
    fn refused_and_others(&mut self) -> (usize, usize) {
        let answers = self.answers();
        let refused = answers.values().filter(|said| said.starts_with(REFUSED)).count();
        (refused, answers.len() - refused)
    }
}

/// Before: a read that waited kept what its text was compiled to, which nothing counted.
#[test]
fn statements_of_reads_that_wait_are_counted_until_their_reads_end() {
    // Others than ranges do not wait for the simulated disk.
    for of in ["", "WHERE v > 3 ALLOW FILTERING"] {
        let (mut bench, text) = (Bench::new(1), wide(of));
        for before in ["", "EXPLAIN "] {
            for _ in 0..2 {
                // What is on disk and not in the cache waits.
                bench.query("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)");
                bench.server.flush();
                let text = format!("{before}{text}");
                (0..5).for_each(|_| bench.begin_as(bench.client, &text));
                assert_eq!(bench.refused_and_others(), (3, 2), "{before}{of}");
            }
        }
        // What is prepared is counted where it is kept.
        let id = bench.prepare(&text);
        bench.query("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)");
        bench.server.flush();
        let parameters = Parameters::plain(Consistency::One, VERSION);
        let execute = Execute { id: &id, result_metadata_id: None, parameters };
        (0..5).for_each(|_| bench.begin(&Request::Execute(execute)));
        assert_eq!(bench.refused_and_others(), (0, 5), "{of}");
    }
}

/// Before: the same of a long text when it was compiled.
#[test]
fn statements_of_long_texts_whose_reads_wait_are_counted() {
    let mut bench = Bench::new(1);
    let text = format!("{} /* {} */", wide(""), " ".repeat(COMPILED_AT_ONCE_BYTES));
    bench.begin_as(bench.client, &text);
    let most = small(1).shard_memory_bytes / WAITING_STATEMENTS_MEMORY_DIVISOR;
    let others = bench.server.executor(0).waiting_statements.hold(most * 2 / 3).unwrap();
    assert_eq!(bench.refused_and_others(), (1, 0));
    drop(others);
    bench.begin_as(bench.client, &text);
    assert_eq!(bench.refused_and_others(), (0, 1), "there is space again");
}

/// Before: the core that has the rows of another's client kept what it had compiled, too.
#[test]
fn statements_of_reads_that_wait_for_other_cores_are_counted() {
    let mut bench = Bench::new(2);
    for k in 0..9 {
        bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 1)"));
    }
    bench.server.flush();
    let k = (0..9).find(|k| {
        let before = bench.server.executor(0).selects_forwarded.get();
        bench.query(&format!("SELECT c FROM ks.t WHERE k = {k} AND c = 2"));
        bench.server.executor(0).selects_forwarded.get() > before
    });
    bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({}, 2, 1)", k.unwrap()));
    bench.server.flush();
    let text = wide(&format!("WHERE k = {}", k.unwrap()));
    (0..5).for_each(|_| bench.begin_as(bench.client, &text));
    assert_eq!(bench.refused_and_others(), (3, 2));
}

/// Before: a PREPARE kept its text and its statement while the other cores were asked, and nothing counted them.
#[test]
fn texts_that_are_prepared_are_counted_until_every_core_has_them() {
    let mut bench = Bench::new(2);
    let most = small(2).shard_memory_bytes / WAITING_STATEMENTS_MEMORY_DIVISOR;
    let spaces = " ".repeat(COMPILED_AT_ONCE_BYTES - 100);
    let text = |c: usize| format!("SELECT v FROM ks.t WHERE k = ? AND c = {c} /* {spaces} */");
    let own = bench.client;
    let fit = most / COMPILED_AT_ONCE_BYTES;
    bench.client = bench.server.connect(0, VERSION);
    for c in 0..fit {
        bench.begin(&Request::Prepare(Prepare { text: &text(c), keyspace: None }));
    }
    bench.server.disconnect(bench.client);
    bench.client = own;
    let more = Request::Prepare(Prepare { text: &text(fit), keyspace: None });
    bench.begin(&more);
    assert_eq!(bench.refused_and_others(), (1, 0));
    while bench.server.run_once() {}
    let id = bench.prepare(&text(fit));
    assert_eq!(bench.execute(&id, &[1]), "", "there is space again");
}

/// Before: a DESCRIBE that waited kept its text, which nothing counted.
#[test]
fn texts_of_long_descriptions_are_counted_until_these_are_made() {
    let mut bench = Bench::new(1);
    let executor = bench.server.executor(0);
    let turn = at_once(executor.describe_turn.take(1));
    // Two of these fit, and not three.
    let bytes = small(1).shard_memory_bytes / WAITING_STATEMENTS_MEMORY_DIVISOR * 2 / 5;
    let text = format!("DESCRIBE TABLES /* {} */", " ".repeat(bytes));
    for _ in 0..2 {
        // It leaves when its text is compiled.
        let client = bench.server.connect(0, VERSION);
        bench.begin_as(client, &text);
        while bench.server.run_once() {}
        bench.server.disconnect(client);
    }
    bench.begin_as(bench.client, &text);
    while bench.server.run_once() {}
    let said = bench.answers_to(bench.client);
    assert!(said.iter().any(|(_, said)| said.starts_with(REFUSED)), "{} answers", said.len());
    drop(turn);
    while bench.server.run_once() {}
    assert!(bench.query(&text).contains("ks table t"), "there is space again");
}

/// Before: each of thousands that wait had facts of all cores, up to 1 MB of each, which nothing counted.
#[test]
fn the_facts_of_a_few_virtual_tables_are_collected_at_a_time() {
    for (shards, table) in
        [(1, "statements"), (2, "statements"), (2, "clients"), (2, "disk_requests")]
    {
        let mut bench = Bench::new(shards);
        let executor = bench.server.executor(0);
        let text = format!("SELECT * FROM system_views.{table}");
        let turns = at_once(executor.virtual_reads.take(VIRTUAL_READS_MAX));
        for _ in 0..5 {
            bench.begin_as(bench.client, &text);
        }
        while bench.server.run_once() {}
        assert_eq!(executor.virtual_reads.waiting(), 5, "{table}");
        drop(turns);
        let answers = bench.answers();
        assert_eq!(answers.len(), 5);
        assert!(answers.values().all(|said| !said.starts_with("error")), "{answers:?}");
        assert_eq!(executor.virtual_reads.held(), 0);
        // What waits ends with its client.
        let turns = at_once(executor.virtual_reads.take(VIRTUAL_READS_MAX));
        let gone = bench.server.connect(0, VERSION);
        bench.begin_as(gone, &text);
        while bench.server.run_once() {}
        assert_eq!(executor.virtual_reads.waiting(), 1);
        bench.server.disconnect(gone);
        while bench.server.run_once() {}
        assert_eq!(executor.virtual_reads.waiting(), 0);
        drop(turns);
    }
}

/// Before: all of them asked the other cores at once, in the line of writes and reads.
#[test]
fn a_core_asks_the_others_for_some_prepares_at_a_time() {
    let mut bench = Bench::new(2);
    let executor = bench.server.executor(0);
    let turns = at_once(executor.short_prepares.take(SHORT_PREPARES_MAX - 1));
    for number in 0..5 {
        let text = &format!("SELECT v FROM ks.t WHERE k = {number}");
        bench.begin(&Request::Prepare(Prepare { text, keyspace: None }));
    }
    while executor.short_prepares.waiting() < 4 {
        assert!(bench.server.run_once());
    }
    assert_eq!(executor.short_prepares.held(), SHORT_PREPARES_MAX);
    drop(turns);
    assert_eq!(bench.answers().len(), 5);
    assert_eq!(executor.short_prepares.held(), 0);
}

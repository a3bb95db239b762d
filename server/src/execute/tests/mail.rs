//! What a core does for other cores, and for writes that are done or late, in one poll when its time is over.

use shard::limits::EFFORT_PER_CLOCK_READ;

use super::*;
use crate::limits::ANSWERS_PER_CLOCK_READ;

/// Reads of a partition of the second core, which `begin` asks of the first by its key, and sent; how many.
fn asked_of_the_other(bench: &mut Bench, begin: impl Fn(&mut Bench, i32)) -> usize {
    // No more than are forwarded at a time with so little memory (`PEER_ANSWER_BYTES_MAX`).
    const MANY: usize = 32;
    let of_the_other = |bench: &mut Bench, k: i32| {
        let before = bench.server.rows_read();
        begin(bench, k);
        let is_local = bench.server.rows_read() > before;
        bench.server.run_until_answered(bench.client);
        bench.answers_to(bench.client);
        !is_local
    };
    let k = (0..20).find(|k| of_the_other(bench, *k)).unwrap();
    (0..MANY).for_each(|_| begin(bench, k));
    bench.server.poll_out_of_time(0);
    MANY
}

impl Bench {
    /// Begins an EXECUTE of a statement whose one marker is a key.
    fn begin_by_key(&mut self, id: &[u8], k: i32) {
        let mut list = ValueList::new();
        list.push(Value::Bytes(&k.to_be_bytes()));
        let values = list.as_values(VERSION);
        let parameters = Parameters { values, ..Parameters::plain(Consistency::One, VERSION) };
        self.begin(&Request::Execute(Execute { id, result_metadata_id: None, parameters }));
    }

    /// How many rows each poll of the second core reads that has no time left.
    fn rows_of_polls(&mut self) -> Vec<u64> {
        let mut rows = Vec::new();
        loop {
            let before = self.server.rows_read();
            if !self.server.poll_out_of_time(1) {
                return rows;
            }
            rows.push(self.server.rows_read() - before);
        }
    }
}

/// Before: a core did up to 1,024 requests of other cores in one step.
#[test]
fn a_poll_without_time_does_a_few_short_requests_of_other_cores() {
    let mut bench = Bench::new(2);
    (0..20).for_each(|k| drop(bench.query(&format!("INSERT INTO ks.t (k, c) VALUES ({k}, 1)"))));
    let id = bench.prepare("SELECT c FROM ks.t WHERE k = ?");
    let asked = asked_of_the_other(&mut bench, |bench, k| bench.begin_by_key(&id, k));
    let rows = bench.rows_of_polls();
    // The first is asked behind what the core did before.
    assert!(rows.iter().all(|rows| *rows <= u64::from(EFFORT_PER_CLOCK_READ)), "{rows:?}");
    assert!(rows.len() <= asked / EFFORT_PER_CLOCK_READ as usize + 1, "{rows:?}");
    bench.server.run_until_answered(bench.client);
    assert_eq!(bench.answers_to(bench.client).len(), asked);
}

/// Before: eight were compiled and answered, which takes half a second if their constants take long.
#[test]
fn a_poll_without_time_compiles_one_text_of_another_core() {
    let mut bench = Bench::new(2);
    (0..20).for_each(|k| drop(bench.query(&format!("INSERT INTO ks.t (k, c) VALUES ({k}, 1)"))));
    let text = |k| format!("SELECT c FROM ks.t WHERE k = {k}");
    let asked = asked_of_the_other(&mut bench, |bench, k| bench.begin_as(bench.client, &text(k)));
    assert_eq!(bench.rows_of_polls(), vec![1; asked]);
    bench.server.run_until_answered(bench.client);
    assert_eq!(bench.answers_to(bench.client).len(), asked);
}

/// Before: the same, each of some hundred rows.
#[test]
fn a_poll_without_time_does_one_long_request_of_another_core() {
    const ROWS: usize = 200;
    let mut bench = Bench::new(2);
    for k in 0..20 {
        let rows: Vec<String> = (0..ROWS)
            .map(|c| format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {c}, 1);"))
            .collect();
        bench.query(&format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", rows.concat()));
    }
    for (what, of_rows) in [("count(*)", ""), ("c", "AND c < 3 AND v = 1 ALLOW FILTERING")] {
        let id = bench.prepare(&format!("SELECT {what} FROM ks.t WHERE k = ? {of_rows}"));
        let asked = asked_of_the_other(&mut bench, |bench, k| bench.begin_by_key(&id, k));
        assert_eq!(bench.rows_of_polls().len(), asked, "{what}");
        bench.server.run_until_answered(bench.client);
        assert_eq!(bench.answers_to(bench.client).len(), asked);
    }
}

/// More writes than are answered without a look at the clock.
const WRITES: usize = 3 * ANSWERS_PER_CLOCK_READ + 10;
/// How many of them each poll without time answers.
const IN_PARTS: [usize; 4] =
    [ANSWERS_PER_CLOCK_READ, ANSWERS_PER_CLOCK_READ, ANSWERS_PER_CLOCK_READ, 10];

/// Before: all writes of a commit were answered in one step, and all answers delivered in another.
#[test]
fn a_poll_without_time_answers_a_part_of_the_writes_of_a_commit() {
    let mut bench = Bench::new(1);
    let texts = |k| format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 1)");
    (0..WRITES).for_each(|k| bench.begin_as(bench.client, &texts(k)));
    while bench.server.run_tasks() {}
    let mut counts = Vec::new();
    while counts.iter().sum::<usize>() < WRITES {
        bench.server.poll_out_of_time(0);
        while let count @ 1.. = bench.server.deliver_out_of_time(0) {
            counts.push(count);
        }
        assert!(counts.len() < 10, "{counts:?}");
    }
    assert_eq!(counts, IN_PARTS);
    // Answers that wait all at once, of two clients.
    let other = bench.server.connect(0, VERSION);
    (0..WRITES).for_each(|k| bench.begin_as([bench.client, other][k % 2], &texts(k)));
    while bench.server.run_tasks() {}
    (0..4).for_each(|_| assert!(!bench.server.poll_out_of_time(0), "no mail, and no reads"));
    let delivered = [(); 4].map(|()| bench.server.deliver_out_of_time(0));
    assert_eq!(delivered, IN_PARTS);
    assert_eq!(bench.answers_to(other).len(), WRITES / 2);
}

/// The row that such a write has found may be long. Each is of a partition of its own, so that all are judged at once.
#[test]
fn a_poll_without_time_answers_one_write_that_has_found_its_row() {
    let mut bench = Bench::new(1);
    let text = |k| format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, {k}) IF NOT EXISTS");
    (0..10).for_each(|k| assert_eq!(bench.query(&text(k)), "true"));
    (0..10).for_each(|k| bench.begin_as(bench.client, &text(k)));
    while bench.server.run_tasks() {}
    let delivered = [(); 11].map(|()| {
        bench.server.poll_out_of_time(0);
        bench.server.deliver_out_of_time(0)
    });
    assert_eq!(delivered, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    let mut answers = bench.answers_to(bench.client);
    answers.sort();
    let answers: Vec<String> = answers.into_iter().map(|(_, answer)| answer).collect();
    let each: Vec<String> = (0..10).map(|k| format!("false {k} 1 {k}")).collect();
    assert_eq!(answers, each);
}

impl Bench {
    /// How many clients are told that they are late by each look without time, until there is nothing more to look at.
    pub(super) fn told_out_of_time(&mut self) -> Vec<usize> {
        let mut told = Vec::new();
        loop {
            let is_more = self.server.end_late_out_of_time(0, Duration::from_millis(5));
            told.push(self.server.deliver_out_of_time(0));
            if !is_more {
                return told;
            }
        }
    }
}

/// Before: all writes whose time was over were told so in one step.
#[test]
fn a_look_without_time_tells_a_part_of_the_late_writes() {
    let mut bench = Bench::new(1);
    for k in 0..WRITES {
        let text = format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 1) USING TIMEOUT 1ms");
        bench.begin_as(bench.client, &text);
    }
    assert_eq!(bench.told_out_of_time(), IN_PARTS);
    let said = bench.answers_to(bench.client);
    assert!(said.iter().all(|(_, said)| said.contains("timed out")), "{said:?}");
    while bench.server.run_once() {}
    assert_eq!(bench.query("SELECT count(*) FROM ks.t"), WRITES.to_string(), "they come to be");
}

/// Before: all sessions and all their reads that waited were looked at in one step, and those that were late woken.
#[test]
fn a_look_without_time_wakes_a_part_of_the_late_reads() {
    let mut bench = Bench::new(1);
    bench.query("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)");
    bench.server.flush();
    let clients = [bench.client, bench.server.connect(0, VERSION)];
    for number in 0..WRITES {
        let using = if number % 2 == 0 { 1 } else { 3_600_000 };
        let text = format!("SELECT v FROM ks.t USING TIMEOUT {using}ms");
        bench.begin_as(clients[number % 4 / 2], &text);
    }
    let is_more = |bench: &Bench| bench.server.end_late_out_of_time(0, Duration::from_millis(5));
    assert!(is_more(&bench), "some are woken");
    let late = WRITES / 2;
    for _ in 1..late / ANSWERS_PER_CLOCK_READ {
        assert!(is_more(&bench));
    }
    assert!(!is_more(&bench), "all are looked at");
    clients.iter().for_each(|client| bench.server.run_until_answered(*client));
    assert_eq!(bench.server.held(), (0, 0, 0));
}

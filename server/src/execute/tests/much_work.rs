//! Writes that take much work though their values are cheap to bind by length: they are bound beside the core, and
//! answered as if they were bound on it.

use super::super::batch::at_once;
use super::guardrails::set;
use super::long_values::{bench, int, list, list_of};
use super::*;

/// Deletes 300 times 300 rows: short, and more work than a core does at once.
const DELETE_MANY: &str = "DELETE FROM ks.p WHERE k IN ? AND c IN ?";

/// The same with few bytes in the record, as a batch over several partitions must have: what is deleted of the rows is
/// not set.
const CLEAR_MANY: &str = "DELETE l[?], s FROM ks.q WHERE k IN ? AND c IN ?";

/// Takes much work if the value is long.
const HASH: &str = "INSERT INTO ks.e (k, b) VALUES (?, mask_hash((blob) ?)) IF NOT EXISTS";

/// The values of `CLEAR_MANY`, with these keys of partitions and rows.
fn clear(keys: &[u8]) -> ValueList {
    let mut values = ValueList::new();
    values.push(Value::Unset);
    (0..2).for_each(|_| values.push(Value::Bytes(keys)));
    values
}

/// The list of 0 to 299, as the protocol has it.
fn three_hundred() -> Vec<u8> {
    list(0..300)
}

impl Bench {
    /// A server with the tables of what takes much work.
    fn with_rows_to_delete() -> Bench {
        let mut bench = bench(1);
        bench.query("CREATE TABLE ks.p (k int, c int, v int, PRIMARY KEY (k, c))");
        bench.query(
            "CREATE TABLE ks.q (k int, c int, s int static, l list<int>, PRIMARY KEY (k, c))",
        );
        bench.query("CREATE TABLE ks.e (k int PRIMARY KEY, b blob)");
        bench
    }

    /// Asserts that `delete` takes the rows 0 to 299 of the partitions 0 to 299 of `ks.p`, and nothing beside them.
    fn assert_deletes_rows(&mut self, delete: impl FnOnce(&mut Bench)) {
        let rows = [(0, 0, ""), (7, 300, "1"), (299, 299, ""), (300, 7, "1")];
        for (k, c, _) in rows {
            let insert = &format!("INSERT INTO ks.p (k, c, v) VALUES ({k}, {c}, 1)");
            assert_eq!(self.query(insert), "void");
        }
        delete(self);
        for (k, c, left) in rows {
            let select = &format!("SELECT v FROM ks.p WHERE k = {k} AND c = {c}");
            assert_eq!(self.query(select), left, "{select}");
        }
    }

    /// Asserts that `clear` takes the static values of the partitions 0 to 299 of `ks.q`, and nothing beside them.
    fn assert_clears_partitions(&mut self, clear: impl FnOnce(&mut Bench)) {
        let partitions = [(0, ""), (299, ""), (300, "1")];
        for (k, _) in partitions {
            let insert = &format!("INSERT INTO ks.q (k, s) VALUES ({k}, 1)");
            assert_eq!(self.query(insert), "void");
        }
        clear(self);
        for (k, left) in partitions {
            let select = &format!("SELECT s FROM ks.q WHERE k = {k}");
            assert_eq!(self.query(select), left, "{select}");
        }
    }

    fn execute_values(&mut self, id: &[u8], values: &ValueList) -> String {
        let plain = Parameters::plain(Consistency::One, VERSION);
        let parameters = Parameters { values: values.as_values(VERSION), ..plain };
        self.show(&Request::Execute(Execute { id, result_metadata_id: None, parameters }))
    }

    /// Sends a BATCH message of these statements with their values.
    fn batch_of(&mut self, statements: &[(&[u8], &ValueList)]) -> String {
        let statements: Vec<BatchStatement<'_>> = statements
            .iter()
            .map(|(id, list)| BatchStatement {
                text: BatchText::Prepared(id),
                values: list.as_values(VERSION),
            })
            .collect();
        let (parameters, mut items) = (Parameters::plain(Consistency::One, VERSION), Vec::new());
        let batch = Batch::new(BatchKind::Unlogged, &statements, parameters, VERSION, &mut items);
        self.show(&Request::Batch(batch))
    }
}

/// Before: a short EXECUTE held its core for as long as binding it took, up to 300 ms.
#[test]
fn a_short_write_that_takes_much_work_is_bound_beside_its_core() {
    let mut bench = Bench::with_rows_to_delete();
    let (many, few) = (three_hundred(), list(0..3));
    let id = bench.prepare(DELETE_MANY);
    assert_eq!(bench.execute_bytes(&id, &[&few, &few]), "void");
    assert_eq!(bench.bound_beside(), 0, "a short one");
    bench.assert_deletes_rows(|bench| {
        assert_eq!(bench.execute_bytes(&id, &[&many, &many]), "void");
    });
    assert_eq!(bench.bound_beside(), 1);
    let numbers: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let numbers = numbers.join(", ");
    let text = format!("DELETE FROM ks.p WHERE k IN ({numbers}) AND c IN ({numbers})");
    bench.assert_deletes_rows(|bench| assert_eq!(bench.query(&text), "void"));
    assert_eq!(bench.bound_beside(), 2);
    let id = bench.prepare(&format!("BEGIN BATCH {CLEAR_MANY}; APPLY BATCH"));
    assert_eq!(bench.execute_values(&id, &clear(&few)), "void");
    assert_eq!(bench.bound_beside(), 2, "a short one");
    bench.assert_clears_partitions(|bench| {
        assert_eq!(bench.execute_values(&id, &clear(&many)), "void");
    });
    assert_eq!(bench.bound_beside(), 3);
}

/// Before: a path counted as an element, however many digits its decimal had: 550 of 16 KB held a core for 2 s.
#[test]
fn a_write_with_long_decimals_in_its_keys_is_bound_beside_its_core() {
    let mut bench = Bench::with_rows_to_delete();
    bench.query("CREATE TABLE ks.m (k int PRIMARY KEY, m map<decimal, int>)");
    let decimal = |bytes: usize| [&int(0)[..], &vec![7; bytes]].concat();
    let id = bench.prepare("UPDATE ks.m SET m[?] = 1 WHERE k = 1");
    assert_eq!(bench.execute_bytes(&id, &[&decimal(1_000)]), "void");
    assert_eq!(bench.bound_beside(), 0, "a short one");
    assert_eq!(bench.execute_bytes(&id, &[&decimal(16_000)]), "void");
    assert_eq!(bench.bound_beside(), 1);
    assert_eq!(bench.query("SELECT collection_count(m) FROM ks.m"), "2");
}

#[test]
fn a_conditional_write_that_takes_much_work_is_bound_beside_its_core() {
    let mut bench = Bench::with_rows_to_delete();
    let id = bench.prepare(HASH);
    assert_eq!(bench.execute_bytes(&id, &[&int(1), b"short"]), "true");
    assert_eq!(bench.bound_beside(), 0);
    let long = vec![1; 2 << 20];
    assert_eq!(bench.execute_bytes(&id, &[&int(2), &long]), "true");
    assert!(bench.execute_bytes(&id, &[&int(2), &long]).starts_with("false 2 "));
    assert_eq!(bench.bound_beside(), 2);
    assert_eq!(bench.query("SELECT count(*) FROM ks.e"), "2");
}

#[test]
fn a_batch_message_with_a_statement_of_much_work_is_bound_beside_its_core() {
    let mut bench = Bench::with_rows_to_delete();
    let (many, few) = (clear(&three_hundred()), clear(&list(0..3)));
    let (delete, hash) = (bench.prepare(CLEAR_MANY), bench.prepare(HASH));
    let insert = bench.prepare("INSERT INTO ks.p (k, c, v) VALUES (7, 1000, 1)");
    assert_eq!(bench.batch_of(&[(&delete, &few), (&delete, &few)]), "void");
    assert_eq!(bench.bound_beside(), 0, "each of them is short");
    // One by itself, one with others, and one with so many that they are bound in steps.
    let none = ValueList::new();
    for (number, others) in (1..).zip([0, 1, 300]) {
        let mut statements = vec![(&delete[..], &many)];
        statements.extend((0..others).map(|_| (&insert[..], &none)));
        bench.assert_clears_partitions(|bench| {
            assert_eq!(bench.batch_of(&statements), "void");
        });
        assert_eq!(bench.bound_beside(), number, "{others} others");
    }
    assert_eq!(bench.query("SELECT count(*) FROM ks.p"), "1");
    let long = list_of(&[&int(7), &vec![1; 2 << 20]]);
    assert_eq!(bench.batch_of(&[(&hash, &long)]), "true");
    assert_eq!(bench.bound_beside(), 4);
}

#[test]
fn a_function_of_a_user_keeps_much_work_on_its_core() {
    let mut bench = Bench::with_rows_to_delete();
    let make = "CREATE FUNCTION ks.same (i int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return i'";
    assert!(bench.query(make).starts_with("CREATED FUNCTION"));
    let numbers: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let numbers = numbers.join(", ");
    let id = bench.prepare(&format!(
        "DELETE l[?], s FROM ks.q WHERE k IN ? AND c IN (ks.same(0), {numbers})"
    ));
    let mut values = ValueList::new();
    values.push(Value::Unset);
    values.push(Value::Bytes(&three_hundred()));
    bench.assert_clears_partitions(|bench| {
        assert_eq!(bench.execute_values(&id, &values), "void");
    });
    bench.assert_clears_partitions(|bench| {
        assert_eq!(bench.batch_of(&[(&id, &values)]), "void");
    });
    assert_eq!(bench.bound_beside(), 0);
}

/// What is bound twice is told of once.
#[test]
fn much_work_is_warned_of_once() {
    let mut bench = Bench::with_rows_to_delete();
    set(&bench, &[("write_consistency_levels_warned", "ONE")]);
    let plain = Parameters::plain(Consistency::One, VERSION);
    let values = clear(&three_hundred());
    let parameters = Parameters { values: values.as_values(VERSION), ..plain };
    for text in [CLEAR_MANY, &format!("BEGIN UNLOGGED BATCH {CLEAR_MANY}; APPLY BATCH")] {
        let id = bench.prepare(text);
        let execute = Execute { id: &id, result_metadata_id: None, parameters };
        let frame = bench.ask(&Request::Execute(execute));
        let header = Header::decode(&frame, Direction::Response).unwrap().unwrap();
        let answer = Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap();
        let told: Vec<&str> = answer.warnings.iter().flat_map(|list| list.iter()).collect();
        let beginnings: Vec<&str> = told.iter().map(|said| &said[..9]).collect();
        let of_batch = ["Batch for", "Unlogged ", "Guardrail"];
        assert_eq!(
            beginnings,
            if text == CLEAR_MANY { &of_batch[2..] } else { &of_batch },
            "{told:?}"
        );
    }
    assert_eq!(bench.bound_beside(), 2);
}

/// What is too much for any statement is so beside the core, and leaves nothing in the record of the next.
#[test]
fn more_work_than_any_statement_may_take_is_refused_beside_the_core() {
    let mut bench = Bench::with_rows_to_delete();
    assert_eq!(bench.query("INSERT INTO ks.q (k, c, s) VALUES (2, 1, 3)"), "void");
    let id = bench.prepare(CLEAR_MANY);
    let said = bench.execute_values(&id, &clear(&list(0..1500)));
    let too_much = "error: one row or statement takes more than 33554432 units of work";
    assert!(said.starts_with(too_much), "{said}");
    assert_eq!(bench.bound_beside(), 1);
    assert_eq!(bench.query("INSERT INTO ks.q (k, c, l) VALUES (1, 1, [1])"), "void");
    assert_eq!(bench.query("SELECT s FROM ks.q WHERE k = 2"), "3");
    assert_eq!(bench.query("SELECT count(*) FROM ks.q"), "2");
}

/// Before: what clients that were gone had asked for was done in its turn: a client that came again and again kept the
/// turns of all others.
#[test]
fn what_waits_to_be_bound_is_not_begun_for_a_client_that_is_gone() {
    let mut bench = Bench::with_rows_to_delete();
    let id = bench
        .prepare(&format!("INSERT INTO ks.l (k, l) VALUES (1, [{}])", "1, ".repeat(3000) + "1"));
    let executor = bench.server.executor(0);
    let turn = at_once(executor.long_statements.take(1));
    let (own, gone) = (bench.client, bench.server.connect(0, VERSION));
    bench.client = gone;
    let parameters = Parameters::plain(Consistency::One, VERSION);
    bench.begin(&Request::Execute(Execute { id: &id, result_metadata_id: None, parameters }));
    bench.client = own;
    while bench.server.run_once() {}
    assert_eq!(executor.long_statements.waiting(), 1);
    bench.server.disconnect(gone);
    drop(turn);
    while bench.server.run_once() {}
    assert_eq!((bench.bound_beside(), executor.long_statements.held()), (0, 0));
    assert_eq!(bench.query("SELECT count(*) FROM ks.l"), "0");
}

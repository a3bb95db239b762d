//! Writes of long values, which are bound beside the core: done and answered as those of short ones, and bounded.

use super::super::batch::at_once;
use super::super::beside_core::is_bound_beside;
use super::guardrails::{set, told};
use super::*;
use crate::limits::{BOUND_AT_ONCE_BYTES, WAITING_STATEMENTS_MEMORY_DIVISOR};

/// As many elements as make a value long.
const MANY: i32 = BOUND_AT_ONCE_BYTES as i32 / 8 + 1;

/// Numbers from here on are long in JSON, too.
const FIRST: i32 = 1_000_000;

/// The tables of the tests, on so many shards.
pub(super) fn bench(shards: usize) -> Bench {
    let mut bench = Bench::with(large(shards));
    bench.query(
        "CREATE TABLE ks.l (k int PRIMARY KEY, l list<int>, s set<int>, m map<int, int>, f frozen<list<int>>, v text)",
    );
    bench
}

fn large(shards: usize) -> ManualConfig {
    ManualConfig { shards, shard_memory_bytes: 64 << 20, log_segment_bytes: 8 << 20 }
}

/// A list, or a set in order, of these numbers as the protocol has it.
pub(super) fn list(numbers: impl Iterator<Item = i32>) -> Vec<u8> {
    let (mut elements, mut count) = (Vec::new(), 0);
    for number in numbers {
        writer::value(&mut elements, Value::Bytes(&number.to_be_bytes()));
        count += 1;
    }
    [&i32::to_be_bytes(count)[..], &elements].concat()
}

/// A map of each of these numbers to itself.
fn map(numbers: impl Iterator<Item = i32>) -> Vec<u8> {
    let pairs = list(numbers.flat_map(|number| [number, number]));
    let count = i32::from_be_bytes(pairs[..4].try_into().unwrap()) / 2;
    [&count.to_be_bytes()[..], &pairs[4..]].concat()
}

impl Bench {
    pub(super) fn execute_bytes(&mut self, id: &[u8], values: &[&[u8]]) -> String {
        let plain = Parameters::plain(Consistency::One, VERSION);
        self.execute_with(id, values, plain)
    }

    fn execute_with(&mut self, id: &[u8], values: &[&[u8]], parameters: Parameters<'_>) -> String {
        let list = list_of(values);
        let parameters = Parameters { values: list.as_values(VERSION), ..parameters };
        self.show(&Request::Execute(Execute { id, result_metadata_id: None, parameters }))
    }

    /// Sends an EXECUTE, whose answer comes later.
    fn begin_execute(&mut self, id: &[u8], values: &[&[u8]]) {
        let list = list_of(values);
        let plain = Parameters::plain(Consistency::One, VERSION);
        let parameters = Parameters { values: list.as_values(VERSION), ..plain };
        self.begin(&Request::Execute(Execute { id, result_metadata_id: None, parameters }));
    }

    /// Compares a column of these rows with a JSON text.
    fn assert_column(&mut self, column: &str, keys: &[i32], wanted: &str) {
        for key in keys {
            let text = format!("SELECT to_json({column}) FROM ks.l WHERE k = {key}");
            assert!(self.query(&text) == wanted, "{column} of {key}");
        }
    }

    /// How many writes were bound beside the core so far.
    pub(super) fn bound_beside(&self) -> u64 {
        self.server.executor(0).bound_beside.get()
    }
}

/// `0..MANY` as JSON.
fn shown_list() -> String {
    let numbers: Vec<String> = (0..MANY).map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(", "))
}

/// A map of each of `0..MANY` to itself as JSON.
fn shown_map() -> String {
    let pairs: Vec<String> = (0..MANY).map(|number| format!("\"{number}\": {number}")).collect();
    format!("{{{}}}", pairs.join(", "))
}

pub(super) fn list_of(values: &[&[u8]]) -> ValueList {
    let mut list = ValueList::new();
    values.iter().for_each(|value| list.push(Value::Bytes(value)));
    list
}

pub(super) fn int(number: i32) -> [u8; 4] {
    number.to_be_bytes()
}

#[test]
fn long_values_become_what_short_ones_become() {
    for shards in [1, 3] {
        let mut bench = bench(shards);
        let of = |name: &str| format!("INSERT INTO ks.l (k, {name}) VALUES (?, ?)");
        let json = bench.prepare("INSERT INTO ks.l JSON ?");
        let from_json = bench.prepare("UPDATE ks.l SET f = from_json(?) WHERE k = ?");
        for count in [3, MANY] {
            let numbers: Vec<String> =
                (FIRST..FIRST + count).map(|number| number.to_string()).collect();
            let array = format!("[{}]", numbers.join(","));
            for k in 0..4 {
                let before = bench.bound_beside();
                for name in ["l", "s", "f"] {
                    let id = bench.prepare(&of(name));
                    assert_eq!(
                        bench.execute_bytes(&id, &[&int(k), &list(FIRST..FIRST + count)]),
                        "void"
                    );
                }
                let id = bench.prepare(&of("m"));
                assert_eq!(
                    bench.execute_bytes(&id, &[&int(k), &map(FIRST..FIRST + count)]),
                    "void"
                );
                let row =
                    format!(r#"{{"k": {}, "l": {array}, "s": {array}, "f": {array}}}"#, k + 10);
                assert_eq!(bench.execute_bytes(&json, &[row.as_bytes()]), "void");
                let values = [array.as_bytes(), &int(k + 20)];
                assert_eq!(bench.execute_bytes(&from_json, &values), "void");
                let beside = bench.bound_beside() - before;
                assert_eq!(beside, if count == MANY { 6 } else { 0 }, "{count} elements");
                let pair = |number| format!("\"{number}\": {number}");
                let pairs: Vec<String> = (FIRST..FIRST + count).map(pair).collect();
                let (whole, of_map) =
                    (format!("[{}]", numbers.join(", ")), format!("{{{}}}", pairs.join(", ")));
                for (column, keys, wanted) in [
                    ("l", &[0, 10][..], &whole),
                    ("s", &[0, 10][..], &whole),
                    ("f", &[0, 10, 20][..], &whole),
                    ("m", &[0][..], &of_map),
                ] {
                    for more in keys {
                        let text =
                            format!("SELECT to_json({column}) FROM ks.l WHERE k = {}", k + more);
                        assert!(bench.query(&text) == *wanted, "{column} of {}", k + more);
                    }
                }
            }
        }
        assert_eq!(bench.query("SELECT count(*) FROM ks.l"), "12");
    }
}

/// A long text is copied, and nothing else: it is bound at once.
#[test]
fn long_values_of_one_part_are_bound_on_their_core() {
    let mut bench = bench(1);
    let id = bench.prepare("INSERT INTO ks.l (k, v) VALUES (?, ?)");
    let text = vec![b'x'; 4 * BOUND_AT_ONCE_BYTES];
    assert_eq!(bench.execute_bytes(&id, &[&int(1), &text]), "void");
    assert_eq!(bench.bound_beside(), 0);
}

#[test]
fn a_function_of_a_user_keeps_long_values_on_their_core() {
    let mut bench = bench(1);
    let make = "CREATE FUNCTION ks.first (l list<int>) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return l[1]'";
    assert!(bench.query(make).starts_with("CREATED FUNCTION"), "{}", bench.query(make));
    let id = bench.prepare("UPDATE ks.l SET v = 'x' WHERE k = ks.first(?)");
    assert_eq!(bench.execute_bytes(&id, &[&list(7..7 + MANY)]), "void");
    assert_eq!(bench.bound_beside(), 0);
    assert_eq!(bench.query("SELECT k FROM ks.l"), "7");
}

#[test]
fn errors_of_long_values_are_those_of_short_ones() {
    let mut bench = bench(1);
    let id = bench.prepare("INSERT INTO ks.l (k, l) VALUES (?, ?)");
    let json = bench.prepare("INSERT INTO ks.l JSON ?");
    let mut damaged = list(0..MANY);
    damaged.pop();
    let said = bench.execute_bytes(&id, &[&int(1), &damaged]);
    assert!(said.starts_with("error: "), "{said}");
    let short = list(0..3)[..27].to_vec();
    let of_short = bench.execute_bytes(&id, &[&int(1), &short]);
    let words = |text: &str| text.replace(|one: char| one.is_ascii_digit(), "");
    assert_eq!(words(&said), words(&of_short));
    let text = format!("{{\"k\": 1, \"none\": \"{}\"}}", "x".repeat(BOUND_AT_ONCE_BYTES));
    let said = bench.execute_bytes(&json, &[text.as_bytes()]);
    assert_eq!(said, "error: JSON values map contains unrecognized column: none");
    assert_eq!(said, bench.execute_bytes(&json, &[br#"{"k": 1, "none": "x"}"#]));
    let plain = Parameters::plain(Consistency::One, VERSION);
    let serial = Parameters { consistency: Consistency::Serial, ..plain };
    let values: [&[u8]; 2] = [&int(1), &list(0..MANY)];
    let of_long = bench.execute_with(&id, &values, serial);
    assert_eq!(of_long, bench.execute_with(&id, &[&int(1), &list(0..1)], serial));
    assert!(of_long.starts_with("error: "), "{of_long}");
    assert_eq!(bench.query("SELECT count(*) FROM ks.l"), "0");
    assert_eq!(bench.bound_beside(), 2);
}

#[test]
fn conditional_writes_and_batches_take_long_values() {
    for shards in [1, 3] {
        let mut bench = bench(shards);
        let id = bench.prepare("INSERT INTO ks.l (k, s) VALUES (?, ?) IF NOT EXISTS");
        assert_eq!(bench.execute_bytes(&id, &[&int(1), &list(0..MANY)]), "true");
        let again = bench.execute_bytes(&id, &[&int(1), &list(5..5 + MANY)]);
        assert!(again.starts_with("false 1 "), "{}", &again[..40]);
        let text = "BEGIN BATCH INSERT INTO ks.l (k, m) VALUES (?, ?); \
                    INSERT INTO ks.l (k, m) VALUES (?, ?); APPLY BATCH";
        let id = bench.prepare(text);
        let long = map(0..MANY);
        assert_eq!(bench.execute_bytes(&id, &[&int(2), &long, &int(3), &long]), "void");
        let text = "BEGIN BATCH INSERT INTO ks.l (k, f) VALUES (?, ?) IF NOT EXISTS APPLY BATCH";
        let id = bench.prepare(text);
        assert_eq!(bench.execute_bytes(&id, &[&int(4), &list(0..MANY)]), "true");
        assert_eq!(bench.bound_beside(), 4);
        bench.assert_column("s", &[1], &shown_list());
        bench.assert_column("m", &[2, 3], &shown_map());
        bench.assert_column("f", &[4], &shown_list());
    }
}

#[test]
fn batch_messages_take_long_values() {
    for shards in [1, 3] {
        let mut bench = bench(shards);
        let plain = bench.prepare("INSERT INTO ks.l (k, m) VALUES (?, ?)");
        let conditional = bench.prepare("INSERT INTO ks.l (k, m) VALUES (?, ?) IF NOT EXISTS");
        let long = map(0..MANY);
        let parameters = Parameters::plain(Consistency::One, VERSION);
        let send = |bench: &mut Bench, id: &[u8], keys: &[i32]| {
            let lists: Vec<ValueList> =
                keys.iter().map(|key| list_of(&[&int(*key), &long])).collect();
            let statements: Vec<BatchStatement<'_>> = lists
                .iter()
                .map(|list| BatchStatement {
                    text: BatchText::Prepared(id),
                    values: list.as_values(VERSION),
                })
                .collect();
            let mut items = Vec::new();
            let kind = BatchKind::Logged;
            let batch = Batch::new(kind, &statements, parameters, VERSION, &mut items);
            bench.show(&Request::Batch(batch))
        };
        assert_eq!(send(&mut bench, &plain, &[1, 2, 3]), "void");
        assert_eq!(send(&mut bench, &conditional, &[4]), "true");
        assert!(send(&mut bench, &conditional, &[4]).starts_with("false 4 "));
        assert_eq!(bench.bound_beside(), 3);
        bench.assert_column("m", &[1, 2, 3, 4], &shown_map());
    }
}

/// A write that came before another one loses to it, though it is bound later.
#[test]
fn a_write_of_long_values_has_the_timestamp_of_when_it_came() {
    let mut bench = bench(1);
    let executor = bench.server.executor(0);
    let id = bench.prepare("INSERT INTO ks.l (k, f) VALUES (?, ?)");
    let turn = at_once(executor.long_statements.take(1));
    bench.begin_execute(&id, &[&int(1), &list(0..MANY)]);
    bench.begin_execute(&id, &[&int(1), &list(7..8)]);
    while bench.server.run_once() {}
    drop(turn);
    assert_eq!(bench.answers().into_values().collect::<Vec<_>>(), ["void", "void"]);
    assert_eq!(bench.query("SELECT to_json(f) FROM ks.l"), "[7]");
}

/// Each statement of a batch takes an id for its elements: those of later appends are behind all of them.
#[test]
fn what_is_appended_behind_long_batches_is_the_end_of_the_list() {
    const APPENDS: i32 = 600;
    let mut bench = bench(1);
    let one = "UPDATE ks.l SET l = l + ? WHERE k = 1;";
    let batch = format!("BEGIN BATCH {} APPLY BATCH", one.repeat(APPENDS as usize));
    let (batch, append) = (bench.prepare(&batch), bench.prepare(one));
    for last in [-1, -2] {
        let elements: Vec<Vec<u8>> = (0..APPENDS).map(|number| list(number..number + 1)).collect();
        let elements: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
        assert_eq!(bench.execute_bytes(&batch, &elements), "void");
        assert_eq!(bench.execute_bytes(&append, &[&list(last..last + 1)]), "void");
    }
    assert_eq!(bench.bound_beside(), 2);
    let numbers: Vec<String> = (0..APPENDS).map(|number| number.to_string()).collect();
    let numbers = numbers.join(", ");
    let shown = bench.query("SELECT to_json(l) FROM ks.l");
    assert!(shown == format!("[{numbers}, -1, {numbers}, -2]"), "{shown}");
}

/// An addition with a name is done once, however often it is sent, and however long its key is.
#[test]
fn long_values_take_the_name_of_a_change_along() {
    let mut bench = bench(1);
    bench.query("CREATE TABLE ks.n (k frozen<list<int>> PRIMARY KEY, n counter)");
    let id = bench.prepare("UPDATE ks.n SET n = n + 5 WHERE k = ?");
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters = Parameters { request_id: Some(&[7; 16]), ..plain };
    for _ in 0..2 {
        assert_eq!(bench.execute_with(&id, &[&list(0..MANY)], parameters), "void");
    }
    assert_eq!(bench.bound_beside(), 2);
    assert_eq!(bench.query("SELECT n FROM ks.n"), "5");
}

#[test]
fn long_values_that_have_no_turn_in_time_do_nothing() {
    let mut bench = bench(1);
    let executor = bench.server.executor(0);
    let turn = at_once(executor.long_statements.take(1));
    for (using, ms, values) in [
        ("", 3_600_000, 2),
        ("USING TIMEOUT 100ms", 100, 2),
        ("USING TIMEOUT ?", 200, 3),
        ("USING TIMEOUT 7200s", 7_200_000, 2),
    ] {
        let id = bench.prepare(&format!("INSERT INTO ks.l (k, f) VALUES (?, ?) {using}"));
        // No months, no days, and nanoseconds as a vint.
        let timeout = [&[0, 0][..], &long_vint(200_000_000)].concat();
        let long = list(0..MANY);
        let all: [&[u8]; 3] = [&int(1), &long, &timeout];
        bench.begin_execute(&id, &all[..values]);
        while bench.server.run_once() {}
        bench.server.advance(Duration::from_millis(ms - 50));
        while bench.server.run_once() {}
        assert!(bench.server.sent(bench.client, <[u8]>::is_empty), "{using}: there is time left");
        bench.server.advance(Duration::from_millis(100));
        let said = bench.answers().into_values().next().unwrap();
        let expected = format!(
            "error: Not bound within {ms} ms, with the long statements before it: nothing of it was done"
        );
        assert_eq!(said, expected);
    }
    drop(turn);
    assert_eq!(bench.query("SELECT count(*) FROM ks.l"), "0");
}

/// A signed number as a vint of nine bytes.
fn long_vint(number: i64) -> Vec<u8> {
    [&[0xFF][..], &(number << 1).to_be_bytes()].concat()
}

/// A driver prepares a statement again that is not known; what it sent as a text it may send again. The table is
/// changed before the turn comes, and while the thread binds.
#[test]
fn long_values_of_a_table_that_was_changed_are_refused() {
    let text = "INSERT INTO ks.l (k, f) VALUES (?, ?)";
    let plain = Parameters::plain(Consistency::One, VERSION);
    for is_binding in [false, true] {
        for number in 0..3 {
            let mut bench = bench(1);
            let executor = bench.server.executor(0);
            let id = bench.prepare(text);
            let turn = at_once(executor.long_statements.take(1));
            let values = list_of(&[&int(1), &list(0..MANY)]);
            let values = values.as_values(VERSION);
            let mut items = Vec::new();
            let one = [BatchStatement { text: BatchText::Prepared(&id), values }];
            let batch = Batch::new(BatchKind::Logged, &one, plain, VERSION, &mut items);
            let parameters = Parameters { values, ..plain };
            let execute = Execute { id: &id, result_metadata_id: None, parameters };
            let query = Query { text, parameters };
            let requests =
                [Request::Execute(execute), Request::Query(query), Request::Batch(batch)];
            bench.begin(&requests[number]);
            while bench.server.run_once() {}
            let turn = Some(turn).filter(|_| !is_binding);
            while bench.bound_beside() < u64::from(is_binding) {
                assert!(bench.server.run_once(), "it is bound at some time");
            }
            let own = std::mem::replace(&mut bench.client, bench.server.connect(0, VERSION));
            let before = executor.shard.schema_number();
            bench.begin_as(bench.client, "ALTER TABLE ks.l ADD w int");
            while executor.shard.schema_number() == before {
                assert!(bench.server.run_once(), "it is altered at some time");
            }
            bench.client = own;
            drop(turn);
            let said = bench.answers().into_values().next().unwrap();
            let refused = match (number, is_binding) {
                // A batch looks its statements up when its turn comes.
                (0, _) | (2, false) => "error: Prepared query with ID",
                _ => "error: What the statement names was changed",
            };
            assert!(said.starts_with(refused), "{number} {is_binding}: {said}");
        }
    }
}

/// All columns of a table are written by an INSERT JSON; its text is short all the same.
#[test]
fn a_short_json_of_a_wide_table_is_bound_on_its_core() {
    let mut bench = bench(1);
    let columns: Vec<String> = (0..100).map(|number| format!("c{number} int")).collect();
    bench.query(&format!("CREATE TABLE ks.wide (k int PRIMARY KEY, {})", columns.join(", ")));
    let id = bench.prepare("INSERT INTO ks.wide JSON ?");
    assert_eq!(bench.execute_bytes(&id, &[br#"{"k": 1, "c7": 8}"#]), "void");
    assert_eq!(bench.bound_beside(), 0);
    assert_eq!(bench.query("SELECT c7 FROM ks.wide"), "8");
}

#[test]
fn long_values_that_wait_are_counted_though_their_clients_are_gone() {
    let mut bench = bench(1);
    let executor = bench.server.executor(0);
    let id = bench.prepare("INSERT INTO ks.l (k, f) VALUES (?, ?)");
    let turn = at_once(executor.long_statements.take(1));
    // Two of these fit, and not three.
    let bytes = large(1).shard_memory_bytes / WAITING_STATEMENTS_MEMORY_DIVISOR * 2 / 5;
    let long = list(0..(bytes / 8) as i32);
    let own = bench.client;
    for _ in 0..2 {
        bench.client = bench.server.connect(0, VERSION);
        bench.begin_execute(&id, &[&int(1), &long]);
        bench.server.disconnect(bench.client);
    }
    bench.client = own;
    let said = bench.execute_bytes(&id, &[&int(1), &long]);
    assert!(said.starts_with("error: Request not taken: long texts, long values"), "{said}");
    drop(turn);
    while bench.server.run_once() {}
    assert_eq!(bench.execute_bytes(&id, &[&int(1), &long]), "void", "there is space again");
}

/// Guardrails that look at values, and the size of a batch, are told of once, with the words for short values.
#[test]
fn long_values_are_warned_of_as_short_ones() {
    let mut bench = bench(1);
    set(&bench, &[("items_per_collection_warn_threshold", "2")]);
    let plain = Parameters::plain(Consistency::One, VERSION);
    let text = "INSERT INTO ks.l (k, s) VALUES (?, ?)";
    let insert = bench.prepare(text);
    let batch = bench.prepare(&format!("BEGIN BATCH {text}; {text}; APPLY BATCH"));
    for (id, keys) in [(insert, 1), (batch, 2)] {
        let mut of_both = Vec::new();
        for count in [1000, MANY] {
            let (one, two, long) = (int(1), int(2), list(0..count));
            let all: [&[u8]; 4] = [&one, &long, &two, &long];
            let values = list_of(&all[..2 * keys]);
            let parameters = Parameters { values: values.as_values(VERSION), ..plain };
            let before = bench.bound_beside();
            let execute = Execute { id: &id, result_metadata_id: None, parameters };
            let said = told(&mut bench, &Request::Execute(execute));
            of_both.push(said.replace(|one: char| one.is_ascii_digit(), ""));
            assert_eq!(bench.bound_beside() - before, u64::from(count == MANY));
        }
        assert!(of_both[0].contains("Detected collection s with"), "{of_both:?}");
        assert_eq!(of_both[0], of_both[1]);
    }
}

#[test]
fn a_batch_with_a_function_of_a_user_is_bound_on_its_core() {
    let mut bench = bench(1);
    let make = "CREATE FUNCTION ks.same (i int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return i'";
    assert!(bench.query(make).starts_with("CREATED FUNCTION"));
    let ids = [
        bench.prepare("INSERT INTO ks.l (k, m) VALUES (?, ?)"),
        bench.prepare("INSERT INTO ks.l (k) VALUES (ks.same(?))"),
    ];
    let lists = [list_of(&[&int(1), &map(0..MANY)]), list_of(&[&int(2)])];
    let statement = |at: usize| BatchStatement {
        text: BatchText::Prepared(&ids[at]),
        values: lists[at].as_values(VERSION),
    };
    let (statements, mut items) = ([statement(0), statement(1)], Vec::new());
    let parameters = Parameters::plain(Consistency::One, VERSION);
    let batch = Batch::new(BatchKind::Unlogged, &statements, parameters, VERSION, &mut items);
    assert_eq!(bench.show(&Request::Batch(batch)), "void");
    assert_eq!(bench.bound_beside(), 0);
    assert_eq!(bench.query("SELECT k FROM ks.l WHERE k IN (1, 2)"), "1, 2");
}

/// A statement that is prepared with long literals, or a BEGIN BATCH of many statements, takes as long each time.
#[test]
fn long_statements_are_bound_beside_however_short_their_values_are() {
    let mut bench = bench(1);
    let numbers: Vec<String> = (0..3000).map(|number| number.to_string()).collect();
    let array = format!("[{}]", numbers.join(", "));
    let many: Vec<String> =
        (0..600).map(|k| format!("UPDATE ks.l SET v = 'x' WHERE k = {k};")).collect();
    for text in [
        format!("INSERT INTO ks.l (k, l) VALUES (?, {array})"),
        format!("BEGIN BATCH {} UPDATE ks.l SET v = 'x' WHERE k = ? APPLY BATCH", many.concat()),
    ] {
        let before = bench.bound_beside();
        let id = bench.prepare(&text);
        assert_eq!(bench.execute_bytes(&id, &[&int(1000)]), "void");
        assert_eq!(bench.bound_beside() - before, 1, "{}", &text[..60]);
    }
    let json = format!("INSERT INTO ks.l JSON '{{\"k\": 1001, \"l\": {array}, \"f\": {array}}}'");
    assert_eq!(bench.query(&json), "void");
    assert_eq!(bench.bound_beside(), 3);
    assert_eq!(bench.query("SELECT count(*) FROM ks.l"), "602");
    assert_eq!(bench.query("SELECT to_json(l) FROM ks.l WHERE k = 1001"), array);
    assert_eq!(bench.query("SELECT to_json(l) FROM ks.l WHERE k = 1000"), array);
}

#[test]
fn named_long_values_find_their_markers() {
    let mut bench = bench(1);
    let mut values = ValueList::new();
    values.push_named("many", Value::Bytes(&list(0..MANY)));
    values.push_named("key", Value::Bytes(&int(7)));
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters = Parameters { values: values.as_values(VERSION), ..plain };
    let text = "INSERT INTO ks.l (k, s) VALUES (:key, :many)";
    assert_eq!(bench.show(&Request::Query(Query { text, parameters })), "void");
    assert_eq!(bench.bound_beside(), 1);
    assert!(bench.query("SELECT to_json(s) FROM ks.l WHERE k = 7").starts_with("[0, 1, 2,"));
}

/// What takes long to bind, by its types and by what reads it.
#[test]
fn which_values_take_long() {
    let mut bench = bench(1);
    bench.query("CREATE TYPE ks.u (a text)");
    bench.query(
        "CREATE TABLE ks.m (k int PRIMARY KEY, t tuple<text>, u ks.u, v vector<float, 4>, w vector<frozen<list<int>>, 2>, x vector<text, 2>, b blob)",
    );
    let executor = bench.server.executor(0);
    for (text, takes_long) in [
        ("INSERT INTO ks.m (k, t) VALUES (1, ?)", true),
        ("INSERT INTO ks.m (k, u) VALUES (1, ?)", true),
        ("INSERT INTO ks.m (k, w) VALUES (1, ?)", true),
        ("INSERT INTO ks.m (k, x) VALUES (1, ?)", false),
        ("INSERT INTO ks.m (k, v) VALUES (1, ?)", false),
        ("INSERT INTO ks.m (k, b) VALUES (1, ?)", false),
        ("INSERT INTO ks.m JSON ?", true),
        ("INSERT INTO ks.m JSON '{\"k\": 1}'", false),
        ("UPDATE ks.m SET b = from_json(?) WHERE k = 1", true),
        ("UPDATE ks.m SET b = fromJson(?) WHERE k = 1", true),
        ("BEGIN BATCH INSERT INTO ks.m JSON ?; APPLY BATCH", true),
        ("BEGIN BATCH INSERT INTO ks.m (k, b) VALUES (?, ?); APPLY BATCH", false),
        ("SELECT * FROM ks.m WHERE k = ?", false),
    ] {
        let id = bench.prepare(text);
        let statement = executor.state.prepared(&executor.shard, &id).unwrap();
        let is_beside = |bytes: usize| {
            let mut values = ValueList::new();
            statement.markers().iter().for_each(|_| values.push(Value::Bytes(&vec![0; bytes])));
            is_bound_beside(&statement, &values.as_values(VERSION))
        };
        assert_eq!(is_beside(BOUND_AT_ONCE_BYTES + 1), takes_long, "{text}");
        assert!(!is_beside(BOUND_AT_ONCE_BYTES / 2), "{text}");
    }
}

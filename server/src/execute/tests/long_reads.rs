//! What long reads hold, and when they let go of it; and that they let others have their turn.

use super::long_values::int;
use super::*;

/// A table whose rows hold `bytes` each.
fn with_rows(shards: usize, rows: i32, bytes: usize) -> Bench {
    let memory = 64 << 20;
    let config = ManualConfig { shards, shard_memory_bytes: memory, log_segment_bytes: 32 << 20 };
    let mut bench = Bench::with(config);
    assert_eq!(bench.query("CREATE TABLE ks.b (k int PRIMARY KEY, v text)"), "CREATED TABLE ks b");
    let value = vec![b'x'; bytes];
    (0..rows).for_each(|k| bench.put(k, &value));
    bench
}

impl Bench {
    /// Writes a row of `ks.b`.
    fn put(&mut self, k: i32, value: &[u8]) {
        let text = "INSERT INTO ks.b (k, v) VALUES (?, ?)";
        let mut list = ValueList::new();
        list.push(Value::Bytes(&k.to_be_bytes()));
        list.push(Value::Bytes(value));
        let plain = Parameters::plain(Consistency::One, VERSION);
        let parameters = Parameters { values: list.as_values(VERSION), ..plain };
        assert_eq!(self.show(&Request::Query(Query { text, parameters })), "void");
    }
}

/// The rows of a SELECT of `ks.b` by pages, of which each but the last has a row at least.
fn all_pages(bench: &mut Bench, text: &str) -> (Vec<i32>, usize) {
    let (mut keys, mut state, mut pages) = (Vec::new(), Vec::new(), 0);
    loop {
        let plain = Parameters::plain(Consistency::One, VERSION);
        let before = Some(&state[..]).filter(|state| !state.is_empty());
        let parameters = Parameters { page_rows: Some(5000), paging_state: before, ..plain };
        let frame = bench.ask(&Request::Query(Query { text, parameters }));
        let header = Header::decode(&frame, Direction::Response).unwrap().unwrap();
        let Reply::Rows(rows) = Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap().reply
        else {
            panic!("{}", bench.query(text));
        };
        let cells: Vec<_> = rows.cells().map(|cell| cell.unwrap().map(<[u8]>::to_vec)).collect();
        let rows_here = cells.chunks(rows.metadata.column_count);
        keys.extend(
            rows_here.map(|row| i32::from_be_bytes(row[0].as_deref().unwrap().try_into().unwrap())),
        );
        pages += 1;
        state = rows.metadata.paging_state.unwrap_or_default().to_vec();
        if state.is_empty() {
            return (keys, pages);
        }
        assert!(rows.row_count > 0, "a page that is not the last has a row");
    }
}

/// Eight whole tables at once, beyond the memory for answers: each is given or refused by name, and nothing stays held.
/// Before: now and then none was given: a read that was refused kept its rows until its next turn, and the last two
/// refused each other.
#[test]
fn answers_without_pages_share_their_memory() {
    for shards in [1, 2] {
        let mut bench = with_rows(shards, 70, 100_000);
        let keys: Vec<String> = (0..70).map(|k| k.to_string()).collect();
        let text = &format!("SELECT * FROM ks.b WHERE k IN ({})", keys.join(", "));
        for _ in 0..8 {
            bench.begin(&Request::Query(Query {
                text,
                parameters: Parameters::plain(Consistency::One, VERSION),
            }));
        }
        let mut most = 0;
        while bench.server.held().0 > 0 {
            if !bench.server.run_once() {
                bench.server.advance(std::time::Duration::from_millis(1));
            }
            most = most.max(bench.server.held().2);
        }
        assert!(most <= 8 << 20, "{most} bytes of answers, and an eighth of the memory is theirs");
        // How many of them are under way at once depends on how long their pauses take.
        assert!(most >= 1 << 20, "{most}");
        assert_eq!(bench.server.held(), (0, 0, 0));
        let answers = bench.server.sent(bench.client, <[u8]>::to_vec);
        let (mut refused, mut whole, mut rest) = (0, 0, &answers[..]);
        while let Some(header) = Header::decode(rest, Direction::Response).unwrap() {
            let (body, after) = rest[HEADER_BYTES..].split_at(header.body_bytes as usize);
            match Answer::decode(&header, body).unwrap().reply {
                Reply::Rows(rows) => {
                    assert_eq!(rows.row_count, 70);
                    whole += 1;
                }
                Reply::Error { text, .. } => {
                    assert!(text.starts_with("Result not made: "), "{text}");
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        assert_eq!(whole + refused, 8);
        assert!(whole >= 1 && refused >= 1, "{whole} whole, {refused} refused");
        assert!(bench.query(text).contains("xxx"), "alone it is given");
    }
}

impl Bench {
    /// A key of `ks.b`, of `rows`, that another core than the client's has.
    fn key_elsewhere(&mut self, rows: i32) -> i32 {
        let elsewhere = (0..rows).find(|k| {
            let text = &format!("SELECT k FROM ks.b WHERE k = {k}");
            let parameters = Parameters::plain(Consistency::One, VERSION);
            self.begin(&Request::Query(Query { text, parameters }));
            let is_here = self.server.sent(self.client, |sent| !sent.is_empty());
            self.server.run_until_answered(self.client);
            self.server.sent(self.client, |_| ());
            !is_here
        });
        elsewhere.expect("each core has some of the keys")
    }
}

/// Before: what was on its way from another core counted nowhere. 900 small requests brought 900 answers at once.
#[test]
fn answers_of_another_core_share_the_memory_of_answers_where_their_client_is() {
    let mut bench = with_rows(2, 8, 300_000);
    let k = bench.key_elsewhere(8);
    let text = &format!("SELECT v FROM ks.b WHERE k = {k}");
    let parameters = Parameters::plain(Consistency::One, VERSION);
    for _ in 0..60 {
        bench.begin(&Request::Query(Query { text, parameters }));
    }
    // The client's core takes no answer before the other one has made all.
    let mut most = 0;
    while bench.server.poll_out_of_time(0) || bench.server.poll_out_of_time(1) {
        most = most.max(bench.server.held().2);
    }
    assert!((4 << 20..=8 << 20).contains(&most), "{most} of 8 MiB");
    let answers = bench.answers();
    let whole = answers.values().filter(|answer| answer.starts_with("xxx")).count();
    let refused = answers.values().filter(|answer| answer.contains("Result not made")).count();
    assert!(whole >= 10 && refused >= 10 && whole + refused == 60, "{whole}, {refused}");
    assert!(bench.query(text).starts_with("xxx"), "alone it is given");
    assert_eq!(bench.server.held(), (0, 0, 0));
}

/// Of short answers so many are asked for as there is space for. The other reads go on here, and are answered, too.
#[test]
fn short_answers_of_another_core_are_asked_for_as_there_is_space() {
    let mut bench = with_rows(2, 8, 10_000);
    let k = bench.key_elsewhere(8);
    let text = &format!("SELECT v FROM ks.b WHERE k = {k}");
    let parameters = Parameters::plain(Consistency::One, VERSION);
    for _ in 0..600 {
        bench.begin(&Request::Query(Query { text, parameters }));
    }
    assert_eq!(bench.server.forwarded(), 512, "an eighth of the memory, 16 KiB each");
    let answers = bench.answers();
    assert_eq!(answers.values().filter(|answer| answer.starts_with("xxx")).count(), 600);
    assert_eq!((bench.server.forwarded(), bench.server.held()), (0, (0, 0, 0)));
}

/// The request `SELECT v FROM ks.n WHERE a = ? AND b IN ?` or that with `c`, with a long value and so many ints.
fn with_many(text: &str, long: &[u8], ints: i32) -> (ValueList, String) {
    let mut list = ValueList::new();
    list.push(Value::Bytes(long));
    let mut many = ints.to_be_bytes().to_vec();
    for n in 0..ints {
        many.extend_from_slice(&4i32.to_be_bytes());
        many.extend_from_slice(&n.to_be_bytes());
    }
    list.push(Value::Bytes(&many));
    (list, text.to_owned())
}

/// Before: 65 KB of request made 33 MB of keys, copied three times, while the read waited for its turn.
#[test]
fn keys_that_an_in_makes_of_a_long_value_are_counted_while_their_reads_wait() {
    let mut bench = with_rows(2, 0, 0);
    bench.query("CREATE TABLE ks.n (a blob, b int, c blob, d int, PRIMARY KEY ((a, b), c, d))");
    let (mut values, mut text) =
        with_many("SELECT d FROM ks.n WHERE a = ? AND b IN ?", &[1; 60_000], 30);
    for _ in 0..2 {
        let plain = Parameters::plain(Consistency::One, VERSION);
        let parameters = Parameters { values: values.as_values(VERSION), ..plain };
        for _ in 0..20 {
            bench.begin(&Request::Query(Query { text: &text, parameters }));
        }
        let answers = bench.answers();
        let refused = answers
            .values()
            .filter(|answer| answer.contains("Request not taken: the keys and bounds"))
            .count();
        let found = answers.values().filter(|answer| answer.is_empty()).count();
        assert_eq!((found, refused), (2, 18), "1.8 MB each, of 4 MiB: {answers:?}");
        // The same of clusterings, in one partition for each of two keys.
        let clusterings =
            "SELECT d FROM ks.n WHERE a = 0x00 AND b IN (1, 2, 3, 4) AND c = ? AND d IN ?";
        (values, text) = with_many(clusterings, &[1; 60_000], 15);
    }
    let (values, text) = with_many("SELECT d FROM ks.n WHERE a = ? AND b IN ?", &[1; 60_000], 550);
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters = Parameters { values: values.as_values(VERSION), ..plain };
    let answer = bench.show(&Request::Query(Query { text: &text, parameters }));
    assert!(answer.contains("have more than 2097152 bytes in total"), "{answer}");
}

/// Thousands of short keys are what an IN is used for.
#[test]
fn an_in_of_ten_thousand_short_keys_is_answered() {
    for shards in [1, 3] {
        let mut bench = with_rows(shards, 0, 0);
        bench.query("CREATE TABLE ks.n (a text, b int, PRIMARY KEY ((a, b)))");
        for b in (0..10_000).step_by(1000) {
            bench.query(&format!(
                "INSERT INTO ks.n (a, b) VALUES ('a key of thirty or forty bytes', {b})"
            ));
        }
        let text = "SELECT b FROM ks.n WHERE a = ? AND b IN ?";
        let (values, text) = with_many(text, b"a key of thirty or forty bytes", 10_000);
        let plain = Parameters::plain(Consistency::One, VERSION);
        let parameters = Parameters { values: values.as_values(VERSION), ..plain };
        let answer = bench.show(&Request::Query(Query { text: &text, parameters }));
        let expected: Vec<String> = (0..10_000).step_by(1000).map(|b| b.to_string()).collect();
        assert_eq!(answer, expected.join(", "), "{shards} shards");
    }
}

/// A page ends before a row that it has no space for, and the row is the first of the next.
#[test]
fn a_page_ends_before_a_row_that_it_has_no_space_for() {
    for shards in [1, 2] {
        let mut bench = with_rows(shards, 20, 10);
        bench.put(7, &vec![b'y'; 100_000]);
        // 10 MB are a sixth of the memory at most, and 15 MB are more.
        for (times, fits) in [(100, true), (150, false)] {
            let often = vec!["v"; times].join(", ");
            let text = format!("SELECT k, {often} FROM ks.b");
            if fits {
                let (mut keys, pages) = all_pages(&mut bench, &text);
                keys.sort_unstable();
                assert_eq!(keys, (0..20).collect::<Vec<_>>());
                assert!(pages > 1);
            } else {
                let alone = bench.query(&format!("SELECT k, {often} FROM ks.b WHERE k = 7"));
                assert!(alone.starts_with("error: Result not made"), "{alone}");
            }
        }
        assert_eq!(bench.server.held(), (0, 0, 0));
    }
}

/// A read ends with its connection, on every core that works for it.
#[test]
fn reads_end_with_their_connection() {
    for shards in [1, 3] {
        let mut bench = with_rows(shards, 0, 0);
        let insert = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
        for row in 0..3000 {
            assert_eq!(bench.execute(&insert, &[row % 3, row, row]), "void");
        }
        for text in [
            "SELECT count(*) FROM ks.t",
            "SELECT count(*) FROM ks.t WHERE v = -1 ALLOW FILTERING",
            "SELECT count(*) FROM ks.t WHERE k = 0",
            "SELECT count(*) FROM ks.t WHERE k = 1",
            "SELECT count(*) FROM ks.t WHERE k = 2",
            "SELECT count(*) FROM ks.t WHERE k IN (0, 1, 2)",
        ] {
            let client = bench.server.connect(0, VERSION);
            let (before, mut frame) = (bench.server.rows_read(), Vec::new());
            let parameters = Parameters::plain(Consistency::One, VERSION);
            Request::Query(Query { text, parameters }).put(VERSION, 1, Flags(0), &mut frame);
            bench.server.take(client, &frame);
            bench.server.disconnect(client);
            for _ in 0..1000 {
                bench.server.run_once();
            }
            assert_eq!(bench.server.held(), (0, 0, 0), "{text} on {shards}");
            let read = bench.server.rows_read() - before;
            assert!(read < 1000, "{text} on {shards} has read {read} rows that no one waits for");
        }
    }
}

/// An aggregate with a limit read on to the end of the table, one row at a time.
#[test]
fn an_aggregate_that_has_its_groups_reads_no_further() {
    for shards in [1, 3] {
        let mut bench = with_rows(shards, 0, 0);
        let insert = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
        for row in 0..3000 {
            assert_eq!(bench.execute(&insert, &[1, row, row]), "void");
        }
        let before = bench.server.rows_read();
        let groups = "SELECT c, count(*) FROM ks.t WHERE k = 1 GROUP BY k, c LIMIT 2";
        assert_eq!(bench.query(groups), "0 1, 1 1");
        let read = bench.server.rows_read() - before;
        assert!(read < 1000, "{read} rows for two groups");
    }
}

/// A read that is not done in time is answered READ_TIMEOUT with its level, and holds nothing any more.
#[test]
fn a_read_past_its_deadline_ends() {
    for shards in [1, 3] {
        let mut bench = with_rows(shards, 0, 0);
        let insert = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
        for row in 0..3000 {
            assert_eq!(bench.execute(&insert, &[row % 3, row, row]), "void");
        }
        for text in [
            "SELECT count(*) FROM ks.t",
            "SELECT count(*) FROM ks.t WHERE k = 0",
            "SELECT count(*) FROM ks.t WHERE k IN (0, 1, 2)",
        ] {
            let late = format!("{text} USING TIMEOUT 0ms");
            let parameters = Parameters::plain(Consistency::LocalOne, VERSION);
            let frame = bench.ask(&Request::Query(Query { text: &late, parameters }));
            let body = &frame[HEADER_BYTES..];
            assert_eq!(body[..4], 0x1200u32.to_be_bytes(), "{late} on {shards}");
            let words = "Operation timed out - received only 0 responses.";
            assert_eq!(&body[6..6 + words.len()], words.as_bytes());
            // LOCAL_ONE, received, required, data present.
            let details = [0, 10, 0, 0, 0, 0, 0, 0, 0, 1, 0];
            assert_eq!(&body[6 + words.len()..], &details);
            for _ in 0..100 {
                bench.server.run_once();
            }
            assert_eq!(bench.server.held(), (0, 0, 0), "{late} on {shards}");
            let in_time = bench.query(&format!("{text} USING TIMEOUT 1h"));
            assert!(in_time == "3000" || in_time == "1000", "{in_time}");
        }
    }
}

/// Of many tombstones a client is told, and of too many a read ends, in the words of Cassandra.
#[test]
fn tombstones_are_told_of_and_end_a_read() {
    let mut bench = with_rows(1, 0, 0);
    let delete = bench.prepare("DELETE FROM ks.t WHERE k = ? AND c = ?");
    for c in 0..1001 {
        assert_eq!(bench.execute(&delete, &[1, c]), "void");
    }
    for (text, told) in [
        ("SELECT c FROM ks.t WHERE k = 1 AND c < 1000", None),
        ("SELECT c FROM ks.t WHERE k = 1", Some(1001)),
        ("SELECT count(*) FROM ks.t", Some(1001)),
    ] {
        let parameters = Parameters::plain(Consistency::One, VERSION);
        let frame = bench.ask(&Request::Query(Query { text, parameters }));
        let header = Header::decode(&frame, Direction::Response).unwrap().unwrap();
        let answer = Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap();
        let warnings: Vec<&str> = answer.warnings.iter().flat_map(|all| all.iter()).collect();
        let of_tombstones = warnings.iter().find(|text| text.contains("tombstone"));
        let expected = told.map(|count| {
            let token = model::Token::of_key(&1i32.to_be_bytes()).0;
            let of_key = if text.contains("k = 1") { format!("; token {token}") } else { String::new() };
            format!(
                "Read 0 live rows and {count} tombstone cells for query {text}{of_key} (see tombstone_warn_threshold)"
            )
        });
        assert_eq!(of_tombstones.map(|text| text.to_string()), expected);
    }
    for c in 1001..5001 {
        assert_eq!(bench.execute(&delete, &[1, c]), "void");
    }
    let ended = "error: Operation failed - received 0 responses and 1 failures: \
                 READ_TOO_MANY_TOMBSTONES from /127.0.0.1:7000";
    assert_eq!(bench.query("SELECT c FROM ks.t WHERE k = 1"), ended);
    assert_eq!(bench.query("SELECT c FROM ks.t WHERE k = 1 AND c < 100"), "");
    assert_eq!(bench.server.held(), (0, 0, 0));
}

/// Before: what finding the digits of a row's decimals takes counted nowhere: a list of 900 long ones held up its core
/// for 3.6 s, and 20 rows with a long one each for 80 ms.
#[test]
fn decimals_of_rows_that_a_filter_compares_are_counted() {
    let mut bench = with_rows(1, 0, 0);
    bench.query(
        "CREATE TABLE ks.d (k int, c int, v decimal, l frozen<list<decimal>>, m map<int, decimal>, PRIMARY KEY (k, c))",
    );
    let decimal = [&int(0)[..], &[7; 16_000]].concat();
    let id = bench.prepare("INSERT INTO ks.d (k, c, v) VALUES (1, ?, ?)");
    for c in 0..20 {
        assert_eq!(bench.execute_bytes(&id, &[&int(c), &decimal]), "void");
    }
    let before = bench.server.rows_read();
    bench.begin_as(bench.client, "SELECT c FROM ks.d WHERE k = 1 AND v > 1 ALLOW FILTERING");
    assert!(bench.server.rows_read() - before <= 2, "others have their turn after each row");
    bench.server.run_until_answered(bench.client);
    let all: Vec<String> = (0..20).map(|c| c.to_string()).collect();
    assert_eq!(bench.answers_to(bench.client)[0].1, all.join(", "));

    let id = bench.prepare("INSERT INTO ks.d (k, c, l, m) VALUES (2, ?, ?, ?)");
    for count in [10, 20] {
        let element = [&(decimal.len() as i32).to_be_bytes()[..], &decimal].concat();
        let list = [&int(count)[..], &element.repeat(count as usize)].concat();
        let entries = (0..count).flat_map(|key| [&int(4)[..], &int(key), &element].concat());
        let map = [&int(count)[..], &entries.collect::<Vec<u8>>()].concat();
        assert_eq!(bench.execute_bytes(&id, &[&int(count), &list, &map]), "void");
    }
    let mut by = |c: i32, filter: &str| {
        let rows = format!("SELECT c FROM ks.d WHERE k = 2 AND c = {c}");
        bench.query(&format!("{rows} AND {filter} ALLOW FILTERING"))
    };
    let is_in_list = "l CONTAINS 1";
    assert_eq!(by(10, is_in_list), "");
    let refused = "error: the filters take more than 33554432 units of work for one row";
    assert!(by(20, is_in_list).starts_with(refused), "{}", by(20, is_in_list));
    // Each of these takes more than half of what is allowed.
    assert_eq!((by(10, "l > [1]"), by(10, "m CONTAINS 1")), ("10".to_owned(), String::new()));
    let both = by(10, "l > [1] AND m CONTAINS 1");
    assert!(both.starts_with(refused), "{both}");
    // Of the map one value is compared.
    assert_eq!(by(20, "m[7] = 1"), "");
    assert!(by(20, "m CONTAINS 1").starts_with(refused));
}

/// Before: what was read at once was copied into the connection's buffer, and sent in one step.
#[test]
fn a_long_answer_that_is_read_at_once_is_not_copied() {
    let mut bench = with_rows(1, 0, 0);
    for (k, bytes) in [(1, 1000), (2, 3 << 20)] {
        bench.put(k, &vec![b'x'; bytes]);
        bench.begin_as(bench.client, &format!("SELECT v FROM ks.b WHERE k = {k}"));
        let is_handed_over = !bench.server.executor(0).replies.is_empty();
        assert_eq!(is_handed_over, k == 2);
        bench.server.run_until_answered(bench.client);
        assert_eq!(bench.answers_to(bench.client)[0].1.len(), bytes);
    }
}

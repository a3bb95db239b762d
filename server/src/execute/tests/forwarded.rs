//! Requests that another core answers, and what two cores make of one client's order.

use std::time::Instant;

use model::Token;

use super::super::peers::{Answer as PeerAnswer, Ask};
use super::*;
use crate::limits::ANSWERS_PER_CLOCK_READ;

const UNPREPARED: u32 = 0x2500;

/// The smallest key that each of the two cores owns.
fn keys(bench: &mut Bench) -> [i32; 2] {
    let keys = bench.server.on_first_core(async |shard| {
        [0, 1].map(|core| {
            let owner = |k: &i32| shard.sharder().shard_of(Token::of_key(&k.to_be_bytes()));
            (0..).find(|k| owner(k).index() == core).unwrap()
        })
    });
    keys.unwrap()
}

/// The id that a frame says is unknown.
fn unprepared_id(frame: &[u8]) -> Vec<u8> {
    let header = Header::decode(frame, Direction::Response).unwrap().unwrap();
    let answer = Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap();
    let Reply::Error { code: UNPREPARED, mut details, .. } = answer.reply else {
        panic!("not UNPREPARED: {}", shown(&answer));
    };
    details.short_bytes().unwrap().to_vec()
}

/// What `act` makes of an EXECUTE with a key.
fn with_execute<T>(id: &[u8], key: i32, act: impl FnOnce(&Request<'_>) -> T) -> T {
    let mut list = ValueList::new();
    list.push(Value::Bytes(&key.to_be_bytes()));
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters = Parameters { values: list.as_values(VERSION), ..plain };
    act(&Request::Execute(Execute { id, result_metadata_id: None, parameters }))
}

/// The core of the client knows the statement, and the owner of the rows has forgotten it: the client prepares again.
#[test]
fn what_the_owner_has_forgotten_is_unprepared() {
    let mut bench = Bench::new(2);
    let [own, others] = keys(&mut bench);
    for k in [own, others] {
        assert_eq!(bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 7)")), "void");
    }
    let text = "SELECT v FROM ks.t WHERE k = ?";
    let id = bench.prepare(text);
    assert_eq!(bench.execute(&id, &[others]), "7");
    let mut prepared = 0;
    let knows = |bench: &Bench, core: usize| {
        let executor = bench.server.executor(core);
        let known = executor.state.all_prepared(&executor.shard);
        known.iter().any(|(known, _)| known[..] == id)
    };
    while knows(&bench, 1) {
        // Of the client's core it is among those that were used last.
        assert_eq!(bench.execute(&id, &[own]), "7");
        bench.prepare(&format!("SELECT v FROM ks.t WHERE k = ? AND c = {prepared}"));
        prepared += 1;
    }
    assert!(knows(&bench, 0), "after {prepared} others");
    let frame = with_execute(&id, others, |request| bench.ask(request));
    assert_eq!(unprepared_id(&frame), id);
    assert_eq!(bench.prepare(text), id);
    assert_eq!(bench.execute(&id, &[others]), "7");
}

/// The owner finds no SELECT under the id: another statement, or none.
#[test]
fn an_id_of_no_select_is_unprepared_at_the_owner() {
    let mut bench = Bench::new(2);
    let [_, others] = keys(&mut bench);
    let insert = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, 1, 1)");
    for id in [insert, vec![7; 16]] {
        let mut frame = Vec::new();
        with_execute(&id, others, |request| request.put(VERSION, 1, Flags(0), &mut frame));
        let answered = bench.server.on_first_core(async move |shard| {
            let owner = shard.sharder().all().nth(1).unwrap();
            let (keyspace, result_id, number) = (None, None, 0);
            let deadline = Instant::now() + Duration::from_secs(3600);
            shard.ask(owner, Ask::Select { frame, keyspace, result_id, number, deadline }).await
        });
        let Some(PeerAnswer::Frame(frame)) = answered else { panic!("{answered:?}") };
        assert_eq!(unprepared_id(&frame), id);
    }
    assert_eq!(bench.query("SELECT count(*) FROM ks.t"), "0", "and nothing is written");
}

/// Before: only the result was compared, and the states of the aggregate that had been replaced were taken for those of
/// the new one.
#[test]
fn an_aggregate_that_is_replaced_between_its_parts_is_not_mixed() {
    // Parts side by side, and parts of which each goes on where the one before has ended.
    for parts in ["REDUCEFUNC plus", "INITCOND 0"] {
        let mut bench = Bench::new(2);
        let [own, others] = keys(&mut bench);
        for (k, c) in [(own, 1), (own, 2), (others, 1), (others, 2)] {
            bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {c}, 7)"));
        }
        let function = |name: &str, body: &str| {
            format!(
                "CREATE FUNCTION ks.{name} (a int, b int) CALLED ON NULL INPUT RETURNS int \
                 LANGUAGE lua AS 'return {body}'"
            )
        };
        let aggregate = |or: &str, function: &str| {
            format!("CREATE {or} AGGREGATE ks.total (int) SFUNC {function} STYPE int {parts}")
        };
        for text in [
            function("plus", "(a or 0) + b"),
            function("less", "(a or 0) - b"),
            aggregate("", "plus"),
        ] {
            let made = bench.query(&text);
            assert!(made.starts_with("CREATED"), "{text}: {made}");
        }
        let read = "SELECT ks.total(v) FROM ks.t";
        assert_eq!(bench.query(read), "28");
        let (reader, changer) = (bench.client, bench.server.connect(0, VERSION));
        let schema = |bench: &Bench, core: usize| bench.server.executor(core).shard.schema_number();
        let before = schema(&bench, 0);
        bench.begin_as(reader, read);
        // The second core takes no mail: it is asked for its part, and told of the new aggregate.
        let first_core_alone = |bench: &mut Bench, until: &dyn Fn(&Bench) -> bool| {
            for _ in 0..1000 {
                if until(bench) {
                    return;
                }
                if !bench.server.run_tasks() && !bench.server.poll_out_of_time(0) {
                    bench.server.advance(Duration::from_millis(1));
                }
            }
            panic!("the first core does not get there alone");
        };
        let asked = bench.server.parts_asked();
        first_core_alone(&mut bench, &|bench| bench.server.parts_asked() > asked);
        bench.begin_as(changer, &aggregate("OR REPLACE", "less"));
        first_core_alone(&mut bench, &|bench| schema(bench, 0) > before);
        while bench.server.run_tasks() || bench.server.poll_out_of_time(0) {}
        assert_eq!(schema(&bench, 1), before, "it is behind what it is asked for");
        bench.server.run_until_answered(reader);
        let said = bench.answers_to(reader);
        let changed = "error: the table was changed while it was read: send the statement again";
        assert_eq!(said.last().map(|(_, said)| &**said), Some(changed), "{parts}");
        bench.server.run_until_answered(changer);
        assert_eq!(bench.query(read), "-28");
    }
}

/// Before: a timestamp was of the pass in which its write came. A write through one core that followed an acknowledged
/// one through another could have the older timestamp, and was gone.
#[test]
fn a_write_through_another_core_wins_over_one_that_was_acknowledged() {
    let mut bench = Bench::new(2);
    let clients = [bench.client, bench.server.connect(1, VERSION)];
    let mut value = 1_000_000;
    for k in 0..20 {
        // One core gives more of them than the other.
        for (client, writes) in clients.into_iter().zip([3, 1]) {
            bench.client = client;
            for _ in 0..writes {
                // Each is smaller: of two with one timestamp the larger would stay.
                value -= 1;
                let text = format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, {value})");
                assert_eq!(bench.query(&text), "void");
            }
        }
        let read = format!("SELECT v FROM ks.t WHERE k = {k} AND c = 1");
        assert_eq!(bench.query(&read), value.to_string(), "{k}");
    }
}

const TIMED_OUT: &str = "error: Operation timed out - received only 0 responses.";

/// Before: the time-out of a forwarded read began when its owner took it. While an owner was slow, or much waited for
/// it, a client was told late or never.
#[test]
fn a_forwarded_read_that_its_owner_does_not_answer_times_out_and_the_late_answer_is_dropped() {
    let mut bench = Bench::new(2);
    let [own, others] = keys(&mut bench);
    for k in [own, others] {
        bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 7)"));
    }
    let read = |k: i32| format!("SELECT v FROM ks.t WHERE k = {k}");
    bench.begin_as(bench.client, &format!("{} USING TIMEOUT 100ms", read(others)));
    bench.server.poll_out_of_time(0);
    let late = |bench: &Bench, ms| bench.server.end_late_out_of_time(0, Duration::from_millis(ms));
    assert!(!late(&bench, 99));
    assert_eq!(bench.server.deliver_out_of_time(0), 0, "there is time left");
    for told in [1, 0] {
        assert!(!late(&bench, 101));
        assert_eq!(bench.server.deliver_out_of_time(0), told);
    }
    let said = bench.answers_to(bench.client);
    assert_eq!(said.iter().map(|(_, said)| &**said).collect::<Vec<_>>(), [TIMED_OUT]);
    assert_eq!(bench.server.forwarded(), 1, "its place is not given to another");
    assert_eq!(bench.query(&read(own)), "7", "the connection goes on");
    let (executor, reads) =
        (bench.server.executor(0), |fingerprint: &str| fingerprint.contains("timeout"));
    let counted = executor.statements.all().into_iter().find(|(name, _)| reads(&name.fingerprint));
    assert_eq!(counted.map(|(_, counts)| (counts.count, counts.errors)), Some((1, 1)));
    while bench.server.run_once() {}
    assert_eq!(bench.server.forwarded(), 0, "the owner has answered");
    assert_eq!(bench.answers_to(bench.client), [], "and the client is told nothing more");
    assert_eq!(bench.query(&read(others)), "7");
    assert_eq!(bench.server.held(), (0, 0, 0));
}

/// Before: it was run for a client that had given up.
#[test]
fn a_read_that_comes_to_its_owner_too_late_is_not_run() {
    let mut bench = Bench::new(2);
    let [_, others] = keys(&mut bench);
    bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({others}, 1, 7)"));
    let id = bench.prepare("SELECT v FROM ks.t WHERE k = ?");
    let now = bench.server.executor(1).state.monotonic();
    for (deadline, rows) in [(now, 0), (now + Duration::from_secs(3600), 1)] {
        let (mut frame, before) = (Vec::new(), bench.server.rows_read());
        with_execute(&id, others, |request| request.put(VERSION, 1, Flags(0), &mut frame));
        let asked = bench.server.on_first_core(async move |shard| {
            let owner = shard.sharder().all().nth(1).unwrap();
            let (keyspace, result_id, number) = (None, None, 0);
            shard.ask(owner, Ask::Select { frame, keyspace, result_id, number, deadline }).await
        });
        let Some(PeerAnswer::Frame(frame)) = asked else { panic!("{asked:?}") };
        let header = Header::decode(&frame, Direction::Response).unwrap().unwrap();
        let said = shown(&Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap());
        assert_eq!(said, if rows == 0 { TIMED_OUT } else { "7" });
        assert_eq!(bench.server.rows_read() - before, rows);
    }
}

/// Before: a read that waited at its owner had the whole time-out once more from then on.
#[test]
fn a_read_that_waits_at_its_owner_has_the_deadline_of_its_client() {
    let mut bench = Bench::new(2);
    let [_, others] = keys(&mut bench);
    let insert = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, 1)");
    (0..1000).for_each(|c| assert_eq!(bench.execute(&insert, &[others, c]), "void"));
    bench.server.advance(Duration::ZERO);
    for core in 0..2 {
        bench.server.executor(core).deadlines.walk();
    }
    bench.begin_as(bench.client, &format!("SELECT count(*) FROM ks.t WHERE k = {others}"));
    bench.server.poll_out_of_time(0);
    while bench.server.executor(1).deadlines.first().is_none() {
        bench.server.poll_out_of_time(1);
    }
    let firsts = [0, 1].map(|core| bench.server.executor(core).deadlines.first());
    assert_eq!(firsts[0], firsts[1]);
    assert_eq!(bench.answers().into_values().collect::<Vec<_>>(), ["1000"]);
}

/// As many as answers between two looks at the clock, again and again.
#[test]
fn a_look_without_time_tells_a_part_of_the_late_forwarded_reads() {
    let memory = 64 << 20;
    let mut bench = Bench::with(ManualConfig { shard_memory_bytes: memory, ..small(2) });
    let [_, others] = keys(&mut bench);
    const MANY: usize = 2 * ANSWERS_PER_CLOCK_READ + 10;
    let text = format!("SELECT v FROM ks.t WHERE k = {others} USING TIMEOUT 1ms");
    (0..MANY).for_each(|_| bench.begin_as(bench.client, &text));
    let told = bench.told_out_of_time();
    assert_eq!(told, [ANSWERS_PER_CLOCK_READ, ANSWERS_PER_CLOCK_READ, 10]);
    while bench.server.run_once() {}
    assert_eq!((bench.server.forwarded(), bench.answers_to(bench.client).len()), (0, MANY));
}

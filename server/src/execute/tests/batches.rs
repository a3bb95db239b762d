//! Batches: logged ones over several cores, of which all is there or nothing, and long messages, bound in steps.

use model::Token;

use super::super::batch;
use super::*;
use crate::limits::{
    BATCH_AT_ONCE_BYTES, BATCH_AT_ONCE_STATEMENTS, WAITING_STATEMENTS_MEMORY_DIVISOR,
};

const ROWS: usize = 8;

fn batch(of: impl Fn(usize) -> String) -> String {
    let statements: Vec<String> = (0..ROWS).map(of).collect();
    format!("BEGIN BATCH {} APPLY BATCH", statements.join("; "))
}

fn insert(k: usize) -> String {
    format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, {k})")
}

/// Wherever the power is cut while a batch over three cores is written, what a start on as many cores as before, or on
/// others, shows first is all of its rows or none. All if it was answered.
#[test]
fn a_logged_batch_is_whole_or_not_there_wherever_the_power_is_cut() {
    let (mut whole, mut unseen) = (0, 0);
    let points = (0..)
        .flat_map(|at| [Crash::Nothing, Crash::Everything, Crash::Random].map(|mode| (at, mode)));
    for (at, mode) in points {
        let sim = SimDisk::new(at, Faults::default());
        let mut bench = Bench::make(&Disk::Sim(sim.clone()), &small(3));
        sim.set_faults(Faults { crash_at_op: Some(at), ..Faults::default() });
        let (text, parameters) = (batch(insert), Parameters::plain(Consistency::One, VERSION));
        bench.begin(&Request::Query(Query { text: &text, parameters }));
        bench
            .server
            .on_first_core(async |shard| shard.runtime().sleep(Duration::from_millis(200)).await);
        let was_answered = bench.server.sent(bench.client, |bytes| !bytes.is_empty());
        let was_cut = sim.is_crashed();
        drop(bench);
        let disk = Disk::Sim(sim.crash(at, mode));
        let mut bench = Bench::open(&disk, &small(1 + at as usize % 4));
        let rows = bench.query("SELECT count(*) FROM ks.t");
        match rows.as_str() {
            "8" => whole += 1,
            "0" => unseen += 1,
            half => panic!("cut at {at}: {half} of {ROWS} rows"),
        }
        assert!(rows == "8" || !was_answered, "cut at {at}: it was answered");
        assert_eq!(
            bench.query("SELECT id FROM system.batches"),
            "",
            "cut at {at}: nothing is left"
        );
        if !was_cut {
            break;
        }
    }
    assert!(whole > 2 && unseen > 0, "{whole} whole, {unseen} not there");
}

/// Before: the parts of other cores were written when a change of a list in one part could not be done.
#[test]
fn a_list_error_in_a_batch_over_several_cores_leaves_nothing_written() {
    let mut bench = Bench::new(3);
    bench.query("CREATE TABLE ks.l (k int PRIMARY KEY, l list<int>)");
    bench.query("INSERT INTO ks.l (k, l) VALUES (1, [1, 2])");
    let wrong = batch(|k| match k {
        5 => "UPDATE ks.l SET l[2] = 9 WHERE k = 1".to_owned(),
        k => insert(k),
    });
    assert_eq!(bench.query(&wrong), "error: List index 2 out of bound, list has size 2");
    assert_eq!(bench.query("SELECT count(*) FROM ks.t"), "0");
    let right = wrong.replace("l[2]", "l[1]");
    assert_eq!(bench.query(&right), "void");
    assert_eq!(bench.query("SELECT count(*) FROM ks.t"), "7");
    assert_eq!(bench.query("SELECT count(*) FROM ks.l WHERE k = 1"), "1");
}

/// The write type of a time-out.
pub(super) fn timed_out(frame: &[u8]) -> String {
    let header = Header::decode(frame, Direction::Response).unwrap().unwrap();
    let answer = Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap();
    let Reply::Error { code: WRITE_TIMEOUT, mut details, .. } = answer.reply else {
        panic!("no time-out: {}", shown(&answer));
    };
    // The consistency level, received, required.
    details.take(2 + 4 + 4).unwrap();
    details.string().unwrap().to_owned()
}

const WRITE_TIMEOUT: u32 = 0x1100;

/// `BATCH_LOG` while it may come to nothing, `BATCH` when it is noted and will be there.
#[test]
fn a_batch_that_takes_too_long_says_whether_it_is_noted() {
    let mut bench = Bench::new(2);
    bench.query("CREATE TABLE ks.l (k int PRIMARY KEY, l list<int>)");
    let (table, key) = bench
        .server
        .on_first_core(async |shard| {
            let owner = |key: &i32| shard.sharder().shard_of(Token::of_key(&key.to_be_bytes()));
            let key = (0..).find(|key| owner(key) == shard.me()).unwrap();
            (shard.schema().table("ks", "l").unwrap().id, key)
        })
        .unwrap();
    bench.query(&format!("INSERT INTO ks.l (k, l) VALUES ({key}, [1, 2])"));
    let text = batch(|k| match k {
        5 => format!("UPDATE ks.l SET l[1] = 9 WHERE k = {key}"),
        k => insert(k),
    });
    let text = text.replace("BEGIN BATCH", "BEGIN BATCH USING TIMEOUT 1ms");
    let (text, parameters) = (&*text, Parameters::plain(Consistency::One, VERSION));
    for told in ["BATCH_LOG", "BATCH"] {
        // The list is not read while its table is emptied: the batch is being checked.
        bench.server.on_first_core(async move |shard| {
            shard.engine().announce_truncation(table).await.unwrap();
        });
        bench.begin(&Request::Query(Query { text, parameters }));
        while bench.server.run_once() {}
        if told == "BATCH" {
            // The part is checked and the batch noted, and its table is closed before the part is written.
            bench.server.on_first_core(async move |shard| {
                shard.engine().end_cut(table);
                shard.engine().close_tables(&[table]).await.unwrap();
            });
        }
        while bench.server.run_once() {}
        bench.server.advance(Duration::from_millis(2));
        bench.server.run_until_answered(bench.client);
        let frame = bench.server.sent(bench.client, <[u8]>::to_vec);
        assert_eq!(timed_out(&frame), told);
        bench.server.on_first_core(async move |shard| {
            shard.engine().end_cut(table);
            shard.engine().open_tables(&[table]);
            // Longer than a part waits that could not be written.
            shard.runtime().sleep(Duration::from_millis(300)).await;
        });
        assert_eq!(bench.query("SELECT count(*) FROM ks.t"), "7", "{told}");
        assert_eq!(bench.query("SELECT id FROM system.batches"), "", "{told}");
    }
}

/// What is held of batches over several cores is bounded, and one that is refused leaves nothing.
#[test]
fn batches_that_hold_too_much_together_are_overloaded() {
    let large = ManualConfig { shard_memory_bytes: 256 << 20, ..small(2) };
    let mut bench = Bench::with(large);
    bench.query("CREATE TABLE ks.long (k int PRIMARY KEY, v text)");
    let long = "x".repeat(60_000);
    let mut values = ValueList::new();
    (0..ROWS).for_each(|_| values.push(Value::Bytes(long.as_bytes())));
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters = Parameters { values: values.as_values(VERSION), ..plain };
    let count = 44;
    for number in 0..count {
        let text =
            batch(|k| format!("INSERT INTO ks.long (k, v) VALUES ({}, ?)", number * ROWS + k));
        bench.begin(&Request::Query(Query { text: &text, parameters }));
    }
    let answers = bench.answers();
    let done = answers.values().filter(|answer| *answer == "void").count();
    let refused = answers.values().filter(|answer| answer.contains("memory of logged batches"));
    let refused = refused.count();
    assert!(done > 0 && refused > 0 && done + refused == count, "{done} and {refused}");
    assert_eq!(bench.query("SELECT count(*) FROM ks.long"), (done * ROWS).to_string());
}

impl Bench {
    /// Begins a batch of these texts; what it is answered within the request.
    fn begin_batch_of(&mut self, texts: &[String]) -> String {
        let (parameters, mut items) = (Parameters::plain(Consistency::One, VERSION), Vec::new());
        let statements: Vec<BatchStatement<'_>> = texts
            .iter()
            .map(|text| BatchStatement { text: BatchText::Query(text), values: parameters.values })
            .collect();
        let batch = Batch::new(BatchKind::Unlogged, &statements, parameters, VERSION, &mut items);
        self.begin(&Request::Batch(batch));
        let said = self.answers_to(self.client);
        said.into_iter().map(|(_, said)| said).collect()
    }
}

/// Before: all statements of a message were compiled and bound within the pass, 65,535 in 0.1 s.
#[test]
fn a_long_batch_goes_in_steps_and_a_short_one_is_judged_in_the_pass() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        let insert = |c: usize| format!("INSERT INTO ks.t (k, c, v) VALUES (1, {c}, {c})");
        let long = BATCH_AT_ONCE_STATEMENTS + 1;
        for count in [long - 1, long] {
            let mut texts: Vec<String> = (0..count).map(insert).collect();
            texts[count - 1] = "INSERT INTO ks.nope (k) VALUES (1)".to_owned();
            let at_once = bench.begin_batch_of(&texts);
            let later: String = bench.answers().into_values().collect();
            let refused = "error: table nope does not exist".to_owned();
            let expected =
                if count < long { (refused, String::new()) } else { (String::new(), refused) };
            assert_eq!((at_once, later), expected, "{count} statements");
        }
        assert_eq!(bench.query("SELECT count(*) FROM ks.t"), "0", "all of a batch or nothing");
        for round in 0..3 {
            let texts: Vec<String> = (0..long).map(|c| insert(round * long + c)).collect();
            assert_eq!(bench.begin_batch_of(&texts), "");
        }
        // One long text is as long as many short ones.
        let text = format!("{} /* {} */", insert(9000), " ".repeat(BATCH_AT_ONCE_BYTES));
        assert_eq!(bench.begin_batch_of(&[text]), "");
        assert!(bench.answers().into_values().all(|said| said == "void"));
        assert_eq!(bench.query("SELECT count(*) FROM ks.t"), (3 * long + 1).to_string());
    }
}

/// Before: each of 256 statements could take 100 ms of the one step in which all were compiled and bound.
#[test]
fn a_short_batch_whose_expressions_take_long_goes_in_steps() {
    let mut bench = Bench::new(1);
    bench.query("CREATE TABLE ks.d (k int PRIMARY KEY, v decimal)");
    for (digits, is_long) in [("9", false), ("400", true)] {
        let text = format!("INSERT INTO ks.d (k, v) VALUES (1, exp(1 + 1e-{digits}))");
        let at_once =
            bench.begin_batch_of(&[text, "INSERT INTO ks.nope (k) VALUES (1)".to_owned()]);
        let later: Vec<String> = bench.answers().into_values().collect();
        assert_eq!((at_once.is_empty(), later.len()), (is_long, usize::from(is_long)), "{digits}");
    }
    let id = bench.prepare("INSERT INTO ks.d (k, v) VALUES (3, exp((decimal)?))");
    let (mut good, mut bad) = (ValueList::new(), ValueList::new());
    good.push(Value::Bytes(&[0, 0, 0, 1, 15]));
    bad.push(Value::Bytes(&[0]));
    for (count, is_long) in [(3, false), (100, true)] {
        let all = std::iter::repeat_n(&good, count).chain([&bad]);
        let text = BatchText::Prepared(&id);
        let of = all.map(|values| BatchStatement { text, values: values.as_values(VERSION) });
        let statements: Vec<_> = of.collect();
        let (parameters, mut items) = (Parameters::plain(Consistency::One, VERSION), Vec::new());
        let batch = Batch::new(BatchKind::Unlogged, &statements, parameters, VERSION, &mut items);
        bench.begin(&Request::Batch(batch));
        assert_eq!(bench.answers_to(bench.client).is_empty(), is_long, "{count} statements");
        assert_eq!(bench.answers().len(), usize::from(is_long));
    }
    assert_eq!(bench.query("SELECT count(*) FROM ks.d"), "0");
}

/// What is sent behind it is written over it, though it may be bound before.
#[test]
fn a_long_batch_has_the_timestamp_of_when_it_came() {
    let mut bench = Bench::new(1);
    let all = vec![
        "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)".to_owned();
        BATCH_AT_ONCE_STATEMENTS + 1
    ];
    assert_eq!(bench.begin_batch_of(&all), "");
    bench.begin_as(bench.client, "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 2)");
    assert_eq!(bench.answers().len(), 2);
    assert_eq!(bench.query("SELECT v FROM ks.t WHERE k = 1 AND c = 1"), "2");
}

/// Conditions are judged as in a short one, and refusals are told.
#[test]
fn a_long_batch_with_a_condition_is_applied_or_not() {
    let mut bench = Bench::new(1);
    let mut texts: Vec<String> = (0..BATCH_AT_ONCE_STATEMENTS)
        .map(|c| format!("INSERT INTO ks.t (k, c, v) VALUES (1, {c}, 1)"))
        .collect();
    texts.push("INSERT INTO ks.t (k, c, v) VALUES (1, 900, 1) IF NOT EXISTS".to_owned());
    for expected in ["true", "false"] {
        assert_eq!(bench.begin_batch_of(&texts), "");
        let said: String = bench.answers().into_values().collect();
        assert!(said.starts_with(expected), "{said}");
    }
}

/// Before: of a statement with many conditions a name was kept for each of them in each statement: 1 GB of a message of
/// 1.4 MB.
#[test]
fn the_conditions_of_a_long_batch_are_counted_before_their_names_are_kept() {
    let mut bench = Bench::new(1);
    let conditions = ["v = 1"; 1024].join(" AND ");
    let id = bench.prepare(&format!("UPDATE ks.t SET v = 2 WHERE k = 1 AND c = 1 IF {conditions}"));
    let plain = Parameters::plain(Consistency::One, VERSION);
    let text = BatchText::Prepared(&id);
    let statements = vec![BatchStatement { text, values: plain.values }; 60_000];
    let mut items = Vec::new();
    let batch = Batch::new(BatchKind::Logged, &statements, plain, VERSION, &mut items);
    bench.begin(&Request::Batch(batch));
    let said = bench.answers().into_values().next().unwrap();
    assert_eq!(said, "error: A statement or batch has more than 1024 conditions: use several");
}

#[test]
fn a_long_batch_that_has_no_turn_in_time_is_not_written() {
    let mut bench = Bench::new(1);
    let executor = bench.server.executor(0);
    let turn = batch::at_once(executor.long_statements.take(1));
    let texts: Vec<String> = (0..=BATCH_AT_ONCE_STATEMENTS)
        .map(|c| format!("INSERT INTO ks.t (k, c, v) VALUES (1, {c}, 1)"))
        .collect();
    assert_eq!(bench.begin_batch_of(&texts), "");
    while bench.server.run_once() {}
    bench.server.advance(Duration::from_secs(3601));
    let said = bench.answers().into_values().next().unwrap();
    let expected = "error: Not bound within 3600000 ms, with the long statements before it: nothing of it was done";
    assert_eq!(said, expected);
    drop(turn);
    assert_eq!(bench.query("SELECT count(*) FROM ks.t"), "0");
}

/// Before: the bodies of long batches whose clients were gone were counted nowhere until they had their turn, and the
/// texts of changes of the schema as well.
#[test]
fn what_waits_for_its_turn_is_counted_though_its_client_is_gone() {
    let mut bench = Bench::new(1);
    let own = bench.client;
    let gone = |bench: &mut Bench, begin: &dyn Fn(&mut Bench)| {
        let client = bench.server.connect(0, VERSION);
        bench.client = client;
        begin(bench);
        bench.client = own;
        bench.server.disconnect(client);
    };
    // Two of these fit, and not three.
    let filler =
        " ".repeat(small(1).shard_memory_bytes / WAITING_STATEMENTS_MEMORY_DIVISOR * 2 / 5);
    let insert = |c: usize| format!("INSERT INTO ks.t (k, c, v) VALUES (1, {c}, 1) /* {filler} */");
    let text = format!("CREATE TABLE IF NOT EXISTS ks.n (k int PRIMARY KEY) /* {filler} */");
    let batch = |bench: &mut Bench| drop(bench.begin_batch_of(&[insert(1)]));
    let change = |bench: &mut Bench| bench.begin_as(bench.client, &text);
    for begin in [&batch as &dyn Fn(&mut Bench), &change] {
        gone(&mut bench, begin);
        gone(&mut bench, begin);
        let said = bench.begin_batch_of(&[insert(2)]);
        assert!(said.starts_with("error: Request not taken: long texts, long values"), "{said}");
        while bench.server.run_once() {}
        assert_eq!(bench.begin_batch_of(&[insert(3)]), "");
        assert_eq!(bench.answers().into_values().next().as_deref(), Some("void"));
    }
    assert_eq!(bench.query("SELECT c FROM ks.t WHERE k = 1"), "3", "no turn for who is gone");
}

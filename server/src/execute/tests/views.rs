//! Materialized views over several cores: what is built, emptied and written beside other statements.

use model::{TableId, Token};
use shard::owner::Sharder;
use shard::upkeep::Upkeep;

use super::*;

const TABLE: &str = "CREATE TABLE ks.b (k int PRIMARY KEY, r int, v int)";
const VIEW: &str = "CREATE MATERIALIZED VIEW ks.w AS SELECT * FROM ks.b \
                    WHERE r IS NOT NULL AND k IS NOT NULL PRIMARY KEY (r, k)";

impl Bench {
    /// A server with the table `ks.b`.
    fn with_base(shards: usize) -> Bench {
        let mut bench =
            Bench::with(ManualConfig { shard_memory_bytes: 128 << 20, ..small(shards) });
        assert_eq!(bench.query(TABLE), "CREATED TABLE ks b");
        bench
    }

    /// The same, with its view.
    fn with_view(shards: usize) -> Bench {
        let mut bench = Bench::with_base(shards);
        assert_eq!(bench.query(VIEW), "CREATED TABLE ks w");
        bench.until_built(&["w"]);
        bench
    }

    /// Turns and moves the time until all views that are built are these.
    fn until_built(&mut self, views: &[&str]) {
        let mut built = String::new();
        for _ in 0..200 {
            built =
                self.query("SELECT view_name FROM system.built_views WHERE keyspace_name = 'ks'");
            if built == views.join(", ") {
                return;
            }
            self.pass_ms(20);
        }
        panic!("built: {built}");
    }

    fn pass_ms(&mut self, ms: u32) {
        for _ in 0..ms {
            while self.server.run_once() {}
            self.server.advance(Duration::from_millis(1));
        }
    }

    fn id_of(&mut self, name: &str) -> TableId {
        let name = name.to_owned();
        let id = self.server.on_first_core(async move |shard| {
            shard.schema().table("ks", &name).map(|table| table.id)
        });
        id.flatten().unwrap()
    }

    fn upkeep(&mut self, upkeep: Upkeep) {
        let done = self.server.on_first_core(async move |shard| shard.upkeep(&upkeep).await);
        done.unwrap().unwrap();
    }
}

/// Numbers from `first` on whose partitions this core of two has.
fn of_core(core: usize, first: i32) -> impl Iterator<Item = i32> {
    let sharder = Sharder::new(2);
    (first..).filter(move |k| sharder.shard_of(Token::of_key(&k.to_be_bytes())).index() == core)
}

/// Before: a write of a base held its credit until its rows of views were with another core, and these needed one of
/// the same credits: two cores whose clients had all of them waited for each other until a restart.
#[test]
fn cores_that_have_given_each_other_all_credits_go_on() {
    const WRITES: usize = 2_200;
    let mut bench = Bench::with_view(2);
    let clients = [bench.client, bench.server.connect(1, VERSION)];
    for core in [0, 1] {
        for (k, r) in of_core(1 - core, 0).zip(of_core(core, 0)).take(WRITES) {
            bench.begin_as(clients[core], &format!("INSERT INTO ks.b (k, r) VALUES ({k}, {r})"));
        }
    }
    for client in clients {
        bench.server.run_until_answered(client);
        let answers = bench.answers_to(client);
        assert_eq!(answers.len(), WRITES);
        assert!(answers.iter().all(|(_, answer)| answer == "void"), "{answers:?}");
    }
    assert_eq!(bench.query("SELECT count(*) FROM ks.w"), (2 * WRITES).to_string());
}

/// Before: batches that waited for the end of a TRUNCATE took all credits, and the last step of the TRUNCATE waited for
/// one of them, until a restart.
#[test]
fn a_truncate_ends_though_batches_that_wait_for_it_have_taken_all_credits() {
    const BATCHES: usize = 1_500;
    let mut bench = Bench::with_view(2);
    let base = bench.id_of("b");
    bench.upkeep(Upkeep::HoldWrites(base));
    let insert = |k: i32| format!("INSERT INTO ks.b (k, r) VALUES ({k}, 1)");
    for (here, there) in of_core(0, 0).zip(of_core(1, 0)).take(BATCHES) {
        let both = format!("BEGIN BATCH {}; {}; APPLY BATCH", insert(here), insert(there));
        bench.begin_as(bench.client, &both);
    }
    while bench.server.run_once() {}
    assert_eq!(bench.answers_to(bench.client), [], "they wait");
    bench.upkeep(Upkeep::ReleaseWrites(base));
    bench.server.run_until_answered(bench.client);
    let answers = bench.answers_to(bench.client);
    assert_eq!(answers.len(), BATCHES);
    assert!(answers.iter().all(|(_, answer)| answer == "void"), "{answers:?}");
}

/// Before: what was taken without rows of a view and was not readable yet when the view was built came into the base
/// alone.
#[test]
fn a_write_that_waits_while_its_view_is_made_is_in_it() {
    let mut bench = Bench::with_base(2);
    let base = bench.id_of("b");
    let writer = bench.server.connect(1, VERSION);
    bench.upkeep(Upkeep::HoldWrites(base));
    for k in [1, 2, 3] {
        bench.begin_as(writer, &format!("UPDATE ks.b SET r = 1 WHERE k = {k} IF r = null"));
        bench.begin_as(writer, &format!("INSERT INTO ks.b (k, r) VALUES ({k}, 5)"));
    }
    while bench.server.run_once() {}
    assert_eq!(bench.query(VIEW), "CREATED TABLE ks w");
    bench.pass_ms(100);
    bench.upkeep(Upkeep::ReleaseWrites(base));
    bench.server.run_until_answered(writer);
    bench.until_built(&["w"]);
    let both = ["SELECT r, k FROM ks.b WHERE k IN (1, 2, 3)", "SELECT r, k FROM ks.w WHERE r = 5"];
    assert_eq!(both.map(|text| bench.query(text)), ["5 1, 5 2, 5 3"; 2]);
    assert_eq!(bench.query("SELECT count(*) FROM ks.w"), "3");
}

const NO_SNAPSHOT: &str = " WITH allow_auto_snapshot = false";

impl Bench {
    /// A server whose disk lets tasks go on in between, with the table, ten rows of it, and its view.
    fn with_rows_in_view(options: &str) -> Bench {
        let faults = Faults { suspensions_max: 4, ..Faults::default() };
        let config = ManualConfig { shard_memory_bytes: 128 << 20, ..small(2) };
        let mut bench = Bench::make(&Disk::Sim(SimDisk::new(1, faults)), &config);
        assert_eq!(bench.query(&format!("{TABLE}{options}")), "CREATED TABLE ks b");
        assert_eq!(bench.query(VIEW), "CREATED TABLE ks w");
        bench.until_built(&["w"]);
        bench.insert_ten();
        bench
    }

    fn insert_ten(&mut self) {
        for k in 0..10 {
            let insert = format!("INSERT INTO ks.b (k, r) VALUES ({k}, {})", k % 3);
            assert_eq!(self.query(&insert), "void");
        }
    }

    /// Writes a row of a new key in each turn, after `each`, until this client has been answered so often: these
    /// answers, and what the writes were answered.
    fn beside_inserts(
        &mut self,
        (client, answers): (ClientId, usize),
        mut each: impl FnMut(&mut Bench, i32),
    ) -> (Vec<String>, Vec<String>) {
        let writer = self.server.connect(1, VERSION);
        let mut answered = Vec::new();
        for turn in 0..8000 {
            each(self, turn);
            let (k, r) = (1000 + turn, turn % 7);
            self.begin_as(writer, &format!("INSERT INTO ks.b (k, r) VALUES ({k}, {r})"));
            self.server.run_once();
            self.server.advance(Duration::from_micros(100));
            answered.extend(self.answers_to(client).into_iter().map(|(_, answer)| answer));
            if answered.len() == answers {
                break;
            }
        }
        self.server.run_until_answered(writer);
        let written = self.answers_to(writer).into_iter().map(|(_, answer)| answer).collect();
        (answered, written)
    }

    fn rows(&mut self, table: &str) -> Vec<String> {
        let rows = self.query(&format!("SELECT k, r FROM ks.{table}"));
        let mut rows: Vec<String> =
            rows.split(", ").filter(|row| !row.is_empty()).map(str::to_owned).collect();
        rows.sort_unstable();
        rows
    }
}

/// Before: the first of two took the hold of the base's writes from the second, which had emptied the views and not the
/// base: a row that was written then stayed in the view for ever.
#[test]
fn two_truncates_of_a_base_leave_no_row_in_its_view() {
    for apart in [0, 1, 2, 4, 8, 16, 32] {
        let mut bench = Bench::with_rows_in_view(NO_SNAPSHOT);
        let client = bench.client;
        let (answers, _) = bench.beside_inserts((client, 2), |bench, turn| {
            if turn == 0 || turn == apart.max(1) {
                bench.begin_as(client, "TRUNCATE ks.b");
            }
        });
        assert_eq!(answers, ["void"; 2]);
        assert_eq!(bench.rows("b"), bench.rows("w"), "{apart} turns apart");
    }
}

/// Before: a change of the schema beside a TRUNCATE had the builder take its hold and its cut, and a view that was made
/// meanwhile kept rows of before.
#[test]
fn a_truncate_beside_a_new_view_empties_both() {
    for options in [NO_SNAPSHOT, ""] {
        for at in [1, 2, 4, 8, 16, 32, 64] {
            let mut bench = Bench::with_rows_in_view(options);
            let (client, other) = (bench.client, bench.server.connect(1, VERSION));
            let (answers, _) = bench.beside_inserts((client, 1), |bench, turn| {
                if turn == 0 {
                    bench.begin_as(client, "TRUNCATE ks.b");
                }
                if turn == at {
                    bench.begin_as(other, &VIEW.replace("ks.w", "ks.x"));
                }
            });
            assert_eq!(answers, ["void"], "{at} turns after{options}");
            bench.server.run_until_answered(other);
            if bench.answers_to(other).is_empty() {
                bench.query(&VIEW.replace("ks.w", "ks.x"));
            }
            bench.until_built(&["w", "x"]);
            let base = bench.rows("b");
            assert_eq!(base, bench.rows("w"), "{at} turns after{options}");
            assert_eq!(base, bench.rows("x"), "{at} turns after{options}");
        }
    }
}

/// Before: the views were emptied first, and left so.
#[test]
fn a_truncate_whose_snapshot_fails_leaves_the_views() {
    let sim = SimDisk::new(1, Faults::default());
    let mut bench = Bench::make(&Disk::Sim(sim.clone()), &small(2));
    bench.query(TABLE);
    bench.query(VIEW);
    bench.until_built(&["w"]);
    bench.insert_ten();
    let before = bench.rows("w");
    bench.server.flush();
    let base = bench.id_of("b");
    for file in sim.files_of(&engine::layout::table_dir(base.0)) {
        sim.lose(&file);
    }
    let answer = bench.query("TRUNCATE ks.b");
    assert!(answer.starts_with("error"), "{answer}");
    bench.pass_ms(50);
    assert_eq!(bench.rows("w"), before);
    bench.until_built(&["w"]);
}

/// Before: TRUNCATE noted first what it was about to do, which a full disk does not take.
#[test]
fn a_base_with_a_view_is_truncated_on_a_full_disk() {
    let sim = SimDisk::new(1, Faults::default());
    let mut bench = Bench::make(&Disk::Sim(sim.clone()), &small(2));
    bench.query(TABLE);
    bench.query(VIEW);
    bench.until_built(&["w"]);
    bench.insert_ten();
    bench.server.flush();
    sim.set_faults(Faults { quota_bytes: Some(sim.used_bytes()), ..Faults::default() });
    bench.pass_ms(1_500);
    let refused = bench.query("INSERT INTO ks.b (k, r) VALUES (1, 2)");
    assert!(refused.starts_with("error"), "{refused}");
    assert_eq!(bench.query("TRUNCATE ks.b"), "void");
    sim.set_faults(Faults::default());
    bench.pass_ms(1_500);
    assert_eq!([bench.rows("b"), bench.rows("w")], [[""; 0]; 2]);
    bench.insert_ten();
    assert_eq!(bench.rows("b"), bench.rows("w"));
    bench.until_built(&["w"]);
}

/// Before: while the snapshot of the view was taken, writes of its base were refused as `Invalid`.
#[test]
fn a_drop_of_a_view_refuses_no_write_of_its_base() {
    let mut bench = Bench::with_rows_in_view("");
    let client = bench.client;
    let (answers, written) = bench.beside_inserts((client, 1), |bench, turn| {
        if turn == 5 {
            bench.begin_as(client, "DROP MATERIALIZED VIEW ks.w");
        }
    });
    assert_eq!(answers, ["DROPPED TABLE ks w"]);
    assert!(written.iter().all(|answer| answer == "void"), "{written:?}");
}

/// Before: a row whose value is too long for the key of a view that came later took no write any more.
#[test]
fn a_row_that_is_too_long_for_a_view_takes_writes() {
    let mut bench = Bench::new(2);
    bench.query("CREATE TABLE ks.l (k int PRIMARY KEY, r text, v int)");
    let long = "x".repeat(70_000);
    let insert = format!("INSERT INTO ks.l (k, r, v) VALUES (1, '{long}', 1)");
    assert_eq!(bench.query(&insert), "void");
    bench.query(&VIEW.replace("ks.b", "ks.l"));
    bench.until_built(&["w"]);
    for write in [
        "UPDATE ks.l SET v = 2 WHERE k = 1",
        "UPDATE ks.l USING TTL 1000 SET v = 3 WHERE k = 1",
        "DELETE v FROM ks.l WHERE k = 1",
    ] {
        assert_eq!(bench.query(write), "void", "{write}");
        assert_eq!(bench.query("SELECT count(*) FROM ks.w"), "0");
    }
    let refused = bench.query(&insert);
    assert!(refused.starts_with("error: Key size of 70000 bytes"), "{refused}");
    assert_eq!(bench.query("UPDATE ks.l SET r = 'short', v = 4 WHERE k = 1"), "void");
    assert_eq!(bench.query("SELECT k, v FROM ks.w WHERE r = 'short'"), "1 4");
}

/// Before: the files of views came back, too, or a base alone, and its views stayed as they were.
#[test]
fn views_of_a_table_that_is_restored_are_built_again() {
    let mut bench = Bench::with_view(2);
    bench.insert_ten();
    assert_eq!(bench.query("TRUNCATE ks.b"), "void");
    let tag = tags(&mut bench).pop().unwrap();
    assert_eq!(bench.query("INSERT INTO ks.b (k, r) VALUES (100, 1)"), "void");
    restore(&mut bench, &tag).unwrap();
    bench.until_built(&["w"]);
    let rows = bench.rows("b");
    assert_eq!((rows.len(), &rows), (11, &bench.rows("w")));
}

/// Before: a write that found nothing to change was answered while rows of views of what it had found were on their
/// way.
#[test]
fn a_write_is_answered_after_those_that_it_has_seen() {
    let mut bench = Bench::with_view(2);
    let view = bench.id_of("w");
    // On the first core, with its row of the view on the second.
    let (k, r) = (of_core(0, 0).next().unwrap(), of_core(1, 0).next().unwrap());
    bench.upkeep(Upkeep::Close([view].into()));
    let insert = format!("INSERT INTO ks.b (k, r) VALUES ({k}, {r})");
    let conditional = format!("{insert} IF NOT EXISTS");
    let mut clients = Vec::new();
    for text in [&insert, &insert, &conditional] {
        clients.push(bench.server.connect(0, VERSION));
        bench.begin_as(*clients.last().unwrap(), text);
        bench.pass_ms(5);
    }
    bench.pass_ms(300);
    for client in &clients {
        assert_eq!(bench.answers_to(*client), []);
    }
    bench.upkeep(Upkeep::Open([view].into()));
    let mut answers = Vec::new();
    for client in clients {
        bench.server.run_until_answered(client);
        answers.push(bench.answers_to(client).remove(0).1);
    }
    assert_eq!(answers[..2], ["void", "void"]);
    assert!(answers[2].starts_with("false"), "{answers:?}");
    assert_eq!(bench.rows("w"), [format!("{k} {r}")]);
}

/// A base whose rows take 60 KB each in its view, of which a record has space for eight.
fn with_long_rows() -> Bench {
    let mut bench = Bench::with(ManualConfig { shard_memory_bytes: 128 << 20, ..small(2) });
    bench.query("CREATE TABLE ks.l (k int, c text, v int, PRIMARY KEY (k, c))");
    bench.query("CREATE TABLE ks.o (k int PRIMARY KEY, v int)");
    let view = "CREATE MATERIALIZED VIEW ks.w AS SELECT * FROM ks.l \
                WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)";
    assert_eq!(bench.query(view), "CREATED TABLE ks w");
    bench.until_built(&["w"]);
    bench
}

fn insert_long(k: i32, c: i32) -> String {
    format!("INSERT INTO ks.l (k, c) VALUES ({k}, '{c}{}')", "x".repeat(60_000))
}

/// A batch over both cores that takes a partition of the long rows.
fn long_batch(k: i32) -> String {
    let others =
        (0..4).map(|other| format!("INSERT INTO ks.o (k, v) VALUES ({}, {k})", 4 * k + other));
    let others = others.collect::<Vec<_>>().join("; ");
    format!("BEGIN BATCH DELETE FROM ks.l WHERE k = {k}; {others}; APPLY BATCH")
}

/// Before: its owner refused the part when the batch was noted: the others were written, and each start tried again.
#[test]
fn a_logged_batch_with_too_many_rows_of_views_is_refused_whole() {
    let mut bench = with_long_rows();
    (0..12).for_each(|c| assert_eq!(bench.query(&insert_long(0, c)), "void"));
    let refused = "error: a mutation of";
    assert!(bench.query("DELETE FROM ks.l WHERE k = 0").starts_with(refused));
    assert!(bench.query(&long_batch(0)).starts_with(refused));
    assert_eq!(bench.query("SELECT count(*) FROM ks.o"), "0");
    assert_eq!(bench.query("SELECT count(*) FROM system.batches"), "0");
}

/// Before: a part whose rows of views became too many after it was checked was never written, and the others were.
#[test]
fn a_noted_batch_is_written_whole_when_rows_of_views_became_too_many() {
    let mut bench = with_long_rows();
    let (client, writer) = (bench.client, bench.server.connect(1, VERSION));
    bench.query("INSERT INTO ks.l (k, c, v) VALUES (1000, 'first', 1)");
    let written = "SELECT WRITETIME(v) FROM ks.w WHERE c = 'first'";
    let (mut built, mut builds) = (bench.query(written), 0);
    for (k, turns) in (0..).zip([0, 1, 2, 4, 8]) {
        (0..7).for_each(|c| assert_eq!(bench.query(&insert_long(k, c)), "void"));
        bench.begin_as(client, &long_batch(k));
        for _ in 0..turns {
            bench.server.run_once();
        }
        // Older than the batch, which deletes them.
        let older = |c: i32| format!("{} USING TIMESTAMP 1", insert_long(k, c));
        (10..20).for_each(|c| bench.begin_as(writer, &older(c)));
        [client, writer].iter().for_each(|client| bench.server.run_until_answered(*client));
        let answers = [client, writer].map(|client| bench.answers_to(client));
        assert!(answers.iter().flatten().all(|(_, answer)| answer == "void"), "{answers:?}");
        assert_eq!(bench.query("SELECT count(*) FROM ks.o"), (4 * (k + 1)).to_string());
        assert_eq!(bench.query("SELECT count(*) FROM system.batches"), "0");
        bench.until_built(&["w"]);
        let count = |table: &str| format!("SELECT count(*) FROM {table}");
        assert_eq!(bench.query(&count("ks.l")), bench.query(&count("ks.w")), "{k}");
        let before = std::mem::replace(&mut built, bench.query(written));
        builds += usize::from(before != built);
    }
    assert!(builds > 0, "some batch was noted before the rows came");
}

/// Before: its row said `STARTED` for ever.
#[test]
fn nothing_is_said_of_a_view_that_was_dropped_while_it_was_built() {
    let mut bench = Bench::with_base(2);
    bench.insert_ten();
    let base = bench.id_of("b");
    bench.upkeep(Upkeep::HoldWrites(base));
    assert_eq!(bench.query(VIEW), "CREATED TABLE ks w");
    bench.pass_ms(20);
    let status = "SELECT view_name, status FROM system_distributed.view_build_status";
    assert_eq!(bench.query(status), "w STARTED");
    assert_eq!(bench.query("DROP MATERIALIZED VIEW ks.w"), "DROPPED TABLE ks w");
    bench.upkeep(Upkeep::ReleaseWrites(base));
    bench.pass_ms(50);
    assert_eq!(bench.query(status), "");
    assert_eq!(bench.query("SELECT view_name FROM system.view_builds_in_progress"), "");
}

/// A node that is killed between the record of a write and the sending of its rows of views has them after its start,
/// with any number of cores.
#[test]
fn noted_rows_of_views_are_sent_by_the_next_start() {
    for shards in [1, 2, 3] {
        let sim = SimDisk::new(1, Faults::default());
        let mut bench = Bench::make(&Disk::Sim(sim.clone()), &small(2));
        bench.query(TABLE);
        bench.query(VIEW);
        bench.until_built(&["w"]);
        let view = bench.id_of("w");
        let k = of_core(0, 0).next().unwrap();
        let rs: Vec<i32> = of_core(1, 0).take(2).collect();
        let insert = |r: i32| format!("INSERT INTO ks.b (k, r) VALUES ({k}, {r})");
        assert_eq!(bench.query(&insert(rs[0])), "void");
        bench.upkeep(Upkeep::Close([view].into()));
        let writer = bench.server.connect(0, VERSION);
        bench.begin_as(writer, &insert(rs[1]));
        bench.pass_ms(10);
        assert_eq!(bench.answers_to(writer), []);
        assert_eq!(bench.rows("b"), [format!("{k} {}", rs[1])]);
        assert_eq!(bench.rows("w"), [format!("{k} {}", rs[0])]);
        drop(bench);
        let mut bench = Bench::open(&Disk::Sim(sim.kill()), &small(shards));
        assert_eq!(bench.rows("w"), [format!("{k} {}", rs[1])], "{shards} cores");
        assert_eq!(bench.query("SELECT count(*) FROM system.batches"), "0");
    }
}

/// A node that is killed in a TRUNCATE shows in the view what its base has, once the view is built.
#[test]
fn a_truncate_that_a_crash_cuts_off_leaves_base_and_view_alike() {
    let config = small(2);
    let mut left = Vec::new();
    for turns in (0..90).step_by(5) {
        let faults = Faults { suspensions_max: 4, ..Faults::default() };
        let sim = SimDisk::new(7, faults);
        let mut bench = Bench::make(&Disk::Sim(sim.clone()), &config);
        bench.query(&format!("{TABLE}{NO_SNAPSHOT}"));
        bench.query(VIEW);
        bench.until_built(&["w"]);
        bench.insert_ten();
        bench.begin_as(bench.client, "TRUNCATE ks.b");
        for _ in 0..turns {
            bench.server.run_once();
            bench.server.advance(Duration::from_micros(100));
        }
        drop(bench);
        let mut bench = Bench::open(&Disk::Sim(sim.kill()), &config);
        bench.until_built(&["w"]);
        let rows = bench.rows("b");
        assert_eq!(rows, bench.rows("w"), "killed after {turns} turns");
        left.push(rows.len());
    }
    assert!(left.contains(&0) && left.contains(&10), "before its end and after: {left:?}");
}

//! Logged batches over several cores: all of each is there, or nothing.

use super::*;

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

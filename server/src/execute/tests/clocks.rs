//! Starts of a node whose data is ahead of its wall clock.

use super::*;

/// A node whose clock is `ahead_us` ahead writes, is killed, and starts again with the true clock: what `after` shows.
fn killed_with_a_clock_ahead(ahead_us: [i64; 2], before: &str, after: &[&str]) -> Vec<String> {
    let config = small(2);
    let sim = SimDisk::new(1, Faults::default());
    let mut bench = Bench::make(&Disk::Sim(sim.clone()), &config);
    let wall_us = shard::clock::Clock::new().wall_us();
    for ahead_us in ahead_us {
        // What lies in the second part is given and not noted.
        bench.server.note_timestamps().unwrap();
        bench.server.set_clocks(wall_us + ahead_us);
    }
    assert_eq!(bench.query(before), "void");
    let disk = Disk::Sim(sim.kill());
    drop(bench);
    let mut bench = Bench::open(&disk, &config);
    after.iter().map(|query| bench.query(query)).collect()
}

/// Before: timestamps were noted at a start and at an orderly stop only: after a crash a clock that had stepped back
/// was believed, and what was written then lost to what was there.
#[test]
fn a_clock_that_steps_back_in_a_crash_hides_no_later_write() {
    const HOUR_US: i64 = 3_600_000_000;
    for since_noted_us in [1, 1_000_000, 9_000_000] {
        let after = ["UPDATE ks.t SET v = 2 WHERE k = 1 AND c = 1", "SELECT v FROM ks.t"];
        let before = "UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 1";
        let ahead_us = [HOUR_US, HOUR_US + since_noted_us];
        assert_eq!(killed_with_a_clock_ahead(ahead_us, before, &after), ["void", "2"]);
    }
}

/// Before: the wall clock said when a column was dropped: on a node that gives timestamps ahead of it, what was
/// written before was there again when the column came back.
#[test]
fn a_column_that_comes_back_is_empty_on_a_node_ahead_of_its_clock() {
    const HOUR_US: i64 = 3_600_000_000;
    let before = "UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 1";
    let after = [
        "INSERT INTO ks.t (k, c, v) VALUES (2, 1, 2)",
        "ALTER TABLE ks.t DROP v",
        "ALTER TABLE ks.t ADD v int",
        "INSERT INTO ks.t (k, c, v) VALUES (3, 1, 3)",
        "SELECT k, v FROM ks.t WHERE k IN (2, 3)",
    ];
    let shown = killed_with_a_clock_ahead([HOUR_US, HOUR_US + 1], before, &after);
    assert_eq!(shown.last().unwrap(), "2 null, 3 3");
}

#[test]
fn a_timestamp_of_a_client_from_the_far_future_does_not_move_the_clock_of_a_start() {
    let before = "UPDATE ks.t USING TIMESTAMP 9000000000000000000 SET v = 1 WHERE k = 1 AND c = 1";
    let after = [
        "UPDATE ks.t SET v = 2 WHERE k = 2 AND c = 1",
        "SELECT writetime(v) FROM ks.t WHERE k = 2",
    ];
    let shown = killed_with_a_clock_ahead([0, 0], before, &after);
    let given_us: i64 = shown[1].parse().unwrap();
    let ahead_us = given_us - shard::clock::Clock::new().wall_us();
    assert!(ahead_us <= shard::limits::TIMESTAMP_SLACK_US, "{ahead_us}");
}

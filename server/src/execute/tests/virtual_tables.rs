//! Tables that are computed of what all cores know.

use super::*;

/// Virtual tables are computed on the core that is asked, with what the others know.
#[test]
fn virtual_tables_gather_what_all_cores_know() {
    let mut bench = Bench::new(3);
    for shard in 1..3 {
        bench.server.connect(shard, VERSION);
    }
    assert_eq!(bench.query("SELECT count(*) FROM system.clients"), "3");
    let of_table = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks'";
    assert_eq!(bench.query(of_table), "t");
    assert_eq!(bench.query("SELECT key FROM system.local"), "local");
}

/// What a shard asks of its disk is counted by class: a commit is one of them, and finds one request of a job before it
/// at most.
#[test]
fn requests_to_the_disk_are_a_table() {
    let mut bench = Bench::new(2);
    let counts = |class: &str| {
        format!(
            "SELECT requests, jobs_before_max FROM system_views.disk_requests WHERE shard = 0 AND class = '{class}'"
        )
    };
    let commits = |bench: &mut Bench| {
        let row = bench.query(&counts("commit"));
        let (requests, jobs) = row.split_once(' ').expect("two columns");
        assert!(["0", "1"].contains(&jobs), "{jobs} requests of jobs before a commit");
        requests.parse::<u64>().expect("a number")
    };
    let before = commits(&mut bench);
    for k in 0..8 {
        bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 1)"));
    }
    assert!(commits(&mut bench) > before, "one of eight keys is of the first shard");
    assert_eq!(bench.query(&counts("compaction")), "0 0");
}

/// What took long on any core is seen from each, by name.
#[test]
fn long_steps_of_all_cores_are_a_table() {
    let mut bench = Bench::new(2);
    let ms = Duration::from_millis;
    let pass = Work { name: "reads", ..Work::from(Group::Requests) };
    let flush = Work { name: "flush", ..Work::from(Group::Flush) };
    bench.server.stalled(0, pass, ms(3));
    bench.server.stalled(1, flush, ms(12));
    bench.server.stalled(1, flush, ms(7));
    let columns = "shard, work, over_2_ms, over_5_ms, over_10_ms, longest_us, computed_over_100_ms";
    let core = |shard| format!("SELECT {columns} FROM system_views.stalls WHERE shard = {shard}");
    assert_eq!(bench.query(&core(0)), "0 reads 1 0 0 3000 0");
    assert_eq!(bench.query(&core(1)), "1 flush 2 2 1 12000 0");
}

//! What a TRUNCATE or a DROP took, and what comes back of it.

use super::*;

#[test]
fn what_a_truncate_or_a_drop_took_comes_back_from_its_snapshot() {
    let (sim, config) = (SimDisk::new(1, Faults::default()), small(2));
    let disk = Disk::Sim(sim.clone());
    let mut bench = with_rows(&disk, &config);
    let all = rows_of(&mut bench);
    assert_eq!(all.len(), 4);
    assert_eq!(bench.query("TRUNCATE ks.t"), "void");
    assert_eq!(bench.query(ROWS), "");
    let truncated = tags(&mut bench);
    assert_eq!(truncated.len(), 1, "{truncated:?}");
    assert!(truncated[0].starts_with("truncated-") && truncated[0].ends_with("-t"));
    bench.query("INSERT INTO ks.t (k, c, v) VALUES (9, 1, 90)");
    assert!(restore(&mut bench, &truncated[0]).unwrap() >= 2);
    let mut wanted = all.clone();
    wanted.push("9 90".to_owned());
    assert_eq!(rows_of(&mut bench).len(), 5);
    assert_eq!(
        restore(&mut bench, &truncated[0]).map(|_| rows_of(&mut bench).len()),
        Ok(5),
        "again"
    );
    bench.query("INSERT INTO ks.t (k, c, v) VALUES (10, 1, 100)");
    assert!(bench.query("DROP KEYSPACE ks").starts_with("DROPPED"));
    let dropped = tags(&mut bench);
    assert_eq!(dropped.len(), 2);
    let dropped = dropped.iter().find(|tag| tag.ends_with("-ks")).unwrap().clone();
    assert!(restore(&mut bench, &dropped).unwrap() > 0);
    assert_eq!(rows_of(&mut bench).len(), 6);
    // What the log still holds of the table is not replayed; what comes after is.
    bench.query("DELETE FROM ks.t WHERE k = 10");
    drop(bench);
    let mut bench = Bench::open(&Disk::Sim(sim.kill()), &small(3));
    assert_eq!(rows_of(&mut bench).len(), 5);
    bench.query("DROP TABLE ks.t");
    bench.query("CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))");
    let refused = restore(&mut bench, &dropped).unwrap_err();
    assert!(refused.contains("ks.t is another table now"), "{refused}");
    assert!(restore(&mut bench, "a/b").unwrap_err().contains("cannot be the tag"));
    assert!(restore(&mut bench, "none").unwrap_err().contains("no snapshot none"));
    let cleared = bench.server.on_first_core(async |shard| shard.clear_snapshots(None).await);
    assert_eq!(cleared.unwrap().unwrap().len(), 3);
    assert_eq!(tags(&mut bench), [""; 0]);
}

/// An old record of the log of a table that was dropped and came back.
#[test]
fn the_log_of_a_dropped_table_is_not_replayed_into_one_that_came_back() {
    let (sim, config) = (SimDisk::new(1, Faults::default()), small(1));
    let mut bench = with_rows(&Disk::Sim(sim.clone()), &config);
    let taken = bench.server.on_first_core(async |shard| {
        let tables = [shard.schema().table("ks", "t").unwrap().id];
        auto_snapshots::take(&shard, "a".to_owned(), &tables, 0, None).await
    });
    assert_eq!(taken, Some(Ok(())));
    // In the log, and not in the snapshot.
    bench.query("INSERT INTO ks.t (k, c, v) VALUES (9, 1, 90)");
    bench.query("ALTER TABLE ks.t WITH allow_auto_snapshot = false");
    bench.query("DROP TABLE ks.t");
    assert_eq!(tags(&mut bench), ["a"]);
    assert!(restore(&mut bench, "a").unwrap() > 0);
    assert_eq!(rows_of(&mut bench).len(), 4);
    drop(bench);
    let mut bench = Bench::open(&Disk::Sim(sim.kill()), &config);
    assert_eq!(rows_of(&mut bench).len(), 4, "the row was dropped after the snapshot");
}

/// Wherever the power is cut in a TRUNCATE, the rows are there, or a snapshot that has them all.
#[test]
fn a_power_cut_in_a_truncate_leaves_the_rows_or_their_snapshot() {
    let config = small(2);
    let (mut there, mut given_back) = (0, 0);
    for at in (0..).step_by(5) {
        let sim = SimDisk::new(at, Faults::default());
        let mut bench = with_rows(&Disk::Sim(sim.clone()), &config);
        sim.set_faults(Faults { crash_at_op: Some(at), ..Faults::default() });
        let parameters = Parameters::plain(Consistency::One, VERSION);
        bench.begin(&Request::Query(Query { text: "TRUNCATE ks.t", parameters }));
        bench
            .server
            .on_first_core(async |shard| shard.runtime().sleep(Duration::from_millis(200)).await);
        let was_cut = sim.is_crashed();
        drop(bench);
        let mode = [Crash::Nothing, Crash::Everything, Crash::Random][at as usize % 3];
        let mut bench = Bench::open(&Disk::Sim(sim.crash(at, mode)), &config);
        match rows_of(&mut bench).len() {
            4 => there += 1,
            left => {
                let tag = tags(&mut bench).pop().unwrap_or_else(|| panic!("{at}: no snapshot"));
                restore(&mut bench, &tag).unwrap();
                assert_eq!(rows_of(&mut bench).len(), 4, "{at}: {left} rows were left");
                given_back += 1;
            }
        }
        if !was_cut {
            break;
        }
    }
    assert!(there > 3 && given_back > 1, "{there} whole, {given_back} given back");
}

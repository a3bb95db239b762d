//! What each strategy costs a table that is written for long, beside what theory says; and that it comes to rest,
//! whatever strategy the table had before.
//!
//! No file is written: `Flow` (`flow.rs`) flushes pieces, lets the strategy propose, and takes as long for a merge as
//! its bytes take at a given speed. What is asserted are the bytes on disk beside the live ones, the most files that
//! hold one token, and how often a byte is written. The bounds are those of a model without randomness, so a strategy
//! that is changed for the worse fails.
//!
//! The figures of `docs/compaction.md` are printed by the test that is not run by default.
//!
//! Not here: single decisions (`deciding.rs`), a real disk (`docs/benchmarks.md`).

use std::collections::BTreeMap;

use model::options::{Compaction, Strategy};

use super::flow::{Flow, Seen, Writes};

const MIB: u64 = 1 << 20;

fn compaction(class: &str, options: &[(&str, &str)]) -> Compaction {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut given: BTreeMap<String, String> = options.iter().map(pair).collect();
    given.insert("class".to_owned(), format!("{class}CompactionStrategy"));
    Compaction::parse(&given).expect("sound options")
}

/// All data three times over, then so many times again; what was seen of these.
fn overwritten(
    compaction: &Compaction,
    (live_bytes, flush_bytes): (u64, u64),
    speed: f64,
    times: u32,
) -> Seen {
    let writes = Writes::Overwrites { live_bytes: live_bytes as f64 };
    let mut flow = Flow::new(compaction.clone(), writes, flush_bytes, speed);
    let flushes = (live_bytes / flush_bytes) as u32;
    flow.run(3 * flushes);
    flow.count_from_here();
    flow.run(times * flushes)
}

const FLUSH_BYTES: u64 = 32 * MIB;

#[test]
fn overwriting_keeps_the_disk_below_one_and_a_half_times_the_data() {
    for class in ["Unified", "Incremental"] {
        let seen = overwritten(&compaction(class, &[]), (2048 * MIB, FLUSH_BYTES), 12.0, 5);
        assert!(seen.space_mean <= 1.3 && seen.space_max <= 1.5, "{class}: {seen:?}");
        assert!(seen.depth_max <= 24 && seen.writes < 7.5, "{class}: {seen:?}");
    }
}

#[test]
fn overwriting_keeps_the_disk_of_levels_below_1_2_times_the_data() {
    let compaction = compaction("Leveled", &[("sstable_size_in_mb", "8")]);
    let seen = overwritten(&compaction, (512 * MIB, 4 * MIB), 24.0, 4);
    assert!(seen.space_mean <= 1.15 && seen.space_max <= 1.2, "{seen:?}");
    assert!(seen.depth_max <= 12 && seen.writes < 18.0, "{seen:?}");
}

#[test]
fn level_0_does_not_grow_without_end_where_the_disk_is_too_slow() {
    let compaction = compaction("Leveled", &[("sstable_size_in_mb", "16")]);
    let writes = Writes::Overwrites { live_bytes: 1024.0 * MIB as f64 };
    let seen = Flow::new(compaction, writes, 8 * MIB, 6.0).run(400);
    assert!(seen.depth_max <= 64, "{seen:?}");
}

#[test]
fn windows_that_are_past_are_one_run_each_and_die_as_wholes() {
    let window = ("compaction_window_unit", "MINUTES");
    let compaction = compaction("TimeWindow", &[window]);
    let writes = Writes::Expiring { flushes: 600 };
    let mut flow = Flow::new(compaction, writes, FLUSH_BYTES, 8.0);
    flow.run(600);
    flow.count_from_here();
    let seen = flow.run(600);
    // Ten windows and what is merged of the current one; nothing is written more often than its tiers and its end.
    assert!(seen.depth_max <= 24 && seen.writes < 4.5, "{seen:?}");
    assert!(seen.space_max <= 1.2, "{seen:?}");
}

/// Each strategy takes over what each other one has left, comes to rest, and keeps its promises from there on.
#[test]
fn each_strategy_takes_over_from_each_other() {
    let small = ("sstable_size_in_mb", "16");
    let all = [
        compaction("SizeTiered", &[]),
        compaction("Leveled", &[small]),
        compaction("TimeWindow", &[("compaction_window_unit", "MINUTES")]),
        compaction("Unified", &[]),
        compaction("Unified", &[("scaling_parameters", "L4")]),
        compaction("Incremental", &[small]),
    ];
    let writes = Writes::Overwrites { live_bytes: 512.0 * MIB as f64 };
    for before in &all {
        for after in &all {
            let mut flow = Flow::new(before.clone(), writes, 8 * MIB, 20.0);
            flow.run(40);
            flow.compaction = after.clone();
            let jobs = flow.rest();
            let what = format!("{:?} after {:?}", after.pairs(), before.pairs());
            assert!(jobs <= 100, "{what}: {jobs} jobs");
            assert!(flow.depth() <= 14, "{what}: {} files", flow.depth());
            flow.run(20);
            flow.rest();
            flow.major();
            let depth = flow.depth();
            // A minute has sixty flushes.
            let windows = if matches!(after.strategy(), Strategy::TimeWindow(_)) { 2 } else { 1 };
            assert!(depth <= windows, "{what}: {depth} files hold a token");
            assert!(windows > 1 || flow.space() <= 1.0, "{what}: {}", flow.space());
            assert!(flow.rest() <= 1, "{what}: what a major compaction made is left alone");
        }
    }
}

/// The table of `docs/compaction.md`.
#[test]
#[ignore = "prints figures for the documents: a minute in a release build"]
fn figures() {
    let (live_bytes, flush_bytes) = (16_384 * MIB, 64 * MIB);
    println!("| Strategy | speed | written | disk, mean | disk, most | files a token | files |");
    println!("|---|---|---|---|---|---|---|");
    for (class, options, speed) in [
        ("SizeTiered", &[][..], 12.0),
        ("Incremental", &[], 12.0),
        ("Unified", &[], 12.0),
        ("Unified", &[("scaling_parameters", "N")], 16.0),
        ("Unified", &[("scaling_parameters", "L10")], 24.0),
        ("Leveled", &[], 24.0),
    ] {
        let compaction = compaction(class, options);
        let mut flow = Flow::new(compaction.clone(), Writes::Inserts, flush_bytes, speed);
        flow.run(256);
        flow.count_from_here();
        let rows = [
            ("overwrites", overwritten(&compaction, (live_bytes, flush_bytes), speed, 10)),
            ("inserts", flow.run(768)),
        ];
        let name = options.first().map_or("", |(_, value)| value);
        for (what, seen) in rows {
            let Seen { writes, space_mean, space_max, depth_max, files_max, .. } = seen;
            println!(
                "| {class} {name}, {what} | {speed} | {writes:.1} | {space_mean:.2} | {space_max:.2} | {depth_max} | {files_max} |"
            );
            assert!(what == "inserts" || class == "SizeTiered" || space_max <= 1.5, "{seen:?}");
        }
    }
}

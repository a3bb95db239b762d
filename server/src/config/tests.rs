//! Defaults, precedence, and the refusals with their fix.

use cql::guardrails::Guardrail;

use super::*;

const MACHINE: Machine = Machine { cpus: 4, memory_bytes: 8 << 30 };

fn from(flags: &[&str], file: &str) -> Result<(Config, Vec<String>), String> {
    let flags = Flags::try_parse_from(["messina"].iter().chain(flags)).unwrap();
    let mut warnings = Vec::new();
    let choices = override_with(file::read(file, &mut warnings)?, flags)?;
    Ok((with_defaults(choices, MACHINE, &mut warnings)?, warnings))
}

#[test]
fn nothing_needs_to_be_told() {
    let (config, warnings) = from(&[], "").unwrap();
    assert_eq!((config.shards, config.memory_bytes), (4, 4 << 30));
    assert_eq!((config.port, config.shard_aware_port), (9042, Some(19042)));
    assert_eq!(config.commitlog_sync, SyncMode::Batch);
    assert_eq!(config.data_dir, PathBuf::from("messina-data"));
    assert_eq!(warnings, [""; 0]);
    let small = Machine { cpus: 8, memory_bytes: 256 << 20 };
    let config = with_defaults(Choices::default(), small, &mut Vec::new()).unwrap();
    assert_eq!(config.shards as u64, (128 << 20) / SHARD_MEMORY_BYTES_MIN);
}

#[test]
fn flags_win_over_the_file() {
    let file = "native_transport_port: 9999\nshards: 2\ncommitlog_sync: periodic\n";
    let flags = ["--port", "9998", "--shard-aware-port", "0", "--memory", "1G"];
    let (config, _) = from(&flags, file).unwrap();
    assert_eq!((config.port, config.shards, config.shard_aware_port), (9998, 2, None));
    assert_eq!(config.memory_bytes, 1 << 30);
    assert_eq!(config.commitlog_sync, SyncMode::Periodic);
}

#[test]
fn snapshots_before_a_drop_are_taken_unless_the_file_says_no() {
    assert!(from(&[], "").unwrap().0.auto_snapshot);
    assert!(!from(&[], "auto_snapshot: false\n").unwrap().0.auto_snapshot);
    let ttl = |text: &str| from(&[], text).map(|(config, _)| config.auto_snapshot_ttl);
    assert_eq!(ttl("").unwrap(), None);
    assert_eq!(ttl("auto_snapshot_ttl: 30d\n").unwrap(), Some(Duration::from_secs(30 * 86_400)));
    assert!(ttl("auto_snapshot_ttl: 59s\n").unwrap_err().contains("at least 60 seconds"));
    assert!(from(&[], "auto_snapshot: 1\n").unwrap_err().contains("true or false"));
}

/// Before: sizes from 512 MiB to 1 GiB, and those of no whole units, were taken here and refused later by the log,
/// which named neither the option nor the bound.
#[test]
fn segments_of_the_commit_log_have_a_size_that_the_log_can_have() {
    let of = |size: &str| from(&[], &format!("commitlog_segment_size: {size}\n"));
    for (size, bytes) in [("1MiB", 1 << 20), ("512MiB", 512 << 20), ("1052672B", (1 << 20) + 4096)]
    {
        assert_eq!(of(size).unwrap().0.commitlog_segment_bytes, bytes);
    }
    for size in ["1023KiB", "513MiB", "1GiB", "2048MiB", "1048577B"] {
        let refused = of(size).unwrap_err();
        let range = "1 MiB to 512 MiB are possible";
        assert!(refused.starts_with("commitlog_segment_size: "), "{refused}");
        assert!(refused.contains(range), "{refused}");
    }
}

#[test]
fn batches_are_measured_by_the_settings_of_cassandra() {
    let file = "batch_size_warn_threshold: 64KiB\nbatch_size_fail_threshold_in_kb: 640\n\
                unlogged_batch_across_partitions_warn_threshold: 3\n";
    let (config, warnings) = from(&[], file).unwrap();
    assert_eq!((config.batch.warn_bytes, config.batch.fail_bytes), (64 << 10, 640 << 10));
    assert_eq!((config.batch.unlogged_partitions, warnings), (3, Vec::new()));
    let below = from(&[], "batch_size_fail_threshold: 4KiB\n").unwrap_err();
    assert!(below.contains("below batch_size_warn_threshold"), "{below}");
}

#[test]
fn compactions_are_limited_by_either_setting_of_cassandra() {
    let limit = |file: &str| from(&[], file).map(|(c, told)| (c.compaction_throughput_bytes, told));
    let of = |bytes| Ok((bytes, Vec::new()));
    assert_eq!(limit(""), of(0), "no limit");
    assert_eq!(limit("compaction_throughput: 64MiB/s\n"), of(64 << 20));
    assert_eq!(limit("compaction_throughput: 512 KiB/s\n"), of(512 << 10));
    assert_eq!(limit("compaction_throughput: 0MiB/s\n"), of(0));
    assert_eq!(limit("compaction_throughput: 0\n"), of(0));
    assert_eq!(limit("compaction_throughput_mb_per_sec: 16\n"), of(16 << 20));
    for bad in ["64", "64MiB", "64/s", "MiB/s", "64MiB/h", "-1MiB/s"] {
        let refused = limit(&format!("compaction_throughput: {bad}\n")).unwrap_err();
        assert!(refused.contains("compaction_throughput"), "{bad}: {refused}");
    }
}

#[test]
fn requests_have_the_time_outs_of_cassandra() {
    let (config, warnings) = from(&[], "").unwrap();
    let timeouts = |config: &Config| {
        let Timeouts { read, range, write, cas_contention } = config.timeouts;
        [read, range, write, cas_contention].map(|timeout| timeout.as_millis())
    };
    assert_eq!((timeouts(&config), warnings), ([5000, 10_000, 2000, 1800], Vec::new()));
    let file = "read_request_timeout: 1500ms\nrange_request_timeout_in_ms: 20\n\
                write_request_timeout: 2m\ncas_contention_timeout_in_ms: 700\ntombstone_warn_threshold: 5\n";
    let (config, warnings) = from(&[], file).unwrap();
    assert_eq!((config.tombstones.warn, config.tombstones.failure), (5, 100_000));
    assert_eq!((timeouts(&config), warnings), ([1500, 20, 120_000, 700], Vec::new()));
    for (wrong, why) in [
        ("9ms", "at least 10ms"),
        ("5", "is no time"),
        ("25h", "more than a day"),
        ("99999999999999999999s", "does not begin with a number"),
        ("18446744073709551615h", "more than a day"),
    ] {
        let refused = from(&[], &format!("read_request_timeout: {wrong}\n")).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn what_is_printed_can_be_read_again() {
    let flags = ["--listen", "10.1.2.3", "--shards", "3", "--commitlog-sync", "periodic"];
    let (config, warnings) = from(&flags, "").unwrap();
    assert!(warnings[0].contains("without authentication"), "{warnings:?}");
    assert_eq!(from(&[], &config.to_string()).unwrap().0, config);
}

#[test]
fn refusals_name_the_fix() {
    let refusal = |flags: &[&str]| from(flags, "").unwrap_err();
    assert!(refusal(&["--memory", "9G"]).contains("more than the 8 GiB"));
    assert!(refusal(&["--memory", "100M", "--shards", "4"]).contains("fewer --shards"));
    assert!(refusal(&["--shards", "0"]).contains("1 to"));
    assert!(refusal(&["--memory", "lots"]).starts_with("--memory: `lots`"));
    assert!(refusal(&["--listen", "0.0.0.0"]).contains("broadcast_rpc_address"));
    assert!(refusal(&["--shard-aware-port", "9042"]).contains("taken by --port"));
    assert!(from(&["--shards", "5"], "").unwrap().1[0].contains("share 4 processors"));
}

#[test]
fn functions_of_users_are_made_where_that_is_switched_on() {
    let of = |file: &str| from(&[], file).unwrap().0.functions_enabled;
    assert!(!of(""));
    assert!(of("user_defined_functions_enabled: true\n"));
    assert!(of("enable_user_defined_functions: true\n"));
}

#[test]
fn compact_storage_is_switched_by_the_names_of_both_rivals() {
    let of = |file: &str| {
        let config = from(&[], file).unwrap().0;
        (config.guardrails.of(Guardrail::CompactTables).fail == 0, config.drop_compact_storage)
    };
    assert_eq!(of(""), (true, false));
    assert_eq!(
        of("compact_tables_enabled: false\ndrop_compact_storage_enabled: true\n"),
        (false, true)
    );
    let older =
        "enable_create_table_with_compact_storage: false\nenable_drop_compact_storage: true\n";
    assert_eq!(of(older), (false, true));
}

//! `messina-load` as it is run, against servers that break one promise each.

#![expect(clippy::unwrap_used, reason = "this whole file is a test")]

mod faulty_server;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::Ordering;

use faulty_server::{Fault, FaultyServer};
use messina_tools::report::data::RunReport;

const RECORDS: &str = "300";

fn messina_load(address: SocketAddr, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_messina-load"))
        .args(arguments)
        .args(["--host", &address.to_string(), "--quiet"])
        .output()
        .unwrap()
}

/// Loads, runs 5000 operations of `workload` with every read verified, and returns the report.
fn run(fault: Fault, workload: &str, extra: &[&str]) -> (Option<i32>, RunReport) {
    run_for(&["--operations", "5000"], fault, workload, extra)
}

/// The same for this long, without a load where that would fail or take long.
fn run_for(
    long: &[&str],
    fault: Fault,
    workload: &str,
    extra: &[&str],
) -> (Option<i32>, RunReport) {
    let dir = tempfile::tempdir().unwrap();
    let (_, address) = FaultyServer::start(fault, 1);
    let json = dir.path().join("run.json");
    let without_records =
        [Fault::Forgets, Fault::Tears, Fault::Refuses, Fault::Dies, Fault::OpensSlowly];
    if !without_records.contains(&fault) {
        let loaded = messina_load(address, &["load", "--records", RECORDS, "--reconnect"]);
        assert!(loaded.status.success(), "{loaded:?}");
    }
    let mut arguments = vec!["run", "--workload", workload, "--records", RECORDS, "--verify"];
    arguments.extend(long);
    arguments.extend(["--json", json.to_str().unwrap()]);
    arguments.extend(extra);
    let output = messina_load(address, &arguments);
    (
        output.status.code(),
        RunReport::read(&json).unwrap_or_else(|error| panic!("{error}: {output:?}")),
    )
}

fn violations(report: &RunReport) -> Vec<&str> {
    report.violations.iter().map(|violation| violation.name.as_str()).collect()
}

#[test]
fn an_honest_server_passes_every_workload() {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let (code, report) = run(Fault::None, workload, &["--threads", "2"]);
        assert_eq!((code, report.operations), (Some(0), 5000), "{workload}");
        assert!(report.is_clean() && report.verified, "{workload}");
        assert!(report.retries.is_empty());
    }
}

#[test]
fn a_confused_server_is_caught() {
    let (code, report) = run(Fault::Confuses, "c", &[]);
    assert_eq!((code, violations(&report)), (Some(1), vec!["foreign value"]));
}

/// Before: a scan that left rows out, or ended early, passed.
#[test]
fn a_server_that_skips_rows_of_scans_is_caught() {
    let (code, report) = run(Fault::Skips, "e", &[]);
    assert_eq!((code, violations(&report)), (Some(1), vec!["incomplete slice"]));
}

/// Before: what was due and waited behind a server that stood still was dropped at the end, and counted nowhere.
#[test]
fn operations_that_were_due_at_a_rate_are_counted() {
    let rate = ["--rate", "1000", "--connections", "1", "--in-flight", "4"];
    let (_, report) = run_for(&["--duration", "1s"], Fault::Stalls, "c", &rate);
    let counted = report.operations + report.behind;
    assert!((990..=1010).contains(&counted), "{} and {}", report.operations, report.behind);
}

/// Before: what was due at a rate while the connections were being opened counted as answered late, up to as late as
/// the last of them was opened.
#[test]
fn a_rate_begins_when_all_connections_are_open() {
    let rate = ["--mix", "update=1", "--rate", "1000", "--connections", "6", "--threads", "2"];
    let (_, report) = run_for(&["--duration", "1s"], Fault::OpensSlowly, "a", &rate);
    let counted = report.operations + report.behind;
    assert!((990..=1010).contains(&counted), "{} and {}", report.operations, report.behind);
    let p50_us = report.kinds[0].p50_us;
    assert!(p50_us < 200_000.0, "{p50_us}");
}

/// Before: the other threads went on to the end of the run, whose report was thrown away.
#[test]
fn a_thread_that_cannot_begin_keeps_the_run_from_beginning() {
    let (server, address) = FaultyServer::start(Fault::None, 1);
    let load = ["load", "--records", RECORDS, "--threads", "2", "--cores", "0,99999"];
    let output = messina_load(address, &load);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(server.requests.load(Ordering::Relaxed), 0);
}

#[test]
fn a_forgetful_server_is_caught_by_reads_and_by_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("acks");
    let journal = journal.to_str().unwrap();
    let (_, address) = FaultyServer::start(Fault::Forgets, 1);
    let load = ["load", "--records", "3000", "--journal", journal];
    assert!(messina_load(address, &load).status.success(), "the load cannot know");
    let proved = messina_load(address, &["verify", "--journal", journal]);
    let text = String::from_utf8(proved.stdout).unwrap();
    assert_eq!(proved.status.code(), Some(1));
    assert!(text.contains("VIOLATED: 60 missing row"), "{text}");

    let (code, report) = run(Fault::Forgets, "a", &["--mix", "read=1,insert=1"]);
    assert_eq!(code, Some(1));
    assert!(violations(&report).contains(&"missing row"));
}

#[test]
fn a_torn_row_is_caught() {
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("acks");
    let (_, address) = FaultyServer::start(Fault::Tears, 1);
    let load = ["load", "--records", "3000", "--journal", journal.to_str().unwrap()];
    assert!(messina_load(address, &load).status.success(), "the load cannot know");
    let json = dir.path().join("run.json");
    let read = ["run", "--workload", "c", "--records", "3000", "--operations", "5000", "--verify"];
    let read = [&read[..], &["--json", json.to_str().unwrap()]].concat();
    assert_eq!(messina_load(address, &read).status.code(), Some(1));
    assert_eq!(violations(&RunReport::read(&json).unwrap()), ["torn row"]);
}

/// With --write-all-fields an update is one write of ten fields: reads and the journal know each of them.
#[test]
fn an_update_of_all_fields_is_judged_whole() {
    let updates = ["--mix", "update=50,read=40,modify=10", "--write-all-fields"];
    let (code, report) = run(Fault::None, "a", &updates);
    assert_eq!((code, report.operations, report.is_clean()), (Some(0), 5000, true));
    assert!(report.workload.contains("of all fields"), "{}", report.workload);
    for (fault, expected) in [(Fault::None, Some(0)), (Fault::Tears, Some(1))] {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("acks");
        let journal = journal.to_str().unwrap();
        let (_, address) = FaultyServer::start(fault, 1);
        let write = ["run", "--records", RECORDS, "--operations", "5000", "--journal", journal];
        let written =
            messina_load(address, &[&write[..], &["--mix", "update=1", updates[2]]].concat());
        assert!(written.status.success(), "{written:?}");
        let proved = messina_load(address, &["verify", "--journal", journal]);
        let text = String::from_utf8(proved.stdout).unwrap();
        assert_eq!(proved.status.code(), expected, "{fault:?}: {text}");
        assert_eq!(text.contains("lost write"), fault == Fault::Tears, "{text}");
    }
    let (_, address) = FaultyServer::start(Fault::None, 1);
    let refused = messina_load(address, &["run", "--workload", "timeseries", updates[2]]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn overload_is_waited_out() {
    let (code, report) = run(Fault::Overloads, "a", &[]);
    assert_eq!((code, report.operations), (Some(0), 5000));
    assert_eq!(report.retries[0].name, "overloaded");
    assert!(report.retries[0].count >= 250);
}

#[test]
fn forgotten_statements_are_prepared_again() {
    let (code, report) = run(Fault::Unprepares, "a", &[]);
    assert_eq!((code, report.operations), (Some(0), 5000));
}

#[test]
fn refusals_are_counted_and_make_the_run_fail() {
    let (code, report) = run(Fault::Refuses, "a", &["--mix", "update=1"]);
    assert_eq!((code, report.operations), (Some(1), 4900));
    assert_eq!((report.errors[0].name.as_str(), report.errors[0].count), ("invalid", 100));
}

#[test]
fn lost_connections_end_the_run_unless_reconnecting() {
    let (code, report) = run(Fault::HangsUp, "a", &["--reconnect"]);
    assert_eq!((code, report.operations), (Some(0), 5000));
    assert_eq!(report.retries[0].name, "connection lost");

    let (code, report) = run(Fault::HangsUp, "a", &[]);
    assert_eq!(code, Some(3));
    assert!(report.cause.is_some() && report.errors[0].name == "connection lost");
    let no_server = "127.0.0.1:1".parse().unwrap();
    assert_eq!(messina_load(no_server, &["load"]).status.code(), Some(3));
}

/// What waits to be sent again, since it was refused, is not waited for when no connection is left.
#[test]
fn a_server_that_dies_overloaded_ends_the_run() {
    let long = ["--duration", "20s"];
    let (code, report) = run_for(&long, Fault::Dies, "a", &["--mix", "update=1"]);
    let errors: Vec<&str> = report.errors.iter().map(|error| error.name.as_str()).collect();
    assert_eq!((code, errors), (Some(3), vec!["connection lost"]));
}

/// A load that a signal ends has not loaded what it was to load, though nothing failed.
#[test]
fn a_load_that_is_interrupted_has_not_gone_well() {
    let (server, address) = FaultyServer::start(Fault::None, 1);
    let load = ["load", "--records", "1000000000", "--quiet", "--host", &address.to_string()];
    let mut command = Command::new(env!("CARGO_BIN_EXE_messina-load"));
    let child = command.args(load).stdout(std::process::Stdio::piped()).spawn().unwrap();
    while server.requests.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("0 errors") && said.contains("ended early by a signal: "), "{said}");
}

#[test]
fn requests_go_to_the_shard_that_owns_their_key() {
    let (server, address) = FaultyServer::start(Fault::None, 3);
    let load = ["load", "--records", RECORDS, "--connections", "6", "--threads", "2"];
    let loaded = messina_load(address, &load);
    assert!(loaded.status.success(), "{loaded:?}");
    assert_eq!(server.misrouted.load(Ordering::Relaxed), 0);
    assert!(server.connections.load(Ordering::Relaxed) >= 6);

    let unaware = [&load[..], &["--no-shard-aware"]].concat();
    assert!(messina_load(address, &unaware).status.success());
    assert!(server.misrouted.load(Ordering::Relaxed) > 0);
}

#[test]
fn two_reports_make_one_page() {
    let dir = tempfile::tempdir().unwrap();
    let (_, address) = FaultyServer::start(Fault::None, 1);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    assert!(messina_load(address, &["load", "--records", RECORDS]).status.success());
    for name in ["a.json", "b.json"] {
        let run = ["run", "--records", RECORDS, "--operations", "100", "--json", &path(name)];
        assert!(messina_load(address, &run).status.success());
    }
    let drawn = Command::new(env!("CARGO_BIN_EXE_messina-load"))
        .args(["report", &path("a.json"), &path("b.json"), "--html", &path("page.html")])
        .status()
        .unwrap();
    assert!(drawn.success());
    let page = std::fs::read_to_string(Path::new(&path("page.html"))).unwrap();
    assert_eq!(page.matches("<figure>").count(), 3);
}

#[test]
fn a_statement_is_repeated_beside_a_workload() {
    let (_, address) = FaultyServer::start(Fault::None, 1);
    assert!(messina_load(address, &["load", "--records", RECORDS]).status.success());
    let run = ["run", "--workload", "c", "--records", RECORDS, "--operations", "20000"];
    let beside = |text| messina_load(address, &[&run[..], &["--beside", text]].concat());
    let output = beside("SELECT release_version FROM system.local");
    let said = String::from_utf8(output.stdout).unwrap();
    let last: Vec<&str> = said.lines().rev().take(2).collect();
    assert!(output.status.success(), "{said}");
    assert_eq!(last[1], "beside it: SELECT release_version FROM system.local");
    let words: Vec<&str> = last[0].split_whitespace().collect();
    let times: u64 = words[0].replace(',', "").parse().unwrap();
    assert!(times > 1 && last[0].ends_with(" 0 errors"), "{said}");
    let output = beside("USE ycsb");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Before: the tool ended in an assertion, or with status 0, or by SIGABRT.
#[test]
fn what_cannot_be_is_refused_and_told() {
    let (_, address) = FaultyServer::start(Fault::None, 1);
    let (_, of_many_shards) = FaultyServer::start(Fault::None, 50_000);
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("acks");
    let journal = journal.to_str().unwrap();
    let none = ["load", "--records", "0", "--journal", journal];
    assert!(messina_load(address, &none).status.success(), "a journal without a record");
    let series = ["run", "--workload", "timeseries", "--popularity", "uniform"];
    let too_many = ["load", "--from", "281474976710656", "--records", "281474976710657"];
    for (address, arguments, status, words) in [
        (address, &["verify", "--journal", journal][..], 2, "there is nothing to read back"),
        (address, &["run", "--server-pid", "0"], 2, "--server-pid 0: there is no such process"),
        (address, &series, 2, "--popularity: series"),
        (address, &too_many, 2, "281474976710657 is not in"),
        (address, &["load", "--workload", "bank", "--records", "99999999999"], 2, "at most"),
        (of_many_shards, &["run"], 1, "a server of 50000 shards"),
    ] {
        let output = messina_load(address, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

/// Before: the tool panicked when its standard output took nothing.
#[test]
fn a_result_that_cannot_be_printed_is_an_error() {
    let (_, address) = FaultyServer::start(Fault::None, 1);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_messina-load"))
        .args(["load", "--records", "10", "--quiet", "--host", &address.to_string()])
        .stdout(full)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("printing the result: No space left"), "{said}");
}

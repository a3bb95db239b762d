//! The admin socket as an operator meets it, and as somebody hostile does.
#![expect(clippy::unwrap_used, reason = "the helper of the tests fails them")]

mod rig;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rig::{Client, Server, data_dir};

/// Asks on the admin socket as it stands in the data directory; the whole answer.
fn ask_admin(data_dir: &Path, request: &[u8]) -> String {
    let mut socket = UnixStream::connect(data_dir.join("admin.sock")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // A request that is refused early may not be taken whole.
    let _ = socket.write_all(request);
    let mut answer = Vec::new();
    // What was not read of it resets the connection behind the answer.
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn an_operator_flushes_compacts_and_asks() {
    let dir = data_dir();
    let server = Server::start(dir.path());
    let mut client = Client::ready(&server);
    client.query(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.query("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    let line = |name: &str| {
        let status = ask_admin(dir.path(), b"status\n");
        assert!(status.ends_with("\nok\n"), "{status}");
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split('\t').skip(1).map(|n| n.parse().unwrap()).collect::<Vec<u64>>()
    };
    for round in 1..=3 {
        client.query(&format!("INSERT INTO k.t (p, v) VALUES (1, {round})"));
        assert_eq!(line("k.t")[2], 1, "a row in memory");
        assert_eq!(ask_admin(dir.path(), b"flush k t\n"), "ok\n");
        assert_eq!(line("k.t")[1..4], [0, 0, round], "nothing in memory, one sstable more");
    }
    let history = "SELECT id, bytes_in, bytes_out FROM system.compaction_history WHERE keyspace_name = 'k' \
                   AND columnfamily_name = 't' AND bytes_in > 0 AND bytes_out > 0 \
                   AND compacted_at > '2020-01-01' \
                   AND rows_merged[3] = 1 ALLOW FILTERING";
    assert_eq!(client.query(history), "0 rows");
    assert_eq!(ask_admin(dir.path(), b"compact k\n"), "ok\n");
    assert_eq!(line("k.t")[3], 1, "one sstable");
    assert_eq!(client.query(history), "1 rows");
    let tasks = "SELECT progress, total FROM system_views.sstable_tasks WHERE keyspace_name = 'k'";
    assert_eq!(client.query(tasks), "0 rows", "nothing is merged any more");
    assert!(line("0")[0] >= 3, "writes of the shard");
    assert_eq!(client.query("SELECT v FROM k.t"), "1 rows");
    assert_eq!(ask_admin(dir.path(), b"flush\n"), "ok\n");
    assert_eq!(ask_admin(dir.path(), b"flush x\n"), "error: Keyspace [x] does not exist.\n");
    let admin = dir.path().join("admin.sock");
    assert_eq!(std::fs::metadata(&admin).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(server.stop(), Some(0));
    assert!(!admin.exists(), "a server that ended leaves no socket");
}

/// Before: how far an index is was shown nowhere, and none could be made anew.
#[test]
fn an_index_is_made_anew_and_shows_how_far_it_is() {
    let dir = data_dir();
    let server = Server::start(dir.path());
    let mut client = Client::ready(&server);
    let ask = |request: &str| ask_admin(dir.path(), request.as_bytes());
    assert_eq!(
        ask("rebuild_index k\n"),
        "error: a keyspace, its table, and an index at most are wanted\n"
    );
    client.query(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.query("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    assert_eq!(ask("rebuild_index k t\n"), "error: k.t has no index\n");
    client.query("CREATE INDEX t_v ON k.t (v)");
    for p in 0..300 {
        client.query(&format!("INSERT INTO k.t (p, v) VALUES ({p}, {})", p % 10));
    }
    assert_eq!(ask("flush k t\n"), "ok\n");
    assert_eq!(ask("rebuild_index k t x\n"), "error: no index x of the table is kept in files\n");
    let builds = "SELECT completion_ratio FROM system_views.sstable_tasks WHERE keyspace_name = 'k' \
                  AND table_name = 't' AND kind = 'secondary index build of t_v' ALLOW FILTERING";
    let found = "SELECT p FROM k.t WHERE v = 7";
    for request in ["rebuild_index k t\n", "rebuild_index k t t_v\n"] {
        assert_eq!(ask(request), "ok\n");
        assert_eq!(client.query(found), "30 rows");
        let is_built = || client.query(builds) == "0 rows";
        let mut tries = std::iter::repeat_with(is_built).take(10_000);
        assert!(tries.any(|is_built| is_built), "it is never built");
        assert_eq!(client.query(found), "30 rows");
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_throughput_of_compactions_is_shown_and_changed() {
    let dir = data_dir();
    let server = Server::start(dir.path());
    let mut client = Client::ready(&server);
    let ask = |request: &str| ask_admin(dir.path(), request.as_bytes());
    let throughput = |mib| format!("Current compaction throughput: {mib} MiB/s\nok\n");
    assert_eq!(ask("getcompactionthroughput\n"), throughput("0"));
    assert_eq!(ask("setcompactionthroughput 64\n"), "ok\n");
    assert_eq!(ask("getcompactionthroughput\n"), throughput("64"));
    for bad in ["setcompactionthroughput\n", "setcompactionthroughput 1.5\n"] {
        assert!(ask(bad).starts_with("error: a whole number of MiB/s"), "{bad:?}");
    }
    assert_eq!(ask("setcompactionthroughput 1\n"), "ok\n");
    client.query(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.query("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    let text = "x".repeat(30_000);
    for round in 0..2 {
        (0..20).for_each(|p| {
            client.query(&format!("INSERT INTO k.t (p, v) VALUES ({}, '{text}')", 20 * round + p));
        });
        assert_eq!(ask("flush k t\n"), "ok\n");
    }
    // More than may be gone through at once: it waits, and comes to its end.
    assert_eq!(ask("compact k t\n"), "ok\n");
    assert_eq!(client.query("SELECT p FROM k.t"), "40 rows");
    assert_eq!(server.stop(), Some(0));
}

/// A sample names the partitions that were read and written most, and only one runs at a time.
#[test]
fn the_hottest_partitions_are_named() {
    let dir = data_dir();
    let server = Server::start(dir.path());
    let mut client = Client::ready(&server);
    client.query(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.query("CREATE TABLE k.t (a text, b int, v int, PRIMARY KEY ((a, b)))");
    client.query("CREATE TABLE k.other (p int PRIMARY KEY)");
    let path = dir.path().to_owned();
    let asked = std::thread::spawn(move || ask_admin(&path, b"toppartitions 3000 k t\n"));
    std::thread::sleep(Duration::from_millis(500));
    for b in 0..30 {
        client.query(&format!("INSERT INTO k.t (a, b, v) VALUES ('it', {b}, 1)"));
        client.query("INSERT INTO k.t (a, b, v) VALUES ('hot', 1, 1)");
        client.query("INSERT INTO k.other (p) VALUES (1)");
        client.query("SELECT v FROM k.t WHERE a = 'warm' AND b = 2");
    }
    let second = ask_admin(dir.path(), b"toppartitions 1\n");
    assert!(second.starts_with("error: ") && second.contains("sampled already"), "{second}");
    let answer = asked.join().unwrap();
    let (reads, writes) = answer.split_once("\n\n").unwrap();
    assert_eq!(reads, "read\tpartition\tcount\t+/-\nk.t\t'warm', 2\t30\t0");
    assert!(
        writes.starts_with("written\tpartition\tcount\t+/-\nk.t\t'hot', 1\t30\t0\nk.t\t'it', ")
    );
    assert_eq!(writes.lines().count(), 1 + 10 + 1, "a head, ten partitions, ok: {writes}");
    let again = ask_admin(dir.path(), b"toppartitions 1\n");
    assert!(again.starts_with("read\t") && again.ends_with("ok\n"), "{again}");
    for bad in
        ["toppartitions\n", "toppartitions 0\n", "toppartitions 1 k\n", "toppartitions 1 k x\n"]
    {
        assert!(ask_admin(dir.path(), bad.as_bytes()).starts_with("error: "), "{bad:?}");
    }
    assert_eq!(server.stop(), Some(0));
}

/// Large rows and cells are listed with their keys as long as their files are there, also by the next start.
#[test]
fn large_rows_and_cells_are_listed() {
    let dir = data_dir();
    let server = Server::start(dir.path());
    let mut client = Client::ready(&server);
    client.query(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.query("CREATE TABLE k.t (p text, c int, a text, b text, PRIMARY KEY (p, c))");
    let long = |bytes: usize| "x".repeat(bytes);
    for column in ["a", "b"] {
        let value = long(6 << 20);
        client.query(&format!("INSERT INTO k.t (p, c, {column}) VALUES ('long', 1, '{value}')"));
    }
    let (value, short) = (long(2 << 20), long(1000));
    client.query(&format!("INSERT INTO k.t (p, c, a) VALUES ('cell', 2, '{value}')"));
    client.query(&format!("INSERT INTO k.t (p, c, a) VALUES ('none', 3, '{short}')"));
    assert_eq!(ask_admin(dir.path(), b"flush k t\n"), "ok\n");
    let check = |client: &mut Client, counts: [u32; 5]| {
        let partition = "WHERE keyspace_name = 'k' AND table_name = 't'";
        let long = "AND partition_key = '''long''' AND clustering_key = '1' ALLOW FILTERING";
        let asked = [
            ("large_partitions", ""),
            ("large_rows", ""),
            ("large_rows", long),
            ("large_cells", ""),
            ("large_cells", "AND column_name = 'a' ALLOW FILTERING"),
        ];
        for ((table, more), count) in asked.into_iter().zip(counts) {
            let answer = client.query(&format!("SELECT * FROM system.{table} {partition} {more}"));
            assert_eq!(answer, format!("{count} rows"), "{table} {more}");
        }
    };
    check(&mut client, [0, 1, 1, 3, 2]);
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(dir.path());
    let mut client = Client::ready(&server);
    check(&mut client, [0, 1, 1, 3, 2]);
    client.query("TRUNCATE k.t");
    check(&mut client, [0; 5]);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn clients_are_let_in_again_after_they_were_not() {
    let dir = data_dir();
    let server = Server::start(dir.path());
    let ask = |request: &str| ask_admin(dir.path(), request.as_bytes());
    assert_eq!(ask("statusbinary\n"), "running\nok\n");
    assert_eq!(ask("disablebinary\n"), "ok\n");
    assert_eq!(ask("statusbinary\n"), "not running\nok\n");
    assert_eq!(ask("enablebinary\n"), "ok\n");
    let mut client = Client::ready(&server);
    assert_eq!(client.query("SELECT key FROM system.local"), "1 rows");
}

#[test]
fn a_snapshot_is_taken_shown_restored_and_removed() {
    let dir = data_dir();
    let server = Server::start(dir.path());
    let mut client = Client::ready(&server);
    client.query(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.query("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    client.query("INSERT INTO k.t (p, v) VALUES (1, 2)");
    let ask = |request: &str| ask_admin(dir.path(), request.as_bytes());
    assert_eq!(ask("listsnapshots\n"), "There are no snapshots\nok\n");
    assert_eq!(ask("snapshot one k t\n"), "Snapshot directory: one\nok\n");
    assert_eq!(ask("snapshot one\n"), "error: Snapshot one already exists.\n");
    let of_view = "SELECT created_at, true_size, size_on_disk FROM system_views.snapshots WHERE \
                   name = 'one' AND keyspace_name = 'k' AND table_name = 't' AND true_size = 0 \
                   AND created_at > '2020-01-01' ALLOW FILTERING";
    assert_eq!(client.query(of_view), "1 rows");
    assert_eq!(client.query("SELECT * FROM system_views.snapshots WHERE name = 'two'"), "0 rows");
    let listed = ask("listsnapshots\n");
    assert!(listed.contains("\none\tk\tt\t0\t"), "linked, it takes no space: {listed}");
    let folder = dir.path().join("snapshots/one");
    let schema = std::fs::read_to_string(folder.join("schema.cql")).unwrap();
    assert!(schema.contains("CREATE KEYSPACE k") && schema.contains("CREATE TABLE k.t ("));
    client.query("DROP TABLE k.t");
    assert_eq!(ask("restore one k\n"), "files given back: 1\nok\n");
    assert_eq!(client.query("SELECT v FROM k.t"), "1 rows");
    assert_eq!(ask("snapshot day ttl=1d k\n"), "Snapshot directory: day\nok\n");
    let expires = "SELECT expires_at FROM system_views.snapshots WHERE name = 'day' AND expires_at > '2020-01-01' ALLOW FILTERING";
    assert_eq!(client.query(expires), "1 rows");
    assert!(ask("listsnapshots\n").contains("\nday\tk\tt\t"));
    assert!(!ask("listsnapshots no-ttl\n").contains("day"));
    let short = "error: ttl for snapshot must be at least 60 seconds\n";
    assert_eq!(ask("snapshot short ttl=59s\n"), short);
    assert_eq!(ask("clearsnapshot one\n"), "removed one\nok\n");
    assert!(!folder.exists());
    for bad in ["../x", "a/b", ".hidden"] {
        let refused = ask(&format!("snapshot {bad}\n"));
        assert!(refused.contains("cannot be the tag"), "{refused}");
        assert!(ask(&format!("clearsnapshot {bad}\n")).starts_with("error: "));
    }
    assert!(ask("restore one\n").starts_with("error: There is no snapshot one"));
    assert_eq!(client.query("SELECT v FROM k.t"), "1 rows");
    assert_eq!(server.stop(), Some(0));
}

/// The only file of a directory below which there is one table with one file.
fn only_file(dir: &Path) -> std::path::PathBuf {
    let entry = std::fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    if entry.is_dir() { only_file(&entry) } else { entry }
}

/// Before: a start refused to serve anything while one file of one table was damaged.
#[test]
fn a_damaged_file_fails_its_reads_by_name_and_is_given_back_or_up() {
    let dir = data_dir();
    let server = Server::start(dir.path());
    let mut client = Client::ready(&server);
    client.query(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.query("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    client.query("CREATE TABLE k.u (p int PRIMARY KEY, v int)");
    client.query("INSERT INTO k.t (p, v) VALUES (1, 2)");
    client.query("INSERT INTO k.u (p, v) VALUES (1, 2)");
    let ask = |request: &str| ask_admin(dir.path(), request.as_bytes());
    assert_eq!(ask("snapshot one k t\n"), "Snapshot directory: one\nok\n");
    assert_eq!(server.stop(), Some(0));
    let copy = only_file(
        &dir.path()
            .join("snapshots/one")
            .read_dir()
            .unwrap()
            .flatten()
            .find(|e| e.path().is_dir())
            .unwrap()
            .path(),
    );
    let name = copy.file_name().unwrap().to_str().unwrap();
    let tables = std::fs::read_dir(dir.path().join("tables")).unwrap().flatten();
    let file = tables.map(|table| table.path().join(name)).find(|path| path.exists()).unwrap();
    for is_restored in [true, false] {
        // Another file of its name: the snapshot's stays whole.
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, "damaged").unwrap();
        let server = Server::start(dir.path());
        let mut client = Client::ready(&server);
        let refused = client.query("SELECT v FROM k.t WHERE p = 1");
        assert!(refused.contains(name) && refused.contains("messina-sst verify"), "{refused}");
        assert_eq!(client.query("SELECT v FROM k.u"), "1 rows");
        let listed = "SELECT file FROM system_views.damaged_files WHERE keyspace_name = 'k' AND \
                      table_name = 't'";
        assert_eq!(client.query(listed), "1 rows");
        assert!(ask("snapshot two k t\n").contains(name));
        assert!(client.query("TRUNCATE k.t").contains(name), "it takes a snapshot");
        assert!(ask("forget x\n").starts_with("error: \"x\" is not the name of an sstable"));
        let other = "00000000-0000-0000-0000-000000000001.sst";
        assert!(ask(&format!("forget {other}\n")).starts_with("error: no damaged file"));
        match is_restored {
            true => assert_eq!(ask("restore one k t\n"), "files given back: 1\nok\n"),
            false => assert_eq!(ask(&format!("forget {name}\n")), "parts given up: 1\nok\n"),
        }
        let rows = if is_restored { "1 rows" } else { "0 rows" };
        assert_eq!(client.query("SELECT v FROM k.t"), rows);
        assert_eq!(client.query(listed), "0 rows");
        assert_eq!(server.stop(), Some(0));
    }
}

/// Before: a name that no path of ours can have ended the start, and the directory of such a snapshot stood in the
/// way of it.
#[test]
fn a_start_leaves_names_alone_that_somebody_put_there() {
    let dir = data_dir();
    let server = Server::start(dir.path());
    let mut client = Client::ready(&server);
    client.query(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.query("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    client.query("INSERT INTO k.t (p, v) VALUES (1, 2)");
    assert_eq!(ask_admin(dir.path(), b"snapshot one k t\n"), "Snapshot directory: one\nok\n");
    assert_eq!(server.stop(), Some(0));
    let long = "x".repeat(245);
    let table = std::fs::read_dir(dir.path().join("tables")).unwrap().next().unwrap().unwrap();
    let strange = [
        "snapshots/old copy/a",
        "snapshots/.hidden/a",
        "snapshots/half/lost+found",
        "snapshots/half/x y/z",
        "snapshots/half/x/\u{e9}",
        "snapshots/one/a b",
        &format!("snapshots/{long}/a"),
        &format!("snapshots/half/{long}"),
        "lost+found/a",
        "gen-0 copy/a",
        "tables/lost+found/a",
        "tables/a file",
        &format!("tables/{}/a b", table.file_name().display()),
    ];
    for name in strange {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    let server = Server::start(dir.path());
    assert_eq!(Client::ready(&server).query("SELECT v FROM k.t"), "1 rows");
    for name in strange {
        assert!(dir.path().join(name).exists(), "{name} is not ours to remove");
    }
    let listed = ask_admin(dir.path(), b"listsnapshots\n");
    assert!(listed.contains("\none\tk\tt\t") && listed.ends_with("\nok\n"), "{listed}");
    let refused = ask_admin(dir.path(), b"clearsnapshot one\n");
    assert!(refused.contains("is no file of a snapshot: remove it yourself"), "{refused}");
    std::fs::remove_file(dir.path().join("snapshots/one/a b")).unwrap();
    assert_eq!(ask_admin(dir.path(), b"clearsnapshot one\n"), "removed one\nok\n");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn hostile_admin_requests_are_refused_and_harm_nobody() {
    let dir = data_dir();
    let server = Server::start(dir.path());
    let unread = "error: a request is one line of at most 1024 bytes\n";
    for request in [&[b'x'; 100_000][..], &[0xff; 20], b"flush k", b"\xff\xfe\n"] {
        let mut socket = UnixStream::connect(dir.path().join("admin.sock")).unwrap();
        let _ = socket.write_all(request);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = socket.read_to_string(&mut answer);
        // The answer to a flood may be lost with the flood.
        assert!(answer == unread || (answer.is_empty() && request.len() > 1024), "{answer:?}");
    }
    for request in [&b"\n"[..], b"drop k\n", b"status of you\n", b"flush a b c\nstatus\n"] {
        assert!(ask_admin(dir.path(), request).starts_with("error: "), "{request:?}");
    }
    // Those who connect and say nothing hold a bounded number of places, for a bounded time.
    let idle: Vec<UnixStream> =
        (0..20).map(|_| UnixStream::connect(dir.path().join("admin.sock")).unwrap()).collect();
    let busy = (0..100).any(|_| ask_admin(dir.path(), b"status\n").starts_with("error: too many"));
    assert!(busy, "places are bounded");
    drop(idle);
    let served = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        ask_admin(dir.path(), b"status\n").ends_with("ok\n")
    });
    assert!(served, "places come back");
    assert_eq!(Client::ready(&server).query("SELECT key FROM system.local"), "1 rows");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn an_operator_is_told_of_a_large_row_that_was_written() {
    let (dir, beside) = (data_dir(), data_dir());
    let path = beside.path().join("told");
    let server = Server::start_telling(dir.path(), std::fs::File::create(&path).unwrap());
    let mut client = Client::ready(&server);
    client.query(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.query("CREATE TABLE k.t (p int PRIMARY KEY, v blob)");
    for (key, bytes) in [(257, 9 << 20), (258, 11 << 20)] {
        let insert = format!("INSERT INTO k.t (p, v) VALUES ({key}, ?)");
        let answer = client.bound(&insert, &[&vec![7; bytes]]);
        assert!(!answer.starts_with("0x"), "{answer}");
    }
    assert_eq!(ask_admin(dir.path(), b"flush k t\n"), "ok\n");
    let told = || -> Vec<String> {
        let told = std::fs::read_to_string(&path).unwrap();
        let lines = told.lines().filter(|line| line.contains("a file with a large"));
        lines.map(str::to_owned).collect()
    };
    for _ in 0..600 {
        if !told().is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = told();
    let [line] = &told[..] else { panic!("one line: {told:?}") };
    for part in ["WARN", "a file with a large row", "k.t", "00000102", "files=1"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

/// What is set counts at once, on every core, and a wrong value changes nothing.
#[test]
fn guardrails_are_shown_and_set_while_the_server_runs() {
    let dir = data_dir();
    let server = Server::start_with_shards(dir.path(), 2);
    let mut client = Client::ready(&server);
    let ask = |request: &str| ask_admin(dir.path(), request.as_bytes());
    client.query(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    assert_eq!(
        ask("getguardrails tables_\n"),
        "tables_fail_threshold\t-1\ntables_warn_threshold\t-1\nok\n"
    );
    assert_eq!(ask("setguardrail tables_fail_threshold 1 drop_keyspace_enabled false\n"), "ok\n");
    assert_eq!(ask("getguardrails tables_fail\n"), "tables_fail_threshold\t1\nok\n");
    client.query("CREATE TABLE k.t (p int PRIMARY KEY)");
    let refused = client.query("CREATE TABLE k.u (p int PRIMARY KEY)");
    assert!(refused.contains("Cannot have more than 1 tables"), "{refused}");
    assert!(client.query("DROP KEYSPACE k").contains("is not allowed"));
    for (bad, why) in [
        ("setguardrail\n", "the name of a setting and its value"),
        ("setguardrail tables_fail_threshold\n", "the name of a setting and its value"),
        ("setguardrail tables 1\n", "tables: no such guardrail"),
        ("setguardrail drop_keyspace_enabled true tables_fail_threshold x\n", "1 to 2147483647"),
        ("setguardrail tables_warn_threshold 2\n", "should be lower than the fail threshold 1"),
        ("getguardrails nothing\n", "no guardrail has a setting"),
    ] {
        let answer = ask(bad);
        assert!(answer.starts_with("error: ") && answer.contains(why), "{bad}: {answer}");
    }
    assert_eq!(ask("getguardrails drop_keyspace\n"), "drop_keyspace_enabled\tfalse\nok\n");
    let shown = "SELECT value FROM system_views.settings WHERE name = 'tables_fail_threshold'";
    assert_eq!(client.query(shown), "1 rows");
    assert_eq!(server.stop(), Some(0));
    let server = Server::start_with_shards(dir.path(), 2);
    assert_eq!(ask("getguardrails tables_fail\n"), "tables_fail_threshold\t-1\nok\n", "not kept");
    assert_eq!(server.stop(), Some(0));
}

//! TRUNCATE and DROP behind a snapshot while others write and change the schema, and what a restore refuses.

use super::*;

impl Bench {
    /// Begins a statement of another client.
    pub(super) fn begin_as(&mut self, client: ClientId, text: &str) {
        let parameters = Parameters::plain(Consistency::One, VERSION);
        let own = std::mem::replace(&mut self.client, client);
        self.begin(&Request::Query(Query { text, parameters }));
        self.client = own;
    }

    /// Begins a statement for a client of its own, which is gone at once.
    pub(super) fn begin_and_leave(&mut self, text: &str) {
        let gone = self.server.connect(0, VERSION);
        self.begin_as(gone, text);
        self.server.disconnect(gone);
    }

    /// What a client has been answered since this was asked, in the order of the answers.
    pub(super) fn answers_to(&mut self, client: ClientId) -> Vec<(i16, String)> {
        let bytes = self.server.sent(client, <[u8]>::to_vec);
        let (mut rest, mut answers) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let header = Header::decode(rest, Direction::Response).unwrap().unwrap();
            let (frame, behind) = rest.split_at(HEADER_BYTES + header.body_bytes as usize);
            let answer = Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap();
            answers.push((header.stream, shown(&answer)));
            rest = behind;
        }
        answers
    }

    /// Runs `statement` while another client writes rows of keys from 100 on, several a turn; the answer, how many were
    /// acknowledged, and what was said of the others.
    fn beside_writes(&mut self, statement: &str) -> (String, Vec<i32>, Vec<String>) {
        let writer = self.server.connect(1, VERSION);
        self.begin_as(self.client, statement);
        let (mut written, mut done) = (Vec::new(), Vec::new());
        for k in 100.. {
            written.push((self.stream + 1, k));
            self.begin_as(writer, &format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, {k})"));
            self.server.run_once();
            self.server.advance(Duration::from_micros(100));
            done.extend(self.answers_to(self.client));
            if !done.is_empty() {
                break;
            }
        }
        self.server.run_until_answered(writer);
        let (mut acknowledged, mut refused) = (Vec::new(), Vec::new());
        for (stream, answer) in self.answers_to(writer) {
            let (_, k) = written.iter().find(|(of, _)| *of == stream).unwrap();
            match &*answer {
                "void" => acknowledged.push(*k),
                _ => refused.push(answer),
            }
        }
        (done.remove(0).1, acknowledged, refused)
    }

    fn keys(&mut self) -> Vec<i32> {
        let rows = self.query("SELECT k FROM ks.t");
        let mut keys: Vec<i32> = rows.split(", ").filter_map(|key| key.parse().ok()).collect();
        keys.sort_unstable();
        keys
    }
}

fn all_of(first: &[i32], then: &[i32]) -> Vec<i32> {
    let mut all = [first, then].concat();
    all.sort_unstable();
    all
}

/// Before: a core truncated what it had when its turn came, and that was more than it had linked: writes that were
/// answered between were in neither.
#[test]
fn a_write_beside_a_truncate_is_in_the_table_or_in_its_snapshot() {
    let (sim, config) = (SimDisk::new(1, Faults::default()), small(2));
    let mut bench = super::with_rows(&Disk::Sim(sim.clone()), &config);
    let (answer, acknowledged, refused) = bench.beside_writes("TRUNCATE ks.t");
    assert_eq!((&*answer, refused), ("void", Vec::new()));
    let left = bench.keys();
    assert!(left.len() > 2, "what was written behind it stays: {left:?}");
    assert!(left.len() < acknowledged.len(), "what was written before it went: {left:?}");
    bench.server.flush();
    drop(bench);
    let mut bench = Bench::open(&Disk::Sim(sim.kill()), &config);
    assert_eq!(bench.keys(), left, "nothing of it comes back from the log, and nothing else goes");
    let tag = tags(&mut bench).pop().unwrap();
    restore(&mut bench, &tag).unwrap();
    assert_eq!(bench.keys(), all_of(&[0, 1, 2, 3], &acknowledged));
}

#[test]
fn a_write_beside_a_drop_is_in_the_snapshot_or_refused() {
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let mut bench = super::with_rows(&disk, &small(2));
    let (answer, acknowledged, refused) = bench.beside_writes("DROP TABLE ks.t");
    assert_eq!(answer, "DROPPED TABLE ks t");
    assert!(!acknowledged.is_empty() && !refused.is_empty());
    assert!(refused.iter().all(|said| said.starts_with("error: ")), "{refused:?}");
    let tag = tags(&mut bench).pop().unwrap();
    restore(&mut bench, &tag).unwrap();
    assert_eq!(bench.keys(), all_of(&[0, 1, 2, 3], &acknowledged));
    bench.query("INSERT INTO ks.t (k, c, v) VALUES (50, 1, 1)");
    assert!(bench.keys().contains(&50), "the table takes writes again");
}

/// Before: each time that another change came before a DROP, it was planned again, and took a snapshot again.
#[test]
fn a_drop_beside_other_changes_takes_one_snapshot() {
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let mut bench = super::with_rows(&disk, &small(2));
    let others = [bench.server.connect(0, VERSION), bench.server.connect(1, VERSION)];
    for (at, other) in others.into_iter().enumerate() {
        for n in 0..10 {
            bench.begin_as(other, &format!("CREATE TABLE ks.x{at}_{n} (k int PRIMARY KEY)"));
        }
    }
    bench.begin_as(others[1], "DROP TABLE ks.t");
    others.iter().for_each(|other| bench.server.run_until_answered(*other));
    for (_, answer) in others.into_iter().flat_map(|other| bench.answers_to(other)) {
        assert!(answer.starts_with("CREATED") || answer == "DROPPED TABLE ks t", "{answer}");
    }
    assert_eq!(tags(&mut bench).len(), 1);
}

/// Before: its name did not fit into a tag: it could be neither emptied nor dropped.
#[test]
fn a_table_with_a_long_name_is_emptied_and_dropped() {
    let mut bench = Bench::make(&Disk::Sim(SimDisk::new(1, Faults::default())), &small(2));
    let name = "x".repeat(192);
    assert!(
        bench.query(&format!("CREATE TABLE ks.{name} (k int PRIMARY KEY)")).starts_with("CREATED")
    );
    for statement in ["TRUNCATE", "TRUNCATE", "DROP TABLE"] {
        bench.query(&format!("INSERT INTO ks.{name} (k) VALUES (1)"));
        let answer = bench.query(&format!("{statement} ks.{name}"));
        assert!(answer == "void" || answer.starts_with("DROPPED"), "{answer}");
    }
    assert_eq!(tags(&mut bench).len(), 3);
}

/// Before: the second was told of a server error: the table of its snapshot was gone.
#[test]
fn of_two_drops_if_exists_at_once_neither_fails() {
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let mut bench = super::with_rows(&disk, &small(2));
    let others = [bench.server.connect(0, VERSION), bench.server.connect(1, VERSION)];
    others.iter().for_each(|other| bench.begin_as(*other, "DROP TABLE IF EXISTS ks.t"));
    others.iter().for_each(|other| bench.server.run_until_answered(*other));
    let mut said: Vec<String> = others
        .into_iter()
        .flat_map(|other| bench.answers_to(other))
        .map(|(_, said)| said)
        .collect();
    said.sort();
    assert_eq!(said, ["DROPPED TABLE ks t", "void"]);
    assert_eq!(tags(&mut bench).len(), 1);
}

/// Before: each core had a turn of its own: two took, removed and restored at once.
#[test]
fn snapshots_of_several_cores_take_turns() {
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let mut bench = super::with_rows(&disk, &small(2));
    let others = [bench.server.connect(0, VERSION), bench.server.connect(1, VERSION)];
    for (other, k) in others.into_iter().cycle().zip(0..6) {
        bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 2, 2)"));
        bench.begin_as(other, "TRUNCATE ks.t");
    }
    others.iter().for_each(|other| bench.server.run_until_answered(*other));
    for (_, answer) in others.into_iter().flat_map(|other| bench.answers_to(other)) {
        assert_eq!(answer, "void");
    }
    let taken = tags(&mut bench);
    assert!(!taken.is_empty());
    for tag in &taken {
        restore(&mut bench, tag).unwrap();
    }
    assert_eq!(rows_of(&mut bench).len(), 10, "every row is in one of {taken:?}");
}

/// Before: its rows were read by the columns of now: numbers as texts.
#[test]
fn a_snapshot_of_another_life_of_its_table_is_refused() {
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let mut bench = super::with_rows(&disk, &small(2));
    let take = |bench: &mut Bench, tag: &str| {
        let tag = tag.to_owned();
        let taken = bench.server.on_first_core(async move |shard| {
            let tables = [shard.schema().table("ks", "t").unwrap().id];
            auto_snapshots::take(&shard, tag, &tables, 0, None).await
        });
        assert_eq!(taken, Some(Ok(())));
    };
    take(&mut bench, "before");
    bench.query("ALTER TABLE ks.t ADD w text");
    bench.query("INSERT INTO ks.t (k, c, w) VALUES (7, 1, 'seven')");
    take(&mut bench, "text");
    bench.query("DROP TABLE ks.t");
    restore(&mut bench, "before").unwrap();
    let refused = restore(&mut bench, "text").unwrap_err();
    assert!(
        refused.contains("the column w is unknown to it now. DROP the table first"),
        "{refused}"
    );
    bench.query("ALTER TABLE ks.t ADD x int");
    let refused = restore(&mut bench, "text").unwrap_err();
    let said = "w text (column 3) of the snapshot is x int (column 3) now";
    assert!(refused.contains(said), "{refused}");
    bench.query("DROP TABLE ks.t");
    restore(&mut bench, "text").unwrap();
    assert_eq!(bench.query("SELECT w FROM ks.t WHERE k = 7"), "seven");
    restore(&mut bench, "before").unwrap();
    assert_eq!(rows_of(&mut bench).len(), 5, "a table that has one column more takes them");
}

/// Also those that were taken before a start; a snapshot without a time stays.
#[test]
fn a_snapshot_goes_when_its_time_has_come() {
    let (sim, config) = (SimDisk::new(1, Faults::default()), small(2));
    let mut bench = super::with_rows(&Disk::Sim(sim.clone()), &config);
    let take = |bench: &mut Bench, tag: &str, now_s: i64, stays_s: Option<u64>| {
        let tag = tag.to_owned();
        let taken = bench.server.on_first_core(async move |shard| {
            let tables = [shard.schema().table("ks", "t").unwrap().id];
            let stays = stays_s.map(Duration::from_secs);
            auto_snapshots::take(&shard, tag, &tables, now_s * 1_000_000, stays).await
        });
        assert_eq!(taken, Some(Ok(())));
    };
    let expire = |bench: &mut Bench, now_ms: i64| {
        let expired =
            bench.server.on_first_core(async move |shard| shard.expire_snapshots(now_ms).await);
        let (gone, outcome) = expired.unwrap();
        assert_eq!(outcome, Ok(()));
        gone
    };
    take(&mut bench, "old", 100, Some(60));
    take(&mut bench, "stays", 100, None);
    assert_eq!(expire(&mut bench, 159_999), [""; 0]);
    take(&mut bench, "new", 101, Some(60));
    take(&mut bench, "later", 101, Some(3600));
    let shown = bench
        .query("SELECT name FROM system_views.snapshots WHERE expires_at = 161000 ALLOW FILTERING");
    assert_eq!(shown, "new");
    assert_eq!(expire(&mut bench, 160_000), ["old"]);
    assert_eq!(expire(&mut bench, 161_000), ["new"]);
    drop(bench);
    let mut bench = Bench::open(&Disk::Sim(sim.kill()), &config);
    assert_eq!(tags(&mut bench), ["later", "stays"]);
    bench.server.on_first_core(async |shard| shard.clear_snapshots(Some("stays")).await);
    assert_eq!(expire(&mut bench, 3_700_999), [""; 0]);
    assert_eq!(expire(&mut bench, 3_701_000), ["later"]);
    assert_eq!(tags(&mut bench), [""; 0]);
}

/// Before: a snapshot with a file that no snapshot has came first at each look, and none behind it went; a damaged
/// manifest kept all of them from being listed.
#[test]
fn a_snapshot_that_cannot_be_removed_or_read_keeps_no_other() {
    let (sim, config) = (SimDisk::new(1, Faults::default()), small(2));
    let mut bench = super::with_rows(&Disk::Sim(sim.clone()), &config);
    for (tag, stays) in [("a", 60), ("b", 60), ("c", 90), ("d", 60)] {
        let taken = bench.server.on_first_core(async move |shard| {
            let tables = [shard.schema().table("ks", "t").unwrap().id];
            let stays = Some(Duration::from_secs(stays));
            auto_snapshots::take(&shard, tag.to_owned(), &tables, 0, stays).await
        });
        assert_eq!(taken, Some(Ok(())));
    }
    let path = |path: &str| RelPath::new(path).unwrap();
    sim.plant(&path("snapshots/d/manifest.json"), b"{".to_vec());
    assert_eq!(tags(&mut bench), ["a", "b", "c"]);
    let listed = bench.server.on_first_core(async |shard| shard.list_snapshots().await.unwrap());
    let unread = listed.unwrap().unread.unwrap().to_string();
    assert!(unread.contains("snapshots/d/manifest.json"), "{unread}");
    let strange = bench.server.on_first_core(async move |shard| {
        let disk = shard.engine().disk();
        for dir in ["snapshots/a/x", "snapshots/a/x/y"] {
            disk.mkdir(&RelPath::new(dir).unwrap()).await?;
        }
        Ok::<(), engine::Error>(())
    });
    assert_eq!(strange, Some(Ok(())));
    let expire = |bench: &mut Bench, now_ms: i64| {
        let expired =
            bench.server.on_first_core(async move |shard| shard.expire_snapshots(now_ms).await);
        let (gone, outcome) = expired.unwrap();
        (gone, outcome.map_err(|error| error.to_string()))
    };
    let (gone, outcome) = expire(&mut bench, 60_000);
    assert_eq!(gone, ["b"]);
    assert!(outcome.as_ref().unwrap_err().contains("snapshots/a/x/y"), "{outcome:?}");
    let (gone, outcome) = expire(&mut bench, 90_000);
    assert_eq!((gone, outcome), (vec!["c".to_owned()], Ok(())), "without a manifest it is none");
    assert!(sim.has(&path("snapshots/a/x/y")) && sim.has(&path("snapshots/d")));
}

/// Before: after a read error at the first look no snapshot went any more, since each look began with the same one.
#[test]
fn a_manifest_that_cannot_be_read_now_keeps_no_other_snapshot() {
    let (sim, config) = (SimDisk::new(1, Faults::default()), small(1));
    let mut bench = super::with_rows(&Disk::Sim(sim.clone()), &config);
    for tag in ["a", "b"] {
        let taken = bench.server.on_first_core(async move |shard| {
            let tables = [shard.schema().table("ks", "t").unwrap().id];
            let stays = Some(Duration::from_secs(60));
            auto_snapshots::take(&shard, tag.to_owned(), &tables, 0, stays).await
        });
        assert_eq!(taken, Some(Ok(())));
    }
    // Whether there are snapshots, which, whether the first is whole, and its manifest.
    sim.set_faults(Faults { fail_op: Some(3), ..Faults::default() });
    let expire = |bench: &mut Bench| {
        let expired =
            bench.server.on_first_core(async |shard| shard.expire_snapshots(60_000).await);
        let (gone, outcome) = expired.unwrap();
        (gone, outcome.map_err(|error| error.to_string()))
    };
    let (gone, outcome) = expire(&mut bench);
    assert!(outcome.as_ref().unwrap_err().contains("snapshots/a/manifest.json"), "{outcome:?}");
    assert_eq!(gone, ["b"]);
    assert_eq!(expire(&mut bench), (vec!["a".to_owned()], Ok(())));
}

#[test]
fn the_statements_of_a_snapshot_make_its_tables_and_then_their_views() {
    let sim = SimDisk::new(1, Faults::default());
    let mut bench = super::with_rows(&Disk::Sim(sim.clone()), &small(1));
    bench.query("CREATE TABLE ks.b (k int PRIMARY KEY, r int)");
    let made = bench.query(
        "CREATE MATERIALIZED VIEW ks.w AS SELECT * FROM ks.b WHERE r IS NOT NULL AND k IS NOT NULL PRIMARY KEY (r, k)",
    );
    assert_eq!(made, "CREATED TABLE ks w");
    let taken = bench.server.on_first_core(async |shard| {
        let tables = ["b", "t"].map(|name| shard.schema().table("ks", name).unwrap().id);
        auto_snapshots::take(&shard, "a".to_owned(), &tables, 0, None).await
    });
    assert_eq!(taken, Some(Ok(())));
    let text = sim.bytes(&RelPath::new("snapshots/a/schema.cql").unwrap()).unwrap();
    let text = String::from_utf8(text).unwrap();
    let places = ["KEYSPACE ks ", "TABLE ks.b ", "TABLE ks.t ", "MATERIALIZED VIEW ks.w "];
    let places = places.map(|what| text.find(&format!("CREATE {what}")));
    assert!(places.is_sorted() && places[0] == Some(0), "{places:?} of {text}");
    assert!(text.ends_with(";\n") && text.matches("\n\nCREATE ").count() == 3, "{text}");
}

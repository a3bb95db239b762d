//! What the trace of a read tells of shards, sstables, rows and blocks.

use super::*;

impl Bench {
    /// Runs a traced query; its events in their order.
    fn traced(&mut self, text: &str) -> Vec<String> {
        self.stream += 1;
        let parameters =
            Parameters { page_rows: Some(12_345), ..Parameters::plain(Consistency::One, VERSION) };
        let (mut frame, request) = (Vec::new(), Request::Query(Query { text, parameters }));
        request.put(VERSION, self.stream, Flags::TRACING, &mut frame);
        self.server.take(self.client, &frame);
        self.server.run_until_answered(self.client);
        let bytes = self.server.sent(self.client, <[u8]>::to_vec);
        let header = Header::decode(&bytes, Direction::Response).unwrap().unwrap();
        let answer = Answer::decode(&header, &bytes[HEADER_BYTES..]).unwrap();
        let id = uuid::Uuid::from_bytes(answer.trace_id.expect("it was traced"));
        let session = format!(
            "SELECT parameters['consistency_level'], parameters['page_size'] FROM system_traces.sessions WHERE session_id = {id}"
        );
        // It is written after the answer, to a real disk.
        let asked = (0..10_000).map(|_| {
            self.server
                .on_first_core(async |shard| shard.runtime().sleep(Duration::from_millis(1)).await);
            self.query(&session)
        });
        let parameters = asked.into_iter().find(|found| !found.is_empty());
        assert_eq!(parameters.as_deref(), Some("ONE 12345"));
        let events = self.query(&format!(
            "SELECT JSON activity FROM system_traces.events WHERE session_id = {id}"
        ));
        let events = events.split("{\"activity\": \"").skip(1);
        events.map(|event| event.trim_end_matches([',', ' ', '}', '"']).to_owned()).collect()
    }
}

#[test]
fn a_trace_tells_what_was_merged_skipped_and_passed() {
    let mut bench = Bench::new(1);
    for first in [0, 1] {
        for k in (first..40).step_by(2) {
            for c in 0..3 {
                bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {c}, 1)"));
            }
        }
        bench.server.flush();
    }
    bench.query("DELETE FROM ks.t WHERE k = 7 AND c = 1");
    let sources = |read, skipped, filter| {
        format!(
            "Shard 0: merging data from 1 memtables and {read} sstables; skipped {skipped} sstables, {filter} of them by their Bloom filters"
        )
    };
    for from_disk in [true, false] {
        let events = bench.traced("SELECT * FROM ks.t WHERE k = 7");
        assert!(events[0].starts_with("Parsed and prepared SELECT * FROM ks.t"), "{events:?}");
        assert_eq!(events[1], "Executing query of 1 partitions on t");
        assert!([sources(1, 1, 1), sources(1, 1, 0), sources(2, 0, 0)].contains(&events[2]));
        assert_eq!(events[3], "Read 2 live rows and 1 tombstone cells");
        let blocks = &events[4];
        assert_eq!(blocks.starts_with("Read 0 blocks from disk and "), !from_disk, "{blocks}");
        assert_eq!(blocks.ends_with(" and 0 from the cache"), from_disk, "{blocks}");
    }
    let events = bench.traced("SELECT * FROM ks.t");
    assert_eq!(events[1..3], ["Executing range query on t".to_owned(), sources(2, 0, 0)]);
    assert_eq!(events[3], "Read 119 live rows and 1 tombstone cells");
    let none = bench.traced("SELECT * FROM ks.t WHERE k IN (7) AND c IN ()");
    assert_eq!(none[1], "Nothing of t can match");
}

/// Each shard that is asked tells what it has.
#[test]
fn a_trace_of_a_read_over_shards_has_an_event_of_each() {
    let mut bench = Bench::new(3);
    for k in 0..30 {
        bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 1)"));
    }
    let shards = |events: &[String]| events.iter().filter(|e| e.starts_with("Shard ")).count();
    let all = bench.traced("SELECT * FROM ks.t");
    assert_eq!(shards(&all), 3, "{all:?}");
    assert!(all.contains(&"Read 30 live rows and 0 tombstone cells".to_owned()), "{all:?}");
    let sum = bench.traced("SELECT count(*), sum(v) FROM ks.t");
    assert!(sum.contains(&"Read 30 live rows and 0 tombstone cells".to_owned()), "{sum:?}");
    assert_eq!(shards(&bench.traced("SELECT * FROM ks.t WHERE k = 4")), 1);
    assert_eq!(shards(&bench.traced("SELECT key FROM system.local")), 0);
}

/// Before: a trace said of each write that it was written, also of one that failed or was not applied.
#[test]
fn a_trace_tells_what_became_of_a_write() {
    let mut bench = Bench::new(2);
    bench.query("CREATE TABLE ks.l (k int PRIMARY KEY, l list<int>)");
    for k in 0..4 {
        bench.query(&format!("INSERT INTO ks.l (k, l) VALUES ({k}, [1])"));
        let written = "Written to commitlog and memtable";
        for (text, became) in [
            (format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 1)"), written),
            (
                format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 2) IF NOT EXISTS"),
                "Not applied, and nothing was written",
            ),
            (format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 2, 2) IF NOT EXISTS"), written),
            (format!("UPDATE ks.l SET l[7] = 1 WHERE k = {k}"), "Write failed: "),
        ] {
            let events = bench.traced(&text);
            let last = events.last().map(String::as_str).unwrap_or_default();
            assert!(last.starts_with(became), "{text}: {events:?}");
            assert_eq!(
                events.iter().any(|event| event == written),
                became == written,
                "{events:?}"
            );
        }
    }
}

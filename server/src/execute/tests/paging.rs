//! Pages of results from all cores, the states between them, and answers without pages.

use super::*;

/// Groups of all cores come one a page, as those of one page do, and a state that was changed is refused.
#[test]
fn groups_come_in_pages_from_all_cores() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        bench.query("CREATE TABLE ks.s (k int, c int, s int static, v int, PRIMARY KEY (k, c))");
        for k in 0..9 {
            bench.query(&format!("INSERT INTO ks.s (k, s) VALUES ({k}, {k})"));
            for c in 0..k % 4 {
                bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {c}, {k})"));
                bench.query(&format!("INSERT INTO ks.s (k, c, v) VALUES ({k}, {c}, {k})"));
            }
        }
        for text in [
            "SELECT k, count(*), sum(v) FROM ks.t GROUP BY k",
            "SELECT k, c, max(v) FROM ks.t GROUP BY k, c PER PARTITION LIMIT 2 LIMIT 7",
            "SELECT c, max(v) FROM ks.t WHERE k = 3 GROUP BY c",
            // Of partitions whose static row does not stand alone, and of others.
            "SELECT k, c, s, count(v) FROM ks.s GROUP BY k, c",
            "SELECT k, s, count(v) FROM ks.s WHERE k IN (2, 3, 4) GROUP BY k",
            "SELECT k, c, max(v) FROM ks.t WHERE k IN (2, 3, 7) GROUP BY k, c",
        ] {
            let whole = bench.query(text);
            let (mut state, mut pages) = (Vec::new(), Vec::new());
            loop {
                let before = (!state.is_empty()).then_some(&state[..]);
                let (page, next) = bench.page(text, before);
                pages.push(page.trim_end_matches(", more").to_owned());
                state = next;
                if state.is_empty() {
                    break;
                }
            }
            assert_eq!(pages.join(", "), whole, "{text} on {shards} shards");
            assert!(pages.len() > 1, "{text}");
            let (_, mut forged) = bench.page(text, None);
            forged[9] ^= 1;
            let refused = "error: Invalid value for the paging state";
            assert_eq!(bench.page(text, Some(&forged)).0, refused);
        }
    }
}

/// A node takes only the paging states that it gave, for their table; those of before a restart too.
#[test]
fn a_paging_state_is_the_nodes_own() {
    let refused = ("error: Invalid value for the paging state".to_owned(), Vec::new());
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let mut bench = Bench::make(&disk, &small(2));
    bench.query("CREATE TABLE ks.u (k int, c int, v int, PRIMARY KEY (k, c))");
    for (table, k, c) in
        [("t", 1, 1), ("t", 1, 2), ("t", 2, 1), ("t", 2, 2), ("u", 1, 1), ("u", 1, 2)]
    {
        let insert = format!("INSERT INTO ks.{table} (k, c) VALUES ({k}, {c})");
        assert_eq!(bench.query(&insert), "void");
    }
    // Of this core and of the other one.
    for k in [1, 2] {
        let text = format!("SELECT c FROM ks.t WHERE k = {k}");
        let (first, state) = bench.page(&text, None);
        assert_eq!(first, "1, more");
        assert_eq!(bench.page(&text, Some(&state)).0, "2");
        for byte in 0..state.len() {
            let mut forged = state.clone();
            forged[byte] ^= 1;
            assert_eq!(bench.page(&text, Some(&forged)), refused, "{byte}");
        }
        let other = format!("SELECT c FROM ks.u WHERE k = {k}");
        assert_eq!(bench.page(&other, Some(&state)), refused);
    }
    let text = "SELECT c FROM ks.t WHERE k = 1";
    let (_, state) = bench.page(text, None);
    drop(bench);
    assert_eq!(Bench::open(&disk, &small(2)).page(text, Some(&state)).0, "2");
}

/// Pages of a partition on another core continue where they ended.
#[test]
fn pages_and_their_ends_come_from_the_owner() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        let write = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
        let read = bench.prepare("SELECT c FROM ks.t WHERE k = ?");
        for k in 0..6 {
            (0..3).for_each(|c| assert_eq!(bench.execute(&write, &[k, c, 0]), "void"));
        }
        for k in 0..6 {
            assert_eq!(bench.execute(&read, &[k]), "0, 1, more", "{shards} shards");
        }
        let all = "SELECT count(*) FROM ks.t";
        assert_eq!(bench.query(all), "18");
        assert_eq!(
            bench.query("SELECT v FROM ks.t WHERE k IN (0, 1, 2, 3) AND c = 2"),
            "0, 0, 0, 0"
        );
    }
}

/// `RESULT_BYTES_MAX`: 64 MiB are the most that one answer has; more comes in pages.
#[test]
fn an_answer_in_one_piece_is_bounded() {
    const VALUE_BYTES: usize = 1 << 20;
    let mut bench = Bench::with(ManualConfig {
        shards: 1,
        shard_memory_bytes: 512 << 20,
        log_segment_bytes: 8 << 20,
    });
    assert_eq!(cql::limits::RESULT_BYTES_MAX, 64 << 20);
    let table = "CREATE TABLE ks.large (k int, c int, v blob, PRIMARY KEY (k, c))";
    assert_eq!(bench.query(table), "CREATED TABLE ks large");
    let id = bench.prepare("INSERT INTO ks.large (k, c, v) VALUES (1, ?, ?)");
    let value = vec![b'v'; VALUE_BYTES];
    for c in 0i32..65 {
        let mut list = ValueList::new();
        list.push(Value::Bytes(&c.to_be_bytes()));
        list.push(Value::Bytes(&value));
        let parameters = Parameters {
            values: list.as_values(VERSION),
            ..Parameters::plain(Consistency::One, VERSION)
        };
        let insert = Execute { id: &id, result_metadata_id: None, parameters };
        assert_eq!(bench.show(&Request::Execute(insert)), "void");
    }
    let refused = "error: the result has more than 67108864 bytes: set a page size or a LIMIT";
    assert_eq!(bench.query("SELECT v FROM ks.large WHERE k = 1"), refused);
    assert_eq!(bench.query("SELECT v FROM ks.large"), refused);
    let under = bench.query("SELECT v FROM ks.large WHERE k = 1 LIMIT 60");
    assert_eq!(under.len(), 60 * VALUE_BYTES + 59 * ", ".len());
    let parameters =
        Parameters { page_rows: Some(5000), ..Parameters::plain(Consistency::One, VERSION) };
    let query = Query { text: "SELECT v FROM ks.large WHERE k = 1", parameters };
    let page = bench.show(&Request::Query(query));
    assert!(page.ends_with(", more") && page.len() < 3 * VALUE_BYTES, "{} bytes", page.len());
}

//! What EXPLAIN tells of shards and files, and the example of the documents.

use super::*;

impl Bench {
    /// The steps of an EXPLAIN, or what is said against it.
    fn steps(&mut self, request: &Request<'_>) -> Result<Vec<[String; 3]>, String> {
        let bytes = self.ask(request);
        let header = Header::decode(&bytes, Direction::Response).unwrap().unwrap();
        let answer = Answer::decode(&header, &bytes[HEADER_BYTES..]).unwrap();
        let Reply::Rows(rows) = &answer.reply else { return Err(shown(&answer)) };
        let text = |cell: Option<&[u8]>| String::from_utf8(cell.unwrap().to_vec()).unwrap();
        let cells: Vec<String> = rows.cells().map(|cell| text(cell.unwrap())).collect();
        Ok(cells.chunks(3).map(|row| [row[0].clone(), row[1].clone(), row[2].clone()]).collect())
    }

    fn explain(&mut self, text: &str) -> Result<Vec<[String; 3]>, String> {
        let parameters = Parameters::plain(Consistency::One, VERSION);
        self.steps(&Request::Query(Query { text, parameters }))
    }

    /// What an EXPLAIN says of the shards, without bytes, which depend on the format of files.
    fn shards(&mut self, select: &str) -> Vec<String> {
        let steps = self.explain(&format!("EXPLAIN {select}")).unwrap();
        let of_shards = steps.iter().filter(|[step, ..]| step.starts_with("shard"));
        of_shards.map(|line| without_bytes(&line.join(" "))).collect()
    }
}

fn without_bytes(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let is_bytes = |at: usize| words.get(at + 1).is_some_and(|next| next.starts_with("bytes"));
    let shown = words.iter().enumerate().map(|(at, word)| if is_bytes(at) { "N" } else { word });
    shown.collect::<Vec<_>>().join(" ")
}

/// Two files have every other key each; clusterings beyond all rows are in none.
#[test]
fn files_are_counted_by_what_leaves_them_out() {
    let mut bench = Bench::new(1);
    for first in [0, 1] {
        for k in (first..40).step_by(2) {
            bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {k}, 1)"));
        }
        bench.server.flush();
    }
    let line = |text: &str| format!("shard 0 sstables {text}");
    let mut by_filter = 0;
    for k in 0..40 {
        let told = bench.shards(&format!("SELECT * FROM ks.t WHERE k = {k}"));
        assert_eq!(told[0], "shard 0 memtables 0 of N bytes");
        let counts = |read, bounds, filter| {
            line(&format!("{read} of N bytes; left out {bounds} by bounds, {filter} by filter"))
        };
        by_filter += usize::from(told[1] == counts(1, 0, 1));
        let all = [counts(1, 0, 1), counts(1, 1, 0), counts(2, 0, 0)];
        assert!(all.contains(&told[1]), "{told:?}");
    }
    assert!(by_filter > 20, "filters leave out most: {by_filter}");
    let beyond = bench.shards("SELECT * FROM ks.t WHERE k = 1 AND c > 90");
    assert_eq!(beyond[1], line("0 of N bytes; left out 2 by bounds, 0 by filter"));
    for both in ["SELECT * FROM ks.t WHERE k IN (0, 1)", "SELECT * FROM ks.t"] {
        let told = bench.shards(both);
        assert_eq!(told[1], line("2 of N bytes; left out 0 by bounds, 0 by filter"), "{both}");
    }
    bench.query("INSERT INTO ks.t (k, c, v) VALUES (99, 9, 1)");
    let memory = bench.shards("SELECT * FROM ks.t WHERE k = 99");
    assert_eq!(memory[0], "shard 0 memtables 1 of N bytes");
}

/// Only those are told of that a read would ask.
#[test]
fn shards_that_would_be_asked_are_told() {
    let mut bench = Bench::new(3);
    for k in 0..30 {
        bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 1)"));
    }
    let shards = |bench: &mut Bench, select: &str| bench.shards(select).len() / 2;
    assert_eq!(shards(&mut bench, "SELECT * FROM ks.t"), 3);
    assert_eq!(shards(&mut bench, "SELECT * FROM ks.t WHERE token(k) < -9000000000000000000"), 1);
    assert_eq!(shards(&mut bench, "SELECT * FROM ks.t WHERE k = 4"), 1);
    assert_eq!(shards(&mut bench, "SELECT * FROM ks.t WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8)"), 3);
    assert_eq!(shards(&mut bench, "SELECT * FROM ks.t WHERE token(k) > 5 AND token(k) < 5"), 0);
    assert_eq!(shards(&mut bench, "SELECT * FROM system.local"), 0);
    let computed = bench.explain("EXPLAIN SELECT * FROM system.local").unwrap();
    let source = ["access", "source", "the rows are computed when they are asked for"];
    assert!(computed.contains(&source.map(str::to_owned)), "{computed:?}");
    // Before: the one table of the keyspace that is stored was told as computed, and its files were not.
    let stored = bench.explain("EXPLAIN SELECT * FROM system.batches").unwrap();
    assert!(!stored.contains(&source.map(str::to_owned)), "{stored:?}");
    assert!(
        stored.iter().any(|[step, what, _]| step == "shard 0" && what == "memtables"),
        "{stored:?}"
    );
}

#[test]
fn a_prepared_explain_takes_the_values_of_each_execution() {
    let mut bench = Bench::new(2);
    let id = bench.prepare("EXPLAIN SELECT v FROM ks.t WHERE k = ? LIMIT ?");
    let mut execute = |limit: i32| {
        let mut values = ValueList::new();
        values.push(Value::Bytes(&1_i32.to_be_bytes()));
        values.push(Value::Bytes(&limit.to_be_bytes()));
        let values = values.as_values(VERSION);
        let parameters = Parameters { values, ..Parameters::plain(Consistency::One, VERSION) };
        bench.steps(&Request::Execute(Execute { id: &id, result_metadata_id: None, parameters }))
    };
    for limit in [3, 40] {
        let told = execute(limit).unwrap();
        let wanted = ["limit".to_owned(), "rows".to_owned(), limit.to_string()];
        assert!(told.contains(&wanted), "{told:?}");
    }
    assert_eq!(execute(-1), Err("error: LIMIT must be strictly positive".to_owned()));
    for wrong in ["SELECT nope FROM ks.t", "SELECT * FROM ks.no", "SELECT * FROM ks.t WHERE v = 1"]
    {
        assert_eq!(bench.explain(&format!("EXPLAIN {wrong}")), Err(bench.query(wrong)));
    }
}

#[test]
fn the_example_of_the_documents_is_what_is_told() {
    let mut bench = Bench::new(2);
    bench.query(
        "CREATE TABLE ks.samples (sensor int, day date, at time, value double, PRIMARY KEY (sensor, day, at))",
    );
    for at in ["07:30:00", "08:00:00", "08:30:00"] {
        let values = format!("(7, '2026-05-01', '{at}', 21.5)");
        bench.query(&format!("INSERT INTO ks.samples (sensor, day, at, value) VALUES {values}"));
        bench.server.flush();
    }
    bench.query("INSERT INTO ks.samples (sensor, day, at, value) VALUES (7, '2026-05-02', '09:00:00', 19.0)");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/explain.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (begin, end) = (
        "<!-- example: made by a test of server -->\n\n```text\n",
        "```\n\n<!-- end of example -->",
    );
    let (before, rest) = document.split_once(begin).unwrap();
    let (found, after) = rest.split_once(end).unwrap();
    let statement = found.lines().next().unwrap();
    let mut lines = vec![["step", "what", "value"].map(str::to_owned)];
    lines.extend(bench.explain(statement).unwrap());
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap();
    let widths = [width(0), width(1), width(2)];
    let shown = |line: &[String; 3]| {
        let padded = line.iter().zip(widths).map(|(text, width)| format!(" {text:width$} "));
        padded.collect::<Vec<_>>().join("|").trim_end().to_owned() + "\n"
    };
    let rule = widths.map(|width| "-".repeat(width + 2)).join("+") + "\n";
    let rows: String = lines[1..].iter().map(shown).collect();
    let made = format!("{statement}\n\n{}{rule}{rows}", shown(&lines[0]));
    if std::env::var_os("MESSINA_BLESS").is_some() {
        std::fs::write(path, format!("{before}{begin}{made}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(found, made);
}

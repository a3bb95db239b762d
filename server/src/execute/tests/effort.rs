//! What a core notes of requests that compute for long, so that it looks at the clock before it takes the next one.

use super::*;
use crate::service::Service;

/// 1.5 as a decimal.
const ONE_AND_A_HALF: [u8; 5] = [0, 0, 0, 1, 15];

impl Bench {
    /// A server of one core with `ks.d`, of one row.
    fn with_decimals() -> Bench {
        let mut bench = Bench::new(1);
        bench.query("CREATE TABLE ks.d (k int PRIMARY KEY, d decimal, b blob)");
        assert_eq!(bench.query("INSERT INTO ks.d (k, d, b) VALUES (0, 1.5, 0x00)"), "void");
        bench
    }

    /// Whether the core did so much for a request that it looks at the clock next; and how it is answered.
    fn did_much(&mut self, request: &Request<'_>) -> (bool, String) {
        let executor = self.server.executor(0);
        executor.did_much();
        self.begin(request);
        let did_much = executor.did_much();
        let answer = self.answers().remove(&self.stream).unwrap();
        (did_much, answer)
    }

    /// The same of an EXECUTE, with 1.5 for each marker.
    fn did_much_for(&mut self, id: &[u8], markers: usize) -> (bool, String) {
        let mut list = ValueList::new();
        (0..markers).for_each(|_| list.push(Value::Bytes(&ONE_AND_A_HALF)));
        let values = list.as_values(VERSION);
        let parameters = Parameters { values, ..Parameters::plain(Consistency::One, VERSION) };
        self.did_much(&Request::Execute(Execute { id, result_metadata_id: None, parameters }))
    }
}

/// Before: the clock was looked at after eight requests, also if each of them evaluated constants for 60 ms.
#[test]
fn a_text_that_is_compiled_is_noted() {
    let mut bench = Bench::with_decimals();
    let parameters = Parameters::plain(Consistency::One, VERSION);
    for text in ["SELECT k FROM ks.d WHERE k = 0", "SELECT exp(1.5) FROM ks.d WHERE k = 7", "SEL"] {
        assert!(bench.did_much(&Request::Query(Query { text, parameters })).0, "{text}");
        let text = &format!("{text} -- again");
        assert!(bench.did_much(&Request::Prepare(Prepare { text, keyspace: None })).0, "{text}");
    }
}

/// Before: only rows and bytes were noted, and not what expressions make of them.
#[test]
fn expressions_that_take_long_are_noted() {
    let mut bench = Bench::with_decimals();
    for (text, takes_long) in [
        ("SELECT d FROM ks.d WHERE k = 0", false),
        ("SELECT d, blob_as_int(b) FROM ks.d WHERE k = 0", false),
        ("SELECT exp(d) FROM ks.d WHERE k = 0", true),
        ("SELECT exp(d), blob_as_int(b) FROM ks.d WHERE k = 0", true),
        ("SELECT exp(max(d)) FROM ks.d WHERE k = 0", true),
        ("SELECT exp((decimal)?) FROM ks.d WHERE k = 0", true),
        ("SELECT k FROM ks.d WHERE k = CAST(exp((decimal)?) AS int)", true),
        ("INSERT INTO ks.d (k, d) VALUES (0, ?)", false),
        ("INSERT INTO ks.d (k, d) VALUES (0, exp((decimal)?))", true),
        ("UPDATE ks.d SET d = ? WHERE k = 0 IF d = 7", false),
        ("UPDATE ks.d SET d = exp((decimal)?) WHERE k = 0 IF d = 7", true),
        ("BEGIN BATCH UPDATE ks.d SET d = exp((decimal)?) WHERE k = 0 APPLY BATCH", true),
    ] {
        let id = bench.prepare(text);
        let (did_much, answer) = bench.did_much_for(&id, text.matches('?').count());
        assert_eq!(did_much, takes_long, "{text}: {answer}");
        assert_eq!(answer.starts_with("error"), text.contains("as_int("), "{text}: {answer}");
    }
}

/// Before: of a BATCH message only the number of its statements was noted.
#[test]
fn values_of_a_batch_message_that_take_long_are_noted() {
    let mut bench = Bench::with_decimals();
    for (value, takes_long) in [("?", false), ("exp((decimal)?)", true)] {
        let id = bench.prepare(&format!("INSERT INTO ks.d (k, d) VALUES (0, {value})"));
        let mut values = ValueList::new();
        values.push(Value::Bytes(&ONE_AND_A_HALF));
        let text = BatchText::Prepared(&id);
        let statement = BatchStatement { text, values: values.as_values(VERSION) };
        let parameters = Parameters::plain(Consistency::One, VERSION);
        let (statements, mut items) = (&[statement], Vec::new());
        let batch = Batch::new(BatchKind::Unlogged, statements, parameters, VERSION, &mut items);
        assert_eq!(bench.did_much(&Request::Batch(batch)), (takes_long, "void".into()), "{value}");
    }
}

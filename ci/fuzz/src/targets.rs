//! What is fuzzed: one function for each decoder that bytes from outside reach.
//!
//! A target fails by panicking. Beyond not panicking it checks what must hold of any input: an error says something, an
//! order-preserving form comes back, a frame is as long as it says.
//!
//! 1. A target has a name, a function and seeds: inputs that reach its depths at once.
//! 2. A test writes the seeds into `corpus/NAME` where MESSINA_BLESS is set (`lib.rs`); libFuzzer adds what it finds.
//! 3. `planted` has no corpus: only coverage leads to its bug, so that a run without counters is noticed.
//!
//! Not here: targets of more than a function, each with the form of its inputs (`storage.rs`, `segments.rs`,
//! `statements.rs`, `functions.rs`), the call by libFuzzer (`libfuzzer.rs`), how long each target runs
//! (`ci/src/fuzz.rs`).

use std::hint::black_box;
use std::sync::Arc;

use cql::frame::Version;
use cql::frame::compress::Compression;
use cql::frame::frame_reader::{Arrival, FrameReader};
use cql::frame::header::Direction;
use cql::frame::request::Request;
use cql::plan::PagingState;
use model::mutation::MutationRef;
use model::options::KeyspaceOptions;
use model::ordered;
use model::row::RowRef;
use model::schema::{Schema, SchemaChange};
use model::types::CqlType;

use crate::{functions, segments, statements, storage};

/// One decoder, and inputs to begin with.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// What runs on each input.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: &'static [&'static [u8]],
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "frame", run: frame, seeds: FRAMES },
    Target { name: "parser", run: parser, seeds: STATEMENTS },
    Target { name: "values", run: values, seeds: VALUES },
    Target { name: "rows", run: rows, seeds: ROWS },
    Target { name: "schema", run: schema, seeds: SCHEMA },
    Target { name: "log", run: storage::log, seeds: DAMAGES },
    Target { name: "manifest", run: storage::manifest, seeds: DAMAGES },
    Target { name: "sstable", run: storage::sstable, seeds: DAMAGES },
    Target { name: "segments", run: segments::run, seeds: SEGMENTS },
    Target { name: "paging", run: paging, seeds: PAGING },
    Target { name: "statements", run: statements::run, seeds: EXECUTED },
    Target { name: "functions", run: functions::run, seeds: FUNCTIONS },
    Target { name: "planted", run: planted, seeds: &[b""] },
];

/// Format, then what, length and payload of each segment: see `segments.rs`.
const SEGMENTS: &[&[u8]] = &[
    b"\x00\x01\x09\x05\x00\x00\x00\x05\x00\x00\x00\x00",
    b"\x00\x00\x09\x05\x00\x00\x00\x07\x00\x00\x00\x05\x00\x05hello",
    b"\x01\x03\x0b\x00\x09\x90\x05\x00\x00\x00\x05\x00\x00\x00\x00",
];

/// The body of a paging state, less its checksum.
const PAGING: &[&[u8]] = &[
    b"\x01\x05\x01\x02\x03\x04\x05\x06\x07\x08\x04\x00\x00\x00\x01\x00\x00",
    b"\x01\x09\x01\x02\x03\x04\x05\x06\x07\x08\x02ab\x03\x07\x02cd",
];

/// Statements and their values: see `statements.rs`.
const EXECUTED: &[&[u8]] = &[
    b"INSERT INTO t (p, c, d, s, v, l, m, u) VALUES (1, 'a', 2, 3, 'v', [1, 2], {'k': 1}, {3})\xff\
      INSERT INTO t (p, c, d, v) VALUES (1, ?, 4, ?) USING TTL 9\xfeb\xfew\xff\
      SELECT * FROM t WHERE p = 1 AND c > ? ORDER BY c ASC, d DESC LIMIT 9\xfe0\xff\
      SELECT s, count(*), max(d), l FROM t GROUP BY p, c",
    b"BEGIN BATCH UPDATE t SET u = u + {1}, m['a'] = 2, o = {x: 1} WHERE p = 1 AND c = 'a' AND d = 1; \
      DELETE v, l[0] FROM t WHERE p = 1 AND c = 'a' AND d IN (1, 2); APPLY BATCH\xff\
      DELETE FROM t USING TIMESTAMP 1 WHERE p = 1 AND c >= 'a' AND c < 'b'\xff\
      SELECT DISTINCT p, s FROM t WHERE token(p) > -3\xffSELECT p, v, writetime(v), ttl(v), cast(d AS text) FROM t \
      WHERE (c, d) > ('a', 1) AND n CONTAINS 1 PER PARTITION LIMIT 1 ALLOW FILTERING",
    b"ALTER TABLE t ADD w int\xffALTER TABLE t DROP v\xffCREATE TABLE x (a int PRIMARY KEY, b vector<float, 2>) \
      WITH compaction = {'class': 'LeveledCompactionStrategy'}\xffINSERT INTO x (a, b) VALUES (1, [1.5, 2])\xff\
      SELECT a, b, toJson(b), a + 1 FROM x\xffALTER TYPE pair ADD z int\xffTRUNCATE x\xffDROP TABLE x",
];

/// Language, types, argument, body: see `functions.rs`. Types are numbered as in [`types`].
const FUNCTIONS: &[&[u8]] = &[
    b"\x00\x0b\x0b\x04\x00\x00\x00\x07return a + 1",
    b"\x00\x0d\x0d\x05hello local t = {} for k, v in a:gmatch('(%w)(l*)') do t[#t + 1] = k .. v end \
      return table.concat(t, ',', 1, 2):rep(2, '-')",
    b"\x02\x13\x13\x02\x30\x39local m = setmetatable({}, {__index = function(_, k) return k end, __call = tostring}) \
      return a + '7' - 1.0 + #m",
    b"\x00\x0d\x14\x02ab return {[{}] = true, [{a, 'b'}] = 1, [{'z'}] = 2}",
    b"\x00\x0d\x15\xff return {[2] = string.format('%5.1f %s %q', 1.5, a, 'x'), ['1'] = a or 'y'}",
    b"\x00\x01\x16\xff local s = table.pack(1, utf8.char(233), 1 << 40) table.sort(s, function(x, y) \
      return tostring(x) < tostring(y) end) return {s[1], s[2], '0x10'}",
    b"\x00\x11\x17\xff return {year = 2026}, string.gsub('abcd', '[^%d]-()', {a = 1, [2] = false})",
    b"\x03\x0b\x0b\x04\x00\x00\x00\x07(module (func (export \"f\") (param i32) (result i32) \
      (local i64) (i32.add (local.get 0) (i32.const 1))))",
    b"\x01\x0d\x0d\x02ab(module (memory (export \"memory\") 1) (global (export \"_scylla_abi\") i32 (i32.const 8)) \
      (data (i32.const 8) \"\\01\") (func (export \"f\") (param i64) (result i64) (local.get 0)))",
    b"\x01\x0b\x14\xff(module (table 2 funcref) (elem (i32.const 0) $g) (memory (export \"memory\") 1) \
      (data (i32.const 0) \"\\00\\00\\00\\01\\00\\00\\00\\04\\00\\00\\00\\00\") (func $g (result i64) (i64.const 51539607552)) \
      (func (export \"f\") (param i64) (result i64) (block (br_if 0 (i64.eqz (local.get 0))) (drop (memory.grow (i32.const 1)))) \
      (call_indirect (result i64) (i32.const 0))))",
];

const FRAMES: &[&[u8]] = &[
    b"\x04\x00\x00\x00\x05\x00\x00\x00\x00",
    b"\x04\x00\x00\x00\x01\x00\x00\x00\x16\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0",
    b"\x04\x00\x00\x01\x07\x00\x00\x00\x0f\x00\x00\x00\x08SELECT 1\x00\x01\x00",
    b"\x05\x00\x00\x01\x0a\x00\x00\x00\x10\x00\x02ab\x00\x02cd\x00\x01\x00\x00\x00\x00",
    b"\x04\x00\x00\x01\x0d\x00\x00\x00\x10\x00\x00\x01\x00\x00\x00\x00\x01x\x00\x00\x00\x01\x00",
];

const STATEMENTS: &[&[u8]] = &[
    b"SELECT a, b AS c, count(*) FROM ks.t WHERE p IN (?, :x) AND (c, d) > (1, 'a') AND token(p) < 3 \
      ORDER BY c DESC PER PARTITION LIMIT 3 LIMIT ? ALLOW FILTERING",
    b"INSERT INTO t (a, b) VALUES (1, {'a': [1, 2], 'b': []}) IF NOT EXISTS USING TTL 3 AND TIMESTAMP ?",
    b"UPDATE t SET a = a + {1}, b[2] = 0xff, c = 1.5e3 WHERE p = 550e8400-e29b-41d4-a716-446655440000",
    b"BEGIN UNLOGGED BATCH DELETE a[1] FROM t WHERE p = 1; INSERT INTO t JSON '{}'; APPLY BATCH",
    b"CREATE TABLE ks.t (p int, c frozen<map<text, list<int>>>, v vector<float, 3>, PRIMARY KEY ((p), c)) \
      WITH CLUSTERING ORDER BY (c DESC) AND compaction = {'class': 'X'} AND comment = 'it''s'",
    b"-- comment\nALTER TABLE t ADD (a int, b text static) /* */; DESCRIBE FULL SCHEMA $$ $$",
];

const VALUES: &[&[u8]] = &[
    b"\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x04\x00\x00\x00\x01",
    b"\x00\x00\x00\x02\x30\x39",
    b"\x55\x0e\x84\x00\xe2\x9b\x11\xd4\xa7\x16\x44\x66\x55\x44\x00\x00",
];

const ROWS: &[&[u8]] = &[
    b"\x09\x07\0\0\0\0\0\0\0\x02\0\0\x02ab\x03\0\x05\x09\0\0\0\0\0\0\0\x04\0\0\0",
    b"\x2c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\x09\0\0\0\0\0\0\0\x01k\0\0\x01\x01c\x0a\
      \x01\x07\0\0\0\0\0\0\0\x02\0\0",
];

const SCHEMA: &[&[u8]] = &[
    br#"{"format":2,"number":1,"version":"00000000-0000-0000-0000-000000000009","change":{"CreateKeyspace":{"name":"ks","replication":{"class":"SimpleStrategy"},"durable_writes":false}}}"#,
    br#"{"number":4,"version":"2fa122f0-6a61-42ae-97e7-73d0e678c369","change":{"CreateTable":{"id":"084ec0ac-caac-4ef2-a0dc-4cf8ed89c0a2","keyspace":"ks","name":"t","options":{"comment":"","compaction":{"class":"LeveledCompactionStrategy","fanout_size":"4"},"extensions":{"a":[1,255]},"crc_check_chance":1.0},"dropped":[],"columns":[{"id":0,"name":"k","ty":"Int","kind":"PartitionKey","position":0,"descending":false},{"id":1,"name":"v","ty":{"Map":{"key":"Text","value":{"Tuple":["Int"]},"frozen":true}},"kind":"Regular","position":0,"descending":false}],"partition_key_count":1,"clustering_count":0,"next_column":2}}}"#,
    br#"{"format":2,"number":2,"version":"2fa122f0-6a61-42ae-97e7-73d0e678c369","change":{"AlterType":{"definition":{"keyspace":"ks","name":"u","fields":[["a",{"Udt":{"definition":{"keyspace":"ks","name":"i","fields":[]},"frozen":true}}]]},"tables":[]}}}"#,
];

/// File, place, what: see `storage.rs`.
const DAMAGES: &[&[u8]] = &[
    b"\x00\x00\x00\x00\x80",
    b"\x00\x00\x10\x07\x01",
    b"\x01\x00\x50\x00\x02\x02\x00\x20\x09\x10",
    b"\x00\x00\x30\x00\x00",
    b"\x00\x01\x23\x45\x67\x01\x01\x02\x03\x04",
];

/// An entry of the schema log: what is read is written and read again the same, and can be applied or refused.
fn schema(input: &[u8]) {
    let Ok(entry) = model::schema::decode(input, &mut Vec::new()) else { return };
    let mut warnings = Vec::new();
    let again = model::schema::decode(&model::schema::encode(&entry), &mut warnings);
    assert!(again.is_ok_and(|again| again == entry), "an entry changes when it is written again");
    let keyspace =
        SchemaChange::CreateKeyspace { name: "ks".to_owned(), options: KeyspaceOptions::default() };
    let schema = Schema::of_changes([keyspace]).expect("a new keyspace");
    let _ = schema.apply(&entry);
}

/// Bytes of a connection: bare in each version, and as segments.
fn frame(input: &[u8]) {
    let Some((&mode, bytes)) = input.split_first() else { return };
    let mut reader = FrameReader::new(Direction::Request, 1 << 20);
    match mode % 5 {
        0 => {}
        1 => reader.establish(Version::V4, Compression::Lz4),
        2 => reader.establish(Version::V3, Compression::Snappy),
        3 => reader.establish(Version::V5, Compression::None),
        _ => reader.establish(Version::V5, Compression::Lz4),
    }
    drain(&mut reader, bytes);
}

/// Takes all frames of a connection's bytes.
pub(crate) fn drain(reader: &mut FrameReader, bytes: &[u8]) {
    let mut rest = bytes;
    // A step that uses nothing up and finds nothing ends the input.
    for _ in 0..=bytes.len() {
        let Ok(step) = reader.next(rest) else { return };
        assert!(step.used <= rest.len(), "no more is used than there was");
        let used = step.used;
        match step.arrival {
            Arrival::Starved if used == 0 => return,
            Arrival::Frame(header, body) => {
                if let Ok(Request::Execute(execute)) = Request::decode(&header, body) {
                    assert_eq!(
                        execute.parameters.values.iter().count(),
                        execute.parameters.values.len()
                    );
                }
            }
            _ => {}
        }
        rest = &rest[used..];
    }
}

/// Parses the input as the text of a statement.
fn parser(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input)
        && let Err(error) = cql::lang::parse(text)
    {
        assert!(!error.to_string().is_empty(), "an error says something");
    }
}

/// Types of every kind, numbered.
pub(crate) fn types() -> Vec<CqlType> {
    let mut types: Vec<CqlType> = CqlType::SCALARS.into_iter().map(|(_, ty)| ty).collect();
    let (int, text) = (Arc::new(CqlType::Int), Arc::new(CqlType::Text));
    let list = CqlType::List { element: text.clone(), frozen: true };
    types.push(CqlType::Set { element: Arc::new(list), frozen: true });
    types.push(CqlType::Map { key: int.clone(), value: text, frozen: true });
    types.push(CqlType::Tuple([CqlType::Int, CqlType::Text, CqlType::Varint].into()));
    types.push(CqlType::Vector { element: int, dimensions: 2 });
    for class in [
        "CompositeType(Int32Type,ReversedType(UTF8Type))",
        "DynamicCompositeType(a=>Int32Type,b=>ReversedType(IntegerType))",
        "LexicalUUIDType",
    ] {
        types.push(model::types::parse_class(class).expect("a class").ty);
    }
    types
}

/// Values of every type: a valid one is equal to itself, and its ordered form comes back.
fn values(input: &[u8]) {
    for ty in types() {
        let valid = ty.validate(input).is_ok();
        let mut bytes = Vec::new();
        if ordered::encode(&ty, input, &mut bytes).is_ok() && valid {
            let mut back = Vec::new();
            let mut reader = ordered::Reader::new(&bytes);
            reader.component(&ty, false, &mut back).expect("what was just encoded");
            assert!(ty.compare(input, &back).is_eq(), "{ty}: the same value came back");
        }
        let _ = ordered::Reader::new(input).component(&ty, true, &mut Vec::new());
    }
}

/// Rows and mutations whose bytes are not proven.
fn rows(input: &[u8]) {
    if let Ok(row) = RowRef::checked(input) {
        let mut merged = Vec::new();
        model::row::merge(row, row, &mut merged);
        RowRef::checked(&merged).expect("a merge of rows is a row");
    }
    for mutation in MutationRef::of_record(input).flatten() {
        assert_eq!(mutation.rows().count() as u64, mutation.row_count);
    }
}

/// Paging states below their seal: what is read is written and read again the same.
fn paging(input: &[u8]) {
    if let Ok(state) = PagingState::decode(input) {
        let again = PagingState::decode(&state.encode());
        assert!(
            again.is_ok_and(|again| again == state),
            "a state changes when it is written again"
        );
    }
}

/// A bug behind four comparisons: random bytes meet it once in four thousand million, and coverage finds it at once.
/// `cargo ci fuzz` demands that it is found.
fn planted(input: &[u8]) {
    // A place of its own behind each comparison, which the compiler may not merge with the next.
    if input.first() == Some(&b'M') {
        black_box(1);
        if input.get(1) == Some(&b'E') {
            black_box(2);
            if input.get(2) == Some(&b'S') {
                black_box(3);
                assert!(input.get(3) != Some(&b's'), "the planted bug");
            }
        }
    }
}

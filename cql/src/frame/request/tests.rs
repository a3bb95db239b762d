//! Every request reads back what was written; arbitrary bytes never panic.

use proptest::prelude::*;

use super::*;
use crate::frame::consistency::Consistency;
use crate::frame::header::HEADER_BYTES;
use crate::frame::reader::Value;

fn versions() -> impl Strategy<Value = Version> {
    prop::sample::select(vec![Version::V3, Version::V4, Version::V5])
}

/// The frame of `request`, decoded again.
fn again<'a>(request: &Request<'_>, version: Version, out: &'a mut Vec<u8>) -> Request<'a> {
    out.clear();
    request.put(version, 7, Flags(0), out);
    let header = Header::decode(out, Direction::Request).unwrap().unwrap();
    assert_eq!((header.stream, header.frame_bytes()), (7, out.len()));
    Request::decode(&header, &out[HEADER_BYTES..]).unwrap()
}

#[derive(Debug, Clone)]
enum Bound {
    Null,
    Unset,
    Bytes(Vec<u8>),
}

prop_compose! {
    fn bound()(kind in 0..4, bytes in prop::collection::vec(any::<u8>(), 0..40)) -> Bound {
        match kind {
            0 => Bound::Null,
            1 => Bound::Unset,
            _ => Bound::Bytes(bytes),
        }
    }
}

fn value(bound: &Bound, version: Version) -> Value<'_> {
    match bound {
        Bound::Null => Value::Null,
        Bound::Unset if version == Version::V3 => Value::Null,
        Bound::Unset => Value::Unset,
        Bound::Bytes(bytes) => Value::Bytes(bytes),
    }
}

#[derive(Debug, Clone)]
struct Asked {
    version: Version,
    text: String,
    level: u16,
    values: Vec<Bound>,
    named: bool,
    skip: bool,
    page: Option<u32>,
    state: Option<Vec<u8>>,
    timestamp: Option<i64>,
    keyspace: Option<String>,
    now: Option<i32>,
}

prop_compose! {
    fn asked()(
        version in versions(),
        text in "\\PC{0,30}",
        level in 0u16..11,
        values in prop::collection::vec(bound(), 0..5),
        (named, skip) in any::<(bool, bool)>(),
        page in prop::option::of(1u32..1 << 31),
        state in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
        timestamp in prop::option::of(i64::MIN + 1..=i64::MAX),
        keyspace in prop::option::of("[a-z]{1,9}"),
        now in prop::option::of(any::<i32>()),
    ) -> Asked {
        Asked { version, text, level, values, named, skip, page, state, timestamp, keyspace, now }
    }
}

impl Asked {
    fn list(&self) -> ValueList {
        let mut list = ValueList::new();
        for (i, bound) in self.values.iter().enumerate() {
            let value = value(bound, self.version);
            if self.named { list.push_named(&format!("v{i}"), value) } else { list.push(value) }
        }
        list
    }

    fn parameters<'a>(&'a self, list: &'a ValueList) -> Parameters<'a> {
        let level = Consistency::from_code(self.level).unwrap();
        let v5 = self.version >= Version::V5;
        Parameters {
            values: list.as_values(self.version),
            skip_metadata: self.skip,
            page_rows: self.page,
            paging_state: self.state.as_deref(),
            serial_consistency: self.page.map(|_| Consistency::LocalSerial),
            timestamp_us: self.timestamp,
            keyspace: self.keyspace.as_deref().filter(|_| v5),
            now_s: self.now.filter(|_| v5),
            ..Parameters::plain(level, self.version)
        }
    }
}

proptest! {
    #[test]
    fn query_prepare_and_execute_read_back(asked in asked()) {
        let (list, mut out) = (asked.list(), Vec::new());
        let parameters = asked.parameters(&list);
        let v5 = asked.version >= Version::V5;
        let requests = [
            Request::Query(Query { text: &asked.text, parameters }),
            Request::Prepare(Prepare { text: &asked.text, keyspace: parameters.keyspace }),
            Request::Execute(Execute {
                id: asked.text.as_bytes(),
                result_metadata_id: v5.then_some(b"sixteen bytes id"),
                parameters,
            }),
        ];
        for request in &requests {
            prop_assert_eq!(&again(request, asked.version, &mut out), request);
        }
        let read: Vec<_> = parameters.values.iter().collect();
        let bound: Vec<_> = asked.values.iter().map(|b| value(b, asked.version)).collect();
        prop_assert_eq!(read, bound);
    }

    #[test]
    fn batches_read_back(asked in asked(), count in 0usize..5) {
        let mut asked = asked;
        asked.named = false;
        let (list, mut items, mut out) = (asked.list(), Vec::new(), Vec::new());
        let values = list.as_values(asked.version);
        let statements: Vec<_> = (0..count)
            .map(|i| match i % 2 {
                0 => BatchStatement { text: BatchText::Query(&asked.text), values },
                _ => BatchStatement { text: BatchText::Prepared(b"id"), values },
            })
            .collect();
        let none = Values::none(asked.version);
        let parameters = Parameters { values: none, ..asked.parameters(&list) };
        let kind = BatchKind::Unlogged;
        let batch = Batch::new(kind, &statements, parameters, asked.version, &mut items);
        let request = Request::Batch(batch);
        let read = again(&request, asked.version, &mut out);
        prop_assert_eq!(&read, &request);
        let Request::Batch(batch) = read else { unreachable!() };
        prop_assert_eq!(batch.statements().collect::<Vec<_>>(), statements);
    }

    #[test]
    fn arbitrary_bodies_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        version in versions(),
        flags in any::<u8>(),
    ) {
        for code in 0..=0x10 {
            let Some(opcode) = Opcode::from_code(code) else { continue };
            let body_bytes = bytes.len() as u32;
            let header = Header { version, flags: Flags(flags), stream: 0, opcode, body_bytes };
            match Request::decode(&header, &bytes) {
                Ok(Request::Batch(batch)) => {
                    for statement in batch.statements() {
                        prop_assert!(statement.values.iter().count() <= bytes.len());
                    }
                }
                Ok(Request::Execute(execute)) => {
                    prop_assert!(execute.parameters.values.named_iter().count() <= bytes.len());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn plain_credentials_are_found() {
    let plain = AuthResponse { token: Some(b"\0cassandra\0secret") };
    assert_eq!(plain.plain(), Some((&b"cassandra"[..], &b"secret"[..])));
    assert_eq!(AuthResponse { token: Some(b"cassandra\0secret") }.plain(), None);
    assert_eq!(AuthResponse { token: None }.plain(), None);
}

#[test]
fn startup_says_what_is_wrong_with_it() {
    let startup = |entries: &[(&str, &str)]| {
        let mut body = Vec::new();
        crate::frame::writer::string_map(&mut body, entries.iter().copied());
        let startup = Startup::decode(Reader::new(&body)).unwrap();
        let version = startup.check_cql_version().map_err(|error| error.to_string());
        let compression = startup.compression(Version::V5).map_err(|error| error.to_string());
        (version, compression.map(|c| format!("{c:?}")))
    };
    let (version, compression) = startup(&[("COMPRESSION", "LZ4")]);
    assert_eq!(version.unwrap_err(), "Missing value CQL_VERSION in STARTUP message");
    assert_eq!(compression.unwrap(), "Lz4");
    let (version, compression) = startup(&[("CQL_VERSION", "2.9"), ("COMPRESSION", "snappy")]);
    assert!(version.unwrap_err().starts_with("CQL version 2.9 is not supported"));
    assert!(compression.unwrap_err().starts_with("Unknown compression algorithm: snappy"));
    assert!(startup(&[("CQL_VERSION", "4.0.0")]).0.is_ok());
}

#[test]
fn the_smallest_timestamp_is_refused() {
    let text = "x";
    let mut parameters = Parameters::plain(Consistency::One, Version::V4);
    parameters.timestamp_us = Some(i64::MIN);
    let mut body = Vec::new();
    Query { text, parameters }.put(Version::V4, &mut body);
    let refused = Query::decode(Reader::new(&body), Version::V4).unwrap_err().to_string();
    assert!(refused.starts_with("Out of bound timestamp, must be in ["), "{refused}");
}

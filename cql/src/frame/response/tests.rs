//! Answers read back as what was said, and rows metadata is what Cassandra sends, byte for byte.

use std::sync::Arc;

use model::types::{CqlType, UserType};
use proptest::prelude::*;

use super::*;
use crate::frame::client::{Answer, Reply};
use crate::frame::consistency::Consistency;
use crate::frame::error::ErrorCode;
use crate::frame::header::HEADER_BYTES;

const VERSIONS: [Version; 3] = [Version::V3, Version::V4, Version::V5];

/// The bytes that hex digits in a file stand for.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn read(frame: &[u8]) -> (Header, Answer<'_>) {
    let header = Header::decode(frame, Direction::Response).unwrap().unwrap();
    assert_eq!(header.frame_bytes(), frame.len());
    (header, Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap())
}

fn list(element: CqlType, frozen: bool) -> CqlType {
    CqlType::List { element: Arc::new(element), frozen }
}

fn vector(element: CqlType, dimensions: u32) -> CqlType {
    CqlType::Vector { element: Arc::new(element), dimensions }
}

/// The columns of the table that the recorded metadata describes.
fn recorded_columns() -> Vec<(&'static str, CqlType)> {
    let pt = |frozen| CqlType::Udt {
        definition: Arc::new(UserType::new(
            "fprobe",
            "pt",
            vec![("x".into(), CqlType::Int), ("y".into(), list(CqlType::Text, true))],
        )),
        frozen,
    };
    let durations = CqlType::Map {
        key: Arc::new(CqlType::Text),
        value: Arc::new(CqlType::Duration),
        frozen: true,
    };
    vec![
        ("b", CqlType::Date),
        ("c", CqlType::Time),
        ("d", CqlType::Smallint),
        ("e", CqlType::Tinyint),
        ("f", CqlType::Duration),
        ("g", vector(CqlType::Float, 3)),
        ("h", vector(list(CqlType::Int, true), 2)),
        ("i", pt(true)),
        ("j", list(pt(true), false)),
        ("k", CqlType::Tuple(Arc::new([CqlType::Int, CqlType::Text]))),
        ("l", vector(pt(true), 2)),
        ("m", list(CqlType::Duration, false)),
        ("n", vector(CqlType::Tuple(Arc::new([CqlType::Int, durations])), 2)),
        ("o", pt(false)),
    ]
}

#[test]
fn rows_metadata_is_cassandras_byte_for_byte() {
    let recorded = [
        include_str!("../../../testdata/frame/rows_metadata_v3.hex"),
        include_str!("../../../testdata/frame/rows_metadata_v4.hex"),
        include_str!("../../../testdata/frame/rows_metadata_v5.hex"),
    ];
    let types = recorded_columns();
    let specs: Vec<_> = types
        .iter()
        .map(|(name, ty)| ColumnSpec { keyspace: "fprobe", table: "t", name, ty })
        .collect();
    for (version, recorded) in VERSIONS.into_iter().zip(recorded) {
        let columns = Columns::encode(version, &specs);
        let mut out = Vec::new();
        let rows = Envelope::new(version, 1).open_rows(&columns, Description::Full, &mut out);
        rows.close(0, None, &mut out);
        assert_eq!(out[HEADER_BYTES + 4..], hex(recorded), "{version}");
        let (_, Answer { reply: Reply::Rows(rows), .. }) = read(&out) else { panic!("no rows") };
        let names: Vec<_> = rows.metadata.columns().map(|(name, _)| name).collect();
        assert_eq!(names.concat(), "bcdefghijklmno");
    }
}

#[test]
fn trace_warnings_and_payload_come_in_this_order() {
    let warnings = ["Aggregation query used without partition key".to_string()];
    let envelope = Envelope {
        trace_id: Some([7; 16]),
        warnings: &warnings,
        payload: &[("tablets-routing-v1", b"x")],
        ..Envelope::new(Version::V4, 5)
    };
    let mut out = Vec::new();
    envelope.put_void(&mut out);
    let (header, answer) = read(&out);
    assert_eq!(header.flags, Flags(0x02 | 0x04 | 0x08));
    assert_eq!(answer.trace_id, Some([7; 16]));
    assert_eq!(answer.warnings.unwrap().iter().collect::<Vec<_>>(), warnings);
    assert!(matches!(answer.reply, Reply::Void));
    assert_eq!(out[HEADER_BYTES..][..16], [7; 16]);

    let mut old = Vec::new();
    Envelope { version: Version::V3, ..envelope }.put_void(&mut old);
    assert_eq!(read(&old).0.flags, Flags::TRACING, "v3 has neither warnings nor payload");
}

#[test]
fn a_page_gets_its_state_after_its_rows() {
    let ty = CqlType::Int;
    let spec = |table| ColumnSpec { keyspace: "ks", table, name: "a", ty: &ty };
    for tables in [["t", "t"], ["t", "u"]] {
        let columns = Columns::encode(Version::V5, &tables.map(spec));
        for description in
            [Description::Full, Description::Skipped, Description::Changed(b"new id")]
        {
            let mut out = Vec::new();
            let envelope = Envelope::new(Version::V5, 1);
            let rows = envelope.open_rows(&columns, description, &mut out);
            for cell in [Some(&b"one"[..]), None, Some(b""), Some(b"four")] {
                writer::bytes(&mut out, cell);
            }
            rows.close(2, Some(b"state"), &mut out);
            let (_, Answer { reply: Reply::Rows(rows), .. }) = read(&out) else { panic!() };
            assert_eq!(rows.metadata.paging_state, Some(&b"state"[..]));
            assert_eq!((rows.row_count, rows.metadata.column_count), (2, 2));
            let cells: Vec<_> = rows.cells().map(Result::unwrap).collect();
            assert_eq!(cells, [Some(&b"one"[..]), None, Some(b""), Some(b"four")]);
            let changed = matches!(description, Description::Changed(_));
            assert_eq!(rows.metadata.new_id, changed.then_some(&b"new id"[..]));
        }
    }
}

#[test]
fn prepared_statements_read_back() {
    let (int, text) = (CqlType::Int, CqlType::Text);
    let spec = |name, ty| ColumnSpec { keyspace: "ks", table: "t", name, ty };
    for version in VERSIONS {
        let markers = Columns::encode(version, &[spec("k", &int), spec("v", &text)]);
        let result = Columns::encode(version, &[spec("v", &text)]);
        for result in [None, Some(&result)] {
            let prepared = PreparedResult {
                id: b"sixteen byte id.",
                result_metadata_id: b"another",
                markers: &markers,
                key_indexes: &[0],
                result,
                is_marked: true,
            };
            let mut out = Vec::new();
            Envelope::new(version, 1).put_prepared(&prepared, &mut out);
            let (_, Answer { reply: Reply::Prepared(read), .. }) = read(&out) else { panic!() };
            assert!(read.is_marked);
            assert_eq!(read.id, prepared.id);
            assert_eq!(read.result_metadata_id.is_some(), version == Version::V5);
            assert_eq!(read.key_indexes.len(), if version == Version::V3 { 0 } else { 2 });
            let names = |m: crate::frame::client::Metadata<'_>| {
                m.columns().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
            };
            assert_eq!(names(read.markers), ["k", "v"]);
            assert_eq!(names(read.result).len(), usize::from(result.is_some()));
        }
    }
}

#[test]
fn failures_speak_the_version_of_the_client() {
    let tally = Tally { consistency: Consistency::Quorum, received: 1, required: 2 };
    let failures = [("10.0.0.1".parse().unwrap(), 2)];
    let code = |failure: Failure<'_>, version| {
        let mut out = Vec::new();
        Envelope::new(version, 1).put_error(failure, "why", &mut out);
        let (_, Answer { reply: Reply::Error { code, text, details }, .. }) = read(&out) else {
            panic!("no error")
        };
        assert_eq!(text, "why");
        (ErrorCode::from_code(code).unwrap(), details.rest().len())
    };
    let read = Failure::ReadFailure { tally, failures: &failures, data_present: true };
    assert_eq!(code(read, Version::V3), (ErrorCode::ReadTimeout, 11));
    assert_eq!(code(read, Version::V4), (ErrorCode::ReadFailure, 15));
    assert_eq!(code(read, Version::V5), (ErrorCode::ReadFailure, 22));
    let cas = Failure::CasWriteUnknown { tally };
    assert_eq!(code(cas, Version::V4), (ErrorCode::WriteTimeout, 15));
    assert_eq!(code(cas, Version::V5), (ErrorCode::CasWriteUnknown, 10));
    let contended = Failure::WriteTimeout { tally, write_type: "CAS", contentions: 3 };
    assert_eq!(code(contended, Version::V5), (ErrorCode::WriteTimeout, 17));
    let unprepared = Failure::Unprepared { id: b"gone" };
    assert_eq!(code(unprepared, Version::V4), (ErrorCode::Unprepared, 6));
    let exists = Failure::AlreadyExists { keyspace: "ks", table: "" };
    assert_eq!(code(exists, Version::V4), (ErrorCode::AlreadyExists, 6));
}

#[test]
fn events_and_schema_changes_read_back() {
    let event = SchemaEvent {
        change: "CREATED",
        keyspace: "ks",
        target: SchemaTarget::Function("f", &["int".to_owned()]),
    };
    let mut out = Vec::new();
    Envelope::new(Version::V4, 1).put_schema_change(&event, &mut out);
    let (_, Answer { reply, .. }) = read(&out);
    let expected = ("CREATED", "FUNCTION", "ks", Some("f"));
    assert!(matches!(reply, Reply::SchemaChange(a, b, c, d) if (a, b, c, d) == expected));
    out.clear();
    Event::Schema(event).put(Version::V3, &mut out);
    let (header, Answer { reply: Reply::Event(kind, mut rest), .. }) = read(&out) else { panic!() };
    assert_eq!((header.stream, kind), (EVENT_STREAM, "SCHEMA_CHANGE"));
    let words = [rest.string().unwrap(), rest.string().unwrap(), rest.string().unwrap()];
    assert_eq!(words, ["UPDATED", "KEYSPACE", "ks"], "v3 has no functions");
}

proptest! {
    #[test]
    fn arbitrary_answers_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        flags in any::<u8>(),
        kind in 0u8..6,
    ) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_chunk_mut::<4>() {
            *first = [0, 0, 0, kind];
        }
        for (code, version) in (0..=0x10).flat_map(|c| VERSIONS.map(|v| (c, v))) {
            let Some(opcode) = Opcode::from_code(code) else { continue };
            let body_bytes = bytes.len() as u32;
            let flags = if code == 8 { Flags(0) } else { Flags(flags) };
            let header = Header { version, flags, stream: 0, opcode, body_bytes };
            match Answer::decode(&header, &bytes) {
                Ok(Answer { reply: Reply::Rows(rows), .. }) => {
                    let read = rows.cells().take(bytes.len() + 2).count();
                    prop_assert!(read <= bytes.len() + 1);
                    prop_assert!(rows.metadata.columns().count() <= bytes.len());
                }
                Ok(Answer { reply: Reply::Prepared(prepared), .. }) => {
                    prop_assert!(prepared.markers.columns().count() <= bytes.len());
                }
                _ => {}
            }
        }
    }
}

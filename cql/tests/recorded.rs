//! What real peers sent, byte for byte: every frame of a recorded conversation is understood.
//!
//! `testdata/frame/*.bin` is one direction of one connection: the Python driver 3.30 talking to
//! Apache Cassandra 5.0.9 (`python_*`), and that server answering (`cassandra_*`). Beside each lies
//! what we read in it, one line a frame. `MESSINA_BLESS=1 cargo test -p messina-cql --test
//! recorded` writes these texts again.

#![expect(clippy::unwrap_used, reason = "a failed check is what a test is for")]

use std::fmt::Write;
use std::path::Path;

use cql::frame::client::{Answer, Reply};
use cql::frame::compress::Compression;
use cql::frame::frame_reader::{Arrival, Broken, FrameReader};
use cql::frame::header::{Direction, Header, Opcode, Version};
use cql::frame::request::{BatchText, Parameters, Request};
use messina_cql as cql;

/// What both sides negotiated, which an answer's recording alone does not tell.
#[derive(Clone, Copy)]
struct Negotiated(Version, Compression);

fn check(name: &str, direction: Direction, negotiated: Option<Negotiated>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/frame");
    let bytes = std::fs::read(folder.join(format!("{name}.bin"))).unwrap();
    let text = transcript(&bytes, direction, negotiated);
    let golden = folder.join(format!("{name}.txt"));
    if std::env::var_os("MESSINA_BLESS").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap(), "{name}");
}

fn transcript(
    mut bytes: &[u8],
    direction: Direction,
    mut negotiated: Option<Negotiated>,
) -> String {
    let mut reader = FrameReader::new(direction, 16 << 20);
    let mut text = String::new();
    // A client of v3 or v4 may be answered compressed from READY on, one of v5 in segments after
    // it.
    if let Some(Negotiated(version, compression)) = negotiated
        && version < Version::V5
    {
        reader.establish(version, compression);
        negotiated = None;
    }
    loop {
        let mut established = None;
        match reader.next(bytes) {
            Ok(step) => {
                bytes = &bytes[step.used..];
                match step.arrival {
                    Arrival::Starved => break,
                    Arrival::Frame(header, body) => {
                        let line = match direction {
                            Direction::Request => request(&header, body, &mut established),
                            Direction::Response => {
                                if header.opcode == Opcode::Ready {
                                    established = negotiated.take();
                                }
                                answer(&header, body)
                            }
                        };
                        writeln!(text, "{} {:>3} {line}", header.version, header.stream).unwrap();
                    }
                    other => panic!("{other:?}"),
                }
            }
            Err(Broken::Header(bad)) => {
                writeln!(text, "refused: {}", bad.reason).unwrap();
                return text;
            }
            Err(other) => panic!("{other:?}"),
        }
        if let Some(Negotiated(version, compression)) = established {
            reader.establish(version, compression);
        }
    }
    assert!(bytes.is_empty(), "{} bytes are left", bytes.len());
    text
}

fn request(header: &Header, body: &[u8], established: &mut Option<Negotiated>) -> String {
    let version = header.version;
    match Request::decode(header, body).unwrap() {
        Request::Startup(startup) => {
            startup.check_cql_version().unwrap();
            *established = Some(Negotiated(version, startup.compression(version).unwrap()));
            format!("STARTUP {:?}", startup.options.iter().collect::<Vec<_>>())
        }
        Request::Options => "OPTIONS".into(),
        Request::Register(register) => format!("REGISTER {:?}", register.kinds),
        Request::AuthResponse(_) => "AUTH_RESPONSE".into(),
        Request::Query(query) => {
            format!("QUERY {} {}", query.text, parameters(&query.parameters))
        }
        Request::Prepare(prepare) => format!("PREPARE {} in {:?}", prepare.text, prepare.keyspace),
        Request::Execute(execute) => {
            let ids = (execute.id.len(), execute.result_metadata_id.map(<[u8]>::len));
            format!("EXECUTE ids {ids:?} {}", parameters(&execute.parameters))
        }
        Request::Batch(batch) => {
            let statements: Vec<_> = batch
                .statements()
                .map(|s| match s.text {
                    BatchText::Query(text) => text.to_string(),
                    BatchText::Prepared(_) => format!("prepared with {} values", s.values.len()),
                })
                .collect();
            format!("BATCH {:?} {statements:?} {}", batch.kind, parameters(&batch.parameters))
        }
    }
}

/// Everything but what differs between two recordings of the same program.
fn parameters(p: &Parameters<'_>) -> String {
    let values: Vec<_> = p.values.named_iter().collect();
    format!(
        "[{} values {values:?} skip {} page {:?} state {} serial {:?} timestamp {} keyspace {:?} now {:?}]",
        p.consistency.name(),
        p.skip_metadata,
        p.page_rows,
        p.paging_state.is_some(),
        p.serial_consistency.map(|level| level.name()),
        p.timestamp_us.is_some(),
        p.keyspace,
        p.now_s,
    )
}

fn answer(header: &Header, body: &[u8]) -> String {
    let answer = Answer::decode(header, body).unwrap();
    let around = format!(
        "trace {} warnings {:?}",
        answer.trace_id.is_some(),
        answer.warnings.map(|w| w.iter().collect::<Vec<_>>())
    );
    let reply = match answer.reply {
        Reply::Rows(rows) => {
            let columns: Vec<_> = rows.metadata.columns().map(|(name, _)| name).collect();
            let cells: Result<Vec<_>, _> = rows.cells().collect();
            let bytes: usize = cells.unwrap().into_iter().flatten().map(<[u8]>::len).sum();
            let more = rows.metadata.paging_state.is_some();
            let table = rows.metadata.table;
            format!("ROWS {} of {table:?} {columns:?}, {bytes} bytes, more {more}", rows.row_count)
        }
        Reply::Prepared(p) => {
            let names = |m: cql::frame::client::Metadata<'_>| {
                m.columns().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
            };
            let (markers, result) = (names(p.markers), names(p.result));
            format!("PREPARED {markers:?} key {:?} result {result:?}", p.key_indexes)
        }
        Reply::Supported(options) => {
            let keys: Vec<_> = options.iter().map(|(k, v)| (k, v.iter().collect())).collect();
            let keys: Vec<(&str, Vec<&str>)> = keys;
            format!("SUPPORTED {keys:?}")
        }
        Reply::Error { code, text, .. } => format!("ERROR {code:#06x} {text}"),
        other => format!("{other:?}"),
    };
    format!("{reply} {around}")
}

#[test]
fn a_probe_of_an_unknown_version_is_refused() {
    check("python_v66_probe", Direction::Request, None);
}

#[test]
fn requests_of_the_python_driver() {
    check("python_v5_control", Direction::Request, None);
    check("python_v5_session", Direction::Request, None);
    check("python_v5_lz4_session", Direction::Request, None);
    check("python_v4_lz4_session", Direction::Request, None);
    check("python_v3_snappy_session", Direction::Request, None);
}

#[test]
fn answers_of_cassandra() {
    use Compression::{Lz4, Snappy};
    for (name, version, compression) in [
        ("cassandra_v5_lz4_session", Version::V5, Lz4),
        ("cassandra_v4_lz4_session", Version::V4, Lz4),
        ("cassandra_v3_snappy_session", Version::V3, Snappy),
    ] {
        check(name, Direction::Response, Some(Negotiated(version, compression)));
    }
}

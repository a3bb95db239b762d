//! What a request that asked for tracing went through, as rows of `system_traces`.
//!
//! A trace is collected while its request runs and written as ordinary mutations afterwards, so
//! drivers find it the way they look for it: the session's `duration` is set when all is there.
//!
//! 1. `begin` takes the id, which the answer's frame carries, and the start.
//! 2. `of`, `bound`, `event`, `sources` and `given` collect texts in memory while the request runs. Nothing is written.
//! 3. After the answer is made, `record` makes one record: a row of `sessions`, and a row of `events` for each event.
//!    All rows expire after a day. Both tables have the session id as partition key, so one shard owns the record, and
//!    a reader that sees the session sees all events.
//!
//! Tables, columns and names of parameters are Cassandra's (`TraceKeyspace`), since drivers read them. A trace that
//! cannot be written is lost with a warning in the log: the request has its answer already.
//!
//! Invariant: what a trace keeps, and what it computes for the values of a request, does not grow with the request:
//! texts are cut, and so are the number of values and the bytes of them that are looked at.
//!
//! Not here: when a trace is begun and written (`execute.rs`), the numbers of a read (`read.rs`).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use cql::bind::{Ids as _, Marker};
use cql::frame::Value;
use cql::frame::consistency::Consistency;
use cql::frame::request::{Parameters, Values};
use cql::literal::value_literal;
use engine::ReadSources;
use model::CqlType;
use model::cell::{Deletion, Expiry, Life};
use model::row::RowHead;
use model::schema::Schema;
use uuid::Uuid;

use crate::ids::Ids;
use crate::limits::{
    TRACED_BYTES_MAX, TRACED_LITERAL_CHARS_MAX, TRACED_NAME_BYTES_MAX, TRACED_TEXT_BYTES_MAX,
    TRACED_VALUE_BYTES_MAX, TRACED_VALUES_MAX,
};
use crate::system::{Row, Value as Cell, put_row};

/// How long traces are kept, in seconds: as Cassandra's `trace_type_query_ttl`.
const TTL_S: u32 = 86_400;

/// One traced request.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) id: [u8; 16],
    client: IpAddr,
    coordinator: IpAddr,
    request: &'static str,
    parameters: std::collections::BTreeMap<String, String>,
    started_us: i64,
    events: RefCell<Vec<(u32, String)>>,
    thread: String,
}

impl Trace {
    /// A trace that begins now.
    pub(super) fn begin(ids: &Ids, client: IpAddr, node: IpAddr, shard: usize) -> Trace {
        Trace {
            id: ids.timeuuid(),
            client,
            coordinator: node,
            request: "Execute CQL3 query",
            parameters: Default::default(),
            started_us: ids.now_us(),
            events: RefCell::default(),
            thread: format!("shard {shard}"),
        }
    }

    /// What kind of request it is, its text, and how it is to be run.
    pub(super) fn of(
        &mut self,
        request: &'static str,
        query: Option<&str>,
        parameters: Option<&Parameters<'_>>,
    ) {
        self.request = request;
        let mut put = |name: &str, value: String| self.parameters.insert(name.to_owned(), value);
        if let Some(query) = query {
            put("query", cut(query));
        }
        let Some(parameters) = parameters else { return };
        put("consistency_level", parameters.consistency.name().to_owned());
        let serial = parameters.serial_consistency.unwrap_or(Consistency::Serial);
        put("serial_consistency_level", serial.name().to_owned());
        if let Some(rows) = parameters.page_rows {
            put("page_size", rows.to_string());
        }
    }

    /// The text of the statement that was parsed.
    pub(super) fn parsed(&self, now_us: i64, text: &str) {
        self.event(now_us, format!("Parsed and prepared {}", cut(text)));
    }

    /// The values bound to the markers of a prepared statement, as literals.
    pub(super) fn bound(&mut self, values: &Values<'_>, markers: &[Marker]) {
        let shown = &markers[..markers.len().min(TRACED_VALUES_MAX)];
        let mut named = HashMap::new();
        if values.is_named() {
            let wanted: HashSet<&str> = shown.iter().map(|marker| &*marker.name).collect();
            for (name, value) in values.named_iter().filter(|(name, _)| wanted.contains(name)) {
                named.entry(name).or_insert(value);
                if named.len() == wanted.len() {
                    break;
                }
            }
        }
        let mut bytes_left = TRACED_BYTES_MAX;
        for (index, (marker, value)) in shown.iter().zip(values.iter()).enumerate() {
            let value = match values.is_named() {
                true => named.get(marker.name.as_str()).copied(),
                false => Some(value),
            };
            let literal = match value {
                Some(Value::Bytes(bytes)) => bound_literal(&marker.ty, bytes, &mut bytes_left),
                Some(Value::Null) => "null".to_owned(),
                Some(Value::Unset) | None => "unset".to_owned(),
            };
            let name = &marker.name[..marker.name.floor_char_boundary(TRACED_NAME_BYTES_MAX)];
            self.parameters.insert(format!("bound_var_{index}_{name}"), literal);
        }
        let left = markers.len() - shown.len();
        if left > 0 {
            self.parameters.insert("bound_vars_not_shown".to_owned(), left.to_string());
        }
    }

    /// Something that happened `now_us`.
    pub(super) fn event(&self, now_us: i64, activity: impl Into<String>) {
        let elapsed = u32::try_from(now_us - self.started_us).unwrap_or_default();
        self.events.borrow_mut().push((elapsed, activity.into()));
    }

    /// What a shard has of what is going to be read.
    pub(super) fn sources(&self, now_us: i64, shard: usize, sources: &ReadSources) {
        let ReadSources { memtables, sstables, outside_bounds, outside_filter, .. } = *sources;
        let skipped = outside_bounds + outside_filter;
        self.event(
            now_us,
            format!(
                "Shard {shard}: merging data from {memtables} memtables and {sstables} sstables; skipped {skipped} sstables, {outside_filter} of them by their Bloom filters"
            ),
        );
    }

    /// What a read has given and passed, and the blocks of sstables that it took from the disk and from caches.
    pub(super) fn given(
        &self,
        now_us: i64,
        (rows, tombstones): (u64, u64),
        (blocks, cached_blocks): (u64, u64),
    ) {
        let read = format!("Read {rows} live rows and {tombstones} tombstone cells");
        self.event(now_us, read);
        let taken = format!("Read {blocks} blocks from disk and {cached_blocks} from the cache");
        self.event(now_us, taken);
    }

    /// The record of mutations that writes the whole trace.
    pub(super) fn record(&self, schema: &Schema, ids: &Ids, now_us: i64) -> Vec<u8> {
        let mut record = Vec::new();
        let tables = ("system_traces", "sessions", "events");
        let (Some(sessions), Some(events)) =
            (schema.table(tables.0, tables.1), schema.table(tables.0, tables.2))
        else {
            return record;
        };
        let at_s = u32::try_from(now_us / 1_000_000).unwrap_or(u32::MAX).saturating_add(TTL_S);
        let head = RowHead {
            timestamp: now_us,
            marker: Some(Life::Expiring(Expiry { ttl_s: TTL_S, at_s })),
            deletion: Deletion::NONE,
        };
        put_row(sessions, &self.session(now_us), &head, &mut record);
        for (elapsed, activity) in self.events.borrow().iter() {
            let event: Row = vec![
                ("session_id", Cell::Uuid(Uuid::from_bytes(self.id))),
                ("event_id", Cell::Uuid(Uuid::from_bytes(ids.timeuuid()))),
                ("activity", Cell::text(activity)),
                ("source", Cell::Inet(self.coordinator)),
                ("source_port", Cell::Int(7000)),
                ("source_elapsed", Cell::Int(i32::try_from(*elapsed).unwrap_or(i32::MAX))),
                ("thread", Cell::text(&self.thread)),
            ];
            put_row(events, &event, &head, &mut record);
        }
        record
    }

    fn session(&self, now_us: i64) -> Row {
        let duration = i32::try_from(now_us - self.started_us).unwrap_or(i32::MAX).max(1);
        vec![
            ("session_id", Cell::Uuid(Uuid::from_bytes(self.id))),
            ("client", Cell::Inet(self.client)),
            ("command", Cell::text("QUERY")),
            ("coordinator", Cell::Inet(self.coordinator)),
            ("coordinator_port", Cell::Int(7000)),
            ("duration", Cell::Int(duration)),
            ("parameters", Cell::Map(self.parameters.clone())),
            ("request", Cell::text(self.request)),
            ("started_at", Cell::Timestamp(self.started_us / 1000)),
        ]
    }
}

/// A bound value as a literal of at most [`TRACED_LITERAL_CHARS_MAX`] characters; the number of its bytes if making it
/// would take too many of them. What it takes goes from `bytes_left`.
fn bound_literal(ty: &CqlType, bytes: &[u8], bytes_left: &mut usize) -> String {
    let looked_at = beginning(ty, bytes);
    match looked_at.and_then(|of| Some((of, bytes_left.checked_sub(of.len())?))) {
        None => format!("({} bytes)", bytes.len()),
        Some((of, left)) => {
            *bytes_left = left;
            let mut literal = value_literal(ty, Some(of));
            if let Some((cut, _)) = literal.char_indices().nth(TRACED_LITERAL_CHARS_MAX) {
                literal.truncate(cut);
                literal.push_str("...'");
            }
            literal
        }
    }
}

/// The bytes of a value that its literal is made of: all, or the beginning of a text or blob; `None` of any other
/// long value.
fn beginning<'v>(ty: &CqlType, bytes: &'v [u8]) -> Option<&'v [u8]> {
    if bytes.len() <= TRACED_VALUE_BYTES_MAX {
        return Some(bytes);
    }
    let of = &bytes[..TRACED_VALUE_BYTES_MAX];
    match ty {
        CqlType::Blob => Some(of),
        // A character is not cut.
        CqlType::Ascii | CqlType::Text => match std::str::from_utf8(of) {
            Err(error) if error.error_len().is_none() => Some(&of[..error.valid_up_to()]),
            _ => Some(of),
        },
        _ => None,
    }
}

/// The beginning of a statement's text.
fn cut(text: &str) -> String {
    match text.floor_char_boundary(TRACED_TEXT_BYTES_MAX) {
        end if end < text.len() => format!("{}...", &text[..end]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::rc::Rc;

    use cql::frame::Version;
    use cql::frame::request::ValueList;
    use shard::clock::Clock;

    use super::*;

    fn trace() -> Trace {
        let (ids, address) = (Ids::new(Rc::new(Clock::new())), IpAddr::V4(Ipv4Addr::LOCALHOST));
        Trace::begin(&ids, address, address, 0)
    }

    /// What a trace keeps of a statement with so many markers, each bound to this value.
    fn bound(ty: &CqlType, value: &[u8], count: usize, named: bool) -> Trace {
        let (mut trace, mut list) = (trace(), ValueList::new());
        let text = || "t".to_owned();
        let markers: Vec<Marker> = (0..count)
            .map(|n| Marker {
                keyspace: text(),
                table: text(),
                name: format!("m{n}"),
                ty: ty.clone(),
            })
            .collect();
        for Marker { name, .. } in &markers {
            match named {
                true => list.push_named(name, Value::Bytes(value)),
                false => list.push(Value::Bytes(value)),
            }
        }
        trace.bound(&list.as_values(Version::V4), &markers);
        trace
    }

    #[test]
    fn long_values_are_cut_and_others_are_told_by_their_length() {
        let shown =
            |ty: &CqlType, value: &[u8]| bound_literal(ty, value, &mut { TRACED_BYTES_MAX });
        let text = |length: usize| shown(&CqlType::Text, &vec![b'x'; length]);
        assert_eq!(text(3), "'xxx'");
        let cut = format!("'{}...'", "x".repeat(TRACED_LITERAL_CHARS_MAX - 1));
        assert_eq!([text(5000), text(1 << 20)], [&*cut, &*cut]);
        // One whose character is cut by the last byte that is looked at.
        let wide = shown(&CqlType::Text, format!("x{}", "é".repeat(3000)).as_bytes());
        assert!(wide.starts_with("'xéé"), "{wide}");
        let blob = shown(&CqlType::Blob, &vec![0xAB; 1 << 20]);
        assert!(blob.starts_with("0xabab") && blob.len() < 1100, "{blob}");
        let varint = |length: usize| shown(&CqlType::Varint, &vec![1; length]);
        assert!(varint(TRACED_VALUE_BYTES_MAX).len() > TRACED_LITERAL_CHARS_MAX);
        assert_eq!(varint(TRACED_VALUE_BYTES_MAX + 1), "(4097 bytes)");
    }

    /// Before: literals of all values were made, of up to 64 KiB each: 255 lists took 0.4 s, and 65,535 values 65 MB.
    #[test]
    fn a_trace_of_many_values_shows_some_and_computes_for_a_few() {
        for named in [false, true] {
            let kept = bound(&CqlType::Int, &[0, 0, 0, 7], 5000, named).parameters;
            assert_eq!(kept.len(), TRACED_VALUES_MAX + 1);
            assert_eq!((&*kept["bound_var_99_m99"], &*kept["bound_vars_not_shown"]), ("7", "4900"));
        }
        let varints = bound(&CqlType::Varint, &[1; TRACED_VALUE_BYTES_MAX], 50, false).parameters;
        let told = varints.values().filter(|literal| **literal == "(4096 bytes)").count();
        assert_eq!(50 - told, TRACED_BYTES_MAX / TRACED_VALUE_BYTES_MAX, "and no more literals");
    }

    /// Before: the text of a statement was kept twice, of up to 16 MiB.
    #[test]
    fn a_trace_keeps_the_beginning_of_a_long_text() {
        let text = format!("SELECT '{}'", "é".repeat(1 << 20));
        let mut trace = trace();
        trace.of("Execute CQL3 query", Some(&text), None);
        trace.parsed(trace.started_us, &text);
        let kept = [&trace.parameters["query"], &trace.events.borrow()[0].1];
        assert!(kept.iter().all(|kept| kept.len() < 5000 && kept.ends_with("é...")));
    }
}

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
//! Not here: when a trace is begun and written (`execute.rs`), the numbers of a read (`read.rs`).

use std::cell::RefCell;
use std::collections::HashMap;
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
use crate::system::{Row, Value as Cell, put_row};

/// How long traces are kept, in seconds: as Cassandra's `trace_type_query_ttl`.
const TTL_S: u32 = 86_400;

/// Characters of a bound value that a trace keeps, as in Cassandra.
const BOUND_VALUE_CHARS_MAX: usize = 1000;
/// Of a value of more bytes a trace tells their number alone: its literal would be made whole before it is cut.
const BOUND_VALUE_BYTES_MAX: usize = 64 << 10;

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
            put("query", query.to_owned());
        }
        let Some(parameters) = parameters else { return };
        put("consistency_level", parameters.consistency.name().to_owned());
        let serial = parameters.serial_consistency.unwrap_or(Consistency::Serial);
        put("serial_consistency_level", serial.name().to_owned());
        if let Some(rows) = parameters.page_rows {
            put("page_size", rows.to_string());
        }
    }

    /// The values bound to the markers of a prepared statement, as literals.
    pub(super) fn bound(&mut self, values: &Values<'_>, markers: &[Marker]) {
        let mut named = HashMap::new();
        for (name, value) in values.named_iter() {
            named.entry(name).or_insert(value);
        }
        for (index, (marker, value)) in markers.iter().zip(values.iter()).enumerate() {
            let value = match values.is_named() {
                true => named.get(marker.name.as_str()).copied(),
                false => Some(value),
            };
            let literal = match value {
                Some(Value::Bytes(bytes)) => bound_literal(&marker.ty, bytes),
                Some(Value::Null) => "null".to_owned(),
                Some(Value::Unset) | None => "unset".to_owned(),
            };
            self.parameters.insert(format!("bound_var_{index}_{}", marker.name), literal);
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

/// A bound value as a literal of at most [`BOUND_VALUE_CHARS_MAX`] characters.
fn bound_literal(ty: &CqlType, bytes: &[u8]) -> String {
    if bytes.len() > BOUND_VALUE_BYTES_MAX {
        return format!("({} bytes)", bytes.len());
    }
    let mut literal = value_literal(ty, Some(bytes));
    if let Some((cut, _)) = literal.char_indices().nth(BOUND_VALUE_CHARS_MAX) {
        literal.truncate(cut);
        literal.push_str("...'");
    }
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_longer_ones_are_told_by_their_length() {
        let shown = |length: usize| bound_literal(&CqlType::Text, &vec![b'x'; length]);
        assert_eq!(shown(3), "'xxx'");
        assert_eq!(shown(5000), format!("'{}...'", "x".repeat(BOUND_VALUE_CHARS_MAX - 1)));
        assert_eq!(shown(BOUND_VALUE_BYTES_MAX + 1), "(65537 bytes)");
    }
}

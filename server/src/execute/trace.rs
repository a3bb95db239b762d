//! What a request that asked for tracing went through, as rows of `system_traces`.
//!
//! A trace is collected while its request runs and written as ordinary mutations afterwards, so
//! drivers find it the way they look for it: the session's `duration` is set when all is there.

use crate::ids::Ids;
use crate::system::{Row, Value, put_row};
use cql::bind::Ids as _;
use model::cell::{Deletion, Expiry, Life};
use model::row::RowHead;
use model::schema::Schema;
use std::net::IpAddr;
use uuid::Uuid;

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
    events: Vec<(u32, String)>,
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
            events: Vec::new(),
            thread: format!("shard {shard}"),
        }
    }

    /// What kind of request it is, and its text.
    pub(super) fn of(&mut self, request: &'static str, query: &str) {
        self.request = request;
        self.parameters.insert("query".to_owned(), query.to_owned());
    }

    /// Something that happened `now_us`.
    pub(super) fn event(&mut self, now_us: i64, activity: impl Into<String>) {
        let elapsed = u32::try_from(now_us - self.started_us).unwrap_or_default();
        self.events.push((elapsed, activity.into()));
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
        for (elapsed, activity) in &self.events {
            let event: Row = vec![
                ("session_id", Value::Uuid(Uuid::from_bytes(self.id))),
                ("event_id", Value::Uuid(Uuid::from_bytes(ids.timeuuid()))),
                ("activity", Value::text(activity)),
                ("source", Value::Inet(self.coordinator)),
                ("source_port", Value::Int(7000)),
                ("source_elapsed", Value::Int(i32::try_from(*elapsed).unwrap_or(i32::MAX))),
                ("thread", Value::text(&self.thread)),
            ];
            put_row(events, &event, &head, &mut record);
        }
        record
    }

    fn session(&self, now_us: i64) -> Row {
        let duration = i32::try_from(now_us - self.started_us).unwrap_or(i32::MAX).max(1);
        vec![
            ("session_id", Value::Uuid(Uuid::from_bytes(self.id))),
            ("client", Value::Inet(self.client)),
            ("command", Value::text("QUERY")),
            ("coordinator", Value::Inet(self.coordinator)),
            ("coordinator_port", Value::Int(7000)),
            ("duration", Value::Int(duration)),
            ("parameters", Value::Map(self.parameters.clone())),
            ("request", Value::text(self.request)),
            ("started_at", Value::Timestamp(self.started_us / 1000)),
        ]
    }
}

//! This node as `system.local` tells it, and what else is said once for the whole process.
//!
//! One node: `system.peers` and `system.peers_v2` are empty. The tokens are evenly spaced; COPY and
//! Spark split their scans by them, so there are more than one.

use std::net::IpAddr;

use model::Token;
use model::schema::Schema;
use uuid::Uuid;

use super::value::{Row, Value};

/// The version of Cassandra whose schema tables and semantics drivers may expect.
pub(crate) const RELEASE_VERSION: &str = "5.0.0";
/// The version of CQL.
pub(crate) const CQL_VERSION: &str = "3.4.7";
/// The partitioner's class.
pub(crate) const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// How many tokens the node says it has.
const TOKENS: u64 = 16;

/// What does not change while the process runs.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) host_id: Uuid,
    pub(crate) cluster_name: String,
    pub(crate) data_center: String,
    pub(crate) rack: String,
    /// What clients may connect to: never 0.0.0.0.
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    /// Seconds since 1970.
    pub(crate) started_s: i32,
}

impl Node {
    /// Evenly spaced over the ring.
    pub(crate) fn tokens() -> impl Iterator<Item = Token> {
        let step = u64::MAX / TOKENS;
        (0..TOKENS).map(move |i| Token(((i * step + step / 2) ^ (1 << 63)) as i64))
    }

    /// The row of `system.local`.
    pub(crate) fn local(&self, schema: &Schema) -> Row {
        let tokens = Node::tokens().map(|token| token.0.to_string()).collect();
        vec![
            ("key", Value::text("local")),
            ("bootstrapped", Value::text("COMPLETED")),
            ("broadcast_address", Value::Inet(self.address)),
            ("broadcast_port", Value::Int(7000)),
            ("cluster_name", Value::text(&self.cluster_name)),
            ("cql_version", Value::text(CQL_VERSION)),
            ("data_center", Value::text(&self.data_center)),
            ("gossip_generation", Value::Int(self.started_s)),
            ("host_id", Value::Uuid(self.host_id)),
            ("listen_address", Value::Inet(self.address)),
            ("listen_port", Value::Int(7000)),
            ("native_protocol_version", Value::text("5")),
            ("partitioner", Value::text(PARTITIONER)),
            ("rack", Value::text(&self.rack)),
            ("release_version", Value::text(RELEASE_VERSION)),
            ("rpc_address", Value::Inet(self.address)),
            ("rpc_port", Value::Int(self.port.into())),
            ("schema_version", Value::Uuid(schema.version)),
            ("tokens", Value::Set(tokens)),
        ]
    }

    /// The row of `system.versions`.
    pub(crate) fn versions() -> Row {
        vec![
            ("key", Value::text("local")),
            ("build_id", Value::text(concat!("messina-", env!("CARGO_PKG_VERSION")))),
            ("build_mode", Value::text(if cfg!(debug_assertions) { "debug" } else { "release" })),
            ("version", Value::text(env!("CARGO_PKG_VERSION"))),
        ]
    }
}

//! The messages that begin a connection: STARTUP, and OPTIONS with its answer SUPPORTED.
//!
//! SUPPORTED carries both what Cassandra's drivers look for (versions, compression) and ScyllaDB's
//! sharding keys, by which shard-aware drivers open a connection to every core and send each
//! request to the one that owns its token. A key stands here only if what it promises is kept.

use cql::frame::error::Malformed;
use cql::frame::request::Startup;
use cql::frame::response::Envelope;
use cql::frame::response::metadata::LWT_MARK;
use cql::frame::{Header, Version};

use crate::session::{Session, Stage};
use crate::system::{CQL_VERSION, PARTITIONER};

/// ScyllaDB's extension by which a client learns which prepared statements are conditional writes: a key of SUPPORTED,
/// and of the STARTUP of a client that wants it.
const LWT_MARK_OPTION: &str = "SCYLLA_LWT_ADD_METADATA_MARK";

/// Whether a client wants conditional writes to be marked when they are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LwtMarks {
    Wanted,
    Unknown,
}

impl LwtMarks {
    /// As the STARTUP of a session has said.
    pub(super) fn of(session: &Session) -> LwtMarks {
        match session.options.borrow().contains_key(LWT_MARK_OPTION) {
            true => LwtMarks::Wanted,
            false => LwtMarks::Unknown,
        }
    }
}

/// The options of this core's SUPPORTED, each with its values.
#[derive(Clone, Debug)]
pub(super) struct SupportedOptions {
    entries: Vec<(&'static str, Vec<String>)>,
}

impl SupportedOptions {
    /// What core `shard` of `shards`, whose shard-aware port is `shard_aware_port` if it is open, answers.
    pub(super) fn new(
        shard: usize,
        shards: usize,
        shard_aware_port: Option<u16>,
        host_id: uuid::Uuid,
    ) -> SupportedOptions {
        let one = |text: &str| vec![text.to_owned()];
        let mut entries = vec![
            ("COMPRESSION", vec!["lz4".to_owned(), "snappy".to_owned()]),
            ("CQL_VERSION", one(CQL_VERSION)),
            ("PROTOCOL_VERSIONS", Version::NAMES.map(str::to_owned).to_vec()),
            ("MESSINA_VERSION", one(env!("CARGO_PKG_VERSION"))),
            ("SCYLLA_HOST_ID", one(&host_id.to_string())),
            (LWT_MARK_OPTION, one(&format!("LWT_OPTIMIZATION_META_BIT_MASK={}", LWT_MARK as u32))),
            ("SCYLLA_NR_SHARDS", one(&shards.to_string())),
            ("SCYLLA_PARTITIONER", one(PARTITIONER)),
            ("SCYLLA_SHARD", one(&shard.to_string())),
            ("SCYLLA_SHARDING_ALGORITHM", one("biased-token-round-robin")),
            ("SCYLLA_SHARDING_IGNORE_MSB", one("0")),
        ];
        if let Some(port) = shard_aware_port {
            entries.push(("SCYLLA_SHARD_AWARE_PORT", one(&port.to_string())));
        }
        SupportedOptions { entries }
    }

    /// Appends SUPPORTED with these options.
    pub(super) fn put(&self, header: &Header, out: &mut Vec<u8>) {
        let lists: Vec<Vec<&str>> = self
            .entries
            .iter()
            .map(|(_, values)| values.iter().map(String::as_str).collect())
            .collect();
        let keys = self.entries.iter().map(|(key, _)| *key);
        let options: Vec<(&str, &[&str])> = keys.zip(lists.iter().map(Vec::as_slice)).collect();
        Envelope::new(header.version, header.stream).put_supported(&options, out);
    }
}

/// Begins the session, or says what is wrong with its options.
pub(super) fn startup(
    session: &Session,
    header: &Header,
    startup: &Startup<'_>,
) -> Result<(), Malformed> {
    startup.check_cql_version()?;
    startup.compression(header.version)?;
    let options = startup.options.iter();
    *session.options.borrow_mut() =
        options.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    session.version.set(header.version);
    session.stage.set(Stage::Ready);
    Ok(())
}

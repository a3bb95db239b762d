//! The messages that begin a connection: STARTUP, and OPTIONS with its answer SUPPORTED.
//!
//! SUPPORTED carries both what Cassandra's drivers look for (versions, compression) and ScyllaDB's
//! sharding keys, by which shard-aware drivers open a connection to every core and send each
//! request to the one that owns its token. A key stands here only if what it promises is kept.

use std::sync::Arc;

use cql::frame::error::Malformed;
use cql::frame::request::Startup;
use cql::frame::response::Envelope;
use cql::frame::response::metadata::LWT_MARK;
use cql::frame::{Header, Version};

use crate::limits::OPTION_BYTES_MAX;
use crate::session::{Session, Stage};
use crate::system::{CQL_VERSION, PARTITIONER};

/// ScyllaDB's extension by which a client learns which prepared statements are conditional writes: a key of SUPPORTED,
/// and of the STARTUP of a client that wants it.
const LWT_MARK_OPTION: &str = "SCYLLA_LWT_ADD_METADATA_MARK";

/// The options of STARTUP that are kept, for `system_views.clients` above all: those of the protocol, and what drivers
/// say of themselves. A client may send others, of any length.
const OPTIONS_KEPT: [&str; 10] = [
    "APPLICATION_NAME",
    "APPLICATION_VERSION",
    "CLIENT_ID",
    "COMPRESSION",
    "CQL_VERSION",
    "DRIVER_NAME",
    "DRIVER_VERSION",
    "NO_COMPACT",
    "THROW_ON_OVERLOAD",
    LWT_MARK_OPTION,
];

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
    let kept = OPTIONS_KEPT.iter().filter_map(|name| {
        let value = startup.options.get(name)?;
        Some((*name, value[..value.floor_char_boundary(OPTION_BYTES_MAX)].to_owned()))
    });
    session.options.replace(Arc::new(kept.collect()));
    session.version.set(header.version);
    session.stage.set(Stage::Ready);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use cql::frame::header::{Flags, Opcode};
    use cql::frame::{Reader, writer};

    use super::*;
    use crate::session::ConnectionId;

    /// Before: a connection kept 64 KiB of what its client sent, for its life, and each read of `clients` copied it.
    #[test]
    fn of_the_options_of_startup_those_that_are_known_are_kept_and_cut() {
        let long = "ä".repeat(10_000);
        let sent = [
            ("CQL_VERSION", "3.0.0"),
            ("DRIVER_NAME", &long),
            ("SCYLLA_LWT_ADD_METADATA_MARK", ""),
            ("SOMETHING_ELSE", &long),
        ];
        let mut options = Vec::new();
        writer::string_map(&mut options, sent.into_iter());
        let message = Startup::decode(Reader::new(&options)).unwrap();
        let id = ConnectionId { slot: 0, generation: 0 };
        let session = Session::new(id, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let header = Header {
            version: Version::V4,
            flags: Flags(0),
            stream: 0,
            opcode: Opcode::Startup,
            body_bytes: options.len() as u32,
        };
        startup(&session, &header, &message).unwrap();
        let kept = session.options.borrow();
        let kept: Vec<(&str, usize)> =
            kept.iter().map(|(name, value)| (*name, value.len())).collect();
        let expected =
            [("CQL_VERSION", 5), ("DRIVER_NAME", OPTION_BYTES_MAX), (LWT_MARK_OPTION, 0)];
        assert_eq!(kept, expected);
        assert_eq!(LwtMarks::of(&session), LwtMarks::Wanted);
    }
}

//! The requests about the session itself: STARTUP, REGISTER, AUTH_RESPONSE. (OPTIONS has no body.)
//!
//! ```text
//! STARTUP         [string map] options       CQL_VERSION must be there; COMPRESSION is lz4, or snappy before v5
//! REGISTER        [string list] kinds        TOPOLOGY_CHANGE, STATUS_CHANGE, SCHEMA_CHANGE
//! AUTH_RESPONSE   [bytes] token              of SASL
//! ```
//!
//! Here a message is read, and its own values are checked. Whether it may come now, and what it begins, is for the
//! session to say (`server/src/execute/handshake.rs`).
//!
//! Not here: the answers READY and SUPPORTED (`response/session.rs`), events as they are sent (`response/event.rs`).

use super::super::compress::Compression;
use super::super::error::{Malformed, Result};
use super::super::header::Version;
use super::super::reader::{Reader, StringMap};
use super::super::writer;
use crate::limits::STARTUP_OPTIONS_MAX;

/// A STARTUP request. Unknown keys are kept: `system.clients` shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Startup<'a> {
    /// Everything the client told.
    pub options: StringMap<'a>,
}

impl<'a> Startup<'a> {
    /// Reads the message.
    pub fn decode(mut reader: Reader<'a>) -> Result<Startup<'a>> {
        let options = reader.string_map()?;
        if options.len() > STARTUP_OPTIONS_MAX {
            return Err(Malformed::because(format!(
                "{} options in STARTUP message, at most {STARTUP_OPTIONS_MAX} are taken",
                options.len()
            )));
        }
        Ok(Startup { options })
    }

    /// Checks `CQL_VERSION`: any 3.0.0 or later will do, drivers send 3.0.0, 3.4.x and 4.0.0.
    pub fn check_cql_version(&self) -> Result<()> {
        let Some(version) = self.options.get("CQL_VERSION") else {
            return Err(Malformed::with("Missing value CQL_VERSION in STARTUP message"));
        };
        match version.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
            Some(3..) => Ok(()),
            _ => Err(Malformed::because(format!(
                "CQL version {version} is not supported by the binary protocol (supported version are >= 3.0.0)"
            ))),
        }
    }

    /// The compression the client chose; names are taken in any case.
    pub fn compression(&self, version: Version) -> Result<Compression> {
        let Some(name) = self.options.get("COMPRESSION") else { return Ok(Compression::None) };
        let chosen = if name.is_empty() || name.eq_ignore_ascii_case("none") {
            Some(Compression::None)
        } else if name.eq_ignore_ascii_case("lz4") {
            Some(Compression::Lz4)
        } else if name.eq_ignore_ascii_case("snappy") && version < Version::V5 {
            Some(Compression::Snappy)
        } else {
            None
        };
        chosen.ok_or_else(|| {
            Malformed::because(format!(
                "Unknown compression algorithm: {name} (protocol {version} has {})",
                if version < Version::V5 { "lz4 and snappy" } else { "lz4" }
            ))
        })
    }

    /// Appends the message.
    pub fn put(&self, out: &mut Vec<u8>) {
        let entries: Vec<_> = self.options.iter().collect();
        writer::string_map(out, entries.into_iter());
    }
}

/// The kinds of events that a client registers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventKinds {
    /// Nodes come and go.
    pub topology: bool,
    /// Nodes go up and down.
    pub status: bool,
    /// The schema changes.
    pub schema: bool,
}

impl EventKinds {
    /// These kinds and those.
    pub fn and(self, other: EventKinds) -> EventKinds {
        EventKinds {
            topology: self.topology || other.topology,
            status: self.status || other.status,
            schema: self.schema || other.schema,
        }
    }
}

/// A REGISTER request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Register {
    /// The kinds of events that the client registers for.
    pub kinds: EventKinds,
}

impl Register {
    /// Reads the message.
    pub fn decode(mut reader: Reader<'_>) -> Result<Register> {
        let mut kinds = EventKinds::default();
        for name in reader.string_list()?.iter() {
            match name {
                "TOPOLOGY_CHANGE" => kinds.topology = true,
                "STATUS_CHANGE" => kinds.status = true,
                "SCHEMA_CHANGE" => kinds.schema = true,
                other => {
                    return Err(Malformed::because(format!("Invalid event type '{other}'")));
                }
            }
        }
        Ok(Register { kinds })
    }

    /// Appends the message.
    pub fn put(&self, out: &mut Vec<u8>) {
        let mut names = Vec::with_capacity(3);
        if self.kinds.topology {
            names.push("TOPOLOGY_CHANGE");
        }
        if self.kinds.status {
            names.push("STATUS_CHANGE");
        }
        if self.kinds.schema {
            names.push("SCHEMA_CHANGE");
        }
        writer::string_list(out, names.into_iter());
    }
}

/// An AUTH_RESPONSE request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthResponse<'a> {
    /// The SASL token.
    pub token: Option<&'a [u8]>,
}

impl<'a> AuthResponse<'a> {
    /// Reads the message.
    pub fn decode(mut reader: Reader<'a>) -> Result<AuthResponse<'a>> {
        Ok(AuthResponse { token: reader.bytes()? })
    }

    /// The user name and password of SASL PLAIN: `authzid NUL user NUL password`.
    pub fn plain(&self) -> Option<(&'a [u8], &'a [u8])> {
        let mut parts = self.token?.split(|b| *b == 0);
        let (_authzid, user, password) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next().is_none().then_some((user, password))
    }

    /// Appends the message.
    pub fn put(&self, out: &mut Vec<u8>) {
        writer::bytes(out, self.token);
    }
}

//! What a client asks: the eight requests, decoded without copying, and encoded for our own
//! clients.
//!
//! A body is `[bytes map] custom payload?` (flag 0x04, v4 and later; passed over, but for the name of a change) and
//! then the message. Bytes left after a message are not an error: Cassandra ignores them too.

mod batch;
mod execute;
mod parameters;
mod prepare;
mod query;
mod session;
mod values;

#[cfg(test)]
mod tests;

pub use batch::{Batch, BatchKind, BatchStatement, BatchText};
pub use execute::Execute;
pub use parameters::Parameters;
pub use prepare::Prepare;
pub use query::Query;
pub use session::{AuthResponse, EventKinds, Register, Startup};
pub use values::{ValueList, Values};

use super::error::{Malformed, Result};
use super::header::{Direction, Flags, Header, Opcode, Version, patch_length};
use super::reader::Reader;
use super::writer;

/// The key of the custom payload with the name of a change, 16 bytes (`docs/counters.md`).
pub const REQUEST_ID: &str = "messina-request-id";

/// A request, borrowed from the bytes of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Begin the session.
    Startup(Startup<'a>),
    /// What do you support?
    Options,
    /// Send me these events.
    Register(Register),
    /// A step of authentication.
    AuthResponse(AuthResponse<'a>),
    /// Run this text.
    Query(Query<'a>),
    /// Compile this text.
    Prepare(Prepare<'a>),
    /// Run what was compiled.
    Execute(Execute<'a>),
    /// Run all of these.
    Batch(Batch<'a>),
}

impl<'a> Request<'a> {
    /// Reads the (uncompressed) body of the frame with this header.
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Request<'a>> {
        let version = header.version;
        let mut reader = Reader::new(body);
        let mut request_id = None;
        if header.flags.has(Flags::PAYLOAD) {
            if version < Version::V4 {
                return Err(Malformed::with(
                    "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4",
                ));
            }
            request_id = reader.in_bytes_map(REQUEST_ID)?;
        }
        let body = reader;
        let mut request = match header.opcode {
            Opcode::Startup => Request::Startup(Startup::decode(body)?),
            Opcode::Options => Request::Options,
            Opcode::Register => Request::Register(Register::decode(body)?),
            Opcode::AuthResponse => Request::AuthResponse(AuthResponse::decode(body)?),
            Opcode::Query => Request::Query(Query::decode(body, version)?),
            Opcode::Prepare => Request::Prepare(Prepare::decode(body, version)?),
            Opcode::Execute => Request::Execute(Execute::decode(body, version)?),
            Opcode::Batch => Request::Batch(Batch::decode(body, version)?),
            other => return Err(Malformed::because(format!("{} is not a request", other.name()))),
        };
        if request_id.is_some() {
            *request.request_id_mut()? = request_id;
        }
        Ok(request)
    }

    /// Where the name of a change stands; an error in a message that changes nothing.
    #[cold]
    fn request_id_mut(&mut self) -> Result<&mut Option<&'a [u8]>> {
        match self {
            Request::Query(query) => Ok(&mut query.parameters.request_id),
            Request::Execute(execute) => Ok(&mut execute.parameters.request_id),
            Request::Batch(batch) => Ok(&mut batch.parameters.request_id),
            other => Err(Malformed::because(format!(
                "{REQUEST_ID} names a change of counters, and {} changes nothing",
                other.opcode().name()
            ))),
        }
    }

    /// The opcode that this request travels under.
    pub fn opcode(&self) -> Opcode {
        match self {
            Request::Startup(_) => Opcode::Startup,
            Request::Options => Opcode::Options,
            Request::Register(_) => Opcode::Register,
            Request::AuthResponse(_) => Opcode::AuthResponse,
            Request::Query(_) => Opcode::Query,
            Request::Prepare(_) => Opcode::Prepare,
            Request::Execute(_) => Opcode::Execute,
            Request::Batch(_) => Opcode::Batch,
        }
    }

    /// Appends the whole frame of this request, uncompressed and outside of any segment.
    pub fn put(&self, version: Version, stream: i16, flags: Flags, out: &mut Vec<u8>) {
        let start = out.len();
        let mut request = *self;
        let request_id = request.request_id_mut().ok().and_then(|id| *id);
        let flags = if request_id.is_some() { flags.with(Flags::PAYLOAD) } else { flags };
        let header = Header { version, flags, stream, opcode: self.opcode(), body_bytes: 0 };
        header.put(Direction::Request, out);
        if let Some(id) = request_id {
            writer::short(out, 1);
            writer::string(out, REQUEST_ID);
            writer::bytes(out, Some(id));
        }
        match self {
            Request::Startup(startup) => startup.put(out),
            Request::Options => {}
            Request::Register(register) => register.put(out),
            Request::AuthResponse(response) => response.put(out),
            Request::Query(query) => query.put(version, out),
            Request::Prepare(prepare) => prepare.put(version, out),
            Request::Execute(execute) => execute.put(version, out),
            Request::Batch(batch) => batch.put(version, out),
        }
        patch_length(out, start);
    }
}

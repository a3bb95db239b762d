//! The nine bytes before every message.
//!
//! ```text
//!  0        1       2        4        5            9
//!  ├ version ┼ flags ┼ stream ┼ opcode ┼ body length ┤   big-endian; version bit 7 marks an answer
//! ```
//!
//! Drivers find our version by trying: they start at 66 and 65 and walk down on the refusal, whose
//! words and whose own version byte they read. So a version is judged on the first byte, before
//! anything else.

use std::fmt;

use super::error::Malformed;

/// The length of a frame's header.
pub const HEADER_BYTES: usize = 9;

const RESPONSE_BIT: u8 = 0x80;

/// A protocol version we speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    /// Version 3 of the protocol.
    V3 = 3,
    /// Version 4: unset values, warnings, custom payloads.
    V4 = 4,
    /// Version 5: checked segments, 32-bit flags, result metadata ids.
    V5 = 5,
}

impl Version {
    /// The highest we speak: refusals are sent in it.
    pub const HIGHEST: Version = Version::V5;

    /// Every version, lowest first, as `PROTOCOL_VERSIONS` of SUPPORTED names it.
    pub const NAMES: [&'static str; 3] = ["3/v3", "4/v4", "5/v5"];

    /// The version with this number.
    pub const fn from_number(number: u8) -> Option<Version> {
        match number {
            3 => Some(Version::V3),
            4 => Some(Version::V4),
            5 => Some(Version::V5),
            _ => None,
        }
    }

    /// The number of the version, 3 to 5.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number())
    }
}

/// The flags byte of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The body is compressed (v3 and v4).
    pub const COMPRESSED: Flags = Flags(0x01);
    /// A request asks for tracing; an answer begins with a trace id.
    pub const TRACING: Flags = Flags(0x02);
    /// The body has a custom payload.
    pub const PAYLOAD: Flags = Flags(0x04);
    /// The answer carries warnings.
    pub const WARNINGS: Flags = Flags(0x08);
    /// The client accepts a beta version. We have none; it is ignored.
    pub const BETA: Flags = Flags(0x10);

    /// Whether all of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of `self` and of `other`.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The kind of a message, one byte of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Answer: something failed.
    Error = 0x00,
    /// Request: begin the session.
    Startup = 0x01,
    /// Answer: the session has begun.
    Ready = 0x02,
    /// Answer: say who you are.
    Authenticate = 0x03,
    /// Request: what do you support?
    Options = 0x05,
    /// Answer to OPTIONS.
    Supported = 0x06,
    /// Request: run a statement.
    Query = 0x07,
    /// Answer: the outcome of a statement.
    Result = 0x08,
    /// Request: compile a statement.
    Prepare = 0x09,
    /// Request: run a compiled statement.
    Execute = 0x0A,
    /// Request: send me events.
    Register = 0x0B,
    /// An event: a response without a request.
    Event = 0x0C,
    /// Request: run several statements.
    Batch = 0x0D,
    /// Answer: the next step of authentication.
    AuthChallenge = 0x0E,
    /// Request: a step of authentication.
    AuthResponse = 0x0F,
    /// Answer: authentication is done.
    AuthSuccess = 0x10,
}

impl Opcode {
    /// The message kind with this code.
    pub const fn from_code(code: u8) -> Option<Opcode> {
        Some(match code {
            0x00 => Opcode::Error,
            0x01 => Opcode::Startup,
            0x02 => Opcode::Ready,
            0x03 => Opcode::Authenticate,
            0x05 => Opcode::Options,
            0x06 => Opcode::Supported,
            0x07 => Opcode::Query,
            0x08 => Opcode::Result,
            0x09 => Opcode::Prepare,
            0x0A => Opcode::Execute,
            0x0B => Opcode::Register,
            0x0C => Opcode::Event,
            0x0D => Opcode::Batch,
            0x0E => Opcode::AuthChallenge,
            0x0F => Opcode::AuthResponse,
            0x10 => Opcode::AuthSuccess,
            _ => return None,
        })
    }

    /// The name that the specification gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Opcode::Error => "ERROR",
            Opcode::Startup => "STARTUP",
            Opcode::Ready => "READY",
            Opcode::Authenticate => "AUTHENTICATE",
            Opcode::Options => "OPTIONS",
            Opcode::Supported => "SUPPORTED",
            Opcode::Query => "QUERY",
            Opcode::Result => "RESULT",
            Opcode::Prepare => "PREPARE",
            Opcode::Execute => "EXECUTE",
            Opcode::Register => "REGISTER",
            Opcode::Event => "EVENT",
            Opcode::Batch => "BATCH",
            Opcode::AuthChallenge => "AUTH_CHALLENGE",
            Opcode::AuthResponse => "AUTH_RESPONSE",
            Opcode::AuthSuccess => "AUTH_SUCCESS",
        }
    }

    /// Whether a client sends it.
    pub const fn is_request(self) -> bool {
        matches!(
            self,
            Opcode::Startup
                | Opcode::Options
                | Opcode::Query
                | Opcode::Prepare
                | Opcode::Execute
                | Opcode::Register
                | Opcode::Batch
                | Opcode::AuthResponse
        )
    }
}

/// Whether a frame is a request or a response: the highest bit of its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// A client, to us.
    Request,
    /// A server, to a client.
    Response,
}

/// A header whose version, opcode and direction are good. Its length is not yet judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The protocol version.
    pub version: Version,
    /// Flags of the frame, such as compression and tracing.
    pub flags: Flags,
    /// Which request this is or answers; negative only in events.
    pub stream: i16,
    /// The kind of message that the body is.
    pub opcode: Opcode,
    /// How many bytes follow, as declared.
    pub body_bytes: u32,
}

/// Why a header is refused. The stream cannot be trusted after it, so the connection closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadHeader {
    /// The stream to answer on.
    pub stream: i16,
    /// The version to answer in.
    pub version: Version,
    /// The error to answer with.
    pub reason: Malformed,
}

impl Header {
    /// Reads the header at the start of `bytes`. `None`: more bytes are needed.
    pub fn decode(
        bytes: &[u8],
        direction: Direction,
    ) -> std::result::Result<Option<Header>, BadHeader> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        let number = first & !RESPONSE_BIT;
        let Some(version) = Version::from_number(number) else {
            return Err(Header::refuse_version(number, bytes));
        };
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [_, flags, s0, s1, code, b0, b1, b2, b3] = *header;
        let stream = i16::from_be_bytes([s0, s1]);
        let bad = |text: String| BadHeader { stream, version, reason: Malformed::because(text) };
        let Some(opcode) = Opcode::from_code(code) else {
            return Err(bad(format!("Unknown opcode {code}")));
        };
        let is_request = first & RESPONSE_BIT == 0;
        let wants_request = direction == Direction::Request;
        if is_request != wants_request || opcode.is_request() != wants_request {
            return Err(bad(format!(
                "Wrong protocol direction for opcode {code} ({})",
                opcode.name()
            )));
        }
        let body_bytes = u32::from_be_bytes([b0, b1, b2, b3]);
        if body_bytes > i32::MAX as u32 {
            return Err(bad(format!("Invalid frame body length {}", body_bytes as i32)));
        }
        Ok(Some(Header { version, flags: Flags(flags), stream, opcode, body_bytes }))
    }

    /// Appends this header.
    pub fn put(&self, direction: Direction, out: &mut Vec<u8>) {
        let mark = if direction == Direction::Response { RESPONSE_BIT } else { 0 };
        let [s0, s1] = self.stream.to_be_bytes();
        let [b0, b1, b2, b3] = self.body_bytes.to_be_bytes();
        out.extend_from_slice(&[
            self.version.number() | mark,
            self.flags.0,
            s0,
            s1,
            self.opcode as u8,
            b0,
            b1,
            b2,
            b3,
        ]);
    }

    /// The length of header and body.
    pub const fn frame_bytes(&self) -> usize {
        HEADER_BYTES + self.body_bytes as usize
    }

    #[cold]
    fn refuse_version(number: u8, bytes: &[u8]) -> BadHeader {
        // Versions 1 and 2 have one byte of stream, and answers of theirs are not ours to send.
        let stream = match (number, bytes.get(2), bytes.get(3)) {
            (0..=2, Some(s), _) => i16::from(*s as i8),
            (_, Some(s0), Some(s1)) => i16::from_be_bytes([*s0, *s1]),
            _ => 0,
        };
        let text = format!(
            "Invalid or unsupported protocol version ({number}); supported versions are ({})",
            Version::NAMES.join(", ")
        );
        BadHeader { stream, version: Version::HIGHEST, reason: Malformed::because(text) }
    }
}

/// Writes the length of the frame that began at `start` and ends at the end of `out`.
pub(super) fn patch_length(out: &mut [u8], start: usize) {
    let body_bytes = super::writer::length(out.len() - start - HEADER_BYTES);
    out[start + 5..start + HEADER_BYTES].copy_from_slice(&body_bytes.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_foreign_version_is_refused_in_the_words_drivers_match() {
        let options_of_v66 = [0x42, 0, 0, 7, 5, 0, 0, 0, 0];
        let bad = Header::decode(&options_of_v66, Direction::Request).unwrap_err();
        assert_eq!(
            bad.reason.to_string(),
            "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5)"
        );
        assert_eq!((bad.version, bad.stream), (Version::V5, 7));
        // One byte is enough to refuse.
        assert!(Header::decode(&[2], Direction::Request).is_err());
    }

    #[test]
    fn answers_and_requests_are_not_mixed_up() {
        let ready_as_request = [4, 0, 0, 1, 2, 0, 0, 0, 0];
        assert!(Header::decode(&ready_as_request, Direction::Request).is_err());
        let query_as_answer = [0x84, 0, 0, 1, 7, 0, 0, 0, 0];
        assert!(Header::decode(&query_as_answer, Direction::Response).is_err());
        let negative_length = [4, 0, 0, 1, 7, 0xFF, 0xFF, 0xFF, 0xFF];
        assert!(Header::decode(&negative_length, Direction::Request).is_err());
        let no_such_opcode = [4, 0, 0, 1, 4, 0, 0, 0, 0];
        assert!(Header::decode(&no_such_opcode, Direction::Request).is_err());
    }

    proptest! {
        #[test]
        fn what_decodes_encodes_to_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            for direction in [Direction::Request, Direction::Response] {
                if let Ok(Some(header)) = Header::decode(&bytes, direction) {
                    let mut out = Vec::new();
                    header.put(direction, &mut out);
                    prop_assert_eq!(&out[..], &bytes[..HEADER_BYTES]);
                }
            }
        }
    }
}

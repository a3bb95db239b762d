//! One frame of a connection, served: it comes to the service if its message may come now, is well formed, and is
//! within the core's limits. If not, an ERROR takes its place.

use std::rc::Rc;

use cql::frame::compress::Compression;
use cql::frame::error::{ErrorCode, Malformed};
use cql::frame::frame_writer::FrameWriter;
use cql::frame::header::{Header, Opcode};
use cql::frame::request::Request;
use cql::frame::response::{Envelope, Failure};

use crate::load::Load;
use crate::service::{Outcome, Service};
use crate::session::{Session, Stage};
use crate::unanswered::Unanswered;

/// The parts of a connection that serving a frame changes, while the reader lends its body.
pub(super) struct Serve<'a> {
    pub(super) session: &'a Rc<Session>,
    pub(super) writer: &'a mut FrameWriter,
    pub(super) unanswered: &'a mut Unanswered,
    pub(super) load: &'a mut Load,
}

impl Serve<'_> {
    /// Serves a frame. If it was the STARTUP that began the session: the compression that it chose.
    #[inline]
    pub(super) fn frame(
        self,
        header: &Header,
        body: &[u8],
        service: &impl Service,
    ) -> Option<Compression> {
        let Serve { session, writer, unanswered, load } = self;
        let stage = session.stage.get();
        if let Err(reason) = check_order(stage, header) {
            refuse(writer, header, ErrorCode::Protocol, &reason.to_string());
            return None;
        }
        let request = match Request::decode(header, body) {
            Ok(request) => request,
            Err(reason) => {
                refuse(writer, header, ErrorCode::Protocol, &reason.to_string());
                return None;
            }
        };
        // As it is held: a compressed frame is longer than it says.
        let body_bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
        // A handshake takes little, and its client is to hear why requests are not taken.
        let is_work =
            stage == Stage::Ready && !matches!(request, Request::Register(_) | Request::Options);
        let admits = || match unanswered.is_empty() {
            true => load.admits_first(body_bytes),
            false => load.admits(body_bytes),
        };
        if is_work && !admits() {
            refuse(writer, header, ErrorCode::Overloaded, &load.refusal());
            return None;
        }
        let chosen = match &request {
            // Meant only if the service accepts the options, and then the compression is known.
            Request::Startup(startup) => {
                Some(startup.compression(header.version).unwrap_or_default())
            }
            _ => None,
        };
        match writer.frame(|out| service.request(session, header, &request, out)) {
            Outcome::Answered => {}
            Outcome::Later => {
                load.take(body_bytes);
                unanswered.push(header.stream, body_bytes);
            }
        }
        chosen.filter(|_| session.stage.get() == Stage::Ready)
    }
}

/// Whether this message may come now.
fn check_order(stage: Stage, header: &Header) -> Result<(), Malformed> {
    if header.stream < 0 {
        return Err(Malformed::with("Negative stream ids are for events"));
    }
    let (expected, good) = match (stage, header.opcode) {
        (_, Opcode::Options) => return Ok(()),
        (Stage::Connected, opcode) => ("STARTUP or OPTIONS", opcode == Opcode::Startup),
        (Stage::Ready, opcode) => {
            let opening = matches!(opcode, Opcode::Startup | Opcode::AuthResponse);
            ("no second handshake", !opening)
        }
    };
    if good {
        return Ok(());
    }
    Err(Malformed::because(format!(
        "Unexpected message {}, expecting {expected}",
        header.opcode.name()
    )))
}

/// Answers a frame with an ERROR.
#[cold]
pub(super) fn refuse(writer: &mut FrameWriter, header: &Header, code: ErrorCode, text: &str) {
    let envelope = Envelope::new(header.version, header.stream);
    writer.frame(|out| envelope.put_error(Failure::Plain(code), text, out));
}

//! The answers about the session itself: READY, AUTHENTICATE, AUTH_SUCCESS, SUPPORTED.

use super::super::header::Opcode;
use super::super::writer;
use super::Envelope;

impl Envelope<'_> {
    /// READY: the session has begun, or the events are registered.
    pub fn put_ready(&self, out: &mut Vec<u8>) {
        self.put(Opcode::Ready, out, |_| {});
    }

    /// AUTHENTICATE: say who you are, in the way of this class.
    pub fn put_authenticate(&self, class: &str, out: &mut Vec<u8>) {
        self.put(Opcode::Authenticate, out, |out| writer::string(out, class));
    }

    /// AUTH_SUCCESS: the session has begun.
    pub fn put_auth_success(&self, token: Option<&[u8]>, out: &mut Vec<u8>) {
        self.put(Opcode::AuthSuccess, out, |out| writer::bytes(out, token));
    }

    /// SUPPORTED: what can be chosen in STARTUP, and what drivers want to know of us.
    pub fn put_supported(&self, options: &[(&str, &[&str])], out: &mut Vec<u8>) {
        self.put(Opcode::Supported, out, |out| {
            writer::short(out, writer::count(options.len()));
            for (key, values) in options {
                writer::string(out, key);
                writer::string_list(out, values.iter().copied());
            }
        });
    }
}

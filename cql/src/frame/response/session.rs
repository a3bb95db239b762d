//! The answers about the session itself: READY, SUPPORTED.

use super::super::header::Opcode;
use super::super::writer;
use super::Envelope;

impl Envelope<'_> {
    /// READY: the session has begun, or the events are registered.
    pub fn put_ready(&self, out: &mut Vec<u8>) {
        self.put(Opcode::Ready, out, |_| {});
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

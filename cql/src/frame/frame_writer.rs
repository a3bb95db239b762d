//! The answers of one connection, made ready for its socket.
//!
//! ```text
//!  v3, v4   encoder ─► wire (compressed in place, frame by frame) ─► socket
//!  v5       encoder ─► frames ─► seal: segments ─► wire ─► socket        one segment holds a pass of answers
//! ```
//!
//! `frame` appends one whole frame; `seal` is called once a pass, before sending.

use super::buffer::give_back;
use super::compress::Compression;
use super::header::Version;
use super::segment::SegmentFormat;

/// The memory that each buffer keeps for the next answers, in bytes: those to 64 reads of 1 KB fit. A page of rows
/// takes 1 MiB.
const KEPT_BYTES_MAX: usize = 128 << 10;

/// The sending half of a connection, without its socket.
#[derive(Debug, Default)]
pub struct FrameWriter {
    compression: Compression,
    segments: Option<SegmentFormat>,
    frames: Vec<u8>,
    wire: Vec<u8>,
    sent: usize,
    scratch: Vec<u8>,
}

impl FrameWriter {
    /// The writer of a new connection: frames go out as they are.
    pub fn new() -> FrameWriter {
        FrameWriter::default()
    }

    /// What STARTUP chose; the answer to STARTUP itself was encoded before.
    pub fn establish(&mut self, version: Version, compression: Compression) {
        assert!(self.frames.is_empty(), "a connection is established once");
        if version < Version::V5 {
            self.compression = compression;
        } else if compression == Compression::None {
            self.segments = Some(SegmentFormat::Plain);
        } else {
            self.segments = Some(SegmentFormat::Lz4);
        }
    }

    /// Lets `put` append one frame, or nothing.
    #[inline]
    pub fn frame<R>(&mut self, put: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        if self.segments.is_some() {
            return put(&mut self.frames);
        }
        let start = self.wire.len();
        let result = put(&mut self.wire);
        if self.compression != Compression::None && self.wire.len() > start {
            self.compression.shrink_frame(&mut self.wire, start, &mut self.scratch);
        }
        result
    }

    /// Makes everything appended so far ready to send.
    pub fn seal(&mut self) {
        if let Some(format) = self.segments
            && !self.frames.is_empty()
        {
            format.wrap(&self.frames, &mut self.wire);
            self.frames.clear();
            self.frames.shrink_to(KEPT_BYTES_MAX);
        }
    }

    /// Gives back the memory of an idle connection.
    pub fn trim(&mut self) {
        self.scratch = Vec::new();
        self.frames.shrink_to_fit();
        self.wire.shrink_to_fit();
    }

    /// Gives back most of the memory that the answers in it do not need (`buffer.rs`).
    pub fn give_back(&mut self, kept_bytes: usize) {
        for buffer in [&mut self.scratch, &mut self.frames, &mut self.wire] {
            give_back(buffer, kept_bytes);
        }
    }

    /// Bytes of memory that it has, for answers that wait and for those to come.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        self.frames.capacity() + self.wire.capacity() + self.scratch.capacity()
    }

    /// The bytes that are ready and not sent yet, in order.
    pub fn unsent(&self) -> &[u8] {
        &self.wire[self.sent..]
    }

    /// How many bytes wait for the socket, sealed or not.
    pub fn waiting_bytes(&self) -> usize {
        self.wire.len() - self.sent + self.frames.len()
    }

    /// The socket took this many bytes of [`FrameWriter::unsent`].
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        assert!(self.sent <= self.wire.len(), "more was sent than there was");
        if self.sent == self.wire.len() {
            self.sent = 0;
            self.wire.clear();
            self.wire.shrink_to(KEPT_BYTES_MAX);
            self.scratch.clear();
            self.scratch.shrink_to(KEPT_BYTES_MAX);
        } else if self.sent >= self.wire.len() / 2 {
            // A slow reader must not make the buffer grow with what it has already read.
            self.wire.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_come_later() {
        let mut writer = FrameWriter::new();
        writer.establish(Version::V4, Compression::Lz4);
        writer.frame(|_| {});
        assert_eq!(writer.waiting_bytes(), 0);
    }

    #[test]
    fn what_was_sent_is_forgotten() {
        let mut writer = FrameWriter::new();
        writer.frame(|out| out.extend_from_slice(b"abcdef"));
        writer.sent(2);
        assert_eq!(writer.unsent(), b"cdef");
        writer.sent(2);
        writer.frame(|out| out.extend_from_slice(b"gh"));
        assert_eq!(writer.unsent(), b"efgh");
        assert_eq!(writer.waiting_bytes(), 4);
        writer.sent(4);
        assert_eq!(writer.waiting_bytes(), 0);
        writer.trim();
        assert_eq!(writer.wire.capacity(), 0);
    }

    /// Before: a connection kept 512 KiB as long as it was sent anything now and then, and nothing counted that.
    #[test]
    fn memory_for_the_next_answers_can_be_given_back() {
        for (version, compression) in [
            (Version::V4, Compression::None),
            (Version::V4, Compression::Lz4),
            (Version::V5, Compression::None),
            (Version::V5, Compression::Lz4),
        ] {
            let mut writer = FrameWriter::new();
            writer.establish(version, compression);
            let frame = [&[4, 0, 0, 1, 8, 0, 3, 0, 0][..], &[7; 3 << 16]].concat();
            writer.frame(|out| out.extend_from_slice(&frame));
            writer.seal();
            writer.give_back(1024);
            let unsent = writer.unsent().len();
            assert!(unsent > 700 && unsent == writer.waiting_bytes(), "nothing is lost");
            writer.sent(unsent);
            assert!(writer.memory_bytes() <= 3 * KEPT_BYTES_MAX);
            writer.give_back(1024);
            let memory_bytes = writer.memory_bytes();
            assert!(memory_bytes <= 3 * 2 * 1024, "{version} {compression:?}: {memory_bytes}");
        }
    }
}

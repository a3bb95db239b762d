//! The answers of one connection, made ready for its socket.
//!
//! ```text
//!  v3, v4   encoder ─► wire (compressed in place, frame by frame) ─► socket
//!  v5       encoder ─► frames ─► seal: segments ─► wire ─► socket        one segment holds a pass of answers
//! ```
//!
//! `frame` appends one whole frame, `long_frame` one that is made ready in pieces (`behind.rs`), before which all others
//! wait that come later; `seal` is called once a pass, before sending, and `make_ready` when all that is ready was sent.

use super::behind::{Behind, Piece};
use super::buffer::give_back;
use super::compress::Compression;
use super::header::{HEADER_BYTES, Version};
use super::segment::{SegmentFormat, whole_frames};
use crate::limits::{COMPRESS_BYTES_MAX, SEGMENT_PAYLOAD_BYTES_MAX};

/// The memory that each buffer keeps for the next answers, in bytes: those to 64 reads of 1 KB fit. A page of rows
/// takes 1 MiB.
const KEPT_BYTES_MAX: usize = 128 << 10;

/// A long frame is made ready in pieces of so many bytes: whole segments, some 0.2 ms of work.
const PIECE_BYTES: usize = 8 * SEGMENT_PAYLOAD_BYTES_MAX;

/// The sending half of a connection, without its socket.
#[derive(Debug, Default)]
pub struct FrameWriter {
    compression: Compression,
    segments: Option<SegmentFormat>,
    frames: Vec<u8>,
    wire: Vec<u8>,
    sent: usize,
    scratch: Vec<u8>,
    behind: Behind,
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
        if !self.behind.is_empty() {
            return self.behind.push_short(PIECE_BYTES, put);
        }
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

    /// Appends one whole frame. If it is long, which is not compressed, it is made ready in pieces.
    pub fn long_frame(&mut self, frame: Vec<u8>) {
        if frame.len() > COMPRESS_BYTES_MAX + HEADER_BYTES {
            self.behind.push_long(frame);
        } else {
            self.frame(|out| out.extend_from_slice(&frame));
        }
    }

    /// Makes what was appended so far ready to send: all, or as far as the first piece of a long frame.
    pub fn seal(&mut self) {
        if let Some(format) = self.segments
            && !self.frames.is_empty()
        {
            format.wrap(&self.frames, &mut self.wire);
            self.frames.clear();
            self.frames.shrink_to(KEPT_BYTES_MAX);
        }
        self.make_ready();
    }

    /// If all that was ready is sent: makes the next piece of a long frame ready to send, or the frames behind it.
    pub fn make_ready(&mut self) {
        while self.unsent().is_empty() {
            let FrameWriter { compression, segments, wire, scratch, behind, .. } = self;
            let Some(piece) = behind.next(PIECE_BYTES) else { return };
            match (piece, segments) {
                (Piece::OfLong(part), None) => wire.extend_from_slice(part),
                (Piece::OfLong(part), Some(format)) => format.wrap_part(part, wire),
                (Piece::Frames(frames), None) => {
                    for frame in whole_frames(&frames) {
                        let start = wire.len();
                        wire.extend_from_slice(frame);
                        compression.shrink_frame(wire, start, scratch);
                    }
                }
                (Piece::Frames(frames), Some(format)) => format.wrap(&frames, wire),
            }
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
        self.frames.capacity()
            + self.wire.capacity()
            + self.scratch.capacity()
            + self.behind.bytes()
    }

    /// The bytes that are ready and not sent yet, in order.
    pub fn unsent(&self) -> &[u8] {
        &self.wire[self.sent..]
    }

    /// How many bytes wait for the socket, sealed or not.
    pub fn waiting_bytes(&self) -> usize {
        self.wire.len() - self.sent + self.frames.len() + self.behind.bytes()
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
    use crate::frame::frame_reader::{Arrival, FrameReader};
    use crate::frame::header::Direction;

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

    /// Before: a frame of 64 MiB was copied, and cut into segments, in one step.
    #[test]
    fn a_long_frame_is_made_ready_in_pieces_and_others_wait_behind_it() {
        let every = [
            (Version::V4, Compression::None),
            (Version::V4, Compression::Lz4),
            (Version::V5, Compression::None),
            (Version::V5, Compression::Lz4),
        ];
        let frame = |version: Version, stream: u8, body_bytes: usize| {
            let first = if version == Version::V5 { 0x85 } else { 0x84 };
            let header = [&[first, 0, 0, stream, 8][..], &(body_bytes as u32).to_be_bytes()];
            [&header.concat()[..], &vec![stream; body_bytes]].concat()
        };
        let mut bodies = vec![1000, 5 << 20, 2000, 300_000, 3 << 20, 10, COMPRESS_BYTES_MAX];
        bodies.extend([900 << 10; 20]);
        for (version, compression) in every {
            let mut writer = FrameWriter::new();
            writer.establish(version, compression);
            for (stream, body_bytes) in (1..).zip(bodies.iter().copied()) {
                let frame = frame(version, stream, body_bytes);
                match body_bytes > 100_000 {
                    true => writer.long_frame(frame),
                    false => writer.frame(|out| out.extend_from_slice(&frame)),
                }
            }
            let mut reader = FrameReader::new(Direction::Response, 16 << 20);
            reader.establish(version, compression);
            let (mut input, mut read) = (Vec::new(), Vec::new());
            writer.seal();
            while writer.waiting_bytes() > 0 {
                let unsent = writer.unsent();
                assert!(unsent.len() < 3 * PIECE_BYTES, "{} bytes at once", unsent.len());
                input.extend_from_slice(unsent);
                writer.sent(unsent.len());
                writer.make_ready();
            }
            let mut used = 0;
            loop {
                let step = reader.next(&input[used..]).unwrap();
                used += step.used;
                let Arrival::Frame(header, body) = step.arrival else { break };
                assert!(body.iter().all(|byte| i16::from(*byte) == header.stream));
                read.push((header.stream, body.len()));
            }
            let expected: Vec<_> = (1..).zip(bodies.iter().copied()).collect();
            assert_eq!(read, expected, "{version} {compression:?}");
            assert_eq!((used, writer.memory_bytes() < 4 * KEPT_BYTES_MAX), (input.len(), true));
        }
    }
}

//! The answers of one connection, made ready for its socket.
//!
//! ```text
//!  v3, v4   encoder ─► wire (compressed in place, frame by frame) ─► socket
//!  v5       encoder ─► frames ─► seal: segments ─► wire ─► socket        one segment holds a pass of answers
//!
//!  behind a long frame, or much:       encoder ─► queue ─► seal: one chunk, when the wire is empty ─► wire ─► socket
//! ```
//!
//! `frame` appends one frame, `whole_frame` one that is made already, which may be long: then it is made ready in chunks
//! (`frame_queue.rs`), and all frames that come later wait behind it, as do those that come while much is ready. `seal`
//! is called once a pass, before sending.

use std::borrow::Cow;

use super::buffer::give_back;
use super::compress::Compression;
use super::frame_queue::{Chunk, FrameQueue};
use super::header::{HEADER_BYTES, Version};
use super::segment::{SegmentFormat, whole_frames};
use crate::limits::{COMPRESS_BYTES_MAX, FRAME_CHUNK_BYTES};

/// The memory that each buffer keeps for the next answers, in bytes: those to 64 reads of 1 KB fit. A page of rows
/// takes 1 MiB.
const KEPT_BYTES_MAX: usize = 128 << 10;

/// While so many bytes or more are sealed or to be sealed, further frames wait in the queue: a buffer of all that a
/// client has not read would be moved and compressed in one step.
const READY_BYTES_MAX: usize = 1 << 20;

/// The sending half of a connection, without its socket.
#[derive(Debug, Default)]
pub struct FrameWriter {
    compression: Compression,
    segments: Option<SegmentFormat>,
    frames: Vec<u8>,
    wire: Vec<u8>,
    sent: usize,
    scratch: Vec<u8>,
    queue: FrameQueue,
}

impl FrameWriter {
    /// The writer of a new connection: frames go out as they are.
    pub fn new() -> FrameWriter {
        FrameWriter::default()
    }

    /// What STARTUP chose; the answer to STARTUP itself was encoded before.
    pub fn establish(&mut self, version: Version, compression: Compression) {
        assert!(self.frames.is_empty(), "a connection is established once");
        // What was asked before STARTUP is answered as it came.
        while let Some(chunk) = self.queue.next() {
            match chunk {
                Chunk::OfLong(part) => self.wire.extend_from_slice(part),
                Chunk::Frames(frames) => self.wire.extend_from_slice(&frames),
            }
        }
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
        if !self.queue.is_empty() || self.wire.len() + self.frames.len() >= READY_BYTES_MAX {
            return self.queue.push_short(put);
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

    /// Appends a frame that is made already. A long one is made ready in chunks.
    pub fn whole_frame(&mut self, frame: Cow<'_, [u8]>) {
        let short_bytes_max = match self.compression {
            Compression::None => FRAME_CHUNK_BYTES,
            // Its body is compressed as a whole, or not at all.
            _ => COMPRESS_BYTES_MAX + HEADER_BYTES,
        };
        if frame.len() > short_bytes_max {
            self.queue.push_long(frame.into_owned());
        } else {
            self.frame(|out| out.extend_from_slice(&frame));
        }
    }

    /// Makes ready to send what was appended before the queue began. If all that was ready is sent: the next chunk of a
    /// long frame, or the next short frames of the queue.
    pub fn seal(&mut self) {
        if let Some(format) = self.segments
            && !self.frames.is_empty()
        {
            format.wrap(&self.frames, &mut self.wire);
            self.frames.clear();
            self.frames.shrink_to(KEPT_BYTES_MAX);
        }
        while self.unsent().is_empty() {
            let FrameWriter { compression, segments, wire, scratch, queue, .. } = self;
            let Some(chunk) = queue.next() else { return };
            match (chunk, segments) {
                (Chunk::OfLong(part), None) => wire.extend_from_slice(part),
                (Chunk::OfLong(part), Some(format)) => format.wrap_part(part, wire),
                (Chunk::Frames(frames), None) => {
                    for frame in whole_frames(&frames) {
                        let start = wire.len();
                        wire.extend_from_slice(frame);
                        compression.shrink_frame(wire, start, scratch);
                    }
                }
                (Chunk::Frames(frames), Some(format)) => format.wrap(&frames, wire),
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
        self.frames.capacity() + self.wire.capacity() + self.scratch.capacity() + self.queue.bytes()
    }

    /// The bytes that are ready and not sent yet, in order.
    pub fn unsent(&self) -> &[u8] {
        &self.wire[self.sent..]
    }

    /// Bytes of answers that are not sent whole, sealed or not: while a long frame is under way more than the socket
    /// still gets.
    pub fn waiting_bytes(&self) -> usize {
        self.wire.len() - self.sent + self.frames.len() + self.queue.bytes()
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
mod tests;

//! Bytes on their way to and from the device.
//!
//! [`Buf`] is filled and then given away to a write; [`View`] is what a read brought, without a copy where the device's
//! own buffer can be shown. Bytes of a `Buf` that were never filled never reach the disk.
//!
//! ```text
//! Buf    [ filled │ space ]       of a device: aligned memory         of the simulator: a vector
//! View   [ … │ start .. len │ … ] of glommio's read, of our own ring's read, or a vector
//! ```
//!
//! 1. A `Buf` is filled from the front, and never beyond its capacity: that is asserted, and the caller asks for
//!    `space` first.
//! 2. A `Buf` goes to a file of the kind that gave it (`File::buf`). For the device it is cut to what is filled.
//! 3. A `View` shows a stretch of what was read, and can be made smaller, never larger.
//!
//! Not here: offsets and alignment of reads and writes (`dma.rs`, `ring.rs`), checksums (`codec.rs`).

use std::fmt;
use std::ops::{Deref, Range};

use glommio::io::{DmaBuffer, ReadResult};

use crate::limits::WRITE_ALIGN_BYTES;

/// Makes `bytes` at least `len` bytes long, with zeros. Not by `resize`: in a build without optimization that is a call
/// for every byte, and tests fill whole segments of the log.
pub(super) fn extend_with_zeros(bytes: &mut Vec<u8>, len: usize) {
    static ZEROS: [u8; WRITE_ALIGN_BYTES] = [0; WRITE_ALIGN_BYTES];
    while bytes.len() < len {
        bytes.extend_from_slice(&ZEROS[..ZEROS.len().min(len - bytes.len())]);
    }
}

/// A buffer to write: aligned memory that is filled from the front.
pub struct Buf {
    memory: Memory,
    len: usize,
}

enum Memory {
    Dma(DmaBuffer),
    /// Not zeroed before it is filled: that would cost a commit of the simulator more than all the rest.
    Heap {
        bytes: Vec<u8>,
        capacity: usize,
    },
}

impl Buf {
    /// A buffer for the simulator, where memory needs no alignment.
    pub(super) fn heap(capacity: usize) -> Buf {
        let capacity = capacity.next_multiple_of(WRITE_ALIGN_BYTES);
        Buf { memory: Memory::Heap { bytes: Vec::with_capacity(capacity), capacity }, len: 0 }
    }

    pub(super) fn dma(memory: DmaBuffer) -> Buf {
        Buf { memory: Memory::Dma(memory), len: 0 }
    }

    /// How many bytes fit in all.
    pub fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Dma(m) => m.len(),
            Memory::Heap { capacity, .. } => *capacity,
        }
    }

    /// How many bytes may still be appended.
    pub fn space(&self) -> usize {
        self.capacity() - self.len
    }

    /// Appends bytes; there must be space.
    pub fn put(&mut self, bytes: &[u8]) {
        let free = self.reserve(bytes.len());
        match &mut self.memory {
            Memory::Dma(m) => m.as_bytes_mut()[free].copy_from_slice(bytes),
            Memory::Heap { bytes: filled, .. } => filled.extend_from_slice(bytes),
        }
    }

    /// Appends zeros until the length is a multiple of `unit`; they must fit.
    pub fn pad_to(&mut self, unit: usize) {
        self.put_zeros(self.len.next_multiple_of(unit) - self.len);
    }

    /// Appends `count` zeros; there must be space.
    pub fn put_zeros(&mut self, count: usize) {
        let free = self.reserve(count);
        match &mut self.memory {
            Memory::Dma(m) => m.as_bytes_mut()[free].fill(0),
            Memory::Heap { bytes, .. } => extend_with_zeros(bytes, free.end),
        }
    }

    /// The filled bytes, to be patched (a header that is known last).
    pub fn filled_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Dma(m) => &mut m.as_bytes_mut()[..self.len],
            Memory::Heap { bytes, .. } => bytes,
        }
    }

    /// Counts the next `count` bytes as filled and returns their place, which the caller writes at once.
    /// There must be space for them.
    fn reserve(&mut self, count: usize) -> Range<usize> {
        assert!(count <= self.space(), "a buffer is asked for its space first");
        let start = self.len;
        self.len += count;
        start..self.len
    }

    /// The device's buffer, cut to what is filled.
    pub(super) fn into_dma(self) -> DmaBuffer {
        match self.memory {
            Memory::Dma(mut m) => {
                m.trim_to_size(self.len);
                m
            }
            Memory::Heap { .. } => panic!("a buffer is written to the kind of file that gave it"),
        }
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Dma(m) => &m.as_bytes()[..self.len],
            Memory::Heap { bytes, .. } => bytes,
        }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} of {} bytes)", self.len, self.capacity())
    }
}

/// What a read brought.
pub struct View {
    memory: Source,
    start: usize,
    len: usize,
}

enum Source {
    Dma(ReadResult),
    Own(DmaBuffer),
    Heap(Vec<u8>),
}

impl View {
    /// The part `[start, start + len)` of a device buffer.
    pub(super) fn dma(memory: ReadResult, start: usize, len: usize) -> View {
        assert!(start + len <= memory.len(), "a view shows what was read");
        View { memory: Source::Dma(memory), start, len }
    }

    /// The part `[start, start + len)` of a device buffer that the core's own ring has read into.
    pub(super) fn own(memory: DmaBuffer, start: usize, len: usize) -> View {
        assert!(start + len <= memory.len(), "a view shows what was read");
        View { memory: Source::Own(memory), start, len }
    }

    pub(super) fn heap(bytes: Vec<u8>) -> View {
        View { len: bytes.len(), memory: Source::Heap(bytes), start: 0 }
    }

    /// The same bytes, fewer of them: `[from, to)` of this view.
    pub fn slice(mut self, from: usize, to: usize) -> View {
        assert!(from <= to && to <= self.len, "a slice lies inside its view");
        self.start += from;
        self.len = to - from;
        self
    }
}

impl Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &self.memory {
            Source::Dma(m) => m,
            Source::Own(m) => m.as_bytes(),
            Source::Heap(m) => m,
        };
        &all[self.start..self.start + self.len]
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} bytes)", self.len)
    }
}

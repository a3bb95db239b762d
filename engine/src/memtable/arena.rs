//! Where a memtable's bytes live: appended to chunks, freed all at once.
//!
//! ```text
//! chunk 0 [##########]  chunk 1 [######....]      a handle is (chunk, offset)
//! ```
//!
//! 1. Chunks double from 4 KiB to 1 MiB, so a table with one row costs little and a full memtable
//!    is a few hundred allocations. What does not fit a chunk gets one of its own.
//! 2. A handle does not know its length: who holds it does, and how much space it has.
//! 3. What is outgrown is not reused; it counts as garbage until the memtable is flushed.
//!
//! Safe code: an index check costs less than the cache miss that follows it.

use crate::limits::{ARENA_CHUNK_BYTES_MAX, ARENA_CHUNK_BYTES_MIN};

/// Bytes that live as long as the memtable.
#[derive(Debug, Default)]
pub(super) struct Arena {
    /// As long as what was put into each. A chunk is not zeroed first: that would bring it into the caches twice.
    chunks: Vec<Vec<u8>>,
    /// The capacity of all of them.
    bytes: usize,
}

/// Where some bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    chunk: u32,
    offset: u32,
}

impl Arena {
    /// Appends both parts and zeros, `space` bytes together; gives where they begin. Panics if the parts are longer.
    pub(super) fn put(&mut self, parts: [&[u8]; 2], space: usize) -> Handle {
        let fits = |chunk: &Vec<u8>| chunk.capacity() - chunk.len() >= space;
        if !self.chunks.last().is_some_and(fits) {
            let grown = self.chunks.last().map_or(0, |chunk| chunk.capacity() * 2);
            let regular = grown.clamp(ARENA_CHUNK_BYTES_MIN, ARENA_CHUNK_BYTES_MAX);
            let chunk = Vec::with_capacity(regular.max(space));
            self.bytes += chunk.capacity();
            self.chunks.push(chunk);
        }
        let number = index(self.chunks.len() - 1);
        let chunk = self.chunks.last_mut().expect("it was just pushed, or has the space");
        let begin = chunk.len();
        parts.iter().for_each(|part| chunk.extend_from_slice(part));
        assert!(chunk.len() - begin <= space, "the parts have space");
        chunk.resize(begin + space, 0);
        Handle { chunk: number, offset: index(begin) }
    }

    /// The first `count` bytes at a handle.
    #[inline]
    pub(super) fn get(&self, handle: Handle, count: usize) -> &[u8] {
        &self.chunks[handle.chunk as usize][handle.offset as usize..][..count]
    }

    /// The first `count` bytes at a handle, to be written.
    #[inline]
    pub(super) fn get_mut(&mut self, handle: Handle, count: usize) -> &mut [u8] {
        &mut self.chunks[handle.chunk as usize][handle.offset as usize..][..count]
    }

    /// The chunks, to be freed one by one.
    pub(super) fn into_chunks(self) -> impl Iterator<Item = Vec<u8>> {
        self.chunks.into_iter()
    }

    /// Memory held, used or not.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[inline]
fn index(value: usize) -> u32 {
    u32::try_from(value).expect("a memtable has far fewer than 2^32 chunks, a chunk fewer bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_stay_apart_and_large_ones_get_their_own_chunk() {
        let mut arena = Arena::default();
        let sizes = [1, ARENA_CHUNK_BYTES_MIN, 100, ARENA_CHUNK_BYTES_MAX + 1, 7, 0, 3000];
        let put = |(i, &size): (usize, &usize)| {
            let bytes = vec![i as u8 + 1; size / 2];
            arena.put([&bytes[..size / 4], &bytes[size / 4..]], size)
        };
        let handles: Vec<Handle> = sizes.iter().enumerate().map(put).collect();
        for (i, (&handle, &size)) in handles.iter().zip(&sizes).enumerate() {
            let (bytes, spare) = arena.get(handle, size).split_at(size / 2);
            assert!(bytes.iter().all(|&byte| byte == i as u8 + 1));
            assert!(spare.iter().all(|&byte| byte == 0), "what is spare is zeroed");
            arena.get_mut(handle, size).fill(i as u8 + 1);
        }
        for (i, (&handle, &size)) in handles.iter().zip(&sizes).enumerate() {
            assert!(arena.get(handle, size).iter().all(|&byte| byte == i as u8 + 1));
        }
        assert!(arena.bytes() >= sizes.iter().sum());
    }
}

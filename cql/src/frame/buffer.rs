//! How much memory the buffers of a connection keep for what comes next.
//!
//! Not here: when they give it back, which the server decides.

/// Gives back most of the memory that what is in a buffer does not need. It keeps twice so many bytes at most, or twice
/// what is in it: growing and giving back do not follow each other again and again.
pub fn give_back(buffer: &mut Vec<u8>, kept_bytes: usize) {
    if buffer.capacity() > 2 * buffer.len().max(kept_bytes) {
        buffer.shrink_to(kept_bytes);
    }
}

//! Asking the processor for memory that a scan comes to soon: a hint that changes nothing but the time.
//!
//! Rows that were written one by one lie all over the arena, so a scan in the order of clustering keys misses the
//! caches at each of them, and a row takes as long as memory does (100 ns) instead of as long as its instructions.
//!
//! Not here: how far ahead (`limits.rs`). On processors other than x86-64 nothing is asked for.

#![expect(unsafe_code, reason = "the instruction has no safe form in std")]

/// Bytes that a processor loads at once.
const LINE_BYTES: usize = 64;
/// So many bytes of a large row are asked for: the processor itself sees that the rest follows.
const PREFETCH_BYTES_MAX: usize = 4 * LINE_BYTES;

/// Asks for the first of these bytes.
#[inline]
pub(super) fn prefetch(bytes: &[u8]) {
    bytes[..bytes.len().min(PREFETCH_BYTES_MAX)].chunks(LINE_BYTES).for_each(ask);
}

/// Asks for the first bytes of a value.
#[inline]
pub(super) fn prefetch_value<T>(value: &T) {
    ask(value);
}

#[inline]
fn ask<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address: *const T = value;
        // SAFETY: the instruction reads nothing and cannot fault, wherever the address points; this is a reference's.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

//! Asking the processor for memory that a scan or a search comes to soon: a hint that changes nothing but the time.
//!
//! Rows that were written one by one lie all over the arena, so a scan in the order of clustering keys misses the
//! caches at each of them, and a row takes as long as memory does (100 ns) instead of as long as its instructions.
//!
//! 1. A scan asks for the row that lies [`PREFETCHED_ENTRIES`] ahead of the one that it shows.
//! 2. Of partitions the entry itself is asked for twice as far ahead, since the addresses of its key and row stand in
//!    it.
//! 3. A search asks for a leaf of at most [`SEARCHED_LEAF_BYTES_MAX`] at once. A binary search would wait for its lines
//!    one after the other, since each says which is next.
//! 4. Of rows and partitions, a read asks for none before its second: what it reads may end with the first.
//!
//! Measured when a memtable alone was still merged, together with the short way through `Merge::next`, a comparison of
//! integers without encoding and one of empty group keys (b4fcacc; one core of an AMD EPYC of the fourth generation):
//! `count(*)` over 500,000 rows in partitions of 250 went from 4.0 to 8.1 million rows a second.
//!
//! Not here: when a scan asks (`cursor.rs`), and when a search does (`leaves.rs`). On processors other than x86-64
//! nothing is asked for.

#![expect(unsafe_code, reason = "the instruction has no safe form in std")]

/// How many entries ahead a scan asks for the bytes of a row, or for the key and the row of a partition: about as many
/// as it goes through while memory answers.
pub(super) const PREFETCHED_ENTRIES: usize = 4;

/// Bytes that a processor loads at once.
const LINE_BYTES: usize = 64;
/// Bytes of a large row that are asked for: the processor itself sees that the rest follows.
const PREFETCH_BYTES_MAX: usize = 4 * LINE_BYTES;
/// A longer leaf is not asked for before it is searched, in bytes: those of partitions are no longer.
const SEARCHED_LEAF_BYTES_MAX: usize = 16 * LINE_BYTES;

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

/// Asks for the first line of each entry, if together they take at most [`SEARCHED_LEAF_BYTES_MAX`].
#[inline]
pub(super) fn prefetch_entries<T>(entries: &[T]) {
    if size_of_val(entries) <= SEARCHED_LEAF_BYTES_MAX {
        entries.iter().step_by((LINE_BYTES / size_of::<T>()).max(1)).for_each(ask);
    }
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

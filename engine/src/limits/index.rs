//! The limits of indexes: their files, lookups, files of vectors, searches for the nearest rows.
//!
//! In this order: what bounds an index file and the memory in which it is made; what bounds files of vectors; what
//! searches for the nearest rows may hold in memory, one of them and all of a shard together; what a lookup holds and
//! looks at; and what a lookup is taken to cost, in rows of a scan, so that a read uses an index only where that is
//! worth it.
//!
//! Not here: the other limits of the engine (`limits.rs`), how large a term may be (`model/src/limits.rs`).

use super::BLOCK_BYTES_MAX;

/// A block of terms or of postings of an index file is closed when it has so many bytes: one device page.
pub const INDEX_BLOCK_BYTES: usize = 4 << 10;

/// A node of the directory of an index file is closed when it has so many bytes.
pub const TERM_DIRECTORY_NODE_BYTES: usize = 16 << 10;

/// What leads to the nodes is in memory while the file is open. A file in which it is longer is not made, and its
/// sstable is scanned: some 400 GB of terms, or a hundredth of that if they all begin alike.
pub const TERM_DIRECTORY_BYTES_MAX: usize = 64 << 20;
const _: () = assert!(TERM_DIRECTORY_BYTES_MAX <= BLOCK_BYTES_MAX);

/// Terms of the indexes of one sstable being made that are sorted in memory: more are written out as runs.
pub const INDEX_SORT_BYTES: usize = 512 << 10;

/// At most this many runs are merged at once.
pub const INDEX_RUNS_MERGED_MAX: usize = 16;

/// An sstable of fewer rows gets no file of vectors: going over its rows costs little, and is exact.
pub const VECTOR_FILE_ROWS_MIN: u64 = 4096;

/// An index of longer vectors gets no file, in dimensions, which are the bytes of a term: terms are sorted in runs, of
/// which some frames are in memory at once. Going over the rows is exact.
pub const VECTOR_FILE_DIMENSIONS_MAX: u32 = 16 << 10;

/// Lists of vectors in a file at most: each search measures the centroid of each.
pub const VECTOR_LISTS_MAX: u64 = 1024;

/// Bytes of the centroids of a file while it is made; as many again are sums. Of long vectors there are fewer lists.
pub const VECTOR_CENTROID_BYTES_MAX: usize = 512 << 10;

/// Bytes of the vectors from which centroids are made.
pub const VECTOR_SAMPLE_BYTES_MAX: usize = 1 << 20;

/// Candidates that a search keeps at a time at most; one that needs more goes over all rows.
pub const NEAREST_CANDIDATES_MAX: usize = 32 << 10;

/// Bytes of the candidates that a search keeps at a time, their keys included; one that needs more goes over all rows.
pub const NEAREST_CANDIDATE_BYTES_MAX: usize = 8 << 20;
/// No search keeps fewer bytes of candidates, and none fewer bytes of rows than twice this.
pub const NEAREST_CANDIDATE_BYTES_MIN: usize = 512 << 10;
/// The candidates of a search take at most 1/128 of a shard's memory.
pub const NEAREST_CANDIDATE_MEMORY_DIVISOR: usize = 128;
/// The rows that it has found take at most 1/32; they are in memory twice when they are given.
pub const NEAREST_ROWS_MEMORY_DIVISOR: usize = 32;
/// All searches of a shard take at most 1/8 of its memory, or are one. Others wait in order.
pub const NEAREST_MEMORY_DIVISOR: usize = 8;

/// What the rows of one search may take on a shard with so much memory, in bytes.
pub const fn nearest_rows_bytes(memory_bytes: usize) -> usize {
    let part = memory_bytes / NEAREST_ROWS_MEMORY_DIVISOR;
    let (least, most) = (2 * NEAREST_CANDIDATE_BYTES_MIN, model::limits::NEAREST_ROWS_BYTES_MAX);
    if part < least {
        least
    } else if part > most {
        most
    } else {
        part
    }
}

/// The same of its candidates.
pub const fn nearest_candidate_bytes(memory_bytes: usize) -> usize {
    let part = memory_bytes / NEAREST_CANDIDATE_MEMORY_DIVISOR;
    let (least, most) = (NEAREST_CANDIDATE_BYTES_MIN, NEAREST_CANDIDATE_BYTES_MAX);
    if part < least {
        least
    } else if part > most {
        most
    } else {
        part
    }
}

const _: () = assert!(
    2 * NEAREST_MEMORY_DIVISOR * (NEAREST_ROWS_MEMORY_DIVISOR + NEAREST_CANDIDATE_MEMORY_DIVISOR)
        <= NEAREST_ROWS_MEMORY_DIVISOR * NEAREST_CANDIDATE_MEMORY_DIVISOR,
    "there is space for a search"
);

/// Candidates of one source that a lookup of several terms keeps at a time, in bytes some 16 for each of a file.
pub const LOOKUP_PLACES_AT_ONCE: usize = 8 << 10;

/// The same of a memtable, with their keys.
pub const LOOKUP_ROWS_AT_ONCE: usize = 1 << 10;

/// Rows of one partition that a lookup reads at once.
pub const LOOKUP_SLICES_AT_ONCE: usize = 256;

/// Candidates of one partition that a lookup in reversed order takes in hand, to read them from the last on: of more
/// the partition is read. Their clustering keys take as many bytes at most as [`LOOKUP_REVERSED_BYTES_MAX`].
pub const LOOKUP_REVERSED_ROWS_MAX: usize = 16 << 10;

/// Bytes of the clustering keys of candidates of one partition that are taken in hand, after which no other is.
pub const LOOKUP_REVERSED_BYTES_MAX: usize = 1 << 20;

/// Ranges of terms that are counted to know what a lookup costs; so many more are taken to be like them.
pub const LOOKUP_RANGES_COUNTED: usize = 32;

/// Index files of which a lookup reads blocks at once, one of each at a time.
pub const LOOKUP_FILES_AHEAD: usize = 16;

/// Longest block of rows, in bytes of the file, that a lookup reads beside others.
pub const LOOKUP_BLOCK_AHEAD_BYTES_MAX: usize = 24 << 10;

/// What these blocks take, in bytes: a read that may use an index is counted with as much, beside the longest row.
pub const LOOKUP_AHEAD_BYTES: usize = LOOKUP_FILES_AHEAD * LOOKUP_BLOCK_AHEAD_BYTES_MAX;

/// Reads of ranges by indexes that are under way on a shard hold at most 1/64 of its memory, or are one: others
/// wait in order, and for no scan.
pub const LOOKUP_MEMORY_DIVISOR: usize = 64;

/// A candidate costs about as much as so many rows in a scan.
pub const LOOKUP_WORTH: u64 = 4;

/// Asking the index file of an sstable, two or three blocks of it, costs about as much as so many rows in a scan.
pub const LOOKUP_ROWS_OF_A_FILE: u128 = 64;

/// This many postings are gone through in the time of one row of a scan.
pub const LOOKUP_POSTINGS_OF_A_ROW: u128 = 16;

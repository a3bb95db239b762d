//! Every limit of the engine, by name, with the relations between them.
//!
//! A limit is here and nowhere else; what happens when it is reached is said beside it.

/// Buffers, offsets and lengths of a direct write are multiples of this: the page of every filesystem and
/// device met so far. A write that is not is our bug.
pub const WRITE_ALIGN_BYTES: usize = 4096;

/// A longer read is split: with polled completions one request larger than the device's
/// `max_sectors_kb` has hung (glommio issue 633).
pub const READ_PART_BYTES_MAX: usize = 128 << 10;

/// The unit that a simulated device writes whole or not at all.
pub const SIM_SECTOR_BYTES: usize = 512;

/// A path inside the data directory. Longer is `Invalid`.
pub const PATH_BYTES_MAX: usize = 255;

const _: () = assert!(WRITE_ALIGN_BYTES.is_multiple_of(SIM_SECTOR_BYTES));
const _: () = assert!(READ_PART_BYTES_MAX.is_multiple_of(WRITE_ALIGN_BYTES));

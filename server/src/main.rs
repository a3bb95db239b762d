//! The binary `messina`.
#![expect(unsafe_code, reason = "the allocator's options have no wrapper that is safe")]

use std::ffi::{c_int, c_long};

/// Heaps per thread suit one thread per core.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of `mi_option_purge_delay` in `mimalloc.h` of version 3; the test sees whether it still is.
const PURGE_DELAY: c_int = 15;
/// Milliseconds that mean: never.
const NEVER: c_long = -1;

// SAFETY: as `mimalloc.h` declares it.
unsafe extern "C" {
    /// Sets an option that the environment (`MIMALLOC_PURGE_DELAY`) leaves open.
    fn mi_option_set_default(option: c_int, value: c_long);
}

fn main() {
    keep_freed_memory();
    // Executors are not torn down: all that matters is on the disk.
    shard::os::cpus::exit(messina_server::main())
}

/// What is freed is kept for what is allocated next, and not given back to the kernel.
///
/// Memtables are freed in pieces, with pauses, but the allocator collects what was freed and gives it back a second
/// later, all at once, in the middle of whatever allocates then: 60 ms for 600 MB, in which the core answered no
/// client. The next memtables fault each page in again, which is a part of what a load costs the kernel. What a node
/// holds is bounded by its budget, whether it is in use or not.
fn keep_freed_memory() {
    // SAFETY: it takes two numbers, and one that is no option is ignored.
    unsafe { mi_option_set_default(PURGE_DELAY, NEVER) };
}

#[cfg(test)]
mod tests {
    use super::*;

    // SAFETY: as `mimalloc.h` declares it.
    unsafe extern "C" {
        /// Gives back what the options allow, at once if `force`.
        fn mi_collect(force: bool);
    }

    fn resident_bytes() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    /// Before: a flushed memtable made the core stand still for 43 ms a second after it was freed.
    #[test]
    fn freed_memory_stays_for_what_comes_next() {
        const CHUNK_BYTES: usize = 1 << 20;
        const CHUNKS: usize = 64;
        keep_freed_memory();
        let chunks: Vec<Box<[u8]>> =
            (0..CHUNKS).map(|_| vec![1; CHUNK_BYTES].into_boxed_slice()).collect();
        let held = resident_bytes();
        assert!(held >= CHUNKS * CHUNK_BYTES);
        drop(chunks);
        // SAFETY: it takes a flag, and every thread may call it.
        unsafe { mi_collect(true) };
        let kept = resident_bytes();
        assert!(kept >= held - 8 * CHUNK_BYTES, "{held} bytes before, {kept} after");
    }
}

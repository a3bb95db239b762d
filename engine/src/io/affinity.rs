//! Where the threads beside a core run: wherever the process may.
//!
//! A core's thread is bound to its processor, and each thread that it starts begins with that binding. A thread that
//! computes or blocks on the core's processor would take turns with the core itself.

#![expect(unsafe_code, reason = "std sets no affinity")]

use std::mem::{self, MaybeUninit};

/// Lets the calling thread run where the process may: it was started by a thread that is bound to its core.
pub fn leave_the_core() {
    let bytes = mem::size_of::<libc::cpu_set_t>();
    let mut cpus = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // The first thread has the number of the process, and is bound to nothing.
    let first = std::process::id().cast_signed();
    // SAFETY: `cpus` has space for a set of so many bytes.
    let known = unsafe { libc::sched_getaffinity(first, bytes, cpus.as_mut_ptr()) };
    if known == 0 {
        // SAFETY: the set was filled above. If it is refused the thread stays where it is.
        let _ = unsafe { libc::sched_setaffinity(0, bytes, cpus.as_ptr()) };
    }
}

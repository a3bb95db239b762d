//! How long the calling thread has had a processor, to the nanosecond.
//!
//! `schedstat` counts the same, but as of the last tick of the kernel, some milliseconds ago. Time in which the host of a
//! virtual machine ran others is not in it, where the host tells the kernel of that time (steal).
#![expect(unsafe_code, reason = "clock_gettime(2) of a thread's own clock has no wrapper in std")]

use std::time::Duration;

/// The processor time of the calling thread since its start, user and system. A system call.
pub(crate) fn of_this_thread() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert!(result == 0, "every thread of Linux has this clock");
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_thread_is_charged_for_what_it_computes_and_not_for_its_sleep() {
        let ms = Duration::from_millis;
        let before = of_this_thread();
        std::thread::sleep(ms(20));
        let slept = of_this_thread() - before;
        assert!(slept < ms(10), "{slept:?}");
        let began = Instant::now();
        while of_this_thread() - before < ms(12) {}
        assert!(began.elapsed() >= ms(2), "it takes at least as long as it computes");
    }
}

//! Steps counted in tests: work that has to grow with its input, and not with the square of it. Elsewhere nothing is
//! counted.

#[cfg(test)]
thread_local!(static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });

/// Notes so many steps.
#[inline(always)]
pub(crate) fn step(count: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + count);
    let _ = count;
}

/// How many steps the work took, and what came of it.
#[cfg(test)]
pub(crate) fn steps_of<T>(work: impl FnOnce() -> T) -> (usize, T) {
    STEPS.set(0);
    let made = work();
    (STEPS.get(), made)
}

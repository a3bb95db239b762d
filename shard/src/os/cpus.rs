//! Which processors this process may use, and binding a thread to one.
//!
//! Both limits count: the affinity mask (taskset, cpusets) says which, and a control group's quota
//! says how many processors' worth of time there is. More executors than that would only take
//! turns, so the default shard count is the smaller of the two.
#![expect(unsafe_code, reason = "sched_setaffinity(2) has no wrapper in std")]

use std::io;

use super::checked;

const MASK_BYTES: usize = size_of::<libc::cpu_set_t>();

/// The processors of this process's affinity mask, ascending.
pub fn allowed() -> io::Result<Vec<usize>> {
    // SAFETY: an all-zero `cpu_set_t` is the empty set.
    let mut mask: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `MASK_BYTES` to a mask of that size.
    checked(unsafe { libc::sched_getaffinity(0, MASK_BYTES, &mut mask) })?;
    let set = |cpu: &usize| {
        // SAFETY: `cpu` is below the number of bits of the mask.
        unsafe { libc::CPU_ISSET(*cpu, &mask) }
    };
    Ok((0..8 * MASK_BYTES).filter(set).collect())
}

/// The processors to put one shard each on: those allowed, cut to the control group's quota.
pub fn usable() -> io::Result<Vec<usize>> {
    let mut cpus = allowed()?;
    if let Some(quota) = std::fs::read_to_string("/sys/fs/cgroup/cpu.max").ok().and_then(quota_cpus)
    {
        cpus.truncate(quota);
    }
    Ok(cpus)
}

/// Whole processors of a `cpu.max` line such as `150000 100000`: rounded up, at least one.
fn quota_cpus(cpu_max: String) -> Option<usize> {
    let (quota, period) = cpu_max.trim().split_once(' ')?;
    let (quota, period): (usize, usize) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| quota.div_ceil(period).max(1))
}

/// Binds the calling thread, and the threads it will start, to `cpu`.
pub fn bind(cpu: usize) -> io::Result<()> {
    assert!(cpu < 8 * MASK_BYTES, "a processor's number fits the mask");
    // SAFETY: an all-zero `cpu_set_t` is the empty set.
    let mut mask: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below the number of bits of the mask.
    unsafe { libc::CPU_SET(cpu, &mut mask) };
    // SAFETY: the kernel reads `MASK_BYTES` from a mask of that size.
    checked(unsafe { libc::sched_setaffinity(0, MASK_BYTES, &mask) }).map(drop)
}

/// How much memory this process may lock, soft limit.
pub fn memlock_bytes() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit`.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) })?;
    Ok(limit.rlim_cur)
}

/// How many descriptors this process may have, soft limit.
pub fn descriptors() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit`.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    Ok(limit.rlim_cur)
}

/// Ends the process at once, running no destructor of any thread: executors are not torn down,
/// because tearing one down with tasks on it is where glommio panics and hangs.
pub fn exit(status: i32) -> ! {
    // SAFETY: takes one number and does not return.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quotas round up, and `max` is none.
    #[test]
    fn quotas() {
        let quota = |line: &str| quota_cpus(line.to_owned());
        assert_eq!(quota("max 100000\n"), None);
        assert_eq!(quota("150000 100000\n"), Some(2));
        assert_eq!(quota("200000 100000\n"), Some(2));
        assert_eq!(quota("1000 100000\n"), Some(1));
        assert_eq!(quota(""), None);
    }

    /// A bound thread is allowed on its processor only.
    #[test]
    fn bind_narrows_the_mask() {
        let cpu = *allowed().unwrap().last().expect("we run on something");
        let seen = std::thread::spawn(move || bind(cpu).and_then(|()| allowed()));
        assert_eq!(seen.join().unwrap().unwrap(), [cpu]);
    }
}

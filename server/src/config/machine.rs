//! What this machine, or the container around us, lets us use.

use std::fs;

/// Memory this process may use: the machine's, or less if its control group says so.
pub(crate) fn memory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total(&text));
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse::<u64>().ok());
    // Neither is readable only where /proc is not mounted; then be modest.
    machine.into_iter().chain(group).min().unwrap_or(1 << 30)
}

fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        assert_eq!(mem_total("MemTotal:       16316412 kB\nMemFree: 1 kB\n"), Some(16_708_005_888));
        assert_eq!(mem_total("Memory: 7\n"), None);
        assert!(memory_bytes() > 1 << 20);
    }
}

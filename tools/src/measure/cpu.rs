//! CPU time and memory of this process and of the server, as the kernel accounts them.
//!
//! Both come from `/proc/PID/stat` (all threads, in clock ticks of 10 ms: exact enough over
//! seconds) and `/proc/PID/status` (memory, context switches).

use std::fs;

use serde::{Deserialize, Serialize};

/// Ticks a second that the kernel reports in; `USER_HZ` is 100 on every Linux we run on.
const TICK_MS: u64 = 10;

/// What a process has used so far, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// In its own code.
    pub user_ms: u64,
    /// In the kernel on its behalf.
    pub system_ms: u64,
    /// Times a thread went to sleep.
    pub sleeps: u64,
    /// Memory resident now.
    pub resident_kib: u64,
    /// The most memory that ever was resident.
    pub resident_max_kib: u64,
}

impl Usage {
    /// Of process `pid` so far; `None` if there is no such process.
    pub fn of(pid: u32) -> Option<Usage> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (user, system) = parse_stat(&stat)?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let mut usage = Usage {
            user_ms: user * TICK_MS,
            system_ms: system * TICK_MS,
            sleeps: 0,
            resident_kib: status_number(&status, "VmRSS:").unwrap_or(0),
            resident_max_kib: status_number(&status, "VmHWM:").unwrap_or(0),
        };
        for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            usage.sleeps += status_number(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        }
        Some(usage)
    }

    /// Of this process so far.
    pub fn of_self() -> Usage {
        Usage::of(std::process::id()).unwrap_or_default()
    }

    /// What was used since `earlier`; memory is that of now.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            user_ms: self.user_ms.saturating_sub(earlier.user_ms),
            system_ms: self.system_ms.saturating_sub(earlier.system_ms),
            sleeps: self.sleeps.saturating_sub(earlier.sleeps),
            ..*self
        }
    }

    /// User and system CPU time per operation, in µs.
    pub fn micros_per(&self, operations: u64) -> (f64, f64) {
        let share = |ms: u64| ms as f64 * 1000.0 / operations.max(1) as f64;
        (share(self.user_ms), share(self.system_ms))
    }
}

/// User and system ticks: fields 14 and 15, counted after the command, which may hold anything.
fn parse_stat(stat: &str) -> Option<(u64, u64)> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn status_number(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_command_name() {
        let stat = "42 (a) b (c)) S 1 1 1 0 -1 4194304 9 0 0 0 123 45 6 7 20 0 8 0 99";
        assert_eq!(parse_stat(stat), Some((123, 45)));
        assert_eq!(parse_stat("nonsense"), None);
    }

    #[test]
    fn this_process_is_resident_and_pid_0_is_nobody() {
        let usage = Usage::of_self();
        assert!(usage.resident_kib > 0 && usage.resident_max_kib >= usage.resident_kib);
        assert_eq!(Usage::of(0), None);
    }

    #[test]
    fn usage_is_shared_among_operations() {
        let before = Usage { user_ms: 100, system_ms: 50, ..Usage::default() };
        let after = Usage { user_ms: 300, system_ms: 60, ..Usage::default() };
        assert_eq!(after.since(&before).micros_per(1000), (200.0, 10.0));
    }
}

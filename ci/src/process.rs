//! Ending a command with everything it started, and what a process has computed.
//!
//! Commands stay in the process group of `cargo ci`, so that Ctrl-C ends them all; so a command
//! that has to go cannot be killed as a group, and its descendants are found in /proc.
//!
//! Invariant: only descendants of the given process are killed.

use std::fs;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

/// A tick of the kernel's accounts: `USER_HZ` is 100.
const TICK_MS: u64 = 10;

/// Kills a process and its descendants; one that just ended is no error.
pub(crate) fn kill_tree(root: u32) {
    let parents = parents();
    let mut doomed = vec![root];
    let mut next = 0;
    while let Some(&parent) = doomed.get(next) {
        doomed.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(child, _)| *child));
        next += 1;
    }
    let pids: Vec<String> = doomed.iter().map(u32::to_string).collect();
    // `kill` complains of those that ended meanwhile, which is what was wanted.
    let _ = Command::new("kill").arg("-KILL").args(pids).output();
}

/// Every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| Some((pid, parent_of(pid)?))).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    field(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?, 4)
}

/// What a process has computed, in its own code and in the kernel, by threads that have ended, too.
pub(crate) fn processor_time(pid: u32) -> Option<Duration> {
    spent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn spent(stat: &str) -> Option<Duration> {
    Some(Duration::from_millis((field::<u64>(stat, 14)? + field::<u64>(stat, 15)?) * TICK_MS))
}

/// A field of /proc/PID/stat, from 1 and behind the second: that is a name in parentheses that may hold anything.
fn field<T: FromStr>(stat: &str, number: usize) -> Option<T> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: threads were added up, and one that ended took what it had computed with it.
    #[test]
    fn what_a_process_has_computed_is_counted_by_the_kernel() {
        let stat = "42 (a) b (c)) S 7 1 1 0 -1 4194304 9 0 0 0 123 45 6 7 20 0 8 0 99";
        assert_eq!(spent(stat), Some(Duration::from_millis(1680)));
        assert_eq!(field(stat, 4), Some(7_u32));
        assert_eq!(spent("nonsense"), None);
        assert!(processor_time(std::process::id()).is_some());
    }

    #[test]
    fn grandchildren_are_killed_too() {
        let mut child = Command::new("bash").args(["-c", "sleep 600 & wait"]).spawn().unwrap();
        let grandchild = loop {
            if let Some((pid, _)) = parents().iter().find(|(_, parent)| *parent == child.id()) {
                break *pid;
            }
        };
        kill_tree(child.id());
        assert!(!child.wait().unwrap().success());
        // A zombie waits for the process that adopted it; it runs no more.
        let runs = || {
            fs::read_to_string(format!("/proc/{grandchild}/stat"))
                .is_ok_and(|stat| !stat.contains(") Z "))
        };
        let left = (0..10_000).take_while(|_| runs()).inspect(|_| std::thread::yield_now());
        assert!(left.count() < 10_000, "the grandchild survived");
    }
}

//! Ending a command with everything it started.
//!
//! Commands stay in the process group of `cargo ci`, so that Ctrl-C ends them all; so a command
//! that has to go cannot be killed as a group, and its descendants are found in /proc.
//!
//! Invariant: only descendants of the given process are killed.

use std::fs;
use std::process::Command;

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

/// The fourth field of /proc/PID/stat; the second is a name in parentheses that may hold anything.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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

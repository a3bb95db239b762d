//! Instructions of `measured_region`, by callgrind.

use std::path::Path;
use std::process::Command;

use crate::compare::{Failed, Result, run_to_end};

/// Collection is on inside this function.
const REGION: &str = "*measured_region*";

/// Instructions that `program` with `arguments` executes inside the measured region.
pub fn instructions(program: &Path, arguments: &[&str]) -> Result<u64> {
    let out = tempfile::NamedTempFile::new().map_err(Failed::io("making a file for callgrind"))?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--collect-atstart=no"]);
    command.arg(format!("--callgrind-out-file={}", out.path().display()));
    command.arg(format!("--toggle-collect={REGION}"));
    run_to_end(command.arg(program).args(arguments))?;
    let text =
        std::fs::read_to_string(out.path()).map_err(Failed::io("reading callgrind's file"))?;
    total(&text).ok_or_else(|| Failed("callgrind's file has no total".into()))
}

/// The line `totals: N` of callgrind's file.
fn total(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        assert_eq!(total("version: 1\nfn=(1) x\n1 5\n\ntotals: 12345\n"), Some(12345));
        assert_eq!(total(""), None);
    }
}

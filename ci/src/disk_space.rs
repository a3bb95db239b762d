//! Whether the disk has space for a whole run: a lack of it fails many tests, and none of them says so.

use std::path::Path;
use std::process::Command;

use crate::repository::Repository;
use crate::step::{Done, Failure, Outcome};

/// Bytes that a whole run wants: 9 GiB that it builds and installs, and space in which servers take writes.
const RUN_BYTES: u64 = 16 << 30;

/// Fails if less is free than a run takes beside what `target` holds.
pub(crate) fn check(repository: &Repository) -> Outcome {
    let root = repository.root();
    let free = first_number(repository.command("df").args(["--output=avail", "-B1"]).arg(root), 1)?;
    let target = root.join("target");
    let taken = match target.is_dir() {
        true => first_number(repository.command("du").args(["-s", "-B1"]).arg(&target), 0)?,
        false => 0,
    };
    verdict(root, free, taken)
}

fn verdict(root: &Path, free: u64, taken: u64) -> Outcome {
    if free.saturating_add(taken) >= RUN_BYTES {
        return Ok(Done::Passed(1));
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    Err(Failure::from(format!(
        "{:.1} GiB are free where {} lies, and its target folder holds {:.1}: a whole run wants {:.0}",
        gib(free),
        root.display(),
        gib(taken),
        gib(RUN_BYTES)
    )))
}

/// The number that a line of what a command says begins with.
pub(crate) fn first_number(command: &mut Command, line: usize) -> Result<u64, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let word = said.lines().nth(line).and_then(|line| line.split_whitespace().next());
    let number = word.and_then(|word| word.parse().ok());
    number.ok_or_else(|| format!("{command:?} says no number in line {}: {said}", line + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_counts_as_free() {
        let is_enough = |free, taken| verdict(Path::new("/checkout"), free, taken).is_ok();
        assert!(is_enough(RUN_BYTES, 0) && is_enough(1, RUN_BYTES - 1));
        assert!(!is_enough(RUN_BYTES - 1, 0));
    }

    #[test]
    fn the_numbers_of_df_and_du_are_read() {
        let said = |text: &str, line| first_number(Command::new("printf").arg(text), line);
        assert_eq!(said("      Avail\n14201856000\n", 1), Ok(14_201_856_000));
        assert_eq!(said("4096\t/checkout/target\n", 0), Ok(4096));
        assert!(said("df: no such file", 1).is_err());
    }
}

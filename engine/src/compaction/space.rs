//! A goal for the space that overwritten rows take: what lies above the largest run is merged into it in time.
//!
//! ```text
//! largest run   ████████████████████████████████
//! the others    ██████ ███ █                        more than the goal allows: all become one run
//! ```
//!
//! Runs of similar size may lie side by side for long, each with another version of the same rows. In the worst case
//! all that the largest run holds is in the others too; then the others are what could be freed. The goal bounds
//! them (`space_amplification_goal` of ScyllaDB's incremental strategy, which compares its two largest tiers).

use super::piece::{Candidate, Run, all_runs};

/// Less than this beside the largest run is not worth a merge of everything, whatever part of it that is.
const BYTES_MIN: u64 = 64 << 20;

/// The pieces of all of `free`, if those beside the largest run are more than `goal` allows.
pub(super) fn over_goal(pieces: &[Candidate], free: &[Run], goal: f64) -> Option<Vec<usize>> {
    let largest = all_runs(pieces).last()?.bytes;
    let (last, others) = free.split_last()?;
    if last.bytes < largest {
        // The largest is in a merge already, or cannot be merged.
        return None;
    }
    let bytes: u64 = others.iter().map(|run| run.bytes).sum();
    if bytes < BYTES_MIN || bytes as f64 <= (goal - 1.0) * largest as f64 {
        return None;
    }
    Some(free.iter().flat_map(|run| run.pieces.iter().copied()).collect())
}

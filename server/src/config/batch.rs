//! From when on batches are warned of and refused: three settings that the language acts on.

pub(super) use cql::plan::BatchThresholds;

use super::Choices;

/// What was chosen, and the language's defaults.
pub(super) fn thresholds(choices: &Choices) -> BatchThresholds {
    let default = BatchThresholds::default();
    let bytes = |choice: Option<u64>, default| choice.map_or(default, |bytes| bytes as usize);
    let partitions = choices.batch_unlogged_partitions;
    BatchThresholds {
        warn_bytes: bytes(choices.batch_warn_bytes, default.warn_bytes),
        fail_bytes: bytes(choices.batch_fail_bytes, default.fail_bytes),
        unlogged_partitions: partitions.unwrap_or(default.unlogged_partitions),
    }
}

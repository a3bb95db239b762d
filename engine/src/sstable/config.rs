//! How a table's files are written, from the options of the table.

use super::frame::Codec;
use crate::limits::{BLOCK_TARGET_BYTES_MAX, BLOCK_TARGET_BYTES_MIN};
use model::TableId;
use model::options::Algorithm;
use model::schema::Table;

/// How a file is written.
#[derive(Clone, Debug, PartialEq)]
pub struct WriterConfig {
    /// Whose data it is.
    pub table: TableId,
    /// How blocks are compressed.
    pub codec: Codec,
    /// Bytes of a block before compression; one row may make a larger one.
    pub block_bytes: usize,
    /// Which part of absent keys the filter may take for present; 1 is no filter.
    pub filter_fp_chance: f64,
    /// About how many partitions will come.
    pub partitions_expected: u64,
}

impl WriterConfig {
    /// What the table asks for, for a file of about so many partitions.
    pub fn of_table(table: &Table, partitions_expected: u64) -> WriterConfig {
        let compression = &table.options.compression;
        WriterConfig {
            table: table.id,
            codec: match compression.algorithm() {
                Algorithm::Plain => Codec::None,
                Algorithm::Lz4 => Codec::Lz4,
                Algorithm::Zstd(level) => Codec::Zstd(level),
            },
            block_bytes: compression
                .chunk_bytes()
                .clamp(BLOCK_TARGET_BYTES_MIN, BLOCK_TARGET_BYTES_MAX),
            filter_fp_chance: table.options.bloom_filter_fp_chance,
            partitions_expected,
        }
    }
}

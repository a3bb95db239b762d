//! How a table's files are written, from the options of the table.

use std::sync::Arc;

use model::TableId;
use model::options::Algorithm;
use model::schema::{Column, ColumnKind, Table};

use super::frame::Codec;
use crate::limits::{BLOCK_TARGET_BYTES_MAX, BLOCK_TARGET_BYTES_MIN, FILTER_PIECE_BYTES};

/// How a file is written.
#[derive(Clone, Debug, PartialEq)]
pub struct WriterConfig {
    /// Whose data it is.
    pub table: TableId,
    /// How blocks are compressed.
    pub codec: Codec,
    /// The file is merged into others soon: only blocks of which a sixth is saved are compressed.
    pub merged_soon: bool,
    /// Bytes of a block before compression; one row may make a larger one.
    pub block_bytes: usize,
    /// The share of absent keys for which the filter may say that they are present, above 0; 1 makes no filter.
    pub filter_fp_chance: f64,
    /// About how many bytes a piece of the filter has; a filter that is no longer has no pieces.
    pub filter_piece_bytes: usize,
    /// Whether rows may hold values as they were written beside their ordered bytes.
    pub written_forms: bool,
    /// The table whose indexes get files beside it.
    pub indexed: Option<Arc<Table>>,
}

impl WriterConfig {
    /// What the table asks for.
    pub fn of_table(table: &Table) -> WriterConfig {
        let compression = &table.options.compression;
        WriterConfig {
            table: table.id,
            codec: match compression.algorithm() {
                Algorithm::Plain => Codec::None,
                Algorithm::Lz4 => Codec::Lz4,
                Algorithm::Zstd(level) => Codec::Zstd(level),
            },
            merged_soon: false,
            block_bytes: compression
                .chunk_bytes()
                .clamp(BLOCK_TARGET_BYTES_MIN, BLOCK_TARGET_BYTES_MAX),
            filter_fp_chance: table.options.bloom_filter_fp_chance,
            filter_piece_bytes: FILTER_PIECE_BYTES,
            written_forms: table.columns().iter().any(may_hold_written_forms),
            indexed: table.term_indexes().next().is_some().then(|| Arc::new(table.clone())),
        }
    }

    /// What the table asks for, for a file that a flush writes. Unless compaction is disabled a merge soon reads the
    /// file and compresses its rows again, so that a block is compressed only if that saves a sixth of it. Before, LZ4
    /// in flushes took 4 % of the processor time of a load whose blocks it made a seventh smaller.
    pub fn of_flush(table: &Table) -> WriterConfig {
        let merged_soon = table.options.compaction.enabled();
        WriterConfig { merged_soon, ..WriterConfig::of_table(table) }
    }
}

/// Whether a column puts decimals where they are ordered: into a clustering key, or into the key of an element.
fn may_hold_written_forms(column: &Column) -> bool {
    let is_ordered = column.kind == ColumnKind::Clustering || column.ty.is_multi_cell();
    is_ordered && column.ty.has_scale()
}

#[cfg(test)]
mod tests {
    use model::CqlType;
    use model::options::Compaction;
    use model::schema::TableBuilder;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_file_that_may_hold_written_forms_says_so() {
        let table = || {
            let key = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)));
            key.partition_key("k", CqlType::Decimal)
        };
        let set = CqlType::Set { element: Arc::new(CqlType::Decimal), frozen: false };
        let says = |table: Table| WriterConfig::of_table(&table).written_forms;
        let plain = table().and_then(|t| t.regular("v", CqlType::Decimal));
        assert!(!says(plain.and_then(TableBuilder::build).unwrap()));
        let clustered = table().and_then(|t| t.clustering("c", CqlType::Decimal, false));
        assert!(says(clustered.and_then(TableBuilder::build).unwrap()));
        let collected = table().and_then(|t| t.regular("s", set));
        assert!(says(collected.and_then(TableBuilder::build).unwrap()));
    }

    #[test]
    fn what_a_flush_writes_is_merged_soon_unless_it_is_never_merged() {
        let of = |enabled: &str| {
            let given = [("class", "UnifiedCompactionStrategy"), ("enabled", enabled)];
            let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let key = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)));
            let table = key.partition_key("k", CqlType::Int).and_then(TableBuilder::build);
            let mut table = table.unwrap();
            table.options.compaction = Compaction::parse(&given.into()).unwrap();
            (WriterConfig::of_flush(&table).merged_soon, WriterConfig::of_table(&table).merged_soon)
        };
        assert_eq!(of("true"), (true, false));
        assert_eq!(of("false"), (false, false));
    }
}

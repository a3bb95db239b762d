//! How a table's files are written, from the options of the table.
//!
//! The options are Cassandra's. Its LZ4 and Zstandard are ours; Snappy is written as LZ4, which is faster and
//! smaller, and Deflate as Zstandard: a codec is named in every block, so a reader need not know the options.

use super::frame::Codec;
use crate::limits::{BLOCK_TARGET_BYTES_MAX, BLOCK_TARGET_BYTES_MIN};
use model::schema::Table;
use model::{TableId, options::TableOptions};

/// Blocks of a table that does not say.
const BLOCK_BYTES: usize = 4096;
/// Level of Zstandard of a table that does not say: Cassandra's.
const ZSTD_LEVEL: i32 = 3;

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
        let options = &table.options;
        let compression = |name: &str| options.compression.get(name).map(String::as_str);
        let kilobytes = compression("chunk_length_in_kb").or(compression("chunk_length_kb"));
        let bytes = kilobytes.and_then(|kb| kb.parse::<usize>().ok()).map(|kb| kb << 10);
        WriterConfig {
            table: table.id,
            codec: codec_of(options),
            block_bytes: bytes
                .unwrap_or(BLOCK_BYTES)
                .clamp(BLOCK_TARGET_BYTES_MIN, BLOCK_TARGET_BYTES_MAX),
            filter_fp_chance: options.bloom_filter_fp_chance,
            partitions_expected,
        }
    }
}

fn codec_of(options: &TableOptions) -> Codec {
    let option = |name: &str| options.compression.get(name).map(String::as_str);
    if option("enabled").is_some_and(|enabled| enabled.eq_ignore_ascii_case("false")) {
        return Codec::None;
    }
    let class = option("class").or(option("sstable_compression")).unwrap_or_default();
    match class.rsplit('.').next().unwrap_or_default() {
        "LZ4Compressor" | "SnappyCompressor" => Codec::Lz4,
        "ZstdCompressor" | "DeflateCompressor" => {
            let level = option("compression_level").and_then(|level| level.parse().ok());
            Codec::Zstd(level.unwrap_or(ZSTD_LEVEL))
        }
        _ => Codec::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CqlType;
    use model::schema::TableBuilder;
    use uuid::Uuid;

    fn config(compression: &[(&str, &str)]) -> WriterConfig {
        let pairs = compression.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let options = TableOptions { compression: pairs.collect(), ..TableOptions::default() };
        let table = TableBuilder::new("k", "t", TableId(Uuid::nil())).options(options);
        let table = table.partition_key("p", CqlType::Int).unwrap().build().unwrap();
        WriterConfig::of_table(&table, 7)
    }

    #[test]
    fn options_are_cassandras() {
        let default = TableOptions::default().compression;
        let pairs: Vec<_> = default.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let plain = config(&pairs);
        assert_eq!(
            (plain.codec, plain.block_bytes, plain.filter_fp_chance),
            (Codec::Lz4, 4096, 0.01)
        );
        assert_eq!(config(&[]).codec, Codec::None);
        assert_eq!(config(&[("class", "LZ4Compressor"), ("enabled", "false")]).codec, Codec::None);
        let zstd = config(&[
            ("class", "org.apache.cassandra.io.compress.ZstdCompressor"),
            ("compression_level", "9"),
            ("chunk_length_in_kb", "64"),
        ]);
        assert_eq!((zstd.codec, zstd.block_bytes), (Codec::Zstd(9), 64 << 10));
        assert_eq!(config(&[("class", "ZstdCompressor")]).codec, Codec::Zstd(3));
        assert_eq!(config(&[("chunk_length_in_kb", "1048576")]).block_bytes, 256 << 10);
    }
}

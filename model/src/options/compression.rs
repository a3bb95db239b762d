//! The option `compression`: how the blocks of a table's files are compressed.
//!
//! Two codecs are written. Snappy becomes LZ4, which is faster and smaller, and Deflate Zstandard: a codec is named
//! in every block, so files of both read the same.
//!
//! 1. `parse` reads the map of a statement, and refuses in the words of Cassandra's `CompressionParams`: whether it is
//!    on, the class, the parameters of that class, the size of a chunk.
//! 2. The map is kept as `system_schema` shows it: the class by its full name, the size of a chunk filled in.
//! 3. `stored` reads the map of a schema log and always gives a compression: what an earlier build took must not stop
//!    the start.
//! 4. `warnings` says what is kept and has no effect, or is done by another codec.
//!
//! Invariant: an unknown class or parameter is refused, so that no table seems to be compressed as it is not.
//!
//! Not here: the codecs and the blocks (`engine/src/sstable`), the row of this option in the list (`list.rs`).

use std::collections::BTreeMap;

use super::effect::{Effect, SubOption};
use super::refusal::{Refusal, Result};
use crate::limits::CHUNK_BYTES_MAX;

const PACKAGE: &str = "org.apache.cassandra.io.compress.";
/// The sub-options of all compressors.
pub const COMPRESSION: [SubOption; 7] = [
    SubOption::works("enabled"),
    SubOption::works("class"),
    SubOption::works("chunk_length_in_kb"),
    SubOption::kept(
        "min_compress_ratio",
        "0",
        "a block is compressed if that saves a sixteenth of it, or a sixth in a flushed file that will be merged",
    ),
    SubOption::works("compression_level"),
    SubOption::kept("lz4_compressor_type", "fast", "LZ4 is always of the fast kind"),
    SubOption::kept("lz4_high_compressor_level", "9", "LZ4 is always of the fast kind"),
];
/// Level of Zstandard of a table that does not say: Cassandra's.
const ZSTD_LEVEL: i32 = 3;
const ZSTD_LEVEL_MIN: i32 = -131_072;
const ZSTD_LEVEL_MAX: i32 = 22;
const CHUNK_KIB: u32 = 4;
const CHUNK_KIB_MAX: u32 = i32::MAX as u32 / 1024;

/// Which algorithm compresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// None: blocks are stored as they are.
    Plain,
    /// The algorithm LZ4.
    Lz4,
    /// Zstandard at a level.
    Zstd(i32),
}

/// How a table's blocks are compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    given: BTreeMap<String, String>,
    algorithm: Algorithm,
    chunk_bytes: usize,
}

impl Default for Compression {
    fn default() -> Compression {
        let class = ("class".to_owned(), "LZ4Compressor".to_owned());
        Compression::parse(&BTreeMap::from([class])).expect("the default options are good")
    }
}

impl Compression {
    /// The options of a table without compression.
    pub fn none() -> Compression {
        let given = BTreeMap::from([("enabled".to_owned(), "false".to_owned())]);
        let chunk_bytes = (CHUNK_KIB as usize) << 10;
        Compression { given, algorithm: Algorithm::Plain, chunk_bytes }
    }

    /// The algorithm that compresses blocks.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Bytes of a block before it is compressed; a row may make a larger one.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// The map that the schema shows.
    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.given
    }

    /// Reads the map of a statement.
    pub fn parse(given: &BTreeMap<String, String>) -> Result<Compression> {
        // ScyllaDB turns compression off by an empty name.
        let off =
            given.len() == 1 && given.get("sstable_compression").is_some_and(String::is_empty);
        let enabled = given.get("enabled").is_none_or(|text| text.eq_ignore_ascii_case("true"));
        if !enabled && given.len() > 1 {
            return Refusal::config(
                "If the 'enabled' option is set to false no other options must be specified",
            );
        }
        if off || !enabled || given.is_empty() {
            return Ok(Compression::none());
        }
        let mut kept = given.clone();
        kept.remove("enabled");
        let Some(class) = kept.remove("class") else {
            return Refusal::config("Missing sub-option 'class' for the 'compression' option.");
        };
        if class.is_empty() {
            return Refusal::config(
                "The 'class' option must not be empty. To disable compression use 'enabled' : false",
            );
        }
        let name = class.strip_prefix(PACKAGE).unwrap_or(&class).to_owned();
        let full = if class.contains('.') { class } else { format!("{PACKAGE}{class}") };
        let algorithm = match name.as_str() {
            "LZ4Compressor" | "SnappyCompressor" => Algorithm::Lz4,
            "ZstdCompressor" => Algorithm::Zstd(level(kept.get("compression_level"))?),
            "DeflateCompressor" => Algorithm::Zstd(ZSTD_LEVEL),
            "NoopCompressor" => Algorithm::Plain,
            _ => return Refusal::config(format!("Could not create Compression for type {full}")),
        };
        kept.iter().try_for_each(|(key, value)| check(&name, key, value))?;
        let chunk = kept.entry("chunk_length_in_kb".to_owned());
        let chunk_bytes = chunk_kib(chunk.or_insert_with(|| CHUNK_KIB.to_string()))? << 10;
        kept.insert("class".to_owned(), full);
        Ok(Compression { given: kept, algorithm, chunk_bytes })
    }

    /// Reads the map of a schema log, which an earlier build took: what is refused today and has no effect is passed
    /// over, and for a map that cannot be used the default is taken, with the reason.
    pub(super) fn stored(given: &BTreeMap<String, String>) -> (Compression, Option<Refusal>) {
        let first = match Compression::parse(given) {
            Ok(compression) => return (compression, None),
            Err(refusal) => refusal,
        };
        let has_effect = |key: &str| {
            COMPRESSION.iter().any(|option| option.name == key && option.effect == Effect::Works)
        };
        let mut useful = given.clone();
        useful.retain(|key, _| has_effect(key));
        let (read, why) = match Compression::parse(&useful) {
            Ok(compression) => (compression, None),
            Err(_) => (Compression::default(), Some(first)),
        };
        (Compression { given: given.clone(), ..read }, why)
    }

    /// What is kept and does nothing, or is done otherwise.
    pub(super) fn warnings(&self) -> Vec<String> {
        let class = self.given.get("class").map_or("", String::as_str);
        let written_as = match class.strip_prefix(PACKAGE) {
            Some(name @ "SnappyCompressor") => Some((name, "LZ4")),
            Some(name @ "DeflateCompressor") => Some((name, "Zstandard")),
            _ => None,
        };
        let mut warnings: Vec<String> = written_as
            .map(|(name, codec)| {
                format!("{name} is kept with the table, whose files are written with {codec}")
            })
            .into_iter()
            .collect();
        if self.chunk_bytes > CHUNK_BYTES_MAX {
            let kib = CHUNK_BYTES_MAX >> 10;
            warnings.push(format!("chunk_length_in_kb is kept; blocks are of {kib} KiB at most"));
        }
        let sub_options = COMPRESSION
            .iter()
            .filter_map(|option| option.warning("compression", self.given.get(option.name)?));
        warnings.extend(sub_options);
        warnings
    }
}

fn check(class: &str, key: &str, value: &str) -> Result<()> {
    match key {
        "chunk_length_in_kb" => chunk_kib(value).map(drop),
        "min_compress_ratio" => match value.parse::<f64>() {
            Ok(ratio) if ratio < 0.0 => Refusal::config("Invalid negative min_compress_ratio"),
            Ok(ratio) if ratio == 0.0 || ratio >= 1.0 => Ok(()),
            Ok(_) => {
                Refusal::config("min_compress_ratio can either be 0 or greater than or equal to 1")
            }
            Err(_) => Refusal::config(format!("Invalid value {value} for min_compress_ratio")),
        },
        "compression_level" if class == "ZstdCompressor" => Ok(()),
        "lz4_compressor_type" if class == "LZ4Compressor" => match value {
            "high" | "fast" => Ok(()),
            _ => Refusal::config(format!(
                "Invalid compressor type '{value}' specified for LZ4 parameter '{key}'. Valid options are [high, fast]."
            )),
        },
        "lz4_high_compressor_level" if class == "LZ4Compressor" => match value.parse() {
            Ok(1..=17) => Ok(()),
            _ => Refusal::config(format!(
                "Invalid value [{value}] for parameter '{key}'. Value must be between 1 and 17."
            )),
        },
        _ => Refusal::config(format!("Unknown compression options {key}")),
    }
}

fn chunk_kib(text: &str) -> Result<usize> {
    match text.parse::<i64>() {
        Err(_) => Refusal::config("Invalid value for chunk_length_in_kb"),
        Ok(kib) if kib <= 0 => Refusal::config("Invalid negative or null chunk_length_in_kb"),
        Ok(kib) if kib > CHUNK_KIB_MAX.into() => {
            Refusal::config(format!("Value of chunk_length_in_kb is too large ({kib})"))
        }
        Ok(kib) if kib.count_ones() != 1 => {
            Refusal::config("chunk_length_in_kb must be a power of 2")
        }
        Ok(kib) => Ok(kib as usize),
    }
}

fn level(text: Option<&String>) -> Result<i32> {
    let Some(text) = text else { return Ok(ZSTD_LEVEL) };
    let why = match text.parse::<i32>() {
        Ok(level) if (ZSTD_LEVEL_MIN..=ZSTD_LEVEL_MAX).contains(&level) => return Ok(level),
        Ok(level) => format!("IllegalArgumentException compression_level={level} is invalid"),
        Err(_) => format!("NumberFormatException For input string: \"{text}\""),
    };
    Refusal::config(format!("ZstdCompressor.create() threw an error: java.lang.{why}"))
}

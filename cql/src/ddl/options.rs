//! Table options: what follows WITH becomes [`TableOptions`], with Cassandra's checks and words.
//!
//! An unknown option is an error. One that is valid and does nothing here is kept, so that DESCRIBE
//! gives it back, and answered with a warning.

mod compaction;

use crate::error::{Error, Result};
use crate::lang::ast::{Properties, PropertyValue};
use model::limits::TTL_S_MAX;
use model::options::TableOptions;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Options that are kept and do nothing, with why.
const UNUSED: [(&str, &str); 7] = [
    ("additional_write_policy", "there is one replica"),
    ("cdc", "change data capture is not available"),
    ("incremental_backups", "backups are not taken"),
    ("memtable", "there is one kind of memtable"),
    ("min_index_interval", "the whole index is in memory"),
    ("max_index_interval", "the whole index is in memory"),
    ("speculative_retry", "there is one replica"),
];
/// ScyllaDB's options: taken along by migrations, not kept.
const SCYLLA: [&str; 7] = [
    "in_memory",
    "paxos_grace_seconds",
    "per_partition_rate_limit",
    "scylla_encryption_options",
    "synchronous_updates",
    "tablets",
    "tombstone_gc",
];
/// The smallest false positive chance that filters are made for.
const FP_CHANCE_MIN: f64 = 6.71e-5;

/// The options after `properties` are set on `base`.
pub(super) fn apply(
    base: &TableOptions,
    properties: &Properties,
    warnings: &mut Vec<String>,
) -> Result<TableOptions> {
    let mut options = base.clone();
    for (name, value) in properties {
        match value {
            PropertyValue::Map(pairs) => {
                let map = pairs.iter().cloned().collect();
                set_map(&mut options, name, map, warnings)?;
            }
            PropertyValue::Text(text) => set_text(&mut options, name, text, warnings)?,
        }
        if let Some((_, why)) = UNUSED.iter().find(|(unused, _)| unused == name) {
            warnings.push(format!("Option '{name}' is kept and has no effect: {why}"));
        }
    }
    if options.max_index_interval < options.min_index_interval {
        return Err(Error::Config(format!(
            "max_index_interval must be greater than or equal to min_index_interval ({}) (got {})",
            options.min_index_interval, options.max_index_interval
        )));
    }
    Ok(options)
}

fn set_map(
    options: &mut TableOptions,
    name: &str,
    map: BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Result<()> {
    match name {
        "caching" => options.caching = caching(map)?,
        "compaction" => options.compaction = compaction::check(map, warnings)?,
        "compression" => options.compression = compression(map)?,
        "extensions" => {
            let bytes = |text: String| text.into_bytes();
            options.extensions = map.into_iter().map(|(key, text)| (key, bytes(text))).collect();
        }
        _ if SCYLLA.contains(&name) => scylla(name, warnings),
        _ if is_known(name) => {
            return Err(Error::Syntax(format!(
                "Invalid value for property '{name}'. It should be a string"
            )));
        }
        _ => return Err(unknown(name)),
    }
    Ok(())
}

fn set_text(
    options: &mut TableOptions,
    name: &str,
    text: &str,
    warnings: &mut Vec<String>,
) -> Result<()> {
    match name {
        "additional_write_policy" => {
            options.additional_write_policy = retry(text)?;
        }
        "allow_auto_snapshot" => options.allow_auto_snapshot = boolean(name, text)?,
        "bloom_filter_fp_chance" => options.bloom_filter_fp_chance = fp_chance(text)?,
        "cdc" => options.cdc = boolean(name, text)?,
        "comment" => options.comment = text.to_owned(),
        "crc_check_chance" => options.crc_check_chance = crc_chance(text)?,
        "default_time_to_live" => {
            let ttl = at_least(name, text, 0)?;
            if ttl > TTL_S_MAX {
                return Err(Error::Config(format!(
                    "default_time_to_live must be less than or equal to {TTL_S_MAX} (got {ttl})"
                )));
            }
            options.default_time_to_live = ttl;
        }
        "gc_grace_seconds" => options.gc_grace_seconds = at_least(name, text, 0)?,
        "incremental_backups" => options.incremental_backups = boolean(name, text)?,
        "max_index_interval" => options.max_index_interval = number(name, text, "integer")?,
        "memtable" if text == "default" => options.memtable = text.to_owned(),
        "memtable" => {
            let error = format!("Memtable configuration \"{text}\" not found.");
            return Err(Error::Config(error));
        }
        "memtable_flush_period_in_ms" => {
            options.memtable_flush_period_in_ms = at_least(name, text, 0)?;
        }
        "min_index_interval" => options.min_index_interval = at_least(name, text, 1)?,
        "read_repair" => match text.to_ascii_uppercase().as_str() {
            known @ ("BLOCKING" | "NONE") => options.read_repair = known.to_owned(),
            _ => {
                return Err(Error::Config(format!(
                    "Invalid value {text} for option 'read_repair': only 'BLOCKING' and 'NONE' are allowed"
                )));
            }
        },
        "speculative_retry" => options.speculative_retry = retry(text)?,
        "caching" | "compaction" | "compression" | "extensions" => {
            return Err(Error::Syntax(format!(
                "Invalid value for property '{name}'. It should be a map."
            )));
        }
        _ if SCYLLA.contains(&name) => scylla(name, warnings),
        _ => return Err(unknown(name)),
    }
    Ok(())
}

fn fp_chance(text: &str) -> Result<f64> {
    let chance: f64 = number("bloom_filter_fp_chance", text, "double")?;
    if chance > FP_CHANCE_MIN && chance <= 1.0 {
        return Ok(chance);
    }
    Err(Error::Config(format!(
        "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got {})",
        java_double(chance)
    )))
}

fn crc_chance(text: &str) -> Result<f64> {
    let chance: f64 = number("crc_check_chance", text, "double")?;
    if (0.0..=1.0).contains(&chance) {
        return Ok(chance);
    }
    Err(Error::Config(format!(
        "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {})",
        java_double(chance)
    )))
}

fn scylla(name: &str, warnings: &mut Vec<String>) {
    warnings.push(format!("Option '{name}' is ScyllaDB's and has no effect here"));
}

#[cold]
fn unknown(name: &str) -> Error {
    Error::Syntax(format!("Unknown property '{name}'"))
}

fn is_known(name: &str) -> bool {
    set_text(&mut TableOptions::default(), name, "", &mut Vec::new()) != Err(unknown(name))
}

/// Cassandra's boolean: four ways to say each.
pub(super) fn boolean(name: &str, text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(Error::Syntax(format!(
            "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or 'yes'. Negative values can be '0', 'false' or 'no'."
        ))),
    }
}

fn number<T: FromStr>(name: &str, text: &str, kind: &str) -> Result<T> {
    text.parse().map_err(|_| Error::Syntax(format!("Invalid {kind} value {text} for '{name}'")))
}

fn at_least(name: &str, text: &str, least: i32) -> Result<i32> {
    let value = number(name, text, "integer")?;
    if value < least {
        return Err(Error::Config(format!(
            "{name} must be greater than or equal to {least} (got {value})"
        )));
    }
    Ok(value)
}

/// As Java prints a double: `2.0`, `1.0E-7`.
fn java_double(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        let text = format!("{value:E}");
        return if text.contains('.') { text } else { text.replacen('E', ".0E", 1) };
    }
    format!("{value:?}")
}

/// `99p`, `50ms`, `ALWAYS`, `NONE`, `MIN(..)`, `MAX(..)`.
fn retry(text: &str) -> Result<String> {
    let upper = text.to_ascii_uppercase();
    let percentile = upper.strip_suffix("PERCENTILE").or(upper.strip_suffix('P'));
    let millis = upper.strip_suffix("MS");
    let is = |number: Option<&str>, most: f64| {
        number.and_then(|n| n.parse::<f64>().ok()).is_some_and(|n| (0.0..=most).contains(&n))
    };
    let hybrid = (upper.starts_with("MIN(") || upper.starts_with("MAX(")) && upper.ends_with(')');
    if matches!(upper.as_str(), "ALWAYS" | "NEVER" | "NONE")
        || is(percentile, 100.0)
        || is(millis, f64::MAX)
        || hybrid
    {
        return Ok(text.to_owned());
    }
    Err(Error::Config(format!("Invalid value {text} for option 'speculative_retry'")))
}

fn caching(mut given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let strange: Vec<&str> = given
        .keys()
        .map(String::as_str)
        .filter(|key| !matches!(*key, "keys" | "rows_per_partition"))
        .collect();
    if !strange.is_empty() {
        return Err(Error::Config(format!(
            "Invalid caching sub-options [{}]: only 'keys' and 'rows_per_partition' are allowed",
            strange.join(", ")
        )));
    }
    let keys = given.entry("keys".to_owned()).or_insert_with(|| "ALL".to_owned());
    *keys = keys.to_ascii_uppercase();
    if keys != "ALL" && keys != "NONE" {
        return Err(Error::Config(format!(
            "Invalid value '{}' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed",
            keys.to_ascii_lowercase()
        )));
    }
    let rows = given.entry("rows_per_partition".to_owned()).or_insert_with(|| "NONE".to_owned());
    *rows = rows.to_ascii_uppercase();
    if rows != "ALL" && rows != "NONE" && rows.parse::<u32>().is_err() {
        return Err(Error::Config(format!(
            "Invalid value '{rows}' for caching sub-option 'rows_per_partition': only 'ALL', 'NONE', and integer values are allowed"
        )));
    }
    Ok(given)
}

const COMPRESSORS: &str = "org.apache.cassandra.io.compress.";

fn compression(given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let config = |text: String| Err(Error::Config(text));
    let mut kept = given.clone();
    if given.get("enabled").is_some_and(|enabled| enabled == "false") {
        return Ok(BTreeMap::from([("enabled".to_owned(), "false".to_owned())]));
    }
    kept.remove("enabled");
    // ScyllaDB and old Cassandra name the class so.
    let Some(class) = kept.remove("class") else {
        if given.is_empty() || given.get("sstable_compression").is_some_and(String::is_empty) {
            return Ok(BTreeMap::from([("enabled".to_owned(), "false".to_owned())]));
        }
        return config("Missing sub-option 'class' for the 'compression' option.".to_owned());
    };
    let short = class.strip_prefix(COMPRESSORS).unwrap_or(&class);
    let full = if class.contains('.') { class.clone() } else { format!("{COMPRESSORS}{class}") };
    if !matches!(
        short,
        "LZ4Compressor"
            | "ZstdCompressor"
            | "SnappyCompressor"
            | "DeflateCompressor"
            | "NoopCompressor"
    ) {
        return config(format!("Could not create Compression for type {full}"));
    }
    for (key, value) in &kept {
        match key.as_str() {
            "chunk_length_in_kb" => match value.parse::<u32>() {
                Ok(kib) if kib.is_power_of_two() => {}
                Ok(_) => return config("chunk_length_in_kb must be a power of 2".to_owned()),
                Err(_) => return config("Invalid value for chunk_length_in_kb".to_owned()),
            },
            "min_compress_ratio" if value.parse::<f64>().is_ok() => {}
            "compression_level" if short == "ZstdCompressor" && value.parse::<i32>().is_ok() => {}
            "lz4_compressor_type" | "lz4_high_compressor_level" if short == "LZ4Compressor" => {}
            _ => return config(format!("Unknown compression options {key}")),
        }
    }
    kept.entry("chunk_length_in_kb".to_owned()).or_insert_with(|| "4".to_owned());
    kept.insert("class".to_owned(), full);
    Ok(kept)
}

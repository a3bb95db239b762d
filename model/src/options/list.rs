//! The one list of table options: a row says how one is read, what it shows, and what it does.
//!
//! A new option is a field of `TableOptions` with its default, a row here, and the code that does something with it. The
//! order is that of DESCRIBE in Cassandra 5.0; ScyllaDB's own options follow, and are shown where a table has them.
//!
//! 1. `read` parses what a statement gives into the field, or refuses it in Cassandra's words.
//! 2. `show` gives the value back; the default of an option is what `show` says of `TableOptions::default()`.
//! 3. `effect` says what comes of the option: it works, it is kept and does nothing, or it is left out ([`Effect`]).
//!    `warn` makes the client's warning of that.
//! 4. A map has more: its sub-options, how an earlier build's map is restored, and warnings of its own.
//!
//! Invariants: what `show` gives, `read` takes; an option that does nothing is never silent, unless it has the default.
//!
//! Not here: the walk over this list (`options.rs`), the maps (`compaction.rs`, `compression.rs`, `caching.rs`),
//! options of keyspaces (`keyspace.rs`), which options a statement may set (`cql/src/ddl/options.rs`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::effect::{Effect, SubOption};
use super::given::{at_least, boolean, double, integer, java_double};
use super::refusal::{Refusal, Result};
use super::{
    CACHING, COMPRESSION, Caching, Compaction, Compression, Given, ReadRepair, Retry, TableOptions,
    TombstoneGc,
};
use crate::limits::TTL_S_MAX;

/// The smallest false positive chance that filters are made for.
const FP_CHANCE_MIN: f64 = 6.71e-5;
const ONE_REPLICA: &str = "there is one replica";
const WHOLE_INDEX: &str = "the whole index is in memory";

/// A value as DESCRIBE and `system_schema` show it.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are CQL's own types")]
pub enum Value<'a> {
    Text(Cow<'a, str>),
    Boolean(bool),
    Double(f64),
    Int(i32),
    Map(Cow<'a, BTreeMap<String, String>>),
    Blobs(&'a BTreeMap<String, Vec<u8>>),
}

/// One option of a table: its name, how it is read and shown.
#[derive(Debug)]
pub struct TableOption {
    /// Its name in CQL.
    pub name: &'static str,
    /// What comes of it; sub-options have effects of their own.
    pub effect: Effect,
    pub(super) read: fn(&mut TableOptions, &Given) -> Result<()>,
    pub(super) show: fn(&TableOptions) -> Value<'_>,
    /// What a map needs beside these.
    pub(super) map: Option<MapOption>,
}

/// What is known of an option whose value is a map.
#[derive(Debug)]
pub(super) struct MapOption {
    /// Its sub-options; those of `compaction` depend on its class, and are not here.
    sub_options: &'static [SubOption],
    /// Reads what the schema log has, where that may be more than a statement may give; gives the reason if a default
    /// stands instead.
    pub(super) restore: Option<Restore>,
    /// What is said of its value; without it, what its sub-options say.
    warnings: Option<fn(&TableOptions) -> Vec<String>>,
}

/// How a map is read that an earlier build took.
pub(super) type Restore = fn(&mut TableOptions, &BTreeMap<String, String>) -> Option<Refusal>;

/// What is taken or refused without a field: options of ScyllaDB, which its migrations carry along.
pub const FOREIGN: [(&str, Effect); 6] = [
    ("auto_repair", Effect::Refused("there is one node, and nothing to repair")),
    ("in_memory", Effect::LeftOut("tables are on disk, and their blocks in the cache")),
    ("per_partition_rate_limit", Effect::LeftOut("rates of partitions are not limited")),
    (
        "scylla_encryption_options",
        Effect::Refused(
            "data at rest are not encrypted, and what is asked to be encrypted is not written plain",
        ),
    ),
    (
        "synchronous_updates",
        Effect::LeftOut("a write is answered when its rows in all views are durable"),
    ),
    ("tablets", Effect::LeftOut("each core owns a range of tokens")),
];

/// The options that Cassandra has: a column of `system_schema.tables` each.
pub const OPTIONS: [TableOption; 19] = [
    TableOption {
        name: "additional_write_policy",
        effect: Effect::Kept(ONE_REPLICA),
        read: |o, g| {
            put(&mut o.additional_write_policy, Retry::parse(g.text("additional_write_policy")?))
        },
        show: |o| text(o.additional_write_policy.to_string()),
        map: None,
    },
    TableOption {
        name: "allow_auto_snapshot",
        effect: Effect::Works,
        read: |o, g| put(&mut o.allow_auto_snapshot, flag("allow_auto_snapshot", g)),
        show: |o| Value::Boolean(o.allow_auto_snapshot),
        map: None,
    },
    TableOption {
        name: "bloom_filter_fp_chance",
        effect: Effect::Works,
        read: |o, g| {
            put(&mut o.bloom_filter_fp_chance, fp_chance(g.text("bloom_filter_fp_chance")?))
        },
        show: |o| Value::Double(o.bloom_filter_fp_chance),
        map: None,
    },
    TableOption {
        name: "caching",
        effect: Effect::Kept("one cache holds the blocks of all tables"),
        read: |o, g| put(&mut o.caching, Caching::parse(g.map("caching")?)),
        show: |o| Value::Map(Cow::Owned(o.caching.pairs())),
        map: Some(MapOption { sub_options: &CACHING, restore: None, warnings: None }),
    },
    TableOption {
        name: "cdc",
        effect: Effect::Kept("change data capture is not available"),
        read: |o, g| put(&mut o.cdc, flag("cdc", g)),
        show: |o| Value::Boolean(o.cdc),
        map: None,
    },
    TableOption {
        name: "comment",
        effect: Effect::Works,
        read: |o, g| put(&mut o.comment, g.text("comment").map(str::to_owned)),
        show: |o| text(&*o.comment),
        map: None,
    },
    TableOption {
        name: "compaction",
        effect: Effect::Works,
        read: |o, g| put(&mut o.compaction, Compaction::parse(g.map("compaction")?)),
        show: |o| Value::Map(Cow::Borrowed(o.compaction.pairs())),
        map: Some(MapOption {
            sub_options: &[],
            restore: Some(|o, map| {
                let (compaction, refused) = Compaction::stored(map);
                o.compaction = compaction;
                refused
            }),
            warnings: Some(|o| o.compaction.warnings()),
        }),
    },
    TableOption {
        name: "compression",
        effect: Effect::Works,
        read: |o, g| put(&mut o.compression, Compression::parse(g.map("compression")?)),
        show: |o| Value::Map(Cow::Borrowed(o.compression.pairs())),
        map: Some(MapOption {
            sub_options: &COMPRESSION,
            restore: Some(|o, map| {
                let (compression, refused) = Compression::stored(map);
                o.compression = compression;
                refused
            }),
            warnings: Some(|o| o.compression.warnings()),
        }),
    },
    TableOption {
        name: "memtable",
        effect: Effect::Works,
        read: |o, g| put(&mut o.memtable, memtable(g.text("memtable")?)),
        show: |o| text(&*o.memtable),
        map: None,
    },
    TableOption {
        name: "crc_check_chance",
        effect: Effect::Kept("every block that is read from disk is checked"),
        read: |o, g| put(&mut o.crc_check_chance, crc_chance(g.text("crc_check_chance")?)),
        show: |o| Value::Double(o.crc_check_chance),
        map: None,
    },
    TableOption {
        name: "default_time_to_live",
        effect: Effect::Works,
        read: |o, g| {
            put(&mut o.default_time_to_live, time_to_live(g.text("default_time_to_live")?))
        },
        show: |o| Value::Int(o.default_time_to_live),
        map: None,
    },
    TableOption {
        name: "extensions",
        effect: Effect::Kept("nothing reads them"),
        read: |o, g| put(&mut o.extensions, extensions(g)),
        show: |o| Value::Blobs(&o.extensions),
        map: None,
    },
    TableOption {
        name: "gc_grace_seconds",
        effect: Effect::Works,
        read: |o, g| put(&mut o.gc_grace_seconds, least("gc_grace_seconds", g, 0)),
        show: |o| Value::Int(o.gc_grace_seconds),
        map: None,
    },
    TableOption {
        name: "incremental_backups",
        effect: Effect::Kept("backups are not taken"),
        read: |o, g| put(&mut o.incremental_backups, flag("incremental_backups", g)),
        show: |o| Value::Boolean(o.incremental_backups),
        map: None,
    },
    TableOption {
        name: "max_index_interval",
        effect: Effect::Kept(WHOLE_INDEX),
        read: |o, g| {
            put(
                &mut o.max_index_interval,
                integer("max_index_interval", g.text("max_index_interval")?),
            )
        },
        show: |o| Value::Int(o.max_index_interval),
        map: None,
    },
    TableOption {
        name: "memtable_flush_period_in_ms",
        effect: Effect::Kept("a memtable is flushed when its memory or its log is wanted"),
        read: |o, g| {
            put(&mut o.memtable_flush_period_in_ms, least("memtable_flush_period_in_ms", g, 0))
        },
        show: |o| Value::Int(o.memtable_flush_period_in_ms),
        map: None,
    },
    TableOption {
        name: "min_index_interval",
        effect: Effect::Kept(WHOLE_INDEX),
        read: |o, g| put(&mut o.min_index_interval, least("min_index_interval", g, 1)),
        show: |o| Value::Int(o.min_index_interval),
        map: None,
    },
    TableOption {
        name: "read_repair",
        effect: Effect::Kept(ONE_REPLICA),
        read: |o, g| put(&mut o.read_repair, read_repair(g.text("read_repair")?)),
        show: |o| text(o.read_repair.name()),
        map: None,
    },
    TableOption {
        name: "speculative_retry",
        effect: Effect::Kept(ONE_REPLICA),
        read: |o, g| put(&mut o.speculative_retry, Retry::parse(g.text("speculative_retry")?)),
        show: |o| text(o.speculative_retry.to_string()),
        map: None,
    },
];

/// The options that only ScyllaDB has. Its drivers find them in the column `extensions`, and Cassandra's do not miss
/// them; DESCRIBE and the schema log have those that are not the default, so that others still read what is plain.
pub const SCYLLA_OPTIONS: [TableOption; 2] = [
    TableOption {
        name: "paxos_grace_seconds",
        effect: Effect::Kept("there are no Paxos tables"),
        read: |o, g| put(&mut o.paxos_grace_seconds, least("paxos_grace_seconds", g, 0)),
        show: |o| Value::Int(o.paxos_grace_seconds),
        map: None,
    },
    TableOption {
        name: "tombstone_gc",
        effect: Effect::Works,
        read: |o, g| put(&mut o.tombstone_gc, tombstone_gc(g.map("tombstone_gc")?)),
        show: |o| {
            let mode = ("mode".to_owned(), o.tombstone_gc.mode().to_owned());
            Value::Map(Cow::Owned(BTreeMap::from([mode])))
        },
        map: Some(MapOption { sub_options: &TOMBSTONE_GC, restore: None, warnings: None }),
    },
];

const TOMBSTONE_GC: [SubOption; 2] = [
    SubOption::works("mode"),
    SubOption {
        name: "propagation_delay_in_seconds",
        default: "3600",
        effect: Effect::LeftOut("it belongs to the mode 'repair'"),
    },
];

impl TableOption {
    /// The option of that name.
    pub fn of(name: &str) -> Option<&'static TableOption> {
        OPTIONS.iter().chain(&SCYLLA_OPTIONS).find(|option| option.name == name)
    }

    /// The sub-options of a map; those of `compaction` depend on its class, and are not here.
    pub fn sub_options(&self) -> &'static [SubOption] {
        self.map.as_ref().map_or(&[], |map| map.sub_options)
    }

    /// The option's name and value, if `options` have another value than every table.
    pub(super) fn changed<'o>(
        &self,
        options: &'o TableOptions,
    ) -> Option<(&'static str, Value<'o>)> {
        let value = (self.show)(options);
        (value != (self.show)(&TableOptions::default())).then_some((self.name, value))
    }

    /// Says what of the option's value does nothing, if it is not what every table has.
    pub(super) fn warn(&self, options: &TableOptions, given: &Given, warnings: &mut Vec<String>) {
        if let Some(said) = self.map.as_ref().and_then(|map| map.warnings) {
            warnings.extend(said(options));
            return;
        }
        let name = self.name;
        match (self.effect, given) {
            (Effect::Kept(why), _) if self.changed(options).is_some() => {
                warnings.push(format!("Option '{name}' is kept and has no effect: {why}"));
            }
            (Effect::Works, Given::Map(map)) => {
                let subs = self.sub_options().iter();
                warnings.extend(subs.filter_map(|sub| sub.warning(name, map.get(sub.name)?)));
            }
            _ => {}
        }
    }
}

fn put<T>(field: &mut T, value: Result<T>) -> Result<()> {
    *field = value?;
    Ok(())
}

fn text<'a>(value: impl Into<Cow<'a, str>>) -> Value<'a> {
    Value::Text(value.into())
}

fn flag(name: &str, given: &Given) -> Result<bool> {
    boolean(name, given.text(name)?)
}

fn least(name: &str, given: &Given, least: i32) -> Result<i32> {
    at_least(name, given.text(name)?, least)
}

fn fp_chance(text: &str) -> Result<f64> {
    let chance = double("bloom_filter_fp_chance", text)?;
    if chance > FP_CHANCE_MIN && chance <= 1.0 {
        return Ok(chance);
    }
    Refusal::config(format!(
        "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got {})",
        java_double(chance)
    ))
}

fn crc_chance(text: &str) -> Result<f64> {
    let chance = double("crc_check_chance", text)?;
    if (0.0..=1.0).contains(&chance) {
        return Ok(chance);
    }
    Refusal::config(format!(
        "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {})",
        java_double(chance)
    ))
}

fn time_to_live(text: &str) -> Result<i32> {
    let seconds = at_least("default_time_to_live", text, 0)?;
    if seconds > TTL_S_MAX {
        return Refusal::config(format!(
            "default_time_to_live must be less than or equal to {TTL_S_MAX} (got {seconds})"
        ));
    }
    Ok(seconds)
}

/// There is one kind of memtable.
fn memtable(text: &str) -> Result<String> {
    match text {
        "default" => Ok(text.to_owned()),
        _ => Refusal::config(format!("Memtable configuration \"{text}\" not found.")),
    }
}

fn read_repair(text: &str) -> Result<ReadRepair> {
    match text.to_ascii_uppercase().as_str() {
        "BLOCKING" => Ok(ReadRepair::Blocking),
        "NONE" => Ok(ReadRepair::None),
        _ => Refusal::config(format!(
            "Invalid value {text} for option 'read_repair': only 'BLOCKING' and 'NONE' are allowed"
        )),
    }
}

/// In ScyllaDB's words, whose option it is.
fn tombstone_gc(given: &BTreeMap<String, String>) -> Result<TombstoneGc> {
    let mut gc = TombstoneGc::Timeout;
    for (key, value) in given {
        match (&**key, &**value) {
            ("mode", "timeout") => gc = TombstoneGc::Timeout,
            ("mode", "disabled") => gc = TombstoneGc::Disabled,
            ("mode", "immediate") => gc = TombstoneGc::Immediate,
            ("mode", "repair") => {
                return Refusal::config(
                    "tombstone_gc option mode: repair is not supported: there is one replica, and no repair. \
                     Use 'timeout', which keeps tombstones for gc_grace_seconds",
                );
            }
            ("propagation_delay_in_seconds", text) if text.parse::<u32>().is_ok() => {}
            ("mode" | "propagation_delay_in_seconds", _) => {
                return Refusal::config(format!(
                    "Invalid value for tombstone_gc option {key}: {value}"
                ));
            }
            _ => return Refusal::config(format!("Invalid tombstone_gc option: {key}")),
        }
    }
    Ok(gc)
}

/// Bytes in hexadecimal, as DESCRIBE writes them; any other text is its own bytes.
fn extensions(given: &Given) -> Result<BTreeMap<String, Vec<u8>>> {
    let pairs = given.map("extensions")?.iter();
    Ok(pairs.map(|(key, value)| (key.clone(), bytes_of(value))).collect())
}

fn bytes_of(text: &str) -> Vec<u8> {
    let is_hex = |digits: &&str| {
        digits.len().is_multiple_of(2) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let digits = text.strip_prefix("0x").filter(is_hex);
    let pairs = digits.map(|digits| digits.as_bytes().chunks(2));
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let decoded = pairs.and_then(|mut pairs| {
        pairs.try_fold(Vec::new(), |mut out, pair| {
            out.push(byte(pair)?);
            Some(out)
        })
    });
    decoded.unwrap_or_else(|| text.as_bytes().to_vec())
}

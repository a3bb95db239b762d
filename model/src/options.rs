//! The options of tables and keyspaces, as values: each read and refused in one place, in Cassandra's words.
//!
//! ```text
//! WITH name = given ─► list (a row for each option: read, show, effect) ─► TableOptions ─► engine, DESCRIBE,
//!                                                                          system_schema, docs/options.md
//! ```
//!
//! 1. `list` is the one list of options: statements, DESCRIBE, `system_schema`, the schema log, the warnings and the
//!    table in the documents all walk it.
//! 2. A map option is a value with its numbers, and keeps what was given for those who ask.
//! 3. An option that does nothing says so (`effect`): in a warning, and in the documents.
//!
//! Those of a keyspace are few, and are in `keyspace`. Not here: what is done with the numbers (`engine`).

mod caching;
mod compaction;
mod compression;
mod effect;
mod given;
mod keyspace;
mod list;
mod refusal;
mod replication;
mod retry;
mod sub_options;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use caching::{CACHING, CachedRows, Caching};
pub use compaction::{
    COMMON, Class, Compaction, FragmentSizes, Inclusion, Incremental, Leveled, OVERLAPPING,
    Scaling, SizeTiered, Strategy, TimeWindow, Unified,
};
pub use compression::{Algorithm, COMPRESSION, Compression};
pub use effect::{Effect, SubOption};
pub use given::{Given, boolean};
pub use keyspace::{KEYSPACE_OPTIONS, KeyspaceOptions};
pub use list::{FOREIGN, OPTIONS, SCYLLA_OPTIONS, TableOption, Value};
pub use refusal::{Refusal, Result};
pub use replication::{Place, Replication};
pub use retry::Retry;

/// Everything after WITH, apart from CLUSTERING ORDER.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are CQL's own option names")]
pub struct TableOptions {
    pub additional_write_policy: Retry,
    pub allow_auto_snapshot: bool,
    pub bloom_filter_fp_chance: f64,
    pub caching: Caching,
    pub cdc: bool,
    pub comment: String,
    pub compaction: Compaction,
    pub compression: Compression,
    pub crc_check_chance: f64,
    /// Seconds; 0 is none.
    pub default_time_to_live: i32,
    pub extensions: BTreeMap<String, Vec<u8>>,
    /// How long tombstones are kept, in seconds.
    pub gc_grace_seconds: i32,
    pub incremental_backups: bool,
    pub max_index_interval: i32,
    pub memtable: String,
    pub memtable_flush_period_in_ms: i32,
    pub min_index_interval: i32,
    /// Seconds for which ScyllaDB keeps the state of a Paxos round.
    pub paxos_grace_seconds: i32,
    pub read_repair: ReadRepair,
    pub speculative_retry: Retry,
    pub tombstone_gc: TombstoneGc,
}

/// The option `read_repair`: whether a read waits until replicas agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are CQL's own values")]
pub enum ReadRepair {
    Blocking,
    None,
}

impl ReadRepair {
    /// The value as CQL writes it.
    pub fn name(self) -> &'static str {
        match self {
            ReadRepair::Blocking => "BLOCKING",
            ReadRepair::None => "NONE",
        }
    }
}

/// The option `tombstone_gc`: when compaction may drop a tombstone for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TombstoneGc {
    /// When it is older than `gc_grace_seconds`.
    Timeout,
    /// Never: tombstones stay.
    Disabled,
    /// At the first compaction that meets it.
    Immediate,
}

impl TombstoneGc {
    /// The mode as CQL writes it.
    pub fn mode(self) -> &'static str {
        match self {
            TombstoneGc::Timeout => "timeout",
            TombstoneGc::Disabled => "disabled",
            TombstoneGc::Immediate => "immediate",
        }
    }
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            additional_write_policy: Retry::default(),
            allow_auto_snapshot: true,
            bloom_filter_fp_chance: 0.01,
            caching: Caching::default(),
            cdc: false,
            comment: String::new(),
            compaction: Compaction::default(),
            compression: Compression::default(),
            crc_check_chance: 1.0,
            default_time_to_live: 0,
            extensions: BTreeMap::new(),
            gc_grace_seconds: 864_000,
            incremental_backups: true,
            max_index_interval: 2048,
            memtable: "default".to_owned(),
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            paxos_grace_seconds: 864_000,
            read_repair: ReadRepair::Blocking,
            speculative_retry: Retry::default(),
            tombstone_gc: TombstoneGc::Timeout,
        }
    }
}

impl TableOptions {
    /// Sets an option as a statement gives it; what is to be said about it goes to `warnings`.
    pub fn set(&mut self, name: &str, given: &Given, warnings: &mut Vec<String>) -> Result<()> {
        if let Some(option) = TableOption::of(name) {
            (option.read)(self, given)?;
            option.warn(self, given, warnings);
            return Ok(());
        }
        match FOREIGN.iter().find(|(foreign, _)| *foreign == name) {
            Some((_, Effect::Refused(why))) => {
                Refusal::config(format!("Option '{name}' is not supported: {why}"))
            }
            Some((_, Effect::Kept(why) | Effect::LeftOut(why))) => {
                warnings.push(format!("Option '{name}' is left out: {why}"));
                Ok(())
            }
            Some((_, Effect::Works)) | None => {
                Err(Refusal::Syntax(format!("Unknown property '{name}'")))
            }
        }
    }

    /// Sets an option as the schema log gives it. What an earlier build took and this one refuses comes back as a
    /// reason, and the default stands; `None` if there is no such option.
    pub fn restore(
        &mut self,
        name: &str,
        given: &Given,
    ) -> Option<std::result::Result<(), Refusal>> {
        let option = TableOption::of(name)?;
        let refused = match (option.map.as_ref().and_then(|map| map.restore), given) {
            (Some(restore), Given::Map(map)) => restore(self, map),
            _ => (option.read)(self, given).err(),
        };
        Some(refused.map_or(Ok(()), Err))
    }

    /// What must hold of the options together.
    pub fn check(&self) -> Result<()> {
        if self.max_index_interval < self.min_index_interval {
            return Refusal::config(format!(
                "max_index_interval must be greater than or equal to min_index_interval ({}) (got {})",
                self.min_index_interval, self.max_index_interval
            ));
        }
        Ok(())
    }

    /// What DESCRIBE writes and the schema log keeps, in the order of DESCRIBE.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        self.columns().chain(self.extras())
    }

    /// Cassandra's options with their values: columns of `system_schema.tables`.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        OPTIONS.iter().map(|option| (option.name, (option.show)(self)))
    }

    /// ScyllaDB's options that do not have their default: `system_schema` shows them among the `extensions`.
    pub fn extras(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        SCYLLA_OPTIONS.iter().filter_map(|option| option.changed(self))
    }
}

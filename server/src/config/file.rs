//! The settings file: YAML with the names that people know from cassandra.yaml and scylla.yaml.
//!
//! Every key is one of
//! - a setting of ours (`SETTINGS`), or of a guardrail (`guardrails.rs` of the server), applied;
//! - a promise that cannot be kept (`promises.rs`): an error if it is about safety, else a warning of its own;
//! - a setting of Cassandra or ScyllaDB that does not concern us (`known_names.txt`): one warning
//!   names them all;
//! - unknown: an error with the nearest name.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::flags::SyncMode;
use super::{Choices, promises, quantity};
use crate::guardrails;

/// Names of settings of Cassandra 5.0 and ScyllaDB 2026, sorted.
const KNOWN_NAMES: &str = include_str!("known_names.txt");

/// A value of the file, as far as settings need it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Yaml {
    Nothing(()),
    Truth(bool),
    Whole(i64),
    Real(f64),
    Text(String),
    List(Vec<Yaml>),
    Map(BTreeMap<String, Yaml>),
}

/// Puts the value of a setting into the choices, or says what is wrong with it.
type Apply = fn(&Yaml, &mut Choices) -> Result<(), String>;

/// The settings that have an effect, by every name they go by.
const SETTINGS: &[(&str, Apply)] = &[
    ("auto_snapshot", |v, c| put(&mut c.auto_snapshot, truth(v))),
    ("auto_snapshot_ttl", |v, c| put(&mut c.auto_snapshot_ttl, stay(v))),
    ("batch_size_fail_threshold", |v, c| put(&mut c.batch_fail_bytes, size(v, 1))),
    ("batch_size_fail_threshold_in_kb", |v, c| put(&mut c.batch_fail_bytes, size(v, KIB))),
    ("batch_size_warn_threshold", |v, c| put(&mut c.batch_warn_bytes, size(v, 1))),
    ("batch_size_warn_threshold_in_kb", |v, c| put(&mut c.batch_warn_bytes, size(v, KIB))),
    ("broadcast_rpc_address", |v, c| put(&mut c.broadcast_address, address(v))),
    ("cas_contention_timeout", |v, c| put(&mut c.cas_timeout, duration(v))),
    ("cas_contention_timeout_in_ms", |v, c| put(&mut c.cas_timeout, millis(v))),
    ("cluster_name", |v, c| put(&mut c.cluster_name, text(v))),
    ("commitlog_segment_size", |v, c| put(&mut c.commitlog_segment_bytes, size(v, 1))),
    ("commitlog_segment_size_in_mb", |v, c| put(&mut c.commitlog_segment_bytes, size(v, MIB))),
    ("commitlog_sync", |v, c| put(&mut c.commitlog_sync, sync(v))),
    ("compaction_throughput", |v, c| put(&mut c.compaction_throughput_bytes, rate(v))),
    ("compaction_throughput_mb_per_sec", |v, c| {
        put(&mut c.compaction_throughput_bytes, size(v, MIB))
    }),
    ("data_center", |v, c| put(&mut c.data_center, text(v))),
    ("data_file_directories", |v, c| put(&mut c.data_dir, directory(v))),
    ("drop_compact_storage_enabled", |v, c| put(&mut c.drop_compact_storage, truth(v))),
    ("enable_drop_compact_storage", |v, c| put(&mut c.drop_compact_storage, truth(v))),
    ("enable_sasi_indexes", |v, c| put(&mut c.sasi_indexes, truth(v))),
    ("enable_user_defined_functions", |v, c| put(&mut c.functions_enabled, truth(v))),
    ("memory", |v, c| put(&mut c.memory_bytes, size(v, 1))),
    ("native_shard_aware_transport_port", |v, c| put(&mut c.shard_aware_port, port(v))),
    ("native_transport_max_concurrent_connections", |v, c| put(&mut c.connections_max, count(v))),
    ("native_transport_port", |v, c| put(&mut c.port, port(v))),
    ("rack", |v, c| put(&mut c.rack, text(v))),
    ("range_request_timeout", |v, c| put(&mut c.range_timeout, duration(v))),
    ("range_request_timeout_in_ms", |v, c| put(&mut c.range_timeout, millis(v))),
    ("read_request_timeout", |v, c| put(&mut c.read_timeout, duration(v))),
    ("read_request_timeout_in_ms", |v, c| put(&mut c.read_timeout, millis(v))),
    ("rpc_address", |v, c| put(&mut c.listen, address(v))),
    ("sasi_indexes_enabled", |v, c| put(&mut c.sasi_indexes, truth(v))),
    ("shards", |v, c| put(&mut c.shards, count(v))),
    ("tombstone_failure_threshold", |v, c| put(&mut c.tombstone_failure, count(v))),
    ("tombstone_warn_threshold", |v, c| put(&mut c.tombstone_warn, count(v))),
    ("unlogged_batch_across_partitions_warn_threshold", |v, c| {
        put(&mut c.batch_unlogged_partitions, count(v))
    }),
    ("user_defined_functions_enabled", |v, c| put(&mut c.functions_enabled, truth(v))),
    ("write_request_timeout", |v, c| put(&mut c.write_timeout, duration(v))),
    ("write_request_timeout_in_ms", |v, c| put(&mut c.write_timeout, millis(v))),
];

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Reads the settings of `text`. Warnings are added to `warnings`; the error names its line.
pub(super) fn read(text: &str, warnings: &mut Vec<String>) -> Result<Choices, String> {
    let mut choices = Choices::default();
    if text.lines().all(|line| line.trim().is_empty() || line.trim().starts_with('#')) {
        return Ok(choices);
    }
    let file: BTreeMap<String, Yaml> =
        serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let mut unused = Vec::new();
    for (name, value) in &file {
        let at = |error: String| format!("line {}: {name}: {error}", line_of(text, name));
        if *value == Yaml::Nothing(()) {
            // `name:` without a value means the default, in both rivals' files.
            continue;
        }
        if let Some((_, apply)) = SETTINGS.iter().find(|(setting, _)| setting == name) {
            apply(value, &mut choices).map_err(at)?;
        } else if guardrails::is_setting(name) {
            guardrails::set(&mut choices.guardrails, name, &written(value).map_err(at)?)
                .map_err(at)?;
        } else if let Some((_, judge, _)) = promises::REFUSED.iter().find(|(n, ..)| n == name) {
            judge(value).map_err(at)?;
        } else if let Some(why) =
            guardrails::not_applicable(name).or_else(|| promises::warning(name))
        {
            warnings.push(format!("the setting {name} has no effect: {why}"));
        } else if KNOWN_NAMES.lines().any(|known| known == name) {
            unused.push(name.as_str());
        } else {
            return Err(at(unknown(name)));
        }
    }
    if !unused.is_empty() {
        warnings.push(format!("settings without effect here: {}", unused.join(", ")));
    }
    Ok(choices)
}

fn unknown(name: &str) -> String {
    let names = SETTINGS.iter().map(|(name, _)| *name).chain(KNOWN_NAMES.lines());
    let nearest = names
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= candidate.len() / 3);
    match nearest {
        Some((_, nearest)) => format!("no such setting. Did you mean `{nearest}`?"),
        None => "no such setting".to_owned(),
    }
}

/// The line where a top-level key stands.
fn line_of(text: &str, name: &str) -> usize {
    let is_key = |line: &str| {
        let line = line.trim_start_matches(['"', '\'']);
        line.strip_prefix(name)
            .is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
    };
    text.lines().position(is_key).map_or(0, |index| index + 1)
}

fn put<T>(choice: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    *choice = Some(value?);
    Ok(())
}

/// Bytes a second: a size and `/s`; 0 alone is no limit.
fn rate(value: &Yaml) -> Result<u64, String> {
    let text = text(value)?;
    match text.strip_suffix("/s") {
        _ if text == "0" => Ok(0),
        Some(size) if size.ends_with(|c: char| c.is_alphabetic()) => quantity::size(size, 1),
        _ => Err(format!("`{text}` is no size each second: write for example 64MiB/s")),
    }
}

pub(super) fn text(value: &Yaml) -> Result<String, String> {
    match value {
        Yaml::Text(text) if !text.is_empty() => Ok(text.clone()),
        Yaml::Whole(number) => Ok(number.to_string()),
        _ => Err("a text is wanted".to_owned()),
    }
}

/// A value of a guardrail, as it is written in one word: a list with commas.
fn written(value: &Yaml) -> Result<String, String> {
    match value {
        Yaml::Truth(truth) => Ok(truth.to_string()),
        Yaml::List(list) => Ok(list.iter().map(text).collect::<Result<Vec<_>, _>>()?.join(",")),
        value => text(value),
    }
}

fn truth(value: &Yaml) -> Result<bool, String> {
    match value {
        Yaml::Truth(truth) => Ok(*truth),
        _ => Err("true or false is wanted".to_owned()),
    }
}

fn count(value: &Yaml) -> Result<usize, String> {
    match value {
        Yaml::Whole(number @ 1..) => Ok(*number as usize),
        // Both rivals write "no limit" so; ours are limits of their own and stay.
        _ => Err("a whole number, at least 1, is wanted".to_owned()),
    }
}

fn port(value: &Yaml) -> Result<u16, String> {
    match value {
        Yaml::Whole(number) => u16::try_from(*number).ok(),
        _ => None,
    }
    .ok_or_else(|| "a port, 0 to 65535, is wanted".to_owned())
}

fn size(value: &Yaml, unit_bytes: u64) -> Result<u64, String> {
    quantity::size(&text(value)?, unit_bytes)
}

fn duration(value: &Yaml) -> Result<Duration, String> {
    quantity::duration(&text(value)?)
}

/// How long a snapshot stays.
fn stay(value: &Yaml) -> Result<Duration, String> {
    quantity::snapshot_stay(&text(value)?)
}

fn millis(value: &Yaml) -> Result<Duration, String> {
    count(value).map(|millis| Duration::from_millis(millis as u64))
}

fn address(value: &Yaml) -> Result<IpAddr, String> {
    let name = text(value)?;
    if name == "localhost" {
        return Ok(IpAddr::from([127, 0, 0, 1]));
    }
    name.parse().map_err(|_| format!("`{name}` is no IP address"))
}

fn sync(value: &Yaml) -> Result<SyncMode, String> {
    match text(value)?.as_str() {
        // Cassandra's group mode, too, answers after the flush.
        "batch" | "group" => Ok(SyncMode::Batch),
        "periodic" => Ok(SyncMode::Periodic),
        other => Err(format!("`{other}` is neither batch nor periodic")),
    }
}

fn directory(value: &Yaml) -> Result<PathBuf, String> {
    match value {
        Yaml::List(list) => match &list[..] {
            [one] => Ok(PathBuf::from(text(one)?)),
            _ => Err("exactly one data directory is supported: combine disks below it".to_owned()),
        },
        one => Ok(PathBuf::from(text(one)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        read(text, &mut Vec::new()).unwrap_err()
    }

    #[test]
    fn names_of_both_rivals_are_understood() {
        let text = "cluster_name: 'Test Cluster'\n\
                    commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n\
                    commitlog_segment_size_in_mb: 32\ndata_file_directories:\n  - /var/lib/m\n\
                    rpc_address: localhost\nnative_transport_port: 9142\n\
                    authenticator: org.apache.cassandra.auth.AllowAllAuthenticator\n\
                    num_tokens: 16\nhinted_handoff_enabled: true\nrpc_interface:\n";
        let mut warnings = Vec::new();
        let choices = read(text, &mut warnings).unwrap();
        assert_eq!(choices.cluster_name.as_deref(), Some("Test Cluster"));
        assert_eq!(choices.commitlog_sync, Some(SyncMode::Periodic));
        assert_eq!(choices.commitlog_segment_bytes, Some(32 << 20));
        assert_eq!(choices.data_dir, Some(PathBuf::from("/var/lib/m")));
        assert_eq!(choices.listen, Some(IpAddr::from([127, 0, 0, 1])));
        assert_eq!(choices.port, Some(9142));
        let warned = "settings without effect here: commitlog_sync_period, hinted_handoff_enabled, \
                      num_tokens";
        assert_eq!(warnings, [warned]);
        assert_eq!(read("# nothing\n\n", &mut warnings).unwrap(), Choices::default());
    }

    #[test]
    fn an_unknown_name_gets_its_neighbour() {
        let text = "cluster_name: x\ncommitlog_snyc: batch\n";
        assert_eq!(
            refusal(text),
            "line 2: commitlog_snyc: no such setting. Did you mean `commitlog_sync`?"
        );
        assert_eq!(refusal("xyzzy: 1\n"), "line 1: xyzzy: no such setting");
    }

    #[test]
    fn what_cannot_be_promised_is_refused() {
        assert!(refusal("authenticator: PasswordAuthenticator\n").contains("not supported yet"));
        assert!(refusal("authenticator: {class_name: PasswordAuthenticator}\n").contains("line 1"));
        assert!(refusal("client_encryption_options: {enabled: true}\n").contains("encryption"));
        assert!(refusal("partitioner: RandomPartitioner\n").contains("Murmur3Partitioner"));
        assert!(refusal("data_file_directories: [a, b]\n").contains("exactly one"));
        assert!(refusal("native_transport_port: 70000\n").contains("0 to 65535"));
        assert!(refusal("cluster_name: [\n").contains("line"));
        assert!(refusal("- a\n- b\n").contains("line"));
    }

    #[test]
    fn a_promise_about_safety_is_refused_and_its_absence_is_not() {
        for text in [
            "transparent_data_encryption_options: {enabled: true}",
            "server_encryption_options: {internode_encryption: all}",
            "audit: table",
            "audit_logging_options: {enabled: true}",
            "native_transport_port_ssl: 9142",
            "role_manager: com.example.LdapRoleManager",
            "network_authorizer: CassandraNetworkAuthorizer",
            "user_info_encryption: {enabled: true}",
            "kmip_hosts: {one: {hosts: a}}",
        ] {
            let (name, _) = text.split_once(':').unwrap();
            let refused = refusal(text);
            assert!(refused.starts_with(&format!("line 1: {name}: ")), "{refused}");
            assert!(refused.contains("not supported yet"), "{refused}");
        }
        // As the rivals' own files have them.
        let text = "transparent_data_encryption_options: {enabled: false, chunk_length_kb: 64}\n\
                    server_encryption_options: {internode_encryption: none, keystore: a}\n\
                    audit: none\naudit_logging_options: {enabled: false}\n\
                    role_manager: {class_name: CassandraRoleManager}\n\
                    network_authorizer: {class_name: AllowAllNetworkAuthorizer}\n\
                    cidr_authorizer: {class_name: AllowAllCIDRAuthorizer}\n";
        let mut warnings = Vec::new();
        assert!(read(text, &mut warnings).is_ok());
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn a_timeout_that_is_not_kept_is_named_with_the_reason() {
        let mut warnings = Vec::new();
        let text = "counter_write_request_timeout: 5000ms\nmemtable_flush_writers: 1\n\
             request_timeout_in_ms: 2000\nnum_tokens: 1\n";
        assert!(read(text, &mut warnings).is_ok());
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings[0].starts_with("the setting counter_write_request_timeout has no effect"));
        let unused = "settings without effect here: memtable_flush_writers, num_tokens";
        assert_eq!(warnings[2], unused);
    }

    #[test]
    fn known_names_are_sorted_and_none_is_ours_alone() {
        let names: Vec<_> = KNOWN_NAMES.lines().collect();
        assert!(names.is_sorted());
        let own = ["data_center", "memory", "rack", "shards"];
        let strange = SETTINGS.iter().map(|(name, _)| *name).filter(|name| !names.contains(name));
        assert_eq!(strange.collect::<Vec<_>>(), own);
        for (name, ..) in promises::REFUSED {
            assert!(names.contains(&name), "{name}");
        }
        for (pattern, _) in promises::WARNED {
            let fits = |name: &&str| {
                promises::warning(name).is_some() && name.ends_with(pattern.trim_start_matches('*'))
            };
            assert!(names.iter().any(fits), "{pattern}");
        }
    }
}

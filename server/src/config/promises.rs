//! Settings that promise something which is not done here: each is refused, or named in a warning with the reason.
//!
//! A promise about safety (who may connect, what is encrypted, what is recorded) is an error unless the value says
//! that nothing is asked. Any other promise is a warning of its own. What is in neither list, of all that Cassandra
//! and ScyllaDB have, tunes what is not there, and one warning names it.
//!
//! A name is looked for in this order (`file.rs`): settings that are applied, guardrails, [`REFUSED`], guardrails that
//! cannot apply and [`WARNED`], all known names. A name that none has is an error.
//!
//! Invariants: a setting without a value (`name:`) is never judged, since it means the default; every name here is a
//! known name of Cassandra or ScyllaDB, which a test of `file.rs` checks.
//!
//! Not here: the settings that are applied (`file.rs`), the limits that an operator may set (`guardrails.rs` of the
//! server).

use super::file::{Yaml, text};

/// How a promise is judged; `Err` says what is asked and not done.
type Judge = fn(&Yaml) -> Result<(), String>;

/// Settings that are refused unless they ask for nothing, with what they are about.
pub(super) const REFUSED: [(&str, Judge, &str); 21] = [
    ("audit", |v| off(v, "audit"), "requests are not recorded"),
    ("audit_logging_options", |v| disabled(v, "audit"), "requests are not recorded"),
    (
        "authenticator",
        |v| only(v, "AllowAllAuthenticator", "authentication"),
        "everybody may connect",
    ),
    (
        "authorizer",
        |v| only(v, "AllowAllAuthorizer", "authorization"),
        "everybody may do everything",
    ),
    (
        "cidr_authorizer",
        |v| only(v, "AllowAllCIDRAuthorizer", "authorization by address"),
        "everybody may do everything",
    ),
    (
        "client_encryption_options",
        |v| disabled(v, "client encryption"),
        "connections are not encrypted",
    ),
    (
        "internode_authenticator",
        |v| only(v, "AllowAllInternodeAuthenticator", "authentication between nodes"),
        "there is one node",
    ),
    ("kmip_hosts", |v| nothing(v, "encryption at rest"), "files are not encrypted"),
    ("kms_hosts", |v| nothing(v, "encryption at rest"), "files are not encrypted"),
    (
        "native_shard_aware_transport_port_ssl",
        |v| nothing(v, "client encryption"),
        "connections are not encrypted",
    ),
    (
        "native_transport_port_ssl",
        |v| nothing(v, "client encryption"),
        "connections are not encrypted",
    ),
    (
        "network_authorizer",
        |v| only(v, "AllowAllNetworkAuthorizer", "authorization by data center"),
        "everybody may do everything",
    ),
    (
        "partitioner",
        |v| only(v, "Murmur3Partitioner", "another partitioner"),
        "tokens are Murmur3's",
    ),
    (
        "role_manager",
        |v| only(v, "CassandraRoleManager", "another role manager"),
        "there are no roles",
    ),
    ("server_encryption_options", no_internode_encryption, "there is one node"),
    ("system_info_encryption", |v| disabled(v, "encryption at rest"), "files are not encrypted"),
    ("system_key_directory", |v| nothing(v, "encryption at rest"), "files are not encrypted"),
    (
        "transparent_data_encryption_options",
        |v| disabled(v, "encryption at rest"),
        "files are not encrypted",
    ),
    ("user_info_encryption", |v| disabled(v, "encryption at rest"), "files are not encrypted"),
    (
        "alternator_encryption_options",
        |v| disabled(v, "Alternator's encryption"),
        "there is no Alternator",
    ),
    (
        "alternator_enforce_authorization",
        |v| off(v, "Alternator's authorization"),
        "there is no Alternator",
    ),
];

const NO_TIMEOUT: &str = "reads and writes have read_request_timeout, range_request_timeout and write_request_timeout; what else is \
     asked is answered when it is done";
const LEAVES: &str = "a disk that fails ends the process";
/// Settings with a warning of their own: names or, with a star, their ends.
pub(super) const WARNED: [(&str, &str); 7] = [
    ("*_request_timeout", NO_TIMEOUT),
    ("*_request_timeout_in_ms", NO_TIMEOUT),
    ("request_timeout", NO_TIMEOUT),
    ("request_timeout_in_ms", NO_TIMEOUT),
    ("commit_failure_policy", LEAVES),
    ("disk_failure_policy", LEAVES),
    ("*_fail_threshold", "limits are named in the documents, and are not set"),
];

/// Why a setting has a warning of its own.
pub(super) fn warning(name: &str) -> Option<&'static str> {
    let fits = |pattern: &str| match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == pattern,
    };
    WARNED.iter().find(|(pattern, _)| fits(pattern)).map(|(_, why)| *why)
}

/// A setting of which only one class can be had.
fn only(value: &Yaml, class: &str, what: &str) -> Result<(), String> {
    // Newer files write `class_name: X` below the key.
    let name = match value {
        Yaml::Map(map) => map.get("class_name").map_or_else(|| text(value), text)?,
        value => text(value)?,
    };
    if name.rsplit('.').next() == Some(class) {
        return Ok(());
    }
    Err(format!("`{name}`: {what} is not supported yet, only {class} is"))
}

/// A map whose `enabled` must be false.
fn disabled(value: &Yaml, what: &str) -> Result<(), String> {
    let Yaml::Map(map) = value else { return Err("a map is wanted".to_owned()) };
    map.get("enabled").map_or(Ok(()), |enabled| off(enabled, what))
}

/// A value that says no.
fn off(value: &Yaml, what: &str) -> Result<(), String> {
    match value {
        Yaml::Truth(false) => Ok(()),
        Yaml::Text(no) if no.is_empty() || no == "false" || no == "none" => Ok(()),
        _ => Err(format!("{what} is not supported yet")),
    }
}

/// A setting that asks for `what` by being there.
fn nothing(value: &Yaml, what: &str) -> Result<(), String> {
    match value {
        Yaml::Map(map) if map.is_empty() => Ok(()),
        _ => Err(format!("{what} is not supported yet")),
    }
}

fn no_internode_encryption(value: &Yaml) -> Result<(), String> {
    let Yaml::Map(map) = value else { return Err("a map is wanted".to_owned()) };
    let what = "encryption between nodes";
    map.get("internode_encryption").map_or(Ok(()), |which| off(which, what))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// The tables of `docs/options.md`, made from the lists.
    #[test]
    fn the_documents_list_every_promise() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/options.md");
        let document = std::fs::read_to_string(path).unwrap();
        let (begin, end) =
            ("<!-- settings: made by a test of server -->\n", "<!-- end of settings -->");
        let (before, rest) = document.split_once(begin).unwrap();
        let (found, after) = rest.split_once(end).unwrap();
        let mut table = "| Setting | Here | Why |\n|---|---|---|\n".to_owned();
        for (name, _, why) in REFUSED {
            let _ = writeln!(table, "| `{name}` | refused, unless it asks for nothing | {why} |");
        }
        for (name, why) in WARNED {
            let _ = writeln!(table, "| `{name}` | no effect, with a warning | {why} |");
        }
        if std::env::var_os("MESSINA_BLESS").is_some() {
            std::fs::write(path, format!("{before}{begin}\n{table}\n{end}{after}")).unwrap();
            return;
        }
        assert_eq!(found.trim(), table.trim());
    }
}

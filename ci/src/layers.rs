//! The arrows between the crates, read from `cargo metadata`, and where two worlds may meet.
//!
//! ```text
//!      bench ─► server ─► functions  tools, ci ─► cql: the tops, nothing else depends on them; tools ─► engine
//!            ╱      ╲
//!          cql      shard           cql and shard do not know each other
//!            ╲        │
//!             ╲     engine
//!              ╲    ╱
//!              model
//! ```
//!
//! Invariants
//! 1. An arrow that is not in `ARROWS` fails, development dependencies included.
//! 2. In `server`, CQL and shards are named together only in `MEETING_PLACES`.
//! 3. Every outside dependency stands in the root Cargo.toml with its reason.

use serde_json::Value;

use crate::repository::{Repository, TextFile};
use crate::step::Failure;
use crate::tidy::names_crate;

/// Which crates a crate may use.
const ARROWS: [(&str, &[&str]); 12] = [
    ("messina-model", &[]),
    ("messina-engine", &["messina-model"]),
    ("messina-shard", &["messina-engine", "messina-model"]),
    ("messina-cql", &["messina-model"]),
    ("messina-functions", &["messina-cql", "messina-model"]),
    (
        "messina-server",
        &["messina-cql", "messina-functions", "messina-shard", "messina-engine", "messina-model"],
    ),
    ("messina-tools", &["messina-cql", "messina-engine", "messina-model"]),
    (
        "messina-bench",
        &["messina-server", "messina-cql", "messina-shard", "messina-engine", "messina-model"],
    ),
    ("messina-ci", &["messina-cql"]),
    ("messina-differential", &["messina-cql"]),
    ("messina-fuzz", &["messina-cql", "messina-engine", "messina-functions", "messina-model"]),
    ("messina-miri", &[]),
];

/// Crates that may depend on the runtime.
const RUNTIME_USERS: [&str; 3] = ["messina-engine", "messina-shard", "messina-server"];

/// Files of the server that may name both `cql` and `shard`, and why.
const MEETING_PLACES: [(&str, &str); 8] = [
    ("server/src/execute.rs", "turns plans into requests"),
    ("server/src/execute/", "its parts"),
    ("server/src/manual.rs", "drives it without sockets, for `cost` and tests"),
    ("server/src/pass.rs", "decodes frames in the runtime's pass, and asks no shard anything"),
    ("server/src/pass/tests.rs", "drives it"),
    ("server/src/service.rs", "the seam itself: a request, and what wakes the pass"),
    ("server/src/session.rs", "what a client has said, and the terms of its reads"),
    ("server/src/ids.rs", "the language's ids, from the core's clock"),
];

/// What cargo says of the workspace's own crates.
pub(crate) fn metadata(repository: &Repository) -> Result<Value, Failure> {
    let output = repository
        .cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .map_err(|error| Failure::from(format!("cargo metadata: {error}")))?;
    if !output.status.success() {
        return Err(Failure::from(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::from(format!("cargo metadata: {error}")))
}

/// Complaints about arrows that are not allowed.
pub(crate) fn check_arrows(metadata: &Value) -> Result<Vec<String>, Failure> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let mut complaints = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(crate_name, _)| *crate_name == name) else {
            complaints.push(format!("{name}: a crate without arrows (ci/src/layers.rs)"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().unwrap_or_default();
            if dependency["path"].is_string() && !allowed.contains(&target) {
                complaints.push(format!("{name} -> {target}: arrows point down only"));
            }
            if target == "glommio" && !RUNTIME_USERS.contains(&name) {
                complaints.push(format!("{name} -> glommio: only {RUNTIME_USERS:?} know it"));
            }
        }
    }
    Ok(complaints)
}

/// Complaints about files that know too much, and about dependencies without a reason.
pub(crate) fn check_meeting_places(files: &[TextFile]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with("server/src/")) {
        if !file.path.ends_with(".rs") {
            continue;
        }
        let knows_both = names_crate(&file.text, "cql") && names_crate(&file.text, "shard");
        let may = |place: &str| {
            file.path == place || (place.ends_with('/') && file.path.starts_with(place))
        };
        if knows_both && !MEETING_PLACES.iter().any(|(place, _)| may(place)) {
            complaints.push(format!("{}: names both `cql` and `shard`", file.path));
        }
    }
    if let Some(root) = files.iter().find(|file| file.path == "Cargo.toml") {
        complaints.extend(check_reasons(&root.text));
    }
    complaints
}

/// A line of `[workspace.dependencies]` ends with `# why`, save the crates themselves.
fn check_reasons(manifest: &str) -> Vec<String> {
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines
        .filter(|line| line.contains(" = ") && !line.starts_with('#'))
        .filter(|line| !line.contains("path = ") && !line.contains(" # "))
        .map(|line| format!("Cargo.toml: `{line}`: say why we depend on it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependency: &str, path: Option<&str>) -> Value {
        json!({"packages": [{"name": name, "dependencies": [{"name": dependency, "path": path}]}]})
    }

    #[test]
    fn an_arrow_that_points_up_is_a_complaint() {
        for (from, to, is_fine) in [
            ("messina-server", "messina-cql", true),
            ("messina-cql", "messina-shard", false),
            ("messina-shard", "messina-cql", false),
            ("messina-engine", "messina-shard", false),
            ("messina-model", "messina-ci", false),
            ("messina-new", "messina-model", false),
        ] {
            let complaints = check_arrows(&package(from, to, Some("x"))).unwrap();
            assert_eq!(complaints.is_empty(), is_fine, "{from} -> {to}: {complaints:?}");
        }
    }

    #[test]
    fn the_runtime_has_three_users() {
        assert!(check_arrows(&package("messina-shard", "glommio", None)).unwrap().is_empty());
        assert_eq!(check_arrows(&package("messina-cql", "glommio", None)).unwrap().len(), 1);
    }

    #[test]
    fn only_named_files_know_both_worlds() {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let both = "//! x\nuse cql::frame;\nuse shard::router;\n";
        assert!(check_meeting_places(&[file("server/src/execute.rs", both)]).is_empty());
        assert!(check_meeting_places(&[file("server/src/execute/batch.rs", both)]).is_empty());
        assert_eq!(check_meeting_places(&[file("server/src/execute_a.rs", both)]).len(), 1);
        assert!(check_meeting_places(&[file("server/src/a.rs", "use cql::x;")]).is_empty());
        assert_eq!(check_meeting_places(&[file("server/src/a.rs", both)]).len(), 1);
    }

    #[test]
    fn a_dependency_without_a_reason_is_a_complaint() {
        let manifest = "[workspace.dependencies]\nmodel = { path = \"model\" }\n\
            a = \"1\" # because\nb = \"1\"\n[profile.dev]\nc = 1\n";
        assert_eq!(check_reasons(manifest).len(), 1);
    }
}

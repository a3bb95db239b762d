//! What an index of the class SASIIndex takes: modes, and an analyzer that splits no texts.
//!
//! The words are those of Cassandra's `SASIIndex.validateOptions` and `IndexMode`. Options that are not named here are kept
//! and have no effect, as most of them: they are about files and memory there.

use std::collections::BTreeMap;

use model::schema::{Analysis, ColumnKind};
use model::types::CqlType;

use super::target::IndexedColumn;
use crate::describe::index_target;
use crate::error::{Error, Result};

/// What Cassandra says of each such index.
pub(super) const WARNING: &str =
    "SASI indexes are experimental and are not recommended for production use.";

const ANALYZERS: &str = "org.apache.cassandra.index.sasi.analyzer.";

/// Looks at the column and the options; how texts compare.
pub(super) fn check(
    options: &BTreeMap<String, String>,
    columns: &[IndexedColumn<'_>],
) -> Result<Analysis> {
    let [only] = columns else {
        let shown = |one: &IndexedColumn<'_>| index_target(one.column, one.target);
        let targets: Vec<String> = columns.iter().map(shown).collect();
        return config(format!("failed to retrieve target column for: {}", targets.join(", ")));
    };
    let column = only.column;
    if column.ty.is_multi_cell() {
        return config("complex columns are not yet supported by SASI");
    }
    if column.kind == ColumnKind::PartitionKey {
        return config("partition key columns are not yet supported by SASI");
    }
    let is_text = matches!(column.ty, CqlType::Text | CqlType::Ascii);
    let is_true = |name: &str| options.get(name).is_some_and(|is| is.eq_ignore_ascii_case("true"));
    let analyzer = options.get("analyzer_class");
    let analysis = match analyzer.map(|name| name.strip_prefix(ANALYZERS).unwrap_or(name)) {
        None | Some("NoOpAnalyzer") if !is_true("analyzed") => Analysis::NONE,
        Some("NonTokenizingAnalyzer") if !is_text => {
            return config(format!("NonTokenizingAnalyzer does not support type {}", column.ty));
        }
        Some("NonTokenizingAnalyzer") => {
            let exact =
                !options.get("case_sensitive").is_some_and(|is| is.eq_ignore_ascii_case("false"));
            let is_folded = is_true("normalize_lowercase") || is_true("normalize_uppercase");
            Analysis { case_sensitive: exact && !is_folded, ..Analysis::NONE }
        }
        None | Some("NoOpAnalyzer" | "StandardAnalyzer" | "DelimiterAnalyzer") => {
            return config(
                "analyzers that split texts into words are not supported: use NonTokenizingAnalyzer",
            );
        }
        Some(_) => {
            let name = analyzer.map(String::as_str).unwrap_or_default();
            return config(format!("Unable to find analyzer class '{name}'"));
        }
    };
    let mode = options.get("mode").map(|mode| mode.to_ascii_uppercase());
    match mode.as_deref() {
        None | Some("PREFIX" | "CONTAINS") => Ok(analysis),
        Some("SPARSE") if is_text => {
            config("SPARSE mode is only supported on non-literal columns.")
        }
        Some("SPARSE") if analyzer.is_some() => config("SPARSE mode doesn't support analyzers."),
        Some("SPARSE") => Ok(analysis),
        Some(_) => config(format!("Incorrect index mode: {}", options["mode"])),
    }
}

fn config<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::Config(text.into()))
}

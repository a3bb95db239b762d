//! What a storage-attached index of vectors takes: a similarity, and what it is to be good at.
//!
//! The words are those of Cassandra's `StorageAttachedIndex` and `IndexWriterConfig`. The form of its graph is not the
//! user's to choose, as it is not there either unless a property of the node allows it.

use std::collections::BTreeMap;

use model::schema::{OPTIMIZE_OPTION, SIMILARITY_OPTION, Table};
use model::types::{CqlType, Similarity};

use crate::error::{Error, Result};

/// The options of an index of vectors.
pub(super) const OPTIONS: [&str; 4] =
    ["construction_beam_width", "maximum_node_connections", OPTIMIZE_OPTION, SIMILARITY_OPTION];

/// What Cassandra says of each such index of a table whenever it gets one.
const WARNING: &str =
    "SAI ANN indexes on vector columns are experimental and are not recommended for production use.
They don't yet support SELECT queries with:
 * Consistency level higher than ONE/LOCAL_ONE.
 * Paging.
 * No LIMIT clauses.
 * PER PARTITION LIMIT clauses.
 * GROUP BY clauses.
 * Aggregation functions.
 * Filters on columns without a SAI index.";

/// Looks at the options of an index of a column of this type.
pub(super) fn check(ty: &CqlType, options: &BTreeMap<String, String>) -> Result<()> {
    let is_given = |name: &&&str| options.contains_key(**name);
    let CqlType::Vector { element, dimensions } = ty else {
        return match OPTIONS.iter().find(is_given) {
            Some(_) => Err(Error::invalid(format!("CQL type {ty} cannot have vector options"))),
            None => Ok(()),
        };
    };
    for (name, what) in [
        ("maximum_node_connections", "Maximum node connections"),
        ("construction_beam_width", "Construction beam width"),
    ] {
        if options.contains_key(name) {
            return Err(Error::invalid(format!(
                "{what} cannot be set without enabling SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS"
            )));
        }
    }
    let similarity = match options.get(SIMILARITY_OPTION) {
        None => Similarity::Cosine,
        Some(name) => Similarity::of_name(name).ok_or_else(|| {
            let all: Vec<String> = Similarity::ALL.map(|one| one.name().to_uppercase()).into();
            Error::invalid(format!(
                "Similarity function {} was not recognized for index null. Valid values are: {}",
                name.to_uppercase(),
                all.join(", ")
            ))
        })?,
    };
    if let Some(name) = options.get(OPTIMIZE_OPTION)
        && !["latency", "recall"].iter().any(|known| name.eq_ignore_ascii_case(known))
    {
        return Err(Error::invalid(format!(
            "optimize_for '{}' was not recognized for index null. Valid values are: LATENCY, RECALL",
            name.to_uppercase()
        )));
    }
    if **element != CqlType::Float {
        return Err(Error::invalid(
            "SAI ANN indexes are only allowed on vector columns with float elements",
        ));
    }
    if *dimensions == 1 && similarity == Similarity::Cosine {
        return Err(Error::invalid(
            "Cosine similarity is not supported for single-dimension vectors",
        ));
    }
    Ok(())
}

/// What the user of a table that gets an index should know.
pub(super) fn warnings(table: &Table) -> impl Iterator<Item = String> {
    table.vector_indexes().map(|_| WARNING.to_owned())
}

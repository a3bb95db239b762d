//! The option `caching`: what Cassandra's key and row caches hold.

use std::collections::BTreeMap;

use super::effect::SubOption;
use super::refusal::{Refusal, Result};

const ONE_CACHE: &str = "one cache holds the blocks of all tables";
/// The sub-options of `caching`.
pub const CACHING: [SubOption; 2] = [
    SubOption::kept("keys", "ALL", ONE_CACHE),
    SubOption::kept("rows_per_partition", "NONE", ONE_CACHE),
];

/// What is to be cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caching {
    /// Whether positions of keys are.
    pub keys: bool,
    /// How many rows of a partition are.
    pub rows_per_partition: CachedRows,
}

/// How many rows of a partition are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedRows {
    /// Every row of a partition.
    All,
    /// This many from the start of the partition; `NONE` is 0.
    First(u32),
}

impl Default for Caching {
    fn default() -> Caching {
        Caching { keys: true, rows_per_partition: CachedRows::First(0) }
    }
}

impl Caching {
    /// Reads the map of a statement.
    pub fn parse(given: &BTreeMap<String, String>) -> Result<Caching> {
        if given.is_empty() {
            return Ok(Caching { keys: false, ..Caching::default() });
        }
        let known = |key: &&str| CACHING.iter().any(|option| option.name == *key);
        let unknown: Vec<&str> =
            given.keys().map(String::as_str).filter(|key| !known(key)).collect();
        if !unknown.is_empty() {
            return Refusal::config(format!(
                "Invalid caching sub-options [{}]: only 'keys' and 'rows_per_partition' are allowed",
                unknown.join(", ")
            ));
        }
        let keys = match given.get("keys").map(|text| (text, text.to_ascii_uppercase())) {
            None => true,
            Some((_, upper)) if upper == "ALL" => true,
            Some((_, upper)) if upper == "NONE" => false,
            Some((text, _)) => {
                return Refusal::config(format!(
                    "Invalid value '{text}' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed"
                ));
            }
        };
        let rows_per_partition = match given.get("rows_per_partition") {
            None => CachedRows::First(0),
            Some(text) => rows(text)?,
        };
        Ok(Caching { keys, rows_per_partition })
    }

    /// The map that the schema shows.
    pub fn pairs(&self) -> BTreeMap<String, String> {
        let keys = if self.keys { "ALL" } else { "NONE" };
        let rows = match self.rows_per_partition {
            CachedRows::All => "ALL".to_owned(),
            CachedRows::First(0) => "NONE".to_owned(),
            CachedRows::First(count) => count.to_string(),
        };
        let rows = ("rows_per_partition".to_owned(), rows);
        BTreeMap::from([("keys".to_owned(), keys.to_owned()), rows])
    }
}

fn rows(text: &str) -> Result<CachedRows> {
    match text.to_ascii_uppercase().as_str() {
        "ALL" => Ok(CachedRows::All),
        "NONE" => Ok(CachedRows::First(0)),
        digits => match digits.parse() {
            Ok(count) if count <= i32::MAX as u32 => Ok(CachedRows::First(count)),
            _ => Refusal::config(format!(
                "Invalid value '{text}' for caching sub-option 'rows_per_partition': only 'ALL', 'NONE', and integer values are allowed"
            )),
        },
    }
}

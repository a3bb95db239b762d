//! The option `replication` of a keyspace: where copies of its partitions are to be, and how many.
//!
//! Read as `ReplicationParams`, `SimpleStrategy` and `NetworkTopologyStrategy` of Cassandra 5.0 do. This node holds the
//! one replica there is; a higher factor is kept, counts for consistency levels, and is answered with a warning.
//!
//! 1. `parse` reads the map of a statement. For `NetworkTopologyStrategy` only the data center of this node may be
//!    named; `replication_factor` means each data center that has no factor yet.
//! 2. `stored` reads the map of a schema log, where any data center may be named.
//! 3. `pairs` and `short_pairs` give it back: with the full name of the class for `system_schema`, with the short one
//!    for DESCRIBE.
//!
//! Invariant: no factor changes where data is. Each partition is once on this node, by its token.
//!
//! Not here: consistency levels (`server/src/execute/consistency.rs`), the other options of a keyspace (`keyspace.rs`),
//! which shard owns a token (`shard/src/owner.rs`).

use std::collections::BTreeMap;

use super::refusal::{Refusal, Result};

const PACKAGE: &str = "org.apache.cassandra.locator.";
const FACTOR: &str = "replication_factor";
/// What Cassandra takes where no factor is given (`default_keyspace_rf`).
const FACTOR_DEFAULT: u32 = 1;

/// A strategy, with its factors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// `LocalStrategy`, of the server's own keyspaces: each node has its own data.
    Local,
    /// `SimpleStrategy`: so many replicas.
    Simple(u32),
    /// `NetworkTopologyStrategy`: so many replicas in each data centre.
    NetworkTopology(BTreeMap<String, u32>),
}

/// What a map of replication is read for.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    /// Name of the keyspace.
    pub keyspace: &'p str,
    /// Name of the one data centre there is.
    pub data_center: &'p str,
}

impl Replication {
    /// Reads the map of a statement; `before` is what the keyspace had.
    pub(super) fn parse(
        given: &BTreeMap<String, String>,
        before: &Replication,
        place: &Place<'_>,
    ) -> Result<Replication> {
        let mut factors = given.clone();
        let Some(class) = factors.remove("class") else {
            return Refusal::config("Missing replication strategy class");
        };
        match class.strip_prefix(PACKAGE).unwrap_or(&class) {
            "SimpleStrategy" => {
                unrecognized(&factors, FACTOR, "SimpleStrategy", place)?;
                let given = factors.get(FACTOR);
                Ok(Replication::Simple(given.map_or(Ok(FACTOR_DEFAULT), |text| factor(text))?))
            }
            "NetworkTopologyStrategy" => network_topology(factors, before, place),
            "LocalStrategy" => Err(Refusal::Invalid(
                "Unable to use given strategy class: LocalStrategy is reserved for internal use."
                    .to_owned(),
            )),
            _ => {
                let full = if class.contains('.') { class } else { format!("{PACKAGE}{class}") };
                Refusal::config(format!("Unable to find replication strategy class '{full}'"))
            }
        }
    }

    /// Reads the map of a schema log: every class that a build has written.
    pub(super) fn stored(map: &BTreeMap<String, String>) -> Result<Replication> {
        let class = map.get("class").map_or("SimpleStrategy", |class| class.as_str());
        let mut factors = BTreeMap::new();
        for (option, text) in map.iter().filter(|(option, _)| *option != "class") {
            factors.insert(option.clone(), factor(text)?);
        }
        match class.strip_prefix(PACKAGE).unwrap_or(class) {
            "LocalStrategy" => Ok(Replication::Local),
            "NetworkTopologyStrategy" => Ok(Replication::NetworkTopology(factors)),
            "SimpleStrategy" => {
                Ok(Replication::Simple(factors.remove(FACTOR).unwrap_or(FACTOR_DEFAULT)))
            }
            class => {
                Refusal::config(format!("Unable to find replication strategy class '{class}'"))
            }
        }
    }

    /// The name of the class, without its package.
    pub fn class(&self) -> &'static str {
        match self {
            Replication::Local => "LocalStrategy",
            Replication::Simple(_) => "SimpleStrategy",
            Replication::NetworkTopology(_) => "NetworkTopologyStrategy",
        }
    }

    /// The map as DESCRIBE writes it: the class by its short name, and the factors.
    pub fn short_pairs(&self) -> BTreeMap<String, String> {
        let shown = |(name, factor): (&str, &u32)| (name.to_owned(), factor.to_string());
        let mut pairs: BTreeMap<String, String> = match self {
            Replication::Local => BTreeMap::new(),
            Replication::Simple(factor) => BTreeMap::from([shown((FACTOR, factor))]),
            Replication::NetworkTopology(factors) => {
                factors.iter().map(|(name, factor)| shown((name, factor))).collect()
            }
        };
        pairs.insert("class".to_owned(), self.class().to_owned());
        pairs
    }

    /// The map as `system_schema` shows it: the class by its full name, and the factors.
    pub fn pairs(&self) -> BTreeMap<String, String> {
        let mut pairs = self.short_pairs();
        pairs.insert("class".to_owned(), format!("{PACKAGE}{}", self.class()));
        pairs
    }

    /// How many replicas a partition is to have, in all data centres; for consistency levels.
    pub fn replicas(&self) -> u32 {
        match self {
            Replication::Local => 1,
            Replication::Simple(factor) => *factor,
            Replication::NetworkTopology(factors) => {
                factors.values().fold(0, |sum: u32, factor| sum.saturating_add(*factor))
            }
        }
    }

    /// Says that more replicas are asked for than there are nodes.
    pub(super) fn warning(&self, place: &Place<'_>) -> Option<String> {
        let (replicas, at) = match self {
            Replication::NetworkTopology(_) => {
                (self.replicas(), format!(" for datacenter {}", place.data_center))
            }
            _ => (self.replicas(), String::new()),
        };
        (replicas > 1).then(|| {
            format!(
                "Your replication factor {replicas} for keyspace {} is higher than the number of nodes 1{at}",
                place.keyspace
            )
        })
    }
}

/// The factors by data centre. `replication_factor` is that of each data centre which has none yet, so ALTER does not
/// change what is there; without any factor a keyspace of `SimpleStrategy` keeps its own.
fn network_topology(
    mut given: BTreeMap<String, String>,
    before: &Replication,
    place: &Place<'_>,
) -> Result<Replication> {
    let strategy = "NetworkTopologyStrategy";
    let of_each = given.remove(FACTOR).map(|text| factor(&text)).transpose()?;
    unrecognized(&given, place.data_center, strategy, place)?;
    let named = given.get(place.data_center).map(|text| factor(text)).transpose()?;
    let replicas = match (named, of_each, before) {
        (Some(named), _, _) => named,
        (None, Some(_), Replication::NetworkTopology(factors)) if !factors.is_empty() => {
            return Ok(Replication::NetworkTopology(factors.clone()));
        }
        (None, Some(of_each), _) => of_each,
        (None, None, Replication::Simple(before)) => *before,
        (None, None, _) => FACTOR_DEFAULT,
    };
    if replicas == 0 {
        return Refusal::config("Configuration for at least one datacenter must be present");
    }
    let factors = BTreeMap::from([(place.data_center.to_owned(), replicas)]);
    Ok(Replication::NetworkTopology(factors))
}

/// Refuses the first option that is not `known`.
fn unrecognized(
    given: &BTreeMap<String, String>,
    known: &str,
    strategy: &str,
    place: &Place<'_>,
) -> Result<()> {
    let Some(option) = given.keys().find(|option| *option != known) else { return Ok(()) };
    Refusal::config(format!(
        "Unrecognized strategy option {{{option}}} passed to {strategy} for keyspace {}",
        place.keyspace
    ))
}

/// A number of replicas, as Java reads one; `3/1` would be three, one of them transient.
fn factor(text: &str) -> Result<u32> {
    let full = match text.split_once('/') {
        Some((full, "0")) => full,
        Some(_) => return Refusal::config("Transient replication is not enabled on this node"),
        None => text,
    };
    match full.parse::<i32>() {
        Ok(count) => u32::try_from(count).or_else(|_| {
            Refusal::config(format!("Replication factor must be non-negative, found {count}"))
        }),
        Err(_) => Refusal::config(format!("For input string: \"{full}\"")),
    }
}

//! CREATE, ALTER and DROP KEYSPACE.
//!
//! Replication is validated and kept as given: this node holds the one replica there is, and a
//! warning says so where more were asked for.

use super::{Ddl, DdlContext, Object, is_word};
use crate::error::{Error, Result};
use crate::lang::ast::{Properties, PropertyValue};
use crate::limits::KEYSPACE_NAME_CHARS_MAX;
use model::schema::SchemaChange;
use std::collections::BTreeMap;

const PACKAGE: &str = "org.apache.cassandra.locator.";
const STRATEGIES: [&str; 4] =
    ["SimpleStrategy", "NetworkTopologyStrategy", "LocalStrategy", "EverywhereStrategy"];

struct Wanted {
    replication: Option<BTreeMap<String, String>>,
    durable_writes: Option<bool>,
    warnings: Vec<String>,
}

pub(super) fn create(
    ground: &DdlContext<'_>,
    name: &str,
    if_not_exists: bool,
    properties: &Properties,
) -> Result<Ddl> {
    if (ground.is_system)(name) {
        let text = format!("System keyspace '{name}' is not user-modifiable");
        return Err(Error::Invalid(text));
    }
    check_name(name)?;
    let wanted = read(ground, name, properties)?;
    if ground.schema.keyspace(name).is_some() {
        if if_not_exists {
            return Ok(Ddl::nothing());
        }
        return Err(Error::AlreadyExists {
            keyspace: name.to_owned(),
            table: String::new(),
            text: format!("Keyspace '{name}' already exists"),
        });
    }
    let replication = wanted
        .replication
        .ok_or_else(|| Error::invalid("Missing mandatory option 'replication'"))?;
    let change = SchemaChange::CreateKeyspace {
        name: name.to_owned(),
        replication,
        durable_writes: wanted.durable_writes.unwrap_or(true),
    };
    Ok(Ddl::step(change, "CREATED", name, Object::Keyspace, wanted.warnings))
}

pub(super) fn alter(
    ground: &DdlContext<'_>,
    name: &str,
    if_exists: bool,
    properties: &Properties,
) -> Result<Ddl> {
    ground.check_modifiable(name)?;
    if if_exists && ground.schema.keyspace(name).is_none() {
        return Ok(Ddl::nothing());
    }
    let keyspace = ground.existing(name)?;
    let wanted = read(ground, name, properties)?;
    let change = SchemaChange::AlterKeyspace {
        name: name.to_owned(),
        replication: wanted.replication.unwrap_or_else(|| keyspace.replication.clone()),
        durable_writes: wanted.durable_writes.unwrap_or(keyspace.durable_writes),
    };
    Ok(Ddl::step(change, "UPDATED", name, Object::Keyspace, wanted.warnings))
}

pub(super) fn drop(ground: &DdlContext<'_>, name: &str, if_exists: bool) -> Result<Ddl> {
    ground.check_modifiable(name)?;
    if if_exists && ground.schema.keyspace(name).is_none() {
        return Ok(Ddl::nothing());
    }
    ground.existing(name)?;
    let change = SchemaChange::DropKeyspace { name: name.to_owned() };
    Ok(Ddl::step(change, "DROPPED", name, Object::Keyspace, Vec::new()))
}

fn check_name(name: &str) -> Result<()> {
    if !is_word(name) {
        return Err(Error::invalid(format!(
            "Keyspace name must not be empty and must contain alphanumeric or underscore characters only (got \"{name}\")"
        )));
    }
    if name.len() > KEYSPACE_NAME_CHARS_MAX {
        return Err(Error::invalid(format!(
            "Keyspace name must not be more than {KEYSPACE_NAME_CHARS_MAX} characters long (got {} characters for \"{name}\")",
            name.len()
        )));
    }
    Ok(())
}

fn read(ground: &DdlContext<'_>, name: &str, properties: &Properties) -> Result<Wanted> {
    let mut wanted = Wanted { replication: None, durable_writes: None, warnings: Vec::new() };
    for (property, value) in properties {
        match (property.as_str(), value) {
            ("replication", PropertyValue::Map(pairs)) => {
                let pairs = pairs.iter().cloned().collect();
                let checked = replication(ground, name, pairs, &mut wanted.warnings)?;
                wanted.replication = Some(checked);
            }
            ("durable_writes", PropertyValue::Text(text)) => {
                let durable = model::options::boolean("durable_writes", text)?;
                if !durable {
                    wanted.warnings.push(
                        "Option 'durable_writes' is kept and has no effect: every write is durable"
                            .to_owned(),
                    );
                }
                wanted.durable_writes = Some(durable);
            }
            ("replication", PropertyValue::Text(_)) => {
                return Err(Error::Syntax(
                    "Invalid value for property 'replication'. It should be a map.".to_owned(),
                ));
            }
            ("durable_writes", PropertyValue::Map(_)) => {
                return Err(Error::Syntax(
                    "Invalid value for property 'durable_writes'. It should be a string".to_owned(),
                ));
            }
            // ScyllaDB's: migrations carry it along.
            ("tablets" | "storage", _) => wanted.warnings.push(format!(
                "Property '{property}' of keyspace {name} is ScyllaDB's and has no effect here"
            )),
            _ => return Err(Error::Syntax(format!("Unknown property '{property}'"))),
        }
    }
    Ok(wanted)
}

/// Checks a replication map and gives it back as the schema keeps it.
fn replication(
    ground: &DdlContext<'_>,
    keyspace: &str,
    mut given: BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<String, String>> {
    let config = |text: String| Err(Error::Config(text));
    let Some(class) = given.remove("class") else {
        return config("Missing replication strategy class".to_owned());
    };
    let short = class.strip_prefix(PACKAGE).unwrap_or(&class).to_owned();
    if !STRATEGIES.contains(&short.as_str()) {
        let full = if class.contains('.') { class } else { format!("{PACKAGE}{class}") };
        return config(format!("Unable to find replication strategy class '{full}'"));
    }
    if short == "LocalStrategy" || short == "EverywhereStrategy" {
        return config(format!(
            "Unable to use given strategy class: {short} is reserved for internal use."
        ));
    }
    for (option, factor) in &given {
        let known = option == "replication_factor"
            || (short == "NetworkTopologyStrategy" && option == ground.data_center);
        if !known {
            return config(format!(
                "Unrecognized strategy option {{{option}}} passed to {short} for keyspace {keyspace}"
            ));
        }
        match factor.parse::<u32>() {
            Ok(0 | 1) => {}
            Ok(replicas) => warnings.push(format!(
                "Your replication factor {replicas} for keyspace {keyspace} is higher than the number of nodes 1"
            )),
            Err(_) => return config(format!("For input string: \"{factor}\"")),
        }
    }
    // As in Cassandra, the factor for all data centres becomes that of each.
    if short == "NetworkTopologyStrategy"
        && let Some(factor) = given.remove("replication_factor")
    {
        given.entry(ground.data_center.to_owned()).or_insert(factor);
    }
    if given.is_empty() {
        let option =
            if short == "SimpleStrategy" { "replication_factor" } else { ground.data_center };
        given.insert(option.to_owned(), "1".to_owned());
    }
    given.insert("class".to_owned(), format!("{PACKAGE}{short}"));
    Ok(given)
}

//! The guardrails' settings as text: what stands in the settings file, in `messina-admin` and in `system_views.settings`.
//!
//! ```text
//! count  -1 for none      size  5KiB, null for none      list  [ONE, TWO], [] for none      feature  true, false
//! ```
//!
//! Settings have the names of cassandra.yaml, and some of scylla.yaml ([`OTHER_NAMES`]). What cannot fire here is in
//! [`NOT_APPLICABLE`], with the reason: such settings have no effect, and the start warns of each.

use cql::guardrails::{
    GUARDRAILS, Guardrail, Kind, Unit, Value, level_bit, level_names, property_bit, property_names,
};
pub(crate) use cql::guardrails::{Guardrails, Values};

use crate::config::quantity;

/// What of a guardrail a setting sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// From when on, or of what, clients are warned.
    Warn,
    /// From when on, or of what, statements are refused.
    Fail,
    /// What is left out with a warning.
    Ignored,
}

/// Names of scylla.yaml and of older files, each with the setting that it is, and whether true means false there.
const OTHER_NAMES: [(&str, &str, Sense); 3] = [
    ("enable_create_table_with_compact_storage", "compact_tables_enabled", Sense::Same),
    ("restrict_replication_simplestrategy", "simplestrategy_enabled", Sense::Opposite),
    ("restrict_twcs_without_default_ttl", "zero_ttl_on_twcs_enabled", Sense::Opposite),
];

/// How the value of another name is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sense {
    /// As it is.
    Same,
    /// True refuses, `warn` warns where that can be, false does neither.
    Opposite,
}

const ONE_REPLICA: &str = "there is one replica and nothing to reconcile, so it never fires";

/// Guardrails of Cassandra 5.0 that cannot fire here: how their settings begin, and why.
pub(crate) const NOT_APPLICABLE: [(&str, &str); 7] = [
    ("partition_size_", "system.large_partitions and the log name large partitions"),
    ("partition_tombstones_", "files do not count the tombstones of each partition"),
    ("default_secondary_index", "an index without USING is a plain one; all are stored alike"),
    ("sai_", "an index keeps the beginning of a long value, so none is too long for it"),
    (
        "non_partition_restricted_index_query_enabled",
        "the cores of one node are asked, no other node",
    ),
    ("intersect_filtering_query_", ONE_REPLICA),
    ("data_disk_usage_max_disk_size", "the whole file system counts"),
];

/// The settings of one guardrail, by their names.
fn names_of(guardrail: Guardrail) -> Vec<(String, Part)> {
    let definition = guardrail.definition();
    let name = definition.stem;
    match definition.kind {
        Kind::Max(_) | Kind::Min(_) => vec![
            (format!("{name}_fail_threshold"), Part::Fail),
            (format!("{name}_warn_threshold"), Part::Warn),
        ],
        Kind::Flag { setting, warned } => {
            let warned = warned.map(|warned| (warned.to_owned(), Part::Warn));
            [(setting.to_owned(), Part::Fail)].into_iter().chain(warned).collect()
        }
        Kind::Properties => vec![
            (format!("{name}_disallowed"), Part::Fail),
            (format!("{name}_ignored"), Part::Ignored),
            (format!("{name}_warned"), Part::Warn),
        ],
        Kind::Levels => {
            vec![(format!("{name}_disallowed"), Part::Fail), (format!("{name}_warned"), Part::Warn)]
        }
    }
}

/// The names of the settings of one guardrail.
#[cfg(test)]
pub(crate) fn names_of_guardrail(guardrail: Guardrail) -> Vec<String> {
    names_of(guardrail).into_iter().map(|(name, _)| name).collect()
}

/// Every setting: its name, and what it sets; sorted.
fn all() -> Vec<(String, Guardrail, Part)> {
    let of = |guardrail: Guardrail| {
        names_of(guardrail).into_iter().map(move |(name, part)| (name, guardrail, part))
    };
    let mut all: Vec<_> = GUARDRAILS.iter().flat_map(|known| of(known.guardrail)).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

/// The setting of this name.
fn find(name: &str) -> Option<(Guardrail, Part)> {
    all()
        .into_iter()
        .find(|(known, ..)| known == name)
        .map(|(_, guardrail, part)| (guardrail, part))
}

/// Whether a name is a setting of a guardrail.
pub(crate) fn is_setting(name: &str) -> bool {
    find(name).is_some() || OTHER_NAMES.iter().any(|(other, ..)| *other == name)
}

/// Why a setting of a guardrail has no effect here.
pub(crate) fn not_applicable(name: &str) -> Option<&'static str> {
    NOT_APPLICABLE.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, why)| *why)
}

/// Sets one setting; the error says what is wrong with its value.
pub(crate) fn set(values: &mut Values, name: &str, text: &str) -> Result<(), String> {
    if let Some((_, own, sense)) = OTHER_NAMES.iter().find(|(other, ..)| *other == name) {
        return match sense {
            Sense::Same => set(values, own, text),
            Sense::Opposite => restrict(values, own, text),
        };
    }
    let Some((guardrail, part)) = find(name) else {
        return Err("no such guardrail".to_owned());
    };
    let parsed = parse(guardrail.definition().kind, part, text)?;
    let mut value = values.of(guardrail);
    *part.of(&mut value) = parsed;
    values.set(guardrail, value);
    Ok(())
}

/// Sets a feature by a setting of ScyllaDB that restricts it.
fn restrict(values: &mut Values, own: &str, text: &str) -> Result<(), String> {
    let (guardrail, _) = find(own).expect("the names are listed above");
    let may_warn = matches!(guardrail.definition().kind, Kind::Flag { warned: Some(_), .. });
    let (warn, fail) = match text {
        "true" => (0, 1),
        "false" => (0, 0),
        "warn" if may_warn => (1, 0),
        "warn" => return Err(format!("it is refused (true) or not (false): see {own}")),
        _ => return Err("true or false is wanted".to_owned()),
    };
    values.set(guardrail, Value { warn, fail, ignored: 0 });
    Ok(())
}

impl Part {
    fn of(self, value: &mut Value) -> &mut i64 {
        match self {
            Part::Warn => &mut value.warn,
            Part::Fail => &mut value.fail,
            Part::Ignored => &mut value.ignored,
        }
    }
}

fn parse(kind: Kind, part: Part, text: &str) -> Result<i64, String> {
    match kind {
        Kind::Max(unit) | Kind::Min(unit) => parse_threshold(unit, text),
        Kind::Flag { .. } => match text {
            // What a feature's setting allows is what the guardrail does not refuse.
            "true" => Ok(i64::from(part != Part::Fail)),
            "false" => Ok(i64::from(part == Part::Fail)),
            _ => Err("true or false is wanted".to_owned()),
        },
        Kind::Properties => parse_list(text, |name| {
            let bit = property_bit(&name.to_ascii_lowercase());
            bit.ok_or_else(|| format!("`{name}` is no option of a table"))
        }),
        Kind::Levels => parse_list(text, |name| {
            let bit = level_bit(&name.to_ascii_uppercase());
            bit.ok_or_else(|| format!("`{name}` is no consistency level"))
        }),
    }
}

fn parse_threshold(unit: Unit, text: &str) -> Result<i64, String> {
    let number = |max: i64| match text.parse() {
        Ok(-1) => Ok(-1),
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(format!("`{text}`: 1 to {max} are possible, and -1 for none")),
    };
    match unit {
        Unit::Count => number(0x7FFF_FFFF),
        Unit::Percent => number(100),
        Unit::Bytes | Unit::Micros if text == "null" => Ok(-1),
        Unit::Bytes => match quantity::size(text, 1)? {
            0 => Err("0 is not possible: null is none".to_owned()),
            bytes => i64::try_from(bytes).map_err(|_| format!("`{text}` is too much")),
        },
        Unit::Micros => quantity::micros(text),
    }
}

/// The bits of the names in a list; `null` and nothing are none.
fn parse_list(text: &str, bit: impl Fn(&str) -> Result<i64, String>) -> Result<i64, String> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let names = inner.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "null");
    names.map(bit).try_fold(0, |all, bit| Ok(all | bit?))
}

/// Refuses thresholds that warn later than they fail, in Cassandra's words.
pub(crate) fn check(values: &Values) -> Result<(), String> {
    for definition in &GUARDRAILS {
        let Value { warn, fail, .. } = values.of(definition.guardrail);
        let wrong = match definition.kind {
            // The times of both are distances from now.
            Kind::Max(_) | Kind::Min(Unit::Micros) => (fail < warn).then_some("lower"),
            Kind::Min(_) => (fail > warn).then_some("greater"),
            Kind::Flag { .. } | Kind::Properties | Kind::Levels => None,
        };
        if let Some(wrong) = wrong.filter(|_| warn != -1 && fail != -1) {
            let (name, shown) = (definition.stem, |value| show(definition.kind, Part::Warn, value));
            return Err(format!(
                "The warn threshold {} for {name}_warn_threshold should be {wrong} than the fail threshold {}",
                shown(warn),
                shown(fail)
            ));
        }
    }
    Ok(())
}

/// Every setting with its value, sorted by name.
pub(crate) fn settings(values: &Values) -> Vec<(String, String)> {
    let shown = |(name, guardrail, part): (String, Guardrail, Part)| {
        let mut value = values.of(guardrail);
        (name, show(guardrail.definition().kind, part, *part.of(&mut value)))
    };
    all().into_iter().map(shown).collect()
}

/// The settings that are not as they are unless they are set.
pub(crate) fn changed(values: &Values) -> Vec<(String, String)> {
    let (mut all, default) = (settings(values), settings(&Values::default()));
    all.retain(|setting| !default.contains(setting));
    all
}

fn show(kind: Kind, part: Part, value: i64) -> String {
    match kind {
        Kind::Max(unit) | Kind::Min(unit) => match unit {
            Unit::Count | Unit::Percent => value.to_string(),
            Unit::Bytes | Unit::Micros if value < 0 => "null".to_owned(),
            Unit::Bytes => quantity::exact(value, &SIZES),
            Unit::Micros => quantity::exact(value, &TIMES),
        },
        Kind::Levels => level_names(value),
        Kind::Flag { .. } => ((value != 0) != (part == Part::Fail)).to_string(),
        Kind::Properties => property_names(value),
    }
}

/// Sizes by their units, the largest first.
const SIZES: [(i64, &str); 4] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
/// Times in microseconds by their units, the largest first.
const TIMES: [(i64, &str); 6] = [
    (86_400_000_000, "d"),
    (3_600_000_000, "h"),
    (60_000_000, "m"),
    (1_000_000, "s"),
    (1000, "ms"),
    (1, "us"),
];

/// Sets some of what all cores read, each a name and a value; nothing if one of them is wrong.
pub(crate) fn change(guardrails: &Guardrails, changes: &[(String, String)]) -> Result<(), String> {
    let mut values = guardrails.load();
    for (name, text) in changes {
        set(&mut values, name, text).map_err(|why| format!("{name}: {why}"))?;
    }
    check(&values)?;
    guardrails.store(&values);
    for (name, text) in changes {
        tracing::info!("the guardrail's setting {name} is {text} until the server ends");
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! The options of a keyspace, read and refused in Cassandra's words.
//!
//! ```text
//! WITH name = given ─► KEYSPACE_OPTIONS (what comes of each) ─► KeyspaceOptions ─► DESCRIBE, system_schema, the log,
//!                                                               consistency levels
//! ```

use std::collections::BTreeMap;

use super::effect::Effect;
use super::given::{Given, boolean};
use super::refusal::{Refusal, Result};
use super::replication::{Place, Replication};

/// Every option that is not unknown, and what comes of it.
pub const KEYSPACE_OPTIONS: [(&str, Effect); 4] = [
    ("replication", Effect::Kept("there is one replica, whatever the factor")),
    ("durable_writes", Effect::Kept("every write is durable")),
    // ScyllaDB's: migrations carry them along.
    ("tablets", Effect::LeftOut("each core owns a range of tokens")),
    ("storage", Effect::LeftOut("files are on the local disk")),
];

/// Everything after WITH.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are CQL's own option names")]
pub struct KeyspaceOptions {
    pub replication: Replication,
    pub durable_writes: bool,
}

impl Default for KeyspaceOptions {
    fn default() -> KeyspaceOptions {
        KeyspaceOptions { replication: Replication::Simple(1), durable_writes: true }
    }
}

impl KeyspaceOptions {
    /// Sets an option as a statement gives it for the keyspace at `place`; what is to be said about it goes to
    /// `warnings`.
    pub fn set(
        &mut self,
        name: &str,
        given: &Given,
        place: &Place<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let Some((_, effect)) = KEYSPACE_OPTIONS.iter().find(|(option, _)| *option == name) else {
            return Err(Refusal::Syntax(format!("Unknown property '{name}'")));
        };
        match name {
            "replication" => {
                self.replication = Replication::parse(given.map(name)?, &self.replication, place)?;
                warnings.extend(self.replication.warning(place));
            }
            "durable_writes" => self.durable_writes = boolean(name, given.text(name)?)?,
            _ => {}
        }
        match effect {
            Effect::Kept(why) if name == "durable_writes" && !self.durable_writes => {
                warnings.push(format!("Option '{name}' is kept and has no effect: {why}"));
            }
            Effect::LeftOut(why) => warnings.push(format!("Option '{name}' is left out: {why}")),
            _ => {}
        }
        Ok(())
    }

    /// What the schema log gives. For a map that this build refuses the default stands, with the reason.
    pub fn restore(
        replication: &BTreeMap<String, String>,
        durable_writes: bool,
    ) -> (KeyspaceOptions, Option<Refusal>) {
        let (replication, refused) = match Replication::stored(replication) {
            Ok(replication) => (replication, None),
            Err(refusal) => (KeyspaceOptions::default().replication, Some(refusal)),
        };
        (KeyspaceOptions { replication, durable_writes }, refused)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::tests::{documented, given, table};
    use super::*;

    const PLACE: Place<'static> = Place { keyspace: "ks", data_center: "datacenter1" };

    fn set(before: &KeyspaceOptions, text: &str) -> (KeyspaceOptions, Result<()>, Vec<String>) {
        let (name, value) = given(text);
        let (mut options, mut warnings) = (before.clone(), Vec::new());
        let result = options.set(name, &value, &PLACE, &mut warnings);
        (options, result, warnings)
    }

    fn shown(options: &KeyspaceOptions) -> String {
        let map = format!("{:?}", options.replication.pairs()).replace('"', "'");
        format!("{} {map}", options.durable_writes)
    }

    /// Each pair of lines of the recording: an option, then what Cassandra answers.
    #[test]
    fn answers_are_cassandras() {
        let recorded = include_str!("../../testdata/keyspace_options.txt");
        let lines: Vec<&str> =
            recorded.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        assert!(lines.len() > 80, "all of the file is there: {}", lines.len());
        let mut wrong = String::new();
        for pair in lines.chunks_exact(2) {
            let (options, result, mut warnings) = set(&KeyspaceOptions::default(), pair[0]);
            // The one warning that is ours.
            warnings.retain(|warning| !warning.contains("'durable_writes'"));
            let answer = match result {
                Ok(()) => {
                    let said: Vec<String> =
                        warnings.iter().map(|text| format!(" ! {text}")).collect();
                    format!("ok {}{}", shown(&options), said.concat())
                }
                Err(Refusal::Syntax(text)) => format!("2000 {text}"),
                Err(Refusal::Config(text)) => format!("2300 {text}"),
                Err(Refusal::Invalid(text)) => format!("2200 {text}"),
            };
            if answer != pair[1].trim() {
                let _ = writeln!(wrong, "{}\n{}\n    {answer}", pair[0], pair[1]);
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    /// As Cassandra's ALTER: the factor for all data centres is for those that have none.
    #[test]
    fn a_factor_for_all_leaves_what_a_data_centre_has() {
        let of = |factor| {
            let factors = BTreeMap::from([("datacenter1".to_owned(), factor)]);
            let replication = Replication::NetworkTopology(factors);
            KeyspaceOptions { replication, ..KeyspaceOptions::default() }
        };
        let topology = "'class': 'NetworkTopologyStrategy'";
        let altered = |before: &KeyspaceOptions, text: &str| {
            let (after, result, _) = set(before, &format!("replication = {{{text}}}"));
            assert_eq!(result, Ok(()), "{text}");
            after.replication
        };
        let all = format!("{topology}, 'replication_factor': '3'");
        assert_eq!(altered(&of(2), &all), of(2).replication);
        assert_eq!(altered(&of(2), topology), of(1).replication);
        let simple = KeyspaceOptions { replication: Replication::Simple(2), ..of(1) };
        assert_eq!(altered(&simple, topology), of(2).replication);
        assert_eq!(altered(&simple, &all), of(3).replication);
        assert_eq!(altered(&of(2), "'class': 'SimpleStrategy'"), Replication::Simple(1));
    }

    #[test]
    fn what_does_nothing_is_said() {
        for text in [
            "durable_writes = 'false'",
            "tablets = {'enabled': 'false'}",
            "storage = {'type': 'S3'}",
            "replication = {'class': 'SimpleStrategy', 'replication_factor': '3'}",
        ] {
            let (_, result, warnings) = set(&KeyspaceOptions::default(), text);
            assert_eq!((result, warnings.len()), (Ok(()), 1), "{text}: {warnings:?}");
        }
        let (_, result, warnings) = set(&KeyspaceOptions::default(), "durable_writes = 'true'");
        assert_eq!((result, warnings), (Ok(()), Vec::new()));
    }

    #[test]
    fn what_an_earlier_build_stored_is_read_or_said() {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let class = ("class", "org.apache.cassandra.locator.SimpleStrategy");
        let (options, refused) =
            KeyspaceOptions::restore(&map(&[class, ("replication_factor", "+3")]), false);
        assert_eq!((options.replication, refused), (Replication::Simple(3), None));
        let huge = map(&[class, ("replication_factor", "4000000000")]);
        let (options, refused) = KeyspaceOptions::restore(&huge, false);
        assert_eq!(
            options,
            KeyspaceOptions { durable_writes: false, ..KeyspaceOptions::default() }
        );
        assert_eq!(refused, Some(Refusal::Config("For input string: \"4000000000\"".into())));
        let (options, refused) = KeyspaceOptions::restore(&BTreeMap::new(), true);
        assert_eq!((options, refused), (KeyspaceOptions::default(), None));
    }

    #[test]
    fn the_documents_list_every_option() {
        let table = table("Options of a keyspace", KEYSPACE_OPTIONS);
        assert_eq!(documented("keyspace options", &table), Ok(()));
    }
}

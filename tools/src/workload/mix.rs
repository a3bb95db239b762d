//! The shares of the operations in a workload.
//!
//! `--mix read=95,update=5` gives shares in any unit; they are divided by their sum. A verb is drawn by one random
//! number.
//!
//! Invariants
//! 1. A mix has at least one verb, every share of `--mix` is positive, and the shares sum to 1.
//! 2. A name may stand for two requests: `modify` and `transfer` read first, and what they read leads to the write.
//!
//! Not here: which verbs suit which data (`command/work.rs`), the mixes of YCSB (`workload/ycsb.rs`), keys
//! (`popularity.rs`).

use std::fmt;

use rand::{Rng, RngExt};

use super::Verb;
use crate::error::{Error, Result};

/// Verbs with their shares, which sum to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    shares: Vec<(Verb, f64)>,
}

/// What `--mix` calls the verbs.
const NAMES: [(&str, Verb); 23] = [
    ("read", Verb::Read),
    ("update", Verb::Update),
    ("insert", Verb::Insert),
    ("scan", Verb::Scan),
    ("modify", Verb::ReadToModify),
    ("append", Verb::Append),
    ("latest", Verb::Latest),
    ("window", Verb::Window),
    ("transfer", Verb::ReadToTransfer),
    ("receipt", Verb::Receipt),
    ("claim", Verb::Claim),
    ("change", Verb::Change),
    ("contend", Verb::Contend),
    ("increment", Verb::Increment),
    ("count", Verb::Count),
    ("batch", Verb::Batch),
    ("tag", Verb::Tag),
    ("find", Verb::Find),
    ("remove", Verb::Remove),
    ("mail", Verb::ByMail),
    ("city", Verb::ByCity),
    ("amount", Verb::ByAmount),
    ("both", Verb::ByBoth),
];

impl Mix {
    /// Shares in any unit.
    pub fn new(shares: &[(Verb, f64)]) -> Mix {
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        assert!(sum > 0.0, "a mix has operations");
        Mix { shares: shares.iter().map(|&(verb, share)| (verb, share / sum)).collect() }
    }

    /// Reads `read=95,update=5`; the numbers are relative.
    pub fn parse(text: &str) -> Result<Mix> {
        let mut shares = Vec::new();
        for part in text.split(',') {
            let wrong = |why: String| Error::Invalid(format!("--mix {text}: {why}"));
            let (name, share) = part
                .split_once('=')
                .ok_or_else(|| wrong(format!("'{part}' is not of the form read=95")))?;
            let verb = NAMES.iter().find(|(known, _)| *known == name).ok_or_else(|| {
                let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
                wrong(format!("no operation is called '{name}'; there are {}", known.join(", ")))
            })?;
            let share: f64 = share
                .parse()
                .ok()
                .filter(|share: &f64| share.is_finite() && *share > 0.0)
                .ok_or_else(|| wrong(format!("'{share}' is not a positive number")))?;
            shares.push((verb.1, share));
        }
        Ok(Mix::new(&shares))
    }

    /// Draws one verb by its share.
    #[inline]
    pub fn pick(&self, rng: &mut impl Rng) -> Verb {
        let mut at: f64 = rng.random();
        for &(verb, share) in &self.shares {
            if at < share {
                return verb;
            }
            at -= share;
        }
        self.shares[self.shares.len() - 1].0
    }

    /// The share of `verb`.
    pub fn share(&self, verb: Verb) -> f64 {
        self.shares.iter().filter(|(known, _)| *known == verb).map(|(_, share)| share).sum()
    }

    /// The verbs it may pick.
    pub fn verbs(&self) -> impl Iterator<Item = Verb> {
        self.shares.iter().map(|(verb, _)| *verb)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (verb, share)) in self.shares.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let name = match verb {
                Verb::ReadToModify => "read-modify-write",
                Verb::ReadToTransfer => "transfer",
                Verb::Receipt => "receipt",
                Verb::Claim => "claim",
                Verb::Change => "change",
                Verb::Contend => "contend",
                Verb::Count => "count",
                Verb::Tag => "tag",
                Verb::Remove => "remove",
                Verb::ByMail => "by mail",
                Verb::ByCity => "by city",
                Verb::ByAmount => "by amount",
                Verb::ByBoth => "by city and amount",
                other => other.kind().name(),
            };
            write!(f, "{comma}{:.0} % {name}", share * 100.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::SmallRng};

    use super::*;

    #[test]
    fn a_mix_keeps_its_shares() {
        let mix = Mix::parse("read=95,update=5").unwrap();
        let mut rng = SmallRng::seed_from_u64(1);
        let updates = (0..20_000).filter(|_| mix.pick(&mut rng) == Verb::Update).count();
        assert!((900..1100).contains(&updates), "{updates}");
        assert_eq!(mix.to_string(), "95 % read, 5 % update");
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        for (text, hint) in [
            ("reads=1", "there are read, update"),
            ("read", "of the form"),
            ("read=0", "positive"),
            ("read=inf", "positive"),
        ] {
            let error = Mix::parse(text).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}

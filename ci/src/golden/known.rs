//! The list of known differences: cases that Messina answers wrongly today, each under its cause.
//!
//! ```text
//! # The cause, and what mends it.
//! topic: SELECT a FROM t WHERE p = ? @with 1
//! topic: SELECT b FROM t
//! ```
//!
//! The list can only shrink: a case that is listed and answered right fails the run, as does a line
//! that names no case.

use std::collections::BTreeMap;

/// The differences by the key of their case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    causes: BTreeMap<String, String>,
}

impl Known {
    /// Reads the list.
    pub(super) fn parse(text: &str) -> Result<Known, String> {
        let (mut causes, mut cause, mut is_cause) = (BTreeMap::new(), String::new(), false);
        for line in text.lines().map(str::trim_end) {
            // An empty line ends a comment, so that the file's own is no cause.
            if line.is_empty() {
                is_cause = false;
                continue;
            }
            if let Some(words) = line.strip_prefix('#') {
                if !is_cause {
                    cause.clear();
                }
                cause.push_str(words);
                is_cause = true;
                continue;
            }
            is_cause = false;
            if cause.is_empty() {
                return Err(format!("{line}: no cause stands above it"));
            }
            if causes.insert(line.to_owned(), cause.trim().to_owned()).is_some() {
                return Err(format!("{line}: listed twice"));
            }
        }
        Ok(Known { causes })
    }

    /// Whether a case is listed.
    pub(super) fn holds(&self, key: &str) -> bool {
        self.causes.contains_key(key)
    }

    /// The cause under which a case is listed.
    pub(super) fn cause(&self, key: &str) -> Option<&str> {
        self.causes.get(key).map(String::as_str)
    }

    /// Lines of these topics that name no case.
    pub(super) fn strangers(&self, topics: &[&str], keys: &[String]) -> Vec<String> {
        let of_topics =
            |line: &&String| line.split_once(": ").is_none_or(|(topic, _)| topics.contains(&topic));
        self.causes.keys().filter(of_topics).filter(|line| !keys.contains(line)).cloned().collect()
    }

    /// How many cases are listed.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.causes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stand_under_their_cause() {
        let known =
            Known::parse("# A file.\n\n# One\n# cause.\na: SELECT 1\n\n# Two.\nb: x\nb: y\n")
                .unwrap();
        assert_eq!(known.causes["a: SELECT 1"], "One cause.");
        assert_eq!(known.causes["b: y"], "Two.");
        assert!(known.holds("b: x") && !known.holds("b: z"));
        assert!(Known::parse("a: SELECT 1").is_err());
        assert!(Known::parse("# c\na: x\na: x").is_err());
    }

    #[test]
    fn a_line_without_a_case_is_a_stranger() {
        let known = Known::parse("# c\na: x\nb: y\n").unwrap();
        assert_eq!(known.strangers(&["a"], &["a: z".to_owned()]), ["a: x"]);
        assert_eq!(known.strangers(&["a"], &["a: x".to_owned()]), Vec::<String>::new());
    }
}

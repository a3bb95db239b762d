//! The tests that the suite calls a defect of Cassandra's, and Cassandra fails: which of them state documented CQL, and
//! whether they pass here.
//!
//! `cassandra-bugs.json` has groups of them: what they state, why one of documented CQL does not pass, and their names. The
//! kinds of groups are those of `KINDS`.

use std::path::Path;

use serde_json::Value;

use super::{Verdict, read_json};

/// The kinds of groups, and how the page calls them.
const KINDS: [(&str, &str); 3] = [
    ("documented", "documented CQL"),
    ("later", "of something that Messina does not have yet"),
    ("open", "not in the documentation: answered as Cassandra does"),
];

/// What some of the tests state.
pub(super) struct Group {
    kind: String,
    states: String,
    /// Why those that do not pass do not.
    missed: String,
    /// Its tests, without the parameters that they are run with.
    tests: Vec<String>,
    /// Each test and whether it passed.
    outcomes: Vec<(String, bool)>,
}

/// The groups of a file, without outcomes.
pub(super) fn groups(path: &Path) -> Result<Vec<Group>, String> {
    let file = read_json(path)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let groups = file.as_array().into_iter().flatten();
    Ok(groups
        .map(|group| Group {
            kind: text(&group["kind"]),
            states: text(&group["states"]),
            missed: text(&group["missed"]),
            tests: group["tests"].as_array().into_iter().flatten().map(text).collect(),
            outcomes: Vec::new(),
        })
        .collect())
}

/// Puts a test into its group, if it has one.
pub(super) fn place(groups: &mut [Group], verdict: &Verdict) {
    let test = verdict.test.split('[').next().unwrap_or_default();
    if let Some(group) = groups.iter_mut().find(|group| group.tests.iter().any(|t| t == test)) {
        group.outcomes.push((verdict.test.clone(), verdict.is_passed));
    }
}

/// The page's section.
pub(super) fn section(groups: &[Group]) -> String {
    let all: usize = groups.iter().map(|group| group.outcomes.len()).sum();
    let mut text = format!(
        "\n## Tests that call Cassandra wrong\n\nCassandra fails {all} tests that the suite calls a defect of Cassandra's. \
         What they state (`ci/conformance/cassandra-bugs.json`):\n\n\
         | | tests | Messina passes |\n|---|---|---|\n"
    );
    for (kind, name) in KINDS {
        let outcomes = groups.iter().filter(|g| g.kind == kind).flat_map(|g| &g.outcomes);
        let (count, passed) = outcomes.fold((0, 0), |(count, passed), (_, is_passed)| {
            (count + 1, passed + usize::from(*is_passed))
        });
        text.push_str(&format!("| {name} | {count} | {passed} |\n"));
    }
    for (kind, name) in KINDS {
        text.push_str(&format!("\n### Stated: {name}\n\n"));
        for group in groups.iter().filter(|group| group.kind == kind) {
            let (passed, missed): (Vec<_>, Vec<_>) = group.outcomes.iter().partition(|(_, p)| *p);
            let Group { states, outcomes, .. } = group;
            text.push_str(&format!("- {states}: {} of {}", passed.len(), outcomes.len()));
            if !missed.is_empty() && !group.missed.is_empty() {
                text.push_str(&format!(". Missed: {}", group.missed));
            }
            text.push('\n');
            // Those of other kinds have one reason, which the heading says.
            for (test, _) in missed.iter().filter(|_| kind == "documented") {
                text.push_str(&format!("  - `{test}`\n"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::read_map;
    use super::*;
    use crate::repository::Repository;

    fn group(kind: &str, tests: &[&str]) -> Group {
        let tests = tests.iter().map(|&test| test.to_owned()).collect();
        let (states, missed) = (format!("{kind} of it"), "it is so".to_owned());
        Group { kind: kind.to_owned(), states, missed, tests, outcomes: Vec::new() }
    }

    fn verdict(test: &str, is_passed: bool) -> Verdict {
        let (test, area, cause) = (test.into(), "dml".into(), String::new());
        Verdict { test, area, is_passed, is_refused: false, cause }
    }

    /// Each that Cassandra fails has one group of a known kind, and no line of the file stands for nothing.
    #[test]
    fn every_test_that_calls_cassandra_wrong_is_of_a_group() {
        let folder = Repository::find().unwrap().root().join("ci/conformance");
        let mut groups = groups(&folder.join("cassandra-bugs.json")).unwrap();
        for (test, outcome) in read_map(&folder.join("cassandra-5.0.9.json")).unwrap() {
            if outcome == "failed" {
                place(&mut groups, &verdict(&test, false));
            }
        }
        for group in &groups {
            assert!(KINDS.iter().any(|(kind, _)| *kind == group.kind), "{}", group.kind);
            assert!(!group.states.is_empty() && !group.outcomes.is_empty(), "{}", group.states);
            for test in &group.tests {
                let is_of = |(name, _): &(String, bool)| name.split('[').next() == Some(test);
                assert!(group.outcomes.iter().any(is_of), "{test}");
            }
        }
        let all: usize = groups.iter().map(|group| group.outcomes.len()).sum();
        assert_eq!(all, 71, "as many as the suite marks and Cassandra fails");
    }

    #[test]
    fn groups_are_counted_and_say_what_is_missed() {
        let mut groups = [group("documented", &["a.py::test_x"]), group("open", &["a.py::test_y"])];
        for (test, is_passed) in [
            ("a.py::test_x[1]", true),
            ("a.py::test_x[2]", false),
            ("a.py::test_y", false),
            ("a.py::test_xy", false),
        ] {
            place(&mut groups, &verdict(test, is_passed));
        }
        let text = section(&groups);
        assert!(text.contains("Cassandra fails 3 tests"), "{text}");
        assert!(text.contains("| documented CQL | 2 | 1 |"), "{text}");
        assert!(
            text.contains(
                "- documented of it: 1 of 2. Missed: it is so\n  - `a.py::test_x[2]`\n\n"
            ),
            "{text}"
        );
        assert!(text.ends_with("- open of it: 0 of 1. Missed: it is so\n"), "{text}");
    }
}

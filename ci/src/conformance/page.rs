//! docs/conformance.md: what Cassandra passes and this server does, by area, and misses by cause.
//!
//! 1. The head, the suite's commit, and which calls of nodetool were done and refused.
//! 2. A table: the areas of the first cut, the other areas, then the sum of the first cut and the sum of all.
//! 3. The tests that this server misses, the cause with the most misses first.
//! 4. The tests that call Cassandra wrong (`marked.rs`) and the golden statements answered otherwise: both come as
//!    text.
//!
//! Invariants
//! 1. The same run makes the same page, byte for byte.
//! 2. `by_area` reads the table that `render` writes: the next run is held against it (`conformance.rs`).
//!
//! Not here: how a test is run and judged, and its cause (`conformance.rs`).

use std::collections::BTreeMap;

use super::{BASIC_AREAS, Run, Verdict, marked};

const HEAD: &str = "\
# Conformance

How much of CQL answers as Apache Cassandra 5.0.9 does, by the single-node tests of the public suite
`test/cqlpy` of the repository `scylladb/scylladb`. Counted are the tests that Cassandra passes. A test that expects an error, and
is given the refusal of something that Messina does not have, is not counted as passed. This page is written by

```sh known
cargo ci conformance --suite DIR --write docs/conformance.md
```

where DIR is a checkout of that repository, or a bare one. `ci/conformance` has the runner, the areas and Cassandra's outcomes.
";

/// The lines of several areas.
const FIRST_CUT: &str = "first cut";
const ALL: &str = "all";

/// The whole document.
pub(super) fn render(run: &Run, verdicts: &[Verdict]) -> String {
    let mut page = String::from(HEAD);
    page.push_str(&format!("\nThe suite was at commit `{}`.\n", run.commit));
    page.push_str(&nodetool(run));
    page.push_str("\n## By area\n\nThe areas of the first cut come first.\n\n");
    page.push_str("| area | Cassandra passes | of these Messina | share |\n|---|---|---|---|\n");
    let mut areas: Vec<&str> = verdicts.iter().map(|verdict| verdict.area.as_str()).collect();
    areas.sort_by_key(|area| (!BASIC_AREAS.contains(area), *area));
    areas.dedup();
    for area in &areas {
        page.push_str(&line(area, verdicts.iter().filter(|verdict| verdict.area == *area)));
    }
    let basic = verdicts.iter().filter(|v| BASIC_AREAS.contains(&v.area.as_str()));
    page.push_str(&line(FIRST_CUT, basic));
    page.push_str(&line(ALL, verdicts.iter()));
    page.push_str("\n## Misses by cause\n");
    let causes = causes(verdicts);
    if causes.is_empty() {
        page.push_str("\nNone.\n");
    }
    for (cause, tests) in causes {
        page.push_str(&format!("\n### {cause} ({})\n\n", tests.len()));
        for verdict in tests {
            let note = if verdict.is_refused { " (expects an error, and is refused)" } else { "" };
            page.push_str(&format!("- `{}`{note}\n", verdict.test));
        }
    }
    page.push_str(&marked::section(&run.marked));
    page.push_str(&run.differences);
    page
}

/// The areas of a page: how many tests Cassandra passes of each, and how many of these we do.
pub(super) fn by_area(page: &str) -> Vec<(String, u64, u64)> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (area, all, passed) = (cells.next()?, cells.next()?, cells.next()?);
        Some((area.to_owned(), all.parse().ok()?, passed.parse().ok()?))
    };
    let rows = page.lines().filter_map(row);
    rows.filter(|(area, ..)| ![FIRST_CUT, ALL].contains(&area.as_str())).collect()
}

/// What the tests' calls of nodetool did.
fn nodetool(run: &Run) -> String {
    let count = |is_done: bool| {
        let calls = run.nodetool.iter().filter(|((_, done), _)| *done == is_done);
        let calls: Vec<String> =
            calls.map(|((command, _), count)| format!("`{command}` {count}")).collect();
        if calls.is_empty() { "none".to_owned() } else { calls.join(", ") }
    };
    format!(
        "Its calls of nodetool went to `messina-admin`. Done: {}. Refused, because it has no such command: {}.\n",
        count(true),
        count(false)
    )
}

fn line<'a>(name: &str, verdicts: impl Iterator<Item = &'a Verdict>) -> String {
    let (mut all, mut passed) = (0, 0);
    for verdict in verdicts {
        all += 1;
        passed += usize::from(verdict.is_passed);
    }
    let percent = (passed * 100).checked_div(all).unwrap_or(0);
    format!("| {name} | {all} | {passed} | {percent} % |\n")
}

/// The causes with the most misses first.
fn causes(verdicts: &[Verdict]) -> Vec<(&str, Vec<&Verdict>)> {
    let mut causes: BTreeMap<&str, Vec<&Verdict>> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|verdict| !verdict.is_passed) {
        causes.entry(&verdict.cause).or_default().push(verdict);
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, tests)| std::cmp::Reverse(tests.len()));
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_and_causes_are_counted() {
        let verdict = |test: &str, area: &str, is_passed| Verdict {
            test: test.into(),
            area: area.into(),
            is_passed,
            is_refused: test == "e",
            cause: if is_passed { String::new() } else { format!("no {area}") },
        };
        let nodetool = [(("flush".to_owned(), true), 3), (("snapshot".to_owned(), false), 1)];
        let run = Run {
            commit: "abc".to_owned(),
            nodetool: nodetool.into(),
            differences: "\n## Otherwise\n".to_owned(),
            marked: Vec::new(),
        };
        let verdicts = [
            verdict("a", "json", false),
            verdict("b", "dml", true),
            verdict("c", "dml", true),
            verdict("d", "dml", false),
            verdict("e", "json", false),
        ];
        let page = render(&run, &verdicts);
        assert!(page.contains("at commit `abc`"));
        assert!(
            page.contains(
                "Done: `flush` 3. Refused, because it has no such command: `snapshot` 1."
            )
        );
        let by_area = "| dml | 3 | 2 | 66 % |\n| json | 2 | 0 | 0 % |\n\
            | first cut | 3 | 2 | 66 % |\n| all | 5 | 2 | 40 % |\n";
        assert!(page.contains(by_area), "{page}");
        assert!(page.contains("### no json (2)\n\n- `a`\n- `e` (expects an error, and is refused)\n\n### no dml (1)\n\n- `d`\n\n## Tests"));
        assert!(page.ends_with("\n\n## Otherwise\n"));
    }
}

//! docs/conformance.md: what Cassandra passes and this server does, by area, and misses by cause.

use std::collections::BTreeMap;

use super::{BASIC_AREAS, Verdict};

const HEAD: &str = "\
# Conformance

How much of CQL answers as Apache Cassandra 5.0.9 does, by the single-node tests of the public suite
`test/cqlpy` of the repository `scylladb/scylladb`. Counted are the tests that Cassandra passes. This page is written by

```sh known
cargo ci conformance --suite DIR --write docs/conformance.md
```

where DIR is a checkout of that repository. `ci/conformance` has the runner, the areas and Cassandra's outcomes.
";

/// The whole document.
pub(super) fn render(verdicts: &[Verdict]) -> String {
    let mut page = String::from(HEAD);
    page.push_str("\n## By area\n\nThe areas of the first cut come first.\n\n");
    page.push_str("| area | Cassandra passes | of these Messina | share |\n|---|---|---|---|\n");
    let mut areas: Vec<&str> = verdicts.iter().map(|verdict| verdict.area.as_str()).collect();
    areas.sort_by_key(|area| (!BASIC_AREAS.contains(area), *area));
    areas.dedup();
    for area in &areas {
        page.push_str(&line(area, verdicts.iter().filter(|verdict| verdict.area == *area)));
    }
    let basic = verdicts.iter().filter(|v| BASIC_AREAS.contains(&v.area.as_str()));
    page.push_str(&line("first cut", basic));
    page.push_str(&line("all", verdicts.iter()));
    page.push_str("\n## Misses by cause\n");
    let causes = causes(verdicts);
    if causes.is_empty() {
        page.push_str("\nNone.\n");
    }
    for (cause, tests) in causes {
        page.push_str(&format!("\n### {cause} ({})\n\n", tests.len()));
        for test in tests {
            page.push_str(&format!("- `{test}`\n"));
        }
    }
    page
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
fn causes(verdicts: &[Verdict]) -> Vec<(&str, Vec<&str>)> {
    let mut causes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|verdict| !verdict.is_passed) {
        causes.entry(&verdict.cause).or_default().push(&verdict.test);
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
            cause: if is_passed { String::new() } else { format!("no {area}") },
        };
        let page = render(&[
            verdict("a", "json", false),
            verdict("b", "dml", true),
            verdict("c", "dml", true),
            verdict("d", "dml", false),
            verdict("e", "json", false),
        ]);
        let by_area = "| dml | 3 | 2 | 66 % |\n| json | 2 | 0 | 0 % |\n\
            | first cut | 3 | 2 | 66 % |\n| all | 5 | 2 | 40 % |\n";
        assert!(page.contains(by_area), "{page}");
        assert!(page.ends_with("### no json (2)\n\n- `a`\n- `e`\n\n### no dml (1)\n\n- `d`\n"));
    }
}

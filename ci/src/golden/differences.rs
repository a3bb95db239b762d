//! What answers otherwise than Apache Cassandra, as a part of docs/conformance.md.
//!
//! ```text
//! `---- messina: WHY`        on purpose       each reason with its statements
//! `---- not mended: CAUSE`   not mended yet   each cause with its statements
//! ```
//!
//! Invariant: the page lists every reason and every cause; a test compares it with the suite.

use std::collections::BTreeMap;

use super::suite::Topic;

/// The heading that the part begins with: everything from it to the end of the page.
pub(super) const HEADING: &str = "\n## Statements answered otherwise\n";

/// The part of the page, from its heading to its end.
pub(super) fn render(topics: &[Topic]) -> String {
    let mut on_purpose: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut not_mended: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for topic in topics {
        for (case, key) in topic.cases.iter().zip(topic.keys()) {
            if let Some((cause, _)) = case.not_mended.first() {
                not_mended.entry(cause).or_default().push(key);
            } else if let Some((why, _)) = case.ours.first() {
                on_purpose.entry(why).or_default().push(key);
            }
        }
    }
    let count: usize = topics.iter().map(|topic| topic.cases.len()).sum();
    let mut part = format!(
        "{HEADING}\nOf the {count} statements of the golden suite (`ci/golden`), whose answers are recorded from Cassandra. \
         `MESSINA_BLESS=1 cargo test -p messina-ci differences` writes this part.\n"
    );
    for (title, causes) in [("On purpose", on_purpose), ("Not mended yet", not_mended)] {
        part.push_str(&format!("\n### {title}\n"));
        if causes.is_empty() {
            part.push_str("\nNone.\n");
        }
        for (cause, keys) in causes {
            part.push_str(&format!("\n{cause} ({}):\n\n", keys.len()));
            keys.iter().for_each(|key| part.push_str(&format!("- `{key}`\n")));
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_stand_under_their_reasons() {
        let text = "SELECT a;\n----\nv int\n1\n---- messina: ours is better\nv int\n2\n\n\
            SELECT b;\n----\nv int\n---- not mended: Not built.\nok\n";
        let topics = [Topic::parse("t", text).unwrap()];
        let part = render(&topics);
        assert!(
            part.contains("### On purpose\n\nours is better (1):\n\n- `t: SELECT a`\n"),
            "{part}"
        );
        assert!(part.ends_with("### Not mended yet\n\nNot built. (1):\n\n- `t: SELECT b`\n"));
    }
}

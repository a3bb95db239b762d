//! What a statement or its request may say and what has no effect here: warnings, and the table of `docs/options.md`.

/// A hint that has no effect; the client that gives it is warned.
pub(super) struct Hint {
    /// The hint as CQL writes it.
    name: &'static str,
    /// Why it has no effect.
    why: &'static str,
}

/// ScyllaDB's, of all statements of data.
pub(super) const TIMEOUT: Hint =
    Hint { name: "USING TIMEOUT", why: "requests have no timeout on this server" };
/// ScyllaDB's, of a SELECT.
pub(super) const BYPASS_CACHE: Hint =
    Hint { name: "BYPASS CACHE", why: "range scans never enter the cache, other reads always may" };

impl Hint {
    /// The warning for the client.
    pub(super) fn warning(&self) -> String {
        format!("{} has no effect: {}", self.name, self.why)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::testing::Database;

    /// Each hint, with statements that give it.
    const HINTS: [(Hint, &[&str]); 2] = [
        (
            TIMEOUT,
            &[
                "SELECT * FROM t USING TIMEOUT 5s",
                "INSERT INTO t (k) VALUES (1) USING TIMEOUT 5s",
                "UPDATE t USING TIMEOUT 5s SET v = 1 WHERE k = 1",
                "DELETE FROM t USING TIMEOUT 5s WHERE k = 1",
            ],
        ),
        (BYPASS_CACHE, &["SELECT * FROM t BYPASS CACHE"]),
    ];

    /// What drivers send of their own accord, of which nothing is said, as in Cassandra.
    const SILENT: [(&str, &str, &str); 2] = [
        (
            "serial consistency level",
            "checked, and no effect, as in Cassandra",
            "it is of conditional updates, which are refused",
        ),
        ("custom payload", "passed over, as in Cassandra", "nothing reads it"),
    ];

    #[test]
    fn a_hint_that_does_nothing_is_said() {
        let mut db = Database::with("k int PRIMARY KEY, v int");
        for (hint, statements) in HINTS {
            for text in statements {
                db.ok(text);
                assert_eq!(db.warnings, [hint.warning()], "{text}");
            }
        }
    }

    #[test]
    fn the_documents_list_every_hint() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/options.md");
        let document = std::fs::read_to_string(path).unwrap();
        let (begin, end) = ("<!-- hints: made by a test of cql -->\n", "<!-- end of hints -->");
        let (before, rest) = document.split_once(begin).unwrap();
        let (found, after) = rest.split_once(end).unwrap();
        let mut table = "| In a request | Here | Why |\n|---|---|---|\n".to_owned();
        for (hint, _) in HINTS {
            let _ =
                writeln!(table, "| `{}` | no effect, with a warning | {} |", hint.name, hint.why);
        }
        for (name, what, why) in SILENT {
            let _ = writeln!(table, "| {name} | {what} | {why} |");
        }
        if std::env::var_os("MESSINA_BLESS").is_some() {
            std::fs::write(path, format!("{before}{begin}\n{table}\n{end}{after}")).unwrap();
            return;
        }
        assert_eq!(found.trim(), table.trim());
    }
}

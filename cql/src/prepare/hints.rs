//! What a statement or its request may say and what has no effect here: warnings, and the table of `docs/options.md`.

/// A hint that has no effect; the client that gives it is warned.
pub(super) struct Hint {
    /// The hint as CQL writes it.
    name: &'static str,
    /// Why it has no effect.
    why: &'static str,
}

/// ScyllaDB's, where it is none of a read or write.
pub(super) const TIMEOUT: Hint = Hint {
    name: "USING TIMEOUT of TRUNCATE, or of a statement in a batch",
    why: "TRUNCATE ends when it is done, and a batch has one time-out: BEGIN BATCH USING TIMEOUT",
};
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
                "BEGIN BATCH INSERT INTO t (k) VALUES (1) USING TIMEOUT 5s; APPLY BATCH",
                "BEGIN BATCH UPDATE t USING TIMEOUT 5s SET v = 1 WHERE k = 1; APPLY BATCH",
            ],
        ),
        (BYPASS_CACHE, &["SELECT * FROM t BYPASS CACHE"]),
    ];

    /// What drivers send of their own accord, of which nothing is said, as in Cassandra.
    const SILENT: [(&str, &str, &str); 2] = [
        (
            "serial consistency level",
            "checked",
            "of conditional updates; one node has one order for both levels",
        ),
        (
            "custom payload",
            "passed over, as in Cassandra",
            "nothing reads it but `messina-request-id`",
        ),
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
    fn a_timeout_is_a_time() {
        let mut db = Database::with("k int PRIMARY KEY, v int");
        for text in [
            "SELECT * FROM t USING TIMEOUT {}",
            "INSERT INTO t (k) VALUES (1) USING TIMEOUT {}",
            "UPDATE t USING TTL 5 AND TIMEOUT {} SET v = 1 WHERE k = 1",
            "DELETE FROM t USING TIMEOUT {} WHERE k = 1",
        ] {
            for (time, refusal) in [
                ("0ms", None),
                ("1m30s", None),
                ("1mo", Some("Timeout values cannot be expressed in days/months")),
                ("1d", Some("Timeout values cannot be expressed in days/months")),
                ("5us", Some("Timeout values cannot have granularity finer than milliseconds")),
                ("-5s", Some("Timeout values must be non-negative")),
            ] {
                let text = text.replace("{}", time);
                match refusal {
                    None => {
                        db.ok(&text);
                        assert_eq!(db.warnings, [""; 0], "{text}");
                    }
                    Some(refusal) => assert_eq!(db.err(&text), refusal, "{text}"),
                }
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

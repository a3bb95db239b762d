//! Names as CQL text writes them.

use std::fmt;

/// The words that are no names unless they are quoted (`reserved_keywords.txt` of Cassandra), sorted.
pub const RESERVED_WORDS: [&str; 57] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "truncate",
    "unlogged",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
];

/// A name as CQL text would have to write it: quoted if it is not plain lower case, or a reserved word.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a>(pub &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        let plain = chars.next().is_some_and(|c| c.is_ascii_lowercase())
            && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && RESERVED_WORDS.binary_search(&self.0).is_err();
        if plain { f.write_str(self.0) } else { write!(f, "\"{}\"", self.0.replace('"', "\"\"")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: DESCRIBE showed a column called `from` without quotes, and what it showed could not be read.
    #[test]
    fn names_that_are_no_plain_words_are_quoted() {
        assert!(RESERVED_WORDS.is_sorted());
        for (name, shown) in [
            ("a_1", "a_1"),
            ("key", "key"),
            ("from", "\"from\""),
            ("A", "\"A\""),
            ("a\"b", "\"a\"\"b\""),
        ] {
            assert_eq!(Name(name).to_string(), shown);
        }
    }
}

//! Fingerprints: what statements have in common that differ by their values alone.
//!
//! ```text
//! SELECT v FROM t WHERE k = 'a' AND c IN (1, 2, 3)    ─┐
//! select v from t where k=? and c in (?, ?) -- why     ├─► select v from t where k = ? and c in (...)
//! SELECT v FROM t WHERE k = :key AND c IN (:a)        ─┘
//! ```
//!
//! 1. Each literal and each bind marker is `?`; words are in lower case, but for names in quotes.
//! 2. What a client lengthens at will is `...`: the values of an `IN`, and of lists, sets and maps, if they are all values.
//! 3. White space and comments do not count, nor semicolons at the end.
//! 4. It is at most [`FINGERPRINT_BYTES_MAX`] long, and ` ...` where it was cut: longer statements that begin alike
//!    have one.
//!
//! Not here: the keyspace of names that are not qualified. A fingerprint is for people; it need not parse.

use super::keyword::Keyword;
use super::token::{Kind, Token};
use crate::limits::FINGERPRINT_BYTES_MAX;

/// A bracket that is open.
struct Open {
    /// Where its content begins in the fingerprint.
    start: usize,
    /// Whether a client lengthens its content at will.
    is_list: bool,
    /// Whether its content so far is values.
    is_values: bool,
    /// Whether it is in such a bracket, or is one.
    is_in_list: bool,
}

/// The fingerprint of a statement.
pub(super) fn of(text: &str, tokens: &[Token]) -> String {
    let mut out = String::with_capacity(text.len().min(FINGERPRINT_BYTES_MAX));
    let mut open: Vec<Open> = Vec::new();
    let mut before = Kind::End;
    // Nothing but semicolons is behind the last of these.
    let is_said = |token: &Token| !matches!(token.kind, Kind::Semicolon | Kind::End);
    let said = tokens.iter().rposition(is_said).map_or(0, |last| last + 1);
    for (at, token) in tokens[..said].iter().enumerate() {
        if out.len() > FINGERPRINT_BYTES_MAX && !open.last().is_some_and(|open| open.is_in_list) {
            break;
        }
        let is_name_of_marker = before == Kind::Colon && is_marker(tokens, at - 1);
        if !is_name_of_marker {
            if has_space(before, token.kind) {
                out.push(' ');
            }
            put(text, tokens, at, &mut out);
        }
        follow(tokens, at, is_name_of_marker, &mut open, &mut out);
        before = token.kind;
    }
    if out.len() > FINGERPRINT_BYTES_MAX {
        let cut = (0..=FINGERPRINT_BYTES_MAX - 4).rev().find(|at| out.is_char_boundary(*at));
        out.truncate(cut.unwrap_or(0));
        out.push_str(" ...");
    }
    out
}

/// Appends a token.
fn put(text: &str, tokens: &[Token], at: usize, out: &mut String) {
    let token = &tokens[at];
    if is_value(tokens, at) {
        out.push('?');
    } else if matches!(token.kind, Kind::Ident | Kind::Word(_)) {
        out.extend(token.text(text).chars().map(|c| c.to_ascii_lowercase()));
    } else {
        out.push_str(token.text(text));
    }
}

/// Whether the token stands for a value. Of a marker with a name it is the colon.
fn is_value(tokens: &[Token], at: usize) -> bool {
    match tokens[at].kind {
        Kind::String
        | Kind::Integer
        | Kind::Float
        | Kind::Boolean
        | Kind::Duration
        | Kind::Uuid
        | Kind::Hex
        | Kind::Question
        | Kind::Word(Keyword::Null) => true,
        Kind::Colon => is_marker(tokens, at),
        _ => false,
    }
}

/// Whether the colon at this place begins a marker, and does not part a key from its value.
fn is_marker(tokens: &[Token], colon: usize) -> bool {
    let after_value = colon > 0
        && matches!(
            tokens[colon - 1].kind,
            Kind::String
                | Kind::Integer
                | Kind::Float
                | Kind::Boolean
                | Kind::Duration
                | Kind::Uuid
                | Kind::Hex
                | Kind::Question
                | Kind::Ident
                | Kind::QuotedName
                | Kind::RightParen
                | Kind::RightBracket
                | Kind::RightBrace
        );
    let next = tokens.get(colon + 1).map(|token| token.kind);
    !after_value && matches!(next, Some(Kind::Ident | Kind::QuotedName | Kind::Word(_)))
}

/// Whether a space stands between two tokens.
fn has_space(before: Kind, kind: Kind) -> bool {
    let is_joined = matches!(
        kind,
        Kind::Comma
            | Kind::Dot
            | Kind::Semicolon
            | Kind::RightParen
            | Kind::RightBracket
            | Kind::RightBrace
    ) || matches!(
        before,
        Kind::End | Kind::Dot | Kind::LeftParen | Kind::LeftBracket | Kind::LeftBrace
    );
    // A call has no space before its arguments, nor a name before an index; `in (` and `values (` have one.
    let is_call = kind == Kind::LeftParen && before == Kind::Ident;
    let is_index = kind == Kind::LeftBracket && is_name(before);
    !is_joined && !is_call && !is_index
}

/// Whether an element may be taken of it.
fn is_name(kind: Kind) -> bool {
    matches!(kind, Kind::Ident | Kind::QuotedName | Kind::Word(_))
}

/// Follows the brackets, and shortens what one held that ends here.
fn follow(
    tokens: &[Token],
    at: usize,
    is_name_of_marker: bool,
    open: &mut Vec<Open>,
    out: &mut String,
) {
    let kind = tokens[at].kind;
    let is_in = at > 0 && tokens[at - 1].kind == Kind::Word(Keyword::In);
    match kind {
        Kind::LeftParen | Kind::LeftBracket | Kind::LeftBrace => {
            let is_index = kind == Kind::LeftBracket && at > 0 && is_name(tokens[at - 1].kind);
            let is_list = is_in || kind != Kind::LeftParen && !is_index;
            let is_in_list = is_list || open.last().is_some_and(|outer| outer.is_in_list);
            open.push(Open { start: out.len(), is_list, is_values: true, is_in_list });
        }
        Kind::RightParen | Kind::RightBracket | Kind::RightBrace => {
            let Some(closed) = open.pop() else { return };
            if closed.is_list && closed.is_values && closed.start + 1 < out.len() {
                out.truncate(closed.start);
                out.push_str("...");
                out.push(match kind {
                    Kind::RightParen => ')',
                    Kind::RightBracket => ']',
                    _ => '}',
                });
            }
            if let Some(outer) = open.last_mut() {
                outer.is_values &= closed.is_values;
            }
        }
        Kind::Comma | Kind::Colon => {}
        _ => {
            if let Some(inner) = open.last_mut() {
                inner.is_values &= is_name_of_marker || is_value(tokens, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lang::parse;

    fn fingerprint(text: &str) -> String {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).fingerprint
    }

    #[test]
    fn statements_that_differ_by_values_have_one_fingerprint() {
        let alike = |texts: &[&str], wanted: &str| {
            texts.iter().for_each(|text| assert_eq!(fingerprint(text), wanted, "{text}"));
        };
        alike(
            &[
                "SELECT v FROM t WHERE k = 'a' AND c IN (1, 2, 3)",
                "select v from t where k=? and c in (?, ?) -- why\n;",
                "SELECT v /* no */ FROM t WHERE k = :key AND c IN (:a) ; ;",
            ],
            "select v from t where k = ? and c in (...)",
        );
        alike(
            &[
                "INSERT INTO ks.t (k, l, m) VALUES (0xCAFE, [1, 2], {'a': 1, 'b': ?})",
                "INSERT INTO ks.t (k, l, m) VALUES (null, [:x], {'a': :m})",
            ],
            "insert into ks.t(k, l, m) values (?, [...], {...})",
        );
        alike(
            &["UPDATE t SET m[?] = 1, \"L\" = [(1, {2})] + \"L\" WHERE k = -1.5e3"],
            "update t set m[?] = ?, \"L\" = [...] + \"L\" where k = ?",
        );
        alike(
            &["UPDATE t SET l[:i] = :v WHERE k = :k", "UPDATE t SET l[0] = 2 WHERE k = 3"],
            "update t set l[?] = ? where k = ?",
        );
        alike(
            &["SELECT * FROM t WHERE (a, b) IN ((1, 2), (3, 4))"],
            "select * from t where (a, b) in (...)",
        );
        alike(&["SELECT * FROM t WHERE k IN (1, f(2))"], "select * from t where k in (?, f(?))");
    }

    #[test]
    fn other_statements_have_others() {
        assert_ne!(fingerprint("SELECT a FROM t"), fingerprint("SELECT \"A\" FROM t"));
        assert_ne!(fingerprint("SELECT a FROM t"), fingerprint("SELECT a FROM u"));
    }

    /// `FINGERPRINT_BYTES_MAX`: a long statement is cut.
    #[test]
    fn a_fingerprint_is_bounded() {
        let columns = vec!["ö_is_quoted"; 1000].join("\", \"");
        let long = fingerprint(&format!("SELECT \"{columns}\" FROM t"));
        assert!(long.len() <= FINGERPRINT_BYTES_MAX && long.ends_with(" ..."), "{}", long.len());
        let values = vec!["1"; 10_000].join(", ");
        let short = fingerprint(&format!("UPDATE t SET l = [{values}] WHERE k = 1"));
        assert_eq!(short, "update t set l = [...] where k = ?");
    }

    /// Before: at each semicolon all tokens behind it were looked at, and at each token all open brackets: minutes.
    #[test]
    fn a_fingerprint_is_linear() {
        for text in [";".repeat(200_000), "(".repeat(200_000)] {
            let text = format!("GRANT {{{text}x");
            let tokens = crate::lang::lexer::tokens(&text).expect("tokens");
            assert!(of(&text, &tokens).len() <= FINGERPRINT_BYTES_MAX);
        }
    }

    proptest! {
        /// Values of every form do not show.
        #[test]
        fn values_do_not_show(value in r"-?[0-9]{1,9}|'[a-z ]{0,9}'|0x[0-9a-f]{2}|true|[1-9]d|\?|:v[a-z]") {
            let text = format!("SELECT * FROM ks.t WHERE k = {value} AND c > {value}");
            prop_assert_eq!(fingerprint(&text), "select * from ks.t where k = ? and c > ?");
        }
    }
}

//! A syntax error: Cassandra's opening words, then help.
//!
//! ```text
//! line 1:9 mismatched input 'FORM' expecting K_FROM
//!   SELECT * FORM ks.t
//!            ^^^^ Did you mean FROM?
//! ```
//!
//! The first line is what drivers and tests match. At the end of the statement its position reads
//! `0:-1`, as there; the caret tells where that is.

use std::fmt;

use super::keyword::Keyword;
use super::token::{Kind, Token};
use crate::spelling::closest_name;

/// The statement is not CQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    message: String,
}

/// Longest piece of the statement shown in an error, in characters.
const EXCERPT_CHARS_MAX: usize = 72;

impl SyntaxError {
    /// An error that speaks for itself and points nowhere.
    #[cold]
    pub(super) fn plain(message: impl Into<String>) -> SyntaxError {
        SyntaxError { message: message.into() }
    }

    /// A number that Java cannot read; `problem` is what it says of it.
    #[cold]
    pub(super) fn number(text: &str, problem: &str) -> SyntaxError {
        let end = text.char_indices().nth(EXCERPT_CHARS_MAX).map_or(text.len(), |(end, _)| end);
        let more = if end < text.len() { "..." } else { "" };
        SyntaxError::plain(format!(
            "Failed parsing statement: [{}{more}] reason: NumberFormatException {problem}",
            &text[..end]
        ))
    }

    /// One token was expected, another is there.
    #[cold]
    pub(super) fn mismatched(
        text: &str,
        found: Token,
        expected: Kind,
        tried: &[Keyword],
    ) -> SyntaxError {
        let problem = format!(
            "mismatched input '{}' expecting {}",
            shown(text, found),
            expected.token_name()
        );
        SyntaxError::pointed(text, found, &problem, tried)
    }

    /// None of several possible tokens is there.
    #[cold]
    pub(super) fn no_viable(text: &str, found: Token, tried: &[Keyword]) -> SyntaxError {
        let problem = format!("no viable alternative at input '{}'", shown(text, found));
        SyntaxError::pointed(text, found, &problem, tried)
    }

    /// A character no token begins with, or a token that breaks off.
    #[cold]
    pub(super) fn character(text: &str, at: usize, problem: &str) -> SyntaxError {
        let width = text[at..].chars().next().map_or(0, char::len_utf8);
        let token = Token { kind: Kind::Ident, start: at as u32, end: (at + width) as u32 };
        SyntaxError::pointed(text, token, problem, &[])
    }

    /// What goes wrong at `token`, with the excerpt and the word tried there that it most likely misspells.
    #[cold]
    pub(super) fn pointed(
        text: &str,
        token: Token,
        problem: &str,
        tried: &[Keyword],
    ) -> SyntaxError {
        let start = token.start as usize;
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let position = match token.kind {
            Kind::End => "line 0:-1".to_owned(),
            _ => {
                let line = text[..start].matches('\n').count() + 1;
                format!("line {line}:{}", text[line_start..start].chars().count())
            }
        };
        let excerpt = excerpt(text, line_start, token);
        let hint = closest_word(token.text(text), tried)
            .map(|word| format!(" Did you mean {}?", word.to_ascii_uppercase()))
            .unwrap_or_default();
        SyntaxError { message: format!("{position} {problem}\n{excerpt}{hint}") }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// The token as errors show it.
fn shown(text: &str, token: Token) -> &str {
    if token.kind == Kind::End { "<EOF>" } else { token.text(text) }
}

/// The line of the token, cut around it, with carets below.
fn excerpt(text: &str, line_start: usize, token: Token) -> String {
    let line = text[line_start..].lines().next().unwrap_or("");
    let before = text[line_start..token.start as usize].chars().count();
    let width = token.text(text).lines().next().map_or(0, |t| t.chars().count()).max(1);
    let skipped = before.saturating_sub(EXCERPT_CHARS_MAX / 2);
    let mut shown: String = line.chars().skip(skipped).take(EXCERPT_CHARS_MAX).collect();
    if line.chars().count() > skipped + EXCERPT_CHARS_MAX {
        shown.push_str("...");
    }
    let lead = if skipped > 0 { "..." } else { "" };
    let indent = lead.len() + before - skipped;
    let carets = width.min(EXCERPT_CHARS_MAX - (before - skipped));
    // A control character would break the picture or the terminal that shows it.
    let shown = shown.replace(|c: char| c.is_control(), " ");
    format!("  {lead}{shown}\n  {:indent$}{}", "", "^".repeat(carets))
}

/// The tried word that `word` most likely misspells.
fn closest_word(word: &str, tried: &[Keyword]) -> Option<&'static str> {
    if word.len() < 2 || word.len() > 32 {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let distance_max = if word.len() <= 4 { 1 } else { 2 };
    closest_name(&word, tried.iter().map(|keyword| keyword.text()), distance_max)
}

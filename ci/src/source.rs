//! A Rust source as the checks see it: comments and literals blanked, tests and functions found.
//!
//! 1. `Source::new` copies the text and overwrites every comment, string and character literal
//!    with spaces, so that words and braces in the copy are code.
//! 2. Test modules (`#[cfg(test)] mod name { .. }`) are found by their braces.
//! 3. Functions are found by the word `fn`, a name, and the next body at the same depth.
//!
//! Invariant: the copy has the same lines as the text.
//!
//! Not a parser: macros that hide braces inside tokens would fool it, and the house has none.

use std::collections::HashSet;
use std::ops::Range;

/// One Rust file, prepared for the checks.
pub(crate) struct Source {
    /// The text with comments and literals blanked, line by line.
    code: Vec<String>,
    /// Line ranges of test modules, from their attribute to their closing brace.
    tests: Vec<Range<usize>>,
    /// Lines with a part of a string in them.
    texts: HashSet<usize>,
}

/// A function's name and where it stands, in lines counted from 0.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// From the line of `fn` to behind the line of its closing brace.
    pub(crate) lines: Range<usize>,
}

impl Source {
    /// Prepares a text.
    pub(crate) fn new(text: &str) -> Self {
        let (code, texts) = blank(text);
        let code: Vec<String> = code.lines().map(str::to_owned).collect();
        let tests = test_modules(&code);
        Self { code, tests, texts }
    }

    /// The code lines, with their numbers from 0.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.iter().map(String::as_str).enumerate()
    }

    /// True inside a test module.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }

    /// True if a part of a string stands in the line.
    pub(crate) fn is_text(&self, line: usize) -> bool {
        self.texts.contains(&line)
    }

    /// How many lines the file has without its test modules.
    pub(crate) fn size(&self) -> usize {
        self.code.len() - self.tests.iter().map(Range::len).sum::<usize>()
    }

    /// True if the identifier stands anywhere in the code.
    pub(crate) fn find_word(&self, word: &str) -> Option<usize> {
        self.lines().find(|(_, line)| words(line).any(|(_, w)| w == word)).map(|(at, _)| at)
    }

    /// True if the crate is named as the head of a path: `name::`.
    pub(crate) fn names_crate(&self, name: &str) -> bool {
        self.lines().any(|(_, line)| {
            words(line).any(|(at, word)| {
                word == name
                    && line[at + word.len()..].starts_with("::")
                    && !line[..at].ends_with("::")
            })
        })
    }

    /// The functions outside test modules.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (number, line) in self.lines() {
            if self.is_test(number) {
                continue;
            }
            let mut words = words(line).skip_while(|(_, word)| *word != "fn");
            let (Some((at, _)), Some((_, name))) = (words.next(), words.next()) else { continue };
            if let Some(end) = body_end(&self.code, number, at) {
                found.push(Function { name: name.to_owned(), lines: number..end + 1 });
            }
        }
        found
    }
}

/// The identifiers of a code line and where they start.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + line[rest..].find(is_word)?;
        let length = line[start..].find(|c| !is_word(c)).unwrap_or(line.len() - start);
        rest = start + length;
        Some((start, &line[start..rest]))
    })
}

/// The line of the brace that closes the first body after a place; none if a `;` comes first.
fn body_end(code: &[String], line: usize, column: usize) -> Option<usize> {
    let (mut braces, mut others) = (0_i32, 0_i32);
    for (number, text) in code.iter().enumerate().skip(line) {
        let text = if number == line { &text[column..] } else { text };
        for c in text.chars() {
            match c {
                '(' | '[' => others += 1,
                ')' | ']' => others -= 1,
                '{' => braces += 1,
                '}' => {
                    braces -= 1;
                    if braces == 0 {
                        return Some(number);
                    }
                }
                ';' if braces == 0 && others == 0 => return None,
                _ => {}
            }
        }
    }
    None
}

fn test_modules(code: &[String]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (number, line) in code.iter().enumerate() {
        if found.last().is_some_and(|range| range.contains(&number)) {
            continue;
        }
        if line.trim_start().starts_with("#[cfg(test)]")
            && let Some(end) = body_end(code, number, 0)
        {
            found.push(number..end + 1);
        }
    }
    found
}

/// What the lexer stands in.
enum State {
    Code,
    LineComment,
    /// How deep block comments are nested.
    BlockComment(usize),
    Text,
    /// How many `#` close it.
    RawText(usize),
}

/// Overwrites comments and literals with spaces; says which lines hold strings.
fn blank(text: &str) -> (String, HashSet<usize>) {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let (mut texts, mut line) = (HashSet::new(), 0);
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let (next, taken, keep) = step(&state, &chars, at);
        for &c in &chars[at..(at + taken).min(chars.len())] {
            if matches!(state, State::Text | State::RawText(_)) {
                texts.insert(line);
            }
            line += usize::from(c == '\n');
            out.push(if c == '\n' || keep { c } else { ' ' });
        }
        at += taken;
        if let Some(next) = next {
            state = next;
        }
    }
    (out, texts)
}

/// The next state if it changes, how many characters that takes, and whether they are code.
fn step(state: &State, chars: &[char], at: usize) -> (Option<State>, usize, bool) {
    let c = chars[at];
    let after = chars.get(at + 1).copied();
    match state {
        State::Code => step_code(chars, at),
        State::LineComment if c == '\n' => (Some(State::Code), 1, true),
        State::BlockComment(depth) if c == '/' && after == Some('*') => {
            (Some(State::BlockComment(depth + 1)), 2, false)
        }
        State::BlockComment(depth) if c == '*' && after == Some('/') => {
            let next = if *depth == 1 { State::Code } else { State::BlockComment(depth - 1) };
            (Some(next), 2, false)
        }
        State::Text if c == '\\' => (None, 2, false),
        State::Text if c == '"' => (Some(State::Code), 1, false),
        State::RawText(hashes) if c == '"' && hashes_at(chars, at + 1) >= *hashes => {
            (Some(State::Code), 1 + hashes, false)
        }
        _ => (None, 1, false),
    }
}

fn step_code(chars: &[char], at: usize) -> (Option<State>, usize, bool) {
    let after = chars.get(at + 1).copied();
    let follows_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match chars[at] {
        '/' if after == Some('/') => (Some(State::LineComment), 2, false),
        '/' if after == Some('*') => (Some(State::BlockComment(1)), 2, false),
        '"' => (Some(State::Text), 1, false),
        'r' if !follows_word || chars[at - 1] == 'b' => {
            let hashes = hashes_at(chars, at + 1);
            match chars.get(at + 1 + hashes) {
                Some('"') => (Some(State::RawText(hashes)), hashes + 2, false),
                _ => (None, 1, true),
            }
        }
        // `'a'` and `'\n'` are literals, `'a` alone is a lifetime.
        '\'' if after == Some('\\') => {
            let end = chars[at + 3..].iter().position(|&c| c == '\'').unwrap_or(0);
            (None, end + 4, false)
        }
        '\'' if chars.get(at + 2) == Some(&'\'') => (None, 3, false),
        _ => (None, 1, true),
    }
}

fn hashes_at(chars: &[char], at: usize) -> usize {
    chars[at..].iter().take_while(|&&c| c == '#').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_vanish_and_lines_stay() {
        let text = "a // unsafe\nb /* x /* y */ unsafe\n */ c \"un\\\"safe\" d r#\"\"unsafe\"# e\n\
            '\\'' f '\"' g &'a str h '\\u{7d}' i";
        let (code, texts) = blank(text);
        assert_eq!(texts.into_iter().collect::<Vec<_>>(), [2]);
        assert_eq!(code.lines().count(), text.lines().count());
        assert_eq!(
            code.split_whitespace().collect::<Vec<_>>().join(" "),
            "a b c d e f g &'a str h i"
        );
    }

    #[test]
    fn tests_do_not_count() {
        let source = Source::new("//! x\nfn a() {\n}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\n");
        assert_eq!(source.size(), 3);
        assert_eq!(source.functions(), [Function { name: "a".into(), lines: 1..3 }]);
    }

    #[test]
    fn a_test_module_in_its_own_file_is_one_line() {
        let source = Source::new("//! x\nfn a() {}\n#[cfg(test)]\nmod tests;\nfn c() {\n}\n");
        assert_eq!(source.size(), 6);
        assert_eq!(source.functions().len(), 2);
    }

    #[test]
    fn signatures_over_many_lines_belong_to_the_function() {
        let source = Source::new("fn a(\n  x: [u8; 3],\n) -> u8\n{\n  if x { 1 } else { 2 }\n}\n");
        assert_eq!(source.functions(), [Function { name: "a".into(), lines: 0..6 }]);
        assert!(Source::new("trait T { fn a(&self) -> [u8; 3]; }").functions().is_empty());
    }

    #[test]
    fn a_crate_is_named_only_as_the_head_of_a_path() {
        assert!(Source::new("use cql::frame;").names_crate("cql"));
        assert!(!Source::new("use crate::cql::frame; // cql::x").names_crate("cql"));
        assert!(!Source::new("let cql = my_cql::x;").names_crate("cql"));
    }
}

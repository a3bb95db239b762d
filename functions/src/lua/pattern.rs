//! Lua's patterns, matched in steps that are counted: what `string.find` and its like do in a function of a user.
//!
//! The matcher of Lua's own library backtracks in C, where no instruction is counted: `("a*"):rep(30) .. "b"` on thirty
//! `a` takes years. This one takes the same patterns (Lua 5.4, §6.4.1) and asks the budget at each step.
//!
//! Not here: the functions that a body calls (`lua/strings.rs`).

use crate::budget::Budget;
use crate::limits::PATTERN_DEPTH_MAX;

/// Most captures of a pattern, as in Lua.
const CAPTURES_MAX: usize = 32;
const ESCAPE: u8 = b'%';
/// Bytes of a set `[..]` that are looked at in one step.
const SET_BYTES_PER_STEP: usize = 8;
/// Bytes that are compared in one step.
const COMPARED_BYTES_PER_STEP: usize = 64;

type Matched<T> = Result<T, String>;

/// What a capture holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// Its bytes are these of the text.
    Text { from: usize, to: usize },
    /// `()`: the position behind so many bytes.
    Position(usize),
    /// It is not closed yet.
    Open { from: usize },
}

/// One attempt to match a pattern at a place of a text.
pub(super) struct Matcher<'m> {
    text: &'m [u8],
    pattern: &'m [u8],
    budget: &'m Budget,
    depth: u32,
    captures: Vec<Capture>,
}

impl<'m> Matcher<'m> {
    pub(super) fn new(text: &'m [u8], pattern: &'m [u8], budget: &'m Budget) -> Matcher<'m> {
        Matcher { text, pattern, budget, depth: 0, captures: Vec::new() }
    }

    /// Where the match ends that begins at `at`, if there is one; its captures are [`Self::captures`].
    pub(super) fn match_at(&mut self, at: usize) -> Matched<Option<usize>> {
        self.captures.clear();
        self.depth = 0;
        self.go(at, 0)
    }

    /// The text that is matched.
    pub(super) fn text(&self) -> &'m [u8] {
        self.text
    }

    /// What was captured by the last match.
    pub(super) fn captures(&self) -> &[Capture] {
        &self.captures
    }

    /// Matches the pattern from `p` on at `at`.
    fn go(&mut self, at: usize, p: usize) -> Matched<Option<usize>> {
        if self.depth == PATTERN_DEPTH_MAX {
            return Err("pattern too complex".to_owned());
        }
        self.depth += 1;
        let end = self.alternatives(at, p);
        self.depth -= 1;
        end
    }

    fn alternatives(&mut self, mut at: usize, mut p: usize) -> Matched<Option<usize>> {
        loop {
            self.budget.pattern_step()?;
            let Some(&first) = self.pattern.get(p) else { return Ok(Some(at)) };
            match (first, self.pattern.get(p + 1)) {
                (b'(', Some(b')')) => return self.open(at, p + 2, Capture::Position(at)),
                (b'(', _) => return self.open(at, p + 1, Capture::Open { from: at }),
                (b')', _) => return self.close(at, p + 1),
                (b'$', None) => return Ok((at == self.text.len()).then_some(at)),
                (ESCAPE, Some(b'b')) => match self.balanced(at, p + 2)? {
                    Some(end) => (at, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (ESCAPE, Some(b'f')) => {
                    let end = self.frontier(at, p + 2)?;
                    match end {
                        Some(end) => p = end,
                        None => return Ok(None),
                    }
                }
                (ESCAPE, Some(digit)) if digit.is_ascii_digit() => match self.again(at, *digit)? {
                    Some(end) => (at, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(p)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.single(at, p, end)?
                                && let Some(done) = self.go(at + 1, end + 1)?
                            {
                                return Ok(Some(done));
                            }
                            p = end + 1;
                        }
                        Some(b'+') if self.single(at, p, end)? => {
                            return self.longest(at + 1, p, end);
                        }
                        Some(b'*') => return self.longest(at, p, end),
                        Some(b'-') => return self.shortest(at, p, end),
                        Some(b'+') => return Ok(None),
                        _ if self.single(at, p, end)? => (at, p) = (at + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// Where the class that begins at `p` ends.
    fn class_end(&self, p: usize) -> Matched<usize> {
        match self.pattern[p] {
            ESCAPE if p + 1 >= self.pattern.len() => {
                Err("malformed pattern (ends with '%')".to_owned())
            }
            ESCAPE => Ok(p + 2),
            b'[' => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                let end = loop {
                    let Some(&byte) = self.pattern.get(at) else {
                        break Err("malformed pattern (missing ']')".to_owned());
                    };
                    at += if byte == ESCAPE { 2 } else { 1 };
                    if self.pattern.get(at) == Some(&b']') {
                        break Ok(at + 1);
                    }
                };
                self.budget.take_pattern_steps((at - p) / SET_BYTES_PER_STEP)?;
                end
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the byte at `at` is of the class between `p` and `end`.
    fn single(&self, at: usize, p: usize, end: usize) -> Matched<bool> {
        let Some(&byte) = self.text.get(at) else { return Ok(false) };
        Ok(match self.pattern[p] {
            b'.' => true,
            ESCAPE => of_class(byte, self.pattern[p + 1]),
            b'[' => {
                self.budget.take_pattern_steps((end - p) / SET_BYTES_PER_STEP)?;
                self.of_set(byte, p, end - 1)
            }
            plain => plain == byte,
        })
    }

    /// Whether a byte is of the set `[..]` whose brackets stand at `p` and `end`.
    fn of_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let mut at = p + 1;
        let negated = self.pattern[at] == b'^';
        if negated {
            at += 1;
        }
        while at < end {
            let first = self.pattern[at];
            if first == ESCAPE {
                if of_class(byte, self.pattern[at + 1]) {
                    return !negated;
                }
                at += 2;
            } else if self.pattern[at + 1] == b'-' && at + 2 < end {
                if (first..=self.pattern[at + 2]).contains(&byte) {
                    return !negated;
                }
                at += 3;
            } else {
                if first == byte {
                    return !negated;
                }
                at += 1;
            }
        }
        negated
    }

    /// As many of the class as there are, then the rest.
    fn longest(&mut self, at: usize, p: usize, end: usize) -> Matched<Option<usize>> {
        let mut count = 0;
        while self.single(at + count, p, end)? {
            self.budget.pattern_step()?;
            count += 1;
        }
        loop {
            if let Some(done) = self.go(at + count, end + 1)? {
                return Ok(Some(done));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    /// As few of the class as the rest allows.
    fn shortest(&mut self, mut at: usize, p: usize, end: usize) -> Matched<Option<usize>> {
        loop {
            if let Some(done) = self.go(at, end + 1)? {
                return Ok(Some(done));
            }
            if !self.single(at, p, end)? {
                return Ok(None);
            }
            self.budget.pattern_step()?;
            at += 1;
        }
    }

    fn open(&mut self, at: usize, p: usize, capture: Capture) -> Matched<Option<usize>> {
        if self.captures.len() == CAPTURES_MAX {
            return Err("too many captures".to_owned());
        }
        let level = self.captures.len();
        self.captures.push(capture);
        let end = self.go(at, p)?;
        if end.is_none() {
            self.captures.truncate(level);
        }
        Ok(end)
    }

    fn close(&mut self, at: usize, p: usize) -> Matched<Option<usize>> {
        let is_open = |capture: &Capture| matches!(capture, Capture::Open { .. });
        let Some(level) = self.captures.iter().rposition(is_open) else {
            return Err("invalid pattern capture".to_owned());
        };
        let opened = self.captures[level];
        let Capture::Open { from } = opened else { unreachable!("it was looked for") };
        self.captures[level] = Capture::Text { from, to: at };
        let end = self.go(at, p)?;
        if end.is_none() {
            self.captures[level] = opened;
        }
        Ok(end)
    }

    /// `%bxy`: behind the `y` that closes the `x` at `at`.
    fn balanced(&self, at: usize, p: usize) -> Matched<Option<usize>> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err("malformed pattern (missing arguments to '%b')".to_owned());
        };
        if self.text.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (index, byte) in self.text.iter().enumerate().skip(at + 1) {
            self.budget.pattern_step()?;
            if *byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(index + 1));
                }
            } else if *byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`: where the set ends in the pattern, if the set begins at `at`.
    fn frontier(&self, at: usize, p: usize) -> Matched<Option<usize>> {
        if self.pattern.get(p) != Some(&b'[') {
            return Err("missing '[' after '%f' in pattern".to_owned());
        }
        let end = self.class_end(p)?;
        self.budget.take_pattern_steps((end - p) / SET_BYTES_PER_STEP)?;
        let before = if at == 0 { 0 } else { self.text[at - 1] };
        let here = self.text.get(at).copied().unwrap_or(0);
        let begins = !self.of_set(before, p, end - 1) && self.of_set(here, p, end - 1);
        Ok(begins.then_some(end))
    }

    /// `%1`: behind the text of a capture, if it stands at `at` once more.
    fn again(&self, at: usize, digit: u8) -> Matched<Option<usize>> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        match index.and_then(|index| self.captures.get(index)) {
            Some(Capture::Text { from, to }) => {
                let text = &self.text[*from..*to];
                self.budget.take_pattern_steps(text.len() / COMPARED_BYTES_PER_STEP)?;
                Ok(self.text[at..].starts_with(text).then_some(at + text.len()))
            }
            Some(Capture::Position(_)) => Ok(None),
            _ => Err(format!("invalid capture index %{}", char::from(digit))),
        }
    }
}

/// Whether a byte is of a class such as `%a`; of any other letter, whether it is that one.
fn of_class(byte: u8, class: u8) -> bool {
    let is_member = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        // C counts the vertical tab.
        b's' => byte.is_ascii_whitespace() || byte == 0x0B,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        // Older patterns have it for a zero, which they could not hold.
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_member != class.is_ascii_uppercase()
}

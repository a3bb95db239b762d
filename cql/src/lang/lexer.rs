//! The lexer: statement text to tokens, in one pass over the bytes.
//!
//! Words are ASCII letters, digits and underscores. What begins like a word or a number may also
//! be a uuid, a blob, a duration; the longest reading wins, as in Cassandra's lexer, and a minus
//! directly before a digit belongs to the number. Comments are `-- ..`, `// ..` and `/* .. */`.
//!
//! Not here: what the tokens mean. Values are copied out of them by the parser.

use super::keyword::Keyword;
use super::syntax_error::SyntaxError;
use super::token::{Kind, Token};
use crate::limits::TOKENS_MAX;

/// The tokens of `text`, ended by one `Kind::End`.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, SyntaxError> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0 };
    let mut tokens = Vec::with_capacity((text.len() / 5 + 2).min(TOKENS_MAX));
    loop {
        let token = lexer.next()?;
        tokens.push(token);
        if token.kind == Kind::End {
            return Ok(tokens);
        }
        if tokens.len() > TOKENS_MAX {
            let text = format!("the statement has more than {TOKENS_MAX} words and marks");
            return Err(SyntaxError::plain(text));
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Token, SyntaxError> {
        self.skip_blank()?;
        let start = self.at;
        let kind = match self.peek(0) {
            None => Kind::End,
            Some(b'\'') => self.quoted(b'\'', "''")?,
            Some(b'"') => self.quoted(b'"', "QUOTED_NAME")?,
            Some(b'$') => self.dollars()?,
            Some(byte) if byte.is_ascii_alphanumeric() => self.word_or_number(),
            Some(b'-') => self.minus(),
            Some(_) => self.mark()?,
        };
        Ok(Token { kind, start: start as u32, end: self.at as u32 })
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// Passes white space and comments.
    fn skip_blank(&mut self) -> Result<(), SyntaxError> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b' ' | b'\t' | b'\n' | b'\r'), _) => self.at += 1,
                (Some(b'-'), Some(b'-')) | (Some(b'/'), Some(b'/')) => {
                    let rest = &self.bytes[self.at..];
                    let line = rest.iter().position(|b| matches!(b, b'\n' | b'\r'));
                    self.at += line.unwrap_or(rest.len());
                }
                (Some(b'/'), Some(b'*')) => {
                    let inside = &self.text[self.at + 2..];
                    let Some(length) = inside.find("*/") else {
                        return Err(self.breaks_off("'*'"));
                    };
                    self.at += length + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    /// The statement ends inside a token.
    #[cold]
    fn breaks_off(&self, expected: &str) -> SyntaxError {
        let problem = format!("mismatched character '<EOF>' expecting {expected}");
        SyntaxError::character(self.text, self.text.len(), &problem)
    }

    /// `'text'` and `"name"`: a doubled quote stands for one.
    fn quoted(&mut self, quote: u8, expected: &str) -> Result<Kind, SyntaxError> {
        self.at += 1;
        loop {
            let rest = &self.bytes[self.at..];
            let Some(length) = rest.iter().position(|b| *b == quote) else {
                self.at = self.bytes.len();
                return Err(self.breaks_off(if quote == b'\'' { "'''" } else { expected }));
            };
            self.at += length + 1;
            if self.peek(0) != Some(quote) {
                return Ok(if quote == b'\'' { Kind::String } else { Kind::QuotedName });
            }
            self.at += 1;
        }
    }

    /// Reads a text between dollars: `$$text$$`.
    fn dollars(&mut self) -> Result<Kind, SyntaxError> {
        if self.peek(1) != Some(b'$') {
            let next = self.text[self.at + 1..].chars().next();
            let shown = next.map_or("<EOF>".to_owned(), String::from);
            let problem = format!("mismatched character '{shown}' expecting '$'");
            return Err(SyntaxError::character(self.text, self.at + 1, &problem));
        }
        match self.text[self.at + 2..].find("$$") {
            Some(length) => self.at += length + 4,
            None => return Err(self.breaks_off("'$'")),
        }
        Ok(Kind::String)
    }

    /// A token that begins with a letter or a digit.
    fn word_or_number(&mut self) -> Kind {
        if let Some(length) = uuid_length(&self.bytes[self.at..]) {
            self.at += length;
            return Kind::Uuid;
        }
        if let Some(length) = iso_duration_length(&self.bytes[self.at..]) {
            self.at += length;
            return Kind::Duration;
        }
        if self.bytes[self.at].is_ascii_digit() {
            return self.number();
        }
        let start = self.at;
        while self.peek(0).is_some_and(is_word) {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") {
            return Kind::Boolean;
        }
        match Keyword::of(word) {
            Some(Keyword::Nan | Keyword::Infinity) => Kind::Float,
            Some(keyword) => Kind::Word(keyword),
            None => Kind::Ident,
        }
    }

    /// A token that begins with a digit, or with a minus before a digit.
    fn number(&mut self) -> Kind {
        let rest = &self.bytes[self.at..];
        if rest[0] == b'0' && matches!(rest.get(1), Some(b'x' | b'X')) {
            self.at += 2 + digits(&rest[2..], u8::is_ascii_hexdigit);
            return Kind::Hex;
        }
        if let Some(length) = duration_length(rest) {
            self.at += length;
            return Kind::Duration;
        }
        let sign = usize::from(rest[0] == b'-');
        self.at += sign + digits(&rest[sign..], u8::is_ascii_digit);
        let mut kind = Kind::Integer;
        if self.peek(0) == Some(b'.') && self.peek(1) != Some(b'.') {
            kind = Kind::Float;
            self.at += 1;
            self.at += digits(&self.bytes[self.at..], u8::is_ascii_digit);
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
            let exponent = digits(&self.bytes[self.at + 1 + sign..], u8::is_ascii_digit);
            if exponent > 0 {
                kind = Kind::Float;
                self.at += 1 + sign + exponent;
            }
        }
        kind
    }

    /// A token that begins with a minus.
    fn minus(&mut self) -> Kind {
        let rest = &self.bytes[self.at..];
        if rest.get(1).is_some_and(u8::is_ascii_digit) {
            return self.number();
        }
        if let Some(length) = iso_duration_length(&rest[1..]) {
            self.at += 1 + length;
            return Kind::Duration;
        }
        let word = digits(&rest[1..], |b| is_word(*b));
        if matches!(&rest[1..=word].to_ascii_lowercase()[..], b"nan" | b"infinity") {
            self.at += 1 + word;
            return Kind::Float;
        }
        let equal = rest.get(1) == Some(&b'=');
        self.at += 1 + usize::from(equal);
        if equal { Kind::MinusEqual } else { Kind::Minus }
    }

    /// A punctuation mark.
    fn mark(&mut self) -> Result<Kind, SyntaxError> {
        let (kind, length) = match (self.bytes[self.at], self.peek(1)) {
            (b'.', Some(b'.')) => (Kind::Range, 2),
            (b'!', Some(b'=')) => (Kind::NotEqual, 2),
            (b'<', Some(b'=')) => (Kind::LessEqual, 2),
            (b'>', Some(b'=')) => (Kind::GreaterEqual, 2),
            (b'+', Some(b'=')) => (Kind::PlusEqual, 2),
            (b'?', _) => (Kind::Question, 1),
            (b':', _) => (Kind::Colon, 1),
            (b';', _) => (Kind::Semicolon, 1),
            (b',', _) => (Kind::Comma, 1),
            (b'.', _) => (Kind::Dot, 1),
            (b'(', _) => (Kind::LeftParen, 1),
            (b')', _) => (Kind::RightParen, 1),
            (b'[', _) => (Kind::LeftBracket, 1),
            (b']', _) => (Kind::RightBracket, 1),
            (b'{', _) => (Kind::LeftBrace, 1),
            (b'}', _) => (Kind::RightBrace, 1),
            (b'=', _) => (Kind::Equal, 1),
            (b'<', _) => (Kind::Less, 1),
            (b'>', _) => (Kind::Greater, 1),
            (b'+', _) => (Kind::Plus, 1),
            (b'*', _) => (Kind::Star, 1),
            (b'/', _) => (Kind::Slash, 1),
            (b'%', _) => (Kind::Percent, 1),
            _ => {
                let shown = self.text[self.at..].chars().next().expect("not at the end");
                let problem =
                    format!("no viable alternative at character '{}'", shown.escape_debug());
                return Err(SyntaxError::character(self.text, self.at, &problem));
            }
        };
        self.at += length;
        Ok(kind)
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// How many bytes at the beginning of `bytes` are wanted.
fn digits(bytes: &[u8], wanted: impl Fn(&u8) -> bool) -> usize {
    bytes.iter().take_while(|b| wanted(b)).count()
}

/// The length of the uuid at the beginning, if one is there.
fn uuid_length(bytes: &[u8]) -> Option<usize> {
    const LENGTH: usize = 36;
    let text = bytes.get(..LENGTH)?;
    let fits = text.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    (fits && !bytes.get(LENGTH).copied().is_some_and(is_word)).then_some(LENGTH)
}

/// The length of a duration such as `-1y2mo3w4d5h6m7s8ms9us10ns`, if one is there.
fn duration_length(bytes: &[u8]) -> Option<usize> {
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    let start = at;
    loop {
        let count = digits(&bytes[at..], u8::is_ascii_digit);
        if count == 0 {
            break;
        }
        at += count + unit_length(&bytes[at + count..])?;
    }
    (at > start && !bytes.get(at).copied().is_some_and(is_word)).then_some(at)
}

/// The length of a unit of a duration.
fn unit_length(bytes: &[u8]) -> Option<usize> {
    let letter = |at: usize| bytes.get(at).map(u8::to_ascii_lowercase);
    match (letter(0)?, letter(1)) {
        (b'm', Some(b'o' | b's')) | (b'u' | b'n', Some(b's')) => Some(2),
        (0xC2, Some(0xB5)) if letter(2) == Some(b's') => Some(3),
        (b'y' | b'w' | b'd' | b'h' | b'm' | b's', _) => Some(1),
        _ => None,
    }
}

/// The length of an ISO 8601 duration: `P1Y2M3DT4H5M6S`, `P2W`, `P0001-02-03T04:05:06`.
fn iso_duration_length(bytes: &[u8]) -> Option<usize> {
    if bytes.first() != Some(&b'P') {
        return None;
    }
    const ALTERNATIVE: &[u8] = b"P0000-00-00T00:00:00";
    let alternative = bytes.get(..ALTERNATIVE.len()).is_some_and(|text| {
        text.iter().zip(ALTERNATIVE).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            mark => byte == mark,
        })
    });
    let length = if alternative { ALTERNATIVE.len() } else { iso_parts_length(bytes)? };
    (!bytes.get(length).copied().is_some_and(is_word)).then_some(length)
}

/// The length of `P`, its dated parts in order, then `T` and its timed parts in order.
fn iso_parts_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    let mut letters: &[u8] = b"YMD";
    let mut timed = false;
    loop {
        if bytes.get(at) == Some(&b'T') && !timed {
            timed = true;
            letters = b"HMS";
            at += 1;
            continue;
        }
        let count = digits(&bytes[at..], u8::is_ascii_digit);
        if count == 0 {
            break;
        }
        let letter = *bytes.get(at + count)?;
        if letter == b'W' && at == 1 {
            return Some(at + count + 1);
        }
        let order = letters.iter().position(|l| *l == letter)?;
        letters = &letters[order + 1..];
        at += count + 1;
    }
    (at > 1 && bytes[at - 1] != b'T').then_some(at)
}

#[cfg(test)]
mod tests;

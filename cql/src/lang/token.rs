//! A token: what kind of thing it is and which bytes of the statement it covers.
//!
//! A token is a kind and two offsets, and is copied at will: its text stays in the statement, and [`Token::content`]
//! makes a `String` of it only where the tree keeps one. A statement ends with a token `End`, which covers no bytes.
//!
//! Not here: how tokens are told apart (`lexer.rs`), the keywords (`keyword.rs`).

use super::keyword::Keyword;

/// The lexical kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word that is no keyword.
    Ident,
    /// A name in double quotes, which keeps its case: `"Name"`.
    QuotedName,
    /// A word that is a keyword.
    Word(Keyword),
    /// `'text'` or `$$text$$`.
    String,
    /// An integer, such as `-12`.
    Integer,
    /// `1.5e3`, and the words `NaN`, `Infinity` with their signs.
    Float,
    /// The word `true` or `false`.
    Boolean,
    /// A duration, such as `1y2mo3d` or `P1Y2M`.
    Duration,
    /// Eight, four, four, four and twelve hexadecimal digits.
    Uuid,
    /// Bytes, such as `0xcafe`.
    Hex,
    Question,
    Colon,
    Semicolon,
    Comma,
    Dot,
    Range,
    LeftParen,
    RightParen,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Plus,
    Minus,
    PlusEqual,
    MinusEqual,
    Star,
    Slash,
    Percent,
    /// The end of the statement.
    End,
}

impl Kind {
    /// The name Cassandra's errors give it: `K_FROM`, `'('`, `STRING_LITERAL`, `EOF`.
    pub(super) fn token_name(self) -> String {
        let mark = match self {
            Kind::Word(keyword) => return keyword.token_name(),
            Kind::Ident => return "IDENT".into(),
            Kind::QuotedName => return "QUOTED_NAME".into(),
            Kind::String => return "STRING_LITERAL".into(),
            Kind::Integer => return "INTEGER".into(),
            Kind::Float => return "FLOAT".into(),
            Kind::Boolean => return "BOOLEAN".into(),
            Kind::Duration => return "DURATION".into(),
            Kind::Uuid => return "UUID".into(),
            Kind::Hex => return "HEXNUMBER".into(),
            Kind::Question => return "QMARK".into(),
            Kind::Range => return "RANGE".into(),
            Kind::End => return "EOF".into(),
            Kind::Colon => ":",
            Kind::Semicolon => ";",
            Kind::Comma => ",",
            Kind::Dot => ".",
            Kind::LeftParen => "(",
            Kind::RightParen => ")",
            Kind::LeftBracket => "[",
            Kind::RightBracket => "]",
            Kind::LeftBrace => "{",
            Kind::RightBrace => "}",
            Kind::Equal => "=",
            Kind::NotEqual => "!=",
            Kind::Less => "<",
            Kind::LessEqual => "<=",
            Kind::Greater => ">",
            Kind::GreaterEqual => ">=",
            Kind::Plus => "+",
            Kind::Minus => "-",
            Kind::PlusEqual => "+=",
            Kind::MinusEqual => "-=",
            Kind::Star => "*",
            Kind::Slash => "/",
            Kind::Percent => "%",
        };
        format!("'{mark}'")
    }
}

/// One token of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// The lexical kind.
    pub(super) kind: Kind,
    /// The offset of the token's first byte in the text.
    pub(super) start: u32,
    /// The byte after its last.
    pub(super) end: u32,
}

impl Token {
    /// The bytes it covers, as written.
    pub(super) fn text<'a>(&self, statement: &'a str) -> &'a str {
        &statement[self.start as usize..self.end as usize]
    }

    /// What it says: without quotes, and with doubled quotes single.
    pub(super) fn content(&self, statement: &str) -> String {
        let text = self.text(statement);
        match self.kind {
            Kind::String if text.starts_with('$') => text[2..text.len() - 2].to_owned(),
            Kind::String => text[1..text.len() - 1].replace("''", "'"),
            Kind::QuotedName => text[1..text.len() - 1].replace("\"\"", "\""),
            _ => text.to_owned(),
        }
    }
}

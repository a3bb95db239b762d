//! Expressions: terms and selectors, which share one grammar and differ in whether a bare name is
//! a column ([`Columns`]).
//!
//! ```text
//! sum     := product (('+' | '-') product)*          `a -1` in a selector is a sum, too
//! product := signed (('*' | '/' | '%') signed)*
//! signed  := '-' signed | simple part*               parts (`.f`, `[k]`, `[a..b]`) in selectors alone
//! simple  := constant | marker | word | '(' .. ')' | '[' .. ']' | '{' .. '}'
//! ```
//!
//! Invariant: an expression is no higher than `EXPRESSION_DEPTH_MAX`, and has no more than `OPERATORS_MAX`
//! operators in a row, so that whatever walks the tree later needs no limit of its own. Not here: what names
//! and types mean (`expr`).

use std::mem;

use super::super::ast::{Access, BinaryOp, Expr, Literal, LiteralKind, QualifiedName};
use super::{Keyword, Kind, Parser, Result, SyntaxError};
use crate::limits::OPERATORS_MAX;

/// Whether a bare name in an expression is a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    Allowed,
    Refused,
}

impl Parser<'_> {
    /// A value: constants, markers, functions, collections.
    pub(super) fn term(&mut self) -> Result<Expr> {
        let term = self.sum(Columns::Refused)?;
        self.term_end = self.at;
        Ok(term)
    }

    /// What a `SELECT` selects: a term that may name columns.
    pub(super) fn selectable(&mut self) -> Result<Expr> {
        self.sum(Columns::Allowed)
    }

    /// The number of a `LIMIT` or of a `USING`.
    pub(super) fn integer_or_bind(&mut self) -> Result<Expr> {
        if let Some(bind) = self.accept_bind()? {
            return Ok(Expr::Bind(bind));
        }
        match self.peek() {
            Kind::Integer => Ok(self.literal(LiteralKind::Integer)),
            _ => Err(self.no_viable()),
        }
    }

    /// Passes a constant.
    pub(super) fn literal(&mut self, kind: LiteralKind) -> Expr {
        let text = self.advance().content(self.text);
        Expr::Literal(Literal { kind, text })
    }

    /// Passes a number with a point or an exponent, or a word for what is none.
    fn float(&mut self) -> Result<Expr> {
        let text = self.token().text(self.text);
        if let Some(word) = float_word(text) {
            self.advance();
            return Ok(Expr::Literal(Literal { kind: LiteralKind::Float, text: word.to_owned() }));
        }
        Ok(self.literal(LiteralKind::Float))
    }

    fn sum(&mut self, columns: Columns) -> Result<Expr> {
        let beside = mem::take(&mut self.height);
        let mut left = self.product(columns)?;
        for operators in 0usize.. {
            let op = match self.peek() {
                Kind::Plus => BinaryOp::Add,
                Kind::Minus => BinaryOp::Subtract,
                // `a -1` reads as a name and a negative number.
                Kind::Integer | Kind::Float if columns == Columns::Allowed => BinaryOp::Add,
                _ => break,
            };
            let is_number = matches!(self.peek(), Kind::Integer | Kind::Float);
            if is_number && !self.token().text(self.text).starts_with('-') {
                break;
            }
            // `c = v + c`: the column is the assignment's business.
            if columns == Columns::Refused && self.is_name_at(1) && !self.is_call_at_next() {
                break;
            }
            self.limit_operators(operators)?;
            if !is_number {
                self.advance();
            }
            let right = self.product(columns)?;
            self.raise()?;
            left = Expr::Binary(op, Box::new(left), Box::new(right));
        }
        self.height = self.height.max(beside);
        Ok(left)
    }

    /// True if a call begins at the next token.
    fn is_call_at_next(&self) -> bool {
        if self.peek_at(2) == Kind::Dot {
            return self.peek_at(4) == Kind::LeftParen;
        }
        self.peek_at(2) == Kind::LeftParen
    }

    fn product(&mut self, columns: Columns) -> Result<Expr> {
        let beside = mem::take(&mut self.height);
        let mut left = self.signed(columns)?;
        for operators in 0usize.. {
            let op = match self.peek() {
                Kind::Star => BinaryOp::Multiply,
                Kind::Slash => BinaryOp::Divide,
                Kind::Percent => BinaryOp::Modulo,
                _ => break,
            };
            self.limit_operators(operators)?;
            self.advance();
            let right = self.signed(columns)?;
            self.raise()?;
            left = Expr::Binary(op, Box::new(left), Box::new(right));
        }
        self.height = self.height.max(beside);
        Ok(left)
    }

    fn limit_operators(&self, operators: usize) -> Result<()> {
        if operators < OPERATORS_MAX {
            return Ok(());
        }
        let problem = format!("more than {OPERATORS_MAX} operators in a row");
        Err(SyntaxError::pointed(self.text, self.token(), &problem, &[]))
    }

    fn signed(&mut self, columns: Columns) -> Result<Expr> {
        if self.accept(Kind::Minus) {
            let inner = self.nested(|p| p.signed(columns))?;
            return Ok(Expr::Negate(Box::new(inner)));
        }
        if columns == Columns::Refused {
            return self.simple(columns);
        }
        let beside = mem::take(&mut self.height);
        let value = self.simple(columns)?;
        let value = self.parts(value)?;
        self.height = self.height.max(beside);
        Ok(value)
    }

    /// The parts of parts that follow a value.
    fn parts(&mut self, mut value: Expr) -> Result<Expr> {
        let mut parts = 0;
        while let Some(access) = self.access()? {
            parts += 1;
            self.limit_operators(parts)?;
            self.raise()?;
            value = Expr::Part(Box::new(value), Box::new(access));
        }
        Ok(value)
    }

    /// `.field`, `[element]`, `[from..to]`, if one is there.
    fn access(&mut self) -> Result<Option<Access>> {
        if self.accept(Kind::Dot) {
            return Ok(Some(Access::Field(self.name()?)));
        }
        if !self.accept(Kind::LeftBracket) {
            return Ok(None);
        }
        let access = if self.accept(Kind::Range) {
            Access::Slice(None, Some(self.nested(Self::term)?))
        } else {
            let first = self.nested(Self::term)?;
            if self.accept(Kind::Range) {
                let open = self.peek() == Kind::RightBracket;
                let last = if open { None } else { Some(self.nested(Self::term)?) };
                Access::Slice(Some(first), last)
            } else {
                Access::Element(first)
            }
        };
        self.expect(Kind::RightBracket)?;
        Ok(Some(access))
    }

    /// An expression without operators.
    fn simple(&mut self, columns: Columns) -> Result<Expr> {
        if let Some(bind) = self.accept_bind()? {
            return Ok(Expr::Bind(bind));
        }
        match self.peek() {
            Kind::LeftParen => self.parenthesis(columns),
            Kind::LeftBracket => {
                self.advance();
                Ok(Expr::List(self.items(columns, Kind::RightBracket)?))
            }
            Kind::LeftBrace => {
                self.advance();
                self.nested(|p| p.braces(columns))
            }
            kind => match literal_kind(kind) {
                Some(LiteralKind::Float) => self.float(),
                Some(kind) => Ok(self.literal(kind)),
                None => self.word(columns),
            },
        }
    }

    /// `item, item, ..` up to the closing mark; may be empty.
    fn items(&mut self, columns: Columns, close: Kind) -> Result<Vec<Expr>> {
        if self.accept(close) {
            return Ok(Vec::new());
        }
        let items = self.nested(|p| p.list_of(|p| p.sum(columns)))?;
        match (columns, items.last()) {
            (Columns::Refused, _) | (_, Some(Expr::Column(_))) => self.close_terms(close)?,
            _ => drop(self.expect(close)?),
        }
        Ok(items)
    }

    /// The closing mark behind terms: where another token stands, it might have been an operator.
    pub(super) fn close_terms(&mut self, close: Kind) -> Result<()> {
        match self.peek() {
            kind if kind == close => drop(self.advance()),
            Kind::End => return Err(self.mismatched(close)),
            _ => return Err(self.no_viable()),
        }
        Ok(())
    }

    /// `(type) value` or `(a, b)`.
    fn parenthesis(&mut self, columns: Columns) -> Result<Expr> {
        if self.is_type_hint(columns) {
            self.advance();
            let type_name = self.type_name()?;
            self.expect(Kind::RightParen)?;
            let value = self.nested(|p| p.simple(columns))?;
            return Ok(Expr::TypeHint(type_name, Box::new(value)));
        }
        self.advance();
        let items = self.nested(|p| p.list_of(|p| p.sum(columns)))?;
        self.expect(Kind::RightParen)?;
        Ok(Expr::Tuple(items))
    }

    /// What follows `{`: a set, a map or the fields of a user-defined type.
    fn braces(&mut self, columns: Columns) -> Result<Expr> {
        if self.accept(Kind::RightBrace) {
            return Ok(Expr::Set(Vec::new()));
        }
        let expr = if self.is_name_at(0) && self.peek_at(1) == Kind::Colon {
            Expr::Udt(self.list_of(|p| {
                let field = p.name()?;
                p.expect(Kind::Colon)?;
                Ok((field, p.sum(columns)?))
            })?)
        } else {
            let first = self.sum(columns)?;
            if self.accept(Kind::Colon) {
                let mut entries = vec![(first, self.sum(columns)?)];
                while self.accept(Kind::Comma) {
                    let key = self.sum(columns)?;
                    self.expect(Kind::Colon)?;
                    entries.push((key, self.sum(columns)?));
                }
                Expr::Map(entries)
            } else {
                let mut items = vec![first];
                while self.accept(Kind::Comma) {
                    items.push(self.sum(columns)?);
                }
                Expr::Set(items)
            }
        };
        self.expect(Kind::RightBrace)?;
        Ok(expr)
    }

    /// What begins with a word: `null`, a call, a column.
    fn word(&mut self, columns: Columns) -> Result<Expr> {
        if self.accept_word(Keyword::Null) {
            return Ok(Expr::Null);
        }
        let called = self.peek_at(1) == Kind::LeftParen;
        if called && self.accept_word(Keyword::Cast) {
            return self.cast(columns);
        }
        if columns == Columns::Allowed && called {
            if self.peek() == Kind::Word(Keyword::Count) && self.peek_at(2) == Kind::Star {
                return self.count_rows();
            }
            for word in [Keyword::Writetime, Keyword::Maxwritetime, Keyword::Ttl] {
                if self.accept_word(word) {
                    return self.call_of_column(QualifiedName::local(word.text()));
                }
            }
        }
        if self.is_call() {
            let name = self.function_name()?;
            return self.call(name, columns);
        }
        if columns == Columns::Allowed && self.is_name_at(0) {
            return Ok(Expr::Column(self.name()?));
        }
        Err(self.no_viable())
    }

    /// `(a, b)` of a call.
    fn call(&mut self, name: QualifiedName, columns: Columns) -> Result<Expr> {
        self.expect(Kind::LeftParen)?;
        if self.peek() == Kind::Star {
            return Err(self.mismatched(Kind::RightParen));
        }
        let arguments = self.items(columns, Kind::RightParen)?;
        Ok(Expr::Call(name, arguments))
    }

    /// `(a)` or `(a.b)` of a function that is of one column, or of a part of it.
    fn call_of_column(&mut self, name: QualifiedName) -> Result<Expr> {
        self.expect(Kind::LeftParen)?;
        if !self.is_name_at(0) {
            return Err(self.no_viable());
        }
        let beside = mem::take(&mut self.height);
        let column = Expr::Column(self.name()?);
        let value = self.parts(column)?;
        self.raise()?;
        self.height = self.height.max(beside);
        self.expect(Kind::RightParen)?;
        Ok(Expr::Call(name, vec![value]))
    }

    /// Parses the rest of `count(*)` or `count(1)`.
    fn count_rows(&mut self) -> Result<Expr> {
        self.advance();
        self.advance();
        self.advance();
        self.expect(Kind::RightParen)?;
        Ok(Expr::CountRows)
    }

    /// `(a AS type)` of a `CAST`.
    fn cast(&mut self, columns: Columns) -> Result<Expr> {
        self.expect(Kind::LeftParen)?;
        let value = self.nested(|p| p.sum(columns))?;
        self.expect_word(Keyword::As)?;
        let type_name = self.native_type()?;
        self.expect(Kind::RightParen)?;
        Ok(Expr::Cast(Box::new(value), type_name))
    }
}

/// A float that is written as a word, in any case, as values of a float are read: there is one NaN, with or without
/// a minus.
fn float_word(text: &str) -> Option<&'static str> {
    let (is_negative, word) = text.strip_prefix('-').map_or((false, text), |word| (true, word));
    if word.eq_ignore_ascii_case("nan") {
        return Some("NaN");
    }
    let is_infinity = word.eq_ignore_ascii_case("infinity");
    is_infinity.then_some(if is_negative { "-Infinity" } else { "Infinity" })
}

/// The kind of literal a token is, if it is one.
pub(super) fn literal_kind(kind: Kind) -> Option<LiteralKind> {
    Some(match kind {
        Kind::String => LiteralKind::String,
        Kind::Integer => LiteralKind::Integer,
        Kind::Float => LiteralKind::Float,
        Kind::Boolean => LiteralKind::Boolean,
        Kind::Duration => LiteralKind::Duration,
        Kind::Uuid => LiteralKind::Uuid,
        Kind::Hex => LiteralKind::Hex,
        _ => return None,
    })
}

impl QualifiedName {
    /// A name without a keyspace.
    pub fn local(name: &str) -> QualifiedName {
        QualifiedName { keyspace: None, name: name.to_owned() }
    }
}

//! `INSERT`, `UPDATE`, `DELETE`, `BATCH` and their `USING` and `IF`.
//!
//! ```text
//! INSERT INTO t (c, ..) VALUES (v, ..) | JSON text [DEFAULT NULL | UNSET]   [IF NOT EXISTS] [USING ..]
//! UPDATE t [USING ..] SET c = v | c = c + v | c = v + c | c += v | c[k] = v | c.f = v, ..   WHERE .. [IF ..]
//! DELETE [c | c[k] | c.f, ..] FROM t [USING ..] WHERE .. [IF ..]
//! BEGIN [UNLOGGED | COUNTER | LOGGED] BATCH [USING ..] (statement [;])* APPLY BATCH
//! ```
//!
//! A part of a USING may be written twice: all of its values are kept, and `prepare/write.rs` says which counts.
//!
//! Not here: relations and the right sides of conditions (`relation.rs`), values (`expr.rs`), which columns there are
//! and what each takes (`prepare`).

use model::limits::CONDITIONS_MAX;

use super::super::ast::{
    Access, Assign, Assignment, Batch, BatchKind, Condition, Delete, Deletion, Expr, If, Insert,
    InsertValues, LiteralKind, Modification, Update, Using,
};
use super::{Keyword, Kind, Parser, Result, SyntaxError};
use crate::limits::BATCH_STATEMENTS_MAX;

/// The statement that a `USING` belongs to, which decides its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UsingParts {
    /// Timestamp, TTL, timeout.
    All,
    /// Timestamp, timeout: a deletion has no TTL.
    NoTtl,
    /// Timeout: a read has no timestamp.
    Timeout,
}

impl Parser<'_> {
    pub(super) fn modification(&mut self) -> Result<Modification> {
        Ok(match self.peek() {
            Kind::Word(Keyword::Insert) => Modification::Insert(self.insert()?),
            Kind::Word(Keyword::Update) => Modification::Update(self.update()?),
            _ => Modification::Delete(self.delete()?),
        })
    }

    fn insert(&mut self) -> Result<Insert> {
        self.advance();
        self.expect_word(Keyword::Into)?;
        let table = self.table_name()?;
        let values = if self.accept_word(Keyword::Json) {
            self.json_values()?
        } else if self.accept(Kind::LeftParen) {
            let columns = self.list_of(Self::name)?;
            self.expect(Kind::RightParen)?;
            self.expect_word(Keyword::Values)?;
            self.expect(Kind::LeftParen)?;
            let values = self.list_of(Self::term)?;
            self.close_terms(Kind::RightParen)?;
            InsertValues::Columns(columns, values)
        } else {
            return Err(self.no_viable());
        };
        let if_not_exists = self.if_not_exists()?;
        let using = self.using(UsingParts::All)?;
        Ok(Insert { table, values, if_not_exists, using })
    }

    fn json_values(&mut self) -> Result<InsertValues> {
        let json = match self.accept_bind()? {
            Some(bind) => Expr::Bind(bind),
            None if self.peek() == Kind::String => self.literal(LiteralKind::String),
            None => return Err(self.no_viable()),
        };
        let mut default_unset = false;
        if self.accept_word(Keyword::Default) {
            default_unset = self.accept_word(Keyword::Unset);
            if !default_unset {
                self.expect_word(Keyword::Null)?;
            }
        }
        Ok(InsertValues::Json { json, default_unset })
    }

    fn update(&mut self) -> Result<Update> {
        self.advance();
        let table = self.table_name()?;
        let using = self.using(UsingParts::All)?;
        self.expect_word(Keyword::Set)?;
        let assignments = self.list_of(Self::assignment)?;
        self.expect_word(Keyword::Where)?;
        let relations = self.relations()?;
        let condition = self.condition_clause()?;
        Ok(Update { table, using, assignments, relations, condition })
    }

    fn assignment(&mut self) -> Result<Assignment> {
        let column = self.name()?;
        let assign = match self.peek() {
            Kind::Equal => {
                self.advance();
                self.assigned(&column)?
            }
            Kind::PlusEqual => {
                self.advance();
                Assign::Add(self.term()?)
            }
            Kind::MinusEqual => {
                self.advance();
                Assign::Subtract(self.term()?)
            }
            Kind::LeftBracket => {
                self.advance();
                let key = self.nested(Self::term)?;
                self.expect(Kind::RightBracket)?;
                self.expect(Kind::Equal)?;
                Assign::SetElement(key, self.term()?)
            }
            Kind::Dot => {
                self.advance();
                let field = self.name()?;
                self.expect(Kind::Equal)?;
                Assign::SetField(field, self.term()?)
            }
            _ => return Err(self.no_viable()),
        };
        Ok(Assignment { column, assign })
    }

    /// Parses the assignment that follows `column =`.
    fn assigned(&mut self, column: &str) -> Result<Assign> {
        let same = |other: &str, form: &str| {
            if other == column {
                return Ok(());
            }
            let message = format!("Only expressions of the form X = {form} are supported.");
            Err(SyntaxError::plain(message))
        };
        if self.is_name_at(0) && !self.is_call() && self.peek() != Kind::Word(Keyword::Cast) {
            let other = self.name()?;
            let assign = match self.peek() {
                Kind::Plus => {
                    self.advance();
                    same(&other, "X +<value>")?;
                    Assign::Add(self.term()?)
                }
                Kind::Minus => {
                    self.advance();
                    same(&other, "X -<value>")?;
                    Assign::Subtract(self.term()?)
                }
                // `c = c -3`: the minus belongs to the number.
                Kind::Integer => {
                    let negative = self.token().text(self.text).starts_with('-');
                    same(&other, if negative { "X - <value>" } else { "X + <value>" })?;
                    Assign::Add(self.literal(LiteralKind::Integer))
                }
                _ => return Err(self.no_viable()),
            };
            return Ok(assign);
        }
        let value = self.term()?;
        if !self.accept(Kind::Plus) {
            return Ok(Assign::Set(value));
        }
        let other = self.name()?;
        same(&other, "<value> + X")?;
        Ok(Assign::Prepend(value))
    }

    fn delete(&mut self) -> Result<Delete> {
        self.advance();
        let mut deletions = Vec::new();
        if !self.at_word(Keyword::From) && self.peek() != Kind::Star {
            deletions = self.list_of(Self::deletion)?;
        }
        self.expect_word(Keyword::From)?;
        let table = self.table_name()?;
        let using = self.using(UsingParts::NoTtl)?;
        self.expect_word(Keyword::Where)?;
        let relations = self.relations()?;
        let condition = self.condition_clause()?;
        Ok(Delete { deletions, table, using, relations, condition })
    }

    fn deletion(&mut self) -> Result<Deletion> {
        let column = self.name()?;
        Ok(Deletion { column, part: self.element_or_field()? })
    }

    /// `[key]` or `.field`, if one is there.
    fn element_or_field(&mut self) -> Result<Option<Access>> {
        if self.accept(Kind::Dot) {
            return Ok(Some(Access::Field(self.name()?)));
        }
        if !self.accept(Kind::LeftBracket) {
            return Ok(None);
        }
        let key = self.nested(Self::term)?;
        self.expect(Kind::RightBracket)?;
        Ok(Some(Access::Element(key)))
    }

    /// `IF EXISTS`, `IF a = 1 AND ..`, or nothing.
    fn condition_clause(&mut self) -> Result<If> {
        if !self.accept_word(Keyword::If) {
            return Ok(If::Always);
        }
        // `exists` may also be a column.
        if self.peek() == Kind::Word(Keyword::Exists)
            && matches!(self.peek_at(1), Kind::End | Kind::Semicolon | Kind::Word(_))
            && self.peek_at(1) != Kind::Word(Keyword::In)
        {
            self.advance();
            return Ok(If::Exists);
        }
        let mut conditions = vec![self.condition()?];
        while self.accept_word(Keyword::And) {
            if conditions.len() == CONDITIONS_MAX {
                let problem = format!("more than {CONDITIONS_MAX} conditions in an IF");
                return Err(SyntaxError::pointed(self.text, self.token(), &problem, &[]));
            }
            conditions.push(self.condition()?);
        }
        Ok(If::Conditions(conditions))
    }

    fn condition(&mut self) -> Result<Condition> {
        let column = self.name()?;
        let part = self.element_or_field()?;
        // A WHERE has more operators.
        let may_follow = match self.peek() {
            Kind::Word(Keyword::Contains) => part.is_none(),
            Kind::Word(Keyword::Between | Keyword::Is | Keyword::Like | Keyword::Not) => false,
            _ => true,
        };
        if !may_follow {
            return Err(self.no_viable());
        }
        let (operator, operand) = self.column_operand()?;
        Ok(Condition { column, part, operator, operand })
    }

    /// `USING TIMEOUT 50ms` of a read.
    pub(super) fn using_timeout(&mut self) -> Result<Using> {
        self.using(UsingParts::Timeout)
    }

    fn using(&mut self, parts: UsingParts) -> Result<Using> {
        let mut using = Using::default();
        if !self.accept_word(Keyword::Using) {
            return Ok(using);
        }
        loop {
            if parts != UsingParts::Timeout && self.accept_word(Keyword::Timestamp) {
                using.timestamp.push(self.integer_or_bind()?);
            } else if parts == UsingParts::All && self.accept_word(Keyword::Ttl) {
                using.ttl.push(self.integer_or_bind()?);
            } else if self.accept_word(Keyword::Timeout) {
                using.timeout.push(self.timeout()?);
            } else {
                return Err(match parts {
                    UsingParts::All => self.no_viable(),
                    UsingParts::NoTtl => self.mismatched(Kind::Word(Keyword::Timestamp)),
                    UsingParts::Timeout => self.mismatched(Kind::Word(Keyword::Timeout)),
                });
            }
            if !self.accept_word(Keyword::And) {
                return Ok(using);
            }
        }
    }

    /// A duration or a marker.
    fn timeout(&mut self) -> Result<Expr> {
        match self.accept_bind()? {
            Some(bind) => Ok(Expr::Bind(bind)),
            None if self.peek() == Kind::Duration => Ok(self.literal(LiteralKind::Duration)),
            None => Err(self.no_viable()),
        }
    }

    pub(super) fn batch(&mut self) -> Result<Batch> {
        self.advance();
        let kind = if self.accept_word(Keyword::Unlogged) {
            BatchKind::Unlogged
        } else if self.accept_word(Keyword::Counter) {
            BatchKind::Counter
        } else {
            self.accept_word(Keyword::Logged);
            BatchKind::Logged
        };
        self.expect_word(Keyword::Batch)?;
        let using = self.using(UsingParts::All)?;
        let mut statements = Vec::new();
        while matches!(self.peek(), Kind::Word(Keyword::Insert | Keyword::Update | Keyword::Delete))
        {
            if statements.len() == BATCH_STATEMENTS_MAX {
                let message = format!("a batch has at most {BATCH_STATEMENTS_MAX} statements");
                return Err(SyntaxError::plain(message));
            }
            statements.push(self.modification()?);
            self.accept(Kind::Semicolon);
        }
        self.tried.extend([Keyword::Insert, Keyword::Update, Keyword::Delete]);
        self.expect_word(Keyword::Apply)?;
        self.expect_word(Keyword::Batch)?;
        Ok(Batch { kind, using, statements })
    }
}

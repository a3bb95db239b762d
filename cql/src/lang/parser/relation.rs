//! The relations of a `WHERE`: `a = 1 AND (b, c) > (2, 3) AND token(k) < ?`.
//!
//! ```text
//! c, c[k]        comparison | [NOT] IN | [NOT] CONTAINS [KEY] | LIKE | BETWEEN | IS [NOT] NULL
//! (b, c)         comparison | [NOT] IN | BETWEEN      with tuples of values, or markers
//! token(k, l)    comparison | BETWEEN
//! (relation)     the relation
//! ```
//!
//! `(c) = ..` is a tuple of one column, `(c = ..)` a relation in parentheses: what follows the first name tells.
//!
//! Not here: which relations a column takes. All that the grammar has is parsed, so that `restrict/gather.rs` can
//! refuse the others in Cassandra's words.

use super::super::ast::{Expr, Operand, Operator, Relation, Target};
use super::{Keyword, Kind, Parser, Result, SyntaxError};
use crate::limits::RELATIONS_MAX;

impl Parser<'_> {
    /// Relations joined by `AND`, after the `WHERE`.
    pub(super) fn relations(&mut self) -> Result<Vec<Relation>> {
        let mut relations = Vec::new();
        loop {
            if relations.len() == RELATIONS_MAX {
                let problem = format!("more than {RELATIONS_MAX} relations in a WHERE");
                return Err(SyntaxError::pointed(self.text, self.token(), &problem, &[]));
            }
            relations.push(self.relation()?);
            if !self.accept_word(Keyword::And) {
                return Ok(relations);
            }
        }
    }

    fn relation(&mut self) -> Result<Relation> {
        if self.peek() == Kind::LeftParen {
            let tuple =
                self.is_name_at(1) && matches!(self.peek_at(2), Kind::Comma | Kind::RightParen);
            if tuple {
                let target = Target::Columns(self.column_list()?);
                return self.tuple_relation(target);
            }
            self.advance();
            let relation = self.nested(Self::relation)?;
            self.expect(Kind::RightParen)?;
            return Ok(relation);
        }
        if self.accept_word(Keyword::Token) {
            let target = Target::Token(self.column_list()?);
            return self.token_relation(target);
        }
        let column = self.name()?;
        if !self.accept(Kind::LeftBracket) {
            return self.column_relation(Target::Column(column));
        }
        let key = self.nested(Self::term)?;
        self.expect(Kind::RightBracket)?;
        self.column_relation(Target::Element(column, key))
    }

    /// Parses column names in parentheses: `(a, b)`.
    fn column_list(&mut self) -> Result<Vec<String>> {
        self.expect(Kind::LeftParen)?;
        let columns = self.list_of(Self::name)?;
        self.expect(Kind::RightParen)?;
        Ok(columns)
    }

    /// `=`, `<`, .., if one is there.
    pub(super) fn accept_comparison(&mut self) -> Option<Operator> {
        let operator = match self.peek() {
            Kind::Equal => Operator::Equal,
            Kind::NotEqual => Operator::NotEqual,
            Kind::Less => Operator::Less,
            Kind::LessEqual => Operator::LessEqual,
            Kind::Greater => Operator::Greater,
            Kind::GreaterEqual => Operator::GreaterEqual,
            _ => return None,
        };
        self.advance();
        Some(operator)
    }

    /// What follows one column or one element of it.
    fn column_relation(&mut self, target: Target) -> Result<Relation> {
        let (operator, operand) = self.column_operand()?;
        Ok(Relation { target, operator, operand })
    }

    /// The operator and the right side of a relation or a condition on one column.
    pub(super) fn column_operand(&mut self) -> Result<(Operator, Operand)> {
        if let Some(operator) = self.accept_comparison() {
            return Ok((operator, Operand::One(self.term()?)));
        }
        if self.accept_word(Keyword::In) {
            return Ok((Operator::In, self.in_operand()?));
        }
        if self.accept_word(Keyword::Contains) {
            let key = self.accept_word(Keyword::Key);
            let operator = if key { Operator::ContainsKey } else { Operator::Contains };
            return Ok((operator, Operand::One(self.term()?)));
        }
        if self.accept_word(Keyword::Like) {
            return Ok((Operator::Like, Operand::One(self.term()?)));
        }
        if self.accept_word(Keyword::Between) {
            let first = self.term()?;
            self.expect_word(Keyword::And)?;
            return Ok((Operator::Between, Operand::Between(first, self.term()?)));
        }
        if self.accept_word(Keyword::Is) {
            let not = self.accept_word(Keyword::Not);
            self.expect_word(Keyword::Null)?;
            let operator = if not { Operator::IsNotNull } else { Operator::IsNull };
            return Ok((operator, Operand::One(Expr::Null)));
        }
        if self.accept_word(Keyword::Not) {
            if self.accept_word(Keyword::In) {
                return Ok((Operator::NotIn, self.in_operand()?));
            }
            self.expect_word(Keyword::Contains)?;
            let key = self.accept_word(Keyword::Key);
            let operator = if key { Operator::NotContainsKey } else { Operator::NotContains };
            return Ok((operator, Operand::One(self.term()?)));
        }
        Err(self.no_viable())
    }

    /// `(a, b, ..)`, `()`, `?` of an `IN`.
    fn in_operand(&mut self) -> Result<Operand> {
        if let Some(bind) = self.accept_bind()? {
            return Ok(Operand::ManyBind(bind));
        }
        if !self.accept(Kind::LeftParen) {
            return Err(self.no_viable());
        }
        if self.accept(Kind::RightParen) {
            return Ok(Operand::Many(Vec::new()));
        }
        let values = self.nested(|p| p.list_of(Self::term))?;
        self.expect(Kind::RightParen)?;
        Ok(Operand::Many(values))
    }

    /// Parses the relation that follows `(a, b)`.
    fn tuple_relation(&mut self, target: Target) -> Result<Relation> {
        if let Some(operator) = self.accept_comparison() {
            let operand = Operand::One(self.tuple_value()?);
            return Ok(Relation { target, operator, operand });
        }
        if self.accept_word(Keyword::Between) {
            let first = self.tuple_value()?;
            self.expect_word(Keyword::And)?;
            let operand = Operand::Between(first, self.tuple_value()?);
            return Ok(Relation { target, operator: Operator::Between, operand });
        }
        let not = self.accept_word(Keyword::Not);
        if !self.accept_word(Keyword::In) {
            return Err(self.no_viable());
        }
        let operator = if not { Operator::NotIn } else { Operator::In };
        if let Some(bind) = self.accept_bind()? {
            return Ok(Relation { target, operator, operand: Operand::ManyBind(bind) });
        }
        if !self.accept(Kind::LeftParen) {
            return Err(self.no_viable());
        }
        let mut values = Vec::new();
        if self.peek() != Kind::RightParen {
            values = self.nested(|p| p.list_of(Self::tuple_value))?;
        }
        self.expect(Kind::RightParen)?;
        Ok(Relation { target, operator, operand: Operand::Many(values) })
    }

    /// `(1, 2)` or a marker.
    fn tuple_value(&mut self) -> Result<Expr> {
        if let Some(bind) = self.accept_bind()? {
            return Ok(Expr::Bind(bind));
        }
        if !self.accept(Kind::LeftParen) {
            return Err(self.no_viable());
        }
        let values = self.nested(|p| p.list_of(Self::term))?;
        self.expect(Kind::RightParen)?;
        Ok(Expr::Tuple(values))
    }

    /// Parses the relation that follows `token(a, b)`.
    fn token_relation(&mut self, target: Target) -> Result<Relation> {
        if self.accept_word(Keyword::Between) {
            let first = self.term()?;
            self.expect_word(Keyword::And)?;
            let operand = Operand::Between(first, self.term()?);
            return Ok(Relation { target, operator: Operator::Between, operand });
        }
        let Some(operator) = self.accept_comparison() else {
            return Err(self.no_viable());
        };
        Ok(Relation { target, operator, operand: Operand::One(self.term()?) })
    }
}

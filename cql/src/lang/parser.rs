//! The parser: recursive descent over the tokens, one file for each family of statements.
//!
//! A rule either takes what it expects or fails at the token where it cannot go on; nothing is
//! tried twice, save a look ahead over a name or a type. Every keyword that was asked for and not
//! found at a token is remembered until the next one, for the hint of an error.
//!
//! 1. `parse` refuses texts that are too long, makes tokens of the whole text, and reads one statement. Semicolons may
//!    follow, and then the end.
//! 2. The first word chooses the rule of the statement. A rule looks at tokens (`peek`, `at_word`), passes them
//!    (`advance`, `accept`, `expect`), and gives a part of the tree.
//! 3. What goes deeper into expressions or types calls `nested`, which counts the levels.
//! 4. A statement that CQL has and this server has not becomes `Statement::Unsupported`; its rest is passed over.
//!
//! Invariants: the token `End` is never passed, so there is always one to look at; depth and height of the tree are
//! bounded.
//!
//! Source: `Parser.g` of Cassandra 5.0, with the additions of ScyllaDB. The words of errors are those of its generated
//! parser: "no viable alternative" where several rules might go on, "mismatched input" where one token is expected.
//!
//! Not here: tokens (`lexer.rs`), errors with their hints (`syntax_error.rs`), what names and types mean (`prepare`,
//! `ddl`).

mod alter;
mod create;
mod describe;
mod expr;
mod function;
mod index;
mod modify;
mod names;
mod properties;
mod relation;
mod select;
mod types;

use super::ast::{FunctionKind, Parsed, QualifiedName, SchemaStatement, Statement, Using};
use super::fingerprint;
use super::keyword::Keyword;
use super::lexer;
use super::syntax_error::SyntaxError;
use super::token::{Kind, Token};
use crate::limits::{BIND_MARKERS_MAX, EXPRESSION_DEPTH_MAX, NESTING_MAX, STATEMENT_BYTES_MAX};

type Result<T> = std::result::Result<T, SyntaxError>;

/// The tree of one statement.
pub fn parse(text: &str) -> Result<Parsed> {
    if text.len() > STATEMENT_BYTES_MAX {
        return Err(SyntaxError::plain(format!(
            "the statement has {} bytes, at most {STATEMENT_BYTES_MAX} are allowed",
            text.len()
        )));
    }
    let tokens = lexer::tokens(text)?;
    let mut parser = Parser {
        text,
        tokens,
        at: 0,
        depth: 0,
        height: 0,
        binds: Vec::new(),
        tried: Vec::new(),
        term_end: 0,
    };
    let statement = parser.statement()?;
    while parser.accept(Kind::Semicolon) {}
    if parser.peek() != Kind::End && parser.at == parser.term_end {
        // An operator might have gone on with the term.
        return Err(parser.no_viable());
    }
    parser.expect(Kind::End)?;
    let fingerprint = fingerprint::of(text, &parser.tokens);
    Ok(Parsed { statement, binds: parser.binds, tokens: parser.tokens.len(), fingerprint })
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: u8,
    /// The height of the highest tree among the expressions read so far at this level.
    height: usize,
    binds: Vec<Option<String>>,
    /// The keywords asked for at the token `at`.
    tried: Vec<Keyword>,
    /// The token behind the last term.
    term_end: usize,
}

impl Parser<'_> {
    fn statement(&mut self) -> Result<Statement> {
        let Kind::Word(keyword) = self.peek() else {
            self.tried.extend(STATEMENT_WORDS);
            return Err(self.no_viable());
        };
        let statement = match keyword {
            Keyword::Select => Statement::Select(Box::new(self.select()?)),
            Keyword::Insert | Keyword::Update | Keyword::Delete => {
                Statement::Modification(Box::new(self.modification()?))
            }
            Keyword::Begin => Statement::Batch(self.batch()?),
            Keyword::Use => {
                self.advance();
                Statement::Use(self.keyspace_name()?)
            }
            Keyword::Truncate => self.truncate()?,
            Keyword::Create => self.create()?,
            Keyword::Alter => self.alter()?,
            Keyword::Drop => self.drop()?,
            Keyword::Describe | Keyword::Desc => Statement::Describe(self.describe()?),
            Keyword::Explain => {
                self.advance();
                if !self.at_word(Keyword::Select) {
                    return Err(self.no_viable());
                }
                Statement::Explain(Box::new(self.select()?))
            }
            Keyword::Grant => self.unsupported("GRANT"),
            Keyword::Revoke => self.unsupported("REVOKE"),
            Keyword::List => self.unsupported("LIST"),
            Keyword::Add => self.unsupported("ADD IDENTITY"),
            _ => {
                self.tried.extend(STATEMENT_WORDS);
                return Err(self.no_viable());
            }
        };
        Ok(statement)
    }

    fn truncate(&mut self) -> Result<Statement> {
        self.advance();
        self.accept_table_word();
        let table = self.table_name()?;
        let using =
            if self.at_word(Keyword::Using) { self.using_timeout()? } else { Using::default() };
        Ok(Statement::Truncate { table, using })
    }

    /// A statement that is known and not served: its rest is not looked at.
    fn unsupported(&mut self, what: &'static str) -> Statement {
        self.at = self.tokens.len() - 1;
        Statement::Unsupported(what)
    }

    /// Parses the statements that begin with `DROP`.
    fn drop(&mut self) -> Result<Statement> {
        self.advance();
        if self.accept_keyspace_word() {
            let if_exists = self.if_exists()?;
            return Ok(Statement::Schema(SchemaStatement::DropKeyspace {
                name: self.keyspace_name()?,
                if_exists,
            }));
        }
        if self.accept_table_word() {
            let if_exists = self.if_exists()?;
            return Ok(Statement::Schema(SchemaStatement::DropTable {
                name: self.table_name()?,
                if_exists,
            }));
        }
        if self.accept_word(Keyword::Type) {
            let if_exists = self.if_exists()?;
            return Ok(Statement::Schema(SchemaStatement::DropType {
                name: self.type_reference()?,
                if_exists,
            }));
        }
        if self.accept_word(Keyword::Function) {
            return self.drop_function(FunctionKind::Scalar);
        }
        if self.accept_word(Keyword::Aggregate) {
            return self.drop_function(FunctionKind::Aggregate);
        }
        if self.accept_word(Keyword::Index) {
            return self.drop_index();
        }
        if self.accept_word(Keyword::Materialized) {
            self.expect_word(Keyword::View)?;
            let if_exists = self.if_exists()?;
            let name = self.qualified_name()?;
            return Ok(Statement::Schema(SchemaStatement::DropView { name, if_exists }));
        }
        for (word, what) in [
            (Keyword::Trigger, "DROP TRIGGER"),
            (Keyword::Role, "DROP ROLE"),
            (Keyword::User, "DROP USER"),
            (Keyword::Identity, "DROP IDENTITY"),
        ] {
            if self.accept_word(word) {
                return Ok(self.unsupported(what));
            }
        }
        Err(self.no_viable())
    }
}

/// The words a statement may begin with.
const STATEMENT_WORDS: [Keyword; 15] = [
    Keyword::Select,
    Keyword::Insert,
    Keyword::Update,
    Keyword::Delete,
    Keyword::Begin,
    Keyword::Use,
    Keyword::Truncate,
    Keyword::Create,
    Keyword::Alter,
    Keyword::Drop,
    Keyword::Describe,
    Keyword::Explain,
    Keyword::Grant,
    Keyword::Revoke,
    Keyword::List,
];

/// The cursor: looking at tokens and passing them.
impl Parser<'_> {
    fn peek(&self) -> Kind {
        self.peek_at(0)
    }

    /// The kind of the token so many ahead; the end goes on for ever.
    fn peek_at(&self, ahead: usize) -> Kind {
        self.tokens.get(self.at + ahead).map_or(Kind::End, |token| token.kind)
    }

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    /// Passes a token and returns it. The end stays.
    fn advance(&mut self) -> Token {
        let token = self.token();
        if token.kind != Kind::End {
            self.at += 1;
        }
        self.tried.clear();
        token
    }

    fn at_word(&mut self, word: Keyword) -> bool {
        let found = self.peek() == Kind::Word(word);
        if !found {
            self.tried.push(word);
        }
        found
    }

    fn accept(&mut self, kind: Kind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.advance();
        }
        found
    }

    fn accept_word(&mut self, word: Keyword) -> bool {
        let found = self.at_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, kind: Kind) -> Result<Token> {
        if self.peek() == kind { Ok(self.advance()) } else { Err(self.mismatched(kind)) }
    }

    fn expect_word(&mut self, word: Keyword) -> Result<()> {
        if self.accept_word(word) { Ok(()) } else { Err(self.mismatched(Kind::Word(word))) }
    }

    #[cold]
    fn mismatched(&self, expected: Kind) -> SyntaxError {
        SyntaxError::mismatched(self.text, self.token(), expected, &self.tried)
    }

    #[cold]
    fn no_viable(&self) -> SyntaxError {
        SyntaxError::no_viable(self.text, self.token(), &self.tried)
    }

    /// `item, item, ..`, at least one.
    fn list_of<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(Kind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Runs `rule` one level deeper; the levels are limited.
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.nested_up_to(NESTING_MAX, rule)
    }

    /// Runs `rule` one level deeper, unless that were more than `levels`.
    fn nested_up_to<T>(
        &mut self,
        levels: u8,
        rule: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.depth >= levels {
            let problem = format!("an expression or type is nested more than {levels} levels deep");
            return Err(SyntaxError::pointed(self.text, self.token(), &problem, &[]));
        }
        self.depth += 1;
        let beside = std::mem::take(&mut self.height);
        let result = rule(self)?;
        self.depth -= 1;
        self.raise()?;
        self.height = self.height.max(beside);
        Ok(result)
    }

    /// Counts one more level of the tree above what was read; the levels are limited.
    fn raise(&mut self) -> Result<()> {
        if self.height >= EXPRESSION_DEPTH_MAX {
            let problem = format!(
                "an expression has more than {EXPRESSION_DEPTH_MAX} operators inside each other"
            );
            return Err(SyntaxError::pointed(self.text, self.token(), &problem, &[]));
        }
        self.height += 1;
        Ok(())
    }

    /// A new bind marker.
    fn new_bind(&mut self, name: Option<String>) -> Result<u16> {
        if self.binds.len() >= BIND_MARKERS_MAX {
            return Err(SyntaxError::plain(format!(
                "Too many markers(?). More than the allowed maximum of {BIND_MARKERS_MAX}"
            )));
        }
        self.binds.push(name);
        Ok((self.binds.len() - 1) as u16)
    }

    /// `?` or `:name`, if one is there.
    fn accept_bind(&mut self) -> Result<Option<u16>> {
        match self.peek() {
            Kind::Question => {
                self.advance();
                self.new_bind(None).map(Some)
            }
            Kind::Colon => {
                self.advance();
                let name = self.name()?;
                self.new_bind(Some(name)).map(Some)
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;

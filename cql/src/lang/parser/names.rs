//! Names, with and without quotes and keyspaces, and the small phrases around them.
//!
//! 1. A name without quotes becomes lower case; a name in quotes stays as it is, but must not be empty.
//! 2. Every word that is not reserved may be a name. Names of user types and functions may be fewer of the other words
//!    ([`Class`]), as in Cassandra's grammar.
//! 3. A `?` in the place of a keyspace or a table has an error of its own, as in Cassandra.
//!
//! Not here: which words are reserved (`keyword.rs`), whether there is anything of that name (`prepare`, `ddl`).

use super::super::keyword::Class;
use super::{Keyword, Kind, Parser, QualifiedName, Result, SyntaxError};

/// Words that look like types of other databases and may not be types here.
const RESERVED_TYPE_NAMES: [&str; 7] =
    ["byte", "complex", "enum", "date", "interval", "macaddr", "bitstring"];

impl Parser<'_> {
    /// True if the token so many ahead can be a name.
    pub(super) fn is_name_at(&self, ahead: usize) -> bool {
        match self.peek_at(ahead) {
            Kind::Ident => true,
            Kind::QuotedName => true,
            Kind::Word(word) => word.class() != Class::Reserved,
            _ => false,
        }
    }

    /// Any name: of a column, a field, an option, a marker.
    pub(super) fn name(&mut self) -> Result<String> {
        if !self.is_name_at(0) {
            return Err(self.no_viable());
        }
        self.take_name()
    }

    /// The content of a token that is a name.
    pub(super) fn take_name(&mut self) -> Result<String> {
        let token = self.token();
        let content = token.content(self.text);
        if content.is_empty() {
            return Err(self.no_viable());
        }
        self.advance();
        let quoted = token.kind == Kind::QuotedName;
        Ok(if quoted { content } else { content.to_ascii_lowercase() })
    }

    pub(super) fn keyspace_name(&mut self) -> Result<String> {
        self.no_bind_for("keyspace")?;
        self.name()
    }

    /// `ks.t` or `t`.
    pub(super) fn table_name(&mut self) -> Result<QualifiedName> {
        let qualified = self.peek_at(1) == Kind::Dot;
        self.no_bind_for(if qualified { "keyspace" } else { "table" })?;
        let first = self.name()?;
        if !self.accept(Kind::Dot) {
            return Ok(QualifiedName { keyspace: None, name: first });
        }
        self.no_bind_for("table")?;
        Ok(QualifiedName { keyspace: Some(first), name: self.name()? })
    }

    /// `ks.x` or `x`, of anything but a table.
    pub(super) fn qualified_name(&mut self) -> Result<QualifiedName> {
        let first = self.name()?;
        if !self.accept(Kind::Dot) {
            return Ok(QualifiedName { keyspace: None, name: first });
        }
        Ok(QualifiedName { keyspace: Some(first), name: self.name()? })
    }

    /// The name of a user-defined type.
    pub(super) fn type_reference(&mut self) -> Result<QualifiedName> {
        let mut keyspace = None;
        if self.is_name_at(0) && self.peek_at(1) == Kind::Dot {
            keyspace = Some(self.name()?);
            self.advance();
        }
        let allowed = match self.peek() {
            Kind::Ident | Kind::QuotedName => true,
            Kind::Word(word) => word == Keyword::Key || word.class() == Class::Plain,
            _ => false,
        };
        if !allowed {
            return Err(self.no_viable());
        }
        let unquoted = self.peek() != Kind::QuotedName;
        let name = self.take_name()?;
        if unquoted && RESERVED_TYPE_NAMES.contains(&&name[..]) {
            let message = format!("Invalid (reserved) user type name {name}");
            return Err(SyntaxError::plain(message));
        }
        Ok(QualifiedName { keyspace, name })
    }

    /// True if a call of a function begins here: `f(`, `ks.f(`.
    pub(super) fn is_call(&self) -> bool {
        let callable = |ahead| match self.peek_at(ahead) {
            Kind::Ident | Kind::QuotedName => true,
            Kind::Word(Keyword::Token | Keyword::Count) => true,
            Kind::Word(word) => matches!(word.class(), Class::Plain | Class::Native),
            _ => false,
        };
        if self.peek_at(1) == Kind::Dot {
            return self.is_name_at(0) && callable(2) && self.peek_at(3) == Kind::LeftParen;
        }
        callable(0) && self.peek_at(1) == Kind::LeftParen
    }

    /// The name of a function, where `is_call` says there is one.
    pub(super) fn function_name(&mut self) -> Result<QualifiedName> {
        let mut keyspace = None;
        if self.peek_at(1) == Kind::Dot {
            keyspace = Some(self.name()?);
            self.advance();
        }
        Ok(QualifiedName { keyspace, name: self.take_name()? })
    }

    fn no_bind_for(&self, what: &str) -> Result<()> {
        if self.peek() == Kind::Question {
            let message = format!("Bind variables cannot be used for {what} names");
            return Err(SyntaxError::plain(message));
        }
        Ok(())
    }

    pub(super) fn accept_table_word(&mut self) -> bool {
        self.accept_word(Keyword::Table) || self.accept_word(Keyword::Columnfamily)
    }

    pub(super) fn accept_keyspace_word(&mut self) -> bool {
        self.accept_word(Keyword::Keyspace) || self.accept_word(Keyword::Schema)
    }

    /// `IF EXISTS`, if it is there.
    pub(super) fn if_exists(&mut self) -> Result<bool> {
        let found = self.accept_word(Keyword::If);
        if found {
            self.expect_word(Keyword::Exists)?;
        }
        Ok(found)
    }

    /// `IF NOT EXISTS`, if it is there.
    pub(super) fn if_not_exists(&mut self) -> Result<bool> {
        let found = self.accept_word(Keyword::If);
        if found {
            self.expect_word(Keyword::Not)?;
            self.expect_word(Keyword::Exists)?;
        }
        Ok(found)
    }
}

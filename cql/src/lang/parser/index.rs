//! `CREATE INDEX ..` and `DROP INDEX ..`.

use super::super::ast::{CreateIndex, IndexFunction, Properties, SchemaStatement, Statement};
use super::{Keyword, Kind, Parser, Result};

/// The functions that may stand around a column.
const FUNCTIONS: [(Keyword, IndexFunction); 4] = [
    (Keyword::Keys, IndexFunction::Keys),
    (Keyword::Values, IndexFunction::Values),
    (Keyword::Entries, IndexFunction::Entries),
    (Keyword::Full, IndexFunction::Full),
];

impl Parser<'_> {
    /// What follows `CREATE [CUSTOM] INDEX`.
    pub(super) fn create_index(&mut self, is_custom: bool) -> Result<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let is_named = self.peek() != Kind::Word(Keyword::On)
            && self.is_name_at(0)
            && !self.token().content(self.text).is_empty();
        let name = if is_named { Some(self.take_name()?) } else { None };
        self.expect_word(Keyword::On)?;
        let table = self.table_name()?;
        self.expect(Kind::LeftParen)?;
        let mut targets = Vec::new();
        if self.peek() != Kind::RightParen {
            targets = self.list_of(Self::index_target)?;
        }
        self.expect(Kind::RightParen)?;
        let class = match self.accept_word(Keyword::Using) {
            true => Some(self.expect(Kind::String)?.content(self.text)),
            false => None,
        };
        let mut properties = Properties::new();
        if self.accept_word(Keyword::With) {
            properties = self.properties()?;
        }
        let create =
            CreateIndex { name, if_not_exists, table, targets, is_custom, class, properties };
        Ok(Statement::Schema(SchemaStatement::CreateIndex(create)))
    }

    /// `c` or `keys(c)`.
    fn index_target(&mut self) -> Result<(Option<IndexFunction>, String)> {
        for (word, function) in FUNCTIONS {
            if self.peek() == Kind::Word(word) && self.peek_at(1) == Kind::LeftParen {
                self.advance();
                self.advance();
                let column = self.name()?;
                self.expect(Kind::RightParen)?;
                return Ok((Some(function), column));
            }
        }
        Ok((None, self.name()?))
    }

    /// What follows `DROP INDEX`.
    pub(super) fn drop_index(&mut self) -> Result<Statement> {
        let if_exists = self.if_exists()?;
        let name = self.qualified_name()?;
        Ok(Statement::Schema(SchemaStatement::DropIndex { name, if_exists }))
    }
}

//! `ALTER ..`: keyspaces, tables, types and materialized views.
//!
//! ```text
//! ALTER KEYSPACE [IF EXISTS] k WITH ..
//! ALTER TABLE [IF EXISTS] t   ADD [IF NOT EXISTS] c type | (c type, ..)
//!                             DROP [IF EXISTS] c | (c, ..) [USING TIMESTAMP n]
//!                             DROP COMPACT STORAGE
//!                             RENAME [IF EXISTS] a TO b [AND ..]
//!                             ALTER c TYPE type | ALTER [IF EXISTS] c MASKED WITH .. | .. DROP MASKED
//!                             WITH ..
//! ALTER TYPE [IF EXISTS] t    ADD [IF NOT EXISTS] f type | RENAME [IF EXISTS] a TO b [AND ..] | ALTER f TYPE type
//! ALTER MATERIALIZED VIEW [IF EXISTS] v WITH ..
//! ```
//!
//! Changes that are no longer served, such as the type of a column, are parsed, so that `ddl` can refuse them in
//! Cassandra's words. Not here: definitions of columns and fields (`create.rs`), what stands in a `WITH`
//! (`properties.rs`), which changes may be made (`ddl/table.rs`, `ddl/types.rs`, `ddl/view.rs`).

use super::super::ast::{
    AlterTable, AlterType, SchemaStatement, Statement, TableChange, TypeChange,
};
use super::{Keyword, Kind, Parser, Result, SyntaxError};

impl Parser<'_> {
    pub(super) fn alter(&mut self) -> Result<Statement> {
        self.advance();
        if self.accept_keyspace_word() {
            let if_exists = self.if_exists()?;
            let name = self.keyspace_name()?;
            self.expect_word(Keyword::With)?;
            let properties = self.properties()?;
            return Ok(Statement::Schema(SchemaStatement::AlterKeyspace {
                name,
                if_exists,
                properties,
            }));
        }
        if self.accept_table_word() {
            let if_exists = self.if_exists()?;
            let name = self.table_name()?;
            let change = self.table_change()?;
            return Ok(Statement::Schema(SchemaStatement::AlterTable(AlterTable {
                name,
                if_exists,
                change,
            })));
        }
        if self.accept_word(Keyword::Type) {
            let if_exists = self.if_exists()?;
            let name = self.type_reference()?;
            let change = self.type_change()?;
            return Ok(Statement::Schema(SchemaStatement::AlterType(AlterType {
                name,
                if_exists,
                change,
            })));
        }
        if self.accept_word(Keyword::Materialized) {
            self.expect_word(Keyword::View)?;
            let if_exists = self.if_exists()?;
            let name = self.table_name()?;
            self.expect_word(Keyword::With)?;
            let properties = self.properties()?;
            let alter = SchemaStatement::AlterView { name, if_exists, properties };
            return Ok(Statement::Schema(alter));
        }
        for (word, what) in [(Keyword::Role, "ALTER ROLE"), (Keyword::User, "ALTER USER")] {
            if self.accept_word(word) {
                return Ok(self.unsupported(what));
            }
        }
        Err(self.no_viable())
    }

    fn table_change(&mut self) -> Result<TableChange> {
        if self.accept_word(Keyword::Add) {
            let if_not_exists = self.if_not_exists()?;
            let columns = self.one_or_list(Self::column_definition)?;
            return Ok(TableChange::Add { if_not_exists, columns });
        }
        if self.accept_word(Keyword::Drop) {
            return self.table_drop();
        }
        if self.accept_word(Keyword::Rename) {
            let if_exists = self.if_exists()?;
            return Ok(TableChange::Rename { if_exists, names: self.renames()? });
        }
        if self.accept_word(Keyword::With) {
            return Ok(TableChange::With(self.properties()?));
        }
        if !self.accept_word(Keyword::Alter) {
            return Err(self.no_viable());
        }
        let if_exists = self.if_exists()?;
        let column = self.name()?;
        if !if_exists && self.accept_word(Keyword::Type) {
            return Ok(TableChange::ColumnType(column, self.type_name()?));
        }
        if self.accept_word(Keyword::Drop) {
            self.expect_word(Keyword::Masked)?;
            return Ok(TableChange::Mask(column));
        }
        if self.accept_word(Keyword::Masked) {
            self.mask()?;
            return Ok(TableChange::Mask(column));
        }
        Err(self.no_viable())
    }

    fn table_drop(&mut self) -> Result<TableChange> {
        let compact = self.peek() == Kind::Word(Keyword::Compact);
        if compact && self.peek_at(1) == Kind::Word(Keyword::Storage) {
            self.advance();
            self.advance();
            return Ok(TableChange::DropCompactStorage);
        }
        let if_exists = self.if_exists()?;
        let columns = self.one_or_list(Self::name)?;
        let mut timestamp = None;
        if self.accept_word(Keyword::Using) {
            self.expect_word(Keyword::Timestamp)?;
            let number = self.expect(Kind::Integer)?.content(self.text);
            let parsed = number.parse().map_err(|_| {
                SyntaxError::number(self.text, &format!("For input string: \"{number}\""))
            })?;
            timestamp = Some(parsed);
        }
        Ok(TableChange::Drop { if_exists, columns, timestamp })
    }

    /// One item, or several in parentheses.
    fn one_or_list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if !self.accept(Kind::LeftParen) {
            return Ok(vec![item(self)?]);
        }
        let items = self.list_of(item)?;
        self.expect(Kind::RightParen)?;
        Ok(items)
    }

    /// `a TO b AND c TO d`.
    fn renames(&mut self) -> Result<Vec<(String, String)>> {
        let mut names = Vec::new();
        loop {
            let from = self.name()?;
            self.expect_word(Keyword::To)?;
            names.push((from, self.name()?));
            if !self.accept_word(Keyword::And) {
                return Ok(names);
            }
        }
    }

    fn type_change(&mut self) -> Result<TypeChange> {
        if self.accept_word(Keyword::Add) {
            let if_not_exists = self.if_not_exists()?;
            let (field, type_name) = self.field_definition()?;
            return Ok(TypeChange::Add { if_not_exists, field, type_name });
        }
        if self.accept_word(Keyword::Rename) {
            let if_exists = self.if_exists()?;
            return Ok(TypeChange::Rename { if_exists, names: self.renames()? });
        }
        if !self.accept_word(Keyword::Alter) {
            return Err(self.no_viable());
        }
        let field = self.name()?;
        self.expect_word(Keyword::Type)?;
        Ok(TypeChange::FieldType(field, self.type_name()?))
    }
}

//! `CREATE ..`: which object it is about, and all of keyspaces, tables, materialized views and user-defined types.
//!
//! ```text
//! CREATE KEYSPACE k WITH ..
//! CREATE TABLE t (c type [STATIC] [MASKED WITH ..] [PRIMARY KEY], .., PRIMARY KEY ((k, ..), c, ..)) [WITH ..]
//! CREATE TABLE t LIKE other [WITH ..]
//! CREATE MATERIALIZED VIEW v AS SELECT .. FROM t [WHERE ..] PRIMARY KEY (..) [WITH ..]
//! CREATE TYPE t (f type, ..)
//! ```
//!
//! A table of several primary keys, or of none, is parsed as it stands: `ddl` refuses it in Cassandra's words.
//! Not here: functions and aggregates (`function.rs`), indexes (`index.rs`), what stands in a `WITH` (`properties.rs`).

use super::super::ast::{
    ColumnDefinition, CreateTable, CreateTableLike, CreateView, Order, Properties, QualifiedName,
    SchemaStatement, Statement, TypeName,
};
use super::{Keyword, Kind, Parser, Result};

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Result<Statement> {
        self.advance();
        if self.accept_keyspace_word() {
            let if_not_exists = self.if_not_exists()?;
            let name = self.keyspace_name()?;
            self.expect_word(Keyword::With)?;
            let properties = self.properties()?;
            return Ok(Statement::Schema(SchemaStatement::CreateKeyspace {
                name,
                if_not_exists,
                properties,
            }));
        }
        if self.accept_table_word() {
            return self.create_table().map(Statement::Schema);
        }
        if self.accept_word(Keyword::Type) {
            return self.create_type();
        }
        let replaced = self.accept_word(Keyword::Or);
        if replaced {
            self.expect_word(Keyword::Replace)?;
        }
        if self.accept_word(Keyword::Function) {
            return self.create_function(replaced);
        }
        if self.accept_word(Keyword::Aggregate) {
            return self.create_aggregate(replaced);
        }
        let is_custom = self.accept_word(Keyword::Custom);
        if is_custom {
            self.expect_word(Keyword::Index)?;
        }
        if is_custom || self.accept_word(Keyword::Index) {
            return self.create_index(is_custom);
        }
        if self.accept_word(Keyword::Materialized) {
            return self.create_view().map(Statement::Schema);
        }
        for (word, what) in [
            (Keyword::Trigger, "CREATE TRIGGER"),
            (Keyword::Role, "CREATE ROLE"),
            (Keyword::User, "CREATE USER"),
        ] {
            if self.accept_word(word) {
                return Ok(self.unsupported(what));
            }
        }
        Err(self.no_viable())
    }

    fn create_table(&mut self) -> Result<SchemaStatement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        if self.accept_word(Keyword::Like) {
            let like = self.create_table_like(name, if_not_exists)?;
            return Ok(SchemaStatement::CreateTableLike(like));
        }
        let mut table = CreateTable {
            name,
            if_not_exists,
            columns: Vec::new(),
            primary_keys: Vec::new(),
            clustering_order: Vec::new(),
            compact_storage: false,
            properties: Properties::new(),
        };
        self.expect(Kind::LeftParen)?;
        self.table_element(&mut table)?;
        while self.accept(Kind::Comma) {
            // A comma may also stand behind the last element.
            if !matches!(self.peek(), Kind::Comma | Kind::RightParen) {
                self.table_element(&mut table)?;
            }
        }
        self.expect(Kind::RightParen)?;
        if self.accept_word(Keyword::With) {
            let CreateTable { clustering_order, compact_storage, properties, .. } = &mut table;
            self.table_properties((clustering_order, compact_storage, properties))?;
        }
        Ok(SchemaStatement::CreateTable(Box::new(table)))
    }

    /// `VIEW v AS SELECT a, b FROM t WHERE .. PRIMARY KEY (..) [WITH ..]`, after `MATERIALIZED`.
    fn create_view(&mut self) -> Result<SchemaStatement> {
        self.expect_word(Keyword::View)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        self.expect_word(Keyword::As)?;
        self.expect_word(Keyword::Select)?;
        let items =
            if self.accept(Kind::Star) { Vec::new() } else { self.list_of(Self::select_item)? };
        self.expect_word(Keyword::From)?;
        let base = self.table_name()?;
        let relations =
            if self.accept_word(Keyword::Where) { self.relations()? } else { Vec::new() };
        self.expect_word(Keyword::Primary)?;
        self.expect_word(Keyword::Key)?;
        let primary_key = self.primary_key()?;
        let (mut clustering_order, mut compact_storage) = (Vec::new(), false);
        let mut properties = Properties::new();
        if self.accept_word(Keyword::With) {
            let all = (&mut clustering_order, &mut compact_storage, &mut properties);
            self.table_properties(all)?;
        }
        Ok(SchemaStatement::CreateView(Box::new(CreateView {
            name,
            if_not_exists,
            items,
            base,
            relations,
            primary_key,
            clustering_order,
            compact_storage,
            properties,
        })))
    }

    /// `old [WITH INDEXES AND comment = 'c']`, after `LIKE`.
    fn create_table_like(
        &mut self,
        name: QualifiedName,
        if_not_exists: bool,
    ) -> Result<CreateTableLike> {
        let source = self.table_name()?;
        let (parts, properties) = (Vec::new(), Properties::new());
        let mut like = CreateTableLike { name, if_not_exists, source, parts, properties };
        if self.accept_word(Keyword::With) {
            self.like_property(&mut like)?;
            while self.accept_word(Keyword::And) {
                self.like_property(&mut like)?;
            }
        }
        Ok(like)
    }

    fn like_property(&mut self, like: &mut CreateTableLike) -> Result<()> {
        if self.peek_at(1) == Kind::Equal {
            return self.property(&mut like.properties);
        }
        let part = match self.name()?.as_str() {
            "indexes" => "INDEXES",
            "comments" => "COMMENTS",
            "security" if self.name()? == "labels" => "SECURITY LABELS",
            _ => return Err(self.no_viable()),
        };
        like.parts.push(part);
        Ok(())
    }

    /// A column, or `PRIMARY KEY (..)`.
    fn table_element(&mut self, table: &mut CreateTable) -> Result<()> {
        if self.accept_word(Keyword::Primary) {
            self.expect_word(Keyword::Key)?;
            let key = self.primary_key()?;
            table.primary_keys.push(key);
            return Ok(());
        }
        let column = self.column_definition()?;
        if self.accept_word(Keyword::Primary) {
            self.expect_word(Keyword::Key)?;
            table.primary_keys.push((vec![column.name.clone()], Vec::new()));
        }
        table.columns.push(column);
        Ok(())
    }

    /// `(k, c)` or `((k, l), c)`.
    fn primary_key(&mut self) -> Result<(Vec<String>, Vec<String>)> {
        self.expect(Kind::LeftParen)?;
        let partition_key = if self.accept(Kind::LeftParen) {
            let columns = self.list_of(Self::name)?;
            self.expect(Kind::RightParen)?;
            columns
        } else {
            vec![self.name()?]
        };
        let mut clustering = Vec::new();
        while self.accept(Kind::Comma) {
            clustering.push(self.name()?);
        }
        self.expect(Kind::RightParen)?;
        Ok((partition_key, clustering))
    }

    /// `name type [STATIC] [MASKED WITH ..]`.
    pub(super) fn column_definition(&mut self) -> Result<ColumnDefinition> {
        let name = self.name()?;
        let type_name = self.type_name()?;
        let is_static = self.accept_word(Keyword::Static);
        let is_masked = self.accept_word(Keyword::Masked);
        if is_masked {
            self.mask()?;
        }
        Ok(ColumnDefinition { name, type_name, is_static, is_masked })
    }

    /// `WITH DEFAULT` or `WITH f(..)`, after `MASKED`.
    pub(super) fn mask(&mut self) -> Result<()> {
        self.expect_word(Keyword::With)?;
        if self.accept_word(Keyword::Default) {
            return Ok(());
        }
        if !self.is_call() {
            return Err(self.no_viable());
        }
        self.term().map(drop)
    }

    /// `CLUSTERING ORDER BY (..) AND COMPACT STORAGE AND comment = 'c'`, after `WITH`.
    fn table_properties(
        &mut self,
        (order, compact, properties): (&mut Vec<(String, Order)>, &mut bool, &mut Properties),
    ) -> Result<()> {
        self.table_property((&mut *order, &mut *compact, &mut *properties))?;
        while self.accept_word(Keyword::And) {
            self.table_property((&mut *order, &mut *compact, &mut *properties))?;
        }
        Ok(())
    }

    fn table_property(
        &mut self,
        (order, compact, properties): (&mut Vec<(String, Order)>, &mut bool, &mut Properties),
    ) -> Result<()> {
        let next = self.peek_at(1);
        if self.peek() == Kind::Word(Keyword::Compact) && next == Kind::Word(Keyword::Storage) {
            self.advance();
            self.advance();
            *compact = true;
            return Ok(());
        }
        if self.peek() == Kind::Word(Keyword::Clustering) && next == Kind::Word(Keyword::Order) {
            self.advance();
            self.advance();
            self.expect_word(Keyword::By)?;
            self.expect(Kind::LeftParen)?;
            let mut more = self.list_of(Self::clustering_order)?;
            self.expect(Kind::RightParen)?;
            order.append(&mut more);
            return Ok(());
        }
        self.property(properties)
    }

    fn clustering_order(&mut self) -> Result<(String, Order)> {
        let column = self.name()?;
        if self.accept_word(Keyword::Asc) {
            return Ok((column, Order::Ascending));
        }
        if self.accept_word(Keyword::Desc) {
            return Ok((column, Order::Descending));
        }
        Err(self.no_viable())
    }

    fn create_type(&mut self) -> Result<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.type_reference()?;
        self.expect(Kind::LeftParen)?;
        let mut fields = vec![self.field_definition()?];
        while self.accept(Kind::Comma) {
            if !matches!(self.peek(), Kind::Comma | Kind::RightParen) {
                fields.push(self.field_definition()?);
            }
        }
        self.expect(Kind::RightParen)?;
        Ok(Statement::Schema(SchemaStatement::CreateType { name, if_not_exists, fields }))
    }

    pub(super) fn field_definition(&mut self) -> Result<(String, TypeName)> {
        let field = self.name()?;
        Ok((field, self.type_name()?))
    }
}

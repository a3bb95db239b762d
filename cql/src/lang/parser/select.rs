//! `SELECT`: the clauses in their order.
//!
//! ```text
//! SELECT [JSON] [DISTINCT] * | expression [AS name], ..  FROM t  [WHERE ..]  [GROUP BY expression, ..]
//!        [ORDER BY c [ANN OF term] [ASC | DESC], ..]  [PER PARTITION LIMIT n]  [LIMIT n]
//!        [ALLOW FILTERING]  [BYPASS CACHE]  [USING TIMEOUT d]
//! ```
//!
//! `JSON` and `DISTINCT` may also be names of columns: what follows the word tells which it is. `BYPASS CACHE` and
//! `USING TIMEOUT` are ScyllaDB's.
//!
//! Not here: relations (`relation.rs`), expressions (`expr.rs`), what may be selected, grouped and ordered
//! (`prepare/select.rs`).

use super::super::ast::{Order, OrderBy, Select, SelectItem, SelectKind, Using};
use super::{Keyword, Kind, Parser, Result};

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Result<Select> {
        self.advance();
        let kind = self.select_kind();
        let items =
            if self.accept(Kind::Star) { Vec::new() } else { self.list_of(Self::select_item)? };
        self.expect_word(Keyword::From)?;
        let table = self.table_name()?;
        let relations =
            if self.accept_word(Keyword::Where) { self.relations()? } else { Vec::new() };
        let mut group_by = Vec::new();
        if self.accept_word(Keyword::Group) {
            self.expect_word(Keyword::By)?;
            group_by = self.list_of(Self::selectable)?;
        }
        let mut order_by = Vec::new();
        if self.accept_word(Keyword::Order) {
            self.expect_word(Keyword::By)?;
            order_by = self.list_of(Self::order_by)?;
        }
        let mut per_partition_limit = None;
        if self.accept_word(Keyword::Per) {
            self.expect_word(Keyword::Partition)?;
            self.expect_word(Keyword::Limit)?;
            per_partition_limit = Some(self.integer_or_bind()?);
        }
        let mut limit = None;
        if self.accept_word(Keyword::Limit) {
            limit = Some(self.integer_or_bind()?);
        }
        let allow_filtering = self.accept_word(Keyword::Allow);
        if allow_filtering {
            self.expect_word(Keyword::Filtering)?;
        }
        let bypass_cache = self.accept_word(Keyword::Bypass);
        if bypass_cache {
            self.expect_word(Keyword::Cache)?;
        }
        let using =
            if self.at_word(Keyword::Using) { self.using_timeout()? } else { Using::default() };
        Ok(Select {
            kind,
            items,
            table,
            relations,
            group_by,
            order_by,
            per_partition_limit,
            limit,
            allow_filtering,
            bypass_cache,
            using,
        })
    }

    /// `DISTINCT` and `JSON`, which are also names: `SELECT json, distinct FROM t`.
    fn select_kind(&mut self) -> SelectKind {
        let json = self.takes_modifier(Keyword::Json);
        let distinct = self.takes_modifier(Keyword::Distinct);
        match (json, distinct) {
            (false, false) => SelectKind::Plain,
            (false, true) => SelectKind::Distinct,
            (true, false) => SelectKind::Json,
            (true, true) => SelectKind::JsonDistinct,
        }
    }

    /// Passes the word if it stands before what is selected, and is not itself selected.
    fn takes_modifier(&mut self, word: Keyword) -> bool {
        if self.peek() != Kind::Word(word) {
            return false;
        }
        let is_column = match self.peek_at(1) {
            Kind::Comma | Kind::Dot | Kind::End | Kind::Word(Keyword::From) => true,
            // `json AS a` names the column, unless a column called `as` is selected as JSON.
            Kind::Word(Keyword::As) => self.is_name_at(2),
            // An operator or a part follows a column. A star may also be all columns.
            Kind::Plus | Kind::Minus | Kind::Slash | Kind::Percent => true,
            Kind::Star => self.peek_at(2) != Kind::Word(Keyword::From),
            _ => false,
        };
        if !is_column {
            self.advance();
        }
        !is_column
    }

    pub(super) fn select_item(&mut self) -> Result<SelectItem> {
        let expr = self.selectable()?;
        let alias = if self.accept_word(Keyword::As) { Some(self.name()?) } else { None };
        Ok(SelectItem { expr, alias })
    }

    fn order_by(&mut self) -> Result<OrderBy> {
        let column = self.name()?;
        let mut ann_of = None;
        if self.accept_word(Keyword::Ann) {
            self.expect_word(Keyword::Of)?;
            ann_of = Some(self.term()?);
        }
        let descending = self.accept_word(Keyword::Desc);
        if !descending {
            self.accept_word(Keyword::Asc);
        }
        let order = if descending { Order::Descending } else { Order::Ascending };
        Ok(OrderBy { column, ann_of, order })
    }
}

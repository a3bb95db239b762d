//! `DESCRIBE ..`.

use super::super::ast::{Describe, DescribeTarget};
use super::{Keyword, Kind, Parser, Result};

impl Parser<'_> {
    pub(super) fn describe(&mut self) -> Result<Describe> {
        self.advance();
        let target = self.describe_target()?;
        let internals = self.accept_word(Keyword::With);
        if internals {
            self.expect_word(Keyword::Internals)?;
        }
        Ok(Describe { target, internals })
    }

    fn describe_target(&mut self) -> Result<DescribeTarget> {
        for (word, target) in [
            (Keyword::Cluster, DescribeTarget::Cluster),
            (Keyword::Keyspaces, DescribeTarget::Keyspaces),
            (Keyword::Tables, DescribeTarget::Tables),
            (Keyword::Columnfamilies, DescribeTarget::Tables),
            (Keyword::Types, DescribeTarget::Types),
            (Keyword::Functions, DescribeTarget::Functions),
            (Keyword::Aggregates, DescribeTarget::Aggregates),
        ] {
            // These words are also names: `DESCRIBE types.t`.
            if self.peek_at(1) != Kind::Dot && self.accept_word(word) {
                return Ok(target);
            }
        }
        if self.accept_word(Keyword::Full) {
            self.expect_word(Keyword::Schema)?;
            return Ok(DescribeTarget::Schema { full: true });
        }
        if self.accept_word(Keyword::Schema) {
            return Ok(DescribeTarget::Schema { full: false });
        }
        if self.peek() == Kind::Word(Keyword::Only)
            && self.peek_at(1) == Kind::Word(Keyword::Keyspace)
        {
            self.advance();
            self.advance();
            let name = self.optional_keyspace()?;
            return Ok(DescribeTarget::Keyspace { name, only: true });
        }
        if self.accept_word(Keyword::Keyspace) {
            let name = self.optional_keyspace()?;
            return Ok(DescribeTarget::Keyspace { name, only: false });
        }
        if self.accept_table_word() {
            return Ok(DescribeTarget::Table(self.table_name()?));
        }
        if self.accept_word(Keyword::Index) {
            return Ok(DescribeTarget::Index(self.table_name()?));
        }
        if self.accept_word(Keyword::Materialized) {
            self.expect_word(Keyword::View)?;
            return Ok(DescribeTarget::View(self.table_name()?));
        }
        self.describe_named()
    }

    fn optional_keyspace(&mut self) -> Result<Option<String>> {
        self.is_name_at(0).then(|| self.keyspace_name()).transpose()
    }

    /// `TYPE t`, `FUNCTION f`, `AGGREGATE a`, or a bare name, which may be one of these words.
    fn describe_named(&mut self) -> Result<DescribeTarget> {
        if self.is_name_at(1) {
            if self.accept_word(Keyword::Type) {
                return Ok(DescribeTarget::Type(self.type_reference()?));
            }
            if self.accept_word(Keyword::Function) {
                return Ok(DescribeTarget::Function(self.qualified_name()?));
            }
            if self.accept_word(Keyword::Aggregate) {
                return Ok(DescribeTarget::Aggregate(self.qualified_name()?));
            }
        }
        Ok(DescribeTarget::Name(self.qualified_name()?))
    }
}

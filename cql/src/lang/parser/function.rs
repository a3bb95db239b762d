//! `CREATE` and `DROP` of functions and aggregates.
//!
//! ```text
//! CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] f ([a type, ..]) CALLED | RETURNS NULL ON NULL INPUT
//!        RETURNS type LANGUAGE word AS 'body' | $$body$$
//! CREATE [OR REPLACE] AGGREGATE [IF NOT EXISTS] f ([type, ..]) SFUNC f STYPE type
//!        [REDUCEFUNC f] [FINALFUNC f] [INITCOND value]
//! DROP FUNCTION | AGGREGATE [IF EXISTS] f [([type, ..])]
//! ```
//!
//! `REDUCEFUNC` is ScyllaDB's. The functions of an aggregate are named without keyspace: they are in the keyspace of
//! the aggregate.
//!
//! Not here: `CREATE [OR REPLACE]` itself (`create.rs`), which languages there are and what a body may be
//! (`ddl/functions.rs`, the crate `functions`), calls (`names.rs`, `expr.rs`).

use super::super::ast::{
    CreateAggregate, CreateFunction, DropFunction, Existing, FunctionKind, SchemaStatement,
    Statement, TypeName,
};
use super::super::keyword::Class;
use super::{Keyword, Kind, Parser, QualifiedName, Result};

impl Parser<'_> {
    /// The rest of `CREATE [OR REPLACE] FUNCTION`.
    pub(super) fn create_function(&mut self, replaced: bool) -> Result<Statement> {
        let kept = self.if_not_exists()?;
        let name = self.name_of_function()?;
        self.expect(Kind::LeftParen)?;
        let mut arguments = Vec::new();
        if self.peek() != Kind::RightParen {
            arguments = self.list_of(Self::field_definition)?;
        }
        self.expect(Kind::RightParen)?;
        let called_on_null = self.accept_word(Keyword::Called);
        if !called_on_null {
            if !self.accept_word(Keyword::Returns) {
                return Err(self.no_viable());
            }
            self.expect_word(Keyword::Null)?;
        }
        self.expect_word(Keyword::On)?;
        self.expect_word(Keyword::Null)?;
        self.expect_word(Keyword::Input)?;
        self.expect_word(Keyword::Returns)?;
        let result = self.type_name()?;
        self.expect_word(Keyword::Language)?;
        let language = self.expect(Kind::Ident)?.content(self.text).to_ascii_lowercase();
        self.expect_word(Keyword::As)?;
        let body = self.expect(Kind::String)?.content(self.text);
        let existing = Existing { replaced, kept };
        let create =
            CreateFunction { name, existing, arguments, called_on_null, result, language, body };
        Ok(Statement::Schema(SchemaStatement::CreateFunction(Box::new(create))))
    }

    /// The rest of `CREATE [OR REPLACE] AGGREGATE`.
    pub(super) fn create_aggregate(&mut self, replaced: bool) -> Result<Statement> {
        let kept = self.if_not_exists()?;
        let name = self.name_of_function()?;
        let arguments = self.types_in_parentheses()?;
        self.expect_word(Keyword::Sfunc)?;
        let state_function = self.local_name_of_function()?;
        self.expect_word(Keyword::Stype)?;
        let state = self.type_name()?;
        let mut function = |word| {
            let is_there = self.accept_word(word);
            is_there.then(|| self.local_name_of_function()).transpose()
        };
        let reduce_function = function(Keyword::Reducefunc)?;
        let final_function = function(Keyword::Finalfunc)?;
        let has_initial = self.accept_word(Keyword::Initcond);
        let initial = has_initial.then(|| self.term()).transpose()?;
        let create = CreateAggregate {
            name,
            existing: Existing { replaced, kept },
            arguments,
            state_function,
            state,
            reduce_function,
            final_function,
            initial,
        };
        Ok(Statement::Schema(SchemaStatement::CreateAggregate(Box::new(create))))
    }

    /// The rest of `DROP FUNCTION` and `DROP AGGREGATE`.
    pub(super) fn drop_function(&mut self, kind: FunctionKind) -> Result<Statement> {
        let if_exists = self.if_exists()?;
        let name = self.name_of_function()?;
        let has_arguments = self.peek() == Kind::LeftParen;
        let arguments = has_arguments.then(|| self.types_in_parentheses()).transpose()?;
        let drop = DropFunction { kind, name, arguments, if_exists };
        Ok(Statement::Schema(SchemaStatement::DropFunction(drop)))
    }

    /// `(t, t)`, or `()`.
    fn types_in_parentheses(&mut self) -> Result<Vec<TypeName>> {
        self.expect(Kind::LeftParen)?;
        let mut types = Vec::new();
        if self.peek() != Kind::RightParen {
            types = self.list_of(Self::type_name)?;
        }
        self.expect(Kind::RightParen)?;
        Ok(types)
    }

    /// `ks.f` or `f`.
    fn name_of_function(&mut self) -> Result<QualifiedName> {
        let mut keyspace = None;
        if self.is_name_at(0) && self.peek_at(1) == Kind::Dot {
            keyspace = Some(self.name()?);
            self.advance();
        }
        Ok(QualifiedName { keyspace, name: self.local_name_of_function()? })
    }

    fn local_name_of_function(&mut self) -> Result<String> {
        let is_allowed = match self.peek() {
            Kind::Ident | Kind::QuotedName => true,
            Kind::Word(Keyword::Token | Keyword::Count) => true,
            Kind::Word(word) => matches!(word.class(), Class::Plain | Class::Native),
            _ => false,
        };
        if !is_allowed {
            return Err(self.no_viable());
        }
        self.take_name()
    }
}

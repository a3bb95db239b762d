//! Types as written: `map<text, frozen<list<int>>>`.
//!
//! ```text
//! type := 'class' | native | [ks.]user | list<type> | set<type> | map<type, type> | tuple<type, ..>
//!       | vector<type, n> | frozen<type>
//! ```
//!
//! 1. `list`, `map`, `tuple`, `vector` and `frozen` may be names of user types; a `<` behind them tells. `set` is
//!    always the collection.
//! 2. `(int) a` begins like a tuple: `is_type_hint` looks ahead whether a type, `)` and a value follow, and takes
//!    nothing.
//!
//! Invariant: types are nested at most `TYPE_NESTING_MAX` deep.
//!
//! Not here: what a type means, and which may stand inside which (`cql/src/types.rs`), definitions of columns
//! (`create.rs`).

use super::super::ast::TypeName;
use super::super::keyword::Class;
use super::expr::Columns;
use super::{Keyword, Kind, Parser, Result, SyntaxError};
use crate::limits::TYPE_NESTING_MAX;

impl Parser<'_> {
    pub(super) fn type_name(&mut self) -> Result<TypeName> {
        if self.peek() == Kind::String {
            return Ok(TypeName::Custom(self.advance().content(self.text)));
        }
        let Kind::Word(word) = self.peek() else {
            return Ok(TypeName::User(self.type_reference()?));
        };
        if word.class() == Class::Native && self.peek_at(1) != Kind::Dot {
            return self.native_type();
        }
        let parametric = match word {
            Keyword::Set => true,
            Keyword::List | Keyword::Map | Keyword::Tuple | Keyword::Vector | Keyword::Frozen => {
                self.peek_at(1) == Kind::Less
            }
            _ => false,
        };
        if !parametric {
            return Ok(TypeName::User(self.type_reference()?));
        }
        self.advance();
        self.expect(Kind::Less)?;
        let found = self.nested_up_to(TYPE_NESTING_MAX, |p| p.parametric_type(word))?;
        self.expect(Kind::Greater)?;
        Ok(found)
    }

    /// A scalar type.
    pub(super) fn native_type(&mut self) -> Result<TypeName> {
        match self.peek() {
            Kind::Word(word) if word.class() == Class::Native => {
                self.advance();
                // The two spellings are one type.
                let word = if word == Keyword::Varchar { Keyword::Text } else { word };
                Ok(TypeName::Native(word.text()))
            }
            _ => Err(self.no_viable()),
        }
    }

    /// What stands between the angle brackets.
    fn parametric_type(&mut self, word: Keyword) -> Result<TypeName> {
        let inner = |p: &mut Self| p.type_name().map(Box::new);
        Ok(match word {
            Keyword::List => TypeName::List(inner(self)?),
            Keyword::Set => TypeName::Set(inner(self)?),
            Keyword::Frozen => TypeName::Frozen(inner(self)?),
            Keyword::Tuple => TypeName::Tuple(self.list_of(Self::type_name)?),
            Keyword::Map => {
                let key = inner(self)?;
                self.expect(Kind::Comma)?;
                TypeName::Map(key, inner(self)?)
            }
            _ => {
                let element = inner(self)?;
                self.expect(Kind::Comma)?;
                let dimension = self.expect(Kind::Integer)?.text(self.text).to_owned();
                let Ok(dimension) = dimension.parse::<i32>() else {
                    let problem = format!("For input string: \"{dimension}\"");
                    return Err(SyntaxError::number(self.text, &problem));
                };
                TypeName::Vector(element, dimension)
            }
        })
    }

    /// True if `(type)` stands here and a value follows it. Looks ahead, takes nothing. A column is
    /// a value only where `columns` are allowed.
    pub(super) fn is_type_hint(&self, columns: Columns) -> bool {
        let Some(after) = self.skip_type(1) else { return false };
        if self.peek_at(after) != Kind::RightParen {
            return false;
        }
        match self.peek_at(after + 1) {
            Kind::String | Kind::Integer | Kind::Float | Kind::Boolean | Kind::Duration => true,
            Kind::Uuid | Kind::Hex | Kind::Question | Kind::Colon => true,
            Kind::LeftParen | Kind::LeftBracket | Kind::LeftBrace => true,
            Kind::Word(Keyword::Null | Keyword::Token) => true,
            // `(a) AS b` is an alias, not a hint before a column called `as`.
            Kind::Word(Keyword::As) => false,
            _ if columns == Columns::Allowed => self.is_name_at(after + 1),
            _ => {
                let call = matches!(self.peek_at(after + 2), Kind::LeftParen | Kind::Dot);
                call && self.is_name_at(after + 1)
            }
        }
    }

    /// The distance behind the type that stands `ahead`, if one does.
    fn skip_type(&self, ahead: usize) -> Option<usize> {
        let mut at = ahead;
        let mut open = 0usize;
        loop {
            at = match self.peek_at(at) {
                Kind::String => at + 1,
                Kind::Word(Keyword::Set) if self.peek_at(at + 1) == Kind::Less => at + 1,
                Kind::Integer if open > 0 => at + 1,
                _ if !self.is_name_at(at) => return None,
                _ if self.peek_at(at + 1) == Kind::Dot => at + 3,
                _ => at + 1,
            };
            if self.peek_at(at) == Kind::Less {
                open += 1;
                at += 1;
                continue;
            }
            while open > 0 && self.peek_at(at) == Kind::Greater {
                open -= 1;
                at += 1;
            }
            match (open, self.peek_at(at)) {
                (0, _) => return Some(at),
                (_, Kind::Comma) => at += 1,
                _ => return None,
            }
        }
    }
}

//! `WITH a = 'b' AND c = {'d': 'e'}`: the properties of keyspaces and tables.

use super::super::ast::{Expr, Properties, PropertyValue};
use super::super::keyword::Class;
use super::expr::literal_kind;
use super::{Keyword, Kind, Parser, Result, SyntaxError};
use crate::limits::PROPERTIES_MAX;

impl Parser<'_> {
    /// One property, added to those already there.
    pub(super) fn property(&mut self, properties: &mut Properties) -> Result<()> {
        let name = self.name()?;
        self.expect(Kind::Equal)?;
        let value = if self.peek() == Kind::LeftBrace {
            PropertyValue::Map(self.property_map()?)
        } else {
            PropertyValue::Text(self.property_text()?)
        };
        if properties.iter().any(|(other, _)| *other == name) {
            let message = format!("Multiple definitions for property '{name}'");
            return Err(SyntaxError::plain(message));
        }
        if properties.len() == PROPERTIES_MAX {
            return Err(too_many());
        }
        properties.push((name, value));
        Ok(())
    }

    /// Properties joined by `AND`.
    pub(super) fn properties(&mut self) -> Result<Properties> {
        let mut properties = Properties::new();
        self.property(&mut properties)?;
        while self.accept_word(Keyword::And) {
            self.property(&mut properties)?;
        }
        Ok(properties)
    }

    /// A constant or an unreserved word.
    fn property_text(&mut self) -> Result<String> {
        match self.peek() {
            kind if literal_kind(kind).is_some() => Ok(self.advance().content(self.text)),
            Kind::Word(word) if word.class() != Class::Reserved => {
                Ok(self.advance().content(self.text).to_ascii_lowercase())
            }
            _ => Err(self.no_viable()),
        }
    }

    /// `{'key': 'value', ..}` of constants.
    fn property_map(&mut self) -> Result<Vec<(String, String)>> {
        let entries = match self.term()? {
            Expr::Map(entries) => entries,
            // Keys without quotes read as the fields of a user-defined type.
            Expr::Set(items) if items.is_empty() => Vec::new(),
            _ => return Err(self.no_viable()),
        };
        if entries.len() > PROPERTIES_MAX {
            return Err(too_many());
        }
        let mut map = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = constant(key, |shown| format!("Invalid property name: {shown}"))?;
            let value = constant(value, |shown| {
                format!("Invalid property value: {shown} for property: '{key}'")
            })?;
            if map.iter().any(|(other, _)| *other == key) {
                let message = format!("Multiple definition for property {key}");
                return Err(SyntaxError::plain(message));
            }
            map.push((key, value));
        }
        Ok(map)
    }
}

#[cold]
fn too_many() -> SyntaxError {
    SyntaxError::plain(format!(
        "more than {PROPERTIES_MAX} properties, or more than {PROPERTIES_MAX} entries in one of them"
    ))
}

/// The text of a constant; anything else is refused with `problem`.
fn constant(expr: Expr, problem: impl Fn(&str) -> String) -> Result<String> {
    match expr {
        Expr::Literal(literal) => Ok(literal.text),
        Expr::Bind(_) => {
            let hint = " (bind variables are not supported in DDL queries)";
            Err(SyntaxError::plain(problem("?") + hint))
        }
        Expr::Null => Err(SyntaxError::plain(problem("NULL"))),
        _ => Err(SyntaxError::plain(problem("an expression"))),
    }
}

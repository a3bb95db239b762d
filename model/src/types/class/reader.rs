//! The names of Cassandra's classes read: `'org.apache.cassandra.db.marshal.MapType(Int32Type, UTF8Type)'`.
//!
//! ```text
//! type       := blank class blank [ '(' parameters ')' ] blank       no class at all: BytesType
//! parameters := comma ( type comma )*                                of vectors: type comma number
//! aliases    := comma ( character '=>' type comma )*                 of dynamic composites
//! fields     := comma keyspace comma hex comma ( hex ':' type comma )*         of user types
//! comma      := blank [ ',' blank ]
//! class      := name, with its package or without
//! ```
//!
//! As in Cassandra's `TypeParser` a comma may be missing, and one may stand before the first and behind the last
//! parameter; there a class must have a name. What is wrong inside of parameters is told of the outermost class.
//!
//! The text's length, the parts of a type and their nesting are bounded. Not here: which types may stand where, and
//! whether a user type is one of the schema (`cql/src/types.rs`).

use std::sync::Arc;

use super::{PACKAGE, scalar};
use crate::limits::{CLASS_NESTING_MAX, TYPE_BYTES_MAX, TYPE_PART_BYTES};
use crate::steps::step;
use crate::types::{Component, CqlType, CustomType, UserType, unhex};

/// Classes of Cassandra's package that a column cannot have here: no value is one of theirs.
const NO_TYPES: [&str; 1] = ["PartitionerDefinedOrder"];

/// The type whose class `text` names; else why there is none.
pub fn parse_class(text: &str) -> Result<Component, String> {
    if text.len() > TYPE_BYTES_MAX {
        return Err(format!("a type has no more than {TYPE_BYTES_MAX} bytes"));
    }
    step(text.len());
    let mut reader = Reader { rest: text, parts_left: TYPE_BYTES_MAX / TYPE_PART_BYTES };
    let found = reader.class(CLASS_NESTING_MAX)?;
    reader.skip_blank();
    match reader.rest {
        "" => Ok(found),
        rest => Err(format!("unexpected '{rest}' behind it")),
    }
}

/// What of a class name is not read yet.
struct Reader<'t> {
    rest: &'t str,
    /// How many parts the type may still have.
    parts_left: usize,
}

impl<'t> Reader<'t> {
    fn class(&mut self, levels_left: u32) -> Result<Component, String> {
        let name = self.word();
        let class = name.strip_prefix(PACKAGE).unwrap_or(name);
        let of_class = self.of_class(name, class, levels_left);
        match of_class {
            Ok(found) => Ok(found),
            Err(Wrong::Limit(text) | Wrong::Class(text)) => Err(text),
            Err(Wrong::Parameters) => {
                Err(format!("Invalid definition for comparator {PACKAGE}{class}."))
            }
        }
    }

    fn of_class(&mut self, name: &str, class: &str, levels_left: u32) -> Result<Component, Wrong> {
        let levels_left = levels_left
            .checked_sub(1)
            .ok_or_else(|| Wrong::Limit(format!("deeper than {CLASS_NESTING_MAX} levels")))?;
        self.parts_left = self.parts_left.checked_sub(1).ok_or_else(|| {
            Wrong::Limit(format!("more than {} parts", TYPE_BYTES_MAX / TYPE_PART_BYTES))
        })?;
        let ty = match class {
            "" => CqlType::Blob,
            "FrozenType" | "ReversedType" => {
                let [mut part] = self.exactly(levels_left)?;
                part.reversed ^= class == "ReversedType";
                let ty = if class == "FrozenType" { part.ty.frozen() } else { part.ty };
                return Ok(Component { ty, reversed: part.reversed });
            }
            "ListType" | "SetType" => {
                let [part] = self.exactly(levels_left)?;
                let (element, frozen) = (element(part), false);
                match class {
                    "ListType" => CqlType::List { element, frozen },
                    _ => CqlType::Set { element, frozen },
                }
            }
            "MapType" => {
                let [key, value] = self.exactly(levels_left)?;
                CqlType::Map { key: element(key), value: element(value), frozen: false }
            }
            "TupleType" => {
                let parts = self.parameters(levels_left)?.into_iter();
                CqlType::Tuple(parts.map(|part| part.ty.frozen()).collect())
            }
            "VectorType" => self.vector(levels_left)?,
            "UserType" => self.user_type(levels_left)?,
            "CompositeType" => {
                CqlType::Custom(CustomType::Composite(self.parameters(levels_left)?).into())
            }
            "DynamicCompositeType" => {
                CqlType::Custom(CustomType::dynamic(self.aliases(levels_left)?).into())
            }
            class if NO_TYPES.contains(&class) => {
                return Err(Wrong::Class(format!("no value is of the class {PACKAGE}{class}")));
            }
            class => self.without_parameters(name, class)?,
        };
        Ok(Component { ty, reversed: false })
    }

    fn without_parameters(&mut self, name: &str, class: &str) -> Result<CqlType, Wrong> {
        let Some(ty) = scalar(class) else {
            let package = if name.contains('.') { "" } else { PACKAGE };
            return Err(Wrong::Class(format!(
                "Unable to find abstract-type class '{package}{name}'"
            )));
        };
        // Cassandra takes an empty list of parameters where there are none.
        if self.takes('(') && self.has_more() { Err(Wrong::Parameters) } else { Ok(ty) }
    }

    fn vector(&mut self, levels_left: u32) -> Result<CqlType, Wrong> {
        if !self.takes('(') {
            return Err(Wrong::Parameters);
        }
        let element = element(self.parameter(levels_left)?);
        let dimensions = match self.has_more() {
            true => self.word().parse::<i32>().ok().and_then(|number| u32::try_from(number).ok()),
            false => None,
        };
        match dimensions.filter(|dimensions| *dimensions > 0) {
            Some(dimensions) if self.takes(')') => Ok(CqlType::Vector { element, dimensions }),
            _ => Err(Wrong::Parameters),
        }
    }

    /// A user type as the text defines it.
    fn user_type(&mut self, levels_left: u32) -> Result<CqlType, Wrong> {
        if !self.takes('(') {
            return Err(Wrong::Parameters);
        }
        self.has_more();
        let keyspace = self.word();
        self.has_more();
        let name = self.name()?;
        let mut fields = Vec::new();
        while self.has_more() {
            let field = self.name()?;
            if !self.takes(':') {
                return Err(Wrong::Parameters);
            }
            fields.push((field, self.parameter(levels_left)?.ty));
        }
        let definition = Arc::new(UserType::new(keyspace, &name, fields));
        Ok(CqlType::Udt { definition, frozen: false })
    }

    /// A name that is written as the hex digits of its bytes.
    fn name(&mut self) -> Result<String, Wrong> {
        let bytes = unhex(&format!("0x{}", self.word())).ok_or(Wrong::Parameters)?;
        String::from_utf8(bytes).map_err(|_| Wrong::Parameters)
    }

    /// The types of a dynamic composite with the characters that values call them by; none without parentheses.
    fn aliases(&mut self, levels_left: u32) -> Result<Vec<(u8, Component)>, Wrong> {
        let mut aliases: Vec<(u8, Component)> = Vec::new();
        if !self.takes('(') {
            return Ok(aliases);
        }
        while self.has_more() {
            let [alias] = self.word().as_bytes() else { return Err(Wrong::Parameters) };
            if !(self.takes('=') && self.rest.starts_with('>')) {
                return Err(Wrong::Parameters);
            }
            self.takes('>');
            let part = self.parameter(levels_left)?;
            match aliases.iter_mut().find(|(known, _)| known == alias) {
                Some((_, known)) => *known = part,
                None => aliases.push((*alias, part)),
            }
        }
        Ok(aliases)
    }

    fn exactly<const N: usize>(&mut self, levels_left: u32) -> Result<[Component; N], Wrong> {
        self.parameters(levels_left)?.try_into().map_err(|_| Wrong::Parameters)
    }

    /// The types in parentheses; none without these.
    fn parameters(&mut self, levels_left: u32) -> Result<Vec<Component>, Wrong> {
        let mut types = Vec::new();
        if self.takes('(') {
            while self.has_more() {
                types.push(self.parameter(levels_left)?);
            }
        }
        Ok(types)
    }

    /// A type in the parentheses of a class, which has a name.
    fn parameter(&mut self, levels_left: u32) -> Result<Component, Wrong> {
        self.skip_blank();
        let name = self.word();
        let class = name.strip_prefix(PACKAGE).unwrap_or(name);
        if name.is_empty() {
            return Err(Wrong::Parameters);
        }
        self.of_class(name, class, levels_left).map_err(|wrong| match wrong {
            Wrong::Class(_) => Wrong::Parameters,
            wrong => wrong,
        })
    }

    /// Steps over a comma, or the end of the parameters; whether another one follows.
    fn has_more(&mut self) -> bool {
        self.takes(',');
        !self.takes(')')
    }

    fn skip_blank(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n']);
    }

    /// A name or a number; empty if none stands here.
    fn word(&mut self) -> &'t str {
        self.skip_blank();
        let end = self.rest.find(|c| !is_name_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn takes(&mut self, sign: char) -> bool {
        self.skip_blank();
        let after = self.rest.strip_prefix(sign);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }
}

/// Why a class is none.
enum Wrong {
    /// It is larger than types may be.
    Limit(String),
    /// There is no such class.
    Class(String),
    /// Its parameters are not what the class takes.
    Parameters,
}

/// What stands in a collection, a tuple or a vector is frozen with it, and has its own order.
fn element(part: Component) -> Arc<CqlType> {
    Arc::new(part.ty.frozen())
}

fn is_name_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+-_.&".contains(c)
}

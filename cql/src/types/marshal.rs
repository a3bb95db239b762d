//! Types by the names of Cassandra's classes: `'org.apache.cassandra.db.marshal.MapType(Int32Type, UTF8Type)'`.
//!
//! ```text
//! type       := blank class blank [ '(' parameters ')' ] blank       no class at all: BytesType
//! parameters := type ( ',' type )*                                   of vectors: type ',' number
//! class      := name, with its package or without
//! ```
//!
//! A class that is a type of CQL is that type, under whichever name. What has no such type (composites, UUIDs in
//! lexical order) is refused, and so is a class that does not exist. Not here: the names that results carry
//! (`frame/response/option.rs`).

use std::sync::Arc;

use model::CqlType;

use super::{inside, no_duration};
use crate::error::{Error, Result};
use crate::lang::ast::TypeName;
use crate::limits::TYPE_NESTING_MAX;

/// Where classes are that are named without a package.
const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Classes of that package that are no type of CQL.
const NO_CQL_TYPES: [&str; 8] = [
    "ColumnToCollectionType",
    "CompositeType",
    "DynamicCompositeType",
    "EmptyType",
    "LegacyTimeUUIDType",
    "LexicalUUIDType",
    "PartitionerDefinedOrder",
    "ReversedType",
];

/// The type whose class `text` names.
pub(super) fn resolve_class(text: &str) -> Result<CqlType> {
    let mut reader = Reader { whole: text, rest: text };
    let ty = reader.class(TYPE_NESTING_MAX)?;
    reader.skip_blank();
    match reader.rest {
        "" => Ok(ty),
        rest => Err(reader.error(&format!("unexpected '{rest}' behind it"))),
    }
}

/// What of a class name is not read yet.
struct Reader<'t> {
    whole: &'t str,
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn class(&mut self, levels_left: u8) -> Result<CqlType> {
        let Some(levels_left) = levels_left.checked_sub(1) else {
            return Err(self.error(&format!("deeper than {TYPE_NESTING_MAX} levels")));
        };
        let name = self.word();
        let class = name.strip_prefix(PACKAGE).unwrap_or(name);
        match class {
            "" => Ok(CqlType::Blob),
            "ListType" | "SetType" | "FrozenType" => {
                let [part] = self.exactly(class, levels_left)?;
                self.of_one(class, part)
            }
            "MapType" => {
                let [key, value] = self.exactly(class, levels_left)?;
                no_duration(&key, || format!("as map keys: {}", self.whole))?;
                let (key, value) = (self.element(key)?, self.element(value)?);
                Ok(CqlType::Map { key, value, frozen: false })
            }
            "TupleType" => {
                let parts = self.parameters(class, levels_left)?;
                let parts = parts.into_iter().map(|part| Ok((*self.element(part)?).clone()));
                Ok(CqlType::Tuple(parts.collect::<Result<Vec<_>>>()?.into()))
            }
            "VectorType" => self.vector(levels_left),
            "UserType" => Err(self.unsupported()),
            class if NO_CQL_TYPES.contains(&class) => Err(self.unsupported()),
            class => {
                let Some(ty) = scalar(class) else {
                    let package = if name.contains('.') { "" } else { PACKAGE };
                    let text = format!("Unable to find abstract-type class '{package}{name}'");
                    return Err(self.error(&text));
                };
                // Cassandra takes an empty list of parameters where there are none.
                if self.takes('(') && !self.takes(')') {
                    return Err(self.wrong_definition(class));
                }
                Ok(ty)
            }
        }
    }

    fn of_one(&self, class: &str, part: CqlType) -> Result<CqlType> {
        match class {
            "FrozenType" => Ok(part.frozen()),
            "ListType" => Ok(CqlType::List { element: self.element(part)?, frozen: false }),
            _ => {
                no_duration(&part, || format!("inside sets: {}", self.whole))?;
                Ok(CqlType::Set { element: self.element(part)?, frozen: false })
            }
        }
    }

    /// What stands in a collection or a tuple is frozen with it.
    fn element(&self, part: CqlType) -> Result<Arc<CqlType>> {
        inside(part.frozen(), &TypeName::Custom(self.whole.to_owned())).map(Arc::new)
    }

    fn vector(&mut self, levels_left: u8) -> Result<CqlType> {
        let class = "VectorType";
        if !self.takes('(') {
            return Err(self.wrong_definition(class));
        }
        let element = Arc::new(self.class(levels_left)?);
        let dimensions = match self.takes(',') {
            true => self.word().parse::<i32>().ok().and_then(|number| u32::try_from(number).ok()),
            false => None,
        };
        match dimensions.filter(|dimensions| *dimensions > 0) {
            Some(dimensions) if self.takes(')') => Ok(CqlType::Vector { element, dimensions }),
            _ => Err(self.wrong_definition(class)),
        }
    }

    fn exactly<const N: usize>(&mut self, class: &str, levels_left: u8) -> Result<[CqlType; N]> {
        let parameters = self.parameters(class, levels_left)?;
        parameters.try_into().map_err(|_| self.wrong_definition(class))
    }

    /// The types in parentheses: at least one.
    fn parameters(&mut self, class: &str, levels_left: u8) -> Result<Vec<CqlType>> {
        if !self.takes('(') {
            return Err(self.wrong_definition(class));
        }
        let mut types = vec![self.class(levels_left)?];
        while self.takes(',') {
            types.push(self.class(levels_left)?);
        }
        if self.takes(')') { Ok(types) } else { Err(self.wrong_definition(class)) }
    }

    fn skip_blank(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n']);
    }

    /// A name or a number; empty if none stands here.
    fn word(&mut self) -> &'t str {
        self.skip_blank();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-_.&".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
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

    fn error(&self, why: &str) -> Error {
        Error::Syntax(format!("Error setting type {}: {why}", self.whole))
    }

    fn wrong_definition(&self, class: &str) -> Error {
        self.error(&format!("Invalid definition for comparator {PACKAGE}{class}."))
    }

    fn unsupported(&self) -> Error {
        Error::invalid(format!("Custom types such as '{}' are not supported", self.whole))
    }
}

/// The scalar type that a class is.
fn scalar(class: &str) -> Option<CqlType> {
    Some(match class {
        "AsciiType" => CqlType::Ascii,
        "LongType" => CqlType::Bigint,
        "BytesType" => CqlType::Blob,
        "BooleanType" => CqlType::Boolean,
        "CounterColumnType" => CqlType::Counter,
        "SimpleDateType" => CqlType::Date,
        "DecimalType" => CqlType::Decimal,
        "DoubleType" => CqlType::Double,
        "DurationType" => CqlType::Duration,
        "FloatType" => CqlType::Float,
        "InetAddressType" => CqlType::Inet,
        "Int32Type" => CqlType::Int,
        "ShortType" => CqlType::Smallint,
        "UTF8Type" => CqlType::Text,
        "TimeType" => CqlType::Time,
        // Cassandra's first class of timestamps ordered those before 1970 behind the others; new
        // columns of it are timestamps.
        "TimestampType" | "DateType" => CqlType::Timestamp,
        "TimeUUIDType" => CqlType::Timeuuid,
        "ByteType" => CqlType::Tinyint,
        "UUIDType" => CqlType::Uuid,
        "IntegerType" => CqlType::Varint,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match resolve_class(text) {
            Ok(ty) => ty.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_class_is_the_type_of_cql_that_it_stores() {
        for (class, ty) in [
            ("", "blob"),
            (" Int32Type ", "int"),
            ("DurationType()", "duration"),
            ("org.apache.cassandra.db.marshal.UTF8Type", "text"),
            ("FrozenType(Int32Type)", "int"),
            ("ListType(Int32Type)", "list<int>"),
            ("FrozenType(SetType(UTF8Type))", "frozen<set<text>>"),
            ("MapType( Int32Type , ListType(BytesType))", "map<int, frozen<list<blob>>>"),
            ("TupleType(Int32Type,SetType(TimeType))", "frozen<tuple<int, frozen<set<time>>>>"),
            ("VectorType(FloatType , 2147483647)", "vector<float, 2147483647>"),
        ] {
            assert_eq!(shown(class), ty, "{class}");
        }
    }

    #[test]
    fn what_is_no_class_of_ours_is_refused_by_its_name() {
        for (class, why) in [
            ("int", "Unable to find abstract-type class 'org.apache.cassandra.db.marshal.int'"),
            ("foo.Bar", "Unable to find abstract-type class 'foo.Bar'"),
            ("ListType", "Invalid definition for comparator"),
            ("MapType(Int32Type)", "Invalid definition for comparator"),
            ("TupleType(Int32Type", "Invalid definition for comparator"),
            ("VectorType(FloatType,-1)", "Invalid definition for comparator"),
            ("VectorType(FloatType,2147483648)", "Invalid definition for comparator"),
            ("Int32Type)", "unexpected ')' behind it"),
            ("CompositeType(Int32Type)", "Custom types such as 'CompositeType(Int32Type)'"),
            ("LexicalUUIDType", "Custom types such as 'LexicalUUIDType' are not supported"),
            ("SetType(DurationType)", "Durations are not allowed inside sets"),
            ("ListType(CounterColumnType)", "Counters are not allowed inside collections"),
        ] {
            let shown = shown(class);
            assert!(shown.contains(why), "{class}: {shown}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_before_the_stack_ends() {
        let nested = |levels: usize| "ListType(".repeat(levels) + "Int32Type" + &")".repeat(levels);
        assert!(resolve_class(&nested(16)).is_ok());
        assert!(shown(&nested(100_000)).contains("deeper than"));
    }
}

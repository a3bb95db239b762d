//! Types by the names of Cassandra's classes: `'org.apache.cassandra.db.marshal.MapType(Int32Type, UTF8Type)'`.
//!
//! ```text
//! type       := blank class blank [ '(' parameters ')' ] blank       no class at all: BytesType
//! parameters := comma ( type comma )*                                of vectors: type comma number
//! comma      := blank [ ',' blank ]
//! class      := name, with its package or without
//! ```
//!
//! As in Cassandra a comma may be missing, and one may stand before the first and behind the last parameter; there a
//! class must have a name.
//!
//! The text is one token of its statement, so its own length bounds what reading it takes, and its parts are no more
//! than a type may have. A class that is a type of CQL is that type, under whichever name. What has no such type
//! (composites, UUIDs in lexical order) is refused, and so is a class that does not exist. Not here: the names that
//! results carry (`frame/response/option.rs`).

use std::sync::Arc;

use model::CqlType;
use model::limits::{TYPE_BYTES_MAX, TYPE_PART_BYTES};

use super::{inside, no_duration};
use crate::error::{Error, Result};
use crate::lang::ast::TypeName;
use crate::limits::TYPE_NESTING_MAX;
use crate::steps::step;

/// Where classes are that are named without a package.
const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Bytes that an error shows of a text that is too long.
const CLASS_SHOWN_BYTES: usize = 100;

/// Classes of that package that are no type of CQL.
const NO_CQL_TYPES: [&str; 7] = [
    "ColumnToCollectionType",
    "CompositeType",
    "DynamicCompositeType",
    "LegacyTimeUUIDType",
    "LexicalUUIDType",
    "PartitionerDefinedOrder",
    "ReversedType",
];

/// The type whose class `text` names.
pub(super) fn resolve_class(text: &str) -> Result<CqlType> {
    if text.len() > TYPE_BYTES_MAX {
        let begin = &text[..text.floor_char_boundary(CLASS_SHOWN_BYTES)];
        let text = format!(
            "Error setting type {begin}...: a type has no more than {TYPE_BYTES_MAX} bytes"
        );
        return Err(Error::Syntax(text));
    }
    let mut reader =
        Reader { whole: text, rest: text, parts_left: TYPE_BYTES_MAX / TYPE_PART_BYTES };
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
    /// How many parts the type may still have.
    parts_left: usize,
}

impl<'t> Reader<'t> {
    fn class(&mut self, levels_left: u8) -> Result<CqlType> {
        let Some(levels_left) = levels_left.checked_sub(1) else {
            return Err(self.error(&format!("deeper than {TYPE_NESTING_MAX} levels")));
        };
        let Some(parts_left) = self.parts_left.checked_sub(1) else {
            let parts = TYPE_BYTES_MAX / TYPE_PART_BYTES;
            return Err(self.error(&format!("more than {parts} parts")));
        };
        self.parts_left = parts_left;
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
                if self.takes('(') && self.has_more() {
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
        step(1);
        let whole = || {
            step(self.whole.len());
            TypeName::Custom(self.whole.to_owned()).to_string()
        };
        inside(part.frozen(), whole).map(Arc::new)
    }

    fn vector(&mut self, levels_left: u8) -> Result<CqlType> {
        let class = "VectorType";
        if !self.takes('(') {
            return Err(self.wrong_definition(class));
        }
        let element = self.parameter(class, levels_left)?;
        // Whatever is in a vector is frozen with it.
        let element = Arc::new(element.frozen());
        let dimensions = match self.has_more() {
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
        let mut types = Vec::new();
        while self.has_more() {
            types.push(self.parameter(class, levels_left)?);
        }
        if types.is_empty() { Err(self.wrong_definition(class)) } else { Ok(types) }
    }

    /// A type in the parentheses of `class`, which has a name.
    fn parameter(&mut self, class: &str, levels_left: u8) -> Result<CqlType> {
        self.skip_blank();
        if !self.rest.starts_with(is_name_part) {
            return Err(self.wrong_definition(class));
        }
        self.class(levels_left)
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

fn is_name_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+-_.&".contains(c)
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
        "EmptyType" => CqlType::Empty,
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
    use crate::steps::steps_of;

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
            ("VectorType(Int32Type 2)", "vector<int, 2>"),
            ("ListType(,Int32Type)", "list<int>"),
            ("ListType(Int32Type,)", "list<int>"),
            ("MapType(Int32Type UTF8Type)", "map<int, text>"),
            ("Int32Type( , )", "int"),
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
            ("TupleType()", "Invalid definition for comparator"),
            ("ListType((Int32Type))", "Invalid definition for comparator"),
            ("VectorType(,2)", "Invalid definition for comparator"),
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

    /// Before: the element kept its collection as it was, and `vector<list<int>, 2>` was shown.
    #[test]
    fn the_element_of_a_vector_class_is_frozen() {
        for (class, ty) in [
            ("VectorType(ListType(Int32Type), 2)", "vector<frozen<list<int>>, 2>"),
            (
                "VectorType(VectorType(SetType(UTF8Type),3), 2)",
                "vector<vector<frozen<set<text>>, 3>, 2>",
            ),
        ] {
            assert_eq!(shown(class), ty, "{class}");
        }
    }

    /// Before: no class between two commas was a blob, where Cassandra refuses it.
    #[test]
    fn a_parameter_without_a_class_is_refused() {
        for class in ["TupleType(,,)", "MapType(,)", "TupleType(Int32Type,,UTF8Type)", "ListType()"]
        {
            assert!(shown(class).contains("Invalid definition for comparator"), "{class}");
        }
    }

    /// Before: the whole text was copied for each element, a minute for a text of 1 MiB.
    #[test]
    fn the_text_of_a_class_is_not_copied_for_each_element() {
        let of = |parts: usize| format!("TupleType({})", "Int32Type,".repeat(parts));
        let text = of(10_000);
        let (steps, ty) = steps_of(|| resolve_class(&text));
        assert!(ty.is_ok());
        assert!(steps <= text.len(), "{steps} for {} bytes", text.len());
        assert!(shown(&of(TYPE_BYTES_MAX / TYPE_PART_BYTES)).contains("more than 65536 parts"));
        let long = shown(&of(TYPE_BYTES_MAX));
        assert!(long.contains("no more than 1048576 bytes") && long.len() < 300, "{long}");
    }

    #[test]
    fn deep_nesting_is_refused_before_the_stack_ends() {
        let nested = |levels: usize| "ListType(".repeat(levels) + "Int32Type" + &")".repeat(levels);
        assert!(resolve_class(&nested(16)).is_ok());
        assert!(shown(&nested(100_000)).contains("deeper than"));
    }
}

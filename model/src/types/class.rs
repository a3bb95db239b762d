//! Types by the names of Cassandra's classes: the way there, and back (`class/reader.rs`).
//!
//! Drivers and tools parse these names, so they are Cassandra's to the letter: `toString` of its `AbstractType`s.
//!
//! ```text
//! map<int, frozen<list<text>>>   MapType(Int32Type,FrozenType(ListType(UTF8Type)))     each with its package before it
//! user type                      UserType(keyspace,hex of its name,hex of a field's name:class,..)
//! vector<float, 3>               VectorType(FloatType , 3)
//! ```
//!
//! Invariants: `parse_class` reads every name that is made here; inside of a frozen type and of a tuple `FrozenType`
//! does not stand again, since everything there is frozen.
//!
//! Not here: types as CQL writes them (`types.rs`), where the native protocol uses these names
//! (`cql/src/frame/response/option.rs`), classes in statements (`cql/src/types/marshal.rs`).

mod reader;

use std::fmt::{self, Display, Formatter};

pub use reader::parse_class;

use super::{Component, CqlType, CustomType};

/// Where classes are that are named without a package.
const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// The name of the class that is this type, with its package and its parameters.
pub fn class_name(ty: &CqlType) -> impl Display + '_ {
    ClassName { ty, show_frozen: true }
}

/// A class with its parameters. Inside a frozen type and a tuple everything is frozen, so that the word is not
/// repeated.
struct ClassName<'a> {
    ty: &'a CqlType,
    show_frozen: bool,
}

impl Display for ClassName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let frozen = match self.ty {
            CqlType::List { frozen, .. }
            | CqlType::Set { frozen, .. }
            | CqlType::Map { frozen, .. }
            | CqlType::Udt { frozen, .. } => *frozen && self.show_frozen,
            _ => false,
        };
        let of = |ty| ClassName { ty, show_frozen: self.show_frozen && !frozen };
        if frozen {
            write!(f, "{PACKAGE}FrozenType(")?;
        }
        write!(f, "{PACKAGE}{}", class(self.ty))?;
        match self.ty {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                write!(f, "({})", of(element))?;
            }
            CqlType::Map { key, value, .. } => write!(f, "({},{})", of(key), of(value))?,
            CqlType::Tuple(elements) => {
                let within = |ty| ClassName { ty, show_frozen: false };
                parameters(f, elements.iter().map(within))?;
            }
            CqlType::Udt { definition, .. } => {
                write!(f, "({},{}", definition.keyspace, Hex(&definition.name))?;
                for (name, field) in &definition.fields {
                    write!(f, ",{}:{}", Hex(name), of(field))?;
                }
                f.write_str(")")?;
            }
            CqlType::Vector { element, dimensions } => {
                write!(f, "({} , {dimensions})", of(element))?;
            }
            CqlType::Custom(custom) => match &**custom {
                CustomType::Composite(parts) => parameters(f, parts.iter())?,
                CustomType::DynamicComposite(aliases) => {
                    parameters(f, aliases.iter().map(|(alias, part)| Aliased(*alias, part)))?;
                }
                CustomType::LexicalUuid => {}
            },
            _ => {}
        }
        if frozen { f.write_str(")") } else { Ok(()) }
    }
}

/// The parameters of a class, between parentheses.
fn parameters<P: Display>(f: &mut Formatter<'_>, parts: impl Iterator<Item = P>) -> fmt::Result {
    f.write_str("(")?;
    for (index, part) in parts.enumerate() {
        write!(f, "{}{part}", if index == 0 { "" } else { "," })?;
    }
    f.write_str(")")
}

/// A part of a dynamic composite that values call by one character.
struct Aliased<'a>(u8, &'a Component);

impl Display for Aliased<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}=>{}", char::from(self.0), self.1)
    }
}

impl Display for Component {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let class = class_name(&self.ty);
        if self.reversed { write!(f, "{PACKAGE}ReversedType({class})") } else { class.fmt(f) }
    }
}

impl Component {
    /// The name of its class without packages, as values of dynamic composites may say it.
    pub(crate) fn short_name(&self) -> String {
        self.to_string().replace(PACKAGE, "")
    }
}

fn class(ty: &CqlType) -> &'static str {
    match ty {
        CqlType::Ascii => "AsciiType",
        CqlType::Bigint => "LongType",
        CqlType::Blob => "BytesType",
        CqlType::Boolean => "BooleanType",
        CqlType::Counter => "CounterColumnType",
        CqlType::Date => "SimpleDateType",
        CqlType::Decimal => "DecimalType",
        CqlType::Double => "DoubleType",
        CqlType::Duration => "DurationType",
        CqlType::Empty => "EmptyType",
        CqlType::Float => "FloatType",
        CqlType::Inet => "InetAddressType",
        CqlType::Int => "Int32Type",
        CqlType::Smallint => "ShortType",
        CqlType::Text => "UTF8Type",
        CqlType::Time => "TimeType",
        CqlType::Timestamp => "TimestampType",
        CqlType::Timeuuid => "TimeUUIDType",
        CqlType::Tinyint => "ByteType",
        CqlType::Uuid => "UUIDType",
        CqlType::Varint => "IntegerType",
        CqlType::List { .. } => "ListType",
        CqlType::Set { .. } => "SetType",
        CqlType::Map { .. } => "MapType",
        CqlType::Tuple(_) => "TupleType",
        CqlType::Udt { .. } => "UserType",
        CqlType::Vector { .. } => "VectorType",
        CqlType::Custom(custom) => match &**custom {
            CustomType::Composite(_) => "CompositeType",
            CustomType::DynamicComposite(_) => "DynamicCompositeType",
            CustomType::LexicalUuid => "LexicalUUIDType",
        },
    }
}

/// The type that a class without parameters is.
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
        // A class of the driver's UUIDs with the same values and the same order, which the schema calls timeuuid.
        "TimeUUIDType" | "LegacyTimeUUIDType" => CqlType::Timeuuid,
        "ByteType" => CqlType::Tinyint,
        "UUIDType" => CqlType::Uuid,
        "IntegerType" => CqlType::Varint,
        "LexicalUUIDType" => CqlType::Custom(CustomType::LexicalUuid.into()),
        _ => return None,
    })
}

/// Names inside class names are written as the hex digits of their bytes.
struct Hex<'a>(&'a str);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

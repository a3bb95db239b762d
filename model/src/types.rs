//! CQL types: their names, which bytes are a value of theirs, and how two values compare.
//!
//! A value is its CQL wire bytes (native protocol v4 §6) and nothing else; there is no tree of
//! boxed values. A collection is `[int count]` then `[int bytes]` + bytes for each element. Empty
//! bytes are a value of most fixed-width types, older than all others: Cassandra's legacy "empty".
//!
//! Not here: literals (`cql`), the order-preserving form (`ordered.rs`).

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use user_type::{Extent, NewUserType};

use crate::limits::{
    CUSTOM_TYPE_LEVELS, TYPE_BYTES_MAX, TYPE_DEPTH_MAX, TYPE_PART_BYTES, USER_TYPE_LEVELS,
    VECTOR_DIMENSIONS_MAX,
};
use crate::steps::step;
use crate::{Error, Result};

/// A type of a column, a bind marker, a term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are CQL's own names")]
pub enum CqlType {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    /// What only the empty value is of: the value column of a compact table that declares none.
    Empty,
    Float,
    Inet,
    Int,
    Smallint,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    Varint,
    /// The type `list<element>`, ordered by position.
    List {
        element: Arc<CqlType>,
        frozen: bool,
    },
    /// The type `set<element>`, ordered by value.
    Set {
        element: Arc<CqlType>,
        frozen: bool,
    },
    /// The type `map<key, value>`, ordered by key.
    Map {
        key: Arc<CqlType>,
        value: Arc<CqlType>,
        frozen: bool,
    },
    /// `tuple<...>`, always frozen
    Tuple(Arc<[CqlType]>),
    /// A user-defined type
    Udt {
        definition: Arc<UserType>,
        frozen: bool,
    },
    /// The type `vector<element, dimensions>`, of fixed length.
    Vector {
        element: Arc<CqlType>,
        dimensions: u32,
    },
    /// A class of Cassandra that is no type of CQL
    Custom(Arc<CustomType>),
}

impl CqlType {
    /// The scalar types with their names in CQL, by name. `varchar` is another name of `text`.
    pub const SCALARS: [(&'static str, CqlType); 20] = [
        ("ascii", CqlType::Ascii),
        ("bigint", CqlType::Bigint),
        ("blob", CqlType::Blob),
        ("boolean", CqlType::Boolean),
        ("counter", CqlType::Counter),
        ("date", CqlType::Date),
        ("decimal", CqlType::Decimal),
        ("double", CqlType::Double),
        ("duration", CqlType::Duration),
        ("float", CqlType::Float),
        ("inet", CqlType::Inet),
        ("int", CqlType::Int),
        ("smallint", CqlType::Smallint),
        ("text", CqlType::Text),
        ("time", CqlType::Time),
        ("timestamp", CqlType::Timestamp),
        ("timeuuid", CqlType::Timeuuid),
        ("tinyint", CqlType::Tinyint),
        ("uuid", CqlType::Uuid),
        ("varint", CqlType::Varint),
    ];

    /// The scalar type of that CQL name, `varchar` included; names are lower case.
    pub fn scalar(name: &str) -> Option<CqlType> {
        let name = if name == "varchar" { "text" } else { name };
        let found = CqlType::SCALARS.iter().find(|(scalar, _)| *scalar == name);
        found.map(|(_, ty)| ty.clone())
    }

    /// Whether values are stored as one cell per element.
    pub fn is_multi_cell(&self) -> bool {
        matches!(
            self,
            CqlType::List { frozen: false, .. }
                | CqlType::Set { frozen: false, .. }
                | CqlType::Map { frozen: false, .. }
                | CqlType::Udt { frozen: false, .. }
        )
    }

    /// Whether its values are written as one constant: it is made of no other types, or a class that is no type of CQL.
    pub fn is_scalar(&self) -> bool {
        let made = matches!(self, CqlType::Tuple(_) | CqlType::Udt { .. } | CqlType::Vector { .. });
        !made && !self.is_collection()
    }

    /// Whether this is a list, set or map.
    pub fn is_collection(&self) -> bool {
        matches!(self, CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. })
    }

    /// The type with collections and user types inside frozen, as inside another collection.
    pub fn frozen(&self) -> CqlType {
        let mut ty = self.clone();
        match &mut ty {
            CqlType::List { frozen, .. }
            | CqlType::Set { frozen, .. }
            | CqlType::Map { frozen, .. }
            | CqlType::Udt { frozen, .. } => *frozen = true,
            _ => {}
        }
        ty
    }

    /// This type as one that is not frozen, where it can be either.
    pub fn unfrozen(&self) -> CqlType {
        let mut ty = self.clone();
        match &mut ty {
            CqlType::List { frozen, .. }
            | CqlType::Set { frozen, .. }
            | CqlType::Map { frozen, .. }
            | CqlType::Udt { frozen, .. } => *frozen = false,
            _ => {}
        }
        ty
    }

    /// Whether a value is several others one behind the other, of a class that is no type of CQL.
    pub fn is_composite(&self) -> bool {
        matches!(self, CqlType::Custom(custom) if **custom != CustomType::LexicalUuid)
    }

    /// The types this one is directly made of.
    pub fn parts(&self) -> Vec<&CqlType> {
        match self {
            CqlType::List { element, .. }
            | CqlType::Set { element, .. }
            | CqlType::Vector { element, .. } => vec![element],
            CqlType::Map { key, value, .. } => vec![key, value],
            CqlType::Tuple(parts) => parts.iter().collect(),
            CqlType::Udt { definition, .. } => definition.fields.iter().map(|(_, ty)| ty).collect(),
            CqlType::Custom(custom) => custom.components().iter().map(|part| &part.ty).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the user type of that name is anywhere in this type.
    pub fn mentions(&self, user_type: &str) -> bool {
        let is_it = matches!(self, CqlType::Udt { definition, .. } if definition.name == user_type);
        is_it || self.parts().into_iter().any(|part| part.mentions(user_type))
    }

    /// This type with the new definition of a user type wherever it stands.
    #[must_use]
    pub fn with_user_type(&self, new: &Arc<UserType>) -> CqlType {
        self.with_user_types(&|known| new.replaces(known))
    }

    /// This type with what `new` has for each user type in it; where it has nothing, for those inside.
    #[must_use]
    pub fn with_user_types(&self, new: NewUserType<'_>) -> CqlType {
        let inside = |ty: &Arc<CqlType>| Arc::new(ty.with_user_types(new));
        match self.clone() {
            CqlType::List { element, frozen } => {
                CqlType::List { element: inside(&element), frozen }
            }
            CqlType::Set { element, frozen } => CqlType::Set { element: inside(&element), frozen },
            CqlType::Map { key, value, frozen } => {
                CqlType::Map { key: inside(&key), value: inside(&value), frozen }
            }
            CqlType::Tuple(parts) => {
                CqlType::Tuple(parts.iter().map(|part| part.with_user_types(new)).collect())
            }
            CqlType::Vector { element, dimensions } => {
                CqlType::Vector { element: inside(&element), dimensions }
            }
            CqlType::Udt { definition, frozen } => {
                let whole = new(&definition);
                let definition = whole.unwrap_or_else(|| definition.with_user_types(new).into());
                CqlType::Udt { definition, frozen }
            }
            CqlType::Custom(custom) => {
                CqlType::Custom(custom.map(|part| part.with_user_types(new)).into())
            }
            scalar => scalar,
        }
    }

    /// Whether values that compare equal may look different: decimals, and what is made of them.
    pub fn has_scale(&self) -> bool {
        *self == CqlType::Decimal || self.parts().into_iter().any(CqlType::has_scale)
    }

    /// Bytes of every non-empty value of a scalar, if they are always as many.
    pub fn fixed_bytes(&self) -> Option<usize> {
        Some(match self {
            CqlType::Boolean | CqlType::Tinyint => 1,
            CqlType::Smallint => 2,
            CqlType::Int | CqlType::Float | CqlType::Date => 4,
            CqlType::Bigint
            | CqlType::Counter
            | CqlType::Double
            | CqlType::Time
            | CqlType::Timestamp => 8,
            CqlType::Uuid | CqlType::Timeuuid => 16,
            CqlType::Custom(custom) if **custom == CustomType::LexicalUuid => 16,
            _ => return None,
        })
    }

    /// Refuses a type nested too deep or a vector too long.
    pub fn check_limits(&self) -> Result<()> {
        self.check_parts(TYPE_DEPTH_MAX, &mut { TYPE_BYTES_MAX }).map(|_| ())
    }

    /// The levels that the type takes. `bytes_left` is what the description may still take: the walk ends when it is
    /// spent, however often user types multiply each other. A user type that was walked is not walked again, unless to
    /// say what of it is too much.
    fn check_parts(&self, levels_left: u32, bytes_left: &mut usize) -> Result<u32> {
        step(1);
        let bytes_before = *bytes_left;
        if let CqlType::Udt { definition, .. } = self
            && let Some(extent) = definition.extent()
            && extent.levels <= levels_left
            && extent.bytes <= bytes_before
        {
            *bytes_left -= extent.bytes;
            return Ok(extent.levels);
        }
        let mut spend = |bytes: usize| {
            let left = bytes_left.checked_sub(bytes);
            left.map(|left| *bytes_left = left).ok_or_else(|| {
                Error::invalid(format!(
                    "type too large: its parts, at {TYPE_PART_BYTES} bytes each, and their names take more than {TYPE_BYTES_MAX} bytes"
                ))
            })
        };
        spend(TYPE_PART_BYTES)?;
        let levels = match self {
            CqlType::Udt { .. } => USER_TYPE_LEVELS,
            CqlType::Custom(_) => CUSTOM_TYPE_LEVELS,
            _ => 1,
        };
        let left = levels_left.checked_sub(levels).ok_or_else(|| {
            Error::invalid(format!("type nested deeper than {TYPE_DEPTH_MAX} levels"))
        })?;
        match self {
            CqlType::Udt { definition, .. } => {
                spend(definition.keyspace.len() + definition.name.len())?;
                definition.fields.iter().try_for_each(|(name, _)| spend(name.len()))?;
            }
            CqlType::Vector { dimensions, .. }
                if *dimensions == 0 || *dimensions > VECTOR_DIMENSIONS_MAX =>
            {
                return Err(Error::invalid(format!(
                    "vectors may only have 1 to {VECTOR_DIMENSIONS_MAX} dimensions, not {dimensions}"
                )));
            }
            CqlType::Custom(custom) => custom.check_aliases()?,
            _ => {}
        }
        let mut inside = 0;
        for part in self.parts() {
            inside = part.check_parts(left, bytes_left)?.max(inside);
        }
        let levels = levels + inside;
        if let CqlType::Udt { definition, .. } = self {
            definition.keep_extent(Extent { levels, bytes: bytes_before - *bytes_left });
        }
        Ok(levels)
    }

    /// Whether `value` is one of this type's; the error begins as Cassandra's.
    pub fn validate(&self, value: &[u8]) -> Result<()> {
        check::validate(self, value)
    }

    /// Whether equal values have one ordered form for ever: not if a user type in it may have grown without saying
    /// where its values end.
    pub fn keeps_its_form(&self) -> bool {
        let grows = matches!(self, CqlType::Udt { definition, .. } if !definition.ended);
        !grows && self.parts().into_iter().all(CqlType::keeps_its_form)
    }

    /// Whether the value of no bytes is one as any other, and no null in disguise.
    pub fn has_empty_value(&self) -> bool {
        matches!(self, CqlType::Text | CqlType::Ascii | CqlType::Blob) || self.is_composite()
    }

    /// Order of two valid values, as clustering by this type has it.
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // Integers first, although `order_of` asks, too: for them no `Compared` is made and dropped.
        compared::of_integers(self, a, b).unwrap_or_else(|| Compared::new(self, b).order_of(a))
    }

    /// Puts the values of an IN into the order in which filters search them.
    pub fn sort(&self, values: &mut [Box<[u8]>]) {
        compared::sort(self, values);
    }

    /// Whether values are equal only if their bytes are. A number may be written in several ways, and the fields at the
    /// end of a tuple may be left out.
    pub(crate) fn equals_by_bytes(&self) -> bool {
        match self {
            CqlType::Ascii
            | CqlType::Bigint
            | CqlType::Blob
            | CqlType::Counter
            | CqlType::Date
            | CqlType::Duration
            | CqlType::Empty
            | CqlType::Inet
            | CqlType::Int
            | CqlType::Smallint
            | CqlType::Text
            | CqlType::Time
            | CqlType::Timestamp
            | CqlType::Timeuuid
            | CqlType::Tinyint
            | CqlType::Uuid => true,
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                element.equals_by_bytes()
            }
            CqlType::Map { key, value, .. } => key.equals_by_bytes() && value.equals_by_bytes(),
            CqlType::Boolean
            | CqlType::Custom(_)
            | CqlType::Decimal
            | CqlType::Double
            | CqlType::Float
            | CqlType::Tuple(_)
            | CqlType::Udt { .. }
            | CqlType::Varint
            | CqlType::Vector { .. } => false,
        }
    }

    /// Whether values compare as numbers of 4 or 8 bytes.
    pub(crate) fn is_integer(&self) -> bool {
        matches!(
            self,
            CqlType::Int | CqlType::Bigint | CqlType::Counter | CqlType::Time | CqlType::Timestamp
        )
    }

    /// Whether the order of values is that of their bytes.
    pub fn compares_bytes(&self) -> bool {
        matches!(
            self,
            CqlType::Ascii | CqlType::Text | CqlType::Blob | CqlType::Inet | CqlType::Date
        )
    }
}

impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scalar = match self {
            CqlType::Ascii => "ascii",
            CqlType::Bigint => "bigint",
            CqlType::Blob => "blob",
            CqlType::Boolean => "boolean",
            CqlType::Counter => "counter",
            CqlType::Date => "date",
            CqlType::Decimal => "decimal",
            CqlType::Double => "double",
            CqlType::Duration => "duration",
            CqlType::Empty => "empty",
            CqlType::Float => "float",
            CqlType::Inet => "inet",
            CqlType::Int => "int",
            CqlType::Smallint => "smallint",
            CqlType::Text => "text",
            CqlType::Time => "time",
            CqlType::Timestamp => "timestamp",
            CqlType::Timeuuid => "timeuuid",
            CqlType::Tinyint => "tinyint",
            CqlType::Uuid => "uuid",
            CqlType::Varint => "varint",
            CqlType::List { element, frozen } => {
                return frozen_name(f, *frozen, &format_args!("list<{element}>"));
            }
            CqlType::Set { element, frozen } => {
                return frozen_name(f, *frozen, &format_args!("set<{element}>"));
            }
            CqlType::Map { key, value, frozen } => {
                return frozen_name(f, *frozen, &format_args!("map<{key}, {value}>"));
            }
            CqlType::Tuple(parts) => {
                f.write_str("frozen<tuple<")?;
                for (i, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if i == 0 { "" } else { ", " })?;
                }
                return f.write_str(">>");
            }
            CqlType::Udt { definition, frozen } => {
                return frozen_name(f, *frozen, &Name(&definition.name));
            }
            CqlType::Vector { element, dimensions } => {
                return write!(f, "vector<{element}, {dimensions}>");
            }
            CqlType::Custom(_) => return write!(f, "'{}'", class_name(self)),
        };
        f.write_str(scalar)
    }
}

fn frozen_name(f: &mut fmt::Formatter<'_>, frozen: bool, name: &dyn fmt::Display) -> fmt::Result {
    if frozen { write!(f, "frozen<{name}>") } else { write!(f, "{name}") }
}

mod check;
mod class;
mod compared;
mod custom;
mod hex;
mod name;
mod similarity;
mod user_type;
mod vector;
pub mod vint;
pub use check::{Elements, collection_elements, tuple_fields};
pub use class::{class_name, parse_class};
pub use compared::Compared;
pub(crate) use compared::{OrderedForm, encoded, is_among, of_integers};
pub(crate) use custom::{ALIAS, STATIC_MARK};
pub use custom::{Component, CustomType, Part, Parts};
pub use hex::{hex, unhex};
pub use name::{Name, RESERVED_WORDS};
pub use similarity::{Similarity, cosine, cosine_of_short, dot_product, floats, square_distance};
pub use user_type::{Redefined, UserType};
pub use vector::{current_form, put_vector_element, vector_elements};

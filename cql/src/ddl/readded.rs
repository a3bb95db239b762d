//! Which type a column may have that comes back after it was dropped: Cassandra's `isSerializationCompatibleWith`.
//!
//! ```text
//! text ─► blob     timestamp ─► bigint     tuple<int> ─► tuple<int, text>     map<int, text> ─► map<int, blob>
//! ```
//!
//! 1. What was written can be read as the new type. 2. Both have one width, if values of either have a fixed one.
//! 3. Keys of maps and elements of sets keep their order.
//!
//! A column that comes back with another type has another id, so what was dropped stays gone (`model/src/schema/table.rs`).

use model::CqlType;
use model::types::{Component, CustomType};

/// Whether a column of type `was` may come back as `ty`.
pub(super) fn may_follow(ty: &CqlType, was: &CqlType) -> bool {
    if ty.is_multi_cell() != was.is_multi_cell() || width(ty) != width(was) {
        return false;
    }
    let value = |ty: &CqlType| match ty {
        CqlType::List { element, .. } => Some(element.clone()),
        CqlType::Map { value, .. } => Some(value.clone()),
        _ => None,
    };
    reads(ty, was) && value(ty).zip(value(was)).is_none_or(|(ty, was)| may_follow(&ty, &was))
}

/// Whether values of `was` can be read as `ty`.
fn reads(ty: &CqlType, was: &CqlType) -> bool {
    use CqlType::*;
    match (ty, was) {
        (ty, was) if ty == was => true,
        (Blob, List { .. } | Set { .. } | Map { .. } | Vector { .. }) => false,
        (Blob, _) | (Text, Ascii) | (Uuid, Timeuuid) => true,
        (Bigint, Timestamp) | (Timestamp, Bigint) => true,
        (Varint, Int | Bigint) | (Time, Bigint) | (Date, Int) => true,
        (Tuple(parts), Tuple(known)) => grows(parts, known.iter()),
        (Tuple(parts), Udt { definition, .. }) => {
            grows(parts, definition.fields.iter().map(|(_, ty)| ty))
        }
        (List { element, .. }, List { element: known, .. }) => reads(element, known),
        (Set { element, .. }, Set { element: known, .. }) => sorts_as(element, known),
        (Map { key, value, .. }, Map { key: known_key, value: known, .. }) => {
            sorts_as(key, known_key) && reads(value, known)
        }
        (Custom(class), Custom(known)) => match (&**class, &**known) {
            (CustomType::Composite(parts), CustomType::Composite(known)) => {
                let same = |(known, part): (&Component, &Component)| {
                    known.reversed == part.reversed && reads(&part.ty, &known.ty)
                };
                known.len() <= parts.len() && known.iter().zip(parts).all(same)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether a tuple of these parts begins with those that were known.
fn grows<'t>(parts: &[CqlType], known: impl ExactSizeIterator<Item = &'t CqlType>) -> bool {
    known.len() <= parts.len() && known.zip(parts).all(|(known, part)| reads(part, known))
}

/// Whether values of both types have one order.
fn sorts_as(ty: &CqlType, was: &CqlType) -> bool {
    use CqlType::*;
    ty == was || matches!((ty, was), (Blob, Ascii | Text) | (Text, Ascii))
}

/// How many bytes each value of the type has, as Cassandra counts; `None` if it does not.
fn width(ty: &CqlType) -> Option<usize> {
    use CqlType::*;
    match ty {
        Tinyint | Smallint | Date | Time => None,
        scalar => scalar.fixed_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cassandra_takes_back_is_taken_back() {
        use CqlType::*;
        let list = |element: CqlType, frozen| List { element: element.into(), frozen };
        let set = |element: CqlType| Set { element: element.into(), frozen: false };
        let map = |key: CqlType, value: CqlType| CqlType::Map {
            key: key.into(),
            value: value.into(),
            frozen: false,
        };
        let tuple = |parts: &[CqlType]| Tuple(parts.to_vec().into());
        let class = |text: &str| model::types::parse_class(text).expect("a class").ty;
        for (was, ty, taken) in [
            (Text, Blob, true),
            (Date, Blob, true),
            (Tinyint, Blob, true),
            (Int, Blob, false),
            (Int, Varint, false),
            (Int, Date, false),
            (Bigint, Time, false),
            (Timestamp, Bigint, true),
            (Timeuuid, Uuid, true),
            (Uuid, Timeuuid, false),
            (Blob, Text, false),
            (list(Int, false), list(Blob, false), false),
            (list(Text, false), list(Blob, false), true),
            (list(Text, true), list(Blob, true), true),
            (list(Int, false), list(Int, true), false),
            (list(Int, true), Blob, false),
            (list(Timestamp, false), list(Bigint, false), true),
            (set(Text), set(Blob), true),
            (set(Timestamp), set(Bigint), false),
            (set(Timeuuid), set(Uuid), false),
            (map(Int, Text), map(Int, Blob), true),
            (map(Text, Int), map(Blob, Int), true),
            (map(Timestamp, Int), map(Bigint, Int), false),
            (tuple(&[Int, Text]), tuple(&[Int, Text, Int]), true),
            (tuple(&[Int, Text, Int]), tuple(&[Int, Text]), false),
            (tuple(&[Int, Text]), tuple(&[Int, Blob]), true),
            (tuple(&[Int, Text]), Blob, true),
            (set(Int), list(Int, false), false),
            (class("CompositeType(Int32Type)"), class("CompositeType(Int32Type,UTF8Type)"), true),
            (class("CompositeType(Int32Type,UTF8Type)"), class("CompositeType(Int32Type)"), false),
            (class("CompositeType(Int32Type)"), class("CompositeType(UTF8Type)"), false),
            (class("CompositeType(Int32Type)"), Blob, true),
            (class("LexicalUUIDType"), class("CompositeType(Int32Type)"), false),
        ] {
            assert_eq!(may_follow(&ty, &was), taken, "{was} comes back as {ty}");
        }
    }
}

//! `[option]`: how the protocol names a type.
//!
//! A type that the version has no number for travels as a custom one, by the name of its Cassandra
//! class: vectors always, durations before v5, four small types before v4. Drivers parse these
//! names.

use model::types::{CqlType, class_name};

use super::super::header::Version;
use super::super::writer;

const CUSTOM: u16 = 0x0000;

/// Appends the notation of `ty`.
pub fn put_type(version: Version, ty: &CqlType, out: &mut Vec<u8>) {
    let Some(number) = number(version, ty) else {
        writer::short(out, CUSTOM);
        writer::string(out, &class_name(ty).to_string());
        return;
    };
    writer::short(out, number);
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            put_type(version, element, out);
        }
        CqlType::Map { key, value, .. } => {
            put_type(version, key, out);
            put_type(version, value, out);
        }
        CqlType::Tuple(elements) => {
            writer::short(out, writer::count(elements.len()));
            for element in elements.iter() {
                put_type(version, element, out);
            }
        }
        CqlType::Udt { definition, .. } => {
            writer::string(out, &definition.keyspace);
            writer::string(out, &definition.name);
            writer::short(out, writer::count(definition.fields.len()));
            for (name, field) in &definition.fields {
                writer::string(out, name);
                put_type(version, field, out);
            }
        }
        _ => {}
    }
}

/// The number of a type, if the version has one for it.
fn number(version: Version, ty: &CqlType) -> Option<u16> {
    let (number, since) = match ty {
        CqlType::Ascii => (0x01, Version::V3),
        CqlType::Bigint => (0x02, Version::V3),
        CqlType::Blob => (0x03, Version::V3),
        CqlType::Boolean => (0x04, Version::V3),
        CqlType::Counter => (0x05, Version::V3),
        CqlType::Decimal => (0x06, Version::V3),
        CqlType::Double => (0x07, Version::V3),
        CqlType::Float => (0x08, Version::V3),
        CqlType::Int => (0x09, Version::V3),
        CqlType::Timestamp => (0x0B, Version::V3),
        CqlType::Uuid => (0x0C, Version::V3),
        CqlType::Text => (0x0D, Version::V3),
        CqlType::Varint => (0x0E, Version::V3),
        CqlType::Timeuuid => (0x0F, Version::V3),
        CqlType::Inet => (0x10, Version::V3),
        CqlType::Date => (0x11, Version::V4),
        CqlType::Time => (0x12, Version::V4),
        CqlType::Smallint => (0x13, Version::V4),
        CqlType::Tinyint => (0x14, Version::V4),
        CqlType::Duration => (0x15, Version::V5),
        CqlType::List { .. } => (0x20, Version::V3),
        CqlType::Map { .. } => (0x21, Version::V3),
        CqlType::Set { .. } => (0x22, Version::V3),
        CqlType::Udt { .. } => (0x30, Version::V3),
        CqlType::Tuple(_) => (0x31, Version::V3),
        CqlType::Empty | CqlType::Vector { .. } | CqlType::Custom(_) => return None,
    };
    (version >= since).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Database;

    /// Declared type, its text in `system_schema`, its custom class: as Apache Cassandra 5.0.9 has
    /// them. Drivers parse the class, and gocql knows no `FrozenType` at its beginning.
    #[test]
    fn vectors_of_collections_and_user_types_are_named_as_they_were_declared() {
        const U1: &str = "UserType(ks,7531,61:Int32Type,62:UTF8Type)";
        let mut db = Database::new();
        db.ok("CREATE TYPE u1 (a int, b text)");
        db.ok(
            "CREATE TYPE u2 (a frozen<u1>, l list<int>, f frozen<list<int>>, s set<frozen<u1>>, t tuple<int, frozen<list<int>>>, v vector<int, 2>)",
        );
        let u2 = format!(
            "UserType(ks,7532,61:FrozenType({U1}),6c:ListType(Int32Type),66:FrozenType(ListType(Int32Type)),73:SetType(FrozenType({U1})),74:TupleType(Int32Type,ListType(Int32Type)),76:VectorType(Int32Type , 2))"
        );
        let cases = [
            ("vector<u1, 2>", "vector<u1, 2>", U1.to_owned()),
            ("vector<frozen<u1>, 2>", "vector<frozen<u1>, 2>", format!("FrozenType({U1})")),
            ("vector<u2, 2>", "vector<u2, 2>", u2),
            (
                "vector<vector<set<text>, 2>, 2>",
                "vector<vector<set<text>, 2>, 2>",
                "VectorType(SetType(UTF8Type) , 2)".to_owned(),
            ),
            (
                "vector<map<int, frozen<list<int>>>, 2>",
                "vector<map<int, frozen<list<int>>>, 2>",
                "MapType(Int32Type,FrozenType(ListType(Int32Type)))".to_owned(),
            ),
            (
                "vector<list<frozen<u1>>, 2>",
                "vector<list<frozen<u1>>, 2>",
                format!("ListType(FrozenType({U1}))"),
            ),
            (
                "vector<tuple<int, list<int>>, 2>",
                "vector<frozen<tuple<int, frozen<list<int>>>>, 2>",
                "TupleType(Int32Type,ListType(Int32Type))".to_owned(),
            ),
            (
                "vector<frozen<set<frozen<list<int>>>>, 2>",
                "vector<frozen<set<frozen<list<int>>>>, 2>",
                "FrozenType(SetType(ListType(Int32Type)))".to_owned(),
            ),
            (
                "frozen<vector<set<text>, 2>>",
                "vector<set<text>, 2>",
                "SetType(UTF8Type)".to_owned(),
            ),
            ("vector<smallint, 2>", "vector<smallint, 2>", "ShortType".to_owned()),
        ];
        for (index, (declared, shown, element)) in cases.iter().enumerate() {
            db.ok(&format!("CREATE TABLE t{index} (k int PRIMARY KEY, v {declared})"));
            let table = db.schema.table("ks", &format!("t{index}")).expect("just made");
            let ty = &table.column("v").expect("it has one").ty;
            assert_eq!(&ty.to_string(), shown, "{declared}");
            let class = class_name(ty).to_string().replace("org.apache.cassandra.db.marshal.", "");
            assert_eq!(class, format!("VectorType({element} , 2)"), "{declared}");
        }
        for (declared, shown) in [
            ("frozen<list<vector<set<int>, 2>>>", "frozen<list<vector<set<int>, 2>>>"),
            ("tuple<vector<u1, 2>>", "frozen<tuple<vector<u1, 2>>>"),
            ("list<tuple<int, u1>>", "list<frozen<tuple<int, frozen<u1>>>>"),
            ("frozen<map<int, map<int, text>>>", "frozen<map<int, frozen<map<int, text>>>>"),
        ] {
            db.ok(&format!("CREATE TABLE s (k int PRIMARY KEY, v {declared})"));
            let table = db.schema.table("ks", "s").expect("just made");
            assert_eq!(table.column("v").expect("it has one").ty.to_string(), shown);
            db.ok("DROP TABLE s");
        }
    }
}

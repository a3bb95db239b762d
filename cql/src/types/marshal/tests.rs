//! Names of classes: what they are, and how they are refused.

use model::limits::{TYPE_BYTES_MAX, TYPE_PART_BYTES};

use super::*;
use crate::steps::steps_of;

fn shown(text: &str) -> String {
    match resolve_class(text, "ks", &Schema::default()) {
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
        ("TupleType()", "frozen<tuple<>>"),
        ("ReversedType(Int32Type)", "int"),
        ("SetType(ReversedType(Int32Type))", "set<int>"),
        ("LegacyTimeUUIDType", "timeuuid"),
        ("LexicalUUIDType", "'LexicalUUIDType'"),
        ("FrozenType(CompositeType(Int32Type))", "'CompositeType(Int32Type)'"),
        ("CompositeType", "'CompositeType()'"),
        (
            "CompositeType(CompositeType(Int32Type),ReversedType(UTF8Type),ListType(Int32Type),VectorType(FloatType,2))",
            "'CompositeType(CompositeType(Int32Type),ReversedType(UTF8Type),ListType(Int32Type),VectorType(FloatType , 2))'",
        ),
        ("DynamicCompositeType()", "'DynamicCompositeType()'"),
        // The order of Java's hash map.
        (
            "DynamicCompositeType(a => Int32Type,b=>UTF8Type,A=>LongType,0=>LongType,z=>ReversedType(TimeUUIDType))",
            "'DynamicCompositeType(0=>LongType,a=>Int32Type,A=>LongType,b=>UTF8Type,z=>ReversedType(TimeUUIDType))'",
        ),
        ("DynamicCompositeType(a=>Int32Type,a=>UTF8Type)", "'DynamicCompositeType(a=>UTF8Type)'"),
    ] {
        let shown = shown(class).replace("org.apache.cassandra.db.marshal.", "");
        assert_eq!(shown, ty, "{class}");
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
        ("ListType((Int32Type))", "Invalid definition for comparator"),
        ("VectorType(,2)", "Invalid definition for comparator"),
        ("Int32Type)", "unexpected ')' behind it"),
        (
            "ListType(foo)",
            "Invalid definition for comparator org.apache.cassandra.db.marshal.ListType",
        ),
        ("CompositeType(Int32Type,,)", "Invalid definition for comparator"),
        ("DynamicCompositeType(aa=>Int32Type)", "Invalid definition for comparator"),
        ("DynamicCompositeType(a= >Int32Type)", "Invalid definition for comparator"),
        ("ReversedType(Int32Type,Int32Type)", "Invalid definition for comparator"),
        ("UserType(ks,75,61:Int32Type)", "Unknown type ks.u of these fields"),
        ("CompositeType(UserType(ks,75))", "Unknown type ks.u of these fields"),
        ("PartitionerDefinedOrder", "no value is of the class"),
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
    for class in ["TupleType(,,)", "MapType(,)", "TupleType(Int32Type,,UTF8Type)", "ListType()"] {
        assert!(shown(class).contains("Invalid definition for comparator"), "{class}");
    }
}

/// Before: the whole text was copied for each element, a minute for a text of 1 MiB.
#[test]
fn the_text_of_a_class_is_not_copied_for_each_element() {
    let of = |parts: usize| format!("TupleType({})", "Int32Type,".repeat(parts));
    let text = of(10_000);
    let (steps, ty) = steps_of(|| resolve_class(&text, "ks", &Schema::default()));
    assert!(ty.is_ok());
    assert!(steps <= text.len(), "{steps} for {} bytes", text.len());
    assert!(shown(&of(TYPE_BYTES_MAX / TYPE_PART_BYTES)).contains("more than 65536 parts"));
    let long = shown(&of(TYPE_BYTES_MAX));
    assert!(long.contains("no more than 1048576 bytes") && long.len() < 300, "{long}");
}

#[test]
fn deep_nesting_is_refused_before_the_stack_ends() {
    let nested = |levels: usize| "ListType(".repeat(levels) + "Int32Type" + &")".repeat(levels);
    assert!(resolve_class(&nested(16), "ks", &Schema::default()).is_ok());
    assert!(shown(&nested(100_000)).contains("deeper than"));
}

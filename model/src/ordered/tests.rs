//! For every type: order is kept, both ways, and the wire form comes back.

use std::cmp::Ordering;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::limits::CELL_BYTES_MAX;

fn encoded(ty: &CqlType, descending: bool, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_component(ty, descending, value, &mut out).expect("an orderable value");
    out
}

/// Checks order and round trip of two values whose order by type is `expected`.
fn check(ty: &CqlType, a: &[u8], b: &[u8], expected: Ordering) {
    let (x, y) = (encoded(ty, false, a), encoded(ty, false, b));
    assert_eq!(x.cmp(&y), expected, "{ty}: {a:?} {b:?}");
    let (x, y) = (encoded(ty, true, a), encoded(ty, true, b));
    assert_eq!(x.cmp(&y), expected.reverse(), "{ty} desc: {a:?} {b:?}");
    for descending in [false, true] {
        let mut bytes = encoded(ty, descending, a);
        assert!((0x01..0xFF).contains(&bytes[0]), "space for bounds on both sides");
        bytes.push(7);
        let mut reader = Reader::new(&bytes);
        let mut back = Vec::new();
        reader.component(ty, descending, &mut back).expect("what was just encoded");
        assert_eq!(reader.rest(), [7]);
        let (mut again, mut first) = (Vec::new(), Vec::new());
        encode(ty, &back, &mut again).expect("a decoded value");
        encode(ty, a, &mut first).expect("the value");
        assert_eq!(again, first, "{ty}");
        if !matches!(ty, CqlType::Varint | CqlType::Decimal) {
            assert_eq!(back, a, "{ty}");
        }
    }
}

fn decimal(unscaled: i64, scale: i8) -> Vec<u8> {
    let mut value = i32::from(scale).to_be_bytes().to_vec();
    value.extend_from_slice(&BigIntBytes::of(unscaled));
    value
}

struct BigIntBytes;

impl BigIntBytes {
    fn of(n: i64) -> Vec<u8> {
        num_bigint::BigInt::from(n).to_signed_bytes_be()
    }
}

proptest! {
    #[test]
    fn integers(a: i64, b: i64) {
        check(&CqlType::Bigint, &a.to_be_bytes(), &b.to_be_bytes(), a.cmp(&b));
        check(&CqlType::Timestamp, &a.to_be_bytes(), &b.to_be_bytes(), a.cmp(&b));
        let (a, b) = (a as i32, b as i32);
        check(&CqlType::Int, &a.to_be_bytes(), &b.to_be_bytes(), a.cmp(&b));
        let (x, y) = (a as u32, b as u32);
        check(&CqlType::Date, &x.to_be_bytes(), &y.to_be_bytes(), x.cmp(&y));
        let (a, b) = (a as i16, b as i16);
        check(&CqlType::Smallint, &a.to_be_bytes(), &b.to_be_bytes(), a.cmp(&b));
        let (a, b) = (a as i8, b as i8);
        check(&CqlType::Tinyint, &a.to_be_bytes(), &b.to_be_bytes(), a.cmp(&b));
    }

    #[test]
    fn floats(a: f64, b: f64) {
        prop_assume!(!a.is_nan() && !b.is_nan());
        check(&CqlType::Double, &a.to_be_bytes(), &b.to_be_bytes(), a.total_cmp(&b));
        let (a, b) = (a as f32, b as f32);
        check(&CqlType::Float, &a.to_be_bytes(), &b.to_be_bytes(), a.total_cmp(&b));
    }

    #[test]
    fn bytes(a in prop::collection::vec(0..3u8, 0..6), b in prop::collection::vec(0..3u8, 0..6)) {
        check(&CqlType::Blob, &a, &b, a.cmp(&b));
    }

    #[test]
    fn varints(a: i64, b: i64, small in -300..300i64) {
        check(&CqlType::Varint, &BigIntBytes::of(a), &BigIntBytes::of(b), a.cmp(&b));
        check(&CqlType::Varint, &BigIntBytes::of(a), &BigIntBytes::of(small), a.cmp(&small));
    }

    #[test]
    fn decimals(a in -2000..2000i64, b in -2000..2000i64, i in 0..4i8, j in 0..4i8) {
        let expected = (a * 10i64.pow(4 - i as u32)).cmp(&(b * 10i64.pow(4 - j as u32)));
        check(&CqlType::Decimal, &decimal(a, i), &decimal(b, j), expected);
    }

    #[test]
    fn lists(a in prop::collection::vec(-2..2i32, 0..4), b in prop::collection::vec(-2..2i32, 0..4)) {
        let ty = CqlType::List { element: Arc::new(CqlType::Int), frozen: true };
        let wire = |list: &[i32]| {
            let mut out = (list.len() as i32).to_be_bytes().to_vec();
            list.iter().for_each(|n| out.extend([4i32.to_be_bytes(), n.to_be_bytes()].concat()));
            out
        };
        check(&ty, &wire(&a), &wire(&b), a.cmp(&b));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        for ty in [CqlType::Text, CqlType::Decimal, CqlType::Varint, CqlType::Uuid,
            CqlType::List { element: Arc::new(CqlType::Varint), frozen: true },
            of(&user_type(&[("a", CqlType::Int), ("b", CqlType::Text)]))] {
            let _ = Reader::new(&bytes).component(&ty, false, &mut Vec::new());
            let _ = encode(&ty, &bytes, &mut Vec::new());
        }
    }
}

#[test]
fn timeuuids_order_by_time_then_by_signed_bytes() {
    let uuid = |time_low: u8, lsb: u8| {
        let mut u = [0; 16];
        (u[3], u[6], u[15]) = (time_low, 0x10, lsb);
        u
    };
    check(&CqlType::Timeuuid, &uuid(1, 9), &uuid(2, 0), Ordering::Less);
    check(&CqlType::Timeuuid, &uuid(1, 0x80), &uuid(1, 0), Ordering::Less);
    check(&CqlType::Uuid, &uuid(1, 0x80), &uuid(1, 0), Ordering::Greater);
    let mut random = [0; 16];
    random[6] = 0x40;
    check(&CqlType::Uuid, &uuid(9, 9), &random, Ordering::Less);
}

#[test]
fn empty_is_before_everything() {
    check(&CqlType::Int, &[], &i32::MIN.to_be_bytes(), Ordering::Less);
    check(&CqlType::Text, b"", b"\0", Ordering::Less);
}

#[test]
fn a_tuple_with_a_null_field_comes_back() {
    let ty = CqlType::Tuple([CqlType::Int, CqlType::Text].into());
    let null_first = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 1, b'a'];
    let one_first = [0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, b'a'];
    check(&ty, &null_first, &one_first, Ordering::Less);
}

/// Found by fuzzing: without its trailing zeros the number has a scale that no decimal can have.
#[test]
fn a_decimal_at_the_end_of_scales_is_refused_as_a_key() {
    let mut value = i32::MIN.to_be_bytes().to_vec();
    value.push(10);
    assert!(matches!(encode(&CqlType::Decimal, &value, &mut Vec::new()), Err(Error::Invalid(_))));
}

fn fields(items: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        match item {
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
            Some(item) => out.extend([&(item.len() as i32).to_be_bytes()[..], item].concat()),
        }
    }
    out
}

fn user_type(fields: &[(&str, CqlType)]) -> UserType {
    let fields = fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect();
    UserType::new("ks", "foo", fields)
}

fn of(definition: &UserType) -> CqlType {
    CqlType::Udt { definition: Arc::new(definition.clone()), frozen: true }
}

/// A set, a map's keys and clustering columns keep what they held when a type got more fields.
#[test]
fn a_user_type_that_grew_reads_and_equals_what_it_was() {
    let old = user_type(&[("a", CqlType::Int)]);
    let new = user_type(&[("a", CqlType::Int), ("b", CqlType::Text)]);
    let one = 1i32.to_be_bytes();
    let short = fields(&[Some(&one)]);
    let padded = fields(&[Some(&one), None]);
    let longer = fields(&[Some(&one), Some(b"")]);
    let wraps: [fn(CqlType) -> CqlType; 4] = [
        |ty| ty,
        |ty| CqlType::Tuple([ty, CqlType::Int].into()),
        |ty| of(&user_type(&[("inner", ty)])),
        |ty| CqlType::Vector { element: Arc::new(ty), dimensions: 1 },
    ];
    let inside = |wrap: usize, value: &[u8]| match wrap {
        0 => value.to_vec(),
        1 => fields(&[Some(value), Some(&one)]),
        2 => fields(&[Some(value)]),
        _ => [&[value.len() as u8][..], value].concat(),
    };
    for (index, wrap) in wraps.iter().enumerate() {
        let (old, new) = (wrap(of(&old)), wrap(of(&new)));
        for descending in [false, true] {
            let before = encoded(&old, descending, &inside(index, &short));
            assert_eq!(before, encoded(&new, descending, &inside(index, &short)), "{index}");
            assert_eq!(before, encoded(&new, descending, &inside(index, &padded)), "{index}");
            let bytes = [&before[..], &encoded(&CqlType::Int, !descending, &one)].concat();
            let mut reader = Reader::new(&bytes);
            let mut back = Vec::new();
            reader.component(&new, descending, &mut back).expect("what was written before");
            assert_eq!(back, inside(index, &padded), "the new field is null");
            back.clear();
            reader.component(&CqlType::Int, !descending, &mut back).expect("what follows it");
            assert_eq!(back, one);
        }
        check(&new, &inside(index, &padded), &inside(index, &longer), Ordering::Less);
    }
}

/// Types made before user types had an end keep the bytes they have on disk.
#[test]
fn a_user_type_without_an_end_keeps_its_bytes() {
    let mut ty = user_type(&[("a", CqlType::Int), ("b", CqlType::Text)]);
    ty.ended = false;
    let one = 1i32.to_be_bytes();
    let padded = fields(&[Some(&one), None]);
    let bytes = encoded(&of(&ty), false, &padded);
    assert_eq!(bytes, [0x40, 0x40, 0x80, 0, 0, 1, 0x10]);
    check(&of(&ty), &padded, &fields(&[Some(&one), Some(b"x")]), Ordering::Less);
    // It grew, as such types could: what was written before ends where the key or the set does.
    ty.fields.push(("c".to_owned(), CqlType::Int));
    let mut back = Vec::new();
    decode(&of(&ty), &mut Reader::new(&bytes), &mut back).expect("the value of an element");
    assert_eq!(back, fields(&[Some(&one), None, None]));
    let list = CqlType::List { element: Arc::new(of(&ty)), frozen: true };
    back.clear();
    let bytes = [&[VALUE][..], &bytes, &bytes, &[END]].concat();
    assert!(decode(&list, &mut Reader::new(&bytes), &mut back).is_err(), "ambiguous: refused");
}

/// As Apache Cassandra 5.0.9 orders and equates them.
#[test]
fn every_nan_is_one_value_above_all_others_and_every_true_is_one() {
    let float = |bits: u32| bits.to_be_bytes().to_vec();
    let ascending = [0xFF80_0000u32, 0x8000_0000, 0, 0x7F80_0000, 0x7FC0_0000];
    for pair in ascending.windows(2) {
        check(&CqlType::Float, &float(pair[0]), &float(pair[1]), Ordering::Less);
    }
    for nan in [0x7FC0_0001u32, 0xFFC0_0000, 0xFF80_0001] {
        let other = encoded(&CqlType::Float, false, &float(nan));
        assert_eq!(other, encoded(&CqlType::Float, false, &float(0x7FC0_0000)));
    }
    let nan = (-f64::NAN).to_be_bytes();
    let one = encoded(&CqlType::Double, false, &f64::NAN.to_be_bytes());
    assert_eq!(encoded(&CqlType::Double, false, &nan), one);
    let yes = encoded(&CqlType::Boolean, false, &[1]);
    assert_eq!(encoded(&CqlType::Boolean, false, &[0xFF]), yes);
    check(&CqlType::Boolean, &[0], &[1], Ordering::Less);
}

/// As Apache Cassandra 5.0.9 gives back a set of them.
#[test]
fn vectors_of_variable_elements_order_element_by_element() {
    let ty = CqlType::Vector { element: Arc::new(CqlType::Text), dimensions: 2 };
    let ascending: [&[u8]; 5] =
        [b"\0\x01q", b"\x01a\x01b", b"\x01a\x02zz", b"\x02aa\x01b", b"\x01b\x01c"];
    for pair in ascending.windows(2) {
        check(&ty, pair[0], pair[1], Ordering::Less);
    }
    let ty = CqlType::Vector { element: Arc::new(CqlType::Smallint), dimensions: 2 };
    check(&ty, &[2, 0xFF, 0xFF, 2, 0, 2], &[2, 0, 1, 2, 0xFF, 0xFB], Ordering::Less);
    check(&ty, &[2, 0, 1, 2, 0xFF, 0xFB], &[2, 0, 1, 2, 0, 2], Ordering::Less);
}

#[test]
fn forged_decimals_are_malformed() {
    let read = |bytes: &[u8]| {
        let mut out = Vec::new();
        Reader::new(bytes).component(&CqlType::Decimal, false, &mut out).map(|_| out)
    };
    let mut exponent = encoded(&CqlType::Decimal, false, &decimal(1, 0));
    let at = exponent.iter().position(|byte| *byte == 0x80).expect("the exponent's sign");
    for smallest in [[0; 8], [0xFF; 8]] {
        exponent[at..at + 8].copy_from_slice(&smallest);
        assert!(read(&exponent).is_err(), "{exponent:?}");
    }
    // No end of digits.
    let mut digits = encoded(&CqlType::Decimal, false, &decimal(1, 0));
    let end = digits.pop().expect("the end of the digits");
    digits.extend(std::iter::repeat_n(10, 1 << 20));
    digits.push(end);
    assert!(read(&digits).is_err());
}

/// A tuple of so many ints, in a list.
fn list_of_tuples(fields: usize) -> CqlType {
    let tuple = CqlType::Tuple(vec![CqlType::Int; fields].into());
    CqlType::List { element: Arc::new(tuple), frozen: true }
}

/// A list of so many tuples, or values of user types, of which only the first field is there, and null.
fn list_of_short(count: usize) -> Vec<u8> {
    let item = [4i32.to_be_bytes(), (-1i32).to_be_bytes()].concat();
    [&(count as i32).to_be_bytes()[..], &item.repeat(count)].concat()
}

/// Before: two million tuples of 60,000 fields in 16 MiB became 120 GB of nulls.
#[test]
fn a_value_of_tuples_that_lack_their_fields_is_refused() {
    let ty = list_of_tuples(60_000);
    let value = list_of_short(2_000_000);
    assert_eq!(ty.validate(&value), Ok(()));
    let mut out = Vec::new();
    let refused = encode(&ty, &value, &mut out).expect_err("120 GB").to_string();
    assert!(refused.starts_with("a value takes more than 4 times its bytes"), "{refused}");
    assert!(out.len() <= form_bytes_max(value.len()) + (64 << 10), "{} bytes", out.len());
    // A few are what they were.
    let (ty, value) = (list_of_tuples(3), list_of_short(2));
    let form = encoded(&ty, false, &value);
    assert_eq!(form, [VALUE, VALUE, NULL, NULL, NULL, VALUE, NULL, NULL, NULL, END]);
    assert_eq!(FormWork::of(&ty, &value).missing_bytes(), 2 * 2 * 4);
    let mut back = Vec::new();
    decode(&ty, &mut Reader::new(&form), &mut back).expect("a list");
    assert_eq!(back.len(), value.len() + 2 * 2 * 4);
}

/// Before: a key of 64 KiB came back as 2 GB, after its type had got 60,000 fields.
#[test]
fn a_value_whose_type_has_grown_by_thousands_of_fields_is_refused() {
    let grown = |fields: usize| {
        let fields = (0..fields).map(|n| (format!("f{n}"), CqlType::Int)).collect();
        let element = of(&UserType::new("ks", "grown", fields));
        CqlType::List { element: Arc::new(element), frozen: true }
    };
    let form = encoded(&grown(1), false, &list_of_short(8_000));
    let mut back = Vec::new();
    decode(&grown(500), &mut Reader::new(&form), &mut back).expect("16 MB");
    assert_eq!(back.len(), 4 + 8_000 * (4 + 500 * 4));
    back.clear();
    let refused = decode(&grown(60_000), &mut Reader::new(&form), &mut back).expect_err("2 GB");
    assert!(refused.to_string().starts_with("a key or an element has more than"), "{refused}");
    assert!(back.len() <= CELL_BYTES_MAX + (256 << 10), "{} bytes", back.len());
    // All columns of a key together.
    let (twice, mut back) = (form.repeat(2), Vec::new());
    let (mut reader, ty) = (Reader::new(&twice), grown(300));
    reader.component(&ty, false, &mut back).expect("10 MB");
    assert!(reader.component(&ty, false, &mut back).is_err(), "20 MB");
    assert_eq!(
        FormWork::of(&grown(60_000), &list_of_short(8_000)).missing_bytes(),
        8_000 * 59_999 * 4
    );
}

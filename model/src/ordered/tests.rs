//! For every type: order is kept, both ways, and the wire form comes back.

use super::*;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::sync::Arc;

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
        assert!((0x01..0xFF).contains(&bytes[0]), "room for bounds on both sides");
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
            CqlType::List { element: Arc::new(CqlType::Varint), frozen: true }] {
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

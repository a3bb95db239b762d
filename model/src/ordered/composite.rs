//! The order-preserving form of the classes that are no type of CQL.
//!
//! ```text
//! composite := static component* 00            static: 01 of a static one, which stands first, else 02
//!   component := value end                     a component of `ordered.rs`, inverted if its class is reversed
//!                                              end: the byte of the value, its sign folded in
//! dynamic   := ( class component )* 00         class: its name without packages, escaped as a text
//! uuid      := the halves as signed numbers
//! ```
//!
//! A component begins with a byte above 00, so a composite stands before those that go on. Components of other classes
//! stand in the order of these classes' names, as in Cassandra, whether a value says the name or its alias: both are
//! one value, and come back as the alias.
//!
//! Invariant: what is encoded comes back as a value of the class. A value can be longer then, a user type that has all
//! its fields; what would be too long for its length is refused before it is stored.

use super::decode::{self, get_escaped};
use super::{END, Reader, put, put_escaped, sixteen};
use crate::limits::{CLASS_NAME_BYTES_MAX, COMPONENT_BYTES_MAX};
use crate::types::{ALIAS, Component, CustomType, Part, STATIC_MARK, parse_class};
use crate::{Error, Result};

const STATIC: u8 = 0x01;
const NOT_STATIC: u8 = 0x02;
/// Folds the sign of a byte in.
const SIGN: u8 = 0x80;

/// Appends the body of a value that is not empty.
pub(super) fn put_class(
    class: &CustomType,
    value: &[u8],
    form_end: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let is_dynamic = match class {
        CustomType::LexicalUuid => {
            out.extend(halves_flipped(sixteen(value)?));
            return Ok(());
        }
        CustomType::Composite(_) => false,
        CustomType::DynamicComposite(_) => true,
    };
    let (is_static, parts) = class.parts(value);
    if !is_dynamic {
        out.push(if is_static { STATIC } else { NOT_STATIC });
    }
    for part in parts {
        let part = part?;
        if is_dynamic {
            let name = part.component.short_name();
            if name.len() > CLASS_NAME_BYTES_MAX {
                return Err(Error::Malformed("the name of a class"));
            }
            put_escaped(name.as_bytes(), out);
        }
        put_part(&part, form_end, out)?;
    }
    out.push(END);
    Ok(())
}

fn put_part(part: &Part<'_>, form_end: usize, out: &mut Vec<u8>) -> Result<()> {
    let Component { ty, reversed } = &part.component;
    let start = out.len();
    put(ty, part.value, form_end, out)?;
    // What is made of others may come back longer: with fields that it did not have, or names of classes written out.
    if !ty.is_scalar() || ty.is_composite() {
        let mut again = Vec::new();
        decode::decode(ty, &mut Reader::new(&out[start..]), &mut again)?;
        length(again.len())?;
    }
    if *reversed {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    out.push(part.end.cast_unsigned() ^ SIGN);
    Ok(())
}

fn length(bytes: usize) -> Result<[u8; 2]> {
    let length = u16::try_from(bytes).map_err(|_| {
        Error::Invalid(format!(
            "a component of a composite has no more than {COMPONENT_BYTES_MAX} bytes, not {bytes}"
        ))
    })?;
    Ok(length.to_be_bytes())
}

/// Appends the wire form of a body.
pub(super) fn get_class(
    class: &CustomType,
    from: &mut Reader<'_>,
    end: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    match class {
        CustomType::LexicalUuid => {
            out.extend(halves_flipped(from.array()?));
            return Ok(());
        }
        CustomType::Composite(parts) => {
            if from.byte()? == STATIC {
                out.extend_from_slice(&STATIC_MARK);
            }
            for part in parts {
                if from.peek() == Some(END) {
                    break;
                }
                get_part(part, from, end, out)?;
            }
        }
        CustomType::DynamicComposite(aliases) => {
            let mut name = Vec::new();
            while from.peek() != Some(END) {
                name.clear();
                get_escaped(from, &mut name)?;
                let wrong = Error::Malformed("ordered class");
                let name = std::str::from_utf8(&name).map_err(|_| wrong.clone())?;
                let component = parse_class(name).map_err(|_| wrong)?;
                match aliases.iter().rfind(|(_, aliased)| *aliased == component) {
                    Some((alias, _)) => out.extend_from_slice(&[ALIAS, *alias]),
                    None => put_sized(name.as_bytes(), out)?,
                }
                get_part(&component, from, end, out)?;
            }
        }
    }
    if from.byte()? == END { Ok(()) } else { Err(Error::Malformed("ordered composite")) }
}

fn get_part(part: &Component, from: &mut Reader<'_>, end: usize, out: &mut Vec<u8>) -> Result<()> {
    let mut value = Vec::new();
    let invert = |from: &mut Reader<'_>| {
        if part.reversed {
            from.invert();
        }
    };
    invert(from);
    let read = decode::get(&part.ty, from, end.saturating_sub(out.len()), &mut value);
    invert(from);
    read?;
    put_sized(&value, out)?;
    out.push(from.byte()? ^ SIGN);
    Ok(())
}

fn put_sized(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(&length(bytes.len())?);
    out.extend_from_slice(bytes);
    Ok(())
}

/// Both halves with their signs the other way round.
fn halves_flipped(mut uuid: [u8; 16]) -> [u8; 16] {
    uuid[0] ^= SIGN;
    uuid[8] ^= SIGN;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered::encode;
    use crate::types::CqlType;

    fn ty(class: &str) -> CqlType {
        parse_class(class).expect("a class").ty
    }

    fn part(value: &[u8], end: u8) -> Vec<u8> {
        [&length(value.len()).expect("short")[..], value, &[end]].concat()
    }

    fn aliased(alias: u8, value: &[u8], end: u8) -> Vec<u8> {
        [vec![ALIAS, alias], part(value, end)].concat()
    }

    fn named(name: &str, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_sized(name.as_bytes(), &mut out).expect("short");
        [out, part(value, 0)].concat()
    }

    /// The values stand in this order by their bytes, and come back.
    fn in_order(ty: &CqlType, values: &[Vec<u8>]) {
        let form = |value: &Vec<u8>| {
            assert_eq!(ty.validate(value), Ok(()), "{value:02x?}");
            let mut out = Vec::new();
            encode(ty, value, &mut out).expect("valid");
            out
        };
        let forms: Vec<_> = values.iter().map(form).collect();
        for (pair, values) in forms.windows(2).zip(values.windows(2)) {
            assert!(pair[0] < pair[1], "{values:02x?}");
        }
        for (form, value) in forms.iter().zip(values) {
            for flip in [0u8, 0xFF] {
                let form: Vec<u8> = form.iter().map(|byte| byte ^ flip).collect();
                let mut again = Vec::new();
                let there = Reader::new(&form).component(ty, flip > 0, &mut again);
                assert_eq!((there, &again), (Ok(true), value));
            }
        }
    }

    #[test]
    fn composites_stand_part_by_part_and_before_those_that_go_on() {
        let composite = ty("CompositeType(Int32Type,ReversedType(UTF8Type))");
        let one = part(&1i32.to_be_bytes(), 0);
        let with = |text: &str, end| [one.clone(), part(text.as_bytes(), end)].concat();
        in_order(
            &composite,
            &[
                Vec::new(),
                [STATIC_MARK.to_vec(), with("x", 0)].concat(),
                part(&[], 0),
                part(&(-1i32).to_be_bytes(), 0),
                part(&1i32.to_be_bytes(), 0xFF),
                one.clone(),
                with("b", 0xFF),
                with("b", 0),
                with("b", 1),
                with("aa", 0),
                with("a", 0),
                with("", 0),
                part(&1i32.to_be_bytes(), 1),
                part(&2i32.to_be_bytes(), 0),
            ],
        );
    }

    /// As Cassandra 5.0.9 orders them: by the classes' names first.
    #[test]
    fn dynamic_composites_stand_in_the_order_of_their_classes() {
        let dynamic =
            ty("DynamicCompositeType(a=>Int32Type,b=>UTF8Type,r=>ReversedType(Int32Type))");
        let int = |n: i32| n.to_be_bytes();
        in_order(
            &dynamic,
            &[
                Vec::new(),
                named("AsciiType", b""),
                named("AsciiType", b"1"),
                aliased(b'a', &int(-1), 0),
                aliased(b'a', &int(1), 0xFF),
                aliased(b'a', &int(1), 0),
                [aliased(b'a', &int(1), 0), aliased(b'b', b"x", 0)].concat(),
                aliased(b'a', &int(1), 1),
                named("LongType", &1i64.to_be_bytes()),
                aliased(b'r', &int(2), 0),
                aliased(b'r', &int(1), 0),
                aliased(b'b', b"a", 0),
            ],
        );
        for name in ["Int32Type", "org.apache.cassandra.db.marshal.Int32Type"] {
            assert!(dynamic.compare(&named(name, &int(1)), &aliased(b'a', &int(1), 0)).is_eq());
        }
    }

    /// Values name no dynamic composite, but the aliases of one may stand for another.
    #[test]
    fn a_dynamic_composite_in_another_comes_back() {
        let nested = ty("DynamicCompositeType(a=>DynamicCompositeType(b=>Int32Type))");
        let inner = aliased(b'b', &1i32.to_be_bytes(), 0);
        in_order(&nested, &[aliased(b'a', &[], 0), aliased(b'a', &inner, 0)]);
    }

    #[test]
    fn uuids_in_lexical_order_have_signed_halves() {
        let uuid = |high: u8, low: u8| {
            let mut bytes = vec![0; 16];
            (bytes[0], bytes[8]) = (high, low);
            bytes
        };
        let ordered = [uuid(0x80, 0), uuid(0xFF, 0), uuid(0, 0x80), uuid(0, 0x7F), uuid(0x7F, 0)];
        in_order(&ty("LexicalUUIDType"), &[&[Vec::new()][..], &ordered].concat());
    }

    #[test]
    fn a_component_that_would_come_back_too_long_is_refused() {
        let name = |n: u32| n.to_string().bytes().map(|b| format!("{b:02x}")).collect::<String>();
        let fields: String = (0..20_000).map(|n| format!(",{}:Int32Type", name(n))).collect();
        let composite = ty(&format!("CompositeType(UserType(ks,75{fields}))"));
        let value = part(&(-1i32).to_be_bytes(), 0);
        let mut out = Vec::new();
        let refused = encode(&composite, &value, &mut out).unwrap_err();
        assert!(refused.to_string().contains("65535 bytes, not 80000"), "{refused}");
    }
}

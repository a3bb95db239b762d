//! The texts of classes that are no type of CQL: `'1:abc'` is a composite of a number and a text.
//!
//! ```text
//! composite := [ part ( ':' part )* [ ':!' | ':_' ] ]      '!' makes the last end 1, '_' makes it -1
//! part      := text                                        as the component's type reads it; '\:' is a colon
//!            | class [ '@' text ]                          of a dynamic composite: a name or an alias
//! ```
//!
//! Source: `AbstractCompositeType.fromString` of Cassandra 5.0.9 and the `fromString` of its types. A `!` at the end of a
//! part is left out.

use model::CqlType;
use model::limits::{CLASS_NAME_BYTES_MAX, COMPONENT_BYTES_MAX};
use model::types::{Component, CustomType, unhex};

use super::{from_text, uuid};
use crate::error::{Error, Result};
use crate::frame::writer;

/// The bytes of a value that is written as `text`.
pub(super) fn custom(text: &str, class: &CustomType) -> Result<Vec<u8>> {
    if *class == CustomType::LexicalUuid {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let uuid =
            uuid(text).map_err(|_| Error::Invalid(format!("unable to make UUID from '{text}'")))?;
        return Ok(uuid.as_bytes().to_vec());
    }
    let mut out = Vec::new();
    for (index, part) in split(text).enumerate() {
        if part == "!" || part == "_" {
            let end = out.last_mut().ok_or_else(|| {
                Error::invalid(format!("'{text}' has an end and no component before it"))
            })?;
            *end = if part == "!" { 1 } else { 0xFF };
            break;
        }
        let (component, part) = component(class, index, part, &mut out)?;
        let value = part_value(&component.ty, &unescaped(part))?;
        component.ty.validate(&value)?;
        let length = u16::try_from(value.len()).map_err(|_| {
            let bytes = value.len();
            Error::Invalid(format!(
                "a component of a composite has no more than {COMPONENT_BYTES_MAX} bytes, not {bytes}"
            ))
        })?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&value);
        out.push(0);
    }
    Ok(out)
}

/// What the part is of, and its own text. Of a dynamic composite, its class is appended.
fn component<'t>(
    class: &CustomType,
    index: usize,
    part: &'t str,
    out: &mut Vec<u8>,
) -> Result<(Component, &'t str)> {
    let aliases = match class {
        CustomType::Composite(parts) => {
            let component = parts.get(index).cloned().ok_or_else(|| {
                let count = parts.len();
                Error::Invalid(format!("'{part}' is one component too many: the type has {count}"))
            })?;
            return Ok((component, part));
        }
        CustomType::DynamicComposite(aliases) => aliases,
        CustomType::LexicalUuid => return Err(Error::invalid("a UUID has no components")),
    };
    let wrong = || Error::Invalid(format!("Invalid component representation: {part}"));
    let trimmed = part.trim_end_matches('@');
    let (name, text) = trimmed.split_once('@').unwrap_or((trimmed, ""));
    if text.contains('@') || (trimmed.is_empty() && !part.is_empty()) {
        return Err(wrong());
    }
    let component = class.named(name).ok_or_else(wrong)?;
    match name.as_bytes() {
        [alias] if aliases.iter().any(|(known, _)| known == alias) => out.extend([0x80, *alias]),
        name => {
            if name.len() > CLASS_NAME_BYTES_MAX {
                return Err(wrong());
            }
            out.extend((name.len() as u16).to_be_bytes());
            out.extend_from_slice(name);
        }
    }
    Ok((component, text))
}

/// The value of a component or field that a text is.
fn part_value(ty: &CqlType, text: &str) -> Result<Vec<u8>> {
    use CqlType::*;
    match ty {
        Tuple(parts) => tuple_of_text(text, parts.iter(), ty),
        Udt { definition, .. } => {
            tuple_of_text(text, definition.fields.iter().map(|(_, ty)| ty), ty)
        }
        Blob | List { .. } | Set { .. } | Map { .. } | Vector { .. } => unhex(&format!("0x{text}"))
            .ok_or_else(|| Error::Invalid(format!("cannot parse '{text}' as hex bytes"))),
        Boolean if text.is_empty() => Ok(vec![0]),
        Boolean if !["true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word)) => {
            Err(Error::Invalid(format!("Unable to make boolean from '{text}'")))
        }
        // These have no empty text; that of others is their empty value.
        Date | Time | Duration => from_text(text, ty),
        _ if text.is_empty() => Ok(Vec::new()),
        scalar => from_text(text, scalar),
    }
}

/// The bytes of a tuple written as text: fields with colons between, `@` for null, a backslash before a colon or an `@`
/// that is text.
pub(crate) fn tuple_of_text<'t>(
    text: &str,
    parts: impl ExactSizeIterator<Item = &'t CqlType>,
    ty: &CqlType,
) -> Result<Vec<u8>> {
    let (expected, given) = (parts.len(), split(text).count());
    if given > expected {
        return Err(Error::invalid(format!(
            "Invalid tuple literal: too many elements. Type {ty} expects {expected} but got {given}"
        )));
    }
    let mut out = Vec::new();
    for (field, part) in split(text).zip(parts) {
        if field == "@" {
            writer::bytes(&mut out, None);
            continue;
        }
        let value = part_value(part, &field.replace("\\:", ":").replace("\\@", "@"))?;
        writer::bytes(&mut out, Some(&value));
    }
    Ok(out)
}

/// The parts between colons that have no backslash before them; no part in an empty text.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text).filter(|text| !text.is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let bytes = text.as_bytes();
        let ends = |at: &usize| bytes[*at] == b':' && (*at == 0 || bytes[at - 1] != b'\\');
        let end = (0..bytes.len()).find(ends);
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

fn unescaped(part: &str) -> String {
    let text = part.replace("\\:", ":");
    match text.strip_suffix('!') {
        Some(before) => before.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use model::types::{hex, parse_class};

    use super::*;

    fn shown(text: &str, class: &str) -> String {
        let ty = parse_class(class).expect("a class").ty;
        match from_text(text, &ty) {
            Ok(value) => {
                assert_eq!(ty.validate(&value), Ok(()), "{text}");
                hex(&value)
            }
            Err(error) => error.to_string(),
        }
    }

    /// Before: the length of a long name was taken for an alias.
    #[test]
    fn a_long_name_of_a_class_is_no_alias() {
        let name =
            |parts: usize| format!("CompositeType({}Int32Type)@", "Int32Type,".repeat(parts));
        let class = "DynamicCompositeType(a=>Int32Type)";
        assert!(shown(&name(3000), class).starts_with("0x7548"), "30,024 bytes");
        assert!(shown(&name(3300), class).starts_with("Invalid component representation"));
    }

    /// As Cassandra 5.0.9 stores them.
    #[test]
    fn texts_of_composites_are_their_components() {
        for (text, bytes) in [
            ("", "0x"),
            ("1", "0x00040000000100"),
            ("1:abc", "0x00040000000100000361626300"),
            ("1:!", "0x00040000000101"),
            ("1:_", "0x000400000001ff"),
            ("1:a\\:b", "0x000400000001000003613a6200"),
            ("1:a!", "0x0004000000010000016100"),
            ("1:a!!", "0x000400000001000002612100"),
            (":", "0x000000000000"),
            ("x:a", "Unable to make int from 'x'"),
            ("1:a:b", "'b' is one component too many: the type has 2"),
            ("!", "'!' has an end and no component before it"),
        ] {
            assert_eq!(shown(text, "CompositeType(Int32Type,UTF8Type)"), bytes, "{text}");
        }
        let parts = "CompositeType(CompositeType(Int32Type,BytesType),TupleType(Int32Type,Int32Type),BooleanType)";
        assert_eq!(
            shown("1\\:cafe:2:", parts),
            "0x000c000400000001000002cafe0000000800000004000000020000010000"
        );
        assert_eq!(shown("::yes", parts), "Unable to make boolean from 'yes'");
    }

    #[test]
    fn texts_of_dynamic_composites_name_their_classes() {
        let class = "DynamicCompositeType(a=>Int32Type,b=>UTF8Type)";
        for (text, bytes) in [
            ("a@1:b@x", "0x806100040000000100806200017800"),
            ("Int32Type@1", "0x0009496e74333254797065000400000001 00"),
            ("a", "0x8061000000"),
            ("a@", "0x8061000000"),
            ("a@1:!", "0x806100040000000101"),
            ("c@1", "Invalid component representation: c@1"),
            ("a@1@2", "Invalid component representation: a@1@2"),
            ("DynamicCompositeType@", "Invalid component representation: DynamicCompositeType@"),
        ] {
            let bytes = if bytes.starts_with("0x") { bytes.replace(' ', "") } else { bytes.into() };
            assert_eq!(shown(text, class), bytes, "{text}");
        }
    }
}

//! Classes of Cassandra that are no type of CQL, and which bytes are a value of theirs.
//!
//! ```text
//! composite := [ FF FF ] component*                              FF FF: a static one, which stands first
//!   component := length:u16 value end:i8                         only the last has another end than 0
//! dynamic   := ( class component )*
//!   class     := 80 alias | length:u16 name                      the class that the component is of
//! ```
//!
//! Source: `CompositeType`, `DynamicCompositeType` and `LexicalUUIDType` of Cassandra 5.0.9, and their words.
//!
//! Invariant: a class that a value names has no dynamic composite in it, so that the depth of a value is bounded by its
//! type's and [`TYPE_DEPTH_MAX`](crate::limits::TYPE_DEPTH_MAX). Not here: the order of values (`ordered/composite.rs`).

use super::{CqlType, parse_class};
use crate::limits::ALIAS_CLASS_BYTES_MAX;
use crate::{Error, Result};

/// A class that is no type of CQL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CustomType {
    /// `CompositeType(..)`: up to as many values as it has components, one behind the other.
    Composite(Vec<Component>),
    /// `DynamicCompositeType(..)`: values that each say their class, by its name or by one of these characters.
    DynamicComposite(Vec<(u8, Component)>),
    /// `LexicalUUIDType`: UUIDs in the order of their two halves as signed numbers.
    LexicalUuid,
}

/// What a part of a composite is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    /// Its type, of which any value may stand here.
    pub ty: CqlType,
    /// Whether larger values stand first: `ReversedType(..)`.
    pub reversed: bool,
}

impl CustomType {
    /// A dynamic composite, its aliases in the order in which Cassandra shows them: that of a Java `HashMap`.
    pub fn dynamic(mut aliases: Vec<(u8, Component)>) -> CustomType {
        let buckets = (aliases.len() * 4).div_ceil(3).next_power_of_two().max(16);
        aliases.sort_by_key(|(alias, _)| usize::from(*alias) % buckets);
        CustomType::DynamicComposite(aliases)
    }

    /// What values are made of, in order.
    pub fn components(&self) -> Vec<&Component> {
        match self {
            CustomType::Composite(parts) => parts.iter().collect(),
            CustomType::DynamicComposite(aliases) => aliases.iter().map(|(_, part)| part).collect(),
            CustomType::LexicalUuid => Vec::new(),
        }
    }

    /// Refuses an alias of a class with a long name.
    pub(super) fn check_aliases(&self) -> Result<()> {
        let CustomType::DynamicComposite(aliases) = self else { return Ok(()) };
        for (alias, component) in aliases {
            let bytes = component.short_name().len();
            if bytes > ALIAS_CLASS_BYTES_MAX {
                return Err(Error::Invalid(format!(
                    "the class of alias {} has a name of {bytes} bytes, more than {ALIAS_CLASS_BYTES_MAX}",
                    char::from(*alias)
                )));
            }
        }
        Ok(())
    }

    /// Bytes of this and of its list of components; not of what their types are made of.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<CustomType>()
            + match self {
                CustomType::Composite(parts) => size_of_val(&**parts),
                CustomType::DynamicComposite(aliases) => size_of_val(&**aliases),
                CustomType::LexicalUuid => 0,
            }
    }

    /// The same class of other components.
    #[must_use]
    pub(super) fn map(&self, new: impl Fn(&CqlType) -> CqlType) -> CustomType {
        let component = |part: &Component| Component { ty: new(&part.ty), reversed: part.reversed };
        match self {
            CustomType::Composite(parts) => {
                CustomType::Composite(parts.iter().map(component).collect())
            }
            CustomType::DynamicComposite(aliases) => CustomType::DynamicComposite(
                aliases.iter().map(|(alias, part)| (*alias, component(part))).collect(),
            ),
            CustomType::LexicalUuid => CustomType::LexicalUuid,
        }
    }

    /// Whether `value` is one of this class; the error begins as Cassandra's.
    pub(super) fn validate(&self, value: &[u8]) -> Result<()> {
        match self {
            CustomType::LexicalUuid if !matches!(value.len(), 0 | 16) => {
                Err(Error::Invalid(format!("UUID should be 16 or 0 bytes ({})", value.len())))
            }
            CustomType::LexicalUuid => Ok(()),
            _ => self.parts(value).1.try_for_each(|part| {
                let part = part?;
                part.component.ty.validate(part.value)
            }),
        }
    }

    /// Whether a composite's value is a static one, and its parts: an error ends them.
    pub fn parts<'v>(&'v self, value: &'v [u8]) -> (bool, Parts<'v>) {
        let rest = match self {
            CustomType::Composite(_) => value.strip_prefix(&STATIC_MARK),
            _ => None,
        };
        let parts = Parts { class: self, rest: rest.unwrap_or(value), index: 0, has_ended: false };
        (rest.is_some(), parts)
    }

    /// The component of a class that a value may name; an alias is tried first.
    pub fn named(&self, name: &str) -> Option<Component> {
        let aliased = match (self, name.as_bytes()) {
            (CustomType::DynamicComposite(aliases), [alias]) => {
                aliases.iter().find(|(known, _)| known == alias)
            }
            _ => None,
        };
        aliased.map(|(_, part)| part.clone()).or_else(|| named_class(name))
    }
}

/// What a static composite begins with.
pub(crate) const STATIC_MARK: [u8; 2] = [0xFF, 0xFF];
/// The bit of a component's class that says that an alias follows.
pub(crate) const ALIAS: u8 = 0x80;

/// The class that a value names; none if there is none, or one that values may not name.
fn named_class(name: &str) -> Option<Component> {
    let found = parse_class(name).ok()?;
    found.ty.check_limits().ok()?;
    (!has_dynamic(&found.ty)).then_some(found)
}

fn has_dynamic(ty: &CqlType) -> bool {
    let is_one = matches!(ty, CqlType::Custom(custom)
        if matches!(**custom, CustomType::DynamicComposite(_)));
    is_one || ty.parts().into_iter().any(has_dynamic)
}

/// A part of a composite's value.
#[derive(Debug)]
pub struct Part<'v> {
    /// The component of the class that it is.
    pub component: Component,
    /// The bytes of its value.
    pub value: &'v [u8],
    /// Its end: 0, or another number behind the last part of a bound.
    pub end: i8,
}

/// The parts of a composite's value, in turn.
#[derive(Debug)]
pub struct Parts<'v> {
    class: &'v CustomType,
    rest: &'v [u8],
    index: usize,
    has_ended: bool,
}

impl<'v> Iterator for Parts<'v> {
    type Item = Result<Part<'v>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let part = self.part();
        if part.is_err() {
            self.rest = &[];
        }
        self.index += 1;
        Some(part)
    }
}

impl<'v> Parts<'v> {
    fn part(&mut self) -> Result<Part<'v>> {
        let index = self.index;
        if self.has_ended {
            let text = "Invalid bytes remaining after an end-of-component at component";
            return Err(Error::Invalid(format!("{text}{}", index - 1)));
        }
        let component = self.component()?;
        let short = |what: &str| Error::Invalid(format!("Not enough bytes to read {what}{index}"));
        let value = self.sized().ok_or_else(|| short("value size of component "))?;
        let value = value.ok_or_else(|| short("value of component "))?;
        let (&end, rest) = self
            .rest
            .split_first()
            .ok_or_else(|| short("the end-of-component byte of component"))?;
        self.rest = rest;
        self.has_ended = end != 0;
        Ok(Part { component, value, end: end.cast_signed() })
    }

    /// The bytes behind a length of two bytes; none at all without a length, no inner ones if there are fewer.
    fn sized(&mut self) -> Option<Option<&'v [u8]>> {
        let (length, rest) = self.rest.split_first_chunk::<2>()?;
        let found = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)));
        Some(found.map(|(bytes, rest)| {
            self.rest = rest;
            bytes
        }))
    }

    fn component(&mut self) -> Result<Component> {
        let index = self.index;
        match self.class {
            CustomType::Composite(parts) => parts
                .get(index)
                .cloned()
                .ok_or_else(|| Error::invalid("Too many bytes for comparator")),
            CustomType::DynamicComposite(aliases) => {
                let unknown =
                    || Error::Invalid(format!("Cannot find comparator for component {index}"));
                let short = |what: &str| {
                    Error::Invalid(format!("Not enough bytes to {what} of component {index}"))
                };
                let header = self.rest.first_chunk::<2>();
                let header = header.ok_or_else(|| short("header of the comparator part"))?;
                if header[0] & ALIAS != 0 {
                    self.rest = &self.rest[2..];
                    let found = aliases.iter().find(|(alias, _)| *alias == header[1]);
                    return found.map(|(_, part)| part.clone()).ok_or_else(unknown);
                }
                let name = self.sized().flatten().ok_or_else(|| short("read comparator name"))?;
                let name = std::str::from_utf8(name).map_err(|_| unknown())?;
                named_class(name).ok_or_else(unknown)
            }
            CustomType::LexicalUuid => Err(Error::invalid("a UUID has no components")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(class: &str, value: &[u8]) -> String {
        let ty = parse_class(class).expect("a class").ty;
        ty.validate(value).expect_err("no value of it").to_string()
    }

    /// As Cassandra 5.0.9 says it.
    #[test]
    fn what_is_no_value_of_a_class_is_refused_in_its_words() {
        let composite = "CompositeType(Int32Type,UTF8Type)";
        for (value, text) in [
            (&[0][..], "Not enough bytes to read value size of component 0"),
            (&[0, 4, 0], "Not enough bytes to read value of component 0"),
            (&[0, 0], "Not enough bytes to read the end-of-component byte of component0"),
            (&[0, 0, 1, 0], "Invalid bytes remaining after an end-of-component at component0"),
            (&[0, 3, 0, 0, 0, 0], "Expected 4 or 0 byte int (3)"),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 0], "Too many bytes for comparator"),
        ] {
            assert_eq!(refused(composite, value), text);
        }
        let dynamic = "DynamicCompositeType(a=>Int32Type)";
        for (value, text) in [
            (&[0][..], "Not enough bytes to header of the comparator part of component 0"),
            (&[0, 9, b'I'], "Not enough bytes to read comparator name of component 0"),
            (&[0x80, b'c', 0, 0, 0], "Cannot find comparator for component 0"),
            (&[0, 1, 0xFF, 0, 0, 0], "Cannot find comparator for component 0"),
        ] {
            assert_eq!(refused(dynamic, value), text);
        }
        assert_eq!(refused("LexicalUUIDType", &[0]), "UUID should be 16 or 0 bytes (1)");
    }

    /// An ordered value has the name of a class for each component of a few bytes that says its alias.
    #[test]
    fn an_alias_of_a_class_with_a_long_name_is_refused() {
        let limits = |parts: &str| {
            let class = format!("DynamicCompositeType(a=>TupleType({parts}))");
            parse_class(&class).expect("a class").ty.check_limits()
        };
        let part = "BytesType,";
        assert_eq!(limits(&part.repeat(11)), Ok(()));
        let text = limits(&part.repeat(12)).unwrap_err().to_string();
        assert_eq!(text, "the class of alias a has a name of 130 bytes, more than 128");
    }

    /// A value that names a dynamic composite could name another in it, as deep as its bytes go.
    #[test]
    fn a_value_names_no_dynamic_composite() {
        for name in ["DynamicCompositeType()", "CompositeType(DynamicCompositeType())"] {
            let length = (name.len() as u16).to_be_bytes();
            let value = [&length[..], name.as_bytes(), &[0, 0, 0]].concat();
            let text = refused("DynamicCompositeType()", &value);
            assert_eq!(text, "Cannot find comparator for component 0", "{name}");
        }
    }
}

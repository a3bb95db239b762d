//! Bound values of a request, as they lie in its body.
//!
//! They are walked once when the request is decoded (what follows them must be found anyway), so
//! that binding them later neither fails nor allocates.
//!
//! ```text
//! [short] n   n × ( [string] name if they have names   [value] )
//! ```
//!
//! Invariants: the bytes that [`Values`] holds are n values of its version and nothing else, since `decode` walked
//! them, or [`ValueList`] wrote them; values are all named or all positional.
//!
//! Not here: the flags that say whether there are values, and with names (`parameters.rs`), which marker a value is
//! for, and whether it is of its type (`cql/src/bind.rs`).

use super::super::error::Result;
use super::super::header::Version;
use super::super::reader::{Reader, Value};
use super::super::writer;
use crate::steps::step;

/// Bound values: positional, or each with the name of its marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Values<'a> {
    version: Version,
    named: bool,
    count: u16,
    items: &'a [u8],
}

impl<'a> Values<'a> {
    /// An empty list of values.
    pub const fn none(version: Version) -> Values<'static> {
        Values { version, named: false, count: 0, items: &[] }
    }

    /// Reads `[short] n` and then n values.
    pub fn decode(reader: &mut Reader<'a>, version: Version, named: bool) -> Result<Values<'a>> {
        let count = reader.short()?;
        let start = reader.rest();
        for _ in 0..count {
            if named {
                reader.string()?;
            }
            reader.value(version)?;
        }
        let items = &start[..start.len() - reader.rest().len()];
        Ok(Values { version, named, count, items })
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the values with their lengths, and with their names if they have any.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.items.len()
    }

    /// Whether each has a name.
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// The values in the order they were sent.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value<'a>> + use<'a> {
        self.named_iter().map(|(_, value)| value)
    }

    /// The values with their names (empty if they have none), in the order they were sent.
    #[inline]
    pub fn named_iter(&self) -> impl ExactSizeIterator<Item = (&'a str, Value<'a>)> + use<'a> {
        let Values { version, named, count, items } = *self;
        let mut reader = Reader::new(items);
        (0..count).map(move |_| {
            step(1);
            let name = if named { reader.string().expect("walked when decoded") } else { "" };
            (name, reader.value(version).expect("walked when decoded"))
        })
    }

    /// Appends `[short] n` and the values.
    pub fn put(&self, out: &mut Vec<u8>) {
        writer::short(out, self.count);
        out.extend_from_slice(self.items);
    }
}

/// Values being collected by a client.
#[derive(Debug, Clone, Default)]
pub struct ValueList {
    items: Vec<u8>,
    count: u16,
    named: bool,
}

impl ValueList {
    /// An empty list.
    pub fn new() -> ValueList {
        ValueList::default()
    }

    /// Adds the next positional value.
    pub fn push(&mut self, value: Value<'_>) {
        assert!(!self.named, "values are all named or all positional");
        self.count += 1;
        writer::value(&mut self.items, value);
    }

    /// Adds a value for the marker with this name.
    pub fn push_named(&mut self, name: &str, value: Value<'_>) {
        assert!(self.named || self.count == 0, "values are all named or all positional");
        self.named = true;
        self.count += 1;
        writer::string(&mut self.items, name);
        writer::value(&mut self.items, value);
    }

    /// Empties the list and keeps its memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.count = 0;
        self.named = false;
    }

    /// The values as a request holds them.
    pub fn as_values(&self, version: Version) -> Values<'_> {
        Values { version, named: self.named, count: self.count, items: &self.items }
    }
}

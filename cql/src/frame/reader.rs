//! A checked cursor over a message body: the protocol's notations, borrowed.
//!
//! Every read either stays inside the body or is a [`Malformed`]; nothing allocates. Collections
//! (`[string list]`, `[string map]`, ...) are walked once when they are read, so that iterating
//! them later cannot fail.
//!
//! ```text
//! [byte] [short] [int] [long]   1, 2, 4, 8 bytes, big-endian; byte and short unsigned, the others signed
//! [string] [long string]        a length of 2 or 4 bytes, then UTF-8
//! [bytes] [value]               a length of 4 bytes, then bytes; -1 is null, -2 of a [value] is "not set"
//! [short bytes]                 a length of 2 bytes, then bytes
//! [string list] [string map]    a count of 2 bytes, then strings, or pairs of strings
//! [inet]                        a length of 1 byte, 4 or 16, the address, and the port as [int]
//! ```
//!
//! Source: the specifications of the native protocol, versions 3 to 5 ("Notations"). The texts of errors are
//! Cassandra's (`CBUtil`).
//!
//! Not here: the other way (`writer.rs`), messages (`request.rs`, `client.rs`), the values inside of `[bytes]`, which
//! are checked by their types (`model/src/types/check.rs`).

use std::net::{IpAddr, SocketAddr};

use super::consistency::Consistency;
use super::error::{Malformed, Result};
use super::header::Version;

/// The rest of a message body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// A `[value]`: what a bind marker is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// `null`: deletes the cell.
    Null,
    /// Not set (v4 and later): leaves the cell alone.
    Unset,
    /// The bytes of a value.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes, if it has any.
    pub const fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            Value::Null | Value::Unset => None,
        }
    }
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `body`.
    pub const fn new(body: &'a [u8]) -> Reader<'a> {
        Reader { rest: body }
    }

    /// The bytes that have not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes as they are.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(short(count, self.rest.len())),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(short(N, self.rest.len())),
        }
    }

    /// Reads a `[byte]`: one unsigned byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a `[short]`: two bytes, unsigned, big-endian.
    #[inline]
    pub fn short(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Reads an `[int]`: four bytes, signed, big-endian.
    #[inline]
    pub fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Reads a `[long]`: eight bytes, signed, big-endian.
    #[inline]
    pub fn long(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Reads a `[uuid]`: 16 bytes.
    pub fn uuid(&mut self) -> Result<[u8; 16]> {
        self.array()
    }

    /// Reads a `[string]`: a `[short]` length and UTF-8.
    pub fn string(&mut self) -> Result<&'a str> {
        const CUT: Malformed = Malformed::with(
            "Not enough bytes to read an UTF8 serialized string preceded by its 2 bytes length",
        );
        let bytes = self.short().map_err(|_| CUT)?;
        text(self.take(usize::from(bytes)).map_err(|_| CUT)?)
    }

    /// Reads a `[long string]`: an `[int]` length and UTF-8.
    pub fn long_string(&mut self) -> Result<&'a str> {
        const CUT: Malformed = Malformed::with(
            "Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length",
        );
        let bytes = usize::try_from(self.int().map_err(|_| CUT)?).map_err(|_| CUT)?;
        text(self.take(bytes).map_err(|_| CUT)?)
    }

    /// `[bytes]`: `None` is null.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>> {
        const CUT: Malformed =
            Malformed::with("Not enough bytes to read a byte array preceded by its 4 bytes length");
        match usize::try_from(self.int().map_err(|_| CUT)?) {
            Ok(bytes) => Ok(Some(self.take(bytes).map_err(|_| CUT)?)),
            Err(_) => Ok(None),
        }
    }

    /// Reads `[short bytes]`: a `[short]` length and bytes.
    pub fn short_bytes(&mut self) -> Result<&'a [u8]> {
        const CUT: Malformed =
            Malformed::with("Not enough bytes to read a byte array preceded by its 2 bytes length");
        let bytes = self.short().map_err(|_| CUT)?;
        self.take(usize::from(bytes)).map_err(|_| CUT)
    }

    /// `[value]`. Before v4 every negative length is null.
    #[inline]
    pub fn value(&mut self, version: Version) -> Result<Value<'a>> {
        let length = self.int()?;
        match usize::try_from(length) {
            Ok(bytes) => Ok(Value::Bytes(self.take(bytes)?)),
            Err(_) if length == -1 || version < Version::V4 => Ok(Value::Null),
            Err(_) if length == -2 => Ok(Value::Unset),
            Err(_) => Err(Malformed::because(format!("Invalid value length {length}"))),
        }
    }

    /// Reads a `[consistency]`: a `[short]` that names a level.
    pub fn consistency(&mut self) -> Result<Consistency> {
        Consistency::from_code(self.short()?)
    }

    /// `[inetaddr]`: an address with its length before it.
    pub fn inet_address(&mut self) -> Result<IpAddr> {
        match self.byte()? {
            4 => Ok(IpAddr::from(self.array::<4>()?)),
            16 => Ok(IpAddr::from(self.array::<16>()?)),
            other => Err(Malformed::because(format!("Invalid address length {other}"))),
        }
    }

    /// `[inet]`: an address and a port.
    pub fn inet(&mut self) -> Result<SocketAddr> {
        let address = self.inet_address()?;
        let port = self.int()?;
        match u16::try_from(port) {
            Ok(port) => Ok(SocketAddr::new(address, port)),
            Err(_) => Err(Malformed::because(format!("Invalid port {port}"))),
        }
    }

    /// Reads a `[string list]`: a `[short]` count and strings.
    pub fn string_list(&mut self) -> Result<StringList<'a>> {
        let count = self.short()?;
        let items = *self;
        for _ in 0..count {
            self.string()?;
        }
        Ok(StringList { count, items })
    }

    /// Reads a `[string map]`: a `[short]` count and pairs of strings.
    pub fn string_map(&mut self) -> Result<StringMap<'a>> {
        let count = self.short()?;
        let items = *self;
        for _ in 0..count {
            self.string()?;
            self.string()?;
        }
        Ok(StringMap { count, items })
    }

    /// Reads a `[string multimap]`: a `[short]` count, then names with string lists.
    pub fn string_multimap(&mut self) -> Result<StringMultimap<'a>> {
        let count = self.short()?;
        let items = *self;
        for _ in 0..count {
            self.string()?;
            self.string_list()?;
        }
        Ok(StringMultimap { count, items })
    }

    /// A value of a `[bytes map]`, empty for a null; an error if the map has it twice. The others are passed over.
    pub fn in_bytes_map(&mut self, name: &str) -> Result<Option<&'a [u8]>> {
        let mut found = None;
        for _ in 0..self.short()? {
            let is_wanted = self.string()? == name;
            let value = self.bytes()?;
            if is_wanted && found.replace(value.unwrap_or_default()).is_some() {
                return Err(Malformed::because(format!(
                    "{name} stands twice in the custom payload"
                )));
            }
        }
        Ok(found)
    }
}

/// A `[string list]` whose every string is known to be good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StringList<'a> {
    count: u16,
    items: Reader<'a>,
}

impl<'a> StringList<'a> {
    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut items = self.items;
        (0..self.count).map(move |_| items.string().expect("walked when it was read"))
    }
}

/// A `[string map]` whose every string is known to be good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StringMap<'a> {
    count: u16,
    items: Reader<'a>,
}

impl<'a> StringMap<'a> {
    /// How many entries were declared, doubles included.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The entries in the order they were sent.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut items = self.items;
        (0..self.count).map(move |_| {
            let key = items.string().expect("walked when it was read");
            (key, items.string().expect("walked when it was read"))
        })
    }

    /// The value of `key`; the last one, if it was sent more than once.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.iter().filter(|(k, _)| *k == key).map(|(_, v)| v).last()
    }
}

/// A `[string multimap]` whose every string is known to be good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StringMultimap<'a> {
    count: u16,
    items: Reader<'a>,
}

impl<'a> StringMultimap<'a> {
    /// The entries in the order they were sent.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, StringList<'a>)> + use<'a> {
        let mut items = self.items;
        (0..self.count).map(move |_| {
            let key = items.string().expect("walked when it was read");
            (key, items.string_list().expect("walked when it was read"))
        })
    }

    /// The first value of `key`.
    pub fn first(&self, key: &str) -> Option<&'a str> {
        self.iter().find(|(k, _)| *k == key).and_then(|(_, list)| list.iter().next())
    }
}

#[inline]
fn text(bytes: &[u8]) -> Result<&str> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => Err(not_text(bytes)),
    }
}

#[cold]
fn not_text(bytes: &[u8]) -> Malformed {
    let at = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    Malformed::because(format!("Cannot decode string as UTF8: byte {at} of {}", bytes.len()))
}

#[cold]
fn short(wanted: usize, left: usize) -> Malformed {
    Malformed::because(format!(
        "Not enough bytes in the body of the message: {wanted} wanted, {left} left"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn negative_value_lengths_mean_what_the_version_says() {
        let unset = (-2i32).to_be_bytes();
        assert_eq!(Reader::new(&unset).value(Version::V3), Ok(Value::Null));
        assert_eq!(Reader::new(&unset).value(Version::V4), Ok(Value::Unset));
        let null = (-1i32).to_be_bytes();
        assert_eq!(Reader::new(&null).value(Version::V4), Ok(Value::Null));
        let neither = (-3i32).to_be_bytes();
        assert_eq!(
            Reader::new(&neither).value(Version::V5).unwrap_err().to_string(),
            "Invalid value length -3"
        );
    }

    #[test]
    fn bad_utf8_and_cut_strings_are_told_apart() {
        let bad = [0, 2, b'a', 0xFF];
        let text = Reader::new(&bad).string().unwrap_err().to_string();
        assert!(text.starts_with("Cannot decode string as UTF8"), "{text}");
        let cut = [0, 5, b'a'];
        let text = Reader::new(&cut).string().unwrap_err().to_string();
        assert!(text.starts_with("Not enough bytes to read an UTF8"), "{text}");
    }

    #[test]
    fn the_last_of_doubled_keys_counts() {
        let body = [0, 2, 0, 1, b'k', 0, 1, b'1', 0, 1, b'k', 0, 1, b'2'];
        let map = Reader::new(&body).string_map().unwrap();
        assert_eq!(map.get("k"), Some("2"));
        assert_eq!(map.get("K"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let start = Reader::new(&bytes);
            let _ = start.clone().long_string();
            let _ = start.clone().bytes();
            let _ = start.clone().inet();
            let _ = start.clone().in_bytes_map("a");
            if let Ok(map) = start.clone().string_multimap() {
                for (_, list) in map.iter() {
                    prop_assert!(list.iter().count() <= bytes.len());
                }
            }
            if let Ok(map) = start.clone().string_map() {
                prop_assert!(map.iter().count() <= bytes.len());
            }
        }
    }
}

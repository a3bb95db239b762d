//! The protocol's notations, appended to a `Vec<u8>`. The mirror of [`super::reader`].
//!
//! Lengths that a notation cannot hold are our own bug (we chose what to send), except in
//! [`string`], which cuts: error texts quote what clients sent.
//!
//! Invariants: each function appends and never looks at what is there; what is written is read back equal by the
//! function of the same name in `reader.rs`, but for texts and lists that were cut.
//!
//! Not here: headers, whose length is set when the frame is done (`header.rs`, `response.rs`), and types
//! (`response/option.rs`).

use std::net::{IpAddr, SocketAddr};

use super::reader::Value;

/// Appends a `[byte]`: one unsigned byte.
pub fn byte(out: &mut Vec<u8>, value: u8) {
    out.push(value);
}

/// Appends a `[short]`: two bytes, unsigned, big-endian.
pub fn short(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends an `[int]`: four bytes, signed, big-endian.
#[inline]
pub fn int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a `[long]`: eight bytes, signed, big-endian.
pub fn long(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// `[string]`, cut at a character border if it is longer than the notation can hold.
pub fn string(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
    short(out, count(text.len()));
    out.extend_from_slice(text.as_bytes());
}

/// Appends a `[long string]`: an `[int]` length and UTF-8.
pub fn long_string(out: &mut Vec<u8>, text: &str) {
    int(out, length(text.len()));
    out.extend_from_slice(text.as_bytes());
}

/// Appends `[bytes]`: an `[int]` length and bytes; `None` is null, with the length -1. So values stand in collections,
/// tuples and rows, too.
#[inline]
pub fn bytes(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => {
            int(out, length(value.len()));
            out.extend_from_slice(value);
        }
        None => int(out, -1),
    }
}

/// Appends `[short bytes]`: a `[short]` length and bytes.
pub fn short_bytes(out: &mut Vec<u8>, value: &[u8]) {
    short(out, count(value.len()));
    out.extend_from_slice(value);
}

/// Appends a `[value]`: an `[int]` length and bytes, -1 for null, -2 for unset.
pub fn value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Bytes(b) => bytes(out, Some(b)),
        Value::Null => int(out, -1),
        Value::Unset => int(out, -2),
    }
}

/// Appends a `[string list]`: a `[short]` count and strings. What a `[short]` cannot count is left out.
pub fn string_list<'s>(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = &'s str>) {
    let written = items.len().min(usize::from(u16::MAX));
    short(out, count(written));
    for item in items.take(written) {
        string(out, item);
    }
}

/// Appends a `[string map]`: a `[short]` count and pairs of strings.
pub fn string_map<'s>(
    out: &mut Vec<u8>,
    entries: impl ExactSizeIterator<Item = (&'s str, &'s str)>,
) {
    short(out, count(entries.len()));
    for (key, value) in entries {
        string(out, key);
        string(out, value);
    }
}

/// Appends an `[inetaddr]`: a length byte and the address.
pub fn inet_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            byte(out, 4);
            out.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            byte(out, 16);
            out.extend_from_slice(&v6.octets());
        }
    }
}

/// Appends an `[inet]`: address and port.
pub fn inet(out: &mut Vec<u8>, address: SocketAddr) {
    inet_address(out, address.ip());
    int(out, i32::from(address.port()));
}

/// A number of things that the notation counts in a `[short]`.
pub(super) fn count(things: usize) -> u16 {
    u16::try_from(things).expect("our own lists fit a [short]")
}

/// A number of bytes that the notation counts in an `[int]`.
#[inline]
pub(super) fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).expect("our own values fit an [int]")
}

#[cfg(test)]
mod tests {
    use super::super::reader::Reader;
    use super::*;

    #[test]
    fn a_string_too_long_is_cut_between_characters() {
        let text = "é".repeat(40_000);
        let mut out = Vec::new();
        string(&mut out, &text);
        let read = Reader::new(&out).string().unwrap();
        assert_eq!(read.len(), 65_534);
        assert!(text.starts_with(read));
    }

    #[test]
    fn more_strings_than_a_short_counts_are_left_out() {
        let warnings = vec!["w"; 70_000];
        let mut out = Vec::new();
        string_list(&mut out, warnings.iter().copied());
        let mut reader = Reader::new(&out);
        assert_eq!(reader.string_list().unwrap().iter().count(), 65_535);
        assert!(reader.is_empty());
    }

    #[test]
    fn notations_read_back() {
        let mut out = Vec::new();
        let address: SocketAddr = "[::1]:9042".parse().unwrap();
        inet(&mut out, address);
        string_map(&mut out, [("CQL_VERSION", "3.0.0")].into_iter());
        string_list(&mut out, ["a", ""].into_iter());
        bytes(&mut out, None);
        short_bytes(&mut out, b"id");
        let mut reader = Reader::new(&out);
        assert_eq!(reader.inet(), Ok(address));
        assert_eq!(reader.string_map().unwrap().get("CQL_VERSION"), Some("3.0.0"));
        assert_eq!(reader.string_list().unwrap().iter().collect::<Vec<_>>(), ["a", ""]);
        assert_eq!(reader.bytes(), Ok(None));
        assert_eq!(reader.short_bytes(), Ok(&b"id"[..]));
        assert!(reader.is_empty());
    }
}

//! Bytes as text: how CQL writes a blob.

/// Bytes as a CQL blob, such as `0xcafe`.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).expect("four bits are a digit"));
        }
    }
    text
}

/// The bytes of a text that [`hex`] made; `None` if it is no such text.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    let value = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(value(*high)? << 4 | value(*low)?),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_two_digits_in_lower_case() {
        assert_eq!(hex(&[]), "0x");
        assert_eq!(hex(&[0x00, 0x0A, 0xCA, 0xFE]), "0x000acafe");
    }

    #[test]
    fn what_was_shown_is_read_back() {
        assert_eq!(unhex(&hex(&[0x00, 0xCA, 0xFE])), Some(vec![0x00, 0xCA, 0xFE]));
        assert_eq!(unhex("0x"), Some(Vec::new()));
        for text in ["", "00", "0x0", "0x0g", "0x\u{e9}"] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_two_digits_in_lower_case() {
        assert_eq!(hex(&[]), "0x");
        assert_eq!(hex(&[0x00, 0x0A, 0xCA, 0xFE]), "0x000acafe");
    }
}

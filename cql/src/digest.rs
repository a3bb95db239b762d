//! Ids made of content: MD5, as Cassandra's ids of prepared statements and of result metadata are.
//!
//! They name things among honest peers; nothing depends on their being hard to forge.

use md5::{Digest, Md5};

/// The MD5 of `bytes`.
pub fn digest(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_digest_is_md5() {
        let hex: String = super::digest(b"abc").iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "900150983cd24fb0d6963f7d28e17f72");
    }
}

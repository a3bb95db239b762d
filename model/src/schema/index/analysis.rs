//! The form in which an index compares texts: the options `case_sensitive`, `normalize` and `ascii` of SAI.
//!
//! Steps, in the order of Cassandra's `NonTokenizingAnalyzer`: lower case, then Unicode's form NFC, then the letters and
//! signs that ASCII has instead (`folded.rs`). What an analysis makes of a text is stored in index files: it never changes.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfc};

use super::folded::fold_to_ascii;
use crate::types::CqlType;

/// How texts are changed before they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Analysis {
    /// Whether capitals differ from small letters.
    pub case_sensitive: bool,
    /// Whether texts compare in the form NFC.
    pub normalize: bool,
    /// Whether letters compare without their accents.
    pub ascii: bool,
}

impl Default for Analysis {
    fn default() -> Analysis {
        Analysis::NONE
    }
}

impl Analysis {
    /// Texts compare as they are.
    pub const NONE: Analysis = Analysis { case_sensitive: true, normalize: false, ascii: false };

    /// Whether all texts compare as they are.
    #[inline]
    pub fn is_none(self) -> bool {
        self == Analysis::NONE
    }

    /// Whether values of this type compare as they are.
    #[inline]
    pub fn is_none_of(self, ty: &CqlType) -> bool {
        self.is_none() || !matches!(ty, CqlType::Text | CqlType::Ascii)
    }

    /// The form of a value of this type in which it is compared.
    pub fn apply<'v>(self, ty: &CqlType, value: &'v [u8]) -> Cow<'v, [u8]> {
        if self.is_none_of(ty) {
            return Cow::Borrowed(value);
        }
        // What is no text was refused when it was written.
        let Ok(text) = std::str::from_utf8(value) else { return Cow::Borrowed(value) };
        let mut text = Cow::Borrowed(text);
        if !self.case_sensitive {
            text = Cow::Owned(text.to_lowercase());
        }
        if self.normalize && !is_nfc(&text) {
            text = Cow::Owned(text.nfc().collect());
        }
        if self.ascii && !text.is_ascii() {
            text = Cow::Owned(fold_to_ascii(&text));
        }
        match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(analysis: Analysis, text: &str) -> String {
        let form = analysis.apply(&CqlType::Text, text.as_bytes()).into_owned();
        String::from_utf8(form).expect("a text")
    }

    #[test]
    fn each_option_changes_what_it_says() {
        let none = Analysis::NONE;
        let lower = Analysis { case_sensitive: false, ..none };
        let normal = Analysis { normalize: true, ..none };
        let ascii = Analysis { ascii: true, ..none };
        assert_eq!(form(none, "\u{c4}a\u{308}"), "\u{c4}a\u{308}");
        assert_eq!(form(lower, "\u{c4}BC"), "\u{e4}bc");
        assert_eq!(form(normal, "Ca\u{308}"), "C\u{e4}");
        assert_eq!(form(ascii, "\u{c4}\u{df} \u{4e2d}"), "Ass \u{4e2d}");
        let all = Analysis { case_sensitive: false, normalize: true, ascii: true };
        assert_eq!(form(all, "CA\u{308}\u{de}"), "cath");
    }

    #[test]
    fn what_is_no_text_stays() {
        let lower = Analysis { case_sensitive: false, ..Analysis::NONE };
        assert_eq!(&*lower.apply(&CqlType::Blob, b"A"), b"A");
        assert_eq!(&*lower.apply(&CqlType::Text, b"A\xff"), b"A\xff");
    }
}

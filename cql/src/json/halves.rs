//! Halves of surrogate pairs in a JSON text, such as `"\ud800"`: what Java makes `?` of in UTF-8.
//!
//! The reader of JSON refuses them, so a text that it refused is looked at once more.

/// The text with `?` for each escape of half a surrogate pair that stands alone; `None` if there is none.
#[cold]
pub(super) fn without_halves(raw: &str) -> Option<String> {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut out, mut rest) = (String::with_capacity(raw.len()), raw);
    while let Some(first) = rest.chars().next() {
        let is_low = |text: &str| matches!(unit(text), Some(0xDC00..=0xDFFF));
        let (kept, passed) = match (first, unit(rest)) {
            ('\\', Some(0xD800..=0xDBFF)) if is_low(&rest[6..]) => (&rest[..12], 12),
            ('\\', Some(0xD800..=0xDFFF)) => ("?", 6),
            ('\\', None) => {
                let escaped = rest.chars().nth(1).map_or(1, |second| 1 + second.len_utf8());
                (&rest[..escaped], escaped)
            }
            ('\\', Some(_)) => (&rest[..6], 6),
            _ => (&rest[..first.len_utf8()], first.len_utf8()),
        };
        out.push_str(kept);
        rest = &rest[passed..];
    }
    (out != raw).then_some(out)
}

//! A warning that is known when the answer is made: put before its message.

use super::super::header::{Flags, HEADER_BYTES, Version};
use super::super::writer;

/// Adds a warning to the whole frame that begins at `start` and ends `out`. Clients of v3 hear of none.
#[cold]
pub fn add_warning(start: usize, text: &str, out: &mut Vec<u8>) {
    if out[start] & 0x7F < Version::V4.number() {
        return;
    }
    let flags = Flags(out[start + 1]);
    let traced = if flags.has(Flags::TRACING) { 16 } else { 0 };
    let at = start + HEADER_BYTES + traced;
    let mut added = Vec::new();
    let short = |out: &[u8], at: usize| usize::from(u16::from_be_bytes([out[at], out[at + 1]]));
    let place = if flags.has(Flags::WARNINGS) {
        let count = short(out, at);
        out[at..at + 2].copy_from_slice(&writer::count(count + 1).to_be_bytes());
        (0..count).fold(at + 2, |at, _| at + 2 + short(out, at))
    } else {
        out[start + 1] = flags.with(Flags::WARNINGS).0;
        writer::short(&mut added, 1);
        at
    };
    writer::string(&mut added, text);
    out.splice(place..place, added);
    let body_bytes = u32::try_from(out.len() - start - HEADER_BYTES);
    let body_bytes = body_bytes.expect("an answer has less than 4 GiB");
    out[start + 5..start + HEADER_BYTES].copy_from_slice(&body_bytes.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::Envelope;
    use super::*;
    use crate::frame::client::Answer;
    use crate::frame::header::{Direction, Header};

    #[test]
    fn a_late_warning_stands_beside_the_early_ones() {
        let early = ["one".to_owned(), "two".to_owned()];
        for version in [Version::V3, Version::V4, Version::V5] {
            for trace_id in [None, Some([7; 16])] {
                for warnings in [&early[..0], &early[..]] {
                    let envelope = Envelope { warnings, trace_id, ..Envelope::new(version, 3) };
                    let mut out = vec![1, 2, 3];
                    envelope.put_set_keyspace("ks", &mut out);
                    add_warning(3, "late", &mut out);
                    let header = Header::decode(&out[3..], Direction::Response).unwrap().unwrap();
                    let body = &out[3 + HEADER_BYTES..];
                    assert_eq!(header.body_bytes as usize, body.len());
                    let answer = Answer::decode(&header, body).unwrap();
                    let mut all: Vec<&str> = warnings.iter().map(String::as_str).collect();
                    all.push("late");
                    let expected = if version == Version::V3 { Vec::new() } else { all };
                    let told: Vec<&str> =
                        answer.warnings.iter().flat_map(|all| all.iter()).collect();
                    assert_eq!(told, expected, "{version:?}");
                }
            }
        }
    }
}

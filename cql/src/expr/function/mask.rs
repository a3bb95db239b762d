//! `mask_*`: values that stand in for others, as Cassandra's masking functions give them (CEP-20).
//!
//! 1. `mask_null`, `mask_default` and `mask_replace` do not look at the value. A default is computed from the type
//!    alone, for every type that has one.
//! 2. `mask_inner` and `mask_outer` go through the characters of a text and put a padding in the place of some.
//! 3. `mask_hash` gives the digest of the value's bytes.
//!
//! All of them are called with nulls, too: whether null is shown as null is for each of them to say.
//!
//! Invariant: a default that would be longer than a cell is refused before it is made, since vectors of vectors are
//! short to name.
//!
//! Not here: columns that are masked by themselves (`MASKED WITH`), which are refused by name; the list of functions
//! (`table.rs`).

use md5::{Digest, Md5};
use model::CqlType;
use model::limits::CELL_BYTES_MAX;
use model::types::put_vector_element;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};

use super::Call;
use crate::error::{Error, Result};
use crate::frame::writer;

/// The value of a masking function, `None` for null.
type Outcome = Result<Option<Vec<u8>>>;
/// Makes the digest of bytes.
type Algorithm = fn(&[u8]) -> Vec<u8>;

/// Bytes that the length of an element of a vector takes at most.
const LENGTH_BYTES_MAX: u64 = 9;
/// The smallest timeuuid there is: version 1, at the epoch of Unix.
const TIMEUUID: [u8; 16] =
    [0x13, 0x81, 0x40, 0, 0x1d, 0xd2, 0x11, 0xb2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80];

/// `mask_null`: null for whatever it is.
pub(super) fn null(_: &Call<'_>) -> Outcome {
    Ok(None)
}

/// `mask_default`: the same value for all values of a type.
pub(super) fn default(call: &Call<'_>) -> Outcome {
    default_of(call.ty(0)).map(Some)
}

/// `mask_replace`: the second argument.
pub(super) fn replace(call: &Call<'_>) -> Outcome {
    Ok(call.optional(1).map(<[u8]>::to_vec))
}

/// `mask_inner`: padding for all but so many characters at the ends.
pub(super) fn inner(call: &Call<'_>) -> Outcome {
    masked(call, |place, length, begin, end| place >= begin && place < length - end)
}

/// `mask_outer`: padding for so many characters at the ends.
pub(super) fn outer(call: &Call<'_>) -> Outcome {
    masked(call, |place, length, begin, end| place < begin || place >= length - end)
}

/// Characters are Java's, UTF-16 units; half of one that two units make is shown as `?`.
fn masked(call: &Call<'_>, masks: impl Fn(i64, i64, i64, i64) -> bool) -> Outcome {
    let padding = padding(call)?;
    let Some(value) = call.optional(0) else { return Ok(None) };
    let units: Vec<u16> = text(value)?.encode_utf16().collect();
    let (begin, end) = (count(call, 1), count(call, 2));
    let shown = units.iter().zip(0i64..).map(|(unit, place)| {
        if masks(place, units.len() as i64, begin, end) { padding } else { *unit }
    });
    let text: String = char::decode_utf16(shown).map(|unit| unit.unwrap_or('?')).collect();
    Ok(Some(text.into_bytes()))
}

/// A number of characters; null is 0.
fn count(call: &Call<'_>, index: usize) -> i64 {
    let bytes = call.optional(index).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, |bytes| i64::from(i32::from_be_bytes(bytes)))
}

/// What stands for a character: `*`, or the last argument.
fn padding(call: &Call<'_>) -> Result<u16> {
    let given = (call.signature.arguments.len() > 3).then(|| call.optional(3)).flatten();
    let Some(bytes) = given else { return Ok(u16::from(b'*')) };
    let given = text(bytes)?;
    let mut units = given.encode_utf16();
    match (units.next(), units.count()) {
        (Some(unit), 0) => Ok(unit),
        (first, more) => Err(Error::invalid(format!(
            "The padding argument for function system.{} should be single-character, but '{given}' has {} characters.",
            call.signature.name,
            usize::from(first.is_some()) + more
        ))),
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Error::invalid("String didn't validate."))
}

/// `mask_hash`: the digest of the bytes, by SHA-256 or by the algorithm of the second argument.
pub(super) fn hash(call: &Call<'_>) -> Outcome {
    let named = (call.signature.arguments.len() > 1).then(|| call.optional(1)).flatten();
    let name = named.map_or(Ok("SHA-256"), text)?;
    let Some(digest) = digest_of(name) else {
        return Err(Error::invalid(format!("Hash algorithm not found: {name}")));
    };
    Ok(call.optional(0).map(digest))
}

/// The algorithms of Java, but MD2 and SHA-3.
fn digest_of(name: &str) -> Option<Algorithm> {
    Some(match name.to_ascii_uppercase().as_str() {
        "MD5" => digest::<Md5>,
        "SHA" | "SHA1" | "SHA-1" => digest::<Sha1>,
        "SHA-224" => digest::<Sha224>,
        "SHA-256" => digest::<Sha256>,
        "SHA-384" => digest::<Sha384>,
        "SHA-512" => digest::<Sha512>,
        "SHA-512/224" => digest::<Sha512_224>,
        "SHA-512/256" => digest::<Sha512_256>,
        _ => return None,
    })
}

fn digest<D: Digest>(bytes: &[u8]) -> Vec<u8> {
    D::digest(bytes).to_vec()
}

/// The value that stands for all values of a type, if one fits a cell.
fn default_of(ty: &CqlType) -> Result<Vec<u8>> {
    Ok(match ty {
        CqlType::Ascii | CqlType::Text => b"****".to_vec(),
        CqlType::Blob | CqlType::Empty => Vec::new(),
        CqlType::Boolean | CqlType::Tinyint | CqlType::Varint => vec![0],
        CqlType::Smallint => vec![0; 2],
        CqlType::Int | CqlType::Float | CqlType::Inet => vec![0; 4],
        CqlType::Bigint
        | CqlType::Counter
        | CqlType::Double
        | CqlType::Time
        | CqlType::Timestamp => vec![0; 8],
        // Days are counted from the middle of the range.
        CqlType::Date => (1u32 << 31).to_be_bytes().to_vec(),
        // A scale of 0, and the number 0.
        CqlType::Decimal => vec![0; 5],
        // Months, days and nanoseconds, a byte each.
        CqlType::Duration => vec![0; 3],
        CqlType::Uuid => vec![0; 16],
        CqlType::Timeuuid => TIMEUUID.to_vec(),
        // Empty.
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => vec![0; 4],
        CqlType::Tuple(parts) => fields(parts.iter())?,
        CqlType::Udt { definition, .. } => fields(definition.fields.iter().map(|(_, ty)| ty))?,
        CqlType::Vector { element, dimensions } => {
            let (item, mut out) = (default_of(element)?, Vec::new());
            let each = (item.len() as u64).saturating_add(LENGTH_BYTES_MAX);
            if each.saturating_mul(u64::from(*dimensions)) > CELL_BYTES_MAX as u64 {
                return Err(too_large());
            }
            (0..*dimensions).for_each(|_| put_vector_element(element, &item, &mut out));
            out
        }
        ty if ty.is_composite() => {
            let text = format!("There isn't a defined masked value for type {ty}");
            return Err(Error::Invalid(text));
        }
        CqlType::Custom(_) => vec![0; 16],
    })
}

/// The default of a type takes more than a cell may.
#[cold]
fn too_large() -> Error {
    Error::invalid(format!("the default value of a type has more than {CELL_BYTES_MAX} bytes"))
}

/// The fields of a tuple or a user type, each with its default.
fn fields<'t>(types: impl Iterator<Item = &'t CqlType>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for value in types.map(default_of) {
        let value = value?;
        if out.len() + value.len() > CELL_BYTES_MAX {
            return Err(too_large());
        }
        writer::bytes(&mut out, Some(&value));
    }
    Ok(out)
}

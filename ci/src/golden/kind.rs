//! Types as the wire describes them, and the text of their values.
//!
//! The text is the same for every server, whatever order or form a client library would give: it is made here from the
//! bytes alone. The product's code takes part only where a description of a type is split into numbers and strings.
//!
//! ```text
//! int       -2            text        'it''s\n'       null         null
//! decimal   -200E-2       list        [7]             no bytes     empty; '' of a text, 0x of a blob
//! date      2024-02-29    tuple       (7, null)       damaged      ?0x01, here of an int
//! ```
//!
//! Invariants
//! 1. No value is an error: bytes that are not a value of their type are shown with a question mark, so that a wrong
//!    answer is compared and printed as any other.
//! 2. A value is read to its last byte: one with bytes left over is shown as damaged.
//! 3. No text value breaks its line: control characters are escaped, since an answer is compared line by line.
//!
//! Days become dates by Howard Hinnant's `civil_from_days`. A duration is three `vint`s of the native protocol.
//!
//! Not here: text to bytes (`literal.rs`), the form of a whole answer (`session.rs`).

use std::fmt::Write;
use std::net::IpAddr;

use cql::frame::Reader;
use num_bigint::BigInt;

/// A column's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// By the protocol's name.
    Scalar(Scalar),
    /// `list`, `set`: the name and the elements.
    Sequence(&'static str, Box<Kind>),
    /// Keys and values.
    Map(Box<Kind>, Box<Kind>),
    /// A tuple, with the kinds of its fields.
    Tuple(Vec<Kind>),
    /// Name and fields.
    Udt(String, Vec<(String, Kind)>),
    /// Elements and how many.
    Vector(Box<Kind>, usize),
    /// A type that only Cassandra's class names.
    Custom(String),
}

/// A type without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Decimal,
    Double,
    Float,
    Int,
    Timestamp,
    Uuid,
    Text,
    Varint,
    Timeuuid,
    Inet,
    Date,
    Time,
    Smallint,
    Tinyint,
    Duration,
}

use Scalar::*;

/// Names in CQL, codes on the wire, names in classes of vectors, bytes of a value if they are fixed
/// in a vector.
const SCALARS: [(Scalar, u16, &str, &str, Option<usize>); 20] = [
    (Ascii, 0x1, "ascii", "AsciiType", None),
    (Bigint, 0x2, "bigint", "LongType", Some(8)),
    (Blob, 0x3, "blob", "BytesType", None),
    (Boolean, 0x4, "boolean", "BooleanType", Some(1)),
    (Counter, 0x5, "counter", "CounterColumnType", Some(8)),
    (Decimal, 0x6, "decimal", "DecimalType", None),
    (Double, 0x7, "double", "DoubleType", Some(8)),
    (Float, 0x8, "float", "FloatType", Some(4)),
    (Int, 0x9, "int", "Int32Type", Some(4)),
    (Timestamp, 0xB, "timestamp", "TimestampType", Some(8)),
    (Uuid, 0xC, "uuid", "UUIDType", Some(16)),
    (Text, 0xD, "text", "UTF8Type", None),
    (Varint, 0xE, "varint", "IntegerType", None),
    (Timeuuid, 0xF, "timeuuid", "TimeUUIDType", Some(16)),
    (Inet, 0x10, "inet", "InetAddressType", None),
    (Date, 0x11, "date", "SimpleDateType", None),
    (Time, 0x12, "time", "TimeType", None),
    (Smallint, 0x13, "smallint", "ShortType", None),
    (Tinyint, 0x14, "tinyint", "ByteType", None),
    (Duration, 0x15, "duration", "DurationType", None),
];

impl Kind {
    /// Reads an `[option]`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Kind, String> {
        let bad = |_| "a type that is cut".to_owned();
        Ok(match reader.short().map_err(bad)? {
            0x0 => Kind::of_class(reader.string().map_err(bad)?),
            0x20 => Kind::Sequence("list", Box::new(Kind::read(reader)?)),
            0x22 => Kind::Sequence("set", Box::new(Kind::read(reader)?)),
            0x21 => Kind::Map(Box::new(Kind::read(reader)?), Box::new(Kind::read(reader)?)),
            0x30 => {
                reader.string().map_err(bad)?;
                let name = reader.string().map_err(bad)?.to_owned();
                let count = reader.short().map_err(bad)?;
                let mut fields = Vec::new();
                for _ in 0..count {
                    let field = reader.string().map_err(bad)?.to_owned();
                    fields.push((field, Kind::read(reader)?));
                }
                Kind::Udt(name, fields)
            }
            0x31 => {
                let count = reader.short().map_err(bad)?;
                Kind::Tuple((0..count).map(|_| Kind::read(reader)).collect::<Result<_, _>>()?)
            }
            code => {
                let scalar = SCALARS.iter().find(|row| row.1 == code);
                Kind::Scalar(scalar.ok_or(format!("an unknown type {code:#x}"))?.0)
            }
        })
    }

    /// The class of a vector, or one that stays a class.
    fn of_class(class: &str) -> Kind {
        let short = class.replace("org.apache.cassandra.db.marshal.", "").replace(' ', "");
        Kind::of_short_class(&short).unwrap_or(Kind::Custom(short))
    }

    fn of_short_class(class: &str) -> Option<Kind> {
        if let Some(parts) = class.strip_prefix("VectorType(").and_then(|c| c.strip_suffix(')')) {
            let (element, dimension) = parts.rsplit_once(',')?;
            let element = Kind::of_short_class(element)?;
            return Some(Kind::Vector(Box::new(element), dimension.parse().ok()?));
        }
        SCALARS.iter().find(|row| row.3 == class).map(|row| Kind::Scalar(row.0))
    }

    /// The type as CQL writes it.
    pub(super) fn name(&self) -> String {
        match self {
            Kind::Scalar(scalar) => row(*scalar).2.to_owned(),
            Kind::Sequence(name, of) => format!("{name}<{}>", of.name()),
            Kind::Map(key, value) => format!("map<{}, {}>", key.name(), value.name()),
            Kind::Tuple(fields) => {
                let names: Vec<String> = fields.iter().map(Kind::name).collect();
                format!("tuple<{}>", names.join(", "))
            }
            Kind::Udt(name, fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, kind)| format!("{name} {}", kind.name())).collect();
                format!("{name}({})", fields.join(", "))
            }
            Kind::Vector(of, dimension) => format!("vector<{}, {dimension}>", of.name()),
            Kind::Custom(class) => format!("'{class}'"),
        }
    }

    /// Bytes of an element in a vector, if all have as many.
    pub(super) fn vector_bytes(&self) -> Option<usize> {
        match self {
            Kind::Scalar(scalar) => row(*scalar).4,
            Kind::Vector(of, dimension) => Some(of.vector_bytes()? * dimension),
            _ => None,
        }
    }

    /// The value as text; what is not a value of the type as its bytes with a question mark.
    pub(super) fn show(&self, value: Option<&[u8]>) -> String {
        match value {
            None => "null".to_owned(),
            Some(bytes) => self.text(bytes).unwrap_or_else(|| format!("?{}", hex(bytes))),
        }
    }

    fn text(&self, bytes: &[u8]) -> Option<String> {
        match self {
            Kind::Scalar(scalar) => scalar_text(*scalar, bytes),
            Kind::Custom(_) => Some(hex(bytes)),
            _ if bytes.is_empty() => Some("empty".to_owned()),
            Kind::Sequence(name, of) => {
                let parts = elements(bytes, 1)?;
                let shown: Vec<String> = parts.iter().map(|part| of.show(*part)).collect();
                let (open, close) = if *name == "list" { ('[', ']') } else { ('{', '}') };
                Some(format!("{open}{}{close}", shown.join(", ")))
            }
            Kind::Map(key, value) => {
                let parts = elements(bytes, 2)?;
                let pair = |pair: &[Option<&[u8]>]| {
                    format!("{}: {}", key.show(pair[0]), value.show(pair[1]))
                };
                let shown: Vec<String> = parts.chunks_exact(2).map(pair).collect();
                Some(format!("{{{}}}", shown.join(", ")))
            }
            Kind::Tuple(kinds) => {
                let parts = fields(bytes, kinds.len())?;
                let shown: Vec<String> =
                    kinds.iter().zip(parts).map(|(kind, part)| kind.show(part)).collect();
                Some(format!("({})", shown.join(", ")))
            }
            Kind::Udt(_, named) => {
                let parts = fields(bytes, named.len())?;
                let field = |((name, kind), part): (&(String, Kind), Option<&[u8]>)| {
                    format!("{name}: {}", kind.show(part))
                };
                let shown: Vec<String> = named.iter().zip(parts).map(field).collect();
                Some(format!("{{{}}}", shown.join(", ")))
            }
            Kind::Vector(of, dimension) => {
                let shown = vector_parts(of, bytes, *dimension)?;
                Some(format!("[{}]", shown.join(", ")))
            }
        }
    }
}

fn row(scalar: Scalar) -> &'static (Scalar, u16, &'static str, &'static str, Option<usize>) {
    SCALARS.iter().find(|row| row.0 == scalar).expect("every scalar has its row")
}

/// Bytes as CQL writes a blob.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all that is written");
        text
    })
}

/// A signed length and so many bytes; negative is null.
fn part<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
        *bytes = rest;
        return Some(None);
    };
    let (value, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(Some(value))
}

/// A count of elements, each of so many parts.
fn elements(mut bytes: &[u8], parts: usize) -> Option<Vec<Option<&[u8]>>> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    bytes = rest;
    let count = usize::try_from(i32::from_be_bytes(*count)).ok()?;
    let all = (0..count * parts).map(|_| part(&mut bytes)).collect::<Option<Vec<_>>>()?;
    bytes.is_empty().then_some(all)
}

/// Fields; those that an older value lacks at its end are null.
fn fields(mut bytes: &[u8], count: usize) -> Option<Vec<Option<&[u8]>>> {
    let next = |_| if bytes.is_empty() { Some(None) } else { part(&mut bytes) };
    let all = (0..count).map(next).collect::<Option<Vec<_>>>()?;
    bytes.is_empty().then_some(all)
}

/// Elements of fixed size one after the other; others with an unsigned variable-length size each.
fn vector_parts(of: &Kind, mut bytes: &[u8], dimension: usize) -> Option<Vec<String>> {
    let mut shown = Vec::new();
    for _ in 0..dimension {
        let size = match of.vector_bytes() {
            Some(size) => size,
            None => {
                // Sizes below 128 are one byte; the suite has no larger elements.
                let (size, rest) = bytes.split_first()?;
                bytes = rest;
                if *size < 0x80 { usize::from(*size) } else { return None }
            }
        };
        let (element, rest) = bytes.split_at_checked(size)?;
        bytes = rest;
        shown.push(of.show(Some(element)));
    }
    bytes.is_empty().then_some(shown)
}

fn scalar_text(scalar: Scalar, bytes: &[u8]) -> Option<String> {
    if bytes.is_empty() && !matches!(scalar, Ascii | Text | Blob) {
        return Some("empty".to_owned());
    }
    Some(match scalar {
        Ascii | Text => quoted(std::str::from_utf8(bytes).ok()?),
        Blob => hex(bytes),
        Boolean => (*bytes.first().filter(|_| bytes.len() == 1)? != 0).to_string(),
        Tinyint => i8::from_be_bytes(bytes.try_into().ok()?).to_string(),
        Smallint => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
        Int => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        Bigint | Counter => long(bytes)?.to_string(),
        Float => float_text(f32::from_be_bytes(bytes.try_into().ok()?)),
        Double => float_text(f64::from_be_bytes(bytes.try_into().ok()?)),
        Varint => BigInt::from_signed_bytes_be(bytes).to_string(),
        Decimal => {
            let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
            let scale = i32::from_be_bytes(*scale);
            format!("{}E{}", BigInt::from_signed_bytes_be(unscaled), -i64::from(scale))
        }
        Uuid | Timeuuid => uuid_text(bytes.try_into().ok()?),
        Inet => match bytes.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string(),
            _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string(),
        },
        Timestamp => timestamp_text(long(bytes)?),
        Date => {
            let days = u32::from_be_bytes(bytes.try_into().ok()?);
            day_text(i64::from(days) - (1 << 31))
        }
        Time => clock_text(u64::try_from(long(bytes)?).ok()?),
        Duration => duration_text(bytes)?,
    })
}

fn long(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().ok().map(i64::from_be_bytes)
}

fn float_text(number: impl std::fmt::Debug) -> String {
    format!("{number:?}")
}

/// Text in quotes; what would break the line of an answer is escaped.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "''");
    let shown: String = escaped
        .chars()
        .map(|c| match c {
            '\n' => "\\n".to_owned(),
            c if c.is_control() => format!("\\u{{{:x}}}", c as u32),
            c => c.to_string(),
        })
        .collect();
    format!("'{shown}'")
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let digits = hex(&bytes);
    let digits = &digits[2..];
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// Year, month and day of a day counted from 1970 (Howard Hinnant's `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn day_text(days: i64) -> String {
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

fn timestamp_text(ms: i64) -> String {
    let (days, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (seconds, ms) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{} {hour:02}:{minute:02}:{second:02}.{ms:03}", day_text(days))
}

fn clock_text(nanos: u64) -> String {
    let seconds = nanos / 1_000_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:09}", nanos % 1_000_000_000)
}

/// Months, days and nanoseconds, each a zigzag variable-length integer.
fn duration_text(mut bytes: &[u8]) -> Option<String> {
    let mut next = || -> Option<i64> {
        let (first, rest) = bytes.split_first()?;
        let extra = first.leading_ones() as usize;
        let (tail, rest) = rest.split_at_checked(extra)?;
        bytes = rest;
        let head = if extra >= 7 { 0 } else { u64::from(first & (0xff >> (extra + 1))) };
        let number = tail.iter().fold(head, |sum, byte| sum << 8 | u64::from(*byte));
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    };
    let (months, days, nanos) = (next()?, next()?, next()?);
    bytes.is_empty().then(|| format!("{months}mo{days}d{nanos}ns"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(scalar: Scalar, bytes: &[u8]) -> String {
        Kind::Scalar(scalar).show(Some(bytes))
    }

    #[test]
    fn values_have_one_text() {
        assert_eq!(show(Int, &[0xff, 0xff, 0xff, 0xfe]), "-2");
        assert_eq!(show(Int, &[1]), "?0x01");
        assert_eq!(show(Int, &[]), "empty");
        assert_eq!(show(Text, b"it's\n"), r"'it''s\n'");
        assert_eq!(show(Decimal, &[0, 0, 0, 2, 0xff, 0x38]), "-200E-2");
        assert_eq!(show(Timestamp, &(-1i64).to_be_bytes()), "1969-12-31 23:59:59.999");
        assert_eq!(show(Date, &(0x8000_0000u32 + 19_782).to_be_bytes()), "2024-02-29");
        assert_eq!(show(Duration, &[0x02, 0x03, 0x80, 0xc8]), "1mo-2d100ns");
        assert_eq!(Kind::Scalar(Int).show(None), "null");
    }

    #[test]
    fn a_vector_is_read_by_its_class() {
        let class = "org.apache.cassandra.db.marshal.VectorType(\
                     org.apache.cassandra.db.marshal.FloatType , 2)";
        let kind = Kind::of_class(class);
        assert_eq!(kind.name(), "vector<float, 2>");
        let bytes = [1.5f32.to_be_bytes(), (-2f32).to_be_bytes()].concat();
        assert_eq!(kind.show(Some(&bytes)), "[1.5, -2.0]");
    }

    #[test]
    fn collections_show_nulls_and_rubbish() {
        let list = Kind::Sequence("list", Box::new(Kind::Scalar(Tinyint)));
        assert_eq!(list.show(Some(&[0, 0, 0, 1, 0, 0, 0, 1, 7])), "[7]");
        assert_eq!(
            list.show(Some(&[0, 0, 0, 1, 0, 0, 0, 1, 7, 9])),
            "?0x000000010000000107 09".replace(' ', "")
        );
        let tuple = Kind::Tuple(vec![Kind::Scalar(Tinyint), Kind::Scalar(Text)]);
        assert_eq!(tuple.show(Some(&[0, 0, 0, 1, 7])), "(7, null)");
    }
}

//! The bytes of conditions, behind the list changes of a mutation.
//!
//! ```text
//! conditions := wanted:u8 timestamp:i64 now_s:u32 count:varint condition*
//! wanted     1 all static columns   2 all regular columns
//! condition  := op:u8 [clustering] [column:u16 comparison:u8 part:u8 [key | index:u32 | field:u16]
//!               values:varint (0:u8 | 1:u8 value)*]
//! op         1 exists   2 not exists   3 column   16 of the static row (no clustering)
//! ```
//!
//! They stand in a mutation until the owner of the partition has judged them. Invariant: no log, memtable or file
//! holds any.

use super::{ColumnTest, Comparison, Condition, Part, Test, Values, Wanted};
use crate::bytes::{Cursor, put_bytes, put_varint};
use crate::read::Operator;
use crate::schema::ColumnId;
use crate::{Error, Result};

const EXISTS: u8 = 1;
const NOT_EXISTS: u8 = 2;
const COLUMN: u8 = 3;
const KIND: u8 = 15;
const OF_STATIC: u8 = 16;

const ALL_STATICS: u8 = 1;
const ALL_REGULARS: u8 = 2;

const WHOLE: u8 = 0;
const KEY: u8 = 1;
const INDEX: u8 = 2;
const FIELD: u8 = 3;

/// What each comparison is in the bytes: its place here.
const COMPARISONS: [Comparison; 9] = [
    Comparison::Is(Operator::Equal),
    Comparison::NotEqual,
    Comparison::Is(Operator::Less),
    Comparison::Is(Operator::LessOrEqual),
    Comparison::Is(Operator::Greater),
    Comparison::Is(Operator::GreaterOrEqual),
    Comparison::Is(Operator::In),
    Comparison::Is(Operator::Contains),
    Comparison::Is(Operator::ContainsKey),
];

/// The conditions of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// What comes back where one does not hold.
    pub wanted: Wanted,
    /// When the write was made, in microseconds: what it writes is so old or, as a rule of collections, one older.
    pub timestamp: i64,
    /// Seconds since 1970: what expires until then is not there.
    pub now_s: u32,
    count: u64,
    cursor: Cursor<'a>,
}

impl<'a> Conditions<'a> {
    /// Reads all of them once: an error if they are not well-formed.
    pub fn parse(bytes: &'a [u8]) -> Result<Conditions<'a>> {
        let mut cursor = Cursor::new(bytes);
        let wanted = cursor.u8()?;
        if wanted & !(ALL_STATICS | ALL_REGULARS) != 0 {
            return Err(Error::Malformed("conditions"));
        }
        let wanted =
            Wanted { statics: wanted & ALL_STATICS != 0, regulars: wanted & ALL_REGULARS != 0 };
        let (timestamp, now_s, count) = (cursor.i64()?, cursor.u32()?, cursor.varint()?);
        let conditions = Conditions { wanted, timestamp, now_s, count, cursor };
        for _ in 0..count {
            get_condition(&mut cursor)?;
        }
        if cursor.is_empty() { Ok(conditions) } else { Err(Error::Malformed("conditions")) }
    }

    /// Each of them, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = Condition<'a>> + Clone + use<'a> {
        let mut cursor = self.cursor;
        (0..self.count).map(move |_| get_condition(&mut cursor).expect("walked when parsed"))
    }
}

fn get_condition<'a>(cursor: &mut Cursor<'a>) -> Result<Condition<'a>> {
    let op = cursor.u8()?;
    if op & !(KIND | OF_STATIC) != 0 {
        return Err(Error::Malformed("condition"));
    }
    let clustering = if op & OF_STATIC == 0 { Some(cursor.bytes()?) } else { None };
    let test = match op & KIND {
        EXISTS => Test::Exists,
        NOT_EXISTS => Test::NotExists,
        COLUMN => Test::Column(get_column_test(cursor)?),
        _ => return Err(Error::Malformed("condition")),
    };
    Ok(Condition { clustering, test })
}

fn get_column_test<'a>(cursor: &mut Cursor<'a>) -> Result<ColumnTest<'a>> {
    let column = ColumnId(cursor.u16()?);
    let comparison = COMPARISONS.get(usize::from(cursor.u8()?)).copied();
    let comparison = comparison.ok_or(Error::Malformed("condition: comparison"))?;
    let part = match cursor.u8()? {
        WHOLE => Part::Whole,
        KEY => Part::Key(cursor.bytes()?),
        INDEX => Part::Index(cursor.u32()?),
        FIELD => Part::Field(cursor.u16()?),
        _ => return Err(Error::Malformed("condition: part")),
    };
    let count = cursor.varint()?;
    let values = Values(ValueBytes { count, cursor: *cursor });
    for _ in 0..count {
        get_value(cursor)?;
    }
    Ok(ColumnTest { column, part, comparison, values })
}

fn get_value<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>> {
    match cursor.u8()? {
        0 => Ok(None),
        1 => cursor.bytes().map(Some),
        _ => Err(Error::Malformed("condition: value")),
    }
}

/// Values where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueBytes<'a> {
    count: u64,
    cursor: Cursor<'a>,
}

impl<'a> Values<'a> {
    /// Each of them; `None` is null.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut cursor = self.0.cursor;
        (0..self.0.count).map(move |_| get_value(&mut cursor).expect("walked when parsed"))
    }
}

/// Puts the conditions of a write together.
#[derive(Clone, Debug, Default)]
pub struct ConditionsBuilder {
    conditions: Vec<u8>,
    count: u64,
}

impl ConditionsBuilder {
    /// `IF EXISTS` or, `is_there` being false, `IF NOT EXISTS`.
    pub fn existence(&mut self, clustering: Option<&[u8]>, is_there: bool) {
        self.begin(clustering, if is_there { EXISTS } else { NOT_EXISTS });
    }

    /// A condition on a column.
    pub fn column<'v>(
        &mut self,
        clustering: Option<&[u8]>,
        (column, part, comparison): (ColumnId, Part<'_>, Comparison),
        values: impl ExactSizeIterator<Item = Option<&'v [u8]>>,
    ) {
        self.begin(clustering, COLUMN);
        let out = &mut self.conditions;
        out.extend_from_slice(&column.0.to_le_bytes());
        let place = COMPARISONS.iter().position(|one| *one == comparison);
        out.push(place.expect("conditions have no other operator") as u8);
        match part {
            Part::Whole => out.push(WHOLE),
            Part::Key(key) => {
                out.push(KEY);
                put_bytes(out, key);
            }
            Part::Index(index) => {
                out.push(INDEX);
                out.extend_from_slice(&index.to_le_bytes());
            }
            Part::Field(field) => {
                out.push(FIELD);
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        put_varint(out, values.len() as u64);
        for value in values {
            out.push(u8::from(value.is_some()));
            if let Some(value) = value {
                put_bytes(out, value);
            }
        }
    }

    fn begin(&mut self, clustering: Option<&[u8]>, kind: u8) {
        self.count += 1;
        self.conditions.push(kind | if clustering.is_none() { OF_STATIC } else { 0 });
        if let Some(clustering) = clustering {
            put_bytes(&mut self.conditions, clustering);
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.conditions.len()
    }

    /// Appends their bytes.
    pub fn put(&self, wanted: Wanted, timestamp: i64, now_s: u32, out: &mut Vec<u8>) {
        let Wanted { statics, regulars } = wanted;
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        out.push(flag(statics, ALL_STATICS) | flag(regulars, ALL_REGULARS));
        out.extend_from_slice(&timestamp.to_le_bytes());
        out.extend_from_slice(&now_s.to_le_bytes());
        put_varint(out, self.count);
        out.extend_from_slice(&self.conditions);
    }
}

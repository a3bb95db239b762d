//! The work of one row or one statement, in units of 1 to 5 ns: that of expressions, and of what a write puts into its
//! record. No step of a core may take seconds for it.
//! What a call reads, and what is put into order, is counted before; what is put together or made is counted right
//! after, and is at most one value; cells are counted while they are walked.
//!
//! ```text
//! a call                  64, the bytes of its arguments and of its result; of what it only copies a quarter;
//!                         of a collection whose elements it walks 2 for each, and the bytes / 16
//!                         + (bytes of its varints and decimals, with digits that scales add)² / 640
//!                                                                      multiplying, dividing, showing as text
//!                         + (64 + bytes of a varint or decimal, at most 416)³ / 8          exp, log, log10
//! a value of JSON         + (digits of a varint or decimal)² / 1000, of a thread beside the core / 16000
//!                         + 4 for each type in its type; of sets and maps as if they were bound
//! m[k], m[a..b]           2 for each element that is walked, and the bytes / 16
//!                         + the bytes of its keys, and of what they are compared with; of texts, blobs .. / 16
//!                         + (bytes of a key with decimals)² / 128, and 4 for each type in the type of a key
//! a key written, sought   from 32 bytes on the bytes / 4; (bytes of a decimal in it)² / 128
//!                         + 4 for each type in its type, if that has parts
//! what is put in order    1 for each field that tuples and user types in it end before
//! a value of max, min     its bytes and those of the value before, as of a key above
//! an aggregate            4 for each row, each group that begins, and each that ends
//!                         + 4 for each type in the type of its values, when a group begins
//! a value of a sum        of varints its bytes and those of the sum; of decimals + (both)² / 640
//! a cell that is walked   4: of the static row, and of elements
//! a value of a filter     its bytes, where filters compare its ordered form
//!                         + (bytes of a decimal in it)² / 128, and 4 for each type in its type
//! cells put together      the bytes / 16
//! a list, a map           the bytes that are put together of parts
//! a bound set or map      16 for each byte; of a thread beside the core 1; 4 for each type in its type
//!                         + (bytes of an element or key with decimals)² / 128, of such a thread / 2048; 1 for each
//!                         field that tuples and user types in it end before
//! the key of a row        the bytes / 16 of its leading columns that a SELECT reads, as they come back
//! a bound value           as a copy, for each marker of its name but the first
//! a stamp of an element   8
//! a partition written to  32
//! a row or a stretch      16, as often as it is put: once for each partition, and once more for what reads first
//! a prefix of a key       32, for each that an IN makes: those before it times its values; 256 for each and each
//!                         column of a bound of several columns, and a quarter of the bytes of the stretch of rows
//! a column of a row       4, set or not, and 4 for each change of its elements
//! an element              8; once more, of a static list that grows for each of many rows, 16 and its bytes
//! a term once more        64, of such a list
//! ```
//!
//! 1. A SHA-512 takes 2 ns a byte, a copy 0.1 to 0.4 ns, a cell or element that is walked 2 to 10 ns, a logarithm of
//!    1000 digits some 30 ms, putting 900,000 entries of 8 bytes into order 0.5 s.
//! 2. What one row takes is counted from 0 (`rows/encoder.rs`), and so is what the values of one statement take
//!    (`Bindings`), and what its constants take when it is compiled (`infer.rs`).
//! 3. What would take more than [`EXPRESSION_WORK_MAX`] in all is refused. A write that a core binds in one step may
//!    have less: it is bound elsewhere then, and no client sees the error (`Bindings::needs_more_work`). What a
//!    row took is said to who reads the rows, so that it pauses between two of them (`RowSink::row_work`).
//!
//! Not here: plain columns, whose bytes the limits of a result bound; functions of users, which have limits of their
//! own.

use std::cell::Cell;

use model::CqlType;
use model::ordered::{DECIMAL_BYTES_SQUARED_PER_UNIT, FormWork, TypeWork, work_of_decimal};

use super::collection::SortCost;
use super::function::{Effort, Function};
use crate::bind::BoundOn;
use crate::error::{Error, Result};
use crate::limits::{DECIMAL_SCALE_MAX, EXPRESSION_WORK_MAX};

/// What a call takes beside its bytes.
const CALL_WORK: u64 = 64;
/// What a cell that is walked takes, which is 4 to 10 ns.
const UNITS_PER_CELL: u64 = 4;
/// What an element of a collection that is walked takes, keys apart from values.
const UNITS_PER_ELEMENT: u64 = 2;
/// What a type in the type of a value takes that is looked at before the value is brought into order: 10 to 20 ns, in
/// two or three walks.
const UNITS_PER_TYPE: u64 = 4;
/// Bytes of a collection that are copied or passed over in a unit.
const COLLECTION_BYTES_PER_UNIT: u64 = 16;
/// Bytes of another value that are copied, and looked at to see whether they are of its type, in a unit.
const COPIED_BYTES_PER_UNIT: u64 = 4;
/// The ordered form of a key of fewer bytes is counted with the row or element that has the key.
const SHORT_KEY_BYTES: usize = 32;
/// Bytes that the scale of a decimal takes at the front of its value.
const SCALE_BYTES: usize = 4;
/// How much of the square of the bytes of long numbers is a unit.
const SQUARED_BYTES_PER_UNIT: u64 = 640;
/// How much of the third power of the bytes of a number is a unit of a series.
const CUBED_BYTES_PER_UNIT: u64 = 8;
/// What putting a byte of a set or map into order takes.
const SORTED_UNITS_PER_BYTE: u64 = 16;
/// A thread beside the core may put so many times as much into order, and read the digits of so many times as many
/// numbers.
const BESIDE_SHARE: u64 = 16;
/// How much of the square of the digits of a number is a unit: 15 ms for 100,000.
const SQUARED_DIGITS_PER_UNIT: u64 = 1000;
/// Bytes of the digits that a series computes with beside those of the number.
const SERIES_GUARD_BYTES: u64 = 64;
/// Bytes of a number that a series computes with at most: 1000 digits, as `function/real.rs` has it.
const SERIES_BYTES_MAX: u64 = 416;

/// What an aggregate takes for a row that it adds, for a group that it begins, and for one that it ends: 30 to 60 ns
/// where there are so many that no cache has their states, far less of a few.
const UNITS_PER_AGGREGATE: u64 = 4;
/// What a partition takes that is written to: its token, and its mutation.
const UNITS_PER_PARTITION: u64 = 32;
/// What a row takes that is written to, or a stretch of rows that is deleted. A record that has as many rows as this
/// allows is longer than a record may be.
const UNITS_PER_ROW: u64 = 16;
/// What the beginning of a row's key takes that an IN makes longer by a column: it is copied.
const UNITS_PER_PREFIX: u64 = 32;
/// What a stretch of rows takes that a bound of several columns makes behind one such beginning: some 200 bytes, 1 µs.
const UNITS_PER_PIECE: u64 = 256;
/// What a column or a change takes that may write something.
const UNITS_PER_CHANGE: u64 = 4;
/// What an element takes that is written: most are copied apart and put into order.
const UNITS_PER_PUT_ELEMENT: u64 = 8;

/// The work that was done since it began, in units of 1 to 5 ns.
#[derive(Clone, Debug)]
pub struct ExpressionWork {
    done: Cell<u64>,
    /// What may be done: less than [`EXPRESSION_WORK_MAX`] where it is done in one step of a core.
    max: u64,
    /// A thread beside the core may put long sets and maps into order, and read long numbers.
    bound_on: BoundOn,
}

impl Default for ExpressionWork {
    fn default() -> ExpressionWork {
        ExpressionWork { done: Cell::new(0), max: EXPRESSION_WORK_MAX, bound_on: BoundOn::Core }
    }
}

impl ExpressionWork {
    /// That of a thread beside the core.
    pub(crate) fn of_thread_beside() -> ExpressionWork {
        ExpressionWork { bound_on: BoundOn::ThreadBeside, ..ExpressionWork::default() }
    }

    /// Says which thread does it.
    pub(crate) fn set_bound_on(&mut self, bound_on: BoundOn) {
        self.bound_on = bound_on;
    }

    /// Lets so many units be done.
    #[inline]
    pub(crate) fn set_at_once(&mut self, units: u64) {
        self.max = units.min(EXPRESSION_WORK_MAX);
    }

    /// Whether more was asked for than may be done at once, which is less than may be done elsewhere.
    #[inline]
    pub(crate) fn needs_more(&self) -> bool {
        self.done.get() > self.max && self.max < EXPRESSION_WORK_MAX
    }

    /// Counts from 0 again.
    #[inline]
    pub(crate) fn begin(&self) {
        self.done.set(0);
    }

    /// The units that were done, or refused.
    #[inline]
    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    /// Whether more was asked for than may be.
    pub(crate) fn is_over(&self) -> bool {
        self.done.get() > EXPRESSION_WORK_MAX
    }

    /// Whether more was asked for than may be done here.
    pub(crate) fn is_refused(&self) -> bool {
        self.done.get() > self.max
    }

    /// Counts so many units; an error if they are too many.
    #[inline]
    pub(crate) fn take(&self, units: u64) -> Result<()> {
        let done = self.done.get().saturating_add(units);
        self.done.set(done);
        if done > self.max { Err(too_much()) } else { Ok(()) }
    }

    /// Counts cells of a row that were walked. What is counted next is refused if they were too many.
    #[inline]
    pub(crate) fn note_cells(&self, cells: usize) {
        let units = (cells as u64).saturating_mul(UNITS_PER_CELL);
        self.done.set(self.done.get().saturating_add(units));
    }

    /// Counts so many terms that are evaluated once more.
    pub(crate) fn take_again(&self, terms: usize) -> Result<()> {
        self.take((terms as u64).saturating_mul(CALL_WORK))
    }

    /// Counts what terms have added that were evaluated once more: elements that are counted already, and their bytes.
    pub(crate) fn take_added_again(&self, elements: usize, bytes: usize) -> Result<()> {
        let of_elements = (elements as u64).saturating_mul(UNITS_PER_PUT_ELEMENT);
        self.take(of_elements.saturating_add(bytes as u64))
    }

    /// Counts a partition that is written to.
    #[inline]
    pub(crate) fn take_partition(&self) -> Result<()> {
        self.take(UNITS_PER_PARTITION)
    }

    /// Counts rows, or stretches of rows, before each of them is written to.
    #[inline]
    pub(crate) fn take_rows(&self, rows: usize) -> Result<()> {
        self.take((rows as u64).saturating_mul(UNITS_PER_ROW))
    }

    /// Counts columns or changes of one row, set or not, before each of them is evaluated.
    #[inline]
    pub(crate) fn take_changes(&self, changes: usize) -> Result<()> {
        self.take((changes as u64).saturating_mul(UNITS_PER_CHANGE))
    }

    /// Counts elements that are written.
    #[inline]
    pub(crate) fn take_elements(&self, elements: usize) -> Result<()> {
        self.take((elements as u64).saturating_mul(UNITS_PER_PUT_ELEMENT))
    }

    /// Counts aggregates before each of them adds a row, or begins or ends a group.
    #[inline]
    pub(crate) fn take_aggregates(&self, aggregates: usize) -> Result<()> {
        self.take((aggregates as u64).saturating_mul(UNITS_PER_AGGREGATE))
    }

    /// Goes on from where another count has come to.
    pub(crate) fn continue_from(&self, other: &ExpressionWork) {
        self.done.set(other.done.get());
    }

    /// Counts bytes that are read, or made.
    #[inline]
    pub(crate) fn take_bytes(&self, bytes: usize) -> Result<()> {
        self.take(bytes as u64)
    }

    /// Counts a value that was put together from cells, which are counted apart.
    #[inline]
    pub(crate) fn take_collected(&self, bytes: usize) -> Result<()> {
        self.take(bytes as u64 / COLLECTION_BYTES_PER_UNIT)
    }

    /// Counts beginnings of rows' keys that are made longer by a column.
    pub(crate) fn take_prefixes(&self, prefixes: usize) -> Result<()> {
        self.take((prefixes as u64).saturating_mul(UNITS_PER_PREFIX))
    }

    /// Counts stretches of rows that the bounds of several columns make.
    pub(crate) fn take_pieces(&self, pieces: usize) -> Result<()> {
        self.take((pieces as u64).saturating_mul(UNITS_PER_PIECE))
    }

    /// Counts the bytes of such a stretch, which is copied.
    pub(crate) fn take_piece_bytes(&self, bytes: usize) -> Result<()> {
        self.take(bytes as u64 / COPIED_BYTES_PER_UNIT)
    }

    /// Counts a value of this type that is copied, or whose elements are walked.
    #[inline]
    pub(crate) fn take_copy(&self, ty: &CqlType, value: &[u8]) -> Result<()> {
        self.take(work_of_copy(ty, value))
    }

    /// Counts a key, a value of this type, that is brought into the form by which it is ordered.
    pub(crate) fn take_form(&self, ty: &CqlType, key: &[u8]) -> Result<()> {
        let order_work = OrderWork::of(ty);
        self.take(order_work.of_type().saturating_add(order_work.of_form(ty, key)))
    }

    /// Counts a value that rows are compared with, before it is brought into ordered form.
    pub(crate) fn take_ordered(&self, ty: &CqlType, value: &[u8]) -> Result<()> {
        let order_work = OrderWork::of(ty);
        let of_bytes = order_work.of_type().saturating_add(value.len() as u64);
        self.take(of_bytes.saturating_add(order_work.of_parts(ty, value).units()))
    }

    /// Counts a key, a value of this type, before it is brought into ordered form, to be written or sought: that of a
    /// row, of an element, or a bound of rows. Of a short one this is a comparison. Gives the bytes by which the key is
    /// longer when it comes back.
    #[inline]
    pub(crate) fn take_key(&self, ty: &CqlType, key: &[u8]) -> Result<usize> {
        if key.len() < SHORT_KEY_BYTES && ty.is_scalar() {
            return Ok(0);
        }
        self.take_key_of(OrderWork::of(ty), ty, key)
    }

    /// The same where it is known what ordering keys of this type takes.
    pub(crate) fn take_key_of(
        &self,
        order_work: OrderWork,
        ty: &CqlType,
        key: &[u8],
    ) -> Result<usize> {
        let (units, missing_bytes) = order_work.of_key(ty, key);
        self.take(order_work.of_type().saturating_add(units))?;
        Ok(missing_bytes)
    }

    /// Counts bytes of sets and maps before they are put into order.
    pub(crate) fn take_sort(&self, bytes: usize) -> Result<()> {
        self.take((bytes as u64).saturating_mul(self.weighed(SORTED_UNITS_PER_BYTE)))
    }

    /// Counts what putting sets and maps into order has taken beside their bytes, which is bounded for each value.
    pub(super) fn take_sorted(&self, cost: &SortCost) -> Result<()> {
        let of_decimals = self.weighed(cost.decimals / DECIMAL_BYTES_SQUARED_PER_UNIT);
        self.take(of_decimals.saturating_add(cost.missing_fields))
    }

    /// Counts the digits of a number before they are read.
    pub(crate) fn take_digits(&self, digits: usize) -> Result<()> {
        let squared = (digits as u64).saturating_pow(2);
        self.take(self.weighed(squared / SQUARED_DIGITS_PER_UNIT))
    }

    /// Counts the types in a type that is walked.
    pub(crate) fn take_types(&self, ty: &CqlType) -> Result<()> {
        self.take(OrderWork::of(ty).of_type())
    }

    /// What so many units count as on this thread: a sixteenth beside the core.
    fn weighed(&self, units: u64) -> u64 {
        match self.bound_on {
            BoundOn::Core => units,
            BoundOn::ThreadBeside => units / BESIDE_SHARE,
        }
    }
}

#[cold]
fn too_much() -> Error {
    Error::invalid(format!(
        "one row or statement takes more than {EXPRESSION_WORK_MAX} units of work, which are bytes that its \
         expressions read and make, more for long numbers, and some for each partition, row and element that it \
         writes: use fewer expressions or shorter values, or write less at once"
    ))
}

/// What a call of the function with values of these types takes before its result is made, in units.
pub(super) fn work_of_call(
    function: &Function,
    types: &[CqlType],
    values: &[Option<&[u8]>],
) -> u64 {
    let (mut bytes, mut of_numbers, mut of_series) = (CALL_WORK, 0u64, 0u64);
    for (ty, value) in types.iter().zip(values) {
        let Some(value) = value else { continue };
        bytes = bytes.saturating_add(work_of_bytes(function, ty, value));
        let is_long_number = matches!(ty, CqlType::Varint | CqlType::Decimal);
        if is_long_number && function.effort != Effort::Copies {
            of_numbers = of_numbers.saturating_add(number_bytes(ty, value));
            if function.effort == Effort::Series {
                let digits = (value.len() as u64).min(SERIES_BYTES_MAX) + SERIES_GUARD_BYTES;
                of_series += digits.pow(3) / CUBED_BYTES_PER_UNIT;
            }
        }
    }
    bytes
        .saturating_add(of_numbers.saturating_pow(2) / SQUARED_BYTES_PER_UNIT)
        .saturating_add(of_series)
}

/// What the bytes of an argument or of the result of a call take, in units.
pub(super) fn work_of_bytes(function: &Function, ty: &CqlType, value: &[u8]) -> u64 {
    match function.effort {
        Effort::Bytes | Effort::Series => value.len() as u64,
        Effort::Copies => work_of_copy(ty, value),
    }
}

/// What copying a value takes, or walking over its elements, in units.
fn work_of_copy(ty: &CqlType, value: &[u8]) -> u64 {
    let bytes = value.len() as u64;
    let elements = match (ty, value.first_chunk()) {
        (CqlType::List { .. } | CqlType::Set { .. }, Some(count)) => i32::from_be_bytes(*count),
        (CqlType::Map { .. }, Some(count)) => i32::from_be_bytes(*count).saturating_mul(2),
        _ => return bytes / COPIED_BYTES_PER_UNIT,
    };
    UNITS_PER_ELEMENT * u64::from(elements.max(0).cast_unsigned())
        + bytes / COLLECTION_BYTES_PER_UNIT
}

/// What ordering values of a type takes: a value that is compared is brought into the form whose bytes compare as
/// values do (`model/src/ordered.rs`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderWork {
    compares_bytes: bool,
    type_work: TypeWork,
}

impl OrderWork {
    pub(crate) fn of(ty: &CqlType) -> OrderWork {
        OrderWork { compares_bytes: ty.compares_bytes(), type_work: TypeWork::of(ty) }
    }

    /// Whether values of the type have decimals in them.
    pub(crate) fn has_decimals(self) -> bool {
        self.type_work.has_decimals
    }

    /// What the parts of a value take beside its bytes, of a type that may have such.
    fn of_parts(self, ty: &CqlType, value: &[u8]) -> FormWork {
        match self.type_work.has_more_than_bytes() {
            true => FormWork::of(ty, value),
            false => FormWork::default(),
        }
    }

    /// What making this for a type takes, in units: user types in user types may have tens of thousands of fields.
    pub(crate) fn of_type(self) -> u64 {
        self.type_work.types * UNITS_PER_TYPE
    }

    /// What bringing a value into that form takes, in units.
    pub(crate) fn of_form(self, ty: &CqlType, value: &[u8]) -> u64 {
        let bytes = value.len() as u64;
        let of_parts = match (self.type_work.has_decimals, self.type_work.has_fields) {
            (true, true) => work_of_decimal(value.len()).max(FormWork::of(ty, value).units()),
            (true, false) => work_of_decimal(value.len()),
            (false, true) => FormWork::of(ty, value).units(),
            (false, false) => 0,
        };
        bytes.saturating_add(of_parts)
    }

    /// What bringing a key of this type into that form takes, in units, and the bytes by which the key is longer when
    /// it comes back. By [`OrderWork::of_form`] the key of a row that has 64 KiB of short decimals, which is quick to
    /// write, would be refused.
    fn of_key(self, ty: &CqlType, key: &[u8]) -> (u64, usize) {
        let of_parts = self.of_parts(ty, key);
        let of_bytes = match key.len() < SHORT_KEY_BYTES {
            true => 0,
            false => key.len() as u64 / COPIED_BYTES_PER_UNIT,
        };
        (of_bytes.saturating_add(of_parts.units()), of_parts.missing_bytes())
    }

    /// What a value takes that is compared with another, in units.
    pub(crate) fn of_compared(self, ty: &CqlType, value: &[u8]) -> u64 {
        match self.compares_bytes {
            true => value.len() as u64 / COLLECTION_BYTES_PER_UNIT,
            false => self.of_form(ty, value),
        }
    }
}

/// What showing a value as text takes beside its bytes: of a varint or decimal, in units; of any other 0.
pub(super) fn work_of_number(ty: &CqlType, value: &[u8]) -> u64 {
    match ty {
        CqlType::Varint | CqlType::Decimal => {
            (value.len() as u64).saturating_pow(2) / SQUARED_BYTES_PER_UNIT
        }
        _ => 0,
    }
}

/// Bytes of the digits that a number is computed with: of a decimal those that its scale may add, too.
fn number_bytes(ty: &CqlType, value: &[u8]) -> u64 {
    let bytes = value.len() as u64;
    match value.first_chunk::<SCALE_BYTES>() {
        Some(scale) if *ty == CqlType::Decimal => bytes + scale_bytes(i32::from_be_bytes(*scale)),
        _ => bytes,
    }
}

/// Bytes of the digits that this scale of a decimal may add to a number that is computed with.
pub(super) fn scale_bytes(scale: i32) -> u64 {
    // A byte has more than two digits.
    u64::from(scale.unsigned_abs().min(DECIMAL_SCALE_MAX) / 2)
}

/// What adding a varint or decimal to a sum of so many bytes takes, in units.
pub(super) fn work_of_sum(ty: &CqlType, value: &[u8], sum_bytes: u64) -> u64 {
    let bytes = number_bytes(ty, value).saturating_add(sum_bytes);
    match ty {
        // Both are brought to one scale.
        CqlType::Decimal => bytes.saturating_add(bytes.saturating_pow(2) / SQUARED_BYTES_PER_UNIT),
        _ => bytes,
    }
}

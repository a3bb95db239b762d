//! The values of one execution: what the client bound, when it happens, and where ids come from.
//!
//! Bound values are checked against the types of their markers once, here, so that nothing after
//! has to. They stay where they lie in the request.
//!
//! 1. `Bindings::none` has the time of the statement and no values. `bind` fills it: by name if the client sent names,
//!    else in order.
//! 2. A value is found by the number of its marker. The first 24 lie in the bindings themselves, so that most
//!    statements allocate nothing here; the others lie in one slice, which bindings of an `INSERT JSON` share.
//! 3. An `INSERT JSON` gets bindings of its own (`with_json`): the same values, and those that its text has.
//!
//! Invariants: the values of one execution see one time; a value that is bound is null, unset, or valid bytes of the
//! marker's type. Sets and maps of a client may be out of order: the terms that need an order sort them
//! (`expr/collection.rs`).
//!
//! Not here: values as they lie in a request (`frame/request/values.rs`), which type a marker has (`expr/compile.rs`),
//! how terms ask for values (`expr/env.rs`).

use std::collections::HashMap;
use std::rc::Rc;

use model::CqlType;

use crate::error::{Error, Result};
use crate::expr::ExpressionWork;
use crate::expr::function::UserFunctions;
use crate::frame::Value;
use crate::frame::request::Values;
use crate::json::{JsonBudget, JsonSlot};
use crate::limits::FROM_JSON_BYTES_MAX;

/// A bind marker.
#[derive(Clone, Debug, PartialEq)]
pub struct Marker {
    /// The keyspace of the marker's table, for the metadata.
    pub keyspace: String,
    /// Name of the table that the marker's column belongs to.
    pub table: String,
    /// `:name`, or the name of what it is bound to.
    pub name: String,
    /// Type of the values that the marker takes.
    pub ty: CqlType,
}

/// Ticks of 100 ns from 1582-10-15, where the time of version 1 uuids begins, to 1970.
pub const UUID_EPOCH_TICKS: i64 = 0x01B2_1DD2_1381_4000;

/// Where functions get ids that are not like any other.
pub trait Ids {
    /// A version 1 uuid of this moment, unlike any other that this gives on this node.
    fn timeuuid(&self) -> [u8; 16];
    /// A version 1 uuid for the position of elements in a list, later than those that statements of this node got
    /// before, also when the wall clock was set back. Across a crash this holds as far as timestamps do
    /// (`docs/decisions/2026-11-22-timestamps.md`). `server_timestamp_us` is the timestamp in microseconds that the
    /// server gave the statement; `None` if the client sent one. A source without a clock gives its next id.
    fn list_position(&self, _server_timestamp_us: Option<i64>) -> [u8; 16] {
        self.timeuuid()
    }
    /// A random (version 4) uuid.
    fn uuid(&self) -> [u8; 16];
}

/// The timestamp and the clock that a statement sees: one for all its parts.
#[derive(Clone, Copy)]
pub struct StatementTime<'a> {
    /// The timestamp of writes that name none, in microseconds.
    pub timestamp_us: i64,
    /// The timestamp that the server gave the statement, in microseconds; `None` of a read, and if the client sent one.
    pub server_timestamp_us: Option<i64>,
    /// The wall clock, in milliseconds: what `current_timestamp()` says.
    pub now_ms: i64,
    /// What expiry counts from, in seconds.
    pub now_s: u32,
    /// Where `now()` and `uuid()` come from.
    pub ids: &'a dyn Ids,
    /// What runs functions of users.
    pub functions: &'a dyn UserFunctions,
}

impl StatementTime<'_> {
    /// A position for elements that the statement puts into a list ([`Ids::list_position`]).
    pub(crate) fn list_position(&self) -> [u8; 16] {
        self.ids.list_position(self.server_timestamp_us)
    }
}

/// How many values are kept without allocating.
const INLINE: usize = 24;

/// Values that are bound by themselves, before all others, have at most so many bytes: durations have 27.
const SHORT_BYTES: usize = 64;

/// Which thread evaluates the terms of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoundOn {
    /// The core: what it takes long for is counted before it is done.
    #[default]
    Core,
    /// A thread beside the core, which may put long sets and maps into order, and read long numbers.
    ThreadBeside,
}

/// Bound values that can be asked for by number.
pub struct Bindings<'a> {
    inline: [Value<'a>; INLINE],
    /// The values behind these, if there are more. Shared with bindings that have the values of an `INSERT JSON` as
    /// well: a batch has thousands of them.
    spilled: Option<Rc<[Value<'a>]>>,
    /// The values of the `INSERT JSON` that is bound.
    pub(crate) json: &'a [JsonSlot],
    /// What the calls of `from_json` may still make.
    pub(crate) json_budget: JsonBudget,
    /// What evaluating its terms has taken.
    pub(crate) work: ExpressionWork,
    /// The timestamp and the clock that the statement sees.
    pub time: StatementTime<'a>,
}

impl<'a> Bindings<'a> {
    /// `values` bound to `markers`.
    pub fn new(values: &Values<'a>, markers: &[Marker], time: StatementTime<'a>) -> Result<Self> {
        let mut bindings = Bindings::none(time);
        bindings.bind(values, markers)?;
        Ok(bindings)
    }

    /// Binds `values` to `markers`: by name if they have names, else in order. Bindings that have none yet are bound
    /// where they are: they are long to move.
    pub fn bind(&mut self, values: &Values<'a>, markers: &[Marker]) -> Result<()> {
        self.bind_those(values, markers, |_| true)
    }

    /// The values of at most 64 bytes, bound to their markers; all others are null. Of these no byte is looked at.
    pub fn of_short(
        values: &Values<'a>,
        markers: &[Marker],
        time: StatementTime<'a>,
    ) -> Result<Self> {
        let is_short =
            |value: Value<'_>| !matches!(value, Value::Bytes(long) if long.len() > SHORT_BYTES);
        let mut bindings = Bindings::none(time);
        bindings.bind_those(values, markers, is_short)?;
        Ok(bindings)
    }

    #[inline(always)]
    fn bind_those(
        &mut self,
        values: &Values<'a>,
        markers: &[Marker],
        is_wanted: impl Fn(Value<'_>) -> bool,
    ) -> Result<()> {
        if values.len() != markers.len() && !values.is_named() {
            return Err(Error::invalid(format!(
                "Invalid amount of bind variables: expected {} but got {}",
                markers.len(),
                values.len()
            )));
        }
        if markers.len() > INLINE {
            let nulls = std::iter::repeat_n(Value::Null, markers.len() - INLINE);
            self.spilled = Some(nulls.collect());
        }
        if values.is_named() {
            return self.bind_named(values, markers, is_wanted);
        }
        for (index, (value, marker)) in values.iter().zip(markers).enumerate() {
            if is_wanted(value) {
                self.set(index, value, marker)?;
            }
        }
        Ok(())
    }

    /// Takes the values that have the names of markers.
    #[cold]
    fn bind_named(
        &mut self,
        values: &Values<'a>,
        markers: &[Marker],
        is_wanted: impl Fn(Value<'_>) -> bool,
    ) -> Result<()> {
        let mut named = HashMap::with_capacity(values.len());
        for (name, value) in values.named_iter() {
            // Of two of one name the first counts.
            named.entry(name).or_insert((value, false));
        }
        for (index, marker) in markers.iter().enumerate() {
            let (value, is_bound) = named.get_mut(marker.name.as_str()).ok_or_else(|| {
                Error::invalid(format!(
                    "Invalid amount of bind variables: {} is missing",
                    marker.name
                ))
            })?;
            if is_wanted(*value) {
                // Thousands of markers may have one name, and a long value.
                if let (Value::Bytes(bytes), true) = (*value, *is_bound) {
                    self.work.take_copy(&marker.ty, bytes)?;
                }
                *is_bound = true;
                self.set(index, *value, marker)?;
            }
        }
        Ok(())
    }

    /// Bindings of a statement without markers.
    #[inline(always)]
    pub fn none(time: StatementTime<'a>) -> Self {
        let json_budget = JsonBudget::of(FROM_JSON_BYTES_MAX);
        Bindings {
            inline: [Value::Null; INLINE],
            spilled: None,
            json: &[],
            json_budget,
            work: ExpressionWork::default(),
            time,
        }
    }

    /// What evaluating the terms has taken since it began, in units of work of some nanoseconds each (`expr/work.rs`).
    /// What a SELECT evaluates once for all rows begins at 0.
    #[inline]
    pub fn work_done(&self) -> u64 {
        self.work.done()
    }

    /// Lets the terms take so many units of work and no more: what needs more is to be bound anew elsewhere. Without it
    /// they take as much as those of a statement may.
    #[inline]
    pub fn set_work_at_once(&mut self, units: u64) {
        self.work.set_at_once(units);
    }

    /// Whether the terms need more work than they may take at once: no client is to see the error that they gave.
    #[inline]
    pub fn needs_more_work(&self) -> bool {
        self.work.needs_more()
    }

    /// Says which thread evaluates the terms; without it the core does.
    pub fn set_bound_on(&mut self, bound_on: BoundOn) {
        self.work.set_bound_on(bound_on);
    }

    /// These bindings, with the values of the text of an `INSERT JSON`.
    pub(crate) fn with_json<'b>(&'b self, json: &'b [JsonSlot]) -> Bindings<'b> {
        Bindings {
            inline: self.inline,
            spilled: self.spilled.clone(),
            json,
            json_budget: self.json_budget.clone(),
            work: self.work.clone(),
            time: self.time,
        }
    }

    // Each bound value comes here. A call takes 27 instructions more.
    #[inline(always)]
    fn set(&mut self, index: usize, value: Value<'a>, marker: &Marker) -> Result<()> {
        if let Value::Bytes(bytes) = value {
            marker.ty.validate(bytes).map_err(|error| invalid_value(&error))?;
        }
        match self.inline.get_mut(index) {
            Some(slot) => *slot = value,
            None => self.set_spilled(index - INLINE, value),
        }
        Ok(())
    }

    #[cold]
    fn set_spilled(&mut self, index: usize, value: Value<'a>) {
        let spilled = self.spilled.as_mut().and_then(Rc::get_mut);
        spilled.expect("there are more, and nothing shares them yet")[index] = value;
    }

    /// The value bound to a marker.
    #[inline]
    pub fn get(&self, marker: u16) -> Value<'a> {
        let index = usize::from(marker);
        match self.inline.get(index) {
            Some(value) => *value,
            None => self.spilled.as_ref().expect("there are more")[index - INLINE],
        }
    }
}

/// A value that is not of its marker's type.
#[cold]
fn invalid_value(error: &model::Error) -> Error {
    Error::invalid(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::function::NoUserFunctions;
    use crate::frame::Version;
    use crate::frame::request::ValueList;
    use crate::steps::steps_of;
    use crate::testing::CountingIds;

    /// Before: all values were walked for each marker: 65,535 of each held a core for half a minute.
    #[test]
    fn named_values_are_walked_once_for_all_markers() {
        const COUNT: i32 = 5_000;
        let marker = |index| Marker {
            keyspace: "ks".into(),
            table: "t".into(),
            name: format!("m{index}"),
            ty: CqlType::Int,
        };
        let markers: Vec<Marker> = (0..COUNT).map(marker).collect();
        let mut values = ValueList::new();
        for index in (0..COUNT).rev() {
            values.push_named(&format!("m{index}"), Value::Bytes(&index.to_be_bytes()));
        }
        values.push_named("m7", Value::Null);
        let ids = CountingIds::default();
        let time = StatementTime {
            timestamp_us: 0,
            server_timestamp_us: None,
            now_ms: 0,
            now_s: 0,
            ids: &ids,
            functions: &NoUserFunctions,
        };
        let values = values.as_values(Version::V4);
        let (steps, bindings) = steps_of(|| Bindings::new(&values, &markers, time));
        let bindings = bindings.expect("each has its value");
        for index in 0..COUNT {
            assert_eq!(bindings.get(index as u16), Value::Bytes(&index.to_be_bytes()));
        }
        assert_eq!(steps, values.len(), "each value is read once");
    }
}

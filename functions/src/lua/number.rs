//! Varints and decimals in Lua: a value that can be added, subtracted, compared and shown, as in ScyllaDB.
//!
//! 1. An operation takes a [`LongNumber`] and any number, or any text that is one. A float that is a whole number of 64
//!    bits counts as that whole number.
//! 2. Two exact numbers give a `LongNumber` that is computed exactly; with any other float the result is a float.
//! 3. Multiplication and division are not there, as in ScyllaDB.
//!
//! Invariants: a number that is longer than `LUA_NUMBER_BYTES_MAX` may be given to a body, but is not computed with;
//! what a body has computed and Lua still holds is counted in the [`Budget`], and is at most `LUA_NUMBERS_BYTES_MAX`.
//!
//! Not here: which types of CQL become such a number, and how a result becomes a value (`values.rs`).

use std::cmp::Ordering;
use std::rc::Rc;

use cql::literal::Decimal;
use mlua::{Error, Lua, MetaMethod, Result, UserData, UserDataMethods, Value};
use num_bigint::BigInt;

use crate::budget::Budget;
use crate::limits::{LUA_NUMBER_BYTES_MAX, LUA_NUMBERS_BYTES_MAX, NUMBER_TEXT_BYTES_MAX};

/// A whole number or a decimal of any length.
pub(super) struct LongNumber {
    decimal: Decimal,
    /// Memory of what the body has computed, in bytes; what it was given is the caller's.
    counted_bytes: usize,
    budget: Rc<Budget>,
}

impl LongNumber {
    /// A number that the body was given.
    pub(super) fn given(decimal: Decimal, budget: &Rc<Budget>) -> LongNumber {
        LongNumber { decimal, counted_bytes: 0, budget: budget.clone() }
    }

    /// A number that the body has computed, if there is memory for it.
    fn computed(lua: &Lua, decimal: Decimal, budget: &Rc<Budget>) -> Result<LongNumber> {
        check_length(&decimal)?;
        let counted_bytes = size_of::<LongNumber>() + (decimal.unscaled.bits() / 8) as usize;
        let has_space = || budget.numbers_bytes() + counted_bytes <= LUA_NUMBERS_BYTES_MAX;
        if !has_space() {
            // Those that nothing holds any more.
            lua.gc_collect()?;
        }
        if !has_space() {
            return Err(Error::MemoryError("not enough memory".to_owned()));
        }
        budget.set_numbers_bytes(budget.numbers_bytes() + counted_bytes);
        Ok(LongNumber { decimal, counted_bytes, budget: budget.clone() })
    }
}

impl Drop for LongNumber {
    fn drop(&mut self) {
        self.budget.set_numbers_bytes(self.budget.numbers_bytes() - self.counted_bytes);
    }
}

/// What a value of Lua is as a number.
#[derive(Clone, Debug)]
pub(super) enum Number {
    /// One of these digits.
    Exact(Decimal),
    /// A float that is no whole number of 64 bits.
    Float(f64),
}

/// Makes the methods known to a state, before its memory is bounded.
pub(super) fn register(lua: &Lua, budget: &Rc<Budget>) -> Result<()> {
    lua.create_userdata(LongNumber::given(of_integer(0.into()), budget)).map(drop)
}

pub(super) fn of_integer(unscaled: BigInt) -> Decimal {
    Decimal { unscaled, scale: 0 }
}

/// What a value is as a number, if it is one or a text of one.
pub(super) fn number(value: &Value) -> Option<Number> {
    let exact = |integer: i64| Number::Exact(of_integer(integer.into()));
    let float = |float: f64| {
        let whole = float as i64;
        if whole as f64 == float && whole != i64::MAX { exact(whole) } else { Number::Float(float) }
    };
    match value {
        Value::Integer(integer) => Some(exact(*integer)),
        Value::Number(number) => Some(float(*number)),
        Value::UserData(data) => {
            let number = data.borrow::<LongNumber>().ok()?;
            Some(Number::Exact(number.decimal.clone()))
        }
        Value::String(text) if text.as_bytes().len() <= NUMBER_TEXT_BYTES_MAX => {
            let text = text.to_str().ok()?;
            let text = text.trim();
            match Decimal::parse(text) {
                Some(decimal) => Some(Number::Exact(decimal)),
                None => hexadecimal(text).map(exact),
            }
        }
        _ => None,
    }
}

/// `0x1f`, as Lua reads it.
fn hexadecimal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16).ok().map(|bits| bits as i64)
}

/// The whole number that a decimal is, if it is one.
pub(super) fn whole(decimal: &Decimal) -> Option<BigInt> {
    let ten = |power: u32| BigInt::from(10).pow(power);
    let digits = (8 * LUA_NUMBER_BYTES_MAX) as i64;
    match i64::from(decimal.scale) {
        0 => Some(decimal.unscaled.clone()),
        // Both take time with the product of the lengths.
        _ if check_length(decimal).is_err() => None,
        scale if scale < 0 && -scale <= digits => Some(&decimal.unscaled * ten(-scale as u32)),
        scale if (1..=digits).contains(&scale) => {
            let by = ten(scale as u32);
            let (quotient, rest) = (&decimal.unscaled / &by, &decimal.unscaled % &by);
            (rest == BigInt::ZERO).then_some(quotient)
        }
        _ => None,
    }
}

/// The float nearest to a decimal.
pub(super) fn float(decimal: &Decimal) -> Result<f64> {
    Ok(shown_number(decimal)?.parse().unwrap_or(f64::NAN))
}

/// The digits of a decimal, which take time with the square of its length.
pub(super) fn shown_number(decimal: &Decimal) -> Result<String> {
    check_length(decimal)?;
    Ok(decimal.to_string())
}

impl UserData for LongNumber {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_function(MetaMethod::Add, |lua, (a, b): (Value, Value)| {
            operate(lua, &a, &b, |a, b| a + b, |a, b| a + b)
        });
        methods.add_meta_function(MetaMethod::Sub, |lua, (a, b): (Value, Value)| {
            operate(lua, &a, &b, |a, b| a - b, |a, b| a - b)
        });
        methods.add_meta_function(MetaMethod::Eq, |_, (a, b): (Value, Value)| {
            Ok(compare(&a, &b)? == Some(Ordering::Equal))
        });
        methods.add_meta_function(MetaMethod::Lt, |_, (a, b): (Value, Value)| {
            Ok(compare(&a, &b)? == Some(Ordering::Less))
        });
        methods.add_meta_function(MetaMethod::Le, |_, (a, b): (Value, Value)| {
            Ok(matches!(compare(&a, &b)?, Some(Ordering::Less | Ordering::Equal)))
        });
        methods
            .add_meta_method(MetaMethod::ToString, |_, number, ()| shown_number(&number.decimal));
    }
}

/// Refuses a number that is too long to be computed with.
pub(super) fn check_length(decimal: &Decimal) -> Result<()> {
    let bits = decimal.unscaled.bits();
    if bits > 8 * LUA_NUMBER_BYTES_MAX as u64
        || decimal.scale.unsigned_abs() > 8 * LUA_NUMBER_BYTES_MAX as u32
    {
        let text =
            format!("a number of more than {LUA_NUMBER_BYTES_MAX} bytes is not computed with");
        return Err(Error::runtime(text));
    }
    Ok(())
}

fn operand(value: &Value) -> Result<Number> {
    let number = number(value).ok_or_else(|| Error::runtime("value is not a number"))?;
    if let Number::Exact(decimal) = &number {
        check_length(decimal)?;
    }
    Ok(number)
}

fn operate(
    lua: &Lua,
    a: &Value,
    b: &Value,
    exactly: impl Fn(BigInt, BigInt) -> BigInt,
    in_floats: impl Fn(f64, f64) -> f64,
) -> Result<Value> {
    let as_float = |number: &Number| match number {
        Number::Exact(decimal) => float(decimal),
        Number::Float(float) => Ok(*float),
    };
    let budget = budget_of(a).or_else(|| budget_of(b));
    let budget = budget.ok_or_else(|| Error::runtime("value is not a number"))?;
    let (a, b) = (operand(a)?, operand(b)?);
    if let (Number::Exact(a), Number::Exact(b)) = (&a, &b) {
        let (a, b, scale) = aligned(a, b)?;
        let sum = Decimal { unscaled: exactly(a, b), scale };
        let sum = LongNumber::computed(lua, sum, &budget)?;
        return lua.create_userdata(sum).map(Value::UserData);
    }
    Ok(Value::Number(in_floats(as_float(&a)?, as_float(&b)?)))
}

/// The budget of the call that a long number belongs to.
fn budget_of(value: &Value) -> Option<Rc<Budget>> {
    Some(value.as_userdata()?.borrow::<LongNumber>().ok()?.budget.clone())
}

fn aligned(a: &Decimal, b: &Decimal) -> Result<(BigInt, BigInt, i32)> {
    a.aligned(b).ok_or_else(|| Error::runtime("the scales of these decimals are too far apart"))
}

fn compare(a: &Value, b: &Value) -> Result<Option<Ordering>> {
    let (a, b) = (operand(a)?, operand(b)?);
    Ok(match (&a, &b) {
        (Number::Exact(a), Number::Exact(b)) => {
            let (a, b, _) = aligned(a, b)?;
            Some(a.cmp(&b))
        }
        (Number::Exact(a), Number::Float(b)) => float(a)?.partial_cmp(b),
        (Number::Float(a), Number::Exact(b)) => a.partial_cmp(&float(b)?),
        (Number::Float(a), Number::Float(b)) => a.partial_cmp(b),
    })
}

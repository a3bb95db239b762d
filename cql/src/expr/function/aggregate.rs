//! The running state of an aggregate over the rows of a group.
//!
//! Sums of fixed-width integers wrap as Java's do; averages of them are made of exact sums and
//! truncate, those of decimals move with each value. Nulls are passed over.
//!
//! States of two parts of the rows become one by [`Accumulator::merge`], where the result does not depend on the order
//! of additions (`merges`).

use model::CqlType;
use num_bigint::{BigInt, Sign};

use super::arithmetic::{decimal, wrapped};
use super::user::UserState;
use super::{Aggregate, Signature, UserCallee};
use crate::bind::StatementTime;
use crate::error::{Error, Result};
use crate::expr::work::{ExpressionWork, OrderWork, scale_bytes, work_of_sum};
use crate::limits::NUMBER_BYTES_MAX;
use crate::literal::{Decimal, check_number_bytes};

/// The state of an aggregate: what it knows of the rows so far.
#[derive(Clone, Debug)]
pub struct Accumulator {
    aggregate: Aggregate,
    ty: CqlType,
    /// What comparing its values takes.
    order_work: OrderWork,
    count: u64,
    best: Option<Vec<u8>>,
    /// The sum of integers of at most eight bytes: no count of them leaves these bits.
    small_integers: i128,
    /// The sum of longer ones.
    integers: BigInt,
    floats: FloatSum,
    decimals: Decimal,
    /// All there is of an aggregate that a user made.
    user: Option<UserState>,
}

impl Accumulator {
    /// Before the first row.
    pub fn new(signature: &Signature) -> Accumulator {
        let aggregate = signature.aggregate().expect("scalars have no state");
        let ty = signature.arguments.first().cloned().unwrap_or(CqlType::Bigint);
        let user = match &signature.user {
            Some(UserCallee::Aggregate(functions)) => Some(UserState::new(functions)),
            _ => None,
        };
        Accumulator { user, ..Self::of(aggregate, ty) }
    }

    /// Before the first value of a type.
    pub(super) fn of(aggregate: Aggregate, ty: CqlType) -> Accumulator {
        Accumulator {
            aggregate,
            order_work: OrderWork::of(&ty),
            ty,
            count: 0,
            best: None,
            small_integers: 0,
            integers: BigInt::ZERO,
            floats: FloatSum::default(),
            decimals: Decimal { unscaled: BigInt::ZERO, scale: 0 },
            user: None,
        }
    }

    /// What making it has taken, in units of work: the type of its values was walked.
    pub(crate) fn work_of_type(&self) -> u64 {
        self.order_work.of_type()
    }

    /// Whether a user made the aggregate: it takes as many values as that one has arguments.
    pub fn is_user(&self) -> bool {
        self.user.is_some()
    }

    /// Takes one row's values, of an aggregate that a user made.
    pub fn add_all(&mut self, row: &[Option<&[u8]>], time: &StatementTime<'_>) -> Result<()> {
        self.user.as_mut().expect("the caller has asked").add(row, time)
    }

    /// Takes one row's value.
    pub fn add(&mut self, value: Option<&[u8]>) -> Result<()> {
        if self.aggregate == Aggregate::CountRows {
            self.count += 1;
            return Ok(());
        }
        let Some(value) = value else { return Ok(()) };
        match self.aggregate {
            Aggregate::CountRows | Aggregate::Count => self.count += 1,
            Aggregate::Min | Aggregate::Max => self.compare(value),
            Aggregate::Sum | Aggregate::Avg => self.sum(value)?,
            Aggregate::User => unreachable!("it takes all values of the row"),
        }
        Ok(())
    }

    /// Takes one row's value, and counts what that takes before.
    #[inline]
    pub(crate) fn add_counted(
        &mut self,
        value: Option<&[u8]>,
        work: &ExpressionWork,
    ) -> Result<()> {
        work.take(self.work_of_add(value))?;
        self.add(value)
    }

    /// What taking a value takes beside the row, in units of work: of numbers of fixed width, and of what is only
    /// counted, nothing.
    #[inline]
    fn work_of_add(&self, value: Option<&[u8]>) -> u64 {
        let Some(value) = value else { return 0 };
        match self.aggregate {
            Aggregate::CountRows | Aggregate::Count | Aggregate::User => 0,
            _ if self.ty.fixed_bytes().is_some() => 0,
            Aggregate::Min | Aggregate::Max => {
                let work = self.order_work;
                let of_best =
                    self.best.as_deref().map_or(0, |best| work.of_compared(&self.ty, best));
                work.of_compared(&self.ty, value).saturating_add(of_best)
            }
            Aggregate::Sum | Aggregate::Avg => {
                let scale_bytes =
                    if self.ty == CqlType::Decimal { scale_bytes(self.decimals.scale) } else { 0 };
                work_of_sum(&self.ty, value, self.bytes() as u64 + scale_bytes)
            }
        }
    }

    /// Adds what another state knows of rows that come behind those of this one.
    pub fn merge(&mut self, later: Accumulator, time: &StatementTime<'_>) -> Result<()> {
        if let (Some(known), Some(later)) = (&mut self.user, &later.user) {
            return known.merge(later, time);
        }
        let is_same = self.aggregate == later.aggregate && self.ty == later.ty;
        if !is_same || !merges(self.aggregate, &self.ty) {
            return Err(Error::invalid("these two states are not of one aggregate"));
        }
        if let Some(best) = &later.best {
            self.compare(best);
        }
        self.count += later.count;
        self.small_integers += later.small_integers;
        self.integers += later.integers;
        if self.ty == CqlType::Decimal && self.aggregate == Aggregate::Sum {
            self.decimals = sum_of_decimals(&self.decimals, &later.decimals)?;
        }
        Ok(())
    }

    /// How many bytes of values it keeps.
    #[inline]
    pub fn bytes(&self) -> usize {
        match self.aggregate {
            Aggregate::CountRows | Aggregate::Count => 0,
            Aggregate::Min | Aggregate::Max => self.best.as_ref().map_or(0, Vec::len),
            Aggregate::Sum | Aggregate::Avg => {
                let bits = self.integers.bits() + self.decimals.unscaled.bits();
                (bits / 8) as usize
            }
            Aggregate::User => self.user.as_ref().map_or(0, UserState::bytes),
        }
    }

    fn compare(&mut self, value: &[u8]) {
        let wins = match &self.best {
            None => true,
            Some(best) => {
                let order = self.ty.compare(value, best);
                if self.aggregate == Aggregate::Min { order.is_lt() } else { order.is_gt() }
            }
        };
        if wins {
            let best = self.best.get_or_insert_default();
            best.clear();
            best.extend_from_slice(value);
        }
    }

    fn sum(&mut self, value: &[u8]) -> Result<()> {
        // An empty value of a number is no number.
        if value.is_empty() {
            return Ok(());
        }
        self.count += 1;
        match self.ty {
            CqlType::Float => {
                let number = value.try_into().map(f32::from_be_bytes);
                self.add_float(number.map_err(|_| model::Error::Malformed("float"))?.into());
            }
            CqlType::Double => {
                let number = value.try_into().map(f64::from_be_bytes);
                self.add_float(number.map_err(|_| model::Error::Malformed("double"))?);
            }
            CqlType::Decimal => {
                check_number_bytes(&self.ty, value)?;
                let number =
                    Decimal::from_bytes(value).ok_or(model::Error::Malformed("decimal"))?;
                self.decimals = match self.aggregate {
                    // As Cassandra: each value moves the average, which is rounded each time.
                    Aggregate::Avg => {
                        let (known, number, scale) = aligned(&self.decimals, &number)?;
                        let unscaled = &known + half_even(&(number - &known), self.count);
                        Decimal { unscaled, scale }
                    }
                    _ => sum_of_decimals(&self.decimals, &number)?,
                };
            }
            _ => match small_integer(value) {
                Some(small) => self.small_integers += i128::from(small),
                None => self.integers += BigInt::from_signed_bytes_be(value),
            },
        }
        Ok(())
    }

    fn integer(&self) -> BigInt {
        &self.integers + self.small_integers
    }

    fn add_float(&mut self, value: f64) {
        match self.aggregate {
            Aggregate::Avg => self.floats.add_to_average(value),
            _ => self.floats.add(value),
        }
    }

    /// The result over all rows so far, in wire form; `None` for null.
    pub fn finish(&self, time: &StatementTime<'_>) -> Result<Option<Vec<u8>>> {
        match &self.user {
            Some(user) => user.result(time),
            None => Ok(self.result()),
        }
    }

    /// The result of a built-in aggregate over all rows so far, in wire form; `None` for null.
    pub(super) fn result(&self) -> Option<Vec<u8>> {
        match self.aggregate {
            Aggregate::User => unreachable!("its functions give the result"),
            Aggregate::CountRows | Aggregate::Count => {
                Some((self.count as i64).to_be_bytes().to_vec())
            }
            Aggregate::Min | Aggregate::Max => self.best.clone(),
            Aggregate::Sum => Some(self.number(1)),
            Aggregate::Avg => Some(self.number(self.count.max(1))),
        }
    }

    /// The sum, divided.
    fn number(&self, by: u64) -> Vec<u8> {
        match self.ty {
            CqlType::Float => (self.floats.divided(by) as f32).to_be_bytes().to_vec(),
            CqlType::Double => self.floats.divided(by).to_be_bytes().to_vec(),
            CqlType::Decimal => self.decimals.to_bytes(),
            CqlType::Varint => (self.integer() / by).to_signed_bytes_be(),
            _ => wrapped(&(self.integer() / by), self.ty.fixed_bytes().unwrap_or(8)),
        }
    }
}

/// Whether the state of this aggregate over values of a type is the same however the rows are cut into parts. Not that
/// of floats, which each addition rounds, and not the average of decimals, which each value rounds.
pub(super) fn merges(aggregate: Aggregate, ty: &CqlType) -> bool {
    match aggregate {
        Aggregate::CountRows | Aggregate::Count | Aggregate::Min | Aggregate::Max => true,
        Aggregate::Sum => !matches!(ty, CqlType::Float | CqlType::Double),
        Aggregate::Avg => !matches!(ty, CqlType::Float | CqlType::Double | CqlType::Decimal),
        Aggregate::User => false,
    }
}

/// The integer in these bytes, if they are eight at most.
#[inline]
fn small_integer(value: &[u8]) -> Option<i64> {
    // Nearly every one is an int or a bigint, read without a copy of a length that is not known.
    if let Ok(int) = value.try_into() {
        return Some(i32::from_be_bytes(int).into());
    }
    if let Ok(bigint) = value.try_into() {
        return Some(i64::from_be_bytes(bigint));
    }
    let first = *value.first()?;
    let mut bytes = [if first < 0x80 { 0 } else { 0xff }; 8];
    bytes.get_mut(8_usize.checked_sub(value.len())?..)?.copy_from_slice(value);
    Some(i64::from_be_bytes(bytes))
}

/// Both at one scale, of a sum that has space for another number.
fn aligned(sum: &Decimal, number: &Decimal) -> Result<(BigInt, BigInt, i32)> {
    // A scale that each row makes larger makes the sum longer.
    let has_space = sum.unscaled.bits() / 8 <= NUMBER_BYTES_MAX as u64;
    let both = if has_space { sum.aligned(number) } else { None };
    both.ok_or_else(|| Error::invalid("the sum of these decimals has too many digits"))
}

fn sum_of_decimals(a: &Decimal, b: &Decimal) -> Result<Decimal> {
    let (a, b, scale) = aligned(a, b)?;
    Ok(Decimal { unscaled: a + b, scale })
}

/// A sum of floats by Kahan's method: what each addition rounds away is brought to the next. In Cassandra's own steps,
/// so that every bit is the same.
#[derive(Clone, Debug, Default)]
struct FloatSum {
    sum: f64,
    compensation: f64,
    /// Without compensation, which makes no number of infinities.
    plain: f64,
    /// The sum of an average, once it is too large for a float: `FloatAvgAggregate` of Cassandra.
    large: Option<Decimal>,
}

impl FloatSum {
    fn add(&mut self, value: f64) {
        self.plain += value;
        let term = value - self.compensation;
        let rounded = self.sum + term;
        self.compensation = (rounded - self.sum) - term;
        self.sum = rounded;
    }

    /// Adds a value of an average, whose sum may be larger than any float.
    fn add_to_average(&mut self, value: f64) {
        match &mut self.large {
            Some(large) if value.is_finite() => *large = exact_sum(large, &exact(value)),
            Some(_) => *self = FloatSum { sum: value, plain: value, ..FloatSum::default() },
            None => {
                let before = self.sum;
                self.add(value);
                if self.sum.is_infinite() && before.is_finite() && value.is_finite() {
                    self.large = Some(exact_sum(&exact(before), &exact(value)));
                }
            }
        }
    }

    /// The sum, divided by a count; a large one is rounded half to even where its digits end.
    fn divided(&self, by: u64) -> f64 {
        match &self.large {
            Some(Decimal { unscaled, scale }) => {
                let quotient = Decimal { unscaled: half_even(unscaled, by), scale: *scale };
                quotient.to_string().parse().expect("a decimal is shown as a float is written")
            }
            None => self.value() / by as f64,
        }
    }

    fn value(&self) -> f64 {
        let sum = self.sum + self.compensation;
        if sum.is_nan() && self.plain.is_infinite() { self.plain } else { sum }
    }
}

/// The digits that a finite float is shown with.
fn exact(value: f64) -> Decimal {
    decimal((&CqlType::Double, &value.to_be_bytes())).expect("a finite float is a decimal")
}

fn exact_sum(a: &Decimal, b: &Decimal) -> Decimal {
    let (a, b, scale) = a.aligned(b).expect("the scales of floats are less than 700 apart");
    Decimal { unscaled: a + b, scale }
}

/// The quotient as a whole number, rounded half to even.
fn half_even(number: &BigInt, by: u64) -> BigInt {
    let by = BigInt::from(by);
    let quotient = number / &by;
    let twice: BigInt = (number % &by) * 2;
    let up = match twice.magnitude().cmp(by.magnitude()) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => quotient.bit(0),
        std::cmp::Ordering::Greater => true,
    };
    match (up, number.sign()) {
        (false, _) => quotient,
        (true, Sign::Minus) => quotient - 1,
        (true, _) => quotient + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(aggregate: Aggregate, values: &[f64]) -> f64 {
        let mut state = Accumulator::of(aggregate, CqlType::Double);
        values.iter().for_each(|value| state.add(Some(&value.to_be_bytes())).unwrap());
        f64::from_be_bytes(state.result().unwrap().try_into().unwrap())
    }

    /// What Cassandra 5.0.9 answered.
    #[test]
    fn sums_of_floats_are_compensated() {
        assert_eq!(result(Aggregate::Sum, &[0.1; 10]), 1.0);
        assert_eq!(result(Aggregate::Avg, &[0.1; 10]), 0.1);
        assert_eq!(result(Aggregate::Sum, &[1e100, 1.0, 1.0, -1e100]), 0.0);
        assert_eq!(result(Aggregate::Sum, &[1e308, 1e308, -1e308]), f64::INFINITY);
        let infinite = [0.1, f64::INFINITY, 1.0, f64::INFINITY];
        assert_eq!(result(Aggregate::Sum, &infinite), f64::INFINITY);
        assert_eq!(result(Aggregate::Avg, &infinite), f64::INFINITY);
        assert!(result(Aggregate::Sum, &[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    }

    /// The sum is infinite before it is divided. The digits are those of Cassandra's `FloatAvgAggregate`.
    #[test]
    fn an_average_whose_sum_is_too_large_for_a_float_is_one() {
        let average = |values: &[f64]| result(Aggregate::Avg, values);
        assert_eq!(average(&[1e308, 1e308]), 1e308);
        assert_eq!(average(&[1.5e308, 1.5e308, 1.0]), 1e308);
        assert_eq!(average(&[1e308, 1e308, -1e308]), 3e307);
        assert_eq!(average(&[-f64::MAX, -f64::MAX]), -f64::MAX);
        assert_eq!(average(&[1e308, 1e308, f64::INFINITY, 1.0]), f64::INFINITY);
        assert!(average(&[1e308, 1e308, f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert_eq!(result(Aggregate::Sum, &[1e308, 1e308]), f64::INFINITY);
    }
}

//! The running state of an aggregate over the rows of a group.
//!
//! Sums of fixed-width integers wrap as Java's do; averages are made of exact sums and truncate
//! for integers. Nulls are passed over.

use crate::error::{Error, Result};
use crate::expr::Signature;
use crate::expr::function::Aggregate;
use crate::literal::Decimal;
use model::CqlType;
use num_bigint::{BigInt, Sign};

/// What an aggregate knows so far.
#[derive(Clone, Debug)]
pub struct Accumulator {
    aggregate: Aggregate,
    ty: CqlType,
    count: u64,
    best: Option<Vec<u8>>,
    integers: BigInt,
    floats: f64,
    decimals: Decimal,
}

impl Accumulator {
    /// Before the first row.
    pub fn new(signature: &Signature) -> Accumulator {
        Accumulator {
            aggregate: signature.aggregate().expect("scalars have no state"),
            ty: signature.arguments.first().cloned().unwrap_or(CqlType::Bigint),
            count: 0,
            best: None,
            integers: BigInt::ZERO,
            floats: 0.0,
            decimals: Decimal { unscaled: BigInt::ZERO, scale: 0 },
        }
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
        }
        Ok(())
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
            self.best = Some(value.to_vec());
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
                self.floats += f64::from(number.map_err(|_| model::Error::Malformed("float"))?);
            }
            CqlType::Double => {
                let number = value.try_into().map(f64::from_be_bytes);
                self.floats += number.map_err(|_| model::Error::Malformed("double"))?;
            }
            CqlType::Decimal => {
                let number =
                    Decimal::from_bytes(value).ok_or(model::Error::Malformed("decimal"))?;
                let (a, b, scale) = self.decimals.aligned(&number).ok_or_else(|| {
                    Error::invalid("the sum of these decimals has too many digits")
                })?;
                self.decimals = Decimal { unscaled: a + b, scale };
            }
            _ => self.integers += BigInt::from_signed_bytes_be(value),
        }
        Ok(())
    }

    /// The result.
    pub fn result(&self) -> Option<Vec<u8>> {
        match self.aggregate {
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
            CqlType::Float => ((self.floats / by as f64) as f32).to_be_bytes().to_vec(),
            CqlType::Double => (self.floats / by as f64).to_be_bytes().to_vec(),
            CqlType::Decimal if by == 1 => self.decimals.to_bytes(),
            CqlType::Decimal => self.average_decimal(by).to_bytes(),
            CqlType::Varint => (&self.integers / by).to_signed_bytes_be(),
            _ => {
                let number = &self.integers / by;
                let fill = if number.sign() == Sign::Minus { 0xFF } else { 0 };
                let all = number.to_signed_bytes_be();
                let bytes = self.ty.fixed_bytes().unwrap_or(8);
                let mut out = vec![fill; bytes];
                let kept = all.len().min(bytes);
                out[bytes - kept..].copy_from_slice(&all[all.len() - kept..]);
                out
            }
        }
    }

    /// Rounded half to even at the scale of the sum, as Cassandra does.
    fn average_decimal(&self, by: u64) -> Decimal {
        let by = BigInt::from(by);
        let quotient = &self.decimals.unscaled / &by;
        let twice: BigInt = (&self.decimals.unscaled % &by) * 2;
        let odd = quotient.bit(0);
        let up = match twice.magnitude().cmp(by.magnitude()) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => odd,
            std::cmp::Ordering::Greater => true,
        };
        let step = match (up, self.decimals.unscaled.sign()) {
            (false, _) => 0,
            (true, Sign::Minus) => -1,
            (true, _) => 1,
        };
        Decimal { unscaled: quotient + step, scale: self.decimals.scale }
    }
}

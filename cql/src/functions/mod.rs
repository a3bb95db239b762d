//! The built-in functions: which names there are, which arguments they take, what they return.
//!
//! Names are known in both spellings, `to_date` of Cassandra 5 and `todate` of its past and of
//! ScyllaDB. A function of nulls is null. Whatever needs the clock or a new id takes it from the
//! [`Moment`] of the execution.
//!
//! Not here: aggregates' running state (`rows/aggregate.rs`), user-defined functions (none yet).

mod arithmetic;
mod cast;
mod json;
mod resolve;
mod time;

pub(crate) use cast::to_text;
pub use resolve::{Candidate, Fit, resolve, resolve_cast, resolve_negation, resolve_operation};

use crate::bind::Moment;
use crate::error::{Error, Result};
use crate::lang::ast::BinaryOp;
use model::{CqlType, Token};

/// A built-in function of one row's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the CQL function of the same name")]
pub enum Scalar {
    Token,
    Now,
    Uuid,
    CurrentTimestamp,
    CurrentDate,
    CurrentTime,
    ToDate,
    ToTimestamp,
    ToUnixTimestamp,
    MinTimeuuid,
    MaxTimeuuid,
    /// `int_as_blob` and its like.
    AsBlob,
    /// `blob_as_int` and its like.
    BlobAs,
    ToJson,
    /// `CAST(a AS t)`.
    Cast,
    /// `-a`.
    Negate,
    /// `a + b`.
    Arithmetic(BinaryOp),
}

/// A built-in function of many rows' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the CQL function of the same name")]
pub enum Aggregate {
    CountRows,
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Of one row.
    Scalar(Scalar),
    /// Of many.
    Aggregate(Aggregate),
}

/// A function with the types it is called with.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Which function.
    pub function: Function,
    /// Its name as called, in lower case.
    pub name: String,
    /// The types of its arguments.
    pub arguments: Vec<CqlType>,
    /// The type of its result.
    pub result: CqlType,
}

impl Signature {
    /// Whether the same arguments may give another result later.
    pub fn is_pure(&self) -> bool {
        !matches!(
            self.function,
            Function::Scalar(
                Scalar::Now
                    | Scalar::Uuid
                    | Scalar::CurrentTimestamp
                    | Scalar::CurrentDate
                    | Scalar::CurrentTime
            )
        )
    }

    /// The result of the scalar function for these arguments.
    pub fn call(
        &self,
        arguments: &[Option<&[u8]>],
        moment: &Moment<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let Function::Scalar(scalar) = self.function else {
            unreachable!("aggregates are not called");
        };
        if scalar == Scalar::ToJson {
            return json::to_json(&self.arguments[0], arguments[0]).map(Some);
        }
        // A null argument makes a null result.
        let Some(arguments) = arguments.iter().copied().collect::<Option<Vec<&[u8]>>>() else {
            return Ok(None);
        };
        self.call_of_values(scalar, &arguments, moment)
    }

    fn call_of_values(
        &self,
        scalar: Scalar,
        arguments: &[&[u8]],
        moment: &Moment<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let value = match scalar {
            Scalar::Token => {
                let mut key = Vec::new();
                model::key::put_partition_key(arguments.iter().copied(), &mut key)?;
                Token::of_key(&key).0.to_be_bytes().to_vec()
            }
            Scalar::Now => moment.ids.timeuuid().to_vec(),
            Scalar::Uuid => moment.ids.uuid().to_vec(),
            Scalar::CurrentTimestamp => moment.now_ms.to_be_bytes().to_vec(),
            Scalar::CurrentDate => time::date_of_millis(moment.now_ms)?.to_be_bytes().to_vec(),
            Scalar::CurrentTime => time::time_of_millis(moment.now_ms).to_be_bytes().to_vec(),
            Scalar::ToDate | Scalar::ToTimestamp | Scalar::ToUnixTimestamp => {
                return time::convert(scalar, &self.arguments[0], arguments[0]);
            }
            Scalar::MinTimeuuid | Scalar::MaxTimeuuid => {
                return Ok(time::bound_timeuuid(scalar, arguments[0]).map(Vec::from));
            }
            Scalar::AsBlob => arguments[0].to_vec(),
            Scalar::BlobAs => self.blob_as(arguments[0])?,
            Scalar::ToJson => unreachable!("it takes nulls too"),
            Scalar::Cast => return cast::cast(&self.arguments[0], &self.result, arguments[0]),
            Scalar::Negate => {
                return arithmetic::negate(&self.arguments[0], arguments[0]);
            }
            Scalar::Arithmetic(op) => return self.calculate(op, arguments),
        };
        Ok(Some(value))
    }

    fn blob_as(&self, value: &[u8]) -> Result<Vec<u8>> {
        if self.result.validate(value).is_err() {
            return Err(Error::invalid(format!(
                "In call to function system.{}, value {} is not a valid binary representation for type {}",
                self.name,
                hex(value),
                self.result
            )));
        }
        Ok(value.to_vec())
    }

    fn calculate(&self, op: BinaryOp, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>> {
        let [left, right] = [0, 1].map(|index| (&self.arguments[index], arguments[index]));
        arithmetic::calculate(op, left, right, &self.result).map_err(|reason| Error::Function {
            keyspace: "system".into(),
            function: op.symbol().to_string(),
            arguments: self.arguments.iter().map(CqlType::to_string).collect(),
            text: format!("the operation '{} {op} {}' failed: {reason}", left.0, right.0),
        })
    }
}

/// A value as JSON text.
pub fn json_text(ty: &CqlType, value: Option<&[u8]>) -> Result<String> {
    json::to_json(ty, value).map(|bytes| String::from_utf8(bytes).expect("JSON is made of strings"))
}

/// `0xcafe`.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).expect("four bits are a digit"));
        }
    }
    text
}

#[cfg(test)]
mod tests;

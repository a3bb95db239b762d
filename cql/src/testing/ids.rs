//! What statements of tests see beside the database: ids that count up, and functions of users that add.

use std::cell::Cell;
use std::sync::Arc;

use model::schema::UserFunction;
use num_bigint::BigInt;
use uuid::Uuid;

use crate::bind::Ids;
use crate::error::{Error, Result};
use crate::expr::function::{UserFunctions, failure};

/// Ids that count up.
#[derive(Clone, Default)]
pub(crate) struct CountingIds(Cell<u64>);

impl Ids for CountingIds {
    fn timeuuid(&self) -> [u8; 16] {
        self.0.set(self.0.get() + 1);
        // 2026-11-21 in ticks, and one more for each id.
        let ticks = 140_100_000_000_000_000 + self.0.get();
        let mut uuid = [0x11; 16];
        uuid[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
        uuid[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
        uuid[6..8].copy_from_slice(&((ticks >> 48) as u16 | 0x1000).to_be_bytes());
        uuid
    }

    fn uuid(&self) -> [u8; 16] {
        *Uuid::from_u128(0x4444_8888).as_bytes()
    }
}

/// Runs functions of users in tests: whatever its body, one gives the sum of its arguments, which are integers.
pub(super) struct Sums;

impl UserFunctions for Sums {
    fn check(&self, function: &UserFunction) -> Result<()> {
        if function.body == "wrong" { Err(Error::invalid("could not compile")) } else { Ok(()) }
    }

    fn call(
        &self,
        function: &Arc<UserFunction>,
        arguments: &[Option<&[u8]>],
    ) -> Result<Option<Vec<u8>>> {
        if function.body == "fails" {
            return Err(failure(function, "it fails"));
        }
        let values = arguments.iter().flatten();
        let sum: BigInt = values.map(|value| BigInt::from_signed_bytes_be(value)).sum();
        let bytes = function.result.fixed_bytes().expect("an integer");
        let sum = i64::try_from(sum).expect("small").to_be_bytes();
        Ok(Some(sum[8 - bytes..].to_vec()))
    }
}

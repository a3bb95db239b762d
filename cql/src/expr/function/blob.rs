//! Values as the bytes they are, and bytes as values; the token of a key.

use model::Token;
use model::types::hex;

use super::Call;
use crate::error::{Error, Result};

/// `int_as_blob` and its like.
pub(super) fn from_value(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(Some(call.value(0).to_vec()))
}

/// `blob_as_int` and its like.
pub(super) fn to_value(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let value = call.value(0);
    if call.result().validate(value).is_err() {
        return Err(Error::invalid(format!(
            "In call to function system.{}, value {} is not a valid binary representation for type {}",
            call.signature.name,
            hex(value),
            call.result()
        )));
    }
    Ok(Some(value.to_vec()))
}

/// `token`: that of a partition with these key values.
pub(super) fn token(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let values = (0..call.signature.arguments.len()).map(|index| call.value(index));
    let mut key = Vec::new();
    model::key::put_partition_key(values, &mut key)?;
    Ok(Some(Token::of_key(&key).0.to_be_bytes().to_vec()))
}

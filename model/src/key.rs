//! Keys as bytes: partition keys as Cassandra serialises them, clustering keys as `memcmp` wants.
//!
//! ```text
//! partition key  := value                                   one column
//!                 | (length:u16be value 00)+                several
//! clustering key := component*      ordered.rs; one for each clustering column
//! bound          := component*      before all rows with that prefix
//!                 | component* FF   after all of them
//! ```
//!
//! The partition key's form is what the token is made of, so it can never change. A clustering key
//! of a table without clustering columns is empty. The static row has no clustering key at all.

use crate::limits::{CLUSTERING_FORM_BYTES_MAX, KEY_BYTES_MAX};
use crate::ordered::{self, AFTER, Reader};
use crate::schema::Table;
use crate::types::current_form;
use crate::{Error, Result};

/// Appends the serialised partition key of these column values, given in key order.
pub fn put_partition_key<'v>(
    values: impl ExactSizeIterator<Item = &'v [u8]>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    let single = values.len() == 1;
    let mut bytes = 0;
    for value in values {
        bytes += value.len();
        if single {
            out.extend_from_slice(value);
        } else {
            // A length that does not fit is refused below.
            out.extend_from_slice(&(value.len() as u16).to_be_bytes());
            out.extend_from_slice(value);
            out.push(0);
        }
    }
    match out.len() - start {
        0 => Err(Error::invalid("Key may not be empty")),
        _ if bytes > KEY_BYTES_MAX => Err(too_long(bytes)),
        count if count > KEY_BYTES_MAX => Err(too_long(count)),
        _ => Ok(()),
    }
}

#[cold]
fn too_long(count: usize) -> Error {
    Error::invalid(format!("Key length of {count} is longer than maximum of {KEY_BYTES_MAX}"))
}

/// The column values inside a serialised partition key of `columns` columns.
pub fn partition_key_values(
    key: &[u8],
    columns: usize,
) -> impl Iterator<Item = Result<&[u8]>> + Clone {
    let mut rest = Some(key);
    std::iter::from_fn(move || {
        let bytes = rest.take()?;
        if columns == 1 {
            return Some(Ok(bytes));
        }
        if bytes.is_empty() {
            return None;
        }
        let part = (|| {
            let (count, after) = bytes.split_first_chunk::<2>()?;
            let (value, after) = after.split_at_checked(u16::from_be_bytes(*count).into())?;
            after.split_first().map(|(_, after)| (value, after))
        })();
        Some(match part {
            Some((value, after)) => {
                rest = Some(after);
                Ok(value)
            }
            None => Err(Error::Malformed("partition key")),
        })
    })
}

/// The value of one partition key column.
pub fn partition_key_value(key: &[u8], columns: usize, index: usize) -> Result<&[u8]> {
    partition_key_values(key, columns).nth(index).unwrap_or(Err(Error::Malformed("partition key")))
}

/// The partition key with its values in the form of now, for readers; its token is that of before.
pub fn partition_key_in_current_form(table: &Table, key: &[u8]) -> Result<Vec<u8>> {
    let columns = table.partition_key();
    let values = partition_key_values(key, columns.len()).zip(columns);
    let values: Vec<_> =
        values.map(|(value, column)| current_form(&column.ty, value?)).collect::<Result<_>>()?;
    let mut out = Vec::new();
    put_partition_key(values.iter().map(|value| &value[..]), &mut out)?;
    Ok(out)
}

/// Appends the clustering key, or a prefix of one, of these column values.
pub fn put_clustering<'v>(
    table: &Table,
    values: impl Iterator<Item = &'v [u8]>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    for (column, value) in table.clustering().iter().zip(values) {
        if value.len() > KEY_BYTES_MAX {
            return Err(too_long(value.len()));
        }
        ordered::encode_component(&column.ty, column.descending, value, out)?;
        check_clustering_form(out.len() - start)?;
    }
    Ok(())
}

/// Refuses a clustering key that has so many bytes in the form by which rows are ordered.
pub fn check_clustering_form(bytes: usize) -> Result<()> {
    if bytes <= CLUSTERING_FORM_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "Key length of {bytes} in the form by which rows are ordered is longer than maximum of {CLUSTERING_FORM_BYTES_MAX}"
    )))
}

/// Turns a bound before everything with a prefix into one after everything with it.
pub fn after(prefix: &mut Vec<u8>) {
    prefix.push(AFTER);
}

/// Appends the wire form of clustering column `index` to `out`; false if the row has no value of it.
pub fn clustering_value(
    table: &Table,
    clustering: &[u8],
    index: usize,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let mut reader = Reader::new(clustering);
    for column in &table.clustering()[..index] {
        let start = out.len();
        reader.component(&column.ty, column.descending, out)?;
        out.truncate(start);
    }
    let column = &table.clustering()[index];
    reader.component(&column.ty, column.descending, out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn partition_keys_round_trip(values in prop::collection::vec(
            prop::collection::vec(any::<u8>(), 0..9), 2..4)
        ) {
            let mut key = Vec::new();
            put_partition_key(values.iter().map(Vec::as_slice), &mut key).expect("short values");
            let back: Result<Vec<&[u8]>> = partition_key_values(&key, values.len()).collect();
            prop_assert_eq!(back.expect("what was just made"), values);
        }

        #[test]
        fn arbitrary_keys_never_panic(key: Vec<u8>, columns in 1..4usize) {
            let _ = partition_key_values(&key, columns).collect::<Result<Vec<_>>>();
        }
    }

    #[test]
    fn a_key_of_65536_bytes_is_refused_and_one_of_65535_is_not() {
        let value = vec![0; KEY_BYTES_MAX + 1];
        let put = |count: usize| put_partition_key([&value[..count]].into_iter(), &mut Vec::new());
        assert!(put(KEY_BYTES_MAX).is_ok());
        assert_eq!(
            put(KEY_BYTES_MAX + 1),
            Err(Error::invalid("Key length of 65536 is longer than maximum of 65535"))
        );
        assert_eq!(put(0), Err(Error::invalid("Key may not be empty")));
    }
}

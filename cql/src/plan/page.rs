//! Paging states: where the next page begins, as bytes.
//!
//! ```text
//! state := version:u8 rows_left:varint token:i64 key flags:u8 rows_of_partition:varint
//!          [clustering]                              key, clustering := length:varint bytes
//! flags: 1 a clustering follows, 2 the partition is done
//! ```
//!
//! A client keeps them and sends them back, or others. Every field is checked, by [`PagingState::decode`] and against
//! what is read; not here: that the bytes are this node's own and the table's (`server/src/seal.rs`).

use model::bytes::{Cursor, put_bytes, put_varint};
use model::ordered::Reader;
use model::read::Partitions;
use model::{Resume, Table, Token};

use crate::error::{Error, Result};

/// The only version there is; version 1 ended with a checksum.
const VERSION: u8 = 2;
const HAS_CLUSTERING: u8 = 1;
const PARTITION_DONE: u8 = 2;

/// Where the next page begins, and how many rows `LIMIT` still allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagingState {
    /// The place in storage after the last row of the page before.
    pub resume: Resume,
    /// Rows that may still come.
    pub rows_left: u64,
}

impl PagingState {
    /// The bytes of the state.
    pub fn encode(&self) -> Vec<u8> {
        let resume = &self.resume;
        let mut out = Vec::with_capacity(32 + resume.key.len());
        out.push(VERSION);
        put_varint(&mut out, self.rows_left);
        out.extend_from_slice(&resume.token.0.to_le_bytes());
        put_bytes(&mut out, &resume.key);
        let mut flags = 0;
        if resume.clustering.is_some() {
            flags |= HAS_CLUSTERING;
        }
        if resume.partition_done {
            flags |= PARTITION_DONE;
        }
        out.push(flags);
        put_varint(&mut out, resume.rows_of_partition);
        if let Some(clustering) = &resume.clustering {
            put_bytes(&mut out, clustering);
        }
        out
    }

    /// The state in these bytes.
    pub fn decode(bytes: &[u8]) -> Result<PagingState> {
        PagingState::read(bytes).ok_or_else(PagingState::invalid)
    }

    /// The error for bytes that are no paging state, or one of another query.
    pub fn invalid() -> Error {
        Error::Protocol("Invalid value for the paging state".into())
    }

    fn read(bytes: &[u8]) -> Option<PagingState> {
        let mut cursor = Cursor::new(bytes);
        if cursor.u8().ok()? != VERSION {
            return None;
        }
        let rows_left = cursor.varint().ok().filter(|rows| *rows > 0)?;
        let token = Token(cursor.i64().ok()?);
        let key = cursor.bytes().ok()?.to_vec();
        let flags = cursor.u8().ok()?;
        let rows_of_partition = cursor.varint().ok()?;
        let clustering = match flags & HAS_CLUSTERING {
            0 => None,
            _ => Some(cursor.bytes().ok()?.to_vec()),
        };
        let partition_done = flags & PARTITION_DONE != 0;
        if !cursor.is_empty() || flags & !(HAS_CLUSTERING | PARTITION_DONE) != 0 {
            return None;
        }
        let resume = Resume { token, key, clustering, partition_done, rows_of_partition };
        Some(PagingState { resume, rows_left })
    }
}

/// Refuses a place that the read cannot have come to: a client may send any bytes.
pub(super) fn check_resume(resume: &Resume, partitions: &Partitions, table: &Table) -> Result<()> {
    let is_read = match partitions {
        Partitions::Keys(keys) => {
            keys.iter().any(|(token, key)| *token == resume.token && **key == *resume.key)
        }
        Partitions::Range(range) => {
            range.contains(resume.token) && Token::of_key(&resume.key) == resume.token
        }
    };
    let is_row = resume.clustering.as_ref().is_none_or(|key| is_whole(key, table));
    if is_read && is_row { Ok(()) } else { Err(PagingState::invalid()) }
}

/// Whether the bytes are a clustering key of the table with all its columns.
fn is_whole(clustering: &[u8], table: &Table) -> bool {
    let (mut reader, mut value) = (Reader::new(clustering), Vec::new());
    let mut each = table.clustering().iter().map(|column| {
        value.clear();
        reader.component(&column.ty, column.descending, &mut value)
    });
    each.all(|read| read.is_ok()) && reader.rest().is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn states_round_trip(
            rows_left in 1u64.., token: i64, key: Vec<u8>, clustering: Option<Vec<u8>>,
            partition_done: bool, rows_of_partition: u64
        ) {
            let token = Token(token);
            let resume = Resume { token, key, clustering, partition_done, rows_of_partition };
            let state = PagingState { resume, rows_left };
            let bytes = state.encode();
            prop_assert_eq!(PagingState::decode(&bytes), Ok(state));
            for cut in 0..bytes.len() {
                prop_assert!(PagingState::decode(&bytes[..cut]).is_err());
            }
            prop_assert!(PagingState::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
        }

        /// Whatever is read means what it says.
        #[test]
        fn arbitrary_bytes_are_refused_or_are_a_state(rest: Vec<u8>) {
            let bytes = [&[VERSION], rest.as_slice()].concat();
            if let Ok(state) = PagingState::decode(&bytes) {
                prop_assert_eq!(PagingState::decode(&state.encode()), Ok(state));
            }
        }
    }
}

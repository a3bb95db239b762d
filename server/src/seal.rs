//! The seal of what clients keep for this node and send back: paging states.
//!
//! ```text
//! sealed := state tag:16        tag := the first 16 bytes of HMAC-SHA256(secret, table id, state)
//! ```
//!
//! Without the node's secret (`engine::layout::Secret`) a client cannot make a state: it reads on only where a page of
//! this node has ended. Source: RFC 2104, with the tag cut as its section 5 allows.
//!
//! Not here: what a state says (`cql/src/plan/page.rs`). The pages of DESCRIBE are not sealed: their state is a number of
//! lines.

use cql::plan::PagingState;
use engine::layout::Secret;
use hmac::{Hmac, KeyInit, Mac};
use model::TableId;
use sha2::Sha256;

use crate::limits::PAGING_STATE_BYTES_MAX;

/// Bytes of a tag.
const TAG_BYTES: usize = 16;

/// The seal of one node.
#[derive(Clone)]
pub(crate) struct Seal(Hmac<Sha256>);

impl Seal {
    /// The seal of the node with this secret.
    pub(crate) fn new(secret: &Secret) -> Seal {
        assert_ne!(*secret, Secret::NONE, "a node has a secret from its start on");
        Seal(Hmac::new_from_slice(&secret.0).expect("a key of any length will do"))
    }

    /// Seals a paging state of a table.
    pub(crate) fn put(&self, table: TableId, mut state: Vec<u8>) -> Vec<u8> {
        let tag = self.keyed(table, &state).finalize().into_bytes();
        state.extend_from_slice(&tag[..TAG_BYTES]);
        state
    }

    /// The paging state in what a client sent, if this node has sealed it for this table; else the client's error.
    pub(crate) fn open<'s>(&self, table: TableId, sealed: &'s [u8]) -> cql::Result<&'s [u8]> {
        // None that this node has sealed is as long, and to hash 16 MiB takes tens of milliseconds.
        if sealed.len() > PAGING_STATE_BYTES_MAX {
            return Err(PagingState::invalid());
        }
        let (state, tag) =
            sealed.split_last_chunk::<TAG_BYTES>().ok_or_else(PagingState::invalid)?;
        let checked = self.keyed(table, state).verify_truncated_left(tag);
        checked.map(|()| state).map_err(|_| PagingState::invalid())
    }

    fn keyed(&self, table: TableId, state: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(table.0.as_bytes()).chain_update(state)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn table(number: u128) -> TableId {
        TableId(Uuid::from_u128(number))
    }

    #[test]
    fn only_what_this_node_has_sealed_for_this_table_is_opened() {
        let (ours, theirs) = (Seal::new(&Secret([1; 32])), Seal::new(&Secret([2; 32])));
        let sealed = ours.put(table(1), b"state".to_vec());
        assert_eq!(ours.open(table(1), &sealed), Ok(&b"state"[..]));
        assert_eq!(Seal::new(&Secret([1; 32])).open(table(1), &sealed), Ok(&b"state"[..]));
        assert!(theirs.open(table(1), &sealed).is_err());
        assert!(ours.open(table(2), &sealed).is_err());
        for bit in 0..sealed.len() * 8 {
            let mut forged = sealed.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ours.open(table(1), &forged), Err(PagingState::invalid()), "{bit}");
        }
        let long = ours.put(table(1), vec![7; PAGING_STATE_BYTES_MAX]);
        assert_eq!(ours.open(table(1), &long), Err(PagingState::invalid()), "it is not looked at");
        for cut in 0..sealed.len() {
            assert!(ours.open(table(1), &sealed[..cut]).is_err(), "{cut}");
        }
    }
}

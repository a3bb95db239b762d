//! Where in the log the newest records of partitions end: a write that reads first waits for those of its own
//! partitions, and not for all that the shard has under way.
//!
//! ```text
//! token ─► one of [`PLACES`] places ─► the end of the newest record with a token of that place
//! ```
//!
//! Invariant: every record of a token that the log has taken ends at or before what its place says. Tokens that share a
//! place make each other wait, which is all that happens.

use std::cell::Cell;

use model::{MutationRef, Token};

use crate::commitlog::Position;

/// Places of a shard, 8 bytes each. Of 64 records under way another token finds one in its place once in 64 times.
const PLACES: usize = 4096;

/// The ends of the newest records of a shard.
#[derive(Debug)]
pub(crate) struct NewestRecords {
    ends: Box<[Cell<Position>]>,
}

impl NewestRecords {
    /// Of a log that ends here.
    pub(crate) fn new(end: Position) -> NewestRecords {
        NewestRecords { ends: (0..PLACES).map(|_| Cell::new(end)).collect() }
    }

    /// The log has taken a record, which ends here.
    #[inline]
    pub(crate) fn note(&self, record: &[u8], end: Position) {
        for token in tokens_of(record) {
            self.place(token).set(end);
        }
    }

    /// Up to where the log must be readable for every record of the partitions of this one to be.
    pub(crate) fn end_of(&self, record: &[u8]) -> Position {
        tokens_of(record).map(|token| self.place(token).get()).max().unwrap_or(Position::ZERO)
    }

    #[inline]
    fn place(&self, token: Token) -> &Cell<Position> {
        // Tokens are hashes; the high bits are the shard's.
        &self.ends[token.0 as usize % PLACES]
    }
}

fn tokens_of(record: &[u8]) -> impl Iterator<Item = Token> {
    let partitions = MutationRef::partitions_of_trusted_record(record);
    partitions.map(|partition| partition.expect("a record is checked when it is taken").1)
}

#[cfg(test)]
mod tests {
    use model::TableId;
    use model::mutation::MutationBuilder;
    use uuid::Uuid;

    use super::*;

    fn record(tokens: &[i64]) -> Vec<u8> {
        let mut out = Vec::new();
        for token in tokens {
            let table = TableId(Uuid::from_u128(7));
            MutationBuilder::begin(&mut out, table, Token(*token), b"key").finish();
        }
        out
    }

    #[test]
    fn a_record_waits_for_the_newest_of_its_own_tokens() {
        let newest = NewestRecords::new(Position::new(1, 64));
        newest.note(&record(&[5, -9]), Position::new(1, 100));
        newest.note(&record(&[7]), Position::new(1, 200));
        assert_eq!(newest.end_of(&record(&[5])), Position::new(1, 100));
        assert_eq!(newest.end_of(&record(&[-9, 8])), Position::new(1, 100));
        assert_eq!(newest.end_of(&record(&[5, 7])), Position::new(1, 200));
        assert_eq!(newest.end_of(&record(&[8])), Position::new(1, 64), "none since the start");
        let other = 5 + PLACES as i64;
        assert_eq!(newest.end_of(&record(&[other])), Position::new(1, 100), "it shares the place");
    }
}

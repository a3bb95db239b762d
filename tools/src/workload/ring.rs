//! Which of the loaded keys a scan must contain: their tokens in the order of the ring.
//!
//! ```text
//! scan from token T for n rows:  T ───●──●────●───────●─► L        every loaded key before L is among the rows,
//!                                                                 and if fewer than n came, every one behind T
//! ```
//!
//! Invariant: a token takes 8 bytes, and at most `SCAN_TOKENS_MAX` are kept. Of more keys only the first part of the ring
//! is known, and scans that leave it are not judged here.
//!
//! Not here: what the rows of a scan hold (`record`).

use model::Token;

use super::record::token_of;
use crate::limits::SCAN_TOKENS_MAX;

/// The tokens of the keys that the load phase made.
#[derive(Debug)]
pub struct Ring {
    tokens: Vec<Token>,
    /// The greatest token up to which all of them are known.
    last: Token,
}

/// What a scan lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Loaded keys that the scan must contain.
    pub expected: u32,
    /// Those of them that are among its rows.
    pub found: u32,
}

impl Ring {
    /// The tokens of the keys `0..keys`.
    pub fn of(keys: u64) -> Ring {
        Ring::within(keys, SCAN_TOKENS_MAX)
    }

    /// The same of the part of the ring that has `tokens_max` of the keys, or a few more.
    fn within(keys: u64, tokens_max: u64) -> Ring {
        let share = tokens_max as f64 / keys.max(1) as f64;
        let last = match share < 1.0 {
            true => Token((i64::MIN as f64 + share * u64::MAX as f64) as i64),
            false => Token::MAX,
        };
        let mut tokens: Vec<Token> =
            (0..keys).map(token_of).filter(|token| *token <= last).collect();
        tokens.sort_unstable();
        Ring { tokens, last }
    }

    /// What is missing of a scan from `from` on, which gave these rows in the order of the ring; `is_full` if it gave
    /// as many as were asked for. What lies behind the part of the ring that is known is not judged; `None` if that is
    /// all of it.
    pub fn gap(&self, from: Token, rows: &[Token], is_full: bool) -> Option<Gap> {
        let end = match rows.last() {
            Some(&last) if is_full => last,
            _ => Token::MAX,
        };
        if from > self.last {
            return None;
        }
        let end = end.min(self.last);
        let first = self.tokens.partition_point(|token| *token < from);
        // Of two keys with one token the limit may have cut one.
        let ends_inside = is_full && rows.last() == Some(&end);
        let behind = self.tokens.partition_point(|token| *token < end || !ends_inside);
        let expected = &self.tokens[first..behind.max(first)];
        let mut left = rows.iter().peekable();
        let is_found = |token: &&Token| {
            while left.next_if(|row| row < token).is_some() {}
            left.next_if_eq(token).is_some()
        };
        let found = expected.iter().filter(is_found).count();
        Some(Gap { expected: expected.len() as u32, found: found as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(ring: &Ring, from: usize, rows: &[usize], is_full: bool) -> Option<(u32, u32)> {
        let rows: Vec<Token> = rows.iter().map(|&row| ring.tokens[row]).collect();
        let gap = ring.gap(ring.tokens[from], &rows, is_full)?;
        Some((gap.expected, gap.found))
    }

    #[test]
    fn every_loaded_key_of_a_scan_is_expected() {
        let ring = Ring::of(10);
        assert_eq!(gap(&ring, 2, &[2, 3, 4], true), Some((2, 2)), "the last may have a twin");
        assert_eq!(gap(&ring, 2, &[2, 4, 5], true), Some((3, 2)));
        assert_eq!(gap(&ring, 7, &[7, 8, 9], false), Some((3, 3)), "the end of the ring");
        assert_eq!(gap(&ring, 7, &[7, 8], false), Some((3, 2)));
        assert_eq!(gap(&ring, 0, &[], false), Some((10, 0)));
    }

    #[test]
    fn rows_that_were_inserted_since_are_no_gap() {
        let ring = Ring::of(4);
        let between = Token(ring.tokens[1].0 + 1);
        let rows = [ring.tokens[1], between, ring.tokens[2]];
        assert_eq!(ring.gap(rows[0], &rows, true), Some(Gap { expected: 1, found: 1 }));
    }

    #[test]
    fn of_many_keys_a_part_of_the_ring_is_known() {
        let ring = Ring::within(10_000, 1000);
        assert!((900..1100).contains(&ring.tokens.len()), "{}", ring.tokens.len());
        assert!(gap(&ring, 5, &[5, 6], true).is_some());
        let all = ring.tokens.len();
        let whole = Gap { expected: all as u32 - 5, found: all as u32 - 5 };
        let beyond = [&ring.tokens[5..], &[Token::MAX]].concat();
        assert_eq!(ring.gap(beyond[0], &beyond, true), Some(whole));
        assert_eq!(ring.gap(Token::MAX, &[Token::MAX], true), None);
        assert_eq!(gap(&ring, 5, &[5, 6], false), Some((whole.expected, 2)), "it ends early");
    }
}

//! The files outside a merge that may hold something of a token: a tombstone of the merge may cover it.
//!
//! ```text
//! files      ├──── a ────┤     ├── b ──┤
//!                  ├───── c ─────┤
//! stretches  │  a  │ a c │  c  │c b│ b │
//! ```
//!
//! All tokens of a stretch have the same holders. A merge comes to its tokens in their order, so the holders are looked
//! for once a stretch, and not once a partition: a table may have tens of thousands of files.
//!
//! Invariant: no file is kept open by this. A stretch may last as long as a wide partition, and files that are used up
//! meanwhile are to free their space.
//!
//! Not here: what follows for a tombstone (`adoption.rs`).

use std::rc::{Rc, Weak};

use model::{Token, TokenRange};

use crate::table::View;

/// The views of a table that have a stretch of its tokens, without those that are merged.
pub(super) struct Outside {
    /// All views of the table, to know them again.
    views: Weak<[View]>,
    stretch: Stretch,
}

/// Tokens that the same files have.
struct Stretch {
    tokens: TokenRange,
    /// The places of these files among all.
    holders: Vec<usize>,
}

impl Outside {
    /// Those of the stretch that begins with a token.
    pub(super) fn from(
        token: Token,
        views: &Rc<[View]>,
        is_merged: impl Fn(&View) -> bool,
    ) -> Outside {
        let all = views.iter().map(|view| view.entry.tokens);
        let stretch = Stretch::from(token, all, |index| !is_merged(&views[index]));
        Outside { views: Rc::downgrade(views), stretch }
    }

    /// Whether these are the views of the table still, and the token is of the stretch.
    pub(super) fn is_for(&self, token: Token, views: &Rc<[View]>) -> bool {
        let is_same = std::ptr::addr_eq(self.views.as_ptr(), Rc::as_ptr(views));
        is_same && self.stretch.tokens.contains(token)
    }

    /// Those of the table's views that have the stretch.
    pub(super) fn holders<'v>(&self, views: &'v [View]) -> impl Iterator<Item = &'v View> {
        self.stretch.holders.iter().map(|index| &views[*index])
    }
}

impl Stretch {
    /// The stretch that begins with a token, where files have `all` these tokens. Only of those that hold the token it
    /// is asked which are meant.
    fn from(
        token: Token,
        all: impl Iterator<Item = TokenRange>,
        is_meant: impl Fn(usize) -> bool,
    ) -> Stretch {
        let mut last = TokenRange::ALL.last;
        let mut holders = Vec::new();
        for (index, tokens) in all.enumerate() {
            if tokens.contains(token) {
                last = last.min(tokens.last);
                if is_meant(index) {
                    holders.push(index);
                }
            } else if token < tokens.first {
                last = last.min(Token(tokens.first.0 - 1));
            }
        }
        Stretch { tokens: TokenRange { first: token, last }, holders }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Rng;

    /// Before: the inputs of a merge that were used up inside a wide partition kept their space to its end.
    #[test]
    fn no_file_is_kept_open() {
        let views: Rc<[View]> = Rc::new([]);
        let outside = Outside::from(Token(0), &views, |_| false);
        assert_eq!(Rc::strong_count(&views), 1);
        assert!(outside.is_for(Token(7), &views));
        let others: Rc<[View]> = Rc::new([]);
        assert!(!outside.is_for(Token(7), &others));
    }

    /// Before: all files of the table were looked at for each partition of a merge, and each of them was compared with
    /// all that are merged.
    #[test]
    fn the_holders_of_each_token_are_known_and_looked_for_twice_a_file_at_most() {
        let mut rng = Rng::new(1);
        for files in 0..20 {
            let mut below = |most: u64| i64::try_from(rng.below(most)).expect("it is small");
            let ranges: Vec<TokenRange> = (0..files)
                .map(|_| (below(1000), below(300)))
                .map(|(first, more)| TokenRange { first: Token(first), last: Token(first + more) })
                .collect();
            let meant: Vec<bool> = ranges.iter().map(|_| below(3) > 0).collect();
            let (mut known, mut looked) = (None::<Stretch>, 0);
            for token in (-10..1310).map(Token) {
                let stretch = known.take().filter(|stretch| stretch.tokens.contains(token));
                let stretch = stretch.unwrap_or_else(|| {
                    looked += 1;
                    Stretch::from(token, ranges.iter().copied(), |index| meant[index])
                });
                let holds = |index: &usize| meant[*index] && ranges[*index].contains(token);
                let holders: Vec<usize> = (0..ranges.len()).filter(holds).collect();
                assert_eq!(stretch.holders, holders, "{token:?} of {ranges:?}");
                known = Some(stretch);
            }
            assert!(looked <= 2 * files + 1, "{looked} times for {files} files");
        }
    }
}

//! A filter in pieces, so that a large one can be read where it is asked and need not be in memory.
//!
//! ```text
//! pieces   [ tokens a .. b ][ b .. c ][ c .. d ]   frames, each the filter of the tokens that follow one another
//! section  a, bytes   b, bytes   c, bytes          which piece a token is in, and where its frame is
//! ```
//!
//! A piece is made when its tokens have come, at exactly the size that they need: no count is guessed, and what the
//! end of a file has to do stays small. What fits one piece is a filter without pieces.
//!
//! Invariants: all tokens that are alike are in one piece; a token below the first piece is not in the file.

use model::Token;
use model::bytes::Cursor;

use super::filter::{Filter, Shape};
use super::frame::{Framer, HEAD_BYTES, Kind};

/// Collects the tokens of a file being written.
pub(super) struct FilterBuilder {
    shape: Option<Shape>,
    piece_keys: usize,
    /// Of the piece in hand.
    tokens: Vec<Token>,
    /// Of the pieces that are made, not sealed yet.
    frames: Vec<u8>,
    /// The section, as far as it goes.
    section: Vec<u8>,
}

impl FilterBuilder {
    /// A filter that is wrong on `fp_chance` of the tokens it does not hold, in pieces of about so many bytes.
    pub(super) fn new(fp_chance: f64, piece_bytes: usize) -> FilterBuilder {
        let shape = Shape::new(fp_chance);
        let piece_keys = shape.map_or(0, |shape| shape.keys_of(piece_bytes)).max(1);
        let (tokens, frames, section) = Default::default();
        FilterBuilder { shape, piece_keys, tokens, frames, section }
    }

    /// Adds the token of the next partition.
    pub(super) fn insert(&mut self, token: Token, framer: &mut Framer) {
        if self.shape.is_none() || self.tokens.last() == Some(&token) {
            return;
        }
        if self.tokens.len() == self.piece_keys {
            self.end_piece(framer);
        }
        self.tokens.push(token);
    }

    /// Bytes in memory, without spare capacity.
    pub(super) fn kept_bytes(&self) -> usize {
        self.tokens.len() * size_of::<Token>() + self.frames.len() + self.section.len()
    }

    fn end_piece(&mut self, framer: &mut Framer) {
        let (Some(shape), Some(first)) = (self.shape, self.tokens.first()) else { return };
        let mut raw = Vec::new();
        Filter::of(&self.tokens, shape).encode(&mut raw);
        let bytes = framer.put(Kind::FilterPiece, &raw, &mut self.frames);
        self.section.extend_from_slice(&first.0.to_le_bytes());
        self.section.extend_from_slice(&(bytes as u32).to_le_bytes());
        self.tokens.clear();
    }

    /// The filter: the frames of its pieces, none if it has no pieces, and the content of its section.
    pub(super) fn finish(mut self, framer: &mut Framer) -> (Vec<u8>, Vec<u8>) {
        if self.frames.is_empty() {
            let mut section = Vec::new();
            let filter = self.shape.map(|shape| Filter::of(&self.tokens, shape));
            filter.unwrap_or_default().encode(&mut section);
            return (Vec::new(), section);
        }
        self.end_piece(framer);
        (self.frames, self.section)
    }
}

/// Which tokens a file may hold: in pieces, some of them in memory.
#[derive(Debug)]
pub(super) struct FilterPieces {
    /// The first token of each.
    firsts: Box<[i64]>,
    /// Where each begins in the file, and where the last one ends.
    offsets: Box<[u64]>,
    /// The pieces that are in memory, and the number of the first of them.
    resident: (usize, Box<[Filter]>),
}

impl FilterPieces {
    /// Reads the section of a filter whose pieces end at `end` of the file.
    pub(super) fn decode(bytes: &[u8], end: u64) -> Result<FilterPieces, &'static str> {
        let mut cursor = Cursor::new(bytes);
        let (mut firsts, mut lengths) = (Vec::new(), Vec::new());
        while !cursor.is_empty() {
            firsts.push(cursor.i64().map_err(|_| "filter pieces")?);
            lengths.push(u64::from(cursor.u32().map_err(|_| "filter pieces")?));
        }
        let ascend = firsts.windows(2).all(|pair| pair[0] < pair[1]);
        if firsts.is_empty() || !ascend || lengths.iter().any(|bytes| *bytes < HEAD_BYTES as u64) {
            return Err("filter pieces");
        }
        let mut offset = end.checked_sub(lengths.iter().sum()).ok_or("filter pieces outside")?;
        let mut offsets = vec![offset];
        offsets.extend(lengths.iter().map(|bytes| {
            offset += bytes;
            offset
        }));
        let resident = (0, Box::default());
        Ok(FilterPieces { firsts: firsts.into(), offsets: offsets.into(), resident })
    }

    /// The piece that the token is in, if it is in the file.
    #[inline]
    pub(super) fn find(&self, token: Token) -> Option<usize> {
        self.firsts.partition_point(|first| *first <= token.0).checked_sub(1)
    }

    /// The pieces of the tokens from `first` to `last`.
    pub(super) fn between(&self, first: Token, last: Token) -> std::ops::Range<usize> {
        let begin = self.find(first).unwrap_or(0);
        begin..self.find(last).map_or(begin, |piece| piece + 1)
    }

    /// Offset and length of a piece's frame.
    pub(super) fn frame(&self, piece: usize) -> (u64, usize) {
        (self.offsets[piece], (self.offsets[piece + 1] - self.offsets[piece]) as usize)
    }

    /// Where the first piece begins.
    pub(super) fn begin(&self) -> u64 {
        self.offsets[0]
    }

    /// Where the last piece ends.
    pub(super) fn end(&self) -> u64 {
        self.offsets[self.firsts.len()]
    }

    /// Bytes of some pieces in the file, and nearly in memory.
    pub(super) fn bytes(&self, pieces: std::ops::Range<usize>) -> u64 {
        self.offsets[pieces.end] - self.offsets[pieces.start]
    }

    /// Keeps these pieces, of which the first has this number, in memory.
    pub(super) fn keep(&mut self, first: usize, pieces: Vec<Filter>) {
        assert!(first + pieces.len() <= self.firsts.len(), "pieces of this filter");
        self.resident = (first, pieces.into());
    }

    /// A piece, if it is in memory.
    #[inline]
    pub(super) fn resident(&self, piece: usize) -> Option<&Filter> {
        self.resident.1.get(piece.checked_sub(self.resident.0)?)
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let pieces = self.resident.1.iter();
        let pieces: usize = pieces.map(|piece| piece.memory_bytes() + size_of::<Filter>()).sum();
        pieces + self.firsts.len() * (size_of::<i64>() + size_of::<u64>())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::frame::{Codec, Opener, seal};
    use super::*;

    /// The filter of these tokens, in pieces, all of them in memory.
    fn built(tokens: &[i64], piece_bytes: usize) -> FilterPieces {
        let (mut framer, mut opener) = (Framer::new(Codec::Lz4), Opener::default());
        let mut builder = FilterBuilder::new(0.01, piece_bytes);
        tokens.iter().for_each(|token| builder.insert(Token(*token), &mut framer));
        let (mut frames, section) = builder.finish(&mut framer);
        let mut pieces = FilterPieces::decode(&section, frames.len() as u64).unwrap();
        assert_eq!((pieces.begin(), pieces.end()), (0, frames.len() as u64));
        let all = 0..pieces.firsts.len();
        let opened = all.map(|piece| {
            let (offset, bytes) = pieces.frame(piece);
            let frame = &mut frames[offset as usize..][..bytes];
            seal(frame, 1, offset);
            let raw = opener.open(frame, Kind::FilterPiece, 1, offset).unwrap();
            Filter::decode(&raw).unwrap()
        });
        let opened = opened.collect();
        pieces.keep(0, opened);
        pieces
    }

    fn says(pieces: &FilterPieces, token: i64) -> bool {
        let piece = pieces.find(Token(token));
        piece.is_some_and(|piece| pieces.resident(piece).unwrap().may_contain(Token(token)))
    }

    proptest! {
        #[test]
        fn no_token_that_was_put_in_is_denied(
            tokens in prop::collection::btree_set(any::<i64>(), 20..300), piece_bytes in 1..20usize
        ) {
            // Some come twice, as two keys of one token do.
            let twice: Vec<i64> = tokens.iter().flat_map(|t| vec![*t; 1 + (t % 3 == 0) as usize]).collect();
            let pieces = built(&twice, piece_bytes);
            prop_assert!(tokens.iter().all(|token| says(&pieces, *token)));
            let (first, last) = (*tokens.first().unwrap(), *tokens.last().unwrap());
            prop_assert!(first == i64::MIN || !says(&pieces, first - 1));
            let all = pieces.between(Token(first), Token(last));
            prop_assert_eq!(&all, &(0..pieces.firsts.len()));
            prop_assert_eq!(pieces.bytes(all), pieces.end());
            prop_assert!(pieces.between(Token(first), Token(first)).contains(&0));
        }

        #[test]
        fn arbitrary_sections_never_panic(bytes: Vec<u8>, end: u64, token: i64) {
            if let Ok(pieces) = FilterPieces::decode(&bytes, end) {
                let found = pieces.find(Token(token));
                found.map(|piece| pieces.frame(piece));
                pieces.between(Token(token), Token(i64::MAX));
            }
        }
    }

    #[test]
    fn pieces_err_as_seldom_as_one_filter() {
        let token = |i: u64| Token::of_key(&i.to_be_bytes()).0;
        let mut tokens: Vec<i64> = (0..60_000).map(token).collect();
        tokens.sort_unstable();
        let pieces = built(&tokens, 8 << 10);
        assert!(pieces.firsts.len() > 5 && pieces.memory_bytes() < 80_000);
        let wrong = (0..100_000).filter(|i| says(&pieces, token((1 << 40) + i))).count();
        assert!(wrong < 1150, "{wrong} of 100000");
    }
}

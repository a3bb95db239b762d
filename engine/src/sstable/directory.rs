//! Where every data block is and which token it begins with: three bytes a block, always in memory.
//!
//! Of a first token only the leading bits are kept, as many as tell most blocks apart and eight more. So
//! the directory answers with a short run of candidates, mostly one or two, and the reader begins with the
//! last: a token that equals the kept bits of a block is nearly always in that block.
//!
//! ```text
//! directory := shift:u8 base:u64 prefixes offsets continues:u64…        lists as in `elias_fano.rs`
//! prefix    := (first token of the block + 2^63 - base) >> shift                      they ascend, or stay
//! offsets   := one for each block, then the end of the data
//! continues := bit i: block i begins inside the partition that block i-1 ends with
//! ```

use model::Token;
use model::bytes::Cursor;

use super::elias_fano::EliasFano;

/// Bits of a token kept beyond those that number the blocks.
const SPARE_BITS: u32 = 8;

/// Collects the blocks of a file being written.
#[derive(Debug, Default)]
pub(super) struct DirectoryBuilder {
    tokens: Vec<u64>,
    offsets: Vec<u64>,
    continues: Vec<u64>,
}

impl DirectoryBuilder {
    /// Adds the next block.
    pub(super) fn push(&mut self, first: Token, continues: bool, offset: u64) {
        let follows = self.tokens.last().is_none_or(|last| *last <= first.biased());
        assert!(follows, "blocks ascend by token");
        assert!(self.offsets.last().is_none_or(|last| *last <= offset), "blocks ascend by offset");
        let index = self.tokens.len();
        assert!(index > 0 || !continues, "the first block begins a partition");
        if index.is_multiple_of(64) {
            self.continues.push(0);
        }
        self.continues[index / 64] |= u64::from(continues) << (index % 64);
        self.tokens.push(first.biased());
        self.offsets.push(offset);
    }

    /// How many blocks.
    pub(super) fn blocks(&self) -> usize {
        self.tokens.len()
    }

    /// Bytes in memory, without spare capacity.
    pub(super) fn kept_bytes(&self) -> usize {
        size_of_val(&*self.tokens) + size_of_val(&*self.offsets) + size_of_val(&*self.continues)
    }

    /// The directory of blocks that end at `end`.
    pub(super) fn finish(mut self, end: u64) -> Directory {
        assert!(
            self.offsets.last().is_none_or(|last| *last <= end),
            "the data ends after its blocks"
        );
        self.offsets.push(end);
        let base = self.tokens.first().copied().unwrap_or(0);
        let universe = self.tokens.last().copied().unwrap_or(0) - base;
        let bits = self.tokens.len().next_power_of_two().ilog2() + SPARE_BITS;
        let shift = (64 - universe.leading_zeros()).saturating_sub(bits);
        for token in &mut self.tokens {
            *token = (*token - base) >> shift;
        }
        Directory {
            shift,
            base,
            prefixes: EliasFano::pack(&self.tokens),
            offsets: EliasFano::pack(&self.offsets),
            continues: self.continues.into(),
        }
    }
}

/// The directory, in memory.
#[derive(Debug)]
pub(super) struct Directory {
    shift: u32,
    base: u64,
    prefixes: EliasFano,
    offsets: EliasFano,
    continues: Box<[u64]>,
}

impl Directory {
    /// How many blocks.
    pub(super) fn blocks(&self) -> usize {
        self.prefixes.len()
    }

    /// Offset and length of a block's frame.
    pub(super) fn frame(&self, block: usize) -> (u64, usize) {
        assert!(block < self.blocks(), "a block of the file");
        let offset = self.offsets.get(block);
        (offset, (self.offsets.get(block + 1) - offset) as usize)
    }

    /// The first and last block that may hold the beginning of a partition of `token`.
    ///
    /// A token below all gives the first block.
    pub(super) fn candidates(&self, token: Token) -> (usize, usize) {
        assert!(self.blocks() > 0, "a file has blocks");
        let prefix = token.biased().saturating_sub(self.base) >> self.shift;
        let first = self.prefixes.below(prefix).saturating_sub(1);
        let last = self.prefixes.below(prefix.saturating_add(1)).saturating_sub(1);
        (first, last)
    }

    /// Whether the block begins inside a partition of the block before.
    pub(super) fn continues(&self, block: usize) -> bool {
        self.continues[block / 64] >> (block % 64) & 1 == 1
    }

    /// The last block of the partition that `block` ends with.
    pub(super) fn run_end(&self, block: usize) -> usize {
        assert!(block < self.blocks(), "a block of the file");
        let mut next = block + 1;
        while next < self.blocks() {
            let word = !self.continues[next / 64] >> (next % 64);
            if word != 0 {
                next += word.trailing_zeros() as usize;
                break;
            }
            next = (next / 64 + 1) * 64;
        }
        next.min(self.blocks()) - 1
    }

    /// The first block of the partition that `block` begins with.
    pub(super) fn run_start(&self, block: usize) -> usize {
        let mut start = block;
        while self.continues(start) && start > 0 {
            start -= 1;
        }
        start
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.prefixes.memory_bytes() + self.offsets.memory_bytes() + self.continues.len() * 8
    }

    /// Appends the form on disk.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.shift as u8);
        out.extend_from_slice(&self.base.to_le_bytes());
        self.prefixes.encode(out);
        self.offsets.encode(out);
        out.extend(self.continues.iter().flat_map(|word| word.to_le_bytes()));
    }

    /// Reads the form on disk, of a file whose blocks end at `end`.
    pub(super) fn decode(bytes: &[u8], end: u64) -> Result<Directory, &'static str> {
        let mut cursor = Cursor::new(bytes);
        let short = |_| "directory ends early";
        let shift = u32::from(cursor.u8().map_err(short)?);
        let base = cursor.u64().map_err(short)?;
        let prefixes = EliasFano::decode(&mut cursor)?;
        let offsets = EliasFano::decode(&mut cursor)?;
        let (words, rest) = cursor.rest().as_chunks::<8>();
        let continues: Box<[u64]> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let blocks = prefixes.len();
        if shift > 63 || blocks == 0 || offsets.len() != blocks + 1 {
            return Err("directory counts");
        }
        if !rest.is_empty() || continues.len() != blocks.div_ceil(64) || continues[0] & 1 == 1 {
            return Err("directory of continuations");
        }
        if offsets.get(0) != 0 || offsets.get(blocks) != end {
            return Err("directory offsets");
        }
        Ok(Directory { shift, base, prefixes, offsets, continues })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn build(tokens: &[i64]) -> Directory {
        let mut builder = DirectoryBuilder::default();
        for (i, &token) in tokens.iter().enumerate() {
            builder.push(Token(token), i > 0 && tokens[i - 1] == token, i as u64 * 3000);
        }
        let mut bytes = Vec::new();
        let end = tokens.len() as u64 * 3000;
        builder.finish(end).encode(&mut bytes);
        Directory::decode(&bytes, end).expect("what was just built")
    }

    proptest! {
        #[test]
        fn candidates_hold_every_block_that_may_have_the_token(
            mut tokens in prop_oneof![
                prop::collection::vec(any::<i64>(), 1..400),
                prop::collection::vec(-9..9i64, 1..300)
            ],
            probes: Vec<i64>
        ) {
            tokens.sort_unstable();
            let directory = build(&tokens);
            let near = tokens.iter().flat_map(|t| [t.saturating_sub(1), *t, t.saturating_add(1)]);
            for probe in near.chain(probes) {
                let (first, last) = directory.candidates(Token(probe));
                // Of the blocks that begin below or at the probe, the last one below and all at it.
                let below = tokens.partition_point(|&token| token < probe).saturating_sub(1);
                let at = tokens.partition_point(|&token| token <= probe).saturating_sub(1);
                prop_assert!(first <= below && at <= last);
            }
            for block in 0..tokens.len() {
                prop_assert_eq!(directory.frame(block), (block as u64 * 3000, 3000));
                let end = tokens.partition_point(|&token| token <= tokens[block]) - 1;
                prop_assert_eq!(directory.run_end(block), end);
                let start = tokens.partition_point(|&token| token < tokens[block]);
                prop_assert_eq!(directory.run_start(block), start);
            }
        }

        /// Before: offsets that descend were taken, and the length of such a frame ended the process. (Here only the
        /// last frame was asked for, and all offsets but the end were 0.)
        #[test]
        fn arbitrary_bytes_never_panic(
            tokens in prop::collection::vec(any::<i64>(), 1..90), at: prop::sample::Index, by: u8, probe: i64
        ) {
            let mut tokens = tokens;
            tokens.sort_unstable();
            let mut bytes = Vec::new();
            let mut builder = DirectoryBuilder::default();
            for (i, &token) in tokens.iter().enumerate() {
                builder.push(Token(token), false, i as u64 * 3);
            }
            let end = tokens.len() as u64 * 3;
            builder.finish(end).encode(&mut bytes);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            if let Ok(directory) = Directory::decode(&bytes, end) {
                let (first, last) = directory.candidates(Token(probe));
                prop_assert!(first <= last);
                directory.run_end(last);
                let lengths = (0..directory.blocks()).map(|block| directory.frame(block).1);
                prop_assert_eq!(lengths.sum::<usize>() as u64, end);
            }
        }
    }

    #[test]
    fn uniform_tokens_take_about_three_bytes_a_block_and_mostly_one_candidate_more_than_needed() {
        let mut tokens: Vec<i64> =
            (0..100_000u64).map(|i| Token::of_key(&i.to_be_bytes()).0).collect();
        tokens.sort_unstable();
        let directory = build(&tokens);
        let bytes = directory.memory_bytes() as f64 / tokens.len() as f64;
        assert!(bytes < 3.3, "{bytes} bytes a block");
        let spread = |i: u64| {
            let (first, last) = directory.candidates(Token::of_key(&(i + (1 << 40)).to_be_bytes()));
            last - first
        };
        let ambiguous = (0..10_000).filter(|&i| spread(i) > 0).count();
        assert!(ambiguous < 100, "{ambiguous} of 10000");
    }
}

//! Names of new sstables: no two files have one, whatever shard made them and when.

use std::cell::Cell;

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use crate::sstable::SstableId;

/// Gives each new file of a shard its name.
#[derive(Debug)]
pub(crate) struct FileNames {
    seed: u64,
    count: Cell<u64>,
}

impl FileNames {
    /// Names from `seed`, which is another one each time a shard is opened.
    pub(crate) fn new(seed: u64) -> FileNames {
        FileNames { seed, count: Cell::new(0) }
    }

    /// The name of one more file.
    pub(crate) fn next(&self) -> SstableId {
        let number = self.count.get() + 1;
        self.count.set(number);
        let mut bytes = *b"sstable seed0000number00";
        bytes[8..16].copy_from_slice(&self.seed.to_le_bytes());
        bytes[16..].copy_from_slice(&number.to_le_bytes());
        SstableId(Uuid::from_u128(xxh3_128(&bytes)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Before: the second name of seed 2 was the third of seed 3, for the seed of a short XXH3 is added to the bytes.
    #[test]
    fn names_of_two_seeds_never_meet() {
        let seeds = (0..100).chain([1 << 40, u64::MAX]);
        let names: Vec<FileNames> = seeds.map(FileNames::new).collect();
        let made = names.iter().flat_map(|names| (0..100).map(|_| names.next().0));
        assert_eq!(made.collect::<BTreeSet<_>>().len(), 10_200);
    }
}

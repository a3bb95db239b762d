//! A place in an sstable: a data block and an entry in it. In lists, places are what they are more than the one before.
//!
//! ```text
//! places := (blocks:varint entry:varint)*     blocks: further than the last; entry: in the block, or, in the same
//!                                             block, further than the last
//! ```

use model::bytes::{Cursor, put_varint};

/// A place in an sstable. Places order as what is there: by token, key and clustering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The number of the data block.
    pub(crate) block: u32,
    /// The number of the entry in the block.
    pub(crate) entry: u32,
}

impl Place {
    /// The place after this one.
    pub(crate) fn next(self) -> Place {
        match self.entry.checked_add(1) {
            Some(entry) => Place { entry, ..self },
            None => Place { block: self.block.saturating_add(1), entry: 0 },
        }
    }

    /// Appends this place to a list whose last place is `last`; before the first that is the place of all zeros.
    pub(super) fn put(self, last: Place, out: &mut Vec<u8>) {
        assert!(last <= self, "places of a list ascend");
        put_varint(out, u64::from(self.block - last.block));
        let from = if self.block == last.block { last.entry } else { 0 };
        put_varint(out, u64::from(self.entry - from));
    }

    /// Reads the place behind `last`.
    pub(super) fn read(last: Place, cursor: &mut Cursor<'_>) -> Result<Place, &'static str> {
        let mut number = || {
            let number = cursor.varint().map_err(|_| "place of a posting")?;
            u32::try_from(number).map_err(|_| "place of a posting")
        };
        let (blocks, entry) = (number()?, number()?);
        let block = last.block.checked_add(blocks).ok_or("place of a posting")?;
        let from = if blocks == 0 { last.entry } else { 0 };
        Ok(Place { block, entry: from.checked_add(entry).ok_or("place of a posting")? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_list_reads_back(places in prop::collection::btree_set((0..9u32, any::<u16>()), 0..40)) {
            let places: Vec<Place> =
                places.into_iter().map(|(block, entry)| Place { block, entry: entry.into() }).collect();
            let (mut bytes, mut last) = (Vec::new(), Place::default());
            for place in &places {
                place.put(last, &mut bytes);
                last = *place;
            }
            let (mut cursor, mut last, mut read) = (Cursor::new(&bytes), Place::default(), Vec::new());
            while !cursor.is_empty() {
                last = Place::read(last, &mut cursor).expect("what was just written");
                read.push(last);
            }
            prop_assert_eq!(read, places);
        }
    }
}

//! A list of byte strings with random access, for binary search: what is inside every block and index node.
//!
//! ```text
//! slots   := item* offset* trailer:u32
//! offset  := u16, or u32 if the items take 32 KiB or more; the top bit is the item's mark
//! trailer := count << 2 | noted << 1 | wide offsets                                little-endian
//! ```
//!
//! What a mark and a note mean is the list's owner's affair. All offsets are checked once, when the list
//! is opened, so that reading an item cannot fail.

const TRAILER_BYTES: usize = 4;
const WIDE: u32 = 1;
const NOTED: u32 = 2;
/// Items of fewer bytes than this have offsets of two bytes.
const NARROW_BYTES_MAX: usize = 1 << 15;
const MARK: u32 = 1 << 31;

/// Builds a list.
#[derive(Debug, Default)]
pub(crate) struct SlotsBuilder {
    bytes: Vec<u8>,
    /// Where each item begins, with its mark.
    offsets: Vec<u32>,
    noted: bool,
}

impl SlotsBuilder {
    /// Appends the item that `write` appends to the bytes.
    pub(crate) fn item(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.push(0, write);
    }

    /// Appends an item that is marked.
    pub(crate) fn marked_item(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.push(MARK, write);
    }

    fn push(&mut self, mark: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let offset = self.bytes.len() as u32;
        assert!(offset < MARK, "a block is cut long before");
        self.offsets.push(offset | mark);
        write(&mut self.bytes);
    }

    /// Sets the note.
    pub(crate) fn note(&mut self) {
        self.noted = true;
    }

    pub(crate) fn count(&self) -> usize {
        self.offsets.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Bytes of the finished list, nearly.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + 2 * self.offsets.len() + TRAILER_BYTES
    }

    /// Appends the first `count` items as a finished list to `out`; the others stay.
    pub(crate) fn finish(&mut self, count: usize, out: &mut Vec<u8>) {
        assert!((1..=self.offsets.len()).contains(&count), "a list has items");
        let end =
            self.offsets.get(count).map_or(self.bytes.len(), |offset| (offset & !MARK) as usize);
        let wide = end >= NARROW_BYTES_MAX;
        out.extend_from_slice(&self.bytes[..end]);
        for &offset in &self.offsets[..count] {
            if wide {
                out.extend_from_slice(&offset.to_le_bytes());
            } else {
                let mark = if offset & MARK == 0 { 0 } else { 1 << 15 };
                out.extend_from_slice(&(offset as u16 | mark).to_le_bytes());
            }
        }
        let noted = if self.noted { NOTED } else { 0 };
        let trailer = (count as u32) << 2 | noted | u32::from(wide);
        out.extend_from_slice(&trailer.to_le_bytes());
        self.bytes.drain(..end);
        self.offsets.drain(..count);
        for offset in &mut self.offsets {
            *offset -= end as u32;
        }
        assert!(
            self.offsets.first().is_none_or(|first| first & !MARK == 0),
            "nothing lies between"
        );
        self.noted &= !self.offsets.is_empty();
    }
}

/// A list to read.
#[derive(Debug)]
pub(crate) struct Slots {
    bytes: Box<[u8]>,
    count: usize,
    /// Where the items end and the offsets begin.
    end: usize,
    wide: bool,
    noted: bool,
    /// How often an offset was looked at.
    #[cfg(test)]
    looks: std::cell::Cell<usize>,
}

impl Slots {
    /// Takes a finished list and checks every offset.
    pub(crate) fn open(bytes: Vec<u8>) -> Result<Slots, &'static str> {
        let (rest, trailer) = bytes.split_last_chunk::<TRAILER_BYTES>().ok_or("slots trailer")?;
        let trailer = u32::from_le_bytes(*trailer);
        let (count, wide) = ((trailer >> 2) as usize, trailer & WIDE != 0);
        let width = if wide { 4 } else { 2 };
        let end = rest.len().checked_sub(count * width).ok_or("slots count")?;
        if count == 0 {
            return Err("slots without items");
        }
        let noted = trailer & NOTED != 0;
        let slots = Slots {
            bytes: bytes.into(),
            count,
            end,
            wide,
            noted,
            #[cfg(test)]
            looks: Default::default(),
        };
        let sorted = (1..count).all(|i| slots.offset(i - 1) <= slots.offset(i));
        if slots.offset(0) != 0 || !sorted || slots.offset(count - 1) > end {
            return Err("slots offsets");
        }
        Ok(slots)
    }

    /// A list of these items.
    #[cfg(test)]
    pub(crate) fn of(items: &[&[u8]]) -> Slots {
        let mut builder = SlotsBuilder::default();
        items.iter().for_each(|item| builder.item(|out| out.extend_from_slice(item)));
        let mut bytes = Vec::new();
        builder.finish(items.len(), &mut bytes);
        Slots::open(bytes).expect("what was just built")
    }

    /// How often an item, or its mark, was looked at; an item counts twice, by its ends.
    #[cfg(test)]
    pub(crate) fn looks(&self) -> usize {
        self.looks.get()
    }

    #[inline]
    fn slot(&self, index: usize) -> (usize, bool) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        if self.wide {
            let at = self.end + index * 4;
            let bytes = self.bytes[at..at + 4].try_into().expect("four bytes");
            let slot = u32::from_le_bytes(bytes);
            ((slot & !MARK) as usize, slot & MARK != 0)
        } else {
            let at = self.end + index * 2;
            let slot = u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]);
            ((slot & 0x7FFF) as usize, slot & 0x8000 != 0)
        }
    }

    #[inline]
    fn offset(&self, index: usize) -> usize {
        self.slot(index).0
    }

    /// How many items; never none.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The item at `index`.
    #[inline]
    pub(crate) fn item(&self, index: usize) -> &[u8] {
        assert!(index < self.count, "an item of the list");
        let end = if index + 1 < self.count { self.offset(index + 1) } else { self.end };
        &self.bytes[self.offset(index)..end]
    }

    /// Whether the item is marked.
    #[inline]
    pub(crate) fn is_marked(&self, index: usize) -> bool {
        self.slot(index).1
    }

    /// Whether the list is noted.
    #[inline]
    pub(crate) fn is_noted(&self) -> bool {
        self.noted
    }

    /// Bytes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of::<Slots>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn items() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
        let sizes = prop_oneof![9 => 0..20usize, 1 => 10_000..20_000usize];
        let item = (any::<bool>(), any::<u8>(), sizes).prop_map(|(m, b, n)| (m, vec![b; n]));
        prop::collection::vec(item, 1..40)
    }

    proptest! {
        #[test]
        fn gives_back_what_was_put_in_even_if_cut(items in items(), cut: prop::sample::Index) {
            let mut builder = SlotsBuilder::default();
            for (mark, item) in &items {
                let write = |out: &mut Vec<u8>| out.extend_from_slice(item);
                if *mark { builder.marked_item(write) } else { builder.item(write) }
            }
            let first = cut.index(items.len()) + 1;
            let (head, tail) = items.split_at(first);
            for part in [head, tail] {
                if part.is_empty() {
                    prop_assert!(builder.is_empty());
                    continue;
                }
                let mut bytes = Vec::new();
                builder.finish(part.len(), &mut bytes);
                let slots = Slots::open(bytes).expect("what was just built");
                prop_assert_eq!(slots.count(), part.len());
                for (i, (mark, item)) in part.iter().enumerate() {
                    prop_assert_eq!((slots.is_marked(i), slots.item(i)), (*mark, item.as_slice()));
                }
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut bytes: Vec<u8>, count in 0..9u32, wide in 0..2u32) {
            bytes.extend_from_slice(&(count << 2 | wide).to_le_bytes());
            if let Ok(slots) = Slots::open(bytes) {
                (0..slots.count()).for_each(|i| { slots.item(i); });
            }
        }
    }
}

//! What the indexes of a table know of a memtable: terms, each with the rows that were written with it.
//!
//! ```text
//! entry := index:u16 (big-endian) term 00 00 token:u64 (big-endian, biased) key 00 00 kind:u8 clustering
//!          in term and key 00 is 00 ff; kind 0: all of the partition, 1: the row of this clustering
//! ```
//!
//! 1. Entries compare as (index, term, token, key, clustering) does, so one ordered list in the arena has all.
//! 2. Nothing is taken out: a row that was overwritten or deleted stays a candidate until the memtable is flushed.
//! 3. It has every term of every row from the first write on, or it is not there.

use std::ops::ControlFlow;

use model::Token;
use model::bytes::Cursor;
use model::mutation::MutationRef;
use model::read::Slice;
use model::schema::{IndexId, Table};

use super::arena::Arena;
use super::leaves::{Entry, Leaves};
use super::partition::Text;
use crate::limits::{LOOKUP_RANGES_COUNTED, MUTATION_TERMS_BYTES_MAX};
use crate::pause::Pause;
use crate::planted::{Bug, planted};
use crate::sstable::Named;

/// Ends a term or a key.
const END: [u8; 2] = [0, 0];
/// Bytes of the index, with which an entry begins.
const INDEX_BYTES: usize = size_of::<u16>();

/// The terms of one memtable.
#[derive(Debug)]
pub(super) struct Terms {
    /// Of which indexes.
    indexes: Vec<IndexId>,
    list: Leaves<TermEntry>,
    arena: Arena,
    scratch: Vec<u8>,
    /// Some value had no term: these are not all.
    is_broken: bool,
}

/// An entry in the arena.
#[derive(Clone, Copy, Debug)]
struct TermEntry {
    prefix: u64,
    text: Text,
}

impl Entry for TermEntry {
    #[inline]
    fn prefix(&self) -> u64 {
        self.prefix
    }
}

impl Terms {
    /// For a memtable without rows; `None` if its table has no index.
    pub(super) fn of_table(table: &Table) -> Option<Box<Terms>> {
        let indexes: Vec<IndexId> = table.term_indexes().map(|index| index.id).collect();
        let (list, arena, scratch, is_broken) = Default::default();
        let terms = Terms { indexes, list, arena, scratch, is_broken };
        (!terms.indexes.is_empty()).then(|| Box::new(terms))
    }

    pub(super) fn has(&self, index: IndexId) -> bool {
        !self.is_broken && self.indexes.contains(&index)
    }

    pub(super) fn bytes(&self) -> usize {
        self.list.bytes() + self.arena.bytes() + self.scratch.capacity()
    }

    /// Notes what a mutation writes. A value that has no term, and a mutation whose terms take too much, end the use of
    /// these: the memtable is scanned.
    pub(super) fn note(&mut self, table: &Table, mutation: &MutationRef<'_>) {
        if !self.is_broken {
            self.is_broken |= self.try_note(table, mutation).is_err();
        }
    }

    fn try_note(&mut self, table: &Table, mutation: &MutationRef<'_>) -> model::Result<()> {
        let mut taken_bytes = 0;
        for index in table.term_indexes().filter(|index| self.indexes.contains(&index.id)) {
            let Terms { list, arena, scratch, is_broken, .. } = self;
            let key = mutation.key;
            let mut note = |clustering: Option<&[u8]>, term: &[u8]| {
                if taken_bytes > MUTATION_TERMS_BYTES_MAX {
                    *is_broken = true;
                    return ControlFlow::Break(());
                }
                scratch.clear();
                begin(scratch, index.id, term);
                scratch.extend_from_slice(&END);
                scratch.extend_from_slice(&mutation.token.biased().to_be_bytes());
                escape(scratch, key);
                scratch.extend_from_slice(&END);
                scratch.push(u8::from(clustering.is_some()));
                scratch.extend_from_slice(clustering.unwrap_or_default());
                taken_bytes += scratch.len();
                put(list, arena, scratch);
                ControlFlow::Continue(())
            };
            index.terms(table, key, None, mutation.static_row, &mut |term| note(None, term))?;
            for (clustering, row) in mutation.rows() {
                let row = Some(row);
                let mut note = |term: &[u8]| note(Some(clustering), term);
                index.terms(table, key, Some(clustering), row, &mut note)?;
            }
        }
        Ok(())
    }

    /// About how many rows have these terms of an index.
    pub(super) fn count(&self, index: IndexId, ranges: &[Slice]) -> u64 {
        let mut count = 0;
        for range in ranges.iter().take(LOOKUP_RANGES_COUNTED) {
            let [mut from, mut to] = [Vec::new(), Vec::new()];
            begin(&mut from, index, &range.start);
            begin(&mut to, index, &range.end);
            let (from, to) = (self.find(&from).0, self.find(&to).0);
            count += self.list.distance(from, to);
        }
        let counted = ranges.len().clamp(1, LOOKUP_RANGES_COUNTED) as u64;
        count.saturating_mul(ranges.len() as u64) / counted
    }

    fn find(&self, bytes: &[u8]) -> (super::Place, bool) {
        self.list.find(prefix(bytes), |text| self.text(text).cmp(bytes))
    }

    fn text(&self, entry: &TermEntry) -> &[u8] {
        entry.text.get(&self.arena)
    }

    /// The entries at or above these bytes, in order.
    pub(super) fn entries_from(&self, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut place = self.list.normalize(self.find(bytes).0);
        std::iter::from_fn(move || {
            let entry = self.list.get(place)?;
            place = self.list.after(place);
            Some(self.text(entry))
        })
    }

    /// Gives the memory back in pieces.
    pub(super) async fn free(self, pause: &dyn Pause) {
        super::free_leaves(self.list, pause).await;
        for chunk in self.arena.into_chunks() {
            drop(chunk);
            pause.take().await;
        }
    }
}

fn put(list: &mut Leaves<TermEntry>, arena: &mut Arena, bytes: &[u8]) {
    let (place, found) = list.find(prefix(bytes), |entry| entry.text.get(arena).cmp(bytes));
    if found || (planted(Bug::MemoryForgetsTerms) && list.len() > 8) {
        return;
    }
    let text = Text::put(arena, bytes);
    list.insert(place, TermEntry { prefix: prefix(bytes), text }, i64::MAX);
}

/// The first eight bytes as a number.
fn prefix(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let count = bytes.len().min(8);
    first[..count].copy_from_slice(&bytes[..count]);
    u64::from_be_bytes(first)
}

fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
}

/// Where the entries of terms at or above this one begin.
pub(crate) fn begin(out: &mut Vec<u8>, index: IndexId, term: &[u8]) {
    out.extend_from_slice(&index.0.to_be_bytes());
    escape(out, term);
}

/// Where the entries of a term, which stands behind its index in `term`, begin that are at or above a place.
pub(crate) fn begin_at(term: &[u8], from: &Named) -> Vec<u8> {
    let mut out = [term, &END].concat();
    out.extend_from_slice(&from.token.biased().to_be_bytes());
    escape(&mut out, &from.key);
    out.extend_from_slice(&END);
    out.push(u8::from(from.clustering.is_some()));
    out.extend_from_slice(from.clustering.as_deref().unwrap_or_default());
    out
}

/// Behind all entries of this term.
pub(crate) fn behind(term: &[u8]) -> Vec<u8> {
    [term, &[0, 1]].concat()
}

/// The index and term of an entry as they stand in it, and what they lead to.
pub(crate) fn parts(entry: &[u8]) -> (&[u8], Named) {
    let (term, named) = entry.split_at(INDEX_BYTES + escaped_len(&entry[INDEX_BYTES..]));
    (term, read(&named[END.len()..]).expect("an entry is what was put in"))
}

fn read(named: &[u8]) -> model::Result<Named> {
    let mut cursor = Cursor::new(named);
    let biased = u64::from_be_bytes(cursor.array::<8>()?);
    let key = unescape(&mut cursor)?;
    let clustering = if cursor.u8()? == 1 { Some(cursor.rest().to_vec()) } else { None };
    Ok(Named { token: Token((biased ^ (1 << 63)) as i64), key, clustering })
}

/// How long an escaped text is: in it a zero is followed by 0xff.
fn escaped_len(bytes: &[u8]) -> usize {
    bytes.windows(END.len()).position(|pair| pair == END).expect("an entry is what was put in")
}

fn unescape(cursor: &mut Cursor<'_>) -> model::Result<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let byte = cursor.u8()?;
        if byte == 0 && cursor.u8()? == 0 {
            return Ok(out);
        }
        out.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 0xff]), 0..4)
    }

    proptest! {
        #[test]
        fn entries_compare_as_their_parts_and_read_back(
            all in prop::collection::vec((bytes(), -2..2i64, bytes(), prop::option::of(bytes())), 2..8)
        ) {
            let entries: Vec<_> = all.into_iter().map(|(term, token, key, clustering)| {
                let (named, mut at) = (Named { token: Token(token), key, clustering }, Vec::new());
                begin(&mut at, IndexId(7), &term);
                let entry = begin_at(&at, &named);
                (term, named, entry)
            }).collect();
            for (term, named, entry) in &entries {
                let mut low = Vec::new();
                begin(&mut low, IndexId(7), term);
                prop_assert_eq!(parts(entry), (low.as_slice(), named.clone()));
                let high = behind(&low);
                prop_assert!(low <= *entry && *entry < high);
                for (other_term, other, other_entry) in &entries {
                    prop_assert_eq!(entry.cmp(other_entry), (term, named).cmp(&(other_term, other)));
                    if term < other_term {
                        prop_assert!(high <= *other_entry);
                    }
                }
            }
        }
    }
}

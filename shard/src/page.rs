//! The rows of one read as one run of bytes: how an answer crosses cores and waits for its client.
//!
//! ```text
//! page  := entry*
//! entry := tag:u8 [token:i64 key [static row]] [clustering] [row]     each: length:varint bytes
//! tag   := 1 a partition begins | 2 it has a static row | 4 clustering follows | 8 row follows
//! ```
//!
//! A page is a [`RowSink`] for the engine and is replayed into another sink, the encoder of the
//! client's reply, so rows are copied and never decoded.
//!
//! Bytes in a page come from this process and are trusted; nothing here is ever written to disk.

use engine::Quantum;
use model::bytes::{Cursor, put_bytes};
use model::read::{Flow, PartitionRef, ReadEnd, Resume, RowSink};
use model::{RowRef, Token};

const PARTITION: u8 = 1;
const STATIC: u8 = 2;
const CLUSTERING: u8 = 4;
const ROW: u8 = 8;

/// Space for rows that a page begins with: a page of a few short rows grows no more.
const ROWS_BYTES_FIRST: usize = 1024;

/// Rows that wait to be replayed, and where the next page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    bytes: Vec<u8>,
    /// The number of rows.
    pub rows: u64,
    /// Tombstones that the reads passed.
    pub tombstones: u64,
    /// Blocks of sstables that the reads read.
    pub blocks: u64,
    /// Blocks that the reads found in the cache.
    pub cached_blocks: u64,
    /// Where the next page begins; `None` when there is nothing more.
    pub more: Option<Resume>,
    /// The partition of the last row: its token, and where its key is in `bytes`.
    last: Option<(Token, std::ops::Range<usize>)>,
}

/// One row of a page.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The partition of the row.
    pub partition: PartitionRef<'a>,
    /// Its clustering key; `None` when only the static row answers.
    pub clustering: Option<&'a [u8]>,
    /// The row; `None` when only the static row answers.
    pub row: Option<RowRef<'a>>,
    /// The bytes that the row takes in the page.
    pub bytes: u64,
}

impl Page {
    /// An empty page.
    pub fn new() -> Page {
        Page::default()
    }

    /// Closes the page: this is how the read that filled it ended.
    pub fn end(mut self, end: ReadEnd) -> Page {
        assert_eq!(end.rows, self.rows, "the engine counted what it gave");
        self.tombstones = end.tombstones;
        self.blocks = end.blocks;
        self.cached_blocks = end.cached_blocks;
        self.more = end.more;
        self
    }

    /// Bytes its rows take.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Where a page begins that skips the partition of the last row here.
    pub fn after_last_partition(&self) -> Option<Resume> {
        let (token, key) = self.last.clone()?;
        Some(Resume {
            token,
            key: self.bytes[key].to_vec(),
            clustering: None,
            partition_done: true,
            rows_of_partition: 0,
        })
    }

    /// The rows of the page, in order.
    pub fn entries(&self) -> Entries<'_> {
        Entries { cursor: Cursor::new(&self.bytes), partition: None }
    }

    /// Gives every row to `sink`, and says how the read ended. `before` is the resume point the
    /// page was read from: it may have begun inside a partition. `pause` is awaited after a quantum of rows, and after
    /// each that costs the sink much.
    pub async fn replay_in_turns(
        &self,
        before: Option<&Resume>,
        sink: &mut impl RowSink,
        pause: &impl AsyncFn(),
    ) -> ReadEnd {
        let mut quantum = Quantum::of(sink);
        let mut place = Place::new(before);
        let Page { tombstones, blocks, cached_blocks, .. } = *self;
        for entry in self.entries() {
            place.pass(&entry);
            if sink.row(&entry.partition, entry.clustering, entry.row) == Flow::Enough {
                let more = if place.rows == self.rows { self.more.clone() } else { place.resume() };
                return ReadEnd { rows: place.rows, tombstones, blocks, cached_blocks, more };
            }
            if quantum.is_used_up(entry.bytes as usize, sink) {
                pause().await;
            }
        }
        assert_eq!(place.rows, self.rows, "each row of the page was given");
        let more = self.more.clone();
        ReadEnd { rows: self.rows, tombstones, blocks, cached_blocks, more }
    }
}

impl RowSink for Page {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        let same = |(token, key): &(Token, std::ops::Range<usize>)| {
            *token == partition.token && &self.bytes[key.clone()] == partition.key
        };
        let begins = !self.last.as_ref().is_some_and(same);
        let mut tag = 0;
        tag |= if begins { PARTITION } else { 0 };
        tag |= if begins && partition.static_row.is_some() { STATIC } else { 0 };
        tag |= if clustering.is_some() { CLUSTERING } else { 0 };
        tag |= if row.is_some() { ROW } else { 0 };
        if self.bytes.is_empty() {
            self.bytes.reserve(ROWS_BYTES_FIRST);
        }
        self.bytes.push(tag);
        if begins {
            self.bytes.extend_from_slice(&partition.token.0.to_le_bytes());
            put_bytes(&mut self.bytes, partition.key);
            let end = self.bytes.len();
            self.last = Some((partition.token, end - partition.key.len()..end));
            if let Some(static_row) = partition.static_row {
                put_bytes(&mut self.bytes, static_row.bytes());
            }
        }
        if let Some(clustering) = clustering {
            put_bytes(&mut self.bytes, clustering);
        }
        if let Some(row) = row {
            put_bytes(&mut self.bytes, row.bytes());
        }
        self.rows += 1;
        Flow::More
    }
}

/// Walks the rows of a page.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    cursor: Cursor<'a>,
    partition: Option<PartitionRef<'a>>,
}

const OURS: &str = "a page is written by this process";

impl<'a> Entries<'a> {
    fn bytes_if(&mut self, bit: u8) -> Option<&'a [u8]> {
        (bit != 0).then(|| self.cursor.bytes().expect(OURS))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        if self.cursor.is_empty() {
            return None;
        }
        let before = self.cursor.rest().len();
        let tag = self.cursor.u8().expect(OURS);
        if tag & PARTITION != 0 {
            let token = Token(self.cursor.i64().expect(OURS));
            let key = self.cursor.bytes().expect(OURS);
            let static_row = self.bytes_if(tag & STATIC).map(RowRef::trusted);
            self.partition = Some(PartitionRef { token, key, static_row });
        }
        let clustering = self.bytes_if(tag & CLUSTERING);
        let row = self.bytes_if(tag & ROW).map(RowRef::trusted);
        let partition = self.partition.expect("a page begins with a partition");
        let bytes = (before - self.cursor.rest().len()) as u64;
        Some(Entry { partition, clustering, row, bytes })
    }
}

/// How far a reader of entries has come: enough to begin the next page there.
pub(crate) struct Place<'a> {
    /// Number of rows that passed.
    pub(crate) rows: u64,
    before: Option<&'a Resume>,
    last: Option<Entry<'a>>,
    rows_of_partition: u64,
}

impl<'a> Place<'a> {
    pub(crate) fn new(before: Option<&'a Resume>) -> Place<'a> {
        Place { rows: 0, before, last: None, rows_of_partition: 0 }
    }

    pub(crate) fn pass(&mut self, entry: &Entry<'a>) {
        let key = entry.partition.key;
        match self.last {
            Some(last) if last.partition.key == key => {}
            Some(_) => self.rows_of_partition = 0,
            None => {
                let inside = self.before.filter(|before| before.key == key);
                self.rows_of_partition = inside.map_or(0, |before| before.rows_of_partition);
            }
        }
        self.rows += 1;
        // It goes on from a number that a client sent.
        self.rows_of_partition = self.rows_of_partition.saturating_add(1);
        self.last = Some(*entry);
    }

    /// Where a page begins that continues after the last row passed.
    pub(crate) fn resume(&self) -> Option<Resume> {
        let last = self.last.as_ref()?;
        Some(Resume {
            token: last.partition.token,
            key: last.partition.key.to_vec(),
            clustering: last.clustering.map(<[u8]>::to_vec),
            partition_done: false,
            rows_of_partition: self.rows_of_partition,
        })
    }
}

#[cfg(test)]
mod tests;

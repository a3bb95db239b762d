//! What a read asks of one shard, as data that could cross a wire, and how rows come back.
//!
//! ```text
//! ReadCommand ──► engine ──► RowSink::row(partition, clustering, row) … ──► ReadEnd
//! ```
//!
//! The engine applies everything here: slices, filters, limits, the page. A sink only takes rows,
//! each already reconciled: no tombstone, nothing expired, no column the command did not ask for
//! is promised to be absent.

mod filter;
mod nearest;

pub use filter::{Filter, FilterTarget, Like, Operator};
pub use nearest::{Nearest, NearestRows};

use crate::bytes::compare;
use crate::cell::Deletion;
use crate::row::RowRef;
use crate::schema::{IndexId, TableId};
use crate::token::{Token, TokenRange};

/// Which partitions a read visits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// These keys, in this order.
    Keys(Vec<(Token, Box<[u8]>)>),
    /// Every partition with a token inside, in token order.
    Range(TokenRange),
}

/// A stretch of a partition: `start <= clustering < end`, as bounds (`key.rs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Encoded clustering bound where the slice begins, inclusive.
    pub start: Vec<u8>,
    /// Encoded clustering bound where the slice ends, exclusive.
    pub end: Vec<u8>,
}

impl Slice {
    /// The slice of all rows.
    pub fn all() -> Slice {
        Slice { start: Vec::new(), end: vec![crate::ordered::AFTER] }
    }

    /// Exactly the row with this whole clustering key.
    pub fn row(clustering: Vec<u8>) -> Slice {
        let mut end = clustering.clone();
        end.push(crate::ordered::AFTER);
        Slice { start: clustering, end }
    }

    /// Whether the clustering key is inside.
    #[inline]
    pub fn contains(&self, clustering: &[u8]) -> bool {
        compare(&self.start, clustering).is_le() && compare(clustering, &self.end).is_lt()
    }
}

/// How many rows may come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// LIMIT, less what earlier pages gave.
    pub rows: u64,
    /// PER PARTITION LIMIT.
    pub rows_per_partition: u64,
    /// Rows of one page.
    pub page_rows: u64,
    /// Bytes of one page; the row that passes it is the page's last.
    pub page_bytes: u64,
    /// Tombstones that one shard may pass for one page; a read that passes more fails.
    pub tombstones: u64,
}

impl Limits {
    /// No limit but the page's bytes.
    pub fn none(page_bytes: u64) -> Limits {
        let most = u64::MAX;
        Limits {
            rows: most,
            rows_per_partition: most,
            page_rows: most,
            page_bytes,
            tombstones: most,
        }
    }
}

/// Where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The token of the partition of the last row.
    pub token: Token,
    /// Partition key of the last row given, in its wire form.
    pub key: Vec<u8>,
    /// The last row given; `None` if it was the static row alone, or the partition is done.
    pub clustering: Option<Vec<u8>>,
    /// Whether nothing more of this partition is wanted.
    pub partition_done: bool,
    /// Rows already given of this partition.
    pub rows_of_partition: u64,
}

impl Resume {
    /// Before the first row of all, for `advance`.
    pub fn at_start() -> Resume {
        Resume {
            token: Token(0),
            key: Vec::new(),
            clustering: None,
            partition_done: false,
            rows_of_partition: 0,
        }
    }

    /// Moves behind a row that was given; its buffers are used again.
    pub fn advance(&mut self, partition: &PartitionRef<'_>, clustering: Option<&[u8]>) {
        if self.key != partition.key {
            self.key.clear();
            self.key.extend_from_slice(partition.key);
            self.rows_of_partition = 0;
        }
        self.token = partition.token;
        self.partition_done = false;
        self.rows_of_partition = self.rows_of_partition.saturating_add(1);
        match clustering {
            None => self.clustering = None,
            Some(clustering) => {
                let last = self.clustering.get_or_insert_default();
                last.clear();
                last.extend_from_slice(clustering);
            }
        }
    }
}

/// One shard's part of a SELECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCommand {
    /// Id of the table that is read.
    pub table: TableId,
    /// Which partitions are read.
    pub partitions: Partitions,
    /// Which rows: sorted, disjoint, never empty.
    pub slices: Vec<Slice>,
    /// Whether rows come in descending clustering order.
    pub reversed: bool,
    /// Whether a partition with a live static row but no row in the slices gives one row.
    pub static_alone: bool,
    /// Whether each partition gives one row at most, for its key and statics: SELECT DISTINCT.
    pub distinct: bool,
    /// Conditions that slices cannot say.
    pub filters: Vec<Filter>,
    /// What indexes know of the wanted rows: each of them is in all of these. A hint: it may be passed over.
    pub lookups: Vec<IndexLookup>,
    /// The rows that are wanted of those that all else allows, and their order: the nearest to a vector.
    pub nearest: Option<Nearest>,
    /// Row and byte limits of the query and of one page.
    pub limits: Limits,
    /// Where the page before ended.
    pub resume: Option<Resume>,
    /// The second at which expiry is judged.
    pub now_s: u32,
}

impl ReadCommand {
    /// Bytes that the keys take in memory; 0 of a range.
    pub fn key_bytes(&self) -> usize {
        let Partitions::Keys(keys) = &self.partitions else { return 0 };
        keys.iter().map(|(_, key)| size_of::<(Token, Box<[u8]>)>() + key.len()).sum()
    }

    /// Bytes that the slices take in memory.
    pub fn slice_bytes(&self) -> usize {
        self.slices.iter().map(bytes_of).sum()
    }

    /// Bytes that the values of the filters take in memory.
    pub fn filter_bytes(&self) -> usize {
        self.filters.iter().map(Filter::bytes).sum()
    }

    /// Bytes that the terms take in memory which indexes may look for.
    pub fn lookup_bytes(&self) -> usize {
        let terms = self.lookups.iter().flat_map(|lookup| &lookup.terms);
        terms.map(bytes_of).sum()
    }
}

/// Bytes that a slice takes in memory.
fn bytes_of(slice: &Slice) -> usize {
    size_of::<Slice>() + slice.start.len() + slice.end.len()
}

/// What an index knows of the rows that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexLookup {
    /// Which index of the table it is.
    pub index: IndexId,
    /// Ranges of the terms that wanted rows have: sorted, disjoint; none if no row can be wanted.
    pub terms: Vec<Slice>,
}

impl IndexLookup {
    /// What both know of rows that have one term each in the index.
    pub fn and(&self, other: &IndexLookup) -> IndexLookup {
        assert_eq!(self.index, other.index, "terms of one index");
        let (mut terms, mut others) = (Vec::new(), other.terms.iter().peekable());
        for slice in &self.terms {
            while let Some(other) = others.peek().filter(|other| other.start < slice.end) {
                let (start, end) = ((&slice.start).max(&other.start), (&slice.end).min(&other.end));
                if start < end {
                    terms.push(Slice { start: start.clone(), end: end.clone() });
                }
                if other.end > slice.end {
                    break;
                }
                others.next();
            }
        }
        IndexLookup { index: self.index, terms }
    }
}

/// The partition a row belongs to.
#[derive(Clone, Copy, Debug)]
pub struct PartitionRef<'a> {
    /// Token of the partition.
    pub token: Token,
    /// Its serialised key.
    pub key: &'a [u8],
    /// Its live static row.
    pub static_row: Option<RowRef<'a>>,
}

/// Whether a sink wants more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The reader may give more rows.
    More,
    /// The page ends after this row.
    Enough,
}

/// Takes the rows of a read.
pub trait RowSink {
    /// One live row. `clustering` and `row` are `None` when only the static row answers.
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow;

    /// Whether the sink is told of what the read passes. Asked once, when the read begins. A sink around another does
    /// not hand this on.
    #[inline]
    fn wants_passed(&self) -> bool {
        false
    }

    /// A row that the read passes as it is stored, with what covers it, before what is not alive is left out; `None` is
    /// a row of which there is nothing but the deletion. For who has to write something newer than all of this. Told
    /// only to a sink that [wants it](Self::wants_passed).
    #[inline]
    fn passes(&mut self, _stored: Option<RowRef<'_>>, _covering: Deletion) {}

    /// What the last row took beside taking its bytes, in bytes that were read or made once more: expressions may go
    /// through a value many times. So the reader pauses between such rows.
    #[inline]
    fn row_work(&self) -> usize {
        0
    }

    /// Whether each row takes as long as many others: it calls functions of users. Asked once, when the read begins.
    #[inline]
    fn is_costly(&self) -> bool {
        false
    }
}

/// How a read ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadEnd {
    /// Number of rows that were given.
    pub rows: u64,
    /// Number of tombstones that were passed: dead cells, deleted rows, beginnings and ends of range deletions.
    pub tombstones: u64,
    /// Blocks of sstables that were read for it and were not in the cache.
    pub blocks: u64,
    /// Blocks of sstables that were found in the cache. Only of a read that may wait.
    pub cached_blocks: u64,
    /// Where the next page begins; `None` when there is nothing more.
    pub more: Option<Resume>,
}

//! Writes a file in one pass, from a stream in order.
//!
//! ```text
//! partition, fragment… ─► block ─► frame ─► staged ─► drain: aligned writes
//!                            └─► directory, filter, row index, statistics: kept until the end
//! finish: row index, directory, pieces of the filter, filter, wide table, statistics, footer;
//!         sync; sync the directory;
//!         read all of it back
//! ```
//!
//! Steps that take data never wait: the caller drains between them, and so yields.
//!
//! Invariants
//! 1. Partitions ascend by (token, key), fragments by place: asserted.
//! 2. A partition that fits a block is in one block, and so is one read. A longer one begins a block.
//! 3. A bound and the row of the same bytes are in one block, so that places tell blocks apart.
//! 4. Memory is a block, a piece of output, and what is kept to the end: a few bytes for each block and partition, and
//!    of a wide partition what tells its blocks apart. A merge ends its output for it (`compaction/rewrite.rs`); a flush
//!    has no more of it than its memtable has rows.
//! 5. A partition that says nothing leaves no trace.

use model::row::RowRef;
use model::{Deletion, Token};

use super::block::{BlockBuilder, Bound, Head as BlockHead, HeadRest, Row};
use super::directory::DirectoryBuilder;
use super::filter_pieces::FilterBuilder;
use super::footer::{
    FOOTER_BYTES, Footer, NEEDS_FILTER_PIECES, NEEDS_WRITTEN_FORMS, Section, digest,
};
use super::frame::{Framer, Kind, length_of, seal, seed_of};
use super::output::Output;
use super::row_index::{RowIndexBuilder, separator};
use super::statistics::{Observer, Statistics};
use super::verify::read_back;
use super::wide::{Wide, WideTable, key_hash};
use super::{FileDigest, SstableId, SstableIdentity, WriterConfig, file_name};
use crate::cursor::{Fragment, Head};
use crate::error::Result;
use crate::index::IndexBuilder;
use crate::io::{Disk, IoClass, RelPath};
use crate::limits::{WIDE_BLOCKS_MIN, WRITE_ALIGN_BYTES};
use crate::pause::Pause;

/// A file that was written, synced and read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenSstable {
    /// Id of the sstable, which names its file.
    pub id: SstableId,
    /// What the manifest is to know of it.
    pub proof: FileDigest,
    /// Its counts, its first and last token, its timestamps (microseconds).
    pub statistics: Statistics,
}

/// A file being written.
pub struct Writer {
    id: SstableId,
    config: WriterConfig,
    seed: u64,
    output: Output,
    framer: Framer,
    block: BlockBuilder,
    /// The first entry of `block`.
    block_first: Option<(Token, bool)>,
    raw: Vec<u8>,
    raw_bytes: u64,
    directory: DirectoryBuilder,
    data_digest: u64,
    filter: FilterBuilder,
    observer: Observer,
    wide: WideTable,
    /// Frames of row indexes, not sealed yet.
    index: Vec<u8>,
    partition: Option<Partition>,
    /// Makes the files of indexes.
    indexes: Option<IndexBuilder>,
}

/// The partition being written.
struct Partition {
    token: Token,
    key: Vec<u8>,
    deletion: Deletion,
    static_row: Option<Vec<u8>>,
    has_static: bool,
    /// It is in the block, or was.
    begun: bool,
    /// Where in `block` its head stands.
    head_at: usize,
    /// The range deletion in force.
    open: Deletion,
    last: Option<(Vec<u8>, bool)>,
    bytes: u64,
    rows: Option<RowIndexBuilder>,
    first_block: usize,
    /// Where the index stood when it began.
    index_from: usize,
}

impl Writer {
    /// Begins the file `id` in directory `dir`; nothing is on disk before the first piece is full.
    pub fn new(disk: &Disk, dir: &RelPath, id: SstableId, config: WriterConfig) -> Writer {
        let filter = FilterBuilder::new(config.filter_fp_chance, config.filter_piece_bytes);
        let framer = Framer::new(config.codec);
        let framer = if config.merged_soon { framer.of_file_merged_soon() } else { framer };
        Writer {
            id,
            seed: seed_of(id),
            output: Output::new(disk.clone(), dir.join(&file_name(id))),
            framer,
            block: BlockBuilder::default(),
            block_first: None,
            raw: Vec::new(),
            raw_bytes: 0,
            directory: DirectoryBuilder::default(),
            data_digest: 0,
            filter,
            observer: Observer::new(),
            wide: WideTable::default(),
            index: Vec::new(),
            partition: None,
            indexes: config
                .indexed
                .as_ref()
                .and_then(|table| IndexBuilder::new(disk, dir, id, table)),
            config,
        }
    }

    /// Its requests to the device are of this class, not of a flush.
    #[must_use]
    pub fn of_class(mut self, class: IoClass) -> Writer {
        self.output = self.output.of_class(class);
        self.indexes = self.indexes.map(|indexes| indexes.of_class(class));
        self
    }

    /// The file is made at this second since 1970.
    #[must_use]
    pub fn made_at(mut self, made_s: u32) -> Writer {
        self.observer.made_at(made_s);
        self
    }

    /// The file is the fragment of this number of its run, and goes on with a partition that another one began.
    pub(crate) fn goes_on(&mut self, number: u64) {
        self.observer.goes_on(number);
    }

    /// Begins the next partition.
    pub fn partition(&mut self, head: &Head<'_>) {
        if let Some(last) = &self.partition {
            assert!(
                (last.token, last.key.as_slice()) < (head.token, head.key),
                "partitions ascend"
            );
        }
        self.end_partition();
        self.partition = Some(Partition {
            token: head.token,
            key: head.key.to_vec(),
            deletion: head.deletion,
            static_row: head.static_row.map(|row| row.bytes().to_vec()),
            has_static: head.static_row.is_some(),
            begun: false,
            head_at: 0,
            open: Deletion::NONE,
            last: None,
            bytes: 0,
            rows: None,
            first_block: 0,
            index_from: self.index.len(),
        });
        if !head.deletion.is_none() || head.static_row.is_some() {
            self.begin_partition();
        }
    }

    /// Adds the next row or change of the partition, in ascending order.
    pub fn fragment(&mut self, fragment: &Fragment<'_>) {
        let partition = self.partition.as_ref().expect("a fragment has its partition");
        if let Fragment::Change { deletion, .. } = fragment
            && *deletion == partition.open
        {
            return;
        }
        if !partition.begun {
            self.begin_partition();
        }
        let place = (fragment.position(), !fragment.is_change());
        let bytes = place.0.len()
            + if let Fragment::Row { row, .. } = fragment { row.bytes().len() } else { 0 };
        self.cut_block_before(bytes, place.0);
        let partition = self.partition.as_mut().expect("it was there a moment ago");
        match &mut partition.last {
            Some((last, is_row)) => {
                assert!((last.as_slice(), *is_row) < place, "fragments ascend");
                place.0.clone_into(last);
                *is_row = place.1;
            }
            none => *none = Some((place.0.to_vec(), place.1)),
        }
        partition.bytes += bytes as u64;
        match *fragment {
            Fragment::Row { clustering, row } => {
                self.observer.row(clustering, row);
                self.observer.size(&partition.key, Some(clustering), row);
                if let Some(indexes) = &mut self.indexes {
                    indexes.row(&partition.key, clustering, row, self.block.count());
                }
                self.block.row(&Row { clustering, row });
            }
            Fragment::Change { position, deletion } => {
                self.observer.range(position, deletion);
                self.block.bound(&Bound { at: position, below: partition.open, above: deletion });
                partition.open = deletion;
            }
        }
    }

    /// Bytes the file would have about now.
    pub fn bytes(&self) -> u64 {
        self.output.offset() + (self.block.bytes() + self.index.len()) as u64
    }

    /// Bytes that stay in memory until the file ends, without spare capacity: the filter, the directory, finished nodes
    /// of row indexes, the table of wide partitions. The files of indexes have a bound of their own.
    pub(crate) fn kept_bytes(&self) -> usize {
        let Writer { filter, directory, index, wide, .. } = self;
        filter.kept_bytes() + directory.kept_bytes() + index.len() + wide.memory_bytes()
    }

    /// Whether [`Writer::drain`] has something to write.
    pub fn is_full(&self) -> bool {
        self.output.is_full() || self.indexes.as_ref().is_some_and(IndexBuilder::is_full)
    }

    /// Writes what fills whole pieces, and terms that fill their memory. `pause` is awaited in between.
    pub async fn drain(&mut self, pause: &dyn Pause) -> Result<()> {
        if let Some(indexes) = self.indexes.as_mut().filter(|indexes| indexes.is_full()) {
            indexes.spill(pause).await?;
        }
        self.output.drain().await
    }

    /// Ends the file and proves it; `None` if nothing was put in, and then there is no file. `pause` is awaited between
    /// the sections and while what was written is read back.
    ///
    /// After an error the file is still there: the caller unlinks it.
    pub async fn finish(mut self, pause: &dyn Pause) -> Result<Option<WrittenSstable>> {
        self.end_partition();
        if self.block.count() > 0 {
            self.cut(self.block.count());
        }
        if self.directory.blocks() == 0 {
            return Ok(None);
        }
        let indexes = self.indexes.take();
        let written = match self.finish_file(pause).await {
            Ok(written) => written,
            Err(error) => {
                // The error that led here is the one to report.
                if let Some(indexes) = indexes {
                    let _ = indexes.abandon().await;
                }
                return Err(error);
            }
        };
        if let Some(indexes) = indexes {
            indexes.finish(written.proof, pause).await?;
        }
        Ok(Some(written))
    }

    /// Ends the file without those of indexes, and proves it.
    async fn finish_file(mut self, pause: &dyn Pause) -> Result<WrittenSstable> {
        let (proof, statistics) = self.put_sections(pause).await?;
        assert!(statistics.partitions > 0, "a file with blocks holds a partition");
        assert!(!statistics.tokens.is_empty(), "a file with blocks holds a token");
        let (disk, path) = (self.output.disk().clone(), self.output.path().clone());
        let class = self.output.class();
        let written = self.output.finish().await?;
        assert_eq!(written, proof.file_bytes, "every byte was written");
        let known = SstableIdentity { id: self.id, table: self.config.table, proof };
        read_back(&disk, &path.parent(), known, class, pause).await?;
        Ok(WrittenSstable { id: self.id, proof, statistics })
    }

    /// Gives up and removes what was written.
    pub async fn abandon(self) -> Result<()> {
        let indexes = match self.indexes {
            Some(indexes) => indexes.abandon().await,
            None => Ok(()),
        };
        self.output.abandon().await.and(indexes)
    }

    fn begin_partition(&mut self) {
        let partition = self.partition.as_mut().expect("called inside a partition");
        let static_row = partition.static_row.take();
        let static_row = static_row.as_deref().map(RowRef::trusted);
        assert!(!partition.begun, "a partition begins once");
        partition.begun = true;
        partition.bytes =
            partition.key.len() as u64 + static_row.map_or(0, |row| row.bytes().len() as u64);
        let (token, deletion, bytes) = (partition.token, partition.deletion, partition.bytes);
        self.filter.insert(token, &mut self.framer);
        self.observer.partition(token, deletion, static_row);
        if let Some(row) = static_row {
            self.observer.size(&partition.key, None, row);
        }
        if self.block.count() > 0 && self.block.bytes() + bytes as usize > self.config.block_bytes {
            self.cut(self.block.count());
        }
        let partition = self.partition.as_mut().expect("it was there a moment ago");
        partition.head_at = self.block.count();
        self.block_first.get_or_insert((token, false));
        if let Some(indexes) = &mut self.indexes {
            indexes.partition(&partition.key, static_row, self.block.count());
        }
        let rest = HeadRest::Begins { static_row };
        self.block.head(&BlockHead { token, key: &partition.key, deletion, rest });
    }

    /// Cuts the block before an entry of so many bytes at `place`, if it would grow too long.
    fn cut_block_before(&mut self, bytes: usize, place: &[u8]) {
        if self.block.bytes() + bytes <= self.config.block_bytes {
            return;
        }
        let head_at = self.partition.as_ref().map_or(0, |partition| partition.head_at);
        if head_at > 0 {
            self.cut(head_at);
            let partition = self.partition.as_mut().expect("called inside a partition");
            assert!(self.block.count() > 0, "the head of the partition is left in the block");
            partition.head_at = 0;
            self.block_first = Some((partition.token, false));
        }
        let last = self.partition.as_ref().and_then(|partition| partition.last.as_ref());
        let together = last.is_some_and(|(last, _)| last == place);
        let is_long = self.block.bytes() + bytes > self.config.block_bytes;
        if is_long && !together && self.block.count() > 1 {
            self.continue_partition(place);
        }
    }

    /// Ends the block inside the partition; the next begins with a reminder, and then at `place`.
    fn continue_partition(&mut self, place: &[u8]) {
        let number = self.directory.blocks();
        self.cut(self.block.count());
        assert_eq!(self.directory.blocks(), number + 1, "a block was cut");
        let partition = self.partition.as_mut().expect("called inside a partition");
        let (framer, region) = (&mut self.framer, &mut self.index);
        let rows = partition.rows.get_or_insert_with(|| {
            partition.first_block = number;
            let mut rows = RowIndexBuilder::default();
            rows.block(&[], framer, region);
            rows
        });
        let before = partition.last.as_ref().map_or(&[][..], |(last, _)| last);
        rows.block(separator(before, place), framer, region);
        let rest = HeadRest::Continues { has_static: partition.has_static, open: partition.open };
        let (token, deletion) = (partition.token, partition.deletion);
        self.block_first = Some((token, true));
        self.block.head(&BlockHead { token, key: &partition.key, deletion, rest });
    }

    fn end_partition(&mut self) {
        let Some(mut partition) = self.partition.take() else { return };
        assert!(partition.open.is_none(), "every range deletion ends in its partition");
        if !partition.begun {
            return;
        }
        self.observer.partition_end(partition.bytes, &partition.key);
        let Some(rows) = partition.rows.take() else { return };
        if rows.blocks() < WIDE_BLOCKS_MIN {
            self.index.truncate(partition.index_from);
            return;
        }
        let blocks = rows.blocks() as usize;
        let root = rows.finish(&mut self.framer, &mut self.index);
        let number = |block: usize| u32::try_from(block).expect("a file has fewer blocks");
        self.wide.push(Wide {
            token: partition.token,
            key_hash: key_hash(&partition.key),
            first_block: number(partition.first_block),
            last_block: number(partition.first_block + blocks - 1),
            root,
        });
    }

    /// Makes a block of the first `count` entries.
    fn cut(&mut self, count: usize) {
        assert!(count > 0, "a block has entries");
        let (token, continues) = self.block_first.take().expect("a block has a first entry");
        if let Some(indexes) = &mut self.indexes {
            indexes.cut(self.directory.blocks(), count);
        }
        self.raw.clear();
        self.block.finish(count, &mut self.raw);
        self.raw_bytes += self.raw.len() as u64;
        self.directory.push(token, continues, self.output.offset());
        let checksum = self.put_frame(Kind::Data);
        self.data_digest = digest(self.data_digest, checksum);
    }

    /// Stages `raw` as a sealed frame; gives its checksum.
    fn put_frame(&mut self, kind: Kind) -> u64 {
        let offset = self.output.offset();
        let staged = self.output.staged();
        let from = staged.len();
        self.framer.put(kind, &self.raw, staged);
        seal(&mut staged[from..], self.seed, offset)
    }

    /// Stages everything after the data.
    async fn put_sections(&mut self, pause: &dyn Pause) -> Result<(FileDigest, Statistics)> {
        assert!(self.partition.is_none() && self.block.count() == 0, "all the data is in blocks");
        let data_bytes = self.output.offset();
        let mut sections_digest = 0;
        let index = std::mem::take(&mut self.index);
        self.put_frames(index, &mut sections_digest, pause).await?;
        let index_bytes = self.output.offset() - data_bytes;
        let directory = std::mem::take(&mut self.directory);
        let blocks = directory.blocks() as u64;
        let directory = directory.finish(data_bytes);
        pause.take().await;
        let observer = std::mem::replace(&mut self.observer, Observer::new());
        let statistics = observer.finish(self.raw_bytes);
        self.raw.clear();
        directory.encode(&mut self.raw);
        let directory = self.put_section(Kind::Directory, &mut sections_digest);
        self.output.drain().await?;
        pause.take().await;
        let filter = std::mem::replace(&mut self.filter, FilterBuilder::new(1.0, 0));
        let (pieces, filter) = filter.finish(&mut self.framer);
        let pieces_needed = if pieces.is_empty() { 0 } else { NEEDS_FILTER_PIECES };
        pause.take().await;
        self.put_frames(pieces, &mut sections_digest, pause).await?;
        self.raw = filter;
        let filter = self.put_section(Kind::Filter, &mut sections_digest);
        self.raw.clear();
        self.wide.encode(&mut self.raw);
        pause.take().await;
        let wide = self.put_section(Kind::Wide, &mut sections_digest);
        self.raw.clear();
        statistics.encode(&mut self.raw);
        let statistics_at = self.put_section(Kind::Statistics, &mut sections_digest);
        let footer = Footer {
            needs: pieces_needed | if self.config.written_forms { NEEDS_WRITTEN_FORMS } else { 0 },
            id: self.id,
            table: self.config.table,
            data_bytes,
            blocks,
            data_digest: self.data_digest,
            sections_digest,
            index_offset: data_bytes,
            index_bytes,
            directory,
            filter,
            wide,
            statistics: statistics_at,
        };
        Ok((self.put_footer(&footer), statistics))
    }

    /// Stages `raw` as a section.
    fn put_section(&mut self, kind: Kind, sections_digest: &mut u64) -> Section {
        let offset = self.output.offset();
        *sections_digest = digest(*sections_digest, self.put_frame(kind));
        Section { offset, bytes: (self.output.offset() - offset) as u32 }
    }

    /// Puts frames that are not sealed yet, and writes what fills pieces.
    async fn put_frames(
        &mut self,
        frames: Vec<u8>,
        sections_digest: &mut u64,
        pause: &dyn Pause,
    ) -> Result<()> {
        let mut rest = frames.as_slice();
        while !rest.is_empty() {
            let bytes = length_of(rest).expect("a region is made of frames");
            let (frame, after) = rest.split_at(bytes);
            let offset = self.output.offset();
            let staged = self.output.staged();
            let from = staged.len();
            staged.extend_from_slice(frame);
            let checksum = seal(&mut staged[from..], self.seed, offset);
            *sections_digest = digest(*sections_digest, checksum);
            if self.output.is_full() {
                self.output.drain().await?;
                pause.take().await;
            }
            rest = after;
        }
        Ok(())
    }

    fn put_footer(&mut self, footer: &Footer) -> FileDigest {
        let end =
            (self.output.offset() as usize + FOOTER_BYTES).next_multiple_of(WRITE_ALIGN_BYTES);
        let offset = (end - FOOTER_BYTES) as u64;
        let zeros = (offset - self.output.offset()) as usize;
        assert!(offset >= self.output.offset(), "the footer is the last of the file");
        let bytes = footer.encode(self.seed, offset);
        let staged = self.output.staged();
        staged.resize(staged.len() + zeros, 0);
        staged.extend_from_slice(&bytes);
        let (_, checksum) = bytes.split_last_chunk::<8>().expect("a footer ends with its checksum");
        FileDigest { file_bytes: end as u64, footer_checksum: u64::from_le_bytes(*checksum) }
    }
}

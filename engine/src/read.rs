//! THE READ PATH: what a command asks of one table, from all that may hold it, reconciled into the sink.
//!
//! ```text
//! command ─► partitions ─► sources (memtables, sstables that may hold it) ─► one cursor each
//!        ─► merge (of a memtable alone: none) ─► visible ─► filters, limits, page ─► sink
//! ```
//!
//! 1. [`Engine::read_cached`] answers at once or says `WouldBlock`; [`Engine::read`] is the same algorithm with
//!    waiting. Both give the same rows.
//! 2. One row of one partition of a table that is one memtable is given straight from it: nothing is copied or
//!    allocated. Of a table with sstables what memtables hold is copied first, and where that settles the row no filter
//!    of an sstable is asked. Slices and scans of a table that is one memtable come from its cursor, which copies each
//!    row once.
//! 3. A range of tokens opens the files of a run as it comes to them; a slice leaves out files by their clusterings.
//! 4. Reads of ranges, and of keys with long rows, that wait for anything hold a part of the shard's memory together:
//!    others begin when these end (`turns.rs`).
//! 5. A read sees every write that was answered before it began. What is written while it waits it may see or not,
//!    row by row; it never sees an older value than one that it could have seen when it began.
//! 6. A read that may wait gives its rows to a `&mut dyn RowSink`, by one virtual call each, and so is compiled once for
//!    all of its callers (its loop twice: over a memtable alone, and over a merge): half of a release build was copies
//!    of it. [`Engine::read_cached`], which answers inside a pass, is compiled for each type of sink. What both use takes
//!    an `S: RowSink + ?Sized`.

mod by_vectors;
mod candidates;
mod lookup;
mod lookup_cost;
mod nearest;
mod page;
mod quantum;
mod record;
mod row;
mod sources;
#[cfg(test)]
mod tests;
mod turns;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

pub use lookup::LookupPolicy;
use model::key;
use model::ordered::{AFTER, Reader};
use model::read::{Partitions, ReadCommand, ReadEnd, Resume, RowSink};
use model::schema::{self, ColumnDrops};
use model::{Token, TokenRange};
pub use nearest::give_nearest;
use page::Page;
pub use quantum::Quantum;
pub use record::{RecordTable, read_record};
use row::RowWanted;
pub use sources::ReadSources;
pub(crate) use turns::ReadTurns;

use crate::cursor::{Cursor, Deferred, FromBegin, Merge, RunCursor, Scope, Slice, Source, Span};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::hot_partitions::Access;
use crate::manifest::ViewBegin;
use crate::memtable::MemtableCursor;
use crate::pause::Pause;
use crate::planted::{Bug, planted};
use crate::sstable::Reading;
use crate::table::{Layer, SharedMemtable, Table, View};
use crate::tables::no_table;

/// Whether a read may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitPolicy {
    /// It is done at once, or it is `WouldBlock`.
    None,
    /// It waits for the disk, and pauses as its caller decides.
    Endless,
}

/// Buffers that a read needs and gives back.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    key: Vec<u8>,
    stat: Vec<u8>,
    row: Vec<u8>,
    merged: Vec<u8>,
    spare: Vec<u8>,
}

impl Engine {
    /// Answers from memory alone. `WouldBlock` if that does not suffice or takes long: then the sink may have been
    /// given some rows, and the caller starts over with [`read`](Engine::read) and an empty one.
    pub fn read_cached(&self, command: &ReadCommand, sink: &mut impl RowSink) -> Result<ReadEnd> {
        let read = pin!(self.read_with(command, sink, (WaitPolicy::None, &no_pause), Vec::new()));
        match read.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(end) => end,
            Poll::Pending => unreachable!("`WaitPolicy::None` waits for nothing"),
        }
    }

    /// Answers, however long it takes. `pause` is called after every few rows: it decides how long the read may compute.
    pub async fn read(
        &self,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        pause: impl AsyncFn(),
    ) -> Result<ReadEnd> {
        self.read_over(command, sink, &pause, Vec::new()).await
    }

    /// The same, as if the table had some more memtables. Those of the table are looked at later, and before the first
    /// wait for the disk: what is readable meanwhile is in both.
    pub(crate) async fn read_over(
        &self,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        pause: &dyn Pause,
        overlays: Vec<SharedMemtable>,
    ) -> Result<ReadEnd> {
        self.counters.count(|s| s.reads_waited += 1);
        let _search = match command.nearest {
            Some(_) => Some(self.searches.take(self.budget.search_bytes() as u64).await),
            None => None,
        };
        let mut read = pin!(self.read_with(command, sink, (WaitPolicy::Endless, pause), overlays));
        // What is opened while it computes is opened for it: a core does one thing at a time.
        let (mut blocks, mut cached_blocks) = (0, 0);
        let end = poll_fn(|context| {
            let (opened, hits) = (self.cache.opened_blocks(), self.cache.hits());
            let polled = read.as_mut().poll(context);
            blocks += self.cache.opened_blocks() - opened;
            cached_blocks += self.cache.hits() - hits;
            polled
        });
        let end = end.await?;
        Ok(ReadEnd { blocks, cached_blocks, ..end })
    }

    async fn read_with<S: RowSink + ?Sized>(
        &self,
        command: &ReadCommand,
        sink: &mut S,
        waits: (WaitPolicy, &dyn Pause),
        overlays: Vec<SharedMemtable>,
    ) -> Result<ReadEnd> {
        match &command.nearest {
            Some(nearest) => self.read_nearest((command, nearest), sink, waits, overlays).await,
            None => self.read_rows(command, sink, waits, overlays).await,
        }
    }

    /// Reads the rows of a command in the order of storage.
    async fn read_rows<S: RowSink + ?Sized>(
        &self,
        command: &ReadCommand,
        sink: &mut S,
        (wait_policy, pause): (WaitPolicy, &dyn Pause),
        overlays: Vec<SharedMemtable>,
    ) -> Result<ReadEnd> {
        if let Partitions::Keys(keys) = &command.partitions {
            let owns = |(token, _): &(Token, Box<[u8]>)| self.tables.range_of(*token).is_some();
            assert!(
                keys.iter().all(owns),
                "the router sends a read to the shard that owns the key"
            );
        }
        let table = self.table(command.table)?;
        table.refuse_damaged(command)?;
        let definition = table.definition();
        let mut scratch = self.take_scratch();
        let drops = match planted(Bug::ShowDropped) {
            true => Default::default(),
            false => table.drops(),
        };
        let (definition, drops) = (&*definition, &*drops);
        // What lies over the table has no terms.
        let lookup_policy = match overlays.is_empty() {
            true => self.lookup_policy.get(),
            false => LookupPolicy::Never,
        };
        let read = Read {
            table: &table,
            definition,
            drops,
            command,
            wait_policy,
            overlays,
            lookup_policy,
            turns: Some(&self.read_turns),
        };
        let mut page = Page::new(command, definition, drops, sink, (wait_policy, pause));
        let result = read.run(&mut page, &mut scratch).await;
        self.give_scratch_back(scratch);
        match result {
            Ok(()) => {}
            Err(error) => page.tolerate_would_block(error).inspect_err(|error| {
                table.note_unreadable(error, command.now_s);
            })?,
        }
        if table.is_gone.get() {
            // What it gave may be all that there was, or not.
            return Err(no_table(command.table));
        }
        let is_lookup = page.was_looked_up();
        let end = page.end();
        self.counters.count(|s| {
            s.reads += 1;
            s.lookups += u64::from(is_lookup);
            s.rows_read += end.rows;
        });
        if self.sampler.runs()
            && let Partitions::Keys(keys) = &command.partitions
        {
            for (token, key) in keys {
                self.sampler.note(Access::Read, command.table, *token, key);
            }
        }
        Ok(end)
    }
}

/// For a read that is done at once.
fn no_pause() -> std::future::Ready<()> {
    std::future::ready(())
}

/// Runs a future that waits for nothing but itself.
fn without_waiting<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}

/// One read of one table.
struct Read<'r> {
    table: &'r Table,
    definition: &'r schema::Table,
    drops: &'r ColumnDrops,
    command: &'r ReadCommand,
    wait_policy: WaitPolicy,
    /// Memtables over those of the table.
    overlays: Vec<SharedMemtable>,
    /// When indexes are used.
    lookup_policy: LookupPolicy,
    /// Where reads that may hold much wait for their turn; `None`: nothing is waited for.
    turns: Option<&'r ReadTurns>,
}

impl Read<'_> {
    async fn run<S: RowSink + ?Sized>(
        &self,
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        match &self.command.partitions {
            Partitions::Keys(keys) => self.keys(keys, page, scratch).await,
            Partitions::Range(range) => {
                let turn = self.turn_of_lookup().await;
                match self.worthy_lookup(page).await? {
                    Some(lookup) => {
                        self.range_by_index((lookup, turn), *range, page, scratch).await
                    }
                    None => {
                        drop(turn);
                        let resume = self.command.resume.as_ref();
                        self.range_from(*range, resume, page, scratch).await
                    }
                }
            }
        }
    }

    /// These partitions, in their order.
    async fn keys<S: RowSink + ?Sized>(
        &self,
        keys: &[(Token, Box<[u8]>)],
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let mut keys = keys.iter();
        let may_hold_much =
            self.wait_policy == WaitPolicy::Endless && self.table.row_lengths.has_long();
        if let Some(resume) = &self.command.resume {
            let last = keys.find(|(token, key)| *token == resume.token && **key == *resume.key);
            let (token, key) = last.ok_or_else(|| Error::invalid("a page of another query"))?;
            let _turn = match may_hold_much {
                true => Box::pin(self.turn_of_long_rows((*token, key), None, page.pause())).await,
                false => None,
            };
            match self.worthy_lookup_inside((*token, key), page).await? {
                Some(lookup) => {
                    self.partition_by_index(lookup, (*token, key), page, scratch).await?;
                }
                None => self.rest(*token, key, resume, page, scratch).await?,
            }
        }
        let row = self.row_wanted(scratch);
        for (token, key) in keys {
            // Before each and not after the last: what has read all is not begun anew for having taken long.
            if !page.is_done() {
                page.pause_if_due().await?;
            }
            if page.is_done() {
                break;
            }
            page.begin(0);
            let mut turn = None;
            if may_hold_much {
                // What it has held is not held while it waits.
                scratch.shrink();
                turn = Box::pin(self.turn_of_long_rows((*token, key), row, page.pause())).await;
            }
            match row {
                Some(clustering) => {
                    let slices = &self.command.slices;
                    let wanted = RowWanted { token: *token, key, clustering, slices };
                    self.row(wanted, page, scratch).await?;
                }
                None => match self.worthy_lookup_inside((*token, key), page).await? {
                    Some(lookup) => {
                        self.partition_by_index(lookup, (*token, key), page, scratch).await?;
                    }
                    None => {
                        // It may not be there, and then nothing else counts it.
                        page.work(key.len());
                        self.partition(*token, key, &self.command.slices, page, scratch).await?;
                    }
                },
            }
            drop(turn);
        }
        Ok(())
    }

    /// Every partition of a range of tokens, behind a place, when it is the turn of a scan.
    async fn range_from<S: RowSink + ?Sized>(
        &self,
        mut range: TokenRange,
        resume: Option<&Resume>,
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let mut counted_bytes = self.table.scan_bytes();
        let mut turn = self.turn_of_scan().await;
        if let Some(resume) = resume {
            if !range.contains(resume.token) {
                return Err(Error::invalid("a page of another query"));
            }
            range.first = resume.token;
            self.rest(resume.token, &resume.key, resume, page, scratch).await?;
        }
        let mut after = resume.map(|resume| (resume.token, resume.key.clone()));
        while let Some((token, key)) = self.scan(range, &after, page, scratch).await? {
            range.first = token;
            after = Some((token, key));
            // Over more lanes than it was counted with it waits for another turn.
            if self.table.scan_bytes() > counted_bytes {
                drop(turn);
                counted_bytes = self.table.scan_bytes();
                turn = self.turn_of_scan().await;
            }
        }
        drop(turn);
        Ok(())
    }

    /// The partitions of a range after a place, until the page is done or the table's files are others: then the place
    /// from which to go on. So a long read keeps no memtable and no file that the table has no more.
    async fn scan<S: RowSink + ?Sized>(
        &self,
        range: TokenRange,
        after: &Option<(Token, Vec<u8>)>,
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<Option<(Token, Vec<u8>)>> {
        let command = self.command;
        let scope = Scope::Range(range);
        let span = Span { scope, slices: &command.slices, reversed: command.reversed };
        match self.only_memtable() {
            Some(memtable) => {
                self.scan_of(MemtableCursor::new(memtable, span), after, page, scratch).await
            }
            None => self.scan_of(self.cursor(span), after, page, scratch).await,
        }
    }

    /// What `scan` does with the cursor over all that is read.
    async fn scan_of<S: RowSink + ?Sized>(
        &self,
        mut cursor: impl Cursor,
        after: &Option<(Token, Vec<u8>)>,
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<Option<(Token, Vec<u8>)>> {
        let views = self.table.views();
        while !page.is_done() && cursor.next_partition().await? {
            let head = cursor.head();
            let is_after =
                |(token, key): &(Token, Vec<u8>)| (head.token, head.key) > (*token, key.as_slice());
            let is_new = after.as_ref().is_none_or(is_after);
            if is_new {
                page.begin(0);
                page.partition(&mut cursor, scratch).await?;
            }
            page.pause_if_due().await?;
            // After a partition that was given: so the place moves on, however often the files change.
            let has_others = is_new && !Rc::ptr_eq(&views, &self.table.views());
            if has_others && !page.is_done() {
                let head = cursor.head();
                return Ok(Some((head.token, head.key.to_vec())));
            }
        }
        Ok(None)
    }

    /// What an earlier page has left of the partition it ended in.
    async fn rest<S: RowSink + ?Sized>(
        &self,
        token: Token,
        key: &[u8],
        resume: &Resume,
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Some(slices) = self.slices_after(resume) else { return Ok(()) };
        page.begin(resume.rows_of_partition);
        self.partition(token, key, &slices, page, scratch).await
    }

    /// What an earlier page has left of the slices of the partition it ended in, if anything.
    fn slices_after(&self, resume: &Resume) -> Option<Vec<Slice>> {
        // The sink that cut the page may not know that its last row was all that is wanted of the
        // partition: pages of several shards are merged by their rows alone.
        let limits = &self.command.limits;
        let enough = self.command.distinct || resume.rows_of_partition >= limits.rows_per_partition;
        let is_done = resume.partition_done || enough;
        let last = resume.clustering.as_ref().filter(|_| !is_done)?;
        let mut after = last.clone();
        if !planted(Bug::PageRepeatsRow) {
            key::after(&mut after);
        }
        let mut slices = self.command.slices.clone();
        for slice in &mut slices {
            match self.command.reversed {
                false if slice.start < after => slice.start.clone_from(&after),
                true if slice.end > *last => slice.end.clone_from(last),
                _ => {}
            }
        }
        slices.retain(|slice| slice.start < slice.end);
        Some(slices)
    }

    /// Slices of one partition.
    async fn partition<S: RowSink + ?Sized>(
        &self,
        token: Token,
        key: &[u8],
        slices: &[Slice],
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let scope = Scope::Key(token, key);
        let span = Span { scope, slices, reversed: self.command.reversed };
        match self.only_memtable() {
            Some(memtable) => {
                self.partition_of(MemtableCursor::new(memtable, span), page, scratch).await
            }
            None => self.partition_of(self.cursor(span), page, scratch).await,
        }
    }

    /// What `partition` does with the cursor over all that is read.
    async fn partition_of<S: RowSink + ?Sized>(
        &self,
        mut cursor: impl Cursor,
        page: &mut Page<'_, S>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        match cursor.next_partition().await? {
            true => page.partition(&mut cursor, scratch).await,
            false => Ok(()),
        }
    }

    /// The memtable, if nothing else is read: no file, no other layer, no overlay. Then its cursor is the whole read,
    /// and a row goes through no future and no fragment of `Merge` and `Source` (measured: "Aggregates and filters over
    /// memtables" in `docs/benchmarks.md`).
    fn only_memtable(&self) -> Option<SharedMemtable> {
        match (&self.table.layers()[..], self.overlays.as_slice()) {
            _ if planted(Bug::PageSkipsSealed) => None,
            ([layer], []) if self.table.views().is_empty() => Some(layer.memtable.clone()),
            _ => None,
        }
    }

    /// All sources of a span as one.
    fn cursor<'c>(&self, span: Span<'c>) -> Merge<Source<'c>> {
        let layers = self.table.layers();
        let is_page = self.command.resume.is_some();
        let skips = |layer: &&Layer| planted(Bug::PageSkipsSealed) && is_page && layer.sealed;
        let memtables = layers.iter().filter(|layer| !skips(layer)).map(|layer| &layer.memtable);
        let mut sources: Vec<Source<'c>> = memtables
            .chain(&self.overlays)
            .map(|memtable| Source::Memtable(MemtableCursor::new(memtable.clone(), span)))
            .collect();
        match span.scope {
            Scope::Key(token, key) => {
                let views = self.table.views();
                let holds = |view: &&View| {
                    view.may_contain(token)
                        && view.sstable.may_hold(span.slices)
                        && !view.begins_behind(token, key, span.slices)
                };
                let reading = self.reading(Reading::Point);
                sources.extend(views.iter().filter(holds).map(|view| {
                    let cursor = view.sstable.cursor(span, reading);
                    // Of a file that has nothing before the place all is read, and not before it is needed.
                    let cuts = |begin: &&Arc<ViewBegin>| {
                        *begin.key != *key || !view.sstable.is_plain_from(&begin.position)
                    };
                    match view.begin_at(token).filter(cuts) {
                        Some(begin) if *begin.key == *key => {
                            Source::Deferred(Deferred::from_begin(cursor, begin.clone()))
                        }
                        Some(begin) => {
                            Source::FromBegin(FromBegin::new(cursor, token, begin.clone()))
                        }
                        None if view.sstable.is_plain() => Source::Deferred(Deferred::new(cursor)),
                        None => Source::Sstable(cursor),
                    }
                }));
            }
            Scope::Range(_) => {
                let (lanes, reading) = (self.table.lanes(), self.reading(Reading::Scan));
                for lane in lanes.iter() {
                    let cursors = RunCursor::of_lane(&lane.parts, span, reading);
                    sources.extend(cursors.map(Source::Run));
                }
            }
        }
        Merge::new(sources, span.reversed)
    }

    /// How blocks are read: as wanted, or not at all.
    fn reading(&self, wanted: Reading) -> Reading {
        match self.wait_policy {
            WaitPolicy::None => Reading::Cached,
            WaitPolicy::Endless => wanted,
        }
    }

    /// The clustering key of the only row that the slices can hold.
    fn row_wanted(&self, scratch: &mut Scratch) -> Option<&[u8]> {
        let [slice] = self.command.slices.as_slice() else { return None };
        let columns = self.definition.clustering();
        if columns.is_empty() {
            return slice.contains(&[]).then_some(&[]);
        }
        if slice.end.split_last() != Some((&AFTER, slice.start.as_slice())) {
            return None;
        }
        // It may be the prefix of several.
        let mut reader = Reader::new(&slice.start);
        for column in columns {
            scratch.spare.clear();
            reader.component(&column.ty, column.descending, &mut scratch.spare).ok()?;
        }
        reader.rest().is_empty().then_some(&slice.start)
    }
}

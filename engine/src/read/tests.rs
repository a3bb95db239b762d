//! Pages, slices, limits and directions of one read add up to the plain list of live rows.
//!
//! 1. A world is drawn, with range deletions, and put into one memtable: there is no file and nothing waits.
//! 2. `expected` gives the rows of a command without regard to pages: keys or a range, slices, direction, filters,
//!    DISTINCT, static rows alone, limits.
//! 3. The command read at once, and page after page, must give that list; no page is longer than asked, and only a full
//!    page is followed by another.
//!
//! The tests after that are about what ends a page (bytes, rows looked at), what counts as a tombstone, and pauses of
//! long reads.
//!
//! Not here: reads of files (`sstable/tests`, `engine/tests/range_reads.rs`), lookups by indexes
//! (`engine/tests/indexes.rs`).

use std::cell::{Cell as Count, RefCell};
use std::collections::BTreeMap;

use model::mutation::{MutationBuilder, MutationRef, RangeTombstone};
use model::read::{Filter, FilterTarget, Flow, Limits, Operator, PartitionRef};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::TableBuilder;
use model::{ColumnId, CqlType, Deletion, TableId};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::limits::{READ_QUANTUM_BYTES, READ_QUANTUM_ROWS};
use crate::memtable::Memtable;

fn definition() -> schema::Table {
    TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
        .partition_key("k", CqlType::Tinyint)
        .and_then(|b| b.clustering("c", CqlType::Tinyint, false))
        .and_then(|b| b.stat("s", CqlType::Tinyint))
        .and_then(|b| b.regular("v", CqlType::Tinyint))
        .and_then(TableBuilder::build)
        .expect("a sound table")
}

fn clustering(value: u8) -> Vec<u8> {
    let mut out = Vec::new();
    model::ordered::encode_component(&CqlType::Tinyint, false, &[value], &mut out).expect("a byte");
    out
}

/// Rows by partition and clustering; the value of each. `None` as clustering is the static row.
type World = BTreeMap<u8, (Option<u8>, BTreeMap<u8, u8>)>;

fn record(world: &World, deleted: &[(u8, u8, u8)]) -> Vec<u8> {
    let mut record = Vec::new();
    let definition = definition();
    for (key, (stat, rows)) in world {
        let mut m =
            MutationBuilder::begin(&mut record, definition.id, Token(i64::from(*key)), &[*key]);
        if let Some(value) = stat {
            m.static_row(|out| {
                let cell = Cell::live(ColumnId(2), 5, std::slice::from_ref(value));
                RowBuilder::begin(out, &RowHead::bare(5)).cell(&cell);
            });
        }
        for (_, from, to) in deleted.iter().filter(|d| d.0 == *key) {
            let deletion = Deletion { timestamp: 9, local_s: 1 };
            let (start, end) = (&clustering(*from), &clustering(*to));
            m.delete_range(&RangeTombstone { start, end, deletion });
        }
        for (at, value) in rows {
            m.row(&clustering(*at), |out| {
                let cell = Cell::live(ColumnId(3), 5, std::slice::from_ref(value));
                RowBuilder::begin(out, &RowHead::bare(5)).cell(&cell);
            });
        }
        m.finish();
    }
    record
}

/// (partition, static value, clustering, value), each as given.
type Given = (u8, Option<u8>, Option<Vec<u8>>, Option<u8>);

#[derive(Default)]
struct Taken(Vec<Given>);

impl RowSink for Taken {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        let value = |row: RowRef<'_>| row.cells().next().map(|cell| cell.value[0]);
        let stat = partition.static_row.and_then(value);
        let row = row.and_then(value);
        self.0.push((partition.key[0], stat, clustering.map(<[u8]>::to_vec), row));
        Flow::More
    }

    fn row_work(&self) -> usize {
        let last = self.0.last().and_then(|given| given.3);
        if last == Some(LABORIOUS) { READ_QUANTUM_BYTES } else { 0 }
    }
}

/// The value of rows that take the sink a quantum of work.
const LABORIOUS: u8 = 200;

/// What a command should give, without regard to pages.
fn expected(world: &World, deleted: &[(u8, u8, u8)], command: &ReadCommand) -> Vec<Given> {
    let keys: Vec<u8> = match &command.partitions {
        Partitions::Keys(keys) => keys.iter().map(|(_, key)| key[0]).collect(),
        Partitions::Range(range) => {
            let inside = |key: &u8| range.contains(Token(i64::from(*key)));
            world.keys().copied().filter(inside).collect()
        }
    };
    let mut all = Vec::new();
    for key in keys {
        let Some((stat, rows)) = world.get(&key) else { continue };
        let gone = |at: u8| deleted.iter().any(|d| d.0 == key && d.1 <= at && at < d.2);
        let live = rows.iter().filter(|(at, _)| !gone(**at));
        let mut live: Vec<(Vec<u8>, u8)> = live.map(|(at, v)| (clustering(*at), *v)).collect();
        live.retain(|(at, _)| command.slices.iter().any(|slice| slice.contains(at)));
        if command.reversed {
            live.reverse();
        }
        let passes = |value: u8| {
            command
                .filters
                .iter()
                .all(|f| i8::from_be_bytes([value]) >= i8::from_be_bytes([f.values[0][0]]))
        };
        let any_live = !live.is_empty();
        let most = if command.distinct { 1 } else { command.limits.rows_per_partition };
        let rows = live.into_iter().filter(|(_, value)| passes(*value)).take(most as usize);
        let before = all.len();
        all.extend(rows.map(|(at, value)| (key, *stat, Some(at), Some(value))));
        let alone = (command.static_alone || command.distinct) && stat.is_some();
        if alone && all.len() == before && !any_live && command.filters.is_empty() {
            all.push((key, *stat, None, None));
        }
    }
    all.truncate(usize::try_from(command.limits.rows).unwrap_or(usize::MAX));
    all
}

fn any_world() -> impl Strategy<Value = World> {
    let rows = prop::collection::btree_map(0..12u8, any::<u8>(), 0..9);
    prop::collection::btree_map(0..6u8, (prop::option::of(any::<u8>()), rows), 0..6)
}

fn any_command() -> impl Strategy<Value = ReadCommand> {
    let keys = prop::collection::vec(0..6u8, 0..5).prop_map(|mut keys| {
        let mut seen = Vec::new();
        keys.retain(|key| {
            !std::mem::replace(&mut seen.contains(key), false) && {
                seen.push(*key);
                true
            }
        });
        Partitions::Keys(keys.into_iter().map(|k| (Token(i64::from(k)), Box::from([k]))).collect())
    });
    let range = (0..6i64, 0..6i64).prop_map(|(a, b)| {
        Partitions::Range(TokenRange { first: Token(a.min(b)), last: Token(a.max(b)) })
    });
    let slices = prop_oneof![
        Just(vec![Slice::all()]),
        (0..12u8).prop_map(|at| vec![Slice::row(clustering(at))]),
        prop::collection::btree_set(0..13u8, 2..6).prop_map(|borders| {
            let borders: Vec<u8> = borders.into_iter().collect();
            let slice =
                |pair: &[u8]| Slice { start: clustering(pair[0]), end: clustering(pair[1]) };
            borders.chunks_exact(2).map(slice).collect()
        }),
    ];
    let limits = (prop_oneof![Just(u64::MAX), 0..9u64], prop_oneof![Just(u64::MAX), 1..4u64]);
    let filter = prop::option::weighted(0.3, any::<u8>()).prop_map(|value| {
        let filter = |value| {
            Filter::new(
                FilterTarget::Value(ColumnId(3)),
                Operator::GreaterOrEqual,
                vec![Box::from([value])],
                model::schema::Analysis::NONE,
            )
        };
        value.map(filter).into_iter().collect()
    });
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    (prop_oneof![keys, range], slices, limits, filter, flags).prop_map(
        |(partitions, slices, limits, filters, (reversed, static_alone, distinct))| ReadCommand {
            table: definition().id,
            partitions,
            slices,
            reversed,
            static_alone,
            distinct,
            filters,
            lookups: Vec::new(),
            nearest: None,
            limits: Limits {
                rows: limits.0,
                rows_per_partition: limits.1,
                ..Limits::none(u64::MAX)
            },
            resume: None,
            now_s: 100,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn pages_add_up_to_the_whole(
        world in any_world(),
        deleted in prop::collection::vec((0..6u8, 0..12u8, 0..13u8), 0..3),
        command in any_command(),
        page_rows in 1..5u64,
    ) {
        let (definition, record) = (definition(), record(&world, &deleted));
        let wanted = expected(&world, &deleted, &command);
        let mut whole = Taken::default();
        let end = read_record(&definition, &record, &command, &mut whole).expect("it reads");
        prop_assert_eq!(&whole.0, &wanted);
        prop_assert_eq!((end.rows, end.more), (wanted.len() as u64, None));

        let mut pages = Taken::default();
        let mut page = command.clone();
        page.limits.page_rows = page_rows;
        loop {
            let before = pages.0.len();
            let end = read_record(&definition, &record, &page, &mut pages).expect("it reads");
            let given = (pages.0.len() - before) as u64;
            prop_assert_eq!(end.rows, given);
            prop_assert!(given <= page_rows);
            page.limits.rows = page.limits.rows.saturating_sub(given);
            let Some(resume) = end.more else { break };
            prop_assert_eq!(given, page_rows, "only a full page is followed by another");
            page.resume = Some(resume);
        }
        prop_assert_eq!(&pages.0, &wanted);
    }
}

#[test]
fn the_row_that_passes_the_bytes_of_a_page_is_its_last() {
    let world: World = [(1, (None, (0..9).map(|at| (at, 1)).collect()))].into();
    let record = record(&world, &[]);
    let mut command = any_whole();
    command.limits.page_bytes = 40;
    let mut taken = Taken::default();
    let end = read_record(&definition(), &record, &command, &mut taken).unwrap();
    // Each row counts its bytes, its clustering key and its partition key.
    assert!((1..9).contains(&taken.0.len()));
    assert!(end.more.is_some());
}

/// A full page looks at so many partitions and rows for another row. The one at which it stops is not given either.
#[test]
fn a_full_page_that_has_looked_far_enough_takes_no_row_more() {
    let passes = 2;
    for failing in 250..=u8::MAX {
        // In the order of the clustering key, which is signed: the last row alone passes.
        let rows = (0..failing).map(|at| (at ^ 0x80, 1)).chain([(failing ^ 0x80, passes)]);
        let world: World = [(1, (None, [(0, passes)].into())), (2, (None, rows.collect()))].into();
        let record = record(&world, &[]);
        let mut command = any_whole();
        command.limits.page_rows = 1;
        command.filters = vec![Filter::new(
            FilterTarget::Value(ColumnId(3)),
            Operator::GreaterOrEqual,
            vec![Box::from([passes])],
            model::schema::Analysis::NONE,
        )];
        let mut given = Taken::default();
        for page in 1..=2 {
            let end = read_record(&definition(), &record, &command, &mut given).unwrap();
            assert_eq!((end.rows, given.0.len()), (1, page), "{failing} rows were looked at");
            command.resume = end.more;
        }
        assert_eq!(command.resume, None);
    }
}

/// A read that passes more tombstones than it may fails; one whose page is full by then only looks ahead, and ends.
#[test]
fn a_read_counts_the_tombstones_it_passes_and_ends_at_its_limit() {
    let world: World = [(1, (None, (1..9).map(|at| (at, 1)).collect()))].into();
    let record = record(&world, &[(1, 0, 3), (1, 5, 7)]);
    let mut command = any_whole();
    for (page_rows, tombstones, wanted) in
        [(u64::MAX, 4, Ok((4, 4))), (u64::MAX, 3, Err(4)), (2, 3, Ok((2, 4))), (2, 1, Err(2))]
    {
        command.limits = Limits { page_rows, tombstones, ..Limits::none(u64::MAX) };
        let end = read_record(&definition(), &record, &command, &mut Taken::default());
        let wanted = wanted.map_err(|passed| Error::TooManyTombstones { passed });
        assert_eq!(end.map(|end| (end.rows, end.tombstones)), wanted, "{page_rows} {tombstones}");
    }
}

/// What is past its grace is there only until a compaction comes to it: Cassandra does not count it either.
#[test]
fn tombstones_past_their_grace_are_not_counted() {
    let world: World = [(1, (None, (1..9).map(|at| (at, 1)).collect()))].into();
    let record = record(&world, &[(1, 0, 3), (1, 5, 7)]);
    let mut command = any_whole();
    let grace_s = definition().options.gc_grace_seconds as u32;
    for (now_s, counted) in [(grace_s, 4), (grace_s + 1, 4), (grace_s + 2, 0)] {
        command.now_s = now_s;
        let end = read_record(&definition(), &record, &command, &mut Taken::default());
        assert_eq!(end.map(|end| (end.rows, end.tombstones)), Ok((4, counted)), "{now_s}");
    }
}

/// Appends the deletion of a partition.
fn delete_partition(record: &mut Vec<u8>, key: u8, timestamp: i64) {
    let token = Token(i64::from(key));
    let key = [key];
    let mut m = MutationBuilder::begin(record, definition().id, token, &key);
    m.delete_partition(Deletion { timestamp, local_s: 1 });
    m.finish();
}

/// Before: a memtable that was read without a merge showed what the partition's tombstone covers, and all counted.
/// (Cassandra: `RowAndDeletionMergeIterator` leaves out range tombstones that the partition's supersedes.)
#[test]
fn range_tombstones_under_that_of_their_partition_are_not_counted() {
    let world: World = [(1, (None, (1..9).map(|at| (at, 1)).collect()))].into();
    for (whole, others, wanted) in [
        (Some(9), None, (0, 0)),
        // Something of the memtable is newer: what is covered is passed, and not counted.
        (Some(9), Some(12), (0, 0)),
        (Some(8), None, (0, 4)),
        (None, None, (4, 4)),
    ] {
        let mut record = record(&world, &[(1, 0, 3), (1, 5, 7)]);
        whole.into_iter().for_each(|timestamp| delete_partition(&mut record, 1, timestamp));
        others.into_iter().for_each(|timestamp| delete_partition(&mut record, 2, timestamp));
        for overlays in [Vec::new(), vec![SharedMemtable::default()]] {
            let (_, end) = read_over(&record, &any_whole(), overlays, &no_pause);
            assert_eq!((end.rows, end.tombstones), wanted, "{whole:?} {others:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn a_memtable_alone_gives_what_a_merge_of_it_gives(
        world in any_world(),
        deleted in prop::collection::vec((0..6u8, 0..12u8, 0..13u8), 0..3),
        whole in prop::option::of((0..6u8, 4..11i64)),
        command in any_command(),
        page_rows in 1..5u64,
    ) {
        let (mut record, mut command) = (record(&world, &deleted), command);
        whole.into_iter().for_each(|(key, at)| delete_partition(&mut record, key, at));
        command.limits.page_rows = page_rows;
        let (rows, end) = read_over(&record, &command, Vec::new(), &no_pause);
        let overlays = vec![SharedMemtable::default()];
        let (merged, merged_end) = read_over(&record, &command, overlays, &no_pause);
        prop_assert_eq!(rows.0, merged.0);
        prop_assert_eq!(end, merged_end);
    }
}

fn memtable(record: &[u8]) -> Memtable {
    let mut memtable = Memtable::default();
    for mutation in MutationRef::of_trusted_record(record) {
        memtable.insert(&mutation.unwrap());
    }
    memtable
}

/// Reads the record from a memtable, over which others may lie.
fn read_over(
    record: &[u8],
    command: &ReadCommand,
    overlays: Vec<SharedMemtable>,
    pause: &dyn Pause,
) -> (Taken, ReadEnd) {
    let definition = definition();
    let table = Table::of_memtable(memtable(record), &definition);
    let (drops, wait_policy) = (table.drops(), WaitPolicy::Endless);
    let mut taken = Taken::default();
    let mut page = Page::new(command, &definition, &drops, &mut taken, (wait_policy, pause));
    let lookup_policy = LookupPolicy::Never;
    let (table, definition, drops) = (&table, &definition, &drops);
    let turns = None;
    let read =
        Read { table, definition, drops, command, wait_policy, overlays, lookup_policy, turns };
    without_waiting(read.run(&mut page, &mut Scratch::default())).unwrap();
    let end = page.end();
    (taken, end)
}

/// How often a read of the record asks whether to pause.
fn pauses_of(record: &[u8], command: &ReadCommand) -> u32 {
    let asked = Count::new(0);
    let pause = async || asked.set(asked.get() + 1);
    read_over(record, command, Vec::new(), &pause);
    asked.get()
}

/// A read asks after every few rows, whether it gives them or not, and wherever they lie.
#[test]
fn a_long_read_asks_whether_to_pause() {
    let wide: World = [(1, (None, (0..=u8::MAX).map(|at| (at, 1)).collect()))].into();
    let narrow: World = (0..=u8::MAX).map(|key| (key, (None, [(0, 1)].into()))).collect();
    let whole = any_whole();
    let mut refusing = any_whole();
    refusing.filters = vec![Filter::new(
        FilterTarget::Value(ColumnId(3)),
        Operator::GreaterOrEqual,
        vec![Box::from([2])],
        model::schema::Analysis::NONE,
    )];
    let at_least = 256 / READ_QUANTUM_ROWS;
    for (world, command) in
        [(&wide, &whole), (&wide, &refusing), (&narrow, &whole), (&narrow, &refusing)]
    {
        let asked = pauses_of(&record(world, &[]), command);
        assert!(asked >= at_least, "{asked} times in 256 rows, {command:?}");
    }
}

/// Before: a read asked after as many bytes as rows have, whatever their taker did with them: expressions of 32 rows
/// took seconds in one step.
#[test]
fn a_read_asks_whether_to_pause_after_rows_that_take_much_work() {
    let rows = |value: u8| (0..20).map(|at| (at, value)).collect();
    for (value, at_least) in [(1, 0), (LABORIOUS, 20)] {
        let world: World = [(1, (None, rows(value)))].into();
        let asked = pauses_of(&record(&world, &[]), &any_whole());
        assert_eq!(asked, at_least, "{value}");
    }
}

/// Before: a row counted as one, of however many layers it was put together.
#[test]
fn a_read_asks_whether_to_pause_after_the_layers_of_rows() {
    const LAYERS: u32 = 30;
    let wide: World = [(1, (None, (0..=u8::MAX).map(|at| (at, 1)).collect()))].into();
    let narrow: World = (0..=u8::MAX).map(|key| (key, (None, [(0, 1)].into()))).collect();
    for world in [wide, narrow] {
        let record = record(&world, &[]);
        let overlays = (1..LAYERS).map(|_| Rc::new(RefCell::new(memtable(&record)))).collect();
        let asked = Count::new(0);
        let pause = async || asked.set(asked.get() + 1);
        let (taken, _) = read_over(&record, &any_whole(), overlays, &pause);
        assert_eq!(taken.0.len(), 256);
        let at_least = 256 * LAYERS / READ_QUANTUM_ROWS / 2;
        assert!(asked.get() >= at_least, "{} times, not {at_least}", asked.get());
    }
}

/// Before: of a row that was read by its key only the key counted, however much was copied.
#[test]
fn a_read_of_many_keys_asks_whether_to_pause_after_the_bytes_of_their_rows() {
    const KEYS: u8 = 20;
    let value = vec![7; READ_QUANTUM_BYTES];
    let (mut record, mut keys) = (Vec::new(), Vec::new());
    for key in 0..KEYS {
        let token = Token(i64::from(key));
        let mut m = MutationBuilder::begin(&mut record, definition().id, token, &[key]);
        m.row(&clustering(0), |out| {
            let cell = Cell::live(ColumnId(3), 5, &value);
            RowBuilder::begin(out, &RowHead::bare(5)).cell(&cell);
        });
        m.finish();
        keys.push((token, Box::from([key])));
    }
    let (partitions, slices) = (Partitions::Keys(keys), vec![Slice::row(clustering(0))]);
    let command = ReadCommand { partitions, slices, ..any_whole() };
    for overlays in [0, 1] {
        let overlays = (0..overlays).map(|_| SharedMemtable::default()).collect();
        let asked = Count::new(0);
        let pause = async || asked.set(asked.get() + 1);
        let (taken, _) = read_over(&record, &command, overlays, &pause);
        assert_eq!(taken.0.len(), usize::from(KEYS));
        assert_eq!(asked.get(), u32::from(KEYS) - 1, "between each two of them");
    }
}

fn any_whole() -> ReadCommand {
    ReadCommand {
        table: definition().id,
        partitions: Partitions::Range(TokenRange::ALL),
        slices: vec![Slice::all()],
        reversed: false,
        static_alone: false,
        distinct: false,
        filters: Vec::new(),
        lookups: Vec::new(),
        nearest: None,
        limits: Limits::none(u64::MAX),
        resume: None,
        now_s: 100,
    }
}

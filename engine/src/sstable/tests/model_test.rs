//! Against a sorted map: any world, any block size, any span, every way of reading.
//!
//! 1. A drawn world is written with drawn block size and codec, and opened with its filter in memory or with the pieces
//!    of the filter read one by one.
//! 2. Each question is a key or a range of tokens, with slices and a direction. Every `Reading` but samples must give
//!    what the map gives; after a read as a point the cache must have all.
//! 3. Every key that was written is asked for, too: a filter never denies it.
//!
//! The tests after that count reads of the device: of a small partition, of a row of a wide one, of a walk, of pieces
//! of a filter.
//!
//! Not here: seeks (`seek.rs`), damage (`damage.rs`), samples (`sstable/tests.rs`).

use proptest::prelude::*;

use super::*;
use crate::error::Error;

pub(super) fn place() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(64..70u8, 0..4)
}

fn deletion() -> impl Strategy<Value = Deletion> {
    (1..4i64).prop_map(|timestamp| Deletion { timestamp, local_s: 9 })
}

fn ranges() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>, Deletion)>> {
    let borders = prop::collection::btree_set(place(), 0..8);
    (borders, prop::collection::vec(prop::option::of(deletion()), 8)).prop_map(|(borders, of)| {
        let borders: Vec<_> = borders.into_iter().collect();
        let pairs = borders.windows(2).zip(of);
        pairs.filter_map(|(w, d)| d.map(|d| (w[0].clone(), w[1].clone(), d))).collect()
    })
}

pub(super) fn part() -> impl Strategy<Value = Part> {
    let value = prop::collection::vec(any::<u8>(), 0..40);
    let rows = (1..9i64, value.clone()).prop_map(|(t, value)| row(t, &value));
    let few = prop::collection::btree_map(place(), rows.clone(), 0..6);
    let many = prop::collection::btree_map(place(), rows, 0..80);
    let rows = prop_oneof![3 => few, 1 => many];
    let stat = prop::option::weighted(0.3, (1..9i64, value).prop_map(|(t, value)| row(t, &value)));
    let deletion = prop::option::weighted(0.2, deletion());
    let ranges = prop_oneof![Just(Vec::new()), ranges()];
    (deletion, stat, rows, ranges).prop_map(|(deletion, static_row, rows, ranges)| Part {
        deletion,
        static_row,
        rows,
        ranges,
    })
}

fn world() -> impl Strategy<Value = World> {
    let key = (-3..4i64, prop::collection::vec(0..3u8, 1..3));
    let key = key.prop_map(|(token, key)| (Token(token * 1000), key));
    prop::collection::btree_map(key, part(), 1..12).prop_map(|mut world| {
        // What says nothing is not written.
        world.retain(|_, p| {
            p.deletion.is_some()
                || p.static_row.is_some()
                || !p.rows.is_empty()
                || !p.ranges.is_empty()
        });
        world
    })
}

fn slices() -> impl Strategy<Value = Vec<Slice>> {
    let some = prop::collection::btree_set(place(), 0..7).prop_map(|borders| {
        let borders: Vec<_> = borders.into_iter().collect();
        let pairs = borders.as_chunks::<2>().0.iter();
        pairs.map(|[start, end]| Slice { start: start.clone(), end: end.clone() }).collect()
    });
    let one = place().prop_map(|at| vec![Slice::row(at)]);
    prop_oneof![Just(vec![Slice::all()]), some, one]
}

pub(super) fn codec() -> impl Strategy<Value = Codec> {
    prop_oneof![Just(Codec::None), Just(Codec::Lz4), Just(Codec::Zstd(1))]
}

type Question = (Option<(Token, Vec<u8>)>, i64, i64, Vec<Slice>, bool);

fn question() -> impl Strategy<Value = Question> {
    let key = (-4..5i64, prop::collection::vec(0..3u8, 1..3));
    let key = prop::option::of(key.prop_map(|(token, key)| (Token(token * 1000), key)));
    (key, -3500..3500i64, 0..7000i64, slices(), any::<bool>())
}

async fn ask(table: &Rc<Sstable>, world: &World, (key, from, many, slices, reversed): &Question) {
    let scope = match key {
        Some((token, key)) => Scope::Key(*token, key),
        None => Scope::Range(TokenRange { first: Token(*from), last: Token(from + many) }),
    };
    let span = Span { scope, slices, reversed: *reversed };
    let expected = expected(world, &span);
    if let Some((token, _)) = key {
        assert!(expected.is_empty() || table.may_contain(*token));
    }
    for reading in [
        Reading::Scan,
        Reading::Compaction,
        Reading::CompactionInLongPieces,
        Reading::Point,
        Reading::Cached,
    ] {
        if let Some((token, _)) = key
            && reading == Reading::Cached
            && !table.may_contain(*token)
        {
            assert!(expected.is_empty(), "what was written is not denied");
            continue;
        }
        let got = listed(&mut table.cursor(span, reading)).await;
        // What was just read as a point is in the cache; the test's cache has space.
        assert!(got.as_ref() == Ok(&expected), "{reading:?} {span:?}\n{got:?}\n{expected:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_cursor_gives_what_was_written(
        world in world(), questions in prop::collection::vec(question(), 1..12),
        block_bytes in prop_oneof![30..200usize, Just(4096)], codec in codec(), paged: bool
    ) {
        prop_assume!(!world.is_empty());
        run(async move {
            let (_, disk) = sim();
            let known = written(&disk, &world, config(block_bytes, codec)).await.unwrap();
            // With its filter in memory, and with the pieces read one by one.
            let cache = if paged { cache_without_space_for_indexes() } else { BlockCache::new(1 << 20) };
            let table = open_with(&disk, known, &cache).await.unwrap();
            for question in &questions {
                ask(&table, &world, question).await;
            }
            for (token, key) in world.keys() {
                let all = vec![Slice::all()];
                ask(&table, &world, &(Some((*token, key.clone())), 0, 0, all, false)).await;
            }
            let rows: usize = world.values().map(|part| part.rows.len()).sum();
            assert_eq!(table.statistics().partitions, world.len() as u64);
            assert_eq!(table.statistics().rows, rows as u64);
        });
    }
}

/// One partition of so many rows, each about 100 bytes, and a few small ones around it.
fn wide_world(rows: u32) -> World {
    let mut world = World::new();
    for token in -50..50i64 {
        let rows = if token == 0 { rows } else { 1 };
        let rows = (0..rows).map(|i| {
            let filler: Vec<u8> = (0..10)
                .flat_map(|j| (i ^ j << 20).wrapping_mul(0x9E37_79B9).to_le_bytes())
                .collect();
            (i.to_be_bytes().to_vec(), row(1, &filler))
        });
        let part = Part { rows: rows.collect(), ..Part::default() };
        world.insert((Token(token), vec![1]), part);
    }
    world
}

/// Reads that a walk through the file costs, with nothing cached before.
fn reads(rows: u32, question: impl Fn(&Rc<Sstable>) -> (Token, Slice, bool) + 'static) -> u64 {
    run(async move {
        let (sim, disk) = sim();
        let known = written(&disk, &wide_world(rows), config(4096, Codec::Lz4)).await.unwrap();
        let table = open(&disk, known).await.unwrap();
        let (token, slice, reversed) = question(&table);
        let slices = [slice];
        let span = Span { scope: Scope::Key(token, &[1]), slices: &slices, reversed };
        let before = sim.ops();
        let mut cursor = table.cursor(span, Reading::Point);
        assert!(cursor.next_partition().await.unwrap());
        assert!(cursor.next().await.unwrap());
        sim.ops() - before
    })
}

/// Of a filter that is not in memory one piece is read, and kept for the tokens around.
#[test]
fn without_its_filter_in_memory_a_small_partition_costs_two_reads() {
    run(async {
        let (sim, disk) = sim();
        let world = wide_world(1);
        let known = written(&disk, &world, config(400, Codec::Lz4)).await.unwrap();
        let table = open_with(&disk, known, &cache_without_space_for_indexes()).await.unwrap();
        let resident = open(&disk, known).await.unwrap();
        assert!(table.memory_bytes() + 2000 < resident.memory_bytes());
        let reads = async |token: i64, key: &[u8]| {
            let scope = Scope::Key(Token(token), key);
            let span = Span { scope, slices: &[Slice::all()], reversed: false };
            let before = sim.ops();
            let found = listed(&mut table.cursor(span, Reading::Point)).await.unwrap().len();
            (found, sim.ops() - before)
        };
        assert!(table.may_contain(Token(7)), "the piece was not read yet");
        assert_eq!(reads(7, &[1]).await, (1, 2));
        assert_eq!(reads(7, &[1]).await, (1, 0));
        assert_eq!(reads(7, &[2]).await, (0, 0), "another key");
        assert_eq!(reads(-51, &[1]).await, (0, 0), "below all of them");
        // Tokens of other files: a piece, and then nothing.
        let between = |token: i64| Token(token << 50);
        let sparse: World =
            world.into_iter().map(|((t, k), part)| ((between(t.0), k), part)).collect();
        let (sim, disk) = super::sim();
        let known = written(&disk, &sparse, config(400, Codec::Lz4)).await.unwrap();
        let table = open_with(&disk, known, &cache_without_space_for_indexes()).await.unwrap();
        let (mut denied, before) = (0, sim.ops());
        for token in (-50..49i64).map(|token| Token((token << 50) + 5)) {
            let scope = Scope::Key(token, &[1]);
            let span = Span { scope, slices: &[Slice::all()], reversed: false };
            let found = listed(&mut table.cursor(span, Reading::Point)).await.unwrap();
            assert!(found.is_empty());
            denied += u64::from(!table.may_contain(token));
        }
        // 34 pieces of three tokens; some others are not denied and read a block.
        assert!(denied > 90 && sim.ops() - before < 50, "{denied} in {}", sim.ops() - before);
    });
}

/// A view of a part of a file keeps that part of its filter.
#[test]
fn of_a_filter_only_the_pieces_of_the_view_are_loaded() {
    run(async {
        let (_, disk) = sim();
        let known = written(&disk, &wide_world(1), config(400, Codec::Lz4)).await.unwrap();
        let cache = BlockCache::new(1 << 20);
        let all = open_with(&disk, known, &cache).await.unwrap().memory_bytes();
        assert_eq!(cache.index_bytes(), 0, "it was closed");
        let tokens = TokenRange { first: Token(-4), last: Token(3) };
        let part = Sstable::open(&disk, &RelPath::root(), known, &cache, tokens).await.unwrap();
        assert!(part.memory_bytes() + 1500 < all);
        assert!((-4..=3).all(|token| part.may_contain(Token(token))));
        assert_eq!(cache.index_bytes(), part.memory_bytes() as u64);
    });
}

#[test]
fn a_small_partition_costs_one_read() {
    for token in [-50, -7, 1, 49] {
        assert_eq!(reads(1, move |_| (Token(token), Slice::all(), false)), 1);
        assert_eq!(reads(60_000, move |_| (Token(token), Slice::all(), true)), 1);
    }
}

#[test]
fn a_row_of_a_wide_partition_costs_its_block_and_a_path_through_the_index() {
    let row =
        |i: u32| move |_: &Rc<Sstable>| (Token(0), Slice::row(i.to_be_bytes().to_vec()), false);
    assert_eq!(reads(60_000, row(43_210)), 3);
    assert_eq!(reads(200, row(123)), 3);
    let newest = |_: &Rc<Sstable>| (Token(0), Slice::all(), true);
    assert_eq!(reads(60_000, newest), 1);
    let oldest = |_: &Rc<Sstable>| (Token(0), Slice::all(), false);
    assert_eq!(reads(60_000, oldest), 1);
}

#[test]
fn a_walk_reads_in_growing_pieces_in_both_directions() {
    run(async {
        let (sim, disk) = sim();
        let known = written(&disk, &wide_world(60_000), config(4096, Codec::Lz4)).await.unwrap();
        let bytes = known.proof.file_bytes;
        assert!(bytes > 1_500_000, "{bytes}");
        for (reading, reversed, others, piece_bytes) in [
            (Reading::Point, false, 12, 128 << 10),
            (Reading::Point, true, 12, 128 << 10),
            (Reading::Scan, false, 12, 128 << 10),
            (Reading::of_merge(5), false, 2, 128 << 10),
            (Reading::of_merge(4), false, 2, 256 << 10),
        ] {
            let table = open(&disk, known).await.unwrap();
            let slices = [Slice::all()];
            let span = Span { scope: Scope::Range(TokenRange::ALL), slices: &slices, reversed };
            let before = sim.ops();
            let got = listed(&mut table.cursor(span, reading)).await.unwrap();
            assert_eq!(got, expected(&wide_world(60_000), &span));
            let reads = sim.ops() - before;
            assert!(reads <= others + bytes / piece_bytes, "{reading:?} {reversed}: {reads} reads");
        }
    });
}

#[test]
fn what_is_not_cached_would_block_and_then_does_not() {
    run(async {
        let (_, disk) = sim();
        let world = wide_world(5000);
        let known = written(&disk, &world, config(4096, Codec::Lz4)).await.unwrap();
        let table = open(&disk, known).await.unwrap();
        let slices = [Slice::row(4321u32.to_be_bytes().to_vec())];
        let span = Span { scope: Scope::Key(Token(0), &[1]), slices: &slices, reversed: false };
        let cached = listed(&mut table.cursor(span, Reading::Cached)).await;
        assert_eq!(cached, Err(Error::WouldBlock));
        let read = listed(&mut table.cursor(span, Reading::Point)).await.unwrap();
        assert_eq!(read[0].4.len(), 1);
        let cached = listed(&mut table.cursor(span, Reading::Cached)).await;
        assert_eq!(cached, Ok(read));
    });
}

#[test]
fn an_empty_writer_leaves_no_file() {
    run(async {
        let (_, disk) = sim();
        let mut writer = Writer::new(&disk, &RelPath::root(), ID, config(4096, Codec::None));
        let head = Head { token: Token(1), key: b"k", deletion: Deletion::NONE, static_row: None };
        writer.partition(&head);
        assert_eq!(writer.finish(&async || {}).await, Ok(None));
        assert_eq!(disk.list(&RelPath::root()).await, Ok(Vec::new()));
    });
}

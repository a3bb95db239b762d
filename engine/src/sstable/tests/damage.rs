//! Damaged files: the right rows or an error, never other rows.
//!
//! 1. Bytes: every byte of a file gets one flipped bit, blocks are swapped, the file is cut at every length. All rows
//!    are read by a scan and each by its key, with the filter in memory and without.
//! 2. Operations: one read of many fails, each in turn, and one write or sync of a file being written.
//! 3. Blocks with a right checksum that say what no writer writes are `Error::Corrupt`, not an assertion.
//!
//! `MESSINA_EVERY_BIT=1` flips all bits of each byte instead of one.
//!
//! Not here: which files a shard serves around (`engine/tests/damage.rs`), the check of a whole file (`verify.rs`).

use super::super::block::{BlockBuilder, Head as BlockHead, HeadRest, Row};
use super::super::footer::FOOTER_BYTES;
use super::super::slots::Slots;
use super::super::verify::read_back;
use super::*;
use crate::cursor::Merge;
use crate::io::IoClass;

/// Partitions small and wide, tombstones and static rows, in a few dozen blocks.
fn sample() -> World {
    let deletion = |timestamp| Deletion { timestamp, local_s: 3 };
    let mut world = World::new();
    for token in 0..12i64 {
        let rows = if token == 5 { 60 } else { token % 4 };
        let rows = (0..rows as u8).map(|i| (vec![64, i], row(7, &[i, token as u8, 3, 4, 5])));
        world.insert(
            (Token(token << 56), vec![token as u8; 3]),
            Part {
                deletion: (token % 3 == 0).then(|| deletion(token)),
                static_row: (token % 5 == 0).then(|| row(2, b"static")),
                rows: rows.collect(),
                ranges: vec![(vec![64, 1], vec![64, 3], deletion(4))],
            },
        );
    }
    world
}

async fn everything(disk: &Disk, known: SstableIdentity) -> Result<Listing> {
    let all = everything_of(&open(disk, known).await?).await?;
    let without_filter = open_with(disk, known, &cache_without_space_for_indexes()).await?;
    assert_eq!(everything_of(&without_filter).await?, all);
    Ok(all)
}

async fn everything_of(table: &Rc<Sstable>) -> Result<Listing> {
    let slices = [Slice::all()];
    let span = Span { scope: Scope::Range(TokenRange::ALL), slices: &slices, reversed: false };
    let all = listed(&mut table.cursor(span, Reading::Scan)).await?;
    // Through filter, directory, wide table and row index too.
    for (token, key, ..) in &all {
        let slices = [Slice { start: vec![64, 30], end: vec![64, 31] }];
        let span = Span { scope: Scope::Key(*token, key), slices: &slices, reversed: true };
        let rows = if *token == Token(5 << 56) { 1 } else { 0 };
        let found = listed(&mut table.cursor(span, Reading::Point)).await?;
        assert!(table.may_contain(*token) && found.len() == 1 && found[0].4.len() == rows);
    }
    Ok(all)
}

async fn sample_on(disk: &Disk) -> SstableIdentity {
    written(disk, &sample(), config(200, Codec::Lz4)).await.unwrap()
}

#[test]
fn every_flipped_bit_gives_the_right_rows_or_an_error() {
    run(async {
        let (sim, disk) = sim();
        let known = sample_on(&disk).await;
        let path = RelPath::root().join(&file_name(ID));
        let bytes = sim.bytes(&path).unwrap();
        let right = everything(&disk, known).await.unwrap();
        let table = open(&disk, known).await.unwrap();
        let end = table.footer().statistics.offset + u64::from(table.footer().statistics.bytes);
        let zeros = end as usize..bytes.len() - FOOTER_BYTES;
        let every_bit = std::env::var_os("MESSINA_EVERY_BIT").is_some();
        for bit in (0..bytes.len() * 8).filter(|bit| every_bit || bit / 8 % 8 == bit % 8) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            sim.plant(&path, damaged);
            match everything(&disk, known).await {
                Ok(rows) => {
                    assert!(zeros.contains(&(bit / 8)), "bit {bit} means nothing");
                    assert!(rows == right, "bit {bit}");
                }
                Err(error) => {
                    assert!(matches!(error, crate::Error::Corrupt { .. }), "bit {bit}: {error}");
                    let dir = RelPath::root();
                    assert!(verify(&disk, &dir, known, &async || {}).await.is_err());
                    let class = IoClass::Flush;
                    assert!(read_back(&disk, &dir, known, class, &async || {}).await.is_err());
                }
            }
        }
    });
}

#[test]
fn a_block_in_the_place_of_another_is_seen() {
    run(async {
        let (sim, disk) = sim();
        let known = sample_on(&disk).await;
        let path = RelPath::root().join(&file_name(ID));
        let bytes = sim.bytes(&path).unwrap();
        let table = open(&disk, known).await.unwrap();
        let frames: Vec<_> =
            (0..table.directory.blocks()).map(|i| table.directory.frame(i)).collect();
        let mut swaps = 0;
        for (i, &(a, bytes_a)) in frames.iter().enumerate() {
            for &(b, _) in frames[i + 1..].iter().filter(|(_, bytes_b)| *bytes_b == bytes_a) {
                let mut damaged = bytes.clone();
                let (low, high) = damaged.split_at_mut(b as usize);
                low[a as usize..][..bytes_a].swap_with_slice(&mut high[..bytes_a]);
                sim.plant(&path, damaged);
                assert!(everything(&disk, known).await.is_err());
                swaps += 1;
            }
        }
        assert!(swaps > 0);
    });
}

#[test]
fn a_file_cut_anywhere_or_of_another_time_is_refused() {
    run(async {
        let (sim, disk) = sim();
        let known = sample_on(&disk).await;
        let path = RelPath::root().join(&file_name(ID));
        let bytes = sim.bytes(&path).unwrap();
        for length in 0..bytes.len() {
            sim.plant(&path, bytes[..length].to_vec());
            assert!(open(&disk, known).await.is_err(), "{length} bytes");
        }
        sim.plant(&path, bytes);
        let mut other = known;
        other.proof.footer_checksum ^= 1;
        assert!(open(&disk, other).await.is_err());
        other = SstableIdentity { table: TableId(Uuid::nil()), ..known };
        assert!(open(&disk, other).await.is_err());
    });
}

#[test]
fn whichever_read_fails_the_answer_is_right_or_an_error() {
    let mut failures = 0;
    for nth in 0..200 {
        failures += run(async move {
            let (sim, disk) = sim();
            let known = sample_on(&disk).await;
            let right = everything(&disk, known).await.unwrap();
            sim.set_faults(Faults { fail_op: Some(nth), ..Faults::default() });
            match everything(&disk, known).await {
                Ok(rows) => {
                    assert_eq!(rows, right);
                    0
                }
                Err(_) => 1,
            }
        });
    }
    assert!(failures > 10, "{failures}");
}

#[test]
fn whichever_write_or_sync_fails_nothing_is_called_finished() {
    for nth in 0.. {
        let ended = run(async move {
            let (sim, disk) = sim();
            sim.set_faults(Faults { fail_op: Some(nth), ..Faults::default() });
            let done = written(&disk, &sample(), config(200, Codec::Lz4)).await;
            let hit = sim.ops() > nth;
            assert!(hit == done.is_err(), "operation {nth}");
            !hit
        });
        if ended {
            assert!(nth > 4, "{nth} operations");
            return;
        }
    }
}

/// The file, as if this block were another one with a right checksum.
fn with_block(table: &Sstable, number: usize, mut block: BlockBuilder) {
    let mut bytes = Vec::new();
    block.finish(block.count(), &mut bytes);
    let slots = Rc::new(Slots::open(bytes).unwrap());
    table.keep(table.directory.frame(number).0, &slots);
}

fn head<'a>(token: i64, key: &'a [u8], rest: HeadRest<'a>) -> BlockHead<'a> {
    BlockHead { token: Token(token), key, deletion: Deletion::NONE, rest }
}

const BEGINS: HeadRest<'static> = HeadRest::Begins { static_row: None };

/// Before: heads in a wrong order met the assertion of a merge, "partitions ascend", which ended the process.
#[test]
fn partitions_that_do_not_ascend_are_damage() {
    run(async {
        let (_, disk) = sim();
        let part = || Part { rows: [(vec![1], row(1, b"v"))].into(), ..Part::default() };
        let world: World = (1..4).map(|token| ((Token(token), vec![7]), part())).collect();
        let known = written(&disk, &world, config(4 << 10, Codec::Lz4)).await.unwrap();
        for (places, is_right) in [
            ([(1, 7), (2, 7), (3, 7)], true),
            ([(1, 7), (2, 7), (2, 8)], true),
            ([(2, 7), (1, 7), (3, 7)], false),
            ([(1, 7), (2, 8), (2, 7)], false),
            ([(1, 7), (2, 7), (2, 7)], false),
        ] {
            let (table, value) = (open(&disk, known).await.unwrap(), row(1, b"v"));
            let mut block = BlockBuilder::default();
            for (token, key) in places {
                block.head(&head(token, &[key], BEGINS));
                block.row(&Row { clustering: &[1], row: RowRef::trusted(&value) });
            }
            with_block(&table, 0, block);
            let slices = [Slice::all()];
            let span =
                Span { scope: Scope::Range(TokenRange::ALL), slices: &slices, reversed: false };
            let mut merge = Merge::new([table.cursor(span, Reading::Scan)], false);
            match listed(&mut merge).await {
                Ok(_) => assert!(is_right, "{places:?}"),
                Err(error) => {
                    assert!(!is_right && matches!(error, Error::Corrupt { .. }), "{error}");
                }
            }
        }
    });
}

/// Before: it met the assertion of `Slots::item`, which ended the process.
#[test]
fn a_block_that_goes_on_with_nothing_is_damage() {
    run(async {
        let (_, disk) = sim();
        let rows = (0..200u8).map(|i| (vec![i], row(7, &[i; 20]))).collect();
        let world: World = [((Token(1), vec![7]), Part { rows, ..Part::default() })].into();
        let known = written(&disk, &world, config(200, Codec::Lz4)).await.unwrap();
        let blocks = open(&disk, known).await.unwrap().directory.blocks();
        assert!(blocks > 8, "{blocks}");
        let mut seen = 0;
        for number in 1..blocks {
            let table = open(&disk, known).await.unwrap();
            let mut block = BlockBuilder::default();
            let rest = HeadRest::Continues { has_static: false, open: Deletion::NONE };
            block.head(&head(1, &[7], rest));
            with_block(&table, number, block);
            for (from, reversed) in (0..200u8).flat_map(|at| [(at, false), (at, true)]) {
                let slices = [Slice { start: vec![from], end: vec![from, 1] }];
                let span = Span { scope: Scope::Key(Token(1), &[7]), slices: &slices, reversed };
                match listed(&mut table.cursor(span, Reading::Point)).await {
                    Ok(rows) => assert_eq!(rows, expected(&world, &span)),
                    Err(error) => {
                        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen >= blocks, "each such block was met: {seen} of {blocks}");
    });
}

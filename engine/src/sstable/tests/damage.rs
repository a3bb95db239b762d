//! Damaged files: the right rows or an error, never other rows.
//!
//! `MESSINA_EVERY_BIT=1` flips all bits of each byte instead of one.

use super::super::footer::FOOTER_BYTES;
use super::*;
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
                    assert!(
                        verify(&disk, &RelPath::root(), known, IoClass::Check, &async || {})
                            .await
                            .is_err()
                    );
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

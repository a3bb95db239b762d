//! The log on a disk that does not fail: bytes, order, limits. Crashes are in `engine/tests/crash.rs`.
//!
//! 1. Golden: the bytes of a log are those of `FORMAT.md`.
//! 2. Order: records of all lengths come back as they were appended, over the ends of blocks and segments, also after
//!    the log was opened again.
//! 3. Limits and failures: what is refused and when, segments that are made ahead, a failed write that ends the trust,
//!    periodic sync.
//! 4. Fuzz: any bytes in the place of a file, of a block, or of the records of a block are records or an error, never a
//!    panic.
//!
//! Not here: what the engine makes of records (`recovery.rs`), whole nodes (`shard/tests/sim`).

use futures_lite::future::zip;
use proptest::prelude::*;

use super::*;
use crate::error::Error;
use crate::io::{Disk, Faults, RelPath, SimDisk, SimExec};

const DIR: &str = "log";

fn small() -> Config {
    Config {
        segment_bytes: 32 << 10,
        log_bytes_max: 128 << 10,
        pending_bytes_max: 40 << 10,
        ..Config::new(7)
    }
}

fn dir() -> RelPath {
    RelPath::new(DIR).unwrap()
}

async fn fresh(sim: &SimDisk) -> (Disk, Log) {
    let disk = Disk::Sim(sim.clone());
    disk.mkdir(&dir()).await.unwrap();
    let log = Log::create(&disk, &dir(), small()).await.unwrap();
    (disk, log)
}

fn run(f: impl AsyncFnOnce(SimDisk) + 'static) {
    let sim = SimDisk::new(1, Faults::default());
    SimExec::new(1).run(async move { f(sim).await }).done();
}

async fn read_all(disk: &Disk, from: Position) -> (Vec<(u32, u64, Vec<u8>)>, Tail) {
    let mut replay = Replay::open(disk, &dir(), from).await.unwrap();
    let mut records = Vec::new();
    while let Some(record) = replay.next().await.unwrap() {
        records.push((record.range, record.sequence, record.payload.to_vec()));
    }
    (records, replay.finish().await.unwrap())
}

/// A hex dump whose lines of zeros are left out.
fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (i, line) in bytes.chunks(16).enumerate() {
        if line.iter().any(|byte| *byte != 0) {
            let digits: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            out += &format!("{:04x}: {}\n", i * 16, digits.join(" "));
        }
    }
    out
}

#[test]
fn the_bytes_are_as_specified() {
    run(async |sim| {
        let (disk, log) = fresh(&sim).await;
        log.append(7, 1, b"k=v").unwrap();
        log.write_pending().await.unwrap();
        let bytes = sim.bytes(&dir().join("000001.log")).unwrap();
        let example = include_str!("FORMAT.md").rsplit("```text\n").next().unwrap();
        let lines = example.lines().filter_map(|line| line.split_once("   #"));
        let specified: Vec<_> = lines.map(|(bytes, _)| bytes.to_owned() + "\n").collect();
        assert_eq!(hex(&bytes), specified.concat());
        let (records, tail) = read_all(&disk, Position::ZERO).await;
        assert_eq!(records, [(7, 1, b"k=v".to_vec())]);
        assert_eq!(tail.durable, log.positions().durable);
    });
}

#[test]
fn records_of_all_lengths_span_blocks_and_segments() {
    run(async |sim| {
        let (disk, log) = fresh(&sim).await;
        let mut wanted = Vec::new();
        for i in 0..60_u64 {
            let payload = vec![i as u8; (i as usize * 397) % 3000 + usize::from(i == 30) * 5000];
            let sequence = i * 3;
            log.prepare().await.unwrap();
            let end = log.append(i as u32, sequence, &payload).unwrap();
            if i % 3 == 0 {
                while log.positions().durable < end {
                    log.write_pending().await.unwrap();
                }
                log.mark_flushed(if i < 40 { end } else { log.positions().flushed });
                wanted.clear();
            }
            if i >= 40 || i % 3 != 0 {
                wanted.push((i as u32, sequence, payload));
            }
        }
        while log.pending_bytes() > 0 {
            log.write_pending().await.unwrap();
        }
        let (records, _) = read_all(&disk, log.positions().flushed).await;
        assert!(records.ends_with(&wanted));
        assert!(disk.list(&dir()).await.unwrap().len() <= 4, "segments are used again");
    });
}

#[test]
fn a_log_goes_on_where_it_ended() {
    run(async |sim| {
        let (disk, log) = fresh(&sim).await;
        for sequence in 1..=3 {
            log.append(0, sequence, &[sequence as u8; 100]).unwrap();
            log.write_pending().await.unwrap();
        }
        drop(log);
        for opening in 0..5 {
            let (records, tail) = read_all(&disk, Position::ZERO).await;
            let sequences: Vec<_> = records.iter().map(|record| record.1).collect();
            assert_eq!(sequences, (1..=3 + opening).collect::<Vec<_>>());
            let log = Log::resume(&disk, &dir(), small(), tail).await.unwrap();
            log.prepare().await.unwrap();
            log.append(0, 4 + opening, b"more").unwrap();
            log.write_pending().await.unwrap();
        }
    });
}

#[test]
fn limits_have_answers() {
    run(async |sim| {
        let (_, log) = fresh(&sim).await;
        assert!(matches!(log.append(0, 1, &[0; 16385]), Err(Error::Invalid(_))));
        log.append(0, 1, &[0; 16384]).unwrap();
        let full = log.append(0, 2, &[0; 16384]);
        assert_eq!(full, Err(Error::Overloaded("commit log segments")));
        assert!(log.needs_segment());
        log.prepare().await.unwrap();
        log.append(0, 2, &[0; 16384]).unwrap();
        let waiting = log.append(0, 3, &[0; 16384]);
        assert_eq!(waiting, Err(Error::Overloaded("bytes waiting for the commit log")));
        while log.pending_bytes() > 0 {
            log.write_pending().await.unwrap();
        }
        assert_eq!(log.write_pending().await.unwrap(), log.positions().appended);
        for _ in 0..2 {
            log.prepare().await.unwrap();
            while log.append(0, 5, &[0; 4096]).is_ok() {}
            while log.pending_bytes() > 0 {
                log.write_pending().await.unwrap();
            }
        }
        assert_eq!(log.prepare().await, Err(Error::Overloaded("bytes of the commit log")));
        log.mark_flushed(log.positions().durable);
        log.prepare().await.unwrap();
        log.append(0, 6, &[0; 4096]).unwrap();
    });
}

#[test]
fn segments_are_filled_before_they_are_needed_and_deleted_if_they_never_were() {
    run(async |sim| {
        let (disk, log) = fresh(&sim).await;
        let files = async || disk.list(&dir()).await.unwrap().len();
        log.fill_ahead().await.unwrap();
        assert_eq!(files().await, 1, "a log without writers takes no more");
        log.prepare().await.unwrap();
        for sequence in 0..3 {
            log.append(0, sequence, &[1; 16000]).unwrap();
            while log.pending_bytes() > 0 {
                log.write_pending().await.unwrap();
            }
        }
        log.fill_ahead().await.unwrap();
        assert_eq!(files().await, 2, "what is needed next comes first");
        for _ in 0..3 {
            log.prepare().await.unwrap();
            log.fill_ahead().await.unwrap();
        }
        assert_eq!(files().await, 4, "two are in use, one is next, and no more are allowed");
        let zeros = sim.bytes(&dir().join("000004.log")).unwrap();
        assert!(zeros.len() == 32 << 10 && zeros.iter().all(|byte| *byte == 0));
        drop(log);
        let (records, tail) = read_all(&disk, Position::ZERO).await;
        assert_eq!(records.len(), 3);
        let log = Log::resume(&disk, &dir(), small(), tail).await.unwrap();
        assert_eq!(files().await, 3, "a file without a header held nothing");
        log.prepare().await.unwrap();
        log.append(0, 4, b"more").unwrap();
    });
}

/// The log of a shard, opened again with segments of this size and so many bytes for all of them.
async fn opened_with(
    disk: &Disk,
    flushed: Position,
    segment_bytes: u32,
    log_bytes_max: u64,
) -> Log {
    let (_, tail) = read_all(disk, flushed).await;
    let config = Config { segment_bytes, log_bytes_max, pending_bytes_max: 1 << 20, ..small() };
    Log::resume(disk, &dir(), config, tail).await.unwrap()
}

/// Writes until so many segments are full and the next is prepared.
async fn fill_segments(log: &Log, segments: u32) {
    while log.positions().durable.segment() <= segments {
        log.prepare().await.unwrap();
        log.append(0, 1, &[1; 8000]).unwrap();
        log.write_pending().await.unwrap();
    }
    log.prepare().await.unwrap();
}

/// Before: the small segment that was prepared stayed the next one, and a record which is longer than it waited for
/// ever, with all that came after.
#[test]
fn a_log_of_small_segments_takes_long_records_at_once_after_it_was_opened_with_large_ones() {
    run(async |sim| {
        let (disk, log) = fresh(&sim).await;
        fill_segments(&log, 2).await;
        let flushed = log.positions().durable;
        log.mark_flushed(flushed);
        drop(log);
        assert_eq!(disk.list(&dir()).await.unwrap().len(), 4, "two free, an active and a next one");
        let log = opened_with(&disk, flushed, 128 << 10, 256 << 10).await;
        assert_eq!(disk.list(&dir()).await.unwrap().len(), 1, "what has another size went");
        assert!(log.needs_segment());
        log.prepare().await.unwrap();
        log.append(0, 2, &[2; 64 << 10]).unwrap();
        while log.pending_bytes() > 0 {
            log.write_pending().await.unwrap();
        }
        drop(log);
        let (records, _) = read_all(&disk, flushed).await;
        assert_eq!(records, [(0, 2, vec![2; 64 << 10])]);
    });
}

/// Before: each small segment counted as a large one, and one was deleted at each try, a second after the other: the
/// log had no space until enough were gone.
#[test]
fn segments_count_at_their_own_size_and_odd_sized_ones_go_together() {
    run(async |sim| {
        let (disk, log) = fresh(&sim).await;
        fill_segments(&log, 2).await;
        drop(log);
        let log = opened_with(&disk, Position::ZERO, 64 << 10, 160 << 10).await;
        log.prepare().await.expect("three of 32 KiB and one of 64 KiB");
        fill_one(&log).await;
        assert_eq!(log.prepare().await, Err(Error::Overloaded("bytes of the commit log")));
        log.mark_flushed(log.positions().durable);
        log.prepare().await.expect("three of 32 KiB were deleted");
        assert_eq!(disk.list(&dir()).await.unwrap().len(), 2);
    });
}

/// Before: a small segment that became free while others were deleted became the next one. A record longer than that
/// segment then waited until small records had filled it.
#[test]
fn an_odd_sized_segment_that_becomes_free_while_others_are_deleted_is_not_used() {
    run(async |sim| {
        let (disk, log) = fresh(&sim).await;
        fill_segments(&log, 2).await;
        drop(log);
        let log = opened_with(&disk, Position::ZERO, 128 << 10, 512 << 10).await;
        log.mark_flushed(Position::new(2, 0));
        sim.set_faults(Faults { suspensions_max: 8, ..Faults::default() });
        let flush = async { log.mark_flushed(log.positions().durable) };
        let (prepared, ()) = zip(log.prepare(), flush).await;
        prepared.unwrap();
        assert_eq!(disk.list(&dir()).await.unwrap().len(), 2, "the active and the next one");
        log.append(0, 2, &[2; 64 << 10]).unwrap();
        while log.pending_bytes() > 0 {
            log.write_pending().await.unwrap();
        }
    });
}

/// Before: all that were to be deleted with it were forgotten, and took their part of the log's bytes until the next
/// start.
#[test]
fn an_odd_sized_segment_that_cannot_be_deleted_is_deleted_later() {
    run(async |sim| {
        let (disk, log) = fresh(&sim).await;
        fill_segments(&log, 2).await;
        drop(log);
        let log = opened_with(&disk, Position::ZERO, 64 << 10, 160 << 10).await;
        log.mark_flushed(log.positions().durable);
        let faults =
            Faults { fail_op: Some(0), fail_errno: Some(libc::ENOSPC), ..Faults::default() };
        sim.set_faults(faults);
        let refused = log.prepare().await;
        assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
        assert_eq!(disk.list(&dir()).await.unwrap().len(), 3);
        log.prepare().await.unwrap();
        assert_eq!(disk.list(&dir()).await.unwrap().len(), 2, "the active and the next one");
    });
}

/// Writes until the active segment is full and the log goes on in the next one.
async fn fill_one(log: &Log) {
    let active = log.positions().appended.segment();
    while log.positions().appended.segment() == active {
        log.append(0, 3, &[3; 4000]).unwrap();
        log.write_pending().await.unwrap();
    }
}

/// Before: a large segment counted as a small one, so nothing was flushed for a log that had no space left.
#[test]
fn a_log_of_large_segments_is_long_after_it_was_opened_with_small_ones() {
    run(async |sim| {
        let disk = Disk::Sim(sim.clone());
        disk.mkdir(&dir()).await.unwrap();
        let config = Config { segment_bytes: 64 << 10, log_bytes_max: 256 << 10, ..small() };
        let log = Log::create(&disk, &dir(), config).await.unwrap();
        fill_segments(&log, 2).await;
        assert!(log.is_long());
        drop(log);
        let log = opened_with(&disk, Position::ZERO, 32 << 10, 256 << 10).await;
        assert!(log.is_long(), "three of 64 KiB hold what is not flushed");
        log.mark_flushed(log.positions().durable);
        assert!(!log.is_long());
    });
}

#[test]
fn a_failed_write_ends_the_trust() {
    run(async |sim| {
        let (_, log) = fresh(&sim).await;
        log.append(0, 1, b"lost").unwrap();
        sim.set_faults(Faults { write_error_one_in: 1, ..Faults::default() });
        let first = log.write_pending().await.unwrap_err();
        sim.set_faults(Faults::default());
        assert!(matches!(&first, Error::Poisoned(e) if matches!(**e, Error::Io { .. })));
        assert_eq!(log.append(0, 2, b"refused"), Err(first.clone()));
        assert_eq!(log.write_pending().await, Err(first.clone()));
        assert_eq!(log.prepare().await, Err(first));
        assert_eq!(log.acknowledgeable(), Position::ZERO);
    });
}

#[test]
fn the_periodic_mode_acknowledges_what_is_appended() {
    run(async |sim| {
        let disk = Disk::Sim(sim.clone());
        disk.mkdir(&dir()).await.unwrap();
        let config = Config { sync: SyncMode::Periodic, ..small() };
        let log = Log::create(&disk, &dir(), config).await.unwrap();
        let end = log.append(0, 1, b"soon").unwrap();
        assert_eq!(log.acknowledgeable(), end);
        assert_eq!(log.positions().durable, Position::ZERO);
    });
}

/// A log of some records in segment 1, and its bytes.
fn example() -> (SimDisk, Vec<u8>) {
    let sim = SimDisk::new(1, Faults::default());
    let copy = sim.clone();
    SimExec::new(1)
        .run(async move {
            let (_, log) = fresh(&copy).await;
            for sequence in 0..4 {
                log.append(0, sequence, &vec![sequence as u8; 1000 * sequence as usize]).unwrap();
                log.write_pending().await.unwrap();
            }
            log.claim().await.unwrap();
        })
        .done();
    let bytes = sim.bytes(&dir().join("000001.log")).unwrap();
    (sim, bytes)
}

/// The lengths of the records, or why there are none.
fn read_bytes(sim: &SimDisk, bytes: Vec<u8>) -> Result<Vec<usize>, Error> {
    sim.plant(&dir().join("000001.log"), bytes);
    let disk = Disk::Sim(sim.clone());
    SimExec::new(1)
        .run(async move {
            let mut replay = Replay::open(&disk, &dir(), Position::ZERO).await?;
            let mut lengths = Vec::new();
            while let Some(record) = replay.next().await? {
                lengths.push(record.payload.len());
            }
            replay.finish().await?;
            Ok(lengths)
        })
        .done()
}

/// Found by the simulator: a bit that flipped on its way from the disk was taken for the end of the log, and a record
/// was gone. What does not verify is read again.
#[test]
fn a_bit_that_flips_while_the_end_of_the_log_is_read_costs_no_record() {
    let sim = SimDisk::new(1, Faults::default());
    let copy = sim.clone();
    SimExec::new(1)
        .run(async move {
            let (_, log) = fresh(&copy).await;
            for sequence in 0..4 {
                log.append(0, sequence, &[7; 100]).unwrap();
                log.write_pending().await.unwrap();
            }
        })
        .done();
    // The last block is not claimed: were it taken for torn, its record would go without a word.
    let bytes = sim.bytes(&dir().join("000001.log")).unwrap();
    let whole = read_bytes(&sim, bytes.clone()).unwrap();
    assert_eq!(whole, [100; 4]);
    sim.set_faults(Faults { flip_one_in: 20, ..Faults::default() });
    let mut refused = 0;
    for _ in 0..500 {
        match read_bytes(&sim, bytes.clone()) {
            Ok(lengths) => assert_eq!(lengths, whole),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0, "no bit was flipped");
}

proptest! {
    #[test]
    fn any_file_is_a_log_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        let sim = example().0;
        prop_assert!(read_bytes(&sim, bytes).is_err());
    }

    #[test]
    fn any_block_after_a_good_header_is_a_record_or_an_error(
        block in prop::collection::vec(any::<u8>(), 1..9000), at in 1..4_usize,
    ) {
        let (sim, mut bytes) = example();
        bytes[at * 4096..at * 4096 + block.len()].copy_from_slice(&block);
        match read_bytes(&sim, bytes) {
            Ok(lengths) => prop_assert!([0, 1000, 2000, 3000].starts_with(&lengths)),
            Err(error) => prop_assert!(matches!(error, Error::Corrupt { .. }), "{}", error),
        }
    }

    #[test]
    fn any_sealed_block_is_records_or_an_error(
        payload in prop::collection::vec(any::<u8>(), 0..4000), first in 0..4000_u32, flags: u32,
    ) {
        // A fuzzer that knows the checksum: the reader must hold behind it too.
        let (sim, mut bytes) = example();
        bytes[4096..].fill(0);
        let block = &mut bytes[4096..4096 + 48 + payload.len()];
        let uuid = example().1[24..40].to_vec();
        block[8..24].copy_from_slice(&uuid);
        block[24..28].copy_from_slice(&4096_u32.to_le_bytes());
        block[28..32].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        block[40..44].copy_from_slice(&first.to_le_bytes());
        block[44..48].copy_from_slice(&flags.to_le_bytes());
        block[48..].copy_from_slice(&payload);
        let sum = crate::codec::checksum(&block[8..]);
        block[..8].copy_from_slice(&sum.to_le_bytes());
        match read_bytes(&sim, bytes) {
            Ok(lengths) => prop_assert!(lengths.iter().sum::<usize>() <= payload.len()),
            Err(error) => prop_assert!(matches!(error, Error::Corrupt { .. }), "{}", error),
        }
    }
}

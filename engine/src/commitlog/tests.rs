//! The log on a disk that does not fail: bytes, order, limits. Crashes are in `tests/log.rs`.

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
        assert_eq!(log.settled(), Position::ZERO);
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
        assert_eq!(log.settled(), end);
        assert_eq!(log.positions().durable, Position::ZERO);
    });
}

//! The journal on a disk that does not fail: its bytes, and damage to any of them.
//!
//! 1. Golden: the bytes of a journal with one entry from the start and one appended are those of `FORMAT.md`. `listed`
//!    gives the bytes of other examples there to the tests of the manifest and the layout.
//! 2. Damage: a flipped bit, a cut file or damaged stretches give an error, or entries as they were: all of them, or
//!    the first of them.
//! 3. Limits: a journal that is full, an entry or a file that is too long, a disk that becomes full while a journal is
//!    replaced.
//! 4. What was read after a kill is still there after a power cut, wherever the process was stopped.
//!
//! Not here: edits (`manifest/tests.rs`), crashes of whole shards (`engine/tests/crash.rs`).

use proptest::prelude::*;

use super::*;
use crate::io::{Crash, Disk, Faults, SimDisk, SimExec};

const KIND: Kind = Kind { magic: b"MESSTEST", version: 3, bytes_min: 32 << 10 };

fn path() -> RelPath {
    RelPath::root().join("test")
}

async fn make(disk: &Disk, entries: &[&[u8]]) -> Journal {
    let entries: Vec<_> = entries.iter().map(|entry| entry.to_vec()).collect();
    Journal::make(disk, &path(), KIND, Uuid::from_u128(7), 5, &entries).await.unwrap()
}

/// A journal with one entry from the start and one appended.
fn example() -> SimDisk {
    let sim = SimDisk::new(1, Faults::default());
    let disk = Disk::Sim(sim.clone());
    SimExec::new(1)
        .run(async move {
            let mut journal = make(&disk, &[b"abc"]).await;
            assert_eq!(journal.append(b"de").await, Ok(Appended::Durably));
            assert_eq!(journal.next_number(), 7);
        })
        .done();
    sim
}

fn read(sim: &SimDisk, kind: Kind) -> Result<Contents> {
    let disk = Disk::Sim(sim.clone());
    SimExec::new(1).run(async move { Journal::read(&disk, &path(), kind).await }).done()
}

fn entries(sim: &SimDisk) -> Result<Vec<Vec<u8>>> {
    read(sim, KIND).map(|contents| contents.entries)
}

/// The bytes of the listing below a heading of `FORMAT.md`: lines of `offset: bytes   # what they are`.
pub(crate) fn listed(heading: &str) -> Vec<u8> {
    let (_, section) = include_str!("FORMAT.md").split_once(heading).unwrap();
    let listing = section.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let mut out = Vec::new();
    for line in listing.lines() {
        let (offset, bytes) = line.split_once(": ").unwrap();
        assert_eq!(usize::from_str_radix(offset, 16), Ok(out.len()), "{line}");
        let digits = bytes.split('#').next().unwrap().split_whitespace();
        out.extend(digits.map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    out
}

#[test]
fn the_bytes_are_as_specified() {
    let bytes = example().bytes(&path()).unwrap();
    let mut dump = String::new();
    for (i, line) in bytes.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|b| *b != 0)) {
        let digits: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        dump += &format!("{:04x}: {}\n", i * 16, digits.join(" "));
    }
    let listing = include_str!("FORMAT.md").rsplit("```text\n").next().unwrap();
    let lines = listing.lines().filter_map(|line| line.split_once("   #"));
    let specified: Vec<_> = lines.map(|(bytes, _)| bytes.to_owned() + "\n").collect();
    assert_eq!(dump, specified.concat());
    assert_eq!(entries(&example()).unwrap(), [b"abc".to_vec(), b"de".to_vec()]);
}

#[test]
fn a_flipped_bit_is_seen_or_means_nothing() {
    let sim = example();
    let whole = sim.bytes(&path()).unwrap();
    let wanted = entries(&sim).unwrap();
    // The first 80 bytes of each unit hold all that is not padding.
    for bit in (0..5 * UNIT * 8).filter(|bit| bit / 8 % UNIT < 80) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        sim.plant(&path(), bytes);
        match entries(&sim) {
            Err(Error::Corrupt { .. }) => {}
            Ok(found) => assert_eq!(found, wanted, "bit {bit}"),
            Err(error) => panic!("bit {bit}: {error}"),
        }
    }
}

#[test]
fn a_cut_file_is_seen() {
    let sim = example();
    let whole = sim.bytes(&path()).unwrap();
    for len in (0..whole.len()).step_by(512).chain([1, 59, 60, 61, whole.len() - 1]) {
        sim.plant(&path(), whole[..len].to_vec());
        assert!(matches!(entries(&sim), Err(Error::Corrupt { .. })), "{len}");
    }
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let older = Kind { version: 2, ..KIND };
    let refused = read(&example(), older).unwrap_err();
    assert_eq!(refused, Error::Newer { file: "test".into(), found: 3, known: 2 });
    assert_eq!(read(&example(), Kind { version: 4, ..KIND }).unwrap().version, 3);
    let other = Kind { magic: b"MESSELSE", ..KIND };
    assert!(matches!(read(&example(), other), Err(Error::Corrupt { .. })));
}

#[test]
fn a_full_journal_says_so_and_a_new_one_is_larger() {
    let sim = SimDisk::new(1, Faults::default());
    let disk = Disk::Sim(sim.clone());
    SimExec::new(1)
        .run(async move {
            let mut journal = make(&disk, &[]).await;
            let mut count = 0;
            while journal.append(&[7; 5000]).await.unwrap() == Appended::Durably {
                count += 1;
            }
            assert_eq!(count, 3);
            let contents = Journal::read(&disk, &path(), KIND).await.unwrap();
            assert_eq!((contents.first, contents.entries.len()), (5, 3));
            let uuid = contents.next_uuid(9);
            let all = contents.entries;
            let mut journal = Journal::make(&disk, &path(), KIND, uuid, 5, &all).await.unwrap();
            assert_eq!(journal.append(b"more").await, Ok(Appended::Durably));
            assert_eq!(disk.list(&RelPath::root()).await.unwrap().len(), 1);
        })
        .done();
    assert_eq!(entries(&sim).unwrap().len(), 4);
}

#[test]
fn an_entry_too_long_is_refused_and_nothing_has_happened() {
    let sim = SimDisk::new(1, Faults::default());
    let disk = Disk::Sim(sim.clone());
    SimExec::new(1)
        .run(async move {
            let mut journal = make(&disk, &[b"abc"]).await;
            let long = vec![0; JOURNAL_ENTRY_BYTES_MAX + 1];
            assert!(matches!(journal.append(&long).await, Err(Error::Invalid(_))));
            let uuid = Uuid::from_u128(8);
            let made = Journal::make(&disk, &path(), KIND, uuid, 5, &[long]).await;
            assert!(matches!(journal.replace(made).await, Err(Error::Invalid(_))));
            assert_eq!(journal.append(b"de").await, Ok(Appended::Durably));
        })
        .done();
    assert_eq!(entries(&sim).unwrap(), [b"abc".to_vec(), b"de".to_vec()]);
}

#[test]
fn a_file_longer_than_a_start_would_take_is_not_made() {
    let lens = |count: usize| Lens::of(&path(), KIND, [32 << 20].repeat(count).into_iter());
    let some = lens(3).unwrap();
    assert_eq!(some.file, 2 * some.end);
    // The claim's place need not be there: then a new file is asked for, and refused.
    let most = lens(31).unwrap();
    assert!(most.end < JOURNAL_BYTES_MAX, "{most:?}");
    assert_eq!(most.file, JOURNAL_BYTES_MAX, "a start reads it");
    let refused = lens(32).unwrap_err();
    assert!(matches!(&refused, Error::Invalid(what) if what.contains("1073741824")), "{refused}");
}

#[test]
fn a_full_disk_after_the_rename_ends_the_trust() {
    let full =
        |nth| Faults { fail_op: Some(nth), fail_errno: Some(libc::ENOSPC), ..Faults::default() };
    let (mut unchanged, mut poisoned) = (0, 0);
    for nth in 0..20 {
        let sim = SimDisk::new(1, Faults::default());
        let disk = Disk::Sim(sim.clone());
        let inside = sim.clone();
        let replaced = async move {
            let mut journal = make(&disk, &[b"old"]).await;
            inside.set_faults(full(nth));
            let entries = [b"new".to_vec()];
            let uuid = Uuid::from_u128(8);
            // Once: the disk stays full.
            let made = Journal::make_once(&disk, &path(), KIND, uuid, 6, &entries).await;
            let result = journal.replace(made).await;
            inside.set_faults(Faults::default());
            (result, journal.append(b"more").await)
        };
        match SimExec::new(1).run(replaced).done() {
            (Ok(()), appended) => assert_eq!(appended, Ok(Appended::Durably)),
            (Err(Error::DiskFull { .. }), appended) => {
                unchanged += 1;
                assert_eq!(appended, Ok(Appended::Durably), "operation {nth}");
                let found = entries(&sim).unwrap();
                assert_eq!(found, [b"old".to_vec(), b"more".to_vec()], "operation {nth}");
            }
            (Err(Error::Poisoned(_)), appended) => {
                poisoned += 1;
                assert!(matches!(appended, Err(Error::Poisoned(_))), "operation {nth}");
            }
            (Err(error), _) => panic!("operation {nth}: {error}"),
        }
    }
    assert!(unchanged >= 4 && poisoned >= 2, "{unchanged} unchanged, {poisoned} poisoned");
}

proptest! {
    #[test]
    fn any_bytes_are_entries_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        let sim = SimDisk::new(1, Faults::default());
        sim.plant(&path(), bytes);
        prop_assert!(entries(&sim).is_err());
    }

    #[test]
    fn damaged_stretches_are_an_error_or_mean_nothing(
        at in 0..5 * UNIT, stretch in prop::collection::vec(any::<u8>(), 1..300),
    ) {
        let sim = example();
        let wanted = entries(&sim).unwrap();
        let mut bytes = sim.bytes(&path()).unwrap();
        bytes[at..at + stretch.len()].copy_from_slice(&stretch);
        sim.plant(&path(), bytes);
        if let Ok(found) = entries(&sim) {
            prop_assert!(wanted.starts_with(&found));
        }
    }
}

/// A start deletes files on the word of a manifest: that word has to outlive the power.
#[test]
fn what_was_read_after_a_kill_is_there_after_a_power_cut() {
    let mut appended = 0;
    for op in 0..40 {
        let faults = Faults { crash_at_op: Some(op), suspensions_max: 2, ..Faults::default() };
        let sim = SimDisk::new(op, faults);
        let disk = Disk::Sim(sim.clone());
        let exec = SimExec::powered_by(&sim, op);
        let _stopped = exec.run(async move {
            let mut journal = make(&disk, &[b"abc"]).await;
            journal.append(b"de").await.unwrap();
            Journal::make(&disk, &path(), KIND, Uuid::from_u128(8), 7, &[b"f".to_vec()])
                .await
                .unwrap();
        });
        let killed = sim.kill();
        let Ok(found) = entries(&killed) else { continue };
        appended += u64::from(found.len() == 2);
        let found_again = entries(&killed.crash(op, Crash::Nothing));
        assert_eq!(found_again, Ok(found), "stopped at operation {op}");
    }
    assert!(appended > 0, "some are stopped after the append");
}

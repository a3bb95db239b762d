//! What a start finds, and that a half of anything is told from a whole.
//!
//! 1. The layout: the bytes are those of `journal/FORMAT.md`, also of version 1; each damaged bit, each cut and each
//!    newer version is refused; data without a layout is refused; other generations are removed.
//! 2. The schema's log: every entry is kept with its version, also when the log is opened again; a full log is replaced
//!    by one that says the same in fewer entries, so it stays small.
//! 3. While the schema's log is rewritten, a failed operation poisons it, and a power cut leaves the entries of before
//!    or the new ones, never a mixture.
//!
//! Not here: what entries of the schema say (`shard/src/schema_changes.rs`), a boot (`shard/src/boot.rs`).

use super::*;
use crate::io::{Crash, Faults, SimDisk, SimExec};
use crate::journal::Appended;
use crate::limits::SCHEMA_BYTES_MIN;

fn layout() -> Layout {
    Layout {
        ready: true,
        generation: 2,
        shards: 3,
        host_id: Uuid::from_u128(42),
        timestamp_high: 1_700_000_000_000_000,
        secret: Secret(std::array::from_fn(|at| 0xA0 + at as u8)),
    }
}

fn run(f: impl AsyncFnOnce(Disk, SimDisk) + 'static) {
    let sim = SimDisk::new(1, Faults::default());
    SimExec::new(1).run(async move { f(Disk::Sim(sim.clone()), sim).await }).done();
}

#[test]
fn a_start_finds_what_was_stored() {
    run(async |disk, _| {
        assert_eq!(Layout::find(&disk).await, Ok(Found::Nothing));
        let unfinished = Layout { ready: false, ..layout() };
        unfinished.store(&disk).await.unwrap();
        assert_eq!(Layout::find(&disk).await, Ok(Found::Unfinished(unfinished.clone())));
        unfinished.make_directories(&disk).await.unwrap();
        SchemaLog::create(&disk, 1).await.unwrap();
        disk.create(&shard_dir(2, 1).join("manifest")).await.unwrap();
        disk.create(&log_dir(&shard_dir(2, 1)).join("000001.log")).await.unwrap();
        unfinished.clear_unfinished(&disk).await.unwrap();
        assert_eq!(disk.list(&RelPath::root()).await.unwrap().len(), 1, "only the layout is left");
        unfinished.make_directories(&disk).await.unwrap();
        layout().store(&disk).await.unwrap();
        assert_eq!(Layout::find(&disk).await, Ok(Found::Ready(layout())));
    });
}

/// The bytes of `journal/FORMAT.md`, which every build to come opens.
#[test]
fn the_bytes_of_the_layout_are_as_specified() {
    let specified = crate::journal::tests::listed("### A layout");
    assert_eq!(layout().encode(), specified);
    assert_eq!(Layout::decode(&specified), Ok((Some(layout()), VERSION)));
}

/// A layout of version 1 is a unit of 4096 as well, so what follows its values is zeros.
#[test]
fn a_layout_of_version_1_opens_and_has_no_secret() {
    let mut specified = crate::journal::tests::listed("### A layout of version 1");
    specified.resize(BYTES, 0);
    let layout = Layout { secret: Secret::NONE, ..layout() };
    assert_eq!(Layout::decode(&specified), Ok((Some(layout), WITHOUT_SECRET)));
    for bit in 0..BYTES_WITHOUT_SECRET * 8 {
        let mut bytes = specified.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let decoded = Layout::decode(&bytes);
        assert!(decoded.is_err() || decoded.is_ok_and(|(_, version)| version > VERSION), "{bit}");
    }
}

#[test]
fn a_secret_is_not_shown() {
    assert_eq!(format!("{:?}", layout().secret), "Secret(..)");
}

#[test]
fn another_generation_is_removed() {
    run(async |disk, _| {
        layout().make_directories(&disk).await.unwrap();
        let next = Layout { generation: 3, shards: 1, ..layout() };
        next.make_directories(&disk).await.unwrap();
        disk.create(&shard_dir(2, 0).join("manifest")).await.unwrap();
        next.remove_other_generations(&disk).await.unwrap();
        let names: Vec<_> = disk.list(&RelPath::root()).await.unwrap();
        assert_eq!(names.iter().map(|e| &*e.name).collect::<Vec<_>>(), ["gen-3", "tables"]);
    });
}

#[test]
fn data_without_a_layout_is_refused() {
    run(async |disk, _| {
        disk.mkdir(&tables_dir()).await.unwrap();
        let refused = Layout::find(&disk).await.unwrap_err().to_string();
        assert_eq!(refused, "layout is damaged at byte 0: it is missing, and yet there is tables");
    });
}

#[test]
fn each_damaged_bit_of_the_layout_is_seen() {
    run(async |disk, sim| {
        layout().store(&disk).await.unwrap();
        let path = RelPath::root().join(NAME);
        let whole = sim.bytes(&path).unwrap();
        for bit in 0..BYTES * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            sim.plant(&path, bytes);
            // A bit of the version makes it another program's file, and that is refused too.
            let refused = Layout::find(&disk).await.unwrap_err();
            assert!(matches!(refused, Error::Corrupt { .. } | Error::Newer { .. }), "{bit}");
        }
        for len in 0..BYTES {
            sim.plant(&path, whole[..len].to_vec());
            assert!(Layout::find(&disk).await.is_err(), "{len}");
        }
    });
}

#[test]
fn a_newer_layout_is_refused_by_name() {
    run(async |disk, sim| {
        let mut bytes = layout().encode();
        bytes[16] = 9;
        sim.plant(&RelPath::root().join(NAME), bytes);
        let refused = Layout::find(&disk).await.unwrap_err();
        assert_eq!(refused, Error::Newer { file: NAME.into(), found: 9, known: VERSION });
    });
}

async fn reopen(disk: &Disk, seed: u64, instead: Option<SchemaEntries>) -> SchemaLog {
    SchemaLog::find(disk).await.unwrap().open(disk, seed, instead).await.unwrap()
}

async fn found(disk: &Disk) -> Vec<(u64, Vec<u8>)> {
    let found = SchemaLog::find(disk).await.unwrap();
    found.entries().map(|(number, payload)| (number, payload.to_vec())).collect()
}

#[test]
fn the_schema_keeps_every_entry_and_its_version() {
    run(async |disk, _| {
        assert!(matches!(SchemaLog::find(&disk).await, Err(Error::NotFound { .. })));
        let mut log = SchemaLog::create(&disk, 1).await.unwrap();
        for version in 1..=12 {
            let payload = vec![version as u8; 3000];
            assert_eq!(log.append(&payload).await, Ok(Appended::Durably));
            assert_eq!(log.version(), version);
            if version % 5 == 0 {
                let entries = found(&disk).await;
                assert_eq!(entries.len() as u64, version);
                assert_eq!(entries[4], (5, vec![5; 3000]));
                log = reopen(&disk, version, None).await;
            }
        }
        let instead = SchemaEntries { first: 11, payloads: vec![vec![1], vec![2]] };
        log = reopen(&disk, 99, Some(instead)).await;
        assert_eq!(log.append(&[3]).await, Ok(Appended::Durably));
        let entries = [(11, vec![1]), (12, vec![2]), (13, vec![3])];
        assert_eq!(found(&disk).await, entries);
    });
}

const PAYLOAD: [u8; 3000] = [7; 3000];

/// A log that one more entry does not fit.
async fn full(disk: &Disk) -> SchemaLog {
    let mut log = SchemaLog::create(disk, 1).await.unwrap();
    while log.append(&PAYLOAD).await.unwrap() == Appended::Durably {}
    log
}

/// One entry in the place of all, and of one more.
fn shortened(log: &SchemaLog) -> SchemaEntries {
    SchemaEntries { first: log.version() + 1, payloads: vec![PAYLOAD.to_vec()] }
}

/// Before: it kept every change from the beginning, and more than 131,072 of them could not be read.
#[test]
fn a_full_log_of_the_schema_is_replaced_and_stays_small() {
    run(async |disk, sim| {
        let mut log = full(&disk).await;
        let bytes = || sim.bytes(&path_of_schema()).unwrap().len();
        let before = bytes();
        for _ in 0..20 {
            log.replace(&shortened(&log)).await.unwrap();
            while log.append(&PAYLOAD).await.unwrap() == Appended::Durably {}
            assert_eq!(bytes(), before);
        }
        let (version, entries) = (log.version(), found(&disk).await);
        assert_eq!(entries.last().unwrap().0, version);
        assert!(version > 20 * (entries.len() as u64 - 1));
    });
}

/// Before: a change after a failed sync was tried again, and its sync could then succeed without the bytes.
#[test]
fn whatever_fails_while_the_schema_is_rewritten_poisons_it() {
    run(async |disk, sim| {
        let mut log = full(&disk).await;
        let before = sim.ops();
        log.replace(&shortened(&log)).await.unwrap();
        for failing in 0..sim.ops() - before {
            let sim = SimDisk::new(1, Faults::default());
            let disk = Disk::Sim(sim.clone());
            let mut log = full(&disk).await;
            sim.set_faults(Faults { fail_op: Some(failing), ..Faults::default() });
            let refused = log.replace(&shortened(&log)).await;
            assert!(matches!(refused, Err(Error::Poisoned(_))), "{failing}: {refused:?}");
            let again = log.replace(&shortened(&log)).await;
            assert!(matches!(again, Err(Error::Poisoned(_))), "{failing}: {again:?}");
        }
    });
}

/// Wherever the power is cut, the entries of before are found, or those that take their place.
#[test]
fn a_power_cut_while_the_schema_is_rewritten_leaves_one_of_the_two() {
    let outcome = |cut: u64, mode: Crash| {
        let sim = SimDisk::new(cut, Faults::default());
        let exec = SimExec::powered_by(&sim, cut);
        let disk = Disk::Sim(sim.clone());
        let (planned, node) = (sim.clone(), disk.clone());
        let ended = exec.run(async move {
            let mut log = full(&node).await;
            planned.set_faults(Faults { crash_at_op: Some(cut), ..Faults::default() });
            log.replace(&shortened(&log)).await.unwrap();
        });
        let was_cut = matches!(ended, crate::io::Outcome::Stalled);
        exec.end();
        let disk = Disk::Sim(sim.crash(cut, mode));
        let entries = SimExec::new(1).run(async move { found(&disk).await }).done();
        (was_cut, entries.len())
    };
    let mut seen = std::collections::BTreeSet::new();
    for mode in [Crash::Nothing, Crash::Everything, Crash::Random] {
        let cuts = (0..).take_while(|cut| {
            let (was_cut, entries) = outcome(*cut, mode);
            seen.insert(entries);
            was_cut
        });
        assert!(cuts.count() > 5, "{mode:?}");
    }
    let all = SCHEMA_BYTES_MIN as usize / WRITE_ALIGN_BYTES - 2;
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, all]);
}

fn path_of_schema() -> RelPath {
    RelPath::root().join("schema")
}

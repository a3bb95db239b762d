//! What a start finds, and that a half of anything is told from a whole.

use super::*;
use crate::io::{Faults, SimDisk, SimExec};

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

#[test]
fn the_schema_keeps_every_entry_and_its_version() {
    run(async |disk, _| {
        assert!(matches!(SchemaLog::open(&disk, 1).await, Err(Error::NotFound { .. })));
        let mut log = SchemaLog::create(&disk, 1).await.unwrap();
        for version in 1..=100 {
            let payload = vec![version as u8; 3000];
            assert_eq!(log.append(&payload).await, Ok(version));
            if version % 30 == 0 {
                let (again, entries) = SchemaLog::open(&disk, version).await.unwrap();
                assert_eq!(entries.len() as u64, version);
                assert_eq!(entries[7], (8, vec![8; 3000]));
                log = again;
            }
        }
    });
}

/// A change after a failed sync was tried again, and its sync could then succeed without the bytes.
#[test]
fn whatever_fails_while_the_schema_is_rewritten_poisons_it() {
    const PAYLOAD: [u8; 3000] = [7; 3000];
    run(async |disk, sim| {
        let mut log = SchemaLog::create(&disk, 1).await.unwrap();
        let mut appends = 0;
        // An entry and its claim are two writes; more of them make a new file.
        let mut operations = 0;
        while operations <= 2 {
            let before = sim.ops();
            log.append(&PAYLOAD).await.unwrap();
            operations = sim.ops() - before;
            appends += 1;
        }
        for failing in 0..operations {
            let sim = SimDisk::new(1, Faults::default());
            let disk = Disk::Sim(sim.clone());
            let mut log = SchemaLog::create(&disk, 1).await.unwrap();
            for _ in 1..appends {
                log.append(&PAYLOAD).await.unwrap();
            }
            sim.set_faults(Faults { fail_op: Some(failing), ..Faults::default() });
            let refused = log.append(&PAYLOAD).await;
            assert!(matches!(refused, Err(Error::Poisoned(_))), "{failing}: {refused:?}");
            let again = log.append(&PAYLOAD).await;
            assert!(matches!(again, Err(Error::Poisoned(_))), "{failing}: {again:?}");
        }
    });
}

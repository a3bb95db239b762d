//! The contract of the disk, checked on both forms, and what only the simulator can show.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use futures_lite::future::poll_once;
use messina_engine::Error;
use messina_engine::commitlog::{Config, Log, Position, Replay};
use messina_engine::io::{Crash, Disk, Faults, File, Outcome, RelPath, SimDisk, SimExec};
use messina_engine::manifest::{Edit, Manifest, State};

fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

/// `len` bytes that tell their position.
fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|i| (i / 7 % 251) as u8 ^ salt).collect()
}

async fn write(file: &File, offset: u64, bytes: &[u8]) -> Result<(), Error> {
    let mut buf = file.buf(bytes.len());
    buf.put(bytes);
    buf.pad_to(4096);
    file.write_at(buf, offset).await
}

/// What every implementation of the disk must do.
async fn contract(disk: Disk) {
    let dir = path("d");
    disk.mkdir(&dir).await.unwrap();
    disk.mkdir(&dir).await.unwrap();
    let (one, two) = (dir.join("one"), dir.join("two"));

    let file = disk.create(&one).await.unwrap();
    assert!(matches!(disk.create(&one).await, Err(Error::Io { errno: libc::EEXIST, .. })));
    assert!(file.is_empty());
    let bytes = pattern(300_000, 0);
    write(&file, 0, &bytes).await.unwrap();
    assert_eq!(file.len(), 303_104);
    file.set_len(300_000).await.unwrap();
    file.sync().await.unwrap();

    // Any offset and length, across the split of large reads, and short at the end only.
    for (offset, len) in
        [(0, 1), (1, 4096), (511, 2), (100, 200_000), (299_999, 10), (4095, 131_072)]
    {
        let view = file.read_at(offset as u64, len).await.unwrap();
        assert_eq!(*view, bytes[offset..(offset + len).min(300_000)], "{offset} {len}");
    }
    assert!(file.read_at(300_000, 10).await.unwrap().is_empty());
    assert!(matches!(file.read_exact_at(299_999, 2).await, Err(Error::Corrupt { .. })));
    let view = file.read_at(1000, 100).await.unwrap().slice(10, 20);
    assert_eq!(*view, bytes[1010..1020]);
    file.close().await.unwrap();

    // Names.
    disk.rename(&one, &two).await.unwrap();
    disk.sync_dir(&dir).await.unwrap();
    assert!(!disk.exists(&one).await.unwrap());
    assert!(matches!(disk.open(&one).await, Err(Error::NotFound { .. })));
    let names = disk.list(&dir).await.unwrap();
    assert_eq!(names.len(), 1);
    assert_eq!((names[0].name.as_str(), names[0].is_dir), ("two", false));
    assert!(disk.list(&RelPath::root()).await.unwrap()[0].is_dir, "the probe is gone");
    assert!(disk.rmdir(&dir).await.is_err(), "it is not empty");

    // A log file: reserved, written durably, over and over.
    let log = disk.open_log(&two).await.unwrap();
    assert_eq!(log.len(), 300_000);
    log.allocate(1 << 20).await.unwrap();
    assert_eq!(log.len(), 1 << 20);
    write(&log, 8192, &pattern(8192, 9)).await.unwrap();
    assert_eq!(*log.read_at(8192, 8192).await.unwrap(), pattern(8192, 9));
    assert_eq!(*log.read_at(8000, 192).await.unwrap(), bytes[8000..8192]);
    log.close().await.unwrap();
    let reopened = disk.open(&two).await.unwrap();
    assert!(write(&reopened, 0, &[0; 4096]).await.is_err(), "opened for reading");
    reopened.clone().close().await.unwrap();
    assert_eq!(reopened.len(), 1 << 20);
    reopened.close().await.unwrap();

    // One process at a time.
    let lock = disk.lock(&path("lock")).await.unwrap();
    assert!(matches!(disk.lock(&path("lock")).await, Err(Error::InUse { .. })));
    drop(lock);
    disk.lock(&path("lock")).await.unwrap();

    let space = disk.free_space().await.unwrap();
    assert!(space.free_bytes > 0 && space.free_bytes <= space.total_bytes);
    disk.unlink(&two).await.unwrap();
    disk.rmdir(&dir).await.unwrap();
    assert!(!disk.exists(&dir).await.unwrap());
}

#[test]
fn the_real_disk_keeps_the_contract() {
    let root = tempfile::tempdir().unwrap();
    glommio::LocalExecutor::default().run(async {
        contract(Disk::at(root.path()).await.unwrap()).await;
    });
}

/// How many descriptors of this process are of a path with these letters.
fn descriptors_of(name: &str) -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    let shown = all.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    shown.filter(|path| path.to_string_lossy().contains(name)).count()
}

/// The kernel frees the blocks of an unlinked file with its last descriptor, which takes long.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it waits for another thread, while the core stands still"
)]
fn a_file_that_is_dropped_is_not_closed_on_the_core() {
    let root = tempfile::tempdir().unwrap();
    glommio::LocalExecutor::default().run(async {
        let disk = Disk::at(root.path()).await.unwrap();
        // Which file loses its name after it was dropped is not known yet.
        for is_unlinked in [true, false] {
            let file = disk.create(&path("dropped-file")).await.unwrap();
            write(&file, 0, &pattern(8192, 0)).await.unwrap();
            if is_unlinked {
                disk.unlink(&path("dropped-file")).await.unwrap();
            }
            assert_eq!(*file.read_at(0, 8192).await.unwrap(), pattern(8192, 0), "still open");
            drop(file);
            // The core does nothing from here on: it is another thread that closes.
            let began = std::time::Instant::now();
            while descriptors_of("dropped-file") > 0 {
                assert!(began.elapsed().as_secs() < 10, "it waits for the core");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    });
}

/// Before: where a read ended while it opened a file, the descriptor stayed open for ever.
#[test]
fn a_file_whose_opening_is_waited_for_no_more_is_closed() {
    const SOON: std::time::Duration = std::time::Duration::from_millis(2);
    let root = tempfile::tempdir().unwrap();
    glommio::LocalExecutor::default().run(async {
        let (disk, name) = (Disk::at(root.path()).await.unwrap(), path("opened-in-vain"));
        disk.create(&name).await.unwrap().close().await.unwrap();
        for _ in 0..3 {
            assert_eq!(messina_engine::io::in_executor(), 0);
            let mut opening = Box::pin(disk.open(&name));
            assert!(poll_once(&mut opening).await.is_none());
            assert_eq!(messina_engine::io::in_executor(), 1, "the core knows of it");
            // It is opened now, and was not taken.
            glommio::timer::sleep(SOON).await;
        }
        let mut waited = 0;
        while descriptors_of("opened-in-vain") > 0 {
            waited += 1;
            assert!(waited < 5000, "it stays open");
            glommio::timer::sleep(SOON).await;
        }
    });
}

#[test]
fn a_log_and_a_manifest_work_on_the_real_disk() {
    let root = tempfile::tempdir().unwrap();
    glommio::LocalExecutor::default().run(async {
        let disk = Disk::at(root.path()).await.unwrap();
        let dir = RelPath::root();
        let config = Config { segment_bytes: 1 << 20, log_bytes_max: 8 << 20, ..Config::new(1) };
        let manifest = Manifest::create(&disk, &dir, 1, State::default()).await.unwrap();
        let log = Log::create(&disk, &dir, config.clone()).await.unwrap();
        let mut flushed = Position::ZERO;
        for sequence in 0..2000 {
            log.prepare().await.unwrap();
            let end = log.append(0, sequence, &pattern(2000, sequence as u8)).unwrap();
            if sequence % 50 == 0 {
                while log.pending_bytes() > 0 {
                    log.write_pending().await.unwrap();
                }
            }
            if sequence == 1000 {
                flushed = end;
                let edit = Edit { flushed: Some(end), ..Edit::default() };
                manifest.commit(&edit).await.unwrap();
                log.mark_flushed(end);
            }
        }
        while log.pending_bytes() > 0 {
            log.write_pending().await.unwrap();
        }
        log.claim().await.unwrap();
        drop(log);
        assert_eq!(Manifest::open(&disk, &dir, 2).await.unwrap().state().flushed, flushed);
        let mut replay = Replay::open(&disk, &dir, flushed).await.unwrap();
        let mut sequence = 1001;
        while let Some(record) = replay.next().await.unwrap() {
            assert_eq!(record.sequence, sequence);
            assert_eq!(record.payload, pattern(2000, sequence as u8));
            sequence += 1;
        }
        assert_eq!(sequence, 2000);
        let tail = replay.finish().await.unwrap();
        let log = Log::resume(&disk, &dir, config, tail).await.unwrap();
        log.append(0, sequence, b"more").unwrap();
        log.write_pending().await.unwrap();
    });
}

#[test]
fn the_simulated_disk_keeps_the_contract() {
    for seed in 0..20 {
        let faults = Faults { suspensions_max: 3, ..Faults::default() };
        let disk = Disk::Sim(SimDisk::new(seed, faults));
        SimExec::new(seed).run(contract(disk)).done();
    }
}

/// Runs to the end or to the power cut.
fn run(disk: &SimDisk, seed: u64, f: impl AsyncFnOnce(Disk) + 'static) -> Outcome<()> {
    let disk = Disk::Sim(disk.clone());
    SimExec::new(seed).run(async move { f(disk).await })
}

/// Creates `a` with two blocks of ones, synced with its name; then two of twos that are not.
async fn half_synced(disk: Disk) {
    let file = disk.create(&path("a")).await.unwrap();
    write(&file, 0, &[1; 8192]).await.unwrap();
    file.sync().await.unwrap();
    disk.sync_dir(&RelPath::root()).await.unwrap();
    write(&file, 0, &[2; 8192]).await.unwrap();
    disk.create(&path("b")).await.unwrap();
}

#[test]
fn a_crash_keeps_what_was_flushed_and_any_part_of_the_rest() {
    let disk = SimDisk::new(1, Faults::default());
    run(&disk, 1, half_synced).done();
    let bytes_of = |crash, seed| disk.crash(seed, crash).bytes(&path("a")).unwrap();
    assert_eq!(bytes_of(Crash::Nothing, 0), [1; 8192]);
    assert_eq!(bytes_of(Crash::Everything, 0), [2; 8192]);
    let (mut torn, mut named) = (0, 0);
    for seed in 0..100 {
        let after = disk.crash(seed, Crash::Random);
        let bytes = after.bytes(&path("a")).unwrap();
        assert_eq!(bytes.len(), 8192);
        for sector in bytes.chunks(512) {
            assert!(sector == [1; 512] || sector == [2; 512], "a sector is whole");
        }
        torn += u32::from(bytes[..] != [1; 8192] && bytes[..] != [2; 8192]);
        named += u32::from(after.bytes(&path("b")).is_some());
    }
    assert!(torn > 20 && named > 20 && named < 80, "torn {torn}, named {named}");
}

#[test]
fn a_name_without_its_directory_synced_may_be_gone() {
    let disk = SimDisk::new(1, Faults::default());
    run(&disk, 1, async |disk| {
        let file = disk.create(&path("a")).await.unwrap();
        write(&file, 0, &[1; 4096]).await.unwrap();
        file.sync().await.unwrap();
    })
    .done();
    assert_eq!(disk.crash(0, Crash::Nothing).bytes(&path("a")), None);
}

#[test]
fn a_durable_write_is_durable_and_orders_nothing_else() {
    let disk = SimDisk::new(1, Faults::default());
    disk.plant(&path("log"), vec![0; 16384]);
    run(&disk, 1, async |disk| {
        let log = disk.open_log(&path("log")).await.unwrap();
        write(&log, 4096, &[7; 4096]).await.unwrap();
    })
    .done();
    for seed in 0..20 {
        let bytes = disk.crash(seed, Crash::Random).bytes(&path("log")).unwrap();
        assert_eq!(bytes[4096..8192], [7; 4096]);
        assert_eq!(bytes.len(), 16384);
    }
}

#[test]
fn a_power_cut_in_the_middle_of_each_operation_ends_the_run_there() {
    let whole = SimDisk::new(3, Faults::default());
    run(&whole, 3, half_synced).done();
    for op in 0..whole.ops() {
        let disk = SimDisk::new(3, Faults { crash_at_op: Some(op), ..Faults::default() });
        assert_eq!(run(&disk, 3, half_synced), Outcome::Stalled);
        assert!(disk.is_crashed());
        assert_eq!(disk.ops(), op + 1);
    }
    let disk = SimDisk::new(3, Faults { crash_after_writes: Some(1), ..Faults::default() });
    assert_eq!(run(&disk, 3, half_synced), Outcome::Stalled);
    assert_eq!(disk.crash(0, Crash::Nothing).bytes(&path("a")), None);
}

#[test]
fn a_sync_fails_once_and_then_lies() {
    let disk = SimDisk::new(1, Faults { fail_op: Some(2), ..Faults::default() });
    run(&disk, 1, async |disk| {
        let file = disk.create(&path("a")).await.unwrap();
        write(&file, 0, &[1; 4096]).await.unwrap();
        assert!(file.sync().await.is_err());
        file.sync().await.unwrap();
        disk.sync_dir(&RelPath::root()).await.unwrap();
        assert_eq!(*file.read_at(0, 4096).await.unwrap(), [1; 4096], "it is still shown");
    })
    .done();
    let after = disk.crash(0, Crash::Everything).bytes(&path("a")).unwrap();
    assert!(after.iter().all(|byte| *byte == 0), "and never became durable");
}

#[test]
fn each_fault_is_reported_or_visible() {
    let one = |faults: Faults| SimDisk::new(5, faults);
    let disk = one(Faults { write_error_one_in: 1, ..Faults::default() });
    run(&disk, 1, async |disk| {
        let file = disk.create(&path("a")).await.unwrap();
        let failed = write(&file, 0, &[1; 4096]).await.unwrap_err();
        assert_eq!(failed, Error::Io { op: "write", file: "a".into(), errno: libc::EIO });
    })
    .done();
    let disk = one(Faults { short_write_one_in: 1, ..Faults::default() });
    run(&disk, 1, async |disk| {
        let file = disk.create(&path("a")).await.unwrap();
        let failed = write(&file, 0, &[1; 4096]).await.unwrap_err();
        assert_eq!(failed, Error::Io { op: "write", file: "a".into(), errno: 0 });
    })
    .done();
    let disk = one(Faults { quota_bytes: Some(8192), ..Faults::default() });
    run(&disk, 1, async |disk| {
        let file = disk.create(&path("a")).await.unwrap();
        write(&file, 0, &[1; 8192]).await.unwrap();
        assert!(matches!(write(&file, 8192, &[1; 4096]).await, Err(Error::DiskFull { .. })));
        assert!(matches!(file.allocate(8193).await, Err(Error::DiskFull { .. })));
        write(&file, 4096, &[2; 4096]).await.unwrap();
        assert_eq!(disk.free_space().await.unwrap().free_bytes, 0);
    })
    .done();
    let disk = one(Faults { flip_one_in: 1, ..Faults::default() });
    disk.plant(&path("a"), vec![0; 4096]);
    run(&disk, 1, async |disk| {
        let read = disk.open(&path("a")).await.unwrap().read_at(0, 4096).await.unwrap();
        assert_eq!(read.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    })
    .done();
    let disk = one(Faults { misdirect_one_in: 1, ..Faults::default() });
    disk.plant(&path("a"), vec![0; 1 << 20]);
    run(&disk, 1, async |disk| {
        let file = disk.open_log(&path("a")).await.unwrap();
        write(&file, 8192, &[1; 4096]).await.unwrap();
        assert_ne!(*file.read_at(8192, 4096).await.unwrap(), [1; 4096]);
    })
    .done();
}

#[test]
fn two_runs_of_one_seed_are_the_same_run() {
    let trace = |seed| {
        let disk = SimDisk::new(seed, Faults { suspensions_max: 4, ..Faults::default() });
        run(&disk, seed, half_synced).done();
        disk.trace()
    };
    assert_eq!(trace(1), trace(1));
}

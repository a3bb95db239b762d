//! Operations on real files, by a ring that is looked at between their turns.
//!
//! Each test has a directory of its own, an executor of glommio and a ring. `driven` polls a future and takes what the
//! kernel has done in between, as a pass of a shard does.
//!
//! What is tested: bytes and errors come back; what the kernel does not take at once is reported and taken later;
//! requests of jobs follow one another; more operations than the ring takes, of which some futures are dropped, all
//! come to their end.
//!
//! Not here: the order of requests by itself (`schedule/tests.rs`), what durability means
//! (`engine/tests/disk_contract.rs`).

use std::pin::pin;

use futures_lite::future::{poll_once, yield_now};

use super::*;
use crate::io::dma::DmaDisk;
use crate::io::{Buf, RelPath};
use crate::limits::WRITE_ALIGN_BYTES;

/// Runs `future` with a ring that is looked at between its turns.
async fn driven<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Some(output) = poll_once(future.as_mut()).await {
            return output;
        }
        take_done();
        yield_now().await;
    }
}

fn on_disk<T>(test: impl AsyncFnOnce(DmaDisk) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    glommio::LocalExecutor::default().run(async {
        let disk = DmaDisk::at(dir.path()).await.unwrap();
        open_ring().unwrap();
        test(disk).await
    })
}

fn filled(mut buf: Buf, byte: u8) -> Buf {
    let space = buf.space();
    buf.put(&vec![byte; space]);
    buf
}

fn path(name: &str) -> RelPath {
    RelPath::root().join(name)
}

/// Before: what the device was measured to take was known before the ring was open, and forgotten.
#[test]
fn limits_that_are_known_before_the_ring_is_open_are_those_of_the_ring() {
    limit(InFlightLimits { jobs: 2, ahead: 9 });
    open_ring().unwrap();
    let mut begun = 0;
    with_schedule(|schedule| {
        begun = (0..20).filter(|&key| schedule.ask(IoClass::Ahead, 4096, key)).count();
        (0..begun).for_each(|_| schedule.ended(IoClass::Ahead));
        let waited = (0..20).filter(|&key| schedule.forget(IoClass::Ahead, key)).count();
        assert_eq!(begun + waited, 20);
    });
    limit(InFlightLimits::default());
    assert_eq!(begun, 9);
}

#[test]
fn what_is_written_and_flushed_is_read_again() {
    on_disk(async |disk| {
        let file = disk.create(&path("file")).await.unwrap();
        for block in 0..3 {
            let buf = filled(file.buf(WRITE_ALIGN_BYTES), block);
            let offset = u64::from(block) * WRITE_ALIGN_BYTES as u64;
            let written = driven(file.write_at(buf, offset)).await;
            assert_eq!(written.unwrap(), WRITE_ALIGN_BYTES);
        }
        driven(file.sync()).await.unwrap();
        let view = driven(file.read_at(WRITE_ALIGN_BYTES as u64 - 1, 3)).await.unwrap();
        assert_eq!(*view, [0, 1, 1]);
        let end = driven(file.read_at(3 * WRITE_ALIGN_BYTES as u64 - 2, 100)).await.unwrap();
        assert_eq!(*end, [2, 2], "cut where the file ends");
    });
}

#[test]
fn an_error_of_the_kernel_comes_back() {
    on_disk(async |disk| {
        drop(disk.create(&path("file")).await.unwrap());
        let file = disk.open(&path("file")).await.unwrap();
        let buf = filled(file.buf(WRITE_ALIGN_BYTES), 1);
        let refused = driven(file.write_at(buf, 0)).await.unwrap_err();
        assert!(refused.to_string().contains("write"), "{refused}");
    });
}

/// Before: a core slept for up to a second beside operations that the kernel had never been told of.
#[test]
fn what_the_kernel_does_not_take_is_said_and_taken_later() {
    on_disk(async |disk| {
        let file = disk.create(&path("file")).await.unwrap();
        let buf = filled(file.buf(WRITE_ALIGN_BYTES), 7);
        driven(file.write_at(buf, 0)).await.unwrap();
        hold();
        let mut read = Box::pin(file.read_at(0, 1));
        assert!(poll_once(read.as_mut()).await.is_none());
        for errno in [libc::EAGAIN, libc::EBUSY] {
            let refuse = |_: &IoUring| Err(io::Error::from_raw_os_error(errno));
            assert_eq!(with_ring(|ring| ring.flush_by(refuse)), Flushed::Part);
            assert_eq!(with_ring(|ring| ring.unflushed), 1);
        }
        assert_eq!(flush(), Flushed::All);
        assert_eq!(*driven(read).await.unwrap(), [7]);
        assert_eq!(flush(), Flushed::All, "nothing is left");
    });
}

/// Of jobs one request is with the device at a time; a read beside them does not wait.
#[test]
fn requests_of_jobs_follow_one_another() {
    on_disk(async |disk| {
        let file = disk.create(&path("file")).await.unwrap().of_class(IoClass::Flush);
        let block = WRITE_ALIGN_BYTES as u64;
        let write = |number: u8| {
            let buf = filled(file.buf(WRITE_ALIGN_BYTES), number);
            Box::pin(file.write_at(buf, u64::from(number) * block))
        };
        driven(write(3)).await.unwrap();
        let mut writes: Vec<_> = (0..3).map(write).collect();
        for write in &mut writes {
            assert!(poll_once(write.as_mut()).await.is_none());
        }
        assert_eq!(with_ring(|ring| ring.schedule.begun_of(IoClass::Flush)), 1);
        let reader = file.of_class(IoClass::Read);
        let mut read = Box::pin(reader.read_at(3 * block, 1));
        assert!(poll_once(read.as_mut()).await.is_none());
        assert_eq!(with_ring(|ring| ring.schedule.begun_of(IoClass::Read)), 1);
        assert_eq!(*driven(read).await.unwrap(), [3]);
        for write in writes {
            driven(write).await.unwrap();
        }
        let all = driven(file.read_at(0, 3 * WRITE_ALIGN_BYTES)).await.unwrap();
        assert_eq!([all[0], all[WRITE_ALIGN_BYTES], all[2 * WRITE_ALIGN_BYTES]], [0, 1, 2]);
        assert_eq!(with_ring(|ring| ring.schedule.counts()[IoClass::Flush as usize].waited), 2);
    });
}

/// What exceeds the ring waits for its turn, and an operation that no task awaits is finished.
#[test]
fn more_than_the_ring_takes_and_some_abandoned() {
    on_disk(async |disk| {
        let file = disk.create(&path("file")).await.unwrap();
        let buf = filled(file.buf(WRITE_ALIGN_BYTES), 7);
        driven(file.write_at(buf, 0)).await.unwrap();
        hold();
        let mut reads: Vec<_> =
            (0..RING_OPERATIONS_MAX + 50).map(|_| Box::pin(file.read_at(0, 1))).collect();
        for read in &mut reads {
            assert!(poll_once(read.as_mut()).await.is_none());
        }
        assert!(with_ring(
            |ring| ring.schedule.waiting_of(IoClass::Read) == 50 && ring.unflushed > 0
        ));
        flush();
        reads.truncate(RING_OPERATIONS_MAX + 25);
        let abandoned = reads.split_off(RING_OPERATIONS_MAX);
        drop(abandoned);
        for read in reads {
            assert_eq!(*driven(read).await.unwrap(), [7]);
        }
        while with_ring(|ring| ring.schedule.begun_of(IoClass::Read) > 0) {
            take_done();
            yield_now().await;
        }
        assert!(with_ring(|ring| ring.operations.is_empty()));
        assert_eq!(with_ring(|ring| ring.schedule.waiting_of(IoClass::Read)), 0);
    });
}

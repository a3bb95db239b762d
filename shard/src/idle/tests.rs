//! Two cores that sleep and wake each other, and one that sleeps on sockets, files and timers.
//!
//! Each test launches real cores with executors and rings. A wake-up that is lost shows as a test that takes as long as
//! the watch of the executor (`WATCH_INTERVAL`), or that does not end.
//!
//! What wakes a core: mail, bytes on a socket (also beside a job that computes), a task of the same core (also if it
//! notified before the core slept), an operation on a file by either ring. A core whose operations the kernel has not
//! taken sleeps briefly.
//!
//! Not here: when a core looks for work before it sleeps (`gaps.rs`), the mesh (`mailbox/mesh.rs`).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use engine::io::{Disk, RelPath};

use super::*;
use crate::limits::{SLICE, WATCH_INTERVAL};
use crate::mailbox::{Port, mesh};
use crate::os::epoll::{Interest, Poller};
use crate::runtime::{CoreConfig, launch, sleep};

const NO_SPIN: Duration = Duration::ZERO;

/// Plays ping-pong over the mesh, sleeping whenever there is no mail.
async fn play(runtime: Runtime, port: Port<u32>, spin: Duration, rounds: u32) {
    let Port { mut inbox, mut outbox } = port;
    let me = outbox.me();
    let peer = ShardId::new(1 - me.index());
    let mut poller = Poller::new().unwrap();
    let core = (outbox.bells().clone(), me);
    let idle = Idle::new(&runtime, core, &poller, Arc::default(), spin).unwrap();
    if me.index() == 0 {
        outbox.send(peer, 1).unwrap();
    }
    outbox.publish();
    let mut seen = 0;
    while seen + 1 < rounds {
        idle.wait(InFlight::Nothing, &mut poller, || inbox.has_mail()).await;
        poller.ready().for_each(drop);
        let answer = |from, n| {
            seen = n;
            outbox.send(from, n + 1).unwrap();
        };
        inbox.drain(16, answer, || false);
        outbox.publish();
    }
    idle.close().await;
}

fn ping_pong(spin: Duration, rounds: u32) {
    let cores: Vec<_> = mesh::<u32>(2)
        .unwrap()
        .into_iter()
        .map(|port| {
            let main = move |runtime| play(runtime, port, spin, rounds);
            launch(CoreConfig::new("play", None), main).unwrap()
        })
        .collect();
    for core in cores {
        core.join().unwrap().unwrap();
    }
}

/// The sleep of a core that has no others, and what ends it.
fn alone(runtime: &Runtime) -> (Idle, Poller, Arc<Notify>) {
    let bells: Arc<[Bell]> = vec![Bell::new().unwrap()].into();
    let (poller, wake) = (Poller::new().unwrap(), Arc::new(Notify::new()));
    let core = (bells, ShardId::new(0));
    let idle = Idle::new(runtime, core, &poller, wake.clone(), NO_SPIN).unwrap();
    (idle, poller, wake)
}

/// Mail wakes a sleeping core, thousands of times without one being lost.
#[test]
fn mail_wakes_a_parked_core() {
    ping_pong(NO_SPIN, 4000);
}

/// The same when both look for a moment before they sleep.
#[test]
fn mail_reaches_a_spinning_core() {
    ping_pong(Duration::from_micros(20), 4000);
}

/// Bytes on a socket wake a sleeping core, before and after it has gone to sleep.
#[test]
fn a_socket_wakes_a_parked_core() {
    let (near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let core = launch(CoreConfig::new("socket", None), move |runtime| async move {
        let (idle, mut poller, _) = alone(&runtime);
        poller.add(near.as_fd(), 0, Interest::Read).unwrap();
        let mut byte = [0; 1];
        for _ in 0..200 {
            while (&near).read(&mut byte).is_err() {
                idle.wait(InFlight::Nothing, &mut poller, || false).await;
                poller.ready().for_each(drop);
            }
            (&near).write_all(&byte).unwrap();
        }
        idle.close().await;
    })
    .unwrap();
    for i in 0..200u8 {
        let mut byte = [i];
        far.write_all(&byte).unwrap();
        far.read_exact(&mut byte).unwrap();
        assert_eq!(byte[0], i);
    }
    core.join().unwrap().unwrap();
}

/// A task of the same core wakes it, and a notification from before the wait counts.
#[test]
fn a_local_task_wakes_its_core() {
    let core = launch(CoreConfig::new("local", None), |runtime| async move {
        let (idle, mut poller, wake) = alone(&runtime);
        wake.notify();
        idle.wait(InFlight::Disk, &mut poller, || false).await;
        runtime.spawn(Group::Log, async move {
            sleep(Duration::from_millis(2)).await;
            wake.notify();
        });
        idle.wait(InFlight::Disk, &mut poller, || false).await;
        idle.between_passes(InFlight::Disk, Instant::now()).await;
        idle.close().await;
    });
    core.unwrap().join().unwrap().unwrap();
}

/// In the executor as elsewhere. What tasks do while the pass waits there is no sleep.
#[test]
fn a_sleep_is_told_from_what_other_tasks_do_meanwhile() {
    let (nap, work) = (Duration::from_millis(40), Duration::from_millis(20));
    let core = launch(CoreConfig::new("slept", None), move |runtime| async move {
        let (idle, mut poller, wake) = alone(&runtime);
        for in_executor in [false, true] {
            let (before, began, wake) = (runtime.times(), Instant::now(), wake.clone());
            let worked = Rc::new(Cell::new(Duration::ZERO));
            let works = worked.clone();
            runtime.spawn(Group::Compaction, async move {
                let operation = in_executor.then(outstanding::operation);
                sleep(nap).await;
                let begins = Instant::now();
                while begins.elapsed() < work {}
                works.set(begins.elapsed());
                drop(operation);
                wake.notify();
            });
            while worked.get().is_zero() {
                idle.wait(InFlight::Disk, &mut poller, || false).await;
            }
            let slept = runtime.times().slept - before.slept;
            let most = began.elapsed() - worked.get();
            assert!(slept >= nap / 2 && slept <= most, "{slept:?} of {most:?}, {in_executor}");
        }
        idle.close().await;
    });
    core.unwrap().join().unwrap().unwrap();
}

/// What a file brings wakes a sleeping core at once, whether by the core's own ring (a write) or by the
/// executor's (an opening): a core that slept on would be woken by the executor's watch, a second later.
#[test]
fn a_file_wakes_its_core() {
    const ROUNDS: usize = 40;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let core = launch(CoreConfig::new("file", None), move |runtime| async move {
        let disk = Disk::at(&root).await.unwrap();
        let path = RelPath::root().join("log");
        disk.create(&path).await.unwrap().close().await.unwrap();
        let (idle, mut poller, wake) = alone(&runtime);
        let (done, mut late) = (Rc::new(Cell::new(0)), 0);
        for round in 1..=ROUNDS {
            let began = Instant::now();
            let (wake, ended, disk, path) =
                (wake.clone(), done.clone(), disk.clone(), path.clone());
            runtime.spawn(Group::Log, async move {
                let file = disk.open_log(&path).await.unwrap();
                let mut buf = file.buf(1);
                buf.put_zeros(buf.space());
                file.write_at(buf, 0).await.unwrap();
                ended.set(round);
                wake.notify();
            });
            while done.get() < round {
                idle.wait(InFlight::Disk, &mut poller, || false).await;
                poller.ready().for_each(drop);
            }
            late += usize::from(began.elapsed() > WATCH_INTERVAL / 2);
        }
        assert!(late < ROUNDS / 4, "{late} of {ROUNDS} ended with the watch");
        idle.close().await;
    });
    core.unwrap().join().unwrap().unwrap();
}

/// Before: a core slept to its next alarm, or without end, beside operations that the kernel had not taken.
#[test]
fn a_core_with_operations_that_the_kernel_has_not_taken_sleeps_briefly() {
    let (short, long) = (RING_RETRY / 2, RING_RETRY * 1000);
    assert_eq!(sleep_at_most(None, Flushed::All), None);
    assert_eq!(sleep_at_most(Some(long), Flushed::All), Some(long));
    assert_eq!(sleep_at_most(None, Flushed::Part), Some(RING_RETRY));
    assert_eq!(sleep_at_most(Some(long), Flushed::Part), Some(RING_RETRY));
    assert_eq!(sleep_at_most(Some(short), Flushed::Part), Some(short));
}

/// While nothing waits for the executor's rings a job only yields after a slice, so it wakes a sleeping pass itself.
/// Without that the pass slept until the executor's own preemption, 100 ms and hundreds of slices later.
#[test]
fn a_pass_that_sleeps_is_woken_beside_a_job_that_computes() {
    let core = launch(CoreConfig::new("woken", None), |runtime| async move {
        let (idle, mut poller, _) = alone(&runtime);
        let (near, mut far) = UnixStream::pair().unwrap();
        poller.add(near.as_fd(), 7, Interest::Read).unwrap();
        let (slices, stop) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let (counted, stopped) = (slices.clone(), stop.clone());
        let yielder = runtime.yielder(Group::Flush);
        runtime.spawn(Group::Flush, async move {
            while !stopped.get() {
                let began = Instant::now();
                while began.elapsed() < SLICE {}
                counted.set(counted.get() + 1);
                if counted.get() == 5 {
                    far.write_all(b"a").unwrap();
                }
                yielder.yield_if_due().await;
            }
        });
        while !poller.has_ready() {
            idle.wait(InFlight::Disk, &mut poller, || false).await;
            poller.poll().unwrap();
        }
        stop.set(true);
        assert!((5..40).contains(&slices.get()), "{} slices", slices.get());
        idle.close().await;
    });
    core.unwrap().join().unwrap().unwrap();
}

/// A pass beside a job that waits for its own file again and again: it sleeps in a system call of its own once the job
/// waits, and what comes on a socket meanwhile wakes it. Before: the executor went to sleep, by a dozen system calls.
#[test]
fn a_pass_sleeps_by_itself_once_the_job_beside_it_waits() {
    let core = launch(CoreConfig::new("alone", None), |runtime| async move {
        let (idle, mut poller, wake) = alone(&runtime);
        let (near, far) = UnixStream::pair().unwrap();
        poller.add(near.as_fd(), 7, Interest::Read).unwrap();
        let (turns, next) = (Rc::new(Cell::new(0)), Arc::new(Notify::new()));
        let (counted, waits) = (turns.clone(), next.clone());
        runtime.spawn(Group::Flush, async move {
            loop {
                // It is runnable still when the pass comes to sleep.
                for _ in 0..5 {
                    std::thread::sleep(Duration::from_micros(100));
                    yield_now().await;
                }
                counted.set(counted.get() + 1);
                waits.notified().await;
            }
        });
        for round in 1..=8 {
            let slept = outstanding::slept();
            let writer = far.try_clone().unwrap();
            let wrote = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                (&writer).write_all(b"a").unwrap();
            });
            while !poller.has_ready() {
                idle.wait(InFlight::Disk, &mut poller, || false).await;
            }
            assert_eq!(turns.get(), round, "the job had its turn and waits");
            let slept = outstanding::slept() - slept;
            assert!(slept > Duration::from_millis(1), "{slept:?} were slept by itself");

            poller.ready().for_each(drop);
            (&near).read_exact(&mut [0]).unwrap();
            wrote.join().unwrap();
            next.notify();
        }
        wake.take();
        idle.close().await;
    });
    core.unwrap().join().unwrap().unwrap();
}

/// A notification for the pass counts though the task that made it was the last one that ran.
#[test]
fn what_the_last_task_notifies_is_not_taken_for_its_end() {
    let core = launch(CoreConfig::new("last", None), |runtime| async move {
        let (idle, mut poller, wake) = alone(&runtime);
        for round in 0..200 {
            let notified = Rc::new(Cell::new(false));
            let (notifies, wake) = (notified.clone(), wake.clone());
            runtime.spawn(Group::Flush, async move {
                for _ in 0..round % 3 {
                    yield_now().await;
                }
                notifies.set(true);
                wake.notify();
            });
            let began = Instant::now();
            while !notified.get() {
                idle.wait(InFlight::Disk, &mut poller, || false).await;
            }
            assert!(began.elapsed() < WATCH_INTERVAL / 2, "round {round} was slept through");
        }
        idle.close().await;
    });
    core.unwrap().join().unwrap().unwrap();
}

//! What a hop between cores costs: the ring alone, two polling threads, two executors, two sleepers.
//!
//! `cargo bench -p messina-bench --bench mailbox`. Two processors are needed for figures that mean anything; with one,
//! the threads take turns.
//!
//! ```text
//! one thread               push, publish, pop                  the ring's instructions
//! two threads              question ─► echo ─► answer          and what the hardware takes from cache to cache
//! two cores, awake         the same, between two executors     and a pass of each
//! two cores, asleep        the same, both sleep in between     and waking by the bell
//! turn                     yield, reap                         what a pass pays to let others run
//! ```
//!
//! Invariant: an item's first word counts down, and an echo ends after the item whose first word is 1, so that every
//! benchmark ends its thread.
//!
//! Not here: a whole pass of a shard (`pass.rs`), the mailbox itself (`shard/src/mailbox.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shard::ShardId;
use shard::idle::{Idle, InFlight};
use shard::mailbox::{Port, mesh};
use shard::os::cpus;
use shard::os::epoll::Poller;
use shard::runtime::{CoreConfig, Runtime, launch, reap, yield_now};

/// As large as a message with a boxed payload. The first word counts down; the last is 1.
type Item = [u64; 4];

/// Processors for two cores, the same one twice if there is no other.
fn two_cpus() -> [usize; 2] {
    let cpus = cpus::allowed().expect("the affinity mask is readable");
    [cpus[0], *cpus.last().expect("we run on one")]
}

/// Pushes and pops on one thread: the instructions of the ring without the cache misses.
fn one_thread(c: &mut Criterion) {
    let mut group = c.benchmark_group("one thread");
    for batch in [1u64, 64] {
        let mut ports = mesh::<Item>(2).expect("two bells");
        let (mut to, mut from) = (ports.pop().expect("port 1"), ports.pop().expect("port 0"));
        group.throughput(Throughput::Elements(batch));
        group.bench_function(format!("batch of {batch}"), |b| {
            b.iter(|| {
                for i in 0..batch {
                    assert!(from.outbox.send(ShardId::new(1), [i; 4]).is_ok());
                }
                from.outbox.publish();
                let mut sum = 0;
                to.inbox.drain(64, |_, item| sum += item[0], || false);
                sum
            });
        });
    }
    group.finish();
}

/// Two bare threads that poll without end: the floor of the hardware.
fn two_threads(c: &mut Criterion) {
    let mut ports = mesh::<Item>(2).expect("two bells");
    let (mut far, mut near) = (ports.pop().expect("port 1"), ports.pop().expect("port 0"));
    let [_, there] = two_cpus();
    let echo = std::thread::spawn(move || {
        cpus::bind(there).expect("an allowed processor");
        while !send_back(&mut far) {}
    });
    c.bench_function("round trip, two threads", |b| b.iter(|| ask(&mut near, [2; 4])));
    ask(&mut near, [1; 4]);
    echo.join().expect("the echo ends");
}

fn ask(port: &mut Port<Item>, item: Item) {
    assert!(port.outbox.send(ShardId::new(1), item).is_ok());
    port.outbox.publish();
    while port.inbox.drain(1, |_, _| (), || false) == 0 {
        std::hint::spin_loop();
    }
}

/// Sends back what has come; whether the last question was in it.
fn send_back(port: &mut Port<Item>) -> bool {
    let Port { inbox, outbox } = port;
    let mut last = false;
    inbox.drain(
        64,
        |from, item| {
            last |= item[0] == 1;
            assert!(outbox.send(from, item).is_ok());
        },
        || false,
    );
    outbox.publish();
    last
}

/// Answers until the last question.
async fn answer(runtime: Runtime, port: Port<Item>, spin: Duration) {
    let mut port = port;
    let core = (port.outbox.bells().clone(), port.outbox.me());
    let mut poller = Poller::new().expect("an epoll set");
    let idle = Idle::new(&runtime, core, &poller, Arc::default(), spin).expect("an eventfd");
    let mut last = false;
    while !last {
        idle.wait(InFlight::Nothing, &mut poller, || port.inbox.has_mail()).await;
        poller.ready().for_each(drop);
        last = send_back(&mut port);
    }
    idle.close().await;
}

/// Asks `rounds` times, each time waiting for the answer.
async fn question(runtime: Runtime, port: Port<Item>, spin: Duration, rounds: u64) -> Duration {
    let Port { mut inbox, mut outbox } = port;
    let core = (outbox.bells().clone(), outbox.me());
    let mut poller = Poller::new().expect("an epoll set");
    let idle = Idle::new(&runtime, core, &poller, Arc::default(), spin).expect("an eventfd");
    let start = Instant::now();
    for left in (1..=rounds).rev() {
        assert!(outbox.send(ShardId::new(1), [left; 4]).is_ok());
        outbox.publish();
        while inbox.drain(1, |_, _| (), || false) == 0 {
            idle.wait(InFlight::Nothing, &mut poller, || inbox.has_mail()).await;
            poller.ready().for_each(drop);
        }
    }
    let took = start.elapsed();
    idle.close().await;
    took
}

fn game(spin: Duration, rounds: u64) -> Duration {
    let mut ports = mesh::<Item>(2).expect("two bells");
    let (far, near) = (ports.pop().expect("port 1"), ports.pop().expect("port 0"));
    let [here, there] = two_cpus();
    let far = launch(CoreConfig::new("far", Some(there)), move |r| answer(r, far, spin));
    let config = CoreConfig::new("near", Some(here));
    let near = launch(config, move |r| question(r, near, spin, rounds));
    let took = near.expect("a thread").join().expect("no panic").expect("an executor");
    far.expect("a thread").join().expect("no panic").expect("an executor");
    took
}

/// Two executors: both always looking, and both asleep whenever there is nothing.
fn two_cores(c: &mut Criterion) {
    let mut group = c.benchmark_group("round trip, two cores");
    group.sample_size(10);
    for (name, spin) in [("awake", Duration::from_secs(1)), ("asleep", Duration::ZERO)] {
        group.bench_function(name, |b| b.iter_custom(|rounds| game(spin, rounds)));
    }
    group.finish();
}

/// What a pass pays to let others run, and to have the rings served.
fn turns(c: &mut Criterion) {
    let mut group = c.benchmark_group("turn");
    group.sample_size(10);
    let timed = |rounds: u64, reaps: bool| {
        let core = launch(CoreConfig::new("turns", Some(two_cpus()[0])), move |_| async move {
            let start = Instant::now();
            for _ in 0..rounds {
                if reaps { reap().await } else { yield_now().await }
            }
            start.elapsed()
        });
        core.expect("a thread").join().expect("no panic").expect("an executor")
    };
    group.bench_function("yield", |b| b.iter_custom(|rounds| timed(rounds, false)));
    group.bench_function("reap", |b| b.iter_custom(|rounds| timed(rounds, true)));
    group.finish();
}

criterion_group!(benches, one_thread, two_threads, two_cores, turns);
criterion_main!(benches);

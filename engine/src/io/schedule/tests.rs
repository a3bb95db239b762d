//! Who goes next and who waits: by rule, by weight, and in any order of asking and ending.
//!
//! A device of the test ends the oldest request first and begins what the schedule names. There is no time: what is
//! asserted are orders and counts. The last test asks, ends and forgets at random, and sees that all that is asked for
//! begins once or is forgotten, and that no limit is passed on the way.
//!
//! Not here: requests of a real ring (`ring/tests.rs`), turns of simulated tasks (`sim_turns.rs`).

use super::*;
use crate::io::Rng;

const BYTES: u64 = 128 << 10;

/// A device that ends what was begun, the oldest first, and knows what that was.
#[derive(Default)]
struct Device(VecDeque<(IoClass, u64)>);

/// Begins all that may begin.
fn give(schedule: &mut Schedule<u64>, device: &mut Device, class_of: &dyn Fn(u64) -> IoClass) {
    while let Some(key) = schedule.next() {
        device.0.push_back((class_of(key), key));
    }
}

/// Ends the oldest request; its key.
fn end(
    schedule: &mut Schedule<u64>,
    device: &mut Device,
    class_of: &dyn Fn(u64) -> IoClass,
) -> u64 {
    let (class, key) = device.0.pop_front().expect("something is with the device");
    schedule.ended(class);
    give(schedule, device, class_of);
    key
}

fn counts(schedule: &Schedule<u64>, class: IoClass) -> ClassCounts {
    schedule.counts()[class as usize]
}

#[test]
fn a_commit_and_a_read_find_one_request_of_jobs_at_most() {
    let mut schedule = Schedule::new();
    schedule.limit(InFlightLimits { jobs: 8, ahead: 8 });
    assert!(schedule.ask(IoClass::Commit, BYTES, 0));
    schedule.ended(IoClass::Commit);
    for key in 1..20 {
        let class = [IoClass::Flush, IoClass::Compaction, IoClass::Check][key as usize % 3];
        assert_eq!(schedule.ask(class, BYTES, key), key == 1, "one at a time");
    }
    for class in [IoClass::Commit, IoClass::Read] {
        assert!(schedule.ask(class, BYTES, 100), "it begins at once");
        assert_eq!(counts(&schedule, class).jobs_before_max, 1);
    }
    schedule.ended(IoClass::Compaction);
    assert!(schedule.next().is_some() && schedule.next().is_none(), "one goes when one has gone");
}

#[test]
fn without_commits_and_reads_jobs_have_what_the_device_takes() {
    let (mut schedule, mut device) = (Schedule::new(), Device::default());
    schedule.limit(InFlightLimits { jobs: 4, ahead: 1 });
    let flush = |_| IoClass::Flush;
    for key in 0..40 {
        if schedule.ask(IoClass::Flush, BYTES, key) {
            device.0.push_back((IoClass::Flush, key));
        }
    }
    for _ in 0..QUIET_REQUESTS {
        assert_eq!(schedule.begun_of(IoClass::Flush), 1);
        end(&mut schedule, &mut device, &flush);
    }
    assert_eq!(schedule.begun_of(IoClass::Flush), 4);
    assert!(schedule.ask(IoClass::Read, 4096, 100));
    for left in (1..4).rev() {
        end(&mut schedule, &mut device, &flush);
        assert_eq!(schedule.begun_of(IoClass::Flush), left, "none begins beside a read");
    }
    schedule.ended(IoClass::Read);
    end(&mut schedule, &mut device, &flush);
    assert_eq!(schedule.begun_of(IoClass::Flush), 1, "and one does for a while after it");
}

#[test]
fn reading_ahead_has_a_limit_of_its_own() {
    let mut schedule = Schedule::new();
    schedule.limit(InFlightLimits { jobs: 1, ahead: 2 });
    assert!(schedule.ask(IoClass::Compaction, BYTES, 0));
    assert!(schedule.ask(IoClass::Ahead, BYTES, 1) && schedule.ask(IoClass::Ahead, BYTES, 2));
    assert!(!schedule.ask(IoClass::Ahead, BYTES, 3));
    assert!(schedule.ask(IoClass::Read, 4096, 4));
    schedule.ended(IoClass::Ahead);
    assert_eq!(schedule.next(), Some(3));
}

/// Of what waits, each class has its part by shares, also after they were changed.
#[test]
fn jobs_share_the_device_by_their_weight() {
    let (mut schedule, mut device) = (Schedule::new(), Device::default());
    schedule.limit(InFlightLimits { jobs: 1, ahead: 1 });
    let class_of =
        |key: u64| if key.is_multiple_of(2) { IoClass::Flush } else { IoClass::Compaction };
    for key in 0..2000 {
        if schedule.ask(class_of(key), BYTES, key) {
            device.0.push_back((class_of(key), key));
        }
    }
    let mut flushes = |schedule: &mut Schedule<u64>, requests: usize| {
        let ended = (0..requests).map(|_| end(schedule, &mut device, &class_of));
        ended.filter(|key| class_of(*key) == IoClass::Flush).count()
    };
    let four_of_five = flushes(&mut schedule, 500);
    assert!((398..=402).contains(&four_of_five), "{four_of_five} of 500");
    schedule.weigh(IoClass::Compaction, 1200);
    let one_of_four = flushes(&mut schedule, 400);
    assert!((98..=102).contains(&one_of_four), "{one_of_four} of 400");
}

/// A class that was idle is not owed the time in which it asked for nothing.
#[test]
fn a_class_that_was_idle_begins_level_with_the_others() {
    let (mut schedule, mut device) = (Schedule::new(), Device::default());
    schedule.limit(InFlightLimits { jobs: 1, ahead: 1 });
    let class_of = |key: u64| if key < 1000 { IoClass::Compaction } else { IoClass::Check };
    let ask = |schedule: &mut Schedule<u64>, device: &mut Device, key| {
        if schedule.ask(class_of(key), BYTES, key) {
            device.0.push_back((class_of(key), key));
        }
    };
    (0..1000).for_each(|key| ask(&mut schedule, &mut device, key));
    for _ in 0..500 {
        end(&mut schedule, &mut device, &class_of);
    }
    (1000..1500).for_each(|key| ask(&mut schedule, &mut device, key));
    let keys = (0..100).map(|_| end(&mut schedule, &mut device, &class_of));
    let checks = keys.filter(|key| class_of(*key) == IoClass::Check).count();
    assert!((48..=51).contains(&checks), "{checks} of 100 at equal shares");
}

#[test]
fn a_full_ring_serves_commits_first_and_reads_before_jobs() {
    let mut schedule = Schedule::new();
    for key in 0..RING_OPERATIONS_MAX as u64 {
        assert!(schedule.ask(IoClass::Read, 4096, key));
    }
    let waiting = [IoClass::Check, IoClass::Read, IoClass::Commit];
    for (key, class) in (1000..).zip(waiting) {
        assert!(!schedule.ask(class, 4096, key));
    }
    for wanted in [1002, 1001, 1000] {
        schedule.ended(IoClass::Read);
        assert_eq!((schedule.next(), schedule.next()), (Some(wanted), None));
    }
}

/// Whatever is asked for, ended and forgotten in whatever order, all that is asked for begins once or is forgotten.
#[test]
fn nothing_waits_for_ever() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (mut schedule, mut device) = (Schedule::new(), Device::default());
        let limits = InFlightLimits { jobs: 1 + rng.index(4), ahead: 1 + rng.index(4) };
        schedule.limit(limits);
        let mut classes = Vec::new();
        let (mut done, mut waits) = (0, Vec::new());
        for _ in 0..300 {
            let class = IoClass::ALL[rng.index(IoClass::ALL.len())];
            let key = classes.len() as u64;
            classes.push(class);
            match schedule.ask(class, rng.below(BYTES), key) {
                true => device.0.push_back((class, key)),
                false => waits.push(key),
            }
            let class_of = |key: u64| classes[key as usize];
            while !device.0.is_empty() && rng.one_in(2) {
                end(&mut schedule, &mut device, &class_of);
                done += 1;
            }
            if rng.one_in(10) && !waits.is_empty() {
                let key = waits[rng.index(waits.len())];
                done += u64::from(schedule.forget(class_of(key), key));
            }
            let jobs: usize = IoClass::ALL
                .iter()
                .filter(|class| class.is_job())
                .map(|class| schedule.begun_of(*class))
                .sum();
            assert!(jobs <= limits.jobs && schedule.begun_of(IoClass::Ahead) <= limits.ahead);
        }
        while !device.0.is_empty() {
            end(&mut schedule, &mut device, &|key| classes[key as usize]);
            done += 1;
        }
        assert_eq!(done, classes.len() as u64, "seed {seed}");
    }
}

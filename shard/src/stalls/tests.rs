//! What is counted of long steps, and what of a wait is the executor's.

use uuid::Uuid;

use super::*;

const PASS: Work = Work { group: Group::Requests, name: "pass", table: None };

fn flush(table: u128) -> Work {
    Work { group: Group::Flush, name: "flush", table: Some(TableId(Uuid::from_u128(table))) }
}

#[test]
fn long_steps_are_counted_by_what_ran_and_the_longest_is_kept() {
    let (stalls, us) = (Stalls::new(), Duration::from_micros);
    for took in [999, 1000, 12_000, 2_500] {
        stalls.note(flush(1), us(took));
    }
    stalls.note(PASS, us(999));
    stalls.note(PASS, us(1001));
    let all = stalls.all();
    assert_eq!(all.len(), 2);
    assert_eq!((all[0].work, all[0].steps, all[0].longest_us), (flush(1), [3, 2, 1, 1, 0], 12_000));
    assert_eq!((all[1].work, all[1].steps, all[1].longest_us), (PASS, [1, 0, 0, 0, 0], 1001));
    assert!(all[0].longest_at_ms > 0 && all[0].waited_us_max <= 12_000);
}

#[test]
fn beyond_so_many_kinds_only_groups_are_told_apart() {
    let stalls = Stalls::new();
    (0..STALLS_MAX as u128 + 9).for_each(|table| stalls.note(flush(table), STALL));
    let all = stalls.all();
    assert_eq!(all.len(), STALLS_MAX + 1);
    assert_eq!((all[STALLS_MAX].work, all[STALLS_MAX].steps[0]), (Work::from(Group::Flush), 9));
}

/// A step of a task is one poll, not what it waits for.
#[test]
fn a_task_is_measured_poll_by_poll() {
    use crate::runtime::{CoreConfig, launch, sleep};
    let core = launch(CoreConfig::new("stalls", None), |runtime| async move {
        let done = Rc::new(Cell::new(false));
        let ends = done.clone();
        runtime.spawn(flush(7), async move {
            sleep(STALL * 3).await;
            let began = Instant::now();
            while began.elapsed() < STALL * 2 {}
            ends.set(true);
        });
        while !done.get() {
            sleep(STALL).await;
        }
        runtime.stalls().all()
    });
    let all = core.unwrap().join().unwrap().unwrap();
    let stall = all.iter().find(|stall| stall.work == flush(7)).expect("it was long");
    assert!(stall.longest_us >= 2 * STALL.as_micros() as u64);
}

#[test]
fn what_the_executor_does_is_told_from_the_steps_that_it_lets_run() {
    let (stalls, ms) = (Stalls::new(), Duration::from_millis);
    let others = async {
        stalls.note(flush(1), ms(50));
        std::thread::sleep(ms(60));
    };
    futures_lite::future::block_on(stalls.executor(others));
    futures_lite::future::block_on(stalls.executor(async {}));
    let all = stalls.all();
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!((all[1].work, all[1].steps[0]), (EXECUTOR, 1));
    assert!((10_000..60_000).contains(&all[1].longest_us), "{all:?}");
}

/// Before: the step that had ended last was taken off what others did.
#[test]
fn a_step_that_has_ended_is_not_taken_off_the_steps_of_others() {
    let (stalls, ms) = (Stalls::new(), Duration::from_millis);
    let began = Instant::now();
    stalls.begins(began);
    std::thread::sleep(ms(40));
    stalls.ended(PASS, began);
    let others = async {
        stalls.note(flush(1), ms(50));
        std::thread::sleep(ms(60));
    };
    let waits = Instant::now();
    let (took, ()) = futures_lite::future::block_on(stalls.outside_steps(waits, others));
    assert!(took <= waits.elapsed() - ms(50), "{took:?}");
}

/// A step in which the thread sleeps is long, and did not compute, whatever the core computed before.
#[test]
fn what_a_step_computed_is_told_from_what_it_took() {
    let (stalls, ms) = (Stalls::new(), Duration::from_millis);
    let compute = |span: Duration| {
        let begun = cpu_time::of_this_thread();
        while cpu_time::of_this_thread() - begun < span {}
    };
    let step = |work, run: &dyn Fn()| {
        let began = Instant::now();
        stalls.begins(began);
        run();
        stalls.ended(work, began);
    };
    compute(ms(30));
    step(PASS, &|| std::thread::sleep(ms(20)));
    step(flush(1), &|| compute(ms(12)));
    let all = stalls.all();
    assert_eq!((all[0].steps[3], all[0].computed_steps[3]), (1, 0), "{all:?}");
    assert!(all[0].longest_us >= 20_000 && all[0].computed_us < 10_000, "{all:?}");
    assert_eq!((all[1].steps[3], all[1].computed_steps[3]), (1, 1), "{all:?}");
    assert!(all[1].computed_us >= 12_000 && all[1].computed_us_max >= 12_000, "{all:?}");
    assert!(all.iter().all(|stall| stall.computed_us + stall.waited_us_max <= stall.longest_us));
}

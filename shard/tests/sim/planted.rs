//! A test of the test: what whole lives and power cuts notice of the bugs that can be planted.

use std::panic::catch_unwind;

use engine::planted::{Bug, plant};

use crate::LIVES;
use crate::life::live;
use crate::views;

/// How many worlds a bug may survive.
const SEEDS_MAX: u64 = 2000;

/// This shows where bytes rot on the disk: the stories of `engine/tests/planted.rs` do that.
const BENEATH: [Bug; 1] = [Bug::NoTailRule];

/// The first world in which the bug shows.
fn caught_by(bug: Bug, live: fn(u64)) -> Option<u64> {
    plant(Some(bug));
    let caught = (1..=SEEDS_MAX).find(|seed| catch_unwind(|| live(*seed)).is_err());
    plant(None);
    caught
}

#[test]
fn a_bug_in_the_engine_is_caught() {
    let bugs = Bug::OF_FILES.into_iter().chain(Bug::OF_ENGINE);
    all_are_caught(bugs.filter(|bug| !BENEATH.contains(bug)), of_engines);
}

#[test]
fn a_bug_in_reading_is_caught() {
    all_are_caught(Bug::OF_READS.into_iter(), of_engines);
}

#[test]
fn a_bug_of_indexes_is_caught() {
    let bugs = Bug::OF_INDEXES.into_iter().chain(Bug::OF_FEW_VECTORS);
    all_are_caught(bugs, of_engines);
}

#[test]
fn a_bug_of_views_is_caught() {
    all_are_caught(Bug::OF_VIEWS.into_iter(), |seed| {
        views::live(seed, LIVES, false);
    });
}

fn of_engines(seed: u64) {
    live(seed, LIVES, false);
}

fn all_are_caught(bugs: impl Iterator<Item = Bug>, live: fn(u64)) {
    std::panic::set_hook(Box::new(|_| {}));
    let survivors: Vec<Bug> = bugs
        .filter(|bug| {
            let caught = caught_by(*bug, live);
            println!("{bug:?}: caught by seed {caught:?}");
            caught.is_none()
        })
        .collect();
    let _ = std::panic::take_hook();
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}

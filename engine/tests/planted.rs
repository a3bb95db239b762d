//! Tests of the tests: each bug that can be planted is caught by some story of the rig.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod rig;

use std::panic::catch_unwind;

use messina_engine::io::{Crash, Faults, RelPath, Rng};
use messina_engine::planted::{Bug, plant};
use rig::{End, Story, Verdict, random_story, shard_file};

/// How many stories a bug may survive.
const STORIES_MAX: u64 = 3000;

/// Flips bits in all files of a shard that was closed in peace.
fn rotten_story(seed: u64) -> Verdict {
    let mut story = Story::new(seed);
    story.quiet_life(rig::RECORDS_MAX)?;
    let mut rng = Rng::new(seed);
    let logs = (1..=8).map(|n| shard_file(&format!("log/{n:06}.log")));
    for path in logs.chain([shard_file("manifest"), RelPath::new("layout").unwrap()]) {
        let Some(bytes) = story.disk.bytes(&path) else { continue };
        for _ in 0..20 {
            let at = rng.index(bytes.len());
            story.start_damaged(&path, |bytes| bytes[at] ^= 1 << (at % 8))?;
        }
    }
    Ok(())
}

/// Fails the syncs of files that are made, and cuts the power then.
fn failing_story(seed: u64) -> Verdict {
    let mut story = Story::new(seed);
    story.life(
        Faults { sync_error_one_in: 2, ..Faults::default() },
        End::PowerCut(Crash::Nothing),
    )?;
    story.quiet_life(3)?;
    story.quiet_life(0)
}

const STORIES: [fn(u64) -> Verdict; 3] = [random_story, rotten_story, failing_story];

/// How many stories it takes to catch the bug.
fn caught_after(bug: Bug) -> Option<u64> {
    plant(Some(bug));
    let fails = |seed: &u64, story: fn(u64) -> Verdict| {
        let told = catch_unwind(|| story(*seed));
        !matches!(told, Ok(Ok(())))
    };
    let caught = (0..STORIES_MAX).find(|seed| STORIES.into_iter().any(|story| fails(seed, story)));
    plant(None);
    caught
}

#[test]
fn without_a_bug_no_story_fails() {
    for seed in 0..200 {
        for story in STORIES {
            story(seed).unwrap();
        }
    }
}

#[test]
fn every_planted_bug_is_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    let survivors: Vec<_> = Bug::OF_FILES
        .into_iter()
        .filter(|bug| {
            let caught = caught_after(*bug);
            println!("{bug:?}: caught by story {caught:?}");
            caught.is_none()
        })
        .collect();
    let _ = std::panic::take_hook();
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}

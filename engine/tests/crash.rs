//! Power cuts, failing devices and rot against the log, the manifest and the layout, by seed.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod rig;

use messina_engine::error::Error;
use messina_engine::io::{Faults, RelPath, Rng};
use rig::{End, Story, random_story, shard_file};

#[test]
fn nothing_acknowledged_is_lost_in_any_story() {
    for seed in 0..2000 {
        random_story(seed).unwrap();
    }
}

/// How many operations a first life without faults has.
fn ops_of(seed: u64) -> u64 {
    let mut story = Story::new(seed);
    let disk = story.disk.clone();
    story.quiet_life(rig::RECORDS_MAX).unwrap();
    disk.ops()
}

#[test]
fn a_power_cut_at_every_operation_of_a_life_is_survived() {
    for seed in 0..3 {
        for op in 0..=ops_of(seed) {
            for end in End::ALL {
                let mut story = Story::new(seed);
                let faults = Faults { crash_at_op: Some(op), ..Faults::default() };
                story.life(faults, end).unwrap();
                story.start_and_lose_power().unwrap();
                story.quiet_life(5).unwrap();
                story.quiet_life(0).unwrap();
            }
        }
    }
}

#[test]
fn a_failure_of_every_operation_is_survived() {
    for seed in 0..3 {
        for op in 0..=ops_of(seed) {
            for end in End::ALL {
                let mut story = Story::new(seed);
                let faults = Faults { fail_op: Some(op), ..Faults::default() };
                story.life(faults, end).unwrap();
                story.start_and_lose_power().unwrap();
                story.quiet_life(5).unwrap();
                story.quiet_life(0).unwrap();
            }
        }
    }
}

/// A shard with some records, closed in peace.
fn settled(seed: u64) -> Story {
    let mut story = Story::new(seed);
    story.quiet_life(rig::RECORDS_MAX).unwrap();
    story.quiet_life(3).unwrap();
    story
}

/// Damages a file and starts: everything is there, or the start says what is damaged. True when it did.
fn refused(story: &Story, path: &RelPath, damage: impl FnOnce(&mut Vec<u8>)) -> bool {
    match story.start_damaged(path, damage).unwrap() {
        None => false,
        Some(Error::Corrupt { .. } | Error::Newer { .. } | Error::NotFound { .. }) => true,
        Some(other) => panic!("{path}: {other}"),
    }
}

fn files_of(story: &Story) -> Vec<RelPath> {
    let logs = (1..=8).map(|n| shard_file(&format!("log/{n:06}.log")));
    let others = [shard_file("manifest"), RelPath::new("layout").unwrap()];
    logs.chain(others).filter(|path| story.disk.bytes(path).is_some()).collect()
}

#[test]
fn a_flipped_bit_anywhere_is_refused_or_means_nothing() {
    let mut rng = Rng::new(1);
    let mut count = 0;
    for seed in 0..4 {
        let story = settled(seed);
        for path in files_of(&story) {
            let len = story.disk.bytes(&path).unwrap().len();
            for i in 0..600 {
                // The beginnings of units hold the headers.
                let unit = rng.index(len / 4096) * 4096;
                let at = unit + if i % 2 == 0 { rng.index(80) } else { rng.index(4096) };
                let bit = 1 << rng.below(8);
                count += u32::from(refused(&story, &path, |bytes| bytes[at] ^= bit));
            }
        }
    }
    assert!(count > 500, "only {count} flips met live bytes");
}

#[test]
fn a_cut_file_is_refused_or_means_nothing() {
    for seed in 0..4 {
        let story = settled(seed);
        for path in files_of(&story) {
            let len = story.disk.bytes(&path).unwrap().len();
            for cut in (0..len).step_by(512).chain([1, 47, 48, 49, len - 1]) {
                refused(&story, &path, |bytes| bytes.truncate(cut));
            }
        }
    }
}

#[test]
fn swapped_zeroed_and_repeated_units_are_refused_or_mean_nothing() {
    let mut rng = Rng::new(2);
    for seed in 0..4 {
        let story = settled(seed);
        for path in files_of(&story).iter().filter(|path| path.as_str() != "layout") {
            let units = story.disk.bytes(path).unwrap().len() / 4096;
            for i in 0..units {
                let j = rng.index(units);
                let (a, b) = (i * 4096, j * 4096);
                refused(&story, path, |bytes| bytes[a..a + 4096].fill(0));
                refused(&story, path, |bytes| bytes.copy_within(a..a + 4096, b));
                if i.abs_diff(j) < 8 {
                    // A block and the claim after it, both damaged at once, are a torn tail.
                    continue;
                }
                refused(&story, path, |bytes| {
                    let first = bytes[a..a + 4096].to_vec();
                    bytes.copy_within(b..b + 4096, a);
                    bytes[b..b + 4096].copy_from_slice(&first);
                });
            }
        }
    }
}

//! What a program's own output says that it did: a step counts that, never what it asked for.
//!
//! ```text
//! test result: ok. 3 passed; 0 failed; ...              libtest, once a binary
//! Summary [ 99.1s] 715 tests run: 715 passed, …         nextest
//! simulator: 100000 power cuts, 9000 kills, seeds from 1      shard/tests/sim
//! AckBeforeSync: caught by seed Some(4)                 engine/tests/planted.rs and shard/tests/sim
//! stat::number_of_executed_units: 120000                libFuzzer
//! 1000203 operations, 480110 of them reads, ..., 0 mismatches    ci/differential
//! ```
//!
//! Invariant: a line that is not there counts nothing, so that a test that was renamed, or a program that ends at once
//! with status 0, fails its step.
//!
//! Not here: how the programs are run (`tier.rs`).

/// The number of checks that another run of this program passed, by its last line; an error if any did not.
pub(crate) fn checks(output: &str) -> Result<u64, String> {
    let last = output.lines().last().unwrap_or_default();
    let passed = last.strip_suffix(" passed, 0 failed, 0 skipped");
    let passed = passed.and_then(|count| count.parse().ok()).filter(|&count| count > 0);
    passed.ok_or_else(|| format!("its last line is `{last}`"))
}

/// The numbers of tests that passed and that failed, of all test binaries together.
pub(crate) fn tests(output: &str) -> (u64, u64) {
    let mut sum = (0, 0);
    for line in output.lines().filter(|line| line.starts_with("test result:")) {
        for part in line.split([';', '.']) {
            let mut words = part.split_whitespace();
            let count: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            match words.next() {
                Some("passed") => sum.0 += count,
                Some("failed") => sum.1 += count,
                _ => {}
            }
        }
    }
    sum
}

/// The numbers of tests that passed and that failed, as nextest sums them up.
pub(crate) fn nextest(output: &str) -> (u64, u64) {
    let summary = |line: &str| {
        let (run, rest) = line.trim().strip_prefix("Summary [")?.split_once(" tests run: ")?;
        let (passed, _) = rest.split_once(" passed")?;
        let run: u64 = run.rsplit(' ').next()?.parse().ok()?;
        let passed: u64 = passed.trim().parse().ok()?;
        Some((passed, run.saturating_sub(passed)))
    };
    output.lines().find_map(summary).unwrap_or_default()
}

/// The number of lives that the simulator ended by a power cut or a kill; an error if those of a kind are fewer than
/// were asked for.
pub(crate) fn lives(output: &str, power_cuts: u64, kills: u64) -> Result<u64, String> {
    let lived = output.lines().find_map(|line| {
        let (cuts, rest) = line.strip_prefix("simulator: ")?.split_once(" power cuts, ")?;
        let (kills, seeds) = rest.split_once(" kills, seeds from ")?;
        seeds.trim().parse::<u64>().ok()?;
        Some((cuts.parse::<u64>().ok()?, kills.parse::<u64>().ok()?))
    });
    match lived {
        None => Err("it does not say `simulator: N power cuts, K kills, seeds from S`".to_owned()),
        Some((cuts, killed)) if cuts < power_cuts || killed < kills => {
            Err(format!("{cuts} power cuts and {killed} kills, and not {power_cuts} and {kills}"))
        }
        Some((cuts, killed)) => Ok(cuts + killed),
    }
}

/// The number of requests that were drawn against whole nodes; an error if they are fewer than were asked for.
pub(crate) fn fuzzed_requests(output: &str, requests: u64) -> Result<u64, String> {
    let drawn = output.lines().find_map(|line| {
        let (drawn, rest) = line.trim().split_once(" requests, ")?;
        rest.ends_with(", 0 deaths").then(|| drawn.parse::<u64>().ok())?
    });
    match drawn {
        Some(drawn) if drawn >= requests => Ok(drawn),
        Some(drawn) => Err(format!("{drawn} requests, and not {requests}")),
        None => Err("it does not say `N requests, ..., 0 deaths`".to_owned()),
    }
}

/// The number of statements whose answers were compared with a model's; an error if they are fewer than were asked for.
pub(crate) fn operations(output: &str, operations: u64) -> Result<u64, String> {
    let compared = output.lines().find_map(|line| {
        let (compared, rest) = line.split_once(" operations, ")?;
        rest.ends_with(", 0 mismatches").then(|| compared.parse::<u64>().ok())?
    });
    match compared {
        Some(compared) if compared >= operations => Ok(compared),
        Some(compared) => Err(format!("{compared} operations, and not {operations}")),
        None => Err("it does not say `N operations, ..., 0 mismatches`".to_owned()),
    }
}

/// The number of planted bugs that were caught, by stories of the files (`story`) and by whole
/// shards (`seed`) together; an error if either caught fewer than its least.
pub(crate) fn planted(output: &str, by_stories: u64, by_shards: u64) -> Result<u64, String> {
    let caught = |means: &str| {
        output.lines().filter(|line| line.contains(&format!(": caught by {means} Some("))).count()
    };
    let (stories, shards) = (caught("story") as u64, caught("seed") as u64);
    if stories < by_stories || shards < by_shards {
        return Err(format!(
            "stories caught {stories} bugs and whole shards {shards}; there are {by_stories} and \
             {by_shards}"
        ));
    }
    Ok(stories + shards)
}

/// The number of inputs that libFuzzer gave to a target.
pub(crate) fn fuzz_inputs(output: &str) -> Option<u64> {
    let lines = output.lines();
    let mut counts = lines.filter_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    counts.next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_lines_are_added_up() {
        let output = "test a ... ok\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 2 passed; 5 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(tests(output), (5, 5));
        assert_eq!(tests("running 0 tests\n\ntest result: ok. 0 passed; 0 failed\n"), (0, 0));
    }

    #[test]
    fn the_sum_of_nextest_is_read() {
        let said = "  PASS [ 0.1s] x\n     Summary [  99.1s] 715 tests run: 712 passed (2 slow), 2 failed, 1 timed out, 4 skipped\n";
        assert_eq!(nextest(said), (712, 3));
        assert_eq!(nextest("error: could not compile\n"), (0, 0));
    }

    #[test]
    fn a_simulator_that_lived_less_than_asked_fails() {
        let said = "x\nsimulator: 1000 power cuts, 90 kills, seeds from 7\n";
        assert_eq!(lives(said, 1000, 90), Ok(1090));
        assert!(lives(said, 1001, 90).is_err(), "too few power cuts");
        assert!(lives(said, 1000, 91).is_err(), "too few kills");
        let renamed = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n";
        assert!(lives(renamed, 1000, 0).is_err(), "a renamed test lives through nothing");
        assert!(lives("simulator: 1000 power cuts, seeds from 7\n", 1, 0).is_err());
        let drawn =
            "10000 requests, 2770 of them answered by something else than an error, 0 deaths";
        assert_eq!(fuzzed_requests(drawn, 10_000), Ok(10_000));
        assert!(fuzzed_requests(drawn, 10_001).is_err());
        assert!(fuzzed_requests("10000 requests, 1 deaths", 1).is_err());
        assert!(lives("simulator: many power cuts, 1 kills, seeds from 7\n", 1, 0).is_err());
    }

    #[test]
    fn a_comparison_of_less_than_asked_fails() {
        let said = "worlds from seed 1\n1000 operations, 480 of them reads, in 2 worlds, 1.0 s, 0 mismatches\n";
        assert_eq!(operations(said, 1000), Ok(1000));
        assert!(operations(said, 1001).is_err(), "too few");
        assert!(operations("1000 operations, in 2 worlds, 1 mismatch\n", 1000).is_err());
        assert!(operations("worlds from seed 1\n", 0).is_err(), "it did nothing");
    }

    #[test]
    fn bugs_that_nothing_looked_for_fail() {
        let story = "AckBeforeSync: caught by story Some(3)\n";
        let seed = "ApplyEarly: caught by seed Some(8)\n";
        assert_eq!(planted(&format!("{story}{seed}"), 1, 1), Ok(2));
        assert!(planted(story, 1, 1).is_err(), "the test of whole shards was renamed");
        assert!(planted(seed, 1, 1).is_err());
        assert!(planted(&format!("{story}ApplyEarly: caught by seed None\n"), 1, 1).is_err());
    }

    #[test]
    fn a_run_that_skipped_or_failed_is_not_passed() {
        assert_eq!(checks("ok  full disk 3.1 s\n7 passed, 0 failed, 0 skipped\n"), Ok(7));
        for bad in ["0 passed, 0 failed, 0 skipped", "7 passed, 0 failed, 1 skipped", "7 passed"] {
            assert!(checks(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn inputs_are_read_from_libfuzzer() {
        let output = "Done 120000 runs in 6 second(s)\nstat::number_of_executed_units: 120000\n";
        assert_eq!(fuzz_inputs(output), Some(120_000));
        assert_eq!(fuzz_inputs("INFO: Running with entropic power schedule\n"), None);
    }
}

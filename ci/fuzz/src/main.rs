//! `messina-fuzz TARGET|all --seconds N [--seed S]`: mutates inputs until time is up.
//!
//! A stable-toolchain companion of libFuzzer: no coverage, but seeds that look like the real thing
//! and mutations that keep most of it. A panic is the failure; the input and the seed are printed
//! before it unwinds.
//!
//! Not here: what a target checks (`targets.rs`), and coverage: `libfuzzer.rs` drives the same targets.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use messina_fuzz::{TARGETS, Target};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Longest input, in bytes.
const INPUT_BYTES_MAX: usize = 4096;

#[derive(Parser)]
#[command(about = "Runs decoders on bytes of no meaning")]
struct Flags {
    /// A target's name, or `all`.
    target: String,
    /// How long each target runs.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seed of the random generator.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let wanted = |target: &&Target| match flags.target.as_str() {
        "all" => is_for_mutations(target),
        name => target.name == name,
    };
    let chosen: Vec<&Target> = TARGETS.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("no target '{}'; there are {} and all", flags.target, names.join(", "));
        return ExitCode::from(2);
    }
    let seed = flags.seed.unwrap_or_else(rand::random);
    fuzz_all(&chosen, seed, Duration::from_secs(flags.seconds));
    println!("{} passed, 0 failed", chosen.len());
    ExitCode::SUCCESS
}

/// Each target for its time, as many side by side as there are cores.
fn fuzz_all(chosen: &[&Target], seed: u64, time: Duration) {
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(target) = chosen.get(next.fetch_add(1, Relaxed)) {
            let runs = fuzz(target, seed, time);
            println!("fuzz {}: {runs} inputs, seed {seed}", target.name);
        }
    };
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    // A thread that panics makes the scope panic, and the program fail.
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(worker))));
}

/// True if mutations alone reach something: statements want coverage, and so does the planted bug.
fn is_for_mutations(target: &Target) -> bool {
    !["statements", "planted"].contains(&target.name)
}

/// Says what was running when a target panics.
struct Witness<'a>(&'a Target, &'a [u8], u64);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("fuzz {} failed on {:02x?} (seed {})", self.0.name, self.1, self.2);
        }
    }
}

fn fuzz(target: &Target, seed: u64, time: Duration) -> u64 {
    let mut rng = SmallRng::seed_from_u64(seed);
    let (start, mut runs) = (Instant::now(), 0);
    let mut input = Vec::new();
    while start.elapsed() < time {
        for _ in 0..256 {
            mutate(target, &mut rng, &mut input);
            let witness = Witness(target, &input, seed);
            (target.run)(witness.1);
            drop(witness);
            runs += 1;
        }
    }
    runs
}

/// Makes the next input: a seed, sometimes the last input, with a few changes.
fn mutate(target: &Target, rng: &mut SmallRng, input: &mut Vec<u8>) {
    if input.is_empty() || rng.random_ratio(1, 4) {
        input.clear();
        if rng.random_ratio(7, 8) {
            let seed: &[u8] = pick::<&[u8]>(target.seeds, rng);
            input.extend_from_slice(seed);
        }
        if target.name == "frame" {
            input.insert(0, rng.random());
        }
    }
    for _ in 0..rng.random_range(1..=4) {
        let at = rng.random_range(0..=input.len());
        match rng.random_range(0..6) {
            0 => input.insert(at, rng.random()),
            1 if at < input.len() => input[at] ^= 1 << rng.random_range(0..8),
            2 if at < input.len() => input[at] = *pick(&[0, 1, 0x7F, 0x80, 0xFF], rng),
            3 => input.truncate(at),
            4 => {
                let other: &[u8] = pick::<&[u8]>(target.seeds, rng);
                let from = rng.random_range(0..=other.len());
                let to = rng.random_range(from..=other.len());
                let part = other[from..to].to_vec();
                input.splice(at..at, part);
            }
            _ => {
                let from = rng.random_range(0..=at);
                let part = input[from..at].to_vec();
                input.extend_from_slice(&part);
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
}

fn pick<'a, T>(from: &'a [T], rng: &mut SmallRng) -> &'a T {
    &from[rng.random_range(0..from.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A decoder that trusts a length: random inputs must find it.
    #[test]
    fn a_planted_panic_is_found() {
        fn planted(input: &[u8]) {
            if let [b'm', length, rest @ ..] = input {
                let _ = rest[..usize::from(*length)];
            }
        }
        let target = Target { name: "planted", run: planted, seeds: &[b"m\x01a", b"m\x00"] };
        let found = std::panic::catch_unwind(|| fuzz(&target, 1, Duration::from_secs(20)));
        assert!(found.is_err());
    }

    #[test]
    fn every_target_survives_its_seeds_and_a_moment() {
        for target in TARGETS.iter().filter(|target| is_for_mutations(target)) {
            assert!(fuzz(target, 7, Duration::from_millis(200)) > 0);
        }
    }
}

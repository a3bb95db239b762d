//! One target under libFuzzer: `MESSINA_FUZZ_TARGET=frame libfuzzer NEW_CORPUS ci/fuzz/corpus/frame -max_total_time=60`.
//!
//! `cargo ci fuzz` builds it with coverage counters (`ci/fuzz/rustc`) and runs every target.
//!
//! Not here: what a target does (`targets.rs`).

#![no_main]

use std::sync::LazyLock;

use messina_fuzz::{TARGETS, Target};

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("MESSINA_FUZZ_TARGET").unwrap_or_default();
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("MESSINA_FUZZ_TARGET='{name}'; there are {}", names.join(", "));
        std::process::exit(2)
    })
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| (CHOSEN.run)(input));

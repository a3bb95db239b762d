//! Decoders and statements against bytes that were never meant, and the inputs worth keeping.
//!
//! 1. A target is a function that panics when something is wrong (`targets.rs`).
//! 2. libFuzzer calls it with inputs that reach code no input before has reached (`libfuzzer.rs`).
//! 3. `corpus/TARGET` holds inputs that together reach what is known; the tests here live through each of them, so
//!    what was once found is found again without a fuzzer.
//!
//! Invariant: every target has a folder of the corpus, and every folder has a target.

mod functions;
mod segments;
mod statements;
mod storage;
mod targets;

pub use targets::{TARGETS, Target};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn corpus() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus")
    }

    /// With MESSINA_BLESS in the environment the seeds are written into the corpus.
    #[test]
    fn every_target_lives_through_its_corpus() {
        for target in TARGETS.iter().filter(|target| target.name != "planted") {
            let folder = corpus().join(target.name);
            if std::env::var_os("MESSINA_BLESS").is_some() {
                fs::create_dir_all(&folder).unwrap();
                for (number, seed) in target.seeds.iter().enumerate() {
                    fs::write(folder.join(format!("seed-{number}")), seed).unwrap();
                }
            }
            let files: Vec<PathBuf> =
                fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(files.len() >= target.seeds.len(), "{}: seeds are missing", target.name);
            for file in files {
                println!("{}", file.display());
                (target.run)(&fs::read(&file).unwrap());
            }
        }
    }

    #[test]
    fn every_folder_of_the_corpus_has_a_target() {
        let folders: BTreeSet<String> = fs::read_dir(corpus())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let names: BTreeSet<String> =
            TARGETS.iter().map(|t| t.name.to_owned()).filter(|name| name != "planted").collect();
        assert_eq!(folders, names);
    }

    /// What an input does is the same whatever came before it, though inputs share an engine.
    #[test]
    fn statements_reach_the_shard() {
        let seeds = TARGETS.iter().find(|target| target.name == "statements").unwrap().seeds;
        let first: Vec<u64> = seeds.iter().map(|seed| statements::execute(seed)).collect();
        assert!(first[0] > 0, "the seed reads no row");
        for _ in 0..200 {
            let again: Vec<u64> = seeds.iter().map(|seed| statements::execute(seed)).collect();
            assert_eq!(again, first);
        }
    }
}

//! The checkout under test: its root, its files, its places for what the checks make.
//!
//! ```text
//! target/release      the programs that are tested, unless `--programs` names another folder
//! target/ci/log       what each step printed
//! target/ci/kits      what is installed once: drivers, tools
//! target/ci/data      data of the servers under test
//! ```
//!
//! Invariants
//! 1. Of the checkout, the checks write `target` alone, with three exceptions: `fix` edits sources, `golden --record`
//!    and `conformance --write` write what they name, and the README's session makes `messina-data` and removes it.
//! 2. Every command runs in the root, without input, and with the same settings of cargo, so that steps share what is
//!    built.
//! 3. `text_files` has what git tracks or would track: ignored files are not judged.
//!
//! Not here: how a command is run, limited in time and logged (`step.rs`), what has to be installed (`kit.rs`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A checkout of the project.
pub(crate) struct Repository {
    root: PathBuf,
    /// The programs that are tested, if they are not the release build's.
    programs: Option<PathBuf>,
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// One text file of the checkout.
pub(crate) struct TextFile {
    /// Path relative to the root, with forward slashes.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

impl Repository {
    /// The checkout this program was built from.
    pub(crate) fn find() -> Result<Self, String> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().ok_or("the ci crate has no parent folder")?;
        if !root.join("Cargo.toml").is_file() {
            return Err(format!("no workspace at {}", root.display()));
        }
        Ok(Self { root: root.to_path_buf(), programs: None })
    }

    /// A folder that only looks like a checkout: tests put programs of their own into it.
    #[cfg(test)]
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root, programs: None }
    }

    /// From now on the programs that are tested are those of this folder.
    pub(crate) fn set_programs(&mut self, folder: PathBuf) {
        self.programs = Some(folder);
    }

    /// The folder of the programs that are tested: the release build's unless another was named.
    pub(crate) fn programs(&self) -> PathBuf {
        self.programs.clone().unwrap_or_else(|| self.root.join("target/release"))
    }

    /// A program that is tested.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs().join(name)
    }

    /// The folder with the workspace's Cargo.toml.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where steps keep their logs, virtual environments and downloads.
    pub(crate) fn work_folder(&self) -> PathBuf {
        self.root.join("target/ci")
    }

    /// Where each step's whole output lands.
    pub(crate) fn log_folder(&self) -> PathBuf {
        self.work_folder().join("log")
    }

    /// A command in the root, with no input.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).stdin(std::process::Stdio::null());
        // Optimization across crates doubles the time of a build and changes nothing that is checked. Among the codegen
        // units of a crate (LTO `false`) it takes a quarter more of a build, and a tenth off the simulator: not worth it.
        // Four units and not sixteen take 7 % off a build and 2 % off the simulator. Tests unwind: programs that do so
        // as well share their dependencies, and the server aborts by itself (`server/src/lib.rs`). A panic names its
        // line without debug information, which takes a tenth of a build.
        command
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "4")
            .env("CARGO_PROFILE_RELEASE_PANIC", "unwind")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "none")
            .env("CARGO_PROFILE_DEV_DEBUG", "none");
        command
    }

    /// Cargo, the one that built this program.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(cargo());
        command.args(arguments);
        command
    }

    /// Cargo, for what is compiled beside a step and must not slow it.
    pub(crate) fn cargo_beside(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("nice");
        command.args(["-n", "19"]).arg(cargo()).args(arguments);
        command
    }

    /// Every file that git tracks or would track, sorted, that is UTF-8 text.
    pub(crate) fn text_files(&self) -> Result<Vec<TextFile>, String> {
        let listing = self
            .command("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .output()
            .map_err(|error| format!("git ls-files: {error}"))?;
        if !listing.status.success() {
            return Err(String::from_utf8_lossy(&listing.stderr).into_owned());
        }
        let listing = String::from_utf8_lossy(&listing.stdout);
        let mut paths: Vec<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            // Deleted but still in the index, or not text: nothing to read.
            if let Ok(text) = fs::read_to_string(self.root.join(path)) {
                files.push(TextFile { path: path.to_owned(), text });
            }
        }
        Ok(files)
    }
}

//! `messina-sst`: looks into sstables, without a server. It reads and never writes, also beside a running server.
//!
//! ```text
//! messina-sst statistics FILE..     counts, times, largest partitions and rows    as sstablemetadata
//! messina-sst inspect FILE..        the parts of the file, and with --blocks its blocks
//! messina-sst verify FILE..         every byte against its checksum               as sstableverify
//! messina-sst dump FILE             the rows, as JSON                             as sstabledump
//! ```
//!
//! A file is `<uuid>.sst` under `tables/<table>/` of a data directory or of a snapshot; with another name its checksums do
//! not fit. Names and types of `dump` are those of the schema of the data directory that the file lies in; of a file that
//! lies elsewhere, or of a built-in table, keys and values are hexadecimal.
//!
//! Invariant: damage is an error that names the file and the place; the next file is looked at all the same.
//!
//! Not here: which files are live, which the manifests say.

mod dump;
mod schema;
mod show;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::{Parser, Subcommand};
use engine::cache::BlockCache;
use engine::io::{Disk, PlainDisk, RelPath};
use engine::sstable::{Sstable, SstableId, SstableIdentity, identify, verify};
use futures_lite::future::block_on;
use model::TokenRange;
use uuid::Uuid;

/// Looks into the sstables of Messina, without a server.
#[derive(Debug, Parser)]
#[command(name = "messina-sst", version)]
pub struct Flags {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done with files.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show counts, times, and the largest partitions and rows
    Statistics {
        /// The files to look at
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Show the parts of files
    Inspect {
        /// Show each data block, too
        #[arg(long)]
        blocks: bool,
        /// The files to look at
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Read every byte of files and check it
    Verify {
        /// The files to look at
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Show the rows of a file as JSON
    Dump {
        /// The file to look at
        file: PathBuf,
    },
}

/// A file that was given by its path.
pub(crate) struct Given {
    disk: Disk,
    id: SstableId,
}

impl Given {
    fn at(path: &Path) -> Result<Given, String> {
        let shown = path.display();
        let id = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".sst"));
        let id = id.and_then(|id| id.parse::<Uuid>().ok());
        let id = id.ok_or_else(|| format!("{shown}: the name of an sstable is <uuid>.sst"))?;
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Given { disk: Disk::Plain(PlainDisk::at(dir)), id: SstableId(id) })
    }

    async fn identity(&self) -> engine::Result<SstableIdentity> {
        identify(&self.disk, &RelPath::root(), self.id).await
    }

    async fn open(&self) -> engine::Result<Rc<Sstable>> {
        let known = self.identity().await?;
        Sstable::open(&self.disk, &RelPath::root(), known, &BlockCache::new(0), TokenRange::ALL)
            .await
    }

    async fn verify(&self) -> engine::Result<u64> {
        let known = self.identity().await?;
        verify(&self.disk, &RelPath::root(), known, &async || {}).await?;
        Ok(known.proof.file_bytes)
    }
}

/// Does what the flags ask for; whether every file was whole. An error is what ends it at once.
pub fn run(flags: &Flags, out: &mut impl Write) -> Result<bool, String> {
    match &flags.command {
        Command::Statistics { files } => each(files, |path| {
            let open = opened(path)?;
            written(writeln!(out, "{}", show::statistics(path, &open)))
        }),
        Command::Inspect { blocks, files } => each(files, |path| {
            let open = opened(path)?;
            let more = if *blocks { show::blocks(&open) } else { String::new() };
            written(writeln!(out, "{}{more}", show::regions(path, &open)))
        }),
        Command::Verify { files } => each(files, |path| {
            let bytes = block_on(Given::at(path)?.verify()).map_err(|error| named(path, &error))?;
            written(writeln!(out, "{}: {bytes} bytes are as they were written", path.display()))
        }),
        Command::Dump { file } => {
            let open = opened(file)?;
            let table = schema::table_of(file, open.known().table)?;
            block_on(dump::dump(&open, table.as_ref(), out))
                .map_err(|error| format!("{}: {error}", file.display()))?;
            Ok(true)
        }
    }
}

/// Looks at one file after the other and tells how far it is; whether all were whole.
fn each(
    files: &[PathBuf],
    mut look: impl FnMut(&Path) -> Result<(), String>,
) -> Result<bool, String> {
    let mut whole = true;
    let tells = files.len() > 1 && std::io::stderr().is_terminal();
    for (number, path) in files.iter().enumerate() {
        if tells {
            eprintln!("{} of {} files: {}", number + 1, files.len(), path.display());
        }
        if let Err(error) = look(path) {
            eprintln!("messina-sst: {error}");
            whole = false;
        }
    }
    Ok(whole)
}

fn opened(path: &Path) -> Result<Rc<Sstable>, String> {
    block_on(Given::at(path)?.open()).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &engine::Error) -> String {
    let dir = path.parent().map(|dir| dir.display().to_string()).unwrap_or_default();
    format!("{dir}: {error}")
}

fn written(result: std::io::Result<()>) -> Result<(), String> {
    result.map_err(|error| format!("the output: {error}"))
}

#[cfg(test)]
mod tests;

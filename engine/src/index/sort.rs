//! Sorts the terms of an sstable in bounded memory: sorted chunks, written out as runs when they fill it.
//!
//! ```text
//! put ─► chunk ─(full: sorted)─► chunks ─(full)─► run of level 0 ─(as many as are merged at once)─► run of level 1 …
//! merged: the runs that are left and the chunks in memory, in the order of index, term, place
//! ```
//!
//! Memory is [`INDEX_SORT_BYTES`], and while runs are merged one piece of each, of which there are
//! [`INDEX_RUNS_MERGED_MAX`] of a level at most.

use std::mem;

use super::place::Place;
use super::runs::{Found, Merged, Run, RunFile, RunWriter};
use crate::error::Result;
use crate::io::{Disk, IoClass, RelPath};
use crate::limits::{INDEX_RUNS_MERGED_MAX, INDEX_SORT_BYTES};
use crate::pause::Pause;

/// What is sorted in one step.
const CHUNK_FOUND: usize = 1024;
/// What an entry takes beside its term.
const FOUND_BYTES: usize = size_of::<Found>() + 16;

/// Terms on their way into index files.
pub(super) struct TermSort {
    disk: Disk,
    /// The path of a run is this and its number.
    path: RelPath,
    class: IoClass,
    seed: u64,
    bytes_max: usize,
    chunk: Vec<Found>,
    chunks: Vec<Vec<Found>>,
    bytes: usize,
    runs: Vec<RunFile>,
    made: u32,
}

impl TermSort {
    /// Sorts for the file of this path, beside which the runs are.
    pub(super) fn new(disk: &Disk, path: RelPath, class: IoClass, seed: u64) -> TermSort {
        TermSort {
            disk: disk.clone(),
            path,
            class,
            seed,
            bytes_max: INDEX_SORT_BYTES,
            chunk: Vec::new(),
            chunks: Vec::new(),
            bytes: 0,
            runs: Vec::new(),
            made: 0,
        }
    }

    /// Uses so many bytes instead: little data makes several runs.
    #[cfg(test)]
    pub(super) fn with_bytes_max(self, bytes_max: usize) -> TermSort {
        TermSort { bytes_max, ..self }
    }

    pub(super) fn put(&mut self, index: u16, term: &[u8], place: Place) {
        self.bytes += FOUND_BYTES + term.len();
        self.chunk.push(Found { index, term: term.to_vec(), place });
        if self.chunk.len() == CHUNK_FOUND {
            self.end_chunk();
        }
    }

    fn end_chunk(&mut self) {
        let mut chunk = mem::take(&mut self.chunk);
        chunk.sort_unstable();
        self.chunks.push(chunk);
    }

    /// Whether [`spill`](Self::spill) has to be called before more is put.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    /// Writes what is in memory as a run, and merges runs of which there are many.
    pub(super) async fn spill(&mut self, pause: &dyn Pause) -> Result<()> {
        self.end_chunk();
        let chunks = mem::take(&mut self.chunks).into_iter();
        self.bytes = 0;
        let runs = chunks.map(|chunk| Run::Memory(chunk.into_iter())).collect();
        self.write_run(runs, 0, pause).await?;
        let mut level = 0;
        while self.of_level(level) >= INDEX_RUNS_MERGED_MAX {
            let (gone, stay) =
                mem::take(&mut self.runs).into_iter().partition(|run: &RunFile| run.level == level);
            // Known until they are gone, also after an error.
            self.runs = stay;
            let at = self.runs.len();
            self.runs.extend::<Vec<RunFile>>(gone);
            let runs = self.open(at).await?;
            self.write_run(runs, level + 1, pause).await?;
            let last = self.runs.pop().expect("a run was written");
            for run in self.runs.drain(at..) {
                self.disk.unlink(&run.path).await?;
            }
            self.runs.push(last);
            level += 1;
        }
        Ok(())
    }

    fn of_level(&self, level: u32) -> usize {
        self.runs.iter().filter(|run| run.level == level).count()
    }

    async fn open(&self, from: usize) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        for run in &self.runs[from..] {
            runs.push(Run::open(&self.disk, run, self.class).await?);
        }
        Ok(runs)
    }

    async fn write_run(&mut self, runs: Vec<Run>, level: u32, pause: &dyn Pause) -> Result<()> {
        self.made += 1;
        let path = self.path.parent().join(&format!("{}.run{}", self.path.name(), self.made));
        let seed = self.seed.wrapping_add(u64::from(self.made) << 40);
        let mut writer = RunWriter::new(&self.disk, &path, self.class, seed);
        let mut merged = Merged::of(runs).await?;
        let copied = async {
            while let Some(found) = merged.next(pause).await? {
                writer.put(&found).await?;
            }
            Ok(())
        };
        if let Err(error) = copied.await {
            // The error that led here is the one to report.
            let _ = writer.abandon().await;
            return Err(error);
        }
        let bytes = match writer.finish().await {
            Ok(bytes) => bytes,
            Err(error) => {
                let _ = self.disk.unlink(&path).await;
                return Err(error);
            }
        };
        merged.close().await?;
        self.runs.push(RunFile { path, bytes, level, seed });
        Ok(())
    }

    /// All that was put, in order.
    pub(super) async fn merged(&mut self) -> Result<Merged> {
        self.end_chunk();
        let chunks = mem::take(&mut self.chunks).into_iter();
        let mut runs = self.open(0).await?;
        runs.extend(chunks.map(|chunk| Run::Memory(chunk.into_iter())));
        Merged::of(runs).await
    }

    /// Removes the runs.
    pub(super) async fn remove_runs(&mut self) -> Result<()> {
        let mut removed = Ok(());
        for run in mem::take(&mut self.runs) {
            removed = removed.and(self.disk.unlink(&run.path).await);
        }
        removed
    }
}

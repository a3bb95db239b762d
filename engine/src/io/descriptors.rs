//! When the process has no descriptor left for a file: an open waits until another file is closed.
//!
//! ```text
//! open ─► EMFILE, ENFILE ─► a pause ─► open …       for what writes, as long as it takes
//!                                └─► after 5 s: the error, for what only reads
//! ```
//!
//! Opening has done nothing when it fails for want of a descriptor, so that it is tried again breaks no promise of
//! `io.rs`: a write waits like one whose log has no space, and no log, manifest or schema ends the process for it.
//! How many files may be open is the server's to see to; clients' connections and other processes take some, too.

use std::time::Duration;

use super::Disk;
use crate::error::{Error, Result};
use crate::planted::{Bug, planted};

/// How long an open waits before its next attempt.
const PAUSE: Duration = Duration::from_millis(20);
/// Attempts of an open that only reads.
const ATTEMPTS_OF_READS: u32 = 250;

/// For how long a task that opens a file waits for a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Retries {
    /// Until there is one: an error would end the trust in a log or manifest.
    Endless,
    /// Some seconds: the error is an answer.
    Limited,
}

impl Disk {
    /// Opens something, when there is a descriptor for it.
    pub(super) async fn with_descriptor<T>(
        &self,
        retries: Retries,
        open: impl AsyncFn() -> Result<T>,
    ) -> Result<T> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match open().await {
                Err(error) if is_for_want_of_descriptors(&error) => {
                    let is_over = retries == Retries::Limited && attempts >= ATTEMPTS_OF_READS;
                    if is_over || planted(Bug::NoDescriptorFails) {
                        return Err(error);
                    }
                }
                opened => return opened,
            }
            self.wait_a_little().await;
        }
    }

    /// Lets some time pass: what is waited for does not say when it has come.
    pub(crate) async fn wait_a_little(&self) {
        match self {
            Disk::Dma(disk) => disk.sleep(PAUSE).await,
            Disk::Sim(disk) => disk.sleep().await,
            // A tool only reads: it tries as often, and does not wait.
            Disk::Plain(_) => {}
        }
    }
}

fn is_for_want_of_descriptors(error: &Error) -> bool {
    matches!(error, Error::Io { errno: libc::EMFILE | libc::ENFILE, .. })
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{yield_now, zip};

    use super::*;
    use crate::io::{Faults, RelPath, SimDisk, SimExec};

    #[test]
    fn a_file_is_made_when_there_is_a_descriptor_for_it_and_once() {
        for seed in 0..50 {
            let faults = Faults { no_descriptor_one_in: 2, ..Faults::default() };
            let disk = SimDisk::new(seed, faults);
            let (exec, outer) = (SimExec::new(seed), Disk::Sim(disk));
            exec.run(async move {
                let (root, path) = (RelPath::root(), RelPath::root().join("a"));
                let made = outer.create(&path).await.unwrap();
                made.close().await.unwrap();
                outer.sync_dir(&root).await.unwrap();
                assert_eq!(outer.list(&root).await.unwrap().len(), 1);
                assert!(outer.open(&path).await.unwrap().is_empty());
                assert!(outer.open_log(&path).await.unwrap().is_empty());
            })
            .done();
        }
    }

    /// Before: a log that looked for a free name gave up after five seconds, and the process with it.
    #[test]
    fn a_directory_is_listed_however_long_descriptors_are_wanted() {
        let faults = Faults { no_descriptor_one_in: 1, ..Faults::default() };
        let sim = SimDisk::new(1, faults);
        let (exec, disk) = (SimExec::new(1), Disk::Sim(sim.clone()));
        exec.run(async move {
            let waited = async {
                for _ in 0..8 * ATTEMPTS_OF_READS {
                    yield_now().await;
                }
                sim.set_faults(Faults::default());
            };
            let (listed, ()) = zip(disk.list(&RelPath::root()), waited).await;
            assert_eq!(listed, Ok(Vec::new()));
        })
        .done();
    }

    #[test]
    fn who_only_reads_hears_that_there_is_no_descriptor() {
        let faults = Faults { no_descriptor_one_in: 1, ..Faults::default() };
        let (exec, disk) = (SimExec::new(1), Disk::Sim(SimDisk::new(1, faults)));
        exec.run(async move {
            let opened = disk.open(&RelPath::root().join("a")).await;
            assert!(matches!(opened, Err(Error::Io { errno: libc::EMFILE, .. })), "{opened:?}");
        })
        .done();
    }
}

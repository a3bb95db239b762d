//! Files that are dropped are closed on a thread that is not the core's.
//!
//! ```text
//! core      the file is dropped ─┬─► its descriptor becomes one of /dev/null ─► glommio closes that
//!                                └─► a duplicate ─┐
//! closing thread                                  └─► closed: the kernel frees the blocks of a file without a name
//! ```
//!
//! With the last descriptor of an unlinked file go its blocks: the kernel reads and changes bitmaps and waits for its
//! journal, ten milliseconds for a fragment of a merge and up to thirty. glommio's close does that inside the core's
//! `io_uring_enter`, and the core stands still. Whether a file has a name is not asked: it may lose it between the
//! answer and the close, which glommio puts off.
//!
//! Invariants
//! 1. No operation of the core's ring is under way on the descriptor when it changes: each holds the open file. One of
//!    glommio's that is no longer waited for may find /dev/null.
//! 2. When there is no descriptor for the duplicate, or too many files wait, the core closes the file itself.
//! 3. A file whose close is waited for is closed by glommio, and is closed when that returns.
//!
//! Not here: the unlink, which is on glommio's blocking pool (`dma.rs`).

#![expect(unsafe_code, reason = "std puts no descriptor in another's place")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::rc::Rc;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::affinity::leave_the_core;
use crate::limits::CLOSES_WAITING_MAX;

/// The closing thread of one core.
#[derive(Debug)]
pub(super) struct Closer {
    files: SyncSender<File>,
    null: File,
}

impl Closer {
    /// Starts the thread; it ends when nothing can be given to it any more.
    #[expect(
        clippy::disallowed_methods,
        reason = "no core can close files, and nothing waits for it"
    )]
    pub(super) fn start() -> io::Result<Rc<Closer>> {
        let (files, given) = sync_channel::<File>(CLOSES_WAITING_MAX);
        let thread = std::thread::Builder::new().name("closing".to_owned());
        thread.spawn(move || {
            leave_the_core();
            given.into_iter().for_each(drop);
        })?;
        Ok(Rc::new(Closer { files, null: File::open("/dev/null")? }))
    }

    /// Takes the file of this descriptor, which is one of /dev/null afterwards.
    ///
    /// The caller owns the descriptor, and no operation is under way on it.
    fn take(&self, descriptor: RawFd) -> io::Result<()> {
        // SAFETY: the caller owns the descriptor and keeps it open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let file = File::from(borrowed.try_clone_to_owned()?);
        // SAFETY: both are open descriptors. Whoever closes this number closes /dev/null.
        let done = unsafe { libc::dup3(self.null.as_raw_fd(), descriptor, libc::O_CLOEXEC) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        // Where too many wait it is closed here.
        let _ = self.files.try_send(file);
        Ok(())
    }
}

/// Ends the use of a descriptor: drop it before what closes the descriptor.
#[derive(Debug)]
pub(super) struct Closing {
    descriptor: Option<RawFd>,
    closer: Rc<Closer>,
}

impl Closing {
    /// Of the descriptor of an open file.
    pub(super) fn of(descriptor: RawFd, closer: &Rc<Closer>) -> Closing {
        Closing { descriptor: Some(descriptor), closer: closer.clone() }
    }

    /// The file is going to be closed and waited for.
    pub(super) fn leave(mut self) {
        self.descriptor = None;
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor {
            // After an error glommio closes the file.
            let _ = self.closer.take(descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;

    fn descriptors_of(what: &str) -> usize {
        let all = fs::read_dir("/proc/self/fd").unwrap();
        let shown = all.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        shown.filter(|path| path.to_string_lossy().contains(what)).count()
    }

    #[expect(clippy::disallowed_methods, reason = "it waits for another thread")]
    fn until(is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(10), "it does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_file_is_closed_by_the_thread() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().file_name().unwrap().to_str().unwrap().to_owned();
        let closer = Closer::start().unwrap();
        let [descriptor, spare] = [0, 1].map(|_| file.reopen().unwrap());
        drop(file);
        assert_eq!(descriptors_of(&name), 2);
        drop(Closing::of(descriptor.as_raw_fd(), &closer));
        until(|| descriptors_of(&name) == 1);
        let shown = fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).unwrap();
        assert_eq!(shown.to_str(), Some("/dev/null"), "its number is still its owner's to close");
        drop(spare);
    }
}

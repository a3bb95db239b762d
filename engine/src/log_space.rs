//! Whether there is space to write: on the disk, and in the log.
//!
//! ```text
//! the log wants a segment ─► none free ─► until_freed ◄── freed: after a flush, a deletion, a look at the disk
//! ```
//!
//! Not here: memory (`budget.rs`), how many segments a log may have (`commitlog`).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::io::Space;
use crate::limits::DISK_FULL_PERCENT;

/// The space of one shard, as it was last seen.
#[derive(Debug, Default)]
pub(crate) struct LogSpace {
    disk_full: Cell<bool>,
    /// How much of the disk is used, in per cent, rounded up.
    used_percent: Cell<u8>,
    /// What the reserve lacks, in bytes.
    missing_bytes: Cell<u64>,
    /// What a flush lacked space for, in bytes: 0 if none does.
    unflushed_bytes: Cell<u64>,
    /// How often something was flushed or deleted.
    freed: Cell<u64>,
    waiter: RefCell<Option<Waker>>,
    /// The task that takes writes which wait for space.
    watcher: RefCell<Option<Waker>>,
}

impl LogSpace {
    /// Whether writes are refused because the disk is full.
    pub(crate) fn is_disk_full(&self) -> bool {
        self.disk_full.get()
    }

    /// How much of the disk is used, in per cent, rounded up; 0 before it was measured.
    pub(crate) fn used_percent(&self) -> u8 {
        self.used_percent.get()
    }

    /// A write has met a full disk.
    pub(crate) fn disk_is_full(&self) {
        self.disk_full.set(true);
    }

    /// A flush has found no space for a file of so many bytes: until there is, writes would only fill the memory.
    pub(crate) fn flush_lacks_space(&self, bytes: u64) {
        self.unflushed_bytes.set(bytes);
        self.disk_is_full();
    }

    /// A flush has had space for so many bytes: another one may lack more.
    pub(crate) fn flush_had_space(&self, bytes: u64) {
        if bytes >= self.unflushed_bytes.get() {
            self.no_flush_is_due();
        }
    }

    /// Memtables hold so little that none of them has to be flushed.
    pub(crate) fn no_flush_is_due(&self) {
        self.unflushed_bytes.set(0);
    }

    /// The disk has this space now, and of what is free `missing_bytes` are the reserve's.
    pub(crate) fn measured(&self, space: Space, missing_bytes: u64) {
        let free_bytes = space.free_bytes.saturating_sub(missing_bytes);
        self.missing_bytes.set(missing_bytes);
        let used = u128::from(space.total_bytes.saturating_sub(free_bytes));
        let is_used = used * 100 >= u128::from(space.total_bytes) * DISK_FULL_PERCENT;
        let is_full = is_used || free_bytes < self.unflushed_bytes.get();
        self.disk_full.set(is_full);
        let percent = (used * 100).div_ceil(u128::from(space.total_bytes).max(1));
        self.used_percent.set(u8::try_from(percent).unwrap_or(100));
        if !is_full {
            self.freed();
        }
    }

    /// What the reserve lacks of the free space, in bytes.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.missing_bytes.get()
    }

    /// How often space was made for the log.
    pub(crate) fn freed_count(&self) -> u64 {
        self.freed.get()
    }

    /// Something was flushed or deleted: the log may have space again.
    pub(crate) fn freed(&self) {
        self.freed.set(self.freed.get() + 1);
        if let Some(waker) = self.waiter.borrow_mut().take() {
            waker.wake();
        }
        self.wake_watcher();
    }

    /// Has this task woken whenever something is freed, and by [`wake_watcher`](Self::wake_watcher).
    pub(crate) fn watch(&self, waker: &Waker) {
        let mut watcher = self.watcher.borrow_mut();
        match &mut *watcher {
            Some(known) => known.clone_from(waker),
            None => *watcher = Some(waker.clone()),
        }
    }

    /// Wakes the task that takes writes which wait for space.
    pub(crate) fn wake_watcher(&self) {
        self.watcher.borrow().iter().for_each(Waker::wake_by_ref);
    }

    /// Waits until space was made since the count was `before`. One task waits at a time.
    pub(crate) async fn until_freed(&self, before: u64) {
        assert!(before <= self.freed.get(), "the count of before is not ahead");
        poll_fn(|cx| {
            if self.freed.get() != before {
                return Poll::Ready(());
            }
            *self.waiter.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

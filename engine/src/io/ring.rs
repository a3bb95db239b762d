//! A core's own ring for the reads, writes and flushes of its files.
//!
//! ```text
//! start ─► slab entry: buffer, file, waker ─► its turn ─► SQE ─► flush (one system call for all so far)
//!              ▲                                          │ the kernel works
//!              └── result, wake ◄── take_done: the CQ, looked at in memory ◄┘
//! ```
//!
//! Why not the executor's rings: glommio turns to them in about twelve system calls, and only when no
//! task is runnable. A commit that comes alone paid that twice, and a core that is never idle had to
//! leave its work for it every 40 µs. Here a completion is seen by looking at memory once a pass, and
//! wakes a sleeping core through the ring's descriptor, which its epoll set holds (`shard::idle`).
//!
//! Invariants
//! 1. What the kernel may touch, the buffer and the descriptor, belongs to the entry until its
//!    completion is here, even when the future is dropped before.
//! 2. What is with the kernel has had its turn (`schedule.rs`), at most [`RING_OPERATIONS_MAX`] at a time.
//! 3. Nothing that was started waits for a [`flush`] while the core sleeps: outside of a pass each
//!    start flushes, and a pass flushes at its end. If the kernel does not take all, [`Flushed`] says
//!    so, and the core sleeps briefly.
//!
//! Not here: whose turn it is (`schedule.rs`), what the results mean (`dma.rs`), files that are opened, renamed or
//! resized (glommio).
#![expect(unsafe_code, reason = "submission queue entries name buffers and descriptors")]

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

use glommio::io::DmaBuffer;
use io_uring::{IoUring, opcode, squeue, types};
use slab::Slab;

use super::class::IoClass;
use super::dma::Open;
use super::schedule::{InFlightLimits, Schedule};
use crate::limits::RING_OPERATIONS_MAX;

// Of the thread, for operations of every file meet in the one ring of their core (docs/STYLE.md).
thread_local! {
    /// `None` until the core asks for one: then files use the executor's rings.
    static HERE: RefCell<Option<Ring>> = const { RefCell::new(None) };
    /// What the device was measured to take: known before the ring is open.
    static LIMITS: Cell<Option<InFlightLimits>> = const { Cell::new(None) };
}

struct Ring {
    ring: IoUring,
    operations: Slab<Operation>,
    /// Whose turn it is: what has begun is with the kernel, or in the submission queue.
    schedule: Schedule<usize>,
    /// In the submission queue, and the kernel was not told.
    unflushed: usize,
    /// A pass is under way that will flush.
    holds: bool,
}

/// One read, write or flush, from its start until its owner has taken the result.
struct Operation {
    kind: Kind,
    /// What is read into or written from. A flush has none.
    buffer: Option<DmaBuffer>,
    file: Rc<Open>,
    class: IoClass,
    offset: u64,
    state: State,
}

enum Kind {
    Read,
    Write,
    Flush,
}

/// Whether the kernel has all that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// It has all of it.
    All,
    /// It is short of memory for requests: something waits for the next [`flush`].
    Part,
}

enum State {
    Begun(Option<Waker>),
    /// The future was dropped: the entry goes when the kernel has let go of it.
    Abandoned,
    /// A count of bytes, or an error's number below zero.
    Done(i32),
}

/// Gives this thread a ring of its own, unless it has one, and a descriptor that is readable while
/// completions wait in it. From now on somebody must call [`take_done`] whenever that is so.
pub fn open_ring() -> io::Result<OwnedFd> {
    HERE.with_borrow_mut(|here| {
        let ring = match here {
            Some(ring) => ring,
            None => here.insert(Ring::new()?),
        };
        // SAFETY: the ring is open, and stays so while the descriptor is copied.
        unsafe { BorrowedFd::borrow_raw(ring.ring.as_raw_fd()) }.try_clone_to_owned()
    })
}

/// Takes the completions that are here and wakes whom they are for. Whether there were any.
#[inline]
pub fn take_done() -> bool {
    let mut any = false;
    while let Some(waker) = HERE.with_borrow_mut(|here| here.as_mut()?.take_one()) {
        any = true;
        if let Some(waker) = waker {
            waker.wake();
        }
    }
    any
}

/// From now until [`flush`], what is started is handed to the kernel together.
#[inline]
pub fn hold() {
    HERE.with_borrow_mut(|here| {
        if let Some(ring) = here {
            ring.holds = true;
        }
    });
}

/// Hands to the kernel what was started and is not with it. A system call if there is something.
#[inline]
pub fn flush() -> Flushed {
    HERE.with_borrow_mut(|here| {
        let Some(ring) = here else { return Flushed::All };
        ring.holds = false;
        ring.flush()
    })
}

/// From now on at most so many requests of the background are with the device at a time: those of this thread's ring,
/// when it has one.
pub(super) fn limit(limits: InFlightLimits) {
    LIMITS.set(Some(limits));
    with_schedule(|schedule| schedule.limit(limits));
}

/// Changes or asks the schedule of this thread's ring, if it has one.
pub(super) fn with_schedule(act: impl FnOnce(&mut Schedule<usize>)) {
    HERE.with_borrow_mut(|here| {
        if let Some(ring) = here {
            act(&mut ring.schedule);
        }
    });
}

/// Whether this thread has a ring.
pub(super) fn is_open() -> bool {
    HERE.with_borrow(Option::is_some)
}

/// Reads from `offset` into the whole buffer: how many bytes came.
pub(super) async fn read(
    file: (&Rc<Open>, IoClass),
    buffer: DmaBuffer,
    offset: u64,
) -> io::Result<(usize, DmaBuffer)> {
    let (count, buffer) = run(Kind::Read, file, Some(buffer), offset).await?;
    Ok((count, buffer.expect("a read has a buffer")))
}

/// Writes the whole buffer at `offset`: how many bytes went.
pub(super) async fn write(
    file: (&Rc<Open>, IoClass),
    buffer: DmaBuffer,
    offset: u64,
) -> io::Result<usize> {
    Ok(run(Kind::Write, file, Some(buffer), offset).await?.0)
}

/// Makes what was written durable (`fdatasync`).
pub(super) async fn sync(file: (&Rc<Open>, IoClass)) -> io::Result<()> {
    run(Kind::Flush, file, None, 0).await.map(drop)
}

fn run(
    kind: Kind,
    (file, class): (&Rc<Open>, IoClass),
    buffer: Option<DmaBuffer>,
    offset: u64,
) -> impl Future<Output = io::Result<(usize, Option<DmaBuffer>)>> {
    let state = State::Begun(None);
    let operation = Operation { kind, buffer, file: file.clone(), class, offset, state };
    let started = Started(with_ring(|ring| ring.start(operation)));
    async move {
        let result =
            poll_fn(|context| with_ring(|ring| ring.poll(started.0, context.waker()))).await;
        let buffer = with_ring(|ring| ring.operations.remove(started.0)).buffer;
        mem::forget(started);
        match usize::try_from(result) {
            Ok(count) => Ok((count, buffer)),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        }
    }
}

fn with_ring<T>(act: impl FnOnce(&mut Ring) -> T) -> T {
    HERE.with_borrow_mut(|here| act(here.as_mut().expect("a ring is kept once it is open")))
}

/// The key of an operation whose result is not taken.
struct Started(usize);

impl Drop for Started {
    fn drop(&mut self) {
        // Never at the end of the thread, when there is no ring to tell.
        let _ = HERE.try_with(|here| {
            if let Some(ring) = &mut *here.borrow_mut() {
                ring.abandon(self.0);
            }
        });
    }
}

impl Ring {
    fn new() -> io::Result<Ring> {
        let entries = RING_OPERATIONS_MAX as u32;
        // The core asks the kernel something in every pass: no need to interrupt it for a completion.
        let ring = IoUring::builder()
            .setup_coop_taskrun()
            .build(entries)
            .or_else(|_| IoUring::builder().build(entries))?;
        let mut schedule = Schedule::new();
        schedule.limit(LIMITS.get().unwrap_or_default());
        Ok(Ring { ring, operations: Slab::new(), schedule, unflushed: 0, holds: false })
    }

    fn start(&mut self, operation: Operation) -> usize {
        let (class, bytes) = (operation.class, operation.bytes());
        let key = self.operations.insert(operation);
        if self.schedule.ask(class, bytes, key) {
            self.begin(key);
            if !self.holds {
                self.flush();
            }
        }
        key
    }

    fn begin(&mut self, key: usize) {
        let operation = &mut self.operations[key];
        let entry = operation.entry().user_data(key as u64);
        self.unflushed += 1;
        // SAFETY: what the entry names belongs to the operation, which stays in the slab, without
        // moving the buffer's memory, until its completion is taken.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("no more are begun than the queue takes");
    }

    fn flush(&mut self) -> Flushed {
        self.flush_by(|ring| ring.submit())
    }

    fn flush_by(&mut self, mut submit: impl FnMut(&IoUring) -> io::Result<usize>) -> Flushed {
        while self.unflushed > 0 {
            match submit(&self.ring) {
                Ok(count) => self.unflushed -= count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The kernel is short of memory for requests: the next pass tries again.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {
                    return Flushed::Part;
                }
                Err(error) => panic!("the ring of a core takes nothing any more: {error}"),
            }
        }
        Flushed::All
    }

    /// Takes one completion, if one is here, and says whom to wake.
    fn take_one(&mut self) -> Option<Option<Waker>> {
        if self.unflushed > 0 && !self.holds {
            self.flush();
        }
        let completion = self.ring.completion().next()?;
        let key = completion.user_data() as usize;
        self.schedule.ended(self.operations[key].class);
        while let Some(next) = self.schedule.next() {
            self.begin(next);
        }
        let done = State::Done(completion.result());
        match mem::replace(&mut self.operations[key].state, done) {
            State::Begun(waker) => Some(waker),
            State::Abandoned => {
                self.operations.remove(key);
                Some(None)
            }
            State::Done(_) => unreachable!("an operation completes once"),
        }
    }

    fn poll(&mut self, key: usize, waker: &Waker) -> Poll<i32> {
        match &mut self.operations[key].state {
            State::Done(result) => Poll::Ready(*result),
            State::Begun(Some(kept)) => {
                kept.clone_from(waker);
                Poll::Pending
            }
            state => {
                *state = State::Begun(Some(waker.clone()));
                Poll::Pending
            }
        }
    }

    fn abandon(&mut self, key: usize) {
        match self.operations[key].state {
            State::Done(_) => drop(self.operations.remove(key)),
            _ => self.operations[key].state = State::Abandoned,
        }
    }
}

impl Operation {
    /// What it moves: nothing if it is a flush.
    fn bytes(&self) -> u64 {
        self.buffer.as_ref().map_or(0, |buffer| buffer.len() as u64)
    }

    fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.file.descriptor());
        let (pointer, len) = match &mut self.buffer {
            Some(buffer) => (buffer.as_mut_ptr(), buffer.len() as u32),
            None => (std::ptr::null_mut(), 0),
        };
        match self.kind {
            Kind::Read => opcode::Read::new(fd, pointer, len).offset(self.offset).build(),
            Kind::Write => opcode::Write::new(fd, pointer, len).offset(self.offset).build(),
            Kind::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        }
    }
}

impl Drop for Ring {
    /// At the end of a thread. The kernel may still be at work on what was not awaited: that memory is
    /// never used again.
    fn drop(&mut self) {
        mem::forget(mem::take(&mut self.operations));
    }
}

#[cfg(test)]
mod tests;

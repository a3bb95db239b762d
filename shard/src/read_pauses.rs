//! How a request that finds much in memory, or has long to compute, shares its core.
//!
//! ```text
//! keys     (in the slab of what waits, or a task of the requests)  READ_SLICE ─► the next pass ─► READ_SLICE ..
//! a range  (a task of the group for long work)                     by its group's share: `yielder.rs`
//! ```
//!
//! The engine asks after every few rows; a clock decides. Not here: reads that wait for the disk, which let others run
//! by themselves.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use futures_lite::future::yield_now;

use crate::groups::Group;
use crate::limits::READ_SLICE;
use crate::runtime::Runtime;
use crate::sleeping_pass::SleepingPass;
use crate::yielder::Yielder;

/// The pauses of one read, or of another request that takes long.
pub enum ReadPauses {
    /// When the slice of a read of requests began. It may be a task beside a pass that sleeps.
    Request(Cell<Instant>, Rc<SleepingPass>),
    /// A read of a range stands aside as other long work does.
    Long(Yielder),
}

impl ReadPauses {
    /// The pauses of a read that runs in `group`.
    pub fn new(runtime: &Runtime, group: Group) -> ReadPauses {
        match group {
            Group::Requests => {
                let began = Cell::new(Instant::now());
                ReadPauses::Request(began, runtime.sleeping_pass().clone())
            }
            group => ReadPauses::Long(runtime.yielder(group)),
        }
    }

    /// Lets others run if the slice is used up.
    pub async fn yield_if_due(&self) {
        match self {
            ReadPauses::Request(began, _) if began.get().elapsed() < READ_SLICE => {}
            ReadPauses::Request(began, sleeping_pass) => {
                sleeping_pass.wake_if_wanted();
                // Wakes itself and waits: whatever is woken already comes first.
                yield_now().await;
                began.set(Instant::now());
            }
            ReadPauses::Long(yielder) => yielder.yield_if_due().await,
        }
    }
}

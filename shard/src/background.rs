//! What a shard does beside requests: it keeps its log going.
//!
//! Invariant: a failed log ends the process, at once and saying why. Nothing that was acknowledged
//! is lost by that, and nothing that could not be written is acknowledged.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use engine::Error;

use crate::groups::Group;
use crate::os::cpus;
use crate::owner::ShardId;
use crate::service::Service;
use crate::shard::Shard;

/// Starts the shard's own tasks.
pub(crate) fn start<S: Service>(shard: &Rc<Shard<S>>) {
    let driven = shard.clone();
    shard.runtime.spawn(Group::Log, async move {
        let wake = driven.wake();
        let mut driving = pin!(driven.engine.drive_log());
        let error = poll_fn(|context| {
            let state = driving.as_mut().poll(context);
            if driven.engine.has_completed() {
                wake.notify();
            }
            state
        })
        .await;
        die(&error, driven.me);
    });
}

/// A log that failed is not to be trusted, nor is anything that would be written after it.
fn die(error: &Error, shard: ShardId) -> ! {
    tracing::error!(%shard, %error, "the commit log failed: the process ends here");
    cpus::exit(1);
}

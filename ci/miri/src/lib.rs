//! The mailbox's ring and its tests, without the runtime around them: Miri would need an hour to build that, and cannot
//! run it. `cargo ci miri` runs them under Miri, which knows data races, reads of what was never written, items dropped
//! twice, and delays what one thread stored as the memory model allows it.
//!
//! Not here: other unsafe code. All of it is system calls, which Miri does not make.

#[cfg(test)]
#[path = "../../../shard/src/mailbox/ring.rs"]
mod ring;

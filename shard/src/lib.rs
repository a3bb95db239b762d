//! Thread per core: who owns what, how cores talk, and the one place where anything is spawned.
//!
//! ```text
//! owner    ──► token -> shard, shard -> tokens            runtime ──► an executor per core
//! mailbox  ──► N × N rings between cores, and a bell       groups  ──► who competes for a core
//! os       ──► epoll, eventfd, affinity, the wake bridge   idle    ──► spin, then sleep
//! clock    ──► the time, once a pass                       notify  ──► wake-ups inside a core
//! gather   ──► reads over many owners, as one page         pace    ──► long work in short turns
//! page     ──► rows as bytes, between cores
//! ```
//!
//! Invariants: a core never waits for another inside a call; data crosses threads by value and only
//! through `mailbox/`; glommio is named in `runtime.rs`, `groups.rs` and `os/bridge.rs`, nowhere
//! else in this crate.

mod background;
mod boot;
pub mod clock;
pub mod gather;
pub mod groups;
mod held;
pub mod idle;
pub mod limits;
pub mod mailbox;
pub mod message;
pub mod node;
pub mod notify;
pub mod os;
pub mod owner;
pub mod pace;
pub mod page;
mod router;
pub mod runtime;
pub mod service;
pub mod shard;

pub use boot::Booted;
pub use groups::Group;
pub use message::AlterError;
pub use owner::{ShardId, Sharder};
pub use runtime::Runtime;
pub use service::Service;
pub use shard::Shard;

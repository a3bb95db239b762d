//! Thread per core: who owns what, how cores talk, and the one place where anything is spawned.
//!
//! ```text
//! node     ──► start and stop of all cores            runtime ──► an executor per core
//!                                                     outstanding ─► what that has under way
//! boot     ──► the data directory, before any shard   groups  ──► who competes for a core
//! shard    ──► one core: engine, peers, tickets       idle    ──► spin, then sleep
//! peers    ──► credits, mail, who waits for replies   completions ► writes that are done
//! router   ──► to whom a request goes: the API        gaps    ──► whether spinning pays
//! schema   ──► what every core follows, in order
//! contention ► whether others want this core          yielder ──► long work in short turns
//! scatter  ──► reads over many owners, as one page    clock   ──► the time, once a pass
//! background ► log, flushes, compactions              notify  ──► wake-ups inside a core
//! upkeep   ──► what an operator asks of all cores     snapshots ► taken, listed, given back
//! backpressure ► answers held back as memory fills    mailbox ──► N × N rings, and a bell
//! message, page, protocol ─► what travels             os      ──► epoll, eventfd, affinity
//! manual   ──► a node driven by hand, without sockets      suspended ─► what waits, in a slab
//! owner    ──► token -> shard, shard -> tokens        schema_changes ► the log of the schema
//! ticket   ──► the name of a write under way          limits  ──► the bounds of all this
//! stalls   ──► steps that took long                   timestamps ► what was given stays given
//! ```
//!
//! Invariants: a core never waits for another inside a call; data crosses threads by value and only
//! through `mailbox/`; glommio is named in `runtime.rs`, `groups.rs` and `os/bridge.rs`, nowhere
//! else in this crate, and what it has under way is counted in `outstanding.rs`.

mod background;
mod backpressure;
mod batches;
pub mod boot;
pub mod clock;
mod completions;
mod contention;
mod device;
pub mod effort;
mod emptying;
mod fullness;
mod gaps;
pub mod groups;
pub mod idle;
pub mod limits;
pub mod mailbox;
pub mod manual;
pub mod message;
mod nearest_read;
pub mod node;
pub mod notify;
pub mod os;
pub mod outbox;
mod outstanding;
pub mod owner;
pub mod page;
mod peers;
pub mod protocol;
mod range_read;
pub mod read_pauses;
mod router;
pub mod runtime;
pub mod scatter;
mod schema;
pub mod schema_changes;
pub mod shard;
mod sleeping_pass;
pub mod snapshots;
pub mod stalls;
pub mod suspended;
pub mod term;
pub mod throughput;
pub mod ticket;
mod timestamps;
pub mod upkeep;
mod view_builds;
mod view_order;
mod view_tables;
mod views;
pub mod yielder;

pub use boot::Booted;
pub use groups::Group;
pub use message::AlterError;
pub use owner::{ShardId, Sharder};
pub use peers::{Asker, Incoming};
pub use protocol::Protocol;
pub use router::join;
pub use runtime::Runtime;
pub use shard::Shard;
pub use term::{Ended, Term};
pub use ticket::Ticket;

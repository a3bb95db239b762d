//! A lean client of the native protocol: few threads, many connections, deep pipelines.
//!
//! ```text
//!            one thread, one pass
//!   sockets ─► link ─► reply  ─► books (judge, count, journal) ─► lanes ─► statement ─► link ─► sockets
//!                                                   ▲
//!                                   pace ─► workload.next
//! ```
//!
//! A pass waits in `epoll`, drains what came, flushes the journal, issues what is due, and then
//! makes one `send` per connection that has something to say. Nothing is allocated per operation.
//!
//! A request goes to the shard that owns its token when the server says it has shards (`topology`):
//! each shard is a lane with its connections; a lane that is full parks its operations.

pub mod books;
pub mod handshake;
pub mod lanes;
pub mod link;
pub mod pace;
pub mod run;
pub mod statement;
pub mod sys;
pub mod topology;
pub mod worker;

//! A lean client of the native protocol: few threads, many connections, deep pipelines.
//!
//! ```text
//!            one thread, one pass
//!   sockets ─► link ─► reply  ─► recorder ─► queues ─► statement ─► link ─► sockets
//!                                               ▲
//!                               pace ─► workload.next
//! ```
//!
//! A pass waits in `epoll`, drains what came, flushes the journal, issues what is due, and then
//! makes one `send` per connection on which frames were put. Nothing is allocated per operation.
//!
//! A request goes to the shard that owns its token when the server says it has shards (`topology`):
//! each shard has a queue, where operations wait for a free slot of its connections.

pub mod beside;
pub mod handshake;
pub mod link;
pub mod pace;
pub mod queues;
pub mod recorder;
pub mod run;
pub mod statement;
pub mod sys;
pub mod topology;
pub mod worker;

//! The tools that drive and inspect a CQL server from outside.
//!
//! ```text
//! popularity   which key is next          value    bytes that prove their origin
//! workload     which operation is next    proof    what a read must satisfy
//! client       connections, the loop      journal  what was acknowledged, on disk
//! measure      latencies, CPU             report   JSON and one offline page
//! admin        asks a running server over its admin socket
//! sst          looks into files of tables, without a server
//! ```
//!
//! Deciding (`popularity`, `workload`, `proof`) has no I/O and no clock; `client` has both.

pub mod admin;
pub mod client;
pub mod command;
pub mod console;
pub mod error;
pub mod flags;
pub mod journal;
pub mod ledger;
pub mod limits;
pub mod measure;
pub mod popularity;
pub mod proof;
pub mod report;
pub mod sst;
pub mod value;
pub mod wire;
pub mod workload;

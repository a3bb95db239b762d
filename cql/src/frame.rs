//! The native protocol v3, v4 and v5: bytes of a connection to requests, answers to bytes.
//!
//! ```text
//!  socket bytes ─► reader ─► Header + body ─► Request<'a> ─► (execute)
//!                    │ v5: segment (CRC24, CRC32, LZ4)
//!                    │ v3, v4: compress (LZ4, Snappy)
//!  socket bytes ◄─ writer ◄─ response::* appended to a Vec<u8> ◄┘
//! ```
//!
//! Everything borrows: a decoded request points into the bytes it came in. Nothing is allocated by
//! a decoder save the output of a decompression, whose size is checked against a limit first.
//! The client's half (`request::*::put`, [`client`]) serves the load tool and proves the other half
//! in tests.
//!
//! Not here: sockets, connection state beyond framing, what a request means.

pub mod buffer;
pub mod client;
pub mod compress;
pub mod consistency;
pub mod error;
mod frame_queue;
pub mod frame_reader;
pub mod frame_writer;
pub mod header;
pub mod reader;
pub mod request;
pub mod response;
pub mod segment;
pub mod writer;

pub use consistency::Consistency;
pub use error::{ErrorCode, Malformed};
pub use header::{Flags, Header, Opcode, Version};
pub use reader::{Reader, Value};

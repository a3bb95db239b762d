//! SIGTERM and SIGINT: the first asks to stop, the second ends the process at once.
//!
//! Each core has a pipe of its own in its poller, so a sleeping core wakes and nothing is shared.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// What a process tells that was ended by the second signal.
const STATUS_INTERRUPTED: i32 = 130;

/// Registers the signals; each of the `shards` pipes becomes readable when one comes.
pub(crate) fn pipes(shards: usize) -> io::Result<Vec<UnixStream>> {
    let asked = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::with_capacity(shards);
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag unset and sets it.
        flag::register_conditional_shutdown(signal, STATUS_INTERRUPTED, asked.clone())?;
        flag::register(signal, asked.clone())?;
    }
    for _ in 0..shards {
        let (reader, writer) = UnixStream::pair()?;
        low_level::pipe::register(SIGINT, writer.try_clone()?)?;
        low_level::pipe::register(SIGTERM, writer)?;
        readers.push(reader);
    }
    Ok(readers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn every_shard_hears_the_signal() {
        let mut pipes = pipes(3).unwrap();
        low_level::raise(SIGTERM).unwrap();
        for pipe in &mut pipes {
            pipe.read_exact(&mut [0]).unwrap();
        }
    }
}

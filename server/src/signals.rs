//! SIGTERM and SIGINT: the first asks to stop, the second ends the process at once.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// What a process tells that was ended by the second signal.
const STATUS_INTERRUPTED: i32 = 130;

/// The signals of this process that mean stop.
pub(crate) struct Signals {
    pipe: UnixStream,
}

impl Signals {
    /// From here on the first signal is kept for [`wait`](Signals::wait).
    pub(crate) fn register() -> io::Result<Signals> {
        let asked = Arc::new(AtomicBool::new(false));
        let (pipe, writer) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT] {
            // In this order: the first signal finds the flag unset, and sets it.
            flag::register_conditional_shutdown(signal, STATUS_INTERRUPTED, asked.clone())?;
            flag::register(signal, asked.clone())?;
            low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Signals { pipe })
    }

    /// Blocks until a signal asks to stop.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.pipe.read(&mut [0; 16]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome.map(drop),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_came_early_is_kept() {
        let mut signals = Signals::register().unwrap();
        low_level::raise(SIGTERM).unwrap();
        signals.wait().unwrap();
    }
}

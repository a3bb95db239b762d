//! The rest of a compressed segment that a core has not read yet, since it reads little while it is full.
//!
//! Whose frames are in such a segment is not known before it is whole, so that giving it up ends the connection. What
//! its client has sent of it is read in the step that has read its beginning: the frames are taken, or refused each,
//! and nothing is held longer than of a short segment. Where others have decompressed so much that it could not be
//! opened, the rest stays in the socket until there is space (`load.rs`).
//!
//! Not here: frames that are not compressed, which are refused by their headers.

use super::{Connection, Fate, State};
use crate::load::Load;
use crate::service::Service;
use crate::time_slice::TimeSlice;

impl Connection {
    /// Reads the rest of a compressed segment that was cut, if there is no memory to hold its beginning, and serves it.
    #[inline]
    pub(super) fn read_rest(
        &mut self,
        scratch: &mut [u8],
        service: &impl Service,
        load: &mut Load,
        slice: TimeSlice,
    ) -> Fate {
        // A core that has space for it goes on with its next turn.
        while load.is_full()
            && self.state == State::Open
            && !self.is_held_back(load)
            && let Some(rest) = self.cut_off_bytes()
        {
            if !load.may_expand() {
                self.waits_for_space = true;
                return Fate::Keep;
            }
            let most = rest.min(scratch.len());
            let count = match self.read_or_fall_silent(&mut scratch[..most], service) {
                Ok(count) => count,
                Err(fate) => return fate,
            };
            self.input.extend_from_slice(&scratch[..count]);
            self.take_input(service, load, slice);
        }
        Fate::Keep
    }

    /// How many bytes a compressed segment lacks of which the socket may have more; `None` if none has begun, or all
    /// that its client has sent of it was read.
    pub(super) fn cut_off_bytes(&self) -> Option<usize> {
        if !self.unread || self.backlog {
            return None;
        }
        self.reader.compressed_rest(&self.input)
    }
}

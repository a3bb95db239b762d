//! The memory that a connection keeps for its next requests and answers: its buffers, and the lists of what waits.
//!
//! It is counted when answers are sent. If all connections of a core keep more than their share of its memory, the
//! connection gives back all but a little; if nothing is sent for a while, all of it.
//!
//! Not here: what is in the buffers, which is counted with requests and answers (`load.rs`).

use cql::frame::buffer::give_back;

use super::Connection;
use crate::limits::BUFFER_BYTES_KEPT;
use crate::load::Load;

impl Connection {
    /// Counts the memory that its buffers keep for what comes next. If there is none for it, gives most of it back.
    #[inline]
    pub(super) fn count_kept(&mut self, load: &mut Load) {
        let spare_bytes = self.spare_bytes();
        // Mostly it is as it was.
        if spare_bytes != self.kept_bytes && !self.keep(spare_bytes, load) {
            self.reader.give_back(BUFFER_BYTES_KEPT);
            self.writer.give_back(BUFFER_BYTES_KEPT);
            give_back(&mut self.input, BUFFER_BYTES_KEPT);
            self.unanswered.give_back();
            self.session.give_back();
            self.keep(self.spare_bytes(), load);
        }
    }

    fn keep(&mut self, bytes: usize, load: &mut Load) -> bool {
        load.kept(std::mem::replace(&mut self.kept_bytes, bytes), bytes)
    }

    /// Bytes of its memory that nothing is in which is counted otherwise.
    #[inline]
    pub(crate) fn spare_bytes(&self) -> usize {
        let in_use = self.reader.held_bytes() + self.writer.waiting_bytes() + self.input.len();
        let buffers =
            self.reader.memory_bytes() + self.writer.memory_bytes() + self.input.capacity();
        let lists = self.unanswered.memory_bytes() + self.session.lists_bytes();
        (buffers + lists).saturating_sub(in_use)
    }

    /// Gives back memory, if nothing happened since the last time this was asked.
    pub(crate) fn trim(&mut self, load: &mut Load) {
        if !std::mem::take(&mut self.touched) {
            self.reader.trim();
            self.writer.trim();
            self.input.shrink_to_fit();
            self.unanswered.trim();
            self.session.give_back();
            self.keep(self.spare_bytes(), load);
        }
    }
}

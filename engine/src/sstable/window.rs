//! A piece of the file that was read at once, in which frames are found.
//!
//! Reading block after block, the piece grows, so that a short walk reads little and a long one seldom. Scans are
//! counted with the longest piece of a walk for each lane before they begin (`read/turns.rs`). Reads of keys are not,
//! as they are many and mostly short: what their pieces grow by is counted here. A merge reads long pieces only where
//! it has few lanes.

use std::cell::Cell;
use std::rc::Rc;

use super::file::Reading;
use crate::error::Result;
use crate::io::{File, IoClass, View};
use crate::limits::{
    LONG_PIECE_BYTES, READ_AHEAD_BYTES_FIRST, READ_AHEAD_BYTES_MAX, WRITE_ALIGN_BYTES,
};

/// A piece of a file that is read ahead at once.
#[derive(Debug)]
pub(crate) struct Window {
    view: Option<View>,
    start: u64,
    /// How much the next piece holds, if the walk goes that far.
    ahead_bytes: usize,
    walked: bool,
    /// What a piece is read for.
    class: IoClass,
    /// What the pieces of a read of a key have grown by; `None` if they are not counted.
    grown: Option<Grown>,
}

/// What the pieces of all reads of keys of a shard have grown by, in bytes.
#[derive(Debug, Default)]
pub(crate) struct WindowBytes(Cell<u64>);

/// What the pieces of one read have grown by.
#[derive(Debug, Default)]
struct Grown {
    bytes: u64,
    /// Where that is counted, since there is something.
    all: Option<Rc<WindowBytes>>,
}

impl Grown {
    /// Grows to so many bytes, if all are no more than `most` then.
    fn grow(&mut self, bytes: u64, (all, most): (&Rc<WindowBytes>, u64)) -> bool {
        let others = all.0.get() - self.bytes;
        if bytes > self.bytes && others.saturating_add(bytes) > most {
            return false;
        }
        if bytes > 0 {
            all.0.set(others + bytes);
            self.bytes = bytes;
            self.all.get_or_insert_with(|| all.clone());
        }
        true
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            all.0.set(all.0.get() - self.bytes);
        }
    }
}

impl Window {
    pub(crate) fn new(reading: Reading) -> Window {
        let ahead_bytes = match reading {
            Reading::Cached | Reading::Point | Reading::Sample => 0,
            Reading::Scan => READ_AHEAD_BYTES_FIRST,
            Reading::Compaction => READ_AHEAD_BYTES_MAX,
            Reading::CompactionInLongPieces => LONG_PIECE_BYTES,
        };
        let grown = (reading == Reading::Point).then(Grown::default);
        Window { view: None, start: 0, ahead_bytes, walked: false, class: reading.class(), grown }
    }

    /// A window for a check of a whole file, with requests of `class`.
    pub(crate) fn of_check(class: IoClass) -> Window {
        Window { class, ..Window::new(Reading::Compaction) }
    }

    /// The same for a file of which only the checksums are checked: its pieces may be longer, for each takes less time.
    pub(crate) fn of_read_back(class: IoClass) -> Window {
        Window { class, ahead_bytes: LONG_PIECE_BYTES, ..Window::new(Reading::Compaction) }
    }

    /// The frame at `offset`, if all of it was read.
    pub(crate) fn frame(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.view.as_deref()?.get(from..from.checked_add(bytes)?)
    }

    /// From where a piece would be read that ends at `end`.
    pub(crate) fn reach(&self, end: u64) -> u64 {
        end.saturating_sub(self.ahead_bytes as u64)
    }

    /// The walk came to the next block: if that is not here either, the next piece is larger.
    pub(crate) fn walk(&mut self) {
        self.walked = true;
    }

    /// Enlarges the next piece, if the walk has gone on, up to the longest of a walk, and if `space` has enough for it:
    /// what all reads of keys have grown by, and may grow by. A piece that is as long already stays as it is.
    pub(crate) fn widen(&mut self, space: (&Rc<WindowBytes>, u64)) {
        if !std::mem::take(&mut self.walked) || self.ahead_bytes >= READ_AHEAD_BYTES_MAX {
            return;
        }
        let wanted = (self.ahead_bytes * 2).clamp(READ_AHEAD_BYTES_FIRST, READ_AHEAD_BYTES_MAX);
        let by = (wanted - READ_AHEAD_BYTES_FIRST) as u64;
        if self.grown.as_mut().is_none_or(|grown| grown.grow(by, space)) {
            self.ahead_bytes = wanted;
        }
        if self.class == IoClass::Read {
            self.class = IoClass::Ahead;
        }
    }

    /// Reads the frame at `offset`, and ahead of it but not past `end`.
    pub(crate) async fn read(
        &mut self,
        file: &File,
        offset: u64,
        bytes: usize,
        end: u64,
    ) -> Result<()> {
        let space = usize::try_from(end - offset).unwrap_or(usize::MAX);
        // Up to a whole unit of the device: one more would make the request longer than a piece is.
        let ahead_bytes = self.ahead_bytes.saturating_sub(offset as usize % WRITE_ALIGN_BYTES);
        let wanted = bytes.max(ahead_bytes.min(space));
        self.view = None;
        self.view = Some(file.of_class(self.class).read_exact_at(offset, wanted).await?);
        self.start = offset;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widened(all: &Rc<WindowBytes>, most: u64) -> Window {
        let mut window = Window::new(Reading::Point);
        for _ in 0..5 {
            window.walk();
            window.widen((all, most));
        }
        window
    }

    /// Before: nothing counted them. 2000 reads of wide partitions in 8 files each held 2 GiB of a shard.
    #[test]
    fn pieces_of_reads_of_keys_grow_by_a_part_of_the_memory_all_together() {
        let (all, most) = (Rc::default(), 1 << 20);
        let windows: Vec<Window> = (0..1000).map(|_| widened(&all, most)).collect();
        let by = |window: &Window| window.ahead_bytes - READ_AHEAD_BYTES_FIRST;
        let grown: usize = windows.iter().map(by).sum();
        assert!(grown as u64 <= most && grown as u64 > most / 2, "{grown} bytes");
        assert_eq!(windows[0].ahead_bytes, READ_AHEAD_BYTES_MAX);
        assert_eq!(all.0.get(), grown as u64);
        drop(windows);
        assert_eq!(all.0.get(), 0, "it is given back");
        assert_eq!(widened(&all, most).ahead_bytes, READ_AHEAD_BYTES_MAX);
        // Without any space they are read in pieces all the same.
        assert_eq!(widened(&all, 0).ahead_bytes, READ_AHEAD_BYTES_FIRST);
    }
}

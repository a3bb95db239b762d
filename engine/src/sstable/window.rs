//! A piece of the file that was read at once, in which frames are found.
//!
//! Reading block after block, the piece grows, so that a short walk reads little and a long one seldom.

use super::file::Reading;
use crate::error::Result;
use crate::io::{File, IoClass, View};
use crate::limits::{READ_AHEAD_BYTES_FIRST, READ_AHEAD_BYTES_MAX};

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
}

impl Window {
    pub(crate) fn new(reading: Reading) -> Window {
        let ahead_bytes = match reading {
            Reading::Cached | Reading::Point | Reading::Sample => 0,
            Reading::Scan => READ_AHEAD_BYTES_FIRST,
            Reading::Compaction => READ_AHEAD_BYTES_MAX,
        };
        Window { view: None, start: 0, ahead_bytes, walked: false, class: reading.class() }
    }

    /// One for who checks all of a file by requests of this class.
    pub(crate) fn of_check(class: IoClass) -> Window {
        Window { class, ..Window::new(Reading::Compaction) }
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

    /// Enlarges the next piece, if the walk has gone on.
    pub(crate) fn widen(&mut self) {
        if std::mem::take(&mut self.walked) {
            self.ahead_bytes =
                (self.ahead_bytes * 2).clamp(READ_AHEAD_BYTES_FIRST, READ_AHEAD_BYTES_MAX);
            if self.class == IoClass::Read {
                self.class = IoClass::Ahead;
            }
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
        let wanted = bytes.max(self.ahead_bytes.min(space));
        self.view = None;
        self.view = Some(file.of_class(self.class).read_exact_at(offset, wanted).await?);
        self.start = offset;
        Ok(())
    }
}

//! How much disk a merge holds beside its inputs, and how long its fragments are for that.
//!
//! ```text
//! run 1   [====|====|##  |    ]      = replaced and unlinked     # merged, but its file is still needed for the rest
//! run 2   [=====|###   |      ]
//! output  [=====|====|#       ]      held twice: the # — at most a fragment of each run, and the one being written
//! ```
//!
//! A file that other shards or snapshots have, too, is held to the end: its space is not free when this merge has
//! unlinked it. So is a file of which a view outside the merge has another part: it is not unlinked. Any other file is
//! unlinked when all of it is merged, so the shorter the fragments of a run are, the less is held twice when it is
//! merged. They are a small part of what the shard has of the table, and never longer than the strategy says.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::engine::Engine;
use crate::io::Stat;
use crate::layout;
use crate::limits::FRAGMENTS_PER_TABLE;
use crate::manifest::{ViewEntry, ViewId};
use crate::table::{Table, View, file_bytes};

impl Engine {
    /// Makes fragments of at least so many bytes where they are short to save space, instead of
    /// [`FRAGMENT_BYTES_MIN`](crate::limits::FRAGMENT_BYTES_MIN): a test sees several of them in little data.
    pub fn set_fragment_bytes_min(&self, bytes: u64) {
        self.fragment_bytes_min.set(bytes);
    }

    /// How long the fragments of a merge are, in bytes, if the strategy wants none longer than `bytes_max`.
    pub(super) fn fragment_bytes(&self, table: &Table, bytes_max: u64) -> u64 {
        let bytes = file_bytes(table.views().iter());
        (bytes / FRAGMENTS_PER_TABLE).max(self.fragment_bytes_min.get()).min(bytes_max)
    }

    /// Of these files those whose space is not free when this shard has unlinked them: another shard has them, or a
    /// snapshot under another name.
    pub(super) async fn files_that_stay<'v>(
        &self,
        entries: impl IntoIterator<Item = &'v ViewEntry>,
    ) -> BTreeSet<Uuid> {
        let mut stay = BTreeSet::new();
        for ViewEntry { table, sstable, .. } in entries {
            let path = layout::sstable_path(*table, *sstable);
            // A file that cannot be asked is taken to stay: then more space is asked for than is needed.
            let goes = self.manifest.has_alone(*sstable)
                && matches!(self.disk.stat(&path).await, Ok(Some(Stat { names: 1, .. })));
            if !goes {
                stay.insert(*sstable);
            }
        }
        stay
    }
}

/// The most bytes that a merge of `inputs`, which are some of the table's `views`, into such fragments holds at a time
/// beside them, if these files stay.
pub(super) fn space_for(
    inputs: &[View],
    views: &[View],
    stay: &BTreeSet<Uuid>,
    fragment_bytes: u64,
) -> u64 {
    let id = |view: &View| view.entry.id();
    let outside = files_outside(inputs.iter().map(id).collect(), views.iter().map(id));
    let held = |view: &View| Held {
        run: view.entry.run,
        bytes: view.entry.file_bytes + INDEX_FILES_HELD * index_bytes(view),
        is_freed: !stay.contains(&view.entry.sstable) && !outside.contains(&view.entry.sstable),
    };
    space_bytes(inputs.iter().map(held), fragment_bytes)
}

/// The files of which a view that is no input has a part.
fn files_outside(inputs: BTreeSet<ViewId>, views: impl Iterator<Item = ViewId>) -> BTreeSet<Uuid> {
    views.filter(|id| !inputs.contains(id)).map(|id| id.sstable).collect()
}

/// What comes out has about the indexes of what goes in, and while their terms are sorted these are on the disk once
/// more.
const INDEX_FILES_HELD: u64 = 2;

/// Bytes of the index files of a view.
fn index_bytes(view: &View) -> u64 {
    view.sstable.indexes().iter().map(|file| file.bytes()).sum()
}

/// A file that is merged.
struct Held {
    run: Uuid,
    /// With what its indexes take of the output.
    bytes: u64,
    /// Its space is free when all of it is merged.
    is_freed: bool,
}

/// The most bytes that a merge of these files holds at a time beside them, if what comes out has no more bytes than
/// what goes in.
fn space_bytes(inputs: impl Iterator<Item = Held>, fragment_bytes: u64) -> u64 {
    let (mut all, mut kept) = (0, fragment_bytes);
    let mut longest: BTreeMap<Uuid, u64> = BTreeMap::new();
    for Held { run, bytes, is_freed } in inputs {
        all += bytes;
        if is_freed {
            let longest = longest.entry(run).or_default();
            *longest = bytes.max(*longest);
        } else {
            kept += bytes;
        }
    }
    all.min(kept + longest.values().sum::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(inputs: &[(u128, u64)], fragment_bytes: u64) -> u64 {
        let held =
            |&(run, bytes): &(u128, u64)| Held { run: Uuid::from_u128(run), bytes, is_freed: true };
        space_bytes(inputs.iter().map(held), fragment_bytes)
    }

    #[test]
    fn a_merge_of_fragments_needs_one_of_each_run_and_one_of_whole_files_all() {
        assert_eq!(space(&[(1, 100), (2, 100)], 100), 200, "never more than what goes in");
        let runs: Vec<(u128, u64)> = (0..40).map(|n| (n % 4, 100)).collect();
        assert_eq!(space(&runs, 100), 500);
        assert_eq!(space(&[(1, 90), (1, 10), (1, 80)], 7), 97, "the longest of a run counts");
    }

    #[test]
    fn a_file_that_others_still_need_is_held_to_the_end() {
        let shared = (0..10).map(|_| Held { run: Uuid::nil(), bytes: 10, is_freed: false });
        let own = (0..10).map(|_| Held { run: Uuid::nil(), bytes: 10, is_freed: true });
        assert_eq!(space_bytes(shared.chain(own), 10), 120);
    }

    /// Before: a file was taken to be unlinked when one of the shard's parts of it was merged.
    #[test]
    fn a_file_of_which_another_part_is_not_merged_stays() {
        let part = |file: u128, first| ViewId { sstable: Uuid::from_u128(file), first };
        let views = [part(1, 0), part(1, 50), part(2, 0), part(3, 0)];
        let outside = |inputs: &[ViewId]| {
            files_outside(inputs.iter().copied().collect(), views.iter().copied())
        };
        assert_eq!(outside(&[views[0], views[2]]), [1, 3].map(Uuid::from_u128).into());
        assert_eq!(outside(&[views[0], views[1], views[2]]), [3].map(Uuid::from_u128).into());
    }
}

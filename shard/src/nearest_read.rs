//! The nearest rows of what other owners have: each gives its own nearest, and the nearest of these are the answer.
//!
//! ```text
//! owner 0 ─► its n nearest ─┐
//! owner 1 ─► its n nearest ─┼─► NearestRows ─► the n nearest, in order
//! owner 2 ─► its n nearest ─┘
//! ```
//!
//! All owners are asked at once. A row that is one of the nearest of all is one of the nearest of its owner, so that
//! nothing is missed; the vectors come with the rows, and are measured here again. Each owner's answer is bounded as
//! the whole is (`model::limits::NEAREST_ROWS_BYTES_MAX`).

use std::time::Instant;

use engine::{Error, Result};
use model::read::{NearestRows, Partitions, ReadCommand, ReadEnd, RowSink};

use crate::owner::{ShardId, Sharder};
use crate::protocol::Protocol;
use crate::router::join;
use crate::scatter::{Owners, split_range};
use crate::shard::Shard;

impl<P: Protocol> Shard<P> {
    /// Reads the nearest rows of these owners.
    pub(crate) async fn read_nearest(
        &self,
        owners: Owners,
        command: &ReadCommand,
        sink: &mut impl RowSink,
        deadline: Option<Instant>,
    ) -> Result<ReadEnd> {
        let nearest = command.nearest.as_ref().expect("the nearest rows are wanted");
        let parts = parts(owners, &command.partitions, self.sharder()).into_iter();
        let part = |(owner, partitions)| {
            self.page_of(owner, ReadCommand { partitions, ..command.clone() }, deadline)
        };
        let pages = join(parts.map(part)).await;
        let schema = self.schema();
        let missing = || Error::invalid("the table was dropped");
        let table = schema.table_by_id(command.table).ok_or_else(missing)?;
        let mut rows = NearestRows::new(nearest, table);
        let mut end = ReadEnd::default();
        for page in pages {
            let page = page?;
            page.replay(None, &mut rows);
            end.tombstones += page.tombstones;
            end.blocks += page.blocks;
            end.cached_blocks += page.cached_blocks;
        }
        end.rows = rows.give(sink).map_err(|error| Error::invalid(error.to_string()))?;
        Ok(end)
    }
}

/// What each owner is asked for.
fn parts(owners: Owners, partitions: &Partitions, sharder: Sharder) -> Vec<(ShardId, Partitions)> {
    match (owners, partitions) {
        (Owners::One(owner), _) => vec![(owner, partitions.clone())],
        (_, Partitions::Range(range)) => split_range(*range, None, sharder)
            .into_iter()
            .map(|(owner, range)| (owner, Partitions::Range(range)))
            .collect(),
        (_, Partitions::Keys(keys)) => {
            let of = |owner: ShardId| {
                let is_its = |(token, _): &&_| sharder.shard_of(*token) == owner;
                let its: Vec<_> = keys.iter().filter(is_its).cloned().collect();
                (!its.is_empty()).then_some((owner, Partitions::Keys(its)))
            };
            sharder.all().filter_map(of).collect()
        }
    }
}

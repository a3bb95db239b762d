//! The nearest rows of what other owners have: each gives its own nearest, and the nearest of these are the answer.
//!
//! ```text
//! owner 0 ─► its n nearest ─┐
//! owner 1 ─► its n nearest ─┼─► NearestRows ─► the n nearest, in order
//! owner 2 ─► its n nearest ─┘
//! ```
//!
//! Before it asks, a search waits in order for space in a part of the core's memory, for what each owner may send and
//! for what is kept of it, and it has it until the last row is given. All owners are asked at once, and what one has
//! sent is put together with the rest when it comes. A row that is one of the nearest of all is one of the nearest of
//! its owner, so that
//! nothing is missed; the vectors come with the rows, and are measured here again. Each owner's answer is bounded as
//! the whole is (`engine::limits::nearest_rows_bytes`).

use std::cell::RefCell;
use std::time::Instant;

use engine::{Error, Result, give_nearest};
use model::RowRef;
use model::read::{Flow, NearestRows, PartitionRef, Partitions, ReadCommand, ReadEnd, RowSink};

use crate::owner::{ShardId, Sharder};
use crate::page::Page;
use crate::protocol::Protocol;
use crate::read_pauses::ReadPauses;
use crate::router::join;
use crate::scatter::{Owners, split_range};
use crate::shard::{Shard, group_of};

impl<P: Protocol> Shard<P> {
    /// Reads the nearest rows of these owners.
    pub(crate) async fn read_nearest(
        &self,
        owners: Owners,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        deadline: Option<Instant>,
    ) -> Result<ReadEnd> {
        let nearest = command.nearest.as_ref().expect("the nearest rows are wanted");
        let parts = parts(owners, &command.partitions, self.sharder());
        let bytes_max = self.engine.nearest_rows_bytes();
        let _place = self.searches.take(((parts.len() + 1) * bytes_max) as u64).await;
        let schema = self.schema();
        let missing = || Error::invalid("the table was dropped");
        let table = schema.table_by_id(command.table).ok_or_else(missing)?;
        let rows = RefCell::new(NearestRows::new(nearest, table).with_bytes_max(bytes_max));
        let pauses = ReadPauses::new(self.runtime(), group_of(command));
        let pause = async || pauses.yield_if_due().await;
        let part = async |(owner, partitions): (ShardId, Partitions)| -> Result<ReadEnd> {
            let command = ReadCommand { partitions, ..command.clone() };
            let page = self.page_of(owner, command, deadline).await?;
            page.replay_in_turns(None, &mut Shared(&rows), &pause).await;
            let Page { tombstones, blocks, cached_blocks, .. } = page;
            Ok(ReadEnd { tombstones, blocks, cached_blocks, ..ReadEnd::default() })
        };
        let mut end = ReadEnd::default();
        for part in join(parts.into_iter().map(part)).await {
            let part = part?;
            end.tombstones += part.tombstones;
            end.blocks += part.blocks;
            end.cached_blocks += part.cached_blocks;
        }
        end.rows = give_nearest(rows.into_inner(), sink, &pause).await?;
        Ok(end)
    }
}

/// The rows of all owners, to which each adds its own.
struct Shared<'s, 'n>(&'s RefCell<NearestRows<'n>>);

impl RowSink for Shared<'_, '_> {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        self.0.borrow_mut().row(partition, clustering, row)
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

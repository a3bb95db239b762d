//! Opening the data directory, before any shard is: the lock, the layout, the schema.
//!
//! ```text
//! lock ─► layout ─┬─ nothing, or a first start cut short: make everything, then say that it is ready
//!                 └─ ready: clean up what an earlier start left
//!      ─► the schema's log, replayed onto the built-in tables
//!      ─► another number of shards than before: deal the data anew
//! ```
//!
//! Done once, on the first core, before the others start. A crash at any step is followed by the
//! same steps again: the layout file is replaced atomically and last.
//!
//! Not here: what an engine does with its directory, moving data between owners (`engine`).

use std::sync::Arc;

use engine::io::{DirLock, Disk};
use engine::layout::{Found, Layout, SchemaLog};
use engine::{Error, Reshard, Result};
use model::schema::{self, Unreadable};
use model::{Schema, TokenRange};
use uuid::Uuid;

use crate::node::NodeConfig;
use crate::owner::Sharder;

/// What every core is told about the data directory.
#[derive(Clone, Debug)]
pub struct Booted {
    /// Where things are.
    pub layout: Layout,
    /// The schema as the log left it.
    pub schema: Arc<Schema>,
}

/// The data directory as the first core keeps it.
pub(crate) struct Home {
    disk: Disk,
    layout: Layout,
    /// Held as long as the process lives: no other process may touch the files before.
    _lock: DirLock,
}

impl Home {
    /// Notes that timestamps up to `wall_us` may have been given out.
    pub(crate) async fn leave(&self, wall_us: i64) -> Result<()> {
        let timestamp_high = self.layout.timestamp_high.max(wall_us);
        Layout { timestamp_high, ..self.layout.clone() }.store(&self.disk).await
    }
}

/// Opens or makes the data directory for the configured number of shards.
pub(crate) async fn boot(disk: &Disk, config: &NodeConfig) -> Result<(Booted, Home, SchemaLog)> {
    let lock = Layout::lock(disk).await?;
    let mut layout = match Layout::find(disk).await? {
        Found::Nothing => first(disk, config, Uuid::new_v4()).await?,
        Found::Unfinished(layout) => {
            layout.clear_unfinished(disk).await?;
            first(disk, config, layout.host_id).await?
        }
        Found::Ready(layout) => layout,
    };
    layout.remove_other_generations(disk).await?;
    let (schema_log, entries) = SchemaLog::open(disk, chance()).await?;
    let schema = Arc::new(replay(&config.base, &entries)?);
    if layout.shards as usize != config.shards {
        layout = deal_anew(disk, config, &layout, &schema).await?;
    }
    engine::sweep(disk, &layout).await?;
    layout.timestamp_high = layout.timestamp_high.max(config.wall_us);
    layout.store(disk).await?;
    let home = Home { disk: disk.clone(), layout: layout.clone(), _lock: lock };
    Ok((Booted { layout, schema }, home, schema_log))
}

/// Gives the data to another number of shards.
async fn deal_anew(
    disk: &Disk,
    config: &NodeConfig,
    from: &Layout,
    schema: &Schema,
) -> Result<Layout> {
    tracing::info!(from = from.shards, to = config.shards, "dealing the data to other shards");
    let sharder = Sharder::new(config.shards);
    let owned: Vec<TokenRange> = sharder.all().map(|shard| sharder.range_of(shard)).collect();
    let log = engine::commitlog::Config { seed: chance(), ..config.log.clone() };
    let (owned, memory_bytes) = (owned.as_slice(), config.shard_memory_bytes);
    Reshard { disk, from, owned, schema, log: &log, memory_bytes }.run().await
}

/// A seed for names that must never repeat.
pub(crate) fn chance() -> u64 {
    Uuid::new_v4().as_u64_pair().1
}

async fn first(disk: &Disk, config: &NodeConfig, host_id: Uuid) -> Result<Layout> {
    let mut layout = Layout {
        ready: false,
        generation: 1,
        shards: config.shards as u32,
        host_id,
        timestamp_high: 0,
    };
    layout.store(disk).await?;
    layout.make_directories(disk).await?;
    SchemaLog::create(disk, chance()).await?;
    for shard in Sharder::new(config.shards).all() {
        engine::Engine::create(disk, &config.engine_config(&layout, shard)).await?;
    }
    layout.ready = true;
    layout.store(disk).await?;
    Ok(layout)
}

/// The schema after all entries of the log.
fn replay(base: &Schema, entries: &[(u64, Vec<u8>)]) -> Result<Schema> {
    let mut schema = base.clone();
    for (number, payload) in entries {
        let damaged = |what: String| Error::corrupt("schema", 0, format!("entry {number}: {what}"));
        let mut warnings = Vec::new();
        let entry = schema::decode(payload, &mut warnings).map_err(|error| match error {
            Unreadable::Newer(found) => {
                Error::Newer { file: "schema".into(), found, known: schema::FORMAT }
            }
            Unreadable::Damaged(what) => damaged(what),
        })?;
        for warning in warnings {
            tracing::warn!("schema entry {number}: {warning}");
        }
        if entry.number != *number {
            return Err(damaged(format!("it says that it is number {}", entry.number)));
        }
        schema = schema.apply(&entry).map_err(|error| damaged(error.to_string()))?;
    }
    Ok(schema)
}

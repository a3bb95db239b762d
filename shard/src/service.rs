//! What the layer above a shard answers itself, when another core asks.
//!
//! The shard carries the questions and does not look into them: which clients are connected, which
//! statements were prepared. They are plain data, and answered at once.

use std::sync::Arc;

use model::Schema;

/// The layer above, on one core.
pub trait Service: 'static {
    /// What its peers may ask.
    type Ask: Send + 'static;
    /// What it answers.
    type Answer: Send + 'static;

    /// Answers a peer, or itself.
    fn answer(&self, ask: Self::Ask) -> Self::Answer;

    /// The schema has changed, and the engine of this core follows the new one already.
    fn adopt(&self, schema: &Arc<Schema>);
}

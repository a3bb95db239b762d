//! Prepared statements: compiled plans that binding turns into mutations and reads.
//!
//! ```text
//! text ──parse──► tree ──prepare──► plan ──┬─bind_write──► mutation bytes, by token
//!                                          └─bind_read───► ReadCommand + ResultEncoder
//! ```
//!
//! EXECUTE touches no tree: a plan knows its columns by id, its cells in the order of storage and
//! its result in the bytes of the metadata.

mod batch;
mod cells;
mod conditions;
mod counters;
mod explain;
mod indexed;
mod list_changes;
mod nearest;
mod not_applied;
mod page;
mod record;
mod select;
mod write;

pub use batch::{BatchPlan, BatchSize, BatchThresholds};
pub use cells::{CellOp, CellWrite, ListEnd};
pub use conditions::{
    ColumnCondition, ConditionTest, ConditionValues, ConditionalWrite, Extent, PartPlan,
    WriteCondition,
};
pub use counters::{CounterOp, CounterWrite};
pub use explain::{EXPLAIN_COLUMNS, ExplainStep};
pub use list_changes::{ListOpPlan, ListWrite};
pub use nearest::NearestOrder;
pub use not_applied::NotApplied;
pub use page::PagingState;
pub use record::{Records, Scratch};
pub use select::{BoundRead, Page, Parts, ResultColumn, SelectPlan};
pub use write::{RowChange, WritePlan};

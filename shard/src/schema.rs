//! The schema that every core follows, and the order of its changes.
//!
//! ```text
//! alter ──► the first shard ──► its log, one change at a time ──► every core adopts ──► the author hears
//! ```
//!
//! Invariants
//! 1. A change is durable before any core follows it.
//! 2. A change that was made for an older schema is a conflict, and nothing was done.
//! 3. Changes, and what needs the schema to stay, have their turns in the order in which they came: a stream of the one
//!    starves none of the other.
//!
//! Not here: what a statement changes (`cql`), the log (`schema_changes.rs`).

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use engine::Result;
use engine::semaphore::{Permit, Semaphore};
use model::{Schema, SchemaChange};

use crate::groups::Group;
use crate::message::{AlterError, Alteration, Reply, Request};
use crate::owner::ShardId;
use crate::protocol::Protocol;
use crate::router::join;
use crate::schema_changes::SchemaChanges;
use crate::shard::Shard;

/// The shard that orders the changes of the schema.
pub(crate) const SCHEMA_SHARD: ShardId = ShardId::new(0);

/// The schema that a core follows, and on the first shard the log of its changes.
pub(crate) struct CurrentSchema {
    current: RefCell<Arc<Schema>>,
    number: Cell<u64>,
    /// Held while a change is made, or while the schema has to stay.
    turn: Semaphore,
    /// Taken while a change is being written.
    log: RefCell<Option<SchemaChanges>>,
}

impl CurrentSchema {
    pub(crate) fn new(schema: Arc<Schema>, log: Option<SchemaChanges>) -> CurrentSchema {
        let number = Cell::new(schema.number);
        let (current, log) = (RefCell::new(schema), RefCell::new(log));
        CurrentSchema { current, number, turn: Semaphore::new(1), log }
    }

    /// Follows `schema` from now on.
    fn replace(&self, schema: Arc<Schema>) {
        assert!(schema.number > self.number.get(), "a core follows later schemas only");
        self.number.set(schema.number);
        self.current.replace(schema);
    }
}

impl<P: Protocol> Shard<P> {
    /// The schema that this core follows.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.current.borrow().clone()
    }

    /// [`Schema::number`] of that schema: cheap to compare.
    #[inline]
    pub fn schema_number(&self) -> u64 {
        self.schema.number.get()
    }

    /// Changes the schema: when this returns, the change is durable and every core follows it.
    /// `based_on` is the [`Schema::number`] that the author of the change looked at.
    pub async fn alter(
        &self,
        change: SchemaChange,
        based_on: u64,
    ) -> Result<Arc<Schema>, AlterError> {
        let alteration = Alteration { change, based_on };
        if self.me() == SCHEMA_SHARD {
            return self.alter_here(alteration).await;
        }
        match self.call(SCHEMA_SHARD, Request::Alter(Box::new(alteration))).await {
            Reply::Altered(result) => result.map_err(|error| *error),
            _ => unreachable!("an alteration is answered with the schema"),
        }
    }

    pub(crate) async fn alter_here(
        &self,
        alteration: Alteration,
    ) -> Result<Arc<Schema>, AlterError> {
        self.alter_after(alteration, async || Ok(())).await
    }

    /// Changes the schema once `before` is done, which is begun only if the schema is as the author of the change saw
    /// it, and stays so.
    pub(crate) async fn alter_after(
        &self,
        alteration: Alteration,
        before: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<Arc<Schema>, AlterError> {
        let turn = self.turn_of_schema().await;
        let log = self.schema.log.take();
        let mut log = log.expect("the log is there for the one that has the turn");
        let result = self.append_change(&mut log, alteration, before).await;
        self.schema.log.replace(Some(log));
        drop(turn);
        let schema = result?;
        let told = join(self.sharder.all().map(|shard| self.tell(shard, schema.clone()))).await;
        assert!(told.iter().all(Result::is_ok), "following a durable schema cannot fail");
        Ok(schema)
    }

    /// Does something while the schema stays as it is, one after the other, on the first shard.
    pub(crate) async fn while_schema_stays<T>(&self, work: impl AsyncFnOnce() -> T) -> T {
        let _turn = self.turn_of_schema().await;
        work().await
    }

    /// One at a time, and none before those that came earlier.
    async fn turn_of_schema(&self) -> Permit<'_> {
        assert_eq!(self.me(), SCHEMA_SHARD, "one shard orders the changes");
        self.schema.turn.take(1).await
    }

    async fn append_change(
        &self,
        log: &mut SchemaChanges,
        Alteration { change, based_on }: Alteration,
        before: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<Arc<Schema>, AlterError> {
        let schema = self.schema();
        if schema.number != based_on {
            return Err(AlterError::Conflict);
        }
        // All shards have as much memory, and the same schema.
        self.engine.admit_schema_change(&schema, &change).map_err(|error| match error {
            engine::Error::Invalid(what) => AlterError::Refused(model::Error::invalid(what)),
            error => AlterError::Store(error),
        })?;
        before().await.map_err(AlterError::Store)?;
        let yielder = self.runtime.yielder(Group::Background);
        let version = uuid::Uuid::new_v4();
        let appended = log.append(&schema, change, version, || yielder.yield_if_due()).await;
        if let Err(AlterError::Store(error)) = &appended {
            // Whether the change is durable is not known: only the next start can say.
            self.background.leave_if_poisoned(error);
        }
        appended
    }

    async fn tell(&self, shard: ShardId, schema: Arc<Schema>) -> Result<()> {
        if shard == self.me() {
            self.adopt(schema);
            return Ok(());
        }
        self.order(shard, Request::Schema(schema)).await
    }

    pub(crate) fn adopt(&self, schema: Arc<Schema>) {
        // Two changes may arrive out of order; the later includes the earlier.
        if schema.number <= self.schema_number() {
            return;
        }
        self.engine.set_schema(&schema);
        self.schema.replace(schema);
        self.view_bell.notify();
    }
}

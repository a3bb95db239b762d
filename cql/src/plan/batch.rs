//! A batch: its statements one after the other into one record, and how large that may become.
//!
//! As in Cassandra a batch of one partition is bounded like any mutation only; what touches several
//! is warned of and then refused.
//!
//! 1. `USING TIMESTAMP` of the batch is evaluated first, and is the time of all its statements.
//! 2. Each statement appends its mutations to the record, in the order of the statements, and each mutation is added to
//!    [`BatchSize`].
//! 3. As soon as the batch touches more than one partition and is longer than the threshold it is refused: the rest is
//!    not bound.
//! 4. After the last statement `warnings` says what the client should know.
//!
//! Two tables of one keyspace with one token count as one partition, since Cassandra writes them as one mutation. The
//! warnings are those of its `BatchStatement`.
//!
//! Not here: which statements may be in one batch (`prepare/batch.rs`), batches with conditions (`conditions.rs`),
//! BATCH messages (`server/src/execute/batch.rs`), which cores own what is written (`server/src/execute/binder.rs`).

use std::sync::Arc;
use std::time::Duration;

use model::{Table, Token};

use super::not_applied::NotApplied;
use super::record::{Records, Scratch, timeout, timestamp};
use super::write::WritePlan;
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::Term;
use crate::lang::ast::BatchKind;
use crate::limits::{
    BATCH_BYTES_MAX, BATCH_MUTATION_BYTES, BATCH_WARN_BYTES, UNLOGGED_BATCH_WARN_PARTITIONS,
};

/// A compiled `BEGIN BATCH`.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    /// Logged or not. Here a batch of one shard is one record either way.
    pub kind: BatchKind,
    /// `USING TIMESTAMP` of the whole.
    pub timestamp: Option<Term>,
    /// `USING TIMEOUT` of the whole.
    pub timeout: Option<Term>,
    /// The statements of the batch, in their order.
    pub writes: Vec<WritePlan>,
    /// What is answered if a condition does not hold; `None` if no statement has one. What has is bound by
    /// [`ConditionalWrite`](super::ConditionalWrite).
    pub not_applied: Option<Arc<NotApplied>>,
}

impl BatchPlan {
    /// How long the batch says that it may take.
    pub fn timeout(&self, bindings: &Bindings<'_>) -> Result<Option<Duration>> {
        timeout(self.timeout.as_ref(), bindings)
    }

    /// Appends the mutations of all statements and adds them to `size`.
    pub fn bind_write(
        &self,
        bindings: &mut Bindings<'_>,
        scratch: &mut Scratch,
        records: &mut impl Records,
        size: &mut BatchSize,
    ) -> Result<()> {
        if let Some(term) = &self.timestamp {
            bindings.time.timestamp_us = timestamp(term, bindings)?;
        }
        for write in &self.writes {
            write.bind_into_batch(bindings, scratch, records, size)?;
        }
        Ok(())
    }
}

impl WritePlan {
    /// Appends the mutations of this statement as a part of a batch, and adds them to `size`.
    pub fn bind_into_batch(
        &self,
        bindings: &Bindings<'_>,
        scratch: &mut Scratch,
        records: &mut impl Records,
        size: &mut BatchSize,
    ) -> Result<()> {
        let mut add = |token, bytes| size.add(&self.table, token, bytes);
        self.bind_each(bindings, scratch, records, &mut add)
    }
}

/// From when on batches over several partitions are warned of and refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchThresholds {
    /// Bytes of all mutations above which there is a warning: `batch_size_warn_threshold`.
    pub warn_bytes: usize,
    /// Bytes above which the batch is refused: `batch_size_fail_threshold`.
    pub fail_bytes: usize,
    /// Partitions of an unlogged batch above which there is a warning:
    /// `unlogged_batch_across_partitions_warn_threshold`.
    pub unlogged_partitions: usize,
}

impl Default for BatchThresholds {
    fn default() -> BatchThresholds {
        BatchThresholds {
            warn_bytes: BATCH_WARN_BYTES,
            fail_bytes: BATCH_BYTES_MAX,
            unlogged_partitions: UNLOGGED_BATCH_WARN_PARTITIONS,
        }
    }
}

/// The bytes and mutations of a batch so far, and what of them deserves a warning.
#[derive(Debug)]
pub struct BatchSize {
    thresholds: BatchThresholds,
    kind: BatchKind,
    /// The bytes of all mutations so far.
    bytes: usize,
    mutations: usize,
    tables: Vec<Arc<Table>>,
    first: Option<Token>,
    /// More than one partition is written.
    spreads: bool,
    /// The partitions of an unlogged batch, each as often as it is written.
    tokens: Vec<Token>,
}

impl BatchSize {
    /// The size of a batch without statements.
    pub fn new(kind: BatchKind, thresholds: BatchThresholds) -> BatchSize {
        BatchSize {
            thresholds,
            kind,
            bytes: 0,
            mutations: 0,
            tables: Vec::new(),
            first: None,
            spreads: false,
            tokens: Vec::new(),
        }
    }

    /// One more mutation.
    fn add(&mut self, table: &Arc<Table>, token: Token, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        self.mutations += 1;
        if !self.tables.iter().any(|known| Arc::ptr_eq(known, table)) {
            self.tables.push(table.clone());
        }
        if self.kind == BatchKind::Unlogged {
            self.tokens.push(token);
        }
        // Tables of a keyspace that share a key share what Cassandra writes as one mutation.
        let other_keyspace = self.tables[0].keyspace != table.keyspace;
        self.spreads |= other_keyspace || *self.first.get_or_insert(token) != token;
        let taken = self.bytes + self.mutations * BATCH_MUTATION_BYTES;
        if self.spreads && taken > self.thresholds.fail_bytes {
            return Err(Error::invalid("Batch too large"));
        }
        Ok(())
    }

    /// Takes the warnings for the client.
    pub fn warnings(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.spreads {
            return warnings;
        }
        let threshold = self.thresholds.warn_bytes;
        if self.bytes > threshold {
            warnings.push(format!(
                "Batch for {} is of size {}, exceeding specified threshold of {threshold} by {}.",
                self.table_names(),
                self.bytes,
                self.bytes - threshold
            ));
        }
        self.tokens.sort_unstable();
        self.tokens.dedup();
        if self.tokens.len() > self.thresholds.unlogged_partitions {
            warnings.push(format!(
                "Unlogged batch covering {} partitions detected against table{} {}. You should use a logged batch for atomicity, or asynchronous writes for performance.",
                self.tokens.len(),
                if self.tables.len() == 1 { "" } else { "s" },
                self.table_names()
            ));
        }
        warnings
    }

    fn table_names(&self) -> String {
        let name = |table: &Arc<Table>| format!("{}.{}", table.keyspace, table.name);
        let names: Vec<String> = self.tables.iter().map(name).collect();
        format!("[{}]", names.join(", "))
    }
}

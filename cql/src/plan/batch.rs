//! A batch: its statements one after the other into one record, and how large that may become.
//!
//! As in Cassandra a batch of one partition is bounded like any mutation only; what touches several is
//! warned of and then refused, by ScyllaDB's thresholds.

use super::write::{Records, Scratch, WritePlan, timestamp};
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::lang::ast::BatchKind;
use crate::limits::{BATCH_BYTES_MAX, BATCH_MUTATION_BYTES, BATCH_WARN_BYTES};
use crate::term::Term;
use model::{Table, Token};
use std::sync::Arc;

/// A compiled `BEGIN BATCH`.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    /// Logged or not. Here a batch of one shard is one record either way.
    pub kind: BatchKind,
    /// `USING TIMESTAMP` of the whole.
    pub timestamp: Option<Term>,
    /// Its statements.
    pub writes: Vec<WritePlan>,
}

impl BatchPlan {
    /// Appends the mutations of all statements; gives a warning about their size.
    pub fn bind_write(
        &self,
        bindings: &mut Bindings<'_>,
        scratch: &mut Scratch,
        records: &mut impl Records,
    ) -> Result<Option<String>> {
        if let Some(term) = &self.timestamp {
            bindings.moment.timestamp_us = timestamp(term, bindings)?;
        }
        let mut size = BatchSize::default();
        for write in &self.writes {
            write.bind_into_batch(bindings, scratch, records, &mut size)?;
        }
        Ok(size.warning())
    }
}

/// What a batch has become so far.
#[derive(Debug, Default)]
pub struct BatchSize {
    bytes: usize,
    tables: Vec<Arc<Table>>,
    first: Option<Token>,
    /// More than one partition is written.
    spreads: bool,
}

impl BatchSize {
    /// One more mutation.
    pub(super) fn add(&mut self, table: &Arc<Table>, token: Token, bytes: usize) -> Result<()> {
        self.bytes += bytes + BATCH_MUTATION_BYTES;
        if !self.tables.iter().any(|known| Arc::ptr_eq(known, table)) {
            self.tables.push(table.clone());
        }
        self.spreads |= self.tables.len() > 1 || *self.first.get_or_insert(token) != token;
        if self.spreads && self.bytes > BATCH_BYTES_MAX {
            return Err(Error::invalid("Batch too large"));
        }
        Ok(())
    }

    /// What the user should know of it.
    pub fn warning(&self) -> Option<String> {
        if !self.spreads || self.bytes <= BATCH_WARN_BYTES {
            return None;
        }
        let name = |table: &Arc<Table>| format!("{}.{}", table.keyspace, table.name);
        let names: Vec<String> = self.tables.iter().map(name).collect();
        Some(format!(
            "Batch for [{}] is of size {}, exceeding specified threshold of {} by {}.",
            names.join(", "),
            kib(self.bytes),
            kib(BATCH_WARN_BYTES),
            kib(self.bytes - BATCH_WARN_BYTES)
        ))
    }
}

fn kib(bytes: usize) -> String {
    format!("{:.3}KiB", bytes as f64 / 1024.0)
}

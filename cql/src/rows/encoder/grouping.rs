//! The group that rows are added up in: its key, the states of its aggregates, and what its first row gives.
//!
//! ```text
//! row ─► a group is open? ─no─► opens_in its partition? ─► key, new states, values of the first row
//!                          └──────────────────────────────► add: each aggregate takes its argument
//! ```
//!
//! Invariant: the values that an open group keeps have no more bytes than a result may have (`check_result_bytes`). The
//! states themselves are counted with them as memory, and bounded by the text of the statement.
//!
//! Not here: where a group ends and its row is written (`encoder.rs`), groups of several cores (`part.rs`), the state of
//! one aggregate (`expr/function/aggregate.rs`).

use model::read::{PartitionRef, Resume};

use super::Shape;
use crate::bind::StatementTime;
use crate::error::Result;
use crate::expr::function::Accumulator;
use crate::expr::{Env, Evaluated, ExpressionWork, Selection, check_result_bytes};
use crate::rows::view::RowView;

/// The rows of a group so far.
pub(super) struct Grouping {
    /// How many columns of the primary key make a group; `None`: all rows are one group.
    pub(super) by: Option<usize>,
    /// The key that the rows of the open group have in common; `None` between two groups.
    pub(super) current: Option<Vec<u8>>,
    /// What the group is ordered by: that of its first row.
    pub(super) order_key: Vec<u8>,
    /// The states of the aggregates, in the order of the selection.
    pub(super) accumulators: Vec<Accumulator>,
    /// What is selected of the group's first row without an aggregate, and the bytes of these values.
    pub(super) firsts: Vec<Option<Vec<u8>>>,
    pub(super) first_bytes: usize,
    /// How many groups a partition may give, and the partition that gave so many.
    pub(super) per_partition: u64,
    pub(super) partition: (Vec<u8>, u64),
    /// The last row that was taken, if the groups have pages.
    pub(super) last: Option<Resume>,
    /// Whether the groups are one page of several: [`Shape::pages_groups`].
    pub(super) pages: bool,
    /// Whether a full page says that there is another one: [`Shape::full_page_goes_on`].
    pub(super) full_page_goes_on: bool,
    /// The page has ended, behind the last row that was taken.
    pub(super) is_page_over: bool,
}

impl Grouping {
    /// Before the first row of a result of this shape.
    pub(super) fn new(shape: &Shape<'_>) -> Grouping {
        Grouping {
            by: shape.group_by,
            current: None,
            order_key: Vec::new(),
            accumulators: Vec::new(),
            firsts: Vec::new(),
            first_bytes: 0,
            per_partition: shape.groups_per_partition,
            partition: match shape.after {
                Some(after) => (after.key.clone(), after.rows_of_partition),
                None => (Vec::new(), 0),
            },
            last: None,
            pages: shape.pages_groups,
            full_page_goes_on: shape.full_page_goes_on,
            is_page_over: false,
        }
    }

    /// Whether a partition may give one more group; counts it.
    pub(super) fn opens_in(&mut self, partition: &PartitionRef<'_>) -> bool {
        if self.by.is_none() || self.per_partition == u64::MAX {
            return true;
        }
        if self.partition.0 != partition.key {
            self.partition = (partition.key.to_vec(), 0);
        }
        self.partition.1 += 1;
        self.partition.1 <= self.per_partition
    }

    /// Remembers a row that is taken, if a page may end behind it.
    pub(super) fn pass(&mut self, partition: &PartitionRef<'_>, clustering: Option<&[u8]>) {
        if !self.pages {
            return;
        }
        self.last.get_or_insert_with(Resume::at_start).advance(partition, clustering);
    }

    /// Adds a row, which begins the group if none is open. Gives the bytes of memory that the group keeps.
    pub(super) fn add(
        &mut self,
        selection: &Selection,
        view: &RowView<'_>,
        key: Vec<u8>,
    ) -> Result<usize> {
        if self.current.is_none() {
            self.current = Some(key);
            self.accumulators = new_accumulators(selection, view.work())?;
            self.firsts.clear();
            self.first_bytes = 0;
            for first in &selection.firsts {
                let value = first.eval(view)?.into_bytes();
                self.first_bytes += value.as_ref().map_or(0, Vec::len);
                check_result_bytes(self.first_bytes)?;
                self.firsts.push(value);
            }
        }
        view.work().take_aggregates(self.accumulators.len())?;
        let mut bytes = self.first_bytes;
        for (accumulator, (_, arguments)) in self.accumulators.iter_mut().zip(&selection.aggregates)
        {
            match arguments.first() {
                _ if accumulator.is_user() => {
                    let values = arguments.iter().map(|argument| argument.eval(view));
                    let values = values.collect::<Result<Vec<_>>>()?;
                    let row: Vec<Option<&[u8]>> = values.iter().map(Evaluated::bytes).collect();
                    accumulator.add_all(&row, view.time())?;
                }
                Some(argument) => {
                    accumulator.add_counted(argument.eval(view)?.bytes(), view.work())?;
                }
                None => accumulator.add(None)?,
            }
            bytes += accumulator.bytes();
            check_result_bytes(bytes)?;
        }
        Ok(bytes + size_of_val(&self.accumulators[..]))
    }
}

/// The states of the aggregates of a selection before the first row.
pub(super) fn new_accumulators(
    selection: &Selection,
    work: &ExpressionWork,
) -> Result<Vec<Accumulator>> {
    work.take_aggregates(selection.aggregates.len())?;
    let mut accumulators = Vec::with_capacity(selection.aggregates.len());
    for (signature, _) in &selection.aggregates {
        let accumulator = Accumulator::new(signature);
        work.take(accumulator.work_of_type())?;
        accumulators.push(accumulator);
    }
    Ok(accumulators)
}

/// What terms read when a group ends.
pub(super) struct Group<'g> {
    pub(super) firsts: &'g [Option<Vec<u8>>],
    pub(super) aggregates: &'g [Option<Vec<u8>>],
    pub(super) once: &'g [Option<Vec<u8>>],
    pub(super) time: &'g StatementTime<'g>,
    pub(super) work: &'g ExpressionWork,
}

impl Env for Group<'_> {
    fn time(&self) -> &StatementTime<'_> {
        self.time
    }

    fn work(&self) -> &ExpressionWork {
        self.work
    }

    fn once(&self, slot: usize) -> Option<&[u8]> {
        self.once[slot].as_deref()
    }

    fn aggregate(&self, slot: usize) -> Option<&[u8]> {
        self.aggregates[slot].as_deref()
    }

    fn first(&self, slot: usize) -> Option<&[u8]> {
        self.firsts[slot].as_deref()
    }
}

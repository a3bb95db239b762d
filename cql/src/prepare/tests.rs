//! Statements prepared, bound and run on a database of one process, and what is refused of them.

mod batches;
mod binding;
mod collections;
mod compact;
mod conditions;
mod counters;
mod groups;
mod indexes;
mod lists;
mod nearest;
mod ordered_forms;
mod reading;
mod refusals;
mod writing;

use model::{CqlType, Resume, Token};

use super::*;
use crate::frame::request::ValueList;
use crate::frame::{Value, Version};
use crate::limits::{BATCH_BYTES_MAX, BATCH_WARN_BYTES};
use crate::plan::PagingState;
use crate::testing::Database;

fn bound(values: &[Value<'_>]) -> ValueList {
    let mut list = ValueList::new();
    values.iter().for_each(|value| list.push(*value));
    list
}

fn int(n: i32) -> [u8; 4] {
    n.to_be_bytes()
}

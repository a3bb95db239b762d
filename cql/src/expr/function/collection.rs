//! Functions of the elements of collections: how many, the smallest, their sum, keys and values.

use model::CqlType;
use model::types::collection_elements;

use super::aggregate::Accumulator;
use super::{Aggregate, Call};
use crate::error::Result;
use crate::expr::put_list;

/// `collection_count`: the number of elements.
pub(super) fn count(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(Some((collection_elements(call.value(0))?.left() as i32).to_be_bytes().to_vec()))
}

/// `collection_min`: the smallest element.
pub(super) fn min(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    over_elements(call, Aggregate::Min)
}

/// `collection_max`: the largest element.
pub(super) fn max(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    over_elements(call, Aggregate::Max)
}

/// `collection_sum`: the sum of the elements.
pub(super) fn sum(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    over_elements(call, Aggregate::Sum)
}

/// `collection_avg`: the mean of the elements.
pub(super) fn avg(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    over_elements(call, Aggregate::Avg)
}

/// The aggregate of the elements of a set or list.
fn over_elements(call: &Call<'_>, aggregate: Aggregate) -> Result<Option<Vec<u8>>> {
    let (CqlType::List { element, .. } | CqlType::Set { element, .. }) = call.ty(0) else {
        unreachable!("the table asks for a set or list")
    };
    let mut state = Accumulator::of(aggregate, (**element).clone());
    for item in collection_elements(call.value(0))? {
        state.add_counted(Some(item?), call.work)?;
    }
    Ok(state.result())
}

/// `map_keys`, which are in order in a map.
pub(super) fn map_keys(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    every_second(call.value(0), 0).map(Some)
}

/// `map_values`: the values of a map as a list.
pub(super) fn map_values(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    every_second(call.value(0), 1).map(Some)
}

fn every_second(map: &[u8], first: usize) -> Result<Vec<u8>> {
    let items = collection_elements(map)?.doubled().collect::<model::Result<Vec<&[u8]>>>()?;
    let mut out = Vec::new();
    put_list(items.into_iter().skip(first).step_by(2), &mut out);
    Ok(out)
}

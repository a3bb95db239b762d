//! Changes of lists by index and by value, and of numbers and texts that grow: the plan knows them, and the owner of
//! the partition reads what is there.
//!
//! 1. `l[i] = v`, `DELETE l[i]`, `l = l - [v, …]` are evaluated here into an index or into values.
//! 2. Which element that is, and whether it is there, is seen where the partition is (`engine/src/read_before_write.rs`).
//! 3. A change is appended behind the rows of its mutation (`model/src/mutation/list_change.rs`). The owner puts cells
//!    in its place before anything goes to the log.
//! 4. `Add` and `Clear` are changes only beside others that count elements: by themselves they are plain cells.
//!
//! Not set: an index that is not set is refused, or deletes nothing; a value that is not set writes nothing, but its
//! index must be that of an element.
//!
//! Not here: which writes must read first (`prepare/cells.rs`), plain cells of lists (`cells.rs`), counters
//! (`counters.rs`).

use model::MutationBuilder;
use model::mutation::{ListChange, ListOp};
use model::schema::ColumnId;
use model::types::collection_elements;

use super::cells::{ListEnd, Stamp, list_path};
use super::record::check_bytes;
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, Term};

/// About how many bytes a change takes beside its clustering key and its value.
const CHANGE_BYTES: usize = 24;

/// One change of a list, or of a value that grows, before it is bound.
#[derive(Clone, Debug, PartialEq)]
pub enum ListOpPlan {
    /// `l[i] = v`; null deletes.
    Set(Term, Term),
    /// `DELETE l[i]`: the element at an index goes.
    Delete(Term),
    /// `l = l - [v, …]`: all elements of these values go.
    Discard(Term),
    /// `l = l + [v, …]` or `[v, …] + l`, beside changes that count its elements.
    Add(Term, ListEnd),
    /// `DELETE l`, beside changes that see it empty.
    Clear,
    /// `v = v + n` of a number or text, under a condition.
    Grow(Term),
}

/// A change of the list of one column.
#[derive(Clone, Debug, PartialEq)]
pub struct ListWrite {
    /// Id of the column that is written.
    pub column: ColumnId,
    /// Which elements, and what becomes of them.
    pub op: ListOpPlan,
}

/// Appends the changes of the lists of one row; `None` is the static row. Gives about how many bytes they take. An error
/// if one of them has no index, or if they take more than a mutation may.
pub(super) fn put_list_changes(
    writes: &[ListWrite],
    clustering: Option<&[u8]>,
    stamp: &Stamp<'_>,
    bindings: &Bindings<'_>,
    mutation: &mut MutationBuilder<'_>,
) -> Result<usize> {
    bindings.work.take_changes(writes.len())?;
    let mut bytes = 0;
    for ListWrite { column, op } in writes {
        let mut put = |op: ListOp<'_>, len: usize| {
            bindings.work.take_elements(1)?;
            bytes += CHANGE_BYTES + clustering.map_or(0, <[u8]>::len) + len;
            let (timestamp, now_s) = (stamp.timestamp, stamp.now_s);
            mutation.list_change(&ListChange { clustering, column: *column, timestamp, now_s, op });
            check_bytes(bytes)
        };
        match op {
            ListOpPlan::Set(at, value) => {
                let at = at.eval(bindings)?;
                let value = value.eval(bindings)?;
                if matches!(at, Evaluated::Unset) {
                    return Err(Error::invalid("Invalid unset value for list index"));
                }
                let index = index_of(&at)?;
                match &value {
                    Evaluated::Unset => put(ListOp::Keep { index }, 0)?,
                    value => {
                        let (value, expiry) = (value.bytes(), stamp.expiry);
                        put(ListOp::Set { index, value, expiry }, value.map_or(0, <[u8]>::len))?;
                    }
                }
            }
            ListOpPlan::Delete(at) => match at.eval(bindings)? {
                Evaluated::Unset => {}
                at => put(ListOp::Delete { index: index_of(&at)? }, 0)?,
            },
            ListOpPlan::Clear => put(ListOp::Clear, 0)?,
            ListOpPlan::Grow(term) => match term.eval(bindings)? {
                Evaluated::Unset => {}
                Evaluated::Null => {
                    return Err(Error::invalid("Invalid null value: nothing can be added to null"));
                }
                Evaluated::Bytes(value) => {
                    let expiry = stamp.expiry;
                    put(ListOp::Grow { value: &value, expiry }, value.len())?;
                }
            },
            ListOpPlan::Add(values, end) => {
                let values = values.eval(bindings)?;
                let Some(values) = values.bytes() else { continue };
                let uuid = stamp.time.list_position();
                for (index, value) in collection_elements(values)?.enumerate() {
                    let (value, path) = (value?, list_path(&uuid, *end, index as u32));
                    let expiry = stamp.expiry;
                    put(ListOp::Add { path: &path, value, expiry }, path.len() + value.len())?;
                }
            }
            ListOpPlan::Discard(values) => {
                let values = values.eval(bindings)?;
                let Some(values) = values.bytes() else { continue };
                for value in collection_elements(values)? {
                    let value = value?;
                    put(ListOp::Discard { value }, value.len())?;
                }
            }
        }
    }
    Ok(bytes)
}

fn index_of(at: &Evaluated<'_>) -> Result<i32> {
    let Some(bytes) = at.bytes() else {
        return Err(Error::invalid("Invalid null value for list index"));
    };
    let index = bytes.try_into().map(i32::from_be_bytes);
    index.map_err(|_| Error::invalid("Invalid list index: it is an int of 4 bytes"))
}

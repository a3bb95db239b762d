//! One pass over the terms of a lookup in one source: offers the places that they have there, and keeps none.
//!
//! ```text
//! memtable   entries of the terms, in order ─┐
//! file       terms ─► places of each ────────┴─► offer ─► the smallest of them (`index/smallest.rs`)
//! ```
//!
//! A term is left when a place of it is not taken: its others are behind that one. Each few entries the read may pause.

use model::read::{RowSink, Slice};
use model::schema::IndexId;

use super::{Lost, POSTING_WORK_BYTES, of_index};
use crate::error::Result;
use crate::index::{Place, Smallest, TermWalk};
use crate::memtable::{Memtable, terms};
use crate::read::page::Page;
use crate::sstable::Named;
use crate::table::SharedMemtable;

/// Entries of a memtable, or places of terms of a file, that are looked at before the read may pause.
const ENTRIES_AT_ONCE: usize = 16;

/// Offers what a memtable has of these terms from a place on.
pub(super) async fn gather_memory<S: RowSink + ?Sized>(
    memtable: &SharedMemtable,
    (index, range): (IndexId, &Slice),
    from: &Named,
    smallest: &mut Smallest<Named>,
    page: &mut Page<'_, S>,
) -> Result<()> {
    let [mut sought, mut end] = [Vec::new(), Vec::new()];
    terms::begin(&mut sought, index, &range.start);
    terms::begin(&mut end, index, &range.end);
    while !page.is_done() {
        let (looked_at, next) = gather_some(&memtable.borrow(), (&sought, &end), from, smallest);
        page.work(looked_at * POSTING_WORK_BYTES);
        page.pause_if_due().await?;
        match next {
            Some(next) => sought = next,
            None => break,
        }
    }
    Ok(())
}

/// Offers some entries between two. Gives how many were looked at, and where to go on; `None` if all were.
fn gather_some(
    memtable: &Memtable,
    (sought, end): (&[u8], &[u8]),
    from: &Named,
    smallest: &mut Smallest<Named>,
) -> (usize, Option<Vec<u8>>) {
    let mut last: &[u8] = &[];
    let entries = memtable.terms_from(sought).take_while(|entry| *entry < end);
    let mut looked_at = 0;
    for entry in entries {
        if looked_at == ENTRIES_AT_ONCE {
            return (looked_at, Some([last, &[0]].concat()));
        }
        looked_at += 1;
        let (term, named) = terms::parts(entry);
        if named < *from {
            return (looked_at, Some(terms::begin_at(term, from)));
        }
        if !smallest.offer(named) {
            return (looked_at, Some(terms::behind(term)));
        }
        last = entry;
    }
    (looked_at, None)
}

/// Offers what a file has of these terms between two places. `is_asked`: its filters were asked for them before.
pub(super) async fn gather_file<S: RowSink + ?Sized>(
    (walk, is_asked): (&mut TermWalk, bool),
    range: &Slice,
    (from, to): (Place, Place),
    smallest: &mut Smallest<Place>,
    page: &mut Page<'_, S>,
) -> std::result::Result<(), Lost> {
    let mut is_there = match is_asked && walk.has_begun() {
        // Where its count has left it.
        true => walk.normalize().await.map_err(of_index)?,
        // Of several terms a file may have some.
        false => {
            let may_be_there = is_asked || walk.may_have(range).await.map_err(of_index)?;
            may_be_there && walk.seek(&range.start).await.map_err(of_index)?
        }
    };
    while is_there && walk.is_below(&range.end).map_err(of_index)? {
        let offer = |place| smallest.offer(place);
        let offered = walk.offer_inline(&range.end, (from, to), ENTRIES_AT_ONCE, offer);
        let (terms, places) = offered.map_err(of_index)?;
        // Also a term of which all places were given takes its time.
        page.work(places.max(1) * POSTING_WORK_BYTES);
        page.pause_if_due().await.map_err(Lost::Read)?;
        if page.is_done() {
            return Ok(());
        }
        if terms > 0 {
            is_there = walk.normalize().await.map_err(of_index)?;
            continue;
        }
        let mut postings = walk.postings().await.map_err(of_index)?;
        postings.seek(from).map_err(of_index)?;
        while let Some(place) = postings.next().await.map_err(of_index)? {
            page.work(POSTING_WORK_BYTES);
            page.pause_if_due().await.map_err(Lost::Read)?;
            if place > to || !smallest.offer(place) || page.is_done() {
                break;
            }
        }
        if page.is_done() {
            return Ok(());
        }
        is_there = walk.next().await.map_err(of_index)?;
    }
    Ok(())
}

//! What goes into a page comes out of it, whole or up to where the reader has enough.
//!
//! Rows of a few partitions are drawn, given to a `Page`, and taken from it again as flat rows (`Flatten`). They must
//! be the same rows; a reader that has enough after some row must get that row last. Rows that cost the reader time are
//! given with pauses, and so are very many that cost none.
//!
//! Not here: which pages are asked for (`scatter/tests.rs`), pages of the engine (`engine/src/read/tests.rs`).

use futures_lite::future::block_on;
use model::row::RowHead;
use model::{Deletion, RowBuilder};
use proptest::prelude::*;

use super::*;

async fn ready() {}

/// A row as the tests see it: token and key, static row, clustering, row.
type Flat = (i64, Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>);

fn row_bytes(timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let head = RowHead { timestamp, marker: None, deletion: Deletion::NONE };
    let _ = RowBuilder::begin(&mut out, &head);
    out
}

#[derive(Default)]
struct Flatten {
    rows: Vec<Flat>,
    enough_at: Option<usize>,
}

impl RowSink for Flatten {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        self.rows.push((
            partition.token.0,
            partition.key.to_vec(),
            partition.static_row.map(|row| row.bytes().to_vec()),
            clustering.map(<[u8]>::to_vec),
            row.map(|row| row.bytes().to_vec()),
        ));
        if self.enough_at == Some(self.rows.len()) { Flow::Enough } else { Flow::More }
    }
}

fn give(rows: &[Flat], sink: &mut impl RowSink) {
    for (token, key, static_row, clustering, row) in rows {
        let static_row = static_row.as_deref().map(RowRef::trusted);
        let partition = PartitionRef { token: Token(*token), key, static_row };
        sink.row(&partition, clustering.as_deref(), row.as_deref().map(RowRef::trusted));
    }
}

/// Rows of a few partitions, the static row the same for all of one partition.
fn rows() -> impl Strategy<Value = Vec<Flat>> {
    let partition = (any::<bool>(), prop::collection::vec(any::<bool>(), 1..5));
    prop::collection::vec(partition, 0..6).prop_map(|partitions| {
        let mut rows = Vec::new();
        for (p, (has_static, entries)) in partitions.into_iter().enumerate() {
            let static_row = has_static.then(|| row_bytes(-1));
            for (c, has_row) in entries.into_iter().enumerate() {
                let clustering = has_row.then(|| vec![c as u8; c]);
                let row = has_row.then(|| row_bytes(c as i64));
                rows.push((p as i64 * 10, vec![p as u8], static_row.clone(), clustering, row));
            }
        }
        rows
    })
}

proptest! {
    /// Rows come out as they went in.
    #[test]
    fn replays_what_it_took(rows in rows()) {
        let mut first = Page::new();
        give(&rows, &mut first);
        let mut out = Flatten::default();
        let end = block_on(first.replay_in_turns(None, &mut out, &ready));
        prop_assert_eq!(end, ReadEnd { rows: rows.len() as u64, ..ReadEnd::default() });
        prop_assert_eq!(&out.rows, &rows);
        let last = first.after_last_partition().map(|resume| (resume.token.0, resume.key));
        prop_assert_eq!(last, rows.last().map(|row| (row.0, row.1.clone())));
    }

    /// A sink that has enough gets no more, and the next page begins after its last row.
    #[test]
    fn enough_is_enough(rows in rows(), at in 1usize..8) {
        prop_assume!(at < rows.len());
        let mut page = Page::new();
        give(&rows, &mut page);
        let mut out = Flatten { enough_at: Some(at), ..Flatten::default() };
        let end = block_on(page.replay_in_turns(None, &mut out, &ready));
        prop_assert_eq!(&out.rows[..], &rows[..at]);
        let more = end.more.expect("rows are left");
        let last = &rows[at - 1];
        let before = rows[..at].iter().filter(|row| row.1 == last.1).count();
        prop_assert_eq!(more.key, last.1.clone());
        prop_assert_eq!(more.clustering, last.3.clone());
        prop_assert_eq!(more.rows_of_partition, before as u64);
    }
}

/// A sink that says this of each row.
struct Slow {
    is_costly: bool,
    row_work: usize,
}

impl RowSink for Slow {
    fn row(&mut self, _: &PartitionRef<'_>, _: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        Flow::More
    }

    fn row_work(&self) -> usize {
        self.row_work
    }

    fn is_costly(&self) -> bool {
        self.is_costly
    }
}

/// Before: the rows of a piece went to functions of users in one step, which took so long that the statement failed;
/// and what takes no time was given without a pause, however much it was. And what expressions did with the bytes of a
/// row did not count.
#[test]
fn rows_of_another_core_are_given_with_pauses() {
    let mut page = Page::new();
    let rows: Vec<Flat> = (0..320).map(|k| (k, vec![k as u8], None, None, None)).collect();
    give(&rows, &mut page);
    const WORK: usize = engine::limits::READ_QUANTUM_BYTES / 2;
    for (is_costly, row_work, pauses) in [
        (true, 0, 320),
        (false, 0, 320 / engine::limits::READ_QUANTUM_ROWS),
        (false, WORK, 160),
        (false, usize::MAX, 320),
    ] {
        let paused = std::cell::Cell::new(0);
        let pause = async || paused.set(paused.get() + 1);
        block_on(page.replay_in_turns(None, &mut Slow { is_costly, row_work }, &pause));
        assert_eq!(paused.get(), pauses);
    }
}

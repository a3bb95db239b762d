//! Pages gathered from many shards are the pages one shard would have given.
//!
//! 1. A table is drawn: partitions in token order with static values and rows. An owner answers with what the engine's
//!    `read_record` gives of its partitions, in pieces of a row or two.
//! 2. All pages of a command over one shard must add up to one page without limits; then the same over up to eight
//!    shards must. Limits, directions, DISTINCT and static rows alone are drawn; owners of a range answer late and in
//!    any order.
//! 3. Which owners are asked and how often: as many ahead as the page will need, all when the read takes long, no row
//!    of keys twice.
//!
//! Not here: messages between cores (`shard/tests/node.rs`), the walk over owners as a future (`range_read.rs`).

use futures_lite::future::{block_on, yield_now};
use model::cell::Life;
use model::read::{Limits, ReadEnd, Slice};
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::{Table as Definition, TableBuilder};
use model::{ColumnId, CqlType, MutationBuilder, TableId, Token};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::page::Page;
use crate::range_read::walk_range;

async fn ready() {}

/// A table of the tests: partitions in token order, each with its static value and so many rows.
type Table = Vec<(Token, Box<[u8]>, Option<u8>, u8)>;

fn definition() -> Definition {
    TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .partition_key("k", CqlType::Smallint)
        .and_then(|b| b.clustering("c", CqlType::Tinyint, false))
        .and_then(|b| b.stat("s", CqlType::Tinyint))
        .and_then(TableBuilder::build)
        .expect("a sound table")
}

fn clustering(value: u8) -> Vec<u8> {
    let mut out = Vec::new();
    model::ordered::encode_component(&CqlType::Tinyint, false, &[value], &mut out).expect("a byte");
    out
}

/// What the engine answers that has these partitions.
fn read(table: &Table, command: &ReadCommand, sink: &mut impl RowSink) -> ReadEnd {
    let (definition, mut record) = (definition(), Vec::new());
    for (token, key, stat, rows) in table {
        let mut mutation = MutationBuilder::begin(&mut record, definition.id, *token, key);
        if let Some(value) = stat {
            mutation.static_row(|out| {
                let cell = Cell::live(ColumnId(2), 5, std::slice::from_ref(value));
                RowBuilder::begin(out, &RowHead::bare(5)).cell(&cell);
            });
        }
        for c in 0..*rows {
            let head = RowHead { marker: Some(Life::Live), ..RowHead::bare(5) };
            mutation.row(&clustering(c), |out| {
                let _ = RowBuilder::begin(out, &head);
            });
        }
        mutation.finish();
    }
    engine::read_record(&definition, &record, command, sink).expect("it reads")
}

/// The command for a piece that ends after a row or two: a real one has more rows than a test.
fn cut(command: &ReadCommand) -> ReadCommand {
    let page_bytes = command.limits.page_bytes.min(PIECE_CUT_BYTES);
    ReadCommand { limits: Limits { page_bytes, ..command.limits }, ..command.clone() }
}

/// Bytes of a piece in these tests, where a row has some ten.
const PIECE_CUT_BYTES: u64 = 20;

/// What a shard answers.
fn ask(table: &Table, sharder: Sharder, shard: ShardId, command: &ReadCommand) -> Page {
    let own = sharder.range_of(shard);
    let part = table.iter().filter(|p| own.contains(p.0)).cloned().collect();
    let mut page = Page::new();
    let end = read(&part, command, &mut page);
    page.end(end)
}

/// The same over shards, by what is tested.
fn gather(table: &Table, command: &ReadCommand, sharder: Sharder, delays: u64) -> Page {
    let ask = |shard, command: &ReadCommand| ask(table, sharder, shard, command);
    match (owners(command, sharder), &command.partitions) {
        (Owners::One(shard), _) => ask(shard, command),
        (Owners::Keys, _) => {
            let mut page = Page::new();
            let mut walk = KeysWalk::new(command, sharder, &mut page);
            let end = loop {
                let pieces = walk.pieces();
                let pages: Vec<_> = pieces.iter().map(|(s, c)| ask(*s, &cut(c))).collect();
                assert!(!pages.is_empty(), "a walk that has not ended asks for something");
                if let Some(end) = block_on(walk.take(pages, &ready)) {
                    break end;
                }
            };
            page.end(end)
        }
        (Owners::Range, Partitions::Range(range)) => {
            let mut page = Page::new();
            let parts = split_range(*range, command.resume.as_ref(), sharder);
            let end = walk(RangeWalk::new(command, parts, &mut page), delays, ask);
            page.end(end)
        }
        (Owners::Range, _) => unreachable!("a range is over a range"),
    }
}

/// Reads a range as a core does: owners answer late and in any order, and the hedge delay ends at any time.
fn walk(walk: RangeWalk<'_>, delays: u64, ask: impl Fn(ShardId, &ReadCommand) -> Page) -> ReadEnd {
    let delays = std::cell::Cell::new(delays);
    let delay = || {
        delays.set(delays.get().wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1));
        delays.get() >> 61
    };
    let wait = |turns: u64| async move {
        for _ in 0..turns {
            yield_now().await;
        }
    };
    let asked = |shard, piece: ReadCommand| {
        let turns = delay();
        let ask = &ask;
        async move {
            wait(turns).await;
            Ok(ask(shard, &cut(&piece)))
        }
    };
    let hedge_delay = wait(delay() * 2);
    block_on(walk_range(walk, asked, hedge_delay, ready)).expect("the owners answer")
}

/// Has enough after so many rows.
struct Few(u64, Page);

impl RowSink for Few {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        self.1.row(partition, clustering, row);
        if self.1.rows == self.0 { Flow::Enough } else { Flow::More }
    }
}

/// A row as (key, clustering).
type Row = (Vec<u8>, Option<Vec<u8>>);

/// Reads page after page until there is no more.
fn all_pages(mut command: ReadCommand, page: impl Fn(&ReadCommand) -> Page) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut left = command.limits.rows;
    for _ in 0..10_000 {
        let page = page(&command);
        assert!(page.rows <= command.limits.page_rows, "a page keeps its limit");
        left -= page.rows;
        for entry in page.entries() {
            let clustering = entry.clustering.map(<[u8]>::to_vec);
            rows.push((entry.partition.key.to_vec(), clustering));
        }
        let Some(more) = page.more else { return rows };
        assert!(left > 0, "a page that ends a LIMIT is the last");
        command.limits.rows = left;
        command.resume = Some(more);
    }
    panic!("the pages never end");
}

/// The command that gives everything in one page.
fn unpaged(command: &ReadCommand) -> ReadCommand {
    let limits = Limits { page_rows: u64::MAX, page_bytes: u64::MAX, ..command.limits };
    ReadCommand { limits, ..command.clone() }
}

/// Direction, statics alone, DISTINCT.
type Flags = (bool, bool, bool);

fn command(partitions: Partitions, limits: Limits, flags: Flags) -> ReadCommand {
    let (reversed, static_alone, distinct) = flags;
    ReadCommand {
        table: TableId(Uuid::nil()),
        partitions,
        slices: vec![Slice::all()],
        reversed,
        static_alone,
        distinct,
        filters: Vec::new(),
        lookups: Vec::new(),
        nearest: None,
        limits,
        resume: None,
        now_s: 0,
    }
}

fn table() -> impl Strategy<Value = Table> {
    let partition = (any::<u16>(), prop::option::of(any::<u8>()), 0u8..6);
    prop::collection::vec(partition, 0..24).prop_map(|partitions| {
        let mut table: Table = partitions
            .into_iter()
            .map(|(key, stat, rows)| {
                let key = key.to_be_bytes();
                (Token::of_key(&key), key.into(), stat, rows)
            })
            .collect();
        table.sort();
        table.dedup_by_key(|partition| partition.0);
        table
    })
}

fn limits() -> impl Strategy<Value = Limits> {
    let some = |max: u64| prop_oneof![Just(u64::MAX), 1..max];
    (some(60), some(4), some(9), some(150)).prop_map(
        |(rows, rows_per_partition, page_rows, page_bytes)| Limits {
            rows,
            rows_per_partition,
            page_rows,
            page_bytes,
            tombstones: u64::MAX,
        },
    )
}

proptest! {
    #[test]
    fn ranges_read_as_one(
        table in table(), limits in limits(), flags: Flags, shards in 1usize..9, a: i64, b: i64,
        all: bool, delays: u64,
    ) {
        let range = TokenRange { first: Token(a.min(b)), last: Token(a.max(b)) };
        let range = if all { TokenRange::ALL } else { range };
        let command = command(Partitions::Range(range), limits, flags);
        let one = all_pages(command.clone(), |c| gather(&table, c, Sharder::new(1), 0));
        let whole = all_pages(unpaged(&command), |c| gather(&table, c, Sharder::new(1), 0));
        prop_assert_eq!(&one, &whole);
        let many = all_pages(command, |c| gather(&table, c, Sharder::new(shards), delays));
        prop_assert_eq!(&many, &whole);
    }

    /// A sink that has enough decides where the next page begins.
    #[test]
    fn a_sink_that_has_enough_ends_the_page_where_it_says(
        table in table(), flags: Flags, shards in 2usize..9, enough in 1u64..9,
        delays: u64,
    ) {
        let limits = Limits::none(u64::MAX);
        let command = command(Partitions::Range(TokenRange::ALL), limits, flags);
        let whole = all_pages(command.clone(), |c| gather(&table, c, Sharder::new(1), 0));
        let sharder = Sharder::new(shards);
        let (mut rows, mut resume) = (Vec::new(), None);
        loop {
            let mut sink = Few(enough, Page::new());
            let command = ReadCommand { resume: resume.clone(), ..command.clone() };
            let parts = split_range(TokenRange::ALL, resume.as_ref(), sharder);
            let range = RangeWalk::new(&command, parts, &mut sink);
            let end = walk(range, delays, |shard, piece| ask(&table, sharder, shard, piece));
            let page = sink.1.end(ReadEnd { more: None, ..end.clone() });
            rows.extend(page.entries().map(|entry| {
                (entry.partition.key.to_vec(), entry.clustering.map(<[u8]>::to_vec))
            }));
            resume = end.more;
            if resume.is_none() {
                break;
            }
        }
        prop_assert_eq!(&rows, &whole);
    }

    /// Before: rows behind the end of another owner's piece were thrown away and read again with its next.
    #[test]
    fn no_row_of_keys_is_read_twice(table in table(), shards in 2usize..9, order: u64) {
        let mut keys: Vec<(Token, Box<[u8]>)> =
            table.iter().map(|(token, key, ..)| (*token, key.clone())).collect();
        keys.sort_by_key(|(token, _)| token.0.wrapping_mul(order as i64 | 1));
        let limits = Limits::none(u64::MAX);
        let command = command(Partitions::Keys(keys), limits, (false, true, false));
        let sharder = Sharder::new(shards);
        let (mut all, mut read) = (Page::new(), 0);
        let mut walk = KeysWalk::new(&command, sharder, &mut all);
        let end = loop {
            let pieces = walk.pieces();
            let pages: Vec<Page> =
                pieces.iter().map(|(s, c)| ask(&table, sharder, *s, &cut(c))).collect();
            read += pages.iter().map(|page| page.rows).sum::<u64>();
            if let Some(end) = block_on(walk.take(pages, &ready)) {
                break end;
            }
        };
        prop_assert_eq!((end.rows, end.more), (read, None));
    }

    #[test]
    fn keys_read_as_one(
        table in table(), limits in limits(), flags: Flags, shards in 1usize..9, order: u64,
        absent: u16,
    ) {
        let mut keys: Vec<(Token, Box<[u8]>)> =
            table.iter().map(|(token, key, ..)| (*token, key.clone())).collect();
        let absent: Box<[u8]> = [absent.to_be_bytes(), [1, 1]].concat().into();
        keys.push((Token::of_key(&absent), absent));
        keys.sort_by_key(|(token, _)| token.0.wrapping_mul(order as i64 | 1));
        let command = command(Partitions::Keys(keys), limits, flags);
        let one = all_pages(command.clone(), |c| gather(&table, c, Sharder::new(1), 0));
        let whole = all_pages(unpaged(&command), |c| gather(&table, c, Sharder::new(1), 0));
        prop_assert_eq!(&one, &whole);
        let many = all_pages(command, |c| gather(&table, c, Sharder::new(shards), 0));
        prop_assert_eq!(&many, &whole);
    }
}

/// The owners in the order in which they are asked, of a table where each of eight has so many rows.
fn asked(rows_of_owner: u8, limits: Limits) -> Vec<usize> {
    let sharder = Sharder::new(8);
    let table: Table = sharder
        .all()
        .map(|owner| {
            (
                sharder.range_of(owner).first,
                Box::from([0, owner.index() as u8]),
                None,
                rows_of_owner,
            )
        })
        .collect();
    let command = command(Partitions::Range(TokenRange::ALL), limits, (false, false, false));
    let parts = split_range(TokenRange::ALL, None, sharder);
    let (asked, mut page) = (std::cell::RefCell::new(Vec::new()), Page::new());
    let ask = |owner: ShardId, piece: ReadCommand| {
        asked.borrow_mut().push(owner.index());
        let table = &table;
        async move { Ok(ask(table, sharder, owner, &piece)) }
    };
    let hedge_delay = std::future::pending();
    block_on(walk_range(RangeWalk::new(&command, parts, &mut page), ask, hedge_delay, ready))
        .expect("it reads");
    asked.into_inner()
}

/// Before: each owner was asked when the one before had ended, however few rows they had.
#[test]
fn as_many_owners_are_asked_ahead_as_the_page_will_need() {
    let page = |page_rows| Limits { page_rows, ..Limits::none(u64::MAX) };
    assert_eq!(asked(0, page(100)), [0, 1, 2, 3, 4, 5, 6, 7], "none has rows");
    assert_eq!(asked(4, page(4)), [0], "the first fills the page");
    assert_eq!(asked(4, page(8)), [0, 1], "two do");
    let limit = Limits { rows: 9, ..Limits::none(u64::MAX) };
    // The third was asked for five rows beside the second, and again for the one that was left.
    assert_eq!(asked(4, limit), [0, 1, 2, 2]);
}

/// Where a condition keeps no row, each owner looks through all it has: they do it side by side.
#[test]
fn a_read_that_takes_long_asks_the_other_owners() {
    let limits = Limits { page_rows: 100, ..Limits::none(u64::MAX) };
    let command = command(Partitions::Range(TokenRange::ALL), limits, (false, false, false));
    let sharder = Sharder::new(4);
    let parts = split_range(TokenRange::ALL, None, sharder);
    let (under_way, most) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let ask = |_, _| async {
        under_way.set(under_way.get() + 1);
        most.set(most.get().max(under_way.get()));
        for _ in 0..100 {
            yield_now().await;
        }
        under_way.set(under_way.get() - 1);
        Ok(Page::new())
    };
    let mut page = Page::new();
    let walk = RangeWalk::new(&command, parts, &mut page);
    let end = block_on(walk_range(walk, ask, std::future::ready(()), ready)).expect("it reads");
    assert_eq!((end, most.get()), (ReadEnd::default(), 4));
}

/// An owner that fails ahead of its turn fails nothing that ends before it.
#[test]
fn a_failure_ahead_counts_when_its_turn_comes() {
    let failed = || engine::Error::TooManyTombstones { passed: 5 };
    let read = |page_rows: u64| {
        let limits = Limits { page_rows, ..Limits::none(u64::MAX) };
        let command = command(Partitions::Range(TokenRange::ALL), limits, (false, false, false));
        let sharder = Sharder::new(3);
        let table: Table =
            vec![(sharder.range_of(ShardId::new(1)).first, Box::from([0, 1]), None, 4)];
        let parts = split_range(TokenRange::ALL, None, sharder);
        let mut page = Page::new();
        let ask = |owner: ShardId, piece: ReadCommand| {
            let page = (owner.index() < 2).then(|| ask(&table, sharder, owner, &piece));
            async move { page.ok_or_else(failed) }
        };
        let walk = RangeWalk::new(&command, parts, &mut page);
        block_on(walk_range(walk, ask, std::future::pending(), ready))
    };
    assert_eq!(read(4).expect("the page is full before").rows, 4);
    assert!(matches!(read(5), Err(engine::Error::TooManyTombstones { passed: 5 })));
}

//! Pages gathered from many shards are the pages one shard would have given.

use super::*;
use model::read::{Limits, PartitionRef, Slice};
use model::row::RowHead;
use model::{Deletion, RowBuilder, RowRef, TableId};
use proptest::prelude::*;
use uuid::Uuid;

/// A table of the tests: partitions in token order, each with this many rows.
type Table = Vec<(Token, Box<[u8]>, u8)>;

/// What an engine does with a command, naively: keys or tokens, limits, pages, resume.
fn read(table: &Table, command: &ReadCommand, sink: &mut impl RowSink) -> ReadEnd {
    let wanted: Vec<_> = match &command.partitions {
        Partitions::Keys(keys) => keys
            .iter()
            .filter_map(|(_, key)| table.iter().find(|(_, stored, _)| stored == key))
            .collect(),
        Partitions::Range(range) => {
            table.iter().filter(|(token, ..)| range.contains(*token)).collect()
        }
    };
    let resume = command.resume.as_ref();
    let skip = resume.map_or(0, |resume| match &command.partitions {
        Partitions::Keys(keys) => {
            let at = keys.iter().position(|(_, key)| **key == *resume.key).unwrap_or(0);
            let before = |key: &[u8]| keys[..at].iter().any(|(_, k)| **k == *key);
            wanted.iter().filter(|(_, key, _)| before(key)).count()
        }
        Partitions::Range(_) => wanted.iter().filter(|p| p.0 < resume.token).count(),
    });
    let (mut rows, mut bytes) = (0, 0);
    let mut last: Option<Resume> = None;
    for (token, key, count) in &wanted[skip..] {
        let inside = resume.filter(|resume| *resume.key == **key);
        let of_partition = inside.map_or(0, |resume| resume.rows_of_partition);
        let first = match inside {
            Some(resume) if resume.partition_done => *count,
            Some(resume) => resume.clustering.as_ref().map_or(0, |c| c[0] + 1),
            None => 0,
        };
        for (of_partition, c) in (of_partition..).zip(first..*count) {
            if of_partition == command.limits.rows_per_partition {
                break;
            }
            if rows == command.limits.rows {
                return ReadEnd { rows, more: None };
            }
            if rows == command.limits.page_rows || bytes >= command.limits.page_bytes {
                return ReadEnd { rows, more: last };
            }
            let mut row = Vec::new();
            let head = RowHead { timestamp: 1, marker: None, deletion: Deletion::NONE };
            let _ = RowBuilder::begin(&mut row, &head);
            let partition = PartitionRef { token: *token, key, static_row: None };
            sink.row(&partition, Some(&[c]), Some(RowRef::trusted(&row)));
            rows += 1;
            bytes += 20;
            last = Some(Resume {
                token: *token,
                key: key.to_vec(),
                clustering: Some(vec![c]),
                partition_done: false,
                rows_of_partition: of_partition + 1,
            });
        }
    }
    ReadEnd { rows, more: None }
}

/// The same over shards, by what is tested.
fn gather(table: &Table, command: &ReadCommand, sharder: Sharder) -> Page {
    let ask = |shard: ShardId, command: &ReadCommand| {
        let own = sharder.range_of(shard);
        let part = table.iter().filter(|p| own.contains(p.0)).cloned().collect();
        let mut page = Page::new();
        let end = read(&part, command, &mut page);
        page.end(end)
    };
    match (owners(command, sharder), &command.partitions) {
        (Owners::One(shard), _) => ask(shard, command),
        (Owners::Keys, _) => {
            let parts = split_keys(command, sharder);
            let pages: Vec<_> = parts.iter().map(|(s, c)| (*s, ask(*s, c))).collect();
            let mut page = Page::new();
            let end = merge_keys(command, sharder, &pages, &mut page);
            page.end(end)
        }
        (Owners::Range, Partitions::Range(range)) => {
            let mut walk = RangeWalk::new(command.clone());
            for (shard, part) in split_range(*range, command.resume.as_ref(), sharder) {
                if walk.step() == Step::Done {
                    break;
                }
                walk.take(ask(shard, &walk.command(part)));
            }
            walk.into_page()
        }
        (Owners::Range, _) => unreachable!("a range is over a range"),
    }
}

/// Reads page after page until there is no more; rows as (key, clustering).
fn all_pages(mut command: ReadCommand, page: impl Fn(&ReadCommand) -> Page) -> Vec<(Vec<u8>, u8)> {
    let mut rows = Vec::new();
    let mut left = command.limits.rows;
    for _ in 0..10_000 {
        let page = page(&command);
        assert!(page.rows <= command.limits.page_rows, "a page keeps its limit");
        left -= page.rows;
        for entry in page.entries() {
            let clustering = entry.clustering.expect("rows only")[0];
            rows.push((entry.partition.key.to_vec(), clustering));
        }
        let Some(more) = page.more else { return rows };
        assert!(left > 0, "a page that ends a LIMIT is the last");
        command.limits.rows = left;
        command.resume = Some(more);
    }
    panic!("the pages never end");
}

fn command(partitions: Partitions, limits: Limits) -> ReadCommand {
    ReadCommand {
        table: TableId(Uuid::nil()),
        partitions,
        slices: vec![Slice::all()],
        reversed: false,
        static_alone: false,
        distinct: false,
        filters: Vec::new(),
        limits,
        resume: None,
        now_s: 0,
    }
}

fn table() -> impl Strategy<Value = Table> {
    prop::collection::vec((any::<u16>(), 0u8..6), 0..24).prop_map(|partitions| {
        let mut table: Table = partitions
            .into_iter()
            .map(|(key, rows)| {
                let key = key.to_be_bytes();
                (Token::of_key(&key), key.into(), rows)
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
        },
    )
}

proptest! {
    #[test]
    fn ranges_read_as_one(
        table in table(), limits in limits(), shards in 1usize..9, a: i64, b: i64, all: bool,
    ) {
        let range = TokenRange { first: Token(a.min(b)), last: Token(a.max(b)) };
        let range = if all { TokenRange::ALL } else { range };
        let command = command(Partitions::Range(range), limits);
        let one = all_pages(command.clone(), |c| gather(&table, c, Sharder::new(1)));
        let many = all_pages(command, |c| gather(&table, c, Sharder::new(shards)));
        prop_assert_eq!(one, many);
    }

    #[test]
    fn keys_read_as_one(
        table in table(), limits in limits(), shards in 1usize..9, order: u64, absent: u16,
    ) {
        let mut keys: Vec<(Token, Box<[u8]>)> =
            table.iter().map(|(token, key, _)| (*token, key.clone())).collect();
        let absent: Box<[u8]> = [absent.to_be_bytes(), [1, 1]].concat().into();
        keys.push((Token::of_key(&absent), absent));
        keys.sort_by_key(|(token, _)| token.0.wrapping_mul(order as i64 | 1));
        let command = command(Partitions::Keys(keys), limits);
        let one = all_pages(command.clone(), |c| gather(&table, c, Sharder::new(1)));
        let many = all_pages(command, |c| gather(&table, c, Sharder::new(shards)));
        prop_assert_eq!(one, many);
    }
}

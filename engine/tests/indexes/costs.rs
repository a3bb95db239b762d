//! When a lookup is made, and what it reads, counts and waits for.

use super::*;

/// Before: each candidate counted the tombstone that lay over it, and many were an error where a scan passed two.
#[test]
fn a_deletion_over_many_candidates_is_counted_once() {
    on_sim(37, async |_, disk, exec| {
        let table = table(true);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        let mut out = Vec::new();
        let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(b"k"), b"k");
        let (start, end) = (&clustering(&table, 0), &clustering(&table, 1000));
        let deletion = Deletion { timestamp: 1, local_s: LATER_S };
        m.delete_range(&RangeTombstone { start, end, deletion });
        m.finish();
        shard::write(&engine, &out).await.unwrap();
        let rows: Vec<(i32, i32)> = (0..900).map(|c| (c, c % 2)).collect();
        for rows in rows.chunks(100) {
            shard::write(&engine, &record(&table, b"k", rows, 2)).await.unwrap();
        }
        let command = select(&table, Operator::Equal, 1);
        let mut passed = Vec::new();
        for policy in [LookupPolicy::Never, LookupPolicy::Always] {
            engine.set_lookup_policy(policy);
            let end = engine.read(&command, &mut Rows::default(), yield_now).await.unwrap();
            assert_eq!(end.rows, 450);
            passed.push(end.tombstones);
        }
        assert!(passed[0] > 0 && passed[1] <= passed[0], "{passed:?}");
    });
}

/// Whether a read with this limit and these conditions uses the index, and how many rows it gives.
async fn is_looked_up(engine: &Engine, command: &ReadCommand) -> bool {
    engine.set_lookup_policy(LookupPolicy::Never);
    let scanned = pages(engine, command.clone(), u64::MAX).await.0;
    engine.set_lookup_policy(LookupPolicy::WhereWorth);
    let before = engine.stats().lookups;
    let mut rows = Rows::default();
    engine.read(command, &mut rows, yield_now).await.unwrap();
    assert_eq!(rows, scanned);
    engine.stats().lookups > before
}

/// Before: a LIMIT did not count, so that all postings of a range were gone through for ten rows.
#[test]
fn a_lookup_is_made_where_it_costs_less_than_a_scan() {
    on_sim(41, async |_, disk, exec| {
        let table = table(true);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        for key in 0..20u8 {
            let rows: Vec<(i32, i32)> =
                (0..100).map(|c| (c, (c * 17 + i32::from(key)) % 100)).collect();
            shard::write(&engine, &record(&table, &[key], &rows, 1)).await.unwrap();
            if key == 15 {
                shard::flush(&engine).await;
            }
        }
        let limited = |mut command: ReadCommand, rows: u64| {
            command.limits.rows = rows;
            command
        };
        // A twentieth of the rows, an eighth, and half of them.
        let [twentieth, eighth, half] = [5, 12, 50].map(|v| select(&table, Operator::Less, v));
        assert!(is_looked_up(&engine, &twentieth).await);
        assert!(is_looked_up(&engine, &eighth).await);
        assert!(!is_looked_up(&engine, &half).await);
        assert!(is_looked_up(&engine, &select(&table, Operator::Equal, 7)).await);
        // A value that is not there: a scan would go over all to find nothing.
        assert!(is_looked_up(&engine, &select(&table, Operator::Equal, 1000)).await);
        assert!(is_looked_up(&engine, &limited(select(&table, Operator::Equal, 7), 10)).await);
        // Ten rows are found in a hundred of a scan, and there are 240 postings.
        assert!(!is_looked_up(&engine, &limited(eighth.clone(), 1)).await);
        // With another condition it is not known how many candidates are read.
        let mut other = limited(eighth, 1);
        other.filters.push(Filter::new(
            FilterTarget::Clustering(0),
            Operator::Equal,
            vec![99i32.to_be_bytes().into()],
            Analysis::NONE,
        ));
        assert!(is_looked_up(&engine, &other).await);
    });
}

/// Before: all rows of a named partition were read, whatever index there was.
#[test]
fn a_wide_partition_that_is_named_is_looked_up_in() {
    on_sim(61, async |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        for (key, rows) in [(&b"wide"[..], 4000), (b"narrow", 3)] {
            let rows: Vec<(i32, i32)> = (0..rows).map(|c| (c, c % 200)).collect();
            for rows in rows.chunks(200) {
                shard::write(&engine, &record(&table, key, rows, 1)).await.unwrap();
            }
        }
        shard::flush(&engine).await;
        shard::write(&engine, &record(&table, b"wide", &[(7, 3), (9, 7)], 2)).await.unwrap();
        let wide = select_in(&table, b"wide", 7);
        assert!(is_looked_up(&engine, &wide).await);
        let mut part = wide.clone();
        let [start, end] = [100, 3000].map(|c| clustering(&table, c));
        part.slices = vec![Slice { start, end }];
        assert!(is_looked_up(&engine, &part).await);
        let [start, end] = [100, 110].map(|c| clustering(&table, c));
        let few = ReadCommand { slices: vec![Slice { start, end }], ..wide.clone() };
        assert!(!is_looked_up(&engine, &few).await, "few rows are read");
        assert!(!is_looked_up(&engine, &select_in(&table, b"narrow", 2)).await);
        let mut several = wide.clone();
        let keys = [&b"narrow"[..], b"wide", b"none"];
        several.partitions =
            Partitions::Keys(keys.map(|key| (Token::of_key(key), key.into())).to_vec());
        for (mut command, rows) in [(wide, 20), (part, 14), (several, 20)] {
            for is_reversed in [false, true] {
                command.reversed = is_reversed;
                for page_rows in [1, 4, 7, 1000] {
                    assert_eq!(compare(&engine, &command, page_rows).await, rows);
                }
            }
        }
    });
}

/// Before: of more candidates than are read at once the partition was read whole.
#[test]
fn many_rows_in_reversed_order_are_read_from_the_last_on() {
    on_sim(71, async |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        let rows: Vec<(i32, i32)> = (0..4000).map(|c| (c, c % 10)).collect();
        for rows in rows.chunks(200) {
            shard::write(&engine, &record(&table, b"k", rows, 1)).await.unwrap();
        }
        shard::flush(&engine).await;
        let mut command = select_in(&table, b"k", 7);
        for page_rows in [7, 300, 1000] {
            command.reversed = !command.reversed;
            assert_eq!(compare(&engine, &command, page_rows).await, 400);
        }
        command.reversed = true;
        command.limits.rows = 1;
        assert!(!is_looked_up(&engine, &command).await, "the last ten rows have it");
        command.limits.rows = 100;
        assert!(is_looked_up(&engine, &command).await);
    });
}

/// Before: one sstable without its index, for whatever reason and however small, had the whole table scanned.
#[test]
fn a_file_without_its_index_is_gone_through_and_the_others_are_looked_up() {
    on_sim(83, async |sim, disk, exec| {
        let table = table(true);
        let schema = schema_of([table.clone()]);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema).await;
        for file in 0..6u8 {
            for key in 0..4u8 {
                let rows: Vec<(i32, i32)> =
                    (0..50).map(|c| (c, (c * 7 + i32::from(key + file)) % 50)).collect();
                let time = i64::from(file) + 1;
                shard::write(&engine, &record(&table, &[key * 6 + file], &rows, time))
                    .await
                    .unwrap();
                shard::write(&engine, &record(&table, b"all", &rows[..9], time)).await.unwrap();
            }
            shard::flush(&engine).await;
        }
        drop(engine);
        let path = index_files(&sim).remove(2);
        let mut bytes = sim.bytes(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        sim.plant(&path, bytes);
        let engine = open(&disk, &exec, 3, &schema).await;
        assert_eq!((progress(&engine).files, progress(&engine).files_total), (5, 6));
        let command = select(&table, Operator::Equal, 7);
        assert!(is_looked_up(&engine, &command).await, "five of six are indexed");
        // Four of the 50 values: each is compared in pages of five lengths.
        for value in (0..50).step_by(13) {
            let mut command = select(&table, Operator::Equal, value);
            for page_rows in [1, 2, 3, 5, 1000] {
                command.reversed = !command.reversed;
                assert!(compare(&engine, &command, page_rows).await > 15);
            }
        }
        assert!(check_some(&engine, &table).await > 100);
        shard::run_jobs(&engine, 1000).await;
        assert!(progress(&engine).is_built());
    });
}

/// Before: of a partition that a lookup read whole range deletions of one time counted as one, however many.
#[test]
fn tombstones_of_a_partition_that_a_lookup_reads_whole_are_counted() {
    on_sim(89, async |_, disk, exec| {
        let mut table = table(false);
        let of_key = Index { column: table.column("k").unwrap().id, ..index_of(&table, "v") };
        table.add_index(of_key).unwrap();
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        shard::write(&engine, &record(&table, b"k", &[(1000, 1)], 1)).await.unwrap();
        let mut out = Vec::new();
        let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(b"k"), b"k");
        for c in 0..50 {
            let (start, end) = (&clustering(&table, 4 * c), &clustering(&table, 4 * c + 1));
            let deletion = Deletion { timestamp: 9, local_s: LATER_S };
            m.delete_range(&RangeTombstone { start, end, deletion });
        }
        m.finish();
        shard::write(&engine, &out).await.unwrap();
        let values: Vec<Box<[u8]>> = vec![b"k"[..].into()];
        let lookup = table.indexes()[0].lookup(&table, Operator::Equal, &values).unwrap();
        let mut command = ReadCommand { lookups: vec![lookup.unwrap()], ..select_all(LATER_S) };
        command.limits.tombstones = 20;
        for policy in [LookupPolicy::Never, LookupPolicy::Always] {
            engine.set_lookup_policy(policy);
            let end = engine.read(&command, &mut Rows::default(), yield_now).await;
            assert!(
                matches!(end, Err(engine::Error::TooManyTombstones { .. })),
                "{policy:?}: {end:?}"
            );
        }
    });
}

/// Before: a page that began behind many range deletions of a file without its index walked them without a pause.
#[test]
fn what_is_before_a_page_is_passed_with_pauses() {
    on_sim(101, async |sim, disk, exec| {
        const DELETIONS: i32 = 2000;
        let table = table(true);
        let schema = schema_of([table.clone()]);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema).await;
        for from in (0..DELETIONS).step_by(100) {
            let mut out = Vec::new();
            let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(b"k"), b"k");
            for c in from..from + 100 {
                let (start, end) = (&clustering(&table, 4 * c), &clustering(&table, 4 * c + 1));
                let deletion = Deletion { timestamp: 9, local_s: LATER_S };
                m.delete_range(&RangeTombstone { start, end, deletion });
            }
            m.finish();
            shard::write(&engine, &out).await.unwrap();
        }
        let rows: Vec<(i32, i32)> = (0..9).map(|c| (4 * DELETIONS + c, 1)).collect();
        shard::write(&engine, &record(&table, b"k", &rows, 1)).await.unwrap();
        shard::flush(&engine).await;
        shard::write(&engine, &record(&table, b"other", &rows, 1)).await.unwrap();
        drop(engine);
        let path = index_files(&sim).remove(0);
        let mut bytes = sim.bytes(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        sim.plant(&path, bytes);
        let engine = open(&disk, &exec, 3, &schema).await;
        engine.set_lookup_policy(LookupPolicy::Always);
        let mut command = select(&table, Operator::Equal, 1);
        command.limits.page_rows = 13;
        let first = engine.read(&command, &mut Rows::default(), yield_now).await.unwrap();
        command.resume = first.more;
        assert!(command.resume.is_some(), "there are more");
        let pauses = Slot::new(0);
        let pause = async || pauses.set(pauses.get() + 1);
        engine.read(&command, &mut Rows::default(), pause).await.unwrap();
        assert!(pauses.get() > 2 * DELETIONS / 40, "{} pauses", pauses.get());
    });
}

/// Before: what was left of a partition was named row by row, only to be passed over.
#[test]
fn a_partition_of_which_enough_is_known_is_passed_at_once() {
    on_sim(71, async |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        for key in 0..4u8 {
            for from in (0..2000).step_by(200) {
                let rows: Vec<(i32, i32)> = (from..from + 200).map(|c| (c, 5)).collect();
                shard::write(&engine, &record(&table, &[key], &rows, 1)).await.unwrap();
            }
        }
        shard::flush(&engine).await;
        let mut command = select(&table, Operator::Equal, 5);
        command.limits.rows_per_partition = 1;
        assert_eq!(compare(&engine, &command, 4).await, 4);
        engine.set_lookup_policy(LookupPolicy::Always);
        let end = engine.read(&command, &mut Rows::default(), yield_now).await.unwrap();
        let asked = end.blocks + end.cached_blocks;
        assert!(end.rows == 4 && asked < 2000, "{asked} blocks for 4 of 8,000 rows");
    });
}

/// Before: the first row waited for a candidate of each file, whatever tokens the file has.
#[test]
fn a_file_of_later_tokens_is_asked_when_it_is_its_turn() {
    on_sim(73, async |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        let mut keys: Vec<[u8; 1]> = (0..64).map(|key| [key]).collect();
        keys.sort_by_key(|key| Token::of_key(key));
        for keys in keys.chunks(4) {
            for key in keys {
                let rows: Vec<(i32, i32)> = (0..10).map(|c| (c, 5)).collect();
                shard::write(&engine, &record(&table, key, &rows, 1)).await.unwrap();
            }
            shard::flush(&engine).await;
        }
        assert_eq!(progress(&engine).files, 16);
        let command = select(&table, Operator::Equal, 5);
        assert_eq!(compare(&engine, &command, 7).await, 640);
        let mut first = command.clone();
        first.limits.rows = 1;
        engine.set_lookup_policy(LookupPolicy::Always);
        let asked = async || {
            let end = engine.read(&first, &mut Rows::default(), yield_now).await.unwrap();
            end.blocks + end.cached_blocks
        };
        // A block of terms of each to count them, and what the first file is asked for.
        let blocks = asked().await;
        assert!(blocks < 16 + 16, "{blocks} blocks of 16 files for one row");
    });
}

/// Before: a block of terms of each file was read, to find the value in one of them.
#[test]
fn a_value_that_one_row_has_is_read_from_the_file_that_has_it() {
    on_sim(74, async |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        for file in 0..16 {
            for key in 0..4u8 {
                let first = 100_000 * file + 300 * i32::from(key);
                let rows: Vec<(i32, i32)> = (first..first + 300).map(|v| (v, v)).collect();
                shard::write(&engine, &record(&table, &[key], &rows, 1)).await.unwrap();
            }
            shard::flush(&engine).await;
        }
        assert_eq!(progress(&engine).files, 16);
        for v in [5, 700_123, 1_501_199] {
            assert_eq!(compare(&engine, &select(&table, Operator::Equal, v), 7).await, 1);
            engine.set_lookup_policy(LookupPolicy::Always);
            let command = select(&table, Operator::Equal, v);
            let end = engine.read(&command, &mut Rows::default(), yield_now).await.unwrap();
            let asked = end.blocks + end.cached_blocks;
            assert!(end.rows == 1 && asked < 16, "{asked} blocks of 16 files for one row");
        }
        for absent in [1200, 1_600_000] {
            assert_eq!(compare(&engine, &select(&table, Operator::Equal, absent), 7).await, 0);
        }
    });
}

/// Before: terms all places of which were given took their time without a pause, and each page has more of them.
#[test]
fn terms_whose_places_were_given_are_work() {
    on_sim(43, async |_, disk, exec| {
        let table = table(true);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        for from in (0..2000).step_by(100) {
            let rows: Vec<(i32, i32)> = (from..from + 100).map(|c| (c, c)).collect();
            shard::write(&engine, &record(&table, b"k", &rows, 1)).await.unwrap();
        }
        shard::flush(&engine).await;
        engine.set_lookup_policy(LookupPolicy::Always);
        let mut command = select(&table, Operator::GreaterOrEqual, 0);
        command.limits.page_rows = 1990;
        let mut rows = Rows::default();
        let end = engine.read(&command, &mut rows, yield_now).await.unwrap();
        command.resume = end.more;
        let pauses = Slot::new(0);
        let pause = async || pauses.set(pauses.get() + 1);
        engine.read(&command, &mut rows, pause).await.unwrap();
        assert_eq!(rows.0.len(), 2000);
        assert!(pauses.get() > 1900 / 160, "{} pauses among 1990 terms", pauses.get());
    });
}

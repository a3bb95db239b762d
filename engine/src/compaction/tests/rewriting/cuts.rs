//! Partitions that are too long for a fragment are cut into several, which together say what the partition says.

use super::*;

/// A partition of many rows under a range deletion is cut into fragments; each is where the one before it ends, and a
/// scan of them has two lanes.
#[test]
fn a_partition_that_is_too_long_for_a_fragment_is_cut_into_several() {
    on_sim(async |_, disk| {
        let deletion = Deletion { timestamp: 100, local_s: 40 };
        let rows = |at: i64| (1..250).map(|place| (place, live(at + i64::from(place)))).collect();
        let ranges = vec![(3, 240, deletion)];
        let one = Part { rows: rows(0), ranges, stat: Some(live(7)), deletion: None };
        let two = Part { rows: rows(1), stat: Some(live(8)), ..Part::default() };
        let one = file(&disk, 1, &[(0, one)].into()).await.unwrap();
        let two = file(&disk, 2, &[(0, two), (1, partition_of(&[(9, live(9))]))].into()).await;
        let inputs = [whole(&one), whole(&two.unwrap())];
        let after = rewritten(&disk, &inputs, &[], &output(500, 0)).await;
        assert!(after.len() > 5, "{} fragments", after.len());
        let numbers: Vec<u64> =
            after.iter().map(|input| input.sstable.statistics().goes_on).collect();
        assert_eq!(numbers, (0..after.len() as u64).collect::<Vec<_>>());
        for pair in after.windows(2).take(after.len() - 2) {
            let [_, end] = pair[0].sstable.clusterings();
            let [begin, _] = pair[1].sstable.clusterings();
            assert!(end <= begin, "{end:?} is before {begin:?}");
        }
        let statics = after.iter().map(|input| input.sstable.statistics().statics);
        assert_eq!(statics.sum::<u64>(), 1, "the head is in the first");
        assert_eq!(lanes_of(after).len(), 2);
    });
}

/// A partition tombstone past its grace is not purged where the partition is cut: rows that it covers are still in the
/// inputs when its first fragment is adopted. Nor does a partition of any length become one fragment for it.
#[test]
fn the_tombstone_of_a_partition_that_is_cut_stays() {
    async fn cut(disk: Disk, fragment_bytes: u64, gc_before_s: u32) -> (usize, u64) {
        let deletion = Some(Deletion { timestamp: 100, local_s: 40 });
        let rows = |at: i64| (1..250).map(|place| (place, live(at + i64::from(place)))).collect();
        let dead = Part { rows: rows(100), deletion, ..Part::default() };
        let old = Part { rows: rows(-200), ..Part::default() };
        let dead = whole(&file(&disk, 1, &[(0, dead)].into()).await.unwrap());
        let old = whole(&file(&disk, 2, &[(0, old)].into()).await.unwrap());
        let output = output(fragment_bytes, gc_before_s);
        let after = rewritten(&disk, &[dead, old], &[], &output).await;
        let deletions = after.iter().map(|file| file.sstable.statistics().partition_deletions);
        (after.len(), deletions.sum())
    }
    on_sim(async |_, disk| assert_eq!(cut(disk, 1 << 20, 50).await, (1, 0), "it is not long"));
    on_sim(async |_, disk| assert_eq!(cut(disk, 1 << 20, 0).await, (1, 1), "not past its grace"));
    for gc_before_s in [0, 50] {
        on_sim(async move |_, disk| {
            let (fragments, deletions) = cut(disk, 500, gc_before_s).await;
            assert!(fragments > 5, "{fragments} fragments");
            assert_eq!(deletions, 1);
        });
    }
}

/// A partition of deleted ranges has no row behind which it could be cut.
#[test]
fn a_partition_of_range_deletions_is_cut() {
    on_sim(async |_, disk| {
        let range =
            |place: u8| (place, place + 1, Deletion { timestamp: place.into(), local_s: 40 });
        let part = Part { ranges: (1..250).map(range).collect(), ..Part::default() };
        let one = whole(&file(&disk, 1, &[(0, part)].into()).await.unwrap());
        let after = rewritten(&disk, &[one], &[], &output(500, 0)).await;
        assert!(after.len() > 5, "{} fragments", after.len());
    });
}

/// A range deletion that reaches over cuts still covers what older files hold behind each of them.
#[test]
fn a_range_deletion_goes_on_behind_a_cut() {
    on_sim(async |_, disk| {
        let deletion = Deletion { timestamp: 1000, local_s: 40 };
        let rows = |at: i64| -> BTreeMap<u8, Vec<u8>> {
            (1..250).map(|place| (place, live(at))).collect()
        };
        let mut new =
            Part { rows: rows(2000), ranges: vec![(3, 240, deletion)], ..Part::default() };
        new.rows.retain(|place, _| place % 2 == 0);
        let old = Part { rows: rows(5), ..Part::default() };
        let new = whole(&file(&disk, 1, &[(0, new)].into()).await.unwrap());
        let old = whole(&file(&disk, 2, &[(0, old)].into()).await.unwrap());
        let after = rewritten(&disk, &[new], &[old], &output(500, 0)).await;
        assert!(after.len() > 5, "{} files", after.len());
    });
}

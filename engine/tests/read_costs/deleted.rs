//! What is behind deleted stretches, and how little of these is read.

use super::*;

/// The deletion is in a newer file, or in the memtable; of a stretch, or of all that was there.
#[test]
fn rows_behind_a_deleted_stretch_are_sought() {
    const ROWS: i32 = 60_000;
    let fill = async |engine: &Engine| {
        for part in 0..30 {
            write(engine, &rows(KEY, part * 2000..(part + 1) * 2000, 1)).await;
        }
        flush(engine).await;
    };
    let stretches = [delete(KEY, 0..ROWS - 10, 2), delete(KEY, 10..ROWS, 2)];
    let whole = change(KEY, |m| m.delete_partition(Deletion { timestamp: 2, local_s: 1 }));
    let newer = rows(KEY, ROWS..ROWS + 3, 3);
    let in_memory = filled(fill);
    for (stretch, reversed, wanted) in
        [(0, false, list(ROWS - 10..ROWS)), (1, true, list((0..10).rev()))]
    {
        let question = of_key(0..i32::MAX, 10, reversed);
        let (rows, cost) = question.ask(&in_memory, vec![stretches[stretch].clone()]);
        assert_eq!(rows, wanted);
        assert!(cost <= 10, "{cost} reads behind a stretch in memory, {reversed}");
        let record = stretches[stretch].clone();
        let on_disk = filled(async move |engine| {
            fill(engine).await;
            write(engine, &record).await;
            flush(engine).await;
        });
        let (rows, cost) = question.ask(&on_disk, Vec::new());
        assert_eq!(rows, wanted);
        assert!(cost <= 10, "{cost} reads behind a stretch in a file, {reversed}");
    }
    let question = of_key(0..i32::MAX, 10, false);
    let (rows, cost) = question.ask(&in_memory, vec![whole, newer]);
    assert_eq!(rows, list(ROWS..ROWS + 3));
    assert!(cost <= 10, "{cost} reads of a deleted partition");
}

/// A range deletion over all fragments but the ends of the partition.
#[test]
fn a_stretch_that_is_deleted_in_many_fragments_is_sought_in_each() {
    const ROWS: i32 = 100_000;
    let sim = filled(async |engine| {
        merge_into_fragments(engine, ROWS).await;
        let size = engine.table_size(TABLE).unwrap();
        assert!(size.sstables > 10 && size.runs == 1, "{size:?}");
    });
    let range = Partitions::Range(TokenRange::ALL);
    let wanted = list((0..10).chain(ROWS - 10..ROWS));
    let question = Question { partitions: range, ..of_key(0..i32::MAX, 20, false) };
    let (rows, reads, bytes) = question.ask_bytes(&sim, vec![delete(KEY, 10..ROWS - 10, 2)]);
    assert_eq!(rows, wanted);
    println!("{reads} reads, {bytes} bytes");
    assert!(bytes < 1 << 20, "{reads} reads, {bytes} bytes");
}

/// Before: each fragment that a deletion covers cost a read or two, as long as it was not merged away.
#[test]
fn a_fragment_that_is_deleted_from_end_to_end_costs_no_read() {
    const ROWS: i32 = 100_000;
    let fill = async |engine: &Engine| {
        merge_into_fragments(engine, ROWS).await;
        assert!(engine.table_size(TABLE).unwrap().sstables > 10);
    };
    let in_memory = filled(fill);
    for (deleted, reversed) in [(0..ROWS - 10, false), (10..ROWS, true)] {
        let wanted = match reversed {
            false => list(ROWS - 10..ROWS),
            true => list((0..10).rev()),
        };
        let (question, record) = (of_key(0..i32::MAX, 10, reversed), delete(KEY, deleted, 2));
        let (rows, in_memory) = question.ask(&in_memory, vec![record.clone()]);
        assert_eq!(rows, wanted);
        let on_disk = filled(async move |engine| {
            fill(engine).await;
            write(engine, &record).await;
            flush(engine).await;
        });
        let (rows, on_disk) = question.ask(&on_disk, Vec::new());
        assert_eq!(rows, wanted);
        println!("{in_memory} reads, {on_disk} with the deletion on the disk, {reversed}");
        assert!(in_memory <= 6 && on_disk <= 8, "{in_memory}, {on_disk} reads");
    }
}

/// Before: the file in which the slice ends was read, too.
#[test]
fn a_slice_of_which_all_is_deleted_costs_reads_of_its_first_file_alone() {
    let sim = filled(async |engine| {
        for file in 0..4 {
            write(engine, &rows(KEY, file * 1000..(file + 1) * 1000, 1)).await;
            flush(engine).await;
        }
    });
    for reversed in [false, true] {
        let question = of_key(500..3500, 10, reversed);
        let border = if reversed { 3499 } else { 500 };
        let (_, of_one_row) = of_key(border..border + 1, 1, reversed).ask(&sim, Vec::new());
        let (taken, cost) = question.ask(&sim, vec![delete(KEY, 100..3900, 2)]);
        assert_eq!((taken, cost), (Vec::new(), of_one_row), "{reversed}");
        // Up to the last row of a file, which is not the end of the slice.
        let to_end = of_key(500..5000, 10, reversed);
        let (taken, _) = to_end.ask(&sim, vec![delete(KEY, 100..3999, 2)]);
        assert_eq!(taken, list(3999..4000), "{reversed}");
        let (taken, _) = question.ask(&sim, vec![delete(KEY, 500..3499, 2)]);
        assert_eq!(taken, list(3499..3500), "{reversed}");
        let (taken, _) = question.ask(&sim, vec![delete(KEY, 501..3500, 2)]);
        assert_eq!(taken, list(500..501), "{reversed}");
    }
}

/// Without a disk read and without a pause: otherwise `read_cached` says `WouldBlock`.
#[test]
fn rows_behind_a_stretch_that_is_deleted_in_memory_are_read_at_once() {
    let sim = SimDisk::new(1, Faults::default());
    let (disk, exec) = (Disk::Sim(sim), SimExec::new(1));
    let inner = exec.clone();
    exec.run(async move {
        make(&disk, &config()).await;
        let engine = open(&disk, &inner).await;
        for part in 0..20 {
            write(&engine, &rows(KEY, part * 1000..(part + 1) * 1000, 1)).await;
        }
        write(&engine, &delete(KEY, 10..19_990, 2)).await;
        write(&engine, &rows(KEY, 12_345..12_346, 3)).await;
        for (slice, limit, reversed, wanted) in [
            (10..20_000, 2, false, list([12_345, 19_990].into_iter())),
            (0..19_990, 2, true, list([12_345, 9].into_iter())),
        ] {
            let mut taken = Taken::default();
            let command = of_key(slice, limit, reversed).command();
            let end = engine.read_cached(&command, &mut taken).unwrap();
            assert_eq!(taken.0, wanted);
            assert!(end.tombstones <= 4, "{} tombstones", end.tombstones);
        }
    })
    .done();
}

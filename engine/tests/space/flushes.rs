//! What a flush asks for, how it goes on when the disk is full, and what it remembers of that.

use engine::limits::FLUSH_MORE_BYTES;

use super::*;

/// Before: it asked for as much space as all memtables of the table took in memory, and more each time it was refused.
#[test]
fn a_flush_asks_for_the_space_that_its_file_takes() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        write_zeros(&engine, 1000..1060).await;
        flush(&engine).await;
        write_zeros(&engine, 0..60).await;
        leave_free(&sim, &disk, 300 << 10).await;
        let (job, now_s) = (engine.next_job_of(JobKind::Flush, LATER_S), LATER_S);
        engine.run(job.unwrap(), now_s, yield_now).await.unwrap();
        sim.set_faults(Faults::default());
    });
}

/// Flushes a short file of zeros, and then fills the memtables with values that do not compress.
async fn fill_memory_behind_zeros(engine: &Engine) {
    write_zeros(engine, 1000..1060).await;
    flush(engine).await;
    fill_memory(engine).await;
}

/// Before: a flush whose file became longer than those before it met the full disk, and asked for as little the next
/// time; writes were taken meanwhile.
#[test]
fn a_flush_whose_file_was_longer_than_its_estimate_asks_for_more() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        fill_memory_behind_zeros(&engine).await;
        leave_free(&sim, &disk, 1 << 20).await;
        let (error, least) = flush_once(&engine, LATER_S).await;
        assert!(error == no_space_to_flush() && least.is_some(), "{error:?}, {least:?}");
        engine.measure_space(0).await.unwrap();
        assert!(engine.is_disk_full());
        assert_eq!(flush_once(&engine, LATER_S + 60).await, (no_space_to_flush(), None));
        sim.set_faults(Faults::default());
    });
}

/// Before: a flush whose file became longer than those before it wrote on, into what the reserve lacks and what others
/// were promised.
#[test]
fn a_flush_whose_file_is_longer_than_its_estimate_leaves_what_the_reserve_lacks() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        fill_memory_behind_zeros(&engine).await;
        let kept_bytes = 2 << 20;
        leave_free(&sim, &disk, kept_bytes + (1 << 20)).await;
        engine.measure_space(kept_bytes).await.unwrap();
        let (error, least) = flush_once(&engine, LATER_S).await;
        assert!(
            error == no_space_to_flush() && least.unwrap() >= kept_bytes,
            "{error:?}, {least:?}"
        );
        assert!(least.unwrap() <= kept_bytes + FLUSH_MORE_BYTES, "{least:?}: it has tried");
        sim.set_faults(Faults::default());
    });
}

/// Before: after a start, and after a flush that a full disk had ended, a flush asked for as much as its memtable takes
/// in memory: it was refused for ever where less was free, however short its file.
#[test]
fn a_flush_whose_file_may_be_short_begins_with_less_than_its_estimate() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        write_zeros(&engine, 1000..1060).await;
        leave_free(&sim, &disk, 700 << 10).await;
        assert_eq!(flush_once(&engine, LATER_S).await.0, None);
        sim.set_faults(Faults::default());
    });
}

/// Before: a flush that a full disk had ended for what others wrote asked for more the next time, and did not begin
/// with less.
#[test]
fn a_flush_that_met_a_disk_that_others_filled_begins_with_less_again() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        write_zeros(&engine, 1000..1060).await;
        leave_free(&sim, &disk, 700 << 10).await;
        let used_bytes = sim.used_bytes();
        let fill = async || {
            let quota_bytes = Some(sim.used_bytes());
            sim.set_faults(Faults { quota_bytes, ..Faults::default() });
        };
        let job = engine.next_job_of(JobKind::Flush, LATER_S).unwrap();
        let full = engine.run(job, LATER_S, fill).await.err();
        // The disk itself: what was promised was taken by others.
        assert!(matches!(full, Some(Error::DiskFull { .. })) && full != no_space_to_flush());
        assert_eq!(sim.used_bytes(), used_bytes);
        leave_free(&sim, &disk, 700 << 10).await;
        assert_eq!(flush_once(&engine, LATER_S + 60).await.0, None);
        sim.set_faults(Faults::default());
    });
}

/// Before: it began again and again, wrote as much as before and removed it, and writes were taken meanwhile.
#[test]
fn a_flush_that_met_a_full_disk_begins_where_there_is_space_for_more_than_it_had_written() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        fill_memory_behind_zeros(&engine).await;
        let used_bytes = sim.used_bytes();
        let fill = async || {
            if sim.used_bytes() > used_bytes + (600 << 10) {
                let quota_bytes = Some(sim.used_bytes());
                sim.set_faults(Faults { quota_bytes, ..Faults::default() });
            }
        };
        let job = engine.next_job_of(JobKind::Flush, LATER_S).unwrap();
        let full = engine.run(job, LATER_S, fill).await.err();
        assert!(matches!(full, Some(Error::DiskFull { .. })) && full != no_space_to_flush());
        leave_free(&sim, &disk, 800 << 10).await;
        let (error, least) = flush_once(&engine, LATER_S + 60).await;
        assert_eq!((error, least), (no_space_to_flush(), None), "nothing was begun");
        engine.measure_space(0).await.unwrap();
        assert!(engine.is_disk_full());
        leave_free(&sim, &disk, 8 << 20).await;
        assert_eq!(flush_once(&engine, LATER_S + 120).await.0, None);
        sim.set_faults(Faults::default());
    });
}

/// Flushes a short file of zeros, and then seals 1 MiB of values that do not compress.
async fn seal_noise_behind_zeros(engine: &Engine) {
    write_zeros(engine, 0..60).await;
    flush(engine).await;
    for key in 0..40 {
        write(engine, &record(&[key], Some(&noise(key, 3000)), 1)).await.unwrap();
    }
    engine.seal(TABLE);
}

/// Flushes a short file of zeros once more, with 300 KiB free: its error. Then the disk has space.
async fn flush_zeros_into_little(engine: &Engine, (sim, disk): (&SimDisk, &Disk)) -> Option<Error> {
    engine.measure_space(0).await.unwrap();
    write_zeros(engine, 0..60).await;
    leave_free(sim, disk, 300 << 10).await;
    let (error, _) = flush_once(engine, LATER_S + 60).await;
    sim.set_faults(Faults::default());
    error
}

/// Before: it was asked for of what was written later, too.
#[test]
fn what_a_flush_was_refused_is_forgotten_when_its_table_is_emptied() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        seal_noise_behind_zeros(&engine).await;
        leave_free(&sim, &disk, 700 << 10).await;
        assert_eq!(flush_once(&engine, LATER_S).await.0, no_space_to_flush());
        leave_free(&sim, &disk, 8 << 20).await;
        engine.truncate(TABLE).await.unwrap();
        assert_eq!(flush_zeros_into_little(&engine, (&sim, &disk)).await, None);
    });
}

/// Before: a flush that met the full disk after its table was emptied noted it for what was written later.
#[test]
fn what_a_flush_was_refused_is_not_noted_for_a_table_that_was_emptied_meanwhile() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        seal_noise_behind_zeros(&engine).await;
        let job = engine.next_job_of(JobKind::Flush, LATER_S).unwrap();
        let pauses = RefCell::new(0);
        let pause = async || {
            let count = pauses.replace_with(|count| *count + 1) + 1;
            if count == 30 {
                engine.truncate(TABLE).await.unwrap();
                leave_free(&sim, &disk, 128 << 10).await;
            }
        };
        let full = engine.run(job, LATER_S, pause).await.err();
        assert!(matches!(full, Some(Error::DiskFull { .. })), "{full:?}");
        leave_free(&sim, &disk, 8 << 20).await;
        assert_eq!(flush_zeros_into_little(&engine, (&sim, &disk)).await, None);
    });
}

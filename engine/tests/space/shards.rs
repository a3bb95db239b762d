//! Two shards that share a disk: none is promised what the other was.

use super::*;

/// Two shards that each have space for their merge, and not both.
async fn two_merges(
    sim: &SimDisk,
    disk: &Disk,
    exec: &SimExec,
    ledgers: [&SpaceLedger; 2],
) -> Vec<Error> {
    let halves = [(i64::MIN, -1), (0, i64::MAX)];
    let mut engines = Vec::new();
    for (shard, (first, last)) in (0..).zip(halves) {
        let owned = TokenRange { first: Token(first), last: Token(last) };
        let seeded = |seed| config((seed + u64::from(shard)) << 40, owned, shard);
        Engine::create(disk, &seeded(10)).await.unwrap();
        let config = seeded(20);
        let engine = open(disk, exec, config, ledgers[shard as usize]).await;
        let owns = |key: &u32| owned.contains(Token::of_key(&key.to_be_bytes()));
        let keys: Vec<u32> = (0..400).filter(owns).collect();
        for part in 0..4 {
            for key in keys.iter().filter(|key| **key % 4 == part) {
                // It cannot be compressed, and nothing is overwritten: as much comes out as goes in.
                write(&engine, &record(&[*key], Some(&noise(*key, 40)), 1)).await.unwrap();
            }
            flush(&engine).await;
        }
        engines.push(engine);
    }
    let bytes = engines[0].table_size(TABLE).unwrap().bytes;
    leave_free(sim, disk, bytes * 3 / 2).await;
    let (mut errors, others) = zip(merge(&engines[0]), merge(&engines[1])).await;
    errors.extend(others);
    let files = engines.iter().map(|engine| engine.table_size(TABLE).unwrap().sstables);
    assert!(errors.len() > 1 || files.max() < Some(4), "each has merged something");
    sim.set_faults(Faults::default());
    errors
}

/// Two shards with 8 MiB of memory and one ledger, and whether a key is the second one's.
async fn two_shards(disk: &Disk, exec: &SimExec) -> (Rc<Engine>, Rc<Engine>, fn(&u32) -> bool) {
    let ledger = SpaceLedger::default();
    let engine_of = async |shard: u32, tokens| {
        let config = || Config { memory_bytes: 8 << 20, ..config(u64::from(shard), tokens, shard) };
        Engine::create(disk, &config()).await.unwrap();
        open(disk, exec, config(), &ledger).await
    };
    let low = TokenRange { first: TokenRange::ALL.first, last: Token(-1) };
    let high = TokenRange { first: Token(0), last: TokenRange::ALL.last };
    let is_high = |key: &u32| Token::of_key(&key.to_be_bytes()).0 >= 0;
    (engine_of(0, low).await, engine_of(1, high).await, is_high)
}

/// Runs a flush of one shard, and at its first pause one of another: their errors, and whether the other one has begun.
async fn flush_beside(outer: &Engine, inner: &Engine) -> ([Option<Error>; 2], bool) {
    let beside = RefCell::new(None);
    let pause = async || {
        if beside.borrow().is_none() {
            let done = flush_once(inner, LATER_S).await;
            beside.replace(Some(done));
        }
    };
    let job = outer.next_job_of(JobKind::Flush, LATER_S).unwrap();
    let done = outer.run(job, LATER_S, pause).await.err();
    let (error, least) = beside.into_inner().expect("the flush has pauses");
    ([done, error], least.is_some())
}

/// Before: a flush that began with less than its estimate was promised all that was free, so that others had none.
#[test]
fn a_flush_that_begins_with_less_than_its_estimate_leaves_the_rest_to_others() {
    on_sim(async |sim, disk, exec| {
        let (first, second, is_high) = two_shards(&disk, &exec).await;
        write_zeros(&first, (0..120).filter(|key| !is_high(key))).await;
        let key = (0..).find(is_high).unwrap();
        write(&second, &record(&[key], Some(&noise(key, 3000)), 1)).await.unwrap();
        second.seal(TABLE);
        leave_free(&sim, &disk, 700 << 10).await;
        assert_eq!(flush_beside(&first, &second).await.0, [None, None]);
        sim.set_faults(Faults::default());
    });
}

/// Before: the next one asked for all of its estimate, though its file takes less: it was refused for ever.
#[test]
fn a_flush_that_others_left_no_space_for_a_while_begins_with_less_again() {
    on_sim(async |sim, disk, exec| {
        let (first, second, is_high) = two_shards(&disk, &exec).await;
        let write_noise = async |keys: u32| {
            for key in (0..).filter(|key| !is_high(key)).take(keys as usize) {
                write(&first, &record(&[key], Some(&noise(key, 3000)), 1)).await.unwrap();
            }
        };
        // Files are as long as what is in memory.
        write_noise(10).await;
        flush(&first).await;
        write_zeros(&first, (1000..).filter(|key| !is_high(key)).take(80)).await;
        write_noise(40).await;
        first.seal(TABLE);
        write_zeros(&second, (0..).filter(is_high).take(40)).await;
        second.seal(TABLE);
        // The second one is promised 1.7 MiB, and takes next to nothing. The first one takes 1 of 3 MiB in memory.
        leave_free(&sim, &disk, 2400 << 10).await;
        let (ended, has_begun) = flush_beside(&second, &first).await;
        assert_eq!((ended, has_begun), ([None, no_space_to_flush()], true));
        assert_eq!(flush_once(&first, LATER_S + 60).await.0, None);
        sim.set_faults(Faults::default());
    });
}

/// Before: two merges of two shards both counted the same free bytes, and one of them met a full disk.
#[test]
fn shards_do_not_promise_the_same_free_bytes_twice() {
    let errors = Rc::new(RefCell::new(Vec::new()));
    let seen = errors.clone();
    on_sim(async move |sim, disk, exec| {
        let ledger = SpaceLedger::default();
        *seen.borrow_mut() = two_merges(&sim, &disk, &exec, [&ledger, &ledger]).await;
    });
    let named = |error: &&Error| !matches!(error, Error::DiskFull { file } if &**file == "the output of a compaction");
    assert_eq!(errors.borrow().iter().find(named), None, "no write has met a full disk");
}

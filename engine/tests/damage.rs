//! A damaged sstable: it is named, everything else is served, and nothing it held is forgotten or comes back wrongly.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::BTreeMap;
use std::rc::Rc;

use engine::io::{Disk, RelPath, SimDisk, SimExec};
use engine::layout::{self, Layout, Secret};
use engine::{DamageKind, Engine, Error, Job, sweep};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::options::TableOptions;
use model::read::{Flow, PartitionRef, Partitions, ReadCommand, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::{ColumnId, Deletion, Schema, TableId, Token, TokenRange};
use uuid::Uuid;

use crate::shard::{self, LATER_S, TABLE, config, flush, key_value, make, schema_of, select_all};

const OTHER: TableId = TableId(Uuid::from_u128(8));
const VALUE_BYTES: usize = 300;

fn schema() -> Schema {
    let options = TableOptions { gc_grace_seconds: 10, ..TableOptions::default() };
    let table = key_value(options);
    let mut other = table.clone();
    (other.id, other.name) = (OTHER, "u".into());
    schema_of([table, other])
}

fn record(table: TableId, key: u8, value: Option<u8>, timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, table, Token::of_key(&[key]), &[key]);
    match value {
        None => m.delete_partition(Deletion { timestamp, local_s: 100 }),
        Some(value) => m.row(&[], |out| {
            let value = [value; VALUE_BYTES];
            let cell = Cell::live(ColumnId(1), timestamp, &value);
            RowBuilder::begin(out, &RowHead::bare(timestamp)).cell(&cell);
        }),
    }
    m.finish();
    out
}

#[derive(Default)]
struct Values(BTreeMap<u8, u8>);

impl RowSink for Values {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let cell = row.and_then(|row| row.cells().next()).unwrap();
        self.0.insert(p.key[0], cell.value[0]);
        Flow::More
    }
}

/// A shard that is opened again and again on one disk.
struct Shard {
    sim: SimDisk,
    disk: Disk,
    exec: SimExec,
    engine: Rc<Engine>,
    time: i64,
    starts: u64,
}

impl Shard {
    async fn create(sim: SimDisk, exec: SimExec) -> Shard {
        let disk = Disk::Sim(sim.clone());
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2).await;
        Shard { sim, disk, exec, engine, time: 1, starts: 2 }
    }

    async fn start_again(&mut self) {
        self.starts += 1;
        let layout = Layout::first(1, Uuid::from_u128(1), Secret::NONE);
        sweep(&self.disk, &layout).await.unwrap();
        self.engine = open(&self.disk, &self.exec, self.starts).await;
    }

    async fn write(&mut self, table: TableId, key: u8, value: Option<u8>) {
        self.time += 1;
        shard::write(&self.engine, &record(table, key, value, self.time)).await.unwrap();
    }

    /// Writes and flushes; the file that this made.
    async fn file_of(&mut self, key: u8, value: Option<u8>) -> RelPath {
        let before = self.sim.files_of(&layout::table_dir(TABLE.0));
        self.write(TABLE, key, value).await;
        flush(&self.engine).await;
        let mut after = self.sim.files_of(&layout::table_dir(TABLE.0));
        after.retain(|path| !before.contains(path));
        assert_eq!(after.len(), 1, "one file was flushed");
        after.remove(0)
    }

    async fn read(&self, table: TableId, partitions: Partitions) -> Result<Vec<u8>, Error> {
        let command = ReadCommand { table, partitions, ..select_all(LATER_S) };
        let mut values = Values::default();
        self.engine.read(&command, &mut values, yield_now).await?;
        Ok(values.0.into_values().collect())
    }

    async fn all(&self) -> Result<Vec<u8>, Error> {
        self.read(TABLE, Partitions::Range(TokenRange::ALL)).await
    }

    fn kinds(&self) -> Vec<DamageKind> {
        self.engine.damaged_files().iter().map(|view| view.kind).collect()
    }
}

async fn open(disk: &Disk, exec: &SimExec, seed: u64) -> Rc<Engine> {
    shard::open(disk, exec, config(seed), &schema()).await
}

fn on_sim(main: impl AsyncFnOnce(Shard) + 'static) {
    shard::on_sim(1, async |sim, _, exec| main(Shard::create(sim, exec).await).await);
}

fn by_key(key: u8) -> Partitions {
    Partitions::Keys(vec![(Token::of_key(&[key]), Box::from([key]))])
}

/// How a file is damaged: it is gone, cut short, or a bit of its footer is another.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Lost,
    Cut,
    Flipped,
}

fn harm(sim: &SimDisk, path: &RelPath, harm: Harm) -> Vec<u8> {
    let whole = sim.bytes(path).unwrap();
    let mut bytes = whole.clone();
    match harm {
        Harm::Lost => sim.lose(path),
        Harm::Cut => sim.plant(path, bytes[..bytes.len() / 2].to_vec()),
        Harm::Flipped => {
            *bytes.last_mut().unwrap() ^= 1;
            sim.plant(path, bytes);
        }
    }
    whole
}

fn is_named(result: &Result<Vec<u8>, Error>, path: &RelPath) -> bool {
    matches!(result, Err(Error::Damaged { file, .. }) if **file == *path.as_str())
}

#[test]
fn a_damaged_file_is_named_and_the_rest_is_served() {
    for how in [Harm::Lost, Harm::Cut, Harm::Flipped] {
        on_sim(async move |mut shard: Shard| {
            let path = shard.file_of(1, Some(11)).await;
            shard.file_of(2, Some(12)).await;
            shard.write(OTHER, 1, Some(13)).await;
            let whole = harm(&shard.sim, &path, how);
            shard.start_again().await;
            assert_eq!(shard.kinds(), [DamageKind::Unopened], "{how:?}");
            let damaged = &shard.engine.damaged_files()[0];
            assert_eq!((damaged.path().as_str(), damaged.since_s), (path.as_str(), None));
            assert!(is_named(&shard.read(TABLE, by_key(1)).await, &path));
            assert!(is_named(&shard.all().await, &path));
            assert_eq!(shard.read(TABLE, by_key(2)).await, Ok(vec![12]));
            assert_eq!(shard.read(OTHER, by_key(1)).await, Ok(vec![13]));
            // What is written now may be older than what the file holds.
            shard.file_of(1, Some(14)).await;
            assert!(is_named(&shard.read(TABLE, by_key(1)).await, &path));
            shard.sim.plant(&path, whole);
            shard.start_again().await;
            assert_eq!(shard.kinds(), []);
            assert_eq!(shard.all().await.map(|all| all.len()), Ok(2));
            assert_eq!(shard.read(TABLE, by_key(1)).await, Ok(vec![14]));
        });
    }
}

#[test]
fn what_was_truncated_does_not_come_back_with_its_file() {
    on_sim(async |mut shard: Shard| {
        let path = shard.file_of(1, Some(11)).await;
        let whole = harm(&shard.sim, &path, Harm::Flipped);
        shard.start_again().await;
        shard.engine.truncate(TABLE).await.unwrap();
        assert_eq!((shard.all().await, shard.kinds()), (Ok(vec![]), vec![]));
        assert_eq!(shard.sim.bytes(&path), None, "it goes with the table's rows");
        shard.sim.plant(&path, whole);
        shard.start_again().await;
        assert_eq!(shard.all().await, Ok(vec![]));
    });
}

/// The tombstone is past its grace, and no file that can be read holds what it deletes.
#[test]
fn a_tombstone_outlives_the_damage_of_what_it_deletes() {
    on_sim(async |mut shard: Shard| {
        let path = shard.file_of(1, Some(11)).await;
        shard.file_of(1, None).await;
        shard.file_of(2, Some(12)).await;
        let whole = harm(&shard.sim, &path, Harm::Lost);
        shard.start_again().await;
        while let Some(job) = shard.engine.next_job(LATER_S) {
            shard.engine.run(job, LATER_S, async || yield_now().await).await.unwrap();
        }
        let request = shard.engine.request_major(TABLE);
        let merged =
            shard.engine.compact_major(&request, LATER_S, async || yield_now().await).await;
        assert_eq!(merged, Ok(true));
        drop(request);
        shard.sim.plant(&path, whole);
        shard.start_again().await;
        assert_eq!(shard.all().await, Ok(vec![12]));
    });
}

#[test]
fn a_snapshot_is_refused_and_an_older_one_gives_the_file_back() {
    on_sim(async |mut shard: Shard| {
        let path = shard.file_of(1, Some(11)).await;
        let dir = RelPath::new("snapshots/s").unwrap();
        for dir in [&RelPath::new("snapshots").unwrap(), &dir] {
            shard.disk.mkdir(dir).await.unwrap();
        }
        let linked = shard.engine.link_files(TABLE, &dir).await.unwrap();
        assert_eq!(linked.len(), 1);
        // The link and the file are one: another file stands where it was.
        let whole = shard.sim.bytes(&path).unwrap();
        shard.sim.lose(&path);
        shard.sim.plant(&path, whole[..whole.len() / 2].to_vec());
        shard.start_again().await;
        let refused = shard.engine.link_files(TABLE, &dir).await;
        assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
        let given = shard.engine.adopt_files(TABLE, &dir, &linked).await;
        assert_eq!(given, Ok(1));
        assert_eq!((shard.all().await, shard.kinds()), (Ok(vec![11]), vec![]));
        assert_eq!(shard.sim.files_of(&layout::table_dir(TABLE.0)), [path]);
        shard.start_again().await;
        assert_eq!((shard.all().await, shard.kinds()), (Ok(vec![11]), vec![]));
    });
}

#[test]
fn what_is_forgotten_is_gone_for_good() {
    on_sim(async |mut shard: Shard| {
        let path = shard.file_of(1, Some(11)).await;
        shard.file_of(2, Some(12)).await;
        let whole = harm(&shard.sim, &path, Harm::Cut);
        shard.start_again().await;
        let file = shard.engine.damaged_files()[0].entry.sstable;
        assert_eq!(shard.engine.forget_file(Uuid::nil()).await, Ok(0));
        assert_eq!(shard.engine.forget_file(file).await, Ok(1));
        assert_eq!((shard.all().await, shard.kinds()), (Ok(vec![12]), vec![]));
        shard.sim.plant(&path, whole);
        shard.start_again().await;
        assert_eq!(shard.all().await, Ok(vec![12]));
    });
}

#[test]
fn a_damaged_block_fails_the_reads_that_need_it_and_is_noted() {
    on_sim(async |mut shard: Shard| {
        let path = shard.file_of(1, Some(11)).await;
        shard.file_of(2, Some(12)).await;
        let mut bytes = shard.sim.bytes(&path).unwrap();
        bytes[20] ^= 1;
        shard.sim.plant(&path, bytes);
        shard.start_again().await;
        assert_eq!(shard.kinds(), []);
        for _ in 0..2 {
            let read = shard.read(TABLE, by_key(1)).await;
            assert!(matches!(&read, Err(Error::Corrupt { file, .. }) if **file == *path.as_str()));
            assert_eq!(shard.kinds(), [DamageKind::Unreadable]);
        }
        assert_eq!(shard.engine.damaged_files()[0].since_s, Some(LATER_S));
        assert_eq!(shard.read(TABLE, by_key(2)).await, Ok(vec![12]));
        let file = shard.engine.damaged_files()[0].entry.sstable;
        assert_eq!(shard.engine.forget_file(file).await, Ok(1));
        assert_eq!((shard.all().await, shard.kinds()), (Ok(vec![12]), vec![]));
    });
}

/// Before: a merge of a file with a bad sector was tried for ever, and the table's files piled up.
#[test]
fn a_file_that_cannot_be_read_is_merged_no_more_and_the_others_are() {
    on_sim(async |mut shard: Shard| {
        let bad = shard.file_of(1, Some(11)).await;
        for key in 2..5 {
            shard.file_of(key, Some(10 + key)).await;
        }
        shard.start_again().await;
        shard.sim.set_unreadable(&bad);
        let pause = async || yield_now().await;
        for attempt in 1..=3u32 {
            let now_s = 1000 * attempt;
            assert_eq!(shard.engine.next_job(now_s), Some(Job::Compact(TABLE)));
            let failed = shard.engine.run(Job::Compact(TABLE), now_s, pause).await.unwrap_err();
            assert!(failed.to_string().contains(bad.as_str()), "{failed}");
            assert_eq!(shard.engine.stats().files_quarantined, u64::from(attempt == 3));
            // Another job of the table ends well meanwhile: failures are counted by file.
            shard.write(TABLE, 9, Some(attempt as u8)).await;
            flush(&shard.engine).await;
        }
        assert_eq!(shard.kinds(), [DamageKind::Unmergeable]);
        assert_eq!(shard.engine.next_job(9000), Some(Job::Compact(TABLE)));
        shard.engine.run(Job::Compact(TABLE), 9000, pause).await.unwrap();
        assert_eq!(shard.engine.table_size(TABLE).unwrap().sstables, 2);
        assert_eq!(shard.read(TABLE, by_key(9)).await, Ok(vec![3]));
    });
}

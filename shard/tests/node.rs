//! Whole nodes: several cores on one data directory, through the API the server uses.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail it")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use engine::Result;
use messina_shard::message::AlterError;
use messina_shard::node::{Core, Node, NodeConfig, Opened, start};
use messina_shard::os::epoll::Poller;
use messina_shard::runtime::{reap, sleep};
use messina_shard::snapshots::{Removal, RemovalStep};
use messina_shard::upkeep::Upkeep;
use messina_shard::{Group, Incoming, Protocol, Shard, ShardId, Ticket};
use model::options::{KeyspaceOptions, TableOptions};
use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, RowSink, Slice};
use model::row::RowHead;
use model::schema::{Table, TableBuilder};
use model::{
    CqlType, MutationBuilder, RowBuilder, RowRef, Schema, SchemaChange, TableId, Token, TokenRange,
};

/// A core is asked for a number and answers with its own and the next.
enum Tally {}

impl Protocol for Tally {
    type Ask = u64;
    type Answer = (usize, u64);
}

/// What a test does on core 0, while the passes of all cores run.
struct Client {
    shard: Rc<Shard<Tally>>,
    results: Rc<RefCell<BTreeMap<u32, Result<()>>>>,
    next: Cell<u32>,
}

impl Client {
    /// Writes a record and waits until it is answered.
    async fn write(&self, record: &[u8]) -> Result<()> {
        let ticket = self.next.replace(self.next.get() + 1);
        self.shard.write(record, Ticket::Caller(ticket))?;
        self.shard.wake().notify();
        loop {
            if let Some(result) = self.results.borrow_mut().remove(&ticket) {
                return result;
            }
            reap().await;
        }
    }

    async fn keys_of(&self, command: &ReadCommand) -> Vec<Vec<u8>> {
        let mut sink = Keys::default();
        self.shard.read(command, &mut sink, None).await.unwrap();
        sink.0
    }
}

#[derive(Default)]
struct Keys(Vec<Vec<u8>>);

impl RowSink for Keys {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        self.0.push(p.key.to_vec());
        Flow::More
    }
}

/// The largest timestamp that the first core of a test gave; each later core gave one more.
const GIVEN_US: i64 = 1_700_000_000_500_000;

/// A pass without sockets.
async fn pass(opened: Opened<Tally>, results: Rc<RefCell<BTreeMap<u32, Result<()>>>>) {
    let mut poller = Poller::new().unwrap();
    let idle = opened.idle(&poller).unwrap();
    let shard = opened.shard.clone();
    let (mut done, mut stopped) = (Vec::new(), false);
    loop {
        let me = shard.me().index();
        let take = |incoming| match incoming {
            Incoming::Question(asker, ask) => shard.answer(asker, (me, ask + 1)),
            Incoming::Answer(number, _) => panic!("question {number} was asked by a task"),
        };
        let busy = shard.drain_mail(take, || false);
        shard.take_completed(&mut done);
        let busy = busy || !done.is_empty();
        results.borrow_mut().extend(done.drain(..));
        shard.publish();
        if opened.stopping.is_asked() && !stopped {
            stopped = true;
            opened.clock.at_least(GIVEN_US + me as i64);
            opened.stopping.done();
        }
        if busy {
            idle.between_passes(shard.in_flight(), Instant::now()).await;
        } else {
            idle.wait(shard.in_flight(), &mut poller, || shard.has_mail()).await;
            poller.ready().for_each(drop);
        }
    }
}

fn directory(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn config(data_dir: PathBuf, shards: usize) -> NodeConfig {
    let mut log = engine::commitlog::Config::new(0);
    log.segment_bytes = 1 << 20;
    NodeConfig {
        shards,
        cpus: Vec::new(),
        data_dir,
        shard_memory_bytes: 32 << 20,
        log,
        reserve_bytes: 4 << 20,
        compaction_throughput_bytes: 0,
        idle_spin: Duration::from_micros(20),
        base: Arc::new(Schema::empty()),
        sum: |_, _, _| Ok(None),
        wall_us: 1_700_000_000_000_000,
    }
}

/// Runs a node until `test`, on core 0, has ended. Its directory is as after a kill, unless the test
/// stops the node.
fn with_node<F>(config: NodeConfig, test: impl FnOnce(Client) -> F + Clone + Send + 'static) -> Node
where
    F: Future<Output = ()> + 'static,
{
    let (done, finished) = mpsc::channel();
    let node = start(config, move |core: Core<Tally>| {
        let (test, done) = (test.clone(), done.clone());
        async move {
            let Some(opened) = core.open().await else { return };
            opened.tell_ready();
            let results: Rc<RefCell<BTreeMap<_, _>>> = Rc::default();
            let shard = opened.shard.clone();
            if shard.me() == ShardId::new(0) {
                let (results, next) = (results.clone(), Cell::new(1));
                let client = Client { shard: shard.clone(), results, next };
                shard.runtime().spawn(Group::Requests, async move {
                    test(client).await;
                    done.send(()).unwrap();
                });
            }
            pass(opened, results).await;
        }
    })
    .unwrap();
    finished.recv_timeout(Duration::from_secs(60)).expect("the test ends");
    node
}

fn table() -> Table {
    let builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(7)));
    let builder = builder.partition_key("k", CqlType::Blob).unwrap();
    builder.regular("v", CqlType::Blob).unwrap().build().unwrap()
}

async fn make_table(client: &Client) -> Arc<Schema> {
    let name = "ks".to_owned();
    let keyspace = SchemaChange::CreateKeyspace { name, options: KeyspaceOptions::default() };
    let schema = client.shard.alter(keyspace, 0).await.unwrap();
    client.shard.alter(SchemaChange::CreateTable(Box::new(table())), schema.number).await.unwrap()
}

fn put(record: &mut Vec<u8>, key: &[u8]) {
    let mut mutation = MutationBuilder::begin(record, table().id, Token::of_key(key), key);
    mutation.row(&[], |out| {
        let marker = Some(model::cell::Life::Live);
        let head = RowHead { timestamp: 1, marker, deletion: model::Deletion::NONE };
        let _ = RowBuilder::begin(out, &head);
    });
    mutation.finish();
}

fn command(partitions: Partitions, page_rows: u64) -> ReadCommand {
    ReadCommand {
        table: table().id,
        partitions,
        slices: vec![Slice::all()],
        reversed: false,
        static_alone: false,
        distinct: false,
        filters: Vec::new(),
        lookups: Vec::new(),
        nearest: None,
        limits: Limits { page_rows, ..Limits::none(1 << 20) },
        resume: None,
        now_s: 1_700_000_000,
    }
}

fn key(i: u32) -> Vec<u8> {
    i.to_be_bytes().to_vec()
}

/// Rows written through one core are read through it again, wherever they live: alone, in batches
/// over several owners, by keys in the order asked for, by pages over the whole ring.
#[test]
fn one_core_reaches_all_data() {
    with_node(config(directory("reaches"), 3), |client| async move {
        make_table(&client).await;
        for i in 0..60 {
            let mut record = Vec::new();
            put(&mut record, &key(i));
            client.write(&record).await.unwrap();
        }
        let mut record = Vec::new();
        (60..100).for_each(|i| put(&mut record, &key(i)));
        client.write(&record).await.unwrap();

        for i in 0..100 {
            let keys = Partitions::Keys(vec![(Token::of_key(&key(i)), key(i).into())]);
            assert_eq!(client.keys_of(&command(keys, 10)).await, [key(i)]);
        }
        let order: Vec<u32> = (0..100).map(|i| i * 37 % 100).collect();
        let keys = order.iter().map(|&i| (Token::of_key(&key(i)), key(i).into())).collect();
        let got = client.keys_of(&command(Partitions::Keys(keys), 1000)).await;
        assert_eq!(got, order.iter().map(|&i| key(i)).collect::<Vec<_>>());

        let mut by_token: Vec<Vec<u8>> = (0..100).map(key).collect();
        by_token.sort_by_key(|key| Token::of_key(key));
        let mut scan = command(Partitions::Range(TokenRange::ALL), 7);
        let mut got = Keys::default();
        loop {
            let end = client.shard.read(&scan, &mut got, None).await.unwrap();
            let Some(more) = end.more else { break };
            assert_eq!(end.rows, 7);
            scan.resume = Some(more);
        }
        assert_eq!(got.0, by_token);
    });
}

/// Before: each read of a range had up to three pieces of 1 MiB on their way between cores, and each of keys one,
/// however many there were: together more than the memory of a small shard.
#[test]
fn pieces_of_many_reads_take_a_part_of_the_memory_and_all_are_answered() {
    const READS: usize = 600;
    let mut config = config(directory("pieces"), 2);
    config.shard_memory_bytes = 8 << 20;
    let most = 2 * config.shard_memory_bytes as u64 / messina_shard::limits::PIECES_MEMORY_DIVISOR;
    with_node(config, move |client| async move {
        make_table(&client).await;
        let mut record = Vec::new();
        (0..300).for_each(|i| put(&mut record, &key(i)));
        client.write(&record).await.unwrap();
        let all = (0..300).map(|i| (Token::of_key(&key(i)), key(i).into())).collect();
        let commands = [Partitions::Range(TokenRange::ALL), Partitions::Keys(all)];
        let commands = commands.map(|partitions| Rc::new(command(partitions, 1000)));
        let left = Rc::new(Cell::new(READS));
        for command in commands.into_iter().cycle().take(READS) {
            let (shard, left) = (client.shard.clone(), left.clone());
            client.shard.runtime().spawn(Group::Requests, async move {
                let mut got = Keys::default();
                shard.read(&command, &mut got, None).await.unwrap();
                assert_eq!(got.0.len(), 300);
                left.set(left.get() - 1);
            });
        }
        let mut has_waited = false;
        while left.get() > 0 {
            let (held, waiting) = client.shard.pieces();
            assert!(held <= most, "{held} bytes of {most}");
            has_waited |= waiting > 0;
            reap().await;
        }
        assert!(has_waited && client.shard.pieces() == (0, 0));
    });
}

/// With little memory, writes flush by themselves, all of them stay readable, and a truncated table
/// is empty everywhere.
#[test]
fn memory_is_flushed_and_tables_are_truncated() {
    let mut config = config(directory("flush"), 2);
    config.shard_memory_bytes = engine::limits::MEMORY_BYTES_MIN;
    with_node(config, |client| async move {
        make_table(&client).await;
        let mut written = 0;
        while client.shard.engine().stats().flushes < 2 {
            let mut record = Vec::new();
            (0..500).for_each(|i| put(&mut record, &key(written + i)));
            match client.write(&record).await {
                Ok(()) => written += 500,
                Err(engine::Error::Overloaded(_)) => sleep(Duration::from_millis(5)).await,
                Err(error) => panic!("{error}"),
            }
        }
        for i in [0, 1, written / 2, written - 1] {
            let keys = Partitions::Keys(vec![(Token::of_key(&key(i)), key(i).into())]);
            assert_eq!(client.keys_of(&command(keys, 10)).await, [key(i)]);
        }
        let only = Upkeep::Flush([table().id].into());
        let flushed = client.shard.upkeep(&only).await.unwrap();
        // Before: the sizes of all tables were computed, in one step.
        assert!(flushed.iter().all(|status| status.tables.is_empty()), "{flushed:?}");
        let statuses = client.shard.upkeep(&Upkeep::Status).await.unwrap();
        assert_eq!(client.shard.engine().stats().memtable_bytes, 0);
        assert!(statuses.iter().all(|status| status.stats.memtable_bytes == 0));
        assert!(statuses.iter().any(|status| status.tables[0].1.sstables > 1), "{statuses:?}");
        let scan = command(Partitions::Range(TokenRange::ALL), u64::from(written) + 1);
        let scan = ReadCommand { limits: Limits::none(1 << 30), ..scan };
        assert_eq!(client.keys_of(&scan).await.len(), written as usize);
        let merge = Upkeep::Compact([table().id].into());
        client.shard.upkeep(&merge).await.unwrap();
        let statuses = client.shard.upkeep(&Upkeep::Status).await.unwrap();
        let sstables: Vec<u64> = statuses.iter().map(|s| s.tables[0].1.sstables).collect();
        assert_eq!(sstables, [1, 1]);
        assert_eq!(client.keys_of(&scan).await.len(), written as usize);
        let step = RemovalStep::Truncate(table().id);
        client.shard.remove(Removal { step, order: None }).await.unwrap();
        assert_eq!(client.keys_of(&scan).await.len(), 0);
        let statuses = client.shard.upkeep(&Upkeep::Status).await.unwrap();
        assert!(statuses.iter().all(|status| status.tables[0].1.sstables == 0));
    });
}

/// A schema change is seen by every core when it returns, conflicts are told, and it is there after
/// a restart, as is the data.
#[test]
fn schema_and_data_survive_a_restart() {
    let dir = directory("restart");
    let node = with_node(config(dir.clone(), 2), |client| async move {
        let schema = make_table(&client).await;
        assert_eq!(schema.number, 2);
        let change = SchemaChange::DropKeyspace { name: "ks".to_owned() };
        assert_eq!(client.shard.alter(change, 1).await.unwrap_err(), AlterError::Conflict);
        let change = SchemaChange::DropKeyspace { name: "other".to_owned() };
        let refused = client.shard.alter(change, 2).await.unwrap_err();
        assert!(matches!(refused, AlterError::Refused(_)), "{refused}");
        assert_eq!(client.shard.ask_peers(|| 41).await, [(1, 42)]);
        let mut record = Vec::new();
        (0..50).for_each(|i| put(&mut record, &key(i)));
        client.write(&record).await.unwrap();
    });
    let before = node.booted().layout.host_id;
    let check = |client: Client| async move {
        assert_eq!(client.shard.schema().number, 2);
        let scan = command(Partitions::Range(TokenRange::ALL), 1000);
        assert_eq!(client.keys_of(&scan).await.len(), 50);
    };
    // The lock is held by this very process: the next nodes must find it free.
    let killed = directory("restart-killed");
    copy_tree(&dir, &killed);
    let node = with_node(config(killed.clone(), 2), check);
    assert_eq!(node.booted().layout.host_id, before);
    node.stop().unwrap();
    let stopped = directory("restart-stopped");
    copy_tree(&killed, &stopped);
    let node = with_node(config(stopped, 2), move |client: Client| async move {
        assert_eq!(client.shard.engine().stats().records_replayed, 0, "all was flushed");
        check(client).await;
    });
    // A clock that had stepped back was believed: what was written after the start lost to what was there.
    assert_eq!(node.booted().layout.timestamp_high, GIVEN_US + 1, "the last that a core gave");
}

/// The author of a change hears that the schema would take too much, and nothing is changed.
#[test]
fn a_schema_that_takes_half_of_the_memory_takes_no_more() {
    with_node(config(directory("schema-memory"), 2), |client| async move {
        let name = "ks".to_owned();
        let keyspace = SchemaChange::CreateKeyspace { name, options: KeyspaceOptions::default() };
        let mut schema = client.shard.alter(keyspace, 0).await.unwrap();
        let refused = loop {
            let number = u128::from(schema.number);
            let comment = "c".repeat(4 << 20);
            let options = TableOptions { comment, ..TableOptions::default() };
            let id = TableId(uuid::Uuid::from_u128(100 + number));
            let table = TableBuilder::new("ks", &format!("t{number}"), id).options(options);
            let table = table.partition_key("k", CqlType::Blob).unwrap().build().unwrap();
            let change = SchemaChange::CreateTable(Box::new(table));
            match client.shard.alter(change, schema.number).await {
                Ok(next) => schema = next,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, AlterError::Refused(_)), "{refused}");
        assert!(refused.to_string().contains("bytes of a shard's memory"), "{refused}");
        // Of 16 MiB in each of two shards, which share the definitions.
        assert!((6..=9).contains(&schema.number), "{} changes", schema.number);
        assert_eq!(client.shard.schema().number, schema.number);
        let drop = SchemaChange::DropTable { keyspace: "ks".into(), name: "t1".into() };
        client.shard.alter(drop, schema.number).await.unwrap();
    });
}

/// Data written with two shards is complete with one, three and two again, flushed or not.
#[test]
fn another_number_of_shards_keeps_all_data() {
    const ROWS: u32 = 400;
    let mut dir = directory("deal-0");
    with_node(config(dir.clone(), 2), |client| async move {
        make_table(&client).await;
        for half in 0..2 {
            let mut record = Vec::new();
            (0..ROWS / 2).for_each(|i| put(&mut record, &key(half * ROWS / 2 + i)));
            client.write(&record).await.unwrap();
            if half == 0 {
                client.shard.upkeep(&Upkeep::Flush([table().id].into())).await.unwrap();
            }
        }
    });
    for (step, shards) in [1, 3, 2, 2].into_iter().enumerate() {
        let next = directory(&format!("deal-{}", step + 1));
        copy_node(&dir, &next);
        dir = next;
        with_node(config(dir.clone(), shards), |client| async move {
            let scan = command(Partitions::Range(TokenRange::ALL), u64::from(ROWS) * 2);
            assert_eq!(client.keys_of(&scan).await.len(), ROWS as usize);
            for i in 0..ROWS {
                let keys = Partitions::Keys(vec![(Token::of_key(&key(i)), key(i).into())]);
                assert_eq!(client.keys_of(&command(keys, 10)).await, [key(i)]);
            }
        });
    }
}

/// Copies the directory of a node that may be merging: a file that a manifest names is copied before the manifest, or
/// was made meanwhile and is copied after it.
fn copy_node(from: &Path, to: &Path) {
    let tables = [from.join("tables"), to.join("tables")];
    copy_tree(&tables[0], &tables[1]);
    copy_tree(from, to);
    copy_tree(&tables[0], &tables[1]);
}

/// Copies what is not there yet or was being written; what goes meanwhile is left out.
fn copy_tree(from: &Path, to: &Path) {
    let bytes = |path: &Path| path.metadata().ok().map(|file| file.len());
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &to);
        } else if bytes(&to) != bytes(&entry.path())
            && let Err(error) = std::fs::copy(entry.path(), &to)
        {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        }
    }
}

/// What a core makes for itself behind its shard is there when the start returns.
#[test]
fn a_start_waits_until_every_core_is_ready() {
    let made = Arc::new(AtomicUsize::new(0));
    let counted = made.clone();
    let _node = start(config(directory("ready"), 2), move |core: Core<Tally>| {
        let made = counted.clone();
        async move {
            let Some(opened) = core.open().await else { return };
            opened.shard.runtime().sleep(Duration::from_millis(50)).await;
            made.fetch_add(1, Relaxed);
            opened.tell_ready();
            pass(opened, Rc::default()).await;
        }
    })
    .unwrap();
    assert_eq!(made.load(Relaxed), 2);
}

/// The start is told, and does not wait for a core that is gone.
#[test]
fn a_core_that_panics_ends_the_start() {
    let refused = start(config(directory("panics"), 2), |core: Core<Tally>| async move {
        let me = core.me();
        let Some(opened) = core.open().await else { return };
        assert_eq!(me, ShardId::new(0), "a panic on purpose");
        opened.tell_ready();
        pass(opened, Rc::default()).await;
    });
    assert!(refused.err().expect("a core is gone").to_string().contains("a panic"));
}

/// A second node on the same directory is refused, with the reason.
#[test]
fn a_directory_in_use_is_refused() {
    let dir = directory("in-use");
    with_node(config(dir.clone(), 1), |_| async {});
    let refused = start(config(dir, 1), |core: Core<Tally>| async move {
        let _ = core.open().await;
    });
    assert!(refused.err().expect("it is locked").to_string().contains("another process"));
}

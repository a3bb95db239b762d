//! Files of vectors: a search by them finds nearly all of the nearest, reads few rows, and never what is not there.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod shard;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine::io::{Disk, RelPath, Rng, SimDisk, SimExec};
use engine::layout;
#[cfg(feature = "planted")]
use engine::planted::{Bug, plant};
use engine::{Engine, LookupPolicy};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::read::{FilterTarget, Flow, Nearest, PartitionRef, ReadCommand, ReadEnd, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::{Analysis, Index, IndexId, IndexKind, IndexTarget, Table, TableBuilder};
use model::types::Similarity;
use model::{CqlType, Token};
use shard::{LATER_S, TABLE, config, make, on_sim, schema_of, select_all};

const PARTS: usize = 16;

/// The vectors of the keys that have one.
type Vectors = BTreeMap<u32, [f32; PARTS]>;

/// `CREATE TABLE t (k blob PRIMARY KEY, v vector<float, 16>)`, and an index of `v`.
fn table(similarity: Similarity) -> Table {
    let vector = CqlType::Vector { element: CqlType::Float.into(), dimensions: PARTS as u32 };
    let table = TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.regular("v", vector))
        .and_then(TableBuilder::build);
    let mut table = table.unwrap();
    let options = [("similarity_function".to_owned(), similarity.name().to_owned())];
    let index = Index {
        id: IndexId(0),
        name: "t_v".into(),
        column: table.column("v").unwrap().id,
        target: IndexTarget::Value,
        kind: IndexKind::StorageAttached,
        class: Some("sai".into()),
        options: options.into(),
        analysis: Analysis::NONE,
    };
    table.add_index(index).unwrap();
    table
}

/// A part of a vector, which is a mean of random numbers: between -1 and 1.
fn noise(rng: &mut Rng) -> f32 {
    let of_three = (0..3).map(|_| rng.index(1 << 16) as f32 / (1 << 16) as f32).sum::<f32>();
    of_three / 1.5 - 1.0
}

fn anywhere(rng: &mut Rng) -> [f32; PARTS] {
    std::array::from_fn(|_| noise(rng))
}

/// Vectors in clusters of different numbers, with noise around each.
fn in_clusters(rng: &mut Rng, clusters: &[[f32; PARTS]]) -> [f32; PARTS] {
    let cluster = clusters[rng.index(clusters.len()).min(rng.index(clusters.len()))];
    cluster.map(|part| part + noise(rng) * 0.25)
}

fn large(seed: u64) -> engine::Config {
    let mut config = config(seed);
    (config.memory_bytes, config.log.segment_bytes) = (256 << 20, 8 << 20);
    config
}

struct World {
    engine: Rc<Engine>,
    table: Table,
    similarity: Similarity,
    vectors: Vectors,
    rng: Rng,
    clusters: Vec<[f32; PARTS]>,
    written: i64,
}

impl World {
    async fn new(disk: &Disk, exec: &SimExec, similarity: Similarity) -> World {
        let table = table(similarity);
        make(disk, &large(1)).await;
        let engine = shard::open(disk, exec, large(1), &schema_of([table.clone()])).await;
        let mut rng = Rng::new(7);
        let clusters = (0..150).map(|_| anywhere(&mut rng)).collect();
        let vectors = Vectors::new();
        World { engine, table, similarity, vectors, rng, clusters, written: 0 }
    }

    /// The same after another start, before which something happens to the files.
    async fn reopened(
        self,
        disk: &Disk,
        exec: &SimExec,
        seed: u64,
        meanwhile: impl FnOnce(),
    ) -> World {
        let World { engine, table, similarity, vectors, rng, clusters, written } = self;
        drop(engine);
        meanwhile();
        let engine = shard::open(disk, exec, large(seed), &schema_of([table.clone()])).await;
        World { engine, table, similarity, vectors, rng, clusters, written }
    }

    /// Gives each of these keys another vector, or takes it away.
    async fn write(&mut self, keys: impl Iterator<Item = u32>, is_gone: impl Fn(u32) -> bool) {
        self.written += 1;
        let (timestamp, column) = (self.written, self.table.column("v").unwrap().id);
        let keys: Vec<u32> = keys.collect();
        for some in keys.chunks(500) {
            let mut record = Vec::new();
            for key in some {
                let vector = in_clusters(&mut self.rng, &self.clusters);
                let bytes: Vec<u8> = vector.iter().flat_map(|part| part.to_be_bytes()).collect();
                let name = key.to_be_bytes();
                let token = Token::of_key(&name);
                let mut mutation = MutationBuilder::begin(&mut record, TABLE, token, &name);
                mutation.row(&[], |out| {
                    let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
                    match is_gone(*key) {
                        true => row.cell(&Cell::dead(column, timestamp, 1)),
                        false => row.cell(&Cell::live(column, timestamp, &bytes)),
                    };
                });
                mutation.finish();
                match is_gone(*key) {
                    true => self.vectors.remove(key),
                    false => self.vectors.insert(*key, vector),
                };
            }
            shard::write(&self.engine, &record).await.unwrap();
        }
    }

    async fn settle(&self) {
        shard::flush(&self.engine).await;
        shard::run_jobs(&self.engine, LATER_S).await;
    }

    async fn search(&self, vector: &[f32; PARTS], rows: usize) -> (Vec<u32>, ReadEnd) {
        let nearest = Nearest {
            index: IndexId(0),
            target: FilterTarget::Value(self.table.column("v").unwrap().id),
            similarity: self.similarity,
            vector: vector.iter().flat_map(|part| part.to_be_bytes()).collect(),
            rows,
        };
        let command = ReadCommand { nearest: Some(nearest), ..select_all(LATER_S) };
        let mut found = Keys::default();
        let end = self.engine.read(&command, &mut found, yield_now).await.unwrap();
        (found.0, end)
    }

    /// What a search has to find.
    fn nearest(&self, vector: &[f32; PARTS], rows: usize) -> Vec<u32> {
        let near = |(key, other): (&u32, &[f32; PARTS])| {
            (self.similarity.nearness(vector, other).unwrap(), *key)
        };
        let mut all: Vec<(f32, u32)> = self.vectors.iter().map(near).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.iter().take(rows).map(|(_, key)| *key).collect()
    }

    /// Which part of the nearest `rows` some searches find. What they find has a vector, and each row is once there.
    async fn recall(&mut self, searches: usize, rows: usize) -> f64 {
        let mut found = 0;
        for _ in 0..searches {
            let vector = in_clusters(&mut self.rng, &self.clusters);
            let (given, _) = self.search(&vector, rows).await;
            let given: BTreeSet<u32> = given.into_iter().collect();
            assert_eq!(given.len(), rows.min(self.vectors.len()), "as many as are asked for");
            assert!(given.iter().all(|key| self.vectors.contains_key(key)), "none that is gone");
            found += self.nearest(&vector, rows).iter().filter(|key| given.contains(key)).count();
        }
        found as f64 / (searches * rows) as f64
    }
}

#[derive(Default)]
struct Keys(Vec<u32>);

impl RowSink for Keys {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        self.0.push(u32::from_be_bytes(p.key.try_into().unwrap()));
        Flow::More
    }
}

/// How many vectors there are, and which part of the blocks a search reads at most: a hundred thousand take more than a
/// minute without optimization.
const MANY: (u32, u64) = if cfg!(debug_assertions) { (20_000, 1) } else { (100_000, 3) };

#[test]
fn of_many_vectors_nineteen_of_twenty_of_the_nearest_are_found() {
    let (many, part) = MANY;
    on_sim(5, async move |_, disk: Disk, exec: SimExec| {
        let mut world = World::new(&disk, &exec, Similarity::Cosine).await;
        world.write(0..many, |_| false).await;
        world.settle().await;
        let recall = world.recall(30, 10).await;
        println!("recall@10 {recall}");
        assert!(recall >= 0.95, "{recall}");
        let vector = anywhere(&mut world.rng);
        let (_, end) = world.search(&vector, 10).await;
        world.engine.set_lookup_policy(LookupPolicy::Never);
        let (exact, all) = world.search(&vector, 10).await;
        world.engine.set_lookup_policy(LookupPolicy::WhereWorth);
        assert_eq!(exact, world.nearest(&vector, 10));
        let blocks = |end: &ReadEnd| end.blocks + end.cached_blocks;
        println!("blocks {} of {}", blocks(&end), blocks(&all));
        assert!(blocks(&end) * part < blocks(&all), "{end:?} {all:?}");
        // Overwritten and deleted, in memory, then in files of their own, then merged.
        world.write((0..many).filter(|key| key % 10 == 3), |key| key % 3 == 0).await;
        let recall = world.recall(10, 10).await;
        assert!(recall >= 0.95, "overwritten in memory: {recall}");
        world.settle().await;
        let recall = world.recall(10, 10).await;
        assert!(recall >= 0.95, "overwritten in files: {recall}");
        shard::merge_whole(&world.engine, LATER_S).await;
        world.settle().await;
        let recall = world.recall(10, 10).await;
        assert!(recall >= 0.95, "merged: {recall}");
    });
}

#[test]
fn each_similarity_finds_the_nearest_and_as_many_as_there_are() {
    for similarity in Similarity::ALL {
        on_sim(6, async move |_, disk: Disk, exec: SimExec| {
            let mut world = World::new(&disk, &exec, similarity).await;
            world.write(0..4500, |_| false).await;
            world.settle().await;
            let recall = world.recall(20, 10).await;
            assert!(recall >= 0.95, "{similarity:?}: {recall}");
            // Nearly all are gone: what is left is found, however far it is, and exactly.
            world.write(0..4500, |key| key % 400 != 0).await;
            for _ in 0..2 {
                assert_eq!(world.recall(5, 10).await, 1.0, "{similarity:?}");
                let (all, _) = world.search(&[0.5; PARTS], 100).await;
                assert_eq!(all, world.nearest(&[0.5; PARTS], 100), "{similarity:?}");
                world.settle().await;
            }
        });
    }
}

#[cfg(feature = "planted")]
/// Whether a search goes wrong with this bug, or with none, where so many rows were overwritten and others are new.
fn goes_wrong(bug: Option<Bug>, (overwritten, new_rows): (u32, u32)) -> bool {
    std::panic::catch_unwind(|| {
        on_sim(6, async move |_, disk: Disk, exec: SimExec| {
            let mut world = World::new(&disk, &exec, Similarity::Euclidean).await;
            world.write(0..6000, |_| false).await;
            world.settle().await;
            world.write(0..overwritten, |key| key % 500 != 0).await;
            world.write(6000..6000 + new_rows, |_| false).await;
            plant(bug);
            let recall = world.recall(5, 10).await;
            plant(None);
            assert!(recall >= 0.95, "{recall}");
        });
    })
    .is_err()
}

#[cfg(feature = "planted")]
#[test]
fn planted_bugs_of_searches_are_caught() {
    for (bug, rows) in Bug::OF_VECTORS.into_iter().zip([(5990, 0), (0, 3000)]) {
        assert!(!goes_wrong(None, rows), "without a bug nothing goes wrong");
        assert!(goes_wrong(Some(bug), rows), "{bug:?}");
        plant(None);
    }
}

/// Files of vectors beside the sstables.
fn vector_files(sim: &SimDisk) -> Vec<RelPath> {
    let files = sim.files_of(&layout::table_dir(TABLE.0)).into_iter();
    files.filter(|file| file.name().ends_with(".idx")).collect()
}

#[test]
fn a_damaged_file_is_not_believed_and_made_anew() {
    on_sim(8, async |sim: SimDisk, disk: Disk, exec: SimExec| {
        let mut world = World::new(&disk, &exec, Similarity::Euclidean).await;
        world.write(0..5000, |_| false).await;
        world.settle().await;
        let files = vector_files(&sim);
        assert_eq!(files.len(), 1, "one sstable has one file");
        let whole = sim.bytes(&files[0]).unwrap();
        for step in [1usize, 3, 7] {
            // Bits of some frames of terms; the directory and the footer stay as they are.
            let mut bytes = whole.clone();
            let end = bytes.len() - 40_000;
            (0..end).step_by(1000 * step).for_each(|at| bytes[at] ^= 1 << (at % 8));
            world =
                world.reopened(&disk, &exec, 2 + step as u64, || sim.plant(&files[0], bytes)).await;
            assert_eq!(world.recall(3, 10).await, 1.0, "all rows are read");
            shard::run_jobs(&world.engine, LATER_S).await;
            assert_eq!(sim.bytes(&files[0]).unwrap(), whole, "the same rows give the same file");
            assert!(world.recall(3, 10).await >= 0.95);
        }
    });
}

/// Before: only indexes of terms were made anew when it was told, and how far those of vectors are was not shown.
#[test]
fn a_file_of_vectors_is_made_anew_when_told_and_shows_how_far_it_is() {
    on_sim(9, async |sim: SimDisk, disk: Disk, exec: SimExec| {
        let mut world = World::new(&disk, &exec, Similarity::Euclidean).await;
        world.write(0..5000, |_| false).await;
        world.settle().await;
        let (files, built) = (vector_files(&sim), world.engine.stats().indexes_built);
        let progress = |engine: &Engine| engine.index_progress().remove(0);
        assert!(progress(&world.engine).is_built());
        assert_eq!(progress(&world.engine).files, 1);
        // One of few rows gets none, and is not waited for.
        world.write(5000..5100, |_| false).await;
        world.settle().await;
        assert!(progress(&world.engine).is_built());
        // It is wrong, and every checksum is right.
        assert_eq!(world.engine.rebuild_indexes(TABLE, Some(IndexId(0))).await, Ok(1));
        assert!(!progress(&world.engine).is_built());
        assert_eq!(world.engine.take_lost_indexes().len(), 1);
        assert_eq!(world.engine.take_lost_indexes().len(), 0, "it was told");
        assert_eq!(world.recall(3, 10).await, 1.0, "all rows are read");
        shard::run_jobs(&world.engine, LATER_S).await;
        assert!(progress(&world.engine).is_built());
        assert_eq!(world.engine.stats().indexes_built, built + 1, "by a file of its own");
        assert_eq!(vector_files(&sim), files);
        assert!(world.recall(3, 10).await >= 0.95);
    });
}

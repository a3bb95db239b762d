//! An index file against a map, in the sizes that make it of one block, of many, and of runs.
//!
//! 1. Postings are drawn (few terms with many places, many terms with few, long terms that begin alike), shuffled,
//!    sorted with little memory so that runs are written, and written as a file, which is verified and opened.
//! 2. Any range of terms, from any place on, must give the places of the map, in order; and no run may be left on the
//!    disk.
//! 3. A term that is there is never denied by a filter, and few absent ones are let through. A count may be wrong by a
//!    quarter and 200.
//!
//! Not here: terms of rows and files beside sstables (`engine/tests/indexes.rs`), vectors
//! (`engine/tests/vector_files.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use model::read::Slice;
use model::schema::{Analysis, IndexKind, IndexTarget, Table, TableBuilder};
use model::{CqlType, TableId};
use uuid::Uuid;

use super::footer::{Footer, fingerprint, seed_of};
use super::sort::TermSort;
use super::writer::IndexWriter;
use super::*;
use crate::cache::BlockCache;
use crate::io::{Disk, Faults, IoClass, RelPath, Rng, SimDisk, SimExec};
use crate::sstable::output::Output;
use crate::sstable::{FileDigest, Reading, SstableId};

const SSTABLE: SstableId = SstableId(Uuid::from_u128(0xab));
const PROOF: FileDigest = FileDigest { file_bytes: 4096, footer_checksum: 77 };

fn table() -> Table {
    let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(0xcd)))
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.regular("v", CqlType::Blob))
        .and_then(TableBuilder::build);
    let mut table = table.expect("a sound table");
    let index = model::schema::Index {
        id: model::schema::IndexId(0),
        name: "i".into(),
        column: table.column("v").expect("it is there").id,
        target: IndexTarget::Value,
        kind: IndexKind::Plain,
        class: None,
        options: BTreeMap::new(),
        analysis: Analysis::NONE,
    };
    table.add_index(index).expect("a free name");
    table
}

type Postings = BTreeMap<Vec<u8>, BTreeSet<Place>>;

/// Sorts and writes these postings, and opens the file.
async fn write(
    disk: &Disk,
    postings: &Postings,
    sort_bytes: usize,
    rng: &mut Rng,
) -> Rc<IndexFile> {
    let (table, dir) = (table(), RelPath::root());
    let index = &table.indexes()[0];
    let path = dir.join("runs");
    let mut sort = TermSort::new(disk, path, IoClass::Flush, 5).with_bytes_max(sort_bytes);
    let mut all: Vec<(&[u8], Place)> = postings
        .iter()
        .flat_map(|(term, places)| places.iter().map(|place| (term.as_slice(), *place)))
        .collect();
    for last in (1..all.len()).rev() {
        all.swap(last, rng.index(last + 1));
    }
    for (term, place) in all {
        sort.put(0, term, place);
        if sort.is_full() {
            sort.spill(&async || ()).await.expect("it spills");
        }
    }
    let path = dir.join(&file::file_name(SSTABLE, index.id));
    let mut writer =
        IndexWriter::new(Output::new(disk.clone(), path.clone()), seed_of(SSTABLE, index.id));
    let mut merged = sort.merged().await.expect("it opens");
    while let Some(found) = merged.next(&async || ()).await.expect("it reads") {
        writer.add(&found.term, found.place);
        if writer.is_full() {
            writer.drain().await.expect("it writes");
        }
    }
    merged.close().await.expect("it closes");
    sort.remove_runs().await.expect("they go");
    let footer = Footer {
        sstable: SSTABLE,
        table: table.id.0,
        index: index.id,
        of: fingerprint(&table, index),
        sstable_checksum: PROOF.footer_checksum,
        terms: 0,
        postings: 0,
        directory_offset: 0,
        directory_bytes: 0,
        blocks: 0,
        has_nodes: false,
        digest: 0,
    };
    writer.finish(footer).await.expect("it ends");
    let of = (&table, index);
    IndexFile::verify((disk, &path), (SSTABLE, PROOF), of, IoClass::Check, &async || ())
        .await
        .expect("it verifies");
    let cache = BlockCache::new(1 << 20);
    let other = FileDigest { footer_checksum: 78, ..PROOF };
    let refused = IndexFile::open((disk, &dir), (SSTABLE, other), of, &cache).await;
    assert!(refused.is_err(), "the sstable of another time");
    IndexFile::open((disk, &dir), (SSTABLE, PROOF), of, &cache).await.expect("it opens")
}

/// Whether the file may have a term, as its filter says.
async fn may_have(file: &Rc<IndexFile>, term: &[u8]) -> bool {
    let range = Slice { start: term.to_vec(), end: [term, &[0]].concat() };
    TermWalk::new(file, Reading::Point).may_have(&range).await.expect("it reads")
}

/// What a range of terms leads to from a place on.
async fn read(file: &Rc<IndexFile>, range: &Slice, from: Place) -> BTreeSet<Place> {
    let mut walk = TermWalk::new(file, Reading::Point);
    let mut found = BTreeSet::new();
    let mut is_there = walk.seek(&range.start).await.expect("it reads");
    while is_there && walk.is_below(&range.end).expect("it reads") {
        let mut list = walk.postings().await.expect("it reads");
        list.seek(from).expect("it reads");
        let mut last = None;
        while let Some(place) = list.next().await.expect("it reads") {
            assert!(last.replace(place).is_none_or(|last| last < place), "places ascend");
            found.insert(place);
        }
        is_there = walk.next().await.expect("it reads");
    }
    found
}

/// What all terms begin with; and few terms with many places, or many with few. Long ones that begin alike have a
/// directory in nodes.
fn draw(rng: &mut Rng) -> (Vec<u8>, Postings) {
    let (prefix_bytes, terms, places) = match rng.below(6) {
        0 => (0, 0, 0),
        1 => (0, 3, 9000),
        2 => (0, 3000, 3),
        3 => (900, 600, 2),
        4 => (20, 20_000, 2),
        _ => (0, 100, 100),
    };
    let mut postings = Postings::new();
    let prefix = vec![7; prefix_bytes];
    for _ in 0..terms {
        let number = rng.below(1 << 20).to_be_bytes();
        let mut term = [&prefix, &number[4..]].concat();
        term.truncate(prefix_bytes + 2 + rng.index(4));
        let place =
            |rng: &mut Rng| Place { block: rng.below(900) as u32, entry: rng.below(200) as u32 };
        let places = (0..1 + rng.index(places)).map(|_| place(rng)).collect();
        postings.insert(term, places);
    }
    (prefix, postings)
}

/// Before: the directory was one frame in memory, and terms that are long and begin alike made it too long for one.
#[test]
fn a_file_gives_what_was_put_in() {
    for seed in 0..24 {
        let exec = SimExec::new(seed);
        exec.run(async move {
            let mut rng = Rng::new(seed);
            let disk = Disk::Sim(SimDisk::new(seed, Faults::default()));
            let (prefix, postings) = draw(&mut rng);
            let sort_bytes = [20_000, 200_000, 1 << 20][rng.index(3)];
            let file = write(&disk, &postings, sort_bytes, &mut rng).await;
            let count: usize = postings.values().map(BTreeSet::len).sum();
            assert_eq!(file.postings(), count as u64);
            assert_eq!(file.has_nodes(), !prefix.is_empty());
            let mut walk_to_absent = 0;
            for number in (0..1u64 << 20).step_by(997) {
                let term = [&prefix, &number.to_be_bytes()[4..], b"absent"].concat();
                walk_to_absent += usize::from(may_have(&file, &term).await);
            }
            for term in postings.keys() {
                assert!(may_have(&file, term).await, "a term that is there is never denied");
            }
            // Few places for many terms: cases 2 and 4 of `draw`.
            let is_filtered = postings.len() > 1000 && count < 8 * postings.len();
            assert!(!is_filtered || walk_to_absent < 40, "{walk_to_absent} of 1,052 absent terms");
            let left = disk.list(&RelPath::root()).await.expect("it lists");
            assert_eq!(left.len(), 1, "no run is left: {left:?}");
            for _ in 0..20 {
                let mut ends = [rng.below(1 << 20), rng.below(1 << 20)]
                    .map(|n| [&prefix, &n.to_be_bytes()[4..]].concat());
                ends.sort();
                let [start, end] = ends;
                let range = Slice { start, end };
                let from = Place { block: rng.below(1000) as u32, entry: 0 };
                let of_range = postings.range(range.start.clone()..range.end.clone());
                let all: Vec<Place> =
                    of_range.flat_map(|(_, places)| places.iter().copied()).collect();
                let wanted: BTreeSet<Place> =
                    all.iter().copied().filter(|place| *place >= from).collect();
                assert_eq!(read(&file, &range, from).await, wanted);
                let counted =
                    TermWalk::new(&file, Reading::Point).count(&range).await.expect("it reads");
                // Of a block with many terms a part is taken to be like the rest.
                let count = all.len() as u64;
                assert!(counted.abs_diff(count) <= count / 4 + 200, "{counted} of {count}");
            }
        })
        .done();
    }
}

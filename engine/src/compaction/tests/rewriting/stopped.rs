//! Merges that are stopped inside partitions, and merged again in that state, never change what a reader sees, however
//! far it goes into each partition.
//!
//! 1. Views are drawn with long partitions, two keys to a token. One view more has newer range deletions, and goes into
//!    no merge: lanes are sought over what it covers.
//! 2. Several merges follow one another. Each takes some of the runs, writes short fragments and ends after a few of
//!    them; what it leaves is the input of the next.
//! 3. The inputs are cut by the product's own `cut` (`compaction/adoption.rs`) after each fragment. Then reads of drawn
//!    slices, in both directions, each of which leaves a partition after some rows, must give what they gave before the
//!    first merge.
//!
//! Not here: merges that come to their end (`rewriting.rs`), the cut of a view by itself (`cuts.rs`).

use super::*;
use crate::compaction::adoption::cut;
use crate::manifest::ViewEntry;
use crate::table::View;

/// What a reader asks for.
#[derive(Clone, Debug)]
struct Wanted {
    slices: Vec<Slice>,
    reversed: bool,
    /// It leaves each partition after so many rows.
    rows_max: usize,
}

/// Partitions by token and key: their static rows, and their rows in the order of the read.
type Seen = Vec<((i64, u8), Option<String>, Vec<(Vec<u8>, String)>)>;

/// The token and the key of a partition: two keys share a token.
fn place_of(number: i64) -> (Token, [u8; 1]) {
    (Token(number.div_euclid(2)), [number.rem_euclid(2) as u8])
}

async fn seen(views: &[View], wanted: &Wanted) -> Seen {
    let Wanted { slices, reversed, rows_max } = wanted;
    let span = Span { scope: Scope::Range(TokenRange::ALL), slices, reversed: *reversed };
    let lanes = lanes_of(views.iter().filter_map(View::part)).into_iter();
    let lanes: Vec<Rc<[FilePart]>> = lanes.map(Rc::from).collect();
    let cursors = lanes.iter().flat_map(|lane| RunCursor::of_lane(lane, span, Reading::Scan));
    let mut merged = Merge::new(cursors.collect::<Vec<_>>(), *reversed);
    let mut all = Vec::new();
    while merged.next_partition().await.unwrap() {
        let head = merged.head();
        let (place, partition) = ((head.token.0, head.key[0]), head.deletion);
        let stat = head.static_row.and_then(|row| says(row, partition, NOW_S));
        let (mut rows, mut in_force) = (Vec::new(), Deletion::NONE);
        while rows.len() < *rows_max && merged.next().await.unwrap() {
            match merged.fragment() {
                Fragment::Change { deletion, .. } => in_force = deletion,
                Fragment::Row { clustering, row } => {
                    let seen = says(row, partition.max(in_force), NOW_S);
                    rows.extend(seen.map(|seen| (clustering.to_vec(), seen)));
                }
            }
        }
        if stat.is_some() || !rows.is_empty() {
            all.push((place, stat, rows));
        }
    }
    all
}

/// What is wanted of all there is.
fn expected(all: &Seen, wanted: &Wanted) -> Seen {
    let mut all = all.clone();
    for (_, _, rows) in &mut all {
        rows.retain(|(at, _)| wanted.slices.iter().any(|slice| slice.contains(at)));
        if wanted.reversed {
            rows.reverse();
        }
        rows.truncate(wanted.rows_max);
    }
    all.retain(|(_, stat, rows)| stat.is_some() || !rows.is_empty());
    all
}

/// A merge whose inputs are cut as those of a shard are.
struct Stopped<'t> {
    disk: &'t Disk,
    inputs: RefCell<Vec<View>>,
    others: Vec<View>,
    adopted: RefCell<Vec<View>>,
    names: &'t Names,
    fragments_max: usize,
    all: &'t Seen,
    wanted: &'t [Wanted],
}

impl Stopped<'_> {
    fn there(&self) -> Vec<View> {
        let (inputs, adopted) = (self.inputs.borrow(), self.adopted.borrow());
        inputs.iter().chain(&*adopted).chain(&self.others).cloned().collect()
    }
}

impl MergeOwner for Stopped<'_> {
    fn oldest_elsewhere(&self, token: Token, _: &[u8]) -> i64 {
        oldest_of(self.others.iter().map(|view| (&*view.sstable, view.entry.tokens)), token)
    }

    fn name(&self) -> SstableId {
        self.names.next()
    }

    async fn pause(&self) {}

    async fn adopt(
        &self,
        fragment: Option<WrittenSstable>,
        rest: Option<Rest>,
    ) -> Result<ControlFlow<()>> {
        if let Some(fragment) = fragment {
            let run = self.adopted.borrow().first().map_or(fragment.id.0, |view| view.entry.run);
            let view = opened(self.disk, &fragment, run).await;
            self.adopted.borrow_mut().push(view);
        }
        let left = cut(&self.inputs.borrow(), rest.as_ref()).inputs;
        self.inputs.replace(left);
        let there = self.there();
        for wanted in self.wanted {
            let expected = expected(self.all, wanted);
            assert_eq!(seen(&there, wanted).await, expected, "{wanted:?}, the rest from {rest:?}");
        }
        Ok(match self.adopted.borrow().len() < self.fragments_max {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    }
}

async fn opened(disk: &Disk, written: &WrittenSstable, run: Uuid) -> View {
    let known = SstableIdentity { id: written.id, table: TABLE, proof: written.proof };
    View { entry: ViewEntry::of_written(written, TABLE, run, 0), sstable: open(disk, known).await }
}

async fn view_of(disk: &Disk, number: u128, source: &Source) -> Option<View> {
    let mut writer = Writer::new(disk, &RelPath::root(), id(number), config());
    for (number, part) in source {
        let (token, key) = place_of(*number);
        put_part(&mut writer, (token, &key), part);
    }
    let written = writer.finish(&async || {}).await.unwrap()?;
    Some(opened(disk, &written, written.id.0).await)
}

fn long_part() -> impl Strategy<Value = Part> {
    let borders = prop::collection::btree_set(64..128u8, 0..5);
    let ranges = (borders, prop::collection::vec(prop::option::of(deletion()), 6));
    let ranges = ranges.prop_map(|(borders, of)| {
        let borders: Vec<u8> = borders.into_iter().collect();
        let pairs = borders.windows(2).zip(of);
        pairs.filter_map(|(w, d)| d.map(|d| (w[0], w[1], d))).collect()
    });
    let rows = prop::collection::btree_map(64..128u8, row(), 0..60);
    let stat = prop::option::weighted(0.2, row());
    (prop::option::weighted(0.05, deletion()), stat, rows, ranges)
        .prop_map(|(deletion, stat, rows, ranges)| Part { deletion, stat, rows, ranges })
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let borders = prop::collection::btree_set(63..130u8, 2..5);
    let slices = borders.prop_map(|borders| {
        let borders: Vec<u8> = borders.into_iter().collect();
        let pairs = borders.chunks_exact(2);
        pairs.map(|pair| Slice { start: vec![pair[0]], end: vec![pair[1]] }).collect()
    });
    let slices = prop_oneof![Just(vec![Slice::all()]), slices];
    let rows_max = prop_oneof![Just(usize::MAX), 0..6usize];
    (slices, any::<bool>(), rows_max).prop_map(|(slices, reversed, rows_max)| Wanted {
        slices,
        reversed,
        rows_max,
    })
}

/// A merge: which runs go in, how long its fragments are, how many are adopted, when tombstones may go.
fn merge_of() -> impl Strategy<Value = (Vec<bool>, u64, usize, u32)> {
    let bytes = prop_oneof![Just(1u64), 1..600u64];
    let count = prop_oneof![1..6usize, Just(usize::MAX)];
    (prop::collection::vec(prop::bool::weighted(0.7), 8), bytes, count, 0..60u32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn merges_that_are_stopped_inside_partitions_change_nothing(
        mut sources in prop::collection::vec(
            prop::collection::btree_map(-2..3i64, long_part(), 1..5), 1..4),
        merges in prop::collection::vec(merge_of(), 1..5),
        wanted in prop::collection::vec(wanted(), 1..5),
        newer in prop::collection::btree_map(-2..3i64, (63..90u8, 80..129u8), 0..4),
    ) {
        sources.iter_mut().zip(0..).for_each(|(source, index)| set_apart(source, index));
        on_sim(async move |_, disk: Disk| {
            let mut views = Vec::new();
            for (number, source) in sources.iter().enumerate() {
                views.extend(view_of(&disk, number as u128, source).await);
            }
            // What it covers is sought over in the others; it is not merged with them.
            let deletion = Deletion { timestamp: 1000, local_s: 40 };
            let deleted = |(first, last): (u8, u8)| Part {
                ranges: vec![(first, last.max(first + 1), deletion)],
                ..Part::default()
            };
            let newer = newer.into_iter().map(|(number, range)| (number, deleted(range)));
            let newer = view_of(&disk, 100, &newer.collect()).await;
            views.extend(newer.clone());
            let newer = newer.map(|view| view.entry.sstable);
            let everything =
                Wanted { slices: vec![Slice::all()], reversed: false, rows_max: usize::MAX };
            let all = &seen(&views, &everything).await;
            let names = &Names::behind(1000);
            for (picks, fragment_bytes, fragments_max, gc_before_s) in merges {
                let mut runs: Vec<Uuid> = views.iter().map(|view| view.entry.run).collect();
                runs.sort_unstable();
                runs.dedup();
                let goes_in = |view: &View| {
                    if Some(view.entry.sstable) == newer {
                        return false;
                    }
                    let run = runs.binary_search(&view.entry.run).unwrap_or_default();
                    picks[run % picks.len()]
                };
                let (inputs, others): (Vec<View>, Vec<View>) =
                    views.iter().cloned().partition(goes_in);
                let parts = inputs.iter().filter_map(View::part).collect();
                let merge = Stopped {
                    disk: &disk,
                    inputs: RefCell::new(inputs),
                    others,
                    adopted: RefCell::default(),
                    names,
                    fragments_max,
                    all,
                    wanted: &wanted,
                };
                let output = output(fragment_bytes, gc_before_s);
                rewrite(&disk, parts, &output, &merge).await.unwrap();
                views = merge.there();
            }
        });
    }
}

/// The file of the deletion is used up at the first cut, and the deletion is purged: what it hides in the file that is
/// merged on is before that view's begin.
#[test]
fn what_a_purged_deletion_hid_stays_hidden_while_the_merge_goes_on() {
    on_sim(async |_, disk: Disk| {
        let deletion = Deletion { timestamp: 100, local_s: 1 };
        let dead = Part { ranges: vec![(64, 80, deletion)], ..Part::default() };
        let rows = (64..128).map(|at| (at, live(i64::from(at) - 60))).collect();
        let old = Part { rows, ..Part::default() };
        let mut inputs = Vec::new();
        for (number, part) in [(1, dead), (2, old)] {
            inputs.extend(view_of(&disk, number, &[(0, part)].into()).await);
        }
        let wanted = [false, true].map(|reversed| {
            let slices = vec![Slice::all()];
            Wanted { slices, reversed, rows_max: usize::MAX }
        });
        let all = seen(&inputs, &wanted[0]).await;
        assert_eq!(all[0].2.len(), 48);
        let parts = inputs.iter().filter_map(View::part).collect();
        let merge = Stopped {
            disk: &disk,
            inputs: RefCell::new(inputs),
            others: Vec::new(),
            adopted: RefCell::default(),
            names: &Names::behind(1000),
            fragments_max: usize::MAX,
            all: &all,
            wanted: &wanted,
        };
        rewrite(&disk, parts, &output(1, 60), &merge).await.unwrap();
        let adopted = merge.adopted.borrow();
        let tombstones = adopted.iter().map(|view| view.sstable.statistics().tombstones);
        assert!(adopted.len() > 5 && tombstones.sum::<u64>() == 0, "{} files", adopted.len());
    });
}

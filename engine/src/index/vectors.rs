//! Vectors as terms of an index file: in lists by the nearest of some centroids, each in a byte for each part.
//!
//! ```text
//! rows ─► Sample (bounded) ─► k-means ─► reach (`vectors/reach.rs`) ─► Codebook ─► a term for each vector
//! term   := 0 list:u16 vector            a centroid; its place says nothing
//!         | 0 65535:u16 lists:u16 lists:u16      the reach of a search: nearly all, all of the nearest are in so many
//!         | 1 list:u16 [vector]          a vector; of the list 65535 without parts: it is near everything
//! vector := least:f32 step:f32 byte*     a part is least + step * byte; numbers are big-endian
//! ```
//!
//! An inverted file as of SPANN (Chen et al., NeurIPS 2021), k-means as of Lloyd.
//!
//! 1. Every vector that can be measured has a term. One whose square is no ordinary number is in the list 65535.
//! 2. For the angle, vectors are of length one. For the product, k-means sees a part more, which makes all vectors of
//!    the lists as long as the longest of them (Bachrach et al., RecSys 2014): the largest product is the nearest.
//! 3. For the product, the longest vectors are in the list 65534, at which every search looks: they are near to most,
//!    and lists of the others are by directions then (ranges of lengths: Yan et al., NeurIPS 2018).
//! 4. The same rows give the same lists: nothing is random.

use model::ColumnId;
use model::bytes::Cursor;
use model::cell::Life;
use model::row::RowRef;
use model::schema::{IndexId, Table};
use model::types::{CqlType, Similarity, dot_product, floats, square_distance};

use crate::limits::{VECTOR_CENTROID_BYTES_MAX, VECTOR_LISTS_MAX, VECTOR_SAMPLE_BYTES_MAX};
use crate::pause::Pause;

mod reach;

/// Rounds of k-means: later ones hardly move the centroids.
const ROUNDS: usize = 6;
/// Vectors of the sample for each list that suffice.
const SAMPLED_OF_LIST: usize = 32;
/// The list of what is near everything; among the centroids, the term of the reach.
const EVERYWHERE: u16 = u16::MAX;
/// The list of the longest vectors.
const LONG: u16 = u16::MAX - 1;
/// It has 1/8 of the vectors of an index of products, if lengths differ.
const LONG_DIVISOR: usize = 8;
/// A square that is more than so many times another is of a longer vector: parts in bytes are not exact.
const LONGER: f32 = 1.05;
/// Squares above this and, unless they are zero, below its inverse are no ordinary numbers.
const SQUARE_MAX: f32 = 1e30;
/// Parts that are multiplied between two pauses: about 0.1 ms.
const STEP_PARTS: usize = 256 << 10;
/// Parts that are multiplied in the time in which a job goes over a byte of rows.
const PARTS_OF_BYTE: usize = 8;
/// Kinds of terms.
const CENTROID: u8 = 0;
const VECTOR: u8 = 1;
/// Bytes of a vector in a term before its parts.
const SCALE_BYTES: usize = 8;

const _: () = assert!(VECTOR_LISTS_MAX < LONG as u64);

/// What is known of the vectors of an index.
#[derive(Clone, Copy, Debug)]
struct Space {
    column: ColumnId,
    dimensions: usize,
    similarity: Similarity,
}

impl Space {
    fn of(table: &Table, index: IndexId) -> Option<Space> {
        let index = table.index_by_id(index)?;
        let similarity = index.similarity(table)?;
        let CqlType::Vector { dimensions, .. } = index.column(table).ty else { return None };
        Some(Space { column: index.column, dimensions: dimensions as usize, similarity })
    }

    /// Parts of a centroid while lists are made.
    fn parts(&self) -> usize {
        self.dimensions + usize::from(self.similarity == Similarity::DotProduct)
    }

    /// Puts the vector of a row into `vector`: false if there is none that can be measured.
    fn read(&self, row: RowRef<'_>, vector: &mut Vec<f32>) -> bool {
        vector.clear();
        let cell = row.cells().find(|cell| cell.column == self.column);
        let live = cell.filter(|cell| !matches!(cell.life, Life::Dead { .. }));
        vector.extend(live.iter().flat_map(|cell| floats(cell.value)));
        vector.len() == self.dimensions && self.similarity.nearness(vector, vector).is_some()
    }
}

/// The square of an ordinary vector's length.
fn ordinary_square(vector: &[f32]) -> Option<f32> {
    let square = dot_product(vector, vector);
    (square == 0.0 || (1.0 / SQUARE_MAX..=SQUARE_MAX).contains(&square)).then_some(square)
}

/// Appends a vector in a byte for each part.
fn put_vector(vector: &[f32], out: &mut Vec<u8>) {
    let least = vector.iter().copied().fold(f32::INFINITY, f32::min);
    let most = vector.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let step = (most - least) / 255.0;
    out.extend_from_slice(&least.to_be_bytes());
    out.extend_from_slice(&step.to_be_bytes());
    let byte = |part: &f32| if step > 0.0 { ((part - least) / step).round() as u8 } else { 0 };
    out.extend(vector.iter().map(byte));
}

/// Reads what [`put_vector`] wrote; false if these are other bytes.
fn get_vector(bytes: &[u8], parts: usize, vector: &mut Vec<f32>) -> bool {
    vector.clear();
    let Some((scale, codes)) = bytes.split_at_checked(SCALE_BYTES) else { return false };
    let [least, step] = [&scale[..4], &scale[4..]]
        .map(|part| part.try_into().map(f32::from_be_bytes).unwrap_or(f32::NAN));
    if codes.len() != parts || !least.is_finite() || !step.is_finite() {
        return false;
    }
    vector.extend(codes.iter().map(|code| least + step * f32::from(*code)));
    true
}

/// Some of the vectors of an sstable, for the centroids: a reservoir.
pub(super) struct Sample {
    space: Space,
    /// Vectors in bytes.
    kept: Vec<u8>,
    most: usize,
    /// How many there were.
    seen: u64,
    random: u64,
    vector: Vec<f32>,
    spare: Vec<u8>,
}

impl Sample {
    /// For an index of vectors, of an sstable of so many rows.
    pub(super) fn new(table: &Table, index: IndexId, rows: u64) -> Option<Sample> {
        let space = Space::of(table, index)?;
        let of_vector = SCALE_BYTES + space.dimensions;
        let wanted = lists_of(rows, space.parts()) * SAMPLED_OF_LIST;
        let most = wanted.min(VECTOR_SAMPLE_BYTES_MAX / of_vector).max(1);
        let (kept, vector, spare) = Default::default();
        Some(Sample { space, kept, most, seen: 0, random: 1, vector, spare })
    }

    /// Looks at a row.
    pub(super) fn put(&mut self, row: RowRef<'_>) {
        if !self.space.read(row, &mut self.vector) {
            return;
        }
        if ordinary_square(&self.vector).is_none() {
            return;
        }
        let of_vector = SCALE_BYTES + self.space.dimensions;
        let kept = self.kept.len() / of_vector;
        self.seen += 1;
        self.spare.clear();
        put_vector(&self.vector, &mut self.spare);
        if kept < self.most {
            self.kept.extend_from_slice(&self.spare);
            return;
        }
        // xorshift64 (Marsaglia, 2003).
        for shift in [13, -7, 17] {
            self.random ^= if shift > 0 { self.random << shift } else { self.random >> -shift };
        }
        let at = (self.random % self.seen) as usize;
        if at < kept {
            self.kept[at * of_vector..][..of_vector].copy_from_slice(&self.spare);
        }
    }

    fn count(&self) -> usize {
        self.kept.len() / (SCALE_BYTES + self.space.dimensions)
    }

    /// Puts a vector of the sample into `vector`.
    fn get(&self, at: usize, vector: &mut Vec<f32>) {
        let of_vector = SCALE_BYTES + self.space.dimensions;
        let bytes = &self.kept[at * of_vector..][..of_vector];
        let is_ours = get_vector(bytes, self.space.dimensions, vector);
        assert!(is_ours, "it was put so");
    }

    /// The square of the length from which on vectors are in the list of the longest.
    fn longest(&self) -> f32 {
        if self.space.similarity != Similarity::DotProduct {
            return f32::INFINITY;
        }
        let mut one = Vec::new();
        let square = |at| {
            self.get(at, &mut one);
            dot_product(&one, &one)
        };
        let mut squares: Vec<f32> = (0..self.count()).map(square).collect();
        squares.sort_by(f32::total_cmp);
        let at = squares.len() - squares.len() / LONG_DIVISOR;
        squares.get(at.saturating_sub(1)).copied().unwrap_or(f32::INFINITY)
    }

    /// Finds the centroids, and how many lists a search has to look at.
    pub(super) async fn codebook(self, pause: &dyn Pause) -> Codebook {
        let mut codebook = Codebook::new(self.space, self.longest());
        let mut one = Vec::new();
        // Those that get into lists.
        let listed = |at: &usize| {
            self.get(*at, &mut one);
            !codebook.is_long(&one)
        };
        let listed: Vec<usize> = (0..self.count()).filter(listed).collect();
        let lists = lists_of(self.seen, self.space.parts()).min(listed.len());
        for list in 0..lists {
            self.get(listed[list * listed.len() / lists], &mut one);
            codebook.set_length(&mut one);
            codebook.centroids.extend_from_slice(&one);
        }
        for _ in 0..ROUNDS {
            self.round(&listed, &mut codebook, pause).await;
        }
        codebook.reach = self.reach(&codebook, pause).await;
        codebook
    }

    /// Brings each centroid into the middle of those that are nearest to it.
    async fn round(&self, listed: &[usize], codebook: &mut Codebook, pause: &dyn Pause) {
        let parts = self.space.parts();
        let lists = codebook.centroids.len() / parts;
        let (mut sums, mut counts) = (vec![0f32; lists * parts], vec![0u32; lists]);
        let (mut one, mut work) = (Vec::new(), 0);
        for at in listed {
            self.get(*at, &mut one);
            codebook.set_length(&mut one);
            let list = codebook.nearest(&one);
            counts[list] += 1;
            let sum = &mut sums[list * parts..][..parts];
            sum.iter_mut().zip(&one).for_each(|(sum, part)| *sum += part);
            work += (lists + 1) * parts;
            if work >= STEP_PARTS {
                work = 0;
                pause.take().await;
            }
        }
        // A centroid without vectors stays where it is.
        for (list, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let sum = &sums[list * parts..][..parts];
            let centroid = &mut codebook.centroids[list * parts..][..parts];
            let mean = sum.iter().map(|sum| sum / *count as f32);
            centroid.iter_mut().zip(mean).for_each(|(part, mean)| *part = mean);
        }
        pause.take().await;
    }
}

/// How many lists so many vectors have.
fn lists_of(vectors: u64, parts: usize) -> usize {
    let most = (VECTOR_CENTROID_BYTES_MAX / size_of::<f32>() / parts).max(1) as u64;
    vectors.isqrt().min(VECTOR_LISTS_MAX).min(most) as usize
}

/// The centroids of a file that is being made.
pub(super) struct Codebook {
    space: Space,
    /// The square of the length of the longest vector in lists.
    longest: f32,
    /// One behind the other.
    centroids: Vec<f32>,
    reach: Reach,
    term: Vec<u8>,
    vector: Vec<f32>,
}

impl Codebook {
    fn new(space: Space, longest: f32) -> Codebook {
        let (centroids, reach, term, vector) = Default::default();
        Codebook { space, longest, centroids, reach, term, vector }
    }

    /// Gives the terms of the centroids, and of the reach.
    pub(super) fn give_lists(&self, mut give: impl FnMut(&[u8])) {
        for (list, centroid) in self.centroids.chunks_exact(self.space.parts()).enumerate() {
            let mut term = begin(CENTROID, list as u16);
            // The part more says nothing to a search, and would take the bytes of the others.
            put_vector(&centroid[..self.space.dimensions], &mut term);
            give(&term);
        }
        let mut term = begin(CENTROID, EVERYWHERE);
        term.extend(
            [self.reach.nearly, self.reach.all].iter().flat_map(|lists| lists.to_be_bytes()),
        );
        give(&term);
    }

    /// What a row takes, as bytes of a job's work.
    pub(super) fn row_work_bytes(&self) -> usize {
        self.centroids.len() / PARTS_OF_BYTE
    }

    /// The term of a row, if it has a vector that can be measured.
    pub(super) fn term(&mut self, row: RowRef<'_>) -> Option<&[u8]> {
        let mut vector = std::mem::take(&mut self.vector);
        let has_one = self.space.read(row, &mut vector);
        if has_one {
            self.put_term(&mut vector);
        }
        self.vector = vector;
        has_one.then_some(&self.term)
    }

    fn put_term(&mut self, vector: &mut Vec<f32>) {
        if ordinary_square(vector).is_none() || self.centroids.is_empty() {
            self.term = begin(VECTOR, EVERYWHERE);
            return;
        }
        let list = self.list_of(vector);
        self.term = begin(VECTOR, list);
        put_vector(&vector[..self.space.dimensions], &mut self.term);
    }

    /// The list of a vector, which gets the length that those of the lists have.
    fn list_of(&self, vector: &mut Vec<f32>) -> u16 {
        if self.is_long(vector) {
            return LONG;
        }
        self.set_length(vector);
        self.nearest(vector) as u16
    }

    fn is_long(&self, vector: &[f32]) -> bool {
        dot_product(vector, vector) > self.longest * LONGER
    }

    /// Brings a vector to the length that those of the lists have.
    fn set_length(&self, vector: &mut Vec<f32>) {
        let square = dot_product(vector, vector);
        match self.space.similarity {
            Similarity::Cosine => {
                let length = square.sqrt();
                vector.iter_mut().for_each(|part| *part /= length);
            }
            Similarity::DotProduct => vector.push((self.longest - square).max(0.0).sqrt()),
            Similarity::Euclidean => {}
        }
    }

    fn nearest(&self, vector: &[f32]) -> usize {
        let mut best = (f32::INFINITY, 0);
        for (list, centroid) in self.centroids.chunks_exact(self.space.parts()).enumerate() {
            let distance = square_distance(vector, centroid);
            if distance < best.0 {
                best = (distance, list);
            }
        }
        best.1
    }
}

fn begin(kind: u8, list: u16) -> Vec<u8> {
    let [high, low] = list.to_be_bytes();
    vec![kind, high, low]
}

/// In how many lists, of those nearest to a vector, the nearest ten vectors are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Nearly all of them.
    pub(crate) nearly: u16,
    /// All of them, as far as that was seen.
    pub(crate) all: u16,
}

/// A term of a file of vectors, as a search sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum VectorTerm {
    /// The centroid of this list, and how near it is.
    Centroid(u16, f32),
    /// At how many lists a search of the file has to look.
    Reach(Reach),
    /// A vector, and about how near it is.
    Vector(f32),
}

/// Measures the terms of files of vectors for one search.
pub(crate) struct Lists {
    similarity: Similarity,
    wanted: Vec<f32>,
    vector: Vec<f32>,
}

impl Lists {
    /// For the vector that is asked for.
    pub(crate) fn new(similarity: Similarity, wanted: &[u8]) -> Lists {
        Lists { similarity, wanted: floats(wanted).collect(), vector: Vec::new() }
    }

    /// Where the terms of centroids begin and end.
    pub(crate) fn centroids() -> [Vec<u8>; 2] {
        [vec![CENTROID], vec![VECTOR]]
    }

    /// Where the terms of a list begin and end.
    pub(crate) fn list(list: u16) -> [Vec<u8>; 2] {
        let end = list.checked_add(1).map_or(vec![VECTOR + 1], |next| begin(VECTOR, next));
        [begin(VECTOR, list), end]
    }

    /// The lists that belong to every search.
    pub(crate) const OF_ALL: [u16; 2] = [LONG, EVERYWHERE];

    /// How near a vector is that was read as a row stores it.
    pub(crate) fn nearness(&mut self, value: &[u8]) -> Option<f32> {
        self.vector.clear();
        self.vector.extend(floats(value));
        let is_one = self.vector.len() == self.wanted.len();
        is_one.then(|| self.similarity.nearness(&self.wanted, &self.vector)).flatten()
    }

    /// Measures a term; `None` if it is none of a file of such vectors.
    pub(crate) fn measure(&mut self, term: &[u8]) -> Option<VectorTerm> {
        let mut cursor = Cursor::new(term);
        let kind = cursor.u8().ok()?;
        let list = u16::from_be_bytes(cursor.array().ok()?);
        let rest = cursor.rest();
        let dimensions = self.wanted.len();
        match kind {
            CENTROID if list == EVERYWHERE => {
                let (&[nearly, all], []) = rest.as_chunks::<2>() else { return None };
                let [nearly, all] = [nearly, all].map(u16::from_be_bytes);
                Some(VectorTerm::Reach(Reach { nearly, all }))
            }
            CENTROID => {
                if !get_vector(rest, dimensions, &mut self.vector) {
                    return None;
                }
                let nearness = nearness_of_list(self.similarity, &self.wanted, &self.vector);
                Some(VectorTerm::Centroid(list, nearness))
            }
            VECTOR if list == EVERYWHERE && rest.is_empty() => {
                Some(VectorTerm::Vector(f32::INFINITY))
            }
            VECTOR => {
                if !get_vector(rest, dimensions, &mut self.vector) {
                    return None;
                }
                // What is no number by a byte for each part may be one by its row.
                let nearness = self.similarity.nearness(&self.wanted, &self.vector);
                Some(VectorTerm::Vector(nearness.unwrap_or(f32::INFINITY)))
            }
            _ => None,
        }
    }
}

/// How near a list is whose centroid, or a vector whose parts, are these.
fn nearness_of_list(similarity: Similarity, wanted: &[f32], centroid: &[f32]) -> f32 {
    match similarity {
        Similarity::Euclidean => -square_distance(wanted, centroid),
        _ => dot_product(wanted, centroid),
    }
}

/// What a vector of a table takes in a file, in bytes; 0 of an index of terms.
pub(super) fn vector_bytes(table: &Table, index: IndexId) -> u64 {
    Space::of(table, index).map_or(0, |space| 2 * (SCALE_BYTES + space.dimensions) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms_of(similarity: Similarity, vectors: &[Vec<f32>]) -> Vec<Vec<u8>> {
        let dimensions = vectors[0].len();
        let space = Space { column: ColumnId(1), dimensions, similarity };
        let longest = vectors.iter().filter_map(|v| ordinary_square(v)).fold(0.0, f32::max);
        let mut codebook = Codebook::new(space, longest);
        let mut first = vectors[0].clone();
        codebook.set_length(&mut first);
        codebook.centroids = first;
        let mut terms = Vec::new();
        codebook.give_lists(|term| terms.push(term.to_vec()));
        // What is behind the centroid is the reach.
        terms.truncate(1);
        for vector in vectors {
            codebook.put_term(&mut vector.clone());
            terms.push(codebook.term.clone());
        }
        terms
    }

    fn value(vector: &[f32]) -> Vec<u8> {
        vector.iter().flat_map(|part| part.to_be_bytes()).collect()
    }

    proptest! {
        #[test]
        fn a_term_says_about_how_near_its_vector_is(
            vectors in prop::collection::vec(prop::collection::vec(0.1..1f32, 7), 1..9)
        ) {
            for similarity in Similarity::ALL {
                let wanted = &vectors[vectors.len() / 2];
                let mut lists = Lists::new(similarity, &value(wanted));
                let terms = terms_of(similarity, &vectors);
                prop_assert!(matches!(lists.measure(&terms[0]), Some(VectorTerm::Centroid(0, _))));
                for (vector, term) in vectors.iter().zip(&terms[1..]) {
                    let exact = similarity.nearness(wanted, vector).expect("ordinary vectors");
                    let Some(VectorTerm::Vector(nearness)) = lists.measure(term) else {
                        panic!("a term of a vector");
                    };
                    prop_assert!((nearness - exact).abs() < 0.05, "{nearness} {exact}");
                }
            }
        }

        #[test]
        fn other_bytes_are_no_term_or_measured(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            for similarity in Similarity::ALL {
                let measured = Lists::new(similarity, &value(&[1.0, 2.0])).measure(&bytes);
                if let Some(VectorTerm::Vector(nearness)) = measured {
                    prop_assert!(!nearness.is_nan());
                }
            }
        }
    }

    /// Before: the part that makes vectors equally long was in the bytes of centroids, and left the others one code.
    #[test]
    fn a_long_vector_leaves_the_parts_of_centroids_as_they_are() {
        let vectors = [vec![0.2, 0.4], vec![0.4, 0.2], vec![3000.0, 4000.0]];
        let terms = terms_of(Similarity::DotProduct, &vectors);
        let mut lists = Lists::new(Similarity::DotProduct, &value(&[1.0, 0.0]));
        let Some(VectorTerm::Centroid(0, nearness)) = lists.measure(&terms[0]) else {
            panic!("a term of a centroid");
        };
        assert!((nearness - 0.2).abs() < 0.01, "{nearness}");
    }

    #[test]
    fn of_products_the_longest_are_in_a_list_of_their_own() {
        let space =
            Space { column: ColumnId(1), dimensions: 2, similarity: Similarity::DotProduct };
        let mut codebook = Codebook { centroids: vec![0.6, 0.8, 0.0], ..Codebook::new(space, 1.0) };
        for (length, list) in [(0.5, 0), (1.01, 0), (2.0, LONG)] {
            codebook.put_term(&mut vec![0.6 * length, 0.8 * length]);
            assert!(codebook.term.starts_with(&begin(VECTOR, list)), "{length}");
        }
    }

    #[test]
    fn the_reach_of_a_file_reads_back() {
        let space = Space { column: ColumnId(1), dimensions: 2, similarity: Similarity::Cosine };
        let reach = Reach { nearly: 7, all: 300 };
        let codebook = Codebook { reach, ..Codebook::new(space, f32::INFINITY) };
        let mut lists = Lists::new(Similarity::Cosine, &value(&[1.0, 0.0]));
        codebook.give_lists(|term| assert_eq!(lists.measure(term), Some(VectorTerm::Reach(reach))));
    }

    #[test]
    fn what_is_no_ordinary_vector_is_looked_at_by_every_search() {
        let vectors = [vec![1.0, 0.0], vec![1e20, 0.0], vec![1e-20, 0.0]];
        for similarity in Similarity::ALL {
            let terms = terms_of(similarity, &vectors);
            let everywhere = begin(VECTOR, EVERYWHERE);
            assert_eq!(terms[2..], [everywhere.clone(), everywhere], "{similarity:?}");
        }
    }
}

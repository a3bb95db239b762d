//! At how many lists of a file a search has to look: tried out with vectors of the sample, while the file is made.
//!
//! ```text
//! some of the sample ─► the nearest of all the sample ─► in which of the lists, nearest first, they are ─► Reach
//! ```
//!
//! How far the nearest are spread is a matter of the data: of vectors in clusters they are in the first lists, of
//! random ones of many parts in most.

use super::*;

/// The nearest that are to be found.
const NEAREST: u64 = 10;
/// How many vectors of the sample are sought, which take no more bytes than centroids.
const SOUGHT_MAX: usize = 256;
/// The part of the nearest that is to be in the lists, in hundredths. The lists were made for the sample, so that
/// others are a little farther from theirs.
const NEARLY_HUNDREDTHS: usize = 99;

/// A vector that is sought, and the nearest so far: how near, and which of the sample.
struct Sought {
    at: usize,
    vector: Vec<f32>,
    near: Vec<(f32, usize)>,
}

impl Sought {
    /// Looks at another vector; `most` are kept.
    fn offer(&mut self, similarity: Similarity, (at, vector): (usize, &[f32]), most: usize) {
        let nearness = nearness_of_list(similarity, &self.vector, vector);
        let is_far = self.near.len() == most && self.near.last().is_some_and(|l| l.0 >= nearness);
        if at == self.at || is_far {
            return;
        }
        let place = self.near.partition_point(|(other, _)| *other >= nearness);
        self.near.insert(place, (nearness, at));
        self.near.truncate(most);
    }
}

impl Sample {
    /// How many lists a search has to look at.
    pub(super) async fn reach(&self, codebook: &Codebook, pause: &dyn Pause) -> Reach {
        let Space { dimensions, similarity, .. } = self.space;
        let count = self.count();
        let most = (VECTOR_CENTROID_BYTES_MAX / size_of::<f32>() / dimensions).clamp(1, SOUGHT_MAX);
        let number = most.min(count);
        // Of the nearest ten of all vectors so many are in the sample.
        let nearest = (NEAREST * count as u64 + self.seen / 2) / self.seen.max(1);
        let nearest = nearest.max(1) as usize;
        let mut sought: Vec<Sought> = (0..number)
            .map(|number_of| {
                let (at, mut vector) = (number_of * count / number, Vec::new());
                self.get(at, &mut vector);
                Sought { at, vector, near: Vec::new() }
            })
            .collect();
        let mut lists: Vec<u16> = Vec::with_capacity(count);
        let (mut one, mut work) = (Vec::new(), 0);
        for at in 0..count {
            self.get(at, &mut one);
            lists.push(codebook.list_of(&mut one));
            let vector = &one[..dimensions];
            sought.iter_mut().for_each(|sought| sought.offer(similarity, (at, vector), nearest));
            work += codebook.centroids.len() + number * dimensions;
            if work >= STEP_PARTS {
                work = 0;
                pause.take().await;
            }
        }
        let mut reached = Vec::new();
        for sought in &sought {
            codebook.reached(sought, &lists, &mut reached);
            pause.take().await;
        }
        reached.sort_unstable();
        let of = |at: usize| reached.get(at).copied().unwrap_or_default();
        let last = reached.len().saturating_sub(1);
        Reach { nearly: of((reached.len() * NEARLY_HUNDREDTHS / 100).min(last)), all: of(last) }
    }
}

impl Codebook {
    /// Appends for each of the nearest how many lists, of those nearest to what is sought, have it: none, if it is in
    /// the list of the longest.
    fn reached(&self, sought: &Sought, lists: &[u16], reached: &mut Vec<u16>) {
        let Space { dimensions, similarity, .. } = self.space;
        let centroids = self.centroids.chunks_exact(self.space.parts());
        let nearness: Vec<f32> = centroids
            .map(|centroid| nearness_of_list(similarity, &sought.vector, &centroid[..dimensions]))
            .collect();
        reached.extend(sought.near.iter().map(|(_, at)| {
            let of_list = nearness.get(usize::from(lists[*at]));
            of_list.map_or(0, |own| nearness.iter().filter(|other| *other >= own).count() as u16)
        }));
    }
}

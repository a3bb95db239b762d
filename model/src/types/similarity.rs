//! How alike two vectors of floats are: for the functions `similarity_..` and for ORDER BY .. ANN OF.
//!
//! Sums are made in eight lanes, so that the compiler adds several floats at once; of vectors with less than eight
//! elements they are made in order.

/// Elements that are added side by side.
const LANES: usize = 8;

/// What makes two vectors alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Similarity {
    /// The angle between them.
    Cosine,
    /// Their product: of vectors of length one the same as the angle.
    DotProduct,
    /// The distance of their ends.
    Euclidean,
}

impl Similarity {
    /// All of them, as Cassandra lists them.
    pub const ALL: [Similarity; 3] =
        [Similarity::Euclidean, Similarity::DotProduct, Similarity::Cosine];

    /// As an option of an index writes it, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Similarity::Cosine => "cosine",
            Similarity::DotProduct => "dot_product",
            Similarity::Euclidean => "euclidean",
        }
    }

    /// The one of this name, in letters of any case.
    pub fn of_name(name: &str) -> Option<Similarity> {
        Similarity::ALL.into_iter().find(|similarity| similarity.name().eq_ignore_ascii_case(name))
    }

    /// How near two vectors of one length are: more is nearer. `None` if they cannot be compared: one has a part that is
    /// no finite number, or no direction and the angle is asked for.
    pub fn nearness(self, a: &[f32], b: &[f32]) -> Option<f32> {
        let nearness = match self {
            Similarity::Cosine => cosine(a, b)?,
            Similarity::DotProduct => dot_product(a, b),
            Similarity::Euclidean => -square_distance(a, b),
        };
        // A sum that is too large for a float is still one that can be compared, unless a part was none.
        let is_finite = |vector: &[f32]| vector.iter().all(|part| part.is_finite());
        (nearness.is_finite() || (!nearness.is_nan() && is_finite(a) && is_finite(b)))
            .then_some(nearness)
    }
}

/// The parts of a vector's value.
pub fn floats(value: &[u8]) -> impl Iterator<Item = f32> + '_ {
    value.as_chunks::<4>().0.iter().map(|part| f32::from_be_bytes(*part))
}

/// The cosine of the angle between two vectors; `None` if one has no direction.
pub fn cosine(a: &[f32], b: &[f32]) -> Option<f32> {
    let product = sum(a, b, |a, b| a * b);
    let (left, right) = (sum(a, a, |a, b| a * b), sum(b, b, |a, b| a * b));
    if left == 0.0 || right == 0.0 {
        return None;
    }
    Some((f64::from(product) / (f64::from(left) * f64::from(right)).sqrt()) as f32)
}

/// The cosine of the angle between two vectors that may be too short for [`cosine`], where the squares of their parts
/// are 0 in a float; `None` if all parts of one are 0.
pub fn cosine_of_short(a: &[f32], b: &[f32]) -> Option<f32> {
    let product = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    // The square of the least float is more than a double needs.
    let lengths = product(a, a).sqrt() * product(b, b).sqrt();
    (lengths != 0.0).then(|| (product(a, b) / lengths) as f32)
}

/// The sum of the products of their parts.
pub fn dot_product(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |a, b| a * b)
}

/// The square of their distance.
pub fn square_distance(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |a, b| (a - b) * (a - b))
}

#[inline(always)]
fn sum(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let ((a, rest_of_a), (b, rest_of_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [0f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] += term(a[lane], b[lane]);
        }
    }
    let mut total: f32 = lanes.iter().sum();
    for (a, b) in rest_of_a.iter().zip(rest_of_b) {
        total += term(*a, *b);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearer_vectors_have_more_nearness() {
        let (one, near, far) = ([1.0; 9], [1.1, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.8], [-1.0; 9]);
        for similarity in [Similarity::Cosine, Similarity::Euclidean, Similarity::DotProduct] {
            let to = |other: &[f32]| similarity.nearness(&one, other);
            assert!(to(&one) > to(&far) && to(&near) > to(&far), "{similarity:?}");
            assert_eq!(Similarity::of_name(&similarity.name().to_uppercase()), Some(similarity));
        }
        assert_eq!(Similarity::DotProduct.nearness(&one, &[2.0; 9]), Some(18.0));
        assert_eq!(Similarity::Euclidean.nearness(&one, &[3.0; 9]), Some(-36.0));
    }

    /// Before: such a vector was said to have no direction.
    #[test]
    fn a_short_vector_has_a_direction() {
        for short in [1e-30, 1e-45] {
            assert_eq!(cosine(&[short, 0.0], &[1.0, 0.0]), None);
            assert_eq!(cosine_of_short(&[short, 0.0], &[1.0, 0.0]), Some(1.0));
            assert_eq!(cosine_of_short(&[0.0, -short], &[0.0, short]), Some(-1.0));
        }
        assert_eq!(cosine_of_short(&[1.0, 1.0], &[0.0, -0.0]), None);
    }

    #[test]
    fn what_is_no_number_or_has_no_direction_is_not_compared() {
        let one = [1.0, 0.0];
        for similarity in Similarity::ALL {
            assert_eq!(similarity.nearness(&one, &[f32::NAN, 0.0]), None, "{similarity:?}");
            assert_eq!(similarity.nearness(&one, &[f32::INFINITY, 0.0]), None, "{similarity:?}");
        }
        assert_eq!(Similarity::Cosine.nearness(&one, &[0.0, 0.0]), None);
        let far = [f32::MAX, f32::MAX];
        assert_eq!(Similarity::Euclidean.nearness(&one, &far), Some(f32::NEG_INFINITY));
    }
}

//! How alike two vectors of floats are, between 0 and 1 for cosine and Euclidean similarity.

use model::types::{self, floats};

use super::Call;
use crate::error::{Error, Result};

/// `similarity_cosine`: by the angle between two vectors, from 0 to 1.
pub(super) fn cosine(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let (a, b) = vectors(call);
    let Some(cosine) = types::cosine(&a, &b).or_else(|| types::cosine_of_short(&a, &b)) else {
        return Err(Error::invalid(format!(
            "Function system.{} doesn't support all-zero vectors.",
            call.signature.name
        )));
    };
    similarity((1.0 + cosine) / 2.0)
}

/// `similarity_euclidean`: by the distance of two vectors, from 0 to 1.
pub(super) fn euclidean(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let (a, b) = vectors(call);
    similarity(1.0 / (1.0 + types::square_distance(&a, &b)))
}

/// `similarity_dot_product`: by the product of two vectors.
pub(super) fn dot_product(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let (a, b) = vectors(call);
    similarity((1.0 + types::dot_product(&a, &b)) / 2.0)
}

fn similarity(value: f32) -> Result<Option<Vec<u8>>> {
    Ok(Some(value.to_be_bytes().to_vec()))
}

/// Both vectors, which have one length.
fn vectors(call: &Call<'_>) -> (Vec<f32>, Vec<f32>) {
    (floats(call.value(0)).collect(), floats(call.value(1)).collect())
}

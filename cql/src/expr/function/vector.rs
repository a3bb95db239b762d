//! How alike two vectors of floats are, between 0 and 1 for cosine and Euclidean similarity.

use super::Call;
use crate::error::{Error, Result};

/// `similarity_cosine`: by the angle between two vectors, from 0 to 1.
pub(super) fn cosine(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let (mut dot, mut left, mut right) = (0f32, 0f32, 0f32);
    for (a, b) in pairs(call) {
        dot += a * b;
        left += a * a;
        right += b * b;
    }
    if left == 0.0 || right == 0.0 {
        return Err(Error::invalid(format!(
            "Function system.{} doesn't support all-zero vectors.",
            call.signature.name
        )));
    }
    let cosine = (f64::from(dot) / (f64::from(left) * f64::from(right)).sqrt()) as f32;
    similarity((1.0 + cosine) / 2.0)
}

/// `similarity_euclidean`: by the distance of two vectors, from 0 to 1.
pub(super) fn euclidean(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let square: f32 = pairs(call).map(|(a, b)| (a - b) * (a - b)).sum();
    similarity(1.0 / (1.0 + square))
}

/// `similarity_dot_product`: by the product of two vectors.
pub(super) fn dot_product(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let dot: f32 = pairs(call).map(|(a, b)| a * b).sum();
    similarity((1.0 + dot) / 2.0)
}

fn similarity(value: f32) -> Result<Option<Vec<u8>>> {
    Ok(Some(value.to_be_bytes().to_vec()))
}

/// The elements of both vectors, which have one length.
fn pairs<'c>(call: &Call<'c>) -> impl Iterator<Item = (f32, f32)> + use<'c> {
    let floats =
        |bytes: &'c [u8]| bytes.as_chunks::<4>().0.iter().map(|chunk| f32::from_be_bytes(*chunk));
    floats(call.value(0)).zip(floats(call.value(1)))
}

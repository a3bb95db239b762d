//! Spelling: the known name that an unknown one most likely misspells, for the hint "Did you mean" of an error.

/// Longest name that is compared, in bytes: comparing two takes time in proportion to the product of their lengths.
const COMPARED_BYTES_MAX: usize = 64;

/// The known name that takes the fewest edits to become `name`, of those that take at most `distance_max`. `name` itself
/// does not count.
pub(crate) fn closest_name<'n>(
    name: &str,
    known: impl IntoIterator<Item = &'n str>,
    distance_max: usize,
) -> Option<&'n str> {
    if name.len() > COMPARED_BYTES_MAX {
        return None;
    }
    let chars = name.chars().count();
    let comparable = known.into_iter().filter(|known| {
        known.len() <= COMPARED_BYTES_MAX && known.chars().count().abs_diff(chars) <= distance_max
    });
    comparable
        .map(|known| (strsim::osa_distance(name, known), known))
        .filter(|(distance, _)| (1..=distance_max).contains(distance) && *distance < chars)
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_found() {
        let known = ["user", "used", "name", "größe"];
        assert_eq!(closest_name("usr", known, 2), Some("user"));
        assert_eq!(closest_name("grösse", known, 2), Some("größe"));
        assert_eq!(closest_name("emna", known, 1), None);
        assert_eq!(closest_name("name", known, 2), None);
        assert_eq!(closest_name("a", ["b"], 2), None);
    }

    /// Before: a name of 4 MB took 15 s against a short one, and never ended against another of its length.
    #[test]
    fn names_that_are_too_long_to_be_misspelt_are_not_compared() {
        let long = "a".repeat(4 << 20);
        assert_eq!(closest_name(&long, [&long[1..], "name"], 2), None);
        assert_eq!(closest_name("name", [&long[..]], 2), None);
    }
}

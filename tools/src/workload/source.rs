//! Where the operations of a phase come from: every key of a stretch or of a list once, or keys that are drawn.

use std::iter::StepBy;
use std::ops::Range;
use std::sync::Arc;

use rand::rngs::SmallRng;

use super::Verb;
use super::mix::Mix;
use crate::ledger::Frontier;
use crate::popularity::Popularity;

/// Verbs and keys, for the rule to make operations of.
#[derive(Debug)]
pub enum Source {
    /// One operation for every key of a stretch.
    Stretch {
        /// Those that are left.
        keys: StepBy<Range<u64>>,
        /// What is done.
        verb: Verb,
    },
    /// One operation for every `stride`-th key of a list.
    Walk {
        /// Numbers of all keys.
        keys: Arc<Vec<u64>>,
        /// Position of the next one.
        next: usize,
        /// The number of threads.
        stride: usize,
        /// What is done.
        verb: Verb,
    },
    /// Operations and keys that are drawn without an end.
    Draw {
        /// How many keys there are, from 0 on.
        keys: Arc<Frontier>,
        /// The shares of the operations.
        mix: Mix,
        /// How keys are drawn.
        popularity: Popularity,
        /// The random generator of this thread.
        rng: SmallRng,
    },
}

/// Verbs with their keys.
impl Iterator for Source {
    type Item = (Verb, u64);

    #[inline]
    fn next(&mut self) -> Option<(Verb, u64)> {
        match self {
            Source::Stretch { keys, verb } => keys.next().map(|key| (*verb, key)),
            Source::Walk { keys, next, stride, verb } => {
                let key = *keys.get(*next)?;
                *next += *stride;
                Some((*verb, key))
            }
            Source::Draw { keys, mix, popularity, rng } => {
                Some((mix.pick(rng), popularity.pick(keys.readable(), rng)))
            }
        }
    }
}

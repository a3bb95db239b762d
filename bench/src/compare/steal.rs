//! Steal: the time that the host of a virtual machine gave to others while something was measured.
//!
//! The kernel charges it to no process here, but it makes what runs slower and its caches cold, so a measurement with
//! much steal says little. It is made again, a bounded number of times, and the one with the least steal counts.

use std::fs;

use super::{Failed, Result};

/// Steal in percent of all processor time up to which a measurement is taken at once, and is not marked in the table.
pub const STEAL_PERCENT_MAX: f64 = 2.0;

/// Something measured, and the steal meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured<T> {
    /// What was measured.
    pub value: T,
    /// Steal in percent of all processor time.
    pub steal_percent: f64,
}

/// Measures up to `attempts_max` times, until there is little steal; the measurement with the least.
pub fn with_least_steal<T>(
    attempts_max: u32,
    mut measure: impl FnMut() -> Result<Measured<T>>,
) -> Result<Measured<T>> {
    let mut best = measure()?;
    for _ in 1..attempts_max {
        if best.steal_percent <= STEAL_PERCENT_MAX {
            break;
        }
        eprintln!("{:.1} % of the processors were stolen: measuring again", best.steal_percent);
        let again = measure()?;
        if again.steal_percent < best.steal_percent {
            best = again;
        }
    }
    Ok(best)
}

/// Measures once, and looks at the steal.
pub fn with_steal<T>(measure: impl FnOnce() -> Result<T>) -> Result<Measured<T>> {
    let before = Ticks::now()?;
    let value = measure()?;
    let after = Ticks::now()?;
    Ok(Measured { value, steal_percent: after.steal_percent_since(before) })
}

/// Processor time of the whole machine since it started, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    all: u64,
    steal: u64,
}

impl Ticks {
    fn now() -> Result<Ticks> {
        let path = "/proc/stat";
        let text = fs::read_to_string(path).map_err(Failed::io(path))?;
        parse(&text).ok_or_else(|| Failed(format!("{path} begins with no line of eight numbers")))
    }

    fn steal_percent_since(self, before: Ticks) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        100.0 * self.steal.saturating_sub(before.steal) as f64 / all as f64
    }
}

/// The ticks of the first line of `/proc/stat`, as proc(5) describes it; `None` if it has fewer than eight numbers.
///
/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`
fn parse(stat: &str) -> Option<Ticks> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let numbers: Vec<u64> = fields.map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    // Guests' time is part of user time.
    Some(Ticks { all: numbers.iter().take(8).sum(), steal: *numbers.get(7)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_number() {
        let before = parse("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1 2\n").unwrap();
        let after = parse("cpu  60 0 35 80 0 0 0 25 7 0\n").unwrap();
        assert_eq!(after.steal_percent_since(before), 25.0);
        assert_eq!(parse("cpu  1 2 3\n"), None);
        assert!(Ticks::now().unwrap().all > 0);
    }

    /// The number of measurements, and the steal of the one that counts.
    fn measured(attempts_max: u32, steals: &[f64]) -> (usize, f64) {
        let mut made = 0;
        let best = with_least_steal(attempts_max, || {
            made += 1;
            Ok(Measured { value: made, steal_percent: steals[made - 1] })
        });
        let best = best.unwrap();
        assert_eq!(steals[best.value - 1], best.steal_percent, "a value with its own steal");
        (made, best.steal_percent)
    }

    #[test]
    fn the_measurement_with_the_least_steal_counts() {
        assert_eq!(measured(5, &[1.0]), (1, 1.0));
        assert_eq!(measured(5, &[9.0, 3.0, 0.5, 0.1]), (3, 0.5));
        assert_eq!(measured(3, &[9.0, 3.0, 5.0]), (3, 3.0));
        assert_eq!(measured(1, &[9.0]), (1, 9.0));
    }
}

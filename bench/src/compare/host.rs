//! What the host of this machine gave to others while something was measured.
//!
//! On a virtual machine the processors are shared. Time that others took (`steal` in `/proc/stat`) is charged to
//! no process here, but it makes what runs slower and its caches cold: such a measurement says little.

use std::fs;

use super::{Failed, Result};

/// Processor time of the whole machine so far, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ticks {
    all: f64,
    stolen: f64,
}

impl Ticks {
    /// The ticks until now.
    pub fn now() -> Result<Ticks> {
        let path = "/proc/stat";
        let text = fs::read_to_string(path).map_err(Failed::io(path))?;
        parse(&text).ok_or_else(|| Failed(format!("{path} begins with no line of eight numbers")))
    }

    /// The share of the processors that others took since `before`, in percent.
    pub fn stolen_percent_since(&self, before: &Ticks) -> f64 {
        100.0 * (self.stolen - before.stolen) / (self.all - before.all).max(1.0)
    }
}

/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`
fn parse(stat: &str) -> Option<Ticks> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let numbers: Vec<f64> = fields.map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    // Guests' time is part of user time.
    Some(Ticks { all: numbers.iter().take(8).sum(), stolen: *numbers.get(7)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_took_is_the_eighth_number() {
        let before = parse("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1 2\n").unwrap();
        let after = parse("cpu  60 0 35 80 0 0 0 25 7 0\n").unwrap();
        assert_eq!(after.stolen_percent_since(&before), 25.0);
        assert_eq!(parse("cpu  1 2 3\n"), None);
        assert!(Ticks::now().unwrap().all > 0.0);
    }
}

//! The options `speculative_retry` and `additional_write_policy`: when another replica is asked.
//!
//! There is one replica, so the value is checked and kept, in Cassandra's canonical form.

use std::fmt;

use super::refusal::{Refusal, Result};

/// A policy in its canonical form: `99p`, `50ms`, `ALWAYS`, `NEVER`, `MIN(99p,50ms)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry(String);

impl Default for Retry {
    fn default() -> Retry {
        Retry("99p".to_owned())
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Percentile,
    Fixed,
}

impl Retry {
    /// Reads the text of a statement.
    pub fn parse(text: &str) -> Result<Retry> {
        let upper = text.to_ascii_uppercase();
        match upper.as_str() {
            "ALWAYS" => return Ok(Retry(upper)),
            "NEVER" | "NONE" => return Ok(Retry("NEVER".to_owned())),
            _ => {}
        }
        let Some((function, both)) = upper.split_once('(') else {
            return Ok(Retry(simple(&upper, text)?.1));
        };
        let parts = both.strip_suffix(')').and_then(|both| both.split_once(','));
        let (Some((left, right)), "MIN" | "MAX") = (parts, function) else {
            return Err(invalid(text));
        };
        let (left, right) = (simple(left.trim(), text)?, simple(right.trim(), text)?);
        if left.0 == right.0 {
            let kind = if left.0 == Kind::Fixed { "FIXED" } else { "PERCENTILE" };
            return Refusal::config(format!(
                "{}: MIN()/MAX() arguments should be of different types, but both are of type {kind}",
                invalid(text)
            ));
        }
        Ok(Retry(format!("{function}({},{})", left.1, right.1)))
    }
}

/// `99P`, `99PERCENTILE` or `50MS`, in the canonical form; `whole` is for the error.
fn simple(upper: &str, whole: &str) -> Result<(Kind, String)> {
    if let Some(millis) = upper.strip_suffix("MS").and_then(plain_number) {
        return Ok((Kind::Fixed, format!("{}ms", millis.trunc())));
    }
    let digits = upper.strip_suffix("PERCENTILE").or_else(|| upper.strip_suffix('P'));
    let percentile = digits.and_then(plain_number).ok_or_else(|| invalid(whole))?;
    if percentile <= 0.0 || percentile >= 100.0 {
        let what = "for PERCENTILE option 'speculative_retry': must be between (0.0 and 100.0)";
        return Refusal::config(format!("Invalid value {whole} {what}"));
    }
    Ok((Kind::Percentile, format!("{percentile}p")))
}

/// Digits with at most one point between: what neither sign nor exponent precedes.
fn plain_number(text: &str) -> Option<f64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let plain = match text.split_once('.') {
        Some((whole, part)) => digits(whole) && digits(part),
        None => digits(text),
    };
    plain.then(|| text.parse().ok()).flatten().filter(|number: &f64| *number < 1e15)
}

#[cold]
fn invalid(text: &str) -> Refusal {
    Refusal::Config(format!("Invalid value {text} for option 'speculative_retry'"))
}

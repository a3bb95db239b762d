//! Numbers as people read them.

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with three significant digits and a unit of thousands: `12.3 K`.
pub fn short(number: f64) -> String {
    for (size, unit) in [(1e9, " G"), (1e6, " M"), (1e3, " K")] {
        if number >= size * 0.9995 {
            return format!("{}{unit}", three_digits(number / size));
        }
    }
    three_digits(number)
}

/// A duration given in µs: `480 µs`, `1.23 ms`, `2.50 s`.
pub fn duration(micros: f64) -> String {
    for (size, unit) in [(1e6, " s"), (1e3, " ms")] {
        if micros >= size * 0.9995 {
            return format!("{}{unit}", three_digits(micros / size));
        }
    }
    format!("{} µs", three_digits(micros))
}

/// Memory given in KiB.
pub fn memory(kib: u64) -> String {
    let kib = kib as f64;
    if kib >= 1024.0 * 1024.0 {
        format!("{} GiB", three_digits(kib / 1024.0 / 1024.0))
    } else {
        format!("{} MiB", three_digits(kib / 1024.0))
    }
}

/// A share as a percentile: `0.999` as `99.9`.
pub fn percentile(quantile: f64) -> String {
    let text = format!("{:.6}", quantile * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn three_digits(number: f64) -> String {
    let decimals = match number.abs() {
        n if n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        n if n > 0.0 => 2,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact_enough() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!([short(0.0), short(999.0), short(1000.0)], ["0", "999", "1.00 K"]);
        assert_eq!([short(123_456.0), short(12_345_678.0)], ["123 K", "12.3 M"]);
        assert_eq!([duration(480.4), duration(1234.0)], ["480 µs", "1.23 ms"]);
        assert_eq!([duration(2.5e6), duration(9.99)], ["2.50 s", "9.99 µs"]);
        assert_eq!([memory(512 * 1024), memory(2 << 20)], ["512 MiB", "2.00 GiB"]);
        assert_eq!([percentile(0.5), percentile(0.9999)], ["50", "99.99"]);
    }
}

//! The comparison as a picture: the CPU of one operation, a bar for each contender.
//!
//! ```text
//! read 1 KB, 100 × 16     Messina    ██ 2.6 µs
//!                         Cassandra  ███████████████████████ 32.5 µs
//!                         Redis      █ 1.4 µs
//! ```
//!
//! Dark is time in the server's own code, light in the kernel.

use std::fmt::Write;

use super::contender::Contender;
use super::table::Results;

const WIDTH: f64 = 780.0;
/// Where bars begin, and the longest of them.
const BARS_X: f64 = 220.0;
const BARS_WIDTH: f64 = 440.0;
const BAR_HEIGHT: f64 = 16.0;
const LINE_HEIGHT: f64 = 20.0;
const HEADING_HEIGHT: f64 = 34.0;

/// The picture as SVG.
pub fn picture(results: &Results) -> String {
    let costs = results.iter().flat_map(|(_, _, costs)| costs);
    let longest = costs.clone().map(|(_, cost)| cost.user_us + cost.system_us).fold(1.0, f64::max);
    let bars = costs.count() as f64;
    let height = bars * LINE_HEIGHT + results.len() as f64 * HEADING_HEIGHT + 16.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut y = 0.0;
    for (work, pressure, costs) in results {
        y += HEADING_HEIGHT;
        let (connections, in_flight) = (pressure.connections, pressure.in_flight);
        let heading = format!(
            "{}, {connections} connections × {in_flight} in flight: server CPU of one operation",
            work.title()
        );
        text(&mut out, 12.0, y - 10.0, "font-weight=\"bold\"", &heading);
        for (contender, cost) in costs {
            let scaled = |us: f64| us / longest * BARS_WIDTH;
            let (user, system) = (scaled(cost.user_us), scaled(cost.system_us));
            let middle = y + BAR_HEIGHT - 4.0;
            text(&mut out, BARS_X - 8.0, middle, "text-anchor=\"end\"", contender.title());
            bar(&mut out, (BARS_X, y, user), color(*contender), 1.0);
            bar(&mut out, (BARS_X + user, y, system), color(*contender), 0.5);
            let sum = format!("{:.1} µs", cost.user_us + cost.system_us);
            text(&mut out, BARS_X + user + system + 6.0, middle, "", &sum);
            y += LINE_HEIGHT;
        }
    }
    out.push_str("</svg>\n");
    out
}

fn text(out: &mut String, x: f64, y: f64, attributes: &str, words: &str) {
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{words}</text>");
}

fn bar(out: &mut String, (x, y, width): (f64, f64, f64), color: &str, opacity: f64) {
    let _ = writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR_HEIGHT}\" \
         fill=\"{color}\" fill-opacity=\"{opacity}\"/>"
    );
}

fn color(contender: Contender) -> &'static str {
    match contender {
        Contender::Messina => "#0072b2",
        Contender::MessinaUnaware => "#56b4e9",
        Contender::Cassandra => "#d55e00",
        Contender::Redis => "#666666",
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::{Cost, Pressure, Work};
    use super::*;

    #[test]
    fn the_longest_bar_is_the_most_expensive() {
        let cost = |user_us| Cost { user_us, system_us: user_us, ..Cost::default() };
        let costs = vec![(Contender::Messina, cost(1.0)), (Contender::Cassandra, cost(10.0))];
        let pressure = Pressure { connections: 100, in_flight: 16 };
        let text = picture(&vec![(Work::Update, pressure, costs)]);
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
        assert!(text.contains("width=\"220.0\"") && text.contains("width=\"22.0\""), "{text}");
        assert!(text.contains("20.0 µs") && text.contains("2.0 µs"));
    }
}

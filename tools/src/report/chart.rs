//! Line charts as inline SVG: two axes, a grid, lines, and the data that the page's script shows under the pointer. No
//! fonts, colours or sizes here: the page's style sheet has them.
//!
//! ```text
//!  LEFT ┌──────────────────────────┐ TOP        user units, 720 wide, scaled by the page
//!       │  lines                   │
//!       └──────────────────────────┘ BOTTOM
//! ```
//!
//! 1. A `Ruler` for each axis: from the least to the greatest value, rounded outwards; latencies are logarithmic,
//!    quantiles stretched towards 1.
//! 2. The grid with round ticks, the places where something went wrong, the lines.
//! 3. The same points once more as JSON, with their texts, for the script.
//!
//! Invariant: texts are escaped, in HTML and in the JSON of a script, so that a title cannot become part of the page's
//! code.
//!
//! Not here: which charts a page has (`report/page.rs`), how a number is written (`report/units.rs`).

use std::fmt::Write;

use serde::Serialize;

use super::units::{duration, percentile, short};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;

/// What an axis measures, and how it is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Axis {
    /// Seconds of the run, from 0.
    Seconds,
    /// Operations a second, from 0.
    Rate,
    /// A latency in µs, on a logarithmic scale.
    Latency,
    /// A quantile, stretched towards 1: 90 %, 99 %, 99.9 % are equally far apart.
    Quantile,
}

/// One line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// The name shown in the legend.
    pub name: String,
    /// Its colour, as a class of the style sheet: 1 to 6.
    pub colour: usize,
    /// Drawn with dashes.
    pub dashed: bool,
    /// The points (x, y), in user units.
    pub points: Vec<(f64, f64)>,
}

/// A line chart with its axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The heading above the chart.
    pub title: String,
    /// A sentence below the heading.
    pub note: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What it shows.
    pub lines: Vec<Line>,
    /// Places on the horizontal axis where something went wrong.
    pub troubles: Vec<f64>,
}

/// What the script needs of a line.
#[derive(Serialize)]
struct Trace<'a> {
    name: &'a str,
    colour: usize,
    at: Vec<(f64, f64)>,
    label: Vec<String>,
    text: Vec<String>,
}

/// An axis with its ends, in its own (possibly stretched) numbers.
struct Ruler {
    axis: Axis,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// Where `value` lies on the unrolled axis.
    fn unroll(self, value: f64) -> f64 {
        match self {
            Axis::Seconds | Axis::Rate => value,
            Axis::Latency => value.max(1e-3).log10(),
            Axis::Quantile => -(1.0 - value).max(1e-9).log10(),
        }
    }

    /// A tick's text: ticks are round, so zeros behind the point say nothing.
    fn tick(self, value: f64) -> String {
        let text = self.text(value);
        let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
        let space = if unit.is_empty() { "" } else { " " };
        match number.contains('.') && self != Axis::Quantile {
            true => format!("{}{space}{unit}", number.trim_end_matches('0').trim_end_matches('.')),
            false => text,
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Axis::Seconds => format!("{} s", (value * 10.0).round() / 10.0),
            Axis::Rate => short(value),
            Axis::Latency => duration(value),
            Axis::Quantile => format!("p{}", percentile(value)),
        }
    }
}

impl Ruler {
    /// From the lowest to the highest of `values`, rounded outwards, over the pixels `start..end`.
    fn new(axis: Axis, values: impl Iterator<Item = f64>, start: f64, end: f64) -> Ruler {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            low = low.min(axis.unroll(value));
            high = high.max(axis.unroll(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let (from, to) = match axis {
            Axis::Rate => (0.0, (high * 1.06).max(1.0)),
            Axis::Latency => ((low - 0.04).min(high - 0.25), high + 0.08),
            Axis::Seconds | Axis::Quantile => (0.0, high.max(1.0)),
        };
        Ruler { axis, from, to, start, end }
    }

    fn pixel(&self, value: f64) -> f64 {
        let share = (self.axis.unroll(value) - self.from) / (self.to - self.from);
        self.start + share * (self.end - self.start)
    }

    /// Values worth a line of the grid.
    fn ticks(&self) -> Vec<f64> {
        match self.axis {
            Axis::Seconds | Axis::Rate => {
                let step = nice_step(self.to / 5.0);
                let count = (self.to / step) as u32;
                (0..=count).map(|i| f64::from(i) * step).collect()
            }
            Axis::Latency => {
                let within = |v: &f64| (self.from..=self.to).contains(&v.log10());
                let every = |digits: &[f64]| -> Vec<f64> {
                    (-3..12)
                        .flat_map(|decade| digits.iter().map(move |d| d * 10f64.powi(decade)))
                        .filter(within)
                        .collect()
                };
                let finer = every(&[1.0, 2.0, 5.0]);
                if finer.len() <= 7 { finer } else { every(&[1.0]) }
            }
            Axis::Quantile => {
                let mut ticks = vec![0.0, 0.5];
                ticks.extend((1..=(self.to + 1e-6) as i32).map(|nines| 1.0 - 10f64.powi(-nines)));
                ticks
            }
        }
    }
}

/// 1, 2 or 5 times a power of ten, at least `raw`.
fn nice_step(raw: f64) -> f64 {
    let decade = 10f64.powf(raw.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|d| d * decade).into_iter().find(|step| *step >= raw).unwrap_or(raw)
}

impl Chart {
    /// The chart as a `<figure>`.
    pub fn figure(&self) -> String {
        let all = || self.lines.iter().flat_map(|line| line.points.iter());
        let x = Ruler::new(self.x, all().map(|p| p.0), LEFT, WIDTH - RIGHT);
        let y = Ruler::new(self.y, all().map(|p| p.1), HEIGHT - BOTTOM, TOP);
        let mut svg = format!(
            "<figure><figcaption><h2>{}</h2><p>{}</p>{}</figcaption>\
             <div class=plot><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img>",
            escape(&self.title),
            escape(&self.note),
            self.legend()
        );
        self.grid(&mut svg, &x, &y);
        for trouble in &self.troubles {
            let at = x.pixel(*trouble);
            let (low, high) = (HEIGHT - BOTTOM, TOP);
            let _ = write!(
                svg,
                "<line class=trouble x1={at:.1} x2={at:.1} y1={low:.1} y2={high:.1} />"
            );
        }
        for line in &self.lines {
            draw(&mut svg, line, &x, &y);
        }
        let _ = write!(
            svg,
            "<line class=cursor x1=0 x2=0 y1={TOP} y2={:.1} /></svg><div class=tip></div></div>\
             <script type=\"application/json\">{}</script></figure>",
            HEIGHT - BOTTOM,
            self.traces(&x, &y)
        );
        svg
    }

    fn legend(&self) -> String {
        let mut out = String::from("<ul class=legend>");
        for line in &self.lines {
            let dashed = if line.dashed { " dashed" } else { "" };
            let _ = write!(
                out,
                "<li><i class=\"c{}{dashed}\"></i>{}</li>",
                line.colour,
                escape(&line.name)
            );
        }
        if !self.troubles.is_empty() {
            out.push_str("<li><i class=bad></i>errors or retries</li>");
        }
        out + "</ul>"
    }

    fn grid(&self, svg: &mut String, x: &Ruler, y: &Ruler) {
        for tick in y.ticks() {
            let at = y.pixel(tick);
            let _ = write!(
                svg,
                "<line class=grid x1={LEFT} x2={:.1} y1={at:.1} y2={at:.1} />\
                 <text class=y x={:.1} y={:.1}>{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.0,
                self.y.tick(tick)
            );
        }
        for tick in x.ticks() {
            let at = x.pixel(tick);
            let _ = write!(
                svg,
                "<line class=tick x1={at:.1} x2={at:.1} y1={:.1} y2={:.1} />\
                 <text class=x x={at:.1} y={:.1}>{}</text>",
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 5.0,
                HEIGHT - BOTTOM + 20.0,
                self.x.tick(tick)
            );
        }
        let _ = write!(
            svg,
            "<line class=axis x1={LEFT} x2={:.1} y1={low:.1} y2={low:.1} />",
            WIDTH - RIGHT,
            low = HEIGHT - BOTTOM
        );
    }

    fn traces(&self, x: &Ruler, y: &Ruler) -> String {
        let round = |pixel: f64| (pixel * 10.0).round() / 10.0;
        let traces: Vec<Trace<'_>> = self
            .lines
            .iter()
            .map(|line| Trace {
                name: &line.name,
                colour: line.colour,
                at: line
                    .points
                    .iter()
                    .map(|p| (round(x.pixel(p.0)), round(y.pixel(p.1))))
                    .collect(),
                label: line.points.iter().map(|p| self.x.text(p.0)).collect(),
                text: line.points.iter().map(|p| self.y.text(p.1)).collect(),
            })
            .collect();
        // A name that holds "</script>" must not end the script.
        serde_json::to_string(&traces).expect("numbers and strings").replace('<', "\\u003c")
    }
}

fn draw(svg: &mut String, line: &Line, x: &Ruler, y: &Ruler) {
    let mut path = String::new();
    for (at, point) in line.points.iter().enumerate() {
        let verb = if at == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{verb}{:.1} {:.1}", x.pixel(point.0), y.pixel(point.1));
    }
    let dashed = if line.dashed { " dashed" } else { "" };
    if y.axis == Axis::Rate && !line.dashed && line.points.len() > 1 {
        let (first, last) = (line.points[0].0, line.points[line.points.len() - 1].0);
        let _ = write!(
            svg,
            "<path class=\"area c{}\" d=\"{path}L{:.1} {floor:.1}L{:.1} {floor:.1}Z\" />",
            line.colour,
            x.pixel(last),
            x.pixel(first),
            floor = y.start
        );
    }
    let _ = write!(svg, "<path class=\"line c{}{dashed}\" d=\"{path}\" />", line.colour);
}

/// Text that is safe inside HTML, attributes included.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let rate = Ruler::new(Axis::Rate, [87_000.0].into_iter(), 0.0, 100.0);
        assert_eq!(rate.ticks(), [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0]);
        let latency = Ruler::new(Axis::Latency, [80.0, 120_000.0].into_iter(), 0.0, 100.0);
        assert_eq!(latency.ticks(), [100.0, 1e3, 1e4, 1e5]);
        let tail = Ruler::new(Axis::Quantile, [0.0, 0.999].into_iter(), 0.0, 300.0);
        assert_eq!(tail.ticks().len(), 5);
        assert!((tail.pixel(0.9) - 100.0).abs() < 1e-6 && (tail.pixel(0.99) - 200.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_to_show_is_still_a_chart() {
        let chart = Chart {
            title: "a < b".into(),
            note: String::new(),
            x: Axis::Seconds,
            y: Axis::Rate,
            lines: vec![Line {
                name: "</script>".into(),
                colour: 1,
                dashed: false,
                points: vec![],
            }],
            troubles: vec![],
        };
        let figure = chart.figure();
        assert!(figure.contains("a &lt; b") && !figure.contains("NaN"));
        assert_eq!(figure.matches("</script>").count(), 1, "only our own");
    }
}

//! A statement that another connection repeats while a workload runs: what a scan does to point reads, measured.
//! It begins before the connections of the workload are opened, so its counts are of a little more than the run.
//!
//! One request at a time, page after page to the end, and again from the front, until the run is over. A page that does
//! not come within the client's time-out, or an error, is counted, and the statement begins again on a new connection.
//!
//! Invariants
//! 1. The first page is asked for before the run begins, so that a statement that is refused ends the command.
//! 2. The statement never ends the run: its errors are counted and shown, and the verdict of the run is that of the
//!    workload.
//!
//! Not here: the workload's own connections (`client/worker.rs`), the flags `--beside` and `--beside-rows`
//! (`flags.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cql::frame::client::Reply;
use cql::frame::request::{Parameters, Query, Request};

use super::handshake::Target;
use super::link::Link;
use crate::error::{Error, Result};
use crate::report::units::grouped;

/// How long it waits after an error, so that a server that refuses it is not asked at full speed.
const ERROR_WAIT: Duration = Duration::from_millis(100);

/// A statement that is being repeated.
#[derive(Debug)]
pub struct Beside {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Repeated>,
    text: String,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repeated {
    /// How often the statement was answered to its end.
    pub times: u64,
    /// Pages that were answered.
    pub pages: u64,
    /// Rows of these pages.
    pub rows: u64,
    /// The longest that a page took, or its error.
    pub page_max: Duration,
    /// Errors, and the text of the first.
    pub errors: (u64, Option<String>),
}

/// How far one repetition is.
struct Place {
    link: Link,
    /// `None`: at the front.
    state: Option<Vec<u8>>,
}

impl Beside {
    /// Begins to repeat a statement with pages of so many rows. The first page is asked for here, so that a statement
    /// that is refused is an error of the command.
    pub fn start(target: Target, text: String, page_rows: u32) -> Result<Beside> {
        let mut repeated = Repeated::default();
        let mut place = Place { link: target.open()?.link, state: None };
        page(&target, &mut place, (&text, page_rows), &mut repeated)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopping, statement) = (stop.clone(), text.clone());
        let thread = std::thread::Builder::new().name("beside".into()).spawn(move || {
            let mut place = Some(place);
            while !stopping.load(Ordering::Relaxed) {
                let stepped = step(&target, &mut place, (&statement, page_rows), &mut repeated);
                if let Err(error) = stepped {
                    place = None;
                    repeated.errors.0 += 1;
                    repeated.errors.1.get_or_insert(error.to_string());
                    std::thread::sleep(ERROR_WAIT);
                }
            }
            repeated
        });
        let thread = thread.map_err(Error::io("starting a thread"))?;
        Ok(Beside { stop, thread, text })
    }

    /// Ends it after the page that is under way; what came of it, in a line.
    pub fn stop(self) -> Result<String> {
        self.stop.store(true, Ordering::Relaxed);
        let repeated = self.thread.join();
        let repeated = repeated.map_err(|_| Error::Invalid("a client thread panicked".into()))?;
        Ok(line(&self.text, &repeated))
    }
}

fn line(text: &str, repeated: &Repeated) -> String {
    let Repeated { times, pages, rows, page_max, errors: (errors, first) } = repeated;
    let errors = match first {
        Some(first) => format!("{} errors, the first: {first}", grouped(*errors)),
        None => "0 errors".to_owned(),
    };
    format!(
        "beside it: {text}\n  {} times to its end, {} pages, {} rows, the longest page {:.0} ms, {errors}",
        grouped(*times),
        grouped(*pages),
        grouped(*rows),
        page_max.as_secs_f64() * 1000.0
    )
}

fn step(
    target: &Target,
    place: &mut Option<Place>,
    statement: (&str, u32),
    repeated: &mut Repeated,
) -> Result<()> {
    let place = match place {
        Some(place) => place,
        None => place.insert(Place { link: target.open()?.link, state: None }),
    };
    page(target, place, statement, repeated)
}

/// Asks for the next page.
fn page(
    target: &Target,
    place: &mut Place,
    (text, page_rows): (&str, u32),
    repeated: &mut Repeated,
) -> Result<()> {
    let parameters = Parameters {
        page_rows: Some(page_rows),
        paging_state: place.state.as_deref(),
        ..Parameters::plain(target.consistency, target.version)
    };
    let begun = Instant::now();
    let request = Request::Query(Query { text, parameters });
    let answered = place.link.call(&request, |reply| match reply {
        Reply::Rows(rows) => Ok((rows.row_count, rows.metadata.paging_state.map(<[u8]>::to_vec))),
        _ => Err(Error::Invalid("--beside: the statement gives no rows".into())),
    });
    repeated.page_max = repeated.page_max.max(begun.elapsed());
    let (rows, next) = answered?;
    repeated.pages += 1;
    repeated.rows += rows as u64;
    repeated.times += u64::from(next.is_none());
    place.state = next;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_was_done_and_what_failed() {
        let mut repeated = Repeated {
            times: 3,
            pages: 1200,
            rows: 6_000_000,
            page_max: Duration::from_micros(12_400),
            errors: (0, None),
        };
        let text = "SELECT * FROM t";
        let expected = "beside it: SELECT * FROM t\n  3 times to its end, 1,200 pages, 6,000,000 rows, \
                        the longest page 12 ms, 0 errors";
        assert_eq!(line(text, &repeated), expected);
        repeated.errors = (2, Some("timed out".into()));
        assert!(line(text, &repeated).ends_with("2 errors, the first: timed out"));
    }
}

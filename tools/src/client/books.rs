//! What an answer means for the run: judged, counted, journaled, and what happens next.

use super::lanes::Due;
use super::pace::Clock;
use crate::error::Result;
use crate::journal::{Journal, Record};
use crate::limits::{ATTEMPTS_MAX, BACKOFF_NS_MAX, BACKOFF_NS_MIN};
use crate::measure::interval::{Interval, Kind, note_failure};
use crate::proof::Floor;
use crate::wire::Rows;
use crate::workload::{Findings, Op, Sent, Verb, Workload};
use cql::frame::client::Reply;

/// The accounts of one client thread.
#[derive(Debug)]
pub struct Books {
    /// Judges the answers.
    pub workload: Workload,
    /// The current second.
    pub interval: Interval,
    /// Where acknowledged writes go, if anywhere.
    pub journal: Option<Journal>,
    /// The time.
    pub clock: Clock,
    findings: Findings,
}

/// What follows an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum After {
    /// Nothing.
    Over,
    /// Another operation, at once.
    Follow(Due),
    /// The same once more, after a pause.
    Again {
        /// What to send.
        due: Due,
        /// When.
        not_before_ns: u64,
    },
    /// The same once more, after the statements are prepared anew.
    Prepare(Due),
}

/// What an operation fails of when its server goes away.
pub const CONNECTION_LOST: &str = "connection lost";

const UNPREPARED: u32 = 0x2500;

/// The errors that may pass, with their names.
fn passing(code: u32) -> Option<&'static str> {
    Some(match code {
        0x1000 => "unavailable",
        0x1001 => "overloaded",
        0x1002 => "bootstrapping",
        0x1100 => "write timeout",
        0x1200 => "read timeout",
        _ => return None,
    })
}

/// The names of the others.
fn lasting(code: u32) -> String {
    let name = match code {
        0x0000 => "server error",
        0x000A => "protocol error",
        0x0100 => "bad credentials",
        0x1003 => "truncate error",
        0x1300 => "read failure",
        0x1500 => "write failure",
        0x2000 => "syntax error",
        0x2100 => "unauthorized",
        0x2200 => "invalid",
        0x2300 => "configuration error",
        0x2400 => "already exists",
        UNPREPARED => "unprepared",
        0xF000 => "rate limit",
        _ => return format!("error 0x{code:04X}"),
    };
    name.to_owned()
}

impl Books {
    /// Empty accounts.
    pub fn new(workload: Workload, journal: Option<Journal>, clock: Clock) -> Books {
        Books {
            workload,
            interval: Interval::new(0),
            journal,
            clock,
            findings: Findings::default(),
        }
    }

    /// Takes in the answer to `due`, which was sent at `sent_ns` and came at `now_ns`.
    #[inline]
    pub fn settle(
        &mut self,
        due: &Due,
        sent_ns: u64,
        floor: &Floor,
        reply: Reply<'_>,
        now_ns: u64,
    ) -> Result<After> {
        match reply {
            Reply::Error { code, text, .. } => Ok(self.settle_error(due, code, text, now_ns)),
            Reply::Rows(rows) => {
                let columns = rows.metadata.column_count as u32;
                let rows = Rows::new(rows.cell_bytes(), rows.row_count as u32, columns);
                self.settle_success(due, sent_ns, floor, rows, now_ns)
            }
            _ => self.settle_success(due, sent_ns, floor, Rows::NONE, now_ns),
        }
    }

    #[inline]
    fn settle_success(
        &mut self,
        due: &Due,
        sent_ns: u64,
        floor: &Floor,
        rows: Rows<'_>,
        now_ns: u64,
    ) -> Result<After> {
        let op = &due.op;
        self.interval.record(op.verb.kind(), now_ns.saturating_sub(due.intended_ns));
        if op.verb == Verb::WriteBack {
            self.interval.record(Kind::Modify, now_ns.saturating_sub(due.began_ns));
        }
        if op.verb.is_write()
            && let Some(journal) = &mut self.journal
        {
            let (key, mask) = (self.workload.journal_key(op), self.workload.mask(op));
            journal.note(Record { key, sequence: due.sequence, mask });
        }
        let sent = Sent { sequence: due.sequence, floor, at: self.clock.at(sent_ns) };
        let follows = self.workload.complete(op, sent, rows, &mut self.findings)?;
        self.interval.rows += std::mem::take(&mut self.findings.rows);
        self.interval.not_found += std::mem::take(&mut self.findings.not_found);
        for violation in self.findings.violations.drain(..) {
            note_failure(&mut self.interval.violations, violation.name(), || violation.to_string());
        }
        Ok(match follows {
            None => After::Over,
            Some(op) => After::Follow(Due {
                op,
                sequence: 0,
                intended_ns: now_ns,
                began_ns: due.intended_ns,
                attempts: 0,
            }),
        })
    }

    #[cold]
    fn settle_error(&mut self, due: &Due, code: u32, text: &str, now_ns: u64) -> After {
        let again = Due { attempts: due.attempts + 1, ..*due };
        if again.attempts < ATTEMPTS_MAX {
            if code == UNPREPARED {
                note_failure(&mut self.interval.retries, "unprepared", || text.to_owned());
                return After::Prepare(again);
            }
            if let Some(name) = passing(code) {
                note_failure(&mut self.interval.retries, name, || text.to_owned());
                let pause_ns = (BACKOFF_NS_MIN << due.attempts).min(BACKOFF_NS_MAX);
                return After::Again { due: again, not_before_ns: now_ns + pause_ns };
            }
        }
        let name = passing(code).map_or_else(|| lasting(code), str::to_owned);
        self.fail(&due.op, &name, text);
        After::Over
    }

    /// The connection was lost with `due` on its way: whether it arrived is not known.
    pub fn settle_lost(&mut self, due: &Due, reason: &str, reconnects: Reconnects) -> After {
        match reconnects {
            Reconnects::Yes => {
                note_failure(&mut self.interval.retries, CONNECTION_LOST, || reason.to_owned());
                After::Again {
                    due: Due { attempts: due.attempts.max(1), ..*due },
                    not_before_ns: 0,
                }
            }
            Reconnects::No => {
                self.fail(&due.op, CONNECTION_LOST, reason);
                After::Over
            }
        }
    }

    /// `op` failed for good.
    pub fn fail(&mut self, op: &Op, name: &str, text: &str) {
        note_failure(&mut self.interval.errors, name, || {
            format!("{} of key {}: {text}", op.verb.kind().name(), op.key)
        });
        self.workload.failed(op);
    }
}

/// Whether lost connections are opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnects {
    /// They are.
    Yes,
    /// Their operations fail.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FIELDS_MAX;
    use crate::workload::record::RecordShape;
    use crate::workload::ycsb::Fill;
    use cql::frame::Reader;

    fn books() -> (Books, Due) {
        let shape = RecordShape { keyspace: "k".into(), fields: 1, field_bytes: 40 };
        let op = shape.op(Verb::Insert, 3, 0);
        let fill = Fill { shape, next: 0, end: 10 };
        let due = Due { op, sequence: 9, intended_ns: 100, began_ns: 100, attempts: 0 };
        (Books::new(Workload::Fill(fill), None, Clock::start()), due)
    }

    fn error(books: &mut Books, due: &Due, code: u32) -> After {
        let details = Reader::new(&[]);
        let reply = Reply::Error { code, text: "why", details };
        books.settle(due, 100, &[0; FIELDS_MAX], reply, 1000).unwrap()
    }

    #[test]
    fn what_may_pass_is_tried_again_with_growing_pauses_and_then_given_up() {
        let (mut books, mut due) = books();
        let mut pauses = Vec::new();
        while let After::Again { due: again, not_before_ns } = error(&mut books, &due, 0x1001) {
            assert_eq!(again.sequence, 9, "the same write");
            pauses.push(not_before_ns - 1000);
            due = again;
        }
        assert_eq!(pauses.len() as u32, ATTEMPTS_MAX - 1);
        assert!(pauses.is_sorted() && pauses[0] == BACKOFF_NS_MIN);
        assert_eq!(*pauses.last().unwrap(), BACKOFF_NS_MAX);
        assert_eq!(books.interval.retries["overloaded"].count, u64::from(ATTEMPTS_MAX - 1));
        assert_eq!(books.interval.errors["overloaded"].count, 1);
    }

    #[test]
    fn what_lasts_fails_at_once_under_its_name() {
        let (mut books, due) = books();
        assert_eq!(error(&mut books, &due, 0x2200), After::Over);
        assert_eq!(books.interval.errors["invalid"].examples, ["insert of key 3: why"]);
        assert!(matches!(error(&mut books, &due, UNPREPARED), After::Prepare(_)));
        assert_eq!(books.settle_lost(&due, "gone", Reconnects::No), After::Over);
        assert_eq!(books.interval.errors["connection lost"].count, 1);
    }

    #[test]
    fn a_success_is_timed_from_when_it_was_meant() {
        let (mut books, due) = books();
        let after = books.settle(&due, 600, &[0; FIELDS_MAX], Reply::Void, 5_100).unwrap();
        assert_eq!(after, After::Over);
        let latency = books.interval.latencies(Kind::Insert).unwrap().max();
        assert!((4_900..5_100).contains(&latency), "{latency}");
    }
}

//! One topic's session: statements go, answers come back as the suite writes them.
//!
//! ```text
//! plain      QUERY, with values when a case binds some (their types are asked for by PREPARE)
//! prepared   PREPARE once a text, EXECUTE ever after; UNPREPARED prepares again, as drivers do
//! pages      each page with the state of the one before; rows of all pages are one answer
//! ```
//!
//! Version 5 trusts the columns that PREPARE told until an answer says that they changed, so that
//! a statement which is prepared before an ALTER is read as a driver would read it.
//!
//! Invariants
//! 1. An answer is text, one line for each warning, for the columns and for each row, or one line with an error's code
//!    and words. An error on a later page is the answer's last line.
//! 2. What a session has prepared outlives its connection, so that ids of before a restart are executed, too.
//! 3. An error of `run` is the connection's or the suite's. A refusal by the server is an answer.
//!
//! Not here: the cases and their format (`suite.rs`), what an answer is compared with (`golden.rs`), the text of a
//! value (`kind.rs`), values that are bound (`literal.rs`).

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use cql::frame::client::{Answer, Metadata, Reply, Rows};
use cql::frame::request::{Execute, Parameters, Prepare, Query, Request, ValueList};
use cql::frame::{Consistency, Reader, Value, Version};

use super::kind::Kind;
use super::literal::{self, Bound};
use super::suite::{Case, OK};
use crate::client::Connection;
use crate::server::Address;

const UNPREPARED: u32 = 0x2500;
/// A statement is prepared again when the schema has changed, and after a restart.
const PREPARES_MAX: usize = 3;
/// More pages than this come from a server that goes round in circles.
const PAGES_MAX: usize = 10_000;

/// How a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    /// By PREPARE and EXECUTE.
    pub(super) prepared: bool,
    /// Rows of a page.
    pub(super) page_rows: Option<u32>,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.prepared { "prepared" } else { "plain" })?;
        match self.page_rows {
            Some(rows) => write!(f, ", pages of {rows}"),
            None => Ok(()),
        }
    }
}

type Columns = Vec<(String, Kind)>;

#[derive(Clone)]
struct Prepared {
    id: Vec<u8>,
    result_id: Vec<u8>,
    markers: Vec<Kind>,
    columns: Columns,
}

/// A page, or what came instead of it.
enum Page {
    Rows { columns: Columns, new_id: Option<Vec<u8>>, rows: Vec<String>, next: Option<Vec<u8>> },
    Unprepared,
    Other(String),
}

/// A connection that uses the topic's keyspace, and what it has prepared.
pub(super) struct Session {
    connection: Connection,
    prepared: HashMap<String, Prepared>,
}

impl Session {
    /// Connects; what a session before has prepared is remembered by its ids.
    pub(super) fn open(
        address: &Address,
        version: Version,
        before: Option<Session>,
    ) -> Result<Session, String> {
        let prepared = before.map(|session| session.prepared).unwrap_or_default();
        Ok(Session { connection: Connection::open(address, version)?, prepared })
    }

    /// Runs a statement that must succeed.
    pub(super) fn must(&mut self, statement: &str) -> Result<(), String> {
        self.connection.must(statement)
    }

    /// The answer to a case, all its pages as one.
    pub(super) fn run(&mut self, case: &Case, mode: Mode) -> Result<String, String> {
        for _ in 0..PREPARES_MAX {
            if let Some(answer) = self.try_run(case, mode)? {
                return Ok(answer);
            }
        }
        Err(format!("{}: never stays prepared", case.line()))
    }

    /// The answer; `None` if the server has forgotten the statement: prepare and bind again.
    fn try_run(&mut self, case: &Case, mode: Mode) -> Result<Option<String>, String> {
        let asked = match (mode.prepared, &case.with) {
            (true, _) => Some(self.prepare(&case.statement)?),
            // Only the types of its markers are wanted, and they are of today.
            (false, Some(_)) => Some(self.prepare_afresh(&case.statement)?),
            (false, None) => None,
        };
        let prepared = match asked.transpose() {
            Ok(prepared) => prepared,
            Err(refused) => return Ok(Some(refused)),
        };
        let mut values = ValueList::new();
        if let (Some(with), Some(prepared)) = (&case.with, &prepared) {
            let bound = literal::parse(with, &prepared.markers)
                .map_err(|why| format!("{}: {why}", case.line()))?;
            bound.iter().for_each(|value| {
                values.push(match value {
                    Bound::Bytes(bytes) => Value::Bytes(bytes),
                    Bound::Null => Value::Null,
                    Bound::Unset => Value::Unset,
                });
            });
        }
        let prepared = prepared.filter(|_| mode.prepared);
        self.pages(case, mode, prepared, &values)
    }

    fn pages(
        &mut self,
        case: &Case,
        mode: Mode,
        mut prepared: Option<Prepared>,
        values: &ValueList,
    ) -> Result<Option<String>, String> {
        let (mut warnings, mut lines, mut state) = (Vec::new(), Vec::new(), None::<Vec<u8>>);
        for page in 0..PAGES_MAX {
            let got = self.page(case, mode, prepared.as_ref(), values, state.as_deref())?;
            let (new_warnings, got) = got;
            for warning in new_warnings {
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
            match got {
                Page::Rows { columns, new_id, rows, next } => {
                    if page == 0 {
                        lines.push(header(&columns));
                    }
                    if let (Some(id), Some(known)) = (new_id, prepared.as_mut()) {
                        (known.result_id, known.columns) = (id, columns);
                        self.prepared.insert(case.statement.clone(), known.clone());
                    }
                    lines.extend(rows);
                    state = next;
                }
                Page::Unprepared => {
                    self.prepared.remove(&case.statement);
                    return Ok(None);
                }
                Page::Other(text) => {
                    lines.push(text);
                    // An error on a later page is the end.
                    state = None;
                }
            }
            if state.is_none() {
                warnings.append(&mut lines);
                return Ok(Some(warnings.join("\n")));
            }
        }
        Err(format!("{}: more than {PAGES_MAX} pages", case.line()))
    }

    fn page(
        &mut self,
        case: &Case,
        mode: Mode,
        prepared: Option<&Prepared>,
        values: &ValueList,
        state: Option<&[u8]>,
    ) -> Result<(Vec<String>, Page), String> {
        let version = self.connection.version;
        let parameters = Parameters {
            values: values.as_values(version),
            page_rows: mode.page_rows,
            paging_state: state,
            timestamp_us: case.timestamp_us,
            now_s: case.now_s.map(|seconds| now_s() + seconds),
            skip_metadata: version >= Version::V5
                && prepared.is_some_and(|prepared| !prepared.columns.is_empty()),
            ..Parameters::plain(Consistency::LocalOne, version)
        };
        let request = match prepared {
            Some(prepared) => Request::Execute(Execute {
                id: &prepared.id,
                result_metadata_id: Some(&prepared.result_id),
                parameters,
            }),
            None => Request::Query(Query { text: &case.statement, parameters }),
        };
        let known = prepared.map(|prepared| &prepared.columns);
        self.connection.call(&request, |answer| {
            let warnings = answer.warnings.iter().flat_map(|list| list.iter());
            let warnings = warnings.map(|text| format!("warning {}", one_line(text))).collect();
            Ok((warnings, read(case, answer, known)?))
        })?
    }

    /// The statement as prepared, or the refusal.
    fn prepare(&mut self, text: &str) -> Result<Result<Prepared, String>, String> {
        if let Some(known) = self.prepared.get(text) {
            return Ok(Ok(known.clone()));
        }
        let prepared = self.prepare_afresh(text)?;
        if let Ok(prepared) = &prepared {
            self.prepared.insert(text.to_owned(), prepared.clone());
        }
        Ok(prepared)
    }

    fn prepare_afresh(&mut self, text: &str) -> Result<Result<Prepared, String>, String> {
        let request = Request::Prepare(Prepare { text, keyspace: None });
        self.connection.call(&request, |answer| match answer.reply {
            Reply::Prepared(reply) => {
                let markers = columns(&reply.markers)?;
                Ok(Ok(Prepared {
                    id: reply.id.to_vec(),
                    result_id: reply.result_metadata_id.unwrap_or_default().to_vec(),
                    markers: markers.into_iter().map(|(_, kind)| kind).collect(),
                    columns: columns(&reply.result)?,
                }))
            }
            Reply::Error { code, text, .. } => Ok(Err(error(code, text))),
            ref other => Err(format!("PREPARE was answered {other:?}")),
        })?
    }
}

/// An answer as the suite writes it.
fn read(case: &Case, answer: &Answer<'_>, known: Option<&Columns>) -> Result<Page, String> {
    Ok(match answer.reply {
        Reply::Rows(rows) => {
            let described = columns(&rows.metadata)?;
            let is_bare = described.is_empty() && rows.metadata.column_count > 0;
            let columns = if is_bare { known.cloned().unwrap_or_default() } else { described };
            Page::Rows {
                rows: show_rows(&columns, &rows)?,
                columns,
                new_id: rows.metadata.new_id.map(<[u8]>::to_vec),
                next: rows.metadata.paging_state.map(<[u8]>::to_vec),
            }
        }
        Reply::Error { code: UNPREPARED, .. } => Page::Unprepared,
        Reply::Error { code, text, .. } => Page::Other(error(code, text)),
        Reply::Void if case.is_schema_change() => Page::Other("ok, nothing changed".to_owned()),
        Reply::Void | Reply::SetKeyspace(_) | Reply::SchemaChange(..) => Page::Other(OK.to_owned()),
        ref other => return Err(format!("{}: answered {other:?}", case.line())),
    })
}

fn error(code: u32, text: &str) -> String {
    format!("error 0x{code:04x} {}", one_line(text))
}

fn one_line(text: &str) -> String {
    text.replace('\n', "\\n").trim_end().to_owned()
}

fn header(columns: &Columns) -> String {
    let shown: Vec<String> =
        columns.iter().map(|(name, kind)| format!("{name} {}", kind.name())).collect();
    shown.join(" | ")
}

fn columns(metadata: &Metadata<'_>) -> Result<Columns, String> {
    let kind =
        |(name, bytes): (&str, &[u8])| Ok((name.to_owned(), Kind::read(&mut Reader::new(bytes))?));
    metadata.columns().map(kind).collect()
}

fn show_rows(columns: &Columns, rows: &Rows<'_>) -> Result<Vec<String>, String> {
    if rows.metadata.column_count != columns.len() {
        let count = rows.metadata.column_count;
        return Ok(vec![format!("rows of {count} columns, {} were told", columns.len())]);
    }
    let mut cells = rows.cells();
    let mut shown = Vec::new();
    for _ in 0..rows.row_count {
        let mut row = Vec::new();
        for (_, kind) in columns {
            let cell = cells.next().ok_or("rows end before their last cell")?;
            row.push(kind.show(cell.map_err(|error| error.to_string())?));
        }
        shown.push(row.join(" | "));
    }
    Ok(shown)
}

fn now_s() -> i32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i32::try_from(now.as_secs()).unwrap_or(i32::MAX)
}

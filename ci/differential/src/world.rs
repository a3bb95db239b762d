//! One table's life: its steps one after the other, each answer compared with the model's.
//!
//! ```text
//! generator or script ─► step ─► model ─► what must be answered
//!                          └───► request ─► answer, page by page ─► the same?
//! ```
//!
//! 1. `advance` takes the next step. The model does it at once, so what must be answered is known before the request is
//!    sent.
//! 2. A prepared statement takes several answers: that of PREPARE, UNPREPARED where the server has forgotten it (it is
//!    then prepared again), and that of EXECUTE.
//! 3. The rows of all pages are compared as one, to the byte and in order; the columns of each page by themselves.
//! 4. CREATE is the first step and DROP the last, whatever the source of the steps.
//!
//! Invariants
//! 1. One request of a world is under way at a time, so that a seed means the same steps, the same answers.
//! 2. What the model refuses must be refused as `Invalid`, and changes nothing.
//! 3. Known defects of Apache Cassandra are passed over and counted, only where the server is one.
//!
//! Not here: sending and streams (`driver.rs`), what is drawn (`generate.rs`), what a read shows (`query.rs`), which
//! UNPREPARED has a reason (`prepared.rs`), a shorter history (`shrink.rs`).

use std::collections::{BTreeMap, VecDeque};

use cql::frame::client::{Reply, Rows};

use crate::columns::{self, ShownColumn};
use crate::connection::{Ask, By};
use crate::generate::{Abilities, Generator};
use crate::prepared::{Preparations, Prepared};
use crate::query::{self, Answer, answer};
use crate::schema::{Role, Schema};
use crate::statement::{Operation, Sending, Step};
use crate::table::Table;
use crate::text::{Sent, Text, text};
use crate::value::Type;

#[cfg(test)]
mod tests;

/// More pages than any answer has rows: the server goes round in circles.
const PAGES_MAX: usize = 5_000;

const READ_FAILURE: u32 = 0x1300;
const PROTOCOL_ERROR: u32 = 0x000a;
const INVALID: u32 = 0x2200;
const UNPREPARED: u32 = 0x2500;
/// A statement is prepared again when its table has changed, and when others have taken its memory: for one page not
/// more often than this.
const FORGOTTEN_MAX: usize = 10;

/// Where the steps come from.
enum Source {
    Drawn(Box<Generator>),
    Script(VecDeque<Step>),
}

/// An answer that is not the model's.
#[derive(Clone, Debug)]
pub(crate) struct Mismatch {
    /// What was asked.
    pub(crate) statement: String,
    /// What the model says.
    pub(crate) expected: String,
    /// What the server said.
    pub(crate) got: String,
}

/// What a world wants next.
pub(crate) enum Wish {
    /// A statement, or the next page of the one before.
    Request,
    /// A line for the admin socket.
    Admin(String),
    /// Nothing: its life is over.
    Nothing,
}

/// The request that is under way.
struct Asked {
    step: Step,
    text: Text,
    page_rows: Option<u32>,
    state: Option<Vec<u8>>,
    /// The rows of the pages so far.
    rows: Vec<Answer>,
    pages: usize,
    /// How often the server did not know the prepared statement.
    forgotten: usize,
    must: Must,
}

/// What the answer must be.
enum Must {
    /// Void: a write, a batch or TRUNCATE is done.
    Write,
    /// SchemaChange of the world's table, with this word.
    ChangeSchema(&'static str),
    BeRefused,
    Show(Vec<Answer>, Vec<ShownColumn>),
}

/// A table, its model and what is asked of it.
pub(crate) struct World {
    pub(crate) seed: u64,
    /// The name of the table.
    pub(crate) name: String,
    /// The schema that it began with.
    pub(crate) begin: Schema,
    pub(crate) history: Vec<Step>,
    table: Table,
    source: Source,
    asked: Option<Asked>,
    /// Text of each prepared statement -> what the client knows of it.
    prepared: BTreeMap<String, Prepared>,
    /// How often the table was created or altered.
    schema_changes: u64,
    /// The server is an Apache Cassandra: its own defects are passed over.
    forgives: bool,
    /// How many were.
    pub(crate) forgiven: u64,
    /// Statements whose answers were compared.
    pub(crate) compared: u64,
}

impl World {
    /// The world of a seed.
    pub(crate) fn drawn(seed: u64, name: String, abilities: Abilities) -> World {
        let (generator, schema) = Generator::new(seed, abilities);
        World::new(seed, name, abilities, schema, Source::Drawn(Box::new(generator)))
    }

    /// A world whose steps are given.
    pub(crate) fn scripted(
        seed: u64,
        name: String,
        abilities: Abilities,
        begin: &Schema,
        steps: &[Step],
    ) -> World {
        let source = Source::Script(steps.iter().cloned().collect());
        World::new(seed, name, abilities, begin.clone(), source)
    }

    fn new(seed: u64, name: String, abilities: Abilities, begin: Schema, source: Source) -> World {
        World {
            seed,
            name,
            begin: begin.clone(),
            history: Vec::new(),
            table: Table::new(begin),
            source,
            asked: None,
            prepared: BTreeMap::new(),
            schema_changes: 0,
            forgives: abilities.is_cassandra,
            forgiven: 0,
            compared: 0,
        }
    }

    /// How many reads its life has had.
    pub(crate) fn reads(&self) -> u64 {
        let is_read = |step: &&Step| matches!(step.operation, Operation::Select(_));
        self.history.iter().filter(is_read).count() as u64
    }

    /// Takes the next step, if the last one is answered as a whole.
    pub(crate) fn advance(&mut self) -> Wish {
        if self.asked.is_some() {
            return Wish::Request;
        }
        loop {
            let Some(step) = self.next() else { return Wish::Nothing };
            if !self.table.accepts(&step.operation) {
                continue;
            }
            self.history.push(step.clone());
            let verb = match step.operation {
                Operation::Flush => "flush",
                Operation::Compact => "compact",
                _ => {
                    self.ask(step);
                    return Wish::Request;
                }
            };
            return Wish::Admin(format!("{verb} {} {}\n", crate::KEYSPACE, self.name));
        }
    }

    fn next(&mut self) -> Option<Step> {
        let plain = |operation| Some(Step { operation, sending: Sending::Plain });
        match self.history.last().map(|step| &step.operation) {
            None => return plain(Operation::Create),
            Some(Operation::Leave) => return None,
            Some(_) => {}
        }
        let step = match &mut self.source {
            Source::Drawn(generator) => generator.step(&self.table),
            Source::Script(steps) => steps.pop_front(),
        };
        step.or_else(|| plain(Operation::Leave))
    }

    fn ask(&mut self, step: Step) {
        let text =
            text(&self.table.schema, &self.name, &step).expect("storage is not asked by CQL");
        let mut page_rows = None;
        let must = match &step.operation {
            Operation::Select(select) => {
                page_rows = select.page_rows;
                let columns = query::columns(&self.table, select);
                Must::Show(answer(&self.table, select), columns)
            }
            operation => match (self.table.apply(operation), schema_change(operation)) {
                (Ok(()), None) => Must::Write,
                (Ok(()), Some(word)) => {
                    self.schema_changes += 1;
                    Must::ChangeSchema(word)
                }
                (Err(_), _) => Must::BeRefused,
            },
        };
        self.asked = Some(Asked {
            step,
            text,
            page_rows,
            state: None,
            rows: Vec::new(),
            pages: 0,
            forgotten: 0,
            must,
        });
    }

    /// The request that is under way.
    pub(crate) fn request(&self) -> Ask<'_> {
        let asked = self.asked.as_ref().expect("a request is under way");
        let Asked { text, page_rows, state, .. } = asked;
        Ask { text, page_rows: *page_rows, state: state.as_deref(), by: self.by(asked) }
    }

    /// By which message it is asked. Until the answer is looked at, it is the message that was sent.
    fn by(&self, asked: &Asked) -> By<'_> {
        let skips_metadata = match asked.step.sending {
            Sending::Plain | Sending::Bound => return By::Query,
            Sending::Prepared => false,
            Sending::SkippingMetadata => true,
        };
        match self.prepared.get(&asked.text.cql).filter(|statement| !statement.is_forgotten) {
            None => By::Prepare,
            Some(Prepared { id, result_id, .. }) => By::Execute { id, result_id, skips_metadata },
        }
    }

    /// Remembers what was prepared, and that the server has forgotten it. False if the answer is another one.
    fn takes_preparation(
        &mut self,
        asked: &mut Asked,
        reply: &Reply<'_>,
        preparations: &Preparations,
    ) -> bool {
        let by = self.by(asked);
        let is_prepare = matches!(by, By::Prepare);
        let is_execute = matches!(by, By::Execute { .. });
        if is_execute {
            preparations.count_executed();
        }
        match reply {
            Reply::Prepared(told) if is_prepare => {
                let before = self.prepared.remove(&asked.text.cql);
                let number = preparations.count_prepared();
                let statement = Prepared::new(told, before, self.schema_changes, number);
                self.prepared.insert(asked.text.cql.clone(), statement);
                true
            }
            Reply::Error { code: UNPREPARED, .. }
                if is_execute && asked.forgotten < FORGOTTEN_MAX =>
            {
                asked.forgotten += 1;
                let statement = self.prepared.get_mut(&asked.text.cql);
                let statement = statement.expect("what is executed was prepared");
                statement.is_forgotten = true;
                if !self.forgives {
                    preparations.count_forgotten(statement, self.schema_changes);
                }
                true
            }
            _ => false,
        }
    }

    /// Compares an answer, or keeps it until its last page has come.
    pub(crate) fn answered(
        &mut self,
        reply: &Reply<'_>,
        preparations: &Preparations,
    ) -> Result<(), Box<Mismatch>> {
        let compared = self.compare(reply, preparations);
        self.compared += u64::from(self.asked.is_none());
        compared
    }

    fn compare(
        &mut self,
        reply: &Reply<'_>,
        preparations: &Preparations,
    ) -> Result<(), Box<Mismatch>> {
        let mut asked = self.asked.take().expect("a request is under way");
        if self.takes_preparation(&mut asked, reply, preparations) {
            self.asked = Some(asked);
            return Ok(());
        }
        match (&asked.must, reply) {
            (_, Reply::Rows(rows)) => self.take_page(asked, rows),
            (Must::Write, Reply::Void) => Ok(()),
            (
                Must::ChangeSchema(word),
                Reply::SchemaChange(told, "TABLE", crate::KEYSPACE, Some(name)),
            ) if told == word && *name == self.name => Ok(()),
            (Must::BeRefused, Reply::Error { code: INVALID, .. }) => Ok(()),
            (_, Reply::Error { code, text, .. }) => {
                if self.forgives && is_defect(&asked.step, *code) {
                    self.forgiven += 1;
                    return Ok(());
                }
                let got = format!("error 0x{code:04x} {text}");
                Err(asked.differs(got))
            }
            (_, other) => Err(asked.differs(format!("{other:?}"))),
        }
    }

    /// Keeps the rows of a page, and compares those of all pages when it is the last.
    fn take_page(&mut self, mut asked: Asked, rows: &Rows<'_>) -> Result<(), Box<Mismatch>> {
        let Must::Show(expected, columns) = &asked.must else {
            return Err(asked.differs(format!("{} rows", rows.row_count)));
        };
        if let Some(got) = self.wrong_columns(&asked, columns, rows) {
            return Err(asked.differs(got));
        }
        let is_too_long = asked.page_rows.is_some_and(|page| rows.row_count > page as usize);
        if is_too_long && !self.forgives {
            return Err(asked.differs(format!("{} rows in a page", rows.row_count)));
        }
        let mut cells = rows.cells();
        for _ in 0..rows.row_count {
            let row = columns.iter().map(|_| cells.next().and_then(Result::ok));
            let row: Option<Answer> = row.map(|cell| Some(cell?.map(<[u8]>::to_vec))).collect();
            let Some(row) = row else { return Err(asked.differs("cells that end early")) };
            asked.rows.push(row);
        }
        asked.pages += 1;
        asked.forgotten = 0;
        if let Some(state) = rows.metadata.paging_state {
            if asked.pages > PAGES_MAX {
                return Err(asked.differs("pages without end"));
            }
            asked.state = Some(state.to_vec());
            self.asked = Some(asked);
            return Ok(());
        }
        if asked.rows == *expected {
            return Ok(());
        }
        if self.forgives && counts_too_much(&self.table.schema, &asked.step) {
            self.forgiven += 1;
            return Ok(());
        }
        let got = show_rows(&asked.rows, columns);
        Err(asked.differs(got))
    }

    /// What is wrong with the columns of an answer, whether it describes them or the client knows them since PREPARE;
    /// `None` if nothing is.
    fn wrong_columns(
        &mut self,
        asked: &Asked,
        columns: &[ShownColumn],
        rows: &Rows<'_>,
    ) -> Option<String> {
        let metadata = &rows.metadata;
        if metadata.column_count != columns.len() {
            return Some(format!("rows of {} columns", metadata.column_count));
        }
        let (is_execute, is_skipped) = match self.by(asked) {
            By::Query | By::Prepare => (false, false),
            By::Execute { skips_metadata, .. } => (true, skips_metadata),
        };
        let statement = self.prepared.get_mut(&asked.text.cql).filter(|_| is_execute);
        match (statement, metadata.new_id) {
            (None, None) => {}
            (None, Some(_)) => return Some("new metadata of what is not prepared".to_owned()),
            // The answer must describe what the client does not know.
            (Some(statement), Some(id)) => {
                statement.result_id = id.to_vec();
                statement.columns = columns::described(metadata);
            }
            (Some(statement), None) if is_skipped => {
                if metadata.columns().next().is_none() {
                    return statement.difference(columns);
                }
                // Apache Cassandra may take them for changed, and describe them without a new id.
                if !self.forgives {
                    return Some("columns described that the client wants to skip".to_owned());
                }
            }
            (Some(_), None) => {}
        }
        columns::difference(metadata.columns(), columns)
    }

    /// The steps so far as statements, the last ones of them at most so many.
    pub(crate) fn told(&self, count: usize) -> Vec<String> {
        let mut table = Table::new(self.begin.clone());
        let mut lines = Vec::new();
        for step in &self.history {
            lines.push(line(&table.schema, &self.name, step));
            // What is refused changes nothing.
            let _ = table.apply(&step.operation);
        }
        lines.split_off(lines.len().saturating_sub(count))
    }
}

/// By which word SchemaChange tells what an operation has done to the table; `None` if it leaves the schema alone.
fn schema_change(operation: &Operation) -> Option<&'static str> {
    match operation {
        Operation::Create => Some("CREATED"),
        Operation::Add(_) | Operation::Drop(..) => Some("UPDATED"),
        Operation::Leave => Some("DROPPED"),
        Operation::Write(_)
        | Operation::Logged(_)
        | Operation::Select(_)
        | Operation::Truncate
        | Operation::Flush
        | Operation::Compact => None,
    }
}

/// Whether an error is one of those that Apache Cassandra 5.0.9 has where none should be: reads that fail inside
/// (columns that were dropped while rows lie in memory, ranges that were deleted under GROUP BY), and paging states of
/// GROUP BY that it does not take back.
fn is_defect(step: &Step, code: u32) -> bool {
    code == READ_FAILURE || is_grouped(step) && code == PROTOCOL_ERROR
}

fn is_grouped(step: &Step) -> bool {
    matches!(&step.operation, Operation::Select(select) if select.group_by > 0)
}

/// Whether Apache Cassandra 5.0.9 counts rows that it does not show: those of partitions that a condition on a static
/// column leaves out count towards LIMIT, PER PARTITION LIMIT and the page.
fn counts_too_much(schema: &Schema, step: &Step) -> bool {
    let Operation::Select(select) = &step.operation else { return false };
    let is_static = |column: &usize| schema.columns[*column].role == Role::Static;
    let mut columns = select.relations.iter().flat_map(|relation| relation.columns());
    let is_counted = select.limit.or(select.per_partition).is_some() || select.page_rows.is_some();
    is_counted && columns.any(is_static)
}

/// A step as a person would type it.
fn line(schema: &Schema, name: &str, step: &Step) -> String {
    let plain = Step { sending: Sending::Plain, ..step.clone() };
    let Some(text) = text(schema, name, &plain) else {
        return format!("-- {:?}", step.operation);
    };
    let page = match &step.operation {
        Operation::Select(select) => select.page_rows.map(|rows| format!(" -- in pages of {rows}")),
        _ => None,
    };
    let bound = match step.sending {
        Sending::Plain => "",
        Sending::Bound => " -- with bind markers",
        Sending::Prepared => " -- prepared",
        Sending::SkippingMetadata => " -- prepared, skipping metadata",
    };
    format!("{};{}{bound}", text.cql, page.unwrap_or_default())
}

impl Asked {
    fn differs(&self, got: impl Into<String>) -> Box<Mismatch> {
        let expected = match &self.must {
            Must::Write => "Void".to_owned(),
            Must::ChangeSchema(word) => format!("SchemaChange: the table is {word}"),
            Must::BeRefused => "an error 0x2200".to_owned(),
            Must::Show(rows, columns) => show_rows(rows, columns),
        };
        let show = |value: &Sent| match value {
            Sent::Bytes(bytes) => Type::Blob.show(Some(bytes)),
            Sent::Null => "null".to_owned(),
            Sent::Unset => "unset".to_owned(),
        };
        let values: Vec<String> = self.text.values.iter().map(show).collect();
        let mut statement = self.text.cql.clone();
        if !values.is_empty() {
            statement.push_str(&format!(" -- with {}", values.join(", ")));
        }
        if let (Operation::Select(_), Some(rows)) = (&self.step.operation, self.page_rows) {
            statement.push_str(&format!(" -- in pages of {rows}"));
        }
        Box::new(Mismatch { statement, expected, got: got.into() })
    }
}

fn show_rows(rows: &[Answer], columns: &[ShownColumn]) -> String {
    let show = |row: &Answer| {
        let cells = row.iter().zip(columns).map(|(cell, column)| column.of.show(cell.as_deref()));
        cells.collect::<Vec<_>>().join(" | ")
    };
    let mut lines: Vec<String> = rows.iter().map(show).collect();
    lines.push(format!("({} rows)", rows.len()));
    lines.join("\n")
}

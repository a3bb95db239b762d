//! Answers of a server that is not there: which of them a world takes, and which are told as wrong.

use cql::frame::client;
use cql::frame::{Flags, Header, Opcode, Version, writer};

use super::*;
use crate::schema::Column;
use crate::statement::Select;

const VOID: i32 = 1;
const ROWS: i32 = 2;
const PREPARED: i32 = 4;
const SCHEMA_CHANGE: i32 = 5;

const ONE_TABLE: i32 = 0x1;
const NO_METADATA: i32 = 0x4;
const METADATA_CHANGED: i32 = 0x8;

const NAME: &str = "w";
/// The columns of the table, as `SELECT *` shows them.
const COLUMNS: [&str; 2] = ["p0", "v0"];

/// A world of a table `p0 int PRIMARY KEY, v0 int`, and a server of this version that answers as it is told.
struct Talk {
    world: World,
    version: Version,
    preparations: Preparations,
}

impl Talk {
    /// After CREATE TABLE, about to send the first of these operations.
    fn new(version: Version, sending: Sending, operations: Vec<Operation>) -> Talk {
        let column = |name: &str, role| {
            let name = name.to_owned();
            Column { name, of: Type::Int, is_frozen: false, role, is_there: true }
        };
        let columns = vec![column("p0", Role::Partition), column("v0", Role::Regular)];
        let schema = Schema { columns, partition: 1, clustering: 0 };
        let step = |operation| Step { operation, sending };
        let steps: Vec<Step> = operations.into_iter().map(step).collect();
        let abilities = Abilities { has_admin: false, is_cassandra: false };
        let world = World::scripted(1, NAME.to_owned(), abilities, &schema, &steps);
        let mut talk = Talk { world, version, preparations: Preparations::default() };
        talk.step();
        assert!(talk.result(&schema_change("CREATED", NAME)).is_ok());
        talk.step();
        talk
    }

    /// Goes on to the next operation.
    fn step(&mut self) {
        assert!(matches!(self.world.advance(), Wish::Request));
    }

    fn answer(&mut self, opcode: Opcode, body: &[u8]) -> Result<(), Box<Mismatch>> {
        let (version, flags) = (self.version, Flags::default());
        let header = Header { version, flags, stream: 0, opcode, body_bytes: body.len() as u32 };
        let answer = client::Answer::decode(&header, body).unwrap();
        self.world.answered(&answer.reply, &self.preparations)
    }

    fn result(&mut self, body: &[u8]) -> Result<(), Box<Mismatch>> {
        self.answer(Opcode::Result, body)
    }

    /// Answers PREPARE with this id of the columns, and these names of them.
    fn prepare(&mut self, result_id: &[u8], names: &[&str]) {
        assert!(matches!(self.world.request().by, By::Prepare));
        let mut body = Vec::new();
        writer::int(&mut body, PREPARED);
        writer::short_bytes(&mut body, b"statement");
        if self.version >= Version::V5 {
            writer::short_bytes(&mut body, result_id);
        }
        // No flags, no bind markers, none of them of the partition key.
        (0..3).for_each(|_| writer::int(&mut body, 0));
        put_columns(&mut body, ONE_TABLE, &[], names);
        assert!(self.result(&body).is_ok());
    }

    fn unprepared(&mut self) -> Result<(), Box<Mismatch>> {
        let mut body = Vec::new();
        writer::int(&mut body, UNPREPARED as i32);
        writer::string(&mut body, "who is that?");
        writer::short_bytes(&mut body, b"statement");
        self.answer(Opcode::Error, &body)
    }

    /// The id of the columns that EXECUTE sends, and whether it skips their description.
    fn executes(&self) -> (Vec<u8>, bool) {
        match self.world.request().by {
            By::Execute { result_id, skips_metadata, .. } => (result_id.to_vec(), skips_metadata),
            other => panic!("{other:?}"),
        }
    }
}

fn schema_change(change: &str, table: &str) -> Vec<u8> {
    let mut body = Vec::new();
    writer::int(&mut body, SCHEMA_CHANGE);
    for part in [change, "TABLE", crate::KEYSPACE, table] {
        writer::string(&mut body, part);
    }
    body
}

fn void() -> Vec<u8> {
    VOID.to_be_bytes().to_vec()
}

/// A description of columns of int.
fn put_columns(body: &mut Vec<u8>, flags: i32, new_id: &[u8], names: &[&str]) {
    writer::int(body, flags);
    writer::int(body, names.len() as i32);
    if flags & METADATA_CHANGED != 0 {
        writer::short_bytes(body, new_id);
    }
    if flags & NO_METADATA == 0 {
        writer::string(body, crate::KEYSPACE);
        writer::string(body, NAME);
        for name in names {
            writer::string(body, name);
            writer::short(body, 9);
        }
    }
}

/// An answer of no rows, which is the right one as long as nothing was written.
fn rows(flags: i32, new_id: &[u8], names: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    writer::int(&mut body, ROWS);
    put_columns(&mut body, flags, new_id, names);
    writer::int(&mut body, 0);
    body
}

fn select() -> Operation {
    Operation::Select(Select::default())
}

/// Before: an answer without a description passed, for there was nothing to compare.
#[test]
fn rows_are_described_unless_the_request_skips_that() {
    for (flags, names, is_right) in [
        (ONE_TABLE, COLUMNS, true),
        (NO_METADATA, COLUMNS, false),
        (ONE_TABLE, ["v0", "p0"], false),
        (ONE_TABLE | METADATA_CHANGED, COLUMNS, false),
    ] {
        let mut talk = Talk::new(Version::V5, Sending::Plain, vec![select()]);
        let answered = talk.result(&rows(flags, b"new", &names));
        assert_eq!(answered.is_ok(), is_right, "{flags} {names:?}");
    }
}

/// Before: no request skipped it.
#[test]
fn skipped_columns_are_those_that_prepare_told() {
    let swapped = ["v0", "p0"];
    for (prepared, flags, names, is_right) in [
        (COLUMNS, NO_METADATA, COLUMNS, true),
        (COLUMNS, ONE_TABLE, COLUMNS, false),
        (swapped, NO_METADATA, COLUMNS, false),
        (swapped, ONE_TABLE | METADATA_CHANGED, COLUMNS, true),
        (COLUMNS, NO_METADATA | METADATA_CHANGED, COLUMNS, false),
    ] {
        let mut talk = Talk::new(Version::V5, Sending::SkippingMetadata, vec![select()]);
        talk.prepare(b"old", &prepared);
        assert_eq!(talk.executes(), (b"old".to_vec(), true));
        let answered = talk.result(&rows(flags, b"new", &names));
        assert_eq!(answered.is_ok(), is_right, "{prepared:?} {flags} {names:?}");
    }
    let mut talk = Talk::new(Version::V4, Sending::SkippingMetadata, vec![select()]);
    talk.prepare(b"", &COLUMNS);
    assert!(talk.result(&rows(NO_METADATA, b"", &["p0"])).is_err(), "a column is missing");
}

#[test]
fn what_a_client_of_v5_knows_is_older_than_a_statement_that_was_prepared_again() {
    for (version, known) in [(Version::V5, &b"old"[..]), (Version::V4, &b""[..])] {
        let mut talk = Talk::new(version, Sending::SkippingMetadata, vec![select(), select()]);
        talk.prepare(b"old", &COLUMNS);
        assert!(talk.unprepared().is_ok());
        talk.prepare(b"new", &COLUMNS);
        assert_eq!(talk.executes().0, known);
        if version == Version::V5 {
            let flags = ONE_TABLE | METADATA_CHANGED;
            assert!(talk.result(&rows(flags, b"new", &COLUMNS)).is_ok());
            talk.step();
            assert_eq!(talk.executes().0, b"new");
        }
    }
}

/// Before: an INSERT that was answered by SchemaChange passed, and so did an ALTER that was answered by Void.
#[test]
fn a_change_of_the_schema_is_told_and_nothing_else_is_one() {
    let drop = || vec![Operation::Drop(1, 5)];
    let talk = |operations| Talk::new(Version::V4, Sending::Plain, operations);
    assert!(talk(drop()).result(&schema_change("UPDATED", NAME)).is_ok());
    assert!(talk(drop()).result(&schema_change("UPDATED", "other")).is_err());
    assert!(talk(drop()).result(&schema_change("CREATED", NAME)).is_err());
    assert!(talk(drop()).result(&void()).is_err());
    let truncate = || vec![Operation::Truncate];
    assert!(talk(truncate()).result(&void()).is_ok());
    assert!(talk(truncate()).result(&schema_change("UPDATED", NAME)).is_err());
    // Behind the last operation the table is dropped.
    assert!(talk(Vec::new()).result(&schema_change("DROPPED", NAME)).is_ok());
    assert!(talk(truncate()).result(&rows(ONE_TABLE, b"", &COLUMNS)).is_err());
}

/// Before: UNPREPARED was taken as an answer to QUERY, too, and without a reason.
#[test]
fn unprepared_is_an_answer_to_execute_alone_and_counted_without_a_reason() {
    let mut plain = Talk::new(Version::V4, Sending::Plain, vec![select()]);
    assert!(plain.unprepared().is_err());

    let operations = vec![select(), Operation::Drop(1, 5), select()];
    let mut talk = Talk::new(Version::V4, Sending::Prepared, operations);
    talk.prepare(b"", &COLUMNS);
    assert!(talk.unprepared().is_ok());
    assert_eq!(talk.preparations.needless(), 1, "the table is as it was");
    talk.prepare(b"", &COLUMNS);
    assert!(talk.result(&rows(ONE_TABLE, b"", &COLUMNS)).is_ok());
    talk.step();
    talk.prepare(b"", &[]);
    assert!(talk.result(&schema_change("UPDATED", NAME)).is_ok());
    talk.step();
    assert!(talk.unprepared().is_ok());
    assert_eq!(talk.preparations.needless(), 1, "a column was dropped");
    talk.prepare(b"", &["p0"]);
    assert!(talk.unprepared().is_ok());
    assert_eq!(talk.preparations.needless(), 2, "since then none was");
}

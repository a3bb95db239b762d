//! BATCH: several modifications, run as one.
//!
//! ```text
//!  [byte] kind  [short] n  n × ( [byte] 0 [long string] | [byte] 1 [short bytes]   values )  parameters
//! ```
//!
//! 1. `decode` walks all statements once, checks them, and keeps the bytes that they lie in.
//! 2. `statements` walks them again: it neither fails nor allocates.
//! 3. The parameters are those of QUERY, but no values, metadata and paging. Values of a statement have no names: the
//!    protocol has a flag for names, which Cassandra cannot read either (CASSANDRA-10246).
//!
//! Not here: the parameters (`parameters.rs`), the values (`values.rs`), what a batch does (`plan/batch.rs`,
//! `server/src/execute/batch.rs`).

use super::super::error::{Malformed, Result};
use super::super::header::Version;
use super::super::reader::Reader;
use super::super::writer;
use super::parameters::Parameters;
use super::values::Values;

/// Whether a batch goes through the batch log, as its type says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum BatchKind {
    /// All or nothing, in the end.
    Logged = 0,
    /// Each statement on its own.
    Unlogged = 1,
    /// A batch of counter updates.
    Counter = 2,
}

/// One statement of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchStatement<'a> {
    /// The statement: its text, or the id of a prepared one.
    pub text: BatchText<'a>,
    /// The values of the statement's markers, always positional.
    pub values: Values<'a>,
}

/// How a batch names one of its statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchText<'a> {
    /// A statement given by its text.
    Query(&'a str),
    /// By the id of a prepared statement.
    Prepared(&'a [u8]),
}

/// A BATCH request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<'a> {
    /// LOGGED, UNLOGGED or COUNTER.
    pub kind: BatchKind,
    /// Consistency, timestamp and the like; its `values` are empty.
    pub parameters: Parameters<'a>,
    version: Version,
    count: u16,
    items: &'a [u8],
}

impl<'a> Batch<'a> {
    /// A batch for a client to send. `items` is a buffer for its encoded statements.
    pub fn new(
        kind: BatchKind,
        statements: &[BatchStatement<'_>],
        parameters: Parameters<'a>,
        version: Version,
        items: &'a mut Vec<u8>,
    ) -> Batch<'a> {
        assert!(parameters.values.is_empty(), "values belong to the statements of a batch");
        items.clear();
        for statement in statements {
            match statement.text {
                BatchText::Query(text) => {
                    writer::byte(items, 0);
                    writer::long_string(items, text);
                }
                BatchText::Prepared(id) => {
                    writer::byte(items, 1);
                    writer::short_bytes(items, id);
                }
            }
            assert!(!statement.values.is_named(), "a batch has no named values");
            statement.values.put(items);
        }
        Batch { kind, parameters, version, count: writer::count(statements.len()), items }
    }

    /// Reads the message.
    pub fn decode(mut reader: Reader<'a>, version: Version) -> Result<Batch<'a>> {
        let kind = match reader.byte()? {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            other => return Err(Malformed::because(format!("Invalid BATCH message type {other}"))),
        };
        let count = reader.short()?;
        let start = reader.rest();
        for _ in 0..count {
            statement(&mut reader, version)?;
        }
        let items = &start[..start.len() - reader.rest().len()];
        let parameters = Parameters::decode(&mut reader, version)?;
        if !parameters.values.is_empty() {
            return Err(Malformed::with("A BATCH has values in its statements, not beside them"));
        }
        Ok(Batch { kind, parameters, version, count, items })
    }

    /// The number of statements in the batch.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there is no statement.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the statements with their values.
    pub fn bytes(&self) -> usize {
        self.items.len()
    }

    /// The statements in order.
    pub fn statements(&self) -> impl ExactSizeIterator<Item = BatchStatement<'a>> + use<'a> {
        let version = self.version;
        let mut reader = Reader::new(self.items);
        (0..self.count).map(move |_| statement(&mut reader, version).expect("walked when decoded"))
    }

    /// Appends the message.
    pub fn put(&self, version: Version, out: &mut Vec<u8>) {
        writer::byte(out, self.kind as u8);
        writer::short(out, self.count);
        out.extend_from_slice(self.items);
        self.parameters.put(version, out);
    }
}

fn statement<'a>(reader: &mut Reader<'a>, version: Version) -> Result<BatchStatement<'a>> {
    let text = match reader.byte()? {
        0 => BatchText::Query(reader.long_string()?),
        1 => BatchText::Prepared(reader.short_bytes()?),
        other => {
            return Err(Malformed::because(format!(
                "Invalid query kind in BATCH messages. Must be 0 or 1 but got {other}"
            )));
        }
    };
    Ok(BatchStatement { text, values: Values::decode(reader, version, false)? })
}

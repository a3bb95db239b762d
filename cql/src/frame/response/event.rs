//! EVENT: what happened to the cluster or its schema, sent to connections that registered.

use std::net::SocketAddr;

use super::super::header::{Opcode, Version};
use super::super::writer;
use super::{EVENT_STREAM, Envelope};

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A node joined.
    NewNode(SocketAddr),
    /// A node left.
    RemovedNode(SocketAddr),
    /// A node serves.
    Up(SocketAddr),
    /// A node does not serve.
    Down(SocketAddr),
    /// The schema changed.
    Schema(SchemaEvent<'a>),
}

/// How an object of the schema changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaEvent<'a> {
    /// `CREATED`, `UPDATED` or `DROPPED`.
    pub change: &'a str,
    /// The keyspace of the object, or the object.
    pub keyspace: &'a str,
    /// The object that changed.
    pub target: SchemaTarget<'a>,
}

/// Which object of a keyspace changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaTarget<'a> {
    /// The keyspace itself.
    Keyspace,
    /// A table, or a view, or an index of that table.
    Table(&'a str),
    /// A user-defined type.
    Type(&'a str),
    /// A function, with the CQL names of its argument types.
    Function(&'a str, &'a [String]),
    /// An aggregate, with the CQL names of its argument types.
    Aggregate(&'a str, &'a [String]),
}

impl Event<'_> {
    /// Appends the EVENT frame.
    pub fn put(&self, version: Version, out: &mut Vec<u8>) {
        Envelope::new(version, EVENT_STREAM).put(Opcode::Event, out, |out| match *self {
            Event::NewNode(node) => put_node("TOPOLOGY_CHANGE", "NEW_NODE", node, out),
            Event::RemovedNode(node) => put_node("TOPOLOGY_CHANGE", "REMOVED_NODE", node, out),
            Event::Up(node) => put_node("STATUS_CHANGE", "UP", node, out),
            Event::Down(node) => put_node("STATUS_CHANGE", "DOWN", node, out),
            Event::Schema(event) => {
                writer::string(out, "SCHEMA_CHANGE");
                event.put(version, out);
            }
        });
    }
}

fn put_node(kind: &str, change: &str, node: SocketAddr, out: &mut Vec<u8>) {
    writer::string(out, kind);
    writer::string(out, change);
    writer::inet(out, node);
}

impl SchemaEvent<'_> {
    /// Appends the change, as EVENT and RESULT have it.
    pub(super) fn put(&self, version: Version, out: &mut Vec<u8>) {
        let (target, name, arguments) = match self.target {
            SchemaTarget::Keyspace => ("KEYSPACE", None, None),
            SchemaTarget::Table(name) => ("TABLE", Some(name), None),
            SchemaTarget::Type(name) => ("TYPE", Some(name), None),
            // v3 has no words for functions: to its clients their keyspace was updated.
            SchemaTarget::Function(..) | SchemaTarget::Aggregate(..) if version < Version::V4 => {
                let target = SchemaTarget::Keyspace;
                return SchemaEvent { change: "UPDATED", target, ..*self }.put(version, out);
            }
            SchemaTarget::Function(name, arguments) => ("FUNCTION", Some(name), Some(arguments)),
            SchemaTarget::Aggregate(name, arguments) => ("AGGREGATE", Some(name), Some(arguments)),
        };
        writer::string(out, self.change);
        writer::string(out, target);
        writer::string(out, self.keyspace);
        if let Some(name) = name {
            writer::string(out, name);
        }
        if let Some(arguments) = arguments {
            writer::string_list(out, arguments.iter().map(String::as_str));
        }
    }
}

//! One thing that a DESCRIBE shows. Its statement is made when its row is asked for: a page of a large schema makes the
//! texts of its own rows alone, and lets others run between them.
//!
//! Not here: which elements answer a DESCRIBE, and their order (`describe.rs`); the statements themselves (`text.rs`,
//! `functions.rs`).

use model::schema::{Index, Keyspace, Table, UserAggregate, UserFunction};
use model::types::{Name, UserType};

use super::functions::{create_aggregate, create_function, signature};
use super::text::{create_index, create_keyspace, create_table, create_type, create_view};

/// A keyspace, type, function, aggregate, table, view or index of a schema.
#[derive(Clone, Copy, Debug)]
pub enum Element<'s> {
    /// A keyspace without what is in it.
    Keyspace(&'s Keyspace),
    /// A user type.
    Type(&'s UserType),
    /// A function of a user.
    Function(&'s UserFunction),
    /// An aggregate of a user.
    Aggregate(&'s UserAggregate),
    /// A table without its indexes and views.
    Table {
        /// The table, described by itself.
        table: &'s Table,
        /// Whether the statement tells what only the node knows, such as the table's id.
        internals: bool,
    },
    /// A materialized view.
    View {
        /// The view, described by itself.
        view: &'s Table,
        /// The table that it is a view of.
        base: &'s Table,
        /// As of a table: whether the view's id is told.
        internals: bool,
    },
    /// An index of a table.
    Index {
        /// The table that it indexes.
        table: &'s Table,
        /// The index, described by itself.
        index: &'s Index,
    },
}

impl Element<'_> {
    /// The row of the element: `keyspace_name, type, name, create_statement`.
    pub fn row(&self) -> [String; 4] {
        let (keyspace, kind, name, statement) = match *self {
            Element::Keyspace(of) => {
                (&of.name, "keyspace", Name(&of.name).to_string(), create_keyspace(of))
            }
            Element::Type(ty) => {
                (&ty.keyspace, "type", Name(&ty.name).to_string(), create_type(ty))
            }
            Element::Function(of) => {
                let shown = signature(&of.name, of.types());
                (&of.keyspace, "function", shown, create_function(of))
            }
            Element::Aggregate(of) => {
                let shown = signature(&of.name, &of.arguments);
                (&of.keyspace, "aggregate", shown, create_aggregate(of))
            }
            Element::Table { table, internals } => {
                let statement = create_table(table, internals);
                (&table.keyspace, "table", Name(&table.name).to_string(), statement)
            }
            Element::View { view, base, internals } => {
                let statement = create_view(view, base, internals);
                (&view.keyspace, "materialized_view", Name(&view.name).to_string(), statement)
            }
            Element::Index { table, index } => {
                let statement = create_index(table, index);
                (&table.keyspace, "index", Name(&index.name).to_string(), statement)
            }
        };
        [Name(keyspace).to_string(), kind.to_owned(), name, statement]
    }
}

//! The schema of one table: columns that may be there, and those that are.
//!
//! Every column that a table ever has is drawn with the table; ALTER TABLE adds and drops it. It keeps its type, as a
//! column that is added again must.
//!
//! Invariants
//! 1. A column's number is its place in `columns`, for ever: partition key, clustering key, statics, regulars.
//! 2. Columns of the key are always there. Static columns exist only in a table with a clustering key.
//! 3. A collection or user type in a key is frozen, and so is every tuple.
//!
//! Not here: which column is added or dropped, and when (`generate.rs`), what becomes of its cells (`table.rs`).

use crate::draw::Draw;
use crate::value::{SCALARS, Type};

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Partition,
    Clustering { descending: bool },
    Static,
    Regular,
}

/// A column that the table has, or can have.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) of: Type,
    pub(crate) is_frozen: bool,
    pub(crate) role: Role,
    /// Whether the table has it now.
    pub(crate) is_there: bool,
}

impl Column {
    /// Whether its parts are cells of their own.
    pub(crate) fn is_multi_cell(&self) -> bool {
        self.of.has_parts() && !self.is_frozen
    }

    fn definition(&self) -> String {
        let of = self.of.name(self.is_frozen);
        let is_static = if self.role == Role::Static { " STATIC" } else { "" };
        format!("{} {of}{is_static}", self.name)
    }
}

/// Columns: those of the partition key, of the clustering key, statics, regulars, each kind together.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) columns: Vec<Column>,
    /// How many columns the partition key has.
    pub(crate) partition: usize,
    /// How many clustering columns there are.
    pub(crate) clustering: usize,
}

impl Schema {
    /// A table with these keys, all its columns there but some of the last.
    pub(crate) fn draw(draw: &mut Draw) -> Schema {
        let partition = 1 + usize::from(draw.percent(30));
        let clustering = *draw.pick(&[0, 1, 1, 1, 2, 2, 2, 3]);
        let statics = if clustering == 0 { 0 } else { *draw.pick(&[0, 1, 1, 2]) };
        let regulars = draw.below(5) + usize::from(clustering == 0);
        let mut columns = Vec::new();
        let mut add = |name: String, of: Type, is_frozen: bool, role: Role, is_there: bool| {
            columns.push(Column { name, of, is_frozen, role, is_there });
        };
        for at in 0..partition {
            add(format!("p{at}"), draw_key(draw), false, Role::Partition, true);
        }
        for at in 0..clustering {
            let role = Role::Clustering { descending: draw.percent(40) };
            let of = draw_clustering(draw);
            add(format!("c{at}"), of.clone(), of.has_parts(), role, true);
        }
        let others = [(statics, "s", Role::Static), (regulars, "v", Role::Regular)];
        for (count, letter, role) in others {
            for at in 0..count {
                let of = draw_type(draw);
                let is_frozen = of.has_parts() && draw.percent(30) || matches!(of, Type::Tuple(_));
                add(format!("{letter}{at}"), of, is_frozen, role, at == 0 || draw.percent(80));
            }
        }
        Schema { columns, partition, clustering }
    }

    /// The numbers of the clustering columns.
    pub(crate) fn clusterings(&self) -> std::ops::Range<usize> {
        self.partition..self.partition + self.clustering
    }

    /// How many columns the primary key has.
    pub(crate) fn key_columns(&self) -> usize {
        self.partition + self.clustering
    }

    /// The columns with this role that are there.
    pub(crate) fn with_role(&self, role: Role) -> Vec<usize> {
        let all = 0..self.columns.len();
        all.filter(|&at| self.columns[at].is_there && self.columns[at].role == role).collect()
    }

    /// The columns that are there and belong to no key.
    pub(crate) fn cells(&self) -> Vec<usize> {
        (self.key_columns()..self.columns.len()).filter(|&at| self.columns[at].is_there).collect()
    }

    /// The columns of `SELECT *` in its order.
    pub(crate) fn all(&self) -> Vec<usize> {
        (0..self.columns.len()).filter(|&at| self.columns[at].is_there).collect()
    }

    /// Whether a clustering column descends.
    pub(crate) fn descends(&self, column: usize) -> bool {
        matches!(self.columns[column].role, Role::Clustering { descending: true })
    }

    /// The statement that makes the table.
    pub(crate) fn create(&self, table: &str) -> String {
        let names = |of: std::ops::Range<usize>| {
            let names: Vec<&str> = of.map(|at| self.columns[at].name.as_str()).collect();
            names.join(", ")
        };
        let columns = self.columns.iter().filter(|column| column.is_there);
        let definitions: Vec<String> = columns.map(Column::definition).collect();
        let mut key = format!("({})", names(0..self.partition));
        // Nothing is kept of a table that is emptied or dropped.
        let mut options = vec!["allow_auto_snapshot = false".to_owned()];
        if self.clustering > 0 {
            key.push_str(&format!(", {}", names(self.clusterings())));
            let direction = |at| if self.descends(at) { "DESC" } else { "ASC" };
            let order = |at: usize| format!("{} {}", self.columns[at].name, direction(at));
            let orders = self.clusterings().map(order).collect::<Vec<_>>().join(", ");
            options.push(format!("CLUSTERING ORDER BY ({orders})"));
        }
        let (definitions, options) = (definitions.join(", "), options.join(" AND "));
        format!("CREATE TABLE {table} ({definitions}, PRIMARY KEY ({key})) WITH {options}")
    }

    /// The statement that adds a column.
    pub(crate) fn add(&self, table: &str, column: usize) -> String {
        format!("ALTER TABLE {table} ADD {}", self.columns[column].definition())
    }
}

fn draw_key(draw: &mut Draw) -> Type {
    draw.pick(&[Type::Int, Type::Int, Type::Text, Type::Bigint]).clone()
}

fn draw_clustering(draw: &mut Draw) -> Type {
    match draw.below(10) {
        0 => Type::List(Box::new(Type::Int)),
        1 => Type::Blob,
        2 => Type::Boolean,
        _ => draw_key(draw),
    }
}

fn draw_type(draw: &mut Draw) -> Type {
    let scalar = |draw: &mut Draw| draw.pick(&SCALARS).clone();
    match draw.below(12) {
        0 => Type::List(Box::new(scalar(draw))),
        1 | 2 => Type::Set(Box::new(scalar(draw))),
        3 | 4 => Type::Map(Box::new(scalar(draw)), Box::new(scalar(draw))),
        5 => Type::Pair,
        6 => Type::Tuple(vec![scalar(draw), scalar(draw)]),
        7 => Type::List(Box::new(Type::Int)),
        8..=9 => Type::Int,
        _ => scalar(draw),
    }
}

//! DESCRIBE: what is asked for, looked up in the schema, as rows of names or as elements that make their statements.
//!
//! The rows, their order and the errors are Cassandra's (`DescribeStatement`): cqlsh 6 prints what
//! comes back as it is.

mod element;
mod functions;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashSet;
use std::sync::Arc;

pub use element::Element;
use functions::callables;
pub use functions::{create_aggregate, create_function};
use model::schema::{Keyspace, Schema, Table};
use model::types::{CqlType, Name, UserType};
pub use text::{
    create_index, create_keyspace, create_table, create_type, create_view, index_target,
    where_clause,
};

use crate::lang::ast::{Describe, DescribeTarget, FunctionKind, QualifiedName};

/// The rows that answer a DESCRIBE.
#[derive(Clone, Debug)]
pub enum Described<'s> {
    /// `keyspace_name, type, name`
    Names(Vec<Listed<'s>>),
    /// `keyspace_name, type, name, create_statement`
    Elements(Vec<Element<'s>>),
    /// `cluster, partitioner, snitch`, and who owns which range if a keyspace is in use.
    Cluster {
        /// Whether `range_ownership` is part of it.
        with_ownership: bool,
    },
}

/// The name of something in a keyspace, of which the texts are made when they are shown.
#[derive(Clone, Debug)]
pub struct Listed<'s> {
    keyspace: &'s str,
    kind: &'static str,
    name: ListedName<'s>,
}

#[derive(Clone, Debug)]
enum ListedName<'s> {
    /// As it is: it may need quotes.
    Plain(&'s str),
    /// As it is shown.
    Shown(String),
}

impl Listed<'_> {
    /// The texts of its row.
    pub fn row(&self) -> [String; 3] {
        let name = match &self.name {
            ListedName::Plain(name) => Name(name).to_string(),
            ListedName::Shown(name) => name.clone(),
        };
        [Name(self.keyspace).to_string(), self.kind.to_owned(), name]
    }
}

/// Looks up what `describe` asks for; the error is a message for `Invalid`.
///
/// `is_system` tells the keyspaces that DESCRIBE SCHEMA leaves out unless it is FULL.
pub fn describe<'s>(
    describe: &Describe,
    schema: &'s Schema,
    current: Option<&str>,
    is_system: impl Fn(&str) -> bool,
) -> Result<Described<'s>, String> {
    let look = Look { schema, current, internals: describe.internals };
    Ok(match &describe.target {
        DescribeTarget::Cluster => Described::Cluster { with_ownership: current.is_some() },
        DescribeTarget::Keyspaces => Described::Names(
            schema
                .keyspaces()
                .map(|keyspace| listed(keyspace, "keyspace", &keyspace.name))
                .collect(),
        ),
        DescribeTarget::Tables => look.list("table", |keyspace| {
            let tables = keyspace.tables.values().filter(|table| table.view().is_none());
            tables.map(|table| &table.name)
        })?,
        DescribeTarget::Types => look.list("type", |keyspace| keyspace.types.keys())?,
        DescribeTarget::Functions => look.list_callables(FunctionKind::Scalar)?,
        DescribeTarget::Aggregates => look.list_callables(FunctionKind::Aggregate)?,
        DescribeTarget::Schema { full } => {
            let wanted = schema.keyspaces().filter(|keyspace| *full || !is_system(&keyspace.name));
            Described::Elements(wanted.flat_map(|keyspace| look.keyspace(keyspace)).collect())
        }
        DescribeTarget::Keyspace { name, only } => {
            let keyspace = look.find_keyspace(name.as_deref())?;
            let mut elements = look.keyspace(keyspace);
            if *only {
                elements.truncate(1);
            }
            Described::Elements(elements)
        }
        DescribeTarget::Table(name) => {
            let keyspace = look.find_keyspace(name.keyspace.as_deref())?;
            let table = keyspace.tables.get(&name.name).filter(|table| table.view().is_none());
            let table = table.ok_or_else(|| {
                format!("Table '{}' not found in keyspace '{}'", name.name, keyspace.name)
            })?;
            Described::Elements(look.table_and_views(table))
        }
        DescribeTarget::Type(name) => {
            let keyspace = look.find_keyspace(name.keyspace.as_deref())?;
            let missing =
                || format!("User defined type '{}' not found in '{}'", name.name, keyspace.name);
            let ty = keyspace.types.get(&name.name).ok_or_else(missing)?;
            Described::Elements(vec![Element::Type(ty)])
        }
        DescribeTarget::Index(name) => {
            let keyspace = look.find_keyspace(name.keyspace.as_deref())?;
            match look.index(keyspace, &name.name) {
                Some(index) => Described::Elements(vec![index]),
                None => return look.absent("Table for existing index", name),
            }
        }
        DescribeTarget::View(name) => {
            let keyspace = look.find_keyspace(name.keyspace.as_deref())?;
            match keyspace.tables.get(&name.name).filter(|table| table.view().is_some()) {
                Some(view) => Described::Elements(vec![look.table(view)]),
                None => return look.absent("Materialized view", name),
            }
        }
        DescribeTarget::Function(name) => look.callables_named(FunctionKind::Scalar, name)?,
        DescribeTarget::Aggregate(name) => look.callables_named(FunctionKind::Aggregate, name)?,
        DescribeTarget::Name(name) => Described::Elements(look.anything(name)?),
    })
}

fn listed<'s>(keyspace: &'s Keyspace, kind: &'static str, name: &'s str) -> Listed<'s> {
    Listed { keyspace: &keyspace.name, kind, name: ListedName::Plain(name) }
}

struct Look<'s, 'c> {
    schema: &'s Schema,
    current: Option<&'c str>,
    internals: bool,
}

impl<'s> Look<'s, '_> {
    fn find_keyspace(&self, name: Option<&str>) -> Result<&'s Arc<Keyspace>, String> {
        let name = name
            .or(self.current)
            .ok_or_else(|| "No keyspace specified and no current keyspace".to_owned())?;
        self.schema.keyspace(name).ok_or_else(|| format!("'{name}' not found in keyspaces"))
    }

    /// The names of one kind, in the current keyspace or in all.
    fn list<I: Iterator<Item = &'s String>>(
        &self,
        kind: &'static str,
        of: impl Fn(&'s Keyspace) -> I,
    ) -> Result<Described<'s>, String> {
        let current = self.current.map(|_| self.find_keyspace(None)).transpose()?;
        let keyspaces = self.schema.keyspaces();
        let wanted = keyspaces.filter(|keyspace| current.is_none_or(|c| c.name == keyspace.name));
        let all = wanted.flat_map(|keyspace| {
            of(keyspace).map(|name| listed(keyspace, kind, name)).collect::<Vec<_>>()
        });
        Ok(Described::Names(all.collect()))
    }

    /// The keyspace and everything in it, in an order in which it can be made again.
    fn keyspace(&self, keyspace: &'s Keyspace) -> Vec<Element<'s>> {
        let mut all = vec![Element::Keyspace(keyspace)];
        all.extend(types_in_order(keyspace).into_iter().map(Element::Type));
        for kind in [FunctionKind::Scalar, FunctionKind::Aggregate] {
            all.extend(callables(keyspace, kind).into_iter().map(|one| one.element));
        }
        let views = keyspace.views_by_base();
        let tables = keyspace.tables.values().filter(|table| table.view().is_none());
        for table in tables {
            let of_table = views.get(&table.id).into_iter().flatten().copied();
            all.extend(self.table_with(table, of_table));
        }
        all
    }

    /// The functions or aggregates of the current keyspace, or of all.
    fn list_callables(&self, kind: FunctionKind) -> Result<Described<'s>, String> {
        let current = self.current.map(|_| self.find_keyspace(None)).transpose()?;
        let keyspaces = self.schema.keyspaces();
        let wanted = keyspaces.filter(|keyspace| current.is_none_or(|c| c.name == keyspace.name));
        let word = match kind {
            FunctionKind::Scalar => "function",
            FunctionKind::Aggregate => "aggregate",
        };
        let all = wanted.flat_map(|keyspace| {
            let each = callables(keyspace, kind).into_iter();
            each.map(|one| Listed {
                keyspace: &keyspace.name,
                kind: word,
                name: ListedName::Shown(one.shown),
            })
        });
        Ok(Described::Names(all.collect()))
    }

    /// All functions or aggregates of a name.
    fn callables_named(
        &self,
        kind: FunctionKind,
        name: &QualifiedName,
    ) -> Result<Described<'s>, String> {
        let keyspace = self.find_keyspace(name.keyspace.as_deref())?;
        let of_name = callables(keyspace, kind).into_iter().filter(|one| one.name == name.name);
        let found: Vec<_> = of_name.map(|one| one.element).collect();
        if !found.is_empty() {
            return Ok(Described::Elements(found));
        }
        match kind {
            FunctionKind::Scalar => self.absent("User defined function", name),
            FunctionKind::Aggregate => self.absent("User defined aggregate", name),
        }
    }

    /// The table, its indexes and its views.
    fn table_and_views(&self, table: &'s Table) -> Vec<Element<'s>> {
        let views = self.schema.views_of(table).map(|view| &**view);
        self.table_with(table, views).collect()
    }

    /// The table, its indexes and these views of it.
    fn table_with(
        &self,
        table: &'s Table,
        views: impl Iterator<Item = &'s Table>,
    ) -> impl Iterator<Item = Element<'s>> {
        let indexes = table.indexes().iter().map(|index| Element::Index { table, index });
        let views = views.map(|view| self.table(view));
        [self.table(table)].into_iter().chain(indexes).chain(views)
    }

    /// The index of that name.
    fn index(&self, keyspace: &'s Keyspace, name: &str) -> Option<Element<'s>> {
        let table = crate::ddl::index::find(keyspace, name)?;
        table.index(name).map(|index| Element::Index { table, index })
    }

    /// A table or a view.
    fn table(&self, table: &'s Table) -> Element<'s> {
        let base = table.view().and_then(|view| self.schema.table_by_id(view.base));
        let internals = self.internals;
        match base {
            None => Element::Table { table, internals },
            Some(base) => Element::View { view: table, base, internals },
        }
    }

    fn absent(&self, what: &str, name: &QualifiedName) -> Result<Described<'s>, String> {
        let keyspace = self.find_keyspace(name.keyspace.as_deref())?;
        Err(format!("{what} '{}' not found in '{}'", name.name, keyspace.name))
    }

    /// A bare name: a keyspace, else a table, else an index.
    fn anything(&self, name: &QualifiedName) -> Result<Vec<Element<'s>>, String> {
        if name.keyspace.is_none()
            && let Some(keyspace) = self.schema.keyspace(&name.name)
        {
            return Ok(self.keyspace(keyspace));
        }
        if name.keyspace.is_none() && self.current.is_none() {
            return Err(format!("'{}' not found in keyspaces", name.name));
        }
        let keyspace = self.find_keyspace(name.keyspace.as_deref())?;
        let missing = || format!("'{}' not found in keyspace '{}'", name.name, keyspace.name);
        match keyspace.tables.get(&name.name) {
            Some(view) if view.view().is_some() => Ok(vec![self.table(view)]),
            Some(table) => Ok(self.table_and_views(table)),
            None => self.index(keyspace, &name.name).map(|index| vec![index]).ok_or_else(missing),
        }
    }
}

/// The types of a keyspace, each after those it is made of.
fn types_in_order(keyspace: &Keyspace) -> Vec<&UserType> {
    let (mut done, mut names): (Vec<&UserType>, HashSet<&str>) = Default::default();
    let mut left: Vec<&UserType> = keyspace.types.values().map(|ty| &**ty).collect();
    while !left.is_empty() {
        let ready = |ty: &UserType| {
            ty.fields.iter().all(|(_, field)| {
                let mut used = Vec::new();
                used_types(field, &mut used);
                used.iter().all(|name| names.contains(name))
            })
        };
        let (now, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|ty| ready(ty));
        assert!(!now.is_empty(), "types cannot contain each other");
        names.extend(now.iter().map(|ty| ty.name.as_str()));
        done.extend(now);
        left = later;
    }
    done
}

/// The names of the user types that a type is made of.
fn used_types<'t>(ty: &'t CqlType, used: &mut Vec<&'t str>) {
    match ty {
        CqlType::Udt { definition, .. } => used.push(&definition.name),
        made => made.parts().into_iter().for_each(|part| used_types(part, used)),
    }
}

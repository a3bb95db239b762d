//! What stands in the log, field by field, and the way there and back.
//!
//! Each type of the schema has a form beside it, with an `of` that writes it and a method that reads it
//! back. The names here are the format: one that is changed makes old logs unreadable, and `FORMAT.md`'s
//! example fails. A field that is new has a default, which is what entries before it meant.
//!
//! Invariants: what was written reads back equal; a value of an option that this build refuses becomes the
//! default, with a warning, and an option that it does not know is an error. Not here: checksums and the
//! file (`engine`), which changes may follow each other (`change.rs`).

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use super::FORMAT;
use super::function_form::{AggregateForm, FunctionForm};
use super::index_form::IndexForm;
use super::type_form::{TypeForm, UserTypeForm};
use super::view_form::ViewForm;
use crate::options::{Given, KeyspaceOptions, TableOptions, Value};
use crate::schema::{
    Column, ColumnId, ColumnKind, DroppedColumn, FunctionKey, SchemaChange, SchemaEntry, Table,
    TableId, TableParts,
};
use crate::types::hex;

type Texts = BTreeMap<String, String>;
type Result<T> = std::result::Result<T, String>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryForm {
    #[serde(default = "super::first_format")]
    pub(super) format: u32,
    number: u64,
    version: Uuid,
    change: ChangeForm,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum ChangeForm {
    CreateKeyspace {
        name: String,
        replication: Texts,
        durable_writes: bool,
    },
    AlterKeyspace {
        name: String,
        replication: Texts,
        durable_writes: bool,
    },
    DropKeyspace {
        name: String,
    },
    CreateTable(TableForm),
    AlterTable(TableForm),
    /// From format 7 on.
    AlterTables(Vec<TableForm>),
    DropTable {
        keyspace: String,
        name: String,
    },
    CreateType(UserTypeForm),
    AlterType {
        definition: UserTypeForm,
        tables: Vec<TableForm>,
    },
    DropType {
        keyspace: String,
        name: String,
    },
    /// From format 3 on.
    DroppedTables {
        ids: Vec<Uuid>,
        has_forgotten: bool,
    },
    /// From format 4 on, as the three below.
    PutFunction(FunctionForm),
    DropFunction {
        keyspace: String,
        name: String,
        arguments: Vec<String>,
    },
    PutAggregate(AggregateForm),
    DropAggregate {
        keyspace: String,
        name: String,
        arguments: Vec<String>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableForm {
    id: Uuid,
    keyspace: String,
    name: String,
    options: BTreeMap<String, OptionForm>,
    dropped: Vec<DroppedForm>,
    columns: Vec<ColumnForm>,
    next_column: u16,
    /// From format 5 on, and of compact tables alone: the columns that they do not show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compact: Option<Vec<ColumnForm>>,
    /// From format 6 on, and of tables with indexes alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<IndexForm>,
    /// From format 6 on, and of tables that ever had an index.
    #[serde(default, skip_serializing_if = "is_zero")]
    next_index: u16,
    /// From format 7 on, and of materialized views alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    view: Option<ViewForm>,
    // Format 1 has two counts that follow from the columns.
    #[serde(default, rename = "partition_key_count", skip_serializing)]
    _partition_key_count: u64,
    #[serde(default, rename = "clustering_count", skip_serializing)]
    _clustering_count: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DroppedForm {
    column: ColumnForm,
    dropped_at: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnForm {
    id: u16,
    name: String,
    ty: TypeForm,
    kind: KindForm,
    position: u16,
    descending: bool,
}

#[derive(Serialize, Deserialize)]
enum KindForm {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

/// An option's value. Bytes are `0x..` texts; format 1 has arrays of numbers.
///
/// Read by what it is: serde's own way for `untagged` tries one variant after the other, and makes an error of each
/// that it is not, which was a fifth of the time that a start took for the log of the schema.
#[derive(Serialize)]
#[serde(untagged)]
enum OptionForm {
    Boolean(bool),
    Int(i64),
    Double(f64),
    Text(String),
    Map(BTreeMap<String, SubOptionForm>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum SubOptionForm {
    Text(String),
    Bytes(Vec<u8>),
}

impl<'de> Deserialize<'de> for OptionForm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<OptionForm, D::Error> {
        from.deserialize_any(OptionVisitor)
    }
}

struct OptionVisitor;

impl<'de> Visitor<'de> for OptionVisitor {
    type Value = OptionForm;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a boolean, a number, a text or a map")
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<OptionForm, E> {
        Ok(OptionForm::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<OptionForm, E> {
        Ok(OptionForm::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<OptionForm, E> {
        Ok(i64::try_from(value).map_or(OptionForm::Double(value as f64), OptionForm::Int))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<OptionForm, E> {
        Ok(OptionForm::Double(value))
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<OptionForm, E> {
        Ok(OptionForm::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<OptionForm, A::Error> {
        BTreeMap::deserialize(MapAccessDeserializer::new(map)).map(OptionForm::Map)
    }
}

impl<'de> Deserialize<'de> for SubOptionForm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<SubOptionForm, D::Error> {
        from.deserialize_any(SubOptionVisitor)
    }
}

struct SubOptionVisitor;

impl<'de> Visitor<'de> for SubOptionVisitor {
    type Value = SubOptionForm;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or bytes as an array of numbers")
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<SubOptionForm, E> {
        Ok(SubOptionForm::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> std::result::Result<SubOptionForm, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq)).map(SubOptionForm::Bytes)
    }
}

impl EntryForm {
    pub(super) fn of(entry: &SchemaEntry) -> EntryForm {
        let change = ChangeForm::of(&entry.change);
        EntryForm { format: FORMAT, number: entry.number, version: entry.version, change }
    }

    pub(super) fn entry(self, warnings: &mut Vec<String>) -> Result<SchemaEntry> {
        let change = self.change.change(warnings)?;
        Ok(SchemaEntry { number: self.number, version: self.version, change })
    }
}

impl ChangeForm {
    fn of(change: &SchemaChange) -> ChangeForm {
        match change.clone() {
            SchemaChange::CreateKeyspace { name, options } => {
                let (replication, durable_writes) = keyspace_form(&options);
                ChangeForm::CreateKeyspace { name, replication, durable_writes }
            }
            SchemaChange::AlterKeyspace { name, options } => {
                let (replication, durable_writes) = keyspace_form(&options);
                ChangeForm::AlterKeyspace { name, replication, durable_writes }
            }
            SchemaChange::DropKeyspace { name } => ChangeForm::DropKeyspace { name },
            SchemaChange::CreateTable(table) => ChangeForm::CreateTable(TableForm::of(&table)),
            SchemaChange::AlterTable(table) => ChangeForm::AlterTable(TableForm::of(&table)),
            SchemaChange::AlterTables(tables) => {
                ChangeForm::AlterTables(tables.iter().map(TableForm::of).collect())
            }
            SchemaChange::DropTable { keyspace, name } => ChangeForm::DropTable { keyspace, name },
            SchemaChange::CreateType(ty) => ChangeForm::CreateType(UserTypeForm::of(&ty)),
            SchemaChange::AlterType { definition, tables } => {
                let tables = tables.iter().map(TableForm::of).collect();
                ChangeForm::AlterType { definition: UserTypeForm::of(&definition), tables }
            }
            SchemaChange::DropType { keyspace, name } => ChangeForm::DropType { keyspace, name },
            SchemaChange::DroppedTables { ids, has_forgotten } => {
                let ids = ids.into_iter().map(|id| id.0).collect();
                ChangeForm::DroppedTables { ids, has_forgotten }
            }
            SchemaChange::PutFunction(function) => {
                ChangeForm::PutFunction(FunctionForm::of(&function))
            }
            SchemaChange::DropFunction { keyspace, key: FunctionKey { name, arguments } } => {
                ChangeForm::DropFunction { keyspace, name, arguments }
            }
            SchemaChange::PutAggregate(aggregate) => {
                ChangeForm::PutAggregate(AggregateForm::of(&aggregate))
            }
            SchemaChange::DropAggregate { keyspace, key: FunctionKey { name, arguments } } => {
                ChangeForm::DropAggregate { keyspace, name, arguments }
            }
        }
    }

    fn change(self, warnings: &mut Vec<String>) -> Result<SchemaChange> {
        Ok(match self {
            ChangeForm::CreateKeyspace { name, replication, durable_writes } => {
                let options = keyspace(&name, &replication, durable_writes, warnings);
                SchemaChange::CreateKeyspace { name, options }
            }
            ChangeForm::AlterKeyspace { name, replication, durable_writes } => {
                let options = keyspace(&name, &replication, durable_writes, warnings);
                SchemaChange::AlterKeyspace { name, options }
            }
            ChangeForm::DropKeyspace { name } => SchemaChange::DropKeyspace { name },
            ChangeForm::CreateTable(form) => {
                SchemaChange::CreateTable(Box::new(form.table(warnings)?))
            }
            ChangeForm::AlterTable(form) => {
                SchemaChange::AlterTable(Box::new(form.table(warnings)?))
            }
            ChangeForm::AlterTables(forms) => {
                let tables = forms.into_iter().map(|form| form.table(warnings));
                SchemaChange::AlterTables(tables.collect::<Result<_>>()?)
            }
            ChangeForm::DropTable { keyspace, name } => SchemaChange::DropTable { keyspace, name },
            ChangeForm::CreateType(form) => SchemaChange::CreateType(form.checked()?),
            ChangeForm::AlterType { definition, tables } => {
                let tables = tables.into_iter().map(|form| form.table(warnings));
                let tables = tables.collect::<Result<_>>()?;
                SchemaChange::AlterType { definition: definition.checked()?, tables }
            }
            ChangeForm::DropType { keyspace, name } => SchemaChange::DropType { keyspace, name },
            ChangeForm::DroppedTables { ids, has_forgotten } => {
                let ids = ids.into_iter().map(TableId).collect();
                SchemaChange::DroppedTables { ids, has_forgotten }
            }
            ChangeForm::PutFunction(form) => SchemaChange::PutFunction(Box::new(form.function()?)),
            ChangeForm::DropFunction { keyspace, name, arguments } => {
                SchemaChange::DropFunction { keyspace, key: FunctionKey { name, arguments } }
            }
            ChangeForm::PutAggregate(form) => {
                SchemaChange::PutAggregate(Box::new(form.aggregate()?))
            }
            ChangeForm::DropAggregate { keyspace, name, arguments } => {
                SchemaChange::DropAggregate { keyspace, key: FunctionKey { name, arguments } }
            }
        })
    }
}

fn keyspace_form(options: &KeyspaceOptions) -> (Texts, bool) {
    (options.replication.pairs(), options.durable_writes)
}

fn keyspace(
    name: &str,
    replication: &Texts,
    durable_writes: bool,
    warnings: &mut Vec<String>,
) -> KeyspaceOptions {
    let (options, refused) = KeyspaceOptions::restore(replication, durable_writes);
    warnings.extend(refused.map(|refusal| {
        format!("keyspace {name}: the replication of an earlier build is refused, and its default holds: {refusal}")
    }));
    options
}

impl TableForm {
    fn of(table: &Table) -> TableForm {
        let options = table.options.pairs();
        let dropped = |dropped: &DroppedColumn| DroppedForm {
            column: ColumnForm::of(&dropped.column),
            dropped_at: dropped.dropped_at,
        };
        TableForm {
            id: table.id.0,
            keyspace: table.keyspace.clone(),
            name: table.name.clone(),
            options: options
                .map(|(name, value)| (name.to_owned(), OptionForm::of(value)))
                .collect(),
            dropped: table.dropped.iter().map(dropped).collect(),
            columns: table.columns().iter().map(ColumnForm::of).collect(),
            next_column: table.next_column(),
            compact: table
                .is_compact()
                .then(|| table.hidden().iter().map(ColumnForm::of).collect()),
            indexes: table.indexes().iter().map(IndexForm::of).collect(),
            next_index: table.next_index(),
            view: table.view().map(ViewForm::of),
            _partition_key_count: 0,
            _clustering_count: 0,
        }
    }

    fn table(self, warnings: &mut Vec<String>) -> Result<Table> {
        let name = format!("{}.{}", self.keyspace, self.name);
        let mut options = TableOptions::default();
        for (option, form) in self.options {
            match options.restore(&option, &form.given()) {
                None => return Err(format!("table {name} has an option '{option}' that this build does not know")),
                Some(Ok(())) => {}
                Some(Err(refusal)) => warnings.push(format!(
                    "table {name}: option '{option}' of an earlier build is refused, and its default holds: {refusal}"
                )),
            }
        }
        let dropped = self.dropped.into_iter().map(|dropped| DroppedColumn {
            column: dropped.column.column(),
            dropped_at: dropped.dropped_at,
        });
        Table::of_parts(TableParts {
            id: TableId(self.id),
            keyspace: self.keyspace,
            name: self.name,
            options,
            dropped: dropped.collect(),
            columns: self.columns.into_iter().map(ColumnForm::column).collect(),
            next_column: self.next_column,
            compact: self
                .compact
                .map(|hidden| hidden.into_iter().map(ColumnForm::column).collect()),
            indexes: self.indexes.into_iter().map(IndexForm::index).collect(),
            next_index: self.next_index,
            view: self.view.map(ViewForm::view).transpose()?,
        })
        .map_err(|error| format!("table {name}: {error}"))
    }
}

/// Whether no id was given yet.
fn is_zero(next: &u16) -> bool {
    *next == 0
}

impl ColumnForm {
    fn of(column: &Column) -> ColumnForm {
        let kind = match column.kind {
            ColumnKind::PartitionKey => KindForm::PartitionKey,
            ColumnKind::Clustering => KindForm::Clustering,
            ColumnKind::Static => KindForm::Static,
            ColumnKind::Regular => KindForm::Regular,
        };
        ColumnForm {
            id: column.id.0,
            name: column.name.clone(),
            ty: TypeForm::of(&column.ty),
            kind,
            position: column.position,
            descending: column.descending,
        }
    }

    fn column(self) -> Column {
        let kind = match self.kind {
            KindForm::PartitionKey => ColumnKind::PartitionKey,
            KindForm::Clustering => ColumnKind::Clustering,
            KindForm::Static => ColumnKind::Static,
            KindForm::Regular => ColumnKind::Regular,
        };
        Column {
            id: ColumnId(self.id),
            name: self.name,
            ty: self.ty.ty(),
            kind,
            position: self.position,
            descending: self.descending,
        }
    }
}

impl OptionForm {
    fn of(value: Value<'_>) -> OptionForm {
        match value {
            Value::Text(text) => OptionForm::Text(text.into_owned()),
            Value::Boolean(value) => OptionForm::Boolean(value),
            Value::Double(value) => OptionForm::Double(value),
            Value::Int(value) => OptionForm::Int(value.into()),
            Value::Map(map) => {
                let pairs = map.into_owned().into_iter();
                OptionForm::Map(pairs.map(|(key, text)| (key, SubOptionForm::Text(text))).collect())
            }
            Value::Blobs(map) => {
                let pairs = map.iter();
                let text = |bytes: &Vec<u8>| SubOptionForm::Text(hex(bytes));
                OptionForm::Map(pairs.map(|(key, bytes)| (key.clone(), text(bytes))).collect())
            }
        }
    }

    fn given(self) -> Given {
        match self {
            OptionForm::Boolean(value) => Given::Text(value.to_string()),
            OptionForm::Int(value) => Given::Text(value.to_string()),
            OptionForm::Double(value) => Given::Text(value.to_string()),
            OptionForm::Text(text) => Given::Text(text),
            OptionForm::Map(map) => {
                let text = |form| match form {
                    SubOptionForm::Text(text) => text,
                    SubOptionForm::Bytes(bytes) => hex(&bytes),
                };
                Given::Map(map.into_iter().map(|(key, form)| (key, text(form))).collect())
            }
        }
    }
}

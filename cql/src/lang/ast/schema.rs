//! Statements about the schema: tables, types, `DESCRIBE`.

use super::{Order, QualifiedName, TypeName};

/// The right side of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyValue {
    /// A constant, as text.
    Text(String),
    /// `{'a': 'b'}`.
    Map(Vec<(String, String)>),
}

/// What follows `WITH`, in the order written; no name twice.
pub type Properties = Vec<(String, PropertyValue)>;

/// `CREATE TABLE ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    /// Its name.
    pub name: QualifiedName,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Its columns in order.
    pub columns: Vec<ColumnDefinition>,
    /// Every `PRIMARY KEY` written: the partition key, then the clustering columns.
    pub primary_keys: Vec<(Vec<String>, Vec<String>)>,
    /// `CLUSTERING ORDER BY (..)`.
    pub clustering_order: Vec<(String, Order)>,
    /// `COMPACT STORAGE`.
    pub compact_storage: bool,
    /// The other properties.
    pub properties: Properties,
}

/// A column of `CREATE TABLE` or `ALTER TABLE .. ADD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_name: TypeName,
    /// `STATIC`.
    pub is_static: bool,
    /// `MASKED WITH ..`.
    pub is_masked: bool,
}

/// `ALTER TABLE ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterTable {
    /// Its name.
    pub name: QualifiedName,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// What changes.
    pub change: TableChange,
}

/// What an `ALTER TABLE` changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableChange {
    /// `ADD ..`.
    Add {
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// The new columns.
        columns: Vec<ColumnDefinition>,
    },
    /// `DROP ..`.
    Drop {
        /// `IF EXISTS`.
        if_exists: bool,
        /// The columns.
        columns: Vec<String>,
        /// `USING TIMESTAMP`.
        timestamp: Option<String>,
    },
    /// `RENAME a TO b AND ..`.
    Rename {
        /// `IF EXISTS`.
        if_exists: bool,
        /// Old and new names.
        names: Vec<(String, String)>,
    },
    /// `ALTER c TYPE t`.
    ColumnType(String, TypeName),
    /// `ALTER c MASKED ..`, `ALTER c DROP MASKED`.
    Mask(String),
    /// `DROP COMPACT STORAGE`.
    DropCompactStorage,
    /// `WITH ..`.
    With(Properties),
}

/// `ALTER TYPE ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterType {
    /// Its name.
    pub name: QualifiedName,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// What changes.
    pub change: TypeChange,
}

/// What an `ALTER TYPE` changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeChange {
    /// `ADD f t`.
    Add {
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// The field.
        field: String,
        /// Its type.
        type_name: TypeName,
    },
    /// `RENAME a TO b AND ..`.
    Rename {
        /// `IF EXISTS`.
        if_exists: bool,
        /// Old and new names.
        names: Vec<(String, String)>,
    },
    /// `ALTER f TYPE t`.
    FieldType(String, TypeName),
}

/// `DESCRIBE ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Describe {
    /// What is described.
    pub target: DescribeTarget,
    /// `WITH INTERNALS`.
    pub internals: bool,
}

/// What a `DESCRIBE` describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescribeTarget {
    /// `CLUSTER`.
    Cluster,
    /// `[FULL] SCHEMA`.
    Schema {
        /// The system keyspaces too.
        full: bool,
    },
    /// `KEYSPACES`.
    Keyspaces,
    /// `[ONLY] KEYSPACE [ks]`.
    Keyspace {
        /// Which; the current one if not written.
        name: Option<String>,
        /// Without what is in it.
        only: bool,
    },
    /// `TABLES`.
    Tables,
    /// `TABLE t`.
    Table(QualifiedName),
    /// `INDEX i`.
    Index(QualifiedName),
    /// `MATERIALIZED VIEW v`.
    View(QualifiedName),
    /// `TYPES`.
    Types,
    /// `TYPE t`.
    Type(QualifiedName),
    /// `FUNCTIONS`.
    Functions,
    /// `FUNCTION f`.
    Function(QualifiedName),
    /// `AGGREGATES`.
    Aggregates,
    /// `AGGREGATE a`.
    Aggregate(QualifiedName),
    /// A bare name: a keyspace, a table, an index or a view.
    Name(QualifiedName),
}

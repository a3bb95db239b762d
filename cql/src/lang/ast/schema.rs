//! Statements about the schema: keyspaces, tables, types, functions, indexes, materialized views, and `DESCRIBE`.
//!
//! What parses is kept as it was written: a table may have several primary keys or none, a type any fields. `ddl`
//! judges it in Cassandra's order and words.
//!
//! Not here: the grammar (`parser/create.rs`, `parser/alter.rs`, `parser/function.rs`, `parser/index.rs`,
//! `parser/describe.rs`), what statements change (`cql/src/ddl.rs`), what `DESCRIBE` answers (`cql/src/describe.rs`).

use super::{Expr, Order, QualifiedName, Relation, SelectItem, TypeName};

/// A statement that changes the schema.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaStatement {
    /// `CREATE KEYSPACE ..`.
    CreateKeyspace {
        /// Name of the object.
        name: String,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// The properties that follow `WITH`.
        properties: Properties,
    },
    /// `ALTER KEYSPACE ..`.
    AlterKeyspace {
        /// Name of the object.
        name: String,
        /// Whether `IF EXISTS` was written: a missing object is no error.
        if_exists: bool,
        /// The properties that follow `WITH`.
        properties: Properties,
    },
    /// `DROP KEYSPACE ..`.
    DropKeyspace {
        /// Name of the object.
        name: String,
        /// Whether `IF EXISTS` was written: a missing object is no error.
        if_exists: bool,
    },
    /// `CREATE TABLE ..`.
    CreateTable(Box<CreateTable>),
    /// `CREATE TABLE .. LIKE ..`.
    CreateTableLike(CreateTableLike),
    /// `ALTER TABLE ..`.
    AlterTable(AlterTable),
    /// `DROP TABLE ..`.
    DropTable {
        /// Name of the object.
        name: QualifiedName,
        /// Whether `IF EXISTS` was written: a missing object is no error.
        if_exists: bool,
    },
    /// `CREATE TYPE ..`.
    CreateType {
        /// Name of the object.
        name: QualifiedName,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// The fields in order, each with its type.
        fields: Vec<(String, TypeName)>,
    },
    /// `ALTER TYPE ..`.
    AlterType(AlterType),
    /// `DROP TYPE ..`.
    DropType {
        /// Name of the object.
        name: QualifiedName,
        /// Whether `IF EXISTS` was written: a missing object is no error.
        if_exists: bool,
    },
    /// `CREATE FUNCTION ..`.
    CreateFunction(Box<CreateFunction>),
    /// `CREATE AGGREGATE ..`.
    CreateAggregate(Box<CreateAggregate>),
    /// `DROP FUNCTION ..`, `DROP AGGREGATE ..`.
    DropFunction(DropFunction),
    /// `CREATE INDEX ..`.
    CreateIndex(CreateIndex),
    /// `DROP INDEX ..`.
    DropIndex {
        /// Name of the object.
        name: QualifiedName,
        /// Whether `IF EXISTS` was written: a missing object is no error.
        if_exists: bool,
    },
    /// `CREATE MATERIALIZED VIEW ..`.
    CreateView(Box<CreateView>),
    /// `ALTER MATERIALIZED VIEW .. WITH ..`.
    AlterView {
        /// Name of the object.
        name: QualifiedName,
        /// Whether `IF EXISTS` was written: a missing object is no error.
        if_exists: bool,
        /// The properties that follow `WITH`.
        properties: Properties,
    },
    /// `DROP MATERIALIZED VIEW ..`.
    DropView {
        /// Name of the object.
        name: QualifiedName,
        /// Whether `IF EXISTS` was written: a missing object is no error.
        if_exists: bool,
    },
}

/// The right side of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyValue {
    /// A constant, as text.
    Text(String),
    /// A map of texts: `{'a': 'b'}`.
    Map(Vec<(String, String)>),
}

/// What follows `WITH`, in the order written; no name twice.
pub type Properties = Vec<(String, PropertyValue)>;

/// `CREATE TABLE ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    /// Name of the object.
    pub name: QualifiedName,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The columns in order.
    pub columns: Vec<ColumnDefinition>,
    /// Every `PRIMARY KEY` written: the partition key, then the clustering columns.
    pub primary_keys: Vec<(Vec<String>, Vec<String>)>,
    /// `CLUSTERING ORDER BY (..)`.
    pub clustering_order: Vec<(String, Order)>,
    /// Whether `COMPACT STORAGE` was written.
    pub compact_storage: bool,
    /// The other properties.
    pub properties: Properties,
}

/// `CREATE TABLE .. LIKE ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTableLike {
    /// Name of the object.
    pub name: QualifiedName,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The table whose columns and options it gets.
    pub source: QualifiedName,
    /// What else is to be copied, as it was written: `INDEXES`, `COMMENTS`, `SECURITY LABELS`.
    pub parts: Vec<&'static str>,
    /// The properties that it has in place of the source's.
    pub properties: Properties,
}

/// `CREATE INDEX ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateIndex {
    /// Name of the index, if it was given one.
    pub name: Option<String>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The table that is indexed.
    pub table: QualifiedName,
    /// The columns, each with the function around it: `keys(c)`.
    pub targets: Vec<(Option<IndexFunction>, String)>,
    /// Whether `CUSTOM` was written.
    pub is_custom: bool,
    /// What follows `USING`.
    pub class: Option<String>,
    /// The properties that follow `WITH`.
    pub properties: Properties,
}

/// The function around the column of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexFunction {
    /// `keys(c)`: of a map.
    Keys,
    /// `values(c)`: of a map, or the elements of a list or set.
    Values,
    /// `entries(c)`: the pairs of a map.
    Entries,
    /// `full(c)`: a frozen collection as one value.
    Full,
}

/// `CREATE MATERIALIZED VIEW ..`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    /// Name of the object.
    pub name: QualifiedName,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// What is selected; nothing stands for `*`.
    pub items: Vec<SelectItem>,
    /// The table whose rows the view has.
    pub base: QualifiedName,
    /// `WHERE ..`: which of its rows.
    pub relations: Vec<Relation>,
    /// The partition key, then the clustering columns.
    pub primary_key: (Vec<String>, Vec<String>),
    /// `CLUSTERING ORDER BY (..)`.
    pub clustering_order: Vec<(String, Order)>,
    /// Whether `COMPACT STORAGE` was written.
    pub compact_storage: bool,
    /// The other properties.
    pub properties: Properties,
}

/// A column of `CREATE TABLE` or `ALTER TABLE .. ADD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// Name of the object.
    pub name: String,
    /// Type of the column.
    pub type_name: TypeName,
    /// Whether `STATIC` was written: one value a partition.
    pub is_static: bool,
    /// `MASKED WITH ..`.
    pub is_masked: bool,
}

/// `ALTER TABLE ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterTable {
    /// Name of the object.
    pub name: QualifiedName,
    /// Whether `IF EXISTS` was written: a missing object is no error.
    pub if_exists: bool,
    /// The change that the statement makes.
    pub change: TableChange,
}

/// The change that an `ALTER TABLE` makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableChange {
    /// `ADD ..`: new columns.
    Add {
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// The new columns.
        columns: Vec<ColumnDefinition>,
    },
    /// `DROP ..`: columns that go.
    Drop {
        /// Whether `IF EXISTS` was written: a missing column is no error.
        if_exists: bool,
        /// Names of the columns.
        columns: Vec<String>,
        /// `USING TIMESTAMP n`: cells written until then go, in µs.
        timestamp: Option<i64>,
    },
    /// `RENAME a TO b AND ..`.
    Rename {
        /// Whether `IF EXISTS` was written: a missing column is no error.
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
    /// `WITH ..`: other options.
    With(Properties),
}

/// What becomes of an object of the same name that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Existing {
    /// `OR REPLACE`: the new one takes its place.
    pub replaced: bool,
    /// `IF NOT EXISTS`: it stays.
    pub kept: bool,
}

/// `CREATE FUNCTION ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateFunction {
    /// Name of the object.
    pub name: QualifiedName,
    /// `OR REPLACE`, `IF NOT EXISTS`.
    pub existing: Existing,
    /// Names and types of the arguments.
    pub arguments: Vec<(String, TypeName)>,
    /// `CALLED ON NULL INPUT`, not `RETURNS NULL ON NULL INPUT`.
    pub called_on_null: bool,
    /// Type of the result.
    pub result: TypeName,
    /// The language of the body, in lower case.
    pub language: String,
    /// The text of the function.
    pub body: String,
}

/// `CREATE AGGREGATE ..`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateAggregate {
    /// Name of the object.
    pub name: QualifiedName,
    /// `OR REPLACE`, `IF NOT EXISTS`.
    pub existing: Existing,
    /// Types of the arguments.
    pub arguments: Vec<TypeName>,
    /// `SFUNC`: the function that gives the next state.
    pub state_function: String,
    /// `STYPE`: the type of the state.
    pub state: TypeName,
    /// `REDUCEFUNC`: the function that puts two states together.
    pub reduce_function: Option<String>,
    /// `FINALFUNC`: the function that makes the result of the last state.
    pub final_function: Option<String>,
    /// `INITCOND`: the first state.
    pub initial: Option<Expr>,
}

/// Whether a function is one of rows, or of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// `FUNCTION`: of the values of one row.
    Scalar,
    /// `AGGREGATE`: of the values of many rows.
    Aggregate,
}

/// `DROP FUNCTION ..`, `DROP AGGREGATE ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropFunction {
    /// Which of the two.
    pub kind: FunctionKind,
    /// Name of the object.
    pub name: QualifiedName,
    /// The types of its arguments, where they are written.
    pub arguments: Option<Vec<TypeName>>,
    /// Whether `IF EXISTS` was written: a missing object is no error.
    pub if_exists: bool,
}

/// `ALTER TYPE ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterType {
    /// Name of the object.
    pub name: QualifiedName,
    /// Whether `IF EXISTS` was written: a missing object is no error.
    pub if_exists: bool,
    /// The change that the statement makes.
    pub change: TypeChange,
}

/// The change that an `ALTER TYPE` makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeChange {
    /// `ADD f t`.
    Add {
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// Name of the field.
        field: String,
        /// Type of the field.
        type_name: TypeName,
    },
    /// `RENAME a TO b AND ..`.
    Rename {
        /// Whether `IF EXISTS` was written: a missing column is no error.
        if_exists: bool,
        /// Old and new names.
        names: Vec<(String, String)>,
    },
    /// `ALTER f TYPE t`.
    FieldType(String, TypeName),
}

/// `DESCRIBE ..`: what to describe, and how fully.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Describe {
    /// The object that is described.
    pub target: DescribeTarget,
    /// Whether `WITH INTERNALS` was written: ids and dropped columns too.
    pub internals: bool,
}

/// The object of a `DESCRIBE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescribeTarget {
    /// `DESCRIBE CLUSTER`: name, partitioner and snitch.
    Cluster,
    /// `DESCRIBE [FULL] SCHEMA`: every keyspace with all it holds.
    Schema {
        /// The system keyspaces too.
        full: bool,
    },
    /// `DESCRIBE KEYSPACES`: their names.
    Keyspaces,
    /// `[ONLY] KEYSPACE [ks]`.
    Keyspace {
        /// Which; the current one if not written.
        name: Option<String>,
        /// Without what is in it.
        only: bool,
    },
    /// `DESCRIBE TABLES`: their names.
    Tables,
    /// `DESCRIBE TABLE t`: one table with its indexes.
    Table(QualifiedName),
    /// `DESCRIBE INDEX i`: one index.
    Index(QualifiedName),
    /// `MATERIALIZED VIEW v`.
    View(QualifiedName),
    /// `DESCRIBE TYPES`: their names.
    Types,
    /// `DESCRIBE TYPE t`: one user type.
    Type(QualifiedName),
    /// `DESCRIBE FUNCTIONS`: their names.
    Functions,
    /// `DESCRIBE FUNCTION f`: all functions with this name.
    Function(QualifiedName),
    /// `DESCRIBE AGGREGATES`: their names.
    Aggregates,
    /// `DESCRIBE AGGREGATE a`: all aggregates with this name.
    Aggregate(QualifiedName),
    /// A bare name: a keyspace, a table, an index or a view.
    Name(QualifiedName),
}

//! A compiled statement as this server keeps it: the plan, and the metadata in the bytes of each protocol version, made
//! when a client first asks for it (that of version 5: when the statement is compiled).
//!
//! 1. `compile` parses the text, prepares the plan, refuses metadata that is too long, and computes two ids.
//! 2. `id` is what EXECUTE names: the MD5 of keyspace and text. The keyspace is left out if the text names the keyspace
//!    of each table.
//! 3. `result_id` is the MD5 of the result's metadata as version 5 writes it. A v5 client sends it back with EXECUTE;
//!    if it differs, the answer carries the new metadata (`Known::Old`).
//!
//! Invariants: a statement is never changed, only its counters and the metadata that is kept are filled in later. It is
//! valid while [`ServerStatement::is_valid`] says so: tables are compared by pointer, so any change of a table makes
//! the statements of that table invalid.
//!
//! Not here: the cache of statements (`prepared.rs`), the cost of statements (`statements.rs`), the compiler itself
//! (`cql/src/prepare.rs`).

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use cql::bind::Marker;
use cql::frame::Version;
use cql::frame::request::Execute;
use cql::frame::response::result::{OpenRows, PreparedResult};
use cql::frame::response::{ColumnSpec, Columns, Description, Envelope};
use cql::lang::ast::BatchKind;
use cql::limits::{DESCRIPTION_BYTES_MAX, PLAN_TOKEN_BYTES};
use cql::plan::{ExplainStep, SelectPlan};
use cql::prepare::{CalledName, Prepared, Statement};
use model::schema::{Column, Schema};

use super::consistency::Replication;
use super::handshake::LwtMarks;
use crate::limits::{BOUND_AT_ONCE_BYTES, BOUND_AT_ONCE_TOKENS};
use crate::prepared::StatementId;
use crate::statements::{StatementName, StatementPlace};

/// Bytes a statement takes beside its text, roughly: the plan and its metadata.
const PLAN_BYTES: usize = 2048;

/// A compiled statement.
pub(crate) struct ServerStatement {
    pub(super) id: StatementId,
    /// What the result looks like: changes when the columns do.
    pub(super) result_id: StatementId,
    pub(super) text: String,
    pub(super) keyspace: Option<String>,
    pub(super) compiled: Arc<Prepared>,
    /// Where a write is bound.
    pub(super) bound: BoundWhere,
    /// What the statement has in common with those that differ from it by values alone.
    fingerprint: String,
    /// Where its executions are counted.
    pub(super) place: Cell<StatementPlace>,
    /// Where BATCH messages that begin with the statement are counted: logged ones, and others.
    pub(super) batch_places: [Cell<StatementPlace>; 2],
    /// The replication of each keyspace that the statement reads or writes.
    pub(super) replication: Vec<Replication>,
    markers: PerVersion,
    result: PerVersion,
}

/// One description for v3, v4 and v5 each.
type PerVersion = [OnceCell<Columns>; 3];

/// Where a write is bound (`beside_core.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BoundWhere {
    /// On its core: it is as fast as copying, or calls functions of users.
    OnCore,
    /// Beside its core if its values are long.
    BesideIfLong,
    /// Beside its core: its text has so much that its values do not matter.
    Beside,
}

/// How the client asked for a result, and so how it is described.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// By text: everything is described.
    Query,
    /// By the id of a prepared statement.
    Execute(Known),
}

/// Which description of a result the client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The right one: it wants none.
    Yes,
    /// None that it wants to use.
    No,
    /// An old one (v5): it must be told the new.
    Old,
}

impl Target {
    /// How EXECUTE asks for the result of the statement that it names.
    #[inline]
    pub(super) fn of(execute: &Execute<'_>, statement: &ServerStatement) -> Target {
        Target::Execute(match execute.result_metadata_id {
            Some(id) if id != statement.result_id => Known::Old,
            _ if execute.parameters.skip_metadata => Known::Yes,
            _ => Known::No,
        })
    }

    /// The same on the core that owns the rows, for a client of another core. `asked` is the result metadata of
    /// the statement there: while a change of the schema spreads it may be another than here, and then the
    /// client knows no metadata of these rows.
    pub(super) fn as_known_to(
        self,
        asked: Option<StatementId>,
        statement: &ServerStatement,
    ) -> Target {
        match self {
            Target::Query => Target::Query,
            Target::Execute(Known::Yes) if asked != Some(statement.result_id) => {
                Target::Execute(Known::No)
            }
            target @ Target::Execute(_) => target,
        }
    }
}

/// What the plan of a SELECT depends on beside its text: where that is the same, the same text has the same plan.
#[derive(Clone, Debug)]
pub(super) struct SeenSchema {
    table: Arc<model::Table>,
    called: Vec<CalledName>,
}

impl SeenSchema {
    /// Whether the table has all its columns in this schema, as they were, and all functions that the text may call are
    /// the same.
    pub(super) fn is_of(&self, schema: &Schema) -> bool {
        let Some(now) = schema.table_by_id(self.table.id) else { return false };
        let has = |column: &Column| now.column_by_id(column.id) == Some(column);
        self.table.columns().iter().all(has)
            && self.called.iter().all(|name| name.is_same_in(schema))
    }
}

impl ServerStatement {
    /// Compiles `text`; an error says what is wrong with it.
    pub(super) fn compile(
        text: &str,
        keyspace: Option<&str>,
        schema: &Schema,
    ) -> cql::Result<ServerStatement> {
        let mut parsed = cql::lang::parse(text)?;
        let fingerprint = std::mem::take(&mut parsed.fingerprint);
        let compiled = Arc::new(cql::prepare::prepare_parsed(parsed, schema, keyspace)?);
        let none = || Cell::new(StatementPlace::NONE);
        let keyspace = keyspace.filter(|_| !compiled.is_qualified);
        let mut statement = ServerStatement {
            id: ServerStatement::id_of(text, keyspace),
            replication: Replication::of_statement(&compiled.statement, schema),
            result_id: [0; 16],
            text: text.to_owned(),
            bound: BoundWhere::of(&compiled),
            keyspace: keyspace.map(str::to_owned),
            compiled,
            fingerprint,
            place: none(),
            batch_places: [none(), none()],
            markers: Default::default(),
            result: Default::default(),
        };
        statement.check_description()?;
        let specs = statement.result_columns(Version::V5).specs();
        statement.result_id = cql::digest(specs);
        Ok(statement)
    }

    /// Refuses what takes more to describe, in any version, than a description may have.
    fn check_description(&self) -> cql::Result<()> {
        let result = match &self.compiled.statement {
            Statement::Select(plan) => plan.result_specs(),
            // Few columns, of types without parts.
            _ => Vec::new(),
        };
        let markers = self.marker_specs();
        for (what, specs, kept) in
            [("result", result, &self.result), ("bind markers", markers, &self.markers)]
        {
            if specs.is_empty() {
                continue;
            }
            let described =
                |version| Columns::encode_within(version, &specs, DESCRIPTION_BYTES_MAX);
            // Version 3 names the class of what is younger than it, in 25 times the bytes.
            let fits = |columns: &Columns| {
                columns.specs().len() <= DESCRIPTION_BYTES_MAX / 25
                    || described(Version::V3).is_some()
            };
            let Some(columns) = described(Version::V5).filter(fits) else {
                return Err(cql::Error::invalid(format!(
                    "the types of its {what} take more than {DESCRIPTION_BYTES_MAX} bytes to describe: \
                     name fewer, or columns of smaller types"
                )));
            };
            // It is asked for next.
            let _ = kept[place(Version::V5)].set(columns);
        }
        Ok(())
    }

    /// The id of a statement: the MD5 of its keyspace, a zero and its text. A text that names the keyspace of each
    /// table means the same in every session and has one id, that of the text alone (CASSANDRA-15252).
    ///
    /// Cassandra has no zero there, and gives keyspace `a` with the text `explain SELECT ..` the id of keyspace
    /// `aexplain` with the text ` SELECT ..`.
    pub(super) fn id_of(text: &str, keyspace: Option<&str>) -> StatementId {
        match keyspace {
            Some(keyspace) => cql::digest([keyspace, "\0", text].concat().as_bytes()),
            None => cql::digest(text.as_bytes()),
        }
    }

    /// The ids that a text may be kept under: if it is qualified, or of a session without keyspace; or else of this
    /// keyspace.
    pub(super) fn ids_of(text: &str, keyspace: Option<&str>) -> [StatementId; 2] {
        [ServerStatement::id_of(text, None), ServerStatement::id_of(text, keyspace)]
    }

    /// The bytes that the statement takes in the cache.
    pub(super) fn bytes(&self) -> usize {
        let plan = PLAN_BYTES.max(PLAN_TOKEN_BYTES * self.compiled.tokens);
        let texts = self.text.len() + self.fingerprint.len();
        // Each version that clients speak gets a description of its own, when one first asks for it.
        let described = self.result_columns(Version::V5).specs().len() * self.result.len();
        let of_markers = self.marker_columns(Version::V5).specs().len() * self.markers.len();
        let markers = 128 * self.markers().len() + of_markers;
        texts + plan + markers + described + self.compiled.made_bytes
    }

    /// What its executions are counted by.
    pub(super) fn name(&self) -> StatementName {
        let keyspace = self.keyspace.as_deref().unwrap_or_default();
        StatementName { fingerprint: self.fingerprint.as_str().into(), keyspace: keyspace.into() }
    }

    /// What BATCH messages are counted by that begin with it.
    pub(super) fn name_of_batch(&self, kind: BatchKind) -> StatementName {
        let kind = if kind == BatchKind::Logged { "" } else { "unlogged " };
        let fingerprint = format!("begin {kind}batch {}; ...", self.fingerprint);
        StatementName { fingerprint: fingerprint.into(), ..self.name() }
    }

    pub(super) fn markers(&self) -> &[Marker] {
        &self.compiled.markers
    }

    /// The plan, if it is a SELECT.
    pub(super) fn select(&self) -> Option<&SelectPlan> {
        match &self.compiled.statement {
            Statement::Select(plan) => Some(plan),
            Statement::Explain(_)
            | Statement::Write(_)
            | Statement::Batch(_)
            | Statement::Truncate(_)
            | Statement::Use(_)
            | Statement::Schema(_)
            | Statement::Describe(_) => None,
        }
    }

    /// What this SELECT was compiled against.
    pub(super) fn seen(&self, plan: &SelectPlan) -> SeenSchema {
        SeenSchema { table: plan.table.clone(), called: self.compiled.called.clone() }
    }

    /// Whether every table and keyspace it was compiled against is as it was, and each function that it names.
    pub(super) fn is_valid(&self, schema: &Schema) -> bool {
        let same = |table: &Arc<model::Table>| {
            schema.table_by_id(table.id).is_some_and(|now| Arc::ptr_eq(now, table))
        };
        let tables = match &self.compiled.statement {
            Statement::Select(plan) | Statement::Explain(plan) => same(&plan.table),
            Statement::Write(plan) => same(&plan.table),
            Statement::Batch(plan) => plan.writes.iter().all(|write| same(&write.table)),
            Statement::Truncate(table) => same(table),
            // They name nothing that is looked up before they are executed.
            Statement::Use(_) | Statement::Schema(_) | Statement::Describe(_) => true,
        };
        let called = self.compiled.called.iter().all(|name| name.is_same_in(schema));
        tables
            && called
            && self.replication == Replication::of_statement(&self.compiled.statement, schema)
    }

    fn marker_columns(&self, version: Version) -> &Columns {
        self.markers[place(version)].get_or_init(|| Columns::encode(version, &self.marker_specs()))
    }

    fn marker_specs(&self) -> Vec<ColumnSpec<'_>> {
        let markers = self.markers().iter();
        markers
            .map(|Marker { keyspace, table, name, ty }| ColumnSpec { keyspace, table, name, ty })
            .collect()
    }

    fn result_columns(&self, version: Version) -> &Columns {
        self.result[place(version)].get_or_init(|| match &self.compiled.statement {
            Statement::Select(plan) => plan.result_columns(version),
            Statement::Explain(_) => ExplainStep::columns(version),
            _ => Columns::none(),
        })
    }

    /// Whether the statement is answered with rows whose columns are known when it is prepared.
    fn has_rows(&self) -> bool {
        matches!(self.compiled.statement, Statement::Select(_) | Statement::Explain(_))
    }

    /// Appends RESULT Prepared, in which conditional writes are marked for a client that has asked for that.
    pub(super) fn put_prepared(
        &self,
        envelope: &Envelope<'_>,
        lwt_marks: LwtMarks,
        out: &mut Vec<u8>,
    ) {
        let version = envelope.version;
        let prepared = PreparedResult {
            id: &self.id,
            result_metadata_id: &self.result_id,
            markers: self.marker_columns(version),
            key_indexes: &self.compiled.key_indexes,
            result: self.has_rows().then(|| self.result_columns(version)),
            is_marked: lwt_marks == LwtMarks::Wanted && self.compiled.statement.is_conditional(),
        };
        Envelope { warnings: &self.compiled.warnings, ..*envelope }.put_prepared(&prepared, out);
    }

    /// Begins RESULT Rows.
    #[inline]
    pub(super) fn open_rows(
        &self,
        envelope: &Envelope<'_>,
        target: Target,
        out: &mut Vec<u8>,
    ) -> OpenRows {
        let description = match target {
            Target::Execute(Known::Old) => Description::Changed(&self.result_id),
            Target::Execute(Known::Yes) => Description::Skipped,
            Target::Execute(Known::No) | Target::Query => Description::Full,
        };
        let envelope = Envelope { warnings: &self.compiled.warnings, ..*envelope };
        envelope.open_rows(self.result_columns(envelope.version), description, out)
    }
}

impl BoundWhere {
    fn of(prepared: &Prepared) -> BoundWhere {
        if prepared.calls_users() {
            return BoundWhere::OnCore;
        }
        if prepared.json_values_bytes > BOUND_AT_ONCE_BYTES
            || prepared.tokens > BOUND_AT_ONCE_TOKENS
        {
            return BoundWhere::Beside;
        }
        match prepared.has_costly_values() {
            true => BoundWhere::BesideIfLong,
            false => BoundWhere::OnCore,
        }
    }
}

fn place(version: Version) -> usize {
    usize::from(version.number() - Version::V3.number())
}

#[cfg(test)]
mod tests {
    use cql::frame::Consistency;
    use cql::frame::request::Parameters;
    use model::options::KeyspaceOptions;
    use model::schema::{SchemaChange, TableBuilder, TableId};
    use model::types::CqlType;

    use super::*;

    fn prepared(columns: &[&str]) -> ServerStatement {
        compiled("SELECT * FROM ks.t WHERE k = ?", columns)
    }

    fn compiled(text: &str, columns: &[&str]) -> ServerStatement {
        ServerStatement::compile(text, None, &schema_of(columns)).unwrap()
    }

    fn schema_of(columns: &[&str]) -> Schema {
        let id = TableId(uuid::Uuid::from_u128(1));
        let key = TableBuilder::new("ks", "t", id).partition_key("k", CqlType::Int).unwrap();
        let add = |table: TableBuilder, name: &&str| table.regular(name, CqlType::Int).unwrap();
        let table = columns.iter().fold(key, add);
        let keyspace =
            SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() };
        let table = SchemaChange::CreateTable(Box::new(table.build().unwrap()));
        Schema::of_changes([keyspace, table]).unwrap()
    }

    /// Whether an owner describes the rows to a v4 client that skips metadata.
    fn describes(asked: Option<StatementId>, owner: &ServerStatement) -> bool {
        let parameters =
            Parameters { skip_metadata: true, ..Parameters::plain(Consistency::One, Version::V4) };
        let execute = Execute { id: &owner.id, result_metadata_id: None, parameters };
        let target = Target::of(&execute, owner).as_known_to(asked, owner);
        matches!(target, Target::Execute(Known::No))
    }

    #[test]
    fn an_owner_that_has_not_followed_an_alter_describes_its_rows_to_a_v4_client() {
        let (before, after) = (prepared(&["v"]), prepared(&["v", "added"]));
        assert_eq!(before.id, after.id, "the client cannot tell them apart");
        assert!(describes(Some(after.result_id), &before));
        assert!(describes(Some(before.result_id), &after));
        assert!(!describes(Some(after.result_id), &after));
    }

    /// Before: keyspace and text were put together with nothing between them, and where one core had kept the one
    /// statement and another core the other, a forwarded EXECUTE of the SELECT ended the node.
    #[test]
    fn another_keyspace_and_text_that_make_the_same_bytes_have_another_id() {
        let select = ServerStatement::id_of("\nSELECT v FROM t WHERE k = ?", Some("aexplain"));
        let explain = ServerStatement::id_of("explain\nSELECT v FROM t WHERE k = ?", Some("a"));
        assert_ne!(select, explain);
        let qualified = "SELECT v FROM a.t";
        assert_eq!(ServerStatement::id_of(qualified, None), cql::digest(qualified.as_bytes()));
    }

    /// Before: only the result was compared, and the states of other aggregates with results of the same type were
    /// taken for those of the asker's.
    #[test]
    fn a_part_is_made_only_of_the_columns_and_functions_that_the_asker_saw() {
        let asker = prepared(&["v", "w"]);
        let seen = asker.seen(asker.select().unwrap());
        assert!(seen.is_of(&schema_of(&["v", "w"])));
        assert!(seen.is_of(&schema_of(&["v", "w", "added"])));
        assert!(!seen.is_of(&schema_of(&["v"])));
        assert!(!seen.is_of(&Schema::of_changes([]).unwrap()));
    }

    /// Before: descriptions counted nothing, though one may be many times as long as the text.
    #[test]
    fn what_describes_columns_and_markers_is_counted() {
        let name = "v".repeat(200);
        let selected = compiled(
            &format!("SELECT {}{name} FROM ks.t", format!("{name}, ").repeat(99)),
            &[&name],
        );
        assert!(selected.bytes() > 100 * 200 + 3 * 100 * 200, "text and descriptions");
        let marked = compiled(&format!("INSERT INTO ks.t (k, {name}) VALUES (?, ?)"), &[&name]);
        let plain = compiled(&format!("INSERT INTO ks.t (k, {name}) VALUES (1, 2)"), &[&name]);
        assert!(marked.bytes() > plain.bytes() + 3 * 200);
    }

    /// Before: the cache counted about 15 KB for a statement that kept 16 MiB.
    #[test]
    fn what_a_statement_keeps_of_json_is_counted() {
        let of_json = compiled("INSERT INTO ks.t JSON '{\"k\": 1}'", &["a", "b", "c"]);
        assert!(of_json.compiled.made_bytes >= 4 * cql::limits::JSON_COLUMN_BYTES + 4);
        assert!(of_json.bytes() >= PLAN_BYTES + of_json.compiled.made_bytes);
    }
}

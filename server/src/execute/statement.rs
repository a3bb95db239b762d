//! A compiled statement as this server keeps it: the plan, and the metadata in the bytes of each
//! protocol version, made when first asked for.

use super::answer::WriteKind;
use super::consistency::{Replication, check_serial, check_write};
use super::write::Promise;
use super::{Call, Executor, Progress, Refusal, batch, describe};
use crate::ids::Ids;
use crate::prepared::StatementId;
use crate::service::Outcome;
use crate::system;
use cql::bind::{Bindings, Marker, Moment};
use cql::frame::Version;
use cql::frame::consistency::Consistency;
use cql::frame::request::{Parameters, ValueList};
use cql::frame::response::result::{OpenRows, Prepared as PreparedAnswer};
use cql::frame::response::{ColumnSpec, Columns, Description, Envelope};
use cql::plan::SelectPlan;
use cql::prepare::{Prepared as Compiled, Statement};
use model::schema::Schema;
use std::cell::OnceCell;
use std::rc::Rc;

/// Bytes a statement takes beside its text, roughly: the plan and its metadata.
const PLAN_BYTES: usize = 2048;

/// A compiled statement.
pub(crate) struct Prepared {
    pub(super) id: StatementId,
    /// What the result looks like: changes when the columns do.
    pub(super) result_id: StatementId,
    pub(super) text: String,
    pub(super) keyspace: Option<String>,
    pub(super) compiled: Compiled,
    /// Of the keyspaces it reads or writes.
    pub(super) replication: Vec<Replication>,
    markers: PerVersion,
    result: PerVersion,
}

/// One description for v3, v4 and v5 each.
type PerVersion = [OnceCell<Columns>; 3];

/// How the client asked for a result, and so how it is described.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// By text: everything is described.
    Query,
    /// By id.
    Execute {
        /// The client has the right description and wants none.
        knows: bool,
        /// The client has an old description (v5).
        stale: bool,
    },
}

impl Prepared {
    /// Compiles `text`.
    pub(super) fn compile(
        text: &str,
        keyspace: Option<&str>,
        schema: &Schema,
    ) -> cql::Result<Prepared> {
        let compiled = cql::prepare::prepare(text, schema, keyspace)?;
        let keyspace = keyspace.filter(|_| !compiled.is_qualified);
        let mut statement = Prepared {
            id: Prepared::id_of(text, keyspace),
            replication: Replication::of_statement(&compiled.statement, schema),
            result_id: [0; 16],
            text: text.to_owned(),
            keyspace: keyspace.map(str::to_owned),
            compiled,
            markers: Default::default(),
            result: Default::default(),
        };
        let specs = statement.result_columns(Version::V5).specs();
        statement.result_id = cql::digest(specs);
        Ok(statement)
    }

    /// The id of a statement: the MD5 of keyspace and text, as Cassandra's. A text that names the
    /// keyspace of each table means the same in every session and has one id (CASSANDRA-15252).
    pub(super) fn id_of(text: &str, keyspace: Option<&str>) -> StatementId {
        cql::digest([keyspace.unwrap_or_default(), text].concat().as_bytes())
    }

    /// What it takes in the cache.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + PLAN_BYTES + 128 * self.markers().len()
    }

    pub(super) fn markers(&self) -> &[Marker] {
        &self.compiled.markers
    }

    /// The plan, if it is a SELECT.
    pub(super) fn select(&self) -> Option<&SelectPlan> {
        match &self.compiled.statement {
            Statement::Select(plan) => Some(plan),
            _ => None,
        }
    }

    /// Whether every table and keyspace it was compiled against is as it was.
    pub(super) fn is_valid(&self, schema: &Schema) -> bool {
        let same = |table: &std::sync::Arc<model::Table>| {
            schema.table_by_id(table.id).is_some_and(|now| std::sync::Arc::ptr_eq(now, table))
        };
        let tables = match &self.compiled.statement {
            Statement::Select(plan) => same(&plan.table),
            Statement::Write(plan) => same(&plan.table),
            Statement::Batch(plan) => plan.writes.iter().all(|write| same(&write.table)),
            _ => true,
        };
        tables && self.replication == Replication::of_statement(&self.compiled.statement, schema)
    }

    fn marker_columns(&self, version: Version) -> &Columns {
        self.markers[place(version)].get_or_init(|| {
            let markers = self.markers().iter();
            let specs: Vec<ColumnSpec<'_>> = markers
                .map(|Marker { keyspace, table, name, ty }| ColumnSpec {
                    keyspace,
                    table,
                    name,
                    ty,
                })
                .collect();
            Columns::encode(version, &specs)
        })
    }

    fn result_columns(&self, version: Version) -> &Columns {
        self.result[place(version)].get_or_init(|| {
            self.select().map_or_else(Columns::none, |plan| plan.result_columns(version))
        })
    }

    /// Appends RESULT Prepared.
    pub(super) fn put_prepared(&self, envelope: &Envelope<'_>, out: &mut Vec<u8>) {
        let version = envelope.version;
        let prepared = PreparedAnswer {
            id: &self.id,
            result_metadata_id: &self.result_id,
            markers: self.marker_columns(version),
            key_indexes: &self.compiled.key_indexes,
            result: self.select().map(|_| self.result_columns(version)),
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
            Target::Execute { stale: true, .. } => Description::Changed(&self.result_id),
            Target::Execute { knows: true, .. } => Description::Skipped,
            _ => Description::Full,
        };
        let envelope = Envelope { warnings: &self.compiled.warnings, ..*envelope };
        envelope.open_rows(self.result_columns(envelope.version), description, out)
    }
}

fn place(version: Version) -> usize {
    usize::from(version.number() - Version::V3.number())
}

/// What a task keeps of a request's parameters.
pub(super) struct OwnedParameters {
    pub(super) level: Consistency,
    pub(super) values: ValueList,
    pub(super) page_rows: Option<u32>,
    pub(super) paging_state: Option<Vec<u8>>,
    timestamp_us: i64,
    now_ms: i64,
    now_s: u32,
}

impl OwnedParameters {
    pub(super) fn of(parameters: &Parameters<'_>, moment: &Moment<'_>) -> OwnedParameters {
        let mut values = ValueList::new();
        for (name, value) in parameters.values.named_iter() {
            if parameters.values.is_named() {
                values.push_named(name, value);
            } else {
                values.push(value);
            }
        }
        OwnedParameters {
            level: parameters.consistency,
            values,
            page_rows: parameters.page_rows,
            paging_state: parameters.paging_state.map(<[u8]>::to_vec),
            timestamp_us: moment.timestamp_us,
            now_ms: moment.now_ms,
            now_s: moment.now_s,
        }
    }

    pub(super) fn moment<'m>(&self, ids: &'m Ids) -> Moment<'m> {
        let OwnedParameters { timestamp_us, now_ms, now_s, .. } = *self;
        Moment { timestamp_us, now_ms, now_s, ids }
    }
}

impl Executor {
    /// Runs a compiled statement.
    #[inline]
    pub(super) fn run(
        self: &Rc<Self>,
        call: &mut Option<Call>,
        statement: &Rc<Prepared>,
        parameters: &Parameters<'_>,
        target: Target,
        out: &mut Vec<u8>,
    ) -> Progress {
        check_serial(parameters)?;
        match &statement.compiled.statement {
            Statement::Select(plan) => self.select(call, statement, plan, parameters, target, out),
            Statement::Write(plan) => {
                check_writable(&plan.table.keyspace)?;
                check_write(parameters.consistency)?;
                let kind = WriteKind { level: parameters.consistency, name: "SIMPLE" };
                let promise = Promise { kind, replication: &statement.replication };
                let warnings = statement.compiled.warnings.clone();
                self.write(call, promise, warnings, out, |scratch, record| {
                    let moment = self.core.moment(parameters);
                    let bindings = Bindings::new(&parameters.values, statement.markers(), moment)?;
                    plan.bind_write(&bindings, scratch, record)?;
                    Ok(Vec::new())
                })
            }
            Statement::Batch(plan) => {
                plan.writes.iter().try_for_each(|write| check_writable(&write.table.keyspace))?;
                let name = batch::write_type(plan.kind);
                let kind = WriteKind { level: parameters.consistency, name };
                let promise = Promise { kind, replication: &statement.replication };
                let warnings = statement.compiled.warnings.clone();
                self.write(call, promise, warnings, out, |scratch, record| {
                    let moment = self.core.moment(parameters);
                    let mut bindings =
                        Bindings::new(&parameters.values, statement.markers(), moment)?;
                    self.bind_batch(plan.kind, record, |record, size| {
                        plan.bind_write(&mut bindings, scratch, record, size)
                    })
                })
            }
            Statement::Use(keyspace) => self.use_keyspace(call, keyspace, out),
            Statement::Schema(statement) => self.change_schema(call, statement.clone()),
            Statement::Truncate(table) => self.truncate(call, table),
            Statement::Describe(asked) => {
                let call = call.as_ref().expect("a call is taken once");
                let current = call.session.keyspace.borrow().clone();
                let (schema, node) = (self.shard.schema(), self.core.node());
                let envelope = call.envelope();
                describe::answer(
                    asked,
                    &schema,
                    current.as_deref(),
                    node,
                    parameters,
                    &envelope,
                    out,
                )?;
                Ok(Outcome::Answered)
            }
        }
    }

    fn use_keyspace(&self, call: &mut Option<Call>, keyspace: &str, out: &mut Vec<u8>) -> Progress {
        if self.shard.schema().keyspace(keyspace).is_none() {
            return Err(Refusal::invalid(format!("Keyspace '{keyspace}' does not exist")));
        }
        let call = call.as_ref().expect("a call is taken once");
        call.session.keyspace.replace(Some(keyspace.into()));
        call.envelope().put_set_keyspace(keyspace, out);
        Ok(Outcome::Answered)
    }
}

/// Computed tables and the server's own are read-only.
pub(super) fn check_writable(keyspace: &str) -> Result<(), Refusal> {
    if system::is_guarded(keyspace) {
        let text = format!("{keyspace} keyspace is not user-modifiable.");
        return Err(Refusal::Language(cql::Error::Unauthorized(text)));
    }
    Ok(())
}

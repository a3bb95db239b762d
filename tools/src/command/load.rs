//! `load`: makes the table and inserts the records, the first points of all series, or what a scenario begins with.
//!
//! 1. Drop the keyspace if that is asked for; make keyspace and tables where they are not there.
//! 2. Deal the keys to the threads, each a stretch of them, and insert every key once.
//!
//! Invariants
//! 1. The load is a closed loop without warm-up: it ends when all keys are inserted, and not before unless it is ended.
//! 2. `--from` goes on with a load that ended early: it leaves out the keys before. A load of series does not use it.
//! 3. A journal says what its table looks like, so that `verify` needs no flags.
//!
//! Not here: what a row holds (`workload/record.rs`, `workload/series.rs`), scenarios (`command/scenario.rs`),
//! customers (`command/customers.rs`).

use std::path::Path;
use std::time::Duration;

use super::{Job, Server, customers, scenario, share};
use crate::console::Goal;
use crate::error::Result;
use crate::flags::{DataFlags, DataName, LoadFlags};
use crate::journal::{self, Header, Journal};
use crate::report::units::grouped;
use crate::workload::record::RecordShape;
use crate::workload::series::{self, SeriesShape};
use crate::workload::{Source, Verb, Workload, ycsb};

/// The shape of the records that the flags describe.
pub(super) fn record_shape(data: &DataFlags) -> Result<RecordShape> {
    let shape = RecordShape {
        keyspace: data.keyspace.clone(),
        fields: data.fields,
        field_bytes: data.field_bytes,
    };
    shape.validate()?;
    Ok(shape)
}

/// The shape of the series that the flags describe.
pub(super) fn series_shape(data: &DataFlags) -> Result<SeriesShape> {
    let shape = SeriesShape {
        keyspace: data.keyspace.clone(),
        value_bytes: data.field_bytes,
        step_ms: data.step.as_millis() as i64,
        ttl_s: u32::try_from(data.ttl.as_secs()).unwrap_or(u32::MAX),
    };
    shape.validate(data.series, data.points)?;
    Ok(shape)
}

/// The journal at `path` for `data`, if one is wanted.
pub(super) fn open_journal(
    path: Option<&Path>,
    data: &DataFlags,
    name: DataName,
) -> Result<Option<Journal>> {
    let header = Header {
        format: journal::FORMAT.to_owned(),
        keyspace: data.keyspace.clone(),
        table: name.table().to_owned(),
        fields: if name == DataName::Ycsb { data.fields } else { 1 },
        field_bytes: data.field_bytes,
        step_ms: if name == DataName::Timeseries { data.step.as_millis() as i64 } else { 0 },
        ttl_s: if name == DataName::Timeseries { data.ttl.as_secs() as u32 } else { 0 },
    };
    path.map(|path| Journal::open(path, &header)).transpose()
}

/// The statements that make the table, how many operations fill it, and what it holds in words.
fn plan(flags: &LoadFlags) -> Result<(Vec<String>, u64, String)> {
    let data = &flags.data;
    Ok(match (flags.workload, flags.workload.scenario()) {
        (_, Some(name)) => {
            let tables = name.create(&data.keyspace, &flags.table_options);
            let records = data.records.saturating_sub(flags.from);
            (tables, records, scenario::words(name, data))
        }
        (DataName::Timeseries, _) => {
            let words = format!(
                "{} series of {} points of {} bytes",
                grouped(data.series),
                grouped(data.points.into()),
                data.field_bytes
            );
            let table = series_shape(data)?.create_table(&flags.table_options);
            (vec![table], data.series * u64::from(data.points), words)
        }
        (DataName::Customers, _) => {
            let shape = customers::shape(data, flags.journal.as_deref())?;
            let words = format!("{} customers", grouped(data.records));
            let table = shape.create_table(&flags.table_options);
            (vec![table], data.records.saturating_sub(flags.from), words)
        }
        _ => {
            let words = format!(
                "{} records of {} × {} bytes",
                grouped(data.records),
                data.fields,
                data.field_bytes
            );
            let table = record_shape(data)?.create_table(&flags.table_options);
            (vec![table], data.records.saturating_sub(flags.from), words)
        }
    })
}

/// Runs the load phase.
pub(super) fn load(flags: &LoadFlags) -> Result<bool> {
    let data = &flags.data;
    let server = Server::find(&flags.client)?;
    let mut schema = Vec::new();
    if flags.drop {
        schema.push(format!("DROP KEYSPACE IF EXISTS {}", data.keyspace));
    }
    schema.push(format!(
        "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = \
         {{'class': 'SimpleStrategy', 'replication_factor': {}}}",
        data.keyspace, flags.replication
    ));
    let (tables, operations, words) = plan(flags)?;
    schema.extend(tables);
    server.change_schema(&schema)?;
    let job = Job {
        client: &flags.client,
        output: &flags.output,
        server,
        title: flags.output.title.clone().unwrap_or_else(|| "load".to_owned()),
        workload: words,
        rate: None,
        operations: None,
        warmup: Duration::ZERO,
        duration: None,
        verified: false,
        goal: Goal::Operations(operations),
        journal: open_journal(flags.journal.as_deref(), data, flags.workload)?,
    };
    if let Some(name) = flags.workload.scenario() {
        return scenario::fill(name, data, flags.from..data.records, job);
    }
    if flags.workload == DataName::Customers {
        return customers::fill(data, flags.from..data.records, job);
    }
    let threads = usize::from(flags.client.threads);
    let before = |all: u64, thread: usize| (0..thread).map(|t| share(all, t, threads)).sum::<u64>();
    job.run(|thread| {
        Ok(match flags.workload {
            DataName::Timeseries => {
                let series = before(data.series, thread)..before(data.series, thread + 1);
                let points = (series.end - series.start) * u64::from(data.points);
                Workload {
                    rule: Box::new(series::Fill { shape: series_shape(data)?, series }),
                    source: Source::Stretch { keys: (0..points).step_by(1), verb: Verb::Append },
                }
            }
            _ => {
                let [first, end] = [thread, thread + 1].map(|t| flags.from + before(operations, t));
                Workload {
                    rule: Box::new(ycsb::Fill { shape: record_shape(data)? }),
                    source: Source::Stretch { keys: (first..end).step_by(1), verb: Verb::Insert },
                }
            }
        })
    })
}

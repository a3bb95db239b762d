//! `load`: makes the table and inserts the records, or the first points of all series.

use std::path::Path;
use std::time::Duration;

use super::{Job, Server, share};
use crate::console::Goal;
use crate::error::Result;
use crate::flags::{DataFlags, DataName, LoadFlags};
use crate::journal::{self, Header, Journal};
use crate::report::units::grouped;
use crate::workload::record::{self, RecordShape};
use crate::workload::series::{self, SeriesShape};
use crate::workload::{Workload, ycsb};

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
        ttl_s: data.ttl.as_secs() as u32,
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
    let header = match name {
        DataName::Ycsb => Header {
            format: journal::FORMAT.to_owned(),
            keyspace: data.keyspace.clone(),
            table: record::TABLE.to_owned(),
            fields: data.fields,
            field_bytes: data.field_bytes,
            step_ms: 0,
            ttl_s: 0,
        },
        DataName::Timeseries => Header {
            format: journal::FORMAT.to_owned(),
            keyspace: data.keyspace.clone(),
            table: series::TABLE.to_owned(),
            fields: 1,
            field_bytes: data.field_bytes,
            step_ms: data.step.as_millis() as i64,
            ttl_s: data.ttl.as_secs() as u32,
        },
    };
    path.map(|path| Journal::open(path, &header)).transpose()
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
    let (table, operations, words) = match flags.workload {
        DataName::Ycsb => {
            let words = format!(
                "{} records of {} × {} bytes",
                grouped(data.records),
                data.fields,
                data.field_bytes
            );
            let table = record_shape(data)?.create_table(&flags.table_options);
            (table, data.records.saturating_sub(flags.from), words)
        }
        DataName::Timeseries => {
            let words = format!(
                "{} series of {} points of {} bytes",
                grouped(data.series),
                grouped(data.points.into()),
                data.field_bytes
            );
            let table = series_shape(data)?.create_table(&flags.table_options);
            (table, data.series * u64::from(data.points), words)
        }
    };
    schema.push(table);
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
    let threads = usize::from(flags.client.threads);
    let before = |all: u64, thread: usize| (0..thread).map(|t| share(all, t, threads)).sum::<u64>();
    job.run(|thread| {
        Ok(match flags.workload {
            DataName::Ycsb => Workload::Fill(ycsb::Fill {
                shape: record_shape(data)?,
                next: flags.from + before(operations, thread),
                end: flags.from + before(operations, thread + 1),
            }),
            DataName::Timeseries => Workload::SeriesFill(series::Fill {
                shape: series_shape(data)?,
                series: before(data.series, thread)..before(data.series, thread + 1),
                points: data.points,
                made: 0,
            }),
        })
    })
}

//! What can be asked on the admin socket, and the text that answers it.
//!
//! ```text
//! flush [KEYSPACE [TABLE]]      write what is in memory to sstables
//! compact [KEYSPACE [TABLE]]    merge the sstables of each table into one
//! rebuild_index KEYSPACE TABLE [INDEX]  make the index files anew, whatever is in them
//! status                        shards and tables, in two blocks of lines with tabs
//! snapshot TAG [ttl=TIME] [KEYSPACE [TABLE]]   link what the tables have on disk, memory included
//! listsnapshots [no-ttl]        a line for each table of each snapshot
//! clearsnapshot TAG|*           remove one snapshot, or all
//! restore TAG [KEYSPACE [TABLE]]    give tables back what a snapshot has of them
//! forget FILE                   give up what a damaged file holds
//! getcompactionthroughput       what compactions may go through in a second
//! setcompactionthroughput MIB   another limit from now on; 0 for none
//! getguardrails [NAME]          the settings of all guardrails, or of one
//! setguardrail NAME VALUE [NAME VALUE ..]   other values from now on, for all cores
//! disablebinary, enablebinary   let no clients in any more, or again
//! statusbinary                  whether clients are let in
//! toppartitions MS [KEYSPACE TABLE]     the partitions that are read and written most in this time
//! ```
//!
//! An answer ends with the line `ok`, or is the line `error: ` and why. The set of commands is
//! closed; names are as `system_schema` has them.

use std::collections::HashMap;
use std::fmt::Write;
use std::str::SplitAsciiWhitespace;
use std::time::Duration;

use engine::TableSize;
use model::schema::Table;
use model::{Schema, TableId};
use shard::snapshots::{Snapshot, Snapshots};
use shard::upkeep::{ShardStatus, Upkeep};
use shard::{Group, Shard};
use uuid::Uuid;

use crate::config::quantity;
use crate::execute::{Peering, snapshots};
use crate::guardrails::{self, Guardrails};
use crate::limits::HOT_SAMPLE_MS_MAX;
use crate::system;
use crate::transport::{Transport, TransportState};

const MIB: u64 = 1 << 20;

/// One request of `messina-admin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Memtables to sstables.
    Flush(Scope),
    /// Sstables to one sstable.
    Compact(Scope),
    /// Make the files of an index of one table anew, or of all its indexes.
    RebuildIndex(Scope, Option<String>),
    /// Show the state of shards and tables.
    Status,
    /// Take a snapshot of this tag, which stays for so long.
    Snapshot(String, Option<Duration>, Scope),
    /// Show the snapshots; those that go by themselves only if so.
    ListSnapshots { with_ttl: bool },
    /// Remove the snapshot of this tag, or all.
    ClearSnapshot(String),
    /// Give tables back what the snapshot of this tag has of them.
    Restore(String, Scope),
    /// Give up what a damaged file holds.
    Forget(Uuid),
    /// Show what compactions may go through in a second.
    GetThroughput,
    /// Let compactions go through so many mebibytes a second; 0 for no limit.
    SetThroughput(u32),
    /// Show the settings of guardrails whose names begin so.
    GetGuardrails(String),
    /// Set guardrails: names of settings, and values.
    SetGuardrail(Vec<(String, String)>),
    /// Let clients in, or not.
    SetTransport(TransportState),
    /// Show whether clients are let in.
    ShowTransport,
    /// Sample the partitions of one table, or all, for so many milliseconds.
    TopPartitions(u32, Scope),
}

/// Which tables: those of all keyspaces, of one, or one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    keyspace: Option<String>,
    table: Option<String>,
}

impl Command {
    /// Reads a request's line.
    pub(super) fn parse(line: &str) -> Result<Command, String> {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        if name == "forget" {
            let file = words.next().ok_or("a file is wanted")?;
            return match words.next() {
                None => Ok(Command::Forget(file_id(file)?)),
                Some(_) => Err("one file at a time".to_owned()),
            };
        }
        if name == "setcompactionthroughput" {
            let number = words.next().and_then(|mib| mib.parse().ok());
            return match (number, words.next()) {
                (Some(mib), None) => Ok(Command::SetThroughput(mib)),
                _ => Err("a whole number of MiB/s is wanted; 0 for no limit".to_owned()),
            };
        }
        if name == "getguardrails" {
            let begin = words.next().unwrap_or_default().to_owned();
            return match words.next() {
                None => Ok(Command::GetGuardrails(begin)),
                Some(_) => Err("one name at most".to_owned()),
            };
        }
        if name == "setguardrail" {
            let words: Vec<&str> = words.collect();
            let (pairs, rest) = words.as_chunks();
            if pairs.is_empty() || !rest.is_empty() {
                return Err("the name of a setting and its value are wanted".to_owned());
            }
            let owned = |[name, value]: &[&str; 2]| ((*name).to_owned(), (*value).to_owned());
            return Ok(Command::SetGuardrail(pairs.iter().map(owned).collect()));
        }
        if name == "toppartitions" {
            let ms = words.next().and_then(|ms| ms.parse().ok());
            let ms = ms
                .filter(|ms| (1..=HOT_SAMPLE_MS_MAX).contains(ms))
                .ok_or_else(|| format!("milliseconds are wanted, at most {HOT_SAMPLE_MS_MAX}"))?;
            let mut word = || words.next().map(str::to_owned);
            let scope = Scope { keyspace: word(), table: word() };
            return match (scope.keyspace.is_some() == scope.table.is_some(), words.next()) {
                (true, None) => Ok(Command::TopPartitions(ms, scope)),
                _ => Err("a keyspace and its table are wanted, or neither".to_owned()),
            };
        }
        if name == "rebuild_index" {
            let mut word = || words.next().map(str::to_owned);
            let (scope, index) = (Scope { keyspace: word(), table: word() }, word());
            return match (&scope.table, word()) {
                (Some(_), None) => Ok(Command::RebuildIndex(scope, index)),
                _ => Err("a keyspace, its table, and an index at most are wanted".to_owned()),
            };
        }
        Command::of_scope(name, words)
    }

    /// Reads what follows the name of a command that is about tables.
    fn of_scope(name: &str, mut words: SplitAsciiWhitespace<'_>) -> Result<Command, String> {
        let mut word = || words.next().map(str::to_owned);
        let tag = match name {
            "snapshot" | "clearsnapshot" | "restore" => Some(word().ok_or("a tag is wanted")?),
            _ => None,
        };
        let mut first = word();
        let stay = first.as_deref().and_then(|word| word.strip_prefix("ttl="));
        let stay = stay.filter(|_| name == "snapshot").map(quantity::snapshot_stay).transpose()?;
        let with_ttl = name != "listsnapshots" || first.as_deref() != Some("no-ttl");
        if stay.is_some() || !with_ttl {
            first = word();
        }
        let scope = Scope { keyspace: first, table: word() };
        let command = match name {
            "flush" => Command::Flush(scope),
            "compact" => Command::Compact(scope),
            "snapshot" => Command::Snapshot(tag.expect("it was asked for"), stay, scope),
            "restore" => Command::Restore(tag.expect("it was asked for"), scope),
            "status"
            | "listsnapshots"
            | "clearsnapshot"
            | "getcompactionthroughput"
            | "disablebinary"
            | "enablebinary"
            | "statusbinary"
                if scope != Scope::default() =>
            {
                return Err(format!("{name} takes no keyspace"));
            }
            "clearsnapshot" => Command::ClearSnapshot(tag.expect("it was asked for")),
            "listsnapshots" => Command::ListSnapshots { with_ttl },
            "status" => Command::Status,
            "getcompactionthroughput" => Command::GetThroughput,
            "disablebinary" => Command::SetTransport(TransportState::Stopped),
            "enablebinary" => Command::SetTransport(TransportState::Running),
            "statusbinary" => Command::ShowTransport,
            _ => return Err(format!("{name:?} is not a command: see messina-admin --help")),
        };
        match words.next() {
            None => Ok(command),
            Some(_) => Err("a keyspace and a table at most".to_owned()),
        }
    }

    /// Asks all shards; the whole answer.
    pub(super) async fn run(
        self,
        shard: &Shard<Peering>,
        (guardrails, transport): (&Guardrails, &Transport),
        now_us: i64,
    ) -> String {
        let schema = shard.schema();
        let upkeep = match &self {
            Command::Flush(scope) => scope.tables(&schema).map(|t| Upkeep::Flush(t.into())),
            Command::Compact(scope) => scope.tables(&schema).map(|t| Upkeep::Compact(t.into())),
            Command::RebuildIndex(scope, index) => scope.index(&schema, index.as_deref()),
            Command::Status => Ok(Upkeep::Status),
            Command::Forget(file) => Ok(Upkeep::ForgetFile(*file)),
            Command::GetThroughput => {
                let mib = shard.compaction_throughput().limit_bytes() as f64 / MIB as f64;
                return format!("Current compaction throughput: {mib} MiB/s\nok\n");
            }
            Command::SetThroughput(mib) => {
                shard.compaction_throughput().set_limit_bytes(u64::from(*mib) * MIB);
                return "ok\n".to_owned();
            }
            Command::SetTransport(state) => {
                transport.set(*state);
                return "ok\n".to_owned();
            }
            Command::ShowTransport => {
                let is = if transport.is_running() { "running" } else { "not running" };
                return format!("{is}\nok\n");
            }
            Command::GetGuardrails(begin) => return show_guardrails(guardrails, begin),
            Command::SetGuardrail(changes) => {
                let done = guardrails::change(guardrails, changes);
                return done.map_or_else(|why| refusal(&why), |()| "ok\n".to_owned());
            }
            Command::TopPartitions(ms, scope) => {
                let lines = scope.sample(shard, *ms).await;
                return lines.map_or_else(|why| refusal(&why), |lines| lines + "ok\n");
            }
            _ => {
                let done = self.run_on_snapshots(shard, now_us).await;
                return done.map_or_else(|why| refusal(&why), |lines| lines + "ok\n");
            }
        };
        let upkeep = match upkeep {
            Ok(upkeep) => upkeep,
            Err(why) => return refusal(&why),
        };
        match shard.upkeep(&upkeep).await {
            Ok(statuses) if self == Command::Status => {
                let yielder = shard.runtime().yielder(Group::Background);
                report(&schema, &statuses, || yielder.yield_if_due()).await
            }
            Ok(statuses) if matches!(self, Command::Forget(_)) => {
                match statuses.iter().map(|status| status.forgotten).sum() {
                    0u64 => {
                        refusal("no damaged file has that name: see system_views.damaged_files")
                    }
                    views => format!("parts given up: {views}\nok\n"),
                }
            }
            Ok(_) => "ok\n".to_owned(),
            Err(error) => refusal(&error.to_string()),
        }
    }
}

impl Command {
    /// Does what is asked of snapshots; the lines of the answer.
    async fn run_on_snapshots(
        &self,
        shard: &Shard<Peering>,
        now_us: i64,
    ) -> Result<String, String> {
        let said = |error: engine::Error| error.to_string();
        match self {
            Command::Snapshot(tag, stay, scope) => {
                let tables = scope.tables_without_views(&shard.schema())?;
                snapshots::take(shard, tag.clone(), &tables, now_us, *stay).await.map_err(said)?;
                Ok(format!("Snapshot directory: {tag}\n"))
            }
            Command::ListSnapshots { with_ttl } => {
                let Snapshots { mut read, unread } = shard.list_snapshots().await.map_err(said)?;
                read.retain(|snapshot| *with_ttl || snapshot.expiry.is_none());
                let unread = unread.map(|error| format!("not all can be read: {error}\n"));
                Ok(list(&read) + &unread.unwrap_or_default())
            }
            Command::ClearSnapshot(tag) => {
                let tag = Some(tag.as_str()).filter(|tag| *tag != "*");
                let cleared = shard.clear_snapshots(tag).await.map_err(said)?;
                Ok(cleared.iter().map(|tag| format!("removed {tag}\n")).collect())
            }
            Command::Restore(tag, scope) => {
                let restored = shard.restore_snapshot(tag, |table| scope.means(table)).await;
                Ok(format!("files given back: {}\n", restored.map_err(said)?))
            }
            Command::Flush(_)
            | Command::Compact(_)
            | Command::RebuildIndex(..)
            | Command::Status
            | Command::Forget(_)
            | Command::GetThroughput
            | Command::SetThroughput(_)
            | Command::GetGuardrails(_)
            | Command::SetGuardrail(_)
            | Command::SetTransport(_)
            | Command::ShowTransport
            | Command::TopPartitions(..) => unreachable!("these are no commands of snapshots"),
        }
    }
}

/// The id of a file from its path, its name or the id itself.
fn file_id(file: &str) -> Result<Uuid, String> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let id = name.strip_suffix(".sst").unwrap_or(name);
    Uuid::try_parse(id).map_err(|_| format!("{file:?} is not the name of an sstable"))
}

/// A line for each table of each snapshot.
fn list(all: &[Snapshot]) -> String {
    if all.is_empty() {
        return "There are no snapshots\n".to_owned();
    }
    let mut text =
        "snapshot\tkeyspace\ttable\ttrue size\tsize on disk\tcreated\texpires\n".to_owned();
    for Snapshot { tag, created_at, expiry, tables } in all {
        let expires = expiry.as_ref().map_or("", |expiry| &expiry.shown);
        for (keyspace, table, size) in tables {
            let (own, bytes) = (size.own_bytes, size.bytes);
            writeln!(text, "{tag}\t{keyspace}\t{table}\t{own}\t{bytes}\t{created_at}\t{expires}")
                .expect("a string takes all that is written");
        }
    }
    text
}

impl Scope {
    fn means(&self, table: &Table) -> bool {
        let means = |of: &Option<String>, name: &str| of.as_deref().is_none_or(|of| of == name);
        means(&self.keyspace, &table.keyspace) && means(&self.table, &table.name)
    }

    async fn sample(&self, shard: &Shard<Peering>, ms: u32) -> Result<String, String> {
        let only = match &self.table {
            Some(_) => self.tables(&shard.schema())?.first().copied(),
            None => None,
        };
        super::hot::sample(shard, only, Duration::from_millis(ms.into())).await
    }

    /// Those of which there are snapshots: materialized views are made again.
    fn tables_without_views(&self, schema: &Schema) -> Result<Vec<TableId>, String> {
        let meant = self.tables(schema)?.into_iter();
        let is_view = |id: &TableId| schema.table_by_id(*id).is_some_and(|t| t.view().is_some());
        let (views, tables): (Vec<TableId>, Vec<TableId>) = meant.partition(is_view);
        match (&self.table, views.is_empty()) {
            (Some(name), false) => Err(format!(
                "{name} is a materialized view: a snapshot of its table is enough to make it again"
            )),
            _ => Ok(tables),
        }
    }

    /// What makes the files of an index of the table anew, or of all.
    fn index(&self, schema: &Schema, index: Option<&str>) -> Result<Upkeep, String> {
        let table = self.tables(schema)?.first().and_then(|id| schema.table_by_id(*id));
        let table = table.ok_or("a table is wanted")?;
        let has = |name: &str| table.file_indexes().find(|index| index.name == name);
        let index = match index {
            None if table.file_indexes().next().is_none() => {
                return Err(format!("{}.{} has no index", table.keyspace, table.name));
            }
            None => None,
            Some(name) => match has(name) {
                None => return Err(format!("no index {name} of the table is kept in files")),
                Some(index) => Some(index.id),
            },
        };
        Ok(Upkeep::RebuildIndexes(table.id, index))
    }

    /// The tables that hold data on disk, of those that are meant.
    fn tables(&self, schema: &Schema) -> Result<Vec<TableId>, String> {
        if let Some(name) = &self.keyspace
            && !schema.tables().any(|table| table.keyspace == *name)
            && schema.keyspace(name).is_none()
        {
            return Err(format!("Keyspace [{name}] does not exist."));
        }
        let meant: Vec<TableId> = schema
            .tables()
            .filter(|table| self.means(table))
            .filter(|table| !system::is_computed(&table.keyspace))
            .map(|table| table.id)
            .collect();
        match (&self.keyspace, &self.table) {
            (Some(keyspace), Some(table)) if meant.is_empty() => {
                Err(format!("Unknown keyspace/cf pair ({keyspace}.{table})"))
            }
            _ => Ok(meant),
        }
    }
}

/// A line for each setting of guardrails whose name begins so.
fn show_guardrails(guardrails: &Guardrails, begin: &str) -> String {
    let mut settings = guardrails::settings(&guardrails.load());
    settings.retain(|(name, _)| name.starts_with(begin));
    if settings.is_empty() {
        return refusal(&format!("no guardrail has a setting that begins with {begin}"));
    }
    let lines: String = settings.iter().map(|(name, value)| format!("{name}\t{value}\n")).collect();
    lines + "ok\n"
}

/// The answer to what is not done.
pub(super) fn refusal(why: &str) -> String {
    format!("error: {}\n", why.replace('\n', " "))
}

/// One line a shard, then one line a table. `pause` is called behind each table.
async fn report(schema: &Schema, statuses: &[ShardStatus], pause: impl AsyncFn()) -> String {
    let mut text = "shard\twrites\treads\tflushes\tcompactions\tmemtable bytes\tcache bytes\t\
                    index bytes\tlog segments\n"
        .to_owned();
    for ShardStatus { shard, stats, log_segments, .. } in statuses {
        let line = [
            stats.writes,
            stats.reads,
            stats.flushes,
            stats.compactions,
            stats.memtable_bytes,
            stats.cache_bytes,
            stats.index_bytes,
            u64::from(*log_segments),
        ];
        put_line(&mut text, &shard.index().to_string(), &line);
    }
    text.push_str(
        "\ntable\tpartitions\tmemtable bytes\tmemtable rows\tsstables\tbytes\t\
         overwritten bytes\n",
    );
    let mut totals: HashMap<TableId, TableSize> = HashMap::new();
    for (table, size) in statuses.iter().flat_map(|status| &status.tables) {
        add(totals.entry(*table).or_default(), size);
        pause().await;
    }
    let stored = schema.tables().filter(|table| !system::is_computed(&table.keyspace));
    for table in stored {
        let size = totals.get(&table.id).copied().unwrap_or_default();
        let line = [
            size.partitions,
            size.memtable_bytes,
            size.memtable_rows,
            size.sstables,
            size.bytes,
            size.surplus_bytes,
        ];
        put_line(&mut text, &format!("{}.{}", table.keyspace, table.name), &line);
        pause().await;
    }
    text.push_str("ok\n");
    text
}

fn put_line(text: &mut String, name: &str, numbers: &[u64]) {
    text.push_str(name);
    for number in numbers {
        write!(text, "\t{number}").expect("a string takes all that is written");
    }
    text.push('\n');
}

/// Adds what one more shard holds of a table.
fn add(sum: &mut TableSize, of_shard: &TableSize) {
    sum.bytes += of_shard.bytes;
    sum.partitions += of_shard.partitions;
    sum.memtable_bytes += of_shard.memtable_bytes;
    sum.memtable_rows += of_shard.memtable_rows;
    sum.sstables += of_shard.sstables;
    sum.surplus_bytes += of_shard.surplus_bytes;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(keyspace: Option<&str>, table: Option<&str>) -> Scope {
        Scope { keyspace: keyspace.map(str::to_owned), table: table.map(str::to_owned) }
    }

    #[test]
    fn a_line_is_a_command_or_is_refused() {
        assert_eq!(Command::parse("status\r"), Ok(Command::Status));
        assert_eq!(Command::parse("flush"), Ok(Command::Flush(Scope::default())));
        assert_eq!(Command::parse(" flush  ks "), Ok(Command::Flush(scope(Some("ks"), None))));
        let both = scope(Some("Ks"), Some("t"));
        assert_eq!(Command::parse("compact Ks t"), Ok(Command::Compact(both)));
        let all = Scope::default();
        let snapshot = |stay, scope| Ok(Command::Snapshot("a".to_owned(), stay, scope));
        assert_eq!(Command::parse("snapshot a"), snapshot(None, all.clone()));
        let day = Some(Duration::from_secs(86_400));
        assert_eq!(Command::parse("snapshot a ttl=1d"), snapshot(day, all));
        let of_k = Scope { keyspace: Some("k".to_owned()), table: None };
        assert_eq!(Command::parse("snapshot a ttl=24h k"), snapshot(day, of_k));
        let short = Command::parse("snapshot a ttl=59s").unwrap_err();
        assert_eq!(short, "ttl for snapshot must be at least 60 seconds");
        for bad in ["snapshot a ttl=", "snapshot a ttl=soon", "snapshot a ttl=9999999999999d"] {
            assert!(Command::parse(bad).is_err(), "{bad}");
        }
        let listed = |with_ttl| Ok(Command::ListSnapshots { with_ttl });
        assert_eq!(Command::parse("listsnapshots"), listed(true));
        assert_eq!(Command::parse("listsnapshots no-ttl"), listed(false));
        assert_eq!(
            Command::parse("disablebinary"),
            Ok(Command::SetTransport(TransportState::Stopped))
        );
        assert_eq!(
            Command::parse("enablebinary"),
            Ok(Command::SetTransport(TransportState::Running))
        );
        assert_eq!(Command::parse("statusbinary"), Ok(Command::ShowTransport));
        let one = scope(Some("ks"), None);
        assert_eq!(Command::parse("restore a ks"), Ok(Command::Restore("a".to_owned(), one)));
        assert_eq!(Command::parse("clearsnapshot *"), Ok(Command::ClearSnapshot("*".to_owned())));
        for bad in [
            "snapshot",
            "clearsnapshot",
            "clearsnapshot a b",
            "listsnapshots a",
            "getcompactionthroughput a",
            "disablebinary now",
            "setcompactionthroughput",
            "setcompactionthroughput -1",
            "setcompactionthroughput 1 2",
            "",
            "  ",
            "FLUSH",
            "stop",
            "flush a b c",
            "status ks",
            "\0",
            "flush\0",
        ] {
            assert!(Command::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tables_that_are_not_there_are_refused_by_name() {
        let schema = system::base_schema();
        let all = Scope::default().tables(&schema).unwrap();
        let system = scope(Some("system"), None).tables(&schema).unwrap();
        assert!(system.iter().all(|id| all.contains(id)));
        let refused = |s: Scope| s.tables(&schema).unwrap_err();
        assert_eq!(refused(scope(Some("nope"), None)), "Keyspace [nope] does not exist.");
        let pair = "Unknown keyspace/cf pair (system_schema.nope)";
        assert_eq!(refused(scope(Some("system_schema"), Some("nope"))), pair);
    }

    #[test]
    fn an_answer_has_no_line_too_many() {
        assert_eq!(refusal("a\nok\n"), "error: a ok \n");
    }
}

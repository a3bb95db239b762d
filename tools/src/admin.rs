//! `messina-admin`: asks the running server of a data directory, over its admin socket.
//!
//! ```text
//! messina-admin --data-dir DIR flush [KEYSPACE [TABLE]]
//! messina-admin --data-dir DIR compact [KEYSPACE [TABLE]]
//! messina-admin --data-dir DIR rebuild_index KEYSPACE TABLE [INDEX]
//! messina-admin --data-dir DIR status
//! messina-admin --data-dir DIR snapshot [-t TAG] [--ttl TIME] [KEYSPACE[.TABLE]]
//! messina-admin --data-dir DIR listsnapshots [--no-ttl]
//! messina-admin --data-dir DIR getcompactionthroughput
//! messina-admin --data-dir DIR setcompactionthroughput MIB
//! messina-admin --data-dir DIR getguardrails [NAME]
//! messina-admin --data-dir DIR setguardrail NAME VALUE [NAME VALUE ..]
//! messina-admin --data-dir DIR clearsnapshot -t TAG | --all
//! messina-admin --data-dir DIR restore -t TAG [KEYSPACE[.TABLE]]
//! messina-admin --data-dir DIR forget FILE
//! messina-admin --data-dir DIR disablebinary | enablebinary | statusbinary
//! messina-admin --data-dir DIR toppartitions [KEYSPACE.TABLE] [DURATION_MS]
//! ```
//!
//! One line goes, lines come back, the last of them is `ok` or begins with `error: `. An answer
//! that ends otherwise was cut, and is an error.
//!
//! Not here: what the commands do (`server/src/admin`).

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};

use crate::error::{Error, Result};

/// The socket's name in the data directory.
const NAME: &str = "admin.sock";

/// How long partitions are sampled if nothing is said, in milliseconds.
const SAMPLE_MS: u32 = 10_000;

/// Asks a running Messina server on this machine.
#[derive(Debug, Parser)]
#[command(name = "messina-admin", version)]
pub struct Flags {
    /// The server's data directory
    #[arg(long, value_name = "DIR", default_value = "messina-data")]
    pub data_dir: PathBuf,
    /// What to ask
    #[command(subcommand)]
    pub command: Command,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write what is in memory to sstables
    Flush(Scope),
    /// Merge the sstables of each table into one; flush first to have everything in it
    Compact(Scope),
    /// Make the files of indexes of a table anew in the background, whatever is in them
    #[command(name = "rebuild_index")]
    RebuildIndex {
        /// The keyspace of the table
        keyspace: String,
        /// The table that has the indexes
        table: String,
        /// Only this index
        index: Option<String>,
    },
    /// Show the shards and the tables
    Status,
    /// Keep the files of tables as they are now, memory included, without using space for them
    Snapshot {
        /// Its name; the time in milliseconds if there is none
        #[arg(short, long)]
        tag: Option<String>,
        /// How long it stays, 60s at least; without this until it is removed
        #[arg(long, value_name = "TIME")]
        ttl: Option<String>,
        /// Only this keyspace, or table of one
        #[arg(value_name = "KEYSPACE[.TABLE]")]
        of: Option<String>,
    },
    /// Show the snapshots
    #[command(name = "listsnapshots")]
    ListSnapshots {
        /// Leave out those that go by themselves
        #[arg(long)]
        no_ttl: bool,
    },
    /// Remove a snapshot, or all
    #[command(name = "clearsnapshot")]
    ClearSnapshot {
        /// The snapshot to remove
        #[arg(short, long, required_unless_present = "all", conflicts_with = "all")]
        tag: Option<String>,
        /// Remove every snapshot
        #[arg(long)]
        all: bool,
    },
    /// Give tables back what a snapshot has of them; those that were dropped are made again
    Restore {
        /// The snapshot to take from
        #[arg(short, long)]
        tag: String,
        /// Only this keyspace, or table of one
        #[arg(value_name = "KEYSPACE[.TABLE]")]
        of: Option<String>,
    },
    /// Give up what a damaged file holds: its rows are gone for good, and the file with them
    Forget {
        /// The file, as system_views.damaged_files names it
        file: String,
    },
    /// Show how many MiB compactions may go through in a second
    #[command(name = "getcompactionthroughput")]
    GetCompactionThroughput,
    /// Show the settings of guardrails, as they are now
    #[command(name = "getguardrails", visible_alias = "getguardrailsconfig")]
    GetGuardrails {
        /// Only those whose names begin so
        name: Option<String>,
    },
    /// Set guardrails for all clients, until the server ends
    #[command(name = "setguardrail", visible_alias = "setguardrailsconfig")]
    SetGuardrail {
        /// Names of settings, each with its value: a list has commas and no blanks
        #[arg(value_name = "NAME VALUE", num_args = 2.., required = true, allow_negative_numbers = true)]
        settings: Vec<String>,
    },
    /// Let no clients in, and end the connections that are there
    #[command(name = "disablebinary")]
    DisableBinary,
    /// Let clients in again
    #[command(name = "enablebinary")]
    EnableBinary,
    /// Show whether clients are let in
    #[command(name = "statusbinary")]
    StatusBinary,
    /// Show which partitions are read and written most, of ten seconds or another time
    #[command(name = "toppartitions", visible_alias = "profileload")]
    TopPartitions {
        /// Only this table, and the milliseconds to sample
        #[arg(value_name = "KEYSPACE.TABLE | DURATION_MS", num_args = 0..=2)]
        of: Vec<String>,
    },
    /// Let compactions go through so many MiB a second, all shards together, until the server ends; 0 for no limit
    #[command(name = "setcompactionthroughput")]
    SetCompactionThroughput {
        /// Mebibytes a second
        #[arg(value_name = "MIB")]
        mib: u32,
    },
}

/// Which tables: all, those of a keyspace, or one.
#[derive(Debug, clap::Args)]
pub struct Scope {
    /// Only this keyspace
    pub keyspace: Option<String>,
    /// Only this table of it
    pub table: Option<String>,
}

impl Command {
    fn line(&self) -> Result<String> {
        let of_scope = |s: &Scope| s.keyspace.iter().chain(&s.table).cloned().collect();
        let of_both = |of: &Option<String>| -> Vec<String> {
            of.iter().flat_map(|of| of.splitn(2, '.')).map(str::to_owned).collect()
        };
        if let Command::Forget { file } = self {
            return match !file.is_empty() && file.chars().all(|c| c.is_ascii_graphic()) {
                true => Ok(format!("forget {file}\n")),
                false => Err(Error::Invalid(format!("{file:?} is not the name of an sstable"))),
            };
        }
        if let Command::SetGuardrail { settings: words } = self {
            return line_of("setguardrail", words);
        }
        if let Command::GetGuardrails { name } = self {
            return line_of("getguardrails", name.as_slice());
        }
        let (name, tag, names): (_, _, Vec<String>) = match self {
            Command::Flush(scope) => ("flush", None, of_scope(scope)),
            Command::Compact(scope) => ("compact", None, of_scope(scope)),
            Command::RebuildIndex { keyspace, table, index } => {
                let names = [keyspace, table].into_iter().chain(index).cloned();
                ("rebuild_index", None, names.collect())
            }
            Command::Status => ("status", None, Vec::new()),
            Command::Snapshot { tag, of, .. } => {
                let tag = tag.clone().unwrap_or_else(now_ms);
                ("snapshot", Some(tag), of_both(of))
            }
            Command::ListSnapshots { .. } => ("listsnapshots", None, Vec::new()),
            Command::GetCompactionThroughput => ("getcompactionthroughput", None, Vec::new()),
            Command::DisableBinary => ("disablebinary", None, Vec::new()),
            Command::EnableBinary => ("enablebinary", None, Vec::new()),
            Command::StatusBinary => ("statusbinary", None, Vec::new()),
            Command::SetCompactionThroughput { mib } => {
                ("setcompactionthroughput", None, vec![mib.to_string()])
            }
            Command::TopPartitions { of } => {
                let ms = of.last().filter(|word| word.parse::<u32>().is_ok()).cloned();
                let names = &of[..of.len() - usize::from(ms.is_some())];
                if names.len() > 1 {
                    return Err(Error::Invalid("one table, then milliseconds".to_owned()));
                }
                let ms = ms.unwrap_or_else(|| SAMPLE_MS.to_string());
                ("toppartitions", Some(ms), of_both(&names.first().cloned()))
            }
            Command::ClearSnapshot { tag, .. } => {
                let tag = tag.clone().unwrap_or_else(|| "*".to_owned());
                ("clearsnapshot", Some(tag), Vec::new())
            }
            Command::Forget { .. }
            | Command::GetGuardrails { .. }
            | Command::SetGuardrail { .. } => unreachable!("it was answered above"),
            Command::Restore { tag, of } => ("restore", Some(tag.clone()), of_both(of)),
        };
        let mut line = name.to_owned();
        if let Some(tag) = tag {
            if tag.is_empty() || !tag.chars().all(|c| c.is_ascii_graphic()) {
                return Err(Error::Invalid(format!("{tag:?} cannot be a tag")));
            }
            line.extend([" ", &tag]);
        }
        line.push_str(&self.of_ttl()?);
        for name in &names {
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(Error::Invalid(format!("{name:?} is not the name of a table")));
            }
            line.extend([" ", name]);
        }
        line.push('\n');
        Ok(line)
    }
}

impl Command {
    /// What the line says of the time that snapshots stay.
    fn of_ttl(&self) -> Result<String> {
        match self {
            Command::Snapshot { ttl: Some(ttl), .. } => {
                match ttl.chars().all(|c| c.is_ascii_alphanumeric()) {
                    true => Ok(format!(" ttl={ttl}")),
                    false => {
                        Err(Error::Invalid(format!("{ttl:?} is no time: write for example 12h")))
                    }
                }
            }
            Command::ListSnapshots { no_ttl: true } => Ok(" no-ttl".to_owned()),
            _ => Ok(String::new()),
        }
    }
}

/// The line of a command whose words are names and values.
fn line_of(command: &str, words: &[String]) -> Result<String> {
    let is_word = |word: &&String| !word.is_empty() && word.chars().all(|c| c.is_ascii_graphic());
    match words.iter().find(|word| !is_word(word)) {
        None => Ok([command]
            .into_iter()
            .chain(words.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ")
            + "\n"),
        Some(word) => Err(Error::Invalid(format!("{word:?} is not one word"))),
    }
}

/// The milliseconds since 1970.
fn now_ms() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().to_string()
}

/// Asks, and returns what is to be printed.
pub fn ask(flags: &Flags) -> Result<String> {
    let line = flags.command.line()?;
    let mut stream = connect(&flags.data_dir)?;
    let mut answer = String::new();
    let talk = stream.write_all(line.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
    talk.map_err(Error::io("asking the server"))?;
    judge(&answer)
}

/// By the directory's descriptor: the address of a socket has 108 bytes, and a path may be longer.
fn connect(data_dir: &Path) -> Result<UnixStream> {
    let shown = data_dir.join(NAME);
    let folder = File::open(data_dir).map_err(Error::io(format!("{}", data_dir.display())))?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(NAME);
    UnixStream::connect(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            Error::Lost(format!("no server runs on {}", data_dir.display()))
        }
        _ => Error::Io { doing: format!("{}", shown.display()), source: error },
    })
}

/// The lines before `ok`, their columns aligned.
fn judge(answer: &str) -> Result<String> {
    if let Some(why) = answer.strip_prefix("error: ") {
        return Err(Error::Invalid(why.trim_end().to_owned()));
    }
    let lines: Vec<&str> = answer.lines().collect();
    let Some((&"ok", lines)) = lines.split_last() else {
        return Err(Error::Protocol("an answer without an end".to_owned()));
    };
    Ok(lines.split(|line| line.is_empty()).map(align).collect::<Vec<_>>().join("\n"))
}

/// A block of lines with tabs as a table: the first column to the left, numbers to the right.
fn align(lines: &[&str]) -> String {
    let rows: Vec<Vec<&str>> = lines.iter().map(|line| line.split('\t').collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.len()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_shown_in_columns() {
        let answer = "shard\twrites\n0\t5\n\ntable\trows\na.long_name\t12345\nok\n";
        let shown = "shard  writes\n0           5\n\ntable         rows\na.long_name  12345\n";
        assert_eq!(judge(answer).unwrap(), shown);
        assert_eq!(judge("ok\n").unwrap(), "");
    }

    #[test]
    fn refusals_and_cut_answers_are_errors() {
        let refused = judge("error: Keyspace [x] does not exist.\n").unwrap_err();
        assert_eq!(refused.to_string(), "Keyspace [x] does not exist.");
        for cut in ["", "shard\tw", "shard\twrites\n0\t5\n"] {
            assert!(matches!(judge(cut), Err(Error::Protocol(_))), "{cut:?}");
        }
    }

    #[test]
    fn a_name_cannot_bring_a_second_line() {
        let scope = |name: &str| Scope { keyspace: Some(name.to_owned()), table: None };
        assert_eq!(Command::Flush(scope("Ks_1")).line().unwrap(), "flush Ks_1\n");
        let tagged = |tag: &str, of: &str| {
            let (tag, of) = (tag.to_owned(), Some(of.to_owned()));
            Command::Restore { tag, of }.line()
        };
        assert_eq!(tagged("a-1", "ks.t").unwrap(), "restore a-1 ks t\n");
        for (tag, of) in [("", "ks"), ("a b", "ks"), ("a\n", "ks"), ("a", "ks.t.u"), ("a", ".")] {
            assert!(tagged(tag, of).is_err(), "{tag:?} {of:?}");
        }
        let keeps = |ttl: &str| {
            let (tag, ttl) = (Some("a".to_owned()), Some(ttl.to_owned()));
            Command::Snapshot { tag, ttl, of: Some("ks".to_owned()) }.line()
        };
        assert_eq!(keeps("12h").unwrap(), "snapshot a ttl=12h ks\n");
        assert!(keeps("1 d").is_err() && keeps("1\nflush").is_err());
        let words = |words: &[&str]| {
            let settings = words.iter().map(|word| (*word).to_owned()).collect();
            Command::SetGuardrail { settings }.line()
        };
        let line = "setguardrail a_warned [ONE,TWO] b null\n";
        assert_eq!(words(&["a_warned", "[ONE,TWO]", "b", "null"]).unwrap(), line);
        assert!(words(&["a", "1\nflush"]).is_err() && words(&["a", ""]).is_err());
        for bad in ["", "a b", "a\nflush", "k.t"] {
            assert!(Command::Compact(scope(bad)).line().is_err(), "{bad:?}");
        }
    }
}

//! A disk that is filled to the last byte: `cargo ci full-disk`.
//!
//! ```text
//! a small ext4 in a file, or a tmpfs ─► load until writes are refused ─► fill what is left ─► kill -9 ─► fill ─► start
//!        ▲                                                                                                       │
//!        └── again, and once more after somebody made space ◄── everything acknowledged is read ◄────────────────┘
//! at the end: fill what the start gave back ─► writes are refused ─► TRUNCATE ─► writes are taken ─► all is read;
//!             the same with DROP
//! ```
//!
//! Invariants
//! 1. Every write that was acknowledged is in a journal on another disk, and is read back after each start.
//! 2. The disk is full at each kill and at the start after it: no byte more can be written to a file there.
//! 3. A refusal is by name; any other failure of the load, the server or the admin socket fails the step.
//! 4. Where no small file system can be mounted the step fails, and says what it needs: it is never skipped.
//!
//! Not here: power cuts on a full disk, which are the simulator's (`shard/tests/sim`).

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use cql::frame::Version;

use crate::client::Connection;
use crate::disk_space::first_number;
use crate::evidence;
use crate::load;
use crate::repository::Repository;
use crate::server::{DataFolder, Server};
use crate::step::{Done, Failure, Log, Outcome};

/// The file system: large enough for a new data directory and memtables that are flushed, small enough to fill.
const DISK_BYTES: u64 = 1280 << 20;
/// A file system that somebody named is not filled if it is larger.
const DISK_BYTES_MAX: u64 = 4 << 30;
/// Filling, starting and reading back take a minute or two.
const LIMIT: Duration = Duration::from_secs(20 * 60);
/// A portion of the load, and the reading back of a journal.
const TOOL_LIMIT: Duration = Duration::from_secs(5 * 60);
const SHARDS: u32 = 2;
/// Records of the table that is truncated and of the one that is dropped, 1 KB each. Of what is freed the reserve,
/// where a start has used it, and three hundredths of the disk come first: 110 MB. The rest is for writes.
const SPARE_RECORDS: [(&str, u64); 2] = [(SPARE, 180_000), (DOOMED, 180_000)];
/// Records that are loaded at a time until they are refused.
const PORTION_RECORDS: u64 = 20_000;
/// The fewest bytes that a record takes on the disk.
const RECORD_BYTES_MIN: u64 = 500;
/// What the server says when the disk is full.
const REFUSAL: &str = "no space left on the disk for new writes";
/// Writes are taken again within a second when there is space; a busy machine may take longer.
const RESUME_LIMIT: Duration = Duration::from_secs(10);
/// The first and the last part of the reserve, by which a server starts on a full disk: the last is released first.
const RESERVE_PARTS: [&str; 2] = ["reserve", "reserve-4"];
/// Starts on a full disk until one needs the reserve.
const DEATHS_MAX: u32 = 5;
/// What somebody else has on the disk and removes: enough for the reserve to be kept again, and for writes.
const REMOVED_BYTES: u64 = 160 << 20;
/// The reserve is made again within ten seconds (`RESERVE_INTERVAL` in `shard/src/limits.rs`).
const RESERVE_LIMIT: Duration = Duration::from_secs(40);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The table that is truncated, the one that is dropped, and the one whose data stay, by their keyspaces.
const SPARE: &str = "spare";
const DOOMED: &str = "doomed";
const KEPT: &str = "kept";
/// Mounts an ext4 that lies in the file $1, or else a tmpfs of $3 bytes, at $2, and runs what follows.
const MOUNT: &str = r#"
{ mkfs.ext4 -q -F -m 0 "$1" && mount -o loop "$1" "$2"; } || mount -t tmpfs -o size="$3" none "$2" || exit 1
df -T "$2"
shift 3
exec "$@""#;
const NEEDS: &str = "it needs to mount a small file system: run it as root or where `unshare --mount --map-root-user` \
    works, or mount one of at most 4 GiB yourself and name an empty folder there with --on";

/// Makes a small file system in a mount namespace of its own, which goes with its last process, and runs the step
/// there.
pub(crate) fn run(repository: &Repository, log: &Log) -> Outcome {
    let folder = DataFolder::new(repository, "full-disk")?;
    let (image, disk) = (folder.join("image"), folder.join("disk"));
    let made = File::create(&image).and_then(|file| file.set_len(DISK_BYTES));
    made.and_then(|()| fs::create_dir(&disk)).map_err(|error| format!("{error}"))?;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = repository.command("unshare");
    command.arg("--mount");
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        command.arg("--map-root-user");
    }
    command.args(["sh", "-c", MOUNT, "sh"]).arg(&image).arg(&disk).arg(DISK_BYTES.to_string());
    command.arg(this).args(["full-disk", "--on"]).arg(&disk);
    command.arg("--programs").arg(repository.programs());
    let output =
        log.output(&mut command, LIMIT).map_err(|text| match text.contains(" failed, ") {
            true => text,
            false => format!("{text}\n{NEEDS}"),
        })?;
    let passed = evidence::checks(&output)?;
    folder.discard()?;
    Ok(Done::Passed(passed))
}

/// The step on the file system of an empty folder, which it fills.
pub(crate) fn run_on(repository: &Repository, disk: &Path, log: &Log) -> Outcome {
    let disk_bytes = check_disk(repository, disk)?;
    let folder = DataFolder::new(repository, "full-disk-outside")?;
    let inside = disk.join("data");
    fs::create_dir(&inside).map_err(|error| format!("{}: {error}", inside.display()))?;
    // What the server prints lies beside the link, where there is space.
    let data = folder.join("data");
    symlink(&inside, &data).map_err(|error| error.to_string())?;
    let journal = |name| folder.join(name).to_string_lossy().into_owned();
    let journals = [SPARE, DOOMED, KEPT].map(|name| (name, journal(name)));
    let (records, fillers) = (0, Vec::new());
    let mut rig =
        Rig { repository, disk, disk_bytes, data, journals, records, fillers, log, passed: 0 };
    match rig.live() {
        Ok(()) => {
            folder.discard()?;
            Ok(Done::Passed(rig.passed))
        }
        Err(text) => Err(Failure { text, passed: rig.passed, failed: 1 }),
    }
}

/// The bytes of the file system that a folder lies on; an error if it is too large to be filled.
fn check_disk(repository: &Repository, disk: &Path) -> Result<u64, String> {
    let mut df = repository.command("df");
    let bytes = first_number(df.args(["--output=size", "-B1"]).arg(disk), 1)?;
    if bytes > DISK_BYTES_MAX {
        return Err(format!("{} would be filled, and has {bytes} bytes; {NEEDS}", disk.display()));
    }
    Ok(bytes)
}

/// The small disk, what was promised on it, and what fills it.
struct Rig<'a> {
    repository: &'a Repository,
    disk: &'a Path,
    disk_bytes: u64,
    /// A link to the data directory, which is on the disk.
    data: PathBuf,
    /// Keyspaces with the journals of what was acknowledged in them.
    journals: [(&'static str, String); 3],
    /// Records of the kept table that were offered so far.
    records: u64,
    fillers: Vec<PathBuf>,
    log: &'a Log,
    passed: u64,
}

impl Rig<'_> {
    /// The whole story.
    fn live(&mut self) -> Result<(), String> {
        self.take(REMOVED_BYTES)?;
        let server = self.start()?;
        for (keyspace, records) in SPARE_RECORDS {
            self.load(&server, keyspace, 0, records)?;
        }
        let server = self.die_until_the_reserve_is_needed(server)?;
        // Somebody else takes what the start has left: the rest of the reserve is for the next one.
        let server = self.die_full(server)?;
        // Somebody makes space: the reserve is kept again, and writes go on where they were refused.
        self.remove_fillers()?;
        self.wait_for_reserve()?;
        self.resume(&server)?;
        let mut server = self.die_full(server)?;
        self.fill_up()?;
        self.load_until_refused(&server)?;
        self.try_jobs()?;
        self.prove(&server, &[SPARE, DOOMED, KEPT])?;
        let mut connection = Connection::open(&server.address, Version::V4)?;
        connection.must(&format!("TRUNCATE {SPARE}.usertable"))?;
        self.pass("TRUNCATE on a full disk");
        self.resume(&server)?;
        if !connection.cells(&format!("SELECT y_id FROM {SPARE}.usertable LIMIT 1"))?.is_empty() {
            return Err("rows are left in the table that was truncated".to_owned());
        }
        self.load_until_refused(&server)?;
        self.fill_up()?;
        connection.must(&format!("DROP KEYSPACE {DOOMED}"))?;
        self.pass("DROP on a full disk");
        self.resume(&server)?;
        self.prove(&server, &[KEPT])?;
        server.check_alive()?;
        server.stop()?;
        let server = self.start()?;
        self.prove(&server, &[KEPT])?;
        server.stop()
    }

    /// Kills and starts the server with the disk full, again if the start left the reserve alone: the kill may have
    /// come in the middle of a flush or a compaction, and the start removes its unfinished files first, which makes
    /// space.
    fn die_until_the_reserve_is_needed(&mut self, mut server: Server) -> Result<Server, String> {
        for _ in 0..DEATHS_MAX {
            server = self.die_full(server)?;
            let [is_first_there, is_last_there] = self.reserve_parts();
            if !is_last_there {
                if !is_first_there {
                    return Err("nothing is left of the reserve for the next start".to_owned());
                }
                self.pass("a start took a part of the reserve, and left one");
                return Ok(server);
            }
        }
        Err(format!("{DEATHS_MAX} starts on a full disk, and none needed the reserve"))
    }

    /// Loads until writes are refused, fills what is left, and kills and starts the server with the disk full.
    fn die_full(&mut self, server: Server) -> Result<Server, String> {
        self.load_until_refused(&server)?;
        self.fill_up()?;
        self.admin(&["status"])?;
        server.kill()?;
        self.fill_up()?;
        let server = self.start()?;
        self.pass("started on a full disk");
        self.admin(&["status"])?;
        self.prove(&server, &[SPARE, DOOMED, KEPT])?;
        Ok(server)
    }

    fn pass(&mut self, what: &str) {
        self.log.note(&format!("passed: {what}"));
        self.passed += 1;
    }

    fn start(&self) -> Result<Server, String> {
        let mut server = Server::start(self.repository, &self.data, SHARDS, self.log)?;
        server.wait_ready()?;
        Ok(server)
    }

    fn journal(&self, keyspace: &str) -> &str {
        let found = self.journals.iter().find(|(name, _)| *name == keyspace);
        &found.expect("each keyspace has a journal").1
    }

    /// Inserts records of 1 KB, of which each that is acknowledged is in the journal.
    fn load(&self, server: &Server, keyspace: &str, from: u64, to: u64) -> Result<String, String> {
        let (from, to) = (from.to_string(), to.to_string());
        let mut arguments = vec!["load", "--keyspace", keyspace, "--from", &from, "--records", &to];
        arguments.extend(["--journal", self.journal(keyspace)]);
        load::tool((self.repository, self.log), &server.address, &arguments, TOOL_LIMIT)
    }

    /// Inserts records until one is refused for want of space, and for no other reason.
    fn load_until_refused(&mut self, server: &Server) -> Result<(), String> {
        let offered_max = self.records + self.disk_bytes / RECORD_BYTES_MIN;
        while self.records < offered_max {
            let from = self.records;
            self.records += PORTION_RECORDS;
            let Err(text) = self.load(server, KEPT, from, self.records) else { continue };
            if !is_refusal(&text) {
                return Err(text);
            }
            self.pass(&format!("writes are refused, of record {from} or one after it"));
            return Ok(());
        }
        Err(format!("{offered_max} records of 1 KB were taken by {} bytes", self.disk_bytes))
    }

    /// Waits until writes are taken again.
    fn resume(&mut self, server: &Server) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let loaded = self.load(server, KEPT, self.records, self.records + PORTION_RECORDS / 10);
            self.records += PORTION_RECORDS / 10;
            match loaded {
                Ok(_) => break,
                Err(text) if !is_refusal(&text) || started.elapsed() > RESUME_LIMIT => {
                    return Err(format!("{text}\nthere is space, and writes are not taken"));
                }
                Err(_) => thread::sleep(POLL_INTERVAL),
            }
        }
        self.pass(&format!("writes are taken again after {} ms", started.elapsed().as_millis()));
        Ok(())
    }

    /// Reads back every acknowledged write.
    fn prove(&mut self, server: &Server, keyspaces: &[&str]) -> Result<(), String> {
        for keyspace in keyspaces {
            let arguments = ["verify", "--journal", self.journal(keyspace)];
            load::tool((self.repository, self.log), &server.address, &arguments, TOOL_LIMIT)
                .map_err(|text| format!("{text}\nthe server said:\n{}", server.said()))?;
            self.pass(&format!("all that was acknowledged in {keyspace} is there"));
        }
        Ok(())
    }

    /// Takes so many bytes of the file system.
    fn take(&mut self, bytes: u64) -> Result<(), String> {
        let path = self.disk.join("filler");
        let part = vec![0x5a; 1 << 20];
        let complain = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = File::create(&path).map_err(complain)?;
        for _ in 0..bytes.div_ceil(1 << 20) {
            file.write_all(&part).map_err(complain)?;
        }
        file.sync_all().map_err(complain)?;
        self.fillers.push(path);
        Ok(())
    }

    /// Takes the last byte of the file system.
    fn fill_up(&mut self) -> Result<(), String> {
        let path = self.disk.join(format!("filler-{}", self.fillers.len()));
        let mut file =
            File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut bytes = 0;
        for step in [1 << 20, 4096, 1] {
            let part = vec![0x5a; step];
            loop {
                match file.write(&part) {
                    Ok(0) => break,
                    Ok(count) => bytes += count,
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(format!("{}: {error}", path.display())),
                }
            }
            // Space is given to a file when it is written back.
            match file.sync_all() {
                Err(error) if error.kind() != ErrorKind::StorageFull => {
                    return Err(error.to_string());
                }
                _ => {}
            }
        }
        self.fillers.push(path);
        self.log.note(&format!("filled with {bytes} bytes"));
        Ok(())
    }

    fn remove_fillers(&mut self) -> Result<(), String> {
        let mut removed = self.fillers.drain(..);
        removed.try_for_each(|path| fs::remove_file(path).map_err(|error| error.to_string()))
    }

    /// Whether the first and the last part of the reserve are there.
    fn reserve_parts(&self) -> [bool; 2] {
        RESERVE_PARTS.map(|part| self.data.join(part).exists())
    }

    fn wait_for_reserve(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while self.reserve_parts() != [true, true] {
            if started.elapsed() > RESERVE_LIMIT {
                return Err("the disk has space, and the reserve is not kept again".to_owned());
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.pass("the reserve is kept again");
        Ok(())
    }

    fn admin(&self, arguments: &[&str]) -> Result<String, String> {
        load::admin((self.repository, self.log), &self.data, arguments, TOOL_LIMIT)
    }

    /// A flush and a compaction that an operator asks for do their work or say that the disk is full.
    fn try_jobs(&mut self) -> Result<(), String> {
        for arguments in [&["flush"][..], &["compact", KEPT]] {
            match self.admin(arguments) {
                Err(text) if !text.contains("no space left on the disk") => return Err(text),
                _ => {}
            }
        }
        self.pass("flush and compaction were done, or refused by name");
        Ok(())
    }
}

/// Whether all that failed was refused because the disk is full: each kind of failure, and each example of it, which
/// stands below it, indented.
fn is_refusal(text: &str) -> bool {
    let (mut examples, mut lines) = (0, text.lines().peekable());
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("failed: ") else { continue };
        let mut is_named = kind.ends_with("write failure");
        while let Some(example) = lines.next_if(|line| line.starts_with("  ")) {
            examples += 1;
            is_named &= example.contains(REFUSAL);
        }
        if !is_named {
            return false;
        }
    }
    examples > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_for_want_of_space_and_for_nothing_else() {
        let refused = format!("failed: 20 write failure\n  insert of key 1: {REFUSAL} (0x1500)\n");
        assert!(is_refusal(&refused));
        assert!(!is_refusal(
            "failed: 20 write failure\n  insert of key 1: a rotten log (0x1500)\n"
        ));
        assert!(!is_refusal(&format!("{refused}failed: 1 client timeout\n")));
        // Before: one example was enough.
        let two = format!("{refused}  insert of key 2: input/output error (0x1500)\n");
        assert!(!is_refusal(&two));
        assert!(is_refusal(&format!("{refused}  insert of key 2: {REFUSAL} (0x1500)\nok\n")));
        assert!(!is_refusal(&format!("{REFUSAL}\nkilled: longer than 300 s")));
    }

    #[test]
    fn a_disk_that_is_too_large_is_not_filled() {
        let repository = Repository::find().unwrap();
        let large = check_disk(&repository, repository.root());
        assert!(large.unwrap_err().contains("would be filled"));
    }
}

//! What must be true before the server starts, each with the exact fix when it is not.
//!
//! ```text
//! data directory: made, not in use, writable with O_DIRECT, space left (if it is new)
//! kernel:         io_uring allowed, memory may be locked, enough descriptors
//! ports:          free
//! ```
//!
//! A check has no side effects but the directory, its empty lock file, and a raised limit of
//! descriptors. What only the storage can tell (data of a newer version, damage) it tells itself
//! when it opens; that it keeps the lock from then on makes the early look no race.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use crate::config::Config;
use crate::config::quantity::Bytes;
use crate::limits::{DESCRIPTORS_MIN, DESCRIPTORS_PER_CONNECTION, FREE_BYTES_MIN};
use crate::os;

/// Makes all checks before the start; an error says what to do about it.
pub(crate) fn run(config: &mut Config, warnings: &mut Vec<String>) -> Result<(), String> {
    drop(lock_data_dir(&config.data_dir)?);
    check_direct_io(&config.data_dir)?;
    check_free_space(&config.data_dir)?;
    check_io_uring()?;
    check_memlock(config.shards)?;
    check_open_files(config, warnings)?;
    if let Err(error) = os::disable_huge_pages() {
        warnings.push(format!("huge pages stay enabled, and some writes wait for them: {error}"));
    }
    check_ports(config)
}

/// The lock is the storage's own, tried early: its holder is better told before anything starts.
fn lock_data_dir(path: &Path) -> Result<File, String> {
    let shown = path.display();
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
        format!("cannot make the data directory {shown}: {error}. Give another by --data-dir")
    })?;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path.join("lock"))
        .map_err(|error| format!("the data directory {shown} is not writable: {error}"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(format!(
            "the data directory {shown} is in use by another messina. Stop it, or give another \
             by --data-dir"
        )),
        Err(TryLockError::Error(error)) => Err(format!("cannot lock {shown}/lock: {error}")),
    }
}

/// A page whose address O_DIRECT accepts.
#[repr(align(4096))]
struct Page([u8; 4096]);

fn check_direct_io(path: &Path) -> Result<(), String> {
    let probe = path.join("PROBE");
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_DIRECT)
        .open(&probe)
        .and_then(|file| file.write_all_at(&Page([0; 4096]).0, 0));
    let removed = std::fs::remove_file(&probe);
    let shown = path.display();
    match written.and(removed) {
        Ok(()) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(format!(
            "the file system of {shown} does not take O_DIRECT writes of 4096 bytes. Put --data-dir \
             on ext4 or XFS; overlay and network file systems will not do"
        )),
        Err(error) if error.kind() == ErrorKind::StorageFull && has_data(path) => Ok(()),
        Err(error) => Err(format!("cannot write to {shown}: {error}")),
    }
}

/// Space for a new node. One that is there starts on a full disk too, so that something can be deleted.
fn check_free_space(path: &Path) -> Result<(), String> {
    if has_data(path) {
        return Ok(());
    }
    let free_bytes = engine::io::space_of(path)
        .map_err(|error| format!("cannot tell the free space of {}: {error}", path.display()))?
        .free_bytes;
    if free_bytes >= FREE_BYTES_MIN {
        return Ok(());
    }
    Err(format!(
        "only {} are free at {}, and a commit log alone needs {}. Free some, or give another \
         --data-dir",
        Bytes(free_bytes),
        path.display(),
        Bytes(FREE_BYTES_MIN)
    ))
}

/// Whether a node was started here before.
fn has_data(path: &Path) -> bool {
    path.join("layout").exists()
}

fn check_io_uring() -> Result<(), String> {
    match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
        Ok(text) => io_uring_verdict(text.trim()),
        // Kernels before 6.6 have no such switch.
        Err(_) => Ok(()),
    }
}

fn io_uring_verdict(disabled: &str) -> Result<(), String> {
    match disabled {
        "2" => Err("io_uring is disabled on this machine. Enable it: sysctl \
                    kernel.io_uring_disabled=0"
            .to_owned()),
        _ => Ok(()),
    }
}

/// What to say when an executor could not start: its error is the first sign of a blocked io_uring.
pub(crate) fn explain_runtime(error: &io::Error) -> String {
    let fix = match error.raw_os_error() {
        Some(libc::EPERM) | Some(libc::EACCES) => {
            "io_uring is blocked, probably by a container's seccomp profile or by \
             kernel.io_uring_disabled=1. Docker: --security-opt seccomp=unconfined, or a profile \
             that allows io_uring_setup, io_uring_enter and io_uring_register"
        }
        Some(libc::ENOSYS) => "this kernel has no io_uring: Linux 5.19 or newer is needed",
        Some(libc::ENOMEM) => {
            "not enough memory may be locked: LimitMEMLOCK=infinity in the service, or ulimit -l \
             unlimited"
        }
        _ => "",
    };
    format!("a shard cannot start: {error}. {fix}").trim_end().to_owned()
}

fn check_memlock(shards: usize) -> Result<(), String> {
    let limit = shard::os::cpus::memlock_bytes()
        .map_err(|error| format!("cannot tell how much memory may be locked: {error}"))?;
    let needed = shard::limits::MEMLOCK_BYTES_MIN;
    if limit >= needed {
        return Ok(());
    }
    Err(format!(
        "only {} of memory may be locked, and each of {shards} shards needs {} for its rings: \
         LimitMEMLOCK=infinity in the service, ulimit -l unlimited in a shell, --ulimit \
         memlock=-1 for Docker",
        Bytes(limit),
        Bytes(needed)
    ))
}

fn check_open_files(config: &mut Config, warnings: &mut Vec<String>) -> Result<(), String> {
    let limit = os::raise_open_files()
        .map_err(|error| format!("cannot raise the limit of open files: {error}"))?;
    let wanted = config.connections_max as u64 * DESCRIPTORS_PER_CONNECTION;
    if limit < DESCRIPTORS_MIN {
        return Err(format!(
            "only {limit} files may be open. LimitNOFILE={wanted} in the service, or ulimit -n \
             {wanted}"
        ));
    }
    let most = connections_within(limit);
    if config.connections_max > most {
        warnings.push(format!(
            "only {limit} files may be open, so that {most} connections are served and not {}: \
             LimitNOFILE={wanted} in the service, or ulimit -n {wanted}",
            config.connections_max
        ));
        config.connections_max = most;
    }
    Ok(())
}

/// How many connections leave descriptors for files.
fn connections_within(limit: u64) -> usize {
    usize::try_from(limit / DESCRIPTORS_PER_CONNECTION).unwrap_or(usize::MAX)
}

/// Our own listeners share their ports on purpose, so another server's would go unnoticed.
fn check_ports(config: &Config) -> Result<(), String> {
    let ports = [(Some(config.port), "--port"), (config.shard_aware_port, "--shard-aware-port")];
    for (port, flag) in ports {
        let Some(port) = port else { continue };
        let address = SocketAddr::new(config.listen, port);
        if let Err(error) = TcpListener::bind(address) {
            return Err(match error.kind() {
                ErrorKind::AddrInUse => format!(
                    "{address} is in use by another program. Stop it, or choose another {flag}"
                ),
                ErrorKind::AddrNotAvailable => {
                    format!("{} is no address of this machine: see --listen", config.listen)
                }
                ErrorKind::PermissionDenied => {
                    format!("{address} may not be opened by this user: choose another {flag}")
                }
                _ => format!("cannot listen on {address}: {error}"),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_has_one_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/data");
        let lock = lock_data_dir(&path).unwrap();
        let refusal = lock_data_dir(&path).unwrap_err();
        assert!(refusal.contains("in use by another messina"), "{refusal}");
        drop(lock);
        lock_data_dir(&path).unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let refusal = lock_data_dir(&folder.path().join("file/data")).unwrap_err();
        assert!(refusal.contains("--data-dir"), "{refusal}");
    }

    #[test]
    fn a_probe_leaves_nothing_behind() {
        // A file system without O_DIRECT may be what the test runs on; the words then tell so.
        let folder = tempfile::tempdir_in(".").unwrap();
        if let Err(refusal) = check_direct_io(folder.path()) {
            assert!(refusal.contains("O_DIRECT"), "{refusal}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// Before: with a low limit clients could take all descriptors: the log found none, and the node died.
    #[test]
    fn connections_leave_descriptors_for_files() {
        assert_eq!(connections_within(1024), 512);
        assert_eq!(connections_within(1 << 20), 1 << 19);
    }

    #[test]
    fn space_that_cannot_be_told_is_refused_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let refusal = check_free_space(&missing).unwrap_err();
        assert!(refusal.contains(&missing.display().to_string()), "{refusal}");
        assert!(engine::io::space_of(folder.path()).unwrap().total_bytes > 0);
    }

    #[test]
    fn refusals_of_the_kernel_name_their_fix() {
        assert!(io_uring_verdict("2").unwrap_err().contains("sysctl kernel.io_uring_disabled=0"));
        assert!(io_uring_verdict("0").is_ok());
        let blocked = explain_runtime(&io::Error::from_raw_os_error(libc::EPERM));
        assert!(blocked.contains("seccomp"), "{blocked}");
    }

    #[test]
    fn a_taken_port_is_told() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = Config::for_tests(Path::new("."));
        config.port = taken.local_addr().unwrap().port();
        let refusal = check_ports(&config).unwrap_err();
        assert!(refusal.contains("in use by another program"), "{refusal}");
    }
}

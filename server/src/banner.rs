//! What the server says when it is ready: on stdout, and to systemd.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

use crate::config::quantity::Bytes;
use crate::config::{Config, SyncMode};

/// The words before the last one, which is `ready`.
pub(crate) struct Banner<'a> {
    pub(crate) config: &'a Config,
    /// The shard-aware port, if it is open: if its connections land on the shard they ask for.
    pub(crate) aware_port: Option<u16>,
}

impl Display for Banner<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let config = self.config;
        let line = |f: &mut Formatter<'_>, name: &str, value: &dyn Display| {
            writeln!(f, "  {name:<11} {value}")
        };
        writeln!(f, "Messina {}", env!("CARGO_PKG_VERSION"))?;
        line(f, "CQL", &SocketAddr::new(config.listen, config.port))?;
        match self.aware_port {
            Some(port) => line(f, "shard-aware", &SocketAddr::new(config.listen, port))?,
            None => line(f, "shard-aware", &"off")?,
        }
        let each = Bytes(config.shard_memory_bytes());
        line(f, "shards", &format_args!("{} with {each} each", config.shards))?;
        match config.commitlog_sync {
            SyncMode::Batch => {
                line(f, "durability", &"batch: a write is on disk before it is acknowledged")?;
            }
            SyncMode::Periodic => {
                line(f, "durability", &"periodic: a crash may lose the last acknowledged writes")?;
            }
        }
        let path = config.data_dir.canonicalize();
        line(f, "data", &path.as_deref().unwrap_or(&config.data_dir).display())?;
        line(f, "try", &format_args!("cqlsh {} {}", config.broadcast_address, config.port))
    }
}

/// Prints the banner and its last line, and tells systemd.
pub(crate) fn show(banner: &Banner<'_>) {
    println!("{banner}ready");
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tracing::warn!("cannot tell systemd that we are ready: {error}");
    }
}

/// Tells systemd that the end has begun.
pub(crate) fn tell_stopping() {
    // A process without systemd's socket cannot be told, and need not be.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn it_tells_what_a_newcomer_needs() {
        let mut config = Config::for_tests(Path::new("no-such-folder"));
        config.shards = 2;
        config.memory_bytes = 1 << 30;
        let text = Banner { config: &config, aware_port: Some(19042) }.to_string();
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "Messina {version}\n  \
             CQL         127.0.0.1:9042\n  \
             shard-aware 127.0.0.1:19042\n  \
             shards      2 with 512 MiB each\n  \
             durability  batch: a write is on disk before it is acknowledged\n  \
             data        no-such-folder\n  \
             try         cqlsh 127.0.0.1 9042\n"
        );
        assert_eq!(text, expected);
        config.commitlog_sync = SyncMode::Periodic;
        let text = Banner { config: &config, aware_port: None }.to_string();
        assert!(text.contains("may lose the last"), "{text}");
        assert!(text.contains("shard-aware off"), "{text}");
    }
}

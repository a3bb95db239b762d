//! The admin socket: an operator on this machine asks the running server, by `messina-admin`.
//!
//! ```text
//! DATA/admin.sock (mode 0600) ─► accept ─► same user? ─► one line ─► command.rs ─► all shards
//!                                             │                                       │
//!                                  closed unread if not            lines, then `ok` or `error: ..`
//! ```
//!
//! One request a connection. It runs as tasks of the first core, in the background group: nothing of
//! it is on the way of a client's request.
//!
//! Invariants
//! 1. Only the user that the server runs as, and root, are answered (SO_PEERCRED).
//! 2. Bounded: connections at a time, bytes of a request, and the time it may take to come.
//!
//! Not here: what a request says and what is answered (`command.rs`).

mod command;
mod hot;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use command::Command;
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use glommio::timer::timeout;
use shard::clock::Clock;
use shard::notify::Notify;
use shard::runtime::using_executor;
use shard::{Group, Shard};

use crate::execute::Peering;
use crate::guardrails::Guardrails;
use crate::limits::{
    ADMIN_CONNECTIONS_MAX, ADMIN_REQUEST_BYTES_MAX, ADMIN_REQUEST_TIMEOUT, ADMIN_SEND_TIMEOUT,
};
use crate::os;
use crate::transport::Transport;

/// The socket's name in the data directory.
const NAME: &str = "admin.sock";

/// A stream inside the executor.
type Stream = glommio::net::UnixStream;

/// Serves the admin socket of a data directory from this core, as long as the process lives, and
/// gives its listener: whenever one arrives there, `arrivals` is to be notified. The directory's
/// lock must be held: a socket that is there already is a dead server's.
pub(crate) fn serve(
    data_dir: &Path,
    shard: &Rc<Shard<Peering>>,
    (guardrails, transport): (Arc<Guardrails>, Arc<Transport>),
    arrivals: Rc<Notify>,
) -> io::Result<Rc<UnixListener>> {
    let listener = Rc::new(bind(data_dir)?);
    let socket = Rc::new(Socket { shard: shard.clone(), guardrails, transport });
    shard.runtime().spawn(Group::Background, socket.accept_all(listener.clone(), arrivals));
    Ok(listener)
}

/// Removes the socket: the server has ended in an orderly way.
pub(crate) fn remove(data_dir: &Path) {
    // A socket that stays is replaced by the next start.
    let _ = fs::remove_file(data_dir.join(NAME));
}

/// A listener that only this user may connect to.
fn bind(data_dir: &Path) -> io::Result<UnixListener> {
    let folder = File::open(data_dir)?;
    // By the descriptor: the address of a socket has 108 bytes, and the path may be longer.
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(NAME);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// What the connections share; how many there are is its count of owners.
struct Socket {
    shard: Rc<Shard<Peering>>,
    guardrails: Arc<Guardrails>,
    transport: Arc<Transport>,
}

impl Socket {
    async fn accept_all(self: Rc<Self>, listener: Rc<UnixListener>, arrivals: Rc<Notify>) {
        loop {
            match listener.accept() {
                Ok((stream, _)) => self.clone().take(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    arrivals.notified().await;
                }
                Err(error) => {
                    tracing::warn!("an admin connection was not accepted: {error}");
                    shard::runtime::sleep(ADMIN_REQUEST_TIMEOUT).await;
                }
            }
        }
    }

    fn take(self: Rc<Self>, stream: UnixStream) {
        match os::peer_user(&stream) {
            Ok(user) if user == os::own_user() || user == 0 => {}
            Ok(user) => {
                return tracing::warn!(user, "refused on the admin socket: another user");
            }
            Err(error) => return tracing::warn!("refused on the admin socket: {error}"),
        }
        let runtime = self.shard.runtime().clone();
        // The accepting task holds one, this connection another.
        let is_over = Rc::strong_count(&self) - 1 > ADMIN_CONNECTIONS_MAX;
        runtime.spawn(Group::Background, async move {
            let _executor = using_executor();
            let stream = os::into_runtime(stream);
            let result = match is_over {
                true => send(stream, "error: too many admin connections\n".to_owned()).await,
                false => self.answer(stream).await,
            };
            if let Err(error) = result {
                tracing::debug!("an admin connection: {error}");
            }
        });
    }

    async fn answer(&self, mut stream: Stream) -> io::Result<()> {
        let answer = match receive(&mut stream).await? {
            Some(line) => match Command::parse(&line) {
                Ok(command) => {
                    let now_us = Clock::new().wall_us();
                    command.run(&self.shard, (&self.guardrails, &self.transport), now_us).await
                }
                Err(why) => command::refusal(&why),
            },
            None => command::refusal(&format!(
                "a request is one line of at most {ADMIN_REQUEST_BYTES_MAX} bytes"
            )),
        };
        send(stream, answer).await
    }
}

/// The request's line; `None` if it is longer than a request may be, or no text.
async fn receive(stream: &mut Stream) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let read = async {
        let mut part = [0; ADMIN_REQUEST_BYTES_MAX];
        while bytes.len() <= ADMIN_REQUEST_BYTES_MAX && !bytes.contains(&b'\n') {
            match stream.read(&mut part).await? {
                0 => break,
                count => bytes.extend_from_slice(&part[..count]),
            }
        }
        Ok(())
    };
    timeout(ADMIN_REQUEST_TIMEOUT, read).await.map_err(io::Error::from)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let whole = line.len() < bytes.len() && line.len() <= ADMIN_REQUEST_BYTES_MAX;
    Ok(whole.then(|| std::str::from_utf8(line).ok().map(str::to_owned)).flatten())
}

async fn send(mut stream: Stream, answer: String) -> io::Result<()> {
    let write = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown(std::net::Shutdown::Write).await
    };
    timeout(ADMIN_SEND_TIMEOUT, write).await.map_err(io::Error::from)
}

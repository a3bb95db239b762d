//! The listeners: each shard has its own on the CQL port, and its own on the shard-aware port.
//!
//! ```text
//! port         every shard listens (SO_REUSEPORT); the kernel spreads connections by a hash
//! shard-aware  the same, and a three-instruction program in the kernel picks the shard:
//!              source port % shards, the rule by which shard-aware drivers choose their port
//! ```
//!
//! No core hands connections over: one lands where it stays. Whether the program does what it
//! should is tried at start on a port of no importance; where it does not (an odd kernel, a
//! sandbox), the shard-aware port stays closed and is not advertised. Drivers then open
//! connections until each shard has one.
//!
//! Steps: bind all in `main`, so that a taken port is told at once; a shard adds its own to its
//! poller; when every shard is ready, `open` lets connections in.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::os;

/// The listeners of one shard.
#[derive(Debug)]
pub(crate) struct ShardListeners {
    pub(crate) plain: TcpListener,
    pub(crate) shard_aware: Option<TcpListener>,
}

/// All listeners, bound, in the order of their shards.
pub(crate) struct Listeners {
    shards: Vec<ShardListeners>,
}

impl Listeners {
    /// Binds the port of the configuration, and the shard-aware one unless it is `None`.
    pub(crate) fn bind(config: &Config, aware_port: Option<u16>) -> Result<Listeners, String> {
        let bind = |port| {
            let address = SocketAddr::new(config.listen, port);
            os::bind_listener(address)
                .map_err(|error| format!("cannot listen on {address}: {error}"))
        };
        let shards = (0..config.shards)
            .map(|_| {
                let shard_aware = aware_port.map(bind).transpose()?;
                Ok(ShardListeners { plain: bind(config.port)?, shard_aware })
            })
            .collect::<Result<_, String>>()?;
        Ok(Listeners { shards })
    }

    /// The same sockets once more: one set for the shards, in order.
    pub(crate) fn for_shards(&self) -> io::Result<Vec<ShardListeners>> {
        let again = |listeners: &ShardListeners| {
            let shard_aware = listeners.shard_aware.as_ref().map(TcpListener::try_clone);
            let (plain, shard_aware) = (listeners.plain.try_clone()?, shard_aware.transpose()?);
            Ok(ShardListeners { plain, shard_aware })
        };
        self.shards.iter().map(again).collect()
    }

    /// Lets connections in.
    pub(crate) fn open(self) -> io::Result<()> {
        let aware: Vec<_> = self.shards.iter().filter_map(|s| s.shard_aware.as_ref()).collect();
        start_steered(&aware)?;
        self.shards.iter().try_for_each(|shard| os::start_listening(&shard.plain))
    }
}

/// Starts the listeners of one port, each for the connections of its turn.
fn start_steered(listeners: &[&TcpListener]) -> io::Result<()> {
    for listener in listeners {
        os::start_listening(listener)?;
    }
    match listeners {
        [] | [_] => Ok(()),
        [first, ..] => os::steer(first, listeners.len() as u32),
    }
}

/// Whether the kernel steers connections to the shard that their source port names.
pub(crate) fn steering_works(listen: IpAddr, shards: usize) -> bool {
    if shards == 1 {
        return true;
    }
    match try_steering(listen, shards) {
        Ok(verdict) => verdict,
        Err(error) => {
            tracing::warn!("connections cannot be steered to their shards: {error}");
            false
        }
    }
}

fn try_steering(listen: IpAddr, shards: usize) -> io::Result<bool> {
    const TRIES: usize = 8;
    let mut listeners = vec![os::bind_listener(SocketAddr::new(listen, 0))?];
    let address = listeners[0].local_addr()?;
    while listeners.len() < shards {
        listeners.push(os::bind_listener(address)?);
    }
    start_steered(&listeners.iter().collect::<Vec<_>>())?;
    let target = match (listen.is_unspecified(), listen.is_ipv6()) {
        (true, false) => SocketAddr::from(([127, 0, 0, 1], address.port())),
        (true, true) => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], address.port())),
        _ => address,
    };
    for _ in 0..TRIES {
        let client = TcpStream::connect_timeout(&target, Duration::from_secs(1))?;
        let shard = usize::from(client.local_addr()?.port()) % shards;
        if !arrives(&listeners[shard], client.local_addr()?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a connection of `client` comes out of `listener`; the kernel may take a moment.
fn arrives(listener: &TcpListener, client: SocketAddr) -> io::Result<bool> {
    let deadline = Instant::now() + Duration::from_millis(100);
    loop {
        match listener.accept() {
            Ok((_, peer)) if peer == client => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if Instant::now() > deadline => return Ok(false),
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Two ports that no process has; the sockets that found them are closed again.
    fn free_ports() -> (u16, u16) {
        let probes = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [a, b] = probes.each_ref().map(|probe| probe.local_addr().unwrap().port());
        (a, b)
    }

    #[test]
    fn connections_land_on_the_shard_their_port_names() {
        let mut config = Config::for_tests(Path::new("."));
        let (port, aware_port) = free_ports();
        (config.port, config.shard_aware_port, config.shards) = (port, Some(aware_port), 3);
        assert!(steering_works(config.listen, 3));
        let listeners = Listeners::bind(&config, config.shard_aware_port).unwrap();
        let shards = listeners.for_shards().unwrap();
        let refused = TcpStream::connect((config.listen, port)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "not before it is open");
        listeners.open().unwrap();
        for _ in 0..12 {
            let client = TcpStream::connect((config.listen, aware_port)).unwrap();
            let from = client.local_addr().unwrap();
            let aware = shards[usize::from(from.port()) % 3].shard_aware.as_ref().unwrap();
            assert!(arrives(aware, from).unwrap());
        }
        let client = TcpStream::connect((config.listen, port)).unwrap();
        let from = client.local_addr().unwrap();
        assert!(shards.iter().any(|shard| arrives(&shard.plain, from).unwrap()));
    }

    #[test]
    fn without_steering_the_second_port_stays_closed() {
        let mut config = Config::for_tests(Path::new("."));
        (config.port, config.shards) = (free_ports().0, 2);
        let listeners = Listeners::bind(&config, None).unwrap();
        assert!(listeners.for_shards().unwrap().iter().all(|shard| shard.shard_aware.is_none()));
    }
}

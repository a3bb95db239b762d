//! From nothing to a connection that is ready for requests, on the shard it should be on.
//!
//! 1. Connect: to a shard by a source port that leaves the shard's number when it is divided by the number of shards.
//! 2. OPTIONS: the answer says how many shards there are and which one this connection has.
//! 3. STARTUP, and the login if the server asks for it.
//!
//! Invariants
//! 1. Connecting and each request are limited by the client's time limit.
//! 2. A connection on another shard is as good: where the shard cannot be chosen (no such port, ports in use, source
//!    ports changed on the way), `open_on` takes any. The answer says where it is.
//!
//! The choice of a shard by source port is that of ScyllaDB's drivers.
//!
//! Not here: what SUPPORTED says of shards (`client/topology.rs`), opening again what was lost
//! (`client/worker/reconnect.rs`).

use std::io::ErrorKind::{ConnectionRefused, TimedOut};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use cql::frame::client::Reply;
use cql::frame::compress::Compression;
use cql::frame::reader::Reader;
use cql::frame::request::{AuthResponse, Parameters, Prepare, Query, Request, Startup};
use cql::frame::{Consistency, Version, writer};

use super::link::Link;
use super::sys;
use super::topology::Topology;
use crate::error::{Error, Result};
use crate::limits::SOURCE_PORTS_TRIED;

/// The first source port that is tried; the kernel hands out others by itself above 32768.
const SOURCE_PORT_FIRST: u32 = 20_000;
const SOURCE_PORTS: u32 = 40_000;

/// Everything that is the same for all connections.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address of the server.
    pub address: SocketAddr,
    /// The protocol version.
    pub version: Version,
    /// How bodies are compressed.
    pub compression: Compression,
    /// The user and the password, should the server ask.
    pub credentials: Option<(String, String)>,
    /// How long connecting and each request of the handshake may take.
    pub timeout: Duration,
    /// Whether to go to shards.
    pub shard_aware: bool,
    /// How many replicas must answer.
    pub consistency: Consistency,
}

/// A prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// What EXECUTE calls it.
    pub id: Vec<u8>,
    /// The version of its result's columns (v5).
    pub result_metadata_id: Vec<u8>,
}

/// How a connection ended up.
#[derive(Debug)]
pub struct Opened {
    /// The connection, blocking still.
    pub link: Link,
    /// The shards, and which one this is.
    pub topology: Topology,
}

impl Target {
    /// Opens a connection wherever it lands.
    pub fn open(&self) -> Result<Opened> {
        let stream = TcpStream::connect_timeout(&self.address, self.timeout)
            .map_err(|error| Error::Lost(format!("connecting to {}: {error}", self.address)))?;
        self.greet(stream)
    }

    /// Opens a connection that lands on `shard`, if the server lets a client choose; the answer
    /// says where it is.
    ///
    /// `turn` differs between the connections to one shard, so that they try different ports.
    pub fn open_on(&self, shard: u32, turn: u32, topology: &Topology) -> Result<Opened> {
        let Some(port) = topology.shard_aware_port.filter(|_| topology.shards > 1) else {
            return self.open();
        };
        let address = SocketAddr::new(self.address.ip(), port);
        let steps = SOURCE_PORTS / topology.shards;
        for attempt in 0..SOURCE_PORTS_TRIED {
            let step = (turn.wrapping_mul(7919) + attempt * 31 + std::process::id()) % steps;
            let from = SOURCE_PORT_FIRST.next_multiple_of(topology.shards);
            let source_port = from + step * topology.shards + shard;
            let source_port = u16::try_from(source_port).expect("the range ends below 65536");
            match sys::connect_from(address, source_port, self.timeout) {
                Ok(stream) => {
                    let opened = self.greet(stream)?;
                    if opened.topology.own_shard == Some(shard) {
                        return Ok(opened);
                    }
                    // Something between us changes source ports: any connection is as good.
                    break;
                }
                Err(error) if [ConnectionRefused, TimedOut].contains(&error.kind()) => break,
                Err(_) => {}
            }
        }
        self.open()
    }

    fn greet(&self, stream: TcpStream) -> Result<Opened> {
        let mut link = Link::new(stream, self.version)?;
        link.set_timeout(self.timeout)?;
        let topology = link.call(&Request::Options, |answer| match answer {
            Reply::Supported(supported) => Topology::of_supported(&supported),
            other => Err(unexpected(&other)),
        })?;
        let mut options = vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "messina-load")];
        match self.compression {
            Compression::None => {}
            Compression::Lz4 => options.push(("COMPRESSION", "lz4")),
            Compression::Snappy => options.push(("COMPRESSION", "snappy")),
        }
        let mut bytes = Vec::new();
        writer::string_map(&mut bytes, options.into_iter());
        let options = Reader::new(&bytes).string_map().expect("it was written just now");
        let welcome = link.call(&Request::Startup(Startup { options }), |answer| match answer {
            Reply::Ready => Ok(true),
            Reply::Authenticate(_) => Ok(false),
            other => Err(unexpected(&other)),
        })?;
        link.establish(self.compression);
        if !welcome {
            self.log_in(&mut link)?;
        }
        Ok(Opened { link, topology })
    }

    fn log_in(&self, link: &mut Link) -> Result<()> {
        let Some((user, password)) = &self.credentials else {
            return Err(Error::Invalid(
                "the server asks who you are: give --user and --password".into(),
            ));
        };
        let token = format!("\0{user}\0{password}");
        let response = AuthResponse { token: Some(token.as_bytes()) };
        link.call(&Request::AuthResponse(response), |answer| match answer {
            Reply::AuthSuccess(_) => Ok(()),
            other => Err(unexpected(&other)),
        })
    }

    /// Runs a statement that has no values.
    pub fn query<R>(
        &self,
        link: &mut Link,
        text: &str,
        read: impl FnOnce(Reply<'_>) -> Result<R>,
    ) -> Result<R> {
        let parameters = Parameters::plain(self.consistency, self.version);
        link.call(&Request::Query(Query { text, parameters }), read)
    }

    /// Prepares a statement.
    pub fn prepare(&self, link: &mut Link, text: &str) -> Result<Prepared> {
        let prepare = Prepare { text, keyspace: None };
        link.call(&Request::Prepare(prepare), |answer| match answer {
            Reply::Prepared(prepared) => Ok(Prepared {
                id: prepared.id.to_vec(),
                result_metadata_id: prepared.result_metadata_id.unwrap_or_default().to_vec(),
            }),
            other => Err(unexpected(&other)),
        })
    }
}

fn unexpected(answer: &Reply<'_>) -> Error {
    Error::Protocol(format!("an answer that does not fit the request: {answer:?}"))
}

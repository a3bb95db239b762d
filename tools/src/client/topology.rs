//! Which shard of the server owns a token, as far as the server says so.
//!
//! Servers of Scylla's design name in SUPPORTED how many shards they have, how a token falls to
//! one, and the port on which a connection lands on shard `source port % shards`. Of any other
//! server there is one shard, and every connection is on it.

use cql::frame::reader::StringMultimap;
use model::Token;

use crate::error::{Error, Result};
use crate::limits::SERVER_SHARDS_MAX;

/// The shards of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// How many there are; 1 if the server has none.
    pub shards: u32,
    /// Leading bits of a token that do not count.
    pub ignore_msb: u32,
    /// Where the source port decides the shard.
    pub shard_aware_port: Option<u16>,
    /// The shard of the connection that asked.
    pub own_shard: Option<u32>,
}

impl Topology {
    /// A server without shards.
    pub const NONE: Topology =
        Topology { shards: 1, ignore_msb: 0, shard_aware_port: None, own_shard: None };

    /// Reads what SUPPORTED says; an error if that cannot be.
    pub fn of_supported(supported: &StringMultimap<'_>) -> Result<Topology> {
        let text = |name: &str| {
            let entry = supported.iter().find(|(key, _)| *key == name);
            entry.and_then(|(_, values)| values.iter().next())
        };
        let number = |name: &str| -> Option<u32> { text(name)?.parse().ok() };
        let known = text("SCYLLA_SHARDING_ALGORITHM") == Some("biased-token-round-robin");
        Ok(match number("SCYLLA_NR_SHARDS") {
            Some(shards) if shards > SERVER_SHARDS_MAX => {
                return Err(Error::Protocol(format!("a server of {shards} shards")));
            }
            Some(shards) if shards > 0 && known => Topology {
                shards,
                ignore_msb: number("SCYLLA_SHARDING_IGNORE_MSB").unwrap_or(0).min(63),
                shard_aware_port: number("SCYLLA_SHARD_AWARE_PORT")
                    .and_then(|port| u16::try_from(port).ok()),
                own_shard: number("SCYLLA_SHARD"),
            },
            _ => Topology::NONE,
        })
    }

    /// The owner of `token`.
    #[inline]
    pub fn shard_of(&self, token: Token) -> u32 {
        let biased = token.biased() << self.ignore_msb;
        ((u128::from(biased) * u128::from(self.shards)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of ScyllaDB's drivers: 4 shards, 12 bits ignored.
    #[test]
    fn tokens_fall_to_shards_as_in_the_drivers() {
        let topology = Topology { shards: 4, ignore_msb: 12, ..Topology::NONE };
        for (token, shard) in [
            (-4_069_959_284_402_364_209, 1),
            (4_443_639_997_907_684_431, 2),
            (-9_081_975_895_656_599_623, 1),
            (7_297_452_126_230_313_552, 1),
            (7_071_048_584_287_372_947, 0),
        ] {
            assert_eq!(topology.shard_of(Token(token)), shard, "{token}");
        }
    }

    #[test]
    fn a_server_without_shards_has_one() {
        assert_eq!(Topology::NONE.shard_of(Token::MIN), 0);
        assert_eq!(Topology::NONE.shard_of(Token::MAX), 0);
    }
}

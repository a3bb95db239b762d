//! `[consistency]`: how many replicas must answer.

use super::error::{Malformed, Result};

/// A consistency level of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Consistency {
    /// Any node, a hint counts (writes only).
    Any = 0,
    /// One replica must answer.
    One = 1,
    /// Two replicas must answer.
    Two = 2,
    /// Three replicas must answer.
    Three = 3,
    /// A majority of all replicas.
    Quorum = 4,
    /// Every replica must answer.
    All = 5,
    /// A majority in the coordinator's data centre.
    LocalQuorum = 6,
    /// A majority in every data centre.
    EachQuorum = 7,
    /// Linearizable, for conditional writes and their reads.
    Serial = 8,
    /// Linearizable in the coordinator's data centre.
    LocalSerial = 9,
    /// One replica of the coordinator's data centre.
    LocalOne = 10,
}

impl Consistency {
    /// Every level, at its code.
    pub const ALL: [Consistency; 11] = [
        Consistency::Any,
        Consistency::One,
        Consistency::Two,
        Consistency::Three,
        Consistency::Quorum,
        Consistency::All,
        Consistency::LocalQuorum,
        Consistency::EachQuorum,
        Consistency::Serial,
        Consistency::LocalSerial,
        Consistency::LocalOne,
    ];

    /// The level with this code.
    pub fn from_code(code: u16) -> Result<Consistency> {
        match Consistency::ALL.get(usize::from(code)) {
            Some(level) => Ok(*level),
            None => Err(Malformed::because(format!("Unknown code {code} for a consistency level"))),
        }
    }

    /// The code as the wire has it.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// Whether it is SERIAL or LOCAL_SERIAL.
    pub const fn is_serial(self) -> bool {
        matches!(self, Consistency::Serial | Consistency::LocalSerial)
    }

    /// The name that CQL and the drivers use.
    pub const fn name(self) -> &'static str {
        match self {
            Consistency::Any => "ANY",
            Consistency::One => "ONE",
            Consistency::Two => "TWO",
            Consistency::Three => "THREE",
            Consistency::Quorum => "QUORUM",
            Consistency::All => "ALL",
            Consistency::LocalQuorum => "LOCAL_QUORUM",
            Consistency::EachQuorum => "EACH_QUORUM",
            Consistency::Serial => "SERIAL",
            Consistency::LocalSerial => "LOCAL_SERIAL",
            Consistency::LocalOne => "LOCAL_ONE",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_sits_at_its_code() {
        for (code, level) in Consistency::ALL.iter().enumerate() {
            assert_eq!(usize::from(level.code()), code);
        }
        let unknown = Consistency::from_code(11).unwrap_err();
        assert_eq!(unknown.to_string(), "Unknown code 11 for a consistency level");
    }
}

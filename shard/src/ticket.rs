//! The name of a write, from its caller through the engine and back.
//!
//! The engine keeps a ticket as 64 bits and gives it back when the write is durable: the kind in
//! the upper half, the number in the lower.

/// The caller or the entry that waits for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ticket {
    /// The layer above, under a number of its choice:
    /// [`take_completed`](crate::Shard::take_completed) gives it back.
    Caller(u32),
    /// No one: the result is dropped, and logged if it is an error.
    Unattended,
    /// An entry of the shard's own table of what waits (`peers.rs`).
    Entry(u32),
}

const CALLER: u64 = 0;
const UNATTENDED: u64 = 1;
const ENTRY: u64 = 2;

impl Ticket {
    /// As the engine keeps it.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        let (kind, number) = match self {
            Ticket::Caller(number) => (CALLER, number),
            Ticket::Unattended => (UNATTENDED, 0),
            Ticket::Entry(number) => (ENTRY, number),
        };
        kind << 32 | u64::from(number)
    }

    /// What [`to_bits`](Ticket::to_bits) made the bits of.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Ticket {
        let number = bits as u32;
        match bits >> 32 {
            CALLER => Ticket::Caller(number),
            UNATTENDED => Ticket::Unattended,
            ENTRY => Ticket::Entry(number),
            kind => unreachable!("the engine gives back what it was given, not kind {kind}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_gives_every_ticket_back() {
        for number in [0, 1, u32::MAX] {
            for ticket in [Ticket::Caller(number), Ticket::Unattended, Ticket::Entry(number)] {
                assert_eq!(Ticket::from_bits(ticket.to_bits()), ticket);
            }
        }
    }
}

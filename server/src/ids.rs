//! Ids that are not like any other: what `now()` and `uuid()` give, and trace ids.
//!
//! A version 1 uuid is the time in 100 ns since 1582, then a clock sequence and a node number. Each
//! core has a random node number, with the multicast bit set as RFC 9562 asks, and never uses a
//! tick twice, so two cores cannot meet.

use std::cell::Cell;
use uuid::Uuid;

/// Ticks of 100 ns from 1582-10-15 to 1970-01-01.
const TICKS_TO_1970: i64 = 0x01B2_1DD2_1381_4000;

/// The ids of one core.
#[derive(Debug)]
pub(crate) struct Ids {
    last_tick: Cell<i64>,
    tail: [u8; 8],
    /// The time of the pass, in microseconds since 1970.
    pub(crate) now_us: Cell<i64>,
}

impl Ids {
    /// Ids of a core that nobody has had before.
    pub(crate) fn new() -> Ids {
        let random = Uuid::new_v4();
        let mut tail = [0; 8];
        tail.copy_from_slice(&random.as_bytes()[8..]);
        tail[0] = tail[0] & 0x3F | 0x80;
        tail[2] |= 1;
        Ids { last_tick: Cell::new(0), tail, now_us: Cell::new(0) }
    }

    /// A version 1 uuid of this pass.
    pub(crate) fn timeuuid(&self) -> [u8; 16] {
        let now = self.now_us.get() * 10 + TICKS_TO_1970;
        let tick = now.max(self.last_tick.get() + 1);
        self.last_tick.set(tick);
        let time = (tick as u64).to_be_bytes();
        let mut uuid = [0; 16];
        uuid[..4].copy_from_slice(&time[4..]);
        uuid[4..6].copy_from_slice(&time[2..4]);
        uuid[6..8].copy_from_slice(&time[..2]);
        uuid[6] = uuid[6] & 0x0F | 0x10;
        uuid[8..].copy_from_slice(&self.tail);
        uuid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeuuids_of_one_pass_differ_and_tell_the_time() {
        let ids = Ids::new();
        ids.now_us.set(1_700_000_000_000_000);
        let (a, b) = (Uuid::from_bytes(ids.timeuuid()), Uuid::from_bytes(ids.timeuuid()));
        assert_eq!(a.get_version_num(), 1);
        assert!(model::CqlType::Timeuuid.compare(a.as_bytes(), b.as_bytes()).is_lt());
        let time = a.get_timestamp().expect("version 1 has a time").to_unix();
        assert_eq!(time, (1_700_000_000, 0));
    }
}

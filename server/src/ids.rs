//! Ids that are not like any other: what `now()` and `uuid()` give, positions in lists, and trace ids.
//!
//! A version 1 uuid is the time in 100 ns since 1582, then a clock sequence and a node number. Each
//! core has a random node number, with the multicast bit set as RFC 9562 asks, and `now()` never gets a
//! tick of it twice, so two cores cannot meet.
//!
//! A position in a list has the same form. Its time is the timestamp that the server gave the statement, or would give
//! it (`docs/decisions/2026-11-22-timestamps.md`), and has a counter of its own: a position may equal an id of `now()`,
//! and the two are never compared.
//!
//! A statement that is bound beside its core ([`IdsBeside`]) has a node number of its own; its ticks and positions go
//! on from those of its core, and the core's go on after them. Those that the core gives meanwhile lie between them.

use std::cell::Cell;
use std::rc::Rc;

use cql::bind::UUID_EPOCH_TICKS;
use shard::clock::Clock;
use uuid::Uuid;

/// The ids of one core.
pub(crate) struct Ids {
    clock: Rc<Clock>,
    last_tick: Cell<i64>,
    /// The tick of the last position in a list.
    last_position: Cell<i64>,
    tail: [u8; 8],
}

impl Ids {
    /// Ids of a core that no core has had before.
    pub(crate) fn new(clock: Rc<Clock>) -> Ids {
        Ids { clock, last_tick: Cell::new(0), last_position: Cell::new(0), tail: random_tail() }
    }

    /// Ids for a statement that is bound on another thread.
    pub(crate) fn beside(&self) -> IdsBeside {
        let tick = self.next_tick();
        self.last_tick.set(tick);
        IdsBeside {
            next_tick: Cell::new(tick),
            own_us: self.clock.newest_timestamp_us(),
            last_position: self.last_position.clone(),
            tail: random_tail(),
        }
    }

    /// The next id of the core is later than all that were taken beside it.
    pub(crate) fn continue_after(&self, beside: &IdsBeside) {
        self.last_tick.set(self.last_tick.get().max(beside.next_tick.get()));
        self.last_position.set(self.last_position.get().max(beside.last_position.get()));
    }

    fn next_tick(&self) -> i64 {
        ticks_of(self.now_us()).max(self.last_tick.get() + 1)
    }

    /// The wall clock of this pass, in microseconds since 1970.
    pub(crate) fn now_us(&self) -> i64 {
        self.clock.wall_us()
    }
}

impl cql::bind::Ids for Ids {
    fn timeuuid(&self) -> [u8; 16] {
        let tick = self.next_tick();
        self.last_tick.set(tick);
        timeuuid_at(tick, self.tail).into_bytes()
    }

    fn list_position(&self, server_timestamp_us: Option<i64>) -> [u8; 16] {
        let us = server_timestamp_us.unwrap_or_else(|| self.clock.newest_timestamp_us());
        timeuuid_at(next_position(&self.last_position, us), self.tail).into_bytes()
    }

    fn uuid(&self) -> [u8; 16] {
        Uuid::new_v4().into_bytes()
    }
}

/// The ids of one statement that is bound beside its core.
pub(crate) struct IdsBeside {
    next_tick: Cell<i64>,
    /// A timestamp of the core, in microseconds: for positions in lists where the client sent the timestamp.
    own_us: i64,
    last_position: Cell<i64>,
    tail: [u8; 8],
}

impl cql::bind::Ids for IdsBeside {
    fn timeuuid(&self) -> [u8; 16] {
        let tick = self.next_tick.get();
        self.next_tick.set(tick + 1);
        timeuuid_at(tick, self.tail).into_bytes()
    }

    fn list_position(&self, server_timestamp_us: Option<i64>) -> [u8; 16] {
        let us = server_timestamp_us.unwrap_or(self.own_us);
        timeuuid_at(next_position(&self.last_position, us), self.tail).into_bytes()
    }

    fn uuid(&self) -> [u8; 16] {
        Uuid::new_v4().into_bytes()
    }
}

/// The tick of a position in a list at this timestamp, later than the last.
fn next_position(last: &Cell<i64>, us: i64) -> i64 {
    let tick = ticks_of(us).max(last.get() + 1);
    last.set(tick);
    tick
}

/// The ticks of 100 ns since 1582 of a time in microseconds since 1970.
fn ticks_of(us: i64) -> i64 {
    us.saturating_mul(10).saturating_add(UUID_EPOCH_TICKS)
}

/// A random clock sequence and node number.
fn random_tail() -> [u8; 8] {
    let random = Uuid::new_v4();
    let mut tail = [0; 8];
    tail.copy_from_slice(&random.as_bytes()[8..]);
    tail[0] = tail[0] & 0x3F | 0x80;
    tail[2] |= 1;
    tail
}

/// The version 1 uuid of a tick of 100 ns since 1582, with this clock sequence and node number.
pub(crate) fn timeuuid_at(tick: i64, tail: [u8; 8]) -> Uuid {
    let time = (tick as u64).to_be_bytes();
    let mut uuid = [0; 16];
    uuid[..4].copy_from_slice(&time[4..]);
    uuid[4..6].copy_from_slice(&time[2..4]);
    uuid[6..8].copy_from_slice(&time[..2]);
    uuid[6] = uuid[6] & 0x0F | 0x10;
    uuid[8..].copy_from_slice(&tail);
    Uuid::from_bytes(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeuuids_of_one_pass_differ_and_tell_the_time() {
        use cql::bind::Ids as _;
        let ids = Ids::new(Rc::new(Clock::new()));
        let (a, b) = (Uuid::from_bytes(ids.timeuuid()), Uuid::from_bytes(ids.timeuuid()));
        assert_eq!(a.get_version_num(), 1);
        assert!(model::CqlType::Timeuuid.compare(a.as_bytes(), b.as_bytes()).is_lt());
        let (seconds, _) = a.get_timestamp().expect("version 1 has a time").to_unix();
        assert_eq!(seconds as i64, ids.now_us() / 1_000_000);
    }

    /// Before: positions were of the wall clock: after a crash and a clock that was set back, what was appended to a
    /// list came before what was there.
    #[test]
    fn positions_in_lists_are_of_timestamps_and_not_of_the_wall_clock() {
        use cql::bind::Ids as _;
        let hour_us = 3_600_000_000;
        let clock = Rc::new(Clock::new());
        let ids = Ids::new(clock.clone());
        let given_us = clock.wall_us() + hour_us;
        clock.set_wall_us(given_us);
        let mut before = ids.list_position(Some(given_us));
        // The server has started again, and knows only which timestamps were given.
        let clock = Rc::new(Clock::new());
        clock.at_least(given_us);
        let ids = Ids::new(clock.clone());
        let beside = ids.beside();
        for next in [
            beside.list_position(None),
            beside.list_position(Some(clock.timestamp_us())),
            {
                ids.continue_after(&beside);
                ids.list_position(Some(given_us + 1))
            },
            ids.list_position(None),
            ids.list_position(Some(clock.timestamp_us())),
            ids.list_position(None),
        ] {
            assert!(model::CqlType::Timeuuid.compare(&before, &next).is_lt());
            before = next;
        }
        // `now()` is of the wall clock.
        let (seconds, _) =
            Uuid::from_bytes(ids.timeuuid()).get_timestamp().expect("it has a time").to_unix();
        assert_eq!(seconds as i64, clock.wall_us() / 1_000_000);
    }

    #[test]
    fn ids_of_the_core_come_behind_those_that_were_taken_beside_it() {
        use cql::bind::Ids as _;
        let ids = Ids::new(Rc::new(Clock::new()));
        let before = ids.timeuuid();
        let beside = ids.beside();
        let taken: Vec<[u8; 16]> = (0..100_000).map(|_| beside.timeuuid()).collect();
        ids.continue_after(&beside);
        let all: Vec<[u8; 16]> =
            [before].into_iter().chain(taken).chain([ids.timeuuid()]).collect();
        let ascend =
            |pair: &[[u8; 16]]| model::CqlType::Timeuuid.compare(&pair[0], &pair[1]).is_lt();
        assert!(all.windows(2).all(ascend));
    }
}

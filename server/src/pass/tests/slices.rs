//! What a pass does in its time, and what it leaves for the next one.

use super::*;
use crate::limits::{FRAMES_PER_CLOCK_READ, HANDSHAKE_TIMEOUT, SHORT_BODY_BYTES_MAX};

/// Requests that take long do not keep another connection waiting for all of them: a pass ends with its slice.
#[test]
fn a_pass_ends_with_its_slice() {
    let mut server = Server::start();
    let mut flood = Client::ready(&mut server, Version::V4, Compression::None);
    let mut other = Client::ready(&mut server, Version::V4, Compression::None);
    let count = 5 * FRAMES_PER_CLOCK_READ;
    (0..count).for_each(|stream| flood.query(stream as i16, SLOW));
    other.query(7, "now");
    server.pass.pass();
    let answered = flood.answers().len();
    assert!(answered <= FRAMES_PER_CLOCK_READ, "{answered} in one pass");
    server.pass.pass();
    assert_eq!(other.answers(), ["7 now"]);
    let answered = answered + flood.answers().len();
    assert!(answered <= 2 * FRAMES_PER_CLOCK_READ, "{answered} in two passes");
    server.run_until_idle();
    assert_eq!(answered + flood.answers().len(), count);
}

/// Before: the clock was looked at after eight requests, also when one alone takes as long as a pass.
#[test]
fn the_clock_is_looked_at_after_each_request_that_is_not_short() {
    let long_body = format!("{SLOW}{}", " ".repeat(SHORT_BODY_BYTES_MAX));
    for text in [LONG, &long_body] {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, Version::V4, Compression::None);
        (0..3).for_each(|stream| client.query(stream, text));
        for pass in 1..=3 {
            server.pass.pass();
            assert_eq!(client.answers().len(), 1, "in pass {pass}");
        }
    }
}

/// Before: all connections were looked at, and closed, in one step: 5,000 that send nothing took 50 ms.
#[test]
fn connections_are_closed_one_by_one_when_there_is_no_time() {
    let close: [fn(&mut Server); 3] = [
        |server| {
            let from = server.pass.walks.housekeeping.unwrap_or(0);
            server.pass.run_housekeeping(from, TimeSlice::over());
        },
        |server| server.pass.close_quiet(TimeSlice::over()),
        |server| server.pass.close_all(TimeSlice::over()),
    ];
    for (way, close) in close.into_iter().enumerate() {
        let mut server = Server::start();
        let clients: Vec<Client> = (0..3).map(|_| Client::connect(&server, Version::V4)).collect();
        server.run_until_idle();
        for id in server.pass.connections.ids() {
            let long_ago = Instant::now() - HANDSHAKE_TIMEOUT * 2;
            server.pass.connections.get_mut(id).unwrap().opened_at(long_ago);
        }
        for left in [2, 1, 0] {
            close(&mut server);
            assert_eq!(server.pass.service.open.get(), left, "way {way}");
            assert!(server.pass.walks.are_under_way(), "the core must not sleep on the others");
        }
        close(&mut server);
        assert!(!server.pass.walks.are_under_way(), "way {way}");
        drop(clients);
    }
}

/// Before: all that was late was ended in one step. What is left does not wait for the next tick.
#[test]
fn what_is_late_and_was_not_reached_is_ended_in_the_next_pass() {
    let mut server = Server::start();
    server.run_until_idle();
    let looked = server.pass.service.looked.get();
    server.pass.service.deadline.set(Some(Instant::now()));
    server.pass.service.is_late.set(true);
    server.pass.ticks.is_due.set(true);
    for passes in 1..=3 {
        assert!(server.pass.pass() && !server.pass.has_nothing_left());
        assert_eq!(server.pass.service.looked.get(), looked + passes);
    }
    server.pass.service.is_late.set(false);
    for _ in 0..3 {
        server.pass.pass();
    }
    assert_eq!(server.pass.service.looked.get(), looked + 4);
}

/// Before: it was looked for every half second.
#[test]
fn a_deadline_is_looked_at_when_it_has_come() {
    let mut server = Server::start();
    let began = Instant::now();
    server.pass.tick(began);
    let (looks, deadline) = (Duration::from_millis, began + Duration::from_millis(30));
    server.pass.service.deadline.set(Some(deadline));
    for (after, looked) in [(10, 0), (29, 0), (30, 1), (40, 2)] {
        server.pass.tick(began + looks(after));
        assert_eq!(server.pass.service.looked.get(), looked, "{after} ms");
    }
    server.pass.service.deadline.set(None);
    server.pass.tick(began + looks(50));
    assert_eq!(server.pass.service.looked.get(), 2, "nothing waits");
    server.pass.pass();
    assert!(!server.pass.ticks.waits.get());
    server.pass.service.deadline.set(Some(deadline));
    server.pass.pass();
    assert!(
        server.pass.ticks.waits.get() && server.pass.ticks.began.take(),
        "ticks come sooner now"
    );
}

/// What goes on where it stopped looks at each connection once.
#[test]
fn a_walk_over_connections_goes_on_where_it_stopped() {
    let (mut server, clients) = Server::with_three_unsent();
    let (mut seen, mut from) = (Vec::new(), Some(0));
    while let Some(slot) = from {
        from = server.pass.walk(slot, TimeSlice::over(), |_, id| {
            seen.push(id);
            true
        });
    }
    assert_eq!(seen, server.pass.connections.ids());
    assert_eq!(seen.len(), clients.len());
}

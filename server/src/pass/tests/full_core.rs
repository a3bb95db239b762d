//! A core whose memory for requests is taken: who waits, who is refused, and who goes on.

use super::*;
use crate::limits::{FRAME_TIMEOUT, FRAME_TIMEOUT_PRESSED, READ_BYTES_FULL};

#[test]
fn more_requests_of_one_client_than_memory_wait_in_its_socket() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    let text = "later ".repeat(200_000);
    for stream in 0..8 {
        client.query(stream, &text);
        pass_often(&mut server, &mut client);
    }
    assert!(client.answers().is_empty(), "none is refused");
    let mut answers = Vec::new();
    for _ in 0..8 {
        server.let_go();
        pass_often(&mut server, &mut client);
        answers.extend(client.answers());
    }
    assert_eq!(answers.len(), 8);
    assert!(answers.iter().all(|answer| answer.contains(" later")), "all are answered");
    client.query(9, "now");
    server.run_until_idle();
    assert_eq!(client.answers(), ["9 now"]);
}

#[test]
fn more_requests_of_many_clients_than_memory_are_overloaded() {
    let mut server = Server::start();
    let text = "later ".repeat(450_000);
    let mut client = || Client::ready(&mut server, Version::V4, Compression::None);
    let mut clients: Vec<Client> = (0..3).map(|_| client()).collect();
    for client in &mut clients {
        client.query(5, &text);
        pass_often(&mut server, client);
    }
    let answers: Vec<String> = clients.iter_mut().flat_map(|client| client.answers()).collect();
    assert_eq!(answers.len(), 1, "two of 2.7 MB fit a tenth of 64 MiB");
    assert!(answers[0].starts_with("5 Overloaded: Request not taken: 2 requests"), "{answers:?}");
    server.let_go();
    let answers: Vec<String> = clients.iter_mut().flat_map(|client| client.answers()).collect();
    assert_eq!(answers.len(), 2);
}

/// Before: half a frame took its part of the memory for requests for ever: enough of them, and no client was served.
#[test]
fn a_frame_that_does_not_come_whole_loses_its_place() {
    for timeout in [FRAME_TIMEOUT, FRAME_TIMEOUT_PRESSED] {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, Version::V4, Compression::None);
        let slow = frame(7, &"now".repeat(100_000));
        let (half, rest) = slow.split_at(slow.len() / 2);
        client.raw(half);
        server.run_until_idle();
        let taken = if timeout == FRAME_TIMEOUT_PRESSED { fill(&mut server) } else { 0 };
        let began = Instant::now();
        for (after, said) in [(Duration::ZERO, 0), (timeout / 2, 0), (timeout, 1)] {
            server.housekeep(began + after);
            server.run_until_idle();
            let answers = client.answers();
            assert_eq!(answers.len(), said, "{after:?}");
            let why = "7 Overloaded: Request not taken: its frame did not come whole within";
            assert!(answers.iter().all(|answer| answer.starts_with(why)), "{answers:?}");
        }
        empty(&mut server, taken);
        assert!(
            server.pass.load.partial(0, 0) && server.pass.load.admits(6 << 20),
            "it holds nothing"
        );
        client.raw(rest);
        client.query(8, "now again");
        server.run_until_idle();
        assert_eq!(client.answers(), ["8 now again"], "the connection stays in step");
        // Of this one it is not known whose it is.
        client.raw(&frame(9, "now")[..5]);
        server.run_until_idle();
        server.housekeep(began);
        server.housekeep(began + FRAME_TIMEOUT);
        assert_eq!(client.answers(), ["closed"]);
    }
}

#[test]
fn a_frame_that_comes_slowly_behind_others_has_its_own_time() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    let began = Instant::now();
    for turn in 0..4 {
        let (first, next) = (frame(1, "now"), frame(2, "now"));
        client.raw(&[&first[..], &next[..15]].concat());
        server.run_until_idle();
        server.housekeep(began + FRAME_TIMEOUT / 2 * turn);
        client.raw(&next[15..]);
        server.run_until_idle();
        assert_eq!(client.answers(), ["1 now", "2 now"]);
    }
}

/// Before: it was looked at again with an answer of its own only.
#[test]
fn a_client_that_others_held_back_goes_on_when_they_are_done() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    // Else the second request waits until the packet of the first is acknowledged, which takes longer than this test.
    client.socket.set_nodelay(true).unwrap();
    client.query(1, "later");
    server.run_until_idle();
    let taken = fill(&mut server);
    client.query(2, "now");
    server.run_until_idle();
    assert!(client.answers().is_empty(), "it waits for its answer, as the core has much to do");
    empty(&mut server, taken);
    server.housekeep(Instant::now());
    server.run_until_idle();
    assert_eq!(client.answers(), ["2 now"]);
}

/// Before: OPTIONS, by which pools ask whether a node lives, was refused, and so were the first questions of a
/// driver.
#[test]
fn a_driver_connects_to_a_core_that_is_full() {
    let mut server = Server::start();
    fill(&mut server);
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    client.send(1, &Request::Options);
    client.query(2, "now: system.local");
    client.query(3, "later");
    server.run_until_idle();
    assert_eq!(client.answers(), ["1 SUPPORTED", "2 now: system."], "the third is taken");
    client.send(4, &Request::Options);
    client.query(5, &"now".repeat(100_000));
    server.run_until_idle();
    assert_eq!(
        client.answers(),
        [""; 0],
        "it has a request in flight: its turn comes with the answer"
    );
    server.let_go();
    let answers = client.answers();
    assert_eq!(answers[..2], ["3 later", "4 SUPPORTED"]);
    assert!(answers[2].starts_with("5 Overloaded"), "a large one is refused: {answers:?}");
}

/// Before: OPTIONS and requests that are refused were answered however full the core was, up to 1 MiB for each client.
#[test]
fn while_a_core_is_full_a_client_takes_its_answers_before_it_asks_more() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    fill(&mut server);
    let large = frame(1, &"now".repeat(30_000));
    let mut options = Vec::new();
    Request::Options.put(Version::V4, 2, Flags(0), &mut options);
    client.raw(&[large, options.repeat(100)].concat());
    serve_unsent(&mut server);
    server.pass.flush(TimeSlice::begin());
    let first = client.answers();
    assert!(matches!(&first[..], [refused] if refused.starts_with("1 Overloaded")), "{first:?}");
    server.run_until_idle();
    assert_eq!(client.answers(), vec!["2 SUPPORTED"; 100], "it has taken them");
}

/// Before: each connection kept 256 KiB in each of two buffers, as long as it was sent anything now and then.
#[test]
fn what_connections_keep_for_later_has_a_limit() {
    const OTHERS_BYTES: usize = 1 << 20;
    for others_bytes in [0, OTHERS_BYTES] {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, Version::V5, Compression::None);
        server.pass.load.kept(0, others_bytes);
        for stream in 0..3 {
            client.query(stream, &format!("now{}", " ".repeat(100_000)));
            server.run_until_idle();
        }
        assert_eq!(client.answers().len(), 3);
        let id = server.pass.connections.ids()[0];
        let kept = if others_bytes == 0 { 190_000..400_000 } else { 0..10_000 };
        let bytes = server.pass.connections.get_mut(id).unwrap().spare_bytes();
        assert!(kept.contains(&bytes), "{bytes}");
        // The first look sees that something was sent since the last one.
        server.housekeep(Instant::now());
        server.housekeep(Instant::now());
        assert_eq!(server.pass.connections.get_mut(id).unwrap().spare_bytes(), 0);
        drop(client);
        server.run_until_idle();
        assert!(server.pass.load.kept(others_bytes, OTHERS_BYTES), "none is counted any more");
    }
}

/// Before: it was read to the brim, 64 KB of each client, however much the core held.
#[test]
fn of_a_client_of_a_full_core_a_little_is_read_at_a_time() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    fill_up(&mut server);
    let mut options = Vec::new();
    Request::Options.put(Version::V4, 2, Flags(0), &mut options);
    client.raw(&options.repeat(5000));
    serve_unsent(&mut server);
    let refusal = server.pass.load.refusal();
    let held = READ_BYTES_FULL - options.len();
    assert!(refusal.contains(&format!(" {held} bytes of requests have begun")), "{refusal}");
    let mut answered = 0;
    while answered < 5000 {
        server.pass.pass();
        answered += client.answers().len();
    }
}

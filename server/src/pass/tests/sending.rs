//! How answers are sent: short and long ones, and to clients that are slow to read them.

use cql::frame::header::HEADER_BYTES;
use cql::limits::FRAME_CHUNK_BYTES;

use super::*;
use crate::limits::STALLED_TIMEOUT;

/// A commit answers many clients at once: 64 sends made a step of some milliseconds.
#[test]
fn answers_that_the_time_of_a_pass_does_not_reach_are_sent_in_the_next_ones() {
    let (mut server, mut clients) = Server::with_three_unsent();
    let mut counts = Vec::new();
    for _ in 0..3 {
        assert!(!server.pass.has_nothing_left(), "the core must not sleep on answers");
        assert!(server.pass.flush(TimeSlice::over()), "one is sent, whatever the time");
        let answered = clients.iter_mut().map(|client| client.answers().len());
        counts.push((answered.sum::<usize>(), server.answers.unsent_bytes() > 0));
    }
    assert_eq!(counts, [(1, true), (1, true), (1, false)], "what waits is counted");
    assert!(!server.pass.flush(TimeSlice::over()) && server.pass.has_nothing_left());
}

/// Housekeeping took the answer's wait for its turn for a client that does not read: one that had been idle for half a
/// minute was dropped.
#[test]
fn an_idle_client_whose_answer_waits_for_its_turn_is_not_dropped() {
    let (mut server, mut clients) = Server::with_three_unsent();
    assert!(server.pass.flush(TimeSlice::over()));
    let much_later = server.pass.clock.monotonic() + STALLED_TIMEOUT + Duration::from_secs(1);
    server.housekeep(much_later);
    server.run_until_idle();
    let answers: Vec<_> = clients.iter_mut().flat_map(|client| client.answers()).collect();
    assert_eq!(answers, ["1 later"; 3]);
}

#[test]
fn a_client_that_does_not_read_is_not_read_and_loses_nothing() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    let text = "now ".repeat(10_000);
    let count = 600;
    for stream in 0..count {
        client.query(stream, &text);
        server.pass.pass();
    }
    for _ in 0..300 {
        client.flush();
        server.pass.pass();
    }
    let id = server.pass.connections.ids()[0];
    assert!(!client.writer.unsent().is_empty(), "TCP holds the client back");
    assert!(!server.pass.connections.get_mut(id).unwrap().is_quiet());
    let mut answers = Vec::new();
    while answers.len() < count as usize {
        answers.extend(client.answers());
        client.flush();
        server.pass.pass();
    }
    let expected: Vec<_> = (0..count).map(|stream| format!("{stream} now now now ")).collect();
    assert_eq!(answers, expected);
}

/// Before: a client that took a few bytes now and then was never dropped, whatever others had to wait for.
#[test]
fn a_client_that_takes_next_to_nothing_of_its_answers_is_dropped() {
    for takes_all in [false, true] {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, Version::V4, Compression::None);
        let id = server.pass.connections.ids()[0];
        os::set_receive_buffer(&client.socket, 16 << 10).unwrap();
        // TCP holds the client back.
        while client.writer.unsent().is_empty() {
            (0..20).for_each(|stream| client.query(stream, &"now ".repeat(10_000)));
            pass_often(&mut server, &mut client);
        }
        let (now, before) = (server.pass.clock.monotonic(), server.answers.unsent_bytes());
        client.socket.set_nonblocking(false).unwrap();
        let is_enough = |server: &mut Server| match takes_all {
            true => !server.pass.connections.get_mut(id).unwrap().has_unsent(),
            false => server.answers.unsent_bytes() != before,
        };
        while !is_enough(&mut server) {
            client.socket.read_exact(&mut [0; 16 << 10]).unwrap();
            // No event tells of little space, but housekeeping tries.
            server.housekeep(now);
            server.run_until_idle();
        }
        server.housekeep(now + STALLED_TIMEOUT + Duration::from_millis(1));
        assert_eq!(server.pass.service.open.get(), usize::from(takes_all));
    }
}

/// A frame with a body of so many bytes, of which a test's client reads the beginning.
fn long_answer(version: Version, body_bytes: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    Envelope::new(version, 1).put_set_keyspace("long", &mut frame);
    frame.resize(HEADER_BYTES + body_bytes, b'x');
    frame[5..HEADER_BYTES].copy_from_slice(&(body_bytes as u32).to_be_bytes());
    frame
}

/// Before: a connection that had sent a part of an answer had the first turn in the next pass as well.
#[test]
fn who_was_sent_a_chunk_of_a_long_answer_waits_for_those_that_had_no_turn() {
    let mut server = Server::start();
    let mut clients: Vec<Client> =
        (0..2).map(|_| Client::ready(&mut server, Version::V4, Compression::None)).collect();
    clients.iter_mut().for_each(|client| client.query(1, "later"));
    server.run_until_idle();
    let held = server.pass.service.held.take();
    let [(long, _), (other, frame)] = &held[..] else { panic!("two wait") };
    let replies = &server.pass.service.replies;
    drop(replies.hand_over(*long, long_answer(Version::V4, 32 << 20), None));
    replies.push(*other, frame);
    assert!(server.pass.deliver());
    assert!(server.pass.flush(TimeSlice::over()), "a chunk of the long one");
    assert!(server.pass.connections.get_mut(*long).unwrap().can_send());
    assert!(server.pass.flush(TimeSlice::over()), "the other one");
    assert!(!server.pass.connections.get_mut(*other).unwrap().has_unsent());
}

/// Before: it was copied, cut into segments and sent in one step: 64 MiB took tens of milliseconds.
#[test]
fn a_long_answer_is_sent_in_chunks_and_in_order() {
    for (version, compression) in every_connection() {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, version, compression);
        let id = server.pass.connections.ids()[0];
        client.query(1, "later");
        server.run_until_idle();
        server.pass.service.held.take();
        let frame = long_answer(version, 8 << 20);
        drop(server.pass.service.replies.hand_over(id, frame, None));
        let (mut passes, mut answers) = (0, Vec::new());
        let before = client.received_bytes;
        while answers.len() < 2 {
            server.pass.pass();
            answers.extend(client.answers());
            passes += 1;
            // All passes together: what one has sent may arrive in a later one.
            let received = client.received_bytes - before;
            assert!(
                received <= (passes + 1) * FRAME_CHUNK_BYTES,
                "{version} {compression:?}: {received} bytes in {passes} passes"
            );
            if passes == 1 {
                client.query(2, "now");
            }
        }
        assert!(passes >= 8, "{version} {compression:?}: {passes} passes");
        assert_eq!(answers, ["1 long", "2 now"]);
        server.run_until_idle();
        assert_eq!(server.answers.unsent_bytes(), 0);
    }
}

//! What goes over the wire: versions, compression, order, and bytes that mean nothing.

use super::*;

#[test]
fn answers_come_at_once_or_later_in_every_framing() {
    for (version, compression) in every_connection() {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, version, compression);
        let long = "now ".repeat(100_000);
        client.query(1, "later one");
        client.query(2, "now");
        client.query(3, &long);
        client.query(4, "later two");
        for _ in 0..20 {
            server.run_until_idle();
            client.flush();
        }
        assert_eq!(client.answers(), ["2 now", "3 now now now "], "{version} {compression:?}");
        server.let_go();
        assert_eq!(client.answers(), ["1 later one", "4 later two"]);
        assert_eq!(server.pass.load.requests(), 0);
        drop(client);
        server.run_until_idle();
        assert_eq!(server.pass.service.open.get(), 0, "the client is gone");
    }
}

/// What was negotiated is what travels: text that shrinks is small on the wire, both ways.
#[test]
fn frames_travel_compressed_as_negotiated() {
    for (version, compression) in every_connection() {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, version, compression);
        let (sent, received) = (client.sent_bytes, client.received_bytes);
        let text = "now ".repeat(15_000);
        client.query(1, &text);
        for _ in 0..20 {
            server.run_until_idle();
            client.flush();
        }
        assert_eq!(client.answers(), ["1 now now now "], "{version} {compression:?}");
        let (sent, received) = (client.sent_bytes - sent, client.received_bytes - received);
        for (bytes, what) in [(sent, "request"), (received, "answer")] {
            let is_small = bytes < text.len() / 8;
            let told = format!("{version} {compression:?}: {what} of {bytes} bytes");
            assert_eq!(is_small, compression != Compression::None, "{told}");
            assert!(is_small || bytes > text.len(), "{told}");
        }
    }
}

#[test]
fn an_unknown_version_is_refused_in_ours_and_the_connection_ends() {
    let mut server = Server::start();
    let mut client = Client::connect(&server, Version::V5);
    client.raw(&[0x42, 0, 0, 9, 5, 0, 0, 0, 0]);
    server.run_until_idle();
    let text = "9 Protocol: Invalid or unsupported protocol version (66); \
                supported versions are (3/v3, 4/v4, 5/v5)";
    assert_eq!(client.answers(), [text, "closed"]);
}

#[test]
fn nothing_is_taken_out_of_order() {
    let mut server = Server::start();
    let mut client = Client::connect(&server, Version::V4);
    client.query(1, "now");
    server.run_until_idle();
    let text = "1 Protocol: Unexpected message QUERY, expecting STARTUP or OPTIONS";
    assert_eq!(client.answers(), [text]);
    client.send(2, &Request::Options);
    client.startup(Compression::None);
    client.startup(Compression::None);
    server.run_until_idle();
    let text = "0 Protocol: Unexpected message STARTUP, expecting no second handshake";
    assert_eq!(client.answers(), ["2 SUPPORTED", "0 READY", text]);
    client.raw(&[4, 0, 0xFF, 0xFF, 5, 0, 0, 0, 0]);
    server.run_until_idle();
    assert_eq!(client.answers(), ["-1 Protocol: Negative stream ids are for events"]);
}

#[test]
fn frames_are_small_until_the_session_began() {
    let mut server = Server::start();
    let mut client = Client::connect(&server, Version::V4);
    let large = "now ".repeat(25_000);
    client.query(1, &large);
    client.startup(Compression::None);
    client.query(2, &large);
    server.run_until_idle();
    let answers = client.answers();
    assert!(answers[0].starts_with("1 Invalid: Request is too big: length 1000"), "{answers:?}");
    assert!(answers[0].ends_with("exceeds maximum allowed length 65536."), "{answers:?}");
    assert_eq!(answers[1..], ["0 READY", "2 now now now "]);
}

#[test]
fn a_malformed_body_costs_only_its_request() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    client.raw(&[4, 0, 0, 1, 7, 0, 0, 0, 4, 0, 0, 0, 9]);
    client.query(2, "now");
    server.run_until_idle();
    let text = "1 Protocol: Not enough bytes to read an UTF8 serialized string \
                preceded by its 4 bytes length";
    assert_eq!(client.answers(), [text, "2 now"]);
}

#[test]
fn a_damaged_segment_ends_the_connection_and_no_other() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V5, Compression::None);
    let mut other = Client::ready(&mut server, Version::V5, Compression::None);
    client.socket.write_all(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    other.query(1, "now");
    server.run_until_idle();
    let answers = client.answers();
    assert!(answers[0].starts_with("0 Protocol: Invalid segment header"), "{answers:?}");
    assert_eq!(answers[1], "closed");
    assert_eq!(other.answers(), ["1 now"]);
}

#[test]
fn a_burst_is_taken_in_turns_and_in_order() {
    for compression in [Compression::None, Compression::Lz4] {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, Version::V5, compression);
        let count = 3 * crate::limits::FRAMES_PER_STEP as i16;
        let parameters = Parameters::plain(Consistency::One, Version::V5);
        for stream in 0..count {
            let request = Request::Query(Query { text: "now", parameters });
            client.writer.frame(|out| request.put(Version::V5, stream, Flags(0), out));
        }
        client.writer.seal();
        client.flush();
        server.run_until_idle();
        let expected: Vec<_> = (0..count).map(|stream| format!("{stream} now")).collect();
        assert_eq!(client.answers(), expected);
    }
}

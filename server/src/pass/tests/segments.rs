//! Segments of v5 that become long, or come to a full core: they wait for space, are cut, or are given up.

use super::*;
use crate::limits::{FRAME_TIMEOUT, PARTIAL_BYTES_FREE, READ_BYTES_FULL};

/// Frames of v5 that ask so often for OPTIONS, in one segment that is compressed.
fn compressed_options(count: i16) -> Vec<u8> {
    let mut writer = FrameWriter::new();
    writer.establish(Version::V5, Compression::Lz4);
    for stream in 0..count {
        writer.frame(|out| Request::Options.put(Version::V5, stream, Flags(0), out));
    }
    writer.seal();
    writer.unsent().to_vec()
}

/// Before: it stayed until the connection's next turn, and clients of one core held one such body each.
#[test]
fn what_a_long_body_was_expanded_to_is_given_back_in_its_pass() {
    for (version, compression) in every_connection() {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, version, compression);
        client.query(1, &format!("now{}", " ".repeat(1 << 20)));
        client.query(2, "now again");
        let id = server.pass.connections.ids()[0];
        let mut answers = Vec::new();
        while answers.len() < 2 {
            server.pass.pass();
            client.flush();
            answers.extend(client.answers());
            if !answers.is_empty() {
                let bytes = server.pass.connections.get_mut(id).unwrap().reader_bytes();
                assert!(bytes <= 16 << 10, "{version} {compression:?}: {bytes}");
            }
        }
    }
}

/// Before: each client's segment was decompressed at once, 250 times as long as it came, and counted nowhere until its
/// last frame was taken.
#[test]
fn a_segment_that_becomes_long_waits_for_space_and_is_counted() {
    const COUNT: i16 = 1000;
    const OTHERS_BYTES: usize = 1 << 20;
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V5, Compression::Lz4);
    let taken = fill(&mut server);
    server.pass.load.expanded(0, OTHERS_BYTES);
    client.query(COUNT, &format!("now{}", " ".repeat(2000)));
    server.run_until_idle();
    assert_eq!(client.answers().len(), 1, "what stays short is taken");
    let wire = compressed_options(COUNT);
    client.socket.write_all(&wire).unwrap();
    for _ in 0..3 {
        // It ends: a core does not look again and again whether there is space.
        server.run_until_idle();
        assert!(server.pass.has_nothing_left());
        server.housekeep(Instant::now());
    }
    assert_eq!(client.answers(), [""; 0]);
    let held = format!("{} bytes of requests have begun", wire.len());
    assert!(server.pass.load.refusal().contains(&held), "{}", server.pass.load.refusal());
    server.pass.load.expanded(OTHERS_BYTES, 0);
    server.pass.pass();
    serve_unsent(&mut server);
    let held = format!("{} bytes of requests have begun", 9 * usize::from(COUNT as u16));
    assert!(server.pass.load.refusal().contains(&held), "{}", server.pass.load.refusal());
    empty(&mut server, taken);
    server.pass.flush(TimeSlice::begin());
    server.run_until_idle();
    assert_eq!(client.answers().len(), usize::from(COUNT as u16));
    assert!(server.pass.load.refusal().contains("shard, 0 bytes of requests have begun"));
}

/// A text that LZ4 makes little shorter.
fn noise(mut state: u32, length: usize) -> String {
    let letters = (0..length).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(33 + (state >> 24) as u8 % 90)
    });
    letters.collect()
}

/// The frames of a segment of more than is read at once of a client of a full core: 20 of some 350 bytes.
fn frames_of_a_long_segment() -> Vec<Vec<u8>> {
    (0..20)
        .map(|stream| frame_of(Version::V5, stream, &format!("now {}", noise(stream as u32, 300))))
        .collect()
}

/// Before: what was not read of such a segment was taken for what its client had not sent yet: it was given up, and if
/// it was compressed its connection with it.
#[test]
fn a_long_segment_of_a_client_of_a_full_core_does_not_end_its_connection() {
    for compression in [Compression::None, Compression::Lz4] {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, Version::V5, compression);
        fill_up(&mut server);
        let frames = frames_of_a_long_segment();
        client.raw(&frames.concat());
        assert!(client.sent_bytes > READ_BYTES_FULL + 1000, "it is cut: {}", client.sent_bytes);
        server.run_until_idle();
        let answers = client.answers();
        assert_eq!(answers.len(), frames.len(), "{compression:?}: {answers:?}");
        for (answer, stream) in answers.iter().zip(0..) {
            let is_served = answer.starts_with(&format!("{stream} now"));
            let is_refused = answer.starts_with(&format!("{stream} Overloaded"));
            assert!(is_served || is_refused && compression == Compression::None, "{answer}");
        }
        client.query(300, "now again");
        server.run_until_idle();
        assert_eq!(client.answers(), ["300 now again"], "{compression:?}: it stays in step");
    }
}

/// Where there is no space for what others have decompressed, little is held of such a segment until there is.
#[test]
fn the_rest_of_a_long_segment_waits_for_space() {
    const OTHERS_BYTES: usize = 1 << 20;
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V5, Compression::Lz4);
    fill_up(&mut server);
    server.pass.load.expanded(0, OTHERS_BYTES);
    let frames = frames_of_a_long_segment();
    client.raw(&frames.concat());
    for _ in 0..3 {
        // It ends: a core does not look again and again whether there is space.
        server.run_until_idle();
        assert!(server.pass.has_nothing_left());
        server.housekeep(Instant::now() + FRAME_TIMEOUT);
    }
    assert_eq!(client.answers(), [""; 0]);
    let held = format!(" {READ_BYTES_FULL} bytes of requests have begun");
    assert!(server.pass.load.refusal().contains(&held), "{}", server.pass.load.refusal());
    server.pass.load.expanded(OTHERS_BYTES, 0);
    server.run_until_idle();
    assert_eq!(client.answers().len(), frames.len());
    assert!(server.pass.load.refusal().contains(" 0 bytes of requests have begun"));
}

/// What its client has not sent is not waited for: there is no memory for it.
#[test]
fn a_part_of_a_compressed_segment_ends_its_connection_while_the_core_is_full() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V5, Compression::Lz4);
    fill_up(&mut server);
    let mut writer = FrameWriter::new();
    writer.establish(Version::V5, Compression::Lz4);
    for frame in frames_of_a_long_segment() {
        writer.frame(|out| out.extend_from_slice(&frame));
    }
    writer.seal();
    let wire = writer.unsent();
    client.socket.write_all(&wire[..wire.len() - 1]).unwrap();
    server.run_until_idle();
    let answers = client.answers();
    assert!(
        matches!(&answers[..], [said, closed] if said.starts_with("0 Overloaded") && closed == "closed"),
        "{answers:?}"
    );
    assert!(server.pass.load.refusal().contains(" 0 bytes of requests have begun"));
}

/// Before: all that had come of such a segment was answered in one step: 1.5 MB of ERRORs for 64 KB of short frames,
/// also to a client that does not read.
#[test]
fn frames_of_a_segment_that_is_given_up_are_refused_in_their_turn() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V5, Compression::None);
    // Else the last bytes wait until those before them are acknowledged.
    client.socket.set_nodelay(true).unwrap();
    fill_up(&mut server);
    let options: Vec<Vec<u8>> = (0..200)
        .map(|stream| {
            let mut bytes = Vec::new();
            Request::Options.put(Version::V5, stream, Flags(0), &mut bytes);
            bytes
        })
        .collect();
    let wire = segments(&options);
    assert!(wire.len() > PARTIAL_BYTES_FREE);
    let (most, rest) = wire.split_at(wire.len() - 2);
    client.socket.write_all(most).unwrap();
    serve_unsent(&mut server);
    server.pass.flush(TimeSlice::begin());
    let first = client.answers();
    assert!(matches!(&first[..], [one] if one.starts_with("0 Overloaded")), "{first:?}");
    server.run_until_idle();
    let others = client.answers();
    assert_eq!(others.len(), 199);
    for (answer, stream) in others.iter().zip(1..) {
        assert!(answer.starts_with(&format!("{stream} Overloaded")), "{answer}");
    }
    client.socket.write_all(rest).unwrap();
    client.query(300, "now again");
    server.run_until_idle();
    assert_eq!(client.answers(), ["300 now again"], "the connection stays in step");
}

/// Before: the ERROR was on stream 0 also while a request with that number was under way, so its client heard that
/// nothing was done; and it was said again with each step until the connection was closed.
#[test]
fn a_connection_that_is_given_up_says_so_once_and_not_for_a_request_under_way() {
    for (stream, said) in [(0, 0), (1, 1)] {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, Version::V5, Compression::None);
        // Else single bytes wait until what was sent before them is acknowledged.
        client.socket.set_nodelay(true).unwrap();
        client.query(stream, "later");
        server.run_until_idle();
        // A part of a frame, and behind it the beginning of a segment of whole frames: these are not told apart.
        let long = segments(&[frame_of(Version::V5, 7, &"now".repeat(100_000))]);
        let behind = segments(&[frame_of(Version::V5, 8, "now")]);
        const FIRST_SEGMENT_BYTES: usize = 6 + 131_071 + 4;
        for piece in long[..FIRST_SEGMENT_BYTES].chunks(16 << 10).chain([&behind[..20]]) {
            client.socket.write_all(piece).unwrap();
            server.run_until_idle();
        }
        assert_eq!(client.answers(), [""; 0]);
        fill_up(&mut server);
        for byte in &behind[20..23] {
            client.socket.write_all(&[*byte]).unwrap();
            server.run_until_idle();
        }
        let answers = client.answers();
        assert_eq!(answers.len(), said, "{answers:?}");
        assert!(answers.iter().all(|answer| answer.starts_with("0 Overloaded")), "{answers:?}");
        let held = "0 bytes of requests have begun";
        assert!(server.pass.load.refusal().contains(held), "{}", server.pass.load.refusal());
        server.let_go();
        assert_eq!(client.answers(), [format!("{stream} later"), "closed".to_owned()]);
    }
}

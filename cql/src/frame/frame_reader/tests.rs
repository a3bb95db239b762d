//! The reader gives the same frames however the bytes are cut, and stays in step after bad ones.

use proptest::prelude::*;

use super::super::frame_writer::FrameWriter;
use super::super::header::Opcode;
use super::*;
use crate::limits::FRAME_BODY_BYTES_MAX;

/// What arrived: frames by stream and body, oversized ones by stream and declared size.
#[derive(Debug, PartialEq, Eq, Clone)]
enum Got {
    Frame(i16, Vec<u8>),
    TooLarge(i16, u64),
    PassedOver(i16),
    Unreadable(i16),
}

/// Feeds `wire` in pieces of `cut` bytes.
fn feed(reader: &mut FrameReader, wire: &[u8], cut: usize) -> Result<Vec<Got>, Broken> {
    let (mut got, mut start) = (Vec::new(), 0);
    for end in (0..wire.len()).step_by(cut).map(|at| (at + cut).min(wire.len())) {
        loop {
            let step = reader.next(&wire[start..end])?;
            start += step.used;
            got.push(match step.arrival {
                Arrival::Starved => break,
                Arrival::Frame(header, body) => Got::Frame(header.stream, body.to_vec()),
                Arrival::TooLarge(header, declared) => Got::TooLarge(header.stream, declared),
                Arrival::PassedOver(header) => Got::PassedOver(header.stream),
                Arrival::Unreadable(header, _) => Got::Unreadable(header.stream),
                Arrival::HeldBack => unreachable!("anything may be expanded"),
            });
        }
    }
    assert_eq!(start, wire.len(), "nothing is left over");
    Ok(got)
}

fn writer(version: Version, compression: Compression) -> FrameWriter {
    let mut writer = FrameWriter::new();
    writer.establish(version, compression);
    writer
}

fn put(writer: &mut FrameWriter, version: Version, stream: i16, body: &[u8]) {
    writer.frame(|out| {
        let body_bytes = body.len() as u32;
        let header = Header { version, flags: Flags(0), stream, opcode: Opcode::Query, body_bytes };
        header.put(Direction::Request, out);
        out.extend_from_slice(body);
    });
}

fn every_connection() -> Vec<(Version, Compression)> {
    use Compression::*;
    use Version::*;
    vec![(V3, None), (V3, Lz4), (V4, None), (V4, Lz4), (V4, Snappy), (V5, None), (V5, Lz4)]
}

#[test]
fn an_oversized_frame_is_passed_over_and_the_next_is_read() {
    for (version, compression) in every_connection() {
        let mut writer = writer(version, compression);
        put(&mut writer, version, 1, b"before");
        put(&mut writer, version, 2, &vec![7; 400_000]);
        put(&mut writer, version, 3, b"after");
        writer.seal();
        for cut in [1000, 7777, 1 << 20] {
            let mut reader = FrameReader::new(Direction::Request, 200_000);
            reader.establish(version, compression);
            let got = feed(&mut reader, writer.unsent(), cut).unwrap();
            let expected = [
                Got::Frame(1, b"before".to_vec()),
                Got::TooLarge(2, 400_000),
                Got::Frame(3, b"after".to_vec()),
            ];
            assert_eq!(got, expected, "{version} {compression:?} {cut}");
            assert!(reader.memory_bytes() <= 400_000, "{}", reader.memory_bytes());
        }
    }
}

/// The streams that are told when the reader gives up after `at` bytes and then gets the rest; `None` if it could not
/// give up.
fn given_up_at(wire: &[u8], compression: Compression, at: usize) -> Option<Vec<Got>> {
    let mut reader = FrameReader::new(Direction::Request, FRAME_BODY_BYTES_MAX);
    reader.establish(Version::V5, compression);
    let (mut got, mut used) = (Vec::new(), 0);
    let mut take = |reader: &mut FrameReader, used: &mut usize, end: usize| loop {
        let step = reader.next(&wire[*used..end]).expect("in step");
        *used += step.used;
        got.push(match step.arrival {
            Arrival::Frame(header, _) => Got::Frame(header.stream, Vec::new()),
            Arrival::PassedOver(header) => Got::PassedOver(header.stream),
            Arrival::Starved => return got.clone(),
            other => panic!("{other:?}"),
        });
    };
    take(&mut reader, &mut used, at);
    let (first, dropped) = match reader.pass_over(&wire[used..at])? {
        PassedOver::Frame(header, dropped) => (Some(header), dropped),
        PassedOver::Segment(dropped) => (None, dropped),
    };
    used += dropped;
    take(&mut reader, &mut used, at);
    let kept = at - used + reader.memory_bytes();
    assert!(kept <= HEADER_BYTES, "{kept} bytes are kept of {at}");
    let mut got = take(&mut reader, &mut used, wire.len());
    assert_eq!(used, wire.len(), "nothing is left over");
    got.extend(first.map(|header| Got::PassedOver(header.stream)));
    Some(got)
}

/// Before: a segment of up to 131 KB that was not whole could not be given up: it was held for ever.
#[test]
fn segments_are_given_up_before_they_are_whole() {
    const WHOLE: i16 = 9;
    for compression in [Compression::None, Compression::Lz4] {
        for bodies in [&[100_000, 20, 0, 30_000][..], &[400_000], &[131_062]] {
            let mut writer = writer(Version::V5, compression);
            for (stream, bytes) in bodies.iter().enumerate() {
                let body: Vec<u8> =
                    (0..*bytes).map(|n: u32| (n.wrapping_mul(n) >> 7) as u8).collect();
                put(&mut writer, Version::V5, stream as i16, &body);
            }
            writer.seal();
            let first = writer.unsent().len();
            put(&mut writer, Version::V5, WHOLE, b"behind");
            writer.seal();
            let wire = writer.unsent();
            let mut given_up = 0;
            for at in (20..first).step_by(997).chain([first - 5, first - 4, first - 1]) {
                let Some(got) = given_up_at(wire, compression, at) else {
                    assert_eq!(compression, Compression::Lz4, "{at}");
                    continue;
                };
                given_up += 1;
                for stream in 0..bodies.len() as i16 {
                    let is_passed =
                        got.iter().filter(|one| **one == Got::PassedOver(stream)).count();
                    let is_taken = got.contains(&Got::Frame(stream, Vec::new()));
                    assert!(is_passed == 1 && !is_taken, "{bodies:?} {at}: {got:?}");
                }
                assert!(got.contains(&Got::Frame(WHOLE, Vec::new())), "{at}");
            }
            assert!(given_up > 0 || compression == Compression::Lz4);
        }
    }
}

/// Before: the header was read over the end of the payload, into the checksum: a wrong length was skipped.
#[test]
fn a_part_without_a_whole_header_is_not_given_up() {
    const HEADS: [[u8; 6]; 3] =
        [[6, 0, 0, 44, 232, 155], [7, 0, 0, 52, 136, 243], [8, 0, 0, 161, 121, 16]];
    for head in HEADS {
        let payload = &[5, 0, 0, 1, Opcode::Query as u8, 0, 0, 0][..usize::from(head[0])];
        let wire = [&head[..], payload, &[1, 2, 3]].concat();
        for come in 0..=wire.len() {
            let mut reader = FrameReader::new(Direction::Request, FRAME_BODY_BYTES_MAX);
            reader.establish(Version::V5, Compression::None);
            assert_eq!(reader.next(&wire[..come]).unwrap().arrival, Arrival::Starved);
            assert_eq!(reader.pass_over(&wire[..come]), None, "{come} bytes of {wire:?}");
        }
    }
}

/// Before: what lies behind the payload was taken for the rest of its last header, and a stream and an opcode of these
/// bytes were told.
#[test]
fn a_segment_that_is_given_up_and_ends_within_a_header_is_out_of_step() {
    const HEAD_OF_17_BYTES: [u8; 6] = [17, 0, 2, 222, 107, 119];
    let options = [5, 0, 0, 1, Opcode::Options as u8, 0, 0, 0, 0];
    let wire =
        [&HEAD_OF_17_BYTES[..], &options, &[5, 0, 0, 3, 0xEE, 0, 0, 0], &[1, 2, 3, 4]].concat();
    let mut reader = FrameReader::new(Direction::Request, FRAME_BODY_BYTES_MAX);
    reader.establish(Version::V5, Compression::None);
    assert_eq!(reader.pass_over(&wire[..17]), Some(PassedOver::Segment(6)));
    let step = reader.next(&wire[6..]).unwrap();
    let Arrival::PassedOver(header) = step.arrival else { panic!("{step:?}") };
    assert_eq!(header.stream, 1);
    let rest = &wire[6 + step.used..];
    let broken = reader.next(rest).unwrap_err();
    assert!(matches!(broken, Broken::Segment(_)), "{broken:?}");
}

#[test]
fn a_declared_size_is_believed_before_any_byte_of_it_comes() {
    let mut reader = FrameReader::new(Direction::Request, 65_536);
    let header = Header {
        version: Version::V4,
        flags: Flags(0),
        stream: 9,
        opcode: Opcode::Query,
        body_bytes: 0x7FFF_FFFF,
    };
    let mut wire = Vec::new();
    header.put(Direction::Request, &mut wire);
    let step = reader.next(&wire).unwrap();
    assert_eq!(step.arrival, Arrival::TooLarge(header, 0x7FFF_FFFF));
    assert_eq!(reader.next(&[0; 4096]).unwrap(), Step { used: 4096, arrival: Arrival::Starved });
    assert_eq!(reader.memory_bytes(), 0);
}

#[test]
fn a_bomb_is_refused_by_what_it_declares() {
    for compression in [Compression::Lz4, Compression::Snappy] {
        let mut writer = writer(Version::V4, compression);
        put(&mut writer, Version::V4, 5, &vec![0; 1 << 20]);
        let mut reader = FrameReader::new(Direction::Request, 500_000);
        reader.establish(Version::V4, compression);
        let got = feed(&mut reader, writer.unsent(), 1 << 20).unwrap();
        assert_eq!(got, [Got::TooLarge(5, 1 << 20)]);
        assert_eq!(reader.memory_bytes(), 0);
    }
}

/// Before: what a frame lay in was freed when the next one was asked for, which may be long after: a thousand clients
/// that each send one body of 16 MiB in 64 KB held all of them.
#[test]
fn what_a_frame_lay_in_is_given_back_when_it_was_served() {
    for (version, compression) in every_connection() {
        let mut writer = writer(version, compression);
        put(&mut writer, version, 5, &vec![0; 1 << 20]);
        writer.seal();
        let mut reader = FrameReader::new(Direction::Request, FRAME_BODY_BYTES_MAX);
        reader.establish(version, compression);
        let step = reader.next(writer.unsent()).unwrap();
        assert!(matches!(step.arrival, Arrival::Frame(_, body) if body.len() == 1 << 20));
        reader.release();
        assert_eq!(reader.held_bytes(), 0);
        let memory_bytes = reader.memory_bytes();
        assert!(
            memory_bytes <= FRAME_BUFFER_BYTES_KEPT,
            "{version} {compression:?}: {memory_bytes}"
        );
    }
}

/// Before: whole frames that were decompressed and not taken yet were counted nowhere.
#[test]
fn frames_of_a_segment_that_is_decompressed_are_held_until_the_last_is_taken() {
    let mut writer = writer(Version::V5, Compression::Lz4);
    (0..1000).for_each(|stream| put(&mut writer, Version::V5, stream, b""));
    writer.seal();
    let wire = writer.unsent();
    let mut reader = FrameReader::new(Direction::Request, FRAME_BODY_BYTES_MAX);
    reader.establish(Version::V5, Compression::Lz4);
    let whole = 1000 * HEADER_BYTES;
    let held = reader.next_within(wire, whole - 1).unwrap();
    assert_eq!(held, Step { used: 0, arrival: Arrival::HeldBack });
    assert_eq!((reader.held_bytes(), reader.memory_bytes()), (0, 0), "nothing is made of it");
    let used = reader.next_within(wire, whole).unwrap().used;
    assert_eq!(used, wire.len());
    for _ in 1..1000 {
        reader.release();
        assert_eq!((reader.held_bytes(), reader.expanded_bytes()), (whole, whole));
        // It is open: how much may be expanded does not matter.
        assert!(matches!(reader.next_within(&[], 0).unwrap().arrival, Arrival::Frame(..)));
    }
    assert_eq!((reader.held_bytes(), reader.expanded_bytes()), (0, 0));
}

#[test]
fn a_frame_whose_first_part_was_taken_is_taken_whole() {
    let mut writer = writer(Version::V5, Compression::Lz4);
    put(&mut writer, Version::V5, 5, &vec![0; 300_000]);
    writer.seal();
    let wire = writer.unsent();
    let mut reader = FrameReader::new(Direction::Request, FRAME_BODY_BYTES_MAX);
    reader.establish(Version::V5, Compression::Lz4);
    assert_eq!(reader.next_within(wire, 4096).unwrap().arrival, Arrival::HeldBack);
    let (first, _) = wire.split_at(wire.len() / 2);
    let Step { used, arrival } = reader.next_within(first, usize::MAX).unwrap();
    assert_eq!(arrival, Arrival::Starved);
    assert!(reader.held_bytes() > 100_000 && reader.expanded_bytes() == 0);
    let step = reader.next_within(&wire[used..], 0).unwrap();
    assert!(matches!(step.arrival, Arrival::Frame(_, body) if body.len() == 300_000));
}

#[test]
fn a_body_that_does_not_decompress_leaves_the_connection_in_step() {
    let mut wire = Vec::new();
    let flags = Flags::COMPRESSED;
    let version = Version::V4;
    let bad = Header { version, flags, stream: 1, opcode: Opcode::Query, body_bytes: 5 };
    bad.put(Direction::Request, &mut wire);
    wire.extend_from_slice(&[0, 0, 0, 9, 0xFF]);
    let good = Header { flags: Flags(0), stream: 2, body_bytes: 0, ..bad };
    good.put(Direction::Request, &mut wire);
    let mut reader = FrameReader::new(Direction::Request, FRAME_BODY_BYTES_MAX);
    reader.establish(version, Compression::Lz4);
    let got = feed(&mut reader, &wire, 3).unwrap();
    assert_eq!(got, [Got::Unreadable(1), Got::Frame(2, vec![])]);
}

#[test]
fn the_version_of_a_connection_does_not_change() {
    let mut reader = FrameReader::new(Direction::Request, FRAME_BODY_BYTES_MAX);
    reader.establish(Version::V4, Compression::None);
    let options_of_v3 = [3, 0, 0, 1, 5, 0, 0, 0, 0];
    let Err(Broken::Header(bad)) = reader.next(&options_of_v3) else { panic!("accepted") };
    assert_eq!(
        bad.reason.to_string(),
        "Invalid message version. Got v3 but previous messages on this connection had version v4"
    );
}

proptest! {
    #[test]
    fn frames_arrive_however_the_bytes_are_cut(
        sizes in prop::collection::vec(prop_oneof![0usize..2000, 0usize..300_000], 1..6),
        cut in 1usize..200_000,
        connection in prop::sample::select(every_connection()),
    ) {
        let (version, compression) = connection;
        let mut writer = writer(version, compression);
        let mut expected = Vec::new();
        for (i, size) in sizes.into_iter().enumerate() {
            let body: Vec<u8> = (0..size).map(|b| (b * b / 7) as u8).collect();
            put(&mut writer, version, i as i16, &body);
            expected.push(Got::Frame(i as i16, body));
        }
        writer.seal();
        let mut reader = FrameReader::new(Direction::Request, FRAME_BODY_BYTES_MAX);
        reader.establish(version, compression);
        prop_assert_eq!(feed(&mut reader, writer.unsent(), cut).unwrap(), expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        connection in prop::sample::select(every_connection()),
        first in 0u8..8,
    ) {
        let mut wire = bytes;
        if let Some(byte) = wire.first_mut() {
            *byte = first;
        }
        let mut reader = FrameReader::new(Direction::Request, 1 << 16);
        reader.establish(connection.0, connection.1);
        let mut start = 0;
        while let Ok(step) = reader.next(&wire[start..]) {
            start += step.used;
            if step.arrival == Arrival::Starved {
                break;
            }
        }
        prop_assert!(reader.memory_bytes() <= 1 << 17);
    }

    #[test]
    fn damaged_segments_never_panic(
        sizes in prop::collection::vec(0usize..3000, 1..5),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 0..3),
        lz4 in any::<bool>(),
    ) {
        let compression = if lz4 { Compression::Lz4 } else { Compression::None };
        let mut writer = writer(Version::V5, compression);
        for size in &sizes {
            put(&mut writer, Version::V5, 1, &vec![9; *size]);
        }
        writer.seal();
        let mut wire = writer.unsent().to_vec();
        for (at, bit) in &flips {
            let at = at.index(wire.len());
            wire[at] ^= 1 << bit;
        }
        let mut reader = FrameReader::new(Direction::Request, 1 << 16);
        reader.establish(Version::V5, compression);
        let mut start = 0;
        while let Ok(step) = reader.next(&wire[start..]) {
            start += step.used;
            match step.arrival {
                Arrival::Starved => break,
                Arrival::Frame(_, body) => prop_assert!(body.iter().all(|b| *b == 9)),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}

#[test]
fn a_compressed_segment_says_how_much_it_lacks() {
    const HEADER_BYTES: usize = 8;
    for (compression, body) in [
        (Compression::Lz4, vec![7; 1000]),
        (Compression::Lz4, vec![7]),
        (Compression::None, vec![7; 1000]),
    ] {
        let mut writer = writer(Version::V5, compression);
        put(&mut writer, Version::V5, 1, &body);
        writer.seal();
        let wire = writer.unsent();
        let mut reader = FrameReader::new(Direction::Request, FRAME_BODY_BYTES_MAX);
        reader.establish(Version::V5, compression);
        let is_compressed = compression == Compression::Lz4 && body.len() == 1000;
        for come in 0..=wire.len() {
            let lacks = is_compressed && (HEADER_BYTES..wire.len()).contains(&come);
            let rest = lacks.then_some(wire.len() - come);
            assert_eq!(reader.compressed_rest(&wire[..come]), rest, "{come} of {}", wire.len());
        }
        assert_eq!(feed(&mut reader, wire, 1).unwrap(), [Got::Frame(1, body)]);
    }
}

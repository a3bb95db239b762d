//! What is made ready when, and what is kept for the next answers.

use super::*;
use crate::frame::frame_reader::{Arrival, FrameReader};
use crate::frame::header::Direction;

#[test]
fn an_answer_may_come_later() {
    let mut writer = FrameWriter::new();
    writer.establish(Version::V4, Compression::Lz4);
    writer.frame(|_| {});
    assert_eq!(writer.waiting_bytes(), 0);
}

#[test]
fn what_was_sent_is_forgotten() {
    let mut writer = FrameWriter::new();
    writer.frame(|out| out.extend_from_slice(b"abcdef"));
    writer.sent(2);
    assert_eq!(writer.unsent(), b"cdef");
    writer.sent(2);
    writer.frame(|out| out.extend_from_slice(b"gh"));
    assert_eq!(writer.unsent(), b"efgh");
    assert_eq!(writer.waiting_bytes(), 4);
    writer.sent(4);
    assert_eq!(writer.waiting_bytes(), 0);
    writer.trim();
    assert_eq!(writer.wire.capacity(), 0);
}

/// Before: a connection kept 512 KiB as long as it was sent anything now and then, and nothing counted that.
#[test]
fn memory_for_the_next_answers_can_be_given_back() {
    for (version, compression) in [
        (Version::V4, Compression::None),
        (Version::V4, Compression::Lz4),
        (Version::V5, Compression::None),
        (Version::V5, Compression::Lz4),
    ] {
        let mut writer = FrameWriter::new();
        writer.establish(version, compression);
        let frame = [&[4, 0, 0, 1, 8, 0, 3, 0, 0][..], &[7; 3 << 16]].concat();
        writer.frame(|out| out.extend_from_slice(&frame));
        writer.seal();
        writer.give_back(1024);
        let unsent = writer.unsent().len();
        assert!(unsent > 700 && unsent == writer.waiting_bytes(), "nothing is lost");
        writer.sent(unsent);
        assert!(writer.memory_bytes() <= 3 * KEPT_BYTES_MAX);
        writer.give_back(1024);
        let memory_bytes = writer.memory_bytes();
        assert!(memory_bytes <= 3 * 2 * 1024, "{version} {compression:?}: {memory_bytes}");
    }
}

/// Before: a frame of 64 MiB was copied, and cut into segments, in one step; pages of a MiB that a client did not
/// read stood in one buffer.
#[test]
fn a_long_frame_is_made_ready_in_chunks_and_others_wait_behind_it() {
    let every = [
        (Version::V4, Compression::None),
        (Version::V4, Compression::Lz4),
        (Version::V5, Compression::None),
        (Version::V5, Compression::Lz4),
    ];
    let frame = |version: Version, stream: u8, body_bytes: usize| {
        let first = if version == Version::V5 { 0x85 } else { 0x84 };
        let header = [&[first, 0, 0, stream, 8][..], &(body_bytes as u32).to_be_bytes()];
        [&header.concat()[..], &vec![stream; body_bytes]].concat()
    };
    let mut bodies = vec![1000, 5 << 20, 2000, 300_000, 3 << 20, 10, COMPRESS_BYTES_MAX];
    bodies.extend([900 << 10; 20]);
    for (version, compression) in every {
        let mut writer = FrameWriter::new();
        writer.establish(version, compression);
        for (stream, body_bytes) in (1..).zip(bodies.iter().copied()) {
            let frame = frame(version, stream, body_bytes);
            match body_bytes > 100_000 {
                true => writer.whole_frame(frame.into()),
                false => writer.frame(|out| out.extend_from_slice(&frame)),
            }
        }
        let mut reader = FrameReader::new(Direction::Response, 16 << 20);
        reader.establish(version, compression);
        let (mut input, mut read) = (Vec::new(), Vec::new());
        writer.seal();
        while writer.waiting_bytes() > 0 {
            let unsent = writer.unsent();
            // A body that may be compressed is no longer than two chunks.
            let bytes_max = FRAME_CHUNK_BYTES + COMPRESS_BYTES_MAX + (4 << 10);
            assert!(unsent.len() < bytes_max, "{} bytes at once", unsent.len());
            input.extend_from_slice(unsent);
            writer.sent(unsent.len());
            writer.seal();
        }
        let is_compressed = input.len() < bodies.iter().sum::<usize>() / 20;
        assert_eq!(is_compressed, (version, compression) == (Version::V5, Compression::Lz4));
        let mut used = 0;
        loop {
            let step = reader.next(&input[used..]).unwrap();
            used += step.used;
            let Arrival::Frame(header, body) = step.arrival else { break };
            assert!(body.iter().all(|byte| i16::from(*byte) == header.stream));
            read.push((header.stream, body.len()));
        }
        let expected: Vec<_> = (1..).zip(bodies.iter().copied()).collect();
        assert_eq!(read, expected, "{version} {compression:?}");
        assert_eq!(used, input.len());
        assert!(writer.memory_bytes() < 4 * KEPT_BYTES_MAX);
    }
}

/// Before: all answers that a client had not read stood in one buffer, of which half was moved in one step.
#[test]
fn of_many_short_frames_few_are_ready_at_once() {
    for version in [Version::V4, Version::V5] {
        let mut writer = FrameWriter::new();
        writer.establish(version, Compression::None);
        let frame = [&[0x84, 0, 0, 1, 8, 0, 3, 0, 0][..], &[7; 3 << 16]].concat();
        for _ in 0..100 {
            writer.frame(|out| out.extend_from_slice(&frame));
            writer.seal();
        }
        let mut sent = 0;
        while writer.waiting_bytes() > 0 {
            let unsent = writer.unsent().len();
            assert!(unsent <= READY_BYTES_MAX + frame.len() + 1000, "{unsent} bytes");
            writer.sent(unsent);
            writer.seal();
            sent += unsent;
        }
        assert!(sent >= 100 * frame.len(), "{sent} bytes");
    }
}

/// Before: what was asked before STARTUP, much of it and not read, was answered in the form that STARTUP chose.
#[test]
fn what_waits_when_the_session_begins_is_sent_as_it_came() {
    let mut writer = FrameWriter::new();
    let frame = [&[0x85, 0, 0, 1, 6, 0, 3, 0, 0][..], &[7; 3 << 16]].concat();
    for _ in 0..20 {
        writer.frame(|out| out.extend_from_slice(&frame));
    }
    writer.establish(Version::V5, Compression::Lz4);
    writer.seal();
    assert!(writer.unsent() == frame.repeat(20), "whole frames, outside of segments");
    assert_eq!(writer.waiting_bytes(), writer.unsent().len());
}

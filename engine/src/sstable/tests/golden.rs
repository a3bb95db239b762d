//! The bytes of a file, as `FORMAT.md` shows them: a change of the format shows here first.
//!
//! A small world is written, its file is dumped line by line with what each part is, and the dump must be the one
//! between two marks of `FORMAT.md`; a filter in pieces has a dump of its own. Only the writer's bytes are compared:
//! that they are read again is tested elsewhere (`model_test.rs`).
//!
//! `MESSINA_BLESS=1` writes the dump into `FORMAT.md`.

use std::fmt::Write;

use super::super::footer::{FOOTER_BYTES, Section};
use super::*;

const START: &str = "<!-- worked example: written by the golden test -->\n```text\n";
const END: &str = "```\n<!-- end of the worked example -->\n";
const PIECES_START: &str = "<!-- a filter in pieces: written by the golden test -->\n```text\n";
const PIECES_END: &str = "```\n<!-- end of the filter in pieces -->\n";

fn world() -> World {
    let mut world = World::new();
    let deletion = Deletion { timestamp: 3, local_s: 4 };
    let part = Part {
        static_row: Some(row(1, b"s")),
        rows: [(b"@r1".to_vec(), row(2, b"v1")), (b"@r2".to_vec(), row(2, b"v2"))].into(),
        ranges: vec![(b"@r2".to_vec(), b"@r2\xFF".to_vec(), deletion)],
        ..Part::default()
    };
    world.insert((Token::of_key(b"a"), b"a".to_vec()), part);
    let part = Part { deletion: Some(deletion), ..Part::default() };
    world.insert((Token::of_key(b"b"), b"b".to_vec()), part);
    world
}

/// Lines of up to sixteen bytes, with what they are.
fn lines(out: &mut String, bytes: &[u8], at: usize, what: &str) {
    for (i, line) in bytes.chunks(16).enumerate() {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let note = if i == 0 { format!("# {what}") } else { String::new() };
        let text = format!("{:04x}: {:<47}  {note}", at + 16 * i, hex.join(" "));
        writeln!(out, "{}", text.trim_end()).unwrap();
    }
}

fn frame(out: &mut String, file: &[u8], at: u64, bytes: usize, what: &str) -> Vec<u8> {
    let (from, to) = (at as usize, at as usize + bytes);
    lines(out, &file[from..from + 8], from, &format!("{what}: checksum"));
    lines(out, &file[from + 8..from + 18], from + 8, "stored, raw, kind, codec");
    file[from + 18..to].to_vec()
}

async fn dump(file: &[u8], table: &Sstable) -> String {
    let mut out = String::new();
    let (offset, bytes) = table.directory.frame(0);
    let raw = frame(&mut out, file, offset, bytes, "data block 0");
    let slots = Slots::open(raw.clone()).unwrap();
    let mut at = offset as usize + 18;
    for index in 0..slots.count() {
        let kind = ["partition", "continuation", "row", "bound"];
        let kind = kind[usize::from(slots.item(index)[0] & 7) - 1];
        lines(&mut out, slots.item(index), at, kind);
        at += slots.item(index).len();
    }
    lines(&mut out, &raw[at - offset as usize - 18..], at, "offsets of entries, trailer");
    let footer = table.footer();
    for (section, what) in [
        (footer.directory, "directory"),
        (footer.filter, "filter"),
        (footer.wide, "wide table"),
        (footer.statistics, "statistics"),
    ] {
        let raw = frame(&mut out, file, section.offset, section.bytes as usize, what);
        lines(&mut out, &raw, section.offset as usize + 18, "payload");
    }
    let from = file.len() - FOOTER_BYTES;
    writeln!(out, "....: zeros up to the footer").unwrap();
    let fields = [
        (8, "magic"),
        (16, "version, needs, offers, zero"),
        (16, "sstable"),
        (16, "table"),
        (16, "bytes of data, blocks"),
        (16, "digest of the data, of the sections"),
        (16, "index: offset, bytes"),
        (12, "directory: offset, bytes"),
        (12, "filter"),
        (12, "wide table"),
        (12, "statistics"),
    ];
    let mut at = from;
    for (bytes, what) in fields {
        lines(&mut out, &file[at..at + bytes], at, what);
        at += bytes;
    }
    writeln!(out, "....: zeros").unwrap();
    lines(&mut out, &file[file.len() - 8..], file.len() - 8, "checksum");
    out
}

/// The filter of five partitions, in pieces of three tokens.
async fn pieces(sim: &SimDisk, disk: &Disk) -> String {
    let part = || Part { static_row: Some(row(1, b"s")), ..Part::default() };
    let world = (1..=5i64).map(|token| ((Token(token), vec![token as u8]), part())).collect();
    let known = written(disk, &world, config(4096, Codec::None)).await.unwrap();
    let file = sim.bytes(&RelPath::root().join(&file_name(ID))).unwrap();
    let table = open(disk, known).await.unwrap();
    let mut out = String::new();
    let pieces = table.filter_pieces().expect("more than three tokens");
    for number in 0..2 {
        let (offset, bytes) = pieces.frame(number);
        let raw = frame(&mut out, &file, offset, bytes, "piece");
        lines(&mut out, &raw, offset as usize + 18, "payload");
    }
    let Section { offset, bytes } = table.footer().filter;
    let raw = frame(&mut out, &file, offset, bytes as usize, "filter");
    lines(&mut out, &raw, offset as usize + 18, "payload");
    let from = file.len() - FOOTER_BYTES;
    writeln!(out, "....: up to the footer").unwrap();
    lines(&mut out, &file[from..from + 8], from, "magic");
    lines(&mut out, &file[from + 8..from + 24], from + 8, "version, needs, offers, zero");
    out
}

#[test]
fn the_bytes_are_those_of_the_specification() {
    let [given, pieces] = run(async {
        let (sim, disk) = sim();
        let pieces = pieces(&sim, &disk).await;
        let (sim, disk) = super::sim();
        let known = written(&disk, &world(), config(4096, Codec::None)).await.unwrap();
        let bytes = sim.bytes(&RelPath::root().join(&file_name(ID))).unwrap();
        [dump(&bytes, &open(&disk, known).await.unwrap()).await, pieces]
    });
    let path = format!("{}/src/sstable/FORMAT.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut blessed = text.clone();
    for (start, end, given) in [(START, END, given), (PIECES_START, PIECES_END, pieces)] {
        let (before, rest) = blessed.split_once(start).expect("the example begins");
        let (specified, after) = rest.split_once(end).expect("the example ends");
        let bless = std::env::var_os("MESSINA_BLESS").is_some();
        assert!(bless || given == specified, "{given}");
        blessed = format!("{before}{start}{given}{end}{after}");
    }
    if blessed != text {
        std::fs::write(&path, blessed).unwrap();
    }
}

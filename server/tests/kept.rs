//! Old data directories open: each kept one is unpacked, served by this binary, and answers as it
//! did when it was written.
//!
//! `testdata/kept/README.md` tells what they hold and how one is added when a release is made.
//! `MESSINA_BLESS=1` writes the answers that were given into the files.
#![expect(clippy::unwrap_used, reason = "a failed check is what a test is for")]

#[path = "kept/pack.rs"]
mod pack;
mod rig;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use cql::frame::client::{Answer, Reply, Rows};
use cql::frame::header::Header;
use rig::{Client, Server, data_dir};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/kept").join(name)
}

/// Starts the server on an unpacked copy and compares all answers with the recorded ones.
fn opens_and_answers(name: &str, shards: usize) {
    let folder = data_dir();
    pack::unpack(&fs::read(testdata(&format!("{name}.pack"))).unwrap(), folder.path());
    let file = testdata(&format!("{name}.txt"));
    let recorded = fs::read_to_string(&file).unwrap();
    // Once as it was written, once as the start has left it.
    for _ in 0..2 {
        let server = Server::start_with_shards(folder.path(), shards);
        let given = answers(&mut Client::ready(&server), &recorded);
        assert_eq!(server.stop(), Some(0));
        if std::env::var_os("MESSINA_BLESS").is_some() {
            fs::write(&file, &given).unwrap();
        } else {
            compare(name, &recorded, &given);
        }
    }
}

/// The file again, with the answers that are given now: a statement is a line that is neither
/// indented nor empty nor a comment, its answer the indented lines after it.
fn answers(client: &mut Client, recorded: &str) -> String {
    let mut out = String::new();
    for line in recorded.lines().filter(|line| !line.starts_with(' ')) {
        let _ = writeln!(out, "{line}");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        for row in client.answer(line, read).expect("the connection is closed") {
            for part in row.lines() {
                let _ = writeln!(out, "    {part}");
            }
        }
    }
    out
}

/// A line for each row, or what else was answered.
fn read(header: &Header, body: &[u8]) -> Vec<String> {
    match Answer::decode(header, body).unwrap().reply {
        Reply::Rows(rows) => read_rows(&rows),
        Reply::Error { code, text, .. } => vec![format!("{code:#06x} {text}")],
        other => panic!("not an answer to a question: {other:?}"),
    }
}

fn read_rows(rows: &Rows<'_>) -> Vec<String> {
    let columns: Vec<_> = rows.metadata.columns().collect();
    let cells: Vec<_> = rows.cells().map(Result::unwrap).collect();
    let row = |cells: &[Option<&[u8]>]| {
        let shown = cells.iter().zip(&columns);
        let shown: Vec<_> = shown
            .filter_map(|(cell, (name, ty))| Some(format!("{name}={}", show((*cell)?, ty))))
            .collect();
        shown.join(" ")
    };
    cells.chunks(columns.len().max(1)).map(row).collect()
}

/// A text as it is, an int as a number, anything else in hexadecimal.
fn show(cell: &[u8], ty: &[u8]) -> String {
    match (ty, cell) {
        ([0, 0x01 | 0x0D, ..], _) => String::from_utf8_lossy(cell).into_owned(),
        ([0, 0x09, ..], &[a, b, c, d]) => i32::from_be_bytes([a, b, c, d]).to_string(),
        _ => cell.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}")),
    }
}

fn compare(name: &str, recorded: &str, given: &str) {
    let mut statement = "";
    for (line, now) in recorded.lines().zip(given.lines().chain(std::iter::repeat(""))) {
        if !line.starts_with(' ') {
            statement = line;
        }
        assert_eq!(line, now, "{name}: {statement}");
    }
    assert_eq!(recorded.lines().count(), given.lines().count(), "{name}: more is answered");
}

#[test]
fn a_directory_of_ef9011a_that_was_stopped_opens() {
    opens_and_answers("ef9011a_stopped", 2);
}

#[test]
fn a_directory_of_ef9011a_that_was_killed_opens() {
    opens_and_answers("ef9011a_killed", 2);
}

#[test]
fn a_directory_of_ef9011a_is_dealt_to_other_shards() {
    opens_and_answers("ef9011a_killed", 3);
    opens_and_answers("ef9011a_stopped", 1);
}

#[test]
fn a_pack_gives_back_what_went_in() {
    let (from, to) = (data_dir(), data_dir());
    fs::create_dir(from.path().join("sub")).unwrap();
    let mut sparse = vec![0; 3 * 4096 + 5];
    sparse[5000] = 7;
    fs::write(from.path().join("sub/sparse"), &sparse).unwrap();
    fs::write(from.path().join("empty"), b"").unwrap();
    let packed = pack::pack(from.path());
    pack::unpack(&packed, to.path());
    assert_eq!(fs::read(to.path().join("sub/sparse")).unwrap(), sparse);
    assert_eq!(fs::read(to.path().join("empty")).unwrap(), b"");
    assert_eq!(pack::pack(to.path()), packed);
}

/// Packs the directory `MESSINA_PACK_FROM` into the file `MESSINA_PACK_TO`.
#[test]
#[ignore = "a tool: packs a directory to be kept"]
fn pack_a_directory() {
    let [from, to] =
        ["MESSINA_PACK_FROM", "MESSINA_PACK_TO"].map(|name| std::env::var(name).unwrap());
    fs::write(to, pack::pack(Path::new(&from))).unwrap();
}

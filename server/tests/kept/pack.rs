//! A data directory as one small file, for a repository.
//!
//! ```text
//! pack := zstd(file*)
//! file := path_bytes:u32 path size:u64 bytes[size]      little-endian, sorted by path
//! ```
//!
//! The zeros of a log's segment cost nothing in the pack, and are holes in what is unpacked.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How well it is compressed: it is written once.
const ZSTD_LEVEL: i32 = 19;
const HOLE_BYTES: usize = 4096;
static ZEROS: [u8; HOLE_BYTES] = [0; HOLE_BYTES];

/// All files under `dir` as a pack.
pub(super) fn pack(dir: &Path) -> Vec<u8> {
    let mut paths = Vec::new();
    list(dir, &mut paths);
    paths.sort();
    let mut plain = Vec::new();
    for path in paths {
        let name = path.strip_prefix(dir).unwrap().to_str().unwrap();
        let bytes = fs::read(&path).unwrap();
        plain.extend_from_slice(&(name.len() as u32).to_le_bytes());
        plain.extend_from_slice(name.as_bytes());
        plain.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        plain.extend_from_slice(&bytes);
    }
    zstd::encode_all(plain.as_slice(), ZSTD_LEVEL).unwrap()
}

/// Writes the files of a pack under `dir`.
pub(super) fn unpack(pack: &[u8], dir: &Path) {
    let plain = zstd::decode_all(pack).unwrap();
    let mut rest = plain.as_slice();
    while !rest.is_empty() {
        let name_bytes = u32::from_le_bytes(*take(&mut rest, 4).as_array().unwrap());
        let name = std::str::from_utf8(take(&mut rest, name_bytes as usize)).unwrap();
        let size = u64::from_le_bytes(*take(&mut rest, 8).as_array().unwrap());
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_sparse(&path, take(&mut rest, size as usize));
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(count);
    *rest = left;
    taken
}

fn write_sparse(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (index, chunk) in bytes.chunks(HOLE_BYTES).enumerate() {
        if *chunk != ZEROS[..chunk.len()] {
            file.seek(SeekFrom::Start((index * HOLE_BYTES) as u64)).unwrap();
            file.write_all(chunk).unwrap();
        }
    }
}

fn list(dir: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { list(&path, paths) } else { paths.push(path) }
    }
}

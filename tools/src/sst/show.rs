//! A file's statistics and parts as text.
//!
//! `statistics` is what the file says of itself, `regions` its parts, `blocks` a line for each data block.
//!
//! Invariants
//! 1. Only what is known after opening a file is shown: no data block is read.
//! 2. A name and its value are one line. Keys and clusterings are in hexadecimal, and long ones are cut.
//!
//! Not here: rows (`sst/dump.rs`), checking every byte and the sub-commands (`sst.rs`), the form of a file
//! (`engine/src/sstable/FORMAT.md`).

use std::fmt::Write;
use std::path::Path;

use engine::sstable::Sstable;
use model::types::hex;

/// A longer key is shown by its beginning.
const KEY_BYTES_SHOWN_MAX: usize = 64;

/// What the file says of itself.
pub(super) fn statistics(path: &Path, open: &Sstable) -> String {
    let (known, all) = (open.known(), open.statistics());
    let mut text = format!("SSTable: {}\n", path.display());
    let mut line = |name: &str, value: String| {
        writeln!(text, "{name}: {value}").expect("a string takes all that is written");
    };
    line("Table", known.table.to_string());
    line("Bytes", known.proof.file_bytes.to_string());
    line("Bytes before compression", all.raw_bytes.to_string());
    let stored = open.regions().first().map_or(0, |data| data.bytes);
    line("Compression ratio", format!("{:.3}", stored as f64 / all.raw_bytes.max(1) as f64));
    line("Partitions", all.partitions.to_string());
    line("Rows", all.rows.to_string());
    line("Static rows", all.statics.to_string());
    line("Cells", all.cells.to_string());
    line("Tombstones", all.tombstones.to_string());
    line("Partition tombstones", all.partition_deletions.to_string());
    line("First token", all.tokens.first.0.to_string());
    line("Last token", all.tokens.last.0.to_string());
    line("Minimum timestamp", all.oldest_timestamp.to_string());
    line("Maximum timestamp", all.newest_timestamp.to_string());
    let second = |at_s: u32| match at_s {
        u32::MAX => "never".to_owned(),
        at_s => format!("{at_s} s"),
    };
    if all.made_s > 0 {
        line("Made at", second(all.made_s));
    }
    line("First death", second(all.first_death_s));
    line("All dead from", second(all.last_death_s));
    line("First clustering", shown(&all.first_clustering));
    line("Last clustering", shown(&all.last_clustering));
    for (bytes, key) in &all.largest {
        line("Largest partition", format!("{bytes} bytes, key {}", shown(key)));
    }
    for row in &all.large_rows {
        line(
            "Large row",
            format!(
                "key {}, clustering {}",
                shown(&row.key),
                row.clustering.as_deref().map_or_else(|| "static".to_owned(), shown)
            ),
        );
    }
    for (at_s, count) in &all.deaths {
        line("Deaths", format!("{count} at {at_s} s"));
    }
    text
}

/// Where the parts of the file are, and what of it stays in memory.
pub(super) fn regions(path: &Path, open: &Sstable) -> String {
    let known = open.known();
    let mut text = format!("{}: table {}\n", path.display(), known.table);
    for region in open.regions() {
        writeln!(text, "{:>14}  {:>12}  {}", region.offset, region.bytes, region.name)
            .expect("a string takes all that is written");
    }
    let blocks = open.blocks();
    writeln!(
        text,
        "{} data blocks, {} bytes in memory while it is open",
        blocks.len(),
        open.memory_bytes()
    )
    .expect("a string takes all that is written");
    text
}

/// A line for each data block.
pub(super) fn blocks(open: &Sstable) -> String {
    let mut text = String::new();
    for (number, block) in open.blocks().enumerate() {
        let continues = if block.continues { "  begins inside a partition" } else { "" };
        writeln!(text, "block {number}: {} bytes at {}{continues}", block.bytes, block.offset)
            .expect("a string takes all that is written");
    }
    text
}

fn shown(bytes: &[u8]) -> String {
    match bytes.get(..KEY_BYTES_SHOWN_MAX) {
        Some(part) if part.len() < bytes.len() => {
            format!("{}.. of {} bytes", hex(part), bytes.len())
        }
        _ => hex(bytes),
    }
}

//! What a file is like: what lets a read or a compaction leave it out.
//!
//! ```text
//! statistics := field*            field := tag:u8 length:varint value[length]
//! ```
//!
//! A reader skips tags it does not know, and takes the cautious value for a tag that is missing, so
//! later versions may say more. Integers are little-endian, of the width their field has here.

#[cfg(test)]
mod tests;

use model::bytes::{Cursor, put_bytes, put_varint};
use model::cell::{Deletion, Life};
use model::row::RowRef;
use model::{Token, TokenRange};

use super::large::{LargeRow, is_large};

/// How many of the largest partitions are named.
const LARGEST_MAX: usize = 8;
/// Points of the histogram of tombstones.
const AGES_MAX: usize = 32;

/// The statistics of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Number of partitions in the file.
    pub partitions: u64,
    /// Rows, static ones apart.
    pub rows: u64,
    /// Cells, dead ones included.
    pub cells: u64,
    /// Tombstones of every kind, expiring cells apart.
    pub tombstones: u64,
    /// Partitions with a static row.
    pub statics: u64,
    /// Partitions with a partition tombstone.
    pub partition_deletions: u64,
    /// The smallest and the largest token.
    pub tokens: TokenRange,
    /// Of anything in the file, tombstones included. Microseconds.
    pub oldest_timestamp: i64,
    /// Of anything in the file, tombstones included. Microseconds.
    pub newest_timestamp: i64,
    /// Before this second nothing here was deleted or expires; `u32::MAX` if nothing ever.
    pub first_death_s: u32,
    /// From this second on everything here is dead or a tombstone; `u32::MAX` if something lives on.
    pub last_death_s: u32,
    /// The smallest place of a row or bound.
    pub first_clustering: Vec<u8>,
    /// The largest clustering key of the file, encoded.
    pub last_clustering: Vec<u8>,
    /// Bytes of data before compression.
    pub raw_bytes: u64,
    /// Bytes and keys of the largest partitions, largest first.
    pub largest: Vec<(u64, Vec<u8>)>,
    /// When how many cells die or died: seconds and counts, ascending, neighbours joined.
    pub deaths: Vec<(u32, u64)>,
    /// Every row that is large by itself. A file of an older version names none.
    pub large_rows: Vec<LargeRow>,
    /// If the file goes on with a partition that another fragment of its run began: its number in the run, from 1 on. 0
    /// if it does not, as in a file of an older version.
    pub goes_on: u64,
    /// When the file was made, in seconds since 1970. 0 if that is not known, as in a file of an older version: it is
    /// as old as can be.
    pub made_s: u32,
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics {
            partitions: 0,
            rows: 0,
            cells: 0,
            tombstones: 0,
            statics: 0,
            partition_deletions: 0,
            tokens: TokenRange::ALL,
            oldest_timestamp: i64::MIN,
            newest_timestamp: i64::MAX,
            first_death_s: 0,
            last_death_s: u32::MAX,
            first_clustering: Vec::new(),
            last_clustering: vec![model::ordered::AFTER],
            raw_bytes: 0,
            largest: Vec::new(),
            deaths: Vec::new(),
            large_rows: Vec::new(),
            goes_on: 0,
            made_s: 0,
        }
    }
}

impl Statistics {
    /// The same without the tombstones of partitions that a merge keeps: where one may be longer than a fragment of
    /// `fragment_bytes` they stay (`compaction/rewrite.rs`), and a file would be merged into itself for them again and
    /// again.
    pub fn purgeable_part(&self, before_s: u32, fragment_bytes: u64) -> f64 {
        let longest = self.longest_partition_bytes();
        // A merge adds up what several files have of a partition.
        let is_long = longest > fragment_bytes / 2;
        let kept = if is_long { self.partition_deletions } else { 0 };
        (self.dead_part(before_s) - kept as f64 / self.cells.max(1) as f64).max(0.0)
    }

    /// The most bytes of a partition, and so of a row, that the file can have, before compression.
    pub fn longest_partition_bytes(&self) -> u64 {
        self.largest.first().map_or(self.raw_bytes, |(bytes, _)| *bytes)
    }

    /// About the bytes of the longest row: of rows that are large by themselves as they are, of others the mean.
    pub fn long_row_bytes(&self) -> u64 {
        let large = self.large_rows.iter().map(LargeRow::bytes).max();
        large.unwrap_or(0).max(self.raw_bytes / self.rows.max(self.partitions).max(1))
    }

    /// The most bytes that the file can have of the partition with this key, before compression.
    pub fn partition_bytes_max(&self, key: &[u8]) -> u64 {
        if let Some((bytes, _)) = self.largest.iter().find(|(_, named)| named == key) {
            return *bytes;
        }
        match self.largest.last() {
            _ if self.partitions <= self.largest.len() as u64 => 0,
            Some((bytes, _)) if self.largest.len() == LARGEST_MAX => *bytes,
            _ => self.raw_bytes,
        }
    }

    /// About which part of the cells is dead, and was already before this second.
    pub fn dead_part(&self, before_s: u32) -> f64 {
        let died = self.deaths.iter().filter(|(at_s, _)| *at_s < before_s);
        // A file may say anything.
        let died = died.map(|(_, count)| *count).fold(0, u64::saturating_add);
        died as f64 / self.cells.max(1) as f64
    }

    /// Appends the form on disk.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for (tag, value) in [
            (1, self.partitions),
            (2, self.rows),
            (3, self.cells),
            (4, self.tombstones),
            (5, self.statics),
            (6, self.partition_deletions),
            (7, self.tokens.first.0 as u64),
            (8, self.tokens.last.0 as u64),
            (9, self.oldest_timestamp as u64),
            (10, self.newest_timestamp as u64),
            (11, self.raw_bytes),
        ] {
            put_field(out, tag, &value.to_le_bytes());
        }
        put_field(out, 12, &self.first_death_s.to_le_bytes());
        put_field(out, 13, &self.last_death_s.to_le_bytes());
        put_field(out, 14, &self.first_clustering);
        put_field(out, 15, &self.last_clustering);
        let mut value = Vec::new();
        for (bytes, key) in &self.largest {
            put_varint(&mut value, *bytes);
            put_bytes(&mut value, key);
        }
        put_field(out, 16, &value);
        value.clear();
        for (at_s, count) in &self.deaths {
            put_varint(&mut value, u64::from(*at_s));
            put_varint(&mut value, *count);
        }
        put_field(out, 17, &value);
        if !self.large_rows.is_empty() {
            value.clear();
            self.large_rows.iter().for_each(|row| row.encode(&mut value));
            put_field(out, 18, &value);
        }
        if self.goes_on > 0 {
            put_field(out, 19, &self.goes_on.to_le_bytes());
        }
        if self.made_s > 0 {
            put_field(out, 20, &self.made_s.to_le_bytes());
        }
    }

    /// Reads the form on disk.
    pub(super) fn decode(bytes: &[u8]) -> Result<Statistics, &'static str> {
        let mut all = Statistics::default();
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            all.read_field(&mut cursor).map_err(|_| "statistics")?;
        }
        Ok(all)
    }

    fn read_field(&mut self, cursor: &mut Cursor<'_>) -> model::Result<()> {
        let tag = cursor.u8()?;
        let mut value = Cursor::new(cursor.bytes()?);
        match tag {
            1 => self.partitions = value.u64()?,
            2 => self.rows = value.u64()?,
            3 => self.cells = value.u64()?,
            4 => self.tombstones = value.u64()?,
            5 => self.statics = value.u64()?,
            6 => self.partition_deletions = value.u64()?,
            7 => self.tokens.first = Token(value.i64()?),
            8 => self.tokens.last = Token(value.i64()?),
            9 => self.oldest_timestamp = value.i64()?,
            10 => self.newest_timestamp = value.i64()?,
            11 => self.raw_bytes = value.u64()?,
            12 => self.first_death_s = value.u32()?,
            13 => self.last_death_s = value.u32()?,
            14 => self.first_clustering = value.rest().to_vec(),
            15 => self.last_clustering = value.rest().to_vec(),
            16 => {
                while !value.is_empty() {
                    self.largest.push((value.varint()?, value.bytes()?.to_vec()));
                }
            }
            17 => {
                while !value.is_empty() {
                    let at_s = u32::try_from(value.varint()?).unwrap_or(u32::MAX);
                    self.deaths.push((at_s, value.varint()?));
                }
            }
            18 => {
                while !value.is_empty() {
                    self.large_rows.push(LargeRow::decode(&mut value)?);
                }
            }
            19 => self.goes_on = value.u64()?,
            20 => self.made_s = value.u32()?,
            _ => {}
        }
        Ok(())
    }
}

fn put_field(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    out.push(tag);
    put_bytes(out, value);
}

/// Gathers the statistics of a file being written.
#[derive(Debug)]
pub(super) struct Observer {
    all: Statistics,
    lives: bool,
    placed: bool,
}

impl Observer {
    pub(super) fn new() -> Observer {
        let all = Statistics {
            tokens: TokenRange { first: Token::MAX, last: Token::MIN },
            oldest_timestamp: i64::MAX,
            newest_timestamp: i64::MIN,
            first_death_s: u32::MAX,
            last_death_s: 0,
            last_clustering: Vec::new(),
            ..Statistics::default()
        };
        Observer { all, lives: false, placed: false }
    }

    /// The file goes on with a partition that another fragment of the run began; its number in the run.
    pub(super) fn goes_on(&mut self, number: u64) {
        self.all.goes_on = number;
    }

    /// The file is made at this second.
    pub(super) fn made_at(&mut self, made_s: u32) {
        self.all.made_s = made_s;
    }

    /// The beginning of a partition; partitions ascend.
    pub(super) fn partition(&mut self, token: Token, deletion: Deletion, stat: Option<RowRef<'_>>) {
        let ascends = self.all.partitions == 0 || self.all.tokens.last <= token;
        assert!(ascends, "partitions ascend");
        self.all.partitions += 1;
        self.all.tokens.first = self.all.tokens.first.min(token);
        self.all.tokens.last = token;
        if !deletion.is_none() {
            self.all.partition_deletions += 1;
            self.deletion(deletion);
        }
        if let Some(row) = stat {
            self.all.statics += 1;
            self.cells(row);
        }
    }

    /// Names a row if it is large.
    pub(super) fn size(&mut self, key: &[u8], clustering: Option<&[u8]>, row: RowRef<'_>) {
        if is_large(row.bytes().len()) {
            self.all.large_rows.push(LargeRow::of(key, clustering, row));
        }
    }

    /// The end of a partition of so many bytes.
    pub(super) fn partition_end(&mut self, bytes: u64, key: &[u8]) {
        let largest = &mut self.all.largest;
        let index = largest.partition_point(|(other, _)| *other >= bytes);
        if index < LARGEST_MAX {
            largest.insert(index, (bytes, key.to_vec()));
            largest.truncate(LARGEST_MAX);
        }
    }

    /// Takes a row with its clustering key into the counts and bounds.
    pub(super) fn row(&mut self, clustering: &[u8], row: RowRef<'_>) {
        self.place(clustering);
        self.all.rows += 1;
        self.cells(row);
    }

    /// A range deletion, from its beginning.
    pub(super) fn range(&mut self, at: &[u8], deletion: Deletion) {
        self.place(at);
        if !deletion.is_none() {
            self.deletion(deletion);
        }
    }

    /// What was seen.
    pub(super) fn finish(mut self, raw_bytes: u64) -> Statistics {
        let all = &self.all;
        assert!(
            all.oldest_timestamp <= all.newest_timestamp || all.cells == 0,
            "the oldest is older"
        );
        assert!(all.statics <= all.partitions, "a partition has one static row at most");
        self.all.raw_bytes = raw_bytes;
        if self.lives {
            self.all.last_death_s = u32::MAX;
        }
        self.all
    }

    fn place(&mut self, at: &[u8]) {
        if !self.placed || at < self.all.first_clustering.as_slice() {
            self.placed = true;
            at.clone_into(&mut self.all.first_clustering);
        }
        if at > self.all.last_clustering.as_slice() {
            at.clone_into(&mut self.all.last_clustering);
        }
    }

    fn cells(&mut self, row: RowRef<'_>) {
        let head = row.head();
        if !head.deletion.is_none() {
            self.deletion(head.deletion);
        }
        if let Some(life) = head.marker {
            self.timestamp(head.timestamp);
            self.life(life);
        }
        for cell in row.cells() {
            self.all.cells += 1;
            self.timestamp(cell.timestamp);
            self.life(cell.life);
        }
    }

    fn life(&mut self, life: Life) {
        match life {
            Life::Live => self.lives = true,
            Life::Expiring(expiry) => self.death(expiry.at_s),
            Life::Dead { local_s } => {
                self.all.tombstones += 1;
                self.death(local_s);
            }
        }
    }

    fn deletion(&mut self, deletion: Deletion) {
        self.all.tombstones += 1;
        self.timestamp(deletion.timestamp);
        self.death(deletion.local_s);
    }

    fn timestamp(&mut self, timestamp: i64) {
        self.all.oldest_timestamp = self.all.oldest_timestamp.min(timestamp);
        self.all.newest_timestamp = self.all.newest_timestamp.max(timestamp);
    }

    fn death(&mut self, at_s: u32) {
        self.all.first_death_s = self.all.first_death_s.min(at_s);
        self.all.last_death_s = self.all.last_death_s.max(at_s);
        let deaths = &mut self.all.deaths;
        let index = deaths.partition_point(|(other, _)| *other < at_s);
        match deaths.get_mut(index) {
            Some((other, count)) if *other == at_s => *count += 1,
            _ => deaths.insert(index, (at_s, 1)),
        }
        if deaths.len() > AGES_MAX {
            join_nearest(deaths);
        }
    }
}

/// Joins the two neighbours that are closest, at the later second: never counted as dead too early.
fn join_nearest(deaths: &mut Vec<(u32, u64)>) {
    let gap = |i: &usize| deaths[*i + 1].0 - deaths[*i].0;
    let nearest = (0..deaths.len() - 1).min_by_key(gap).expect("there are neighbours");
    deaths[nearest + 1].1 += deaths[nearest].1;
    deaths.remove(nearest);
}

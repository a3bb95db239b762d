//! A change of a shard's data, its bytes, and the state that the changes add up to (`journal/FORMAT.md`).
//!
//! ```text
//! State ──check(edit)──► apply(edit) ──► State            snapshot: edits that lead from the empty state to this one
//!                            ▲
//!        Edit { remove, add, flushed, replayed_from }     encode, decode: one entry of the journal
//! ```
//!
//! Invariants
//! 1. An edit removes only views that are there, and adds none that is there, unless it removes that view as well.
//! 2. A view holds a token. One that replaces another of the same id begins at the same place or later.
//! 3. `flushed` never goes back.
//! 4. `replayed_from` holds only positions after `flushed`: what is before it is not replayed for any table.
//! 5. Views that follow one another in an edit and begin at the same place inside a partition have that place once in
//!    the bytes. `decode` takes no bytes but those that `encode` makes.
//!
//! `check` finds 1 to 3: an edit of the file that fails it is `Error::Corrupt`, one of ours is a bug.
//!
//! Not here: commits, one after the other (`manifest.rs`); the file of entries (`journal.rs`); which shard deletes a
//! file that several shards had (`file_owners.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use model::TableId;
use model::bytes::Cursor;
use model::token::{Token, TokenRange};
use uuid::Uuid;

use crate::commitlog::Position;
use crate::limits::MANIFEST_VIEWS_PER_ENTRY;
use crate::sstable::WrittenSstable;

/// Which view: a file, and where in the ring its part begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ViewId {
    /// Id of the file that the view reads.
    pub sstable: Uuid,
    /// The first token of the part.
    pub first: i64,
}

/// A place inside a partition of a view's first token. The view has nothing before it: no partition of that token with
/// a smaller key, and of this one neither the head nor what lies below the position. The later of two places is the
/// larger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ViewBegin {
    /// The serialised partition key.
    pub key: Box<[u8]>,
    /// The first clustering place of the partition that is in the view.
    pub position: Box<[u8]>,
}

/// The part of an sstable that a shard reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewEntry {
    /// Id of the file that the view reads.
    pub sstable: Uuid,
    /// The table it belongs to.
    pub table: Uuid,
    /// The sorted run it is a fragment of.
    pub run: Uuid,
    /// The part of the ring.
    pub tokens: TokenRange,
    /// Where inside the partitions of the first token it begins; `None`: it has all of them.
    pub begin: Option<Arc<ViewBegin>>,
    /// How long the file is: one that is shorter is damaged.
    pub file_bytes: u64,
    /// The checksum of its footer, which covers the rest: a file of another time is seen.
    pub footer_checksum: u64,
    /// The level that compaction has given it.
    pub level: u8,
    /// Whether other shards had views of this file when data was dealt, so that a compaction is to part it. Who has it
    /// now, `FileOwners` knows.
    pub shared: bool,
}

/// One change, which happens whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// Views that go; before the ones that come.
    pub remove: Vec<ViewId>,
    /// Views that come.
    pub add: Vec<ViewEntry>,
    /// All records of the log that end at or before this are in the views.
    pub flushed: Option<Position>,
    /// Per table: records that end at or before this position are in its views or were truncated, and are not
    /// replayed.
    pub replayed_from: Vec<(Uuid, Position)>,
}

/// What is true after all edits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// The views, by file and place.
    pub views: BTreeMap<ViewId, ViewEntry>,
    /// From where the log is replayed.
    pub flushed: Position,
    /// Per table: records that end at or before this position are in its views or were truncated, and are not
    /// replayed. Only positions after `flushed` are kept.
    pub replayed_from: BTreeMap<Uuid, Position>,
}

impl ViewEntry {
    /// All of a file that was just written: of this table, a fragment of this run, on this level.
    pub(crate) fn of_written(
        written: &WrittenSstable,
        table: TableId,
        run: Uuid,
        level: u8,
    ) -> ViewEntry {
        assert!(!written.statistics.tokens.is_empty(), "a file holds a partition");
        ViewEntry {
            sstable: written.id.0,
            table: table.0,
            run,
            tokens: written.statistics.tokens,
            begin: None,
            file_bytes: written.proof.file_bytes,
            footer_checksum: written.proof.footer_checksum,
            level,
            shared: false,
        }
    }

    /// What identifies the view: its file and its first token.
    pub fn id(&self) -> ViewId {
        ViewId { sstable: self.sstable, first: self.tokens.first.0 }
    }
}

impl State {
    /// Whether an edit fits: what it removes is there, what it adds is not, and nothing goes back.
    pub(super) fn check(&self, edit: &Edit) -> Result<(), &'static str> {
        let removes = |id: &ViewId| edit.remove.contains(id);
        if edit.remove.iter().any(|id| !self.views.contains_key(id)) {
            return Err("it removes what is not there");
        }
        if edit.add.iter().any(|v| self.views.contains_key(&v.id()) && !removes(&v.id())) {
            return Err("it adds what is there already");
        }
        let goes_back = |view: &ViewEntry| {
            self.views.get(&view.id()).is_some_and(|before| before.begin > view.begin)
        };
        if edit.add.iter().any(goes_back) {
            return Err("what was cut off a view comes back");
        }
        if edit.add.iter().any(|view| view.tokens.first.0 > view.tokens.last.0) {
            return Err("a view holds no token");
        }
        if edit.flushed.is_some_and(|flushed| flushed < self.flushed) {
            return Err("what was flushed is not flushed any more");
        }
        Ok(())
    }

    /// Whether a view is of this file.
    pub(crate) fn names(&self, sstable: Uuid) -> bool {
        let from = ViewId { sstable, first: i64::MIN };
        self.views.range(from..).next().is_some_and(|(id, _)| id.sstable == sstable)
    }

    pub(super) fn apply(&mut self, edit: &Edit) {
        for id in &edit.remove {
            self.views.remove(id);
        }
        for view in &edit.add {
            self.views.insert(view.id(), view.clone());
        }
        let flushed = edit.flushed.unwrap_or(self.flushed);
        assert!(flushed >= self.flushed, "what is flushed stays flushed");
        self.flushed = flushed;
        for (table, position) in &edit.replayed_from {
            self.replayed_from.insert(*table, *position);
        }
        self.replayed_from.retain(|_, position| *position > flushed);
    }

    /// Edits that lead from nothing to this state.
    pub(super) fn snapshot(&self) -> Vec<Edit> {
        let replayed_from = self.replayed_from.iter().map(|(table, at)| (*table, *at)).collect();
        let mut edits =
            vec![Edit { flushed: Some(self.flushed), replayed_from, ..Edit::default() }];
        let views: Vec<ViewEntry> = self.views.values().cloned().collect();
        for add in views.chunks(MANIFEST_VIEWS_PER_ENTRY) {
            edits.push(Edit { add: add.to_vec(), ..Edit::default() });
        }
        edits
    }
}

impl Edit {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.flushed.unwrap_or(Position::ZERO).to_bits().to_le_bytes());
        out.extend_from_slice(&(self.add.len() as u32).to_le_bytes());
        let mut begin = None;
        for view in &self.add {
            out.extend_from_slice(view.sstable.as_bytes());
            out.extend_from_slice(&view.tokens.first.0.to_le_bytes());
            out.extend_from_slice(&view.tokens.last.0.to_le_bytes());
            out.extend_from_slice(view.table.as_bytes());
            out.extend_from_slice(view.run.as_bytes());
            out.extend_from_slice(&view.file_bytes.to_le_bytes());
            out.extend_from_slice(&view.footer_checksum.to_le_bytes());
            out.extend_from_slice(&[
                view.level,
                u8::from(view.shared) | form_of_begin(view, begin),
            ]);
            if let Some(new) = view.begin.as_ref().filter(|new| begin != Some(new)) {
                put_piece(&mut out, &new.key);
                put_piece(&mut out, &new.position);
            }
            begin = view.begin.as_ref().or(begin);
        }
        out.extend_from_slice(&(self.remove.len() as u32).to_le_bytes());
        for id in &self.remove {
            out.extend_from_slice(id.sstable.as_bytes());
            out.extend_from_slice(&id.first.to_le_bytes());
        }
        out.extend_from_slice(&(self.replayed_from.len() as u32).to_le_bytes());
        for (table, position) in &self.replayed_from {
            out.extend_from_slice(table.as_bytes());
            out.extend_from_slice(&position.to_bits().to_le_bytes());
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> model::Result<Edit> {
        let mut cursor = Cursor::new(bytes);
        let flushed = Some(Position::from_bits(cursor.u64()?)).filter(|at| *at != Position::ZERO);
        let mut edit = Edit { flushed, ..Edit::default() };
        let mut begin = None;
        for _ in 0..cursor.u32()? {
            edit.add.push(view_entry(&mut cursor, &mut begin)?);
        }
        for _ in 0..cursor.u32()? {
            edit.remove.push(ViewId { sstable: cursor.uuid()?, first: cursor.i64()? });
        }
        for _ in 0..cursor.u32()? {
            edit.replayed_from.push((cursor.uuid()?, Position::from_bits(cursor.u64()?)));
        }
        if cursor.is_empty() { Ok(edit) } else { Err(model::Error::Malformed("edit: bytes left")) }
    }
}

/// Other shards have views of the file.
const SHARED: u8 = 1;
/// The view begins inside a partition, at the place that follows.
const BEGINS_INSIDE: u8 = 2;
/// The view begins where the one before it in the edit that begins inside a partition does.
const BEGINS_THERE: u8 = 4;

/// How it is said where a view begins, if the last one that begins inside a partition begins there.
fn form_of_begin(view: &ViewEntry, last: Option<&Arc<ViewBegin>>) -> u8 {
    match &view.begin {
        None => 0,
        Some(begin) if last == Some(begin) => BEGINS_THERE,
        Some(_) => BEGINS_INSIDE,
    }
}

fn put_piece(out: &mut Vec<u8>, piece: &[u8]) {
    let bytes = u32::try_from(piece.len()).expect("a key is short");
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(piece);
}

fn piece(cursor: &mut Cursor<'_>) -> model::Result<Box<[u8]>> {
    let bytes = cursor.u32()?;
    Ok(cursor.take(bytes as usize)?.into())
}

fn view_entry(
    cursor: &mut Cursor<'_>,
    last: &mut Option<Arc<ViewBegin>>,
) -> model::Result<ViewEntry> {
    let sstable = cursor.uuid()?;
    let tokens = TokenRange { first: Token(cursor.i64()?), last: Token(cursor.i64()?) };
    let (table, run) = (cursor.uuid()?, cursor.uuid()?);
    let (file_bytes, footer_checksum, level) = (cursor.u64()?, cursor.u64()?, cursor.u8()?);
    let form = cursor.u8()?;
    let begin = match form & !SHARED {
        0 => None,
        BEGINS_INSIDE => {
            let begin = ViewBegin { key: piece(cursor)?, position: piece(cursor)? };
            Some(Arc::new(begin)).filter(|begin| last.as_ref() != Some(begin))
        }
        BEGINS_THERE => last.clone(),
        _ => return Err(model::Error::Malformed("edit: form of a view")),
    };
    if begin.is_none() && form & !SHARED != 0 {
        return Err(model::Error::Malformed("edit: begin of a view"));
    }
    *last = begin.clone().or(last.take());
    let shared = form & SHARED != 0;
    Ok(ViewEntry { sstable, table, run, tokens, begin, file_bytes, footer_checksum, level, shared })
}

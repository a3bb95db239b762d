//! The simulated device: what is durable, what is not yet, and what a power cut leaves.
//!
//! ```text
//!   file   durable bytes ◄─sync─ pending writes, in order, of whole 512 B sectors
//!   names  durable map   ◄─sync_dir─ pending changes, in order          ◄─ create, rename, unlink, mkdir
//! ```
//!
//! Reads see everything. A crash keeps what is durable and, of the rest, nothing, all, or a seeded choice:
//! for each sector any one of its pending versions or none, for names a prefix or any subset, for a length
//! anything between. After a failed sync the covered versions are *lost*: reads still show them, later
//! syncs succeed, and they never become durable, which is what kernels do (fsyncgate).
//!
//! Not here: the order of operations and the suspension of tasks (`sim.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::rc::Rc;

use super::Stat;
use super::buf::extend_with_zeros;
use super::path::RelPath;
use super::rng::Rng;
use crate::limits::SIM_SECTOR_BYTES as SECTOR;

/// What goes wrong, and when. The default is a device that never fails.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Each operation suspends up to this many times, so that tasks interleave.
    pub suspensions_max: u32,
    /// The operation with this number (from 0) fails.
    pub fail_op: Option<u64>,
    /// What an operation that fails answers; EIO if it is not said.
    pub fail_errno: Option<i32>,
    /// Power is lost in the middle of the operation with this number.
    pub crash_at_op: Option<u64>,
    /// Power is lost right after this many writes have returned.
    pub crash_after_writes: Option<u64>,
    /// One read in so many fails; 0 is never, here and below.
    pub read_error_one_in: u32,
    /// One write in so many fails; a part of it may have happened.
    pub write_error_one_in: u32,
    /// One sync in so many fails once, and what it covered is lost while later syncs succeed.
    pub sync_error_one_in: u32,
    /// One write in so many stops short.
    pub short_write_one_in: u32,
    /// One read in so many has a bit flipped.
    pub flip_one_in: u32,
    /// One write in so many lands elsewhere in its file.
    pub misdirect_one_in: u32,
    /// Only files whose paths begin so have writes that land elsewhere.
    pub misdirect_under: &'static str,
    /// One attempt in so many to open a file or a directory finds no descriptor; it has done nothing.
    pub no_descriptor_one_in: u32,
    /// All files together may not grow beyond this.
    pub quota_bytes: Option<u64>,
}

/// How much of what was not flushed a power cut leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// Only what is durable.
    Nothing,
    /// Everything: the caches were written out just in time.
    Everything,
    /// A seeded choice, sector by sector and name by name.
    Random,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Dir,
    File(u64),
}

/// A change of names that its directory's sync makes durable.
#[derive(Debug, Clone)]
struct NameChange {
    id: u64,
    dir: RelPath,
    remove: Option<RelPath>,
    add: Option<(RelPath, Node)>,
}

/// What is left of one write: sectors of which nothing newer is durable.
#[derive(Debug, Clone)]
struct Write {
    id: u64,
    /// Where in the file, in bytes: whole sectors.
    place: Range<usize>,
    /// The bytes of the write, and which of them are the first here.
    bytes: Rc<[u8]>,
    from: usize,
    lost: bool,
}

#[derive(Debug, Clone, Default)]
struct Inode {
    /// Shared with the disk of the life before, until it is written to.
    durable: Rc<Vec<u8>>,
    durable_len: u64,
    /// Rising by their ids: the last that has a sector is the one that is read.
    pending: Vec<Write>,
    len: u64,
    reserved: u64,
}

/// The state behind a simulated disk.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) faults: Faults,
    pub(super) crashed: bool,
    pub(super) files_max: usize,
    pub(super) ops: u64,
    pub(super) writes: u64,
    pub(super) trace: u64,
    /// Lock files that are held; a power cut frees them.
    pub(super) locked: Vec<RelPath>,
    /// Files of which every read fails with EIO, as of a bad sector.
    pub(super) unreadable: BTreeSet<RelPath>,
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<RelPath, Node>,
    durable_names: BTreeMap<RelPath, Node>,
    changes: Vec<NameChange>,
    next_id: u64,
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults) -> World {
        World {
            rng: Rng::new(seed),
            faults,
            crashed: false,
            files_max: usize::MAX,
            ops: 0,
            writes: 0,
            trace: 0,
            locked: Vec::new(),
            unreadable: BTreeSet::new(),
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            next_id: 0,
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The newest change so far: a sync that starts now covers everything up to it.
    pub(super) fn now(&self) -> u64 {
        self.next_id
    }

    // Names.

    pub(super) fn find(&self, path: &RelPath) -> Option<Node> {
        match path.as_str() {
            "" => Some(Node::Dir),
            _ => self.names.get(path).copied(),
        }
    }

    /// What a name says of its file; `None` if it is not there.
    pub(super) fn stat(&self, path: &RelPath) -> Option<Stat> {
        let file @ Node::File(inode) = self.find(path)? else { return None };
        let names = self.names.values().filter(|node| **node == file).count() as u64;
        Some(Stat { bytes: self.len(inode), names })
    }

    pub(super) fn children(&self, dir: &RelPath) -> Vec<(RelPath, Node)> {
        let prefix = match dir.as_str() {
            "" => String::new(),
            dir => format!("{dir}/"),
        };
        let from = self.names.range::<str, _>((Bound::Included(&*prefix), Bound::Unbounded));
        let below = from
            .map_while(|(path, node)| Some((path, path.as_str().strip_prefix(&*prefix)?, node)));
        let children = below.filter(|(_, name, _)| !name.contains('/'));
        children.map(|(path, _, node)| (path.clone(), *node)).collect()
    }

    pub(super) fn create(&mut self, path: &RelPath) -> u64 {
        let inode = self.id();
        self.inodes.insert(inode, Inode::default());
        self.add(path, Node::File(inode));
        inode
    }

    pub(super) fn add(&mut self, path: &RelPath, node: Node) {
        self.change(path.parent(), None, Some((path.clone(), node)));
    }

    pub(super) fn remove(&mut self, path: &RelPath) {
        self.change(path.parent(), Some(path.clone()), None);
    }

    pub(super) fn rename(&mut self, from: &RelPath, to: &RelPath, node: Node) {
        self.change(from.parent(), Some(from.clone()), Some((to.clone(), node)));
    }

    fn change(&mut self, dir: RelPath, remove: Option<RelPath>, add: Option<(RelPath, Node)>) {
        let change = NameChange { id: self.id(), dir, remove, add };
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    /// Makes the changes of a directory up to `id` durable.
    pub(super) fn settle_names(&mut self, dir: &RelPath, id: u64) {
        for change in &self.changes {
            if change.dir == *dir && change.id <= id {
                change.apply(&mut self.durable_names);
            }
        }
        self.changes.retain(|change| change.dir != *dir || change.id > id);
    }

    // Bytes.

    pub(super) fn len(&self, inode: u64) -> u64 {
        self.inodes[&inode].len
    }

    /// The bytes at a place, and how many of them were ever written: behind these are zeros.
    pub(super) fn read(&self, inode: u64, offset: u64, len: usize) -> (Vec<u8>, usize) {
        let file = &self.inodes[&inode];
        let end = file.len.min(offset.saturating_add(len as u64));
        if offset >= end {
            return (Vec::new(), 0);
        }
        let (start, end) = (offset as usize, end as usize);
        let mut out = Vec::with_capacity(end - start);
        out.extend_from_slice(file.durable.get(start..file.durable.len().min(end)).unwrap_or(&[]));
        let mut written = out.len();
        extend_with_zeros(&mut out, end - start);
        for write in &file.pending {
            let (from, to) = (write.place.start.max(start), write.place.end.min(end));
            if from < to {
                let at = from - write.place.start;
                out[from - start..to - start].copy_from_slice(&write.bytes()[at..][..to - from]);
                written = written.max(to - start);
            }
        }
        (out, written)
    }

    /// Puts whole sectors into the volatile layer; says under which number.
    pub(super) fn write(&mut self, inode: u64, offset: u64, bytes: &[u8]) -> u64 {
        let is_whole = |bytes: u64| bytes.is_multiple_of(SECTOR as u64);
        assert!(
            is_whole(offset) && is_whole(bytes.len() as u64),
            "the device writes whole sectors"
        );
        let id = self.id();
        let file = self.inode(inode);
        file.len = file.len.max(offset + bytes.len() as u64);
        if !bytes.is_empty() {
            let place = offset as usize..offset as usize + bytes.len();
            file.pending.push(Write { id, place, bytes: bytes.into(), from: 0, lost: false });
        }
        id
    }

    pub(super) fn set_len(&mut self, inode: u64, len: u64) {
        let old = self.len(inode);
        if len < old {
            // What is cut must read as zeros if the file grows again.
            let first = len / SECTOR as u64 * SECTOR as u64;
            let end = old.next_multiple_of(SECTOR as u64);
            let mut tail = vec![0; (end - first) as usize];
            let (kept, _) = self.read(inode, first, (len - first) as usize);
            tail[..kept.len()].copy_from_slice(&kept);
            self.write(inode, first, &tail);
        }
        let file = self.inode(inode);
        file.len = len;
        file.reserved = file.reserved.min(len);
    }

    pub(super) fn reserve(&mut self, inode: u64, len: u64) {
        let file = self.inode(inode);
        file.len = file.len.max(len);
        file.reserved = file.reserved.max(len);
    }

    /// What all named files take, if `inode` were at least `len` long.
    pub(super) fn used_with(&self, inode: u64, len: u64) -> u64 {
        let size = |id: &u64, file: &Inode| {
            let size = file.len.max(file.reserved);
            if *id == inode { size.max(len) } else { size }
        };
        let file_of = |node: &Node| match node {
            Node::File(id) => Some(*id),
            Node::Dir => None,
        };
        // A file may have two names.
        let mut named: Vec<u64> = self.names.values().filter_map(file_of).collect();
        named.sort_unstable();
        named.dedup();
        named.iter().map(|id| size(id, &self.inodes[id])).sum()
    }

    /// Makes one write durable, and what it covers settled: a write to a file opened O_DSYNC.
    pub(super) fn settle_write(&mut self, inode: u64, id: u64) {
        let file = self.inode(inode);
        file.settle(|write| write.id == id);
        file.durable_len = file.durable_len.max(file.durable.len() as u64).min(file.len);
    }

    /// Makes everything up to `id` durable, save what a failed sync has lost.
    pub(super) fn settle(&mut self, inode: u64, id: u64) {
        let file = self.inode(inode);
        file.settle(|write| write.id <= id && !write.lost);
        file.durable_len = file.len;
    }

    /// A sync failed: what it covered stays visible and never becomes durable.
    pub(super) fn lose(&mut self, inode: u64, id: u64) {
        let pending = &mut self.inode(inode).pending;
        pending.iter_mut().filter(|write| write.id <= id).for_each(|write| write.lost = true);
    }

    fn inode(&mut self, inode: u64) -> &mut Inode {
        self.inodes.get_mut(&inode).expect("an open file's inode outlives its handle")
    }

    // The ends of a process.

    /// What is found after the process was killed: all is readable, and no more durable than it was.
    pub(super) fn after_kill(&self) -> World {
        let (crashed, locked, faults) = (false, Vec::new(), Faults::default());
        World { crashed, locked, faults, ..self.clone() }
    }

    /// What is found after power is back.
    pub(super) fn after_crash(&self, seed: u64, crash: Crash, faults: Faults) -> World {
        let mut rng = Rng::new(seed);
        let mut next = World::new(rng.roll(), faults);
        next.next_id = self.next_id;
        next.durable_names = self.surviving_names(&mut rng, crash);
        next.names = next.durable_names.clone();
        for node in next.durable_names.values() {
            if let Node::File(inode) = node {
                next.inodes.insert(*inode, self.inodes[inode].surviving(&mut rng, crash));
            }
        }
        next
    }

    fn surviving_names(&self, rng: &mut Rng, crash: Crash) -> BTreeMap<RelPath, Node> {
        let mut names = self.durable_names.clone();
        let count = self.changes.len();
        // A journal keeps a prefix; nothing promises even that.
        let ordered = rng.one_in(2);
        let prefix = rng.below(count as u64 + 1) as usize;
        for (i, change) in self.changes.iter().enumerate() {
            let kept = match crash {
                Crash::Nothing => false,
                Crash::Everything => true,
                Crash::Random if ordered => i < prefix,
                Crash::Random => rng.one_in(2),
            };
            if kept {
                change.apply(&mut names);
            }
        }
        let is_rooted = |path: &RelPath| {
            let mut path = path.as_str();
            while let Some((dir, _)) = path.rsplit_once('/') {
                if names.get(dir) != Some(&Node::Dir) {
                    return false;
                }
                path = dir;
            }
            true
        };
        let unrooted: Vec<RelPath> =
            names.keys().filter(|path| !is_rooted(path)).cloned().collect();
        names.retain(|path, _| !unrooted.contains(path));
        names
    }

    /// The bytes of a file as a reader sees them.
    pub(super) fn bytes(&self, inode: u64) -> Vec<u8> {
        self.read(inode, 0, self.len(inode) as usize).0
    }

    /// Replaces a file's bytes, durably: a test's way to damage them.
    pub(super) fn plant(&mut self, inode: u64, bytes: Vec<u8>) {
        let len = bytes.len() as u64;
        let file = self.inode(inode);
        *file = Inode { durable: Rc::new(bytes), durable_len: len, len, ..Inode::default() };
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<RelPath, Node>) {
        if let Some(path) = &self.remove {
            names.remove(path);
        }
        if let Some((path, node)) = &self.add {
            names.insert(path.clone(), *node);
        }
    }
}

impl Write {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..][..self.place.len()]
    }

    /// What is left of it beside these places, which are newer.
    fn without(self, newer: &Range<usize>) -> impl Iterator<Item = Write> {
        let before = self.place.start..self.place.end.min(newer.start);
        let behind = self.place.start.max(newer.end)..self.place.end;
        let left = [before, behind].into_iter().filter(|place| !place.is_empty());
        left.map(move |place| Write {
            from: self.from + place.start - self.place.start,
            place,
            bytes: self.bytes.clone(),
            ..self
        })
    }
}

impl Inode {
    /// Moves the chosen writes to the durable layer, and forgets what older ones have at their places.
    fn settle(&mut self, is_chosen: impl Fn(&Write) -> bool) {
        let mut left: Vec<Write> = Vec::new();
        for write in std::mem::take(&mut self.pending) {
            if is_chosen(&write) {
                let older = left.into_iter();
                left = older.flat_map(|older| older.without(&write.place)).collect();
                store(Rc::make_mut(&mut self.durable), write.place.start, write.bytes());
            } else {
                left.push(write);
            }
        }
        self.pending = left;
    }

    /// The versions of each sector that are not durable, the oldest first.
    fn versions(&self) -> BTreeMap<usize, Vec<(&[u8], bool)>> {
        let mut sectors: BTreeMap<usize, Vec<(&[u8], bool)>> = BTreeMap::new();
        for write in &self.pending {
            let places = write.place.clone().step_by(SECTOR);
            for (place, bytes) in places.zip(write.bytes().chunks_exact(SECTOR)) {
                sectors.entry(place).or_default().push((bytes, write.lost));
            }
        }
        sectors
    }

    fn surviving(&self, rng: &mut Rng, crash: Crash) -> Inode {
        let mut durable = self.durable.clone();
        // Each choice is as likely for a whole file as for a sector: most bugs need all but one.
        let odds = [0, 1, 2, 8][rng.index(4)];
        for (place, versions) in self.versions() {
            let kept = match crash {
                Crash::Nothing => None,
                Crash::Everything => versions.iter().rfind(|(_, lost)| !lost),
                Crash::Random if rng.one_in(odds) => None,
                Crash::Random => {
                    Some(&versions[rng.index(versions.len())]).filter(|(_, lost)| !lost)
                }
            };
            if let Some((bytes, _)) = kept {
                store(Rc::make_mut(&mut durable), place, bytes);
            }
        }
        let (low, high) = (self.durable_len.min(self.len), self.durable_len.max(self.len));
        let len = match crash {
            Crash::Nothing => self.durable_len,
            Crash::Everything => self.len,
            Crash::Random => match rng.below(3) {
                0 => low,
                1 => high,
                _ => low + rng.below(high - low + 1),
            },
        };
        if durable.len() as u64 > len {
            Rc::make_mut(&mut durable).truncate(len as usize);
        }
        Inode { durable, durable_len: len, len, ..Inode::default() }
    }
}

fn store(durable: &mut Vec<u8>, place: usize, bytes: &[u8]) {
    extend_with_zeros(durable, place + bytes.len());
    durable[place..place + bytes.len()].copy_from_slice(bytes);
}

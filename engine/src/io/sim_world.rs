//! The simulated device: what is durable, what is not yet, and what a power cut leaves.
//!
//! ```text
//!   file   durable bytes ◄─sync─ pending versions of each 512 B sector ◄─ writes
//!   names  durable map   ◄─sync_dir─ pending changes, in order          ◄─ create, rename, unlink, mkdir
//! ```
//!
//! Reads see everything. A crash keeps what is durable and, of the rest, nothing, all, or a seeded choice:
//! for each sector any one of its pending versions or none, for names a prefix or any subset, for a length
//! anything between. After a failed sync the covered versions are *lost*: reads still show them, later
//! syncs succeed, and they never become durable, which is what kernels do (fsyncgate).
//!
//! Not here: the order of operations and the suspension of tasks (`sim.rs`).

use std::collections::BTreeMap;
use std::rc::Rc;

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

/// The bytes of one sector in one write.
#[derive(Debug, Clone)]
struct Version {
    id: u64,
    write: Rc<[u8]>,
    at: usize,
    lost: bool,
}

#[derive(Debug, Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    durable_len: u64,
    pending: BTreeMap<u64, Vec<Version>>,
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

    pub(super) fn children(&self, dir: &RelPath) -> Vec<(RelPath, Node)> {
        let inside = |path: &RelPath| path.parent() == *dir;
        self.names.iter().filter(|(path, _)| inside(path)).map(|(p, n)| (p.clone(), *n)).collect()
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

    pub(super) fn read(&self, inode: u64, offset: u64, len: usize) -> Vec<u8> {
        let file = &self.inodes[&inode];
        let end = file.len.min(offset.saturating_add(len as u64));
        if offset >= end {
            return Vec::new();
        }
        let (start, end) = (offset as usize, end as usize);
        let mut out = vec![0; end - start];
        let stored = file.durable.len().min(end);
        if start < stored {
            out[..stored - start].copy_from_slice(&file.durable[start..stored]);
        }
        let sectors = start as u64 / SECTOR as u64..=(end as u64 - 1) / SECTOR as u64;
        for (sector, versions) in file.pending.range(sectors) {
            let Some(newest) = versions.last() else { continue };
            let at = *sector as usize * SECTOR;
            let (from, to) = (at.max(start), (at + SECTOR).min(end));
            out[from - start..to - start].copy_from_slice(&newest.bytes()[from - at..to - at]);
        }
        out
    }

    /// Puts whole sectors into the volatile layer; says under which number.
    pub(super) fn write(&mut self, inode: u64, offset: u64, bytes: &[u8]) -> u64 {
        assert!(bytes.len().is_multiple_of(SECTOR), "the device writes whole sectors");
        let id = self.id();
        let write: Rc<[u8]> = bytes.into();
        let file = self.inode(inode);
        for at in (0..bytes.len()).step_by(SECTOR) {
            let version = Version { id, write: write.clone(), at, lost: false };
            file.pending.entry((offset + at as u64) / SECTOR as u64).or_default().push(version);
        }
        file.len = file.len.max(offset + bytes.len() as u64);
        id
    }

    pub(super) fn set_len(&mut self, inode: u64, len: u64) {
        let old = self.len(inode);
        if len < old {
            // What is cut must read as zeros if the file grows again.
            let first = len / SECTOR as u64 * SECTOR as u64;
            let end = old.next_multiple_of(SECTOR as u64);
            let mut tail = vec![0; (end - first) as usize];
            let kept = self.read(inode, first, (len - first) as usize);
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
        let named = |id: &u64| self.names.values().any(|node| *node == Node::File(*id));
        self.inodes.iter().filter(|(id, _)| named(id)).map(|(id, file)| size(id, file)).sum()
    }

    /// Makes one write durable, and what it covers settled: a write to a file opened O_DSYNC.
    pub(super) fn settle_write(&mut self, inode: u64, id: u64) {
        let file = self.inode(inode);
        file.settle(|versions| versions.iter().position(|v| v.id == id));
        file.durable_len = file.durable_len.max(file.durable.len() as u64).min(file.len);
    }

    /// Makes everything up to `id` durable, save what a failed sync has lost.
    pub(super) fn settle(&mut self, inode: u64, id: u64) {
        let file = self.inode(inode);
        file.settle(|versions| versions.iter().rposition(|v| v.id <= id && !v.lost));
        file.durable_len = file.len;
    }

    /// A sync failed: what it covered stays visible and never becomes durable.
    pub(super) fn lose(&mut self, inode: u64, id: u64) {
        for versions in self.inode(inode).pending.values_mut() {
            versions.iter_mut().filter(|v| v.id <= id).for_each(|v| v.lost = true);
        }
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
        let rooted = |path: &RelPath| {
            let mut dir = path.parent();
            while !dir.as_str().is_empty() {
                if names.get(&dir) != Some(&Node::Dir) {
                    return false;
                }
                dir = dir.parent();
            }
            true
        };
        names.iter().filter(|(path, _)| rooted(path)).map(|(p, n)| (p.clone(), *n)).collect()
    }

    /// The bytes of a file as a reader sees them.
    pub(super) fn bytes(&self, inode: u64) -> Vec<u8> {
        self.read(inode, 0, self.len(inode) as usize)
    }

    /// Replaces a file's bytes, durably: a test's way to damage them.
    pub(super) fn plant(&mut self, inode: u64, bytes: Vec<u8>) {
        let len = bytes.len() as u64;
        let file = self.inode(inode);
        *file = Inode { durable: bytes, durable_len: len, len, ..Inode::default() };
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

impl Version {
    fn bytes(&self) -> &[u8] {
        &self.write[self.at..self.at + SECTOR]
    }
}

impl Inode {
    /// Moves, of each sector, the chosen version to the durable layer and forgets the older ones.
    fn settle(&mut self, choose: impl Fn(&[Version]) -> Option<usize>) {
        let durable = &mut self.durable;
        for (sector, versions) in &mut self.pending {
            let Some(i) = choose(versions) else { continue };
            store(durable, *sector, versions[i].bytes());
            versions.drain(..=i);
        }
        self.pending.retain(|_, versions| !versions.is_empty());
    }

    fn surviving(&self, rng: &mut Rng, crash: Crash) -> Inode {
        let mut durable = self.durable.clone();
        // Each choice is as likely for a whole file as for a sector: most bugs need all but one.
        let odds = [0, 1, 2, 8][rng.index(4)];
        for (sector, versions) in &self.pending {
            let kept = match crash {
                Crash::Nothing => None,
                Crash::Everything => versions.iter().rfind(|v| !v.lost),
                Crash::Random if rng.one_in(odds) => None,
                Crash::Random => Some(&versions[rng.index(versions.len())]).filter(|v| !v.lost),
            };
            if let Some(version) = kept {
                store(&mut durable, *sector, version.bytes());
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
        durable.truncate(len as usize);
        Inode { durable, durable_len: len, len, ..Inode::default() }
    }
}

fn store(durable: &mut Vec<u8>, sector: u64, bytes: &[u8]) {
    let at = sector as usize * SECTOR;
    extend_with_zeros(durable, at + SECTOR);
    durable[at..at + SECTOR].copy_from_slice(bytes);
}

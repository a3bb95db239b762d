//! The seeded implementation: the same operations as the real one, on a [`World`] that fails as it is told.
//!
//! Each operation: 1. waits for its turn, if it reads, writes or syncs a file; 2. is counted, and may be chosen to fail
//! or to meet the power cut; 3. takes effect in the volatile layer; 4. suspends for a seeded while; 5. becomes durable,
//! if it is a sync. After a power cut no operation ever returns: the executor falls silent, and the test goes on with
//! [`SimDisk::crash`].

use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::buf::View;
use super::class::IoClass;
use super::path::RelPath;
use super::sim_turns::Turns;
use super::sim_world::{Crash, Faults, Node, World};
use super::{DirEntry, Space, Stat};
use crate::error::{Error, Result};
use crate::limits::{SIM_OPS_MAX, SIM_SECTOR_BYTES as SECTOR};

/// A simulated data directory. Clones share it.
#[derive(Debug, Clone)]
pub struct SimDisk {
    world: Rc<RefCell<World>>,
    turns: Rc<Turns>,
}

/// A simulated open file.
#[derive(Debug, Clone)]
pub struct SimFile {
    disk: SimDisk,
    path: RelPath,
    inode: u64,
    mode: Mode,
    class: IoClass,
    len: Rc<Cell<u64>>,
}

/// A held lock of a simulated directory.
#[derive(Debug)]
pub struct SimLock {
    disk: SimDisk,
    path: RelPath,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.world().locked.retain(|path| *path != self.path);
    }
}

/// What an open file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A read of bytes.
    Read,
    /// Reading and writing; a sync makes it durable.
    Write,
    /// Reading and writing; each write is durable when it returns.
    WriteDurably,
}

/// What is to become of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Succeed,
    Fail,
    Crash,
}

/// The kinds of operation that faults tell apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Sync,
    Name,
}

impl SimDisk {
    /// An empty disk whose every choice `seed` decides.
    pub fn new(seed: u64, faults: Faults) -> SimDisk {
        SimDisk::of(World::new(seed, faults))
    }

    /// Nothing waits for the device of a machine that was just started.
    fn of(world: World) -> SimDisk {
        SimDisk { world: Rc::new(RefCell::new(world)), turns: Rc::new(Turns::new()) }
    }

    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// The disk as it is found after a power cut now.
    pub fn crash(&self, seed: u64, crash: Crash) -> SimDisk {
        let next = self.world.borrow().after_crash(seed, crash, Faults::default());
        self.world.borrow_mut().crashed = true;
        SimDisk::of(next)
    }

    /// The disk as it is found after the process was killed now: power stays, so what was not flushed can be read,
    /// and may still be lost.
    pub fn kill(&self) -> SimDisk {
        let next = self.world.borrow().after_kill();
        self.world.borrow_mut().crashed = true;
        SimDisk::of(next)
    }

    /// From now on these faults; their numbers of operations count from here.
    pub fn set_faults(&self, faults: Faults) {
        let begun = self.ops();
        let from_here = |op: u64| op + begun;
        self.world.borrow_mut().faults = Faults {
            fail_op: faults.fail_op.map(from_here),
            crash_at_op: faults.crash_at_op.map(from_here),
            ..faults
        };
    }

    /// Keeps so many sstables open from now on.
    pub fn set_files_max(&self, files_max: usize) {
        self.world.borrow_mut().files_max = files_max;
    }

    pub(super) fn files_max(&self) -> usize {
        self.world.borrow().files_max
    }

    /// Power is lost: nothing on this disk will return any more.
    pub fn is_crashed(&self) -> bool {
        self.world.borrow().crashed
    }

    /// What all files take, in bytes: a quota of as much is a full disk.
    pub fn used_bytes(&self) -> u64 {
        self.world.borrow().used_with(0, 0)
    }

    /// How many operations have begun: the next has this number.
    pub fn ops(&self) -> u64 {
        self.world.borrow().ops
    }

    /// A hash over all operations and results so far: equal for two runs of one seed.
    pub fn trace(&self) -> u64 {
        self.world.borrow().trace
    }

    /// A file's bytes as a reader sees them, without an operation.
    pub fn bytes(&self, path: &RelPath) -> Option<Vec<u8>> {
        let world = self.world.borrow();
        match world.find(path) {
            Some(Node::File(inode)) => Some(world.bytes(inode)),
            _ => None,
        }
    }

    /// How long a file is as a reader sees it, in bytes, without an operation.
    pub fn file_bytes(&self, path: &RelPath) -> Option<u64> {
        let world = self.world.borrow();
        match world.find(path) {
            Some(Node::File(inode)) => Some(world.len(inode)),
            _ => None,
        }
    }

    /// Replaces a file's bytes durably, without an operation: how a test damages a file.
    pub fn plant(&self, path: &RelPath, bytes: Vec<u8>) {
        let mut world = self.world.borrow_mut();
        let inode = match world.find(path) {
            Some(Node::File(inode)) => inode,
            Some(Node::Dir) => panic!("{path} is a directory"),
            None => world.create(path),
        };
        world.plant(inode, bytes);
        let now = world.now();
        world.settle_names(&path.parent(), now);
    }

    /// Takes a file's name away durably, without an operation: how a test loses a file.
    pub fn lose(&self, path: &RelPath) {
        let mut world = self.world.borrow_mut();
        assert!(matches!(world.find(path), Some(Node::File(_))), "{path} is a file");
        world.remove(path);
        let now = world.now();
        world.settle_names(&path.parent(), now);
    }

    /// Every read of a file fails with EIO from now on, until the disk is started again.
    pub fn set_unreadable(&self, path: &RelPath) {
        self.world.borrow_mut().unreadable.insert(path.clone());
    }

    /// Whether there is a file or a directory of this path, without an operation.
    pub fn has(&self, path: &RelPath) -> bool {
        self.world.borrow().find(path).is_some()
    }

    /// The files of a directory as a reader sees them, without an operation.
    pub fn files_of(&self, dir: &RelPath) -> Vec<RelPath> {
        let children = self.world.borrow().children(dir);
        let is_file = |node: &Node| matches!(node, Node::File(_));
        children.into_iter().filter(|(_, node)| is_file(node)).map(|(path, _)| path).collect()
    }

    fn world(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    /// Counts an operation and decides its fate.
    fn begin(&self, kind: Kind, path: &RelPath, offset: u64, len: usize) -> Fate {
        let mut world = self.world();
        let op = world.ops;
        world.ops += 1;
        assert!(op < SIM_OPS_MAX, "work without an end: {op} operations, now at {path}");
        world.note(path, &[op, kind as u64, offset, len as u64]);
        if world.crashed || world.faults.crash_at_op == Some(op) {
            return Fate::Crash;
        }
        let odds = match kind {
            Kind::Read => world.faults.read_error_one_in,
            Kind::Write => world.faults.write_error_one_in,
            Kind::Sync => world.faults.sync_error_one_in,
            Kind::Name => 0,
        };
        match world.faults.fail_op == Some(op) || world.rng.one_in(odds) {
            true => Fate::Fail,
            false => Fate::Succeed,
        }
    }

    /// What a failed operation answers.
    fn errno(&self) -> i32 {
        self.world().faults.fail_errno.unwrap_or(libc::EIO)
    }

    /// The time the device takes. Never ends once power is lost.
    async fn pause(&self, fate: Fate) {
        let mut left = {
            let mut world = self.world();
            world.crashed |= fate == Fate::Crash;
            let most = world.faults.suspensions_max;
            world.rng.below(u64::from(most) + 1)
        };
        poll_fn(|cx| {
            if self.is_crashed() {
                return Poll::Pending;
            }
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// A pause in which others run.
    pub(super) async fn sleep(&self) {
        self.pause(Fate::Succeed).await;
        let mut has_paused = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut has_paused, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// Takes a descriptor, if there is one: nothing has happened if not.
    fn take_descriptor(&self, op: &'static str, path: &RelPath) -> Result<()> {
        let mut world = self.world();
        let odds = world.faults.no_descriptor_one_in;
        match world.rng.one_in(odds) {
            true => Err(Error::io(op, path.as_str(), libc::EMFILE)),
            false => Ok(()),
        }
    }

    /// A change of names: on failure it may have happened.
    async fn change(
        &self,
        op: &'static str,
        path: &RelPath,
        apply: impl FnOnce(&mut World),
    ) -> Result<()> {
        let fate = self.begin(Kind::Name, path, 0, 0);
        if fate != Fate::Fail || self.world().rng.one_in(2) {
            apply(&mut self.world());
        }
        self.pause(fate).await;
        if fate == Fate::Fail { Err(Error::io(op, path.as_str(), self.errno())) } else { Ok(()) }
    }

    /// A question: it fails or is answered from the volatile layer.
    async fn ask(&self, op: &'static str, path: &RelPath) -> Result<()> {
        let fate = self.begin(Kind::Read, path, 0, 0);
        self.pause(fate).await;
        if fate == Fate::Fail { Err(Error::io(op, path.as_str(), self.errno())) } else { Ok(()) }
    }

    fn check_new(&self, op: &'static str, path: &RelPath) -> Result<()> {
        if self.world().find(&path.parent()) != Some(Node::Dir) {
            return Err(Error::io(op, path.as_str(), libc::ENOENT));
        }
        match self.world().find(path) {
            Some(_) => Err(Error::io(op, path.as_str(), libc::EEXIST)),
            None => Ok(()),
        }
    }

    fn file(&self, path: &RelPath, inode: u64, mode: Mode) -> SimFile {
        let len = Rc::new(Cell::new(self.world().len(inode)));
        let class = match mode {
            Mode::WriteDurably => IoClass::Commit,
            Mode::Read | Mode::Write => IoClass::default(),
        };
        SimFile { disk: self.clone(), path: path.clone(), inode, mode, class, len }
    }

    pub(super) async fn create(&self, path: &RelPath) -> Result<SimFile> {
        self.take_descriptor("create", path)?;
        self.check_new("create", path)?;
        let mut inode = None;
        self.change("create", path, |world| inode = Some(world.create(path))).await?;
        let inode = inode.expect("a change that succeeds was applied");
        Ok(self.file(path, inode, Mode::Write))
    }

    pub(super) async fn open(&self, path: &RelPath, mode: Mode) -> Result<SimFile> {
        self.take_descriptor("open", path)?;
        self.ask("open", path).await?;
        let node = self.world().find(path);
        match node {
            Some(Node::File(inode)) => Ok(self.file(path, inode, mode)),
            Some(Node::Dir) => Err(Error::io("open", path.as_str(), libc::EISDIR)),
            None => Err(Error::io("open", path.as_str(), libc::ENOENT)),
        }
    }

    pub(super) async fn rename(&self, from: &RelPath, to: &RelPath) -> Result<()> {
        let node = self.world().find(from);
        let Some(node) = node else {
            return Err(Error::io("rename", from.as_str(), libc::ENOENT));
        };
        self.change("rename", from, |world| world.rename(from, to, node)).await
    }

    pub(super) async fn link(&self, from: &RelPath, to: &RelPath) -> Result<()> {
        let node = self.world().find(from);
        let Some(node @ Node::File(_)) = node else {
            return Err(Error::io("link", from.as_str(), libc::ENOENT));
        };
        self.check_new("link", to)?;
        self.change("link", to, |world| world.add(to, node)).await
    }

    pub(super) async fn unlink(&self, path: &RelPath) -> Result<()> {
        let node = self.world().find(path);
        match node {
            Some(Node::File(_)) => self.change("unlink", path, |world| world.remove(path)).await,
            Some(Node::Dir) => Err(Error::io("unlink", path.as_str(), libc::EISDIR)),
            None => Err(Error::io("unlink", path.as_str(), libc::ENOENT)),
        }
    }

    pub(super) async fn mkdir(&self, path: &RelPath) -> Result<()> {
        if self.world().find(path) == Some(Node::Dir) {
            return self.ask("mkdir", path).await;
        }
        self.check_new("mkdir", path)?;
        self.change("mkdir", path, |world| world.add(path, Node::Dir)).await
    }

    pub(super) async fn rmdir(&self, path: &RelPath) -> Result<()> {
        if self.world().find(path) != Some(Node::Dir) {
            return Err(Error::io("rmdir", path.as_str(), libc::ENOENT));
        }
        if !self.world().children(path).is_empty() {
            return Err(Error::io("rmdir", path.as_str(), libc::ENOTEMPTY));
        }
        self.change("rmdir", path, |world| world.remove(path)).await
    }

    pub(super) async fn list(&self, dir: &RelPath) -> Result<Vec<DirEntry>> {
        self.take_descriptor("open", dir)?;
        self.ask("list", dir).await?;
        let world = self.world();
        if world.find(dir) != Some(Node::Dir) {
            return Err(Error::io("list", dir.as_str(), libc::ENOENT));
        }
        let entry = |(path, node): (RelPath, Node)| DirEntry {
            name: path.name().to_owned(),
            is_dir: node == Node::Dir,
        };
        Ok(world.children(dir).into_iter().map(entry).collect())
    }

    pub(super) async fn exists(&self, path: &RelPath) -> Result<bool> {
        self.ask("stat", path).await?;
        Ok(self.world().find(path).is_some())
    }

    pub(super) async fn stat(&self, path: &RelPath) -> Result<Stat> {
        self.ask("stat", path).await?;
        let found = self.world().stat(path);
        found.ok_or_else(|| Error::io("stat", path.as_str(), libc::ENOENT))
    }

    pub(super) async fn sync_dir(&self, dir: &RelPath) -> Result<()> {
        self.take_descriptor("open", dir)?;
        let fate = self.begin(Kind::Sync, dir, 0, 0);
        let now = self.world().now();
        self.pause(fate).await;
        if fate == Fate::Fail {
            return Err(Error::io("sync", dir.as_str(), self.errno()));
        }
        self.world().settle_names(dir, now);
        Ok(())
    }

    pub(super) async fn lock(&self, path: &RelPath) -> Result<SimLock> {
        self.ask("lock", path).await?;
        if self.world().locked.contains(path) {
            return Err(Error::InUse { file: path.as_str().into() });
        }
        self.world().locked.push(path.clone());
        Ok(SimLock { disk: self.clone(), path: path.clone() })
    }

    pub(super) async fn free_space(&self) -> Result<Space> {
        self.ask("statvfs", &RelPath::root()).await?;
        let world = self.world();
        let total_bytes = world.faults.quota_bytes.unwrap_or(1 << 40);
        Ok(Space { free_bytes: total_bytes.saturating_sub(world.used_with(0, 0)), total_bytes })
    }
}

impl SimFile {
    pub(super) fn of_class(&self, class: IoClass) -> SimFile {
        SimFile { class, ..self.clone() }
    }

    pub(super) fn path(&self) -> &RelPath {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len.get()
    }

    fn failed(&self, op: &'static str, errno: i32) -> Error {
        Error::io(op, self.path.as_str(), errno)
    }

    pub(super) async fn read_at(&self, offset: u64, len: usize) -> Result<View> {
        let _turn = self.disk.turns.take(self.class, len).await;
        let fate = self.disk.begin(Kind::Read, &self.path, offset, len);
        self.disk.pause(fate).await;
        if fate == Fate::Fail {
            return Err(self.failed("read", self.disk.errno()));
        }
        let mut world = self.disk.world();
        if world.unreadable.contains(&self.path) {
            return Err(self.failed("read", libc::EIO));
        }
        let (mut bytes, mut written) = world.read(self.inode, offset, len);
        let odds = world.faults.flip_one_in;
        if world.rng.one_in(odds) && !bytes.is_empty() {
            let bit = world.rng.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            written = written.max(bit / 8 + 1);
        }
        // Not the zeros of a file that is made longer than what is in it.
        let sum = xxh3_64_with_seed(&bytes[..written], offset);
        world.note(&self.path, &[sum]);
        Ok(View::heap(bytes))
    }

    pub(super) async fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize> {
        if self.mode == Mode::Read {
            return Err(self.failed("write", libc::EBADF));
        }
        let _turn = self.disk.turns.take(self.class, bytes.len()).await;
        let fate = self.disk.begin(Kind::Write, &self.path, offset, bytes.len());
        if !self.fits(offset + bytes.len() as u64) {
            self.disk.pause(fate).await;
            return Err(self.failed("write", libc::ENOSPC));
        }
        let (bytes, offset) = self.distort(bytes, offset, fate);
        let id = self.disk.world().write(self.inode, offset, bytes);
        self.disk.pause(fate).await;
        if fate == Fate::Fail {
            return Err(self.failed("write", self.disk.errno()));
        }
        let mut world = self.disk.world();
        if self.mode == Mode::WriteDurably {
            world.settle_write(self.inode, id);
        }
        self.len.set(world.len(self.inode));
        world.writes += 1;
        if world.faults.crash_after_writes == Some(world.writes) {
            world.crashed = true;
        }
        Ok(bytes.len())
    }

    /// What of a write reaches the device, and where.
    fn distort<'a>(&self, bytes: &'a [u8], offset: u64, fate: Fate) -> (&'a [u8], u64) {
        let mut world = self.disk.world();
        let (short, misdirect) = (world.faults.short_write_one_in, world.faults.misdirect_one_in);
        if fate == Fate::Fail || world.rng.one_in(short) {
            let sectors = world.rng.index(bytes.len() / SECTOR);
            return (&bytes[..sectors * SECTOR], offset);
        }
        let may_stray = self.path.as_str().starts_with(world.faults.misdirect_under);
        if may_stray && world.rng.one_in(misdirect) {
            let sectors = world.len(self.inode).max(offset + 1).div_ceil(SECTOR as u64);
            return (bytes, world.rng.below(sectors) * SECTOR as u64);
        }
        (bytes, offset)
    }

    /// Whether the disk has space for this file to be `len` long.
    fn fits(&self, len: u64) -> bool {
        let world = self.disk.world();
        let grows = len > world.len(self.inode);
        let quota = world.faults.quota_bytes;
        !grows || quota.is_none_or(|quota| world.used_with(self.inode, len) <= quota)
    }

    pub(super) async fn sync(&self) -> Result<()> {
        let _turn = self.disk.turns.take(self.class, 0).await;
        let fate = self.disk.begin(Kind::Sync, &self.path, 0, 0);
        let now = self.disk.world().now();
        self.disk.pause(fate).await;
        if fate == Fate::Fail {
            self.disk.world().lose(self.inode, now);
            return Err(self.failed("sync", self.disk.errno()));
        }
        self.disk.world().settle(self.inode, now);
        Ok(())
    }

    pub(super) async fn allocate(&self, len: u64) -> Result<()> {
        let fits = self.fits(len);
        self.resize("allocate", fits, |world| world.reserve(self.inode, len)).await
    }

    pub(super) async fn set_len(&self, len: u64) -> Result<()> {
        self.resize("truncate", true, |world| world.set_len(self.inode, len)).await
    }

    async fn resize(&self, op: &'static str, fits: bool, f: impl FnOnce(&mut World)) -> Result<()> {
        if self.mode == Mode::Read {
            return Err(self.failed(op, libc::EBADF));
        }
        let fate = self.disk.begin(Kind::Write, &self.path, 0, 0);
        if fits && fate != Fate::Fail {
            f(&mut self.disk.world());
        }
        self.disk.pause(fate).await;
        self.len.set(self.disk.world().len(self.inode));
        match fate {
            Fate::Fail => Err(self.failed(op, self.disk.errno())),
            _ if !fits => Err(self.failed(op, libc::ENOSPC)),
            _ => Ok(()),
        }
    }
}

impl World {
    /// Adds to the run's fingerprint.
    fn note(&mut self, path: &RelPath, numbers: &[u64]) {
        self.trace = xxh3_64_with_seed(path.as_str().as_bytes(), self.trace);
        // Each step is one to one: what differs once stays different.
        for number in numbers {
            let mixed = (self.trace ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            self.trace = mixed ^ (mixed >> 32);
        }
    }
}

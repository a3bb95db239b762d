//! The shards of a node on one thread, driven by hand: for tests and measurements without sockets.
//!
//! ```text
//! ManualNode::open(disk, config) ─► boot, engines, shards: the code of a real node
//! run_ready ─► polls the tasks that were woken     run_one ─► polls one of them, of its owner's choice
//! advance ─► moves the time, and the wall clock with it     set_wall_back ─► moves the wall clock alone
//! ```
//!
//! Time stands still but for these, nothing happens between two calls, and on the
//! simulated disk nothing waits unless its faults say so: a run is a function of what its owner does.
//!
//! Not here: passes. The layer above drives its shards' mail and answers itself.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use engine::io::Disk;

use crate::boot::{Booted, Home, boot, measure_space, open_engine, random_seed};
use crate::clock::{Clock, Clocks};
use crate::groups::Group;
use crate::mailbox::{mesh, ring_slots};
use crate::node::NodeConfig;
use crate::notify::Notify;
use crate::owner::Sharder;
use crate::peers::Mail;
use crate::protocol::Protocol;
use crate::runtime::Runtime;
use crate::shard::{Parts, Shard};
use crate::suspended::Suspended;
use crate::timestamps::{self, keep_noting};

/// Tasks and a time, both moved by their owner.
pub struct Manual {
    tasks: Suspended<()>,
    /// What the wall clock said when it was made, since 1970, less what it was set back since.
    began: Cell<Duration>,
    now: Cell<Duration>,
    timers: RefCell<Vec<(Duration, Waker)>>,
}

impl Manual {
    /// No tasks; the wall clock says so many microseconds since 1970.
    pub(crate) fn new(wall_us: i64) -> Rc<Manual> {
        let tasks = Suspended::new(Arc::new(Notify::new()));
        let began = Cell::new(Duration::from_micros(wall_us.max(0).unsigned_abs()));
        Rc::new(Manual { tasks, began, now: Cell::default(), timers: RefCell::default() })
    }

    /// Adds a task.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.tasks.add(future);
    }

    /// Waits until the time is moved so far.
    pub(crate) async fn sleep(&self, time: Duration) {
        let due = self.now.get() + time;
        poll_fn(|context| {
            if self.now.get() >= due {
                return Poll::Ready(());
            }
            self.timers.borrow_mut().push((due, context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// How far the time was moved.
    pub(crate) fn now(&self) -> Duration {
        self.now.get()
    }

    /// The wall clock, since 1970.
    pub fn wall(&self) -> Duration {
        self.began.get() + self.now.get()
    }

    /// Sets the wall clock back, as far as 1970 at most; the time goes on from where it is.
    pub fn set_wall_back(&self, time: Duration) {
        self.began.set(self.began.get().saturating_sub(time));
    }

    /// Polls one of the tasks that were woken, by the place that `choose` names among so many. Whether there were any.
    pub fn run_one(&self, choose: impl FnOnce(usize) -> usize) -> bool {
        self.tasks.step(choose, |()| {})
    }

    /// Polls the tasks that were woken. Whether there were any.
    #[inline]
    pub fn run_ready(&self) -> bool {
        self.tasks.run_woken(|()| {})
    }

    /// Moves the time and wakes what has slept until then.
    pub fn advance(&self, time: Duration) {
        self.now.set(self.now.get() + time);
        let (due, later) =
            self.timers.take().into_iter().partition(|(due, _)| *due <= self.now.get());
        self.timers.replace(later);
        let due: Vec<(Duration, Waker)> = due;
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// All shards of a node. See the module.
pub struct ManualNode<P: Protocol> {
    manual: Rc<Manual>,
    shards: Vec<Rc<Shard<P>>>,
    booted: Booted,
    home: Rc<Home>,
    clocks: Arc<Clocks>,
}

impl<P: Protocol> ManualNode<P> {
    /// Opens or makes the data directory on `disk`, and a shard for each of `config.shards`.
    pub fn open(disk: &Disk, config: &NodeConfig) -> engine::Result<ManualNode<P>> {
        ManualNode::open_with(disk, config, &random_seed)
    }

    /// The same; each call of `seed` gives another number that no start before had.
    pub fn open_with(
        disk: &Disk,
        config: &NodeConfig,
        seed: &impl Fn() -> u64,
    ) -> engine::Result<ManualNode<P>> {
        let manual = Manual::new(config.wall_us);
        let (booted, home, schema_log) = at_once(boot(disk, config, seed))?;
        let mut schema_log = Some(schema_log);
        let ports = mesh::<Mail<P>>(config.shards).expect("an eventfd a shard can be made");
        let mut shards = Vec::new();
        for port in ports {
            let me = port.outbox.me();
            shards.push(Shard::new(Parts {
                runtime: Runtime::manual(manual.clone()),
                engine: at_once(open_engine(disk, config, &booted, me, seed()))?,
                sharder: Sharder::new(config.shards),
                schema: booted.schema.clone(),
                schema_log: schema_log.take(),
                port,
                mail_slots: ring_slots(config.shards),
                reserve_bytes: config.reserve_bytes,
                throughput: booted.throughput.clone(),
                wake: Arc::new(Notify::new()),
            }));
        }
        for shard in &shards {
            at_once(measure_space(shard.engine(), config, shard.me()));
        }
        let (home, clocks) = (Rc::new(home), Clocks::new(config.shards));
        Ok(ManualNode { manual, shards, booted, home, clocks })
    }

    /// The tasks and the clock of the node.
    pub fn manual(&self) -> &Manual {
        &self.manual
    }

    /// The node's shards, in order.
    pub fn shards(&self) -> &[Rc<Shard<P>>] {
        &self.shards
    }

    /// A clock for each core: it gives timestamps above what was given before the start. Call it once.
    pub fn clocks(&self) -> impl Iterator<Item = Rc<Clock>> + use<'_, P> {
        let newest = self.shards.iter().map(|shard| shard.engine().newest_timestamp_us()).max();
        let newest_us = newest.expect("a node has a shard");
        let floor_us = timestamps::floor_us(self.booted.noted_us, newest_us);
        (0..self.shards.len()).map(move |core| {
            let clock = Clock::of(self.clocks.clone(), core);
            clock.at_least(floor_us);
            let clock = Rc::new(clock);
            self.shards[core].keep_views(clock.clone());
            clock
        })
    }

    /// Notes the timestamps that were given, as the first core does every second.
    pub fn note_timestamps(&self) -> engine::Result<()> {
        at_once(self.home.note(self.clocks.given_us()))
    }

    /// The same beside everything else, whenever a second of the node's time is over.
    pub fn keep_noting(&self) {
        let runtime = self.shards[0].runtime();
        let noting = keep_noting(runtime.clone(), self.clocks.clone(), self.home.clone());
        runtime.spawn(Group::Background, noting);
    }

    /// What was found in, or made of, the data directory.
    pub fn booted(&self) -> &Booted {
        &self.booted
    }
}

/// Its tasks hold the shards, which hold the tasks.
impl<P: Protocol> Drop for ManualNode<P> {
    fn drop(&mut self) {
        self.manual.tasks.clear();
    }
}

/// Runs a future that waits for nothing but the simulated disk, which makes no one wait.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

//! How many requests of jobs a device takes at a time: measured once for each data directory, and kept in it.
//!
//! ```text
//! DATA/device     requests of flushes and compactions: 2
//!                 requests of reading ahead: 8              removed by who has moved the data: it is measured again
//! ```
//!
//! 1. A scratch file is written, and written again by 1, 2, .. requests of `BACKGROUND_REQUEST_BYTES_MAX` at a time;
//!    then read in pieces of 32 KiB at random places by 1, 2, .. requests at a time. Each of these takes [`STEP`].
//! 2. The fewest requests are taken that move nearly as much as any number of them ([`ENOUGH_PERCENT`]): one more would
//!    only stand before the commits and reads of clients.
//! 3. Cores share the device, and so the requests.
//!
//! A measurement that fails, on a full disk for example, fails no start: then the limits are those of a device that was
//! not measured, and the next start measures. Not here: who may issue next (`engine::io`).

use std::cell::Cell;
use std::time::{Duration, Instant};

use engine::io::{Disk, File, InFlightLimits, IoClass, RelPath, Rng};
use engine::{Error, Result};

use crate::router::join;

const NAME: &str = "device";
const SCRATCH: &str = "device-scratch";
const SCRATCH_BYTES: u64 = 8 << 20;
const WRITE_BYTES: usize = engine::limits::BACKGROUND_REQUEST_BYTES_MAX;
const READ_BYTES: usize = 32 << 10;
/// How long one number of requests is tried.
const STEP: Duration = Duration::from_millis(10);
/// A number of requests is enough when it moves so many percent of what the best one moves.
const ENOUGH_PERCENT: u64 = 85;
/// No shard has more jobs that write at a time than there are in this list.
const JOBS: [usize; 3] = [1, 2, 4];
const AHEAD: [usize; 5] = [1, 2, 4, 8, 16];
/// What the file that keeps the limits has at most, in bytes.
const KEPT_BYTES: usize = 4096;

/// The limits of the device that holds the data, measured if that was not done.
pub(crate) async fn limits(disk: &Disk) -> InFlightLimits {
    match find(disk).await {
        Ok(Some(limits)) => return limits,
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "what was measured of the device cannot be read"),
    }
    match measure(disk).await {
        Ok(limits) => {
            tracing::info!(jobs = limits.jobs, ahead = limits.ahead, "the device was measured");
            limits
        }
        Err(error) => {
            tracing::warn!(%error, "the device was not measured");
            InFlightLimits::default()
        }
    }
}

/// What of them one of `shards` cores has.
pub(crate) fn share(limits: InFlightLimits, shards: usize) -> InFlightLimits {
    let of = |all: usize| (all / shards).max(1);
    InFlightLimits { jobs: of(limits.jobs), ahead: of(limits.ahead) }
}

/// What an earlier start has measured; `None` if there is nothing that can be understood.
async fn find(disk: &Disk) -> Result<Option<InFlightLimits>> {
    let path = RelPath::root().join(NAME);
    if !disk.exists(&path).await? {
        return Ok(None);
    }
    let file = disk.open(&path).await?;
    let text = file.read_at(0, KEPT_BYTES).await;
    file.close().await?;
    Ok(parse(&text?))
}

fn text_of(limits: InFlightLimits) -> String {
    let InFlightLimits { jobs, ahead } = limits;
    format!("requests of flushes and compactions: {jobs}\nrequests of reading ahead: {ahead}\n")
}

fn parse(text: &[u8]) -> Option<InFlightLimits> {
    let text = std::str::from_utf8(text).ok()?;
    let mut numbers = text.lines().map(|line| line.rsplit(": ").next()?.parse::<usize>().ok());
    let (jobs, ahead) = (numbers.next()??, numbers.next()??);
    let limits = InFlightLimits { jobs, ahead };
    let is_measured = JOBS.contains(&jobs) && AHEAD.contains(&ahead);
    (is_measured && text.starts_with(&text_of(limits))).then_some(limits)
}

async fn measure(disk: &Disk) -> Result<InFlightLimits> {
    let path = RelPath::root().join(SCRATCH);
    remove(disk, &path).await?;
    let scratch = disk.create(&path).await?;
    let measured = measure_on(disk, &scratch).await;
    disk.limit_in_flight(InFlightLimits::default());
    scratch.close().await?;
    remove(disk, &path).await?;
    let limits = measured?;
    keep(disk, limits).await?;
    Ok(limits)
}

async fn remove(disk: &Disk, path: &RelPath) -> Result<()> {
    match disk.unlink(path).await {
        Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Replaces what is kept at once, as the layout is replaced: a crash leaves the old text, the new one or none.
async fn keep(disk: &Disk, limits: InFlightLimits) -> Result<()> {
    let (path, new) = (RelPath::root().join(NAME), RelPath::root().join("device-new"));
    remove(disk, &new).await?;
    let file = disk.create(&new).await?;
    let mut text = text_of(limits);
    let bytes = text.len() as u64;
    text.extend(std::iter::repeat_n('\n', KEPT_BYTES - text.len()));
    let mut buf = file.buf(KEPT_BYTES);
    buf.put(text.as_bytes());
    file.write_at(buf, 0).await?;
    file.set_len(bytes).await?;
    file.sync().await?;
    file.close().await?;
    disk.rename(&new, &path).await?;
    disk.sync_dir(&RelPath::root()).await
}

async fn measure_on(disk: &Disk, scratch: &File) -> Result<InFlightLimits> {
    scratch.allocate(SCRATCH_BYTES).await?;
    let writes = &scratch.of_class(IoClass::Flush);
    // The first writes to a file are slower than those over them: the file system notes what was never written.
    for at in 0..SCRATCH_BYTES / WRITE_BYTES as u64 {
        write(writes, at).await?;
    }
    let mut moved = Vec::new();
    for jobs in JOBS {
        disk.limit_in_flight(InFlightLimits { jobs, ahead: 1 });
        moved.push(rate(jobs, Instant::now, async |at| write(writes, at).await).await?);
    }
    let jobs = JOBS[enough(&moved)];
    let reads = &scratch.of_class(IoClass::Ahead);
    moved.clear();
    for ahead in AHEAD {
        disk.limit_in_flight(InFlightLimits { jobs, ahead });
        moved.push(rate(ahead, Instant::now, async |at| read(reads, at).await).await?);
    }
    Ok(InFlightLimits { jobs, ahead: AHEAD[enough(&moved)] })
}

/// The first that is nearly as good as the best.
fn enough(moved: &[u64]) -> usize {
    let best = moved.iter().max().copied().unwrap_or(0);
    let is_enough = |moved: &u64| moved * 100 >= best * ENOUGH_PERCENT;
    moved.iter().position(is_enough).expect("the best is enough")
}

/// How many requests end in a second if so many are made at a time: as many are begun as fit into [`STEP`], and all of
/// them are waited for, since those in flight at its end would make a slow device look faster the more there are.
async fn rate(
    at_a_time: usize,
    now: impl Fn() -> Instant,
    request: impl AsyncFn(u64) -> Result<()>,
) -> Result<u64> {
    let (begun, next) = (now(), Cell::new(0));
    let request = &request;
    let one = async || {
        while now() - begun < STEP {
            request(next.replace(next.get() + 1)).await?;
        }
        Ok(())
    };
    let ended: Result<()> = join((0..at_a_time).map(|_| one())).await.into_iter().collect();
    let micros = u64::try_from((now() - begun).as_micros()).unwrap_or(u64::MAX).max(1);
    ended.map(|()| next.get() * 1_000_000 / micros)
}

async fn write(scratch: &File, at: u64) -> Result<()> {
    let mut rng = Rng::new(at);
    let mut buf = scratch.buf(WRITE_BYTES);
    // What a device cannot compress.
    for _ in 0..WRITE_BYTES / 8 {
        buf.put(&rng.roll().to_le_bytes());
    }
    scratch.write_at(buf, at * WRITE_BYTES as u64 % SCRATCH_BYTES).await
}

async fn read(scratch: &File, at: u64) -> Result<()> {
    let place = Rng::new(at).below(SCRATCH_BYTES / READ_BYTES as u64);
    scratch.read_exact_at(place * READ_BYTES as u64, READ_BYTES).await.map(drop)
}

#[cfg(test)]
mod tests {
    use engine::io::{Crash, Faults, SimDisk, SimExec};
    use futures_lite::future::{block_on, yield_now};

    use super::*;

    #[test]
    fn the_fewest_requests_that_are_nearly_as_good_are_enough() {
        assert_eq!(enough(&[100, 190, 380]), 2, "each number of them is better");
        assert_eq!(enough(&[100, 190, 200]), 1);
        assert_eq!(enough(&[100, 100, 90]), 0);
        assert_eq!(enough(&[0, 0]), 0, "nothing ended in time");
    }

    /// Before: a slow device seemed to be the faster the more requests were with it when the time was over.
    #[test]
    fn a_device_that_does_one_request_at_a_time_gets_one() {
        for took in [Duration::from_micros(300), Duration::from_millis(8)] {
            let (now, busy) = (Cell::new(Instant::now()), Cell::new(false));
            let serial = async |_| {
                while busy.replace(true) {
                    yield_now().await;
                }
                yield_now().await;
                now.set(now.get() + took);
                busy.set(false);
                Ok(())
            };
            let rates = AHEAD.map(|ahead| block_on(rate(ahead, || now.get(), serial)));
            let rates = rates.map(|rate| rate.expect("nothing fails"));
            assert_eq!(enough(&rates), 0, "{rates:?} of {took:?} each");
        }
    }

    #[test]
    fn shards_share_the_requests_and_each_has_one() {
        let limits = InFlightLimits { jobs: 4, ahead: 8 };
        assert_eq!(share(limits, 2), InFlightLimits { jobs: 2, ahead: 4 });
        assert_eq!(share(limits, 100), InFlightLimits { jobs: 1, ahead: 1 });
    }

    #[test]
    fn only_what_was_measured_is_understood() {
        let limits = InFlightLimits { jobs: 2, ahead: 16 };
        assert_eq!(parse(text_of(limits).as_bytes()), Some(limits));
        let zero = text_of(InFlightLimits { jobs: 0, ahead: 16 });
        for text in ["", "requests", "requests of reading ahead: 2\n", &zero, "1: 4\n2: 4\n"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(&[0xFF; 9]), None);
    }

    /// It is there after a power cut, and no scratch file is.
    #[test]
    fn what_was_measured_once_is_found_again() {
        let sim = SimDisk::new(1, Faults::default());
        let disk = Disk::Sim(sim.clone());
        let measured = SimExec::new(1).run(async move { measure(&disk).await }).done();
        let measured = measured.expect("nothing fails");
        let sim = sim.crash(1, Crash::Nothing);
        let disk = Disk::Sim(sim.clone());
        let found = SimExec::new(1).run(async move { find(&disk).await }).done();
        assert_eq!(found, Ok(Some(measured)));
        assert_eq!(sim.bytes(&RelPath::root().join(SCRATCH)), None);
    }

    #[test]
    fn a_full_disk_is_not_measured_and_ends_no_start() {
        let faults = Faults { quota_bytes: Some(1 << 20), ..Faults::default() };
        let sim = SimDisk::new(1, faults);
        let disk = Disk::Sim(sim.clone());
        let found = SimExec::new(1).run(async move { limits(&disk).await }).done();
        assert_eq!(found, InFlightLimits::default());
        assert_eq!(sim.bytes(&RelPath::root().join(SCRATCH)), None);
    }
}

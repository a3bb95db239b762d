//! A short history that is answered wrongly, out of a long one.
//!
//! Delta debugging (Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002): halves, quarters,
//! ... of the steps are left out, and what is still answered wrongly is kept; then statements of batches, and columns
//! of writes.
//!
//! Invariants
//! 1. Each attempt is a life of its own, with a table of its own, in the protocol version of the world that failed.
//! 2. A mismatch counts only if it is of the kind that was found: an error, or another answer.
//! 3. The step that was answered wrongly is never left out. No attempt begins after the time limit.
//!
//! Not here: steps and answers (`world.rs`), how a history is printed (`main.rs`).

use std::time::{Duration, Instant};

use cql::frame::client::Reply;

use crate::connection::Connection;
use crate::driver::{Failed, Plan, admin, connect, version_of};
use crate::prepared::Preparations;
use crate::schema::Schema;
use crate::statement::{Operation, Step};
use crate::world::{Mismatch, Wish, World};

/// No attempt is begun after so long.
const LIMIT: Duration = Duration::from_secs(30);
/// A mismatch that comes by chance is looked for so often.
const REPEATS: usize = 3;

/// The shortest history found, with its mismatch; `None` if the world is answered rightly when it is lived again.
pub(crate) fn shrink(plan: &Plan, failed: &Failed) -> Result<Option<Failed>, String> {
    let mut shrinking = Shrinking {
        plan,
        connection: connect(plan, version_of(failed.world.seed))?,
        preparations: Preparations::default(),
        begin: failed.world.begin.clone(),
        seed: failed.world.seed,
        attempts: 0,
        started: Instant::now(),
        is_error: failed.mismatch.got.starts_with("error "),
    };
    let steps = failed.world.history.clone();
    let mut best = None;
    for _ in 0..REPEATS {
        if best.is_none() {
            best = shrinking.live(&steps)?;
        }
    }
    let Some(mut best) = best else { return Ok(None) };
    shrinking.leave_out(&mut best)?;
    shrinking.simplify(&mut best)?;
    Ok(Some(best))
}

struct Shrinking<'a> {
    plan: &'a Plan,
    connection: Connection,
    preparations: Preparations,
    begin: Schema,
    seed: u64,
    attempts: usize,
    started: Instant,
    is_error: bool,
}

impl Shrinking<'_> {
    fn has_time(&self) -> bool {
        self.started.elapsed() < LIMIT
    }

    /// Leaves out more and more, smaller and smaller parts.
    fn leave_out(&mut self, best: &mut Failed) -> Result<(), String> {
        let mut size = best.world.history.len() / 2;
        while size > 0 {
            let mut at = 0;
            while at < best.world.history.len() && self.has_time() {
                let mut steps = best.world.history.clone();
                let end = (at + size).min(steps.len() - 1);
                if at >= end {
                    break;
                }
                steps.drain(at..end);
                match self.live(&steps)? {
                    Some(shorter) => *best = shorter,
                    None => at += size,
                }
            }
            size /= 2;
        }
        Ok(())
    }

    /// Takes statements out of batches and columns out of writes.
    fn simplify(&mut self, best: &mut Failed) -> Result<(), String> {
        for at in 0..best.world.history.len() {
            let mut simpler = simpler(&best.world.history, at, 0);
            let mut number = 0;
            while let Some(steps) = simpler.filter(|_| self.has_time()) {
                match self.live(&steps)? {
                    Some(shorter) if shorter.world.history.len() == steps.len() => *best = shorter,
                    _ => number += 1,
                }
                simpler = self::simpler(&best.world.history, at, number);
            }
        }
        Ok(())
    }

    /// Lives these steps, and tells the mismatch that is of the kind that was found.
    fn live(&mut self, steps: &[Step]) -> Result<Option<Failed>, String> {
        self.attempts += 1;
        let name = format!("x{}_{}", self.seed, self.attempts);
        let steps: Vec<Step> = steps
            .iter()
            .filter(|step| !matches!(step.operation, Operation::Create | Operation::Leave))
            .cloned()
            .collect();
        let mut world =
            World::scripted(self.seed, name.clone(), self.plan.abilities(), &self.begin, &steps);
        let mut mismatch = None;
        while mismatch.is_none() {
            match world.advance() {
                Wish::Nothing => return Ok(None),
                Wish::Admin(line) => admin(self.plan.admin.as_deref(), &line)?,
                Wish::Request => {
                    self.connection.ask(&world.request(), 0);
                    mismatch = self.connection.next(|_, reply: &Reply<'_>| {
                        world.answered(reply, &self.preparations).err()
                    })?;
                }
            }
        }
        self.connection.must(&format!("DROP TABLE IF EXISTS {name}"))?;
        let mismatch: Option<Mismatch> = mismatch.map(|mismatch| *mismatch);
        let same = mismatch.filter(|one| one.got.starts_with("error ") == self.is_error);
        Ok(same.map(|mismatch| Failed { world, mismatch, error: None }))
    }
}

/// The steps without one part of a write, of which there are several; `None` behind the last of its parts.
fn simpler(steps: &[Step], at: usize, number: usize) -> Option<Vec<Step>> {
    let mut steps = steps.to_vec();
    let operation = &mut steps.get_mut(at)?.operation;
    let (Operation::Write(mutations) | Operation::Logged(mutations)) = operation else {
        return None;
    };
    if mutations.len() > 1 {
        if number >= mutations.len() {
            return None;
        }
        mutations.remove(number);
        return Some(steps);
    }
    let changes = &mut mutations.first_mut()?.changes;
    if changes.len() < 2 || number >= changes.len() {
        return None;
    }
    changes.remove(number);
    Some(steps)
}

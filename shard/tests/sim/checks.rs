//! What a node is asked while it lives, compared with the oracle.
//!
//! ```text
//! verify_all        every table of every shard, in pages         nothing else is under way
//! check_partition   one partition from memory                    writes are under way
//! check_slices      slices of a partition, or one row            nothing else is under way
//! race_read         a partition, in pages                        while it is written to
//! ```

use std::collections::BTreeSet;

use engine::commitlog::SyncMode;
use engine::io::{Disk, Rng};
use engine::{Engine, Error};
use futures_lite::future::{yield_now, zip};
use model::TokenRange;
use model::read::{Partitions, ReadCommand, Slice};

use crate::life::{Life, truncate};
use crate::lookups;
use crate::node::{Node, Taken, command};
use crate::oracle::{Facts, Part, Seen};
use crate::schema::TABLES;
use crate::workload::{KEYS, NOTE_BYTES, clustering, token};
use crate::world::{End, Lived, Shared, Truncation};

/// Far more pages than the rows of a world have.
const PAGES_MAX: u64 = 10_000;

/// What a scan of a table gives, shard by shard, in pages.
async fn scan(engine: &Engine, mut command: ReadCommand, rng: &mut Rng) -> Lived<Taken> {
    let mut taken = Taken::default();
    for _ in 0..PAGES_MAX {
        command.limits.page_rows = 1 + rng.below(20);
        let end = engine.read(&command, &mut taken, yield_now).await?;
        let Some(resume) = end.more else { return Ok(taken) };
        command.resume = Some(resume);
    }
    panic!("a scan of {PAGES_MAX} pages without an end");
}

/// What a read gave; `None` if it failed because of the file that was damaged.
fn served<T>(read: Lived<T>, world: &Shared) -> Lived<Option<T>> {
    match read {
        Err(End::Failed(error)) if world.borrow_mut().is_named(&error) => Ok(None),
        read => read.map(Some),
    }
}

/// Compares every table with the oracle, and ends a truncation that the power cut ended.
pub(crate) async fn verify_all(node: &Node, world: &Shared, rng: &mut Rng) -> Lived {
    check_files(node, world);
    for table in 1..TABLES {
        let (id, now_s) = (world.borrow().workload.id(table), world.borrow().workload.now_s);
        let truncating = world.borrow().truncating.clone();
        let truncating = truncating.filter(|truncation| truncation.table == table);
        for (engine, range) in node.engines.iter().zip(&node.owned) {
            let partitions = Partitions::Range(TokenRange::ALL);
            let mut command = command(id, partitions, now_s);
            command.reversed = rng.one_in(2);
            let Some(mut taken) = served(scan(engine, command.clone(), rng).await, world)? else {
                continue;
            };
            if command.reversed {
                taken.0.values_mut().for_each(|seen| seen.rows.reverse());
            }
            compare(&world.borrow().visible(), (table, now_s), range, &taken, truncating.as_ref());
            world.borrow_mut().tally.compared += 1;
        }
        if truncating.is_some() {
            truncate(node, world, table).await?;
        }
    }
    lookups::check_all(node, world, rng).await
}

/// No shard has deleted what this or another one has, but for the file that was damaged: it may have been lost.
fn check_files(node: &Node, world: &Shared) {
    let damaged = world.borrow().damaged.as_ref().map(|(path, _)| path.clone());
    for engine in &node.engines {
        let Disk::Sim(disk) = engine.disk() else { unreachable!("worlds are simulated") };
        for path in engine.files() {
            let is_there = disk.has(&path) || damaged.as_ref() == Some(&path);
            assert!(is_there, "{path} was deleted, and a shard has it");
        }
    }
}

fn compare(
    facts: &Facts,
    (table, now_s): (usize, u32),
    range: &TokenRange,
    taken: &Taken,
    truncating: Option<&Truncation>,
) {
    let owned: Vec<Vec<u8>> =
        (0..KEYS).filter(|key| range.contains(token(*key))).map(|key| vec![key]).collect();
    let keys = taken.0.keys().filter(|key| key.len() != NOTE_BYTES);
    assert!(keys.into_iter().all(|key| owned.contains(key)), "of others: {:?}", taken.0.keys());
    for key in owned {
        let part: Part = (table, key[0]);
        let taken = taken.0.get(&key).cloned().unwrap_or_default();
        let wanted = facts.seen(part, now_s);
        // Shard by shard, and with other shards now each had some of the keys.
        let is_truncated =
            truncating.is_some_and(|truncation| is_emptied(facts, part, truncation, &taken, now_s));
        assert!(
            taken == wanted || is_truncated,
            "table {table} key {key:?} at {now_s}: taken {taken:?}, wanted {wanted:?}"
        );
    }
}

/// Whether `seen` is what a truncation left of a partition: nothing that was said before it, and of what came
/// meanwhile the last.
fn is_emptied(facts: &Facts, part: Part, truncation: &Truncation, seen: &Seen, now_s: u32) -> bool {
    let count = facts.count(part);
    let before = truncation.before.get(&part).copied().unwrap_or(0).min(count);
    (before..=count).any(|taken| facts.seen_of(part, taken..count, now_s) == *seen)
}

impl Life {
    /// A partition from memory, while writes are under way: what was answered, and nothing else.
    pub(crate) fn check_partition(&mut self) -> Lived {
        self.take_answers()?;
        if self.sees_less() {
            return Ok(());
        }
        let w = self.world.borrow();
        let (key, table) = (self.rng.below(KEYS.into()) as u8, 1 + self.rng.index(TABLES - 1));
        let engine = &self.node.engines[self.node.shard_of(token(key))];
        let keys = Partitions::Keys(vec![(token(key), Box::from([key]))]);
        let mut taken = Taken::default();
        let now_s = w.workload.now_s;
        match engine.read_cached(&command(w.workload.id(table), keys, now_s), &mut taken) {
            Err(Error::WouldBlock) => return Ok(()),
            Err(error) => {
                drop(w);
                return served(Err::<(), _>(End::Failed(error)), &self.world).map(drop);
            }
            Ok(_) => {}
        };
        let seen = taken.0.remove(&vec![key]).unwrap_or_default();
        assert_eq!(seen, w.visible().seen((table, key), now_s), "table {table} key {key}");
        Ok(())
    }

    /// With a periodic log what was taken is seen at once; what waits for space is not.
    fn sees_less(&self) -> bool {
        let is_periodic = self.world.borrow().sync == SyncMode::Periodic;
        is_periodic && self.node.engines.iter().any(|engine| engine.writes_deferred() > 0)
    }

    /// Slices of a few partitions, or one row, with all that can be asked of them.
    pub(crate) async fn check_slices(&mut self) -> Lived {
        self.answered().await?;
        let (table, key) = (1 + self.rng.index(TABLES - 1), self.rng.below(KEYS.into()) as u8);
        let (id, now_s, mut wanted) = {
            let w = self.world.borrow();
            let now_s = w.workload.now_s;
            (w.workload.id(table), now_s, w.visible().seen((table, key), now_s))
        };
        let mut command =
            command(id, Partitions::Keys(vec![(token(key), Box::from([key]))]), now_s);
        command.reversed = self.rng.one_in(2);
        if table >= 2 {
            command.slices = self.slices(table);
        }
        let reversed = command.reversed;
        let inside = command.slices.clone();
        let engine = self.node.engines[self.node.shard_of(token(key))].clone();
        let read = scan(&engine, command, &mut self.rng).await;
        let Some(mut taken) = served(read, &self.world)? else { return Ok(()) };
        wanted.rows.retain(|(at, _)| inside.iter().any(|slice| slice.contains(at)));
        if reversed {
            wanted.rows.reverse();
        }
        let seen = taken.0.remove(&vec![key]).unwrap_or_default();
        assert_eq!(seen, wanted, "table {table} key {key} slices {inside:?}");
        Ok(())
    }

    fn slices(&mut self, table: usize) -> Vec<Slice> {
        let value = |rng: &mut Rng| rng.below(6) as u8;
        let rng = &mut self.rng;
        if rng.one_in(2) {
            return vec![Slice::row(clustering(table, &[value(rng), value(rng)]))];
        }
        let mut borders: Vec<Vec<u8>> = (0..4)
            .map(|_| {
                let values = [value(rng), value(rng)];
                let mut bound = clustering(table, &values[..rng.index(3)]);
                if rng.one_in(2) {
                    model::key::after(&mut bound);
                }
                bound
            })
            .collect();
        borders.sort();
        borders.dedup();
        let slice = |pair: &[Vec<u8>]| Slice { start: pair[0].clone(), end: pair[1].clone() };
        match borders.chunks_exact(2).map(slice).collect::<Vec<_>>() {
            slices if slices.is_empty() => vec![Slice::all()],
            slices => slices,
        }
    }

    /// Reads a partition, or all that a shard has of a table, in pages while it is written to: each row is as it was at
    /// some time between.
    pub(crate) async fn race_read(&mut self) -> Lived {
        self.take_answers()?;
        if self.sees_less() {
            self.answered().await?;
        }
        let (table, key) = (1 + self.rng.index(TABLES - 1), self.rng.below(KEYS.into()) as u8);
        let shard = self.node.shard_of(token(key));
        let (parts, partitions): (Vec<Part>, Partitions) = match self.rng.one_in(2) {
            true => (vec![(table, key)], Partitions::Keys(vec![(token(key), Box::from([key]))])),
            false => {
                let keys = (0..KEYS).filter(|key| self.node.shard_of(token(*key)) == shard);
                (keys.map(|key| (table, key)).collect(), Partitions::Range(TokenRange::ALL))
            }
        };
        let (id, now_s, before) = {
            let w = self.world.borrow();
            let facts = w.visible();
            let before: Vec<usize> = parts.iter().map(|part| facts.count(*part)).collect();
            (w.workload.id(table), w.workload.now_s, before)
        };
        let mut command = command(id, partitions, now_s);
        command.reversed = self.rng.one_in(2);
        let engine = self.node.engines[shard].clone();
        let mut rng = Rng::new(self.rng.roll());
        let (taken, written) = zip(scan(&engine, command, &mut rng), self.write_some()).await;
        written?;
        let Some(taken) = served(taken, &self.world)? else { return Ok(()) };
        let mut raced = false;
        let mut w = self.world.borrow_mut();
        let facts = w.said();
        for (part, before) in parts.into_iter().zip(before) {
            let seen = taken.0.get(&vec![part.1]).cloned().unwrap_or_default();
            let counts = before..=facts.count(part);
            let states: Vec<Seen> =
                counts.map(|until| facts.seen_of(part, 0..until, now_s)).collect();
            assert_between(&seen, &states, part);
            raced |= states.len() > 1;
        }
        w.tally.raced += u64::from(raced);
        Ok(())
    }

    /// What a truncation has left while the table was written to: nothing that was said before it, and of what came
    /// meanwhile the last.
    pub(crate) async fn find_truncated(&mut self) -> Lived {
        let truncation = self.world.borrow().truncating.clone().expect("it was begun");
        let table = truncation.table;
        let (id, now_s) = {
            let w = self.world.borrow();
            (w.workload.id(table), w.workload.now_s)
        };
        let (mut scans, mut noted) = (Vec::new(), BTreeSet::new());
        for engine in &self.node.engines {
            let all = Partitions::Range(TokenRange::ALL);
            let taken = scan(engine, command(id, all, now_s), &mut self.rng).await?;
            let notes =
                taken.0.keys().filter_map(|key| Some(u64::from_be_bytes(key[..].try_into().ok()?)));
            noted.extend(notes);
            scans.push(taken);
        }
        let mut w = self.world.borrow_mut();
        w.sure.clear_table(table);
        let mut kept = vec![false; self.node.engines.len()];
        for (shard, mut record) in truncation.raced {
            let is_kept = noted.contains(&record.number);
            assert!(is_kept || !kept[shard], "a hole at record {} of table {table}", record.number);
            kept[shard] = is_kept;
            if is_kept {
                record.facts.retain(|((of, _), _)| *of == table);
                w.sure.add(&record);
            }
        }
        for (taken, range) in scans.iter().zip(&self.node.owned) {
            compare(&w.sure, (table, now_s), range, taken, None);
        }
        w.truncating = None;
        w.tally.truncated += 1;
        w.tally.raced_truncates += 1;
        Ok(())
    }
}

/// Whether each row, and the static one, is as in one of the states, and is given once.
fn assert_between(seen: &Seen, states: &[Seen], part: Part) {
    let once: BTreeSet<&Vec<u8>> = seen.rows.iter().map(|(at, _)| at).collect();
    assert_eq!(once.len(), seen.rows.len(), "a row of {part:?} comes twice: {seen:?}");
    let row = |state: &Seen, at: &[u8]| {
        state.rows.iter().find(|(place, _)| place == at).map(|(_, cells)| cells.clone())
    };
    assert!(
        states.iter().any(|state| state.stat == seen.stat),
        "static row of {part:?}: {seen:?} is none of {states:?}"
    );
    let places = states.iter().chain([seen]).flat_map(|state| &state.rows).map(|(at, _)| at);
    for at in places {
        assert!(
            states.iter().any(|state| row(state, at) == row(seen, at)),
            "row {at:?} of {part:?}: {seen:?} is none of {states:?}"
        );
    }
}

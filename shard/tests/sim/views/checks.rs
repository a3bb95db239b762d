//! What a node is asked: bases as the model says, and views as it makes them of the bases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::schema::Table;

use super::Life;
use super::definitions::{Ids, Shown, ViewRows, views_of, wanted};
use super::node::{Lived, WAIT};
use crate::node::Taken;
use crate::oracle::{Facts, Seen};
use crate::schema::{self, TABLES};
use crate::workload::KEYS;

/// What a read of a base gives.
type Partitions = BTreeMap<Vec<u8>, Seen>;

/// How long a view may be built.
const BUILD_MAX: Duration = Duration::from_secs(1000);

impl Life<'_> {
    /// Nothing is under way, and all views are built: each table is as the model says, and each view as the model makes
    /// it of its base. Of a table whose truncation was cut off only its views are known to be right.
    pub(super) fn verify(&mut self) -> Lived {
        self.answered()?;
        self.until_built()?;
        let emptying = self.world.emptying.as_ref().map(|emptying| emptying.table);
        let facts = self.world.visible();
        for number in 1..TABLES {
            let now_s = self.node.now_s();
            let taken = self.node.read(self.world.id(number), Taken::default())?.0;
            if emptying != Some(number) {
                compare(&taken, &facts, number, now_s);
            }
            for view in views_of(&self.world.schema, number) {
                self.verify_view(&view, number, &taken, now_s)?;
            }
        }
        Ok(())
    }

    fn verify_view(
        &mut self,
        view: &Arc<Table>,
        number: usize,
        base: &Partitions,
        now_s: u32,
    ) -> Lived {
        let wanted = wanted(view, self.base(number), base);
        let found = self.found(view)?;
        if now_s == self.node.now_s() {
            assert!(found == wanted, "at rest: {}", told(view, &found, &wanted, now_s));
            self.world.tally.compared += 1;
            self.world.tally.rows += wanted.len() as u64;
        }
        Ok(())
    }

    /// While writes are under way: what was answered is in the views, for the partitions that none of them is about.
    pub(super) fn check_meanwhile(&mut self) -> Lived {
        self.take_answers();
        let number = 1 + self.rng.index(TABLES - 1);
        let (facts, keys) = (self.world.visible(), self.quiet(number));
        let k = self.base(number).partition_key()[0].id.0;
        for view in views_of(&self.world.schema, number) {
            let was_built = self.built.contains(&view.id);
            let now_s = self.node.now_s();
            let mut found = self.found(&view)?;
            if now_s != self.node.now_s() {
                // A second has passed while it was read: what expired in it may be gone.
                continue;
            }
            found.retain(|(key, _)| matches!(key[&k][..], [one] if keys.contains(&one)));
            let seen = |key: &u8| (vec![*key], facts.seen((number, *key), now_s));
            let wanted = wanted(&view, self.base(number), &keys.iter().map(seen).collect());
            let is_right = match was_built {
                true => found == wanted,
                false => found.iter().all(|row| wanted.iter().any(|whole| is_part(row, whole))),
            };
            assert!(is_right, "built {was_built}: {}", told(&view, &found, &wanted, now_s));
            self.world.tally.raced += 1;
        }
        Ok(())
    }

    fn base(&self, number: usize) -> &Table {
        schema::table(&self.world.schema, number).expect("all tables are there")
    }

    /// The rows of a view.
    fn found(&mut self, view: &Arc<Table>) -> Lived<Vec<Shown>> {
        let mut rows = self.node.read(view.id, ViewRows::of(view))?.rows;
        rows.sort();
        Ok(rows)
    }

    /// Waits until all views are built.
    fn until_built(&mut self) -> Lived {
        let views: Vec<Arc<Table>> =
            (1..TABLES).flat_map(|number| views_of(&self.world.schema, number)).collect();
        let began_us = self.node.wall_us();
        let mut waited = false;
        while !self.are_built(&views)? {
            waited = true;
            self.node.wait(WAIT)?;
            let took_us = self.node.wall_us() - began_us;
            assert!(took_us < BUILD_MAX.as_micros() as i64, "a view is never built");
        }
        self.built.extend(views.iter().map(|view| view.id));
        self.world.tally.unbuilt += u64::from(waited);
        Ok(())
    }

    fn are_built(&mut self, views: &[Arc<Table>]) -> Lived<bool> {
        if views.is_empty() {
            return Ok(true);
        }
        let schema = &self.world.schema;
        let table = schema.table("system", "built_views").expect("it is built in").id;
        let built = self.node.read(table, Ids::default())?.0;
        Ok(views.iter().all(|view| built.contains(&view.id)))
    }
}

/// Whether a row is that one, or as much of it as was written since its view was made.
fn is_part(row: &Shown, whole: &Shown) -> bool {
    row.0 == whole.0 && row.1.iter().all(|cell| whole.1.contains(cell))
}

/// A table is as the model says, beside notes.
fn compare(taken: &Partitions, facts: &Facts, number: usize, now_s: u32) {
    for key in 0..KEYS {
        let taken = taken.get(&vec![key]).cloned().unwrap_or_default();
        let wanted = facts.seen((number, key), now_s);
        assert_eq!(taken, wanted, "table {number} key {key} at {now_s}");
    }
}

/// What is other than it has to be.
fn told(view: &Table, found: &[Shown], wanted: &[Shown], now_s: u32) -> String {
    let only = |these: &[Shown], those: &[Shown]| {
        these.iter().filter(|row| !those.contains(row)).cloned().collect::<Vec<_>>()
    };
    let (more, missing) = (only(found, wanted), only(wanted, found));
    let definition = view.view().expect("it is a view");
    let gc_grace_s = view.options.gc_grace_seconds;
    format!(
        "{} at {now_s} has {more:?} and not {missing:?}: {gc_grace_s} s, {definition:?}",
        view.name
    )
}

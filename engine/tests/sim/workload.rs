//! Records drawn at random, each as bytes for the engine and as facts for the oracle.

use crate::node::{KEYS, MAP, PLAIN, STATIC};
use crate::oracle::{Fact, Part, Place, Record};
use engine::io::Rng;
use messina_engine as engine;
use model::cell::{Expiry, Life};
use model::mutation::{MutationBuilder, RangeTombstone};
use model::row::{Cell, RowBuilder, RowHead};
use model::{ColumnId, CqlType, Deletion, TableId, Token};
use std::collections::BTreeMap;

/// What times records get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// Each newer than all before: tombstones may be purged.
    Rising,
    /// Now and then an older one, or the same twice.
    Mixed,
}

/// The token of a partition: the same in every table.
pub(crate) fn token(key: u8) -> Token {
    Token::of_key(&[key])
}

/// The clustering key of `(c1, c2)`, or a prefix of it.
pub(crate) fn clustering(table: usize, values: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let descending = table == 3 && index == 1;
        let value = std::slice::from_ref(value);
        model::ordered::encode_component(&CqlType::Tinyint, descending, value, &mut out)
            .expect("a byte");
    }
    out
}

/// A column, whether this is an element of it rather than all of it, and the element's path.
type CellAt = (u16, bool, Option<Vec<u8>>);

/// Draws records for the simulated tables.
pub(crate) struct Workload {
    pub(crate) ids: Vec<TableId>,
    pub(crate) times: Times,
    pub(crate) now_s: u32,
    /// Longer values, to fill blocks and segments.
    pub(crate) value_bytes_max: u64,
    next: u64,
}

impl Workload {
    pub(crate) fn new(ids: &[TableId], times: Times, value_bytes_max: u64) -> Self {
        Workload { ids: ids.to_vec(), times, now_s: 1_000_000, value_bytes_max, next: 1 }
    }

    /// A record for partitions of the tokens that `owns` accepts, with its note in table 0.
    pub(crate) fn record(
        &mut self,
        rng: &mut Rng,
        owns: impl Fn(Token) -> bool,
    ) -> (Record, Vec<u8>) {
        let keys: Vec<u8> = (0..KEYS).filter(|key| owns(token(*key))).collect();
        let number = self.next;
        self.next += 1;
        let mut record = Record { number, facts: Vec::new() };
        let mut bytes = Vec::new();
        let key = keys[rng.index(keys.len())];
        self.note(&mut bytes, number, key);
        for _ in 0..1 + rng.below(2) {
            let key = keys[rng.index(keys.len())];
            let table = 1 + rng.index(self.ids.len() - 1);
            let facts = self.mutation(rng, &mut bytes, (table, key));
            record.facts.extend(facts.into_iter().map(|fact| ((table, key), fact)));
        }
        (record, bytes)
    }

    /// The note of a record has a key of its own, and a token of one of its partitions.
    fn note(&self, bytes: &mut Vec<u8>, number: u64, key: u8) {
        let mut m = MutationBuilder::begin(bytes, self.ids[0], token(key), &number.to_be_bytes());
        m.row(&[], |out| {
            let head = RowHead { marker: Some(Life::Live), ..RowHead::bare(1) };
            RowBuilder::begin(out, &head);
        });
        m.finish();
    }

    /// The newest timestamp that a record may have so far.
    pub(crate) fn latest(&self) -> i64 {
        self.next as i64 * 10
    }

    fn timestamp(&self, rng: &mut Rng) -> i64 {
        let now = self.latest();
        match self.times {
            Times::Mixed if rng.one_in(4) => (now - rng.below(300) as i64).max(1),
            _ => now,
        }
    }

    fn life(&self, rng: &mut Rng) -> Life {
        match rng.below(8) {
            0 => {
                let ttl_s = 1 + rng.below(30) as u32;
                Life::Expiring(Expiry { ttl_s, at_s: self.now_s + ttl_s })
            }
            1 => Life::Dead { local_s: self.now_s },
            _ => Life::Live,
        }
    }

    fn value(&self, rng: &mut Rng, life: Life) -> Vec<u8> {
        match life {
            Life::Dead { .. } => Vec::new(),
            _ => {
                let byte = rng.below(256) as u8;
                vec![byte; rng.below(self.value_bytes_max) as usize]
            }
        }
    }

    fn mutation(&mut self, rng: &mut Rng, bytes: &mut Vec<u8>, (table, key): Part) -> Vec<Fact> {
        let timestamp = self.timestamp(rng);
        let deletion = Deletion { timestamp, local_s: self.now_s };
        let id = self.ids[table];
        let mut facts = Vec::new();
        let mut m = MutationBuilder::begin(bytes, id, token(key), &[key]);
        let wide = table >= 2;
        match rng.below(20) {
            0 => {
                m.delete_partition(deletion);
                facts.push(Fact::Partition { timestamp });
            }
            1..=2 if wide => {
                let bound = |rng: &mut Rng| {
                    let values = [rng.below(6) as u8, rng.below(6) as u8];
                    let mut bound = clustering(table, &values[..rng.index(3)]);
                    if rng.one_in(2) {
                        model::key::after(&mut bound);
                    }
                    bound
                };
                let (a, b) = (bound(rng), bound(rng));
                let (start, end) = (a.clone().min(b.clone()), a.max(b));
                m.delete_range(&RangeTombstone { start: &start, end: &end, deletion });
                facts.push(Fact::Range { start, end, timestamp });
            }
            3 if wide => {
                let life = self.life(rng);
                let value = self.value(rng, life);
                m.static_row(|out| {
                    let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
                    row.cell(&Cell { life, ..Cell::live(ColumnId(STATIC), timestamp, &value) });
                });
                let (place, column, path) = (None, STATIC, None);
                facts.push(Fact::Cell { place, column, path, timestamp, life, value });
            }
            _ => {
                for _ in 0..1 + rng.below(3) {
                    self.row(rng, &mut m, table, timestamp, &mut facts);
                }
            }
        }
        m.finish();
        facts
    }

    fn row(
        &self,
        rng: &mut Rng,
        m: &mut MutationBuilder<'_>,
        table: usize,
        timestamp: i64,
        facts: &mut Vec<Fact>,
    ) {
        let at = match table {
            0 | 1 => Vec::new(),
            _ => clustering(table, &[rng.below(6) as u8, rng.below(6) as u8]),
        };
        let place: Place = Some(at.clone());
        if rng.one_in(8) {
            let deletion = Deletion { timestamp, local_s: self.now_s };
            let head = RowHead { timestamp, marker: None, deletion };
            m.row(&at, |out| {
                RowBuilder::begin(out, &head);
            });
            facts.push(Fact::Row { place, timestamp });
            return;
        }
        let marker = Some(self.life(rng)).filter(|life| !matches!(life, Life::Dead { .. }));
        let marker = marker.filter(|_| rng.one_in(2));
        let head = RowHead { marker, ..RowHead::bare(timestamp) };
        if let Some(life) = marker {
            facts.push(Fact::Marker { place: place.clone(), timestamp, life });
        }
        let full = rng.one_in(3);
        let mut cells: BTreeMap<CellAt, (Life, Vec<u8>)> = BTreeMap::new();
        for column in PLAIN {
            if !full && rng.one_in(2) {
                continue;
            }
            let life = self.life(rng);
            let value = self.value(rng, life);
            cells.insert((column, true, None), (life, value));
        }
        if table != 1 && rng.one_in(2) {
            if rng.one_in(3) {
                let life = Life::Dead { local_s: self.now_s };
                cells.insert((MAP, false, None), (life, Vec::new()));
            }
            for _ in 0..rng.below(3) {
                let life = self.life(rng);
                let value = self.value(rng, life);
                cells.insert((MAP, true, Some(vec![rng.below(4) as u8])), (life, value));
            }
        }
        // What a collection tombstone of the same record covers is no part of the row.
        if cells.contains_key(&(MAP, false, None)) {
            cells.retain(|(_, _, path), _| path.is_none());
        }
        m.row(&at, |out| {
            let mut row = RowBuilder::begin(out, &head);
            for ((column, element, path), (life, value)) in &cells {
                let cell = Cell::live(ColumnId(*column), timestamp, value);
                row.cell(&Cell { life: *life, path: path.as_deref(), whole: !element, ..cell });
            }
        });
        for ((column, element, path), (life, value)) in cells {
            let place = place.clone();
            facts.push(match element {
                true => Fact::Cell { place, column, path, timestamp, life, value },
                false => Fact::Whole { place, column, timestamp },
            });
        }
    }
}

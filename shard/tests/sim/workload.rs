//! Records drawn at random, each as bytes for the engine and as facts for the oracle.
//!
//! ```text
//! record n ─┬─ note: key n in t0, and in another table if asked, with the token of one of the partitions below
//!           └─ one or two mutations of t1, t2, t3: a partition tombstone │ a range tombstone │ a static cell │ rows
//!              row: a row tombstone, or marker, cells, elements and tombstones of collections; live, expiring or dead
//! ```
//!
//! Invariants
//! 1. The bytes and the facts of a record say the same. Notes have no facts: they say which records survived.
//! 2. Numbers of records rise by one. The timestamp of a record is ten times its number, or with `Times::Mixed` now and
//!    then up to 300 less.
//! 3. All partitions of a record have tokens that the caller accepts (`owns`): one shard takes the record.
//! 4. No element is drawn below a collection tombstone of its own row: the tombstone would cover it at once.
//!
//! Not here: how records are sent and answered (`life.rs`, `views.rs`), the tables (`schema.rs`), writes that read
//! first (`in_order.rs`, `lists.rs`, `conditional.rs`, `counters.rs`).

use std::collections::BTreeMap;
use std::rc::Rc;

use engine::io::Rng;
use model::cell::{Expiry, Life};
use model::condition::{ConditionsBuilder, Wanted};
use model::mutation::{MutationBuilder, RangeTombstone};
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::{ColumnKind, Table};
use model::{ColumnId, CqlType, Deletion, Schema, TableId, Token};

use crate::oracle::{Fact, Part, Place, Record};
use crate::schema::{self, ORDERED, TABLES};
use crate::searches;

/// Keys of a table, apart from the first.
pub(crate) const KEYS: u8 = 7;

/// Bytes of the key of a note, which is the number of its record.
pub(crate) const NOTE_BYTES: usize = 8;

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

/// The columns of a table as they are now.
#[derive(Clone, Debug)]
struct Columns {
    id: TableId,
    stat: Option<u16>,
    plain: Vec<u16>,
    /// Those of them that are vectors.
    vectors: Vec<u16>,
    /// Those of several elements, and how many.
    collections: Vec<(u16, u8)>,
}

impl Columns {
    fn of(table: &Table) -> Columns {
        let (mut plain, mut vectors, mut collections) = (Vec::new(), Vec::new(), Vec::new());
        for column in table.regulars() {
            match &column.ty {
                CqlType::Map { .. } => collections.push((column.id.0, 4)),
                CqlType::Udt { definition, .. } => {
                    collections.push((column.id.0, definition.fields.len() as u8))
                }
                CqlType::Vector { .. } => {
                    plain.push(column.id.0);
                    vectors.push(column.id.0);
                }
                _ => plain.push(column.id.0),
            }
        }
        let stat = table.statics().next().map(|column| column.id.0);
        assert!(table.value_columns().iter().all(|column| column.kind >= ColumnKind::Static));
        Columns { id: table.id, stat, plain, vectors, collections }
    }
}

/// Draws records for the simulated tables.
pub(crate) struct Workload {
    /// The tables, from the first on that is missing none.
    tables: Vec<Columns>,
    pub(crate) times: Times,
    pub(crate) now_s: u32,
    /// Longer values, to fill blocks and segments.
    pub(crate) value_bytes_max: u64,
    next: u64,
}

impl Workload {
    pub(crate) fn new(times: Times, value_bytes_max: u64) -> Self {
        Workload { tables: Vec::new(), times, now_s: 1_000_000, value_bytes_max, next: 1 }
    }

    /// The schema is another.
    pub(crate) fn follow(&mut self, schema: &Schema) {
        let tables = (0..=ORDERED).filter_map(|number| schema::table(schema, number));
        self.tables = tables.map(Columns::of).collect();
    }

    /// The id of a table. All tables are there.
    pub(crate) fn id(&self, table: usize) -> TableId {
        assert_eq!(self.tables.len(), ORDERED + 1, "all tables are there");
        self.tables[table].id
    }

    /// A record for partitions of the tokens that `owns` accepts, with its note in table 0, and in another if asked.
    pub(crate) fn record(
        &mut self,
        rng: &mut Rng,
        noted_in: Option<usize>,
        owns: impl Fn(Token) -> bool,
    ) -> (Record, Vec<u8>) {
        let keys: Vec<u8> = (0..KEYS).filter(|key| owns(token(*key))).collect();
        let number = self.next;
        self.next += 1;
        let (tables, facts) = (Vec::new(), Vec::new());
        let mut record = Record { number, tables, facts, may_be_refused: false };
        let mut bytes = Vec::new();
        let key = keys[rng.index(keys.len())];
        for table in [0].into_iter().chain(noted_in) {
            self.note(&mut bytes, table, number, key);
            record.tables.push(table);
        }
        for _ in 0..1 + rng.below(2) {
            let key = keys[rng.index(keys.len())];
            let table = 1 + rng.index(TABLES - 1);
            record.tables.push(table);
            let facts = self.mutation(rng, &mut bytes, (table, key));
            record.facts.extend(facts.into_iter().map(|fact| ((table, key), Rc::new(fact))));
        }
        (record, bytes)
    }

    /// A conditional write of one row, with its note: done if the row is there, or if it is not. And the place of
    /// the row.
    pub(crate) fn conditional(
        &mut self,
        rng: &mut Rng,
        (table, key): Part,
        exists: bool,
    ) -> (Record, Vec<u8>, Vec<u8>) {
        let number = self.next;
        self.next += 1;
        let (mut bytes, mut facts, timestamp) = (Vec::new(), Vec::new(), self.latest());
        let at = self.place(rng, table);
        let id = self.id(table);
        let mut m = MutationBuilder::begin(&mut bytes, id, token(key), &[key]);
        self.row(rng, &mut m, (table, &at), timestamp, &mut facts);
        let mut conditions = ConditionsBuilder::default();
        conditions.existence(Some(&at), exists);
        let wanted = Wanted { statics: false, regulars: true };
        m.finish_with_conditions(&conditions, wanted, (timestamp, self.now_s));
        self.note(&mut bytes, 0, number, key);
        let facts = facts.into_iter().map(|fact| ((table, key), Rc::new(fact))).collect();
        let record = Record { number, tables: vec![table, 0], facts, may_be_refused: false };
        (record, bytes, at)
    }

    /// The note of a record has a key of its own, and a token of one of its partitions.
    fn note(&self, bytes: &mut Vec<u8>, table: usize, number: u64, key: u8) {
        let mut m =
            MutationBuilder::begin(bytes, self.id(table), token(key), &number.to_be_bytes());
        let at = if table >= 2 { clustering(table, &[0, 0]) } else { Vec::new() };
        m.row(&at, |out| {
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
        let id = self.id(table);
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
            3 if let Some(column) = self.tables[table].stat => {
                let life = self.life(rng);
                let value = self.value(rng, life);
                m.static_row(|out| {
                    let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
                    row.cell(&Cell { life, ..Cell::live(ColumnId(column), timestamp, &value) });
                });
                let (place, path) = (None, None);
                facts.push(Fact::Cell { place, column, path, timestamp, life, value });
            }
            _ => {
                for _ in 0..1 + rng.below(3) {
                    let at = self.place(rng, table);
                    self.row(rng, &mut m, (table, &at), timestamp, &mut facts);
                }
            }
        }
        m.finish();
        facts
    }

    /// The clustering of a row.
    fn place(&self, rng: &mut Rng, table: usize) -> Vec<u8> {
        match table {
            0 | 1 => Vec::new(),
            _ => clustering(table, &[rng.below(6) as u8, rng.below(6) as u8]),
        }
    }

    fn row(
        &self,
        rng: &mut Rng,
        m: &mut MutationBuilder<'_>,
        (table, at): (usize, &[u8]),
        timestamp: i64,
        facts: &mut Vec<Fact>,
    ) {
        let place: Place = Some(at.to_vec());
        if rng.one_in(8) {
            let deletion = Deletion { timestamp, local_s: self.now_s };
            let head = RowHead { timestamp, marker: None, deletion };
            m.row(at, |out| {
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
        let cells = self.cells(rng, table);
        m.row(at, |out| {
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

    /// The cells of a row: column, whether it is an element or one value, path.
    fn cells(&self, rng: &mut Rng, table: usize) -> BTreeMap<CellAt, (Life, Vec<u8>)> {
        let full = rng.one_in(3);
        let mut cells = BTreeMap::new();
        for column in &self.tables[table].plain {
            if !full && rng.one_in(2) {
                continue;
            }
            let life = self.life(rng);
            let is_vector = self.tables[table].vectors.contains(column);
            let value = match is_vector && !matches!(life, Life::Dead { .. }) {
                true => searches::draw(rng),
                false => self.value(rng, life),
            };
            cells.insert((*column, true, None), (life, value));
        }
        for (column, elements) in &self.tables[table].collections {
            if rng.one_in(2) {
                continue;
            }
            // What a collection tombstone of the same record covers is no part of the row.
            if rng.one_in(3) {
                let life = Life::Dead { local_s: self.now_s };
                cells.insert((*column, false, None), (life, Vec::new()));
                continue;
            }
            for _ in 0..rng.below(3) {
                let life = self.life(rng);
                let value = self.value(rng, life);
                let path = vec![rng.below((*elements).into()) as u8];
                cells.insert((*column, true, Some(path)), (life, value));
            }
        }
        cells
    }
}

//! What DESCRIBE tells of a drawn schema, executed, makes that schema again.
//!
//! A seed draws a keyspace with types, tables and what ALTER does to them, as statements. What DESCRIBE says of it runs
//! on an empty database, which must then say the same, and have the same schema but for the numbers of columns. Compact
//! tables are told in comments, and are no part of it.

use model::schema::{Column, ColumnKind, Index};
use proptest::prelude::*;

use super::*;
use crate::testing::Database;

/// Numbers from a seed (SplitMix64).
struct Draw(u64);

impl Draw {
    fn number(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % below as u64) as usize
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.number(of.len())]
    }

    /// A type; `user` are the names of user types, as CQL writes them.
    fn ty(&mut self, user: &[String], depth: usize) -> String {
        let scalars = CqlType::SCALARS.map(|(name, _)| name);
        let scalars: Vec<&str> = scalars.into_iter().filter(|name| *name != "counter").collect();
        match self.number(if depth == 0 { 3 } else { 9 }) {
            0..=2 => self.one(&scalars).to_owned(),
            3 => format!("frozen<list<{}>>", self.ty(user, depth - 1)),
            4 => format!("frozen<set<{}>>", self.ty(user, depth - 1)),
            5 => format!("frozen<map<{}, {}>>", self.one(&scalars), self.ty(user, depth - 1)),
            6 => format!("tuple<{}, {}>", self.ty(user, depth - 1), self.ty(user, depth - 1)),
            7 => format!("vector<{}, {}>", self.ty(user, depth - 1), 1 + self.number(3)),
            _ if user.is_empty() => "int".to_owned(),
            _ => format!("frozen<{}>", user[self.number(user.len())]),
        }
    }

    /// The type of a column that is no key: it may be of several cells.
    fn column_ty(&mut self, user: &[String]) -> String {
        match self.number(6) {
            0 => format!("list<{}>", self.ty(user, 1)),
            1 => format!("set<{}>", self.ty(user, 1)),
            2 => format!("map<int, {}>", self.ty(user, 2)),
            3 if !user.is_empty() => user[self.number(user.len())].clone(),
            _ => self.ty(user, 3),
        }
    }

    /// An option of a table, with a value that it takes.
    fn option(&mut self) -> String {
        let number = self.number(1000);
        match self.number(14) {
            0 => "comment = 'it''s; \"one\" /* -- ü'".to_owned(),
            1 => format!("default_time_to_live = {number}"),
            2 => format!("gc_grace_seconds = {number}"),
            3 => format!("bloom_filter_fp_chance = 0.{}", 1 + number % 9),
            4 => "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '64'}".to_owned(),
            5 => "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', 'compaction_window_size': '6'}".to_owned(),
            6 => "compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4, L8'}".to_owned(),
            7 => "compression = {'enabled': 'false'}".to_owned(),
            8 => "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': '32'}".to_owned(),
            9 => "caching = {'keys': 'NONE', 'rows_per_partition': '10'}".to_owned(),
            10 => "speculative_retry = '10ms'".to_owned(),
            11 => "extensions = {'a': '0x00ff', 'B': '0x'}".to_owned(),
            12 => "cdc = true AND read_repair = 'NONE'".to_owned(),
            _ => format!("max_index_interval = {} AND crc_check_chance = 0.5", 2048 + number),
        }
    }
}

const NAMES: [&str; 12] = [
    "a",
    "b1",
    "key",
    "\"Order\"",
    "\"from\"",
    "\"a b\"",
    "\"x\"\"y\"",
    "\"1\"",
    "ttl",
    "\"ü\"",
    "value",
    "column1",
];
const TYPE_NAMES: [&str; 5] = ["t", "\"T\"", "\"select\"", "\"t\"\"t\"", "key"];
const INDEX_NAMES: [&str; 4] = ["i", "\"I\"", "t_a_idx", "t_value_idx"];
const TABLE_NAMES: [&str; 5] = ["t", "\"T\"", "\"where\"", "key", "t_2"];

/// The CREATE of an index, which may be refused.
fn index(draw: &mut Draw, table: &str, column: &str) -> String {
    let name = draw.one(&["", "i", "\"I\"", "key"]);
    let functions = ["", "", "", "keys", "values", "entries", "full"];
    let target = match draw.one(&functions) {
        "" => column.to_owned(),
        function => format!("{function}({column})"),
    };
    let class = draw.one(&[
        "",
        " USING 'sai'",
        " USING 'StorageAttachedIndex' WITH OPTIONS = {'ascii': 'true', 'case_sensitive': 'false'}",
    ]);
    format!("CREATE INDEX {name} ON {table} ({target}){class}")
}

/// A database with a keyspace of drawn things, and how many statements it took.
fn drawn(draw: &mut Draw) -> (Database, usize) {
    let mut db = Database::new();
    let name = draw.one(&["d", "\"D\"", "\"table\""]);
    let strategy = draw.one(&[
        "{'class': 'SimpleStrategy', 'replication_factor': 3}",
        "{'class': 'NetworkTopologyStrategy', 'datacenter1': 2}",
    ]);
    let durable = draw.one(&["", " AND durable_writes = false"]);
    db.ok(&format!("CREATE KEYSPACE {name} WITH replication = {strategy}{durable}"));
    db.keyspace = Some(name.trim_matches('"').to_owned());
    let mut done = 0;
    let mut users: Vec<String> = Vec::new();
    for _ in 0..draw.number(4) {
        let name = TYPE_NAMES[draw.number(TYPE_NAMES.len())];
        let fields =
            (0..=draw.number(3)).map(|at| format!("{} {}", NAMES[at * 3], draw.ty(&users, 2)));
        let fields = fields.collect::<Vec<_>>().join(", ");
        if db.run(&format!("CREATE TYPE {name} ({fields})"), &none()).is_ok() {
            users.push(name.to_owned());
        }
    }
    for _ in 0..4 {
        let statement = table(draw, &users);
        done += usize::from(db.run(&statement, &none()).is_ok());
    }
    for _ in 0..20 {
        let table = TABLE_NAMES[draw.number(TABLE_NAMES.len())];
        let name = NAMES[draw.number(NAMES.len())];
        let statement = match draw.number(13) {
            0 | 1 => format!("ALTER TABLE {table} ADD {name} {}", draw.column_ty(&users)),
            2 => format!("ALTER TABLE {table} ADD {name} int"),
            3 => format!("ALTER TABLE {table} DROP {name} USING TIMESTAMP {}", draw.number(99)),
            4 => format!("ALTER TABLE {table} DROP {name}"),
            5 => format!("ALTER TABLE {table} RENAME {name} TO {}", draw.one(&NAMES)),
            6 => format!("ALTER TABLE {table} WITH {}", draw.option()),
            8 | 9 => index(draw, table, name),
            10 => format!("DROP INDEX {}", draw.one(&INDEX_NAMES)),
            7 => format!("ALTER TYPE {} ADD {name} int", draw.one(&TYPE_NAMES)),
            _ => format!("ALTER TABLE {table} DROP COMPACT STORAGE"),
        };
        done += usize::from(db.run(&statement, &none()).is_ok());
    }
    (db, done)
}

fn none() -> crate::frame::request::ValueList {
    crate::frame::request::ValueList::new()
}

/// The CREATE of a table, which may be refused.
fn table(draw: &mut Draw, users: &[String]) -> String {
    let name = TABLE_NAMES[draw.number(TABLE_NAMES.len())];
    let mut names: Vec<&str> = NAMES.to_vec();
    let mut take = |draw: &mut Draw| names.remove(draw.number(names.len()));
    let partition: Vec<&str> = (0..=draw.number(2)).map(|_| take(draw)).collect();
    let clustering: Vec<&str> = (0..draw.number(3)).map(|_| take(draw)).collect();
    let mut columns: Vec<String> = partition
        .iter()
        .chain(&clustering)
        .map(|name| format!("{name} {}", draw.ty(users, 2)))
        .collect();
    let is_compact = draw.number(4) == 0;
    for _ in 0..draw.number(if is_compact { 2 } else { 5 }) {
        let word = if !clustering.is_empty() && draw.number(3) == 0 { " static" } else { "" };
        columns.push(format!("{} {}{word}", take(draw), draw.column_ty(users)));
    }
    let order = clustering.iter().map(|name| format!("{name} {}", draw.one(&["ASC", "DESC"])));
    let order = order.collect::<Vec<_>>().join(", ");
    let mut options = vec![draw.option()];
    options.extend((!clustering.is_empty()).then(|| format!("CLUSTERING ORDER BY ({order})")));
    options.extend(is_compact.then(|| "COMPACT STORAGE".to_owned()));
    format!(
        "CREATE TABLE {name} ({}, PRIMARY KEY (({}){}{})) WITH {}",
        columns.join(", "),
        partition.join(", "),
        if clustering.is_empty() { "" } else { ", " },
        clustering.join(", "),
        options.join(" AND ")
    )
}

/// What DESCRIBE tells of the keyspace in use, but for compact tables.
fn told(db: &Database, internals: bool) -> Vec<String> {
    let target = DescribeTarget::Keyspace { name: db.keyspace.clone(), only: false };
    let asked = Describe { target, internals };
    let Ok(Described::Elements(rows)) = describe(&asked, &db.schema, None, |_| false) else {
        panic!("it is there")
    };
    // Of compact tables their indexes are told, as in Cassandra.
    let tables = db.schema.keyspace(db.keyspace.as_deref().unwrap()).unwrap().tables.values();
    let compact = tables.filter(|table| table.is_compact()).flat_map(|table| table.indexes());
    let of_compact: Vec<&str> = compact.map(|index| &*index.name).collect();
    let is_told = |[_, kind, name, text]: &[String; 4]| {
        let is_of_compact = kind == "index" && of_compact.contains(&name.trim_matches('"'));
        !is_of_compact && !text.starts_with("/*")
    };
    let rows = rows.iter().map(Element::row);
    rows.filter(is_told).map(|[.., statement]| statement).collect()
}

/// The keyspace, with columns in place of their numbers, but for compact tables.
fn shape(db: &Database, with_dropped: bool) -> Vec<String> {
    let keyspace = db.schema.keyspace(db.keyspace.as_deref().unwrap()).unwrap();
    let column = |column: &Column| {
        let Column { name, ty, kind, position, descending, .. } = column;
        format!("{name} {ty:?} {kind:?} {position} {descending}")
    };
    let mut all = vec![format!("{:?} {:?}", keyspace.options, keyspace.types)];
    for table in keyspace.tables.values().filter(|table| !table.is_compact()) {
        all.push(format!("{} {:?}", table.name, table.options));
        all.extend(table.columns().iter().map(column));
        let is_told = |name: &str| {
            with_dropped
                && table.column(name).is_none_or(|column| column.kind >= ColumnKind::Static)
        };
        let dropped = table.dropped.iter().filter(|dropped| is_told(&dropped.column.name));
        let mut dropped: Vec<String> =
            dropped.map(|gone| format!("- {} {}", column(&gone.column), gone.dropped_at)).collect();
        dropped.sort();
        all.extend(dropped);
        all.extend(table.indexes().iter().map(|index| {
            let column = &index.column(table).name;
            let Index { name, target, kind, class, options, analysis, .. } = index;
            format!("{name} {column} {target:?} {kind:?} {class:?} {options:?} {analysis:?}")
        }));
        all.extend(with_dropped.then(|| table.id.to_string()));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_told_makes_the_schema_again(seed: u64) {
        let (db, done) = drawn(&mut Draw(seed));
        prop_assume!(done > 3);
        for internals in [false, true] {
            let before = told(&db, internals);
            let mut again = Database::new();
            again.keyspace = db.keyspace.clone();
            for statement in before.iter().flat_map(|text| text.split(";\nALTER TABLE ").enumerate()) {
                let (at, text) = statement;
                let whole = if at == 0 { text.to_owned() } else { format!("ALTER TABLE {text}") };
                let ran = again.run(&whole, &none());
                prop_assert!(ran.is_ok(), "{whole}\n{:?}", ran);
            }
            prop_assert_eq!(told(&again, internals), before);
            prop_assert_eq!(shape(&again, internals), shape(&db, internals));
        }
    }
}

/// What DESCRIBE tells of a table of the keyspace in use, compact ones too.
fn told_of(db: &Database, table: &str) -> String {
    let name = QualifiedName { keyspace: None, name: table.to_owned() };
    let asked = Describe { target: DescribeTarget::Table(name), internals: false };
    match describe(&asked, &db.schema, db.keyspace.as_deref(), |_| false) {
        // The first is the table, the others are its indexes.
        Ok(Described::Elements(rows)) => rows[0].row()[3].clone(),
        _ => panic!("{table} is there"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The copy is told as its source is, but for its name; its columns have ids of their own.
    #[test]
    fn a_table_like_another_is_told_as_that(seed: u64) {
        let (mut db, _) = drawn(&mut Draw(seed));
        for table in TABLE_NAMES {
            let (written, name) = (table, table.trim_matches('"').to_owned());
            let keyspace = db.keyspace.clone().expect("it was chosen");
            let Some(source) = db.schema.table(&keyspace, &name).cloned() else { continue };
            db.ok(&format!("CREATE TABLE the_copy LIKE {written}"));
            let copy = db.schema.table(&keyspace, "the_copy").expect("just made").clone();
            prop_assert_ne!(copy.id, source.id);
            prop_assert!(copy.dropped.is_empty());
            let own = |table: &model::Table| table.columns().len() + table.hidden().len();
            prop_assert_eq!(usize::from(copy.next_column()), own(&copy));
            prop_assert_eq!(own(&copy), own(&source));
            let named = |text: String, name: &str| text.replacen(&format!(".{name} "), ".x ", 2);
            prop_assert_eq!(
                named(told_of(&db, "the_copy"), "the_copy"),
                named(told_of(&db, &name), written)
            );
            db.ok("DROP TABLE the_copy");
        }
    }
}

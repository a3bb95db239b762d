//! Statements and values that a client might send, drawn: most of them right, many of them nearly so.

use super::Numbers;

/// A column of the tables that are fuzzed: its name, its type, and whether it is of the key.
type Column = (&'static str, &'static str);

/// A table: its name, the columns of its key, the others, and the end of its definition.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    partition: &'static [Column],
    clustering: &'static [Column],
    regular: &'static [Column],
    ends: &'static str,
}

pub(crate) const TABLES: [Table; 5] = [
    Table {
        name: "ks.a",
        partition: &[("k", "int")],
        clustering: &[("c", "int"), ("d", "text")],
        regular: &[("v", "int"), ("w", "text"), ("s", "int static"), ("m", "map<int, text>")],
        ends: "PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)",
    },
    Table {
        name: "ks.b",
        partition: &[("k", "int")],
        clustering: &[],
        regular: &[
            ("i", "bigint"),
            ("t", "tinyint"),
            ("f", "double"),
            ("g", "float"),
            ("b", "blob"),
            ("z", "boolean"),
            ("d", "decimal"),
            ("v", "varint"),
            ("u", "uuid"),
            ("y", "timeuuid"),
            ("n", "inet"),
            ("a", "date"),
            ("e", "time"),
            ("h", "timestamp"),
            ("j", "duration"),
        ],
        ends: "PRIMARY KEY (k))",
    },
    Table {
        name: "ks.c",
        partition: &[("k", "text")],
        clustering: &[("c", "timestamp")],
        regular: &[
            ("l", "list<int>"),
            ("s", "set<text>"),
            ("m", "map<text, bigint>"),
            ("f", "frozen<map<int, frozen<list<text>>>>"),
            ("t", "tuple<int, text>"),
            ("u", "ks.u"),
            ("p", "frozen<ks.u>"),
            ("v", "vector<float, 3>"),
        ],
        ends: "PRIMARY KEY (k, c))",
    },
    Table {
        name: "ks.d",
        partition: &[("a", "int"), ("b", "text")],
        clustering: &[("c", "decimal"), ("d", "varint"), ("e", "blob")],
        regular: &[("v", "int"), ("x", "list<frozen<tuple<int, text>>> static")],
        ends: "PRIMARY KEY ((a, b), c, d, e)) WITH CLUSTERING ORDER BY (c ASC, d DESC, e ASC)",
    },
    Table {
        name: "ks.e",
        partition: &[("k", "int")],
        clustering: &[("c", "int")],
        regular: &[("n", "counter"), ("o", "counter"), ("s", "counter static")],
        ends: "PRIMARY KEY (k, c))",
    },
];

impl Table {
    /// The statement that makes the table.
    pub(crate) fn definition(&self) -> String {
        let columns = self.columns().map(|(name, ty)| format!("{name} {ty}, ")).collect::<String>();
        format!("CREATE TABLE IF NOT EXISTS {} ({columns}{}", self.name, self.ends)
    }

    fn columns(&self) -> impl Iterator<Item = &'static Column> {
        self.partition.iter().chain(self.clustering).chain(self.regular)
    }

    fn any_column(&self, numbers: &mut Numbers) -> Column {
        let all: Vec<&Column> = self.columns().collect();
        **numbers.of(&all)
    }
}

/// A statement, and the types of what its markers take.
pub(crate) struct Drawn {
    pub(crate) text: String,
    pub(crate) markers: Vec<&'static str>,
}

impl Drawn {
    /// A value of the type, as a literal or a marker.
    fn value(&mut self, ty: &'static str, numbers: &mut Numbers) -> String {
        if numbers.one_in(2) {
            self.markers.push(ty);
            return "?".to_owned();
        }
        literal(ty, numbers)
    }

    fn key(&mut self, columns: &[Column], numbers: &mut Numbers) -> Vec<String> {
        let each = columns.iter().map(|(name, ty)| match numbers.below(30) {
            0 => {
                let values: Vec<String> =
                    (0..numbers.below(4)).map(|_| self.value(ty, numbers)).collect();
                format!("{name} IN ({})", values.join(", "))
            }
            1 => {
                let operator =
                    numbers.of(&["<", "<=", ">", ">=", "!=", "CONTAINS", "CONTAINS KEY"]);
                format!("{name} {operator} {}", self.value(ty, numbers))
            }
            _ => format!("{name} = {}", self.value(ty, numbers)),
        });
        each.collect()
    }

    fn conditions(&mut self, table: &Table, numbers: &mut Numbers) -> String {
        if numbers.one_in(6) {
            let names: Vec<&str> = table.partition.iter().map(|column| column.0).collect();
            let operator = numbers.of(&["<", "<=", ">", ">=", "="]);
            let token = numbers.edge();
            return format!("token({}) {operator} {token}", names.join(", "));
        }
        let mut all = self.key(table.partition, numbers);
        let some = numbers.below(table.clustering.len() as u64 + 1) as usize;
        all.extend(self.key(&table.clustering[..some], numbers));
        if numbers.one_in(8) {
            let (name, ty) = table.any_column(numbers);
            all.push(format!("{name} = {}", self.value(ty, numbers)));
        }
        all.join(" AND ")
    }
}

/// A literal of the type, often at an edge of it, sometimes of another type.
fn literal(ty: &str, numbers: &mut Numbers) -> String {
    if numbers.one_in(40) {
        return (*numbers
            .of(&["null", "{}", "[]", "''", "0x", "NaN", "1e400", "-1", "now()", "(1, 'x')"]))
        .to_owned();
    }
    let small = |numbers: &mut Numbers| (numbers.below(5) as i64 - 2).to_string();
    match ty.trim_end_matches(" static") {
        "int" | "bigint" | "varint" | "tinyint" | "counter" if numbers.one_in(4) => {
            numbers.edge().to_string()
        }
        "int" | "bigint" | "varint" | "tinyint" | "counter" => small(numbers),
        "text" => format!("'{}'", "x".repeat(numbers.below(3) as usize)),
        "double" | "float" | "decimal" => {
            format!("{}.{}e{}", small(numbers), numbers.below(9), numbers.below(40))
        }
        "blob" => format!("0x{}", "0f".repeat(numbers.below(4) as usize)),
        "boolean" => "true".to_owned(),
        "uuid" | "timeuuid" => "50554d6e-29bb-11e5-b345-feff819cdc9f".to_owned(),
        "inet" => "'127.0.0.1'".to_owned(),
        "date" => "'2020-01-01'".to_owned(),
        "time" => "'10:00:00.5'".to_owned(),
        "timestamp" => numbers.below(100).to_string(),
        "duration" => "1mo2d3h".to_owned(),
        "list<int>" => format!("[{}, {}]", small(numbers), small(numbers)),
        "set<text>" => "{'a', 'b'}".to_owned(),
        "map<text, bigint>" => format!("{{'a': {}}}", numbers.edge()),
        "map<int, text>" => format!("{{{}: 'a'}}", small(numbers)),
        "vector<float, 3>" => "[1.5, 2.5, 3.5]".to_owned(),
        "tuple<int, text>" => "(1, 'a')".to_owned(),
        _ => "{a: 1, b: {'x'}}".to_owned(),
    }
}

fn using(drawn: &mut Drawn, numbers: &mut Numbers) -> String {
    match numbers.below(8) {
        0 => format!(" USING TIMESTAMP {}", numbers.edge()),
        1 => format!(" USING TTL {}", numbers.below(1 << 31)),
        2 => format!(
            " USING TIMESTAMP {} AND TTL {}",
            drawn.value("bigint", numbers),
            drawn.value("int", numbers)
        ),
        _ => String::new(),
    }
}

/// What must be so for a statement to write: mostly nothing. `existence` is what its kind mostly asks for.
fn condition(drawn: &mut Drawn, table: &Table, existence: &str, numbers: &mut Numbers) -> String {
    match numbers.below(24) {
        0 => numbers.of(&[" IF NOT EXISTS", " IF EXISTS"]).to_string(),
        1 => format!(" IF {existence}"),
        2..=5 => {
            let tests: Vec<String> =
                (0..1 + numbers.below(3)).map(|_| test(drawn, table, numbers)).collect();
            format!(" IF {}", tests.join(" AND "))
        }
        _ => String::new(),
    }
}

/// One comparison of a condition.
fn test(drawn: &mut Drawn, table: &Table, numbers: &mut Numbers) -> String {
    let (name, ty) = *numbers.of(table.regular);
    match numbers.below(6) {
        0 => {
            let values: Vec<String> =
                (0..numbers.below(4)).map(|_| drawn.value(ty, numbers)).collect();
            format!("{name} IN ({})", values.join(", "))
        }
        1 => format!("{name}[{}] = {}", drawn.value("int", numbers), drawn.value("text", numbers)),
        2 => format!("{name}.a != {}", drawn.value("int", numbers)),
        _ => {
            let operator =
                numbers.of(&["=", "=", "!=", "<", "<=", ">", ">=", "CONTAINS", "CONTAINS KEY"]);
            format!("{name} {operator} {}", drawn.value(ty, numbers))
        }
    }
}

fn insert_json(table: &Table, numbers: &mut Numbers) -> String {
    let fields = table.columns().map(|(name, ty)| {
        let text = literal(ty, numbers).replace('\'', "\"");
        let is_word = text.starts_with(|first: char| first.is_ascii_alphabetic());
        let value = if is_word { format!("\"{text}\"") } else { text };
        format!("\"{name}\": {value}")
    });
    let fields = fields.collect::<Vec<_>>().join(", ");
    let default = numbers.of(&["", " DEFAULT NULL", " DEFAULT UNSET"]);
    format!("INSERT INTO {} JSON '{{{fields}}}'{default}", table.name)
}

fn write(drawn: &mut Drawn, table: &Table, numbers: &mut Numbers) -> String {
    if numbers.one_in(30) {
        return insert_json(table, numbers);
    }
    let (name, ty) = *numbers.of(table.regular);
    // A counter is inserted, but for now and then, by no client.
    let counts = ty.starts_with("counter") && !numbers.one_in(20);
    match if counts { 2 + numbers.below(4) } else { numbers.below(6) } {
        0..=1 => {
            let mut columns: Vec<Column> =
                table.partition.iter().chain(table.clustering).copied().collect();
            columns.push((name, ty));
            let values: Vec<String> =
                columns.iter().map(|(_, ty)| drawn.value(ty, numbers)).collect();
            let names: Vec<&str> = columns.iter().map(|column| column.0).collect();
            let condition = condition(drawn, table, "NOT EXISTS", numbers);
            let using = using(drawn, numbers);
            format!(
                "INSERT INTO {} ({}) VALUES ({}){condition}{using}",
                table.name,
                names.join(", "),
                values.join(", ")
            )
        }
        2..=4 => {
            let using = if !counts && numbers.one_in(4) { " USING TTL 1" } else { "" };
            let set = match numbers.below(if counts { 2 } else { 5 }) {
                0 => format!("{name} = {name} + {}", drawn.value(ty, numbers)),
                1 => format!("{name} = {name} - {}", drawn.value(ty, numbers)),
                2 => format!("{name}[{}] = {}", numbers.edge(), drawn.value("text", numbers)),
                _ => format!("{name} = {}", drawn.value(ty, numbers)),
            };
            let mut keys = drawn.key(table.partition, numbers);
            keys.extend(drawn.key(table.clustering, numbers));
            let condition = match counts {
                true => String::new(),
                false => condition(drawn, table, "EXISTS", numbers),
            };
            format!(
                "UPDATE {}{using} SET {set} WHERE {}{condition}",
                table.name,
                keys.join(" AND ")
            )
        }
        _ => {
            let what = if numbers.one_in(2) { name } else { "" };
            let conditions = drawn.conditions(table, numbers);
            let condition = match counts {
                true => String::new(),
                false => condition(drawn, table, "EXISTS", numbers),
            };
            format!("DELETE {what} FROM {} WHERE {conditions}{condition}", table.name)
        }
    }
}

fn select(drawn: &mut Drawn, table: &Table, numbers: &mut Numbers) -> String {
    let (name, _) = table.any_column(numbers);
    let (other, ty) = table.any_column(numbers);
    let what = match numbers.below(12) {
        0 => "*".to_owned(),
        1 => "count(*)".to_owned(),
        2 if numbers.one_in(20) => format!("JSON {name}, {other}"),
        3 => format!("{name}, writetime({other}), ttl({other})"),
        4 => format!("min({name}), max({other}), sum({name}), avg({other})"),
        5 => format!("{name} + {}, {other}", drawn.value(ty, numbers)),
        6 => format!(
            "DISTINCT {}",
            table.partition.iter().map(|c| c.0).collect::<Vec<_>>().join(", ")
        ),
        7 => format!("CAST({name} AS text), to_json({other})"),
        8 => format!("{name}[{}], token({other})", numbers.edge()),
        9 => format!(
            "{}({name})",
            numbers.of(&[
                "abs",
                "log",
                "blob_as_int",
                "to_date",
                "to_timestamp",
                "collection_max",
                "map_keys",
                "mask_null"
            ])
        ),
        _ => format!("{name}, {other}"),
    };
    let conditions = match numbers.below(3) {
        0 => String::new(),
        _ => format!(" WHERE {}", drawn.conditions(table, numbers)),
    };
    let mut ends = String::new();
    if numbers.one_in(30) {
        let groups = [name, "k, floor(c, 10)", "k, floor(c, 1h)", "k, c"];
        let group = numbers.of(&groups);
        ends += &format!(" GROUP BY {group}");
    }
    if numbers.one_in(30) {
        ends += &format!(" ORDER BY {other} {}", numbers.of(&["ASC", "DESC"]));
    }
    if numbers.one_in(8) {
        ends += &format!(" PER PARTITION LIMIT {}", drawn.value("int", numbers));
    }
    if numbers.one_in(4) {
        ends += &format!(" LIMIT {}", 1 + numbers.below(9));
    }
    if numbers.one_in(2) {
        ends += " ALLOW FILTERING";
    }
    if numbers.one_in(20) {
        ends += " USING TIMEOUT 5s";
    }
    let explain = if numbers.one_in(40) { "EXPLAIN " } else { "" };
    format!("{explain}SELECT {what} FROM {}{conditions}{ends}", table.name)
}

/// Draws a statement, of any kind.
pub(crate) fn draw(numbers: &mut Numbers) -> Drawn {
    let mut drawn = Drawn { text: String::new(), markers: Vec::new() };
    let table = &TABLES[numbers.below(TABLES.len() as u64) as usize];
    drawn.text = match numbers.below(1000) {
        0 => format!("TRUNCATE {}", table.name),
        1 => format!("ALTER TABLE ks.b ADD x{} {}", numbers.below(20), table.any_column(numbers).1),
        2 => format!("ALTER TABLE ks.b DROP x{}", numbers.below(20)),
        3 => table.definition(),
        4 => format!("DESCRIBE TABLE {}", table.name),
        5..=8 => "SELECT * FROM system_schema.columns".to_owned(),
        9 => match numbers.below(4) {
            0 => "DROP TABLE IF EXISTS ks.f".to_owned(),
            1 => format!("INSERT INTO ks.f (k) VALUES ({})", literal("int", numbers)),
            _ => format!("CREATE TABLE IF NOT EXISTS ks.f LIKE {}", table.name),
        },
        10..=60 => {
            let kind = numbers.of(&["", "", "UNLOGGED", "UNLOGGED", "LOGGED", "COUNTER"]);
            let writes: Vec<String> =
                (0..numbers.below(5)).map(|_| write(&mut drawn, table, numbers)).collect();
            format!("BEGIN {kind} BATCH {}; APPLY BATCH", writes.join("; "))
        }
        61..=500 => write(&mut drawn, table, numbers),
        _ => select(&mut drawn, table, numbers),
    };
    drawn
}

/// Bytes for a marker of the type: most are a value of it.
pub(crate) fn bytes(ty: &str, numbers: &mut Numbers) -> Vec<u8> {
    let fixed = match ty.trim_end_matches(" static") {
        "int" | "float" | "date" => 4,
        "bigint" | "double" | "time" | "timestamp" | "counter" => 8,
        "boolean" | "tinyint" => 1,
        "uuid" | "timeuuid" => 16,
        "inet" => [4, 16][numbers.below(2) as usize],
        "vector<float, 3>" => 12,
        "decimal" => 5,
        _ => 0,
    };
    if numbers.one_in(20) {
        return (0..numbers.below(40)).map(|_| numbers.next() as u8).collect();
    }
    let sized = |parts: &[&[u8]]| {
        let part = |part: &&[u8]| [&(part.len() as u32).to_be_bytes()[..], part].concat();
        parts.iter().flat_map(part).collect::<Vec<u8>>()
    };
    let (one, key) = (1u32.to_be_bytes(), [numbers.below(4) as u8 + b'a']);
    let number = numbers.edge();
    match ty.trim_end_matches(" static") {
        "text" => vec![key[0]; 1 + numbers.below(2) as usize],
        "list<int>" => [&one[..], &sized(&[&(number as i32).to_be_bytes()])].concat(),
        "set<text>" => [&one[..], &sized(&[&key])].concat(),
        "map<text, bigint>" => [&one[..], &sized(&[&key, &number.to_be_bytes()])].concat(),
        "map<int, text>" => [&one[..], &sized(&[&one, &key])].concat(),
        "tuple<int, text>" => sized(&[&one, &key]),
        "ks.u" | "frozen<ks.u>" => sized(&[&one, &[&one[..], &sized(&[&key])].concat()]),
        "varint" | "blob" => (0..1 + numbers.below(9)).map(|_| numbers.next() as u8).collect(),
        "decimal" => [&[0, 0, 0, numbers.below(20) as u8][..], &key].concat(),
        _ if numbers.one_in(3) => number.to_be_bytes()[8 - fixed.min(8)..].to_vec(),
        _ => {
            (0..fixed).map(|at| if at + 1 == fixed { numbers.below(4) as u8 } else { 0 }).collect()
        }
    }
}

//! The text of statements, and the values of their bind markers.
//!
//! ```text
//! Sending::Plain     INSERT INTO t (p0, v0) VALUES (1, 'a')
//! the others         INSERT INTO t (p0, v0) VALUES (?, ?)     and beside it the bytes of 1 and of 'a'
//! ```
//!
//! Invariants
//! 1. A step has one meaning, however it is sent: a literal and its bytes come from the same value.
//! 2. Values stand in the order of their markers.
//! 3. Writes of a batch with one timestamp have it after BEGIN BATCH, those with several each have their own.
//! 4. A change that its statement cannot make (INSERT with `c = c + ..`) is a bug of the generator, and a panic.
//!
//! Not here: what is drawn (`generate.rs`), what it means (`table.rs`, `query.rs`), CREATE and ALTER (`schema.rs`),
//! literals and bytes (`value.rs`), messages (`connection.rs`).

use crate::schema::Schema;
use crate::statement::{
    Change, Form, Item, Mutation, Operation, Relation, Select, Sending, Step, Target,
};
use crate::value::{FIELDS, Type, Value};

/// A statement as it is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    pub(crate) cql: String,
    /// The values of its markers in their order.
    pub(crate) values: Vec<Sent>,
    /// Whether values go beside the text.
    is_bound: bool,
}

/// The value of a bind marker.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    Bytes(Vec<u8>),
    Null,
    Unset,
}

/// The statement of a step on this table; `None` for what CQL has no statement for.
pub(crate) fn text(schema: &Schema, table: &str, step: &Step) -> Option<Text> {
    let mut text = Text { is_bound: step.sending != Sending::Plain, ..Text::default() };
    match &step.operation {
        Operation::Create => text.add(&schema.create(table)),
        Operation::Write(mutations) => text.writes(schema, table, mutations, "UNLOGGED "),
        Operation::Logged(mutations) => text.writes(schema, table, mutations, ""),
        Operation::Select(select) => text.select(schema, table, select),
        Operation::Add(column) => text.add(&schema.add(table, *column)),
        Operation::Drop(column, timestamp) => {
            let name = &schema.columns[*column].name;
            text.add(&format!("ALTER TABLE {table} DROP {name} USING TIMESTAMP {timestamp}"));
        }
        Operation::Truncate => text.add(&format!("TRUNCATE {table}")),
        Operation::Leave => text.add(&format!("DROP TABLE {table}")),
        Operation::Flush | Operation::Compact => return None,
    }
    Some(text)
}

impl Text {
    /// A statement without values.
    pub(crate) fn plain(cql: &str) -> Text {
        Text { cql: cql.to_owned(), ..Text::default() }
    }

    fn add(&mut self, words: &str) {
        self.cql.push_str(words);
    }

    fn value(&mut self, value: Option<&Value>, of: &Type) {
        match self.is_bound {
            true => {
                self.add("?");
                let bytes = value.map(Value::bytes);
                self.values.push(bytes.map_or(Sent::Null, Sent::Bytes));
            }
            false => {
                let literal = value.map_or("null".to_owned(), |value| value.literal(of));
                self.add(&literal);
            }
        }
    }

    /// A value that is not given: people read it as such.
    fn unset(&mut self) {
        match self.is_bound {
            true => {
                self.add("?");
                self.values.push(Sent::Unset);
            }
            false => self.add("unset"),
        }
    }

    /// Parts with a separator between them.
    fn list<T>(&mut self, parts: &[T], between: &str, mut put: impl FnMut(&mut Text, &T)) {
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                self.add(between);
            }
            put(self, part);
        }
    }

    fn writes(&mut self, schema: &Schema, table: &str, mutations: &[Mutation], kind: &str) {
        if let [one] = mutations {
            return self.mutation(schema, table, one, true);
        }
        let first = mutations.first().map_or(0, |mutation| mutation.timestamp);
        let is_same = mutations.iter().all(|mutation| mutation.timestamp == first);
        self.add(&format!("BEGIN {kind}BATCH "));
        if is_same {
            self.add(&format!("USING TIMESTAMP {first} "));
        }
        for mutation in mutations {
            self.mutation(schema, table, mutation, !is_same);
            self.add("; ");
        }
        self.add("APPLY BATCH");
    }

    fn mutation(&mut self, schema: &Schema, table: &str, mutation: &Mutation, is_timed: bool) {
        match mutation.form {
            Form::Insert => self.insert(schema, table, mutation, is_timed),
            Form::Update => {
                self.add(&format!("UPDATE {table}"));
                self.using(mutation, is_timed);
                self.add(" SET ");
                self.list(&mutation.changes, ", ", |text, (column, change)| {
                    text.assignment(schema, *column, change);
                });
                self.target(schema, mutation);
            }
            Form::Delete => {
                self.add("DELETE ");
                self.list(&mutation.changes, ", ", |text, (column, change)| {
                    text.discard(schema, *column, change);
                });
                self.add(&format!(" FROM {table}"));
                self.using(mutation, is_timed);
                self.target(schema, mutation);
            }
        }
    }

    fn insert(&mut self, schema: &Schema, table: &str, mutation: &Mutation, is_timed: bool) {
        let mut columns: Vec<(usize, Option<Option<&Value>>)> = Vec::new();
        for (at, values) in mutation.keys.iter().enumerate() {
            columns.push((at, Some(values.first())));
        }
        if let Target::Rows(rows) = &mutation.rows {
            for (at, values) in schema.clusterings().zip(rows) {
                columns.push((at, Some(values.first())));
            }
        }
        for (column, change) in &mutation.changes {
            columns.push(match change {
                Change::Set(value) => (*column, Some(value.as_ref())),
                Change::Unset => (*column, None),
                other => unreachable!("INSERT does no {other:?}"),
            });
        }
        self.add(&format!("INSERT INTO {table} ("));
        self.list(&columns, ", ", |text, (column, _)| text.add(&schema.columns[*column].name));
        self.add(") VALUES (");
        self.list(&columns, ", ", |text, (column, value)| match value {
            Some(value) => text.value(*value, &schema.columns[*column].of),
            None => text.unset(),
        });
        self.add(")");
        self.using(mutation, is_timed);
    }

    fn using(&mut self, mutation: &Mutation, is_timed: bool) {
        let mut parts = Vec::new();
        if is_timed {
            parts.push(("TIMESTAMP", Value::Bigint(mutation.timestamp)));
        }
        parts.extend(mutation.ttl_s.map(|ttl| ("TTL", Value::Int(ttl))));
        if !parts.is_empty() {
            self.add(" USING ");
        }
        self.list(&parts, " AND ", |text, (name, value)| {
            text.add(&format!("{name} "));
            text.value(Some(value), &Type::Bigint);
        });
    }

    fn assignment(&mut self, schema: &Schema, column: usize, change: &Change) {
        let (name, of) = (&schema.columns[column].name, &schema.columns[column].of);
        if matches!(change, Change::Unset) {
            self.add(&format!("{name} = "));
            return self.unset();
        }
        let mut plain = |before: String, value: Option<&Value>, of: &Type, after: String| {
            self.add(&before);
            self.value(value, of);
            self.add(&after);
        };
        let none = String::new;
        match (change, of) {
            (Change::Set(value), _) => plain(format!("{name} = "), value.as_ref(), of, none()),
            (Change::Add(value), _) => {
                plain(format!("{name} = {name} + "), Some(value), of, none())
            }
            (Change::Prepend(value), _) => {
                plain(format!("{name} = "), Some(value), of, format!(" + {name}"));
            }
            (Change::Remove(value), Type::Map(key, _)) => {
                plain(format!("{name} = {name} - "), Some(value), &Type::Set(key.clone()), none());
            }
            (Change::Remove(value), _) => {
                plain(format!("{name} = {name} - "), Some(value), of, none())
            }
            (Change::Put(key, value), _) => {
                let (key_type, value_type) = parts(of);
                plain(format!("{name}["), Some(key), &key_type, "] = ".to_owned());
                plain(none(), value.as_ref(), &value_type, none());
            }
            (Change::Field(field, value), _) => {
                let (field, of) = &FIELDS[*field];
                plain(format!("{name}.{field} = "), value.as_ref(), of, none());
            }
            (Change::Unset | Change::Delete | Change::Discard(_) | Change::DiscardField(_), _) => {
                unreachable!("UPDATE sets")
            }
        }
    }

    fn discard(&mut self, schema: &Schema, column: usize, change: &Change) {
        let (name, of) = (&schema.columns[column].name, &schema.columns[column].of);
        match change {
            Change::Delete => self.add(name),
            Change::Discard(key) => {
                self.add(&format!("{name}["));
                self.value(Some(key), &parts(of).0);
                self.add("]");
            }
            Change::DiscardField(field) => self.add(&format!("{name}.{}", FIELDS[*field].0)),
            other => unreachable!("DELETE does no {other:?}"),
        }
    }

    fn target(&mut self, schema: &Schema, mutation: &Mutation) {
        self.add(" WHERE ");
        let keys: Vec<(usize, &Vec<Value>)> = mutation.keys.iter().enumerate().collect();
        self.list(&keys, " AND ", |text, (column, values)| text.one_of(schema, *column, values));
        match &mutation.rows {
            Target::Partition => {}
            Target::Rows(rows) => {
                for (column, values) in schema.clusterings().zip(rows) {
                    self.add(" AND ");
                    self.one_of(schema, column, values);
                }
            }
            Target::Slice { prefix, lower, upper } => {
                let mut columns = schema.clusterings();
                for (value, column) in prefix.iter().zip(&mut columns) {
                    self.add(" AND ");
                    self.comparison(schema, column, "=", value);
                }
                let bounds = [(lower, ">"), (upper, "<")];
                for (bound, sign) in bounds {
                    let Some((value, is_within)) = bound else { continue };
                    let column = schema.partition + prefix.len();
                    self.add(" AND ");
                    let sign = if *is_within { format!("{sign}=") } else { sign.to_owned() };
                    self.comparison(schema, column, &sign, value);
                }
            }
        }
    }

    fn comparison(&mut self, schema: &Schema, column: usize, sign: &str, value: &Value) {
        let column = &schema.columns[column];
        self.add(&format!("{} {sign} ", column.name));
        self.value(Some(value), &column.of);
    }

    fn one_of(&mut self, schema: &Schema, column: usize, values: &[Value]) {
        match values {
            [value] => self.comparison(schema, column, "=", value),
            values => self.any_of(schema, column, values),
        }
    }

    fn any_of(&mut self, schema: &Schema, column: usize, values: &[Value]) {
        let column = &schema.columns[column];
        self.add(&format!("{} IN (", column.name));
        self.list(values, ", ", |text, value| text.value(Some(value), &column.of));
        self.add(")");
    }

    fn select(&mut self, schema: &Schema, table: &str, select: &Select) {
        self.add(if select.is_distinct { "SELECT DISTINCT " } else { "SELECT " });
        let name = |column: usize| schema.columns[column].name.as_str();
        match select.items.is_empty() {
            true => self.add("*"),
            false => self.list(&select.items, ", ", |text, item| text.item(schema, item)),
        }
        self.add(&format!(" FROM {table}"));
        if !select.relations.is_empty() {
            self.add(" WHERE ");
        }
        self.list(&select.relations, " AND ", |text, relation| text.relation(schema, relation));
        if select.group_by > 0 {
            let names: Vec<&str> = (0..select.group_by).map(name).collect();
            self.add(&format!(" GROUP BY {}", names.join(", ")));
        }
        if let Some((count, is_reversed)) = select.order {
            let direction = |at| if schema.descends(at) != is_reversed { "DESC" } else { "ASC" };
            let orders = schema
                .clusterings()
                .take(count)
                .map(|at| format!("{} {}", name(at), direction(at)));
            self.add(&format!(" ORDER BY {}", orders.collect::<Vec<_>>().join(", ")));
        }
        let limits = [("PER PARTITION LIMIT", select.per_partition), ("LIMIT", select.limit)];
        for (words, limit) in limits {
            let Some(limit) = limit else { continue };
            self.add(&format!(" {words} "));
            self.value(Some(&Value::Int(limit)), &Type::Int);
        }
        if select.is_filtering {
            self.add(" ALLOW FILTERING");
        }
    }

    fn item(&mut self, schema: &Schema, item: &Item) {
        let name = |column: usize| schema.columns[column].name.as_str();
        let shown = match item {
            Item::Column(column) => name(*column).to_owned(),
            Item::Count => "count(*)".to_owned(),
            Item::CountOf(column) => format!("count({})", name(*column)),
            Item::Min(column) => format!("min({})", name(*column)),
            Item::Max(column) => format!("max({})", name(*column)),
            Item::Sum(column) => format!("sum({})", name(*column)),
            Item::Average(column) => format!("avg({})", name(*column)),
            Item::WriteTime(column) => format!("writetime({})", name(*column)),
            Item::Field(column, field) => format!("{}.{}", name(*column), FIELDS[*field].0),
            Item::Element(column, key) => {
                self.add(&format!("{}[", name(*column)));
                self.value(Some(key), &parts(&schema.columns[*column].of).0);
                "]".to_owned()
            }
        };
        self.add(&shown);
    }

    fn relation(&mut self, schema: &Schema, relation: &Relation) {
        let names = |columns: &[usize]| {
            let names: Vec<&str> =
                columns.iter().map(|&at| schema.columns[at].name.as_str()).collect();
            names.join(", ")
        };
        match relation {
            Relation::Compare(column, comparison, value) => {
                self.comparison(schema, *column, comparison.sign(), value);
            }
            Relation::In(column, values) => self.any_of(schema, *column, values),
            Relation::CompareMany(columns, comparison, values) => {
                self.add(&format!("({}) {} ", names(columns), comparison.sign()));
                self.tuple(schema, columns, values);
            }
            Relation::InMany(columns, tuples) => {
                self.add(&format!("({}) IN (", names(columns)));
                self.list(tuples, ", ", |text, values| text.tuple(schema, columns, values));
                self.add(")");
            }
            Relation::Contains(column, value) => {
                self.add(&format!("{} CONTAINS ", schema.columns[*column].name));
                self.value(Some(value), &parts(&schema.columns[*column].of).1);
            }
            Relation::ContainsKey(column, key) => {
                self.add(&format!("{} CONTAINS KEY ", schema.columns[*column].name));
                self.value(Some(key), &parts(&schema.columns[*column].of).0);
            }
            Relation::Entry(column, key, value) => {
                let (key_type, value_type) = parts(&schema.columns[*column].of);
                self.add(&format!("{}[", schema.columns[*column].name));
                self.value(Some(key), &key_type);
                self.add("] = ");
                self.value(Some(value), &value_type);
            }
            Relation::Token(comparison, token) => {
                let key: Vec<usize> = (0..schema.partition).collect();
                self.add(&format!("token({}) {} ", names(&key), comparison.sign()));
                self.value(Some(&Value::Bigint(*token)), &Type::Bigint);
            }
        }
    }

    fn tuple(&mut self, schema: &Schema, columns: &[usize], values: &[Value]) {
        let pairs: Vec<(usize, &Value)> = columns.iter().copied().zip(values).collect();
        self.add("(");
        self.list(&pairs, ", ", |text, (column, value)| {
            text.value(Some(*value), &schema.columns[*column].of);
        });
        self.add(")");
    }
}

/// The types of the keys and of the values of a collection: an index is an int, an element of a set is both.
pub(crate) fn parts(of: &Type) -> (Type, Type) {
    match of {
        Type::List(of) => (Type::Int, (**of).clone()),
        Type::Set(of) => ((**of).clone(), (**of).clone()),
        Type::Map(key, of) => ((**key).clone(), (**of).clone()),
        other => unreachable!("{other:?} is no collection"),
    }
}

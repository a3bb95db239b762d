//! The model of one table: what statements write, by the documented rules alone, and what is there to be read.
//!
//! ```text
//! collection to write it as a whole is to delete it one microsecond before; elements of a list get places
//! row        lives by the newest INSERT, or by a live cell
//! column     dropped: its cells up to the timestamp of the drop are gone, also when it is there again
//! ```
//!
//! Not here: which version of a cell is the strongest, and what a deletion hides (`cell.rs`). It shares no code with the
//! product.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::cell::{Cell, Content, NEVER, Partition, Place, RangeDeletion, Row};
use crate::schema::{Column, Role, Schema};
use crate::statement::{Change, Form, Item, Mutation, Operation, Target};
use crate::token::token;
use crate::value::{FIELDS, Type, Value};

/// A value that is read, and when it was written, or its parts in their order.
pub(crate) type Read = Option<(Value, Vec<i64>)>;

/// The table with its partitions.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) schema: Schema,
    /// By token and key.
    pub(crate) partitions: BTreeMap<(i64, Vec<Value>), Partition>,
    /// Of columns that were dropped: up to when their cells are gone.
    dropped: BTreeMap<usize, i64>,
    /// Elements of lists get their places by this number.
    elements: i64,
    /// What was there before the batch that is being written.
    before: Option<Box<Table>>,
}

/// A statement that must be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

impl Table {
    /// An empty table.
    pub(crate) fn new(schema: Schema) -> Table {
        let (partitions, dropped) = Default::default();
        Table { schema, partitions, dropped, elements: 0, before: None }
    }

    /// Whether a step fits the schema of now: what a shorter history has not added cannot be used.
    pub(crate) fn accepts(&self, operation: &Operation) -> bool {
        let is_there = |column: &usize| self.schema.columns[*column].is_there;
        match operation {
            Operation::Write(mutations) | Operation::Logged(mutations) => {
                mutations.iter().all(|one| one.changes.iter().all(|(column, _)| is_there(column)))
            }
            Operation::Select(select) => {
                let columns = select.relations.iter().flat_map(|relation| relation.columns());
                let mut shown = select.items.iter().filter_map(Item::column);
                shown.all(|column| is_there(&column)) && columns.into_iter().all(is_there)
            }
            Operation::Add(column) => !is_there(column),
            Operation::Drop(column, _) => is_there(column),
            _ => true,
        }
    }

    /// Does what is no read; an error leaves all as it was.
    pub(crate) fn apply(&mut self, operation: &Operation) -> Result<(), Refused> {
        match operation {
            Operation::Write(mutations) | Operation::Logged(mutations) => self.batch(mutations)?,
            Operation::Add(column) => self.schema.columns[*column].is_there = true,
            Operation::Drop(column, timestamp) => {
                self.schema.columns[*column].is_there = false;
                self.dropped.insert(*column, *timestamp);
            }
            Operation::Truncate => self.partitions.clear(),
            Operation::Create
            | Operation::Select(_)
            | Operation::Flush
            | Operation::Compact
            | Operation::Leave => {}
        }
        Ok(())
    }

    /// All writes of a batch read what was there before it.
    fn batch(&mut self, mutations: &[Mutation]) -> Result<(), Refused> {
        for mutation in mutations {
            self.check(mutation)?;
        }
        let reads = |change: &Change| {
            matches!(change, Change::Put(..) | Change::Discard(_) | Change::Remove(_))
        };
        let mut changes = mutations.iter().flat_map(|mutation| &mutation.changes);
        if mutations.len() > 1 && changes.any(|(_, change)| reads(change)) {
            self.before = Some(Box::new(self.clone()));
        }
        let written = mutations.iter().try_for_each(|mutation| self.write(mutation));
        self.before = None;
        written
    }

    /// Refuses an index that a list does not have.
    fn check(&self, mutation: &Mutation) -> Result<(), Refused> {
        for (column, change) in &mutation.changes {
            let (Change::Put(index, _) | Change::Discard(index)) = change else { continue };
            let is_static = self.schema.columns[*column].role == Role::Static;
            for keys in product(&mutation.keys) {
                let at = (key_token(&keys), keys);
                let rows = match &mutation.rows {
                    Target::Rows(rows) if !is_static => product(rows),
                    _ => vec![Vec::new()],
                };
                for values in rows {
                    let places = self.places(values);
                    let row = (!is_static).then_some(&places);
                    self.part(&at, row, *column, &self.schema.columns[*column].of, index)?;
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, mutation: &Mutation) -> Result<(), Refused> {
        for keys in product(&mutation.keys) {
            let at = (key_token(&keys), keys.clone());
            match &mutation.rows {
                Target::Partition => self.write_partition(at, mutation)?,
                Target::Slice { prefix, lower, upper } => {
                    let range = RangeDeletion {
                        timestamp: mutation.timestamp,
                        prefix: prefix.clone(),
                        lower: lower.clone(),
                        upper: upper.clone(),
                    };
                    self.partition(at).ranges.push(range);
                }
                Target::Rows(rows) => {
                    for row in product(rows) {
                        self.write_row(at.clone(), row, mutation)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn partition(&mut self, at: (i64, Vec<Value>)) -> &mut Partition {
        let keys = at.1.clone();
        self.partitions.entry(at).or_insert_with(|| Partition { keys, ..Partition::default() })
    }

    fn write_partition(
        &mut self,
        at: (i64, Vec<Value>),
        mutation: &Mutation,
    ) -> Result<(), Refused> {
        if mutation.form == Form::Delete && mutation.changes.is_empty() {
            let deletion = &mut self.partition(at).deletion;
            *deletion = (*deletion).max(Some(mutation.timestamp));
            return Ok(());
        }
        for (column, change) in &mutation.changes {
            self.change(&at, None, *column, change, mutation)?;
        }
        Ok(())
    }

    fn write_row(
        &mut self,
        at: (i64, Vec<Value>),
        values: Vec<Value>,
        mutation: &Mutation,
    ) -> Result<(), Refused> {
        let places = self.places(values);
        for (column, change) in &mutation.changes {
            let is_static = self.schema.columns[*column].role == Role::Static;
            let row = if is_static { None } else { Some(&places) };
            self.change(&at, row, *column, change, mutation)?;
        }
        let timestamp = mutation.timestamp;
        match mutation.form {
            Form::Insert => {
                let row = self.partition(at).rows.entry(places).or_default();
                row.marker = row.marker.max(timestamp);
            }
            Form::Delete if mutation.changes.is_empty() => {
                let row = self.partition(at).rows.entry(places).or_default();
                row.deletion = row.deletion.max(timestamp);
            }
            Form::Update | Form::Delete => {}
        }
        Ok(())
    }

    fn places(&self, values: Vec<Value>) -> Vec<Place> {
        let columns = self.schema.clusterings();
        values.into_iter().zip(columns).map(|(value, column)| self.place(column, value)).collect()
    }

    /// A value of a clustering column, to be ordered as the table orders it.
    pub(crate) fn place(&self, column: usize, value: Value) -> Place {
        match self.schema.descends(column) {
            true => Place::Descending(Reverse(value)),
            false => Place::Ascending(value),
        }
    }

    /// Changes one column of a row, or of the static row.
    fn change(
        &mut self,
        at: &(i64, Vec<Value>),
        row: Option<&Vec<Place>>,
        column: usize,
        change: &Change,
        mutation: &Mutation,
    ) -> Result<(), Refused> {
        if matches!(change, Change::Unset) {
            return Ok(());
        }
        let of = self.schema.columns[column].of.clone();
        let is_multi_cell = self.schema.columns[column].is_multi_cell();
        let changed = match is_multi_cell {
            true => self.cells(at, row, column, &of, change)?,
            false => match change {
                Change::Set(value) => Written { whole: Some(value.clone()), ..Written::default() },
                Change::Delete => Written { whole: Some(None), ..Written::default() },
                other => unreachable!("{other:?} of a value without parts"),
            },
        };
        let Mutation { timestamp, ttl_s, .. } = *mutation;
        let cell = |value: Option<Value>| Cell {
            timestamp,
            ttl_s: ttl_s.filter(|_| value.is_some()),
            value,
        };
        let partition = self.partition(at.clone());
        let row = match row {
            Some(places) => partition.rows.entry(places.clone()).or_default(),
            None => &mut partition.statics,
        };
        let content = row.contents.entry(column).or_default();
        if let Some(value) = changed.whole {
            cell(value).merge(&mut content.whole);
        }
        if let Some(before) = changed.deletes_before {
            content.deletion = content.deletion.max(timestamp - before);
        }
        for (part, value) in changed.parts {
            cell(value).merge(content.parts.entry(part).or_default());
        }
        Ok(())
    }

    /// What a change of a column with parts writes.
    fn cells(
        &mut self,
        at: &(i64, Vec<Value>),
        row: Option<&Vec<Place>>,
        column: usize,
        of: &Type,
        change: &Change,
    ) -> Result<Written, Refused> {
        let mut cells = Written::default();
        match change {
            Change::Set(value) => {
                cells.deletes_before = Some(1);
                cells.parts = value.iter().flat_map(|value| self.parts(value, 1)).collect();
            }
            Change::Unset => {}
            Change::Delete => cells.deletes_before = Some(0),
            Change::Add(value) => cells.parts = self.parts(value, 1),
            Change::Prepend(value) => cells.parts = self.parts(value, -1),
            Change::Remove(value) => match value {
                Value::Set(keys) => {
                    cells.parts = keys.iter().map(|key| (key.clone(), None)).collect()
                }
                Value::List(values) => {
                    let there = self.elements(at, row, column);
                    let gone = there.into_iter().filter(|(_, value)| values.contains(value));
                    cells.parts = gone.map(|(place, _)| (place, None)).collect();
                }
                other => unreachable!("{other:?} is not taken away"),
            },
            Change::Put(key, value) => {
                let part = self.part(at, row, column, of, key)?;
                cells.parts.push((part, value.clone()));
            }
            Change::Discard(key) => cells.parts.push((self.part(at, row, column, of, key)?, None)),
            Change::Field(field, value) => {
                cells.parts.push((Value::Int(*field as i32), value.clone()));
            }
            Change::DiscardField(field) => cells.parts.push((Value::Int(*field as i32), None)),
        }
        Ok(cells)
    }

    /// The part of a collection that a key names: of a list the place of the element with an index.
    fn part(
        &self,
        at: &(i64, Vec<Value>),
        row: Option<&Vec<Place>>,
        column: usize,
        of: &Type,
        key: &Value,
    ) -> Result<Value, Refused> {
        let (Type::List(_), Value::Int(index)) = (of, key) else { return Ok(key.clone()) };
        let there = self.elements(at, row, column);
        let found = usize::try_from(*index).ok().and_then(|index| there.get(index).cloned());
        found.map(|(place, _)| place).ok_or(Refused)
    }

    /// The parts of a value; elements of a list get new places, behind all others or before them.
    fn parts(&mut self, value: &Value, direction: i64) -> Vec<(Value, Option<Value>)> {
        let nothing = || Some(Value::Blob(Vec::new()));
        match value {
            Value::List(values) => {
                let count = values.len() as i64;
                self.elements += count;
                let first = if direction > 0 { self.elements - count } else { -self.elements };
                let places = (first..).map(Value::Bigint);
                places.zip(values.iter().cloned().map(Some)).collect()
            }
            Value::Set(values) => values.iter().map(|value| (value.clone(), nothing())).collect(),
            Value::Map(entries) => {
                entries.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect()
            }
            Value::Tuple(fields) => {
                let number = |(at, field): (usize, &Option<Value>)| {
                    field.as_ref().map(|value| (Value::Int(at as i32), Some(value.clone())))
                };
                fields.iter().enumerate().filter_map(number).collect()
            }
            other => unreachable!("{other:?} has no parts"),
        }
    }

    /// The live elements of a list with their places.
    fn elements(
        &self,
        at: &(i64, Vec<Value>),
        row: Option<&Vec<Place>>,
        column: usize,
    ) -> Vec<(Value, Value)> {
        let table = self.before.as_deref().unwrap_or(self);
        let Some(partition) = table.partitions.get(at) else { return Vec::new() };
        let (found, deletion) = match row {
            Some(places) => {
                let Some(row) = partition.rows.get(places) else { return Vec::new() };
                (row, partition.deletion_of(places, row))
            }
            None => (&partition.statics, partition.deletion.unwrap_or(NEVER)),
        };
        let Some(content) = found.contents.get(&column) else { return Vec::new() };
        let live = self.live_parts(column, content, deletion);
        live.map(|(place, value)| (place.clone(), value.clone())).collect()
    }

    fn live_parts<'a>(
        &self,
        column: usize,
        content: &'a Content,
        deletion: i64,
    ) -> impl Iterator<Item = (&'a Value, &'a Value)> + use<'a> {
        let dropped = self.dropped.get(&column).copied().unwrap_or(NEVER);
        let deletion = deletion.max(content.deletion).max(dropped);
        let live = move |(part, cell): (&'a Value, &'a Option<Cell>)| {
            cell.as_ref().and_then(|cell| cell.live(deletion)).map(|value| (part, value))
        };
        content.parts.iter().filter_map(live)
    }

    /// What a column shows under this deletion of its row.
    fn read(&self, column: usize, row: &Row, deletion: i64) -> Read {
        let content = row.contents.get(&column)?;
        let known = self.column(column)?;
        if !known.is_multi_cell() {
            let dropped = self.dropped.get(&column).copied().unwrap_or(NEVER);
            let cell = content.whole.as_ref()?;
            let value = cell.live(deletion.max(dropped));
            return value.map(|value| (value.clone(), vec![cell.timestamp]));
        }
        let mut parts = self.live_parts(column, content, deletion).peekable();
        parts.peek()?;
        let times = self.live_parts(column, content, deletion);
        let times = times
            .filter_map(|(part, _)| content.parts[part].as_ref())
            .map(|cell| cell.timestamp)
            .collect();
        let value = match &known.of {
            Type::List(_) => Value::List(parts.map(|(_, value)| value.clone()).collect()),
            Type::Set(_) => Value::Set(parts.map(|(key, _)| key.clone()).collect()),
            Type::Map(..) => Value::Map(parts.map(|(k, v)| (k.clone(), v.clone())).collect()),
            Type::Pair => {
                let mut fields = vec![None; FIELDS.len()];
                for (field, value) in parts {
                    let Value::Int(at) = field else { unreachable!("fields have numbers") };
                    fields[*at as usize] = Some(value.clone());
                }
                Value::Tuple(fields)
            }
            other => unreachable!("{other:?} has no parts"),
        };
        Some((value, times))
    }

    /// A column that the table has now.
    fn column(&self, column: usize) -> Option<&Column> {
        Some(&self.schema.columns[column]).filter(|column| column.is_there)
    }

    /// The static columns of a partition, by the number of the column.
    pub(crate) fn statics(&self, partition: &Partition) -> Vec<Read> {
        let deletion = partition.deletion.unwrap_or(NEVER);
        let is_static = |at: usize| self.schema.columns[at].role == Role::Static;
        let read =
            |at| if is_static(at) { self.read(at, &partition.statics, deletion) } else { None };
        (0..self.schema.columns.len()).map(read).collect()
    }

    /// The live rows of a partition in their order, with their regular columns.
    pub(crate) fn rows<'a>(&'a self, partition: &'a Partition) -> Vec<(&'a [Place], Vec<Read>)> {
        let mut live = Vec::new();
        for (places, row) in &partition.rows {
            let deletion = partition.deletion_of(places, row);
            let columns = 0..self.schema.columns.len();
            let read: Vec<Read> = columns.map(|at| self.read(at, row, deletion)).collect();
            if row.marker > deletion || read.iter().any(Option::is_some) {
                live.push((places.as_slice(), read));
            }
        }
        live
    }
}

/// What a change writes into one column.
#[derive(Default)]
struct Written {
    whole: Option<Option<Value>>,
    /// The column is deleted so many microseconds before the write.
    deletes_before: Option<i64>,
    parts: Vec<(Value, Option<Value>)>,
}

/// The token of a partition.
pub(crate) fn key_token(keys: &[Value]) -> i64 {
    if let [key] = keys {
        return token(&key.bytes());
    }
    let mut whole = Vec::new();
    for key in keys {
        let bytes = key.bytes();
        whole.extend((bytes.len() as u16).to_be_bytes());
        whole.extend(bytes);
        whole.push(0);
    }
    token(&whole)
}

/// Every choice of one value a column, each once.
pub(crate) fn product(columns: &[Vec<Value>]) -> Vec<Vec<Value>> {
    columns.iter().fold(vec![Vec::new()], |done, values| {
        let extend = |begin: &Vec<Value>| {
            let begin = begin.clone();
            let values: BTreeSet<&Value> = values.iter().collect();
            values.into_iter().map(move |value| [begin.clone(), vec![value.clone()]].concat())
        };
        done.iter().flat_map(extend).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::answer;
    use crate::statement::Select;

    const ROW: i32 = 7;

    /// A table `p int, c int, s int STATIC, v int, l list<int>, PRIMARY KEY (p, c)`.
    fn table() -> Table {
        let column = |name: &str, of: Type, role| {
            let name = name.to_owned();
            Column { name, of, is_frozen: false, role, is_there: true }
        };
        let columns = vec![
            column("p", Type::Int, Role::Partition),
            column("c", Type::Int, Role::Clustering { descending: false }),
            column("s", Type::Int, Role::Static),
            column("v", Type::Int, Role::Regular),
            column("l", Type::List(Box::new(Type::Int)), Role::Regular),
        ];
        Table::new(Schema { columns, partition: 1, clustering: 1 })
    }

    fn write(table: &mut Table, form: Form, timestamp: i64, changes: Vec<(usize, Change)>) {
        let rows = Target::Rows(vec![vec![Value::Int(ROW)]]);
        let keys = vec![vec![Value::Int(1)]];
        let mutation = Mutation { form, timestamp, ttl_s: None, keys, rows, changes };
        assert_eq!(table.apply(&Operation::Write(vec![mutation])), Ok(()));
    }

    fn set(value: i32) -> Vec<(usize, Change)> {
        vec![(3, Change::Set(Some(Value::Int(value))))]
    }

    /// The answer to `SELECT *`, each cell as it is shown.
    fn rows(table: &Table) -> Vec<String> {
        let types: Vec<Type> =
            table.schema.columns.iter().map(|column| column.of.clone()).collect();
        let show = |row: Vec<Option<Vec<u8>>>| {
            let cells = row.iter().zip(&types).map(|(cell, of)| of.show(cell.as_deref()));
            cells.collect::<Vec<_>>().join(" ")
        };
        answer(table, &Select::default()).into_iter().map(show).collect()
    }

    #[test]
    fn of_one_timestamp_the_greater_bytes_win_and_a_tombstone_over_all() {
        let mut table = table();
        write(&mut table, Form::Insert, 5, set(1));
        write(&mut table, Form::Update, 5, set(-1));
        write(&mut table, Form::Update, 5, set(300));
        write(&mut table, Form::Update, 4, set(2));
        assert_eq!(rows(&table), ["1 7 null -1 null"], "the bytes of -1 are the greatest");
        write(&mut table, Form::Delete, 5, vec![(3, Change::Delete)]);
        assert_eq!(rows(&table), ["1 7 null null null"]);
    }

    #[test]
    fn a_row_of_updates_lives_by_its_cells_and_one_of_inserts_by_itself() {
        let mut table = table();
        write(&mut table, Form::Update, 1, set(1));
        write(&mut table, Form::Update, 2, vec![(3, Change::Set(None))]);
        assert!(rows(&table).is_empty());
        write(&mut table, Form::Insert, 3, Vec::new());
        assert_eq!(rows(&table), ["1 7 null null null"]);
        write(&mut table, Form::Delete, 3, Vec::new());
        assert!(rows(&table).is_empty(), "a deletion hides what is as old as it");
    }

    #[test]
    fn a_list_that_is_written_as_a_whole_takes_what_is_older_away() {
        let mut table = table();
        let list =
            |values: &[i32]| Value::List(values.iter().map(|&value| Value::Int(value)).collect());
        write(&mut table, Form::Update, 5, vec![(4, Change::Add(list(&[1])))]);
        write(&mut table, Form::Update, 5, vec![(4, Change::Set(Some(list(&[2]))))]);
        assert_eq!(rows(&table), ["1 7 null null [1, 2]"], "what has the same timestamp stays");
        write(&mut table, Form::Update, 6, vec![(4, Change::Prepend(list(&[3, 4])))]);
        write(&mut table, Form::Update, 6, vec![(4, Change::Put(Value::Int(1), None))]);
        assert_eq!(rows(&table), ["1 7 null null [3, 1, 2]"]);
    }

    #[test]
    fn a_partition_with_statics_alone_has_a_row_and_dropped_cells_stay_away() {
        let mut table = table();
        write(&mut table, Form::Update, 5, vec![(2, Change::Set(Some(Value::Int(9))))]);
        assert_eq!(rows(&table), ["1 null 9 null null"]);
        assert_eq!(table.apply(&Operation::Drop(2, 5)), Ok(()));
        assert_eq!(table.apply(&Operation::Add(2)), Ok(()));
        assert!(rows(&table).is_empty());
    }
}

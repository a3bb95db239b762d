//! What a read must be answered: every row of the table is looked at, and every condition asked of it.
//!
//! 1. Partitions come in the order of their tokens, or of their keys where an IN lists these.
//! 2. In each, the live rows that fulfil all conditions; one without rows is a row of its static columns, if it has any
//!    and no condition is on the columns of rows.
//! 3. ORDER BY, groups, PER PARTITION LIMIT, LIMIT.
//!
//! Not here: pages, which `world.rs` puts together before it compares, and which cells live (`table.rs`, `cell.rs`).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::cell::Place;
use crate::columns::ShownColumn;
use crate::schema::Role;
use crate::statement::{Item, Relation, Select};
use crate::table::{Read, Table};
use crate::text::parts;
use crate::value::{FIELDS, Type, Value};

/// A row of an answer: the bytes of each column, `None` is null.
pub(crate) type Answer = Vec<Option<Vec<u8>>>;

/// A row before it is shown: what each column of the table has in it.
struct Found {
    token: i64,
    partition: usize,
    values: Vec<Read>,
}

/// The rows that answer a read, in their order.
pub(crate) fn answer(table: &Table, select: &Select) -> Vec<Answer> {
    let mut rows = found(table, select);
    if has_key_list(table, select) {
        // Keys that are listed are read in the order of their values.
        rows.sort_by(|a, b| key(table, a).cmp(key(table, b)));
    }
    if let (Some((count, is_reversed)), false) = (select.order, select.is_one_aggregate()) {
        // Of several partitions rows are sorted by what ORDER BY names, after they were added up.
        rows.sort_by(|a, b| order(table, a, b, count, is_reversed));
    }
    let items = shown(table, select);
    let mut answers = match (select.is_one_aggregate(), select.group_by) {
        (true, _) => vec![aggregate(table, &items, &rows.iter().collect::<Vec<_>>())],
        (false, 0) => {
            let rows = first_of_each(&rows, select.per_partition, |row| row.partition);
            rows.map(|row| one(table, &items, row)).collect()
        }
        (false, columns) => {
            let groups = groups(&rows, columns);
            let groups = first_of_each(&groups, select.per_partition, |group| group[0].partition);
            groups.map(|group| aggregate(table, &items, group)).collect()
        }
    };
    if let Some(limit) = select.limit {
        answers.truncate(limit as usize);
    }
    answers
}

/// Whether the partitions are those of a list.
fn has_key_list(table: &Table, select: &Select) -> bool {
    let is_key = |column: usize| column < table.schema.partition;
    select.relations.iter().any(|one| matches!(one, Relation::In(column, _) if is_key(*column)))
}

/// The partition key of a row.
fn key<'a>(table: &Table, row: &'a Found) -> &'a [Read] {
    &row.values[..table.schema.partition]
}

/// What is shown: of `*` all columns in the order of the table.
fn shown(table: &Table, select: &Select) -> Vec<Item> {
    match select.items.is_empty() {
        true => table.schema.all().into_iter().map(Item::Column).collect(),
        false => select.items.clone(),
    }
}

/// The columns of an answer as they must be described.
pub(crate) fn columns(table: &Table, select: &Select) -> Vec<ShownColumn> {
    let name = |item: &Item| match item {
        Item::Column(column) => Some(table.schema.columns[*column].name.clone()),
        _ => None,
    };
    let of = |item: &Item| match item {
        Item::Column(column)
        | Item::Min(column)
        | Item::Max(column)
        | Item::Sum(column)
        | Item::Average(column) => table.schema.columns[*column].of.clone(),
        Item::Element(column, _) => parts(&table.schema.columns[*column].of).1,
        Item::Field(_, field) => FIELDS[*field].1.clone(),
        Item::WriteTime(column) if table.schema.columns[*column].is_multi_cell() => {
            Type::List(Box::new(Type::Bigint))
        }
        Item::Count | Item::CountOf(_) | Item::WriteTime(_) => Type::Bigint,
    };
    let column = |item: &Item| ShownColumn { name: name(item), of: of(item) };
    shown(table, select).iter().map(column).collect()
}

/// The rows that fulfil the conditions: by token, then by clustering, from the end where the order is reversed.
fn found(table: &Table, select: &Select) -> Vec<Found> {
    let is_of_rows = |column: &usize| {
        matches!(table.schema.columns[*column].role, Role::Clustering { .. } | Role::Regular)
    };
    let chooses_rows =
        select.relations.iter().any(|relation| relation.columns().iter().any(is_of_rows));
    let is_reversed = matches!(select.order, Some((_, true)));
    let mut all = Vec::new();
    for (number, (&(token, _), partition)) in table.partitions.iter().enumerate() {
        let key = (token, partition.keys.as_slice());
        if !is_partition_chosen(table, select, number, key) {
            continue;
        }
        let statics = table.statics(partition);
        let found = |places: Option<&[Place]>, regulars: Option<&Vec<Read>>| {
            let mut values = statics.clone();
            for (column, key) in partition.keys.iter().enumerate() {
                values[column] = Some((key.clone(), Vec::new()));
            }
            for (column, place) in table.schema.clusterings().zip(places.unwrap_or_default()) {
                values[column] = Some((place.value().clone(), Vec::new()));
            }
            for (column, read) in regulars.into_iter().flatten().enumerate() {
                if read.is_some() {
                    values[column] = read.clone();
                }
            }
            Found { token, partition: number, values }
        };
        let mut rows = table.rows(partition);
        if is_reversed {
            rows.reverse();
        }
        let has_statics = statics.iter().any(Option::is_some);
        let fits = |row: &Found| select.relations.iter().all(|relation| holds(relation, row));
        if select.is_distinct {
            let there = (!rows.is_empty() || has_statics).then(|| found(None, None));
            all.extend(there.filter(fits));
        } else if rows.is_empty() && has_statics && !chooses_rows {
            all.extend(Some(found(None, None)).filter(fits));
        } else {
            let rows = rows.iter().map(|(places, regulars)| found(Some(*places), Some(regulars)));
            all.extend(rows.filter(fits));
        }
    }
    all
}

/// Whether the conditions on its key alone choose a partition. They are asked again of its rows: this saves putting
/// together the rows of all other partitions.
fn is_partition_chosen(
    table: &Table,
    select: &Select,
    partition: usize,
    (token, keys): (i64, &[Value]),
) -> bool {
    let values = keys.iter().map(|key| Some((key.clone(), Vec::new()))).collect();
    let key = Found { token, partition, values };
    let is_of_key =
        |one: &&Relation| one.columns().iter().all(|column| *column < table.schema.partition);
    select.relations.iter().filter(is_of_key).all(|relation| holds(relation, &key))
}

fn holds(relation: &Relation, row: &Found) -> bool {
    let value = |column: usize| row.values[column].as_ref().map(|(value, _)| value);
    let values =
        |columns: &[usize]| columns.iter().map(|&at| value(at)).collect::<Option<Vec<_>>>();
    match relation {
        Relation::Compare(column, comparison, bound) => {
            value(*column).is_some_and(|value| comparison.holds(value.cmp(bound)))
        }
        Relation::In(column, list) => value(*column).is_some_and(|value| list.contains(value)),
        Relation::CompareMany(columns, comparison, bounds) => values(columns)
            .is_some_and(|values| comparison.holds(values.into_iter().cmp(bounds.iter()))),
        Relation::InMany(columns, tuples) => values(columns).is_some_and(|values| {
            tuples.iter().any(|tuple| tuple.iter().eq(values.iter().copied()))
        }),
        Relation::Contains(column, part) => value(*column).is_some_and(|value| match value {
            Value::List(values) => values.contains(part),
            Value::Set(values) => values.contains(part),
            Value::Map(entries) => entries.values().any(|value| value == part),
            _ => false,
        }),
        Relation::ContainsKey(column, key) => {
            matches!(value(*column), Some(Value::Map(entries)) if entries.contains_key(key))
        }
        Relation::Entry(column, key, part) => {
            matches!(value(*column), Some(Value::Map(entries)) if entries.get(key) == Some(part))
        }
        Relation::Token(comparison, token) => comparison.holds(row.token.cmp(token)),
    }
}

fn order(table: &Table, a: &Found, b: &Found, count: usize, is_reversed: bool) -> Ordering {
    for column in table.schema.clusterings().take(count) {
        // Null, of a partition with static columns alone, comes first, or last where the order is reversed.
        let place = |row: &Found| {
            row.values[column].as_ref().map(|(value, _)| table.place(column, value.clone()))
        };
        let ordered = place(a).cmp(&place(b));
        let ordered = if is_reversed { ordered.reverse() } else { ordered };
        if ordered.is_ne() {
            return ordered;
        }
    }
    Ordering::Equal
}

/// The first rows, or groups, of each partition: so many as PER PARTITION LIMIT lets pass.
fn first_of_each<T>(
    all: &[T],
    limit: Option<i32>,
    partition: impl Fn(&T) -> usize,
) -> impl Iterator<Item = &T> {
    let limit = limit.map_or(usize::MAX, |limit| limit as usize);
    let mut counts = BTreeMap::<usize, usize>::new();
    all.iter().filter(move |&one| {
        let count = counts.entry(partition(one)).or_default();
        *count += 1;
        *count <= limit
    })
}

/// Rows with the same first columns of the primary key.
fn groups(rows: &[Found], columns: usize) -> Vec<Vec<&Found>> {
    let mut groups: Vec<Vec<&Found>> = Vec::new();
    for row in rows {
        let is_same = |group: &&mut Vec<&Found>| {
            let last = group[group.len() - 1];
            last.partition == row.partition
                && (0..columns).all(|at| {
                    last.values[at].as_ref().map(|v| &v.0) == row.values[at].as_ref().map(|v| &v.0)
                })
        };
        match groups.last_mut().filter(is_same) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

fn one(table: &Table, items: &[Item], row: &Found) -> Answer {
    let shown = |item: &Item| match item {
        Item::Column(column) => row.values[*column].as_ref().map(|(value, _)| value.bytes()),
        Item::WriteTime(column) => row.values[*column].as_ref().map(|(_, times)| match times[..] {
            [time] if !table.schema.columns[*column].is_multi_cell() => time.to_be_bytes().to_vec(),
            _ => Value::List(times.iter().copied().map(Value::Bigint).collect()).bytes(),
        }),
        Item::Element(column, key) => match row.values[*column].as_ref().map(|(value, _)| value) {
            Some(Value::Map(entries)) => entries.get(key).map(Value::bytes),
            Some(Value::Set(values)) => values.get(key).map(Value::bytes),
            _ => None,
        },
        Item::Field(column, field) => match row.values[*column].as_ref().map(|(value, _)| value) {
            Some(Value::Tuple(fields)) => fields[*field].as_ref().map(Value::bytes),
            _ => None,
        },
        other => unreachable!("{other:?} adds rows up"),
    };
    items.iter().map(shown).collect()
}

/// One row of many: plain columns show the first of them.
fn aggregate(table: &Table, items: &[Item], rows: &[&Found]) -> Answer {
    let of = |column: usize| {
        rows.iter().filter_map(move |row| row.values[column].as_ref().map(|(value, _)| value))
    };
    let shown = |item: &Item| match item {
        Item::Column(_) | Item::WriteTime(_) | Item::Element(..) | Item::Field(..) => {
            rows.first().and_then(|row| one(table, std::slice::from_ref(item), row).remove(0))
        }
        Item::Count => Some((rows.len() as i64).to_be_bytes().to_vec()),
        Item::CountOf(column) => Some((of(*column).count() as i64).to_be_bytes().to_vec()),
        Item::Min(column) => of(*column).min().map(Value::bytes),
        Item::Max(column) => of(*column).max().map(Value::bytes),
        Item::Sum(column) | Item::Average(column) => {
            let sum = of(*column).fold(0i32, |sum, value| match value {
                Value::Int(value) => sum + value,
                other => unreachable!("{other:?} is not added up"),
            });
            let count = match item {
                Item::Average(_) => of(*column).count().max(1) as i32,
                _ => 1,
            };
            Some((sum / count).to_be_bytes().to_vec())
        }
    };
    items.iter().map(shown).collect()
}

/// The tokens of the partitions that a table has, for conditions on tokens.
pub(crate) fn tokens(table: &Table) -> BTreeSet<i64> {
    table.partitions.keys().map(|(token, _)| *token).collect()
}

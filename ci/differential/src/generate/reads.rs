//! Reads: by key, slice, token and filter; whole, limited, grouped, reversed, in pages.
//!
//! 1. The rows: by the partition key, by a range of tokens (some of these with DISTINCT), or by a filter.
//! 2. What is shown: all columns, some of them or parts of them, or aggregates with or without GROUP BY.
//! 3. Limits, and rows of a page: few, so that pages end inside groups and partitions.
//!
//! Invariants
//! 1. A read is one that a server must answer. What CQL refuses is not drawn: pages of rows that are sorted after they
//!    were read (ORDER BY with IN), restricted clusterings where only static columns are shown.
//! 2. Keys are mostly those that rows have, and bounds of token ranges are tokens of partitions that are there.
//!
//! Not here: what a read is answered (`query.rs`), its text (`text.rs`).

use super::Generator;
use crate::query::tokens;
use crate::schema::{Role, Schema};
use crate::statement::{Comparison, Item, Operation, Relation, Select};
use crate::table::Table;
use crate::text::parts;
use crate::value::{FIELDS, Type};

const SLICES: [(Comparison, Comparison); 2] = [
    (Comparison::Greater, Comparison::Less),
    (Comparison::GreaterOrEqual, Comparison::LessOrEqual),
];
const COMPARISONS: [Comparison; 5] = [
    Comparison::Equal,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

impl Generator {
    pub(super) fn select(&mut self, table: &Table) -> Operation {
        let schema = &table.schema;
        let mut select = Select::default();
        match self.draw.below(100) {
            0..45 => self.by_key(schema, &mut select),
            45..60 => self.by_token(table, &mut select),
            60..70 => {
                self.by_token(table, &mut select);
                select.is_distinct = schema.clustering > 0;
                self.by_static(schema, &mut select);
            }
            _ => self.by_filter(schema, &mut select),
        }
        self.show(schema, &mut select);
        if !select.is_distinct {
            Self::show_clustering(schema, &mut select);
        }
        self.limit(&mut select);
        Operation::Select(select)
    }

    /// The partition key by `=` or IN, then the clustering columns as far as one may without filtering.
    fn by_key(&mut self, schema: &Schema, select: &mut Select) {
        for column in 0..schema.partition {
            let relation = self.equal_or_in(schema, column, 12);
            select.relations.push(relation);
        }
        if schema.clustering > 0 {
            self.by_clustering(schema, select);
        }
        if schema.clustering > 0 && self.draw.percent(35) {
            let count = 1 + self.draw.below(schema.clustering);
            select.order = Some((count, self.draw.percent(70)));
        }
    }

    fn by_clustering(&mut self, schema: &Schema, select: &mut Select) {
        let columns: Vec<usize> = schema.clusterings().collect();
        let depth = self.draw.below(columns.len() + 1);
        for &column in &columns[..depth] {
            let relation = self.equal_or_in(schema, column, 15);
            select.relations.push(relation);
        }
        let rest = &columns[depth..];
        match self.draw.below(5) {
            _ if rest.is_empty() => {}
            0 => {}
            1 | 2 => {
                let bounds = self.draw.below(3);
                let (lower, upper) = *self.draw.pick(&SLICES);
                if bounds != 1 {
                    select.relations.push(Relation::Compare(
                        rest[0],
                        lower,
                        self.key(schema, rest[0]),
                    ));
                }
                if bounds != 0 {
                    select.relations.push(Relation::Compare(
                        rest[0],
                        upper,
                        self.key(schema, rest[0]),
                    ));
                }
            }
            3 => {
                let bounds = self.draw.below(3);
                let (lower, upper) = *self.draw.pick(&SLICES);
                let mut many = |comparison| {
                    let columns = rest[..1 + self.draw.below(rest.len())].to_vec();
                    let values = columns.iter().map(|&at| self.key(schema, at)).collect();
                    Relation::CompareMany(columns, comparison, values)
                };
                if bounds != 1 {
                    select.relations.push(many(lower));
                }
                if bounds != 0 {
                    select.relations.push(many(upper));
                }
            }
            _ => {
                let columns = rest[..1 + self.draw.below(rest.len())].to_vec();
                let mut tuple = || columns.iter().map(|&at| self.key(schema, at)).collect();
                let tuples = vec![tuple(), tuple(), tuple()];
                select.relations.push(Relation::InMany(columns, tuples));
            }
        }
    }

    fn equal_or_in(&mut self, schema: &Schema, column: usize, in_share: u64) -> Relation {
        if self.draw.percent(in_share) {
            let count = 1 + self.draw.below(3);
            return Relation::In(column, self.some_keys(schema, column, count));
        }
        Relation::Compare(column, Comparison::Equal, self.key(schema, column))
    }

    /// All partitions, or those of a range of tokens.
    fn by_token(&mut self, table: &Table, select: &mut Select) {
        let tokens: Vec<i64> = tokens(table).into_iter().collect();
        if tokens.is_empty() || self.draw.percent(40) {
            return;
        }
        let (lower, upper) = *self.draw.pick(&SLICES);
        let bounds = self.draw.below(3);
        if bounds != 1 {
            select.relations.push(Relation::Token(lower, *self.draw.pick(&tokens)));
        }
        if bounds != 0 {
            select.relations.push(Relation::Token(upper, *self.draw.pick(&tokens)));
        }
    }

    /// Now and then a condition on a static column of partitions, each shown once.
    fn by_static(&mut self, schema: &Schema, select: &mut Select) {
        let statics = schema.with_role(Role::Static);
        if select.is_distinct && !statics.is_empty() && self.draw.percent(20) {
            let column = *self.draw.pick(&statics);
            select.is_filtering = true;
            select.relations.extend(self.filter(schema, column));
        }
    }

    /// Any condition on any column, each column once.
    fn by_filter(&mut self, schema: &Schema, select: &mut Select) {
        select.is_filtering = true;
        let has_key = self.draw.percent(35);
        if has_key {
            for column in 0..schema.partition {
                let value = self.key(schema, column);
                select.relations.push(Relation::Compare(column, Comparison::Equal, value));
            }
        }
        let first = if has_key { schema.partition } else { 0 };
        let columns: Vec<usize> =
            schema.all().into_iter().filter(|&column| column >= first).collect();
        if columns.is_empty() {
            return;
        }
        let chosen = *self.draw.pick(&columns);
        for column in columns {
            if column == chosen || self.draw.percent(12) {
                select.relations.extend(self.filter(schema, column));
            }
        }
    }

    fn filter(&mut self, schema: &Schema, column: usize) -> Vec<Relation> {
        let of = schema.columns[column].of.clone();
        let is_key = column < schema.key_columns();
        let is_multi_cell = schema.columns[column].is_multi_cell();
        let is_collection = matches!(of, Type::List(_) | Type::Set(_) | Type::Map(..));
        if is_collection && !is_key && (is_multi_cell || self.draw.percent(60)) {
            let (key, item) = parts(&of);
            return vec![match &of {
                Type::Map(..) if self.draw.percent(30) => {
                    Relation::ContainsKey(column, key.draw(&mut self.draw))
                }
                Type::Map(..) if is_multi_cell && self.draw.percent(40) => {
                    Relation::Entry(column, key.draw(&mut self.draw), item.draw(&mut self.draw))
                }
                _ => Relation::Contains(column, item.draw(&mut self.draw)),
            }];
        }
        if is_multi_cell {
            return Vec::new();
        }
        let value = match is_key {
            true => self.key(schema, column),
            false => of.draw(&mut self.draw),
        };
        let is_whole = matches!(of, Type::Tuple(_) | Type::Pair);
        if !is_key && !is_whole && self.draw.percent(20) {
            return vec![Relation::In(column, vec![value, of.draw(&mut self.draw)])];
        }
        if !is_whole && !is_key && self.draw.percent(20) {
            let (lower, upper) = *self.draw.pick(&SLICES);
            let other = of.draw(&mut self.draw);
            return vec![
                Relation::Compare(column, lower, value),
                Relation::Compare(column, upper, other),
            ];
        }
        let comparison = if is_whole { Comparison::Equal } else { *self.draw.pick(&COMPARISONS) };
        vec![Relation::Compare(column, comparison, value)]
    }

    /// What is shown, and whether rows are grouped.
    fn show(&mut self, schema: &Schema, select: &mut Select) {
        if select.is_distinct {
            select.items = (0..schema.partition).map(Item::Column).collect();
            let statics = schema.with_role(Role::Static);
            let shown = statics.into_iter().filter(|_| self.draw.percent(60));
            select.items.extend(shown.map(Item::Column).collect::<Vec<_>>());
            return;
        }
        let all = schema.all();
        match self.draw.below(10) {
            0..5 => {}
            5..8 => {
                let count = 1 + self.draw.below(3);
                for _ in 0..count {
                    let column = *self.draw.pick(&all);
                    let item = self.item(schema, column);
                    select.items.push(item);
                }
            }
            _ => {
                let count = 1 + self.draw.below(3);
                select.items = (0..count).map(|_| self.aggregate(schema, &all)).collect();
                let is_sorted_after = select.order.is_some() && has_list(select);
                if !is_sorted_after && self.draw.percent(60) {
                    select.group_by = 1 + self.draw.below(schema.key_columns());
                    select.group_by = select.group_by.max(schema.partition);
                    select.items.insert(0, Item::Column(self.draw.below(select.group_by)));
                }
            }
        }
    }

    /// A column, or what it is made of.
    fn item(&mut self, schema: &Schema, column: usize) -> Item {
        let of = &schema.columns[column].of;
        let is_key = column < schema.key_columns();
        match of {
            _ if self.draw.percent(50) => Item::Column(column),
            Type::Map(..) | Type::Set(_) if self.draw.percent(60) => {
                Item::Element(column, parts(of).0.draw(&mut self.draw))
            }
            Type::Pair => Item::Field(column, self.draw.below(FIELDS.len())),
            _ if is_key => Item::Column(column),
            _ => Item::WriteTime(column),
        }
    }

    /// Clusterings are not restricted where nothing but static columns is shown: then one of them is shown, too.
    fn show_clustering(schema: &Schema, select: &mut Select) {
        let is_of_rows = |column: usize| {
            matches!(schema.columns[column].role, Role::Clustering { .. } | Role::Regular)
        };
        let shows_rows = select.items.iter().any(|item| item.column().is_some_and(is_of_rows));
        if !shows_rows && !select.items.is_empty() && schema.clustering > 0 {
            select.items.push(Item::Column(schema.partition));
        }
    }

    fn aggregate(&mut self, schema: &Schema, all: &[usize]) -> Item {
        let column = *self.draw.pick(all);
        let is_scalar = !schema.columns[column].of.has_parts()
            && !matches!(schema.columns[column].of, Type::Tuple(_) | Type::Pair);
        match self.draw.below(5) {
            0 => Item::Count,
            1 => Item::CountOf(column),
            2 if is_scalar => Item::Min(column),
            3 if is_scalar => Item::Max(column),
            4 if schema.columns[column].of == Type::Int => match self.draw.percent(50) {
                true => Item::Sum(column),
                false => Item::Average(column),
            },
            _ => Item::Count,
        }
    }

    fn limit(&mut self, select: &mut Select) {
        if self.draw.percent(30) {
            select.limit = Some(1 + self.draw.below(6) as i32);
        }
        if !select.is_distinct && !select.is_one_aggregate() && self.draw.percent(15) {
            select.per_partition = Some(1 + self.draw.below(3) as i32);
        }
        if select.order.is_none() || !has_list(select) {
            select.page_rows = *self.draw.pick(&[None, Some(1), Some(2), Some(3), Some(5000)]);
        }
    }
}

/// Whether a column is one of several: of a partition key, and the rows are brought into their order afterwards.
fn has_list(select: &Select) -> bool {
    select.relations.iter().any(|relation| matches!(relation, Relation::In(..)))
}

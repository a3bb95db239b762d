//! A bound SELECT in words: which partitions and rows it reads, what it does with them, and where it ends.
//!
//! ```text
//! EXPLAIN SELECT ..     step     what       value
//!                       access   path       one partition
//!                       rows     seek       c >=
//!                       filter   v          =
//! ```
//!
//! Values are left out: they may be long, and the reader has them. There are a few rows, and one for each condition
//! that filters. Not here: what each shard would read (`server/src/execute/explain.rs`).

use model::ReadCommand;
use model::read::{Operator, Partitions};
use model::schema::{Column, ColumnKind, Table, system};
use model::{CqlType, TokenRange};

use super::{BoundRead, Parts, SelectPlan};
use crate::frame::Version;
use crate::frame::response::{ColumnSpec, Columns};
use crate::restrict::{RowPart, ValueSet};

/// The columns of the answer to an EXPLAIN, all of them texts.
pub const EXPLAIN_COLUMNS: [&str; 3] = ["step", "what", "value"];

/// One row of the answer to an EXPLAIN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainStep {
    /// Of which part of the read it tells: `access`, `rows`, `filter`, `index`, `order`, `group`, `limit`, a shard.
    pub step: String,
    /// What it tells of that.
    pub what: String,
    /// What is so.
    pub value: String,
}

impl ExplainStep {
    /// A step of these texts.
    pub fn new(
        step: impl Into<String>,
        what: impl Into<String>,
        value: impl ToString,
    ) -> ExplainStep {
        ExplainStep { step: step.into(), what: what.into(), value: value.to_string() }
    }

    /// What the answer to an EXPLAIN looks like.
    pub fn columns(version: Version) -> Columns {
        let (keyspace, table, ty) = ("system", "explain", &CqlType::Text);
        Columns::encode(
            version,
            &EXPLAIN_COLUMNS.map(|name| ColumnSpec { keyspace, table, name, ty }),
        )
    }
}

impl SelectPlan {
    /// How this read is done, in order.
    pub fn explain(&self, bound: &BoundRead) -> Vec<ExplainStep> {
        let table = &*self.table;
        let mut steps = vec![ExplainStep::new("access", "table", table_name(table))];
        let Some(command) = &bound.command else {
            steps.push(ExplainStep::new("access", "path", "nothing is read: no row can match"));
            return steps;
        };
        steps.push(ExplainStep::new("access", "path", self.path(command)));
        if let Partitions::Range(range) = &command.partitions
            && *range != TokenRange::ALL
        {
            let tokens = format!("{} to {}", range.first.0, range.last.0);
            steps.push(ExplainStep::new("access", "tokens", tokens));
        }
        if system::computes(table) {
            let text = "the rows are computed when they are asked for";
            steps.push(ExplainStep::new("access", "source", text));
        }
        if command.resume.is_some() {
            steps.push(ExplainStep::new("access", "begin", "behind the page before"));
        }
        if !self.filter.rows.is_all() {
            steps.push(ExplainStep::new("rows", "seek", self.seek()));
            steps.push(ExplainStep::new("rows", "stretches", command.slices.len()));
        }
        let filters = command.filters.iter();
        steps.extend(filters.map(|filter| {
            let column = filter.column(table).map_or("?", |column| column.name.as_str());
            ExplainStep::new("filter", column, operator(filter.operator))
        }));
        steps.extend(command.lookups.iter().filter_map(|lookup| {
            let index = table.index_by_id(lookup.index)?;
            let ranges = match lookup.terms.len() {
                1 => "one range of terms".to_owned(),
                count => format!("{count} ranges of terms"),
            };
            Some(ExplainStep::new("index", &index.name, ranges))
        }));
        steps.push(ExplainStep::new("order", "rows", self.order(command)));
        self.explain_groups(bound, &mut steps);
        self.explain_limits(command, bound, &mut steps);
        steps
    }

    fn path(&self, command: &ReadCommand) -> String {
        let rows = &self.filter.rows;
        match &command.partitions {
            Partitions::Keys(keys) if keys.len() > 1 => format!("{} partitions by key", keys.len()),
            Partitions::Keys(_) if rows.is_rows(&self.table) && command.slices.len() == 1 => {
                "one row".to_owned()
            }
            Partitions::Keys(_) if rows.is_all() => "one partition".to_owned(),
            Partitions::Keys(_) => "a part of one partition".to_owned(),
            Partitions::Range(range) => {
                let scan = match *range == TokenRange::ALL {
                    true => "full scan",
                    false => "scan of a range of tokens",
                };
                // Which of both costs less is known where the rows are.
                let index = if command.lookups.is_empty() { "" } else { "index, or " };
                format!("{index}{scan}")
            }
        }
    }

    /// The clustering columns by which rows are found, each with what it is compared by.
    fn seek(&self) -> String {
        let columns = self.table.clustering();
        let parts = self.filter.rows.parts.iter().map(|part| match part {
            RowPart::ValueSet { first, count, values } => {
                let relation = if matches!(values, ValueSet::One(_)) { "=" } else { "IN" };
                format!("{} {relation}", names(&columns[*first..first + count]))
            }
            RowPart::Slice { first, count, lower, upper } => {
                let lower = lower.as_ref().map(|bound| if bound.inclusive { ">=" } else { ">" });
                let upper = upper.as_ref().map(|bound| if bound.inclusive { "<=" } else { "<" });
                let ends: Vec<&str> = lower.into_iter().chain(upper).collect();
                format!("{} {}", names(&columns[*first..first + count]), ends.join(" and "))
            }
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    fn order(&self, command: &ReadCommand) -> String {
        if let Some(nearest) = &self.nearest {
            let (column, similarity) = (&nearest.column.name, nearest.similarity.name());
            let is_bare = command.filters.is_empty() && self.filter.rows.is_all();
            let by_files = is_bare && nearest.column.kind == ColumnKind::Regular;
            // Which sstables have files of vectors is known where the rows are.
            let how = match (&command.partitions, by_files) {
                (Partitions::Range(_), true) => "found by files of vectors, or among all rows",
                _ => "found among all that is read",
            };
            return format!("the nearest by {column}, {similarity}: {how}");
        }
        match self.sorted_after {
            Some(order) => {
                let by = names(&self.table.clustering()[..order.columns]);
                let reversed = if order.reversed { ", against the order of storage" } else { "" };
                format!("sorted in memory by {by}{reversed}")
            }
            None if self.reversed => "against the order of storage".to_owned(),
            None => "as stored".to_owned(),
        }
    }

    fn explain_groups(&self, bound: &BoundRead, steps: &mut Vec<ExplainStep>) {
        let selection = &self.selection;
        if self.distinct {
            steps.push(ExplainStep::new("group", "rows", "one for each partition"));
        }
        if !selection.is_aggregate() {
            return;
        }
        let groups = match self.group_by {
            None => "one group of all rows".to_owned(),
            Some(by) => {
                let function =
                    if selection.group_by.is_some() { ", by a function of it" } else { "" };
                format!("a group for each {}{function}", names(&self.table.columns()[..by]))
            }
        };
        steps.push(ExplainStep::new("group", "rows", groups));
        steps.push(ExplainStep::new("group", "aggregates", selection.aggregates.len()));
        let made = match self.parts(bound) {
            Some(Parts::SideBySide) => "on all shards at once, if it is over a range",
            Some(Parts::OneByOne) => "on one shard after another, if it is over a range",
            None => "where the statement runs",
        };
        steps.push(ExplainStep::new("group", "made", made));
    }

    fn explain_limits(
        &self,
        command: &ReadCommand,
        bound: &BoundRead,
        steps: &mut Vec<ExplainStep>,
    ) {
        let limits = &command.limits;
        let rows = if bound.reads_all { u64::MAX } else { limits.rows };
        let page_rows = if bound.reads_all { u64::MAX } else { limits.page_rows };
        let counts = if self.selection.is_aggregate() { "groups" } else { "sorted rows" };
        let encoded = if bound.reads_all { bound.encoder_limit } else { u64::MAX };
        for (what, number) in [
            ("rows", rows),
            (counts, encoded),
            ("rows of a partition", limits.rows_per_partition),
            ("rows of a page", page_rows),
            ("bytes of a page", limits.page_bytes),
            ("tombstones", limits.tombstones),
        ] {
            if number < u64::MAX {
                steps.push(ExplainStep::new("limit", what, number));
            }
        }
    }
}

fn table_name(table: &Table) -> String {
    format!("{}.{}", table.keyspace, table.name)
}

/// A column by its name, several in parentheses.
fn names(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    match names.as_slice() {
        [one] => (*one).to_owned(),
        all => format!("({})", all.join(", ")),
    }
}

fn operator(operator: Operator) -> &'static str {
    match operator {
        Operator::Equal => "=",
        Operator::Less => "<",
        Operator::LessOrEqual => "<=",
        Operator::Greater => ">",
        Operator::GreaterOrEqual => ">=",
        Operator::In => "IN",
        Operator::Contains => "CONTAINS",
        Operator::ContainsKey => "CONTAINS KEY",
        Operator::Entry => "[key] =",
        Operator::Like(like) => like.symbol(),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Database;

    fn database() -> Database {
        let mut db = Database::with(
            "k int, c int, d text, s int static, v int, m map<int, int>, PRIMARY KEY (k, c, d)",
        );
        db.page_rows = Some(100);
        db
    }

    /// The steps but for the table and the limits that every read has.
    fn told(db: &mut Database, text: &str) -> String {
        let all = db.ok(&format!("EXPLAIN SELECT {text}"));
        let usual = ["access, table", "limit, bytes of a page", "limit, rows of a page"];
        let lines = all.lines().filter(|line| !usual.iter().any(|usual| line.starts_with(usual)));
        lines.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn an_index_that_is_asked_is_told() {
        let mut db = database();
        db.ok("CREATE INDEX ON t (v)");
        let scan = "access, path, index, or full scan; filter, v";
        for (text, steps) in [
            (
                "v = 3",
                format!("{scan}, =; index, t_v_idx, one range of terms; order, rows, as stored"),
            ),
            (
                "v IN (3, 5) ALLOW FILTERING",
                format!("{scan}, IN; index, t_v_idx, 2 ranges of terms; order, rows, as stored"),
            ),
            (
                "d = 'a' ALLOW FILTERING",
                "access, path, full scan; filter, d, =; order, rows, as stored".to_owned(),
            ),
        ] {
            assert_eq!(told(&mut db, &format!("* FROM t WHERE {text}")), steps, "{text}");
        }
    }

    #[test]
    fn each_kind_of_read_is_told() {
        let mut db = database();
        for (text, steps) in [
            ("* FROM t WHERE k = 1", "access, path, one partition; order, rows, as stored"),
            (
                "* FROM t WHERE k = 1 AND c = 2 AND d = 'a'",
                "access, path, one row; rows, seek, c =, d =; rows, stretches, 1; order, rows, as stored",
            ),
            (
                "* FROM t WHERE k = 1 AND c IN (2, 3) AND d > 'a' AND d <= 'x'",
                "access, path, a part of one partition; rows, seek, c IN, d > and <=; rows, stretches, 2; order, rows, as stored",
            ),
            (
                "* FROM t WHERE k = 1 AND (c, d) >= (2, 'a') ORDER BY c DESC LIMIT 7",
                "access, path, a part of one partition; rows, seek, (c, d) >=; rows, stretches, 1; order, rows, against the order of storage; limit, rows, 7",
            ),
            (
                "* FROM t WHERE k IN (1, 2, 3) PER PARTITION LIMIT 2",
                "access, path, 3 partitions by key; order, rows, as stored; limit, rows of a partition, 2",
            ),
            (
                "* FROM t WHERE v > 3 AND m CONTAINS KEY 4 AND d = 'a' ALLOW FILTERING",
                "access, path, full scan; filter, d, =; filter, v, >; filter, m, CONTAINS KEY; order, rows, as stored",
            ),
            (
                "* FROM t WHERE token(k) > 5 AND token(k) <= 9",
                "access, path, scan of a range of tokens; access, tokens, 6 to 9; order, rows, as stored",
            ),
            (
                "* FROM t WHERE token(k) > 5 AND token(k) < 5",
                "access, path, nothing is read: no row can match",
            ),
            (
                "DISTINCT k, s FROM t",
                "access, path, full scan; order, rows, as stored; group, rows, one for each partition",
            ),
            (
                "count(*), sum(v) FROM t",
                "access, path, full scan; order, rows, as stored; group, rows, one group of all rows; group, aggregates, 2; group, made, on all shards at once, if it is over a range",
            ),
            (
                "k, c, max(v) FROM t GROUP BY k, c LIMIT 3",
                "access, path, full scan; order, rows, as stored; group, rows, a group for each (k, c); group, aggregates, 1; group, made, where the statement runs; limit, groups, 3",
            ),
        ] {
            assert_eq!(told(&mut db, text), steps, "{text}");
        }
        db.page_rows = None;
        let whole = told(&mut db, "k, c, max(v) FROM t GROUP BY k, c");
        let made = "group, made, on one shard after another, if it is over a range";
        assert!(whole.contains(made), "without pages: {whole}");
        let sorted = told(&mut db, "* FROM t WHERE k IN (1, 2) ORDER BY c DESC, d DESC LIMIT 4");
        let order = "order, rows, sorted in memory by (c, d), against the order of storage";
        assert!(sorted.contains(order) && sorted.ends_with("limit, sorted rows, 4"), "{sorted}");
    }

    #[test]
    fn errors_are_those_of_the_select() {
        let mut db = database();
        for text in [
            "SELECT nope FROM t",
            "SELECT * FROM t WHERE v = 1",
            "SELECT * FROM t LIMIT 0",
            "SELECT * FROM nope",
        ] {
            assert_eq!(db.err(&format!("EXPLAIN {text}")), db.err(text), "{text}");
        }
        for text in
            ["EXPLAIN", "EXPLAIN INSERT INTO t (k) VALUES (1)", "EXPLAIN EXPLAIN SELECT * FROM t"]
        {
            assert!(db.err(text).starts_with("line "), "{text}");
        }
        db.ok("CREATE TABLE explain (explain int PRIMARY KEY)");
        assert_eq!(db.ok("SELECT explain FROM explain"), "", "it is no reserved word");
    }
}

//! Parts of one result: each core adds up what it owns of a range, and one puts them together.
//!
//! ```text
//! rows of a part ─► encoder ─► into_part ─► ResultPart: whole groups as rows, the group of all rows as its state
//! parts, in the order of their tokens ─► take_part ─► encoder of the whole result ─► finish
//! ```
//!
//! A group that GROUP BY makes lies in one partition, so it is whole in its part. The one group without GROUP BY is
//! not: the states of its parts are merged, or the state of a part goes on in the next one (`SelectPlan::parts` says
//! which).

use super::{Grouping, ResultEncoder};
use crate::bind::StatementTime;
use crate::error::Result;
use crate::expr::check_result_bytes;
use crate::expr::function::Accumulator;

/// What was made of the rows of one part. Plain data.
#[derive(Clone, Debug, Default)]
pub struct ResultPart {
    /// Rows of the result that are whole, as the answer has them.
    bytes: Vec<u8>,
    /// The number of these rows.
    rows: u64,
    /// The group of all rows, if there was one.
    open: Option<OpenGroup>,
}

/// The state of a group that has not ended.
#[derive(Clone, Debug)]
pub struct OpenGroup {
    accumulators: Vec<Accumulator>,
    firsts: Vec<Option<Vec<u8>>>,
    first_bytes: usize,
}

impl From<OpenGroup> for ResultPart {
    fn from(open: OpenGroup) -> ResultPart {
        ResultPart { open: Some(open), ..ResultPart::default() }
    }
}

impl OpenGroup {
    /// Bytes of the values that it keeps.
    fn bytes(&self) -> usize {
        self.first_bytes + self.accumulators.iter().map(Accumulator::bytes).sum::<usize>()
    }

    /// Adds the rows of a later part.
    fn merge(&mut self, later: OpenGroup, time: &StatementTime<'_>) -> Result<()> {
        let mut pairs = self.accumulators.iter_mut().zip(later.accumulators);
        pairs.try_for_each(|(known, later)| known.merge(later, time))
    }
}

impl Grouping {
    /// Takes the state of the group of all rows, if a row has come.
    fn take_open(&mut self) -> Option<OpenGroup> {
        self.current.take()?;
        let (accumulators, firsts) =
            (std::mem::take(&mut self.accumulators), std::mem::take(&mut self.firsts));
        Some(OpenGroup { accumulators, firsts, first_bytes: std::mem::take(&mut self.first_bytes) })
    }
}

impl ResultEncoder<'_> {
    /// Ends the rows of one part of a range.
    pub fn into_part(mut self) -> Result<ResultPart> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut open = None;
        let mut grouping = self.grouping.take().expect("only aggregates are made in parts");
        if grouping.by.is_none() {
            open = grouping.take_open();
        } else if grouping.current.is_some() {
            self.work.begin();
            self.end_group(&grouping)?;
        }
        Ok(ResultPart { bytes: self.out.split_off(self.start), rows: self.rows, open })
    }

    /// Takes what was made of a part whose rows come behind all that was taken before.
    pub fn take_part(&mut self, part: ResultPart) -> Result<()> {
        check_result_bytes(self.out.len() - self.start + part.bytes.len())?;
        self.out.extend_from_slice(&part.bytes);
        self.rows += part.rows;
        let Some(later) = part.open else { return Ok(()) };
        let grouping = self.grouping.as_mut().expect("only aggregates are made in parts");
        let open = match grouping.take_open() {
            Some(mut open) => {
                open.merge(later, &self.time)?;
                open
            }
            None => later,
        };
        let bytes = open.bytes();
        check_result_bytes(bytes)?;
        self.group_bytes = bytes + size_of_val(&open.accumulators[..]);
        let OpenGroup { accumulators, firsts, first_bytes } = open;
        grouping.current = Some(Vec::new());
        (grouping.accumulators, grouping.firsts, grouping.first_bytes) =
            (accumulators, firsts, first_bytes);
        Ok(())
    }

    /// Takes the state of the group of all rows out, for the next part to go on with it.
    pub fn take_open(&mut self) -> Option<OpenGroup> {
        self.group_bytes = 0;
        self.grouping.as_mut()?.take_open()
    }

    /// How many more groups the result may have.
    pub fn groups_left(&self) -> u64 {
        self.limit.saturating_sub(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Parts;
    use crate::prepare::{Statement, prepare};
    use crate::testing::Database;

    fn table() -> Database {
        let columns = "k int, c int, s int static, b bigint, v varint, d decimal, f double, t text,
            PRIMARY KEY (k, c)";
        let mut db = Database::with(columns);
        for k in 0..20_i64 {
            db.ok(&format!("INSERT INTO t (k, s) VALUES ({k}, {})", k * 7));
            for c in 0..k % 4 {
                let (b, big) = (i64::MAX - k, "9".repeat(30 + c as usize));
                let (d, f) = (format!("{k}.{}", "3".repeat(k as usize + 1)), 0.1 * k as f64);
                db.ok(&format!(
                    "INSERT INTO t (k, c, b, v, d, f, t) VALUES ({k}, {c}, {b}, {big}, {d}, {f}, '{k}-{c}')"
                ));
            }
        }
        db
    }

    /// Each is made of parts as well, by [`Database`] itself.
    #[test]
    fn a_result_that_is_made_of_parts_is_that_of_all_rows() {
        let mut db = table();
        for (selected, rows) in [
            ("count(*), count(b), min(t), max(d)", ""),
            ("k, t, sum(b), avg(b), sum(v), avg(v)", ""),
            ("sum(d), avg(d)", ""),
            ("sum(f), avg(f), count(*)", ""),
            ("k, count(*), sum(f), avg(d), max(s)", "GROUP BY k"),
            ("k, c, sum(b)", "GROUP BY k, c LIMIT 9"),
            ("k, c, sum(f)", "GROUP BY k, c PER PARTITION LIMIT 2"),
            ("count(*), max(b)", "WHERE b < 0 ALLOW FILTERING"),
            ("sum(b), min(c)", "WHERE token(k) > 1000 AND token(k) < 4000000000000000000"),
            ("k, c", "GROUP BY k, c"),
        ] {
            let text = format!("SELECT {selected} FROM t {rows}");
            assert!(!db.ok(&text).is_empty() || rows.contains("WHERE"), "{text}");
        }
        // Five partitions have a static row alone; sums wrap.
        assert_eq!(db.ok("SELECT count(*), sum(b) FROM t"), "35, -340");
    }

    #[test]
    fn what_depends_on_order_goes_on_from_part_to_part() {
        let db = table();
        let parts = |text: &str| {
            let prepared = prepare(text, &db.schema, db.keyspace.as_deref()).expect("it compiles");
            let Statement::Select(plan) = prepared.statement else { panic!("a SELECT") };
            plan.parts_of_all()
        };
        let beside = ["count(*), sum(b), avg(v), min(f)", "sum(d)", "count(f)"];
        for selected in beside {
            assert_eq!(parts(&format!("SELECT {selected} FROM t")), Some(Parts::SideBySide));
        }
        for selected in ["sum(f)", "avg(d)", "count(*), avg(f)"] {
            assert_eq!(parts(&format!("SELECT {selected} FROM t")), Some(Parts::OneByOne));
        }
        assert_eq!(parts("SELECT k, count(*) FROM t GROUP BY k"), Some(Parts::OneByOne));
        assert_eq!(parts("SELECT k, sum(b) FROM t GROUP BY k LIMIT 2"), Some(Parts::OneByOne));
        assert_eq!(parts("SELECT k FROM t"), None, "rows are no aggregate");
    }
}

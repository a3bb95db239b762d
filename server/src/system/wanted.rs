//! What a read of a computed table can show, so that no more is computed: a driver asks for one table of ten thousand
//! after each change of it, and a page of 5,000 rows is a part of all columns.
//!
//! It speaks of tables whose partitions are keyspaces and whose rows begin with the name of an object. What it says is
//! "perhaps": the read itself still decides on each row.

use std::sync::Arc;

use model::read::{Partitions, ReadCommand, Slice};
use model::schema::{Schema, Table};
use model::{CqlType, Token, ordered};

use super::schema_rows;

/// Whether one page of a read is made of what is computed, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// The next page computes again.
    One,
    /// All pages, as for an aggregate.
    All,
}

/// A read of a computed table.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'r> {
    command: &'r ReadCommand,
    pages: Pages,
}

impl<'r> Wanted<'r> {
    /// What this read can show.
    pub(crate) fn of(command: &'r ReadCommand, pages: Pages) -> Wanted<'r> {
        Wanted { command, pages }
    }

    /// Whether it may show a row of this keyspace.
    pub(super) fn keyspace(&self, name: &str) -> bool {
        match &self.command.partitions {
            Partitions::Keys(keys) => keys.iter().any(|(_, key)| **key == *name.as_bytes()),
            Partitions::Range(range) => {
                let token = Token::of_key(name.as_bytes());
                let resume = self.command.resume.as_ref();
                range.contains(token) && resume.is_none_or(|resume| resume.token <= token)
            }
        }
    }

    /// The tables of the schema of which it may show rows: keyspaces in the order of tokens, tables in that of names.
    pub(crate) fn tables(self, schema: &Schema) -> impl Iterator<Item = &Arc<Table>> {
        let keyspaces = schema_rows::stored(schema).filter(move |one| self.keyspace(&one.name));
        let tables = keyspaces.flat_map(|keyspace| keyspace.tables.values());
        tables.filter(move |table| self.object_of(&table.keyspace, &table.name))
    }

    /// Whether it may show a row of this table, type or other object of the keyspace.
    pub(super) fn object(&self, keyspace: &str, name: &str) -> bool {
        self.keyspace(keyspace) && self.object_of(keyspace, name)
    }

    /// Whether it may show a row of this object, of whose keyspace it may show rows.
    fn object_of(&self, keyspace: &str, name: &str) -> bool {
        if self.command.resume.is_none() && self.command.slices == [Slice::all()] {
            return true;
        }
        let mut first = Vec::new();
        let encoded = ordered::encode(&CqlType::Text, name.as_bytes(), &mut first);
        encoded.expect("text is ordered");
        let mut end = first.clone();
        model::key::after(&mut end);
        let meets = |slice: &Slice| slice.start < end && slice.end > first;
        self.command.slices.iter().any(meets) && !self.was_shown(keyspace, &first)
    }

    /// Whether earlier pages have shown all of the object whose rows begin with `first`.
    fn was_shown(&self, keyspace: &str, first: &[u8]) -> bool {
        let resume = self.command.resume.as_ref().filter(|_| !self.command.reversed);
        let resume = resume.filter(|resume| resume.key == keyspace.as_bytes());
        let shown = resume.and_then(|resume| resume.clustering.as_deref());
        shown.is_some_and(|shown| first < shown && !shown.starts_with(first))
    }

    /// How many rows suffice, if those of keyspaces come in the order of tokens, and those of objects in the order of
    /// names; `None`: all.
    pub(crate) fn rows_max(&self) -> Option<usize> {
        let command = self.command;
        let is_plain = self.pages == Pages::One
            && matches!(command.partitions, Partitions::Range(_))
            && command.slices == [Slice::all()]
            && command.filters.is_empty()
            && command.limits.rows_per_partition == u64::MAX
            && !command.reversed
            && !command.distinct;
        // One more tells that there is another page.
        let page = command.limits.page_rows.min(command.limits.rows).saturating_add(1);
        usize::try_from(page).ok().filter(|_| is_plain)
    }
}

#[cfg(test)]
mod tests {
    use model::TableId;
    use model::read::{Limits, Resume};
    use uuid::Uuid;

    use super::*;

    fn command(partitions: Partitions, slices: Vec<Slice>) -> ReadCommand {
        ReadCommand {
            table: TableId(Uuid::nil()),
            partitions,
            slices,
            reversed: false,
            static_alone: false,
            distinct: false,
            filters: Vec::new(),
            lookups: Vec::new(),
            nearest: None,
            limits: Limits { page_rows: 100, ..Limits::none(1 << 20) },
            resume: None,
            now_s: 0,
        }
    }

    fn encoded(name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        ordered::encode(&CqlType::Text, name.as_bytes(), &mut out).unwrap();
        out
    }

    fn key(name: &str) -> Partitions {
        let key = name.as_bytes();
        Partitions::Keys(vec![(Token::of_key(key), key.into())])
    }

    /// After each change a driver asks for one table: all were computed.
    #[test]
    fn a_read_of_one_table_wants_one_table() {
        let mut after = encoded("t1");
        model::key::after(&mut after);
        let read = command(key("ks"), vec![Slice { start: encoded("t1"), end: after }]);
        let wanted = Wanted::of(&read, Pages::One);
        assert!(wanted.object("ks", "t1"));
        for (keyspace, name) in [("ks", "t10"), ("ks", "t"), ("ks", "t0"), ("k", "t1")] {
            assert!(!wanted.object(keyspace, name), "{keyspace}.{name}");
        }
        assert_eq!(wanted.rows_max(), None, "not a scan");
    }

    #[test]
    fn a_page_wants_what_no_page_has_shown_and_no_more_than_a_page() {
        let all = Partitions::Range(model::TokenRange::ALL);
        let mut read = command(all, vec![Slice::all()]);
        assert!(Wanted::of(&read, Pages::One).object("ks", "a"));
        let clustering = [encoded("m"), encoded("column")].concat();
        read.resume = Some(Resume {
            token: Token::of_key(b"ks"),
            key: b"ks".to_vec(),
            clustering: Some(clustering),
            partition_done: false,
            rows_of_partition: 7,
        });
        let wanted = Wanted::of(&read, Pages::One);
        assert!(!wanted.object("ks", "a") && wanted.object("ks", "m") && wanted.object("ks", "z"));
        assert_eq!(wanted.rows_max(), Some(101));
        let is_later = |name: &str| Token::of_key(name.as_bytes()) >= Token::of_key(b"ks");
        for other in ["system", "other", "ks2", "ks3"] {
            assert_eq!(wanted.object(other, "a"), is_later(other), "{other}");
        }
        assert_eq!(Wanted::of(&read, Pages::All).rows_max(), None);
    }
}

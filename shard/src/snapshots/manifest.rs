//! What a snapshot says about itself: `manifest.json`.
//!
//! `files`, `created_at`, `expires_at` and `ephemeral` are as Cassandra's manifest has them; `schema` has entries as the
//! schema's log (`model/src/schema/FORMAT.md`), `views` what the manifests of the shards said (`engine/src/journal/FORMAT.md`).
//!
//! Invariants: a table in `schema` is made after its keyspace and types; a view is of one of the tables. Not here: the
//! file on the disk.

use std::fmt::Write;
use std::sync::Arc;

use engine::limits::SNAPSHOT_MANIFEST_BYTES_MAX;
use engine::manifest::{ViewBegin, ViewEntry};
use engine::{Error, Result};
use model::schema::{self, SchemaEntry, Table};
use model::types::UserType;
use model::{Schema, SchemaChange, TableId, Token, TokenRange};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::Expiry;

/// The newest form that this build reads. It is written where a view begins inside a partition, which a build that
/// knows the form before would read from its first token on.
const FORMAT: u32 = 2;
/// The form in which every view begins with a token.
const FORMAT_OF_TOKENS: u32 = 1;

/// A snapshot's manifest.
#[derive(Debug)]
pub(super) struct Manifest {
    /// When it was taken, as it is shown.
    pub(super) created_at: String,
    /// When it goes by itself.
    pub(super) expiry: Option<Expiry>,
    /// What makes keyspaces, types and tables, in this order.
    changes: Vec<SchemaChange>,
    /// The entry of each in the schema's log.
    entries: Vec<Value>,
    views: Vec<ViewEntry>,
}

#[derive(Serialize, Deserialize)]
struct Form {
    format: u32,
    created_at: String,
    expires_at: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<i64>,
    ephemeral: bool,
    files: Vec<String>,
    schema: Vec<Value>,
    views: Vec<ViewForm>,
}

#[derive(Serialize, Deserialize)]
struct ViewForm {
    table: Uuid,
    sstable: Uuid,
    first_token: i64,
    last_token: i64,
    bytes: u64,
    footer_checksum: String,
    /// Where the view begins inside a partition: the key and the clustering place, each in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begin: Option<[String; 2]>,
    /// The run that the file is a fragment of, where it is not one by itself. Builds before this one make a run of each
    /// file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<Uuid>,
}

impl Manifest {
    /// Of these tables; `None` if one of them is not there.
    pub(super) fn of(
        schema: &Schema,
        tables: &[TableId],
        views: Vec<ViewEntry>,
        (created_at, expiry): (String, Option<Expiry>),
    ) -> Option<Manifest> {
        let tables: Vec<&Table> = tables
            .iter()
            .map(|id| schema.table_by_id(*id).map(|table| &**table))
            .collect::<Option<_>>()?;
        let mut changes = Vec::new();
        for keyspace in schema.keyspaces() {
            if !tables.iter().any(|table| table.keyspace == keyspace.name) {
                continue;
            }
            let (name, options) = (keyspace.name.clone(), keyspace.options.clone());
            changes.push(SchemaChange::CreateKeyspace { name, options });
            let types = keyspace.types.values();
            changes.extend(types.map(|ty| SchemaChange::CreateType((**ty).clone())));
        }
        let create = |table: &&Table| SchemaChange::CreateTable(Box::new((*table).clone()));
        changes.extend(tables.iter().map(create));
        let entry = |change: &SchemaChange| {
            let (number, version) = (schema.number, schema.version);
            let entry = SchemaEntry { number, version, change: change.clone() };
            serde_json::from_slice(&schema::encode(&entry)).expect("an entry is JSON")
        };
        let entries = changes.iter().map(entry).collect();
        Some(Manifest { created_at, expiry, changes, entries, views })
    }

    /// The bytes of the file; `Invalid` if they are more than are read.
    pub(super) fn to_file(&self) -> Result<Vec<u8>> {
        self.to_file_within(SNAPSHOT_MANIFEST_BYTES_MAX)
    }

    fn to_file_within(&self, bytes_max: u64) -> Result<Vec<u8>> {
        let bytes = self.encode();
        if bytes.len() as u64 <= bytes_max {
            return Ok(bytes);
        }
        let (tables, views, long) = (self.tables().count(), self.views.len(), bytes.len());
        Err(Error::invalid(format!(
            "The snapshot cannot be taken: what it says of {tables} tables in {views} parts of files takes {long} bytes, and of more than {bytes_max} it could not be read. DROP or snapshot fewer tables at once, or compact them first; tables with allow_auto_snapshot = false are left out where one is taken before a DROP or TRUNCATE"
        )))
    }

    /// The bytes of the file.
    fn encode(&self) -> Vec<u8> {
        let view = |view: &ViewEntry| ViewForm {
            table: view.table,
            sstable: view.sstable,
            first_token: view.tokens.first.0,
            last_token: view.tokens.last.0,
            bytes: view.file_bytes,
            footer_checksum: format!("{:016x}", view.footer_checksum),
            begin: view.begin.as_ref().map(|begin| [hex(&begin.key), hex(&begin.position)]),
            run: (view.run != view.sstable).then_some(view.run),
        };
        let is_cut = self.views.iter().any(|view| view.begin.is_some());
        let format = if is_cut { FORMAT } else { FORMAT_OF_TOKENS };
        let mut files: Vec<String> =
            self.views.iter().map(|view| format!("{}/{}.sst", view.table, view.sstable)).collect();
        files.sort();
        files.dedup();
        let form = Form {
            format,
            created_at: self.created_at.clone(),
            expires_at: self.expiry.as_ref().map(|expiry| expiry.shown.clone()),
            expires_at_ms: self.expiry.as_ref().map(|expiry| expiry.at_ms),
            ephemeral: false,
            files,
            schema: self.entries.clone(),
            views: self.views.iter().map(view).collect(),
        };
        let mut bytes = serde_json::to_vec_pretty(&form).expect("its keys are strings");
        bytes.push(b'\n');
        bytes
    }

    /// Reads the bytes of the file; the error says what is wrong with them.
    pub(super) fn decode(bytes: &[u8]) -> std::result::Result<Manifest, String> {
        let form: Form = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if form.format > FORMAT {
            return Err(format!("it has format {}, this build knows up to {FORMAT}", form.format));
        }
        let mut changes = Vec::new();
        for entry in &form.schema {
            let bytes = serde_json::to_vec(entry).map_err(|error| error.to_string())?;
            let entry = schema::decode(&bytes, &mut Vec::new());
            let change = entry.map_err(|error| error.to_string())?.change;
            let makes = matches!(
                change,
                SchemaChange::CreateKeyspace { .. }
                    | SchemaChange::CreateType(_)
                    | SchemaChange::CreateTable(_)
            );
            if !makes {
                return Err("its schema does more than make things".to_owned());
            }
            changes.push(change);
        }
        let views: Vec<ViewEntry> =
            form.views.into_iter().map(ViewForm::view).collect::<std::result::Result<_, _>>()?;
        check_parts(&views)?;
        let (created_at, entries) = (form.created_at, form.schema);
        let expiry = form
            .expires_at_ms
            .map(|at_ms| Expiry { at_ms, shown: form.expires_at.unwrap_or_default() });
        Ok(Manifest { created_at, expiry, changes, entries, views })
    }

    /// The tables that are in it.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.changes.iter().filter_map(|change| match change {
            SchemaChange::CreateTable(table) => Some(&**table),
            _ => None,
        })
    }

    /// What must be there before these tables can be, and they, in order.
    pub(super) fn changes_for(&self, tables: &[&Table]) -> impl Iterator<Item = &SchemaChange> {
        self.changes.iter().filter(|change| match change {
            SchemaChange::CreateKeyspace { name, .. } => {
                tables.iter().any(|table| table.keyspace == *name)
            }
            SchemaChange::CreateType(ty) => {
                tables.iter().any(|table| table.keyspace == ty.keyspace)
            }
            SchemaChange::CreateTable(made) => tables.iter().any(|table| table.id == made.id),
            _ => true,
        })
    }

    /// The types of the snapshot that a table of it uses.
    pub(super) fn types_of(&self, table: &Table) -> impl Iterator<Item = &UserType> {
        self.changes.iter().filter_map(|change| match change {
            SchemaChange::CreateType(ty) if ty.keyspace == table.keyspace => {
                let uses = table.columns().iter().any(|column| column.ty.mentions(&ty.name));
                uses.then_some(ty)
            }
            _ => None,
        })
    }

    /// The views of a table.
    pub(super) fn views_of(&self, table: TableId) -> impl Iterator<Item = &ViewEntry> {
        self.views.iter().filter(move |view| view.table == table.0)
    }
}

impl ViewForm {
    fn view(self) -> std::result::Result<ViewEntry, String> {
        let tokens = TokenRange { first: Token(self.first_token), last: Token(self.last_token) };
        let checksum = u64::from_str_radix(&self.footer_checksum, 16);
        let footer_checksum = checksum.map_err(|_| "a checksum is 16 hexadecimal digits")?;
        if tokens.is_empty() {
            return Err("a view holds no token".to_owned());
        }
        let begin = match self.begin {
            None => None,
            Some([key, position]) => {
                let begin = ViewBegin { key: unhex(&key)?, position: unhex(&position)? };
                Some(Arc::new(begin))
            }
        };
        Ok(ViewEntry {
            sstable: self.sstable,
            table: self.table,
            run: self.run.unwrap_or(self.sstable),
            tokens,
            begin,
            file_bytes: self.bytes,
            footer_checksum,
            level: 0,
            shared: false,
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

fn unhex(digits: &str) -> std::result::Result<Box<[u8]>, String> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|nibble| nibble as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
        _ => None,
    };
    let bytes: Option<Box<[u8]>> = digits.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or_else(|| "a place in a partition is pairs of hexadecimal digits".to_owned())
}

/// Refuses parts of one file that have a token in common: a shard would have it twice.
fn check_parts(views: &[ViewEntry]) -> std::result::Result<(), String> {
    let mut parts: Vec<_> = views.iter().map(|view| (view.sstable, view.tokens)).collect();
    parts.sort_by_key(|(sstable, tokens)| (*sstable, tokens.first));
    let overlap =
        |pair: &[(Uuid, TokenRange)]| pair[0].0 == pair[1].0 && pair[0].1.last >= pair[1].1.first;
    match parts.windows(2).find(|pair| overlap(pair)) {
        None => Ok(()),
        Some(pair) => Err(format!("two parts of {} overlap", pair[0].0)),
    }
}

#[cfg(test)]
mod tests {
    use model::options::KeyspaceOptions;
    use model::schema::TableBuilder;
    use model::types::CqlType;

    use super::*;

    fn manifest() -> Manifest {
        let id = TableId(Uuid::from_u128(7));
        let table = TableBuilder::new("ks", "t", id).partition_key("k", CqlType::Int).unwrap();
        let keyspace =
            SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() };
        let table = SchemaChange::CreateTable(Box::new(table.build().unwrap()));
        let schema = Schema::of_changes([keyspace, table]).unwrap();
        let view = ViewEntry {
            sstable: Uuid::from_u128(9),
            table: id.0,
            run: Uuid::from_u128(9),
            tokens: TokenRange { first: Token(-5), last: Token(i64::MAX) },
            begin: None,
            file_bytes: 4096,
            footer_checksum: u64::MAX,
            level: 0,
            shared: false,
        };
        let times = ("2026-11-22".to_owned(), None);
        let made = Manifest::of(&schema, &[id], vec![view], times.clone());
        assert!(Manifest::of(&schema, &[TableId(Uuid::nil())], Vec::new(), times).is_none());
        made.unwrap()
    }

    #[test]
    fn a_manifest_comes_back() {
        let made = manifest();
        let back = Manifest::decode(&made.encode()).unwrap();
        assert_eq!((&back.changes, &back.views), (&made.changes, &made.views));
        assert_eq!(back.encode(), made.encode());
        let text = String::from_utf8(made.encode()).unwrap();
        let file = "00000000-0000-0000-0000-000000000007/00000000-0000-0000-0000-000000000009.sst";
        assert!(text.contains(&format!("\"files\": [\n    \"{file}\"\n  ]")), "{text}");
        assert!(text.contains("\"format\": 1,"), "builds before this one read it");
        assert!(!text.contains("\"run\""), "a file by itself");
        assert!(
            text.contains("\"expires_at\": null,") && !text.contains("expires_at_ms"),
            "{text}"
        );
        let expiry = Some(Expiry { at_ms: 1_790_000_000_000, shown: "soon".to_owned() });
        let goes = Manifest { expiry: expiry.clone(), ..manifest() };
        assert_eq!(Manifest::decode(&goes.encode()).unwrap().expiry, expiry);
        let mut cut = manifest();
        let begin = ViewBegin { key: [1, 0xab][..].into(), position: [0x40, 7][..].into() };
        cut.views[0].begin = Some(Arc::new(begin));
        cut.views[0].run = Uuid::from_u128(8);
        let text = String::from_utf8(cut.encode()).unwrap();
        assert!(text.contains("\"format\": 2,"), "builds before this one refuse it");
        assert!(text.contains("\"01ab\",\n        \"4007\""), "{text}");
        assert_eq!(Manifest::decode(text.as_bytes()).unwrap().views, cut.views);
    }

    /// Before: it was written, and could never be read, listed or restored.
    #[test]
    fn a_manifest_that_is_too_long_to_be_read_is_refused() {
        let made = manifest();
        let bytes = made.encode();
        let long = bytes.len() as u64;
        assert_eq!(made.to_file_within(long), Ok(bytes));
        let refused = made.to_file_within(long - 1).unwrap_err().to_string();
        assert!(refused.contains(&format!("of 1 tables in 1 parts of files takes {long} bytes")));
    }

    #[test]
    fn a_damaged_manifest_is_an_error() {
        let text = String::from_utf8(manifest().encode()).unwrap();
        for (from, to) in [
            ("\"format\": 1,", "\"format\": 3,"),
            ("ffffffffffffffff", "fffffffffffffffff"),
            ("\"last_token\": 9223372036854775807", "\"last_token\": -6"),
            ("\"CreateTable\"", "\"CreateView\""),
        ] {
            assert!(text.contains(from), "{from}");
            let damaged = text.replacen(from, to, 1);
            let decoded = Manifest::decode(damaged.as_bytes());
            assert!(decoded.is_err(), "{to}");
        }
        for cut in 0..text.len() - 1 {
            assert!(Manifest::decode(&text.as_bytes()[..cut]).is_err(), "{cut}");
        }
    }
}

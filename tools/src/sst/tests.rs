//! The tool on files that a test writes, whole and damaged.

use std::fs;

use engine::cursor::{Fragment, Head};
use engine::io::{Faults, SimDisk};
use engine::layout::{Layout, SchemaLog, Secret};
use engine::sstable::{Codec, Writer, WriterConfig};
use model::options::KeyspaceOptions;
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::{self, SchemaEntry, TableBuilder};
use model::{ColumnId, CqlType, Deletion, SchemaChange, TableId, Token};

use super::*;

const TABLE: TableId = TableId(Uuid::from_u128(7));
const SSTABLE: SstableId = SstableId(Uuid::from_u128(9));

/// A data directory with one file: two partitions of `(k int, c text, v int, m map<int, text>)`.
fn data_dir() -> (tempfile::TempDir, PathBuf) {
    let sim = SimDisk::new(1, Faults::default());
    block_on(write(&Disk::Sim(sim.clone())));
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| RelPath::root().join(name);
    fs::write(dir.path().join("schema"), sim.bytes(&path("schema")).unwrap()).unwrap();
    let folder = dir.path().join("tables").join(TABLE.to_string());
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(engine::sstable::file_name(SSTABLE));
    let bytes = sim.bytes(&path(&engine::sstable::file_name(SSTABLE))).unwrap();
    fs::write(&file, bytes).unwrap();
    (dir, file)
}

async fn write(disk: &Disk) {
    Layout::first(1, Uuid::from_u128(1), Secret::NONE).make_directories(disk).await.unwrap();
    let map = CqlType::Map { key: CqlType::Int.into(), value: CqlType::Text.into(), frozen: false };
    let table = TableBuilder::new("ks", "t", TABLE).partition_key("k", CqlType::Int);
    let table = table.and_then(|t| t.clustering("c", CqlType::Text, false));
    let table = table.and_then(|t| t.regular("v", CqlType::Int)).and_then(|t| t.regular("m", map));
    let table = table.and_then(TableBuilder::build).unwrap();
    let column = |name: &str| table.column(name).unwrap().id;
    let (v, m) = (column("v"), column("m"));
    let keyspace =
        SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() };
    let mut log = SchemaLog::create(disk, 1).await.unwrap();
    for (change, number) in
        [keyspace, SchemaChange::CreateTable(Box::new(table))].into_iter().zip(1..)
    {
        let entry = SchemaEntry { number, version: Uuid::nil(), change };
        log.append(&schema::encode(&entry)).await.unwrap();
    }
    let config = WriterConfig {
        table: TABLE,
        codec: Codec::Lz4,
        merged_soon: false,
        block_bytes: 4096,
        filter_fp_chance: 0.01,
        filter_piece_bytes: engine::limits::FILTER_PIECE_BYTES,
        written_forms: false,
        indexed: None,
    };
    let mut writer = Writer::new(disk, &RelPath::root(), SSTABLE, config);
    for k in 1..3i32 {
        let key = k.to_be_bytes();
        let deletion = if k == 2 { Deletion { timestamp: 4, local_s: 5 } } else { Deletion::NONE };
        writer.partition(&Head { token: Token(k.into()), key: &key, deletion, static_row: None });
        let mut bytes = Vec::new();
        put_row(&mut bytes, (v, m), k);
        let mut clustering = Vec::new();
        model::ordered::encode_component(&CqlType::Text, false, b"a", &mut clustering).unwrap();
        writer.fragment(&Fragment::Row { clustering: &clustering, row: RowRef::trusted(&bytes) });
    }
    writer.finish(&async || {}).await.unwrap().unwrap();
}

fn put_row(out: &mut Vec<u8>, (v, m): (ColumnId, ColumnId), k: i32) {
    let mut path = Vec::new();
    model::ordered::encode(&CqlType::Int, &k.to_be_bytes(), &mut path).unwrap();
    let value = k.to_be_bytes();
    let element = Cell { path: Some(&path), ..Cell::live(m, 9, b"x") };
    let mut cells = [Cell::live(v, 9, &value), element];
    cells.sort_by_key(|cell| cell.column);
    let mut builder = RowBuilder::begin(out, &RowHead::bare(9));
    cells.iter().for_each(|cell| {
        builder.cell(cell);
    });
}

/// What the tool prints, and whether all was whole.
fn ran(arguments: &[&str], file: &Path) -> Result<(String, bool), String> {
    let arguments = arguments.iter().copied().map(std::ffi::OsStr::new);
    let all = [std::ffi::OsStr::new("messina-sst")].into_iter().chain(arguments);
    let flags = Flags::try_parse_from(all.chain([file.as_os_str()])).unwrap();
    let mut out = Vec::new();
    let whole = run(&flags, &mut out)?;
    Ok((String::from_utf8(out).unwrap(), whole))
}

#[test]
fn a_file_is_described_verified_and_dumped() {
    let (dir, file) = data_dir();
    let before = fs::read(&file).unwrap();
    let (statistics, whole) = ran(&["statistics"], &file).unwrap();
    assert!(whole && statistics.contains("\nPartitions: 2\nRows: 2\n"), "{statistics}");
    assert!(
        statistics.contains("Maximum timestamp: 9\n") && statistics.contains(&TABLE.to_string())
    );
    let (inspected, _) = ran(&["inspect", "--blocks"], &file).unwrap();
    assert!(
        inspected.contains("  directory\n") && inspected.contains("\nblock 0: "),
        "{inspected}"
    );
    let (verified, whole) = ran(&["verify"], &file).unwrap();
    assert!(whole && verified.ends_with("bytes are as they were written\n"), "{verified}");
    let (dumped, _) = ran(&["dump"], &file).unwrap();
    let json: serde_json::Value = serde_json::from_str(&dumped).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 2);
    assert_eq!(json[0]["partition"]["key"], serde_json::json!([1]));
    assert_eq!(json[1]["partition"]["deletion_info"]["marked_deleted"], 4);
    let row = &json[0]["rows"][0];
    assert_eq!((&row["type"], &row["clustering"]), (&"row".into(), &serde_json::json!(["a"])));
    let cells = row["cells"].as_array().unwrap();
    let cell = |name: &str| cells.iter().find(|cell| cell["name"] == name).unwrap();
    assert_eq!((&cell("v")["value"], &cell("v")["tstamp"]), (&1.into(), &9.into()));
    assert_eq!(cell("m")["path"], serde_json::json!([1]));
    assert_eq!(cell("m")["value"], "x");
    // Away from its schema, its bytes are shown.
    let alone = dir.path().join("tables/..").canonicalize().unwrap();
    fs::remove_file(alone.join("schema")).unwrap();
    let (dumped, _) = ran(&["dump"], &file).unwrap();
    assert!(dumped.contains("\"0x00000001\"") && dumped.contains("column "), "{dumped}");
    assert_eq!(fs::read(&file).unwrap(), before, "nothing is written");
}

/// Every bit of the file, cut at every length and under another name: an error with the file's name, and no panic.
#[test]
fn a_damaged_file_is_an_error_that_names_it() {
    let (_dir, file) = data_dir();
    let whole = fs::read(&file).unwrap();
    let zeros = whole.iter().rposition(|byte| *byte != 0).unwrap();
    let mut refused = 0;
    for at in (0..=zeros).step_by(31) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&file, &bytes).unwrap();
        if bytes[at] != 0 || whole[at] != 0 {
            let (_, is_whole) = ran(&["verify"], &file).unwrap();
            refused += usize::from(!is_whole);
        }
        let _ = ran(&["dump"], &file);
        let _ = ran(&["statistics"], &file);
    }
    assert!(refused > 10, "{refused}");
    for len in (0..whole.len()).step_by(97) {
        fs::write(&file, &whole[..len]).unwrap();
        assert!(!ran(&["verify"], &file).unwrap().1, "{len}");
        assert!(ran(&["dump"], &file).unwrap_err().contains("damaged"), "{len}");
    }
    let other = file.with_file_name("00000000-0000-0000-0000-00000000000a.sst");
    fs::write(&other, &whole).unwrap();
    assert!(!ran(&["verify"], &other).unwrap().1, "the checksums know its name");
    let strange = file.with_file_name("a.sst");
    assert!(!ran(&["verify"], &strange).unwrap().1);
    assert!(ran(&["dump"], &strange).unwrap_err().contains("<uuid>.sst"));
}
